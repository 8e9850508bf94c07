//! The input of a replay: one chain as numbers, in conversation order.
//!
//! Blocks become [`TraceItem`]s with a size in tokens, API calls become [`Call`]s that refer to ranges of items. Nothing here
//! depends on a policy, so a trace is built once ([`build_trace`]) and replayed under any number of policies.

mod build;

pub use build::{build_trace, default_base};

use crate::policy::presets::ClientVersion;
use crate::sim::steps::{CallSteps, LazySteps};
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::log::{NO_TIME, RecordId, Time};
use transcript::record::Tokens;
use transcript::thread::{Node, Session};

/// Index of no item.
pub const NONE: u32 = u32::MAX;

/// Bits of [`TraceItem::flags`].
pub mod flag {
    /// Inserted by a recorded compaction: its summary, and what the client restored with it.
    pub const ARTIFACT: u16 = 1;
    /// A tool result that reports an error.
    pub const ERROR: u16 = 2;
    /// Text by the user or the model. The keep rule of the notes counts messages by these.
    pub const TEXT: u16 = 4;
    /// The first item of its record.
    pub const STARTS_RECORD: u16 = 8;
    /// The size was estimated from the length of the text alone.
    pub const ESTIMATED: u16 = 16;
    /// Hook output: an attachment that the client's estimate counts all the same.
    pub const HOOK: u16 = 64;
    /// Not on the chain of parents, so a restarted client does not read it back.
    pub const OFF_CHAIN: u16 = 128;
    /// A shell call that may have changed files.
    pub const CHANGES_FILES: u16 = 256;
}

/// One block of the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceItem {
    pub tokens: u32,
    /// The recorded client's own token estimate: a quarter of the text's length.
    pub quarters: u32,
    pub category: Category,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Number of images and documents inside.
    pub images: u8,
    /// Index into [`Trace::tools`]; 0 for none.
    pub tool: u16,
    /// For a tool call the item of its result, for a result the item of its call; [`NONE`] if the log lacks it.
    pub pair: u32,
    /// Index into [`Trace::paths`]; 0 for none.
    pub path: u32,
}

impl TraceItem {
    /// Returns whether the item has any of the given [`flag`] bits.
    pub fn has_flag(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// One API call.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Call {
    /// Items added since the previous response.
    pub inputs: Range<u32>,
    /// Items of the response.
    pub response: Range<u32>,
    /// First record of the response.
    pub node: Node,
    /// Index into [`Trace::models`].
    pub model: u16,
    /// Index into [`Trace::versions`].
    pub version: u16,
    /// Whether the call belongs to another session, whose records were copied into this one.
    pub is_copied: bool,
    /// Number of the turn, from 0.
    pub turn: u32,
    /// Whether the input contains a prompt typed by the user.
    pub starts_turn: bool,
    /// Time of the first line of the response.
    pub time: Time,
    /// Time of the last input record.
    pub input_time: Time,
    /// Number of tool calls in the response.
    pub tool_calls: u32,
    /// Recorded usage of the last iteration; `None` if the log has none.
    pub usage: Option<Tokens>,
    pub output: CallOutput,
    pub continuity: Continuity,
}

/// The output of a call, counted in three ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOutput {
    /// Final tokens, recorded or estimated.
    pub tokens: u32,
    /// Tokens on the first line of the response: often a count from the middle of the stream.
    pub first_line: u32,
    /// The client's estimate of the later lines of the response.
    pub later_lines: u32,
}

/// How a call follows the call before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Continuity {
    /// Input tokens beyond the new items: reminders that no record shows, or (negative) thinking that the API dropped.
    pub gap: i32,
    /// Growth of the window by estimates alone.
    pub growth: i32,
    /// Whether the client was restarted in between: the cache is cold and the prompt is smaller than before.
    pub is_resume: bool,
    /// Whether the client wrote a response of its own in between, as it does when it resumes a session.
    pub is_after_restart: bool,
    /// Whether a client command inserted text into the prompt.
    pub is_expanded: bool,
    /// Whether records between the two calls are missing from the log.
    pub is_after_hole: bool,
}

impl Call {
    /// Returns the time when the call was sent: the time of its last input, or of its response if the input has none.
    pub fn sent_time(&self) -> Time {
        match self.input_time {
            NO_TIME => self.time,
            time => time,
        }
    }
}

/// What started a recorded boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundaryTrigger {
    /// The client.
    Auto,
    /// The user.
    Manual,
    /// Not recorded: an old client wrote a summary without a boundary record.
    Unknown,
}

/// A boundary in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedBoundary {
    /// Whether it only cleared tool results.
    pub is_micro: bool,
    pub trigger: BoundaryTrigger,
    /// The call that follows it; the number of calls if none does.
    pub call: u32,
    /// The item that follows it.
    pub item: u32,
    /// The boundary record.
    pub node: Node,
    /// Time of the boundary record.
    pub time: Time,
    /// When the compaction began: at the last record before it, or at the command that asked for it. [`NO_TIME`] if the log
    /// does not show it; time before a manual compaction may be the user's absence.
    pub started: Time,
    /// Index into [`Trace::versions`].
    pub version: u16,
    /// Tokens before, as the client counted them.
    pub pre_tokens: Option<u64>,
    /// Tokens after, as the client counted them: without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens saved by clearing, as the client counted them.
    pub tokens_saved: Option<u64>,
    pub duration_ms: Option<u64>,
    /// Number of records kept verbatim.
    pub kept: u32,
    /// Cleared results as items, in order; [`NONE`] for a result that the log does not have.
    pub cleared: Vec<u32>,
    /// Whether the record that it followed is in the log.
    pub has_leaf: bool,
    /// Whether it belongs to another session, whose records were copied into this one.
    pub is_copied: bool,
    /// Tokens of the summary.
    pub summary: u32,
}

/// A chain, ready to be replayed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Id of the sub-agent; empty for the main agent.
    pub agent: String,
    /// Whether the chain belongs to a sub-agent.
    pub is_sidechain: bool,
    pub items: Vec<TraceItem>,
    pub calls: Vec<Call>,
    /// Items added after the last response.
    pub tail: Range<u32>,
    /// Records with items: index of the first item, and the record.
    pub nodes: Vec<(u32, Node)>,
    /// Recorded boundaries, in order.
    pub recorded: Vec<RecordedBoundary>,
    /// Tool names; index 0 is empty.
    pub tools: Vec<String>,
    /// File paths; index 0 is empty.
    pub paths: Vec<String>,
    pub models: Vec<String>,
    pub versions: Vec<ClientVersion>,
    /// Tokens of system prompt and tools at the first call.
    pub base: u32,
    /// Whether the log shows `base`; otherwise it is the usual value of the client's version.
    pub base_is_known: bool,
    /// Per-call sums over the items, computed at the first replay.
    pub steps: LazySteps,
}

impl Trace {
    /// Returns the model name of a call.
    pub fn model(&self, call: &Call) -> &str {
        &self.models[usize::from(call.model)]
    }

    /// Returns the index of a tool; `None` if the chain never uses it.
    pub fn tool(&self, name: &str) -> Option<u16> {
        let number = self.tools.iter().position(|tool| tool == name)?;
        u16::try_from(number).ok()
    }

    /// Returns what every call adds to the window. Computed once per trace.
    pub fn steps(&self) -> &CallSteps {
        self.steps.get_or_init(self)
    }

    /// Returns the items of a range.
    pub fn items(&self, range: &Range<u32>) -> &[TraceItem] {
        &self.items[range.start as usize..range.end as usize]
    }

    /// Returns by how many tokens the prompt of a call is smaller than the window after the previous call; negative if it
    /// grew, `None` if either call has no usage.
    pub fn prompt_drop(&self, call: usize) -> Option<i64> {
        let before = self.calls.get(call.checked_sub(1)?)?.usage?;
        let now = self.calls.get(call)?.usage?;
        Some(before.total() as i64 - now.input_side() as i64)
    }

    /// Returns the recorded boundaries that stand directly before a call.
    pub fn recorded_at(&self, call: usize) -> &[RecordedBoundary] {
        let start = self
            .recorded
            .partition_point(|boundary| (boundary.call as usize) < call);
        let end = self
            .recorded
            .partition_point(|boundary| (boundary.call as usize) <= call);
        &self.recorded[start..end]
    }
}

/// Returns the id of a record as the log writes it; empty if it has none.
pub fn uuid(session: &Session<'_>, node: Node) -> String {
    let record = session.record(node);
    if record.id == RecordId::default() {
        return String::new();
    }
    let log = session.log(node);
    // Ids that are not UUIDs are kept as strings next to the log.
    let odd = log.odd_ids.iter().find(|(id, _)| *id == record.id);
    odd.map_or_else(|| record.id.to_string(), |(_, name)| log.string(*name).to_owned())
}
