//! `backcast notes` and `replay --with-text`: what is written, that it keeps its limits and its shape, that a person's own
//! words in it survive, and that nothing leaves the folder.

use crate::fixture::{Fixture, case, files_below, real_logs};
use backcast::run::{ReadOptions, Run};
use language::secrets;
use notes::carried::{compare_summaries, mean_coverage};
use notes::offline::OfflineBackend;
use notes::size;
use notes::template::NotesTemplate;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use transcript::discover::discover;

/// A session, record by record; each follows the one before.
struct TestSession {
    id: &'static str,
    cwd: &'static str,
    text: String,
    records: u32,
    window: u64,
}

impl TestSession {
    fn new(id: &'static str) -> TestSession {
        TestSession {
            id,
            cwd: "/home/ada/code/shop",
            text: String::new(),
            records: 0,
            window: 12_000,
        }
    }

    fn record(&mut self, kind: &str, more: Value) {
        let uuid = |at: u32| format!("00000000-0000-4000-8000-{at:012}");
        self.records += 1;
        let mut record = json!({
            "parentUuid": (self.records > 1).then(|| uuid(self.records - 1)), "isSidechain": false, "cwd": self.cwd,
            "sessionId": self.id, "version": "2.1.50", "type": kind, "uuid": uuid(self.records),
            "timestamp": format!("2026-03-04T10:{:02}:{:02}.000Z", self.records / 60, self.records % 60),
        });
        for (key, value) in more.as_object().expect("an object") {
            record[key] = value.clone();
        }
        self.text.push_str(&record.to_string());
        self.text.push('\n');
    }

    fn user(&mut self, text: &str) {
        self.record("user", json!({"message": {"role": "user", "content": text}}));
    }

    fn assistant(&mut self, content: Value) {
        self.window += 4_000;
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": self.window, "cache_creation_input_tokens": 0, "output_tokens": 200});
        let id = format!("msg_{}", self.records);
        self.record(
            "assistant",
            json!({"requestId": format!("req_{}", self.records), "message": {"id": id, "role": "assistant", "model": "claude-opus-4-7", "content": content, "usage": usage, "stop_reason": "end_turn"}}),
        );
    }

    fn says(&mut self, text: &str) {
        self.assistant(json!([{"type": "text", "text": text}]));
    }

    /// A call with what was said before it, and its result.
    fn calls(&mut self, said: &str, tool: &str, input: Value, result: &str, is_error: bool) {
        let id = format!("toolu_{}", self.records);
        self.assistant(
            json!([{"type": "text", "text": said}, {"type": "tool_use", "id": id, "name": tool, "input": input}]),
        );
        let result = json!([{"type": "tool_result", "tool_use_id": id, "is_error": is_error, "content": result}]);
        self.record("user", json!({"message": {"role": "user", "content": result}}));
    }
}

const SECRET: &str = concat!("ghp_", "16C7e42F292c6912E7710c838347Ae178B4a12");

/// A session with everything that notes are made of.
fn shop() -> TestSession {
    let mut session = TestSession::new("5e551011-0000-4000-8000-000000000001");
    session.user("Please add a discount to the cart total in src/cart.rs");
    session.calls(
        "I'll read the cart first.",
        "Read",
        json!({"file_path": "/home/ada/code/shop/src/cart.rs"}),
        "fn cart_total() {}",
        false,
    );
    session.calls(
        "Now let me apply the discount in the total.",
        "Edit",
        json!({"file_path": "/home/ada/code/shop/src/cart.rs", "old_string": "fn cart_total() {}", "new_string": "fn cart_total(discount_rate: u8) {}"}),
        "The file has been updated.",
        false,
    );
    session.calls(
        "Let me run the tests.",
        "Bash",
        json!({"command": "cargo test 2>&1 | tail -5", "description": "Run tests"}),
        "Exit code 101\nerror[E0061]: this function takes 1 argument",
        true,
    );
    session.calls(
        "The test fails because `apply_coupon` still calls it without a rate.",
        "Edit",
        json!({"file_path": "/home/ada/code/shop/src/coupon.rs", "old_string": "cart_total()", "new_string": "cart_total(default_rate())"}),
        "The file has been updated.",
        false,
    );
    session.calls(
        "Let me run the tests.",
        "Bash",
        json!({"command": "cargo test", "description": "Run tests"}),
        "test result: ok. 12 passed; 0 failed",
        false,
    );
    session.calls(
        "I'll keep a list.",
        "TodoWrite",
        json!({"todos": [{"content": "Discount in the total", "status": "completed"}, {"content": "Show the discount on the receipt", "status": "in_progress"}]}),
        "ok",
        false,
    );
    session.says("The discount is in the total. Should I round it down or to the nearest cent?");
    session.user("no, don't round at all. Never use floats for money.\n<system-reminder>be brief</system-reminder>");
    session.user(&format!("my token is {SECRET}, do not lose it"));
    session.says("Understood: amounts stay integers. Next, I'll show the discount on the receipt.");
    session
}

fn notes_of(fixture: &Fixture, folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![fixture.path(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).expect("text");
                found.push((path, text));
            }
        }
    }
    found.sort();
    found
}

fn find(found: &[(PathBuf, String)], name: &str) -> String {
    let is_it = |path: &Path| path.ends_with(name);
    found
        .iter()
        .find(|(path, _)| is_it(path))
        .map(|(_, text)| text.clone())
        .unwrap_or_else(|| panic!("no {name}"))
}

fn section<'t>(template: &'t NotesTemplate, heading: &str) -> &'t str {
    let is_it = |heading_line: &str| heading_line.trim_start_matches("# ") == heading;
    &template
        .sections
        .iter()
        .find(|section| is_it(&section.heading))
        .expect("the section")
        .body
}

#[test]
fn notes_say_what_was_asked_changed_failed_fixed_and_decided() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    fixture.run(["notes", "logs", "--out", "notes", "--summary"]).success();
    let found = notes_of(&fixture, "notes");
    let path = "-home-ada-code-shop/5e551011-0000-4000-8000-000000000001/session-memory/summary.md";
    let text = find(&found, path);
    assert!(NotesTemplate::built_in().has_same_sections(&text));
    let notes = NotesTemplate::parse(&text);
    let title = section(&notes, "Session Title");
    assert!((5..=10).contains(&title.split_whitespace().count()), "{title}");
    let state = section(&notes, "Current State");
    assert!(
        state.contains("In progress: Show the discount on the receipt"),
        "{state}"
    );
    assert!(
        state.contains("Next:") && state.contains("show the discount on the receipt"),
        "{state}"
    );
    let files = section(&notes, "Files and Functions");
    assert!(
        files.contains("- `src/cart.rs` (changed once): `cart_total`. Apply the discount in the total"),
        "{files}"
    );
    let workflow = section(&notes, "Workflow");
    assert!(
        workflow.contains("- `cargo test` (2 times, 1 failed, not the last): Run tests"),
        "{workflow}"
    );
    let errors = section(&notes, "Errors and Corrections");
    assert!(
        errors.contains("error[E0061]") && errors.contains("Went through after changes to `src/coupon.rs`"),
        "{errors}"
    );
    assert!(errors.contains("apply_coupon"), "{errors}");
    assert!(
        errors.contains("The user corrected: \"no, don't round at all."),
        "{errors}"
    );
    assert!(
        section(&notes, "Learnings").contains("Never use floats for money"),
        "{text}"
    );
    assert!(section(&notes, "Key Results").contains("12 passed"), "{text}");
    assert_eq!(section(&notes, "Worklog").lines().count(), 3, "{text}");
    for (path, text) in &found {
        assert!(!text.contains(SECRET), "{}", path.display());
        assert!(!text.contains("system-reminder"), "{}", path.display());
    }
}

#[test]
fn a_summary_has_nine_sections_and_every_message_in_full() {
    let fixture = Fixture::new();
    let mut session = shop();
    let odd = "# not a heading\n```\ncode\n```\n<b>and markup</b>";
    session.user(odd);
    session.says("Yes.");
    fixture.write("logs/a.jsonl", session.text);
    fixture.run(["notes", "logs", "--out", "notes", "--summary"]).success();
    let text = find(&notes_of(&fixture, "notes"), "compact.md");
    let headings = text.lines().filter(|line| line.starts_with("## ")).collect::<Vec<_>>();
    assert_eq!(headings.len(), 9, "{headings:?}");
    assert_eq!(headings[5], "## 6. All User Messages");
    assert_eq!(headings[8], "## 9. Optional Next Step");
    for message in [
        "Please add a discount to the cart total in src/cart.rs",
        "no, don't round at all. Never use floats for money.",
        odd,
    ] {
        assert!(text.contains(message), "{message}\n{text}");
    }
    assert!(
        text.contains("````text\n# not a heading"),
        "a fence longer than the one inside: {text}"
    );
}

#[test]
fn a_part_is_summarised_from_or_up_to_a_message() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    // The first message of the second turn.
    let uuid = "00000000-0000-4000-8000-000000000015";
    fixture
        .run(["notes", "logs", "--out", "from", "--from", uuid])
        .success();
    let text = find(&notes_of(&fixture, "from"), "compact.md");
    assert!(!text.contains("Please add a discount"), "{text}");
    assert!(text.contains("Never use floats for money"), "{text}");
    fixture
        .run(["notes", "logs", "--out", "upto", "--up-to", uuid])
        .success();
    let text = find(&notes_of(&fixture, "upto"), "compact.md");
    assert!(
        text.contains("## 8. Work Completed") && text.contains("## 9. Context for Continuing"),
        "{text}"
    );
    assert!(
        text.contains("Please add a discount") && !text.contains("my token"),
        "{text}"
    );
    let run = fixture
        .run(["notes", "logs", "--out", "none", "--from", "no-such"])
        .ended(2);
    assert!(
        run.stderr.contains("no session has the message no-such"),
        "{}",
        run.stderr
    );
}

/// A line of thinking stands for the words of its response, a system record for the message beside it; what is in no main
/// conversation is said to be where it is.
#[test]
fn any_record_of_the_conversation_names_a_message() {
    let fixture = Fixture::new();
    let plain = case("plain").display().to_string();
    let summary = |option: &str, uuid: &str| {
        let out = format!("{option}-{uuid}");
        fixture
            .run(["notes", &plain, "--out", &out, &format!("--{option}"), uuid])
            .success();
        find(&notes_of(&fixture, &out), "compact.md")
    };
    let thinking = "6850daf8-9c1f-4f9e-9869-5326b62f7eab";
    let said = "0705b8b2-f01c-4401-814a-d3305032d5c8";
    let system = "95e79325-3996-409a-ae6f-a06ce022f244";
    let (before, after) = (
        "80ae4751-94dc-4e37-b869-0204e01cd6bf",
        "d312c197-93ae-4484-8201-bc55808819e7",
    );
    assert_eq!(summary("from", thinking), summary("from", said));
    assert_eq!(summary("up-to", thinking), summary("up-to", said));
    assert_eq!(summary("from", system), summary("from", after));
    assert_eq!(summary("up-to", system), summary("up-to", before));
    assert_ne!(summary("up-to", before), summary("up-to", after));

    let mut session = TestSession::new("rewound");
    session.user("first try of the question");
    session.says("An answer to it.");
    // The third record follows the first: the second is a branch that was left.
    session.record(
        "user",
        json!({"parentUuid": "00000000-0000-4000-8000-000000000001", "message": {"role": "user", "content": "second try"}}),
    );
    session.says("An answer to the second.");
    fixture.write("logs/a.jsonl", session.text);
    let left = "00000000-0000-4000-8000-000000000002";
    let run = fixture.run(["notes", "logs", "--out", "none", "--from", left]).ended(2);
    assert!(run.stderr.contains("was rewound from it"), "{}", run.stderr);
    let agent = case("subagents-nested").display().to_string();
    let logs = files_below(&case("subagents-nested"));
    let log = logs.iter().find(|log| log.display().to_string().contains("agent-"));
    let log = std::fs::read_to_string(case("subagents-nested").join(log.expect("a sub-agent"))).expect("a log");
    let first = serde_json::from_str::<Value>(log.lines().next().expect("a line")).expect("JSON");
    let uuid = first["uuid"].as_str().expect("an id");
    let run = fixture
        .run(["notes", &agent, "--out", "none", "--up-to", uuid])
        .ended(2);
    assert!(run.stderr.contains("belongs to a sub-agent"), "{}", run.stderr);
}

#[test]
fn options_without_effect_are_refused() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    for (option, words) in [
        ("--instructions=mind the receipts", "add --summary"),
        ("--model=claude-haiku-4-5", "--model: about a model"),
        ("--max-cost=1", "--max-cost: about a model"),
    ] {
        let run = fixture.run(["notes", "logs", "--out", "notes", option]).ended(2);
        assert!(run.stderr.contains(words), "{option}: {}", run.stderr);
        assert!(!fixture.path("notes").exists());
    }
    let run = fixture.run(["notes", "logs", "--out", "notes"]).success();
    let id = &shop().id[..8];
    assert!(run.text().contains(&format!("\n{id} ")), "{}", run.text());
}

#[test]
fn a_file_is_continued_and_a_persons_words_in_it_stay() {
    let fixture = Fixture::new();
    let mut session = shop();
    fixture.write("logs/a.jsonl", &session.text);
    fixture.run(["notes", "logs", "--out", "notes"]).success();
    let (path, text) = notes_of(&fixture, "notes")
        .into_iter()
        .find(|(path, _)| path.ends_with("summary.md"))
        .expect("notes");
    // The same again changes nothing.
    let run = fixture
        .run(["notes", "logs", "--out", "notes", "-f", "jsonl"])
        .success();
    let row = serde_json::from_slice::<Value>(&run.stdout).expect("one row");
    assert_eq!(
        (&row["is_continued"], &row["is_unchanged"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(std::fs::read_to_string(&path).expect("notes"), text);
    // Somebody adds a line, takes one out, and works on.
    let gone = text
        .lines()
        .find(|line| line.starts_with("- `cargo test`"))
        .expect("a command")
        .to_owned();
    let edited = text
        .replace(&format!("{gone}\n"), "")
        .replace("- The user wants:", "- Ada owns the receipts.\n- The user wants:");
    assert_ne!(edited, text);
    std::fs::write(&path, &edited).expect("written");
    session.user("now print the receipt in two columns");
    session.calls(
        "Let me lay it out in columns.",
        "Write",
        json!({"file_path": "/home/ada/code/shop/src/receipt.rs", "content": "fn two_columns() {}"}),
        "ok",
        false,
    );
    session.says("The receipt has two columns now.");
    fixture.write("logs/a.jsonl", &session.text);
    fixture.run(["notes", "logs", "--out", "notes"]).success();
    let text = std::fs::read_to_string(&path).expect("notes");
    assert!(text.contains("- Ada owns the receipts."), "{text}");
    assert!(!text.contains(&gone), "{text}");
    assert!(text.contains("src/receipt.rs"), "{text}");
    assert_eq!(
        text.matches("Working on:").count(),
        1,
        "the state is the new one only: {text}"
    );
    fixture.run(["notes", "logs", "--out", "notes", "--force"]).success();
    assert!(!std::fs::read_to_string(&path).expect("notes").contains("Ada owns"));
}

/// The files of the only session, by name below its folder.
fn session_file(fixture: &Fixture, name: &str) -> PathBuf {
    let mut found = notes_of(fixture, "notes").into_iter();
    let found = found.find(|(path, _)| path.ends_with("session-memory/summary.md"));
    let notes = found.expect("notes").0;
    notes.ancestors().nth(2).expect("a session").join(name)
}

#[test]
fn a_page_is_replaced_without_the_switch_that_replaces_notes() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    let args = ["notes", "logs", "--out", "notes", "--html", "x.html"];
    fixture.run(args).success();
    let notes = session_file(&fixture, "session-memory/summary.md");
    let text = std::fs::read_to_string(&notes).expect("notes");
    std::fs::write(&notes, text.replacen("\n\n", "\n\n- Ada owns the receipts.\n", 1)).expect("written");
    fixture.run(args).success();
    let page = std::fs::read_to_string(fixture.path("x.html")).expect("a page");
    assert!(page.contains("Ada owns the receipts"), "the page is the new one");
    // Anything else stays, also with --force: a page of another command, a page of somebody else.
    fixture.run(["replay", "logs", "--html", "replay.html"]).success();
    fixture.write("mine.html", "<title>notes</title>\n");
    for name in ["replay.html", "mine.html"] {
        let before = std::fs::read(fixture.path(name)).expect("a page");
        let run = fixture
            .run(["notes", "logs", "--out", "notes", "--html", name, "--force"])
            .ended(2);
        assert!(run.stderr.contains("is no page of notes"), "{}", run.stderr);
        assert_eq!(std::fs::read(fixture.path(name)).expect("a page"), before);
    }
    assert!(std::fs::read_to_string(&notes).expect("notes").contains("Ada owns"));
}

#[test]
fn a_summary_that_somebody_changed_is_left_to_them() {
    let fixture = Fixture::new();
    let mut session = shop();
    fixture.write("logs/a.jsonl", &session.text);
    let args = [
        "notes",
        "logs",
        "--out",
        "notes",
        "--summary",
        "--history",
        "--problems",
    ];
    let run = fixture.run(args).success();
    assert!(!run.stderr.contains("text-kept"), "{}", run.stderr);
    let (summary, history) = (
        session_file(&fixture, "compact.md"),
        session_file(&fixture, "session-memory/history/0001.md"),
    );
    let read = |path: &Path| std::fs::read_to_string(path).expect("a text");
    let first = read(&summary);
    // As it was written, it is replaced by what is new.
    session.user("now print the receipt in two columns");
    session.says("The receipt has two columns now.");
    fixture.write("logs/a.jsonl", &session.text);
    let run = fixture.run(args).success();
    assert!(!run.stderr.contains("text-kept"), "{}", run.stderr);
    assert!(read(&summary).contains("two columns") && read(&summary) != first);
    // Changed, it stays until somebody says otherwise.
    for path in [&summary, &history] {
        std::fs::write(path, read(path) + "Ada was here.\n").expect("written");
    }
    session.user("and print the total in bold");
    session.says("It is bold.");
    fixture.write("logs/a.jsonl", &session.text);
    for _ in 0..2 {
        let run = fixture.run(args).success();
        assert_eq!(run.stderr.matches("text-kept").count(), 2, "{}", run.stderr);
        assert!(run.stderr.contains("compact.md"), "{}", run.stderr);
        assert!(read(&summary).ends_with("Ada was here.\n") && read(&history).ends_with("Ada was here.\n"));
    }
    let forced = args.into_iter().chain(["--force"]);
    let run = fixture.run(forced).success();
    assert!(!run.stderr.contains("text-kept"), "{}", run.stderr);
    assert!(read(&summary).contains("in bold") && !read(&summary).contains("Ada was here"));
    assert!(!read(&history).contains("Ada was here"));
    // One that nobody here wrote stays, too, and so do notes that are no text.
    std::fs::remove_file(session_file(&fixture, ".written.json")).expect("a list");
    std::fs::write(&summary, "Mine.\n").expect("written");
    let notes = session_file(&fixture, "session-memory/summary.md");
    std::fs::write(&notes, b"\xff\xfe not text").expect("written");
    let run = fixture.run(args).success();
    assert_eq!(run.stderr.matches("text-kept").count(), 2, "{}", run.stderr);
    assert_eq!(read(&summary), "Mine.\n");
    assert_eq!(std::fs::read(&notes).expect("bytes"), b"\xff\xfe not text");
}

#[test]
fn a_run_without_logs_or_sessions_leaves_no_folder() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("empty")).expect("a folder");
    fixture.write("logs/a.jsonl", shop().text);
    let unknown = "ffffffff-0000-4000-8000-000000000000";
    for args in [
        ["notes", "empty", "--out", "new", "--to-end", "--summary"],
        ["notes", "logs", "--out", "new", "--from", unknown],
    ] {
        fixture.run(args).ended(2);
        assert!(!fixture.path("new").exists(), "{args:?}");
    }
}

#[test]
fn history_has_a_file_an_update_and_templates_are_left_as_they_are() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    let template = "# Title of {{session}}\n_about {{nothing}}_\n\n# Files\n_which_\n\n# My own\n_left alone_\n";
    fixture.write("template.md", template);
    let run = fixture
        .run([
            "notes",
            "logs",
            "--out",
            "notes",
            "--history",
            "--template",
            "template.md",
            "-f",
            "jsonl",
        ])
        .success();
    let row = serde_json::from_slice::<Value>(&run.stdout).expect("one row");
    let found = notes_of(&fixture, "notes");
    let history = found
        .iter()
        .filter(|(path, _)| path.to_string_lossy().contains("/history/"))
        .collect::<Vec<_>>();
    assert_eq!(json!(history.len()), row["updates"]);
    assert!(history.len() > 2);
    let text = find(&found, "summary.md");
    assert_eq!(history.last().map(|(_, text)| text), Some(&text));
    let parsed = NotesTemplate::parse(&text);
    assert_eq!(
        parsed.sections[0].heading,
        "# Title of 5e551011-0000-4000-8000-000000000001"
    );
    assert_eq!(parsed.sections[0].about, "_about {{nothing}}_");
    assert!(parsed.sections[1].body.contains("src/cart.rs"));
    assert_eq!(parsed.sections[2].body, "");
}

#[test]
fn rewound_branches_and_sub_agents_stay_out() {
    let fixture = Fixture::new();
    let mut session = shop();
    session.record("user", json!({"isSidechain": true, "agentId": "a1", "parentUuid": null, "message": {"role": "user", "content": "sub agent prompt"}}));
    session.record("user", json!({"parentUuid": "00000000-0000-4000-8000-000000000001", "message": {"role": "user", "content": "rewound away"}}));
    let back = "00000000-0000-4000-8000-000000000018";
    session.record(
        "user",
        json!({"parentUuid": back, "message": {"role": "user", "content": "this one counts"}}),
    );
    session.says("It does.");
    fixture.write("logs/a.jsonl", session.text);
    fixture
        .run(["notes", "logs", "--out", "notes", "--to-end", "--summary"])
        .success();
    for (path, text) in notes_of(&fixture, "notes") {
        assert!(
            !text.contains("sub agent prompt") && !text.contains("rewound away"),
            "{}: {text}",
            path.display()
        );
    }
    assert!(find(&notes_of(&fixture, "notes"), "compact.md").contains("this one counts"));
}

#[test]
fn nothing_is_written_outside_the_folder() {
    let fixture = Fixture::new();
    let mut session = TestSession::new("../../evil");
    session.cwd = "/../../outside";
    session.user("hello there, do something for me");
    session.says("Done with it.");
    fixture.write("logs/a.jsonl", session.text);
    fixture
        .run(["notes", "logs", "--out", "in/notes", "--to-end"])
        .success();
    let found = notes_of(&fixture, "in/notes");
    assert_eq!(found.len(), 2, "{found:?}");
    let top = std::fs::read_dir(fixture.path("in")).expect("a folder").count();
    assert_eq!(top, 1);
    #[cfg(unix)]
    {
        let shop = shop();
        fixture.write("more/b.jsonl", shop.text);
        std::fs::create_dir_all(fixture.path("linked")).expect("a folder");
        std::fs::create_dir_all(fixture.path("elsewhere")).expect("a folder");
        std::os::unix::fs::symlink(fixture.path("elsewhere"), fixture.path("linked/-home-ada-code-shop"))
            .expect("a link");
        let run = fixture.run(["notes", "more", "--out", "linked"]).ended(2);
        assert!(run.stderr.contains("leads out of"), "{}", run.stderr);
        let strays = std::fs::read_dir(fixture.path("elsewhere")).expect("a folder").count();
        assert_eq!(strays, 0, "not even a folder is made there");
    }
}

#[test]
fn output_does_not_depend_on_threads_or_order() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    let mut other = TestSession::new("5e551011-0000-4000-8000-000000000002");
    other.user("explain how the coupon code works here");
    other.says("The `apply_coupon` function handles it and returns the rate.");
    fixture.write("logs/b.jsonl", other.text);
    let mut all = Vec::new();
    for (out, more) in [
        ("one", ["-j", "1", "logs/a.jsonl", "logs/b.jsonl"]),
        ("two", ["-j", "2", "logs/b.jsonl", "logs/a.jsonl"]),
    ] {
        let mut args = vec!["notes", "--out", out, "--summary", "--history", "-f", "csv"];
        args.extend(more);
        let run = fixture.run(args).success();
        let root = fixture.path(out);
        let files = notes_of(&fixture, out).into_iter();
        let files = files
            .map(|(path, text)| (path.strip_prefix(&root).expect("below").to_owned(), text))
            .collect::<Vec<_>>();
        all.push((run.stdout, files));
    }
    assert_eq!(all[0], all[1]);
}

#[test]
fn a_replay_puts_real_texts_into_boundaries_and_counts_what_they_lack() {
    let fixture = Fixture::new();
    let mut session = shop();
    for at in 0..30 {
        session.window += 3_000;
        session.calls(
            &format!("Let me change part {at}."),
            "Edit",
            json!({"file_path": format!("/home/ada/code/shop/src/part_{at}.rs"), "old_string": "a", "new_string": format!("fn part_number_{at}() {{}}")}),
            &"ok and a long result ".repeat(400),
            false,
        );
    }
    session.user("and now back to cart_total in src/cart.rs");
    session.says("I look at `cart_total` again.");
    fixture.write("logs/a.jsonl", session.text);
    for (policy, kind) in [
        ("notes.compact=true", "session-memory"),
        ("notes.compact=false", "full"),
    ] {
        let out = format!("out-{kind}");
        let args = [
            "replay",
            "logs",
            "--policy",
            "article",
            "--set",
            policy,
            "--set",
            "micro.cached.on=false",
            "--set",
            "window.tokens=100000",
            "--with-text",
            "--out",
            &out,
        ];
        fixture.run(args).success();
        let boundaries = std::fs::read_to_string(fixture.path(&out).join("boundaries.jsonl")).expect("boundaries");
        let first = serde_json::from_str::<Value>(boundaries.lines().next().expect("a boundary")).expect("JSON");
        assert_eq!(first["kind"], kind, "{first:#}");
        let text = &first["text"];
        assert_eq!(text["tokens"], first["summary_tokens"], "{first:#}");
        assert_eq!(text["prompts"], first["prompts_summarized"], "{first:#}");
        assert_eq!(text["prompts_lost"], json!(0), "{first:#}");
        let summary = std::fs::read_to_string(fixture.path(&out).join("summary.json")).expect("summary");
        let summary = serde_json::from_str::<Value>(&summary).expect("JSON");
        assert_eq!(summary["texts"]["boundaries"], json!(boundaries.lines().count()));
        assert!(
            summary["texts"]["needs"]["names"]["needed"].as_u64() > Some(0),
            "{summary:#}"
        );
    }
    let run = fixture
        .run(["replay", "logs", "--with-text", "--compare", "never"])
        .ended(2);
    assert!(run.stderr.contains("cannot be used with"), "{}", run.stderr);
}

/// Every sixth of the real logs, by name; all of them take minutes in a debug build.
fn some_real_logs() -> Option<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = vec![real_logs()?];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().contains(".jsonl") {
                files.push(path);
            }
        }
    }
    files.sort();
    Some(files.into_iter().step_by(6).collect())
}

#[test]
fn offline_summaries_carry_most_of_what_a_models_do() {
    let Some(files) = some_real_logs() else {
        eprintln!("skipped: no real logs in ../shared/transcripts");
        return;
    };
    let found = discover(&files, false).expect("logs");
    let run = Run::read(&found.logs, &ReadOptions::default());
    let (compared, _) = run.map_sessions(|view| {
        view.chains().first()?;
        let (conversation, _) = view.read_conversation(0);
        Some(compare_summaries(&conversation, &OfflineBackend))
    });
    let compared = compared.into_iter().flatten().flatten().collect::<Vec<_>>();
    assert!(compared.len() > 2, "{}", compared.len());
    for one in &compared {
        assert!(one.size <= one.budget, "{} of {}", one.size, one.budget);
    }
    let [recorded, offline] = mean_coverage(&compared).expect("something was needed");
    assert!(offline >= 0.8 * recorded, "{offline:.3} of {recorded:.3}");
}

#[test]
fn real_sessions_keep_limits_shape_and_every_message() {
    let Some(files) = some_real_logs() else {
        eprintln!("skipped: no real logs in ../shared/transcripts");
        return;
    };
    let fixture = Fixture::new();
    let files = files.iter().map(|path| path.to_str().expect("a path"));
    let args = [
        "notes",
        "--out",
        "notes",
        "--summary",
        "--to-end",
        "-f",
        "jsonl",
        "--quiet",
    ];
    let run = fixture.run(args.into_iter().chain(files)).success();
    let rows = String::from_utf8(run.stdout).expect("text");
    assert!(rows.lines().count() > 15);
    for (path, text) in notes_of(&fixture, "notes") {
        let name = path.display();
        assert!(
            secrets::find(&text).is_empty() || path.extension().is_some_and(|ending| ending == "json"),
            "{name}"
        );
        for noise in ["<system-reminder", "<command-name", "<local-command", "\u{1b}["] {
            assert!(!text.contains(noise), "{name}: {noise}");
        }
        if path.ends_with("compact.md") {
            assert!(size::tokens(&text) <= 20_000, "{name}");
            let titles = (1..=9)
                .filter(|number| text.contains(&format!("\n## {number}. ")))
                .count();
            assert_eq!(titles, 9, "{name}");
        } else if path.ends_with("summary.md") {
            assert!(NotesTemplate::built_in().has_same_sections(&text), "{name}");
            assert!(size::tokens(&text) <= 12_000, "{name}");
            for section in NotesTemplate::parse(&text).sections {
                let whole = format!("{}\n{}\n\n{}", section.heading, section.about, section.body);
                assert!(size::tokens(&whole) <= 2_000, "{name}: {}", section.heading);
            }
        }
    }
}
