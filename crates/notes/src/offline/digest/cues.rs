//! Words by which a digest sees that people correct, object or set a rule, and that the model takes something back.

use crate::offline::pasted::strip_output;
use language::corrections;
use memory::rules::ExtractionRules;

/// Returns whether a message of the user corrects the model. A prompt that a program wrote does not.
pub(super) fn is_correction(text: &str) -> bool {
    let rules = ExtractionRules::built_in();
    !rules.is_machine_written(text) && !goes_along(text) && corrections::is_correction(&rules.split_sentences(text))
}

/// Returns whether a message agrees first, or only asks: then it is a correction if the model admits a mistake.
fn goes_along(text: &str) -> bool {
    const AGREEMENT: [&str; 8] = ["yes", "yeah", "yep", "ok", "okay", "sure", "great", "good"];
    let start = text.trim_start().chars().take(80).collect::<String>().to_lowercase();
    let first = start
        .split(|sign: char| !sign.is_alphabetic())
        .next()
        .unwrap_or_default();
    let agrees = AGREEMENT.contains(&first) || ["好的", "可以", "对，"].iter().any(|word| start.starts_with(word));
    let asks = ["what if", "what about", "how about"]
        .iter()
        .any(|words| start.contains(words));
    agrees || asks && text.trim_end().ends_with(['?', '？']) || is_open_question(text)
}

/// Returns whether a text asks what could be done or how things are, and does not call anything wrong.
pub fn is_open_question(text: &str) -> bool {
    const STARTS: [&str; 24] = [
        "can",
        "could",
        "would",
        "will",
        "what",
        "how",
        "which",
        "who",
        "where",
        "when",
        "is",
        "are",
        "does",
        "do",
        "should",
        "shall",
        "any",
        "wondering",
        "isn't",
        "aren't",
        "doesn't",
        "couldn't",
        "wouldn't",
        "or",
    ];
    const OBJECTIONS: [&str; 16] = [
        "wrong",
        "still",
        "again",
        "why",
        "stop",
        "no",
        "didn't",
        "instead",
        "revert",
        "undo",
        "never",
        "already",
        "don't",
        "shouldn't",
        "asked",
        "told",
    ];
    let low = text.trim().to_lowercase().replace('\u{2019}', "'");
    let words = low
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '\''))
        .filter(|word| !word.is_empty())
        .collect::<Vec<_>>();
    let starts = words.first().is_some_and(|first| STARTS.contains(first));
    low.ends_with(['?', '？']) && starts && !words.iter().any(|word| OBJECTIONS.contains(word))
}

/// Words by which a text speaks of those who talk.
const PERSONS: [&str; 18] = [
    "i", "i'm", "i'd", "i've", "i'll", "me", "my", "you", "you're", "your", "we", "we're", "us", "our", "let's",
    "lets", "please", "claude",
];

/// Words of a remark from which on a text without persons in it is taken for a finding of a review.
const LEAST_FINDING: usize = 25;

/// Returns whether a text reads like the finding of a review: it is long and speaks of the code only.
fn is_finding(text: &str) -> bool {
    let low = text.to_lowercase().replace('\u{2019}', "'");
    let words = low.split(|sign: char| !(sign.is_alphanumeric() || sign == '\''));
    let words = words.filter(|word| !word.is_empty()).collect::<Vec<_>>();
    text.is_ascii() && words.len() >= LEAST_FINDING && !words.iter().any(|word| PERSONS.contains(word))
}

/// Returns whether a text objects to something: after an interruption, anything else is the next task or its continuation.
pub(super) fn objects(text: &str) -> bool {
    const OBJECTIONS: [&str; 18] = [
        "no",
        "not",
        "don't",
        "dont",
        "doesn't",
        "stop",
        "wait",
        "why",
        "wrong",
        "instead",
        "actually",
        "should",
        "shouldn't",
        "never",
        "rather",
        "only",
        "revert",
        "undo",
    ];
    let low = text.to_lowercase().replace('\u{2019}', "'");
    let mut words = low
        .split(|sign: char| !(sign.is_alphanumeric() || sign == '\''))
        .take(40);
    text.len() < 600 && words.any(|word| OBJECTIONS.contains(&word))
}

/// Words that say always, never, or what to avoid.
const GENERAL_CUES: [&str; 22] = [
    "always",
    "never",
    "don't",
    "do not",
    "prefer",
    "every time",
    "each time",
    "whenever you",
    "from now on",
    "in general",
    "make sure",
    "remember",
    "avoid",
    "only ever",
    "must",
    "stop ",
    "以后",
    "不要",
    "总是",
    "必须",
    "永远",
    "别",
];

/// Returns whether what the user wants holds beyond the task at hand: it says always, never, or what to avoid.
pub(super) fn is_general(rule: &str) -> bool {
    // What stands before the colon says when the rule applies.
    says_general(rule.split_once(": ").map_or(rule, |(_, rule)| rule))
}

/// Returns whether a text has one of the words of a general rule.
pub(super) fn says_general(text: &str) -> bool {
    let low = text.to_lowercase().replace('\u{2019}', "'");
    GENERAL_CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence of the model takes back what it said before.
pub(super) fn takes_back(sentence: &str) -> bool {
    const CUES: [&str; 20] = [
        "i was wrong",
        "i was conflating",
        "i conflated",
        "was correct all along",
        "turned out to be wrong",
        "i shouldn't have",
        "我搞错了",
        "i made a mistake",
        "my mistake",
        "my earlier",
        "my previous",
        "i misread",
        "i misunderstood",
        "i stand corrected",
        "correction:",
        "that was incorrect",
        "i need to correct",
        "i need to walk back",
        "correct myself",
        "我之前",
    ];
    let low = sentence.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a sentence of the model, right after words of the user, grants that they are right.
pub(super) fn grants_remark(sentence: &str) -> bool {
    const CUES: [&str; 14] = [
        "you're right",
        "you are right",
        "you're absolutely right",
        "you're correct",
        "you are correct",
        "good catch",
        "good point",
        "fair point",
        "my apologies",
        "i apologize",
        "my mistake",
        "你说得对",
        "你说的对",
        "抱歉",
    ];
    let low = sentence.to_lowercase().replace('\u{2019}', "'");
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether a message is a remark in the user's own words, and not a task or something pasted.
pub(super) fn is_own_remark(text: &str) -> bool {
    const TASKS: [&str; 12] = [
        "add",
        "change",
        "commit",
        "create",
        "fix",
        "implement",
        "install",
        "make",
        "push",
        "run",
        "update",
        "write",
    ];
    let first = text.split_whitespace().next().unwrap_or_default().to_lowercase();
    let is_long = text.chars().count() > 800;
    !is_long && !is_finding(text) && !TASKS.contains(&first.as_str()) && strip_output(text).len() == text.len()
}
