//! The same sums by another road: `tests/check_usage.py`, a few lines of Python that know nothing of this program, on the
//! bundled logs and on real ones where a checkout has them beside it.

use crate::fixture::{FIGURES, Fixture, corpus, figures, real_logs};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// The independent count; `None`, with a note, where it cannot be made.
fn checked(folder: &Path) -> Option<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/check_usage.py");
    // With the machine's own environment: where Python lives is none of our business.
    let output = match Command::new("python3").arg(script).arg(folder).output() {
        Ok(output) => output,
        Err(error) => {
            eprintln!("skipped the independent count: python3 does not start: {error}");
            return None;
        }
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    if complaint.contains("zstd is not installed") {
        eprintln!("skipped the independent count of packed logs: zstd is not installed");
        return None;
    }
    assert!(output.status.success(), "{complaint}");
    Some(serde_json::from_slice(&output.stdout).expect("JSON"))
}

#[test]
fn bundled_logs_add_up_to_an_independent_count() {
    let stats = Fixture::new().stats(corpus(), &["--no-cache"]);
    if let Some(checked) = checked(&corpus()) {
        assert_eq!(figures(&stats["totals"]), figures(&checked), "{FIGURES:?}");
    }
}

#[test]
fn generated_logs_add_up_to_an_independent_count() {
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = ["synth", "bulk", "--bytes=3MiB", "--files=12", "--seed=11", "--out"];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let stats = fixture.stats(&out, &["--no-cache"]);
    if let Some(checked) = checked(&out) {
        assert_eq!(figures(&stats["totals"]), figures(&checked), "{FIGURES:?}");
    }
}

/// One run over all real logs serves both questions, because it is a long one.
#[test]
fn real_logs_add_up_and_are_predicted_well() {
    let Some(folder) = real_logs() else {
        eprintln!("skipped: no real logs in ../shared/transcripts");
        return;
    };
    let stats = Fixture::new().stats(&folder, &["--no-cache", "--quality", "--problems"]);
    if let Some(checked) = checked(&folder) {
        assert_eq!(figures(&stats["totals"]), figures(&checked), "{FIGURES:?}");
    }
    every_line_is_used_or_explained(&stats);

    let families = stats["quality"]["families"].as_array().expect("families");
    let all = families
        .iter()
        .find(|row| row["family"] == "all")
        .expect("a row for all families");
    assert!(all["rounds"].as_u64() > Some(1_000), "{all}");
    assert!(all["median_error"].as_f64().expect("a number") <= 45.0, "{all}");
    assert!(all["p95_relative_error"].as_f64().expect("a number") <= 0.007, "{all}");
}

/// A line is a record, several of them (a problem that says so), or a problem. Blank lines, which real logs have none of,
/// would be neither.
fn every_line_is_used_or_explained(stats: &Value) {
    let number = |value: &Value| value.as_u64().expect("a count");
    let lines = number(&stats["input"]["lines"]);
    let records = stats["input"]["records"]
        .as_object()
        .expect("an object")
        .values()
        .map(number)
        .sum::<u64>();
    let problems = stats["problems"]["by_kind"].as_object().expect("an object");
    let count = |kinds: &[&str]| {
        kinds
            .iter()
            .filter_map(|kind| problems.get(*kind))
            .map(number)
            .sum::<u64>()
    };
    let refused = count(&[
        "malformed",
        "not-an-object",
        "too-deep",
        "only-nul",
        "too-long",
        "torn-tail",
    ]);
    let several = count(&["records-split"]);
    let used = lines - refused;
    if several == 0 {
        assert_eq!(records, used);
    } else {
        // Each split line holds two records or more.
        assert!(
            records >= used + several,
            "{records} records, {used} lines, {several} of them with several"
        );
    }
    for unread in ["unreadable", "special-file", "broken-stream"] {
        assert!(!problems.contains_key(unread), "{unread}");
    }
    let named = stats["problems"]["list"].as_array().expect("a list").len();
    assert_eq!(stats["problems"]["total"], named);
}

/// What benchmarks on generated logs depend on: bytes a line, and shares of kinds of records and of tools.
fn mix(stats: &Value, by_tool: &Value) -> Vec<(String, f64)> {
    let number = |value: &Value| value.as_f64().unwrap_or(0.0);
    let lines = number(&stats["input"]["lines"]);
    let mut mix = vec![("bytes a line".to_owned(), number(&stats["input"]["bytes"]) / lines)];
    let records = &stats["input"]["records"];
    for kind in ["user", "assistant"] {
        mix.push((kind.to_owned(), number(&records[kind]) / lines));
    }
    mix.push(("calls".to_owned(), number(&stats["totals"]["responses"]) / lines));
    let tools = by_tool["rows"].as_array().expect("rows");
    let calls = |tool: &Value| number(&tool["calls"]);
    let all = tools.iter().map(calls).sum::<f64>();
    for name in ["Bash", "Read", "Edit", "Grep"] {
        let of = tools.iter().filter(|tool| tool["tool"] == name).map(calls).sum::<f64>();
        mix.push((name.to_owned(), of / all));
    }
    mix
}

#[test]
fn generated_sessions_are_like_recorded_ones() {
    let Some(folder) = real_logs() else {
        eprintln!("no recorded logs beside this checkout: not compared");
        return;
    };
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = ["synth", "bulk", "--bytes=48MiB", "--files=120", "--seed=1", "--out"];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let [recorded, generated] =
        [folder, out].map(|logs| mix(&fixture.stats(&logs, &[]), &fixture.stats(&logs, &["--by=tool"])));
    for ((name, recorded), (_, generated)) in std::iter::zip(recorded, generated) {
        let ratio = generated / recorded;
        assert!(
            (0.7..1.4).contains(&ratio),
            "{name}: {generated:.3}, recorded {recorded:.3}"
        );
    }
}
