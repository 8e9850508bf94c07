//! `backcast replay --compare`: two policies compared.

use crate::fixture::{FORMATS, Fixture, Run, case, corpus};
use serde_json::Value;
use std::path::Path;

fn compare(fixture: &Fixture, path: &Path, more: &[&str]) -> Run {
    let mut args = vec!["replay".into(), path.as_os_str().to_owned(), "--quiet".into()];
    args.extend(more.iter().map(Into::into));
    fixture.run(args).success()
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_policy_does_not_differ_from_itself() {
    let fixture = Fixture::new();
    let options = ["--policy=article", "--compare=article", "-f=json", "--no-cache"];
    let set = ["--set=window.tokens=60000", "--compare-set=window.tokens=60000"];
    let found = compare(&fixture, &corpus(), &[options.as_slice(), &set].concat()).json();
    let totals = &found["totals"];
    assert!(number(&totals["a"]["compactions"]) > 0);
    assert_eq!(totals["a"], totals["b"]);
    for (name, difference) in totals["difference"].as_object().unwrap() {
        assert_eq!(*difference, 0, "{name}");
    }
    let sessions = found["sessions"].as_array().unwrap();
    assert_eq!(found["limits"]["sessions_alike"], sessions.len());
    for session in sessions {
        for (name, value) in session.as_object().unwrap() {
            let is_difference = name.contains("_difference");
            assert!(!is_difference || value.is_null() || *value == 0, "{name}: {session}");
        }
        assert_eq!(session["why_cost"], Value::Null);
        assert_eq!(session["why_misses"], Value::Null);
    }
}

#[test]
fn never_compacts_less_and_misses_nothing() {
    let fixture = Fixture::new();
    let found = compare(&fixture, &corpus(), &["--compare=never", "-f=json", "--no-cache"]).json();
    assert_eq!(found["policies"], serde_json::json!(["recorded", "never"]));
    let totals = &found["totals"];
    assert!(number(&totals["a"]["compactions"]) > 0);
    assert_eq!(totals["b"]["compactions"], 0);
    assert_eq!(totals["b"]["misses"], 0);
    assert_eq!(totals["b"], found["bounds"]["never"]);
    assert!(number(&totals["difference"]["mean"]) > 0);
    let oracle = &found["bounds"]["oracle"];
    assert_eq!(oracle["misses"], 0);
    assert!(number(&oracle["mean"]) < number(&totals["a"]["mean"]));
}

#[test]
fn each_side_is_that_policy_replayed_alone() {
    let fixture = Fixture::new();
    let path = case("boundary-auto");
    let set = "window.percent=60";
    let both = ["--compare=recorded", "--compare-set", set, "-f=json", "--no-cache"];
    let found = compare(&fixture, &path, &both).json();
    for (side, more) in [("a", vec![]), ("b", vec!["--set", set])] {
        let alone = [more.as_slice(), &["--working-set", "-f=json", "--no-cache"]].concat();
        let alone = compare(&fixture, &path, &alone).json();
        let side = &found["totals"][side];
        assert_eq!(side["cost_micro_usd"], alone["cost_micro_usd"]);
        assert_eq!(side["mean"], alone["window"]["mean"]);
        assert_eq!(side["misses"], alone["working_set"]["misses"]);
        let causes = ["auto", "manual", "reactive"].map(|cause| number(&alone["boundaries"][cause]));
        assert_eq!(number(&side["compactions"]), causes.iter().sum::<i64>());
    }
}

#[test]
fn a_policy_has_the_same_figures_on_either_side() {
    let fixture = Fixture::new();
    let run = |first: &str, second: &str| {
        let options = [first, second, "-f=json", "--no-cache"];
        compare(&fixture, &corpus(), &options).json()
    };
    let there = run("--policy=article", "--compare=never");
    let back = run("--policy=never", "--compare=article");
    let never = run("--policy=never", "--compare=never");
    assert_eq!(there["totals"]["a"], back["totals"]["b"]);
    assert_eq!(there["totals"]["b"], back["totals"]["a"]);
    for found in [&there, &back, &never] {
        assert_eq!(found["bounds"]["never"], there["totals"]["b"]);
        assert_eq!(found["bounds"]["oracle"]["mean"], there["bounds"]["oracle"]["mean"]);
    }
    let misses = |found: &Value| found["bounds"]["oracle"]["misses_under_peak_window"].clone();
    assert_eq!(misses(&there)["a"], misses(&back)["b"]);
    assert_eq!(misses(&there)["b"], misses(&never)["a"]);
    assert_eq!(misses(&never)["a"], misses(&never)["b"]);
}

#[test]
fn output_is_the_same_for_any_number_of_threads() {
    let fixture = Fixture::new();
    for format in FORMATS {
        let bytes = ["--threads=1", "--threads=4"].map(|threads| {
            let options = ["--compare=article", "--compare-set=window.tokens=60000", "--no-cache"];
            let more = [options.as_slice(), &["-f", format, threads]].concat();
            compare(&fixture, &corpus(), &more).stdout
        });
        assert!(!bytes[0].is_empty());
        assert!(bytes[0] == bytes[1], "{format}");
    }
}

#[test]
fn the_folder_gets_the_rows_and_the_manifest_both_policies() {
    let fixture = Fixture::new();
    let out = fixture.path("run");
    let folder = out.to_str().unwrap();
    let options = ["--compare=never", "--out", folder, "-f=csv", "--no-cache"];
    let printed = compare(&fixture, &case("boundary-auto"), &options).stdout;
    assert!(std::fs::read(out.join("compare.csv")).unwrap() == printed);
    let manifest: Value = serde_json::from_slice(&std::fs::read(out.join("manifest.json")).unwrap()).unwrap();
    assert_eq!(manifest["policy"]["name"], "recorded");
    assert_eq!(manifest["compared_with"]["name"], "never");
    assert!(manifest["files"].as_array().unwrap().contains(&"compare.csv".into()));
}

#[test]
fn the_table_fits_eighty_columns() {
    let fixture = Fixture::new();
    for other in ["recorded", "article", "api-edits", "never"] {
        let options = ["--compare", other, "--compare-set=window.percent=30", "--no-cache"];
        for line in compare(&fixture, &corpus(), &options).text().lines() {
            assert!(line.chars().count() <= 80, "{other}: {line}");
        }
    }
}

#[test]
fn options_that_cannot_be_compared_are_refused() {
    let fixture = Fixture::new();
    let path = case("plain");
    let path = path.to_str().unwrap();
    let wrong: [(&[&str], &str); 3] = [
        (&["--compare=nevr"], "did you mean `never`?"),
        (&["--compare-set=window.percent=60"], "--compare"),
        (&["--compare=never", "--compare-set=window.percnt=60"], "window.percent"),
    ];
    for (options, said) in wrong {
        let run = fixture.run([&["replay", path], options].concat()).ended(2);
        assert!(run.stderr.contains(said), "{options:?}: {}", run.stderr);
    }
}
