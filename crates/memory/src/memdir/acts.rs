//! A person's acts on candidates, in `.archive/acts.jsonl`: one a line, in the order they were done.

use super::journal::ARCHIVE;
use super::{Memdir, MemdirError};
use crate::acts::{ActRecord, ReviewAct};
use crate::lock::WriteLock;
use std::collections::BTreeSet;
use std::io;
use table::atomic;

/// Name of the file, below the archive.
const ACTS_FILE: &str = "acts.jsonl";

impl Memdir {
    /// Returns the acts that were recorded; lines of another form are ignored.
    pub fn acts(&self) -> Result<Vec<ActRecord>, MemdirError> {
        match self.read_text(&format!("{ARCHIVE}/{ACTS_FILE}")) {
            Ok(text) => Ok(text
                .lines()
                .filter_map(|line| serde_json::from_str(line).ok())
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(MemdirError::Io(ACTS_FILE.to_owned(), error)),
        }
    }

    /// Returns the recorded acts and those that the directory shows: memories that were deleted or written by hand.
    pub fn all_acts(&self) -> Result<Vec<ActRecord>, MemdirError> {
        let mut acts = self.acts()?;
        let (snapshot, _) = self.read()?;
        let deleted = snapshot.deleted.iter().filter(|made| !made.title.is_empty());
        acts.extend(deleted.map(|made| ActRecord {
            act: ReviewAct::Delete,
            mark: made.marks.first().cloned().unwrap_or_default(),
            text: made.title.clone(),
        }));
        let written = snapshot.topics.iter().filter(|topic| topic.marks().is_empty());
        acts.extend(written.map(|topic| ActRecord {
            act: ReviewAct::Write,
            mark: String::new(),
            text: topic.name(),
        }));
        acts.sort();
        acts.dedup();
        Ok(acts)
    }

    /// Returns the marks of candidates that were dropped, so that they are not written.
    pub fn dropped_marks(&self) -> Result<BTreeSet<String>, MemdirError> {
        let dropped = self.acts()?.into_iter();
        let dropped = dropped.filter(|act| matches!(act.act, ReviewAct::Drop | ReviewAct::Never));
        Ok(dropped.map(|act| act.mark).collect())
    }

    /// Writes the acts anew.
    pub fn write_acts(&self, _lock: &WriteLock, acts: &[ActRecord]) -> Result<(), MemdirError> {
        let mut text = String::new();
        for act in acts {
            let line = serde_json::to_string(act).map_err(|error| MemdirError::Journal(ACTS_FILE.to_owned(), error))?;
            text.push_str(&line);
            text.push('\n');
        }
        let path = self.resolve_inside(&format!("{ARCHIVE}/{ACTS_FILE}"), true)?;
        atomic::write(&path, true, text.as_bytes())?;
        Ok(())
    }
}
