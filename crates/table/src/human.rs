//! Numbers as people read them, in table cells and in sentences alike: grouped digits, counts, tokens, dollars, percents,
//! sizes and durations. The other formats have the exact numbers.

use crate::columns::{CellValue, ColumnUnit, timestamp};
use crate::words::sanitize;

/// Returns the text of one cell. Free text is sanitized; a missing cell is empty, never a zero.
pub fn format_cell(unit: ColumnUnit, value: &CellValue) -> String {
    match (unit, value) {
        (_, CellValue::None) => String::new(),
        (ColumnUnit::Id, CellValue::Text(text)) => sanitize(&text.chars().take(8).collect::<String>()),
        (_, CellValue::Text(text)) => sanitize(text),
        (_, CellValue::Flag(flag)) => if *flag { "yes" } else { "no" }.to_owned(),
        (ColumnUnit::Ratio, CellValue::Float(number)) => format!("{number:.2}"),
        (_, CellValue::Float(share)) => format_share(*share),
        (ColumnUnit::Time, CellValue::Int(millis)) => {
            timestamp(*millis).map_or_else(String::new, |time| time.strftime("%Y-%m-%d %H:%M:%SZ").to_string())
        }
        (ColumnUnit::MicroUsd, CellValue::Int(micro)) => format_dollars(*micro),
        (ColumnUnit::Tokens, CellValue::Int(number)) => format_signed_tokens(*number),
        (_, CellValue::Int(number)) => {
            let sign = if *number < 0 { "-" } else { "" };
            let size = number.unsigned_abs();
            let text = if unit == ColumnUnit::Millis {
                format_duration(size)
            } else {
                group_digits(size)
            };
            format!("{sign}{text}")
        }
    }
}

/// Returns a number with its digits in groups of three.
pub fn group_digits(number: u64) -> String {
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

/// Returns a number and its noun: `1 session`, `2 sessions`.
pub fn format_count(number: u64, noun: &str) -> String {
    format_count_with_plural(number, noun, &format!("{noun}s"))
}

/// Returns a number and its noun, whose plural is not formed with an s.
pub fn format_count_with_plural(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", group_digits(number), if number == 1 { one } else { several })
}

/// Returns a number of tokens with three significant digits: 999, 1.23k, 45.6k, 789k, 1.23M.
pub fn format_tokens(count: u64) -> String {
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

/// Returns a number of tokens as [`format_tokens`] does, with a minus sign if it is negative.
pub fn format_signed_tokens(count: i64) -> String {
    let sign = if count < 0 { "-" } else { "" };
    format!("{sign}{}", format_tokens(count.unsigned_abs()))
}

/// Amounts below ten cents, in millionths of a dollar, get four decimals: a single call of a small model costs that little.
const FOUR_DECIMALS_BELOW: u64 = 100_000;

/// Returns millionths of a dollar as dollars and cents, or with four decimals below ten cents.
pub fn format_dollars(micro: i64) -> String {
    let sign = if micro < 0 { "-" } else { "" };
    match micro.unsigned_abs() {
        1..50 => format!("{sign}<$0.0001"),
        small @ 50..FOUR_DECIMALS_BELOW => format!("{sign}$0.{:04}", (small + 50) / 100),
        size => {
            let cents = (size + 5_000) / 10_000;
            format!("{sign}${}.{:02}", group_digits(cents / 100), cents % 100)
        }
    }
}

/// Rounds millionths of a dollar up to the last digit that [`format_dollars`] shows.
pub fn round_up_dollars(micro: i64) -> i64 {
    let step = if micro < FOUR_DECIMALS_BELOW.cast_signed() {
        100
    } else {
        10_000
    };
    micro.saturating_add(step - 1) / step * step
}

/// Returns dollars as [`format_dollars`] does, or `no price`.
pub fn format_price(micro: Option<i64>) -> String {
    micro.map_or_else(|| "no price".to_owned(), format_dollars)
}

/// Returns a part of a whole in percent, or `none` if the whole is empty.
pub fn format_percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "none".into()
    } else {
        format!("{:.1} %", 100.0 * part as f64 / whole as f64)
    }
}

/// Returns a share (0 to 1) in percent.
pub fn format_share(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Returns a number of bytes with a unit.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// Returns a duration in its two largest units, rounded down.
pub fn format_duration(millis: u64) -> String {
    let seconds = millis / 1_000;
    match seconds {
        0 => format!("{millis} ms"),
        1..60 => format!("{seconds}.{} s", millis % 1_000 / 100),
        60..3_600 => format!("{}m {:02}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {:02}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {:02}h", seconds / 86_400, seconds / 3_600 % 24),
    }
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
    fn numbers_in_sentences() {
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(group_digits(12), "12");
        assert_eq!(format_count(1, "call"), "1 call");
        assert_eq!(format_count(2_000, "call"), "2,000 calls");
        assert_eq!(format_size(1_500_000), "1.5 MB");
        assert_eq!(format_percent(1, 3), "33.3 %");
        assert_eq!(format_percent(0, 0), "none");
        assert_eq!(format_price(Some(1_134_184_999)), "$1,134.18");
        assert_eq!(format_price(Some(-55_000)), "-$0.0550");
        assert_eq!(format_price(None), "no price");
        assert_eq!(
            [0, 1, 99_901, 100_001].map(round_up_dollars),
            [0, 100, 100_000, 110_000]
        );
    }
}
