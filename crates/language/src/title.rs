//! Titles of tasks: a prompt as a short verb phrase.

use crate::client_text;
use crate::markdown::CodeFence;
use crate::shorten::cut_at_word_within;

/// Most characters of a title.
pub const MAX_TITLE: usize = 60;

/// Words that lead up to a task and say nothing about it.
const LEAD_WORDS: [&str; 46] = [
    "a", "again", "all", "also", "alright", "am", "and", "anyway", "be", "can", "could", "dear", "going", "good",
    "great", "hello", "help", "hey", "hi", "i", "i'd", "i'm", "just", "kindly", "let", "let's", "lets", "like", "me",
    "morning", "need", "now", "ok", "okay", "please", "pls", "so", "thanks", "then", "to", "us", "want", "we", "well",
    "would", "you",
];

/// Whole prompts that name no task.
const EMPTY_PROMPTS: [&str; 24] = [
    "again",
    "continue",
    "do it",
    "go",
    "go ahead",
    "go on",
    "good",
    "great",
    "hello",
    "hi",
    "keep going",
    "next",
    "no",
    "ok",
    "okay",
    "perfect",
    "please continue",
    "proceed",
    "resume",
    "test",
    "thanks",
    "thank you",
    "yes",
    "warmup",
];

/// Words that a title does not end with.
const WEAK_ENDS: [&str; 22] = [
    "a", "an", "and", "are", "as", "at", "by", "for", "from", "if", "in", "is", "of", "on", "or", "that", "the",
    "this", "to", "was", "with", "which",
];

/// Returns a prompt as a short phrase that starts with its verb: the first sentence that names a task, without greetings.
/// Returns `None` if the prompt names no task.
pub fn task_phrase(prompt: &str) -> Option<String> {
    let prompt = client_text::strip_context(prompt);
    let mut fence = CodeFence::default();
    let mut prose = prompt.lines().filter(|line| !fence.is_inside(line));
    prose.find_map(line_phrase)
}

fn line_phrase(line: &str) -> Option<String> {
    let line = line.trim().trim_start_matches(['#', '*', '-', '>', '•', ' ', '\t']);
    let is_prose = line.chars().filter(|sign| sign.is_alphabetic()).count() >= 4;
    let plain = line.to_lowercase();
    let plain = plain.trim_matches(|sign: char| !sign.is_alphanumeric());
    if !is_prose || line.starts_with(['<', '{', '|', '`']) || EMPTY_PROMPTS.contains(&plain) {
        return None;
    }
    let sentence = first_sentence(line);
    let words = sentence.split_whitespace().collect::<Vec<_>>();
    let is_lead = |word: &&&str| LEAD_WORDS.contains(&bare(word).as_str());
    let lead = words.iter().take_while(is_lead).count();
    // A phrase of lead words alone is kept as it is.
    let words = if lead + 1 < words.len() {
        &words[lead..]
    } else {
        &words[..]
    };
    let words = words.iter().map(|word| short_word(word)).collect::<Vec<_>>();
    let phrase = words.join(" ").replace(['`', '"', '*'], "");
    let mut phrase = cut_at_word_within(&phrase, MAX_TITLE);
    while let Some((head, last)) = phrase.rsplit_once(' ') {
        let is_weak = WEAK_ENDS.contains(&bare(last).as_str());
        match is_weak && head.contains(' ') {
            true if last.ends_with('…') => phrase = format!("{head}…"),
            true => phrase = head.to_owned(),
            false => break,
        }
    }
    let phrase = phrase.trim_matches([' ', ',', ';', ':', '.']);
    (phrase.chars().count() >= 4).then(|| capitalize(phrase))
}

/// Returns a word in lower case without the signs around it.
fn bare(word: &str) -> String {
    let word = word.trim_matches(|sign: char| !sign.is_alphanumeric() && sign != '\'');
    word.to_lowercase().replace('’', "'")
}

/// Returns the first sentence of a line; a short greeting counts as a part of the next one.
fn first_sentence(line: &str) -> &str {
    const MIN_SENTENCE: usize = 12;
    let ends = line
        .char_indices()
        .filter(|(_, sign)| matches!(sign, '.' | '!' | '?' | '。' | '！' | '？'));
    for (at, sign) in ends {
        let rest = &line[at + sign.len_utf8()..];
        let is_end = sign.len_utf8() > 1 || rest.starts_with(char::is_whitespace);
        if is_end && at >= MIN_SENTENCE {
            return &line[..at];
        }
    }
    line
}

/// Returns a word, of a long path or address only its last part.
fn short_word(word: &str) -> &str {
    const LONG: usize = 24;
    if word.len() <= LONG || !word.contains('/') {
        return word;
    }
    let trimmed = word.trim_end_matches(['/', ',', ';', ':', '.', ')', '`']);
    trimmed
        .rsplit('/')
        .next()
        .filter(|part| !part.is_empty())
        .unwrap_or(word)
}

fn capitalize(text: &str) -> String {
    let mut signs = text.chars();
    let first_word = text.split(' ').next().unwrap_or_default();
    // File names and identifiers keep their case.
    let is_word = first_word
        .chars()
        .all(|sign| sign.is_alphabetic() && !sign.is_uppercase());
    match signs.next() {
        Some(first) if is_word => first.to_uppercase().chain(signs).collect(),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_become_phrases_that_start_with_their_verb() {
        let check = |prompt: &str, expected: &str| {
            assert_eq!(task_phrase(prompt).as_deref().unwrap_or("-"), expected, "{prompt:?}");
        };
        check("can you please fix the login test?", "Fix the login test?");
        check(
            "I want you to implement the paging of results. Use cursors.",
            "Implement the paging of results",
        );
        check("Hi! Let's refactor the parser", "Refactor the parser");
        check("# Tidy up\n\nhi", "Tidy up");
        check("continue", "-");
        check("Continue.", "-");
        check("yes", "-");
        check("```\nerror\n```", "-");
        check("please", "Please");
        check(
            "look at /home/someone/projects/thing/src/very/long/path.rs and explain it",
            "Look at path.rs and explain it",
        );
        check("<system-reminder>x</system-reminder>\nadd a flag", "Add a flag");
        check(
            "parse_time is wrong for leap seconds",
            "parse_time is wrong for leap seconds",
        );
        check("修复登录测试中的错误。然后提交", "修复登录测试中的错误");
        let long =
            "rewrite the scheduler so that it drains the queue before it stops and reports what was left in the end";
        check(long, "Rewrite the scheduler so that it drains the queue before…");
    }
}
