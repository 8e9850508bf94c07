//! Text without what is not meant to be read: terminal codes, control characters, encoded data.

use std::borrow::Cow;

/// Runs of letters and digits longer than this are data, not words.
const MAX_WORD_CHARS: usize = 300;

/// Removes terminal codes and other control characters, and replaces encoded data with `[data]`.
pub fn strip_control_codes(text: &str) -> Cow<'_, str> {
    let is_odd = |byte: &u8| *byte < 0x20 && !matches!(byte, b'\n' | b'\t');
    let has_codes = text.bytes().any(|byte| is_odd(&byte) || byte == 0x7f);
    let has_data = has_long_run(text.as_bytes());
    if !has_codes && !has_data {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => skip_code(&mut characters),
            '\r' => {
                // A line that the terminal overwrote becomes a line of its own.
                if characters.peek() != Some(&'\n') {
                    out.push('\n');
                }
            }
            '\n' | '\t' => out.push(character),
            _ if character.is_control() => {}
            _ => out.push(character),
        }
    }
    if has_data {
        out = strip_encoded_data(&out);
    }
    Cow::Owned(out)
}

/// Skips a terminal code after its escape character.
fn skip_code(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) {
    match characters.next() {
        Some('[') => {
            for next in characters.by_ref() {
                if ('\u{40}'..='\u{7e}').contains(&next) {
                    break;
                }
            }
        }
        Some(']') => {
            while let Some(next) = characters.next() {
                if next == '\u{7}' || next == '\u{1b}' && characters.next_if_eq(&'\\').is_some() {
                    break;
                }
            }
        }
        _ => {}
    }
}

fn is_data(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=')
}

/// Returns whether there is a run of data longer than [`MAX_WORD_CHARS`]. Only every so many bytes are looked at: a longer
/// run covers one of them.
fn has_long_run(text: &[u8]) -> bool {
    let mut at = MAX_WORD_CHARS;
    while at < text.len() {
        if is_data(text[at]) {
            let before = text[..at].iter().rev().take_while(|byte| is_data(**byte)).count();
            let after = text[at..].iter().take_while(|byte| is_data(**byte)).count();
            if before + after > MAX_WORD_CHARS {
                return true;
            }
            at += after;
        }
        at += MAX_WORD_CHARS;
    }
    false
}

fn strip_encoded_data(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let run = rest.bytes().take_while(|byte| is_data(*byte)).count();
        match run {
            0 => {
                let end = rest
                    .find(|sign: char| sign.is_ascii() && is_data(sign as u8))
                    .unwrap_or(rest.len());
                out.push_str(&rest[..end]);
                rest = &rest[end..];
                continue;
            }
            _ if run > MAX_WORD_CHARS => out.push_str("[data]"),
            _ => out.push_str(&rest[..run]),
        }
        rest = &rest[run..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_codes_and_data_go() {
        assert_eq!(
            strip_control_codes("\u{1b}[31mred\u{1b}[0m\u{1b}]0;title\u{7} text\r\nnext\u{8}"),
            "red text\nnext"
        );
        let data = format!("image {} end", "QUJD".repeat(200));
        assert_eq!(strip_control_codes(&data), "image [data] end");
        assert!(matches!(strip_control_codes("as it was\n\tis"), Cow::Borrowed(_)));
    }
}
