//! `backcast replay --compare`: two policies side by side on the same sessions.

use crate::cli::ReplayArgs;
use crate::commands::policy::load_policy;
use crate::views::compare_rows::{
    COLUMNS, CompareRow, CompareSide, FIRST_SIDE, NEVER_SIDE, SCHEMA_VERSION, SECOND_SIDE, compactions, cost, mean,
    misses, misses_credited, peak, side_calls,
};
use anyhow::Result;
use replay::policy::presets::PolicySet;
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::io::{self, Write};
use table::words::{format_count, format_percent, group_digits};
use table::{Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility, column};

/// The policies that a policy is compared with.
pub struct Comparison {
    /// Both policies, as the command line has them.
    names: [String; 2],
    /// The other policies that have to be replayed: the second one, and `never` as a bound. One that equals another is left
    /// out.
    others: Vec<PolicySet>,
    /// By side: the number of its policy, where 0 is the first policy and others follow.
    by_side: [usize; 3],
    /// The second policy, as it was named.
    pub second: PolicySet,
}

impl Comparison {
    /// The policy that `--compare` names, if it is given. The window of the model is a fact about the sessions, so it is
    /// the same for both; everything else that was set belongs to the first.
    pub fn new(args: &ReplayArgs, first: &PolicySet) -> Result<Option<Comparison>> {
        let Some(name) = &args.compare else { return Ok(None) };
        let mut second = load_policy(name)?;
        if let Some(window) = args.policy.window {
            second.assign(&format!("window.tokens={window}"), "--window")?;
        }
        for assignment in &args.compare_set {
            second.assign(assignment, "--compare-set")?;
        }
        let names = [(first, &args.policy.set), (&second, &args.compare_set)]
            .map(|(policies, set)| [std::slice::from_ref(&policies.name), set].concat().join(" "));
        Ok(Some(Comparison::of_policies(
            names,
            first,
            second,
            load_policy("never")?,
        )))
    }

    fn of_policies(names: [String; 2], first: &PolicySet, second: PolicySet, never: PolicySet) -> Comparison {
        let mut others = Vec::<PolicySet>::new();
        let by_side = [first, &second, &never].map(|policies| {
            // Equal policies have equal results, whatever they are called.
            let is_same = |known: &PolicySet| known.ranges() == policies.ranges();
            if is_same(first) {
                return 0;
            }
            let known = others.iter().position(is_same);
            1 + known.unwrap_or_else(|| {
                others.push(policies.clone());
                others.len() - 1
            })
        });
        Comparison {
            names,
            others,
            by_side,
            second,
        }
    }

    /// Returns the policies that are replayed beside the first.
    pub fn other_policies(&self) -> &[PolicySet] {
        &self.others
    }

    /// Returns all sides, given the results of each policy that was replayed: 0 is the first, then follow the others.
    pub fn sides(&self, side: impl Fn(usize) -> CompareSide) -> [CompareSide; 3] {
        self.by_side.map(side)
    }
}

/// Rows of all sessions, ready to be written.
pub struct ComparisonReport<'a> {
    /// The policies.
    pub comparison: &'a Comparison,
    /// The sessions.
    pub rows: &'a [CompareRow],
    /// Logs they were read from.
    pub logs: usize,
    /// Most sessions that people are shown; 0 for all.
    pub top: usize,
}

impl ComparisonReport<'_> {
    /// Writes them.
    pub fn write(&self, format: OutputFormat, look: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(out, look),
            OutputFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document())?;
                writeln!(out)
            }
            format => self.sheet().write(format, look, out),
        }
    }

    fn sheet(&self) -> Sheet<'_, CompareRow> {
        Sheet {
            schema_version: SCHEMA_VERSION,
            columns: COLUMNS,
            rows: self.rows,
            total: None,
        }
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

    /// Everything as one document.
    pub fn document(&self) -> Json {
        let total = self.total();
        let [first, second, never] = &total.sides;
        let measured = &first.row.measured;
        let all = measured.0 + measured.1;
        json!({
            "schema_version": SCHEMA_VERSION,
            "policies": self.comparison.names,
            "totals": {
                "sessions": self.rows.len(),
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
                "unpriced_calls": first.row.unpriced,
                "estimated_share": (all > 0).then(|| measured.1 as f64 / all as f64),
            },
            "sessions": self.sheet().to_json(),
        })
    }

    fn write_text(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let total = self.total();
        writeln!(
            out,
            "A: {}\nB: {}\n{} of {}, {}\n",
            self.comparison.names[FIRST_SIDE],
            self.comparison.names[SECOND_SIDE],
            format_count(self.rows.len() as u64, "session"),
            format_count(self.logs as u64, "log"),
            format_count(total.sides[FIRST_SIDE].row.calls, "call")
        )?;
        let rows = total_rows(&total);
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: TOTAL_COLUMNS,
            rows: &rows,
            total: None,
        };
        sheet.write(OutputFormat::Table, look, out)?;
        Self::write_bounds(&total, out)?;
        self.write_lists(out, look)?;
        self.write_caveats(&total, out)
    }

    fn write_bounds(total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let [first, second] = [FIRST_SIDE, SECOND_SIDE].map(|at| &total.sides[at]);
        writeln!(
            out,
            "\nMisses: edits of lines no longer in the window, restored files not credited,\n  then credited. Mean, peak: windows of main chains. Beside: model calls beside\n  the conversation. The oracle keeps only what a later edit or write needs: a\n  bound, not a target. With the largest windows of A it misses {}, of B {}.",
            group_digits(first.oracle_misses),
            group_digits(second.oracle_misses)
        )
    }

    /// Sessions that gain and lose most. The rows that are wanted are shared by the lists.
    fn write_lists(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let wanted = if self.top == 0 {
            usize::MAX
        } else {
            self.top.div_ceil(4)
        };
        let by_cost: RowWeight = |row| row.difference(cost).unwrap_or(0);
        let by_misses: RowWeight = |row| row.difference(misses).unwrap_or(0);
        let lists: [(&str, RowWeight, i64, RowExplanation); 4] = [
            ("cost less under B", by_cost, -1, CompareRow::explain_cost),
            ("cost more under B", by_cost, 1, CompareRow::explain_cost),
            ("miss less under B", by_misses, -1, CompareRow::explain_misses),
            ("miss more under B", by_misses, 1, CompareRow::explain_misses),
        ];
        for (what, weight, sign, why) in lists {
            let mut order = self
                .rows
                .iter()
                .filter(|row| weight(row) * sign > 0)
                .collect::<Vec<_>>();
            if order.is_empty() {
                continue;
            }
            order.sort_by_key(|row| Reverse(weight(row) * sign));
            let sessions = if order.len() == 1 { "session" } else { "sessions" };
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
                session: row.session.chars().take(8).collect(),
                cost: row.difference(cost),
                misses: row.difference(misses),
                why: why(row),
            });
            let sheet = Sheet {
                schema_version: SCHEMA_VERSION,
                columns: LIST_COLUMNS,
                rows: &rows.collect::<Vec<_>>(),
                total: None,
            };
            sheet.write(OutputFormat::Table, look, out)?;
        }
        Ok(())
    }

    fn write_caveats(&self, total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let all = self.rows.len() as u64;
        let row = &total.sides[FIRST_SIDE].row;
        writeln!(
            out,
            "\nOpen loop: messages are taken as recorded, whatever a policy dropped, so losses\n  are undercounted. {} of {} sessions reach the threshold of A, {} that of B;\n  {} come out alike. {} of the tokens are estimated.",
            group_digits(self.count_reached(FIRST_SIDE)),
            group_digits(all),
            group_digits(self.count_reached(SECOND_SIDE)),
            group_digits(self.count_rows(has_no_difference)),
            format_percent(row.measured.1, row.measured.0 + row.measured.1)
        )?;
        let blocked = [FIRST_SIDE, SECOND_SIDE].map(|at| total.sides[at].row.blocked_calls);
        if blocked != [0, 0] {
            writeln!(
                out,
                "Calls that could not be made are not paid for: {} under A, {} under B.",
                group_digits(blocked[FIRST_SIDE]),
                group_digits(blocked[SECOND_SIDE])
            )?;
        }
        if row.unpriced > 0 {
            writeln!(
                out,
                "Calls without a price, left out of costs: {}.",
                group_digits(row.unpriced)
            )?;
        }
        Ok(())
    }
}

/// Both policies, their difference, and the bounds around them.
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

/// Whether the policies make no difference to a session.
fn has_no_difference(row: &CompareRow) -> bool {
    let measures = [cost, compactions, misses, misses_credited, mean, side_calls];
    measures
        .iter()
        .all(|measure| row.difference(*measure).unwrap_or(0) == 0)
}

/// What sessions are ordered by.
type RowWeight = fn(&CompareRow) -> i64;

/// What is said about one.
type RowExplanation = fn(&CompareRow) -> String;

/// A figure of a side.
type SideMeasure = fn(&CompareSide) -> Option<i64>;

fn figures_json(of: impl Fn(SideMeasure) -> Option<i64>) -> Json {
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

/// What all sessions come to under a policy.
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
    fn new(name: &'static str, of: impl Fn(SideMeasure) -> Option<i64>) -> PolicyTotalRow {
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

const TOTAL_COLUMNS: &[Column<PolicyTotalRow>] = &[
    column(
        "policy",
        "Policy",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Policy.",
        |row| row.name.into(),
    ),
    column(
        "cost",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Cost.",
        |row| row.cost.into(),
    ),
    column(
        "compactions",
        "Compact",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Boundaries.",
        |row| row.compactions.into(),
    ),
    column(
        "misses",
        "Misses",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Misses.",
        |row| row.misses.into(),
    ),
    column(
        "misses_credited",
        "Credited",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Misses, files that came back credited.",
        |row| row.misses_credited.into(),
    ),
    column(
        "mean",
        "Mean",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Mean window.",
        |row| row.mean.into(),
    ),
    column(
        "peak",
        "Peak",
        ColumnUnit::Tokens,
        TableVisibility::IfRoom,
        "Largest window.",
        |row| row.peak.into(),
    ),
    column(
        "side_calls",
        "Beside",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Model calls beside the conversation.",
        |row| row.side_calls.into(),
    ),
];

/// A session that gains or loses.
struct SessionDeltaRow {
    session: String,
    cost: Option<i64>,
    misses: Option<i64>,
    why: String,
}

const LIST_COLUMNS: &[Column<SessionDeltaRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "cost",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Difference of costs.",
        |row| row.cost.into(),
    ),
    column(
        "misses",
        "Misses",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Difference of misses.",
        |row| row.misses.into(),
    ),
    column("why", "Why", ColumnUnit::Text, TableVisibility::Always, "Why.", |row| {
        row.why.as_str().into()
    }),
];
