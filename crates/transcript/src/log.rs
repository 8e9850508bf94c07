//! The compact form of one log: ids, links, sizes and counts, no text.
//!
//! Everything after parsing works on a [`Log`]. [`crate::build`] creates it once per file, [`crate::pack`] packs it (in
//! memory between the stages, on disk in the cache), and [`crate::thread`] assembles the logs of a session. Repeated
//! strings (sessions, models, tools, paths) are interned and referred to by number.

mod problems;

pub use problems::{KEPT_PER_KIND, LineProblem, LineProblemKind, LineProblems};

use crate::agents::Agent;
use crate::record::Tokens;
use crate::skim::parse_hex32;

/// Number of a string in [`Log::strings`]. Number 0 is the empty string and means "none".
pub type NameId = u32;

/// Id of a record: a UUID as its 128-bit value, any other text as its hash (and by name in [`Log::odd_ids`]).
///
/// Packed to an alignment of 8: with the natural alignment of `u128`, 16, every record would grow by padding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(Rust, packed(8))]
pub struct RecordId(pub u128);

impl RecordId {
    /// Returns the id as a number.
    pub fn number(self) -> u128 {
        self.0
    }

    /// Reads an id. The flag is set if the text is a canonical UUID, which can be restored from the number.
    pub fn read(text: &[u8]) -> (RecordId, bool) {
        match parse_uuid(text) {
            Some(value) => (RecordId(value), true),
            None => (RecordId(xxhash_rust::xxh3::xxh3_128(text)), false),
        }
    }
}

impl std::fmt::Display for RecordId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let hex = format!("{:032x}", self.number());
        write!(
            f,
            "{}-{}-{}-{}-{}",
            &hex[..8],
            &hex[8..12],
            &hex[12..16],
            &hex[16..20],
            &hex[20..]
        )
    }
}

/// Parses a lower-case UUID with hyphens, as the client writes them. Returns `None` for any other text.
fn parse_uuid(text: &[u8]) -> Option<u128> {
    let text: &[u8; 36] = text.try_into().ok()?;
    if [8, 13, 18, 23].iter().any(|&at| text[at] != b'-') {
        return None;
    }
    let half = |at: usize| u64::from(u32::from_le_bytes([text[at], text[at + 1], text[at + 2], text[at + 3]]));
    parse_hex32([(0, 4), (9, 14), (19, 24), (28, 32)].map(|(one, next)| half(one) | half(next) << 32))
}

/// Returns the hash of an API id (message, request, tool call). Never 0, which means "none".
pub fn hash_api_id(text: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(text).max(1)
}

/// Milliseconds since 1970, or [`NO_TIME`].
pub type Time = i64;

/// Time of a record without a readable timestamp.
pub const NO_TIME: Time = i64::MIN;

coded_enum! {
    /// Kinds of records.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum RecordKind {
        /// A prompt, tool results, or text that the client inserted.
        User = 0,
        /// One line of a response.
        Assistant = 1,
        /// A system record other than a boundary.
        System = 2,
        /// A compaction boundary.
        Boundary = 3,
        /// A micro-compaction boundary.
        MicroBoundary = 4,
        /// Progress of a tool or sub-agent.
        Progress = 5,
        /// Context that the client added.
        Attachment = 6,
        /// Unknown kind; kept because other records may follow it.
        Other = 7,
        /// A system record that the client writes at the end of a turn.
        TurnEnd = 8,
    }
}

/// A link to another record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordLink {
    /// No link.
    #[default]
    None,
    /// A record of the same log, by index.
    Here(u32),
    /// A record that is not in this log, by its place in [`Log::elsewhere`].
    Elsewhere(u32),
}

/// What consecutive records share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct RecordScope {
    pub session: NameId,
    pub agent: NameId,
    /// Version of the client.
    pub version: NameId,
    pub cwd: NameId,
    pub branch: NameId,
    /// Part of a sub-agent's chain.
    pub is_sidechain: bool,
}

/// A record that takes part in a conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Record {
    /// Line of the log, from 1.
    pub line: u32,
    /// Byte offset of that line.
    pub offset: u64,
    pub kind: RecordKind,
    /// Id; zero if it has none.
    pub id: RecordId,
    /// The record it follows.
    pub parent: RecordLink,
    /// The record that a boundary follows.
    pub logical_parent: RecordLink,
    pub time: Time,
    /// Number of its [`RecordScope`].
    pub scope: u32,
    /// Number of its line in [`Log::responses`].
    pub response: Option<u32>,
    /// Index of its first block in [`Log::blocks`].
    pub first_block: u32,
    /// Number of blocks.
    pub blocks: u32,
    /// Number of its [`BoundaryRecord`].
    pub boundary: Option<u32>,
    /// Inserted by the client.
    pub is_meta: bool,
    /// The summary after a boundary.
    pub is_summary: bool,
    /// An API error, shown as a message.
    pub is_api_error: bool,
    /// A repetition: an earlier record of this log has the same id.
    pub is_repeat: bool,
}

coded_enum! {
    /// Why a response ended.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum StopReason {
        /// Not given: the line was written while the response was still streaming.
        Unknown = 0,
        /// The response calls tools.
        ToolUse = 1,
        /// The turn is over.
        EndTurn = 2,
        /// Anything else.
        Other = 3,
    }
}

/// What one line says about an API call. Several lines may describe the same call.
#[derive(Debug, Clone, PartialEq)]
pub struct ResponseLine {
    /// Index of its record.
    pub record: u32,
    /// Hash of the message id; 0 if it has none.
    pub message: u64,
    /// Hash of the request id; 0 if it has none, or if the message id alone identifies the call.
    pub request: u64,
    pub model: NameId,
    pub stop: StopReason,
    /// Billed tokens.
    pub billed: Tokens,
    /// Tokens in the window at the call, if they differ from the billed ones. Boxed because they hardly ever do.
    pub last_call: Option<Box<Tokens>>,
    /// Its top-level counts are zero although it lists iterations: the line is in a segment that a compaction kept.
    pub is_zeroed: bool,
    /// Nested in a progress record: a call of a sub-agent, seen from outside.
    pub is_progress: bool,
}

impl ResponseLine {
    /// Returns the hash that identifies the call; 0 for none. An id that is not the API's gives way to the request: forks
    /// write a fresh one on every line.
    pub fn call_key(&self) -> u64 {
        match self.request {
            0 => self.message,
            request => request,
        }
    }

    /// Returns the tokens in the window at the call.
    pub fn context(&self) -> Tokens {
        self.last_call.as_deref().copied().unwrap_or(self.billed)
    }
}

coded_enum! {
    /// Kinds of content blocks.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum BlockKind {
        /// Text that a person typed.
        Human = 0,
        /// A slash or shell command that a person ran in the client.
        Command = 1,
        /// Output of such a command.
        CommandOutput = 2,
        /// Text that the client inserted: reminders, caveats, notifications.
        Injected = 3,
        /// The summary after a compaction.
        Summary = 4,
        /// Assistant text.
        Text = 5,
        /// Thinking.
        Thinking = 6,
        /// A tool call.
        ToolCall = 7,
        /// A tool result.
        ToolResult = 8,
        /// An image.
        Image = 9,
        /// A document.
        Document = 10,
        /// Context that the client attached.
        Attachment = 11,
        /// Unknown kind.
        Other = 12,
        /// Text by which the client marks that the user interrupted a response.
        Interruption = 13,
    }
}

/// A content block.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Block {
    pub kind: BlockKind,
    /// Length in UTF-16 units; for a call, of its serialized input.
    pub units: u32,
    /// Token estimate of the recorded client: units / 4, rounded half up part by part.
    pub quarters: u32,
    /// Characters that JSON escapes: line breaks, tabs, quotes.
    pub escapes: u32,
    /// UTF-8 bytes beyond one per unit.
    pub wide: u32,
    /// Tool of a call or result, type of an attachment or of an unknown block.
    pub name: NameId,
    /// Hash of the call id, on calls and results.
    pub call: u64,
    /// File that a call or attachment names.
    pub path: NameId,
    /// First line and number of lines that a read requests; 0 for "not given".
    pub range: (u32, u32),
    /// Number of images and documents inside a result.
    pub images: u32,
    /// Length of a thinking signature or of a hook's name.
    pub extra: u32,
    /// A result that reports an error.
    pub is_error: bool,
    /// A shell call that may have changed files (version control, formatters, in-place edits).
    pub may_change_files: bool,
}

impl Block {
    /// Creates an empty block.
    pub fn new(kind: BlockKind) -> Block {
        Block {
            kind,
            units: 0,
            quarters: 0,
            escapes: 0,
            wide: 0,
            name: 0,
            call: 0,
            path: 0,
            range: (0, 0),
            images: 0,
            extra: 0,
            is_error: false,
            may_change_files: false,
        }
    }
}

/// Metadata of a boundary.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct BoundaryRecord {
    /// Started by the client, not by the user.
    pub is_auto: bool,
    /// Tokens before the compaction.
    pub pre_tokens: Option<u64>,
    /// Tokens after it, without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens that clearing results saved (micro-compaction).
    pub tokens_saved: Option<u64>,
    pub duration_ms: Option<u64>,
    /// Records that the compaction kept.
    pub kept: Vec<RecordId>,
    /// Hashes of the calls whose results were cleared, in order.
    pub cleared: Vec<u64>,
}

coded_enum! {
    /// Where a title comes from, the best source first.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum TitleSource {
        /// Given by the user.
        Custom = 0,
        /// Written by a model.
        Model = 1,
        /// Written by a model of an old client, for a list of sessions.
        Summary = 2,
        /// The beginning of a prompt.
        Prompt = 3,
        /// A command of the client that the user ran.
        Command = 4,
        /// A tag that the user gave: not a title, but looked for in the same place when a session is resumed.
        Tag = 5,
    }
}

/// A text that can serve as the title of a session. The only words of a conversation that the compact form keeps.
#[derive(Debug, Clone, PartialEq)]
pub struct TitleText {
    pub session: NameId,
    pub source: TitleSource,
    /// At most [`TITLE_CHARS`] characters, secrets included: mask it before it is shown.
    pub text: Box<str>,
    /// Byte offset of the line that it was last written on; 0 for beginnings of prompts and for titles of [`TitleSource::Summary`].
    pub offset: u64,
}

/// Characters that are kept of a title or of the beginning of a prompt.
pub const TITLE_CHARS: usize = 240;

/// Prompts of a session whose beginning is kept: the first ones may be greetings.
pub const TITLE_PROMPTS: usize = 3;

/// A link from a session to a pull request.
#[derive(Debug, Clone, PartialEq)]
pub struct PullLink {
    pub session: NameId,
    pub url: Box<str>,
    pub time: Time,
}

coded_enum! {
    /// A text of a record that says how large the window of a model is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub enum WindowMark {
        /// A commit trailer names the model with a window of a million tokens.
        Trailer = 0,
        /// The user chose a model with a window of a million tokens.
        LargeModel = 1,
        /// The user chose a model, and no size is named.
        OtherModel = 2,
    }
}

/// What other agents than Claude Code say about a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallFacts {
    /// Index into [`Log::responses`].
    pub response: u32,
    /// The part of the output that is reasoning.
    pub reasoning: u32,
    /// The context window; 0 if the log does not state it.
    pub window: u32,
}

/// A call within a response that the response's counts leave out: the advice of another model, or a model that declined
/// before another one answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OtherCall {
    /// Index into [`Log::responses`].
    pub response: u32,
    pub model: NameId,
    /// Billed tokens.
    pub tokens: Tokens,
}

/// A log in compact form.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Log {
    /// The agent that wrote it.
    pub agent: Agent,
    /// Threads that the log belongs to or descends from, its own first. Records are copies of each other only within such
    /// a family. Empty for Claude Code, whose ids are unique.
    pub lineage: Vec<NameId>,
    /// By response line, ascending: what only other agents say.
    pub call_facts: Vec<CallFacts>,
    /// By response line, ascending: calls within it that its counts leave out.
    pub other_calls: Vec<OtherCall>,
    /// Interned strings; number 0 is empty.
    pub strings: Vec<Box<str>>,
    /// Scopes that records share.
    pub scopes: Vec<RecordScope>,
    /// The records that take part in a conversation, in file order.
    pub records: Vec<Record>,
    /// What assistant and progress records say about API calls.
    pub responses: Vec<ResponseLine>,
    /// All content blocks, in the order of their records.
    pub blocks: Vec<Block>,
    /// Boundaries of both kinds.
    pub boundaries: Vec<BoundaryRecord>,
    /// Records with a text that names the size of a window, in order.
    pub window_marks: Vec<(u32, WindowMark)>,
    /// Ids that records link to but no record of this log has.
    pub elsewhere: Vec<RecordId>,
    /// Texts of ids that are not UUIDs.
    pub odd_ids: Vec<(RecordId, NameId)>,
    /// Lines by record type (and subtype of system and progress records), sorted by name.
    pub kinds: Vec<(NameId, u64)>,
    /// Texts that can serve as titles of its sessions: one of each source, of prompts the first ones.
    pub titles: Vec<TitleText>,
    /// Links to pull requests, in file order.
    pub pulls: Vec<PullLink>,
    /// Lines that could not be read, or only after repair.
    pub problems: LineProblems,
    /// Lines of the log, blank ones included.
    pub lines: u64,
    /// Bytes of the log, decompressed.
    pub bytes: u64,
}

impl Log {
    /// Returns an interned string.
    pub fn string(&self, name: NameId) -> &str {
        self.strings.get(name as usize).map_or("", |text| text)
    }

    /// Makes the ids of calls comparable only within a family of threads. A second time undoes it.
    pub fn separate_calls(&mut self, family: u64) {
        for response in self.responses.iter_mut().filter(|response| response.message != 0) {
            response.message ^= family;
        }
    }

    /// Returns the earliest and the latest time; [`NO_TIME`] if no record has one.
    pub fn times(&self) -> (Time, Time) {
        let times = self.records.iter().map(|record| record.time);
        let times = times.filter(|time| *time != NO_TIME);
        let ends = times.fold(None, |ends: Option<(Time, Time)>, time| {
            let (first, last) = ends.unwrap_or((time, time));
            Some((first.min(time), last.max(time)))
        });
        ends.unwrap_or((NO_TIME, NO_TIME))
    }

    /// Returns what the log says about the call of a record beyond its usage; `None` if it says nothing.
    pub fn call_facts_of(&self, record: &Record) -> Option<&CallFacts> {
        let response = record.response?;
        let at = self
            .call_facts
            .binary_search_by_key(&response, |facts| facts.response)
            .ok()?;
        self.call_facts.get(at)
    }

    /// Returns the calls within the response of a record that its counts leave out.
    pub fn other_calls_of(&self, record: &Record) -> &[OtherCall] {
        let Some(response) = record.response.filter(|_| !self.other_calls.is_empty()) else {
            return &[];
        };
        let start = self.other_calls.partition_point(|call| call.response < response);
        let end = self.other_calls.partition_point(|call| call.response <= response);
        &self.other_calls[start..end]
    }

    /// Returns the blocks of a record.
    pub fn blocks_of(&self, record: &Record) -> &[Block] {
        let first = record.first_block as usize;
        &self.blocks[first..first + record.blocks as usize]
    }

    /// Returns the scope of a record.
    pub fn scope_of(&self, record: &Record) -> &RecordScope {
        &self.scopes[record.scope as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_round_trip() {
        let text = "0c97beba-bfcb-4f84-9950-e0354bfc808b";
        let (id, is_uuid) = RecordId::read(text.as_bytes());
        assert!(is_uuid);
        assert_eq!(id.to_string(), text);
    }

    #[test]
    fn other_ids_are_hashed() {
        for odd in [
            "",
            "u1",
            "0C97BEBA-BFCB-4F84-9950-E0354BFC808B",
            "0c97beba-bfcb-4f84-9950xe0354bfc808b",
        ] {
            assert!(!RecordId::read(odd.as_bytes()).1, "{odd}");
        }
        assert_ne!(RecordId::read(b"u1").0, RecordId::read(b"u2").0);
    }
}
