//! How much a run of characters looks like chance.

use super::super::prose;
use super::subwords;

/// Counts the changes between letters and digits.
pub(super) fn transitions(value: &str) -> usize {
    let bytes = value.as_bytes();
    let kinds = bytes.iter().zip(bytes.iter().skip(1));
    kinds
        .filter(|(one, next)| {
            one.is_ascii_digit() && next.is_ascii_alphabetic() || one.is_ascii_alphabetic() && next.is_ascii_digit()
        })
        .count()
}

/// Returns whether a value is a long run of characters without a pattern.
pub(in crate::secrets) fn is_random(value: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| value.iter().filter(|byte| is(byte)).count();
    let is_token = value
        .iter()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_+/=.~-%".contains(byte));
    if value.len() < 16 || !is_token || count(|byte| byte.is_ascii_alphanumeric()) * 8 < value.len() * 7 {
        return false;
    }
    let changes = value
        .windows(2)
        .filter(|pair| byte_class(pair[0]) != byte_class(pair[1]))
        .count();
    let has_classes = count(u8::is_ascii_digit) >= 2 && count(u8::is_ascii_alphabetic) >= 4;
    has_classes && changes * 4 >= value.len() && entropy(value) >= 3.2 && !has_words(value)
}

/// Returns whether most of a run is ordinary words: `getUserV2Response3`.
pub(in crate::secrets) fn has_words(value: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(value) else {
        return false;
    };
    let words = subwords(text)
        .into_iter()
        .map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    let known = words
        .filter(|word| word.len() >= 3 && prose::is_prose(word))
        .map(str::len)
        .sum::<usize>();
    known * 2 >= value.len()
}

fn byte_class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        b'A'..=b'Z' => 2,
        _ => 3,
    }
}

/// Returns whether a run without any word around it looks like a key: stricter than [`is_random`].
pub(in crate::secrets) fn is_key_run(run: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| run.iter().filter(|byte| is(byte)).count();
    let joints = count(|byte| b"/_-=+.~".contains(byte));
    let mixed =
        count(u8::is_ascii_uppercase) >= 3 && count(u8::is_ascii_lowercase) >= 3 && count(u8::is_ascii_digit) >= 3;
    // In a key, digits and case changes are scattered; in a name they are at the ends of words.
    let changes = run
        .windows(2)
        .filter(|pair| byte_class(pair[0]) != byte_class(pair[1]))
        .count();
    mixed && joints * 8 <= run.len() && changes * 3 >= run.len() && entropy(run) >= 4.2 && !has_words(run)
}

/// Returns the Shannon entropy in bits per byte.
pub(in crate::secrets) fn entropy(value: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    for byte in value {
        counts[usize::from(*byte)] += 1;
    }
    let total = value.len() as f64;
    let bits = |count: u32| {
        let share = f64::from(count) / total;
        -share * share.log2()
    };
    counts.into_iter().filter(|count| *count > 0).map(bits).sum()
}
