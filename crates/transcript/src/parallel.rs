//! The thread pool. No other module of the crate starts threads: they say what may run in parallel.

use rayon::prelude::*;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A worker claims this fraction of its fair share of the remaining items at a time.
const CHUNKS_PER_THREAD: usize = 16;

/// Upper bound of items per claim.
const MAX_CHUNK: usize = 64;

thread_local! {
    /// Set while this thread runs everything itself, without the pool.
    static IS_SINGLE_THREADED: Cell<bool> = const { Cell::new(false) };
}

/// The thread pool could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread pool: {0}")]
pub struct PoolError(#[source] rayon::ThreadPoolBuildError);

/// Runs `work` on a pool of `threads` (all cores if `None`). One thread means the caller's own: an idle pool thread on
/// another core would turn every `munmap` into a TLB-shootdown interrupt.
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> Result<R, PoolError> {
    if threads == Some(1) {
        let _guard = SingleThreadGuard::enter();
        return Ok(work());
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .map_err(PoolError)?;
    Ok(pool.install(work))
}

/// Keeps all work on this thread until it is dropped, also by a panic.
struct SingleThreadGuard {
    was_single_threaded: bool,
}

impl SingleThreadGuard {
    fn enter() -> SingleThreadGuard {
        SingleThreadGuard {
            was_single_threaded: IS_SINGLE_THREADED.replace(true),
        }
    }
}

impl Drop for SingleThreadGuard {
    fn drop(&mut self) {
        IS_SINGLE_THREADED.set(self.was_single_threaded);
    }
}

/// Hands out the items of a list in chunks that shrink towards the end (guided self-scheduling). Items differ in size
/// and threads in speed, so a fixed share per thread would leave one thread working alone at the end. Chunks keep
/// neighbors on one thread, which is faster for small items.
struct ChunkQueue {
    next: AtomicUsize,
    len: usize,
    workers: usize,
}

impl ChunkQueue {
    fn new(len: usize, workers: usize) -> ChunkQueue {
        ChunkQueue {
            next: AtomicUsize::new(0),
            len,
            workers,
        }
    }

    /// Claims the next chunk, or returns `None` if no items are left.
    fn claim(&self) -> Option<Range<usize>> {
        let end_of = |start: usize| {
            let left = self.len.checked_sub(start).filter(|left| *left > 0)?;
            Some(start + (left / (CHUNKS_PER_THREAD * self.workers)).clamp(1, MAX_CHUNK))
        };
        let start = self
            .next
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, end_of)
            .ok()?;
        Some(start..end_of(start)?)
    }
}

/// Items that are mapped before their results are put in order: results of all items twice would be the largest thing in
/// memory.
const MAX_UNORDERED: usize = 8192;

/// Maps items in parallel. Returns the results in the order of the items.
pub fn parallel_map<'t, T: Sync, R: Send>(items: &'t [T], work: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let workers = thread_count().min(items.len());
    if workers < 2 {
        return items.iter().map(work).collect();
    }
    let mut results = Vec::with_capacity(items.len());
    for some in items.chunks(MAX_UNORDERED) {
        map_into(some, workers, &work, &mut results);
    }
    results
}

/// Maps items in parallel and adds the results in the order of the items.
fn map_into<'t, T: Sync, R: Send>(
    items: &'t [T],
    workers: usize,
    work: &(impl Fn(&'t T) -> R + Sync),
    results: &mut Vec<R>,
) {
    let queue = ChunkQueue::new(items.len(), workers);
    let run_worker = |_| {
        let chunks = std::iter::from_fn(|| {
            let chunk = queue.claim()?;
            let start = chunk.start;
            Some((start, items[chunk].iter().map(work).collect::<Vec<_>>()))
        });
        chunks.collect::<Vec<_>>()
    };
    let done = (0..workers).into_par_iter().with_max_len(1).flat_map_iter(run_worker);
    let mut done = done.collect::<Vec<_>>();
    done.sort_unstable_by_key(|(start, _)| *start);
    results.extend(done.into_iter().flat_map(|(_, results)| results));
}

/// Runs two closures, in parallel if there is more than one thread.
pub fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    if thread_count() < 2 {
        return (one(), other());
    }
    rayon::join(one, other)
}

/// Returns the number of threads that work may run on.
pub fn thread_count() -> usize {
    if IS_SINGLE_THREADED.get() {
        1
    } else {
        rayon::current_num_threads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn results_keep_the_order_of_the_items() {
        let items = (0..1000u64).collect::<Vec<_>>();
        let work = || parallel_map(&items, |item| parallel_map(&[1, 2], |factor| item * factor));
        let expected = items.iter().map(|item| vec![*item, 2 * item]).collect::<Vec<_>>();
        for threads in [1, 2, 7] {
            assert_eq!(
                with_threads(Some(threads), work).unwrap(),
                expected,
                "{threads} threads"
            );
        }
        assert!(parallel_map(&[0; 0], |item| *item).is_empty());
    }

    #[test]
    fn one_thread_means_the_callers_own() {
        let here = std::thread::current().id();
        let everywhere = || {
            let items = [0; 100];
            let mut ids = parallel_map(&items, |_| std::thread::current().id());
            let (one, other) = join(|| std::thread::current().id(), || std::thread::current().id());
            ids.extend([one, other]);
            ids
        };
        let alone = || (thread_count(), everywhere());
        let (threads, ids) = with_threads(Some(1), alone).unwrap();
        assert_eq!(threads, 1);
        assert!(ids.iter().all(|id| *id == here));
        let within = with_threads(Some(1), || with_threads(Some(2), alone).unwrap()).unwrap();
        assert_eq!(within.0, 2);
        assert!(within.1.iter().all(|id| *id != here));
        let (inner, after) = with_threads(Some(1), || {
            (with_threads(Some(1), thread_count).unwrap(), thread_count())
        })
        .unwrap();
        assert_eq!((inner, after), (1, 1));
    }

    #[test]
    fn a_panic_ends_single_threaded_mode() {
        let panicked = std::panic::catch_unwind(|| with_threads(Some(1), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(!IS_SINGLE_THREADED.get());
    }

    #[test]
    fn chunks_cover_every_item_once_and_shrink() {
        for (len, workers) in [(1, 2), (31, 2), (100, 2), (10_000, 7)] {
            let queue = ChunkQueue::new(len, workers);
            let chunks = std::iter::from_fn(|| queue.claim()).collect::<Vec<_>>();
            assert!(chunks.iter().cloned().flatten().eq(0..len), "{len} items");
            assert!(chunks.is_sorted_by(|a, b| a.len() >= b.len()), "{len} items");
            assert!(chunks[0].len() <= (len / (CHUNKS_PER_THREAD * workers)).clamp(1, MAX_CHUNK));
            assert_eq!(chunks.last().map(Range::len), Some(1));
        }
        assert_eq!(ChunkQueue::new(0, 2).claim(), None);
    }

    #[test]
    fn a_slow_item_holds_up_only_its_own_chunk() {
        // One worker takes the first chunk and never comes back; the other one is left with everything else.
        let queue = ChunkQueue::new(100, 2);
        let slow = queue.claim().unwrap();
        assert_eq!(slow, 0..100 / (2 * CHUNKS_PER_THREAD));
        let others = std::iter::from_fn(|| queue.claim()).map(|chunk| chunk.len());
        assert_eq!(others.sum::<usize>(), 100 - slow.len());
    }

    #[test]
    fn two_threads_share_the_items() {
        let (report, reports) = std::sync::mpsc::channel();
        let (report, reports) = (std::sync::Mutex::new(report), std::sync::Mutex::new(reports));
        // The first item returns once another thread has done one.
        let work = |item: &usize| match item {
            0 => reports.lock().unwrap().recv_timeout(Duration::from_secs(10)).is_ok(),
            _ => report.lock().unwrap().send(()).is_ok(),
        };
        let items = (0..100).collect::<Vec<_>>();
        let done = with_threads(Some(2), || parallel_map(&items, work)).unwrap();
        assert!(done[0], "the second thread got nothing to do");
    }
}
