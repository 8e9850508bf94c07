//! What people see first: a sentence that answers, a sentence in place of an empty table, a message for what is no log; and the
//! commands for a first look at a machine.

use crate::fixture::{Fixture, Run, case, corpus, only_log};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Every command that prints a table of logs, with how its first line starts on the bundled logs.
const ANSWERS: &[(&[&str], &str)] = &[
    (&["overview"], "You spent $"),
    (&["stats"], "$"),
    (&["audit"], "Automatic compaction came "),
    (&["validate"], "Policy recorded predicts "),
    (&["replay"], "Under policy recorded, "),
    (&["replay", "--compare", "never"], "B would cost "),
    (&["tune"], "Windows of 200,000: "),
    (
        &["check", "--max-cost", "1000", "--max-unpriced", "100"],
        "All 2 limits hold.",
    ),
    (&["notes", "--out", "notes"], "notes has notes of "),
    (&["memory", "extract", "--dry-run"], "7 things found "),
];

#[test]
fn every_command_starts_with_a_sentence_and_no_line_is_too_wide() {
    for columns in [40, 80, 120] {
        let fixture = Fixture::new();
        for (words, start) in ANSWERS {
            let mut command = fixture.command(*words);
            command.arg(corpus()).env("COLUMNS", columns.to_string());
            let run = Run::of(command).success();
            assert!(run.text().starts_with(start), "{words:?}\n{}", run.text());
            // Paths and links are never broken.
            let lines = run.text().lines().filter(|line| line.chars().count() > columns);
            let wide = lines.filter(|line| line.trim().contains(' ') && !line.contains('/'));
            assert_eq!(wide.collect::<Vec<_>>(), [""; 0], "{words:?} at {columns}");
            assert!(!run.text().contains("\u{1b}"), "{words:?}");
        }
    }
}

#[test]
fn nothing_selected_is_a_sentence_and_no_table() {
    let fixture = Fixture::new();
    for (words, _) in ANSWERS {
        let mut command = fixture.command(*words);
        command.arg(corpus()).arg("--since=2027-01-01");
        let run = Run::of(command).success();
        assert_eq!(run.text(), "", "{words:?}");
        assert_eq!(run.stderr, "Nothing in this time; logs end 2026-08-08.\n", "{words:?}");
    }
    let mut command = fixture.command(["stats", "--since=2027-01-01", "--format=json"]);
    command.arg(corpus());
    let document = Run::of(command).success().json();
    assert_eq!(document["totals"]["responses"], 0);
}

#[test]
fn a_file_that_is_no_log_ends_with_a_message() {
    let fixture = Fixture::new();
    let text = fixture.write("notes.txt", "hello\n");
    let object = fixture.write("settings.jsonl", "{\"theme\": \"dark\"}\n");
    for file in [&text, &object] {
        for (words, _) in ANSWERS.iter().filter(|(words, _)| words[0] != "memory") {
            let mut command = fixture.command(*words);
            command.arg(file);
            let run = Run::of(command).ended(2);
            assert_eq!(run.text(), "", "{words:?}");
            let expected = format!("{}: no line of it is a record of a session\n", file.display());
            assert!(run.stderr.contains(&expected), "{words:?}: {}", run.stderr);
        }
    }
    let run = fixture
        .run([Path::new("stats"), &text, Path::new("--problems")])
        .ended(2);
    assert!(run.stderr.contains("notes.txt:1 (byte 0): malformed"), "{}", run.stderr);
    // Among logs it does no harm.
    fixture.write("logs/notes.jsonl", "hello\n");
    fixture.write("logs/log.jsonl", only_log("plain"));
    fixture.run(["stats", "logs"]).success();
}

/// A session whose edit needs lines that a compaction dropped.
fn write_lossy_session(fixture: &Fixture) {
    let mut text = String::new();
    let mut parent = None::<String>;
    let mut minute = 0;
    let mut push = |mut record: serde_json::Value| {
        minute += 1;
        let id = format!("r{minute}");
        record["uuid"] = json!(id);
        record["parentUuid"] = json!(parent);
        record["sessionId"] = json!("lossy-session");
        record["version"] = json!("2.1.31");
        record["cwd"] = json!("/p");
        record["timestamp"] = json!(format!("2026-01-01T00:{minute:02}:00.000Z"));
        text.push_str(&format!("{record}\n"));
        parent = Some(id);
    };
    let call = |number: u32, name: &str, input: serde_json::Value| {
        let usage = json!({"input_tokens": 2, "cache_read_input_tokens": 20_000, "output_tokens": 50});
        json!({"type": "assistant", "requestId": format!("q{number}"), "message": {
            "id": format!("msg_{number}"), "model": "claude-opus-4-5", "stop_reason": "tool_use", "usage": usage,
            "content": [{"type": "tool_use", "id": format!("t{number}"), "name": name, "input": input}],
        }})
    };
    let result = |number: u32, text: &str| {
        json!({"type": "user", "message": {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("t{number}"), "content": text},
        ]}})
    };
    push(json!({"type": "user", "message": {"role": "user", "content": "please mend the pump"}}));
    push(call(1, "Read", json!({"file_path": "/p/src/pump.rs"})));
    push(result(
        1,
        "1\tfn open_the_valve() {}\n2\tfn close_the_valve() {}\n3\tfn measure_the_flow() {}",
    ));
    push(
        json!({"type": "system", "subtype": "compact_boundary", "logicalParentUuid": "r3",
        "compactMetadata": {"trigger": "manual", "preTokens": 20_052}}),
    );
    push(
        json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "what was done so far"}}),
    );
    let edit = json!({
        "file_path": "/p/src/pump.rs",
        "old_string": "fn open_the_valve() {}\nfn close_the_valve() {}",
        "new_string": "fn open_the_valve() { todo() }",
    });
    push(call(2, "Edit", edit));
    push(result(2, "done and written"));
    fixture.write("logs/lossy.jsonl", text);
}

#[test]
fn misses_are_listed_with_file_lines_call_and_drop() {
    let fixture = Fixture::new();
    write_lossy_session(&fixture);
    let run = fixture
        .run(["replay", "logs", "--explain", "lossy", "--set=restore.files=0"])
        .success();
    let text = run.text().split_whitespace().collect::<Vec<_>>().join(" ");
    for part in [
        "Session lossy-session: 1 of 1 edit needed lines that were no longer in the window",
        "Log: logs/lossy.jsonl",
        "1. Edit src/pump.rs: 2 of the 2 lines that it replaces were gone.",
        "Needed by call 1 (2026-01-01 00:06), line 6.",
        "Last held by the Read, line 3; dropped by the manual compaction before call 1",
        "fn open_the_valve() {} fn close_the_valve() {}",
    ] {
        assert!(text.contains(part), "{part}\n{}", run.text());
    }
    assert!(!run.text().contains("measure_the_flow"), "{}", run.text());
    let none = fixture
        .run(["replay", "logs", "--explain", "mend the pump", "--policy=never"])
        .success();
    assert!(
        none.text()
            .starts_with("Session lossy-session: Nothing was missed: the window held what 1 edit needed"),
        "{}",
        none.text()
    );
    let unknown = fixture.run(["replay", "logs", "--explain", "nowhere"]).ended(2);
    assert!(unknown.stderr.contains("no session has an id"), "{}", unknown.stderr);
    let format = fixture
        .run(["replay", "logs", "--explain", "lossy", "--format=json"])
        .ended(2);
    assert!(format.stderr.contains("--explain prints text"), "{}", format.stderr);
}

/// Writes the settings of the client, last changed on a day of 2026.
fn write_settings(fixture: &Fixture, text: &str, day: &str) {
    let path = fixture.write("home/.claude/settings.json", text);
    let time = format!("{day}T00:00:00Z").parse::<jiff::Timestamp>().expect("a time");
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(time.as_second().unsigned_abs());
    let file = std::fs::File::options().append(true).open(path).expect("the settings");
    file.set_modified(time).expect("set");
}

/// Sessions of version 2.1.30 that compact at a size, on a day each.
fn write_compacted(fixture: &Fixture, name: &str, day: &str, tokens: u64) {
    let mut text = String::new();
    let mut push = |number: u32, above: serde_json::Value, mut record: serde_json::Value| {
        record["uuid"] = json!(format!("{name}-{number}"));
        record["parentUuid"] = above;
        record["sessionId"] = json!(name);
        record["version"] = json!("2.1.30");
        record["cwd"] = json!("/p");
        record["timestamp"] = json!(format!("{day}T10:{number:02}:00.000Z"));
        text.push_str(&format!("{record}\n"));
    };
    let prompt = || json!({"type": "user", "message": {"role": "user", "content": "please"}});
    let answer = |number: u32, input: u64| {
        json!({"type": "assistant", "requestId": format!("{name}-q{number}"), "message": {
            "id": format!("msg_{name}{number}"), "model": "claude-opus-4-5-20251101", "stop_reason": "end_turn",
            "usage": {"input_tokens": input, "output_tokens": 10}, "content": [{"type": "text", "text": "ok"}],
        }})
    };
    let above = |number: u32| json!(format!("{name}-{number}"));
    push(0, json!(null), prompt());
    push(1, above(0), answer(1, tokens - 20_000));
    push(2, above(1), prompt());
    push(3, above(2), answer(3, tokens));
    push(4, above(3), prompt());
    push(
        5,
        json!(null),
        json!({"type": "system", "subtype": "compact_boundary", "logicalParentUuid": format!("{name}-4"),
        "compactMetadata": {"trigger": "auto", "preTokens": tokens + 20}}),
    );
    push(
        6,
        above(5),
        json!({"type": "user", "isCompactSummary": true, "message": {"role": "user", "content": "summary"}}),
    );
    push(7, above(6), answer(7, 40_000));
    fixture.write(&format!("home/.claude/projects/p/{name}.jsonl"), text);
}

#[test]
fn a_setting_is_judged_by_the_sessions_since_it_was_set() {
    let fixture = Fixture::new();
    // The usual threshold is 167,000; half of the effective window is 90,000.
    write_compacted(&fixture, "before", "2026-02-01", 167_000);
    write_compacted(&fixture, "after", "2026-02-10", 90_000);
    // On one line, however it is folded.
    let audit = |more: &[&str]| {
        let run = fixture.run([&["audit"], more].concat()).success();
        run.text().split_whitespace().collect::<Vec<_>>().join(" ")
    };
    assert!(
        audit(&[]).starts_with("Automatic compaction came below its usual threshold 1 of 2 times. Your settings leave"),
        "{}",
        audit(&[])
    );
    let settings = "{\"env\": {\"CLAUDE_AUTOCOMPACT_PCT_OVERRIDE\": \"50\"}}";
    write_settings(&fixture, settings, "2026-02-05");
    let text = audit(&[]);
    let answer = "Your setting (env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE 50.0 in settings.json) has been in effect since 2026-02-10: \
                  1 session compacted at its threshold of 90,000, and none passed it. \
                  1 session is from before 2026-02-05 and not judged.";
    assert!(text.starts_with(answer), "{text}");
    // Of all sessions, one is against it.
    write_settings(&fixture, settings, "2026-01-01");
    assert!(audit(&[]).contains("only in part"), "{}", audit(&[]));
    assert!(
        audit(&["--since=2026-02-05"]).contains("has been in effect"),
        "{}",
        audit(&["--since=2026-02-05"])
    );
    write_settings(&fixture, settings, "2026-03-01");
    let late = audit(&[]);
    assert!(
        late.contains("cannot be judged yet: no session has started since 2026-03-01; logs end 2026-02-10."),
        "{late}"
    );
    let document = fixture.run(["audit", "--format=json"]).success().json();
    assert_eq!(document["setting"]["judged_sessions"], 0);
    assert_eq!(document["setting"]["since"], "2026-03-01T00:00:00.000Z");
    // The settings of this machine say nothing about logs from elsewhere.
    let elsewhere = fixture.run(["audit", "home/.claude/projects"]).success();
    assert!(!elsewhere.text().contains("Your setting"), "{}", elsewhere.text());
}

#[test]
fn unknown_windows_are_named() {
    let fixture = Fixture::new();
    let mut command = fixture.command(["audit"]);
    command.arg(corpus());
    let text = Run::of(command)
        .success()
        .text()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(text.contains("is not known (glm-4.7"), "{text}");
    assert!(text.contains("pass --window TOKENS."), "{text}");
}

#[test]
fn the_doctor_says_what_is_found_and_what_to_do() {
    let fixture = Fixture::new();
    let nothing = fixture.run(["doctor"]).ended(1);
    assert!(
        nothing.text().starts_with("No session logs were found.\n"),
        "{}",
        nothing.text()
    );
    assert!(
        nothing.text().contains("backcast overview --sample"),
        "{}",
        nothing.text()
    );
    assert!(nothing.text().contains("home/.claude/projects)"), "{}", nothing.text());

    fixture.write("home/.claude/projects/p/log.jsonl", only_log("plain"));
    write_settings(&fixture, "{\"autoCompactWindow\": 200000}", "2026-02-05");
    fixture.write("backcast.toml", "[options]\ntop = 5\n");
    let found = fixture.run(["doctor"]).success();
    for part in [
        "1 session found in 1 log",
        "Claude Code: 1 log",
        "Windows",
        "window.override=200000 (settings: autoCompactWindow)",
        "backcast.toml; 1 default of options",
        "none for this project yet",
        "backcast audit\n",
    ] {
        assert!(found.text().contains(part), "{part}\n{}", found.text());
    }
    for line in found.text().lines() {
        assert!(line.chars().count() <= 80 || line.contains('/'), "{line}");
    }
    let document = fixture.run(["doctor", "-f", "json"]).success().json();
    assert_eq!(document["kind"], "doctor");
    assert_eq!(document["sessions"], 1);
    assert_eq!(document["settings"][0]["key"], "window.override");
    assert_eq!(document["agents"][0]["coding_agent"], "claude");
    // A file that is no settings file is a finding, not the end.
    write_settings(&fixture, "{", "2026-02-05");
    assert!(
        fixture.run(["doctor"]).success().text().contains("reading "),
        "settings"
    );
    let other = fixture
        .run(["doctor".as_ref(), case("long-session").as_os_str()])
        .success();
    assert!(
        other.text().contains("--client-env") || other.text().contains("backcast tune"),
        "{}",
        other.text()
    );
}
