//! Memory files that the agent itself wrote, and the instruction files of a project, rebuilt from the logs.
//!
//! A write and a whole read give the text, an edit changes the known text, and the last version counts. An edit of a file
//! whose text is not known, or of words that the text lacks, is not applied and is counted. A file that was removed with `rm`
//! is gone until it is written again.

use crate::extract::message_source;
use crate::kinds::MemorySource;
use crate::names::INDEX_FILE;
use language::secrets;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use transcript::messages::{Message, MessagePart, MessageRole, PartSelection, SeenFile};
use transcript::paths::{is_instruction, is_memory};

/// Selects the calls of tools that change files, their results, and what they show of instruction and memory files.
pub const HARVEST_FILTER: PartSelection = PartSelection {
    calls: &["Write", "Edit", "MultiEdit", "Bash"],
    every_call: false,
    results: true,
    every_word: false,
    brief_results: true,
    longest: None,
    files: true,
    notices: false,
    quiet_tools: &[],
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
    /// Indexes among them: the lines without a secret are of use.
    pub withheld: Vec<HarvestedFile>,
}

/// Rebuilds all memory files.
pub fn harvest(messages: &[Message]) -> Harvest {
    let mut harvest = Harvest::default();
    for (path, state) in rebuild_files(messages, is_memory) {
        match state.text {
            _ if state.is_deleted => {}
            None => harvest.unknown.push(path),
            Some(text) if !text.contains(secrets::MASK) && secrets::find(&text).is_empty() => {
                harvest.files.push(HarvestedFile { text, ..state.file })
            }
            Some(text) => {
                harvest.secrets_dropped += 1;
                if path.ends_with(INDEX_FILE) {
                    harvest.withheld.push(HarvestedFile { text, ..state.file });
                }
            }
        }
    }
    harvest
}

/// Returns what the instruction files of each project say at the end of the logs: whole files, and the lines that are known
/// of others.
pub fn find_instructions(messages: &[Message], root_of: &dyn Fn(&str) -> String) -> BTreeMap<String, String> {
    let mut texts = BTreeMap::<String, String>::new();
    for state in rebuild_files(messages, is_instruction).into_values() {
        let text = texts.entry(root_of(&state.file.cwd)).or_default();
        for line in state
            .text
            .as_deref()
            .into_iter()
            .chain(state.lines.iter().map(String::as_str))
        {
            text.push_str(line);
            text.push('\n');
        }
    }
    texts
}

/// What the logs tell about a file.
struct FileState {
    /// The last version; `None` if no log has the whole of it.
    text: Option<String>,
    /// Lines of a file that was only read or changed in part.
    lines: Vec<String>,
    is_deleted: bool,
    file: HarvestedFile,
}

impl FileState {
    fn new(path: &str) -> FileState {
        FileState {
            text: None,
            lines: Vec::new(),
            is_deleted: false,
            file: HarvestedFile {
                path: path.to_owned(),
                text: String::new(),
                cwd: String::new(),
                sources: Vec::new(),
                missed_edits: 0,
            },
        }
    }

    /// Takes a version of the whole file over. Reading what is known already is no source.
    fn set_text(&mut self, message: &Message, text: String) {
        self.file.cwd.clone_from(&message.cwd);
        self.file.missed_edits = 0;
        self.is_deleted = false;
        self.lines.clear();
        if self.text.as_deref().map(str::trim_end) != Some(text.trim_end()) {
            self.file.sources.push(message_source(message));
            self.text = Some(text);
        }
    }

    fn apply_call(&mut self, message: &Message, name: &str, input: &Value) {
        self.file.cwd.clone_from(&message.cwd);
        if let Some(text) = text_after_call(self.text.as_deref(), name, input) {
            let missed = self.file.missed_edits;
            self.set_text(message, text);
            // What was missed before an edit is missing after it, too.
            self.file.missed_edits = if name == "Write" { 0 } else { missed };
            return;
        }
        self.file.missed_edits += 1;
        let part = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let gone = part("old_string").lines().collect::<HashSet<_>>();
        self.lines.retain(|line| !gone.contains(line.as_str()));
        self.lines.extend(part("new_string").lines().map(str::to_owned));
    }

    fn apply_seen(&mut self, message: &Message, seen: &SeenFile) {
        if seen.is_whole {
            self.set_text(message, seen.text.clone());
        } else if self.text.is_none() {
            self.file.cwd.clone_from(&message.cwd);
            self.lines.extend(seen.text.lines().map(str::to_owned));
        }
    }
}

/// Rebuilds the files whose path is wanted, by path, from what was written, edited, read and removed.
fn rebuild_files(messages: &[Message], is_wanted: fn(&str) -> bool) -> BTreeMap<String, FileState> {
    let failed = failed_calls(messages);
    let mut ordered = messages.iter().collect::<Vec<_>>();
    ordered.sort_by_key(|message| {
        let time = message.time.unwrap_or(i64::MAX);
        (time, &message.session, message.line, &message.uuid)
    });
    let mut seen = HashSet::new();
    let mut files = BTreeMap::<String, FileState>::new();
    for message in ordered {
        for part in &message.parts {
            let MessagePart::Call { id, name, input } = part else {
                continue;
            };
            if message.role != MessageRole::Assistant || failed.contains(id.as_str()) {
                continue;
            }
            if let Some(command) = input.get("command").and_then(Value::as_str) {
                for path in removed_paths(command) {
                    let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
                    let gone = files
                        .iter_mut()
                        .filter(|(known, _)| known.ends_with(name) && is_wanted(path));
                    gone.for_each(|(_, state)| state.is_deleted = true);
                }
                continue;
            }
            let path = input.get("file_path").and_then(Value::as_str);
            if let Some(path) = path.filter(|path| is_wanted(path) && seen.insert((id.as_str(), *path))) {
                let state = files.entry(path.to_owned()).or_insert_with(|| FileState::new(path));
                state.apply_call(message, name, input);
            }
        }
        for file in message.files.iter().filter(|file| is_wanted(&file.path)) {
            let state = files
                .entry(file.path.clone())
                .or_insert_with(|| FileState::new(&file.path));
            state.apply_seen(message, file);
        }
    }
    files
}

/// Returns the files that a shell command removes.
fn removed_paths(command: &str) -> impl Iterator<Item = &str> {
    let steps = command.split(['\n', ';', '&', '|']);
    let removing = steps.filter(|step| {
        let mut words = step
            .split_whitespace()
            .filter(|word| !matches!(*word, "git" | "sudo" | "command"));
        words.next() == Some("rm")
    });
    let words = removing.flat_map(str::split_whitespace).skip(1);
    words.map(|word| word.trim_matches(['"', '\'']))
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

    fn seen(time: i64, path: &str, text: &str, is_whole: bool) -> Message {
        let mut message = call(time, "", "", Value::Null);
        message.role = MessageRole::User;
        message.parts.clear();
        message.files.push(SeenFile {
            path: path.into(),
            text: text.into(),
            is_whole,
        });
        message
    }

    #[test]
    fn a_file_that_was_read_is_known_and_a_removed_one_is_gone() {
        let edit = json!({"file_path": PATH, "old_string": "two", "new_string": "2"});
        let mut messages = vec![seen(1, PATH, "one two", true), call(2, "a", "Edit", edit)];
        let found = harvest(&messages);
        assert_eq!(
            (found.files[0].text.as_str(), found.files[0].sources.len()),
            ("one 2", 2)
        );
        let removal = json!({"command": format!("cd /tmp && rm -f {PATH}")});
        messages.push(call(3, "b", "Bash", removal));
        assert_eq!(harvest(&messages), Harvest::default());
        messages.push(call(4, "c", "Write", json!({"file_path": PATH, "content": "again"})));
        assert_eq!(harvest(&messages).files[0].text, "again");
    }

    #[test]
    fn instruction_files_are_known_as_they_were_last() {
        let path = "/w/CLAUDE.md";
        let edit = json!({"file_path": path, "old_string": "Use tabs.", "new_string": "Use blanks."});
        let messages = [
            seen(1, path, "Use tabs.\nSign commits.", false),
            call(2, "a", "Edit", edit),
            seen(3, "/w/sub/AGENTS.md", "Run the linter.", true),
            seen(4, PATH, "a memory", true),
        ];
        let found = find_instructions(&messages, &|_| "/w".to_owned());
        assert_eq!(found["/w"], "Sign commits.\nUse blanks.\nRun the linter.\n");
    }

    #[test]
    fn a_file_with_a_secret_is_left_out() {
        let text = format!("token: ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
        let found = harvest(&[call(1, "a", "Write", json!({"file_path": PATH, "content": text}))]);
        assert_eq!((found.files.len(), found.secrets_dropped), (0, 1));
    }
}
