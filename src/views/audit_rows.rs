//! Rows of `backcast audit` and their columns: for other programs, and the few that a screen has room for.

use replay::audit::boundaries::{AuditBoundary, BoundaryKind, BoundaryRemark};
use replay::audit::thresholds::{SettingCheck, ThresholdEvidence, ThresholdGroup};
use replay::sim::trace::BoundaryTrigger;
use table::{CellValue, Column, ColumnUnit, TableVisibility, column};
use transcript::log::NO_TIME;
use transcript::thread::Session;

/// A boundary and where it is.
#[derive(Clone)]
pub struct AuditRow {
    session: String,
    project: String,
    agent: String,
    path: String,
    line: u32,
    /// The boundary.
    pub boundary: AuditBoundary,
}

impl AuditRow {
    /// A boundary of a session.
    pub fn new(session: &Session<'_>, agent: &str, found: AuditBoundary) -> AuditRow {
        let record = session.record(found.node);
        let log = session.log(found.node);
        AuditRow {
            session: session.id.to_owned(),
            project: log.string(log.scope_of(record).cwd).to_owned(),
            agent: agent.to_owned(),
            path: session.part(found.node).path.clone(),
            line: record.line,
            boundary: found,
        }
    }

    fn trigger(&self) -> &'static str {
        match self.boundary.trigger {
            BoundaryTrigger::Auto => "auto",
            BoundaryTrigger::Manual => "manual",
            BoundaryTrigger::Unknown => "unknown",
        }
    }

    fn remarks(&self, most: usize) -> Option<String> {
        let remarks = self.boundary.remarks().into_iter().take(most);
        let names = remarks.map(BoundaryRemark::name).collect::<Vec<_>>();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn text_or_missing(text: &str) -> CellValue {
    if text.is_empty() { CellValue::None } else { text.into() }
}

/// Columns of boundaries.
pub const COLUMNS: &[Column<AuditRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "agent",
        "Agent",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Sub-agent id; empty for the main agent.",
        |row| text_or_missing(&row.agent),
    ),
    column(
        "project",
        "Project",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Working directory.",
        |row| text_or_missing(&row.project),
    ),
    column(
        "time",
        "Time",
        ColumnUnit::Time,
        TableVisibility::Never,
        "When it was written.",
        |row| (row.boundary.time != NO_TIME).then_some(row.boundary.time).into(),
    ),
    column(
        "version",
        "Version",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Version of the client.",
        |row| row.boundary.version.to_string().into(),
    ),
    column(
        "model",
        "Model",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Model of the call before it.",
        |row| text_or_missing(&row.boundary.model),
    ),
    column(
        "trigger",
        "Trigger",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`auto`, `manual`, or `unknown` (a summary of an old client that wrote no boundary).",
        |row| row.trigger().into(),
    ),
    column(
        "kind",
        "Kind",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`full`; `partial` if records were kept; `micro` if it only cleared results.",
        |row| row.boundary.kind.name().into(),
    ),
    column(
        "recorded_tokens",
        "Recorded",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Tokens before, as recorded; of a micro-compaction, those of all results that could go.",
        |row| row.boundary.pre_tokens.into(),
    ),
    column(
        "recorded_after_tokens",
        "Recorded after",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Tokens after, as recorded: without system prompt and tools.",
        |row| row.boundary.post_tokens.into(),
    ),
    column(
        "window_before",
        "Before",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Window on the wire before: what the last call sent and was answered.",
        |row| row.boundary.before.into(),
    ),
    column(
        "window_after",
        "After",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Window on the wire after: what the first call sent.",
        |row| row.boundary.after.into(),
    ),
    column(
        "freed_tokens",
        "Freed",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "The difference of the two.",
        |row| row.boundary.freed().into(),
    ),
    column(
        "net_negative",
        "Grew",
        ColumnUnit::Flag,
        TableVisibility::Never,
        "Whether the window was larger after than before.",
        |row| row.boundary.has_grown().into(),
    ),
    column(
        "rebuilt_tokens",
        "Rebuilt",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Window after, beyond system prompt and tools of the session's first call; empty if these are not known.",
        |row| row.boundary.rebuilt.into(),
    ),
    column(
        "summary_tokens",
        "Summary",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Tokens of the summary.",
        |row| row.boundary.summary.into(),
    ),
    column(
        "calls_since",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls since the compaction before, or since the start.",
        |row| row.boundary.calls_since.into(),
    ),
    column(
        "turns_since",
        "Turns",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Turns that began since then.",
        |row| row.boundary.turns_since.into(),
    ),
    column(
        "recompaction",
        "Again",
        ColumnUnit::Flag,
        TableVisibility::Never,
        "Whether the chain was compacted before.",
        |row| row.boundary.is_recompaction.into(),
    ),
    column(
        "took_ms",
        "Took",
        ColumnUnit::Millis,
        TableVisibility::Never,
        "How long it took.",
        |row| row.boundary.duration.map(|(took, _)| took).into(),
    ),
    column(
        "took_from",
        "Timed by",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`recorded` by the boundary; `clock`: from the last record before it, or from the command that asked for it.",
        |row| row.boundary.duration.map(|(_, from)| from.name()).into(),
    ),
    column(
        "window_tokens",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Window of the model, inferred; empty if nothing tells.",
        |row| row.boundary.window.into(),
    ),
    column(
        "window_grounds",
        "Grounds",
        ColumnUnit::Text,
        TableVisibility::Never,
        "What it is inferred from: `given`, `version`, `boundary`, `usage`; `silent` and `assumed` tell nothing.",
        |row| row.boundary.grounds.name().into(),
    ),
    column(
        "threshold_tokens",
        "Threshold",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Where the policy puts automatic compaction for that version and window; for the smallest window if none is told.",
        |row| row.boundary.threshold.into(),
    ),
    column(
        "over_tokens",
        "Over",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Recorded tokens before minus that threshold.",
        |row| row.boundary.tokens_over_threshold().into(),
    ),
    column(
        "cleared_results",
        "Cleared",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Results that a micro-compaction cleared.",
        |row| row.boundary.cleared.into(),
    ),
    column(
        "saved_tokens",
        "Saved",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Tokens that it saved, as recorded.",
        |row| row.boundary.saved.into(),
    ),
    column(
        "leaf_known",
        "Leaf",
        ColumnUnit::Flag,
        TableVisibility::Never,
        "Whether the message that it followed is in the log; if not, the window before may have been larger.",
        |row| row.boundary.has_leaf.into(),
    ),
    column(
        "remarks",
        "Remarks",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`grew`; `lower` than the threshold; `high`: 10,000 or more above it; `little`: less than half came free; `again` after fewer than 10 calls; `slow`: over two minutes.",
        |row| row.remarks(usize::MAX).into(),
    ),
    column(
        "path",
        "Path",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Log.",
        |row| row.path.as_str().into(),
    ),
    column(
        "line",
        "Line",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Line of the log, from 1.",
        |row| row.line.into(),
    ),
    column(
        "call",
        "Call",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Number of the call before which it stands, from 0.",
        |row| row.boundary.call.into(),
    ),
];

/// Remarks that the screen has room for, the gravest.
pub const REMARKS_ON_SCREEN: usize = 2;

/// What the screen shows of them: it has exact counts where the thousands decide.
pub const SCREEN_COLUMNS: &[Column<AuditRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "",
        |row| row.session.chars().take(8).collect::<String>().into(),
    ),
    column(
        "version",
        "Version",
        ColumnUnit::Text,
        TableVisibility::Always,
        "",
        |row| row.boundary.version.to_string().into(),
    ),
    column(
        "trigger",
        "What",
        ColumnUnit::Text,
        TableVisibility::Always,
        "",
        |row| {
            if row.boundary.kind == BoundaryKind::Micro {
                "micro"
            } else {
                row.trigger()
            }
            .into()
        },
    ),
    column(
        "recorded",
        "Recorded",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.boundary.pre_tokens.into(),
    ),
    column(
        "after",
        "After",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "",
        |row| row.boundary.after.into(),
    ),
    column(
        "freed",
        "Freed",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "",
        |row| row.boundary.freed().into(),
    ),
    column(
        "calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.boundary.calls_since.into(),
    ),
    column("took", "Took", ColumnUnit::Millis, TableVisibility::Always, "", |row| {
        row.boundary.duration.map(|(took, _)| took).into()
    }),
    column(
        "remarks",
        "Remarks",
        ColumnUnit::Verdict,
        TableVisibility::Always,
        "",
        |row| row.remarks(REMARKS_ON_SCREEN).into(),
    ),
    column("place", "Place", ColumnUnit::Text, TableVisibility::Always, "", |row| {
        format!("{}:{}", row.path, row.line).into()
    }),
];

/// A group of thresholds.
pub struct ThresholdRow {
    /// What it depends on.
    pub group: ThresholdGroup,
    /// What the record shows.
    pub evidence: ThresholdEvidence,
}

impl ThresholdRow {
    /// Versions that were seen, shortly.
    pub fn versions(&self) -> String {
        match self.evidence.versions {
            (first, last) if first == last => first.to_string(),
            (first, last) if first.0[..2] == last.0[..2] => format!("{first}-{}", last.0[2]),
            (first, last) => format!("{first}-{last}"),
        }
    }
}

/// Columns of thresholds.
pub const THRESHOLD_COLUMNS: &[Column<ThresholdRow>] = &[
    column(
        "version_first",
        "First",
        ColumnUnit::Text,
        TableVisibility::Never,
        "First version of the client seen.",
        |row| row.evidence.versions.0.to_string().into(),
    ),
    column(
        "version_last",
        "Last",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Last version seen.",
        |row| row.evidence.versions.1.to_string().into(),
    ),
    column(
        "model",
        "Model",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Model, without vendor and date.",
        |row| text_or_missing(&row.group.family),
    ),
    column(
        "window_tokens",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Its window; empty if nothing tells.",
        |row| row.group.window.into(),
    ),
    column(
        "expected_tokens",
        "Expected",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Threshold by the policy; for the smallest window if none is told.",
        |row| row.evidence.expected.into(),
    ),
    column(
        "chains",
        "Chains",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Chains (main agents and sub-agents).",
        |row| row.evidence.chains.into(),
    ),
    column(
        "checks",
        "Checks",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls that were sent without a compaction before them, with a known context.",
        |row| row.evidence.checks.into(),
    ),
    column(
        "highest_unfired",
        "No at",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Highest context among these: the threshold is above it.",
        |row| row.evidence.highest_unfired.into(),
    ),
    column(
        "automatic",
        "Auto",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Automatic compactions.",
        |row| row.evidence.fired_tokens.len().into(),
    ),
    column(
        "lowest_fired",
        "Yes at",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Lowest recorded tokens before one: the threshold is at most this.",
        |row| row.evidence.lowest().into(),
    ),
    column(
        "median_fired",
        "Median",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Median of them.",
        |row| row.evidence.median().into(),
    ),
    column(
        "highest_fired",
        "Highest",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Highest of them.",
        |row| row.evidence.highest().into(),
    ),
    column(
        "verdict",
        "Verdict",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`as expected`; `lower`: an override or a smaller window was in force; `higher`: a larger window, or automatic compaction off; `no evidence`: not reached.",
        |row| row.evidence.verdict().name().into(),
    ),
    column(
        "lower",
        "Lower",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Automatic compactions below the expected threshold.",
        |row| row.evidence.count_lower().into(),
    ),
    column(
        "passed_chains",
        "Passed",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Chains that passed the expected threshold without a compaction.",
        |row| row.evidence.chains_over_threshold.into(),
    ),
    column(
        "about_tokens",
        "About",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Where the threshold was instead, if lower.",
        |row| row.evidence.estimated_threshold().into(),
    ),
    column(
        "about_share",
        "Share",
        ColumnUnit::Share,
        TableVisibility::Never,
        "That as a share of the effective window: what a percentage override would have been.",
        |row| row.evidence.estimated_share().into(),
    ),
];

/// What the screen shows of them.
pub const THRESHOLD_SCREEN_COLUMNS: &[Column<ThresholdRow>] = &[
    column(
        "versions",
        "Versions",
        ColumnUnit::Text,
        TableVisibility::Always,
        "",
        |row| row.versions().into(),
    ),
    column("model", "Model", ColumnUnit::Text, TableVisibility::Always, "", |row| {
        text_or_missing(&row.group.family)
    }),
    column(
        "window",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "",
        |row| row.group.window.into(),
    ),
    column(
        "expected",
        "Expected",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.evidence.expected.into(),
    ),
    column("auto", "Auto", ColumnUnit::Count, TableVisibility::Always, "", |row| {
        row.evidence.fired_tokens.len().into()
    }),
    column(
        "lowest",
        "Lowest",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.evidence.lowest().into(),
    ),
    column(
        "unfired",
        "Not at",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.evidence.highest_unfired.into(),
    ),
    column(
        "verdict",
        "Verdict",
        ColumnUnit::Verdict,
        TableVisibility::Always,
        "",
        |row| row.evidence.verdict().name().into(),
    ),
    column(
        "median",
        "Median",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.evidence.median().into(),
    ),
    column(
        "highest",
        "Highest",
        ColumnUnit::Count,
        TableVisibility::Always,
        "",
        |row| row.evidence.highest().into(),
    ),
];

/// Columns of sessions that a setting was held against.
pub const CHECKED_COLUMNS: &[Column<(String, SettingCheck)>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Session id.",
        |row| row.0.as_str().into(),
    ),
    column(
        "effect",
        "Effect",
        ColumnUnit::Text,
        TableVisibility::Never,
        "`took effect`, `did not take effect`, `took effect in part`, `compacted lower still`, `makes no difference` (an override can only lower the threshold), `not reached`, `window unknown`, or `undecided` (the context jumped over both thresholds at once).",
        |row| row.1.effect.name().into(),
    ),
    column(
        "threshold_tokens",
        "Threshold",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Threshold with the setting, at the last call; empty if it switches automatic compaction off.",
        |row| row.1.threshold.into(),
    ),
    column(
        "usual_tokens",
        "Usual",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Threshold without it.",
        |row| row.1.usual.into(),
    ),
    column(
        "window_tokens",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Window of the model, inferred; empty if nothing tells: then both thresholds are those of the smallest.",
        |row| row.1.window.into(),
    ),
    column(
        "highest_unfired",
        "No at",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Highest context that did not compact.",
        |row| row.1.highest_unfired.into(),
    ),
    column(
        "lowest_fired",
        "Yes at",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Lowest recorded tokens before an automatic compaction.",
        |row| row.1.lowest_fired.into(),
    ),
];
