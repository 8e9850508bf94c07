use super::*;
use crate::bytes::LineConsumer;
use crate::log::LineProblemKind;

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
        every_word: true,
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

fn words(log: &str, selection: PartSelection) -> Vec<(WordsChannel, String, u64)> {
    let mut reader = MessageReader::new(selection, 1 << 20, &|_| ());
    reader.take_lines(log.as_bytes(), 0);
    reader.finish();
    assert!(reader.problems.is_empty());
    let users = reader
        .messages
        .iter()
        .filter(|message| message.role == MessageRole::User);
    let of_message = |message: &Message| {
        let (channel, line) = (message.channel, message.line);
        let texts = message.parts.iter().filter_map(move |part| match part {
            MessagePart::Text(text) => Some((channel, text.clone(), line)),
            MessagePart::Reply(reply) => Some((reply.channel, reply.text.clone(), line)),
            _ => None,
        });
        texts.collect::<Vec<_>>()
    };
    users.flat_map(of_message).collect()
}

fn operation(operation: &str, content: Option<&str>) -> String {
    let content = content.map(|content| format!(r#","content":{}"#, serde_json::json!(content)));
    let content = content.unwrap_or_default();
    format!(
        r#"{{"type":"queue-operation","operation":"{operation}","timestamp":"2026-01-02T03:04:05.678Z","sessionId":"s"{content}}}"#
    )
}

#[test]
fn queued_prompts_are_read_once() {
    let user = |text: &str| format!(r#"{{"type":"user","uuid":"u","sessionId":"s","message":{{"content":"{text}"}}}}"#);
    let answer = r#"{"type":"assistant","uuid":"a","message":{"content":[{"type":"text","text":"ok"}]}}"#;
    let attached = r#"{"type":"attachment","uuid":"b","sessionId":"s","attachment":{"type":"queued_command","prompt":"attached","commandMode":"prompt","origin":{"kind":"human"}}}"#;
    let by_program = r#"{"type":"attachment","uuid":"b","sessionId":"s","attachment":{"type":"queued_command","prompt":"do this","commandMode":"prompt","origin":{"kind":"coordinator"}}}"#;
    let log = [
        operation("enqueue", Some("first \"one\"")),
        operation("dequeue", None),
        user("first \\\"one\\\""),
        operation("enqueue", Some("typed while it works")),
        operation("enqueue", Some("{\"task_id\":\"b1\"}")),
        operation("remove", None),
        answer.to_owned(),
        operation("enqueue", Some("taken back")),
        operation("popAll", Some("taken back")),
        operation("enqueue", Some("attached")),
        attached.to_owned(),
        operation("remove", Some("attached")),
        by_program.to_owned(),
        operation("enqueue", Some("/clear")),
        operation("enqueue", Some("never sent")),
    ]
    .join("\n");
    let expected = [
        (WordsChannel::Prompt, "first \"one\"".to_owned(), 3),
        (WordsChannel::Queued, "attached".to_owned(), 11),
        (WordsChannel::Queued, "typed while it works".to_owned(), 4),
        (WordsChannel::Queued, "never sent".to_owned(), 15),
    ];
    assert_eq!(words(&log, PartSelection::EVERY_WORD), expected);
    assert_eq!(words(&log, PartSelection::default()).len(), 1);
}

#[test]
fn a_queued_prompt_is_found_among_selected_lines_unless_an_unselected_one_repeats_it() {
    let log = [
        r#"{"type":"user","uuid":"a","sessionId":"s","message":{"content":"one"}}"#.to_owned(),
        operation("enqueue", Some("sent and taken back")),
        operation("enqueue", Some("sent beside a result")),
        r#"{"type":"user","uuid":"b","sessionId":"s","message":{"content":"sent and taken back"}}"#.to_owned(),
    ]
    .join("\n");
    let mut reader = MessageReader::new(PartSelection::EVERY_WORD, 1 << 20, &|_| ()).with_only_lines(vec![1]);
    reader.take_lines(log.as_bytes(), 0);
    reader.finish();
    let texts = reader.messages.iter().flat_map(Message::texts).collect::<Vec<_>>();
    assert_eq!(texts, ["one", "sent beside a result"]);
    let last = &reader.messages[1];
    assert_eq!(
        (last.channel, last.record_name()),
        (WordsChannel::Queued, "s:3".to_owned())
    );
}

#[test]
fn words_in_results_are_read_with_and_without_the_results() {
    let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected. To tell you how to proceed, the user said:\\nuse pnpm";
    let log = format!(
        concat!(
            r#"{{"type":"user","uuid":"a","message":{{"content":[{{"tool_use_id":"t","type":"tool_result","is_error":true,"content":"{}"}},{{"type":"text","text":"beside it"}}]}}}}"#,
            "\n",
            r#"{{"type":"user","uuid":"b","message":{{"content":[{{"tool_use_id":"t","type":"tool_result","content":"output"}}]}}}}"#,
        ),
        refused
    );
    let expected = [
        (WordsChannel::Refusal, "use pnpm".to_owned(), 1),
        (WordsChannel::Prompt, "beside it".to_owned(), 1),
    ];
    assert_eq!(words(&log, PartSelection::EVERY_WORD), expected);
    let with_results = PartSelection {
        results: true,
        ..PartSelection::EVERY_WORD
    };
    assert_eq!(words(&log, with_results), expected);
    let mut reader = MessageReader::new(with_results, 1 << 20, &|_| ());
    reader.take_lines(log.as_bytes(), 0);
    let reply = |part: &MessagePart| matches!(part, MessagePart::Reply(reply) if reply.call == "t");
    assert_eq!(reader.messages[0].parts.iter().filter(|part| reply(part)).count(), 1);
}

#[test]
fn a_chosen_title_goes_before_a_written_one_and_the_last_counts() {
    let log = concat!(
        r#"{"type":"ai-title","aiTitle":"Written","sessionId":"s"}"#,
        "\n",
        r#"{"type":"custom-title","customTitle":"Chosen","sessionId":"s"}"#,
        "\n",
        r#"{"type":"custom-title","customTitle":"Chosen later","sessionId":"s"}"#,
        "\n",
        r#"{"type":"ai-title","aiTitle":"Other","sessionId":"t"}"#,
        "\n",
    );
    let mut reader = MessageReader::new(PartSelection::EVERY_WORD, 1 << 20, &|_| ()).with_only_lines(vec![]);
    reader.take_lines(log.as_bytes(), 0);
    assert_eq!(title_of(&reader.titles, "s"), "Chosen later");
    assert_eq!(title_of(&reader.titles, "t"), "Other");
    assert_eq!(title_of(&reader.titles, "u"), "");
}

#[test]
fn notices_and_quiet_results_are_read_as_selected() {
    let notice = "<task-notification>\\n<task-id>b1</task-id>\\n</task-notification>";
    let call = |id: &str, tool: &str| {
        format!(
            r#"{{"type":"assistant","uuid":"{id}","message":{{"content":[{{"type":"tool_use","id":"{id}","name":"{tool}","input":{{}}}}]}}}}"#
        )
    };
    let result = |id: &str, is_error: bool| {
        format!(
            r#"{{"type":"user","uuid":"r{id}","message":{{"content":[{{"tool_use_id":"{id}","type":"tool_result","is_error":{is_error},"content":"shown"}}]}}}}"#
        )
    };
    let log = [
        operation("enqueue", Some(notice)),
        call("1", "Read"),
        result("1", false),
        call("2", "Read"),
        result("2", true),
        call("3", "Bash"),
        result("3", false),
        format!(
            r#"{{"type":"attachment","uuid":"a","attachment":{{"type":"queued_command","prompt":"{notice}","commandMode":"task-notification"}}}}"#
        ),
    ]
    .join("\n");
    let read = |selection: PartSelection| {
        let mut reader = MessageReader::new(selection, 1 << 20, &|_| ());
        reader.take_lines(log.as_bytes(), 0);
        reader.finish();
        reader.messages
    };
    let selection = PartSelection {
        every_call: true,
        results: true,
        every_word: true,
        notices: true,
        quiet_tools: &["Read"],
        ..PartSelection::default()
    };
    let messages = read(selection);
    let notices = messages.iter().filter(|message| message.is_meta);
    assert_eq!(notices.map(|message| message.line).collect::<Vec<_>>(), [8, 1]);
    let results = messages.iter().flat_map(|message| &message.parts);
    let results = results.filter_map(|part| match part {
        MessagePart::Result { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(results.collect::<Vec<_>>(), ["", "shown", "shown"]);
    let without = PartSelection {
        notices: false,
        ..selection
    };
    assert!(read(without).iter().all(|message| !message.is_meta));
}
