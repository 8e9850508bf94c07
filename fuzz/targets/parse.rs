//! One line, read in every way there is. Whatever the fast path accepts, in either of its two forms, simd-json and
//! serde_json accept too and find the same in it, whatever stands on the lines around; it may decline anything.
//!
//! The first byte says whether the rest is the line itself or makes one.

#![no_main]

use transcript::json::{Raw, Tape};
use transcript::record::{MAX_COUNT, Record, read};
use transcript::repair::{Outcome, Repairer, Rung};
use transcript::skim::{Avx2, Portable, Scan};
use backcast_fuzz::{Unstructured, decoded, described, show, write_object};
use libfuzzer_sys::fuzz_target;
use serde::Deserialize;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let mut line = Vec::new();
    match how % 4 {
        0 | b'{' => line.extend_from_slice(rest),
        odd => write_object(&mut Unstructured::new(rest), &mut line, 6, odd == 2),
    }
    if how == b'{' {
        // Seeds are plain lines of a log.
        line = data.to_vec();
    }
    line.retain(|byte| *byte != b'\n');
    show(&line);
    check(&line);
    check_after(&line, data);
});

/// What a form of the fast path makes of a line.
fn raw<S: Scan>(line: &[u8]) -> Option<String> {
    let mut record = Record::default();
    let mut raw = Raw::<S>::new(line, 0);
    let accepted = read(&mut raw, &mut record).and_then(|()| raw.end_of_line());
    assert!(raw.position() <= line.len());
    accepted.ok().map(|end| {
        assert_eq!(end, line.len());
        described(&record)
    })
}

fn check(line: &[u8]) {
    let fast = raw::<Portable>(line);
    if Avx2::is_available() {
        assert_eq!(fast, raw::<Avx2>(line), "AVX2 against portable");
    }
    // What follows the line must not matter.
    let followed = [line, b"\n{\"uuid\":\"next\"}\n"].concat();
    let mut record = Record::default();
    let mut source = Raw::<Portable>::new(&followed, 0);
    let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
    assert!(source.position() <= line.len(), "reads beyond its line");
    assert_eq!(
        accepted.ok().map(|_| described(&record)),
        fast,
        "what follows the line matters"
    );

    let mut slow = Vec::new();
    let outcome = Repairer::default().read(line, &mut |record| slow.push(described(record)));
    if let Some(fast) = &fast {
        let is_plain = matches!(
            outcome,
            Outcome::Read {
                rung: Rung::AsIs | Rung::Mended,
                lost: false
            }
        );
        assert!(is_plain, "the slow path says {outcome:?}");
        assert_eq!(slow.len(), 1);
        assert_eq!(*fast, slow[0], "fast against slow path");
    }

    let mended = String::from_utf8_lossy(line);
    let value = by_serde(&mended);
    match (&value, &fast, outcome) {
        (Err(error), Some(_), _) => panic!("serde_json refuses what the fast path accepts: {error}"),
        // simd-json has numbers beyond f64 that serde_json has not.
        (Err(error), None, Outcome::Read { rung: Rung::AsIs, .. }) => {
            assert!(
                error.to_string().contains("number out of range"),
                "serde_json refuses: {error}"
            );
        }
        (Ok(Value::Object(_)), _, outcome) => {
            let is_deep = outcome == Outcome::Refused(transcript::repair::Refusal::TooDeep);
            let is_read = matches!(outcome, Outcome::Read { lost: false, .. });
            assert!(
                is_read || is_deep,
                "serde_json accepts what the slow path does not: {outcome:?}"
            );
        }
        _ => {}
    }
    if let (Ok(value), Some(_)) = (value, fast) {
        let mut record = Record::default();
        let mut source = Raw::<Portable>::new(line, 0);
        assert!(read(&mut source, &mut record).is_ok());
        compare(&record, &value);
    }
    // simd-json straight, where its own text is sound: the tape must never panic.
    let mut bytes = mended.into_owned().into_bytes();
    if let Ok(tape) = simd_json::to_tape(&mut bytes)
        && !line.windows(3).any(|window| window.eq_ignore_ascii_case(b"\\ud"))
    {
        let _ = read(&mut Tape::new(&tape.0), &mut Record::default());
    }
}

/// A line after one that begins as it does: what is kept of earlier lines must not matter, except that it may make the
/// fast path decline.
fn check_after(line: &[u8], data: &[u8]) {
    let fresh = raw::<Portable>(line);
    for byte in [0, data.len() / 3, data.len() - 1].map(|at| usize::from(data[at])) {
        // 255 is the whole line.
        let earlier = [&line[..line.len() * byte / 255], b"}\n"].concat();
        let both = [&earlier, line, b"\n"].concat();
        let mut record = Record::default();
        let mut source = Raw::<Portable>::new(&both, 0);
        let _ = read(&mut source, &mut record);
        assert!(source.position() < earlier.len(), "reads beyond its line");
        source.restart(earlier.len());
        let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
        if accepted.is_ok() {
            assert_eq!(Some(described(&record)), fresh, "an earlier line matters");
        }
        // Equal lines are read alike.
        source.restart(earlier.len());
        let accepted = read(&mut source, &mut record).and_then(|()| source.end_of_line());
        if accepted.is_ok() {
            assert_eq!(Some(described(&record)), fresh, "the same line before it matters");
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

/// A few fields whose meaning is plain enough to be written a second time.
fn compare(record: &Record<'_>, value: &Value) {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    assert_eq!(decoded(record.uuid), text(&value["uuid"]));
    assert_eq!(decoded(record.kind), text(&value["type"]));
    assert_eq!(decoded(record.session), text(&value["sessionId"]));
    assert_eq!(record.is_meta, value["isMeta"] == Value::Bool(true));
    if value["data"].is_object() {
        // A progress record's nested message takes the same place.
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
                // Only where one text stands alone: later ones of other names take its place.
                let texts = ["text", "thinking", "content", "input"].map(|key| object.get(key));
                if let [Some(Value::String(text)), None, None, None] = texts {
                    assert_eq!(block.shape.units as usize, text.encode_utf16().count());
                }
            }
        }
        _ => assert!(record.blocks.is_empty()),
    }
}
