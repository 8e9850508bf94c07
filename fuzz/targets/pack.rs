//! The bodies of cache entries: packed logs, line hashes, and the index. Arbitrary bytes never panic and never cost more
//! memory than a few times their size; what is packed is unpacked unchanged.
//!
//! The first byte selects the form.

#![no_main]

use backcast::run::cache::{read_index, write_index};
use backcast_fuzz::{Unstructured, show, write_object};
use libfuzzer_sys::fuzz_target;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};
use transcript::bytes::LineConsumer;
use transcript::evidence::LineHashes;
use transcript::log::Log;
use transcript::pack::{PackedOutline, pack, unpack};
use transcript::walk::Walker;

/// Counts what is held, so that a target can say how much that may be.
struct Counting;

static HELD: AtomicUsize = AtomicUsize::new(0);
static HIGHEST: AtomicUsize = AtomicUsize::new(0);

// SAFETY: hands everything to the system's allocator and only counts.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let held = HELD.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        HIGHEST.fetch_max(held, Ordering::Relaxed);
        // SAFETY: the caller's promise is handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        HELD.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `work` and checks how much more memory it held at its height.
fn bounded<R>(bytes: &[u8], work: impl FnOnce(&[u8]) -> R) -> R {
    let before = HELD.load(Ordering::Relaxed);
    HIGHEST.store(before, Ordering::Relaxed);
    let result = work(bytes);
    let used = HIGHEST.load(Ordering::Relaxed) - before;
    assert!(
        used <= 4096 + 100 * bytes.len(),
        "{used} bytes for {} bytes",
        bytes.len()
    );
    result
}

fuzz_target!(|data: &[u8]| {
    let Some((&form, rest)) = data.split_first() else {
        return;
    };
    match form {
        b'{' => check_log(data),
        _ => match form % 4 {
            0 => check_packed(rest),
            1 => check_line_hashes(rest),
            2 => check_index(rest),
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

/// A log that was read, packed and unpacked.
fn check_log(lines: &[u8]) {
    show(lines);
    let mut walker = Walker::new(1 << 20, &|_| {});
    walker.take_lines(lines, 0);
    let log = walker.into_builder().finish();
    let packed = pack(&log);
    assert!(unpack(&packed).as_ref() == Ok(&log), "comes back changed");
    let outline = PackedOutline::read(&packed).expect("an outline");
    assert!(outline.ids().eq(log.records.iter().map(|record| record.id)));
}

fn check_packed(bytes: &[u8]) {
    let Ok(log) = bounded(bytes, unpack) else { return };
    check_indices(&log);
    // Some of what can be read would be written shorter, so only the second time must be like the first.
    let packed = pack(&log);
    let again = unpack(&packed).expect("what was packed can be unpacked");
    assert!(log == again, "comes back changed");
    assert_eq!(packed, pack(&again));
}

/// Everything that is an index leads somewhere.
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
    if let Ok(evidence) = bounded(bytes, LineHashes::unpack) {
        let again = LineHashes::unpack(&evidence.pack()).expect("what was packed can be unpacked");
        assert_eq!(evidence.sets, again.sets);
    }
}

fn check_index(bytes: &[u8]) {
    if let Some(index) = bounded(bytes, read_index) {
        assert_eq!(read_index(&write_index(&index)).as_ref(), Some(&index));
    }
}
