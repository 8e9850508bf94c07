//! Rows of `backcast audit` and their columns: for other programs, and the few that a screen has room for.

use replay::audit::boundaries::{Boundary, Kind, Remark};
use replay::audit::thresholds::{Checked, Evidence, Group};
use replay::sim::trace::Trigger;
use table::{Column, InTable, Unit, Value, column};
use transcript::log::NO_TIME;
use transcript::thread::Session;

/// A boundary and where it is.
#[derive(Clone)]
pub struct Row {
    session: String,
    project: String,
    agent: String,
    path: String,
    line: u32,
    /// The boundary.
    pub found: Boundary,
}

impl Row {
    /// A boundary of a session.
    pub fn new(session: &Session<'_>, agent: &str, found: Boundary) -> Row {
        let record = session.record(found.node);
        let log = session.log(found.node);
        Row {
            session: session.id.to_owned(),
            project: log.string(log.scope_of(record).cwd).to_owned(),
            agent: agent.to_owned(),
            path: session.part(found.node).path.clone(),
            line: record.line,
            found,
        }
    }

    fn trigger(&self) -> &'static str {
        match self.found.trigger {
            Trigger::Auto => "auto",
            Trigger::Manual => "manual",
            Trigger::Unknown => "unknown",
        }
    }

    fn remarks(&self, most: usize) -> Option<String> {
        let remarks = self.found.remarks().into_iter().take(most);
        let names = remarks.map(Remark::name).collect::<Vec<_>>();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn text(text: &str) -> Value {
    if text.is_empty() { Value::None } else { text.into() }
}

/// Columns of boundaries.
pub const COLUMNS: &[Column<Row>] = &[
    column(
        "session",
        "Session",
        Unit::Text,
        InTable::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "agent",
        "Agent",
        Unit::Text,
        InTable::Never,
        "Sub-agent id; empty for the main agent.",
        |row| text(&row.agent),
    ),
    column(
        "project",
        "Project",
        Unit::Text,
        InTable::Never,
        "Working directory.",
        |row| text(&row.project),
    ),
    column(
        "time",
        "Time",
        Unit::Time,
        InTable::Never,
        "When it was written.",
        |row| (row.found.time != NO_TIME).then_some(row.found.time).into(),
    ),
    column(
        "version",
        "Version",
        Unit::Text,
        InTable::Never,
        "Version of the client.",
        |row| row.found.version.to_string().into(),
    ),
    column(
        "model",
        "Model",
        Unit::Text,
        InTable::Never,
        "Model of the call before it.",
        |row| text(&row.found.model),
    ),
    column(
        "trigger",
        "Trigger",
        Unit::Text,
        InTable::Never,
        "`auto`, `manual`, or `unknown` (a summary of an old client that wrote no boundary).",
        |row| row.trigger().into(),
    ),
    column(
        "kind",
        "Kind",
        Unit::Text,
        InTable::Never,
        "`full`; `partial` if records were kept; `micro` if it only cleared results.",
        |row| row.found.kind.name().into(),
    ),
    column(
        "recorded_tokens",
        "Recorded",
        Unit::Tokens,
        InTable::Never,
        "Tokens before, as recorded; of a micro-compaction, those of all results that could go.",
        |row| row.found.pre_tokens.into(),
    ),
    column(
        "recorded_after_tokens",
        "Recorded after",
        Unit::Tokens,
        InTable::Never,
        "Tokens after, as recorded: without system prompt and tools.",
        |row| row.found.post_tokens.into(),
    ),
    column(
        "window_before",
        "Before",
        Unit::Tokens,
        InTable::Never,
        "Window on the wire before: what the last call sent and was answered.",
        |row| row.found.before.into(),
    ),
    column(
        "window_after",
        "After",
        Unit::Tokens,
        InTable::Never,
        "Window on the wire after: what the first call sent.",
        |row| row.found.after.into(),
    ),
    column(
        "freed_tokens",
        "Freed",
        Unit::Tokens,
        InTable::Never,
        "The difference of the two.",
        |row| row.found.freed().into(),
    ),
    column(
        "net_negative",
        "Grew",
        Unit::Flag,
        InTable::Never,
        "Whether the window was larger after than before.",
        |row| row.found.has_grown().into(),
    ),
    column(
        "rebuilt_tokens",
        "Rebuilt",
        Unit::Tokens,
        InTable::Never,
        "Window after, beyond system prompt and tools of the session's first call; empty if these are not known.",
        |row| row.found.rebuilt.into(),
    ),
    column(
        "summary_tokens",
        "Summary",
        Unit::Tokens,
        InTable::Never,
        "Tokens of the summary.",
        |row| row.found.summary.into(),
    ),
    column(
        "calls_since",
        "Calls",
        Unit::Count,
        InTable::Never,
        "Calls since the compaction before, or since the start.",
        |row| row.found.calls_since.into(),
    ),
    column(
        "turns_since",
        "Turns",
        Unit::Count,
        InTable::Never,
        "Turns that began since then.",
        |row| row.found.turns_since.into(),
    ),
    column(
        "recompaction",
        "Again",
        Unit::Flag,
        InTable::Never,
        "Whether the chain was compacted before.",
        |row| row.found.is_again.into(),
    ),
    column(
        "took_ms",
        "Took",
        Unit::Millis,
        InTable::Never,
        "How long it took.",
        |row| row.found.took.map(|(took, _)| took).into(),
    ),
    column(
        "took_from",
        "Timed by",
        Unit::Text,
        InTable::Never,
        "`recorded` by the boundary; `clock`: from the last record before it, or from the command that asked for it.",
        |row| row.found.took.map(|(_, from)| from.name()).into(),
    ),
    column(
        "window_tokens",
        "Window",
        Unit::Tokens,
        InTable::Never,
        "Window of the model, inferred; empty if nothing tells.",
        |row| row.found.window.into(),
    ),
    column(
        "window_grounds",
        "Grounds",
        Unit::Text,
        InTable::Never,
        "What it is inferred from: `given`, `version`, `boundary`, `usage`; `silent` and `assumed` tell nothing.",
        |row| row.found.grounds.name().into(),
    ),
    column(
        "threshold_tokens",
        "Threshold",
        Unit::Tokens,
        InTable::Never,
        "Where the policy puts automatic compaction for that version and window; for the smallest window if none is told.",
        |row| row.found.threshold.into(),
    ),
    column(
        "over_tokens",
        "Over",
        Unit::Tokens,
        InTable::Never,
        "Recorded tokens before minus that threshold.",
        |row| row.found.over().into(),
    ),
    column(
        "cleared_results",
        "Cleared",
        Unit::Count,
        InTable::Never,
        "Results that a micro-compaction cleared.",
        |row| row.found.cleared.into(),
    ),
    column(
        "saved_tokens",
        "Saved",
        Unit::Tokens,
        InTable::Never,
        "Tokens that it saved, as recorded.",
        |row| row.found.saved.into(),
    ),
    column(
        "leaf_known",
        "Leaf",
        Unit::Flag,
        InTable::Never,
        "Whether the message that it followed is in the log; if not, the window before may have been larger.",
        |row| row.found.has_leaf.into(),
    ),
    column(
        "remarks",
        "Remarks",
        Unit::Text,
        InTable::Never,
        "`grew`; `lower` than the threshold; `high`: 10,000 or more above it; `little`: less than half came free; `again` after fewer than 10 calls; `slow`: over two minutes.",
        |row| row.remarks(usize::MAX).into(),
    ),
    column("path", "Path", Unit::Text, InTable::Never, "Log.", |row| {
        row.path.as_str().into()
    }),
    column(
        "line",
        "Line",
        Unit::Count,
        InTable::Never,
        "Line of the log, from 1.",
        |row| row.line.into(),
    ),
    column(
        "call",
        "Call",
        Unit::Count,
        InTable::Never,
        "Number of the call before which it stands, from 0.",
        |row| row.found.call.into(),
    ),
];

/// Remarks that the screen has room for, the gravest.
pub const REMARKS_ON_SCREEN: usize = 2;

/// What the screen shows of them: it has exact counts where the thousands decide.
pub const ON_SCREEN: &[Column<Row>] = &[
    column("session", "Session", Unit::Text, InTable::Always, "", |row| {
        row.session.chars().take(8).collect::<String>().into()
    }),
    column("version", "Version", Unit::Text, InTable::Always, "", |row| {
        row.found.version.to_string().into()
    }),
    column("trigger", "What", Unit::Text, InTable::Always, "", |row| {
        if row.found.kind == Kind::Micro {
            "micro"
        } else {
            row.trigger()
        }
        .into()
    }),
    column("recorded", "Recorded", Unit::Count, InTable::Always, "", |row| {
        row.found.pre_tokens.into()
    }),
    column("after", "After", Unit::Tokens, InTable::Always, "", |row| {
        row.found.after.into()
    }),
    column("freed", "Freed", Unit::Tokens, InTable::Always, "", |row| {
        row.found.freed().into()
    }),
    column("calls", "Calls", Unit::Count, InTable::Always, "", |row| {
        row.found.calls_since.into()
    }),
    column("took", "Took", Unit::Millis, InTable::Always, "", |row| {
        row.found.took.map(|(took, _)| took).into()
    }),
    column("remarks", "Remarks", Unit::Verdict, InTable::Always, "", |row| {
        row.remarks(REMARKS_ON_SCREEN).into()
    }),
    column("place", "Place", Unit::Text, InTable::Always, "", |row| {
        format!("{}:{}", row.path, row.line).into()
    }),
];

/// A group of thresholds.
pub struct ThresholdRow {
    /// What it depends on.
    pub group: Group,
    /// What the record shows.
    pub seen: Evidence,
}

impl ThresholdRow {
    /// Versions that were seen, shortly.
    pub fn versions(&self) -> String {
        match self.seen.versions {
            (first, last) if first == last => first.to_string(),
            (first, last) if first.0[..2] == last.0[..2] => format!("{first}-{}", last.0[2]),
            (first, last) => format!("{first}-{last}"),
        }
    }
}

/// Columns of thresholds.
pub const THRESHOLDS: &[Column<ThresholdRow>] = &[
    column(
        "version_first",
        "First",
        Unit::Text,
        InTable::Never,
        "First version of the client seen.",
        |row| row.seen.versions.0.to_string().into(),
    ),
    column(
        "version_last",
        "Last",
        Unit::Text,
        InTable::Never,
        "Last version seen.",
        |row| row.seen.versions.1.to_string().into(),
    ),
    column(
        "model",
        "Model",
        Unit::Text,
        InTable::Never,
        "Model, without vendor and date.",
        |row| text(&row.group.family),
    ),
    column(
        "window_tokens",
        "Window",
        Unit::Tokens,
        InTable::Never,
        "Its window; empty if nothing tells.",
        |row| row.group.window.into(),
    ),
    column(
        "expected_tokens",
        "Expected",
        Unit::Tokens,
        InTable::Never,
        "Threshold by the policy; for the smallest window if none is told.",
        |row| row.seen.expected.into(),
    ),
    column(
        "chains",
        "Chains",
        Unit::Count,
        InTable::Never,
        "Chains (main agents and sub-agents).",
        |row| row.seen.chains.into(),
    ),
    column(
        "checks",
        "Checks",
        Unit::Count,
        InTable::Never,
        "Calls that were sent without a compaction before them, with a known context.",
        |row| row.seen.checks.into(),
    ),
    column(
        "highest_unfired",
        "No at",
        Unit::Tokens,
        InTable::Never,
        "Highest context among these: the threshold is above it.",
        |row| row.seen.unfired.into(),
    ),
    column(
        "automatic",
        "Auto",
        Unit::Count,
        InTable::Never,
        "Automatic compactions.",
        |row| row.seen.fired.len().into(),
    ),
    column(
        "lowest_fired",
        "Yes at",
        Unit::Tokens,
        InTable::Never,
        "Lowest recorded tokens before one: the threshold is at most this.",
        |row| row.seen.lowest().into(),
    ),
    column(
        "median_fired",
        "Median",
        Unit::Tokens,
        InTable::Never,
        "Median of them.",
        |row| row.seen.median().into(),
    ),
    column(
        "highest_fired",
        "Highest",
        Unit::Tokens,
        InTable::Never,
        "Highest of them.",
        |row| row.seen.highest().into(),
    ),
    column(
        "verdict",
        "Verdict",
        Unit::Text,
        InTable::Never,
        "`as expected`; `lower`: an override or a smaller window was in force; `higher`: a larger window, or automatic compaction off; `no evidence`: not reached.",
        |row| row.seen.verdict().name().into(),
    ),
    column(
        "lower",
        "Lower",
        Unit::Count,
        InTable::Never,
        "Automatic compactions below the expected threshold.",
        |row| row.seen.lower().into(),
    ),
    column(
        "passed_chains",
        "Passed",
        Unit::Count,
        InTable::Never,
        "Chains that passed the expected threshold without a compaction.",
        |row| row.seen.passed.into(),
    ),
    column(
        "about_tokens",
        "About",
        Unit::Tokens,
        InTable::Never,
        "Where the threshold was instead, if lower.",
        |row| row.seen.about().into(),
    ),
    column(
        "about_share",
        "Share",
        Unit::Share,
        InTable::Never,
        "That as a share of the effective window: what a percentage override would have been.",
        |row| row.seen.about_share().into(),
    ),
];

/// What the screen shows of them.
pub const THRESHOLDS_ON_SCREEN: &[Column<ThresholdRow>] = &[
    column("versions", "Versions", Unit::Text, InTable::Always, "", |row| {
        row.versions().into()
    }),
    column("model", "Model", Unit::Text, InTable::Always, "", |row| {
        text(&row.group.family)
    }),
    column("window", "Window", Unit::Tokens, InTable::Always, "", |row| {
        row.group.window.into()
    }),
    column("expected", "Expected", Unit::Count, InTable::Always, "", |row| {
        row.seen.expected.into()
    }),
    column("auto", "Auto", Unit::Count, InTable::Always, "", |row| {
        row.seen.fired.len().into()
    }),
    column("lowest", "Lowest", Unit::Count, InTable::Always, "", |row| {
        row.seen.lowest().into()
    }),
    column("unfired", "Not at", Unit::Count, InTable::Always, "", |row| {
        row.seen.unfired.into()
    }),
    column("verdict", "Verdict", Unit::Verdict, InTable::Always, "", |row| {
        row.seen.verdict().name().into()
    }),
    column("median", "Median", Unit::Count, InTable::Always, "", |row| {
        row.seen.median().into()
    }),
    column("highest", "Highest", Unit::Count, InTable::Always, "", |row| {
        row.seen.highest().into()
    }),
];

/// Columns of sessions that a setting was held against.
pub const CHECKED: &[Column<(String, Checked)>] = &[
    column("session", "Session", Unit::Text, InTable::Never, "Session id.", |row| {
        row.0.as_str().into()
    }),
    column(
        "effect",
        "Effect",
        Unit::Text,
        InTable::Never,
        "`took effect`, `did not take effect`, `took effect in part`, `compacted lower still`, `makes no difference` (an override can only lower the threshold), `not reached`, `window unknown`, or `undecided` (the context jumped over both thresholds at once).",
        |row| row.1.effect.name().into(),
    ),
    column(
        "threshold_tokens",
        "Threshold",
        Unit::Tokens,
        InTable::Never,
        "Threshold with the setting, at the last call; empty if it switches automatic compaction off.",
        |row| row.1.threshold.into(),
    ),
    column(
        "usual_tokens",
        "Usual",
        Unit::Tokens,
        InTable::Never,
        "Threshold without it.",
        |row| row.1.usual.into(),
    ),
    column(
        "window_tokens",
        "Window",
        Unit::Tokens,
        InTable::Never,
        "Window of the model, inferred; empty if nothing tells: then both thresholds are those of the smallest.",
        |row| row.1.window.into(),
    ),
    column(
        "highest_unfired",
        "No at",
        Unit::Tokens,
        InTable::Never,
        "Highest context that did not compact.",
        |row| row.1.unfired.into(),
    ),
    column(
        "lowest_fired",
        "Yes at",
        Unit::Tokens,
        InTable::Never,
        "Lowest recorded tokens before an automatic compaction.",
        |row| row.1.fired.into(),
    ),
];
