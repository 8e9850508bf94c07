//! Which compaction threshold applied, as far as the record shows it, and whether a user's setting took effect.
//!
//! An automatic compaction starts at or above the threshold; a call sent without one was below it. So the threshold lies
//! above the highest context that did not compact, and is at most the lowest that did. Evidence is grouped by what a
//! threshold depends on: client version, model, window.

use crate::audit::boundaries::{AuditBoundary, AuditInput};
use crate::audit::validate::TOLERANCE;
use crate::policy::Policy;
use crate::policy::presets::{ClientVersion, PolicySet};
use crate::policy::value::model_family;
use crate::quantile::median;
use crate::windows::{WINDOW_SIZES, call_of_boundary};
use std::collections::BTreeMap;
use transcript::agents::Agent;

/// A context counts as past a threshold if it exceeds it by this much. The client's count is reproduced with some
/// estimated outputs, so smaller differences prove nothing.
const MARGIN: u64 = 1_000;

/// What a threshold depends on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThresholdGroup {
    /// The coding agent.
    pub client: Agent,
    /// First version of the client with these levels.
    pub from: ClientVersion,
    /// Model family; see [`model_family`].
    pub family: String,
    /// Context window; `None` if the log does not show it.
    pub window: Option<u64>,
}

/// What the record shows about a threshold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThresholdEvidence {
    /// First and last version seen.
    pub versions: (ClientVersion, ClientVersion),
    /// The threshold of the policy; the lowest one if models of a family differ.
    pub expected: u64,
    /// The window minus the reserve.
    pub effective: u64,
    pub chains: u64,
    /// Number of checks that did not compact.
    pub checks: u64,
    /// The highest context at those checks.
    pub highest_unfired: Option<u64>,
    /// Number of chains with such a context past the threshold.
    pub chains_over_threshold: u64,
    /// Recorded tokens before automatic compactions.
    pub fired_tokens: Vec<u64>,
}

named_enum! {
    /// The observed threshold compared with the policy's.
    pub enum ThresholdVerdict {
        /// Compactions happened at the expected threshold, and no context passed it.
        AsExpected = "as expected",
        /// Compactions happened below it: an override or a smaller window applied.
        Lower = "lower",
        /// Contexts passed it: a larger window applied, or automatic compaction was off.
        Higher = "higher",
        /// No context reached it.
        NoEvidence = "no evidence",
    }
}

impl ThresholdEvidence {
    /// Adds the evidence of another chain of the same group.
    pub fn merge(&mut self, other: ThresholdEvidence) {
        self.versions = (
            self.versions.0.min(other.versions.0),
            self.versions.1.max(other.versions.1),
        );
        self.expected = self.expected.min(other.expected);
        self.effective = self.effective.min(other.effective);
        self.chains += other.chains;
        self.checks += other.checks;
        self.highest_unfired = self.highest_unfired.max(other.highest_unfired);
        self.chains_over_threshold += other.chains_over_threshold;
        self.fired_tokens.extend(other.fired_tokens);
    }

    /// Returns the lowest recorded context that compacted: the threshold is at most this. `None` without compactions.
    pub fn lowest(&self) -> Option<u64> {
        self.fired_tokens.iter().min().copied()
    }

    /// Returns the median recorded context that compacted; `None` without compactions.
    pub fn median(&self) -> Option<u64> {
        median(self.fired_tokens.clone())
    }

    /// Returns the highest recorded context that compacted; `None` without compactions.
    pub fn highest(&self) -> Option<u64> {
        self.fired_tokens.iter().max().copied()
    }

    /// Counts the compactions below the expected threshold.
    pub fn count_lower(&self) -> u64 {
        let lower = self
            .fired_tokens
            .iter()
            .filter(|tokens| **tokens + TOLERANCE < self.expected);
        lower.count() as u64
    }

    /// Returns the verdict.
    pub fn verdict(&self) -> ThresholdVerdict {
        match (self.count_lower(), self.chains_over_threshold, self.fired_tokens.len()) {
            (1.., _, _) => ThresholdVerdict::Lower,
            (0, 1.., _) => ThresholdVerdict::Higher,
            (0, 0, 1..) => ThresholdVerdict::AsExpected,
            (0, 0, 0) => ThresholdVerdict::NoEvidence,
        }
    }

    /// Returns an estimate of the threshold if it was lower than expected, else `None`.
    pub fn estimated_threshold(&self) -> Option<u64> {
        self.lowest().filter(|_| self.verdict() == ThresholdVerdict::Lower)
    }

    /// Returns that estimate as a share of the effective window, which is what a percentage override sets.
    pub fn estimated_share(&self) -> Option<f64> {
        let about = self.estimated_threshold().filter(|_| self.effective > 0)?;
        Some(about as f64 / self.effective as f64)
    }
}

/// Returns the values of a policy that decide about its levels.
fn levels(policy: &Policy) -> impl PartialEq + '_ {
    (
        (policy.reserve, policy.reserve_rule, policy.output_limit, policy.buffer),
        (policy.window_override, &policy.override_models),
        (policy.threshold, policy.percent.map(f64::to_bits)),
    )
}

/// Returns the first version of the run of presets around `version` that have the same levels as its preset.
fn first_version_with_levels(policies: &PolicySet, version: ClientVersion) -> ClientVersion {
    let in_force = levels(policies.for_version(Some(version)));
    let older = policies.ranges().iter().rev().skip_while(|(from, _)| *from > version);
    let alike = older.take_while(|(_, policy)| levels(policy) == in_force);
    alike.map(|(from, _)| *from).last().unwrap_or_default()
}

/// Collects the evidence of one chain from its boundaries and contexts.
pub fn gather_evidence(
    chain: &AuditInput<'_>,
    policies: &PolicySet,
    boundaries: &[AuditBoundary],
    contexts: &[(usize, u64)],
) -> BTreeMap<ThresholdGroup, ThresholdEvidence> {
    let trace = chain.trace;
    let mut groups = BTreeMap::<ThresholdGroup, ThresholdEvidence>::new();
    let group = |version: ClientVersion, model: &str, window: Option<u64>| ThresholdGroup {
        client: trace.client,
        from: match trace.client {
            Agent::Claude => first_version_with_levels(policies, version),
            // Presets of other agents know no versions.
            _ => ClientVersion::default(),
        },
        family: model_family(model).to_owned(),
        window,
    };
    for &(at, context) in contexts {
        let call = &trace.calls[at];
        let version = trace.versions[usize::from(call.version)];
        let limits = chain.limits(chain.policies, at);
        let found = groups
            .entry(group(version, trace.model(call), chain.window(at)))
            .or_insert_with(|| ThresholdEvidence::new(version, limits.threshold, limits.effective));
        found.add_version(version);
        found.checks += 1;
        found.highest_unfired = found.highest_unfired.max(Some(context));
        if context >= limits.threshold + MARGIN {
            found.chains_over_threshold = 1;
        }
    }
    for boundary in boundaries.iter().filter(|boundary| boundary.is_automatic()) {
        let (Some(tokens), Some(threshold)) = (boundary.pre_tokens, boundary.threshold) else {
            continue;
        };
        let found = groups
            .entry(group(
                boundary.version,
                &boundary.model,
                chain.window(call_of_boundary(trace, boundary.call)),
            ))
            .or_insert_with(|| ThresholdEvidence::new(boundary.version, threshold, boundary.effective));
        found.add_version(boundary.version);
        found.fired_tokens.push(tokens);
    }
    groups
}

impl ThresholdEvidence {
    fn new(version: ClientVersion, expected: u64, effective: u64) -> ThresholdEvidence {
        ThresholdEvidence {
            versions: (version, version),
            expected,
            effective,
            chains: 1,
            ..ThresholdEvidence::default()
        }
    }

    fn add_version(&mut self, version: ClientVersion) {
        self.versions = (self.versions.0.min(version), self.versions.1.max(version));
    }
}

named_enum! {
    /// Whether a setting took effect in a session.
    pub enum SettingEffect {
        /// The setting took effect.
        Took = "took effect",
        /// The setting did not take effect.
        DidNot = "did not take effect",
        /// It took effect in a part of the session.
        InPart = "took effect in part",
        /// Compactions happened even below the setting's threshold.
        LowerStill = "compacted lower still",
        /// The setting does not change the threshold: an override can only lower it.
        NoDifference = "makes no difference",
        /// The context never reached the setting's threshold.
        NotReached = "not reached",
        /// The context may have passed it, but the window, and so the threshold, is not known.
        WindowUnknown = "window unknown",
        /// The context passed both thresholds in one step.
        Undecided = "undecided",
    }
}

/// A setting compared with one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingCheck {
    pub effect: SettingEffect,
    /// Threshold with the setting, at the last call; `None` if the setting turns automatic compaction off.
    pub threshold: Option<u64>,
    /// Threshold without the setting.
    pub usual: u64,
    /// Context window; `None` if the log does not show it.
    pub window: Option<u64>,
    /// Highest context that did not compact.
    pub highest_unfired: Option<u64>,
    /// Lowest recorded tokens before an automatic compaction.
    pub lowest_fired: Option<u64>,
}

/// Checks whether a setting took effect in a chain. `policies` contain the setting, the chain's own policies do not.
/// Returns `None` if all calls of the chain are copied.
pub fn check_setting(
    chain: &AuditInput<'_>,
    policies: &[&Policy],
    boundaries: &[AuditBoundary],
    contexts: &[(usize, u64)],
) -> Option<SettingCheck> {
    let (last, call) = chain
        .trace
        .calls
        .iter()
        .enumerate()
        .rev()
        .find(|(_, call)| !call.is_copied)?;
    let policy = policies[usize::from(call.version)];
    let is_off = !policy.auto || !policy.compaction;
    let automatic = || boundaries.iter().filter(|boundary| boundary.is_automatic());
    let fired = || automatic().filter_map(|boundary| boundary.pre_tokens);
    let usual = |at: usize| chain.limits(chain.policies, at).threshold;
    let effect = if is_off {
        match (automatic().next(), find_crossing(chain, chain.policies, contexts)) {
            (Some(_), _) => SettingEffect::DidNot,
            (None, ThresholdCrossing::Surely) => SettingEffect::Took,
            (None, ThresholdCrossing::Perhaps) => SettingEffect::WindowUnknown,
            (None, ThresholdCrossing::Not) => SettingEffect::NotReached,
        }
    } else {
        judge_effect(chain, policies, boundaries, contexts)
    };
    Some(SettingCheck {
        effect,
        threshold: (!is_off).then(|| chain.limits(policies, last).threshold),
        usual: usual(last),
        window: chain.window(last),
        highest_unfired: contexts.iter().map(|(_, context)| *context).max(),
        lowest_fired: fired().min(),
    })
}

/// Whether a context passed the threshold of a policy.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ThresholdCrossing {
    Not,
    /// Only if the window, which is not known, was the smallest.
    Perhaps,
    Surely,
}

fn find_crossing(chain: &AuditInput<'_>, policies: &[&Policy], contexts: &[(usize, u64)]) -> ThresholdCrossing {
    let is_past = |level: &dyn Fn(usize) -> u64| contexts.iter().any(|&(at, context)| context >= level(at) + MARGIN);
    let largest = |at: usize| {
        let window = chain.window(at).unwrap_or(WINDOW_SIZES[WINDOW_SIZES.len() - 1]);
        chain.limits_of(policies, at, window).threshold
    };
    if is_past(&largest) {
        ThresholdCrossing::Surely
    } else if is_past(&|at| chain.limits(policies, at).threshold) {
        ThresholdCrossing::Perhaps
    } else {
        ThresholdCrossing::Not
    }
}

/// Judges whether a lower threshold took effect.
fn judge_effect(
    chain: &AuditInput<'_>,
    policies: &[&Policy],
    boundaries: &[AuditBoundary],
    contexts: &[(usize, u64)],
) -> SettingEffect {
    let lowest = |at: usize| chain.limits(policies, at).threshold;
    let usual = |at: usize| chain.limits(chain.policies, at).threshold;
    let calls = chain.trace.calls.len();
    if (0..calls).all(|at| lowest(at) >= usual(at)) {
        return SettingEffect::NoDifference;
    }
    let (mut took, mut lower_still, mut jumped) = (false, false, false);
    for boundary in boundaries.iter().filter(|boundary| boundary.is_automatic()) {
        let Some(tokens) = boundary.pre_tokens else { continue };
        let at = (boundary.call as usize).min(calls - 1);
        if tokens + TOLERANCE < lowest(at) {
            lower_still = true;
        } else if tokens + TOLERANCE < usual(at) {
            took = true;
        } else {
            jumped = true;
        }
    }
    match (took, find_crossing(chain, policies, contexts)) {
        (true, ThresholdCrossing::Surely) => SettingEffect::InPart,
        (true, _) => SettingEffect::Took,
        (false, ThresholdCrossing::Surely) => SettingEffect::DidNot,
        (false, _) if lower_still => SettingEffect::LowerStill,
        (false, ThresholdCrossing::Perhaps) => SettingEffect::WindowUnknown,
        (false, ThresholdCrossing::Not) if jumped => SettingEffect::Undecided,
        (false, ThresholdCrossing::Not) => SettingEffect::NotReached,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::boundaries::boundaries;
    use crate::audit::sample::{script_log, with_chain};

    /// Returns the evidence of a log that has a single group.
    fn only_group(version: &str, script: &str) -> (ThresholdGroup, ThresholdEvidence) {
        with_chain(script_log(version, script), "", |chain, policies, _| {
            let groups = gather_evidence(chain, policies, &boundaries(chain), &chain.contexts());
            assert_eq!(groups.len(), 1, "{groups:?}");
            groups.into_iter().next().unwrap()
        })
    }

    #[test]
    fn the_threshold_lies_between_what_compacted_and_what_did_not() {
        let (group, seen) = only_group(
            "2.1.7",
            "u a:154000:500 u a:154900:300 u auto:155203 s a:50000:100 u a:155900:200 u auto:156102 s a:51000:1",
        );
        assert_eq!(group.from, ClientVersion([2, 0, 65]));
        assert_eq!((group.family.as_str(), group.window), ("opus-4-5", Some(200_000)));
        assert_eq!(seen.verdict(), ThresholdVerdict::AsExpected);
        assert_eq!(seen.expected, 155_000);
        let unfired = seen.highest_unfired.unwrap();
        assert!((154_500..154_510).contains(&unfired), "{unfired}");
        assert_eq!(
            (seen.lowest(), seen.median(), seen.highest()),
            (Some(155_203), Some(155_203), Some(156_102))
        );
        assert_eq!(seen.estimated_threshold(), None);
    }

    #[test]
    fn lower_is_an_override() {
        let (_, seen) = only_group("2.1.30", "u a:80000:1 u a:90050:10 u auto:90100 s a:50000:1");
        assert_eq!((seen.verdict(), seen.count_lower()), (ThresholdVerdict::Lower, 1));
        assert_eq!(seen.estimated_threshold(), Some(90_100));
        assert!((seen.estimated_share().unwrap() - 0.5).abs() < 0.01);
    }

    #[test]
    fn passing_it_is_a_larger_window() {
        let (group, seen) = only_group("2.1.200", "u a:150000:10 u a:170000:10 u a:175000:10");
        assert_eq!(
            (seen.verdict(), seen.chains_over_threshold),
            (ThresholdVerdict::Higher, 1)
        );
        assert_eq!(group.window, None);
        assert_eq!(seen.expected, 167_000);
    }

    #[test]
    fn below_it_there_is_no_evidence() {
        let (_, seen) = only_group("2.1.30", "u a:80000:1 u a:90000:1");
        assert_eq!((seen.verdict(), seen.checks), (ThresholdVerdict::NoEvidence, 1));
    }

    #[test]
    fn a_hole_gives_no_evidence_across_it() {
        let (_, seen) = only_group("2.1.30", "u a:80000:1 u a:160000:1 lost a:165000:1 u a:165100:1");
        let unfired = seen.highest_unfired.unwrap();
        assert!((165_000..165_010).contains(&unfired), "{unfired}");
        let (_, whole) = only_group("2.1.30", "u a:80000:1 u a:168500:1 u a:100000:1");
        assert_eq!(whole.chains_over_threshold, 1);
        let (_, holed) = only_group("2.1.30", "u a:80000:1 u a:168500:1 lost a:100000:1");
        assert_eq!(
            holed.chains_over_threshold, 0,
            "what came after it may have been compacted"
        );
    }

    #[test]
    fn families_have_neither_vendor_nor_date() {
        assert_eq!(model_family("claude-opus-4-5-20251101"), "opus-4-5");
        assert_eq!(model_family("claude-sonnet-5"), "sonnet-5");
        assert_eq!(model_family("other-model"), "other-model");
        assert_eq!(model_family(""), "");
    }

    #[test]
    fn levels_join_presets_that_agree() {
        let policies = PolicySet::preset("recorded").unwrap();
        let from =
            |version: &str| first_version_with_levels(&policies, ClientVersion::parse(version).unwrap()).to_string();
        assert_eq!((from("2.0.65"), from("2.1.20")), ("2.0.65".into(), "2.0.65".into()));
        assert_eq!((from("2.1.21"), from("2.1.232")), ("2.1.21".into(), "2.1.21".into()));
        assert_eq!(from("1.0.30"), "0.0.0", "older than every preset");
    }

    #[test]
    fn settings_are_held_against_sessions() {
        let effect = |setting: &str, script: &str| {
            with_chain(script_log("2.1.30", script), setting, |chain, _, with_setting| {
                check_setting(chain, with_setting, &boundaries(chain), &chain.contexts())
                    .unwrap()
                    .effect
            })
        };
        let at_half = "u a:80000:1 u a:90050:10 u auto:90100 s a:50000:1";
        let past_half = "u a:80000:1 u a:100000:10 u a:167000:1 u auto:167010 s a:50000:1";
        let small = "u a:40000:1 u a:50000:1";
        let both = "u a:90050:10 u auto:90100 s a:50000:1 u a:100000:10 u a:110000:1";
        let jump = "u a:40000:1 u a:168000:10 u auto:168100 s a:50000:1";
        for (setting, script, expected) in [
            ("window.percent=50", at_half, SettingEffect::Took),
            ("window.percent=50", past_half, SettingEffect::DidNot),
            ("window.percent=50", small, SettingEffect::NotReached),
            ("window.percent=50", both, SettingEffect::InPart),
            ("window.percent=50", jump, SettingEffect::Undecided),
            ("window.percent=70", at_half, SettingEffect::LowerStill),
            ("window.percent=95", past_half, SettingEffect::NoDifference),
            ("window.override=123000", at_half, SettingEffect::Took),
            ("switch.auto=false", past_half, SettingEffect::DidNot),
            (
                "switch.auto=false",
                "u a:80000:1 u a:170000:1 u a:180000:1",
                SettingEffect::Took,
            ),
            ("switch.compaction=false", small, SettingEffect::NotReached),
        ] {
            assert_eq!(effect(setting, script), expected, "{setting}: {script}");
        }
    }

    #[test]
    fn an_unknown_window_leaves_a_percentage_open() {
        let script = "u a:80000:1 u a:150000:10 u a:151000:1";
        let effect = |setting: &str| {
            with_chain(script_log("2.1.200", script), setting, |chain, _, with_setting| {
                let checked = check_setting(chain, with_setting, &boundaries(chain), &chain.contexts());
                checked.unwrap().effect
            })
        };
        assert_eq!(effect("window.percent=50"), SettingEffect::WindowUnknown);
        assert_eq!(effect("window.override=123000"), SettingEffect::DidNot);
        assert_eq!(effect("switch.auto=false"), SettingEffect::NotReached);
    }
}
