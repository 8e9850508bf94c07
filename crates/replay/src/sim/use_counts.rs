//! Totals of hits and misses: what a policy loses.
//!
//! Misses are given as a pair, because the log does not show how much of a restored file came back: `(uncredited,
//! credited)`. Uncredited, a use of a restored file is a miss; credited, it is a hit.

use crate::sim::uses::{FileUse, USE_TOOLS};
use crate::sim::working_set::{AT_RISK, FetchKind, UseOutcome};

/// Uses and reads of one or more sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UseCounts {
    /// Uses by outcome.
    pub outcomes: [u64; 5],
    /// Uses at risk by outcome: those far away from what they need.
    pub at_risk: [u64; 5],
    /// Uses by tool and outcome.
    pub tools: [[u64; 5]; USE_TOOLS.len()],
    /// Mentions of files by outcome.
    pub references: [u64; 5],
    /// Reads by kind.
    pub fetches: [u64; 5],
    /// Tokens of the reads by kind.
    pub fetch_tokens: [u64; 5],
    /// Number of user prompts that boundaries summarized.
    pub prompts: u64,
}

impl UseCounts {
    /// Counts a use.
    pub fn add(&mut self, one: &FileUse, outcome: UseOutcome) {
        self.outcomes[outcome as usize] += 1;
        self.at_risk[outcome as usize] += u64::from(one.distance >= AT_RISK);
        self.tools[usize::from(one.tool)][outcome as usize] += 1;
    }

    /// Counts a mention of a file.
    pub fn add_reference(&mut self, outcome: UseOutcome) {
        self.references[outcome as usize] += 1;
    }

    /// Counts a read.
    pub fn add_fetch(&mut self, kind: FetchKind, tokens: u64) {
        self.fetches[kind as usize] += 1;
        self.fetch_tokens[kind as usize] += tokens;
    }

    /// Adds the counts of another session.
    pub fn merge(&mut self, other: &UseCounts) {
        let pairs = [
            (&mut self.outcomes, other.outcomes),
            (&mut self.at_risk, other.at_risk),
            (&mut self.fetches, other.fetches),
            (&mut self.fetch_tokens, other.fetch_tokens),
            (&mut self.references, other.references),
        ];
        let tools = std::iter::zip(&mut self.tools, other.tools);
        for (sums, parts) in pairs.into_iter().chain(tools) {
            for (sum, part) in std::iter::zip(sums, parts) {
                *sum += part;
            }
        }
        self.prompts += other.prompts;
    }

    /// Returns the number of uses.
    pub fn uses(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    /// Returns the credited misses.
    pub fn misses_credited(&self) -> u64 {
        count_misses(&self.outcomes).1
    }

    /// Returns the uncredited misses.
    pub fn misses(&self) -> u64 {
        count_misses(&self.outcomes).0
    }

    /// Returns the missed mentions, uncredited and credited.
    pub fn reference_misses(&self) -> (u64, u64) {
        count_misses(&self.references)
    }

    /// Iterates over the tools that have uses: name, number of uses, and misses (uncredited, credited).
    pub fn by_tool(&self) -> impl Iterator<Item = (&'static str, u64, (u64, u64))> {
        let tools = std::iter::zip(USE_TOOLS, &self.tools);
        tools
            .map(|(tool, outcomes)| (tool, outcomes.iter().sum(), count_misses(outcomes)))
            .filter(|(_, uses, _)| *uses > 0)
    }

    /// Returns the share of hits, uncredited and credited; `None` without uses.
    pub fn hit_ratio(&self) -> Option<(f64, f64)> {
        hit_ratios(&self.outcomes)
    }

    /// Returns the share of hits among the uses at risk, uncredited and credited; `None` without such uses.
    pub fn at_risk_ratio(&self) -> Option<(f64, f64)> {
        hit_ratios(&self.at_risk)
    }

    /// Returns the uncredited misses among the uses at risk.
    pub fn at_risk_misses(&self) -> u64 {
        count_misses(&self.at_risk).0
    }

    /// Returns the number of uses at risk.
    pub fn at_risk_uses(&self) -> u64 {
        self.at_risk.iter().sum()
    }
}

/// Returns the misses, uncredited and credited.
fn count_misses(outcomes: &[u64; 5]) -> (u64, u64) {
    let credited = outcomes[UseOutcome::Missed as usize] + outcomes[UseOutcome::InFlight as usize];
    (credited + outcomes[UseOutcome::Restored as usize], credited)
}

fn hit_ratios(outcomes: &[u64; 5]) -> Option<(f64, f64)> {
    let all = outcomes.iter().sum::<u64>();
    let share = |lost: u64| (all - lost) as f64 / all as f64;
    let (most, least) = count_misses(outcomes);
    (all > 0).then(|| (share(most), share(least)))
}
