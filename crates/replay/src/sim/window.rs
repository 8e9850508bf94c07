//! The simulated window: which items are in it, and what they come to.
//!
//! Totals are kept as items come and go; [`Window::count`] adds the window up from scratch, so that every replay can check
//! itself.

use crate::sim::event::PARTS;
use crate::sim::steps::StretchTotals;
use crate::sim::trace::{NONE, Trace, TraceItem, flag};
use crate::tokens::ledger::Category;
use smallvec::SmallVec;
use std::ops::Range;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemState {
    /// Not added yet, or dropped.
    #[default]
    Out,
    /// In the window.
    Live,
    /// A placeholder stands for it.
    Cleared,
}

/// The window of one chain.
pub struct Window<'t> {
    trace: &'t Trace,
    /// By item, of those that were added: what became of it. Items are live unless something else is said here.
    states: Vec<ItemState>,
    /// The item after the last one that was added.
    added: u32,
    /// From this item on, everything that was added is in the window.
    intact: u32,
    /// Items that may be in the window, oldest first. The last range is the one that grows.
    ranges: SmallVec<[Range<u32>; 4]>,
    /// What is in the window without being an item: summaries, restored files.
    extras: Vec<(Category, u64)>,
    parts: [i64; PARTS],
    /// What they come to.
    sum: i64,
    /// System prompt and tools.
    pub base: i64,
    /// What the log says was sent beyond everything known.
    pub drift: i64,
    placeholder: u64,
}

impl<'t> Window<'t> {
    /// An empty window.
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

    /// Tokens in the window.
    pub fn total(&self) -> u64 {
        u64::try_from(self.base + self.drift + self.sum).unwrap_or(0)
    }

    /// Tokens by category.
    pub fn parts(&self) -> [u64; PARTS] {
        self.parts.map(|tokens| tokens.max(0) as u64)
    }

    /// Tokens in the window beyond system prompt and tools.
    pub fn conversation(&self) -> u64 {
        self.total().saturating_sub(u64::try_from(self.base).unwrap_or(0))
    }

    /// What became of an item.
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

    /// Tokens that an item takes in a state.
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

    /// Adds items at the end. What a recorded compaction put in comes along only if `with_artefacts`. Returns how many
    /// results were left out because their call is not there.
    pub fn add(&mut self, items: Range<u32>, with_artefacts: bool) -> u32 {
        self.skip_to(items.start);
        let mut orphans = 0;
        for at in items.clone() {
            let item = self.item(at);
            self.added = at + 1;
            let is_left_out = item.has_flag(flag::ARTEFACT) && !with_artefacts;
            let is_answer = item.category == Category::ToolResult && item.pair != NONE;
            let is_orphan = !is_left_out && is_answer && self.state(item.pair) == ItemState::Out;
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

    /// The same for a stretch of items, without a look at each of them where all are sure to join.
    #[inline]
    pub fn add_stretch(&mut self, items: Range<u32>, stretch: &StretchTotals, with_artefacts: bool) -> u32 {
        let may_lack_calls = stretch.earliest_call < self.intact;
        let Some(parts) = stretch
            .parts(with_artefacts)
            .filter(|_| !may_lack_calls && items.start == self.added)
        else {
            return self.add(items, with_artefacts);
        };
        for (part, tokens) in parts {
            self.parts[part] += i64::from(tokens);
            self.sum += i64::from(tokens);
        }
        self.added = items.end;
        self.extend(items);
        0
    }

    /// Items up to this one that were not added stay out.
    fn skip_to(&mut self, start: u32) {
        if start > self.added {
            self.states[self.added as usize..start as usize].fill(ItemState::Out);
            self.added = start;
            self.intact = start;
        }
    }

    #[inline]
    fn extend(&mut self, items: Range<u32>) {
        match self.ranges.last_mut() {
            Some(last) if last.end == items.start => last.end = items.end,
            _ if items.is_empty() => {}
            _ => self.ranges.push(items),
        }
    }

    /// Puts a placeholder in the place of an item.
    pub fn clear(&mut self, item: u32) {
        if self.state(item) == ItemState::Live {
            self.set_state(item, ItemState::Cleared);
        }
    }

    /// Puts an item back in the place of its placeholder.
    pub fn revive(&mut self, item: u32) {
        if self.state(item) == ItemState::Cleared {
            self.set_state(item, ItemState::Live);
        }
    }

    /// Tokens that a placeholder saves.
    pub fn placeholder_savings(&self, item: u32) -> u64 {
        match self.state(item) {
            ItemState::Cleared => u64::try_from(i64::from(self.item(item).tokens) - self.size(item)).unwrap_or(0),
            ItemState::Out | ItemState::Live => 0,
        }
    }

    /// Takes an item out.
    pub fn remove(&mut self, item: u32) {
        self.intact = self.intact.max(item + 1);
        self.set_state(item, ItemState::Out);
    }

    /// Adds something that is no item.
    pub fn add_extra(&mut self, category: Category, tokens: u64) {
        self.extras.push((category, tokens));
        self.add_tokens(category, tokens as i64);
    }

    /// Starts anew with nothing but the items of `kept`.
    pub fn reset(&mut self, kept: Range<u32>) {
        for range in std::mem::take(&mut self.ranges) {
            let before = range.start..range.end.min(kept.start.max(range.start));
            let after = range.start.max(kept.end.min(range.end))..range.end;
            for dropped in [before, after] {
                self.states[dropped.start as usize..dropped.end as usize].fill(ItemState::Out);
            }
        }
        // Nothing but the newest items is known to be whole.
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

    /// Items in the window, oldest first.
    pub fn live_items(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.ranges
            .iter()
            .cloned()
            .flatten()
            .filter(|item| self.state(*item) != ItemState::Out)
    }

    /// The first item since the last boundary.
    pub fn floor(&self) -> u32 {
        self.ranges.first().map_or(0, |range| range.start)
    }

    /// The item after the last one.
    pub fn end(&self) -> u32 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Items of a range with what became of them, as far as they were added.
    fn items_with_state(&self, range: &Range<u32>) -> impl Iterator<Item = (&'t TraceItem, ItemState)> + '_ {
        let start = range.start.min(self.added);
        let added = start..range.end.min(self.added).max(start);
        let states = &self.states[added.start as usize..added.end as usize];
        std::iter::zip(self.trace.items(&added), states.iter().copied())
    }

    /// Items of a range that are in the window.
    pub fn items_in(&self, range: &Range<u32>) -> impl Iterator<Item = &'t TraceItem> + '_ {
        let told = self
            .items_with_state(range)
            .filter(|(_, state)| *state != ItemState::Out);
        told.map(|(item, _)| item)
    }

    /// Tokens of items in a range.
    pub fn tokens_in(&self, range: Range<u32>) -> u64 {
        let sizes = self
            .items_with_state(&range)
            .map(|(item, state)| self.size_in(item, state) as u64);
        sizes.sum()
    }

    /// What is kept as a total, what the window adds up to from scratch, and whether every result in it has its call there
    /// too. The first two are equal unless there is a defect.
    pub fn audit_totals(&self) -> (i64, i64, bool) {
        let extras = self.extras.iter().map(|(_, tokens)| *tokens as i64).sum::<i64>();
        let (mut counted, mut is_paired) = (extras, true);
        let states = &self.states[..self.added as usize];
        for range in &self.ranges {
            for (item, state) in self.items_with_state(range) {
                counted += self.size_in(item, state);
                // Nothing is skipped: a branch would be guessed wrong every other time.
                let is_answer = (item.category == Category::ToolResult) & (item.pair != NONE);
                let has_call = states
                    .get(item.pair as usize)
                    .is_some_and(|state| *state != ItemState::Out);
                is_paired &= !is_answer | (state == ItemState::Out) | has_call;
            }
        }
        (self.sum, counted, is_paired)
    }
}
