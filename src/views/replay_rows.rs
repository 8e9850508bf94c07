//! What the events of a replay add up to: rows per call, per boundary and per session.

use crate::views::events;
use replay::prices::{PicoUsd, Price, Tariff, micro_usd, tariffs};
use replay::sim::event::{
    CacheMiss, CompactionCause, CompactionKind, Event, EventSink, MicroKind, PARTS, SideCallPurpose, SimBoundary,
    SimCall,
};
use replay::sim::inference::InferredWindow;
use replay::sim::trace::{BoundaryTrigger, Trace, flag, uuid};
use replay::sim::use_counts::UseCounts;
use replay::sim::working_set::{FetchKind, UseOutcome};
use replay::tokens::ledger::{CATEGORIES, Category};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::sync::Arc;
use table::{CellValue, Column, ColumnUnit, TableVisibility, column, format_time};
use transcript::log::{NO_TIME, Time};
use transcript::record::Tokens;
use transcript::thread::{Node, Session};

/// Version of the files of a replay; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// One call of the conversation, as it was simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct RoundRow {
    /// Session id.
    pub session: Arc<str>,
    /// Sub-agent; empty for the main agent.
    pub agent: Arc<str>,
    /// Number of the call in its chain, from 0.
    pub call: u32,
    /// Turn, from 0.
    pub turn: u32,
    /// When it was made.
    pub time: Time,
    /// Its model.
    pub model: Arc<str>,
    /// What was simulated.
    pub called: SimCall,
    /// What the log says was sent.
    pub recorded: Option<u64>,
    /// Context window of its model.
    pub window: Option<u64>,
    /// The boundary that the log has before it.
    pub boundary: Option<&'static str>,
    /// What happened before it.
    pub events: String,
}

macro_rules! part {
    ($name:literal, $category:expr) => {
        column(
            $name,
            $name,
            ColumnUnit::Tokens,
            TableVisibility::Never,
            concat!("Tokens in the window, by category: ", $name, "."),
            |row: &RoundRow| row.called.parts[$category as usize].into(),
        )
    };
}

/// Columns of `rounds`.
pub const ROUND_COLUMNS: &[Column<RoundRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| (&*row.session).into(),
    ),
    column(
        "agent",
        "Agent",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Sub-agent; empty for the main agent.",
        |row| (&*row.agent).into(),
    ),
    column(
        "call",
        "Call",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Number of the call in its chain, from 0.",
        |row| row.call.into(),
    ),
    column(
        "turn",
        "Turn",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Turn, from 0.",
        |row| row.turn.into(),
    ),
    column(
        "time",
        "Time",
        ColumnUnit::Time,
        TableVisibility::Always,
        "When the call was made.",
        |row| time_value(row.time),
    ),
    column(
        "model",
        "Model",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Model.",
        |row| (&*row.model).into(),
    ),
    column(
        "input",
        "Input",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Tokens sent: the window at the call.",
        |row| row.called.tokens.input_side().into(),
    ),
    column(
        "recorded_input",
        "Recorded",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Tokens sent, as the log has them.",
        |row| row.recorded.into(),
    ),
    column(
        "output",
        "Output",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Tokens answered.",
        |row| row.called.tokens.output.into(),
    ),
    column(
        "in_step",
        "In step",
        ColumnUnit::Flag,
        TableVisibility::Always,
        "Whether the window is the recorded one.",
        |row| row.called.in_step.into(),
    ),
    column(
        "base",
        "Base",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Of the input, system prompt and tools.",
        |row| row.called.base.into(),
    ),
    part!("human", Category::Human),
    part!("assistant_text", Category::Text),
    part!("thinking", Category::Thinking),
    part!("tool_calls", Category::ToolCall),
    part!("tool_results", Category::ToolResult),
    part!("local_commands", Category::LocalCommand),
    part!("attachments", Category::Attachment),
    part!("images", Category::Image),
    part!("summaries", Category::Summary),
    part!("other", Category::Other),
    column(
        "unexplained",
        "Unexplained",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Tokens that the log says were sent beyond everything above; negative if fewer were.",
        |row| row.called.drift.into(),
    ),
    column(
        "threshold",
        "Threshold",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Where compaction starts.",
        |row| row.called.threshold.into(),
    ),
    column(
        "window",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Context window of the model, inferred.",
        |row| row.window.into(),
    ),
    column(
        "level",
        "Level",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Where the window stands: `normal`, `warning`, `error`, `threshold`.",
        |row| row.called.level.name().into(),
    ),
    column(
        "cache_read",
        "Read",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Of the input, read from the prompt cache.",
        |row| row.called.tokens.cache_read.into(),
    ),
    column(
        "cache_write",
        "Written",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Of the input, written to it.",
        |row| row.called.tokens.cache_write.into(),
    ),
    column(
        "cache_miss",
        "Miss",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Why less was read than the call before left there: `first`, `expired`, `model`, `compaction`, `cleared`, `resume`, `switched`, `unexplained`.",
        |row| row.called.miss.map(CacheMiss::name).into(),
    ),
    column(
        "cost_micro_usd",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Price of the call; empty without one.",
        |row| row.called.cost.map(micro_usd).into(),
    ),
    column(
        "recorded_boundary",
        "Boundary",
        ColumnUnit::Text,
        TableVisibility::Never,
        "The last boundary that the log has before the call: `auto`, `manual`, `unknown` (of an old client), `micro`.",
        |row| row.boundary.into(),
    ),
    column(
        "events",
        "Events",
        ColumnUnit::Text,
        TableVisibility::Always,
        "What happened before the call, or with it: mechanisms and how many results or tokens they moved, joined by `; `.",
        |row| row.events.as_str().into(),
    ),
];

fn time_value(time: Time) -> CellValue {
    Some(time).filter(|time| *time != NO_TIME).into()
}

/// What a session came to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SessionRow {
    /// Session id.
    pub session: String,
    /// Working directory.
    pub project: String,
    /// First and last call.
    pub times: Option<(Time, Time)>,
    /// Calls of the conversation, sub-agents included.
    pub calls: u64,
    /// Of these, sub-agents'.
    pub subagent_calls: u64,
    /// Turns of the main chain.
    pub turns: u64,
    /// Boundaries by cause: automatic, manual, reactive.
    pub boundaries: [u64; 3],
    /// Of these, by the notes.
    pub by_notes: u64,
    /// Of these, not the first of their chain.
    pub again: u64,
    /// Of these, at the place of a recorded one.
    pub as_recorded: u64,
    /// Recorded boundaries of all kinds but micro.
    pub recorded: u64,
    /// Tokens that boundaries freed.
    pub freed: u64,
    /// Micro-compactions by kind.
    pub micro: [u64; 5],
    /// Results and thinking that they cleared.
    pub cleared: u64,
    /// Tokens that they saved.
    pub saved: u64,
    /// Compactions that did not come about.
    pub failures: u64,
    /// Prompts that the API would have refused.
    pub too_long: u64,
    /// Calls that were not made because the session was blocked.
    pub blocked_calls: u64,
    /// Updates of the notes.
    pub notes: u64,
    /// Turns at whose end memories would be extracted.
    pub extractions: u64,
    /// Largest window of the main chain.
    pub peak: u64,
    /// Sum of windows of the main chain, for the mean.
    pub window_sum: u128,
    /// Main calls, for the mean.
    pub window_calls: u64,
    /// Windows of the main chain, call by call.
    pub course: Vec<u64>,
    /// Tokens times calls by category, base and unexplained last.
    pub parts_sum: [u128; PARTS + 2],
    /// Calls whose window is the recorded one.
    pub in_step: u64,
    /// Cost of the conversation.
    pub cost: PicoUsd,
    /// The same by recorded usage.
    pub recorded_cost: PicoUsd,
    /// Cost of the calls beside it: compaction, notes, extraction.
    pub side_costs: [PicoUsd; 3],
    /// Calls beside it.
    pub side_calls: [u64; 3],
    /// Of their input, what was read from the prompt cache, and all.
    pub side_shared: (u64, u64),
    /// Calls without a price.
    pub unpriced: u64,
    /// Cache misses that nothing explains.
    pub unexplained_misses: u64,
    /// Items by size: tokens recorded or calibrated, and estimated.
    pub measured: (u64, u64),
    /// Windows that are a guess.
    pub assumed_windows: u64,
    /// Results whose calls were gone.
    pub orphans: u64,
    /// Whether hits and misses were looked at.
    pub has_working_set: bool,
    /// Hits and misses.
    pub working_set: UseCounts,
    /// Defects of the replay itself.
    pub defects: u64,
}

impl SessionRow {
    /// Adds another session.
    pub fn merge(&mut self, other: &SessionRow) {
        self.times = match (self.times, other.times) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (times, None) | (None, times) => times,
        };
        for (sum, part) in std::iter::zip(&mut self.boundaries, other.boundaries) {
            *sum += part;
        }
        for (sum, part) in std::iter::zip(&mut self.micro, other.micro) {
            *sum += part;
        }
        for (sum, part) in std::iter::zip(&mut self.parts_sum, other.parts_sum) {
            *sum += part;
        }
        for (sum, part) in std::iter::zip(&mut self.side_costs, other.side_costs) {
            *sum += part;
        }
        for (sum, part) in std::iter::zip(&mut self.side_calls, other.side_calls) {
            *sum += part;
        }
        self.side_shared.0 += other.side_shared.0;
        self.side_shared.1 += other.side_shared.1;
        self.measured.0 += other.measured.0;
        self.measured.1 += other.measured.1;
        self.has_working_set |= other.has_working_set;
        self.working_set.merge(&other.working_set);
        self.peak = self.peak.max(other.peak);
        self.window_sum += other.window_sum;
        self.cost += other.cost;
        self.recorded_cost += other.recorded_cost;
        for (sum, part) in [
            (&mut self.calls, other.calls),
            (&mut self.subagent_calls, other.subagent_calls),
            (&mut self.turns, other.turns),
            (&mut self.by_notes, other.by_notes),
            (&mut self.again, other.again),
            (&mut self.as_recorded, other.as_recorded),
            (&mut self.recorded, other.recorded),
            (&mut self.freed, other.freed),
            (&mut self.cleared, other.cleared),
            (&mut self.saved, other.saved),
            (&mut self.failures, other.failures),
            (&mut self.too_long, other.too_long),
            (&mut self.blocked_calls, other.blocked_calls),
            (&mut self.notes, other.notes),
            (&mut self.extractions, other.extractions),
            (&mut self.window_calls, other.window_calls),
            (&mut self.in_step, other.in_step),
            (&mut self.unpriced, other.unpriced),
            (&mut self.unexplained_misses, other.unexplained_misses),
            (&mut self.assumed_windows, other.assumed_windows),
            (&mut self.orphans, other.orphans),
            (&mut self.defects, other.defects),
        ] {
            *sum += part;
        }
    }

    /// The row with the beginning of the session's id, which people tell sessions apart by.
    pub fn with_short_id(&self) -> SessionRow {
        SessionRow {
            session: self.session.chars().take(8).collect(),
            ..self.clone()
        }
    }

    /// Mean window of the main chain.
    pub fn mean(&self) -> Option<u64> {
        (self.window_calls > 0).then(|| (self.window_sum / u128::from(self.window_calls)) as u64)
    }

    /// Boundaries of all causes.
    pub fn compactions(&self) -> u64 {
        self.boundaries.iter().sum()
    }

    /// Cost of everything; `None` if nothing has a price.
    pub fn total_cost(&self) -> Option<PicoUsd> {
        (self.unpriced < self.calls).then(|| self.cost + self.side_costs.iter().sum::<PicoUsd>())
    }
}

/// A count of the working set: empty where it was not looked at.
fn use_count_value(row: &SessionRow, count: u64) -> CellValue {
    row.has_working_set.then_some(count).into()
}

/// Columns of `sessions.csv`.
pub const SESSION_COLUMNS: &[Column<SessionRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "project",
        "Project",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Working directory.",
        |row| row.project.as_str().into(),
    ),
    column(
        "first_time",
        "First",
        ColumnUnit::Time,
        TableVisibility::Never,
        "First call.",
        |row| row.times.map(|times| times.0).into(),
    ),
    column(
        "last_time",
        "Last",
        ColumnUnit::Time,
        TableVisibility::Never,
        "Last call.",
        |row| row.times.map(|times| times.1).into(),
    ),
    column(
        "calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Calls of the conversation, sub-agents included.",
        |row| row.calls.into(),
    ),
    column(
        "subagent_calls",
        "Sub",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Of these, sub-agents'.",
        |row| row.subagent_calls.into(),
    ),
    column(
        "turns",
        "Turns",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Turns of the main chain.",
        |row| row.turns.into(),
    ),
    column(
        "compactions",
        "Compact",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Simulated boundaries.",
        |row| row.compactions().into(),
    ),
    column(
        "recorded_compactions",
        "Recorded",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Recorded boundaries.",
        |row| row.recorded.into(),
    ),
    column(
        "as_recorded",
        "Same",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Simulated at the place of a recorded one.",
        |row| row.as_recorded.into(),
    ),
    column(
        "auto",
        "Auto",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Of the simulated ones, automatic.",
        |row| row.boundaries[CompactionCause::Auto as usize].into(),
    ),
    column(
        "manual",
        "Manual",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Asked for by the user.",
        |row| row.boundaries[CompactionCause::Manual as usize].into(),
    ),
    column(
        "reactive",
        "Reactive",
        ColumnUnit::Count,
        TableVisibility::Never,
        "In answer to a refused prompt.",
        |row| row.boundaries[CompactionCause::Reactive as usize].into(),
    ),
    column(
        "by_notes",
        "By notes",
        ColumnUnit::Count,
        TableVisibility::Never,
        "By the notes, without a model call.",
        |row| row.by_notes.into(),
    ),
    column(
        "again",
        "Again",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Not the first of their chain.",
        |row| row.again.into(),
    ),
    column(
        "freed_tokens",
        "Freed",
        ColumnUnit::Tokens,
        TableVisibility::IfRoom,
        "Tokens that boundaries freed.",
        |row| row.freed.into(),
    ),
    column(
        "micro",
        "Micro",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Micro-compactions of all kinds.",
        |row| row.micro.iter().sum::<u64>().into(),
    ),
    column(
        "cleared",
        "Cleared",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Results and thinking that these cleared.",
        |row| row.cleared.into(),
    ),
    column(
        "saved_tokens",
        "Saved",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Tokens that these saved.",
        |row| row.saved.into(),
    ),
    column(
        "failures",
        "Failed",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Compactions that did not come about.",
        |row| row.failures.into(),
    ),
    column(
        "too_long",
        "Refused",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Prompts that the API would have refused.",
        |row| row.too_long.into(),
    ),
    column(
        "blocked_calls",
        "Blocked",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls that could not have been made.",
        |row| row.blocked_calls.into(),
    ),
    column(
        "notes_updates",
        "Notes",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Updates of the notes.",
        |row| row.notes.into(),
    ),
    column(
        "extractions",
        "Extract",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Turns at whose end memories would be extracted.",
        |row| row.extractions.into(),
    ),
    column(
        "peak",
        "Peak",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Largest window of the main chain.",
        |row| row.peak.into(),
    ),
    column(
        "mean",
        "Mean",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Mean window of the main chain over its calls.",
        |row| row.mean().into(),
    ),
    column(
        "cost_micro_usd",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Simulated cost, calls beside the conversation included.",
        |row| row.total_cost().map(micro_usd).into(),
    ),
    column(
        "conversation_micro_usd",
        "Conversation",
        ColumnUnit::MicroUsd,
        TableVisibility::Never,
        "Of the cost, the calls of the conversation.",
        |row| row.total_cost().map(|_| micro_usd(row.cost)).into(),
    ),
    column(
        "recorded_micro_usd",
        "Recorded $",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "The calls of the conversation by recorded usage, outputs as simulated.",
        |row| row.total_cost().map(|_| micro_usd(row.recorded_cost)).into(),
    ),
    column(
        "compact_micro_usd",
        "Compact $",
        ColumnUnit::MicroUsd,
        TableVisibility::Never,
        "Of the cost, summaries.",
        |row| micro_usd(row.side_costs[SideCallPurpose::Compact as usize]).into(),
    ),
    column(
        "notes_micro_usd",
        "Notes $",
        ColumnUnit::MicroUsd,
        TableVisibility::Never,
        "Of the cost, notes.",
        |row| micro_usd(row.side_costs[SideCallPurpose::Notes as usize]).into(),
    ),
    column(
        "extract_micro_usd",
        "Extract $",
        ColumnUnit::MicroUsd,
        TableVisibility::Never,
        "Of the cost, extraction of memories.",
        |row| micro_usd(row.side_costs[SideCallPurpose::Extract as usize]).into(),
    ),
    column(
        "side_cached_share",
        "Shared",
        ColumnUnit::Share,
        TableVisibility::Never,
        "Of the input of the calls beside the conversation, what was read from the prompt cache.",
        |row| {
            (row.side_shared.1 > 0)
                .then(|| row.side_shared.0 as f64 / row.side_shared.1 as f64)
                .into()
        },
    ),
    column(
        "unexplained_misses",
        "Misses",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Cache misses that nothing in the log explains.",
        |row| row.unexplained_misses.into(),
    ),
    column(
        "in_step_calls",
        "In step",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls whose window is the recorded one.",
        |row| row.in_step.into(),
    ),
    column(
        "estimated_share",
        "Estimated",
        ColumnUnit::Share,
        TableVisibility::Never,
        "Share of the tokens of all items that is estimated.",
        |row| {
            let all = row.measured.0 + row.measured.1;
            (all > 0).then(|| row.measured.1 as f64 / all as f64).into()
        },
    ),
    column(
        "assumed_window_calls",
        "Guessed",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls whose window is a guess.",
        |row| row.assumed_windows.into(),
    ),
    column(
        "uses",
        "Uses",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Edits and writes of known files (with --working-set, as all that follows).",
        |row| use_count_value(row, row.working_set.uses()),
    ),
    column(
        "misses",
        "Misses",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Uses whose lines were no longer in the window, files that came back not credited.",
        |row| use_count_value(row, row.working_set.misses()),
    ),
    column(
        "misses_credited",
        "Misses, credited",
        ColumnUnit::Count,
        TableVisibility::Never,
        "The same, files that came back credited.",
        |row| use_count_value(row, row.working_set.misses_credited()),
    ),
    column(
        "misses_in_flight",
        "In flight",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Of these, results that a boundary summarised before the model had seen them.",
        |row| use_count_value(row, row.working_set.outcomes[UseOutcome::InFlight as usize]),
    ),
    column(
        "at_risk_uses",
        "At risk",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Uses 20,000 tokens or more away from what they need.",
        |row| use_count_value(row, row.working_set.at_risk_uses()),
    ),
    column(
        "at_risk_hit_share",
        "At-risk hits",
        ColumnUnit::Share,
        TableVisibility::Never,
        "Share of these that hit, files that came back not credited.",
        |row| row.working_set.at_risk_ratio().map(|(share, _)| share).into(),
    ),
    column(
        "refetches",
        "Refetched",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Recorded reads of what had been in the window and was dropped.",
        |row| use_count_value(row, row.working_set.fetches[FetchKind::Refetch as usize]),
    ),
    column(
        "refetched_tokens",
        "Refetched",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Their tokens.",
        |row| use_count_value(row, row.working_set.fetch_tokens[FetchKind::Refetch as usize]),
    ),
    column(
        "redundant_reads",
        "Redundant",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Recorded reads of what was in the window.",
        |row| use_count_value(row, row.working_set.fetches[FetchKind::Redundant as usize]),
    ),
    column(
        "references",
        "Named",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Known files named in a prompt, a response or a command, each once a call.",
        |row| use_count_value(row, row.working_set.references.iter().sum()),
    ),
    column(
        "reference_misses",
        "Named, gone",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Of these, with nothing of the file in the window, files that came back not credited.",
        |row| use_count_value(row, row.working_set.reference_misses().0),
    ),
    column(
        "reference_misses_credited",
        "Named, gone",
        ColumnUnit::Count,
        TableVisibility::Never,
        "The same, these credited.",
        |row| use_count_value(row, row.working_set.reference_misses().1),
    ),
    column(
        "prompts_summarized",
        "Prompts",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Prompts of people that boundaries summarised.",
        |row| row.working_set.prompts.into(),
    ),
];

/// What replaying one session gives.
#[derive(Debug, Default)]
pub struct ReplayResult {
    /// The session.
    pub row: SessionRow,
    /// Its calls, if they are wanted.
    pub rounds: Vec<RoundRow>,
    /// Its boundaries.
    pub boundaries: Vec<Json>,
    /// Uses of what was no longer in the window, if uses were looked at.
    pub misses: Vec<Json>,
    /// What its blocks are, by category and tool: how many, and their tokens.
    pub ledger: BTreeMap<(Category, String), (u64, u64)>,
    /// Its events as JSON lines, if they are wanted.
    pub events: Vec<u8>,
}

/// What is wanted beside the sums.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayDetail {
    /// A row a call.
    pub rounds: bool,
    /// An object a boundary and a miss, and the ledger.
    pub boundaries: bool,
    /// Every event.
    pub events: bool,
}

/// Takes the events of one chain.
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
    /// For a chain of session `id`; without the session itself, records are not named.
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
        row.recorded += trace
            .recorded
            .iter()
            .filter(|boundary| !boundary.is_micro && !boundary.is_copied)
            .count() as u64;
        for item in &trace.items {
            let tokens = u64::from(item.tokens);
            if item.has_flag(flag::ESTIMATED) {
                row.measured.1 += tokens;
            } else {
                row.measured.0 += tokens;
            }
        }
        row.assumed_windows += windows.iter().filter(|window| !window.grounds.is_sure()).count() as u64;
        if detail.boundaries {
            ReplayCollector::add_blocks(trace, &mut replayed.ledger);
        }
        let row = &mut replayed.row;
        if !trace.is_sidechain {
            row.turns += trace.calls.last().map_or(0, |call| u64::from(call.turn) + 1);
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
    fn add_blocks(trace: &Trace, ledger: &mut BTreeMap<(Category, String), (u64, u64)>) {
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

    /// Calls that were not made.
    pub fn finish(self) {
        let own = self.trace.calls.iter().filter(|call| !call.is_copied).count() as u64;
        self.replayed.row.blocked_calls += own - self.calls_made;
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
        row.calls += 1;
        row.in_step += u64::from(called.in_step);
        row.unexplained_misses += u64::from(called.miss == Some(CacheMiss::Unexplained));
        if call.time != NO_TIME {
            let (first, last) = row.times.unwrap_or((call.time, call.time));
            row.times = Some((first.min(call.time), last.max(call.time)));
        }
        if self.trace.is_sidechain {
            row.subagent_calls += 1;
        } else {
            row.peak = row.peak.max(window);
            row.window_sum += u128::from(window);
            row.window_calls += 1;
            row.course.push(window);
            for (sum, part) in std::iter::zip(&mut row.parts_sum, called.parts) {
                *sum += u128::from(part);
            }
            row.parts_sum[PARTS] += u128::from(called.base);
            row.parts_sum[PARTS + 1] += u128::from(called.drift.max(0).unsigned_abs());
        }
        if let (Some(usage), Some(tariff)) = (call.usage, &self.tariffs[usize::from(call.model)]) {
            let recorded = Tokens {
                output: called.tokens.output,
                ..usage
            };
            row.recorded_cost += tariff.cost(&recorded, usage.input_side());
        }
        match called.cost {
            Some(cost) => row.cost += cost,
            None => row.unpriced += 1,
        }
        if self.detail.rounds {
            self.replayed.rounds.push(RoundRow {
                session: self.session_name.clone(),
                agent: self.agent.clone(),
                call: at,
                turn: call.turn,
                time: call.time,
                model: self.models[usize::from(call.model)].clone(),
                called: *called,
                recorded: call.usage.map(|usage| usage.input_side()),
                window: self.windows.get(at as usize).map(|window| window.tokens),
                boundary: self.last_recorded_boundary(at),
                events: std::mem::take(&mut self.pending),
            });
        }
    }

    /// The last boundary that the log has before a call.
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
        row.boundaries[boundary.cause as usize] += 1;
        row.working_set.prompts += u64::from(boundary.summarized.prompts);
        row.by_notes += u64::from(boundary.kind == CompactionKind::SessionMemory);
        row.again += u64::from(boundary.since.is_recompaction);
        row.as_recorded += u64::from(boundary.is_recorded);
        row.freed += boundary.size.before.saturating_sub(boundary.size.after);
        self.add_note(format_args!(
            "boundary {} {}",
            boundary.cause.name(),
            boundary.kind.name()
        ));
        if self.detail.boundaries {
            let told = self.boundary_json(at, boundary);
            self.replayed.boundaries.push(told);
        }
    }

    /// A boundary as `boundaries.jsonl` has it.
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
            "schema_version": SCHEMA_VERSION,
            "session": self.id,
            "agent": self.trace.agent,
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
            "threshold": boundary.threshold,
            "window": window.map(|window| window.tokens),
            "window_grounds": window.map(|window| window.grounds.name()),
            "source": if boundary.is_recorded { "recorded" } else { "simulated" },
        })
    }

    /// The record that an item is of.
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
        // What another session owns counts there.
        if self.trace.calls.get(at as usize).is_some_and(|call| call.is_copied) {
            return;
        }
        if self.detail.events {
            let mut line = events::event_json(self.trace, at, event);
            line["session"] = json!(self.id);
            line["schema_version"] = json!(SCHEMA_VERSION);
            self.replayed.events.extend_from_slice(line.to_string().as_bytes());
            self.replayed.events.push(b'\n');
        }
        match event {
            Event::Called(called) => self.add_call(at, called),
            Event::Boundary(boundary) => self.add_boundary(at, boundary),
            Event::Micro {
                kind, saved, cleared, ..
            } => {
                let row = &mut self.replayed.row;
                row.micro[*kind as usize] += 1;
                row.cleared += cleared.len() as u64;
                row.saved += saved;
                self.add_note(format_args!("micro {} {}", kind.name(), cleared.len()));
            }
            Event::Failed { failure, .. } => {
                self.replayed.row.failures += 1;
                self.add_note(format_args!("failed {}", failure.name()));
            }
            Event::TooLong { .. } => {
                self.replayed.row.too_long += 1;
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
            Event::Side { purpose, tokens, cost } => {
                let row = &mut self.replayed.row;
                row.side_calls[*purpose as usize] += 1;
                row.side_costs[*purpose as usize] += cost.unwrap_or(0);
                row.side_shared.0 += tokens.cache_read;
                row.side_shared.1 += tokens.input_side();
            }
            Event::Used { one, outcome } => {
                self.replayed.row.working_set.add(one, *outcome);
                if !matches!(outcome, UseOutcome::Live | UseOutcome::Filled) {
                    self.add_note(format_args!(
                        "{} {}",
                        outcome.name(),
                        self.trace.paths[one.path as usize]
                    ));
                    if self.detail.boundaries {
                        let miss = json!({
                            "schema_version": SCHEMA_VERSION,
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

/// Names of the sums of [`SessionRow::parts_sum`].
pub fn part_names() -> impl Iterator<Item = &'static str> {
    CATEGORIES
        .iter()
        .map(|category| category.name())
        .chain(["system prompt and tools", "unexplained"])
}

/// Kinds of micro-compaction, in the order of [`SessionRow::micro`].
pub const MICRO_KINDS: [MicroKind; 5] = [
    MicroKind::Gap,
    MicroKind::Cached,
    MicroKind::Budget,
    MicroKind::Api,
    MicroKind::Thinking,
];
