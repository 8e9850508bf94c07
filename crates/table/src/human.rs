//! Cells as people read them in the terminal table: humanised tokens, money, shares, durations and times.
//! Exact numbers are the business of the other formats.

use crate::columns::{CellValue, ColumnUnit, timestamp};

/// The text of one cell. Free text passes [`harmless`]; a missing cell is empty, never a zero.
pub fn format_cell(unit: ColumnUnit, value: &CellValue) -> String {
    match (unit, value) {
        (_, CellValue::None) => String::new(),
        (ColumnUnit::Id, CellValue::Text(text)) => sanitize(&text.chars().take(8).collect::<String>()),
        (_, CellValue::Text(text)) => sanitize(text),
        (_, CellValue::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        (ColumnUnit::Ratio, CellValue::Float(number)) => format!("{number:.2}"),
        (_, CellValue::Float(share)) => format!("{:.1} %", share * 100.0),
        (ColumnUnit::Time, CellValue::Int(millis)) => {
            timestamp(*millis).map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
        }
        (_, CellValue::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            let size = number.unsigned_abs();
            let text = match unit {
                ColumnUnit::Tokens => format_tokens(size),
                ColumnUnit::MicroUsd => format_dollars(size),
                ColumnUnit::Millis => format_duration(size),
                _ => group_digits(size),
            };
            format!("{sign}{text}")
        }
    }
}

/// Text that cannot act on the terminal: control characters (escape sequences, line breaks) become spaces; marks that
/// reorder the line or take no room, and would hide what is there, go.
pub fn sanitize(text: &str) -> String {
    let visible = |c: &char| {
        let reorders = matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        let hides = matches!(c, '\u{ad}' | '\u{200b}' | '\u{2060}'..='\u{2065}' | '\u{feff}');
        !reorders && !hides
    };
    let plain = |c: char| {
        if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
            ' '
        } else {
            c
        }
    };
    text.chars().filter(visible).map(plain).collect()
}

/// Three significant digits: 999, 1.23k, 45.6k, 789k, 1.23M.
fn format_tokens(count: u64) -> String {
    if count < 1_000 {
        return count.to_string();
    }
    // A number that would round up to 1000 belongs to the next suffix, hence the bounds just below powers of ten.
    let mut scaled = count as f64 / 1e3;
    let mut suffixes = ["k", "M", "B", "T"].iter();
    let mut suffix = suffixes.next();
    while scaled >= 999.5 {
        let Some(next) = suffixes.next() else { break };
        suffix = Some(next);
        scaled /= 1e3;
    }
    let decimals = match scaled {
        small if small < 9.995 => 2,
        medium if medium < 99.95 => 1,
        _ => 0,
    };
    format!("{scaled:.decimals$}{}", suffix.unwrap_or(&""))
}

/// Cents, or four decimals below ten cents, where a single round of a small model lies.
fn format_dollars(micro: u64) -> String {
    match micro {
        1..50 => "<$0.0001".to_owned(),
        50..100_000 => format!("$0.{:04}", (micro + 50) / 100),
        _ => {
            let cents = (micro + 5_000) / 10_000;
            format!("${}.{:02}", group_digits(cents / 100), cents % 100)
        }
    }
}

/// The two largest units that matter, rounded down.
fn format_duration(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Digits in groups of three.
fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(unit: ColumnUnit, cases: &[(i64, &str)]) {
        for (number, expected) in cases {
            assert_eq!(
                format_cell(unit, &CellValue::Int(*number)),
                *expected,
                "{unit:?} {number}"
            );
        }
    }

    #[test]
    fn tokens_have_three_digits() {
        check(
            ColumnUnit::Tokens,
            &[
                (0, "0"),
                (999, "999"),
                (1_000, "1.00k"),
                (1_234, "1.23k"),
                (9_994, "9.99k"),
                (9_996, "10.0k"),
                (45_649, "45.6k"),
                (99_960, "100k"),
                (999_499, "999k"),
                (999_500, "1.00M"),
                (1_234_567, "1.23M"),
                (48_213_377, "48.2M"),
                (7_000_000_000, "7.00B"),
                (-45_649, "-45.6k"),
                (i64::MAX, "9223372T"),
            ],
        );
    }

    #[test]
    fn money_has_cents_or_four_decimals() {
        check(
            ColumnUnit::MicroUsd,
            &[
                (0, "$0.00"),
                (3, "<$0.0001"),
                (12_345, "$0.0123"),
                (99_999, "$0.1000"),
                (100_000, "$0.10"),
                (12_344_999, "$12.34"),
                (12_345_000, "$12.35"),
                (1_234_567_000_000, "$1,234,567.00"),
                (-12_345, "-$0.0123"),
            ],
        );
    }

    #[test]
    fn counts_durations_and_times() {
        check(
            ColumnUnit::Count,
            &[
                (0, "0"),
                (999, "999"),
                (1_284, "1,284"),
                (-1_000_000, "-1,000,000"),
                (i64::MIN, "-9,223,372,036,854,775,808"),
            ],
        );
        check(
            ColumnUnit::Millis,
            &[
                (0, "0 ms"),
                (950, "950 ms"),
                (12_345, "12.3 s"),
                (59_999, "59.9 s"),
                (245_000, "4m 05s"),
                (11_524_000, "3h 12m"),
                (183_600_000, "2d 03h"),
            ],
        );
        check(
            ColumnUnit::Time,
            &[(0, "1970-01-01 00:00:00Z"), (1_767_323_045_678, "2026-01-02 03:04:05Z")],
        );
    }

    #[test]
    fn shares_flags_and_gaps() {
        assert_eq!(format_cell(ColumnUnit::Share, &CellValue::Float(0.1234)), "12.3 %");
        assert_eq!(format_cell(ColumnUnit::Share, &CellValue::Float(1.0)), "100.0 %");
        assert_eq!(format_cell(ColumnUnit::Flag, &CellValue::Flag(true)), "yes");
        assert_eq!(format_cell(ColumnUnit::Tokens, &CellValue::None), "");
    }

    #[test]
    fn text_cannot_act_on_the_terminal() {
        let hostile = "a\u{1b}[31mb\nc\td\u{7}\u{9b}e\u{202e}f\u{2028}g\u{200b}h";
        assert_eq!(
            format_cell(ColumnUnit::Text, &CellValue::from(hostile)),
            "a [31mb c d  ef gh"
        );
    }
}
