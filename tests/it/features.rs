//! Cargo features: an option that needs a feature this build lacks is refused before any work, and names the feature; with
//! the feature it is accepted.
//!
//! `.ci/run` runs these tests with the default features, too.

use crate::fixture::{Fixture, case};

/// Commands that need a feature: their arguments before the logs and after them.
#[cfg(any(not(feature = "model"), not(feature = "parquet")))]
fn check_refused(feature: &str, commands: &[(&[&str], &[&str])]) {
    let fixture = Fixture::new();
    let logs = case("plain");
    for (verb, options) in commands {
        let mut command = fixture.command(*verb);
        command.arg(&logs).args(*options);
        let run = crate::fixture::Run::of(command).ended(2);
        let hint = format!("--features {feature}");
        assert!(run.stderr.contains(&hint), "{verb:?} {options:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{verb:?} {options:?}");
    }
    assert!(!fixture.path("out").exists(), "a refused command writes nothing");
    assert!(!fixture.cache().exists(), "a refused command reads no log");
}

#[cfg(not(feature = "parquet"))]
#[test]
fn parquet_is_refused_without_its_feature() {
    check_refused(
        "parquet",
        &[
            (&["stats"], &["--format", "parquet"]),
            (&["audit"], &["--format=parquet", "--output", "out"]),
            (&["replay"], &["--rounds", "parquet", "--out", "out"]),
        ],
    );
}

#[cfg(not(feature = "model"))]
#[test]
fn a_model_is_refused_without_its_feature() {
    check_refused(
        "model",
        &[
            (&["notes"], &["--backend", "anthropic", "--out", "out"]),
            (&["memory", "extract"], &["--backend=anthropic", "--dir", "out"]),
            (&["notes"], &["--backend", "anthropic", "--estimate", "--out", "out"]),
        ],
    );
}

#[cfg(not(feature = "remote"))]
#[test]
fn object_stores_are_refused_without_their_feature() {
    let fixture = Fixture::new();
    for url in ["s3://bucket/logs", "gs://bucket", "az://container/logs/*.jsonl"] {
        for args in [
            &["stats", url][..],
            &["map", url, "-o", "out"],
            &["report", url],
            &["stats", "logs", url],
            &["stats", "logs", "--shared-cache", url],
        ] {
            let run = fixture.run(args).ended(2);
            assert!(run.stderr.contains("--features remote"), "{args:?}: {}", run.stderr);
            assert!(run.stdout.is_empty(), "{args:?}");
        }
    }
    assert!(!fixture.path("out").exists(), "a refused command writes nothing");
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_is_written_with_its_feature() {
    let fixture = Fixture::new();
    let mut command = fixture.command(["stats", "--format", "parquet"]);
    command.arg(case("plain"));
    let run = crate::fixture::Run::of(command).success();
    assert!(run.stdout.starts_with(b"PAR1") && run.stdout.ends_with(b"PAR1"));
}

#[cfg(feature = "model")]
#[test]
fn a_model_can_be_estimated_with_its_feature() {
    let fixture = Fixture::new();
    let mut command = fixture.command(["notes", "--backend", "anthropic", "--estimate", "--summary", "--to-end"]);
    command.arg(case("plain")).args(["--out", "out"]);
    let run = crate::fixture::Run::of(command).success();
    assert!(run.text().contains("calls"), "{}", run.text());
}
