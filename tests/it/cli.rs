//! The command line: exit status, errors, and the files a run leaves.

use crate::fixture::{Fixture, case, corpus, only_log};
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::process::Stdio;

/// `stats` of a bundled case with some more arguments.
fn args(name: &str, more: &[&str]) -> Vec<OsString> {
    let mut args = vec![OsString::from("stats"), case(name).into_os_string()];
    args.extend(more.iter().map(OsString::from));
    args
}

#[test]
fn a_run_with_problems_succeeds_unless_it_is_strict() {
    let fixture = Fixture::new();
    for lossy in ["garbage-line", "truncated-record", "spliced-records"] {
        fixture.run(args(lossy, &[])).success();
        let strict = fixture.run(args(lossy, &["--strict"])).ended(3);
        assert!(!strict.stdout.is_empty(), "{lossy}: the result is written all the same");
    }
    for whole in [
        "plain",
        "live-tail",
        "glued-records",
        "lone-surrogate",
        "missing-parent",
        "crlf",
    ] {
        fixture.run(args(whole, &["--strict"])).success();
    }
}

#[test]
fn problems_are_summed_up_or_listed_or_kept_quiet() {
    let fixture = Fixture::new();
    let summary = fixture.run(args("garbage-line", &[])).success();
    assert!(summary.stderr.contains("       1  malformed"), "{}", summary.stderr);
    let list = fixture.run(args("garbage-line", &["--problems"])).success();
    assert!(
        list.stderr.contains(".jsonl:4 (byte 2267): malformed:"),
        "{}",
        list.stderr
    );
    let quiet = fixture.run(args("garbage-line", &["--quiet"])).success();
    assert_eq!(quiet.stderr, "");
    assert_eq!(
        fixture.run(args("plain", &[])).success().stderr,
        "",
        "nothing to say of a good log"
    );
}

#[test]
fn wrong_usage_ends_with_two_and_says_why() {
    let fixture = Fixture::new();
    let no_table = fixture.write("no-table.json", r#"{"models": {"m": {"input": -1, "output": 2}}}"#);
    let no_table = format!("--prices={}", no_table.display());
    for (wrong, reason) in [
        (&["--since=tomorrow"][..], "neither a date"),
        (&["--until=2026-13-01"], "--until"),
        (
            &["--since=2026-02-01", "--until=2026-01-01"],
            "--since must be before --until",
        ),
        (&["--timezone=Mars/Olympus"], "Mars/Olympus"),
        (&["--prices=missing.json"], "missing.json"),
        (&[&no_table], "a price must be a number"),
        (&["--format=xml"], "xml"),
        (&["--by=mood"], "mood"),
        (&["--threads=0"], "--threads"),
        (&["--max-line=many"], "--max-line"),
        (&["--force"], "--output"),
        (&["--unheard-of"], "--unheard-of"),
    ] {
        let run = fixture.run(args("plain", wrong)).ended(2);
        assert!(run.stdout.is_empty(), "{wrong:?}");
        assert!(run.stderr.contains(reason), "{wrong:?}: {}", run.stderr);
    }
    fixture.run(["sing"]).ended(2);
}

#[test]
fn an_output_is_not_overwritten_unless_forced() {
    let fixture = Fixture::new();
    let file = fixture.path("usage.json");
    let out = format!("--output={}", file.display());
    let printed = fixture.run(args("plain", &["--format=json"])).success().stdout;
    let written = fixture.run(args("plain", &["--format=json", &out])).success();
    assert!(written.stdout.is_empty());
    assert!(
        std::fs::read(&file).expect("written") == printed,
        "the file has what would be printed"
    );

    let refused = fixture.run(args("rewind", &["--format=json", &out])).ended(2);
    assert!(refused.stderr.contains("usage.json"), "{}", refused.stderr);
    assert!(
        std::fs::read(&file).expect("still there") == printed,
        "the old file is intact"
    );

    fixture
        .run(args("rewind", &["--format=json", &out, "--force"]))
        .success();
    assert!(std::fs::read(&file).expect("written") != printed);
    let nowhere = format!("--output={}", fixture.path("no/such/folder/usage.json").display());
    fixture.run(args("plain", &[&nowhere])).ended(2);
}

/// As `backcast stats | head -1`.
#[test]
fn a_reader_that_goes_away_ends_the_run_quietly() {
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    // More rows than a pipe holds.
    let synth = ["synth", "bulk", "--bytes=2MiB", "--files=500", "--seed=9", "--out"];
    fixture
        .run(synth.iter().map(OsStr::new).chain([out.as_os_str()]))
        .success();
    for format in ["jsonl", "csv", "json", "table"] {
        let format = format!("--format={format}");
        let args = [
            OsStr::new("stats"),
            out.as_os_str(),
            OsStr::new(&format),
            OsStr::new("--top=0"),
        ];
        let mut child = fixture
            .command(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let mut first = [0; 1];
        child
            .stdout
            .take()
            .expect("a pipe")
            .read_exact(&mut first)
            .expect("a byte");
        let ended = child.wait_with_output().expect("ended");
        assert_eq!(ended.status.code(), Some(0), "{format}");
        assert_eq!(String::from_utf8_lossy(&ended.stderr), "", "{format}");
    }
}

#[test]
fn unknown_models_are_listed_and_not_priced_at_zero() {
    let fixture = Fixture::new();
    let stats = fixture.stats(case("unknown-model"), &["--no-cache"]);
    assert_eq!(stats["unknown_models"], serde_json::json!(["quartz-9-preview"]));
    assert_eq!(stats["totals"]["unpriced_responses"], 1);
    assert_eq!(stats["totals"]["cost_micro_usd"], serde_json::Value::Null);
    let table = fixture.run(args("unknown-model", &[])).success();
    assert!(
        table.text().contains("No price is known for quartz-9-preview"),
        "{}",
        table.text()
    );
}

#[test]
fn times_select_what_counts() {
    let fixture = Fixture::new();
    let all = fixture.stats(corpus(), &["--no-cache"]);
    let responses = |more: &[&str]| {
        let more = more.iter().chain(&["--no-cache"]).copied().collect::<Vec<_>>();
        fixture.stats(corpus(), &more)["totals"]["responses"]
            .as_u64()
            .expect("a count")
    };
    let total = all["totals"]["responses"].as_u64().expect("a count");
    let (early, late) = (responses(&["--until=2026-03-31"]), responses(&["--since=2026-04-01"]));
    assert!(early > 0 && late > 0);
    assert_eq!(early + late, total, "a day's end is the next day's start");
    let time = responses(&["--until=2026-04-01T00:00:00Z"]);
    assert_eq!(time, early);
    assert_eq!(responses(&["--since=2099-01-01"]), 0);
    let zoned = ["--until=2026-04-01T02:00:00+02:00", "--timezone=Europe/Zurich"];
    assert_eq!(responses(&zoned), early);
}

#[test]
fn days_are_those_of_the_time_zone() {
    let fixture = Fixture::new();
    let line = r#"{"type":"assistant","uuid":"a","sessionId":"s","timestamp":"2026-01-01T23:30:00Z","message":{"id":"m","role":"assistant","model":"claude-opus-5","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}"#;
    let log = fixture.write("log.jsonl", format!("{line}\n"));
    let day = |zone: &str| fixture.stats(&log, &["--by=day", "--no-cache", zone])["rows"][0]["day"].clone();
    assert_eq!(day("--timezone=UTC"), "2026-01-01");
    assert_eq!(day("--timezone=Europe/Zurich"), "2026-01-02");
    assert_eq!(day("--timezone=America/New_York"), "2026-01-01");
}

#[test]
fn completions_and_the_manual_are_printed() {
    let fixture = Fixture::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = fixture.run(["completions", shell]).success();
        assert!(
            script.text().contains("backcast") && script.text().contains("stats"),
            "{shell}"
        );
    }
    fixture.run(["completions", "abacus"]).ended(2);
    let page = fixture.run(["man"]).success();
    assert!(page.text().contains(".TH backcast 1") && page.text().contains("stats"));
}

#[test]
fn help_names_every_verb_and_no_other() {
    let fixture = Fixture::new();
    let help = fixture.run(["--help"]).success();
    let verbs = help
        .text()
        .lines()
        .skip_while(|line| *line != "Commands:")
        .skip(1)
        .take_while(|line| !line.is_empty());
    let verbs = verbs.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let verbs = verbs
        .filter_map(|line| line.split_whitespace().next())
        .collect::<Vec<_>>();
    for verb in ["stats", "synth", "completions", "man"] {
        assert!(verbs.contains(&verb), "{verb} is not in {verbs:?}");
    }
    for verb in verbs.into_iter().filter(|verb| *verb != "help") {
        fixture.run([verb, "--help"]).success();
    }
    assert!(help.text().contains("Exit status:"));
    let version = fixture.run(["--version"]).success();
    assert_eq!(version.text(), concat!("backcast ", env!("CARGO_PKG_VERSION"), "\n"));
}

#[test]
fn synth_writes_only_into_empty_folders() {
    let fixture = Fixture::new();
    fixture.write("full/mine.txt", "mine");
    for what in ["bulk", "corpus"] {
        let run = fixture.run(["synth", what, "--out", "full"]).ended(2);
        assert!(run.stderr.contains("not empty"), "{}", run.stderr);
    }
    assert_eq!(std::fs::read_dir(fixture.path("full")).expect("the folder").count(), 1);
}

#[test]
fn the_same_seed_gives_the_same_logs() {
    let fixture = Fixture::new();
    for (out, seed) in [("a", "1"), ("b", "1"), ("c", "2")] {
        fixture
            .run([
                "synth",
                "bulk",
                "--bytes=300KiB",
                "--files=5",
                "--seed",
                seed,
                "--out",
                out,
            ])
            .success();
    }
    let bytes = |out: &str| {
        let files = crate::fixture::files_below(&fixture.path(out));
        let read = files.into_iter().map(|file| {
            let content = std::fs::read(fixture.path(out).join(&file)).expect("a file");
            (file, content)
        });
        read.collect::<Vec<_>>()
    };
    assert!(bytes("a") == bytes("b"));
    assert!(bytes("a") != bytes("c"));
}

#[test]
fn colors_and_progress_bars_stay_out_of_pipes() {
    let fixture = Fixture::new();
    let log = fixture.write("log.jsonl", only_log("plain"));
    let mut command = fixture.command([OsStr::new("stats"), log.as_os_str()]);
    command.env_remove("CI");
    let run = crate::fixture::Run::of(command).success();
    assert!(!run.stdout.contains(&0x1b), "no escape codes");
    assert_eq!(run.stderr, "");
}

#[test]
fn tool_rows_are_limited_and_have_no_agent_columns() {
    let fixture = Fixture::new();
    let stats = |more: &[&str]| {
        fixture.run(
            ["stats", "--by=tool", "--no-cache"]
                .iter()
                .chain(more)
                .copied()
                .chain([corpus().to_str().expect("a path")]),
        )
    };
    let cut = stats(&["--top=3"]).success();
    let all = stats(&["--top=0"]).success();
    assert!(cut.text().contains("The 3 largest of ") && !all.text().contains("largest of"));
    assert!(cut.text().lines().count() < all.text().lines().count());
    assert!(stats(&["--subagents"]).ended(2).stderr.contains("--by tool"));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let fixture = Fixture::new();
    let logs = corpus();
    for (option, reason) in [("--max-line=1KiB", "at least 256KiB"), ("--threads=20000", "1..=1024")] {
        let run = fixture
            .run(["stats".as_ref(), option.as_ref(), logs.as_os_str()])
            .ended(2);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
    let mut empty = fixture.command(["stats", "--no-cache", "-q", logs.to_str().expect("a path")]);
    empty.env("BACKCAST_OFFLINE", "");
    crate::fixture::Run::of(empty).success();
}

#[test]
fn a_session_log_is_never_replaced_and_a_hyphen_is_standard_output() {
    let fixture = Fixture::new();
    let content = only_log("one-hour-writes");
    let log = fixture.write("a.jsonl", &content);
    let [log_text, rows] = [log.clone(), fixture.path("rows.jsonl")].map(|path| path.display().to_string());
    let write = |to: &str| fixture.run(["stats", "--no-cache", "-q", "-f=jsonl", &log_text, "--force", "-o", to]);
    assert!(write(&log_text).ended(2).stderr.contains("never replaces one"));
    assert_eq!(std::fs::read(&log).expect("the log"), content);
    for _ in 0..2 {
        write(&rows).success();
    }
    assert_eq!(write("-").success().stdout, std::fs::read(&rows).expect("rows"));
}

#[test]
fn every_command_has_a_manual_page() {
    let fixture = Fixture::new();
    for (words, name) in [
        (&["man"][..], "backcast"),
        (&["man", "memory", "recall"], "backcast-memory-recall"),
    ] {
        let page = fixture.run(words).success();
        assert!(page.text().contains(&format!(".TH {name} 1")), "{}", page.text());
    }
    assert!(fixture.run(["man", "stats"]).success().text().contains("max\\-line"));
    assert!(fixture.run(["man", "nothing"]).ended(2).stderr.contains("nothing"));
}
