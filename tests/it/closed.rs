//! Standard output and standard error that nobody reads: the run ends with the status that `--help` documents.

use crate::fixture::{Fixture, case, corpus, only_log};
use std::io;

/// Runs a command whose outputs are pipes; returns its status. `closed` says whether the readers of standard output and of
/// standard error are gone from the start.
fn status_with_closed(fixture: &Fixture, args: &[&str], closed: (bool, bool)) -> Option<i32> {
    let (out_reader, out) = io::pipe().expect("a pipe");
    let (err_reader, err) = io::pipe().expect("a pipe");
    let mut command = fixture.command(args);
    command.stdout(out).stderr(err);
    let drain = |reader: io::PipeReader| {
        std::thread::spawn(move || {
            let mut reader = reader;
            io::copy(&mut reader, &mut io::sink())
        })
    };
    let readers = [(out_reader, closed.0), (err_reader, closed.1)];
    let readers = readers.map(|(reader, is_closed)| if is_closed { None } else { Some(drain(reader)) });
    let status = command.status().expect("started");
    // The command holds the writers.
    drop(command);
    for reader in readers.into_iter().flatten() {
        let _ = reader.join().expect("a reader");
    }
    status.code()
}

#[test]
fn a_closed_output_never_changes_the_status() {
    let fixture = Fixture::new();
    let corpus = corpus().display().to_string();
    let plain = case("plain").display().to_string();
    fixture.write("broken.jsonl", b"{\n".repeat(50));
    let memories = fixture.path("memories").display().to_string();
    let commands: [&[&str]; 14] = [
        &[],
        &["--help"],
        &["no-such-command"],
        &["overview", &corpus],
        &["stats", &corpus],
        &["stats", &corpus, "--problems", "-f=csv"],
        &["stats", "broken.jsonl", "--strict"],
        &["stats", "nowhere.jsonl"],
        &["check", &plain, "--max-cost=0.000001"],
        &["check", &plain, "--annotate"],
        &["audit", &corpus, "-f=json"],
        &["replay", &corpus, "--set=trigger.window=50000"],
        &["search", "nothing-like-this", &plain],
        &["memory", "extract", &corpus, "--dir", &memories, "--dry-run"],
    ];
    for args in commands {
        let expected = status_with_closed(&fixture, args, (false, false));
        assert!(matches!(expected, Some(0..=3)), "{args:?}: {expected:?}");
        for closed in [(true, false), (false, true), (true, true)] {
            assert_eq!(
                status_with_closed(&fixture, args, closed),
                expected,
                "{args:?} {closed:?}"
            );
        }
    }
}

/// The reader leaves after a while: what `2>&1 | head -3` does.
#[test]
fn a_reader_that_leaves_midway_never_changes_the_status() {
    let fixture = Fixture::new();
    let log = [b"{\n".repeat(100), only_log("plain"), b"[]\n".repeat(100)].concat();
    for number in 0..400 {
        fixture.write(&format!("logs/{number}.jsonl"), &log);
    }
    for strict in [false, true] {
        for lines in 0..20 {
            let script = format!("\"$0\" \"$@\" 2>&1 | head -{lines} >&2; exit ${{PIPESTATUS[0]}}");
            let args = [
                "-c",
                &script,
                env!("CARGO_BIN_EXE_backcast"),
                "stats",
                "logs",
                "--problems",
                "--no-cache",
            ];
            let more = strict.then_some("--strict");
            let status = fixture
                .hermetic("bash", args.into_iter().chain(more))
                .output()
                .expect("a shell")
                .status;
            assert_eq!(status.code(), Some(if strict { 3 } else { 0 }), "{lines} lines");
        }
    }
}
