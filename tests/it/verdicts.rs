//! Verdicts of `validate` against what was worked out by hand: `corpus/*/cases.ndjson`.

use crate::fixture::{case, case_names, chains};
use replay::audit::validate::{UndecidableReason, validate};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::policies_and_prices;
use replay::sim::trace::Trace;
use replay::windows::{ProjectWindows, WindowQuery, infer_windows};
use serde_json::{Value, json};

/// Returns the verdicts on a trace.
fn verdicts(trace: &Trace) -> Vec<Value> {
    let policies = PolicySet::preset("recorded").expect("a preset");
    let (by_version, by_model) = policies_and_prices(&policies, PriceTable::built_in(), trace);
    let query = WindowQuery {
        policies: &by_version,
        prices: &by_model,
        siblings: &ProjectWindows::default(),
    };
    let windows = infer_windows(trace, &query);
    let cases = validate(trace, &by_version, &by_model, &windows).cases.into_iter();
    let cases = cases.map(|case| {
        json!({
            "mechanism": case.mechanism.name(),
            "verdict": case.verdict.name(),
            "reason": case.reason.map(UndecidableReason::name),
            "call": case.call,
            "recorded": case.recorded,
            "predicted": case.predicted,
            "threshold": case.threshold,
            "window": case.window.tokens,
            "window_grounds": case.window.grounds.name(),
        })
    });
    cases.collect()
}

fn check(name: &str) -> Result<(), String> {
    let folder = case(name);
    let expected = std::fs::read_to_string(folder.join("cases.ndjson")).expect("cases");
    let expected = expected
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<Value>>();
    let actual = chains(&folder).iter().flat_map(verdicts).collect::<Vec<_>>();
    let covers = |actual: &Value, expected: &Value| {
        let fields = expected.as_object().expect("an object");
        fields.iter().all(|(key, value)| actual.get(key) == Some(value))
    };
    let is_same =
        actual.len() == expected.len() && std::iter::zip(&actual, &expected).all(|(ours, theirs)| covers(ours, theirs));
    let show = |lines: &[Value]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    match is_same {
        true => Ok(()),
        false => Err(format!("expected\n{}but got\n{}", show(&expected), show(&actual))),
    }
}

#[test]
fn every_boundary_is_judged_as_worked_out_by_hand() {
    let has_cases = |name: &String| case(name).join("cases.ndjson").is_file();
    let names = case_names().into_iter().filter(has_cases).collect::<Vec<_>>();
    assert!(names.len() >= 11, "{names:?}");
    let wrong = names
        .iter()
        .filter_map(|name| Some((name, check(name).err()?)))
        .map(|(name, error)| format!("{name}: {error}"))
        .collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn history_before_the_first_record_is_not_part_of_the_base() {
    let traces = chains(&case("client-mid-session"));
    assert_eq!(traces.iter().map(|trace| trace.base).collect::<Vec<_>>(), [26_000]);
    assert!(!traces[0].base_is_known);
}
