//! `backcast validate`: predictions held against the record, on the bundled logs and, where they are, on real ones.

use crate::fixture::{Fixture, case, corpus, real_logs};
use serde_json::Value;
use std::path::Path;

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
fn the_document_has_its_shape() {
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
    let recorded = |mechanism: &str| {
        let of = cases
            .iter()
            .filter(|case| case["mechanism"] == mechanism && case["verdict"] != "spurious");
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
fn a_wrong_policy_is_found_out() {
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
fn a_boundary_can_be_walked_through() {
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
        assert!(run.stderr.contains("a text for people"), "{}", run.stderr);
        assert!(run.stdout.is_empty());
    }
}

/// The promise on real logs: every decidable automatic boundary at the very call, none spurious, sizes and costs close.
#[test]
fn real_boundaries_are_predicted() {
    let Some(logs) = real_logs() else {
        eprintln!("no real logs beside the checkout: not run");
        return;
    };
    let document = validate(&logs, &[]);
    let (auto, micro) = (&document["auto"], &document["micro"]);
    assert_eq!(auto["recorded"], 41);
    assert_eq!(auto["decidable"], 30);
    assert_eq!(auto["exact"], auto["decidable"]);
    assert_eq!(auto["spurious"], 0);
    assert_eq!(micro["recorded"], 7);
    assert_eq!(micro["exact_ids"], micro["decidable"]);
    assert_eq!(micro["spurious"], 0);
    let errors = &document["pre_tokens_error"];
    assert!(errors["exact"].as_u64().unwrap() * 2 >= errors["count"].as_u64().unwrap());
    assert!(errors["relative_p95"].as_f64() <= Some(0.001));
    let cost = &document["cost_error"];
    assert!(cost["total"].as_f64().unwrap().abs() < 0.04);
    assert!(cost["p50"].as_f64() < Some(0.02));
    assert!(document["segments"]["p50"].as_f64() < Some(0.03));
    assert!(document["segments"]["p90"].as_f64() < Some(0.10));
}
