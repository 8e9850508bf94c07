//! What a value looks like, whatever stands around it: a word, an identifier, digits, or something that only a secret is.

mod chance;
mod code;

use super::{forms, names, prose};
use aho_corasick::{AhoCorasick, AhoCorasickKind};
use chance::transitions;
pub(super) use chance::{entropy, has_words, is_key_run, is_random};
pub(super) use code::has_file_extension;
use code::{is_code, is_location, is_measure, is_notation, is_numbered, is_reference};
use std::sync::LazyLock;

/// How much a value looks like a secret. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Shape {
    /// Never a secret: a placeholder, a variable, code, a path, a version, a known kind of id.
    Never,
    /// An ordinary word, or words joined by hyphens.
    Prose,
    /// Words joined as in a program: `retry_limit`, `useAuthStore`.
    Identifier,
    /// Letters only, and no ordinary word; or an ordinary word and a number.
    Word,
    /// Digits only.
    Digits,
    /// A hash or a UUID, which most often is an id.
    Hex,
    /// Letters with digits or signs: `hunter2`, `correct-horse`.
    Odd,
    /// Letters, digits and signs in turn: `Tr0ub4dor&3`.
    Strong,
    /// A long run without a pattern.
    Random,
}

/// Texts that stand for a value.
const PLACEHOLDERS: &[&str] = &[
    "example",
    "placeholder",
    "redacted",
    "xxxx",
    "****",
    "...",
    "…",
    "your_",
    "your-",
    "yourp",
    "yourt",
    "yours",
    "yourk",
    "my_",
    "<",
    "[secret]",
    "changeme",
    "change_me",
    "change-me",
    "changethis",
    "insert-",
    "insert_",
    "replace_",
    "replaceme",
];

fn has_placeholder(value: &str) -> bool {
    static AUTOMATON: LazyLock<Option<AhoCorasick>> = LazyLock::new(|| contains_any(PLACEHOLDERS));
    AUTOMATON.as_ref().is_some_and(|automaton| automaton.is_match(value))
}

/// Returns what finds one of several texts, in any case.
pub(super) fn contains_any(texts: &[&str]) -> Option<AhoCorasick> {
    AhoCorasick::builder()
        .ascii_case_insensitive(true)
        .kind(Some(AhoCorasickKind::DFA))
        .build(texts)
        .ok()
}

/// Returns the shape of a value without the quotes around it.
pub(super) fn shape(value: &str) -> Shape {
    // Dots stand for the rest of a value that somebody cut.
    if value.ends_with("...") || value.ends_with('…') {
        return Shape::Never;
    }
    let value = value.trim_end_matches(['.', ',', ';', ':']);
    if value.len() < 3 || value.len() > 2_000 || forms::is_ordinary_id(value) {
        return Shape::Never;
    }
    // Letters, digits, `_` and `-` alone make no program and hardly a notation: most words end here.
    let is_plain = value
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
    let is_written = match is_plain {
        true => value.starts_with("--") || is_numbered(value),
        false => is_reference(value) || is_notation(value),
    };
    if is_written {
        return Shape::Never;
    }
    let is_key = is_random(value.as_bytes()) && !is_hex(value) && !is_location(value);
    if !is_key && !is_plain && is_code(value) {
        return Shape::Never;
    }
    if has_placeholder(value) || is_repeated(value) {
        return Shape::Never;
    }
    let is_possessive = value.ends_with("'s") || value.ends_with("’s");
    if is_possessive || prose::is_prose(value.trim_end_matches(['!', '?'])) {
        return Shape::Prose;
    }
    let count = |is: fn(u8) -> bool| value.bytes().filter(|byte| is(*byte)).count();
    let digits = count(|byte| byte.is_ascii_digit());
    let letters = value.chars().filter(|c| c.is_alphabetic()).count();
    if letters == 0 {
        return numeric_shape(value, digits);
    }
    if is_hex(value) {
        return Shape::Hex;
    }
    if digits == 0 && letters == value.chars().count() {
        return letters_shape(value);
    }
    if is_key {
        return Shape::Random;
    }
    if is_location(value) || is_measure(value) {
        return Shape::Never;
    }
    mixed_shape(value, digits, letters)
}

/// Returns whether a value consists of one or two characters, as `xxxxxx` and `------`.
fn is_repeated(value: &str) -> bool {
    let bytes = value.as_bytes();
    let is_period =
        |step: usize| bytes.len() >= 4 && bytes.iter().skip(step).zip(bytes).all(|(one, before)| one == before);
    is_period(1) && !bytes[0].is_ascii_digit()
}

fn numeric_shape(value: &str, digits: usize) -> Shape {
    if digits == value.len() {
        return Shape::Digits;
    }
    // `1234-5678`: groups of equal length. Other numbers are dates, times, versions, ranges and addresses.
    let groups = value.split(['-', ' ']).collect::<Vec<_>>();
    let is_grouped = groups.len() >= 2
        && groups
            .iter()
            .all(|group| group.len() == groups[0].len() && group.len() >= 3);
    let is_number = value
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b".:-/,_+%~ ()#".contains(&byte));
    match (is_grouped, is_number) {
        (true, true) if value.bytes().all(|byte| byte.is_ascii_digit() || b"- ".contains(&byte)) => Shape::Digits,
        (_, true) => Shape::Never,
        // Only signs, or signs and digits.
        _ if digits >= 3 => Shape::Odd,
        _ => Shape::Never,
    }
}

fn letters_shape(value: &str) -> Shape {
    if !value.is_ascii() {
        return Shape::Word;
    }
    if names::contains_keyword(value) {
        return Shape::Never;
    }
    let is_upper = value.bytes().all(|byte| byte.is_ascii_uppercase());
    if is_upper && value.len() <= 5 {
        return Shape::Prose;
    }
    let parts = subwords(value);
    if parts.len() >= 2 && parts.iter().all(|part| part.len() <= 2 || prose::is_prose(part)) {
        return Shape::Identifier;
    }
    Shape::Word
}

/// Returns the parts of a name: `HTTPServer_v2` gives `HTTP`, `Server`, `v2`.
pub(super) fn subwords(value: &str) -> Vec<&str> {
    let bytes = value.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 0..=bytes.len() {
        let is_joint = |byte: u8| byte.is_ascii() && !byte.is_ascii_alphanumeric();
        let is_end = at == bytes.len() || is_joint(bytes[at]);
        let turns = !is_end
            && at > start
            && bytes[at].is_ascii_uppercase()
            && (!bytes[at - 1].is_ascii_uppercase() || bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase));
        if (is_end || turns) && start < at {
            parts.push(&value[start..at]);
        }
        if is_end {
            start = at + 1;
        } else if turns {
            start = at;
        }
    }
    parts
}

/// Returns whether a value stands for another one: a variable, a placeholder, the same sign again and again.
pub(super) fn is_stand_in(value: &str) -> bool {
    value.len() < 3 || is_reference(value) || is_repeated(value) || has_placeholder(value)
}

/// Returns whether a value is a hash or a UUID.
pub(super) fn is_hex(value: &str) -> bool {
    let plain = value.bytes().filter(|byte| !b"-_".contains(byte)).count();
    let is_uuid =
        value.len() == 36 && plain == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    let is_hash = value.len() >= 7
        && value.bytes().all(|byte| byte.is_ascii_hexdigit())
        && value.bytes().any(|byte| byte.is_ascii_digit())
        && value.bytes().any(|byte| byte.is_ascii_alphabetic());
    // A date before a UUID, or a UUID in parts.
    let is_parts = plain >= 16
        && value.contains(['-', '_'])
        && value
            .split(['-', '_'])
            .all(|part| part.len() >= 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit()))
        && value.split(['-', '_']).count() >= 4;
    is_uuid || is_hash || is_parts
}

/// Returns the shape of letters with digits or signs.
fn mixed_shape(value: &str, digits: usize, letters: usize) -> Shape {
    let has_keyword = names::contains_keyword(value);
    let parts = subwords(value);
    let is_plain = |part: &&str| {
        let word = part.trim_end_matches(|c: char| c.is_ascii_digit());
        part.len() <= 2 || word.is_empty() || prose::is_prose(word) || prose::is_prose(part)
    };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let core = value.trim_end_matches(['!', '?', ')', '}', ']', '>', '"', '\'']);
    let signs = core
        .bytes()
        .filter(|byte| byte.is_ascii_punctuation() && !b"_-.'/:,()".contains(byte))
        .count();
    let joined = core.bytes().all(|byte| is_name(byte) || b"-./:'".contains(&byte));
    if digits == 0 {
        if core.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return letters_shape(core).min(Shape::Word);
        }
        if has_keyword {
            return Shape::Never;
        }
        if joined && parts.iter().all(is_plain) {
            let is_prose = core
                .bytes()
                .all(|byte| byte.is_ascii_alphabetic() || b"-/'".contains(&byte));
            return match (is_prose, parts.len()) {
                // Nobody joins four words of a sentence.
                (true, 4..) if !core.contains('/') => Shape::Word,
                (true, _) => Shape::Prose,
                (false, _) => Shape::Identifier,
            };
        }
        if core.bytes().all(is_name) {
            let is_constant = core.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            return if is_constant { Shape::Identifier } else { Shape::Word };
        }
        return if signs >= 2 && letters >= 4 {
            Shape::Strong
        } else {
            Shape::Odd
        };
    }
    let turns = transitions(core);
    if is_grouped_code(core) {
        return if core.len() >= 12 { Shape::Strong } else { Shape::Odd };
    }
    if has_keyword
        && (core.bytes().all(|byte| is_name(byte) && !byte.is_ascii_lowercase()) || core.contains('_') && joined)
    {
        // `SECP256K1_KEY_SIZE`
        return Shape::Never;
    }
    let has_word = core.len() < 8
        || parts
            .iter()
            .any(|part| part.len() >= 3 && part.bytes().any(|byte| byte.is_ascii_alphabetic()));
    if joined && has_word && parts.iter().all(is_plain) && turns <= 2 * parts.len() {
        // `step3`, `retry_after_2`; with one part an ordinary word and a number, which may well be a password.
        return match (parts.len(), has_keyword) {
            (1, _) => Shape::Word,
            // `MyPassword2024` is a password, `password_2` the name of one.
            (_, true) if digits >= 3 || digits == 2 && core.bytes().all(|byte| byte.is_ascii_alphanumeric()) => {
                Shape::Identifier
            }
            (_, true) => Shape::Never,
            _ => Shape::Identifier,
        };
    }
    let is_strong = core.len() >= 6
        && (signs >= 1 && letters >= 2 || turns >= 3 || turns >= 2 && core.len() >= 8 && !joined_prose(core));
    if is_strong { Shape::Strong } else { Shape::Odd }
}

/// Returns whether a value is a code of groups in capitals and digits: `XK-22-LL-90`.
fn is_grouped_code(value: &str) -> bool {
    let groups = value.split('-').collect::<Vec<_>>();
    let is_group = |group: &&str| {
        (2..=8).contains(&group.len())
            && group
                .bytes()
                .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    groups.len() >= 3 && groups.iter().all(is_group) && groups.iter().filter(|group| prose::is_prose(group)).count() < 2
}

/// Returns whether a value mixes letters, digits and signs as no name of a program does.
pub(super) fn is_mixed(value: &str) -> bool {
    let has = |is: fn(u8) -> bool| value.bytes().any(is);
    let has_sign = has(|byte| b"!@#$%^&*?~+".contains(&byte));
    let has_letters = has(|byte| byte.is_ascii_alphabetic());
    has_letters
        && has(|byte| byte.is_ascii_digit())
        && (has_sign && !value.contains(['/', '(', '[', '{', '<'])
            || !value.contains(['/', '.', '(', ':'])
                && (transitions(value) >= 3 && !joined_prose(value) || has_scattered_part(value)))
}

/// Returns whether letters and digits alternate within one part of a value: `maps-9d8f7s`.
fn has_scattered_part(value: &str) -> bool {
    let parts = value.split(|c: char| !c.is_ascii_alphanumeric());
    parts
        .filter(|part| part.len() >= 6 && transitions(part) >= 3)
        .any(|part| !joined_prose(part) || part.split(|c: char| c.is_ascii_digit()).all(|run| run.len() <= 2))
}

/// Returns whether all runs of letters in a value are ordinary words.
fn joined_prose(value: &str) -> bool {
    value
        .split(|c: char| !c.is_ascii_alphabetic())
        .filter(|part| part.len() > 2)
        .all(prose::is_prose)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_told_apart() {
        for (shape_wanted, values) in [
            (
                Shape::Never,
                &[
                    "$TOKEN",
                    "${X}",
                    "<password>",
                    "getToken()",
                    "src/auth.rs",
                    "user_password",
                    "10.0.0.1:80",
                    "24h",
                    "process.env.KEY",
                    "toolu_01A09q90qw90lq917835lq9",
                ][..],
            ),
            (Shape::Prose, &["missing", "read-only", "OAuth2", "sha256", "string"]),
            (Shape::Identifier, &["retry_after", "requestBody"]),
            (Shape::Word, &["swordfish", "Winterfell", "summer2024"]),
            (Shape::Digits, &["123456", "4821", "1234-5678"]),
            (Shape::Hex, &["3f2a1b9c8d7e", "0cf3db51-1c2d-4e5f-8a9b-0c1d2e3f4a5b"]),
            (Shape::Odd, &["hunter2", "correct-horse-battery", "open!sesame"]),
            (Shape::Strong, &["Tr0ub4dor&3", "P@ssw0rd!", "s3cr3tpw"]),
            (Shape::Random, &["Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6"]),
        ] {
            for value in values {
                assert_eq!(shape(value), shape_wanted, "{value}");
            }
        }
    }
}
