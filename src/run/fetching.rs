//! Logs in object stores, fetched ahead of the threads that work on them.
//!
//! Fetching is waiting, and working is not: a few dozen threads that only wait keep as many requests under way, and hand small
//! logs on whole to the threads of the pool, in whatever order they come. Bigger ones are read piece by piece where they are
//! worked on. What was fetched and not yet worked on is bounded.

#![allow(
    clippy::disallowed_methods,
    reason = "threads that wait for other machines are none of the pool's"
)]

use std::io::{self, Read};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use transcript::bytes::{ByteSource, IoMode, LogFile, OpenBytes, SourceFault};
use transcript::discover::{DiscoveredLog, LogOrigin};
use transcript::parallel::parallel_map;

/// Threads that wait.
const FETCHERS: usize = 32;

/// Logs up to this size are fetched whole.
const MAX_FETCHED_BYTES: u64 = 4 << 20;

/// Bytes that are fetched and not yet worked on.
const FETCHED_BYTES: u64 = 64 << 20;

/// Whether a log lies on another machine.
pub(super) fn is_remote(found: &DiscoveredLog) -> bool {
    matches!(&found.origin, LogOrigin::Source(source) if source.is_remote())
}

/// Fetches logs by number, a few dozen at once, and works on what was fetched on all threads. Results in the order of the
/// numbers. `size` says how many bytes fetching a log may hold.
pub(super) fn map_fetched<F: Send, R: Send>(
    numbers: &[usize],
    size: impl Fn(usize) -> u64 + Sync,
    fetch: impl Fn(usize) -> F + Sync,
    work: impl Fn(usize, F) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let budget = ByteBudget::new(FETCHED_BYTES);
    let (sender, receiver) = sync_channel(FETCHERS);
    let receiver = Mutex::new(receiver);
    let mut places = vec![0; numbers.iter().max().map_or(0, |most| most + 1)];
    for (place, number) in numbers.iter().enumerate() {
        places[*number] = place;
    }
    let done = std::thread::scope(|scope| {
        for _ in 0..FETCHERS.min(numbers.len()) {
            let (sender, next, budget, size, fetch) = (sender.clone(), &next, &budget, &size, &fetch);
            scope.spawn(move || {
                while let Some(&number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let held = budget.take(size(number));
                    // Nobody takes it any more once a thread of the pool has panicked.
                    if sender.send((number, held, fetch(number))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let take = |_: &usize| {
            let (number, _held, fetched) = receive(&receiver)?;
            Some((number, work(number, fetched)))
        };
        let done = parallel_map(numbers, take);
        // Whoever still fetches after a panic must not wait for a taker.
        drop(receiver);
        done
    });
    // In place: with many small logs a second list of them would be as large as all else.
    let placed = done
        .into_iter()
        .filter_map(|one| one.map(|(number, result)| (places[number], result)));
    let mut placed = placed.collect::<Vec<_>>();
    placed.sort_unstable_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, result)| result).collect()
}

/// Waits for what is fetched next.
fn receive<T>(receiver: &Mutex<Receiver<T>>) -> Option<T> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}

/// Bytes that may be held at the same time.
struct ByteBudget {
    left: Mutex<u64>,
    most: u64,
    freed: Condvar,
}

impl ByteBudget {
    fn new(most: u64) -> ByteBudget {
        ByteBudget {
            left: Mutex::new(most),
            most,
            freed: Condvar::new(),
        }
    }

    /// Waits until there is room. Something too big for all of the room waits for all of it.
    fn take(&self, bytes: u64) -> HeldBytes<'_> {
        let bytes = bytes.min(self.most);
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self
            .freed
            .wait_while(left, |left| *left < bytes)
            .unwrap_or_else(PoisonError::into_inner);
        *left -= bytes;
        HeldBytes { budget: self, bytes }
    }
}

/// Bytes of a budget, given back when it is dropped.
struct HeldBytes<'b> {
    budget: &'b ByteBudget,
    bytes: u64,
}

impl Drop for HeldBytes<'_> {
    fn drop(&mut self) {
        *self.budget.left.lock().unwrap_or_else(PoisonError::into_inner) += self.bytes;
        self.budget.freed.notify_all();
    }
}

/// Returns how many bytes [`fetch_log`] holds.
pub(super) fn fetched_bytes(found: &DiscoveredLog) -> u64 {
    match is_remote(found) && found.stamp.size <= MAX_FETCHED_BYTES {
        true => found.stamp.size,
        false => 0,
    }
}

/// Fetches a small log whole. Returns it with its bytes in memory; another one as it is.
pub(super) fn fetch_log(found: &DiscoveredLog) -> DiscoveredLog {
    if fetched_bytes(found) == 0 {
        return found.clone();
    }
    let bytes = fetch_bytes(found).map(Arc::new);
    DiscoveredLog {
        origin: LogOrigin::Source(Arc::new(FetchedLog { bytes })),
        ..found.clone()
    }
}

fn fetch_bytes(found: &DiscoveredLog) -> Result<Vec<u8>, SourceFault> {
    let fault = |error: io::Error| match SourceFault::of(&error) {
        Some(fault) => fault.clone(),
        None => SourceFault::Undelivered(error.to_string()),
    };
    let open = LogFile::open_found(found, IoMode::Read).map_err(fault)?;
    let mut bytes = Vec::with_capacity(found.stamp.size as usize);
    open.reader().read_to_end(&mut bytes).map_err(fault)?;
    Ok(bytes)
}

/// A log that was fetched, or why it was not.
#[derive(Debug)]
struct FetchedLog {
    bytes: Result<Arc<Vec<u8>>, SourceFault>,
}

impl ByteSource for FetchedLog {
    fn open(&self) -> io::Result<Box<dyn OpenBytes>> {
        let bytes = self.bytes.clone()?;
        Ok(Box::new(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;
    use transcript::parallel::with_threads;

    #[test]
    fn results_come_in_the_order_of_the_numbers() {
        let numbers = (0..500).rev().step_by(3).collect::<Vec<usize>>();
        for threads in [1, 2, 7] {
            let fetch = |number: usize| {
                std::thread::sleep(Duration::from_micros((number % 7) as u64 * 50));
                number * 2
            };
            let run = || map_fetched(&numbers, |_| 1, fetch, |number, fetched| (number, fetched + 1));
            let done = with_threads(Some(threads), run).unwrap();
            let wanted = numbers.iter().map(|number| (*number, number * 2 + 1));
            assert_eq!(done, wanted.collect::<Vec<_>>());
        }
        assert!(map_fetched(&[], |_| 0, |_| (), |_, ()| ()).is_empty());
    }

    #[test]
    fn what_is_fetched_and_not_worked_on_is_bounded() {
        let (held, most) = (AtomicU64::new(0), AtomicU64::new(0));
        let numbers = (0..200).collect::<Vec<usize>>();
        let bytes = FETCHED_BYTES / 4 + 1;
        let fetch = |_| {
            let now = held.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
        };
        map_fetched(&numbers, |_| bytes, fetch, |_, ()| held.fetch_sub(1, Ordering::SeqCst));
        assert!(most.into_inner() <= 3, "four do not fit");
    }

    #[test]
    fn a_panic_ends_the_run_and_does_not_hang_it() {
        let numbers = (0..1000).collect::<Vec<usize>>();
        let fails_fetching = || map_fetched(&numbers, |_| 0, |number| assert_ne!(number, 40), |_, ()| ());
        let fails_working = || map_fetched(&numbers, |_| 0, |_| (), |number, ()| assert_ne!(number, 40));
        assert!(catch_unwind(AssertUnwindSafe(fails_fetching)).is_err());
        assert!(catch_unwind(AssertUnwindSafe(fails_working)).is_err());
    }
}
