//! Estimates, limits on cost and calls, calls in parallel, runs that resume.

use super::{EXTRACT, extract, model, write_many};
use crate::fixture::Fixture;
use crate::mock::{INPUT, Mock, OUTPUT, Recorded, Reply, events};
use serde_json::json;
use std::time::Duration;

#[test]
fn an_estimate_sends_nothing() {
    let fixture = Fixture::new();
    write_many(&fixture, 3);
    let mock = Mock::new(|_, _| Reply::json(&json!({"input_tokens": 1_234})));
    let args = EXTRACT.iter().map(|arg| (*arg).to_owned()).chain(model(&mock));
    let args = args.chain(["--estimate".to_owned()]).collect::<Vec<_>>();
    // Not even a key is needed.
    let text = fixture.run(&args).success();
    assert_eq!(mock.requests().len(), 0);
    assert!(text.text().contains("calls            3"), "{}", text.text());
    let json = |more: &[&str]| {
        extract(&fixture, &mock, &[&["--estimate=json"], more].concat())
            .success()
            .json()
    };
    let value = json(&[]);
    assert_eq!(
        (&value["schema_version"], &value["calls"], &value["known_answers"]),
        (&json!(1), &json!(3), &json!(0))
    );
    let (full, half) = (
        value["max_cost_micro_usd"].as_u64(),
        value["max_cost_batch_micro_usd"].as_u64(),
    );
    assert_eq!(full.map(|full| full.div_ceil(2)), half);
    assert!(
        value["input_tokens"]
            .as_u64()
            .is_some_and(|tokens| (50_000..200_000).contains(&tokens)),
        "{value}"
    );
    assert_eq!(mock.requests().len(), 0);
    // Counting tokens is a request, but not a call of the model.
    let counted = json(&["--count-tokens"]);
    assert_eq!(
        (&counted["input_tokens"], &counted["input_tokens_from"]),
        (&json!(3 * 1_234), &json!("server"))
    );
    assert_eq!((mock.requests().len(), mock.calls()), (3, 0));
    assert!(
        mock.requests()
            .iter()
            .all(|request| request.path == "/v1/messages/count_tokens" && request.json().get("max_tokens").is_none())
    );
    // Three times 1,234 tokens written to the cache, and all of the output.
    let output = counted["max_output_tokens"].as_u64().expect("a number");
    assert_eq!(
        counted["max_cost_micro_usd"].as_u64(),
        Some((3 * 1_234 * 125_u64).div_ceil(100) + output * 5)
    );
}

#[test]
fn the_budget_is_never_exceeded() {
    let fixture = Fixture::new();
    write_many(&fixture, 12);
    for at_once in ["--at-once=1", "--at-once=8"] {
        let mock = Mock::new(|_, _| Reply::after(Duration::from_millis(30), Reply::says("{\"memories\": []}")));
        // A request has about 47,000 bytes, so it may cost 0.06 dollars for its input and 0.06 for its output.
        let run = extract(&fixture, &mock, &["--max-cost=0.5", at_once, "--no-answers"]);
        let spent = mock.calls() as u64 * (INPUT + 5 * OUTPUT);
        assert!(spent <= 500_000, "{spent}");
        assert_eq!(
            (run.status, mock.calls()),
            (Some(0), 12),
            "what is held and not used comes free: {}",
            run.stderr
        );

        let mock = Mock::new(|_, _| {
            let dear =
                events("{\"memories\": []}", "end_turn").replace("\"input_tokens\":1000", "\"input_tokens\":40000");
            Reply::after(Duration::from_millis(30), Reply::streams(&dear))
        });
        let run = extract(&fixture, &mock, &["--max-cost=0.25", at_once, "--no-answers"]).ended(2);
        let spent = mock.calls() as u64 * (40_000 + 5 * OUTPUT);
        assert!(spent <= 250_000 && mock.calls() >= 2, "{spent} with {at_once}");
        assert!(run.stderr.contains("(--max-cost)"), "{}", run.stderr);

        let mock = Mock::new(|_, _| Reply::after(Duration::from_millis(30), Reply::says("{\"memories\": []}")));
        extract(&fixture, &mock, &["--max-calls=5", at_once, "--no-answers"]).ended(2);
        assert_eq!(mock.calls(), 5);
        let mock = Mock::new(|_, _| Reply::says("{\"memories\": []}"));
        extract(&fixture, &mock, &["--max-tokens=1000", at_once, "--no-answers"]).ended(2);
        assert_eq!(mock.requests().len(), 0, "what might be too much is not sent");
    }
}

#[test]
fn parallel_calls_give_the_same_output() {
    let fixture = Fixture::new();
    write_many(&fixture, 8);
    let answer = |request: &Recorded| {
        let text = request.text();
        let at = text.find("of session ").expect("a session") + "of session ".len();
        let number = &text[at..at + 1];
        let memory = json!({"type": "feedback", "title": format!("Shared branches {number}"), "hook": "When pushing",
            "text": format!("Never rewrite the history of shared branches, because others build on them {number}."), "from": [1]});
        json!({"memories": [memory]}).to_string()
    };
    let mock = Mock::new(move |at, request| {
        let wait = Duration::from_millis(if at % 2 == 0 { 120 } else { 60 });
        Reply::after(wait, Reply::says(&answer(request)))
    });
    let one = extract(&fixture, &mock, &["--at-once=1", "--no-answers"]).success();
    assert_eq!(mock.most_at_once(), 1);
    let many = extract(&fixture, &mock, &["--at-once=4", "--no-answers"]).success();
    assert_eq!(many.stdout, one.stdout);
    assert_eq!(one.stdout.split(|byte| *byte == b'\n').count(), 9);
    assert!((2..=4).contains(&mock.most_at_once()), "{}", mock.most_at_once());
}

#[test]
fn a_failed_run_resumes_with_the_missing_answers() {
    let fixture = Fixture::new();
    write_many(&fixture, 5);
    let mock = Mock::new(|at, _| match at {
        2 => Reply::error(400, "invalid_request_error", "not this one", &[]),
        _ => Reply::says("{\"memories\": []}"),
    });
    let run = extract(&fixture, &mock, &["--at-once=1"]).ended(2);
    assert!(run.stderr.contains("1 of 5: the server answered 400"), "{}", run.stderr);
    assert_eq!(mock.calls(), 5, "the others are asked all the same");
    extract(&fixture, &mock, &["--at-once=1"]).success();
    assert_eq!(mock.calls(), 6);
}
