//! The cost of recorded calls: by their usage, and as a replay that follows the record bills them. What is recorded of a call is
//! its most complete line.

use crate::prices::{PicoUsd, Tariff};
use crate::sim::event::{CacheMiss, SimCall};
use transcript::record::Tokens;

/// The cost of some calls, counted in two ways.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CausedCost {
    pub calls: u64,
    pub recorded: PicoUsd,
    pub simulated: PicoUsd,
}

/// Cost by recorded usage, and by the simulated prompt cache with recorded outputs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CostComparison {
    pub recorded: PicoUsd,
    pub simulated: PicoUsd,
    /// Simulated by the rules alone, without expected misses.
    pub by_rules: PicoUsd,
    /// Calls that read far less from the cache than simulated, for no reason that the log shows.
    pub unexplained: u64,
    /// Recorded cost of those calls, minus that by the rules.
    pub unexplained_cost: PicoUsd,
    /// By [`CacheMiss`]; the last one is for calls that missed nothing.
    pub causes: [CausedCost; CacheMiss::ALL.len() + 1],
}

impl CostComparison {
    /// Adds the costs of another chain.
    pub fn merge(&mut self, other: &CostComparison) {
        self.recorded += other.recorded;
        self.simulated += other.simulated;
        self.by_rules += other.by_rules;
        self.unexplained += other.unexplained;
        self.unexplained_cost += other.unexplained_cost;
        for (sum, cause) in self.causes.iter_mut().zip(other.causes) {
            sum.calls += cause.calls;
            sum.recorded += cause.recorded;
            sum.simulated += cause.simulated;
        }
    }

    /// Adds a call within a response: it was billed as recorded whatever the prompt cache does.
    pub(crate) fn add_inner(&mut self, cost: PicoUsd) {
        for sum in [&mut self.recorded, &mut self.simulated, &mut self.by_rules] {
            *sum += cost;
        }
    }

    /// Iterates over the causes with their names; calls that missed nothing are `none`.
    pub fn named_causes(&self) -> impl Iterator<Item = (&'static str, &CausedCost)> {
        let names = CacheMiss::ALL.iter().map(|miss| miss.name()).chain(["none"]);
        names.zip(&self.causes)
    }

    /// Adds a call.
    pub(crate) fn add(&mut self, tariff: &Tariff, usage: &Tokens, called: &SimCall) {
        let window = usage.input_side();
        let cost = |tokens: Tokens| {
            let output = usage.output;
            tariff.cost(&Tokens { output, ..tokens }, window)
        };
        let (recorded, simulated) = (cost(*usage), cost(called.tokens));
        let by_rules = cost(called.tokens_by_rule());
        self.recorded += recorded;
        self.simulated += simulated;
        self.by_rules += by_rules;
        if called.miss == Some(CacheMiss::Unexplained) {
            self.unexplained += 1;
            self.unexplained_cost += recorded.saturating_sub(by_rules);
        }
        let cause = called.miss.map_or(CacheMiss::ALL.len(), |miss| miss as usize);
        self.causes[cause].calls += 1;
        self.causes[cause].recorded += recorded;
        self.causes[cause].simulated += simulated;
    }
}
