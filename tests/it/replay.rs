//! `backcast replay`: the files of a run, and that they agree with each other.

use crate::fixture::{Fixture, ROUNDS, case, corpus, files_below, only_log};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

fn replay(fixture: &Fixture, out: &Path, more: &[&str]) {
    let mut args = vec![
        "replay".into(),
        corpus().into_os_string(),
        "--quiet".into(),
        "--out".into(),
        out.into(),
    ];
    args.extend(more.iter().map(Into::into));
    fixture.run(args).success();
}

fn contents(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let read = |path: std::path::PathBuf| {
        let bytes = std::fs::read(folder.join(&path)).unwrap();
        (path.display().to_string(), bytes)
    };
    files_below(folder).into_iter().map(read).collect()
}

fn json(folder: &Path, name: &str) -> Value {
    serde_json::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap()
}

fn rows(folder: &Path, name: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_path(folder.join(name)).unwrap();
    reader.deserialize().map(|row| row.unwrap()).collect()
}

fn sum(rows: &[BTreeMap<String, String>], column: &str) -> i64 {
    rows.iter().map(|row| row[column].parse::<i64>().unwrap_or(0)).sum()
}

#[test]
fn the_files_of_a_run_agree_with_each_other() {
    let fixture = Fixture::new();
    let out = fixture.path("run");
    replay(&fixture, &out, &["--policy", "article", "--set", "window.tokens=60000"]);
    let summary = json(&out, "summary.json");
    let sessions = rows(&out, "sessions.csv");
    let rounds = rows(&out, "rounds.csv");
    let boundaries = std::fs::read_to_string(out.join("boundaries.jsonl")).unwrap();
    let boundaries = boundaries
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .collect::<Vec<_>>();

    assert!(!boundaries.is_empty());
    assert_eq!(sum(&sessions, "compactions"), boundaries.len() as i64);
    assert_eq!(sum(&sessions, "calls"), rounds.len() as i64);
    assert_eq!(summary["calls"], rounds.len());
    assert_eq!(summary["defects"], 0);
    let parts = [
        "base",
        "human",
        "assistant_text",
        "thinking",
        "tool_calls",
        "tool_results",
        "local_commands",
        "attachments",
        "images",
        "summaries",
        "other",
        "unexplained",
    ];
    for round in &rounds {
        let whole = parts
            .iter()
            .map(|part| round[*part].parse::<i64>().unwrap())
            .sum::<i64>();
        assert_eq!(whole.max(0).to_string(), round["input"], "{round:?}");
    }
    let freed = |boundary: &Value| {
        let tokens = |name: &str| boundary[name].as_u64().unwrap();
        tokens("tokens_before").saturating_sub(tokens("tokens_after"))
    };
    assert_eq!(
        summary["boundaries"]["freed_tokens"],
        boundaries.iter().map(freed).sum::<u64>()
    );
}

#[test]
fn the_hash_of_an_input_is_that_of_its_bytes_however_it_is_read() {
    let fixture = Fixture::new();
    let log = only_log("plain");
    let long = [&log[..], b"{\"text\":\"", &vec![b'x'; 300 << 10][..], b"\"}\n", &log].concat();
    let packed = zstd::encode_all(&log[..], 1).expect("packed");
    fixture.write("logs/plain.jsonl", &log);
    fixture.write("logs/empty.jsonl", b"");
    fixture.write("logs/long.jsonl", &long);
    fixture.write("logs/packed.jsonl.zst", &packed);
    fixture.write("logs/cut.jsonl.zst", &packed[..packed.len() / 2]);
    // Big enough for two parts on two threads.
    let line = [
        b"{\"type\":\"system\",\"text\":\"",
        &vec![b'x'; 200 << 10][..],
        b"\"}\n",
    ]
    .concat();
    fixture.write("logs/parts.jsonl", line.repeat((9 << 20) / line.len()));
    for more in [
        ["--threads=1", "--io=read"],
        ["--threads=2", "--io=read"],
        ["--threads=2", "--io=mmap"],
    ] {
        for cache in ["--no-cache", "--cache-dir=cache"] {
            let args = [
                "replay",
                "logs",
                "-q",
                "--out=run",
                "--force",
                "--max-line=256KiB",
                cache,
            ];
            fixture.run(args.into_iter().chain(more)).success();
            let manifest = json(&fixture.path("run"), "manifest.json");
            let inputs = manifest["inputs"].as_array().expect("inputs");
            assert_eq!(inputs.len(), 6);
            for input in inputs {
                let path = input["path"].as_str().expect("a path");
                let bytes = std::fs::read(fixture.path(path)).expect("a log");
                let hash = blake3::hash(&bytes).to_hex();
                assert_eq!(input["blake3"], hash.as_str(), "{path} {more:?} {cache}");
            }
        }
    }
}

#[test]
fn the_manifest_names_inputs_by_hash_and_the_whole_policy() {
    let fixture = Fixture::new();
    let out = fixture.path("run");
    replay(&fixture, &out, &["--set", "window.buffer=12000"]);
    let manifest = json(&out, "manifest.json");
    let inputs = manifest["inputs"].as_array().unwrap();
    assert!(inputs.len() > 40);
    for input in inputs {
        let bytes = std::fs::read(input["path"].as_str().unwrap()).unwrap();
        assert_eq!(input["bytes"], bytes.len());
        assert_eq!(input["blake3"], blake3::hash(&bytes).to_hex().as_str());
    }
    for range in manifest["policy"]["ranges"].as_array().unwrap() {
        assert_eq!(range["values"]["window"]["buffer"], 12_000);
    }
    assert_eq!(manifest["policy"]["origins"]["window.buffer"], "--set");
}

#[test]
fn output_is_the_same_for_any_threads_and_cache() {
    let fixture = Fixture::new();
    let mut expected = None;
    let ways: [&[&str]; 4] = [
        &["--threads=1", "--no-cache"],
        &["--threads=4", "--no-cache"],
        &["--threads=3"],
        &["--threads=2"],
    ];
    for (number, way) in ways.iter().enumerate() {
        for rounds in ROUNDS {
            let out = fixture.path(format!("run-{number}-{rounds}"));
            let more = [
                &["--policy=article", "--set=window.tokens=50000", "--rounds", rounds],
                *way,
            ]
            .concat();
            replay(&fixture, &out, &more);
        }
        let found = ROUNDS.iter();
        let found = found.map(|rounds| contents(&fixture.path(format!("run-{number}-{rounds}"))));
        let found = found.collect::<Vec<_>>();
        let expected = expected.get_or_insert_with(|| found.clone());
        assert!(*expected == found, "{way:?}");
    }
}

#[test]
fn nothing_is_overwritten_unless_forced() {
    let fixture = Fixture::new();
    let out = fixture.path("run");
    replay(&fixture, &out, &[]);
    let before = contents(&out);
    let again = [
        "replay",
        corpus().to_str().unwrap(),
        "--out",
        out.to_str().unwrap(),
        "--policy=never",
    ]
    .map(str::to_owned);
    let run = fixture.run(&again).ended(2);
    assert!(run.stderr.contains("use --force"), "{:?}", run.stderr);
    assert!(before == contents(&out));
    fixture
        .run(again.iter().cloned().chain(["--force".to_owned()]))
        .success();
    assert!(before != contents(&out));
}

/// Files of an earlier run would pass for files of the later one; files of other origin are kept.
#[test]
fn a_forced_run_removes_the_files_of_the_earlier_run_and_no_others() {
    let fixture = Fixture::new();
    let out = fixture.path("run");
    let logs = case("boundary-auto").display().to_string();
    let run = |more: &[&str]| {
        let args = ["replay", &logs, "--quiet", "--out", "run"];
        fixture.run(args.iter().chain(more)).success();
        let names = contents(&out).into_keys().collect::<Vec<_>>();
        let mut listed = json(&out, "manifest.json")["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|name| name.as_str().unwrap().to_owned())
            .chain(["manifest.json".to_owned()])
            .collect::<Vec<_>>();
        listed.sort();
        (names, listed)
    };
    let (names, listed) = run(&["--compare=never", "--events", "--rounds", ROUNDS.last().unwrap()]);
    assert_eq!(names, listed);
    assert!(names.iter().any(|name| name == "events.jsonl"), "{names:?}");
    let events = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    assert!(events.lines().count() > 0);
    for line in events.lines() {
        let event = serde_json::from_str::<Value>(line).unwrap();
        assert_eq!(event["schema_version"], 1, "{line}");
    }
    fixture.write("run/mine.csv", "mine");
    let (names, mut listed) = run(&["--force"]);
    listed.push("mine.csv".to_owned());
    listed.sort();
    assert_eq!(names, listed);
    // A file of that name that no manifest lists is kept, and the page does not show it.
    fixture.write("run/misses.jsonl", "{\"mine\": true}\n");
    let stray = std::fs::read(case_compare(&fixture, &logs)).unwrap();
    fixture.write("run/compare.json", stray);
    let (names, _) = run(&["--force"]);
    assert!(names.iter().any(|name| name == "misses.jsonl"), "{names:?}");
    fixture.run(["report", "run", "--quiet"]).success();
    let page = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(!page.contains("mine") && page.contains("\"compare\":null"));
}

/// A comparison that another run wrote.
fn case_compare(fixture: &Fixture, logs: &str) -> std::path::PathBuf {
    let args = ["replay", logs, "--quiet", "--compare=never", "--out", "other"];
    fixture.run(args).success();
    fixture.path("other/compare.json")
}

#[test]
fn a_run_without_logs_leaves_no_folder() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("empty")).unwrap();
    for verb in ["replay", "tune"] {
        let run = fixture.run([verb, "empty", "--out", "new"]).ended(2);
        assert!(run.stderr.contains("no logs in empty"), "{}", run.stderr);
        assert!(!fixture.path("new").exists());
    }
}

#[test]
fn a_count_of_one_is_written_in_the_singular() {
    let fixture = Fixture::new();
    let log = String::from_utf8(crate::fixture::only_log("plain")).unwrap();
    let short = log.lines().take(2).map(|line| format!("{line}\n"));
    fixture.write("logs/a.jsonl", short.collect::<String>());
    let run = fixture.run(["replay", "logs"]).success();
    assert!(
        run.text().contains("0 of 1 session compact, 0 times in all"),
        "{}",
        run.text()
    );
    let run = fixture.run(["replay", "logs", "--compare=never"]).success();
    assert!(run.text().contains("1 session of 1 log, 1 call\n"), "{}", run.text());
    let run = fixture.run(["validate", "logs"]).success();
    assert!(run.text().contains("in 1 call;"), "{}", run.text());
}

#[cfg(feature = "parquet")]
#[test]
fn parquet_holds_the_same_rounds() {
    use backcast::views::replay::ROUND_COLUMNS;
    use table::stream::StreamFormat;
    use table::{CellValue, read_cells};
    let fixture = Fixture::new();
    let (csv, parquet) = (fixture.path("csv"), fixture.path("parquet"));
    replay(&fixture, &csv, &[]);
    replay(&fixture, &parquet, &["--rounds=parquet"]);
    let read = |path: &Path, format| {
        let mut rounds = Vec::new();
        read_cells(path, format, ROUND_COLUMNS, |cells| {
            // CSV does not distinguish empty text from a missing cell.
            let is_empty = |cell: &CellValue| cell.as_text() == Some("");
            let cells = cells
                .into_iter()
                .map(|cell| if is_empty(&cell) { CellValue::None } else { cell });
            rounds.push(cells.collect::<Vec<_>>());
        })
        .unwrap();
        rounds
    };
    let rounds = read(&csv.join("rounds.csv"), StreamFormat::Csv);
    assert!(rounds.len() > 100);
    assert_eq!(rounds, read(&parquet.join("rounds.parquet"), StreamFormat::Parquet));
}

#[test]
fn a_policy_that_never_compacts_keeps_everything() {
    let fixture = Fixture::new();
    let path = case("boundary-auto");
    let run = |policy: &str| {
        fixture
            .run([
                "replay",
                path.to_str().unwrap(),
                "--policy",
                policy,
                "-f",
                "json",
                "--no-cache",
            ])
            .success()
            .json()
    };
    let (recorded, never) = (run("recorded"), run("never"));
    assert_eq!(recorded["boundaries"]["auto"], 2);
    assert_eq!(recorded["boundaries"]["at_recorded_places"], 2);
    assert_eq!(never["boundaries"]["auto"], 0);
    assert!(never["window"]["peak"].as_u64() > recorded["window"]["peak"].as_u64());
}

#[test]
fn the_table_fits_eighty_columns() {
    let fixture = Fixture::new();
    for policy in ["recorded", "article", "api-edits", "never"] {
        let run = fixture
            .run(["replay", corpus().to_str().unwrap(), "--policy", policy, "--no-cache"])
            .success();
        for line in run.text().lines() {
            assert!(line.chars().count() <= 80, "{policy}: {line}");
        }
    }
}
