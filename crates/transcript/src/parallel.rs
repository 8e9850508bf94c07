//! Threads: the only place that knows about them. Everything else says what may be done side by side.

use rayon::prelude::*;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Into how many shares for each thread the things that are left are split before one share is taken.
const CHUNKS_PER_THREAD: usize = 16;

/// The most things that are taken at once.
const MAX_CHUNK: usize = 64;

thread_local! {
    /// Whether this thread does all work itself.
    static IS_SINGLE_THREADED: Cell<bool> = const { Cell::new(false) };
}

/// The thread pool could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start the thread pool: {0}")]
pub struct PoolError(#[source] rayon::ThreadPoolBuildError);

/// Runs `work` on a pool of `threads` (all cores if `None`). One thread is the caller's own: a second one that only waits, mostly
/// on another core, would make the system interrupt that core for every mapping that goes.
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> Result<R, PoolError> {
    if threads == Some(1) {
        let _alone = SingleThreadGuard::enter();
        return Ok(work());
    }
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()
        .map_err(PoolError)?;
    Ok(pool.install(work))
}

/// A time in which this thread does all work itself; it ends when this goes, also by a panic.
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

/// Works on many things side by side; results in their order. The next few are for whoever is free, and the last ones are
/// handed out one by one: things are not equally big and threads not equally fast, so a share dealt out beforehand would leave
/// one thread to work alone at the end. Neighbours go to the same thread, because small ones are quicker in a row.
pub fn parallel_map<'t, T: Sync, R: Send>(things: &'t [T], work: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let workers = thread_count().min(things.len());
    if workers < 2 {
        return things.iter().map(work).collect();
    }
    let share_from = |from: usize| {
        let left = things.get(from..).filter(|left| !left.is_empty())?;
        Some((left.len() / (CHUNKS_PER_THREAD * workers)).clamp(1, MAX_CHUNK))
    };
    let next = AtomicUsize::new(0);
    let take_turns = |_| {
        let turns = std::iter::from_fn(|| {
            let after = |from: usize| Some(from + share_from(from)?);
            let from = next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, after).ok()?;
            let few = &things[from..from + share_from(from)?];
            Some((from, few.iter().map(&work).collect::<Vec<_>>()))
        });
        turns.collect::<Vec<_>>()
    };
    let done = (0..workers).into_par_iter().with_max_len(1).flat_map_iter(take_turns);
    let mut done = done.collect::<Vec<_>>();
    done.sort_unstable_by_key(|(from, _)| *from);
    done.into_iter().flat_map(|(_, results)| results).collect()
}

/// Does two things side by side.
pub fn join<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    if thread_count() < 2 {
        return (one(), other());
    }
    rayon::join(one, other)
}

/// How many threads there are.
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
    use std::time::{Duration, Instant};

    #[test]
    fn results_come_in_the_order_of_the_things() {
        let things = (0..1000u64).collect::<Vec<_>>();
        let work = || parallel_map(&things, |thing| parallel_map(&[1, 2], |factor| thing * factor));
        let expected = things.iter().map(|thing| vec![*thing, 2 * thing]).collect::<Vec<_>>();
        for threads in [1, 2, 7] {
            assert_eq!(
                with_threads(Some(threads), work).unwrap(),
                expected,
                "{threads} threads"
            );
        }
        assert!(parallel_map(&[0; 0], |thing| *thing).is_empty());
    }

    #[test]
    fn one_thread_is_the_callers_and_others_are_not() {
        let here = std::thread::current().id();
        let everywhere = || {
            let things = [0; 100];
            let mut ids = parallel_map(&things, |_| std::thread::current().id());
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
    fn a_panic_ends_the_time_alone() {
        let panicked = std::panic::catch_unwind(|| with_threads(Some(1), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(!IS_SINGLE_THREADED.get());
    }

    #[test]
    fn one_slow_thing_holds_up_little_else() {
        let things = (0..100).collect::<Vec<_>>();
        // All but those that one thread takes at once.
        let most = things.len() - things.len() / (2 * CHUNKS_PER_THREAD);
        let done = AtomicUsize::new(0);
        let patience = Instant::now() + Duration::from_secs(60);
        let work = |thing: &usize| {
            // The first is done when the others are.
            while *thing == 0 && done.load(Ordering::Relaxed) < most && Instant::now() < patience {
                std::thread::yield_now();
            }
            done.fetch_add(1, Ordering::Relaxed)
        };
        let turns = with_threads(Some(2), || parallel_map(&things, work)).unwrap();
        assert!(turns[0] >= most, "{}", turns[0]);
    }
}
