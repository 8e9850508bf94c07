//! `backcast validate`: predicted against recorded boundaries.

use crate::cli::ValidateArgs;
use crate::cli::check::CheckFormat;
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::{problem_counts, report_problems};
use crate::commands::writing::{load_prices, write_output};
use crate::run::{LogNeeds, SessionView, with_logs};
use anyhow::{Result, bail};
use replay::audit::explain::explain;
use replay::audit::first_edits::{FirstEdits, first_edits};
use replay::audit::validate::{CaseVerdict, CostComparison, Mechanism, UndecidableReason, ValidationCase, validate};
use replay::policy::presets::{ClientVersion, PolicySet};
use replay::prices::{PriceTable, micro_usd};
use replay::quantile::quantile;
use replay::sim::inference::{WindowGrounds, infer_windows};
use replay::sim::policies_and_prices;
use replay::sim::trace::uuid;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::findings;
use table::findings::{CheckFinding, Severity, TestOutcome, format_annotations, format_junit};
use table::words::{format_count, format_count_with_plural, format_dollars, format_percent, group_digits};
use table::{Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility, column};
use transcript::problem::{Problem, ProblemKind};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Runs it.
pub fn run(args: &ValidateArgs) -> Result<RunStatus> {
    if args.explain.is_some() && args.out.format != CheckFormat::Table {
        bail!("--explain prints a text for people, and --format is about the table\n  hint: leave one of them out");
    }
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let needs = LogNeeds {
        line_hashes: args.working_set,
        ..LogNeeds::default()
    };
    let (sessions, problems) = with_logs(&args.input, needs, |source| {
        let run = source.read();
        let bar = source.session_bar(&run);
        let (sessions, defects) = run.map_sessions(|view| {
            bar.inc(1);
            SessionValidation::new(view, &policies, &prices, args.explain.as_deref(), args.working_set)
        });
        let mut problems = run.problems;
        problems.extend(defects);
        problems.extend(source.problems());
        (sessions, problems)
    })?;
    let mut problems = problems;
    problems.extend(sessions.iter().flat_map(|session| session.problems.iter().cloned()));
    problems.sort();
    if let Some(wanted) = &args.explain {
        explain_session(args, &sessions, wanted)?;
        return Ok(report_problems(&args.input, &problems));
    }
    let report = ValidationReport::new(&sessions, &policies, &problems, args.within);
    write_output(&args.out, |out, look| report.write(args.out.format, look, out))?;
    Ok(report_problems(&args.input, &problems))
}

fn explain_session(args: &ValidateArgs, sessions: &[SessionValidation], wanted: &str) -> Result<()> {
    let found = sessions
        .iter()
        .filter(|session| session.id.starts_with(wanted))
        .collect::<Vec<_>>();
    match found.as_slice() {
        [] => bail!(
            "no session starts with `{wanted}`\n  hint: `backcast stats -f csv` with the same paths lists the ids of all sessions"
        ),
        [session] => write_output(&args.out, |out, _| out.write_all(session.explanation.as_bytes())),
        several => {
            let ids = several.iter().map(|session| session.id.as_str()).collect::<Vec<_>>();
            bail!("several sessions start with `{wanted}`: {}", ids.join(", "))
        }
    }
}

/// What was found in one session.
struct SessionValidation {
    id: String,
    calls: Vec<(ClientVersion, u64)>,
    grounds: BTreeMap<WindowGrounds, u64>,
    rows: Vec<CaseRow>,
    costs: CostComparison,
    segments: Vec<f64>,
    first_edits: Option<FirstEdits>,
    explanation: String,
    problems: Vec<Problem>,
}

impl SessionValidation {
    fn new(
        view: &SessionView<'_>,
        policies: &PolicySet,
        prices: &PriceTable,
        wanted: Option<&str>,
        with_uses: bool,
    ) -> SessionValidation {
        let (id, session) = (view.id(), view.session());
        let mut validated = SessionValidation {
            id: id.to_owned(),
            calls: Vec::new(),
            grounds: BTreeMap::new(),
            rows: Vec::new(),
            costs: CostComparison::default(),
            segments: Vec::new(),
            first_edits: None,
            explanation: String::new(),
            problems: view.threaded().problems.clone(),
        };
        for (number, trace) in view.traces().enumerate() {
            let (by_version, by_model) = policies_and_prices(policies, prices, trace);
            let windows = infer_windows(trace, &by_version, &by_model);
            let found = validate(trace, &by_version, &by_model, &windows);
            for (call, window) in std::iter::zip(&trace.calls, &windows) {
                if call.usage.is_some() && !call.is_copied {
                    *validated.grounds.entry(window.grounds).or_insert(0) += 1;
                }
            }
            if with_uses {
                let edits = first_edits(trace, view.uses(number));
                validated.first_edits.get_or_insert_default().merge(&edits);
            }
            if wanted.is_some_and(|wanted| id.starts_with(wanted)) {
                let told = explain(session, trace, &by_version, &found.cases);
                validated.explanation.push_str(&told);
            }
            if found.has_defect {
                let path = &session.part(trace.calls[0].node).path;
                validated.problems.push(Problem::file(
                    path,
                    ProblemKind::Internal,
                    format!("replay of session {id}"),
                ));
            }
            validated.calls.extend(found.calls);
            validated.costs.merge(&found.costs);
            validated.segments.extend(found.segments);
            let rows = found.cases.into_iter().map(|case| CaseRow {
                session: id.to_owned(),
                agent: trace.agent.clone(),
                model: trace.models[usize::from(case.model)].clone(),
                uuid: uuid(session, case.node),
                path: session.part(case.node).path.clone(),
                line: session.record(case.node).line,
                case,
            });
            validated.rows.extend(rows);
        }
        validated
    }
}

/// A case, and where it is.
#[derive(Clone)]
pub(super) struct CaseRow {
    session: String,
    agent: String,
    model: String,
    uuid: String,
    path: String,
    line: u32,
    case: ValidationCase,
}

impl CaseRow {
    /// Whether the prediction is right, give or take some calls; what cannot be judged is no fault.
    fn test_outcome(&self, within: u64) -> TestOutcome {
        let case = &self.case;
        let told = |tokens: Option<u64>| tokens.map_or("nothing".to_owned(), group_digits);
        let numbers = format!(
            "{} tokens recorded, {} predicted",
            told(case.recorded),
            told(case.predicted)
        );
        match case.verdict {
            CaseVerdict::Exact => TestOutcome::Passed,
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

    /// The row with the beginning of the session's id.
    fn with_short_session(&self) -> CaseRow {
        CaseRow {
            session: self.session.chars().take(8).collect(),
            ..self.clone()
        }
    }
}

pub(super) const CASE_COLUMNS: &[Column<CaseRow>] = &[
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
        "Sub-agent; empty for the main agent.",
        |row| row.agent.as_str().into(),
    ),
    column(
        "mechanism",
        "What",
        ColumnUnit::Text,
        TableVisibility::Always,
        "`auto`, `micro` or `manual`.",
        |row| row.case.mechanism.name().into(),
    ),
    column(
        "verdict",
        "Verdict",
        ColumnUnit::Verdict,
        TableVisibility::Always,
        "How the prediction came out.",
        |row| row.case.verdict.name().into(),
    ),
    column(
        "reason",
        "Reason",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Why it cannot be judged.",
        |row| row.case.reason.map(UndecidableReason::name).into(),
    ),
    column(
        "version",
        "Version",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Version of the client.",
        |row| row.case.version.to_string().into(),
    ),
    column(
        "model",
        "Model",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Model.",
        |row| row.model.as_str().into(),
    ),
    column(
        "call",
        "Call",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Number of the call before which it stands, from 0.",
        |row| row.case.call.into(),
    ),
    column(
        "distance",
        "Off by",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls from the boundary to the prediction; negative if it came early; empty if there was none.",
        |row| match row.case.verdict {
            CaseVerdict::Exact | CaseVerdict::Early | CaseVerdict::Late => Some(row.case.distance).into(),
            _ => None::<i64>.into(),
        },
    ),
    column(
        "recorded_tokens",
        "Recorded",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Tokens before, as the client wrote them down; of a micro-compaction the results that could go.",
        |row| row.case.recorded.into(),
    ),
    column(
        "predicted_tokens",
        "Predicted",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "The same, predicted.",
        |row| row.case.predicted.into(),
    ),
    column(
        "error_tokens",
        "Error",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Predicted minus recorded.",
        |row| row.case.error().into(),
    ),
    column(
        "threshold",
        "Threshold",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Threshold in force.",
        |row| {
            (row.case.mechanism != Mechanism::Micro)
                .then_some(row.case.threshold)
                .into()
        },
    ),
    column(
        "window",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Context window.",
        |row| row.case.window.tokens.into(),
    ),
    column(
        "window_grounds",
        "Grounds",
        ColumnUnit::Text,
        TableVisibility::Never,
        "What the window was inferred from: `given`, `version`, `boundary`, `usage`, `silent` (any size comes to the same), `assumed`.",
        |row| row.case.window.grounds.name().into(),
    ),
    column(
        "cleared_recorded",
        "Cleared",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Results that were cleared, as recorded.",
        |row| {
            (row.case.mechanism == Mechanism::Micro && row.case.is_recorded)
                .then_some(row.case.cleared.0.len())
                .into()
        },
    ),
    column(
        "cleared_predicted",
        "Cleared",
        ColumnUnit::Count,
        TableVisibility::Never,
        "The same, predicted.",
        |row| {
            (row.case.mechanism == Mechanism::Micro)
                .then_some(row.case.cleared.1.len())
                .into()
        },
    ),
    column(
        "time",
        "Time",
        ColumnUnit::Time,
        TableVisibility::Never,
        "When it was written.",
        |row| {
            Some(row.case.time)
                .filter(|time| *time != transcript::log::NO_TIME)
                .into()
        },
    ),
    column(
        "uuid",
        "Id",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Id of the record.",
        |row| row.uuid.as_str().into(),
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
        "Line of the log.",
        |row| row.line.into(),
    ),
];

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, Default)]
struct VerdictCounts {
    recorded: u64,
    decidable: u64,
    exact: u64,
    early: u64,
    late: u64,
    missed: u64,
    spurious: u64,
    unrecorded: u64,
    within: u64,
}

impl VerdictCounts {
    fn add(&mut self, case: &ValidationCase, within: u64) {
        let is_decidable = case.is_recorded && case.verdict != CaseVerdict::Undecidable;
        self.recorded += u64::from(case.is_recorded);
        self.decidable += u64::from(is_decidable);
        let is_near = matches!(
            case.verdict,
            CaseVerdict::Exact | CaseVerdict::Early | CaseVerdict::Late
        ) && case.distance.unsigned_abs() <= within;
        self.within += u64::from(is_near);
        match case.verdict {
            CaseVerdict::Exact => self.exact += 1,
            CaseVerdict::Early => self.early += 1,
            CaseVerdict::Late => self.late += 1,
            CaseVerdict::Missed => self.missed += 1,
            CaseVerdict::Spurious => self.spurious += 1,
            CaseVerdict::Unrecorded => self.unrecorded += 1,
            CaseVerdict::Undecidable => {}
        }
    }

    fn auto_json(&self) -> Json {
        json!({
            "recorded": self.recorded,
            "decidable": self.decidable,
            "exact": self.exact,
            "within": self.within,
            "early": self.early,
            "late": self.late,
            "missed": self.missed,
            "spurious": self.spurious,
        })
    }

    fn micro_json(&self) -> Json {
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

/// Scores of one version of the client.
#[derive(Clone, Default)]
struct VersionRow {
    version: String,
    calls: u64,
    auto: VerdictCounts,
    micro: VerdictCounts,
}

const VERSION_COLUMNS: &[Column<VersionRow>] = &[
    column(
        "version",
        "Version",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Version of the client.",
        |row| row.version.as_str().into(),
    ),
    column(
        "calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Calls with usage.",
        |row| row.calls.into(),
    ),
    column(
        "recorded",
        "Recorded",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Automatic compactions.",
        |row| row.auto.recorded.into(),
    ),
    column(
        "decidable",
        "Decidable",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Those that can be judged.",
        |row| row.auto.decidable.into(),
    ),
    column(
        "exact",
        "Exact",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Predicted at the very call.",
        |row| row.auto.exact.into(),
    ),
    column(
        "early",
        "Early",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Predicted at an earlier one.",
        |row| row.auto.early.into(),
    ),
    column(
        "late",
        "Late",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Would have come a few calls later.",
        |row| row.auto.late.into(),
    ),
    column(
        "missed",
        "Missed",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Not predicted.",
        |row| row.auto.missed.into(),
    ),
    column(
        "spurious",
        "Spurious",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Predicted where none was recorded.",
        |row| row.auto.spurious.into(),
    ),
    column(
        "micro_exact",
        "Micro",
        ColumnUnit::Count,
        TableVisibility::IfRoom,
        "Micro-compactions with the very list of results.",
        |row| row.micro.exact.into(),
    ),
];

/// All of it, added up.
struct ValidationReport<'a> {
    sessions: &'a [SessionValidation],
    policies: &'a PolicySet,
    problems: &'a [Problem],
    within: u64,
    versions: Vec<VersionRow>,
    total: VersionRow,
    /// Absolute errors of tokens before, with the recorded size, ascending.
    errors: Vec<(u64, u64)>,
    segments: Vec<f64>,
    costs: CostComparison,
    cost_errors: Vec<f64>,
    first_edits: Option<FirstEdits>,
}

impl<'a> ValidationReport<'a> {
    fn new(
        sessions: &'a [SessionValidation],
        policies: &'a PolicySet,
        problems: &'a [Problem],
        within: u64,
    ) -> ValidationReport<'a> {
        let mut versions = BTreeMap::<ClientVersion, VersionRow>::new();
        let mut report = ValidationReport {
            sessions,
            policies,
            problems,
            within,
            versions: Vec::new(),
            total: VersionRow {
                version: "all".to_owned(),
                ..VersionRow::default()
            },
            errors: Vec::new(),
            segments: sessions
                .iter()
                .flat_map(|session| session.segments.iter().map(|error| error.abs()))
                .collect(),
            costs: CostComparison::default(),
            cost_errors: Vec::new(),
            first_edits: None,
        };
        for session in sessions {
            for (version, calls) in &session.calls {
                versions.entry(*version).or_default().calls += calls;
                report.total.calls += calls;
            }
            for row in &session.rows {
                let case = &row.case;
                let version = versions.entry(case.version).or_default();
                let scores = match case.mechanism {
                    Mechanism::Auto => [&mut version.auto, &mut report.total.auto],
                    Mechanism::Micro => [&mut version.micro, &mut report.total.micro],
                    Mechanism::Manual => continue,
                };
                for score in scores {
                    score.add(case, within);
                }
                let is_judged = case.mechanism == Mechanism::Auto && case.verdict != CaseVerdict::Undecidable;
                if let (true, Some(error), Some(recorded)) = (is_judged, case.error(), case.recorded) {
                    report.errors.push((error.unsigned_abs(), recorded));
                }
            }
            if let Some(edits) = &session.first_edits {
                report.first_edits.get_or_insert_default().merge(edits);
            }
            report.costs.merge(&session.costs);
            report
                .cost_errors
                .extend(relative_cost_error(&session.costs).map(f64::abs));
        }
        report.errors.sort_unstable();
        report.segments.sort_by(f64::total_cmp);
        report.cost_errors.sort_by(f64::total_cmp);
        report.versions = versions
            .into_iter()
            .map(|(version, row)| VersionRow {
                version: version.to_string(),
                ..row
            })
            .collect();
        report
    }

    fn write(&self, format: CheckFormat, look: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format.row_format() {
            Some(OutputFormat::Table) => self.write_text(look, out),
            Some(OutputFormat::Json) => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            Some(format) => sheet(CASE_COLUMNS, &self.all_rows(), None).write(format, look, out),
            None if format == CheckFormat::Github => out.write_all(self.annotations().as_bytes()),
            None => out.write_all(self.junit().as_bytes()),
        }
    }

    /// Automatic and micro-compactions: what was asked for needs no prediction.
    fn judged_cases(&self) -> impl Iterator<Item = (&CaseRow, TestOutcome)> {
        let rows = self.sessions.iter().flat_map(|session| &session.rows);
        let judged = rows.filter(|row| row.case.mechanism != Mechanism::Manual);
        judged.map(|row| (row, row.test_outcome(self.within)))
    }

    fn annotations(&self) -> String {
        let told = |(row, outcome): (&CaseRow, TestOutcome)| match outcome {
            TestOutcome::Failed(message) => Some(CheckFinding {
                level: Severity::Warning,
                title: format!("{} compaction {}", row.case.mechanism.name(), row.case.verdict.name()),
                message,
                location: Some((row.path.clone(), Some(u64::from(row.line)))),
            }),
            _ => None,
        };
        format_annotations(&self.judged_cases().filter_map(told).collect::<Vec<_>>())
    }

    fn junit(&self) -> String {
        let case = |(row, outcome): (&CaseRow, TestOutcome)| findings::TestCase {
            name: format!("{} {} line {}", row.session, row.case.mechanism.name(), row.line),
            outcome,
        };
        format_junit("backcast validate", &self.judged_cases().map(case).collect::<Vec<_>>())
    }

    fn document(&self) -> Json {
        let by_version = self.versions.iter().map(|row| {
            json!({"version": row.version, "calls": row.calls, "auto": row.auto.auto_json(), "micro": row.micro.micro_json()})
        });
        let cases = sheet(CASE_COLUMNS, &self.all_rows(), None).to_json();
        let relative_errors = self.relative_errors();
        let count = self.errors.len();
        let exact = self.errors.iter().filter(|(error, _)| *error == 0).count();
        json!({
            "schema_version": SCHEMA_VERSION,
            "policy": self.policies.name,
            "calls": self.total.calls,
            "calls_by_window_grounds": self.count_grounds(),
            "within": self.within,
            "auto": self.total.auto.auto_json(),
            "micro": self.total.micro.micro_json(),
            "pre_tokens_error": {
                "p50": quantile(&self.errors, 0.5).map(|(error, _)| error),
                "p95": quantile(&self.errors, 0.95).map(|(error, _)| error),
                "relative_p50": quantile(&relative_errors, 0.5),
                "relative_p95": quantile(&relative_errors, 0.95),
                "count": count,
                "exact": exact,
            },
            "cost_error": {
                "total": relative_cost_error(&self.costs),
                "p50": quantile(&self.cost_errors, 0.5),
                "p90": quantile(&self.cost_errors, 0.9),
                "sessions": self.cost_errors.len(),
                "recorded_micro_usd": micro_usd(self.costs.recorded),
                "simulated_micro_usd": micro_usd(self.costs.simulated),
                "unexplained_misses": self.costs.unexplained,
                "unexplained_micro_usd": micro_usd(self.costs.unexplained_cost),
            },
            "segments": {
                "count": self.segments.len(),
                "p50": quantile(&self.segments, 0.5),
                "p90": quantile(&self.segments, 0.9),
            },
            "working_set": self.first_edits.map(|edits| first_edits_json(&edits)),
            "by_version": by_version.collect::<Vec<_>>(),
            "cases": cases,
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(self.problems)},
        })
    }

    fn all_rows(&self) -> Vec<CaseRow> {
        self.sessions
            .iter()
            .flat_map(|session| session.rows.iter().cloned())
            .collect()
    }

    fn relative_errors(&self) -> Vec<f64> {
        let relative = |(error, recorded): &(u64, u64)| *error as f64 / (*recorded).max(1) as f64;
        let mut errors = self.errors.iter().map(relative).collect::<Vec<_>>();
        errors.sort_by(f64::total_cmp);
        errors
    }

    fn count_grounds(&self) -> BTreeMap<&'static str, u64> {
        let mut grounds = BTreeMap::new();
        for (ground, calls) in self.sessions.iter().flat_map(|session| &session.grounds) {
            *grounds.entry(ground.name()).or_insert(0) += calls;
        }
        grounds
    }

    fn write_text(&self, look: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let auto = &self.total.auto;
        writeln!(
            out,
            "Policy {}: {} of {} decidable automatic compactions at the very call,\n{} spurious in {}.\n",
            self.policies.name,
            group_digits(auto.exact),
            group_digits(auto.decidable),
            group_digits(auto.spurious),
            format_count(self.total.calls, "call")
        )?;
        let shown = self
            .versions
            .iter()
            .filter(|row| row.auto.recorded + row.auto.spurious + row.micro.recorded > 0);
        let shown = shown.cloned().collect::<Vec<_>>();
        if !shown.is_empty() {
            sheet(VERSION_COLUMNS, &shown, Some(&self.total)).write(OutputFormat::Table, look, out)?;
            writeln!(out, "Versions without compactions are left out.\n")?;
        }
        self.write_errors(out)?;
        let odd = self.sessions.iter().flat_map(|session| &session.rows).filter(|row| {
            row.case.mechanism != Mechanism::Manual
                && !matches!(row.case.verdict, CaseVerdict::Exact | CaseVerdict::Unrecorded)
        });
        let odd = odd.map(CaseRow::with_short_session).collect::<Vec<_>>();
        if !odd.is_empty() {
            writeln!(
                out,
                "\nNot exact, or not to be judged (--explain SESSION walks through one):\n"
            )?;
            sheet(CASE_COLUMNS, &odd, None).write(OutputFormat::Table, look, out)?;
            let mut reasons = odd.iter().filter_map(|row| row.case.reason).collect::<Vec<_>>();
            reasons.sort_unstable();
            reasons.dedup();
            for reason in reasons {
                writeln!(out, "{}: {}.", reason.name(), reason.about())?;
            }
        }
        Ok(())
    }

    fn write_errors(&self, out: &mut dyn Write) -> io::Result<()> {
        let share = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{:.2} %", 100.0 * value));
        let exact = self.errors.iter().filter(|(error, _)| *error == 0).count();
        if let (Some((p50, _)), Some((p95, _))) = (quantile(&self.errors, 0.5), quantile(&self.errors, 0.95)) {
            writeln!(
                out,
                "Tokens before: {} of {} to the token; off by {p50} in the median, {p95} at p95\n  ({} of the size).",
                exact,
                self.errors.len(),
                share(quantile(&self.relative_errors(), 0.95))
            )?;
        }
        let micro = &self.total.micro;
        if micro.recorded + micro.unrecorded > 0 {
            writeln!(
                out,
                "Micro-compactions: {} of {} decidable with the very list of results, {} spurious;\n  {} more happened without being written down.",
                micro.exact, micro.decidable, micro.spurious, micro.unrecorded
            )?;
        }
        if self.costs.recorded > 0 {
            writeln!(
                out,
                "Cost: {} recorded, {} simulated ({}); a session is off by\n  {} in the median, {} at p90. {} that nothing in the\n  logs explains cost {} ({} of the record).",
                format_dollars(Some(micro_usd(self.costs.recorded))),
                format_dollars(Some(micro_usd(self.costs.simulated))),
                share(relative_cost_error(&self.costs)),
                share(quantile(&self.cost_errors, 0.5)),
                share(quantile(&self.cost_errors, 0.9)),
                format_count_with_plural(self.costs.unexplained, "cache miss", "cache misses"),
                format_dollars(Some(micro_usd(self.costs.unexplained_cost))),
                format_percent(
                    micro_usd(self.costs.unexplained_cost) as u64,
                    micro_usd(self.costs.recorded) as u64
                )
            )?;
        }
        if !self.segments.is_empty() {
            writeln!(
                out,
                "Windows simulated from the first call of a segment to its end: off by {} in\n  the median, {} at p90, over {}.",
                share(quantile(&self.segments, 0.5)),
                share(quantile(&self.segments, 0.9)),
                format_count(self.segments.len() as u64, "segment")
            )?;
        }
        if let Some(edits) = &self.first_edits {
            let told = |share: Option<(f64, (f64, f64))>| {
                share.map_or("none".to_owned(), |(share, (low, high))| {
                    format!("{share:.2} [{low:.2}, {high:.2}]")
                })
            };
            writeln!(
                out,
                "First edits of known files after a boundary: {}; that a read comes first is\n  predicted with precision {} and recall {}.",
                edits.hits + edits.false_alarms + edits.surprises + edits.quiet,
                told(edits.precision()),
                told(edits.recall())
            )?;
        }
        let grounds = self.count_grounds();
        let unsure = grounds.get(WindowGrounds::Assumed.name()).copied().unwrap_or(0);
        let by_usage = grounds.get(WindowGrounds::Usage.name()).copied().unwrap_or(0);
        if unsure + by_usage > 0 {
            writeln!(
                out,
                "Windows of {} were inferred from what the same session sent, so that no\n  prediction there can be spurious; those of {} are not known (--window says).",
                format_count(by_usage, "call"),
                group_digits(unsure)
            )?;
        }
        Ok(())
    }
}

fn sheet<'a, R>(columns: &'a [Column<R>], rows: &'a [R], total: Option<&'a R>) -> Sheet<'a, R> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns,
        rows,
        total,
    }
}

fn first_edits_json(edits: &FirstEdits) -> Json {
    let share = |share: Option<(f64, (f64, f64))>| {
        share.map(|(share, (low, high))| json!({"share": share, "low": low, "high": high}))
    };
    json!({
        "first_edits": edits.hits + edits.false_alarms + edits.surprises + edits.quiet,
        "read_predicted_and_seen": edits.hits,
        "read_predicted_only": edits.false_alarms,
        "read_seen_only": edits.surprises,
        "neither": edits.quiet,
        "precision": share(edits.precision()),
        "recall": share(edits.recall()),
    })
}

/// Simulated against recorded cost.
fn relative_cost_error(costs: &CostComparison) -> Option<f64> {
    (costs.recorded > 0).then(|| costs.simulated as f64 / costs.recorded as f64 - 1.0)
}
