//! What the fuzz targets share: a generator of lines that look like records, made from the bytes of the fuzzer.

use transcript::json::Text;
use transcript::record::{Block, Compaction, Message, Record};
pub use libfuzzer_sys::arbitrary::Unstructured;

/// Keys that mean something somewhere in a record, and a few that do not.
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

/// Members that the client writes in a row, the same on every line of a session.
const SETTING: &[&str] = &["entrypoint", "cwd", "sessionId", "version", "gitBranch", "slug"];

/// Values that a record may hold under its keys.
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

/// Things that no client writes but that a line may hold all the same.
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

/// Writes a value. With `is_odd` now and then one that is not JSON.
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
        // The keys that matter mostly hold what they should, else little of a record would ever be read.
        let is_apt = input.ratio(3, 4).unwrap_or(false) && depth > 0;
        match key {
            "userType" if is_apt => {
                write_value(input, line, 0, is_odd);
                for key in SETTING {
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
                if is_apt =>
            {
                write_object(input, line, depth - 1, is_odd);
            }
            "content" | "iterations" | "uuids" | "compactedToolIds" if is_apt => {
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
            key if is_apt && (key.ends_with("_tokens") || matches!(key, "offset" | "limit" | "preTokens")) => {
                line.extend_from_slice(pick(input, &NUMBERS[..14]).as_bytes());
            }
            _ => write_value(input, line, depth, is_odd),
        }
    }
    line.push(b'}');
}

/// A text, decoded.
pub fn decoded(text: Option<Text<'_>>) -> Option<String> {
    let mut buffer = String::new();
    text.map(|text| text.decode(&mut buffer).to_owned())
}

fn all_decoded(texts: &[Text<'_>]) -> Vec<Option<String>> {
    texts.iter().map(|text| decoded(Some(*text))).collect()
}

/// Everything that was read of a record, in a form that can be compared whatever the source was.
pub fn described(record: &Record<'_>) -> String {
    // Taken apart in full, so that a new field cannot be forgotten here.
    let Record {
        kind,
        subtype,
        uuid,
        parent,
        logical_parent,
        session,
        agent,
        version,
        cwd,
        branch,
        // How the record was read, not what it holds.
        setting: _,
        timestamp,
        request,
        is_sidechain,
        is_meta,
        is_compact_summary,
        is_api_error,
        message,
        blocks,
        attachment,
        attachment_shape,
        hook_name_units,
        attachment_path,
        system_shape,
        compaction,
    } = record;
    let Message {
        id,
        model,
        stop_reason,
        usage,
    } = message;
    let texts = [
        kind,
        subtype,
        uuid,
        parent,
        logical_parent,
        session,
        agent,
        version,
        cwd,
        branch,
        timestamp,
        request,
        id,
        model,
        stop_reason,
        attachment,
        attachment_path,
    ]
    .map(|text| decoded(*text));
    let blocks = blocks.iter().map(described_block).collect::<Vec<_>>();
    let compaction = compaction.as_ref().map(|compaction| {
        let Compaction {
            trigger,
            pre_tokens,
            post_tokens,
            tokens_saved,
            duration_ms,
            kept_head,
            kept_tail,
            kept,
            cleared,
        } = compaction;
        let texts = [trigger, kept_head, kept_tail].map(|text| decoded(*text));
        let counts = [pre_tokens, post_tokens, tokens_saved, duration_ms];
        format!(
            "{texts:?} {counts:?} {:?} {:?}",
            all_decoded(kept),
            all_decoded(cleared)
        )
    });
    let flags = [is_sidechain, is_meta, is_compact_summary, is_api_error];
    format!(
        "{texts:?}\n{flags:?} {usage:?}\n{blocks:#?}\n{:?} {hook_name_units} {:?}\n{compaction:?}",
        shape(attachment_shape),
        shape(system_shape)
    )
}

/// The numbers of a shape.
fn shape(shape: &transcript::skim::Shape) -> [u32; 4] {
    [shape.units, shape.escapes, shape.long_escapes, shape.wide]
}

fn described_block(block: &Block<'_>) -> String {
    let Block {
        kind,
        id,
        name,
        shape: own,
        quarters,
        images,
        head,
        signature,
        is_error,
        path,
        offset,
        limit,
        command,
    } = block;
    let texts = [kind, id, name, head, path, command].map(|text| decoded(*text));
    format!(
        "{texts:?} {:?} {quarters} {images} {signature} {is_error} {offset:?} {limit:?}",
        shape(own)
    )
}

/// Prints what a target made of its bytes, when `SHOW` is set: for looking at a finding.
pub fn show(bytes: &[u8]) {
    static IS_WANTED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| std::env::var_os("SHOW").is_some());
    if *IS_WANTED {
        eprintln!("{}", bytes.escape_ascii());
    }
}
