//! Whether a message corrects the assistant: one detector, whose patterns are data (`corrections.txt`).
//!
//! Session notes ask about a whole message ([`is_correction`]). Rules of memories take the groups that are about how the
//! assistant works in general ([`group_pattern`]), because only those hold beyond the task.

use crate::sentences::Sentence;
use crate::traditional::simplify;
use regex::bytes::{Regex, RegexBuilder};
use std::sync::LazyLock;

const PATTERNS: &str = include_str!("corrections.txt");

/// Groups that count in any sentence because they are about how the assistant works in general.
const GENERAL_GROUPS: [&str; 5] = ["you-keep", "said-before", "overdoing", "too-much", "你总"];

/// Sentences that are looked at: what comes later in a message is mostly the next task, or pasted.
const MAX_SENTENCES: usize = 6;

/// The patterns of some groups, compiled: those in ASCII match bytes, which compiles much faster.
struct PatternGroup {
    ascii: Option<Regex>,
    unicode: Option<Regex>,
}

impl PatternGroup {
    fn new(groups: &[&str]) -> PatternGroup {
        let compile = |is_ascii: bool| {
            let patterns = patterns(groups).filter(|pattern| pattern.is_ascii() == is_ascii);
            let joined = patterns.collect::<Vec<_>>().join("|");
            let regex = RegexBuilder::new(&joined)
                .case_insensitive(true)
                .unicode(!is_ascii)
                .build();
            regex.ok().filter(|_| !joined.is_empty())
        };
        PatternGroup {
            ascii: compile(true),
            unicode: compile(false),
        }
    }

    fn is_match(&self, text: &str) -> bool {
        let is_match =
            |regex: &Option<Regex>, text: &str| regex.as_ref().is_some_and(|regex| regex.is_match(text.as_bytes()));
        is_match(&self.ascii, text) || !text.is_ascii() && is_match(&self.unicode, &simplify(text))
    }
}

/// The patterns of some groups, in the order of the file.
fn patterns(groups: &[&str]) -> impl Iterator<Item = &'static str> {
    let lines = PATTERNS.lines().filter(|line| !line.starts_with('#'));
    let lines = lines.filter_map(|line| line.split_once(' '));
    let chosen = lines.filter(|(group, _)| groups.contains(group));
    chosen.map(|(_, pattern)| pattern.trim())
}

/// Returns one pattern for a group of general corrections; `None` if there is no such group.
pub fn group_pattern(group: &str) -> Option<String> {
    let is_known = GENERAL_GROUPS.contains(&group);
    is_known.then(|| patterns(&[group]).collect::<Vec<_>>().join("|"))
}

/// Returns whether a message corrects what the assistant did, said or proposed.
pub fn is_correction(sentences: &[Sentence]) -> bool {
    static FIRST: LazyLock<PatternGroup> = LazyLock::new(|| PatternGroup::new(&["first"]));
    static EXCEPT: LazyLock<PatternGroup> = LazyLock::new(|| PatternGroup::new(&["except"]));
    static OPENING: LazyLock<PatternGroup> = LazyLock::new(|| PatternGroup::new(&["opening"]));
    static ANY: LazyLock<PatternGroup> = LazyLock::new(|| PatternGroup::new(&["any"]));
    static GENERAL: LazyLock<PatternGroup> = LazyLock::new(|| PatternGroup::new(&GENERAL_GROUPS));
    let is_first = |text: &str| FIRST.is_match(text) && !EXCEPT.is_match(text);
    let corrects = |(at, sentence): (usize, &Sentence)| {
        let text = sentence.text.as_str();
        at == 0 && is_first(text)
            || at < 2 && !sentence.is_question && OPENING.is_match(text)
            || ANY.is_match(text)
            || !sentence.is_question && GENERAL.is_match(text)
    };
    sentences.iter().take(MAX_SENTENCES).enumerate().any(corrects)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sentences::{TextMarkers, split_user_text};

    #[track_caller]
    fn check(texts: &[&str], expected: bool) {
        for text in texts {
            let sentences = split_user_text(text, &TextMarkers::default());
            assert_eq!(is_correction(&sentences), expected, "{text}");
        }
    }

    #[test]
    fn every_pattern_compiles() {
        for line in PATTERNS
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            let (group, _) = line.split_once(' ').expect(line);
            let is_known = ["first", "except", "opening", "any"].contains(&group) || GENERAL_GROUPS.contains(&group);
            assert!(is_known, "{line}");
        }
        for group in [
            "first",
            "except",
            "opening",
            "any",
            "you-keep",
            "said-before",
            "overdoing",
            "too-much",
            "你总",
        ] {
            let compiled = PatternGroup::new(&[group]);
            assert_eq!(
                compiled.ascii.is_some(),
                patterns(&[group]).any(str::is_ascii),
                "{group}"
            );
            let has_other = patterns(&[group]).any(|pattern| !pattern.is_ascii());
            assert_eq!(compiled.unicode.is_some(), has_other, "{group}");
        }
    }

    #[test]
    fn corrections_are_found() {
        check(
            &[
                "no, the other file",
                "No I think that is not the way to go",
                "please don't touch the tests",
                "that should be a list rather than a map",
                "why did you remove the check?",
                "still failing e2e",
                "That's too verbose.",
                "You keep adding comments.",
                "can we use `checkpointID` instead of `cpID` here?",
                "it should not be in the header but below",
                "yes, but we don't need to commit",
                "I meant the comment on the other one",
                "不对，应该用整数",
                "这个效果不太好。换一个",
                "不要下邊的顯示了",
            ],
            true,
        );
    }

    #[test]
    fn requests_and_agreement_are_not_corrections() {
        check(
            &[
                "add a flag for that",
                "how does it work?",
                "ok",
                "no, that's fine",
                "No problem, go on",
                "don't forget to push",
                "the review should be updated with this and committed",
                "Create a plan. Do not change the code just yet.",
                "wait for the build, then push",
                "hmm, which one is faster?",
                "how am I meant to get a code?",
                "look:\n```\nThis is wrong\n```",
                "请添加一个测试",
                "哪些功能是在网页实现的而不是命令行？",
            ],
            false,
        );
    }
}
