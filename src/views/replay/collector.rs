//! Adds up the events of a replay: rows per call, per boundary and per session.

use super::SCHEMA;
use super::rows::{RoundRow, SessionRow};
use crate::views::events;
use replay::prices::{Price, Tariff, tariffs};
use replay::sim::event::{CacheMiss, CompactionKind, Event, EventSink, PARTS, SimBoundary, SimCall};
use replay::sim::trace::{BoundaryTrigger, Trace, flag, uuid};
use replay::sim::working_set::UseOutcome;
use replay::tokens::ledger::{CATEGORIES, Category};
use replay::windows::{InferredWindow, WindowConfidence, known_level};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use table::format_time;
use transcript::log::NO_TIME;
use transcript::record::Tokens;
use transcript::thread::{Node, Session};

/// Blocks and their tokens by category and tool.
pub type BlockLedger = BTreeMap<(Category, String), (u64, u64)>;

/// The replay of one session.
#[derive(Debug, Default)]
pub struct ReplayResult {
    pub row: SessionRow,
    /// With [`ReplayDetail::rounds`].
    pub rounds: Vec<RoundRow>,
    /// With [`ReplayDetail::boundaries`].
    pub boundaries: Vec<Json>,
    /// Uses of content that was no longer in the window, if uses were looked for.
    pub misses: Vec<Json>,
    pub ledger: BlockLedger,
    /// Lines of JSON, with [`ReplayDetail::events`].
    pub events: Vec<u8>,
}

/// What is collected in addition to the sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayDetail {
    /// One row per call.
    pub rounds: bool,
    /// One object per boundary and miss, and the ledger.
    pub boundaries: bool,
    /// Every event.
    pub events: bool,
}

/// Collects the events of one chain.
pub struct ReplayCollector<'a> {
    id: &'a str,
    session: Option<&'a Session<'a>>,
    trace: &'a Trace,
    windows: &'a [InferredWindow],
    replayed: &'a mut ReplayResult,
    tariffs: Vec<Option<Tariff>>,
    detail: ReplayDetail,
    session_name: Arc<str>,
    agent: Arc<str>,
    models: Vec<Arc<str>>,
    pending: String,
    calls_made: u64,
    last_boundary: Option<u32>,
}

impl<'a> ReplayCollector<'a> {
    /// `trace` is a chain of session `id`. Without `session`, boundaries do not name records.
    pub fn new(
        id: &'a str,
        session: Option<&'a Session<'a>>,
        trace: &'a Trace,
        windows: &'a [InferredWindow],
        prices: &[Option<&Price>],
        replayed: &'a mut ReplayResult,
        detail: ReplayDetail,
    ) -> ReplayCollector<'a> {
        let row = &mut replayed.row;
        row.compactions.recorded += trace
            .recorded
            .iter()
            .filter(|boundary| !boundary.is_micro && !boundary.is_copied)
            .count() as u64;
        for item in &trace.items {
            let tokens = u64::from(item.tokens);
            if item.has_flag(flag::ESTIMATED) {
                row.window.estimated_tokens += tokens;
            } else {
                row.window.measured_tokens += tokens;
            }
        }
        row.calls.assumed_windows += windows
            .iter()
            .filter(|window| window.confidence > WindowConfidence::Likely)
            .count() as u64;
        if detail.boundaries {
            ReplayCollector::add_blocks(trace, &mut replayed.ledger);
        }
        let row = &mut replayed.row;
        if !trace.is_sidechain {
            row.calls.turns += trace.calls.last().map_or(0, |call| u64::from(call.turn) + 1);
        }
        ReplayCollector {
            id,
            session,
            trace,
            windows,
            replayed,
            tariffs: tariffs(prices),
            detail,
            session_name: id.into(),
            agent: trace.agent.as_str().into(),
            models: trace.models.iter().map(|model| model.as_str().into()).collect(),
            pending: String::new(),
            calls_made: 0,
            last_boundary: None,
        }
    }

    /// Adds the blocks of the calls that this session owns to the ledger.
    fn add_blocks(trace: &Trace, ledger: &mut BlockLedger) {
        let own = trace.calls.iter().filter(|call| !call.is_copied);
        let ranges = own.flat_map(|call| [&call.inputs, &call.response]);
        let tail = trace
            .calls
            .last()
            .is_none_or(|call| !call.is_copied)
            .then_some(&trace.tail);
        let mut sums = BTreeMap::<(Category, u16), (u64, u64)>::new();
        for item in ranges.chain(tail).flat_map(|range| trace.items(range)) {
            let sum = sums.entry((item.category, item.tool)).or_default();
            sum.0 += 1;
            sum.1 += u64::from(item.tokens);
        }
        for ((category, tool), (blocks, tokens)) in sums {
            let sum = ledger
                .entry((category, trace.tools[usize::from(tool)].clone()))
                .or_default();
            sum.0 += blocks;
            sum.1 += tokens;
        }
    }

    /// Counts the calls that were not made.
    pub fn finish(self) {
        let own = self.trace.calls.iter().filter(|call| !call.is_copied).count() as u64;
        self.replayed.row.calls.blocked += own - self.calls_made;
    }

    fn add_note(&mut self, text: fmt::Arguments<'_>) {
        if self.detail.rounds {
            if !self.pending.is_empty() {
                self.pending.push_str("; ");
            }
            let _ = self.pending.write_fmt(text);
        }
    }

    fn add_call(&mut self, at: u32, called: &SimCall) {
        let call = &self.trace.calls[at as usize];
        let row = &mut self.replayed.row;
        let window = called.tokens.input_side();
        self.calls_made += 1;
        row.calls.made += 1;
        row.calls.in_step += u64::from(called.in_step);
        row.calls.unexplained_misses += u64::from(called.miss == Some(CacheMiss::Unexplained));
        if call.time != NO_TIME {
            let (first, last) = row.times.unwrap_or((call.time, call.time));
            row.times = Some((first.min(call.time), last.max(call.time)));
        }
        if self.trace.is_sidechain {
            row.calls.subagent += 1;
        } else {
            let totals = &mut row.window;
            totals.peak = totals.peak.max(window);
            totals.sum += u128::from(window);
            totals.calls += 1;
            totals.course.push(window);
            for (sum, part) in std::iter::zip(&mut totals.parts, called.parts) {
                *sum += u128::from(part);
            }
            totals.parts[PARTS] += u128::from(called.base);
            totals.parts[PARTS + 1] += u128::from(called.drift.max(0).unsigned_abs());
        }
        if let (Some(usage), Some(tariff)) = (call.usage, &self.tariffs[usize::from(call.model)]) {
            let recorded = Tokens {
                output: called.tokens.output,
                ..usage
            };
            row.costs.recorded += tariff.cost(&recorded, usage.input_side());
        }
        if !self.trace.is_sidechain {
            row.last_tariff = self.tariffs[usize::from(call.model)];
        }
        match called.cost {
            Some(cost) => row.costs.conversation += cost,
            None => row.costs.unpriced_calls += 1,
        }
        if self.detail.rounds {
            self.replayed.rounds.push(RoundRow {
                session: self.session_name.clone(),
                agent: self.agent.clone(),
                coding_agent: self.trace.client,
                call: at,
                turn: call.turn,
                time: call.time,
                model: self.models[usize::from(call.model)].clone(),
                called: *called,
                recorded: call.usage.map(|usage| usage.input_side()),
                window: self
                    .windows
                    .get(at as usize)
                    .copied()
                    .unwrap_or(InferredWindow::UNKNOWN),
                boundary: self.last_recorded_boundary(at),
                events: std::mem::take(&mut self.pending),
            });
        }
    }

    /// Returns the trigger of the last boundary that the log has right before a call; `None` if there is none.
    fn last_recorded_boundary(&self, at: u32) -> Option<&'static str> {
        let recorded = &self.trace.recorded;
        let after = recorded.partition_point(|boundary| boundary.call <= at);
        let last = recorded[..after].last().filter(|boundary| boundary.call == at)?;
        Some(match (last.is_micro, last.trigger) {
            (true, _) => "micro",
            (false, BoundaryTrigger::Auto) => "auto",
            (false, BoundaryTrigger::Manual) => "manual",
            (false, BoundaryTrigger::Unknown) => "unknown",
        })
    }

    fn add_boundary(&mut self, at: u32, boundary: &SimBoundary) {
        self.last_boundary = Some(at);
        let row = &mut self.replayed.row;
        row.working_set.prompts += u64::from(boundary.summarized.prompts);
        let totals = &mut row.compactions;
        totals.by_cause[boundary.cause as usize] += 1;
        totals.by_notes += u64::from(boundary.kind == CompactionKind::SessionMemory);
        totals.again += u64::from(boundary.since.is_recompaction);
        totals.as_recorded += u64::from(boundary.is_recorded);
        totals.freed += boundary.size.before.saturating_sub(boundary.size.after);
        self.add_note(format_args!(
            "boundary {} {}",
            boundary.cause.name(),
            boundary.kind.name()
        ));
        if self.detail.boundaries {
            let object = self.boundary_json(at, boundary);
            self.replayed.boundaries.push(object);
        }
    }

    /// Returns a boundary as an object of `boundaries.jsonl`.
    fn boundary_json(&self, at: u32, boundary: &SimBoundary) -> Json {
        let call = self.trace.calls.get(at as usize);
        let known = boundary.last_item.map_or(0, |item| item as usize + 1);
        let mut tools = self.trace.items[..known]
            .iter()
            .filter(|item| item.category == Category::ToolCall)
            .map(|item| self.trace.tools[usize::from(item.tool)].as_str())
            .collect::<Vec<_>>();
        tools.sort_unstable();
        tools.dedup();
        let id = |item: Option<u32>| {
            item.and_then(|item| self.node_of(item))
                .and_then(|node| Some(uuid(self.session?, node)))
        };
        let kept = (!boundary.kept.is_empty()).then(|| {
            json!({
                "first": id(Some(boundary.kept.start)),
                "last": id(boundary.kept.end.checked_sub(1)),
                "blocks": boundary.kept.len(),
            })
        });
        let window = self.windows.get(at as usize).or(self.windows.last());
        let parts = |tokens: &[u64; PARTS]| {
            let named = std::iter::zip(CATEGORIES, tokens).filter(|(_, tokens)| **tokens > 0);
            Json::Object(
                named
                    .map(|(part, tokens)| (part.name().to_owned(), json!(tokens)))
                    .collect(),
            )
        };
        let restored_files = boundary
            .restored_files
            .iter()
            .map(|(path, tokens)| json!({"path": self.trace.paths[*path as usize], "tokens": tokens}));
        json!({
            "schema_version": SCHEMA.version,
            "session": self.id,
            "agent": self.trace.agent,
            "coding_agent": self.trace.client,
            "call": at,
            "turn": call.map(|call| call.turn),
            "time": call.and_then(|call| format_time(call.input_time)),
            "trigger": boundary.cause.name(),
            "kind": boundary.kind.name(),
            "tokens_counted": boundary.context,
            "tokens_before": boundary.size.before,
            "tokens_after": boundary.size.after,
            "summary_tokens": boundary.size.summary,
            "restored_tokens": boundary.size.restored,
            "restored_files": restored_files.collect::<Vec<_>>(),
            "restored_parts": events::restored_parts_json(boundary),
            "dropped_tokens": parts(&boundary.dropped),
            "kept_tokens": parts(&boundary.kept_parts),
            "messages_summarized": boundary.summarized.records,
            "prompts_summarized": boundary.summarized.prompts,
            "last_message": id(boundary.last_item),
            "kept": kept,
            "tools_known": tools,
            "retries": boundary.retries,
            "is_recompaction": boundary.since.is_recompaction,
            "rounds_since": boundary.since.calls,
            "turns_since": boundary.since.turns,
            "previous_call": boundary.since.previous.map(|(call, _)| call),
            "previous_turn": boundary.since.previous.map(|(_, turn)| turn),
            "call_source": self.trace.call_source(),
            "threshold": known_level(boundary.threshold),
            "window": window.and_then(|window| window.tokens),
            "window_grounds": window.map(|window| window.grounds.name()),
            "window_confidence": window.map(|window| window.confidence.name()),
            "source": if boundary.is_recorded { "recorded" } else { "simulated" },
        })
    }

    /// Returns the record of an item.
    fn node_of(&self, item: u32) -> Option<Node> {
        self.trace
            .nodes
            .get(
                self.trace
                    .nodes
                    .partition_point(|(first, _)| *first <= item)
                    .checked_sub(1)?,
            )
            .map(|(_, node)| *node)
    }
}

impl EventSink for ReplayCollector<'_> {
    fn on_event(&mut self, at: u32, event: &Event<'_>) {
        // A call that was copied from another session counts there.
        if self.trace.calls.get(at as usize).is_some_and(|call| call.is_copied) {
            return;
        }
        if self.detail.events {
            let mut line = events::event_json(self.trace, at, event);
            line["session"] = json!(self.id);
            line["schema_version"] = json!(SCHEMA.version);
            // Writing into memory does not fail.
            let _ = table::write_json_line(&line, &mut self.replayed.events);
        }
        match event {
            Event::Called(called) => self.add_call(at, called),
            Event::Boundary(boundary) => self.add_boundary(at, boundary),
            Event::Micro {
                kind, saved, cleared, ..
            } => {
                let totals = &mut self.replayed.row.micro;
                totals.by_kind[*kind as usize] += 1;
                totals.cleared += cleared.len() as u64;
                totals.saved += saved;
                self.add_note(format_args!("micro {} {}", kind.name(), cleared.len()));
            }
            Event::Failed { failure, .. } => {
                self.replayed.row.compactions.failures += 1;
                self.add_note(format_args!("failed {}", failure.name()));
            }
            Event::TooLong { .. } => {
                self.replayed.row.compactions.refused_prompts += 1;
                self.add_note(format_args!("prompt-too-long"));
            }
            Event::BreakerOpen => self.add_note(format_args!("breaker-open")),
            Event::Blocked => self.add_note(format_args!("blocked")),
            Event::Notes { tokens } => {
                self.replayed.row.notes += 1;
                self.add_note(format_args!("notes {tokens}"));
            }
            Event::Extract => {
                self.replayed.row.extractions += 1;
                self.add_note(format_args!("extract"));
            }
            Event::Recalled { tokens } | Event::NotesRead { tokens } | Event::Nested { tokens, .. } => {
                self.replayed.row.recalled += tokens;
                self.add_note(format_args!("recalled {tokens}"));
            }
            Event::NeedsRead { path } => {
                self.replayed.row.reads_needed += 1;
                self.add_note(format_args!("needs-read {}", self.trace.paths[*path as usize]));
            }
            Event::Inner { cost, .. } => {
                let costs = &mut self.replayed.row.costs;
                costs.inner_calls += 1;
                for sum in [&mut costs.inner, &mut costs.conversation, &mut costs.recorded] {
                    *sum += cost.unwrap_or(0);
                }
            }
            Event::Side { purpose, tokens, cost } => {
                let costs = &mut self.replayed.row.costs;
                costs.side_calls[*purpose as usize] += 1;
                costs.side[*purpose as usize] += cost.unwrap_or(0);
                costs.side_cached += tokens.cache_read;
                costs.side_input += tokens.input_side();
            }
            Event::Used { one, outcome, .. } => {
                self.replayed.row.working_set.add(one, *outcome);
                if !matches!(outcome, UseOutcome::Live | UseOutcome::Filled) {
                    self.add_note(format_args!(
                        "{} {}",
                        outcome.name(),
                        self.trace.paths[one.path as usize]
                    ));
                    if self.detail.boundaries {
                        let miss = json!({
                            "schema_version": SCHEMA.version,
                            "session": self.id,
                            "agent": self.trace.agent,
                            "call": at,
                            "path": self.trace.paths[one.path as usize],
                            "outcome": outcome.name(),
                            "distance": one.distance,
                            "boundary": self.last_boundary,
                        });
                        self.replayed.misses.push(miss);
                    }
                }
            }
            Event::Referred { outcome, .. } => self.replayed.row.working_set.add_reference(*outcome),
            Event::Fetched { kind, tokens } => self.replayed.row.working_set.add_fetch(*kind, *tokens),
            Event::Orphans(count) => self.replayed.row.orphans += u64::from(*count),
            Event::Defect { .. } => self.replayed.row.defects += 1,
            Event::Due { .. } | Event::Reached { .. } => {}
        }
    }
}
