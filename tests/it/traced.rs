//! Replays against events that were worked out by hand: `corpus/*/events.ndjson` under `corpus/*/policy.toml`.

use crate::fixture::{case, case_names, chains};
use backcast::views::events::event_json;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::Event;
use replay::sim::trace::Trace;
use replay::sim::{ReplayInput, ReplayMode, replay};
use replay::windows::{ProjectWindows, WindowQuery, infer_windows};
use serde_json::Value;

/// Events of all chains under a policy, as lines.
pub fn events(traces: &[Trace], policies: &PolicySet, mode: ReplayMode) -> Vec<Value> {
    let prices = PriceTable::built_in();
    let mut lines = Vec::new();
    for trace in traces {
        let by_version = trace
            .versions
            .iter()
            .map(|version| policies.for_version(Some(*version)));
        let by_version = by_version.collect::<Vec<_>>();
        let recall = by_version.first().map(|policy| prices.find(&policy.recall_model));
        let by_model = trace.models.iter().map(|model| prices.find(model)).chain(recall);
        let by_model = by_model.collect::<Vec<_>>();
        let query = WindowQuery {
            policies: &by_version,
            prices: &by_model,
            siblings: &ProjectWindows::default(),
        };
        let windows = infer_windows(trace, &query);
        let setting = ReplayInput {
            policies: &by_version,
            prices: &by_model,
            windows: &windows,
            summary: None,
            mode,
            uses: None,
            texts: None,
            key: 0,
        };
        let mut tell = |call: u32, event: &Event<'_>| lines.push(event_json(trace, call, event));
        replay(trace, &setting, &mut tell);
    }
    lines
}

fn is_call(line: &Value) -> bool {
    line["event"] == "called"
}

/// Returns whether every field of one object is in the other.
fn covers(actual: &Value, expected: &Value) -> bool {
    let fields = expected.as_object().expect("an object");
    fields.iter().all(|(key, value)| actual.get(key) == Some(value))
}

fn show(lines: &[&Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns the differences of a case; `None` if there are none.
fn check(name: &str) -> Result<(), String> {
    let folder = case(name);
    let text = std::fs::read_to_string(folder.join("policy.toml")).expect("a policy");
    let policies = PolicySet::from_toml("policy.toml", &text).expect("a policy");
    let actual = events(&chains(&folder), &policies, ReplayMode::Free);
    let expected = std::fs::read_to_string(folder.join("events.ndjson")).expect("events");
    let expected = expected
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect::<Vec<Value>>();
    let split = |lines: &'_ [Value], calls: bool| -> Vec<Value> {
        lines.iter().filter(|line| is_call(line) == calls).cloned().collect()
    };
    let (ours, theirs) = (split(&actual, false), split(&expected, false));
    let is_same = |ours: &[Value], theirs: &[Value]| {
        ours.len() == theirs.len() && std::iter::zip(ours, theirs).all(|(ours, theirs)| covers(ours, theirs))
    };
    if !is_same(&ours, &theirs) {
        let (ours, theirs) = (ours.iter().collect::<Vec<_>>(), theirs.iter().collect::<Vec<_>>());
        return Err(format!("expected\n{}but got\n{}", show(&theirs), show(&ours)));
    }
    let (ours, theirs) = (split(&actual, true), split(&expected, true));
    if !theirs.is_empty() && !is_same(&ours, &theirs) {
        let (ours, theirs) = (ours.iter().collect::<Vec<_>>(), theirs.iter().collect::<Vec<_>>());
        return Err(format!("expected the calls\n{}but got\n{}", show(&theirs), show(&ours)));
    }
    Ok(())
}

/// Names of the cases that have events.
fn traced() -> Vec<String> {
    let names = case_names().into_iter();
    names
        .filter(|name| case(name).join("events.ndjson").is_file())
        .collect()
}

#[test]
fn every_case_happens_as_worked_out_by_hand() {
    let names = traced();
    assert!(names.len() >= 30, "{names:?}");
    let wrong = names
        .iter()
        .filter_map(|name| Some((name, check(name).err()?)))
        .map(|(name, error)| format!("{name}: {error}"))
        .collect::<Vec<_>>();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns the rows of a table of docs/method.md between a mark and `<!-- end -->`: the cells of each.
fn table_rows(mark: &str) -> Vec<Vec<String>> {
    let path = format!("{}/docs/method.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("docs/method.md");
    let table = text
        .split(mark)
        .nth(1)
        .and_then(|rest| rest.split("<!-- end -->").next());
    let rows = table
        .expect("the mark")
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2);
    rows.map(|row| {
        row.trim_matches('|')
            .split(" | ")
            .map(|cell| cell.trim().to_owned())
            .collect()
    })
    .collect()
}

#[test]
fn every_case_of_the_coverage_table_exists() {
    let traced = traced();
    for row in table_rows("<!-- coverage -->") {
        let [mechanism, cases] = row.as_slice() else {
            panic!("{row:?}")
        };
        let cases = cases.split(", ").map(|case| case.trim_matches('`').to_owned());
        let cases = cases.collect::<Vec<_>>();
        let missing = cases.iter().filter(|case| !traced.contains(case)).collect::<Vec<_>>();
        assert!(
            !cases.is_empty() && missing.is_empty(),
            "{mechanism}: no traced case {missing:?}"
        );
    }
    let not_modeled = table_rows("<!-- not modeled -->");
    assert!(!not_modeled.is_empty() && not_modeled.len() <= 8);
    assert!(not_modeled.iter().all(|row| row.len() == 2 && row[1].len() > 20));
}
