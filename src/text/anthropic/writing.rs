//! Summaries and notes written by a model: what is asked, and what is made of the answer.
//!
//! Form is code's business. Headings and descriptions of the notes come from the template, the model only gives contents;
//! what the user said is put into a summary word for word, not by way of the model; limits are held whatever it writes.

use super::reading::{closing, conversation, instructions, object, without_scratch};
use super::request::{Request, Task};
use super::{Anthropic, fence};
use crate::input::messages::Role;
use crate::memory::secrets;
use crate::text::template::{Fence, SUMMARY_SECTIONS, Template, UP_TO_SECTIONS, substitute};
use crate::text::{Backend, Limits, NotesAsk, SummaryAsk, TextError, Variant, size};
use serde::Deserialize;
use std::fmt::Write;

const SUMMARY: &str = include_str!("../prompts/summary.md");
const SUMMARY_PARTS: &str = include_str!("../prompts/summary_sections.md");
const NOTES: &str = include_str!("../prompts/notes.md");
const NOTES_FORM: &str = include_str!("../prompts/notes_form.md");

/// The tasks in a few words.
const SUMMARY_TASK: &str = "write the nine parts that take the place of the conversation";
const NOTES_TASK: &str = "bring the notes up to date, and answer with the JSON object";

/// Tokens that the model may think, beyond what it writes.
const SCRATCH: u64 = 6_000;

/// What is said of the last two parts of a summary: what was done last and what comes next, or what a later part of the
/// conversation builds on.
const LAST: [&str; 2] = [
    "What was being worked on at the very end, with files, lines of code and the last words of both sides.",
    "The next step, only if it follows directly from what was asked last. Quote the words of the conversation that show where \
     the work stood, exactly. `None.` if the work was finished.",
];
const UP_TO: [&str; 2] = [
    "What was finished in this part of the conversation, and how it ended.",
    "What one must know from this part to understand and continue the messages that follow it, with exact quotations where the \
     wording matters.",
];

/// Number of the part with what the user said.
const USERS: usize = 5;

/// Least that a part keeps when it has to be cut.
const LEAST: u64 = 120;

/// What stands where something was cut.
const CUT: &str = "[… cut to fit]";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotesForm {
    sections: Vec<NotesSection>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NotesSection {
    number: usize,
    text: String,
}

/// Names of the nine parts.
fn names(variant: Variant) -> [&'static str; 9] {
    let mut names = SUMMARY_SECTIONS;
    if variant == Variant::UpTo {
        names[7..].copy_from_slice(&UP_TO_SECTIONS);
    }
    names
}

fn summary_request(backend: &Anthropic, ask: &SummaryAsk<'_>, room: u64) -> Request {
    let names = names(ask.variant);
    let about = if ask.variant == Variant::UpTo { UP_TO } else { LAST };
    let variables = [
        ("eighth", names[7]),
        ("eighth_about", about[0]),
        ("ninth", names[8]),
        ("ninth_about", about[1]),
    ];
    let sections = substitute(SUMMARY_PARTS, &variables);
    let mut task = substitute(SUMMARY, &[("sections", &sections), ("budget", &room.to_string())]);
    if ask.variant == Variant::From {
        task.push_str(
            "\nEarlier parts of the conversation stay as they are: write about what is in the material only.\n",
        );
    }
    if ask.is_automatic {
        task.push_str(
            "\nThe reader will go on without a chance to ask: leave no question open that the material answers.\n",
        );
    }
    if !ask.instructions.trim().is_empty() {
        let _ = write!(
            task,
            "\nThe user wants this of the text, within the form above:\n\n{}\n",
            ask.instructions.trim()
        );
    }
    let material = conversation("a conversation", ask.material.marker(), &ask.material.messages);
    backend
        .request(Task::Summary, room + SCRATCH, &instructions(&task))
        .with(&material)
        .with(&closing(SUMMARY_TASK))
}

/// The nine bodies of a summary, if it has the nine headings in their order.
fn parts(text: &str, variant: Variant) -> Result<Vec<String>, String> {
    let text = without_scratch(text)?;
    let names = names(variant);
    let mut bodies: Vec<String> = Vec::new();
    let mut fence = Fence::default();
    for line in text.lines() {
        let is_code = fence.is_inside(line);
        let next = names.get(bodies.len());
        let is_next = |name: &&str| heading(bodies.len(), name) == line.trim_end();
        if !is_code && next.is_some_and(|name| is_next(name)) {
            bodies.push(String::new());
        } else if let Some(body) = bodies.last_mut() {
            body.push_str(line);
            body.push('\n');
        } else if !line.trim().is_empty() {
            return Err("something stands before the first heading".into());
        }
    }
    if bodies.len() < names.len() {
        return Err(format!("the heading of part {} is missing", bodies.len() + 1));
    }
    for body in &mut bodies {
        *body = demoted(body.trim(), 2);
        if body.is_empty() {
            "None.".clone_into(body);
        }
    }
    Ok(bodies)
}

/// The heading of a part, counted from 0.
fn heading(at: usize, name: &str) -> String {
    format!("## {}. {name}", at + 1)
}

/// A text whose own headings lie below a level, and whose code fences are closed, so that it stays within its section.
fn demoted(text: &str, level: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence = Fence::default();
    let mut opener = String::new();
    for line in text.lines() {
        let was_open = fence.is_inside("");
        let is_code = fence.is_inside(line);
        if is_code && !was_open {
            let start = line.trim_start();
            start[..start.len() - start.trim_start_matches(['`', '~']).len()].clone_into(&mut opener);
        }
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        if !is_code && (1..=level).contains(&marks) && line[marks..].starts_with(' ') {
            out.push_str(&"#".repeat(level + 1 - marks));
        }
        out.push_str(line);
        out.push('\n');
    }
    out.truncate(out.trim_end().len());
    // A fence that nobody closed would swallow what comes after it.
    if fence.is_inside("") {
        let _ = write!(out, "\n{opener}");
    }
    out
}

/// A text of at most so many tokens, cut at the end of a line.
fn shortened(text: &str, most: u64) -> String {
    if size::tokens(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(size::tokens(CUT) + 2);
    let head = size::cut(text, room);
    let whole = head
        .rfind('\n')
        .filter(|at| *at > head.len() / 2)
        .map_or(head, |at| &head[..at]);
    demoted(&format!("{}\n{CUT}", whole.trim_end()), 0)
}

/// Cuts the largest bodies until all of them fit; those in `last` only when nothing else is left to cut.
fn fit(bodies: &mut [String], most: u64, last: &[usize]) {
    let sizes = |bodies: &[String]| bodies.iter().map(|body| size::tokens(body)).collect::<Vec<_>>();
    for is_spared in [true, false] {
        for _ in 0..bodies.len() * 2 {
            let sizes = sizes(bodies);
            let total = sizes.iter().sum::<u64>();
            if total <= most {
                return;
            }
            let may_cut = |at: &usize| sizes[*at] > LEAST && !(is_spared && last.contains(at));
            let Some(at) = (0..bodies.len())
                .filter(may_cut)
                .max_by_key(|at| (sizes[*at], usize::MAX - at))
            else {
                break;
            };
            let goal = sizes[at].saturating_sub(total - most).max(sizes[at] / 2).max(LEAST);
            bodies[at] = shortened(&bodies[at], goal);
        }
    }
}

fn notes_request(backend: &Anthropic, ask: &NotesAsk<'_>, warning: &str) -> Request {
    let mut sections = String::new();
    for (at, section) in ask.template.sections.iter().enumerate() {
        let about = section.about.split_whitespace().collect::<Vec<_>>().join(" ");
        let _ = writeln!(
            sections,
            "{}. {} {about}",
            at + 1,
            section.heading.trim_start_matches(['#', ' '])
        );
    }
    let variables = [
        ("sections", sections.trim_end()),
        ("section_limit", &ask.limits.section.to_string()),
        ("total_limit", &ask.limits.total.to_string()),
    ];
    let task = match ask.instructions {
        Some(own) => format!("Task: bring the notes of a session up to date.\n\n{own}\n\nThe sections:\n\n{sections}"),
        None => substitute(NOTES, &variables),
    };
    let current = secrets::mask(ask.current);
    let current = fence::fenced("the notes as they stand", &current, &fence::code(&[&current]));
    let material = conversation("what happened since", ask.material.marker(), &ask.material.messages);
    backend
        .request(
            Task::Notes,
            ask.limits.total + SCRATCH,
            &instructions(&format!("{task}\n{NOTES_FORM}")),
        )
        .with(&current)
        .with(&material)
        .with(&format!("{warning}{}", closing(NOTES_TASK)))
}

/// The bodies of the sections after an update.
fn updated(text: &str, ask: &NotesAsk<'_>) -> Result<Vec<String>, String> {
    let form = object::<NotesForm>(text)?;
    let count = ask.template.sections.len();
    let current = Template::parse(ask.current);
    let mut bodies = vec![String::new(); count];
    for (body, section) in std::iter::zip(&mut bodies, &current.sections) {
        section.body.clone_into(body);
    }
    let mut is_seen = vec![false; count];
    for section in form.sections {
        let at = section.number.checked_sub(1).filter(|at| *at < count);
        let at = at.ok_or("a section that the notes do not have")?;
        if std::mem::replace(&mut is_seen[at], true) {
            return Err("a section that is there twice".into());
        }
        bodies[at] = demoted(secrets::mask(section.text.trim()).trim(), 1);
    }
    Ok(bodies)
}

/// Sections that are too long, by number, and whether all of them together are.
fn excess(bodies: &[String], limits: Limits) -> (Vec<usize>, bool) {
    let sizes = bodies.iter().map(|body| size::tokens(body)).collect::<Vec<_>>();
    let long = (0..sizes.len()).filter(|at| sizes[*at] > limits.section).collect();
    (long, sizes.iter().sum::<u64>() > limits.total)
}

/// What the user said, word for word, within so many tokens.
fn users(ask: &SummaryAsk<'_>, most: u64) -> String {
    let messages = ask
        .material
        .messages
        .iter()
        .filter(|message| message.role == Role::User && !message.is_meta && !message.is_summary);
    let texts = messages
        .flat_map(|message| message.texts())
        .map(quoted)
        .collect::<Vec<_>>();
    shortened(&secrets::mask(&texts.join("\n\n")), most)
}

fn quoted(text: &str) -> String {
    text.trim().lines().map(|line| format!("> {line}\n")).collect()
}

impl Backend for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn summary(&self, ask: &SummaryAsk<'_>) -> Result<String, TextError> {
        let users = users(ask, ask.budget / 2);
        let around = names(ask.variant)
            .into_iter()
            .enumerate()
            .map(|(at, name)| size::tokens(&heading(at, name)) + 2);
        let room = ask.budget.saturating_sub(size::tokens(&users) + around.sum::<u64>());
        let request = summary_request(self, ask, room);
        let mut bodies = self.ask(&request, |text| parts(text, ask.variant))?;
        bodies[USERS].clear();
        fit(&mut bodies, room, &[0, 6, 7, 8]);
        bodies[USERS] = users;
        let mut text = String::new();
        for (at, (name, body)) in std::iter::zip(names(ask.variant), &bodies).enumerate() {
            let _ = write!(text, "{}\n\n{}\n\n", heading(at, name), secrets::mask(body));
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        Ok(text)
    }

    fn notes(&self, ask: &NotesAsk<'_>) -> Result<String, TextError> {
        let mut bodies = self.ask(&notes_request(self, ask, ""), |text| updated(text, ask))?;
        let (long, is_long) = excess(&bodies, ask.limits);
        if is_long || !long.is_empty() {
            let which = long
                .iter()
                .map(|at| (at + 1).to_string())
                .collect::<Vec<_>>()
                .join(", ");
            let warning = format!(
                "An earlier try came out too long{}. Condense: join what belongs together, drop what matters least now, and keep \
                 the state of the work and the errors.\n\n",
                if which.is_empty() {
                    String::new()
                } else {
                    format!(" in sections {which}")
                }
            );
            // A second try that fails leaves the first, which is cut.
            match self.ask(&notes_request(self, ask, &warning), |text| updated(text, ask)) {
                Ok(condensed) => bodies = condensed,
                Err(error @ (TextError::Pending | TextError::Budget(_))) => return Err(error),
                Err(_) => {}
            }
        }
        for body in &mut bodies {
            *body = shortened(body, ask.limits.section);
        }
        let spared = ask.template.sections.iter().enumerate().filter_map(|(at, section)| {
            let purpose = section.purpose()?;
            (purpose.rank() <= 1).then_some(at)
        });
        fit(&mut bodies, ask.limits.total, &spared.collect::<Vec<_>>());
        Ok(ask.template.fill(bodies.iter().map(String::as_str)))
    }
}
