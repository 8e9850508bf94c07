//! `backcast validate`: predicted against recorded boundaries.

use crate::cli::ValidateArgs;
use crate::cli::check::CheckFormat;
use crate::commands::Ending;
use crate::commands::policy::resolve;
use crate::commands::reading::{close, problem_counts, with_logs};
use crate::commands::writing::{emit, load_prices};
use crate::run::Corpus;
use anyhow::{Result, bail};
use replay::audit::explain::explain;
use replay::audit::first_edits::{FirstEdits, first_edits};
use replay::audit::validate::{Case, Costs, Mechanism, Reason, Verdict, validate};
use replay::policy::presets::{Policies, Version};
use replay::prices::{PriceTable, micro_usd};
use replay::quantile::quantile;
use replay::sim::by_number;
use replay::sim::inference::{Grounds, infer};
use replay::sim::trace::{trace, uuid};
use replay::sim::uses::uses;
use replay::tokens::ratios::RatioTable;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::findings;
use table::findings::{Finding, Level, Outcome, annotations, junit};
use table::words::{count, count_of, dollars, grouped, percent};
use table::{Column, Format, InTable, Look, Sheet, Unit, column};
use transcript::problem::{Kind, Problem};
use transcript::thread::{Part, Session, thread};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Runs it.
pub fn run(args: &ValidateArgs) -> Result<Ending> {
    if args.explain.is_some() && args.out.format != CheckFormat::Table {
        bail!("--explain prints a text for people, and --format is about the table\n  hint: leave one of them out");
    }
    let policies = resolve(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let (sessions, problems) = with_logs(&args.input, args.working_set, |reading| {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let bar = reading.work_bar(&corpus);
        let (sessions, defects) = corpus.map_sessions(|id, parts| {
            bar.inc(1);
            Validated::new(id, parts, &policies, &prices, args.explain.as_deref(), args.working_set)
        });
        let mut problems = corpus.problems;
        problems.extend(defects);
        problems.extend(reading.problems());
        (sessions, problems)
    })?;
    let mut problems = problems;
    problems.extend(sessions.iter().flat_map(|session| session.problems.iter().cloned()));
    problems.sort();
    if let Some(wanted) = &args.explain {
        explain_session(args, &sessions, wanted)?;
        return Ok(close(&args.input, &problems));
    }
    let report = Report::new(&sessions, &policies, &problems, args.within);
    emit(&args.out.place(), |out, look| report.write(args.out.format, look, out))?;
    Ok(close(&args.input, &problems))
}

fn explain_session(args: &ValidateArgs, sessions: &[Validated], wanted: &str) -> Result<()> {
    let found = sessions
        .iter()
        .filter(|session| session.id.starts_with(wanted))
        .collect::<Vec<_>>();
    match found.as_slice() {
        [] => bail!(
            "no session starts with `{wanted}`\n  hint: `backcast stats -f csv` with the same paths lists the ids of all sessions"
        ),
        [session] => emit(&args.out.place(), |out, _| out.write_all(session.explained.as_bytes())),
        several => {
            let ids = several.iter().map(|session| session.id.as_str()).collect::<Vec<_>>();
            bail!("several sessions start with `{wanted}`: {}", ids.join(", "))
        }
    }
}

/// What was found in one session.
struct Validated {
    id: String,
    calls: Vec<(Version, u64)>,
    grounds: BTreeMap<Grounds, u64>,
    rows: Vec<CaseRow>,
    costs: Costs,
    segments: Vec<f64>,
    first_edits: Option<FirstEdits>,
    explained: String,
    problems: Vec<Problem>,
}

impl Validated {
    fn new(
        id: &str,
        parts: &[Part],
        policies: &Policies,
        prices: &PriceTable,
        wanted: Option<&str>,
        with_uses: bool,
    ) -> Validated {
        let session = Session::new(id, parts);
        let threaded = thread(&session);
        let mut validated = Validated {
            id: id.to_owned(),
            calls: Vec::new(),
            grounds: BTreeMap::new(),
            rows: Vec::new(),
            costs: Costs::default(),
            segments: Vec::new(),
            first_edits: None,
            explained: String::new(),
            problems: threaded.problems.clone(),
        };
        for chain in &threaded.chains {
            let trace = trace(&session, chain, RatioTable::built_in());
            let (by_version, by_model) = by_number(policies, prices, &trace);
            let windows = infer(&trace, &by_version, &by_model);
            let found = validate(&trace, &by_version, &by_model, &windows);
            for (call, window) in std::iter::zip(&trace.calls, &windows) {
                if call.usage.is_some() && !call.is_copied {
                    *validated.grounds.entry(window.grounds).or_insert(0) += 1;
                }
            }
            if with_uses {
                let edits = first_edits(&trace, &uses(&session, &trace));
                validated.first_edits.get_or_insert_default().merge(&edits);
            }
            if wanted.is_some_and(|wanted| id.starts_with(wanted)) {
                let told = explain(&session, &trace, &by_version, &found.cases);
                validated.explained.push_str(&told);
            }
            if found.has_defect {
                let path = &session.part(trace.calls[0].node).path;
                validated
                    .problems
                    .push(Problem::file(path, Kind::Internal, format!("replay of session {id}")));
            }
            validated.calls.extend(found.calls);
            validated.costs.merge(&found.costs);
            validated.segments.extend(found.segments);
            let rows = found.cases.into_iter().map(|case| CaseRow {
                session: id.to_owned(),
                agent: trace.agent.clone(),
                model: trace.models[usize::from(case.model)].clone(),
                uuid: uuid(&session, case.node),
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
    case: Case,
}

impl CaseRow {
    /// Whether the prediction is right, give or take some calls; what cannot be judged is no fault.
    fn outcome(&self, within: u64) -> Outcome {
        let case = &self.case;
        let told = |tokens: Option<u64>| tokens.map_or("nothing".to_owned(), grouped);
        let numbers = format!(
            "{} tokens recorded, {} predicted",
            told(case.recorded),
            told(case.predicted)
        );
        match case.verdict {
            Verdict::Exact => Outcome::Passed,
            Verdict::Early | Verdict::Late if case.distance.unsigned_abs() <= within => Outcome::Passed,
            Verdict::Early | Verdict::Late => Outcome::Failed(format!(
                "{} by {}: {numbers}",
                case.verdict.name(),
                count(case.distance.unsigned_abs(), "call")
            )),
            Verdict::Missed | Verdict::Spurious => Outcome::Failed(format!("{}: {numbers}", case.verdict.name())),
            Verdict::Undecidable | Verdict::Unrecorded => {
                Outcome::Skipped(case.reason.map_or(case.verdict.name(), Reason::about).to_owned())
            }
        }
    }

    /// The row with the beginning of the session's id.
    fn short(&self) -> CaseRow {
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
        "Sub-agent; empty for the main agent.",
        |row| row.agent.as_str().into(),
    ),
    column(
        "mechanism",
        "What",
        Unit::Text,
        InTable::Always,
        "`auto`, `micro` or `manual`.",
        |row| row.case.mechanism.name().into(),
    ),
    column(
        "verdict",
        "Verdict",
        Unit::Verdict,
        InTable::Always,
        "How the prediction came out.",
        |row| row.case.verdict.name().into(),
    ),
    column(
        "reason",
        "Reason",
        Unit::Text,
        InTable::Always,
        "Why it cannot be judged.",
        |row| row.case.reason.map(Reason::name).into(),
    ),
    column(
        "version",
        "Version",
        Unit::Text,
        InTable::Always,
        "Version of the client.",
        |row| row.case.version.to_string().into(),
    ),
    column("model", "Model", Unit::Text, InTable::Never, "Model.", |row| {
        row.model.as_str().into()
    }),
    column(
        "call",
        "Call",
        Unit::Count,
        InTable::Never,
        "Number of the call before which it stands, from 0.",
        |row| row.case.call.into(),
    ),
    column(
        "distance",
        "Off by",
        Unit::Count,
        InTable::Never,
        "Calls from the boundary to the prediction; negative if it came early; empty if there was none.",
        |row| match row.case.verdict {
            Verdict::Exact | Verdict::Early | Verdict::Late => Some(row.case.distance).into(),
            _ => None::<i64>.into(),
        },
    ),
    column(
        "recorded_tokens",
        "Recorded",
        Unit::Tokens,
        InTable::Always,
        "Tokens before, as the client wrote them down; of a micro-compaction the results that could go.",
        |row| row.case.recorded.into(),
    ),
    column(
        "predicted_tokens",
        "Predicted",
        Unit::Tokens,
        InTable::Always,
        "The same, predicted.",
        |row| row.case.predicted.into(),
    ),
    column(
        "error_tokens",
        "Error",
        Unit::Count,
        InTable::IfRoom,
        "Predicted minus recorded.",
        |row| row.case.error().into(),
    ),
    column(
        "threshold",
        "Threshold",
        Unit::Tokens,
        InTable::Never,
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
        Unit::Tokens,
        InTable::Never,
        "Context window.",
        |row| row.case.window.tokens.into(),
    ),
    column(
        "window_grounds",
        "Grounds",
        Unit::Text,
        InTable::Never,
        "What the window was inferred from: `given`, `version`, `boundary`, `usage`, `silent` (any size comes to the same), `assumed`.",
        |row| row.case.window.grounds.name().into(),
    ),
    column(
        "cleared_recorded",
        "Cleared",
        Unit::Count,
        InTable::Never,
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
        Unit::Count,
        InTable::Never,
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
        Unit::Time,
        InTable::Never,
        "When it was written.",
        |row| {
            Some(row.case.time)
                .filter(|time| *time != transcript::log::NO_TIME)
                .into()
        },
    ),
    column("uuid", "Id", Unit::Text, InTable::Never, "Id of the record.", |row| {
        row.uuid.as_str().into()
    }),
    column("path", "Path", Unit::Text, InTable::Never, "Log.", |row| {
        row.path.as_str().into()
    }),
    column("line", "Line", Unit::Count, InTable::Never, "Line of the log.", |row| {
        row.line.into()
    }),
];

/// Counts of verdicts.
#[derive(Debug, Clone, Copy, Default)]
struct Score {
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

impl Score {
    fn add(&mut self, case: &Case, within: u64) {
        let is_decidable = case.is_recorded && case.verdict != Verdict::Undecidable;
        self.recorded += u64::from(case.is_recorded);
        self.decidable += u64::from(is_decidable);
        let is_near = matches!(case.verdict, Verdict::Exact | Verdict::Early | Verdict::Late)
            && case.distance.unsigned_abs() <= within;
        self.within += u64::from(is_near);
        match case.verdict {
            Verdict::Exact => self.exact += 1,
            Verdict::Early => self.early += 1,
            Verdict::Late => self.late += 1,
            Verdict::Missed => self.missed += 1,
            Verdict::Spurious => self.spurious += 1,
            Verdict::Unrecorded => self.unrecorded += 1,
            Verdict::Undecidable => {}
        }
    }

    fn auto(&self) -> Json {
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

    fn micro(&self) -> Json {
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
    auto: Score,
    micro: Score,
}

const VERSION_COLUMNS: &[Column<VersionRow>] = &[
    column(
        "version",
        "Version",
        Unit::Text,
        InTable::Always,
        "Version of the client.",
        |row| row.version.as_str().into(),
    ),
    column(
        "calls",
        "Calls",
        Unit::Count,
        InTable::Always,
        "Calls with usage.",
        |row| row.calls.into(),
    ),
    column(
        "recorded",
        "Recorded",
        Unit::Count,
        InTable::Always,
        "Automatic compactions.",
        |row| row.auto.recorded.into(),
    ),
    column(
        "decidable",
        "Decidable",
        Unit::Count,
        InTable::Always,
        "Those that can be judged.",
        |row| row.auto.decidable.into(),
    ),
    column(
        "exact",
        "Exact",
        Unit::Count,
        InTable::Always,
        "Predicted at the very call.",
        |row| row.auto.exact.into(),
    ),
    column(
        "early",
        "Early",
        Unit::Count,
        InTable::IfRoom,
        "Predicted at an earlier one.",
        |row| row.auto.early.into(),
    ),
    column(
        "late",
        "Late",
        Unit::Count,
        InTable::IfRoom,
        "Would have come a few calls later.",
        |row| row.auto.late.into(),
    ),
    column(
        "missed",
        "Missed",
        Unit::Count,
        InTable::Always,
        "Not predicted.",
        |row| row.auto.missed.into(),
    ),
    column(
        "spurious",
        "Spurious",
        Unit::Count,
        InTable::Always,
        "Predicted where none was recorded.",
        |row| row.auto.spurious.into(),
    ),
    column(
        "micro_exact",
        "Micro",
        Unit::Count,
        InTable::IfRoom,
        "Micro-compactions with the very list of results.",
        |row| row.micro.exact.into(),
    ),
];

/// All of it, added up.
struct Report<'a> {
    sessions: &'a [Validated],
    policies: &'a Policies,
    problems: &'a [Problem],
    within: u64,
    versions: Vec<VersionRow>,
    total: VersionRow,
    /// Absolute errors of tokens before, with the recorded size, ascending.
    errors: Vec<(u64, u64)>,
    segments: Vec<f64>,
    costs: Costs,
    cost_errors: Vec<f64>,
    first_edits: Option<FirstEdits>,
}

impl<'a> Report<'a> {
    fn new(sessions: &'a [Validated], policies: &'a Policies, problems: &'a [Problem], within: u64) -> Report<'a> {
        let mut versions = BTreeMap::<Version, VersionRow>::new();
        let mut report = Report {
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
            costs: Costs::default(),
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
                let is_judged = case.mechanism == Mechanism::Auto && case.verdict != Verdict::Undecidable;
                if let (true, Some(error), Some(recorded)) = (is_judged, case.error(), case.recorded) {
                    report.errors.push((error.unsigned_abs(), recorded));
                }
            }
            if let Some(edits) = &session.first_edits {
                report.first_edits.get_or_insert_default().merge(edits);
            }
            report.costs.merge(&session.costs);
            report.cost_errors.extend(relative(&session.costs).map(f64::abs));
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

    fn write(&self, format: CheckFormat, look: Look, out: &mut dyn Write) -> io::Result<()> {
        match format.of_rows() {
            Some(Format::Table) => self.write_text(look, out),
            Some(Format::Json) => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            Some(format) => sheet(CASE_COLUMNS, &self.rows(), None).write(format, look, out),
            None if format == CheckFormat::Github => out.write_all(self.annotations().as_bytes()),
            None => out.write_all(self.junit().as_bytes()),
        }
    }

    /// Automatic and micro-compactions: what was asked for needs no prediction.
    fn judged(&self) -> impl Iterator<Item = (&CaseRow, Outcome)> {
        let rows = self.sessions.iter().flat_map(|session| &session.rows);
        let judged = rows.filter(|row| row.case.mechanism != Mechanism::Manual);
        judged.map(|row| (row, row.outcome(self.within)))
    }

    fn annotations(&self) -> String {
        let told = |(row, outcome): (&CaseRow, Outcome)| match outcome {
            Outcome::Failed(message) => Some(Finding {
                level: Level::Warning,
                title: format!("{} compaction {}", row.case.mechanism.name(), row.case.verdict.name()),
                message,
                place: Some((row.path.clone(), Some(u64::from(row.line)))),
            }),
            _ => None,
        };
        annotations(&self.judged().filter_map(told).collect::<Vec<_>>())
    }

    fn junit(&self) -> String {
        let case = |(row, outcome): (&CaseRow, Outcome)| findings::Case {
            name: format!("{} {} line {}", row.session, row.case.mechanism.name(), row.line),
            outcome,
        };
        junit("backcast validate", &self.judged().map(case).collect::<Vec<_>>())
    }

    fn document(&self) -> Json {
        let by_version = self.versions.iter().map(|row| {
            json!({"version": row.version, "calls": row.calls, "auto": row.auto.auto(), "micro": row.micro.micro()})
        });
        let cases = sheet(CASE_COLUMNS, &self.rows(), None).to_json();
        let relative_errors = self.relative_errors();
        let count = self.errors.len();
        let exact = self.errors.iter().filter(|(error, _)| *error == 0).count();
        json!({
            "schema_version": SCHEMA_VERSION,
            "policy": self.policies.name,
            "calls": self.total.calls,
            "calls_by_window_grounds": self.grounds(),
            "within": self.within,
            "auto": self.total.auto.auto(),
            "micro": self.total.micro.micro(),
            "pre_tokens_error": {
                "p50": quantile(&self.errors, 0.5).map(|(error, _)| error),
                "p95": quantile(&self.errors, 0.95).map(|(error, _)| error),
                "relative_p50": quantile(&relative_errors, 0.5),
                "relative_p95": quantile(&relative_errors, 0.95),
                "count": count,
                "exact": exact,
            },
            "cost_error": {
                "total": relative(&self.costs),
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

    fn rows(&self) -> Vec<CaseRow> {
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

    fn grounds(&self) -> BTreeMap<&'static str, u64> {
        let mut grounds = BTreeMap::new();
        for (ground, calls) in self.sessions.iter().flat_map(|session| &session.grounds) {
            *grounds.entry(ground.name()).or_insert(0) += calls;
        }
        grounds
    }

    fn write_text(&self, look: Look, out: &mut dyn Write) -> io::Result<()> {
        let auto = &self.total.auto;
        writeln!(
            out,
            "Policy {}: {} of {} decidable automatic compactions at the very call,\n{} spurious in {}.\n",
            self.policies.name,
            grouped(auto.exact),
            grouped(auto.decidable),
            grouped(auto.spurious),
            count(self.total.calls, "call")
        )?;
        let shown = self
            .versions
            .iter()
            .filter(|row| row.auto.recorded + row.auto.spurious + row.micro.recorded > 0);
        let shown = shown.cloned().collect::<Vec<_>>();
        if !shown.is_empty() {
            sheet(VERSION_COLUMNS, &shown, Some(&self.total)).write(Format::Table, look, out)?;
            writeln!(out, "Versions without compactions are left out.\n")?;
        }
        self.write_errors(out)?;
        let odd = self.sessions.iter().flat_map(|session| &session.rows).filter(|row| {
            row.case.mechanism != Mechanism::Manual && !matches!(row.case.verdict, Verdict::Exact | Verdict::Unrecorded)
        });
        let odd = odd.map(CaseRow::short).collect::<Vec<_>>();
        if !odd.is_empty() {
            writeln!(
                out,
                "\nNot exact, or not to be judged (--explain SESSION walks through one):\n"
            )?;
            sheet(CASE_COLUMNS, &odd, None).write(Format::Table, look, out)?;
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
                dollars(Some(micro_usd(self.costs.recorded))),
                dollars(Some(micro_usd(self.costs.simulated))),
                share(relative(&self.costs)),
                share(quantile(&self.cost_errors, 0.5)),
                share(quantile(&self.cost_errors, 0.9)),
                count_of(self.costs.unexplained, "cache miss", "cache misses"),
                dollars(Some(micro_usd(self.costs.unexplained_cost))),
                percent(
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
                count(self.segments.len() as u64, "segment")
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
        let grounds = self.grounds();
        let unsure = grounds.get(Grounds::Assumed.name()).copied().unwrap_or(0);
        let by_usage = grounds.get(Grounds::Usage.name()).copied().unwrap_or(0);
        if unsure + by_usage > 0 {
            writeln!(
                out,
                "Windows of {} were inferred from what the same session sent, so that no\n  prediction there can be spurious; those of {} are not known (--window says).",
                count(by_usage, "call"),
                grouped(unsure)
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
fn relative(costs: &Costs) -> Option<f64> {
    (costs.recorded > 0).then(|| costs.simulated as f64 / costs.recorded as f64 - 1.0)
}
