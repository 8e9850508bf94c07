//! The first view: what was spent on what. From recorded usage where there is any, else from a replay.

use crate::page::PageReplay;
use crate::page::pack::{PackedField, pack_columns};
use crate::page::private::shorten_title;
use crate::page::rounds::PageTally;
use crate::usage::cells::UsageCell;
use crate::usage::session::SessionReport;
use serde_json::{Map, Value as Json, json};
use table::format_time;
use transcript::problem::ProblemKind;

/// Most problems that are listed one by one.
const MAX_LISTED_PROBLEMS: usize = 200;

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
        "recorded",
    ] {
        overview.insert(key.to_owned(), document[key].clone());
    }
    overview.insert("basis".to_owned(), json!("recorded"));
    overview.insert("problems".to_owned(), problems_json(&document["problems"]));
    overview.into()
}

/// Recorded usage for a reader to choose from: the sessions that count, and cells of one session, day and model each. Costs are
/// in billionths of a dollar, so that sums of many cells are exact.
pub fn usage_columns<'s>(sessions: impl Iterator<Item = &'s SessionReport> + Clone, cells: &[UsageCell]) -> Json {
    let of_sessions: [PackedField<'_, SessionReport>; 12] = [
        ("session", |row| json!(row.id)),
        ("title", |row| json!(page_title(row))),
        (WHOLE_TITLE, |row| json!(row.title.masked())),
        ("project", |row| json!(row.project)),
        ("first_time", |row| {
            json!(row.times.and_then(|times| format_time(times.0)))
        }),
        ("last_time", |row| {
            json!(row.times.and_then(|times| format_time(times.1)))
        }),
        ("prompts", |row| json!(row.prompts)),
        ("peak", |row| {
            json!((row.occupancy.rounds > 0).then_some(row.occupancy.peak))
        }),
        ("auto", |row| json!(row.boundaries.value().auto)),
        ("manual", |row| json!(row.boundaries.value().manual)),
        ("unknown", |row| json!(row.boundaries.value().unknown)),
        ("micro", |row| json!(row.boundaries.value().micro)),
    ];
    let of_cells: [PackedField<'_, UsageCell>; 10] = [
        ("at", |row| json!(row.session)),
        ("day", |row| json!(row.day)),
        ("model", |row| json!(row.model)),
        ("calls", |row| json!(row.sums.responses)),
        ("sub_calls", |row| json!(row.sums.subagent_responses)),
        ("unpriced", |row| json!(row.sums.unpriced)),
        ("sent", |row| {
            let sums = &row.sums;
            json!(sums.input + sums.cache_read + sums.write_5m + sums.write_1h)
        }),
        ("cached", |row| json!(row.sums.cache_read)),
        ("output", |row| json!(row.sums.output)),
        ("cost_nano", |row| {
            json!(u64::try_from(row.sums.cost / 1_000).unwrap_or(u64::MAX))
        }),
    ];
    json!({"sessions": pack_columns(sessions, &of_sessions), "cells": pack_columns(cells.iter(), &of_cells)})
}

/// The column of titles that a page without texts has not.
pub const WHOLE_TITLE: &str = "whole_title";

/// The title of a session, cut after its first words if nobody gave it.
fn page_title(session: &SessionReport) -> String {
    match session.title.is_given {
        true => session.title.masked(),
        false => shorten_title(&session.title.masked()),
    }
}

/// What a replay comes to.
pub fn overview_from_replay(run: &PageReplay, tally: &PageTally) -> Json {
    let projects = run.sessions.projects.iter();
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
