//! Counts allocations, so that a target can bound the memory of what it runs.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An allocator that counts. Install it as the `#[global_allocator]` of a target that uses [`bounded`].
pub struct CountingAllocator;

static ALLOCATED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

// SAFETY: forwards everything to the system allocator and only counts.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let allocated = ALLOCATED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(allocated, Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller upholds the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work` on `bytes` and checks that its peak memory is proportional to their length.
pub fn bounded<R>(bytes: &[u8], work: impl FnOnce(&[u8]) -> R) -> R {
    let before = ALLOCATED.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let result = work(bytes);
    let used = PEAK.load(Ordering::Relaxed) - before;
    assert!(
        used <= 4096 + 100 * bytes.len(),
        "{used} bytes for {} bytes",
        bytes.len()
    );
    result
}
