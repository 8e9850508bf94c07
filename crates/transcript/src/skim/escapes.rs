//! Escape sequences inside strings.

use super::{SlowPath, TextShape};

/// Parses the four hexadecimal digits at `at`.
pub(super) fn parse_hex4(bytes: &[u8], at: usize) -> Result<u32, SlowPath> {
    let digits: &[u8; 4] = bytes.get(at..).and_then(|rest| rest.first_chunk()).ok_or(SlowPath)?;
    // A byte that is not a digit contributes a bit above all four digits, so one comparison at the end finds it.
    let value = digits.iter().fold(0, |value, digit| value << 4 | HEX[*digit as usize]);
    if value > 0xffff { Err(SlowPath) } else { Ok(value) }
}

/// Values of hexadecimal digits. Every other byte maps to bit 16: shifted left by the digits after it, it always stays
/// above 0xffff.
const HEX: [u32; 256] = {
    let mut values = [1 << 16; 256];
    let mut value = 0;
    while value < 16 {
        let digit = b"0123456789abcdef"[value as usize];
        values[digit as usize] = value;
        values[digit.to_ascii_uppercase() as usize] = value;
        value += 1;
    }
    values
};

/// Running counts of escapes, shared by both scanners so that they cannot disagree.
#[derive(Default)]
pub(super) struct EscapeCounts {
    /// All escapes; each takes at least two bytes for one unit.
    pub(super) all: u32,
    /// `\u` escapes; each takes four more bytes.
    unicode: u32,
    /// Escapes that a canonical JSON writer would not use (`\/`, `\u0041`).
    needless: u32,
    /// Escapes that a canonical JSON writer spells with six characters.
    long: u32,
    /// What `\u` escapes of non-ASCII characters add to [`TextShape::wide`].
    wide: u32,
}

impl EscapeCounts {
    /// Checks and counts `\/` and `\u` escapes, whose letter alone does not determine the character.
    pub(super) fn check_rare_escape(&mut self, bytes: &[u8], letter_at: usize) -> Result<(), SlowPath> {
        if bytes[letter_at] == b'/' {
            self.needless += 1;
            return Ok(());
        }
        let value = parse_hex4(bytes, letter_at + 1)?;
        self.unicode += 1;
        match value {
            0x08 | 0x09 | 0x0a | 0x0c | 0x0d | 0x22 | 0x5c => {}
            0x00..=0x1f => self.long += 1,
            0x20..=0x7f => self.needless += 1,
            0xd800..=0xdfff if !self.is_paired(bytes, letter_at, value) => return Err(SlowPath),
            _ => {
                self.needless += 1;
                self.wide += if matches!(value, 0x80..0x800 | 0xd800..0xe000) {
                    1
                } else {
                    2
                };
            }
        }
        Ok(())
    }

    /// Returns whether the surrogate escape at `letter_at` is next to its other half.
    fn is_paired(&self, bytes: &[u8], letter_at: usize, value: u32) -> bool {
        let half =
            |at: usize| -> Option<u32> { (bytes.get(at..at + 2)? == b"\\u").then(|| parse_hex4(bytes, at + 2).ok())? };
        if value < 0xdc00 {
            half(letter_at + 5).is_some_and(|low| (0xdc00..0xe000).contains(&low))
        } else {
            // The apparent other half is plain text if its own backslash is escaped.
            let backslashes = |at: usize| bytes[..=at].iter().rev().take_while(|byte| **byte == b'\\').count();
            letter_at >= 7
                && half(letter_at - 7).is_some_and(|high| (0xd800..0xdc00).contains(&high))
                && backslashes(letter_at - 7) % 2 == 1
        }
    }

    /// Returns the shape of a string of `units` raw units (escapes not folded yet) and `wide` raw extra bytes.
    pub(super) fn shape(&self, units: u64, wide: u64) -> TextShape {
        let folded = units - u64::from(self.all) - 4 * u64::from(self.unicode);
        TextShape {
            units: u32::try_from(folded).unwrap_or(u32::MAX),
            escapes: self.all - self.needless,
            long_escapes: self.long,
            wide: u32::try_from(wide + u64::from(self.wide)).unwrap_or(u32::MAX),
        }
    }
}

/// Returns whether JSON allows this letter after a backslash.
pub(super) const fn is_escape_letter(letter: u8) -> bool {
    matches!(letter, b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' | b'u')
}
