//! Text without what acts on a terminal instead of being shown: escape sequences, control characters, and marks that turn the
//! direction of a line around. What comes from a log, an argument or a model passes here on its way in or out.

use std::borrow::Cow;

/// Returns whether a character acts on a terminal. Line feeds and tabs do not count.
pub fn is_control(c: char) -> bool {
    c.is_control() && !matches!(c, '\n' | '\t') || is_direction_mark(c)
}

/// Returns whether a character reorders the characters around it.
pub fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns a text without control characters and without the sequences that an escape begins. Line feeds and tabs stay; a
/// carriage return stays only before a line feed.
pub fn strip_controls(text: &str) -> Cow<'_, str> {
    if !may_hold_controls(text.as_bytes()) || !text.contains(is_control) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(is_control) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        if rest.starts_with("\r\n") {
            out.push('\r');
        }
        rest = &rest[control_length(rest)..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Returns whether a byte occurs that begins a control character, in one pass without decoding.
fn may_hold_controls(bytes: &[u8]) -> bool {
    bytes
        .iter()
        .any(|byte| *byte < 0x20 && !matches!(byte, b'\n' | b'\t') || matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2))
}

/// Returns the length of the control character or escape sequence that a text begins with.
fn control_length(text: &str) -> usize {
    let mut chars = text.chars();
    let first = chars.next().map_or(0, char::len_utf8);
    let rest = &text[first..];
    match (text.chars().next(), rest.bytes().next()) {
        // ESC [ and its one-character form: parameters, then a final letter.
        (Some('\u{1b}'), Some(b'[')) => first + 1 + sequence_length(&rest[1..]),
        (Some('\u{9b}'), _) => first + sequence_length(rest),
        // ESC ] and its like: a string up to BEL or ESC \.
        (Some('\u{1b}'), Some(b']' | b'P' | b'X' | b'^' | b'_')) => first + 1 + string_length(&rest[1..]),
        (Some('\u{1b}'), Some(b'(' | b')' | b'#')) => first + 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
        (Some('\u{1b}'), Some(b'=' | b'>' | b'7' | b'8' | b'c' | b'M' | b'\\')) => first + 1,
        _ => first,
    }
}

fn sequence_length(text: &str) -> usize {
    let parameters = text.bytes().take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
    let has_final = matches!(text.as_bytes().get(parameters), Some(0x40..=0x7e));
    parameters + usize::from(has_final)
}

/// Returns the length of a string that BEL or ESC \ ends; 0 if neither comes soon, so that an unclosed one hides nothing.
fn string_length(text: &str) -> usize {
    const LONGEST: usize = 2_000;
    let head = &text[..text.floor_char_boundary(LONGEST.min(text.len()))];
    let end = head.find(['\u{7}', '\u{1b}', '\n']);
    match end.map(|end| (end, &head[end..])) {
        Some((end, close)) if close.starts_with('\u{7}') => end + 1,
        Some((end, close)) if close.starts_with("\u{1b}\\") => end + 2,
        _ => 0,
    }
}

/// Returns a text fit to be shown: without secrets and without control characters.
pub fn shown(text: &str) -> Cow<'_, str> {
    let plain = match strip_controls(text) {
        Cow::Owned(plain) => plain,
        Cow::Borrowed(text) => return crate::secrets::mask_text(text),
    };
    Cow::Owned(crate::secrets::mask(&plain))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_as_a_whole() {
        for (text, expected) in [
            ("plain\ttext\n中文 é", "plain\ttext\n中文 é"),
            ("a\u{1b}[31;1mb\u{1b}[0mc", "abc"),
            ("a\u{1b}]0;title\u{7}b", "ab"),
            ("a\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\b", "alinkb"),
            ("a\u{1b}]no end", "ano end"),
            ("a\u{0}b\u{7}c\u{9b}2Jd\u{7f}", "abcd"),
            ("one\r\ntwo\rthree", "one\r\ntwothree"),
            ("abc\u{202e}cba\u{2066}x\u{200f}", "abccbax"),
        ] {
            assert_eq!(strip_controls(text), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_acts_remains(text in "[\\x00-\\x7f\\u{80}-\\u{a0}\\u{2000}-\\u{206f}]{0,60}") {
            let plain = strip_controls(&text);
            prop_assert!(!plain.replace("\r\n", "").contains(is_control));
            prop_assert_eq!(strip_controls(&plain).into_owned(), plain.clone().into_owned());
        }
    }
}
