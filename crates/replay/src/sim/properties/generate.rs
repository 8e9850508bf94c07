//! Generates the traces and policies that the properties are checked on.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::sim::trace::{
    BoundaryTrigger, Call, CallOutput, Continuity, NONE, RecordedBoundary, Trace, TraceItem, find_touches, flag,
};
use crate::tokens::ledger::Category;
use proptest::prelude::*;
use transcript::record::Tokens;

const TOOLS: [&str; 5] = ["", "Read", "Bash", "Edit", "TodoWrite"];
const PATHS: [&str; 5] = ["", "/a.rs", "/b.rs", "/c.rs", "/CLAUDE.md"];

/// A generated tool call. `result` is the size of its result, how many calls later it arrives, and its place among the
/// results that arrive with it.
#[derive(Debug, Clone)]
struct GeneratedToolCall {
    tool: u16,
    path: u32,
    tokens: u32,
    result: Option<(u32, usize, u8)>,
}

/// A generated API call.
#[derive(Debug, Clone)]
struct GeneratedCall {
    prompt: Option<u32>,
    thinking: Option<u32>,
    text: Option<u32>,
    tool_calls: Vec<GeneratedToolCall>,
    minutes: i64,
    boundary: Option<BoundaryTrigger>,
    /// Whether the record shows that the newest result was cleared.
    clears: bool,
    has_usage: bool,
    /// Input tokens beyond the items.
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

/// Builds a trace from generated calls.
struct TraceGenerator {
    trace: Trace,
    /// Results still to arrive: the call before which they arrive, their place there, the tool call item, their size.
    due: Vec<(usize, u8, u32, u32)>,
    /// Input tokens that the log would show.
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
            self.item(Category::Summary, 200, flag::STARTS_RECORD | flag::ARTIFACT);
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
            model: step.model,
            turn: self.turn,
            starts_turn: step.prompt.is_some(),
            time: self.time,
            input_time,
            tool_calls: step.tool_calls.len() as u32,
            usage: step.has_usage.then_some(usage),
            output: CallOutput {
                tokens: output,
                recorded: output,
                first_line: output,
                later_lines: 0,
                later_text: 0,
            },
            continuity: Continuity {
                gap: step.gap,
                ..Continuity::default()
            },
            ..Call::default()
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
    find_touches(&mut maker.trace, |_| (0, 0));
    maker.trace
}

pub fn trace_strategy() -> impl Strategy<Value = Trace> {
    (proptest::collection::vec(call_strategy(), 1..50), 0..1500_u32).prop_map(|(steps, base)| make_trace(&steps, base))
}

/// Settings that policies are put together from: one of each line.
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
    &["micro.target.on=false", "micro.target.on=false", "micro.target.on=true"],
    &["micro.target.tokens=0", "micro.target.tokens=1500"],
    &["micro.api.at_least=0", "micro.api.at_least=500"],
    &["recall.on=false", "recall.on=true"],
    &["extract.seconds=0", "extract.seconds=600"],
    &["notes.restore=plan", "notes.restore=all"],
    &["restore.large=reference", "restore.large=cut", "restore.large=skip"],
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
    &["restore.state_tokens=0", "restore.state_tokens=100"],
    &["cache.life=recorded", "cache.life=5m", "cache.life=1h"],
];

pub fn policy_strategy() -> impl Strategy<Value = Policy> {
    proptest::collection::vec(any::<proptest::sample::Index>(), SETTINGS.len()).prop_map(|chosen| {
        let mut policy = Policy::default();
        for (values, index) in std::iter::zip(SETTINGS, chosen) {
            policy.assign(values[index.index(values.len())]).unwrap();
        }
        policy
    })
}
