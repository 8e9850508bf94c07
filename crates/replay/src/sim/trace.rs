//! What a replay runs on: one chain as numbers, in the order of the conversation.
//!
//! Blocks become [`Item`]s with a size, calls become [`Call`]s with ranges of items. Nothing here depends on a policy, so a
//! trace is built once and replayed as often as there are policies.

use crate::policy::presets::ClientVersion;
use crate::sim::steps::{CallSteps, LazySteps};
use crate::tokens::calibrate::{ChainSizes, TokenOrigin, size_chain};
use crate::tokens::ledger::Category;
use crate::tokens::ratios::{RatioTable, drops_thinking};
use std::ops::Range;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, NO_TIME, RecordId, RecordKind, Time};
use transcript::record::{Tokens, client_estimate};
use transcript::thread::{Chain, Node, Round, Session, starts_turn};

/// No item.
pub const NONE: u32 = u32::MAX;

/// Properties of an item.
pub mod flag {
    /// Put in by a recorded compaction: its summary, what it restored.
    pub const ARTEFACT: u16 = 1;
    /// A result that reports an error.
    pub const ERROR: u16 = 2;
    /// Text that somebody wrote: what the keep rule counts messages by.
    pub const TEXT: u16 = 4;
    /// The first item of a record.
    pub const STARTS_RECORD: u16 = 8;
    /// Size from the length of the text alone.
    pub const ESTIMATED: u16 = 16;
    /// Counted by the client's estimate even where it is an attachment: what a hook printed.
    pub const HOOK: u16 = 64;
    /// Beside the chain of parents: forgotten when the client is started again.
    pub const OFF_CHAIN: u16 = 128;
    /// A shell call that may have changed files.
    pub const CHANGES_FILES: u16 = 256;
}

/// One block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceItem {
    /// Its size.
    pub tokens: u32,
    /// The recorded client's estimate of it.
    pub quarters: u32,
    /// What it counts as.
    pub category: Category,
    /// See [`flag`].
    pub flags: u16,
    /// Images and documents in it.
    pub images: u8,
    /// Number of its tool in [`Trace::tools`]; 0 for none.
    pub tool: u16,
    /// The result of a call, the call of a result; [`NONE`] if it has none.
    pub pair: u32,
    /// Number of its path in [`Trace::paths`]; 0 for none.
    pub path: u32,
}

impl TraceItem {
    /// Whether it has a property.
    pub fn has_flag(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }
}

/// One API call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call {
    /// Items that were added since the last one.
    pub inputs: Range<u32>,
    /// Items of the response.
    pub response: Range<u32>,
    /// When it was made: the first line of the response.
    pub time: Time,
    /// When the last of its input was written.
    pub input_time: Time,
    /// Turn, from 0.
    pub turn: u32,
    /// Whether a person's prompt is among its input.
    pub starts_turn: bool,
    /// Tool calls of the response.
    pub calls: u32,
    /// Number of its model in [`Trace::models`].
    pub model: u16,
    /// Number of the client's version in [`Trace::versions`].
    pub version: u16,
    /// What the log says was sent and answered at the last iteration.
    pub usage: Option<Tokens>,
    /// Output as the first line of the response has it.
    pub output_recorded: u32,
    /// Output as it came out in the end, recorded or estimated.
    pub output: u32,
    /// Input beyond the items since the last call: reminders that no record shows, thinking that was dropped.
    pub gap: i32,
    /// Growth of the window since the call before by estimates alone.
    pub growth: i32,
    /// Client's estimate of the later lines of the response.
    pub later_lines: u32,
    /// Whether the client was started again before it: the cache is cold, and less was sent than before.
    pub is_resume: bool,
    /// Whether the client spoke for the model in between, as it does when a session is taken up again.
    pub is_after_restart: bool,
    /// Whether a command of the client put text into the prompt.
    pub is_expanded: bool,
    /// Whether another session owns it.
    pub is_copied: bool,
    /// Whether records between the call before and this one were never written.
    pub is_after_hole: bool,
    /// First record of the response.
    pub node: Node,
}

impl Call {
    /// When it was sent: with the last of its input, or where that has no time, when the answer began.
    pub fn sent_time(&self) -> Time {
        match self.input_time {
            NO_TIME => self.time,
            time => time,
        }
    }
}

/// What a recorded boundary was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundaryTrigger {
    /// Started by the client.
    Auto,
    /// Asked for by the user.
    Manual,
    /// A summary of an old client that wrote no boundary.
    Unknown,
}

/// A boundary in the log.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordedBoundary {
    /// Clears results only.
    pub is_micro: bool,
    /// Who started it.
    pub trigger: BoundaryTrigger,
    /// The call before which it stands; the number of calls if it is the last thing in the log.
    pub call: u32,
    /// The item before which it stands.
    pub item: u32,
    /// The record.
    pub node: Node,
    /// When it was written.
    pub time: Time,
    /// When it began: with the last record before it, or with the command that asked for it. [`NO_TIME`] if the log does not
    /// tell: before a command a person may have been away.
    pub started: Time,
    /// Number of the client's version in [`Trace::versions`].
    pub version: u16,
    /// Tokens before, as the client counted them.
    pub pre_tokens: Option<u64>,
    /// Tokens after, without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens that clearing saved.
    pub tokens_saved: Option<u64>,
    /// How long it took.
    pub duration_ms: Option<u64>,
    /// Records that were kept.
    pub kept: u32,
    /// Cleared results, as items, in order; [`NONE`] for a call that the log does not have.
    pub cleared: Vec<u32>,
    /// Whether the message it followed is in the log.
    pub has_leaf: bool,
    /// Whether another session owns it.
    pub is_copied: bool,
    /// Tokens of the summary.
    pub summary: u32,
}

/// A chain, ready to be replayed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Id of the sub-agent; empty for the main agent.
    pub agent: String,
    /// Part of a sub-agent.
    pub is_sidechain: bool,
    /// All items.
    pub items: Vec<TraceItem>,
    /// All calls.
    pub calls: Vec<Call>,
    /// Items that were added after the last response.
    pub tail: Range<u32>,
    /// The first item of every record that has any, and the record.
    pub nodes: Vec<(u32, Node)>,
    /// Boundaries, in order.
    pub recorded: Vec<RecordedBoundary>,
    /// Names of tools; number 0 is empty.
    pub tools: Vec<String>,
    /// Paths; number 0 is empty.
    pub paths: Vec<String>,
    /// Models.
    pub models: Vec<String>,
    /// Versions of the client.
    pub versions: Vec<ClientVersion>,
    /// System prompt and tools at the first call.
    pub base: u32,
    /// Whether the log says so, or it is what clients of that version usually have.
    pub base_is_known: bool,
    /// What follows from the rest and every replay needs.
    pub steps: LazySteps,
}

impl Trace {
    /// The model of a call.
    pub fn model(&self, call: &Call) -> &str {
        &self.models[usize::from(call.model)]
    }

    /// The number of a tool, if any item has it.
    pub fn tool(&self, name: &str) -> Option<u16> {
        let number = self.tools.iter().position(|tool| tool == name)?;
        u16::try_from(number).ok()
    }

    /// What every call brings to the window.
    pub fn steps(&self) -> &CallSteps {
        self.steps.get_or_init(self)
    }

    /// The items of a range.
    pub fn items(&self, range: &Range<u32>) -> &[TraceItem] {
        &self.items[range.start as usize..range.end as usize]
    }

    /// How much smaller the prompt of a call is than the window after the call before.
    pub fn prompt_drop(&self, call: usize) -> Option<i64> {
        let before = self.calls.get(call.checked_sub(1)?)?.usage?;
        let now = self.calls.get(call)?.usage?;
        Some(before.total() as i64 - now.input_side() as i64)
    }

    /// Recorded boundaries before a call.
    pub fn recorded_at(&self, call: usize) -> &[RecordedBoundary] {
        let start = self
            .recorded
            .partition_point(|boundary| (boundary.call as usize) < call);
        let end = self
            .recorded
            .partition_point(|boundary| (boundary.call as usize) <= call);
        &self.recorded[start..end]
    }
}

/// Numbers texts.
struct StringInterner {
    by_name: IdMap<(u32, u32), u32>,
    by_text: IdMap<String, u32>,
    texts: Vec<String>,
}

impl StringInterner {
    fn new(texts: Vec<String>) -> StringInterner {
        StringInterner {
            by_name: IdMap::default(),
            by_text: texts.iter().cloned().zip(0..).collect(),
            texts,
        }
    }

    /// The number of a name of a log: found by its number there, so that its text is looked at once.
    fn intern(&mut self, session: &Session<'_>, node: Node, name: u32) -> u32 {
        let part = session.part_number(node);
        if let Some(&number) = self.by_name.get(&(part, name)) {
            return number;
        }
        let text = session.string(part, name);
        let number = match self.by_text.get(text) {
            Some(&number) => number,
            None => {
                let number = self.texts.len() as u32;
                self.texts.push(text.to_owned());
                self.by_text.insert(text.to_owned(), number);
                number
            }
        };
        self.by_name.insert((part, name), number);
        number
    }
}

/// Builds the trace of a chain.
pub fn build_trace(session: &Session<'_>, chain: &Chain, table: &RatioTable) -> Trace {
    let mut sized = Vec::new();
    let sizes = size_chain(session, chain, table, &mut |_, _, tokens, origin| {
        sized.push((tokens.max(0.0).round() as u32, origin));
    });
    let mut builder = TraceBuilder {
        session,
        trace: Trace {
            agent: chain.agent.clone(),
            is_sidechain: chain.is_sidechain,
            ..Trace::default()
        },
        sizes: sized.into_iter(),
        off_chain_inputs: &chain.off_chain_inputs,
        tools: StringInterner::new(vec![String::new()]),
        paths: StringInterner::new(vec![String::new()]),
        models: StringInterner::new(Vec::new()),
        versions: StringInterner::new(Vec::new()),
        items_of_calls: IdMap::default(),
        last_time: NO_TIME,
    };
    for (at, round) in chain.rounds.iter().enumerate() {
        builder.add_round(at, round, &sizes);
    }
    builder.trace.tail = builder.add_inputs(chain.rounds.len(), &chain.tail);
    builder.finish(&sizes)
}

struct TraceBuilder<'s, 'a> {
    session: &'s Session<'a>,
    trace: Trace,
    sizes: std::vec::IntoIter<(u32, TokenOrigin)>,
    off_chain_inputs: &'s [Node],
    tools: StringInterner,
    paths: StringInterner,
    models: StringInterner,
    versions: StringInterner,
    /// Call and result items by the hash of the call's id.
    items_of_calls: IdMap<u64, (u32, u32)>,
    /// When the last record with a time was written.
    last_time: Time,
}

impl TraceBuilder<'_, '_> {
    fn add_round(&mut self, at: usize, round: &Round, sizes: &ChainSizes) {
        let session = self.session;
        let inputs = self.add_inputs(at, &round.inputs);
        let start = self.trace.items.len() as u32;
        for &line in &round.lines {
            self.add_record(line, 0);
        }
        let response = start..self.trace.items.len() as u32;
        let first = round.lines[0];
        let size = &sizes.rounds[at];
        let line = session.response(first);
        let log = session.log(first);
        let version = self
            .versions
            .intern(session, first, log.scope_of(session.record(first)).version);
        let model = self.models.intern(session, first, line.map_or(0, |line| line.model));
        let usage = line.map(|line| line.context()).filter(|_| size.input.is_some());
        let items = &self.trace.items[start as usize..];
        let first_line = session.blocks(first).len();
        self.trace.calls.push(Call {
            time: session.record(first).time,
            input_time: round.inputs.last().map_or(NO_TIME, |node| session.record(*node).time),
            turn: round.turn,
            starts_turn: starts_turn(session, round),
            calls: items.iter().filter(|item| item.category == Category::ToolCall).count() as u32,
            model: model as u16,
            version: version as u16,
            usage,
            output_recorded: usage.map_or(0, |usage| usage.output as u32),
            output: size.output.round() as u32,
            gap: 0,
            growth: size.growth.round() as i32,
            later_lines: items.iter().skip(first_line).map(|item| item.quarters).sum(),
            is_resume: false,
            is_after_restart: round.is_after_restart,
            is_expanded: is_expanded(self.trace.items(&inputs)),
            is_copied: session.is_copied(first),
            is_after_hole: round.is_after_hole,
            node: first,
            inputs,
            response,
        });
    }

    fn add_inputs(&mut self, call: usize, nodes: &[Node]) -> Range<u32> {
        let start = self.trace.items.len() as u32;
        let mut is_after = false;
        for &node in nodes {
            let record = self.session.record(node);
            let is_boundary = matches!(record.kind, RecordKind::Boundary | RecordKind::MicroBoundary);
            // Old clients wrote no boundary, only a summary.
            if is_boundary || (record.is_summary && !is_after) {
                self.add_boundary(call, node);
            }
            is_after |= record.kind == RecordKind::Boundary || record.is_summary;
            let is_put_in = record.is_summary || record.is_meta || record.kind == RecordKind::Attachment;
            let artefact = if is_after && is_put_in { flag::ARTEFACT } else { 0 };
            let first = self.trace.items.len();
            let beside = if self.off_chain_inputs.binary_search(&node).is_ok() {
                flag::OFF_CHAIN
            } else {
                0
            };
            self.add_record(node, artefact | beside);
            if record.is_summary
                && let Some(boundary) = self.trace.recorded.iter_mut().rev().find(|boundary| !boundary.is_micro)
            {
                boundary.summary += self.trace.items[first..].iter().map(|item| item.tokens).sum::<u32>();
            }
            // The command that asked for a compaction is written after it, with the time when it was typed.
            let is_command = || {
                self.session
                    .blocks(node)
                    .iter()
                    .any(|block| block.kind == BlockKind::Command)
            };
            if let Some(boundary) = self.trace.recorded.last_mut()
                && boundary.call as usize == call
                && boundary.trigger == BoundaryTrigger::Manual
                && boundary.started == NO_TIME
                && record.time <= boundary.time
                && is_command()
            {
                boundary.started = record.time;
            }
        }
        start..self.trace.items.len() as u32
    }

    fn add_boundary(&mut self, call: usize, node: Node) {
        let session = self.session;
        let record = session.record(node);
        let said = session.boundary(node);
        let version = session.log(node).scope_of(record).version;
        let version = self.versions.intern(session, node, version);
        let items = &self.items_of_calls;
        let trigger = match (record.kind, said) {
            (RecordKind::Boundary | RecordKind::MicroBoundary, Some(said)) if said.is_auto => BoundaryTrigger::Auto,
            (RecordKind::Boundary | RecordKind::MicroBoundary, Some(_)) => BoundaryTrigger::Manual,
            _ => BoundaryTrigger::Unknown,
        };
        self.trace.recorded.push(RecordedBoundary {
            is_micro: record.kind == RecordKind::MicroBoundary,
            trigger,
            call: call as u32,
            item: self.trace.items.len() as u32,
            node,
            time: record.time,
            started: match trigger {
                BoundaryTrigger::Auto => self.last_time,
                BoundaryTrigger::Manual | BoundaryTrigger::Unknown => NO_TIME,
            },
            version: version as u16,
            pre_tokens: said.and_then(|said| said.pre_tokens),
            post_tokens: said.and_then(|said| said.post_tokens),
            tokens_saved: said.and_then(|said| said.tokens_saved),
            duration_ms: said.and_then(|said| said.duration_ms),
            kept: said.map_or(0, |said| said.kept.len() as u32),
            cleared: said.map_or_else(Vec::new, |said| {
                let result = |call: &u64| items.get(call).map_or(NONE, |(_, result)| *result);
                said.cleared.iter().map(result).collect()
            }),
            has_leaf: self.session.has_leaf(node),
            is_copied: self.session.is_copied(node),
            summary: 0,
        });
    }

    fn add_record(&mut self, node: Node, flags: u16) {
        let record = self.session.record(node);
        let is_response = record.kind == RecordKind::Assistant;
        if record.time != NO_TIME {
            self.last_time = record.time;
        }
        let mut starts = flag::STARTS_RECORD;
        let blocks = self.session.blocks(node);
        if !blocks.is_empty() {
            self.trace.nodes.push((self.trace.items.len() as u32, node));
        }
        for block in blocks {
            let (tokens, origin) = self.sizes.next().unwrap_or((0, TokenOrigin::Estimated));
            let estimated = if origin == TokenOrigin::Estimated {
                flag::ESTIMATED
            } else {
                0
            };
            let flags = flags | starts | estimated | self.item_flags(node, block);
            starts = 0;
            let at = self.trace.items.len() as u32;
            let is_tool = matches!(
                block.kind,
                BlockKind::ToolCall | BlockKind::ToolResult | BlockKind::Attachment
            );
            let tool = if is_tool {
                self.tools.intern(self.session, node, block.name)
            } else {
                0
            };
            let path = if block.path == 0 {
                0
            } else {
                self.paths.intern(self.session, node, block.path)
            };
            let pair = self.link_pair(block, at, is_response);
            self.trace.items.push(TraceItem {
                tokens,
                quarters: block_estimate(block, flags),
                category: Category::of(block),
                flags,
                images: images(block),
                tool: tool as u16,
                pair,
                path,
            });
        }
    }

    fn item_flags(&self, node: Node, block: &Block) -> u16 {
        let is_text = matches!(block.kind, BlockKind::Human | BlockKind::Command | BlockKind::Text);
        let is_hook =
            block.kind == BlockKind::Attachment && self.session.log(node).string(block.name) == "hook_success";
        let mut flags = 0;
        for (has, flag) in [
            (block.is_error, flag::ERROR),
            (is_text, flag::TEXT),
            (block.may_change_files, flag::CHANGES_FILES),
            (is_hook && block.units > 0, flag::HOOK),
        ] {
            if has {
                flags |= flag;
            }
        }
        flags
    }

    /// Joins a call and its result.
    fn link_pair(&mut self, block: &Block, at: u32, is_response: bool) -> u32 {
        match block.kind {
            BlockKind::ToolCall if block.call != 0 && is_response => {
                self.items_of_calls.insert(block.call, (at, NONE));
                NONE
            }
            BlockKind::ToolResult => match self.items_of_calls.get_mut(&block.call) {
                Some((call, result)) if *result == NONE => {
                    *result = at;
                    self.trace.items[*call as usize].pair = at;
                    *call
                }
                _ => NONE,
            },
            _ => NONE,
        }
    }

    fn finish(mut self, sizes: &ChainSizes) -> Trace {
        let versions = self
            .versions
            .texts
            .iter()
            .map(|text| ClientVersion::parse(text).unwrap_or_default());
        self.trace.versions = versions.collect();
        self.trace.tools = self.tools.texts;
        self.trace.paths = self.paths.texts;
        self.trace.models = self.models.texts;
        let usual = default_base(self.trace.versions.first().copied().unwrap_or_default());
        // A log that starts in the middle of a session has history before its first call that no record shows. It is not
        // part of the base: a compaction would drop it.
        let known = sizes.rounds.first().and_then(|round| round.base);
        let known = known.map(|base| base.round() as u32).filter(|base| *base <= 3 * usual);
        self.trace.base_is_known = known.is_some();
        self.trace.base = known.unwrap_or(usual);
        find_gaps(&mut self.trace);
        self.trace
    }
}

/// The recorded client's estimate of a block. What a hook printed is wrapped in a sentence with the hook's name.
fn block_estimate(block: &Block, flags: u16) -> u32 {
    const AROUND_HOOK: u32 = 52;
    if flags & flag::HOOK == 0 {
        return block.quarters;
    }
    client_estimate(block.units.saturating_add(block.extra).saturating_add(AROUND_HOOK))
}

fn images(block: &Block) -> u8 {
    match block.kind {
        BlockKind::Image | BlockKind::Document => 1,
        _ => u8::try_from(block.images).unwrap_or(u8::MAX),
    }
}

/// A command that a person ran, followed by text that the client put in for it.
fn is_expanded(inputs: &[TraceItem]) -> bool {
    let command = inputs
        .iter()
        .position(|item| item.category == Category::LocalCommand && item.has_flag(flag::TEXT));
    command.is_some_and(|at| {
        inputs[at..]
            .iter()
            .any(|item| item.category == Category::Other && !item.has_flag(flag::ARTEFACT))
    })
}

/// System prompt and tools that clients of a version usually have: medians over many logs.
pub fn default_base(version: ClientVersion) -> u32 {
    match version {
        version if version < ClientVersion([2, 1, 0]) => 22_500,
        version if version < ClientVersion([2, 1, 45]) => 40_000,
        version if version < ClientVersion([2, 1, 150]) => 26_000,
        _ => 35_000,
    }
}

/// What calls were sent beyond the items that were added since the one before.
fn find_gaps(trace: &mut Trace) {
    let sum = |items: &[TraceItem]| items.iter().map(|item| i64::from(item.tokens)).sum::<i64>();
    for at in 1..trace.calls.len() {
        let (before, call) = (&trace.calls[at - 1], &trace.calls[at]);
        let (Some(sent_before), Some(sent)) = (before.usage, call.usage) else {
            continue;
        };
        if !trace.recorded_at(at).is_empty() {
            continue;
        }
        let added = sum(trace.items(&before.response)) + sum(trace.items(&call.inputs));
        let gap = sent.input_side() as i64 - sent_before.input_side() as i64 - added;
        let is_cold = sent.cache_read < 40_000 && sent.input_side() + 400 < sent_before.total();
        let is_resume =
            is_cold && before.model == call.model && !drops_thinking(&trace.models[usize::from(call.model)]);
        trace.calls[at].is_resume = is_resume;
        trace.calls[at].gap = i32::try_from(gap).unwrap_or(0);
    }
}

/// A record's id, for outputs.
pub fn uuid(session: &Session<'_>, node: Node) -> String {
    let record = session.record(node);
    if record.id == RecordId::default() {
        return String::new();
    }
    let log = session.log(node);
    let odd = log.odd_ids.iter().find(|(id, _)| *id == record.id);
    odd.map_or_else(|| record.id.to_string(), |(_, name)| log.string(*name).to_owned())
}
