//! Sentences of the model: which explain something, which only announce what comes next, and what an answer says.

use crate::offline::digest::SentenceKind;
use crate::offline::{build_matcher, names};
use aho_corasick::AhoCorasick;
use language::sentences::split_prose;
use std::sync::LazyLock;

/// Phrases by the kind of sentence that they mark. Earlier groups take precedence.
const CUES: [(&[&str], Option<SentenceKind>); 3] = [
    (
        &[
            "root cause",
            "the issue is",
            "the problem is",
            "the bug is",
            "the reason",
            "because ",
            "turns out",
            "was caused",
            "the fix",
            "this happens",
            "this means",
            "caused by",
            "the error is",
            "i see the issue",
            "found the issue",
            "was missing",
            "the culprit",
            "the cause",
            "原因",
            "问题是",
            "因为",
            "导致",
            "根本",
            "修复",
        ],
        Some(SentenceKind::Cause),
    ),
    (
        &[
            "i'll go with",
            "decided",
            "the approach",
            "we agreed",
            "better to ",
            "instead of",
            "rather than",
            "trade-off",
            "tradeoff",
            "i chose",
            "simplest",
            "决定",
            "方案",
            "采用",
        ],
        Some(SentenceKind::Decision),
    ),
    (
        &[
            " is responsible",
            " handles ",
            " stores ",
            " contains ",
            " returns ",
            " is called ",
            " calls ",
            " uses ",
            " is defined",
            " lives in",
            " is used ",
            " writes ",
            " reads ",
            " implements ",
            " is stored",
            " are stored",
            " depends on",
            " is the ",
            " creates ",
            "负责",
            "用于",
            "实现",
        ],
        Some(SentenceKind::System),
    ),
];

static CUE_FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| build_matcher(CUES.iter().flat_map(|(cues, _)| cues.iter().copied())));

/// Returns what a sentence of the model explains; `None` if it explains nothing.
pub fn classify_sentence(sentence: &str) -> Option<SentenceKind> {
    let length = sentence.chars().count();
    if !(20..=400).contains(&length) || sentence.ends_with(['?', '？', ':', '：']) {
        return None;
    }
    let mut best = CUES.len();
    for found in CUE_FINDER.as_ref()?.find_overlapping_iter(sentence) {
        let mut cue = found.pattern().as_usize();
        let group = CUES.iter().position(|(cues, _)| {
            let is_here = cue < cues.len();
            cue = cue.wrapping_sub(cues.len());
            is_here
        });
        best = best.min(group.unwrap_or(best));
    }
    let sense = CUES.get(best)?.1?;
    if is_announcement(sentence) || is_hypothesis(sentence) || addresses_user(sentence) {
        return None;
    }
    let has_code = || {
        let mut code = sentence.matches('`').count() / 2;
        names::for_each_identifier(sentence, |_| code += 1);
        code > 0
    };
    let is_good = match sense {
        // A short sentence only says that there is a cause.
        SentenceKind::Cause => length >= 60 || has_code(),
        SentenceKind::Decision => true,
        SentenceKind::System => has_code(),
    };
    is_good.then_some(sense)
}

/// Starts of sentences that say what the model is about to do, or asks others to do.
const ANNOUNCEMENTS: [&str; 44] = [
    "let me",
    "let's",
    "i'll ",
    "i will",
    "i need to",
    "i want to",
    "i'm going",
    "i am going",
    "i should",
    "i still",
    "i can ",
    "i'd ",
    "i see",
    "now i",
    "now let",
    "now the",
    "now ",
    "next",
    "first",
    "then ",
    "also ",
    "but ",
    "and ",
    "so ",
    "ok",
    "good",
    "great",
    "perfect",
    "try ",
    "check ",
    "read ",
    "fix ",
    "run ",
    "look",
    "want ",
    "wait",
    "让我",
    "我来",
    "我先",
    "我将",
    "现在",
    "接下来",
    "首先",
    "然后",
];

/// Verbs of progress with which a sentence without a subject starts.
const PROGRESS: [&str; 30] = [
    "adding",
    "applying",
    "building",
    "checking",
    "continuing",
    "creating",
    "deleting",
    "editing",
    "exploring",
    "finding",
    "fixing",
    "folding",
    "implementing",
    "investigating",
    "looking",
    "moving",
    "proceeding",
    "reading",
    "redoing",
    "removing",
    "replacing",
    "reverting",
    "rewriting",
    "searching",
    "starting",
    "testing",
    "trying",
    "updating",
    "verifying",
    "writing",
];

/// Returns whether a sentence announces what is done next instead of saying what is.
pub fn is_announcement(sentence: &str) -> bool {
    let start = sentence.trim_start_matches(['*', '"', '-', ' ']);
    let start = start
        .chars()
        .take(24)
        .collect::<String>()
        .to_lowercase()
        .replace('\u{2019}', "'");
    let first = start.split_whitespace().next().unwrap_or_default();
    ANNOUNCEMENTS.iter().any(|known| start.starts_with(known)) || PROGRESS.contains(&first)
}

/// Returns whether a sentence only says what may be, or what would have to be done.
fn is_hypothesis(sentence: &str) -> bool {
    const CUES: [&str; 26] = [
        " might ",
        " may ",
        "maybe",
        "perhaps",
        "possibly",
        "probably",
        "likely",
        " could ",
        "would be",
        "would need",
        "would have to",
        "should be",
        "if we ",
        "if you ",
        "i think",
        "i suspect",
        "i believe",
        "seems ",
        "appears to",
        "assuming",
        "可能",
        "也许",
        "或许",
        "大概",
        "应该是",
        "如果",
    ];
    let low = sentence.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence speaks to the user rather than about the work.
fn addresses_user(sentence: &str) -> bool {
    let low = sentence.to_lowercase();
    let mut words = low.split(|sign: char| !sign.is_alphabetic());
    words.any(|word| matches!(word, "you" | "your" | "yours")) || low.contains(['您', '你'])
}

/// Returns whether a sentence starts with a word that points to the sentence before it.
pub fn points_back(sentence: &str) -> bool {
    let start = sentence.trim_start_matches(['*', ' ']);
    let first = start
        .split(|sign: char| !sign.is_alphanumeric())
        .next()
        .unwrap_or_default();
    let is_this = matches!(first, "It" | "Its" | "This" | "That" | "They" | "These" | "Those");
    is_this || ["这", "那", "它", "其"].iter().any(|word| start.starts_with(word))
}

/// Returns the first sentence of an answer with at least 25 characters, or the first of all; `None` without prose. Headings
/// and items of lists count only if there is nothing else.
pub fn first_statement(text: &str) -> Option<&str> {
    let is_part = |sentence: &str| {
        let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
        let before = text[..start].rsplit('\n').next().unwrap_or_default();
        before.contains(['#', '-', '*', '•', '>']) || before.contains(|sign: char| sign.is_ascii_digit())
    };
    let all = split_prose(text);
    let is_statement = |sentence: &&str| {
        sentence.chars().count() >= 25 && !sentence.ends_with([':', '：', '?', '？']) && !is_announcement(sentence)
    };
    let statements = || all.iter().copied().filter(is_statement);
    let plain = || statements().filter(|sentence| !is_part(sentence));
    plain()
        .find(|sentence| says_result(sentence) && !points_back(sentence))
        .or_else(|| plain().next())
        .or_else(|| statements().next())
        .or(all.first().copied())
}

/// Returns whether a sentence says what was done or found: it has code, a number or a verb of something done.
fn says_result(sentence: &str) -> bool {
    const DONE: [&str; 16] = [
        "added",
        "fixed",
        "removed",
        "changed",
        "updated",
        "created",
        "committed",
        "pushed",
        "passed",
        "implemented",
        "renamed",
        "moved",
        "已",
        "完成",
        "修复",
        "添加",
    ];
    let low = sentence.to_lowercase();
    low.contains('`') || low.contains(|sign: char| sign.is_ascii_digit()) || DONE.iter().any(|verb| low.contains(verb))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_statement_of_an_answer_says_what_was_done() {
        assert_eq!(
            first_statement("Done. The parser reads both forms now."),
            Some("The parser reads both forms now.")
        );
        assert_eq!(
            first_statement(
                "## Result of the whole work\n\n- one item of a longer list\n\nBoth forms are read by now."
            ),
            Some("Both forms are read by now.")
        );
    }

    #[test]
    fn announcements_guesses_and_advice_explain_nothing() {
        for sentence in [
            "Let me look at `parse_all`, because it is called twice.",
            "Continuing with `parse_all` because it is called twice.",
            "The loop might be slow because `parse_all` is called twice.",
            "You can call `parse_all` because it handles both forms.",
            "让我看看 `parse_all`，因为它被调用了两次，而且每次都很慢。",
        ] {
            assert_eq!(classify_sentence(sentence), None, "{sentence}");
        }
        let cause = "The loop is slow because `parse_all` is called twice.";
        assert_eq!(classify_sentence(cause), Some(SentenceKind::Cause));
    }
}
