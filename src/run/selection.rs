//! The filters of a command line: what was typed, and what it comes to once the newest record is known.
//!
//! Nothing here asks the clock. Relative times count from `--now`, or from the newest record of the logs, so that the same logs
//! give the same answer on any day.

use crate::usage::period::{day_of, start_of_last_days};
use crate::usage::selection::Selection;
use crate::usage::session::TimeRange;
use anyhow::{Result, bail};
use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};

/// Unit of a stretch of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SpanUnit {
    Hour,
    Day,
    Week,
    Month,
}

/// A stretch of time that ends now: `7d`, `36h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan {
    count: u32,
    unit: SpanUnit,
}

impl TimeSpan {
    /// Reads a span; a number alone means days.
    pub fn parse(text: &str) -> Result<TimeSpan, String> {
        const MOST: u32 = 100_000;
        let text = text.trim();
        let digits = text.find(|sign: char| !sign.is_ascii_digit()).unwrap_or(text.len());
        let (count, unit) = text.split_at(digits);
        let unit = match unit.trim() {
            "h" => SpanUnit::Hour,
            "" | "d" => SpanUnit::Day,
            "w" => SpanUnit::Week,
            "mo" => SpanUnit::Month,
            _ => return Err("a span is a number and a unit: 36h, 7d, 2w or 3mo".to_owned()),
        };
        match count.parse::<u32>() {
            Ok(count @ 1..=MOST) => Ok(TimeSpan { count, unit }),
            _ => Err(format!(
                "a span is 1 to {MOST} hours (h), days (d), weeks (w) or months (mo)"
            )),
        }
    }

    /// Returns its start. Days, weeks and months are whole days and include the day of `now`.
    fn start(self, now: Time, zone: &TimeZone) -> Option<Time> {
        match self.unit {
            SpanUnit::Hour => Some(now - i64::from(self.count) * 3_600_000),
            SpanUnit::Day => start_of_last_days(now, self.count, zone),
            SpanUnit::Week => start_of_last_days(now, self.count.saturating_mul(7), zone),
            SpanUnit::Month => {
                let day = Timestamp::from_millisecond(now).ok()?.to_zoned(zone.clone()).date();
                let first = day.checked_sub(i64::from(self.count).months()).ok()?.tomorrow().ok()?;
                start_of_day(first, zone)
            }
        }
    }

    fn words(self) -> String {
        let noun = match self.unit {
            SpanUnit::Hour => "hour",
            SpanUnit::Day => "day",
            SpanUnit::Week => "week",
            SpanUnit::Month => "month",
        };
        table::human::format_count(u64::from(self.count), noun)
    }
}

/// One end of a range of times, as typed.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeBound {
    /// A point in time.
    Instant(Time),
    /// A local time in the zone of the command.
    Local(DateTime),
    /// A day.
    Day(Date),
    /// The start of a span that ends now.
    Ago(TimeSpan),
    /// The day of `now`.
    Today,
    /// The day before.
    Yesterday,
}

impl TimeBound {
    /// Reads a date, a time, a span (`7d`), `today` or `yesterday`.
    pub fn parse(text: &str) -> Result<TimeBound, String> {
        let refuse = || {
            format!("`{text}` is neither a date (2026-11-01), a time (2026-11-01T12:00:00Z) nor a span (7d, yesterday)")
        };
        match text {
            "today" | "now" => return Ok(TimeBound::Today),
            "yesterday" => return Ok(TimeBound::Yesterday),
            _ => {}
        }
        let is_span = text.len() > 1 && text.ends_with(|sign: char| sign.is_ascii_lowercase());
        if is_span && text.starts_with(|sign: char| sign.is_ascii_digit()) && !text.contains([':', '-']) {
            return TimeSpan::parse(text).map(TimeBound::Ago);
        }
        if let Ok(timestamp) = text.parse::<Timestamp>() {
            return Ok(TimeBound::Instant(timestamp.as_millisecond()));
        }
        if let Ok(zoned) = text.parse::<Zoned>() {
            return Ok(TimeBound::Instant(zoned.timestamp().as_millisecond()));
        }
        // The parser of dates ignores a time that follows, and the parser of times a zone.
        if text.contains(|sign: char| !sign.is_ascii_digit() && sign != '-') {
            let time = text.parse::<DateTime>().ok().filter(|_| !text.contains('['));
            return time.map(TimeBound::Local).ok_or_else(refuse);
        }
        text.parse::<Date>().map(TimeBound::Day).map_err(|_| refuse())
    }

    fn is_relative(&self) -> bool {
        matches!(self, TimeBound::Ago(_) | TimeBound::Today | TimeBound::Yesterday)
    }

    /// Returns the point in time. As an end, a day means the end of that day.
    fn resolve(&self, now: Option<Time>, zone: &TimeZone, is_end: bool) -> Option<Time> {
        let today = || {
            let now = Timestamp::from_millisecond(now?).ok()?;
            Some(now.to_zoned(zone.clone()).date())
        };
        let day = |date: Date| start_of_day(if is_end { date.tomorrow().ok()? } else { date }, zone);
        match self {
            TimeBound::Instant(time) => Some(*time),
            TimeBound::Local(time) => Some(time.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond()),
            TimeBound::Day(date) => day(*date),
            TimeBound::Ago(span) => span.start(now?, zone),
            TimeBound::Today => day(today()?),
            TimeBound::Yesterday => day(today()?.yesterday().ok()?),
        }
    }
}

fn start_of_day(date: Date, zone: &TimeZone) -> Option<Time> {
    Some(date.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())
}

/// Reads a time zone: its name, `UTC`, or `local` for that of this machine.
#[allow(
    clippy::disallowed_methods,
    reason = "only if the user asks for it, or for tables on a terminal"
)]
pub fn parse_zone(name: &str) -> Result<TimeZone, String> {
    match name {
        // Looking it up would mean listing all zones of the system.
        "UTC" => Ok(TimeZone::UTC),
        "local" => Ok(TimeZone::system()),
        name => TimeZone::get(name)
            .map_err(|cause| format!("{cause}\n  hint: names are like `Europe/Zurich` or `America/New_York`")),
    }
}

/// Filters as they were typed.
#[derive(Debug, Clone)]
pub struct SelectionQuery {
    /// From here on.
    pub since: Option<TimeBound>,
    /// Up to here.
    pub until: Option<TimeBound>,
    /// Only this stretch of time before now.
    pub last: Option<TimeSpan>,
    /// What relative times count from; the newest record if `None`.
    pub now: Option<TimeBound>,
    /// Zone of days.
    pub zone: TimeZone,
    /// Coding agents.
    pub agents: Vec<Agent>,
    /// Parts of project paths.
    pub projects: Vec<String>,
    /// Parts of model names.
    pub models: Vec<String>,
    /// Beginnings of ids or parts of titles.
    pub sessions: Vec<String>,
    /// Whether anything was found to be selected.
    pub found: Arc<AtomicBool>,
}

impl Default for SelectionQuery {
    fn default() -> SelectionQuery {
        SelectionQuery {
            since: None,
            until: None,
            last: None,
            now: None,
            zone: TimeZone::UTC,
            agents: Vec::new(),
            projects: Vec::new(),
            models: Vec::new(),
            sessions: Vec::new(),
            found: Arc::default(),
        }
    }
}

impl SelectionQuery {
    /// Whether the range depends on the newest record.
    pub fn needs_newest(&self) -> bool {
        let is_relative = |bound: &Option<TimeBound>| bound.as_ref().is_some_and(TimeBound::is_relative);
        self.now.is_none() && (self.last.is_some() || is_relative(&self.since) || is_relative(&self.until))
    }

    /// Refuses a range that ends before it begins, as far as that does not depend on the logs.
    pub fn check(&self) -> Result<()> {
        if self.now.as_ref().is_some_and(TimeBound::is_relative) {
            bail!("--now takes a date or a time, such as 2026-11-01");
        }
        if !self.needs_newest() {
            let range = self.range(None);
            if let (Some(since), Some(until)) = (range.since, range.until)
                && since >= until
            {
                bail!("--since must be before --until");
            }
        }
        Ok(())
    }

    /// Returns what relative times count from, given the time of the newest record.
    fn now(&self, newest: Option<Time>) -> Option<Time> {
        let is_end = matches!(self.now, Some(TimeBound::Day(_)));
        match &self.now {
            // A day as `now` is the last moment of that day.
            Some(now) => Some(now.resolve(None, &self.zone, true)? - Time::from(is_end)),
            None => newest,
        }
    }

    fn range(&self, newest: Option<Time>) -> TimeRange {
        let now = self.now(newest);
        if let Some(span) = self.last {
            return TimeRange {
                since: now.and_then(|now| span.start(now, &self.zone)),
                // Without `--now` nothing is newer than now.
                until: now.filter(|_| self.now.is_some()).map(|now| now + 1),
            };
        }
        let bound = |bound: &Option<TimeBound>, is_end| bound.as_ref()?.resolve(now, &self.zone, is_end);
        TimeRange {
            since: bound(&self.since, false),
            until: bound(&self.until, true),
        }
    }

    /// Returns what counts, given the time of the newest record.
    pub fn resolve(&self, newest: Option<Time>) -> Selection {
        let lower = |texts: &[String]| texts.iter().map(|text| text.to_lowercase()).collect();
        let range = self.range(newest);
        Selection {
            range,
            agents: self.agents.clone(),
            projects: lower(&self.projects),
            models: lower(&self.models),
            sessions: lower(&self.sessions),
            label: self.label(range, newest),
            found: Arc::clone(&self.found),
        }
    }

    /// Returns what to say if sessions were looked at and none was selected, given the time of the newest record.
    pub fn explain_nothing(&self, newest: Option<Time>) -> Option<String> {
        let selection = self.resolve(newest);
        let is_nothing = !selection.is_everything() && !self.found.load(Ordering::Relaxed);
        is_nothing.then(|| self.nothing(selection.range, newest))
    }

    /// Returns the filters in words: `7 days to 2026-08-20, project shop`.
    fn label(&self, range: TimeRange, newest: Option<Time>) -> String {
        let day = |time: Time| day_of(time, &self.zone);
        let mut parts = Vec::new();
        match (self.last, range.since, range.until) {
            (Some(span), ..) => {
                let now = self.now(newest).map(|now| format!(" to {}", day(now)));
                parts.push(format!("{}{}", span.words(), now.unwrap_or_default()));
            }
            (None, None, None) => {}
            (None, since, until) => {
                let since = since.map(|since| format!("from {}", day(since)));
                let until = until
                    .map(|until| until - 1)
                    .or(newest.filter(|newest| *newest != NO_TIME));
                let until = until.map(|until| format!("to {}", day(until)));
                parts.push([since, until].into_iter().flatten().collect::<Vec<_>>().join(" "));
            }
        }
        let agents = self.agents.iter().map(|agent| agent.name().to_owned()).collect();
        for (noun, texts) in [
            ("agent", &agents),
            ("project", &self.projects),
            ("model", &self.models),
            ("session", &self.sessions),
        ] {
            if !texts.is_empty() {
                parts.push(format!("{noun} {}", texts.join(" or ")));
            }
        }
        parts.join(", ")
    }

    /// Returns what to say if nothing is selected.
    fn nothing(&self, range: TimeRange, newest: Option<Time>) -> String {
        let end = newest.map(|newest| format!("; logs end {}", day_of(newest, &self.zone)));
        let lists = [&self.projects, &self.models, &self.sessions];
        let is_named = !self.agents.is_empty() || lists.iter().any(|texts| !texts.is_empty());
        let what = match (range.is_unbounded(), is_named) {
            (false, false) => "Nothing in this time",
            (true, _) => "No session matches",
            (false, true) => "No session in this time matches",
        };
        let named = match is_named {
            true => {
                let named = SelectionQuery {
                    last: None,
                    ..self.clone()
                };
                format!(" {}", named.label(TimeRange::default(), None))
            }
            false => String::new(),
        };
        format!("{what}{named}{}.", end.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Time {
        text.parse::<Timestamp>().unwrap().as_millisecond()
    }

    #[test]
    fn bounds_are_points_in_time() {
        let zone = TimeZone::get("Europe/Zurich").unwrap();
        let now = at("2026-11-10T12:00:00Z");
        let check = |text: &str, is_end: bool, expected: &str| {
            let bound = TimeBound::parse(text).unwrap();
            assert_eq!(bound.resolve(Some(now), &zone, is_end), Some(at(expected)), "{text}");
        };
        check("2026-11-01", false, "2026-10-31T23:00:00Z");
        check("2026-11-01", true, "2026-11-01T23:00:00Z");
        check("2026-11-01T12:00:00Z", true, "2026-11-01T12:00:00Z");
        for is_end in [false, true] {
            check("2026-11-01T12:00:00", is_end, "2026-11-01T11:00:00Z");
            check("2026-11-01 12:00", is_end, "2026-11-01T11:00:00Z");
            check("2026-11-01T12:00:00+05:00", is_end, "2026-11-01T07:00:00Z");
            check("2026-11-01T12:00[America/New_York]", is_end, "2026-11-01T17:00:00Z");
            check("7d", is_end, "2026-11-03T23:00:00Z");
            check("36h", is_end, "2026-11-09T00:00:00Z");
            check("1w", is_end, "2026-11-03T23:00:00Z");
        }
        check("1mo", false, "2026-10-10T22:00:00Z");
        check("today", false, "2026-11-09T23:00:00Z");
        check("yesterday", false, "2026-11-08T23:00:00Z");
        check("yesterday", true, "2026-11-09T23:00:00Z");
        for nonsense in [
            "tomorrow",
            "2026-11-01T",
            "2026-11-01T12:00:00[Nowhere/Land]",
            "2026-13-01",
            "0d",
            "7y",
            "",
        ] {
            assert!(TimeBound::parse(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn the_last_days_end_with_the_newest_record_or_with_now() {
        let newest = Some(at("2026-11-01T23:30:00Z"));
        let last = |count: &str, zone: &str, now: Option<&str>| {
            let query = SelectionQuery {
                last: Some(TimeSpan::parse(count).unwrap()),
                now: now.map(|now| TimeBound::parse(now).unwrap()),
                zone: parse_zone(zone).unwrap(),
                ..SelectionQuery::default()
            };
            assert_eq!(query.needs_newest(), now.is_none());
            let selection = query.resolve(newest);
            (selection.range.since.unwrap(), selection.label)
        };
        assert_eq!(
            last("1", "UTC", None),
            (at("2026-11-01T00:00:00Z"), "1 day to 2026-11-01".into())
        );
        assert_eq!(last("7d", "UTC", None).0, at("2026-10-26T00:00:00Z"));
        assert_eq!(
            last("1", "Europe/Zurich", None),
            (at("2026-11-01T23:00:00Z"), "1 day to 2026-11-02".into())
        );
        let (since, label) = last("2", "UTC", Some("2026-10-20"));
        assert_eq!(
            (since, label.as_str()),
            (at("2026-10-19T00:00:00Z"), "2 days to 2026-10-20")
        );
    }

    #[test]
    fn nothing_is_explained() {
        let query = SelectionQuery {
            since: Some(TimeBound::parse("2027-01-01").unwrap()),
            ..SelectionQuery::default()
        };
        let newest = Some(at("2026-11-01T23:30:00Z"));
        let nothing = query.explain_nothing(newest);
        assert_eq!(nothing.as_deref(), Some("Nothing in this time; logs end 2026-11-01."));
        let query = SelectionQuery {
            projects: vec!["shop".into()],
            ..SelectionQuery::default()
        };
        let nothing = query.explain_nothing(newest);
        assert_eq!(
            nothing.as_deref(),
            Some("No session matches project shop; logs end 2026-11-01.")
        );
        query.resolve(newest).mark_found();
        assert_eq!(query.explain_nothing(newest), None);
    }
}
