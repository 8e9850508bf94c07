//! Judges the predictions of a replay, one case a boundary. `super::validate` replays the chain and collects them.

use super::{
    CaseVerdict, Mechanism, PredictedClearing, PredictionRecorder, ReachedBoundary, TOLERANCE, UndecidableReason,
    ValidationCase,
};
use crate::policy::presets::ClientVersion;
use crate::sim::trace::{BoundaryTrigger, NONE, RecordedBoundary, Trace, flag};
use crate::windows::{InferredWindow, call_of_boundary, usual_threshold};
use transcript::agents::Agent;

/// First version of which a recorded boundary was seen. An older client may have compacted without a record.
const RECORDED_FROM: ClientVersion = ClientVersion([2, 0, 65]);

/// First version whose client records micro-compactions.
const MICRO_RECORDED_FROM: ClientVersion = ClientVersion([2, 1, 12]);

/// A prediction at most this many calls later counts as late, not as missed.
const MAX_LATE_CALLS: usize = 5;

/// What the cases of one chain are judged by.
pub(super) struct CaseJudge<'a> {
    pub(super) trace: &'a Trace,
    pub(super) windows: &'a [InferredWindow],
    pub(super) predictions: &'a PredictionRecorder,
}

impl CaseJudge<'_> {
    fn window(&self, call: u32) -> InferredWindow {
        self.windows[(call as usize).min(self.windows.len() - 1)]
    }

    fn new_case(&self, mechanism: Mechanism, verdict: CaseVerdict, call: u32) -> ValidationCase {
        let found = &self.trace.calls[(call as usize).min(self.trace.calls.len() - 1)];
        ValidationCase {
            mechanism,
            verdict,
            is_recorded: false,
            reason: None,
            call,
            distance: 0,
            recorded: None,
            predicted: None,
            threshold: 0,
            window: self.window(call),
            version: self.trace.versions[usize::from(found.version)],
            model: found.model,
            count: None,
            cleared: (Vec::new(), Vec::new()),
            node: found.node,
            time: found.time,
        }
    }

    /// Judges the compactions, segment by segment.
    pub(super) fn judge_compactions(&self) -> Vec<ValidationCase> {
        let mut cases = Vec::new();
        let mut start = 0;
        for reached in &self.predictions.reached {
            let boundary = &self.trace.recorded[reached.number];
            let (off_chain, due) = self.take_off_chain(start, self.due_in(start, boundary.call));
            cases.extend(off_chain);
            if !boundary.is_copied {
                cases.extend(self.judge_boundary(reached, boundary, &due));
            }
            start = boundary.call;
        }
        if !self.trace.calls.is_empty() {
            let end = self.trace.calls.len() as u32;
            let (off_chain, due) = self.take_off_chain(start, self.due_in(start, end));
            cases.extend(off_chain);
            cases.extend(self.spurious_case(&due));
        }
        // What was not in force in one segment of a session is no wrong prediction in another.
        let ignored = cases
            .iter()
            .filter(|case| case.reason == Some(UndecidableReason::NotInForce));
        let ignored = ignored.map(|case| (case.model, case.threshold)).collect::<Vec<_>>();
        let is_wrong = |case: &&mut ValidationCase| case.verdict == CaseVerdict::Spurious;
        for case in cases.iter_mut().filter(is_wrong) {
            if ignored.contains(&(case.model, case.threshold)) {
                (case.verdict, case.reason) = (CaseVerdict::Undecidable, Some(UndecidableReason::NotInForce));
            }
        }
        cases
    }

    /// Takes the recorded boundaries off the chain from a run of predictions that starts at `start`: the user went back behind
    /// them, but the compactions happened as predicted. Returns their cases, and the other predictions.
    fn take_off_chain(&self, start: u32, due: &[(u32, u64, u64)]) -> (Vec<ValidationCase>, Vec<(u32, u64, u64)>) {
        let (mut cases, mut left) = (Vec::new(), due.to_vec());
        for boundary in self.trace.off_chain.iter().filter(|boundary| boundary.call >= start) {
            let is_match = |(call, context, _): &(u32, u64, u64)| {
                *call == boundary.call && context.abs_diff(boundary.pre_tokens) <= TOLERANCE
            };
            let Some(at) = left
                .iter()
                .position(is_match)
                .filter(|_| self.window(boundary.call).is_sure())
            else {
                continue;
            };
            let (call, context, threshold) = left.remove(at);
            cases.push(ValidationCase {
                is_recorded: true,
                recorded: Some(boundary.pre_tokens),
                predicted: Some(context),
                threshold,
                node: boundary.node,
                time: boundary.time,
                ..self.new_case(Mechanism::Auto, CaseVerdict::Exact, call)
            });
        }
        (cases, left)
    }

    /// Returns the predictions in a range of calls.
    fn due_in(&self, start: u32, end: u32) -> &[(u32, u64, u64)] {
        let due = &self.predictions.due;
        let from = due.partition_point(|(call, ..)| *call < start);
        let to = due.partition_point(|(call, ..)| *call < end);
        &due[from..to]
    }

    /// Returns one case for a run of predictions without a recorded boundary; `None` for no predictions, a guessed window,
    /// or a copied call.
    fn spurious_case(&self, due: &[(u32, u64, u64)]) -> Option<ValidationCase> {
        let &(call, context, threshold) = due.first()?;
        if !self.window(call).is_sure() || self.trace.calls[call as usize].is_copied {
            return None;
        }
        let is_ignored = is_ignored(self.trace, due, self.is_usual(call, threshold));
        let version = self.trace.versions[usize::from(self.trace.calls[call as usize].version)];
        let verdict = match is_ignored {
            true => CaseVerdict::Undecidable,
            false if version < RECORDED_FROM || self.has_lost_history(call) => CaseVerdict::Unrecorded,
            false => CaseVerdict::Spurious,
        };
        Some(ValidationCase {
            predicted: Some(context),
            threshold,
            reason: is_ignored.then_some(UndecidableReason::NotInForce),
            ..self.new_case(Mechanism::Auto, verdict, call)
        })
    }

    /// Returns whether the prompt of a call is smaller than the window before it by half of the conversation: the history was
    /// compacted without a record, or the usage before was not that of one prompt.
    fn has_lost_history(&self, call: u32) -> bool {
        let before = (call as usize)
            .checked_sub(1)
            .and_then(|before| self.trace.calls[before].usage);
        let conversation = before.map(|usage| usage.total().saturating_sub(u64::from(self.trace.base)));
        let drop = self.trace.prompt_drop(call as usize);
        drop.zip(conversation)
            .is_some_and(|(drop, conversation)| drop > 0 && drop.unsigned_abs() * 2 >= conversation)
    }

    fn judge_boundary(
        &self,
        reached: &ReachedBoundary,
        boundary: &RecordedBoundary,
        due: &[(u32, u64, u64)],
    ) -> Vec<ValidationCase> {
        let threshold = reached.threshold;
        let context = reached.count.map(|count| count.context);
        let mechanism = match boundary.trigger {
            BoundaryTrigger::Auto => Mechanism::Auto,
            BoundaryTrigger::Manual | BoundaryTrigger::Unknown => Mechanism::Manual,
        };
        let mut case = ValidationCase {
            is_recorded: true,
            recorded: boundary.pre_tokens,
            predicted: context,
            count: reached.count,
            threshold,
            window: self.windows[call_of_boundary(self.trace, boundary.call)],
            node: boundary.node,
            time: boundary.time,
            ..self.new_case(mechanism, CaseVerdict::Undecidable, boundary.call)
        };
        let has_other_threshold = boundary.pre_tokens.is_some_and(|tokens| tokens + TOLERANCE < threshold);
        case.reason = if boundary.trigger == BoundaryTrigger::Unknown {
            Some(UndecidableReason::OldClient)
        } else if !boundary.has_leaf {
            Some(UndecidableReason::LeafMissing)
        } else if context.is_none() {
            Some(UndecidableReason::NoUsage)
        } else if !case.window.is_sure() {
            Some(UndecidableReason::WindowUnknown)
        } else if has_other_threshold {
            Some(UndecidableReason::OtherThreshold)
        } else if mechanism == Mechanism::Auto
            && self.is_usual(boundary.call, threshold)
            && is_ignored(self.trace, due, true)
        {
            Some(UndecidableReason::NotInForce)
        } else {
            None
        };
        if case.reason.is_some() || mechanism == Mechanism::Manual {
            let spurious = self
                .spurious_case(due)
                .filter(|_| case.reason != Some(UndecidableReason::NotInForce));
            return std::iter::once(case).chain(spurious).collect();
        }
        (case.verdict, case.distance) = match (due.first(), reached.is_due) {
            (Some((first, ..)), _) => (CaseVerdict::Early, i64::from(*first) - i64::from(boundary.call)),
            (None, true) if is_within_margin(reached) => (CaseVerdict::WithinMargin, 0),
            (None, true) => (CaseVerdict::Exact, 0),
            (None, false) => match self.calls_late(boundary, context.unwrap_or_default(), threshold) {
                Some(calls) => (CaseVerdict::Late, calls),
                None => (CaseVerdict::Missed, 0),
            },
        };
        vec![case]
    }

    /// Returns whether a threshold at a call is the one that the recorded client has by itself. Where another policy is judged, a
    /// prediction that comes too early is wrong.
    fn is_usual(&self, call: u32, threshold: u64) -> bool {
        let found = &self.trace.calls[(call as usize).min(self.trace.calls.len() - 1)];
        let version = self.trace.versions[usize::from(found.version)];
        let window = self.window(call).tokens;
        window.is_some_and(|tokens| usual_threshold(version, self.trace.model(found), tokens) == threshold)
    }

    /// Returns how many calls later the context would have reached the threshold without the recorded compaction; `None` if
    /// that is more than [`MAX_LATE_CALLS`].
    fn calls_late(&self, boundary: &RecordedBoundary, context: u64, threshold: u64) -> Option<i64> {
        let mut context = context;
        let calls = self
            .trace
            .calls
            .iter()
            .skip(boundary.call as usize)
            .take(MAX_LATE_CALLS);
        for (later, call) in calls.enumerate() {
            let items = call.inputs.start.max(boundary.item)..call.response.end;
            let added = self
                .trace
                .items(&items)
                .iter()
                .filter(|item| !item.has_flag(flag::ARTIFACT));
            context += added.map(|item| u64::from(item.tokens)).sum::<u64>();
            if context >= threshold {
                return Some(later as i64 + 1);
            }
        }
        None
    }

    /// Judges the micro-compactions. An exact prediction names the same results at the same call, in the same order.
    pub(super) fn judge_clearings(&self) -> Vec<ValidationCase> {
        let recorded = self
            .trace
            .recorded
            .iter()
            .filter(|boundary| boundary.is_micro && !boundary.is_copied);
        let mut cases = Vec::new();
        let mut matched = Vec::new();
        for boundary in recorded {
            if boundary.cleared_images() {
                cases.push(ValidationCase {
                    is_recorded: true,
                    reason: Some(UndecidableReason::Images),
                    recorded: boundary.pre_tokens,
                    window: self.windows[call_of_boundary(self.trace, boundary.call)],
                    node: boundary.node,
                    time: boundary.time,
                    ..self.new_case(Mechanism::Images, CaseVerdict::Undecidable, boundary.call)
                });
                continue;
            }
            let mut predictions = self.predictions.cleared.iter();
            let prediction = predictions.find(|cleared| cleared.call == boundary.call);
            matched.extend(prediction.map(|cleared| cleared.call));
            cases.push(self.judge_clearing(boundary, prediction));
        }
        for cleared in &self.predictions.cleared {
            let is_copied = self.trace.calls[cleared.call as usize].is_copied;
            if !matched.contains(&cleared.call) && !is_copied {
                cases.push(self.unmatched_clearing(cleared));
            }
        }
        cases
    }

    /// Judges a recorded micro-compaction by the prediction at the same call, if there is one.
    fn judge_clearing(&self, boundary: &RecordedBoundary, prediction: Option<&PredictedClearing>) -> ValidationCase {
        let predicted = prediction.map_or(&[][..], |cleared| &cleared.items);
        let is_exact = predicted == boundary.cleared;
        // The client recorded the tokens of all clearable results. A different count here means that the log was altered.
        let is_masked = prediction.is_some_and(|cleared| Some(cleared.eligible) != boundary.pre_tokens);
        let reason = match is_exact {
            true => None,
            false if boundary.cleared.contains(&NONE) => Some(UndecidableReason::LeafMissing),
            false if is_masked => Some(UndecidableReason::Masked),
            false if self.trace.client != Agent::Claude => Some(UndecidableReason::NotModeled),
            false => None,
        };
        let verdict = match (is_exact, reason) {
            (true, _) => CaseVerdict::Exact,
            (false, Some(_)) => CaseVerdict::Undecidable,
            (false, None) => CaseVerdict::Missed,
        };
        ValidationCase {
            is_recorded: true,
            reason,
            recorded: boundary.pre_tokens,
            predicted: prediction.map(|cleared| cleared.eligible),
            window: self.window(boundary.call.saturating_sub(1)),
            node: boundary.node,
            time: boundary.time,
            cleared: (boundary.cleared.clone(), predicted.to_vec()),
            ..self.new_case(Mechanism::Micro, verdict, boundary.call)
        }
    }

    /// Judges a predicted micro-compaction that was not recorded. It is only spurious if the client would have recorded it
    /// and the next prompt did not shrink by as much.
    fn unmatched_clearing(&self, cleared: &PredictedClearing) -> ValidationCase {
        let call = &self.trace.calls[cleared.call as usize];
        let is_recording = self.trace.versions[usize::from(call.version)] >= MICRO_RECORDED_FROM;
        let verdict = match self.trace.prompt_drop(cleared.call as usize) {
            Some(drop) if drop >= cleared.saved as i64 => CaseVerdict::Unrecorded,
            None => CaseVerdict::Unrecorded,
            Some(_) if !is_recording => CaseVerdict::Unrecorded,
            Some(_) => CaseVerdict::Spurious,
        };
        ValidationCase {
            predicted: Some(cleared.eligible),
            cleared: (Vec::new(), cleared.items.clone()),
            ..self.new_case(Mechanism::Micro, verdict, cleared.call)
        }
    }
}

/// Returns whether the threshold lies between the least and the most that the client may have counted.
fn is_within_margin(reached: &ReachedBoundary) -> bool {
    let least = reached
        .count
        .map(|count| count.padded_context.saturating_sub(count.unsure));
    least.is_some_and(|least| least < reached.threshold)
}

/// Returns whether a run of predictions shows that the threshold was not in force: prompts went on beyond it although it was
/// passed by recorded usage, of which nothing is an estimate. Once is enough if it was passed by far. Of a threshold that is not the
/// client's own, only prompts count that were sent above it more than once.
fn is_ignored(trace: &Trace, due: &[(u32, u64, u64)], is_usual: bool) -> bool {
    let usage = |call: usize| trace.calls.get(call).and_then(|call| call.usage);
    let (mut sent_above, mut known_above) = (0, 0);
    for &(call, _, threshold) in due {
        let call = call as usize;
        let sent = usage(call).map_or(0, |usage| usage.input_side());
        let held = call.checked_sub(1).and_then(usage).map_or(0, |usage| usage.total());
        // A prompt that shrank may have been compacted without a record.
        let has_grown = sent + TOLERANCE >= held;
        sent_above += u32::from(sent >= threshold + TOLERANCE);
        known_above += match has_grown {
            true if held >= threshold + TOLERANCE => 2,
            true if held >= threshold => 1,
            _ => 0,
        };
    }
    sent_above > 1 || (is_usual && known_above > 1)
}
