//! Memory files that the agent itself wrote, rebuilt from its tool calls in the logs.
//!
//! A write gives the whole text, an edit changes the known text, and the last version counts. An edit of a file whose text is
//! not known, or of words that the text lacks, is not applied and is counted.

use crate::extract::message_source;
use crate::kinds::MemorySource;
use language::secrets;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use transcript::messages::{Message, MessagePart, MessageRole, PartSelection};
use transcript::paths::is_memory;

/// Selects the calls of tools that change files, and their results.
pub const HARVEST_FILTER: PartSelection = PartSelection {
    calls: &["Write", "Edit", "MultiEdit"],
    every_call: false,
    results: true,
    every_word: false,
    brief_results: true,
    longest: None,
    every_line: false,
};

/// The last version of a memory file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HarvestedFile {
    /// The path as the agent wrote it.
    pub path: String,
    pub text: String,
    /// Working folder of the session that wrote it last.
    pub cwd: String,
    /// The calls that wrote it, oldest first.
    pub sources: Vec<MemorySource>,
    /// Edits that could not be applied.
    pub missed_edits: u64,
}

/// All memory files in the logs.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Harvest {
    /// Sorted by path.
    pub files: Vec<HarvestedFile>,
    /// Paths of files that were edited and whose text is in no log.
    pub unknown: Vec<String>,
    /// Number of files left out because they have a secret.
    pub secrets_dropped: u64,
}

/// Rebuilds all memory files from tool calls.
pub fn harvest(messages: &[Message]) -> Harvest {
    let failed = failed_calls(messages);
    let mut calls = Vec::new();
    let mut seen = HashSet::new();
    for message in messages.iter().filter(|message| message.role == MessageRole::Assistant) {
        for part in &message.parts {
            if let MessagePart::Call { id, name, input } = part
                && !failed.contains(id.as_str())
                && let Some(path) = input.get("file_path").and_then(Value::as_str)
                && is_memory(path)
                && seen.insert((id.as_str(), path))
            {
                calls.push((message, name.as_str(), path, input));
            }
        }
    }
    calls.sort_by_key(|(message, ..)| {
        let time = message.time.unwrap_or(i64::MAX);
        (time, &message.session, message.line, &message.uuid)
    });
    let mut files = BTreeMap::<&str, (Option<String>, HarvestedFile)>::new();
    for (message, name, path, input) in calls {
        let (text, file) = files.entry(path).or_insert_with(|| {
            let file = HarvestedFile {
                path: path.to_owned(),
                text: String::new(),
                cwd: String::new(),
                sources: Vec::new(),
                missed_edits: 0,
            };
            (None, file)
        });
        match text_after_call(text.as_deref(), name, input) {
            Some(new) => {
                *text = Some(new);
                file.cwd.clone_from(&message.cwd);
                file.sources.push(message_source(message));
            }
            None => file.missed_edits += 1,
        }
    }
    let mut harvest = Harvest::default();
    for (path, (text, file)) in files {
        match text {
            None => harvest.unknown.push(path.to_owned()),
            Some(text) if !text.contains(secrets::MASK) && secrets::find(&text).is_empty() => {
                harvest.files.push(HarvestedFile { text, ..file })
            }
            Some(_) => harvest.secrets_dropped += 1,
        }
    }
    harvest
}

/// Returns the ids of calls that failed.
fn failed_calls(messages: &[Message]) -> HashSet<&str> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let failed = parts.filter_map(|part| match part {
        MessagePart::Result {
            call, is_error: true, ..
        } => Some(call.as_str()),
        _ => None,
    });
    failed.collect()
}

/// Returns the text after a call; `None` if the call cannot be applied to the known text.
fn text_after_call(text: Option<&str>, tool: &str, input: &Value) -> Option<String> {
    match tool {
        "Write" => Some(input.get("content")?.as_str()?.to_owned()),
        "Edit" => text_after_edit(text, input),
        "MultiEdit" => {
            let mut text = text.map(str::to_owned);
            for edit in input.get("edits")?.as_array()? {
                text = Some(text_after_edit(text.as_deref(), edit)?);
            }
            text
        }
        _ => None,
    }
}

fn text_after_edit(text: Option<&str>, edit: &Value) -> Option<String> {
    let (old, new) = (edit.get("old_string")?.as_str()?, edit.get("new_string")?.as_str()?);
    if old.is_empty() {
        // An edit of nothing creates a file.
        return text.is_none_or(str::is_empty).then(|| new.to_owned());
    }
    let text = text.filter(|text| text.contains(old))?;
    let is_all = edit.get("replace_all").and_then(Value::as_bool).unwrap_or(false);
    Some(match is_all {
        true => text.replace(old, new),
        false => text.replacen(old, new, 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PATH: &str = "/home/me/.claude/projects/-home-me-work/memory/style.md";

    fn call(time: i64, id: &str, name: &str, input: Value) -> Message {
        Message {
            session: "s".into(),
            uuid: format!("u{time}"),
            time: Some(time),
            line: 1,
            ..Message::with_parts(
                MessageRole::Assistant,
                vec![MessagePart::Call {
                    id: id.into(),
                    name: name.into(),
                    input,
                }],
            )
        }
    }

    #[test]
    fn the_last_version_wins_whatever_the_order() {
        let mut messages = vec![
            call(1, "a", "Write", json!({"file_path": PATH, "content": "one two two"})),
            call(
                2,
                "b",
                "Edit",
                json!({"file_path": PATH, "old_string": "two", "new_string": "2"}),
            ),
            call(
                3,
                "c",
                "MultiEdit",
                json!({"file_path": PATH, "edits": [
                {"old_string": "one", "new_string": "1"},
                {"old_string": "2", "new_string": "zwei", "replace_all": true}]}),
            ),
            call(
                4,
                "d",
                "Edit",
                json!({"file_path": PATH, "old_string": "gone", "new_string": "x"}),
            ),
            call(5, "e", "Write", json!({"file_path": PATH, "content": "never written"})),
            call(
                6,
                "f",
                "Edit",
                json!({"file_path": "/h/.claude/memory/other.md", "old_string": "a", "new_string": "b"}),
            ),
            call(
                7,
                "g",
                "Write",
                json!({"file_path": "/h/src/main.rs", "content": "fn main() {}"}),
            ),
        ];
        let mut failure = call(8, "", "", Value::Null);
        failure.role = MessageRole::User;
        failure.parts = vec![MessagePart::Result {
            call: "e".into(),
            text: "denied".into(),
            is_error: true,
        }];
        messages.push(failure);
        let found = harvest(&messages);
        assert_eq!(found.files.len(), 1);
        assert_eq!(
            (found.files[0].text.as_str(), found.files[0].missed_edits),
            ("1 zwei two", 1)
        );
        assert_eq!(found.files[0].sources.len(), 3);
        assert_eq!(found.unknown, ["/h/.claude/memory/other.md"]);
        messages.reverse();
        assert_eq!(harvest(&messages), found);
    }

    #[test]
    fn a_file_with_a_secret_is_left_out() {
        let text = format!("token: ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let found = harvest(&[call(1, "a", "Write", json!({"file_path": PATH, "content": text}))]);
        assert_eq!((found.files.len(), found.secrets_dropped), (0, 1));
    }
}
