//! Threads: the only place that knows about them. Everything else says what may be done side by side.

use rayon::prelude::*;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Runs `work` on a pool of `threads` (all cores if `None`).
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()?;
    Ok(pool.install(work))
}

/// Works on many things side by side; results in their order. The next thing is for whoever is free: things are not equally
/// big and threads not equally fast, so a share dealt out beforehand would leave one thread to work alone at the end.
pub fn side_by_side<'t, T: Sync, R: Send>(things: &'t [T], work: impl Fn(&'t T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take_turns = |_| {
        let turns = std::iter::from_fn(|| {
            let number = next.fetch_add(1, Ordering::Relaxed);
            things.get(number).map(|thing| (number, work(thing)))
        });
        turns.collect::<Vec<_>>()
    };
    let workers = rayon::current_num_threads().min(things.len());
    let done = (0..workers).into_par_iter().with_max_len(1).flat_map_iter(take_turns);
    let mut done = done.collect::<Vec<_>>();
    done.sort_unstable_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Does two things side by side.
pub fn both<A: Send, B: Send>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B + Send) -> (A, B) {
    rayon::join(one, other)
}

/// How many threads there are.
pub fn count() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    #[test]
    fn results_come_in_the_order_of_the_things() {
        let things = (0..1000u64).collect::<Vec<_>>();
        let work = || side_by_side(&things, |thing| side_by_side(&[1, 2], |factor| thing * factor));
        let expected = things.iter().map(|thing| vec![*thing, 2 * thing]).collect::<Vec<_>>();
        for threads in [1, 2, 7] {
            assert_eq!(with_threads(Some(threads), work).unwrap(), expected);
        }
        assert!(side_by_side(&[0; 0], |thing| *thing).is_empty());
    }

    #[test]
    fn one_slow_thing_holds_up_nothing_else() {
        let things = (0..100).collect::<Vec<_>>();
        let done = AtomicUsize::new(0);
        let patience = Instant::now() + Duration::from_secs(60);
        let work = |thing: &usize| {
            // The first is done when all others are.
            while *thing == 0 && done.load(Ordering::Relaxed) < things.len() - 1 && Instant::now() < patience {
                std::thread::yield_now();
            }
            done.fetch_add(1, Ordering::Relaxed)
        };
        let turns = with_threads(Some(2), || side_by_side(&things, work)).unwrap();
        assert_eq!(turns[0], things.len() - 1);
    }
}
