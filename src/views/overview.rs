//! `backcast overview`: rows, the JSON document, and text for people.

use crate::usage::account::UsageAccount;
use crate::usage::period;
use crate::usage::period::{GroupBy, start_of_last_days};
use crate::usage::session::SessionReport;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::{UsageRow, UsageSums, group_calls, window_series};
use crate::views::{folder_name, problems_json, short_id};
use jiff::tz::TimeZone;
use replay::prices::{PriceTable, micro_usd};
use replay::quantile::median;
use replay::tokens::ledger::{CATEGORIES, Category};
use serde_json::json;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use table::human::{
    format_count, format_dollars, format_percent, format_price, format_size, format_tokens, group_digits,
};
use table::words::shell_quote;
use table::{Legend, OutputFormat, OutputSchema, TableStyle, Tone, bar, columns, format_time, sparkline, write_json};
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("overview", 1);

/// Days of the sparkline.
const DAYS_SHOWN: u32 = 30;

/// Costliest sessions shown.
const SESSIONS_SHOWN: usize = 3;

/// Usage in a period of time.
struct UsagePeriod {
    name: String,
    sessions: usize,
    sums: UsageSums,
}

columns! {
    PERIOD_TABLE: UsagePeriod;
    "period" "Spent" Text Always "Stretch of time." |r| &r.name;
    "sessions" "Sessions" Count Always "Sessions with calls." |r| r.sessions;
    "calls" "Calls" Count Always "API calls." |r| r.sums.responses;
    "input" "Sent" Tokens Always "Input tokens." |r| tokens_sent(&r.sums);
    "cached" "Cached" Share Always "Read from the cache." |r| cached_share(&r.sums);
    "output" "Output" Tokens Always "Output tokens." |r| r.sums.output;
    "cost" "Cost" MicroUsd Always "Cost." |r| r.sums.cost_micro_usd();
}

fn tokens_sent(sums: &UsageSums) -> u64 {
    sums.input + sums.cache_read + sums.write_5m + sums.write_1h
}

/// Returns the share of the input that was read from the prompt cache; `None` if nothing was sent.
fn cached_share(sums: &UsageSums) -> Option<f64> {
    let sent = tokens_sent(sums);
    (sent > 0).then(|| sums.cache_read as f64 / sent as f64)
}

/// A category of the ledger.
struct CategoryRow {
    name: String,
    share: f64,
    most: String,
}

columns! {
    CATEGORY_TABLE: CategoryRow;
    "category" "What fills the window" Text Always "Category." |r| &r.name;
    "share" "Share" Share Always "Share of all tokens." |r| r.share;
    "bar" "" Drawing Always "The share, drawn." |r| bar(r.share, 20);
    "most" "Most of it" Text IfRoom "Tools or kinds." |r| &r.most;
}

/// One of the costliest sessions.
struct CostlySessionRow {
    session: String,
    title: String,
    coding_agent: Agent,
    project: String,
    calls: u64,
    peak: u64,
    cost: Option<i64>,
    course: Vec<u64>,
}

columns! {
    COSTLY_TABLE: CostlySessionRow;
    "title" "Costliest" Text Always "Title of the session, or its id." |r| shown_title(r);
    "project" "Project" Text IfRoom "Last folder of the working directory." |r| folder_name(&r.project);
    "cost" "Cost" MicroUsd Always "Cost." |r| r.cost;
    "calls" "Calls" Count IfRoom "API calls." |r| r.calls;
    "peak" "Peak" Tokens IfRoom "Largest window." |r| r.peak;
    "window" "Window" Drawing IfRoom "Its course." |r| sparkline(&r.course, 16);
}

/// Words of the first table.
const PERIOD_LEGEND: Legend<'_> = &[
    ("Sent", "input tokens"),
    ("Cached", "share of them read from the prompt cache"),
];

/// Words of the costliest sessions.
const COSTLY_LEGEND: Legend<'_> = &[
    ("Peak", "largest window, in tokens"),
    ("Window", "its size from call to call"),
];

/// Returns the title of a session, or the beginning of its id.
fn shown_title(row: &CostlySessionRow) -> String {
    match row.title.as_str() {
        "" => short_id(&row.session),
        title => title.to_owned(),
    }
}

/// The first look at all logs.
pub struct OverviewView<'a> {
    paths: &'a [PathBuf],
    summary: &'a UsageSummary,
    logs: usize,
    problems: &'a [Problem],
    /// What is said of logs that are the made-up sample.
    sample_mark: Option<&'static str>,
    zone: &'a TimeZone,
    newest: Option<Time>,
    periods: Vec<UsagePeriod>,
    days: Vec<(String, u64)>,
    categories: Vec<CategoryRow>,
    costliest: Vec<CostlySessionRow>,
    account: UsageAccount,
}

impl<'a> OverviewView<'a> {
    /// `paths` are those of the command line, for the commands that it suggests.
    pub fn new(
        paths: &'a [PathBuf],
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
            paths,
            summary,
            logs,
            problems,
            sample_mark: None,
            zone,
            newest,
            periods: usage_periods(&by_day, newest, zone),
            days: daily_costs(&by_day, newest, zone),
            categories: largest_categories(summary),
            costliest: costliest_sessions(&sessions, summary),
            account: UsageAccount::new(summary, prices),
        }
    }

    /// Says that the logs are the made-up sample. It was asked for, or no other logs were found.
    pub fn mark_as_sample(&mut self, is_asked_for: bool) {
        self.sample_mark = Some(match is_asked_for {
            true => "SAMPLE: these sessions are made up.",
            false => "No session logs were found. SAMPLE: the sessions below are made up.",
        });
    }

    pub fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        let summary = self.summary;
        if let Some(mark) = self.sample_mark {
            writeln!(out, "{}", style.paint(Tone::Doubtful, mark))?;
        }
        writeln!(out, "{}", self.answer())?;
        writeln!(
            out,
            "Read from {}, {}, {}.{}\n",
            format_count(self.logs as u64, "log"),
            format_count(summary.facts.lines, "line"),
            format_size(summary.facts.bytes),
            self.account
                .explain_left_out()
                .map_or_else(String::new, |left| format!(" {left}"))
        )?;
        SCHEMA
            .sheet(PERIOD_TABLE, &self.periods)
            .write_with_legend(PERIOD_LEGEND, style, out)?;
        self.write_days(out)?;
        writeln!(out)?;
        if !self.categories.is_empty() {
            SCHEMA
                .sheet(CATEGORY_TABLE, &self.categories)
                .write(OutputFormat::Table, style, out)?;
            writeln!(out)?;
        }
        self.write_compactions(out, style)?;
        if !self.costliest.is_empty() {
            writeln!(out)?;
            SCHEMA
                .sheet(COSTLY_TABLE, &self.costliest)
                .write_with_legend(COSTLY_LEGEND, style, out)?;
        }
        self.write_caveats(out, style)?;
        writeln!(out, "\n{}", style.paint(Tone::Strong, "Next"))?;
        let next = self.next_commands();
        let widest = next
            .iter()
            .map(|(command, _)| command.chars().count())
            .max()
            .unwrap_or(0);
        let has_room = next.iter().all(|(_, about)| widest + about.len() + 4 <= style.width);
        for (command, about) in next {
            let about = style.paint(Tone::Faint, about);
            // Long paths leave no room for the explanations on the same line.
            if has_room {
                writeln!(out, "  {command:<widest$}  {about}")?;
            } else {
                writeln!(out, "  {command}\n      {about}")?;
            }
        }
        Ok(())
    }

    /// Returns what was spent, in one sentence.
    fn answer(&self) -> String {
        let total = self.periods.last().map(|period| &period.sums);
        let calls = total.map_or(0, |sums| sums.responses);
        let when = match self.summary.selection.as_str() {
            "" => self.date_range(),
            selection => format!(" ({selection})"),
        };
        format!(
            "You spent {} on {} in {}{when}.",
            format_price(total.and_then(UsageSums::cost_micro_usd)),
            format_count(calls, "API call"),
            format_count(self.active_sessions().count() as u64, "session"),
        )
    }

    fn active_sessions(&self) -> impl Iterator<Item = &SessionReport> {
        self.summary.counted_sessions().map(|(_, session)| session)
    }

    /// Returns the first and the last day of the logs.
    fn date_range(&self) -> String {
        let times = || self.active_sessions().filter_map(|session| session.times);
        let first = times().map(|times| times.0).min();
        let last = times().map(|times| times.1).max();
        let day = |time: Option<Time>| Some(period::day_of(time?, self.zone));
        match (day(first), day(last)) {
            (Some(first), Some(last)) => format!(", {first} to {last}"),
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
            format_dollars(i64::try_from(*most).unwrap_or(i64::MAX))
        )
    }

    fn write_compactions(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        writeln!(out, "{}", style.paint(Tone::Strong, "When sessions compact"))?;
        let found = &self.account.boundaries;
        let (compacted, sessions) = (self.account.compacted_sessions, self.account.sessions);
        if compacted == 0 {
            let peak = self
                .active_sessions()
                .map(|session| session.occupancy.peak)
                .max()
                .unwrap_or(0);
            return writeln!(out, "None did; the largest window was {} tokens.", format_tokens(peak));
        }
        let kinds = [
            (found.auto, "automatic", true),
            (found.manual, "by hand", true),
            (found.unknown, "of old clients", false),
            (found.micro, "micro", false),
        ];
        let kinds = kinds.iter().filter(|(count, _, is_always)| *is_always || *count > 0);
        let kinds = kinds.map(|(count, name, _)| format!("{} {name}", group_digits(*count)));
        writeln!(
            out,
            "{} of {} ({}): {}.",
            group_digits(compacted),
            format_count(sessions, "session"),
            format_percent(compacted, sessions),
            kinds.collect::<Vec<_>>().join(", ")
        )?;
        if let Some(peak) = self.median_peak() {
            writeln!(
                out,
                "Automatic compaction came at a median window of {} tokens.",
                format_tokens(peak)
            )?;
        }
        Ok(())
    }

    /// Returns the median peak of the sessions with automatic compactions; `None` if there are none.
    fn median_peak(&self) -> Option<u64> {
        let compacted = self
            .active_sessions()
            .filter(|session| session.boundaries.value().auto > 0);
        let peaks = compacted.map(|session| session.occupancy.peak);
        median(peaks.filter(|peak| *peak > 0).collect())
    }

    /// Writes what is missing from the numbers above.
    fn write_caveats(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        if let Some(rest) = self.account.explain_output_rest() {
            writeln!(out, "\n{rest}")?;
        }
        let all = self.periods.last().map_or(0, |period| period.sums.unpriced);
        if all > 0 {
            let text = format!(
                "No price is known for {}: `backcast stats --by model` names them.",
                format_count(all, "call")
            );
            writeln!(out, "\n{}", style.paint(Tone::Doubtful, &text))?;
        }
        let lost = self.problems.iter().filter(|problem| problem.kind.is_loss());
        let lost = lost.map(Problem::count).sum::<u64>();
        if lost > 0 {
            let text = format!(
                "Input was lost in {}; --problems shows where.",
                format_count(lost, "place")
            );
            let gap = if all > 0 { "" } else { "\n" };
            writeln!(out, "{gap}{}", style.paint(Tone::Doubtful, &text))?;
        }
        Ok(())
    }

    /// Returns commands to try next on the same logs.
    fn next_commands(&self) -> [(String, &'static str); 4] {
        if self.sample_mark.is_some() {
            return [
                ("backcast doctor".to_owned(), "where backcast looks for your logs"),
                ("backcast overview PATH".to_owned(), "logs that are elsewhere"),
                (
                    "backcast synth bulk --out demo".to_owned(),
                    "made-up logs to try every command on",
                ),
                (
                    "backcast report demo --open".to_owned(),
                    "all of them as a page, in the browser",
                ),
            ];
        }
        let paths = self
            .paths
            .iter()
            .map(|path| format!(" {}", shell_quote(&path.to_string_lossy())))
            .collect::<String>();
        let compacts = self
            .active_sessions()
            .any(|session| session.boundaries.value().auto > 0);
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
            (
                format!("backcast report{paths} --open"),
                "all of it as a page, in the browser",
            ),
        ]
    }

    pub fn write_document(&self, out: &mut dyn Write) -> io::Result<()> {
        let period = |period: &UsagePeriod| {
            let mut sums = period.sums.to_json();
            sums.insert("period".into(), period.name.as_str().into());
            sums.insert("sessions".into(), period.sessions.into());
            sums
        };
        let document = SCHEMA.document(json!({
            "input": {
                "logs": self.logs,
                "sessions": self.active_sessions().count(),
                "lines": self.summary.facts.lines,
                "bytes": self.summary.facts.bytes,
            },
            "sample": self.sample_mark.is_some(),
            "recorded": self.account.to_json(),
            "newest_call": self.newest.and_then(format_time),
            "periods": self.periods.iter().map(period).collect::<Vec<_>>(),
            "days": self.days.iter().map(|(day, cost)| json!({"day": day, "cost_micro_usd": cost})).collect::<Vec<_>>(),
            "window_shares": self.categories.iter().map(|row| (row.name.replace(' ', "_"), json!(row.share))).collect::<serde_json::Map<_, _>>(),
            "compactions": {
                "sessions": self.account.compacted_sessions,
                "automatic": self.account.boundaries.auto,
                "manual": self.account.boundaries.manual,
                "micro": self.account.boundaries.micro,
                "median_peak": self.median_peak(),
            },
            "costliest": self.costliest.iter().map(|row| json!({
                "session": row.session,
                "title": Some(&row.title).filter(|title| !title.is_empty()),
                "coding_agent": row.coding_agent,
                "project": row.project,
                "responses": row.calls,
                "context_peak": row.peak,
                "cost_micro_usd": row.cost,
            })).collect::<Vec<_>>(),
            "problems": problems_json(self.problems, false),
            "next": self.next_commands().map(|(command, about)| json!({"command": command, "about": about})),
        }));
        write_json(&document, out)
    }
}

/// Returns the usage of the last week, of the last month and of all time.
fn usage_periods(by_day: &[UsageRow], newest: Option<Time>, zone: &TimeZone) -> Vec<UsagePeriod> {
    let all = [("last 7 days", Some(7)), ("last 30 days", Some(30)), ("all", None)];
    let period = |(name, days): (&str, Option<u32>)| {
        let first = days
            .and_then(|days| start_of_last_days(newest?, days, zone))
            .map(|time| period::day_of(time, zone));
        // Names of days sort by date. Calls without a day are only in the last period.
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

/// Returns the cost of each of the last days, also of those without calls.
fn daily_costs(by_day: &[UsageRow], newest: Option<Time>, zone: &TimeZone) -> Vec<(String, u64)> {
    let Some(newest) = newest else { return Vec::new() };
    let day = |back: u32| {
        let name = period::day_of(start_of_last_days(newest, back, zone)?, zone);
        let row = by_day.iter().find(|row| row.key == name);
        let cost = row.map_or(0, |row| micro_usd(row.sums.cost));
        Some((name, u64::try_from(cost).unwrap_or(0)))
    };
    (1..=DAYS_SHOWN).rev().filter_map(day).collect()
}

/// Returns the largest categories, with the largest tools or kinds of each.
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
            title: row.title.clone(),
            coding_agent: row.coding_agent.unwrap_or_default(),
            project: row.project.clone().unwrap_or_default(),
            calls: row.sums.responses,
            peak: row.window.map_or(0, |window| window.peak),
            cost: row.sums.cost_micro_usd(),
            course: window_series(summary, row),
        })
        .collect()
}
