//! The bundled logs: every case gives what its `expected.json` says, and the folder is what `synth` writes today.

use crate::fixture::{FIGURES, Fixture, case, case_names, corpus, figures, files_below};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use transcript::log::LineProblemKind;
use transcript::problem::ProblemKind;

/// Returns the problem kinds that damage to a line must be reported as; `None` where nothing needs reporting.
fn reported_as(damage: &str) -> Option<&'static str> {
    let kind = match damage {
        "bom" | "nul_run" => LineProblemKind::Stripped,
        "invalid_utf8" | "lone_surrogate" => LineProblemKind::Mended,
        "glued" => LineProblemKind::Split,
        "spliced" => LineProblemKind::Resynced,
        "truncated" | "garbage" => LineProblemKind::Malformed,
        // A carriage return is white space in JSON; of a duplicate key one value is taken; a string spread into numeric
        // keys is an object without a type. All three are read without loss.
        "crlf" | "duplicate_keys" | "numeric_keys" => return None,
        other => panic!("unknown damage {other}"),
    };
    Some(ProblemKind::Line(kind).name())
}

/// Problems of lines that a case must have.
fn expected_line_problems(expected: &Value) -> BTreeMap<String, u64> {
    let mut problems = BTreeMap::new();
    for (damage, count) in expected["damaged_lines"].as_object().expect("an object") {
        if let Some(kind) = reported_as(damage) {
            *problems.entry(kind.to_owned()).or_insert(0) += count.as_u64().expect("a count");
        }
    }
    let pending = expected["pending_tails"].as_u64().expect("a count");
    if pending > 0 {
        problems.insert(ProblemKind::Line(LineProblemKind::TornTail).name().to_owned(), pending);
    }
    problems
}

/// Returns the thread problems that a case must have. The record after a lost one misses its parent.
fn expected_thread_problems(case: &str) -> &'static [&'static str] {
    match case {
        "client-mid-session"
        | "client-mid-session-full"
        | "missing-parent"
        | "spliced-records"
        | "truncated-record" => &["missing-parent"],
        "parent-cycle" => &["parent-cycle"],
        "boundary-lost-parent" => &["boundary-without-leaf"],
        "restore-states" | "restore-skill-listing" => &["call-without-result"],
        _ => &[],
    }
}

fn counts(value: &Value) -> BTreeMap<String, u64> {
    let object = value.as_object().expect("an object");
    object
        .iter()
        .map(|(name, count)| (name.clone(), count.as_u64().expect("a count")))
        .collect()
}

/// Kinds without their second half: `system/api_error` is a `system` record.
fn records_by_type(stats: &Value) -> BTreeMap<String, u64> {
    let mut types = BTreeMap::new();
    for (kind, count) in counts(&stats["input"]["records"]) {
        let name = kind.split('/').next().expect("a name").to_owned();
        *types.entry(name).or_insert(0) += count;
    }
    types
}

fn expected_of(name: &str) -> Value {
    let text = std::fs::read(case(name).join("expected.json")).expect("the truth of the case");
    serde_json::from_slice(&text).expect("JSON")
}

/// Checks every figure that both `stats` and `expected.json` have.
fn compare(name: &str, expected: &Value, stats: &Value) {
    assert_eq!(
        figures(&stats["totals"]),
        figures(&expected["totals"]),
        "{name}: totals ({FIGURES:?})"
    );
    let input = &stats["input"];
    for (ours, theirs) in [
        ("logs", "files"),
        ("bytes", "bytes"),
        ("lines", "lines"),
        ("sessions", "sessions"),
        ("copied_records", "copied_records"),
    ] {
        assert_eq!(input[ours], expected[theirs], "{name}: {ours}");
    }
    let rows = stats["rows"].as_array().expect("rows");
    for (ours, theirs) in [
        ("subagents", "subagents"),
        ("rewound_branches", "rewound_branches"),
        ("compactions_auto", "boundaries_auto"),
        ("compactions_manual", "boundaries_manual"),
        ("compactions_micro", "boundaries_micro"),
    ] {
        let sum = rows.iter().filter_map(|row| row[ours].as_u64()).sum::<u64>();
        assert_eq!(json!(sum), expected[theirs], "{name}: {ours}");
    }
    // The generator does not call a string spread into an object a record; the parser reads it as one without a type.
    let mut records = counts(&expected["records"]);
    if let Some(spread) = expected["damaged_lines"]["numeric_keys"].as_u64() {
        *records.entry("(none)".to_owned()).or_insert(0) += spread;
    }
    assert_eq!(records_by_type(stats), records, "{name}: records");
}

fn model_rows(stats: &Value) -> BTreeMap<String, [u64; 6]> {
    let rows = stats["rows"].as_array().expect("rows").iter();
    rows.map(|row| (row["model"].as_str().expect("a name").to_owned(), figures(row)))
        .collect()
}

#[test]
fn every_case_adds_up_to_its_truth() {
    let fixture = Fixture::new();
    for name in case_names() {
        let expected = expected_of(&name);
        let stats = fixture.stats(case(&name), &["--no-cache", "--problems"]);
        compare(&name, &expected, &stats);

        let mut problems = expected_line_problems(&expected);
        for kind in expected_thread_problems(&name) {
            *problems.entry((*kind).to_owned()).or_insert(0) += 1;
        }
        assert_eq!(
            counts(&stats["problems"]["by_kind"]),
            problems,
            "{name}: {}",
            stats["problems"]["list"]
        );
        let listed = stats["problems"]["list"].as_array().expect("a list");
        assert_eq!(stats["problems"]["total"], json!(listed.len()), "{name}");
        for problem in listed {
            assert!(
                problem["line"].is_u64() && problem["offset"].is_u64(),
                "{name}: {problem} says where"
            );
        }
    }
}

#[test]
fn every_model_adds_up_to_its_truth() {
    let fixture = Fixture::new();
    for name in case_names() {
        let models = expected_of(&name)["models"].as_object().expect("an object").clone();
        let expected = models
            .iter()
            .map(|(model, sums)| (model.clone(), figures(sums)))
            .collect::<BTreeMap<_, _>>();
        let stats = fixture.stats(case(&name), &["--no-cache", "--by=model"]);
        assert_eq!(model_rows(&stats), expected, "{name}");
    }
}

#[test]
fn the_whole_corpus_in_one_run_is_the_sum_of_its_cases() {
    let fixture = Fixture::new();
    let stats = fixture.stats(corpus(), &["--no-cache"]);
    let mut totals = [0; 6];
    let mut sums = BTreeMap::<&str, u64>::new();
    let mut problems = BTreeMap::new();
    for name in case_names() {
        let expected = expected_of(&name);
        for (sum, part) in std::iter::zip(&mut totals, figures(&expected["totals"])) {
            *sum += part;
        }
        for key in ["files", "lines", "bytes", "sessions", "copied_records"] {
            *sums.entry(key).or_insert(0) += expected[key].as_u64().expect("a count");
        }
        for (kind, count) in expected_line_problems(&expected) {
            *problems.entry(kind).or_insert(0) += count;
        }
        for kind in expected_thread_problems(&name) {
            *problems.entry((*kind).to_owned()).or_insert(0) += 1;
        }
    }
    assert_eq!(figures(&stats["totals"]), totals);
    for (ours, theirs) in [
        ("logs", "files"),
        ("lines", "lines"),
        ("bytes", "bytes"),
        ("sessions", "sessions"),
        ("copied_records", "copied_records"),
    ] {
        assert_eq!(stats["input"][ours], json!(sums[theirs]), "{ours}");
    }
    assert_eq!(counts(&stats["problems"]["by_kind"]), problems);
}

#[test]
fn the_folder_is_what_synth_writes() {
    let fixture = Fixture::new();
    let fresh = fixture.path("fresh");
    fixture
        .run(["synth".as_ref(), "corpus".as_ref(), "--out".as_ref(), fresh.as_os_str()])
        .success();
    assert_eq!(files_below(&corpus()), files_below(&fresh));
    for file in files_below(&fresh) {
        let (bundled, written) = (std::fs::read(corpus().join(&file)), std::fs::read(fresh.join(&file)));
        let is_same = bundled.expect("bundled") == written.expect("written");
        assert!(
            is_same,
            "{} is not what synth writes: write the corpus again",
            file.display()
        );
    }
}

#[test]
fn every_case_is_explained() {
    let fixture = Fixture::new();
    let readme = std::fs::read_to_string(corpus().join("README.md")).expect("the README");
    let list = fixture.run(["synth", "corpus", "--list"]).success();
    let listed = list
        .text()
        .lines()
        .map(|line| line.split(' ').next().expect("a name"))
        .collect::<Vec<_>>();
    let mut sorted = listed.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, case_names());
    for name in listed {
        assert!(readme.contains(&format!("| {name} |")), "{name} is not in the README");
    }
}

#[test]
fn a_generated_corpus_with_damage_adds_up() {
    let fixture = Fixture::new();
    for (seed, corruption) in [("7", "0"), ("8", "0.02")] {
        let out = fixture.path(seed);
        let args = [
            "synth",
            "bulk",
            "--bytes=3MiB",
            "--files=12",
            "--seed",
            seed,
            "--corruption",
            corruption,
            "--out",
        ];
        fixture
            .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
            .success();
        let text = std::fs::read(out.join("expected.json")).expect("the truth");
        let expected = serde_json::from_slice::<Value>(&text).expect("JSON");
        let stats = fixture.stats(&out, &["--no-cache"]);
        assert_eq!(
            figures(&stats["totals"]),
            figures(&expected["totals"]),
            "seed {seed}: totals ({FIGURES:?})"
        );
        for (ours, theirs) in [("logs", "files"), ("lines", "lines"), ("bytes", "bytes")] {
            assert_eq!(stats["input"][ours], expected[theirs], "seed {seed}: {ours}");
        }
    }
}

#[test]
fn generated_logs_of_other_agents_add_up() {
    let fixture = Fixture::new();
    for agent in ["codex", "opencode", "pi"] {
        for corruption in ["0", "0.02"] {
            let out = fixture.path(format!("{agent}-{corruption}"));
            let args = [
                "synth",
                "bulk",
                "--bytes=2MiB",
                "--files=12",
                "--agent",
                agent,
                "--corruption",
                corruption,
                "--out",
            ];
            fixture
                .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
                .success();
            let text = std::fs::read(out.join("expected.json")).expect("the truth");
            let expected = serde_json::from_slice::<Value>(&text).expect("JSON");
            let stats = fixture.stats(&out, &["--no-cache", "--problems"]);
            let name = format!("{agent}, damage {corruption}");
            assert_eq!(
                figures(&stats["totals"]),
                figures(&expected["totals"]),
                "{name}: totals ({FIGURES:?})"
            );
            let damaged = counts(&expected["damaged_lines"]).values().sum::<u64>();
            assert_eq!(damaged > 0, corruption != "0" && agent != "opencode", "{name}");
            if damaged == 0 {
                compare(&name, &expected, &stats);
            }
            for (ours, theirs) in [("logs", "files"), ("lines", "lines"), ("bytes", "bytes")] {
                assert_eq!(stats["input"][ours], expected[theirs], "{name}: {ours}");
            }
        }
    }
}
