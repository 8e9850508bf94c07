//! Same logs, same bytes: for any number of threads, order of arguments, way of reading, state of the cache and packing of
//! the logs.

use crate::fixture::{FORMATS, Fixture, corpus, files_below, inputs_below};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Every grouping as JSON, every format for the two groupings that have columns of their own.
fn outputs() -> Vec<[String; 2]> {
    let keys = ["session", "project", "model", "day", "branch", "tool"];
    let mut pairs = keys.map(|by| ("json", by)).to_vec();
    for by in ["session", "tool"] {
        let others = FORMATS.iter().filter(|format| **format != "json");
        pairs.extend(others.map(|format| (*format, by)));
    }
    let arguments = |(format, by)| [format!("--format={format}"), format!("--by={by}")];
    pairs.into_iter().map(arguments).collect()
}

fn stats(fixture: &Fixture, paths: &[PathBuf], output: &[String; 2], more: &[&str]) -> Vec<u8> {
    let mut args = vec![OsString::from("stats"), "--quiet".into()];
    args.extend(output.iter().map(OsString::from));
    args.extend(more.iter().map(OsString::from));
    args.extend(paths.iter().map(OsString::from));
    fixture.run(args).success().stdout
}

/// Returns the outputs for the bundled logs, read by one thread: the reference for every other way of reading.
fn reference() -> &'static [([String; 2], Vec<u8>)] {
    static REFERENCE: OnceLock<Vec<([String; 2], Vec<u8>)>> = OnceLock::new();
    REFERENCE.get_or_init(|| {
        let fixture = Fixture::new();
        let run = |output: &[String; 2]| {
            stats(
                &fixture,
                &[corpus()],
                output,
                &["--no-cache", "--threads=1", "--io=read"],
            )
        };
        outputs()
            .into_iter()
            .map(|output| (output.clone(), run(&output)))
            .collect()
    })
}

/// Runs another way and compares every output.
fn same(fixture: &Fixture, paths: &[PathBuf], more: &[&str]) {
    for (output, expected) in reference() {
        assert!(!expected.is_empty(), "{output:?}");
        assert!(
            *expected == stats(fixture, paths, output, more),
            "{output:?} differs with {more:?}"
        );
    }
}

#[test]
fn output_is_the_same_for_any_number_of_threads() {
    same(&Fixture::new(), &[corpus()], &["--no-cache", "--threads=4"]);
}

/// Shuffles with a fixed seed, so that the order is not that of names, times or sizes.
fn shuffled(mut paths: Vec<PathBuf>) -> Vec<PathBuf> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for at in (1..paths.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        paths.swap(at, (state >> 33) as usize % (at + 1));
    }
    paths
}

#[test]
fn output_is_the_same_for_any_order_of_arguments() {
    let fixture = Fixture::new();
    let shuffled = shuffled(inputs_below(&corpus()));
    same(&fixture, &shuffled, &["--no-cache"]);
    let output = ["--format=json", "--problems"].map(str::to_owned);
    let lists = [&[corpus()][..], &shuffled].map(|paths| stats(&fixture, paths, &output, &["--no-cache"]));
    assert!(lists[0] == lists[1], "the list of problems");
}

#[test]
fn output_is_the_same_for_mapped_and_read_logs() {
    same(&Fixture::new(), &[corpus()], &["--no-cache", "--io=mmap"]);
}

#[test]
fn output_is_the_same_for_a_big_log_read_in_parts() {
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = [
        "synth",
        "bulk",
        "--bytes=18MiB",
        "--files=1",
        "--seed=3",
        "--corruption=0.01",
        "--out",
    ];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let output = ["--format=json".to_owned(), "--problems".to_owned()];
    let run = |more: &[&str]| stats(&fixture, std::slice::from_ref(&out), &output, more);
    let one = run(&["--no-cache", "--io=read", "--threads=1"]);
    assert!(
        one == run(&["--no-cache", "--io=read", "--threads=4"]),
        "read by one thread and by four"
    );
    assert!(
        one == run(&["--no-cache", "--io=mmap", "--threads=4"]),
        "read and mapped"
    );
    assert!(one == run(&["--threads=2"]), "into the cache");
    assert!(one == run(&["--threads=2"]), "from the cache");
}

/// A log of many short rounds: files are read, changed and read again, responses think, and now and then the window is compacted.
fn long_session(rounds: usize) -> String {
    let mut log = String::new();
    let (mut number, mut parent) = (0, Value::Null);
    let mut add = |mut record: Value| {
        number += 1;
        let id = json!(format!("00000000-0000-4000-8000-{number:012}"));
        record["uuid"] = id.clone();
        record["parentUuid"] = std::mem::replace(&mut parent, id);
        record["sessionId"] = json!("11111111-1111-4111-8111-111111111111");
        record["timestamp"] = json!(format!(
            "2026-01-{:02}T{:02}:00:00.000Z",
            1 + number / 24 % 28,
            number % 24
        ));
        log.push_str(&record.to_string());
        log.push('\n');
    };
    for round in 0..rounds {
        if round % 9 == 0 {
            add(json!({"type": "user", "message": {"role": "user", "content": format!("question {round}")}}));
        }
        let tool = ["Read", "Read", "Edit", "Read", "Bash"][round % 5];
        let input = json!({"file_path": format!("/src/{}.rs", round % 37), "command": "make"});
        let blocks = json!([
            {"type": "thinking", "thinking": "so ".repeat(round % 61), "signature": "x".repeat(40)},
            {"type": "tool_use", "id": format!("call{round}"), "name": tool, "input": input},
        ]);
        let usage =
            json!({"input_tokens": 5, "cache_read_input_tokens": 20_000 + 70 * (round % 700), "output_tokens": 9});
        let id = format!("msg_{round}");
        let message = json!({"id": id, "role": "assistant", "model": "claude-sonnet-4-5-20250929", "content": blocks, "usage": usage});
        add(json!({"type": "assistant", "requestId": format!("req_{round}"), "message": message}));
        let result = json!({"type": "tool_result", "tool_use_id": format!("call{round}"), "content": "line ".repeat(round % 83)});
        add(json!({"type": "user", "message": {"role": "user", "content": [result]}}));
        if round % 700 == 699 {
            let metadata = json!({"trigger": "auto", "preTokens": 160_000});
            add(
                json!({"type": "system", "subtype": "compact_boundary", "content": "Conversation compacted", "compactMetadata": metadata}),
            );
            let message = json!({"role": "user", "content": "What happened so far: much."});
            add(json!({"type": "user", "isCompactSummary": true, "message": message}));
        }
    }
    log
}

#[test]
fn output_is_the_same_for_a_long_session_sized_in_stretches() {
    let fixture = Fixture::new();
    let log = fixture.path("long.jsonl");
    std::fs::write(&log, long_session(5000)).unwrap();
    for output in [
        ["--format=json", "--by=session"],
        ["--format=json", "--by=tool"],
        ["--format=json", "--quality"],
    ] {
        let output = output.map(str::to_owned);
        let run = |threads: &str| stats(&fixture, std::slice::from_ref(&log), &output, &["--no-cache", threads]);
        let one = run("--threads=1");
        let document: Value = serde_json::from_slice(&one).unwrap();
        assert_eq!(document["totals"]["responses"], 5000, "{output:?}");
        for threads in ["--threads=2", "--threads=3", "--threads=8"] {
            assert!(one == run(threads), "{output:?} {threads}");
        }
    }
}

#[test]
fn output_is_the_same_with_a_cold_and_a_warm_cache() {
    let fixture = Fixture::new();
    let output = ["--format=json", "--problems"].map(str::to_owned);
    let none = stats(&fixture, &[corpus()], &output, &["--no-cache"]);
    assert!(none == stats(&fixture, &[corpus()], &output, &[]), "cold");
    assert!(none == stats(&fixture, &[corpus()], &output, &[]), "warm");
    same(&fixture, &[corpus()], &[]);
}

/// A copy of the corpus with every log packed.
fn packed(to: &Path, ending: &str, pack: impl Fn(&[u8]) -> Vec<u8>) {
    for file in files_below(&corpus()) {
        let target = to.join(&file);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("folders");
        let content = std::fs::read(corpus().join(&file)).expect("a file");
        if file.extension().is_some_and(|end| end == "jsonl") {
            let name = format!("{}.{ending}", target.display());
            std::fs::write(name, pack(&content)).expect("written");
        } else {
            std::fs::write(target, content).expect("written");
        }
    }
}

/// No output but the list of problems names a file, and bytes are counted unpacked, so nothing else may differ.
fn same_packed(ending: &str, pack: impl Fn(&[u8]) -> Vec<u8>) {
    let fixture = Fixture::new();
    let copy = fixture.path("packed");
    packed(&copy, ending, pack);
    same(&fixture, std::slice::from_ref(&copy), &["--no-cache"]);

    let list = |path: &Path| fixture.stats(path, &["--no-cache", "--problems"])["problems"]["list"].to_string();
    let renamed = list(&copy).replace(&format!(".jsonl.{ending}"), ".jsonl");
    let renamed = renamed.replace(&copy.display().to_string(), &corpus().display().to_string());
    assert_eq!(renamed, list(&corpus()), "the same problems at the same places");
}

#[test]
fn output_is_the_same_for_logs_packed_with_gzip() {
    same_packed("gz", |content| {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(content).expect("packed");
        encoder.finish().expect("packed")
    });
}

#[test]
fn output_is_the_same_for_logs_packed_with_zstandard() {
    same_packed("zst", |content| zstd::encode_all(content, 1).expect("packed"));
}

#[test]
fn rows_add_up_to_the_totals_whatever_they_are_grouped_by() {
    let fixture = Fixture::new();
    for by in ["session", "project", "model", "day", "branch"] {
        for more in [&["--no-cache"][..], &["--no-cache", "--subagents"]] {
            let mut args = vec![format!("--by={by}")];
            args.extend(more.iter().map(|arg| (*arg).to_owned()));
            let stats = fixture.stats(corpus(), &args.iter().map(String::as_str).collect::<Vec<_>>());
            for figure in crate::fixture::FIGURES {
                let rows = stats["rows"].as_array().expect("rows").iter();
                let sum = rows.map(|row| row[figure].as_u64().expect("a count")).sum::<u64>();
                assert_eq!(stats["totals"][figure], sum, "{figure} by {by} {more:?}");
            }
        }
    }
}
