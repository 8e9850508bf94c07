//! The commands on a memory directory, as users run them.

use crate::fixture::Fixture;
use serde_json::json;

fn with_memories(fixture: &Fixture) {
    let memory = |name: &str, description: &str, kind: &str, body: &str| {
        format!("---\nname: {name}\ndescription: {description}\ntype: {kind}\n---\n\n{body}\n")
    };
    fixture.write(
        "memory/deploys.md",
        memory(
            "Deploy day",
            "when a release is planned",
            "project",
            "Releases leave on Tuesday morning.",
        ),
    );
    fixture.write(
        "memory/tests.md",
        memory(
            "Real database",
            "when writing integration tests",
            "feedback",
            "Integration tests use Postgres, no mocks.",
        ),
    );
    fixture.write(
        "memory/MEMORY.md",
        "- [Deploy day](deploys.md) — when a release is planned\n- [Real database](tests.md) — when writing integration tests\n",
    );
}

#[test]
fn recall_finds_a_memory_or_prints_nothing() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    let found = fixture
        .run([
            "memory",
            "recall",
            "--dir",
            "memory",
            "-f",
            "json",
            "do integration tests mock the database",
        ])
        .success();
    let answer = found.json();
    assert_eq!(answer["query"], "do integration tests mock the database");
    assert_eq!(answer["selected"][0]["file"], "tests.md");
    assert!(answer["selected"][0]["score"].as_f64().is_some_and(|score| score > 0.0));
    let text = fixture
        .run(["memory", "recall", "--dir", "memory", "when is the next release"])
        .success();
    assert!(text.text().contains("Releases leave on Tuesday"), "{}", text.text());
    for query in ["holiday photos of the mountains", "?!"] {
        let nothing = fixture
            .run(["memory", "recall", "--dir", "memory", "-f", "json", query])
            .success();
        assert_eq!(
            nothing.json(),
            json!({"schema_version": 1, "kind": "recall", "query": query, "selected": []})
        );
    }
    let nowhere = fixture
        .run([
            "memory",
            "recall",
            "--dir",
            "elsewhere/memory",
            "-f",
            "json",
            "anything at all",
        ])
        .success();
    assert_eq!(nowhere.json()["selected"], json!([]));
}

#[test]
fn an_empty_answer_says_why() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    fixture.write("empty/memory/.keep", "");
    for (dir, query, more, why) in [
        ("memory", "?!", &[][..], "the query has no word"),
        (
            "memory",
            "capital of france",
            &["--fit", "0"],
            "no memory has a word of the query",
        ),
        ("memory", "next release day", &["--budget", "10"], "no room: "),
        (
            "memory",
            "next release day",
            &["--surfaced", "deploys.md"],
            "nothing new: ",
        ),
        ("empty/memory", "next release day", &[], "has no memories"),
        ("nowhere/memory", "next release day", &[], "no memories in"),
    ] {
        let args = ["memory", "recall", "--dir", dir, query];
        let run = fixture.run([&args, more].concat()).success();
        assert_eq!(run.text(), "", "{query} {more:?}");
        assert!(
            run.stderr.contains(why) && run.stderr.lines().count() == 1,
            "{query} {more:?}: {}",
            run.stderr
        );
    }
    let args = ["memory", "recall", "--dir", "memory", "release zebra giraffe walrus"];
    let best = fixture.run([&args[..], &["--fit", "0"]].concat()).success();
    assert!(best.text().contains("Releases leave on Tuesday"), "{}", best.text());
}

#[test]
fn invalid_options_are_refused() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    fixture.write("logs/a.jsonl", "");
    for (args, why) in [
        (&["recall", "next release day", "--most", "0"][..], "--most"),
        (
            &["recall", "next release day", "--set", "recall.most=0"],
            "must be at least 1",
        ),
        (&["recall", "next release day", "--fit", "5"], "between 0 and 1"),
        (
            &["extract", "logs", "--dry-run", "--set", "foo.bar=1"],
            "unknown policy value",
        ),
        (&["list", "--set", "foo.bar=1"], "unknown policy value"),
        (&["extract", "logs", "--harvest"], "cannot be used with"),
        (&["extract", "logs", "--dry-run", "--daily"], "cannot be used with"),
        (&["check", "--problems"], "--logs"),
    ] {
        let run = fixture.run([&["memory"], args, &["--dir", "memory"]].concat()).ended(2);
        assert!(run.stderr.contains(why), "{args:?}: {}", run.stderr);
    }
}

#[test]
fn many_queries_are_answered_in_their_order() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    let queries =
        "{\"id\": 7, \"text\": \"the next release day\"}\n\n{\"id\": \"b\", \"text\": \"mountain holiday\"}\n";
    fixture.write("queries.jsonl", queries);
    let run = fixture
        .run([
            "memory",
            "recall",
            "--dir",
            "memory",
            "--queries",
            "queries.jsonl",
            "--max-files",
            "0",
        ])
        .success();
    let lines = run
        .text()
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .collect::<Vec<_>>();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|line| line["schema_version"] == 1), "{lines:?}");
    assert_eq!(
        (&lines[0]["id"], &lines[0]["selected"][0]["file"]),
        (&json!(7), &json!("deploys.md"))
    );
    assert_eq!((&lines[1]["id"], &lines[1]["selected"]), (&json!("b"), &json!([])));
    fixture.write("queries.jsonl", "not json\n");
    fixture
        .run(["memory", "recall", "--dir", "memory", "--queries", "queries.jsonl"])
        .ended(2);
}

#[test]
fn surfaced_memories_are_not_recalled_again() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    let arguments = [
        "memory",
        "recall",
        "--dir",
        "memory",
        "-f",
        "json",
        "--surfaced",
        "deploys.md",
        "the next release day",
    ];
    assert_eq!(fixture.run(arguments).success().json()["selected"], json!([]));
}

#[test]
fn check_finds_faults_and_annotates_them() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    fixture.run(["memory", "check", "--dir", "memory"]).success();
    fixture.write(
        "memory/extra.md",
        "---\nname: Extra\ndescription: d\ntype: recipe\n---\nx\n",
    );
    let found = fixture
        .run(["memory", "check", "--dir", "memory", "--format", "github"])
        .ended(1);
    assert!(
        found
            .text()
            .contains("::error file=memory/extra.md,line=1,title=foreign-type::"),
        "{}",
        found.text()
    );
    assert!(
        found.text().contains("title=not-listed::MEMORY.md does not list it"),
        "{}",
        found.text()
    );
    let found = fixture
        .run(["memory", "check", "--dir", "memory", "--format", "json"])
        .ended(1);
    assert_eq!(found.json()["findings"].as_array().map(Vec::len), Some(2));
    fixture.run(["memory", "check", "--dir", "nowhere/at/all"]).ended(2);
}

#[test]
fn list_shows_every_memory() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    let listed = fixture.run(["memory", "list", "--dir", "memory"]).success();
    assert!(
        listed
            .text()
            .contains("  today   0x  Deploy day\n              deploys.md\n"),
        "{}",
        listed.text()
    );
    let listed = fixture
        .run(["memory", "list", "--dir", "memory", "-f", "json"])
        .success();
    assert_eq!(listed.json()["memories"].as_array().map(Vec::len), Some(2));
}

#[test]
fn the_prompt_has_the_instructions_and_the_index() {
    let fixture = Fixture::new();
    with_memories(&fixture);
    fixture.write(".git/HEAD", "ref: refs/heads/main\n");
    fixture.write("CLAUDE.md", "Project rules. @style.md\n");
    fixture.write("style.md", "Four spaces.\n");
    fixture.write("home/.claude/CLAUDE.md", "User rules.\n");
    fixture.write("sub/CLAUDE.md", "Rules below.\n");
    let run = fixture
        .run(["memory", "prompt", "--dir", "memory", "--touched", "sub/x.rs"])
        .success();
    let order = [
        "User rules.",
        "Four spaces.",
        "Project rules.",
        "Rules below.",
        "# Memory",
        "[Deploy day](deploys.md)",
    ];
    let places = order.map(|text| {
        run.text()
            .find(text)
            .unwrap_or_else(|| panic!("{text} in {}", run.text()))
    });
    assert!(places.is_sorted(), "{places:?}");
    let run = fixture.run(["memory", "prompt", "--dir", "memory"]).success();
    assert!(!run.text().contains("Rules below."));
}

#[test]
fn worktrees_share_a_directory_and_client_switches_apply() {
    let fixture = Fixture::new();
    fixture.write("main/.git/worktrees/side/commondir", "../..\n");
    fixture.write(
        "side/.git",
        format!("gitdir: {}\n", fixture.path("main/.git/worktrees/side").display()),
    );
    let slug = fixture
        .path("main")
        .canonicalize()
        .unwrap()
        .to_string_lossy()
        .replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    fixture.write(
        &format!("home/.claude/projects/{slug}/memory/a.md"),
        "---\nname: Shared\n---\nx\n",
    );
    for folder in ["main", "side"] {
        let mut command = fixture.command(["memory", "list"]);
        command.current_dir(fixture.path(folder));
        assert!(
            crate::fixture::Run::of(command).success().text().contains("a.md"),
            "{folder}"
        );
    }
    let mut off = fixture.command(["memory", "list"]);
    off.current_dir(fixture.path("main"))
        .env("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1");
    assert!(crate::fixture::Run::of(off).ended(2).stderr.contains("switched off"));
    let mut refused = fixture.command(["memory", "list"]);
    refused
        .current_dir(fixture.path("main"))
        .env("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "/memory");
    assert!(
        crate::fixture::Run::of(refused)
            .ended(2)
            .stderr
            .contains("not a place for memories")
    );
    // A repository's committed settings may not move the directory.
    fixture.write(
        "main/.claude/settings.json",
        json!({"autoMemoryDirectory": fixture.path("evil")}).to_string(),
    );
    let mut unmoved = fixture.command(["memory", "list"]);
    unmoved.current_dir(fixture.path("main"));
    assert!(crate::fixture::Run::of(unmoved).success().text().contains("a.md"));
}
