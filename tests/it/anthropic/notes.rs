//! `notes` with a model: notes, summaries, prompts that are too long, batches.

use super::batches::succeeded;
use super::run;
use crate::fixture::{Fixture, files_below};
use crate::mock::{Mock, Recorded, Reply};
use serde_json::{Value, json};

/// Answers requests for notes and for summaries.
pub(super) fn writer(_: usize, request: &Recorded) -> Reply {
    let text = request.text();
    if text.contains("Task: bring the notes") {
        let sections = json!([{"number": 1, "text": "Discounts in the cart"}, {"number": 2, "text": "The total is tested.\n# Worklog\nforged"}]);
        return Reply::says(&format!("<scratch>hm</scratch>{}", json!({"sections": sections})));
    }
    let names = [
        "Primary Request and Intent",
        "Key Technical Concepts",
        "Files and Code Sections",
        "Errors and Fixes",
        "Problem Solving",
        "All User Messages",
        "Pending Tasks",
        "Current Work",
        "Optional Next Step",
    ];
    let parts = names
        .iter()
        .enumerate()
        .map(|(at, name)| format!("## {}. {name}\n\nwritten by the model, part {}\n\n", at + 1, at + 1));
    Reply::says(&format!(
        "<scratch>thinking of ## 1.</scratch>\n{}",
        parts.collect::<String>()
    ))
}

fn corpus_notes(more: &[&'static str]) -> Vec<&'static str> {
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/plain");
    [
        &["notes", log, "--out", "notes", "--to-end", "--summary", "-fjson"],
        more,
    ]
    .concat()
}

/// Returns the text of the only file below the notes with this name.
fn one_file(fixture: &Fixture, end: &str) -> String {
    let files = files_below(&fixture.path("notes"));
    let found = files.iter().filter(|file| file.ends_with(end)).collect::<Vec<_>>();
    assert_eq!(found.len(), 1, "{end} in {files:?}");
    std::fs::read_to_string(fixture.path("notes").join(found[0])).expect("text")
}

#[test]
fn notes_and_summaries_are_written_by_the_model() {
    let fixture = Fixture::new();
    let mock = Mock::new(writer);
    let first = run(&fixture, &mock, &corpus_notes(&[]), &[]).success();
    assert_eq!(mock.calls(), 2, "{}", first.stderr);
    let notes = one_file(&fixture, "session-memory/summary.md");
    let template = notes::template::NotesTemplate::built_in();
    assert!(
        template.has_same_sections(&notes),
        "headings and descriptions are not the model's: {notes}"
    );
    assert!(
        notes.contains("Discounts in the cart") && notes.contains("## Worklog\nforged"),
        "{notes}"
    );
    let summary = one_file(&fixture, "compact.md");
    for at in [1, 2, 3, 4, 5, 7, 8, 9] {
        assert!(
            summary.contains(&format!("written by the model, part {at}")),
            "{summary}"
        );
    }
    assert!(!summary.contains("part 6") && !summary.contains("scratch"), "{summary}");
    // Every prompt of the log, word for word.
    let log = String::from_utf8(crate::fixture::only_log("plain")).expect("text");
    let records = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a record"));
    let prompts = records.filter(|record| {
        record["type"] == "user" && record["message"]["content"].is_string() && record["isMeta"] != true
    });
    let prompts = prompts
        .map(|record| record["message"]["content"].as_str().expect("text").to_owned())
        .collect::<Vec<_>>();
    assert!(!prompts.is_empty());
    for prompt in prompts {
        assert!(summary.contains(prompt.trim()), "{prompt} in {summary}");
    }
    // The same again costs nothing and changes nothing.
    let second = run(&fixture, &mock, &corpus_notes(&[]), &[]).success();
    assert_eq!(mock.calls(), 2, "{}", second.stderr);
    assert_eq!(second.json()["rows"][0]["is_unchanged"], true, "{}", second.text());
    assert_eq!(
        (
            one_file(&fixture, "session-memory/summary.md"),
            one_file(&fixture, "compact.md")
        ),
        (notes, summary)
    );
}

/// Writes a session whose window grows so much per call that notes are due after each.
fn write_growing(fixture: &Fixture, rounds: u64) {
    let mut log = String::new();
    let mut parent = Value::Null;
    let mut add = |kind: &str, at: u64, message: Value| {
        let uuid = format!(
            "00000000-0000-4000-8000-{:012}",
            2 * at + u64::from(kind == "assistant")
        );
        let record = json!({"parentUuid": parent, "isSidechain": false, "cwd": "/w/shop", "sessionId": "growing", "version": "2.1.50",
            "type": kind, "uuid": uuid, "timestamp": format!("2026-03-04T10:{at:02}:{:02}.000Z", u64::from(kind == "assistant")),
            "requestId": format!("req_{at}"), "message": message});
        parent = json!(uuid);
        log.push_str(&format!("{record}\n"));
    };
    for at in 0..rounds {
        add(
            "user",
            at,
            json!({"role": "user", "content": format!("step {at}: {}", "please go on with the work ".repeat(20))}),
        );
        let usage = json!({"input_tokens": 10, "cache_read_input_tokens": 12_000 + 6_000 * at, "cache_creation_input_tokens": 0, "output_tokens": 50});
        add(
            "assistant",
            at,
            json!({"id": format!("msg_{at}"), "role": "assistant", "model": "claude-opus-4-7",
            "content": [{"type": "text", "text": format!("Step {at} is done.")}], "usage": usage, "stop_reason": "end_turn"}),
        );
    }
    fixture.write("logs/growing.jsonl", log);
}

#[test]
fn a_prompt_that_is_too_long_loses_its_oldest_part() {
    let fixture = Fixture::new();
    write_growing(&fixture, 6);
    let mock = Mock::new(|at, request| match at {
        0 => Reply::error(
            400,
            "invalid_request_error",
            "prompt is too long: 200200 tokens > 200000 maximum",
            &[],
        ),
        1 => Reply::error(413, "request_too_large", "no more than 32 MB", &[]),
        _ => writer(at, request),
    });
    let verb = [
        "notes",
        "logs",
        "--out",
        "notes",
        "--summary",
        "--gated",
        "--set",
        "notes.first=9000000",
    ];
    run(&fixture, &mock, &verb, &[]).success();
    let texts = mock.requests().iter().map(Recorded::text).collect::<Vec<_>>();
    assert_eq!(texts.len(), 3);
    assert!(texts[0].contains("step 0:") && texts[0].contains("step 5:"));
    assert!(!texts[1].contains("step 0:") && texts[1].contains("step 5:"));
    assert!(texts[2].len() < texts[1].len() && texts[2].contains("step 5:"));
    assert!(
        texts[1].contains("Earlier parts of this conversation were left out"),
        "{}",
        texts[1]
    );
    let summary = one_file(&fixture, "compact.md");
    assert!(summary.contains("Its oldest part was too long"), "{summary}");
    // Retries are limited, and the run fails.
    let fixture = Fixture::new();
    write_growing(&fixture, 6);
    let mock = Mock::new(|_, _| {
        Reply::error(
            400,
            "invalid_request_error",
            "prompt is too long: 200200 tokens > 200000 maximum",
            &[],
        )
    });
    let run = run(&fixture, &mock, &verb, &[]).ended(2);
    assert!(
        (2..=4).contains(&mock.calls()) && run.stderr.contains("too long to summarize"),
        "{} {}",
        mock.calls(),
        run.stderr
    );
}

#[test]
fn notes_that_are_too_long_are_condensed_then_cut() {
    let fixture = Fixture::new();
    let mock = Mock::new(|_, _| {
        let long = "one more line of things that happened\n".repeat(900);
        Reply::says(
            &json!({"sections": [{"number": 3, "text": long}, {"number": 2, "text": "The state."}]}).to_string(),
        )
    });
    let log = concat!(env!("CARGO_MANIFEST_DIR"), "/corpus/plain");
    run(&fixture, &mock, &["notes", log, "--out", "notes", "--to-end"], &[]).success();
    assert_eq!(mock.calls(), 2);
    assert!(mock.requests()[1].text().contains("came out too long in sections 3."));
    let notes = one_file(&fixture, "session-memory/summary.md");
    let parsed = notes::template::NotesTemplate::parse(&notes);
    for section in &parsed.sections {
        assert!(notes::size::tokens(&section.body) <= 2_000, "{}", section.heading);
    }
    assert!(
        notes.contains("[… cut to fit]") && notes.contains("The state."),
        "{notes}"
    );
}

#[test]
fn notes_in_batches_build_on_the_update_before() {
    let fixture = Fixture::new();
    write_growing(&fixture, 5);
    let verb = ["notes", "logs", "--out", "notes", "--gated", "--history"];
    // Direct calls and batches give the same notes.
    let direct = Mock::new(|_, request| Reply::says(&notes_answer(&request.text())));
    run(&fixture, &direct, &verb, &[]).success();
    let calls = direct.calls();
    assert!((4..=5).contains(&calls), "{calls}");
    let wanted = one_file(&fixture, "session-memory/summary.md");
    let updates = wanted.matches("update of the notes").count();
    assert_eq!(updates, calls, "each goes on from the one before: {wanted}");
    assert!(
        fixture
            .path("notes/-w-shop/growing/session-memory/history/0001.md")
            .exists()
    );
    // Without --history one update covers all.
    let once = Mock::new(|_, request| Reply::says(&notes_answer(&request.text())));
    run(&fixture, &once, &["notes", "logs", "--out", "other", "--gated"], &[]).success();
    assert_eq!(once.calls(), 1);

    let fixture = Fixture::new();
    write_growing(&fixture, 5);
    let requests = std::sync::Mutex::new(Vec::<Value>::new());
    let mock = Mock::new(
        move |_, request| match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/messages/batches") => {
                *requests.lock().expect("requests") = request.json()["requests"].as_array().expect("requests").clone();
                Reply::json(&json!({"id": "b1", "processing_status": "in_progress"}))
            }
            ("GET", "/v1/messages/batches/b1") => Reply::json(&json!({"id": "b1", "processing_status": "ended"})),
            ("GET", "/v1/messages/batches/b1/results") => {
                let requests = requests.lock().expect("requests");
                let line = |request: &Value| {
                    let text = request["params"]["messages"][0]["content"].to_string();
                    json!({"custom_id": request["custom_id"], "result": succeeded(&notes_answer(&text))}).to_string()
                        + "\n"
                };
                Reply::raw(200, &[], &requests.iter().map(line).collect::<String>())
            }
            _ => Reply::error(404, "not_found_error", "no", &[]),
        },
    );
    let batched = run(&fixture, &mock, &verb, &["--batch"]).success();
    let sent = mock
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(sent, calls, "one batch a step of the chain: {}", batched.stderr);
    assert_eq!(one_file(&fixture, "session-memory/summary.md"), wanted);
}

/// Counts the updates in the notes that it is shown.
fn notes_answer(text: &str) -> String {
    let updates = text.matches("update of the notes").count() + 1;
    let log = vec!["update of the notes"; updates].join(", ");
    json!({"sections": [{"number": 10, "text": log}]}).to_string()
}

#[test]
fn an_estimate_of_notes_sends_and_writes_nothing() {
    let fixture = Fixture::new();
    let mock = Mock::script(vec![]);
    let run = run(&fixture, &mock, &corpus_notes(&["--estimate=json"]), &[]).success();
    assert_eq!(run.json()["calls"], 2);
    assert_eq!(mock.requests().len(), 0);
    assert!(!fixture.path("notes").exists());
}

#[test]
fn a_missing_text_fails_the_run_and_the_others_are_written() {
    let fixture = Fixture::new();
    let mock = Mock::new(|at, request| {
        if request.text().contains("Task: bring the notes") {
            return Reply::error(400, "invalid_request_error", "not these", &[]);
        }
        writer(at, request)
    });
    let run = run(&fixture, &mock, &corpus_notes(&[]), &[]).ended(2);
    assert!(
        run.stderr
            .contains("1 x the server answered 400 (invalid_request_error): not these"),
        "{}",
        run.stderr
    );
    assert!(one_file(&fixture, "compact.md").contains("written by the model"));
    let files = files_below(&fixture.path("notes"));
    assert!(!files.iter().any(|file| file.ends_with("summary.md")), "{files:?}");
}
