//! Usage over a corpus: the calls of a `UsageSummary`, each of which is there once, in groups.

use crate::usage::models::ModelSums;
use crate::usage::period::{GroupBy, Period, PeriodCache, day_of};
use crate::usage::session::{BilledCall, SessionReport};
use crate::usage::summary::UsageSummary;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use replay::prices::{PicoUsd, PriceBook, PriceTable, Tariff, micro_usd};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};

/// Calls of sessions without a pull request.
const NO_PULL: &str = "(none)";

/// Calls of sessions with pull requests, before the first one.
const BEFORE_PULLS: &str = "(before any)";

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
    /// Of all calls, those of the client for itself: the cost of compaction.
    pub client_responses: u64,
    /// Their cost.
    pub client_cost: PicoUsd,
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
        if call.is_client {
            self.client_responses += 1;
            self.client_cost += cost.unwrap_or(0);
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
        self.client_responses += other.client_responses;
        self.client_cost += other.client_cost;
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
        map.insert("compaction_responses".into(), self.client_responses.into());
        map.insert("compaction_cost_micro_usd".into(), micro_usd(self.client_cost).into());
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
    /// Title of a session, secrets masked; empty if it has none.
    pub title: String,
    /// Day on which a session started, in the zone of the command.
    pub start_day: String,
    /// Project of a session.
    pub project: Option<String>,
    /// Coding agent of a session.
    pub coding_agent: Option<Agent>,
    /// First and last call or record.
    pub times: Option<(Time, Time)>,
    /// Sums over the calls.
    pub sums: UsageSums,
    /// Models used, each with its sums.
    pub models: ModelSums,
    /// Only of sessions: the window and what happened to it.
    pub window: Option<WindowFacts>,
    /// Sessions in the row.
    pub sessions: BTreeSet<u32>,
    /// First day of the period that the row covers.
    pub period_start: Option<Date>,
    /// Whether the row is the part of another one that a model has.
    pub is_part: bool,
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
    /// One for each group. A session that counts has a row for its main agent even if only its sub-agents made calls.
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
    // By session, its only row; most groupings by session need no names to find it.
    let mut row_of_session = Vec::<usize>::new();
    let mut book = PriceBook::new(prices);
    if by == GroupBy::Session {
        rows.reserve_exact(summary.counted_sessions().count());
        for (number, session) in summary.counted_sessions() {
            let key = (session.id.clone(), apart.then(String::new));
            match apart {
                true => {
                    places.insert(key.clone(), rows.len());
                }
                false => {
                    row_of_session.resize(number as usize, usize::MAX);
                    row_of_session.push(rows.len());
                }
            }
            rows.push(session_row(number, session, key, zone));
        }
    }
    let mut periods = PeriodCache::new(by.period(), zone);
    let grouping = Grouping { by, apart };
    // Most calls go where the one before went, at the same price. Their sums are added up apart and booked together.
    let mut recent: Option<(CallGroup, usize, usize)> = None;
    let mut pending = UsageSums::default();
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
                GroupBy::Agent => session.coding_agent as i64,
                GroupBy::Project => i64::from(call.cwd),
                GroupBy::Model | GroupBy::Tool => i64::from(call.model),
                GroupBy::Day | GroupBy::Week | GroupBy::Month => periods.number(call.time),
                GroupBy::Branch => i64::from(call.branch),
                GroupBy::Pr => pull_number(session, call.time),
                GroupBy::User => i64::from(call.cwd),
            },
            agent: apart.then_some((call.is_sidechain, call.agent)),
        };
        let (at, price) = match recent {
            Some((known, at, price)) if known == group => (at, price),
            _ => {
                if let Some((known, at, _)) = recent {
                    let session = &summary.sessions[known.session as usize];
                    book_model(&mut rows[at], session, known.model, &mut pending);
                }
                let at = match row_of_session.get(number as usize) {
                    Some(at) => *at,
                    None => {
                        let (key, agent) = grouping.key(session, call, &mut periods);
                        let known = places.entry((key.clone(), agent.clone()));
                        *known.or_insert_with(|| {
                            rows.push(UsageRow {
                                key,
                                agent,
                                title: match by {
                                    GroupBy::Session => session.title.masked(),
                                    _ => String::new(),
                                },
                                start_day: session.times.map_or_else(String::new, |times| day_of(times.0, zone)),
                                period_start: periods.start(call.time),
                                project: (by == GroupBy::Session).then(|| session.project.clone()),
                                coding_agent: (by == GroupBy::Session).then_some(session.coding_agent),
                                ..UsageRow::default()
                            });
                            rows.len() - 1
                        })
                    }
                };
                rows[at].sessions.insert(number);
                (at, book.number(model()))
            }
        };
        recent = Some((group, at, price));
        let row = &mut rows[at];
        pending.add(call, book.tariff(price));
        if by != GroupBy::Session || apart {
            row.extend_times(call.time);
        }
    }
    if let Some((known, at, _)) = recent {
        let session = &summary.sessions[known.session as usize];
        book_model(&mut rows[at], session, known.model, &mut pending);
    }
    match by.period() {
        Some(period) => {
            fill_gaps(&mut rows, period, apart);
            rows.sort_by(|a, b| (&a.key, &a.agent).cmp(&(&b.key, &b.agent)));
        }
        None => sort_by_cost(&mut rows),
    }
    UsageTally {
        rows,
        progress_only,
        unknown: book.unpriced().map(str::to_owned).collect(),
    }
}

/// What decides the row of a call.
#[derive(Clone, Copy)]
struct Grouping {
    by: GroupBy,
    /// Whether sub-agents have rows of their own.
    apart: bool,
}

impl Grouping {
    /// Returns the key of the row of a call, and its sub-agent if these are apart.
    fn key(
        self,
        session: &SessionReport,
        call: &BilledCall,
        periods: &mut PeriodCache<'_>,
    ) -> (String, Option<String>) {
        let name = |number: u32| session.names.get(number as usize).cloned().unwrap_or_default();
        let key = match self.by {
            GroupBy::Session => session.id.clone(),
            GroupBy::Agent => session.coding_agent.name().to_owned(),
            GroupBy::Project => project_of(session, call),
            GroupBy::Model | GroupBy::Tool => name(call.model),
            GroupBy::Day | GroupBy::Week | GroupBy::Month => periods.name(call.time),
            GroupBy::Branch => name(call.branch),
            GroupBy::Pr => pull_of(session, call.time).to_owned(),
            GroupBy::User => user_of(&project_of(session, call)),
        };
        let agent = self.apart.then(|| match (call.is_sidechain, name(call.agent)) {
            (false, _) => String::new(),
            (true, agent) if agent.is_empty() => "(sub-agent)".into(),
            (true, agent) => agent,
        });
        (key, agent)
    }
}

/// Books what was added up of one model.
fn book_model(row: &mut UsageRow, session: &SessionReport, model: u32, pending: &mut UsageSums) {
    let sums = std::mem::take(pending);
    row.sums.merge(&sums);
    let model = session.names.get(model as usize).map_or("", |model| model);
    row.models.merge(model, &sums);
}

/// Sorts rows by cost, the costliest first. Of equal ones, those with more calls come first, then the earlier ones.
pub fn sort_by_cost(rows: &mut [UsageRow]) {
    fn rank(row: &UsageRow) -> impl Ord + '_ {
        let start = row.times.map_or(Time::MAX, |times| times.0);
        let start = if row.window.is_some() { start } else { Time::MAX };
        (
            Reverse((row.sums.cost, row.sums.responses)),
            start,
            &row.key,
            &row.agent,
        )
    }
    // No two rows have the same rank, and there may be very many.
    rows.sort_unstable_by(|a, b| rank(a).cmp(&rank(b)));
}

/// Adds a row for every period without calls between the first and the last one.
fn fill_gaps(rows: &mut Vec<UsageRow>, period: Period, apart: bool) {
    /// More would be decades of days: then a time is wrong.
    const MOST: usize = 20_000;
    let starts = rows.iter().filter_map(|row| row.period_start).collect::<BTreeSet<_>>();
    let (Some(&first), Some(&last)) = (starts.first(), starts.last()) else {
        return;
    };
    let days = std::iter::successors(Some(first), |day| period.next(*day)).take_while(|day| *day <= last);
    let days = days.take(MOST + 1).collect::<Vec<_>>();
    if days.len() > MOST {
        return;
    }
    let missing = days.into_iter().filter(|day| !starts.contains(day));
    rows.extend(missing.map(|day| UsageRow {
        key: period.name(day),
        agent: apart.then(String::new),
        period_start: Some(day),
        ..UsageRow::default()
    }));
}

/// Returns the number of the pull request that a call belongs to: that of the last link before it.
fn pull_number(session: &SessionReport, time: Time) -> i64 {
    session.pulls.partition_point(|(since, _)| *since <= time) as i64
}

fn pull_of(session: &SessionReport, time: Time) -> &str {
    let links = &session.pulls;
    match usize::try_from(pull_number(session, time)).unwrap_or(0) {
        0 if links.is_empty() => NO_PULL,
        0 => BEFORE_PULLS,
        number => &links[number - 1].1,
    }
}

/// Returns the user whose home folder a path lies in.
fn user_of(path: &str) -> String {
    let mut parts = path
        .split(['/', '\\'])
        .skip_while(|part| part.is_empty() || part.ends_with(':'));
    match (parts.next(), parts.next()) {
        (Some(homes), Some(user)) if homes.eq_ignore_ascii_case("users") || homes == "home" => user.to_owned(),
        (Some("root"), _) => "root".to_owned(),
        _ => "(unknown)".to_owned(),
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

fn session_row(
    number: u32,
    session: &SessionReport,
    (key, agent): (String, Option<String>),
    zone: &TimeZone,
) -> UsageRow {
    UsageRow {
        key,
        agent,
        title: session.title.masked(),
        start_day: session.times.map_or_else(String::new, |times| day_of(times.0, zone)),
        project: Some(session.project.clone()),
        coding_agent: Some(session.coding_agent),
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

impl UsageRow {
    fn extend_times(&mut self, time: Time) {
        if time != NO_TIME {
            let (first, last) = self.times.unwrap_or((time, time));
            self.times = Some((first.min(time), last.max(time)));
        }
    }

    /// Returns a row for each model, the costliest first.
    pub fn by_model(&self) -> Vec<UsageRow> {
        let row = |(model, sums): (&str, &UsageSums)| {
            let mut row = UsageRow {
                key: self.key.clone(),
                agent: self.agent.clone(),
                title: self.title.clone(),
                sums: sums.clone(),
                is_part: true,
                ..UsageRow::default()
            };
            row.models.merge(model, sums);
            row
        };
        let mut rows = self.models.iter().map(row).collect::<Vec<_>>();
        rows.sort_by_key(|row| Reverse(row.sums.cost));
        rows
    }

    /// All rows in one, for the line below the table.
    pub fn total(rows: &[UsageRow]) -> UsageRow {
        let mut total = UsageRow {
            key: "total".into(),
            title: "total".into(),
            ..UsageRow::default()
        };
        for row in rows {
            total.sums.merge(&row.sums);
            for (model, sums) in row.models.iter() {
                total.models.merge(model, sums);
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_named_by_their_home_folder() {
        let check = |path: &str, user: &str| assert_eq!(user_of(path), user, "{path}");
        check("/home/ana/shop", "ana");
        check("/Users/ben", "ben");
        check("C:\\Users\\cem\\shop", "cem");
        check("/root/x", "root");
        check("/work/shop", "(unknown)");
        check("", "(unknown)");
    }

    #[test]
    fn weeks_without_calls_have_rows() {
        let row = |key: &str| UsageRow {
            key: key.into(),
            period_start: Some(key.parse().unwrap()),
            ..UsageRow::default()
        };
        let mut rows = vec![row("2026-08-31"), row("2026-08-10")];
        fill_gaps(&mut rows, Period::Week, false);
        let mut keys = rows.iter().map(|row| row.key.as_str()).collect::<Vec<_>>();
        keys.sort_unstable();
        assert_eq!(keys, ["2026-08-10", "2026-08-17", "2026-08-24", "2026-08-31"]);
    }

    #[test]
    fn calls_belong_to_the_last_pull_request_before_them() {
        let session = SessionReport {
            pulls: vec![(10, "o/r#1".into()), (20, "o/r#2".into())],
            ..SessionReport::default()
        };
        let of = |time| pull_of(&session, time).to_owned();
        assert_eq!(
            [of(9), of(10), of(19), of(20)],
            ["(before any)", "o/r#1", "o/r#1", "o/r#2"]
        );
        assert_eq!(pull_of(&SessionReport::default(), 5), "(none)");
    }
}
