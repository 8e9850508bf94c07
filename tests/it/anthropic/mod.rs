//! `--backend anthropic` against a server on this machine: requests, retries, costs, and the handling of every kind of answer.
//!
//! Helpers of all these tests are here: a session with one lasting instruction, a good answer, and the command line.

mod answers;
mod batches;
mod budget;
mod memory;
mod notes;
mod secrecy;
mod transport;

use crate::fixture::{Fixture, Run, files_below};
use crate::mock::{Mock, Reply};
use serde_json::{Value, json};

/// Not a form that masking knows, so only the rule for keys can keep it out of outputs.
const KEY: &str = "opensesame-4711";

fn record(kind: &str, session: &str, at: u32, content: &Value) -> String {
    json!({
        "parentUuid": null, "isSidechain": false, "userType": "external", "cwd": "/w", "sessionId": session,
        "version": "2.1.50", "type": kind, "message": {"role": kind, "content": content},
        "uuid": format!("{session}-{at}"), "timestamp": format!("2026-03-04T10:{at:02}:00.000Z"),
    })
    .to_string()
        + "\n"
}

fn user(session: &str, at: u32, text: &str) -> String {
    record("user", session, at, &json!(text))
}

/// Writes a session with one lasting instruction.
fn write_session(fixture: &Fixture) {
    let log = user("a", 1, "please mend the importer")
        + &user(
            "a",
            2,
            "Never rewrite the history of shared branches, because others build on them.",
        );
    fixture.write("logs/a.jsonl", log);
}

/// Writes sessions so long that each needs a request of its own.
fn write_many(fixture: &Fixture, count: usize) {
    for session in 0..count {
        let name = format!("s{session}");
        let mut log = user(
            &name,
            0,
            "Never rewrite the history of shared branches, because others build on them.",
        );
        for at in 1..12 {
            let text = format!(
                "message {at} of session {session}: {}",
                "some words that fill the page ".repeat(130)
            );
            log += &user(&name, at, &text);
        }
        fixture.write(&format!("logs/{name}.jsonl"), log);
    }
}

/// Returns an answer that finds the instruction of [`write_session`].
fn good() -> String {
    let memory = json!({"type": "feedback", "title": "Never rewrite shared history", "hook": "When pushing: never rewrite shared branches",
        "text": "Never rewrite the history of shared branches.", "why": "Others build on them.", "from": [2]});
    format!("<scratch>message 2</scratch>\n{}", json!({"memories": [memory]}))
}

/// Returns the options for requests to the server.
fn model(mock: &Mock) -> Vec<String> {
    let url = mock.url();
    [
        "--backend=anthropic",
        "--base-url",
        &url,
        "--retry-wait=0.01",
        "--batch-poll=0.01",
        "--backend-model=claude-haiku-4-5",
    ]
    .map(str::to_owned)
    .to_vec()
}

fn run(fixture: &Fixture, mock: &Mock, verb: &[&str], more: &[&str]) -> Run {
    let args = verb.iter().map(|arg| (*arg).to_owned()).chain(model(mock));
    let args = args.chain(more.iter().map(|arg| (*arg).to_owned()));
    let mut command = fixture.command(args);
    command.env("ANTHROPIC_API_KEY", KEY).env("RUST_BACKTRACE", "1");
    Run::of(command)
}

const EXTRACT: [&str; 5] = ["memory", "extract", "logs", "--dry-run", "-fjsonl"];

fn extract(fixture: &Fixture, mock: &Mock, more: &[&str]) -> Run {
    run(fixture, mock, &EXTRACT, more)
}

/// Returns all text that a run printed or wrote.
fn traces(fixture: &Fixture, run: &Run) -> String {
    let mut text = String::from_utf8_lossy(&run.stdout).into_owned() + &run.stderr;
    for file in files_below(&fixture.path("")) {
        if !file.starts_with("logs") {
            text.push_str(&String::from_utf8_lossy(
                &std::fs::read(fixture.path(file)).expect("a file"),
            ));
        }
    }
    text
}

#[test]
fn an_answer_becomes_memories_and_a_second_run_sends_no_request() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![Reply::says(&good())]);
    let first = extract(&fixture, &mock, &[]).success();
    let found: Value = serde_json::from_slice(&first.stdout).expect("one memory");
    assert_eq!(found["title"], "Never rewrite shared history");
    assert_eq!(found["sources"][0]["uuid"], "a-2");
    assert!(first.stderr.contains("1 call, 1,000 tokens in"), "{}", first.stderr);
    // 1,000 tokens at a dollar and 100 at five dollars per million.
    assert!(first.stderr.contains("$0.0015"), "{}", first.stderr);

    let requests = mock.requests();
    assert_eq!(requests.len(), 1);
    let request = &requests[0];
    assert_eq!(
        (request.method.as_str(), request.path.as_str()),
        ("POST", "/v1/messages")
    );
    assert_eq!(request.header("x-api-key"), Some(KEY));
    assert_eq!(request.header("anthropic-version"), Some("2023-06-01"));
    let body = request.json();
    assert_eq!(
        (&body["stream"], &body["model"]),
        (&json!(true), &json!("claude-haiku-4-5"))
    );
    assert!(body.get("tools").is_none() && body["max_tokens"].as_u64().is_some_and(|most| most <= 64_000));
    assert_eq!(body["system"][0]["cache_control"]["type"], "ephemeral");
    let text = request.text();
    let rule = text.find("You have no tools").expect("said at the start");
    let data = text.find("Never rewrite the history").expect("the data");
    let again = text.rfind("no tools, only text").expect("said at the end");
    assert!(rule < data && data < again);

    let second = extract(&fixture, &mock, &[]).success();
    assert_eq!(second.stdout, first.stdout);
    assert_eq!(mock.calls(), 1);
    assert!(
        second.stderr.contains("0 calls") && second.stderr.contains("1 answer was known"),
        "{}",
        second.stderr
    );
    // Without the cache of answers the request is sent again.
    let third = extract(&fixture, &mock, &["--no-answers"]);
    assert_eq!((third.status, mock.calls()), (Some(2), 2));
}

#[test]
fn memories_are_stored_as_offline_and_known_ones_do_not_change_the_prompt() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![Reply::says(&good())]);
    let verb = ["memory", "extract", "logs", "--dir", "mem"];
    run(&fixture, &mock, &verb, &[]).success();
    let before = files_below(&fixture.path("mem"));
    assert!(
        before
            .iter()
            .any(|file| file.ends_with("feedback_never_rewrite_shared_history.md")),
        "{before:?}"
    );
    let again = run(&fixture, &mock, &verb, &[]).success();
    assert!(again.stderr.contains("nothing to do"), "{}", again.stderr);
    assert_eq!(mock.calls(), 1);
    // The same path as offline: it can be undone.
    fixture.run(["memory", "undo", "--dir", "mem"]).success();
    assert!(!fixture.path("mem/feedback_never_rewrite_shared_history.md").exists());
}
