//! How calls are grouped, and the days, weeks and months that a group can be. `super::tally` makes the rows.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};
use transcript::log::{NO_TIME, Time};

/// Group rows by this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum GroupBy {
    /// One row a session.
    #[default]
    Session,
    /// One row a project (working directory).
    Project,
    /// One row a coding agent.
    Agent,
    /// One row a model.
    Model,
    /// One row a day.
    Day,
    /// One row a week, named by its Monday.
    Week,
    /// One row a month.
    Month,
    /// One row a git branch.
    Branch,
    /// One row a pull request: the calls since the session was linked to it, up to the next link.
    Pr,
    /// One row a user, by the home folder that sessions worked in.
    User,
    /// One row a tool: what its calls and results put into the window.
    Tool,
}

impl GroupBy {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            GroupBy::Session => "session",
            GroupBy::Project => "project",
            GroupBy::Agent => "agent",
            GroupBy::Model => "model",
            GroupBy::Day => "day",
            GroupBy::Week => "week",
            GroupBy::Month => "month",
            GroupBy::Branch => "branch",
            GroupBy::Pr => "pr",
            GroupBy::User => "user",
            GroupBy::Tool => "tool",
        }
    }

    /// Returns the period of time that a row covers; `None` if rows are not periods.
    pub fn period(self) -> Option<Period> {
        match self {
            GroupBy::Day => Some(Period::Day),
            GroupBy::Week => Some(Period::Week),
            GroupBy::Month => Some(Period::Month),
            _ => None,
        }
    }
}

/// A period of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Period {
    Day,
    Week,
    Month,
}

impl Period {
    /// Returns the first day of the period that a day lies in.
    fn first_day(self, day: Date) -> Option<Date> {
        match self {
            Period::Day => Some(day),
            Period::Week => {
                let since_monday = day.weekday().to_monday_zero_offset();
                day.checked_sub(i64::from(since_monday).days()).ok()
            }
            Period::Month => Some(day.first_of_month()),
        }
    }

    /// Returns the first day of the next period, given that of one.
    pub(super) fn next(self, first: Date) -> Option<Date> {
        let step = match self {
            Period::Day => 1.day(),
            Period::Week => 1.week(),
            Period::Month => 1.month(),
        };
        first.checked_add(step).ok()
    }

    /// Returns the name of the period that starts with a day.
    pub(super) fn name(self, first: Date) -> String {
        match self {
            Period::Day | Period::Week => first.to_string(),
            Period::Month => first.strftime("%Y-%m").to_string(),
        }
    }

    /// Returns the first day of the period that a time lies in; `None` outside the calendar.
    fn of_time(self, time: Time, zone: &TimeZone) -> Option<Date> {
        self.first_day(date_of(time, zone)?)
    }
}

fn date_of(time: Time, zone: &TimeZone) -> Option<Date> {
    let timestamp = Timestamp::from_millisecond(time).ok().filter(|_| time != NO_TIME)?;
    Some(timestamp.to_zoned(zone.clone()).date())
}

/// Calls without a time.
const UNDATED: &str = "(undated)";

/// Numbers periods, so that calls that follow one another need not ask the calendar.
pub(super) struct PeriodCache<'a> {
    zone: &'a TimeZone,
    /// `None` if calls are grouped by something else.
    period: Option<Period>,
    /// The period asked for last: its first millisecond, and that of the next one.
    latest: (Time, Time),
}

impl<'a> PeriodCache<'a> {
    pub(super) fn new(period: Option<Period>, zone: &'a TimeZone) -> PeriodCache<'a> {
        PeriodCache {
            zone,
            period,
            latest: (0, 0),
        }
    }

    /// Returns a number that two times share only if they lie in the same period.
    pub(super) fn number(&mut self, time: Time) -> i64 {
        if !(self.latest.0..self.latest.1).contains(&time) {
            // A time outside the calendar is a period of its own.
            self.latest = self.bounds(time).unwrap_or((time, time));
        }
        self.latest.0
    }

    fn bounds(&self, time: Time) -> Option<(Time, Time)> {
        let first = self.start(time)?;
        let next = self.period?.next(first)?;
        let millis = |date: Date| Some(date.to_zoned(self.zone.clone()).ok()?.timestamp().as_millisecond());
        Some((millis(first)?, millis(next)?))
    }

    /// Returns the first day of the period of a time.
    pub(super) fn start(&self, time: Time) -> Option<Date> {
        self.period?.of_time(time, self.zone)
    }

    pub(super) fn name(&self, time: Time) -> String {
        match (self.period, self.start(time)) {
            (Some(period), Some(first)) => period.name(first),
            _ => UNDATED.to_owned(),
        }
    }
}

/// The day of a time.
pub fn day_of(time: Time, zone: &TimeZone) -> String {
    date_of(time, zone).map_or_else(|| UNDATED.to_owned(), |date| date.to_string())
}

/// Returns the start of the first of `days` days that end with the day of `newest`; `None` outside the calendar.
pub fn start_of_last_days(newest: Time, days: u32, zone: &TimeZone) -> Option<Time> {
    let day = Timestamp::from_millisecond(newest).ok()?.to_zoned(zone.clone()).date();
    let first = day.checked_sub(i64::from(days.saturating_sub(1)).days()).ok()?;
    Some(first.to_zoned(zone.clone()).ok()?.timestamp().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weeks_and_months_have_names() {
        let thursday = "2026-08-20".parse::<Date>().unwrap();
        assert_eq!(Period::Week.first_day(thursday), Some("2026-08-17".parse().unwrap()));
        assert_eq!(
            Period::Month.name(Period::Month.first_day(thursday).unwrap()),
            "2026-08"
        );
    }
}
