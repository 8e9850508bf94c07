//! What one policy comes to in one session, small enough to keep thousands of them.

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

/// A session that is ready to be replayed.
pub struct PreparedSession<'p> {
    /// Its id.
    pub id: String,
    /// Its chains.
    pub chains: Vec<PreparedChain<'p>>,
}

/// A chain, with everything about it that is the same under every policy.
pub struct PreparedChain<'p> {
    /// The chain.
    pub trace: Trace,
    /// What it used again.
    pub uses: FileUses,
    evidence: WindowEvidence,
    /// Policies of the clients that made it, by version.
    clients: Vec<&'static Policy>,
    prices: Vec<Option<&'p Price>>,
    /// Calls that no other session owns.
    own_calls: u64,
}

impl<'p> PreparedChain<'p> {
    /// Looks up what a chain needs. References are no part of a score.
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
    /// Replays it under points that are alike ([`super::space::Point::is_like`]): once no compaction is tried under one of
    /// them, the others come to the same.
    pub fn replay_equivalent<'q>(
        &self,
        points: impl IntoIterator<Item = &'q PolicySet>,
        summary: Option<u64>,
    ) -> Vec<PolicyScore> {
        let mut quiet = None;
        let score = |policies: &PolicySet| {
            quiet.unwrap_or_else(|| {
                let (score, has_tried) = self.replay_tracking_compaction(policies, summary);
                quiet = Some(score).filter(|_| !has_tried);
                score
            })
        };
        points.into_iter().map(score).collect()
    }

    /// Replays it. The events are the same as of a replay of the policy alone, and so is what they come to: only less of it
    /// is written down.
    pub fn replay(&self, policies: &PolicySet, summary: Option<u64>) -> PolicyScore {
        self.replay_tracking_compaction(policies, summary).0
    }

    /// Replays it, and tells whether a compaction was tried.
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
            let setting = ReplayInput {
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
                set: UseCounts::default(),
                tried_compaction: false,
            };
            replay(trace, &setting, &mut scorer);
            has_tried |= scorer.tried_compaction;
            scorer.finish(chain.own_calls);
        }
        (score, has_tried)
    }
}

/// Adds up the events of one chain.
struct Scorer<'a> {
    trace: &'a Trace,
    score: &'a mut PolicyScore,
    calls_made: u64,
    set: UseCounts,
    /// Whether a compaction was tried, of whoever's session it counts as.
    tried_compaction: bool,
}

impl Scorer<'_> {
    fn finish(self, own_calls: u64) {
        let score = self.score;
        score.calls += self.calls_made;
        score.blocked += own_calls - self.calls_made;
        score.add_uses(&self.set);
    }
}

impl EventSink for Scorer<'_> {
    fn on_event(&mut self, at: u32, event: &Event<'_>) {
        self.tried_compaction |= matches!(event, Event::Boundary(_) | Event::Failed { .. });
        // What another session owns counts there.
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
            Event::Used { one, outcome } => self.set.add(one, *outcome),
            _ => {}
        }
    }
}

/// Names a chain of a session.
pub fn chain_key(session: &str, number: usize) -> u64 {
    xxhash_rust::xxh3::xxh3_64(session.as_bytes()) ^ number as u64
}

/// What a policy comes to, in one session or in many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyScore {
    /// Cost of everything.
    pub cost: PicoUsd,
    /// Calls of the conversation.
    pub calls: u64,
    /// Compactions.
    pub compactions: u64,
    /// Model calls beside the conversation.
    pub model_calls: u64,
    /// Uses of known files.
    pub uses: u64,
    /// Misses, files that came back not credited.
    pub misses: u64,
    /// Misses, these credited.
    pub misses_credited: u64,
    /// Uses far away from what they need.
    pub at_risk: u64,
    /// Of these the misses, not credited.
    pub at_risk_misses: u64,
    /// Sum of windows of the main chain.
    pub window_sum: u128,
    /// Calls of the main chain.
    pub window_calls: u64,
    /// Calls that could not have been made.
    pub blocked: u64,
}

impl PolicyScore {
    fn add_uses(&mut self, set: &UseCounts) {
        self.uses += set.uses();
        self.misses += set.misses();
        self.misses_credited += set.misses_credited();
        self.at_risk += set.at_risk_uses();
        self.at_risk_misses += set.at_risk_misses();
    }

    /// Adds another.
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

    /// The sum of many.
    pub fn sum<'a>(scores: impl IntoIterator<Item = &'a PolicyScore>) -> PolicyScore {
        let mut sum = PolicyScore::default();
        for score in scores {
            sum.merge(score);
        }
        sum
    }

    /// Cost in dollars.
    pub fn dollars(&self) -> f64 {
        self.cost as f64 / 1e12
    }

    /// Misses in the middle of their interval.
    pub fn midpoint_misses(&self) -> f64 {
        (self.misses + self.misses_credited) as f64 / 2.0
    }

    /// Misses in 100 calls, files that came back not credited.
    pub fn misses_per_100(&self) -> f64 {
        per(100.0 * self.misses as f64, self.calls)
    }

    /// Share of uses at risk that hit.
    pub fn at_risk_hits(&self) -> Option<f64> {
        (self.at_risk > 0).then(|| 1.0 - self.at_risk_misses as f64 / self.at_risk as f64)
    }

    /// Mean window in whole tokens, as a replay of the policy alone tells it.
    pub fn whole_mean_window(&self) -> Option<u64> {
        self.window_sum
            .checked_div(u128::from(self.window_calls))
            .map(|mean| mean as u64)
    }

    /// Mean window.
    pub fn mean_window(&self) -> f64 {
        per(self.window_sum as f64, self.window_calls)
    }

    /// What it comes to in dollars if a miss is worth `miss_cost`, and a call that cannot be made as much as a miss.
    pub fn objective(&self, miss_cost: f64) -> f64 {
        self.dollars() + miss_cost * (self.midpoint_misses() + self.blocked as f64)
    }
}

fn per(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
