//! How things stand at the end: tasks in the background, commits, what was thrown away, and what a compaction must not take away.

use super::{TestSession, find, notes_of, section};
use crate::fixture::Fixture;
use notes::size::window_tokens;
use notes::template::NotesTemplate;
use replay::tokens::ratios::RatioTable;
use serde_json::{Value, json};

impl TestSession {
    /// Adds a notice that stands only in the queue.
    fn queues(&mut self, content: &str) {
        let record = json!({"operation": "enqueue", "timestamp": "2026-03-04T10:30:00.000Z", "sessionId": self.id, "content": content});
        let record = record.to_string();
        self.text
            .push_str(&format!("{{\"type\":\"queue-operation\",{}\n", &record[1..]));
    }

    fn runs(&mut self, command: &str, result: &str, is_error: bool) {
        self.calls("Let me run it.", "Bash", json!({"command": command}), result, is_error);
    }

    fn edits(&mut self, file: &str) {
        let path = format!("{}/{file}", self.cwd);
        let change = json!({"file_path": path, "old_string": "a", "new_string": "b"});
        self.calls("I change it now.", "Edit", change, "The file has been updated.", false);
    }

    fn is_compacted(&mut self, summary: &str) {
        let before = format!("00000000-0000-4000-8000-{:012}", self.records);
        self.record(
            "system",
            json!({"subtype": "compact_boundary", "parentUuid": null, "logicalParentUuid": before, "compactMetadata": {"trigger": "manual", "preTokens": 90_000}}),
        );
        self.record(
            "user",
            json!({"isCompactSummary": true, "message": {"role": "user", "content": summary}}),
        );
    }
}

fn notice(task: &str, status: &str, summary: &str) -> String {
    format!(
        "<task-notification>\n<task-id>{task}</task-id>\n<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>"
    )
}

/// Writes notes and the summary of one session.
fn texts_of(session: TestSession) -> (String, String) {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", session.text);
    fixture.run(["notes", "logs", "--out", "notes", "--summary"]).success();
    let found = notes_of(&fixture, "notes");
    (find(&found, "session-memory/summary.md"), find(&found, "compact.md"))
}

#[test]
fn a_task_in_the_background_ends_with_its_notice() {
    let started = |task: &str| format!("Command running in background with ID: {task}. Output is being written to: /t");
    let mut session = TestSession::new("background");
    session.user("Please run all the tests of the shop");
    session.runs("cargo test --workspace", "Exit code 101\nerror: test failed", true);
    session.runs("cargo test --workspace", &started("b1"), false);
    session.runs("npm run build", &started("b2"), false);
    session.runs("npm run dev", &started("b3"), false);
    session.runs("make lint | tail -3", &started("b4"), false);
    session.queues(&notice(
        "b1",
        "completed",
        "Background command \"Test\" completed (exit code 0)",
    ));
    session.user(&notice(
        "b2",
        "failed",
        "Background command \"Build\" failed with exit code 2",
    ));
    let output = "<status>completed</status>\n<exit_code>0</exit_code>\n<output>\nERROR: 2 problems\n</output>";
    session.calls("", "TaskOutput", json!({"task_id": "b4"}), output, false);
    session.says("The tests pass, the build fails.");
    let (notes, summary) = texts_of(session);
    let notes = NotesTemplate::parse(&notes);
    let state = section(&notes, "Current State");
    assert!(
        !state.contains("cargo test --workspace` (") && state.contains("Still failing: `npm run build`"),
        "{state}"
    );
    assert!(
        state.contains("Started in the background, no end in the log: `npm run dev`"),
        "{state}"
    );
    assert!(
        state.contains("Still failing: `make lint`") && !state.contains("log: `make lint"),
        "{state}"
    );
    let workflow = section(&notes, "Workflow");
    assert!(
        workflow.contains("- `cargo test --workspace` (2 times, 1 failed, not the last)"),
        "{workflow}"
    );
    assert!(
        summary.contains("Started in the background, no end in the log: `npm run dev`"),
        "{summary}"
    );
}

#[test]
fn a_sub_agent_answers_with_its_notice_and_not_with_its_start() {
    let mut session = TestSession::new("agents");
    session.user("Please find out why the cart is slow");
    let asked = json!({"description": "Look at the cart", "prompt": "Find out why it is slow."});
    let started =
        "Async agent launched successfully.\nagentId: a1 (internal ID)\nThe agent is working in the background.";
    session.calls("I ask a sub-agent.", "Task", asked, started, false);
    session.queues(
        &notice("a1", "completed", "Agent \"Look at the cart\" finished").replace(
            "</task-notification>",
            "<result>I read it all.\n\nThe total is computed once per item in `cart_total`.</result>\n</task-notification>",
        ),
    );
    session.says("The total is computed too often.");
    let (notes, summary) = texts_of(session);
    assert!(summary.contains("The total is computed once per item in"), "{summary}");
    for text in [notes, summary] {
        assert!(
            !text.contains("launched successfully") && !text.contains("no end in the log"),
            "{text}"
        );
    }
}

#[test]
fn a_compaction_takes_no_tasks_and_no_uncommitted_files_away() {
    let mut session = TestSession::new("after-a-boundary");
    session.user("Please add a discount to the cart total");
    session.calls(
        "I note the tasks.",
        "TaskCreate",
        json!({"subject": "Show the discount on the receipt"}),
        "Task #1 created successfully: Show the discount on the receipt",
        false,
    );
    session.calls(
        "One more.",
        "TaskCreate",
        json!({"subject": "Describe the rounding"}),
        "Task #2 created successfully: Describe the rounding",
        false,
    );
    session.edits("src/cart.rs");
    session.runs(
        "git status --short",
        " M src/cart.rs\n M src/generated.rs\n?? notes.txt",
        false,
    );
    session.says("The total has a discount.");
    session.is_compacted(
        "1. Primary Request and Intent:\n   Add a discount.\n2. Key Technical Concepts:\n3. Files and Code Sections:\n4. Errors and fixes:\n5. Problem Solving:\n6. All user messages:\n7. Pending Tasks:\n   - Task 1: Show the discount on the receipt\n   - Task 2: Describe the rounding\n",
    );
    session.user("now describe the rounding in the manual");
    session.calls(
        "It is described.",
        "TaskUpdate",
        json!({"taskId": "2", "status": "completed"}),
        "Updated task #2 status",
        false,
    );
    session.says("The manual describes the rounding.");
    let (_, summary) = texts_of(session);
    assert!(
        summary.contains("- Not begun: Show the discount on the receipt"),
        "{summary}"
    );
    assert!(
        summary.contains("- Done since the earlier summary: Task 2: Describe the rounding (the task was finished)"),
        "{summary}"
    );
    assert!(!summary.contains("not matched with later work"), "{summary}");
    assert!(summary.contains("- Uncommitted: `src/cart.rs`"), "{summary}");
    assert!(
        summary.contains("- Also changed and not committed, by git: `src/generated.rs`"),
        "{summary}"
    );
    assert!(summary.contains("- Untracked: `notes.txt`"), "{summary}");
}

#[test]
fn commits_count_if_the_log_shows_them_whatever_the_shell() {
    let mut session = TestSession::new("commits");
    session.user("Please commit the cart and the manual");
    session.edits("src/cart.rs");
    session.edits("docs/manual.md");
    let refused = "ok 1 file changed\nFAILED: git commit\nerror: no types\nhusky - pre-commit script failed (code 2)";
    let commit = "rtk git add src/cart.rs && rtk git commit -m \"$(cat <<'EOF'\nAdd a discount to the cart\nEOF\n)\"";
    session.runs(commit, refused, false);
    let commits = "git add src; git commit -m @'\nfix: round the total\n\nIt isn't exact.\n'@; git add docs; git commit -m @'\ndocs: describe it\n'@; git log --oneline -2";
    let reported = "[main 1a2b3c4] fix: round the total\n 1 file changed, 1 insertion(+)\n[main 2b3c4d5] docs: describe it\n 1 file changed, 1 insertion(+)\n2b3c4d5 docs: describe it\n1a2b3c4 fix: round the total";
    session.calls(
        "Both are committed.",
        "PowerShell",
        json!({"command": commits}),
        reported,
        false,
    );
    session.says("Both are committed now.");
    let (notes, summary) = texts_of(session);
    for text in [notes, summary] {
        assert!(
            text.contains("- Commit `1a2b3c4` (not pushed in this session): fix: round the total"),
            "{text}"
        );
        assert!(
            text.contains("- Commit `2b3c4d5` (not pushed in this session): docs: describe it"),
            "{text}"
        );
        assert!(
            !text.contains("): Add a discount to the cart") && !text.contains("Uncommitted"),
            "{text}"
        );
    }
}

#[test]
fn what_git_threw_away_is_an_error() {
    let mut session = TestSession::new("lost");
    session.user("Please add a discount to the cart total");
    session.edits("src/cart.rs");
    session.edits("src/coupon.rs");
    session.runs(
        "git stash && make lint | grep -c issues; git stash pop",
        "Exit code 1\nerror: Your local changes would be overwritten by merge\nAborting\nSaved working directory and index state WIP on main: 1a2b3c4 x",
        true,
    );
    session.runs("git stash drop", "Dropped refs/stash@{0} (1a2b3c4)", false);
    session.edits("src/cart.rs");
    session.says("I wrote the cart again.");
    let (notes, summary) = texts_of(session);
    for text in [notes, summary] {
        assert!(
            text.contains("- `git stash drop` threw away changes to `src/cart.rs`, `src/coupon.rs`. Not changed again since: `src/coupon.rs`"),
            "{text}"
        );
    }
}

#[test]
fn a_replay_puts_the_texts_of_notes_into_its_boundaries() {
    let fixture = Fixture::new();
    let mut session = super::shop();
    for at in 0..30 {
        session.window += 3_000;
        session.edits(&format!("src/part_{at}.rs"));
        session.runs("cargo test --workspace", &"ok and a long result ".repeat(400), false);
    }
    session.says("All parts are changed.");
    fixture.write("logs/a.jsonl", session.text);
    let policy = [
        "--policy",
        "article",
        "--set",
        "micro.cached.on=false",
        "--set",
        "notes.compact=true",
        "--set",
        "window.tokens=100000",
    ];
    let run = |first: &[&str]| fixture.run(first.iter().chain(&policy).copied()).success();
    run(&["notes", "logs", "--out", "notes", "--history"]);
    run(&["replay", "logs", "--with-text", "--out", "out"]);
    let ratios = RatioTable::built_in().for_model("claude-opus-4-7");
    let written = notes_of(&fixture, "notes").into_iter();
    let written = written
        .filter(|(path, text)| path.to_string_lossy().contains("history") && text.contains("Changed, no commit seen"));
    let sizes = written
        .map(|(_, text)| window_tokens(&text, ratios))
        .collect::<Vec<_>>();
    let boundaries = std::fs::read_to_string(fixture.path("out").join("boundaries.jsonl")).expect("boundaries");
    let first = serde_json::from_str::<Value>(boundaries.lines().next().expect("a boundary")).expect("JSON");
    let tokens = first["text"]["tokens"].as_u64().expect("a size");
    assert!(sizes.contains(&tokens), "{tokens} of {sizes:?}");
}

#[test]
fn what_an_earlier_summary_left_open_is_not_called_open_once_work_was_committed() {
    let mut session = TestSession::new("left");
    session.user("Please look at the shop");
    session.says("I looked at it.");
    session.is_compacted(
        "1. Primary Request and Intent:\n   The shop.\n2. Key Technical Concepts:\n3. Files and Code Sections:\n4. Errors and fixes:\n5. Problem Solving:\n6. All user messages:\n7. Pending Tasks:\n- Fix `TestCart_Rounds_Totals` in the cart\n- Draw the screens\n- Name the colors",
    );
    session.user("Please go on with the screens of the shop");
    session.runs("go test -run TestCart_Rounds_Totals ./cart", "ok cart 0.2s", false);
    session.runs("git commit -am 'Add pages'", "[main 1a2b3c4] Add pages", false);
    session.says("The pages are there.");
    let (notes, _) = texts_of(session);
    let state = section(&NotesTemplate::parse(&notes), "Current State").to_owned();
    assert!(
        state.contains("Listed as open by an earlier summary, 1 commit since, not known whether it still is: Draw the screens (and 1 more)"),
        "{state}"
    );
    assert!(
        state.contains("TestCart_Rounds_Totals` in the cart (`go test") && !state.contains("Open by an earlier"),
        "{state}"
    );
}

#[test]
fn the_last_check_is_the_last_program_that_was_tried_again() {
    let mut session = TestSession::new("check");
    session.user("Please make the workflow pass");
    session.runs("act -j test", "Exit code 1\nerror: it failed", true);
    session.runs(
        "uv run pyright",
        "0 errors, 0 warnings\nWARNING: there is a new version (v1.2)",
        false,
    );
    session.runs("act -j test", "Job succeeded", false);
    session.says("It passes.");
    let (notes, _) = texts_of(session);
    assert!(notes.contains("- Last check: `act -j test` went through"), "{notes}");
}
