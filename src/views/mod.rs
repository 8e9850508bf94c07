//! What people and programs see of each verb: rows, columns, JSON documents and sentences. Nothing here reads logs or writes
//! files; the commands do.

pub mod audit;
pub mod check;
pub mod compare;
pub mod events;
pub mod notes;
pub mod overview;
pub mod replay;
pub mod search;
pub mod stats;
pub mod tune;
pub mod validate;

use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use transcript::problem::{Problem, ProblemRow};

/// Counts problems by kind.
pub fn problem_counts(problems: &[Problem]) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for problem in problems {
        *counts.entry(problem.kind.name()).or_insert(0) += 1;
    }
    counts
}

/// Returns the field `problems` of a document: counts and, if `with_list` is set, every problem.
fn problems_json(problems: &[Problem], with_list: bool) -> Json {
    let mut fields = json!({"total": problems.len(), "by_kind": problem_counts(problems)});
    if with_list {
        fields["list"] = json!(problems.iter().map(ProblemRow::from).collect::<Vec<_>>());
    }
    fields
}

/// Returns the first eight characters of a session id, as tables show it.
fn short_id(id: &str) -> String {
    id.chars().take(8).collect()
}
