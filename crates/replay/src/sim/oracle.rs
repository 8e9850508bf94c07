//! The clairvoyant bound: how small a window could be, and how little it would miss, if it knew every later use.
//!
//! The oracle only knows [`FileUses`]: edits and writes of known files. It drops everything else that a conversation needs
//! (instructions, reasoning, the calls that results belong to), so it is a bound and not a usable policy. It has no cost
//! figure, because a prompt that changes at every call is never read from a cache.
//!
//! Every line of a use is taken from one item, the newest that shows it. An item is dropped once no later use takes a line
//! from it; under a cap, the item whose next use is farthest away is dropped until the rest fits. After a miss the file is
//! back in the window. [`oracle_bound`] and [`oracle_bound_under`] state when this is optimal, docs/method.md argues why,
//! and the tests compare it with an exhaustive search over all ways to keep and drop.

use crate::sim::trace::{Trace, flag};
use crate::sim::uses::{FileUse, FileUses};
use crate::sim::working_set::is_hit;
use std::collections::BTreeSet;

/// Totals of the oracle over one or more chains, without calls copied from other sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct OracleBound {
    pub calls: u64,
    /// Sum of the windows of all calls.
    pub occupancy_sum: u128,
    /// The largest window.
    pub peak: u64,
    /// Uses whose lines were not in the window, counted once per call and file.
    pub misses: u64,
}

impl OracleBound {
    /// Returns the mean window; `None` without calls.
    pub fn mean(&self) -> Option<u64> {
        (self.calls > 0).then(|| (self.occupancy_sum / u128::from(self.calls)) as u64)
    }

    /// Adds the totals of another chain.
    pub fn merge(&mut self, other: &OracleBound) {
        self.calls += other.calls;
        self.occupancy_sum += other.occupancy_sum;
        self.peak = self.peak.max(other.peak);
        self.misses += other.misses;
    }
}

/// Returns the bound without a cap: system prompt and tools, the new input of the call, and what later uses need.
///
/// If every line has one holder and no use has more than nine lines (so that it needs them all), no window without a miss
/// is smaller, at any call. Otherwise it is a window without a miss, but not always the smallest.
pub fn oracle_bound(trace: &Trace, uses: &FileUses) -> OracleBound {
    Oracle::new(trace, uses, u64::MAX).run()
}

/// Returns the bound under a cap on the window. New input that exceeds the cap by itself is sent anyway.
///
/// If all needed items have the same size, every use needs one item and every file has one, no choice of what to keep has
/// fewer misses. Otherwise it is the result of farthest-next-use, not always the fewest misses.
pub fn oracle_bound_under(trace: &Trace, uses: &FileUses, cap: u64) -> OracleBound {
    Oracle::new(trace, uses, cap).run()
}

struct Oracle<'t> {
    trace: &'t Trace,
    uses: &'t FileUses,
    cap: u64,
    /// Pairs of an item and a call that needs it, sorted.
    needs: Vec<(u32, u32)>,
    /// Pairs of a file and an item that its uses need, sorted.
    files: Vec<(u32, u32)>,
    /// Kept items of earlier calls: the call that needs each next, and the item.
    kept: BTreeSet<(u32, u32)>,
    kept_tokens: u64,
    found: OracleBound,
}

impl<'t> Oracle<'t> {
    fn new(trace: &'t Trace, uses: &'t FileUses, cap: u64) -> Oracle<'t> {
        let mut oracle = Oracle {
            trace,
            uses,
            cap,
            needs: Vec::new(),
            files: Vec::new(),
            kept: BTreeSet::new(),
            kept_tokens: 0,
            found: OracleBound::default(),
        };
        let own = |one: &&FileUse| !trace.calls[one.call as usize].is_copied;
        for one in uses.uses.iter().filter(own) {
            for list in one.lines.clone() {
                let Some(item) = oracle.holders(list).next() else {
                    continue;
                };
                oracle.needs.push((item, one.call));
                oracle.files.push((one.path, item));
            }
        }
        for pairs in [&mut oracle.needs, &mut oracle.files] {
            pairs.sort_unstable();
            pairs.dedup();
        }
        oracle
    }

    fn run(mut self) -> OracleBound {
        for (at, call) in self.trace.calls.iter().enumerate() {
            let at = at as u32;
            if !call.is_copied {
                self.send_input(at);
                self.check_uses(at);
            }
            for item in call.inputs.clone().chain(call.response.clone()) {
                self.keep(item, at);
            }
        }
        self.found
    }

    /// Iterates over the holders of a list, newest first, without artifacts of recorded compactions: those exist only
    /// because the recorded client compacted.
    fn holders(&self, list: u32) -> impl Iterator<Item = u32> + use<'t> {
        let trace = self.trace;
        let is_given = move |item: &u32| !trace.items[*item as usize].has_flag(flag::ARTIFACT);
        self.uses.lists.get(list).iter().copied().filter(is_given)
    }

    fn tokens(&self, item: u32) -> u64 {
        u64::from(self.trace.items[item as usize].tokens)
    }

    /// Returns the next call after `at` that needs an item; `None` if none does.
    fn next_use(&self, item: u32, at: u32) -> Option<u32> {
        let next = self.needs.partition_point(|need| *need <= (item, at));
        let (needed, call) = *self.needs.get(next)?;
        (needed == item).then_some(call)
    }

    /// Keeps an item for the calls after `at`, if one needs it.
    fn keep(&mut self, item: u32, at: u32) {
        if let Some(next) = self.next_use(item, at)
            && self.kept.insert((next, item))
        {
            self.kept_tokens += self.tokens(item);
        }
    }

    /// Makes room for the new input of a call and counts the window.
    fn send_input(&mut self, at: u32) {
        let call = &self.trace.calls[at as usize];
        let inputs = self.trace.items(&call.inputs).iter();
        let given = inputs.filter(|item| !item.has_flag(flag::ARTIFACT));
        let needed = u64::from(self.trace.base) + given.map(|item| u64::from(item.tokens)).sum::<u64>();
        while needed + self.kept_tokens > self.cap
            && let Some((_, item)) = self.kept.pop_last()
        {
            self.kept_tokens -= self.tokens(item);
        }
        let window = needed + self.kept_tokens;
        self.found.calls += 1;
        self.found.occupancy_sum += u128::from(window);
        self.found.peak = self.found.peak.max(window);
    }

    /// Counts the misses of a call, then drops what no later call needs. A missed file is back in the window afterwards.
    fn check_uses(&mut self, at: u32) {
        let mut missed = BTreeSet::new();
        for one in self.uses.of_call(at) {
            let known = one.lines.clone().filter(|list| self.holders(*list).next().is_some());
            let live = known
                .clone()
                .filter(|list| self.holders(*list).any(|item| self.is_live(item, at)));
            if !is_hit(live.count(), known.count()) {
                missed.insert(one.path);
            }
        }
        self.found.misses += missed.len() as u64;
        while let Some((next, item)) = self.kept.first().copied()
            && next == at
        {
            self.kept.pop_first();
            self.kept_tokens -= self.tokens(item);
            self.keep(item, at);
        }
        let end = self.trace.calls[at as usize].inputs.end;
        for path in missed {
            let first = self.files.partition_point(|(file, _)| *file < path);
            let items = self.files[first..].iter().take_while(|(file, _)| *file == path);
            let shown = items.map(|(_, item)| *item).filter(|item| *item < end);
            for item in shown.collect::<Vec<_>>() {
                self.keep(item, at);
            }
        }
    }

    /// Returns whether an item is in the window of a call. Kept items are keyed by their next use at or after the call.
    fn is_live(&self, item: u32, at: u32) -> bool {
        let is_new = self.trace.calls[at as usize].inputs.contains(&item);
        let next = || self.next_use(item, at.checked_sub(1)?);
        is_new || next().is_some_and(|next| self.kept.contains(&(next, item)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace::{Call, NONE, TraceItem};
    use super::*;
    use crate::tokens::ledger::Category;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use transcript::log::NO_TIME;

    const BASE: u32 = 2;

    /// Most items of a trace: the exhaustive search tries all subsets of them.
    const MOST_ITEMS: usize = 7;

    /// One generated call: sizes of its input and response items, and for each of its uses the items that hold its lines. Item
    /// numbers are taken modulo the number of items shown so far.
    #[derive(Debug, Clone)]
    struct OracleStep {
        inputs: Vec<u32>,
        response: Vec<u32>,
        uses: Vec<Vec<usize>>,
    }

    fn step(most: u32, lines: usize) -> impl Strategy<Value = OracleStep> {
        let size = 1..=most;
        (
            proptest::collection::vec(size.clone(), 0..3),
            proptest::collection::vec(size, 0..2),
            proptest::collection::vec(proptest::collection::vec(0..64_usize, 1..=lines), 0..3),
        )
            .prop_map(|(inputs, response, uses)| OracleStep { inputs, response, uses })
    }

    /// Generates up to seven calls, the first few of which may be copied.
    fn steps(most: u32, lines: usize) -> impl Strategy<Value = (Vec<OracleStep>, usize)> {
        (
            proptest::collection::vec(step(most, lines), 1..8),
            prop_oneof![3 => Just(0_usize), 1 => 1..3_usize],
        )
    }

    /// Builds a trace in which every item is a file of its own and every line has one holder.
    fn build_trace(steps: &[OracleStep], copied: usize) -> (Trace, FileUses) {
        let mut trace = Trace {
            base: BASE,
            ..Trace::default()
        };
        let mut uses = FileUses::default();
        for (at, step) in steps.iter().enumerate() {
            let inputs = add(&mut trace, &step.inputs);
            let shown = trace.items.len();
            for lines in step.uses.iter().filter(|_| shown > 0) {
                let holders = lines.iter().map(|line| (line % shown) as u32).collect::<BTreeSet<_>>();
                let path = holders.first().map_or(0, |item| item + 1);
                let lists = holders.iter().map(|item| uses.lists.add([*item])).collect::<Vec<_>>();
                uses.uses.push(FileUse {
                    call: at as u32,
                    item: NONE,
                    path,
                    lines: lists[0]..lists[0] + lists.len() as u32,
                    distance: 0,
                    tool: 0,
                });
            }
            let response = add(&mut trace, &step.response);
            trace.calls.push(call(inputs, response, at < copied));
        }
        (trace, uses)
    }

    fn add(trace: &mut Trace, sizes: &[u32]) -> std::ops::Range<u32> {
        let start = trace.items.len();
        for &tokens in sizes.iter().take(MOST_ITEMS - start) {
            trace.items.push(TraceItem {
                tokens,
                quarters: 0,
                category: Category::ToolResult,
                flags: 0,
                images: 0,
                tool: 0,
                pair: NONE,
                path: 0,
            });
        }
        start as u32..trace.items.len() as u32
    }

    fn call(inputs: std::ops::Range<u32>, response: std::ops::Range<u32>, is_copied: bool) -> Call {
        Call {
            inputs,
            response,
            time: NO_TIME,
            input_time: NO_TIME,
            is_copied,
            ..Call::default()
        }
    }

    /// A set of items, one bit each.
    type ItemBits = u32;

    fn set(items: impl IntoIterator<Item = u32>) -> ItemBits {
        items.into_iter().fold(0, |set, item| set | 1 << item)
    }

    fn subsets(of: ItemBits) -> impl Iterator<Item = ItemBits> {
        (0..=of).filter(move |part| part & !of == 0)
    }

    /// Searches all ways to keep and drop, call by call, with memoization.
    struct ExhaustiveSearch<'t> {
        trace: &'t Trace,
        uses: &'t FileUses,
        cap: u64,
        known: BTreeMap<(usize, ItemBits), Option<u64>>,
    }

    /// What the search minimizes.
    #[derive(Clone, Copy, PartialEq, Eq)]
    enum SearchGoal {
        /// The sum of windows, without misses.
        Sum,
        /// The largest window, without misses.
        Peak,
        /// The number of misses.
        Misses,
    }

    /// Returns the best value; `None` if no way is allowed.
    fn best(trace: &Trace, uses: &FileUses, cap: u64, goal: SearchGoal) -> Option<u64> {
        let mut search = ExhaustiveSearch {
            trace,
            uses,
            cap,
            known: BTreeMap::new(),
        };
        search.best_from(0, 0, goal)
    }

    impl ExhaustiveSearch<'_> {
        fn size(&self, items: ItemBits) -> u64 {
            let kept = self
                .trace
                .items
                .iter()
                .enumerate()
                .filter(|(at, _)| items >> at & 1 == 1);
            kept.map(|(_, item)| u64::from(item.tokens)).sum()
        }

        /// Returns the best value from a call on, given the items that could have been kept until then.
        fn best_from(&mut self, at: usize, available: ItemBits, goal: SearchGoal) -> Option<u64> {
            let Some(call) = self.trace.calls.get(at) else {
                return Some(0);
            };
            if let Some(known) = self.known.get(&(at, available)) {
                return *known;
            }
            let (inputs, response) = (set(call.inputs.clone()), set(call.response.clone()));
            let mut best = None;
            if call.is_copied {
                best = self.best_from(at + 1, available | inputs | response, goal);
            } else {
                for kept in subsets(available) {
                    let window = u64::from(self.trace.base) + self.size(kept | inputs);
                    if window > self.cap && kept != 0 {
                        continue;
                    }
                    let needed = self.uses.of_call(at as u32).iter().flat_map(|one| one.lines.clone());
                    let needed = set(needed.map(|list| self.uses.lists.get(list)[0]));
                    let missed = needed & !(kept | inputs);
                    if missed != 0 && goal != SearchGoal::Misses {
                        continue;
                    }
                    let Some(later) = self.best_from(at + 1, kept | inputs | response | missed, goal) else {
                        continue;
                    };
                    let found = match goal {
                        SearchGoal::Sum => window + later,
                        SearchGoal::Peak => window.max(later),
                        SearchGoal::Misses => u64::from(missed.count_ones()) + later,
                    };
                    best = Some(best.map_or(found, |best: u64| best.min(found)));
                }
            }
            self.known.insert((at, available), best);
            best
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

        #[test]
        fn no_window_without_a_miss_is_smaller((steps, copied) in steps(9, 3)) {
            let (trace, uses) = build_trace(&steps, copied);
            let bound = oracle_bound(&trace, &uses);
            prop_assert_eq!(bound.misses, 0);
            prop_assert_eq!(best(&trace, &uses, u64::MAX, SearchGoal::Sum), Some(bound.occupancy_sum as u64));
            prop_assert_eq!(best(&trace, &uses, u64::MAX, SearchGoal::Peak), Some(bound.peak));
        }

        #[test]
        fn no_choice_misses_less((steps, copied) in steps(1, 1), room in 0..6_u64) {
            let (trace, uses) = build_trace(&steps, copied);
            let cap = u64::from(BASE) + room;
            let bound = oracle_bound_under(&trace, &uses, cap);
            prop_assert_eq!(best(&trace, &uses, cap, SearchGoal::Misses), Some(bound.misses));
        }

        #[test]
        fn a_cap_holds_and_the_peak_is_room_enough((steps, copied) in steps(9, 3), cap in 0..40_u64) {
            let (trace, uses) = build_trace(&steps, copied);
            let free = oracle_bound(&trace, &uses);
            prop_assert_eq!(oracle_bound_under(&trace, &uses, free.peak), free);
            let capped = oracle_bound_under(&trace, &uses, cap);
            let own = trace.calls.iter().filter(|call| !call.is_copied);
            let inputs = own.map(|call| trace.items(&call.inputs).iter().map(|item| u64::from(item.tokens)).sum::<u64>());
            let largest = inputs.max().map_or(0, |inputs| inputs + u64::from(BASE));
            prop_assert!(capped.peak <= cap.max(largest));
            prop_assert_eq!(capped.calls, free.calls);
        }
    }

    /// A read of 10 tokens, used two calls later; a read of 20 in between, used one call after that; then nothing.
    fn two_files() -> (Trace, FileUses) {
        let step = |inputs: &[u32], uses: &[usize]| OracleStep {
            inputs: inputs.to_vec(),
            response: Vec::new(),
            uses: uses.iter().map(|item| vec![*item]).collect(),
        };
        build_trace(
            &[
                step(&[10], &[]),
                step(&[20], &[]),
                step(&[1], &[0]),
                step(&[1], &[1]),
                step(&[1], &[]),
            ],
            0,
        )
    }

    #[test]
    fn a_file_is_kept_from_when_it_appears_until_its_last_use() {
        let (trace, uses) = two_files();
        let bound = oracle_bound(&trace, &uses);
        let windows = [2 + 10, 2 + 10 + 20, 2 + 10 + 20 + 1, 2 + 20 + 1, 2 + 1];
        assert_eq!(bound.occupancy_sum, windows.iter().sum::<u128>());
        assert_eq!((bound.calls, bound.peak, bound.misses), (5, 33, 0));
        assert_eq!(bound.mean(), Some(20));
    }

    #[test]
    fn the_file_with_the_farthest_use_goes_first() {
        let (trace, uses) = two_files();
        let bound = oracle_bound_under(&trace, &uses, 32);
        assert_eq!((bound.peak, bound.misses), (32, 1));
        let windows = [2 + 10, 2 + 10 + 20, 2 + 10 + 1, 2 + 1, 2 + 1];
        assert_eq!(bound.occupancy_sum, windows.iter().sum::<u128>());
    }

    #[test]
    fn a_missed_file_is_there_again() {
        let step = |inputs: &[u32], uses: &[usize]| OracleStep {
            inputs: inputs.to_vec(),
            response: Vec::new(),
            uses: uses.iter().map(|item| vec![*item]).collect(),
        };
        let steps = [
            step(&[10], &[]),
            step(&[30], &[]),
            step(&[1], &[0, 0]),
            step(&[1], &[0]),
        ];
        let (trace, uses) = build_trace(&steps, 0);
        assert_eq!(oracle_bound_under(&trace, &uses, 32).misses, 1);
    }

    #[test]
    fn what_a_recorded_compaction_put_in_is_not_counted_on() {
        let (mut trace, mut uses) = two_files();
        trace.items[1].flags = flag::ARTIFACT;
        let list = uses.lists.add([1, 0]);
        uses.uses[1].lines = list..list + 1;
        let bound = oracle_bound(&trace, &uses);
        let windows = [2 + 10, 2 + 10, 2 + 10 + 1, 2 + 10 + 1, 2 + 1];
        assert_eq!(bound.occupancy_sum, windows.iter().sum::<u128>());
        assert_eq!(bound.misses, 0);
    }
}
