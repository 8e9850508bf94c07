//! Dates in texts: `8 May 2023`, `May 8th, 2023`, `May 2023`, `2023-05-08`. A question for a period finds what is dated within
//! it or soon after, because people report things after they happened. Pure.

use jiff::civil::Date;
use language::dates::MONTHS;

/// Days after a period in which it is still reported on.
const LATE_MENTION_DAYS: i32 = 14;

/// A part of a date.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DatePart {
    /// A month by name, from 1.
    Month(i8),
    /// A number below 32: a day, or a month.
    Small(i8),
    Year(i16),
}

/// Parses a word as a part of a date; `None` if it cannot be one.
pub fn parse_date_part(word: &str) -> Option<DatePart> {
    if let Some(month) = MONTHS.iter().position(|month| *month == word) {
        return Some(DatePart::Month(month as i8 + 1));
    }
    let figures = ["st", "nd", "rd", "th"].iter().find_map(|end| word.strip_suffix(end));
    let figures = figures.unwrap_or(word);
    if figures.is_empty() || figures.len() > 4 || !figures.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match figures.parse::<i16>().ok()? {
        small @ 1..=31 if figures.len() < 3 => Some(DatePart::Small(small as i8)),
        year @ 1970..=2099 if figures == word => Some(DatePart::Year(year)),
        _ => None,
    }
}

/// A period: its first and last day, counted from 1970.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DaySpan {
    first: i32,
    last: i32,
}

impl DaySpan {
    fn from_date(year: i16, month: i8, day: Option<i8>) -> Option<DaySpan> {
        let first = Date::new(year, month, day.unwrap_or(1)).ok()?;
        let last = if day.is_some() { first } else { first.last_of_month() };
        let count = |date: Date| (date - Date::constant(1970, 1, 1)).get_days();
        Some(DaySpan {
            first: count(first),
            last: count(last),
        })
    }

    /// Returns how well a text with a date answers a question for this period, 0 to 1.
    pub fn closeness(self, dated: DaySpan) -> f64 {
        let late = dated.first - self.last;
        if dated.last < self.first || late > LATE_MENTION_DAYS {
            return 0.0;
        }
        1.0 - f64::from(late.max(0)) / f64::from(LATE_MENTION_DAYS + 1)
    }
}

/// Returns the periods that adjacent parts form. Words that are not part of a date are `None`.
pub fn parse_spans(parts: &[Option<DatePart>]) -> Vec<DaySpan> {
    let at = |index: usize| parts.get(index).copied().flatten();
    let mut spans = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let span = match *part {
            Some(DatePart::Month(month)) => {
                let before = index.checked_sub(1).and_then(at);
                match (before, at(index + 1), at(index + 2)) {
                    (Some(DatePart::Small(day)), Some(DatePart::Year(year)), _) => {
                        DaySpan::from_date(year, month, Some(day))
                    }
                    (_, Some(DatePart::Small(day)), Some(DatePart::Year(year))) => {
                        DaySpan::from_date(year, month, Some(day))
                    }
                    (_, Some(DatePart::Year(year)), _) => DaySpan::from_date(year, month, None),
                    _ => None,
                }
            }
            Some(DatePart::Year(year)) => match (at(index + 1), at(index + 2)) {
                (Some(DatePart::Small(month)), Some(DatePart::Small(day))) => {
                    DaySpan::from_date(year, month, Some(day))
                }
                _ => None,
            },
            _ => None,
        };
        spans.extend(span);
    }
    spans
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<DaySpan> {
        parse_spans(&text.split(' ').map(parse_date_part).collect::<Vec<_>>())
    }

    #[test]
    fn dates_are_read_in_the_usual_forms() {
        let day = DaySpan::from_date(2023, 5, Some(8));
        for text in [
            "8 may 2023",
            "may 8 2023",
            "may 8th 2023",
            "2023 05 08",
            "1 56 pm 8 may 2023",
        ] {
            assert_eq!(of(text).first().copied(), day, "{text}");
        }
        assert_eq!(of("in may 2023").first().copied(), DaySpan::from_date(2023, 5, None));
        for text in ["may i", "8 may", "2023", "31 february 2023", "99999 may 12345"] {
            assert!(of(text).is_empty(), "{text}");
        }
    }

    #[test]
    fn a_date_soon_after_the_period_is_close() {
        let at = |day: i8| DaySpan::from_date(2023, 5, Some(day)).expect("a day");
        assert_eq!(at(3).closeness(at(3)), 1.0);
        assert!(at(3).closeness(at(5)) > at(3).closeness(at(10)));
        assert_eq!((at(3).closeness(at(2)), at(3).closeness(at(28))), (0.0, 0.0));
        assert_eq!(
            DaySpan::from_date(2023, 5, None).expect("a month").closeness(at(20)),
            1.0
        );
    }
}
