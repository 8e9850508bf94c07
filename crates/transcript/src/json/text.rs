//! String values: raw bytes that are decoded only on request.

use crate::skim::TextShape;

/// A JSON string without its quotes, decoded only on request.
#[derive(Clone, Copy, Default)]
pub struct JsonStr<'a> {
    pub(super) raw: &'a [u8],
    pub(super) escapes: EscapeState,
}

/// Whether a string contains escapes. As wide as a machine word because [`JsonStr`]s are copied by whole words: loading
/// a word right after storing one of its bytes defeats store forwarding and stalls the load.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[repr(usize)]
pub(super) enum EscapeState {
    #[default]
    Plain,
    Escaped,
}

/// Prints the decoded text, so that strings from both parsers compare equal.
impl std::fmt::Debug for JsonStr<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.decode(&mut String::new()).fmt(formatter)
    }
}

impl<'a> JsonStr<'a> {
    /// Wraps a string that has no escapes.
    #[inline]
    pub fn plain(raw: &'a [u8]) -> Self {
        JsonStr {
            raw,
            escapes: EscapeState::Plain,
        }
    }

    /// Returns the bytes as they are in the line. They equal the decoded text if there are no escapes.
    pub fn raw(self) -> &'a [u8] {
        self.raw
    }

    /// Returns the string cut to about `most` raw bytes, never inside a character or an escape.
    pub fn starting(self, most: usize) -> Self {
        if self.raw.len() <= most {
            return self;
        }
        let mut end = most;
        // A character has at most four bytes; an escape, or a pair of them, at most twelve.
        while end > 0 && self.raw[end] & 0xc0 == 0x80 {
            end -= 1;
        }
        if self.escapes == EscapeState::Escaped
            && let Some(start) = self.raw[end.saturating_sub(12)..end]
                .iter()
                .position(|byte| *byte == b'\\')
        {
            end = end.saturating_sub(12) + start;
            // The first half of an escaped backslash lies before what was looked at.
            while end > 0 && self.raw[end - 1] == b'\\' {
                end -= 1;
            }
        }
        JsonStr {
            raw: &self.raw[..end],
            ..self
        }
    }

    /// Returns the decoded text; `buffer` is used only if decoding changes the bytes. Invalid UTF-8 becomes U+FFFD.
    pub fn decode<'b>(self, buffer: &'b mut String) -> &'b str
    where
        'a: 'b,
    {
        // Escapes are ASCII: one check of all bytes covers the pieces between them.
        let valid = simdutf8::basic::from_utf8(self.raw).ok();
        if self.escapes == EscapeState::Plain
            && let Some(text) = valid
        {
            return text;
        }
        buffer.clear();
        let mut start = 0;
        if self.escapes == EscapeState::Escaped {
            buffer.reserve(self.raw.len());
            while let Some(length) = memchr::memchr(b'\\', &self.raw[start..]) {
                push_piece(self.raw, valid, start..start + length, buffer);
                let rest = decode_escape(&self.raw[start + length + 1..], buffer);
                start = self.raw.len() - rest.len();
            }
        }
        push_piece(self.raw, valid, start..self.raw.len(), buffer);
        buffer
    }
}

/// Appends the bytes of `range` to `buffer`. `valid` is all of `raw` as text, if it is valid UTF-8.
fn push_piece(raw: &[u8], valid: Option<&str>, range: std::ops::Range<usize>, buffer: &mut String) {
    match valid.and_then(|text| text.get(range.clone())) {
        Some(piece) => buffer.push_str(piece),
        None => buffer.push_str(&String::from_utf8_lossy(&raw[range])),
    }
}

/// Decodes the escape whose backslash precedes `bytes`. Returns the bytes after the escape.
fn decode_escape<'a>(bytes: &'a [u8], buffer: &mut String) -> &'a [u8] {
    let Some((&letter, rest)) = bytes.split_first() else {
        return &[];
    };
    let short = match letter {
        b'n' => '\n',
        b't' => '\t',
        b'r' => '\r',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'u' => return decode_unicode(rest, buffer),
        other => other as char,
    };
    buffer.push(short);
    rest
}

/// Decodes the digits of a `\u` escape, including the low surrogate that may follow. Returns the bytes after them.
fn decode_unicode<'a>(bytes: &'a [u8], buffer: &mut String) -> &'a [u8] {
    let unit = |digits: Option<&[u8]>| u16::from_str_radix(std::str::from_utf8(digits?).ok()?, 16).ok();
    let Some(first) = unit(bytes.get(..4)) else {
        buffer.push(char::REPLACEMENT_CHARACTER);
        return bytes;
    };
    let mut rest = &bytes[4..];
    let mut pair = vec![first];
    if (0xd800..0xdc00).contains(&first)
        && rest.starts_with(b"\\u")
        && let Some(low) = unit(rest.get(2..6)).filter(|low| (0xdc00..0xe000).contains(low))
    {
        pair.push(low);
        rest = &rest[6..];
    }
    buffer.extend(char::decode_utf16(pair).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)));
    rest
}

/// Measures a decoded string.
pub fn decoded_shape(text: &str) -> TextShape {
    let mut shape = TextShape::default();
    for character in text.chars() {
        let units = character.len_utf16() as u32;
        shape.units = shape.units.saturating_add(units);
        match character {
            '"' | '\\' | '\n' | '\t' | '\r' | '\u{8}' | '\u{c}' => shape.escapes += 1,
            '\0'..='\u{1f}' => {
                shape.escapes += 1;
                shape.long_escapes += 1;
            }
            '\u{80}'.. => {
                let beyond = character.len_utf8() as u32 - units;
                shape.wide = shape.wide.saturating_add(beyond);
            }
            _ => {}
        }
    }
    shape
}
