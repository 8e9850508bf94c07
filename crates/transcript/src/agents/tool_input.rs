//! Inputs of tool calls with the member names that the records use, whatever the agent calls them.

use super::canonical::{push_quoted, separate};
use super::shell_read::parse_shell_read;
use serde_json::{Map, Value};

/// Names of members: as the agents write them, and as the records do.
const NAMES: [(&str, &str); 6] = [
    ("filePath", "file_path"),
    ("oldString", "old_string"),
    ("oldText", "old_string"),
    ("newString", "new_string"),
    ("newText", "new_string"),
    ("cmd", "command"),
];

/// Writes a call. Without an id no result answers it.
pub(super) fn push_tool_use(out: &mut Vec<u8>, id: &str, name: &str, input: Map<String, Value>) {
    separate(out);
    out.extend_from_slice(b"{\"type\":\"tool_use\"");
    if !id.is_empty() {
        out.extend_from_slice(b",\"id\":");
        push_quoted(out, id);
    }
    out.extend_from_slice(b",\"name\":");
    push_quoted(out, name);
    out.extend_from_slice(b",\"input\":");
    // Writing JSON of text keys into memory cannot fail.
    let _ = serde_json::to_writer(&mut *out, &input);
    out.push(b'}');
}

/// Renames the members of an input. A command line becomes one text, and if it only shows a file, the input names it.
pub(super) fn usual_input(input: Map<String, Value>) -> Map<String, Value> {
    let mut input = rename_members(input);
    if let Some(command) = input.remove("command") {
        let line = match command {
            Value::Array(words) => command_line(&words),
            Value::String(line) => line,
            other => other.to_string(),
        };
        name_shown_file(&mut input, &line);
        input.insert("command".to_owned(), line.into());
    }
    input
}

fn rename_members(input: Map<String, Value>) -> Map<String, Value> {
    let rename = |(key, value): (String, Value)| {
        let usual = NAMES.iter().find(|(name, _)| *name == key);
        let value = match value {
            Value::Array(items) if key == "edits" => items.into_iter().map(rename_edit).collect(),
            value => value,
        };
        (usual.map_or(key, |(_, usual)| (*usual).to_owned()), value)
    };
    input.into_iter().map(rename).collect()
}

fn rename_edit(edit: Value) -> Value {
    match edit {
        Value::Object(members) => Value::Object(rename_members(members)),
        other => other,
    }
}

/// Returns the command line of a list of words: what a shell is given, or the words themselves.
fn command_line(words: &[Value]) -> String {
    let words = words.iter().filter_map(Value::as_str).collect::<Vec<_>>();
    match words.as_slice() {
        [_, flag, line] if flag.starts_with('-') && flag.ends_with('c') => (*line).to_owned(),
        words => words.join(" "),
    }
}

/// Adds the file and range that a command line shows, if it does nothing else.
fn name_shown_file(input: &mut Map<String, Value>, line: &str) {
    let embedded = embedded_command(line);
    let Some(read) = parse_shell_read(embedded.as_deref().unwrap_or(line)) else {
        return;
    };
    let folder = input.get("workdir").and_then(Value::as_str);
    let path = match folder {
        Some(folder) if !read.path.starts_with('/') => format!("{folder}/{}", read.path),
        _ => read.path,
    };
    input.insert("file_path".to_owned(), path.into());
    input.insert("offset".to_owned(), read.first.into());
    input.insert("limit".to_owned(), read.count.into());
}

/// Returns the command of a script that runs one command and nothing else.
fn embedded_command(script: &str) -> Option<String> {
    const CALL: &str = "exec_command(";
    let rest = &script[script.find(CALL)? + CALL.len()..];
    if rest.contains(CALL) || script.contains("apply_patch(") {
        return None;
    }
    let at = ["cmd:", "\"cmd\":"]
        .iter()
        .find_map(|key| Some(rest.find(key)? + key.len()))?;
    let mut values = serde_json::Deserializer::from_str(rest[at..].trim_start()).into_iter::<String>();
    values.next()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn usual(input: Value) -> Value {
        match input {
            Value::Object(members) => Value::Object(usual_input(members)),
            other => other,
        }
    }

    #[test]
    fn members_get_the_usual_names() {
        let edit = json!({"filePath": "a", "oldString": "x", "newString": "y"});
        assert_eq!(
            usual(edit),
            json!({"file_path": "a", "old_string": "x", "new_string": "y"})
        );
        let edits = json!({"path": "a", "edits": [{"oldText": "x", "newText": "y"}]});
        assert_eq!(
            usual(edits),
            json!({"path": "a", "edits": [{"old_string": "x", "new_string": "y"}]})
        );
    }

    #[test]
    fn a_command_that_shows_a_file_names_it() {
        for (input, command) in [
            (
                json!({"cmd": "sed -n '3,5p' a.rs", "workdir": "/w"}),
                "sed -n '3,5p' a.rs",
            ),
            (
                json!({"command": ["bash", "-lc", "sed -n '3,5p' a.rs"], "workdir": "/w"}),
                "sed -n '3,5p' a.rs",
            ),
        ] {
            let expected =
                json!({"command": command, "workdir": "/w", "file_path": "/w/a.rs", "offset": 3, "limit": 3});
            assert_eq!(usual(input), expected);
        }
        let script = "const r = await tools.exec_command({cmd:\"cat /w/a.rs\"});";
        assert_eq!(usual(json!({"command": script}))["file_path"], "/w/a.rs");
        assert_eq!(usual(json!({"cmd": "ls"})), json!({"command": "ls"}));
    }
}
