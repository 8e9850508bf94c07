//! Progress events of model calls.

use super::request::ModelTask;
use std::time::Duration;
use transcript::record::Tokens;

/// Progress of a model call.
#[derive(Debug)]
pub enum ModelEvent<'e> {
    /// A request was sent: its attempt, from 1.
    Sent(ModelTask, u32),
    /// Bytes of the answer so far.
    Received(usize),
    /// An answer is complete.
    Answered(ModelTask, &'e Tokens),
    /// Waiting before a retry, and the reason.
    Waiting(Duration, &'e str),
    /// Progress of a batch: its id and a message.
    Batch(&'e str, &'e str),
    /// A problem that does not stop the run.
    Warning(&'e str),
    /// HTTP traffic, with its level of detail from 2 on.
    Trace(u8, &'e str),
}

/// Receives progress of model calls.
pub struct ModelObserver {
    /// Highest level of traces that is reported.
    pub detail: u8,
    pub on_event: Box<dyn Fn(ModelEvent<'_>) + Send + Sync>,
}

impl ModelObserver {
    /// Returns an observer that ignores all events.
    pub fn none() -> ModelObserver {
        ModelObserver {
            detail: 0,
            on_event: Box::new(|_| ()),
        }
    }

    pub(super) fn notify(&self, event: ModelEvent<'_>) {
        (self.on_event)(event);
    }

    #[cfg_attr(not(feature = "model"), allow(dead_code, reason = "only the HTTP client calls it"))]
    pub(super) fn trace(&self, level: u8, text: impl FnOnce() -> String) {
        if self.detail >= level {
            self.notify(ModelEvent::Trace(level, &text()));
        }
    }

    pub(super) fn warn_not_stored(&self, error: &std::io::Error) {
        self.notify(ModelEvent::Warning(&format!("cannot store an answer: {error}")));
    }
}
