//! Words of ordinary prose and of talk about security: what stands after "the password is" without being one.
//!
//! `prose.txt` lists words that many technical documents use. Endings cover the rest: `revalidated`, `tokenization`.

use std::collections::HashSet;
use std::sync::LazyLock;

/// The words in lower case.
static WORDS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| include_str!("prose.txt").lines().collect());

/// Endings that only ordinary words have, if enough stands before them.
const ENDINGS: &[&str] = &[
    "tion", "tions", "sion", "sions", "ment", "ments", "ness", "less", "able", "ible", "ful", "ous", "ive", "ity",
    "ized", "ised", "ated", "ally", "ical", "ancy", "ency", "ance", "ence", "ship", "ified", "izing", "ating", "izer",
    "izers",
];

/// Endings of inflected forms, and what may stand in their place in the base form.
const INFLECTIONS: [(&str, &[&str]); 14] = [
    ("'s", &[""]),
    ("n't", &[""]),
    ("'re", &[""]),
    ("'ve", &[""]),
    ("'ll", &[""]),
    ("'d", &[""]),
    ("ies", &["y"]),
    ("es", &["", "e"]),
    ("s", &[""]),
    ("ed", &["", "e"]),
    ("ing", &["", "e"]),
    ("ly", &["", "le"]),
    ("er", &["", "e"]),
    ("ers", &["", "e"]),
];

fn is_listed(word: &str) -> bool {
    WORDS.contains(word)
}

/// Returns whether a word, in any case, belongs to ordinary prose.
pub(super) fn is_prose(word: &str) -> bool {
    if word.len() > 30 {
        return false;
    }
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return is_prose_in_lower_case(word);
    }
    is_prose_in_lower_case(&word.to_lowercase().replace('’', "'"))
}

/// Returns whether a word is listed, or an inflected form of a listed word: no guess from its ending alone.
pub(super) fn is_known(word: &str) -> bool {
    let low = word.to_lowercase();
    is_listed(&low) || is_inflected(&low)
}

fn is_inflected(low: &str) -> bool {
    INFLECTIONS.iter().any(|(ending, bases)| {
        let Some(stem) = low.strip_suffix(ending).filter(|stem| stem.len() >= 2) else {
            return false;
        };
        // `logging`, `putting`: the last letter is doubled.
        let doubled = stem.len() > 3 && stem.as_bytes()[stem.len() - 1] == stem.as_bytes()[stem.len() - 2];
        let single = if doubled { &stem[..stem.len() - 1] } else { stem };
        bases.iter().any(|base| is_listed(&format!("{stem}{base}"))) || doubled && is_listed(single)
    })
}

fn is_prose_in_lower_case(low: &str) -> bool {
    if is_listed(low) {
        return true;
    }
    if low.bytes().any(|byte| byte.is_ascii_digit()) {
        return false;
    }
    // `mounted`, `greping`: the endings of verbs whose base form is not listed.
    let is_verb = (6..=12).contains(&low.len()) && (low.ends_with("ed") || low.ends_with("ing"));
    is_inflected(low)
        || is_verb
        || ENDINGS
            .iter()
            .any(|ending| low.len() >= ending.len() + 4 && low.ends_with(ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_sorted() {
        assert!(include_str!("prose.txt").lines().is_sorted());
    }

    #[test]
    fn inflected_forms_are_prose_and_names_are_not() {
        for word in [
            "rotated",
            "Missing",
            "doesn't",
            "logging",
            "verification",
            "bcrypt",
            "sha256",
            "policies",
        ] {
            assert!(is_prose(word), "{word}");
        }
        for word in [
            "swordfish",
            "hunter",
            "opensesame",
            "qwertyuiop",
            "Winterfell",
            "letmein",
        ] {
            assert!(!is_prose(word), "{word}");
        }
    }
}
