//! The context as the client counts it, and the automatic check before a call.

use super::Replay;
use crate::policy::value::{OutputCount, TrailEstimate};
use crate::sim::ReplayMode;
use crate::sim::event::{CompactionCause, ContextCount, Event, EventSink};
use crate::sim::trace::RecordedBoundary;

/// The state of the client's count: the last response, and the estimates added since.
#[derive(Default)]
pub(super) struct ContextCounter {
    /// `None` before the first response and after a boundary.
    pub anchor: Option<Anchor>,
    /// The client's estimate of the blocks added since the anchor.
    pub trail: u64,
}

/// The last response, whose usage the count starts from.
#[derive(Clone, Copy)]
pub(super) struct Anchor {
    pub call: usize,
    /// Input tokens of that call.
    pub input: u64,
}

impl ContextCounter {
    /// Forgets the last response.
    pub fn reset(&mut self) {
        *self = ContextCounter::default();
    }
}

impl<S: EventSink> Replay<'_, S> {
    /// Returns the context as the client counts it; `None` if there is no usage to start from.
    pub(super) fn count_context(&self) -> Option<ContextCount> {
        let policy = self.rules.policy;
        let anchor = self.counter.anchor?;
        let output = &self.trace.calls[anchor.call].output;
        let counted_output = u64::from(match policy.output {
            OutputCount::Final => output.tokens,
            OutputCount::Recorded => output.first_line,
        });
        let (trail, later_lines) = match policy.trail {
            TrailEstimate::None => (0, 0),
            TrailEstimate::User => (self.counter.trail, 0),
            TrailEstimate::Text => (self.counter.trail, u64::from(output.later_text)),
            TrailEstimate::All => (self.counter.trail, u64::from(output.later_lines)),
        };
        let (reasoning, unsure) = self.earlier_reasoning(anchor.call);
        let known = anchor.input + counted_output;
        let estimated = trail + later_lines + reasoning;
        Some(ContextCount {
            anchor: anchor.call as u32,
            input: anchor.input,
            output: counted_output,
            trail,
            later_lines,
            reasoning,
            unsure,
            context: known + estimated,
            padded_context: known + pad_estimate(estimated, policy.padding),
        })
    }

    /// Returns what the client counts, at most, for the reasoning of turns before that of the call after `anchor`, and how
    /// much of it is not certain because the log masks it.
    fn earlier_reasoning(&self, anchor: usize) -> (u64, u64) {
        let policy = self.rules.policy;
        let next = self.trace.calls.get(anchor + 1).filter(|_| policy.reasoning);
        let Some(earlier) = next.map(|call| call.earlier_reasoning) else {
            return (0, 0);
        };
        let masked = (f64::from(earlier.masked) * policy.reasoning_factor) as u64;
        (u64::from(earlier.sized) + masked, masked)
    }

    /// Returns the unpadded context; `None` if there is no usage to start from.
    pub(super) fn context(&self) -> Option<u64> {
        self.count_context().map(|count| count.context)
    }

    /// Returns whether the padded context has reached the threshold and automatic compaction is on.
    pub(super) fn is_due(&self) -> bool {
        let policy = self.rules.policy;
        let padded = self.count_context().map(|count| count.padded_context);
        policy.auto && policy.compaction && padded.is_some_and(|padded| padded >= self.rules.limits.threshold)
    }

    /// Returns whether the count that the client recorded at a boundary reaches the threshold, while the window is still
    /// the recorded one. The client's count includes messages that were never written to the log.
    pub(super) fn was_due(&self, boundary: &RecordedBoundary) -> bool {
        let policy = self.rules.policy;
        let is_reached = |tokens: u64| tokens >= self.rules.limits.threshold;
        self.record.in_step && policy.auto && policy.compaction && boundary.pre_tokens.is_some_and(is_reached)
    }

    /// Runs the automatic check before a call, and compacts if it is due and the policy decides.
    pub(super) fn check_threshold(&mut self, at: usize) {
        if !self.is_due() || self.trace.is_own_call() {
            return;
        }
        let context = self.context().unwrap_or_default();
        let threshold = self.rules.limits.threshold;
        self.emit(at, &Event::Due { context, threshold });
        if self.input.mode == ReplayMode::Free && !self.is_breaker_open() {
            self.record.in_step = false;
            self.compact(at, CompactionCause::Auto);
        }
    }
}

/// Multiplies an estimate by the padding and rounds it. Runs at every call: `f64::round` would be a library call, so a
/// padding of 1 is skipped and the rest is rounded by adding one half.
fn pad_estimate(tokens: u64, padding: f64) -> u64 {
    match padding == 1.0 {
        true => tokens,
        false => (tokens as i64 as f64 * padding + 0.5) as i64 as u64,
    }
}
