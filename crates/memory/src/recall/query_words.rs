//! The words of a query: which are proper names, and whether users ask for themselves. Pure.

const FIRST_PERSON: [&str; 10] = ["i", "my", "me", "we", "our", "mine", "im", "ive", "id", "ill"];

/// Abbreviations: a period after one does not end the sentence.
const TITLES: [&str; 6] = ["dr", "mr", "mrs", "ms", "prof", "st"];

/// A word of a query, which may be a stop word.
#[derive(Debug)]
pub struct QueryWord {
    /// Lowercase, without apostrophes and a possessive `'s`.
    pub text: String,
    /// Whether it has a capital letter and does not start a sentence.
    pub is_name: bool,
}

/// Splits a query into words.
pub fn parse_words(query: &str) -> Vec<QueryWord> {
    let mut words = Vec::<QueryWord>::new();
    let mut opens = true;
    for chunk in query.split_whitespace() {
        let is_sign = |character: char| !character.is_alphanumeric();
        let bare = chunk.trim_matches(is_sign);
        let start = chunk.len() - chunk.trim_start_matches(is_sign).len();
        let tail = &chunk[start + bare.len()..];
        if bare.is_empty() {
            continue;
        }
        for part in bare.split_inclusive(|sign: char| is_sign(sign) && !is_apostrophe(sign)) {
            let word = part.trim_end_matches(is_sign);
            let owner = word.strip_suffix("'s").or_else(|| word.strip_suffix("\u{2019}s"));
            let text = owner.unwrap_or(word).to_lowercase().replace(is_apostrophe, "");
            if !text.is_empty() {
                // `eBay` is a name, `4K` is not.
                let is_name = word.starts_with(char::is_alphabetic) && word.contains(char::is_uppercase);
                words.push(QueryWord {
                    is_name: is_name && !opens,
                    text,
                });
                opens = false;
            }
        }
        let is_title = tail == "." && words.last().is_some_and(|word| TITLES.contains(&word.text.as_str()));
        opens = !is_title && tail.contains(['.', '?', '!', ':']);
    }
    words
}

fn is_apostrophe(sign: char) -> bool {
    matches!(sign, '\'' | '\u{2019}')
}

/// Returns whether users ask for themselves. Otherwise a word like `advice` may be about advice that others gave.
pub fn is_asking_for_self(words: &[QueryWord]) -> bool {
    let is_theirs =
        |word: &QueryWord| FIRST_PERSON.contains(&word.text.as_str()) || matches!(&*word.text, "you" | "any");
    // Chinese is not split into words, so the word for advice alone decides.
    words.iter().any(is_theirs) || words.iter().any(|word| !word.text.is_ascii())
}
