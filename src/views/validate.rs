//! `backcast validate`: predicted and recorded boundaries. Rows, the JSON document, findings for CI, and text for people.

mod rows;
mod text;

use crate::usage::account::UsageAccount;
use crate::views::{name_version, problems_json};
use replay::audit::costs::CostComparison;
use replay::audit::first_edits::{COPY_STATES, FirstEdits};
use replay::audit::validate::{CaseVerdict, Mechanism};
use replay::policy::presets::{ClientVersion, PolicySet, Preset, client_preset};
use replay::prices::micro_usd;
use replay::quantile::quantile;
use replay::windows::{WindowConfidence, WindowGrounds};
use rows::VersionRow;
pub use rows::{CASE_COLUMNS, CaseRow};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::findings::{CheckFinding, Severity, TestCase, TestOutcome, format_annotations, format_junit};
use table::{OutputFormat, OutputSchema, TableStyle, write_json};
use transcript::agents::Agent;
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("validate", 1);

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
