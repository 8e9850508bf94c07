//! `backcast validate` on the bundled logs: predicted boundaries against recorded ones. Recorded logs: `recorded.rs`.

use crate::fixture::{Fixture, case, corpus};
use serde_json::Value;
use std::path::Path;

/// Runs `validate -f json`.
fn validate(path: &Path, more: &[&str]) -> Value {
    let fixture = Fixture::new();
    let mut args = vec![
        "validate".into(),
        path.as_os_str().to_owned(),
        "-f".into(),
        "json".into(),
        "--no-cache".into(),
    ];
    args.extend(more.iter().map(Into::into));
    fixture.run(args).success().json()
}

#[test]
fn the_document_has_every_field_and_counts_its_cases() {
    let document = validate(&corpus(), &[]);
    assert_eq!(document["schema_version"], 1);
    for (object, names) in [
        (
            "auto",
            &["recorded", "decidable", "exact", "early", "late", "missed", "spurious"][..],
        ),
        ("micro", &["recorded", "exact_ids", "missed", "spurious"]),
        ("pre_tokens_error", &["p50", "p95"]),
        ("cost_error", &["total", "p90"]),
    ] {
        for name in names {
            assert!(document[object][name].is_number(), "{object}.{name}");
        }
    }
    assert!(document["calls"].as_u64() > Some(100));
    assert!(document["by_version"].as_array().is_some_and(|list| !list.is_empty()));
    let cases = document["cases"].as_array().unwrap();
    // Codex records no tokens before a compaction.
    let recorded = |mechanism: &str| {
        let of = cases.iter().filter(|case| {
            case["mechanism"] == mechanism && (!case["recorded_tokens"].is_null() || case["verdict"] == "within-margin")
        });
        of.count() as u64
    };
    assert_eq!(document["auto"]["recorded"], recorded("auto"));
}

#[test]
fn boundaries_of_the_bundled_logs_are_predicted() {
    let auto = validate(&case("boundary-auto"), &[]);
    assert_eq!(auto["auto"]["recorded"], 2);
    assert_eq!(auto["auto"]["exact"], 2);
    assert_eq!(auto["auto"]["spurious"], 0);
    let micro = validate(&case("boundary-micro"), &[]);
    assert_eq!(micro["micro"]["recorded"], 1);
    assert_eq!(micro["micro"]["exact_ids"], 1);
    let kept = validate(&case("preserved-segment"), &[]);
    assert_eq!(kept["auto"]["exact"], 1);
    let lost = validate(&case("boundary-lost-parent"), &[]);
    assert_eq!(lost["auto"]["decidable"], 0);
    assert_eq!(lost["cases"][0]["reason"], "leaf-missing");
}

#[test]
fn a_wrong_policy_predicts_wrong_boundaries() {
    let high = validate(&case("boundary-auto"), &["--set", "window.buffer=0"]);
    assert_eq!(high["auto"]["exact"], 0, "{high}");
    let low = validate(&case("boundary-auto"), &["--set", "window.percent=10"]);
    assert_eq!(
        low["auto"]["early"].as_u64().unwrap() + low["auto"]["spurious"].as_u64().unwrap(),
        2,
        "{low}"
    );
}

#[test]
fn explain_shows_how_a_boundary_was_decided() {
    let fixture = Fixture::new();
    let path = case("boundary-auto");
    let path = path.to_str().unwrap();
    let document = validate(Path::new(path), &[]);
    let session = document["cases"][0]["session"].as_str().unwrap();
    let run = fixture
        .run(["validate", path, "--explain", &session[..8], "--no-cache"])
        .success();
    for words in [
        "Last response: call",
        "Context:",
        "threshold 155000",
        "The client wrote down",
    ] {
        assert!(run.text().contains(words), "{words}\n{}", run.text());
    }
    let none = fixture
        .run(["validate", path, "--explain", "zzz", "--no-cache"])
        .ended(2);
    assert!(none.stderr.contains("no session starts with"));
    for format in ["json", "junit"] {
        let run = fixture
            .run(["validate", path, "--explain", &session[..8], "--format", format])
            .ended(2);
        assert!(run.stderr.contains("prints text only"), "{}", run.stderr);
        assert!(run.stdout.is_empty());
    }
}
