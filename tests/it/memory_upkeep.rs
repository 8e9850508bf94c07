//! A memory directory over weeks: retracted memories leave, deleted ones stay away, daily logs are distilled, and `check`
//! says when the directory is out of date.

use crate::fixture::{Fixture, Run};
use serde_json::json;

fn said(session: &str, day: u32, text: &str) -> String {
    json!({
        "parentUuid": null, "isSidechain": false, "cwd": "/w", "sessionId": session, "version": "2.1.50",
        "type": "user", "message": {"role": "user", "content": text},
        "uuid": format!("{session}-{day}"), "timestamp": format!("2026-03-{day:02}T10:00:00.000Z"),
    })
    .to_string()
        + "\n"
}

const TABS: &str = "Always use tabs in the Go files.";
const SIGN: &str = "From now on sign your commits with the release key.";

fn extract(fixture: &Fixture) -> String {
    fixture
        .run(["memory", "extract", "logs", "--dir", "memory"])
        .success()
        .stderr
}

/// Files of the directory that hold a memory.
fn topics(fixture: &Fixture) -> Vec<String> {
    let entries = std::fs::read_dir(fixture.path("memory")).expect("the directory");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names = names
        .filter(|name| name.ends_with(".md") && name != "MEMORY.md")
        .collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn a_retracted_memory_is_archived_and_can_be_restored() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS) + &said("a", 2, SIGN));
    extract(&fixture);
    assert_eq!(topics(&fixture).len(), 2);
    fixture.write(
        "logs/b.jsonl",
        said("b", 5, "Forget about always using tabs in the Go files"),
    );
    let stderr = extract(&fixture);
    assert!(
        stderr.contains("retire") && stderr.contains("taken back: Forget about"),
        "{stderr}"
    );
    assert_eq!(topics(&fixture).len(), 1, "{stderr}");
    let index = std::fs::read_to_string(fixture.path("memory/MEMORY.md")).expect("an index");
    assert!(!index.contains("tabs"), "{index}");
    assert!(extract(&fixture).contains("nothing to do"));
    // A restored memory is wanted: the same words do not retract it again.
    fixture.run(["memory", "undo", "--dir", "memory"]).success();
    assert_eq!(topics(&fixture).len(), 2);
    extract(&fixture);
    assert_eq!(topics(&fixture).len(), 2);
}

#[test]
fn a_deleted_memory_comes_back_only_when_it_is_said_again() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS) + &said("a", 2, SIGN));
    extract(&fixture);
    let tabs = topics(&fixture)
        .into_iter()
        .find(|name| name.contains("tabs"))
        .expect("a file");
    std::fs::remove_file(fixture.path("memory").join(&tabs)).expect("removed");
    let stderr = extract(&fixture);
    assert!(stderr.contains("1 deleted before"), "{stderr}");
    assert_eq!(topics(&fixture).len(), 1);
    let index = std::fs::read_to_string(fixture.path("memory/MEMORY.md")).expect("an index");
    assert!(!index.contains("tabs"), "{index}");
    // The old log again, with a new one that says something else: still away.
    fixture.write(
        "logs/b.jsonl",
        said("b", 4, "I prefer small commits, so never squash them."),
    );
    extract(&fixture);
    assert_eq!(topics(&fixture).len(), 2);
    fixture.write("logs/c.jsonl", said("c", 9, TABS));
    extract(&fixture);
    assert!(topics(&fixture).contains(&tabs), "{:?}", topics(&fixture));
}

#[test]
fn an_undone_run_can_be_repeated() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    extract(&fixture);
    fixture.run(["memory", "undo", "--dir", "memory"]).success();
    assert!(topics(&fixture).is_empty());
    extract(&fixture);
    assert_eq!(topics(&fixture).len(), 1);
}

#[test]
fn daily_logs_are_written_once_and_distilled_by_a_dream() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS) + &said("a", 2, SIGN));
    for added in ["2 lines", "0 lines"] {
        let run = fixture
            .run(["memory", "extract", "logs", "--dir", "memory", "--daily"])
            .success();
        assert!(run.stderr.contains(added), "{}", run.stderr);
    }
    assert!(topics(&fixture).is_empty());
    let log = std::fs::read_to_string(fixture.path("memory/logs/2026/03/2026-03-01.md")).expect("a log");
    assert!(
        log.starts_with("- 2026-03-01T10:00:00Z [feedback] ") && log.ends_with(" (a a-1)\n"),
        "{log}"
    );
    let shown = fixture
        .run(["memory", "dream", "--dir", "memory", "--dry-run"])
        .success();
    assert!(shown.text().contains("# new"), "{}", shown.text());
    assert!(topics(&fixture).is_empty());
    fixture.run(["memory", "dream", "--dir", "memory", "--force"]).success();
    assert_eq!(topics(&fixture).len(), 2);
    // The same words from the logs themselves are the same memories.
    extract(&fixture);
    assert_eq!(topics(&fixture).len(), 2);
}

#[test]
fn check_says_when_the_directory_is_out_of_date() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    extract(&fixture);
    let check = |status: i32| {
        let args = ["memory", "check", "--dir", "memory", "-f", "json", "--logs", "logs"];
        let document = fixture.run(args).ended(status).json();
        let findings = document["findings"].as_array().expect("a list").clone();
        assert!(
            findings.iter().all(|finding| finding["fault"] == "out-of-date"),
            "{findings:?}"
        );
        findings
    };
    assert!(check(0).is_empty());
    fixture.write("logs/b.jsonl", said("b", 3, SIGN) + &said("b", 4, TABS));
    let findings = check(1);
    assert_eq!(findings.len(), 2, "{findings:?}");
    let messages = format!("{findings:?}");
    assert!(
        messages.contains("not here: ") && messages.contains("said again since"),
        "{messages}"
    );
    extract(&fixture);
    assert!(check(0).is_empty());
    fixture.write("logs/c.jsonl", said("c", 8, "Never use tabs in the Go files."));
    let messages = format!("{:?}", check(1));
    assert!(messages.contains("with what was said since"), "{messages}");
}

#[test]
fn an_agent_has_a_memory_of_its_own_in_each_scope() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    fixture.write("work/.git/HEAD", "ref: refs/heads/main\n");
    for (scope, folder) in [
        ("project", "work/.claude/agent-memory/my-team-reviewer"),
        ("local", "work/.claude/agent-memory-local/my-team-reviewer"),
    ] {
        let logs = fixture.path("logs");
        let args = [
            "memory",
            "extract",
            logs.to_str().expect("text"),
            "--agent-type",
            "my-team:reviewer",
            "--scope",
            scope,
        ];
        let mut command = fixture.command(args);
        command.current_dir(fixture.path("work"));
        Run::of(command).success();
        assert!(fixture.path(folder).join("MEMORY.md").is_file(), "{scope}");
    }
}

#[test]
fn limits_come_from_the_policy() {
    let fixture = Fixture::new();
    fixture.write(
        "logs/a.jsonl",
        said("a", 1, TABS) + &said("a", 2, "Never use tabs in the Python files, spaces only."),
    );
    extract(&fixture);
    let count = |set: &str| {
        let args = [
            "memory",
            "recall",
            "--dir",
            "memory",
            "-f",
            "json",
            "--set",
            set,
            "tabs in the files",
        ];
        let answer = fixture.run(args).success().json();
        answer["selected"].as_array().map(Vec::len)
    };
    assert_eq!(count("recall.most=5"), Some(2));
    assert_eq!(count("recall.most=1"), Some(1));
    fixture
        .run(["memory", "check", "--dir", "memory", "--set", "memory.index_lines=1"])
        .ended(1);
}

/// The log of the first day.
const DAY: &str = "memory/logs/2026/03/2026-03-01.md";

fn daily(fixture: &Fixture) -> String {
    fixture
        .run(["memory", "extract", "logs", "--dir", "memory", "--daily"])
        .success()
        .stderr
}

fn undo(fixture: &Fixture) -> String {
    fixture.run(["memory", "undo", "--dir", "memory"]).success().stderr
}

#[test]
fn an_entry_of_a_daily_log_can_be_undone() {
    let fixture = Fixture::new();
    let day = || std::fs::read_to_string(fixture.path(DAY)).expect("a log");
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    let stderr = daily(&fixture);
    assert!(
        stderr.contains("1 line written") && stderr.contains("memory undo"),
        "{stderr}"
    );
    let first = day();
    fixture.write("logs/b.jsonl", said("b", 1, SIGN));
    daily(&fixture);
    assert_ne!(day(), first);
    undo(&fixture);
    assert_eq!(day(), first);
    let listed = fixture.run(["memory", "undo", "--dir", "memory", "--list"]).success();
    assert!(listed.text().contains(" extract 1 file, "), "{}", listed.text());
    // The same again is a run again; nothing new is none.
    assert!(daily(&fixture).contains("run "));
    let stderr = daily(&fixture);
    assert!(
        stderr.contains("0 lines written") && !stderr.contains("run "),
        "{stderr}"
    );
}

#[test]
fn undoing_a_daily_log_keeps_what_a_person_wrote_since() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    fixture.write(DAY, "- my own note");
    daily(&fixture);
    let noted = std::fs::read_to_string(fixture.path(DAY)).expect("a log");
    assert!(noted.starts_with("- my own note\n- 2026-03-01T"), "{noted}");
    fixture.write(DAY, format!("{noted}- and another\n"));
    undo(&fixture);
    let left = std::fs::read_to_string(fixture.path(DAY)).expect("a log");
    assert_eq!(left, "- my own note\n- and another\n");
    // A log that did not only grow is left alone.
    fixture.write("logs/b.jsonl", said("b", 1, SIGN));
    daily(&fixture);
    let noted = std::fs::read_to_string(fixture.path(DAY)).expect("a log");
    let edited = noted.replace("my own", "my very own");
    fixture.write(DAY, &edited);
    assert!(undo(&fixture).contains("left as it is"));
    assert_eq!(std::fs::read_to_string(fixture.path(DAY)).expect("a log"), edited);
}

#[cfg(unix)]
#[test]
fn the_printed_undo_command_works() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    for place in [
        &["--dir", "my memory's/here"][..],
        &["--agent-type", "my team:reviewer", "--scope", "project"],
        &["--dir", "plain"],
    ] {
        for more in [&[][..], &["--daily"]] {
            let run = fixture.run([&["memory", "extract", "logs"], place, more].concat());
            let stderr = run.success().stderr;
            let start = stderr.find("`backcast memory undo").expect("a hint") + 1;
            let hint = &stderr[start..start + stderr[start..].find('`').expect("its end")];
            let binary = env!("CARGO_BIN_EXE_backcast");
            let command = hint.replacen("backcast", &format!("'{binary}'"), 1);
            let undone = Run::of(fixture.hermetic("sh", ["-c", &command])).success();
            assert!(undone.stderr.contains("restore "), "{hint}: {}", undone.stderr);
        }
    }
}

#[test]
fn check_reports_problems_of_the_logs_it_reads() {
    let fixture = Fixture::new();
    fixture.write(
        "logs/a.jsonl",
        "{\"type\":\"user\",\"message\":{\"content\":\"torn\n".to_owned() + &said("a", 1, TABS),
    );
    extract(&fixture);
    let check = |more: &[&str], status: i32| {
        let args = ["memory", "check", "--dir", "memory", "--logs", "logs"];
        fixture.run([&args, more].concat()).ended(status).stderr
    };
    assert!(check(&[], 0).contains("1 memory, 0 findings"));
    let stderr = check(&["--problems"], 0);
    assert!(
        stderr.contains("a.jsonl:1") && !stderr.contains("--problems lists"),
        "{stderr}"
    );
    check(&["--strict"], 3);
    assert_eq!(check(&["-q"], 0), "");
}

#[test]
fn recall_and_list_show_the_same_age() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", said("a", 1, TABS));
    extract(&fixture);
    let age = |text: &str| {
        let words = text.split_whitespace().collect::<Vec<_>>();
        let at = words.iter().position(|word| word.starts_with("days")).expect("an age");
        words[at - 1].trim_start_matches('(').to_owned()
    };
    let listed = fixture.run(["memory", "list", "--dir", "memory"]).success();
    let answer = fixture
        .run(["memory", "recall", "--dir", "memory", "tabs in the files"])
        .success();
    assert!(answer.text().contains("Written in the past"), "{}", answer.text());
    assert_eq!(age(listed.text()), age(answer.text()));
}

/// The lines that a person wrote come first, byte by byte.
fn assert_starts_with(fixture: &Fixture, own: &str, step: &str) -> String {
    let index = std::fs::read_to_string(fixture.path("memory/MEMORY.md")).expect("an index");
    assert!(index.starts_with(own), "{step}: {index}");
    index
}

#[test]
fn every_command_keeps_the_lines_that_a_person_wrote() {
    let line = |at| format!("- remember number {at}, [see](gone_{at}.md) or `x`  \r\n");
    let own = (0..299).map(line).collect::<String>() + "\r\n";
    let fixture = Fixture::new();
    fixture.write("memory/MEMORY.md", &own);
    fixture.write("logs/a.jsonl", said("a", 1, TABS) + &said("a", 2, SIGN));
    let stderr = extract(&fixture);
    assert!(
        stderr.contains("MEMORY.md: the client does not load its last 101 lines"),
        "{stderr}"
    );
    let index = assert_starts_with(&fixture, &own, "extract");
    assert_eq!(index.lines().count(), 301, "{index}");
    assert!(
        index.ends_with("- [More memories](MEMORY-more.md) — 2 not listed here\r\n"),
        "{index}"
    );
    let more = std::fs::read_to_string(fixture.path("memory/MEMORY-more.md")).expect("the rest");
    assert!(more.contains("tabs") && more.contains("sign your commits"), "{more}");
    assert!(extract(&fixture).contains("nothing to do"));
    assert_starts_with(&fixture, &own, "extract again");

    let check = fixture.run(["memory", "check", "--dir", "memory"]).ended(1);
    assert!(check.text().contains("101 lines are not loaded"), "{}", check.text());
    assert!(!check.text().contains("not-listed"), "{}", check.text());
    fixture.run(["memory", "dream", "--force", "--dir", "memory"]).success();
    assert_starts_with(&fixture, &own, "dream");
    fixture.write(
        "logs/b.jsonl",
        said("b", 5, "Forget about always using tabs in the Go files") + &said("b", 6, SIGN),
    );
    extract(&fixture);
    let index = assert_starts_with(&fixture, &own, "retracted");
    assert!(index.ends_with("— 1 not listed here\r\n"), "{index}");
    for _ in 0..2 {
        fixture.run(["memory", "undo", "--dir", "memory"]).success();
        assert_starts_with(&fixture, &own, "undo");
    }
    // Lines that a person adds below make no difference.
    let own = format!("{own}## Below\r\n");
    fixture.write("memory/MEMORY.md", &own);
    extract(&fixture);
    assert_starts_with(&fixture, &own, "below");
}
