//! Lines about files, commands, failures and choices, which notes and summaries share.

use crate::offline::compose::inline_quote;
use crate::offline::digest::{
    Digest, DigestFailure, PromptChannel, ShellCommand, TouchedFile, UserChoice, UserPrompt, is_open_question,
};
use crate::offline::gist::quote_message;
use crate::offline::names;
use crate::offline::shell::{is_check_command, is_read_only_command, is_throwaway, is_usage_error};
use crate::offline::state::FinalState;
use crate::offline::state::refusals::{Refusal, RefusedCall};
use language::markdown::{escape_markdown, inline_code};
use std::cmp::Reverse;
use transcript::log::Time;

/// Most facts of one kind that a text lists.
pub const MOST_FACTS: usize = 8;

/// Returns whether a failure is still open: a check that failed in its last run, within the last three turns.
pub fn is_still_failing(digest: &Digest, failure: &DigestFailure) -> bool {
    let fails = failure
        .command
        .is_some_and(|command| digest.commands[command].state() == Some(FinalState::Failed));
    let is_recent = failure.step >= recent_step(digest);
    failure.fixed_at.is_none()
        && !failure.is_moot
        && fails
        && !runs_in_background(digest, failure)
        && is_recent
        && is_check_command(&failure.what)
        && !is_usage_error(&failure.error)
}

/// Returns whether the command of a failure was started again later, and the log does not say how that ended.
fn runs_in_background(digest: &Digest, failure: &DigestFailure) -> bool {
    let failed = failure
        .command
        .and_then(|command| digest.commands[command].intent.as_ref());
    let is_same = |command: &ShellCommand| {
        let covers = failed.is_some_and(|failed| command.intent.as_ref().is_some_and(|intent| intent.covers(failed)));
        command.unfinished > 0 && command.step > failure.step && covers
    };
    digest.commands.iter().any(is_same)
}

/// Returns the step with which the last three turns begin.
pub fn recent_step(digest: &Digest) -> usize {
    let first = digest.turns.len().checked_sub(3);
    let prompt = first.and_then(|at| digest.turns.get(at)?.prompt);
    prompt.map_or(0, |prompt| digest.prompts[prompt].step)
}

/// Returns whether a command checks the work: one that is known to, or one that failed and was run again. What only looks or
/// throws its code away checks nothing, and what cannot be quoted as a whole is named by no line.
pub fn is_check(command: &ShellCommand) -> bool {
    if is_read_only_command(&command.text) || is_throwaway(&command.text) || command.text.ends_with('…') {
        return false;
    }
    let intent = command.intent.as_ref();
    let program = intent.map(|intent| intent.program().join(" "));
    let is_tool = |program: &String| {
        let name = program.split_whitespace().next().unwrap_or_default();
        let was_repeated = command.failed > 0 && command.runs > 1;
        !matches!(name, "git" | "gh" | "docker" | "which") && (was_repeated || is_check_command(program))
    };
    is_check_command(&command.text) && !is_bookkeeping(command) || program.as_ref().is_some_and(is_tool)
}

/// Returns the commands worth knowing, in the order of their first run: those that were run again, and checks.
pub fn workflow_commands(digest: &Digest) -> Vec<usize> {
    let is_shown = |at: &usize| {
        let command = &digest.commands[*at];
        let length = command.text.chars().count();
        command.runs > 0
            && !is_read_only_command(&command.text)
            && !is_bookkeeping(command)
            && length < 120
            && (command.runs > 1 || is_check_command(&command.text) && length < 100)
    };
    let mut shown = (0..digest.commands.len()).filter(is_shown).collect::<Vec<_>>();
    shown.sort_by_key(|at| {
        (
            Reverse(digest.commands[*at].runs.min(4)),
            Reverse(digest.commands[*at].step),
        )
    });
    shown.truncate(MOST_FACTS + 4);
    shown.sort_unstable();
    shown
}

/// Returns whether a command is run for nothing but preparation, or for git: the ledger has what came of that.
pub fn is_bookkeeping(command: &ShellCommand) -> bool {
    let mut words = command.text.split_whitespace().take(2);
    command.intent.is_none() || words.any(|word| matches!(word, "git" | "gh"))
}

/// Formats a command and how often it failed.
pub fn command_line(digest: &Digest, at: usize) -> String {
    let command = &digest.commands[at];
    let runs = match (command.runs, command.failed) {
        (1, 0) => String::new(),
        (1, _) if command.is_closed => " (failed; went through later in another form)".into(),
        (1, _) => " (failed)".into(),
        (runs, 0) => format!(" ({runs} times)"),
        (runs, failed) if command.is_failing && command.is_closed => {
            format!(" ({runs} times, {failed} failed; went through later in another form)")
        }
        (runs, failed) if command.is_failing => format!(" ({runs} times, {failed} failed, the last too)"),
        (runs, failed) => format!(" ({runs} times, {failed} failed, not the last)"),
    };
    let about = match command.about.is_empty() {
        true => String::new(),
        false => format!(": {}", escape_markdown(&command.about)),
    };
    format!("- {}{runs}{about}", inline_code(&command.text))
}

/// Formats the key line of an output; empty without one.
pub fn format_outcome(text: &str) -> String {
    match text.is_empty() {
        true => String::new(),
        false => format!(": {}", inline_code(text)),
    }
}

/// Formats a file, what was done to it, its last `most_symbols` definitions that were touched, and what is in it by `about`, if
/// that is not empty.
pub fn file_line(digest: &Digest, file: &TouchedFile, about: &str, most_symbols: usize) -> String {
    let path = inline_code(names::relative_path(&file.path, &digest.root));
    let done = match (file.changes, file.is_new) {
        (0, _) => "read",
        (_, true) => "new",
        (_, false) => "changed",
    };
    let symbols = file
        .symbols
        .iter()
        .rev()
        .take(most_symbols)
        .map(|symbol| inline_code(symbol));
    let symbols = symbols.collect::<Vec<_>>();
    let symbols = match symbols.is_empty() {
        true => String::new(),
        false => format!(": {}", symbols.join(", ")),
    };
    let about = match about.is_empty() {
        true => String::new(),
        false => format!(". {}", escape_markdown(about)),
    };
    format!("- {path} ({done}){symbols}{about}")
}

/// Formats a failure and what fixed it.
pub fn failure_line(digest: &Digest, failure: &DigestFailure) -> String {
    let times = if failure.occurrences > 1 {
        format!(" {} times", failure.occurrences)
    } else {
        String::new()
    };
    let mut line = format!(
        "- {} failed{times}: {}",
        inline_code(&failure.what),
        escape_markdown(&failure.error)
    );
    if failure.fixed_at.is_some() {
        let files = failure
            .changed
            .iter()
            .rev()
            .take(4)
            .map(|at| inline_code(names::relative_path(&digest.files[*at].path, &digest.root)));
        let files = files.collect::<Vec<_>>();
        // The lines of an error may end with a period.
        line.truncate(line.trim_end_matches('.').len());
        let fixer = failure.fixer.map(|at| inline_code(&digest.commands[at].text));
        line.push_str(&match (files.is_empty(), fixer) {
            (true, Some(fixer)) => format!(". Went through after {fixer}"),
            (true, None) => ". Went through later".to_owned(),
            (false, _) => format!(". Went through after changes to {}", files.join(", ")),
        });
        if !failure.cause.is_empty() {
            line.push_str(&format!(". {}", escape_markdown(&failure.cause)));
        }
    } else if is_still_failing(digest, failure) {
        line.push_str(match changed_since(digest, failure).is_empty() {
            true => ". Not fixed yet",
            false => ". Not run again since files changed",
        });
    }
    line
}

/// Returns the files that were changed after a failure, so that it is unknown whether it is still there; oldest first.
pub fn changed_since<'d>(digest: &'d Digest, failure: &DigestFailure) -> Vec<&'d str> {
    changed_since_step(digest, failure.step)
}

/// Returns the files of the project that were changed after a step, oldest first.
pub fn changed_since_step(digest: &Digest, step: usize) -> Vec<&str> {
    let is_later = |file: &&TouchedFile| file.changes > 0 && file.step > step;
    let mut files = digest.files.iter().filter(is_later).collect::<Vec<_>>();
    files.sort_by_key(|file| file.step);
    let paths = files.iter().map(|file| names::relative_path(&file.path, &digest.root));
    paths.filter(|path| !is_outside(path)).collect()
}

/// Returns whether a failure says something about the work: not a path that was guessed, and not code that was thrown away.
fn is_telling(failure: &DigestFailure) -> bool {
    let is_guess = failure.command.is_none()
        && ["does not exist", "No such file", "not found", "EISDIR"]
            .iter()
            .any(|notice| failure.error.contains(notice));
    !is_guess && !is_throwaway(&failure.what) && !failure.error.is_empty()
}

/// Returns the failures worth knowing: open ones, and of the others those that say what went wrong; the last ones of many.
pub fn failures_worth_knowing(digest: &Digest) -> Vec<&DigestFailure> {
    let is_shown = |failure: &&DigestFailure| {
        is_still_failing(digest, failure)
            || failure.fixed_at.is_some()
                && (!failure.changed.is_empty() || failure.occurrences > 1)
                && is_telling(failure)
            || failure.fixed_at.is_none() && !is_read_only_command(&failure.what) && is_telling(failure)
    };
    let mut shown = digest.failures.iter().filter(is_shown).collect::<Vec<_>>();
    let count = shown
        .iter()
        .filter(|failure| !is_still_failing(digest, failure))
        .count();
    let mut left_out = count.saturating_sub(MOST_FACTS);
    shown.retain(|failure| {
        let is_dropped = left_out > 0 && !is_still_failing(digest, failure);
        left_out -= usize::from(is_dropped);
        !is_dropped
    });
    shown
}

/// Returns what the user corrected, oldest first: also what they said to a refused call that was replaced or allowed since.
pub fn corrections(digest: &Digest) -> Vec<&UserPrompt> {
    let stands = |words: &str| digest.refusals.standing().any(|refusal| refusal.words == words);
    let is_shown = |prompt: &&UserPrompt| prompt.is_correction && !stands(&prompt.text);
    let shown = digest.prompts.iter().filter(is_shown);
    shown.filter(|prompt| prompt.channel != PromptChannel::Shell).collect()
}

/// Formats a correction, or what the user said to a call that they refused.
pub fn correction_line(prompt: &UserPrompt, most: usize) -> String {
    let label = match prompt.channel {
        PromptChannel::Refusal => "When refusing a call, the user said",
        _ if prompt.is_admitted && is_open_question(&prompt.text) => "The user asked, and the model agreed",
        _ if prompt.is_admitted => "The user corrected, and the model agreed",
        _ => "The user corrected",
    };
    format!("- {label}: {}", quote_message(&prompt.text, most))
}

/// Returns whether a path that is relative to the working directory lies outside of it, or holds a plan of the client.
pub fn is_outside(path: &str) -> bool {
    let bytes = path.as_bytes();
    path.starts_with(['/', '~', '\\']) || bytes.get(1) == Some(&b':') || path.contains(".claude/plans/")
}

/// Returns the indexes of the files, the least important first: read, then changed, those outside of the working directory
/// before the others.
pub fn files_by_importance(digest: &Digest) -> Vec<usize> {
    let mut order = (0..digest.files.len()).collect::<Vec<_>>();
    order.sort_by_key(|at| {
        let file = &digest.files[*at];
        let is_inside = !is_outside(names::relative_path(&file.path, &digest.root));
        (
            is_inside && file.changes > 0,
            is_inside,
            file.changes > 0,
            file.step,
            *at,
        )
    });
    order
}

/// Returns what the user refused and never allowed later, newest first.
pub fn refusal_lines(digest: &Digest) -> Vec<String> {
    let line = |refusal: &Refusal| {
        let what = match &refusal.call {
            RefusedCall::Command { text } => inline_code(text),
            RefusedCall::Edit { path } => format!(
                "the change to {}",
                inline_code(names::relative_path(path, &digest.root))
            ),
            RefusedCall::Plan { title } => format!("the plan {}", inline_quote(title, 160)),
            RefusedCall::Other { what } => inline_code(what),
        };
        let is_plan = matches!(refusal.call, RefusedCall::Plan { .. });
        match (refusal.words.is_empty(), is_plan) {
            (true, true) => format!("- Refused by the user: {what}. It is not approved"),
            (true, false) => format!("- Refused by the user: {what}. Not to be done without asking"),
            (false, _) => format!(
                "- Refused by the user: {what}. They said {}",
                quote_message(&refusal.words, 400)
            ),
        }
    };
    digest.refusals.standing().take(MOST_FACTS).map(line).collect()
}

/// Formats a question and its answer.
pub fn choice_line(choice: &UserChoice) -> String {
    let question = escape_markdown(&choice.question);
    let answer = inline_quote(&choice.answer, 900);
    // Who answers with a question has not decided yet.
    match choice.answer.trim_end().ends_with(['?', '？']) {
        true => format!("- Not decided: {question}: the user asked back {answer}"),
        false => format!("- Decided: {question}: {answer}"),
    }
}

/// Formats a time for the start of a line; empty without one.
pub fn time_prefix(time: Option<Time>) -> String {
    let time = time.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
    time.map(|time| format!("{} ", time.strftime("%Y-%m-%d %H:%M")))
        .unwrap_or_default()
}
