//! Predictions held against the record, boundary by boundary.
//!
//! A chain is replayed following the record, so every prediction starts from what was really sent. A recorded automatic
//! boundary is *exact* if the policy is due there and was not before; everything that cannot be told from the log is
//! *undecidable*, with the reason, and counts neither way.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::prices::{PicoUsd, Price, Tariff, tariffs};
use crate::sim::event::{CacheMiss, ContextCount, Event, MicroKind};
use crate::sim::inference::{InferredWindow, MICRO_RECORDED_FROM};
use crate::sim::trace::{BoundaryTrigger, NONE, RecordedBoundary, Trace, flag};
use crate::sim::{ReplayInput, ReplayMode, replay};
use transcript::log::Time;
use transcript::record::Tokens;
use transcript::thread::Node;

/// How a prediction came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseVerdict {
    /// Predicted at the very call.
    Exact,
    /// Predicted at an earlier call.
    Early,
    /// Would have been predicted a few calls later.
    Late,
    /// Not predicted.
    Missed,
    /// Predicted where nothing was recorded.
    Spurious,
    /// Predicted where nothing was recorded, and the next call shows that it happened.
    Unrecorded,
    /// The log does not hold what a prediction would need.
    Undecidable,
}

impl CaseVerdict {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            CaseVerdict::Exact => "exact",
            CaseVerdict::Early => "early",
            CaseVerdict::Late => "late",
            CaseVerdict::Missed => "missed",
            CaseVerdict::Spurious => "spurious",
            CaseVerdict::Unrecorded => "unrecorded",
            CaseVerdict::Undecidable => "undecidable",
        }
    }
}

/// Why a boundary cannot be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UndecidableReason {
    /// The message that it followed was never written.
    LeafMissing,
    /// No call before it has usage.
    NoUsage,
    /// Nothing tells how large the window was.
    WindowUnknown,
    /// It is older than boundaries in logs.
    OldClient,
    /// The client's own count was below the threshold: another one was in force.
    OtherThreshold,
    /// Results in the log are not of the size that the client counted: their text was masked.
    Masked,
}

impl UndecidableReason {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            UndecidableReason::LeafMissing => "leaf-missing",
            UndecidableReason::NoUsage => "no-usage",
            UndecidableReason::WindowUnknown => "window-unknown",
            UndecidableReason::OldClient => "old-client",
            UndecidableReason::OtherThreshold => "other-threshold",
            UndecidableReason::Masked => "masked",
        }
    }

    /// What it means.
    pub fn about(self) -> &'static str {
        match self {
            UndecidableReason::LeafMissing => "the message that it followed was never written",
            UndecidableReason::NoUsage => "no call before it has usage",
            UndecidableReason::WindowUnknown => "nothing tells how large the window was",
            UndecidableReason::OldClient => "the client wrote a summary and no boundary",
            UndecidableReason::OtherThreshold => "the record itself shows that another threshold was in force",
            UndecidableReason::Masked => "texts in the log are not of the size that the client counted",
        }
    }
}

/// Which mechanism a case is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mechanism {
    /// Automatic compaction.
    Auto,
    /// Micro-compaction.
    Micro,
    /// A compaction that the user asked for: nothing to predict but its size.
    Manual,
}

impl Mechanism {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Auto => "auto",
            Mechanism::Micro => "micro",
            Mechanism::Manual => "manual",
        }
    }
}

/// One recorded boundary, or one prediction that nothing was recorded for.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidationCase {
    /// Which mechanism.
    pub mechanism: Mechanism,
    /// How the prediction came out.
    pub verdict: CaseVerdict,
    /// Whether a recorded boundary stands here, or only a prediction.
    pub is_recorded: bool,
    /// Why it cannot be judged.
    pub reason: Option<UndecidableReason>,
    /// The call at or before which it stands.
    pub call: u32,
    /// Calls from the prediction to the boundary; negative if it came early.
    pub distance: i64,
    /// Tokens before, as recorded.
    pub recorded: Option<u64>,
    /// Tokens before, as predicted.
    pub predicted: Option<u64>,
    /// Threshold in force.
    pub threshold: u64,
    /// Window in force, and why it is thought to be.
    pub window: InferredWindow,
    /// Version of the client.
    pub version: ClientVersion,
    /// Number of the model in the trace.
    pub model: u16,
    /// How the predicted tokens come about.
    pub count: Option<ContextCount>,
    /// Cleared results: recorded, and predicted.
    pub cleared: (Vec<u32>, Vec<u32>),
    /// The record.
    pub node: Node,
    /// When it was written.
    pub time: Time,
}

impl ValidationCase {
    /// Predicted minus recorded tokens before.
    pub fn error(&self) -> Option<i64> {
        Some(self.predicted? as i64 - self.recorded? as i64)
    }
}

/// What a chain costs by the record and by the model of the prompt cache, outputs alike.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostComparison {
    /// By recorded usage.
    pub recorded: PicoUsd,
    /// By the model.
    pub simulated: PicoUsd,
    /// Calls that read far less from the cache than the model says, for no reason that the log shows.
    pub unexplained: u64,
    /// What these cost beyond the model.
    pub unexplained_cost: PicoUsd,
}

impl CostComparison {
    /// Adds those of another chain.
    pub fn merge(&mut self, other: &CostComparison) {
        self.recorded += other.recorded;
        self.simulated += other.simulated;
        self.unexplained += other.unexplained;
        self.unexplained_cost += other.unexplained_cost;
    }
}

/// What validating one chain gives.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Validation {
    /// Calls with usage, by version of the trace.
    pub calls: Vec<(ClientVersion, u64)>,
    /// Calls whose window is not known.
    pub unsure_calls: u64,
    /// All cases, in order.
    pub cases: Vec<ValidationCase>,
    /// Costs.
    pub costs: CostComparison,
    /// Relative error of the window at the end of each segment, simulated from its first call by estimates.
    pub segments: Vec<f64>,
    /// Whether the replay found a defect in itself.
    pub has_defect: bool,
}

/// The client's own count may be this far below the threshold: it pads what it estimates when it weighs it.
pub const TOLERANCE: u64 = 2_000;

/// A boundary that would come this many calls later is late, not missed.
const MAX_LATE_CALLS: usize = 5;

/// Validates a chain.
pub fn validate(
    trace: &Trace,
    policies: &[&Policy],
    prices: &[Option<&Price>],
    windows: &[InferredWindow],
) -> Validation {
    let mut watch = PredictionRecorder::default();
    let setting = ReplayInput {
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
    replay(trace, &setting, &mut |call: u32, event: &Event<'_>| {
        watch.event(call, event);
        if let Event::Called(called) = event {
            let call = &trace.calls[call as usize];
            // A call that another session owns is billed there.
            if call.is_copied {
                return;
            }
            if let (Some(usage), Some(tariff)) = (call.usage, &tariffs[usize::from(call.model)]) {
                costs.add(tariff, &usage, called.tokens, called.miss);
            }
        }
    });
    let mut validation = Validation {
        costs,
        has_defect: watch.has_defect,
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
        validation.unsure_calls += u64::from(!window.grounds.is_sure());
    }
    let judge = CaseJudge {
        trace,
        windows,
        predictions: &watch,
    };
    validation.cases = judge.judge_compactions();
    validation.cases.extend(judge.judge_clearings());
    validation.cases.sort_by_key(|case| (case.call, case.mechanism));
    validation
}

impl CostComparison {
    fn add(&mut self, tariff: &Tariff, usage: &Tokens, simulated: Tokens, miss: Option<CacheMiss>) {
        let window = usage.input_side();
        let simulated = Tokens {
            output: usage.output,
            ..simulated
        };
        let (recorded_cost, simulated_cost) = (tariff.cost(usage, window), tariff.cost(&simulated, window));
        self.recorded += recorded_cost;
        self.simulated += simulated_cost;
        if miss == Some(CacheMiss::Unexplained) {
            self.unexplained += 1;
            self.unexplained_cost += recorded_cost.saturating_sub(simulated_cost);
        }
    }
}

/// Clearing that the policy would have done.
struct PredictedClearing {
    call: u32,
    eligible: u64,
    saved: u64,
    items: Vec<u32>,
}

/// A recorded boundary as the policy met it.
struct ReachedBoundary {
    number: usize,
    count: Option<ContextCount>,
    threshold: u64,
    is_due: bool,
}

/// What happened in a replay that followed the record.
#[derive(Default)]
struct PredictionRecorder {
    /// Calls at which the policy was due.
    due: Vec<(u32, u64, u64)>,
    /// Context and threshold at recorded boundaries, by number.
    reached: Vec<ReachedBoundary>,
    /// Clearing that the policy would have done.
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

struct CaseJudge<'a> {
    trace: &'a Trace,
    windows: &'a [InferredWindow],
    predictions: &'a PredictionRecorder,
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

    /// Compactions, segment by segment.
    fn judge_compactions(&self) -> Vec<ValidationCase> {
        let mut cases = Vec::new();
        let mut start = 0;
        for reached in &self.predictions.reached {
            let boundary = &self.trace.recorded[reached.number];
            let due = self.due_in(start, boundary.call);
            if !boundary.is_copied {
                cases.extend(self.judge_boundary(reached, boundary, due));
            }
            start = boundary.call;
        }
        if !self.trace.calls.is_empty() {
            cases.extend(self.spurious_case(self.due_in(start, self.trace.calls.len() as u32)));
        }
        cases
    }

    /// Predictions from one call to before another.
    fn due_in(&self, start: u32, end: u32) -> &[(u32, u64, u64)] {
        let due = &self.predictions.due;
        let from = due.partition_point(|(call, ..)| *call < start);
        let to = due.partition_point(|(call, ..)| *call < end);
        &due[from..to]
    }

    /// A run of predictions with nothing recorded: one case, unless the window is a guess.
    fn spurious_case(&self, due: &[(u32, u64, u64)]) -> Option<ValidationCase> {
        let &(call, context, threshold) = due.first()?;
        if !self.window(call).grounds.is_sure() || self.trace.calls[call as usize].is_copied {
            return None;
        }
        // What was sent lay above the threshold, call after call: it was not in force, or compaction was switched off.
        let is_above = |call: u32| {
            let usage = self.trace.calls[call as usize].usage;
            usage.is_some_and(|usage| usage.input_side() >= threshold + TOLERANCE)
        };
        let is_ignored = due.iter().filter(|(call, ..)| is_above(*call)).count() > 1;
        let verdict = if is_ignored {
            CaseVerdict::Undecidable
        } else {
            CaseVerdict::Spurious
        };
        Some(ValidationCase {
            predicted: Some(context),
            threshold,
            reason: is_ignored.then_some(UndecidableReason::OtherThreshold),
            ..self.new_case(Mechanism::Auto, verdict, call)
        })
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
        let before = boundary.call.saturating_sub(1);
        let mut case = ValidationCase {
            is_recorded: true,
            recorded: boundary.pre_tokens,
            predicted: context,
            count: reached.count,
            threshold,
            window: self.window(before),
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
        } else if !case.window.grounds.is_sure() {
            Some(UndecidableReason::WindowUnknown)
        } else if has_other_threshold {
            Some(UndecidableReason::OtherThreshold)
        } else {
            None
        };
        if case.reason.is_some() || mechanism == Mechanism::Manual {
            let spurious = self.spurious_case(due);
            return std::iter::once(case).chain(spurious).collect();
        }
        (case.verdict, case.distance) = match (due.first(), reached.is_due) {
            (Some((first, ..)), _) => (CaseVerdict::Early, i64::from(*first) - i64::from(boundary.call)),
            (None, true) => (CaseVerdict::Exact, 0),
            (None, false) => match self.calls_late(boundary, context.unwrap_or_default(), threshold) {
                Some(calls) => (CaseVerdict::Late, calls),
                None => (CaseVerdict::Missed, 0),
            },
        };
        vec![case]
    }

    /// How many calls later the threshold would have been reached had the compaction not happened.
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
                .filter(|item| !item.has_flag(flag::ARTEFACT));
            context += added.map(|item| u64::from(item.tokens)).sum::<u64>();
            if context >= threshold {
                return Some(later as i64 + 1);
            }
        }
        None
    }

    /// Micro-compactions: the same call and the same results in the same order.
    fn judge_clearings(&self) -> Vec<ValidationCase> {
        let mut cases = Vec::new();
        let mut matched = Vec::new();
        let own = self
            .trace
            .recorded
            .iter()
            .filter(|boundary| boundary.is_micro && !boundary.is_copied);
        for boundary in own {
            let found = self
                .predictions
                .cleared
                .iter()
                .find(|cleared| cleared.call == boundary.call);
            let predicted = found.map_or(&[][..], |cleared| &cleared.items);
            let is_exact = predicted == boundary.cleared;
            // The client counted what could go; a different count in the log means that the log is not what it saw.
            let is_masked = found.is_some_and(|cleared| Some(cleared.eligible) != boundary.pre_tokens);
            let reason = match is_exact {
                true => None,
                false if boundary.cleared.contains(&NONE) => Some(UndecidableReason::LeafMissing),
                false if is_masked => Some(UndecidableReason::Masked),
                false => None,
            };
            let verdict = match (is_exact, reason) {
                (true, _) => CaseVerdict::Exact,
                (false, Some(_)) => CaseVerdict::Undecidable,
                (false, None) => CaseVerdict::Missed,
            };
            matched.extend(found.map(|cleared| cleared.call));
            cases.push(ValidationCase {
                is_recorded: true,
                reason,
                recorded: boundary.pre_tokens,
                predicted: found.map(|cleared| cleared.eligible),
                window: self.window(boundary.call.saturating_sub(1)),
                node: boundary.node,
                time: boundary.time,
                cleared: (boundary.cleared.clone(), predicted.to_vec()),
                ..self.new_case(Mechanism::Micro, verdict, boundary.call)
            });
        }
        for cleared in &self.predictions.cleared {
            let call = &self.trace.calls[cleared.call as usize];
            if matched.contains(&cleared.call) || call.is_copied {
                continue;
            }
            let is_recording = self.trace.versions[usize::from(call.version)] >= MICRO_RECORDED_FROM;
            let verdict = match self.trace.prompt_drop(cleared.call as usize) {
                Some(fall) if fall >= cleared.saved as i64 => CaseVerdict::Unrecorded,
                None => CaseVerdict::Unrecorded,
                Some(_) if !is_recording => CaseVerdict::Unrecorded,
                Some(_) => CaseVerdict::Spurious,
            };
            cases.push(ValidationCase {
                predicted: Some(cleared.eligible),
                cleared: (Vec::new(), cleared.items.clone()),
                ..self.new_case(Mechanism::Micro, verdict, cleared.call)
            });
        }
        cases
    }
}

/// Relative errors at the ends of segments of two calls or more.
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
                *simulated += f64::from(call.growth);
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
