//! Numbers in words, for people.

/// A number with its thousands set apart.
pub fn group_digits(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things.
pub fn format_count(number: u64, noun: &str) -> String {
    format_count_with_plural(number, noun, &format!("{noun}s"))
}

/// A number of things whose plural is not made with an s.
pub fn format_count_with_plural(number: u64, one: &str, several: &str) -> String {
    format!("{} {}", group_digits(number), if number == 1 { one } else { several })
}

/// A share of a whole.
pub fn format_percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        "none".into()
    } else {
        format!("{:.1} %", 100.0 * part as f64 / whole as f64)
    }
}

/// Money.
pub fn format_dollars(micro: Option<i64>) -> String {
    micro.map_or("no price".into(), |micro| {
        let cents = (micro.unsigned_abs() + 5_000) / 10_000;
        let sign = if micro < 0 { "-" } else { "" };
        format!("{sign}${}.{:02}", group_digits(cents / 100), cents % 100)
    })
}

/// A number of bytes.
pub fn format_size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} bytes"),
        1_000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.2} GB", bytes as f64 / 1e9),
    }
}

/// A word as a shell takes it.
pub fn shell_quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-./,:@%+=~".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_for_a_shell() {
        assert_eq!(shell_quote("logs/a.jsonl"), "logs/a.jsonl");
        assert_eq!(shell_quote("my logs"), "'my logs'");
        assert_eq!(shell_quote("it's $(x)"), "'it'\\''s $(x)'");
        assert_eq!(shell_quote(""), "''");
    }

    #[test]
    fn numbers_for_people() {
        assert_eq!(group_digits(1_234_567), "1,234,567");
        assert_eq!(group_digits(12), "12");
        assert_eq!(format_size(1_500_000), "1.5 MB");
        assert_eq!(format_percent(1, 3), "33.3 %");
        assert_eq!(format_dollars(Some(1_134_184_999)), "$1,134.18");
        assert_eq!(format_dollars(Some(-55_000)), "-$0.06");
        assert_eq!(format_dollars(None), "no price");
    }
}
