//! The replay: a session's trace run through a policy. Read this first.
//!
//! One call after the other: new input joins the window; micro-compaction; the automatic check and, if due, the chain of
//! compactions; the API call; the response joins; the notes; the end of a turn. Every step only emits [`event`]s.
//!
//! A replay is open-loop: recorded messages are taken as they came, whatever the policy dropped. As long as the policy does
//! what the recorded client did, the window is *in step* with the record, and recorded sizes are used as they are. Once it
//! does something else, the window is made of the sizes of its items.
//!
//! [`Mode::Follow`] keeps in step at all costs: recorded boundaries happen as recorded, and the policy only says what it
//! would have done. That is how a policy is held against the record.

pub mod event;
pub mod inference;
pub mod keep;
pub mod limits;
pub mod micro;
pub mod notes;
pub mod oracle;
pub mod prompt_cache;
pub mod restore;
pub mod steps;
pub mod trace;
pub mod use_counts;
pub mod uses;
pub mod window;
pub mod working_set;
#[cfg(test)]
mod working_set_tests;

#[cfg(test)]
mod properties;

use crate::policy::Policy;
use crate::policy::presets::{PolicySet, client_policy};
use crate::policy::value::{OutputCount, SummaryRange, SummarySize, TrailEstimate};
use crate::prices::{PicoUsd, Price, PriceTable, Tariff, tariffs};
use crate::tokens::ledger::Category;
use event::{
    CacheMiss, CompactionCause, CompactionFailure, CompactionKind, ContextCount, Event, EventSink, MicroKind, PARTS,
    SideCallPurpose, SimBoundary, SimCall, WindowLevel,
};
use inference::{InferredWindow, WindowGrounds};
use limits::WindowLimits;
use micro::{ClearableResults, Clearing};
use notes::SimNotes;
use prompt_cache::PromptCache;
use smallvec::SmallVec;
use std::ops::Range;
use steps::{CallStep, CallSteps, StretchTotals};
use trace::{BoundaryTrigger, Call, RecordedBoundary, Trace, flag};
use transcript::log::{NO_TIME, Time};
use transcript::record::Tokens;
use uses::FileUses;
use window::{ItemState, Window};
use working_set::WorkingSet;

/// Whether the policy acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplayMode {
    /// The policy acts.
    Free,
    /// The record acts, and the policy says what it would have done.
    Follow,
}

/// What a replay needs beside the trace. Lists go by number: models and versions of the trace, its calls.
pub struct ReplayInput<'a> {
    /// Policy by version.
    pub policies: &'a [&'a Policy],
    /// Price by model; `None` for a model that the table does not list.
    pub prices: &'a [Option<&'a Price>],
    /// Window by call.
    pub windows: &'a [InferredWindow],
    /// Median size of the summaries of the corpus.
    pub summary: Option<u64>,
    /// Whether the policy acts.
    pub mode: ReplayMode,
    /// What was used again, if hits and misses are wanted.
    pub uses: Option<&'a FileUses>,
    /// Texts that stand in for history, where real ones are wanted instead of sizes.
    pub texts: Option<&'a dyn BoundaryTextWriter>,
    /// Names the chain, so that injected failures differ between chains and not between runs.
    pub key: u64,
}

/// Writes the texts that a replay puts into its boundaries. Sizes are in tokens of the window.
pub trait BoundaryTextWriter {
    /// Brings the notes up to date, so that they cover everything before an item. Their size.
    fn update_notes(&self, end: u32) -> u64;

    /// History gives way to the notes that cover everything before an item.
    fn use_notes(&self, covered: u32);

    /// Writes a summary of some items. Its size; `None` if there is nothing to say.
    fn summarise(&self, items: Range<u32>, cause: CompactionCause) -> Option<u64>;
}

/// Policies and prices of a trace, by number of version and model.
pub fn policies_and_prices<'a>(
    policies: &'a PolicySet,
    prices: &'a PriceTable,
    trace: &Trace,
) -> (Vec<&'a Policy>, Vec<Option<&'a Price>>) {
    let by_version = trace
        .versions
        .iter()
        .map(|version| policies.for_version(Some(*version)));
    let by_model = trace.models.iter().map(|model| prices.find(model));
    (by_version.collect(), by_model.collect())
}

/// Windows of the calls of a trace that is replayed under policies of choice.
pub fn infer_replay_windows(trace: &Trace, policies: &[&Policy], prices: &[Option<&Price>]) -> Vec<InferredWindow> {
    let clients = trace.versions.iter().map(|version| client_policy(*version));
    inference::infer_windows_under(trace, policies, &clients.collect::<Vec<_>>(), prices)
}

/// Replays a chain.
pub fn replay(trace: &Trace, setting: &ReplayInput<'_>, sink: &mut impl EventSink) {
    let Some(first) = trace.calls.first() else { return };
    let policy = setting.policies[usize::from(first.version)];
    let tariffs: SmallVec<[Option<Tariff>; 2]> = tariffs(setting.prices);
    let mut replay = Replay::new(trace, setting, sink, policy, &tariffs);
    for (at, (call, step)) in std::iter::zip(&trace.calls, &trace.steps().calls).enumerate() {
        replay.simulate_round(at, call, step);
    }
    replay.finish();
}

/// The last response: what the client's count starts from.
#[derive(Clone, Copy)]
struct Anchor {
    call: usize,
    /// What was sent.
    input: u64,
}

struct Replay<'r, S> {
    trace: &'r Trace,
    steps: &'r CallSteps,
    input: &'r ReplayInput<'r>,
    sink: &'r mut S,
    /// By model.
    tariffs: &'r [Option<Tariff>],
    /// What is in force at the call that is being made.
    tariff: Option<&'r Tariff>,
    policy: &'r Policy,
    limits: WindowLimits,
    /// Version, model and window that they are of.
    in_force: (u16, u16, u64),
    /// Whether the policy has any micro-compaction.
    may_clear: bool,
    /// Recorded boundaries before the call that is being made.
    boundaries_here: &'r [RecordedBoundary],
    /// Those before later ones.
    boundaries_ahead: &'r [RecordedBoundary],
    working_set: WorkingSet,
    /// How far the list of uses was gone through.
    uses_cursor: uses::UsesCursor,
    window: Window<'r>,
    results: ClearableResults,
    clearable: Vec<bool>,
    cache: PromptCache,
    notes: SimNotes,
    anchor: Option<Anchor>,
    /// Client's estimate of what came since the anchor.
    trail: u64,
    /// Whether the window is the recorded one.
    in_step: bool,
    failures: u64,
    is_blocked: bool,
    /// Call and turn of the last boundary.
    last_boundary: Option<(usize, u32)>,
    restored_files: Vec<(u32, u64)>,
    turns_since_extraction: u64,
    /// Whether the main agent wrote a memory itself since extraction last looked.
    wrote_memory: bool,
    /// When the recorded boundary was written that is being met: what follows it may have come much later.
    boundary_time: Option<Time>,
}

impl<'r, S: EventSink> Replay<'r, S> {
    fn new(
        trace: &'r Trace,
        setting: &'r ReplayInput<'r>,
        sink: &'r mut S,
        policy: &'r Policy,
        tariffs: &'r [Option<Tariff>],
    ) -> Self {
        let may_clear = setting.policies.iter().any(|policy| micro::may_clear(policy));
        Replay {
            trace,
            steps: trace.steps(),
            input: setting,
            sink,
            tariffs,
            tariff: None,
            policy,
            limits: WindowLimits::new(policy, 0, None),
            in_force: (u16::MAX, u16::MAX, 0),
            may_clear: false,
            boundaries_here: &[],
            boundaries_ahead: &trace.recorded,
            working_set: WorkingSet::default(),
            uses_cursor: uses::UsesCursor::default(),
            window: Window::new(trace, policy.placeholder),
            results: ClearableResults::new(may_clear),
            clearable: match may_clear {
                true => micro::tool_mask(trace, &policy.micro_tools),
                false => Vec::new(),
            },
            cache: PromptCache::default(),
            notes: SimNotes::default(),
            anchor: None,
            trail: 0,
            in_step: true,
            failures: 0,
            is_blocked: false,
            last_boundary: None,
            restored_files: Vec::new(),
            turns_since_extraction: 0,
            wrote_memory: false,
            boundary_time: None,
        }
    }

    /// One call, in the order of a round.
    fn simulate_round(&mut self, at: usize, call: &'r Call, step: &'r CallStep) {
        self.enter_call(at, call);
        if call.is_after_hole {
            self.anchor = None;
        }
        self.take_inputs(at, &call.inputs, step);
        if self.is_blocked {
            return;
        }
        // A copied call was checked where it was made, by a client whose window need not have been this one's.
        if !call.is_copied {
            let has_cleared = self.clear_results(at);
            if call.is_resume && !has_cleared {
                self.drop_off_chain_items();
            }
            self.check_threshold(at);
        }
        self.send_prompt(at, call);
        if self.is_blocked {
            return;
        }
        self.take_response(at, call, step);
        self.update_notes_and_memories(at, call, step);
    }

    /// A client that was started again has read the chain of parents, and nothing beside it.
    fn drop_off_chain_items(&mut self) {
        let is_beside = |item: &u32| self.trace.items[*item as usize].has_flag(flag::OFF_CHAIN);
        for item in self.window.live_items().filter(is_beside).collect::<Vec<_>>() {
            self.window.remove(item);
        }
        self.results.prune(&self.window, self.trace);
        self.cache.break_prefix(CacheMiss::Resume);
    }

    /// Takes note of what is in force at a call. Neighbours mostly have the same.
    fn enter_call(&mut self, at: usize, call: &Call) {
        let window = self.input.windows[at].tokens;
        let now = (call.version, call.model, window);
        if now == self.in_force {
            return;
        }
        let output_limit = self.input.prices[usize::from(call.model)].and_then(|price| price.max_output);
        self.policy = self.input.policies[usize::from(call.version)];
        self.tariff = self.tariffs[usize::from(call.model)].as_ref();
        self.limits = WindowLimits::new(self.policy, window, output_limit);
        self.may_clear = micro::may_clear(self.policy);
        self.in_force = now;
    }

    fn emit(&mut self, at: usize, event: &Event<'_>) {
        self.sink.on_event(at as u32, event);
    }

    /// New input joins the window; recorded boundaries among it are met on the way.
    fn take_inputs(&mut self, at: usize, inputs: &Range<u32>, step: &CallStep) {
        let is_here = |boundary: &RecordedBoundary| boundary.call as usize <= at;
        if !self.boundaries_ahead.first().is_some_and(is_here) {
            self.boundaries_here = &[];
            self.add_stretch(at, inputs.clone(), &step.inputs);
            return;
        }
        (self.boundaries_here, self.boundaries_ahead) = self
            .boundaries_ahead
            .split_at(self.boundaries_ahead.partition_point(is_here));
        let first = self.trace.recorded.len() - self.boundaries_ahead.len() - self.boundaries_here.len();
        let mut from = inputs.start;
        for (number, boundary) in (first..)
            .zip(self.boundaries_here)
            .filter(|(_, boundary)| !boundary.is_micro)
        {
            self.add_items(at, from..boundary.item);
            from = boundary.item;
            self.boundary_time = Some(boundary.time).filter(|time| *time != NO_TIME);
            self.meet_boundary(at, number, boundary);
            self.boundary_time = None;
        }
        self.add_items(at, from..inputs.end);
    }

    /// Adds everything that a call brings.
    fn add_stretch(&mut self, at: usize, items: Range<u32>, stretch: &StretchTotals) {
        let orphans = self.window.add_stretch(items.clone(), stretch, self.in_step);
        self.trail += micro::estimate_stretch(self.policy, stretch, self.trace.items(&items));
        if stretch.has_results() {
            self.take_results(at, items, orphans);
        }
    }

    /// Adds a part of it.
    fn add_items(&mut self, at: usize, items: Range<u32>) {
        let orphans = self.window.add(items.clone(), self.in_step);
        self.trail += micro::estimate_trail(self.policy, self.trace.items(&items));
        self.take_results(at, items, orphans);
    }

    fn take_results(&mut self, at: usize, items: Range<u32>, orphans: u32) {
        self.results.add(&self.window, self.trace, items, &self.clearable);
        if orphans > 0 {
            self.emit(at, &Event::Orphans(orphans));
        }
    }

    /// The context as the client counts it; `None` if no usage tells.
    fn count_context(&self) -> Option<ContextCount> {
        let policy = self.policy;
        let anchor = self.anchor?;
        let before = &self.trace.calls[anchor.call];
        let output = u64::from(match policy.output {
            OutputCount::Final => before.output,
            OutputCount::Recorded => before.output_recorded,
        });
        let (trail, later_lines) = match policy.trail {
            TrailEstimate::None => (0, 0),
            TrailEstimate::User => (self.trail, 0),
            TrailEstimate::All => (self.trail, u64::from(before.later_lines)),
        };
        let known = anchor.input + output;
        let estimated = trail + later_lines;
        Some(ContextCount {
            anchor: anchor.call as u32,
            input: anchor.input,
            output,
            trail,
            later_lines,
            context: known + estimated,
            padded_context: known + pad_estimate(estimated, policy.padding),
        })
    }

    /// The context as the client counts it.
    fn context(&self) -> Option<u64> {
        self.count_context().map(|count| count.context)
    }

    /// A recorded boundary. Following, it happens; else the policy decides what happens here.
    fn meet_boundary(&mut self, at: usize, number: usize, boundary: &RecordedBoundary) {
        let context = self.context();
        let event = Event::Reached {
            recorded: number,
            count: self.count_context(),
            threshold: self.limits.threshold,
            is_due: self.is_due(),
        };
        self.emit(at, &event);
        let policy = self.policy;
        let adopt = match (self.input.mode, boundary.trigger) {
            _ if boundary.is_copied => true,
            (ReplayMode::Follow, _) => true,
            (ReplayMode::Free, BoundaryTrigger::Manual) => policy.manual && policy.compaction,
            (ReplayMode::Free, BoundaryTrigger::Auto | BoundaryTrigger::Unknown) => {
                let _ = self.clear_results(at);
                (self.is_due() || self.was_due(boundary)) && !self.is_breaker_open()
            }
        };
        if !adopt {
            self.in_step = false;
            return;
        }
        let cause = match boundary.trigger {
            BoundaryTrigger::Manual => CompactionCause::Manual,
            BoundaryTrigger::Auto | BoundaryTrigger::Unknown => CompactionCause::Auto,
        };
        let takes_record = self.input.mode == ReplayMode::Follow
            || boundary.is_copied
            || (self.input.texts.is_none()
                && policy.summary == SummarySize::Recorded
                && policy.variant == SummaryRange::Whole
                && !policy.notes_compact);
        if takes_record {
            self.apply_recorded_boundary(at, boundary, cause, context);
        } else {
            self.in_step = false;
            self.compact(at, cause);
        }
    }

    /// A compaction as it was recorded: the window after it is what the log says.
    fn apply_recorded_boundary(
        &mut self,
        at: usize,
        recorded: &RecordedBoundary,
        cause: CompactionCause,
        context: Option<u64>,
    ) {
        let before = self.window.total();
        self.bill_compaction(at, u64::from(recorded.summary), before, true);
        let base = self.window.base;
        let end = self.window.end();
        let (records, prompts) = self.count_records(self.window.floor()..end);
        let policy = self.policy;
        let restored = restore::restore_context(policy, self.trace, &self.window, &self.restored_files, &(end..end));
        let dropped = self.window.parts();
        self.window.reset(end..end);
        self.in_step = true;
        let next = self.trace.calls.get(recorded.call as usize).and_then(|call| call.usage);
        let after = next.map_or(base as u64 + u64::from(recorded.summary), |usage| usage.input_side());
        let boundary = SimBoundary {
            cause,
            kind: if recorded.kept > 0 {
                CompactionKind::Partial
            } else {
                CompactionKind::Full
            },
            context: context.unwrap_or(before),
            threshold: self.limits.threshold,
            before,
            after,
            summary: u64::from(recorded.summary),
            restored: after.saturating_sub(base as u64 + u64::from(recorded.summary)),
            restored_files: Vec::new(),
            dropped,
            kept_parts: [0; PARTS],
            records,
            prompts,
            last_item: end.checked_sub(1),
            kept: end..end,
            retries: 0,
            calls_since: 0,
            turns_since: 0,
            is_recompaction: false,
            is_recorded: true,
        };
        self.finish_boundary(at, boundary, restored.files, None);
    }

    /// Records that have items of a range in the window, and how many of them are prompts of people.
    fn count_records(&self, items: Range<u32>) -> (u32, u32) {
        let (mut records, mut prompts) = (0, 0);
        for item in self.window.items_in(&items) {
            let starts = item.has_flag(flag::STARTS_RECORD);
            records += u32::from(starts);
            prompts += u32::from(starts && item.category == Category::Human);
        }
        (records, prompts)
    }

    /// Everything that every boundary does: counts start anew, caches are dropped, the event is told.
    /// `prefix` is what the new window has in common with the start of the old one, where that is more than system prompt
    /// and tools.
    fn finish_boundary(
        &mut self,
        at: usize,
        mut boundary: SimBoundary,
        restored_files: Vec<(u32, u64)>,
        prefix: Option<u64>,
    ) {
        let turn = self.trace.calls.get(at).map_or(0, |call| call.turn);
        let (since_call, since_turn) = self.last_boundary.unwrap_or((0, 0));
        boundary.calls_since = (at - since_call) as u32;
        boundary.turns_since = turn.saturating_sub(since_turn);
        boundary.is_recompaction = self.last_boundary.is_some();
        self.last_boundary = Some((at, turn));
        self.restored_files = restored_files;
        let answered = self
            .anchor
            .map_or(0, |anchor| self.trace.calls[anchor.call].response.end);
        let end = boundary.last_item.map_or(0, |item| item + 1);
        self.working_set.record_boundary(answered..end);
        self.anchor = None;
        self.trail = 0;
        self.failures = 0;
        self.results.prune(&self.window, self.trace);
        self.notes.on_boundary(boundary.after);
        match prefix {
            Some(tokens) => self.cache.keep_prefix(tokens),
            None => self.cache.break_prefix(CacheMiss::Compaction),
        }
        boundary.restored_files.clone_from(&self.restored_files);
        self.emit(at, &Event::Boundary(&boundary));
    }

    /// Micro-compaction of every kind that the policy has. Returns whether anything was cleared.
    fn clear_results(&mut self, at: usize) -> bool {
        let policy = self.policy;
        if !self.may_clear {
            return self.follow_micro();
        }
        let trace = self.trace;
        let call = &trace.calls[at.min(trace.calls.len() - 1)];
        let Some(anchor) = self.anchor else { return false };
        let before = &trace.calls[anchor.call];
        let usage = anchor.input + u64::from(before.output_recorded);
        let is_over_warning = usage >= self.limits.warning;
        let is_warm = (policy.cached_on || self.results.has_deleted()) && self.is_warm(at);
        if !is_warm && self.results.has_deleted() {
            self.restore_deleted();
        }
        let input = self.window.total();
        let results = &self.results;
        let due = results.due_kinds(policy, before, call, is_over_warning, is_warm, input);
        if !due.has_any() {
            return self.follow_micro();
        }
        let attempts = [
            (MicroKind::Gap, due.gap.then(|| results.clear_after_gap(policy))),
            (
                MicroKind::Budget,
                due.budget.then(|| results.clear_over_budget(policy, trace)),
            ),
            (MicroKind::Cached, due.cached.then(|| results.clear_cached(policy))),
            (MicroKind::Api, due.api.then(|| results.clear_by_api(policy, trace))),
        ];
        let mut has_cleared = false;
        for (kind, clearing) in attempts {
            if let Some(clearing) = clearing.flatten() {
                has_cleared |= self.apply_clearing(at, kind, clearing);
            }
        }
        if due.thinking {
            let clearing = Clearing {
                items: micro::old_thinking(trace, &self.window, before),
                ..Clearing::default()
            };
            has_cleared |= self.apply_clearing(at, MicroKind::Thinking, clearing);
        }
        self.follow_micro() || has_cleared
    }

    /// Results that were deleted on the server are there again once its cache is cold, or history was replaced.
    fn restore_deleted(&mut self) {
        for item in self.results.take_deleted() {
            self.window.revive(item);
            self.results
                .add(&self.window, self.trace, item..item + 1, &self.clearable);
        }
    }

    fn apply_clearing(&mut self, at: usize, kind: MicroKind, clearing: Clearing) -> bool {
        // An earlier kind may have cleared it in this very round.
        let items = clearing
            .items
            .into_iter()
            .filter(|item| self.window.state(*item) == ItemState::Live);
        let items = items.collect::<Vec<_>>();
        if items.is_empty() {
            return false;
        }
        let policy = self.policy;
        let before = self.window.total();
        let has_record = || self.boundaries_here.iter().any(|boundary| boundary.is_micro);
        let is_told_only = self.input.mode == ReplayMode::Follow && has_record();
        if !is_told_only {
            let drops = match kind {
                MicroKind::Api => micro::tool_mask(self.trace, &policy.api_drop_calls),
                _ => Vec::new(),
            };
            for &item in &items {
                let found = &self.trace.items[item as usize];
                match kind {
                    MicroKind::Thinking => self.window.remove(item),
                    MicroKind::Api if drops[usize::from(found.tool)] => {
                        self.window.remove(item);
                        if found.pair != trace::NONE {
                            self.window.remove(found.pair);
                        }
                    }
                    _ => self.window.clear(item),
                }
            }
            if kind == MicroKind::Cached {
                self.results.delete(&items);
            }
            self.results.prune(&self.window, self.trace);
            self.working_set.record_drop();
            if !kind.keeps_prefix() {
                self.cache.break_prefix(CacheMiss::Cleared);
            }
        }
        let freed = before.saturating_sub(self.window.total());
        let saved = if clearing.saved > 0 { clearing.saved } else { freed };
        let event = Event::Micro {
            kind,
            eligible: clearing.eligible,
            saved,
            cleared: &items,
        };
        self.emit(at, &event);
        if self.input.mode == ReplayMode::Free && !self.was_recorded(at, &items, saved) {
            self.in_step = false;
        }
        true
    }

    /// Whether the recorded client cleared the same: it says so, or, as older ones do not, so much less was sent.
    fn was_recorded(&self, at: usize, items: &[u32], saved: u64) -> bool {
        let mut recorded = self.boundaries_here.iter().filter(|boundary| boundary.is_micro);
        let has_fallen = |fall: i64| fall > 0 && fall >= saved as i64;
        recorded.any(|boundary| boundary.cleared == items) || self.trace.prompt_drop(at).is_some_and(has_fallen)
    }

    /// Recorded clearing: following, it happens as recorded; else a policy that did not do the same has left the record.
    #[inline]
    fn follow_micro(&mut self) -> bool {
        let recorded = self.boundaries_here.iter().filter(|boundary| boundary.is_micro);
        let mut has_cleared = false;
        for &item in recorded.flat_map(|boundary| &boundary.cleared) {
            if item == trace::NONE {
                continue;
            }
            if self.input.mode == ReplayMode::Free {
                self.in_step &= self.window.state(item) != ItemState::Live;
                continue;
            }
            self.window.clear(item);
            self.cache.break_prefix(CacheMiss::Cleared);
            has_cleared = true;
        }
        if has_cleared {
            self.results.prune(&self.window, self.trace);
        }
        has_cleared
    }

    fn is_due(&self) -> bool {
        let policy = self.policy;
        let weighed = self.count_context().map(|count| count.padded_context);
        policy.auto && policy.compaction && weighed.is_some_and(|weighed| weighed >= self.limits.threshold)
    }

    /// Whether the client's own count, where the window is still the recorded one, reaches the threshold. It knows of
    /// messages that were never written.
    fn was_due(&self, boundary: &RecordedBoundary) -> bool {
        let policy = self.policy;
        let is_reached = |tokens: u64| tokens >= self.limits.threshold;
        self.in_step && policy.auto && policy.compaction && boundary.pre_tokens.is_some_and(is_reached)
    }

    fn is_breaker_open(&self) -> bool {
        self.failures >= self.policy.breaker
    }

    /// The automatic check before a call.
    fn check_threshold(&mut self, at: usize) {
        if !self.is_due() {
            return;
        }
        let context = self.context().unwrap_or_default();
        let threshold = self.limits.threshold;
        self.emit(at, &Event::Due { context, threshold });
        if self.input.mode == ReplayMode::Free && !self.is_breaker_open() {
            self.in_step = false;
            self.compact(at, CompactionCause::Auto);
        }
    }

    /// The chain of compactions: by the notes, else by a model call. Returns whether history was replaced.
    fn compact(&mut self, at: usize, cause: CompactionCause) -> bool {
        let policy = self.policy;
        if policy.notes_compact && self.compact_by_notes(at, cause) {
            return true;
        }
        let outcome = if policy.compact_on {
            self.compact_by_model(at, cause)
        } else {
            Err(CompactionFailure::Nothing)
        };
        let Err(failure) = outcome else { return true };
        self.failures += 1;
        let in_a_row = self.failures;
        self.emit(
            at,
            &Event::Failed {
                cause,
                failure,
                in_a_row,
            },
        );
        if self.failures == policy.breaker {
            self.emit(at, &Event::BreakerOpen);
        }
        false
    }

    fn compact_by_notes(&mut self, at: usize, cause: CompactionCause) -> bool {
        let policy = self.policy;
        let now = self.now(at);
        let Some((tokens, covered)) = self.notes.at_compaction(policy, now) else {
            return false;
        };
        // Notes from before the last boundary do not cover what came after it.
        if covered < self.window.floor() {
            return false;
        }
        let start = keep::first_kept_item(policy, self.trace, &self.window, covered);
        let kept = start..self.window.end();
        let restored = restore::restore_context(policy, self.trace, &self.window, &self.restored_files, &kept);
        let after = self.size_after(policy, tokens, &restored, &kept);
        if after >= self.limits.threshold || after >= self.window.total() {
            return false;
        }
        if let Some(texts) = self.input.texts {
            texts.use_notes(covered);
        }
        self.replace_history(at, cause, CompactionKind::SessionMemory, kept, tokens, restored, 0);
        true
    }

    /// What a window would come to.
    fn size_after(&self, policy: &Policy, summary: u64, restored: &restore::RestoredContext, kept: &Range<u32>) -> u64 {
        let base = u64::try_from(self.window.base).unwrap_or(0);
        let undeleted = self
            .results
            .deleted_in(kept)
            .map(|item| self.window.placeholder_savings(item));
        let kept_tokens = self.window.tokens_in(kept.clone()) + undeleted.sum::<u64>();
        base + summary + policy.wrap + restored.tokens() + kept_tokens
    }

    fn compact_by_model(&mut self, at: usize, cause: CompactionCause) -> Result<(), CompactionFailure> {
        let policy = self.policy;
        let (summarised, kept) = self.split_at_pivot(policy, at, cause);
        if summarised.is_empty() {
            return Err(CompactionFailure::Nothing);
        }
        // What stays after the summary is not sent to be summarised; what stays before it is.
        let unsent = match kept.start >= summarised.end {
            true => self.window.tokens_in(kept.clone()),
            false => 0,
        };
        let sent = self.window.total().saturating_sub(unsent);
        let (retries, dropped) = self.fit_prompt(policy, at, &summarised, sent)?;
        if is_injected_failure(policy, self.input.key, at) {
            return Err(CompactionFailure::Injected);
        }
        let summary = match self.input.texts {
            Some(texts) => texts
                .summarise(summarised, cause)
                .ok_or(CompactionFailure::Nothing)?
                .min(policy.max_output),
            None => self.summary_size(policy),
        };
        self.bill_compaction(at, summary, sent.saturating_sub(dropped), dropped == 0);
        let restored = restore::restore_context(policy, self.trace, &self.window, &self.restored_files, &kept);
        // Nothing is won by it, and the next check would be due again. What the user asked for is done all the same.
        if cause != CompactionCause::Manual && self.size_after(policy, summary, &restored, &kept) >= self.window.total()
        {
            return Err(CompactionFailure::NoGain);
        }
        let kind = if kept.is_empty() {
            CompactionKind::Full
        } else {
            CompactionKind::Partial
        };
        self.replace_history(at, cause, kind, kept, summary, restored, retries);
        Ok(())
    }

    /// What a compaction summarises, and what stays. Only the user can ask for a part.
    fn split_at_pivot(&self, policy: &Policy, at: usize, cause: CompactionCause) -> (Range<u32>, Range<u32>) {
        let (floor, end) = (self.window.floor(), self.window.end());
        let pivot_call = at.saturating_sub(usize::try_from(policy.pivot).unwrap_or(usize::MAX));
        let pivot = self.trace.calls[pivot_call].inputs.start.clamp(floor, end);
        let pivot = keep::extend_to_pairs(self.trace, &self.window, pivot, floor);
        match policy.variant {
            SummaryRange::UpTo if cause == CompactionCause::Manual => (floor..pivot, pivot..end),
            SummaryRange::From if cause == CompactionCause::Manual => (pivot..end, floor..pivot),
            _ => (floor..end, end..end),
        }
    }

    /// Drops the oldest groups of a prompt of `sent` tokens until it fits: the number of tries it took, and the tokens that
    /// were dropped. A group is a response and what followed it, so that results stay with their calls.
    fn fit_prompt(
        &self,
        policy: &Policy,
        at: usize,
        summarised: &Range<u32>,
        sent: u64,
    ) -> Result<(u32, u64), CompactionFailure> {
        let limit = self.input.windows[at.min(self.input.windows.len() - 1)].tokens;
        let whole = self.window.tokens_in(summarised.clone());
        let around = sent.saturating_sub(whole) + policy.compact_prompt;
        if !policy.hard_limit || around + whole <= limit {
            return Ok((0, 0));
        }
        let starts = self.trace.calls.iter().map(|call| call.response.start);
        let inside = starts.filter(|start| *start > summarised.start && *start < summarised.end);
        let mut groups = Vec::new();
        let mut from = summarised.start;
        for start in inside.chain([summarised.end]) {
            groups.push(self.window.tokens_in(from..start));
            from = start;
        }
        let (mut first, mut tokens) = (0, whole);
        let mut retries = 0;
        while around + tokens > limit {
            if u64::from(retries) == policy.retries {
                return Err(CompactionFailure::TooLong);
            }
            let excess = policy.excess_known.then(|| around + tokens - limit);
            let left =
                keep::drop_oldest(&groups, first, excess, policy.retry_percent).ok_or(CompactionFailure::TooLong)?;
            (first, tokens) = (left.first_group, left.tokens);
            retries += 1;
        }
        Ok((retries, whole - tokens))
    }

    fn summary_size(&self, policy: &Policy) -> u64 {
        let recorded = || {
            let here = self.boundaries_here.iter().find(|boundary| !boundary.is_micro);
            here.map(|boundary| u64::from(boundary.summary))
                .filter(|tokens| *tokens > 0)
        };
        let known = match policy.summary {
            SummarySize::Recorded => recorded().or(self.input.summary),
            SummarySize::Learned => self.input.summary,
            SummarySize::Fixed => None,
        };
        known.unwrap_or(policy.summary_tokens).min(policy.max_output)
    }

    #[allow(clippy::too_many_arguments, reason = "a boundary is made of all of these")]
    fn replace_history(
        &mut self,
        at: usize,
        cause: CompactionCause,
        kind: CompactionKind,
        kept: Range<u32>,
        summary: u64,
        restored: restore::RestoredContext,
        retries: u32,
    ) {
        let policy = self.policy;
        let before = self.window.total();
        let context = self.context().unwrap_or(before);
        let end = self.window.end();
        let floor = self.window.floor();
        let (before_kept, after_kept) = (self.count_records(floor..kept.start), self.count_records(kept.end..end));
        let (records, prompts) = (before_kept.0 + after_kept.0, before_kept.1 + after_kept.1);
        let starts_alike = kept.start == floor && kept.end < end && !kept.is_empty();
        let parts_before = self.window.parts();
        self.window.reset(kept.clone());
        let stayed = self.window.parts();
        self.restore_deleted();
        let prefix = starts_alike.then(|| self.window.total());
        self.window.add_extra(Category::Summary, summary + policy.wrap);
        self.window.add_extra(Category::Attachment, restored.tokens());
        let boundary = SimBoundary {
            cause,
            kind,
            context,
            threshold: self.limits.threshold,
            before,
            after: self.window.total(),
            summary,
            restored: restored.tokens(),
            restored_files: Vec::new(),
            dropped: std::array::from_fn(|part| parts_before[part].saturating_sub(stayed[part])),
            kept_parts: stayed,
            records,
            prompts,
            last_item: end.checked_sub(1),
            kept,
            retries,
            calls_since: 0,
            turns_since: 0,
            is_recompaction: false,
            is_recorded: false,
        };
        self.finish_boundary(at, boundary, restored.files, prefix);
    }

    /// The model call of a compaction, which is sent `sent` tokens of the window. A prompt that lost its start shares
    /// nothing with the cache.
    fn bill_compaction(&mut self, at: usize, summary: u64, sent: u64, is_whole: bool) {
        let policy = self.policy;
        let output = (summary as f64 * (1.0 + policy.scratch)).round() as u64;
        let output = output.min(policy.max_output.max(summary));
        let shares = policy.shares_cache && is_whole && self.is_warm(at);
        let tokens = self.cache.bill_side(shares, sent, policy.compact_prompt, output);
        self.emit_side_call(at, SideCallPurpose::Compact, tokens);
    }

    fn emit_side_call(&mut self, at: usize, purpose: SideCallPurpose, tokens: Tokens) {
        let cost = self.tariff.map(|tariff| tariff.cost(&tokens, tokens.input_side()));
        self.emit(at, &Event::Side { purpose, tokens, cost });
    }

    /// Whether the prompt cache still holds what the last call left there.
    fn is_warm(&self, at: usize) -> bool {
        let call = &self.trace.calls[at.min(self.trace.calls.len() - 1)];
        self.cache.is_warm(self.policy, call.model, self.now(at))
    }

    fn now(&self, at: usize) -> Time {
        if let Some(time) = self.boundary_time {
            return time;
        }
        self.trace.calls[at.min(self.trace.calls.len() - 1)].sent_time()
    }

    /// The window as it is sent; where the API would refuse it, a compaction in answer, or the end.
    fn send_prompt(&mut self, at: usize, call: &Call) {
        match call.usage.as_ref().filter(|_| self.in_step) {
            Some(usage) => self.window.drift += usage.input_side() as i64 - self.window.total() as i64,
            None => self.window.drift += i64::from(call.gap),
        }
        let policy = self.policy;
        let limit = self.limits.window;
        let tokens = self.window.total();
        // What the log shows went through, unless the policy has a smaller window than the client had.
        let is_given = self.input.mode == ReplayMode::Free && self.input.windows[at].grounds == WindowGrounds::Given;
        let went_through = call.is_copied || (self.in_step && !is_given);
        if went_through || !policy.hard_limit || tokens <= limit {
            return;
        }
        self.in_step = false;
        self.emit(at, &Event::TooLong { tokens, limit });
        let may_compact = policy.reactive && policy.compaction && !self.is_breaker_open();
        let fits = may_compact && self.compact(at, CompactionCause::Reactive) && self.window.total() <= limit;
        if !fits {
            self.is_blocked = true;
            self.emit(at, &Event::Blocked);
        }
    }

    /// The response joins the window; the call is billed.
    fn take_response(&mut self, at: usize, call: &Call, step: &CallStep) {
        let policy = self.policy;
        let limits = self.limits;
        let input = self.window.total();
        let base = u64::try_from(self.window.base).unwrap_or(0);
        let recorded = call.usage.as_ref().filter(|_| self.in_step);
        let may_switch = self.input.mode == ReplayMode::Follow && self.steps.shows_switch[usize::from(call.model)];
        if may_switch || call.is_after_restart || call.is_expanded {
            self.detect_prefix_break(at, call, may_switch);
        }
        let billing = self.cache.bill(policy, call, input, base, recorded);
        let miss = billing
            .miss
            .or_else(|| unexplained_miss(policy, recorded?.cache_read, billing.tokens.cache_read));
        let cost: Option<PicoUsd> = self.tariff.map(|tariff| tariff.cost(&billing.tokens, input));
        let called = SimCall {
            tokens: billing.tokens,
            cost,
            parts: self.window.parts(),
            base,
            drift: self.window.drift,
            threshold: limits.threshold,
            level: level(&limits, input),
            in_step: self.in_step,
            miss,
        };
        self.emit(at, &Event::Called(&called));
        self.check_uses(at);
        self.window.add_stretch(call.response.clone(), &step.response, true);
        self.anchor = Some(Anchor { call: at, input });
        self.trail = 0;
    }

    /// Takes note of what broke the prompt's prefix between two calls without being part of a policy.
    fn detect_prefix_break(&mut self, at: usize, call: &Call, may_switch: bool) {
        let Some(before) = at.checked_sub(1) else { return };
        let version = self.trace.versions[usize::from(call.version)];
        self.cache
            .detect_break(&self.trace.calls[before], call, version, may_switch);
    }

    /// Whether what the response uses is in the window that it answers.
    fn check_uses(&mut self, at: usize) {
        let Some(uses) = self.input.uses else { return };
        let call = at as u32;
        for one in self.uses_cursor.uses(uses, call) {
            let outcome = self
                .working_set
                .classify_use(&self.window, uses, one, &self.restored_files);
            self.emit(at, &Event::Used { one, outcome });
        }
        for one in self.uses_cursor.references(uses, call) {
            let outcome = self
                .working_set
                .classify_reference(&self.window, uses, one, &self.restored_files);
            let path = one.path;
            self.emit(at, &Event::Referred { path, outcome });
        }
        for one in self.uses_cursor.fetches(uses, call) {
            let kind = WorkingSet::classify_fetch(&self.window, uses, one);
            let tokens = u64::from(self.trace.items[one.item as usize].tokens);
            self.emit(at, &Event::Fetched { kind, tokens });
        }
    }

    /// After a response: the notes, and at the end of a turn the extraction of memories.
    fn update_notes_and_memories(&mut self, at: usize, call: &Call, step: &CallStep) {
        let policy = self.policy;
        let texts = self.input.texts;
        let written = || texts.map(|texts| texts.update_notes(call.response.end));
        if let Some(tokens) = self.notes.after_response(policy, call, &self.window, &written) {
            self.emit(at, &Event::Notes { tokens });
            // The response that they follow has just been sent.
            let bill = self
                .cache
                .bill_side(true, self.window.total(), policy.notes_prompt, tokens);
            self.emit_side_call(at, SideCallPurpose::Notes, bill);
        }
        self.wrote_memory |= policy.extract_on && step.writes_memory;
        let ends_turn = call.calls == 0 && !self.trace.is_sidechain;
        // Who wrote their memories themself needs nobody to do it: what was said up to here counts as seen.
        let is_served = ends_turn && std::mem::take(&mut self.wrote_memory);
        if ends_turn && policy.extract_on && !is_served {
            self.turns_since_extraction += 1;
            if self.turns_since_extraction >= policy.extract_turns {
                self.turns_since_extraction = 0;
                self.emit(at, &Event::Extract);
                let bill =
                    self.cache
                        .bill_side(true, self.window.total(), policy.extract_prompt, policy.extract_output);
                self.emit_side_call(at, SideCallPurpose::Extract, bill);
            }
        }
    }

    /// What stands after the last response, and the audit.
    fn finish(&mut self) {
        let end = self.trace.calls.len();
        if !self.is_blocked {
            self.take_inputs(end, &self.trace.tail, &self.steps.calls[end]);
        }
        let (running, counted, is_paired) = self.window.audit_totals();
        if running != counted || !is_paired {
            self.emit(end - 1, &Event::Defect { running, counted });
        }
    }
}

/// An estimate padded, to the nearest whole number. Asked at every call, and what rounds any number is a call of its own.
fn pad_estimate(tokens: u64, padding: f64) -> u64 {
    match padding == 1.0 {
        true => tokens,
        false => (tokens as i64 as f64 * padding + 0.5) as i64 as u64,
    }
}

fn level(limits: &WindowLimits, tokens: u64) -> WindowLevel {
    match tokens {
        tokens if tokens >= limits.threshold => WindowLevel::Threshold,
        tokens if tokens >= limits.error => WindowLevel::Error,
        tokens if tokens >= limits.warning => WindowLevel::Warning,
        _ => WindowLevel::Normal,
    }
}

/// A fall of the recorded read that the model does not expect.
fn unexplained_miss(policy: &Policy, recorded: u64, expected: u64) -> Option<CacheMiss> {
    let fall = expected.saturating_sub(recorded);
    let is_break = fall > policy.break_tokens && fall * 100 > expected * policy.break_percent;
    is_break.then_some(CacheMiss::Unexplained)
}

/// Whether a compaction fails because the policy wants some to.
fn is_injected_failure(policy: &Policy, key: u64, at: usize) -> bool {
    if policy.failure_rate <= 0.0 {
        return false;
    }
    let mut text = [0; 24];
    text[..8].copy_from_slice(&policy.failure_seed.to_le_bytes());
    text[8..16].copy_from_slice(&key.to_le_bytes());
    text[16..].copy_from_slice(&(at as u64).to_le_bytes());
    let share = xxhash_rust::xxh3::xxh3_64(&text) as f64 / u64::MAX as f64;
    share < policy.failure_rate
}
