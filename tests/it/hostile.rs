//! Lines made to break a parser: too many elements, too deep, too long. Each is read or reported, within bounds.

use crate::fixture::{Fixture, Run, figures, only_log};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Puts a line between the lines of a good log: the good lines must count as before. Returns the problem kinds.
fn between_good_lines(line: &[u8]) -> Vec<String> {
    let fixture = Fixture::new();
    let good = only_log("one-hour-writes");
    let cut = good.iter().position(|&byte| byte == b'\n').expect("a line") + 1;
    let log = fixture.write("log.jsonl", [&good[..cut], line, b"\n", &good[cut..]].concat());
    let stats = fixture.stats(log, &["--no-cache", "--problems"]);
    assert_eq!(figures(&stats["totals"]), [3, 19, 140, 104_309, 700, 8_747]);
    let problems = stats["problems"]["list"].as_array().expect("a list");
    assert!(
        problems
            .iter()
            .all(|problem| problem["line"] == 2 && problem["offset"] == cut),
        "{problems:?}"
    );
    problems
        .iter()
        .map(|problem| problem["kind"].as_str().expect("a kind").to_owned())
        .collect()
}

#[test]
fn a_line_of_a_million_elements_does_not_harm_its_neighbors() {
    let array = [b"[".to_vec(), b"0,".repeat(999_999), b"0]".to_vec()].concat();
    assert_eq!(between_good_lines(&array), ["not-an-object"]);
    let field = [&b"{\"type\":\"user\",\"unheard\":"[..], &array, b"}"].concat();
    assert_eq!(between_good_lines(&field), [""; 0]);
    let content = [
        &b"{\"type\":\"user\",\"message\":{\"role\":\"user\",\"content\":"[..],
        &array,
        b"}}",
    ]
    .concat();
    assert_eq!(between_good_lines(&content), [""; 0]);
}

#[test]
fn five_million_levels_of_nesting_are_reported_as_too_deep() {
    assert_eq!(between_good_lines(&b"[".repeat(5_000_000)), ["too-deep"]);
    assert_eq!(between_good_lines(&b"{\"a\":".repeat(5_000_000)), ["too-deep"]);
    let closed = [b"[".repeat(2_500_000), b"]".repeat(2_500_000)].concat();
    assert_eq!(between_good_lines(&closed), ["too-deep"]);
    let inside = [&b"{\"type\":\"user\",\"unheard\":"[..], &closed, b"}"].concat();
    assert_eq!(between_good_lines(&inside), ["too-deep"]);
}

/// Each could be the start of a torn record; a parser that tries each to the end takes quadratic time.
#[test]
fn half_a_million_torn_starts_are_read_in_linear_time() {
    assert_eq!(between_good_lines(&b"{\"type\":1]".repeat(500_000)), ["malformed"]);
    let nested = [b"{\"type\":[".repeat(60), b"0,".repeat(500_000)].concat();
    assert_eq!(between_good_lines(&nested), ["malformed"]);
}

#[test]
fn a_line_of_twenty_megabytes_is_read() {
    let text = "words and \\\"words\\\" ".repeat(1 << 20);
    let line = format!(r#"{{"type":"user","uuid":"long","message":{{"role":"user","content":"{text}"}}}}"#);
    assert!(line.len() > 20 << 20);
    assert_eq!(between_good_lines(line.as_bytes()), [""; 0]);
    // The same with an escape that the fast path declines.
    let mended = line.replacen("words", "w\\ud800rds", 1);
    assert_eq!(between_good_lines(mended.as_bytes()), ["text-mended"]);
}

#[test]
fn a_line_above_the_limit_is_reported_and_skipped() {
    let fixture = Fixture::new();
    let long = format!(r#"{{"type":"user","uuid":"long","text":"{}"}}"#, "x".repeat(2 << 20));
    let good = only_log("one-hour-writes");
    let log = fixture.write("log.jsonl", [&good[..], long.as_bytes(), b"\n"].concat());
    for io in ["--io=read", "--io=mmap"] {
        let stats = fixture.stats(&log, &["--no-cache", "--max-line=1MiB", io]);
        assert_eq!(figures(&stats["totals"])[0], 3, "{io}");
        let stats = fixture.stats(&log, &["--no-cache", "--max-line=4MiB", io]);
        assert_eq!(stats["problems"]["total"], 0, "{io}");
    }
    let stats = fixture.stats(&log, &["--no-cache", "--max-line=1MiB", "--io=read"]);
    assert_eq!(stats["problems"]["by_kind"]["too-long"], 1);
}

/// Good lines, then one of a gigabyte that takes no space on disk, then good lines.
fn sparse_log(fixture: &Fixture, size: u64) -> PathBuf {
    let good = only_log("one-hour-writes");
    let path = fixture.write("log.jsonl", &good);
    let mut file = File::options().append(true).open(&path).expect("the log");
    file.set_len(size).expect("room for a sparse file");
    let other = only_log("missing-request-id");
    file.write_all(&[b"\n", &other[..]].concat()).expect("written");
    path
}

/// Largest memory of a process so far, in bytes.
fn peak_memory(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim()
        .strip_suffix(" kB")?
        .parse::<u64>()
        .ok()
        .map(|kib| kib << 10)
}

/// Runs a command to its end and watches how much memory it takes. The output must be small enough for a pipe to hold it.
fn run_measured(mut command: Command) -> (Run, u64) {
    let pipes = command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("started");
    let mut peak = 0;
    while child.try_wait().expect("a child").is_none() {
        peak = peak_memory(child.id()).unwrap_or(peak);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (Run::from(child.wait_with_output().expect("ended")), peak)
}

/// A few hundred bytes that unpack to millions of lines that are no records.
#[cfg(target_os = "linux")]
#[test]
fn a_small_packed_file_of_bad_lines_stays_within_the_memory_limit() {
    const LINES: usize = 1_500_000;
    let lines = |line: &[u8]| [&line.repeat(LINES)[..], &only_log("one-hour-writes")].concat();
    for (line, kind) in [
        (&b"{x}\n"[..], "malformed"),
        (b"[]\n", "not-an-object"),
        (b"\0\n", "only-nul"),
    ] {
        let fixture = Fixture::new();
        let log = fixture.write("log.jsonl.zst", zstd::encode_all(&lines(line)[..], 3).expect("packed"));
        for command in ["stats", "audit"] {
            let args = [command, "--no-cache", "--threads=2", "--format=json", "--problems"];
            let command = fixture.command(args.iter().map(Path::new).chain([log.as_path()]));
            let (run, peak) = run_measured(command);
            let run = run.success();
            let problems = &run.json()["problems"];
            assert_eq!(problems["by_kind"][kind], LINES);
            assert_eq!(problems["total"], LINES);
            let list = problems["list"].as_array().expect("a list");
            let places = list.iter().map(|problem| problem["line"].as_u64().expect("a line"));
            assert_eq!(places.collect::<Vec<_>>(), (1..=10).collect::<Vec<_>>());
            assert_eq!(list[9]["more"], LINES - 10);
            assert!(list[..9].iter().all(|problem| problem["more"] == 0));
            assert!(
                run.stderr.contains("1499990 more of this kind in this file"),
                "{}",
                run.stderr
            );
            assert!(peak > 0 && peak < PEAK, "{kind}: {} MiB", peak >> 20);
        }
    }
}

#[test]
fn problems_are_counted_alike_however_a_log_is_read() {
    let fixture = Fixture::new();
    // Long enough to be read in parts.
    let log = [&b"{x}\n".repeat(3 << 20)[..], &only_log("one-hour-writes")].concat();
    let plain = fixture.write("plain/log.jsonl", &log);
    let packed = fixture.write("packed/log.jsonl.zst", zstd::encode_all(&log[..], 1).expect("packed"));
    let problems = |path: &Path, more: &[&str]| {
        let mut problems = fixture.stats(path, &[&["--problems"], more].concat())["problems"].clone();
        for problem in problems["list"].as_array_mut().expect("a list") {
            problem["path"] = Default::default();
        }
        problems
    };
    let expected = problems(&plain, &["--no-cache", "--threads=1"]);
    assert_eq!(expected["by_kind"]["malformed"], 3 << 20);
    assert_eq!(problems(&plain, &["--no-cache", "--threads=4"]), expected);
    assert_eq!(problems(&packed, &["--no-cache"]), expected);
    assert_eq!(problems(&packed, &[]), expected);
    assert_eq!(problems(&packed, &[]), expected, "from the cache");
}

#[cfg(target_os = "linux")]
#[test]
fn a_line_of_a_gigabyte_stays_within_the_memory_limit() {
    let fixture = Fixture::new();
    let log = sparse_log(&fixture, 1 << 30);
    // A reader that holds or maps the line runs out of address space.
    let script = format!("ulimit -v {} && exec \"$0\" \"$@\"", ADDRESSES >> 10);
    let binary = env!("CARGO_BIN_EXE_backcast");
    let args = [
        "-c",
        &script,
        binary,
        "stats",
        "--no-cache",
        "--threads=2",
        "--format=json",
        "--problems",
    ];
    let args = args.iter().map(Path::new).chain([log.as_path()]);
    let command = fixture.hermetic("sh", args);
    let (run, peak) = run_measured(command);
    let stats = run.success().json();
    assert_eq!(stats["problems"]["by_kind"]["too-long"], 1);
    assert_eq!(stats["problems"]["total"], 1, "{}", stats["problems"]);
    assert_eq!(
        figures(&stats["totals"])[0],
        3 + 2,
        "what stands before and after it counts"
    );
    assert!(peak > 0 && peak < PEAK, "{} MiB", peak >> 20);
}

/// Limit of the address space: a fraction of the line. The code of a debug build takes 40 MiB of it.
const ADDRESSES: u64 = if cfg!(debug_assertions) { 384 << 20 } else { 256 << 20 };

/// The goal is 64 MiB; a debug build is itself larger than a release build.
const PEAK: u64 = if cfg!(debug_assertions) { 80 << 20 } else { 64 << 20 };
