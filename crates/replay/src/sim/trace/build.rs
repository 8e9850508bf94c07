//! Builds the trace of a chain from its threaded records and their sizes.

use super::continuity::{find_base, find_gaps, is_expanded, is_interrupted, sum_earlier_reasoning};
use super::touches::find_touches;
use super::{
    BoundaryTrigger, Call, CallOutput, Continuity, EarlierReasoning, InnerCall, NONE, OffChainBoundary,
    RecordedBoundary, Trace, TraceItem, flag,
};
use crate::policy::presets::ClientVersion;
use crate::tokens::calibrate::{ChainSizes, TokenOrigin, size_chain};
use crate::tokens::ledger::Category;
use crate::tokens::ratios::RatioTable;
use std::ops::Range;
use transcript::agents::Agent;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, NO_TIME, Record, RecordKind, Time, WindowMark};
use transcript::record::{Tokens, client_estimate};
use transcript::thread::{Chain, Node, Round, Session, is_client_chain, starts_turn, usage_line};

/// Builds the trace of a chain; `table` sizes what the log does not.
pub fn build_trace(session: &Session<'_>, chain: &Chain, table: &RatioTable) -> Trace {
    if is_client_chain(&chain.agent) {
        // A copy of the conversation for a call of the client's own: its boundaries are copies, and a replay bills the calls of
        // its own compactions.
        return Trace {
            agent: chain.agent.clone(),
            is_sidechain: chain.is_sidechain,
            ..Trace::default()
        };
    }
    // `size_chain` visits the blocks in the order in which the builder adds them, so sizes need no keys.
    let mut sized = Vec::new();
    let sizes = size_chain(session, chain, table, &mut |_, _, tokens, origin| {
        sized.push((tokens.max(0.0).round() as u32, origin));
    });
    let mut builder = TraceBuilder {
        session,
        table,
        trace: Trace {
            client: chain_client(session, chain),
            // A session may have hundreds of thousands of chains with one call.
            calls: Vec::with_capacity(chain.rounds.len()),
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
        ranges: IdMap::default(),
        last_time: NO_TIME,
        turn_ends: 0,
    };
    for (at, round) in chain.rounds.iter().enumerate() {
        builder.add_round(at, round, &sizes);
    }
    builder.trace.tail = builder.add_inputs(chain.rounds.len(), &chain.tail);
    builder.finish(&sizes)
}

/// Whether an input record of a call is a recorded boundary. `is_after_compaction` says that the inputs of the call had one
/// before. Old clients wrote no boundary, only a summary.
fn is_boundary(record: &Record, is_after_compaction: bool) -> bool {
    matches!(record.kind, RecordKind::Boundary | RecordKind::MicroBoundary) || record.is_summary && !is_after_compaction
}

/// Returns what caused a recorded boundary.
fn boundary_trigger(session: &Session<'_>, node: Node) -> BoundaryTrigger {
    match (session.record(node).kind, session.boundary(node)) {
        (RecordKind::Boundary | RecordKind::MicroBoundary, Some(metadata)) if metadata.is_auto => BoundaryTrigger::Auto,
        (RecordKind::Boundary | RecordKind::MicroBoundary, Some(_)) => BoundaryTrigger::Manual,
        _ => BoundaryTrigger::Unknown,
    }
}

/// Calls `found` with the recorded boundaries among the input records of a call, and what caused each. A trace has the same
/// boundaries, so that every command counts them alike.
pub fn find_boundaries(session: &Session<'_>, inputs: &[Node], mut found: impl FnMut(Node, BoundaryTrigger)) {
    let mut is_after_compaction = false;
    for &node in inputs {
        let record = session.record(node);
        if is_boundary(record, is_after_compaction) {
            found(node, boundary_trigger(session, node));
        }
        is_after_compaction |= record.kind == RecordKind::Boundary || record.is_summary;
    }
}

/// Maps strings of the session's logs to indices of a string table.
struct StringInterner {
    /// Index by log and string id in that log.
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

    /// Returns the index of a string. The text itself is hashed once per log; later lookups go by its id there.
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

struct TraceBuilder<'s, 'a> {
    session: &'s Session<'a>,
    table: &'s RatioTable,
    trace: Trace,
    /// Sizes of the blocks still to be added.
    sizes: std::vec::IntoIter<(u32, TokenOrigin)>,
    off_chain_inputs: &'s [Node],
    tools: StringInterner,
    paths: StringInterner,
    models: StringInterner,
    versions: StringInterner,
    /// Call and result items by the hash of the tool call id.
    items_of_calls: IdMap<u64, (u32, u32)>,
    /// By call item: the lines that a read asks for, if it does.
    ranges: IdMap<u32, (u32, u32)>,
    /// Time of the last record that has one.
    last_time: Time,
    /// Prompts that follow a marked end of a turn.
    turn_ends: u32,
}

/// A log with fewer marked ends of turns than this may lack marks for other reasons than a restart.
const MARKED_TURN_ENDS: u32 = 2;

impl TraceBuilder<'_, '_> {
    fn add_round(&mut self, at: usize, round: &Round, sizes: &ChainSizes) {
        let session = self.session;
        let inputs = self.add_inputs(at, &round.inputs);
        let start = self.end();
        for &line in &round.lines {
            self.add_record(line, 0);
        }
        let response = start..self.end();
        let first = round.lines[0];
        let size = &sizes.rounds[at];
        // Some gateways write usage on the last line only.
        let anchor = usage_line(session, round);
        let line = session.response(anchor);
        let log = session.log(first);
        let version = self
            .versions
            .intern(session, first, log.scope_of(session.record(first)).version);
        let model = self.models.intern(session, anchor, line.map_or(0, |line| line.model));
        let usage = line.map(|line| line.context()).filter(|_| size.input.is_some());
        if usage.is_some() {
            self.add_inner_calls(at, anchor, model);
        }
        let items = &self.trace.items[start as usize..];
        let counted = round.lines.iter().take_while(|line| **line <= anchor);
        let counted = counted.map(|line| session.blocks(*line).len()).sum::<usize>();
        let later = &items[counted.min(items.len())..];
        let is_text = |item: &&TraceItem| item.category == Category::Text;
        let starts_turn = starts_turn(session, round);
        self.turn_ends += u32::from(starts_turn && round.is_after_turn_end);
        self.trace.calls.push(Call {
            node: first,
            model: model as u16,
            version: version as u16,
            is_copied: session.is_copied(first),
            turn: round.turn,
            starts_turn,
            time: session.record(first).time,
            input_time: round.inputs.last().map_or(NO_TIME, |node| session.record(*node).time),
            tool_calls: items.iter().filter(|item| item.category == Category::ToolCall).count() as u32,
            usage,
            output: CallOutput {
                tokens: size.output.round() as u32,
                recorded: size.recorded_output as u32,
                first_line: usage.map_or(0, |usage| usage.output as u32),
                later_lines: later.iter().map(|item| item.quarters).sum(),
                later_text: later.iter().filter(is_text).map(|item| item.quarters).sum(),
            },
            window: log
                .call_facts_of(session.record(first))
                .map_or(0, |facts| raw_window(facts.window)),
            // `sum_earlier_reasoning` fills it in once all calls are known.
            earlier_reasoning: EarlierReasoning::default(),
            // `find_gaps` fills in the rest once all calls are known.
            continuity: Continuity {
                growth: size.growth.round() as i32,
                is_after_restart: round.is_after_restart,
                is_expanded: is_expanded(self.trace.items(&inputs)),
                is_interrupted: is_interrupted(session, round),
                // `finish` corrects it where the log marks no ends.
                lacks_turn_end: starts_turn && at > 0 && !round.is_after_turn_end,
                is_after_hole: round.is_after_hole,
                ..Continuity::default()
            },
            inputs,
            response,
        });
    }

    /// Adds the calls within a response that its window does not show. `line` is its line with usage.
    fn add_inner_calls(&mut self, at: usize, line: Node, model: u32) {
        let session = self.session;
        let mut add = |model: u32, tokens: Tokens| {
            self.trace.inner_calls.push(InnerCall {
                call: at as u32,
                model: model as u16,
                tokens,
            });
        };
        let response = session.response(line);
        if let Some((response, last)) = response.and_then(|line| Some((line, line.last_call.as_deref()?))) {
            let earlier = response.billed.minus(last);
            if !earlier.is_zero() {
                add(model, earlier);
            }
        }
        for other in session.log(line).other_calls_of(session.record(line)) {
            add(self.models.intern(session, line, other.model), other.tokens);
        }
    }

    /// Returns the index of the next item.
    fn end(&self) -> u32 {
        self.trace.items.len() as u32
    }

    /// Adds the input records of a call, boundaries included, and returns their items.
    fn add_inputs(&mut self, call: usize, nodes: &[Node]) -> Range<u32> {
        let start = self.end();
        let mut is_after_compaction = false;
        for &node in nodes {
            let record = self.session.record(node);
            if is_boundary(record, is_after_compaction) {
                self.add_boundary(call, node);
            }
            is_after_compaction |= record.kind == RecordKind::Boundary || record.is_summary;
            let is_from_client = record.is_summary || record.is_meta || record.kind == RecordKind::Attachment;
            let mut flags = 0;
            if is_after_compaction && is_from_client {
                flags |= flag::ARTIFACT;
            }
            if self.off_chain_inputs.binary_search(&node).is_ok() {
                flags |= flag::OFF_CHAIN;
            }
            let first = self.trace.items.len();
            self.add_record(node, flags);
            if record.is_summary
                && let Some(boundary) = self.trace.recorded.iter_mut().rev().find(|boundary| !boundary.is_micro)
            {
                boundary.summary += self.trace.items[first..].iter().map(|item| item.tokens).sum::<u32>();
            }
            self.date_manual_boundary(call, node);
        }
        start..self.end()
    }

    /// Sets the start of a manual compaction if `node` is the command that asked for it: the client writes the command
    /// after the boundary, with the time when it was typed.
    fn date_manual_boundary(&mut self, call: usize, node: Node) {
        let session = self.session;
        let time = session.record(node).time;
        let is_command = || {
            let mut blocks = session.blocks(node).iter();
            blocks.any(|block| block.kind == BlockKind::Command)
        };
        if let Some(boundary) = self.trace.recorded.last_mut()
            && boundary.call as usize == call
            && boundary.trigger == BoundaryTrigger::Manual
            && boundary.started == NO_TIME
            && time <= boundary.time
            && is_command()
        {
            boundary.started = time;
        }
    }

    fn add_boundary(&mut self, call: usize, node: Node) {
        let session = self.session;
        let record = session.record(node);
        let metadata = session.boundary(node);
        let version = session.log(node).scope_of(record).version;
        let version = self.versions.intern(session, node, version);
        let items = &self.items_of_calls;
        let trigger = boundary_trigger(session, node);
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
            pre_tokens: metadata.and_then(|metadata| metadata.pre_tokens),
            post_tokens: metadata.and_then(|metadata| metadata.post_tokens),
            tokens_saved: metadata.and_then(|metadata| metadata.tokens_saved),
            duration_ms: metadata.and_then(|metadata| metadata.duration_ms),
            kept: metadata.map_or(0, |metadata| metadata.kept.len() as u32),
            cleared: metadata.map_or_else(Vec::new, |metadata| {
                let result = |call: &u64| items.get(call).map_or(NONE, |(_, result)| *result);
                metadata.cleared.iter().map(result).collect()
            }),
            has_leaf: self.session.has_leaf(node),
            is_copied: self.session.is_copied(node),
            // `add_inputs` adds the summary record's tokens.
            summary: 0,
        });
    }

    /// Adds the blocks of a record as items; `flags` apply to all of them.
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
            let flags = flags | starts | estimated | self.block_flags(node, block);
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
            if block.kind == BlockKind::ToolCall && block.range != (0, 0) {
                self.ranges.insert(at, block.range);
            }
            self.trace.items.push(TraceItem {
                tokens,
                quarters: match self.trace.client {
                    Agent::Codex => json_estimate(block),
                    _ => self.block_estimate(node, block, flags),
                },
                category: Category::of(block),
                flags,
                images: images(block),
                tool: tool as u16,
                pair,
                path,
            });
        }
    }

    /// Returns the flags that follow from a block alone.
    fn block_flags(&self, node: Node, block: &Block) -> u16 {
        let is_text = matches!(block.kind, BlockKind::Human | BlockKind::Command | BlockKind::Text);
        let attachment = (block.kind == BlockKind::Attachment).then(|| self.session.log(node).string(block.name));
        let is_hook = attachment == Some("hook_success");
        let is_rendered = attachment.is_some_and(|kind| self.rendered_units(kind).is_some());
        let mut flags = 0;
        for (has, flag) in [
            (block.is_error, flag::ERROR),
            (is_text, flag::TEXT),
            (block.may_change_files, flag::CHANGES_FILES),
            (is_hook && block.units > 0, flag::HOOK),
            (
                is_hook && is_start_hook(block) && self.trace.calls.is_empty(),
                flag::START_HOOK,
            ),
            (is_rendered, flag::RENDERED),
        ] {
            if has {
                flags |= flag;
            }
        }
        flags
    }

    /// Returns the length of the usual text around an attachment; `None` for one that the model does not see as text.
    fn rendered_units(&self, kind: &str) -> Option<u32> {
        self.table.rendered_units(kind)
    }

    /// Returns the recorded client's token estimate of a block. Attachments count with the sentence that the client wraps
    /// around them; that of hook output contains the hook's name.
    fn block_estimate(&self, node: Node, block: &Block, flags: u16) -> u32 {
        const AROUND_HOOK: u32 = 52;
        let units = block.units;
        if flags & flag::HOOK != 0 {
            return client_estimate(units.saturating_add(block.extra).saturating_add(AROUND_HOOK));
        }
        if flags & flag::RENDERED != 0 {
            let around = self.rendered_units(self.session.log(node).string(block.name));
            return client_estimate(units.saturating_add(around.unwrap_or(0)));
        }
        block.quarters
    }

    /// Links a tool result with its call, in both directions. Returns the other item, or [`NONE`] if it is not known yet.
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

    /// Assigns texts that name the size of a window to calls.
    fn add_window_marks(&mut self) {
        let Some(marks) = self.session.agent_marks(self.trace.is_sidechain, &self.trace.agent) else {
            return;
        };
        let calls = &self.trace.calls;
        for &(node, mark) in &marks.window_marks {
            let next = calls.partition_point(|call| call.node <= node);
            let call = match mark {
                WindowMark::Trailer => next.checked_sub(1),
                WindowMark::LargeModel | WindowMark::OtherModel => Some(next).filter(|next| *next < calls.len()),
            };
            if let Some(call) = call {
                self.trace.window_marks.push((call as u32, mark));
            }
        }
    }

    /// Collects the automatic boundaries of this agent that are not on the chain.
    fn add_off_chain_boundaries(&mut self) {
        let session = self.session;
        let Some(marks) = session.agent_marks(self.trace.is_sidechain, &self.trace.agent) else {
            return;
        };
        let mut recorded = self
            .trace
            .recorded
            .iter()
            .map(|boundary| boundary.node)
            .collect::<Vec<_>>();
        recorded.sort_unstable();
        for &node in &marks.boundaries {
            let is_known = recorded.binary_search(&node).is_ok();
            let metadata = session.boundary(node).filter(|metadata| metadata.is_auto);
            let pre_tokens = metadata.and_then(|metadata| metadata.pre_tokens);
            if let Some(pre_tokens) = pre_tokens.filter(|_| !is_known && !session.is_copied(node)) {
                self.trace.off_chain.push(OffChainBoundary {
                    call: self.trace.calls.partition_point(|call| call.node <= node) as u32,
                    node,
                    time: session.record(node).time,
                    pre_tokens,
                });
            }
        }
    }

    fn finish(mut self, sizes: &ChainSizes) -> Trace {
        self.add_window_marks();
        self.add_off_chain_boundaries();
        let versions = self
            .versions
            .texts
            .iter()
            .map(|text| ClientVersion::parse(text).unwrap_or_default());
        self.trace.versions = versions.collect();
        self.trace.tools = self.tools.texts;
        self.trace.paths = self.paths.texts;
        self.trace.models = self.models.texts;
        let known = sizes.rounds.first().and_then(|round| round.base);
        let known = known.map(|base| base.round() as u32);
        (self.trace.base, self.trace.base_is_known) = find_base(&self.trace, known);
        find_gaps(&mut self.trace);
        if self.turn_ends < MARKED_TURN_ENDS || self.trace.is_sidechain {
            let calls = self.trace.calls.iter_mut();
            calls.for_each(|call| call.continuity.lacks_turn_end = false);
        }
        let ranges = self.ranges;
        find_touches(&mut self.trace, |call| ranges.get(&call).copied().unwrap_or_default());
        if self.trace.client == Agent::Codex {
            sum_earlier_reasoning(self.session, &mut self.trace);
        }
        self.trace
    }
}

/// Returns whether hook output is that of a hook at the start of a session: the log keeps the length of the hook's name, and
/// `SessionStart:clear`, `:resume`, `:startup` and `:compact` are longer than the names of other hooks before a first call.
fn is_start_hook(block: &Block) -> bool {
    (18..=20).contains(&block.extra)
}

/// Returns the coding agent that wrote a chain.
fn chain_client(session: &Session<'_>, chain: &Chain) -> Agent {
    let first = chain.rounds.first().and_then(|round| round.lines.first());
    first
        .or(chain.tail.first())
        .map_or(Agent::Claude, |node| session.log(*node).agent)
}

/// Returns the window of the model for the one that Codex shows, which is 95 % of it.
fn raw_window(shown: u32) -> u32 {
    u32::try_from(u64::from(shown) * 100 / 95).unwrap_or(u32::MAX)
}

/// Returns the estimate of Codex for an item: the bytes of its JSON / 4, rounded up.
fn json_estimate(block: &Block) -> u32 {
    /// What stands around the text: type, role or call id, quotes and brackets.
    const AROUND_TEXT: u32 = 80;
    let bytes = [block.wide, block.escapes, AROUND_TEXT];
    let bytes = bytes.iter().fold(block.units, |sum, part| sum.saturating_add(*part));
    bytes.div_ceil(4)
}

fn images(block: &Block) -> u8 {
    match block.kind {
        BlockKind::Image | BlockKind::Document => 1,
        _ => u8::try_from(block.images).unwrap_or(u8::MAX),
    }
}
