//! Rows of `backcast replay`, one per call and one per session, and their columns.

use crate::views::short_id;
use replay::prices::{PicoUsd, Tariff, micro_usd};
use replay::sim::event::{CacheMiss, CompactionCause, MicroKind, PARTS, SideCallPurpose, SimCall};
use replay::sim::use_counts::UseCounts;
use replay::sim::working_set::{FetchKind, UseOutcome};
use replay::tokens::ledger::Category;
use replay::windows::{InferredWindow, known_level};
use std::iter::zip;
use std::sync::Arc;
use table::columns;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};

/// One simulated call of the conversation.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRow {
    pub session: Arc<str>,
    /// Sub-agent; empty for the main agent.
    pub agent: Arc<str>,
    pub coding_agent: Agent,
    /// Number of the call in its chain, from 0.
    pub call: u32,
    /// Turn, from 0.
    pub turn: u32,
    pub time: Time,
    pub model: Arc<str>,
    pub called: SimCall,
    /// Tokens that the log says were sent.
    pub recorded: Option<u64>,
    /// Context window of the model.
    pub window: InferredWindow,
    /// The boundary that the log has before the call.
    pub boundary: Option<&'static str>,
    /// What happened before the call.
    pub events: String,
}

impl RoundRow {
    fn part(&self, category: Category) -> u64 {
        self.called.parts[category as usize]
    }
}

columns! {
    /// Columns of `rounds.csv` and `rounds.parquet`; the page reads them back through this list.
    pub ROUND_COLUMNS: RoundRow;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "agent" "Agent" Text Always "Sub-agent; empty for the main agent." |r| &r.agent;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "call" "Call" Count Always "Number of the call in its chain, from 0." |r| r.call;
    "turn" "Turn" Count Always "Turn, from 0." |r| r.turn;
    "time" "Time" Time Always "When the call was made." |r| (r.time != NO_TIME).then_some(r.time);
    "model" "Model" Text Always "Model." |r| &r.model;
    "input" "Input" Tokens Always "Tokens sent: the window at the call." |r| r.called.tokens.input_side();
    "recorded_input" "Recorded" Tokens Always "Tokens sent, as the log has them." |r| r.recorded;
    "output" "Output" Tokens Always "Tokens answered." |r| r.called.tokens.output;
    "in_step" "In step" Flag Always "Whether the window is the recorded one." |r| r.called.in_step;
    "base" "Base" Tokens Never "Of the input, system prompt and tools." |r| r.called.base;
    "human" "human" Tokens Never "Tokens in the window, by category: human." |r| r.part(Category::Human);
    "assistant_text" "assistant_text" Tokens Never "Tokens in the window, by category: assistant_text." |r| r.part(Category::Text);
    "thinking" "thinking" Tokens Never "Tokens in the window, by category: thinking." |r| r.part(Category::Thinking);
    "tool_calls" "tool_calls" Tokens Never "Tokens in the window, by category: tool_calls." |r| r.part(Category::ToolCall);
    "tool_results" "tool_results" Tokens Never "Tokens in the window, by category: tool_results." |r| r.part(Category::ToolResult);
    "local_commands" "local_commands" Tokens Never "Tokens in the window, by category: local_commands." |r| r.part(Category::LocalCommand);
    "attachments" "attachments" Tokens Never "Tokens in the window, by category: attachments." |r| r.part(Category::Attachment);
    "images" "images" Tokens Never "Tokens in the window, by category: images." |r| r.part(Category::Image);
    "summaries" "summaries" Tokens Never "Tokens in the window, by category: summaries." |r| r.part(Category::Summary);
    "other" "other" Tokens Never "Tokens in the window, by category: other." |r| r.part(Category::Other);
    "unexplained" "Unexplained" Count Never
        "Tokens that the log says were sent beyond everything above; negative if fewer were." |r| r.called.drift;
    "threshold" "Threshold" Tokens Always "Where compaction starts; empty if the window is unknown." |r| known_level(r.called.threshold);
    "window" "Window" Tokens Never "Context window of the model, inferred; empty if it is unknown." |r| r.window.tokens;
    "window_grounds" "Grounds" Text Never
        "What it is inferred from: `given`, `stated`, `boundary`, `usage`, `text`, `sessions` of the same project, `table`, `unknown`." |r| r.window.grounds.name();
    "window_confidence" "Confidence" Text Never "How far it can be trusted: `certain`, `likely`, `weak`, `none`." |r| r.window.confidence.name();
    "level" "Level" Text Always "Where the window stands: `normal`, `warning`, `error`, `threshold`." |r| r.called.level.name();
    "cache_read" "Read" Tokens Never "Of the input, read from the prompt cache." |r| r.called.tokens.cache_read;
    "cache_write" "Written" Tokens Never "Of the input, written to it." |r| r.called.tokens.cache_write;
    "cache_miss" "Miss" Text Never
        "Why less was read than the call before left there: `first`, `expired`, `model`, `compaction`, `cleared`, `resume`, `switched`, `tools`, `skill`, `unexplained`." |r| r.called.miss.map(CacheMiss::name);
    "cost_micro_usd" "Cost" MicroUsd Always "Price of the call; empty without one." |r| r.called.cost.map(micro_usd);
    "recorded_boundary" "Boundary" Text Never
        "The last boundary that the log has before the call: `auto`, `manual`, `unknown` (of an old client), `micro`." |r| r.boundary;
    "events" "Events" Text Always
        "What happened before the call, or with it: mechanisms and how many results or tokens they moved, joined by `; `." |r| &r.events;
}

/// Calls of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CallTotals {
    /// Calls of the conversation, with those of sub-agents.
    pub made: u64,
    pub subagent: u64,
    /// Calls that were not made because the session was blocked.
    pub blocked: u64,
    /// Calls whose window is the recorded one.
    pub in_step: u64,
    /// Calls whose context window is a guess.
    pub assumed_windows: u64,
    /// Calls with a cache miss that nothing in the log explains.
    pub unexplained_misses: u64,
    /// Turns of the main chain.
    pub turns: u64,
}

impl CallTotals {
    fn merge(&mut self, other: &CallTotals) {
        self.made += other.made;
        self.subagent += other.subagent;
        self.blocked += other.blocked;
        self.in_step += other.in_step;
        self.assumed_windows += other.assumed_windows;
        self.unexplained_misses += other.unexplained_misses;
        self.turns += other.turns;
    }
}

/// Compactions of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompactionTotals {
    /// Simulated boundaries by [`CompactionCause`].
    pub by_cause: [u64; 3],
    /// Of these, the ones that used the notes.
    pub by_notes: u64,
    /// Of these, not the first of their chain.
    pub again: u64,
    /// Of these, at the place of a recorded one.
    pub as_recorded: u64,
    /// Recorded boundaries, without micro-compactions.
    pub recorded: u64,
    /// Tokens that the simulated ones freed.
    pub freed: u64,
    pub failures: u64,
    /// Prompts that the API would have refused.
    pub refused_prompts: u64,
}

impl CompactionTotals {
    /// Returns the simulated boundaries of all causes.
    pub fn count(&self) -> u64 {
        self.by_cause.iter().sum()
    }

    pub fn of_cause(&self, cause: CompactionCause) -> u64 {
        self.by_cause[cause as usize]
    }

    fn merge(&mut self, other: &CompactionTotals) {
        zip(&mut self.by_cause, other.by_cause).for_each(|(sum, part)| *sum += part);
        self.by_notes += other.by_notes;
        self.again += other.again;
        self.as_recorded += other.as_recorded;
        self.recorded += other.recorded;
        self.freed += other.freed;
        self.failures += other.failures;
        self.refused_prompts += other.refused_prompts;
    }
}

/// Micro-compactions of a session.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct MicroTotals {
    /// In the order of [`super::MICRO_KINDS`].
    pub by_kind: [u64; MicroKind::ALL.len()],
    /// Results and thinking that they cleared.
    pub cleared: u64,
    /// Tokens that they saved.
    pub saved: u64,
}

impl MicroTotals {
    fn merge(&mut self, other: &MicroTotals) {
        zip(&mut self.by_kind, other.by_kind).for_each(|(sum, part)| *sum += part);
        self.cleared += other.cleared;
        self.saved += other.saved;
    }
}

/// Windows of the main chain, and how its blocks were sized.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct WindowTotals {
    pub peak: u64,
    /// Sum and number of the windows, for the mean.
    pub sum: u128,
    pub calls: u64,
    /// The windows, call by call.
    pub course: Vec<u64>,
    /// Tokens times calls by category; system prompt and tools, and unexplained tokens last.
    pub parts: [u128; PARTS + 2],
    /// Tokens of blocks with a recorded or calibrated size, sub-agents included.
    pub measured_tokens: u64,
    /// Tokens of blocks with an estimated size.
    pub estimated_tokens: u64,
}

impl WindowTotals {
    /// Returns the mean window; `None` without a call.
    pub fn mean(&self) -> Option<u64> {
        (self.calls > 0).then(|| (self.sum / u128::from(self.calls)) as u64)
    }

    /// Returns the tokens of all blocks.
    pub fn block_tokens(&self) -> u64 {
        self.measured_tokens + self.estimated_tokens
    }

    /// Returns the share of these that is estimated; `None` without a block.
    pub fn estimated_share(&self) -> Option<f64> {
        share(self.estimated_tokens, self.block_tokens())
    }

    fn merge(&mut self, other: &WindowTotals) {
        self.peak = self.peak.max(other.peak);
        self.sum += other.sum;
        self.calls += other.calls;
        zip(&mut self.parts, other.parts).for_each(|(sum, part)| *sum += part);
        self.measured_tokens += other.measured_tokens;
        self.estimated_tokens += other.estimated_tokens;
    }
}

/// Costs of a session. Side calls are model calls outside the conversation: compaction, notes, extraction.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ReplayCosts {
    pub conversation: PicoUsd,
    /// The conversation by recorded usage.
    pub recorded: PicoUsd,
    /// Calls of the conversation without a price.
    pub unpriced_calls: u64,
    /// Calls within responses, such as the advice of another model, and what they add to both sums above.
    pub inner_calls: u64,
    pub inner: PicoUsd,
    /// Costs and numbers of side calls by [`SideCallPurpose`].
    pub side: [PicoUsd; SideCallPurpose::ALL.len()],
    pub side_calls: [u64; SideCallPurpose::ALL.len()],
    /// Input tokens of side calls, and those of them that came from the prompt cache.
    pub side_input: u64,
    pub side_cached: u64,
    /// Sub-agents' calls that only progress records show. They are not replayed.
    pub progress_calls: u64,
    /// Their cost.
    pub progress_cost: PicoUsd,
}

impl ReplayCosts {
    fn merge(&mut self, other: &ReplayCosts) {
        self.conversation += other.conversation;
        self.progress_calls += other.progress_calls;
        self.progress_cost += other.progress_cost;
        self.recorded += other.recorded;
        self.unpriced_calls += other.unpriced_calls;
        self.inner_calls += other.inner_calls;
        self.inner += other.inner;
        zip(&mut self.side, other.side).for_each(|(sum, part)| *sum += part);
        zip(&mut self.side_calls, other.side_calls).for_each(|(sum, part)| *sum += part);
        self.side_input += other.side_input;
        self.side_cached += other.side_cached;
    }

    /// Returns the cost of the side calls.
    pub fn side_total(&self) -> PicoUsd {
        self.side.iter().sum()
    }

    fn side_of(&self, purpose: SideCallPurpose) -> i64 {
        micro_usd(self.side[purpose as usize])
    }
}

/// The replay of a session, or of all sessions.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRow {
    pub session: String,
    pub coding_agent: Agent,
    /// Working directory.
    pub project: String,
    /// First and last call.
    pub times: Option<(Time, Time)>,
    pub calls: CallTotals,
    pub compactions: CompactionTotals,
    pub micro: MicroTotals,
    pub window: WindowTotals,
    pub costs: ReplayCosts,
    /// Updates of the notes.
    pub notes: u64,
    /// Turns at whose end memories would be extracted.
    pub extractions: u64,
    /// Memories and instructions that joined the window beyond the record: tokens.
    pub recalled: u64,
    /// Edits for which the client would have demanded a read first.
    pub reads_needed: u64,
    /// Prices of the last call of the main chain, for a consolidation at the end of the session.
    pub last_tariff: Option<Tariff>,
    /// Whether uses of files were looked for.
    pub has_working_set: bool,
    pub working_set: UseCounts,
    /// Results whose calls were gone.
    pub orphans: u64,
    /// Defects of the replay itself.
    pub defects: u64,
}

impl SessionRow {
    /// Adds another session.
    pub fn merge(&mut self, other: &SessionRow) {
        self.times = match (self.times, other.times) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (times, None) | (None, times) => times,
        };
        self.calls.merge(&other.calls);
        self.compactions.merge(&other.compactions);
        self.micro.merge(&other.micro);
        self.window.merge(&other.window);
        self.costs.merge(&other.costs);
        self.notes += other.notes;
        self.extractions += other.extractions;
        self.recalled += other.recalled;
        self.reads_needed += other.reads_needed;
        self.has_working_set |= other.has_working_set;
        self.working_set.merge(&other.working_set);
        self.orphans += other.orphans;
        self.defects += other.defects;
    }

    /// Returns the row with a short session id, for the table.
    pub fn with_short_id(&self) -> SessionRow {
        SessionRow {
            session: short_id(&self.session),
            ..self.clone()
        }
    }

    /// Returns the cost of all calls; `None` if no call has a price.
    pub fn total_cost(&self) -> Option<PicoUsd> {
        (self.costs.unpriced_calls < self.calls.made).then(|| self.costs.conversation + self.costs.side_total())
    }

    /// Returns a count of uses; `None` if uses were not looked for.
    fn count_uses(&self, count: impl Fn(&UseCounts) -> u64) -> Option<u64> {
        self.has_working_set.then(|| count(&self.working_set))
    }

    fn fetches(&self, kind: FetchKind) -> Option<u64> {
        self.count_uses(|uses| uses.fetches[kind as usize])
    }
}

/// Returns a part of a whole as a share; `None` if the whole is empty.
pub fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

columns! {
    /// Columns of `sessions.csv`.
    pub SESSION_COLUMNS: Arc<SessionRow>;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "project" "Project" Text Never "Working directory." |r| &r.project;
    "first_time" "First" Time Never "First call." |r| r.times.map(|times| times.0);
    "last_time" "Last" Time Never "Last call." |r| r.times.map(|times| times.1);
    "calls" "Calls" Count Always "Calls of the conversation, sub-agents included." |r| r.calls.made;
    "subagent_calls" "Sub" Count Never "Of these, sub-agents'." |r| r.calls.subagent;
    "turns" "Turns" Count IfRoom "Turns of the main chain." |r| r.calls.turns;
    "compactions" "Compact" Count Always "Simulated boundaries." |r| r.compactions.count();
    "recorded_compactions" "Recorded" Count Always "Recorded boundaries." |r| r.compactions.recorded;
    "as_recorded" "Same" Count IfRoom "Simulated at the place of a recorded one." |r| r.compactions.as_recorded;
    "auto" "Auto" Count Never "Of the simulated ones, automatic." |r| r.compactions.of_cause(CompactionCause::Auto);
    "manual" "Manual" Count Never "Asked for by the user." |r| r.compactions.of_cause(CompactionCause::Manual);
    "reactive" "Reactive" Count Never "In answer to a refused prompt." |r| r.compactions.of_cause(CompactionCause::Reactive);
    "by_notes" "By notes" Count Never "By the notes, without a model call." |r| r.compactions.by_notes;
    "again" "Again" Count Never "Not the first of their chain." |r| r.compactions.again;
    "freed_tokens" "Freed" Tokens IfRoom "Tokens that boundaries freed." |r| r.compactions.freed;
    "micro" "Micro" Count Always "Micro-compactions of all kinds." |r| r.micro.by_kind.iter().sum::<u64>();
    "cleared" "Cleared" Count Never "Results and thinking that these cleared." |r| r.micro.cleared;
    "saved_tokens" "Saved" Tokens Never "Tokens that these saved." |r| r.micro.saved;
    "failures" "Failed" Count Never "Compactions that did not come about." |r| r.compactions.failures;
    "too_long" "Refused" Count Never "Prompts that the API would have refused." |r| r.compactions.refused_prompts;
    "blocked_calls" "Blocked" Count Never "Calls that could not have been made." |r| r.calls.blocked;
    "notes_updates" "Notes" Count Never "Updates of the notes." |r| r.notes;
    "extractions" "Extract" Count Never "Turns at whose end memories would be extracted." |r| r.extractions;
    "peak" "Peak" Tokens Always "Largest window of the main chain." |r| r.window.peak;
    "mean" "Mean" Tokens Always "Mean window of the main chain over its calls." |r| r.window.mean();
    "cost_micro_usd" "Cost" MicroUsd Always "Simulated cost, with side calls (summaries, notes, extraction)." |r| r.total_cost().map(micro_usd);
    "conversation_micro_usd" "Conversation" MicroUsd Never
        "Of the cost, the calls of the conversation." |r| r.total_cost().map(|_| micro_usd(r.costs.conversation));
    "recorded_micro_usd" "Recorded $" MicroUsd Always
        "The calls of the conversation by recorded usage, outputs as simulated." |r| r.total_cost().map(|_| micro_usd(r.costs.recorded));
    "compact_micro_usd" "Compact $" MicroUsd Never "Of the cost, summaries." |r| r.costs.side_of(SideCallPurpose::Compact);
    "notes_micro_usd" "Notes $" MicroUsd Never "Of the cost, notes." |r| r.costs.side_of(SideCallPurpose::Notes);
    "extract_micro_usd" "Extract $" MicroUsd Never "Of the cost, extraction of memories." |r| r.costs.side_of(SideCallPurpose::Extract);
    "recall_micro_usd" "Recall $" MicroUsd Never "Of the cost, side queries that choose memories." |r| r.costs.side_of(SideCallPurpose::Recall);
    "recalled_tokens" "Recalled" Tokens Never
        "Memories, notes and instructions of folders that joined the window beyond the record." |r| r.recalled;
    "reads_needed" "Reads needed" Count Never
        "Edits for which the client would have demanded a read first, because it had forgotten the file." |r| r.reads_needed;
    "side_cached_share" "Shared" Share Never
        "Share of the side calls' input that was read from the prompt cache." |r| share(r.costs.side_cached, r.costs.side_input);
    "unexplained_misses" "Misses" Count Never "Cache misses that nothing in the log explains." |r| r.calls.unexplained_misses;
    "in_step_calls" "In step" Count Never "Calls whose window is the recorded one." |r| r.calls.in_step;
    "estimated_share" "Estimated" Share Never "Share of the tokens of all items that is estimated." |r| r.window.estimated_share();
    "assumed_window_calls" "Guessed" Count Never "Calls whose window is unknown or a weak guess." |r| r.calls.assumed_windows;
    "uses" "Uses" Count Never
        "Edits and writes of known files (with --working-set, as all that follows)." |r| r.count_uses(UseCounts::uses);
    "misses" "Misses" Count IfRoom
        "Uses whose lines were no longer in the window, files that came back not credited." |r| r.count_uses(UseCounts::misses);
    "misses_credited" "Misses, credited" Count Never
        "The same, files that came back credited." |r| r.count_uses(UseCounts::misses_credited);
    "misses_in_flight" "In flight" Count Never
        "Of these, results that a boundary summarized before the model had seen them." |r| r.count_uses(|uses| uses.outcomes[UseOutcome::InFlight as usize]);
    "at_risk_uses" "At risk" Count Never "Uses 20,000 tokens or more away from what they need." |r| r.count_uses(UseCounts::at_risk_uses);
    "at_risk_hit_share" "At-risk hits" Share Never
        "Share of these that hit, files that came back not credited." |r| r.working_set.at_risk_ratio().map(|(share, _)| share);
    "refetches" "Refetched" Count Never "Recorded reads of what had been in the window and was dropped." |r| r.fetches(FetchKind::Refetch);
    "refetched_tokens" "Refetched" Tokens Never "Their tokens." |r| r.count_uses(|uses| uses.fetch_tokens[FetchKind::Refetch as usize]);
    "redundant_reads" "Redundant" Count Never "Recorded reads of what was in the window." |r| r.fetches(FetchKind::Redundant);
    "references" "Named" Count Never
        "Known files named in a prompt, a response or a command, each once a call." |r| r.count_uses(|uses| uses.references.iter().sum());
    "reference_misses" "Named, gone" Count Never
        "Of these, with nothing of the file in the window, files that came back not credited." |r| r.count_uses(|uses| uses.reference_misses().0);
    "reference_misses_credited" "Named, gone" Count Never "The same, these credited." |r| r.count_uses(|uses| uses.reference_misses().1);
    "prompts_summarized" "Prompts" Count Never "Prompts of people that boundaries summarized." |r| r.working_set.prompts;
}
