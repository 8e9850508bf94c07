//! Small logs for the tests of this folder, written as one word per record.

use crate::audit::boundaries::AuditInput;
use crate::policy::Policy;
use crate::policy::presets::PolicySet;
use crate::prices::PriceTable;
use crate::sim::trace::build_trace;
use crate::tokens::ratios::RatioTable;
use crate::windows::{ProjectWindows, WindowQuery, infer_windows};
use transcript::bytes::LineConsumer;
use transcript::thread::{Session, SessionLog, thread};
use transcript::walk::Walker;

/// Builds a log from words, ten seconds apart: `u` is a prompt, `a:INPUT:OUTPUT:MODEL` a response (of Opus 4.5 if no model
/// is named), `commit:INPUT:OUTPUT:MODEL` a response that signs a commit as Opus 5 with a million tokens, `large` and
/// `other` answers of `/model` with and without a size, `auto:TOKENS` and
/// `manual:TOKENS` are boundaries (with `:took` they have a duration, with `:kept` a preserved record),
/// `micro:TOKENS:SAVED` is a micro-compaction, `s` a summary, `lost` a prompt whose parent is missing, and `command` the
/// typed `/compact`, dated five seconds before the record in front of it.
pub fn script_log(version: &str, script: &str) -> SessionLog {
    let mut text = String::new();
    let mut parent = "null".to_owned();
    for (at, word) in script.split_whitespace().enumerate() {
        let fields = word.split(':').collect::<Vec<_>>();
        let number = |field: usize| fields.get(field).copied().unwrap_or_default();
        let metadata = |trigger: &str| {
            let more = match number(2) {
                "took" => r#","durationMs":7000"#,
                "kept" => r#","preservedMessages":{"uuids":["r0"]}"#,
                _ => "",
            };
            format!(
                r#""type":"system","subtype":"compact_boundary","logicalParentUuid":{parent},"compactMetadata":{{"trigger":"{trigger}","preTokens":{}{more}}}"#,
                number(1)
            )
        };
        let record = match fields[0] {
            "u" | "lost" => r#""type":"user","message":{"content":"please"}"#.to_owned(),
            "command" => r#""type":"user","message":{"content":"<command-name>/compact</command-name>"}"#.to_owned(),
            "s" => r#""type":"user","isCompactSummary":true,"message":{"content":"summary"}"#.to_owned(),
            "a" | "commit" => {
                let model = fields.get(3).copied().unwrap_or("claude-opus-4-5-20251101");
                let content = match fields[0] {
                    "a" => r#"{"type":"text","text":"ok"}"#.to_owned(),
                    _ => format!(
                        r#"{{"type":"tool_use","id":"t{at}","name":"Bash","input":{{"command":"git commit -m 'Co-Authored-By: Claude Opus 5 (1M context) <n@a>'"}}}}"#
                    ),
                };
                format!(
                    r#""type":"assistant","message":{{"id":"m{at}","model":"{model}","stop_reason":"end_turn","usage":{{"input_tokens":{},"output_tokens":{}}},"content":[{content}]}}"#,
                    number(1),
                    number(2)
                )
            }
            "large" => r#""type":"system","subtype":"local_command","content":"<local-command-stdout>Set model to \u001b[1mOpus 5 (1M context)\u001b[22m</local-command-stdout>""#.to_owned(),
            "other" => r#""type":"user","message":{"content":"<local-command-stdout>Set model to \u001b[1mOpus 5\u001b[22m</local-command-stdout>"}"#.to_owned(),
            "micro" => format!(
                r#""type":"system","subtype":"microcompact_boundary","microcompactMetadata":{{"trigger":"auto","preTokens":{},"tokensSaved":{},"compactedToolIds":["t1","t2"]}}"#,
                number(1),
                number(2)
            ),
            trigger => metadata(trigger),
        };
        let above = match fields[0] {
            "auto" | "manual" => "null",
            "lost" => "\"gone\"",
            _ => &parent,
        };
        let seconds = match fields[0] {
            "command" => at * 10 - 25,
            _ => at * 10,
        };
        text.push_str(&format!(
            "{{\"uuid\":\"r{at}\",\"parentUuid\":{above},\"sessionId\":\"S\",\"version\":\"{version}\",\"timestamp\":\"2026-01-01T00:{:02}:{:02}.000Z\",{record}}}\n",
            seconds / 60,
            seconds % 60
        ));
        parent = format!("\"r{at}\"");
    }
    let mut walker = Walker::new(1 << 20, &|_| ());
    walker.take_lines(text.as_bytes(), 0);
    SessionLog {
        path: "log".into(),
        log: walker.into_builder().finish(),
        copied: Vec::new(),
        lines: Default::default(),
    }
}

/// Calls `work` with the main chain of a log, the recorded policies, and the same policies with one more setting.
pub fn with_chain<R>(
    part: SessionLog,
    setting: &str,
    work: impl FnOnce(&AuditInput<'_>, &PolicySet, &[&Policy]) -> R,
) -> R {
    let parts = [part];
    let session = Session::new("S", &parts);
    let threaded = thread(&session);
    let trace = build_trace(&session, &threaded.chains[0], RatioTable::built_in());
    let usual = PolicySet::preset("recorded").unwrap();
    let mut chosen = usual.clone();
    if !setting.is_empty() {
        chosen.assign(setting, "--set").unwrap();
    }
    let versions = || trace.versions.iter().copied().map(Some);
    let policies = versions().map(|version| usual.for_version(version)).collect::<Vec<_>>();
    let with_setting = versions()
        .map(|version| chosen.for_version(version))
        .collect::<Vec<_>>();
    let prices = PriceTable::built_in();
    let prices = trace.models.iter().map(|model| prices.find(model)).collect::<Vec<_>>();
    let query = WindowQuery {
        policies: &policies,
        prices: &prices,
        siblings: &ProjectWindows::default(),
    };
    let windows = infer_windows(&trace, &query);
    let chain = AuditInput {
        trace: &trace,
        policies: &policies,
        prices: &prices,
        windows: &windows,
    };
    work(&chain, &usual, &with_setting)
}
