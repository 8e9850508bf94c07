//! Damaged lines: nothing panics, and a record is accepted only if the line contains all of it.
//!
//! The fuzzer's bytes generate a few records and then cut, join and overwrite them, or are the line itself.

#![no_main]

use backcast_fuzz::{Unstructured, decoded, show, write_object};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use transcript::bytes::LineConsumer;
use transcript::repair::{RepairOutcome, RepairRung, Repairer, repair_text};
use transcript::walk::Walker;

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
    check_neighbors(&line);
});

/// Generates records, damages and joins them.
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
        RepairOutcome::Blank | RepairOutcome::Rejected(_) => assert!(uuids.is_empty(), "{outcome:?} and yet records"),
        RepairOutcome::Read {
            rung: RepairRung::AsIs | RepairRung::Stripped | RepairRung::Mended,
            lost,
        } => {
            assert_eq!((uuids.len(), lost), (1, false), "{outcome:?}");
        }
        RepairOutcome::Read {
            rung: RepairRung::Split | RepairRung::Resynced,
            ..
        } => assert!(!uuids.is_empty(), "{outcome:?}"),
    }
    // serde_json must find every accepted record as a whole object somewhere in the repaired line. Numbers that only
    // simd-json accepts are left out.
    let repaired = repair_text(line);
    if uuids.is_empty()
        || repaired
            .windows(2)
            .any(|pair| pair[0].is_ascii_digit() && matches!(pair[1], b'e' | b'E'))
    {
        return;
    }
    let starts = repaired
        .iter()
        .enumerate()
        .filter(|(_, byte)| **byte == b'{')
        .map(|(at, _)| at);
    let objects = starts.filter_map(|at| {
        let mut stream = serde_json::Deserializer::from_slice(&repaired[at..]).into_iter::<Value>();
        stream.next()?.ok()
    });
    let whole = objects
        .map(|object| object["uuid"].as_str().map(str::to_owned))
        .collect::<Vec<_>>();
    let is_deep = repaired.iter().filter(|byte| matches!(byte, b'{' | b'[')).count() > 120;
    for uuid in uuids {
        assert!(
            is_deep || whole.contains(&uuid),
            "{uuid:?} is nowhere whole ({outcome:?})"
        );
    }
}

/// Checks that a damaged line does not affect the lines around it.
fn check_neighbors(line: &[u8]) {
    let before: &[u8] = b"{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-000000000001\",\"sessionId\":\"s\",\
        \"message\":{\"content\":\"first\"}}\n";
    let after: &[u8] = b"{\"type\":\"user\",\"uuid\":\"00000000-0000-4000-8000-000000000002\",\"sessionId\":\"s\",\
        \"message\":{\"content\":\"second\"}}\n";
    let content = [before, line, b"\n", after].concat();
    let mut walker = Walker::new(1 << 20, &|_| {});
    walker.take_lines(&content, 0);
    let log = walker.into_builder().finish();
    assert_eq!((log.lines, log.bytes), (3, content.len() as u64));
    let neighbors = log.records.iter().filter(|record| record.line != 2).collect::<Vec<_>>();
    let [first, second] = neighbors[..] else {
        panic!("{} neighbors", neighbors.len())
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
