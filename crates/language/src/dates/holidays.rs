//! Holidays as dates.

use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

/// The rule for the date of a holiday.
#[derive(Debug, Clone, Copy)]
pub enum Holiday {
    /// On a day of a month.
    Fixed(i8, i8),
    /// On the n-th weekday of a month (the last one if negative), and days after it.
    Nth(i8, i8, Weekday, i64),
    /// Days after Easter Sunday.
    Easter(i64),
}

use Holiday::{Easter, Fixed, Nth};
use Weekday::{Monday, Sunday, Thursday};

/// Names as words, without possessive endings. A name comes before every shorter name that it starts with.
const NAMES: &[(&str, Holiday)] = &[
    ("christmas eve", Fixed(12, 24)),
    ("christmas day", Fixed(12, 25)),
    ("christmas", Fixed(12, 25)),
    ("xmas", Fixed(12, 25)),
    ("boxing day", Fixed(12, 26)),
    ("new year eve", Fixed(12, 31)),
    ("new years eve", Fixed(12, 31)),
    ("new year day", Fixed(1, 1)),
    ("new years day", Fixed(1, 1)),
    ("new year", Fixed(1, 1)),
    ("new years", Fixed(1, 1)),
    ("valentine day", Fixed(2, 14)),
    ("valentines day", Fixed(2, 14)),
    ("st patrick day", Fixed(3, 17)),
    ("saint patrick day", Fixed(3, 17)),
    ("saint patrick", Fixed(3, 17)),
    ("st patrick", Fixed(3, 17)),
    ("april fools day", Fixed(4, 1)),
    ("april fool day", Fixed(4, 1)),
    ("earth day", Fixed(4, 22)),
    ("international workers day", Fixed(5, 1)),
    ("international workers' day", Fixed(5, 1)),
    ("may day", Fixed(5, 1)),
    ("juneteenth", Fixed(6, 19)),
    ("jubilee day", Fixed(6, 19)),
    ("freedom day", Fixed(6, 19)),
    ("independence day", Fixed(7, 4)),
    ("halloween", Fixed(10, 31)),
    ("all saints day", Fixed(11, 1)),
    ("veterans day", Fixed(11, 11)),
    ("womens day", Fixed(3, 8)),
    ("women day", Fixed(3, 8)),
    ("groundhog day", Fixed(2, 2)),
    ("epiphany", Fixed(1, 6)),
    ("martin luther king day", Nth(1, 3, Monday, 0)),
    ("mlk day", Nth(1, 3, Monday, 0)),
    ("presidents day", Nth(2, 3, Monday, 0)),
    ("mother day", Nth(5, 2, Sunday, 0)),
    ("mothers day", Nth(5, 2, Sunday, 0)),
    ("memorial day", Nth(5, -1, Monday, 0)),
    ("father day", Nth(6, 3, Sunday, 0)),
    ("fathers day", Nth(6, 3, Sunday, 0)),
    ("labor day", Nth(9, 1, Monday, 0)),
    ("labour day", Nth(9, 1, Monday, 0)),
    ("columbus day", Nth(10, 2, Monday, 0)),
    ("thanksgiving day", Nth(11, 4, Thursday, 0)),
    ("thanksgiving", Nth(11, 4, Thursday, 0)),
    ("black friday", Nth(11, 4, Thursday, 1)),
    ("cyber monday", Nth(11, 4, Thursday, 4)),
    ("ash wednesday", Easter(-46)),
    ("palm sunday", Easter(-7)),
    ("maundy thursday", Easter(-3)),
    ("good friday", Easter(-2)),
    ("easter sunday", Easter(0)),
    ("easter monday", Easter(1)),
    ("easter day", Easter(0)),
    ("easter", Easter(0)),
    ("ascension day", Easter(39)),
    ("whit monday", Easter(50)),
    ("pentecost", Easter(49)),
];

/// Returns the holiday whose name the words start with, and the number of words in the name.
pub fn match_holiday<'w>(word: impl Fn(usize) -> Option<&'w str>) -> Option<(usize, Holiday)> {
    let first = word(0)?.trim_end_matches("'s");
    let fits = |name: &str| {
        let mut names = name.split(' ').enumerate();
        names.all(|(at, name)| word(at).is_some_and(|word| word == name || word.trim_end_matches("'s") == name))
    };
    let (name, holiday) = NAMES.iter().find(|(name, _)| name.starts_with(first) && fits(name))?;
    Some((name.split(' ').count(), *holiday))
}

impl Holiday {
    /// Returns its date in a year; `None` if the year has none.
    pub fn in_year(self, year: i16) -> Option<Date> {
        match self {
            Fixed(month, day) => Date::new(year, month, day).ok(),
            Nth(month, nth, weekday, after) => {
                let first = Date::new(year, month, 1).ok()?;
                first
                    .nth_weekday_of_month(nth, weekday)
                    .ok()?
                    .checked_add(after.days())
                    .ok()
            }
            Easter(after) => easter_sunday(year)?.checked_add(after.days()).ok(),
        }
    }
}

/// Easter Sunday of the Gregorian calendar (the anonymous algorithm, also called Meeus, Jones and Butcher).
fn easter_sunday(year: i16) -> Option<Date> {
    let year = i32::from(year);
    let (golden, century, rest) = (year % 19, year / 100, year % 100);
    let correction = (century - (century + 8) / 25 + 1) / 3;
    let moon = (19 * golden + century - century / 4 - correction + 15) % 30;
    let week = (32 + 2 * (century % 4) + 2 * (rest / 4) - moon - rest % 4) % 7;
    let late = (golden + 11 * moon + 22 * week) / 451;
    let days = moon + week - 7 * late + 114;
    Date::new(year as i16, (days / 31) as i8, (days % 31 + 1) as i8).ok()
}
