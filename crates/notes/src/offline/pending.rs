//! What is open at the end of a session, shared by notes and summaries: refusals, tasks, the request without an answer,
//! failures, and what an earlier summary left open and nothing since has done.

use crate::offline::digest::{Digest, DigestFailure, TaskItem, TaskState};
use crate::offline::lines::{MOST_FACTS, changed_since, is_still_failing, refusal_lines};
use crate::offline::open_end::open_question;
use crate::offline::prose::whole_sentences;
use crate::offline::requests::{is_request, quote_request, unanswered_request};
use language::markdown::{escape_markdown, inline_code};
use language::words::content_words;
use std::collections::HashSet;

/// Prompts after the last change of the task list from which on it may be out of date.
const STALE_PROMPTS: usize = 3;

/// Returns the lines about what is open, the most important first.
pub fn pending_lines(digest: &Digest) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(question) = open_question(digest) {
        lines.push(format!("- Waiting for an answer to {question}"));
    }
    lines.extend(refusal_lines(digest));
    lines.extend(unanswered_request(digest).map(|prompt| {
        let label = unanswered_label(digest);
        format!("- {label}: {}", quote_request(digest, prompt, 200))
    }));
    lines.extend(task_lines(digest));
    let open = digest.failures.iter().rev();
    let open = open.filter(|failure| is_still_failing(digest, failure)).take(3);
    lines.extend(open.map(|failure| open_failure_line(digest, failure)));
    lines.extend(earlier_lines(digest));
    lines
}

/// Returns how a request without an answer stands.
pub fn unanswered_label(digest: &Digest) -> &'static str {
    match digest.is_stopped() {
        true => "Stopped by the user, who has said nothing since",
        false => "Asked and not answered yet",
    }
}

/// Formats a failure that nothing has closed. If files were changed since, it is not known whether it is still there.
fn open_failure_line(digest: &Digest, failure: &DigestFailure) -> String {
    let what = inline_code(&failure.what);
    let error = escape_markdown(&whole_sentences(&failure.error, 200));
    let changed = changed_since(digest, failure);
    let files = changed.iter().rev().take(4).map(|path| inline_code(path));
    match changed.is_empty() {
        true => format!("- Still failing: {what} ({error})"),
        false => format!(
            "- Failed at its last run: {what} ({error}). Not run again since changes to {}",
            files.collect::<Vec<_>>().join(", ")
        ),
    }
}

/// Returns the open tasks. A list that was not touched for some prompts may be out of date, and the line says so.
fn task_lines(digest: &Digest) -> Vec<String> {
    let since = digest
        .prompts
        .iter()
        .filter(|prompt| prompt.step > digest.tasks_step && is_request(prompt));
    let stale = since.count();
    let open = digest.tasks.iter().filter(|task| task.state != TaskState::Done);
    let line = |task: &TaskItem| {
        let text = escape_markdown(&whole_sentences(&task.text, 240));
        match (task.state, stale >= STALE_PROMPTS) {
            (TaskState::InProgress, false) => format!("- In progress: {text}"),
            (_, false) => format!("- Not begun: {text}"),
            (_, true) => format!("- On the task list, untouched for {stale} prompts: {text}"),
        }
    };
    open.map(line).collect()
}

/// Returns what an earlier summary left open: with the evidence if something since then did it. Open tasks are listed already.
fn earlier_lines(digest: &Digest) -> Vec<String> {
    let says_nothing = |point: &String| {
        let low = point.trim_start_matches(['*', '_', '(']).to_lowercase();
        ["none", "nothing", "no ", "n/a"]
            .iter()
            .any(|start| low.starts_with(start))
    };
    let (mut open, mut done) = (Vec::new(), Vec::new());
    for point in digest
        .earlier_points(7)
        .into_iter()
        .filter(|point| !says_nothing(point))
    {
        let text = escape_markdown(&whole_sentences(&point, 240));
        match later_state(digest, &point) {
            LaterState::Listed => {}
            LaterState::Done(evidence) => done.push(format!("- Done since the earlier summary: {text} ({evidence})")),
            LaterState::Unmatched => open.push(format!(
                "- Open by an earlier summary, not matched with later work: {text}"
            )),
        }
    }
    open.truncate(MOST_FACTS);
    done.truncate(MOST_FACTS / 2);
    open.extend(done);
    open
}

/// How a point of an earlier summary stands now.
enum LaterState {
    /// It is an open task.
    Listed,
    /// It was done, by this evidence.
    Done(String),
    Unmatched,
}

/// Compares a point of an earlier summary with the task that shares most words with it, then with the commits since.
fn later_state(digest: &Digest, point: &str) -> LaterState {
    let wanted = content_words(point).into_iter().collect::<HashSet<_>>();
    let shared = |text: &str| {
        let words = content_words(text).into_iter().collect::<HashSet<_>>();
        let shared = words.intersection(&wanted).count();
        (shared >= 3 && shared * 2 >= words.len().min(wanted.len())).then_some(shared)
    };
    let tasks = digest.tasks.iter().filter_map(|task| Some((shared(&task.text)?, task)));
    // The first of those that share as many words.
    let nearest = tasks.rev().max_by_key(|(shared, _)| *shared);
    match nearest {
        Some((_, task)) if task.state != TaskState::Done => return LaterState::Listed,
        Some(_) => return LaterState::Done("a task that was finished".to_owned()),
        None => {}
    }
    let mut commits = digest.ledger.commits.iter().rev();
    match commits.find(|commit| shared(&commit.subject).is_some()) {
        Some(commit) if commit.hash.is_empty() => LaterState::Done("committed".to_owned()),
        Some(commit) => LaterState::Done(format!("commit {}", inline_code(&commit.hash))),
        None => LaterState::Unmatched,
    }
}
