//! `backcast validate`: predicted and recorded boundaries. Rows, the JSON document, findings for CI, and text for people.

mod rows;

use crate::usage::account::UsageAccount;
use crate::views::{name_version, problems_json};
use replay::audit::costs::CostComparison;
use replay::audit::first_edits::{COPY_STATES, FirstEdits, NextTouches};
use replay::audit::validate::{CaseVerdict, Mechanism};
use replay::policy::presets::{ClientVersion, PolicySet, Preset, client_preset};
use replay::prices::micro_usd;
use replay::quantile::quantile;
use replay::windows::{WindowConfidence, WindowGrounds};
pub use rows::{CASE_COLUMNS, CaseRow};
use rows::{REASON_TABLE, ReasonRow, VERSION_TABLE, VersionRow};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::findings::{CheckFinding, Severity, TestCase, TestOutcome, format_annotations, format_junit};
use table::human::{format_count, format_count_with_plural, format_dollars, format_percent, group_digits};
use table::{Legend, OutputFormat, OutputSchema, Sheet, TableStyle, write_json};
use transcript::agents::Agent;
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("validate", 1);

/// Words of the table of versions.
const VERSION_LEGEND: Legend<'_> = &[
    ("Recorded", "automatic compactions in the logs"),
    ("Decidable", "those whose context and window the log shows"),
    ("Exact", "predicted before the same call"),
    ("Early", "predicted before an earlier one"),
    ("Late", "before a later one"),
    ("Missed", "not predicted"),
    ("Spurious", "predicted, but did not happen"),
    ("Micro", "micro-compactions that are exact"),
];

/// The findings of one session.
pub struct SessionValidation {
    pub id: String,
    /// The coding agent that wrote its logs.
    pub client: Agent,
    pub calls: Vec<(ClientVersion, u64)>,
    /// Calls by what their window is inferred from.
    pub grounds: BTreeMap<(WindowGrounds, WindowConfidence), u64>,
    pub rows: Vec<CaseRow>,
    pub costs: CostComparison,
    pub segments: Vec<f64>,
    pub first_edits: Option<FirstEdits>,
    pub explanation: String,
    pub problems: Vec<Problem>,
}

/// What the command line asks of the output.
#[derive(Clone, Copy)]
pub struct ValidationOptions<'a> {
    /// A prediction so many calls off still counts as within.
    pub within: u64,
    /// Cases in the list; 0 for all, `None` for those that are wrong.
    pub top: Option<usize>,
    /// The filters in words; empty if everything counts.
    pub selection: &'a str,
}

/// The validation of all sessions.
pub struct ValidationReport<'a> {
    sessions: &'a [SessionValidation],
    policies: &'a PolicySet,
    problems: &'a [Problem],
    options: ValidationOptions<'a>,
    account: &'a UsageAccount,
    versions: Vec<VersionRow>,
    /// The same by range of versions with the same rules.
    ranges: Vec<VersionRow>,
    /// Recorded clearings of images.
    images: u64,
    total: VersionRow,
    /// Absolute errors of tokens before, with the recorded size, ascending.
    errors: Vec<(u64, u64)>,
    segments: Vec<f64>,
    costs: CostComparison,
    cost_errors: Vec<f64>,
    first_edits: Option<FirstEdits>,
}

impl<'a> ValidationReport<'a> {
    pub fn new(
        sessions: &'a [SessionValidation],
        policies: &'a PolicySet,
        problems: &'a [Problem],
        options: ValidationOptions<'a>,
        account: &'a UsageAccount,
    ) -> ValidationReport<'a> {
        let mut versions = BTreeMap::<(Agent, ClientVersion), VersionRow>::new();
        let mut report = ValidationReport {
            sessions,
            policies,
            problems,
            options,
            account,
            versions: Vec::new(),
            ranges: Vec::new(),
            images: 0,
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
                versions.entry((session.client, *version)).or_default().calls += calls;
                report.total.calls += calls;
            }
            for row in &session.rows {
                let case = &row.case;
                let version = versions.entry((session.client, case.version)).or_default();
                let scores = match case.mechanism {
                    Mechanism::Auto => [&mut version.auto, &mut report.total.auto],
                    Mechanism::Micro => [&mut version.micro, &mut report.total.micro],
                    Mechanism::Manual => continue,
                    Mechanism::Images => {
                        report.images += 1;
                        continue;
                    }
                };
                for score in scores {
                    score.add(case, options.within);
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
        report.ranges = sum_by_range(&versions);
        report.versions = versions
            .into_iter()
            .map(|((client, version), row)| VersionRow {
                version: name_version(client, &version.to_string()),
                coding_agent: client,
                ..row
            })
            .collect();
        report
    }

    /// Writes rows, the document or text; CI systems get [`ValidationReport::annotations`] or [`ValidationReport::junit`].
    pub fn write(&self, format: OutputFormat, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(style, out),
            OutputFormat::Json => write_json(&self.document(), out),
            format => SCHEMA.sheet(CASE_COLUMNS, &self.all_rows()).write(format, style, out),
        }
    }

    /// Returns automatic and micro-compactions: a manual compaction needs no prediction.
    fn judged_cases(&self) -> impl Iterator<Item = (&CaseRow, TestOutcome)> {
        let rows = self.sessions.iter().flat_map(|session| &session.rows);
        let judged = rows.filter(|row| row.case.mechanism != Mechanism::Manual);
        judged.map(|row| (row, row.test_outcome(self.options.within)))
    }

    pub fn annotations(&self) -> String {
        let finding = |(row, outcome): (&CaseRow, TestOutcome)| match outcome {
            TestOutcome::Failed(message) => Some(CheckFinding {
                level: Severity::Warning,
                title: format!("{} compaction {}", row.case.mechanism.name(), row.case.verdict.name()),
                message,
                location: Some((row.path.clone(), Some(u64::from(row.line)))),
            }),
            _ => None,
        };
        format_annotations(&self.judged_cases().filter_map(finding).collect::<Vec<_>>())
    }

    pub fn junit(&self) -> String {
        let case = |(row, outcome): (&CaseRow, TestOutcome)| TestCase {
            name: format!("{} {} line {}", row.session, row.case.mechanism.name(), row.line),
            outcome,
        };
        format_junit("backcast validate", &self.judged_cases().map(case).collect::<Vec<_>>())
    }

    fn document(&self) -> Json {
        let by_version = self.versions.iter().map(|row| {
            json!({"version": row.version, "coding_agent": row.coding_agent, "calls": row.calls, "auto": row.auto.auto_json(), "micro": row.micro.micro_json()})
        });
        let by_range = self.ranges.iter().map(|row| {
            json!({"versions": row.version, "unsettled": row.is_unsettled, "calls": row.calls, "auto": row.auto.auto_json(), "micro": row.micro.micro_json()})
        });
        let cases = SCHEMA.sheet(CASE_COLUMNS, &self.all_rows()).to_json();
        let relative_errors = self.relative_errors();
        let count = self.errors.len();
        let exact = self.errors.iter().filter(|(error, _)| *error == 0).count();
        SCHEMA.document(json!({
            "policy": self.policies.name,
            "recorded": self.account.to_json(),
            "calls": self.total.calls,
            "calls_by_window_grounds": self.count_grounds(),
            "calls_by_window_confidence": self.count_confidence().into_iter().map(|(one, calls)| (one.name(), calls)).collect::<BTreeMap<_, _>>(),
            "within": self.options.within,
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
                "total_by_rules": (self.costs.recorded > 0).then(|| self.costs.by_rules as f64 / self.costs.recorded as f64 - 1.0),
                "p50": quantile(&self.cost_errors, 0.5),
                "p90": quantile(&self.cost_errors, 0.9),
                "sessions": self.cost_errors.len(),
                "recorded_micro_usd": micro_usd(self.costs.recorded),
                "simulated_micro_usd": micro_usd(self.costs.simulated),
                "by_rules_micro_usd": micro_usd(self.costs.by_rules),
                "by_cause": self.costs.named_causes().filter(|(_, cause)| cause.calls > 0).map(|(name, cause)| json!({
                    "miss": name,
                    "calls": cause.calls,
                    "recorded_micro_usd": micro_usd(cause.recorded),
                    "simulated_micro_usd": micro_usd(cause.simulated),
                })).collect::<Vec<_>>(),
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
            "by_range": by_range.collect::<Vec<_>>(),
            "image_clearings": self.images,
            "cases": cases,
            "problems": problems_json(self.problems, false),
        }))
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

    /// Returns the number of calls by what their window is inferred from.
    fn count_grounds(&self) -> BTreeMap<&'static str, u64> {
        let mut grounds = BTreeMap::new();
        for ((ground, _), calls) in self.sessions.iter().flat_map(|session| &session.grounds) {
            *grounds.entry(ground.name()).or_insert(0) += calls;
        }
        grounds
    }

    /// Returns the number of calls by how far their window can be trusted.
    fn count_confidence(&self) -> BTreeMap<WindowConfidence, u64> {
        let mut counts = BTreeMap::new();
        for ((_, confidence), calls) in self.sessions.iter().flat_map(|session| &session.grounds) {
            *counts.entry(*confidence).or_insert(0) += calls;
        }
        counts
    }

    fn write_text(&self, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.answer())?;
        let auto = &self.total.auto;
        if auto.within_margin > 0 {
            writeln!(
                out,
                "{} at the right call within the margin that masked reasoning leaves, not decidable to the token.",
                format_count_with_plural(
                    auto.within_margin,
                    "more automatic compaction is",
                    "more automatic compactions are"
                )
            )?;
        }
        writeln!(out)?;
        let shown = self
            .ranges
            .iter()
            .filter(|row| row.auto.recorded + row.auto.spurious + row.micro.recorded > 0);
        let shown = shown.cloned().collect::<Vec<_>>();
        if !shown.is_empty() {
            let sheet = Sheet {
                total: Some(&self.total),
                ..SCHEMA.sheet(VERSION_TABLE, &shown)
            };
            sheet.write_with_legend(VERSION_LEGEND, style, out)?;
            writeln!(out, "Versions without compactions are left out.\n")?;
            self.write_unsettled(out)?;
        }
        self.write_errors(out)?;
        self.write_cases(style, out)
    }

    /// Writes the cases that are wrong, and how many cannot be judged, by reason.
    fn write_cases(&self, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.sessions.iter().flat_map(|session| &session.rows);
        let rows = rows.filter(|row| row.case.mechanism != Mechanism::Manual);
        let is_wrong = |row: &&CaseRow| {
            use CaseVerdict::{Exact, Undecidable, Unrecorded, WithinMargin};
            !matches!(row.case.verdict, Exact | WithinMargin | Unrecorded | Undecidable)
        };
        let mut listed = rows.clone().filter(is_wrong).collect::<Vec<_>>();
        let undecidable = rows.filter(|row| row.case.verdict == CaseVerdict::Undecidable);
        let undecidable = undecidable.collect::<Vec<_>>();
        if let Some(top) = self.options.top {
            listed.extend(&undecidable);
            listed.truncate(if top == 0 { listed.len() } else { top });
        }
        if !listed.is_empty() {
            let listed = listed.into_iter().map(CaseRow::with_short_session).collect::<Vec<_>>();
            writeln!(out, "\nNot exact, or cannot be judged:\n")?;
            SCHEMA
                .sheet(CASE_COLUMNS, &listed)
                .write(OutputFormat::Table, style, out)?;
        }
        let mut reasons = BTreeMap::<_, u64>::new();
        for row in &undecidable {
            if let Some(reason) = row.case.reason {
                *reasons.entry((row.case.mechanism, reason)).or_default() += 1;
            }
        }
        if !reasons.is_empty() {
            let rows = reasons.into_iter().map(|((mechanism, reason), count)| ReasonRow {
                mechanism: mechanism.name(),
                reason: reason.name(),
                about: reason.about(),
                count,
            });
            writeln!(out, "\nCannot be judged (--top 0 lists them):\n")?;
            SCHEMA
                .sheet(REASON_TABLE, &rows.collect::<Vec<_>>())
                .write(OutputFormat::Table, style, out)?;
        }
        if !undecidable.is_empty() {
            writeln!(out, "--explain SESSION shows a session step by step.")?;
        }
        Ok(())
    }

    /// Returns how well the policy predicts, in one sentence.
    fn answer(&self) -> String {
        let auto = &self.total.auto;
        let name = &self.policies.name;
        let calls = format_count(self.total.calls, "call");
        let when = match self.options.selection {
            "" => String::new(),
            selection => format!(" ({selection})"),
        };
        let spurious = match auto.spurious {
            0 => "and no others".to_owned(),
            spurious => format!("and {} that did not happen", group_digits(spurious)),
        };
        match (auto.decidable, auto.recorded) {
            (0, 0) => format!(
                "No automatic compaction is recorded in {calls}{when}; policy {name} predicts {}.",
                {
                    match auto.spurious {
                        0 => "none".to_owned(),
                        spurious => group_digits(spurious),
                    }
                }
            ),
            (0, recorded) => format!(
                "None of the {} can be judged, because the log lacks what the client counted or the window{when}.",
                format_count_with_plural(recorded, "automatic compaction", "automatic compactions")
            ),
            (decidable, _) if auto.exact == decidable => format!(
                "Policy {name} predicts {} that can be judged at the exact call, {spurious} in {calls}{when}.",
                match decidable {
                    1 => "the one automatic compaction".to_owned(),
                    several => format!("all {} automatic compactions", group_digits(several)),
                }
            ),
            (decidable, _) => format!(
                "Policy {name} predicts {} of {} automatic compactions that can be judged at the exact call, {spurious} in {calls}{when}.",
                group_digits(auto.exact),
                group_digits(decidable)
            ),
        }
    }

    /// Writes the scores of versions whose rules are not settled apart from the others.
    fn write_unsettled(&self, out: &mut dyn Write) -> io::Result<()> {
        let (open, settled): (Vec<_>, Vec<_>) = self.ranges.iter().partition(|row| row.is_unsettled);
        let sum = |rows: &[&VersionRow]| {
            rows.iter().fold(VersionRow::default(), |mut sum, row| {
                sum.merge(row);
                sum
            })
        };
        let (open, settled) = (sum(&open), sum(&settled));
        if open.auto.recorded + open.auto.spurious > 0 {
            writeln!(
                out,
                "The rules from 2.1.220 on are not settled: {} of {} exact there, {} of {} before.\n",
                open.auto.exact, open.auto.decidable, settled.auto.exact, settled.auto.decidable
            )?;
        }
        Ok(())
    }

    fn write_errors(&self, out: &mut dyn Write) -> io::Result<()> {
        let share = |value: Option<f64>| value.map_or("none".to_owned(), |value| format!("{:.2} %", 100.0 * value));
        let exact = self.errors.iter().filter(|(error, _)| *error == 0).count();
        if let (Some((p50, _)), Some((p95, _))) = (quantile(&self.errors, 0.5), quantile(&self.errors, 0.95)) {
            writeln!(
                out,
                "Tokens before: {} of {} exact to the token; off by {p50} in the median, {p95} at p95 ({} of the size).",
                exact,
                self.errors.len(),
                share(quantile(&self.relative_errors(), 0.95))
            )?;
        }
        let micro = &self.total.micro;
        if micro.recorded + micro.unrecorded > 0 {
            writeln!(
                out,
                "Micro-compactions: {} of {} decidable ones with the exact list of results, {} spurious; {} more happened without a record.",
                micro.exact, micro.decidable, micro.spurious, micro.unrecorded
            )?;
        }
        if self.images > 0 {
            writeln!(
                out,
                "Micro-compactions of images, which no policy models: {}.",
                group_digits(self.images)
            )?;
        }
        if self.costs.recorded > 0 {
            writeln!(
                out,
                "Cost: {} recorded, {} simulated ({}, without expected cache misses {}); a session is off by {} in the median, {} at p90. {} that nothing in the logs explains cost {} ({} of the recorded cost).",
                format_dollars(micro_usd(self.costs.recorded)),
                format_dollars(micro_usd(self.costs.simulated)),
                share(relative_cost_error(&self.costs)),
                share(Some(self.costs.by_rules as f64 / self.costs.recorded as f64 - 1.0)),
                share(quantile(&self.cost_errors, 0.5)),
                share(quantile(&self.cost_errors, 0.9)),
                format_count_with_plural(self.costs.unexplained, "cache miss", "cache misses"),
                format_dollars(micro_usd(self.costs.unexplained_cost)),
                format_percent(
                    micro_usd(self.costs.unexplained_cost) as u64,
                    micro_usd(self.costs.recorded) as u64
                )
            )?;
        }
        if let Some(parts) = self.account.explain_conversations() {
            writeln!(out, "{parts}")?;
        }
        if !self.segments.is_empty() {
            writeln!(
                out,
                "Windows simulated from the first call of a segment (the calls between two boundaries) to its end: off by {} in the median, {} at p90, over {}.",
                share(quantile(&self.segments, 0.5)),
                share(quantile(&self.segments, 0.9)),
                format_count(self.segments.len() as u64, "segment")
            )?;
        }
        if let Some(edits) = &self.first_edits {
            let interval = |share: Option<(f64, (f64, f64))>| {
                share.map_or("none".to_owned(), |(share, (low, high))| {
                    format!("{share:.2} [{low:.2}, {high:.2}]")
                })
            };
            writeln!(
                out,
                "First edits of known files after a boundary: {}; that a read comes first is predicted with precision {} and recall {}; it comes first in {} of all.",
                edits.hits + edits.false_alarms + edits.surprises + edits.quiet,
                interval(edits.precision()),
                interval(edits.recall()),
                interval(edits.base_rate())
            )?;
            let share = |(state, touches): (&str, &NextTouches)| {
                format!(
                    "{state} {} of {}",
                    interval(touches.read_share()),
                    group_digits(touches.touches)
                )
            };
            let shares = std::iter::zip(COPY_STATES, &edits.next_touches).map(share);
            writeln!(
                out,
                "The next touch of a known file is a read, by what is left of it: {}.",
                shares.collect::<Vec<_>>().join("; ")
            )?;
        }
        self.write_windows(out)
    }

    /// Writes how well the windows are known: predictions are scored only where they are certain.
    fn write_windows(&self, out: &mut dyn Write) -> io::Result<()> {
        let counts = self.count_confidence();
        let calls = |confidence| counts.get(&confidence).copied().unwrap_or(0);
        let total = counts.values().sum::<u64>();
        let known = calls(WindowConfidence::Certain);
        if known == total {
            return Ok(());
        }
        let shares = [
            (WindowConfidence::Likely, "likely"),
            (WindowConfidence::Weak, "weak"),
            (WindowConfidence::None, "unknown"),
        ];
        let shares = shares.into_iter().filter(|(confidence, _)| calls(*confidence) > 0);
        let shares = shares.map(|(confidence, word)| format!("{word} for {}", group_digits(calls(confidence))));
        writeln!(
            out,
            "Windows: certain for {} of {}, {}. Only predictions on certain windows are scored; an unknown window predicts nothing (--window sets it).",
            group_digits(known),
            format_count(total, "call"),
            shares.collect::<Vec<_>>().join(", "),
        )?;
        Ok(())
    }
}

/// Sums rows by the ranges of versions that have the same rules.
fn sum_by_range(versions: &BTreeMap<(Agent, ClientVersion), VersionRow>) -> Vec<VersionRow> {
    let mut ranges = Vec::<(&Preset, [ClientVersion; 2], VersionRow)>::new();
    let own = versions.iter().filter(|((client, _), _)| *client == Agent::Claude);
    for ((_, version), row) in own {
        let Some(preset) = client_preset(*version) else {
            continue;
        };
        match ranges.last_mut() {
            Some((known, seen, sum)) if known.name == preset.name => {
                seen[1] = *version;
                sum.merge(row);
            }
            _ => ranges.push((preset, [*version; 2], row.clone())),
        }
    }
    let finish = |(preset, [first, last], row): (&Preset, [ClientVersion; 2], VersionRow)| VersionRow {
        version: match first == last {
            true => first.to_string(),
            false => format!("{first} - {last}"),
        },
        is_unsettled: preset.is_unsettled,
        ..row
    };
    ranges.into_iter().map(finish).collect()
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
        "base_rate": share(edits.base_rate()),
        "next_touch_is_read": std::iter::zip(COPY_STATES, &edits.next_touches)
            .map(|(state, touches)| {
                let found = json!({"touches": touches.touches, "reads": touches.reads, "share": share(touches.read_share())});
                (state.to_owned(), found)
            })
            .collect::<serde_json::Map<_, _>>(),
    })
}

/// Returns the simulated cost relative to the recorded one, less 1; `None` without a recorded cost.
fn relative_cost_error(costs: &CostComparison) -> Option<f64> {
    (costs.recorded > 0).then(|| costs.simulated as f64 / costs.recorded as f64 - 1.0)
}
