//! What happens in a replay. The loop only emits these; metrics, boundaries, reports and comparisons all read them.

use crate::prices::PicoUsd;
use crate::sim::uses::FileUse;
use crate::sim::working_set::{FetchKind, UseOutcome};
use std::ops::Range;
use transcript::record::Tokens;

/// Categories of the window, as in the ledger, and what belongs to none.
pub const PARTS: usize = 10;

/// Takes the events of one chain, in order.
pub trait EventSink {
    /// `call` is the API call before or at which it happens.
    fn on_event(&mut self, call: u32, event: &Event<'_>);
}

impl<F: FnMut(u32, &Event<'_>)> EventSink for F {
    fn on_event(&mut self, call: u32, event: &Event<'_>) {
        self(call, event);
    }
}

/// Which micro-compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MicroKind {
    /// After a long pause.
    Gap,
    /// Deleted on the server while the cache is warm.
    Cached,
    /// Down to a budget.
    Budget,
    /// The API's own edits of results.
    Api,
    /// The API's own edits of thinking.
    Thinking,
}

impl MicroKind {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            MicroKind::Gap => "gap",
            MicroKind::Cached => "cached",
            MicroKind::Budget => "budget",
            MicroKind::Api => "api",
            MicroKind::Thinking => "thinking",
        }
    }
}

/// Who started a compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactionCause {
    /// The threshold.
    Auto,
    /// The user.
    Manual,
    /// A prompt that the API refused.
    Reactive,
}

impl CompactionCause {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            CompactionCause::Auto => "auto",
            CompactionCause::Manual => "manual",
            CompactionCause::Reactive => "reactive",
        }
    }
}

/// How history was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactionKind {
    /// By the notes, without a model call.
    SessionMemory,
    /// By a summary of everything.
    Full,
    /// By a summary of a part.
    Partial,
}

impl CompactionKind {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            CompactionKind::SessionMemory => "session-memory",
            CompactionKind::Full => "full",
            CompactionKind::Partial => "partial",
        }
    }
}

/// A simulated boundary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimBoundary {
    /// Who started it.
    pub cause: CompactionCause,
    /// How history was replaced.
    pub kind: CompactionKind,
    /// The context as the client counts it, at the check.
    pub context: u64,
    /// Threshold in force.
    pub threshold: u64,
    /// Window before.
    pub before: u64,
    /// Window after.
    pub after: u64,
    /// Tokens of the summary or the notes.
    pub summary: u64,
    /// Tokens that were restored.
    pub restored: u64,
    /// Files that came back, by number of their path, with their tokens.
    pub restored_files: Vec<(u32, u64)>,
    /// What left the window, by category.
    pub dropped: [u64; PARTS],
    /// What stayed of it, by category.
    pub kept_parts: [u64; PARTS],
    /// Records that were summarised.
    pub records: u32,
    /// Of these, prompts of people.
    pub prompts: u32,
    /// The last item before it, if there is one.
    pub last_item: Option<u32>,
    /// Items that were kept.
    pub kept: Range<u32>,
    /// Tries after a prompt that was too long.
    pub retries: u32,
    /// Calls since the boundary before, or since the start.
    pub calls_since: u32,
    /// Turns since then.
    pub turns_since: u32,
    /// Whether there was one before.
    pub is_recompaction: bool,
    /// A recorded boundary stands at the same place, and its sizes were taken.
    pub is_recorded: bool,
}

/// Why a compaction did not happen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompactionFailure {
    /// Injected.
    Injected,
    /// The prompt was too long after all tries.
    TooLong,
    /// There was nothing to summarise.
    Nothing,
    /// The result would have been no smaller than what it replaces.
    NoGain,
}

impl CompactionFailure {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            CompactionFailure::Injected => "injected",
            CompactionFailure::TooLong => "prompt-too-long",
            CompactionFailure::Nothing => "nothing-to-summarise",
            CompactionFailure::NoGain => "no-gain",
        }
    }
}

/// Where the window stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum WindowLevel {
    /// Below every level.
    #[default]
    Normal,
    /// At the warning level.
    Warning,
    /// At the error level.
    Error,
    /// At the threshold.
    Threshold,
}

impl WindowLevel {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            WindowLevel::Normal => "normal",
            WindowLevel::Warning => "warning",
            WindowLevel::Error => "error",
            WindowLevel::Threshold => "threshold",
        }
    }
}

/// A model call beside the conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SideCallPurpose {
    /// A summary.
    Compact,
    /// An update of the notes.
    Notes,
    /// Extraction of memories.
    Extract,
}

impl SideCallPurpose {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            SideCallPurpose::Compact => "compact",
            SideCallPurpose::Notes => "notes",
            SideCallPurpose::Extract => "extract",
        }
    }
}

/// Why a call read less from the prompt cache than the one before left there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CacheMiss {
    /// The first call of a chain.
    First,
    /// The cache had expired.
    Expired,
    /// Another model.
    Model,
    /// A compaction.
    Compaction,
    /// Results were cleared.
    Cleared,
    /// The client was started again.
    Resume,
    /// Thinking was switched on or off, or a command of the client put text in.
    Switched,
    /// Nothing in the log says why.
    Unexplained,
}

impl CacheMiss {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            CacheMiss::First => "first",
            CacheMiss::Expired => "expired",
            CacheMiss::Model => "model",
            CacheMiss::Compaction => "compaction",
            CacheMiss::Cleared => "cleared",
            CacheMiss::Resume => "resume",
            CacheMiss::Switched => "switched",
            CacheMiss::Unexplained => "unexplained",
        }
    }
}

/// One API call of the conversation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimCall {
    /// What was sent and answered, by price.
    pub tokens: Tokens,
    /// Its price in the table in force; `None` for a model that it does not list.
    pub cost: Option<PicoUsd>,
    /// The window by category, in the order of the ledger.
    pub parts: [u64; PARTS],
    /// System prompt and tools.
    pub base: u64,
    /// What no item explains.
    pub drift: i64,
    /// Threshold in force.
    pub threshold: u64,
    /// Where the window stands.
    pub level: WindowLevel,
    /// Whether the window is the recorded one.
    pub in_step: bool,
    /// Why the cache was missed, if it was.
    pub miss: Option<CacheMiss>,
}

/// The context as the client counts it before a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextCount {
    /// The call whose usage it starts from.
    pub anchor: u32,
    /// What was sent then.
    pub input: u64,
    /// What was answered, as the client counts it.
    pub output: u64,
    /// Its estimate of what came after.
    pub trail: u64,
    /// Its estimate of the later lines of the answer.
    pub later_lines: u64,
    /// All of it.
    pub context: u64,
    /// All of it, the estimates padded: what is held against the threshold.
    pub padded_context: u64,
}

/// Something that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event<'a> {
    /// Results (or thinking) left the window.
    Micro {
        /// Which micro-compaction.
        kind: MicroKind,
        /// Tokens of all that could have gone, as the mechanism counts them; 0 if it does not count.
        eligible: u64,
        /// Tokens that came free, as the mechanism counts them.
        saved: u64,
        /// Items that were cleared, in order.
        cleared: &'a [u32],
    },
    /// The context is at or above the threshold.
    Due {
        /// The context as the client counts it.
        context: u64,
        /// The threshold.
        threshold: u64,
    },
    /// A recorded boundary was reached; what the client would have counted there.
    Reached {
        /// Number of the boundary in the trace.
        recorded: usize,
        /// The context, if it can be told.
        count: Option<ContextCount>,
        /// The threshold.
        threshold: u64,
        /// Whether the policy is due.
        is_due: bool,
    },
    /// History was replaced.
    Boundary(&'a SimBoundary),
    /// A compaction did not come about.
    Failed {
        /// Who started it.
        cause: CompactionCause,
        /// Why not.
        failure: CompactionFailure,
        /// Failures in a row.
        in_a_row: u64,
    },
    /// No more tries after this.
    BreakerOpen,
    /// The API refuses the prompt.
    TooLong {
        /// What was sent.
        tokens: u64,
        /// What it takes.
        limit: u64,
    },
    /// The session cannot go on.
    Blocked,
    /// A call of the conversation.
    Called(&'a SimCall),
    /// A call beside it.
    Side {
        /// What for.
        purpose: SideCallPurpose,
        /// What was sent and answered, by price.
        tokens: Tokens,
        /// Its price.
        cost: Option<PicoUsd>,
    },
    /// The notes were updated.
    Notes {
        /// Their size.
        tokens: u64,
    },
    /// A turn ended, and memories would be extracted.
    Extract,
    /// An edit or a write of a known file: whether what it needs is in the window.
    Used {
        /// The use.
        one: &'a FileUse,
        /// How it came out.
        outcome: UseOutcome,
    },
    /// A known file was named: whether any of it is in the window.
    Referred {
        /// The file.
        path: u32,
        /// How it came out.
        outcome: UseOutcome,
    },
    /// A read, and what it was for.
    Fetched {
        /// What for.
        kind: FetchKind,
        /// Tokens of its result.
        tokens: u64,
    },
    /// Results whose calls are gone were left out.
    Orphans(u32),
    /// The running totals were wrong: a defect of this program.
    Defect {
        /// What was kept.
        running: i64,
        /// What the window adds up to.
        counted: i64,
    },
}
