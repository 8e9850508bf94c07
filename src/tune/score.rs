//! What one policy comes to in one session, small enough to keep thousands of them.

use crate::metrics::cost::Pico;
use crate::metrics::cost::PriceTable;
use crate::metrics::replay::{Collector, Detail, Replayed, SessionRow};
use crate::policy::presets::Policies;
use crate::sim::trace::Trace;
use crate::sim::uses::Uses;
use crate::sim::{Mode, Setting, by_number, replay, windows_of};
use serde::{Deserialize, Serialize};

/// A session that is ready to be replayed.
pub struct Prepared {
    /// Its id.
    pub id: String,
    /// Its chains, with what they used again.
    pub chains: Vec<(Trace, Uses)>,
}

impl Prepared {
    /// Replays it.
    pub fn replay(&self, policies: &Policies, prices: &PriceTable, summary: Option<u64>) -> SessionRow {
        let mut replayed = Replayed::default();
        replayed.row.session.clone_from(&self.id);
        replayed.row.has_working_set = true;
        for (number, (trace, uses)) in self.chains.iter().enumerate() {
            let (by_version, by_model) = by_number(policies, prices, trace);
            let windows = windows_of(trace, &by_version, &by_model);
            let mut collector = Collector::new(
                &self.id,
                None,
                trace,
                &windows,
                &by_model,
                &mut replayed,
                Detail::default(),
            );
            let setting = Setting {
                policies: by_version,
                prices: by_model.clone(),
                windows: &windows,
                summary,
                mode: Mode::Free,
                uses: Some(uses),
                texts: None,
                key: chain_key(&self.id, number),
            };
            replay(trace, &setting, &mut collector);
            collector.finish();
        }
        replayed.row
    }
}

/// Names a chain of a session.
pub fn chain_key(session: &str, number: usize) -> u64 {
    xxhash_rust::xxh3::xxh3_64(session.as_bytes()) ^ number as u64
}

/// What a policy comes to, in one session or in many.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// Cost of everything.
    pub cost: Pico,
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

impl From<&SessionRow> for Score {
    fn from(row: &SessionRow) -> Score {
        let set = &row.working_set;
        Score {
            cost: row.cost + row.side_costs.iter().sum::<Pico>(),
            calls: row.calls,
            compactions: row.compactions(),
            model_calls: row.side_calls.iter().sum(),
            uses: set.uses(),
            misses: set.misses(),
            misses_credited: set.misses_credited(),
            at_risk: set.at_risk_uses(),
            at_risk_misses: set.at_risk_misses(),
            window_sum: row.window_sum,
            window_calls: row.window_calls,
            blocked: row.blocked_calls,
        }
    }
}

impl Score {
    /// Adds another.
    pub fn merge(&mut self, other: &Score) {
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
    pub fn sum<'a>(scores: impl IntoIterator<Item = &'a Score>) -> Score {
        let mut sum = Score::default();
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
    pub fn middle_misses(&self) -> f64 {
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
        self.dollars() + miss_cost * (self.middle_misses() + self.blocked as f64)
    }
}

fn per(sum: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { sum / count as f64 }
}
