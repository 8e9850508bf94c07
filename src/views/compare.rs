//! `backcast replay --compare`: the JSON document, and the sentences and tables for people.

mod rows;

use crate::page::pack::sheet_to_columns;
use crate::usage::account::UsageAccount;
use crate::views::short_id;
pub use rows::{COLUMNS, CompareCollector, CompareRow, CompareSide, DifferenceCounts};
use rows::{
    FIRST_SIDE, NEVER_SIDE, SECOND_SIDE, SideMetric, compactions, cost, mean, misses, misses_credited, peak, side_calls,
};
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::io::{self, Write};
use table::human::{format_count, format_dollars, format_percent, group_digits};
use table::{Legend, OutputFormat, OutputSchema, Sheet, TableStyle, columns, write_json};

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("compare", 1);

/// The comparison of two policies on all sessions.
pub struct ComparisonReport<'a> {
    /// Both policies with their settings.
    pub names: &'a [String; 2],
    pub rows: &'a [CompareRow],
    /// Number of logs.
    pub logs: usize,
    /// What the logs hold, whatever is replayed.
    pub account: &'a UsageAccount,
    /// The filters in words; empty if everything counts.
    pub selection: &'a str,
    /// Sessions in all lists together; 0 for all.
    pub top: usize,
}

impl ComparisonReport<'_> {
    pub fn write(&self, format: OutputFormat, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(out, style),
            OutputFormat::Json => write_json(&self.document(), out),
            format => self.sheet().write(format, style, out),
        }
    }

    fn sheet(&self) -> Sheet<'_, CompareRow> {
        SCHEMA.sheet(COLUMNS, self.rows)
    }

    fn total(&self) -> CompareRow {
        let mut total = CompareRow::default();
        for row in self.rows {
            total.merge(row);
        }
        total
    }

    fn count_rows(&self, is_one: impl Fn(&CompareRow) -> bool) -> u64 {
        self.rows.iter().filter(|row| is_one(row)).count() as u64
    }

    fn count_reached(&self, at: usize) -> u64 {
        self.count_rows(|row| row.sides[at].counts.reached > 0)
    }

    /// Returns the document for other programs.
    pub fn document(&self) -> Json {
        self.document_with(self.sheet().to_json())
    }

    /// Returns the document for the page, with the sessions as columns.
    pub fn page_document(&self) -> Json {
        self.document_with(sheet_to_columns(&self.sheet(), |_, _| ()))
    }

    fn document_with(&self, sessions: Json) -> Json {
        let total = self.total();
        let [first, second, never] = &total.sides;
        SCHEMA.document(json!({
            "policies": self.names,
            "recorded": self.account.to_json(),
            "totals": {
                "sessions": self.account.sessions,
                "a": figures_json(|measure| measure(first)),
                "b": figures_json(|measure| measure(second)),
                "difference": figures_json(|measure| total.difference(measure)),
            },
            "bounds": {
                "never": figures_json(|measure| measure(never)),
                "oracle": {
                    "mean": total.oracle.mean(),
                    "peak": total.oracle.peak,
                    "misses": total.oracle.misses,
                    "misses_under_peak_window": {"a": first.oracle_misses, "b": second.oracle_misses},
                },
            },
            "limits": {
                "open_loop": true,
                "sessions_that_reach_a_threshold": {"a": self.count_reached(FIRST_SIDE), "b": self.count_reached(SECOND_SIDE)},
                "sessions_alike": self.count_rows(has_no_difference),
                "unpriced_calls": first.row.costs.unpriced_calls,
                "estimated_share": first.row.window.estimated_share(),
            },
            "sessions": sessions,
        }))
    }

    fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let total = self.total();
        writeln!(out, "{}", self.answer(&total))?;
        writeln!(
            out,
            "A: {}\nB: {}\n{} of {}, {}{}\n",
            self.names[FIRST_SIDE],
            self.names[SECOND_SIDE],
            format_count(self.account.sessions, "session"),
            format_count(self.logs as u64, "log"),
            format_count(total.sides[FIRST_SIDE].row.calls.made, "call"),
            match self.selection {
                "" => String::new(),
                selection => format!(" ({selection})"),
            }
        )?;
        let rows = total_rows(&total);
        SCHEMA
            .sheet(TOTAL_TABLE, &rows)
            .write_with_legend(TOTAL_LEGEND, style, out)?;
        Self::write_bounds(&total, out)?;
        self.write_lists(out, style)?;
        self.write_caveats(&total, out)
    }

    /// Returns what the second policy would change, in one sentence.
    fn answer(&self, total: &CompareRow) -> String {
        let cost = match total.difference(cost) {
            None => "cost an unknown amount".to_owned(),
            Some(0) => "cost the same as A".to_owned(),
            Some(more) if more > 0 => format!("cost {} more than A", format_dollars(more)),
            Some(less) => format!("cost {} less than A", format_dollars(-less)),
        };
        let times = match total.difference(compactions).unwrap_or(0) {
            0 => "compact as often".to_owned(),
            more if more > 0 => format!("compact {}", format_count(more.unsigned_abs(), "more time")),
            fewer => format!("compact {}", format_count(fewer.unsigned_abs(), "fewer time")),
        };
        let edits = match total.difference(misses).unwrap_or(0) {
            0 => "miss the lines of as many edits".to_owned(),
            more if more > 0 => format!("miss the lines of {}", format_count(more.unsigned_abs(), "more edit")),
            fewer => format!("miss the lines of {}", format_count(fewer.unsigned_abs(), "fewer edit")),
        };
        format!("B would {cost}, {times}, and {edits}.")
    }

    fn write_bounds(total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let [first, second] = [FIRST_SIDE, SECOND_SIDE].map(|at| &total.sides[at]);
        writeln!(
            out,
            "The oracle keeps only what a later edit or write needs: a bound, not a target. With the largest windows of A it misses {}, with those of B {}.",
            group_digits(first.oracle_misses),
            group_digits(second.oracle_misses)
        )
    }

    /// Writes the sessions that gain and lose most. The four lists share the number of rows.
    fn write_lists(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let wanted = if self.top == 0 {
            usize::MAX
        } else {
            self.top.div_ceil(4)
        };
        let by_cost: RowWeight = |row| row.difference(cost).unwrap_or(0);
        let by_misses: RowWeight = |row| row.difference(misses).unwrap_or(0);
        let lists: [(&str, &str, RowWeight, i64, RowExplanation); 4] = [
            ("cost", "less under B", by_cost, -1, CompareRow::explain_cost),
            ("cost", "more under B", by_cost, 1, CompareRow::explain_cost),
            ("miss", "less under B", by_misses, -1, CompareRow::explain_misses),
            ("miss", "more under B", by_misses, 1, CompareRow::explain_misses),
        ];
        for (verb, what, weight, sign, why) in lists {
            let mut order = self
                .rows
                .iter()
                .filter(|row| weight(row) * sign > 0)
                .collect::<Vec<_>>();
            if order.is_empty() {
                continue;
            }
            order.sort_by_key(|row| Reverse(weight(row) * sign));
            let sessions = match (order.len(), verb) {
                (1, "miss") => "session misses".to_owned(),
                (1, verb) => format!("session {verb}s"),
                (_, verb) => format!("sessions {verb}"),
            };
            let shown = if order.len() > wanted {
                format!("{wanted} shown, ")
            } else {
                String::new()
            };
            writeln!(
                out,
                "\n{} {sessions} {what} ({shown}B less A):",
                group_digits(order.len() as u64)
            )?;
            let rows = order.into_iter().take(wanted).map(|row| SessionDeltaRow {
                session: short_id(&row.session),
                cost: row.difference(cost),
                misses: row.difference(misses),
                why: why(row),
            });
            let rows = rows.collect::<Vec<_>>();
            SCHEMA
                .sheet(DELTA_TABLE, &rows)
                .write(OutputFormat::Table, style, out)?;
        }
        Ok(())
    }

    fn write_caveats(&self, total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let all = self.account.sessions;
        let row = &total.sides[FIRST_SIDE].row;
        writeln!(
            out,
            "\nOpen loop: messages are as recorded, whatever a policy dropped, so losses are undercounted. {} of {} sessions reach the threshold of A, {} that of B; {} come out the same. {} of the tokens are estimated.",
            group_digits(self.count_reached(FIRST_SIDE)),
            group_digits(all),
            group_digits(self.count_reached(SECOND_SIDE)),
            group_digits(self.count_rows(has_no_difference)),
            format_percent(row.window.estimated_tokens, row.window.block_tokens())
        )?;
        let blocked = [FIRST_SIDE, SECOND_SIDE].map(|at| total.sides[at].row.calls.blocked);
        if blocked != [0, 0] {
            writeln!(
                out,
                "Calls that could not be made are not paid for: {} under A, {} under B.",
                group_digits(blocked[FIRST_SIDE]),
                group_digits(blocked[SECOND_SIDE])
            )?;
        }
        if row.costs.unpriced_calls > 0 {
            writeln!(
                out,
                "Calls without a price, left out of costs: {}.",
                group_digits(row.costs.unpriced_calls)
            )?;
        }
        Ok(())
    }
}

/// Words of the table of totals.
const TOTAL_LEGEND: Legend<'_> = &[
    ("Compact", "compactions"),
    ("Misses", "edits that needed lines no longer in the window"),
    ("Credited", "the same, if files that came back count as there"),
    ("Mean", "window of the main agent"),
    ("Peak", "the largest"),
    ("Side", "calls for summaries, notes and extraction"),
];

/// Returns both policies, their difference, and the bounds around them.
fn total_rows(total: &CompareRow) -> Vec<PolicyTotalRow> {
    let of = |name: &'static str, side: &CompareSide| PolicyTotalRow::new(name, |measure| measure(side));
    vec![
        of("never (bound)", &total.sides[NEVER_SIDE]),
        of("A", &total.sides[FIRST_SIDE]),
        of("B", &total.sides[SECOND_SIDE]),
        PolicyTotalRow::new("B - A", |measure| total.difference(measure)),
        PolicyTotalRow {
            name: "oracle (bound)",
            misses: i64::try_from(total.oracle.misses).ok(),
            misses_credited: i64::try_from(total.oracle.misses).ok(),
            mean: total.oracle.mean().and_then(|mean| i64::try_from(mean).ok()),
            peak: i64::try_from(total.oracle.peak).ok(),
            ..PolicyTotalRow::default()
        },
    ]
}

/// Whether both policies have the same effect on a session.
fn has_no_difference(row: &CompareRow) -> bool {
    let measures = [cost, compactions, misses, misses_credited, mean, side_calls];
    measures
        .iter()
        .all(|measure| row.difference(*measure).unwrap_or(0) == 0)
}

/// Orders sessions.
type RowWeight = fn(&CompareRow) -> i64;

/// Explains the difference of a session.
type RowExplanation = fn(&CompareRow) -> String;

fn figures_json(of: impl Fn(SideMetric) -> Option<i64>) -> Json {
    json!({
        "cost_micro_usd": of(cost),
        "compactions": of(compactions),
        "misses": of(misses),
        "misses_credited": of(misses_credited),
        "mean": of(mean),
        "peak": of(peak),
        "side_calls": of(side_calls),
    })
}

/// The totals of a policy, a difference or a bound.
#[derive(Default)]
struct PolicyTotalRow {
    name: &'static str,
    cost: Option<i64>,
    compactions: Option<i64>,
    misses: Option<i64>,
    misses_credited: Option<i64>,
    mean: Option<i64>,
    peak: Option<i64>,
    side_calls: Option<i64>,
}

impl PolicyTotalRow {
    fn new(name: &'static str, of: impl Fn(SideMetric) -> Option<i64>) -> PolicyTotalRow {
        PolicyTotalRow {
            name,
            cost: of(cost),
            compactions: of(compactions),
            misses: of(misses),
            misses_credited: of(misses_credited),
            mean: of(mean),
            peak: of(peak),
            side_calls: of(side_calls),
        }
    }
}

columns! {
    TOTAL_TABLE: PolicyTotalRow;
    "policy" "Policy" Text Always "Policy." |r| r.name;
    "cost" "Cost" MicroUsd Always "Cost." |r| r.cost;
    "compactions" "Compact" Count Always "Boundaries." |r| r.compactions;
    "misses" "Misses" Count Always "Misses." |r| r.misses;
    "misses_credited" "Credited" Count Always "Misses, files that came back credited." |r| r.misses_credited;
    "mean" "Mean" Tokens Always "Mean window." |r| r.mean;
    "peak" "Peak" Tokens IfRoom "Largest window." |r| r.peak;
    "side_calls" "Side" Count Always "Side calls (summaries, notes, extraction)." |r| r.side_calls;
}

/// A session that gains or loses.
struct SessionDeltaRow {
    session: String,
    cost: Option<i64>,
    misses: Option<i64>,
    why: String,
}

columns! {
    DELTA_TABLE: SessionDeltaRow;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "cost" "Cost" MicroUsd Always "Difference of costs." |r| r.cost;
    "misses" "Misses" Count Always "Difference of misses." |r| r.misses;
    "why" "Why" Text Always "Why." |r| &r.why;
}
