//! The ten sections of the notes, from a digest.

use crate::offline::compose::{MUST_KEEP_WEIGHT, WeightedItem, inline_quote};
use crate::offline::descriptions::describe_files;
use crate::offline::digest::{Digest, DigestTurn, PromptChannel, SentenceKind, ShellCommand, UserPrompt};
use crate::offline::gist::quote_message;
use crate::offline::lines::{
    MOST_FACTS, changed_since_step, choice_line, command_line, correction_line, corrections, failure_line,
    failures_worth_knowing, file_line, files_by_importance, format_outcome, is_bookkeeping, is_check, is_still_failing,
    recent_step, refusal_lines, time_prefix, workflow_commands,
};
use crate::offline::model_sentences::first_statement;
use crate::offline::names;
use crate::offline::open_end::next_step;
use crate::offline::pending::pending_lines;
use crate::offline::prose::whole_sentences;
use crate::offline::quotes::block_quote;
use crate::offline::repository::{discard_lines, ledger_lines};
use crate::offline::requests::{has_question, is_short_answer, last_request, session_title, states_task, working_line};
use crate::offline::shell::is_check_command;
use crate::offline::statements::{earlier_facts, standing_sentences};
use crate::template::SectionPurpose;
use language::markdown::{escape_markdown, inline_code};
use language::shorten::to_one_line;
use std::collections::HashSet;

/// Characters of the last answer in the current state.
const LAST_ANSWER_CHARS: usize = 2_400;

/// Most definitions of a file.
const MOST_SYMBOLS: usize = 3;

/// Most files with a line of their own.
const MOST_FILES: usize = 24;

/// The line that stands for what comes next if nothing is open.
pub const NOTHING_OPEN: &str = "- Next: nothing is open; wait for the user";

/// Returns how the first request is named: after a summary, it is not the first of the session.
pub fn first_request_label(digest: &Digest) -> &'static str {
    match digest.earlier_summary.is_some() {
        true => "Since the summary, asked first",
        false => "Asked first",
    }
}

/// Formats a request, or a short answer with the question.
fn task_line(prompt: &UserPrompt) -> String {
    let time = time_prefix(prompt.time);
    match prompt.answered_question.as_deref().filter(|_| is_short_answer(prompt)) {
        Some(question) => format!(
            "- {time}Asked {}, the user said {}",
            inline_quote(question, 200),
            inline_quote(&prompt.text, 200)
        ),
        None => format!("- {time}{}", quote_message(&prompt.text, 400)),
    }
}

/// Returns the text of the prompt that a turn began with.
fn asked_text<'d>(digest: &'d Digest, turn: &DigestTurn) -> Option<&'d String> {
    turn.prompt.map(|prompt| &digest.prompts[prompt].text)
}

/// Returns whether a line of output only warns, so that it is no result.
fn is_warning(line: &str) -> bool {
    let low = line.to_lowercase();
    ["warning:", "[notice]", "deprecat", "npm notice"]
        .iter()
        .any(|mark| low.contains(mark))
}

/// Returns the weight of a section: by it, the best items of every section come before the second best of any.
fn section_weight(purpose: SectionPurpose) -> f64 {
    3.0 * (1.0 - f64::from(purpose.priority()) / 9.0)
}

/// Returns the weight of the `at`-th of `count` items; the last counts most.
fn recency_weight(at: usize, count: usize) -> f64 {
    10.0 * (at + 1) as f64 / count.max(1) as f64
}

/// Collects the items of the notes.
struct NotesCollector<'d> {
    digest: &'d Digest,
    section: usize,
    base: f64,
    items: Vec<WeightedItem>,
}

/// Returns the items for the sections of a template, by number. Sections without a purpose get none.
pub fn notes_items(digest: &Digest, purposes: &[Option<SectionPurpose>]) -> Vec<WeightedItem> {
    let mut collector = NotesCollector {
        digest,
        section: 0,
        base: 0.0,
        items: Vec::new(),
    };
    for (section, purpose) in purposes.iter().enumerate() {
        let Some(purpose) = *purpose else { continue };
        collector.section = section;
        collector.base = section_weight(purpose);
        match purpose {
            SectionPurpose::Title => collector.add_title(),
            SectionPurpose::State => collector.add_state(),
            SectionPurpose::Task => collector.add_task(),
            SectionPurpose::Files => collector.add_files(),
            SectionPurpose::Workflow => collector.add_workflow(),
            SectionPurpose::Errors => collector.add_errors(),
            SectionPurpose::System => collector.add_system(),
            SectionPurpose::Learnings => collector.add_learnings(),
            SectionPurpose::Results => collector.add_results(),
            SectionPurpose::Worklog => collector.add_worklog(),
        }
    }
    collector.items
}

impl NotesCollector<'_> {
    fn add(&mut self, weight: f64, text: String) {
        self.items.push(WeightedItem {
            section: self.section,
            weight: weight + self.base,
            text,
        });
    }

    fn add_title(&mut self) {
        let title = session_title(self.digest);
        if !title.is_empty() {
            self.items.push(WeightedItem {
                section: self.section,
                weight: MUST_KEEP_WEIGHT,
                text: escape_markdown(&title),
            });
        }
    }

    fn add_state(&mut self) {
        let digest = self.digest;
        if let Some(prompt) = last_request(digest) {
            self.add(20.0, working_line(digest, prompt, 400));
        }
        let pending = pending_lines(digest);
        let is_open = !pending.is_empty();
        for (at, line) in pending.into_iter().enumerate() {
            self.add(19.0 - at as f64 * 0.1, line);
        }
        match next_step(digest) {
            Some(next) => self.add(18.9, format!("- Next: {next}")),
            None if !is_open => self.add(18.9, NOTHING_OPEN.to_owned()),
            None => {}
        }
        let names = digest.names_at_stake(MOST_FACTS);
        if !names.is_empty() {
            let names = names.into_iter().map(inline_code).collect::<Vec<_>>();
            self.add(8.0, format!("- Names in the open changes: {}", names.join(", ")));
        }
        for (at, line) in ledger_lines(digest).into_iter().enumerate() {
            self.add(17.0 - at as f64 * 0.05, line);
        }
        let since = recent_step(digest);
        let is_recent_check = |command: &&ShellCommand| {
            command.runs > 0
                && command.step >= since
                && command.text.len() < 160
                && is_check(command)
                && !is_bookkeeping(command)
        };
        let ran = digest.commands.iter().filter(is_recent_check);
        if let Some(command) = ran.max_by_key(|command| command.step) {
            let how = match (command.is_failing, command.is_closed) {
                (true, true) => "failed, and went through later in another form",
                (true, false) => "failed",
                (false, _) => "went through",
            };
            let changed = changed_since_step(digest, command.step);
            // Prose changes nothing for a check of code.
            let changed = changed
                .iter()
                .rev()
                .filter(|path| !names::is_prose_file(path))
                .take(4)
                .map(|path| inline_code(path))
                .collect::<Vec<_>>();
            let since = match changed.is_empty() {
                true => String::new(),
                false => format!(". Not run since changes to {}", changed.join(", ")),
            };
            self.add(
                9.0,
                format!(
                    "- Last check: {} {how}{}{since}",
                    inline_code(&command.text),
                    format_outcome(&command.outcome)
                ),
            );
        }
        if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
            let label = if turn.is_answered {
                "- The last answer:"
            } else {
                "- Said last:"
            };
            self.add(
                15.0,
                format!("{label}\n{}", block_quote(&turn.answer, LAST_ANSWER_CHARS)),
            );
        }
    }

    fn add_task(&mut self) {
        let digest = self.digest;
        if let Some(earlier) = digest
            .earlier_summary
            .as_ref()
            .filter(|earlier| !earlier.section(1).trim().is_empty())
        {
            let text = format!(
                "- Before that, by an earlier summary:\n{}",
                block_quote(earlier.section(1), 1_600)
            );
            self.add(9.0, text);
        }
        let is_shown = |prompt: &&UserPrompt| states_task(prompt) || is_short_answer(prompt);
        let prompts = digest.prompts.iter().filter(is_shown).collect::<Vec<_>>();
        let first = prompts.iter().position(|prompt| states_task(prompt));
        let mut said = HashSet::new();
        for (at, prompt) in prompts.iter().enumerate() {
            // What was sent again stands here once.
            if prompt.text.chars().count() > 20 && !said.insert(prompt.text.as_str()) {
                continue;
            }
            let weight = if Some(at) == first {
                12.0
            } else {
                recency_weight(at, prompts.len())
            };
            let text = match Some(at) == first {
                true => format!(
                    "- {}:\n{}",
                    first_request_label(digest),
                    block_quote(&prompt.text, 1_600)
                ),
                false => task_line(prompt),
            };
            self.add(weight, text);
        }
        for (at, choice) in digest.choices.iter().enumerate() {
            let free = if choice.is_free { 2.0 } else { 0.0 };
            self.add(
                recency_weight(at, digest.choices.len()) + 2.0 + free,
                choice_line(choice),
            );
        }
        self.add_sentences(SentenceKind::Decision, "- Reasoned: ");
    }

    /// Adds the sentences of a kind that still stand; the newest has the highest weight.
    fn add_sentences(&mut self, kind: SentenceKind, label: &str) {
        let found = standing_sentences(self.digest, kind, 300);
        let count = found.len();
        for (at, text) in found.into_iter().enumerate() {
            self.add(
                recency_weight(at, count) - 1.0,
                format!("{label}{}", escape_markdown(&text)),
            );
        }
    }

    fn add_files(&mut self) {
        let digest = self.digest;
        if !digest.root.is_empty() && !digest.files.is_empty() {
            self.add(15.0, format!("Paths are relative to {}.", inline_code(&digest.root)));
        }
        let order = files_by_importance(digest);
        let count = order.len();
        let shown = order.iter().rev().take(MOST_FILES).copied().collect::<Vec<_>>();
        let about = describe_files(digest, &shown);
        let mut silent = 0;
        for (rank, (file, about)) in std::iter::zip(shown, about).enumerate() {
            // Of files that were only read and that nothing says anything about, the last ones.
            silent += usize::from(about.is_empty() && digest.files[file].changes == 0);
            if silent > MOST_FACTS && about.is_empty() {
                continue;
            }
            let weight = recency_weight(count - 1 - rank, count);
            self.add(weight, file_line(digest, &digest.files[file], &about, MOST_SYMBOLS));
        }
    }

    fn add_workflow(&mut self) {
        let digest = self.digest;
        let shown = workflow_commands(digest);
        for at in shown {
            let command = &digest.commands[at];
            let weight = 4.0 + (command.runs.min(8) as f64) / 2.0 + recency_weight(command.step, digest.steps) / 5.0;
            self.add(weight, command_line(digest, at));
        }
    }

    fn add_errors(&mut self) {
        let digest = self.digest;
        for (at, line) in refusal_lines(digest).into_iter().enumerate() {
            self.add(19.0 - at as f64 * 0.1, line);
        }
        for (at, line) in discard_lines(digest).into_iter().enumerate() {
            self.add(17.0 - at as f64 * 0.1, line);
        }
        let corrections = corrections(digest);
        for (at, prompt) in corrections.iter().enumerate() {
            self.add(
                recency_weight(at, corrections.len()) + 3.0,
                correction_line(prompt, 400),
            );
        }
        let failures = failures_worth_knowing(digest);
        for (at, failure) in failures.iter().enumerate() {
            let open = if is_still_failing(digest, failure) { 5.0 } else { 0.0 };
            self.add(recency_weight(at, failures.len()) + open, failure_line(digest, failure));
        }
    }

    fn add_system(&mut self) {
        let digest = self.digest;
        for point in earlier_facts(digest, 2).into_iter().take(MOST_FACTS) {
            let text = escape_markdown(&whole_sentences(&point, 300));
            self.add(4.0, format!("- Earlier: {text}"));
        }
        self.add_sentences(SentenceKind::System, "- ");
    }

    fn add_learnings(&mut self) {
        let digest = self.digest;
        for (at, rule) in digest.rules.iter().enumerate() {
            self.add(
                recency_weight(at, digest.rules.len()) + 4.0,
                format!("- The user wants: {}", escape_markdown(&whole_sentences(rule, 300))),
            );
        }
        for point in earlier_facts(digest, 5).into_iter().take(MOST_FACTS) {
            let text = escape_markdown(&whole_sentences(&point, 300));
            self.add(5.0, format!("- Earlier: {text}"));
        }
        self.add_sentences(SentenceKind::Cause, "- ");
        let flaky = digest
            .commands
            .iter()
            .filter(|command| command.failed > 1 && command.failed == command.runs)
            .filter(|command| !command.is_closed && !is_bookkeeping(command) && command.text.len() < 120);
        for command in flaky.take(3) {
            self.add(
                3.0,
                format!(
                    "- {} never went through in {} tries.",
                    inline_code(&command.text),
                    command.runs
                ),
            );
        }
    }

    fn add_results(&mut self) {
        let digest = self.digest;
        for link in digest.links.iter().rev().take(MOST_FACTS) {
            self.add(7.0, format!("- {link}"));
        }
        let answered = digest
            .turns
            .iter()
            .filter(|turn| turn.is_answered && !turn.is_retracted && turn.answer.chars().count() > 80);
        let mut answered = answered.collect::<Vec<_>>();
        // The last answer stands in the current state.
        let last = digest.turns.iter().rposition(|turn| !turn.answer.is_empty());
        answered.retain(|turn| last.is_none_or(|last| !std::ptr::eq(*turn, &digest.turns[last])));
        answered.drain(..answered.len().saturating_sub(MOST_FACTS));
        let count = answered.len();
        for (at, turn) in answered.into_iter().enumerate() {
            let asked = turn.prompt.map(|prompt| &digest.prompts[prompt]);
            let is_question = asked.is_some_and(|prompt| has_question(&prompt.text));
            let has_table = turn.answer.lines().any(|line| line.trim_start().starts_with('|'));
            let is_ordered = has_table || turn.answer.lines().any(|line| line.starts_with('#'));
            let weight = recency_weight(at, count) - 3.0
                + if is_question { 3.0 } else { 0.0 }
                + if is_ordered { 1.0 } else { 0.0 };
            let most = if is_question || is_ordered || at + 2 >= count {
                1_800
            } else {
                500
            };
            let question = asked
                .map(|prompt| format!("- To {}:\n", quote_message(&prompt.text, 120)))
                .unwrap_or_default();
            self.add(weight, format!("{question}{}", block_quote(&turn.answer, most)));
        }
        let tallies = digest
            .commands
            .iter()
            .filter(|command| !command.outcome.is_empty() && !command.is_failing && is_check_command(&command.text))
            .filter(|command| !is_bookkeeping(command) && !is_warning(&command.outcome));
        let mut tallies = tallies.collect::<Vec<_>>();
        tallies.sort_by_key(|command| std::cmp::Reverse(command.step));
        for (at, command) in tallies.into_iter().take(6).enumerate() {
            self.add(
                5.0 - at as f64 * 0.3,
                format!("- {}{}", inline_code(&command.text), format_outcome(&command.outcome)),
            );
        }
    }

    fn add_worklog(&mut self) {
        let digest = self.digest;
        let count = digest.turns.len();
        for (at, turn) in digest.turns.iter().enumerate() {
            let mut done = Vec::new();
            if !turn.files.is_empty() {
                let files = turn
                    .files
                    .iter()
                    .take(5)
                    .map(|at| inline_code(names::file_name(&digest.files[*at].path)));
                let more = turn.files.len().saturating_sub(5);
                let more = if more > 0 {
                    format!(" and {more} more")
                } else {
                    String::new()
                };
                done.push(format!("changed {}{more}", files.collect::<Vec<_>>().join(", ")));
            }
            let checks = turn
                .commands
                .iter()
                .map(|at| &digest.commands[*at])
                .filter(|command| is_check_command(&command.text));
            let checks = checks
                .take(3)
                .map(|command| inline_code(&to_one_line(&command.text, 60)));
            let checks = checks.collect::<Vec<_>>();
            if !checks.is_empty() {
                done.push(format!("ran {}", checks.join(", ")));
            }
            if !turn.failures.is_empty() {
                done.push(match turn.failures.len() {
                    1 => "1 failure".to_owned(),
                    count => format!("{count} failures"),
                });
            }
            let meanwhile = digest.prompts.iter().filter(|prompt| {
                prompt.channel == PromptChannel::Queued
                    && prompt.turn == at
                    && Some(&prompt.text) != asked_text(digest, turn)
            });
            done.extend(
                meanwhile.map(|prompt| format!("meanwhile the user said {}", quote_message(&prompt.text, 100))),
            );
            if turn.is_answered
                && let Some(first) = first_statement(&turn.answer)
            {
                done.push(format!("answered {}", inline_quote(first, 140)));
            }
            let asked = turn.prompt.map_or("(before the first prompt)".into(), |prompt| {
                quote_message(&digest.prompts[prompt].text, 100)
            });
            if done.is_empty() || turn.is_stopped {
                done.push(
                    if turn.is_stopped {
                        "stopped by the user"
                    } else {
                        "no answer"
                    }
                    .into(),
                );
            }
            self.add(
                recency_weight(at, count),
                format!("- {}{asked}: {}", time_prefix(turn.time), done.join("; ")),
            );
        }
    }
}
