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
        let rule = first_paragraph(body);
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

    /// Returns the share of words that both have (Jaccard index).
    pub fn overlap(&self, other: &Gist) -> f64 {
        let both = self.stems.intersection(&other.stems).count() as f64;
        let any = self.stems.union(&other.stems).count() as f64;
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
        if is_opposite && overlap >= 0.6 {
            MemoryRelation::Opposite
        } else if has_other_value {
            MemoryRelation::ValueConflict
        } else if !is_opposite && overlap >= 0.85 && self.numbers == other.numbers {
            MemoryRelation::Same
        } else if overlap >= 0.6 {
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

fn first_paragraph(body: &str) -> &str {
    let body = body.trim();
    body.split("\n\n").next().unwrap_or(body)
}

fn first_sentence(text: &str) -> &str {
    text.split(['.', ';', '\n', '。', '；']).next().unwrap_or(text)
}

fn is_negative(text: &str) -> bool {
    let text = text.to_lowercase().replace('\u{2019}', "'");
    let mut words = text.split(|character: char| !character.is_alphanumeric() && character != '\'');
    words.any(|word| NEGATIONS.contains(&word)) || HAN_NEGATIONS.iter().any(|word| text.contains(word))
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
        let (thing, value) = verbs.iter().find_map(|verb| text.split_once(verb))?;
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
            relation("The user is a doctor", "The user is tired"),
            MemoryRelation::Unrelated
        );
        assert_eq!(
            relation("测试中不要模拟数据库", "测试中模拟数据库"),
            MemoryRelation::Opposite
        );
    }
}
