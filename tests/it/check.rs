//! `backcast check`: limits, where they come from, how they end a run, and the formats of CI systems.

use crate::fixture::{Fixture, Run, case, corpus};
use serde_json::Value;

fn check(fixture: &Fixture, more: &[&str]) -> Run {
    let corpus = corpus().display().to_string();
    fixture.run(["check", &corpus, "--no-cache", "--quiet"].iter().chain(more))
}

/// The measured value of a limit.
fn measured(document: &Value, name: &str) -> f64 {
    let limits = document["limits"].as_array().expect("limits");
    let found = limits.iter().find(|limit| limit["limit"] == name).expect(name);
    found["measured"].as_f64().expect("a number")
}

#[test]
fn measures_are_those_of_the_other_commands() {
    let fixture = Fixture::new();
    let all = check(&fixture, &["--all", "-f", "json"]).success().json();
    let stats = fixture.stats(corpus(), &["--no-cache"]);
    let dollars = |micro: &Value| micro.as_f64().expect("a cost") / 1e6;
    assert_eq!(measured(&all, "max-cost"), dollars(&stats["totals"]["cost_micro_usd"]));
    let rows = stats["rows"].as_array().expect("rows");
    let most = |name: &str| rows.iter().filter_map(|row| row[name].as_f64()).fold(0.0, f64::max);
    assert_eq!(measured(&all, "max-session-cost"), most("cost_micro_usd") / 1e6);
    assert_eq!(measured(&all, "max-peak"), most("context_peak"));
    assert_eq!(
        measured(&all, "max-unpriced"),
        stats["totals"]["unpriced_responses"].as_f64().expect("a count")
    );
    let days = fixture.stats(corpus(), &["--no-cache", "--by=day"]);
    let days = days["rows"].as_array().expect("days");
    let day = days
        .iter()
        .filter_map(|row| row["cost_micro_usd"].as_f64())
        .fold(0.0, f64::max);
    assert_eq!(measured(&all, "max-day-cost"), day / 1e6);
    let problems = &stats["problems"]["total"];
    assert_eq!(measured(&all, "max-problems"), problems.as_f64().expect("a count"));

    let corpus = corpus().display().to_string();
    let audit = fixture
        .run(["audit", &corpus, "--no-cache", "-f", "json"])
        .success()
        .json();
    assert_eq!(
        measured(&all, "max-net-negative"),
        audit["totals"]["net_negative"].as_f64().expect("a count")
    );
    let boundaries = audit["boundaries"].as_array().expect("boundaries");
    let again = boundaries
        .iter()
        .filter(|row| row["recompaction"] == true && row["kind"] != "micro");
    assert_eq!(measured(&all, "max-recompactions"), again.count() as f64);
    let validate = fixture
        .run(["validate", &corpus, "--no-cache", "-f", "json"])
        .success()
        .json();
    assert_eq!(
        measured(&all, "max-cache-misses"),
        validate["cost_error"]["unexplained_misses"].as_f64().expect("a count")
    );
}

#[test]
fn a_limit_decides_how_the_run_ends() {
    let fixture = Fixture::new();
    check(&fixture, &["--max-net-negative", "3"]).success();
    let over = check(&fixture, &["--max-net-negative", "2"]).ended(1);
    assert!(over.text().contains("exceeded"), "{}", over.text());
    // A cost that lacks the price of a call is not within a limit.
    let unpriced = check(&fixture, &["--max-cost", "10000"]).ended(1);
    assert!(unpriced.text().contains("max-unpriced"), "{}", unpriced.text());
    check(&fixture, &["--max-cost", "10000", "--max-unpriced", "17"]).success();
    check(&fixture, &["--min-cache-share", "0.99"]).ended(1);
    check(&fixture, &["--min-cache-share", "0.1"]).success();
    // Lost input under --strict wins over an exceeded limit.
    check(&fixture, &["--max-net-negative", "2", "--strict"]).ended(3);
}

#[test]
fn limits_come_from_a_file_and_the_command_line_goes_before() {
    let fixture = Fixture::new();
    let file = fixture.write("limits.toml", "max-net-negative = 2\nmax-lost = 100\n");
    let file = format!("--limits={}", file.display());
    check(&fixture, &[&file]).ended(1);
    let both = check(&fixture, &[&file, "--max-net-negative=3", "-f=json"])
        .success()
        .json();
    assert_eq!(both["limits_set"], 2);
    let wrong = fixture.write("wrong.toml", "max-net-negatives = 2\n");
    let wrong = check(&fixture, &[&format!("--limits={}", wrong.display())]).ended(2);
    assert!(
        wrong.stderr.contains("the nearest is `max-net-negative`"),
        "{}",
        wrong.stderr
    );
}

#[test]
fn a_run_without_a_limit_is_wrong_usage() {
    let fixture = Fixture::new();
    let nothing = check(&fixture, &[]).ended(2);
    assert!(nothing.stderr.contains("check --all"), "{}", nothing.stderr);
    let all = check(&fixture, &["--all"]).success();
    assert!(all.text().contains("nothing was judged"), "{}", all.text());
    let setting = check(&fixture, &["--max-without-effect", "0"]).ended(2);
    assert!(setting.stderr.contains("--client-env"), "{}", setting.stderr);
}

#[test]
fn a_setting_without_effect_exceeds_its_limit() {
    let fixture = Fixture::new();
    let auto = case("boundary-auto").display().to_string();
    let of = |more: &[&str]| fixture.run(["check", &auto, "--no-cache"].iter().chain(more));
    // These sessions compacted at their usual thresholds, far above 30 %.
    of(&["--set", "window.percent=30", "--max-without-effect", "0"]).ended(1);
    of(&["--set", "window.percent=100", "--max-without-effect", "0"]).success();
}

#[test]
fn a_window_of_the_clients_settings_that_shows_no_effect_exceeds_the_limit() {
    let fixture = Fixture::new();
    let auto = case("boundary-auto").display().to_string();
    let status = |settings: &str, status: i32| {
        fixture.write("home/.claude/settings.json", settings);
        let arguments = [
            "check",
            &auto,
            "--no-cache",
            "--client-env",
            "--max-without-effect",
            "0",
        ];
        let mut command = fixture.command(arguments);
        command.env("CLAUDE_CONFIG_DIR", fixture.path("home/.claude"));
        Run::of(command).ended(status);
    };
    // These sessions compacted far above 67,000.
    status(r#"{"autoCompactWindow": 100000}"#, 1);
    // The window of another model does not concern them.
    status(
        r#"{"autoCompactWindow": 1000000, "modelSettings": {"claude-other": {"autoCompactWindow": 100000}}}"#,
        0,
    );
}

#[test]
fn times_select_what_is_checked() {
    let fixture = Fixture::new();
    let cost = |more: &[&str]| {
        let all = ["--all", "-f", "json"];
        let more = all.iter().chain(more).copied().collect::<Vec<_>>();
        measured(&check(&fixture, &more).success().json(), "max-cost")
    };
    let boundaries = |more: &[&str]| {
        let more = ["--all", "-f", "json"].iter().chain(more).copied().collect::<Vec<_>>();
        measured(&check(&fixture, &more).success().json(), "max-net-negative")
    };
    let (all, early, late) = (cost(&[]), cost(&["--until=2026-03-31"]), cost(&["--since=2026-04-01"]));
    assert!(early > 0.0 && late > 0.0 && (early + late - all).abs() < 1e-3);
    assert_eq!(
        boundaries(&["--until=2026-03-31"]) + boundaries(&["--since=2026-04-01"]),
        boundaries(&[])
    );
    let week = cost(&["--last=7"]);
    assert!(week > 0.0 && week < all);
    check(&fixture, &["--max-cost=1", "--last=7", "--since=2026-01-01"]).ended(2);
}

#[test]
fn findings_are_written_in_the_formats_of_ci_systems() {
    let fixture = Fixture::new();
    let github = check(&fixture, &["--max-net-negative=2", "--max-lost=99", "-f=github"]).ended(1);
    let lines = github.text().lines().collect::<Vec<_>>();
    assert_eq!(lines.len(), 1, "{}", github.text());
    assert!(lines[0].starts_with("::error file="), "{}", lines[0]);
    assert!(lines[0].contains(",title=max-net-negative exceeded::"), "{}", lines[0]);
    let junit = check(&fixture, &["--max-net-negative=2", "--max-lost=99", "-f=junit"]).ended(1);
    assert!(junit.text().contains("tests=\"2\" failures=\"1\""), "{}", junit.text());
    let csv = check(&fixture, &["--max-lost=99", "-f=csv"]).success();
    assert!(
        csv.text()
            .starts_with("schema_version,limit,unit,allowed,measured,verdict"),
        "{}",
        csv.text()
    );
}

#[test]
fn problems_become_annotations_on_request() {
    let fixture = Fixture::new();
    let log = case("garbage-line").display().to_string();
    let run = fixture.run(["stats", &log, "--annotate"]).success();
    let line = run.stderr.lines().next().expect("an annotation");
    assert!(line.starts_with("::warning file="), "{line}");
    assert!(line.contains(",line=4,title=malformed::not JSON"), "{line}");
}

#[test]
fn validate_writes_junit_and_github_formats() {
    let fixture = Fixture::new();
    let corpus = corpus().display().to_string();
    let of = |more: &[&str]| {
        fixture
            .run(["validate", &corpus, "--no-cache", "--quiet"].iter().chain(more))
            .success()
    };
    let junit = of(&["-f", "junit"]);
    assert!(
        junit.text().contains("failures=\"0\" errors=\"0\" skipped=\"7\""),
        "{}",
        junit.text()
    );
    assert_eq!(of(&["-f", "github"]).text(), "", "all that can be judged are exact");
    // A policy that never compacts misses them.
    let missed = of(&[
        "-f",
        "github",
        "--policy",
        "client-2.1.30",
        "--set",
        "switch.auto=false",
    ]);
    assert!(
        missed.text().contains(" compaction missed::missed: "),
        "{}",
        missed.text()
    );
}

#[test]
fn memory_check_writes_junit() {
    let fixture = Fixture::new();
    let words = case("lasting-words").display().to_string();
    fixture.run(["memory", "extract", &words, "--dir", "memory"]).success();
    let good = fixture
        .run(["memory", "check", "--dir", "memory", "-f", "junit"])
        .success();
    assert!(good.text().contains("failures=\"0\""), "{}", good.text());
    fixture.write("memory/stray.md", "no frontmatter\n");
    let bad = fixture
        .run(["memory", "check", "--dir", "memory", "-f", "junit"])
        .ended(1);
    assert!(bad.text().contains("name=\"stray.md\">"), "{}", bad.text());
}
