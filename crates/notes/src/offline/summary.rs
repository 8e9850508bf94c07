//! The nine sections of a compaction summary, from a digest.

use crate::offline::compose::{WeightedItem, compose, inline_quote, line_tokens};
use crate::offline::descriptions::describe_files;
use crate::offline::digest::{Digest, SentenceKind, TaskState};
use crate::offline::gist::quote_message;
use crate::offline::notes::NOTHING_OPEN;
use crate::offline::open_end::{next_step, open_question};
use crate::offline::pending::pending_lines;
use crate::offline::prose::whole_sentences;
use crate::offline::quotes::block_quote;
use crate::offline::repository::{discard_lines, ledger_lines};
use crate::offline::statements::{earlier_facts, standing_sentences};
use crate::offline::user_messages::user_messages_section;
use crate::offline::{lines, names, requests};
use crate::template::{SUMMARY_SECTIONS, UP_TO_SECTIONS};
use crate::{SummaryRequest, SummaryVariant, size};
use language::clean::strip_control_codes;
use language::markdown::{escape_markdown, fence_for, inline_code};
use language::sentences::split_prose;
use language::shorten::cut_at_word_within;

/// Share of the budget that the user's messages may take before long ones are cut.
const MESSAGES_SHARE: f64 = 0.5;
/// Tokens that are enough for all other sections. If they need less, the messages get more than their share.
const OTHER_SECTIONS_TOKENS: u64 = 6_000;

/// Writes a summary within the budget of the request.
pub fn write_summary_text(digest: &Digest, request: &SummaryRequest<'_>) -> String {
    let mut titles = SUMMARY_SECTIONS;
    if request.variant == SummaryVariant::UpTo {
        titles[7..].copy_from_slice(&UP_TO_SECTIONS);
    }
    let head = preamble(request);
    let fixed = line_tokens(&head) + titles.iter().map(|title| line_tokens(title) + 6).sum::<u64>();
    let left = request.budget.saturating_sub(fixed);
    let items = summary_items(digest, request);
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
        let over = size::tokens(&text).saturating_sub(request.budget);
        if over == 0 {
            return text;
        }
        if room == 0 {
            // Only the messages are left, and they exceed the budget.
            let less = line_tokens(&messages).saturating_sub(over + 8);
            messages = match less {
                0 => String::new(),
                less => size::truncate_to_tokens(&messages, less).to_owned(),
            };
            if messages.is_empty() {
                return size::truncate_to_tokens(&text, request.budget).to_owned();
            }
            continue;
        }
        room = room.saturating_sub(over + 8);
    }
}

/// Returns the text before the nine sections.
pub fn preamble(request: &SummaryRequest<'_>) -> String {
    let mut head = match request.variant {
        SummaryVariant::Whole => "What this conversation was about so far, taken from its record.",
        SummaryVariant::From => "What the later part of this conversation was about, taken from its record; the earlier part stands above as it was.",
        SummaryVariant::UpTo => "What the earlier part of this conversation was about, taken from its record; the later part follows as it was.",
    }
    .to_owned();
    if request.material.dropped > 0 {
        head.push_str(" Its oldest part was too long to be looked at.");
    }
    let wanted = request.instructions.trim();
    if !wanted.is_empty() {
        head.push_str(&format!(
            "\nThe user wants this summary to mind: {}",
            inline_quote(wanted, 600)
        ));
    }
    if request.is_automatic {
        head.push_str("\nGo on with the work where it stopped, without asking.");
    }
    head
}

/// Joins the nine sections with their headings.
pub fn join_sections(head: &str, titles: &[&str], bodies: &[String]) -> String {
    let mut text = format!("{head}\n");
    for (at, (title, body)) in std::iter::zip(titles, bodies).enumerate() {
        let body = if body.is_empty() { "Nothing." } else { body };
        text.push_str(&format!("\n## {}. {title}\n\n{body}\n", at + 1));
    }
    text
}

/// Collects the items of a summary.
struct SummaryCollector<'d> {
    digest: &'d Digest,
    items: Vec<WeightedItem>,
}

impl SummaryCollector<'_> {
    fn add(&mut self, section: usize, weight: f64, text: String) {
        self.items.push(WeightedItem { section, weight, text });
    }

    fn add_sentences(&mut self, section: usize, kind: SentenceKind, top: f64) {
        let found = standing_sentences(self.digest, kind, 300);
        let count = found.len();
        for (at, text) in found.into_iter().enumerate() {
            let weight = top * (at + 1) as f64 / count as f64;
            self.add(section, weight, format!("- {}", escape_markdown(&text)));
        }
    }
}

fn summary_items(digest: &Digest, request: &SummaryRequest<'_>) -> Vec<WeightedItem> {
    let mut collector = SummaryCollector {
        digest,
        items: Vec::new(),
    };
    add_request(&mut collector);
    add_concepts(&mut collector);
    add_files(&mut collector);
    add_errors(&mut collector);
    add_problem_solving(&mut collector);
    add_pending_tasks(&mut collector);
    match request.variant {
        SummaryVariant::UpTo => add_completed_work(&mut collector),
        SummaryVariant::Whole | SummaryVariant::From => add_current_work(&mut collector),
    }
    add_next_step(&mut collector, request.variant);
    collector.items
}

fn add_request(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    if let Some(earlier) = digest
        .earlier_summary
        .as_ref()
        .filter(|earlier| !earlier.section(1).trim().is_empty())
    {
        let text = format!(
            "Before that, by an earlier summary:\n{}",
            block_quote(earlier.section(1), 1_200)
        );
        collector.add(0, 9.5, text);
    }
    let requests = digest
        .prompts
        .iter()
        .filter(|prompt| requests::states_task(prompt))
        .collect::<Vec<_>>();
    let count = requests.len();
    for (at, prompt) in requests.into_iter().enumerate() {
        // The section of messages has all of them in full; here is the gist of the first and the last ones.
        if at > 0 && at + lines::MOST_FACTS < count {
            continue;
        }
        let weight = if at == 0 || at + 1 == count {
            10.0
        } else {
            3.0 + 4.0 * (at + 1) as f64 / count as f64
        };
        let label = match (at, digest.earlier_summary.is_some()) {
            (0, false) => "The user asked first",
            (0, true) => "Since that summary, the user asked first",
            _ => "Then",
        };
        collector.add(0, weight, format!("- {label}: {}", quote_message(&prompt.text, 220)));
    }
    for choice in digest.choices.iter().rev().take(lines::MOST_FACTS).rev() {
        collector.add(0, 7.5, lines::choice_line(choice));
    }
    for (at, rule) in digest.rules.iter().enumerate() {
        collector.add(
            0,
            7.0 + at as f64 * 0.01,
            format!("- The user wants: {}", escape_markdown(&whole_sentences(rule, 240))),
        );
    }
}

/// Most names of the open changes.
const MOST_NAMES: usize = lines::MOST_FACTS;

fn add_concepts(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    for point in earlier_facts(digest, 2).into_iter().take(lines::MOST_FACTS) {
        collector.add(1, 4.0, format!("- {}", escape_markdown(&whole_sentences(&point, 200))));
    }
    collector.add_sentences(1, SentenceKind::System, 4.5);
    let names = digest.names_at_stake(MOST_NAMES);
    if !names.is_empty() {
        let names = names.into_iter().map(inline_code).collect::<Vec<_>>();
        collector.add(1, 8.5, format!("- Names in the open changes: {}", names.join(", ")));
    }
}

fn add_files(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    if !digest.root.is_empty() && !digest.files.is_empty() {
        collector.add(2, 9.9, format!("Paths are relative to {}.", inline_code(&digest.root)));
    }
    let mut order = lines::files_by_importance(digest);
    order.reverse();
    let mut unchanged = 0;
    order.truncate(24);
    let about = describe_files(digest, &order);
    for (rank, (at, about)) in std::iter::zip(order, about).enumerate() {
        let file = &digest.files[at];
        let weight = match file.changes {
            0 => {
                unchanged += 1;
                6.2 - f64::from(unchanged) * 0.2
            }
            _ => 9.5 - rank as f64 * 0.15,
        };
        collector.add(2, weight, lines::file_line(digest, file, &about, MOST_NAMES));
        if let Some(snippet) = snippet(&file.last_text).filter(|_| rank < 6 && file.changes > 0) {
            collector.add(2, 4.5 - rank as f64 * 0.6, snippet);
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
            collector.add(
                2,
                5.0,
                format!("- Earlier: {}", escape_markdown(&whole_sentences(&point, 260))),
            );
        }
    }
}

/// Lines of code shown per change.
const SNIPPET_LINES: usize = 14;

/// Formats the start of the last change as code; `None` if it has only a line or two.
fn snippet(text: &str) -> Option<String> {
    let text = strip_control_codes(text);
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines = lines
        .take(SNIPPET_LINES + 1)
        .map(|line| cut_at_word_within(line, 160))
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

fn add_errors(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    for (at, line) in lines::refusal_lines(digest).into_iter().enumerate() {
        collector.add(3, 11.5 - at as f64 * 0.1, line);
    }
    for (at, line) in discard_lines(digest).into_iter().enumerate() {
        collector.add(3, 10.0 - at as f64 * 0.1, line);
    }
    let corrections = lines::corrections(digest);
    let count = corrections.len();
    for (at, prompt) in corrections.into_iter().enumerate() {
        let weight = 6.0 + 2.0 * (at + 1) as f64 / count as f64;
        collector.add(3, weight, lines::correction_line(prompt, 240));
    }
    let failures = lines::failures_worth_knowing(digest);
    for (at, failure) in failures.iter().enumerate() {
        let open = if lines::is_still_failing(digest, failure) {
            3.0
        } else {
            0.0
        };
        let weight = 2.0 + open + 4.0 * (at + 1) as f64 / failures.len() as f64;
        collector.add(3, weight, lines::failure_line(digest, failure));
    }
    for point in digest.earlier_points(4).into_iter().take(12) {
        collector.add(
            3,
            3.5,
            format!("- Earlier: {}", escape_markdown(&whole_sentences(&point, 240))),
        );
    }
}

fn add_problem_solving(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    for point in earlier_facts(digest, 5).into_iter().take(10) {
        collector.add(
            4,
            3.8,
            format!("- Earlier: {}", escape_markdown(&whole_sentences(&point, 240))),
        );
    }
    collector.add_sentences(4, SentenceKind::Cause, 5.5);
    collector.add_sentences(4, SentenceKind::Decision, 5.0);
    let answers = digest
        .prompts
        .iter()
        .filter(|prompt| requests::is_short_answer(prompt))
        .collect::<Vec<_>>();
    for prompt in answers.into_iter().rev().take(12).rev() {
        let question = prompt.answered_question.as_deref().unwrap_or_default();
        collector.add(
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
        collector.add(
            4,
            4.0,
            format!(
                "- A sub-agent was asked to {}: {}",
                inline_quote(about, 120),
                inline_quote(answer, 240)
            ),
        );
    }
    for at in lines::workflow_commands(digest) {
        let command = &digest.commands[at];
        let weight = 2.0 + (command.runs.min(8) as f64) / 4.0 + 2.0 * command.step as f64 / digest.steps.max(1) as f64;
        collector.add(4, weight, lines::command_line(digest, at));
    }
}

fn add_pending_tasks(collector: &mut SummaryCollector<'_>) {
    for (at, line) in pending_lines(collector.digest).into_iter().enumerate() {
        collector.add(6, 11.0 - at as f64 * 0.1, line);
    }
}

fn add_current_work(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    if let Some(prompt) = requests::last_request(digest) {
        collector.add(7, 10.0, requests::working_line(digest, prompt, 300));
    }
    for (at, line) in ledger_lines(digest).into_iter().enumerate() {
        collector.add(7, 9.5 - at as f64 * 0.05, line);
    }
    if let Some(turn) = digest.turns.last() {
        for at in turn.commands.iter().rev().take(4).rev() {
            collector.add(7, 6.0, lines::command_line(digest, *at).replacen("- ", "- Ran ", 1));
        }
    }
    if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
        collector.add(
            7,
            8.8,
            format!("- The assistant said last:\n{}", block_quote(&turn.answer, 2_400)),
        );
    }
    if digest.turns.is_empty() {
        let work = digest.earlier_summary.as_ref().map_or("", |earlier| earlier.section(8));
        if !work.is_empty() {
            collector.add(7, 8.0, block_quote(work, 1_200));
        }
    }
}

fn add_completed_work(collector: &mut SummaryCollector<'_>) {
    let digest = collector.digest;
    for task in digest.tasks.iter().filter(|task| task.state == TaskState::Done) {
        collector.add(
            7,
            8.0,
            format!("- Done: {}", escape_markdown(&whole_sentences(&task.text, 200))),
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
        collector.add(
            7,
            7.0,
            format!("- {}: {answer}", quote_message(&digest.prompts[prompt].text, 120)),
        );
    }
}

fn add_next_step(collector: &mut SummaryCollector<'_>, variant: SummaryVariant) {
    let digest = collector.digest;
    if variant == SummaryVariant::UpTo {
        let names = digest.names_at_stake(MOST_NAMES);
        let list = names.into_iter().map(inline_code).collect::<Vec<_>>().join(", ");
        if !list.is_empty() {
            collector.add(8, 7.0, format!("- What follows may speak of: {list}"));
        }
        if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
            collector.add(
                8,
                8.0,
                format!("- It stopped with:\n{}", block_quote(&turn.answer, 700)),
            );
        }
        return;
    }
    // An answered prompt is no next step: repeated here, it would be done twice.
    if let Some(prompt) = requests::unanswered_request(digest) {
        let text = requests::quote_request(digest, prompt, 500);
        collector.add(8, 10.2, format!("- The user said last: {text}"));
    }
    if let Some(question) = open_question(digest) {
        collector.add(8, 10.2, format!("- Waiting for an answer to {question}"));
    }
    match next_step(digest) {
        Some(step) => collector.add(8, 10.1, format!("- Next: {step}")),
        None if pending_lines(digest).is_empty() && !digest.prompts.is_empty() => {
            collector.add(8, 10.1, NOTHING_OPEN.to_owned());
        }
        None => {}
    }
    if digest.prompts.is_empty() {
        let step = digest.earlier_summary.as_ref().map_or("", |earlier| earlier.section(9));
        if !step.is_empty() {
            collector.add(8, 8.0, block_quote(step, 1_200));
        }
    }
}
