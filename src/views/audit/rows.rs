//! Rows of `backcast audit` and their columns.

use crate::usage::period::day_of;
use crate::views::{name_version, short_id};
use jiff::tz::TimeZone;
use replay::audit::boundaries::{AuditBoundary, BoundaryKind, BoundaryRemark};
use replay::audit::thresholds::{SettingCheck, ThresholdEvidence, ThresholdGroup};
use replay::sim::trace::BoundaryTrigger;
use std::collections::BTreeMap;
use table::columns;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time, TitleSource};
use transcript::thread::Session;

/// The findings of one session.
#[derive(Default)]
pub struct SessionAudit {
    pub rows: Vec<AuditRow>,
    pub groups: BTreeMap<ThresholdGroup, ThresholdEvidence>,
    /// The checks of the user's setting.
    pub checked_settings: Vec<CheckedSession>,
    /// What a resume would miss.
    pub missed_titles: Vec<MissedTitle>,
}

/// A title or tag that stands too far from the end of its log to be found when the session is resumed.
pub struct MissedTitle {
    pub session: String,
    pub source: TitleSource,
}

impl MissedTitle {
    /// Returns what is missed, as the document names it.
    pub fn what(&self) -> &'static str {
        match self.source {
            TitleSource::Tag => "tag",
            TitleSource::Model => "model_title",
            _ => "title",
        }
    }
}

/// The check of the user's setting in one session.
pub struct CheckedSession {
    pub session: String,
    /// Time of the first call; `None` if it has none.
    pub started: Option<Time>,
    pub check: SettingCheck,
}

impl SessionAudit {
    pub fn add_evidence(&mut self, group: ThresholdGroup, evidence: ThresholdEvidence) {
        match self.groups.get_mut(&group) {
            Some(known) => known.merge(evidence),
            None => {
                self.groups.insert(group, evidence);
            }
        }
    }
}

/// A recorded boundary and its place in the logs.
#[derive(Clone)]
pub struct AuditRow {
    session: String,
    coding_agent: Agent,
    project: String,
    agent: String,
    path: String,
    line: u32,
    /// Day of the boundary, for people.
    day: Option<String>,
    pub boundary: AuditBoundary,
}

impl AuditRow {
    pub fn new(session: &Session<'_>, agent: &str, boundary: AuditBoundary) -> AuditRow {
        let record = session.record(boundary.node);
        let log = session.log(boundary.node);
        AuditRow {
            session: session.id.to_owned(),
            coding_agent: session.coding_agent(),
            project: log.string(log.scope_of(record).cwd).to_owned(),
            agent: agent.to_owned(),
            path: session.part(boundary.node).path.clone(),
            line: record.line,
            day: None,
            boundary,
        }
    }

    /// Returns the row with its day in a time zone.
    pub fn with_day(self, zone: &TimeZone) -> AuditRow {
        let time = Some(self.boundary.time).filter(|time| *time != NO_TIME);
        AuditRow {
            day: time.map(|time| day_of(time, zone)),
            ..self
        }
    }

    fn trigger(&self) -> &'static str {
        match self.boundary.trigger {
            BoundaryTrigger::Auto => "auto",
            BoundaryTrigger::Manual => "manual",
            BoundaryTrigger::Unknown => "unknown",
        }
    }

    /// Returns the names of the gravest remarks, at most `limit`; `None` if there is no remark.
    fn remarks(&self, limit: usize) -> Option<String> {
        let remarks = self.boundary.remarks().into_iter().take(limit);
        let names = remarks.map(BoundaryRemark::name).collect::<Vec<_>>();
        (!names.is_empty()).then(|| names.join(", "))
    }
}

/// Returns `None` for empty text.
fn non_empty(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

columns! {
    /// Boundaries, in machine-readable formats.
    pub BOUNDARY_COLUMNS: AuditRow;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "agent" "Agent" Text Never "Sub-agent id; empty for the main agent." |r| non_empty(&r.agent);
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "project" "Project" Text Never "Working directory." |r| non_empty(&r.project);
    "time" "Time" Time Never "When it was written." |r| (r.boundary.time != NO_TIME).then_some(r.boundary.time);
    "version" "Version" Text Never "Version of the client." |r| r.boundary.version.to_string();
    "model" "Model" Text Never "Model of the call before it." |r| non_empty(&r.boundary.model);
    "trigger" "Trigger" Text Never "`auto`, `manual`, or `unknown` (a summary of an old client that wrote no boundary)." |r| r.trigger();
    "kind" "Kind" Text Never "`full`; `partial` if records were kept; `micro` if it only cleared results." |r| r.boundary.kind.name();
    "recorded_tokens" "Recorded" Tokens Never
        "Tokens before, as recorded; of a micro-compaction, those of all results that could go." |r| r.boundary.pre_tokens;
    "recorded_after_tokens" "Recorded after" Tokens Never
        "Tokens after, as recorded: without system prompt and tools." |r| r.boundary.post_tokens;
    "window_before" "Before" Tokens Never "Window on the wire before: what the last call sent and was answered." |r| r.boundary.before;
    "window_after" "After" Tokens Never "Window on the wire after: what the first call sent." |r| r.boundary.after;
    "freed_tokens" "Freed" Tokens Never "The difference of the two." |r| r.boundary.freed();
    "net_negative" "Grew" Flag Never "Whether the window was larger after than before." |r| r.boundary.has_grown();
    "rebuilt_tokens" "Rebuilt" Tokens Never
        "Window after, beyond system prompt and tools of the session's first call; empty if these are not known." |r| r.boundary.rebuilt;
    "summary_tokens" "Summary" Tokens Never "Tokens of the summary." |r| r.boundary.summary;
    "calls_since" "Calls" Count Never "Calls since the compaction before, or since the start." |r| r.boundary.calls_since;
    "turns_since" "Turns" Count Never "Turns that began since then." |r| r.boundary.turns_since;
    "recompaction" "Again" Flag Never "Whether the chain was compacted before." |r| r.boundary.is_recompaction;
    "took_ms" "Took" Millis Never "How long it took." |r| r.boundary.duration.map(|(took, _)| took);
    "took_from" "Timed by" Text Never
        "`recorded` by the boundary; `clock`: from the last record before it, or from the command that asked for it." |r| r.boundary.duration.map(|(_, from)| from.name());
    "window_tokens" "Window" Tokens Never "Window of the model, inferred; empty if it is unknown." |r| r.boundary.window.tokens;
    "window_grounds" "Grounds" Text Never
        "What it is inferred from: `given`, `stated`, `boundary`, `usage`, `text`, `sessions` of the same project, `table`, `unknown`." |r| r.boundary.window.grounds.name();
    "window_confidence" "Confidence" Text Never "How far it can be trusted: `certain`, `likely`, `weak`, `none`." |r| r.boundary.window.confidence.name();
    "threshold_tokens" "Threshold" Tokens Never
        "Where the policy puts automatic compaction for that version and window; for the smallest window if the window is unknown." |r| r.boundary.threshold;
    "over_tokens" "Over" Tokens Never "Recorded tokens before minus that threshold." |r| r.boundary.tokens_over_threshold();
    "cleared_results" "Cleared" Count Never "Results that a micro-compaction cleared." |r| r.boundary.cleared;
    "saved_tokens" "Saved" Tokens Never "Tokens that it saved, as recorded." |r| r.boundary.saved;
    "leaf_known" "Leaf" Flag Never
        "Whether the message that it followed is in the log; if not, the window before may have been larger." |r| r.boundary.has_leaf;
    "remarks" "Remarks" Text Never
        "`grew`; `lower` than the threshold; `high`: 10,000 or more above it; `little`: less than half came free; `again` after fewer than 10 calls; `slow`: over two minutes." |r| r.remarks(usize::MAX);
    "path" "Path" Text Never "Log." |r| &r.path;
    "line" "Line" Count Never "Line of the log, from 1." |r| r.line;
    "call" "Call" Count Never "Number of the call before which it stands, from 0." |r| r.boundary.call;
}

/// Remarks per row of the table.
pub const REMARKS_IN_TABLE: usize = 2;

columns! {
    /// Boundaries in the table, with exact counts where the thousands matter.
    pub BOUNDARY_TABLE: AuditRow;
    "session" "Session" Text Always "" |r| short_id(&r.session);
    "day" "When" Drawing Always "" |r| r.day.as_deref();
    "version" "Version" Drawing IfRoom "" |r| name_version(r.coding_agent, &r.boundary.version.to_string());
    "trigger" "What" Text Always "" |r| if r.boundary.kind == BoundaryKind::Micro { "micro" } else { r.trigger() };
    "recorded" "Before" Count Always "" |r| r.boundary.pre_tokens;
    "after" "After" Tokens Always "" |r| r.boundary.after;
    "freed" "Freed" Tokens Always "" |r| r.boundary.freed();
    "calls" "Calls" Count IfRoom "" |r| r.boundary.calls_since;
    "took" "Took" Millis Always "" |r| r.boundary.duration.map(|(took, _)| took);
    "remarks" "Remarks" Verdict Always "" |r| r.remarks(REMARKS_IN_TABLE);
    "place" "Place" Text Always "" |r| format!("{}:{}", r.path, r.line);
}

/// The threshold of one version range, model and window.
#[derive(Clone)]
pub struct ThresholdRow {
    pub group: ThresholdGroup,
    pub evidence: ThresholdEvidence,
}

impl ThresholdRow {
    /// Returns the range of client versions in short form. Agents other than Claude Code are named.
    pub fn versions(&self) -> String {
        let versions = match self.evidence.versions {
            (first, last) if first == last => first.to_string(),
            (first, last) if first.0[..2] == last.0[..2] => format!("{first}-{}", last.0[2]),
            (first, last) => format!("{first}-{last}"),
        };
        name_version(self.group.client, &versions)
    }
}

columns! {
    /// Thresholds, in machine-readable formats.
    pub THRESHOLD_COLUMNS: ThresholdRow;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.group.client.name();
    "version_first" "First" Text Never "First version of the client seen." |r| r.evidence.versions.0.to_string();
    "version_last" "Last" Text Never "Last version seen." |r| r.evidence.versions.1.to_string();
    "model" "Model" Text Never "Model, without vendor and date." |r| non_empty(&r.group.family);
    "window_tokens" "Window" Tokens Never "Its window; empty if nothing tells." |r| r.group.window;
    "expected_tokens" "Expected" Tokens Never "Threshold by the policy; for the smallest window if the window is unknown." |r| r.evidence.expected;
    "chains" "Chains" Count Never "Chains (main agents and sub-agents)." |r| r.evidence.chains;
    "checks" "Checks" Count Never "Calls that were sent without a compaction before them, with a known context." |r| r.evidence.checks;
    "highest_unfired" "No at" Tokens Never "Highest context among these: the threshold is above it." |r| r.evidence.highest_unfired;
    "automatic" "Auto" Count Never "Automatic compactions." |r| r.evidence.fired_tokens.len();
    "lowest_fired" "Yes at" Tokens Never "Lowest recorded tokens before one: the threshold is at most this." |r| r.evidence.lowest();
    "median_fired" "Median" Tokens Never "Median of them." |r| r.evidence.median();
    "highest_fired" "Highest" Tokens Never "Highest of them." |r| r.evidence.highest();
    "verdict" "Verdict" Text Never
        "`as expected`; `lower`: an override or a smaller window was in force; `higher`: a larger window, or automatic compaction off; `no evidence`: not reached." |r| r.evidence.verdict().name();
    "lower" "Lower" Count Never "Automatic compactions below the expected threshold." |r| r.evidence.count_lower();
    "passed_chains" "Passed" Count Never
        "Chains that passed the expected threshold without a compaction." |r| r.evidence.chains_over_threshold;
    "about_tokens" "About" Tokens Never "Where the threshold was instead, if lower." |r| r.evidence.estimated_threshold();
    "about_share" "Share" Share Never
        "That as a share of the effective window: what a percentage override would have been." |r| r.evidence.estimated_share();
}

columns! {
    /// Thresholds in the table.
    pub THRESHOLD_TABLE: ThresholdRow;
    "versions" "Versions" Text Always "" |r| r.versions();
    "model" "Model" Text Always "" |r| non_empty(&r.group.family);
    "window" "Window" Tokens Always "" |r| r.group.window;
    "expected" "Expected" Count Always "" |r| r.evidence.expected;
    "auto" "Auto" Count Always "" |r| r.evidence.fired_tokens.len();
    "lowest" "Lowest" Count Always "" |r| r.evidence.lowest();
    "unfired" "Not at" Count Always "" |r| r.evidence.highest_unfired;
    "verdict" "Verdict" Verdict Always "" |r| r.evidence.verdict().name();
    "median" "Median" Count Always "" |r| r.evidence.median();
    "highest" "Highest" Count Always "" |r| r.evidence.highest();
}

columns! {
    /// Sessions with the effect of the user's setting.
    pub SETTING_COLUMNS: CheckedSession;
    "session" "Session" Text Never "Session id." |r| &r.session;
    "effect" "Effect" Text Never
        "`took effect`, `did not take effect`, `took effect in part`, `compacted lower still`, `makes no difference` (an override can only lower the threshold), `not reached`, `window unknown`, or `undecided` (the context jumped over both thresholds at once)." |r| r.check.effect.name();
    "threshold_tokens" "Threshold" Tokens Never
        "Threshold with the setting, at the last call; empty if it switches automatic compaction off." |r| r.check.threshold;
    "usual_tokens" "Usual" Tokens Never "Threshold without it." |r| r.check.usual;
    "window_tokens" "Window" Tokens Never
        "Window of the model, inferred; empty if nothing tells: then both thresholds are those of the smallest." |r| r.check.window;
    "highest_unfired" "No at" Tokens Never "Highest context that did not compact." |r| r.check.highest_unfired;
    "first_time" "From" Time Never "First call: a setting is judged by sessions that started after it was set." |r| r.started;
    "lowest_fired" "Yes at" Tokens Never "Lowest recorded tokens before an automatic compaction." |r| r.check.lowest_fired;
}
