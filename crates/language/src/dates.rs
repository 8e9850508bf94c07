//! Dates in text, made absolute: "next Friday" means nothing in a month.
//!
//! [`find_dates`] parses dates in English (`english`) and Chinese (`chinese`) text and resolves them against the day it
//! was written. A date without a year is the next such date, a weekday the coming one: what is worth remembering mostly
//! lies ahead. Times of day are not parsed.

mod chinese;
mod english;
mod holidays;
mod tokens;

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};
use std::ops::Range;

/// A date in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateMatch {
    /// Its words.
    pub range: Range<usize>,
    pub date: Date,
    /// Whether the words alone do not give the date: it has no year, or is relative to the day it was written.
    pub is_relative: bool,
}

/// Finds all dates of a text that was written on the day `reference`.
pub fn find_dates(text: &str, reference: Date) -> Vec<DateMatch> {
    let mut found = english::find_dates(text, reference);
    if !text.is_ascii() {
        // The sort is stable: of two matches of the same range the Chinese one comes first, so that `12-11-10` among Chinese
        // words starts with the year.
        found.splice(0..0, chinese::find_dates(text, reference));
        found.sort_by_key(|one| (one.range.start, std::cmp::Reverse(one.range.end)));
        let mut end = 0;
        found.retain(|one| {
            let is_free = one.range.start >= end;
            if is_free {
                end = one.range.end;
            }
            is_free
        });
    }
    found
}

/// Adds the absolute date in brackets after every relative one.
pub fn annotate_relative_dates(text: &str, reference: Date) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let mut at = 0;
    for found in find_dates(text, reference)
        .into_iter()
        .filter(|found| found.is_relative)
    {
        out.push_str(&text[at..found.range.end]);
        out.push_str(&format!(" ({})", found.date));
        at = found.range.end;
    }
    out.push_str(&text[at..]);
    out
}

/// Names of the months, in lower case.
pub const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// Which of several dates is meant: `next`, `last`, `this`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DateQualifier {
    Last,
    Past,
    This,
    Coming,
    Next,
}

/// Returns the date of a weekday in a week around the reference; weeks start on Monday.
fn weekday_in_week(reference: Date, weekday: Weekday, which: DateQualifier) -> Option<Date> {
    let offset = i32::from(weekday.to_monday_zero_offset()) - i32::from(reference.weekday().to_monday_zero_offset());
    let days = match which {
        DateQualifier::This => offset,
        DateQualifier::Next => offset + 7,
        DateQualifier::Last => offset - 7,
        DateQualifier::Coming => offset.rem_euclid(7),
        DateQualifier::Past => -(-offset - 1).rem_euclid(7) - 1,
    };
    reference.checked_add(days.days()).ok()
}

/// Returns the next date with this month and day; with a weekday, the one of a near year that falls on it, if there is one.
fn next_month_day(reference: Date, month: i8, day: i8, weekday: Option<Weekday>) -> Option<Date> {
    let year = reference.year();
    if let Some(weekday) = weekday {
        let near = [year, year + 1, year - 1].map(|year| Date::new(year, month, day).ok());
        if let Some(date) = near.into_iter().flatten().find(|date| date.weekday() == weekday) {
            return Some(date);
        }
    }
    // The 29th of February comes every fourth year, around 2100 every eighth.
    let years = (year..year.saturating_add(9)).filter_map(|year| Date::new(year, month, day).ok());
    let mut years = years.filter(|date| *date >= reference);
    years.next()
}

/// Returns the next date with this day of the month.
fn next_day_of_month(reference: Date, day: i8) -> Option<Date> {
    let first = reference.first_of_month();
    (0..4).find_map(|ahead| {
        let month = first.checked_add(ahead.months()).ok()?;
        Date::new(month.year(), month.month(), day)
            .ok()
            .filter(|date| *date >= reference)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::civil::date;
    use proptest::prelude::*;

    /// A Wednesday.
    const DAY: Date = date(2026, 3, 4);

    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let found = find_dates(text, DAY)
            .iter()
            .map(|found| found.date.to_string())
            .collect::<Vec<_>>();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn relative_days() {
        check("we ship tomorrow, not today", &["2026-03-05", "2026-03-04"]);
        check("the day after tomorrow", &["2026-03-06"]);
        check("in two weeks", &["2026-03-18"]);
        check("3 months and 2 days ago", &["2025-12-02"]);
        check("a couple of days from now", &["2026-03-06"]);
        check("10 days before Christmas", &["2026-12-15"]);
        check("two weeks after May 1st", &["2026-05-15"]);
    }

    #[test]
    fn weekdays() {
        check("freeze starts Friday", &["2026-03-06"]);
        check("next Friday", &["2026-03-13"]);
        check("last Monday", &["2026-02-23"]);
        check("this past Wednesday", &["2026-02-25"]);
        check("on Tuesday of next week", &["2026-03-10"]);
        check("Friday the 13th", &["2026-03-13"]);
        check("he sat in the sun", &[]);
    }

    #[test]
    fn calendar_dates() {
        check("by 2026-04-01", &["2026-04-01"]);
        check("April 1st, 2027 and 2 May", &["2027-04-01", "2026-05-02"]);
        check("the third of June", &["2026-06-03"]);
        check("12/24/2026 or 24/12/2026", &["2026-12-24", "2026-12-24"]);
        check("due 3/20", &["2026-03-20"]);
        check("the 20th of next month", &["2026-04-20"]);
        check("january first two thousand thirty", &["2030-01-01"]);
        check("Feb 29", &["2028-02-29"]);
        check("the first Friday of July", &["2026-07-03"]);
        check("last Monday of next month", &["2026-04-27"]);
        check("easter 2027", &["2027-03-28"]);
    }

    #[test]
    fn what_is_no_date() {
        for text in [
            "we may merge it",
            "version 5.12 and 2.1.44",
            "about 2/3rds of 10 tests",
            "the 1st attempt and the second one",
            "2026-13-40",
            "1/2/3/4",
            "10.0.0.1 port 8080",
        ] {
            check(text, &[]);
        }
    }

    #[test]
    fn chinese_dates() {
        check("明天上线,后天冻结", &["2026-03-05", "2026-03-06"]);
        check("下周五之前完成", &["2026-03-13"]);
        check("三周后发布", &["2026-03-25"]);
        check("2026年5月1日", &["2026-05-01"]);
        check("十二月二十四号", &["2026-12-24"]);
        check("下个月十号", &["2026-04-10"]);
        check("5月1日", &["2026-05-01"]);
    }

    #[test]
    fn relative_ones_get_their_meaning_beside_them() {
        assert_eq!(
            annotate_relative_dates("freeze from Friday to 2026-04-01, 下周一解冻", DAY),
            "freeze from Friday (2026-03-06) to 2026-04-01, 下周一 (2026-03-09)解冻"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_survived(text in "\\PC{0,60}", words in "(next |in |the |9|/|-|may |two |month |下|周|月|十|年|ago ){0,12}") {
            for text in [text, words] {
                for found in find_dates(&text, DAY) {
                    prop_assert!(text.get(found.range).is_some());
                }
            }
        }
    }
}
