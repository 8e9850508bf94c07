//! Boundaries in the replay: recorded ones that the replay reaches, and the bookkeeping that every boundary needs.

use super::Replay;
use crate::policy::value::{KeptMessages, SummaryRange, SummarySize};
use crate::sim::ReplayMode;
use crate::sim::event::{
    BoundaryDistance, BoundarySize, CacheMiss, CompactionCause, CompactionKind, Event, EventSink, PARTS, RecordCount,
    SimBoundary,
};
use crate::sim::keep;
use crate::sim::notes::keeps_notes;
use crate::sim::restore::{RestoreInput, RestoredContext, restore_context};
use crate::sim::trace::{BoundaryTrigger, RecordedBoundary, flag};
use crate::tokens::ledger::Category;
use std::ops::Range;

/// What takes the place of the history at a compaction.
pub(super) struct Replacement {
    pub cause: CompactionCause,
    pub kind: CompactionKind,
    /// Items that stay verbatim.
    pub kept: Range<u32>,
    /// Tokens of the summary or the notes.
    pub summary: u64,
    pub restored: RestoredContext,
    /// How often the compaction prompt was shortened and sent again.
    pub retries: u32,
}

impl<S: EventSink> Replay<'_, S> {
    /// Handles a recorded boundary. When following, it happens as recorded; otherwise the policy decides.
    pub(super) fn meet_boundary(&mut self, at: usize, number: usize, boundary: &RecordedBoundary) {
        let context = self.context();
        let event = Event::Reached {
            recorded: number,
            count: self.count_context(),
            threshold: self.rules.limits.threshold,
            is_due: self.is_due(),
        };
        self.emit(at, &event);
        if !self.adopts_boundary(at, boundary) {
            self.record.in_step = false;
            return;
        }
        let cause = match boundary.trigger {
            BoundaryTrigger::Manual => CompactionCause::Manual,
            BoundaryTrigger::Auto | BoundaryTrigger::Unknown => CompactionCause::Auto,
        };
        let policy = self.rules.policy;
        // The recorded sizes can only be used if the policy would have replaced the history in the same way.
        let takes_recorded_sizes = self.input.mode == ReplayMode::Follow
            || boundary.is_copied
            || (self.input.texts.is_none()
                && policy.summary == SummarySize::Recorded
                && policy.variant == SummaryRange::Whole
                && !(keeps_notes(policy) && policy.notes_compact));
        if takes_recorded_sizes {
            self.apply_recorded_boundary(at, boundary, cause, context);
        } else {
            self.record.in_step = false;
            self.compact(at, cause);
        }
    }

    /// Returns whether a compaction happens where the recorded boundary stands.
    fn adopts_boundary(&mut self, at: usize, boundary: &RecordedBoundary) -> bool {
        let policy = self.rules.policy;
        match (self.input.mode, boundary.trigger) {
            _ if boundary.is_copied => true,
            (ReplayMode::Follow, _) => true,
            (ReplayMode::Free, BoundaryTrigger::Manual) => policy.manual && policy.compaction,
            (ReplayMode::Free, BoundaryTrigger::Auto | BoundaryTrigger::Unknown) => {
                // The client runs micro-compaction before its automatic check.
                let _ = self.clear_results(at);
                (self.is_due() || self.was_due(boundary)) && !self.is_breaker_open()
            }
        }
    }

    /// Applies a compaction with its recorded sizes: the window after it is the prompt of the next recorded call.
    fn apply_recorded_boundary(
        &mut self,
        at: usize,
        recorded: &RecordedBoundary,
        cause: CompactionCause,
        context: Option<u64>,
    ) {
        let before = self.window.total();
        let summary = u64::from(recorded.summary);
        let shares_cache = self.rules.policy.shares_cache && self.is_warm(at);
        self.bill_compaction(at, summary, before, shares_cache);
        let base = self.window.base;
        let end = self.window.end();
        let summarized = self.count_records(self.window.floor()..end);
        let restored = self.restored_context(&(end..end), CompactionKind::Full);
        let dropped = self.window.parts();
        self.window.reset(end..end);
        self.record.in_step = true;
        let next = self.trace.calls.get(recorded.call as usize).and_then(|call| call.usage);
        let after = next.map_or(base as u64 + summary, |usage| usage.input_side());
        let boundary = SimBoundary {
            cause,
            kind: if recorded.kept > 0 {
                CompactionKind::Partial
            } else {
                CompactionKind::Full
            },
            is_recorded: true,
            retries: 0,
            context: context.unwrap_or(before),
            threshold: self.rules.limits.threshold,
            size: BoundarySize {
                before,
                after,
                summary,
                restored: after.saturating_sub(base as u64 + summary),
            },
            restored_files: restored.files.clone(),
            restored_parts: restored.parts,
            dropped,
            kept_parts: [0; PARTS],
            summarized,
            last_item: end.checked_sub(1),
            kept: end..end,
            since: self.distance(at),
        };
        self.finish_boundary(at, boundary, None, restored);
    }

    /// Replaces the history by a summary or the notes, and restores files, skills and state.
    pub(super) fn replace_history(&mut self, at: usize, replacement: Replacement) {
        let Replacement { kept, restored, .. } = replacement;
        let before = self.window.total();
        let context = self.context().unwrap_or(before);
        let (floor, end) = (self.window.floor(), self.window.end());
        let all = self.count_records(floor..end);
        // What stays at the very start keeps its place in the prompt cache.
        let keeps_start = kept.start == floor && kept.end < end && !kept.is_empty();
        let parts_before = self.window.parts();
        self.forget_memories(&kept);
        self.window.reset(kept.clone());
        // Notes keep whole messages whatever a summary would keep.
        let is_summary = replacement.kind != CompactionKind::SessionMemory;
        let keeps_prompts = is_summary && self.rules.policy.compact_keep == KeptMessages::Prompts;
        if keeps_prompts {
            keep::drop_all_but_prompts(self.trace, &mut self.window, &kept);
        }
        let stayed = self.count_records(kept.clone());
        // Prompts here and there are no range.
        let kept = if keeps_prompts { end..end } else { kept };
        let kept_parts = self.window.parts();
        self.restore_deleted();
        let prefix = keeps_start.then(|| self.window.total());
        let wrap = self.wrap_tokens(replacement.cause);
        self.window.add_extra(Category::Summary, replacement.summary + wrap);
        self.window.add_extra(Category::Attachment, restored.tokens());
        let boundary = SimBoundary {
            cause: replacement.cause,
            kind: replacement.kind,
            is_recorded: false,
            retries: replacement.retries,
            context,
            threshold: self.rules.limits.threshold,
            size: BoundarySize {
                before,
                after: self.window.total(),
                summary: replacement.summary,
                restored: restored.tokens(),
            },
            restored_files: restored.files.clone(),
            restored_parts: restored.parts,
            dropped: std::array::from_fn(|part| parts_before[part].saturating_sub(kept_parts[part])),
            kept_parts,
            summarized: RecordCount {
                records: all.records.saturating_sub(stayed.records),
                prompts: all.prompts.saturating_sub(stayed.prompts),
            },
            last_item: end.checked_sub(1),
            kept,
            since: self.distance(at),
        };
        self.finish_boundary(at, boundary, prefix, restored);
    }

    /// Returns what a compaction that keeps some items would restore.
    pub(super) fn restored_context(&self, kept: &Range<u32>, kind: CompactionKind) -> RestoredContext {
        restore_context(&RestoreInput {
            policy: self.rules.policy,
            trace: self.trace,
            window: &self.window,
            earlier: &self.history.restored,
            kept,
            kind,
        })
    }

    /// Counts the records that have items of a range in the window.
    fn count_records(&self, items: Range<u32>) -> RecordCount {
        let mut count = RecordCount::default();
        for item in self.window.items_in(&items) {
            let starts = item.has_flag(flag::STARTS_RECORD);
            count.records += u32::from(starts);
            count.prompts += u32::from(starts && item.category == Category::Human);
        }
        count
    }

    /// Returns the distance of a boundary at a call from the previous boundary.
    fn distance(&self, at: usize) -> BoundaryDistance {
        let (last_call, last_turn) = self.history.last.unwrap_or((0, 0));
        BoundaryDistance {
            calls: (at - last_call) as u32,
            turns: self.turn(at).saturating_sub(last_turn),
            is_recompaction: self.history.last.is_some(),
            previous: self.history.last.map(|(call, turn)| (call as u32, turn)),
        }
    }

    fn turn(&self, at: usize) -> u32 {
        self.trace.calls.get(at).map_or(0, |call| call.turn)
    }

    /// Does what every boundary does: resets the counts, invalidates the prompt cache, and emits the event. `prefix` is the
    /// number of tokens at the start of the prompt that did not change, if they are more than system prompt and tools.
    fn finish_boundary(&mut self, at: usize, boundary: SimBoundary, prefix: Option<u64>, restored: RestoredContext) {
        self.history.last = Some((at, self.turn(at)));
        self.history.restored = restored;
        // Everything after the last response was dropped before the model could see it.
        let answered = self
            .counter
            .anchor
            .map_or(0, |anchor| self.trace.calls[anchor.call].response.end);
        let end = boundary.last_item.map_or(0, |item| item + 1);
        self.uses.working_set.record_boundary(answered..end);
        self.counter.reset();
        self.failures = 0;
        self.results.prune(&self.window, self.trace);
        self.notes.on_boundary(boundary.size.after);
        match prefix {
            Some(tokens) => self.cache.keep_prefix(tokens),
            None => self.cache.break_prefix(CacheMiss::Compaction),
        }
        self.emit(at, &Event::Boundary(&boundary));
    }
}
