//! The simulated window: which items are in it, and what they come to.
//!
//! Totals are kept as items come and go; [`Window::count`] adds the window up from scratch, so that every replay can check
//! itself.

use super::event::PARTS;
use super::trace::{Item, NONE, Trace, flag};
use crate::tokens::ledger::Category;
use std::ops::Range;

/// What became of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
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
    states: Vec<State>,
    /// Items that may be in the window, oldest first. The last range is the one that grows.
    ranges: Vec<Range<u32>>,
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
            states: vec![State::Out; trace.items.len()],
            ranges: Vec::new(),
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
        self.parts.map(|tokens| u64::try_from(tokens).unwrap_or(0))
    }

    /// Tokens in the window beyond system prompt and tools.
    pub fn conversation(&self) -> u64 {
        self.total().saturating_sub(u64::try_from(self.base).unwrap_or(0))
    }

    /// What became of an item.
    pub fn state(&self, item: u32) -> State {
        self.states[item as usize]
    }

    fn item(&self, item: u32) -> &'t Item {
        &self.trace.items[item as usize]
    }

    fn size(&self, item: u32) -> i64 {
        let tokens = i64::from(self.item(item).tokens);
        match self.state(item) {
            State::Out => 0,
            State::Live => tokens,
            State::Cleared => tokens.min(self.placeholder as i64),
        }
    }

    fn put(&mut self, item: u32, state: State) {
        let before = self.size(item);
        self.states[item as usize] = state;
        self.grow(self.item(item).category, self.size(item) - before);
    }

    fn grow(&mut self, category: Category, tokens: i64) {
        self.parts[category as usize] += tokens;
        self.sum += tokens;
    }

    /// Adds items at the end. What a recorded compaction put in comes along only if `with_artefacts`. Returns how many
    /// results were left out because their call is not there.
    pub fn add(&mut self, items: Range<u32>, with_artefacts: bool) -> u32 {
        let mut orphans = 0;
        for at in items.clone() {
            let item = self.item(at);
            if item.is(flag::ARTEFACT) && !with_artefacts {
                continue;
            }
            let is_result = item.category == Category::ToolResult;
            if is_result && item.pair != NONE && self.state(item.pair) == State::Out {
                orphans += 1;
                continue;
            }
            self.states[at as usize] = State::Live;
            self.grow(item.category, i64::from(item.tokens));
        }
        match self.ranges.last_mut() {
            Some(last) if last.end == items.start => last.end = items.end,
            _ if items.is_empty() => {}
            _ => self.ranges.push(items),
        }
        orphans
    }

    /// Puts a placeholder in the place of an item.
    pub fn clear(&mut self, item: u32) {
        if self.state(item) == State::Live {
            self.put(item, State::Cleared);
        }
    }

    /// Puts an item back in the place of its placeholder.
    pub fn revive(&mut self, item: u32) {
        if self.state(item) == State::Cleared {
            self.put(item, State::Live);
        }
    }

    /// Tokens that a placeholder saves.
    pub fn saved(&self, item: u32) -> u64 {
        match self.state(item) {
            State::Cleared => u64::try_from(i64::from(self.item(item).tokens) - self.size(item)).unwrap_or(0),
            State::Out | State::Live => 0,
        }
    }

    /// Takes an item out.
    pub fn remove(&mut self, item: u32) {
        self.put(item, State::Out);
    }

    /// Adds something that is no item.
    pub fn add_extra(&mut self, category: Category, tokens: u64) {
        self.extras.push((category, tokens));
        self.grow(category, tokens as i64);
    }

    /// Starts anew with nothing but the items of `kept`.
    pub fn reset(&mut self, kept: Range<u32>) {
        for range in std::mem::take(&mut self.ranges) {
            for item in range {
                if !kept.contains(&item) {
                    self.states[item as usize] = State::Out;
                }
            }
        }
        self.extras.clear();
        self.parts = [0; PARTS];
        self.sum = 0;
        self.drift = 0;
        for item in kept.clone() {
            self.grow(self.item(item).category, self.size(item));
        }
        if !kept.is_empty() {
            self.ranges.push(kept);
        }
    }

    /// Items in the window, oldest first.
    pub fn live(&self) -> impl DoubleEndedIterator<Item = u32> + '_ {
        self.ranges
            .iter()
            .cloned()
            .flatten()
            .filter(|item| self.state(*item) != State::Out)
    }

    /// The first item since the last boundary.
    pub fn floor(&self) -> u32 {
        self.ranges.first().map_or(0, |range| range.start)
    }

    /// The item after the last one.
    pub fn end(&self) -> u32 {
        self.ranges.last().map_or(0, |range| range.end)
    }

    /// Tokens of items in a range.
    pub fn tokens_in(&self, range: Range<u32>) -> u64 {
        range.map(|item| self.size(item) as u64).sum()
    }

    /// What is kept as a total, what the window adds up to from scratch, and whether every result in it has its call there
    /// too. The first two are equal unless there is a defect.
    pub fn count(&self) -> (i64, i64, bool) {
        let extras = self.extras.iter().map(|(_, tokens)| *tokens as i64).sum::<i64>();
        let (mut counted, mut is_paired) = (extras, true);
        for at in self.live() {
            let item = self.item(at);
            counted += self.size(at);
            is_paired &=
                item.category != Category::ToolResult || item.pair == NONE || self.state(item.pair) != State::Out;
        }
        (self.sum, counted, is_paired)
    }
}
