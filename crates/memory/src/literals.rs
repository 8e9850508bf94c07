//! The letters that a pattern cannot do without.
//!
//! Most patterns match nowhere in most sentences. What a match must hold is worked out from the pattern itself, so that
//! one pass over a sentence tells which patterns are worth trying. Sentences have single blanks: white space in a pattern
//! stands for one.

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};

/// Most texts that are kept for one part: beyond it, a shorter text serves as well.
const MOST: usize = 32;
/// Most letters of a class that are spelled out.
const FEW: usize = 8;
/// A text of one letter is in nearly every sentence.
const SHORTEST: usize = 2;

/// What is known of the matches of a part of a pattern.
enum Needs {
    /// Each is one of these texts.
    Exactly(Vec<String>),
    /// Each holds one of these texts.
    One(Vec<String>),
    /// Nothing.
    Nothing,
}

/// Texts, small, of which at least one stands in whatever the pattern matches; `None` if there are none, or if the
/// pattern cannot be read.
pub fn needed(pattern: &str) -> Option<Vec<String>> {
    let mut parser = ParserBuilder::new().unicode(!pattern.is_ascii()).utf8(false).build();
    let hir = parser.parse(pattern).ok()?;
    match of(&hir) {
        Needs::Exactly(texts) | Needs::One(texts) => is_telling(&texts).then(|| shortest(texts)),
        Needs::Nothing => None,
    }
}

fn of(hir: &Hir) -> Needs {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) => Needs::Exactly(vec![String::new()]),
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0)
            .ok()
            .filter(|text| text.chars().all(has_one_form))
            .map_or(Needs::Nothing, |text| Needs::Exactly(vec![text.to_ascii_lowercase()])),
        HirKind::Class(class) => letters(class).map_or(Needs::Nothing, Needs::Exactly),
        HirKind::Repetition(repetition) => repeated(repetition),
        HirKind::Capture(capture) => of(&capture.sub),
        HirKind::Concat(parts) => joined(parts),
        HirKind::Alternation(parts) => either(parts),
    }
}

/// Whether a letter is looked for in all its forms: case is ignored for ASCII only.
fn has_one_form(letter: char) -> bool {
    letter.is_ascii() || !letter.is_lowercase() && !letter.is_uppercase()
}

/// The letters of a small class, each a text; white space is a blank.
fn letters(class: &Class) -> Option<Vec<String>> {
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
        if texts.len() == FEW || !has_one_form(letter) {
            return None;
        }
        texts.push(letter.to_ascii_lowercase().to_string());
    }
    Some(texts)
}

fn repeated(repetition: &Repetition) -> Needs {
    let is_optional = repetition.min == 0;
    match of(&repetition.sub) {
        Needs::Exactly(mut texts) if repetition.max == Some(1) || texts == [" "] => {
            texts.extend(is_optional.then(String::new));
            Needs::Exactly(texts)
        }
        Needs::Exactly(texts) | Needs::One(texts) if !is_optional => Needs::One(texts),
        _ => Needs::Nothing,
    }
}

/// Parts after each other: neighbours that are known are put together, and the best of all that is needed is taken.
fn joined(parts: &[Hir]) -> Needs {
    let (mut run, mut best, mut is_exact) = (vec![String::new()], None, true);
    for part in parts {
        match of(part) {
            Needs::Exactly(texts) if run.len() * texts.len() <= MOST => {
                let longer = run
                    .iter()
                    .flat_map(|start| texts.iter().map(move |end| format!("{start}{end}")));
                run = longer.collect();
            }
            Needs::Exactly(texts) => {
                offer(&mut best, std::mem::replace(&mut run, texts));
                is_exact = false;
            }
            Needs::One(texts) => {
                offer(&mut best, std::mem::replace(&mut run, vec![String::new()]));
                offer(&mut best, texts);
                is_exact = false;
            }
            Needs::Nothing => {
                offer(&mut best, std::mem::replace(&mut run, vec![String::new()]));
                is_exact = false;
            }
        }
    }
    if is_exact {
        return Needs::Exactly(run);
    }
    offer(&mut best, run);
    best.map_or(Needs::Nothing, Needs::One)
}

/// One of several parts: what is needed is all that any of them needs.
fn either(parts: &[Hir]) -> Needs {
    let (mut all, mut is_exact) = (Vec::new(), true);
    for part in parts {
        match of(part) {
            Needs::Exactly(texts) => all.extend(texts),
            Needs::One(texts) => {
                is_exact = false;
                all.extend(texts);
            }
            Needs::Nothing => return Needs::Nothing,
        }
    }
    match is_exact && all.len() <= MOST {
        true => Needs::Exactly(all),
        false => Needs::One(all),
    }
}

/// Takes texts in the place of the best ones known if they are rarer.
fn offer(best: &mut Option<Vec<String>>, texts: Vec<String>) {
    if is_telling(&texts) && best.as_ref().is_none_or(|known| often(&texts) < often(known)) {
        *best = Some(texts);
    }
}

fn is_telling(texts: &[String]) -> bool {
    texts.iter().all(|text| text.len() >= SHORTEST)
}

/// How often one of the texts will come up, roughly: each letter more makes a text rarer, a blank does not.
fn often(texts: &[String]) -> f64 {
    let letters = |text: &String| text.bytes().filter(|byte| *byte != b' ').count().min(12);
    texts.iter().map(|text| 0.3_f64.powi(letters(text) as i32)).sum()
}

/// Without those that hold another one.
fn shortest(mut texts: Vec<String>) -> Vec<String> {
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
        let found = needed(pattern).unwrap_or_default();
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
