//! Timestamps and ages as text.

use jiff::Timestamp;

/// Milliseconds since 1970, UTC.
pub type Time = i64;

/// A day in milliseconds.
pub const DAY: Time = 24 * HOUR;

/// An hour in milliseconds.
pub const HOUR: Time = 3_600_000;

/// Formats a time as `2026-11-16T06:00:00Z`; `None` if it is out of range.
pub fn format_timestamp(time: Time) -> Option<String> {
    Timestamp::from_millisecond(time).ok().map(|time| time.to_string())
}

/// Formats the day of a time in UTC as `2026-11-16`; empty if it is out of range.
pub fn format_date(time: Time) -> String {
    format_timestamp(time).map_or_else(String::new, |text| text.chars().take(10).collect())
}

/// Parses a timestamp; `None` if it is not one.
pub fn parse_timestamp(text: &str) -> Option<Time> {
    text.parse::<Timestamp>().ok().map(|time| time.as_millisecond())
}

/// Formats an age in days for people; a time in the future is `today`.
pub fn format_age(then: Time, now: Time) -> String {
    match now.saturating_sub(then) / DAY {
        ..=0 => "today".to_owned(),
        1 => "yesterday".to_owned(),
        days => format!("{days} days ago"),
    }
}
