//! `backcast replay --compare`: two policies side by side on the same sessions.

use crate::cli::ReplayArgs;
use crate::commands::policy::named;
use crate::views::compare_rows::{
    COLUMNS, CompareRow, FIRST, NEVER, SCHEMA_VERSION, SECOND, Side, Watch, compactions, cost, mean, misses,
    misses_credited, peak, side_calls,
};
use crate::views::replay_rows::{Collector, Detail, Replayed};
use anyhow::Result;
use replay::policy::presets::Policies;
use replay::prices::PriceTable;
use replay::sim::oracle::{bound, bound_under};
use replay::sim::trace::Trace;
use replay::sim::uses::Uses;
use replay::sim::{Mode, Setting, by_number, replay, windows_of};
use serde_json::{Value as Json, json};
use std::cmp::Reverse;
use std::io::{self, Write};
use table::words::{count, grouped, percent};
use table::{Column, Format, InTable, Look, Sheet, Unit, column};
use transcript::thread::Session;

/// What the policy is held against.
pub struct Compare {
    /// Both policies, as the command line has them.
    names: [String; 2],
    /// The other policy.
    pub second: Policies,
    /// The bound that drops nothing.
    never: Policies,
}

/// A chain to replay.
pub struct Chain<'a> {
    /// Its session.
    pub session: &'a Session<'a>,
    /// The chain itself.
    pub trace: &'a Trace,
    /// What it used.
    pub uses: &'a Uses,
    /// Median size of the summaries of the corpus.
    pub summary: Option<u64>,
    /// Names the chain.
    pub key: u64,
}

impl Compare {
    /// The policy that `--compare` names, if it is given. The window of the model is a fact about the sessions, so it is
    /// the same for both; everything else that was set belongs to the first.
    pub fn new(args: &ReplayArgs, first: &Policies) -> Result<Option<Compare>> {
        let Some(name) = &args.compare else { return Ok(None) };
        let mut second = named(name)?;
        if let Some(window) = args.policy.window {
            second.assign(&format!("window.tokens={window}"), "--window")?;
        }
        for assignment in &args.compare_set {
            second.assign(assignment, "--compare-set")?;
        }
        let names = [(first, &args.policy.set), (&second, &args.compare_set)]
            .map(|(policies, set)| [std::slice::from_ref(&policies.name), set].concat().join(" "));
        Ok(Some(Compare {
            names,
            second,
            never: named("never")?,
        }))
    }

    /// Replays a chain under both policies and the bounds.
    pub fn chain(&self, first: &Policies, prices: &PriceTable, chain: &Chain<'_>, row: &mut CompareRow) {
        let trace = chain.trace;
        for (policies, side) in std::iter::zip([first, &self.second, &self.never], &mut row.sides) {
            let (by_version, by_model) = by_number(policies, prices, trace);
            let windows = windows_of(trace, &by_version, &by_model);
            let mut replayed = Replayed {
                row: std::mem::take(&mut side.row),
                ..Replayed::default()
            };
            replayed.row.has_working_set = true;
            let detail = Detail::default();
            let collector = Collector::new(
                chain.session.id,
                Some(chain.session),
                trace,
                &windows,
                &by_model,
                &mut replayed,
                detail,
            );
            let mut watch = Watch::new(collector, trace, &mut side.seen);
            let setting = Setting {
                policies: &by_version,
                prices: &by_model,
                windows: &windows,
                summary: chain.summary,
                mode: Mode::Free,
                uses: Some(chain.uses),
                texts: None,
                key: chain.key,
            };
            replay(trace, &setting, &mut watch);
            let peak = watch.finish();
            side.row = replayed.row;
            side.oracle_misses += bound_under(trace, chain.uses, peak).misses;
        }
        if !trace.is_sidechain {
            row.oracle.merge(&bound(trace, chain.uses));
        }
    }
}

/// Rows of all sessions, ready to be written.
pub struct Compared<'a> {
    /// The policies.
    pub compare: &'a Compare,
    /// The sessions.
    pub rows: &'a [CompareRow],
    /// Logs they were read from.
    pub logs: usize,
    /// Most sessions that people are shown; 0 for all.
    pub top: usize,
}

impl Compared<'_> {
    /// Writes them.
    pub fn write(&self, format: Format, look: Look, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.write_text(out, look),
            Format::Json => {
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

    fn count(&self, is_one: impl Fn(&CompareRow) -> bool) -> u64 {
        self.rows.iter().filter(|row| is_one(row)).count() as u64
    }

    fn reached(&self, at: usize) -> u64 {
        self.count(|row| row.sides[at].seen.reached > 0)
    }

    /// Everything as one document.
    pub fn document(&self) -> Json {
        let total = self.total();
        let [first, second, never] = &total.sides;
        let measured = &first.row.measured;
        let all = measured.0 + measured.1;
        json!({
            "schema_version": SCHEMA_VERSION,
            "policies": self.compare.names,
            "totals": {
                "sessions": self.rows.len(),
                "a": figures(|measure| measure(first)),
                "b": figures(|measure| measure(second)),
                "difference": figures(|measure| total.difference(measure)),
            },
            "bounds": {
                "never": figures(|measure| measure(never)),
                "oracle": {
                    "mean": total.oracle.mean(),
                    "peak": total.oracle.peak,
                    "misses": total.oracle.misses,
                    "misses_under_peak_window": {"a": first.oracle_misses, "b": second.oracle_misses},
                },
            },
            "limits": {
                "open_loop": true,
                "sessions_that_reach_a_threshold": {"a": self.reached(FIRST), "b": self.reached(SECOND)},
                "sessions_alike": self.count(is_alike),
                "unpriced_calls": first.row.unpriced,
                "estimated_share": (all > 0).then(|| measured.1 as f64 / all as f64),
            },
            "sessions": self.sheet().to_json(),
        })
    }

    fn write_text(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let total = self.total();
        writeln!(
            out,
            "A: {}\nB: {}\n{} of {}, {}\n",
            self.compare.names[FIRST],
            self.compare.names[SECOND],
            count(self.rows.len() as u64, "session"),
            count(self.logs as u64, "log"),
            count(total.sides[FIRST].row.calls, "call")
        )?;
        let rows = total_rows(&total);
        let sheet = Sheet {
            schema_version: SCHEMA_VERSION,
            columns: TOTAL_COLUMNS,
            rows: &rows,
            total: None,
        };
        sheet.write(Format::Table, look, out)?;
        Self::write_bounds(&total, out)?;
        self.write_lists(out, look)?;
        self.write_limits(&total, out)
    }

    fn write_bounds(total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let [first, second] = [FIRST, SECOND].map(|at| &total.sides[at]);
        writeln!(
            out,
            "\nMisses: edits of lines no longer in the window, restored files not credited,\n  then credited. Mean, peak: windows of main chains. Beside: model calls beside\n  the conversation. The oracle keeps only what a later edit or write needs: a\n  bound, not a target. With the largest windows of A it misses {}, of B {}.",
            grouped(first.oracle_misses),
            grouped(second.oracle_misses)
        )
    }

    /// Sessions that gain and lose most. The rows that are wanted are shared by the lists.
    fn write_lists(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let wanted = if self.top == 0 {
            usize::MAX
        } else {
            self.top.div_ceil(4)
        };
        let by_cost: Weight = |row| row.difference(cost).unwrap_or(0);
        let by_misses: Weight = |row| row.difference(misses).unwrap_or(0);
        let lists: [(&str, Weight, i64, Why); 4] = [
            ("cost less under B", by_cost, -1, CompareRow::why_cost),
            ("cost more under B", by_cost, 1, CompareRow::why_cost),
            ("miss less under B", by_misses, -1, CompareRow::why_misses),
            ("miss more under B", by_misses, 1, CompareRow::why_misses),
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
                grouped(order.len() as u64)
            )?;
            let rows = order.into_iter().take(wanted).map(|row| ListRow {
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
            sheet.write(Format::Table, look, out)?;
        }
        Ok(())
    }

    fn write_limits(&self, total: &CompareRow, out: &mut dyn Write) -> io::Result<()> {
        let all = self.rows.len() as u64;
        let row = &total.sides[FIRST].row;
        writeln!(
            out,
            "\nOpen loop: messages are taken as recorded, whatever a policy dropped, so losses\n  are undercounted. {} of {} sessions reach the threshold of A, {} that of B;\n  {} come out alike. {} of the tokens are estimated.",
            grouped(self.reached(FIRST)),
            grouped(all),
            grouped(self.reached(SECOND)),
            grouped(self.count(is_alike)),
            percent(row.measured.1, row.measured.0 + row.measured.1)
        )?;
        let blocked = [FIRST, SECOND].map(|at| total.sides[at].row.blocked_calls);
        if blocked != [0, 0] {
            writeln!(
                out,
                "Calls that could not be made are not paid for: {} under A, {} under B.",
                grouped(blocked[FIRST]),
                grouped(blocked[SECOND])
            )?;
        }
        if row.unpriced > 0 {
            writeln!(
                out,
                "Calls without a price, left out of costs: {}.",
                grouped(row.unpriced)
            )?;
        }
        Ok(())
    }
}

/// Both policies, their difference, and the bounds around them.
fn total_rows(total: &CompareRow) -> Vec<TotalRow> {
    let of = |name: &'static str, side: &Side| TotalRow::new(name, |measure| measure(side));
    vec![
        of("never (bound)", &total.sides[NEVER]),
        of("A", &total.sides[FIRST]),
        of("B", &total.sides[SECOND]),
        TotalRow::new("B - A", |measure| total.difference(measure)),
        TotalRow {
            name: "oracle (bound)",
            misses: i64::try_from(total.oracle.misses).ok(),
            misses_credited: i64::try_from(total.oracle.misses).ok(),
            mean: total.oracle.mean().and_then(|mean| i64::try_from(mean).ok()),
            peak: i64::try_from(total.oracle.peak).ok(),
            ..TotalRow::default()
        },
    ]
}

/// Whether the policies make no difference to a session.
fn is_alike(row: &CompareRow) -> bool {
    let measures = [cost, compactions, misses, misses_credited, mean, side_calls];
    measures
        .iter()
        .all(|measure| row.difference(*measure).unwrap_or(0) == 0)
}

/// What sessions are ordered by.
type Weight = fn(&CompareRow) -> i64;

/// What is said about one.
type Why = fn(&CompareRow) -> String;

/// A figure of a side.
type Measure = fn(&Side) -> Option<i64>;

fn figures(of: impl Fn(Measure) -> Option<i64>) -> Json {
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
struct TotalRow {
    name: &'static str,
    cost: Option<i64>,
    compactions: Option<i64>,
    misses: Option<i64>,
    misses_credited: Option<i64>,
    mean: Option<i64>,
    peak: Option<i64>,
    side_calls: Option<i64>,
}

impl TotalRow {
    fn new(name: &'static str, of: impl Fn(Measure) -> Option<i64>) -> TotalRow {
        TotalRow {
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

const TOTAL_COLUMNS: &[Column<TotalRow>] = &[
    column("policy", "Policy", Unit::Text, InTable::Always, "Policy.", |row| {
        row.name.into()
    }),
    column("cost", "Cost", Unit::MicroUsd, InTable::Always, "Cost.", |row| {
        row.cost.into()
    }),
    column(
        "compactions",
        "Compact",
        Unit::Count,
        InTable::Always,
        "Boundaries.",
        |row| row.compactions.into(),
    ),
    column("misses", "Misses", Unit::Count, InTable::Always, "Misses.", |row| {
        row.misses.into()
    }),
    column(
        "misses_credited",
        "Credited",
        Unit::Count,
        InTable::Always,
        "Misses, files that came back credited.",
        |row| row.misses_credited.into(),
    ),
    column("mean", "Mean", Unit::Tokens, InTable::Always, "Mean window.", |row| {
        row.mean.into()
    }),
    column(
        "peak",
        "Peak",
        Unit::Tokens,
        InTable::IfRoom,
        "Largest window.",
        |row| row.peak.into(),
    ),
    column(
        "side_calls",
        "Beside",
        Unit::Count,
        InTable::Always,
        "Model calls beside the conversation.",
        |row| row.side_calls.into(),
    ),
];

/// A session that gains or loses.
struct ListRow {
    session: String,
    cost: Option<i64>,
    misses: Option<i64>,
    why: String,
}

const LIST_COLUMNS: &[Column<ListRow>] = &[
    column(
        "session",
        "Session",
        Unit::Text,
        InTable::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "cost",
        "Cost",
        Unit::MicroUsd,
        InTable::Always,
        "Difference of costs.",
        |row| row.cost.into(),
    ),
    column(
        "misses",
        "Misses",
        Unit::Count,
        InTable::Always,
        "Difference of misses.",
        |row| row.misses.into(),
    ),
    column("why", "Why", Unit::Text, InTable::Always, "Why.", |row| {
        row.why.as_str().into()
    }),
];
