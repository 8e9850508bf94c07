//! HTTP: retries, redirects, timeouts, streams that break off, answers that are too large.

use super::{EXTRACT, KEY, extract, good, write_many, write_session};
use crate::fixture::{Fixture, Run};
use crate::mock::{Mock, Reply, events};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn busy_servers_are_retried() {
    for (status, kind) in [
        (429, "rate_limit_error"),
        (529, "overloaded_error"),
        (500, "api_error"),
        (503, "unavailable"),
    ] {
        let fixture = Fixture::new();
        write_session(&fixture);
        let busy = Reply::error(status, kind, "come back later", &[("retry-after", "0")]);
        let mock = Mock::script(vec![busy.clone(), busy, Reply::says(&good())]);
        let run = extract(&fixture, &mock, &[]).success();
        assert_eq!(mock.calls(), 3, "{status}");
        // Rejected requests cost nothing.
        assert!(
            run.stderr.contains("3 calls, 1,000 tokens in") && run.stderr.contains("$0.0015"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains(&format!(
            "the server answered {status} ({kind}): come back later; trying again"
        )));
    }
}

#[test]
fn retry_after_is_honored_and_a_long_one_ends_the_run() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let busy = Reply::error(429, "rate_limit_error", "slow down", &[("retry-after", "1")]);
    let mock = Mock::script(vec![busy, Reply::says(&good())]);
    let started = Instant::now();
    extract(&fixture, &mock, &[]).success();
    assert!(
        started.elapsed() >= Duration::from_secs(1),
        "the header says a second, the option a hundredth"
    );
    assert_eq!(mock.calls(), 2);

    let fixture = Fixture::new();
    write_session(&fixture);
    let busy = Reply::error(429, "rate_limit_error", "tomorrow", &[("retry-after", "80000")]);
    let mock = Mock::script(vec![busy]);
    let run = extract(&fixture, &mock, &[]).ended(2);
    assert!(run.stderr.contains("tomorrow"), "{}", run.stderr);
    assert_eq!(mock.calls(), 1);
}

#[test]
fn retries_are_counted_and_limited() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::new(|_, _| Reply::error(529, "overloaded_error", "busy", &[]));
    extract(&fixture, &mock, &["--retries=3"]).ended(2);
    assert_eq!(mock.calls(), 4);
    extract(&fixture, &mock, &["--retries=9", "--max-calls=2"]).ended(2);
    assert_eq!(mock.calls(), 6, "a cap on calls counts tries too");
}

#[test]
fn permanent_errors_are_not_retried() {
    for (status, kind) in [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
    ] {
        let fixture = Fixture::new();
        write_session(&fixture);
        let message = format!("no good: {KEY}");
        let mock = Mock::script(vec![Reply::error(status, kind, &message, &[])]);
        let run = extract(&fixture, &mock, &["-vvv"]).ended(2);
        assert_eq!(mock.requests().len(), 1, "{status}");
        assert!(
            run.stderr.contains(&format!("{status} ({kind}): no good: [key]")),
            "{}",
            run.stderr
        );
        assert!(run.stdout.is_empty());
    }
}

#[test]
fn a_wrong_key_stops_all_requests() {
    let fixture = Fixture::new();
    write_many(&fixture, 6);
    let mock = Mock::new(|_, _| Reply::error(401, "authentication_error", "bad key", &[]));
    extract(&fixture, &mock, &["--at-once=1"]).ended(2);
    assert_eq!(mock.requests().len(), 1);
}

#[test]
fn a_redirect_is_not_followed_and_does_not_get_the_key() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let thief = Mock::new(|_, _| Reply::says(&good()));
    let target = format!("{}/v1/messages", thief.url());
    for status in [301, 302, 307, 308] {
        let mock = Mock::script(vec![Reply::raw(status, &[("location", &target)], "")]);
        let run = extract(&fixture, &mock, &[]).ended(2);
        assert_eq!((mock.requests().len(), thief.requests().len()), (1, 0), "{status}");
        assert!(run.stderr.contains("points to another place"), "{}", run.stderr);
    }
}

#[test]
fn a_stream_that_is_cut_off_is_retried_and_charged() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let whole = events(&good(), "end_turn");
    let half = &whole[..whole.len() / 2];
    let error = format!(
        "{}\n\nevent: error\ndata: {}\n\n",
        half.rsplit_once("\n\n").expect("events").0,
        json!({"type": "error", "error": {"type": "overloaded_error", "message": "x"}})
    );
    let chunked = format!(
        "HTTP/1.1 200 X\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{half}\r\nff",
        half.len()
    );
    let mock = Mock::script(vec![
        Reply::streams(half),
        Reply::streams(&error),
        Reply::Bytes(vec![(Duration::ZERO, chunked.into_bytes())]),
        Reply::Nothing,
        Reply::says(&good()),
    ]);
    let run = extract(&fixture, &mock, &["--max-cost=1"]).success();
    assert_eq!(mock.calls(), 5);
    assert!(run.stderr.contains("the answer was cut off"), "{}", run.stderr);
    // The cost of lost answers is unknown: they are charged at their maximum.
    assert!(
        run.stderr.contains("tokens of calls whose end is not known"),
        "{}",
        run.stderr
    );
    // With a small budget the second try is one too many, though the first may have cost nothing.
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![Reply::streams(half), Reply::says(&good())]);
    let run = extract(&fixture, &mock, &["--max-cost=0.08"]).ended(2);
    assert_eq!(mock.calls(), 1);
    assert!(run.stderr.contains("(--max-cost)"), "{}", run.stderr);
}

#[test]
fn slow_servers_time_out() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let late = Reply::after(Duration::from_secs(30), Reply::says(&good()));
    let (head, tail) = {
        let whole = events(&good(), "end_turn");
        let at = whole.len() / 2;
        (whole[..at].to_owned(), whole[at..].to_owned())
    };
    let head = format!("HTTP/1.1 200 X\r\nconnection: close\r\n\r\n{head}");
    let stalled = Reply::Bytes(vec![
        (Duration::ZERO, head.clone().into_bytes()),
        (Duration::from_secs(30), tail.into_bytes()),
    ]);
    // A byte now and then keeps the connection open, but not forever.
    let mut drip = vec![(Duration::ZERO, head.into_bytes())];
    drip.extend((0..200).map(|_| (Duration::from_millis(100), b": ping\n".to_vec())));
    for reply in [late, stalled, Reply::Bytes(drip)] {
        let mock = Mock::script(vec![reply]);
        let started = Instant::now();
        let run = extract(&fixture, &mock, &["--idle-timeout=0.4", "--timeout=1.2", "--retries=0"]).ended(2);
        assert!(run.stderr.contains("no answer within"), "{}", run.stderr);
        assert!(started.elapsed() < Duration::from_secs(15));
        assert_eq!(mock.calls(), 1);
    }
}

#[test]
fn a_refused_connection_is_retried_and_costs_nothing() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![]);
    let url = mock.url();
    drop(mock);
    std::thread::sleep(Duration::from_millis(50));
    let args = [
        "--backend=anthropic",
        "--base-url",
        &url,
        "--retry-wait=0.01",
        "--retries=2",
        "--backend-model=claude-haiku-4-5",
    ];
    let mut command = fixture.command(EXTRACT.iter().chain(&args));
    command.env("ANTHROPIC_API_KEY", KEY);
    let run = Run::of(command).ended(2);
    assert_eq!(run.stderr.matches("trying again").count(), 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("3 calls") && run.stderr.contains("$0.00"),
        "{}",
        run.stderr
    );
}

#[test]
fn huge_answers_are_cut_short() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let head = b"HTTP/1.1 200 X\r\nconnection: close\r\n\r\n".to_vec();
    let delta =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "x".repeat(10_000)}});
    let pieces = [
        format!("data: {delta}\n\n").into_bytes(),
        b"data: ".to_vec(),
        vec![b'x'; 10_000],
        b": a comment that says nothing at all\n".repeat(1_000),
    ];
    for piece in pieces {
        let mock = Mock::script(vec![Reply::Endless(head.clone(), piece)]);
        let run = extract(&fixture, &mock, &["--timeout=30"]).ended(2);
        assert!(run.stderr.contains("larger than"), "{}", run.stderr);
        assert_eq!(mock.calls(), 1, "more of the same is not asked for");
    }
}
