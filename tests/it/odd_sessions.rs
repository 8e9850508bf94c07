//! Replays of odd sessions: never a panic, never a defect, and totals that make sense.

use crate::fixture::{case, case_names, chains, library_stats};
use crate::traced::events;
use replay::policy::presets::PolicySet;
use replay::sim::ReplayMode;
use replay::sim::trace::Trace;
use serde_json::Value;

const PRESETS: [&str; 4] = ["article", "recorded", "api-edits", "never"];

/// Replays traces under every preset in both modes; `check` sees the events.
fn replay_all(name: &str, traces: &[Trace], check: impl Fn(&str, &[Value])) {
    for preset in PRESETS {
        let policies = PolicySet::preset(preset).expect("a preset");
        for mode in [ReplayMode::Follow, ReplayMode::Free] {
            let found = events(traces, &policies, mode);
            check(&format!("{name}, {preset}, {mode:?}"), &found);
            assert_eq!(
                events(traces, &policies, mode),
                found,
                "{name}, {preset}, {mode:?}: again"
            );
        }
    }
}

fn number(line: &Value, key: &str) -> i64 {
    line[key].as_i64().unwrap_or_else(|| panic!("no {key} in {line}"))
}

/// Checks what holds for every event.
fn check_sane(place: &str, events: &[Value]) {
    for line in events {
        assert_ne!(line["event"], "defect", "{place}: {line}");
        if line["event"] == "called" {
            let parts = line["parts"].as_object().expect("parts").values();
            let parts = parts.map(|tokens| tokens.as_i64().expect("tokens")).sum::<i64>();
            let whole = parts + number(line, "base") + number(line, "drift");
            assert_eq!(whole.max(0), number(line, "window"), "{place}: {line}");
            let window = ["input", "cache_read", "cache_write_5m", "cache_write_1h"];
            let window = window.map(|key| number(line, key)).iter().sum::<i64>();
            assert_eq!(window, number(line, "window"), "{place}: {line}");
            assert!(window < 2_000_000, "{place}: {line}");
        }
    }
}

/// Checks that all calls are made: none of these sessions is near a limit.
fn check_small(name: &str, traces: &[Trace]) {
    let calls = traces.iter().map(|trace| trace.calls.len()).sum::<usize>();
    replay_all(name, traces, |place, events| {
        check_sane(place, events);
        let called = events.iter().filter(|line| line["event"] == "called").count();
        assert_eq!(called, calls, "{place}");
    });
}

#[test]
fn odd_sessions_are_replayed_with_their_problems_noted() {
    for (name, calls, problems) in [
        ("garbage-line", 3, &["malformed"][..]),
        ("missing-parent", 2, &["missing-parent"]),
        ("parent-cycle", 2, &["parent-cycle"]),
        ("clock-backwards", 3, &[]),
        ("two-leaves", 3, &[]),
        ("no-usage", 2, &[]),
        ("empty-file", 1, &[]),
    ] {
        let traces = chains(&case(name));
        let found = traces.iter().map(|trace| trace.calls.len()).sum::<usize>();
        assert_eq!(found, calls, "{name}");
        let noted = library_stats(&case(name)).problems;
        let noted = noted.iter().map(|problem| problem.kind.name()).collect::<Vec<_>>();
        assert_eq!(noted, problems, "{name}");
        check_small(name, &traces);
    }
}

#[test]
fn a_call_without_usage_gets_the_estimate_of_its_items() {
    let traces = chains(&case("no-usage"));
    let calls = traces.iter().flat_map(|trace| &trace.calls);
    assert!(calls.into_iter().any(|call| call.usage.is_none()));
    replay_all("no-usage", &traces, |place, events| {
        let called = events.iter().filter(|line| line["event"] == "called");
        let windows = called.map(|line| number(line, "window")).collect::<Vec<_>>();
        assert!(windows.iter().all(|window| *window > 0), "{place}: {windows:?}");
    });
}

#[test]
fn a_clock_that_runs_backwards_expires_nothing() {
    let traces = chains(&case("clock-backwards"));
    replay_all("clock-backwards", &traces, |place, events| {
        let called = events.iter().filter(|line| line["event"] == "called");
        let misses = called.map(|line| &line["miss"]).collect::<Vec<_>>();
        // Two hours back, then four hours on.
        assert_ne!(misses[1], "expired", "{place}");
        assert_eq!(misses[2], "expired", "{place}");
    });
}

#[test]
fn every_bundled_session_is_replayed_without_a_defect() {
    for name in case_names() {
        replay_all(&name, &chains(&case(&name)), check_sane);
    }
}
