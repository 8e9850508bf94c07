//! Usage over a corpus: the calls of a `Summary`, each of which is there once, in groups.

use crate::usage::session::{BilledCall, SessionReport};
use crate::usage::summary::UsageSummary;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use replay::prices::{PicoUsd, PriceBook, PriceTable, Tariff, micro_usd};
use std::collections::{BTreeMap, BTreeSet};
use transcript::log::{NO_TIME, Time};

/// What rows are grouped by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum GroupBy {
    /// One row a session.
    #[default]
    Session,
    /// One row a project (working directory).
    Project,
    /// One row a model.
    Model,
    /// One row a day.
    Day,
    /// One row a git branch.
    Branch,
    /// One row a tool: what its calls and results put into the window.
    Tool,
}

impl GroupBy {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Session => "session",
            GroupBy::Project => "project",
            GroupBy::Model => "model",
            GroupBy::Day => "day",
            GroupBy::Branch => "branch",
            GroupBy::Tool => "tool",
        }
    }
}

/// Sums over calls.
#[derive(Debug, Clone, Default)]
pub struct UsageSums {
    /// API calls.
    pub responses: u64,
    /// Input that was neither read from nor written to the cache.
    pub input: u64,
    /// Output.
    pub output: u64,
    /// Cache reads.
    pub cache_read: u64,
    /// Cache writes for five minutes.
    pub write_5m: u64,
    /// Cache writes for one hour.
    pub write_1h: u64,
    /// Cost of the calls whose model has a price.
    pub cost: PicoUsd,
    /// Calls whose model has none.
    pub unpriced: u64,
    /// Of all calls, those of sub-agents.
    pub subagent_responses: u64,
    /// Their cost.
    pub subagent_cost: PicoUsd,
    /// Of all calls, those on rewound branches.
    pub rewound_responses: u64,
}

impl UsageSums {
    /// Adds a call.
    pub fn add(&mut self, call: &BilledCall, tariff: Option<&Tariff>) {
        let tokens = &call.tokens;
        self.responses += 1;
        self.input += tokens.input;
        self.output += tokens.output;
        self.cache_read += tokens.cache_read;
        self.write_1h += tokens.cache_write_1h;
        self.write_5m += tokens.cache_write - tokens.cache_write_1h;
        let cost = tariff.map(|tariff| tariff.cost(tokens, call.window));
        self.cost += cost.unwrap_or(0);
        self.unpriced += u64::from(cost.is_none());
        if call.is_sidechain {
            self.subagent_responses += 1;
            self.subagent_cost += cost.unwrap_or(0);
        }
        self.rewound_responses += u64::from(call.is_rewound);
    }

    /// Adds the sums over other calls.
    pub fn merge(&mut self, other: &UsageSums) {
        self.responses += other.responses;
        self.input += other.input;
        self.output += other.output;
        self.cache_read += other.cache_read;
        self.write_5m += other.write_5m;
        self.write_1h += other.write_1h;
        self.cost += other.cost;
        self.unpriced += other.unpriced;
        self.subagent_responses += other.subagent_responses;
        self.subagent_cost += other.subagent_cost;
        self.rewound_responses += other.rewound_responses;
    }

    /// Cost in micro-dollars; `None` if no call has a price.
    pub fn cost_micro_usd(&self) -> Option<i64> {
        (self.responses == 0 || self.unpriced < self.responses).then(|| micro_usd(self.cost))
    }

    /// The fields that every JSON output names alike.
    pub fn to_json(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut map = serde_json::Map::new();
        let fields = [
            ("responses", self.responses),
            ("input_tokens", self.input),
            ("output_tokens", self.output),
            ("cache_read_tokens", self.cache_read),
            ("cache_write_5m_tokens", self.write_5m),
            ("cache_write_1h_tokens", self.write_1h),
        ];
        for (name, value) in fields {
            map.insert(name.into(), value.into());
        }
        map.insert("cost_micro_usd".into(), self.cost_micro_usd().into());
        map.insert("unpriced_responses".into(), self.unpriced.into());
        map.insert("subagent_responses".into(), self.subagent_responses.into());
        map.insert("subagent_cost_micro_usd".into(), micro_usd(self.subagent_cost).into());
        map.insert("rewound_responses".into(), self.rewound_responses.into());
        map
    }
}

/// One row of usage.
#[derive(Debug, Clone, Default)]
pub struct UsageRow {
    /// Session, project, model, day or branch.
    pub key: String,
    /// Sub-agent, where they are shown apart.
    pub agent: Option<String>,
    /// Project of a session.
    pub project: Option<String>,
    /// First and last call or record.
    pub times: Option<(Time, Time)>,
    /// Sums over the calls.
    pub sums: UsageSums,
    /// Models used.
    pub models: BTreeSet<String>,
    /// Only of sessions: the window and what happened to it.
    pub window: Option<WindowFacts>,
    /// Sessions in the row.
    pub sessions: BTreeSet<u32>,
    /// Windows of a session, call by call, where they are drawn.
    pub course: Vec<u64>,
}

/// The window of a session.
#[derive(Debug, Clone, Copy, Default)]
pub struct WindowFacts {
    /// Rounds with a known window.
    pub rounds: u64,
    /// Prompts.
    pub prompts: u64,
    /// Largest window.
    pub peak: u64,
    /// Mean window.
    pub mean: Option<u64>,
    /// Window at the end.
    pub last: u64,
    /// Automatic, manual and micro-compactions.
    pub boundaries: [u64; 3],
    /// Rewound branches.
    pub branches: u64,
    /// Sub-agents.
    pub subagents: u64,
}

/// Calls, grouped.
#[derive(Debug, Clone, Default)]
pub struct UsageTally {
    /// One for each group. Sessions without any call have a row too when grouped by session.
    pub rows: Vec<UsageRow>,
    /// Calls that only progress records show; they are in no row.
    pub progress_only: UsageSums,
    /// Models without a price, those of progress records too.
    pub unknown: BTreeSet<String>,
}

/// Groups calls, in one pass over them: there may be many.
pub fn group_calls(
    summary: &UsageSummary,
    by: GroupBy,
    apart: bool,
    zone: &TimeZone,
    prices: &PriceTable,
) -> UsageTally {
    let mut rows = Vec::<UsageRow>::new();
    let mut places = BTreeMap::<(String, Option<String>), usize>::new();
    let mut book = PriceBook::new(prices);
    if by == GroupBy::Session {
        let sessions = std::iter::zip(0.., &summary.sessions);
        for (number, session) in sessions.filter(|(_, session)| session.times.is_some()) {
            let key = (session.id.clone(), apart.then(String::new));
            places.insert(key.clone(), rows.len());
            rows.push(session_row(number, session, key));
        }
    }
    let mut days = DayCache::new(zone);
    // Most calls go where the one before went, at the same price.
    let mut recent: Option<(CallGroup, usize, usize)> = None;
    let mut progress_only = UsageSums::default();
    for (number, call) in summary.numbered_calls() {
        let session = &summary.sessions[number as usize];
        let model = || session.names.get(call.model as usize).map_or("", |model| model);
        if call.is_progress {
            let price = book.number(model());
            progress_only.add(call, book.tariff(price));
            continue;
        }
        let group = CallGroup {
            session: number,
            model: call.model,
            key: match by {
                GroupBy::Session => 0,
                GroupBy::Project => i64::from(call.cwd),
                GroupBy::Model | GroupBy::Tool => i64::from(call.model),
                GroupBy::Day => days.day_number(call.time),
                GroupBy::Branch => i64::from(call.branch),
            },
            agent: apart.then_some((call.is_sidechain, call.agent)),
        };
        let (at, price) = match recent {
            Some((known, at, price)) if known == group => (at, price),
            _ => {
                let name = |number: u32| session.names.get(number as usize).cloned().unwrap_or_default();
                let key = match by {
                    GroupBy::Session => session.id.clone(),
                    GroupBy::Project => project_of(session, call),
                    GroupBy::Model | GroupBy::Tool => name(call.model),
                    GroupBy::Day => day_of(call.time, zone),
                    GroupBy::Branch => name(call.branch),
                };
                let agent = apart.then(|| match (call.is_sidechain, name(call.agent)) {
                    (false, _) => String::new(),
                    (true, agent) if agent.is_empty() => "(sub-agent)".into(),
                    (true, agent) => agent,
                });
                let at = *places.entry((key.clone(), agent.clone())).or_insert_with(|| {
                    rows.push(UsageRow {
                        key,
                        agent,
                        project: (by == GroupBy::Session).then(|| session.project.clone()),
                        ..UsageRow::default()
                    });
                    rows.len() - 1
                });
                let model = model();
                if !rows[at].models.contains(model) {
                    rows[at].models.insert(model.to_owned());
                }
                rows[at].sessions.insert(number);
                (at, book.number(model))
            }
        };
        recent = Some((group, at, price));
        let row = &mut rows[at];
        row.sums.add(call, book.tariff(price));
        if by != GroupBy::Session || apart {
            row.extend_times(call.time);
        }
    }
    if by == GroupBy::Session {
        rows.sort_by_cached_key(|row| {
            (
                row.times.map_or(Time::MAX, |times| times.0),
                row.key.clone(),
                row.agent.clone(),
            )
        });
    } else {
        rows.sort_by(|a, b| (&a.key, &a.agent).cmp(&(&b.key, &b.agent)));
    }
    UsageTally {
        rows,
        progress_only,
        unknown: book.unpriced().map(str::to_owned).collect(),
    }
}

/// The windows of the main agent of a row's (first) session, call by call in the order of time; those on rewound branches are
/// left out.
pub fn window_series(summary: &UsageSummary, row: &UsageRow) -> Vec<u64> {
    let is_main = |call: &&BilledCall| !call.is_progress && !call.is_sidechain && !call.is_rewound && !call.is_copied;
    let calls = row
        .sessions
        .first()
        .and_then(|session| summary.calls.get(*session as usize));
    let calls = calls.into_iter().flatten().filter(is_main);
    let mut timed = calls.map(|call| (call.time, call.window)).collect::<Vec<_>>();
    timed.sort_by_key(|(time, _)| *time);
    timed.into_iter().map(|(_, window)| window).collect()
}

/// What decides where a call goes and what it costs, in numbers of its session.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CallGroup {
    session: u32,
    model: u32,
    key: i64,
    agent: Option<(bool, u32)>,
}

/// Numbers days, so that neighbouring calls need not ask the calendar.
struct DayCache<'a> {
    zone: &'a TimeZone,
    /// The day asked for last: its first millisecond, and that of the next day.
    latest: (Time, Time),
}

impl<'a> DayCache<'a> {
    fn new(zone: &'a TimeZone) -> DayCache<'a> {
        DayCache { zone, latest: (0, 0) }
    }

    /// A number that two times share only if they lie on the same day.
    fn day_number(&mut self, time: Time) -> i64 {
        if !(self.latest.0..self.latest.1).contains(&time) {
            // What has no day is one of its own.
            self.latest = self.day(time).unwrap_or((time, time));
        }
        self.latest.0
    }

    fn day(&self, time: Time) -> Option<(Time, Time)> {
        let at = Timestamp::from_millisecond(time).ok()?.to_zoned(self.zone.clone());
        let start = at.start_of_day().ok()?;
        let end = start.tomorrow().ok()?;
        Some((start.timestamp().as_millisecond(), end.timestamp().as_millisecond()))
    }
}

fn session_row(number: u32, session: &SessionReport, (key, agent): (String, Option<String>)) -> UsageRow {
    UsageRow {
        key,
        agent,
        project: Some(session.project.clone()),
        times: session.times,
        window: Some(WindowFacts {
            rounds: session.occupancy.rounds,
            prompts: session.prompts,
            peak: session.occupancy.peak,
            mean: session.occupancy.mean(),
            last: session.occupancy.last,
            boundaries: [
                session.boundaries.auto,
                session.boundaries.manual,
                session.boundaries.micro,
            ],
            branches: session.branches,
            subagents: session.subagents,
        }),
        sessions: BTreeSet::from([number]),
        ..UsageRow::default()
    }
}

/// A session's project, also for sub-agents that worked elsewhere (in a worktree, say).
fn project_of(session: &SessionReport, call: &BilledCall) -> String {
    match session.project.as_str() {
        "" => session.names.get(call.cwd as usize).cloned().unwrap_or_default(),
        project => project.to_owned(),
    }
}

/// The day of a time.
pub fn day_of(time: Time, zone: &TimeZone) -> String {
    match Timestamp::from_millisecond(time) {
        Ok(timestamp) if time != NO_TIME => timestamp.to_zoned(zone.clone()).date().to_string(),
        _ => "(undated)".into(),
    }
}

/// Returns the start of the first of `days` days that end with the day of `newest`; `None` outside the calendar.
pub fn start_of_last_days(newest: Time, days: u32, zone: &TimeZone) -> Option<Time> {
    let day = Timestamp::from_millisecond(newest).ok()?.to_zoned(zone.clone()).date();
    let first = day.checked_sub(i64::from(days.saturating_sub(1)).days()).ok()?;
    Some(first.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())
}

impl UsageRow {
    fn extend_times(&mut self, time: Time) {
        if time != NO_TIME {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    /// All rows in one, for the line below the table.
    pub fn total(rows: &[UsageRow]) -> UsageRow {
        let mut total = UsageRow {
            key: "total".into(),
            ..UsageRow::default()
        };
        for row in rows {
            total.sums.merge(&row.sums);
            total.sessions.extend(&row.sessions);
            if let Some(window) = &row.window {
                let all = total.window.get_or_insert_default();
                all.peak = all.peak.max(window.peak);
                all.rounds += window.rounds;
                all.prompts += window.prompts;
                all.branches += window.branches;
                all.subagents += window.subagents;
                for (sum, count) in std::iter::zip(&mut all.boundaries, window.boundaries) {
                    *sum += count;
                }
            }
        }
        total
    }
}
