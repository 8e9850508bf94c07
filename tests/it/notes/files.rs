//! The files of `notes`: continued, kept when a person changed them, and never outside the folder.

use super::{TestSession, find, notes_of, session_file, shop};
use crate::fixture::Fixture;
use notes::template::NotesTemplate;
use serde_json::{Value, json};
use std::path::Path;

#[test]
fn options_without_effect_are_refused() {
    let fixture = Fixture::new();
    fixture.write("logs/a.jsonl", shop().text);
    for (option, words) in [
        ("--instructions=mind the receipts", "add --summary"),
        (
            "--backend-model=claude-haiku-4-5",
            "--backend-model: the offline backend",
        ),
        ("--max-cost=1", "--max-cost: the offline backend"),
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
fn notes_are_continued_and_keep_what_a_person_wrote() {
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
    // A person adds a line, deletes one, and the session goes on.
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

#[test]
fn the_page_is_replaced_without_force() {
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
    // Other pages are kept, even with --force: a page of another command, a page of other origin.
    fixture.run(["replay", "logs", "--html", "replay.html"]).success();
    fixture.write("mine.html", "<title>notes</title>\n");
    for name in ["replay.html", "mine.html"] {
        let before = std::fs::read(fixture.path(name)).expect("a page");
        let run = fixture
            .run(["notes", "logs", "--out", "notes", "--html", name, "--force"])
            .ended(2);
        assert!(run.stderr.contains("is not a page of notes"), "{}", run.stderr);
        assert_eq!(std::fs::read(fixture.path(name)).expect("a page"), before);
    }
    assert!(std::fs::read_to_string(&notes).expect("notes").contains("Ada owns"));
}

#[test]
fn a_summary_that_a_person_changed_is_kept() {
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
    // Unchanged since it was written, it is replaced.
    session.user("now print the receipt in two columns");
    session.says("The receipt has two columns now.");
    fixture.write("logs/a.jsonl", &session.text);
    let run = fixture.run(args).success();
    assert!(!run.stderr.contains("text-kept"), "{}", run.stderr);
    assert!(read(&summary).contains("two columns") && read(&summary) != first);
    // Changed by a person, it is kept until --force.
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
    // A summary of other origin is kept, too, and so are notes that are not text.
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
fn history_has_one_file_per_update_and_keeps_the_template() {
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
