//! Recorded boundaries: what the client recorded, what the usage of the calls around shows, and which limits applied.
//!
//! Nothing is predicted here. Sizes come from recorded usage; what the log does not show stays `None`.

use crate::audit::validate::TOLERANCE;
use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::prices::Price;
use crate::sim::event::Event;
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::trace::{BoundaryTrigger, RecordedBoundary, Trace};
use crate::sim::{ReplayInput, ReplayMode, replay};
use crate::windows::{InferredWindow, WINDOW_SIZES, WindowConfidence, call_of_boundary};
use std::collections::HashMap;
use transcript::log::{NO_TIME, Time};
use transcript::thread::Node;

/// A compaction this far above its threshold is remarkable: one ordinary step past the threshold is smaller.
const FAR_ABOVE: u64 = 10_000;

/// Fewer calls than this since the previous compaction are remarkable: the window filled up again at once.
const SOON: u32 = 10;

/// A duration from this on does not count as waiting: a compaction is a single model call.
pub(super) const LONGEST_WAIT_MS: u64 = 3_600_000;

/// A compaction that takes longer than this is slow.
const SLOW_MS: u64 = 120_000;

/// A chain with its policies, prices and windows. Lists are indexed by the trace's versions, models or calls.
pub struct AuditInput<'a> {
    pub trace: &'a Trace,
    /// By version.
    pub policies: &'a [&'a Policy],
    /// By model.
    pub prices: &'a [Option<&'a Price>],
    /// By call.
    pub windows: &'a [InferredWindow],
}

impl AuditInput<'_> {
    /// Returns the window of a call; `None` if it is not known, or is only a guess.
    pub fn window(&self, call: usize) -> Option<u64> {
        let inferred = self.windows.get(call)?;
        inferred
            .tokens
            .filter(|_| inferred.confidence <= WindowConfidence::Likely)
    }

    /// Returns the levels at a call under the given policies. An unknown window counts as the smallest one: its threshold is
    /// a lower bound, unless a setting lowered it.
    pub fn limits(&self, policies: &[&Policy], call: usize) -> WindowLimits {
        self.limits_of(policies, call, self.window(call).unwrap_or(WINDOW_SIZES[0]))
    }

    /// Returns the levels at a call for a window of the given size.
    pub fn limits_of(&self, policies: &[&Policy], call: usize, window: u64) -> WindowLimits {
        let found = &self.trace.calls[call];
        let policy = policies[usize::from(found.version)];
        WindowLimits::new(policy, self.trace.model(found), window, self.model_limits(call))
    }

    fn model_limits(&self, call: usize) -> ModelLimits {
        let model = usize::from(self.trace.calls[call].model);
        ModelLimits::of(self.prices[model])
    }

    /// Returns the client's count of the context at every check that did not compact, by call. Copied calls are left out, and
    /// so are calls after missing records.
    pub fn contexts(&self) -> Vec<(usize, u64)> {
        // A policy with a threshold of nearly 0 is due at every check, so the replay reports the count at every check.
        let always = |policy: &&Policy| Policy {
            percent: Some(f64::MIN_POSITIVE),
            auto: true,
            compaction: true,
            micro: false,
            hard_limit: false,
            notes_on: false,
            extract_on: false,
            ..(*policy).clone()
        };
        let policies = self.policies.iter().map(always).collect::<Vec<_>>();
        let input = ReplayInput {
            policies: &policies.iter().collect::<Vec<_>>(),
            prices: self.prices,
            windows: self.windows,
            summary: None,
            mode: ReplayMode::Follow,
            uses: None,
            texts: None,
            key: 0,
        };
        let mut contexts = Vec::new();
        replay(self.trace, &input, &mut |call: u32, event: &Event<'_>| {
            if let Event::Due { context, .. } = event {
                contexts.push((call as usize, *context));
            }
        });
        contexts
    }
}

named_enum! {
    /// The kind of a recorded boundary.
    pub enum BoundaryKind {
        /// A summary replaced everything.
        Full = "full",
        /// A summary replaced everything but some kept records.
        Partial = "partial",
        /// Old results were cleared.
        Micro = "micro",
    }
}

named_enum! {
    /// How a duration is known.
    pub enum DurationSource {
        /// The boundary record states it.
        Recorded = "recorded",
        /// The time from the last record before it, or from the command that asked for it, to the boundary record.
        Clock = "clock",
    }
}

named_enum! {
    /// Why a boundary is remarkable, most serious first.
    pub enum BoundaryRemark {
        /// The window was larger after it than before.
        Grew = "grew",
        /// It happened below the threshold.
        Lower = "lower",
        /// It happened far above the threshold.
        High = "high",
        /// It freed less than half of the window.
        Little = "little",
        /// The previous one was only a few calls ago.
        Again = "again",
        /// It took a long time.
        Slow = "slow",
    }
}

impl BoundaryRemark {
    /// Returns the remark as a sentence fragment for people.
    pub fn about(self) -> &'static str {
        match self {
            BoundaryRemark::Grew => "the window was larger after than before",
            BoundaryRemark::Lower => "below the usual threshold",
            BoundaryRemark::High => "10,000 or more above the usual threshold",
            BoundaryRemark::Little => "less than half of the window came free",
            BoundaryRemark::Again => "fewer than 10 calls after the one before",
            BoundaryRemark::Slow => "over two minutes",
        }
    }
}

/// One recorded boundary, with what the log shows around it.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditBoundary {
    /// The boundary record.
    pub node: Node,
    /// The call that follows it; the number of calls if none does.
    pub call: u32,
    /// Time of the boundary record.
    pub time: Time,
    /// Version of the client.
    pub version: ClientVersion,
    /// Model of the call before it.
    pub model: String,
    pub trigger: BoundaryTrigger,
    pub kind: BoundaryKind,
    /// Tokens before, as the client counted them; for a micro-compaction, tokens of all results that could be cleared.
    pub pre_tokens: Option<u64>,
    /// Tokens after, as the client counted them: without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Input and output tokens of the last call before it.
    pub before: Option<u64>,
    /// Input tokens of the first call after it.
    pub after: Option<u64>,
    /// `after` without the system prompt and tools of the session's first call.
    pub rebuilt: Option<u64>,
    /// Tokens of the summary.
    pub summary: Option<u64>,
    /// Calls since the previous compaction, or since the start.
    pub calls_since: u32,
    /// Turns that began since the previous compaction.
    pub turns_since: u32,
    /// Whether there is a previous compaction.
    pub is_recompaction: bool,
    /// Duration in milliseconds, and how it is known.
    pub duration: Option<(u64, DurationSource)>,
    /// Window of the model.
    pub window: InferredWindow,
    /// The threshold of automatic compaction under the policy.
    pub threshold: Option<u64>,
    /// The window minus the reserve.
    pub effective: u64,
    /// Number of results that a micro-compaction cleared.
    pub cleared: Option<u64>,
    /// Tokens that clearing saved, as the client counted them.
    pub saved: Option<u64>,
    /// Whether the record that it followed is in the log.
    pub has_leaf: bool,
}

impl AuditBoundary {
    /// Returns the tokens that it freed, by recorded usage; negative if the window grew, `None` if a size is missing.
    pub fn freed(&self) -> Option<i64> {
        Some(self.before? as i64 - self.after? as i64)
    }

    /// Returns whether the window was larger after it than before; `None` if a size is missing.
    pub fn has_grown(&self) -> Option<bool> {
        self.freed().map(|freed| freed < 0)
    }

    /// Returns whether the client started it because the context reached the threshold.
    pub fn is_automatic(&self) -> bool {
        self.kind != BoundaryKind::Micro && self.trigger == BoundaryTrigger::Auto
    }

    /// Returns the recorded tokens before minus the threshold; `None` if either is missing.
    pub fn tokens_over_threshold(&self) -> Option<i64> {
        Some(self.pre_tokens? as i64 - self.threshold? as i64)
    }

    /// Returns what is remarkable about it, most serious first.
    pub fn remarks(&self) -> Vec<BoundaryRemark> {
        let over = self.tokens_over_threshold().filter(|_| self.is_automatic());
        let is_compaction = self.kind != BoundaryKind::Micro;
        let is_little = || Some((0..self.before? as i64).contains(&(self.freed()? * 2)));
        let remarks = [
            (BoundaryRemark::Grew, self.has_grown() == Some(true)),
            (
                BoundaryRemark::Lower,
                over.is_some_and(|over| over < -(TOLERANCE as i64)),
            ),
            (BoundaryRemark::High, over.is_some_and(|over| over >= FAR_ABOVE as i64)),
            (BoundaryRemark::Little, is_compaction && is_little() == Some(true)),
            (
                BoundaryRemark::Again,
                is_compaction && self.is_recompaction && self.calls_since < SOON,
            ),
            (
                BoundaryRemark::Slow,
                self.duration.is_some_and(|(took, _)| took > SLOW_MS),
            ),
        ];
        let held = remarks.into_iter().filter(|(_, holds)| *holds);
        held.map(|(remark, _)| remark).collect()
    }
}

/// Returns the boundaries of a chain, without those copied from other sessions.
pub fn boundaries(chain: &AuditInput<'_>) -> Vec<AuditBoundary> {
    let trace = chain.trace;
    let base = base_tokens(trace);
    let mut found = Vec::new();
    let mut start = None;
    let neighbors = BoundaryNeighbors::new(trace);
    for (number, recorded) in trace.recorded.iter().enumerate() {
        if !recorded.is_copied && !trace.calls.is_empty() {
            found.push(boundary(chain, number, recorded, start, base, &neighbors));
        }
        if !recorded.is_micro {
            start = Some(recorded.call as usize);
        }
    }
    found
}

/// Returns the tokens of system prompt and tools at the first call. `None` if they are not known, or if a compaction led to
/// a smaller prompt: then the log starts in the middle of a session and its first prompt contains unrecorded history.
fn base_tokens(trace: &Trace) -> Option<u64> {
    let base = u64::from(trace.base);
    let compactions = trace.recorded.iter().filter(|recorded| !recorded.is_micro);
    let mut after =
        compactions.filter_map(|recorded| Some(trace.calls.get(recorded.call as usize)?.usage?.input_side()));
    (trace.base_is_known && after.all(|after| after >= base)).then_some(base)
}

/// What a boundary has around it, found once for all boundaries of a chain.
struct BoundaryNeighbors {
    /// First and last compaction before each call, by number.
    compactions: HashMap<u32, (usize, usize)>,
    /// How many turns started before each call.
    turns: Vec<u32>,
}

impl BoundaryNeighbors {
    fn new(trace: &Trace) -> BoundaryNeighbors {
        let mut compactions = HashMap::new();
        for (number, recorded) in trace.recorded.iter().enumerate().filter(|(_, found)| !found.is_micro) {
            compactions.entry(recorded.call).or_insert((number, number)).1 = number;
        }
        let mut turns = Vec::with_capacity(trace.calls.len() + 1);
        turns.push(0);
        for call in &trace.calls {
            turns.push(turns[turns.len() - 1] + u32::from(call.starts_turn));
        }
        BoundaryNeighbors { compactions, turns }
    }
}

/// Returns the window before and after a boundary, from the usage of the calls around it; `None` where it is not known.
fn sizes_around(
    trace: &Trace,
    number: usize,
    recorded: &RecordedBoundary,
    neighbors: &BoundaryNeighbors,
) -> (Option<u64>, Option<u64>) {
    let at = recorded.call as usize;
    // A call shows the effect of this boundary only if no other compaction lies between the two.
    let (first, last) = neighbors
        .compactions
        .get(&recorded.call)
        .copied()
        .unwrap_or((number, number));
    let (is_first, is_last) = (first >= number, last <= number);
    let last = at.checked_sub(1).filter(|_| is_first).map(|call| &trace.calls[call]);
    let before = last.and_then(|call| Some(call.usage?.input_side() + u64::from(call.output.tokens)));
    let next = trace.calls.get(at).filter(|_| is_last);
    let after = next.and_then(|call| Some(call.usage?.input_side()));
    (before, after)
}

/// Describes one boundary; `start` is the call that follows the previous compaction, if there is one.
fn boundary(
    chain: &AuditInput<'_>,
    number: usize,
    recorded: &RecordedBoundary,
    start: Option<usize>,
    base: Option<u64>,
    neighbors: &BoundaryNeighbors,
) -> AuditBoundary {
    let trace = chain.trace;
    let at = recorded.call as usize;
    let (before, after) = sizes_around(trace, number, recorded, neighbors);
    let is_compaction = !recorded.is_micro;
    let sized = call_of_boundary(trace, recorded.call);
    let window = chain.windows[sized];
    let limits = WindowLimits::new(
        chain.policies[usize::from(recorded.version)],
        trace.model(&trace.calls[sized]),
        chain.window(sized).unwrap_or(WINDOW_SIZES[0]),
        chain.model_limits(sized),
    );
    let from = start.unwrap_or(0).min(at);
    AuditBoundary {
        node: recorded.node,
        call: recorded.call,
        time: recorded.time,
        version: trace.versions[usize::from(recorded.version)],
        model: trace.model(&trace.calls[at.saturating_sub(1)]).to_owned(),
        trigger: recorded.trigger,
        kind: match (recorded.is_micro, recorded.kept) {
            (true, _) => BoundaryKind::Micro,
            (false, 0) => BoundaryKind::Full,
            (false, _) => BoundaryKind::Partial,
        },
        pre_tokens: recorded.pre_tokens,
        post_tokens: recorded.post_tokens,
        before,
        after,
        rebuilt: after
            .filter(|_| is_compaction)
            .zip(base)
            .map(|(after, base)| after - base),
        summary: (recorded.summary > 0).then(|| u64::from(recorded.summary)),
        calls_since: (at - from) as u32,
        turns_since: neighbors.turns[at] - neighbors.turns[from],
        is_recompaction: start.is_some(),
        duration: if is_compaction {
            boundary_duration(recorded)
        } else {
            None
        },
        window,
        threshold: is_compaction.then_some(limits.threshold),
        effective: limits.effective,
        cleared: recorded.is_micro.then_some(recorded.cleared.len() as u64),
        saved: recorded.tokens_saved,
        has_leaf: recorded.has_leaf,
    }
}

fn boundary_duration(recorded: &RecordedBoundary) -> Option<(u64, DurationSource)> {
    if let Some(duration) = recorded.duration_ms {
        return Some((duration, DurationSource::Recorded));
    }
    if recorded.started == NO_TIME || recorded.time == NO_TIME {
        return None;
    }
    // If the clock ran backwards, the duration is unknown.
    let elapsed = u64::try_from(recorded.time.checked_sub(recorded.started)?).ok()?;
    Some((elapsed, DurationSource::Clock))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::sample::{script_log, with_chain};
    use crate::windows::WindowGrounds;

    fn audit_script(script: &str) -> Vec<AuditBoundary> {
        with_chain(script_log("2.1.7", script), "", |chain, _, _| boundaries(chain))
    }

    #[test]
    fn sizes_come_from_the_calls_around() {
        let found = audit_script("u a:20000:10 u a:154900:300 u auto:155203 s a:50000:100 u a:51000:100");
        let [boundary] = &found[..] else { panic!("{found:?}") };
        assert_eq!(boundary.pre_tokens, Some(155_203));
        assert_eq!((boundary.before, boundary.after), (Some(155_200), Some(50_000)));
        assert_eq!(boundary.freed(), Some(105_200));
        assert_eq!(boundary.threshold, Some(155_000));
        assert_eq!(boundary.tokens_over_threshold(), Some(203));
        assert_eq!(
            (boundary.window.tokens, boundary.window.grounds),
            (Some(200_000), WindowGrounds::Boundary)
        );
        assert_eq!((boundary.calls_since, boundary.turns_since), (2, 2));
        assert_eq!(boundary.duration, Some((10_000, DurationSource::Clock)));
        assert_eq!(boundary.kind, BoundaryKind::Full);
        assert!(boundary.summary.is_some() && boundary.has_leaf && !boundary.is_recompaction);
        let rebuilt = boundary.rebuilt.unwrap();
        assert!((30_000..30_100).contains(&rebuilt), "{rebuilt}");
        assert_eq!(boundary.remarks(), []);
    }

    #[test]
    fn a_window_that_grew_is_remarked_on() {
        let found = audit_script("u a:30000:10 u auto:155100:took s a:40000:1 u auto:140000 s a:41000:1");
        let [first, second] = &found[..] else {
            panic!("{found:?}")
        };
        assert_eq!(first.freed(), Some(-9_990));
        assert_eq!(first.duration, Some((7_000, DurationSource::Recorded)));
        assert_eq!(first.remarks(), [BoundaryRemark::Grew]);
        assert_eq!(
            second.remarks(),
            [BoundaryRemark::Grew, BoundaryRemark::Lower, BoundaryRemark::Again]
        );
        assert!(second.is_recompaction);
    }

    #[test]
    fn a_manual_one_begins_with_its_command() {
        let manual = |script: &str| audit_script(script).remove(0).duration;
        let typed = manual("u a:100000:10 manual:100010 s command u a:50000:10");
        assert_eq!(typed, Some((5_000, DurationSource::Clock)));
        let untold = manual("u a:100000:10 manual:100010 s u a:50000:10");
        assert_eq!(untold, None, "a person may have been away");
    }

    #[test]
    fn what_another_boundary_did_is_not_ascribed_to_it() {
        let mixed = audit_script("u a:140000:10 u micro:60000:21000 auto:155100 s a:50000:1");
        let [micro, auto] = &mixed[..] else { panic!("{mixed:?}") };
        assert_eq!((micro.before, micro.after), (Some(140_010), None));
        assert_eq!(
            (micro.kind, micro.cleared, micro.saved),
            (BoundaryKind::Micro, Some(2), Some(21_000))
        );
        assert_eq!((micro.duration, micro.threshold, micro.rebuilt), (None, None, None));
        assert_eq!(auto.freed(), Some(90_010));
        let twice = audit_script("u a:140000:10 u auto:155100 s u auto:155200 s a:50000:1");
        let [first, second] = &twice[..] else {
            panic!("{twice:?}")
        };
        assert_eq!((first.before, first.after), (Some(140_010), None));
        assert_eq!((second.before, second.after), (None, Some(50_000)));
    }

    #[test]
    fn a_log_from_the_middle_of_a_session_has_no_base() {
        let found = audit_script("u a:154900:300 u auto:155203 s a:50000:100");
        assert_eq!(found[0].rebuilt, None);
    }

    #[test]
    fn what_is_last_in_a_log_has_no_size_after() {
        let found = audit_script("u a:154900:300 u auto:155203:kept s");
        assert_eq!(
            (found[0].after, found[0].freed(), found[0].has_grown()),
            (None, None, None)
        );
        assert_eq!(found[0].kind, BoundaryKind::Partial);
    }

    #[test]
    fn copies_are_left_out() {
        let mut log = script_log("2.1.7", "u a:154900:300 u auto:155203 s a:50000:100 u a:51000:10");
        log.copied = (0..8).map(|record| record < 6).collect();
        let (boundaries, contexts) = with_chain(log, "", |chain, _, _| (boundaries(chain), chain.contexts()));
        assert_eq!(boundaries, []);
        let calls = contexts.iter().map(|(call, _)| *call).collect::<Vec<_>>();
        assert_eq!(calls, [2]);
    }
}
