//! Limits that a team sets, and what is held against them.
//!
//! Every limit is declared once in [`LIMITS`]: its name on the command line and in a file, its unit, its meaning, and how it
//! is measured. Pure: takes what was found in the logs, gives rows.

use crate::usage::account::UsageAccount;
use crate::usage::tally::UsageSums;
use replay::prices::{PicoUsd, micro_usd};
use replay::tokens::reads::ReadTotals;
use std::cmp::Reverse;
use table::human::{format_dollars, format_share, format_tokens, group_digits};

/// What has to be looked at for a limit, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RequiredData {
    /// What all calls add up to.
    Usage,
    /// Recorded boundaries, and the cache around every call.
    Boundaries,
    /// A setting whose effect is looked for.
    Setting,
}

/// Whether a limit is the most or the least that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitDirection {
    /// No more than it.
    Most,
    /// No less than it.
    Least,
}

/// What a limit counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitUnit {
    /// US dollars.
    Usd,
    /// Tokens.
    Tokens,
    /// How many.
    Count,
    /// A part of a whole, 0 to 1.
    Share,
}

impl LimitUnit {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            LimitUnit::Usd => "usd",
            LimitUnit::Tokens => "tokens",
            LimitUnit::Count => "count",
            LimitUnit::Share => "share",
        }
    }

    /// What its value is called on the command line.
    pub fn placeholder(self) -> &'static str {
        match self {
            LimitUnit::Usd => "USD",
            LimitUnit::Tokens => "TOKENS",
            LimitUnit::Count => "N",
            LimitUnit::Share => "SHARE",
        }
    }

    /// A value as people read it.
    pub fn format_value(self, value: f64) -> String {
        match self {
            LimitUnit::Usd => format_dollars((value * 1e6).round() as i64),
            LimitUnit::Tokens => format_tokens(value.round() as u64),
            LimitUnit::Count => group_digits(value.round() as u64),
            LimitUnit::Share => format_share(value),
        }
    }

    /// Whether a limit can have this value.
    pub fn validate_value(self, value: f64) -> Result<f64, String> {
        let fits = match self {
            LimitUnit::Usd => value >= 0.0,
            LimitUnit::Tokens | LimitUnit::Count => value >= 0.0 && value.fract() == 0.0,
            LimitUnit::Share => (0.0..=1.0).contains(&value),
        };
        match (fits && value.is_finite(), self) {
            (true, _) => Ok(value),
            (false, LimitUnit::Usd) => Err("an amount of dollars from 0 is wanted".into()),
            (false, LimitUnit::Tokens | LimitUnit::Count) => Err("a whole number from 0 is wanted".into()),
            (false, LimitUnit::Share) => Err("a share is a number from 0 to 1".into()),
        }
    }
}

/// A place that a value comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LimitLocation {
    /// Session, day or file.
    pub name: String,
    /// Log and line, where there is one.
    pub line: Option<(String, u64)>,
}

impl LimitLocation {
    fn named(name: &str) -> LimitLocation {
        LimitLocation {
            name: name.to_owned(),
            line: None,
        }
    }
}

/// What a session costs and holds.
#[derive(Debug, Clone, Default)]
pub struct SessionFacts {
    /// Its id.
    pub id: String,
    /// Cost of its priced calls, sub-agents included.
    pub cost: PicoUsd,
    /// Largest window of the main chain.
    pub peak: u64,
}

/// A recorded boundary.
#[derive(Debug, Clone, Default)]
pub struct BoundaryFacts {
    /// Session.
    pub session: String,
    /// Log and line.
    pub line: (String, u64),
    /// A compaction, not the clearing of old results.
    pub is_compaction: bool,
    /// Whether the chain was compacted before.
    pub is_recompaction: bool,
    /// Whether that was only a few calls ago.
    pub is_soon: bool,
    /// Whether the window was larger after it.
    pub has_grown: bool,
}

/// Everything that limits are held against.
#[derive(Debug, Clone, Default)]
pub struct BudgetFacts {
    /// The filters in words; empty if everything counts.
    pub selection: String,
    /// By the definitions of every command.
    pub account: UsageAccount,
    /// Over all calls.
    pub total: UsageSums,
    /// By session.
    pub sessions: Vec<SessionFacts>,
    /// Cost by day.
    pub days: Vec<(String, PicoUsd)>,
    /// File reads.
    pub reads: ReadTotals,
    /// Recorded boundaries.
    pub boundaries: Vec<BoundaryFacts>,
    /// Sessions with calls that missed the prompt cache for no reason that the log shows, and how many.
    pub cache_misses: Vec<(String, u64)>,
    /// Sessions in which a setting did not take effect.
    pub without_effect: Vec<String>,
    /// Problems: whether each lost something, how many it stands for, and where it is.
    pub problems: Vec<(bool, u64, LimitLocation)>,
}

/// A value, and where it is worst.
pub type Measurement = (Option<f64>, Option<LimitLocation>);

/// A limit.
pub struct Limit {
    /// Name in files; on the command line with two dashes before it.
    pub name: &'static str,
    /// Most or least.
    pub bound: LimitDirection,
    /// Unit.
    pub measure: LimitUnit,
    /// What has to be looked at.
    pub needs: RequiredData,
    /// One sentence.
    pub about: &'static str,
    /// How it is measured. `None` where there is nothing to measure.
    pub value: fn(&BudgetFacts) -> Measurement,
}

const fn at_most(
    name: &'static str,
    measure: LimitUnit,
    needs: RequiredData,
    about: &'static str,
    value: fn(&BudgetFacts) -> Measurement,
) -> Limit {
    Limit {
        name,
        bound: LimitDirection::Most,
        measure,
        needs,
        about,
        value,
    }
}

/// Name of the limit on calls without a price.
pub const UNPRICED: &str = "max-unpriced";

/// All limits.
pub const LIMITS: &[Limit] = &[
    at_most(
        "max-cost",
        LimitUnit::Usd,
        RequiredData::Usage,
        "Cost of all calls, sub-agents included.",
        |facts| (Some(dollars(facts.total.cost)), None),
    ),
    at_most(
        "max-session-cost",
        LimitUnit::Usd,
        RequiredData::Usage,
        "Cost of the costliest session, its sub-agents included.",
        |facts| {
            let worst = facts
                .sessions
                .iter()
                .max_by_key(|session| (session.cost, Reverse(&session.id)));
            worst.map_or((None, None), |worst| {
                (Some(dollars(worst.cost)), Some(LimitLocation::named(&worst.id)))
            })
        },
    ),
    at_most(
        "max-day-cost",
        LimitUnit::Usd,
        RequiredData::Usage,
        "Cost of the costliest day, in the time zone of --timezone.",
        |facts| {
            let worst = facts.days.iter().max_by_key(|(day, cost)| (*cost, Reverse(day)));
            worst.map_or((None, None), |(day, cost)| {
                (Some(dollars(*cost)), Some(LimitLocation::named(day)))
            })
        },
    ),
    at_most(
        UNPRICED,
        LimitUnit::Count,
        RequiredData::Usage,
        "Calls to models without a price, so that their cost is not known. 0 if a cost is limited and this is not.",
        |facts| (Some(facts.total.unpriced as f64), None),
    ),
    at_most(
        "max-tokens",
        LimitUnit::Tokens,
        RequiredData::Usage,
        "Tokens of all calls: input, cache writes, cache reads and output.",
        |facts| {
            let total = &facts.total;
            let tokens = total.input + total.output + total.cache_read + total.write_5m + total.write_1h;
            (Some(tokens as f64), None)
        },
    ),
    Limit {
        name: "min-cache-share",
        bound: LimitDirection::Least,
        measure: LimitUnit::Share,
        needs: RequiredData::Usage,
        about: "Least share of all input tokens that is read from the prompt cache.",
        value: |facts| {
            let total = &facts.total;
            let whole = total.input + total.cache_read + total.write_5m + total.write_1h;
            ((whole > 0).then(|| total.cache_read as f64 / whole as f64), None)
        },
    },
    at_most(
        "max-peak",
        LimitUnit::Tokens,
        RequiredData::Usage,
        "Largest window of any session's main chain.",
        |facts| {
            let worst = facts
                .sessions
                .iter()
                .max_by_key(|session| (session.peak, Reverse(&session.id)));
            worst.map_or((None, None), |worst| {
                (Some(worst.peak as f64), Some(LimitLocation::named(&worst.id)))
            })
        },
    ),
    at_most(
        "max-redundant-reads",
        LimitUnit::Share,
        RequiredData::Usage,
        "Share of the tokens read from files that were in the window already: same version, range covered.",
        |facts| {
            let reads = &facts.reads;
            let share = (reads.tokens > 0).then(|| reads.redundant_tokens as f64 / reads.tokens as f64);
            (share, None)
        },
    ),
    at_most(
        "max-compactions",
        LimitUnit::Count,
        RequiredData::Boundaries,
        "Most compactions of one session, automatic and manual, sub-agents included.",
        |facts| {
            let mut counts = std::collections::BTreeMap::<&str, u64>::new();
            for boundary in facts.boundaries.iter().filter(|boundary| boundary.is_compaction) {
                *counts.entry(&boundary.session).or_insert(0) += 1;
            }
            let worst = counts.iter().max_by_key(|(id, count)| (**count, Reverse(**id)));
            worst.map_or((Some(0.0), None), |(id, count)| {
                (Some(*count as f64), Some(LimitLocation::named(id)))
            })
        },
    ),
    at_most(
        "max-recompactions",
        LimitUnit::Count,
        RequiredData::Boundaries,
        "Compactions of sessions that had been compacted before, over all sessions.",
        |facts| count_boundaries(facts, |boundary| boundary.is_compaction && boundary.is_recompaction),
    ),
    at_most(
        "max-quick-recompactions",
        LimitUnit::Count,
        RequiredData::Boundaries,
        "Of these, those that came fewer than 10 calls after the one before.",
        |facts| count_boundaries(facts, |boundary| boundary.is_soon),
    ),
    at_most(
        "max-net-negative",
        LimitUnit::Count,
        RequiredData::Boundaries,
        "Boundaries after which the window was larger than before.",
        |facts| count_boundaries(facts, |boundary| boundary.has_grown),
    ),
    at_most(
        "max-cache-misses",
        LimitUnit::Count,
        RequiredData::Boundaries,
        "Calls that missed the prompt cache for no reason that the log shows.",
        |facts| {
            let worst = facts
                .cache_misses
                .iter()
                .max_by_key(|(id, count)| (*count, Reverse(id)));
            let total = facts.cache_misses.iter().map(|(_, count)| count).sum::<u64>();
            (Some(total as f64), worst.map(|(id, _)| LimitLocation::named(id)))
        },
    ),
    at_most(
        "max-without-effect",
        LimitUnit::Count,
        RequiredData::Setting,
        "Sessions in which what --set or --client-env says did not take effect, or only in part.",
        |facts| {
            let first = facts.without_effect.first();
            (
                Some(facts.without_effect.len() as f64),
                first.map(|id| LimitLocation::named(id)),
            )
        },
    ),
    at_most(
        "max-problems",
        LimitUnit::Count,
        RequiredData::Usage,
        "Problems of any kind with the logs.",
        |facts| count_problems(facts, |_| true),
    ),
    at_most(
        "max-lost",
        LimitUnit::Count,
        RequiredData::Usage,
        "Problems that lost input: lines, files or sessions that could not be read.",
        |facts| count_problems(facts, |lost| lost),
    ),
];

fn dollars(cost: PicoUsd) -> f64 {
    micro_usd(cost) as f64 / 1e6
}

fn count_boundaries(facts: &BudgetFacts, wanted: impl Fn(&BoundaryFacts) -> bool) -> Measurement {
    let mut found = facts.boundaries.iter().filter(|boundary| wanted(boundary));
    let first = found.next();
    let count = u64::from(first.is_some()) + found.count() as u64;
    let place = first.map(|boundary| LimitLocation {
        name: boundary.session.clone(),
        line: Some(boundary.line.clone()),
    });
    (Some(count as f64), place)
}

fn count_problems(facts: &BudgetFacts, wanted: impl Fn(bool) -> bool) -> Measurement {
    let found = facts.problems.iter().filter(|(lost, ..)| wanted(*lost));
    let count = found.clone().map(|(_, count, _)| *count).sum::<u64>();
    (
        Some(count as f64),
        found.clone().next().map(|(.., place)| place.clone()),
    )
}

/// The limit of a name.
pub fn find_limit(name: &str) -> Option<&'static Limit> {
    LIMITS.iter().find(|limit| limit.name == name)
}

/// Limits that were set, in the order of [`LIMITS`].
pub type LimitSet = Vec<(&'static Limit, f64)>;

/// Puts limits in order. A limited cost is only known if every call has a price.
pub fn complete_limits(given: &[(&'static Limit, f64)]) -> LimitSet {
    let value = |name: &str| {
        given
            .iter()
            .find(|(limit, _)| limit.name == name)
            .map(|(_, value)| *value)
    };
    let limits_cost = given.iter().any(|(limit, _)| limit.measure == LimitUnit::Usd);
    let set = |limit: &'static Limit| {
        let implied = (limit.name == UNPRICED && limits_cost).then_some(0.0);
        Some((limit, value(limit.name).or(implied)?))
    };
    LIMITS.iter().filter_map(set).collect()
}

/// How a limit came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LimitVerdict {
    /// It holds.
    Within,
    /// It does not.
    Exceeded,
    /// There is nothing to measure: no calls, no reads.
    NoData,
    /// Not set.
    Unset,
}

impl LimitVerdict {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            LimitVerdict::Within => "within",
            LimitVerdict::Exceeded => "exceeded",
            LimitVerdict::NoData => "nothing to measure",
            LimitVerdict::Unset => "not set",
        }
    }
}

/// A limit, what it is held against, and how it came out.
pub struct LimitRow {
    /// The limit.
    pub limit: &'static Limit,
    /// What is allowed, if it is set.
    pub allowed: Option<f64>,
    /// What was measured.
    pub measured: Option<f64>,
    /// Where it is worst.
    pub place: Option<LimitLocation>,
}

impl LimitRow {
    /// Measures a limit.
    pub fn new(limit: &'static Limit, allowed: Option<f64>, facts: &BudgetFacts) -> LimitRow {
        let (measured, place) = (limit.value)(facts);
        LimitRow {
            limit,
            allowed,
            measured,
            place,
        }
    }

    /// How it came out.
    pub fn verdict(&self) -> LimitVerdict {
        match (self.allowed, self.measured, self.limit.bound) {
            (None, ..) => LimitVerdict::Unset,
            (_, None, _) => LimitVerdict::NoData,
            (Some(allowed), Some(measured), LimitDirection::Most) if measured > allowed => LimitVerdict::Exceeded,
            (Some(allowed), Some(measured), LimitDirection::Least) if measured < allowed => LimitVerdict::Exceeded,
            _ => LimitVerdict::Within,
        }
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        let text =
            |value: Option<f64>| value.map_or("nothing".to_owned(), |value| self.limit.measure.format_value(value));
        let place = self.place.as_ref().filter(|place| !place.name.is_empty());
        let place = place.map_or(String::new(), |place| match self.limit.measure {
            LimitUnit::Count => format!(", for instance in {}", place.name),
            _ => format!(", in {}", place.name),
        });
        let about = self
            .limit
            .about
            .split_once(['.', ':'])
            .map_or(self.limit.about, |(first, _)| first);
        let bound = match self.limit.bound {
            LimitDirection::Most => "at most",
            LimitDirection::Least => "at least",
        };
        let allowed = self.allowed.map_or(String::new(), |allowed| {
            format!(", allowed {bound} {}", self.limit.measure.format_value(allowed))
        });
        format!("{about}: {}{place}{allowed}", text(self.measured))
    }
}

#[cfg(test)]
mod tests;
