//! Memories as a page shows them: by type with their sources, and what was turned down or left, with the reason.

use anyhow::Result;
use language::when;
use memory::extract::{Extraction, Rejection};
use memory::kinds::{Candidate, MemorySource};
use memory::memdir::Memdir;
use memory::topic::Topic;
use serde_json::{Value, json};

/// A memory directory, with what its runs took out of it.
pub fn directory_json(memdir: &Memdir) -> Result<Value> {
    let (snapshot, passed) = memdir.read()?;
    let memory = |topic: &Topic| {
        json!({
            "type": topic.kind().map(|kind| kind.name()),
            "title": topic.name(),
            "hook": topic.description(),
            "body": topic.body(),
            "file": topic.file,
            "confirmed": topic.confirmation_count(),
            "last_said": when::format_timestamp(topic.last_said()),
            "sources": topic.sources().iter().map(source_json).collect::<Vec<_>>(),
        })
    };
    let journals = memdir.journals();
    let left = journals.iter().flat_map(|journal| {
        let entries = journal.changes.iter().filter(|entry| entry.after.is_none());
        entries.map(|entry| {
            json!({
                "file": entry.file,
                "action": entry.action,
                "reason": entry.reason,
                "verb": journal.verb,
                "time": journal.time,
            })
        })
    });
    let passed = passed
        .iter()
        .map(|passed| json!({"file": passed.file, "reason": passed.reason}));
    Ok(json!({
        "name": memdir.root().display().to_string(),
        "memories": snapshot.topics.iter().map(memory).collect::<Vec<_>>(),
        "left": left.collect::<Vec<_>>(),
        "passed": passed.collect::<Vec<_>>(),
    }))
}

/// What extraction found, and what it turned down.
pub fn extraction_json(project: &str, found: &Extraction) -> Value {
    json!({
        "name": project,
        "memories": found.candidates.iter().map(candidate_json).collect::<Vec<_>>(),
        "rejected": found.rejections.iter().map(rejection_json).collect::<Vec<_>>(),
        "secrets_dropped": found.secrets_dropped,
    })
}

/// Where something was said.
pub fn source_json(source: &MemorySource) -> Value {
    let time = source
        .time
        .and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    // A record without an id is named by its session and line.
    let line = source
        .uuid
        .strip_prefix(&source.session)
        .and_then(|rest| rest.strip_prefix(':'));
    let line = line.and_then(|line| line.parse::<u64>().ok());
    let mut object = json!({
        "session": source.session,
        "uuid": if line.is_some() { "" } else { source.uuid.as_str() },
        "time": time.map(|time| format!("{time:.3}")),
    });
    if let Some(line) = line {
        object["line"] = line.into();
    }
    object
}

/// What was found.
pub fn candidate_json(candidate: &Candidate) -> Value {
    json!({
        "type": candidate.kind.name(),
        "title": candidate.title,
        "hook": candidate.hook,
        "body": candidate.body,
        "confidence": candidate.confidence,
        "origin": candidate.origin.name(),
        "project": candidate.project,
        "sources": candidate.sources.iter().map(source_json).collect::<Vec<_>>(),
    })
}

/// What was turned down.
pub fn rejection_json(rejected: &Rejection) -> Value {
    json!({
        "rejected": rejected.reason,
        "text": rejected.text,
        "rule": rejected.rule,
        "confidence": rejected.confidence,
        "sources": [source_json(&rejected.source)],
    })
}
