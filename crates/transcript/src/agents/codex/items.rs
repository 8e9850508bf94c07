//! Response items of Codex as content blocks.

use super::line::{PartList, Payload, read_parts};
use crate::agents::canonical::{push_quoted, push_raw, push_text_block, separate};
use crate::agents::patch::{PatchChange, parse_patch};
use crate::agents::tool_input::{push_tool_use, usual_input};
use crate::json::{JsonKind, JsonStr, PullParser, RawParser};
use crate::skim::{PortableScanner, SlowPath, StringScanner};
use memchr::memmem::Finder;
use serde_json::{Map, Value};
use std::sync::LazyLock;

/// Shorter encrypted content stands for content that was masked.
const SHORTEST_ENCRYPTED: usize = 100;

/// Beginnings of user messages that the client writes.
const INJECTED_STARTS: [&[u8]; 12] = [
    b"# AGENTS.md instructions",
    b"<environment_context>",
    b"<user_instructions>",
    b"<permissions instructions>",
    b"<turn_aborted>",
    b"<subagent_notification>",
    b"<recommended_plugins>",
    b"<skill>",
    b"<user_shell_command>",
    b"<collaboration_mode>",
    b"<hook_prompt",
    b"Warning: ",
];

/// Visits the texts of a content. `None` stands for a part that is no text but an image.
fn visit_parts<'a, S: StringScanner>(
    content: PartList<'a>,
    visit: &mut dyn FnMut(Option<JsonStr<'a>>),
) -> Result<(), SlowPath> {
    if content.text.is_some() {
        visit(content.text);
        return Ok(());
    }
    if content.bytes.first() != Some(&b'[') {
        return Ok(());
    }
    let mut parser = RawParser::<S>::new(content.bytes, 0);
    let mut frame = parser.open_array()?;
    while parser.next_item(&mut frame)? {
        if parser.peek()? != JsonKind::Object {
            parser.skip()?;
            continue;
        }
        let (mut text, mut is_image) = (None, false);
        let mut inner = parser.open_object()?;
        while let Some(key) = parser.next_key(&mut inner)? {
            match key {
                b"text" => text = parser.text()?,
                b"image_url" | b"file_id" | b"file_data" => {
                    is_image = true;
                    parser.skip()?;
                }
                _ => parser.skip()?,
            }
        }
        if text.is_some() || is_image {
            visit(text);
        }
    }
    Ok(())
}

/// Returns whether the client wrote a user message.
pub(super) fn is_injected<S: StringScanner>(content: PartList<'_>) -> bool {
    let mut first = None;
    let _ = visit_parts::<S>(content, &mut |text| {
        if first.is_none() {
            first = Some(text.map_or(&[][..], |text| text.raw()).trim_ascii_start());
        }
    });
    let first = first.unwrap_or_default();
    INJECTED_STARTS.iter().any(|start| first.starts_with(start))
}

/// Writes the parts of a message.
pub(super) fn push_message<S: StringScanner>(out: &mut Vec<u8>, content: PartList<'_>) {
    let _ = visit_parts::<S>(content, &mut |text| match text {
        Some(text) => push_text_block(out, text),
        None => {
            separate(out);
            out.extend_from_slice(b"{\"type\":\"image\",\"source\":{}}");
        }
    });
}

/// Writes reasoning: its summaries as text, its encrypted content as signature.
pub(super) fn push_reasoning<S: StringScanner>(out: &mut Vec<u8>, payload: &Payload<'_>) {
    out.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":\"");
    let mut is_first = true;
    for part in [payload.summary, payload.content] {
        let _ = visit_parts::<S>(part, &mut |text| {
            if !is_first {
                out.extend_from_slice(b"\\n");
            }
            is_first = false;
            out.extend_from_slice(text.map_or(&[][..], |text| text.raw()));
        });
    }
    out.push(b'"');
    let encrypted = payload.encrypted.filter(|text| text.raw().len() >= SHORTEST_ENCRYPTED);
    if let Some(text) = encrypted {
        out.extend_from_slice(b",\"signature\":");
        push_raw(out, text);
    }
    out.push(b'}');
}

/// Writes a call. A patch becomes one call per file; a shell command that only shows a file names it. Returns the number of
/// calls.
pub(super) fn push_call(out: &mut Vec<u8>, payload: &Payload<'_>) -> usize {
    let mut buffer = String::new();
    let kind = payload.kind.map_or(&[][..], |kind| kind.raw());
    let name = match (payload.name, kind) {
        (Some(name), _) => name.decode(&mut buffer).to_owned(),
        (None, b"local_shell_call") => "shell".to_owned(),
        (None, b"web_search_call") => "web_search".to_owned(),
        (None, kind) => String::from_utf8_lossy(kind).trim_end_matches("_call").to_owned(),
    };
    let id = call_id(payload);
    if let Some(patch) = patch_of(&name, payload) {
        return push_patch(out, &id, &name, &patch);
    }
    let input = match (payload.input, payload.arguments) {
        (Some(input), _) => {
            let text = input.decode(&mut buffer).to_owned();
            Map::from_iter([("command".to_owned(), Value::String(text))])
        }
        (None, Some(arguments)) => match serde_json::from_str(arguments.decode(&mut buffer)) {
            Ok(Value::Object(members)) => members,
            _ => Map::from_iter([("input".to_owned(), Value::String(buffer.clone()))]),
        },
        (None, None) => match serde_json::from_slice(payload.action) {
            Ok(Value::Object(members)) => members,
            _ => Map::new(),
        },
    };
    push_tool_use(out, &id, &name, usual_input(input));
    1
}

/// Returns the id that joins a call and its result; empty for what the provider runs itself, which has no result.
pub(super) fn call_id(payload: &Payload<'_>) -> String {
    payload
        .call_id
        .map_or_else(String::new, |id| id.decode(&mut String::new()).to_owned())
}

/// Returns the patch that a call applies.
fn patch_of(name: &str, payload: &Payload<'_>) -> Option<String> {
    const START: &[u8] = b"*** Begin Patch";
    let input = payload.input.or(payload.arguments)?;
    memchr::memmem::find(input.raw(), START)?;
    let mut buffer = String::new();
    let text = input.decode(&mut buffer);
    if name == "apply_patch" && payload.input.is_some() {
        return Some(text.to_owned());
    }
    // Arguments in JSON, a command line, or a script with the patch as a literal.
    if let Ok(Value::Object(members)) = serde_json::from_str::<Value>(text) {
        let texts = members.values().flat_map(|value| match value {
            Value::Array(items) => items.iter().collect(),
            value => vec![value],
        });
        let mut texts = texts.filter_map(Value::as_str);
        return texts.find(|text| text.contains("*** Begin Patch")).map(str::to_owned);
    }
    let start = text.find("*** Begin Patch")?;
    let patch = &text[start..];
    let end = patch.find("*** End Patch")?;
    let patch = &patch[..end + "*** End Patch".len()];
    if patch.contains('\n') {
        return Some(patch.to_owned());
    }
    serde_json::from_str::<String>(&format!("\"{patch}\"")).ok()
}

/// Returns the id of one of the calls that a patch becomes.
fn patch_id(id: &str, number: usize) -> String {
    match number {
        0 => id.to_owned(),
        number => format!("{id}#{number}"),
    }
}

/// Writes one call per file of a patch and returns their number.
fn push_patch(out: &mut Vec<u8>, id: &str, name: &str, patch: &str) -> usize {
    let files = parse_patch(patch);
    let count = files.len().max(1);
    if files.is_empty() {
        let input = Map::from_iter([("input".to_owned(), Value::String(patch.to_owned()))]);
        push_tool_use(out, id, name, input);
    }
    for (number, file) in files.into_iter().enumerate() {
        let mut input = Map::from_iter([("file_path".to_owned(), Value::String(file.path))]);
        match file.change {
            PatchChange::Add(content) => {
                input.insert("content".to_owned(), content.into());
            }
            PatchChange::Update(hunks) => {
                let edit = |(old, new): (String, String)| {
                    let sides = [("old_string", old), ("new_string", new)];
                    Value::Object(Map::from_iter(sides.map(|(key, text)| (key.to_owned(), text.into()))))
                };
                input.insert("edits".to_owned(), hunks.into_iter().map(edit).collect());
            }
            PatchChange::Delete => {
                input.insert("delete".to_owned(), true.into());
            }
        }
        push_tool_use(out, &patch_id(id, number), "apply_patch", input);
    }
    count
}

/// Writes the result of a call that was written as so many calls.
pub(super) fn push_result<'a, S: StringScanner>(out: &mut Vec<u8>, payload: &Payload<'a>, calls: usize) {
    let id = call_id(payload);
    out.extend_from_slice(b"{\"tool_use_id\":");
    push_quoted(out, &id);
    out.extend_from_slice(b",\"type\":\"tool_result\",\"content\":[");
    let mut ends: [&'a [u8]; 2] = [&[]; 2];
    let mut is_first = true;
    let mut take = |text: Option<JsonStr<'a>>| {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        match text {
            Some(text) => {
                if ends[0].is_empty() {
                    ends = result_ends(text.raw());
                }
                out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
                push_raw(out, text);
                out.push(b'}');
            }
            None => out.extend_from_slice(b"{\"type\":\"image\",\"source\":{}}"),
        }
    };
    // Old versions wrote the result as an object.
    let is_object = payload.output.bytes.first() == Some(&b'{');
    let content = match is_object {
        true => object_content(payload.output.bytes),
        false => payload.output,
    };
    let _ = visit_parts::<S>(content, &mut take);
    out.push(b']');
    let has_failed = payload.status.is_some_and(|status| status.raw() == b"failed");
    let has_failed = has_failed || is_failure(ends) || is_object && is_failure([payload.output.bytes, &[]]);
    let end: &[u8] = if has_failed { b",\"is_error\":true}" } else { b"}" };
    out.extend_from_slice(end);
    // The whole text stands in the result of the first.
    for number in 1..calls {
        out.extend_from_slice(b",{\"tool_use_id\":");
        push_quoted(out, &patch_id(&id, number));
        out.extend_from_slice(b",\"type\":\"tool_result\",\"content\":[]");
        out.extend_from_slice(end);
    }
}

/// Bytes at both ends of a result that may say how the command ended.
const RESULT_HEAD: usize = 400;

/// Returns both ends of a result; of a short one, all of it.
fn result_ends(raw: &[u8]) -> [&[u8]; 2] {
    match raw.len() > 2 * RESULT_HEAD {
        true => [&raw[..RESULT_HEAD], &raw[raw.len() - RESULT_HEAD..]],
        false => [raw, &[]],
    }
}

fn object_content(output: &[u8]) -> PartList<'_> {
    let mut parser = RawParser::<PortableScanner>::new(output, 0);
    let mut found = PartList::default();
    let mut read = || -> Result<(), SlowPath> {
        let mut frame = parser.open_object()?;
        while let Some(key) = parser.next_key(&mut frame)? {
            match key {
                b"content" | b"output" => found = read_parts(&mut parser)?,
                _ => parser.skip()?,
            }
        }
        Ok(())
    };
    let _ = read();
    found
}

/// What stands before the exit code of a command.
static EXIT_MARKS: LazyLock<[Finder<'static>; 5]> = LazyLock::new(|| {
    let marks = [
        "Process exited with code ",
        "exit_code\\\":",
        "exit_code\":",
        "Exit code: ",
        "exited with code ",
    ];
    marks.map(Finder::new)
});

/// Returns whether the ends of a result say that its command failed.
fn is_failure(ends: [&[u8]; 2]) -> bool {
    let number_after = |mark: &Finder<'_>| {
        ends.into_iter().find_map(|end| {
            let rest = end[mark.find(end)? + mark.needle().len()..].trim_ascii_start();
            let is_digit = |byte: &&u8| byte.is_ascii_digit() || **byte == b'-';
            let digits = rest.iter().take_while(is_digit).count();
            std::str::from_utf8(&rest[..digits]).ok()?.parse::<i64>().ok()
        })
    };
    let code = EXIT_MARKS.iter().find_map(number_after);
    code.is_some_and(|code| code != 0)
        || ends
            .iter()
            .any(|end| memchr::memmem::find(end, b"\"success\":false").is_some())
        || ends[0].starts_with(b"apply_patch verification failed")
        || ends[0].starts_with(b"Script failed")
}

/// What replaces the history at a compaction.
#[derive(Default)]
pub(super) struct ReplacedHistory<'a> {
    /// Contents of the user messages that stay.
    pub user_messages: Vec<&'a [u8]>,
    /// The summary as content blocks, if it is an item of its own.
    pub summary: Vec<u8>,
}

/// Reads the list of items that replaces the history.
pub(super) fn read_history(items: &[u8]) -> ReplacedHistory<'_> {
    let mut history = ReplacedHistory::default();
    if items.first() == Some(&b'[') {
        let mut parser = RawParser::<PortableScanner>::new(items, 0);
        let _ = read_history_items(&mut parser, &mut history);
    }
    history
}

fn read_history_items<'a>(
    parser: &mut RawParser<'a, PortableScanner>,
    history: &mut ReplacedHistory<'a>,
) -> Result<(), SlowPath> {
    let mut frame = parser.open_array()?;
    while parser.next_item(&mut frame)? {
        let item = super::line::read_payload(parser)?;
        let is_user = item.role.is_some_and(|role| role.raw() == b"user");
        match item.kind.map_or(&[][..], |kind| kind.raw()) {
            b"message" if is_user => history.user_messages.push(item.content.bytes),
            b"compaction" | b"compaction_summary" => push_reasoning::<PortableScanner>(&mut history.summary, &item),
            _ => {}
        }
    }
    Ok(())
}
