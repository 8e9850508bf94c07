//! `backcast check`: columns, the JSON document, findings for CI, and text for people.

use crate::usage::account::UsageAccount;
use crate::usage::budget::{LimitLocation, LimitRow, LimitVerdict};
use crate::views::problems_json;
use serde_json::json;
use std::io::{self, Write};
use table::findings::{CheckFinding, Severity, TestCase, TestOutcome, format_annotations, format_junit};
use table::{OutputFormat, OutputSchema, TableStyle, Tone, columns, write_json};
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("check", 1);

columns! {
    /// Limits, in machine-readable formats.
    pub LIMIT_COLUMNS: LimitRow;
    "limit" "Limit" Text Always "Name of the limit." |r| r.limit.name;
    "unit" "Unit" Text Never "`usd`, `tokens`, `count` or `share` (0 to 1)." |r| r.limit.measure.name();
    "allowed" "Allowed" Ratio Never "What is allowed; empty if the limit is not set." |r| r.allowed;
    "measured" "Measured" Ratio Never "What was measured; empty if there is nothing to measure." |r| r.measured;
    "verdict" "Verdict" Verdict Never "`within`, `exceeded`, `nothing to measure` or `not set`." |r| r.verdict().name();
    "worst" "Most in" Text Never
        "Session, day or file where it is worst, or the first one that counts." |r| place(r).map(|place| place.name.clone());
    "path" "Path" Text Never "Log that it is in." |r| place(r).and_then(|place| Some(place.line.as_ref()?.0.clone()));
    "line" "Line" Count Never "Line of the log." |r| place(r).and_then(|place| Some(place.line.as_ref()?.1));
    "about" "Meaning" Text Never "What is measured." |r| r.limit.about;
}

columns! {
    /// Limits in the table.
    LIMIT_TABLE: LimitRow;
    "limit" "Limit" Text Always "Name of the limit." |r| r.limit.name;
    "allowed" "Allowed" Text Always "What is allowed." |r| r.allowed.map(|value| r.limit.measure.format_value(value));
    "measured" "Measured" Text Always "What was measured." |r| r.measured.map(|value| r.limit.measure.format_value(value));
    "verdict" "Verdict" Verdict Always "How it came out." |r| r.verdict().name();
    "worst" "Worst, or first" Text IfRoom "Where." |r| place(r).map(|place| place.name.clone());
}

/// Returns where a value is worst; `None` if the value is 0.
fn place(row: &LimitRow) -> Option<&LimitLocation> {
    row.place
        .as_ref()
        .filter(|_| row.measured.is_some_and(|value| value > 0.0))
}

/// Whether the name of a limit does not say what is measured.
fn is_explained(name: &str) -> bool {
    !matches!(
        name,
        "max-cost" | "max-session-cost" | "max-day-cost" | "max-tokens" | "max-problems"
    )
}

/// The limits and their verdicts.
pub struct CheckView<'a> {
    /// Whether limits that are not set are shown, too.
    pub all: bool,
    pub rows: &'a [LimitRow],
    /// The filters in words; empty if everything counts.
    pub selection: &'a str,
    pub problems: &'a [Problem],
    /// What the logs hold.
    pub account: &'a UsageAccount,
}

impl CheckView<'_> {
    /// Writes rows, the document or text; CI systems get [`CheckView::annotations`] or [`CheckView::junit`].
    pub fn write(&self, format: OutputFormat, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(out, style),
            OutputFormat::Json => self.write_document(out),
            format => SCHEMA.sheet(LIMIT_COLUMNS, self.rows).write(format, style, out),
        }
    }

    fn count_verdicts(&self, verdict: LimitVerdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    pub fn exceeded_count(&self) -> usize {
        self.count_verdicts(LimitVerdict::Exceeded)
    }

    fn set_limit_count(&self) -> usize {
        self.rows.len() - self.count_verdicts(LimitVerdict::Unset)
    }

    fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let when = match self.selection {
            "" => String::new(),
            selection => format!(" ({selection})"),
        };
        let answer = match (self.exceeded_count(), self.set_limit_count()) {
            (_, 0) => format!("No limit is set, so nothing was judged{when}."),
            (0, 1) => style.paint(Tone::Good, &format!("The limit holds{when}.")),
            (0, set) => style.paint(Tone::Good, &format!("All {set} limits hold{when}.")),
            (1, 1) => style.paint(Tone::Bad, &format!("The limit is exceeded{when}.")),
            (1, set) => style.paint(Tone::Bad, &format!("1 of {set} limits is exceeded{when}.")),
            (exceeded, set) => style.paint(Tone::Bad, &format!("{exceeded} of {set} limits are exceeded{when}.")),
        };
        writeln!(out, "{answer}\n")?;
        SCHEMA
            .sheet(LIMIT_TABLE, self.rows)
            .write(OutputFormat::Table, style, out)?;
        for row in self.rows.iter().filter(|row| is_explained(row.limit.name)) {
            writeln!(out, "{}: {}", row.limit.name, row.limit.about)?;
        }
        Ok(())
    }

    fn write_document(&self, out: &mut dyn Write) -> io::Result<()> {
        let document = SCHEMA.document(json!({
            "passed": self.exceeded_count() == 0,
            "exceeded": self.exceeded_count(),
            "limits_set": self.set_limit_count(),
            "recorded": self.account.to_json(),
            "limits": SCHEMA.sheet(LIMIT_COLUMNS, self.rows).to_json(),
            "problems": problems_json(self.problems, false),
        }));
        write_json(&document, out)
    }

    pub fn annotations(&self) -> String {
        let finding = |row: &LimitRow| CheckFinding {
            level: if row.verdict() == LimitVerdict::Exceeded {
                Severity::Error
            } else {
                Severity::Notice
            },
            title: format!("{} {}", row.limit.name, row.verdict().name()),
            message: row.sentence(),
            location: row
                .place
                .as_ref()
                .and_then(|place| place.line.clone())
                .map(|(path, line)| (path, Some(line))),
        };
        // A limit that holds needs no annotation, unless the user asked for all.
        let rows = self
            .rows
            .iter()
            .filter(|row| self.all || row.verdict() == LimitVerdict::Exceeded);
        format_annotations(&rows.map(finding).collect::<Vec<_>>())
    }

    pub fn junit(&self) -> String {
        let case = |row: &LimitRow| TestCase {
            name: row.limit.name.to_owned(),
            outcome: match row.verdict() {
                LimitVerdict::Within => TestOutcome::Passed,
                LimitVerdict::Exceeded => TestOutcome::Failed(row.sentence()),
                LimitVerdict::NoData | LimitVerdict::Unset => {
                    TestOutcome::Skipped(format!("{}: {}", row.verdict().name(), row.sentence()))
                }
            },
        };
        format_junit("backcast check", &self.rows.iter().map(case).collect::<Vec<_>>())
    }
}
