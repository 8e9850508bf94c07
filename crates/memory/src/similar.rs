//! Compares memories: whether two state the same, the opposite, or different values of one thing. Pure.

use crate::kinds::MemoryKind;
use crate::topic::Topic;
use language::words::{for_each_word, stem, text_stems};
use std::collections::BTreeSet;

/// Words that negate a rule.
const NEGATIONS: [&str; 12] = [
    "not",
    "never",
    "no",
    "dont",
    "don't",
    "avoid",
    "stop",
    "without",
    "doesnt",
    "doesn't",
    "cannot",
    "shouldn't",
];

/// Words that negate a rule in Chinese, which has no spaces between words.
const HAN_NEGATIONS: [&str; 5] = ["不要", "别", "禁止", "不用", "避免"];

/// Stems that make a sentence a rule, negated or not.
const RULE_WORDS: [&str; 14] = [
    "never", "alway", "avoid", "stop", "prefer", "use", "without", "pleas", "must", "remember", "make", "keep", "want",
    "ensur",
];

/// Nouns of things that have one value at a time.
const SLOTS: [&str; 23] = [
    "deadline",
    "date",
    "owner",
    "branch",
    "version",
    "port",
    "url",
    "address",
    "limit",
    "host",
    "database",
    "registry",
    "channel",
    "contact",
    "lead",
    "day",
    "freeze",
    "editor",
    "shell",
    "timezone",
    "indentation",
    "formatter",
    "budget",
];

/// Share of words from which memories are related.
pub const MIN_OVERLAP: f64 = 0.6;

/// The content of a memory in a form that can be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Gist {
    stems: BTreeSet<String>,
    /// Words with digits: memories that differ in one do not state the same.
    numbers: BTreeSet<String>,
    /// Whether it is a prohibition.
    is_negative: bool,
    /// Things and their values.
    slots: Vec<(BTreeSet<String>, BTreeSet<String>)>,
}

/// The relation of two memories.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MemoryRelation {
    /// They state the same.
    Same,
    /// They may state the same; with the share of common words.
    Similar(f64),
    /// They state the opposite.
    Opposite,
    /// They state different values of one thing.
    ValueConflict,
    Unrelated,
}

impl Gist {
    pub fn from_text(title: &str, hook: &str, body: &str) -> Gist {
        let (rule, hook) = (first_paragraph(body), strip_lead_in(hook));
        let all = format!("{title}\n{hook}\n{rule}");
        let mut numbers = BTreeSet::new();
        for_each_word(&all, |word| {
            if word.bytes().any(|byte| byte.is_ascii_digit()) {
                numbers.insert(word.to_owned());
            }
        });
        let stems = text_stems(&all)
            .into_iter()
            .filter(|stem| !RULE_WORDS.contains(&stem.as_str()))
            .collect();
        let is_negative = is_negative(title) || is_negative(first_sentence(rule));
        let slots = [title, hook, first_sentence(rule)]
            .into_iter()
            .filter_map(parse_slot)
            .collect();
        Gist {
            stems,
            numbers,
            is_negative,
            slots,
        }
    }

    pub fn from_topic(topic: &Topic) -> Gist {
        Gist::from_text(&topic.name(), &topic.description(), topic.body())
    }

    /// Iterates over its words as stems, each once.
    pub fn stems(&self) -> impl Iterator<Item = &str> {
        self.stems.iter().map(String::as_str)
    }

    /// Iterates over the things that it gives a value, in a form that can be compared.
    pub fn things(&self) -> impl Iterator<Item = String> {
        let join = |thing: &BTreeSet<String>| thing.iter().map(String::as_str).collect::<Vec<_>>().join(" ");
        self.slots.iter().map(move |(thing, _)| join(thing))
    }

    /// Returns the share of words that both have (Jaccard index).
    pub fn overlap(&self, other: &Gist) -> f64 {
        let both = self.stems.intersection(&other.stems).count() as f64;
        let any = (self.stems.len() + other.stems.len()) as f64 - both;
        if any == 0.0 { 0.0 } else { both / any }
    }

    /// Returns the relation to another memory of the same type.
    pub fn relation(&self, other: &Gist) -> MemoryRelation {
        let overlap = self.overlap(other);
        let is_opposite = self.is_negative != other.is_negative;
        let has_other_value = self.slots.iter().any(|(thing, value)| {
            let values = other.slots.iter().filter(|(other_thing, _)| other_thing == thing);
            values
                .into_iter()
                .any(|(_, other_value)| value.is_disjoint(other_value))
        });
        if is_opposite && overlap >= MIN_OVERLAP {
            MemoryRelation::Opposite
        } else if has_other_value {
            MemoryRelation::ValueConflict
        } else if !is_opposite && overlap >= 0.85 && self.numbers == other.numbers {
            MemoryRelation::Same
        } else if overlap >= MIN_OVERLAP {
            MemoryRelation::Similar(overlap)
        } else {
            MemoryRelation::Unrelated
        }
    }
}

/// Returns whether memories of two types may be compared: the types are the same, or one memory is untyped.
pub fn is_comparable(one: Option<MemoryKind>, other: Option<MemoryKind>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Most words of a lead-in that says when a memory applies.
const MAX_LEAD_IN_WORDS: usize = 9;

/// Returns a hook without the words before its colon: they name the occasion, which many memories share.
fn strip_lead_in(hook: &str) -> &str {
    match hook.split_once(": ").or_else(|| hook.split_once('：')) {
        Some((lead, rest)) if lead.split_whitespace().count() <= MAX_LEAD_IN_WORDS => rest,
        _ => hook,
    }
}

fn first_paragraph(body: &str) -> &str {
    let body = body.trim();
    body.split("\n\n").next().unwrap_or(body)
}

fn first_sentence(text: &str) -> &str {
    text.split(['.', ';', '\n', '。', '；']).next().unwrap_or(text)
}

/// Returns whether a text negates something.
pub fn is_negative(text: &str) -> bool {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    let mut words = text.split(|character: char| !character.is_alphanumeric() && character != '\'');
    words.any(|word| NEGATIONS.contains(&word)) || HAN_NEGATIONS.iter().any(|word| text.contains(word))
}

/// Nouns of manners of which one is used: `use British spelling` gives spelling the value British.
const MANNERS: [&str; 5] = ["spelling", "english", "quotes", "indentation", "tense"];

/// Words before such a noun that say how good it is, not which.
const QUALITIES: [&str; 8] = [
    "plain",
    "simple",
    "good",
    "proper",
    "correct",
    "clear",
    "consistent",
    "wrong",
];

/// Returns the manner that a sentence asks for, and which of its kind.
fn parse_manner(text: &str) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let mut words = Vec::new();
    for_each_word(text, |word| words.push(word.to_owned()));
    let at = words.iter().position(|word| MANNERS.contains(&word.as_str()))?;
    let value = words.get(at.checked_sub(1)?)?;
    let is_value = !language::words::is_stop_word(value)
        && !QUALITIES.contains(&value.as_str())
        && !RULE_WORDS.contains(&stem(value).as_ref());
    // Spelling and English are one thing: "British English" and "American spelling" exclude each other.
    let thing = if words[at] == "english" {
        "spelling"
    } else {
        words[at].as_str()
    };
    is_value.then(|| ([stem(thing).into_owned()].into(), [stem(value).into_owned()].into()))
}

/// `use X for Y` gives Y the value X; `the deadline is X` gives the deadline one.
fn parse_slot(sentence: &str) -> Option<(BTreeSet<String>, BTreeSet<String>)> {
    let text = sentence.trim().to_lowercase();
    let set = |text: &str| text_stems(text).into_iter().collect::<BTreeSet<_>>();
    let after_use = ["use ", "prefer ", "always use ", "please use "]
        .iter()
        .find_map(|verb| text.strip_prefix(verb));
    let (thing, value) = if let Some((value, thing)) = after_use.and_then(|rest| rest.split_once(" for ")) {
        (set(thing), set(value))
    } else {
        let verbs = [" is ", " are ", " moved to ", " lives in ", " changed to "];
        let Some((thing, value)) = verbs.iter().find_map(|verb| text.split_once(verb)) else {
            return parse_manner(&text);
        };
        let last = thing.split_whitespace().next_back()?;
        let is_slot = SLOTS.iter().any(|slot| stem(slot) == stem(last));
        if !is_slot || thing.split_whitespace().count() > 6 {
            return None;
        }
        (set(thing), set(value))
    };
    (!thing.is_empty() && !value.is_empty()).then_some((thing, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn relation(one: &str, other: &str) -> MemoryRelation {
        Gist::from_text(one, "", "").relation(&Gist::from_text(other, "", ""))
    }

    #[test]
    fn the_same_the_opposite_and_the_rest() {
        assert_eq!(
            relation("Run the linter before committing", "run linter before commits"),
            MemoryRelation::Same
        );
        assert_eq!(
            relation("Mock the database in tests", "Never mock the database in tests"),
            MemoryRelation::Opposite
        );
        assert_eq!(relation("Retry 3 times", "Retry 5 times"), MemoryRelation::Unrelated);
        assert!(matches!(
            relation(
                "Retry failed uploads to the bucket 3 times",
                "Retry failed uploads to the bucket 5 times"
            ),
            MemoryRelation::Similar(_)
        ));
        assert_eq!(
            relation("Use pnpm for packages", "Use yarn for packages"),
            MemoryRelation::ValueConflict
        );
        assert_eq!(
            relation("The release branch is main", "The release branch is stable"),
            MemoryRelation::ValueConflict
        );
        assert_eq!(
            relation("Write docs in British English", "Use American spelling in the docs"),
            MemoryRelation::ValueConflict
        );
        assert_eq!(
            relation("The user is a doctor", "The user is tired"),
            MemoryRelation::Unrelated
        );
        assert_eq!(
            relation("测试中不要模拟数据库", "测试中模拟数据库"),
            MemoryRelation::Opposite
        );
    }
}
