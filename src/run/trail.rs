//! What a run has read, as far as a command must know it whatever it makes of the logs: whether there is a session at all, and
//! the time of the newest record.

use std::sync::{Mutex, PoisonError};
use transcript::log::Time;
use transcript::problem::Problem;

/// What was read so far.
#[derive(Debug, Default)]
pub struct ReadTrail(Mutex<Option<ReadSummary>>);

/// The reading of some logs.
#[derive(Debug, Default)]
pub(super) struct ReadSummary {
    /// Time of the newest record; `None` if no line of any log is a record with a time.
    pub newest: Option<Time>,
    /// Problems with the logs, if that is so: they are all there is to say.
    pub problems: Vec<Problem>,
}

impl ReadTrail {
    /// Takes note of logs that were read.
    pub(super) fn record(&self, newest: Option<Time>, problems: &[Problem]) {
        let mut read = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = read.get_or_insert_default();
        read.newest = read.newest.max(newest);
        if read.newest.is_none() {
            read.problems = problems.to_vec();
        }
    }

    /// Returns what was read; `None` if the records of no log were.
    pub(super) fn into_summary(self) -> Option<ReadSummary> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why a command has nothing to show.
#[derive(Debug, thiserror::Error)]
pub enum NothingFound {
    /// The filters select nothing. No error: the sentence takes the place of an empty table.
    #[error("{0}")]
    Selected(String),
    /// Not one line of the logs is a record of a session.
    #[error("{message}")]
    NoSession {
        /// What was read.
        message: String,
        /// What is wrong with it.
        problems: Vec<Problem>,
    },
}
