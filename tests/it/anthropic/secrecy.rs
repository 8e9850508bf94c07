//! Keys and secrets stay out of requests, outputs and files; only safe servers are called, and none with `--offline`.

use super::{EXTRACT, KEY, extract, good, model, notes::writer, record, run, traces, user, write_session};
use crate::fixture::{Fixture, Run, canaries};
use crate::mock::{Mock, Recorded, Reply, events};
use serde_json::json;

#[test]
fn the_key_is_in_no_output_and_no_file() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let echo = |request: &Recorded| format!("you sent {}", request.header("x-api-key").unwrap_or_default());
    let mock = Mock::new(move |at, request| match at {
        0 => Reply::error(529, KEY, &echo(request), &[("x-echo", KEY), ("retry-after", "0")]),
        1 => Reply::raw(500, &[], &echo(request)),
        2 => Reply::streams(&format!(
            "data: {}\n\n",
            json!({"type": "error", "error": {"type": "api_error", "message": echo(request)}})
        )),
        _ => Reply::raw(200, &[("x-echo", KEY)], &events(&good(), "end_turn")),
    });
    let first = extract(&fixture, &mock, &["-vvv"]).success();
    assert_eq!(mock.calls(), 4);
    assert!(
        first.stderr.contains("x-echo: [key]") && first.stderr.contains("POST /v1/messages"),
        "{}",
        first.stderr
    );
    assert!(!traces(&fixture, &first).contains(KEY));
    for request in mock.requests() {
        assert!(!request.body.contains(KEY) && !request.path.contains(KEY));
    }
    // An invalid key is not shown either.
    let mut command = fixture.command(EXTRACT.iter().map(|arg| (*arg).to_owned()).chain(model(&mock)));
    command.env("ANTHROPIC_API_KEY", format!("{KEY}\u{7}bell"));
    let bad = Run::of(command).ended(2);
    assert!(!bad.stderr.contains(KEY), "{}", bad.stderr);
    assert_eq!(mock.calls(), 4);
}

#[test]
fn an_auth_token_is_sent_as_a_bearer_token() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![Reply::says(&good())]);
    let args = EXTRACT.iter().map(|arg| (*arg).to_owned()).chain(model(&mock));
    let mut command = fixture.command(args);
    command.env("ANTHROPIC_AUTH_TOKEN", KEY);
    Run::of(command).success();
    let request = &mock.requests()[0];
    assert_eq!(request.header("authorization"), Some(format!("Bearer {KEY}").as_str()));
    assert_eq!(request.header("x-api-key"), None);
}

#[test]
fn no_secret_is_in_any_request() {
    let (canaries, secrets) = canaries();
    let fixture = Fixture::new();
    let mut log = String::new();
    for (at, canary) in canaries.iter().enumerate() {
        let number = at as u32 * 2;
        log += &record("assistant", "s", number, &json!(format!("I will use {canary} then?")));
        log += &user(
            "s",
            number + 1,
            &format!("Remember that this is the key: {canary} and rotate it monthly"),
        );
        fixture.write(
            &format!("mem/m{at}.md"),
            format!(
                "---\nname: n{at}\ndescription: '{}'\ntype: feedback\n---\nuse {canary}\n",
                canary.lines().next().unwrap_or_default()
            ),
        );
    }
    fixture.write("logs/s.jsonl", log);
    let mock = Mock::new(|_, request| {
        let text = request.text();
        if text.contains("Task: find") {
            Reply::says("{\"memories\": []}")
        } else if text.contains("Task: look through") {
            Reply::says("{\"same\": [], \"contradicting\": []}")
        } else {
            Reply::says("{\"memories\": []}")
        }
    });
    let mut all = Vec::new();
    all.push(
        run(
            &fixture,
            &mock,
            &["memory", "extract", "logs", "--dry-run", "--dir", "mem"],
            &["-vvv"],
        )
        .success(),
    );
    all.push(
        run(
            &fixture,
            &mock,
            &["memory", "dream", "--dir", "mem", "--dry-run"],
            &["-vvv"],
        )
        .success(),
    );
    let query = format!("how do I use {} here", canaries[0]);
    all.push(
        run(
            &fixture,
            &mock,
            &["memory", "recall", &query, "--dir", "mem"],
            &["-vvv"],
        )
        .success(),
    );
    assert_eq!(mock.calls(), 3);
    for request in mock.requests() {
        for secret in secrets {
            assert!(!request.body.contains(secret), "{secret} in {}", request.body);
        }
        assert!(request.body.contains("[secret]"));
        // A private key without an end must not mask the end of the material.
        let text = request.text();
        let opened = text.matches("\n=== material ").count();
        let closed = text.matches("\n=== end of material ").count();
        assert!(opened > 0 && opened == closed, "{text}");
    }
    for run in &all {
        for secret in secrets {
            assert!(!run.stderr.contains(secret), "{secret} in {}", run.stderr);
        }
    }
}

/// Returns the records of a session that has every text in a prompt, in what the assistant says, in a call and in its result.
fn session_of(name: &str, texts: &[(String, String)]) -> String {
    let mut log = user(
        name,
        0,
        "Never rewrite the history of shared branches, because others build on them.",
    );
    for (at, (_, text)) in texts.iter().enumerate() {
        let at = 1 + at as u32 * 4;
        let id = format!("toolu_{name}_{at}");
        let call = json!([
            {"type": "text", "text": format!("I noted it. {text}")},
            {"type": "tool_use", "id": id, "name": "Bash", "input": {"command": text, "description": text}},
        ]);
        let result = json!([{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": at % 8 == 1}]);
        log += &user(name, at, &format!("Always remember this for next time. {text}"));
        log += &record("assistant", name, at + 1, &call);
        log += &record("user", name, at + 2, &result);
    }
    let title = json!({"type": "custom-title", "customTitle": texts[0].1, "sessionId": name});
    log + &title.to_string() + "\n"
}

#[test]
fn no_secret_said_in_words_is_in_any_request() {
    const PER_SESSION: usize = 12;
    let fixture = Fixture::new();
    // What is masked in the text alone must not reach a request from any place.
    let cases = crate::secrets::all_cases()
        .into_iter()
        .filter(|(value, text)| !language::secrets::mask(text).contains(value.as_str()))
        .collect::<Vec<_>>();
    assert!(cases.len() >= 1000, "{}", cases.len());
    for (at, texts) in cases.chunks(PER_SESSION).enumerate() {
        fixture.write(&format!("logs/s{at}.jsonl"), session_of(&format!("s{at}"), texts));
    }
    let mock = Mock::new(|at, request| match request.text().contains("Task: find") {
        true => Reply::says("{\"memories\": []}"),
        false => writer(at, request),
    });
    let more = ["--max-calls=2000", "--max-cost=1000"];
    run(&fixture, &mock, &EXTRACT, &more).success();
    let asked = mock.calls();
    run(
        &fixture,
        &mock,
        &["notes", "logs", "--out", "notes", "--to-end", "--summary"],
        &more,
    )
    .success();
    assert!(asked >= 3 && mock.calls() >= asked + 50, "{asked} {}", mock.calls());
    let mut shown = Vec::new();
    for request in mock.requests() {
        let text = request.text();
        let leaks = cases.iter().filter(|(value, _)| crate::secrets::shows(&text, value));
        shown.extend(leaks.map(|(value, sentence)| format!("{value}: {sentence}")));
    }
    shown.sort();
    shown.dedup();
    assert!(
        shown.is_empty(),
        "{} of {}\n{}",
        shown.len(),
        cases.len(),
        shown.join("\n")
    );
}

#[test]
fn offline_forbids_the_model() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let mock = Mock::script(vec![]);
    for more in [&["--offline"][..], &["--offline", "--estimate"]] {
        let run = extract(&fixture, &mock, more).ended(2);
        assert!(run.stderr.contains("--offline forbids"), "{}", run.stderr);
    }
    let mut command = fixture.command(EXTRACT.iter().map(|arg| (*arg).to_owned()).chain(model(&mock)));
    command.env("ANTHROPIC_API_KEY", KEY).env("BACKCAST_OFFLINE", "1");
    assert!(Run::of(command).ended(2).stderr.contains("--offline forbids"));
    assert_eq!(mock.requests().len(), 0);
    // Everything else works with --offline, before and after the verb.
    fixture
        .run(["--offline", "memory", "extract", "logs", "--dry-run"])
        .success();
    fixture.run(["stats", "logs", "--offline"]).success();
}

#[test]
fn only_safe_urls_and_models_with_a_price_or_a_cap_are_accepted() {
    let fixture = Fixture::new();
    write_session(&fixture);
    let run = |args: &[&str], key: bool| {
        let mut command = fixture.command(EXTRACT.iter().chain(&["--backend=anthropic"]).chain(args));
        if key {
            command.env("ANTHROPIC_API_KEY", KEY);
        }
        Run::of(command).ended(2).stderr
    };
    assert!(run(&["--base-url=http://example.com"], true).contains("use https, or http on this machine"));
    assert!(run(&["--base-url=http://127.0.0.1.example.com"], true).contains("use https, or http on this machine"));
    assert!(run(&["--base-url=https://user:pw@example.com"], true).contains("must not have a user"));
    assert!(run(&[], false).contains("ANTHROPIC_API_KEY is not set"));
    assert!(run(&["--backend-model=quartz-9"], true).contains("no price is known for quartz-9"));
    assert!(run(&["--backend-model=quartz-9", "--max-cost=1", "--max-calls=1"], true).contains("no price is known"));
    let wrong = fixture
        .run(["memory", "extract", "logs", "--dry-run", "--estimate"])
        .ended(2);
    assert!(wrong.stderr.contains("add --backend anthropic"), "{}", wrong.stderr);
    // A local model needs no key and no price, only a cap.
    let mock = Mock::script(vec![Reply::says(&good())]);
    let url = mock.url();
    let args = [
        "--backend=anthropic",
        "--backend-model=quartz-9",
        "--max-calls=3",
        "--base-url",
        &url,
    ];
    fixture.run(EXTRACT.iter().chain(&args)).success();
    assert_eq!(mock.requests()[0].header("x-api-key"), None);
}
