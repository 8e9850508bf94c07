//! What `backcast validate` prints for people, of the report in `super`.

use super::rows::{REASON_TABLE, ReasonRow, VERSION_TABLE, VersionRow};
use super::{CASE_COLUMNS, CaseRow, SCHEMA, ValidationReport, relative_cost_error};
use replay::audit::first_edits::{COPY_STATES, NextTouches};
use replay::audit::validate::{CaseVerdict, Mechanism};
use replay::prices::micro_usd;
use replay::quantile::quantile;
use replay::windows::WindowConfidence;
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::human::{format_count, format_count_with_plural, format_dollars, format_percent, group_digits};
use table::{Legend, OutputFormat, Sheet, TableStyle};

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

impl ValidationReport<'_> {
    /// Writes the answer, the scores by version, the errors and the cases.
    pub(super) fn write_text(&self, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
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
