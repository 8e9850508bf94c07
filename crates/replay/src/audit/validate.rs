//! Compares the predictions of a policy with the record, boundary by boundary.
//!
//! A chain is replayed following the record, so every prediction starts from what was really sent. A recorded automatic
//! boundary is *exact* if the policy is due there and was not due before. A boundary that the log says too little about is
//! *undecidable*, with a reason, and counts neither for nor against the policy.

mod judge;
#[cfg(test)]
#[path = "validate_tests.rs"]
mod tests;

use crate::audit::costs::CostComparison;
pub use crate::audit::reasons::UndecidableReason;
use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::prices::{Price, tariffs};
use crate::sim::event::{ContextCount, Event, MicroKind};
use crate::sim::trace::Trace;
use crate::sim::{ReplayInput, ReplayMode, replay};
use crate::windows::InferredWindow;
use judge::CaseJudge;
use transcript::log::Time;
use transcript::record::Tokens;
use transcript::thread::Node;

named_enum! {
    /// The verdict on a prediction.
    pub enum CaseVerdict {
        /// Predicted at the same call.
        Exact = "exact",
        /// Predicted at the same call, by a count that the log determines only within a margin.
        WithinMargin = "within-margin",
        /// Predicted at an earlier call.
        Early = "early",
        /// The policy would have been due a few calls later.
        Late = "late",
        /// Not predicted.
        Missed = "missed",
        /// Predicted, but not recorded.
        Spurious = "spurious",
        /// Predicted and not recorded, but the next call shows that it happened, or the log could not show it.
        Unrecorded = "unrecorded",
        /// The log says too little to judge.
        Undecidable = "undecidable",
    }
}

named_enum! {
    /// The mechanism that a case is about.
    pub enum Mechanism {
        /// Automatic compaction.
        Auto = "auto",
        /// Micro-compaction.
        Micro = "micro",
        /// Clearing of images, which some clients record as a micro-compaction without results. Policies do not predict it.
        Images = "images",
        /// Manual compaction: only its size can be predicted.
        Manual = "manual",
    }
}

/// One recorded boundary, or one prediction without a recorded boundary.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationCase {
    pub mechanism: Mechanism,
    pub verdict: CaseVerdict,
    /// Whether there is a recorded boundary, or only a prediction.
    pub is_recorded: bool,
    /// Why it cannot be judged.
    pub reason: Option<UndecidableReason>,
    /// The call at or before which it stands.
    pub call: u32,
    /// Calls from the boundary to the prediction; negative if the prediction came early.
    pub distance: i64,
    /// Tokens before, as recorded.
    pub recorded: Option<u64>,
    /// Tokens before, as predicted.
    pub predicted: Option<u64>,
    /// The threshold of the policy.
    pub threshold: u64,
    /// The inferred window.
    pub window: InferredWindow,
    /// Version of the client.
    pub version: ClientVersion,
    /// Index of the model in the trace.
    pub model: u16,
    /// The parts of the predicted tokens.
    pub count: Option<ContextCount>,
    /// Cleared results: recorded, and predicted.
    pub cleared: (Vec<u32>, Vec<u32>),
    /// The boundary record, or the response at the prediction.
    pub node: Node,
    /// Time of that record.
    pub time: Time,
}

impl ValidationCase {
    /// Returns the predicted minus the recorded tokens before; `None` if either is missing.
    pub fn error(&self) -> Option<i64> {
        Some(self.predicted? as i64 - self.recorded? as i64)
    }
}

/// The validation of one chain.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Validation {
    /// Number of calls with usage, by client version.
    pub calls: Vec<(ClientVersion, u64)>,
    /// Number of calls whose window is a guess.
    pub unsure_calls: u64,
    /// All cases, in order.
    pub cases: Vec<ValidationCase>,
    pub costs: CostComparison,
    /// Relative error of the window at the end of each segment, if it is simulated from the segment's first call by
    /// estimates alone. Segments lie between boundaries.
    pub segments: Vec<f64>,
    /// Whether the replay's self-check failed.
    pub has_defect: bool,
}

/// The client's recorded count may be this far below the threshold at a compaction, because the client compares a padded
/// count with it.
pub const TOLERANCE: u64 = 2_000;

/// Validates a chain.
pub fn validate(
    trace: &Trace,
    policies: &[&Policy],
    prices: &[Option<&Price>],
    windows: &[InferredWindow],
) -> Validation {
    let mut predictions = PredictionRecorder::default();
    let input = ReplayInput {
        policies,
        prices,
        windows,
        summary: None,
        mode: ReplayMode::Follow,
        uses: None,
        texts: None,
        key: 0,
    };
    let mut costs = CostComparison::default();
    let tariffs: Vec<_> = tariffs(prices);
    replay(trace, &input, &mut |call: u32, event: &Event<'_>| {
        predictions.event(call, event);
        let call = trace.calls.get(call as usize);
        // A copied call is billed in the session that made it.
        let Some(call) = call.filter(|call| !call.is_copied) else {
            return;
        };
        match event {
            Event::Called(called) => {
                if let (Some(usage), Some(tariff)) = (call.usage, &tariffs[usize::from(call.model)]) {
                    let output = u64::from(call.output.recorded);
                    costs.add(tariff, &Tokens { output, ..usage }, called);
                }
            }
            Event::Inner { cost, .. } => costs.add_inner(cost.unwrap_or(0)),
            _ => {}
        }
    });
    let mut validation = Validation {
        costs,
        has_defect: predictions.has_defect,
        segments: segment_errors(trace),
        ..Validation::default()
    };
    for (call, window) in std::iter::zip(&trace.calls, windows) {
        if call.usage.is_none() || call.is_copied {
            continue;
        }
        let version = trace.versions[usize::from(call.version)];
        match validation.calls.iter_mut().find(|(known, _)| *known == version) {
            Some((_, count)) => *count += 1,
            None => validation.calls.push((version, 1)),
        }
        validation.unsure_calls += u64::from(!window.is_sure());
    }
    let judge = CaseJudge {
        trace,
        windows,
        predictions: &predictions,
    };
    validation.cases = judge.judge_compactions();
    validation.cases.extend(judge.judge_clearings());
    validation.cases.sort_by_key(|case| (case.call, case.mechanism));
    validation
}

/// A micro-compaction that the policy would have done.
struct PredictedClearing {
    call: u32,
    eligible: u64,
    saved: u64,
    items: Vec<u32>,
}

/// The policy's view of a recorded boundary.
struct ReachedBoundary {
    number: usize,
    count: Option<ContextCount>,
    threshold: u64,
    is_due: bool,
}

/// Collects the predictions of a replay that follows the record.
#[derive(Default)]
struct PredictionRecorder {
    /// Calls at which the policy was due, with context and threshold.
    due: Vec<(u32, u64, u64)>,
    reached: Vec<ReachedBoundary>,
    cleared: Vec<PredictedClearing>,
    has_defect: bool,
}

impl PredictionRecorder {
    fn event(&mut self, call: u32, event: &Event<'_>) {
        match event {
            Event::Due { context, threshold } => self.due.push((call, *context, *threshold)),
            Event::Reached {
                recorded,
                count,
                threshold,
                is_due,
            } => self.reached.push(ReachedBoundary {
                number: *recorded,
                count: *count,
                threshold: *threshold,
                is_due: *is_due,
            }),
            Event::Micro {
                kind: MicroKind::Budget,
                eligible,
                saved,
                cleared,
            } => self.cleared.push(PredictedClearing {
                call,
                eligible: *eligible,
                saved: *saved,
                items: cleared.to_vec(),
            }),
            Event::Defect { .. } => self.has_defect = true,
            _ => {}
        }
    }
}

/// Returns the relative errors at the ends of segments of two calls or more.
fn segment_errors(trace: &Trace) -> Vec<f64> {
    let mut errors = Vec::new();
    let mut running: Option<(f64, usize)> = None;
    let mut last_error = None;
    for (at, call) in trace.calls.iter().enumerate() {
        let is_cut = at == 0 || !trace.recorded_at(at).is_empty();
        let Some(usage) = call.usage else {
            continue;
        };
        let sent = usage.input_side() as f64;
        match &mut running {
            Some((simulated, calls)) if !is_cut => {
                *simulated += f64::from(call.continuity.growth);
                *calls += 1;
                last_error = Some((*simulated - sent) / sent.max(1.0));
            }
            _ => {
                errors.extend(last_error.take());
                running = Some((sent, 1));
            }
        }
    }
    errors.extend(last_error);
    errors
}
