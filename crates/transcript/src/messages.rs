//! The words of a log: its messages with their texts, tool calls and results, in the order of the lines.
//!
//! Beside the numeric pass of [`super::walk`], for what needs words: memories, later notes and search. Lines that cannot
//! hold a message are passed over unread. The others go the same way as there: the walker first, then the ladder of
//! [`super::repair`]; a line is used whole or not at all.

use crate::timestamp::parse_time;
use crate::bytes::LineConsumer;
use crate::json::{JsonKind, JsonStr, PullParser, RawParser};
use crate::log::{LineProblem, LineProblemKind, NO_TIME, Time};
use crate::repair::Repairer;
use crate::skim::{ScanLines, SlowPath, StringScanner, dispatch_scan};
use memchr::memmem::Finder;
use serde_json::Value;

/// Who a message is from, by its record. The client writes in the user's name too: see the flags of [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageRole {
    /// The person, or the client in their name.
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
        /// Its id, which the result names.
        id: String,
        /// Name of the tool.
        name: String,
        /// Its input. Numbers that are no counts (negative, fractions) read as null.
        input: Value,
    },
    /// What a tool answered.
    Result {
        /// The call it answers.
        call: String,
        /// All its texts.
        text: String,
        /// Whether the tool reported an error.
        is_error: bool,
    },
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Session id; empty if the record names none.
    pub session: String,
    /// The record's id.
    pub uuid: String,
    /// The record it follows.
    pub parent: Option<String>,
    /// When it was written.
    pub time: Option<Time>,
    /// Who from.
    pub role: MessageRole,
    /// Put in by the client, not by a person.
    pub is_meta: bool,
    /// The summary after a compaction.
    pub is_summary: bool,
    /// Part of a sub-agent's chain.
    pub is_sidechain: bool,
    /// What it consists of, as far as it was asked for.
    pub parts: Vec<MessagePart>,
    /// Line of the log, from 1.
    pub line: u64,
}

impl Message {
    /// A message of which nothing else is known.
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

    /// Its texts, one after the other.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            _ => None,
        })
    }
}

/// What is read beside the texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartSelection {
    /// Calls of these tools.
    pub calls: &'static [&'static str],
    /// Calls of all tools.
    pub every_call: bool,
    /// Results of tools.
    pub results: bool,
    /// What a person typed while the model was at work, which newer clients attach to the conversation.
    pub queued: bool,
    /// Longest text of a result or in the input of a call, in bytes; of a longer one its beginning and end are kept.
    pub longest: Option<usize>,
    /// Read lines too that can hold no message, to find out what is wrong with them.
    pub every_line: bool,
}

impl PartSelection {
    fn has_call(&self, name: &str) -> bool {
        self.every_call || self.calls.contains(&name)
    }

    /// Cuts a text that is too long.
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

/// What stands where the middle of a long text was left out.
pub const OMISSION_MARK: &str = "\n[...]\n";

/// Tells from its bytes whether a line may hold what is looked for.
pub type LineFilter<'f> = dyn Fn(&[u8]) -> bool + Sync + 'f;

/// Reads lines into messages.
pub struct MessageReader<'p> {
    selection: PartSelection,
    max_line: usize,
    repairer: Repairer,
    needles: [Finder<'static>; 4],
    /// Lines that are read, ascending; `None` for all.
    only_lines: Option<std::vec::IntoIter<u64>>,
    lines: u64,
    progress: &'p (dyn Fn(u64) + Sync),
    filter: Option<&'p LineFilter<'p>>,
    /// Lines with a message that the filter passed over.
    pub filtered_out: u64,
    /// What was read so far.
    pub messages: Vec<Message>,
    /// Lines that could not be used as they are.
    pub problems: Vec<LineProblem>,
}

impl<'p> MessageReader<'p> {
    /// Starts a log. `progress` is told how many bytes were taken.
    pub fn new(wanted: PartSelection, max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> MessageReader<'p> {
        MessageReader {
            selection: wanted,
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

    /// Reads these lines alone, by number, ascending.
    pub fn with_only_lines(mut self, lines: Vec<u64>) -> MessageReader<'p> {
        self.only_lines = Some(lines.into_iter());
        self
    }

    /// Whether a line is one of those that are read.
    fn is_selected_line(&mut self) -> bool {
        let Some(only) = &mut self.only_lines else { return true };
        let passed = only.as_slice().iter().take_while(|line| **line < self.lines).count();
        if passed > 0 {
            only.nth(passed - 1);
        }
        only.as_slice().first() == Some(&self.lines)
    }

    /// Passes over lines that `filter` turns down, unread: for who looks for something and can tell from the bytes.
    pub fn with_filter(self, filter: &'p LineFilter<'p>) -> MessageReader<'p> {
        MessageReader {
            filter: Some(filter),
            ..self
        }
    }

    /// Whether a line may hold a message: cheaper to know than to parse it.
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
        let (wanted, mut found) = (self.selection, Vec::new());
        let outcome = self.repairer.read_tapes(line, &mut |_, mut tape| {
            found.extend(read_message(&mut tape, wanted));
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

    /// A line among those that are read, as far as it is wanted.
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

/// Reads one record; `Ok(None)` if it is no message of the conversation.
fn read<'a, S: PullParser<'a>>(source: &mut S, wanted: PartSelection) -> Result<Option<Message>, SlowPath> {
    let mut kind = Vec::new();
    let mut message = Message::with_parts(MessageRole::User, Vec::new());
    if source.peek()? != JsonKind::Object {
        return Err(SlowPath);
    }
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        match key {
            b"type" => kind = source.text()?.map(decode_owned).unwrap_or_default().into_bytes(),
            b"sessionId" => message.session = source.text()?.map(decode_owned).unwrap_or_default(),
            b"uuid" => message.uuid = source.text()?.map(decode_owned).unwrap_or_default(),
            b"parentUuid" => message.parent = source.text()?.map(decode_owned),
            b"timestamp" => {
                let time = source.text()?.map(|text| parse_time(decode_owned(text).as_bytes()));
                message.time = time.filter(|time| *time != NO_TIME);
            }
            b"isMeta" => message.is_meta = source.flag()?,
            b"isCompactSummary" => message.is_summary = source.flag()?,
            b"isSidechain" => message.is_sidechain = source.flag()?,
            b"attachment" if wanted.queued => read_queued(source, &mut message.parts)?,
            b"message" => {
                message.parts.clear();
                read_content(source, wanted, &mut message.parts)?;
            }
            _ => source.skip()?,
        }
    }
    message.role = match kind.as_slice() {
        b"user" | b"attachment" => MessageRole::User,
        b"assistant" => MessageRole::Assistant,
        _ => return Ok(None),
    };
    Ok((!message.parts.is_empty()).then_some(message))
}

/// How the client names a prompt that waited until the model was ready for it.
const QUEUED_COMMAND: &[u8] = b"\"queued_command\"";

/// What a person typed meanwhile; other attachments, and what programs put into the queue, are no messages.
fn read_queued<'a, S: PullParser<'a>>(source: &mut S, parts: &mut Vec<MessagePart>) -> Result<(), SlowPath> {
    if source.peek()? != JsonKind::Object {
        return source.skip();
    }
    let [mut kind, mut mode, mut prompt] = [const { String::new() }; 3];
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        match key {
            b"type" => kind = source.text()?.map(decode_owned).unwrap_or_default(),
            b"commandMode" => mode = source.text()?.map(decode_owned).unwrap_or_default(),
            b"prompt" => read_result_text(source, &mut prompt)?,
            _ => source.skip()?,
        }
    }
    if kind == "queued_command" && mode == "prompt" && !prompt.is_empty() {
        parts.push(MessagePart::Text(prompt));
    }
    Ok(())
}

/// As [`read`], for a record that was accepted already.
fn read_message<'a, S: PullParser<'a>>(source: &mut S, wanted: PartSelection) -> Option<Option<Message>> {
    read(source, wanted).ok()
}

fn read_content<'a, S: PullParser<'a>>(
    source: &mut S,
    wanted: PartSelection,
    parts: &mut Vec<MessagePart>,
) -> Result<(), SlowPath> {
    if source.peek()? != JsonKind::Object {
        return source.skip();
    }
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        if key != b"content" {
            source.skip()?;
            continue;
        }
        match source.peek()? {
            JsonKind::String => parts.push(MessagePart::Text(decode_owned(source.string()?))),
            JsonKind::Array => {
                let mut items = source.open_array()?;
                while source.next_item(&mut items)? {
                    read_block(source, wanted, parts)?;
                }
            }
            _ => source.skip()?,
        }
    }
    Ok(())
}

fn read_block<'a, S: PullParser<'a>>(
    source: &mut S,
    wanted: PartSelection,
    parts: &mut Vec<MessagePart>,
) -> Result<(), SlowPath> {
    if source.peek()? != JsonKind::Object {
        return source.skip();
    }
    let [mut kind, mut id, mut name, mut text] = [const { String::new() }; 4];
    let (mut input, mut is_error) = (Value::Null, false);
    let mut frame = source.open_object()?;
    while let Some(key) = source.next_key(&mut frame)? {
        match key {
            b"type" => kind = source.text()?.map(decode_owned).unwrap_or_default(),
            b"text" => text = source.text()?.map(decode_owned).unwrap_or_default(),
            b"id" | b"tool_use_id" => id = source.text()?.map(decode_owned).unwrap_or_default(),
            b"name" => name = source.text()?.map(decode_owned).unwrap_or_default(),
            // The name stands before the input in all clients; where it does not, the input is read for nothing.
            b"input" if name.is_empty() || wanted.has_call(&name) => input = read_value(source, wanted)?,
            b"content" if wanted.results => read_result_text(source, &mut text)?,
            b"is_error" => is_error = source.flag()?,
            _ => source.skip()?,
        }
    }
    match kind.as_str() {
        "text" => parts.push(MessagePart::Text(text)),
        "tool_use" if wanted.has_call(&name) => parts.push(MessagePart::Call { id, name, input }),
        "tool_result" if wanted.results => parts.push(MessagePart::Result {
            call: id,
            text: wanted.shorten(text),
            is_error,
        }),
        _ => {}
    }
    Ok(())
}

/// All texts of a result, a line each.
fn read_result_text<'a, S: PullParser<'a>>(source: &mut S, text: &mut String) -> Result<(), SlowPath> {
    match source.peek()? {
        JsonKind::String => {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&decode_owned(source.string()?));
        }
        JsonKind::Array => {
            let mut frame = source.open_array()?;
            while source.next_item(&mut frame)? {
                read_result_text(source, text)?;
            }
        }
        JsonKind::Object => {
            let mut frame = source.open_object()?;
            while let Some(key) = source.next_key(&mut frame)? {
                match key {
                    b"text" | b"content" => read_result_text(source, text)?,
                    _ => source.skip()?,
                }
            }
        }
        _ => source.skip()?,
    }
    Ok(())
}

/// Any value.
fn read_value<'a, S: PullParser<'a>>(source: &mut S, wanted: PartSelection) -> Result<Value, SlowPath> {
    Ok(match source.peek()? {
        JsonKind::String => Value::String(wanted.shorten(decode_owned(source.string()?))),
        JsonKind::Number => source.count()?.map_or(Value::Null, Value::from),
        JsonKind::Literal => source.literal()?.map_or(Value::Null, Value::Bool),
        JsonKind::Array => {
            let (mut items, mut frame) = (Vec::new(), source.open_array()?);
            while source.next_item(&mut frame)? {
                items.push(read_value(source, wanted)?);
            }
            Value::Array(items)
        }
        JsonKind::Object => {
            let (mut members, mut frame) = (serde_json::Map::new(), source.open_object()?);
            while let Some(key) = source.next_key(&mut frame)? {
                let key = String::from_utf8_lossy(key).into_owned();
                members.insert(key, read_value(source, wanted)?);
            }
            Value::Object(members)
        }
    })
}

fn decode_owned(text: JsonStr<'_>) -> String {
    text.decode(&mut String::new()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(log: &str) -> (Vec<Message>, Vec<LineProblemKind>) {
        let wanted = PartSelection {
            calls: &["Write"],
            results: true,
            ..PartSelection::default()
        };
        let mut reader = MessageReader::new(wanted, 1 << 20, &|_| ());
        reader.take_lines(log.as_bytes(), 0);
        let troubles = reader.problems.iter().map(|trouble| trouble.kind).collect();
        (reader.messages, troubles)
    }

    #[test]
    fn reads_texts_calls_and_results() {
        let log = concat!(
            r#"{"type":"summary","summary":"no message"}"#,
            "\n",
            r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T03:04:05.678Z","isMeta":true,"message":{"role":"user","content":"hello\nthere"}}"#,
            "\n",
            r#"{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","message":{"content":[{"type":"text","text":"so"},{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"/x","n":-1,"k":[true,7]}},{"type":"tool_use","id":"u","name":"Bash","input":{"command":"ls"}}]}}"#,
            "\n",
            r#"{"type":"user","uuid":"c","isSidechain":true,"message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]}}"#,
            "\n",
        );
        let (found, troubles) = messages(log);
        assert!(troubles.is_empty());
        assert_eq!(found.len(), 3);
        assert_eq!(found[0].texts().collect::<Vec<_>>(), ["hello\nthere"]);
        assert!(found[0].is_meta && found[0].time == Some(1_767_323_045_678));
        assert_eq!(
            found[1].parts[1..],
            [MessagePart::Call {
                id: "t".into(),
                name: "Write".into(),
                input: serde_json::json!({"file_path": "/x", "n": null, "k": [true, 7]}),
            }]
        );
        assert_eq!((found[1].line, found[1].parent.as_deref()), (3, Some("a")));
        assert_eq!(
            found[2].parts,
            [MessagePart::Result {
                call: "t".into(),
                text: "one\ntwo".into(),
                is_error: true
            }]
        );
    }

    #[test]
    fn reads_the_lines_asked_for_what_was_queued_and_long_results_in_part() {
        let log = concat!(
            r#"{"type":"user","uuid":"a","sessionId":"s","message":{"content":"one"}}"#,
            "\n",
            r#"{"type":"attachment","uuid":"b","sessionId":"s","attachment":{"type":"queued_command","prompt":"two","commandMode":"prompt"}}"#,
            "\n",
            r#"{"type":"attachment","uuid":"c","sessionId":"s","attachment":{"type":"queued_command","prompt":"three","commandMode":"task-notification"}}"#,
            "\n",
            r#"{"type":"user","uuid":"d","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"0123456789abcdef"}]}}"#,
            "\n",
        );
        let wanted = PartSelection {
            every_call: true,
            results: true,
            queued: true,
            longest: Some(8),
            ..PartSelection::default()
        };
        let mut reader = MessageReader::new(wanted, 1 << 20, &|_| ()).with_only_lines(vec![2, 3, 4]);
        reader.take_lines(log.as_bytes(), 0);
        assert_eq!(reader.messages.len(), 2);
        assert_eq!(reader.messages[0].texts().collect::<Vec<_>>(), ["two"]);
        assert_eq!(
            reader.messages[1].parts,
            [MessagePart::Result {
                call: "t".into(),
                text: format!("0123{OMISSION_MARK}cdef"),
                is_error: false
            }]
        );
    }

    #[test]
    fn bad_lines_cost_themselves_only() {
        let good = r#"{"type":"user","uuid":"a","sessionId":"s","message":{"content":"keep"}}"#;
        let log = format!("\u{feff}{good}\n{{\"type\":\"user\",\"message\":{{\"cont\n{good}{good}\n{good}");
        let (found, troubles) = messages(&log);
        assert_eq!(found.len(), 4);
        assert_eq!(
            troubles,
            [
                LineProblemKind::Stripped,
                LineProblemKind::Malformed,
                LineProblemKind::Split
            ]
        );
    }
}
