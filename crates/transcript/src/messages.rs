//! Reads the text of a log: its messages with texts, tool calls and results, in line order.
//!
//! For what needs words: memories, notes and search. [`crate::walk`] is the numeric counterpart. Lines that cannot
//! contain a message are skipped without parsing. The others take the same path as there: the fast parser first, then
//! the repair ladder of [`crate::repair`]; a line is used whole or not at all.

mod queue;
mod replies;
#[cfg(test)]
mod tests;

use crate::agents::{CanonicalConsumer, CanonicalLines};
use crate::bytes::LineConsumer;
use crate::json::{JsonKind, JsonStr, PullParser, RawParser};
use crate::log::{LineProblem, LineProblemKind, LineProblems, NO_TIME, Time};
use crate::repair::Repairer;
use crate::skim::{ScanLines, SlowPath, StringScanner, dispatch_scan};
use crate::timestamp::parse_time;
use language::shorten;
use language::visible::shown;
use memchr::memmem::Finder;
use queue::{LOOSE_KINDS, LooseRecord, PromptQueue};
use replies::{find_replies, may_hold_reply};
use serde_json::Value;
use std::borrow::Cow;

/// Author of a message according to its record. The client also writes as the user: see the flags of [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageRole {
    /// The person, or the client on their behalf.
    User,
    /// The model.
    Assistant,
}

/// How the words of a person reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordsChannel {
    /// A prompt, or text beside a tool result.
    Prompt,
    /// A prompt queued while the model was working.
    Queued,
    /// The refusal of a tool call or a plan.
    Refusal,
    /// The answer to a question of the model.
    Answer,
    /// The person stopped the model.
    Interruption,
}

/// Words of a person inside a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserReply {
    pub channel: WordsChannel,
    /// Id of the call that was refused, interrupted or that asked.
    pub call: String,
    /// The question that was answered; else empty.
    pub question: String,
    /// The words; empty if the person refused without a word.
    pub text: String,
}

/// A title that the log gives a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTitle {
    /// Id of the session; empty if the record has none.
    pub session: String,
    pub text: String,
    /// A person chose it; else the client had a model write it.
    pub is_custom: bool,
}

/// Returns the title of a session: the last that a person chose, else the last by a model; empty without one.
pub fn title_of<'t>(titles: &'t [SessionTitle], session: &str) -> &'t str {
    let own = titles
        .iter()
        .filter(|title| title.session.is_empty() || title.session == session);
    let own = own.filter(|title| !title.text.trim().is_empty());
    let last = own.max_by_key(|title| title.is_custom);
    last.map_or("", |title| title.text.trim())
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
    /// What a person said in the result before it.
    Reply(UserReply),
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
    /// Working folder of the session at that time; empty if the record has none.
    pub cwd: String,
    pub role: MessageRole,
    /// Inserted by the client, not typed by a person.
    pub is_meta: bool,
    /// The summary after a compaction.
    pub is_summary: bool,
    /// Belongs to a sub-agent's chain.
    pub is_sidechain: bool,
    /// How it reached the model: as a prompt or from the queue.
    pub channel: WordsChannel,
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
            cwd: String::new(),
            role,
            is_meta: false,
            is_summary: false,
            is_sidechain: false,
            channel: WordsChannel::Prompt,
            parts,
            line: 0,
        }
    }

    /// Iterates over the texts, and the words of a person inside tool results.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            MessagePart::Reply(reply) => Some(reply.text.as_str()).filter(|text| !text.is_empty()),
            _ => None,
        })
    }

    /// Returns whether the message was read from the queue of prompts and has no record of its own.
    pub fn is_from_queue(&self) -> bool {
        self.channel == WordsChannel::Queued && self.uuid.is_empty()
    }

    /// Returns a name that is unique over all logs: the id of the record or, if it has none, session and line.
    pub fn record_name(&self) -> String {
        match self.uuid.is_empty() && self.line > 0 {
            true => format!("{}:{}", self.session, self.line),
            false => self.uuid.clone(),
        }
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
    /// What a person said outside of prompts: prompts queued while the model was working, refusals and answers.
    pub every_word: bool,
    /// Keep only the beginning of results: enough to see that a call failed.
    pub brief_results: bool,
    /// Longest text of a result or call input, in bytes; of longer ones the beginning and the end are kept.
    pub longest: Option<usize>,
    /// Also parse lines that cannot contain a message, to report what is wrong with them.
    pub every_line: bool,
}

impl PartSelection {
    /// Texts, and what people said outside of prompts.
    pub const EVERY_WORD: PartSelection = PartSelection {
        calls: &[],
        every_call: false,
        results: false,
        every_word: true,
        brief_results: false,
        longest: None,
        every_line: false,
    };

    fn has_call(&self, name: &str) -> bool {
        self.every_call || self.calls.contains(&name)
    }

    /// Masks a text and drops its middle if it is too long. Secrets are masked first: half of one is no longer recognized.
    fn shorten(&self, text: String) -> String {
        match self.longest {
            Some(longest) if text.len() > longest => {
                // What is far from the edges is dropped anyway.
                let near = shorten::cut_middle(&text, longest + 2 * MASK_REACH, OMISSION_MARK);
                let shown = to_shown(near);
                shorten::cut_middle(&shown, longest, OMISSION_MARK)
            }
            _ => to_shown(text),
        }
    }
}

/// Characters of a result that only has to be recognized.
const BRIEF_CHARS: usize = 200;

/// How far a secret may reach over the place where a text is cut, in bytes.
const MASK_REACH: usize = 512;

/// Returns a text without secrets and control characters. All that is made of texts is made of these: memories, notes, search
/// and requests never see a secret.
fn to_shown(text: String) -> String {
    match shown(&text) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
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
    needles: [Finder<'static>; 6],
    queue: PromptQueue,
    /// Numbers of the lines to read, ascending; `None` for all.
    only_lines: Option<std::vec::IntoIter<u64>>,
    lines: u64,
    progress: &'p (dyn Fn(u64) + Sync),
    filter: Option<&'p LineFilter<'p>>,
    /// Number of lines with a message that the filter rejected.
    pub filtered_out: u64,
    /// Messages read so far.
    pub messages: Vec<Message>,
    /// Titles of sessions, in the order of the log.
    pub titles: Vec<SessionTitle>,
    /// Problems with lines.
    pub problems: LineProblems,
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
                Finder::new(LOOSE_KINDS[0]),
                Finder::new(LOOSE_KINDS[1]),
            ],
            queue: PromptQueue::default(),
            only_lines: None,
            lines: 0,
            progress,
            filter: None,
            filtered_out: 0,
            messages: Vec::new(),
            titles: Vec::new(),
            problems: LineProblems::default(),
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
        let [message, user, assistant, queued, ..] = &self.needles;
        let is_message = message.find(line).is_some() && (user.find(line).is_some() || assistant.find(line).is_some());
        is_message || self.selection.every_word && queued.find(line).is_some()
    }

    /// Returns whether a line may be an operation on the queue or a title: the client writes the kind first.
    fn may_be_loose(&self, line: &[u8]) -> bool {
        let start = &line[..line.len().min(LOOSE_START)];
        self.selection.every_word && self.needles[4..].iter().any(|needle| needle.find(start).is_some())
    }

    /// Takes an operation on the queue or a title. Returns whether the line is one.
    fn read_loose<S: StringScanner>(&mut self, line: &[u8]) -> bool {
        if line.len() > self.max_line || !self.may_be_loose(line) {
            return false;
        }
        let mut raw = RawParser::<S>::new(line, 0);
        let read = LooseRecord::read(&mut raw).and_then(|read| raw.end_of_line().map(|_| read));
        let record = read.unwrap_or_else(|SlowPath| {
            let mut found = None;
            self.repairer.read_tapes(line, &mut |_, mut tape| {
                found = LooseRecord::read(&mut tape).ok().flatten();
            });
            found
        });
        let Some(record) = record else { return false };
        match record.to_title() {
            Some(title) => self.titles.push(title),
            None => self.queue.apply(record, self.lines),
        }
        true
    }

    /// Ends the log: reads the prompts that were queued and that no record repeats.
    pub fn finish(&mut self) {
        self.messages.extend(self.queue.take_unrepeated());
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
            self.queue.drop_repeated(&message);
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
        if is_wanted || self.selection.every_line || may_hold && self.queue.may_appear_in(line) {
            let before = self.messages.len();
            self.read_line::<S>(line, offset, is_complete);
            if !is_wanted {
                self.messages.truncate(before);
            }
        }
    }

    /// Reads a line only for the words that it may repeat.
    fn read_unselected_line<S: StringScanner>(&mut self, line: &[u8], offset: u64) {
        let messages = self.messages.len();
        let problems = std::mem::take(&mut self.problems);
        self.read_line::<S>(line, offset, true);
        self.messages.truncate(messages);
        self.problems = problems;
    }
}

impl ScanLines for MessageReader<'_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let mut at = 0;
        while at < bytes.len() {
            let newline = memchr::memchr(b'\n', &bytes[at..]);
            let end = newline.map_or(bytes.len(), |found| at + found);
            self.lines += 1;
            let line = &bytes[at..end];
            if self.is_selected_line() {
                if !self.read_loose::<S>(line) || self.selection.every_line {
                    self.read_selected_line::<S>(line, offset + at as u64, newline.is_some());
                }
            } else if !self.read_loose::<S>(line) && self.queue.may_appear_in(line) {
                self.read_unselected_line::<S>(line, offset + at as u64);
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

impl CanonicalConsumer for MessageReader<'_> {
    fn take_canonical(&mut self, lines: &CanonicalLines) {
        dispatch_scan(&mut CanonicalMessages { reader: self, lines }, &lines.bytes, 0);
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.problems.push(LineProblem { kind, line, offset });
    }

    fn count_source(&mut self, _lines: u64, bytes: u64) {
        (self.progress)(bytes);
    }

    fn max_line(&self) -> usize {
        self.max_line
    }
}

/// Canonical lines on their way through a reader of messages.
struct CanonicalMessages<'m, 'p> {
    reader: &'m mut MessageReader<'p>,
    lines: &'m CanonicalLines,
}

impl ScanLines for CanonicalMessages<'_, '_> {
    fn scan_lines<S: StringScanner>(&mut self, _bytes: &[u8], _offset: u64) {
        for (place, line) in self.lines.lines() {
            self.reader.lines = place.line;
            if self.reader.is_selected_line() {
                self.reader.read_selected_line::<S>(line, place.offset, true);
            }
        }
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
            b"cwd" => message.cwd = parser.text()?.map(decode_owned).unwrap_or_default(),
            b"isMeta" => message.is_meta = parser.flag()?,
            b"isCompactSummary" => message.is_summary = parser.flag()?,
            b"isSidechain" => message.is_sidechain = parser.flag()?,
            b"attachment" if selection.every_word => {
                if read_queued(parser, &mut message.parts)? {
                    message.channel = WordsChannel::Queued;
                }
            }
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

/// Where the kind of a record without an id stands, in bytes from the start of the line.
const LOOSE_START: usize = 64;

/// Attachment type of a prompt that was queued until the model was ready.
const QUEUED_COMMAND: &[u8] = b"\"queued_command\"";

/// Reads a queued prompt of a person and returns whether it is one; other attachments, and what programs queued, are not
/// messages.
fn read_queued<'a, P: PullParser<'a>>(parser: &mut P, parts: &mut Vec<MessagePart>) -> Result<bool, SlowPath> {
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
            _ => parser.skip()?,
        }
    }
    let is_of_person = mode == "prompt" && (origin.is_empty() || origin == "human");
    let is_prompt = kind == "queued_command" && is_of_person && !prompt.is_empty();
    if is_prompt {
        parts.push(MessagePart::Text(to_shown(prompt)));
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
            JsonKind::String => parts.push(MessagePart::Text(to_shown(decode_owned(parser.string()?)))),
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
            b"content" if selection.every_word => read_reply_text(parser, &mut text)?,
            b"is_error" => is_error = parser.flag()?,
            _ => parser.skip()?,
        }
    }
    match kind.as_str() {
        "text" => parts.push(MessagePart::Text(to_shown(text))),
        "tool_use" if selection.has_call(&name) => parts.push(MessagePart::Call { id, name, input }),
        "tool_result" => {
            let replies = match selection.every_word {
                true => find_replies(&id, &text),
                false => Vec::new(),
            };
            if selection.results {
                let text = match selection.brief_results {
                    true => shorten::first_chars(&text, BRIEF_CHARS).to_owned(),
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
