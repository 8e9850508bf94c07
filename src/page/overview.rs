//! The first view: what was spent on what. From recorded usage where there is any, else from a replay.

use crate::page::Run;
use crate::page::rounds::Tally;
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use transcript::problem::Kind;

/// Most problems that are listed one by one.
const LISTED: usize = 200;

/// Recorded usage: the document of `stats`, and its rows by day, model and project where they are known.
pub fn of_stats(document: &Json, rows: &[(&str, Vec<Json>)]) -> Json {
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
    overview.insert("problems".to_owned(), problems(&document["problems"]));
    overview.into()
}

/// What a replay comes to.
pub fn of_run(run: &Run, tally: &Tally) -> Json {
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
    overview["problems"] = problems(&run.summary["problems"]);
    overview
}

/// Problems with what they mean, and the first of them one by one.
fn problems(problems: &Json) -> Json {
    let counts = problems["by_kind"].as_object();
    let kinds = Kind::all().filter_map(|kind| {
        let count = counts?.get(kind.name())?;
        Some(json!({"kind": kind.name(), "count": count, "about": kind.about(), "lost": kind.is_loss()}))
    });
    let list = problems["list"].as_array().map_or(&[][..], Vec::as_slice);
    json!({
        "total": problems["total"],
        "kinds": kinds.collect::<Vec<_>>(),
        "list": &list[..list.len().min(LISTED)],
    })
}
