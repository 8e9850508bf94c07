//! The text of notes and summaries.

use super::{SECRET, TestSession, find, notes_of, section, shop};
use crate::fixture::{Fixture, case, files_below};
use notes::template::NotesTemplate;
use serde_json::{Value, json};

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
    assert!(files.ends_with("- `src/cart.rs` (changed): `cart_total`"), "{files}");
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

/// The question tool without a result: it is what the session waits for, not the request before it.
#[test]
fn a_question_that_waits_for_the_user_stands_first() {
    let fixture = Fixture::new();
    let mut session = shop();
    session.user("commit it");
    let question = json!({"question": "The hook failed. Commit without it?", "options": [{"label": "Yes, skip it"}, {"label": "No"}]});
    session.assistant(
        json!([{"type": "tool_use", "id": "toolu_ask", "name": "AskUserQuestion", "input": {"questions": [question]}}]),
    );
    fixture.write("logs/a.jsonl", session.text);
    fixture.run(["notes", "logs", "--out", "notes", "--summary"]).success();
    let found = notes_of(&fixture, "notes");
    let waiting =
        "- Waiting for an answer to \"The hook failed. Commit without it?\" (options: \"Yes, skip it\", \"No\")";
    for file in ["summary.md", "compact.md"] {
        let text = find(&found, file);
        assert!(text.contains(waiting), "{text}");
        assert!(!text.contains("Asked and not answered"), "{text}");
        assert!(!text.contains("- The user said last"), "{text}");
    }
}

/// An answer in the user's own words is a decision, whatever the client writes around it; an answered prompt is no next step.
#[test]
fn answers_in_the_users_own_words_are_decisions() {
    let fixture = Fixture::new();
    let mut session = TestSession::new("5e551011-0000-4000-8000-000000000003");
    session.user("Please redesign the start page of the shop");
    session.calls(
        "There is one thing to decide.",
        "AskUserQuestion",
        json!({"questions": [{"question": "Which picture?", "options": [{"label": "The new one"}, {"label": "None"}]}]}),
        "The user answered: \"Which picture?\"=\"That is not the default one. Keep the old one for now.\". Read the answers carefully — they may ask back.",
        false,
    );
    session.calls(
        "I keep it.",
        "Edit",
        json!({"file_path": "/home/ada/code/shop/start.html", "old_string": "a", "new_string": "b"}),
        "The file has been updated.",
        false,
    );
    session.says("The start page has the new layout and the old picture.");
    fixture.write("logs/a.jsonl", session.text);
    fixture.run(["notes", "logs", "--out", "notes", "--summary"]).success();
    let found = notes_of(&fixture, "notes");
    let text = find(&found, "summary.md");
    assert!(
        text.contains("- Decided: Which picture?: \"That is not the default one. Keep the old one for now.\""),
        "{text}"
    );
    assert!(text.contains("- Next: nothing is open; wait for the user"), "{text}");
    let summary = find(&found, "compact.md");
    let next = summary.split("## 9.").nth(1).expect("the last section");
    assert!(next.contains("nothing is open") && !next.contains("redesign"), "{next}");
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
fn a_part_is_summarized_from_or_up_to_a_message() {
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
        run.stderr.contains("no session contains the message no-such"),
        "{}",
        run.stderr
    );
}

/// A line of thinking names its response, a system record the message next to it; the error for a record outside the main
/// conversation says where the record is.
#[test]
fn every_record_of_the_conversation_can_name_a_message() {
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
fn a_replay_writes_summaries_at_boundaries_and_counts_what_they_lack() {
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
