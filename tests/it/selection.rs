//! Filters, titles, groups and defaults of options: one meaning in every command that reads logs.

use crate::fixture::Fixture;
use serde_json::{Value, json};

/// A prompt and the calls that answer it, as lines of a log.
struct LogText {
    session: &'static str,
    project: &'static str,
    model: &'static str,
    lines: String,
}

impl LogText {
    fn new(session: &'static str, project: &'static str, model: &'static str) -> LogText {
        LogText {
            session,
            project,
            model,
            lines: String::new(),
        }
    }

    fn push(mut self, line: &Value) -> LogText {
        self.lines.push_str(&format!("{line}\n"));
        self
    }

    fn prompt(self, time: &str, text: &str) -> LogText {
        let line = json!({
            "type": "user", "uuid": format!("{}-{time}-p", self.session), "parentUuid": null, "sessionId": self.session,
            "cwd": self.project, "timestamp": time, "version": "2.1.200", "message": {"role": "user", "content": text},
        });
        self.push(&line)
    }

    fn call(self, time: &str) -> LogText {
        let id = format!("{}-{time}", self.session);
        let line = json!({
            "type": "assistant", "uuid": format!("{id}-a"), "parentUuid": format!("{id}-p"), "sessionId": self.session,
            "cwd": self.project, "timestamp": time, "version": "2.1.200", "requestId": format!("req_{id}"),
            "message": {
                "id": format!("msg_{id}"), "model": self.model, "role": "assistant", "stop_reason": "end_turn",
                "content": [{"type": "text", "text": "Done with the pump."}],
                "usage": {"input_tokens": 1000, "output_tokens": 1000},
            },
        });
        self.push(&line)
    }

    fn turn(self, time: &str, text: &str) -> LogText {
        self.prompt(time, text).call(time)
    }
}

/// Two projects, three sessions, two models.
fn write_logs(fixture: &Fixture) {
    let titled = LogText::new("aaaa1111", "/home/ana/shop", "claude-opus-4-5")
        .turn("2026-08-03T10:00:00Z", "hi")
        .push(&json!({"type": "ai-title", "aiTitle": "Repair the pump", "sessionId": "aaaa1111"}))
        .push(&json!({
            "type": "pr-link", "sessionId": "aaaa1111", "prUrl": "https://github.com/o/r/pull/7",
            "timestamp": "2026-08-04T00:00:00Z",
        }))
        .turn("2026-08-05T10:00:00Z", "go on")
        .turn("2026-08-06T10:00:00Z", "go on");
    let secret = concat!(
        "please store the token gh",
        "p_1234567890abcdefABCDEF1234567890abcd in the vault"
    );
    let prompted = LogText::new("bbbb2222", "/home/ana/shop", "claude-haiku-4-5").turn("2026-08-10T10:00:00Z", secret);
    let other = LogText::new("cccc3333", "/home/ben/garden", "claude-opus-4-5")
        .turn("2026-08-20T23:30:00Z", "can you please water the roses? They are dry.");
    for log in [titled, prompted, other] {
        fixture.write(&format!("logs/{}.jsonl", log.session), log.lines);
    }
}

fn fixture() -> Fixture {
    let fixture = Fixture::new();
    write_logs(&fixture);
    fixture
}

/// The column of the rows of `stats`.
fn column(fixture: &Fixture, name: &str, more: &[&str]) -> Vec<String> {
    let stats = fixture.stats("logs", more);
    let rows = stats["rows"].as_array().expect("rows").iter();
    rows.map(|row| row[name].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn sessions_have_titles_and_come_by_cost() {
    let fixture = fixture();
    let titles = column(&fixture, "title", &[]);
    assert_eq!(titles[..2], ["Repair the pump", "Water the roses"]);
    assert!(
        titles[2].starts_with("Store the token") && !titles[2].contains("1234567890"),
        "{titles:?}"
    );
    let run = fixture.run(["stats", "logs"]).success();
    let text = run.text();
    assert!(
        text.starts_with("$0.13 for 5 API calls in 3 sessions, 2026-08-03 to 2026-08-20.\n"),
        "{text}"
    );
    let first = text.lines().nth(4).expect("a row");
    let words = first.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.starts_with("Repair the pump shop 2026-08-03 $0.0900 3"),
        "{first}"
    );
}

#[test]
fn cost_is_never_dropped_and_pipes_are_as_wide_as_they_need() {
    let fixture = fixture();
    for by in [
        "session", "project", "agent", "model", "day", "week", "month", "branch", "pr", "user",
    ] {
        for columns in ["40", "80", "120"] {
            let mut command = fixture.command(["stats", "logs", "--by", by]);
            command.env("COLUMNS", columns);
            let run = crate::fixture::Run::of(command).success();
            let width: usize = columns.parse().expect("a number");
            assert!(run.text().contains("Cost"), "{by} at {columns}: {}", run.text());
            let longest = run.text().lines().map(|line| line.chars().count()).max();
            assert!(longest <= Some(width), "{by} at {columns}: {}", run.text());
        }
        let mut command = fixture.command(["stats", "logs", "--by", by]);
        command.env_remove("COLUMNS");
        let run = crate::fixture::Run::of(command).success();
        assert!(!run.text().contains("Not shown at this width"), "{}", run.text());
    }
}

#[test]
fn every_command_that_reads_logs_has_the_same_filters() {
    let fixture = fixture();
    let commands: &[&[&str]] = &[
        &["overview", "logs"],
        &["stats", "logs"],
        &["audit", "logs"],
        &["validate", "logs"],
        &["replay", "logs"],
        &["check", "logs", "--all"],
        &["tune", "logs", "--vary", "window.percent=50,100"],
        &["notes", "logs", "--out", "notes"],
        &["search", "pump", "logs", "--only", "transcripts"],
        &["memory", "extract", "logs", "--dry-run"],
        &["report", "logs", "--output", "page.html", "--force"],
    ];
    let filters = [
        (
            "--project=nowhere",
            "No session matches project nowhere; logs end 2026-08-20.",
        ),
        (
            "--session=dddd",
            "No session matches session dddd; logs end 2026-08-20.",
        ),
        ("--agent=pi", "No session matches agent pi; logs end 2026-08-20."),
        ("--model=gpt", "No session matches model gpt; logs end 2026-08-20."),
        ("--since=2026-09-01", "Nothing in this time; logs end 2026-08-20."),
        ("--until=2026-08-02", "Nothing in this time; logs end 2026-08-20."),
    ];
    for command in commands {
        for (filter, message) in filters {
            let run = fixture.run(command.iter().chain([&filter]));
            assert!(run.stderr.contains(message), "{command:?} {filter}: {}", run.stderr);
        }
        let selecting = [
            "--agent=claude",
            "--project=SHOP",
            "--session=aaaa",
            "--session=water",
            "--model=opus",
            "--last=3",
            "--since=today",
        ];
        for filter in selecting {
            let run = fixture.run(command.iter().chain([&filter]));
            assert!(
                !run.stderr.contains("No session") && !run.stderr.contains("Nothing in"),
                "{command:?} {filter}: {}",
                run.stderr
            );
        }
    }
}

#[test]
fn relative_times_count_from_the_newest_record_or_from_now() {
    let fixture = fixture();
    let days = |more: &[&str]| {
        let more = [&["--by=model", "--breakdown"], more].concat();
        let stats = fixture.stats("logs", &more);
        (
            stats["totals"]["responses"].as_u64().unwrap_or(0),
            stats["selection"].as_str().unwrap_or_default().to_owned(),
        )
    };
    assert_eq!(days(&[]), (5, String::new()));
    assert_eq!(days(&["--last=7d"]), (1, "7 days to 2026-08-20".into()));
    assert_eq!(days(&["--since=11d"]), (2, "from 2026-08-10 to 2026-08-20".into()));
    assert_eq!(days(&["--until=11d"]).0, 3);
    assert_eq!(
        days(&["--last=2", "--now=2026-08-06"]),
        (2, "2 days to 2026-08-06".into())
    );
    assert_eq!(
        days(&["--since=yesterday", "--until=yesterday", "--now=2026-08-06"]).0,
        1
    );
    assert_eq!(
        days(&["--last=1", "--timezone=Europe/Zurich"]),
        (1, "1 day to 2026-08-21".into())
    );
    assert_eq!(
        days(&["--last=48h", "--project=shop"]).0,
        0,
        "the newest record of all logs is now"
    );
}

#[test]
fn groups_are_complete_and_pull_requests_split_sessions() {
    let fixture = fixture();
    let days = column(&fixture, "day", &["--by=day"]);
    assert_eq!(
        (days.len(), days[0].as_str(), days[17].as_str()),
        (18, "2026-08-03", "2026-08-20")
    );
    assert_eq!(
        column(&fixture, "week", &["--by=week"]),
        ["2026-08-03", "2026-08-10", "2026-08-17"]
    );
    assert_eq!(column(&fixture, "month", &["--by=month"]), ["2026-08"]);
    assert_eq!(column(&fixture, "user", &["--by=user"]), ["ana", "ben"]);
    let stats = fixture.stats("logs", &["--by=pr"]);
    let rows = stats["rows"].as_array().expect("rows").iter();
    let calls = rows.map(|row| {
        (
            row["pr"].as_str().expect("a name"),
            row["responses"].as_u64().expect("calls"),
        )
    });
    let mut calls = calls.collect::<Vec<_>>();
    calls.sort_unstable();
    assert_eq!(calls, [("(before any)", 1), ("(none)", 2), ("o/r#7", 2)]);
    let split = fixture.stats("logs", &["--by=project", "--breakdown"]);
    let parts = split["breakdown"].as_array().expect("parts").iter();
    let parts = parts.map(|part| {
        (
            part["project"].as_str().expect("a project"),
            part["model"].as_str().expect("a model"),
        )
    });
    let expected = [
        ("/home/ana/shop", "claude-opus-4-5"),
        ("/home/ana/shop", "claude-haiku-4-5"),
        ("/home/ben/garden", "claude-opus-4-5"),
    ];
    assert_eq!(parts.collect::<Vec<_>>(), expected);
}

#[test]
fn options_have_defaults_in_a_file() {
    let fixture = fixture();
    fixture.write(
        "backcast.toml",
        "[options]\npaths = [\"logs\"]\nproject = \"garden\"\n[options.stats]\nby = \"user\"\nformat = \"json\"\n",
    );
    let stats = fixture.run(["stats"]).success().json();
    assert_eq!(
        (stats["by"].as_str(), stats["input"]["sessions"].as_u64()),
        (Some("user"), Some(1))
    );
    let stats = fixture.run(["stats", "--project=shop", "--by=day"]).success().json();
    assert_eq!(
        (stats["by"].as_str(), stats["input"]["sessions"].as_u64()),
        (Some("day"), Some(2))
    );
    let shown = fixture.run(["config", "show", "--origin"]).success();
    assert!(
        shown
            .text()
            .contains("\n[options.\"stats\"]\nby = \"user\"  # backcast.toml\n"),
        "{}",
        shown.text()
    );
    // What is shown is a file that comes to the same.
    fixture.write("shown.toml", shown.text());
    fixture.run(["replay", "--policy", "shown.toml"]).success();
    fixture.write("backcast.toml", "options.bogus = 1\n");
    let run = fixture.run(["stats", "logs"]).ended(2);
    assert!(
        run.stderr
            .contains("backcast.toml: options.bogus: no command has this option"),
        "{}",
        run.stderr
    );
}
