//! JSON text, ids and timestamps as the client writes them.
//!
//! A record is appended key by key to one buffer, so that keys keep the client's order and no value tree is built.

use crate::rng::Rng;

/// Appends `text` with JSON escapes, without the surrounding quotes.
pub fn escape_into(out: &mut Vec<u8>, text: &str) {
    let bytes = text.as_bytes();
    let mut start = 0;
    for (at, &byte) in bytes.iter().enumerate() {
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            8 => b'b',
            12 => b'f',
            0..=31 => 0,
            _ => continue,
        };
        out.extend_from_slice(&bytes[start..at]);
        if short == 0 {
            out.extend_from_slice(format!("\\u{byte:04x}").as_bytes());
        } else {
            out.extend_from_slice(&[b'\\', short]);
        }
        start = at + 1;
    }
    out.extend_from_slice(&bytes[start..]);
}

/// Returns `text` as a JSON string with its quotes.
pub fn quoted(text: &str) -> String {
    let mut out = vec![b'"'];
    escape_into(&mut out, text);
    out.push(b'"');
    String::from_utf8(out).expect("escaping keeps UTF-8")
}

/// Appends a decimal number.
pub fn number_into(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// The id of a record. `Copy`, because a record and all of its children refer to it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Uuid([u8; 36]);

impl Uuid {
    pub fn new(rng: &mut Rng) -> Self {
        const HEX: &[u8; 16] = b"0123456789abcdef";
        let (high, low) = (rng.next(), rng.next());
        let mut text = [b'-'; 36];
        let mut nibble = 0;
        for (at, slot) in text.iter_mut().enumerate() {
            if matches!(at, 8 | 13 | 18 | 23) {
                continue;
            }
            let word = if nibble < 16 { high } else { low };
            let mut value = (word >> (4 * (nibble % 16))) & 15;
            if at == 14 {
                value = 4;
            }
            if at == 19 {
                value = 8 | (value & 3);
            }
            *slot = HEX[value as usize];
            nibble += 1;
        }
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).expect("hex digits")
    }
}

/// Returns an API id such as `msg_01…`: a prefix and 22 letters and digits.
pub fn api_id(rng: &mut Rng, prefix: &str) -> String {
    const LETTERS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    let mut id = String::with_capacity(prefix.len() + 22);
    id.push_str(prefix);
    for _ in 0..22 {
        id.push(char::from(*rng.pick(LETTERS)));
    }
    id
}

/// Returns lower-case hex digits, as in agent ids and backup names.
pub fn hex_id(rng: &mut Rng, digits: usize) -> String {
    (0..digits)
        .map(|_| char::from(*rng.pick(b"0123456789abcdef")))
        .collect()
}

/// Formats milliseconds since 1970 as `2026-01-05T17:35:47.300Z`.
pub fn timestamp(millis: u64) -> String {
    let (days, in_day) = (millis / 86_400_000, millis % 86_400_000);
    // Days to civil date, by eras of 400 years that start on March 1st, so that the leap day comes last.
    let shifted = days + 719_468;
    let era = shifted / 146_097;
    let of_era = shifted % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (in_day / 3_600_000, in_day / 60_000 % 60);
    let (second, milli) = (in_day / 1000 % 60, in_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_civil_dates() {
        assert_eq!(timestamp(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(timestamp(1_709_210_096_789), "2024-02-29T12:34:56.789Z");
        assert_eq!(timestamp(1_767_225_599_999), "2025-12-31T23:59:59.999Z");
    }

    #[test]
    fn escapes_survive_a_parser() {
        let text = "tab\t quote\" back\\slash\r\n bell\u{7} snow☃ 😀";
        assert_eq!(serde_json::from_str::<String>(&quoted(text)).unwrap(), text);
    }
}
