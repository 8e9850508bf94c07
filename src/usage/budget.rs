//! Limits that a team sets, and what is held against them.
//!
//! Every limit is declared once in [`LIMITS`]: its name on the command line and in a file, its unit, its meaning, and how it
//! is measured. Pure: takes what was found in the logs, gives rows.

use crate::usage::tally::Sums;
use replay::prices::{Pico, micro_usd};
use replay::tokens::reads::Reads;
use std::cmp::Reverse;
use table::{Column, InTable, Unit, Value, column, for_people};

/// What has to be looked at for a limit, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Needs {
    /// What all calls add up to.
    Usage,
    /// Recorded boundaries, and the cache around every call.
    Boundaries,
    /// A setting whose effect is looked for.
    Setting,
}

/// Whether a limit is the most or the least that is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    /// No more than it.
    Most,
    /// No less than it.
    Least,
}

/// What a limit counts in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// US dollars.
    Usd,
    /// Tokens.
    Tokens,
    /// How many.
    Count,
    /// A part of a whole, 0 to 1.
    Share,
}

impl Measure {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Usd => "usd",
            Measure::Tokens => "tokens",
            Measure::Count => "count",
            Measure::Share => "share",
        }
    }

    /// What its value is called on the command line.
    pub fn placeholder(self) -> &'static str {
        match self {
            Measure::Usd => "USD",
            Measure::Tokens => "TOKENS",
            Measure::Count => "N",
            Measure::Share => "SHARE",
        }
    }

    /// A value as people read it.
    pub fn text(self, value: f64) -> String {
        match self {
            Measure::Usd => for_people(Unit::MicroUsd, &Value::Int((value * 1e6).round() as i64)),
            Measure::Tokens => for_people(Unit::Tokens, &Value::Int(value.round() as i64)),
            Measure::Count => for_people(Unit::Count, &Value::Int(value.round() as i64)),
            Measure::Share => for_people(Unit::Share, &Value::Float(value)),
        }
    }

    /// Whether a limit can have this value.
    pub fn check(self, value: f64) -> Result<f64, String> {
        let fits = match self {
            Measure::Usd => value >= 0.0,
            Measure::Tokens | Measure::Count => value >= 0.0 && value.fract() == 0.0,
            Measure::Share => (0.0..=1.0).contains(&value),
        };
        match (fits && value.is_finite(), self) {
            (true, _) => Ok(value),
            (false, Measure::Usd) => Err("an amount of dollars from 0 is wanted".into()),
            (false, Measure::Tokens | Measure::Count) => Err("a whole number from 0 is wanted".into()),
            (false, Measure::Share) => Err("a share is a number from 0 to 1".into()),
        }
    }
}

/// A place that a value comes from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// Session, day or file.
    pub name: String,
    /// Log and line, where there is one.
    pub line: Option<(String, u64)>,
}

impl Place {
    fn named(name: &str) -> Place {
        Place {
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
    pub cost: Pico,
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
    pub is_again: bool,
    /// Whether that was only a few calls ago.
    pub is_soon: bool,
    /// Whether the window was larger after it.
    pub has_grown: bool,
}

/// Everything that limits are held against.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// Over all calls.
    pub total: Sums,
    /// By session.
    pub sessions: Vec<SessionFacts>,
    /// Cost by day.
    pub days: Vec<(String, Pico)>,
    /// File reads.
    pub reads: Reads,
    /// Recorded boundaries.
    pub boundaries: Vec<BoundaryFacts>,
    /// Sessions with calls that missed the prompt cache for no reason that the log shows, and how many.
    pub cache_misses: Vec<(String, u64)>,
    /// Sessions in which a setting did not take effect.
    pub without_effect: Vec<String>,
    /// Problems: whether each lost something, and where it is.
    pub problems: Vec<(bool, Place)>,
}

/// A value, and where it is worst.
pub type Measured = (Option<f64>, Option<Place>);

/// A limit.
pub struct Limit {
    /// Name in files; on the command line with two dashes before it.
    pub name: &'static str,
    /// Most or least.
    pub bound: Bound,
    /// Unit.
    pub measure: Measure,
    /// What has to be looked at.
    pub needs: Needs,
    /// One sentence.
    pub about: &'static str,
    /// How it is measured. `None` where there is nothing to measure.
    pub value: fn(&Facts) -> Measured,
}

const fn most(
    name: &'static str,
    measure: Measure,
    needs: Needs,
    about: &'static str,
    value: fn(&Facts) -> Measured,
) -> Limit {
    Limit {
        name,
        bound: Bound::Most,
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
    most(
        "max-cost",
        Measure::Usd,
        Needs::Usage,
        "Cost of all calls, sub-agents included.",
        |facts| (Some(dollars(facts.total.cost)), None),
    ),
    most(
        "max-session-cost",
        Measure::Usd,
        Needs::Usage,
        "Cost of the costliest session, its sub-agents included.",
        |facts| {
            let worst = facts
                .sessions
                .iter()
                .max_by_key(|session| (session.cost, Reverse(&session.id)));
            worst.map_or((None, None), |worst| {
                (Some(dollars(worst.cost)), Some(Place::named(&worst.id)))
            })
        },
    ),
    most(
        "max-day-cost",
        Measure::Usd,
        Needs::Usage,
        "Cost of the costliest day, in the time zone of --timezone.",
        |facts| {
            let worst = facts.days.iter().max_by_key(|(day, cost)| (*cost, Reverse(day)));
            worst.map_or((None, None), |(day, cost)| {
                (Some(dollars(*cost)), Some(Place::named(day)))
            })
        },
    ),
    most(
        UNPRICED,
        Measure::Count,
        Needs::Usage,
        "Calls whose model has no price, so that their cost is not known. 0 where a cost is limited and this is not.",
        |facts| (Some(facts.total.unpriced as f64), None),
    ),
    most(
        "max-tokens",
        Measure::Tokens,
        Needs::Usage,
        "Tokens of all calls: input, cache writes, cache reads and output.",
        |facts| {
            let total = &facts.total;
            let tokens = total.input + total.output + total.cache_read + total.write_5m + total.write_1h;
            (Some(tokens as f64), None)
        },
    ),
    Limit {
        name: "min-cache-share",
        bound: Bound::Least,
        measure: Measure::Share,
        needs: Needs::Usage,
        about: "Least share of all input tokens that is read from the prompt cache.",
        value: |facts| {
            let total = &facts.total;
            let whole = total.input + total.cache_read + total.write_5m + total.write_1h;
            ((whole > 0).then(|| total.cache_read as f64 / whole as f64), None)
        },
    },
    most(
        "max-peak",
        Measure::Tokens,
        Needs::Usage,
        "Largest window of any session's main chain.",
        |facts| {
            let worst = facts
                .sessions
                .iter()
                .max_by_key(|session| (session.peak, Reverse(&session.id)));
            worst.map_or((None, None), |worst| {
                (Some(worst.peak as f64), Some(Place::named(&worst.id)))
            })
        },
    ),
    most(
        "max-redundant-reads",
        Measure::Share,
        Needs::Usage,
        "Share of the tokens read from files that were in the window already: same version, range covered.",
        |facts| {
            let reads = &facts.reads;
            let share = (reads.tokens > 0).then(|| reads.redundant_tokens as f64 / reads.tokens as f64);
            (share, None)
        },
    ),
    most(
        "max-compactions",
        Measure::Count,
        Needs::Boundaries,
        "Most compactions of one session, automatic and manual, sub-agents included.",
        |facts| {
            let mut counts = std::collections::BTreeMap::<&str, u64>::new();
            for boundary in facts.boundaries.iter().filter(|boundary| boundary.is_compaction) {
                *counts.entry(&boundary.session).or_insert(0) += 1;
            }
            let worst = counts.iter().max_by_key(|(id, count)| (**count, Reverse(**id)));
            worst.map_or((Some(0.0), None), |(id, count)| {
                (Some(*count as f64), Some(Place::named(id)))
            })
        },
    ),
    most(
        "max-recompactions",
        Measure::Count,
        Needs::Boundaries,
        "Compactions of sessions that had been compacted before, over all sessions.",
        |facts| boundaries(facts, |boundary| boundary.is_compaction && boundary.is_again),
    ),
    most(
        "max-quick-recompactions",
        Measure::Count,
        Needs::Boundaries,
        "Of these, those that came fewer than 10 calls after the one before.",
        |facts| boundaries(facts, |boundary| boundary.is_soon),
    ),
    most(
        "max-net-negative",
        Measure::Count,
        Needs::Boundaries,
        "Boundaries after which the window was larger than before.",
        |facts| boundaries(facts, |boundary| boundary.has_grown),
    ),
    most(
        "max-cache-misses",
        Measure::Count,
        Needs::Boundaries,
        "Calls that missed the prompt cache for no reason that the log shows.",
        |facts| {
            let worst = facts
                .cache_misses
                .iter()
                .max_by_key(|(id, count)| (*count, Reverse(id)));
            let total = facts.cache_misses.iter().map(|(_, count)| count).sum::<u64>();
            (Some(total as f64), worst.map(|(id, _)| Place::named(id)))
        },
    ),
    most(
        "max-without-effect",
        Measure::Count,
        Needs::Setting,
        "Sessions in which what --set or --client-env says did not take effect, or only in part.",
        |facts| {
            let first = facts.without_effect.first();
            (
                Some(facts.without_effect.len() as f64),
                first.map(|id| Place::named(id)),
            )
        },
    ),
    most(
        "max-problems",
        Measure::Count,
        Needs::Usage,
        "Problems of any kind with the logs.",
        |facts| problems(facts, |_| true),
    ),
    most(
        "max-lost",
        Measure::Count,
        Needs::Usage,
        "Problems that lost input: lines, files or sessions that could not be read.",
        |facts| problems(facts, |lost| lost),
    ),
];

fn dollars(cost: Pico) -> f64 {
    micro_usd(cost) as f64 / 1e6
}

fn boundaries(facts: &Facts, wanted: impl Fn(&BoundaryFacts) -> bool) -> Measured {
    let mut found = facts.boundaries.iter().filter(|boundary| wanted(boundary));
    let first = found.next();
    let count = u64::from(first.is_some()) + found.count() as u64;
    let place = first.map(|boundary| Place {
        name: boundary.session.clone(),
        line: Some(boundary.line.clone()),
    });
    (Some(count as f64), place)
}

fn problems(facts: &Facts, wanted: impl Fn(bool) -> bool) -> Measured {
    let mut found = facts.problems.iter().filter(|(lost, _)| wanted(*lost));
    let first = found.next();
    let count = u64::from(first.is_some()) + found.count() as u64;
    (Some(count as f64), first.map(|(_, place)| place.clone()))
}

/// The limit of a name.
pub fn limit(name: &str) -> Option<&'static Limit> {
    LIMITS.iter().find(|limit| limit.name == name)
}

/// Limits that were set, in the order of [`LIMITS`].
pub type Set = Vec<(&'static Limit, f64)>;

/// Puts limits in order. A limited cost is only known if every call has a price.
pub fn complete(given: &[(&'static Limit, f64)]) -> Set {
    let value = |name: &str| {
        given
            .iter()
            .find(|(limit, _)| limit.name == name)
            .map(|(_, value)| *value)
    };
    let limits_cost = given.iter().any(|(limit, _)| limit.measure == Measure::Usd);
    let set = |limit: &'static Limit| {
        let implied = (limit.name == UNPRICED && limits_cost).then_some(0.0);
        Some((limit, value(limit.name).or(implied)?))
    };
    LIMITS.iter().filter_map(set).collect()
}

/// How a limit came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It holds.
    Within,
    /// It does not.
    Exceeded,
    /// There is nothing to measure: no calls, no reads.
    NothingThere,
    /// Not set.
    Open,
}

impl Verdict {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Within => "within",
            Verdict::Exceeded => "exceeded",
            Verdict::NothingThere => "nothing to measure",
            Verdict::Open => "not set",
        }
    }
}

/// A limit, what it is held against, and how it came out.
pub struct Row {
    /// The limit.
    pub limit: &'static Limit,
    /// What is allowed, if it is set.
    pub allowed: Option<f64>,
    /// What was measured.
    pub measured: Option<f64>,
    /// Where it is worst.
    pub place: Option<Place>,
}

impl Row {
    /// Measures a limit.
    pub fn new(limit: &'static Limit, allowed: Option<f64>, facts: &Facts) -> Row {
        let (measured, place) = (limit.value)(facts);
        Row {
            limit,
            allowed,
            measured,
            place,
        }
    }

    /// How it came out.
    pub fn verdict(&self) -> Verdict {
        match (self.allowed, self.measured, self.limit.bound) {
            (None, ..) => Verdict::Open,
            (_, None, _) => Verdict::NothingThere,
            (Some(allowed), Some(measured), Bound::Most) if measured > allowed => Verdict::Exceeded,
            (Some(allowed), Some(measured), Bound::Least) if measured < allowed => Verdict::Exceeded,
            _ => Verdict::Within,
        }
    }

    /// In one sentence.
    pub fn sentence(&self) -> String {
        let text = |value: Option<f64>| value.map_or("nothing".to_owned(), |value| self.limit.measure.text(value));
        let place = self.place.as_ref().filter(|place| !place.name.is_empty());
        let place = place.map_or(String::new(), |place| match self.limit.measure {
            Measure::Count => format!(", for instance in {}", place.name),
            _ => format!(", in {}", place.name),
        });
        let about = self
            .limit
            .about
            .split_once(['.', ':'])
            .map_or(self.limit.about, |(first, _)| first);
        let bound = match self.limit.bound {
            Bound::Most => "at most",
            Bound::Least => "at least",
        };
        let allowed = self.allowed.map_or(String::new(), |allowed| {
            format!(", allowed {bound} {}", self.limit.measure.text(allowed))
        });
        format!("{about}: {}{place}{allowed}", text(self.measured))
    }
}

/// Columns for other programs.
pub const COLUMNS: &[Column<Row>] = &[
    column(
        "limit",
        "Limit",
        Unit::Text,
        InTable::Always,
        "Name of the limit.",
        |row| row.limit.name.into(),
    ),
    column(
        "unit",
        "Unit",
        Unit::Text,
        InTable::Never,
        "`usd`, `tokens`, `count` or `share` (0 to 1).",
        |row| row.limit.measure.name().into(),
    ),
    column(
        "allowed",
        "Allowed",
        Unit::Ratio,
        InTable::Never,
        "What is allowed; empty if the limit is not set.",
        |row| row.allowed.into(),
    ),
    column(
        "measured",
        "Measured",
        Unit::Ratio,
        InTable::Never,
        "What was measured; empty if there is nothing to measure.",
        |row| row.measured.into(),
    ),
    column(
        "verdict",
        "Verdict",
        Unit::Verdict,
        InTable::Never,
        "`within`, `exceeded`, `nothing to measure` or `not set`.",
        |row| row.verdict().name().into(),
    ),
    column(
        "worst",
        "Most in",
        Unit::Text,
        InTable::Never,
        "Session, day or file where it is worst, or the first one that counts.",
        |row| place(row).map(|place| place.name.clone()).into(),
    ),
    column(
        "path",
        "Path",
        Unit::Text,
        InTable::Never,
        "Log that it is in.",
        |row| place(row).and_then(|place| Some(place.line.as_ref()?.0.clone())).into(),
    ),
    column("line", "Line", Unit::Count, InTable::Never, "Line of the log.", |row| {
        place(row).and_then(|place| Some(place.line.as_ref()?.1)).into()
    }),
    column(
        "about",
        "Meaning",
        Unit::Text,
        InTable::Never,
        "What is measured.",
        |row| row.limit.about.into(),
    ),
];

/// Columns for a screen.
pub const ON_SCREEN: &[Column<Row>] = &[
    column(
        "limit",
        "Limit",
        Unit::Text,
        InTable::Always,
        "Name of the limit.",
        |row| row.limit.name.into(),
    ),
    column(
        "allowed",
        "Allowed",
        Unit::Text,
        InTable::Always,
        "What is allowed.",
        |row| row.allowed.map(|value| row.limit.measure.text(value)).into(),
    ),
    column(
        "measured",
        "Measured",
        Unit::Text,
        InTable::Always,
        "What was measured.",
        |row| row.measured.map(|value| row.limit.measure.text(value)).into(),
    ),
    column(
        "verdict",
        "Verdict",
        Unit::Verdict,
        InTable::Always,
        "How it came out.",
        |row| row.verdict().name().into(),
    ),
    column(
        "worst",
        "Worst, or first",
        Unit::Text,
        InTable::IfRoom,
        "Where.",
        |row| place(row).map(|place| place.name.clone()).into(),
    ),
];

/// Where something is; nothing is nowhere.
fn place(row: &Row) -> Option<&Place> {
    row.place
        .as_ref()
        .filter(|_| row.measured.is_some_and(|value| value > 0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        let session = |id: &str, cost: Pico, peak: u64| SessionFacts {
            id: id.into(),
            cost,
            peak,
        };
        let boundary = |session: &str, is_again: bool, is_soon: bool| BoundaryFacts {
            session: session.into(),
            line: ("log.jsonl".into(), 7),
            is_compaction: true,
            is_again,
            is_soon,
            has_grown: is_soon,
        };
        let mut facts = Facts {
            sessions: vec![session("a", 2_000_000_000_000, 90), session("b", 3_000_000_000_000, 50)],
            days: vec![("2026-01-01".into(), 1), ("2026-01-02".into(), 5_000_000_000_000)],
            boundaries: vec![
                boundary("a", false, false),
                boundary("a", true, true),
                boundary("a", true, false),
                boundary("b", false, false),
            ],
            cache_misses: vec![("a".into(), 1), ("b".into(), 2)],
            problems: vec![(false, Place::named("x")), (true, Place::named("y"))],
            ..Facts::default()
        };
        (facts.total.cost, facts.total.unpriced) = (5_000_000_000_000, 1);
        (facts.total.input, facts.total.cache_read) = (25, 75);
        (facts.reads.tokens, facts.reads.redundant_tokens) = (100, 3);
        facts
    }

    #[test]
    fn every_limit_measures_what_it_says() {
        let facts = facts();
        let expected = [
            ("max-cost", 5.0, ""),
            ("max-session-cost", 3.0, "b"),
            ("max-day-cost", 5.0, "2026-01-02"),
            ("max-unpriced", 1.0, ""),
            ("max-tokens", 100.0, ""),
            ("min-cache-share", 0.75, ""),
            ("max-peak", 90.0, "a"),
            ("max-redundant-reads", 0.03, ""),
            ("max-compactions", 3.0, "a"),
            ("max-recompactions", 2.0, "a"),
            ("max-quick-recompactions", 1.0, "a"),
            ("max-net-negative", 1.0, "a"),
            ("max-cache-misses", 3.0, "b"),
            ("max-without-effect", 0.0, ""),
            ("max-problems", 2.0, "x"),
            ("max-lost", 1.0, "y"),
        ];
        assert_eq!(LIMITS.len(), expected.len());
        for (name, value, place) in expected {
            let row = Row::new(limit(name).unwrap(), Some(value), &facts);
            assert_eq!(row.measured, Some(value), "{name}");
            assert_eq!(row.place.as_ref().map_or("", |place| &place.name), place, "{name}");
            assert_eq!(row.verdict(), Verdict::Within, "{name}: the limit itself is allowed");
            let step = if row.limit.bound == Bound::Most { -0.01 } else { 0.01 };
            let tighter = Row::new(row.limit, Some(value + step), &facts);
            assert_eq!(tighter.verdict(), Verdict::Exceeded, "{name}");
        }
    }

    #[test]
    fn nothing_is_not_zero() {
        let row = |name: &str| Row::new(limit(name).unwrap(), Some(0.5), &Facts::default()).verdict();
        assert_eq!(row("min-cache-share"), Verdict::NothingThere);
        assert_eq!(row("max-redundant-reads"), Verdict::NothingThere);
        assert_eq!(row("max-session-cost"), Verdict::NothingThere);
        assert_eq!(row("max-cost"), Verdict::Within);
    }

    #[test]
    fn a_limited_cost_must_be_known() {
        let names = |given: &[(&str, f64)]| {
            let given = given
                .iter()
                .map(|(name, value)| (limit(name).unwrap(), *value))
                .collect::<Vec<_>>();
            complete(&given)
                .into_iter()
                .map(|(limit, value)| (limit.name, value))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(&[("max-cost", 5.0)]), [("max-cost", 5.0), (UNPRICED, 0.0)]);
        assert_eq!(
            names(&[("max-lost", 0.0), (UNPRICED, 9.0), ("max-cost", 5.0)]),
            [("max-cost", 5.0), (UNPRICED, 9.0), ("max-lost", 0.0)]
        );
        assert_eq!(names(&[("max-peak", 5.0)]), [("max-peak", 5.0)]);
    }

    #[test]
    fn values_that_no_limit_can_have() {
        assert!(Measure::Usd.check(-1.0).is_err());
        assert!(Measure::Usd.check(f64::NAN).is_err());
        assert!(Measure::Count.check(1.5).is_err());
        assert!(Measure::Share.check(1.5).is_err());
        assert_eq!(Measure::Share.check(1.0), Ok(1.0));
    }
}
