//! `backcast memory`: a directory of memories, read, consolidated, asked and checked.

mod consolidate;
pub(super) mod drawn;
mod extract;
pub(super) mod folder;
mod prompt;
mod recall;

use crate::cli::memory::{DocumentFormat, ListArgs, MemoryArgs, MemoryCheckArgs, MemoryCheckFormat, MemoryCommand};
use crate::commands::given::GivenOptions;
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::writing::{ensure_absent, fold_for_terminal, write_page};
use crate::commands::{RunStatus, print};
use crate::page::PageContent;
use anyhow::Result;
use language::{secrets, when};
use memory::check;
use memory::check::MemoryFinding;
use serde_json::json;
use table::findings::{format_annotations, format_junit};
use table::words::{format_count, format_count_with_plural};
use transcript::log::Time;

/// Runs it.
pub fn run(args: &MemoryArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    // A value that cannot be set is an error whether or not this run comes to use it.
    memory_policy(&args.dir().set)?;
    match &args.command {
        MemoryCommand::Extract(args) => extract::run(args, given),
        MemoryCommand::Recall(args) => recall::run(args, given),
        MemoryCommand::Dream(args) => consolidate::dream(args, given),
        MemoryCommand::Undo(args) => consolidate::undo(args),
        MemoryCommand::Prompt(args) => prompt::run(args),
        MemoryCommand::Check(args) => run_check(args),
        MemoryCommand::List(args) => run_list(args),
    }
}

/// The time, read once for each command.
fn now() -> Time {
    jiff::Timestamp::now().as_millisecond()
}

fn run_check(args: &MemoryCheckArgs) -> Result<RunStatus> {
    let memdir = folder::open_existing(&args.dir)?;
    let (snapshot, passed) = memdir.read()?;
    let mut findings = check::check_snapshot(
        &snapshot,
        &passed,
        &index_limits(&memory_policy(&args.dir.set)?),
        &find_secret_rule,
    );
    let mut ending = RunStatus::Done;
    if !args.logs.is_empty() {
        let (more, read) = extract::find_out_of_date(args, &snapshot)?;
        ending = read;
        findings.extend(more);
        findings.sort();
    }
    let folder = args.dir.dir.as_deref().unwrap_or(memdir.root());
    let prefix = format!("{}/", folder.display());
    let text = match args.format {
        MemoryCheckFormat::Github => format_annotations(
            &findings
                .iter()
                .map(|finding| finding.to_check_finding(&prefix))
                .collect::<Vec<_>>(),
        ),
        MemoryCheckFormat::Junit => format_junit("backcast memory check", &check::test_cases(&snapshot, &findings)),
        MemoryCheckFormat::Text => findings.iter().map(|finding| finding_line(finding, &prefix)).collect(),
        MemoryCheckFormat::Json => {
            let object = |finding: &MemoryFinding| {
                json!({
                    "file": finding.file,
                    "line": finding.line,
                    "fault": finding.fault.name(),
                    "message": finding.message,
                })
            };
            let findings = findings.iter().map(object).collect::<Vec<_>>();
            format!("{}\n", json!({"schema_version": 1, "findings": findings}))
        }
    };
    print(text.as_bytes())?;
    if !args.quiet {
        eprintln!(
            "{}, {}",
            format_count_with_plural(snapshot.topics.len() as u64, "memory", "memories"),
            format_count(findings.len() as u64, "finding")
        );
    }
    // Lost input says more than a finding: without it there might be others.
    Ok(match ending {
        RunStatus::Done if !findings.is_empty() => RunStatus::Found,
        _ => ending,
    })
}

/// The rule that finds a secret in a text.
fn find_secret_rule(text: &str) -> Option<String> {
    secrets::find(text).first().map(|secret| secret.rule.to_owned())
}

fn finding_line(finding: &MemoryFinding, prefix: &str) -> String {
    format!(
        "{prefix}{}:{}: {}: {}\n",
        finding.file,
        finding.line,
        finding.fault.name(),
        finding.message
    )
}

fn run_list(args: &ListArgs) -> Result<RunStatus> {
    ensure_absent(args.html.as_deref(), args.force)?;
    let memdir = folder::open_existing(&args.dir)?;
    if let Some(path) = &args.html {
        let content = PageContent {
            name: "memories".to_owned(),
            memories: vec![drawn::directory_json(&memdir)?],
            ..PageContent::default()
        };
        write_page(path, args.force, false, content)?;
    }
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.reason);
    }
    let now = now();
    let kind = |topic: &memory::topic::Topic| topic.kind().map_or("untyped", |kind| kind.name());
    let text = match args.format {
        DocumentFormat::Text => {
            let line = |topic: &memory::topic::Topic| {
                let age = when::format_age(topic.last_said(), now);
                format!(
                    "- [{}] {} ({age}, said {}x): {}\n",
                    kind(topic),
                    topic.file,
                    topic.confirmation_count(),
                    topic.description()
                )
            };
            fold_for_terminal(&snapshot.topics.iter().map(line).collect::<String>())
        }
        DocumentFormat::Json => {
            let object = |topic: &memory::topic::Topic| {
                let source = |source: &memory::kinds::MemorySource| {
                    json!({
                        "session": source.session,
                        "uuid": source.uuid,
                        "time": source.time.and_then(when::format_timestamp),
                    })
                };
                json!({
                    "file": topic.file,
                    "name": topic.name(),
                    "description": topic.description(),
                    "type": topic.kind().map(|kind| kind.name()),
                    "confirmed": topic.confirmation_count(),
                    "last_said": when::format_timestamp(topic.last_said()),
                    "sources": topic.sources().iter().map(source).collect::<Vec<_>>(),
                })
            };
            let memories = snapshot.topics.iter().map(object).collect::<Vec<_>>();
            format!("{}\n", json!({"schema_version": 1, "memories": memories}))
        }
    };
    print(text.as_bytes())
}
