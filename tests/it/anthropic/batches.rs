//! `--batch`: half the price, picked up by a later run, never sent twice.

use super::{KEY, extract, traces, write_many, write_session};
use crate::fixture::{Fixture, files_below};
use crate::mock::{INPUT, Mock, OUTPUT, Recorded, Reply};
use serde_json::{Value, json};

/// A batch on the server: in progress for some polls, then done.
struct Batch {
    looks: usize,
    results: fn(&str) -> Value,
}

fn batch_mock(batch: Batch) -> Mock {
    let names = std::sync::Mutex::new(Vec::<String>::new());
    let looks = std::sync::atomic::AtomicUsize::new(0);
    Mock::new(move |_, request| {
        let state = |status: &str| {
            // The client must not use this address: it could lead anywhere.
            Reply::json(
                &json!({"id": "msgbatch_01", "type": "message_batch", "processing_status": status,
                "request_counts": {"processing": 1, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0},
                "results_url": "http://169.254.0.1/steal"}),
            )
        };
        match (request.method.as_str(), request.path.as_str()) {
            ("POST", "/v1/messages/batches") => {
                let body = request.json();
                let requests = body["requests"].as_array().expect("requests");
                let ids = requests
                    .iter()
                    .map(|request| request["custom_id"].as_str().expect("an id").to_owned());
                *names.lock().expect("names") = ids.collect();
                state("in_progress")
            }
            ("GET", "/v1/messages/batches/msgbatch_01") => {
                let look = looks.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                state(if look < batch.looks { "in_progress" } else { "ended" })
            }
            ("GET", "/v1/messages/batches/msgbatch_01/results") => {
                let names = names.lock().expect("names");
                let mut lines = vec![
                    "no JSON".to_owned(),
                    json!({"custom_id": "../../x", "result": {"type": "succeeded"}}).to_string(),
                ];
                // In any order.
                for name in names.iter().rev() {
                    lines.push(json!({"custom_id": name, "result": (batch.results)(name)}).to_string());
                }
                Reply::raw(200, &[], &lines.join("\n"))
            }
            _ => Reply::error(404, "not_found_error", "no such thing", &[]),
        }
    })
}

pub fn succeeded(text: &str) -> Value {
    json!({"type": "succeeded", "message": {"content": [{"type": "text", "text": text}], "stop_reason": "end_turn",
        "usage": {"input_tokens": INPUT, "output_tokens": OUTPUT}}})
}

#[test]
fn a_batch_costs_half_and_gives_the_same_output() {
    let fixture = Fixture::new();
    write_many(&fixture, 3);
    let results = |_: &str| {
        succeeded(
            &json!({"memories": [{"type": "feedback", "title": "Shared branches", "hook": "When pushing",
            "text": "Never rewrite the history of shared branches.", "from": [1]}]})
            .to_string(),
        )
    };
    let mock = batch_mock(Batch { looks: 2, results });
    let run = extract(&fixture, &mock, &["--batch"]).success();
    let paths = mock
        .requests()
        .iter()
        .map(|request| format!("{} {}", request.method, request.path))
        .collect::<Vec<_>>();
    let look = "GET /v1/messages/batches/msgbatch_01";
    assert_eq!(
        paths,
        [
            "POST /v1/messages/batches",
            look,
            look,
            look,
            &format!("{look}/results")
        ]
    );
    let body = mock.requests()[0].json();
    assert_eq!(body["requests"].as_array().map(Vec::len), Some(3));
    assert!(body["requests"][0]["params"].get("stream").is_none());
    // Three answers of 0.0015 dollars, at half the price.
    assert!(
        run.stderr.contains("3 calls") && run.stderr.contains("$0.00225"),
        "{}",
        run.stderr
    );
    assert_eq!(run.stdout.split(|byte| *byte == b'\n').count(), 4, "{}", run.text());
    // Answers of a batch are in the cache for every run.
    let again = extract(&fixture, &mock, &[]).success();
    assert_eq!((again.stdout, mock.requests().len()), (run.stdout, 5));
    assert!(files_below(&fixture.path("cache/model/batches")).is_empty());
}

#[test]
fn an_unfinished_batch_is_picked_up_by_the_next_run() {
    let fixture = Fixture::new();
    write_many(&fixture, 2);
    let mock = batch_mock(Batch {
        looks: 1,
        results: |_| succeeded("{\"memories\": []}"),
    });
    let left = extract(&fixture, &mock, &["--batch", "--batch-wait=0"]).ended(2);
    assert!(
        left.stderr.contains("batch msgbatch_01 is not done yet"),
        "{}",
        left.stderr
    );
    assert_eq!(files_below(&fixture.path("cache/model/batches")).len(), 1);
    // The next run picks the batch up.
    let run = extract(&fixture, &mock, &["--batch"]).success();
    let sent = mock
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .count();
    assert_eq!(sent, 1, "nothing is sent twice");
    assert!(
        run.stderr.contains("0 calls") && run.stderr.contains("2 came from an earlier run's batch, $0.0015"),
        "{}",
        run.stderr
    );
    assert!(files_below(&fixture.path("cache/model/batches")).is_empty());
    assert!(!traces(&fixture, &run).contains(KEY));
}

#[test]
fn unanswered_requests_of_a_batch_are_reported_and_sent_again() {
    let fixture = Fixture::new();
    write_many(&fixture, 5);
    let results = |name: &str| match name.as_bytes()[0] % 4 {
        0 => json!({"type": "expired"}),
        1 => {
            json!({"type": "errored", "error": {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 210000 tokens > 200000 maximum"}}})
        }
        2 => json!({"type": "canceled"}),
        _ => succeeded("{\"memories\": []}"),
    };
    let mock = batch_mock(Batch { looks: 0, results });
    let run = extract(&fixture, &mock, &["--batch"]);
    let first = mock.requests()[0].json();
    let names = first["requests"].as_array().expect("requests").iter();
    let names = names
        .map(|request| request["custom_id"].as_str().expect("an id").to_owned())
        .collect::<Vec<_>>();
    let answered = names.iter().filter(|name| name.as_bytes()[0] % 4 == 3).count();
    assert_eq!(run.status, Some(if answered == 5 { 0 } else { 2 }), "{}", run.stderr);
    for (remainder, words) in [
        (0, "came back as expired"),
        (1, "too long by 10000 tokens"),
        (2, "came back as canceled"),
    ] {
        let is_there = names.iter().any(|name| name.as_bytes()[0] % 4 == remainder);
        assert_eq!(run.stderr.contains(words), is_there, "{}", run.stderr);
    }
    assert!(
        run.stderr.contains(
            &format!("$0.00{}", ["00", "075", "15", "225", "30", "375"][answered])
                .trim_end_matches('0')
                .to_owned()
        ),
        "{answered} {}",
        run.stderr
    );
    extract(&fixture, &mock, &["--batch"]);
    let second = mock
        .requests()
        .iter()
        .filter(|request| request.method == "POST")
        .nth(1)
        .map(Recorded::json);
    let sent = second.map_or(0, |body| body["requests"].as_array().map_or(0, Vec::len));
    assert_eq!(sent, 5 - answered, "only what is missing is sent again");
}

#[test]
fn a_batch_stays_within_the_budget_and_is_never_sent_twice() {
    let fixture = Fixture::new();
    write_many(&fixture, 6);
    // Each may cost 0.06 dollars in a batch: not all fit.
    let mock = batch_mock(Batch {
        looks: 0,
        results: |_| succeeded("{\"memories\": []}"),
    });
    let run = extract(&fixture, &mock, &["--batch", "--max-cost=0.33"]).ended(2);
    let sent = mock.requests()[0].json()["requests"].as_array().map_or(0, Vec::len);
    assert!((1..6).contains(&sent), "{sent}");
    assert!(run.stderr.contains("(--max-cost)"), "{}", run.stderr);
    // Whether the server took it is unknown: it is not sent again.
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![Reply::Nothing]);
    extract(&fixture, &mock, &["--batch"]).ended(2);
    assert_eq!(mock.requests().len(), 1);
    // The server certainly did not take it: it is sent again.
    let busy = Reply::error(529, "overloaded_error", "busy", &[]);
    let mock = Mock::script(vec![
        busy.clone(),
        busy,
        Reply::error(400, "invalid_request_error", "no", &[]),
    ]);
    extract(&fixture, &mock, &["--batch"]).ended(2);
    assert_eq!(mock.requests().len(), 3);
    // An id that is a path is not accepted.
    let mock = Mock::script(vec![Reply::json(
        &json!({"id": "../../../files", "processing_status": "in_progress"}),
    )]);
    let run = extract(&fixture, &mock, &["--batch"]).ended(2);
    assert!(run.stderr.contains("gave it no id"), "{}", run.stderr);
    assert_eq!(mock.requests().len(), 1);
}
