//! `backcast search`: memories first, transcripts second, the same bytes for any threads and order, no secrets.

use crate::fixture::{Fixture, case};
use serde_json::{Value, json};

fn message(kind: &str, session: &str, at: u32, text: &str) -> String {
    let content = match kind {
        "assistant" => json!([{"type": "text", "text": text}]),
        _ => json!(text),
    };
    json!({
        "parentUuid": null, "isSidechain": false, "cwd": "/w", "sessionId": session, "version": "2.1.50",
        "type": kind, "message": {"role": kind, "content": content},
        "uuid": format!("{session}-{at}"), "timestamp": format!("2026-03-04T10:{at:02}:00.000Z"),
    })
    .to_string()
        + "\n"
}

fn with_logs(fixture: &Fixture) {
    let token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";
    let first = [
        message("user", "a", 1, "the nightly import of invoices fails"),
        message(
            "assistant",
            "a",
            2,
            "The import failed since the connection pool was empty.",
        ),
        message(
            "user",
            "a",
            3,
            &format!("the import uses the token {token} of the pool"),
        ),
        "{\"type\":\"user\",\"message\":{\"content\":\"import pool torn".to_owned() + "\n",
    ];
    fixture.write("logs/a.jsonl", first.concat());
    // A resumed session holds a copy of a message.
    let second = message("user", "a", 1, "the nightly import of invoices fails")
        + &message("user", "b", 5, "something else altogether");
    fixture.write("logs/deep/b.jsonl", second);
    fixture.write(
        "memory/pool.md",
        "---\nname: Pool size\ndescription: when the import fails\ntype: project\n---\n\nThe connection pool of the import has ten places.\n",
    );
}

fn search(fixture: &Fixture, query: &str, more: &[&str]) -> Value {
    let args = ["search", query, "logs", "--dir", "memory", "-f", "json"];
    fixture
        .run(args.into_iter().chain(more.iter().copied()))
        .success()
        .json()
}

#[test]
fn memories_come_first_then_messages_with_where_they_stand() {
    let fixture = Fixture::new();
    with_logs(&fixture);
    let found = search(&fixture, "import connection pool", &[]);
    assert_eq!(
        (&found["schema_version"], &found["query"]),
        (&json!(1), &json!("import connection pool"))
    );
    assert_eq!(found["memories"][0]["file"], "pool.md");
    let hits = found["transcripts"].as_array().expect("a list");
    let ids = hits
        .iter()
        .map(|hit| hit["uuid"].as_str().unwrap_or_default())
        .collect::<Vec<_>>();
    assert_eq!(ids, ["a-2", "a-3", "a-1"], "a copy is shown once");
    assert_eq!(
        (
            &hits[0]["session"],
            &hits[0]["role"],
            &hits[0]["line"],
            &hits[0]["time"]
        ),
        (
            &json!("a"),
            &json!("assistant"),
            &json!(2),
            &json!("2026-03-04T10:02:00Z")
        )
    );
    assert!(
        hits[0]["snippet"]
            .as_str()
            .is_some_and(|text| text.contains("connection pool was empty"))
    );
    assert_eq!(hits[0]["words"], json!(["import", "connection", "pool"]));
}

#[test]
fn a_secret_is_masked_and_stems_are_found() {
    let fixture = Fixture::new();
    with_logs(&fixture);
    for format in ["json", "jsonl", "table"] {
        let run = fixture
            .run([
                "search",
                "pools importing tokens",
                "logs",
                "--dir",
                "memory",
                "-f",
                format,
            ])
            .success();
        assert!(
            run.text().contains("[secret]") && !run.text().contains("ghp_a1B2"),
            "{}",
            run.text()
        );
    }
}

#[test]
fn results_can_be_limited_to_one_place_and_a_number() {
    let fixture = Fixture::new();
    with_logs(&fixture);
    let found = search(&fixture, "import pool", &["--only", "transcripts", "-n", "1"]);
    assert_eq!(
        (
            found["memories"].as_array().map(Vec::len),
            found["transcripts"].as_array().map(Vec::len)
        ),
        (Some(0), Some(1))
    );
    let found = search(&fixture, "import pool", &["--only", "memories"]);
    assert_eq!(found["transcripts"], json!([]));
    let nothing = fixture
        .run(["search", "xyzzy plugh", "logs", "--dir", "memory"])
        .success();
    assert_eq!((nothing.text(), nothing.stderr.contains("nothing found")), ("", true));
    fixture.run(["search", "the", "logs", "--dir", "memory"]).ended(2);
}

#[test]
fn output_is_the_same_for_any_threads_and_order() {
    let fixture = Fixture::new();
    with_logs(&fixture);
    let run = |paths: &[&str], threads: &str| {
        let args = [
            "search",
            "import pool fails",
            "--dir",
            "memory",
            "-f",
            "jsonl",
            "-j",
            threads,
        ];
        fixture
            .run(args.into_iter().chain(paths.iter().copied()))
            .success()
            .stdout
    };
    let once = run(&["logs/a.jsonl", "logs/deep"], "1");
    assert_eq!(once, run(&["logs/a.jsonl", "logs/deep"], "4"));
    let lines = |bytes: &[u8]| {
        let text = String::from_utf8(bytes.to_vec()).expect("text");
        let ids = text
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["uuid"].clone());
        ids.collect::<Vec<_>>()
    };
    assert_eq!(lines(&once), lines(&run(&["logs/deep", "logs/a.jsonl"], "2")));
}

#[test]
fn lost_input_ends_a_strict_search_with_status_3() {
    let fixture = Fixture::new();
    let log =
        message("user", "a", 1, "the nightly import of invoices fails") + "{\"torn\n" + &message("user", "a", 2, "x");
    fixture.write("logs/a.jsonl", log);
    let args = ["search", "nightly import", "logs", "--only", "transcripts"];
    let strict = fixture.run(args.into_iter().chain(["--strict"])).ended(3);
    assert_eq!(
        strict.stdout,
        fixture.run(args).success().stdout,
        "the same messages in the same order"
    );
    assert!(strict.stderr.contains("malformed"), "{}", strict.stderr);
}

#[test]
fn lines_fit_the_screen_and_rows_name_their_version() {
    let fixture = Fixture::new();
    let session = "0c97beba-bfcb-4f84-9950-e0354bfc808b";
    fixture.write(
        "logs/a.jsonl",
        message("user", session, 1, &"the nightly import fails again ".repeat(20)),
    );
    let args = ["search", "nightly import", "logs", "--only", "transcripts"];
    let mut narrow = fixture.command(args);
    narrow.env("COLUMNS", "80");
    let narrow = crate::fixture::Run::of(narrow).success();
    assert!(
        narrow.text().lines().all(|line| line.chars().count() <= 80),
        "{}",
        narrow.text()
    );
    let rows = fixture.run(args.into_iter().chain(["-f", "jsonl"])).success();
    let row: Value = serde_json::from_str(rows.text().lines().next().expect("a row")).expect("JSON");
    assert_eq!((&row["schema_version"], &row["session"]), (&json!(1), &json!(session)));
}

#[test]
fn what_a_person_said_outside_of_prompts_is_found_once() {
    let fixture = Fixture::new();
    for (query, hits) in [
        ("leave the quinces out", 2),
        ("never shake the tree", 2),
        ("the blue one", 2),
        ("weigh the pears while you are there", 0),
    ] {
        let log = case("words-outside-prompts").display().to_string();
        let args = ["search", query, &log, "--only", "transcripts", "-f", "json"];
        let found = fixture.run(args).success().json();
        let found = found["transcripts"].as_array().expect("a list").clone();
        let of_user = found.iter().filter(|hit| hit["role"] == "user");
        let whole = of_user.filter(|hit| {
            hit["snippet"]
                .as_str()
                .unwrap_or_default()
                .to_lowercase()
                .contains(query)
        });
        assert_eq!(whole.count(), hits, "{query}: {found:?}");
    }
}
