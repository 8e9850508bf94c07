//! Checks whether the miss metric predicts behavior: after a recorded boundary, does the agent read a file again before it
//! edits it?
//!
//! The next touch of a known file after a boundary is a read or an edit. The share of reads is compared between files of
//! which the boundary kept the full text, a part, and nothing ([`NextTouches`]): it should rise with what was lost.
//!
//! According to the metric, the agent has to read again what it needs and no longer sees. The first edit after a boundary
//! of each file known before it tests that. A read is *predicted* if less than nine tenths of the replaced lines that were
//! seen before the boundary were shown again after it, not counting reads of the file itself. A read is *observed* if the
//! agent read the file between the boundary and the edit.

use crate::sim::trace::{Trace, flag};
use crate::sim::uses::{FileUse, FileUses};
use std::ops::Range;

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
    /// Next touches of known files by what the boundary left of them: full copy, partial copy, nothing.
    pub next_touches: [NextTouches; 3],
}

/// What remained of a file after a boundary, by index into [`FirstEdits::next_touches`].
pub const COPY_STATES: [&str; 3] = ["full", "partial", "dropped"];

/// Next touches of files after a boundary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NextTouches {
    pub reads: u64,
    pub touches: u64,
}

impl NextTouches {
    /// Returns the share of reads, with its interval; `None` without touches.
    pub fn read_share(&self) -> Option<(f64, (f64, f64))> {
        wilson(self.reads, self.touches)
    }
}

impl FirstEdits {
    /// Adds the numbers of another chain.
    pub fn merge(&mut self, other: &FirstEdits) {
        self.hits += other.hits;
        self.false_alarms += other.false_alarms;
        self.surprises += other.surprises;
        self.quiet += other.quiet;
        for (one, other) in std::iter::zip(&mut self.next_touches, &other.next_touches) {
            one.reads += other.reads;
            one.touches += other.touches;
        }
    }

    /// Returns the share of first edits with a read before them, with its interval: what a prediction that ignores the window
    /// would get for its precision. `None` without edits.
    pub fn base_rate(&self) -> Option<(f64, (f64, f64))> {
        wilson(
            self.hits + self.surprises,
            self.hits + self.surprises + self.false_alarms + self.quiet,
        )
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
        count_next_touches(trace, uses, start..end, &mut found.next_touches);
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

/// Counts the next touch of each file that was read before the boundary at the start of `segment`. A file has a full copy if
/// an item that the boundary brought in attaches it, a partial one if some of its lines are among those items.
fn count_next_touches(trace: &Trace, uses: &FileUses, segment: Range<u32>, counts: &mut [NextTouches; 3]) {
    let brought = |item: u32| item >= segment.start && trace.items[item as usize].has_flag(flag::ARTIFACT);
    let fetches = uses.fetches.iter().map(|fetch| (fetch.item, fetch.path, None));
    let edits = uses.uses.iter().map(|one| (one.item, one.path, Some(one)));
    let mut touches = fetches.chain(edits).collect::<Vec<_>>();
    touches.retain(|(item, ..)| segment.contains(item));
    touches.sort_by_key(|(item, ..)| *item);
    let mut seen = Vec::new();
    for (item, path, edit) in touches {
        let was_read = uses
            .fetches
            .iter()
            .any(|fetch| fetch.path == path && fetch.item < segment.start);
        if !was_read || seen.contains(&path) {
            continue;
        }
        seen.push(path);
        let attached = |at: u32| trace.items[at as usize].path == path && brought(at);
        let has_full = (segment.start..item).any(attached);
        let holds_part = |list: u32| uses.lists.get(list).iter().any(|holder| brought(*holder));
        let has_part = edit.is_some_and(|edit| edit.lines.clone().any(holds_part));
        let state = match (has_full, has_part) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
        counts[state].touches += 1;
        counts[state].reads += u64::from(edit.is_none());
    }
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
