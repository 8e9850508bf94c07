//! Writes canonical lines: records as Claude Code writes them.

use crate::json::JsonStr;

/// Where a canonical line comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinePlace {
    /// Line of the log, from 1.
    pub line: u64,
    /// Byte offset of that line.
    pub offset: u64,
    /// Where the canonical line starts in [`CanonicalLines::bytes`].
    pub at: usize,
}

/// Canonical lines, each with its newline, and where they come from.
#[derive(Debug, Default)]
pub struct CanonicalLines {
    pub bytes: Vec<u8>,
    pub places: Vec<LinePlace>,
}

impl CanonicalLines {
    /// Iterates over the places and the lines.
    pub fn lines(&self) -> impl Iterator<Item = (LinePlace, &[u8])> {
        self.places.iter().enumerate().map(|(number, place)| {
            let end = self.places.get(number + 1).map_or(self.bytes.len(), |next| next.at);
            (*place, &self.bytes[place.at..end])
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.places.clear();
    }

    /// Starts a line.
    pub(super) fn start(&mut self, place: SourcePlace) {
        self.places.push(LinePlace {
            line: place.line,
            offset: place.offset,
            at: self.bytes.len(),
        });
    }
}

/// A line of the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct SourcePlace {
    pub line: u64,
    pub offset: u64,
}

/// What all records of a thread share.
#[derive(Debug, Clone, Default)]
pub(super) struct ThreadScope {
    pub session: String,
    /// Id of the sub-agent; empty for the main thread.
    pub agent: String,
    pub version: String,
    pub cwd: String,
    pub branch: String,
}

/// The head of a canonical record.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RecordHead<'h> {
    pub uuid: &'h str,
    /// Empty if it has none.
    pub parent: &'h str,
    /// The record that a boundary follows.
    pub logical_parent: &'h str,
    /// The timestamp as it stands in the log, escapes included.
    pub time: &'h [u8],
    pub is_meta: bool,
    pub is_summary: bool,
}

/// Token counts of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub(super) struct CallUsage {
    /// Input that was neither read from nor written to the cache.
    pub input: u64,
    pub output: u64,
    pub cache_write: u64,
    pub cache_read: u64,
    /// The part of the output that is reasoning.
    pub reasoning: u64,
    /// The context window that the log states; 0 if it does not.
    pub window: u64,
}

/// Bytes that [`push_quoted`] looks at in one step.
const QUOTED_STEP: usize = 32;

/// Writes text as a JSON string, quotes included.
pub(super) fn push_quoted(out: &mut Vec<u8>, text: &str) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut steps = text.as_bytes().chunks_exact(QUOTED_STEP);
    for step in &mut steps {
        push_step(out, step, has_escape(step));
    }
    // The rest is looked at as if it were a whole step, too.
    let rest = steps.remainder();
    let mut padded = [b' '; QUOTED_STEP];
    padded[..rest.len()].copy_from_slice(rest);
    push_step(out, rest, has_escape(&padded));
    out.push(b'"');
}

fn has_escape(step: &[u8]) -> bool {
    step.iter().fold(0, |any, byte| any | u8::from(needs_escape(*byte))) != 0
}

/// Most steps need no escape: one branch for all of their bytes.
fn push_step(out: &mut Vec<u8>, step: &[u8], has_escape: bool) {
    match has_escape {
        true => step.iter().for_each(|byte| push_escaped(out, *byte)),
        false => out.extend_from_slice(step),
    }
}

fn needs_escape(byte: u8) -> bool {
    (byte < 0x20) | (byte == b'"') | (byte == b'\\')
}

fn push_escaped(out: &mut Vec<u8>, byte: u8) {
    match byte {
        b'"' => out.extend_from_slice(b"\\\""),
        b'\\' => out.extend_from_slice(b"\\\\"),
        b'\n' => out.extend_from_slice(b"\\n"),
        b'\t' => out.extend_from_slice(b"\\t"),
        b'\r' => out.extend_from_slice(b"\\r"),
        0..=0x1f => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
        _ => out.push(byte),
    }
}

/// Writes a number.
pub(super) fn push_number(out: &mut Vec<u8>, mut number: u64) {
    // The largest has twenty digits.
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 || at == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// Writes a string as it stands in the log, quotes included.
pub(super) fn push_raw(out: &mut Vec<u8>, text: JsonStr<'_>) {
    out.push(b'"');
    out.extend_from_slice(text.raw());
    out.push(b'"');
}

/// Starts a record: everything up to and including the key of its content.
pub(super) fn start_record(out: &mut Vec<u8>, scope: &ThreadScope, head: &RecordHead<'_>, kind: &str) {
    out.extend_from_slice(b"{\"parentUuid\":");
    match head.parent {
        "" => out.extend_from_slice(b"null"),
        parent => push_quoted(out, parent),
    }
    if !head.logical_parent.is_empty() {
        out.extend_from_slice(b",\"logicalParentUuid\":");
        push_quoted(out, head.logical_parent);
    }
    out.extend_from_slice(b",\"isSidechain\":");
    out.extend_from_slice(if scope.agent.is_empty() { b"false" } else { b"true" });
    out.extend_from_slice(b",\"userType\":\"external\"");
    for (key, value) in [
        (&b",\"cwd\":"[..], &scope.cwd),
        (b",\"sessionId\":", &scope.session),
        (b",\"version\":", &scope.version),
        (b",\"gitBranch\":", &scope.branch),
    ] {
        out.extend_from_slice(key);
        push_quoted(out, value);
    }
    if !scope.agent.is_empty() {
        out.extend_from_slice(b",\"agentId\":");
        push_quoted(out, &scope.agent);
    }
    for (key, flag) in [("isMeta", head.is_meta), ("isCompactSummary", head.is_summary)] {
        if flag {
            out.extend_from_slice(format!(",\"{key}\":true").as_bytes());
        }
    }
    out.extend_from_slice(b",\"type\":\"");
    out.extend_from_slice(kind.as_bytes());
    out.extend_from_slice(b"\",\"uuid\":");
    push_quoted(out, head.uuid);
    if !head.time.is_empty() {
        out.extend_from_slice(b",\"timestamp\":\"");
        out.extend_from_slice(head.time);
        out.push(b'"');
    }
}

/// Writes a user record around `content`, the items of a list.
pub(super) fn push_user(out: &mut Vec<u8>, scope: &ThreadScope, head: &RecordHead<'_>, content: &[u8]) {
    start_record(out, scope, head, "user");
    out.extend_from_slice(b",\"message\":{\"role\":\"user\",\"content\":[");
    out.extend_from_slice(content);
    out.extend_from_slice(b"]}}\n");
}

/// The response that a line belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResponseHead<'h> {
    /// Id of the call.
    pub message: &'h str,
    pub model: &'h str,
    /// Why it ended; empty if that is not known.
    pub stop: &'h str,
    pub usage: Option<CallUsage>,
}

/// Writes a line of a response around `content`, the items of a list.
pub(super) fn push_response(
    out: &mut Vec<u8>,
    scope: &ThreadScope,
    head: &RecordHead<'_>,
    response: &ResponseHead<'_>,
    content: &[u8],
) {
    start_record(out, scope, head, "assistant");
    if let Some(usage) = response.usage.filter(|usage| usage.reasoning > 0 || usage.window > 0) {
        out.extend_from_slice(b",\"callFacts\":{\"reasoning\":");
        push_number(out, usage.reasoning);
        out.extend_from_slice(b",\"window\":");
        push_number(out, usage.window);
        out.push(b'}');
    }
    out.extend_from_slice(b",\"message\":{\"model\":");
    push_quoted(out, response.model);
    out.extend_from_slice(b",\"id\":");
    push_quoted(out, response.message);
    out.extend_from_slice(b",\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
    out.extend_from_slice(content);
    out.extend_from_slice(b"]");
    if !response.stop.is_empty() {
        out.extend_from_slice(b",\"stop_reason\":\"");
        out.extend_from_slice(response.stop.as_bytes());
        out.push(b'"');
    }
    if let Some(usage) = response.usage {
        for (key, count) in [
            (&b",\"usage\":{\"input_tokens\":"[..], usage.input),
            (b",\"cache_creation_input_tokens\":", usage.cache_write),
            (b",\"cache_read_input_tokens\":", usage.cache_read),
            (b",\"output_tokens\":", usage.output),
        ] {
            out.extend_from_slice(key);
            push_number(out, count);
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"}}\n");
}

/// What a log says about a compaction.
#[derive(Debug, Clone, Default)]
pub(super) struct BoundaryFacts {
    pub is_manual: bool,
    pub pre_tokens: Option<u64>,
    pub post_tokens: Option<u64>,
    /// Ids of the records that it kept.
    pub kept: Vec<String>,
}

/// Writes a compaction boundary.
pub(super) fn push_boundary(out: &mut Vec<u8>, scope: &ThreadScope, head: &RecordHead<'_>, facts: &BoundaryFacts) {
    start_record(out, scope, head, "system");
    out.extend_from_slice(b",\"subtype\":\"compact_boundary\",\"compactMetadata\":{\"trigger\":");
    out.extend_from_slice(if facts.is_manual { b"\"manual\"" } else { b"\"auto\"" });
    for (key, value) in [("preTokens", facts.pre_tokens), ("postTokens", facts.post_tokens)] {
        if let Some(value) = value {
            out.extend_from_slice(format!(",\"{key}\":{value}").as_bytes());
        }
    }
    if !facts.kept.is_empty() {
        out.extend_from_slice(b",\"preservedMessages\":{\"uuids\":[");
        for (number, id) in facts.kept.iter().enumerate() {
            if number > 0 {
                out.push(b',');
            }
            push_quoted(out, id);
        }
        out.extend_from_slice(b"]}");
    }
    out.extend_from_slice(b"}}\n");
}

/// Writes the record of tool results that were cleared.
pub(super) fn push_clearing(out: &mut Vec<u8>, scope: &ThreadScope, head: &RecordHead<'_>, calls: &[String]) {
    start_record(out, scope, head, "system");
    out.extend_from_slice(
        b",\"subtype\":\"microcompact_boundary\",\"microcompactMetadata\":{\"trigger\":\"auto\",\"compactedToolIds\":[",
    );
    for (number, call) in calls.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        push_quoted(out, call);
    }
    out.extend_from_slice(b"]}}\n");
}

/// Writes a text block from decoded text.
pub(super) fn push_plain_text(content: &mut Vec<u8>, text: &str) {
    separate(content);
    content.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_quoted(content, text);
    content.push(b'}');
}

/// Writes thinking with its signature, if it has one.
pub(super) fn push_thinking(content: &mut Vec<u8>, text: &str, signature: &str) {
    separate(content);
    content.extend_from_slice(b"{\"type\":\"thinking\",\"thinking\":");
    push_quoted(content, text);
    if !signature.is_empty() {
        content.extend_from_slice(b",\"signature\":");
        push_quoted(content, signature);
    }
    content.push(b'}');
}

/// Writes a tool result from decoded text.
pub(super) fn push_plain_result(content: &mut Vec<u8>, call: &str, text: &str, images: usize, is_error: bool) {
    separate(content);
    content.extend_from_slice(b"{\"tool_use_id\":");
    push_quoted(content, call);
    content.extend_from_slice(b",\"type\":\"tool_result\",\"content\":[");
    let mut parts = Vec::new();
    push_plain_text(&mut parts, text);
    for _ in 0..images {
        parts.extend_from_slice(b",{\"type\":\"image\",\"source\":{}}");
    }
    content.extend_from_slice(&parts);
    content.push(b']');
    if is_error {
        content.extend_from_slice(b",\"is_error\":true");
    }
    content.push(b'}');
}

/// Writes the title of a session.
pub(super) fn push_title(out: &mut Vec<u8>, session: &str, title: &str) {
    out.extend_from_slice(b"{\"type\":\"ai-title\",\"aiTitle\":");
    push_quoted(out, title);
    out.extend_from_slice(b",\"sessionId\":");
    push_quoted(out, session);
    out.extend_from_slice(b"}\n");
}

/// Returns the time of a record from milliseconds since 1970; empty if there is none.
pub(super) fn time_text(milliseconds: Option<i64>) -> String {
    let time = milliseconds.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    time.map_or_else(String::new, |time| format!("{time:.3}"))
}

/// Writes a text block.
pub(super) fn push_text_block(content: &mut Vec<u8>, text: JsonStr<'_>) {
    separate(content);
    content.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    push_raw(content, text);
    content.push(b'}');
}

/// Writes the comma between two items of a list.
pub(super) fn separate(content: &mut Vec<u8>) {
    if !content.is_empty() {
        content.push(b',');
    }
}

/// Writes an id for a record that has none, in the form of a UUID.
pub(super) fn made_id(number: u128) -> String {
    const DASHED: [usize; 4] = [4, 6, 8, 10];
    let mut id = String::with_capacity(36);
    for (at, byte) in number.max(1).to_be_bytes().into_iter().enumerate() {
        if DASHED.contains(&at) {
            id.push('-');
        }
        push_hex(&mut id, byte);
    }
    id
}

/// Returns the id of the call that a record names.
pub(super) fn made_call_id(number: u128) -> String {
    let mut id = String::with_capacity(37);
    id.push_str("call_");
    number
        .to_be_bytes()
        .into_iter()
        .for_each(|byte| push_hex(&mut id, byte));
    id
}

fn push_hex(id: &mut String, byte: u8) {
    let digit = |value: u8| char::from(if value < 10 { b'0' + value } else { b'a' + value - 10 });
    id.push(digit(byte >> 4));
    id.push(digit(byte & 15));
}

/// Hashes one content after a seed: cheaper than [`hash_parts`].
pub(super) fn hash_after(seed: u128, content: &[u8]) -> u128 {
    let seed = (seed as u64) ^ ((seed >> 64) as u64);
    xxhash_rust::xxh3::xxh3_128_with_seed(content, seed)
}

/// Hashes several texts into one number.
pub(super) fn hash_parts(parts: &[&[u8]]) -> u128 {
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.digest128()
}
