//! What a message of the user says, in short: a plan by its heading, else their own words without what they pasted.

use crate::offline::compose::put_in_quotes;
use crate::offline::pasted::{strip_output, telling_line};
use crate::offline::prose::whole_sentences;
use language::markdown::escape_markdown;
use language::shorten::to_one_line;
use memory::rules::ExtractionRules;

/// Sentences of a long message that are looked at, from its start and from its end.
const MOST_SENTENCES: usize = 24;

/// A gist with fewer characters says nothing.
const SHORTEST_GIST: usize = 20;

/// Words of sentences in which people say what they want.
const WISHES: [&str; 26] = [
    "want",
    "prefer",
    "should",
    "consider",
    "instead",
    "please",
    "need",
    "must",
    "don't",
    "let's",
    "would like",
    "can you",
    "could you",
    "i think",
    "rather",
    "make sure",
    "in favor",
    "feels",
    "想",
    "希望",
    "应该",
    "请",
    "需要",
    "改成",
    "不要",
    "最好",
];

/// Returns the gist of a message in at most `most` characters. Text that is left out in between is marked.
pub fn message_gist(text: &str, most: usize) -> String {
    let rules = ExtractionRules::built_in();
    if rules.is_plan(text)
        && let Some(heading) = plan_heading(text)
    {
        let first = text.lines().next().unwrap_or_default();
        return to_one_line(&format!("{first} {heading}"), most);
    }
    let own = strip_output(text);
    if own.is_empty() {
        return to_one_line(&format!("(pasted) {}", telling_line(text)), most);
    }
    let line = to_one_line(&own, usize::MAX);
    if line.chars().count() <= most {
        return line;
    }
    let sentences = rules.split_sentences(&own);
    let sentences = sentences
        .iter()
        .map(|sentence| sentence.text.as_str())
        .collect::<Vec<_>>();
    match sentences.first() {
        Some(first) => join_telling(&sentences, &letters_of(&line), most).unwrap_or_else(|| {
            let is_short = first.chars().count() < SHORTEST_GIST;
            if is_short {
                to_one_line(&line, most)
            } else {
                whole_sentences(first, most)
            }
        }),
        // Pasted as a whole.
        None => to_one_line(&line, most.min(160)),
    }
}

/// Joins the sentences that tell most, in their order: the first, the last, and those that ask or wish for something. `None` if
/// none fits.
fn join_telling(sentences: &[&str], whole: &str, most: usize) -> Option<String> {
    let count = sentences.len();
    let is_near = |at: usize| at < MOST_SENTENCES / 2 || at + MOST_SENTENCES / 2 >= count;
    let rank = |at: usize| {
        let low = sentences[at].to_lowercase();
        let asks = low.ends_with(['?', '？']) || WISHES.iter().any(|word| low.contains(word));
        match (at, asks) {
            (0, _) => 0,
            (_, _) if at + 1 == count => 1,
            (_, true) => 2,
            (_, false) => 3,
        }
    };
    let mut order = (0..count)
        .filter(|at| is_near(*at))
        .map(|at| (rank(at), at))
        .collect::<Vec<_>>();
    order.sort_unstable();
    let mut room = most;
    let mut chosen = Vec::new();
    if sentences.first().is_some_and(|first| first.chars().count() + 3 > most) {
        return None;
    }
    for (_, at) in order {
        let length = sentences[at].chars().count() + 3;
        // Joined from lines with something else between them.
        if length <= room && whole.contains(&letters_of(sentences[at])) {
            room -= length;
            chosen.push(at);
        }
    }
    chosen.sort_unstable();
    let mut gist = String::new();
    let mut before = None;
    for at in chosen {
        let follows = before.is_some_and(|before: usize| {
            before + 1 == at
                && whole.contains(&format!(
                    "{}{}",
                    letters_of(sentences[before]),
                    letters_of(sentences[at])
                ))
        });
        if !gist.is_empty() {
            gist.push_str(if follows { " " } else { " … " });
        }
        gist.push_str(sentences[at]);
        before = Some(at);
    }
    (gist.chars().count() >= SHORTEST_GIST).then_some(gist)
}

/// Formats the gist of a message in quotation marks.
pub fn quote_message(text: &str, most: usize) -> String {
    put_in_quotes(&escape_markdown(&message_gist(text, most)))
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

    #[test]
    fn a_gist_keeps_the_wish_and_the_end_of_a_long_message() {
        let said = "This came up in the review. One of them wrote a long remark about it that goes on. It says that the loop \
                    is slow there and other things. I'd prefer a single pass. There was more of it. Can you look?";
        assert_eq!(
            message_gist(said, 90),
            "This came up in the review. … I'd prefer a single pass. … Can you look?"
        );
        assert_eq!(
            message_gist("0s\nRun make\nthe import failed\n5s\n", 90),
            "(pasted) the import failed"
        );
    }
}
