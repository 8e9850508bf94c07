//! The input of a replay: one chain as numbers, in conversation order.
//!
//! Blocks become [`TraceItem`]s with a size in tokens, API calls become [`Call`]s that refer to ranges of items. Nothing here
//! depends on a policy, so a trace is built once ([`build_trace`]) and replayed under any number of policies.

mod build;
mod continuity;
mod touches;

pub use build::{build_trace, find_boundaries};
pub use continuity::default_base;
#[cfg(test)]
pub(crate) use touches::find_touches;
pub use touches::{FileTouch, TouchKind};

use crate::policy::presets::ClientVersion;
use crate::sim::steps::{CallSteps, LazySteps};
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, RecordId, Time, WindowMark};
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
    /// Hook output: an attachment that newer clients count with the sentence around it.
    pub const HOOK: u16 = 64;
    /// Not on the chain of parents, so a restarted client does not read it back.
    pub const OFF_CHAIN: u16 = 128;
    /// A shell call that may have changed files.
    pub const CHANGES_FILES: u16 = 256;
    /// A read that only says that the file has not changed since an earlier read.
    pub const STUB: u16 = 512;
    /// Output of a hook that ran at the start of the session.
    pub const START_HOOK: u16 = 1024;
    /// An attachment that is sent to the model as text, with a usual sentence around it.
    pub const RENDERED: u16 = 2048;
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
    /// The context window that the log states; 0 if it does not.
    pub window: u32,
    /// The client's estimate of the reasoning of earlier turns since the last compaction.
    pub earlier_reasoning: EarlierReasoning,
}

/// Reasoning that a client counts beside the usage of the last response. Encrypted reasoning has a size; where a log masks
/// it, only the tokens that the model took for it are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EarlierReasoning {
    /// Tokens by the size of the encrypted reasoning.
    pub sized: u32,
    /// Tokens of reasoning whose text was masked, as the model's usage has them.
    pub masked: u32,
}

/// The output of a call, counted in several ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallOutput {
    /// Final tokens, recorded or estimated.
    pub tokens: u32,
    /// Tokens by the most complete line of the response.
    pub recorded: u32,
    /// Tokens on the first line of the response that has usage: often a count from the middle of the stream.
    pub first_line: u32,
    /// The client's estimate of the lines of the response after that one.
    pub later_lines: u32,
    /// The part of `later_lines` that is text.
    pub later_text: u32,
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
    /// Whether the user interrupted the response before this prompt.
    pub is_interrupted: bool,
    /// Whether the client usually marks the ends of turns in this log, but not the one before this prompt.
    pub lacks_turn_end: bool,
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

/// A call that was billed within a response, apart from the one whose prompt is the window: advice of another model, a model
/// that declined before another one answered, or an earlier part of a response in several parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InnerCall {
    /// The call that it belongs to.
    pub call: u32,
    /// Index into [`Trace::models`].
    pub model: u16,
    pub tokens: Tokens,
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

impl RecordedBoundary {
    /// Returns whether it is a micro-compaction of images: it names no results, and each image saved 2,000 tokens.
    pub fn cleared_images(&self) -> bool {
        const IMAGE: u64 = 2_000;
        let saved = self.tokens_saved.filter(|saved| *saved > 0);
        self.is_micro && self.cleared.is_empty() && saved.is_some_and(|saved| saved.is_multiple_of(IMAGE))
    }
}

/// An automatic boundary that was recorded on a branch that the chain does not contain.
#[derive(Debug, Clone, PartialEq)]
pub struct OffChainBoundary {
    /// The call that follows it in the log.
    pub call: u32,
    /// The boundary record.
    pub node: Node,
    pub time: Time,
    /// Tokens before, as the client counted them.
    pub pre_tokens: u64,
}

/// A chain, ready to be replayed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The coding agent that wrote the log.
    pub client: Agent,
    /// Id of the sub-agent; empty for the main agent.
    pub agent: String,
    /// Whether the chain belongs to a sub-agent.
    pub is_sidechain: bool,
    pub items: Vec<TraceItem>,
    pub calls: Vec<Call>,
    /// Calls within responses, in order.
    pub inner_calls: Vec<InnerCall>,
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
    /// Reads, edits and writes of files that succeeded, in the order of their results.
    pub touches: Vec<FileTouch>,
    pub models: Vec<String>,
    pub versions: Vec<ClientVersion>,
    /// Automatic boundaries that were recorded off the chain, in order.
    pub off_chain: Vec<OffChainBoundary>,
    /// Texts that name the size of a window, and the call that each belongs to: the call that wrote it, or for an answer of
    /// `/model` the next one.
    pub window_marks: Vec<(u32, WindowMark)>,
    /// Tokens of system prompt and tools at the first call.
    pub base: u32,
    /// Whether the log shows `base`; otherwise it is the usual value of the client's version.
    pub base_is_known: bool,
    /// Per-call sums over the items, computed at the first replay.
    pub steps: LazySteps,
}

impl Trace {
    /// Returns whether the chain is a call of the client itself, which writes a summary or notes. The client never compacts
    /// such a chain: that would call for another one.
    pub fn is_own_call(&self) -> bool {
        let name = self.agent.strip_prefix("agent-").unwrap_or(&self.agent);
        ["acompact", "asession_memory", "aside_question", "aextract_memories"]
            .iter()
            .any(|source| name.starts_with(source))
    }

    /// Returns who makes the calls of the chain, as boundary records name it.
    pub fn call_source(&self) -> &'static str {
        match self.is_sidechain {
            _ if self.is_own_call() => "client",
            true => "agent",
            false => "main",
        }
    }

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

    /// Returns whether a call read so much less from the cache than the call before it had left there that the client takes
    /// its cache for expired. After a recorded boundary a fall says nothing.
    pub fn shows_cache_fall(&self, call: usize, least: u64, percent: u64) -> bool {
        let usage = |at: usize| self.calls.get(at).and_then(|call| call.usage);
        let (Some(before), Some(now)) = (call.checked_sub(1).and_then(usage), usage(call)) else {
            return false;
        };
        let held = before.cache_read + before.cache_write;
        let drop = held.saturating_sub(now.cache_read);
        drop > least && drop * 100 > held * percent && self.recorded_at(call).is_empty()
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
    let place = log.odd_ids.partition_point(|(id, _)| *id < record.id);
    let odd = log.odd_ids.get(place).filter(|(id, _)| *id == record.id);
    odd.map_or_else(|| record.id.to_string(), |(_, name)| log.string(*name).to_owned())
}
