//! Sentences of the model: which explain something, and announcements as statements.

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
    let is_intent = || {
        let start = sentence.chars().take(10).collect::<String>().to_lowercase();
        ["let me", "i'll ", "i will", "now i", "now let"]
            .iter()
            .any(|known| start.starts_with(known))
    };
    let has_code = || {
        let mut code = sentence.matches('`').count() / 2;
        names::for_each_identifier(sentence, |_| code += 1);
        code > 0
    };
    let is_good = match sense {
        // A short sentence only says that there is a cause.
        SentenceKind::Cause => !is_intent() && (length >= 60 || has_code()),
        SentenceKind::Decision => !is_intent(),
        SentenceKind::System => !is_intent() && has_code(),
    };
    is_good.then_some(sense)
}

/// Turns an announcement into a statement: removes phrases such as "now let me" at its start.
pub fn strip_intent(sentence: &str) -> String {
    const STARTS: [&str; 22] = [
        "now let me ",
        "now i'll ",
        "now i will ",
        "now i need to ",
        "now, let me ",
        "let me now ",
        "let me also ",
        "let me ",
        "let's ",
        "i'll now ",
        "i'll also ",
        "i'll ",
        "i will ",
        "i need to ",
        "i'm going to ",
        "next, i'll ",
        "next, let me ",
        "first, let me ",
        "first, i'll ",
        "good, now ",
        "now ",
        "also ",
    ];
    let mut text = sentence.trim();
    for opening in [
        "Good. ",
        "Good, ",
        "Great. ",
        "Perfect. ",
        "Great! ",
        "Good! ",
        "Perfect! ",
        "OK, ",
        "Okay, ",
    ] {
        text = text.strip_prefix(opening).unwrap_or(text);
    }
    let low = text.to_lowercase().replace('\u{2019}', "'");
    // Lower case may have another length. Then the offsets do not match, and the sentence stays as it is.
    if low.len() == text.len()
        && let Some(start) = STARTS.iter().find(|start| low.starts_with(**start))
    {
        text = &text[start.len()..];
    }
    let mut signs = text.trim_end_matches([':', '：', '.']).chars();
    signs
        .next()
        .map(|first| first.to_uppercase().chain(signs).collect())
        .unwrap_or_default()
}

/// Returns the first sentence of an answer with at least 25 characters, or the first of all; `None` without prose. Headings
/// and items of lists count only if there is nothing else.
pub fn first_statement(text: &str) -> Option<&str> {
    let is_part = |sentence: &&str| {
        let start = sentence.as_ptr() as usize - text.as_ptr() as usize;
        let before = text[..start].rsplit('\n').next().unwrap_or_default();
        !before.contains(['#', '-', '*', '•', '>']) && !before.contains(|sign: char| sign.is_ascii_digit())
    };
    let all = split_prose(text);
    let plain = all.iter().copied().filter(is_part).collect::<Vec<_>>();
    let all = if plain.is_empty() { all } else { plain };
    all.iter()
        .find(|sentence| sentence.chars().count() >= 25 && !sentence.ends_with([':', '：']))
        .or(all.first())
        .copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announcements_become_statements() {
        assert_eq!(strip_intent("Now let me update the parser:"), "Update the parser");
        assert_eq!(strip_intent("Good. I'll run the tests."), "Run the tests");
        assert_eq!(strip_intent("The parser is wrong"), "The parser is wrong");
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
}
