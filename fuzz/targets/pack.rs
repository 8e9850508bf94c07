//! Packed logs and line hashes: made-up bytes never panic and never use more than a few times their size in memory, and
//! a packed log unpacks to what it was.
//!
//! The first byte selects the format.

#![no_main]

use backcast_fuzz::memory::{CountingAllocator, bounded};
use backcast_fuzz::{Unstructured, show, write_object};
use libfuzzer_sys::fuzz_target;
use transcript::bytes::LineConsumer;
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack::{PackedOutline, pack, unpack};
use transcript::walk::Walker;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fuzz_target!(|data: &[u8]| {
    let Some((&form, rest)) = data.split_first() else {
        return;
    };
    match form {
        b'{' => check_log(data),
        _ => match form % 5 {
            0..=2 => check_packed(rest),
            3 => check_line_hashes(rest),
            _ => {
                let mut input = Unstructured::new(rest);
                let mut log = Vec::new();
                while !input.is_empty() && log.len() < 1 << 16 {
                    write_object(&mut input, &mut log, 4, false);
                    log.push(b'\n');
                }
                check_log(&log);
            }
        },
    }
});

/// Parses a log, packs it and unpacks it.
fn check_log(lines: &[u8]) {
    show(lines);
    let mut walker = Walker::new(1 << 20, &|_| {});
    walker.take_lines(lines, 0);
    let log = walker.into_builder().finish();
    let packed = pack(&log);
    assert!(unpack(&packed).as_ref() == Ok(&log), "changed by a round trip");
    let outline = PackedOutline::read(&packed).expect("an outline");
    assert!(outline.ids().eq(log.records.iter().map(|record| record.id)));
}

fn check_packed(bytes: &[u8]) {
    let Ok(log) = bounded(bytes, unpack) else { return };
    check_indices(&log);
    // Some encodings are not canonical, so only packing the second time must reproduce the bytes.
    let packed = pack(&log);
    let again = unpack(&packed).expect("a packed log can be unpacked");
    assert!(log == again, "changed by a round trip");
    assert_eq!(packed, pack(&again));
}

/// Checks that every index is in bounds.
fn check_indices(log: &Log) {
    for record in &log.records {
        let scope = log.scope_of(record);
        for name in [scope.session, scope.agent, scope.version, scope.cwd, scope.branch] {
            let _ = log.string(name);
        }
        for block in log.blocks_of(record) {
            let _ = (log.string(block.name), log.string(block.path));
        }
        assert!(record.response.is_none_or(|at| (at as usize) < log.responses.len()));
        assert!(record.boundary.is_none_or(|at| (at as usize) < log.boundaries.len()));
    }
    for response in &log.responses {
        let _ = log.string(response.model);
        assert!((response.record as usize) < log.records.len());
    }
}

fn check_line_hashes(bytes: &[u8]) {
    if let Ok(hashes) = bounded(bytes, LineHashes::unpack) {
        let again = LineHashes::unpack(&hashes.pack()).expect("packed hashes can be unpacked");
        assert_eq!(hashes.sets, again.sets);
    }
}
