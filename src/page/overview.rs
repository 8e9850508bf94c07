//! The first view: what was spent on what. From recorded usage where there is any, else from a replay.

use crate::page::PageReplay;
use crate::page::pack;
use crate::page::rounds::PageTally;
use crate::usage::cells::UsageCell;
use crate::usage::session::SessionReport;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use table::format_time;
use transcript::problem::ProblemKind;

/// Most problems that are listed one by one.
const MAX_LISTED_PROBLEMS: usize = 200;

/// Puts the rows of recorded usage into columns.
pub fn pack_usage(mut overview: Json) -> Json {
    if let Some(Json::Object(usage)) = overview.get_mut("usage") {
        for rows in usage.values_mut() {
            let list = rows.take();
            *rows = pack::rows_to_columns(list.as_array().map_or(&[][..], Vec::as_slice), &["is_titled"]);
        }
    }
    overview
}

/// Recorded usage: the document of `stats`, and its rows by day, model and project where they are known.
pub fn overview_from_stats(document: &Json, rows: &[(&str, Vec<Json>)]) -> Json {
    let named = |by: &str, rows: &[Json]| {
        let one = |row: &Json| {
            let mut row = row.clone();
            row["name"] = row[by].take();
            row
        };
        rows.iter().map(one).collect::<Vec<_>>()
    };
    let lists = rows.iter().map(|(by, rows)| (format!("{by}s"), json!(named(by, rows))));
    let mut overview = Map::from_iter(lists);
    for key in [
        "totals",
        "ledger",
        "input",
        "reads",
        "unknown_models",
        "prices",
        "rewound_tokens",
    ] {
        overview.insert(key.to_owned(), document[key].clone());
    }
    overview.insert("basis".to_owned(), json!("recorded"));
    overview.insert("problems".to_owned(), problems_json(&document["problems"]));
    overview.into()
}

/// A session with an API call of its own.
pub fn session_json(session: &SessionReport) -> Json {
    let window = (session.occupancy.rounds > 0).then_some(session.occupancy.peak);
    json!({
        "session": session.id,
        "title": session.title.masked(),
        "is_titled": session.title.is_given,
        "coding_agent": session.coding_agent,
        "project": session.project,
        "first_time": session.times.and_then(|times| format_time(times.0)),
        "last_time": session.times.and_then(|times| format_time(times.1)),
        "prompts": session.prompts,
        "peak": window,
        "auto": session.boundaries.auto,
        "manual": session.boundaries.manual,
        "micro": session.boundaries.micro,
    })
}

/// Calls of a session on one day with one model. The cost is in billionths of a dollar, so that sums of many rows are exact.
pub fn cell_json(cell: &UsageCell) -> Json {
    let sums = &cell.sums;
    json!({
        "at": cell.session,
        "day": cell.day,
        "model": cell.model,
        "calls": sums.responses,
        "sub_calls": sums.subagent_responses,
        "unpriced": sums.unpriced,
        "sent": sums.input + sums.cache_read + sums.write_5m + sums.write_1h,
        "cached": sums.cache_read,
        "output": sums.output,
        "cost_nano": u64::try_from(sums.cost / 1_000).unwrap_or(u64::MAX),
    })
}

/// What a replay comes to.
pub fn overview_from_replay(run: &PageReplay, tally: &PageTally) -> Json {
    let mut projects = BTreeMap::<&str, (u64, i64)>::new();
    for session in &run.sessions {
        let sum = projects
            .entry(session["project"].as_str().unwrap_or_default())
            .or_default();
        sum.0 += session["calls"].as_u64().unwrap_or(0);
        sum.1 += session["cost_micro_usd"].as_i64().unwrap_or(0);
    }
    let projects = projects.iter();
    let projects = projects.map(|(name, (calls, cost))| json!({"name": name, "calls": calls, "cost_micro_usd": cost}));
    let mut overview = tally.to_json();
    overview["basis"] = json!("replayed");
    overview["projects"] = projects.collect();
    overview["ledger"] = run.summary["ledger"].clone();
    overview["problems"] = problems_json(&run.summary["problems"]);
    overview
}

/// Problems with what they mean, and the first of them one by one.
fn problems_json(problems: &Json) -> Json {
    let counts = problems["by_kind"].as_object();
    let kinds = ProblemKind::all().filter_map(|kind| {
        let count = counts?.get(kind.name())?;
        Some(json!({"kind": kind.name(), "count": count, "about": kind.about(), "lost": kind.is_loss()}))
    });
    let list = problems["list"].as_array().map_or(&[][..], Vec::as_slice);
    json!({
        "total": problems["total"],
        "kinds": kinds.collect::<Vec<_>>(),
        "list": &list[..list.len().min(MAX_LISTED_PROBLEMS)],
    })
}
