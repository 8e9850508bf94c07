//! `backcast overview`, and `backcast` alone: the first look. Everything on it comes from the summary of a run, so that it is
//! there at once when the logs are as they were.

use crate::cli::memory::Shape;
use crate::cli::{Cli, Command, OutputArgs, OverviewArgs};
use crate::commands::Ending;
use crate::commands::reading::{close_softly, problem_counts, with_logs};
use crate::commands::times::{days_before, zone};
use crate::commands::writing::{emit, load_prices};
use crate::run::summarise;
use crate::usage::session::{Boundaries, SessionReport, Wanted};
use crate::usage::summary::Summary;
use crate::usage::tally;
use crate::usage::tally::{By, Row, Sums, course, tally};
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
use table::words::{count, grouped, percent, shell_word, size_text};
use table::{Column, Format, InTable, Look, Sheet, Tone, Unit, bar, column, for_people, sparkline, time_text};
use transcript::log::{NO_TIME, Time};
use transcript::problem::Problem;

/// Version of the JSON document; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Days of the drawing.
const DAYS: u32 = 30;

/// Costliest sessions shown.
const COSTLIEST: usize = 3;

/// Without any arguments: an overview of the user's own sessions.
pub fn first_screen() -> Result<Ending> {
    match Cli::try_parse_from(["backcast", "overview"])?.command {
        Some(Command::Overview(args)) => run(&args),
        _ => Ok(Ending::Done),
    }
}

/// Runs it.
pub fn run(args: &OverviewArgs) -> Result<Ending> {
    let zone = zone(&args.timezone)?;
    let prices = load_prices(args.prices.as_deref())?;
    let (summary, logs, problems) = with_logs(&args.input, false, |reading| {
        let logs = reading.logs.len();
        let table = RatioTable::built_in();
        let (mut summary, _) = summarise(reading.logs, &reading.options, table, &Wanted::default());
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(reading.problems());
        problems.sort();
        (summary, logs, problems)
    })?;
    let overview = Overview::new(args, &summary, logs, &problems, &zone, &prices);
    let format = match args.format {
        Shape::Text => Format::Table,
        Shape::Json => Format::Json,
    };
    emit(&OutputArgs::printed(format), |out, look| match args.format {
        Shape::Text => overview.write_text(out, look),
        Shape::Json => overview.write_json(out),
    })?;
    // What matters of the problems is on the screen already.
    Ok(close_softly(&args.input, &problems))
}

/// Calls of a stretch of time.
struct Period {
    name: String,
    sessions: usize,
    sums: Sums,
}

/// Cells that no format but the table has need no meaning.
const PERIODS: &[Column<Period>] = &[
    column(
        "period",
        "Spent",
        Unit::Text,
        InTable::Always,
        "Stretch of time.",
        |row| row.name.as_str().into(),
    ),
    column(
        "sessions",
        "Sessions",
        Unit::Count,
        InTable::Always,
        "Sessions with calls.",
        |row| row.sessions.into(),
    ),
    column("calls", "Calls", Unit::Count, InTable::Always, "API calls.", |row| {
        row.sums.responses.into()
    }),
    column("input", "Sent", Unit::Tokens, InTable::Always, "Input tokens.", |row| {
        sent(&row.sums).into()
    }),
    column(
        "cached",
        "Cached",
        Unit::Share,
        InTable::Always,
        "Read from the cache.",
        |row| {
            let sent = sent(&row.sums);
            (sent > 0).then(|| row.sums.cache_read as f64 / sent as f64).into()
        },
    ),
    column(
        "output",
        "Output",
        Unit::Tokens,
        InTable::Always,
        "Output tokens.",
        |row| row.sums.output.into(),
    ),
    column("cost", "Cost", Unit::MicroUsd, InTable::Always, "Cost.", |row| {
        row.sums.cost_micro_usd().into()
    }),
];

fn sent(sums: &Sums) -> u64 {
    sums.input + sums.cache_read + sums.write_5m + sums.write_1h
}

/// A category of the ledger.
struct Filled {
    name: String,
    share: f64,
    most: String,
}

const FILLED: &[Column<Filled>] = &[
    column(
        "category",
        "What fills the window",
        Unit::Text,
        InTable::Always,
        "Category.",
        |row| row.name.as_str().into(),
    ),
    column(
        "share",
        "Share",
        Unit::Share,
        InTable::Always,
        "Share of all tokens.",
        |row| row.share.into(),
    ),
    column("bar", "", Unit::Drawing, InTable::Always, "The share, drawn.", |row| {
        bar(row.share, 20).into()
    }),
    column(
        "most",
        "Most of it",
        Unit::Text,
        InTable::IfRoom,
        "Tools or kinds.",
        |row| row.most.as_str().into(),
    ),
];

/// A session.
struct Costly {
    session: String,
    project: String,
    calls: u64,
    peak: u64,
    cost: Option<i64>,
    course: Vec<u64>,
}

const COSTLY: &[Column<Costly>] = &[
    column(
        "session",
        "Costliest",
        Unit::Text,
        InTable::Always,
        "Session id.",
        |row| row.session.chars().take(8).collect::<String>().into(),
    ),
    column(
        "project",
        "Project",
        Unit::Text,
        InTable::IfRoom,
        "Working directory.",
        |row| row.project.as_str().into(),
    ),
    column("calls", "Calls", Unit::Count, InTable::Always, "API calls.", |row| {
        row.calls.into()
    }),
    column(
        "peak",
        "Peak",
        Unit::Tokens,
        InTable::Always,
        "Largest window.",
        |row| row.peak.into(),
    ),
    column("cost", "Cost", Unit::MicroUsd, InTable::Always, "Cost.", |row| {
        row.cost.into()
    }),
    column(
        "window",
        "Window, call by call",
        Unit::Drawing,
        InTable::Always,
        "Its course.",
        |row| sparkline(&row.course, 20).into(),
    ),
];

/// What is shown.
struct Overview<'a> {
    args: &'a OverviewArgs,
    summary: &'a Summary,
    logs: usize,
    problems: &'a [Problem],
    zone: &'a TimeZone,
    newest: Option<Time>,
    periods: Vec<Period>,
    days: Vec<(String, u64)>,
    filled: Vec<Filled>,
    costly: Vec<Costly>,
}

impl<'a> Overview<'a> {
    fn new(
        args: &'a OverviewArgs,
        summary: &'a Summary,
        logs: usize,
        problems: &'a [Problem],
        zone: &'a TimeZone,
        prices: &PriceTable,
    ) -> Overview<'a> {
        let calls = summary.calls.iter().flatten().filter(|call| !call.is_progress);
        let newest = calls.map(|call| call.time).filter(|time| *time != NO_TIME).max();
        let rows = |by| tally(summary, by, false, zone, prices).rows;
        let (sessions, by_day) = (rows(By::Session), rows(By::Day));
        Overview {
            args,
            summary,
            logs,
            problems,
            zone,
            newest,
            periods: periods(&by_day, newest, zone),
            days: days(&by_day, newest, zone),
            filled: filled(summary),
            costly: costly(&sessions, summary),
        }
    }

    fn write_text(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let summary = self.summary;
        writeln!(
            out,
            "{} logs, {} sessions, {} lines, {}{}\n",
            grouped(self.logs as u64),
            grouped(self.active().count() as u64),
            grouped(summary.facts.lines),
            size_text(summary.facts.bytes),
            self.span()
        )?;
        sheet(PERIODS, &self.periods).write(Format::Table, look, out)?;
        self.write_days(out)?;
        writeln!(out)?;
        if !self.filled.is_empty() {
            sheet(FILLED, &self.filled).write(Format::Table, look, out)?;
            writeln!(out)?;
        }
        self.write_compactions(out, look)?;
        if !self.costly.is_empty() {
            writeln!(out)?;
            sheet(COSTLY, &self.costly).write(Format::Table, look, out)?;
        }
        self.write_doubts(out, look)?;
        writeln!(out, "\n{}", look.paint(Tone::Strong, "Next"))?;
        let next = self.next();
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

    fn active(&self) -> impl Iterator<Item = &SessionReport> {
        self.summary.sessions.iter().filter(|session| session.times.is_some())
    }

    /// From when to when.
    fn span(&self) -> String {
        let times = || self.active().filter_map(|session| session.times);
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
            "By day, {DAYS} days: {}  most {} on {day}",
            sparkline(&costs, DAYS as usize),
            for_people(Unit::MicroUsd, &(*most).into())
        )
    }

    fn write_compactions(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        writeln!(out, "{}", look.paint(Tone::Strong, "When sessions compact"))?;
        let (auto, manual, micro) = (
            self.boundaries(|it| it.auto),
            self.boundaries(|it| it.manual),
            self.boundaries(|it| it.micro),
        );
        let compacted = self
            .active()
            .filter(|session| session.boundaries.auto + session.boundaries.manual > 0)
            .count() as u64;
        let sessions = self.active().count() as u64;
        if compacted == 0 {
            let peak = self.active().map(|session| session.occupancy.peak).max().unwrap_or(0);
            return writeln!(out, "None of them did; the largest window was {} tokens.", tokens(peak));
        }
        writeln!(
            out,
            "{} of {} ({}): {} automatic, {} by hand{}.",
            grouped(compacted),
            count(sessions, "session"),
            percent(compacted, sessions),
            grouped(auto),
            grouped(manual),
            if micro > 0 {
                format!(", {} micro", grouped(micro))
            } else {
                String::new()
            }
        )?;
        if let Some(peak) = self.median_peak() {
            writeln!(
                out,
                "Where it was automatic, the window had reached {} in the median.",
                tokens(peak)
            )?;
        }
        Ok(())
    }

    fn boundaries(&self, of: fn(&Boundaries) -> u64) -> u64 {
        self.active().map(|session| of(&session.boundaries)).sum()
    }

    /// Of the sessions that were compacted automatically.
    fn median_peak(&self) -> Option<u64> {
        let compacted = self.active().filter(|session| session.boundaries.auto > 0);
        let mut peaks = compacted
            .map(|session| session.occupancy.peak)
            .filter(|peak| *peak > 0)
            .collect::<Vec<_>>();
        peaks.sort_unstable();
        quantile(&peaks, 0.5)
    }

    /// What the figures above do not hold.
    fn write_doubts(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        let all = self.periods.last().map_or(0, |period| period.sums.unpriced);
        if all > 0 {
            let text = format!(
                "No price is known for {}: `backcast stats --by model` names them.",
                count(all, "call")
            );
            writeln!(out, "\n{}", look.paint(Tone::Doubtful, &text))?;
        }
        let lost = self.problems.iter().filter(|problem| problem.kind.is_loss()).count() as u64;
        if lost > 0 {
            let text = format!("Input was lost in {}; --problems lists them.", count(lost, "place"));
            let gap = if all > 0 { "" } else { "\n" };
            writeln!(out, "{gap}{}", look.paint(Tone::Doubtful, &text))?;
        }
        Ok(())
    }

    /// Three commands that go deeper, for the same logs.
    fn next(&self) -> [(String, &'static str); 3] {
        let paths = &self.args.input.paths;
        let paths = paths
            .iter()
            .map(|path| format!(" {}", shell_word(&path.to_string_lossy())))
            .collect::<String>();
        let compacts = self.active().any(|session| session.boundaries.auto > 0);
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
        let period = |period: &Period| {
            let mut sums = period.sums.to_json();
            sums.insert("period".into(), period.name.as_str().into());
            sums.insert("sessions".into(), period.sessions.into());
            sums
        };
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "input": {
                "logs": self.logs,
                "sessions": self.active().count(),
                "lines": self.summary.facts.lines,
                "bytes": self.summary.facts.bytes,
            },
            "newest_call": self.newest.and_then(time_text),
            "periods": self.periods.iter().map(period).collect::<Vec<_>>(),
            "days": self.days.iter().map(|(day, cost)| json!({"day": day, "cost_micro_usd": cost})).collect::<Vec<_>>(),
            "window_shares": self.filled.iter().map(|row| (row.name.replace(' ', "_"), json!(row.share))).collect::<serde_json::Map<_, _>>(),
            "compactions": {
                "sessions": self.active().filter(|session| session.boundaries.auto + session.boundaries.manual > 0).count(),
                "automatic": self.boundaries(|it| it.auto),
                "manual": self.boundaries(|it| it.manual),
                "micro": self.boundaries(|it| it.micro),
                "median_peak": self.median_peak(),
            },
            "costliest": self.costly.iter().map(|row| json!({
                "session": row.session,
                "project": row.project,
                "responses": row.calls,
                "context_peak": row.peak,
                "cost_micro_usd": row.cost,
            })).collect::<Vec<_>>(),
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(self.problems)},
            "next": self.next().map(|(command, about)| json!({"command": command, "about": about})),
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }
}

fn tokens(count: u64) -> String {
    for_people(Unit::Tokens, &count.into())
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
fn periods(by_day: &[Row], newest: Option<Time>, zone: &TimeZone) -> Vec<Period> {
    let all = [("last 7 days", Some(7)), ("last 30 days", Some(30)), ("all", None)];
    let period = |(name, days): (&str, Option<u32>)| {
        let first = days
            .and_then(|days| days_before(newest?, days, zone))
            .map(|time| tally::day_of(time, zone));
        // Days are written so that they sort; what has no day belongs to everything alone.
        let rows = by_day.iter().filter(|row| match (&first, days) {
            (_, None) => true,
            (Some(first), _) => row.key >= *first,
            (None, Some(_)) => false,
        });
        let rows = rows.cloned().collect::<Vec<_>>();
        let total = Row::total(&rows);
        let sessions = rows.iter().flat_map(|row| &row.sessions).collect::<BTreeSet<_>>();
        Period {
            name: name.to_owned(),
            sessions: sessions.len(),
            sums: total.sums,
        }
    };
    all.into_iter().map(period).collect()
}

/// Cost of each of the last days, those without calls too.
fn days(by_day: &[Row], newest: Option<Time>, zone: &TimeZone) -> Vec<(String, u64)> {
    let Some(newest) = newest else { return Vec::new() };
    let day = |back: u32| {
        let name = tally::day_of(days_before(newest, back, zone)?, zone);
        let row = by_day.iter().find(|row| row.key == name);
        let cost = row.map_or(0, |row| micro_usd(row.sums.cost));
        Some((name, u64::try_from(cost).unwrap_or(0)))
    };
    (1..=DAYS).rev().filter_map(day).collect()
}

/// The largest categories, with the tools or kinds that make up most of each.
fn filled(summary: &Summary) -> Vec<Filled> {
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
        .map(|category| Filled {
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

fn costly(sessions: &[Row], summary: &Summary) -> Vec<Costly> {
    let mut order = sessions.iter().filter(|row| row.sums.responses > 0).collect::<Vec<_>>();
    order.sort_by_key(|row| (Reverse(row.sums.cost), &row.key));
    order.truncate(COSTLIEST);
    order
        .into_iter()
        .map(|row| Costly {
            session: row.key.clone(),
            project: row.project.clone().unwrap_or_default(),
            calls: row.sums.responses,
            peak: row.window.map_or(0, |window| window.peak),
            cost: row.sums.cost_micro_usd(),
            course: course(summary, row),
        })
        .collect()
}
