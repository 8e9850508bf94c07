//! The nine sections of a compaction summary, from what happened.

use crate::offline::clean;
use crate::offline::clean::{escape_markdown, inline_code};
use crate::offline::compose::{WeightedItem, block_quote, compose, inline_quote, line_tokens};
use crate::offline::digest::{Digest, PromptChannel, SentenceKind, TaskState, UserPrompt};
use crate::offline::names;
use crate::offline::notes;
use crate::template::{SUMMARY_SECTIONS, UP_TO_SECTIONS};
use crate::{SummaryRequest, SummaryVariant, size};
use language::markdown::fence_for;
use language::sentences::split_prose;

/// Most of the budget that the messages of the user take before long ones are cut.
const MESSAGES_SHARE: f64 = 0.5;
/// Tokens that are enough for all the rest: above that the messages may have more than their share.
const OTHER_SECTIONS_TOKENS: u64 = 6_000;
/// Lengths to which long messages are cut in turn, in characters.
const MESSAGE_CUTS: [usize; 8] = [8_000, 4_000, 2_000, 1_000, 600, 350, 200, 100];

/// Writes a summary.
pub fn write_summary_text(digest: &Digest, ask: &SummaryRequest<'_>) -> String {
    let mut titles = SUMMARY_SECTIONS;
    if ask.variant == SummaryVariant::UpTo {
        titles[7..].copy_from_slice(&UP_TO_SECTIONS);
    }
    let head = preamble(ask);
    let fixed = line_tokens(&head) + titles.iter().map(|title| line_tokens(title) + 6).sum::<u64>();
    let left = ask.budget.saturating_sub(fixed);
    let items = summary_items(digest, ask);
    let others = items
        .iter()
        .map(|item| line_tokens(&item.text))
        .sum::<u64>()
        .min(OTHER_SECTIONS_TOKENS);
    let share = (left as f64 * MESSAGES_SHARE) as u64;
    let mut messages = user_messages_section(digest, share.max(left.saturating_sub(others)));
    let mut room = left.saturating_sub(line_tokens(&messages));
    loop {
        let composed = compose(&items, &[room; 9], room);
        let mut bodies = composed.bodies;
        bodies[5].clone_from(&messages);
        let text = join_sections(&head, &titles, &bodies);
        let over = size::tokens(&text).saturating_sub(ask.budget);
        if over == 0 {
            return text;
        }
        if room == 0 {
            // Nothing but what must be there, and that is too much for the budget.
            let less = line_tokens(&messages).saturating_sub(over + 8);
            messages = match less {
                0 => String::new(),
                less => size::truncate_to_tokens(&messages, less).to_owned(),
            };
            if messages.is_empty() {
                return size::truncate_to_tokens(&text, ask.budget).to_owned();
            }
            continue;
        }
        room = room.saturating_sub(over + 8);
    }
}

/// What stands before the nine sections.
pub fn preamble(ask: &SummaryRequest<'_>) -> String {
    let mut head = match ask.variant {
        SummaryVariant::Whole => "What this conversation was about so far, taken from its record.",
        SummaryVariant::From => "What the later part of this conversation was about, taken from its record; the earlier part stands above as it was.",
        SummaryVariant::UpTo => "What the earlier part of this conversation was about, taken from its record; the later part follows as it was.",
    }
    .to_owned();
    if ask.material.dropped > 0 {
        head.push_str(" Its oldest part was too long to be looked at.");
    }
    let wanted = ask.instructions.trim();
    if !wanted.is_empty() {
        head.push_str(&format!(
            "\nThe user wants this summary to mind: {}",
            inline_quote(wanted, 600)
        ));
    }
    if ask.is_automatic {
        head.push_str("\nGo on with the work where it stopped, without asking.");
    }
    head
}

/// The nine sections below their headings.
pub fn join_sections(head: &str, titles: &[&str], bodies: &[String]) -> String {
    let mut text = format!("{head}\n");
    for (at, (title, body)) in std::iter::zip(titles, bodies).enumerate() {
        let body = if body.is_empty() { "Nothing." } else { body };
        text.push_str(&format!("\n## {}. {title}\n\n{body}\n", at + 1));
    }
    text
}

/// Every message of the user, oldest first. What does not fit is cut where it is longest: the oldest first.
pub fn user_messages_section(digest: &Digest, room: u64) -> String {
    let prompts = digest
        .prompts
        .iter()
        .filter(|prompt| prompt.channel != PromptChannel::Shell)
        .collect::<Vec<_>>();
    let mut entries = Vec::<(String, Option<&UserPrompt>)>::new();
    if let Some(earlier) = &digest.earlier_summary {
        let points = earlier.points(6);
        if !points.is_empty() {
            entries.push((String::from("Before that, by an earlier summary:"), None));
            let points = points
                .iter()
                .map(|point| format!("- {}", escape_markdown(&clean::to_one_line(point, 1_000))));
            entries.extend(points.map(|point| (point, None)));
            if !prompts.is_empty() {
                entries.push((String::from("Since then:"), None));
            }
        }
    }
    entries.extend(
        prompts
            .iter()
            .map(|prompt| (message_entry(prompt, usize::MAX), Some(*prompt))),
    );
    let mut costs = entries.iter().map(|(text, _)| line_tokens(text)).collect::<Vec<_>>();
    let mut total = costs.iter().sum::<u64>();
    for most in MESSAGE_CUTS {
        for at in 0..entries.len() {
            if total <= room {
                break;
            }
            let Some(prompt) = entries[at].1 else {
                if most <= 600 && entries[at].0.chars().count() > most {
                    entries[at].0 = clean::to_one_line(&entries[at].0, most);
                    let now = line_tokens(&entries[at].0);
                    total = total - costs[at] + now;
                    costs[at] = now;
                }
                continue;
            };
            if prompt.text.chars().count() > most {
                entries[at].0 = message_entry(prompt, most);
                let now = line_tokens(&entries[at].0);
                total = total - costs[at] + now;
                costs[at] = now;
            }
        }
    }
    // So many messages that they do not fit even when cut: the oldest are only counted.
    let mut gone = 0;
    while total > room && gone + 1 < entries.len() {
        total -= costs[gone];
        gone += 1;
    }
    let mut lines = Vec::new();
    if gone > 0 {
        lines.push(format!(
            "- [{gone} older messages left out: the budget is too small for them]"
        ));
    }
    lines.extend(entries.into_iter().skip(gone).map(|(text, _)| text));
    lines.join("\n")
}

/// One message as it was written; in a fence where its lines could be taken for structure. `most` characters of it.
fn message_entry(prompt: &UserPrompt, most: usize) -> String {
    let label = match prompt.channel {
        PromptChannel::Refusal => "(when refusing a tool call) ",
        PromptChannel::Shell => "(ran in the shell) ",
        PromptChannel::Message | PromptChannel::Command => "",
    };
    let count = prompt.text.chars().count();
    let text = if count > most {
        let head = prompt.text.chars().take(most * 2 / 3).collect::<String>();
        let tail = prompt.text.chars().skip(count - most / 3).collect::<String>();
        format!(
            "{head}\n[… {} characters cut …]\n{tail}",
            count - most * 2 / 3 - most / 3
        )
    } else {
        prompt.text.clone()
    };
    if clean::is_plain_markdown(&text) {
        return format!("- {label}{text}");
    }
    let fence = fence_for(&text);
    format!("- {label}\n\n{fence}text\n{text}\n{fence}\n").replacen("- \n\n", "\n", 1)
}

struct SummaryCollector<'d> {
    digest: &'d Digest,
    items: Vec<WeightedItem>,
}

impl SummaryCollector<'_> {
    fn add(&mut self, section: usize, weight: f64, text: String) {
        self.items.push(WeightedItem { section, weight, text });
    }

    fn add_sentences(&mut self, section: usize, sense: SentenceKind, most: usize, top: f64) {
        let found = notes::best_sentences(self.digest, sense, most);
        let count = found.len();
        for (at, text) in found.into_iter().enumerate() {
            let weight = top * (at + 1) as f64 / count as f64;
            self.add(
                section,
                weight,
                format!("- {}", escape_markdown(&clean::to_one_line(text, 300))),
            );
        }
    }
}

fn summary_items(digest: &Digest, ask: &SummaryRequest<'_>) -> Vec<WeightedItem> {
    let mut gather = SummaryCollector {
        digest,
        items: Vec::new(),
    };
    add_request(&mut gather);
    add_concepts(&mut gather);
    add_files(&mut gather);
    add_errors(&mut gather);
    add_problem_solving(&mut gather);
    add_pending_tasks(&mut gather);
    match ask.variant {
        SummaryVariant::UpTo => add_completed_work(&mut gather),
        SummaryVariant::Whole | SummaryVariant::From => add_current_work(&mut gather),
    }
    add_next_step(&mut gather, ask.variant);
    gather.items
}

fn add_request(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    if let Some(earlier) = digest
        .earlier_summary
        .as_ref()
        .filter(|earlier| !earlier.section(1).trim().is_empty())
    {
        let text = format!(
            "Before that, by an earlier summary:\n{}",
            block_quote(earlier.section(1), 1_200)
        );
        gather.add(0, 9.5, text);
    }
    let requests = digest
        .prompts
        .iter()
        .filter(|prompt| notes::is_request(prompt))
        .collect::<Vec<_>>();
    let count = requests.len();
    for (at, prompt) in requests.into_iter().enumerate() {
        let weight = if at == 0 || at + 1 == count {
            10.0
        } else {
            3.0 + 4.0 * (at + 1) as f64 / count as f64
        };
        let label = if at == 0 { "The user asked first" } else { "Then" };
        // The words stand in full among the messages; here is what they come to.
        gather.add(
            0,
            weight,
            format!("- {label}: {}", inline_quote(&message_gist(&prompt.text), 220)),
        );
    }
    for choice in &digest.choices {
        gather.add(0, 7.5, notes::choice_line(choice));
    }
    for (at, rule) in digest.rules.iter().enumerate() {
        gather.add(
            0,
            7.0 + at as f64 * 0.01,
            format!("- The user wants: {}", escape_markdown(&clean::to_one_line(rule, 240))),
        );
    }
}

/// What a message comes to: its first sentence, and the last if that asks.
fn message_gist(text: &str) -> String {
    let mut sentences = split_prose(text);
    // People write above or below what they paste.
    let is_prose = |sentence: &&str| {
        let letters = sentence
            .chars()
            .filter(|sign| sign.is_alphabetic() || *sign == ' ')
            .count();
        letters * 10 >= sentence.chars().count() * 7 && sentence.starts_with(char::is_alphabetic)
    };
    if let Some(first) = sentences.iter().position(is_prose) {
        sentences.drain(..first);
    }
    match (sentences.first(), sentences.last()) {
        (Some(first), Some(last)) if sentences.len() > 1 && notes::has_question(last) => format!("{first} … {last}"),
        // What follows a colon is what is meant.
        (Some(first), _) if sentences.len() > 1 && first.ends_with([':', '：']) => format!("{first} {}", sentences[1]),
        (Some(first), _) => (*first).to_owned(),
        _ => text.to_owned(),
    }
}

/// Names on one line of the list.
const NAMES_PER_LINE: usize = 12;

fn add_concepts(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    for point in digest.earlier_points(2).into_iter().take(20) {
        gather.add(
            1,
            4.0,
            format!("- {}", escape_markdown(&clean::to_one_line(&point, 200))),
        );
    }
    gather.add_sentences(1, SentenceKind::System, 20, 4.5);
    let all = digest.names_in_use();
    for (at, names) in all.chunks(NAMES_PER_LINE).take(8).enumerate() {
        let list = names
            .iter()
            .map(|name| inline_code(name))
            .collect::<Vec<_>>()
            .join(", ");
        let label = if at == 0 { "- Names most in use: " } else { "- Also: " };
        gather.add(1, 8.5 - at as f64 * 0.35, format!("{label}{list}"));
    }
}

fn add_files(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    if !digest.root.is_empty() && !digest.files.is_empty() {
        gather.add(2, 9.9, format!("Paths are relative to {}.", inline_code(&digest.root)));
    }
    let mut order = (0..digest.files.len()).collect::<Vec<_>>();
    order.sort_by_key(|at| (digest.files[*at].changes > 0, digest.files[*at].step, *at));
    order.reverse();
    let changed = order.iter().filter(|at| digest.files[**at].changes > 0).count();
    for (rank, at) in order.into_iter().take(60).enumerate() {
        let file = &digest.files[at];
        let weight = match file.changes {
            0 => 6.0 - (rank - changed) as f64 * 0.2,
            _ => 9.5 - rank as f64 * 0.15,
        };
        gather.add(2, weight, notes::file_line(digest, file));
        if let Some(snippet) = snippet(&file.last_text).filter(|_| rank < 6 && file.changes > 0) {
            gather.add(2, 4.5 - rank as f64 * 0.6, snippet);
        }
    }
    for point in digest
        .earlier_summary
        .as_ref()
        .map(|earlier| earlier.points(3))
        .unwrap_or_default()
    {
        let mut has_path = false;
        names::for_each_path(&point, |_| has_path = true);
        if has_path {
            gather.add(
                2,
                5.0,
                format!("- Earlier: {}", escape_markdown(&clean::to_one_line(&point, 260))),
            );
        }
    }
}

/// Lines of code that are shown of a change.
const SNIPPET_LINES: usize = 14;

/// The start of what was written last; a line or two tell nothing that the names do not.
fn snippet(text: &str) -> Option<String> {
    let text = clean::strip_control_codes(text);
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines = lines
        .take(SNIPPET_LINES + 1)
        .map(|line| line.chars().take(160).collect::<String>())
        .collect::<Vec<_>>();
    if lines.len() < 3 {
        return None;
    }
    let is_cut = lines.len() > SNIPPET_LINES;
    let shown = lines[..lines.len().min(SNIPPET_LINES)].join("\n");
    let fence = fence_for(&shown);
    let more = if is_cut { "\n[…]" } else { "" };
    Some(format!("\n{fence}\n{shown}{more}\n{fence}\n"))
}

fn add_errors(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    let corrections = digest
        .prompts
        .iter()
        .filter(|prompt| prompt.is_correction)
        .collect::<Vec<_>>();
    let count = corrections.len();
    for (at, prompt) in corrections.into_iter().enumerate() {
        gather.add(
            3,
            6.0 + 2.0 * (at + 1) as f64 / count as f64,
            format!(
                "- The user corrected: {}",
                inline_quote(&message_gist(&prompt.text), 240)
            ),
        );
    }
    let count = digest.failures.len();
    for (at, failure) in digest.failures.iter().enumerate() {
        let open = match (
            notes::is_still_failing(digest, failure),
            notes::is_read_only_command(&failure.what),
        ) {
            (true, _) => 3.0,
            (false, true) => -3.0,
            (false, false) => 0.0,
        };
        let weight = 2.0 + open + 4.0 * (at + 1) as f64 / count as f64;
        gather.add(3, weight, notes::failure_line(digest, failure));
    }
    for point in digest.earlier_points(4).into_iter().take(12) {
        gather.add(
            3,
            3.5,
            format!("- Earlier: {}", escape_markdown(&clean::to_one_line(&point, 240))),
        );
    }
}

fn add_problem_solving(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    for point in digest.earlier_points(5).into_iter().take(10) {
        gather.add(
            4,
            3.8,
            format!("- Earlier: {}", escape_markdown(&clean::to_one_line(&point, 240))),
        );
    }
    gather.add_sentences(4, SentenceKind::Cause, 20, 5.5);
    gather.add_sentences(4, SentenceKind::Decision, 12, 5.0);
    let answers = digest
        .prompts
        .iter()
        .filter(|prompt| notes::is_short_answer(prompt))
        .collect::<Vec<_>>();
    for prompt in answers.into_iter().rev().take(12).rev() {
        let question = prompt.answered_question.as_deref().unwrap_or_default();
        gather.add(
            4,
            5.0,
            format!(
                "- Asked {}, the user said {}",
                inline_quote(question, 200),
                inline_quote(&prompt.text, 120)
            ),
        );
    }
    for (about, answer) in digest.agents.iter().rev().take(8).rev() {
        gather.add(
            4,
            4.0,
            format!(
                "- A sub-agent was asked to {}: {}",
                inline_quote(about, 120),
                inline_quote(answer, 240)
            ),
        );
    }
    for at in notes::workflow_commands(digest) {
        let command = &digest.commands[at];
        let weight = 2.0 + (command.runs.min(8) as f64) / 4.0 + 2.0 * command.step as f64 / digest.steps.max(1) as f64;
        gather.add(4, weight, notes::command_line(digest, at));
    }
}

fn add_pending_tasks(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    for task in &digest.tasks {
        let label = match task.state {
            TaskState::Done => continue,
            TaskState::InProgress => "In progress",
            TaskState::Open => "Not begun",
        };
        gather.add(
            6,
            11.0,
            format!("- {label}: {}", escape_markdown(&clean::to_one_line(&task.text, 240))),
        );
    }
    if let Some(turn) = digest.turns.last().filter(|turn| !turn.is_answered)
        && let Some(prompt) = turn.prompt
    {
        gather.add(
            6,
            10.5,
            format!(
                "- Asked and not answered yet: {}",
                inline_quote(&digest.prompts[prompt].text, 500)
            ),
        );
    }
    for failure in digest
        .failures
        .iter()
        .filter(|failure| notes::is_still_failing(digest, failure))
        .rev()
        .take(3)
    {
        gather.add(6, 9.0, format!("- Still failing: {}", inline_code(&failure.what)));
    }
    let is_quiet = digest.turns.is_empty() || digest.tasks.is_empty();
    let earlier = digest.earlier_summary.as_ref().filter(|_| is_quiet);
    for point in earlier
        .map(|earlier| earlier.points(7))
        .unwrap_or_default()
        .into_iter()
        .take(10)
    {
        gather.add(
            6,
            6.0,
            format!(
                "- By an earlier summary: {}",
                escape_markdown(&clean::to_one_line(&point, 240))
            ),
        );
    }
}

fn add_current_work(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    if let Some(prompt) = notes::last_request(digest) {
        gather.add(7, 10.0, format!("- Working on: {}", inline_quote(&prompt.text, 300)));
    }
    if let Some(turn) = digest.turns.last() {
        let changed = turn
            .files
            .iter()
            .rev()
            .take(8)
            .map(|at| inline_code(names::relative_path(&digest.files[*at].path, &digest.root)));
        let changed = changed.collect::<Vec<_>>();
        if !changed.is_empty() {
            gather.add(7, 9.0, format!("- Changed for it: {}", changed.join(", ")));
        }
        for at in turn.commands.iter().rev().take(4).rev() {
            gather.add(7, 6.0, notes::command_line(digest, *at).replacen("- ", "- Ran ", 1));
        }
    }
    if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
        gather.add(
            7,
            8.8,
            format!("- The assistant said last:\n{}", block_quote(&turn.answer, 900)),
        );
        if turn.answer.chars().count() > 900 {
            gather.add(
                7,
                3.0,
                block_quote(&turn.answer.chars().skip(900).collect::<String>(), 1_500),
            );
        }
    }
    if digest.turns.is_empty() {
        let work = digest.earlier_summary.as_ref().map_or("", |earlier| earlier.section(8));
        if !work.is_empty() {
            gather.add(7, 8.0, block_quote(work, 1_200));
        }
    }
}

fn add_completed_work(gather: &mut SummaryCollector<'_>) {
    let digest = gather.digest;
    for task in digest.tasks.iter().filter(|task| task.state == TaskState::Done) {
        gather.add(
            7,
            8.0,
            format!("- Done: {}", escape_markdown(&clean::to_one_line(&task.text, 200))),
        );
    }
    for turn in &digest.turns {
        let Some(prompt) = turn.prompt.filter(|_| turn.is_answered) else {
            continue;
        };
        let answer = split_prose(&turn.answer)
            .first()
            .map(|first| inline_quote(first, 200))
            .unwrap_or_default();
        gather.add(
            7,
            7.0,
            format!(
                "- {}: {answer}",
                inline_quote(&message_gist(&digest.prompts[prompt].text), 120)
            ),
        );
    }
}

fn add_next_step(gather: &mut SummaryCollector<'_>, variant: SummaryVariant) {
    let digest = gather.digest;
    if variant == SummaryVariant::UpTo {
        let names = digest.names_in_use();
        let list = names
            .iter()
            .take(20)
            .map(|name| inline_code(name))
            .collect::<Vec<_>>()
            .join(", ");
        if !list.is_empty() {
            gather.add(8, 7.0, format!("- What follows may speak of: {list}"));
        }
        if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
            gather.add(
                8,
                8.0,
                format!("- It stopped with:\n{}", block_quote(&turn.answer, 700)),
            );
        }
        return;
    }
    if let Some(prompt) = digest.prompts.last() {
        gather.add(
            8,
            10.2,
            format!("- The user said last: {}", inline_quote(&prompt.text, 500)),
        );
    }
    if let Some(step) = notes::next_step(digest) {
        gather.add(8, 10.1, format!("- Next: {step}"));
    }
    if digest.prompts.is_empty() {
        let step = digest.earlier_summary.as_ref().map_or("", |earlier| earlier.section(9));
        if !step.is_empty() {
            gather.add(8, 8.0, block_quote(step, 1_200));
        }
    }
}
