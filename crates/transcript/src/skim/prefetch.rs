//! Prefetching: brings the bytes ahead into the cache before the parser reaches them.

/// How far ahead bytes are asked for: a page. The processor itself looks ahead only as far as the page goes, and would wait for
/// the start of each one of a mapped file.
pub(super) const PREFETCH_DISTANCE: usize = 4 << 10;

/// How far from its start the parts of a line are that no string scan asks for.
pub(super) const PREFETCH_LENGTH: usize = 1 << 10;

/// The bytes that one fault maps of a file that is in memory.
pub(super) const FAULT_AROUND: usize = 64 << 10;

/// Asks for bytes ahead of the line at `at`. [`Scan::string`] does the same as it goes. `faulted` is the caller's to keep: bytes
/// can only be asked for where the file is mapped already, so the next stretch of it is looked at well before it is read.
#[inline(always)]
pub fn prefetch_ahead(bytes: &[u8], at: usize, faulted: &mut usize) {
    let start = bytes.as_ptr().addr();
    let stretch = (start + at + 4 * PREFETCH_DISTANCE) / FAULT_AROUND;
    if *faulted != stretch {
        *faulted = stretch;
        std::hint::black_box(bytes.get((stretch * FAULT_AROUND).wrapping_sub(start)).copied());
    }
    for line in (at + PREFETCH_DISTANCE..at + PREFETCH_DISTANCE + PREFETCH_LENGTH).step_by(64) {
        prefetch(bytes, line);
    }
}

/// Asks the processor for the cache line with the byte at `at`, which need not be there.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a hint: no address makes it fail, and it changes nothing that a program can see. SSE is part of every x86-64
        // processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}
