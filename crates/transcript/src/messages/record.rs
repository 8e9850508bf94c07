//! Reads one record of the log as a message, through either parser.

use super::files::{read_nested_file, read_result_file};
use super::replies::{find_replies, may_hold_reply};
use super::{BRIEF_CHARS, Message, MessagePart, MessageRole, NOTICE_START, PartSelection, WordsChannel, to_shown};
use crate::json::{JsonKind, JsonStr, PullParser};
use crate::log::NO_TIME;
use crate::skim::SlowPath;
use crate::timestamp::parse_time;
use crate::tools::tool_role;
use language::shorten;
use serde_json::Value;
use std::collections::HashSet;

/// Calls under way whose results only matter if they are errors, by id.
#[derive(Debug, Default)]
pub(super) struct QuietCalls {
    ids: HashSet<String>,
}

impl QuietCalls {
    fn add_call(&mut self, selection: PartSelection, id: &str, name: &str) {
        if selection.quiet_tools.contains(&tool_role(name, false)) {
            self.ids.insert(id.to_owned());
        }
    }

    /// Takes the result of a call and returns whether the call was one of them.
    fn take_result(&mut self, id: &str) -> bool {
        self.ids.remove(id)
    }
}

/// Reads one record. Returns `Ok(None)` if it is not a message of the conversation.
pub(super) fn read_record<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
    quiet: &mut QuietCalls,
) -> Result<Option<Message>, SlowPath> {
    let mut kind = Vec::new();
    let mut message = Message::with_parts(MessageRole::User, Vec::new());
    if parser.peek()? != JsonKind::Object {
        return Err(SlowPath);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"type" => kind = parser.text()?.map(decode_owned).unwrap_or_default().into_bytes(),
            b"sessionId" => message.session = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"uuid" => message.uuid = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"parentUuid" => message.parent = parser.text()?.map(decode_owned),
            b"timestamp" => {
                let time = parser.text()?.map(|text| parse_time(decode_owned(text).as_bytes()));
                message.time = time.filter(|time| *time != NO_TIME);
            }
            b"cwd" => message.cwd = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"isMeta" => message.is_meta = parser.flag()?,
            b"isCompactSummary" => message.is_summary = parser.flag()?,
            b"isSidechain" => message.is_sidechain = parser.flag()?,
            b"attachment" if selection.every_word || selection.files || selection.notices => {
                if read_attachment(parser, selection, &mut message)? {
                    message.channel = WordsChannel::Queued;
                }
            }
            b"toolUseResult" if selection.files => message.files.extend(read_result_file(parser)?),
            b"message" => {
                message.parts.clear();
                read_content(parser, selection, quiet, &mut message.parts)?;
            }
            _ => parser.skip()?,
        }
    }
    message.role = match kind.as_slice() {
        b"user" | b"attachment" => MessageRole::User,
        b"assistant" => MessageRole::Assistant,
        _ => return Ok(None),
    };
    Ok((!message.parts.is_empty() || !message.files.is_empty()).then_some(message))
}

/// Attachment type of a prompt that was queued until the model was ready.
pub(super) const QUEUED_COMMAND: &[u8] = b"\"queued_command\"";
/// Attachment type of an instruction file that the client attached when a file below it was touched.
pub(super) const NESTED_FILE: &[u8] = b"\"nested_memory\"";

/// Reads a queued prompt of a person and returns whether it is one; other attachments, and what programs queued, are not
/// messages. An instruction file that the client attached is noted.
fn read_attachment<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
    message: &mut Message,
) -> Result<bool, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| false);
    }
    let [mut kind, mut mode, mut prompt, mut origin] = [const { String::new() }; 4];
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"type" => kind = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"commandMode" => mode = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"prompt" => read_result_text(parser, &mut prompt)?,
            b"origin" => origin = read_origin(parser)?,
            b"content" if selection.files && kind == "nested_memory" => {
                message.files.extend(read_nested_file(parser)?);
            }
            _ => parser.skip()?,
        }
    }
    if selection.notices && kind == "queued_command" && prompt.trim_start().starts_with(NOTICE_START) {
        message.is_meta = true;
        message.parts.push(MessagePart::Text(selection.shorten(prompt)));
        return Ok(false);
    }
    let is_of_person = mode == "prompt" && (origin.is_empty() || origin == "human");
    let is_prompt = selection.every_word && kind == "queued_command" && is_of_person && !prompt.is_empty();
    if is_prompt {
        message.parts.push(MessagePart::Text(to_shown(prompt)));
    }
    Ok(is_prompt)
}

/// Reads what a queued prompt comes from; empty if the client does not say.
fn read_origin<'a, P: PullParser<'a>>(parser: &mut P) -> Result<String, SlowPath> {
    let mut kind = String::new();
    if parser.peek()? != JsonKind::Object {
        parser.skip()?;
        return Ok(kind);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"kind" => kind = parser.text()?.map(decode_owned).unwrap_or_default(),
            _ => parser.skip()?,
        }
    }
    Ok(kind)
}

/// Reads a record that was accepted already. Returns `None` if it cannot be read.
pub(super) fn read_message<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
    quiet: &mut QuietCalls,
) -> Option<Option<Message>> {
    read_record(parser, selection, quiet).ok()
}

fn read_content<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
    quiet: &mut QuietCalls,
    parts: &mut Vec<MessagePart>,
) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip();
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        if key != b"content" {
            parser.skip()?;
            continue;
        }
        match parser.peek()? {
            JsonKind::String => parts.push(MessagePart::Text(to_shown(decode_owned(parser.string()?)))),
            JsonKind::Array => {
                let mut items = parser.open_array()?;
                while parser.next_item(&mut items)? {
                    read_block(parser, selection, quiet, parts)?;
                }
            }
            _ => parser.skip()?,
        }
    }
    Ok(())
}

fn read_block<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
    quiet: &mut QuietCalls,
    parts: &mut Vec<MessagePart>,
) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip();
    }
    let [mut kind, mut id, mut name, mut text] = [const { String::new() }; 4];
    let (mut input, mut is_error) = (Value::Null, false);
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"type" => kind = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"text" => text = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"id" | b"tool_use_id" => id = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"name" => name = parser.text()?.map(decode_owned).unwrap_or_default(),
            // All clients write the name before the input; otherwise the input is read in vain.
            b"input" if name.is_empty() || selection.has_call(&name) => input = read_value(parser, selection)?,
            b"content" if selection.results => read_result_text(parser, &mut text)?,
            b"content" if selection.every_word => read_reply_text(parser, &mut text)?,
            b"is_error" => is_error = parser.flag()?,
            _ => parser.skip()?,
        }
    }
    match kind.as_str() {
        "text" => parts.push(MessagePart::Text(to_shown(text))),
        "tool_use" if selection.has_call(&name) => {
            quiet.add_call(selection, &id, &name);
            parts.push(MessagePart::Call { id, name, input });
        }
        "tool_result" => {
            let replies = match selection.every_word {
                true => find_replies(&id, &text),
                false => Vec::new(),
            };
            if selection.results {
                let text = match selection.brief_results {
                    true => shorten::first_chars(&text, BRIEF_CHARS).to_owned(),
                    false if quiet.take_result(&id) && !is_error => String::new(),
                    false => selection.shorten(text),
                };
                parts.push(MessagePart::Result {
                    call: id,
                    text,
                    is_error,
                });
            }
            parts.extend(replies.into_iter().map(MessagePart::Reply));
        }
        _ => {}
    }
    Ok(())
}

/// Appends the text of a result if it may hold words of a person; the output of tools is not even decoded.
fn read_reply_text<'a, P: PullParser<'a>>(parser: &mut P, text: &mut String) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::String {
        return parser.skip();
    }
    let content = parser.string()?;
    if may_hold_reply(content.raw()) {
        *text = decode_owned(content);
    }
    Ok(())
}

/// Appends all texts of a result, separated by newlines.
pub(super) fn read_result_text<'a, P: PullParser<'a>>(parser: &mut P, text: &mut String) -> Result<(), SlowPath> {
    match parser.peek()? {
        JsonKind::String => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&decode_owned(parser.string()?));
        }
        JsonKind::Array => {
            let mut frame = parser.open_array()?;
            while parser.next_item(&mut frame)? {
                read_result_text(parser, text)?;
            }
        }
        JsonKind::Object => {
            let mut frame = parser.open_object()?;
            while let Some(key) = parser.next_key(&mut frame)? {
                match key {
                    b"text" | b"content" => read_result_text(parser, text)?,
                    _ => parser.skip()?,
                }
            }
        }
        _ => parser.skip()?,
    }
    Ok(())
}

/// Reads any value.
fn read_value<'a, P: PullParser<'a>>(parser: &mut P, selection: PartSelection) -> Result<Value, SlowPath> {
    Ok(match parser.peek()? {
        JsonKind::String => Value::String(selection.shorten(decode_owned(parser.string()?))),
        JsonKind::Number => parser.count()?.map_or(Value::Null, Value::from),
        JsonKind::Literal => parser.literal()?.map_or(Value::Null, Value::Bool),
        JsonKind::Array => {
            let (mut items, mut frame) = (Vec::new(), parser.open_array()?);
            while parser.next_item(&mut frame)? {
                items.push(read_value(parser, selection)?);
            }
            Value::Array(items)
        }
        JsonKind::Object => {
            let (mut members, mut frame) = (serde_json::Map::new(), parser.open_object()?);
            while let Some(key) = parser.next_key(&mut frame)? {
                let key = String::from_utf8_lossy(key).into_owned();
                members.insert(key, read_value(parser, selection)?);
            }
            Value::Object(members)
        }
    })
}

pub(super) fn decode_owned(text: JsonStr<'_>) -> String {
    text.decode(&mut String::new()).to_owned()
}
