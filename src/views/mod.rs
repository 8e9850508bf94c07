//! What people and programs see of each verb: rows, columns, JSON documents and sentences. Nothing here reads logs or writes
//! files; the commands do.

pub mod audit;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod events;
pub mod notes;
pub mod overview;
pub mod replay;
pub mod search;
pub mod stats;
pub mod tune;
pub mod validate;

use ::replay::policy::presets::ClientVersion;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};
use transcript::problem::{Problem, ProblemRow};

/// Counts problems by kind.
pub fn problem_counts<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for problem in problems {
        *counts.entry(problem.kind.name()).or_insert(0) += problem.count();
    }
    counts
}

/// Returns how many problems there are, those that are only counted among them.
fn total_problems<'a>(problems: impl IntoIterator<Item = &'a Problem>) -> u64 {
    problems.into_iter().map(Problem::count).sum()
}

/// Returns the field `problems` of a document: counts and, if `with_list` is set, the problems that were kept with their places.
fn problems_json(problems: &[Problem], with_list: bool) -> Json {
    let of_input = || problems.iter().filter(|problem| problem.kind.is_of_input());
    let mut fields = json!({"total": total_problems(of_input()), "by_kind": problem_counts(of_input())});
    if with_list {
        fields["list"] = json!(of_input().map(ProblemRow::from).collect::<Vec<_>>());
    }
    fields
}

/// Returns the first eight characters of a session id, as tables show it.
fn short_id(id: &str) -> String {
    id.chars().take(8).collect()
}

/// Returns a version of a coding agent, or several, as tables show it: agents other than Claude Code are named.
fn name_version(agent: Agent, version: &str) -> String {
    let is_known = !version.is_empty() && version != ClientVersion::default().to_string();
    match (agent, is_known) {
        (Agent::Claude, _) => version.to_owned(),
        (other, true) => format!("{} {version}", other.name()),
        (other, false) => other.name().to_owned(),
    }
}

/// Returns a time to the minute in a zone; `None` for an unknown time.
fn format_minute(time: Time, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_millisecond(Some(time).filter(|time| *time != NO_TIME)?).ok()?;
    Some(time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string())
}

/// Returns the last folder of a path, whatever system it is from.
fn folder_name(path: &str) -> String {
    let trimmed = path.trim_end_matches(['/', '\\']);
    trimmed.rsplit(['/', '\\']).next().unwrap_or(trimmed).to_owned()
}
