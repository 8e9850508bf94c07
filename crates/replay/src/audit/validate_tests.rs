//! Predictions without a recorded compaction, on small logs. The client of these versions compacts a window of 200,000 at
//! 155,000.

use super::*;
use crate::audit::sample::{script_log, with_chain};

/// Returns the verdicts of a script's cases, with reasons.
fn verdicts(script: &str) -> Vec<(&'static str, Option<&'static str>)> {
    with_chain(script_log("2.1.7", script), "", |chain, _, _| {
        let found = validate(chain.trace, chain.policies, chain.prices, chain.windows);
        let cases = found.cases.iter();
        cases
            .map(|case| (case.verdict.name(), case.reason.map(UndecidableReason::name)))
            .collect()
    })
}

#[test]
fn a_single_prediction_that_the_client_did_not_follow_is_spurious() {
    assert_eq!(verdicts("u a:150000:6000 u a:156500:10"), [("spurious", None)]);
}

#[test]
fn automatic_compaction_that_is_off_is_no_wrong_prediction() {
    assert_eq!(
        verdicts("u a:154000:2000 u a:160000:100 u a:165000:100 u a:170000:10"),
        [("undecidable", Some("not-in-force"))]
    );
}

#[test]
fn a_prompt_that_lost_its_history_shows_an_unrecorded_compaction() {
    assert_eq!(
        verdicts("u a:150000:6000 u a:40000:10 u a:41000:10"),
        [("unrecorded", None)]
    );
}

/// Calls far above the threshold, and then a compaction.
const HIGHER: &str = "u a:154000:2000 u a:160000:100 u a:165000:100 u a:170000:10 u auto:170012 s a:40000:10";

#[test]
fn a_compaction_after_calls_above_the_threshold_was_that_of_another_one() {
    assert_eq!(verdicts(HIGHER), [("undecidable", Some("not-in-force"))]);
}

#[test]
fn under_another_policy_a_prediction_before_a_compaction_is_early() {
    let script = "u a:100000:10 u a:120000:10 u a:155000:10 u auto:155012 s a:40000:10";
    assert_eq!(verdicts(script), [("exact", None)]);
    with_chain(
        script_log("2.1.7", script),
        "window.percent=50",
        |chain, _, with_setting| {
            let found = validate(chain.trace, with_setting, chain.prices, chain.windows);
            let verdicts = found.cases.iter().map(|case| case.verdict).collect::<Vec<_>>();
            assert_eq!(verdicts, [CaseVerdict::Early]);
        },
    );
}
