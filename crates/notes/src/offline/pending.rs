//! What is open at the end of a session, shared by notes and summaries: refusals, tasks, the request without an answer,
//! failures, and what an earlier summary left open and nothing since has done.

use crate::offline::digest::{Digest, DigestFailure, ShellCommand, TaskItem, TaskState};
use crate::offline::lines::{MOST_FACTS, changed_since, is_check, is_still_failing, refusal_lines};
use crate::offline::names;
use crate::offline::open_end::open_question;
use crate::offline::prose::whole_sentences;
use crate::offline::repository::background_lines;
use crate::offline::requests::{is_request, quote_request, states_task, unanswered_request};
use crate::offline::state::intent::CommandIntent;
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
    lines.extend(
        digest
            .unfinished_call()
            .map(|call| format!("- Called last, without a result yet: {call}")),
    );
    lines.extend(task_lines(digest));
    let open = digest.failures.iter().rev();
    // One run may fail for two of them.
    let mut open = open
        .filter(|failure| is_still_failing(digest, failure))
        .collect::<Vec<_>>();
    open.dedup_by_key(|failure| failure.step);
    lines.extend(
        open.into_iter()
            .take(3)
            .map(|failure| open_failure_line(digest, failure)),
    );
    lines.extend(background_lines(digest));
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
            || reports_past(&low)
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
            LaterState::Done(evidence) => {
                // The number of a list item whose text is cut off.
                let text =
                    text.trim_end_matches(|sign: char| sign.is_ascii_digit() || matches!(sign, '.' | ' ' | '\\'));
                done.push(format!("- Done since the earlier summary: {text} ({evidence})"));
            }
            LaterState::Unmatched => open.push(match changed_file(digest, &point) {
                Some(path) => {
                    format!(
                        "- Open by an earlier summary, {} was changed since: {text}",
                        inline_code(path)
                    )
                }
                None => format!("- Open by an earlier summary, not matched with later work: {text}"),
            }),
        }
    }
    done.truncate(MOST_FACTS / 2);
    let later = digest.prompts[digest.summary_prompts..]
        .iter()
        .filter(|prompt| states_task(prompt))
        .count();
    // Who went on to other things and got answers left them aside.
    let is_left = later >= STALE_PROMPTS && unanswered_request(digest).is_none();
    let commits = digest.ledger.commits.len().saturating_sub(digest.summary_commits);
    if is_left && open.len() > 1 {
        let first = open.remove(0);
        let count = open.len();
        open = vec![format!("{first} (and {count} more; {later} requests since)")];
    } else if commits > 0 && unanswered_request(digest).is_none() && open.len() > 1 {
        // All requests since were answered and work was committed: which of them that was cannot be said.
        let first = open.remove(0);
        let since = if commits == 1 {
            "1 commit".to_owned()
        } else {
            format!("{commits} commits")
        };
        let point = first.split_once(": ").map_or(first.as_str(), |(_, point)| point);
        let more = open.len();
        open = vec![format!(
            "- Listed as open by an earlier summary, {since} since, not known whether it still is: {point} (and {more} more)"
        )];
    }
    open.truncate(MOST_FACTS);
    open.extend(done);
    open
}

/// Returns whether a point says, in lower case, what was told or answered, and nothing that is to be done.
fn reports_past(point: &str) -> bool {
    const CUES: [&str; 8] = [
        " was answered",
        " were answered",
        "was informed",
        "was told",
        "is complete",
        "are complete",
        "was completed",
        "already done",
    ];
    const ORDERS: [&str; 8] = ["but ", "next", "need", "should", "must", "todo", "to do", "not "];
    CUES.iter().any(|cue| point.contains(cue)) && !ORDERS.iter().any(|order| point.contains(order))
}

/// Returns the command that ran a test which a point names, and went through last since.
fn passed_test<'d>(digest: &'d Digest, point: &str) -> Option<&'d str> {
    let is_test = |span: &&str| {
        let low = span.to_lowercase();
        let is_name = span.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
        span.len() > 8 && is_name && (low.starts_with("test") || low.ends_with("test"))
    };
    let names = point.split('`').skip(1).step_by(2).filter(is_test).collect::<Vec<_>>();
    let ran = digest.commands.iter().rev().filter(|command| {
        let is_named = names.iter().any(|name| command.text.contains(name));
        command.runs > 0 && command.step > digest.summary_step && is_named && is_check(command)
    });
    let last = ran.max_by_key(|command| command.step)?;
    (!last.is_failing || last.is_closed).then_some(last.text.as_str())
}

/// Returns the file in a point that was changed since the last summary.
fn changed_file<'d>(digest: &'d Digest, point: &str) -> Option<&'d str> {
    let is_named = |path: &str| {
        let name = names::file_name(path);
        name.len() > 4 && name.contains('.') && point.contains(name)
    };
    let later = digest.files.iter();
    let mut later = later.filter(|file| file.changes > 0 && file.step > digest.summary_step);
    let found = later.find(|file| is_named(&file.path))?;
    Some(names::relative_path(&found.path, &digest.root))
}

/// Returns the number of the task that a point names (`Task 6`, `#6`); `None` if it names none.
fn task_number(point: &str) -> Option<&str> {
    let bare = point.trim_start_matches(['*', ' ', '[', '(']);
    let after = ["Task #", "Task ", "#"]
        .iter()
        .find_map(|lead| bare.strip_prefix(lead))?;
    let end = after.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(after.len());
    (end > 0).then_some(&after[..end])
}

/// Returns the command in a point that went through since, and whose run it asks for.
fn done_command<'d>(digest: &'d Digest, point: &str) -> Option<&'d str> {
    let spans = point.split('`').skip(1).step_by(2);
    let wanted = spans.flat_map(CommandIntent::parse_all).collect::<Vec<_>>();
    let is_specific = |intent: &&CommandIntent| intent.program().len() > 1;
    let mut wanted = wanted.iter().filter(is_specific).peekable();
    wanted.peek()?;
    let since = || {
        digest
            .commands
            .iter()
            .filter(|command| command.step > digest.summary_step && command.runs > 0)
    };
    let goes_through = |command: &ShellCommand, intent: &CommandIntent| {
        !command.is_failing && command.intent.as_ref().is_some_and(|done| done.covers(intent))
    };
    let covers = |intent: &CommandIntent| since().any(|command| goes_through(command, intent));
    let all = wanted.collect::<Vec<_>>();
    let is_last = |command: &&ShellCommand| all.last().is_some_and(|intent| goes_through(command, intent));
    match all.iter().all(|intent| covers(intent)) {
        true => since().rfind(is_last).map(|command| command.text.as_str()),
        false => None,
    }
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
    // The list has the same task: its state counts.
    if let Some(task) = task_number(point).and_then(|id| digest.tasks.iter().find(|task| task.id == id)) {
        return match task.state {
            TaskState::Done => LaterState::Done("the task was finished".to_owned()),
            _ => LaterState::Listed,
        };
    }
    if let Some(command) = done_command(digest, point) {
        return LaterState::Done(format!("{} went through", inline_code(command)));
    }
    if let Some(command) = passed_test(digest, point) {
        return LaterState::Done(format!("{} went through", inline_code(command)));
    }
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
    let mut commits = digest.ledger.commits.iter().skip(digest.summary_commits).rev();
    match commits.find(|commit| shared(&commit.subject).is_some()) {
        Some(commit) if commit.hash.is_empty() => LaterState::Done("committed".to_owned()),
        Some(commit) => LaterState::Done(format!("commit {}", inline_code(&commit.hash))),
        None => LaterState::Unmatched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_about_the_past_asks_for_nothing() {
        assert!(reports_past("the question why it stops was answered"));
        assert!(!reports_past("mockups were not created; the user was told"));
        assert!(!reports_past("the user was informed that the next step is a plan"));
    }
}
