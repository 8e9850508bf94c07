//! Logs of other agents: every call counts once over forks, spawned threads and copies, and what cannot be priced is named.

use crate::fixture::{Figures, Fixture, figures};
use serde_json::{Value, json};

fn line(second: u32, kind: &str, payload: Value) -> Value {
    json!({"timestamp": format!("2026-05-05T16:{:02}:{:02}.000Z", second / 60, second % 60), "type": kind, "payload": payload})
}

fn prompt(second: u32, text: &str) -> Value {
    let content = json!([{"type": "input_text", "text": text}]);
    line(
        second,
        "response_item",
        json!({"type": "message", "role": "user", "content": content}),
    )
}

/// A response with its row: `calls` calls of 1,000 input tokens (600 cached) and 100 output tokens so far.
fn response(second: u32, calls: u64) -> [Value; 2] {
    let content = json!([{"type": "output_text", "text": format!("answer {calls}")}]);
    let usage = |calls: u64| {
        json!({"input_tokens": 1000 * calls, "cached_input_tokens": 600 * calls, "output_tokens": 100 * calls,
               "reasoning_output_tokens": 40 * calls, "total_tokens": 1100 * calls})
    };
    let info = json!({"total_token_usage": usage(calls), "last_token_usage": usage(1), "model_context_window": 258400});
    [
        line(
            second,
            "response_item",
            json!({"type": "message", "role": "assistant", "content": content}),
        ),
        line(second, "event_msg", json!({"type": "token_count", "info": info})),
    ]
}

/// A thread with a head, a model, and a prompt and response per call.
fn thread(meta: Value, start: u32, calls: std::ops::RangeInclusive<u64>, words: &str) -> Vec<Value> {
    let mut lines = vec![
        line(start, "session_meta", meta),
        line(start, "turn_context", json!({"model": "gpt-5.5", "cwd": "/w"})),
    ];
    for call in calls {
        lines.push(prompt(start, &format!("{words} {call}")));
        lines.extend(response(start, call));
    }
    lines
}

fn meta(id: &str, more: Value) -> Value {
    let mut meta = json!({"id": id, "cwd": "/w", "cli_version": "0.142.0", "source": "cli"});
    if let (Some(meta), Value::Object(more)) = (meta.as_object_mut(), more) {
        meta.extend(more);
    }
    meta
}

/// A thread that starts with the lines of another one.
fn fork(id: &str, more: Value, start: u32, copied: &[Value], own: Vec<Value>, is_time_kept: bool) -> Vec<Value> {
    let mut lines = vec![line(start, "session_meta", meta(id, more))];
    lines.extend(copied.iter().cloned().map(|mut line| {
        if !is_time_kept {
            line["timestamp"] = json!(format!("2026-05-05T16:{:02}:{:02}.000Z", start / 60, start % 60));
        }
        line
    }));
    lines.extend(own);
    lines
}

/// Figures of so many calls: responses, input, output, cache reads, writes.
fn of_calls(calls: u64) -> Figures {
    [calls, 400 * calls, 100 * calls, 600 * calls, 0, 0]
}

struct Threads(Fixture);

impl Threads {
    fn new() -> Threads {
        Threads(Fixture::new())
    }

    fn add(&self, name: &str, lines: &[Value]) -> &Threads {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        self.0.write(&format!("logs/rollout-{name}.jsonl"), text);
        self
    }

    fn stats(&self) -> Value {
        let cold = self.0.stats("logs", &[]);
        assert_eq!(self.0.stats("logs", &[])["totals"], cold["totals"], "from the cache");
        assert_eq!(self.0.stats("logs", &["--no-cache"])["totals"], cold["totals"]);
        cold
    }

    #[track_caller]
    fn check(&self, calls: u64) {
        assert_eq!(figures(&self.stats()["totals"]), of_calls(calls));
    }
}

#[test]
fn a_fork_repeats_no_call() {
    for is_time_kept in [true, false] {
        let parent = thread(meta("p", json!({})), 0, 1..=3, "go");
        let own = thread(meta("f", json!({})), 100, 4..=5, "fork")[1..].to_vec();
        let child = fork("f", json!({"forked_from_id": "p"}), 100, &parent, own, is_time_kept);
        let logs = Threads::new();
        logs.add("1", &parent).add("2", &child).check(5);
        let stats = logs.stats();
        assert_eq!(stats["input"]["sessions"], 2);
        let rows = stats["rows"].as_array().unwrap().iter();
        let calls = rows.map(|row| row["responses"].as_u64().unwrap());
        assert_eq!(calls.collect::<Vec<_>>(), [3, 2]);
    }
}

#[test]
fn a_fork_of_a_fork_repeats_no_call() {
    let parent = thread(meta("p", json!({})), 0, 1..=2, "go");
    let own = |id: &str, start, calls| thread(meta(id, json!({})), start, calls, id)[2..].to_vec();
    let child = fork(
        "f",
        json!({"forked_from_id": "p"}),
        100,
        &parent,
        own("f", 100, 3..=4),
        false,
    );
    // The head of the parent is not always among the copies.
    for first_copy in [0, 1] {
        let copies = &child[first_copy..];
        let grandchild = fork(
            "g",
            json!({"forked_from_id": "f"}),
            200,
            copies,
            own("g", 200, 5..=5),
            false,
        );
        Threads::new()
            .add("1", &parent)
            .add("2", &child)
            .add("3", &grandchild)
            .check(5);
    }
}

#[test]
fn a_spawned_thread_counts_its_own_calls_only() {
    let parent = thread(meta("p", json!({})), 0, 1..=2, "go");
    let spawn = json!({"source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}});
    // The client keeps prompts and rows of the parent, not its answers.
    let is_kept = |line: &&Value| line["payload"]["role"] != "assistant" && line["type"] != "turn_context";
    let copies = parent.iter().filter(is_kept).cloned().collect::<Vec<_>>();
    let own = thread(meta("s", json!({})), 50, 3..=3, "task")[1..].to_vec();
    let logs = Threads::new();
    logs.add("1", &parent)
        .add("2", &fork("s", spawn, 50, &copies, own, false))
        .check(3);
    let totals = &logs.stats()["totals"];
    assert_eq!(totals["subagent_responses"], 1);
    assert_eq!(
        logs.stats()["input"]["sessions"],
        1,
        "it belongs to the session of its parent"
    );
}

#[test]
fn threads_that_say_the_same_are_not_copies() {
    let one = thread(meta("a", json!({})), 0, 1..=2, "go");
    let other = thread(meta("b", json!({})), 0, 1..=2, "go");
    Threads::new().add("1", &one).add("2", &other).check(4);
}

#[test]
fn a_rolled_back_turn_is_billed_once() {
    let mut lines = thread(meta("p", json!({})), 0, 1..=2, "go");
    lines.push(line(
        9,
        "event_msg",
        json!({"type": "thread_rolled_back", "num_turns": 1}),
    ));
    lines.push(prompt(10, "again"));
    lines.extend(response(10, 3));
    let logs = Threads::new();
    logs.add("1", &lines).check(3);
    assert_eq!(logs.stats()["totals"]["rewound_responses"], 1);
}

#[test]
fn models_have_prices_or_are_named() {
    let mut lines = thread(meta("p", json!({})), 0, 1..=1, "go");
    let logs = Threads::new();
    // 400 x 5 + 600 x 0.5 + 100 x 30 dollars a million.
    assert_eq!(logs.add("1", &lines).stats()["totals"]["cost_micro_usd"], 5300);
    lines[1]["payload"]["model"] = json!("gpt-5.99");
    let stats = Threads::new().add("1", &lines).stats();
    assert_eq!(stats["totals"]["cost_micro_usd"], Value::Null);
    assert_eq!(stats["totals"]["unpriced_responses"], 1);
}

#[test]
fn exports_in_folders_are_found_and_other_documents_are_not() {
    let fixture = Fixture::new();
    let tokens = json!({"input": 400, "output": 60, "reasoning": 40, "cache": {"read": 600, "write": 0}});
    let export = json!({"info": {"id": "ses_1", "directory": "/w"}, "messages": [
        {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "go"}]},
        {"info": {"id": "msg_2", "role": "assistant", "modelID": "m", "tokens": tokens, "time": {"created": 2}},
         "parts": [{"type": "text", "text": "done"}]}]});
    fixture.write("logs/ses_1.json", serde_json::to_string_pretty(&export).unwrap());
    fixture.write("logs/package.json", r#"{"name": "x", "info": {}}"#);
    let stats = fixture.stats("logs", &[]);
    assert_eq!(figures(&stats["totals"]), of_calls(1));
    assert_eq!(stats["input"]["logs"], 1);
}

/// A session of Codex that compacts: prompts and rows with these contexts and this reasoning, and a compaction before the last.
fn compacting(contexts: &[(u64, u64)], is_manual: bool) -> Vec<Value> {
    let mut lines = thread(meta("p", json!({})), 0, 1..=1, "")[..2].to_vec();
    let (mut total, mut second) = (0, 1);
    for (at, (context, reasoning)) in contexts.iter().enumerate() {
        second += 1;
        if at + 1 == contexts.len() {
            let history = json!([{"type": "compaction", "encrypted_content": "REDACTED"}]);
            lines.push(line(second, "event_msg", json!({"type": "task_started"})));
            lines.push(line(
                second,
                "compacted",
                json!({"message": "", "replacement_history": history}),
            ));
            if is_manual {
                lines.push(line(second, "event_msg", json!({"type": "task_complete"})));
            }
        }
        lines.push(prompt(second, &format!("prompt {at}")));
        lines.push(line(
            second,
            "response_item",
            json!({"type": "reasoning", "summary": [], "encrypted_content": "REDACTED"}),
        ));
        let content = json!([{"type": "output_text", "text": "done"}]);
        lines.push(line(
            second,
            "response_item",
            json!({"type": "message", "role": "assistant", "content": content}),
        ));
        total += context;
        let usage = |total: u64| {
            json!({"input_tokens": total - reasoning - 100, "cached_input_tokens": 0, "output_tokens": reasoning + 100,
                   "reasoning_output_tokens": reasoning, "total_tokens": total})
        };
        let info = json!({"total_token_usage": usage(total), "last_token_usage": usage(*context),
                          "model_context_window": 258400});
        lines.push(line(second, "event_msg", json!({"type": "token_count", "info": info})));
    }
    lines
}

fn verdicts(lines: &[Value]) -> Vec<String> {
    let logs = Threads::new();
    logs.add("1", lines);
    let found = logs.0.run(["validate", "logs", "-f", "json", "-q"]).success().json();
    let cases = found["cases"].as_array().unwrap().iter();
    cases.map(|case| case["verdict"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn masked_reasoning_leaves_a_margin_that_the_threshold_must_lie_in() {
    // 244,800 is due. The last usage says 235,000; reasoning of earlier turns 10,000 tokens, counted as 12,500 at most.
    assert_eq!(
        verdicts(&compacting(
            &[(100_000, 5_000), (200_000, 5_000), (235_000, 0), (20_000, 0)],
            false
        )),
        ["within-margin"]
    );
    // Usage alone is above it.
    assert_eq!(
        verdicts(&compacting(&[(100_000, 0), (245_000, 0), (20_000, 0)], false)),
        ["exact"]
    );
    // Nothing explains it.
    assert_eq!(
        verdicts(&compacting(&[(100_000, 0), (200_000, 0), (20_000, 0)], false)),
        ["missed"]
    );
    // Reasoning of the same turn does not count, and a call before the compaction was due.
    assert_eq!(
        verdicts(&compacting(&[(245_000, 0), (200_000, 0), (20_000, 0)], false)),
        ["early"]
    );
}

#[test]
fn a_compaction_in_a_turn_of_its_own_was_asked_for() {
    let logs = Threads::new();
    logs.add("1", &compacting(&[(100_000, 0), (120_000, 0), (20_000, 0)], true));
    let rows = logs.stats()["rows"].clone();
    assert_eq!(
        (&rows[0]["compactions_manual"], &rows[0]["compactions_auto"]),
        (&json!(1), &json!(0))
    );
}

/// An export of OpenCode with calls of these contexts; a compaction stands before the call after each one that reaches `due`.
fn export(id: usize, contexts: &[u64], due: u64) -> (Value, usize) {
    let (mut messages, mut boundaries) = (Vec::new(), 0);
    for (at, context) in contexts.iter().enumerate() {
        let time = 1_780_000_000_000u64 + 1000 * at as u64;
        let info = |name: &str, role: &str| {
            json!({"id": format!("msg_{id}_{at}_{name}"), "role": role, "modelID": "claude-sonnet-4-5",
                                                    "time": {"created": time}})
        };
        let tokens = |total: u64| json!({"input": total / 2, "output": 60, "reasoning": 40, "cache": {"read": total - total / 2 - 100, "write": 0}});
        messages.push(json!({"info": info("ask", "user"), "parts": [{"type": "text", "text": format!("step {at}")}]}));
        let mut answer = info("answer", "assistant");
        answer["tokens"] = tokens(*context);
        messages.push(json!({"info": answer, "parts": [{"type": "step-start"}, {"type": "text", "text": "done"}, {"type": "step-finish"}]}));
        if *context >= due && at + 1 < contexts.len() {
            boundaries += 1;
            messages.push(json!({"info": info("compact", "user"), "parts": [{"type": "compaction", "auto": true, "overflow": false}]}));
            let mut summary = info("summary", "assistant");
            summary["summary"] = json!(true);
            summary["tokens"] = tokens(context + 500);
            messages.push(json!({"info": summary, "parts": [{"type": "text", "text": "What was done so far."}]}));
        }
    }
    let export =
        json!({"info": {"id": format!("ses_{id}"), "directory": "/w", "version": "1.18.4"}, "messages": messages});
    (export, boundaries)
}

#[test]
fn compactions_of_opencode_are_predicted_at_the_very_call() {
    let fixture = Fixture::new();
    let mut recorded = 0;
    for id in 0..40usize {
        // A window of 200,000 less 32,000 for the output: due at 168,000. Contexts grow by a step of each session's own, and
        // fall to 20,000 after a compaction; some sessions end at the last token below it.
        let step = 9_000 + 1_700 * id as u64;
        let mut contexts = vec![30_000];
        for _ in 0..24 {
            let last = contexts[contexts.len() - 1];
            contexts.push(if last >= 168_000 { 20_000 } else { last + step });
        }
        if id % 8 == 0 {
            contexts = vec![100_000, 167_999, 167_999, 168_000, 20_000];
        }
        let (export, boundaries) = export(id, &contexts, 168_000);
        recorded += boundaries;
        fixture.write(&format!("logs/ses_{id}.json"), export.to_string());
    }
    let found = fixture.run(["validate", "logs", "-f", "json", "-q"]).success().json();
    let auto = &found["auto"];
    assert!(recorded > 60, "{recorded}");
    assert_eq!(
        (auto["exact"].as_u64(), auto["recorded"].as_u64()),
        (Some(recorded as u64), Some(recorded as u64))
    );
    assert_eq!(auto["spurious"], 0, "{auto}");
}

#[test]
fn an_input_limit_of_opencode_is_reached_before_the_context() {
    // gpt-5: 272,000 of input in a context of 400,000; 20,000 are reserved, so 252,000 are due.
    let fixture = Fixture::new();
    let mut recorded = 0;
    for (id, contexts) in [
        vec![100_000, 251_999, 251_999, 252_000, 20_000],
        vec![100_000, 245_000, 270_000, 30_000],
        vec![200_000, 240_001, 251_000],
    ]
    .iter()
    .enumerate()
    {
        let (export, boundaries) = export(id, contexts, 252_000);
        recorded += boundaries as u64;
        let text = export.to_string().replace("claude-sonnet-4-5", "gpt-5");
        fixture.write(&format!("logs/ses_{id}.json"), text);
    }
    let found = fixture.run(["validate", "logs", "-f", "json", "-q"]).success().json();
    let auto = &found["auto"];
    assert_eq!(
        (recorded, auto["exact"].as_u64(), auto["spurious"].as_u64()),
        (2, Some(2), Some(0)),
        "{auto}"
    );
}

#[test]
fn the_threshold_of_an_unlisted_model_follows_from_its_sessions() {
    // Nothing lists this model. Sessions compact at 96,500 and more, and not at 95,900.
    let fixture = Fixture::new();
    for (id, contexts) in [
        vec![50_000, 95_900, 97_000, 12_000],
        vec![60_000, 96_500, 12_000, 95_000, 99_000, 12_000],
    ]
    .iter()
    .enumerate()
    {
        let text = export(id, contexts, 96_000)
            .0
            .to_string()
            .replace("claude-sonnet-4-5", "nightjar-9");
        fixture.write(&format!("logs/ses_{id}.json"), text);
    }
    let auto = |logs: &str| fixture.run(["validate", logs, "-f", "json", "-q"]).success().json()["auto"].clone();
    let all = auto("logs");
    assert_eq!((&all["exact"], &all["spurious"]), (&json!(3), &json!(0)), "{all}");
    // One compaction shows no threshold with which another one could be compared.
    let one = auto("logs/ses_0.json");
    assert_eq!((&one["recorded"], &one["decidable"]), (&json!(1), &json!(0)), "{one}");
}

/// Logs of two agents: a session of Codex with two calls, and two sessions of Pi with one call each.
fn write_two_agents(fixture: &Fixture, codex: &str, pi: &str) {
    let lines = thread(meta("p", json!({})), 0, 1..=2, "go");
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    fixture.write(&format!("{codex}/rollout-1.jsonl"), text);
    for id in ["x", "y"] {
        let usage = json!({"input": 400, "output": 100, "cacheRead": 600, "cacheWrite": 0, "totalTokens": 1100});
        let content = json!([{"type": "text", "text": "done"}]);
        let message = json!({"role": "assistant", "content": content, "model": "m", "usage": usage, "stopReason": "stop",
                             "timestamp": 1_778_000_000_000u64});
        let lines = [
            json!({"type": "session", "version": 3, "id": id, "timestamp": "2026-05-05T16:00:00.000Z", "cwd": "/w"}),
            json!({"type": "message", "id": format!("{id}1"), "parentId": null, "timestamp": "2026-05-05T16:00:01.000Z",
                   "message": {"role": "user", "content": "go", "timestamp": 1_777_999_000_000u64}}),
            json!({"type": "message", "id": format!("{id}2"), "parentId": format!("{id}1"),
                   "timestamp": "2026-05-05T16:00:02.000Z", "message": message}),
        ];
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        fixture.write(&format!("{pi}/{id}.jsonl"), text);
    }
}

#[test]
fn agents_are_a_filter_a_group_and_a_column() {
    let fixture = Fixture::new();
    write_two_agents(&fixture, "logs", "logs");
    let stats = fixture.stats("logs", &["--by", "agent"]);
    let rows = stats["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| (row["agent"].as_str().unwrap(), row["sessions"].as_u64(), figures(row)));
    let mut rows = rows.collect::<Vec<_>>();
    rows.sort_unstable();
    assert_eq!(rows, [("codex", Some(1), of_calls(2)), ("pi", Some(2), of_calls(2))]);
    // Sub-agents keep a column of their own.
    let apart = fixture.stats("logs", &["--by", "agent", "--subagents"]);
    assert_eq!(
        (&apart["rows"][0]["agent"], &apart["rows"][0]["subagent"]),
        (&json!("codex"), &json!(""))
    );
    for (filter, sessions, label) in [
        (&["--agent", "pi"][..], 2, "agent pi"),
        (&["--agent", "codex"], 1, "agent codex"),
        (&["--agent", "codex", "--agent", "pi"], 3, "agent codex or pi"),
    ] {
        let stats = fixture.stats("logs", filter);
        assert_eq!(
            (&stats["input"]["sessions"], &stats["selection"]),
            (&json!(sessions), &json!(label))
        );
        let known = stats["rows"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row["coding_agent"].as_str().unwrap());
        assert!(
            known.eq(stats["rows"]
                .as_array()
                .unwrap()
                .iter()
                .map(|row| { if row["session"] == "p" { "codex" } else { "pi" } }))
        );
        let of = |command: &str, key: &str| {
            let command = [&[command, "logs", "-f", "json", "-q"], filter].concat();
            fixture.run(command).success().json()["totals"][key].as_u64()
        };
        assert_eq!(of("audit", "sessions"), Some(sessions));
        let replayed = fixture
            .run([&["replay", "logs", "-f", "csv", "-q"], filter].concat())
            .success();
        assert_eq!(
            replayed.text().lines().count() as u64,
            sessions + 1,
            "{}",
            replayed.text()
        );
    }
    let refused = fixture.run(["stats", "logs", "--agent", "gemini"]).ended(2);
    assert!(
        refused
            .stderr
            .contains("[possible values: claude, codex, opencode, pi]"),
        "{}",
        refused.stderr
    );
}

#[test]
fn agents_with_the_same_window_share_no_recommendation() {
    let fixture = Fixture::new();
    write_two_agents(&fixture, "logs", "logs");
    let command = [
        "tune",
        "logs",
        "--window=272000",
        "--vary=window.threshold=100000",
        "-f",
        "json",
        "-q",
    ];
    let tuned = fixture.run(command).success().json();
    let windows = tuned["windows"].as_array().unwrap().iter();
    let windows = windows.map(|window| {
        let of = |key: &str| window[key].as_u64().unwrap();
        let agent = window["coding_agent"].as_str().unwrap();
        (
            agent,
            of("window_tokens"),
            of("usual_threshold"),
            of("sessions"),
            window["paste_into"].clone(),
        )
    });
    let mut windows = windows.collect::<Vec<_>>();
    windows.sort_by_key(|window| window.0);
    let expected = [
        ("codex", 272_000, 244_800, 1, json!("~/.codex/config.toml")),
        ("pi", 272_000, 255_616, 2, json!("~/.pi/agent/settings.json")),
    ];
    assert_eq!(windows, expected);
}

#[test]
fn without_a_path_only_the_folders_of_the_chosen_agent_are_read() {
    let fixture = Fixture::new();
    write_two_agents(
        &fixture,
        "home/.codex/sessions/2026/05/05",
        "home/.pi/agent/sessions/--w--",
    );
    let logs = |agent: &[&str]| {
        let command = [&["stats", "-f", "json", "-q"], agent].concat();
        fixture.run(command).success().json()["input"]["logs"].as_u64()
    };
    assert_eq!(
        (logs(&[]), logs(&["--agent=codex"]), logs(&["--agent=pi"])),
        (Some(3), Some(1), Some(2))
    );
    let refused = fixture.run(["stats", "--agent=opencode"]).ended(2);
    assert!(refused.stderr.contains("opencode export"), "{}", refused.stderr);
    let refused = fixture.run(["stats", "--agent=claude"]).ended(2);
    assert!(!refused.stderr.contains(".codex/sessions"), "{}", refused.stderr);
}

#[test]
fn without_a_path_the_folders_of_all_agents_are_read() {
    let fixture = Fixture::new();
    let lines = thread(meta("p", json!({})), 0, 1..=2, "go");
    let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    fixture.write("home/.codex/sessions/2026/05/05/rollout-1.jsonl", &text);
    fixture.write("home/.codex/archived_sessions/rollout-1.jsonl", &text);
    let stats = fixture.run(["stats", "-f", "json", "-q"]).success().json();
    assert_eq!(
        figures(&stats["totals"]),
        of_calls(2),
        "the archived copy repeats no call"
    );
    assert_eq!(stats["input"]["logs"], 2);
}
