//! The simulated window: which items are in it, and how many tokens they take.
//!
//! Totals are updated as items come and go; [`Window::audit_totals`] recounts the window from scratch, so every replay
//! can check itself.

use crate::sim::event::PARTS;
use crate::sim::steps::StretchTotals;
use crate::sim::trace::{NONE, Trace, TraceItem, flag};
use crate::tokens::ledger::Category;
use smallvec::SmallVec;
use std::ops::Range;

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemState {
    /// Outside: not added yet, or dropped.
    #[default]
    Out,
    /// In the window, in full.
    Live,
    /// In the window, replaced by a placeholder.
    Cleared,
}

/// The running totals of a window and their recount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowAudit {
    /// The total that was updated with every change.
    pub running: i64,
    /// The total by recount; equal to `running` unless the program has a bug.
    pub counted: i64,
    /// Whether every result in the window has its call there too.
    pub is_paired: bool,
}

/// The window of one chain.
pub struct Window<'t> {
    trace: &'t Trace,
    /// By item. Only the first `added` entries count; they start as `Live`, so adding an item writes nothing here.
    states: Vec<ItemState>,
    /// The end of the items that were added.
    added: u32,
    /// From this item on, everything that was added is still in the window.
    intact: u32,
    /// Ranges that contain all items in the window, oldest first. The last one grows.
    ranges: SmallVec<[Range<u32>; 4]>,
    /// Contents that are no items: summaries and restored files.
    extras: Vec<(Category, u64)>,
    /// Tokens by category.
    parts: [i64; PARTS],
    /// The sum of `parts`.
    sum: i64,
    /// Tokens of system prompt and tools.
    pub base: i64,
    /// Tokens that the log shows in the prompt beyond everything known.
    pub drift: i64,
    /// Tokens of a placeholder.
    placeholder: u64,
}

impl<'t> Window<'t> {
    /// Creates an empty window; `placeholder` is the size of a cleared result.
    pub fn new(trace: &'t Trace, placeholder: u64) -> Window<'t> {
        Window {
            trace,
            states: vec![ItemState::Live; trace.items.len()],
            added: 0,
            intact: 0,
            ranges: SmallVec::new(),
            extras: Vec::new(),
            parts: [0; PARTS],
            sum: 0,
            base: i64::from(trace.base),
            drift: 0,
            placeholder,
        }
    }

    /// Returns the tokens in the window, system prompt and tools included.
    pub fn total(&self) -> u64 {
        u64::try_from(self.base + self.drift + self.sum).unwrap_or(0)
    }

    /// Returns the tokens by category.
    pub fn parts(&self) -> [u64; PARTS] {
        self.parts.map(|tokens| tokens.max(0) as u64)
    }

    /// Returns the tokens in the window without system prompt and tools.
    pub fn conversation(&self) -> u64 {
        self.total().saturating_sub(u64::try_from(self.base).unwrap_or(0))
    }

    /// Returns where an item is.
    #[inline]
    pub fn state(&self, item: u32) -> ItemState {
        if item < self.added {
            self.states[item as usize]
        } else {
            ItemState::Out
        }
    }

    fn item(&self, item: u32) -> &'t TraceItem {
        &self.trace.items[item as usize]
    }

    fn size(&self, item: u32) -> i64 {
        self.size_in(self.item(item), self.state(item))
    }

    /// Returns the tokens that an item takes in a state.
    #[inline]
    fn size_in(&self, item: &TraceItem, state: ItemState) -> i64 {
        let tokens = i64::from(item.tokens);
        match state {
            ItemState::Out => 0,
            ItemState::Live => tokens,
            ItemState::Cleared => tokens.min(self.placeholder as i64),
        }
    }

    fn set_state(&mut self, item: u32, state: ItemState) {
        let before = self.size(item);
        self.states[item as usize] = state;
        self.add_tokens(self.item(item).category, self.size(item) - before);
    }

    fn add_tokens(&mut self, category: Category, tokens: i64) {
        self.parts[category as usize] += tokens;
        self.sum += tokens;
    }

    /// Adds items at the end, one by one. Artifacts of recorded compactions join only if `with_artifacts`. Returns how many
    /// results were left out because their calls are not in the window.
    pub fn add(&mut self, items: Range<u32>, with_artifacts: bool) -> u32 {
        self.skip_to(items.start);
        let mut orphans = 0;
        for at in items.clone() {
            let item = self.item(at);
            self.added = at + 1;
            let is_left_out = item.has_flag(flag::ARTIFACT) && !with_artifacts;
            let has_call = item.category == Category::ToolResult && item.pair != NONE;
            let is_orphan = !is_left_out && has_call && self.state(item.pair) == ItemState::Out;
            if is_left_out || is_orphan {
                orphans += u32::from(is_orphan);
                self.states[at as usize] = ItemState::Out;
                self.intact = at + 1;
                continue;
            }
            self.add_tokens(item.category, i64::from(item.tokens));
        }
        self.extend(items);
        orphans
    }

    /// Does the same as [`Window::add`] for a stretch whose sums are known. Nearly every call takes this path: it adds at most
    /// three sums and looks at no item. It falls back to `add` if an item might have to stay out.
    #[inline]
    pub fn add_stretch(&mut self, items: Range<u32>, stretch: &StretchTotals, with_artifacts: bool) -> u32 {
        // From `intact` on nothing is missing, so a result whose call lies there cannot be an orphan.
        let may_lack_calls = stretch.earliest_call < self.intact;
        let Some(parts) = stretch
            .parts(with_artifacts)
            .filter(|_| !may_lack_calls && items.start == self.added)
        else {
            return self.add(items, with_artifacts);
        };
        for (part, tokens) in parts {
            self.parts[part] += i64::from(tokens);
            self.sum += i64::from(tokens);
        }
        self.added = items.end;
        self.extend(items);
        0
    }

    /// Marks the items before `start` that were not added as outside.
    fn skip_to(&mut self, start: u32) {
        if start > self.added {
            self.states[self.added as usize..start as usize].fill(ItemState::Out);
            self.added = start;
            self.intact = start;
        }
    }

    /// Extends the last range, or starts a new one after a gap.
    #[inline]
    fn extend(&mut self, items: Range<u32>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == items.start => last.end = items.end,
            _ if items.is_empty() => {}
            _ => self.ranges.push(items),
        }
    }

    /// Replaces an item by a placeholder.
    pub fn clear(&mut self, item: u32) {
        if self.state(item) == ItemState::Live {
            self.set_state(item, ItemState::Cleared);
        }
    }

    /// Replaces a placeholder by its item.
    pub fn revive(&mut self, item: u32) {
        if self.state(item) == ItemState::Cleared {
            self.set_state(item, ItemState::Live);
        }
    }

    /// Returns the tokens that the placeholder of an item saves; 0 if it has none.
    pub fn placeholder_savings(&self, item: u32) -> u64 {
        match self.state(item) {
            ItemState::Cleared => u64::try_from(i64::from(self.item(item).tokens) - self.size(item)).unwrap_or(0),
            ItemState::Out | ItemState::Live => 0,
        }
    }

    /// Removes an item without a placeholder.
    pub fn remove(&mut self, item: u32) {
        self.intact = self.intact.max(item + 1);
        self.set_state(item, ItemState::Out);
    }

    /// Adds contents that are no item.
    pub fn add_extra(&mut self, category: Category, tokens: u64) {
        self.extras.push((category, tokens));
        self.add_tokens(category, tokens as i64);
    }

    /// Drops everything but the items of `kept`.
    pub fn reset(&mut self, kept: Range<u32>) {
        for range in std::mem::take(&mut self.ranges) {
            let before = range.start..range.end.min(kept.start.max(range.start));
            let after = range.start.max(kept.end.min(range.end))..range.end;
            for dropped in [before, after] {
                self.states[dropped.start as usize..dropped.end as usize].fill(ItemState::Out);
            }
        }
        // The fast path of `add_stretch` needs a tail without gaps: the kept items, if they are the newest ones.
        self.intact = match !kept.is_empty() && kept.end == self.added {
            true => self.intact.max(kept.start),
            false => self.added,
        };
        self.extras.clear();
        self.parts = [0; PARTS];
        self.sum = 0;
        self.drift = 0;
        for item in kept.clone() {
            self.add_tokens(self.item(item).category, self.size(item));
        }
        if !kept.is_empty() {
            self.ranges.push(kept);
        }
    }

    /// Iterates over the items in the window, oldest first.
    pub fn live_items(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.ranges
            .iter()
            .cloned()
            .flatten()
            .filter(|item| self.state(*item) != ItemState::Out)
    }

    /// Returns the first item since the last boundary.
    pub fn floor(&self) -> u32 {
        self.ranges.first().map_or(0, |range| range.start)
    }

    /// Returns the end of the items in the window.
    pub fn end(&self) -> u32 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Iterates over the items of a range that were added, with their states.
    fn items_with_state(&self, range: &Range<u32>) -> impl Iterator<Item = (&'t TraceItem, ItemState)> + '_ {
        let start = range.start.min(self.added);
        let added = start..range.end.min(self.added).max(start);
        let states = &self.states[added.start as usize..added.end as usize];
        std::iter::zip(self.trace.items(&added), states.iter().copied())
    }

    /// Iterates over the items of a range that are in the window.
    pub fn items_in(&self, range: &Range<u32>) -> impl Iterator<Item = &'t TraceItem> + '_ {
        let inside = self
            .items_with_state(range)
            .filter(|(_, state)| *state != ItemState::Out);
        inside.map(|(item, _)| item)
    }

    /// Returns the tokens that the items of a range take in the window.
    pub fn tokens_in(&self, range: Range<u32>) -> u64 {
        let sizes = self
            .items_with_state(&range)
            .map(|(item, state)| self.size_in(item, state) as u64);
        sizes.sum()
    }

    /// Recounts the window from scratch and checks that every result has its call.
    pub fn audit_totals(&self) -> WindowAudit {
        let extras = self.extras.iter().map(|(_, tokens)| *tokens as i64).sum::<i64>();
        let (mut counted, mut is_paired) = (extras, true);
        let states = &self.states[..self.added as usize];
        for range in &self.ranges {
            for (item, state) in self.items_with_state(range) {
                counted += self.size_in(item, state);
                // Branch-free on purpose: every other item is a result, so a branch would be mispredicted half the time.
                let needs_call = (item.category == Category::ToolResult) & (item.pair != NONE);
                let has_call = states
                    .get(item.pair as usize)
                    .is_some_and(|state| *state != ItemState::Out);
                is_paired &= !needs_call | (state == ItemState::Out) | has_call;
            }
        }
        WindowAudit {
            running: self.sum,
            counted,
            is_paired,
        }
    }
}
