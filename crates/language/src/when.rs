//! Times as text, and back.

use jiff::Timestamp;

/// Milliseconds since 1970, UTC.
pub type Time = i64;

/// A day in milliseconds.
pub const DAY: Time = 24 * HOUR;

/// An hour in milliseconds.
pub const HOUR: Time = 3_600_000;

/// `2026-11-16T06:00:00Z`.
pub fn format_timestamp(time: Time) -> Option<String> {
    Timestamp::from_millisecond(time).ok().map(|time| time.to_string())
}

/// `2026-11-16`, in UTC.
pub fn format_date(time: Time) -> String {
    format_timestamp(time).map_or_else(String::new, |text| text.chars().take(10).collect())
}

/// The time of a timestamp.
pub fn parse_timestamp(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().map(|time| time.as_millisecond())
}

/// How old something is, for people; nothing for the future.
pub fn format_age(then: Time, now: Time) -> String {
    match now.saturating_sub(then) / DAY {
        ..=0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}
