//! Prefetching: brings the bytes ahead into the cache before the parser reaches them.

/// Prefetch distance: one page. The hardware prefetcher stops at page boundaries, so it would miss on the first line of
/// every page of a mapped file.
pub(super) const PREFETCH_DISTANCE: usize = 4 << 10;

/// Bytes prefetched per line of JSON, for the members that no string scan prefetches.
const PREFETCH_LENGTH: usize = 1 << 10;

/// Size of a cache line on x86-64.
const CACHE_LINE: usize = 64;

/// Bytes that one page fault maps of a file in the page cache (Linux `fault_around_bytes`).
pub(super) const FAULT_AROUND: usize = 64 << 10;

/// Prefetches the bytes ahead of the line at `at`; [`super::StringScanner::scan`] prefetches as it scans. A prefetch
/// of an unmapped page does nothing, so the first byte of each fault-around window is read well ahead to fault it in.
/// `faulted` is the last window read; the caller keeps it between calls.
#[inline(always)]
pub fn prefetch_ahead(bytes: &[u8], at: usize, faulted: &mut usize) {
    let start = bytes.as_ptr().addr();
    let window = (start + at + 4 * PREFETCH_DISTANCE) / FAULT_AROUND;
    if *faulted != window {
        *faulted = window;
        std::hint::black_box(bytes.get((window * FAULT_AROUND).wrapping_sub(start)).copied());
    }
    for line in (at + PREFETCH_DISTANCE..at + PREFETCH_DISTANCE + PREFETCH_LENGTH).step_by(CACHE_LINE) {
        prefetch(bytes, line);
    }
}

/// Prefetches the cache line of the byte at `at`, which may be out of bounds.
#[inline(always)]
pub(super) fn prefetch(bytes: &[u8], at: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch is a hint: it is valid for any address and has no visible effect. SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(bytes.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, at);
}
