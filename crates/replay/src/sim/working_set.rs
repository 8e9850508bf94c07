//! Hits and misses: whether the window still held what a session used.

use crate::sim::uses::{FileFetch, FileReference, FileUse, FileUses};
use crate::sim::window::{ItemState, Window};
use std::ops::Range;
use transcript::build::IdMap;

/// An edit is a hit if at least this share of the lines that it replaces is in the window: nine of ten.
const HIT_SHARE: (usize, usize) = (9, 10);

/// Returns whether a use that needs `lines` lines is a hit with `live` of them in the window.
pub(super) fn is_hit(live: usize, lines: usize) -> bool {
    live * HIT_SHARE.1 >= lines * HIT_SHARE.0
}

/// Returns the lists of a use of which the window holds nothing.
pub(super) fn gone_lists<'a>(
    window: &'a Window<'_>,
    uses: &'a FileUses,
    one: &FileUse,
) -> impl Iterator<Item = u32> + 'a {
    let is_live = |item: &u32| window.state(*item) == ItemState::Live;
    let lists = one.lines.clone();
    lists.filter(move |list| !uses.lists.get(*list).iter().any(is_live))
}

/// A use is at risk if this many tokens lie between it and what it needs.
pub const AT_RISK: u32 = 20_000;

named_enum! {
    /// How a use of a file turned out.
    pub enum UseOutcome {
        /// The window holds what it needs.
        Live = "live",
        /// The file was missed once since the last drop already; it counts as fetched again since then.
        Filled = "filled",
        /// The window does not hold it, but the last boundary restored the file; the log does not show how much of it.
        Restored = "restored",
        /// The window does not hold it: a boundary dropped it before the model had seen it.
        InFlight = "in-flight",
        /// The window does not hold it.
        Missed = "missed",
    }
}

named_enum! {
    /// Why a file was read.
    pub enum FetchKind {
        /// The file was not read before.
        Cold = "cold",
        /// The window holds another range of the file.
        OtherRange = "other-range",
        /// The window already holds the range in the same version.
        Redundant = "redundant",
        /// The window holds the range, but the agent has edited the file since.
        Patched = "patched",
        /// The range was in the window and was dropped.
        Refetch = "refetch",
    }
}

/// Which files were missed since something was last dropped, for one chain.
#[derive(Debug, Default)]
pub struct WorkingSet {
    /// Number of times that something left the window.
    drops: u32,
    /// Missed files by path, with the value of `drops` at the miss.
    filled: IdMap<u64, u32>,
    /// The same for files that were mentioned.
    named: IdMap<u64, u32>,
    /// Items that the last boundary dropped before the model saw them.
    in_flight: Range<u32>,
}

impl WorkingSet {
    /// Records that something left the window.
    pub fn record_drop(&mut self) {
        self.drops += 1;
    }

    /// Records a boundary; `in_flight` are the items since the last response.
    pub fn record_boundary(&mut self, in_flight: Range<u32>) {
        self.drops += 1;
        self.in_flight = in_flight;
    }

    /// Classifies an edit or a write. `restored` are the files that the last boundary restored.
    pub fn classify_use(
        &mut self,
        window: &Window<'_>,
        uses: &FileUses,
        one: &FileUse,
        restored: &[(u32, u64)],
    ) -> UseOutcome {
        let lines = one.lines.len();
        let live = lines - gone_lists(window, uses, one).count();
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

    /// Classifies a mention of a file: a hit if any copy of the file is in the window.
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

    /// Classifies a use of something that is not in the window; `newest` is the item that held it last.
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

    /// Classifies a read.
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
