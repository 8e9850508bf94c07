//! What must hold for any session under any policy, tried on made-up traces.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::policy::value::TrailEstimate;
use crate::prices::PriceTable;
use crate::sim::event::{CompactionKind, Event, MicroKind};
use crate::sim::inference::infer_windows;
use crate::sim::keep::{drop_oldest, first_kept_item};
use crate::sim::limits::WindowLimits;
use crate::sim::micro::{estimate_stretch, estimate_trail};
use crate::sim::trace::{BoundaryTrigger, Call, NONE, RecordedBoundary, Trace, TraceItem, flag};
use crate::sim::window::{ItemState, Window};
use crate::sim::{Replay, ReplayInput, ReplayMode, replay};
use crate::tokens::ledger::Category;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use transcript::record::Tokens;

const TOOLS: [&str; 5] = ["", "Read", "Bash", "Edit", "TodoWrite"];
const PATHS: [&str; 5] = ["", "/a.rs", "/b.rs", "/c.rs", "/CLAUDE.md"];

/// A tool call: its tool, path and size, and the size of its result, how many calls later it comes, and its place there.
#[derive(Debug, Clone)]
struct GeneratedToolCall {
    tool: u16,
    path: u32,
    tokens: u32,
    result: Option<(u32, usize, u8)>,
}

/// One call in the making.
#[derive(Debug, Clone)]
struct GeneratedCall {
    prompt: Option<u32>,
    thinking: Option<u32>,
    text: Option<u32>,
    tool_calls: Vec<GeneratedToolCall>,
    minutes: i64,
    boundary: Option<BoundaryTrigger>,
    /// Clears the newest result, in the record.
    clears: bool,
    has_usage: bool,
    /// What was sent beyond the items.
    gap: i32,
    model: u16,
}

fn tool_call_strategy() -> impl Strategy<Value = GeneratedToolCall> {
    let result = proptest::option::weighted(0.9, (0..1500_u32, 0..3_usize, any::<u8>()));
    (1..5_u16, 0..5_u32, 0..400_u32, result).prop_map(|(tool, path, tokens, result)| GeneratedToolCall {
        tool,
        path,
        tokens,
        result,
    })
}

fn call_strategy() -> impl Strategy<Value = GeneratedCall> {
    let trigger = prop_oneof![
        Just(BoundaryTrigger::Auto),
        Just(BoundaryTrigger::Manual),
        Just(BoundaryTrigger::Unknown)
    ];
    let said = (
        proptest::option::weighted(0.3, 0..300_u32),
        proptest::option::weighted(0.3, 0..300_u32),
        proptest::option::weighted(0.6, 0..300_u32),
        proptest::collection::vec(tool_call_strategy(), 0..4),
    );
    let around = (
        prop_oneof![4 => 0..4_i64, 1 => 0..130_i64, 1 => -5..0_i64],
        proptest::option::weighted(0.1, trigger),
        proptest::bool::weighted(0.1),
        proptest::bool::weighted(0.9),
        -60..60_i32,
        prop_oneof![9 => Just(0_u16), 1 => Just(1_u16)],
    );
    (said, around).prop_map(
        |((prompt, thinking, text, asked), (minutes, boundary, clears, has_usage, gap, model))| GeneratedCall {
            prompt,
            thinking,
            text,
            tool_calls: asked,
            minutes,
            boundary,
            clears,
            has_usage,
            gap,
            model,
        },
    )
}

/// A trace in the making.
struct TraceGenerator {
    trace: Trace,
    /// Results to come: the call before which they come, their place among those, the call's item, their size.
    due: Vec<(usize, u8, u32, u32)>,
    /// What the log would show as sent.
    sent: i64,
    time: i64,
    turn: u32,
}

impl TraceGenerator {
    fn item(&mut self, category: Category, tokens: u32, flags: u16) -> u32 {
        self.trace.items.push(TraceItem {
            tokens,
            quarters: tokens + tokens / 7,
            category,
            flags,
            images: 0,
            tool: 0,
            pair: NONE,
            path: 0,
        });
        self.sent += i64::from(tokens);
        self.trace.items.len() as u32 - 1
    }

    fn end(&self) -> u32 {
        self.trace.items.len() as u32
    }

    fn record(&mut self, call: usize, is_micro: bool, trigger: BoundaryTrigger, cleared: Vec<u32>) {
        self.trace.recorded.push(RecordedBoundary {
            is_micro,
            trigger,
            call: call as u32,
            item: self.end(),
            node: 0,
            time: self.time,
            started: self.time,
            version: 0,
            is_copied: false,
            pre_tokens: Some(self.sent.max(0) as u64),
            post_tokens: None,
            tokens_saved: None,
            duration_ms: None,
            kept: 0,
            cleared,
            has_leaf: true,
            summary: if is_micro { 0 } else { 200 },
        });
    }

    fn inputs(&mut self, at: usize, step: &GeneratedCall) {
        let (mut now, later) = std::mem::take(&mut self.due)
            .into_iter()
            .partition::<Vec<_>, _>(|(call, ..)| *call <= at);
        self.due = later;
        now.sort_by_key(|(_, place, ..)| *place);
        for (_, _, asked, tokens) in now {
            let result = self.item(Category::ToolResult, tokens, flag::STARTS_RECORD);
            let call = self.trace.items[asked as usize];
            self.trace.items[asked as usize].pair = result;
            let item = &mut self.trace.items[result as usize];
            (item.pair, item.tool, item.path) = (asked, call.tool, call.path);
        }
        if step.clears {
            let newest = self
                .trace
                .items
                .iter()
                .rposition(|item| item.category == Category::ToolResult);
            self.record(
                at,
                true,
                BoundaryTrigger::Auto,
                vec![newest.map_or(NONE, |at| at as u32)],
            );
        }
        if let Some(trigger) = step.boundary {
            self.record(at, false, trigger, Vec::new());
            self.sent = i64::from(self.trace.base);
            self.item(Category::Summary, 200, flag::STARTS_RECORD | flag::ARTEFACT);
        }
        if let Some(tokens) = step.prompt {
            self.item(Category::Human, tokens, flag::STARTS_RECORD | flag::TEXT);
        }
    }

    fn call(&mut self, at: usize, step: &GeneratedCall) {
        let start = self.end();
        self.time += step.minutes * 60_000;
        let input_time = self.time;
        self.inputs(at, step);
        self.turn += u32::from(step.prompt.is_some() && at > 0);
        self.sent += i64::from(step.gap);
        let usage = Tokens {
            input: 2,
            output: 100,
            cache_write: self.sent.max(2) as u64 - 2,
            ..Tokens::default()
        };
        let inputs = start..self.end();
        let mut starts = flag::STARTS_RECORD;
        if let Some(tokens) = step.thinking {
            self.item(Category::Thinking, tokens, starts);
            starts = 0;
        }
        if let Some(tokens) = step.text {
            self.item(Category::Text, tokens, starts | flag::TEXT);
            starts = 0;
        }
        for asked in &step.tool_calls {
            let item = self.item(Category::ToolCall, asked.tokens, starts);
            starts = 0;
            self.trace.items[item as usize].tool = asked.tool;
            self.trace.items[item as usize].path = asked.path;
            if let Some((tokens, delay, place)) = asked.result {
                self.due.push((at + 1 + delay, place, item, tokens));
            }
        }
        self.time += 5_000;
        let response = inputs.end..self.end();
        let output = self.trace.items(&response).iter().map(|item| item.tokens).sum();
        self.trace.calls.push(Call {
            inputs,
            response,
            time: self.time,
            input_time,
            turn: self.turn,
            starts_turn: step.prompt.is_some(),
            calls: step.tool_calls.len() as u32,
            model: step.model,
            version: 0,
            usage: step.has_usage.then_some(usage),
            output_recorded: output,
            output,
            gap: step.gap,
            growth: 0,
            later_lines: 0,
            is_resume: false,
            is_after_restart: false,
            is_expanded: false,
            is_copied: false,
            is_after_hole: false,
            node: 0,
        });
    }
}

fn make_trace(steps: &[GeneratedCall], base: u32) -> Trace {
    let mut maker = TraceGenerator {
        trace: Trace {
            tools: TOOLS.map(str::to_owned).to_vec(),
            paths: PATHS.map(str::to_owned).to_vec(),
            models: vec!["claude-opus-5".to_owned(), "claude-sonnet-5".to_owned()],
            versions: vec![ClientVersion([2, 1, 220])],
            base,
            base_is_known: true,
            ..Trace::default()
        },
        due: Vec::new(),
        sent: i64::from(base),
        time: 1_700_000_000_000,
        turn: 0,
    };
    for (at, step) in steps.iter().enumerate() {
        maker.call(at, step);
    }
    maker.trace.tail = maker.end()..maker.end();
    maker.trace
}

fn trace_strategy() -> impl Strategy<Value = Trace> {
    (proptest::collection::vec(call_strategy(), 1..50), 0..1500_u32).prop_map(|(steps, base)| make_trace(&steps, base))
}

/// Values that policies are put together from: of each line one.
const SETTINGS: &[&[&str]] = &[
    &[
        "window.tokens=4000",
        "window.tokens=9000",
        "window.tokens=9000",
        "window.tokens=20000",
        "window.tokens=auto",
    ],
    &["window.reserve=0", "window.reserve=700"],
    &["window.buffer=0", "window.buffer=300"],
    &["window.percent=none", "window.percent=30", "window.percent=80"],
    &["window.warning=0", "window.warning=3000"],
    &["switch.auto=true", "switch.auto=true", "switch.auto=false"],
    &["switch.micro=true", "switch.micro=true", "switch.micro=false"],
    &["switch.manual=true", "switch.manual=true", "switch.manual=false"],
    &["switch.hard_limit=true", "switch.hard_limit=false"],
    &["estimate.padding=1.0", "estimate.padding=1.4"],
    &["micro.placeholder=0", "micro.placeholder=10"],
    &["micro.gap.on=true", "micro.gap.on=false"],
    &["micro.gap.keep=0", "micro.gap.keep=2"],
    &["micro.cached.on=true", "micro.cached.on=false"],
    &["micro.cached.trigger=1", "micro.cached.trigger=4"],
    &["micro.cached.keep=0", "micro.cached.keep=2"],
    &["micro.budget.on=true", "micro.budget.on=false"],
    &["micro.budget.target=0", "micro.budget.target=2000"],
    &["micro.budget.protect=0", "micro.budget.protect=2"],
    &["micro.budget.at_least=0", "micro.budget.at_least=500"],
    &["micro.api.on=true", "micro.api.on=false"],
    &["micro.api.trigger=0", "micro.api.trigger=4000"],
    &["micro.api.keep=0", "micro.api.keep=1000"],
    &["micro.api.thinking=true", "micro.api.thinking=false"],
    &["notes.on=true", "notes.on=false"],
    &["notes.first=0", "notes.first=3000"],
    &["notes.growth=0", "notes.growth=1500"],
    &["notes.seconds=0", "notes.seconds=30", "notes.seconds=90"],
    &["notes.compact=true", "notes.compact=false"],
    &["notes.keep_tokens=0", "notes.keep_tokens=800"],
    &["notes.keep_messages=0", "notes.keep_messages=3"],
    &["notes.keep_most=0", "notes.keep_most=2500", "notes.keep_most=100000"],
    &[
        "compact.on=true",
        "compact.on=true",
        "compact.on=true",
        "compact.on=true",
        "compact.on=false",
    ],
    &["compact.variant=whole", "compact.variant=from", "compact.variant=up_to"],
    &["compact.pivot=0", "compact.pivot=1", "compact.pivot=4"],
    &["compact.summary=fixed", "compact.summary=recorded"],
    &["compact.summary_tokens=0", "compact.summary_tokens=400"],
    &["compact.retries=0", "compact.retries=3"],
    &[
        "compact.retry_percent=0",
        "compact.retry_percent=20",
        "compact.retry_percent=100",
    ],
    &["compact.excess_known=true", "compact.excess_known=false"],
    &["compact.breaker=1", "compact.breaker=3"],
    &["compact.reactive=true", "compact.reactive=false"],
    &[
        "failure.rate=0.0",
        "failure.rate=0.0",
        "failure.rate=0.0",
        "failure.rate=0.3",
        "failure.rate=1.0",
    ],
    &["restore.files=0", "restore.files=2", "restore.files=5"],
    &["restore.file_tokens=200", "restore.file_tokens=5000"],
    &["restore.files_tokens=500", "restore.files_tokens=50000"],
    &["restore.large=cut", "restore.large=skip"],
    &["restore.state_tokens=0", "restore.state_tokens=100"],
    &["cache.life=recorded", "cache.life=5m", "cache.life=1h"],
];

fn policy_strategy() -> impl Strategy<Value = Policy> {
    proptest::collection::vec(any::<proptest::sample::Index>(), SETTINGS.len()).prop_map(|chosen| {
        let mut policy = Policy::default();
        for (values, index) in std::iter::zip(SETTINGS, chosen) {
            policy.assign(values[index.index(values.len())]).unwrap();
        }
        policy
    })
}

/// Runs a replay; `after` sees it after every round, with the events of that round.
fn run(
    trace: &Trace,
    policy: &Policy,
    mode: ReplayMode,
    mut after: impl FnMut(&RoundSnapshot<'_, '_>) -> Result<(), TestCaseError>,
) -> Result<Vec<String>, TestCaseError> {
    let prices = PriceTable::built_in();
    let by_model = trace.models.iter().map(|model| prices.find(model)).collect::<Vec<_>>();
    let windows = infer_windows(trace, &[policy], &by_model);
    let setting = ReplayInput {
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
    let told = RefCell::new(Vec::new());
    let mut sink = |call: u32, event: &Event<'_>| {
        lines.borrow_mut().push(format!("{call} {event:?}"));
        told.borrow_mut().push(CheckedEvent::from_event(event));
    };
    let tariffs: Vec<_> = super::tariffs(setting.prices);
    let mut replay = Replay::new(trace, &setting, &mut sink, policy, &tariffs);
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
            restored: &replay.restored_files,
            events: &told.take(),
        };
        after(&seen)?;
    }
    replay.finish();
    let defects = told
        .take()
        .into_iter()
        .filter(|told| matches!(told, CheckedEvent::Defect));
    prop_assert_eq!(defects.count(), 0, "a defect at the end");
    drop(replay);
    Ok(lines.into_inner())
}

/// Of an event what the properties are about.
#[derive(Debug, Clone)]
enum CheckedEvent {
    Micro(MicroKind, Vec<u32>),
    Boundary(Box<super::event::SimBoundary>),
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

/// A replay after a round.
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
    fn boundaries(&self) -> impl Iterator<Item = &super::event::SimBoundary> {
        self.events.iter().filter_map(|told| match told {
            CheckedEvent::Boundary(boundary) if !boundary.is_recorded => Some(&**boundary),
            _ => None,
        })
    }

    /// Whether an item was in the window at some time of the round before its boundary.
    fn was_in_window(&self, item: u32) -> bool {
        self.before.states[item as usize] != ItemState::Out || self.trace.calls[self.at].inputs.contains(&item)
    }

    fn check_window(&self) -> Result<(), TestCaseError> {
        let (running, counted, is_paired) = self.window.audit_totals();
        prop_assert!(is_paired, "a result without its call at {}", self.at);
        prop_assert_eq!(running, counted, "totals at {}", self.at);
        for told in self.events {
            if let CheckedEvent::Called { sum, sent } = told {
                prop_assert_eq!((*sum).max(0) as u64, *sent, "what is sent is the window");
            }
            prop_assert!(!matches!(told, CheckedEvent::Defect));
        }
        Ok(())
    }

    fn check_boundaries(&self) -> Result<(), TestCaseError> {
        let calls = &self.trace.calls;
        for boundary in self.boundaries() {
            let kept = &boundary.kept;
            prop_assert!(
                boundary.after < boundary.before || boundary.cause == super::event::CompactionCause::Manual,
                "no progress: {boundary:?}"
            );
            prop_assert!(u64::from(boundary.retries) <= self.policy.retries);
            if boundary.kind == CompactionKind::SessionMemory {
                prop_assert!(boundary.after < boundary.threshold);
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
            for told in seen.events {
                let CheckedEvent::Micro(kind, items) = told else { continue };
                for item in items {
                    prop_assert!(!cleared.contains(item), "{item} was cleared before");
                    // What was deleted on the server comes back when its cache is cold, and may then be cleared for good.
                    let is_new = if *kind == MicroKind::Cached { deleted.insert(*item) } else { cleared.insert(*item) };
                    prop_assert!(is_new, "{item} was deleted before");
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn the_same_twice_is_the_same(trace in trace_strategy(), policy in policy_strategy()) {
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
    fn stretches_come_to_what_their_items_do(
        mut trace in trace_strategy(),
        odd in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8), 0..12),
        happens in proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8), 0..8),
        with_artefacts in any::<bool>(),
    ) {
        let total = trace.items.len();
        for (at, kind) in odd.iter().filter(|_| total > 0) {
            let item = &mut trace.items[at.index(total)];
            match kind {
                0 => item.flags |= flag::ARTEFACT,
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
                let orphans = whole.add_stretch(items.clone(), stretch, with_artefacts);
                prop_assert_eq!(orphans, single.add(items.clone(), with_artefacts));
                prop_assert_eq!(whole.parts(), single.parts());
                for trail in [TrailEstimate::None, TrailEstimate::User, TrailEstimate::All] {
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
    fn dropping_the_oldest_gets_there(groups in proptest::collection::vec(0..500_u64, 0..30), limit in 0..4000_u64, known in any::<bool>(), percent in 0..=100_u64) {
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
        let at = |percent: Option<f64>| WindowLimits::new(&Policy { percent, ..policy.clone() }, window, None);
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
    let setting = ReplayInput {
        policies: &[&policy],
        prices: &[],
        windows: &[],
        summary: None,
        mode: ReplayMode::Free,
        uses: None,
        texts: None,
        key: 0,
    };
    replay(&Trace::default(), &setting, &mut |_: u32, event: &Event<'_>| {
        panic!("{event:?}")
    });
}
