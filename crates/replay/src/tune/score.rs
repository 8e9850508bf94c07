//! Scores: the outcome of one policy in one session, small enough to keep thousands of them.

use crate::policy::Policy;
use crate::policy::presets::{PolicySet, client_policy};
use crate::prices::{PicoUsd, Price, PriceTable};
use crate::sim::event::{Event, EventSink};
use crate::sim::inference::WindowEvidence;
use crate::sim::trace::Trace;
use crate::sim::use_counts::UseCounts;
use crate::sim::uses::FileUses;
use crate::sim::{ReplayInput, ReplayMode, replay};
use serde::{Deserialize, Serialize};

/// A session, ready to be replayed under many policies.
pub struct PreparedSession<'p> {
    pub id: String,
    pub chains: Vec<PreparedChain<'p>>,
}

/// A chain with everything that is the same under every policy.
pub struct PreparedChain<'p> {
    pub trace: Trace,
    pub uses: FileUses,
    evidence: WindowEvidence,
    /// Policies of the recorded clients, by version.
    clients: Vec<&'static Policy>,
    /// By model.
    prices: Vec<Option<&'p Price>>,
    /// Number of calls that are not copied.
    own_calls: u64,
}

impl<'p> PreparedChain<'p> {
    /// Prepares a chain. Drops its mentions of files, because they are not part of a score.
    pub fn new(trace: Trace, mut uses: FileUses, prices: &'p PriceTable) -> PreparedChain<'p> {
        uses.references = Vec::new();
        PreparedChain {
            evidence: WindowEvidence::gather(&trace),
            clients: trace.versions.iter().map(|version| client_policy(*version)).collect(),
            prices: trace.models.iter().map(|model| prices.find(model)).collect(),
            own_calls: trace.calls.iter().filter(|call| !call.is_copied).count() as u64,
            trace,
            uses,
        }
    }
}

impl PreparedSession<'_> {
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
            let by_version = trace
                .versions
                .iter()
                .map(|version| policies.for_version(Some(*version)));
            let by_version = by_version.collect::<Vec<_>>();
            let windows = chain
                .evidence
                .windows(trace, &by_version, &chain.clients, &chain.prices);
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

/// Sums up the events of one chain.
struct Scorer<'a> {
    trace: &'a Trace,
    score: &'a mut PolicyScore,
    calls_made: u64,
    uses: UseCounts,
    /// Whether any compaction was attempted, on own or copied calls.
    tried_compaction: bool,
}

impl Scorer<'_> {
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
                self.calls_made += 1;
                self.score.cost += called.cost.unwrap_or(0);
                if !self.trace.is_sidechain {
                    self.score.window_sum += u128::from(called.tokens.input_side());
                    self.score.window_calls += 1;
                }
            }
            Event::Boundary(_) => self.score.compactions += 1,
            Event::Side { cost, .. } => {
                self.score.model_calls += 1;
                self.score.cost += cost.unwrap_or(0);
            }
            Event::Used { one, outcome } => self.uses.add(one, *outcome),
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
