//! `backcast overview`, and `backcast` alone: the first look. Everything on it comes from the summary of a run, so that it is
//! there at once when the logs are as they were.

use crate::cli::memory::DocumentFormat;
use crate::cli::{Cli, CliCommand, OverviewArgs};
use crate::commands::RunStatus;
use crate::commands::reading::{problem_counts, report_problems_if_asked};
use crate::commands::times::{parse_zone, start_of_last_days};
use crate::commands::writing::{OutputTarget, load_prices, write_output};
use crate::run::{LogNeeds, summarize, with_logs};
use crate::usage::session::{BoundaryCounts, ReportOptions, SessionReport};
use crate::usage::summary::UsageSummary;
use crate::usage::tally;
use crate::usage::tally::{GroupBy, UsageRow, UsageSums, group_calls, window_series};
use anyhow::Result;
use clap::Parser;
use jiff::tz::TimeZone;
use replay::prices::{PriceTable, micro_usd};
use replay::quantile::quantile;
use replay::tokens::ledger::{CATEGORIES, Category};
use replay::tokens::ratios::RatioTable;
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, Write};
use table::words::{format_count, format_percent, format_size, group_digits, shell_quote};
use table::{
    Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility, Tone, bar, column, for_people, format_time,
    sparkline,
};
use transcript::log::{NO_TIME, Time};
use transcript::problem::Problem;

/// Version of the JSON document; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Days of the drawing.
const DAYS_SHOWN: u32 = 30;

/// Costliest sessions shown.
const SESSIONS_SHOWN: usize = 3;

/// Without any arguments: an overview of the user's own sessions.
pub fn run_default() -> Result<RunStatus> {
    match Cli::try_parse_from(["backcast", "overview"])?.command {
        Some(CliCommand::Overview(args)) => run(&args),
        _ => Ok(RunStatus::Done),
    }
}

/// Runs it.
pub fn run(args: &OverviewArgs) -> Result<RunStatus> {
    let zone = parse_zone(&args.timezone)?;
    let prices = load_prices(args.prices.as_deref())?;
    let (summary, logs, problems) = with_logs(&args.input, LogNeeds::default(), |source| {
        let logs = source.logs.len();
        let table = RatioTable::built_in();
        let (mut summary, _) = summarize(source.logs, &source.options, table, &ReportOptions::default());
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        problems.sort();
        (summary, logs, problems)
    })?;
    let overview = OverviewView::new(args, &summary, logs, &problems, &zone, &prices);
    let format = match args.format {
        DocumentFormat::Text => OutputFormat::Table,
        DocumentFormat::Json => OutputFormat::Json,
    };
    write_output(OutputTarget::stdout(format), |out, look| match args.format {
        DocumentFormat::Text => overview.write_text(out, look),
        DocumentFormat::Json => overview.write_json(out),
    })?;
    // What matters of the problems is on the screen already.
    Ok(report_problems_if_asked(&args.input, &problems))
}

/// Calls of a stretch of time.
struct UsagePeriod {
    name: String,
    sessions: usize,
    sums: UsageSums,
}

/// Cells that no format but the table has need no meaning.
const PERIOD_COLUMNS: &[Column<UsagePeriod>] = &[
    column(
        "period",
        "Spent",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Stretch of time.",
        |row| row.name.as_str().into(),
    ),
    column(
        "sessions",
        "Sessions",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Sessions with calls.",
        |row| row.sessions.into(),
    ),
    column(
        "calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Always,
        "API calls.",
        |row| row.sums.responses.into(),
    ),
    column(
        "input",
        "Sent",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Input tokens.",
        |row| tokens_sent(&row.sums).into(),
    ),
    column(
        "cached",
        "Cached",
        ColumnUnit::Share,
        TableVisibility::Always,
        "Read from the cache.",
        |row| {
            let sent = tokens_sent(&row.sums);
            (sent > 0).then(|| row.sums.cache_read as f64 / sent as f64).into()
        },
    ),
    column(
        "output",
        "Output",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Output tokens.",
        |row| row.sums.output.into(),
    ),
    column(
        "cost",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Cost.",
        |row| row.sums.cost_micro_usd().into(),
    ),
];

fn tokens_sent(sums: &UsageSums) -> u64 {
    sums.input + sums.cache_read + sums.write_5m + sums.write_1h
}

/// A category of the ledger.
struct CategoryRow {
    name: String,
    share: f64,
    most: String,
}

const CATEGORY_COLUMNS: &[Column<CategoryRow>] = &[
    column(
        "category",
        "What fills the window",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Category.",
        |row| row.name.as_str().into(),
    ),
    column(
        "share",
        "Share",
        ColumnUnit::Share,
        TableVisibility::Always,
        "Share of all tokens.",
        |row| row.share.into(),
    ),
    column(
        "bar",
        "",
        ColumnUnit::Drawing,
        TableVisibility::Always,
        "The share, drawn.",
        |row| bar(row.share, 20).into(),
    ),
    column(
        "most",
        "Most of it",
        ColumnUnit::Text,
        TableVisibility::IfRoom,
        "Tools or kinds.",
        |row| row.most.as_str().into(),
    ),
];

/// A session.
struct CostlySessionRow {
    session: String,
    project: String,
    calls: u64,
    peak: u64,
    cost: Option<i64>,
    course: Vec<u64>,
}

const COSTLY_COLUMNS: &[Column<CostlySessionRow>] = &[
    column(
        "session",
        "Costliest",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| row.session.chars().take(8).collect::<String>().into(),
    ),
    column(
        "project",
        "Project",
        ColumnUnit::Text,
        TableVisibility::IfRoom,
        "Working directory.",
        |row| row.project.as_str().into(),
    ),
    column(
        "calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Always,
        "API calls.",
        |row| row.calls.into(),
    ),
    column(
        "peak",
        "Peak",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Largest window.",
        |row| row.peak.into(),
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
        "window",
        "Window, call by call",
        ColumnUnit::Drawing,
        TableVisibility::Always,
        "Its course.",
        |row| sparkline(&row.course, 20).into(),
    ),
];

/// What is shown.
struct OverviewView<'a> {
    args: &'a OverviewArgs,
    summary: &'a UsageSummary,
    logs: usize,
    problems: &'a [Problem],
    zone: &'a TimeZone,
    newest: Option<Time>,
    periods: Vec<UsagePeriod>,
    days: Vec<(String, u64)>,
    categories: Vec<CategoryRow>,
    costliest: Vec<CostlySessionRow>,
}

impl<'a> OverviewView<'a> {
    fn new(
        args: &'a OverviewArgs,
        summary: &'a UsageSummary,
        logs: usize,
        problems: &'a [Problem],
        zone: &'a TimeZone,
        prices: &PriceTable,
    ) -> OverviewView<'a> {
        let calls = summary.calls.iter().flatten().filter(|call| !call.is_progress);
        let newest = calls.map(|call| call.time).filter(|time| *time != NO_TIME).max();
        let rows = |by| group_calls(summary, by, false, zone, prices).rows;
        let (sessions, by_day) = (rows(GroupBy::Session), rows(GroupBy::Day));
        OverviewView {
            args,
            summary,
            logs,
            problems,
            zone,
            newest,
            periods: usage_periods(&by_day, newest, zone),
            days: daily_costs(&by_day, newest, zone),
            categories: largest_categories(summary),
            costliest: costliest_sessions(&sessions, summary),
        }
    }

    fn write_text(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let summary = self.summary;
        writeln!(
            out,
            "{} logs, {} sessions, {} lines, {}{}\n",
            group_digits(self.logs as u64),
            group_digits(self.active_sessions().count() as u64),
            group_digits(summary.facts.lines),
            format_size(summary.facts.bytes),
            self.date_range()
        )?;
        sheet(PERIOD_COLUMNS, &self.periods).write(OutputFormat::Table, look, out)?;
        self.write_days(out)?;
        writeln!(out)?;
        if !self.categories.is_empty() {
            sheet(CATEGORY_COLUMNS, &self.categories).write(OutputFormat::Table, look, out)?;
            writeln!(out)?;
        }
        self.write_compactions(out, look)?;
        if !self.costliest.is_empty() {
            writeln!(out)?;
            sheet(COSTLY_COLUMNS, &self.costliest).write(OutputFormat::Table, look, out)?;
        }
        self.write_caveats(out, look)?;
        writeln!(out, "\n{}", look.paint(Tone::Strong, "Next"))?;
        let next = self.next_commands();
        let widest = next
            .iter()
            .map(|(command, _)| command.chars().count())
            .max()
            .unwrap_or(0);
        let has_room = next.iter().all(|(_, about)| widest + about.len() + 4 <= look.width);
        for (command, about) in next {
            let about = look.paint(Tone::Faint, about);
            // Long paths push the explanations to lines of their own.
            if has_room {
                writeln!(out, "  {command:<widest$}  {about}")?;
            } else {
                writeln!(out, "  {command}\n      {about}")?;
            }
        }
        Ok(())
    }

    fn active_sessions(&self) -> impl Iterator<Item = &SessionReport> {
        self.summary.sessions.iter().filter(|session| session.times.is_some())
    }

    /// From when to when.
    fn date_range(&self) -> String {
        let times = || self.active_sessions().filter_map(|session| session.times);
        let first = times().map(|times| times.0).min();
        let last = times().map(|times| times.1).max();
        let day = |time: Option<Time>| Some(tally::day_of(time?, self.zone));
        match (day(first), day(last)) {
            (Some(first), Some(last)) => format!("; {first} to {last}"),
            _ => String::new(),
        }
    }

    fn write_days(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some((day, most)) = self.days.iter().max_by_key(|(day, cost)| (*cost, Reverse(day))) else {
            return Ok(());
        };
        if *most == 0 {
            return Ok(());
        }
        let costs = self.days.iter().map(|(_, cost)| *cost).collect::<Vec<_>>();
        writeln!(
            out,
            "By day, {DAYS_SHOWN} days: {}  most {} on {day}",
            sparkline(&costs, DAYS_SHOWN as usize),
            for_people(ColumnUnit::MicroUsd, &(*most).into())
        )
    }

    fn write_compactions(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        writeln!(out, "{}", look.paint(Tone::Strong, "When sessions compact"))?;
        let (auto, manual, micro) = (
            self.count_boundaries(|it| it.auto),
            self.count_boundaries(|it| it.manual),
            self.count_boundaries(|it| it.micro),
        );
        let compacted = self
            .active_sessions()
            .filter(|session| session.boundaries.auto + session.boundaries.manual > 0)
            .count() as u64;
        let sessions = self.active_sessions().count() as u64;
        if compacted == 0 {
            let peak = self
                .active_sessions()
                .map(|session| session.occupancy.peak)
                .max()
                .unwrap_or(0);
            return writeln!(
                out,
                "None of them did; the largest window was {} tokens.",
                format_tokens(peak)
            );
        }
        writeln!(
            out,
            "{} of {} ({}): {} automatic, {} by hand{}.",
            group_digits(compacted),
            format_count(sessions, "session"),
            format_percent(compacted, sessions),
            group_digits(auto),
            group_digits(manual),
            if micro > 0 {
                format!(", {} micro", group_digits(micro))
            } else {
                String::new()
            }
        )?;
        if let Some(peak) = self.median_peak() {
            writeln!(
                out,
                "Where it was automatic, the window had reached {} in the median.",
                format_tokens(peak)
            )?;
        }
        Ok(())
    }

    fn count_boundaries(&self, of: fn(&BoundaryCounts) -> u64) -> u64 {
        self.active_sessions().map(|session| of(&session.boundaries)).sum()
    }

    /// Of the sessions that were compacted automatically.
    fn median_peak(&self) -> Option<u64> {
        let compacted = self.active_sessions().filter(|session| session.boundaries.auto > 0);
        let mut peaks = compacted
            .map(|session| session.occupancy.peak)
            .filter(|peak| *peak > 0)
            .collect::<Vec<_>>();
        peaks.sort_unstable();
        quantile(&peaks, 0.5)
    }

    /// What the figures above do not hold.
    fn write_caveats(&self, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        let all = self.periods.last().map_or(0, |period| period.sums.unpriced);
        if all > 0 {
            let text = format!(
                "No price is known for {}: `backcast stats --by model` names them.",
                format_count(all, "call")
            );
            writeln!(out, "\n{}", look.paint(Tone::Doubtful, &text))?;
        }
        let lost = self.problems.iter().filter(|problem| problem.kind.is_loss()).count() as u64;
        if lost > 0 {
            let text = format!(
                "Input was lost in {}; --problems lists them.",
                format_count(lost, "place")
            );
            let gap = if all > 0 { "" } else { "\n" };
            writeln!(out, "{gap}{}", look.paint(Tone::Doubtful, &text))?;
        }
        Ok(())
    }

    /// Three commands that go deeper, for the same logs.
    fn next_commands(&self) -> [(String, &'static str); 3] {
        let paths = &self.args.input.paths;
        let paths = paths
            .iter()
            .map(|path| format!(" {}", shell_quote(&path.to_string_lossy())))
            .collect::<String>();
        let compacts = self.active_sessions().any(|session| session.boundaries.auto > 0);
        let first = if compacts {
            (format!("backcast audit{paths}"), "when and why sessions compact")
        } else {
            (
                format!("backcast stats{paths} --by tool"),
                "which tools fill the window",
            )
        };
        [
            first,
            (format!("backcast tune{paths}"), "which threshold to set, and why"),
            (
                format!("backcast memory extract{paths} --dry-run"),
                "what to remember for later sessions",
            ),
        ]
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let period = |period: &UsagePeriod| {
            let mut sums = period.sums.to_json();
            sums.insert("period".into(), period.name.as_str().into());
            sums.insert("sessions".into(), period.sessions.into());
            sums
        };
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "input": {
                "logs": self.logs,
                "sessions": self.active_sessions().count(),
                "lines": self.summary.facts.lines,
                "bytes": self.summary.facts.bytes,
            },
            "newest_call": self.newest.and_then(format_time),
            "periods": self.periods.iter().map(period).collect::<Vec<_>>(),
            "days": self.days.iter().map(|(day, cost)| json!({"day": day, "cost_micro_usd": cost})).collect::<Vec<_>>(),
            "window_shares": self.categories.iter().map(|row| (row.name.replace(' ', "_"), json!(row.share))).collect::<serde_json::Map<_, _>>(),
            "compactions": {
                "sessions": self.active_sessions().filter(|session| session.boundaries.auto + session.boundaries.manual > 0).count(),
                "automatic": self.count_boundaries(|it| it.auto),
                "manual": self.count_boundaries(|it| it.manual),
                "micro": self.count_boundaries(|it| it.micro),
                "median_peak": self.median_peak(),
            },
            "costliest": self.costliest.iter().map(|row| json!({
                "session": row.session,
                "project": row.project,
                "responses": row.calls,
                "context_peak": row.peak,
                "cost_micro_usd": row.cost,
            })).collect::<Vec<_>>(),
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(self.problems)},
            "next": self.next_commands().map(|(command, about)| json!({"command": command, "about": about})),
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }
}

fn format_tokens(count: u64) -> String {
    for_people(ColumnUnit::Tokens, &count.into())
}

fn sheet<'a, R>(columns: &'a [Column<R>], rows: &'a [R]) -> Sheet<'a, R> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns,
        rows,
        total: None,
    }
}

/// The last week, the last month, everything.
fn usage_periods(by_day: &[UsageRow], newest: Option<Time>, zone: &TimeZone) -> Vec<UsagePeriod> {
    let all = [("last 7 days", Some(7)), ("last 30 days", Some(30)), ("all", None)];
    let period = |(name, days): (&str, Option<u32>)| {
        let first = days
            .and_then(|days| start_of_last_days(newest?, days, zone))
            .map(|time| tally::day_of(time, zone));
        // Days are written so that they sort; what has no day belongs to everything alone.
        let rows = by_day.iter().filter(|row| match (&first, days) {
            (_, None) => true,
            (Some(first), _) => row.key >= *first,
            (None, Some(_)) => false,
        });
        let rows = rows.cloned().collect::<Vec<_>>();
        let total = UsageRow::total(&rows);
        let sessions = rows.iter().flat_map(|row| &row.sessions).collect::<BTreeSet<_>>();
        UsagePeriod {
            name: name.to_owned(),
            sessions: sessions.len(),
            sums: total.sums,
        }
    };
    all.into_iter().map(period).collect()
}

/// Cost of each of the last days, those without calls too.
fn daily_costs(by_day: &[UsageRow], newest: Option<Time>, zone: &TimeZone) -> Vec<(String, u64)> {
    let Some(newest) = newest else { return Vec::new() };
    let day = |back: u32| {
        let name = tally::day_of(start_of_last_days(newest, back, zone)?, zone);
        let row = by_day.iter().find(|row| row.key == name);
        let cost = row.map_or(0, |row| micro_usd(row.sums.cost));
        Some((name, u64::try_from(cost).unwrap_or(0)))
    };
    (1..=DAYS_SHOWN).rev().filter_map(day).collect()
}

/// The largest categories, with the tools or kinds that make up most of each.
fn largest_categories(summary: &UsageSummary) -> Vec<CategoryRow> {
    const SHOWN: usize = 5;
    let ledger = &summary.ledger;
    let whole = ledger.total().tokens();
    let share = |tokens: u64| tokens as f64 / whole.max(1) as f64;
    let most = |category: Category| {
        let mut named = (ledger.entries.iter())
            .filter(|((of, name), _)| *of == category && !name.is_empty())
            .map(|((_, name), amount)| (amount.tokens(), name))
            .collect::<Vec<_>>();
        named.sort_by_key(|(tokens, name)| (Reverse(*tokens), *name));
        let shown = named.iter().filter(|(tokens, _)| share(*tokens) >= 0.01).take(2);
        let texts = shown.map(|(tokens, name)| format!("{name} {:.0} %", 100.0 * share(*tokens)));
        texts.collect::<Vec<_>>().join(", ")
    };
    let mut rows = CATEGORIES
        .into_iter()
        .map(|category| CategoryRow {
            name: category.name().replace('_', " "),
            share: share(ledger.category(category).tokens()),
            most: most(category),
        })
        .filter(|row| row.share > 0.0)
        .collect::<Vec<_>>();
    rows.sort_by(|a, b| b.share.total_cmp(&a.share).then_with(|| a.name.cmp(&b.name)));
    rows.truncate(SHOWN);
    rows
}

fn costliest_sessions(sessions: &[UsageRow], summary: &UsageSummary) -> Vec<CostlySessionRow> {
    let mut order = sessions.iter().filter(|row| row.sums.responses > 0).collect::<Vec<_>>();
    order.sort_by_key(|row| (Reverse(row.sums.cost), &row.key));
    order.truncate(SESSIONS_SHOWN);
    order
        .into_iter()
        .map(|row| CostlySessionRow {
            session: row.key.clone(),
            project: row.project.clone().unwrap_or_default(),
            calls: row.sums.responses,
            peak: row.window.map_or(0, |window| window.peak),
            cost: row.sums.cost_micro_usd(),
            course: window_series(summary, row),
        })
        .collect()
}
