//! Retries of requests to the server.

#![allow(clippy::disallowed_methods, reason = "waits between attempts")]

use super::client::RequestFailure;
use super::observer::{ModelEvent, ModelObserver};
use std::time::Duration;

/// Retries of failed requests, with exponential backoff.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Maximum number of retries.
    pub retries: u32,
    /// Wait before the first retry; it doubles with every further one.
    pub initial_wait: Duration,
    pub max_wait: Duration,
}

impl RetryPolicy {
    /// Returns the wait before retry `tried`, from 0; `None` if there is no further retry.
    pub(super) fn backoff(&self, tried: u32, failure: &RequestFailure) -> Option<Duration> {
        if tried >= self.retries {
            return None;
        }
        let doubled = self
            .initial_wait
            .saturating_mul(2_u32.saturating_pow(tried.min(20)))
            .min(self.max_wait);
        match failure.retry_after() {
            // The server's `retry-after` takes precedence; a longer wait than the maximum means giving up.
            Some(asked) => Some(asked).filter(|asked| *asked <= self.max_wait),
            None => Some(doubled),
        }
    }

    /// Repeats an attempt until it succeeds, fails for good, or has no retries left.
    pub(super) fn run_with_retries<T>(
        &self,
        is_transient: impl Fn(&RequestFailure) -> bool,
        observer: &ModelObserver,
        mut attempt: impl FnMut() -> Result<T, RequestFailure>,
    ) -> Result<T, RequestFailure> {
        let mut tried = 0;
        loop {
            let failure = match attempt() {
                Ok(done) => return Ok(done),
                Err(failure) => failure,
            };
            let wait = Some(&failure).filter(|failure| is_transient(failure));
            let Some(wait) = wait.and_then(|failure| self.backoff(tried, failure)) else {
                return Err(failure);
            };
            observer.notify(ModelEvent::Waiting(wait, &failure.to_string()));
            std::thread::sleep(wait);
            tried += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_unless_the_server_names_one() {
        let policy = RetryPolicy {
            retries: 4,
            initial_wait: Duration::from_secs(1),
            max_wait: Duration::from_secs(5),
        };
        let failure = |retry_after| RequestFailure::Status {
            status: 429,
            kind: String::new(),
            message: String::new(),
            retry_after,
        };
        let waits = (0..5).map(|tried| policy.backoff(tried, &failure(None)).map(|wait| wait.as_secs()));
        assert_eq!(waits.collect::<Vec<_>>(), [Some(1), Some(2), Some(4), Some(5), None]);
        assert_eq!(
            policy.backoff(0, &failure(Some(Duration::from_secs(3)))),
            Some(Duration::from_secs(3))
        );
        assert_eq!(policy.backoff(3, &failure(Some(Duration::ZERO))), Some(Duration::ZERO));
        assert_eq!(policy.backoff(0, &failure(Some(Duration::from_secs(60)))), None);
    }
}
