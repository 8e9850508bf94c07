//! The nine sections of a compaction summary, from what happened.

use crate::offline::clean;
use crate::offline::clean::{code, tame};
use crate::offline::compose::{Item, compose, cost, quote, said};
use crate::offline::digest::{Digest, Prompt, Sense, TaskState, Way};
use crate::offline::names;
use crate::offline::notes;
use crate::template::{SUMMARY_SECTIONS, UP_TO_SECTIONS, fence_for};
use crate::{SummaryAsk, Variant, size};

/// Most of the budget that the messages of the user take before long ones are cut.
const MESSAGES_SHARE: f64 = 0.5;
/// Tokens that are enough for all the rest: above that the messages may have more than their share.
const OTHERS: u64 = 6_000;
/// Lengths to which long messages are cut in turn, in characters.
const CUTS: [usize; 8] = [8_000, 4_000, 2_000, 1_000, 600, 350, 200, 100];

/// Writes a summary.
pub fn write(digest: &Digest, ask: &SummaryAsk<'_>) -> String {
    let mut titles = SUMMARY_SECTIONS;
    if ask.variant == Variant::UpTo {
        titles[7..].copy_from_slice(&UP_TO_SECTIONS);
    }
    let head = head(ask);
    let fixed = cost(&head) + titles.iter().map(|title| cost(title) + 6).sum::<u64>();
    let left = ask.budget.saturating_sub(fixed);
    let items = items(digest, ask);
    let others = items.iter().map(|item| cost(&item.text)).sum::<u64>().min(OTHERS);
    let share = (left as f64 * MESSAGES_SHARE) as u64;
    let mut messages = messages(digest, share.max(left.saturating_sub(others)));
    let mut room = left.saturating_sub(cost(&messages));
    loop {
        let composed = compose(&items, &[room; 9], room);
        let mut bodies = composed.bodies;
        bodies[5].clone_from(&messages);
        let text = assemble(&head, &titles, &bodies);
        let over = size::tokens(&text).saturating_sub(ask.budget);
        if over == 0 {
            return text;
        }
        if room == 0 {
            // Nothing but what must be there, and that is too much for the budget.
            let less = cost(&messages).saturating_sub(over + 8);
            messages = match less {
                0 => String::new(),
                less => size::cut(&messages, less).to_owned(),
            };
            if messages.is_empty() {
                return size::cut(&text, ask.budget).to_owned();
            }
            continue;
        }
        room = room.saturating_sub(over + 8);
    }
}

/// What stands before the nine sections.
pub fn head(ask: &SummaryAsk<'_>) -> String {
    let mut head = match ask.variant {
        Variant::Whole => "What this conversation was about so far, taken from its record.",
        Variant::From => "What the later part of this conversation was about, taken from its record; the earlier part stands above as it was.",
        Variant::UpTo => "What the earlier part of this conversation was about, taken from its record; the later part follows as it was.",
    }
    .to_owned();
    if ask.material.dropped > 0 {
        head.push_str(" Its oldest part was too long to be looked at.");
    }
    let wanted = ask.instructions.trim();
    if !wanted.is_empty() {
        head.push_str(&format!("\nThe user wants this summary to mind: {}", said(wanted, 600)));
    }
    if ask.is_automatic {
        head.push_str("\nGo on with the work where it stopped, without asking.");
    }
    head
}

/// The nine sections below their headings.
pub fn assemble(head: &str, titles: &[&str], bodies: &[String]) -> String {
    let mut text = format!("{head}\n");
    for (at, (title, body)) in std::iter::zip(titles, bodies).enumerate() {
        let body = if body.is_empty() { "Nothing." } else { body };
        text.push_str(&format!("\n## {}. {title}\n\n{body}\n", at + 1));
    }
    text
}

/// Every message of the user, oldest first. What does not fit is cut where it is longest: the oldest first.
pub fn messages(digest: &Digest, room: u64) -> String {
    let prompts = digest
        .prompts
        .iter()
        .filter(|prompt| prompt.way != Way::Shell)
        .collect::<Vec<_>>();
    let mut entries = Vec::<(String, Option<&Prompt>)>::new();
    if let Some(earlier) = &digest.earlier {
        let points = earlier.points(6);
        if !points.is_empty() {
            entries.push((String::from("Before that, by an earlier summary:"), None));
            let points = points
                .iter()
                .map(|point| format!("- {}", tame(&clean::line(point, 1_000))));
            entries.extend(points.map(|point| (point, None)));
            if !prompts.is_empty() {
                entries.push((String::from("Since then:"), None));
            }
        }
    }
    entries.extend(prompts.iter().map(|prompt| (entry(prompt, usize::MAX), Some(*prompt))));
    let mut costs = entries.iter().map(|(text, _)| cost(text)).collect::<Vec<_>>();
    let mut total = costs.iter().sum::<u64>();
    for most in CUTS {
        for at in 0..entries.len() {
            if total <= room {
                break;
            }
            let Some(prompt) = entries[at].1 else {
                if most <= 600 && entries[at].0.chars().count() > most {
                    entries[at].0 = clean::line(&entries[at].0, most);
                    let now = cost(&entries[at].0);
                    total = total - costs[at] + now;
                    costs[at] = now;
                }
                continue;
            };
            if prompt.text.chars().count() > most {
                entries[at].0 = entry(prompt, most);
                let now = cost(&entries[at].0);
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
fn entry(prompt: &Prompt, most: usize) -> String {
    let label = match prompt.way {
        Way::Refusal => "(when refusing a tool call) ",
        Way::Shell => "(ran in the shell) ",
        Way::Message | Way::Command => "",
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
    if clean::is_tame(&text) {
        return format!("- {label}{text}");
    }
    let fence = fence_for(&text);
    format!("- {label}\n\n{fence}text\n{text}\n{fence}\n").replacen("- \n\n", "\n", 1)
}

struct Gather<'d> {
    digest: &'d Digest,
    items: Vec<Item>,
}

impl Gather<'_> {
    fn add(&mut self, section: usize, weight: f64, text: String) {
        self.items.push(Item { section, weight, text });
    }

    fn sentences(&mut self, section: usize, sense: Sense, most: usize, top: f64) {
        let found = notes::best_sentences(self.digest, sense, most);
        let count = found.len();
        for (at, text) in found.into_iter().enumerate() {
            let weight = top * (at + 1) as f64 / count as f64;
            self.add(section, weight, format!("- {}", tame(&clean::line(text, 300))));
        }
    }
}

fn items(digest: &Digest, ask: &SummaryAsk<'_>) -> Vec<Item> {
    let mut gather = Gather {
        digest,
        items: Vec::new(),
    };
    request(&mut gather);
    concepts(&mut gather);
    files(&mut gather);
    errors(&mut gather);
    solving(&mut gather);
    pending(&mut gather);
    match ask.variant {
        Variant::UpTo => completed(&mut gather),
        Variant::Whole | Variant::From => current(&mut gather),
    }
    next(&mut gather, ask.variant);
    gather.items
}

fn request(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    if let Some(earlier) = digest
        .earlier
        .as_ref()
        .filter(|earlier| !earlier.section(1).trim().is_empty())
    {
        let text = format!(
            "Before that, by an earlier summary:\n{}",
            quote(earlier.section(1), 1_200)
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
        gather.add(0, weight, format!("- {label}: {}", said(&gist(&prompt.text), 220)));
    }
    for choice in &digest.choices {
        gather.add(0, 7.5, notes::choice_line(choice));
    }
    for (at, rule) in digest.rules.iter().enumerate() {
        gather.add(
            0,
            7.0 + at as f64 * 0.01,
            format!("- The user wants: {}", tame(&clean::line(rule, 240))),
        );
    }
}

/// What a message comes to: its first sentence, and the last if that asks.
fn gist(text: &str) -> String {
    let mut sentences = clean::sentences(text);
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
        (Some(first), Some(last)) if sentences.len() > 1 && notes::asks(last) => format!("{first} … {last}"),
        // What follows a colon is what is meant.
        (Some(first), _) if sentences.len() > 1 && first.ends_with([':', '：']) => format!("{first} {}", sentences[1]),
        (Some(first), _) => (*first).to_owned(),
        _ => text.to_owned(),
    }
}

/// Names on one line of the list.
const NAMES_A_LINE: usize = 12;

fn concepts(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    for point in digest.explained(2).into_iter().take(20) {
        gather.add(1, 4.0, format!("- {}", tame(&clean::line(&point, 200))));
    }
    gather.sentences(1, Sense::System, 20, 4.5);
    let all = digest.names();
    for (at, names) in all.chunks(NAMES_A_LINE).take(8).enumerate() {
        let list = names.iter().map(|name| code(name)).collect::<Vec<_>>().join(", ");
        let label = if at == 0 { "- Names most in use: " } else { "- Also: " };
        gather.add(1, 8.5 - at as f64 * 0.35, format!("{label}{list}"));
    }
}

fn files(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    if !digest.root.is_empty() && !digest.files.is_empty() {
        gather.add(2, 9.9, format!("Paths are relative to {}.", code(&digest.root)));
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
        .earlier
        .as_ref()
        .map(|earlier| earlier.points(3))
        .unwrap_or_default()
    {
        let mut has_path = false;
        names::paths(&point, |_| has_path = true);
        if has_path {
            gather.add(2, 5.0, format!("- Earlier: {}", tame(&clean::line(&point, 260))));
        }
    }
}

/// Lines of code that are shown of a change.
const SNIPPET: usize = 14;

/// The start of what was written last; a line or two tell nothing that the names do not.
fn snippet(text: &str) -> Option<String> {
    let text = clean::plain(text);
    let lines = text.lines().map(str::trim_end).filter(|line| !line.is_empty());
    let lines = lines
        .take(SNIPPET + 1)
        .map(|line| line.chars().take(160).collect::<String>())
        .collect::<Vec<_>>();
    if lines.len() < 3 {
        return None;
    }
    let is_cut = lines.len() > SNIPPET;
    let shown = lines[..lines.len().min(SNIPPET)].join("\n");
    let fence = fence_for(&shown);
    let more = if is_cut { "\n[…]" } else { "" };
    Some(format!("\n{fence}\n{shown}{more}\n{fence}\n"))
}

fn errors(gather: &mut Gather<'_>) {
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
            format!("- The user corrected: {}", said(&gist(&prompt.text), 240)),
        );
    }
    let count = digest.failures.len();
    for (at, failure) in digest.failures.iter().enumerate() {
        let open = match (notes::is_open(digest, failure), notes::is_look(&failure.what)) {
            (true, _) => 3.0,
            (false, true) => -3.0,
            (false, false) => 0.0,
        };
        let weight = 2.0 + open + 4.0 * (at + 1) as f64 / count as f64;
        gather.add(3, weight, notes::failure_line(digest, failure));
    }
    for point in digest.explained(4).into_iter().take(12) {
        gather.add(3, 3.5, format!("- Earlier: {}", tame(&clean::line(&point, 240))));
    }
}

fn solving(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    for point in digest.explained(5).into_iter().take(10) {
        gather.add(4, 3.8, format!("- Earlier: {}", tame(&clean::line(&point, 240))));
    }
    gather.sentences(4, Sense::Cause, 20, 5.5);
    gather.sentences(4, Sense::Decision, 12, 5.0);
    let answers = digest
        .prompts
        .iter()
        .filter(|prompt| notes::is_answer(prompt))
        .collect::<Vec<_>>();
    for prompt in answers.into_iter().rev().take(12).rev() {
        let question = prompt.answers.as_deref().unwrap_or_default();
        gather.add(
            4,
            5.0,
            format!(
                "- Asked {}, the user said {}",
                said(question, 200),
                said(&prompt.text, 120)
            ),
        );
    }
    for (about, answer) in digest.agents.iter().rev().take(8).rev() {
        gather.add(
            4,
            4.0,
            format!("- A sub-agent was asked to {}: {}", said(about, 120), said(answer, 240)),
        );
    }
    for at in notes::workflow(digest) {
        let command = &digest.commands[at];
        let weight = 2.0 + (command.runs.min(8) as f64) / 4.0 + 2.0 * command.step as f64 / digest.steps.max(1) as f64;
        gather.add(4, weight, notes::command_line(digest, at));
    }
}

fn pending(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    for task in &digest.tasks {
        let label = match task.state {
            TaskState::Done => continue,
            TaskState::Going => "In progress",
            TaskState::Open => "Not begun",
        };
        gather.add(6, 11.0, format!("- {label}: {}", tame(&clean::line(&task.text, 240))));
    }
    if let Some(turn) = digest.turns.last().filter(|turn| !turn.is_answered)
        && let Some(prompt) = turn.prompt
    {
        gather.add(
            6,
            10.5,
            format!(
                "- Asked and not answered yet: {}",
                said(&digest.prompts[prompt].text, 500)
            ),
        );
    }
    for failure in digest
        .failures
        .iter()
        .filter(|failure| notes::is_open(digest, failure))
        .rev()
        .take(3)
    {
        gather.add(6, 9.0, format!("- Still failing: {}", code(&failure.what)));
    }
    let is_quiet = digest.turns.is_empty() || digest.tasks.is_empty();
    let earlier = digest.earlier.as_ref().filter(|_| is_quiet);
    for point in earlier
        .map(|earlier| earlier.points(7))
        .unwrap_or_default()
        .into_iter()
        .take(10)
    {
        gather.add(
            6,
            6.0,
            format!("- By an earlier summary: {}", tame(&clean::line(&point, 240))),
        );
    }
}

fn current(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    if let Some(prompt) = notes::last_request(digest) {
        gather.add(7, 10.0, format!("- Working on: {}", said(&prompt.text, 300)));
    }
    if let Some(turn) = digest.turns.last() {
        let changed = turn
            .files
            .iter()
            .rev()
            .take(8)
            .map(|at| code(names::relative(&digest.files[*at].path, &digest.root)));
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
            format!("- The assistant said last:\n{}", quote(&turn.answer, 900)),
        );
        if turn.answer.chars().count() > 900 {
            gather.add(7, 3.0, quote(&turn.answer.chars().skip(900).collect::<String>(), 1_500));
        }
    }
    if digest.turns.is_empty() {
        let work = digest.earlier.as_ref().map_or("", |earlier| earlier.section(8));
        if !work.is_empty() {
            gather.add(7, 8.0, quote(work, 1_200));
        }
    }
}

fn completed(gather: &mut Gather<'_>) {
    let digest = gather.digest;
    for task in digest.tasks.iter().filter(|task| task.state == TaskState::Done) {
        gather.add(7, 8.0, format!("- Done: {}", tame(&clean::line(&task.text, 200))));
    }
    for turn in &digest.turns {
        let Some(prompt) = turn.prompt.filter(|_| turn.is_answered) else {
            continue;
        };
        let answer = clean::sentences(&turn.answer)
            .first()
            .map(|first| said(first, 200))
            .unwrap_or_default();
        gather.add(
            7,
            7.0,
            format!("- {}: {answer}", said(&gist(&digest.prompts[prompt].text), 120)),
        );
    }
}

fn next(gather: &mut Gather<'_>, variant: Variant) {
    let digest = gather.digest;
    if variant == Variant::UpTo {
        let names = digest.names();
        let list = names
            .iter()
            .take(20)
            .map(|name| code(name))
            .collect::<Vec<_>>()
            .join(", ");
        if !list.is_empty() {
            gather.add(8, 7.0, format!("- What follows may speak of: {list}"));
        }
        if let Some(turn) = digest.turns.iter().rev().find(|turn| !turn.answer.is_empty()) {
            gather.add(8, 8.0, format!("- It stopped with:\n{}", quote(&turn.answer, 700)));
        }
        return;
    }
    if let Some(prompt) = digest.prompts.last() {
        gather.add(8, 10.2, format!("- The user said last: {}", said(&prompt.text, 500)));
    }
    if let Some(step) = notes::next_step(digest) {
        gather.add(8, 10.1, format!("- Next: {step}"));
    }
    if digest.prompts.is_empty() {
        let step = digest.earlier.as_ref().map_or("", |earlier| earlier.section(9));
        if !step.is_empty() {
            gather.add(8, 8.0, quote(step, 1_200));
        }
    }
}
