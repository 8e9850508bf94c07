//! Rows of `backcast validate` and their columns.

use crate::views::short_id;
use replay::audit::validate::{CaseVerdict, Mechanism, UndecidableReason, ValidationCase};
use replay::windows::known_level;
use serde_json::{Value as Json, json};
use table::columns;
use table::findings::TestOutcome;
use table::human::{format_count, group_digits};
use transcript::agents::Agent;
use transcript::log::NO_TIME;

/// A recorded or predicted compaction and its place in the logs.
#[derive(Clone)]
pub struct CaseRow {
    pub session: String,
    pub coding_agent: Agent,
    pub agent: String,
    pub model: String,
    pub uuid: String,
    pub path: String,
    pub line: u32,
    pub case: ValidationCase,
}

impl CaseRow {
    /// Returns whether the prediction is right to within some calls. A case that cannot be judged is skipped.
    pub fn test_outcome(&self, within: u64) -> TestOutcome {
        let case = &self.case;
        let tokens = |tokens: Option<u64>| tokens.map_or("nothing".to_owned(), group_digits);
        let numbers = format!(
            "{} tokens recorded, {} predicted",
            tokens(case.recorded),
            tokens(case.predicted)
        );
        match case.verdict {
            CaseVerdict::Exact | CaseVerdict::WithinMargin => TestOutcome::Passed,
            CaseVerdict::Early | CaseVerdict::Late if case.distance.unsigned_abs() <= within => TestOutcome::Passed,
            CaseVerdict::Early | CaseVerdict::Late => TestOutcome::Failed(format!(
                "{} by {}: {numbers}",
                case.verdict.name(),
                format_count(case.distance.unsigned_abs(), "call")
            )),
            CaseVerdict::Missed | CaseVerdict::Spurious => {
                TestOutcome::Failed(format!("{}: {numbers}", case.verdict.name()))
            }
            CaseVerdict::Undecidable | CaseVerdict::Unrecorded => TestOutcome::Skipped(
                case.reason
                    .map_or(case.verdict.name(), UndecidableReason::about)
                    .to_owned(),
            ),
        }
    }

    /// Returns the calls from the boundary to the prediction; `None` unless there are both.
    fn distance(&self) -> Option<i64> {
        let has_both = matches!(
            self.case.verdict,
            CaseVerdict::Exact | CaseVerdict::WithinMargin | CaseVerdict::Early | CaseVerdict::Late
        );
        has_both.then_some(self.case.distance)
    }

    /// Returns the row with a short session id, for the table.
    pub fn with_short_session(&self) -> CaseRow {
        CaseRow {
            session: short_id(&self.session),
            ..self.clone()
        }
    }
}

columns! {
    pub CASE_COLUMNS: CaseRow;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "agent" "Agent" Text Never "Sub-agent; empty for the main agent." |r| &r.agent;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "mechanism" "What" Text Always "`auto`, `micro`, `images` or `manual`." |r| r.case.mechanism.name();
    "verdict" "Verdict" Verdict Always "How the prediction came out." |r| r.case.verdict.name();
    "reason" "Reason" Text Always "Why it cannot be judged." |r| r.case.reason.map(UndecidableReason::name);
    "version" "Version" Text Always "Version of the client." |r| r.case.version.to_string();
    "model" "Model" Text Never "Model." |r| &r.model;
    "call" "Call" Count Never "Number of the call before which it stands, from 0." |r| r.case.call;
    "distance" "Off by" Count Never
        "Calls from the boundary to the prediction; negative if it came early; empty if there was none." |r| r.distance();
    "recorded_tokens" "Recorded" Tokens Always
        "Tokens before, as the client wrote them down; of a micro-compaction the results that could go." |r| r.case.recorded;
    "predicted_tokens" "Predicted" Tokens Always "The same, predicted." |r| r.case.predicted;
    "error_tokens" "Error" Count IfRoom "Predicted minus recorded." |r| r.case.error();
    "threshold" "Threshold" Tokens Never "Threshold in force." |r| known_level(r.case.threshold).filter(|_| r.case.mechanism != Mechanism::Micro);
    "window" "Window" Tokens Never "Context window." |r| r.case.window.tokens;
    "window_grounds" "Grounds" Text Never
        "What the window is inferred from: `given`, `stated`, `boundary`, `usage`, `text`, `sessions` of the same project, `table`, `unknown`." |r| r.case.window.grounds.name();
    "window_confidence" "Confidence" Text Never "How far it can be trusted: `certain`, `likely`, `weak`, `none`." |r| r.case.window.confidence.name();
    "cleared_recorded" "Cleared" Count Never
        "Results that were cleared, as recorded." |r| (r.case.mechanism == Mechanism::Micro && r.case.is_recorded).then_some(r.case.cleared.0.len());
    "cleared_predicted" "Cleared" Count Never
        "The same, predicted." |r| (r.case.mechanism == Mechanism::Micro).then_some(r.case.cleared.1.len());
    "time" "Time" Time Never "When it was written." |r| (r.case.time != NO_TIME).then_some(r.case.time);
    "uuid" "Id" Text Never "Id of the record." |r| &r.uuid;
    "path" "Path" Text Never "Log." |r| &r.path;
    "line" "Line" Count Never "Line of the log." |r| r.line;
}

/// Cases that cannot be judged, for one reason.
pub struct ReasonRow {
    pub mechanism: &'static str,
    pub reason: &'static str,
    pub about: &'static str,
    pub count: u64,
}

columns! {
    pub REASON_TABLE: ReasonRow;
    "about" "Why" Text Always "The reason." |r| r.about;
    "count" "Cases" Count Always "How many." |r| r.count;
    "mechanism" "What" Text Always "`auto`, `micro` or `images`." |r| r.mechanism;
    "reason" "Reason" Text Always "Its name in other formats." |r| r.reason;
}

#[derive(Debug, Clone, Copy, Default)]
pub struct VerdictCounts {
    pub recorded: u64,
    pub decidable: u64,
    pub exact: u64,
    /// At the very call, by a count that the log determines only within a margin.
    pub within_margin: u64,
    pub early: u64,
    pub late: u64,
    pub missed: u64,
    pub spurious: u64,
    pub unrecorded: u64,
    pub within: u64,
}

impl VerdictCounts {
    pub fn add(&mut self, case: &ValidationCase, within: u64) {
        let is_decidable =
            case.is_recorded && !matches!(case.verdict, CaseVerdict::Undecidable | CaseVerdict::WithinMargin);
        self.recorded += u64::from(case.is_recorded);
        self.decidable += u64::from(is_decidable);
        let is_near = matches!(
            case.verdict,
            CaseVerdict::Exact | CaseVerdict::WithinMargin | CaseVerdict::Early | CaseVerdict::Late
        ) && case.distance.unsigned_abs() <= within;
        self.within += u64::from(is_near);
        match case.verdict {
            CaseVerdict::Exact => self.exact += 1,
            CaseVerdict::WithinMargin => self.within_margin += 1,
            CaseVerdict::Early => self.early += 1,
            CaseVerdict::Late => self.late += 1,
            CaseVerdict::Missed => self.missed += 1,
            CaseVerdict::Spurious => self.spurious += 1,
            CaseVerdict::Unrecorded => self.unrecorded += 1,
            CaseVerdict::Undecidable => {}
        }
    }

    fn merge(&mut self, other: &VerdictCounts) {
        self.recorded += other.recorded;
        self.decidable += other.decidable;
        self.exact += other.exact;
        self.early += other.early;
        self.late += other.late;
        self.missed += other.missed;
        self.spurious += other.spurious;
        self.unrecorded += other.unrecorded;
        self.within += other.within;
    }

    pub fn auto_json(&self) -> Json {
        json!({
            "recorded": self.recorded,
            "decidable": self.decidable,
            "exact": self.exact,
            "within_margin": self.within_margin,
            "within": self.within,
            "early": self.early,
            "late": self.late,
            "missed": self.missed,
            "spurious": self.spurious,
        })
    }

    pub fn micro_json(&self) -> Json {
        json!({
            "recorded": self.recorded,
            "decidable": self.decidable,
            "exact_ids": self.exact,
            "missed": self.missed,
            "spurious": self.spurious,
            "unrecorded": self.unrecorded,
        })
    }
}

/// Verdicts on the predictions for a client version, or for a range of versions.
#[derive(Clone, Default)]
pub struct VersionRow {
    pub version: String,
    pub coding_agent: Agent,
    pub calls: u64,
    pub auto: VerdictCounts,
    pub micro: VerdictCounts,
    /// Whether too few boundaries support the rules of these versions.
    pub is_unsettled: bool,
}

impl VersionRow {
    /// Adds the counts of other versions.
    pub fn merge(&mut self, other: &VersionRow) {
        self.calls += other.calls;
        self.auto.merge(&other.auto);
        self.micro.merge(&other.micro);
    }
}

columns! {
    pub VERSION_TABLE: VersionRow;
    "version" "Versions" Text Always "Versions of the client." |r| &r.version;
    "calls" "Calls" Count Always "Calls with usage." |r| r.calls;
    "recorded" "Recorded" Count Always "Automatic compactions." |r| r.auto.recorded;
    "decidable" "Decidable" Count Always "Those that can be judged." |r| r.auto.decidable;
    "exact" "Exact" Count Always "Predicted at the very call." |r| r.auto.exact;
    "early" "Early" Count IfRoom "Predicted at an earlier one." |r| r.auto.early;
    "late" "Late" Count IfRoom "Would have come a few calls later." |r| r.auto.late;
    "missed" "Missed" Count Always "Not predicted." |r| r.auto.missed;
    "spurious" "Spurious" Count Always "Predicted where none was recorded." |r| r.auto.spurious;
    "micro_exact" "Micro" Count IfRoom "Micro-compactions with the very list of results." |r| r.micro.exact;
}
