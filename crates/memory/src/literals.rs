//! Literals that every match of a pattern contains, as a prefilter.
//!
//! Most patterns match nowhere in most sentences. The required literals are computed from the pattern, so that one pass over
//! a sentence finds the patterns worth trying. Words of a sentence are separated by single spaces, so white space in a
//! pattern stands for one space.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Most literals of one part of a pattern; beyond that, shorter ones are as good.
const MAX_LITERALS: usize = 32;
/// Most letters of a character class that become literals.
const MAX_CLASS_LETTERS: usize = 8;
/// Shortest useful literal: a single letter is in nearly every sentence.
const MIN_LITERAL_LEN: usize = 2;

/// What is known about the matches of a part of a pattern.
enum RequiredLiterals {
    /// Every match is one of these texts.
    Exactly(Vec<String>),
    /// Every match contains one of these texts.
    One(Vec<String>),
    Nothing,
}

/// Returns lowercase texts of which every match contains at least one; `None` if there are none, or if the pattern is not
/// valid.
pub fn required_literals(pattern: &str) -> Option<Vec<String>> {
    let mut parser = ParserBuilder::new().unicode(!pattern.is_ascii()).utf8(false).build();
    let hir = parser.parse(pattern).ok()?;
    match literals_of(&hir) {
        RequiredLiterals::Exactly(texts) | RequiredLiterals::One(texts) => {
            is_selective(&texts).then(|| drop_superstrings(texts))
        }
        RequiredLiterals::Nothing => None,
    }
}

fn literals_of(hir: &Hir) -> RequiredLiterals {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => RequiredLiterals::Exactly(vec![String::new()]),
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0)
            .ok()
            .filter(|text| text.chars().all(has_one_form))
            .map_or(RequiredLiterals::Nothing, |text| {
                RequiredLiterals::Exactly(vec![text.to_ascii_lowercase()])
            }),
        HirKind::Class(class) => class_letters(class).map_or(RequiredLiterals::Nothing, RequiredLiterals::Exactly),
        HirKind::Repetition(repetition) => literals_of_repetition(repetition),
        HirKind::Capture(capture) => literals_of(&capture.sub),
        HirKind::Concat(parts) => literals_of_concat(parts),
        HirKind::Alternation(parts) => literals_of_alternation(parts),
    }
}

/// Returns whether a search that ignores the case of ASCII letters finds all forms of a letter.
fn has_one_form(letter: char) -> bool {
    letter.is_ascii() || !letter.is_lowercase() && !letter.is_uppercase()
}

/// Returns the letters of a small class; white space becomes a space. `None` if the class is large.
fn class_letters(class: &Class) -> Option<Vec<String>> {
    let ranges = match class {
        Class::Unicode(class) => {
            let ranges = class.ranges().iter();
            ranges.map(|range| (range.start(), range.end())).collect::<Vec<_>>()
        }
        Class::Bytes(class) => {
            let ranges = class.ranges().iter();
            ranges
                .map(|range| (char::from(range.start()), char::from(range.end())))
                .collect()
        }
    };
    let is_blank = |(first, last): &(char, char)| (*first..=*last).all(char::is_whitespace);
    if !ranges.is_empty() && ranges.iter().all(is_blank) {
        return Some(vec![" ".to_owned()]);
    }
    let all = ranges.iter().flat_map(|(first, last)| *first..=*last);
    let mut texts = Vec::new();
    for letter in all {
        if texts.len() == MAX_CLASS_LETTERS || !has_one_form(letter) {
            return None;
        }
        texts.push(letter.to_ascii_lowercase().to_string());
    }
    Some(texts)
}

fn literals_of_repetition(repetition: &Repetition) -> RequiredLiterals {
    let is_optional = repetition.min == 0;
    match literals_of(&repetition.sub) {
        RequiredLiterals::Exactly(mut texts) if repetition.max == Some(1) || texts == [" "] => {
            texts.extend(is_optional.then(String::new));
            RequiredLiterals::Exactly(texts)
        }
        RequiredLiterals::Exactly(texts) | RequiredLiterals::One(texts) if !is_optional => RequiredLiterals::One(texts),
        _ => RequiredLiterals::Nothing,
    }
}

/// Joins adjacent exact parts of a concatenation, and returns the rarest literals of all parts.
fn literals_of_concat(parts: &[Hir]) -> RequiredLiterals {
    let (mut run, mut best, mut is_exact) = (vec![String::new()], None, true);
    for part in parts {
        match literals_of(part) {
            RequiredLiterals::Exactly(texts) if run.len() * texts.len() <= MAX_LITERALS => {
                let longer = run
                    .iter()
                    .flat_map(|start| texts.iter().map(move |end| format!("{start}{end}")));
                run = longer.collect();
            }
            RequiredLiterals::Exactly(texts) => {
                replace_if_rarer(&mut best, std::mem::replace(&mut run, texts));
                is_exact = false;
            }
            RequiredLiterals::One(texts) => {
                replace_if_rarer(&mut best, std::mem::replace(&mut run, vec![String::new()]));
                replace_if_rarer(&mut best, texts);
                is_exact = false;
            }
            RequiredLiterals::Nothing => {
                replace_if_rarer(&mut best, std::mem::replace(&mut run, vec![String::new()]));
                is_exact = false;
            }
        }
    }
    if is_exact {
        return RequiredLiterals::Exactly(run);
    }
    replace_if_rarer(&mut best, run);
    best.map_or(RequiredLiterals::Nothing, RequiredLiterals::One)
}

/// Returns the literals of all alternatives; nothing if one of them has none.
fn literals_of_alternation(parts: &[Hir]) -> RequiredLiterals {
    let (mut all, mut is_exact) = (Vec::new(), true);
    for part in parts {
        match literals_of(part) {
            RequiredLiterals::Exactly(texts) => all.extend(texts),
            RequiredLiterals::One(texts) => {
                is_exact = false;
                all.extend(texts);
            }
            RequiredLiterals::Nothing => return RequiredLiterals::Nothing,
        }
    }
    match is_exact && all.len() <= MAX_LITERALS {
        true => RequiredLiterals::Exactly(all),
        false => RequiredLiterals::One(all),
    }
}

/// Replaces the best literals so far by rarer ones.
fn replace_if_rarer(best: &mut Option<Vec<String>>, texts: Vec<String>) {
    if is_selective(&texts)
        && best
            .as_ref()
            .is_none_or(|known| estimated_frequency(&texts) < estimated_frequency(known))
    {
        *best = Some(texts);
    }
}

fn is_selective(texts: &[String]) -> bool {
    texts.iter().all(|text| text.len() >= MIN_LITERAL_LEN)
}

/// Estimates how often one of the texts occurs: every further letter makes a text rarer, a space does not.
fn estimated_frequency(texts: &[String]) -> f64 {
    let letters = |text: &String| text.bytes().filter(|byte| *byte != b' ').count().min(12);
    texts.iter().map(|text| 0.3_f64.powi(letters(text) as i32)).sum()
}

/// Drops texts that contain another one of them.
fn drop_superstrings(mut texts: Vec<String>) -> Vec<String> {
    texts.sort_by_key(String::len);
    let mut kept = Vec::<String>::new();
    for text in texts {
        if !kept.iter().any(|known| text.contains(known.as_str())) {
            kept.push(text);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, expected: &[&str]) {
        let found = required_literals(pattern).unwrap_or_default();
        assert_eq!(found, expected, "{pattern}");
    }

    #[test]
    fn the_longest_texts_are_taken() {
        check(r"\bnever\b", &["never"]);
        check(r"\bwe\s+should\s+\w+", &["we should "]);
        check(r"^(please\s+)?don'?t\b", &["dont", "don't"]);
        check(
            r"\b(can|could)\s+(you|we)\s+not\b",
            &["can we not", "can you not", "could we not", "could you not"],
        );
        check(r"\w+.{3,80}\b(always|never)\b", &["never", "always"]);
        check("(不要|别)提交", &["别提交", "不要提交"]);
    }

    #[test]
    fn what_may_be_left_out_is_not_needed() {
        check(r"(always\s+)?run", &["run"]);
        check(r"(ab)*\w+", &[]);
        check(r"(ab)+\w+", &["ab"]);
        check(r"\b(always|\w+ly)\b", &["ly", "always"]);
        check(r"[a-z]+|never", &[]);
        check("(", &[]);
    }

    #[test]
    fn letters_with_other_forms_than_ascii_knows_are_no_key() {
        check("größe", &[]);
        check("größe immer", &[]);
        check("immer die größe", &[]);
        check(r"immer\s+\w+\s+größe", &["immer "]);
    }
}
