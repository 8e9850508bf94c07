//! `backcast memory extract`: its output, the same bytes for any threads and order, and no secret in it.

use crate::fixture::{Fixture, canaries};
use serde_json::{Value, json};

fn user(session: &str, at: u32, text: &str) -> String {
    record("user", session, at, json!(text))
}

fn record(kind: &str, session: &str, at: u32, content: Value) -> String {
    json!({
        "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/w", "sessionId": session,
        "version": "2.1.50", "type": kind, "message": {"role": kind, "content": content},
        "uuid": format!("{session}-{at}"), "timestamp": format!("2026-03-04T10:{at:02}:00.000Z"),
    })
    .to_string()
        + "\n"
}

fn lines(bytes: &[u8]) -> Vec<Value> {
    let text = std::str::from_utf8(bytes).expect("text");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("an object a line"))
        .collect()
}

/// Two sessions in which two lasting things are said, one of them twice.
fn write_sessions(fixture: &Fixture) {
    let first = [
        user("a", 1, "please fix the importer"),
        user(
            "a",
            2,
            "Never rewrite the history of shared branches, because others build on them.",
        ),
        user("a", 3, "don't push for now"),
        "{\"type\":\"user\",\"message\":{\"content\":\"torn".to_owned() + "\n",
    ];
    let second = [
        user("b", 1, "ok. Never rewrite the history of shared branches!"),
        user(
            "b",
            2,
            "I'm a database engineer, and I prefer short answers without jargon.",
        ),
    ];
    fixture.write("logs/a.jsonl", first.concat());
    fixture.write("logs/deep/b.jsonl", second.concat());
}

#[test]
fn every_candidate_is_one_object_with_its_sources() {
    let fixture = Fixture::new();
    write_sessions(&fixture);
    let run = fixture
        .run(["memory", "extract", "logs", "--dry-run", "--format", "jsonl"])
        .success();
    let found = lines(&run.stdout);
    assert_eq!(found.len(), 2, "{found:?}");
    let keys = found[0].as_object().expect("an object").keys().collect::<Vec<_>>();
    assert_eq!(
        keys,
        [
            "body",
            "confidence",
            "hook",
            "origin",
            "project",
            "schema_version",
            "sources",
            "title",
            "type"
        ]
    );
    assert_eq!(found[0]["type"], "feedback");
    assert_eq!(found[0]["sources"].as_array().map(Vec::len), Some(2));
    assert_eq!(
        found[0]["sources"][0],
        json!({"session": "b", "uuid": "b-1", "time": "2026-03-04T10:01:00.000Z"})
    );
    assert!(
        found[0]["body"]
            .as_str()
            .is_some_and(|body| body.contains("**Why:** others build on them"))
    );
    assert_eq!(found[1]["type"], "user");
    assert!(
        run.stderr.contains("2 memories") && run.stderr.contains("malformed"),
        "{}",
        run.stderr
    );
}

#[test]
fn rejected_candidates_are_shown_with_their_reason() {
    let fixture = Fixture::new();
    write_sessions(&fixture);
    fixture.write("logs/c.jsonl", user("c", 1, "<command-name>/clear</command-name>"));
    let args = [
        "memory",
        "extract",
        "logs",
        "--dry-run",
        "--format=json",
        "--rejected",
        "--quiet",
    ];
    let document = fixture.run(args).success().json();
    let reasons = document["rejected"].as_array().expect("a list").iter();
    let reasons = reasons
        .map(|rejected| rejected["rejected"].as_str().unwrap_or_default())
        .collect::<Vec<_>>();
    assert!(reasons.contains(&"written by a program"), "{reasons:?}");
    assert_eq!(document["memories"].as_array().map(Vec::len), Some(2));
    assert_eq!(document["schema_version"], 1);
}

#[test]
fn stored_memories_are_printed_when_a_format_is_given() {
    let fixture = Fixture::new();
    write_sessions(&fixture);
    for more in [
        &["-fjson"][..],
        &["-fjsonl", "--rejected"],
        &["-ftable"],
        &["--rejected"],
    ] {
        let args = [&["memory", "extract", "logs", "-q"], more].concat();
        let shown = fixture.run([&args[..], &["--dry-run"]].concat()).success();
        for place in [&["--dir", "memory"][..], &["--dir", "noted", "--daily"]] {
            let kept = fixture.run([&args[..], place].concat()).success();
            assert_eq!(kept.stdout, shown.stdout, "{more:?} {place:?}");
        }
    }
    assert!(fixture.path("memory/MEMORY.md").is_file());
    let silent = fixture.run(["memory", "extract", "logs", "--dir", "memory"]).success();
    assert_eq!(silent.text(), "");
}

#[test]
fn output_is_the_same_for_any_threads_and_order() {
    let fixture = Fixture::new();
    write_sessions(&fixture);
    let run = |more: &[&str]| {
        let args = [
            "memory",
            "extract",
            "--dry-run",
            "--format=jsonl",
            "--rejected",
            "--quiet",
        ];
        fixture.run(args.iter().chain(more)).success().stdout
    };
    let expected = run(&["logs"]);
    assert_eq!(run(&["logs", "-j1"]), expected);
    assert_eq!(run(&["logs", "-j7"]), expected);
    assert_eq!(run(&["logs/deep/b.jsonl", "logs/a.jsonl"]), expected);
    assert_eq!(run(&["logs/a.jsonl", "logs/deep/b.jsonl"]), expected);
}

#[test]
fn rules_of_the_user_are_added() {
    let fixture = Fixture::new();
    fixture.write("a.jsonl", user("a", 1, "the zeppelin flies at noon"));
    let rule = "[[rule]]\nname = 'airship'\ntype = 'project'\nwhen = 'When flying'\nweight = 0.9\nkeys = ['zeppelin']\npattern = 'zeppelin'\n";
    fixture.write("rules.toml", rule);
    let args = [
        "memory",
        "extract",
        "a.jsonl",
        "--dry-run",
        "-fjsonl",
        "--rules",
        "rules.toml",
    ];
    let found = lines(&fixture.run(args).success().stdout);
    assert_eq!(found[0]["hook"], "When flying: The zeppelin flies at noon");
    let args = [&args[..], &["--min-confidence", "0.95"]].concat();
    assert_eq!(fixture.run(args).success().stdout, b"");
    fixture.write("rules.toml", rule.replace("'zeppelin'\n", "'('\n"));
    let run = fixture
        .run(["memory", "extract", "a.jsonl", "--dry-run", "--rules", "rules.toml"])
        .ended(2);
    assert!(run.stderr.contains("airship"), "{}", run.stderr);
}

#[test]
fn planted_secrets_are_in_no_output() {
    let (canaries, secrets) = canaries();
    let fixture = Fixture::new();
    let mut log = String::new();
    for (at, canary) in canaries.iter().enumerate() {
        let at = at as u32 * 4;
        log += &user(
            "s",
            at,
            &format!("Remember that this is the key: {canary} and rotate it monthly"),
        );
        log += &user("s", at + 1, &format!("<command-name>{canary}</command-name>"));
        log += &user("s", at + 2, &format!("I prefer {canary} maybe, or should I?"));
        let path = format!("/h/.claude/projects/p/memory/{at}.md");
        let call = json!([{"type": "tool_use", "id": at.to_string(), "name": "Write", "input": {"file_path": path, "content": canary}}]);
        log += &record("assistant", "s", at + 3, call);
    }
    fixture.write("s.jsonl", log);
    for more in [
        &["--rejected", "-fjsonl"][..],
        &["--rejected", "-fjson"],
        &["--rejected"],
        &["--harvest", "-fjson"],
        &["--harvest"],
    ] {
        let args = [&["memory", "extract", "s.jsonl", "--dry-run"], more].concat();
        let run = fixture.run(args).success();
        let text = String::from_utf8_lossy(&run.stdout).into_owned() + &run.stderr;
        for secret in secrets {
            assert!(!text.contains(secret), "{secret} with {more:?}");
        }
    }
}

#[test]
fn memory_files_of_the_agent_are_rebuilt() {
    let fixture = Fixture::new();
    let path = "/h/.claude/projects/p/memory/style.md";
    let call = |at: u32, name: &str, mut input: Value| {
        input["file_path"] = json!(path);
        record(
            "assistant",
            "s",
            at,
            json!([{"type": "tool_use", "id": at.to_string(), "name": name, "input": input}]),
        )
    };
    let text = "---\nname: style\n---\nTabs, \"always\".\n";
    let log = call(1, "Write", json!({"content": text}))
        + &call(2, "Edit", json!({"old_string": "Tabs", "new_string": "Spaces"}));
    fixture.write("s.jsonl", log);
    let run = fixture
        .run(["memory", "extract", "s.jsonl", "--dry-run", "--harvest", "-fjsonl"])
        .success();
    let found = lines(&run.stdout);
    assert_eq!((found[0]["file"].as_str(), found.len()), (Some(path), 1));
    assert_eq!(found[0]["text"], text.replace("Tabs", "Spaces"));
    assert_eq!(found[0]["schema_version"], 1);
}

fn said(session: &str, cwd: &str, day: u32, text: &str) -> String {
    json!({
        "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": cwd, "sessionId": session,
        "version": "2.1.50", "type": "user", "message": {"role": "user", "content": text},
        "uuid": format!("{session}-{day}"), "timestamp": format!("2026-03-{day:02}T10:00:00.000Z"),
    })
    .to_string()
        + "\n"
}

/// Two projects, each with a rule and something weaker.
fn write_projects(fixture: &Fixture) {
    let api = said("a", "/home/me/work/api", 1, "Never push to main without a review")
        + &said(
            "a",
            "/home/me/work/api",
            2,
            "we should be using typed errors in tests and comments",
        );
    let web = said(
        "b",
        "/home/me/work/web",
        1,
        "Always run the migration check before you commit",
    );
    fixture.write("logs/a.jsonl", api);
    fixture.write("logs/b.jsonl", web);
}

#[test]
fn a_directory_takes_one_project() {
    let fixture = Fixture::new();
    write_projects(&fixture);
    let refused = fixture.run(["memory", "extract", "logs", "--dir", "memory"]).ended(2);
    for word in [
        "2 projects",
        "/home/me/work/api",
        "/home/me/work/web",
        "--project",
        "--out",
    ] {
        assert!(refused.stderr.contains(word), "{word}: {}", refused.stderr);
    }
    assert!(!fixture.path("memory").exists());
    fixture
        .run(["memory", "extract", "logs", "--dir", "memory", "--project", "api"])
        .success();
    let index = std::fs::read_to_string(fixture.path("memory/MEMORY.md")).expect("an index");
    assert!(
        index.contains("push to main") && !index.contains("migration"),
        "{index}"
    );
    fixture.run(["memory", "extract", "logs", "--out", "out"]).success();
    let index = |name: &str| std::fs::read_to_string(fixture.path(format!("out/{name}/MEMORY.md"))).expect("an index");
    assert!(index("api").contains("push to main") && !index("api").contains("migration"));
    assert!(index("web").contains("migration") && !index("web").contains("push to main"));
    let unknown = fixture
        .run(["memory", "extract", "logs", "--dry-run", "--project", "nothing"])
        .ended(2);
    assert!(
        unknown.stderr.contains("no session of a project nothing"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn candidates_are_reviewed_and_runs_without_an_act_change_nothing() {
    let fixture = Fixture::new();
    write_projects(&fixture);
    let base = ["logs", "--dir", "memory", "--project", "api", "--min-confidence", "1"];
    let run = |verb: &[&str], more: &[&str]| fixture.run([verb, &base, more].concat()).success();
    run(&["memory", "review"], &["--review-file", "review.md"]);
    let text = std::fs::read_to_string(fixture.path("review.md")).expect("a file");
    assert!(
        text.contains("- [ ] **") && text.contains("> said: 2026-03-01 a"),
        "{text}"
    );
    fixture.write("review.md", text.replacen("- [ ]", "- [x]", 1));
    run(&["memory", "review"], &["--apply", "review.md"]);
    let files = || {
        let mut files = std::fs::read_dir(fixture.path("memory"))
            .expect("a directory")
            .map(|entry| entry.expect("an entry").path())
            .filter(|path| path.extension().is_some_and(|end| end == "md"))
            .map(|path| (path.clone(), std::fs::read(path).expect("a file")))
            .collect::<Vec<_>>();
        files.sort();
        files
    };
    let acts = || std::fs::read(fixture.path("memory/.archive/acts.jsonl")).expect("acts");
    let (before, taught) = (files(), acts());
    assert!(before.len() >= 2);
    for _ in 0..20 {
        run(&["memory", "extract"], &["-q"]);
    }
    assert_eq!((files(), acts()), (before, taught));
    // What was decided does not come again.
    run(&["memory", "review"], &["--review-file", "review.md", "--force"]);
    let rest = std::fs::read_to_string(fixture.path("review.md")).expect("a file");
    assert!(rest.matches("- [ ]").count() < text.matches("- [ ]").count(), "{rest}");
    let listed = fixture.run(["memory", "review", "--dir", "memory", "--acts"]).success();
    assert!(listed.text().starts_with("accept "), "{}", listed.text());
    fixture
        .run(["memory", "review", "--dir", "memory", "--forget-acts"])
        .success();
    assert_eq!(acts(), b"");
}
