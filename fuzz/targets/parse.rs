//! One line, read by every parser. Whatever the fast path accepts, with either scanner, simd-json and serde_json accept
//! too and read alike, regardless of the lines around it. The fast path may decline anything.
//!
//! The first byte selects whether the rest is the line itself or generates one.

#![no_main]

use backcast_fuzz::{Unstructured, decoded, described, show, write_object};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::Value;
use transcript::json::{RawParser, TapeParser};
use transcript::record::{MAX_COUNT, WireRecord, read};
use transcript::repair::{RejectReason, RepairOutcome, RepairRung, Repairer};
use transcript::skim::{Avx2Scanner, PortableScanner, StringScanner};

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let mut line = Vec::new();
    match how % 4 {
        0 | b'{' => line.extend_from_slice(rest),
        odd => write_object(&mut Unstructured::new(rest), &mut line, 6, odd == 2),
    }
    if how == b'{' {
        // Seeds are lines of a log.
        line = data.to_vec();
    }
    line.retain(|byte| *byte != b'\n');
    show(&line);
    check(&line);
    check_after(&line, data);
});

/// Reads a line by the fast path. Returns `None` if it is declined.
fn read_raw<S: StringScanner>(line: &[u8]) -> Option<String> {
    let mut record = WireRecord::default();
    let mut raw = RawParser::<S>::new(line, 0);
    let accepted = read(&mut raw, &mut record).and_then(|()| raw.end_of_line());
    assert!(raw.position() <= line.len());
    accepted.ok().map(|end| {
        assert_eq!(end, line.len());
        described(&record)
    })
}

fn check(line: &[u8]) {
    let fast = read_raw::<PortableScanner>(line);
    if Avx2Scanner::is_available() {
        assert_eq!(fast, read_raw::<Avx2Scanner>(line), "AVX2 against portable");
    }
    // The bytes after the line must not matter.
    let followed = [line, b"\n{\"uuid\":\"next\"}\n"].concat();
    let mut record = WireRecord::default();
    let mut source = RawParser::<PortableScanner>::new(&followed, 0);
    let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
    assert!(source.position() <= line.len(), "reads beyond its line");
    assert_eq!(
        accepted.ok().map(|_| described(&record)),
        fast,
        "the bytes after the line matter"
    );

    let mut slow = Vec::new();
    let outcome = Repairer::default().read(line, &mut |record| slow.push(described(record)));
    if let Some(fast) = &fast {
        let is_plain = matches!(
            outcome,
            RepairOutcome::Read {
                rung: RepairRung::AsIs | RepairRung::Mended,
                lost: false
            }
        );
        assert!(is_plain, "outcome of the slow path: {outcome:?}");
        assert_eq!(slow.len(), 1);
        assert_eq!(*fast, slow[0], "fast against slow path");
    }

    let repaired = String::from_utf8_lossy(line);
    let value = by_serde(&repaired);
    match (&value, &fast, outcome) {
        (Err(error), Some(_), _) => panic!("serde_json rejects what the fast path accepts: {error}"),
        // simd-json accepts numbers beyond f64 that serde_json rejects.
        (
            Err(error),
            None,
            RepairOutcome::Read {
                rung: RepairRung::AsIs, ..
            },
        ) => {
            assert!(
                error.to_string().contains("number out of range"),
                "serde_json rejects: {error}"
            );
        }
        (Ok(Value::Object(_)), _, outcome) => {
            let is_deep = outcome == RepairOutcome::Rejected(RejectReason::TooDeep);
            let is_read = matches!(outcome, RepairOutcome::Read { lost: false, .. });
            assert!(
                is_read || is_deep,
                "serde_json accepts what the slow path does not: {outcome:?}"
            );
        }
        _ => {}
    }
    if let (Ok(value), Some(_)) = (value, fast) {
        let mut record = WireRecord::default();
        let mut source = RawParser::<PortableScanner>::new(line, 0);
        assert!(read(&mut source, &mut record).is_ok());
        compare(&record, &value);
    }
    // Feed simd-json directly, where its strings are valid UTF-8: the tape parser must never panic.
    let mut bytes = repaired.into_owned().into_bytes();
    if let Ok(tape) = simd_json::to_tape(&mut bytes)
        && !line.windows(3).any(|window| window.eq_ignore_ascii_case(b"\\ud"))
    {
        let _ = read(&mut TapeParser::new(&tape.0), &mut WireRecord::default());
    }
}

/// Reads a line after one with the same start: memoized runs must not change what is read. They may make the fast path
/// decline.
fn check_after(line: &[u8], data: &[u8]) {
    let fresh = read_raw::<PortableScanner>(line);
    for byte in [0, data.len() / 3, data.len() - 1].map(|at| usize::from(data[at])) {
        // 255 selects the whole line.
        let earlier = [&line[..line.len() * byte / 255], b"}\n"].concat();
        let both = [&earlier, line, b"\n"].concat();
        let mut record = WireRecord::default();
        let mut source = RawParser::<PortableScanner>::new(&both, 0);
        let _ = read(&mut source, &mut record);
        assert!(source.position() < earlier.len(), "reads beyond its line");
        source.restart(earlier.len());
        let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
        if accepted.is_ok() {
            assert_eq!(Some(described(&record)), fresh, "an earlier line changed the result");
        }
        // Again after the same line.
        source.restart(earlier.len());
        let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
        if accepted.is_ok() {
            assert_eq!(
                Some(described(&record)),
                fresh,
                "the same line before it changed the result"
            );
        }
    }
}

fn by_serde(text: &str) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    let value = Value::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

/// Compares a few fields that are simple enough to be implemented twice.
fn compare(record: &WireRecord<'_>, value: &Value) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    assert_eq!(decoded(record.uuid), text(&value["uuid"]));
    assert_eq!(decoded(record.kind), text(&value["type"]));
    assert_eq!(decoded(record.session), text(&value["sessionId"]));
    assert_eq!(record.is_meta, value["isMeta"] == Value::Bool(true));
    if value["data"].is_object() {
        // The message nested in a progress record is stored in the same field.
        return;
    }
    let message = &value["message"];
    assert_eq!(decoded(record.message.id), text(&message["id"]));
    let usage = &message["usage"];
    assert_eq!(record.message.usage.is_some(), usage.is_object());
    if let Some(found) = record.message.usage {
        let number = |value: &Value| value.as_u64().filter(|count| *count <= MAX_COUNT).unwrap_or(0);
        let count = |key: &str| number(&usage[key]);
        let split = &usage["cache_creation"];
        let write = match usage.get("cache_creation_input_tokens") {
            Some(write) => number(write),
            None => number(&split["ephemeral_5m_input_tokens"]) + number(&split["ephemeral_1h_input_tokens"]),
        };
        assert_eq!(found.top.input, count("input_tokens"));
        assert_eq!(found.top.output, count("output_tokens"));
        assert_eq!(found.top.cache_read, count("cache_read_input_tokens"));
        assert_eq!(found.top.cache_write, write);
        let calls = usage["iterations"]
            .as_array()
            .map_or(0, |calls| calls.iter().filter(|call| call.is_object()).count());
        assert_eq!(found.iterations as usize, calls);
    }
    match &message["content"] {
        Value::String(text) => assert_eq!(record.blocks[0].shape.units as usize, text.encode_utf16().count()),
        Value::Array(items) => {
            let objects = items.iter().filter_map(Value::as_object).collect::<Vec<_>>();
            assert_eq!(record.blocks.len(), objects.len());
            for (block, object) in record.blocks.iter().zip(objects) {
                // Only if there is a single text: a later one under another key would replace it.
                let texts = ["text", "thinking", "content", "input"].map(|key| object.get(key));
                if let [Some(Value::String(text)), None, None, None] = texts {
                    assert_eq!(block.shape.units as usize, text.encode_utf16().count());
                }
            }
        }
        _ => assert!(record.blocks.is_empty()),
    }
}
