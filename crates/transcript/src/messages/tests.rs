use super::*;

fn messages(log: &str) -> (Vec<Message>, Vec<LineProblemKind>) {
    let selection = PartSelection {
        calls: &["Write"],
        results: true,
        ..PartSelection::default()
    };
    let mut reader = MessageReader::new(selection, 1 << 20, &|_| ());
    reader.take_lines(log.as_bytes(), 0);
    let problems = reader.problems.iter().map(|problem| problem.kind).collect();
    (reader.messages, problems)
}

#[test]
fn reads_texts_calls_and_results() {
    let log = concat!(
        r#"{"type":"summary","summary":"no message"}"#,
        "\n",
        r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"s","timestamp":"2026-01-02T03:04:05.678Z","isMeta":true,"message":{"role":"user","content":"hello\nthere"}}"#,
        "\n",
        r#"{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"s","message":{"content":[{"type":"text","text":"so"},{"type":"tool_use","id":"t","name":"Write","input":{"file_path":"/x","n":-1,"k":[true,7]}},{"type":"tool_use","id":"u","name":"Bash","input":{"command":"ls"}}]}}"#,
        "\n",
        r#"{"type":"user","uuid":"c","isSidechain":true,"message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true,"content":[{"type":"text","text":"one"},{"type":"text","text":"two"}]}]}}"#,
        "\n",
    );
    let (found, problems) = messages(log);
    assert!(problems.is_empty());
    assert_eq!(found.len(), 3);
    assert_eq!(found[0].texts().collect::<Vec<_>>(), ["hello\nthere"]);
    assert!(found[0].is_meta && found[0].time == Some(1_767_323_045_678));
    assert_eq!(
        found[1].parts[1..],
        [MessagePart::Call {
            id: "t".into(),
            name: "Write".into(),
            input: serde_json::json!({"file_path": "/x", "n": null, "k": [true, 7]}),
        }]
    );
    assert_eq!((found[1].line, found[1].parent.as_deref()), (3, Some("a")));
    assert_eq!(
        found[2].parts,
        [MessagePart::Result {
            call: "t".into(),
            text: "one\ntwo".into(),
            is_error: true
        }]
    );
}

#[test]
fn reads_selected_lines_queued_prompts_and_shortened_results() {
    let log = concat!(
        r#"{"type":"user","uuid":"a","sessionId":"s","message":{"content":"one"}}"#,
        "\n",
        r#"{"type":"attachment","uuid":"b","sessionId":"s","attachment":{"type":"queued_command","prompt":"two","commandMode":"prompt"}}"#,
        "\n",
        r#"{"type":"attachment","uuid":"c","sessionId":"s","attachment":{"type":"queued_command","prompt":"three","commandMode":"task-notification"}}"#,
        "\n",
        r#"{"type":"user","uuid":"d","sessionId":"s","message":{"content":[{"type":"tool_result","tool_use_id":"t","content":"0123456789abcdef"}]}}"#,
        "\n",
    );
    let selection = PartSelection {
        every_call: true,
        results: true,
        queued: true,
        longest: Some(8),
        ..PartSelection::default()
    };
    let mut reader = MessageReader::new(selection, 1 << 20, &|_| ()).with_only_lines(vec![2, 3, 4]);
    reader.take_lines(log.as_bytes(), 0);
    assert_eq!(reader.messages.len(), 2);
    assert_eq!(reader.messages[0].texts().collect::<Vec<_>>(), ["two"]);
    assert_eq!(
        reader.messages[1].parts,
        [MessagePart::Result {
            call: "t".into(),
            text: format!("0123{OMISSION_MARK}cdef"),
            is_error: false
        }]
    );
}

#[test]
fn a_bad_line_does_not_affect_others() {
    let good = r#"{"type":"user","uuid":"a","sessionId":"s","message":{"content":"keep"}}"#;
    let log = format!("\u{feff}{good}\n{{\"type\":\"user\",\"message\":{{\"cont\n{good}{good}\n{good}");
    let (found, problems) = messages(&log);
    assert_eq!(found.len(), 4);
    assert_eq!(
        problems,
        [
            LineProblemKind::Stripped,
            LineProblemKind::Malformed,
            LineProblemKind::Split
        ]
    );
}
