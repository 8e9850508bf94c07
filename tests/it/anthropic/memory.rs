//! `memory dream` and `memory recall` with a model.

use super::run;
use crate::fixture::{Fixture, files_below};
use crate::mock::{Mock, Recorded, Reply};
use serde_json::json;

fn write_memories(fixture: &Fixture) {
    let memory = |file: &str, name: &str, kind: &str, said: &str, body: &str| {
        let text = format!(
            "---\nname: {name}\ndescription: about {name}\ntype: {kind}\nsources:\n  - s u-{file} {said}\n---\n\n{body}\n"
        );
        fixture.write(&format!("mem/{file}.md"), text);
    };
    memory(
        "tabs",
        "Indentation",
        "feedback",
        "2026-03-01T00:00:00Z",
        "Indent with tabs.",
    );
    memory(
        "wide",
        "No spaces in front",
        "feedback",
        "2026-03-02T00:00:00Z",
        "Lines start with a tabulator.\n\nScreen readers need it.",
    );
    memory(
        "squash",
        "Squash merges",
        "feedback",
        "2026-03-03T00:00:00Z",
        "Merge with a single commit.",
    );
    memory(
        "linear",
        "Keep all commits",
        "feedback",
        "2026-03-04T00:00:00Z",
        "Keep every commit when merging.",
    );
    memory(
        "launch",
        "Launch",
        "project",
        "2026-03-04T00:00:00Z",
        "The launch is planned for May.",
    );
    fixture.write("mem/MEMORY.md", "");
}

#[test]
fn consolidation_takes_pairs_from_the_model_and_picks_the_keeper() {
    let fixture = Fixture::new();
    write_memories(&fixture);
    let before = std::fs::read_to_string(fixture.path("mem/wide.md")).expect("a memory");
    // By file: linear m1, squash m2, tabs m3, wide m4.
    let answer = json!({"same": [{"keep": "m3", "drop": ["m4"], "because": "both want tabs"}],
        "contradicting": [{"one": "m1", "other": "m2", "because": "squash or not"}]});
    let mock = Mock::script(vec![Reply::says(&format!("<scratch>hm</scratch>{answer}"))]);
    let verb = ["memory", "dream", "--dir", "mem", "--force"];
    let shown = run(&fixture, &mock, &[&verb[..], &["--dry-run"]].concat(), &[]).success();
    assert!(
        shown.text().contains("merged into tabs.md") && shown.text().contains("superseded on 2026-03-04 by linear.md"),
        "{}",
        shown.text()
    );
    assert!(fixture.path("mem/wide.md").exists());
    let run = run(&fixture, &mock, &verb, &[]).success();
    assert_eq!(mock.calls(), 1, "what was shown is what is done: {}", run.stderr);
    assert!(!fixture.path("mem/wide.md").exists() && !fixture.path("mem/squash.md").exists());
    let kept = std::fs::read_to_string(fixture.path("mem/tabs.md")).expect("the keeper");
    assert!(
        kept.contains("Screen readers need it."),
        "nothing is merged away: {kept}"
    );
    fixture.run(["memory", "undo", "--dir", "mem"]).success();
    assert_eq!(
        std::fs::read_to_string(fixture.path("mem/wide.md")).expect("back again"),
        before
    );
}

#[test]
fn consolidation_with_a_wrong_answer_changes_nothing() {
    let fixture = Fixture::new();
    write_memories(&fixture);
    let files = || {
        files_below(&fixture.path("mem"))
            .into_iter()
            .filter(|file| file.extension().is_some_and(|end| end == "md"))
            .collect::<Vec<_>>()
    };
    let before = files();
    let wrong =
        json!({"same": [{"keep": "m1", "drop": ["m2", "m77"], "because": "x"}], "contradicting": []}).to_string();
    let mock = Mock::script(vec![Reply::says(&wrong), Reply::says(&wrong)]);
    let run = run(&fixture, &mock, &["memory", "dream", "--dir", "mem", "--force"], &[]).ended(2);
    assert!(run.stderr.contains("an unknown id"), "{}", run.stderr);
    assert_eq!((mock.calls(), files()), (2, before));
}

#[test]
fn recall_chooses_from_the_list_only() {
    let fixture = Fixture::new();
    write_memories(&fixture);
    let number = |request: &Recorded, name: &str| {
        let text = request.text();
        let line = text
            .lines()
            .find(|line| line.contains(name))
            .expect("a line")
            .to_owned();
        line.split('.')
            .next()
            .and_then(|number| number.parse::<u64>().ok())
            .expect("a number")
    };
    let mock = Mock::new(move |at, request| match at {
        0 => Reply::says(
            &json!({"memories": [number(request, "] Launch ("), number(request, "] Indentation (")]}).to_string(),
        ),
        1 => Reply::says("{\"memories\": [\"../../../etc/passwd\"]}"),
        2 => Reply::says("{\"memories\": [1, 2, 3, 4, 5, 6]}"),
        _ => Reply::says("{\"memories\": []}"),
    });
    let verb = ["memory", "recall", "when do we launch", "--dir", "mem", "-fjson"];
    let answer = run(&fixture, &mock, &verb, &[]).success().json();
    let files = answer["selected"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["file"].as_str().expect("a file"));
    assert_eq!(files.collect::<Vec<_>>(), ["launch.md", "tabs.md"]);
    run(&fixture, &mock, &verb, &[]).success();
    assert_eq!(mock.calls(), 1);
    let wrong = run(
        &fixture,
        &mock,
        &["memory", "recall", "another question entirely", "--dir", "mem"],
        &[],
    )
    .ended(2);
    assert!(wrong.stderr.contains("more than 5 memories"), "{}", wrong.stderr);
    assert_eq!(mock.calls(), 3);
    // Surfaced memories cannot be chosen, and a query of one word sends no request.
    let surfaced = ["--surfaced", "launch.md"];
    let none = run(
        &fixture,
        &mock,
        &["memory", "recall", "when do we launch", "--dir", "mem"],
        &surfaced,
    )
    .success();
    assert!(none.stderr.contains("the model chose none"), "{}", none.stderr);
    let text = mock.requests()[3].text();
    assert!(
        text.contains("] Indentation (") && !text.contains("] Launch ("),
        "{text}"
    );
    run(&fixture, &mock, &["memory", "recall", "?!", "--dir", "mem"], &[]).success();
    assert_eq!(mock.calls(), 4);
    // Many queries share the list.
    fixture.write(
        "q.jsonl",
        "{\"id\": 1, \"text\": \"first of all\"}\n{\"id\": 2, \"text\": \"second of all\"}\n",
    );
    let many = run(
        &fixture,
        &mock,
        &["memory", "recall", "--queries", "q.jsonl", "--dir", "mem"],
        &["--at-once=1"],
    )
    .success();
    assert_eq!((many.text().lines().count(), mock.calls()), (2, 6));
    let shared = |at: usize| mock.requests()[at].json()["messages"][0]["content"][0].clone();
    assert_eq!(shared(4), shared(5));
    assert_eq!(shared(4)["cache_control"]["type"], "ephemeral");
}
