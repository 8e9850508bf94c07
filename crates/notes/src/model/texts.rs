//! Summaries and notes by a model: the requests, and the texts from its answers.
//!
//! Code controls the form. Headings and descriptions of notes come from the template and the model only writes contents;
//! messages of the user are copied into a summary by code; limits are enforced whatever the model writes.

use crate::model::prompt::{closing_prompt, fence_conversation, parse_object, strip_scratch, task_instructions};
use crate::model::request::{ModelRequest, ModelTask};
use crate::model::{AnthropicBackend, AskMode, fence};
use crate::offline::user_messages::user_messages_section;
use crate::offline::{OfflineBackend, digest_of, foreign_sections, summary};
use crate::template::{NotesTemplate, SUMMARY_SECTIONS, UP_TO_SECTIONS, substitute};
use crate::{NotesLimits, NotesRequest, SummaryRequest, SummaryVariant, TextBackend, TextError, size};
use language::markdown::CodeFence;
use language::secrets;
use serde::Deserialize;
use std::fmt::Write;

const SUMMARY: &str = include_str!("../prompts/summary.md");
const SUMMARY_PARTS: &str = include_str!("../prompts/summary_sections.md");
const NOTES: &str = include_str!("../prompts/notes.md");
const NOTES_FORM: &str = include_str!("../prompts/notes_form.md");

/// The tasks in a few words, for the end of the prompt.
const SUMMARY_TASK: &str = "write the nine parts that take the place of the conversation";
const NOTES_TASK: &str = "bring the notes up to date, and answer with the JSON object";

/// Output tokens for the scratch block.
const SCRATCH_TOKENS: u64 = 6_000;

/// Descriptions of the last two parts of a summary: the last work and the next step, or the context for later messages.
const LAST_PART_PROMPTS: [&str; 2] = [
    "What was being worked on at the very end, with files, lines of code and the last words of both sides.",
    "The next step, only if it follows directly from what was asked last. Quote the words of the conversation that show where \
     the work stood, exactly. `Nothing.` if the work was finished.",
];
const UP_TO_PART_PROMPTS: [&str; 2] = [
    "What was finished in this part of the conversation, and how it ended.",
    "What one must know from this part to understand and continue the messages that follow it, with exact quotations where the \
     wording matters.",
];

/// Index of the part with the user's messages.
const USER_MESSAGES_PART: usize = 5;

/// A part is not cut below this.
const MIN_BODY_TOKENS: u64 = 120;

/// Marks a cut.
const CUT_MARK: &str = "[… cut to fit]";

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

/// Returns the names of the nine parts.
fn part_names(variant: SummaryVariant) -> [&'static str; 9] {
    let mut names = SUMMARY_SECTIONS;
    if variant == SummaryVariant::UpTo {
        names[7..].copy_from_slice(&UP_TO_SECTIONS);
    }
    names
}

fn summary_request(backend: &AnthropicBackend, ask: &SummaryRequest<'_>, room: u64) -> ModelRequest {
    let names = part_names(ask.variant);
    let about = if ask.variant == SummaryVariant::UpTo {
        UP_TO_PART_PROMPTS
    } else {
        LAST_PART_PROMPTS
    };
    let variables = [
        ("eighth", names[7]),
        ("eighth_about", about[0]),
        ("ninth", names[8]),
        ("ninth_about", about[1]),
    ];
    let sections = substitute(SUMMARY_PARTS, &variables);
    let mut task = substitute(SUMMARY, &[("sections", &sections), ("budget", &room.to_string())]);
    if ask.variant == SummaryVariant::From {
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
    let material = fence_conversation("a conversation", ask.material.leading_marker(), &ask.material.messages);
    backend
        .request(ModelTask::Summary, room + SCRATCH_TOKENS, &task_instructions(&task))
        .with_text(&material)
        .with_text(&closing_prompt(SUMMARY_TASK))
}

/// Returns the bodies of the nine parts. An error if a heading is missing or out of order.
fn parse_parts(text: &str, variant: SummaryVariant) -> Result<Vec<String>, String> {
    let text = strip_scratch(text)?;
    let names = part_names(variant);
    let mut bodies: Vec<String> = Vec::new();
    let mut fence = CodeFence::default();
    for line in text.lines() {
        let is_code = fence.is_inside(line);
        let next = names.get(bodies.len());
        let is_next = |name: &&str| part_heading(bodies.len(), name) == line.trim_end();
        if !is_code && next.is_some_and(is_next) {
            bodies.push(String::new());
        } else if let Some(body) = bodies.last_mut() {
            body.push_str(line);
            body.push('\n');
        } else if !line.trim().is_empty() {
            return Err("text before the first heading".into());
        }
    }
    if bodies.len() < names.len() {
        return Err(format!("the heading of part {} is missing", bodies.len() + 1));
    }
    for body in &mut bodies {
        *body = demote_headings(secrets::mask(body.trim()).trim(), 2);
    }
    Ok(bodies)
}

/// Returns the heading of a part, counted from 0.
fn part_heading(at: usize, name: &str) -> String {
    format!("## {}. {name}", at + 1)
}

/// Moves headings of a text below a level and closes its code fences, so that it stays within its section.
fn demote_headings(text: &str, level: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut fence = CodeFence::default();
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
    // An unclosed fence would include the text after it.
    if fence.is_inside("") {
        let _ = write!(out, "\n{opener}");
    }
    out
}

/// Cuts a text to at most `most` tokens, at the end of a line if one ends in the second half.
fn truncate_tokens(text: &str, most: u64) -> String {
    if size::tokens(text) <= most {
        return text.to_owned();
    }
    let room = most.saturating_sub(size::tokens(CUT_MARK) + 2);
    let head = size::truncate_to_tokens(text, room);
    let whole = head
        .rfind('\n')
        .filter(|at| *at > head.len() / 2)
        .map_or(head, |at| &head[..at]);
    demote_headings(&format!("{}\n{CUT_MARK}", whole.trim_end()), 0)
}

/// Cuts the largest bodies until all fit; those in `last` only if no other can be cut.
fn fit_bodies(bodies: &mut [String], most: u64, last: &[usize]) {
    let sizes = |bodies: &[String]| bodies.iter().map(|body| size::tokens(body)).collect::<Vec<_>>();
    for is_spared in [true, false] {
        for _ in 0..bodies.len() * 2 {
            let sizes = sizes(bodies);
            let total = sizes.iter().sum::<u64>();
            if total <= most {
                return;
            }
            let may_cut = |at: &usize| sizes[*at] > MIN_BODY_TOKENS && !(is_spared && last.contains(at));
            let Some(at) = (0..bodies.len())
                .filter(may_cut)
                .max_by_key(|at| (sizes[*at], usize::MAX - at))
            else {
                break;
            };
            let goal = sizes[at]
                .saturating_sub(total - most)
                .max(sizes[at] / 2)
                .max(MIN_BODY_TOKENS);
            bodies[at] = truncate_tokens(&bodies[at], goal);
        }
    }
}

fn notes_request(backend: &AnthropicBackend, ask: &NotesRequest<'_>, warning: &str) -> ModelRequest {
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
    let current = fence::fence_text("the notes as they stand", &current, &fence::fence_code(&[&current]));
    let material = fence_conversation(
        "what happened since",
        ask.material.leading_marker(),
        &ask.material.messages,
    );
    backend
        .request(
            ModelTask::Notes,
            ask.limits.total + SCRATCH_TOKENS,
            &task_instructions(&format!("{task}\n{NOTES_FORM}")),
        )
        .with_text(&current)
        .with_text(&material)
        .with_text(&format!("{warning}{}", closing_prompt(NOTES_TASK)))
}

/// Returns the bodies of all sections after an update.
fn updated_bodies(text: &str, ask: &NotesRequest<'_>) -> Result<Vec<String>, String> {
    let form = parse_object::<NotesForm>(text)?;
    let count = ask.template.sections.len();
    let current = NotesTemplate::parse(ask.current);
    let body = |heading: &str| {
        let old = current.sections.iter().find(|old| old.heading == heading);
        old.map_or_else(String::new, |old| old.body.clone())
    };
    let sections = ask.template.sections.iter();
    let mut bodies = sections.map(|section| body(&section.heading)).collect::<Vec<_>>();
    let mut is_seen = vec![false; count];
    for section in form.sections {
        let at = section.number.checked_sub(1).filter(|at| *at < count);
        let at = at.ok_or("an unknown section")?;
        if std::mem::replace(&mut is_seen[at], true) {
            return Err("a section that occurs twice".into());
        }
        bodies[at] = demote_headings(secrets::mask(section.text.trim()).trim(), 1);
    }
    Ok(bodies)
}

impl TextBackend for AnthropicBackend {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn summary(&self, ask: &SummaryRequest<'_>) -> Result<String, TextError> {
        let digest = digest_of(&ask.material);
        if digest.is_empty() {
            return Err(TextError::Nothing);
        }
        let (head, titles) = (summary::preamble(ask), part_names(ask.variant));
        let around = size::tokens(&head) + titles.iter().map(|title| size::tokens(title) + 6).sum::<u64>();
        let left = ask.budget.saturating_sub(around);
        let users = secrets::mask(&user_messages_section(&digest, left / 2));
        let room = left.saturating_sub(size::tokens(&users)).max(MIN_BODY_TOKENS);
        let bodies = match self.ask(&summary_request(self, ask, room), |text| parse_parts(text, ask.variant)) {
            Ok(bodies) => bodies,
            // An estimate continues with an offline text of the same size.
            Err(TextError::Pending) if self.setup.mode == AskMode::Estimate => return OfflineBackend.summary(ask),
            Err(error) => return Err(error),
        };
        let mut goal = room;
        loop {
            let mut bodies = bodies.clone();
            bodies[USER_MESSAGES_PART].clear();
            fit_bodies(&mut bodies, goal, &[0, 6, 7, 8]);
            bodies[USER_MESSAGES_PART].clone_from(&users);
            let text = summary::join_sections(&head, &titles, &bodies);
            let over = size::tokens(&text).saturating_sub(ask.budget);
            if over == 0 {
                return Ok(text);
            }
            if goal == 0 {
                return Ok(size::truncate_to_tokens(&text, ask.budget).to_owned());
            }
            goal = goal.saturating_sub(over + 8);
        }
    }

    fn notes(&self, ask: &NotesRequest<'_>) -> Result<String, TextError> {
        let heads = ask.template.sections.iter().map(|section| {
            let (heading, about) = (size::tokens(&section.heading), size::tokens(&section.about));
            heading + about + 4
        });
        let heads = heads.collect::<Vec<_>>();
        let first = self.ask(&notes_request(self, ask, ""), |text| updated_bodies(text, ask));
        let mut bodies = match first {
            Ok(bodies) => bodies,
            Err(TextError::Pending) if self.setup.mode == AskMode::Estimate => return OfflineBackend.notes(ask),
            Err(error) => return Err(error),
        };
        if let Some(warning) = length_warning(&bodies, &heads, ask.limits) {
            match self.ask(&notes_request(self, ask, &warning), |text| updated_bodies(text, ask)) {
                Ok(condensed) => bodies = condensed,
                Err(error @ (TextError::Pending | TextError::Budget(_))) => return Err(error),
                // If the second attempt fails, the first is cut.
                Err(_) => {}
            }
        }
        for (body, head) in std::iter::zip(&mut bodies, &heads) {
            *body = truncate_tokens(body, ask.limits.section.saturating_sub(*head));
        }
        let spared = ask.template.sections.iter().enumerate().filter_map(|(at, section)| {
            let purpose = section.purpose()?;
            (purpose.priority() <= 1).then_some(at)
        });
        let spared = spared.collect::<Vec<_>>();
        let mut goal = ask.limits.total.saturating_sub(heads.iter().sum());
        loop {
            let mut bodies = bodies.clone();
            fit_bodies(&mut bodies, goal, &spared);
            let text = ask.template.render(bodies.iter().map(String::as_str))
                + &foreign_sections(&NotesTemplate::parse(ask.current), ask.template);
            let over = size::tokens(&text).saturating_sub(ask.limits.total);
            if over == 0 || goal == 0 {
                return Ok(text);
            }
            goal = goal.saturating_sub(over + 8);
        }
    }
}

/// Returns a warning for the second attempt at notes that are too long; `None` if they are not.
fn length_warning(bodies: &[String], heads: &[u64], limits: NotesLimits) -> Option<String> {
    let sizes = std::iter::zip(bodies, heads).map(|(body, head)| size::tokens(body) + head);
    let sizes = sizes.collect::<Vec<_>>();
    let long = (0..sizes.len()).filter(|at| sizes[*at] > limits.section);
    let long = long.map(|at| (at + 1).to_string()).collect::<Vec<_>>();
    let which = match (long.is_empty(), sizes.iter().sum::<u64>() > limits.total) {
        (true, false) => return None,
        (true, true) => String::new(),
        (false, _) => format!(" in sections {}", long.join(", ")),
    };
    Some(format!(
        "An earlier try came out too long{which}. Condense: join what belongs together, drop what matters least now, and keep \
         the state of the work and the errors.\n\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::offline_backend;
    use super::*;
    use crate::SourceMaterial;
    use transcript::messages::{Message, MessagePart, MessageRole};

    fn message(role: MessageRole, text: &str) -> Message {
        Message {
            session: "s".into(),
            uuid: "u".into(),
            line: 1,
            ..Message::with_parts(role, vec![MessagePart::Text(text.into())])
        }
    }

    fn summary_ask(messages: &[Message]) -> SummaryRequest<'_> {
        SummaryRequest {
            material: SourceMaterial::from_messages(messages),
            variant: SummaryVariant::Whole,
            instructions: "mind the tests",
            budget: 4_000,
            is_automatic: true,
        }
    }

    #[test]
    fn nine_headings_in_their_order_or_nothing() {
        let good = (0..9).map(|at| format!("{}\nbody {at}\n\n", part_heading(at, SUMMARY_SECTIONS[at])));
        let good = good.collect::<String>();
        let bodies = parse_parts(&format!("<scratch>x</scratch>\n{good}"), SummaryVariant::Whole).unwrap();
        assert_eq!(bodies[8], "body 8");
        assert!(
            parse_parts(&good, SummaryVariant::UpTo).is_err(),
            "another variant has other names"
        );
        assert!(parse_parts(&good.replace("## 4.", "## 44."), SummaryVariant::Whole).is_err());
        assert!(parse_parts(&format!("Sure! {good}"), SummaryVariant::Whole).is_err());
        // A heading inside code is text, and a section cannot hold a heading of its own level.
        let tricky = good.replace(
            "body 2",
            "```\n## 4. Errors and Fixes\n```\n## 9. Optional Next Step\n# Mine",
        );
        let bodies = parse_parts(&tricky, SummaryVariant::Whole).unwrap();
        assert_eq!(bodies.len(), 9);
        assert!(
            bodies[2].contains("```\n## 4.") && bodies[2].contains("### 9. Optional"),
            "{}",
            bodies[2]
        );
        assert!(bodies[2].contains("### Mine"), "{}", bodies[2]);
    }

    #[test]
    fn the_question_says_what_is_wanted_and_shows_the_conversation_as_material() {
        let messages = [
            message(MessageRole::User, "fix it"),
            message(MessageRole::Assistant, "done"),
        ];
        let request = summary_request(&offline_backend(), &summary_ask(&messages), 3_000);
        let body = request.body(true);
        let system = body["system"][0]["text"].as_str().unwrap();
        for wanted in [
            "## 9. Optional Next Step",
            "mind the tests",
            "below 3000 tokens",
            "You have no tools",
        ] {
            assert!(system.contains(wanted), "{wanted}");
        }
        assert!(!system.contains("{{"), "{system}");
        assert!(
            body["messages"][0]["content"][0]["text"]
                .as_str()
                .unwrap()
                .contains("fix it")
        );
    }

    #[test]
    fn texts_stay_in_their_section() {
        assert_eq!(demote_headings("# a\n## b\ntext", 1), "## a\n## b\ntext");
        assert_eq!(demote_headings("```\n# code", 1), "```\n# code\n```");
        assert_eq!(demote_headings("~~~~x\n```\n", 1), "~~~~x\n```\n~~~~");
        assert_eq!(demote_headings("#hash\n####### x", 1), "#hash\n####### x");
    }

    #[test]
    fn the_largest_are_cut_first_and_all_of_them_fit() {
        let mut bodies = vec![
            "short".to_owned(),
            "a line of words\n".repeat(400),
            "state of things\n".repeat(40),
        ];
        fit_bodies(&mut bodies, 700, &[2]);
        assert!(bodies.iter().map(|body| size::tokens(body)).sum::<u64>() <= 700);
        assert!(bodies[1].ends_with(CUT_MARK) && !bodies[2].ends_with(CUT_MARK));
        fit_bodies(&mut bodies, 300, &[2]);
        assert!(
            bodies.iter().map(|body| size::tokens(body)).sum::<u64>() <= 300,
            "in the end nothing is spared"
        );
    }

    fn notes_ask<'m>(template: &'m NotesTemplate, current: &'m str) -> NotesRequest<'m> {
        NotesRequest {
            current,
            template,
            instructions: None,
            material: SourceMaterial::default(),
            limits: NotesLimits {
                section: 2_000,
                total: 12_000,
            },
        }
    }

    #[test]
    fn an_update_changes_contents_and_nothing_else() {
        let template = NotesTemplate::built_in();
        let current = template.render(["Title", "old state"]) + "\n# Mine\n\nkeep\n";
        let ask = notes_ask(&template, &current);
        let bodies = updated_bodies(
            r##"{"sections": [{"number": 2, "text": "# Worklog\nnew state"}]}"##,
            &ask,
        )
        .unwrap();
        assert_eq!(
            (bodies[0].as_str(), bodies[1].as_str()),
            ("Title", "## Worklog\nnew state")
        );
        assert!(template.has_same_sections(&template.render(bodies.iter().map(String::as_str))));
        assert!(foreign_sections(&NotesTemplate::parse(&current), &template).contains("# Mine"));
        for wrong in [
            r#"{"sections": [{"number": 0, "text": "x"}]}"#,
            r#"{"sections": [{"number": 11, "text": "x"}]}"#,
            r#"{"sections": [{"number": 2, "text": "x"}, {"number": 2, "text": "y"}]}"#,
            r#"{"sections": [{"number": 2, "text": "x", "file": "/etc/passwd"}]}"#,
            r#"{"sections": [], "edits": []}"#,
            "# Current State\nnew",
        ] {
            assert!(updated_bodies(wrong, &ask).is_err(), "{wrong}");
        }
        let request = notes_request(&offline_backend(), &ask, "").body(true);
        let system = request["system"][0]["text"].as_str().unwrap();
        assert!(
            system.contains("2. Current State") && system.contains("2000 tokens") && !system.contains("{{"),
            "{system}"
        );
    }

    #[test]
    fn what_is_too_long_is_named() {
        let limits = NotesLimits { section: 20, total: 60 };
        let body = |words: usize| "word ".repeat(words);
        assert_eq!(length_warning(&[body(2), body(2)], &[1, 1], limits), None);
        assert!(
            length_warning(&[body(2), body(60)], &[1, 1], limits)
                .unwrap()
                .contains("in sections 2.")
        );
        let many = vec![body(10); 8];
        assert!(
            length_warning(&many, &[1; 8], limits)
                .unwrap()
                .contains("too long. Condense")
        );
    }
}
