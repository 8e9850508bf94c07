//! Events of a replay. The replay loop only emits events; metrics, boundary lists, reports and comparisons all read them.

use crate::prices::PicoUsd;
use crate::sim::cache_reads::ReadSituation;
use crate::sim::restore::RESTORED_PARTS;
use crate::sim::uses::FileUse;
use crate::sim::working_set::{FetchKind, UseOutcome};
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::record::Tokens;

/// Number of parts of a window: one per ledger category.
pub const PARTS: usize = Category::ALL.len();

/// Receives the events of one chain, in order.
pub trait EventSink {
    /// Handles one event. `call` is the API call at or before which it happens.
    fn on_event(&mut self, call: u32, event: &Event<'_>);
}

impl<F: FnMut(u32, &Event<'_>)> EventSink for F {
    fn on_event(&mut self, call: u32, event: &Event<'_>) {
        self(call, event);
    }
}

named_enum! {
    /// A mechanism of micro-compaction.
    pub enum MicroKind {
        /// Clears old results after a long pause.
        Gap = "gap",
        /// Deletes old results on the server while the prompt cache is warm.
        Cached = "cached",
        /// Clears old results down to a token budget.
        Budget = "budget",
        /// The API's own edits of tool results.
        Api = "api",
        /// The API's own removal of old thinking.
        Thinking = "thinking",
        /// Clears old results down to the target of a caller.
        Target = "target",
    }
}

impl MicroKind {
    /// Returns whether the remaining prompt is still a prefix of what the prompt cache holds.
    pub fn keeps_prefix(self) -> bool {
        self == MicroKind::Cached
    }
}

named_enum! {
    /// What started a compaction.
    pub enum CompactionCause {
        /// The context reached the threshold.
        Auto = "auto",
        /// The user asked for it.
        Manual = "manual",
        /// The API refused a prompt as too long.
        Reactive = "reactive",
    }
}

named_enum! {
    /// What replaced the history at a compaction.
    pub enum CompactionKind {
        /// The session notes, without a model call.
        SessionMemory = "session-memory",
        /// A summary of everything.
        Full = "full",
        /// A summary of a part; the rest stays verbatim.
        Partial = "partial",
    }
}

/// A simulated boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimBoundary {
    pub cause: CompactionCause,
    pub kind: CompactionKind,
    /// Whether a recorded boundary stands at the same place and its recorded sizes were used.
    pub is_recorded: bool,
    /// How often the compaction prompt was shortened and sent again because it was too long.
    pub retries: u32,
    /// The context as the client counts it, at the check.
    pub context: u64,
    /// The threshold in force.
    pub threshold: u64,
    pub size: BoundarySize,
    /// Restored files: index of the path in the trace, and tokens.
    pub restored_files: Vec<(u32, u64)>,
    /// Restored tokens by [`RestoredPart`](crate::sim::restore::RestoredPart).
    pub restored_parts: [u64; RESTORED_PARTS],
    /// Tokens that left the window, by category.
    pub dropped: [u64; PARTS],
    /// Tokens that stayed verbatim, by category.
    pub kept_parts: [u64; PARTS],
    pub summarized: RecordCount,
    /// The last item before the boundary; `None` if there is none.
    pub last_item: Option<u32>,
    /// Items that stayed verbatim.
    pub kept: Range<u32>,
    pub since: BoundaryDistance,
}

/// Tokens around a boundary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BoundarySize {
    /// The window before.
    pub before: u64,
    /// The window after.
    pub after: u64,
    /// The summary, or the notes that replace it.
    pub summary: u64,
    /// Files, skills and state that the client put back.
    pub restored: u64,
}

/// Number of records in a range of items.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCount {
    pub records: u32,
    /// Of these, prompts typed by the user.
    pub prompts: u32,
}

/// Distance of a boundary from the previous one, or from the start of the chain if it is the first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BoundaryDistance {
    pub calls: u32,
    pub turns: u32,
    /// Whether there is a previous boundary.
    pub is_recompaction: bool,
    /// Call and turn of the previous boundary.
    pub previous: Option<(u32, u32)>,
}

named_enum! {
    /// Why a compaction failed.
    pub enum CompactionFailure {
        /// The policy injects failures (`failure.rate`).
        Injected = "injected",
        /// The compaction prompt was too long after all retries.
        TooLong = "prompt-too-long",
        /// There was nothing to summarize.
        Nothing = "nothing-to-summarise",
        /// The new window would have been no smaller than the old one.
        NoGain = "no-gain",
        /// A hook forbade it. This is no failure for the circuit breaker.
        Vetoed = "vetoed",
    }
}

named_enum! {
    /// The highest level that the window has reached.
    #[derive(Default)]
    pub enum WindowLevel {
        /// Below every level.
        #[default]
        Normal = "normal",
        /// At or above the warning level.
        Warning = "warning",
        /// At or above the error level.
        Error = "error",
        /// At or above the compaction threshold.
        Threshold = "threshold",
    }
}

named_enum! {
    /// The purpose of a model call outside the conversation.
    pub enum SideCallPurpose {
        /// Writing a summary.
        Compact = "compact",
        /// Updating the session notes.
        Notes = "notes",
        /// Extracting memories.
        Extract = "extract",
        /// Choosing memories for a prompt.
        Recall = "recall",
        /// Consolidating the memories of a project, between sessions.
        Consolidate = "consolidate",
    }
}

named_enum! {
    /// Why a call read less from the prompt cache than the previous call had left there.
    pub enum CacheMiss {
        /// It is the first call of the chain.
        First = "first",
        /// The cache entry had expired.
        Expired = "expired",
        /// The model changed.
        Model = "model",
        /// A compaction replaced the history.
        Compaction = "compaction",
        /// Results were cleared.
        Cleared = "cleared",
        /// The client was restarted.
        Resume = "resume",
        /// Thinking was switched on or off, or a client command inserted text early in the prompt.
        Switched = "switched",
        /// The call before loaded tools.
        Tools = "tools",
        /// The call before invoked a skill.
        Skill = "skill",
        /// Nothing in the log explains it.
        Unexplained = "unexplained",
    }
}

/// One API call of the conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimCall {
    /// Tokens sent and received, by price class.
    pub tokens: Tokens,
    /// Cost by the price table; `None` if the table does not list the model.
    pub cost: Option<PicoUsd>,
    /// The window by category, in ledger order.
    pub parts: [u64; PARTS],
    /// System prompt and tools.
    pub base: u64,
    /// Tokens of the window that no item explains.
    pub drift: i64,
    /// The threshold in force.
    pub threshold: u64,
    pub level: WindowLevel,
    /// Whether the window is the recorded one.
    pub in_step: bool,
    /// Why the call missed the prompt cache; `None` if it did not.
    pub miss: Option<CacheMiss>,
    /// What the bill expects of the prompt cache.
    pub cache: CacheExpectation,
}

impl SimCall {
    /// Returns the tokens by price class without expected misses: what the rules of the cache say.
    pub fn tokens_by_rule(&self) -> Tokens {
        let Tokens {
            cache_read,
            cache_write,
            cache_write_1h,
            ..
        } = self.tokens;
        if self.cache.situation.is_none() {
            return self.tokens;
        }
        // What is not read is written.
        let write = (cache_read + cache_write).saturating_sub(self.cache.by_rule);
        Tokens {
            cache_read: self.cache.by_rule,
            cache_write: write,
            cache_write_1h: if cache_write_1h > 0 { write } else { 0 },
            ..self.tokens
        }
    }
}

/// What a bill expects of the prompt cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheExpectation {
    /// `None` for the first call of a chain, and where writing to the cache is not billed.
    pub situation: Option<ReadSituation>,
    /// Whether what the cache holds lives for an hour.
    pub is_hour: bool,
    /// Tokens that the cache holds.
    pub held: u64,
    /// Tokens of system prompt and tools, which a miss may leave.
    pub low: u64,
    /// Tokens that the rules expect to be read, without unexplained misses.
    pub by_rule: u64,
}

/// The context as the client counts it before a call: the usage of the last response plus estimates of what came after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextCount {
    /// The call whose usage the count starts from.
    pub anchor: u32,
    /// Input tokens of that call.
    pub input: u64,
    /// Output tokens of that call, as the client counts them.
    pub output: u64,
    /// The client's estimate of the blocks added since.
    pub trail: u64,
    /// The client's estimate of the later lines of that response.
    pub later_lines: u64,
    /// The client's estimate of the reasoning of earlier turns, at most.
    pub reasoning: u64,
    /// The part of it that is not certain, because the log masks reasoning.
    pub unsure: u64,
    /// The sum of all five.
    pub context: u64,
    /// The same sum with padded estimates. The client compares this one with the threshold.
    pub padded_context: u64,
}

/// One event of a replay.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// Micro-compaction removed results or thinking from the window.
    Micro {
        kind: MicroKind,
        /// Tokens of everything that could have been cleared, as the mechanism counts them; 0 if it does not count.
        eligible: u64,
        /// Tokens freed, as the mechanism counts them.
        saved: u64,
        /// Cleared items, in order.
        cleared: &'a [u32],
    },
    /// The automatic check found the context at or above the threshold.
    Due {
        /// The context as the client counts it.
        context: u64,
        threshold: u64,
    },
    /// The replay reached a recorded boundary.
    Reached {
        /// Index of the boundary in [`Trace::recorded`](crate::sim::trace::Trace::recorded).
        recorded: usize,
        /// The client's count at this place; `None` without usage to start from.
        count: Option<ContextCount>,
        threshold: u64,
        /// Whether the policy would compact here too.
        is_due: bool,
    },
    /// A compaction replaced the history.
    Boundary(&'a SimBoundary),
    /// A compaction failed.
    Failed {
        cause: CompactionCause,
        failure: CompactionFailure,
        /// Consecutive failures, this one included.
        in_a_row: u64,
    },
    /// The circuit breaker opened: no automatic compaction is tried from here on.
    BreakerOpen,
    /// The API refuses a prompt as too long.
    TooLong {
        /// Tokens of the prompt.
        tokens: u64,
        /// Tokens that the API accepts.
        limit: u64,
    },
    /// The session cannot continue: its prompt is too long and could not be compacted.
    Blocked,
    /// A call of the conversation was made.
    Called(&'a SimCall),
    /// A model call outside the conversation was made.
    Side {
        purpose: SideCallPurpose,
        /// Tokens sent and received, by price class.
        tokens: Tokens,
        /// Cost by the price table; `None` if the table does not list the model.
        cost: Option<PicoUsd>,
    },
    /// A call within the response was billed, as recorded: the advice of another model, a model that declined before
    /// another one answered, or an earlier part of the response.
    Inner {
        /// Tokens sent and received, by price class.
        tokens: Tokens,
        /// Cost by the price table; `None` if the table does not list the model.
        cost: Option<PicoUsd>,
    },
    /// The session notes were updated.
    Notes {
        /// Size of the notes.
        tokens: u64,
    },
    /// A turn ended and memories would be extracted.
    Extract,
    /// An edit or a write of a known file, and whether the window holds what it needs.
    Used {
        one: &'a FileUse,
        outcome: UseOutcome,
        /// Of a miss, the lists of [`FileUse::lines`] of which the window holds nothing.
        gone: &'a [u32],
    },
    /// A known file was mentioned, and whether the window holds any copy of it.
    Referred {
        /// Index of the path in the trace.
        path: u32,
        outcome: UseOutcome,
    },
    /// A file was read, and why.
    Fetched {
        kind: FetchKind,
        /// Tokens of the result.
        tokens: u64,
    },
    /// Memories joined the window.
    Recalled {
        /// Tokens of the memories.
        tokens: u64,
    },
    /// A restarted session read its notes.
    NotesRead {
        /// Tokens of the notes.
        tokens: u64,
    },
    /// Instructions of a folder joined the window again after a compaction.
    Nested {
        /// Index of their path in the trace.
        path: u32,
        /// Tokens of the instructions.
        tokens: u64,
    },
    /// An edit needs a read first, because the client has forgotten the file.
    NeedsRead {
        /// Index of the path in the trace.
        path: u32,
    },
    /// This many results were left out of the window because their calls are no longer in it.
    Orphans(u32),
    /// The running total of the window differs from its recount: a bug in this program.
    Defect { running: i64, counted: i64 },
}
