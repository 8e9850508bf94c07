//! RFC 3339 timestamps as milliseconds since 1970.

use crate::log::{NO_TIME, Time};

/// Parses an RFC 3339 timestamp. Returns [`NO_TIME`] if it is invalid. The notation of the client takes a fast path.
pub(crate) fn parse_time(text: &[u8]) -> Time {
    if let Ok(usual) = text.try_into()
        && let Some(time) = parse_common_time(usual)
    {
        return time;
    }
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse::<jiff::Timestamp>().ok())
        .map_or(NO_TIME, |time| time.as_millisecond())
}

/// Memoizes the minute read last: the next timestamp is usually in the same minute.
#[derive(Default)]
pub(crate) struct MinuteCache {
    text: [u8; 17],
    start: Time,
}

impl MinuteCache {
    /// Parses as [`parse_time`] does, but only seconds if the minute is the memoized one.
    pub(crate) fn read(&mut self, text: &[u8]) -> Time {
        let Ok(usual) = <&[u8; 24]>::try_from(text) else {
            return parse_time(text);
        };
        let digit = |at: usize| i64::from(usual[at].wrapping_sub(b'0'));
        let is_seconds = usual[19] == b'.' && usual[23] == b'Z' && [18, 20, 21, 22].iter().all(|at| digit(*at) < 10);
        if usual[..17] == self.text && is_seconds && digit(17) < 6 {
            let seconds = digit(17) * 10 + digit(18);
            return self.start + seconds * 1000 + digit(20) * 100 + digit(21) * 10 + digit(22);
        }
        self.parse_minute(usual, is_seconds)
    }

    #[inline(never)]
    fn parse_minute(&mut self, usual: &[u8; 24], is_seconds: bool) -> Time {
        let time = parse_time(usual);
        if time != NO_TIME && is_seconds {
            self.text.copy_from_slice(&usual[..17]);
            self.start = time.div_euclid(60_000) * 60_000;
        }
        time
    }
}

/// Parses a time of the form `2026-08-07T16:21:32.976Z`. Returns `None` for any other form, and for February 29 and the
/// year 9999, which are left to the full parser.
fn parse_common_time(text: &[u8; 24]) -> Option<Time> {
    let mut is_usual = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'.'),
        (23, b'Z'),
    ]
    .iter()
    .all(|&(at, mark)| text[at] == mark);
    // Invalid digits are collected in `is_usual` and checked once, without a branch per digit.
    let mut number = |range: std::ops::Range<usize>| {
        text[range].iter().fold(0i64, |value, byte| {
            let digit = byte.wrapping_sub(b'0');
            is_usual &= digit < 10;
            value * 10 + i64::from(digit)
        })
    };
    let (year, month, day) = (number(0..4), number(5..7), number(8..10));
    let (hour, minute, second, milli) = (number(11..13), number(14..16), number(17..19), number(20..23));
    // Leap days and the end of the supported range are left to the full parser.
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let days = DAYS.get((month - 1) as usize).copied().unwrap_or(0);
    let is_in_range = year < 9_999 && (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60;
    (is_usual && is_in_range)
        .then(|| (((days_from_civil(year, month, day) * 24 + hour) * 60 + minute) * 60 + second) * 1000 + milli)
}

/// Returns the days since 1970-01-01 in the proleptic Gregorian calendar (Hinnant's algorithm: years start in March).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_parse_as_jiff_parses_them() {
        for text in [
            "1970-01-01T00:00:00.000Z",
            "2024-02-29T23:59:59.999Z",
            "2026-08-07T16:21:32.976Z",
            "2000-03-01T00:00:00.001Z",
        ] {
            let expected = text.parse::<jiff::Timestamp>().unwrap().as_millisecond();
            assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
            let mut minute = MinuteCache::default();
            assert_eq!(minute.read(text.as_bytes()), expected, "{text}");
            assert_eq!(minute.read(text.as_bytes()), expected, "{text}, its minute known");
            let wrong = text.replace('Z', "z");
            assert_eq!(minute.read(wrong.as_bytes()), parse_time(wrong.as_bytes()));
        }
        assert_eq!(
            parse_time(b"2026-08-07T18:21:32+02:00"),
            parse_time(b"2026-08-07T16:21:32.000Z")
        );
        assert_eq!(parse_time(b"yesterday"), NO_TIME);
        for invalid in [
            "2026-13-07",
            "2026-02-29",
            "2026-02-30",
            "2026-04-31",
            "2026-01-00",
            "9999-12-31",
        ] {
            assert_eq!(
                parse_time(format!("{invalid}T23:59:59.976Z").as_bytes()),
                NO_TIME,
                "{invalid}"
            );
        }
    }
}
