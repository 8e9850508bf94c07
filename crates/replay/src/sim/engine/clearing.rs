//! Micro-compaction in the replay: which kinds act before a call, what they clear, and how that compares with the record.

use super::Replay;
use crate::sim::ReplayMode;
use crate::sim::event::{CacheMiss, Event, EventSink, MicroKind};
use crate::sim::micro::{self, Clearing, DueMicroKinds, MicroCheck};
use crate::sim::trace::{self, Call};
use crate::sim::window::ItemState;

impl<S: EventSink> Replay<'_, S> {
    /// Runs every kind of micro-compaction that the policy has, then follows what the client recorded. Returns whether
    /// anything was cleared.
    pub(super) fn clear_results(&mut self, at: usize) -> bool {
        if !self.rules.may_clear {
            return self.follow_recorded_clearing();
        }
        let policy = self.rules.policy;
        let trace = self.trace;
        let call = &trace.calls[at.min(trace.calls.len() - 1)];
        let Some(anchor) = self.counter.anchor else {
            return false;
        };
        let previous = &trace.calls[anchor.call];
        let usage = anchor.input + u64::from(previous.output.first_line);
        // Warmth only matters to deletions on the server; do not look the cache up without them.
        let is_warm = (policy.cached_on || self.results.has_deleted()) && self.is_warm(at);
        if (!is_warm || self.are_deletions_stale) && self.results.has_deleted() {
            if self.are_deletions_stale {
                self.cache.break_prefix(CacheMiss::Expired);
            }
            self.restore_deleted();
        }
        let check = MicroCheck {
            previous,
            call,
            is_over_warning: usage >= self.rules.limits.warning,
            is_warm,
            input: self.window.total(),
        };
        let due = self.results.due_kinds(policy, &check);
        if !due.has_any() {
            return self.follow_recorded_clearing();
        }
        let has_cleared = self.run_due_kinds(at, due, previous);
        self.follow_recorded_clearing() || has_cleared
    }

    /// Runs the kinds that are due; all of them choose their items before the first one clears. Returns whether
    /// anything was cleared.
    fn run_due_kinds(&mut self, at: usize, due: DueMicroKinds, previous: &Call) -> bool {
        let (policy, trace, results) = (self.rules.policy, self.trace, &self.results);
        let attempts = [
            (MicroKind::Gap, due.gap.then(|| results.clear_after_gap(policy))),
            (
                MicroKind::Budget,
                due.budget.then(|| results.clear_over_budget(policy, trace)),
            ),
            (
                MicroKind::Target,
                due.target.then(|| results.clear_to_target(policy, trace)),
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
                items: micro::old_thinking(trace, &self.window, previous),
                ..Clearing::default()
            };
            has_cleared |= self.apply_clearing(at, MicroKind::Thinking, clearing);
        }
        has_cleared
    }

    /// Puts back results that were deleted on the server: the deletion ends when the cache expires or history is replaced.
    pub(super) fn restore_deleted(&mut self) {
        self.are_deletions_stale = false;
        for item in self.results.take_deleted() {
            self.window.revive(item);
            self.results.add(&self.window, self.trace, item..item + 1);
        }
    }

    /// Clears the chosen items and emits the event. Returns whether any of them was still in the window.
    fn apply_clearing(&mut self, at: usize, kind: MicroKind, clearing: Clearing) -> bool {
        // An earlier kind may have cleared an item in this very round.
        let items = clearing
            .items
            .into_iter()
            .filter(|item| self.window.state(*item) == ItemState::Live)
            .collect::<Vec<_>>();
        if items.is_empty() {
            return false;
        }
        let before = self.window.total();
        // When following, a recorded clearing at this call decides; the policy's own is only reported.
        let has_record = || self.record.here.iter().any(|boundary| boundary.is_micro);
        let is_report_only = self.input.mode == ReplayMode::Follow && has_record();
        if !is_report_only {
            self.remove_cleared(kind, &items);
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
            self.record.in_step = false;
        }
        true
    }

    /// Takes cleared items out of the window: thinking and the calls of some tools vanish, other results leave a
    /// placeholder.
    fn remove_cleared(&mut self, kind: MicroKind, items: &[u32]) {
        let dropped_calls = match kind {
            MicroKind::Api => micro::tool_mask(self.trace, &self.rules.policy.api_drop_calls),
            _ => Vec::new(),
        };
        for &item in items {
            let found = &self.trace.items[item as usize];
            match kind {
                MicroKind::Thinking => self.window.remove(item),
                MicroKind::Api if dropped_calls[usize::from(found.tool)] => {
                    self.window.remove(item);
                    if found.pair != trace::NONE {
                        self.window.remove(found.pair);
                    }
                }
                _ => self.window.clear(item),
            }
        }
        if kind == MicroKind::Cached {
            self.results.delete(items);
        }
        self.results.prune(&self.window, self.trace);
        self.uses.working_set.record_drop();
        if !kind.keeps_prefix() {
            self.cache.break_prefix(CacheMiss::Cleared);
        }
    }

    /// Returns whether the recorded client cleared the same items. Older clients do not record clearing; for them a prompt
    /// that shrank by at least as much counts.
    fn was_recorded(&self, at: usize, items: &[u32], saved: u64) -> bool {
        let mut recorded = self.record.here.iter().filter(|boundary| boundary.is_micro);
        let has_shrunk = |drop: i64| drop > 0 && drop >= saved as i64;
        recorded.any(|boundary| boundary.cleared == items) || self.trace.prompt_drop(at).is_some_and(has_shrunk)
    }

    /// Handles recorded clearing. When following, it happens as recorded; when free, a policy that did not clear the same
    /// results has left the record. Returns whether anything was cleared.
    #[inline]
    fn follow_recorded_clearing(&mut self) -> bool {
        let recorded = self.record.here.iter().filter(|boundary| boundary.is_micro);
        let mut has_cleared = false;
        for &item in recorded.flat_map(|boundary| &boundary.cleared) {
            if item == trace::NONE {
                continue;
            }
            if self.input.mode == ReplayMode::Free {
                self.record.in_step &= self.window.state(item) != ItemState::Live;
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
}
