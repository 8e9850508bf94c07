//! API calls in the replay: sending the prompt, billing it, taking the response, and the side calls that follow it.

use super::Replay;
use super::context::Anchor;
use crate::policy::Policy;
use crate::prices::PicoUsd;
use crate::sim::ReplayMode;
use crate::sim::event::{CompactionCause, Event, EventSink, SimCall, WindowLevel};
use crate::sim::limits::WindowLimits;
use crate::sim::prompt_cache::BillQuery;
use crate::sim::steps::CallStep;
use crate::sim::trace::Call;
use crate::sim::working_set::{UseOutcome, WorkingSet, gone_lists};
use crate::windows::WindowGrounds;
use transcript::log::Time;

impl<S: EventSink> Replay<'_, S> {
    /// Corrects the window to the recorded size where it is in step, and compacts if the API would refuse the prompt. Ends
    /// the session if that does not help.
    pub(super) fn send_prompt(&mut self, at: usize, call: &Call) {
        match call.usage.as_ref().filter(|_| self.record.in_step) {
            Some(usage) => self.window.drift += usage.input_side() as i64 - self.window.total() as i64,
            None => self.window.drift += i64::from(call.continuity.gap),
        }
        let policy = self.rules.policy;
        let limit = self.rules.limits.window;
        let tokens = self.window.total();
        // The log shows that the API accepted this prompt, unless the policy sets a smaller window than the client had.
        let is_window_given =
            self.input.mode == ReplayMode::Free && self.input.windows[at].grounds == WindowGrounds::Given;
        let was_accepted = call.is_copied || (self.record.in_step && !is_window_given);
        if was_accepted || !policy.hard_limit || tokens <= limit {
            return;
        }
        self.record.in_step = false;
        self.emit(at, &Event::TooLong { tokens, limit });
        let may_compact = policy.reactive && policy.compaction && !self.is_breaker_open();
        let fits = may_compact && self.compact(at, CompactionCause::Reactive) && self.window.total() <= limit;
        if !fits {
            self.is_blocked = true;
            self.emit(at, &Event::Blocked);
        }
    }

    /// Bills the call, checks its file uses, and adds the response to the window.
    pub(super) fn take_response(&mut self, at: usize, call: &Call, step: &CallStep) {
        let policy = self.rules.policy;
        let limits = self.rules.limits;
        let input = self.window.total();
        let base = u64::try_from(self.window.base).unwrap_or(0);
        let recorded = call.usage.as_ref().filter(|_| self.record.in_step);
        let may_switch = self.input.mode == ReplayMode::Follow && self.steps.shows_switch[usize::from(call.model)];
        if may_switch || call.continuity.is_after_restart || call.continuity.is_expanded {
            self.detect_prefix_break(at, call, may_switch);
        }
        let query = BillQuery {
            input,
            base,
            recorded,
            situation: step.situation,
            range: self.steps.ranges[usize::from(call.version)],
            style: self.steps.styles[usize::from(call.model)],
        };
        let billing = self.cache.bill(policy, call, &query);
        let miss = billing.miss.or_else(|| {
            is_cache_break(policy, recorded?.cache_read, billing.cache.by_rule).then(|| step.situation.cause())
        });
        let cost: Option<PicoUsd> = self.rules.tariff.map(|tariff| tariff.cost(&billing.tokens, input));
        let called = SimCall {
            tokens: billing.tokens,
            cost,
            parts: self.window.parts(),
            base,
            drift: self.window.drift,
            threshold: limits.threshold,
            level: level(&limits, input),
            in_step: self.record.in_step,
            miss,
            cache: billing.cache,
        };
        self.emit(at, &Event::Called(&called));
        if !self.record.inner.is_empty() {
            self.bill_inner_calls(at);
        }
        if self.results.has_deleted() {
            self.are_deletions_stale = self
                .trace
                .shows_cache_fall(at, policy.break_tokens, policy.break_percent);
        }
        self.check_uses(at);
        self.window.add_stretch(call.response.clone(), &step.response, true);
        self.counter.anchor = Some(Anchor { call: at, input });
        self.counter.trail = 0;
    }

    /// Bills what was billed within the response as recorded: no policy changes it.
    fn bill_inner_calls(&mut self, at: usize) {
        let end = self.record.inner.partition_point(|inner| inner.call as usize <= at);
        let (here, later) = self.record.inner.split_at(end);
        self.record.inner = later;
        for inner in here.iter().filter(|inner| inner.call as usize == at) {
            let tariff = self.rules.tariffs[usize::from(inner.model)].as_ref();
            let tokens = inner.tokens;
            let cost = tariff.map(|tariff| tariff.cost(&tokens, tokens.input_side()));
            self.emit(at, &Event::Inner { tokens, cost });
        }
    }

    /// Notes what broke the prompt's prefix since the previous call without being part of a policy.
    fn detect_prefix_break(&mut self, at: usize, call: &Call, may_switch: bool) {
        let Some(before) = at.checked_sub(1) else { return };
        let version = self.trace.versions[usize::from(call.version)];
        self.cache
            .detect_break(&self.trace.calls[before], call, version, may_switch);
    }

    /// Classifies the edits, mentions and reads of a response by the window that it answers.
    fn check_uses(&mut self, at: usize) {
        let Some(uses) = self.input.uses else { return };
        let call = at as u32;
        let restored = &self.history.restored.files;
        for one in self.uses.cursor.uses(uses, call) {
            let outcome = self.uses.working_set.classify_use(&self.window, uses, one, restored);
            let gone = match outcome {
                UseOutcome::Live | UseOutcome::Filled => Vec::new(),
                UseOutcome::Restored | UseOutcome::InFlight | UseOutcome::Missed => {
                    gone_lists(&self.window, uses, one).collect()
                }
            };
            let gone = &gone;
            self.sink.on_event(call, &Event::Used { one, outcome, gone });
        }
        for one in self.uses.cursor.references(uses, call) {
            let outcome = self
                .uses
                .working_set
                .classify_reference(&self.window, uses, one, restored);
            let path = one.path;
            self.sink.on_event(call, &Event::Referred { path, outcome });
        }
        for one in self.uses.cursor.fetches(uses, call) {
            let kind = WorkingSet::classify_fetch(&self.window, uses, one);
            let tokens = u64::from(self.trace.items[one.item as usize].tokens);
            self.sink.on_event(call, &Event::Fetched { kind, tokens });
        }
    }

    /// Returns whether the prompt cache still holds what the last call left there.
    pub(super) fn is_warm(&self, at: usize) -> bool {
        let call = &self.trace.calls[at.min(self.trace.calls.len() - 1)];
        self.cache.is_warm(self.rules.policy, call.model, self.now(at))
    }

    /// Returns the simulated time: that of the boundary being handled, else when the call was sent.
    pub(super) fn now(&self, at: usize) -> Time {
        if let Some(time) = self.record.boundary_time {
            return time;
        }
        self.trace.calls[at.min(self.trace.calls.len() - 1)].sent_time()
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

/// Returns whether the recorded cache read is so far below the one by the rules that it is a break.
fn is_cache_break(policy: &Policy, recorded: u64, by_rule: u64) -> bool {
    let drop = by_rule.saturating_sub(recorded);
    drop > policy.break_tokens && drop * 100 > by_rule * policy.break_percent
}
