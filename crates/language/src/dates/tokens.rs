//! Tokens of English dates, and the values of their words.

use super::MONTHS;
use jiff::Span;
use jiff::civil::Weekday;
use std::ops::Range;

/// A token of a text.
#[derive(Debug, Clone, PartialEq)]
pub enum DateToken {
    /// Letters, in lower case.
    Word(String),
    /// Digits: the value, their number, and whether `st`, `nd`, `rd` or `th` follows.
    Number(i64, usize, bool),
    /// Any other character that is not blank.
    Sign(char),
}

/// Tokens after this many are ignored: such a text is not a sentence.
const MAX_TOKENS: usize = 4_000;

/// Cuts a text into tokens and returns them with their ranges.
pub fn tokenize(text: &str) -> (Vec<DateToken>, Vec<Range<usize>>) {
    let (mut tokens, mut ranges) = (Vec::new(), Vec::new());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && tokens.len() < MAX_TOKENS {
        let start = at;
        let run = |at: usize, is: fn(&u8) -> bool| at + bytes[at..].iter().take_while(|byte| is(byte)).count();
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                at = run(at, u8::is_ascii_digit);
                let digits = at - start;
                let suffix = run(at, u8::is_ascii_alphabetic);
                let ordinal = matches!(
                    text[at..suffix].to_ascii_lowercase().as_str(),
                    "st" | "nd" | "rd" | "th"
                );
                // A run that does not parse is too long for a date.
                tokens.push(DateToken::Number(
                    text[start..at].parse().unwrap_or(-1),
                    digits,
                    ordinal,
                ));
                if ordinal {
                    at = suffix;
                }
            }
            byte if byte.is_ascii_alphabetic() => {
                at = run(at, |byte| byte.is_ascii_alphabetic() || *byte == b'\'');
                tokens.push(DateToken::Word(text[start..at].to_ascii_lowercase()));
            }
            _ => {
                let sign = text[at..].chars().next().unwrap_or(' ');
                at += sign.len_utf8();
                tokens.push(DateToken::Sign(sign));
            }
        }
        ranges.push(start..at);
    }
    (tokens, ranges)
}

/// Adds a number of units to a span; `None` for a word that is not a unit.
pub fn add_unit(span: Span, count: i64, unit: &str) -> Option<Span> {
    let name = unit.trim_end_matches('s');
    match name {
        "day" => span.try_days(i64::from(span.get_days()) + count),
        "week" => span.try_weeks(i64::from(span.get_weeks()) + count),
        "fortnight" => span.try_weeks(i64::from(span.get_weeks()) + 2 * count),
        "month" => span.try_months(i64::from(span.get_months()) + count),
        "year" => span.try_years(i64::from(span.get_years()) + count),
        _ => return None,
    }
    .ok()
}

/// Returns the number of a month from 1, by its name or its usual abbreviation.
pub fn month_number(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|name| {
        *name == word || word.len() == 3 && name.starts_with(word) || word == "sept" && *name == "september"
    })?;
    Some(at as i8 + 1)
}

/// Returns a weekday, and whether its name is written in full.
pub fn weekday_of_name(word: &str) -> Option<(Weekday, bool)> {
    const NAMES: [(&str, &[&str], Weekday); 7] = [
        ("monday", &["mon"], Weekday::Monday),
        ("tuesday", &["tue", "tues"], Weekday::Tuesday),
        ("wednesday", &["wed", "weds"], Weekday::Wednesday),
        ("thursday", &["thu", "thur", "thurs"], Weekday::Thursday),
        ("friday", &["fri"], Weekday::Friday),
        ("saturday", &["sat"], Weekday::Saturday),
        ("sunday", &["sun"], Weekday::Sunday),
    ];
    NAMES
        .iter()
        .find(|(name, short, _)| *name == word || short.contains(&word))
        .map(|(name, _, weekday)| (*weekday, *name == word))
}

/// Returns the value of `one` to `nineteen`.
pub fn number_below_twenty(word: &str) -> Option<i64> {
    const NAMES: [&str; 19] = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    NAMES.iter().position(|name| *name == word).map(|at| at as i64 + 1)
}

/// Returns the value of `twenty` to `ninety`.
pub fn tens_value(word: &str) -> Option<i64> {
    const NAMES: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    NAMES
        .iter()
        .position(|name| *name == word)
        .map(|at| 10 * (at as i64 + 2))
}

/// Returns the value of `first` to `twentieth`, and of `thirtieth`.
pub fn ordinal_value(word: &str) -> Option<i64> {
    const NAMES: [&str; 20] = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
        "eighteenth",
        "nineteenth",
        "twentieth",
    ];
    if word == "thirtieth" {
        return Some(30);
    }
    NAMES.iter().position(|name| *name == word).map(|at| at as i64 + 1)
}
