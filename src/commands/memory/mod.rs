//! `backcast memory`: a directory of memories, read, consolidated, asked and checked.

mod consolidate;
pub(super) mod drawn;
mod extract;
pub(super) mod folder;
mod prompt;
mod recall;

use crate::cli::memory::{CheckArgs, CheckShape, ListArgs, MemoryArgs, MemoryWhat, Shape};
use crate::commands::policy::{index_limits, of_memories};
use crate::commands::writing::{check_free, for_people, write_page};
use crate::commands::{Ending, print};
use crate::page::Content;
use anyhow::Result;
use language::{secrets, when};
use memory::check;
use memory::check::Finding;
use serde_json::json;
use table::findings::{annotations, junit};
use table::words::{count, count_of};
use transcript::log::Time;

/// Runs it.
pub fn run(args: &MemoryArgs) -> Result<Ending> {
    // A value that cannot be set is an error whether or not this run comes to use it.
    of_memories(&args.dir().set)?;
    match &args.what {
        MemoryWhat::Extract(args) => extract::run(args),
        MemoryWhat::Recall(args) => recall::run(args),
        MemoryWhat::Dream(args) => consolidate::dream(args),
        MemoryWhat::Undo(args) => consolidate::undo(args),
        MemoryWhat::Prompt(args) => prompt::run(args),
        MemoryWhat::Check(args) => run_check(args),
        MemoryWhat::List(args) => list(args),
    }
}

/// The time, read once for each command.
fn now() -> Time {
    jiff::Timestamp::now().as_millisecond()
}

fn run_check(args: &CheckArgs) -> Result<Ending> {
    let memdir = folder::existing(&args.dir)?;
    let (snapshot, passed) = memdir.read()?;
    let mut findings = check::check(
        &snapshot,
        &passed,
        &index_limits(&of_memories(&args.dir.set)?),
        &secret_in,
    );
    let mut ending = Ending::Done;
    if !args.logs.is_empty() {
        let (more, read) = extract::out_of_date(args, &snapshot)?;
        ending = read;
        findings.extend(more);
        findings.sort();
    }
    let folder = args.dir.dir.as_deref().unwrap_or(memdir.root());
    let prefix = format!("{}/", folder.display());
    let text = match args.format {
        CheckShape::Github => annotations(&findings.iter().map(|finding| finding.told(&prefix)).collect::<Vec<_>>()),
        CheckShape::Junit => junit("backcast memory check", &check::cases(&snapshot, &findings)),
        CheckShape::Text => findings.iter().map(|finding| plain(finding, &prefix)).collect(),
        CheckShape::Json => {
            let object = |finding: &Finding| {
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
            count_of(snapshot.topics.len() as u64, "memory", "memories"),
            count(findings.len() as u64, "finding")
        );
    }
    // Lost input says more than a finding: without it there might be others.
    Ok(match ending {
        Ending::Done if !findings.is_empty() => Ending::Found,
        _ => ending,
    })
}

/// The rule that finds a secret in a text.
fn secret_in(text: &str) -> Option<String> {
    secrets::find(text).first().map(|secret| secret.rule.to_owned())
}

fn plain(finding: &Finding, prefix: &str) -> String {
    format!(
        "{prefix}{}:{}: {}: {}\n",
        finding.file,
        finding.line,
        finding.fault.name(),
        finding.message
    )
}

fn list(args: &ListArgs) -> Result<Ending> {
    check_free(args.html.as_deref(), args.force)?;
    let memdir = folder::existing(&args.dir)?;
    if let Some(path) = &args.html {
        let content = Content {
            name: "memories".to_owned(),
            memories: vec![drawn::directory(&memdir)?],
            ..Content::default()
        };
        write_page(path, args.force, false, content)?;
    }
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.why);
    }
    let now = now();
    let kind = |topic: &memory::topic::Topic| topic.kind().map_or("untyped", |kind| kind.name());
    let text = match args.format {
        Shape::Text => {
            let line = |topic: &memory::topic::Topic| {
                let age = when::age(topic.last_said(), now);
                format!(
                    "- [{}] {} ({age}, said {}x): {}\n",
                    kind(topic),
                    topic.file,
                    topic.confirmed(),
                    topic.description()
                )
            };
            for_people(&snapshot.topics.iter().map(line).collect::<String>())
        }
        Shape::Json => {
            let object = |topic: &memory::topic::Topic| {
                let source = |source: &memory::kinds::Source| {
                    json!({
                        "session": source.session,
                        "uuid": source.uuid,
                        "time": source.time.and_then(when::timestamp),
                    })
                };
                json!({
                    "file": topic.file,
                    "name": topic.name(),
                    "description": topic.description(),
                    "type": topic.kind().map(|kind| kind.name()),
                    "confirmed": topic.confirmed(),
                    "last_said": when::timestamp(topic.last_said()),
                    "sources": topic.sources().iter().map(source).collect::<Vec<_>>(),
                })
            };
            let memories = snapshot.topics.iter().map(object).collect::<Vec<_>>();
            format!("{}\n", json!({"schema_version": 1, "memories": memories}))
        }
    };
    print(text.as_bytes())
}
