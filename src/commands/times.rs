//! Which times count: from the options of a command to a range of time.

use crate::cli::TimeArgs;
use crate::usage::session::TimeRange;
use crate::usage::tally::start_of_last_days;
use anyhow::{Context, Result, anyhow, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use transcript::log::Time;

/// Times as they were asked for.
pub struct TimeSelection {
    /// Zone of days.
    pub zone: TimeZone,
    range: TimeRange,
    last: Option<u32>,
}

impl TimeSelection {
    /// Reads the options.
    pub fn new(args: &TimeArgs) -> Result<TimeSelection> {
        let zone = parse_zone(&args.timezone)?;
        let moment = |text: &Option<String>, is_end: bool| {
            let moment = text.as_deref().map(|text| parse_time_bound(text, &zone, is_end));
            moment.transpose().context(if is_end { "--until" } else { "--since" })
        };
        let range = TimeRange {
            since: moment(&args.since, false)?,
            until: moment(&args.until, true)?,
        };
        if let (Some(since), Some(until)) = (range.since, range.until)
            && since >= until
        {
            bail!("--since must lie before --until");
        }
        Ok(TimeSelection {
            zone,
            range,
            last: args.last,
        })
    }

    /// Whether the range depends on the logs.
    pub fn needs_newest(&self) -> bool {
        self.last.is_some()
    }

    /// Returns the range that counts. The last days are those before the newest record of the logs, so that the same logs give
    /// the same answer on any day; `newest` is asked only for these.
    pub fn range(&self, newest: impl FnOnce() -> Option<Time>) -> TimeRange {
        let Some(days) = self.last else { return self.range };
        TimeRange {
            since: newest().and_then(|newest| start_of_last_days(newest, days, &self.zone)),
            until: None,
        }
    }
}

/// A time zone by its name.
pub fn parse_zone(name: &str) -> Result<TimeZone> {
    match name {
        // Looking it up would mean listing all zones of the system.
        "UTC" => Ok(TimeZone::UTC),
        name => TimeZone::get(name).map_err(|cause| {
            anyhow!("--timezone {name}: {cause}\n  hint: names are like `Europe/Zurich` or `America/New_York`")
        }),
    }
}

/// A date or a time; as an end, a date means the end of its day. A time that names no zone is one of `zone`.
fn parse_time_bound(text: &str, zone: &TimeZone, is_end: bool) -> Result<Time> {
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp.as_millisecond());
    }
    if let Ok(zoned) = text.parse::<Zoned>() {
        return Ok(zoned.timestamp().as_millisecond());
    }
    let refuse = || anyhow!("`{text}` is neither a date (2026-11-01) nor a time (2026-11-01T12:00:00Z)");
    // Who parses a date passes over a time behind it, and who parses a time over a zone.
    if text.contains(|sign: char| !sign.is_ascii_digit() && sign != '-') {
        let time = text.parse::<DateTime>().ok().filter(|_| !text.contains('['));
        let time = time.ok_or_else(refuse)?;
        return Ok(time.to_zoned(zone.clone())?.timestamp().as_millisecond());
    }
    let date = text.parse::<Date>().map_err(|_| refuse())?;
    let date = if is_end { date.checked_add(1.day())? } else { date };
    Ok(date.to_zoned(zone.clone())?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        let zone = TimeZone::get("Europe/Zurich").unwrap();
        let check = |text: &str, is_end: bool, expected: &str| {
            let moment = parse_time_bound(text, &zone, is_end).unwrap();
            assert_eq!(Timestamp::from_millisecond(moment).unwrap().to_string(), expected);
        };
        check("2026-11-01", false, "2026-10-31T23:00:00Z");
        check("2026-11-01", true, "2026-11-01T23:00:00Z");
        check("2026-11-01T12:00:00Z", true, "2026-11-01T12:00:00Z");
        for is_end in [false, true] {
            check("2026-11-01T12:00:00", is_end, "2026-11-01T11:00:00Z");
            check("2026-11-01 12:00", is_end, "2026-11-01T11:00:00Z");
            check("2026-11-01T12:00:00+05:00", is_end, "2026-11-01T07:00:00Z");
            check("2026-11-01T12:00[America/New_York]", is_end, "2026-11-01T17:00:00Z");
        }
        for nonsense in [
            "yesterday",
            "2026-11-01T",
            "2026-11-01T12:00:00[Nowhere/Land]",
            "2026-13-01",
        ] {
            assert!(parse_time_bound(nonsense, &zone, false).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn days_count_back_from_the_newest_record() {
        let zone = TimeZone::get("Europe/Zurich").unwrap();
        let newest = "2026-11-01T23:30:00Z".parse::<Timestamp>().unwrap().as_millisecond();
        let check = |days: u32, zone: &TimeZone, expected: &str| {
            let start = start_of_last_days(newest, days, zone).unwrap();
            assert_eq!(Timestamp::from_millisecond(start).unwrap().to_string(), expected);
        };
        check(1, &TimeZone::UTC, "2026-11-01T00:00:00Z");
        check(7, &TimeZone::UTC, "2026-10-26T00:00:00Z");
        check(1, &zone, "2026-11-01T23:00:00Z");
        check(10, &zone, "2026-10-23T22:00:00Z");
    }
}
