//! Traditional Chinese as simplified, so that rules and questions need only one spelling.
//!
//! Character by character, by `traditional.txt` (after the character table of OpenCC): pairs of a traditional character and
//! its common simplified form (first level of GB 2312). Both have the same number of bytes, so an offset in the result is an
//! offset in the original.

use std::borrow::Cow;
use std::sync::LazyLock;

static PAIRS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| {
    let mut signs = include_str!("traditional.txt")
        .chars()
        .filter(|sign| !sign.is_whitespace());
    std::iter::from_fn(|| Some((signs.next()?, signs.next()?))).collect()
});

/// Returns the simplified character for a traditional one; `None` for any other.
fn simplify_char(sign: char) -> Option<char> {
    let at = PAIRS
        .binary_search_by_key(&sign, |(traditional, _)| *traditional)
        .ok()?;
    Some(PAIRS[at].1)
}

/// Replaces traditional characters with simplified ones. The length in bytes stays; a text without any is borrowed.
pub fn simplify(text: &str) -> Cow<'_, str> {
    let is_chinese = |sign: char| ('\u{4e00}'..='\u{9fff}').contains(&sign);
    let is_traditional = |sign: char| is_chinese(sign) && simplify_char(sign).is_some();
    if text.is_ascii() || !text.chars().any(is_traditional) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|sign| simplify_char(sign).unwrap_or(sign)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pair_is_sorted_and_as_long() {
        assert!(PAIRS.len() > 1_000);
        assert!(PAIRS.is_sorted_by(|(one, _), (next, _)| one < next));
        for (traditional, everyday) in PAIRS.iter() {
            assert_eq!(traditional.len_utf8(), everyday.len_utf8(), "{traditional}");
            assert_eq!(simplify_char(*everyday), None, "{everyday}");
        }
    }

    #[test]
    fn traditional_reads_as_simplified() {
        assert_eq!(simplify("以後請確保註解都用英文"), "以后请确保注解都用英文");
        for same in ["plain", "größer — 😀", "以后都用英文"] {
            assert!(matches!(simplify(same), Cow::Borrowed(_)), "{same}");
        }
    }
}
