//! One line of a Codex log, as far as it is read.

use crate::json::{JsonKind, JsonStr, PullParser, RawParser};
use crate::skim::{SlowPath, StringScanner};

/// A line, borrowed from its bytes.
#[derive(Default)]
pub(super) struct CodexLine<'a> {
    pub time: Option<JsonStr<'a>>,
    pub kind: JsonStr<'a>,
    pub payload: Payload<'a>,
    /// The payload as it stands in the log.
    pub payload_bytes: &'a [u8],
}

impl CodexLine<'_> {
    /// Returns whether the line is a record: it has a type and a payload.
    pub fn has_payload(&self) -> bool {
        !self.kind.raw().is_empty() && !self.payload_bytes.is_empty()
    }
}

/// The payload of a line: what any of its kinds has.
#[derive(Default)]
pub(super) struct Payload<'a> {
    pub time: Option<JsonStr<'a>>,
    pub kind: Option<JsonStr<'a>>,
    pub role: Option<JsonStr<'a>>,
    pub name: Option<JsonStr<'a>>,
    pub call_id: Option<JsonStr<'a>>,
    pub id: Option<JsonStr<'a>>,
    pub status: Option<JsonStr<'a>>,
    /// Arguments of a call: JSON in a string.
    pub arguments: Option<JsonStr<'a>>,
    /// Input of a custom call: any text.
    pub input: Option<JsonStr<'a>>,
    /// What a call without arguments does, as it stands in the log.
    pub action: &'a [u8],
    /// Result of a call.
    pub output: PartList<'a>,
    /// Content of a message.
    pub content: PartList<'a>,
    /// Summaries of reasoning.
    pub summary: PartList<'a>,
    pub encrypted: Option<JsonStr<'a>>,
    pub message: Option<JsonStr<'a>>,
    /// What replaces the history at a compaction, as it stands in the log.
    pub history: &'a [u8],
    pub session_id: Option<JsonStr<'a>>,
    pub forked_from: Option<JsonStr<'a>>,
    pub parent_thread: Option<JsonStr<'a>>,
    /// The thread that spawned this one, by its source.
    pub spawned_by: Option<JsonStr<'a>>,
    pub version: Option<JsonStr<'a>>,
    pub cwd: Option<JsonStr<'a>>,
    pub branch: Option<JsonStr<'a>>,
    pub model: Option<JsonStr<'a>>,
    pub thread_name: Option<JsonStr<'a>>,
    pub turns: Option<u64>,
    pub window: Option<u64>,
    pub total_usage: Option<TokenCounts>,
    pub last_usage: Option<TokenCounts>,
}

/// A content: a string, or a list of parts.
#[derive(Clone, Copy, Default)]
pub(super) struct PartList<'a> {
    /// As it stands in the log.
    pub bytes: &'a [u8],
    /// The string, if it is one: it needs no second look.
    pub text: Option<JsonStr<'a>>,
}

/// Token counts of a row. Input includes what was cached, output includes reasoning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TokenCounts {
    pub input: u64,
    pub cached: u64,
    pub cache_write: u64,
    pub output: u64,
    pub reasoning: u64,
    pub total: u64,
}

impl TokenCounts {
    /// Returns what was added since an earlier total.
    pub fn since(self, before: Option<TokenCounts>) -> TokenCounts {
        let before = before.filter(|before| before.total <= self.total).unwrap_or_default();
        TokenCounts {
            input: self.input.saturating_sub(before.input),
            cached: self.cached.saturating_sub(before.cached),
            cache_write: self.cache_write.saturating_sub(before.cache_write),
            output: self.output.saturating_sub(before.output),
            reasoning: self.reasoning.saturating_sub(before.reasoning),
            total: self.total.saturating_sub(before.total),
        }
    }

    /// Returns whether the client estimated the total: nothing was sent and nothing came back.
    pub fn is_estimate(&self) -> bool {
        self.input == 0 && self.output == 0
    }
}

/// Reads one line. On `Err` nothing of it may be used.
pub(super) fn parse_line<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<CodexLine<'a>, SlowPath> {
    let mut line = CodexLine::default();
    if parser.peek()? != JsonKind::Object {
        return Err(SlowPath);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"timestamp" => line.time = parser.text()?,
            b"type" => line.kind = read_word(parser)?.unwrap_or_default(),
            b"payload" => {
                let start = parser.position();
                line.payload = read_payload(parser)?;
                line.payload_bytes = parser.bytes_since(start);
            }
            _ => parser.skip()?,
        }
    }
    Ok(line)
}

/// Reads a line of the first versions: the item itself, or the head of the thread.
pub(super) fn parse_bare_line<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<CodexLine<'a>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return Err(SlowPath);
    }
    let start = parser.position();
    let payload = read_payload(parser)?;
    let kind: &[u8] = match (payload.kind, payload.id) {
        (Some(_), _) => b"response_item",
        (None, Some(_)) => b"session_meta",
        // A mark of the state between two items.
        (None, None) => b"record",
    };
    Ok(CodexLine {
        time: payload.time,
        kind: JsonStr::plain(kind),
        payload,
        payload_bytes: parser.bytes_since(start),
    })
}

/// Reads a text that is compared with words as it stands: one with unusual escapes is left to the slow path.
fn read_word<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<Option<JsonStr<'a>>, SlowPath> {
    let word = parser.text()?;
    let is_plain = |word: &JsonStr<'_>| memchr::memchr(b'\\', word.raw()).is_none();
    match word.as_ref().is_none_or(is_plain) {
        true => Ok(word),
        false => Err(SlowPath),
    }
}

/// Returns the bytes of the next value.
fn read_span<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<&'a [u8], SlowPath> {
    let start = parser.position();
    parser.skip()?;
    Ok(parser.bytes_since(start))
}

/// Reads a content without looking into its parts.
pub(super) fn read_parts<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<PartList<'a>, SlowPath> {
    let start = parser.position();
    let text = parser.text()?;
    Ok(PartList {
        bytes: parser.bytes_since(start),
        text,
    })
}

pub(super) fn read_payload<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<Payload<'a>, SlowPath> {
    let mut payload = Payload::default();
    if parser.peek()? != JsonKind::Object {
        parser.skip()?;
        return Ok(payload);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"timestamp" => payload.time = parser.text()?,
            b"type" => payload.kind = read_word(parser)?,
            b"role" => payload.role = read_word(parser)?,
            b"name" => payload.name = parser.text()?,
            b"call_id" => payload.call_id = parser.text()?,
            b"id" => payload.id = parser.text()?,
            b"status" => payload.status = parser.text()?,
            b"arguments" => payload.arguments = parser.text()?,
            b"input" => payload.input = parser.text()?,
            b"action" => payload.action = read_span(parser)?,
            b"output" => payload.output = read_parts(parser)?,
            b"content" => payload.content = read_parts(parser)?,
            b"summary" => payload.summary = read_parts(parser)?,
            b"encrypted_content" => payload.encrypted = parser.text()?,
            b"message" => payload.message = parser.text()?,
            b"replacement_history" => payload.history = read_span(parser)?,
            b"session_id" => payload.session_id = parser.text()?,
            b"forked_from_id" => payload.forked_from = parser.text()?,
            b"parent_thread_id" => payload.parent_thread = parser.text()?,
            b"source" => payload.spawned_by = read_source(parser)?,
            b"cli_version" => payload.version = parser.text()?,
            b"cwd" => payload.cwd = parser.text()?,
            b"git" => payload.branch = read_member(parser, b"branch")?,
            b"model" => payload.model = parser.text()?,
            b"thread_settings" => payload.model = read_member(parser, b"model")?,
            b"thread_name" => payload.thread_name = parser.text()?,
            b"num_turns" => payload.turns = parser.number()?,
            b"model_context_window" => payload.window = parser.number()?,
            b"info" => read_info(parser, &mut payload)?,
            _ => parser.skip()?,
        }
    }
    Ok(payload)
}

/// Returns one text of an object; `None` if it has none by this name.
fn read_member<'a, S: StringScanner>(
    parser: &mut RawParser<'a, S>,
    name: &[u8],
) -> Result<Option<JsonStr<'a>>, SlowPath> {
    let mut found = None;
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key == name {
            true => found = parser.text()?,
            false => parser.skip()?,
        }
    }
    Ok(found)
}

/// Reads `{"subagent":{"thread_spawn":{"parent_thread_id":...}}}`; other sources name no thread.
fn read_source<'a, S: StringScanner>(parser: &mut RawParser<'a, S>) -> Result<Option<JsonStr<'a>>, SlowPath> {
    let mut found = None;
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        if key != b"subagent" {
            parser.skip()?;
            continue;
        }
        found = None;
        if parser.peek()? != JsonKind::Object {
            parser.skip()?;
            continue;
        }
        let mut inner = parser.open_object()?;
        while let Some(key) = parser.next_key(&mut inner)? {
            match key {
                b"thread_spawn" => found = read_member(parser, b"parent_thread_id")?,
                _ => parser.skip()?,
            }
        }
    }
    Ok(found)
}

fn read_info<'a, S: StringScanner>(parser: &mut RawParser<'a, S>, payload: &mut Payload<'a>) -> Result<(), SlowPath> {
    // Of a key that occurs twice the last value counts.
    (payload.total_usage, payload.last_usage) = (None, None);
    if parser.peek()? != JsonKind::Object {
        return parser.skip();
    }
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        match key {
            b"total_token_usage" => payload.total_usage = read_counts(parser)?,
            b"last_token_usage" => payload.last_usage = read_counts(parser)?,
            b"model_context_window" => payload.window = parser.number()?,
            _ => parser.skip()?,
        }
    }
    Ok(())
}

fn read_counts<S: StringScanner>(parser: &mut RawParser<'_, S>) -> Result<Option<TokenCounts>, SlowPath> {
    if parser.peek()? != JsonKind::Object {
        return parser.skip().map(|()| None);
    }
    let mut counts = TokenCounts::default();
    let mut frame = parser.open_object()?;
    while let Some(key) = parser.next_key(&mut frame)? {
        let place = match key {
            b"input_tokens" => &mut counts.input,
            b"cached_input_tokens" => &mut counts.cached,
            b"cache_write_input_tokens" => &mut counts.cache_write,
            b"output_tokens" => &mut counts.output,
            b"reasoning_output_tokens" => &mut counts.reasoning,
            b"total_tokens" => &mut counts.total,
            _ => {
                parser.skip()?;
                continue;
            }
        };
        *place = parser
            .number()?
            .filter(|count| *count <= crate::record::MAX_COUNT)
            .unwrap_or(0);
    }
    Ok(Some(counts))
}
