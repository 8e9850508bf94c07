//! The index of the cache: made-up bytes never panic and never use more than a few times their size in memory, and a
//! written index reads back as it was.

#![no_main]

use backcast::run::cache::{read_index, write_index};
use backcast_fuzz::memory::{CountingAllocator, bounded};
use backcast_fuzz::sealed;
use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

fuzz_target!(|data: &[u8]| {
    check(data);
    // Magic and checksum are added, or nearly every input would fail there. An empty index consists of nothing else.
    let empty = write_index(&HashMap::new());
    let magic = &empty[..empty.len() - 8];
    check(&sealed(magic, data));
});

fn check(bytes: &[u8]) {
    if let Some(index) = bounded(bytes, read_index) {
        assert_eq!(read_index(&write_index(&index)).as_ref(), Some(&index));
    }
}
