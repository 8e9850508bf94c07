//! Shared by the fuzz targets: a generator that turns the fuzzer's bytes into lines that look like records.

pub mod memory;

pub use libfuzzer_sys::arbitrary::Unstructured;
use transcript::json::JsonStr;
use transcript::record::WireRecord;

/// Keys that are read somewhere in a record, and a few that are not.
const KEYS: &[&str] = &[
    "type",
    "subtype",
    "uuid",
    "parentUuid",
    "logicalParentUuid",
    "sessionId",
    "agentId",
    "version",
    "cwd",
    "gitBranch",
    "timestamp",
    "requestId",
    "isSidechain",
    "isMeta",
    "isCompactSummary",
    "isApiErrorMessage",
    "message",
    "attachment",
    "content",
    "compactMetadata",
    "microcompactMetadata",
    "data",
    "toolUseResult",
    "id",
    "model",
    "stop_reason",
    "usage",
    "iterations",
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "cache_creation",
    "ephemeral_1h_input_tokens",
    "tool_use_id",
    "name",
    "text",
    "thinking",
    "signature",
    "input",
    "is_error",
    "file_path",
    "command",
    "offset",
    "limit",
    "source",
    "hookName",
    "filename",
    "skills",
    "file",
    "preTokens",
    "preservedSegment",
    "preservedMessages",
    "uuids",
    "compactedToolIds",
    "userType",
    "entrypoint",
    "slug",
    "",
];

/// Members that the client writes as one run, byte-identical on every line of a session.
const SCOPE_MEMBERS: &[&str] = &["entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug"];

/// String values of records, as they are written in JSON.
const TEXTS: &[&str] = &[
    "user",
    "assistant",
    "system",
    "progress",
    "attachment",
    "compact_boundary",
    "microcompact_boundary",
    "message",
    "text",
    "thinking",
    "tool_use",
    "tool_result",
    "image",
    "Read",
    "Bash",
    "end_turn",
    "auto",
    "claude-opus-4-5",
    "2026-01-02T03:04:05.678Z",
    "6f9619ff-8b86-4d01-b42d-00cf4fc964ff",
    "größer 漢字 😀",
    "a\\nb\\\"c\\\\\\t",
    "\\u0041\\u0007\\u00e9\\u6f22",
    "\\ud83d\\ude00\\/",
];

/// Bytes that no client writes but that a damaged line may contain.
const ODDITIES: &[&[u8]] = &[
    b"\\ud83d",
    b"\\udc00\\ud83d",
    b"\\u12g4",
    b"\\x",
    b"\\",
    b"\"",
    b"\xff",
    b"\xe6\xbc",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\0",
    b"\x07",
    b"\t",
    b"\r",
    b"{",
    b"}",
    b"[",
    b"]",
    b"\xef\xbb\xbf",
    b"}{",
    b",",
    b"\\u+123",
];

const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "17",
    "-1",
    "123456789012345",
    "1234567890123456",
    "18446744073709551615",
    "18446744073709551616",
    "9223372036854775808",
    "-9223372036854775809",
    "0.1",
    "1.0",
    "-0.0",
    "123456.789012345678901234567890",
    "1e5",
    "1E400",
    "1e-400",
    "0.30000000000000004",
    "01",
    "1.",
    "2.2250738585072011",
];

/// Writes the inside of a string.
fn write_text(input: &mut Unstructured<'_>, line: &mut Vec<u8>, is_odd: bool) {
    for _ in 0..input.int_in_range(0..=3).unwrap_or(0) {
        match input.int_in_range(0..=7).unwrap_or(0) {
            0..=3 => line.extend_from_slice(pick(input, TEXTS).as_bytes()),
            4 => {
                let filler = pick(input, &["x", " ", "\\n", "é", "漢", "😀", "\\u00e9", "\\\\"]);
                let count = input.int_in_range(0..=140).unwrap_or(0);
                line.extend(std::iter::repeat_n(filler.as_bytes(), count).flatten());
            }
            5 if is_odd => line.extend_from_slice(pick(input, ODDITIES)),
            6 if is_odd => {
                let length = input.int_in_range(0..=8).unwrap_or(0);
                line.extend_from_slice(input.bytes(length.min(input.len())).unwrap_or_default());
            }
            _ => line.extend(input.arbitrary::<u8>().ok().filter(|byte| byte.is_ascii_alphanumeric())),
        }
    }
}

fn pick<'a, T: ?Sized>(input: &mut Unstructured<'_>, from: &[&'a T]) -> &'a T {
    from[input.int_in_range(0..=from.len() - 1).unwrap_or(0)]
}

fn write_blank(input: &mut Unstructured<'_>, line: &mut Vec<u8>) {
    if input.ratio(1, 24).unwrap_or(false) {
        line.extend_from_slice(pick(input, &[" ", "\t", "\r", "  "]).as_bytes());
    }
}

/// Writes a value; with `is_odd`, occasionally one that is not valid JSON.
pub fn write_value(input: &mut Unstructured<'_>, line: &mut Vec<u8>, depth: usize, is_odd: bool) {
    write_blank(input, line);
    if input.is_empty() {
        line.extend_from_slice(b"null");
        return;
    }
    match input.int_in_range(0..=11).unwrap_or(0) {
        0..=3 => {
            line.push(b'"');
            write_text(input, line, is_odd);
            line.push(b'"');
        }
        4 | 5 => line.extend_from_slice(pick(input, if is_odd { NUMBERS } else { &NUMBERS[..16] }).as_bytes()),
        6 => line.extend_from_slice(pick(input, &["true", "false", "null"]).as_bytes()),
        7 | 8 if depth > 0 => {
            line.push(b'[');
            for at in 0..input.int_in_range(0..=4).unwrap_or(0) {
                if at > 0 {
                    line.push(b',');
                }
                write_value(input, line, depth - 1, is_odd);
            }
            write_blank(input, line);
            line.push(b']');
        }
        9 if input.ratio(1, 8).unwrap_or(false) => {
            let deep = input.int_in_range(0..=140).unwrap_or(0);
            line.extend(std::iter::repeat_n(b'[', deep));
            line.extend(std::iter::repeat_n(b']', deep));
            if deep == 0 {
                line.push(b'0');
            }
        }
        _ if depth > 0 => write_object(input, line, depth - 1, is_odd),
        _ => line.extend_from_slice(b"{}"),
    }
    if is_odd && input.ratio(1, 64).unwrap_or(false) {
        line.extend_from_slice(pick(input, ODDITIES));
    }
    write_blank(input, line);
}

/// Writes an object with the keys of a record.
pub fn write_object(input: &mut Unstructured<'_>, line: &mut Vec<u8>, depth: usize, is_odd: bool) {
    line.push(b'{');
    for at in 0..input.int_in_range(0..=8).unwrap_or(0) {
        if at > 0 {
            line.push(b',');
        }
        write_blank(input, line);
        let key = pick(input, KEYS);
        line.push(b'"');
        line.extend_from_slice(key.as_bytes());
        if is_odd && input.ratio(1, 32).unwrap_or(false) {
            write_text(input, line, is_odd);
        }
        line.extend_from_slice(b"\":");
        // Give most keys a value of the expected kind, or little of a record would ever be read.
        let is_expected = input.ratio(3, 4).unwrap_or(false) && depth > 0;
        match key {
            "userType" if is_expected => {
                write_value(input, line, 0, is_odd);
                for key in SCOPE_MEMBERS {
                    if input.ratio(1, 8).unwrap_or(false) {
                        continue;
                    }
                    line.extend_from_slice(format!(",\"{key}\":").as_bytes());
                    write_value(input, line, 1, is_odd);
                }
            }
            "message"
            | "usage"
            | "cache_creation"
            | "input"
            | "attachment"
            | "compactMetadata"
            | "data"
            | "microcompactMetadata"
            | "preservedSegment"
            | "preservedMessages"
                if is_expected =>
            {
                write_object(input, line, depth - 1, is_odd);
            }
            "content" | "iterations" | "uuids" | "compactedToolIds" if is_expected => {
                line.push(b'[');
                for at in 0..input.int_in_range(0..=3).unwrap_or(0) {
                    if at > 0 {
                        line.push(b',');
                    }
                    if key == "content" || key == "iterations" {
                        write_object(input, line, depth - 1, is_odd);
                    } else {
                        write_value(input, line, 0, is_odd);
                    }
                }
                line.push(b']');
            }
            key if is_expected && (key.ends_with("_tokens") || matches!(key, "offset" | "limit" | "preTokens")) => {
                line.extend_from_slice(pick(input, &NUMBERS[..14]).as_bytes());
            }
            _ => write_value(input, line, depth, is_odd),
        }
    }
    line.push(b'}');
}

/// Returns the decoded text of an optional string.
pub fn decoded(text: Option<JsonStr<'_>>) -> Option<String> {
    let mut buffer = String::new();
    text.map(|text| text.decode(&mut buffer).to_owned())
}

/// Returns everything that was read of a record as text. Strings are printed decoded, so records from different parsers
/// compare equal.
pub fn described(record: &WireRecord<'_>) -> String {
    format!("{record:?}")
}

/// Prints the input that a target made of its bytes if `SHOW` is set, to inspect a finding.
pub fn show(bytes: &[u8]) {
    static IS_WANTED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| std::env::var_os("SHOW").is_some());
    if *IS_WANTED {
        eprintln!("{}", bytes.escape_ascii());
    }
}
