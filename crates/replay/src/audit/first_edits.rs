//! Does the metric predict behaviour? The first edit of a file after a recorded boundary, and whether a read came first.
//!
//! By the metric the agent has to read again what it needs and no longer sees. So for every file that was known before a
//! boundary, the first edit after it tells whether that is so: *predicted* is a read if less than nine tenths of the lines it
//! replaces, as far as they were seen before, are in what came since, reads of the file itself aside; *observed* is a read if
//! one came before the edit.

use crate::sim::trace::Trace;
use crate::sim::uses::{FileUse, FileUses};

/// Predictions and what happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstEdits {
    /// Predicted and observed.
    pub hits: u64,
    /// Predicted, and the edit came without a read.
    pub false_alarms: u64,
    /// Not predicted, and a read came first.
    pub surprises: u64,
    /// Neither.
    pub quiet: u64,
}

impl FirstEdits {
    /// Adds those of another chain.
    pub fn merge(&mut self, other: &FirstEdits) {
        self.hits += other.hits;
        self.false_alarms += other.false_alarms;
        self.surprises += other.surprises;
        self.quiet += other.quiet;
    }

    /// Of the predicted reads, those that happened: share, and its interval.
    pub fn precision(&self) -> Option<(f64, (f64, f64))> {
        wilson(self.hits, self.hits + self.false_alarms)
    }

    /// Of the reads that happened, those that were predicted.
    pub fn recall(&self) -> Option<(f64, (f64, f64))> {
        wilson(self.hits, self.hits + self.surprises)
    }
}

/// A share with its interval of 95 % (Wilson).
pub fn wilson(part: u64, whole: u64) -> Option<(f64, (f64, f64))> {
    if whole == 0 {
        return None;
    }
    let (n, z) = (whole as f64, 1.959_964_f64);
    let share = part as f64 / n;
    let centre = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    Some((share, ((centre - half).max(0.0), (centre + half).min(1.0))))
}

/// Looks at the first edits after the boundaries of a chain.
pub fn first_edits(trace: &Trace, uses: &FileUses) -> FirstEdits {
    let mut found = FirstEdits::default();
    let boundaries = trace
        .recorded
        .iter()
        .filter(|boundary| !boundary.is_micro && !boundary.is_copied);
    let starts = boundaries.map(|boundary| boundary.item).collect::<Vec<_>>();
    for (at, &start) in starts.iter().enumerate() {
        let end = starts.get(at + 1).copied().unwrap_or(u32::MAX);
        let mut seen = Vec::new();
        let after = uses.uses.iter().filter(|one| (start..end).contains(&one.item));
        for one in after {
            if seen.contains(&one.path) {
                continue;
            }
            seen.push(one.path);
            let is_read = uses
                .fetches
                .iter()
                .any(|fetch| fetch.path == one.path && (start..one.item).contains(&fetch.item));
            match (is_lost(uses, one, start), is_read) {
                (None, _) => {}
                (Some(true), true) => found.hits += 1,
                (Some(true), false) => found.false_alarms += 1,
                (Some(false), true) => found.surprises += 1,
                (Some(false), false) => found.quiet += 1,
            }
        }
    }
    found
}

/// Whether what an edit needs was lost at a boundary; `None` if it needs nothing that was seen before.
fn is_lost(uses: &FileUses, one: &FileUse, start: u32) -> Option<bool> {
    let is_own_read = |item: u32| {
        uses.fetches
            .iter()
            .any(|fetch| fetch.item == item && fetch.path == one.path)
    };
    let known = one
        .lines
        .clone()
        .filter(|list| uses.lists.get(*list).iter().any(|item| *item < start));
    let (mut lines, mut live) = (0, 0);
    for list in known {
        lines += 1;
        let is_live = uses
            .lists
            .get(list)
            .iter()
            .any(|item| *item >= start && !is_own_read(*item));
        live += usize::from(is_live);
    }
    (lines > 0).then_some(live * 10 < lines * 9)
}
