//! Scores: the outcome of one policy in one session, small enough to keep thousands of them.

use crate::audit::costs::CostComparison;
use crate::audit::validate::validate;
use crate::policy::Policy;
use crate::policy::presets::{ClientVersion, PolicySet};
use crate::prices::{PicoUsd, Price, PriceTable, Tariff, tariffs};
use crate::sim::event::{Event, EventSink};
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::trace::Trace;
use crate::sim::use_counts::UseCounts;
use crate::sim::uses::FileUses;
use crate::sim::working_set::FetchKind;
use crate::sim::{ReplayInput, ReplayMode, replay};
use crate::windows::{InferredWindow, ProjectWindows, WindowEvidence, WindowQuery};
use serde::{Deserialize, Serialize};
use transcript::agents::Agent;
use transcript::record::Tokens;

/// A session, ready to be replayed under many policies.
pub struct PreparedSession<'p> {
    pub id: String,
    /// Its working directory.
    pub project: String,
    pub chains: Vec<PreparedChain<'p>>,
}

/// A chain with everything that is the same under every policy.
pub struct PreparedChain<'p> {
    pub trace: Trace,
    pub uses: FileUses,
    evidence: WindowEvidence,
    /// What other chains and sessions show about windows.
    siblings: ProjectWindows,
    /// By model.
    prices: Vec<Option<&'p Price>>,
    /// Number of calls that are not copied.
    own_calls: u64,
}

impl<'p> PreparedChain<'p> {
    /// Prepares a chain. Drops its mentions of files, because they are not part of a score.
    pub fn new(
        trace: Trace,
        mut uses: FileUses,
        prices: &'p PriceTable,
        siblings: ProjectWindows,
    ) -> PreparedChain<'p> {
        uses.references = Vec::new();
        PreparedChain {
            evidence: WindowEvidence::gather(&trace),
            siblings,
            prices: trace.models.iter().map(|model| prices.find(model)).collect(),
            own_calls: trace.calls.iter().filter(|call| !call.is_copied).count() as u64,
            trace,
            uses,
        }
    }

    /// Infers the window of every call under the policies.
    fn windows(&self, policies: &[&Policy]) -> Vec<InferredWindow> {
        let query = WindowQuery {
            policies,
            prices: &self.prices,
            siblings: &self.siblings,
        };
        self.evidence.infer(&self.trace, &query)
    }

    /// Returns the policies by version of the trace.
    fn by_version<'q>(&self, policies: &'q PolicySet) -> Vec<&'q Policy> {
        let versions = self.trace.versions.iter();
        versions
            .map(|version| policies.for_client(self.trace.client, Some(*version)))
            .collect()
    }
}

impl PreparedSession<'_> {
    /// Returns the coding agent that wrote its logs.
    pub fn coding_agent(&self) -> Agent {
        self.chains.first().map_or(Agent::Claude, |chain| chain.trace.client)
    }

    /// Returns the window of the main chain's last call, the threshold in force there, and the largest context of the chain. The window is that of the policies.
    pub fn window_facts(&self, policies: &PolicySet) -> WindowFacts {
        let mut facts = WindowFacts {
            window: InferredWindow::UNKNOWN,
            threshold: 0,
            peak: 0,
        };
        for chain in self.chains.iter().filter(|chain| !chain.trace.is_sidechain) {
            let by_version = chain.by_version(policies);
            let windows = chain.windows(&by_version);
            for (call, window) in std::iter::zip(&chain.trace.calls, windows) {
                let sent = call.usage.map_or(0, |usage| usage.input_side());
                facts.peak = facts.peak.max(sent + u64::from(call.output.tokens));
                facts.window = window;
                if let Some(tokens) = window.tokens {
                    let policy = by_version[usize::from(call.version)];
                    let known = ModelLimits::of(chain.prices[usize::from(call.model)]);
                    let limits = WindowLimits::new(policy, chain.trace.model(call), tokens, known);
                    facts.threshold = limits.threshold;
                }
            }
        }
        facts
    }

    /// Compares the recorded cost of the session with its cost in the simulated prompt cache.
    pub fn compare_costs(&self, policies: &PolicySet) -> CostComparison {
        let mut costs = CostComparison::default();
        for chain in &self.chains {
            let by_version = chain.by_version(policies);
            let windows = chain.windows(&by_version);
            costs.merge(&validate(&chain.trace, &by_version, &chain.prices, &windows).costs);
        }
        costs
    }

    /// Returns the cost of the session's own calls by recorded usage.
    pub fn recorded_cost(&self) -> PicoUsd {
        let chain_cost = |chain: &PreparedChain<'_>| {
            let tariffs: Vec<_> = tariffs(&chain.prices);
            let own = chain.trace.calls.iter().filter(|call| !call.is_copied);
            let inner = (chain.trace.inner_calls.iter())
                .filter(|inner| !chain.trace.calls[inner.call as usize].is_copied)
                .map(|inner| (inner.tokens, inner.model));
            own.filter_map(|call| Some((call.usage?, call.model)))
                .chain(inner)
                .filter_map(|(usage, model)| {
                    Some(tariffs[usize::from(model)].as_ref()?.cost(&usage, usage.input_side()))
                })
                .sum::<PicoUsd>()
        };
        self.chains.iter().map(chain_cost).sum()
    }

    /// Returns the newest client version of the session.
    pub fn newest_version(&self) -> Option<ClientVersion> {
        self.chains
            .iter()
            .flat_map(|chain| chain.trace.versions.iter().copied())
            .max()
    }

    /// Returns the recorded durations of the main chain's compactions in milliseconds. Hours are a machine that slept.
    pub fn compaction_durations(&self) -> Vec<u64> {
        let chains = self.chains.iter().filter(|chain| !chain.trace.is_sidechain);
        chains
            .flat_map(|chain| &chain.trace.recorded)
            .filter(|boundary| !boundary.is_micro && !boundary.is_copied)
            .filter_map(|boundary| boundary.duration_ms)
            .filter(|duration| *duration <= LONGEST_COMPACTION_MS)
            .collect()
    }

    /// Replays the session under policies that differ only in how they compact
    /// ([`super::space::SweepPoint::is_equivalent_without_compaction`]): if one of them never tries a compaction, all others
    /// get the same score without a replay.
    pub fn replay_equivalent<'q>(
        &self,
        points: impl IntoIterator<Item = &'q PolicySet>,
        summary: Option<u64>,
    ) -> Vec<PolicyScore> {
        let mut common_score = None;
        let score = |policies: &PolicySet| {
            common_score.unwrap_or_else(|| {
                let (score, has_tried) = self.replay_tracking_compaction(policies, summary);
                common_score = Some(score).filter(|_| !has_tried);
                score
            })
        };
        points.into_iter().map(score).collect()
    }

    /// Replays the session and returns its score. Events are the same as in `backcast replay`; only less is kept of them.
    pub fn replay(&self, policies: &PolicySet, summary: Option<u64>) -> PolicyScore {
        self.replay_tracking_compaction(policies, summary).0
    }

    /// Replays the session and returns its score, and whether any compaction was tried.
    fn replay_tracking_compaction(&self, policies: &PolicySet, summary: Option<u64>) -> (PolicyScore, bool) {
        let mut score = PolicyScore::default();
        let mut has_tried = false;
        for (number, chain) in self.chains.iter().enumerate() {
            let trace = &chain.trace;
            let by_version = chain.by_version(policies);
            let windows = chain.windows(&by_version);
            let input = ReplayInput {
                policies: &by_version,
                prices: &chain.prices,
                windows: &windows,
                summary,
                mode: ReplayMode::Free,
                uses: Some(&chain.uses),
                texts: None,
                key: chain_key(&self.id, number),
            };
            let mut scorer = Scorer {
                trace,
                tariffs: tariffs(&chain.prices),
                sent: 0,
                score: &mut score,
                calls_made: 0,
                uses: UseCounts::default(),
                tried_compaction: false,
            };
            replay(trace, &input, &mut scorer);
            has_tried |= scorer.tried_compaction;
            scorer.finish(chain.own_calls);
        }
        (score, has_tried)
    }
}

/// What the windows of a session's main chain are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowFacts {
    /// The window of the last call.
    pub window: InferredWindow,
    /// The threshold in force there; 0 if no window is known.
    pub threshold: u64,
    /// The largest context: prompt and response of one call.
    pub peak: u64,
}

/// A compaction that is recorded to have taken longer was interrupted by a pause.
const LONGEST_COMPACTION_MS: u64 = 30 * 60 * 1_000;

/// Output tokens of a response that only reads a file (assumed).
const READ_CALL_OUTPUT: u64 = 150;

/// Sums up the events of one chain.
struct Scorer<'a> {
    trace: &'a Trace,
    /// By model.
    tariffs: Vec<Option<Tariff>>,
    /// Input of the last call.
    sent: u64,
    score: &'a mut PolicyScore,
    calls_made: u64,
    uses: UseCounts,
    /// Whether any compaction was attempted, on own or copied calls.
    tried_compaction: bool,
}

impl Scorer<'_> {
    /// Books what reading a dropped file again costs: one more call over the cached window, and the text itself.
    fn add_refetch(&mut self, at: u32, tokens: u64) {
        let model = self.trace.calls.get(at as usize).map(|call| usize::from(call.model));
        if let Some(tariff) = model.and_then(|model| self.tariffs[model].as_ref()) {
            let spent = Tokens {
                cache_read: self.sent,
                cache_write: tokens,
                output: READ_CALL_OUTPUT,
                ..Tokens::default()
            };
            self.score.refetches += 1;
            self.score.refetch_cost += tariff.cost(&spent, self.sent);
        }
    }

    fn finish(self, own_calls: u64) {
        let score = self.score;
        score.calls += self.calls_made;
        score.blocked += own_calls - self.calls_made;
        score.add_uses(&self.uses);
    }
}

impl EventSink for Scorer<'_> {
    fn on_event(&mut self, at: u32, event: &Event<'_>) {
        self.tried_compaction |= matches!(event, Event::Boundary(_) | Event::Failed { .. });
        // A copied call counts in the session that made it.
        if self.trace.calls.get(at as usize).is_some_and(|call| call.is_copied) {
            return;
        }
        match event {
            Event::Called(called) => {
                self.sent = called.tokens.input_side();
                self.calls_made += 1;
                self.score.cost += called.cost.unwrap_or(0);
                if !self.trace.is_sidechain {
                    self.score.window_sum += u128::from(called.tokens.input_side());
                    self.score.window_calls += 1;
                }
            }
            Event::Boundary(_) => self.score.compactions += 1,
            Event::Failed { .. } => self.score.failures += 1,
            Event::Fetched {
                kind: FetchKind::Refetch,
                tokens,
            } => self.add_refetch(at, *tokens),
            Event::Inner { cost, .. } => self.score.cost += cost.unwrap_or(0),
            Event::Side { cost, .. } => {
                self.score.model_calls += 1;
                self.score.cost += cost.unwrap_or(0);
            }
            Event::Used { one, outcome, .. } => self.uses.add(one, *outcome),
            _ => {}
        }
    }
}

/// Returns the [`ReplayInput::key`] of a chain.
pub fn chain_key(session: &str, number: usize) -> u64 {
    xxhash_rust::xxh3::xxh3_64(session.as_bytes()) ^ number as u64
}

/// The score of a policy over one or more sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyScore {
    /// Cost of all model calls.
    pub cost: PicoUsd,
    /// Calls of the conversation.
    pub calls: u64,
    pub compactions: u64,
    /// Model calls outside the conversation.
    pub model_calls: u64,
    /// Uses of known files.
    pub uses: u64,
    /// Misses, with uses of restored files counted as misses.
    pub misses: u64,
    /// Misses, with uses of restored files counted as hits.
    pub misses_credited: u64,
    /// Uses far away from what they need.
    pub at_risk: u64,
    /// Misses among those, with uses of restored files counted as misses.
    pub at_risk_misses: u64,
    /// Sum of the windows of the main chain.
    pub window_sum: u128,
    /// Calls of the main chain.
    pub window_calls: u64,
    /// Calls that could not be made, because the session was blocked.
    pub blocked: u64,
    /// Compactions that failed.
    pub failures: u64,
    /// Recorded reads of files that were dropped before.
    pub refetches: u64,
    /// Cost of those reads.
    pub refetch_cost: PicoUsd,
}

impl PolicyScore {
    fn add_uses(&mut self, counts: &UseCounts) {
        self.uses += counts.uses();
        self.misses += counts.misses();
        self.misses_credited += counts.misses_credited();
        self.at_risk += counts.at_risk_uses();
        self.at_risk_misses += counts.at_risk_misses();
    }

    /// Adds another score.
    pub fn merge(&mut self, other: &PolicyScore) {
        self.cost += other.cost;
        self.calls += other.calls;
        self.compactions += other.compactions;
        self.model_calls += other.model_calls;
        self.uses += other.uses;
        self.misses += other.misses;
        self.misses_credited += other.misses_credited;
        self.at_risk += other.at_risk;
        self.at_risk_misses += other.at_risk_misses;
        self.window_sum += other.window_sum;
        self.window_calls += other.window_calls;
        self.blocked += other.blocked;
        self.failures += other.failures;
        self.refetches += other.refetches;
        self.refetch_cost += other.refetch_cost;
    }

    /// Returns the sum of scores.
    pub fn sum<'a>(scores: impl IntoIterator<Item = &'a PolicyScore>) -> PolicyScore {
        let mut sum = PolicyScore::default();
        for score in scores {
            sum.merge(score);
        }
        sum
    }

    /// Returns the cost in dollars.
    pub fn dollars(&self) -> f64 {
        self.cost as f64 / 1e12
    }

    /// Returns the mean of credited and uncredited misses.
    pub fn midpoint_misses(&self) -> f64 {
        (self.misses + self.misses_credited) as f64 / 2.0
    }

    /// Returns the uncredited misses per 100 calls.
    pub fn misses_per_100(&self) -> f64 {
        per(100.0 * self.misses as f64, self.calls)
    }

    /// Returns the share of uses at risk that hit; `None` without such uses.
    pub fn at_risk_hits(&self) -> Option<f64> {
        (self.at_risk > 0).then(|| 1.0 - self.at_risk_misses as f64 / self.at_risk as f64)
    }

    /// Returns the mean window in whole tokens, rounded down like in `backcast replay`; `None` without calls.
    pub fn whole_mean_window(&self) -> Option<u64> {
        self.window_sum
            .checked_div(u128::from(self.window_calls))
            .map(|mean| mean as u64)
    }

    /// Returns the mean window; 0 without calls.
    pub fn mean_window(&self) -> f64 {
        per(self.window_sum as f64, self.window_calls)
    }

    /// Returns the cost in dollars plus `miss_cost` for every miss and every call that could not be made.
    pub fn objective(&self, miss_cost: f64) -> f64 {
        self.dollars() + miss_cost * (self.midpoint_misses() + self.blocked as f64)
    }
}

fn per(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
