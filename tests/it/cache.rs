//! The cache saves time and changes nothing: damaged, foreign, outdated or shared, the output is the same.

use crate::fixture::{Fixture, case, corpus, files_below, only_log};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Length of the mark and the name of an entry.
const HEADER: usize = 8 + 64;

/// Sets a log's modification time back: one that was modified just now is not remembered.
fn settle(log: &Path) {
    set_age(log, Duration::from_secs(60));
}

fn set_age(log: &Path, age: Duration) {
    let file = std::fs::OpenOptions::new().append(true).open(log).expect("the log");
    file.set_modified(SystemTime::now() - age).expect("an older time");
}

/// Output of one run, and what it said of the cache.
fn run(fixture: &Fixture, path: &Path) -> (Vec<u8>, bool) {
    let args = ["stats", "--format=csv", "--problems"].map(AsRef::as_ref);
    let run = fixture.run(args.into_iter().chain([path.as_os_str()])).success();
    (run.stdout, run.stderr.contains("cache-rebuilt"))
}

/// The folder of the one build that has used the cache.
fn build(fixture: &Fixture) -> PathBuf {
    let builds = std::fs::read_dir(fixture.cache()).expect("a cache");
    let builds = builds.map(|build| build.expect("a folder").path()).collect::<Vec<_>>();
    let [build] = &builds[..] else { panic!("{builds:?}") };
    build.clone()
}

fn index_path(fixture: &Fixture) -> PathBuf {
    build(fixture).join("index")
}

fn index(fixture: &Fixture) -> Vec<u8> {
    std::fs::read(index_path(fixture)).expect("an index")
}

/// Files of the cache except the index.
fn entries(fixture: &Fixture) -> Vec<PathBuf> {
    let build = build(fixture);
    let files = files_below(&build)
        .into_iter()
        .filter(|file| file != Path::new("index"));
    files.map(|file| build.join(file)).collect()
}

/// The folder of summaries.
fn summaries(fixture: &Fixture) -> PathBuf {
    build(fixture).join("summaries")
}

/// The one summary of a cache.
fn summary(fixture: &Fixture) -> PathBuf {
    let files = files_below(&summaries(fixture));
    assert_eq!(files.len(), 1);
    summaries(fixture).join(&files[0])
}

fn contents(fixture: &Fixture) -> BTreeMap<PathBuf, Vec<u8>> {
    entries(fixture)
        .into_iter()
        .map(|entry| (entry.clone(), std::fs::read(entry).expect("an entry")))
        .collect()
}

/// A cache of the bundled logs.
fn warm() -> (Fixture, Vec<u8>) {
    let fixture = Fixture::new();
    let (cold, rebuilt) = run(&fixture, &corpus());
    assert!(!rebuilt, "an empty cache has nothing to rebuild");
    (fixture, cold)
}

#[test]
fn a_second_run_gives_the_same_bytes_and_leaves_the_cache_alone() {
    let (fixture, cold) = warm();
    let before = contents(&fixture);
    let old_index = index(&fixture);
    assert!(before.len() > 50, "an entry for every content");
    assert!(run(&fixture, &corpus()) == (cold, false));
    assert!(contents(&fixture) == before);
    assert_eq!(index(&fixture), old_index);
}

#[test]
fn what_is_cached_is_small() {
    let (fixture, _) = warm();
    let sizes = |files: Vec<PathBuf>| {
        files
            .iter()
            .map(|file| file.metadata().expect("a file").len())
            .sum::<u64>()
    };
    let logs = sizes(crate::fixture::logs_below(&corpus()));
    let cached = sizes(entries(&fixture));
    // Small logs pack badly: each brings its own names. Large ones have to stay below 3%, which the benchmarks measure.
    assert!(cached * 5 < logs, "{cached} bytes for {logs}");
}

/// Damages every entry: the output stays, the run says so, and the entries are as they were.
fn damaged(damage: impl Fn(&[u8]) -> Vec<u8>) {
    let (fixture, cold) = warm();
    let before = contents(&fixture);
    for (entry, bytes) in &before {
        std::fs::write(entry, damage(bytes)).expect("damaged");
    }
    let (output, rebuilt) = run(&fixture, &corpus());
    assert!(output == cold, "a damaged cache changed the output");
    assert!(rebuilt, "damage goes unreported");
    assert!(contents(&fixture) == before, "entries are rebuilt");
    let (output, rebuilt) = run(&fixture, &corpus());
    assert!(output == cold && !rebuilt, "and good again");
}

#[test]
fn entries_with_a_flipped_byte() {
    for place in [0, 3, 8] {
        damaged(|bytes| {
            let mut bytes = bytes.to_vec();
            let at = if place == 8 {
                bytes.len() - 1
            } else {
                bytes.len() * place / 4
            };
            bytes[at] ^= 0x20;
            bytes
        });
    }
}

#[test]
fn entries_cut_short() {
    damaged(|bytes| bytes[..bytes.len() / 2].to_vec());
}

#[test]
fn entries_of_no_bytes() {
    damaged(|_| Vec::new());
}

#[test]
fn entries_of_another_version() {
    damaged(|bytes| {
        let mut bytes = bytes.to_vec();
        bytes[6] ^= 0xff;
        with_checksum(bytes)
    });
}

#[test]
fn entries_with_another_name() {
    damaged(|bytes| {
        let mut bytes = bytes.to_vec();
        bytes[8] = if bytes[8] == b'0' { b'1' } else { b'0' };
        with_checksum(bytes)
    });
}

/// A right checksum over wrong bytes: what a bug or another program may have left.
#[test]
fn entries_with_a_right_checksum_over_nonsense() {
    damaged(|bytes| {
        let mut bytes = bytes.to_vec();
        let end = bytes.len() - 8;
        bytes[HEADER..end].fill(0xff);
        with_checksum(bytes)
    });
}

fn with_checksum(mut bytes: Vec<u8>) -> Vec<u8> {
    let end = bytes.len() - 8;
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[..end]);
    bytes[end..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// An intact entry in another's place must not be taken for it.
#[test]
fn entries_in_the_place_of_others() {
    let (fixture, cold) = warm();
    let before = contents(&fixture);
    let first = before.values().next().expect("an entry");
    for entry in before.keys() {
        std::fs::write(entry, first).expect("replaced");
    }
    assert!(
        run(&fixture, &corpus()).0 == cold,
        "an entry of another log was trusted"
    );
    assert!(contents(&fixture) == before, "entries are rebuilt");
}

#[test]
fn a_damaged_index_is_written_again() {
    let (fixture, cold) = warm();
    let path = index_path(&fixture);
    let good = index(&fixture);
    let mut flipped = good.clone();
    flipped[HEADER] ^= 1;
    for wrong in [
        Vec::new(),
        b"garbage".to_vec(),
        good[..good.len() - 1].to_vec(),
        flipped,
    ] {
        std::fs::write(&path, wrong).expect("written");
        assert!(run(&fixture, &corpus()) == (cold.clone(), true));
        assert_eq!(index(&fixture), good, "written again");
    }
    std::fs::remove_file(&path).expect("removed");
    assert!(
        run(&fixture, &corpus()) == (cold, false),
        "a missing one is not damaged"
    );
    assert_eq!(index(&fixture), good, "written again");
}

#[test]
fn a_run_over_the_same_logs_needs_nothing_but_its_summary() {
    let (fixture, cold) = warm();
    let summary = summary(&fixture);
    for entry in entries(&fixture).iter().filter(|entry| **entry != summary) {
        std::fs::remove_file(entry).expect("removed");
    }
    assert!(run(&fixture, &corpus()) == (cold, false));
    assert_eq!(entries(&fixture), [summary], "and makes nothing else");
}

#[test]
fn a_damaged_summary_is_made_again() {
    let (fixture, cold) = warm();
    let place = summary(&fixture);
    let good = std::fs::read(&place).expect("a summary");
    let mut nonsense = good.clone();
    let body = HEADER..nonsense.len() - 8;
    nonsense[body].fill(0xff);
    let mut longer = good.clone();
    longer.insert(longer.len() - 8, 0);
    let mut damaged = vec![Vec::new(), good[..good.len() / 2].to_vec()];
    damaged.extend([0, 8, HEADER, good.len() / 2, good.len() - 1].map(|at| {
        let mut flipped = good.clone();
        flipped[at] ^= 0x10;
        flipped
    }));
    damaged.extend([with_checksum(nonsense), with_checksum(longer)]);
    for damaged in damaged {
        std::fs::write(&place, damaged).expect("damaged");
        assert!(run(&fixture, &corpus()) == (cold.clone(), true), "counted, not trusted");
        assert!(std::fs::read(&place).expect("a summary") == good, "made again");
        assert!(run(&fixture, &corpus()) == (cold.clone(), false));
    }
}

#[test]
fn the_summary_of_other_logs_is_not_believed() {
    let (fixture, cold) = warm();
    let place = summary(&fixture);
    let other = Fixture::new();
    run(&other, &case("plain"));
    std::fs::copy(summary(&other), &place).expect("swapped");
    assert!(
        run(&fixture, &corpus()) == (cold.clone(), false),
        "as if it were outdated"
    );
    assert!(run(&fixture, &corpus()) == (cold, false));
}

#[test]
fn a_summary_is_outdated_as_soon_as_one_log_is() {
    let fixture = Fixture::new();
    let log = fixture.write("logs/a.jsonl", crate::fixture::only_log("plain"));
    settle(&log);
    settle(&fixture.write("logs/b.jsonl", crate::fixture::only_log("one-hour-writes")));
    let logs = fixture.path("logs");
    let (before, _) = run(&fixture, &logs);
    let place = summary(&fixture);
    let kept = std::fs::read(&place).expect("a summary");
    // Same size, other content; and too new to be remembered by its times.
    let content = String::from_utf8(crate::fixture::only_log("plain")).expect("text");
    let digit = content.find("\"output_tokens\":").expect("a count") + "\"output_tokens\":".len();
    let mut changed = content.into_bytes();
    changed[digit] = if changed[digit] == b'9' { b'8' } else { b'9' };
    std::fs::write(&log, changed).expect("changed");
    let args = ["stats", "--format=csv", "--no-cache"].map(AsRef::as_ref);
    let fresh = fixture.run(args.into_iter().chain([logs.as_os_str()])).success().stdout;
    assert_ne!(fresh, before);
    assert_eq!(run(&fixture, &logs), (fresh.clone(), false));
    assert!(
        std::fs::read(&place).expect("a summary") == kept,
        "a log that may change again is not summed up"
    );
    settle(&log);
    assert_eq!(run(&fixture, &logs), (fresh.clone(), false));
    assert!(
        std::fs::read(&place).expect("a summary") != kept,
        "the new one takes its place"
    );
    assert_eq!(run(&fixture, &logs), (fresh, false));
}

#[test]
fn problems_are_the_same_from_a_summary() {
    let fixture = Fixture::new();
    let list = || {
        let args = ["stats", "--format=csv", "--problems"].map(AsRef::as_ref);
        fixture
            .run(args.into_iter().chain([corpus().as_os_str()]))
            .success()
            .stderr
    };
    let cold = list();
    assert!(cold.contains("missing-parent") && cold.contains("malformed"), "{cold}");
    assert_eq!(cold, list());
}

#[test]
fn few_summaries_are_kept() {
    let fixture = Fixture::new();
    let logs = crate::fixture::logs_below(&corpus());
    for log in &logs[..12] {
        run(&fixture, log);
    }
    assert_eq!(files_below(&summaries(&fixture)).len(), 8);
}

#[test]
fn a_cache_that_cannot_be_written_costs_only_time() {
    let fixture = Fixture::new();
    // A file where the folder should be: nothing can be kept, not even by root.
    fixture.write("cache", "in the way");
    let (output, _) = run(&fixture, &case("plain"));
    let args = ["stats", "--format=csv", "--no-cache"].map(AsRef::as_ref);
    let without = fixture
        .run(args.into_iter().chain([case("plain").as_os_str()]))
        .success();
    assert!(output == without.stdout);
    assert_eq!(std::fs::read(fixture.cache()).expect("the file"), b"in the way");
}

#[test]
fn a_log_that_was_touched_is_known_and_one_that_grew_is_read_again() {
    let fixture = Fixture::new();
    let content = crate::fixture::only_log("one-hour-writes");
    let half = content
        .split_inclusive(|&byte| byte == b'\n')
        .take(3)
        .map(<[u8]>::len)
        .sum::<usize>();
    let log = fixture.write("logs/session.jsonl", &content[..half]);
    settle(&log);
    let logs = fixture.path("logs");
    let (first, _) = run(&fixture, &logs);
    let entry = contents(&fixture);
    assert_eq!(entry.len(), 2, "the packed log and the summary");
    let old_index = index(&fixture);

    set_age(&log, Duration::from_secs(3_600));
    assert_eq!(run(&fixture, &logs), (first.clone(), false));
    assert_eq!(contents(&fixture), entry, "same content, same entry");
    assert_ne!(index(&fixture), old_index, "the new times are remembered");

    std::fs::write(&log, &content).expect("grown");
    let args = ["stats", "--format=csv", "--no-cache"].map(AsRef::as_ref);
    let fresh = fixture.run(args.into_iter().chain([logs.as_os_str()])).success().stdout;
    assert_ne!(fresh, first);
    assert_eq!(run(&fixture, &logs), (fresh.clone(), false), "read again");
    assert_eq!(
        contents(&fixture),
        entry,
        "a log that was just written is not remembered"
    );
    settle(&log);
    assert_eq!(run(&fixture, &logs), (fresh, false));
    assert_eq!(entries(&fixture).len(), 2, "the outdated entries are gone");
}

#[test]
fn a_moved_log_is_known_by_its_content() {
    let fixture = Fixture::new();
    let log = fixture.write("here/session.jsonl", crate::fixture::only_log("plain"));
    settle(&log);
    let (here, _) = run(&fixture, &fixture.path("here"));
    // A summary depends on paths; everything else depends on content.
    let by_content = || {
        let mut entries = contents(&fixture);
        entries.retain(|entry, _| !entry.starts_with(summaries(&fixture)));
        entries
    };
    let before = by_content();
    std::fs::create_dir(fixture.path("there")).expect("a folder");
    std::fs::rename(&log, fixture.path("there/session.jsonl")).expect("moved");
    let (there, _) = run(&fixture, &fixture.path("there"));
    assert_eq!((here, before), (there, by_content()));
}

#[test]
fn folders_of_old_builds_go() {
    let fixture = Fixture::new();
    let old_build = |name: &str, seconds: u64| {
        let index = fixture.write(&format!("cache/{name}/index"), "");
        set_age(&index, Duration::from_secs(seconds));
    };
    old_build("build-0.0.1-a", 300);
    old_build("build-0.0.1-b", 100);
    old_build("build-0.0.1-c", 200);
    old_build("model", 400);
    fixture.write("cache/build-notes/mine.txt", "no index");
    let (output, _) = run(&fixture, &case("plain"));
    let mut left = std::fs::read_dir(fixture.cache())
        .expect("a cache")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("a name"))
        .collect::<Vec<_>>();
    left.sort();
    let this = left.remove(1);
    assert!(this.starts_with(concat!("build-", env!("CARGO_PKG_VERSION"))), "{this}");
    assert_eq!(
        left,
        ["build-0.0.1-b", "build-notes", "model"],
        "the build before is kept"
    );
    assert_eq!(run(&fixture, &case("plain")), (output, false));
}

#[test]
fn several_runs_at_the_same_time() {
    let fixture = Fixture::new();
    let args = ["stats", "--format=csv", "--problems"].map(AsRef::as_ref);
    let run_all = || {
        let children = [(); 4].map(|()| {
            let mut command = fixture.command(args.iter().copied().chain([corpus().as_os_str()]));
            let pipes = command
                .stdout(std::process::Stdio::piped())
                .stderr(std::process::Stdio::piped());
            pipes.spawn().expect("started")
        });
        children.map(|child| crate::fixture::Run::from(child.wait_with_output().expect("ended")).success())
    };
    let cold = run_all();
    let warm = run_all();
    for run in cold.iter().chain(&warm) {
        assert!(run.stdout == cold[0].stdout);
        assert!(!run.stderr.contains("cache-rebuilt"), "{}", run.stderr);
    }
    let is_hidden = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with('.'))
    };
    assert_eq!(
        entries(&fixture).into_iter().find(is_hidden),
        None,
        "no temporary files stay behind"
    );
}

/// Figures of one run over a log with the cache of the fixture.
fn totals(fixture: &Fixture, log: &Path, options: &[&str]) -> serde_json::Value {
    fixture.stats(log, options)["totals"].clone()
}

#[test]
fn another_limit_of_lines_is_another_log() {
    let fixture = Fixture::new();
    let long = String::from_utf8_lossy(&only_log("one-hour-writes")).replacen(
        "\"content\":[",
        &format!("\"pad\":\"{}\",\"content\":[", "x".repeat(400_000)),
        1,
    );
    let log = fixture.write("a.jsonl", long);
    settle(&log);
    let short = ["--max-line=256KiB"];
    let expected = [&short[..], &[]].map(|options| totals(&fixture, &log, &[&["--no-cache"], options].concat()));
    assert_ne!(expected[0], expected[1]);
    for turn in [0, 1, 0, 1] {
        let options = [&short[..], &[]][turn];
        assert_eq!(totals(&fixture, &log, options), expected[turn]);
    }
}

#[test]
fn the_same_bytes_under_a_name_that_says_otherwise_are_another_log() {
    use std::io::Write;
    let fixture = Fixture::new();
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    packed.write_all(&only_log("one-hour-writes")).expect("a packed log");
    let packed = packed.finish().expect("a packed log");
    let (log, part) = (fixture.write("s.jsonl.gz", &packed), fixture.write("s.part", &packed));
    settle(&log);
    settle(&part);
    for _ in 0..2 {
        // Packed bytes are no records.
        fixture.run(["stats".as_ref(), part.as_os_str()]).ended(2);
        assert_eq!(totals(&fixture, &log, &[])["responses"], 3);
    }
}

/// Every document, as it is without a cache.
fn documents(fixture: &Fixture, more: &[&str]) -> Vec<Vec<u8>> {
    let logs = fixture.path("logs").display().to_string();
    let commands: [&[&str]; 7] = [
        &["stats", "-f=json", "--problems"],
        &["overview", "-f=json"],
        &["audit", "-f=json", "--problems"],
        &["replay", "-f=json"],
        &["check", "-f=json", "--max-problems=0"],
        &["validate", "-f=json"],
        &["stats", "--quality"],
    ];
    let run = |args: &&[&str]| fixture.run(args.iter().chain([&&*logs]).chain(more)).stdout;
    commands.iter().map(run).collect()
}

#[test]
fn documents_do_not_depend_on_the_state_of_the_cache() {
    let fixture = Fixture::new();
    for name in ["long-session", "plain"] {
        settle(&fixture.write(&format!("logs/{name}.jsonl"), only_log(name)));
    }
    let expected = documents(&fixture, &["--no-cache"]);
    assert!(documents(&fixture, &[]) == expected, "cold");
    assert!(documents(&fixture, &[]) == expected, "warm");
    let files = [entries(&fixture), vec![index_path(&fixture)]].concat();
    assert!(files.len() > 3);
    for damage in [&b""[..], b"short", &[7; 4096]] {
        for file in &files {
            std::fs::write(file, damage).expect("damaged");
        }
        let args = ["stats", "logs", "-f=json", "--problems"];
        let run = fixture.run(args).success();
        assert!(run.stderr.contains("cache-rebuilt"), "{}", run.stderr);
        for file in &files {
            std::fs::write(file, damage).expect("damaged");
        }
        assert!(documents(&fixture, &[]) == expected, "damaged");
    }
}

#[cfg(unix)]
#[test]
fn a_cache_entry_that_is_no_regular_file_is_refused_at_once() {
    let fixture = Fixture::new();
    settle(&fixture.write("logs/a.jsonl", only_log("plain")));
    let stats = || fixture.run(["stats", "logs", "-f=json"]).success();
    let expected = stats().stdout;
    let content = index(&fixture);
    let target = fixture.write("target", &content);
    let targets = ["target", "/dev/zero", "missing"].map(|to| Some(fixture.path(to)));
    for file in [summary(&fixture), index_path(&fixture)] {
        for link in [None].iter().chain(&targets) {
            std::fs::remove_file(&file).expect("removed");
            match link {
                None => assert!(fixture.hermetic("mkfifo", [&file]).status().expect("mkfifo").success()),
                Some(to) => std::os::unix::fs::symlink(to, &file).expect("a link"),
            }
            assert!(stats().stdout == expected, "{link:?}");
            assert!(stats().stdout == expected, "{link:?}, again");
            let kind = std::fs::symlink_metadata(&file).expect("made again").file_type();
            assert!(kind.is_file(), "{}", file.display());
        }
    }
    assert_eq!(
        std::fs::read(&target).expect("the target"),
        content,
        "nothing is written through a link"
    );
}
