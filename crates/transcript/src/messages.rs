//! Reads the text of a log: its messages with texts, tool calls and results, in line order.
//!
//! For what needs words: memories, notes and search. [`crate::walk`] is the numeric counterpart. Lines that cannot
//! contain a message are skipped without parsing. The others take the same path as there: the fast parser first, then
//! the repair ladder of [`crate::repair`]; a line is used whole or not at all.

#[cfg(test)]
mod tests;

use crate::bytes::LineConsumer;
use crate::json::{JsonKind, JsonStr, PullParser, RawParser};
use crate::log::{LineProblem, LineProblemKind, NO_TIME, Time};
use crate::repair::Repairer;
use crate::skim::{ScanLines, SlowPath, StringScanner, dispatch_scan};
use crate::timestamp::parse_time;
use memchr::memmem::Finder;
use serde_json::Value;

/// Author of a message according to its record. The client also writes as the user: see the flags of [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageRole {
    /// The person, or the client on their behalf.
    User,
    /// The model.
    Assistant,
}

/// Part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessagePart {
    /// Text.
    Text(String),
    /// A tool call.
    Call {
        /// Id that the result refers to.
        id: String,
        /// Tool name.
        name: String,
        /// Input. Numbers that are not counts (negative, fractional) read as null.
        input: Value,
    },
    /// A tool result.
    Result {
        /// Id of the call it answers.
        call: String,
        /// All texts of the result.
        text: String,
        /// The tool reported an error.
        is_error: bool,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Session id; empty if the record has none.
    pub session: String,
    /// Id of the record.
    pub uuid: String,
    /// Id of the record it follows.
    pub parent: Option<String>,
    pub time: Option<Time>,
    pub role: MessageRole,
    /// Inserted by the client, not typed by a person.
    pub is_meta: bool,
    /// The summary after a compaction.
    pub is_summary: bool,
    /// Belongs to a sub-agent's chain.
    pub is_sidechain: bool,
    /// The selected parts.
    pub parts: Vec<MessagePart>,
    /// Line of the log, from 1.
    pub line: u64,
}

impl Message {
    /// Creates a message of which nothing else is known.
    pub fn with_parts(role: MessageRole, parts: Vec<MessagePart>) -> Message {
        Message {
            session: String::new(),
            uuid: String::new(),
            parent: None,
            time: None,
            role,
            is_meta: false,
            is_summary: false,
            is_sidechain: false,
            parts,
            line: 0,
        }
    }

    /// Iterates over the texts.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// Selects what to read besides texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartSelection {
    /// Calls of these tools.
    pub calls: &'static [&'static str],
    /// Calls of all tools.
    pub every_call: bool,
    /// Tool results.
    pub results: bool,
    /// Prompts typed while the model was working, which newer clients attach to the conversation.
    pub queued: bool,
    /// Longest text of a result or call input, in bytes; of longer ones the beginning and the end are kept.
    pub longest: Option<usize>,
    /// Also parse lines that cannot contain a message, to report what is wrong with them.
    pub every_line: bool,
}

impl PartSelection {
    fn has_call(&self, name: &str) -> bool {
        self.every_call || self.calls.contains(&name)
    }

    /// Drops the middle of a text that is too long.
    fn shorten(&self, text: String) -> String {
        match self.longest {
            Some(longest) if text.len() > longest => {
                let head = &text[..text.floor_char_boundary(longest / 2)];
                let tail = &text[text.ceil_char_boundary(text.len() - longest / 2)..];
                format!("{head}{OMISSION_MARK}{tail}")
            }
            _ => text,
        }
    }
}

/// Replaces the dropped middle of a long text.
pub const OMISSION_MARK: &str = "\n[...]\n";

/// Decides from the bytes of a line whether it may contain what is searched for.
pub type LineFilter<'f> = dyn Fn(&[u8]) -> bool + Sync + 'f;

/// Reads lines into messages.
pub struct MessageReader<'p> {
    selection: PartSelection,
    max_line: usize,
    repairer: Repairer,
    needles: [Finder<'static>; 4],
    /// Numbers of the lines to read, ascending; `None` for all.
    only_lines: Option<std::vec::IntoIter<u64>>,
    lines: u64,
    progress: &'p (dyn Fn(u64) + Sync),
    filter: Option<&'p LineFilter<'p>>,
    /// Number of lines with a message that the filter rejected.
    pub filtered_out: u64,
    /// Messages read so far.
    pub messages: Vec<Message>,
    /// Problems with lines.
    pub problems: Vec<LineProblem>,
}

impl<'p> MessageReader<'p> {
    /// Starts a log. `progress` is called with the number of bytes read.
    pub fn new(selection: PartSelection, max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> MessageReader<'p> {
        MessageReader {
            selection,
            max_line,
            repairer: Repairer::default(),
            needles: [
                Finder::new(b"\"message\""),
                Finder::new(b"\"user\""),
                Finder::new(b"\"assistant\""),
                Finder::new(QUEUED_COMMAND),
            ],
            only_lines: None,
            lines: 0,
            progress,
            filter: None,
            filtered_out: 0,
            messages: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Restricts reading to these line numbers, which must ascend.
    pub fn with_only_lines(mut self, lines: Vec<u64>) -> MessageReader<'p> {
        self.only_lines = Some(lines.into_iter());
        self
    }

    /// Returns whether the current line is selected.
    fn is_selected_line(&mut self) -> bool {
        let Some(only) = &mut self.only_lines else { return true };
        let passed = only.as_slice().iter().take_while(|line| **line < self.lines).count();
        if passed > 0 {
            only.nth(passed - 1);
        }
        only.as_slice().first() == Some(&self.lines)
    }

    /// Skips lines that `filter` rejects without parsing them.
    pub fn with_filter(self, filter: &'p LineFilter<'p>) -> MessageReader<'p> {
        MessageReader {
            filter: Some(filter),
            ..self
        }
    }

    /// Returns whether a line may contain a message. Substring searches are cheaper than parsing.
    fn may_hold_message(&self, line: &[u8]) -> bool {
        let [message, user, assistant, queued] = &self.needles;
        let is_message = message.find(line).is_some() && (user.find(line).is_some() || assistant.find(line).is_some());
        is_message || self.selection.queued && queued.find(line).is_some()
    }

    fn read_line<S: StringScanner>(&mut self, line: &[u8], offset: u64, is_complete: bool) {
        if line.len() > self.max_line {
            self.add_problem(LineProblemKind::TooLong, offset);
            return;
        }
        let mut raw = RawParser::<S>::new(line, 0);
        let read = read(&mut raw, self.selection).and_then(|message| raw.end_of_line().map(|_| message));
        if let Ok(message) = read {
            self.push(message);
            return;
        }
        let (selection, mut found) = (self.selection, Vec::new());
        let outcome = self.repairer.read_tapes(line, &mut |_, mut tape| {
            found.extend(read_message(&mut tape, selection));
        });
        for message in found {
            self.push(message);
        }
        if let Some(kind) = outcome.line_problem(is_complete) {
            self.add_problem(kind, offset);
        }
    }

    fn push(&mut self, message: Option<Message>) {
        if let Some(message) = message {
            self.messages.push(Message {
                line: self.lines,
                ..message
            });
        }
    }

    fn add_problem(&mut self, kind: LineProblemKind, offset: u64) {
        self.problems.push(LineProblem {
            kind,
            line: self.lines,
            offset,
        });
    }

    /// Reads a selected line if it may contain a message and passes the filter.
    fn read_selected_line<S: StringScanner>(&mut self, line: &[u8], offset: u64, is_complete: bool) {
        let may_hold = self.may_hold_message(line);
        let is_wanted = may_hold && self.filter.is_none_or(|filter| filter(line));
        self.filtered_out += u64::from(may_hold && !is_wanted);
        if is_wanted || self.selection.every_line {
            let before = self.messages.len();
            self.read_line::<S>(line, offset, is_complete);
            if !is_wanted {
                self.messages.truncate(before);
            }
        }
    }
}

impl ScanLines for MessageReader<'_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            let end = newline.map_or(bytes.len(), |found| at + found);
            self.lines += 1;
            if self.is_selected_line() {
                self.read_selected_line::<S>(&bytes[at..end], offset + at as u64, newline.is_some());
            }
            at = end + 1;
        }
    }
}

impl LineConsumer for MessageReader<'_> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        dispatch_scan(self, bytes, offset);
        (self.progress)(bytes.len() as u64);
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, _head: &[u8]) {
        self.lines += 1;
        if self.is_selected_line() {
            self.add_problem(LineProblemKind::TooLong, offset);
        }
        (self.progress)(length);
    }
}

/// Reads one record. Returns `Ok(None)` if it is not a message of the conversation.
fn read<'a, P: PullParser<'a>>(parser: &mut P, selection: PartSelection) -> Result<Option<Message>, SlowPath> {
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
            b"isMeta" => message.is_meta = parser.flag()?,
            b"isCompactSummary" => message.is_summary = parser.flag()?,
            b"isSidechain" => message.is_sidechain = parser.flag()?,
            b"attachment" if selection.queued => read_queued(parser, &mut message.parts)?,
            b"message" => {
                message.parts.clear();
                read_content(parser, selection, &mut message.parts)?;
            }
            _ => parser.skip()?,
        }
    }
    message.role = match kind.as_slice() {
        b"user" | b"attachment" => MessageRole::User,
        b"assistant" => MessageRole::Assistant,
        _ => return Ok(None),
    };
    Ok((!message.parts.is_empty()).then_some(message))
}

/// Attachment type of a prompt that was queued until the model was ready.
const QUEUED_COMMAND: &[u8] = b"\"queued_command\"";

/// Reads a queued prompt of a person; other attachments, and what programs queued, are not messages.
fn read_queued<'a, P: PullParser<'a>>(parser: &mut P, parts: &mut Vec<MessagePart>) -> Result<(), SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip();
    }
    let [mut kind, mut mode, mut prompt] = [const { String::new() }; 3];
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"type" => kind = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"commandMode" => mode = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"prompt" => read_result_text(parser, &mut prompt)?,
            _ => parser.skip()?,
        }
    }
    if kind == "queued_command" && mode == "prompt" && !prompt.is_empty() {
        parts.push(MessagePart::Text(prompt));
    }
    Ok(())
}

/// Reads a record that was accepted already. Returns `None` if it cannot be read.
fn read_message<'a, P: PullParser<'a>>(parser: &mut P, selection: PartSelection) -> Option<Option<Message>> {
    read(parser, selection).ok()
}

fn read_content<'a, P: PullParser<'a>>(
    parser: &mut P,
    selection: PartSelection,
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
            JsonKind::String => parts.push(MessagePart::Text(decode_owned(parser.string()?))),
            JsonKind::Array => {
                let mut items = parser.open_array()?;
                while parser.next_item(&mut items)? {
                    read_block(parser, selection, parts)?;
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
            b"is_error" => is_error = parser.flag()?,
            _ => parser.skip()?,
        }
    }
    match kind.as_str() {
        "text" => parts.push(MessagePart::Text(text)),
        "tool_use" if selection.has_call(&name) => parts.push(MessagePart::Call { id, name, input }),
        "tool_result" if selection.results => parts.push(MessagePart::Result {
            call: id,
            text: selection.shorten(text),
            is_error,
        }),
        _ => {}
    }
    Ok(())
}

/// Appends all texts of a result, separated by newlines.
fn read_result_text<'a, P: PullParser<'a>>(parser: &mut P, text: &mut String) -> Result<(), SlowPath> {
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

fn decode_owned(text: JsonStr<'_>) -> String {
    text.decode(&mut String::new()).to_owned()
}
