//! Properties that hold for any session under any policy, checked on generated traces.

mod generate;
mod placebo;

use crate::policy::Policy;
use crate::policy::value::TrailEstimate;
use crate::prices::{PriceTable, tariffs};
use crate::sim::event::{CompactionCause, CompactionKind, Event, MicroKind, SimBoundary};
use crate::sim::keep::{drop_oldest, first_kept_item};
use crate::sim::limits::{ModelLimits, WindowLimits};
use crate::sim::micro::{estimate_stretch, estimate_trail};
use crate::sim::trace::{NONE, Trace, flag};
use crate::sim::window::{ItemState, Window};
use crate::sim::{Replay, ReplayInput, ReplayMode, replay};
use crate::tokens::ledger::Category;
use crate::windows::{ProjectWindows, WindowQuery, infer_windows};
use generate::{policy_strategy, trace_strategy};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Runs a replay and returns its events as text. `after` checks the state after every round, with the events of that round.
fn run(
    trace: &Trace,
    policy: &Policy,
    mode: ReplayMode,
    mut after: impl FnMut(&RoundSnapshot<'_, '_>) -> Result<(), TestCaseError>,
) -> Result<Vec<String>, TestCaseError> {
    let prices = PriceTable::built_in();
    let by_model = trace.models.iter().map(|model| prices.find(model)).collect::<Vec<_>>();
    let query = WindowQuery {
        policies: &[policy],
        prices: &by_model,
        siblings: &ProjectWindows::default(),
    };
    let windows = infer_windows(trace, &query);
    let input = ReplayInput {
        policies: &[policy],
        prices: &by_model,
        windows: &windows,
        summary: None,
        mode,
        uses: None,
        texts: None,
        key: 3,
    };
    let lines = RefCell::new(Vec::new());
    let events = RefCell::new(Vec::new());
    let mut sink = |call: u32, event: &Event<'_>| {
        lines.borrow_mut().push(format!("{call} {event:?}"));
        events.borrow_mut().push(CheckedEvent::from_event(event));
    };
    let tariffs: Vec<_> = tariffs(input.prices);
    let mut replay = Replay::new(trace, &input, &mut sink, policy, &tariffs);
    for at in 0..trace.calls.len() {
        let before = WindowSnapshot {
            floor: replay.window.floor(),
            states: (0..trace.items.len() as u32)
                .map(|item| replay.window.state(item))
                .collect(),
        };
        replay.simulate_round(at, &trace.calls[at], &trace.steps().calls[at]);
        let seen = RoundSnapshot {
            trace,
            policy,
            at,
            before: &before,
            window: &replay.window,
            restored: &replay.history.restored.files,
            events: &events.take(),
        };
        after(&seen)?;
    }
    replay.finish();
    let defects = events
        .take()
        .into_iter()
        .filter(|event| matches!(event, CheckedEvent::Defect));
    prop_assert_eq!(defects.count(), 0, "a defect at the end");
    drop(replay);
    Ok(lines.into_inner())
}

/// The parts of an event that the properties check.
#[derive(Debug, Clone)]
enum CheckedEvent {
    Micro(MicroKind, Vec<u32>),
    Boundary(Box<SimBoundary>),
    Called { sum: i64, sent: u64 },
    Defect,
    Other,
}

impl CheckedEvent {
    fn from_event(event: &Event<'_>) -> CheckedEvent {
        match event {
            Event::Micro { kind, cleared, .. } => CheckedEvent::Micro(*kind, cleared.to_vec()),
            Event::Boundary(boundary) => CheckedEvent::Boundary(Box::new((*boundary).clone())),
            Event::Called(called) => CheckedEvent::Called {
                sum: called.parts.iter().sum::<u64>() as i64 + called.base as i64 + called.drift,
                sent: called.tokens.input_side(),
            },
            Event::Defect { .. } => CheckedEvent::Defect,
            _ => CheckedEvent::Other,
        }
    }
}

/// The window before a round.
struct WindowSnapshot {
    floor: u32,
    states: Vec<ItemState>,
}

/// The state after a round.
struct RoundSnapshot<'s, 't> {
    trace: &'s Trace,
    policy: &'s Policy,
    at: usize,
    before: &'s WindowSnapshot,
    window: &'s Window<'t>,
    restored: &'s [(u32, u64)],
    events: &'s [CheckedEvent],
}

impl RoundSnapshot<'_, '_> {
    fn boundaries(&self) -> impl Iterator<Item = &SimBoundary> {
        self.events.iter().filter_map(|event| match event {
            CheckedEvent::Boundary(boundary) if !boundary.is_recorded => Some(&**boundary),
            _ => None,
        })
    }

    /// Returns whether an item was in the window at some time of the round before its boundary.
    fn was_in_window(&self, item: u32) -> bool {
        self.before.states[item as usize] != ItemState::Out || self.trace.calls[self.at].inputs.contains(&item)
    }

    fn check_window(&self) -> Result<(), TestCaseError> {
        let audit = self.window.audit_totals();
        prop_assert!(audit.is_paired, "a result without its call at {}", self.at);
        prop_assert_eq!(audit.running, audit.counted, "totals at {}", self.at);
        for event in self.events {
            if let CheckedEvent::Called { sum, sent } = event {
                prop_assert_eq!((*sum).max(0) as u64, *sent, "what is sent is the window");
            }
            prop_assert!(!matches!(event, CheckedEvent::Defect));
        }
        Ok(())
    }

    fn check_boundaries(&self) -> Result<(), TestCaseError> {
        let calls = &self.trace.calls;
        for boundary in self.boundaries() {
            let kept = &boundary.kept;
            prop_assert!(
                boundary.size.after < boundary.size.before || boundary.cause == CompactionCause::Manual,
                "no progress: {boundary:?}"
            );
            prop_assert!(u64::from(boundary.retries) <= self.policy.retries);
            if boundary.kind == CompactionKind::SessionMemory {
                prop_assert!(boundary.size.after < boundary.threshold);
            }
            if kept.is_empty() {
                continue;
            }
            prop_assert!(kept.start >= self.before.floor, "kept before the floor: {boundary:?}");
            let floor = self.before.floor;
            for call in calls {
                let response = &call.response;
                let is_cut = |at: u32| response.start < at && at < response.end && response.start >= floor;
                prop_assert!(!is_cut(kept.start), "a response was cut: {boundary:?}");
                prop_assert!(!is_cut(kept.end), "a response was cut: {boundary:?}");
            }
            let end = boundary.last_item.map_or(0, |item| item + 1);
            for at in kept.clone().filter(|at| self.window.state(*at) != ItemState::Out) {
                let item = &self.trace.items[at as usize];
                let has_pair = item.pair != NONE && item.pair < end && self.was_in_window(item.pair);
                if item.category == Category::ToolCall && has_pair {
                    prop_assert!(kept.contains(&item.pair), "a call lost its result: {boundary:?}");
                }
            }
        }
        Ok(())
    }

    fn check_restored(&self) -> Result<(), TestCaseError> {
        let (files, each) = (self.policy.restore_files, self.policy.restore_file_tokens);
        prop_assert!(self.restored.len() as u64 <= files);
        prop_assert!(self.restored.iter().all(|(_, tokens)| *tokens <= each));
        let all = self.restored.iter().map(|(_, tokens)| tokens).sum::<u64>();
        prop_assert!(all <= self.policy.restore_files_tokens);
        let paths = self.restored.iter().map(|(path, _)| path).collect::<BTreeSet<_>>();
        prop_assert_eq!(paths.len(), self.restored.len(), "a file twice");
        for (path, _) in self.restored {
            let path = &self.trace.paths[*path as usize];
            prop_assert!(!self.policy.restore_not.iter().any(|part| path.contains(part.as_str())));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn windows_are_sound_and_boundaries_keep_their_rules(trace in trace_strategy(), policy in policy_strategy()) {
        run(&trace, &policy, ReplayMode::Free, |seen| {
            seen.check_window()?;
            seen.check_boundaries()?;
            seen.check_restored()
        })?;
    }

    #[test]
    fn following_the_record_keeps_windows_sound(trace in trace_strategy(), policy in policy_strategy()) {
        run(&trace, &policy, ReplayMode::Follow, |seen| seen.check_window())?;
    }

    #[test]
    fn nothing_is_cleared_twice(trace in trace_strategy(), policy in policy_strategy()) {
        let (mut deleted, mut cleared) = (BTreeSet::new(), BTreeSet::new());
        run(&trace, &policy, ReplayMode::Free, |seen| {
            for event in seen.events {
                let CheckedEvent::Micro(kind, items) = event else { continue };
                for item in items {
                    prop_assert!(!cleared.contains(item), "{item} was cleared before");
                    // A result deleted on the server comes back when the cache is cold, and may then be cleared for good.
                    let is_new = if *kind == MicroKind::Cached { deleted.insert(*item) } else { cleared.insert(*item) };
                    prop_assert!(is_new, "{item} was deleted before");
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn two_replays_emit_the_same_events(trace in trace_strategy(), policy in policy_strategy()) {
        for mode in [ReplayMode::Free, ReplayMode::Follow] {
            let one = run(&trace, &policy, mode, |_| Ok(()))?;
            let two = run(&trace, &policy, mode, |_| Ok(()))?;
            prop_assert_eq!(one, two);
        }
    }

    #[test]
    fn what_notes_keep_is_whole(trace in trace_strategy(), policy in policy_strategy(), added in any::<proptest::sample::Index>(), covered in any::<proptest::sample::Index>(), from in any::<proptest::sample::Index>()) {
        let last = added.index(trace.calls.len());
        let first = from.index(last + 1);
        let mut window = Window::new(&trace, policy.placeholder);
        let (floor, end) = (trace.calls[first].inputs.start, trace.calls[last].inputs.end);
        window.add(floor..end, true);
        let covered = covered.index(end as usize + 1) as u32;
        let start = first_kept_item(&policy, &trace, &window, covered);
        prop_assert!(start >= window.floor() && start <= window.end());
        prop_assert!(start <= covered.max(window.floor()));
        for at in start..window.end() {
            let item = &trace.items[at as usize];
            let is_parted = item.category == Category::ToolResult && item.pair != NONE && window.state(at) != ItemState::Out && item.pair < start;
            prop_assert!(!is_parted, "{at} is parted from its call");
        }
        let is_cut = trace.calls.iter().any(|call| call.response.start < start && start < call.response.end);
        prop_assert!(!is_cut, "{start} cuts a response");
    }

    #[test]
    fn stretch_sums_equal_the_sums_of_their_items(
        mut trace in trace_strategy(),
        odd in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8), 0..12),
        happens in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8), 0..8),
        with_artifacts in any::<bool>(),
    ) {
        let total = trace.items.len();
        for (at, kind) in odd.iter().filter(|_| total > 0) {
            let item = &mut trace.items[at.index(total)];
            match kind {
                0 => item.flags |= flag::ARTIFACT,
                1 => (item.category, item.flags) = (Category::Attachment, item.flags | flag::HOOK),
                2 => item.images = 3,
                _ => item.tokens = u32::MAX,
            }
        }
        let calls = trace.calls.len();
        let mut whole = Window::new(&trace, 10);
        let mut single = Window::new(&trace, 10);
        for (at, (call, step)) in std::iter::zip(&trace.calls, &trace.steps().calls).enumerate() {
            for (items, stretch) in [(&call.inputs, &step.inputs), (&call.response, &step.response)] {
                let orphans = whole.add_stretch(items.clone(), stretch, with_artifacts);
                prop_assert_eq!(orphans, single.add(items.clone(), with_artifacts));
                prop_assert_eq!(whole.parts(), single.parts());
                for trail in [TrailEstimate::None, TrailEstimate::User, TrailEstimate::Text, TrailEstimate::All] {
                    let policy = Policy { trail, ..Policy::default() };
                    let found = trace.items(items);
                    prop_assert_eq!(estimate_stretch(&policy, stretch, found), estimate_trail(&policy, found));
                }
            }
            for (_, kind) in happens.iter().filter(|(when, _)| when.index(calls) == at) {
                for window in [&mut whole, &mut single] {
                    let (floor, end) = (window.floor(), window.end());
                    let middle = floor.midpoint(end);
                    match kind {
                        0 => window.reset(end..end),
                        1 => window.reset(middle..end),
                        2 => window.reset(floor..middle),
                        _ if floor < end => window.remove(middle),
                        _ => {}
                    }
                }
            }
            prop_assert!((0..total as u32).all(|item| whole.state(item) == single.state(item)));
        }
    }

    #[test]
    fn dropping_the_oldest_groups_reaches_the_limit(groups in proptest::collection::vec(0..500_u64, 0..30), limit in 0..4000_u64, known in any::<bool>(), percent in 0..=100_u64) {
        let mut from = 0;
        let mut tokens = groups.iter().sum::<u64>();
        let mut tries = 0;
        while tokens > limit {
            let excess = known.then(|| tokens - limit);
            let Some(left) = drop_oldest(&groups, from, excess, percent) else { break };
            prop_assert!(left.first_group > from && left.first_group < groups.len());
            prop_assert_eq!(left.tokens, groups[left.first_group..].iter().sum::<u64>());
            tries += 1;
            prop_assert!(!known || left.tokens <= limit, "a known excess is covered at once");
            prop_assert!(tries <= groups.len());
            (from, tokens) = (left.first_group, left.tokens);
        }
    }

    #[test]
    fn thresholds_rise_with_the_percentage(policy in policy_strategy(), window in 0..2_000_000_u64, one in 0.1..100.0_f64, two in 0.1..100.0_f64) {
        let at = |percent: Option<f64>| WindowLimits::new(&Policy { percent, ..policy.clone() }, "", window, ModelLimits::default());
        let (low, high) = (at(Some(one.min(two))), at(Some(one.max(two))));
        prop_assert!(low.threshold <= high.threshold);
        prop_assert!(high.threshold <= at(None).threshold, "a percentage can only lower it");
        for limits in [low, high] {
            prop_assert!(limits.warning <= limits.threshold && limits.error <= limits.threshold);
            prop_assert!(limits.threshold <= limits.effective && limits.effective <= limits.window);
        }
    }
}

#[test]
fn a_trace_without_calls_gives_no_events() {
    let policy = Policy::default();
    let input = ReplayInput {
        policies: &[&policy],
        prices: &[],
        windows: &[],
        summary: None,
        mode: ReplayMode::Free,
        uses: None,
        texts: None,
        key: 0,
    };
    replay(&Trace::default(), &input, &mut |_: u32, event: &Event<'_>| {
        panic!("{event:?}")
    });
}
