//! Checks whether the miss metric predicts behavior: after a recorded boundary, does the agent read a file again before it
//! edits it?
//!
//! According to the metric, the agent has to read again what it needs and no longer sees. The first edit after a boundary
//! of each file known before it tests that. A read is *predicted* if less than nine tenths of the replaced lines that were
//! seen before the boundary were shown again after it, not counting reads of the file itself. A read is *observed* if the
//! agent read the file between the boundary and the edit.

use crate::sim::trace::Trace;
use crate::sim::uses::{FileUse, FileUses};

/// Numbers of first edits by prediction and observation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FirstEdits {
    /// Read predicted and observed.
    pub hits: u64,
    /// Read predicted but not observed.
    pub false_alarms: u64,
    /// Read observed but not predicted.
    pub surprises: u64,
    /// Neither predicted nor observed.
    pub quiet: u64,
}

impl FirstEdits {
    /// Adds the numbers of another chain.
    pub fn merge(&mut self, other: &FirstEdits) {
        self.hits += other.hits;
        self.false_alarms += other.false_alarms;
        self.surprises += other.surprises;
        self.quiet += other.quiet;
    }

    /// Returns the share of predicted reads that were observed, with its interval; `None` if none was predicted.
    pub fn precision(&self) -> Option<(f64, (f64, f64))> {
        wilson(self.hits, self.hits + self.false_alarms)
    }

    /// Returns the share of observed reads that were predicted, with its interval; `None` if none was observed.
    pub fn recall(&self) -> Option<(f64, (f64, f64))> {
        wilson(self.hits, self.hits + self.surprises)
    }
}

/// Returns a share with its 95 % Wilson score interval; `None` if `whole` is 0.
pub fn wilson(part: u64, whole: u64) -> Option<(f64, (f64, f64))> {
    if whole == 0 {
        return None;
    }
    let (n, z) = (whole as f64, 1.959_964_f64);
    let share = part as f64 / n;
    let center = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    Some((share, ((center - half).max(0.0), (center + half).min(1.0))))
}

/// Classifies the first edits after the boundaries of a chain.
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

/// Returns whether a boundary before item `start` lost what an edit needs; `None` if none of its lines was seen before.
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
