//! The fast path reads exactly what the slow path reads, or declines the line.

use super::*;
use crate::record::{WireRecord, read};
use crate::skim::{PortableScanner, StringScanner};

fn debug_string(record: WireRecord<'_>) -> String {
    format!("{record:?}")
}

fn read_by_tape(line: &str) -> Option<String> {
    let mut bytes = line.as_bytes().to_vec();
    let tape = simd_json::to_tape(&mut bytes).ok()?;
    let mut record = WireRecord::default();
    read(&mut TapeParser::new(&tape.0), &mut record).ok()?;
    Some(debug_string(record))
}

/// Reads the lines with one parser. `padding` bytes follow the last line so that it takes the fast paths too, which
/// need a few bytes of slack.
fn read_by_raw<S: StringScanner>(lines: &[&str], padding: usize) -> Vec<Option<String>> {
    let mut text = lines.join("\n");
    if padding > 0 {
        text.push('\n');
        text.extend(std::iter::repeat_n('7', padding));
    }
    let mut raw = RawParser::<S>::new(text.as_bytes(), 0);
    let mut start = 0;
    let mut found = Vec::new();
    for line in lines {
        raw.restart(start);
        let mut record = WireRecord::default();
        let end = read(&mut raw, &mut record).and_then(|()| raw.end_of_line());
        assert!(raw.position() <= start + line.len(), "reads beyond its line: {line}");
        start += line.len() + 1;
        assert!(end.is_err() || end == Ok(start.min(text.len())), "{line}");
        found.push(end.is_ok().then(|| debug_string(record)));
    }
    found
}

fn read_by_both_scanners(lines: &[&str], padding: usize) -> Vec<Option<String>> {
    let found = read_by_raw::<PortableScanner>(lines, padding);
    #[cfg(target_arch = "x86_64")]
    if crate::skim::Avx2Scanner::is_available() {
        assert_eq!(found, read_by_raw::<crate::skim::Avx2Scanner>(lines, padding));
    }
    found
}

/// Reads the lines in sequence and each one alone. `true` means that the fast path must accept the line in sequence.
/// Whatever it accepts must equal what simd-json reads.
fn check(lines: &[(bool, &str)]) {
    let texts = lines.iter().map(|(_, line)| *line).collect::<Vec<_>>();
    for padding in [0, 1, 20, 100] {
        let found = read_by_both_scanners(&texts, padding);
        for ((is_read, line), found) in lines.iter().zip(found) {
            let slow = read_by_tape(line);
            let alone = read_by_both_scanners(&[line], padding).swap_remove(0);
            assert_eq!(found.is_some(), *is_read, "{line}");
            assert!(alone.is_some() || !is_read, "{line}");
            for fast in [found, alone].into_iter().flatten() {
                assert_eq!(Some(fast), slow, "{line}");
            }
        }
    }
}

#[test]
fn counts_are_integers_of_any_length() {
    let digits = "12345678901234567890";
    let mut numbers = (1..=20)
        .map(|length| (length <= 15, &digits[..length], digits[..length].parse().ok()))
        .collect::<Vec<(bool, &str, Option<u64>)>>();
    numbers.extend([
        (true, "0", Some(0)),
        (true, "-0", Some(0)),
        (true, "9", Some(9)),
        (true, "9999999", Some(9_999_999)),
        (true, "10000000", Some(10_000_000)),
        (true, "99999999", Some(99_999_999)),
        (true, "1000001", Some(1_000_001)),
        (true, "999999999999999", Some(999_999_999_999_999)),
        (false, "18446744073709551615", Some(u64::MAX)),
        (false, "18446744073709551616", None),
        (false, "123456789012345678901234567890", None),
        (true, "-1", None),
        (true, "-1234567", None),
        (false, "-9223372036854775808", None),
        (false, "-9223372036854775809", None),
        (true, "0.5", None),
        (true, "12.0", None),
        (true, "-0.0", None),
        (true, "1234567.5", None),
        (false, "1e5", None),
        (false, "1E+2", None),
        (false, "1.5e-3", None),
    ]);
    for (is_read, number, count) in numbers {
        for (before, after) in [
            ("", ""),
            ("", ",\"postTokens\":7"),
            (" ", " "),
            ("", "\t,\"postTokens\":7"),
        ] {
            let line = format!("{{\"compactMetadata\":{{\"preTokens\":{before}{number}{after}}}}}");
            check(&[(is_read, &line)]);
            // The same number skipped, and measured.
            check(&[(is_read, &format!("{{\"x\":{before}{number}{after}}}"))]);
            let input = format!("{{\"message\":{{\"content\":[{{\"input\":{{\"a\":{before}{number}{after}}}}}]}}}}");
            check(&[(is_read, &input)]);
            let slow = read_by_tape(&line).expect(&line);
            let expected = match count {
                Some(count) => format!("pre_tokens: Some({count})"),
                None => "pre_tokens: None".to_owned(),
            };
            assert!(slow.contains(&expected), "{line} {slow}");
        }
    }
    for wrong in [
        "01", "00", "-01", "1.", ".5", "+1", "-", "1a", "1:", "12/", "1;", "1 2", "1\"", "0x1", "1..2", "1e", "",
    ] {
        let line = format!("{{\"compactMetadata\":{{\"preTokens\":{wrong},\"postTokens\":7}}}}");
        assert_eq!(read_by_tape(&line), None, "{line}");
        check(&[(false, &line), (false, &format!("{{\"x\":{wrong}}}"))]);
    }
}

#[test]
fn a_scope_run_is_reused_only_if_identical() {
    let scope_run = |branch: &str, rest: &str| {
        format!(
            "{{\"type\":\"user\",\"userType\":\"external\",\"entrypoint\":\"cli\",\"cwd\":\"/home\",\
             \"sessionId\":\"s\",\"version\":\"1.2\",\"gitBranch\":{branch}{rest}}}"
        )
    };
    let long = format!("\"{}\"", "long/".repeat(30));
    // Each line is read after all lines above it.
    for lines in [
        [
            (true, scope_run("\"main\"", "")),
            (true, scope_run("\"main\"", ",\"uuid\":\"u\"")),
            (true, scope_run("\"main2\"", "")),
            (true, scope_run("\"main\"", "")),
            (true, scope_run("\"mai\"", "")),
            (true, scope_run("\"main\\n\"", "")),
            (true, scope_run("\"main\\n\"", ",\"isMeta\":true")),
            (true, scope_run("\"m\\u0061in\"", "")),
        ],
        [
            (true, scope_run("\"main\"", ",\"slug\":\"a\"")),
            (true, scope_run("\"main\"", ",\"slug\":\"a\"")),
            (true, scope_run("\"main\"", ",\"slug\":\"ab\"")),
            (true, scope_run("\"main\"", ",\"slug\":\"a\",\"cwd\":\"/later\"")),
            (true, scope_run("\"main\"", ",\"slug\":\"a\",\"sessionId\":null")),
            (true, scope_run("\"main\"", ",\"slugs\":\"a\"")),
            (true, scope_run("\"main\"", ",\"slug\":\"a\\\"\"")),
            (true, scope_run("\"main\"", ",\"slug\": \"a\"")),
        ],
        // A number that continues after the memoized run is left to the slow path.
        [
            (true, scope_run("1", "")),
            (false, scope_run("12", "")),
            (false, scope_run("1.5", "")),
            (true, scope_run("1", ",\"uuid\":\"u\"")),
            (true, scope_run("-1", "")),
            (true, scope_run("null", "")),
            (false, scope_run("nullx", "")),
            (true, scope_run("null", "")),
        ],
        [
            (true, scope_run("null", ",\"slug\":3")),
            (true, scope_run("null", ",\"slug\":3,\"type\":\"x\"")),
            (false, scope_run("null", ",\"slug\":31")),
            (true, scope_run(&long, "")),
            (true, scope_run(&long, ",\"uuid\":\"u\"")),
            (true, scope_run("{\"a\":[1,{}]}", "")),
            (true, scope_run("{\"a\":[1,{}]}", "")),
            (false, scope_run("{\"a\":[1,{}]}]", "")),
        ],
    ] {
        check(&lines.each_ref().map(|(is_read, line)| (*is_read, line.as_str())));
    }
}

#[test]
fn a_usage_is_reused_only_if_identical() {
    let line = |usage: &str| format!(r#"{{"type":"assistant","message":{{"id":"m","usage":{usage}}},"uuid":"u"}}"#);
    let deep = |depth: usize| format!(r#"{{"input_tokens":1,"x":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
    let nested = |usage: &str| {
        format!(r#"{{"type":"progress","data":{{"message":{{"message":{{"usage":{usage}}}}}}},"uuid":"u"}}"#)
    };
    let one = r#"{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}"#;
    let listed = r#"{"input_tokens":0,"output_tokens":0,"iterations":[{"type":"message","input_tokens":7},{"output_tokens":9}]}"#;
    let nearly = &one[..one.len() - 1];
    check(&[
        (true, &line(one)),
        (true, &line(one)),
        (true, &line(&format!("{nearly}0}}"))),
        (true, &line(&format!("{nearly},\"cache_creation_input_tokens\":4}}"))),
        (true, &line(listed)),
        (true, &line(listed)),
        (true, &nested(listed)),
        (true, &nested(one)),
        (true, &line(one)),
        (true, &line("null")),
        (true, &line(one)),
        (false, &line(nearly)),
        (false, &line(&format!("{one}}}"))),
        (true, &line(one)),
    ]);
    // An object at the depth limit is too deep where it is nested deeper.
    let most = MAX_DEPTH - 3;
    check(&[
        (true, &line(&deep(most))),
        (true, &line(&deep(most))),
        (false, &line(&deep(most + 1))),
        (false, &nested(&deep(most))),
        (true, &line(&deep(most))),
    ]);
}

#[test]
fn scope_members_may_come_in_any_order() {
    let usual = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
    let early = format!(r#"{{"cwd":"/early","sessionId":"early",{usual},"uuid":"u"}}"#);
    let late = format!(r#"{{{usual},"version":"late","cwd":5,"uuid":"u"}}"#);
    let twice = format!(r#"{{{usual},"cwd":"/between",{usual}}}"#);
    let nested = format!(r#"{{{usual},"data":{{{usual},"agentId":"a"}},"message":{{{usual}}}}}"#);
    let first = format!("{{{usual}}}");
    check(&[
        (true, &early),
        (true, &first),
        (true, &early),
        (true, &late),
        (true, &twice),
        (true, &nested),
        (true, r#"{"userType":"external","sessionId":"t","cwd":"/b","uuid":"u"}"#),
        (true, r#"{"userType":"external","cwd":"/c"}"#),
        (true, r#"{"cwd":"/d","userType":"external"}"#),
        (
            true,
            r#"{"userType":null,"cwd":null,"sessionId":true,"version":1,"gitBranch":[]}"#,
        ),
        (
            true,
            r#"{"userType":null,"cwd":null,"sessionId":true,"version":1,"gitBranch":[],"cwd":"/e"}"#,
        ),
        (
            true,
            r#"{"userType":{"cwd":"/no"},"cwd":"C:\\f","sessionId":"s","version":"1","gitBranch":"\u0067"}"#,
        ),
        (
            true,
            r#"{"userType":{"cwd":"/no"},"cwd":"C:\\f","sessionId":"s","version":"1","gitBranch":"\u0067"}"#,
        ),
        (true, &first),
    ]);
}

/// Lines as several versions of the client write them.
fn common_lines() -> Vec<String> {
    let scope_run = r#""userType":"external","cwd":"/a","sessionId":"s","version":"1","gitBranch":"main""#;
    let head = format!(r#"{{"parentUuid":"p","isSidechain":false,{scope_run},"slug":"x""#);
    let usage = concat!(
        r#"{"input_tokens":5,"cache_creation_input_tokens":6,"cache_read_input_tokens":7,"#,
        r#""cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":4},"output_tokens":8,"#,
        r#""service_tier":"standard"}"#
    );
    let answer = |block: &str, stop: &str| {
        format!(
            r#"{{"model":"m","id":"msg","type":"message","role":"assistant","content":[{block}],{stop},"usage":{usage}}}"#
        )
    };
    let result = r#"[{"tool_use_id":"t","type":"tool_result","content":"a\nb","is_error":true}]"#;
    let call = concat!(
        r#"{"type":"tool_use","id":"t","name":"Read","input":{"file_path":"/a/b","limit":3},"#,
        r#""caller":{"type":"direct"}}"#
    );
    let tail = r#""uuid":"u","timestamp":"2026-08-07T16:21:32.976Z""#;
    let stops = [
        r#""stop_reason":null,"stop_sequence":null"#,
        r#""stop_reason":"tool_use","stop_sequence":null"#,
        r#""stop_reason":"end_turn","stop_sequence":null,"stop_details":null"#,
    ];
    let thought = r#"{"type":"thinking","thinking":"so","signature":"Erq"}"#;
    let said = r#"{"type":"text","text":"done"}"#;
    vec![
        format!(
            r#"{head},"message":{},"requestId":"r","type":"assistant",{tail}}}"#,
            answer(said, stops[0])
        ),
        format!(
            r#"{head},"type":"user","message":{{"role":"user","content":{result}}},{tail},"toolUseResult":{{"a":[1]}},"sourceToolAssistantUUID":"q"}}"#
        ),
        format!(
            r#"{{"parentUuid":"p","isSidechain":false,"message":{},"requestId":"r","type":"assistant",{tail},"effort":"high","session_id":"s",{scope_run}}}"#,
            answer(call, stops[2])
        ),
        format!(
            r#"{{"parentUuid":null,"isSidechain":true,{scope_run},"agentId":"g","slug":"x","message":{},"type":"assistant",{tail}}}"#,
            answer(thought, stops[1])
        ),
        format!(
            r#"{{"parentUuid":"p","isSidechain":false,"promptId":"i","type":"user","message":{{"role":"user","content":"go"}},{tail},"session_id":"s",{scope_run}}}"#
        ),
        format!(
            r#"{head},"type":"progress","data":{{"type":"hook_progress","hookName":"h"}},"parentToolUseID":"t","toolUseID":"t",{tail}}}"#
        ),
    ]
}

#[test]
fn common_lines_read_alike_by_both_parsers() {
    let lines = common_lines();
    check(&lines.iter().map(|line| (true, line.as_str())).collect::<Vec<_>>());
    for line in &lines {
        assert!(line.is_ascii());
        for at in 0..line.len() {
            let (before, after) = line.split_at(at);
            for change in ["", "x", "\"", "}", ",", " ", "5", "\\"] {
                let changed = format!("{before}{change}{}", &after[1..]);
                let found = read_by_both_scanners(&[line, &changed], 100).swap_remove(1);
                assert!(found.is_none() || found == read_by_tape(&changed), "{changed}");
            }
        }
    }
}

#[test]
fn common_objects_respect_the_depth_limit() {
    let deep = |depth: usize| {
        let usage = format!(r#"{{"input_tokens":{}{}}}"#, "[".repeat(depth), "]".repeat(depth));
        format!(r#"{{"parentUuid":"p","message":{{"model":"m","usage":{usage}}}}}"#)
    };
    let (most, more) = (deep(MAX_DEPTH - 3), deep(MAX_DEPTH - 2));
    assert!(read_by_both_scanners(&[&most], 100)[0].is_some());
    assert!(read_by_both_scanners(&[&more], 100)[0].is_none());
}

#[test]
fn keys_come_in_any_order_and_the_last_duplicate_wins() {
    check(&[
        (true, "{}"),
        (true, r#"{"":1,"uuid":"a"}"#),
        (
            true,
            r#"{"uuid":"a","type":"user","isSidechain":true,"parentUuid":"p"}"#,
        ),
        (
            true,
            r#"{"isSidechain":true,"type":"user","uuid":"a","timestamp":"t","uuid":"b"}"#,
        ),
        (true, r#"{"type":"user","type":"assistant","uuid":"a","uuid":null}"#),
        (true, r#"{"uuid":"a","uuidx":"b","uui":"c","typ":"d","types":"e"}"#),
        (
            true,
            r#"{"message":{"id":"1","model":"m"},"message":{"model":"n"},"type":"x"}"#,
        ),
        (
            true,
            r#"{"message":{"id":"1","usage":{"input_tokens":1}},"message":null}"#,
        ),
        (
            true,
            r#"{"message":{"usage":{"output_tokens":1,"input_tokens":2,"output_tokens":30,
"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":4,"ephemeral_1h_input_tokens":5},
"cache_read_input_tokens":6,"cache_creation_input_tokens":70,"iterations":[{"type":"message","input_tokens":8},
{"output_tokens":9,"input_tokens":1,"type":"message"},7],"speed":"x"},"id":"i"}}"#
                .replace('\n', "")
                .as_str(),
        ),
        (
            true,
            r#"{"message":{"usage":{"input_tokens":1},"usage":{"output_tokens":2},"usage":{}}}"#,
        ),
        (
            true,
            r#"{"message":{"content":"one","content":[{"text":"two","type":"text"},3],"role":"r"}}"#,
        ),
        (
            true,
            r#"{"message":{"content":[{"input":{"path":"a","limit":3},"id":"t","input":{"offset":4,"command":"c"}}]}}"#,
        ),
        (true, r#"{"content":"a\nb","content":"tab\t"}"#),
    ]);
}

#[test]
fn values_of_other_kinds_are_skipped() {
    let values = [
        "null",
        "true",
        "false",
        "5",
        "-2.5",
        "{}",
        "[]",
        r#"{"a":[null]}"#,
        r#"["x",{"y":1}]"#,
        r#""s""#,
    ];
    for value in values {
        for key in [
            "type",
            "uuid",
            "cwd",
            "isMeta",
            "isSidechain",
            "message",
            "content",
            "attachment",
            "data",
            "userType",
            "compactMetadata",
            "other",
        ] {
            check(&[
                (true, &format!(r#"{{"{key}":{value}}}"#)),
                (
                    true,
                    &format!(r#"{{"version":"v","{key}":{value},"timestamp":"t","requestId":null}}"#),
                ),
                (true, &format!(r#"{{ "{key}" : {value} , "timestamp" :"t"}} "#)),
                (false, &format!(r#"{{"{key}":{value}x,"timestamp":"t"}}"#)),
                (false, &format!(r#"{{"{key}":{value},}}"#)),
                (false, &format!(r#"{{"{key}":{value}"timestamp":"t"}}"#)),
                (false, &format!(r#"{{"{key}"{value}}}"#)),
            ]);
        }
        for key in ["id", "model", "stop_reason", "usage", "content", "role"] {
            check(&[(true, &format!(r#"{{"message":{{"{key}":{value},"type":"t"}}}}"#))]);
        }
        for key in [
            "type",
            "id",
            "name",
            "input",
            "text",
            "thinking",
            "signature",
            "content",
            "is_error",
        ] {
            check(&[(
                true,
                &format!(r#"{{"message":{{"content":[{{"{key}":{value},"x":1}}]}}}}"#),
            )]);
        }
        for key in [
            "input_tokens",
            "output_tokens",
            "cache_creation",
            "iterations",
            "service_tier",
        ] {
            check(&[(
                true,
                &format!(r#"{{"message":{{"usage":{{"{key}":{value},"speed":1}}}}}}"#),
            )]);
        }
    }
}

#[test]
fn escaped_keys_of_read_objects_are_declined() {
    check(&[
        (false, r#"{"\u0075uid":"a"}"#),
        (false, r#"{"uuid":"a","t\u0079pe":"user"}"#),
        (false, r#"{"message":{"\u0069d":"a"}}"#),
        (false, r#"{"message":{"content":[{"input":{"a\nb":1}}]}}"#),
        (true, r#"{"x":{"\u0069d":"a","b\\":[{"\"":1}]},"uuid":"a"}"#),
        (true, r#"{"message":{"content":[{"input":{"x":{"a\nb":1}}}]}}"#),
        (false, r#"{"x":{"\q":1}}"#),
    ]);
    assert!(
        read_by_tape(r#"{"\u0075uid":"of an escaped key"}"#).is_some_and(|shown| shown.contains("of an escaped key"))
    );
}
