use super::*;
use crate::log::{BlockKind, Log, RecordKind};
use crate::messages::{MessagePart, MessageReader, PartSelection};
use crate::walk::Walker;
use serde_json::{Value, json};

fn read(bytes: &[u8]) -> Log {
    let mut walker = Walker::new(1 << 20, &|_| ());
    let mut reader = AgentReader::new(&mut walker);
    reader.take_lines(bytes, 0);
    reader.finish();
    walker.into_builder().finish()
}

fn jsonl(lines: &[Value]) -> Vec<u8> {
    let lines = lines.iter().map(|line| format!("{line}\n"));
    lines.collect::<String>().into_bytes()
}

fn line(kind: &str, payload: Value) -> Value {
    json!({"timestamp": "2026-05-05T16:20:24.754Z", "type": kind, "payload": payload})
}

fn item(payload: Value) -> Value {
    line("response_item", payload)
}

fn event(payload: Value) -> Value {
    line("event_msg", payload)
}

fn head(id: &str) -> Value {
    line(
        "session_meta",
        json!({"id": id, "cwd": "/w", "cli_version": "0.142.0", "source": "cli"}),
    )
}

fn prompt(text: &str) -> Value {
    item(json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}))
}

fn answer(text: &str) -> Value {
    item(json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}))
}

/// A row: total input and output, and those of the last call.
fn counts(total: (u64, u64), last: (u64, u64)) -> Value {
    let usage = |(input, output): (u64, u64)| {
        json!({"input_tokens": input, "cached_input_tokens": input / 2, "output_tokens": output,
               "reasoning_output_tokens": output / 4, "total_tokens": input + output})
    };
    event(
        json!({"type": "token_count", "info": {"total_token_usage": usage(total), "last_token_usage": usage(last),
                 "model_context_window": 258400}}),
    )
}

fn billed(log: &Log) -> Vec<(u64, u64)> {
    let mut calls = log
        .responses
        .iter()
        .filter(|line| !line.billed.is_zero())
        .map(|line| (line.message, line.billed.input_side(), line.billed.output))
        .collect::<Vec<_>>();
    calls.dedup();
    calls.into_iter().map(|(_, input, output)| (input, output)).collect()
}

#[test]
fn agents_are_recognized_by_content() {
    for (start, agent) in [
        (
            r#"{"timestamp":"2026","type":"session_meta","payload":{}}"#,
            Agent::Codex,
        ),
        (
            "\u{feff}\n{\"timestamp\":\"2026\",\"type\":\"event_msg\",\"payload\":{}}",
            Agent::Codex,
        ),
        (r#"{"type":"session","version":3,"id":"x","cwd":"/w"}"#, Agent::Pi),
        ("{\n  \"info\": {\n    \"id\": \"ses_1\"", Agent::OpenCode),
        (r#"{"parentUuid":null,"type":"user"}"#, Agent::Claude),
        (r#"{"timestamp":"2026","type":"queue-operation"}"#, Agent::Claude),
        ("", Agent::Claude),
    ] {
        assert_eq!(Agent::detect(start.as_bytes()), agent, "{start}");
    }
}

#[test]
fn every_call_of_codex_counts_once() {
    let log = read(&jsonl(&[
        head("t1"),
        line("turn_context", json!({"model": "gpt-5.5", "cwd": "/w"})),
        prompt("go"),
        answer("one"),
        counts((100, 10), (100, 10)),
        // Limits changed: the totals are repeated.
        counts((100, 10), (100, 10)),
        item(json!({"type": "reasoning", "summary": []})),
        item(
            json!({"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"cat a.rs\"}", "call_id": "c"}),
        ),
        item(
            json!({"type": "function_call_output", "call_id": "c", "output": "Process exited with code 1\nOutput:\nno"}),
        ),
        counts((300, 30), (200, 20)),
        line(
            "compacted",
            json!({"message": "", "replacement_history": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "compaction", "encrypted_content": "REDACTED"}]}),
        ),
        // An estimate of the new window.
        counts((300, 30), (0, 0)),
        answer("two"),
        counts((350, 35), (50, 5)),
    ]));
    assert_eq!(billed(&log), [(100, 10), (200, 20), (50, 5)]);
    assert_eq!(log.agent, Agent::Codex);
    let facts = log.call_facts.iter().map(|facts| (facts.reasoning, facts.window));
    assert_eq!(facts.collect::<Vec<_>>()[..2], [(2, 258_400), (5, 258_400)]);
    let kinds = log.records.iter().map(|record| record.kind).collect::<Vec<_>>();
    use RecordKind::{Assistant, Boundary, User};
    assert_eq!(
        kinds,
        [User, Assistant, Assistant, Assistant, User, Boundary, User, Assistant]
    );
    let boundary = &log.boundaries[0];
    assert!(boundary.is_auto);
    assert_eq!((boundary.pre_tokens, boundary.kept.len()), (None, 1));
    let result = log
        .blocks
        .iter()
        .find(|block| block.kind == BlockKind::ToolResult)
        .unwrap();
    assert!(result.is_error);
    assert_eq!(log.string(result.path), "/w/a.rs");
    assert!(log.problems.is_empty());
    assert_eq!(log.lines, 14);
}

#[test]
fn a_rollback_leaves_a_branch_that_is_billed() {
    let log = read(&jsonl(&[
        head("t1"),
        prompt("first"),
        answer("one"),
        counts((100, 10), (100, 10)),
        prompt("second"),
        answer("two"),
        counts((300, 30), (200, 20)),
        event(json!({"type": "thread_rolled_back", "num_turns": 1})),
        prompt("third"),
        answer("three"),
        counts((500, 50), (200, 20)),
    ]));
    assert_eq!(billed(&log), [(100, 10), (200, 20), (200, 20)]);
    let parents = log.records.iter().map(|record| record.parent).collect::<Vec<_>>();
    use crate::log::RecordLink::Here;
    assert_eq!(
        parents[2..],
        [Here(1), Here(2), Here(1), Here(4)],
        "the third prompt follows the first answer"
    );
}

/// A parent thread with two calls.
fn parent() -> Vec<Value> {
    vec![
        head("p"),
        prompt("go"),
        answer("one"),
        counts((100, 10), (100, 10)),
        prompt("more"),
        item(json!({"type": "function_call", "name": "exec_command", "arguments": "{\"cmd\":\"ls\"}", "call_id": "c"})),
        counts((300, 30), (200, 20)),
        item(json!({"type": "function_call_output", "call_id": "c", "output": "a"})),
    ]
}

fn ids(log: &Log) -> Vec<u128> {
    log.records.iter().map(|record| record.id.number()).collect()
}

#[test]
fn copies_of_a_parent_get_its_ids() {
    let parent_log = read(&jsonl(&parent()));
    let mut child = parent();
    child.insert(
        0,
        line("session_meta", json!({"id": "f", "forked_from_id": "p", "cwd": "/w"})),
    );
    // Some versions write the time of the fork.
    for line in &mut child {
        line["timestamp"] = json!("2026-06-06T00:00:00.000Z");
    }
    child.extend([prompt("fork"), answer("three"), counts((400, 40), (100, 10))]);
    let child_log = read(&jsonl(&child));
    let count = parent_log.records.len();
    assert_eq!(ids(&child_log)[..count], ids(&parent_log));
    assert_eq!(billed(&child_log).len(), 3);
    let threads = child_log.lineage.iter().map(|thread| child_log.string(*thread));
    assert_eq!(threads.collect::<Vec<_>>(), ["f", "p"]);
    assert!(
        child_log
            .scopes
            .iter()
            .all(|scope| child_log.string(scope.session) == "f" && !scope.is_sidechain)
    );
}

#[test]
fn a_spawned_thread_that_keeps_only_rows_and_prompts_repeats_no_call() {
    let parent_log = read(&jsonl(&parent()));
    let spawn = json!({"id": "s", "cwd": "/w", "source": {"subagent": {"thread_spawn": {"parent_thread_id": "p", "depth": 1}}}});
    let mut child = vec![line("session_meta", spawn)];
    let is_kept = |line: &&Value| line["type"] != "response_item" || line["payload"]["role"] == "user";
    child.extend(parent().iter().filter(is_kept).cloned());
    child.extend([prompt("task"), answer("done"), counts((350, 35), (50, 5))]);
    let child_log = read(&jsonl(&child));
    let messages = |log: &Log| log.responses.iter().map(|line| line.message).collect::<Vec<_>>();
    let (own, copies) = (messages(&parent_log), messages(&child_log));
    assert_eq!(copies.iter().filter(|message| own.contains(message)).count(), 2);
    let scope = &child_log.scopes[0];
    assert!(scope.is_sidechain);
    assert_eq!(
        (child_log.string(scope.session), child_log.string(scope.agent)),
        ("p", "s")
    );
}

#[test]
fn a_spawned_thread_with_equal_counts_is_no_copy() {
    let parent_log = read(&jsonl(&parent()));
    let own = vec![
        line("session_meta", json!({"id": "s", "parent_thread_id": "p", "cwd": "/w"})),
        prompt("another task"),
        answer("one"),
        counts((100, 10), (100, 10)),
    ];
    let child_log = read(&jsonl(&own));
    let parent_ids = ids(&parent_log);
    assert!(ids(&child_log).iter().all(|id| !parent_ids.contains(id)));
}

#[test]
fn a_patch_edits_every_file_it_names() {
    let patch =
        "*** Begin Patch\n*** Update File: a.rs\n@@\n-old line\n+new line\n*** Add File: b.rs\n+text\n*** End Patch";
    let log = read(&jsonl(&[
        head("t"),
        prompt("go"),
        item(json!({"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": patch})),
        counts((100, 10), (100, 10)),
        item(
            json!({"type": "custom_tool_call_output", "call_id": "c", "output": "{\"output\":\"Success\",\"metadata\":{\"exit_code\":0}}"}),
        ),
    ]));
    let results = log.blocks.iter().filter(|block| block.kind == BlockKind::ToolResult);
    let results = results.map(|block| (log.string(block.name), log.string(block.path), block.is_error));
    let expected = [("apply_patch", "/w/a.rs", false), ("apply_patch", "/w/b.rs", false)];
    assert_eq!(results.collect::<Vec<_>>(), expected);
}

#[test]
fn damage_in_one_line_never_reaches_another() {
    let mut bytes = jsonl(&[head("t"), prompt("go")]);
    bytes.extend_from_slice(b"{\"timestamp\":\"2026-05-05T16:20:24.754Z\",\"type\":\"response_item\",\"payl\n");
    bytes.extend_from_slice(&jsonl(&[answer("one \u{1f600}"), counts((100, 10), (100, 10))]));
    bytes.extend_from_slice(b"{\"timestamp\":\"2026-05-05T16:2");
    let log = read(&bytes);
    assert_eq!(billed(&log), [(100, 10)]);
    let problems = log.problems.iter().map(|problem| (problem.kind, problem.line));
    let expected = [(LineProblemKind::Malformed, 3), (LineProblemKind::TornTail, 6)];
    assert_eq!(problems.collect::<Vec<_>>(), expected);
    assert_eq!(log.records.last().unwrap().line, 4);
}

#[test]
fn messages_have_the_lines_they_come_from() {
    let bytes = jsonl(&parent());
    let selection = PartSelection {
        every_call: true,
        results: true,
        ..PartSelection::default()
    };
    let mut messages = MessageReader::new(selection, 1 << 20, &|_| ());
    let mut reader = AgentReader::new(&mut messages);
    reader.take_lines(&bytes, 0);
    reader.finish();
    let lines = messages.messages.iter().map(|message| message.line).collect::<Vec<_>>();
    assert_eq!(lines, [2, 3, 5, 6, 8]);
    let call = &messages.messages[3].parts[0];
    assert!(
        matches!(call, MessagePart::Call { name, input, .. } if name == "exec_command" && input["command"] == "ls")
    );
    let log = read(&bytes);
    let uuids = messages.messages.iter().map(|message| message.uuid.clone());
    assert!(uuids.eq(log.records.iter().map(|record| record.id.to_string())));
}

#[test]
fn the_first_versions_of_codex_wrote_bare_items() {
    let log = read(&jsonl(&[
        json!({"id": "t", "timestamp": "2025-06-05T16:20:24.754Z", "instructions": null}),
        json!({"record_type": "state"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}),
        json!({"type": "function_call", "name": "shell", "call_id": "c", "arguments": "{\"command\":[\"ls\"]}"}),
        json!({"type": "function_call_output", "call_id": "c", "output": "a.rs"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}),
    ]));
    assert_eq!((log.agent, log.records.len()), (Agent::Codex, 4));
    assert!(log.problems.is_empty() && billed(&log).is_empty());
    assert!(
        log.records
            .iter()
            .all(|record| record.time == log.records[0].time && record.time > 0),
        "the time of the head"
    );
}

#[test]
fn a_log_of_an_agent_that_is_not_read_is_named() {
    let message = json!({"role": "model", "parts": [{"text": "done"}]});
    let log = read(&jsonl(&[
        json!({"uuid": "u", "parentUuid": null, "sessionId": "s", "type": "assistant", "message": message,
               "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5}}),
    ]));
    assert!(log.records.is_empty());
    let problems = log.problems.iter().map(|problem| problem.kind);
    assert_eq!(problems.collect::<Vec<_>>(), [LineProblemKind::OtherAgent]);
}

#[test]
fn an_export_of_opencode_is_read_whatever_its_layout() {
    let tool = json!({"type": "tool", "tool": "read", "callID": "c1", "state": {"status": "completed",
        "input": {"filePath": "/w/a.rs"}, "output": "text", "time": {"start": 2, "end": 3}}});
    let tokens = json!({"input": 100, "output": 10, "reasoning": 5, "cache": {"read": 50, "write": 7}});
    let export = json!({
        "info": {"id": "ses_2", "directory": "/w", "version": "1.18.4", "parentID": "ses_1", "title": "A task"},
        "messages": [
            {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "go"}]},
            {"info": {"id": "msg_2", "role": "assistant", "modelID": "m", "tokens": tokens, "time": {"created": 2}},
             "parts": [{"type": "step-start"}, {"type": "reasoning", "text": "hm"}, tool, {"type": "step-finish", "tokens": tokens}]},
        ]
    });
    let compact = export.to_string();
    let pretty = serde_json::to_string_pretty(&export).unwrap();
    for text in [&compact, &pretty] {
        let log = read(text.as_bytes());
        assert_eq!(log.agent, Agent::OpenCode);
        assert_eq!(billed(&log), [(157, 15)]);
        assert!(log.problems.is_empty(), "{:?}", log.problems);
        let result = log
            .blocks
            .iter()
            .find(|block| block.kind == BlockKind::ToolResult)
            .unwrap();
        assert_eq!(log.string(result.path), "/w/a.rs");
        let scope = &log.scopes[0];
        assert_eq!((log.string(scope.session), log.string(scope.agent)), ("ses_1", "ses_2"));
    }
    let cut = read(&pretty.as_bytes()[..pretty.len() - 60]);
    assert_eq!(cut.problems.len(), 1);
    assert_eq!(cut.problems[0].kind, LineProblemKind::TornTail);
    assert_eq!(cut.records.len(), 1, "the whole message counts");
}

#[test]
fn a_session_of_pi_is_a_tree() {
    let message = |id: &str, parent: &str, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-07-17T17:44:23.440Z", "message": message});
    let usage = json!({"input": 10, "output": 5, "cacheRead": 20, "cacheWrite": 0, "totalTokens": 35});
    let call = json!({"type": "toolCall", "id": "c", "name": "read", "arguments": {"path": "/w/a.rs"}});
    let log = read(&jsonl(&[
        json!({"type": "session", "version": 3, "id": "019f-x", "timestamp": "2026-07-17T17:44:20.000Z", "cwd": "/w"}),
        message(
            "a",
            "",
            json!({"role": "user", "content": [{"type": "text", "text": "go"}]}),
        ),
        message(
            "b",
            "a",
            json!({"role": "assistant", "model": "m", "content": [call], "usage": usage, "stopReason": "toolUse"}),
        ),
        message(
            "c",
            "b",
            json!({"role": "toolResult", "toolCallId": "c", "content": [{"type": "text", "text": "x"}]}),
        ),
        json!({"type": "compaction", "id": "d", "parentId": "c", "timestamp": "2026-07-17T17:44:24.000Z",
               "summary": "so far", "tokensBefore": 35, "firstKeptEntryId": "b"}),
        message("e", "d", json!({"role": "user", "content": "more"})),
    ]));
    assert_eq!(log.agent, Agent::Pi);
    assert_eq!(billed(&log), [(30, 5)]);
    assert_eq!(log.boundaries[0].kept.len(), 2);
    assert!(log.problems.is_empty());
    use crate::log::RecordLink::Here;
    assert_eq!(log.records.last().unwrap().parent, Here(4), "after the summary");
}

/// Cuts a log everywhere: what was accepted before the cut stays, and nothing panics.
fn check_cuts(bytes: &[u8]) {
    let whole = ids(&read(bytes));
    for end in 0..bytes.len() {
        let cut = read(&bytes[..end]);
        let found = ids(&cut);
        assert!(found.len() <= whole.len() + 1, "cut at {end}");
        let known = found.iter().filter(|id| whole.contains(id)).count();
        // The last response may have lost the row that names it.
        assert!(known + 1 >= found.len(), "cut at {end}");
    }
}

#[test]
fn logs_may_be_cut_anywhere() {
    check_cuts(&jsonl(&parent()));
    let export = json!({"info": {"id": "ses_1", "directory": "/w"}, "messages": [
        {"info": {"id": "msg_1", "role": "user", "time": {"created": 1}}, "parts": [{"type": "text", "text": "go"}]},
        {"info": {"id": "msg_2", "role": "assistant", "modelID": "m", "time": {"created": 2}}, "parts": [{"type": "text", "text": "x"}]}]});
    check_cuts(serde_json::to_string_pretty(&export).unwrap().as_bytes());
    check_cuts(&jsonl(&[
        json!({"type": "session", "version": 3, "id": "x", "timestamp": "2026-07-17T17:44:20.000Z", "cwd": "/w"}),
        json!({"type": "message", "id": "a", "parentId": null, "timestamp": "2026-07-17T17:44:20.000Z",
               "message": {"role": "user", "content": "go"}}),
    ]));
}

#[test]
fn a_line_that_the_walker_declines_says_the_same() {
    // A raw control character and an escape in a key: both are read by the slow path.
    let plain = jsonl(&parent());
    let text = String::from_utf8(plain.clone()).unwrap();
    let odd = text.replace("\"content\"", "\"con\\u0074ent\"");
    assert_ne!(odd, text);
    let (plain, odd) = (read(&plain), read(odd.as_bytes()));
    assert_eq!(plain.blocks.len(), odd.blocks.len());
    assert_eq!(plain.responses.len(), odd.responses.len());
    assert_eq!(billed(&plain), billed(&odd));
    assert!(odd.problems.is_empty(), "{:?}", odd.problems);
}
