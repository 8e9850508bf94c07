//! Hits and misses: whether what a session used was still in the window.

use crate::sim::uses::{FileFetch, FileReference, FileUse, FileUses};
use crate::sim::window::{ItemState, Window};
use std::ops::Range;
use transcript::build::IdMap;

/// An edit is a hit if at least this share of the lines that it replaces is in the window.
const HIT_SHARE: (usize, usize) = (9, 10);

/// Whether a use of so many lines hits with so many of them in the window.
pub(super) fn is_hit(live: usize, lines: usize) -> bool {
    live * HIT_SHARE.1 >= lines * HIT_SHARE.0
}

/// A use this many tokens away from what it needs is at risk.
pub const AT_RISK: u32 = 20_000;

/// How a use came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum UseOutcome {
    /// What it needs is in the window.
    Live,
    /// It was missed since the drop already, and taken as fetched again.
    Filled,
    /// It is not, but its file came back with the last boundary: how much of it, nobody knows.
    Restored,
    /// It is not: it was among the results that a boundary summarised before the model had seen them.
    InFlight,
    /// It is not.
    Missed,
}

impl UseOutcome {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            UseOutcome::Live => "live",
            UseOutcome::Filled => "filled",
            UseOutcome::Restored => "restored",
            UseOutcome::InFlight => "in-flight",
            UseOutcome::Missed => "missed",
        }
    }
}

/// What a read was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FetchKind {
    /// A file that was not known.
    Cold,
    /// Another part of a file in the window.
    OtherRange,
    /// The same version and range are in the window.
    Redundant,
    /// They are but for own edits since.
    Patched,
    /// They were, and were dropped.
    Refetch,
}

/// All kinds, in the order of their declaration.
pub const FETCH_KINDS: [FetchKind; 5] = [
    FetchKind::Cold,
    FetchKind::OtherRange,
    FetchKind::Redundant,
    FetchKind::Patched,
    FetchKind::Refetch,
];

impl FetchKind {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            FetchKind::Cold => "cold",
            FetchKind::OtherRange => "other-range",
            FetchKind::Redundant => "redundant",
            FetchKind::Patched => "patched",
            FetchKind::Refetch => "refetch",
        }
    }
}

/// What is known about drops, for one chain.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// Goes up whenever something leaves the window.
    drops: u32,
    /// Files that were missed, with the drop that they were missed after.
    filled: IdMap<u64, u32>,
    /// The same for files that were named.
    named: IdMap<u64, u32>,
    /// Items that the last boundary summarised before the model saw them.
    in_flight: Range<u32>,
}

impl WorkingSet {
    /// Something left the window.
    pub fn record_drop(&mut self) {
        self.drops += 1;
    }

    /// A boundary: everything since the last response was in flight.
    pub fn record_boundary(&mut self, in_flight: Range<u32>) {
        self.drops += 1;
        self.in_flight = in_flight;
    }

    /// How a use comes out. `restored` are the files that came back with the last boundary.
    pub fn classify_use(
        &mut self,
        window: &Window<'_>,
        uses: &FileUses,
        one: &FileUse,
        restored: &[(u32, u64)],
    ) -> UseOutcome {
        let is_live = |item: &u32| window.state(*item) == ItemState::Live;
        let lines = one.lines.len();
        let live = one
            .lines
            .clone()
            .filter(|list| uses.lists.get(*list).iter().any(is_live))
            .count();
        if is_hit(live, lines) {
            return UseOutcome::Live;
        }
        let newest = one
            .lines
            .clone()
            .filter_map(|list| uses.lists.get(list).first().copied())
            .max();
        let is_filled = self.filled.insert(u64::from(one.path), self.drops) == Some(self.drops);
        self.classify_lost(is_filled, one.path, newest, restored)
    }

    /// How a reference comes out: whether any copy of the file is in the window.
    pub fn classify_reference(
        &mut self,
        window: &Window<'_>,
        uses: &FileUses,
        one: &FileReference,
        restored: &[(u32, u64)],
    ) -> UseOutcome {
        let copies = uses.lists.get(one.copies);
        if copies.iter().any(|item| window.state(*item) == ItemState::Live) {
            return UseOutcome::Live;
        }
        let is_filled = self.named.insert(u64::from(one.path), self.drops) == Some(self.drops);
        self.classify_lost(is_filled, one.path, copies.first().copied(), restored)
    }

    /// How something comes out that is not in the window, where `newest` held it last.
    fn classify_lost(&self, is_filled: bool, path: u32, newest: Option<u32>, restored: &[(u32, u64)]) -> UseOutcome {
        if is_filled {
            UseOutcome::Filled
        } else if restored.iter().any(|(file, tokens)| *file == path && *tokens > 0) {
            UseOutcome::Restored
        } else if newest.is_some_and(|newest| self.in_flight.contains(&newest)) {
            UseOutcome::InFlight
        } else {
            UseOutcome::Missed
        }
    }

    /// What a read was for.
    pub fn classify_fetch(window: &Window<'_>, uses: &FileUses, fetch: &FileFetch) -> FetchKind {
        let has_live = |list: u32| {
            uses.lists
                .get(list)
                .iter()
                .any(|item| window.state(*item) == ItemState::Live)
        };
        if uses.lists.get(fetch.any).is_empty() {
            FetchKind::Cold
        } else if has_live(fetch.same) {
            FetchKind::Redundant
        } else if has_live(fetch.patched) {
            FetchKind::Patched
        } else if has_live(fetch.any) {
            FetchKind::OtherRange
        } else {
            FetchKind::Refetch
        }
    }
}
