//! What a message of the user says, in short: a plan by its heading, else their own words without what they pasted.

use crate::offline::prose::whole_sentences;
use language::markdown::escape_markdown;
use language::shorten::to_one_line;
use memory::rules::ExtractionRules;

/// Sentences of a long message that are looked at.
const MOST_SENTENCES: usize = 12;

/// Returns the gist of a message in at most `most` characters. Text that is left out in between is marked.
pub fn message_gist(text: &str, most: usize) -> String {
    let rules = ExtractionRules::built_in();
    if rules.is_plan(text)
        && let Some(heading) = plan_heading(text)
    {
        let first = text.lines().next().unwrap_or_default();
        return to_one_line(&format!("{first} {heading}"), most);
    }
    let line = to_one_line(text, usize::MAX);
    if line.chars().count() <= most {
        return line;
    }
    let sentences = rules.split_sentences(text);
    let whole = letters_of(&line);
    let mut gist = String::new();
    let mut before = String::new();
    for sentence in sentences.iter().take(MOST_SENTENCES) {
        let room = most.saturating_sub(gist.chars().count() + 3);
        if sentence.text.chars().count() > room {
            break;
        }
        let letters = letters_of(&sentence.text);
        // Joined from lines with something else between them.
        if !whole.contains(&letters) {
            continue;
        }
        let follows = whole.contains(&format!("{before}{letters}"));
        if !gist.is_empty() {
            gist.push_str(if follows { " " } else { " … " });
        }
        gist.push_str(&sentence.text);
        before = letters;
    }
    match (gist.is_empty(), sentences.first()) {
        (false, _) => gist,
        (true, Some(first)) => whole_sentences(&first.text, most),
        // Pasted as a whole.
        (true, None) => to_one_line(&line, most.min(160)),
    }
}

/// Formats the gist of a message in quotation marks.
pub fn quote_message(text: &str, most: usize) -> String {
    format!("\"{}\"", escape_markdown(&message_gist(text, most)).replace('"', "'"))
}

/// Returns the heading of a plan without the word for it; `None` if the text has no heading.
pub fn plan_heading(plan: &str) -> Option<String> {
    let heading = plan.lines().map(str::trim).find(|line| line.starts_with('#'))?;
    let heading = heading.trim_start_matches(['#', ' ']);
    let bare = ["Plan:", "Implementation Plan:"];
    let bare = bare.iter().find_map(|start| heading.strip_prefix(start));
    let heading = to_one_line(bare.unwrap_or(heading).trim(), 160);
    (!heading.is_empty()).then_some(heading)
}

fn letters_of(text: &str) -> String {
    text.chars().filter(|sign| sign.is_alphanumeric()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gist_has_the_words_of_the_user_and_the_heading_of_a_plan() {
        assert_eq!(message_gist("add a test\nfor it", 100), "add a test for it");
        let log = "at parse (a.js:1:2)\nat read (b.js:3:4)\n".repeat(20);
        let pasted = format!("The page is empty after a reload.\n\n{log}\n\nWhat happened here?");
        assert_eq!(
            message_gist(&pasted, 200),
            "The page is empty after a reload. … What happened here?"
        );
        let plan = "Implement the following plan:\n\n# Plan: Show totals\n\n## Context\n\nThere are none.";
        assert_eq!(message_gist(plan, 100), "Implement the following plan: Show totals");
        assert_eq!(plan_heading("no heading"), None);
    }
}
