//! Tests of budgets: limits, and what exceeds them.

use super::*;

fn facts() -> BudgetFacts {
    let session = |id: &str, cost: PicoUsd, peak: u64| SessionFacts {
        id: id.into(),
        cost,
        peak,
    };
    let boundary = |session: &str, is_again: bool, is_soon: bool| BoundaryFacts {
        session: session.into(),
        line: ("log.jsonl".into(), 7),
        is_compaction: true,
        is_recompaction: is_again,
        is_soon,
        has_grown: is_soon,
    };
    let mut facts = BudgetFacts {
        sessions: vec![session("a", 2_000_000_000_000, 90), session("b", 3_000_000_000_000, 50)],
        days: vec![("2026-01-01".into(), 1), ("2026-01-02".into(), 5_000_000_000_000)],
        boundaries: vec![
            boundary("a", false, false),
            boundary("a", true, true),
            boundary("a", true, false),
            boundary("b", false, false),
        ],
        cache_misses: vec![("a".into(), 1), ("b".into(), 2)],
        problems: vec![
            (false, 1, LimitLocation::named("x")),
            (true, 1, LimitLocation::named("y")),
        ],
        ..BudgetFacts::default()
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
        let row = LimitRow::new(find_limit(name).unwrap(), Some(value), &facts);
        assert_eq!(row.measured, Some(value), "{name}");
        assert_eq!(row.place.as_ref().map_or("", |place| &place.name), place, "{name}");
        assert_eq!(
            row.verdict(),
            LimitVerdict::Within,
            "{name}: the limit itself is allowed"
        );
        let step = if row.limit.bound == LimitDirection::Most {
            -0.01
        } else {
            0.01
        };
        let tighter = LimitRow::new(row.limit, Some(value + step), &facts);
        assert_eq!(tighter.verdict(), LimitVerdict::Exceeded, "{name}");
    }
}

#[test]
fn nothing_is_not_zero() {
    let row = |name: &str| LimitRow::new(find_limit(name).unwrap(), Some(0.5), &BudgetFacts::default()).verdict();
    assert_eq!(row("min-cache-share"), LimitVerdict::NoData);
    assert_eq!(row("max-redundant-reads"), LimitVerdict::NoData);
    assert_eq!(row("max-session-cost"), LimitVerdict::NoData);
    assert_eq!(row("max-cost"), LimitVerdict::Within);
}

#[test]
fn a_limited_cost_must_be_known() {
    let names = |given: &[(&str, f64)]| {
        let given = given
            .iter()
            .map(|(name, value)| (find_limit(name).unwrap(), *value))
            .collect::<Vec<_>>();
        complete_limits(&given)
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
    assert!(LimitUnit::Usd.validate_value(-1.0).is_err());
    assert!(LimitUnit::Usd.validate_value(f64::NAN).is_err());
    assert!(LimitUnit::Count.validate_value(1.5).is_err());
    assert!(LimitUnit::Share.validate_value(1.5).is_err());
    assert_eq!(LimitUnit::Share.validate_value(1.0), Ok(1.0));
}
