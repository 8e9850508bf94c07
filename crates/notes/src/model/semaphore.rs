//! A counting semaphore for concurrent calls.

use std::sync::{Condvar, Mutex, PoisonError};

/// Limits the number of concurrent calls.
pub(super) struct CallSemaphore {
    free: Mutex<usize>,
    freed: Condvar,
}

impl CallSemaphore {
    pub(super) fn new(count: usize) -> CallSemaphore {
        CallSemaphore {
            free: Mutex::new(count.max(1)),
            freed: Condvar::new(),
        }
    }

    /// Waits until a call may start.
    pub(super) fn acquire(&self) -> CallPermit<'_> {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        while *free == 0 {
            free = self.freed.wait(free).unwrap_or_else(PoisonError::into_inner);
        }
        *free -= 1;
        CallPermit { semaphore: self }
    }
}

/// The right to one call, until it is dropped.
pub(super) struct CallPermit<'s> {
    semaphore: &'s CallSemaphore,
}

impl Drop for CallPermit<'_> {
    fn drop(&mut self) {
        *self.semaphore.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.semaphore.freed.notify_one();
    }
}
