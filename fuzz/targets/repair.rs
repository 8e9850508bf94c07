//! Damaged lines: whatever happens to a line, nothing panics, and a record is accepted only if it stands there whole.
//!
//! The bytes of the fuzzer make a few records and then cut, glue and overwrite them, or are the line itself.

#![no_main]

use transcript::bytes::Lines;
use transcript::repair::{Outcome, Repairer, Rung, mend};
use transcript::walk::Walker;
use backcast_fuzz::{Unstructured, decoded, show, write_object};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let mut line = match how % 4 {
        0 => rest.to_vec(),
        _ => damaged(&mut Unstructured::new(rest), how % 4 == 1),
    };
    if how == b'{' {
        line = data.to_vec();
    }
    line.retain(|byte| *byte != b'\n');
    line.truncate(4096);
    show(&line);
    check_record(&line);
    check_neighbours(&line);
});

/// Records, cut and put together again.
fn damaged(input: &mut Unstructured<'_>, is_odd: bool) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..input.int_in_range(1..=4).unwrap_or(1) {
        let mut record = Vec::new();
        write_object(input, &mut record, 4, is_odd);
        if record.len() > 2 && input.ratio(1, 2).unwrap_or(false) {
            record.splice(1..1, *b"\"sessionId\":\"s\",\"uuid\":\"u\",");
        }
        let cut = |input: &mut Unstructured<'_>, length: usize| input.int_in_range(0..=length).unwrap_or(0);
        match input.int_in_range(0..=5).unwrap_or(0) {
            0 => record.truncate(cut(input, record.len())),
            1 => drop(record.drain(..cut(input, record.len()))),
            2 if !record.is_empty() => {
                let at = cut(input, record.len() - 1);
                record[at] = input.arbitrary().unwrap_or(0);
            }
            3 => {
                let zeros = vec![0; cut(input, 9)];
                let at = cut(input, record.len());
                record.splice(at..at, zeros);
            }
            _ => {}
        }
        line.extend(record);
        line.extend_from_slice([&b""[..], b" ", b",", b"\r", b"\xef\xbb\xbf"][cut(input, 4)]);
    }
    line
}

fn check_record(line: &[u8]) {
    let mut uuids = Vec::new();
    let outcome = Repairer::default().read(line, &mut |record| uuids.push(decoded(record.uuid)));
    match outcome {
        Outcome::Blank | Outcome::Refused(_) => assert!(uuids.is_empty(), "{outcome:?} and yet records"),
        Outcome::Read {
            rung: Rung::AsIs | Rung::Stripped | Rung::Mended,
            lost,
        } => {
            assert_eq!((uuids.len(), lost), (1, false), "{outcome:?}");
        }
        Outcome::Read {
            rung: Rung::Split | Rung::Resynced,
            ..
        } => assert!(!uuids.is_empty(), "{outcome:?}"),
    }
    // Every accepted record is an object that serde_json, too, finds whole somewhere in the mended line. Numbers that
    // serde_json refuses and simd-json takes are left out.
    let mended = mend(line);
    if uuids.is_empty()
        || mended
            .windows(2)
            .any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E'))
    {
        return;
    }
    let starts = mended
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'{')
        .map(|(at, _)| at);
    let objects = starts.filter_map(|at| {
        let mut stream = serde_json::Deserializer::from_slice(&mended[at..]).into_iter::<Value>();
        stream.next()?.ok()
    });
    let whole = objects
        .map(|object| object["uuid"].as_str().map(str::to_owned))
        .collect::<Vec<_>>();
    let is_deep = mended.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > 120;
    for uuid in uuids {
        assert!(
            is_deep || whole.contains(&uuid),
            "{uuid:?} stands nowhere whole ({outcome:?})"
        );
    }
}

/// A damaged line changes nothing about the lines around it, and its own end is found.
fn check_neighbours(line: &[u8]) {
    let before: &[u8] = b"{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-000000000001\",\"sessionId\":\"s\",\
        \"message\":{\"content\":\"first\"}}\n";
    let after: &[u8] = b"{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-000000000002\",\"sessionId\":\"s\",\
        \"message\":{\"content\":\"second\"}}\n";
    let content = [before, line, b"\n", after].concat();
    let mut walker = Walker::new(1 << 20, &|_| {});
    walker.lines(&content, 0);
    let log = walker.into_builder().finish();
    assert_eq!((log.lines, log.bytes), (3, content.len() as u64));
    let neighbours = log.records.iter().filter(|record| record.line != 2).collect::<Vec<_>>();
    let [first, second] = neighbours[..] else {
        panic!("{} neighbours", neighbours.len())
    };
    assert_eq!((first.line, first.offset), (1, 0));
    assert_eq!(
        (second.line, second.offset),
        (3, (before.len() + line.len() + 1) as u64)
    );
    for (record, units) in [(first, 5), (second, 6)] {
        assert_eq!(
            log.blocks_of(record)
                .iter()
                .map(|block| block.units)
                .collect::<Vec<_>>(),
            [units]
        );
    }
}
