//! `map` and `reduce`: what a command says of parts is what it says of the logs, wherever and however often these were mapped;
//! and a part that is not what was written is refused.

use crate::fixture::{Fixture, Run, corpus, files_below};
use backcast::commands::reduce::{REDUCED_COMMANDS, TextNeed};
use backcast::run::cache::BUILD_ID;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const SHARDS: usize = 7;

/// A fixture with the bundled logs in its folder `logs`, some of them compressed, and one that cannot be read.
pub fn with_logs() -> Fixture {
    let fixture = Fixture::new();
    for (number, file) in files_below(&corpus()).into_iter().enumerate() {
        let bytes = std::fs::read(corpus().join(&file)).expect("a file");
        let name = format!("logs/{}", file.display());
        match number % 9 {
            4 if name.ends_with(".jsonl") => {
                fixture.write(
                    &format!("{name}.zst"),
                    zstd::encode_all(&*bytes, 1).expect("compressed"),
                );
            }
            _ => {
                fixture.write(&name, bytes);
            }
        }
    }
    fixture.write("logs/broken.jsonl.gz", b"\x1f\x8b\x08\x00 not a stream");
    fixture
}

/// Maps one shard into the folder `parts`.
fn map_shard(fixture: &Fixture, number: usize) -> Run {
    let shard = format!("--shard={number}/{SHARDS}");
    fixture.run(["map", "logs", "--texts", "--quiet", "--out=parts", &shard])
}

/// Returns the parts in the folder `parts`, sorted.
fn parts(fixture: &Fixture) -> Vec<PathBuf> {
    let files = files_below(&fixture.path("parts")).into_iter();
    files.map(|file| fixture.path("parts").join(file)).collect()
}

/// What a run left: status, both outputs, and the files below `out`.
pub type Outcome = (Option<i32>, Vec<u8>, String, BTreeMap<PathBuf, Vec<u8>>);

pub fn outcome(fixture: &Fixture, args: &[&str]) -> Outcome {
    let out = fixture.path("out");
    let _ = std::fs::remove_dir_all(&out);
    std::fs::create_dir(&out).expect("a folder");
    let run = fixture.run(args);
    let files = files_below(&out).into_iter();
    let files = files.map(|file| (file.clone(), std::fs::read(out.join(file)).expect("a file")));
    (run.status, run.stdout, run.stderr, files.collect())
}

/// Command lines without paths, by the command.
pub fn lines_of(name: &str) -> &'static [&'static [&'static str]] {
    match name {
        "overview" => &[&["overview"], &["overview", "-f", "json"]],
        "stats" => &[
            &["stats", "--problems"],
            &["stats", "-f", "json", "--by", "day", "--ledger"],
            &["stats", "-f", "csv", "--by", "tool"],
            &["stats", "--quality", "-f", "json"],
            &["stats", "--last", "3d", "--by", "model", "--strict"],
            &["stats", "--project", "orchard", "-j", "1"],
        ],
        "audit" => &[&["audit", "-f", "json"]],
        "validate" => &[&["validate", "-f", "json"]],
        "replay" => &[
            &["replay", "--working-set", "-f", "json"],
            &["replay", "--out", "out/run", "--events", "--html", "out/run.html"],
            &["replay", "--with-text", "-f", "json"],
        ],
        "tune" => &[&[
            "tune",
            "--vary",
            "window.percent=40,80",
            "--resamples=100",
            "--out",
            "out/tune",
        ]],
        "check" => &[&["check", "--all"], &["check", "--max-cost", "0.01", "-f", "junit"]],
        "report" => &[
            &["report", "-o", "out/all.html"],
            &["report", "--memories", "--notes", "--with-text", "-o", "out/whole.html"],
        ],
        "notes" => &[&["notes", "--summary", "--out", "out/notes", "-f", "json"]],
        "search" => &[&["search", "connection pool tests", "--only", "transcripts", "-f", "json"]],
        "memory extract" => &[&["memory", "extract", "--dry-run", "--rejected", "-f", "json"]],
        "memory review" => &[&[
            "memory",
            "review",
            "--review-file",
            "out/review.md",
            "--dir",
            "out/memory",
        ]],
        _ => &[],
    }
}

#[test]
fn every_command_gives_the_same_bytes_from_parts() {
    let fixture = with_logs();
    for number in 1..=SHARDS {
        if number == 3 {
            // A worker that is killed leaves no part, or a whole one.
            let shard = format!("--shard={number}/{SHARDS}");
            let mut command = fixture.command(["map", "logs", "--texts", "--quiet", "--out=parts", &shard]);
            let mut worker = command.spawn().expect("the program starts");
            worker.kill().expect("killed");
            worker.wait().expect("ended");
        }
        map_shard(&fixture, number).success();
    }
    let mut parts = parts(&fixture);
    // What a killed worker may have left of its temporary file is not a part.
    parts.retain(|part| part.extension().is_some_and(|end| end == "part"));
    assert_eq!(parts.len(), SHARDS);
    for (turn, command) in REDUCED_COMMANDS.iter().enumerate() {
        let lines = lines_of(command.name);
        assert!(!lines.is_empty(), "no command line for `{}`", command.name);
        for line in lines {
            parts.rotate_left(turn % 3 + 1);
            let words = command.name.split(' ').count();
            let (verb, options) = line.split_at(words);
            // A query stands before the paths.
            let query = usize::from(command.name == "search");
            let local = [verb, &options[..query], &["logs", "--no-cache"], &options[query..]].concat();
            let listed = parts.iter().map(|part| part.to_str().expect("UTF-8"));
            let reduced = std::iter::once("reduce").chain(listed).chain(["--"]);
            let reduced = reduced.chain(line.iter().copied()).collect::<Vec<_>>();
            let (local, reduced) = (outcome(&fixture, &local), outcome(&fixture, &reduced));
            assert_eq!(local.0, reduced.0, "status of {line:?}: {}", reduced.2);
            assert!(local.1 == reduced.1, "standard output of {line:?}");
            assert_eq!(local.2, reduced.2, "standard error of {line:?}");
            let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
            assert_eq!(names(&local.3), names(&reduced.3), "files of {line:?}");
            for (file, bytes) in &local.3 {
                assert!(*bytes == reduced.3[file], "{} of {line:?}", file.display());
            }
            assert!(!local.1.is_empty() || !local.3.is_empty(), "{line:?} says nothing");
        }
    }
}

#[test]
fn a_part_follows_from_logs_options_and_build_alone() {
    let fixture = with_logs();
    let map = |out: &str, more: &[&str]| {
        let args = [&["map", "logs", "--texts", "--quiet", "-o", out], more].concat();
        fixture.run(args).success();
        std::fs::read(fixture.path(out)).expect("a part")
    };
    let first = map("a.part", &["--no-cache", "--threads=1"]);
    for file in files_below(&fixture.path("logs")) {
        let file = std::fs::File::options()
            .append(true)
            .open(fixture.path("logs").join(file));
        let file = file.expect("a log");
        file.set_modified(std::time::UNIX_EPOCH).expect("a time");
    }
    assert!(
        first == map("b.part", &["--threads=4", "--io=mmap"]),
        "threads and mapping"
    );
    assert!(first == map("c.part", &[]), "a warm cache");
    let without = map("d.part", &[]);
    assert!(without == first, "the same options");
    fixture.run(["map", "logs", "--quiet", "-o", "e.part"]).success();
    let numbers = std::fs::read(fixture.path("e.part")).expect("a part");
    assert!(numbers.len() < first.len() / 2, "{} bytes without texts", numbers.len());
}

#[test]
fn parts_may_be_joined_and_written_as_lines() {
    let fixture = with_logs();
    let expected = fixture
        .run(["stats", "logs", "-f", "json", "--no-cache"])
        .success()
        .stdout;
    let (mut joined, mut lines) = (Vec::new(), Vec::new());
    for number in [2, 3, 1] {
        let shard = format!("--shard={number}/3");
        joined.extend(fixture.run(["map", "logs", "-q", "-o", "-", &shard]).success().stdout);
        let text = fixture
            .run(["map", "logs", "-q", "-o", "-", "--base64", &shard])
            .success();
        assert!(text.stdout.is_ascii());
        lines.extend(text.text().lines().map(str::to_owned));
    }
    fixture.write("joined", joined);
    lines.reverse();
    // As Spark leaves them: files of lines, a file without any, and its marks.
    fixture.write("spark/part-00000", lines[1..].join("\n"));
    fixture.write("spark/part-00001", format!("{}\n", lines[0]));
    fixture.write("spark/part-00002", "");
    fixture.write("spark/_SUCCESS", "");
    fixture.write("spark/.part-00000.crc", "crc");
    for parts in ["joined", "spark"] {
        let run = fixture.run(["reduce", parts, "--", "stats", "-f", "json"]).success();
        assert!(run.stdout == expected, "{parts}");
    }
}

#[test]
fn a_log_that_two_parts_have_counts_once() {
    let fixture = with_logs();
    let expected = fixture
        .run(["stats", "logs", "-f", "json", "--no-cache"])
        .success()
        .stdout;
    fixture
        .run(["map", "logs", "-q", "--texts", "-o", "texts.part"])
        .success();
    fixture.run(["map", "logs", "-q", "-o", "all.part"]).success();
    fixture.run(["map", "logs/plain", "-q", "-o", "some.part"]).success();
    let run = fixture.run([
        "reduce",
        "some.part",
        "all.part",
        "texts.part",
        "--",
        "stats",
        "-f",
        "json",
    ]);
    assert!(run.success().stdout == expected);
}

/// Runs `reduce`, which must refuse.
#[track_caller]
fn refused(fixture: &Fixture, args: &[&str], reason: &str) {
    let run = fixture.run([&["reduce"], args].concat()).ended(2);
    assert!(run.stderr.contains(reason), "{args:?}: {}", run.stderr);
    assert!(run.stdout.is_empty(), "{args:?}");
}

#[test]
fn a_damaged_part_is_refused() {
    let fixture = with_logs();
    fixture
        .run(["map", "logs/plain", "-q", "--texts", "-o", "good.part"])
        .success();
    let good = std::fs::read(fixture.path("good.part")).expect("a part");
    let search = ["bad.part", "--", "search", "tests", "--only", "transcripts"];
    let mut tried = BTreeSet::new();
    for at in (0..good.len())
        .step_by(good.len() / 60)
        .chain(good.len() - 40..good.len())
    {
        let mut flipped = good.clone();
        flipped[at] ^= 0x20;
        for bad in [&flipped, &good[..at].to_vec()] {
            fixture.write("bad.part", bad);
            let run = fixture.run([&["reduce"], &search[..]].concat());
            if bad.is_empty() {
                continue;
            }
            assert_eq!(run.status, Some(2), "byte {at}: {}", run.stderr);
            assert!(run.stdout.is_empty(), "byte {at}");
            let reason = ["damaged", "not a part", "written by"]
                .into_iter()
                .find(|reason| run.stderr.contains(reason));
            tried.insert(reason.unwrap_or_else(|| panic!("byte {at}: {}", run.stderr)));
        }
    }
    assert!(tried.contains("damaged"), "{tried:?}");
    fixture.write("bad.part", [&good[..], b"x"].concat());
    refused(&fixture, &search, "damaged");
    fixture.write("bad.part", "YmNwYXJ0!\n");
    refused(&fixture, &search, "bad.part:1: the part is damaged");
}

#[test]
fn a_part_of_another_build_is_refused() {
    let fixture = with_logs();
    fixture.run(["map", "logs/plain", "-q", "-o", "good.part"]).success();
    let mut part = std::fs::read(fixture.path("good.part")).expect("a part");
    let at = memchr::memmem::find(&part, BUILD_ID.as_bytes()).expect("the build");
    let other = "9".repeat(BUILD_ID.len());
    part[at..at + other.len()].copy_from_slice(other.as_bytes());
    fixture.write("other.part", part);
    refused(
        &fixture,
        &["other.part", "--", "stats"],
        &format!("written by backcast {other}"),
    );
    refused(
        &fixture,
        &["good.part", "other.part", "--", "stats"],
        "map and reduce with the same build",
    );
}

#[test]
fn parts_that_do_not_belong_together_are_refused() {
    let fixture = with_logs();
    for number in [1, 2, 4] {
        fixture
            .run(["map", "logs", "-q", "--out=parts", &format!("--shard={number}/4")])
            .success();
    }
    refused(&fixture, &["parts", "--", "stats"], "there is no part of shard 3/4");
    fixture.run(["map", "logs/plain", "-q", "-o", "before.part"]).success();
    let log = files_below(&fixture.path("logs/plain"));
    let log = log
        .iter()
        .find(|file| file.extension().is_some_and(|end| end == "jsonl"));
    let log = Path::new("logs/plain").join(log.expect("a log"));
    let mut bytes = std::fs::read(fixture.path(&log)).expect("a log");
    bytes.extend_from_slice(b"{}\n");
    fixture.write(log.to_str().expect("UTF-8"), bytes);
    fixture.run(["map", "logs/plain", "-q", "-o", "after.part"]).success();
    refused(
        &fixture,
        &["before.part", "after.part", "--", "stats"],
        "with different contents",
    );
    fixture
        .run(["map", "logs/plain", "-q", "--max-line=1MiB", "-o", "short.part"])
        .success();
    refused(&fixture, &["after.part", "short.part", "--", "stats"], "--max-line");
}

#[test]
fn what_reduce_does_not_do_is_said() {
    let fixture = with_logs();
    fixture.run(["map", "logs/plain", "-q", "-o", "plain.part"]).success();
    let with_part = |args: &[&'static str]| [&["plain.part", "--"], args].concat();
    for command in REDUCED_COMMANDS
        .iter()
        .filter(|command| command.texts == TextNeed::Always)
    {
        let line = lines_of(command.name)[0];
        refused(&fixture, &with_part(line), "map the logs again with --texts");
    }
    refused(&fixture, &with_part(&["replay", "--with-text"]), "--texts");
    refused(
        &fixture,
        &with_part(&["config", "show"]),
        "reduce runs overview, stats,",
    );
    refused(
        &fixture,
        &with_part(&["stats", "logs"]),
        "paths of logs: this was decided when the parts were made",
    );
    refused(
        &fixture,
        &with_part(&["stats", "--max-line=1MiB"]),
        "--max-line: this was decided when the parts were made",
    );
    refused(
        &fixture,
        &with_part(&["stats", "--by", "nothing"]),
        "after `--`: invalid value 'nothing'",
    );
    refused(&fixture, &["corpus-is-not-here", "--", "stats"], "corpus-is-not-here");
    fixture.write("notes.txt", "not a part");
    refused(&fixture, &["notes.txt", "--", "stats"], "not a part");
    let help = fixture.run(["reduce", "plain.part", "--", "stats", "--help"]).success();
    assert!(help.text().contains("--by"), "{}", help.text());
}

#[test]
fn only_a_part_is_replaced() {
    let fixture = with_logs();
    fixture.write("mine", "my notes");
    let run = fixture.run(["map", "logs/plain", "-q", "-o", "mine"]).ended(2);
    assert!(
        run.stderr.contains("only an earlier part is replaced"),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read(fixture.path("mine")).expect("a file"), b"my notes");
    for _ in 0..2 {
        let run = fixture.run(["map", "logs/plain", "--out", "parts"]).success();
        assert_eq!(run.text().lines().count(), 1, "the path of the part");
        assert!(fixture.path(run.text().trim_end()).is_file());
    }
    assert_eq!(
        parts(&fixture).len(),
        1,
        "the second run replaces the part of the first"
    );
    fixture
        .run(["map", "logs/plain", "-q", "--out", "parts", "-o", "x"])
        .ended(2);
    fixture.run(["map", "logs/plain", "-q"]).ended(2);
    fixture
        .run(["map", "logs/nothing-there", "-q", "--out", "parts"])
        .ended(2);
}
