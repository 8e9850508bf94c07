//! The replay engine: the state of one chain's replay, and the order of the steps of a round.
//!
//! The steps themselves are in the other files of this folder: `context` counts the context and runs the automatic check,
//! `clearing` does micro-compaction, `compaction` and `boundaries` replace history, `calls` makes and bills API calls.

mod boundaries;
mod calls;
mod clearing;
mod compaction;
mod context;
mod memories;

use crate::policy::Policy;
use crate::prices::Tariff;
use crate::sim::ReplayInput;
use crate::sim::event::{CacheMiss, Event, EventSink};
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::micro::{self, ClearableResults};
use crate::sim::notes::SimNotes;
use crate::sim::prompt_cache::PromptCache;
use crate::sim::restore::RestoredContext;
use crate::sim::steps::{CallStep, CallSteps, StretchTotals};
use crate::sim::trace::{Call, InnerCall, RecordedBoundary, Trace, flag};
use crate::sim::uses::UsesCursor;
use crate::sim::window::Window;
use crate::sim::working_set::WorkingSet;
use context::ContextCounter;
use memories::{ExtractionState, RecallState};
use std::ops::Range;
use transcript::log::{NO_TIME, Time};

/// The state of a replay.
pub(super) struct Replay<'r, S> {
    trace: &'r Trace,
    steps: &'r CallSteps,
    input: &'r ReplayInput<'r>,
    sink: &'r mut S,
    rules: RulesInForce<'r>,
    record: RecordPosition<'r>,
    pub(super) window: Window<'r>,
    results: ClearableResults,
    cache: PromptCache,
    notes: SimNotes,
    counter: ContextCounter,
    pub(super) history: BoundaryHistory,
    uses: UseTracker,
    extraction: ExtractionState,
    memories: RecallState,
    /// Consecutive failed compactions. The circuit breaker opens at `compact.breaker`.
    failures: u64,
    /// Whether recorded cache reads fell, so that deletions on the server are no longer in force.
    are_deletions_stale: bool,
    /// Whether the API refused a prompt that could not be compacted: no call is made after that.
    is_blocked: bool,
}

/// The policy, levels and prices of the current call.
struct RulesInForce<'r> {
    policy: &'r Policy,
    limits: WindowLimits,
    /// `None` for a model that the price table does not list.
    tariff: Option<&'r Tariff>,
    /// Whether the policy has any kind of micro-compaction.
    may_clear: bool,
    /// The version, model and window that these rules were looked up for.
    key: (u16, u16, u64),
    /// Tariffs of all models of the trace.
    tariffs: &'r [Option<Tariff>],
}

/// Where the replay stands relative to the record.
struct RecordPosition<'r> {
    /// Whether the simulated window is still the recorded one.
    in_step: bool,
    /// Recorded boundaries directly before the current call.
    here: &'r [RecordedBoundary],
    /// Recorded boundaries before later calls.
    ahead: &'r [RecordedBoundary],
    /// Calls within responses, of this call and later ones.
    inner: &'r [InnerCall],
    /// Time of the recorded boundary that is being handled. The next call may have been sent much later.
    boundary_time: Option<Time>,
}

/// What the replay remembers about earlier boundaries.
#[derive(Default)]
pub(super) struct BoundaryHistory {
    /// Call and turn of the last boundary.
    last: Option<(usize, u32)>,
    /// What the last boundary restored.
    pub(super) restored: RestoredContext,
}

/// Classifies file uses as hits and misses.
#[derive(Default)]
struct UseTracker {
    cursor: UsesCursor,
    working_set: WorkingSet,
}

impl<'r, S: EventSink> Replay<'r, S> {
    pub(super) fn new(
        trace: &'r Trace,
        input: &'r ReplayInput<'r>,
        sink: &'r mut S,
        policy: &'r Policy,
        tariffs: &'r [Option<Tariff>],
    ) -> Self {
        let may_clear = input.policies.iter().any(|policy| micro::may_clear(policy));
        let clearable_tools = match may_clear {
            true => micro::tool_mask(trace, &policy.micro_tools),
            false => Vec::new(),
        };
        Replay {
            trace,
            steps: trace.steps(),
            input,
            sink,
            // No call has this key, so the first call looks its rules up.
            rules: RulesInForce {
                policy,
                limits: WindowLimits::new(policy, "", 0, ModelLimits::default()),
                tariff: None,
                may_clear: false,
                key: (u16::MAX, u16::MAX, 0),
                tariffs,
            },
            record: RecordPosition {
                in_step: true,
                here: &[],
                ahead: &trace.recorded,
                inner: &trace.inner_calls,
                boundary_time: None,
            },
            window: Window::new(trace, policy.placeholder),
            results: ClearableResults::new(clearable_tools),
            cache: PromptCache::default(),
            notes: SimNotes::default(),
            counter: ContextCounter::default(),
            history: BoundaryHistory::default(),
            uses: UseTracker::default(),
            extraction: ExtractionState::default(),
            memories: RecallState::default(),
            failures: 0,
            are_deletions_stale: false,
            is_blocked: false,
        }
    }

    /// Simulates one call with everything around it, in the order in which the client does it.
    pub(super) fn simulate_round(&mut self, at: usize, call: &'r Call, step: &'r CallStep) {
        self.enter_call(at, call);
        if call.continuity.is_after_hole {
            // Unrecorded messages came in between, so the last usage says nothing about this context.
            self.counter.anchor = None;
        }
        self.take_inputs(at, &call.inputs, step);
        if self.is_blocked {
            return;
        }
        // A copied call was checked in the session that made it, perhaps with a different window.
        if !call.is_copied {
            self.recall(at, call);
            let has_cleared = self.clear_results(at);
            if call.continuity.is_resume && !has_cleared {
                self.drop_off_chain_items();
            }
            self.check_threshold(at);
        }
        self.send_prompt(at, call);
        if self.is_blocked {
            return;
        }
        self.take_response(at, call, step);
        self.check_remembered(at, call, step);
        self.attach_nested(at, call);
        self.update_notes_and_memories(at, call, step);
    }

    /// Looks up the rules for a call. Neighboring calls nearly always share them, so the key is compared first.
    fn enter_call(&mut self, at: usize, call: &Call) {
        let window = self.input.windows[at].limit();
        let key = (call.version, call.model, window);
        if key == self.rules.key {
            return;
        }
        let known = ModelLimits::of(self.input.prices[usize::from(call.model)]);
        let policy = self.input.policies[usize::from(call.version)];
        self.rules = RulesInForce {
            policy,
            limits: WindowLimits::new(policy, self.trace.model(call), window, known),
            tariff: self.rules.tariffs[usize::from(call.model)].as_ref(),
            may_clear: micro::may_clear(policy),
            key,
            tariffs: self.rules.tariffs,
        };
    }

    fn emit(&mut self, at: usize, event: &Event<'_>) {
        self.sink.on_event(at as u32, event);
    }

    /// Adds the new input of a call to the window and handles the recorded boundaries inside it.
    fn take_inputs(&mut self, at: usize, inputs: &Range<u32>, step: &CallStep) {
        let is_here = |boundary: &RecordedBoundary| boundary.call as usize <= at;
        // Nearly every call: no boundary, so the precomputed sums of the whole input can be added.
        if !self.record.ahead.first().is_some_and(is_here) {
            self.record.here = &[];
            self.add_stretch(at, inputs.clone(), &step.inputs);
            return;
        }
        let ahead = self.record.ahead;
        (self.record.here, self.record.ahead) = ahead.split_at(ahead.partition_point(is_here));
        let first = self.trace.recorded.len() - ahead.len();
        let mut from = inputs.start;
        for (number, boundary) in (first..)
            .zip(self.record.here)
            .filter(|(_, boundary)| !boundary.is_micro)
        {
            self.add_items(at, from..boundary.item);
            from = boundary.item;
            self.record.boundary_time = Some(boundary.time).filter(|time| *time != NO_TIME);
            self.meet_boundary(at, number, boundary);
            self.record.boundary_time = None;
        }
        self.add_items(at, from..inputs.end);
    }

    /// Adds the whole input of a call, whose sums are known.
    fn add_stretch(&mut self, at: usize, items: Range<u32>, stretch: &StretchTotals) {
        let orphans = self.window.add_stretch(items.clone(), stretch, self.record.in_step);
        self.counter.trail += micro::estimate_stretch(self.rules.policy, stretch, self.trace.items(&items));
        if stretch.has_results() {
            self.take_results(at, items, orphans);
        }
    }

    /// Adds a part of the input of a call, item by item.
    fn add_items(&mut self, at: usize, items: Range<u32>) {
        let orphans = self.window.add(items.clone(), self.record.in_step);
        self.counter.trail += micro::estimate_trail(self.rules.policy, self.trace.items(&items));
        self.take_results(at, items, orphans);
    }

    /// Registers the clearable results among new items, and reports those whose calls are gone.
    fn take_results(&mut self, at: usize, items: Range<u32>, orphans: u32) {
        self.results.add(&self.window, self.trace, items);
        if orphans > 0 {
            self.emit(at, &Event::Orphans(orphans));
        }
    }

    /// Drops what a restarted client does not read back: it follows the chain of parents only.
    fn drop_off_chain_items(&mut self) {
        let is_off_chain = |item: &u32| self.trace.items[*item as usize].has_flag(flag::OFF_CHAIN);
        for item in self.window.live_items().filter(is_off_chain).collect::<Vec<_>>() {
            self.window.remove(item);
        }
        self.results.prune(&self.window, self.trace);
        self.cache.break_prefix(CacheMiss::Resume);
    }

    /// Adds what follows the last response, and checks the window's running totals against a recount.
    pub(super) fn finish(&mut self) {
        let end = self.trace.calls.len();
        if !self.is_blocked {
            self.take_inputs(end, &self.trace.tail, &self.steps.calls[end]);
            self.drain_extraction();
        }
        let audit = self.window.audit_totals();
        if audit.running != audit.counted || !audit.is_paired {
            let (running, counted) = (audit.running, audit.counted);
            self.emit(end - 1, &Event::Defect { running, counted });
        }
    }
}
