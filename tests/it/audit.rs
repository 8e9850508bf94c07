//! `audit`: every recorded boundary of the bundled logs, in every format, the same for any number of threads.

use crate::fixture::{FORMATS, Fixture, Run, case, corpus};
use serde_json::Value;
use std::ffi::OsString;
use std::path::PathBuf;

fn audit(fixture: &Fixture, path: PathBuf, more: &[&str]) -> Run {
    let mut args = vec![OsString::from("audit"), path.into_os_string(), "--quiet".into()];
    args.extend(more.iter().map(OsString::from));
    fixture.run(args).success()
}

fn document(path: PathBuf, more: &[&str]) -> Value {
    let more = [&["--format=json"], more].concat();
    audit(&Fixture::new(), path, &more).json()
}

/// The only boundary of a case.
fn boundary(name: &str) -> Value {
    let document = document(case(name), &[]);
    let boundaries = document["boundaries"].as_array().expect("a list");
    assert_eq!(boundaries.len(), 1, "{name}");
    boundaries[0].clone()
}

#[test]
fn every_boundary_of_the_corpus_is_there() {
    let document = document(corpus(), &[]);
    let totals = &document["totals"];
    assert_eq!(document["schema_version"], 1);
    assert_eq!(totals["automatic"], 25);
    assert_eq!(totals["manual"], 6);
    assert_eq!(totals["micro"], 3);
    assert_eq!(totals["boundaries"], 34);
    assert_eq!(document["boundaries"].as_array().map(Vec::len), Some(34));
    assert_eq!(totals["net_negative"], 3);
    assert_eq!(document["setting"], Value::Null);
    assert!(document["problems"]["total"].is_u64());
}

#[test]
fn automatic_boundaries_come_at_the_threshold_of_their_version() {
    let document = document(case("boundary-auto"), &[]);
    let boundaries = document["boundaries"].as_array().expect("a list");
    let thresholds = boundaries.iter().map(|boundary| boundary["threshold_tokens"].as_u64());
    assert_eq!(thresholds.collect::<Vec<_>>(), [Some(155_000), Some(167_000)]);
    for boundary in boundaries {
        let number = |name: &str| boundary[name].as_i64().expect("a number");
        assert!((0..5_000).contains(&number("over_tokens")), "{boundary}");
        assert_eq!(number("freed_tokens"), number("window_before") - number("window_after"));
        assert_eq!(boundary["net_negative"], false);
        assert_eq!(boundary["trigger"], "auto");
        assert_eq!(boundary["kind"], "full");
    }
    let verdicts = document["thresholds"].as_array().expect("a list").iter();
    assert!(verdicts.clone().count() >= 2);
    for group in verdicts {
        assert_eq!(group["verdict"], "as expected", "{group}");
        assert!(
            group["highest_unfired"].as_u64() < group["lowest_fired"].as_u64(),
            "{group}"
        );
    }
}

#[test]
fn each_kind_of_boundary_has_its_own_fields() {
    let micro = boundary("boundary-micro");
    assert_eq!(micro["kind"], "micro");
    assert!(micro["cleared_results"].as_u64() > Some(0));
    assert!(micro["saved_tokens"].as_u64() > Some(0));
    for missing in ["summary_tokens", "rebuilt_tokens", "took_ms", "threshold_tokens"] {
        assert_eq!(micro[missing], Value::Null, "{missing}");
    }
    assert_eq!(boundary("boundary-manual")["trigger"], "manual");
    assert_eq!(boundary("preserved-segment")["kind"], "partial");
    let lost = boundary("boundary-lost-parent");
    assert_eq!(lost["leaf_known"], false);
    assert!(lost["line"].as_u64() > Some(1));
}

#[test]
fn a_session_without_a_boundary_is_still_evidence() {
    let document = document(case("above-200k"), &[]);
    assert_eq!(document["totals"]["boundaries"], 0);
    assert_eq!(document["totals"]["took_ms"], Value::Null);
    assert_eq!(document["thresholds"][0]["window_tokens"], 1_000_000);
    assert_eq!(document["thresholds"][0]["verdict"], "no evidence");
    let text = audit(&Fixture::new(), case("above-200k"), &[]);
    assert!(
        text.text().starts_with("No compaction is recorded in 1 session.\n"),
        "{}",
        text.text()
    );
}

#[test]
fn the_effect_of_a_setting_is_judged_per_session() {
    let effects = |more: &[&str]| document(case("boundary-auto"), more)["setting"]["effects"].clone();
    // One call before each boundary, and it is past both thresholds.
    assert_eq!(effects(&["--set=window.percent=50"])["undecided"], 2);
    assert_eq!(effects(&["--set=window.percent=99"])["makes_no_difference"], 2);
    assert_eq!(effects(&["--set=switch.auto=false"])["did_not_take_effect"], 2);
    assert_eq!(effects(&["--set=window.percent=none"]), Value::Null);
    let fixture = Fixture::new();
    let run = |percent: Option<&str>| {
        let mut command = fixture.command([
            OsString::from("audit"),
            case("boundary-auto").into(),
            "--client-env".into(),
        ]);
        command.envs(percent.map(|percent| ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", percent)));
        Run::of(command).success()
    };
    let none = run(None);
    assert!(
        none.text().contains("Your settings leave the threshold as it is."),
        "{}",
        none.text()
    );
    let some = run(Some("50"));
    assert!(
        some.text()
            .contains("Setting: window.percent=50.0 (CLAUDE_AUTOCOMPACT_PCT_OVERRIDE)"),
        "{}",
        some.text()
    );
    assert!(some.text().contains("2  sessions: undecided"), "{}", some.text());
}

#[test]
fn the_screen_has_eighty_columns_and_few_lines() {
    for more in [&[][..], &["--set=window.percent=50"], &["--top=0"]] {
        let run = audit(&Fixture::new(), corpus(), more);
        assert!(run.text().lines().count() <= 96, "{}", run.text());
        for line in run.text().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}

#[test]
fn formats_hold_the_same_rows_for_any_number_of_threads() {
    let fixture = Fixture::new();
    for format in FORMATS {
        let format = format!("--format={format}");
        let one = audit(&fixture, corpus(), &[&format, "--threads=1", "--no-cache"]);
        let several = audit(&fixture, corpus(), &[&format, "--threads=5"]);
        let again = audit(&fixture, corpus(), &[&format]);
        assert!(one.stdout == several.stdout && one.stdout == again.stdout, "{format}");
    }
    let lines = audit(&fixture, corpus(), &["--format=jsonl"]);
    assert_eq!(lines.text().lines().count(), 34);
    let csv = audit(&fixture, corpus(), &["--format=csv"]);
    assert_eq!(csv.text().lines().count(), 35);
    assert!(
        csv.text()
            .starts_with("schema_version,session,agent,coding_agent,project,time,"),
        "{}",
        csv.text()
    );
}

/// The client reads the last 16 KB of a log for title and tag when a session is resumed.
#[test]
fn titles_that_a_resume_would_miss_are_listed() {
    let title = |session: &str| {
        format!("{{\"type\":\"custom-title\",\"customTitle\":\"Apples\",\"sessionId\":\"{session}\"}}\n")
    };
    let tag = |session: &str| format!("{{\"type\":\"tag\",\"tag\":\"harvest\",\"sessionId\":\"{session}\"}}\n");
    let prompt = |session: &str, text: &str| {
        format!(
            "{{\"type\":\"user\",\"uuid\":\"u-{session}-{}\",\"parentUuid\":null,\"sessionId\":\"{session}\",\"version\":\"2.1.100\",\"timestamp\":\"2026-07-01T10:00:00.000Z\",\"message\":{{\"role\":\"user\",\"content\":\"{text}\"}}}}\n",
            text.len()
        )
    };
    let long = "count the apples ".repeat(1_200);
    let fixture = Fixture::new();
    let lost = [title("lost"), tag("lost"), prompt("lost", &long), tag("lost")].concat();
    fixture.write("logs/project/lost.jsonl", lost);
    let kept = [title("kept"), prompt("kept", &long), title("kept")].concat();
    fixture.write("logs/project/kept.jsonl", kept);
    let short = [title("short"), prompt("short", "count")].concat();
    fixture.write("logs/project/short.jsonl", short);
    let found = document(fixture.path("logs"), &[]);
    let expected = serde_json::json!([{"session": "lost", "what": "title"}]);
    assert_eq!(found["missed_titles"], expected);
    let text = audit(&fixture, fixture.path("logs"), &[]);
    assert!(
        text.text().contains("A resume may miss the title or tag of 1 session"),
        "{}",
        text.text()
    );
}
