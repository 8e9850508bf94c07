//! Dates in English text.
//!
//! The text is cut into tokens (words, numbers, signs). Each `parse_` function knows one way to write a date; of those that
//! match at a token, the longest counts.

use super::tokens::{
    DateToken, add_unit, month_number, number_below_twenty, ordinal_value, tens_value, tokenize, weekday_of_name,
};
use super::{DateMatch, DateQualifier, holidays, next_day_of_month, next_month_day, weekday_in_week};
use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

/// Finds all dates in English.
pub fn find_dates(text: &str, reference: Date) -> Vec<DateMatch> {
    let (tokens, ranges) = tokenize(text);
    let reader = DateParser {
        tokens: &tokens,
        reference,
    };
    let (mut found, mut at) = (Vec::new(), 0);
    while at < tokens.len() {
        let Some(read) = reader.parse_date(at, true) else {
            at += 1;
            continue;
        };
        found.push(DateMatch {
            range: ranges[at].start..ranges[read.end - 1].end,
            date: read.date,
            is_relative: read.is_relative,
        });
        at = read.end;
    }
    found
}

/// A date that was parsed, and the token after it.
#[derive(Debug, Clone, Copy)]
struct ParsedDate {
    end: usize,
    date: Date,
    is_relative: bool,
}

struct DateParser<'t> {
    tokens: &'t [DateToken],
    reference: Date,
}

impl DateParser<'_> {
    fn word(&self, at: usize) -> Option<&str> {
        match self.tokens.get(at)? {
            DateToken::Word(word) => Some(word),
            _ => None,
        }
    }

    fn is_word(&self, at: usize, words: &[&str]) -> bool {
        self.word(at).is_some_and(|word| words.contains(&word))
    }

    fn is_sign(&self, at: usize, signs: &[char]) -> bool {
        matches!(self.tokens.get(at), Some(DateToken::Sign(sign)) if signs.contains(sign))
    }

    /// Skips the token if it is one of the words.
    fn skip(&self, at: usize, words: &[&str]) -> usize {
        if self.is_word(at, words) { at + 1 } else { at }
    }

    /// Parses a date that starts here. `is_free` allows an offset from another date, which must not nest.
    fn parse_date(&self, at: usize, is_free: bool) -> Option<ParsedDate> {
        let ways = [
            if is_free { self.parse_offset(at) } else { None },
            self.parse_day_word(at),
            self.parse_day_of_week(at),
            self.parse_nth_weekday(at),
            self.parse_named_month(at),
            self.parse_numeric(at),
            self.parse_day_of_month(at),
            self.parse_holiday(at),
        ];
        ways.into_iter().flatten().max_by_key(|read| read.end)
    }

    /// Parses `today`, `the day after tomorrow`, `the next day`.
    fn parse_day_word(&self, at: usize) -> Option<ParsedDate> {
        let start = self.skip(at, &["the"]);
        let (end, days) = match (self.word(start)?, self.word(start + 1), self.word(start + 2)) {
            ("day", Some("after"), Some("tomorrow" | "tmrw" | "tmr")) => (start + 3, 2),
            ("day", Some("before"), Some("yesterday")) => (start + 3, -2),
            ("today" | "tonight", ..) => (start + 1, 0),
            ("tomorrow" | "tmrw" | "tmr", ..) => (start + 1, 1),
            ("yesterday", ..) => (start + 1, -1),
            ("next" | "following", Some("day"), _) if start > at => (start + 2, 1),
            ("previous", Some("day"), _) if start > at => (start + 2, -1),
            ("day", Some("after"), next) if start > at && next.is_none() => (start + 2, 1),
            ("day", Some("before"), next) if start > at && next.is_none() => (start + 2, -1),
            _ => return None,
        };
        let date = self.reference.checked_add(days.days()).ok()?;
        Some(ParsedDate {
            end,
            date,
            is_relative: true,
        })
    }

    /// Parses `in two weeks`, `3 days ago`, `2 weeks before Christmas`.
    fn parse_offset(&self, at: usize) -> Option<ParsedDate> {
        let is_ahead = self.is_word(at, &["in", "within"]);
        let mut next = at + usize::from(is_ahead);
        let mut span = Span::new();
        let mut units = 0;
        while let Some((end, count)) = self.parse_quantity(next)
            && let Some(sum) = self.word(end).and_then(|unit| add_unit(span, count, unit))
        {
            span = sum;
            units += 1;
            next = self.skip(end + 1, &["and"]);
        }
        if units == 0 {
            return None;
        }
        let from = |base: Date, sign: i64| base.checked_add(span.checked_mul(sign).ok()?).ok();
        let done = |end: usize, date: Date| {
            Some(ParsedDate {
                end,
                date,
                is_relative: true,
            })
        };
        match self.word(next) {
            Some("ago" | "back") => return done(next + 1, from(self.reference, -1)?),
            Some("later" | "hence") => return done(next + 1, from(self.reference, 1)?),
            Some("from" | "after" | "since" | "before") => {
                let sign = if self.is_word(next, &["before"]) { -1 } else { 1 };
                if self.is_word(next + 1, &["now"]) {
                    return done(next + 2, from(self.reference, sign)?);
                }
                let year = self.skip(self.skip(next + 1, &["the"]), &["year"]);
                let base = self.parse_date(next + 1, false);
                let base = base.or_else(|| {
                    let (end, year) = self.parse_year(year)?;
                    let date = Date::new(year, 1, 1).ok()?;
                    Some(ParsedDate {
                        end,
                        date,
                        is_relative: false,
                    })
                });
                if let Some(base) = base {
                    return done(base.end, from(base.date, sign)?);
                }
            }
            _ => {}
        }
        if is_ahead {
            // An `and` after the last unit belongs to the text that follows.
            let end = if self.is_word(next.wrapping_sub(1), &["and"]) {
                next - 1
            } else {
                next
            };
            return done(end, from(self.reference, 1)?);
        }
        None
    }

    /// Parses `a`, `two`, `15`, `a couple of`.
    fn parse_quantity(&self, at: usize) -> Option<(usize, i64)> {
        match (self.tokens.get(at)?, self.word(at + 1), self.word(at + 2)) {
            (DateToken::Number(value, digits, false), ..) if *digits < 5 => Some((at + 1, *value)),
            (DateToken::Word(word), Some("couple"), Some("of")) if word == "a" => Some((at + 3, 2)),
            (DateToken::Word(word), Some("couple"), _) if word == "a" => Some((at + 2, 2)),
            (DateToken::Word(word), Some("few"), _) if word == "a" => Some((at + 2, 3)),
            (DateToken::Word(word), ..) if word == "a" || word == "an" || word == "one" => Some((at + 1, 1)),
            (DateToken::Word(_), ..) => self.parse_number_words(at, 99),
            _ => None,
        }
    }

    /// Parses a number in words, up to a bound.
    fn parse_number_words(&self, at: usize, most: i64) -> Option<(usize, i64)> {
        let tens = self.word(at).and_then(tens_value);
        if let Some(tens) = tens {
            let hyphen = at + 1 + usize::from(self.is_sign(at + 1, &['-']));
            let unit = self
                .word(hyphen)
                .and_then(|word| number_below_twenty(word).filter(|unit| *unit < 10));
            return match unit {
                Some(unit) => Some((hyphen + 1, tens + unit)),
                None => Some((at + 1, tens)),
            };
        }
        let unit = self
            .word(at)
            .and_then(number_below_twenty)
            .filter(|unit| *unit <= most)?;
        Some((at + 1, unit))
    }

    /// Parses a day of a month: `9`, `9th`, `ninth`, `twenty third`.
    fn parse_day(&self, at: usize) -> Option<(usize, i8)> {
        let (end, day) = match self.tokens.get(at)? {
            DateToken::Number(value, digits, _) if *digits <= 2 => (at + 1, *value),
            DateToken::Word(word) => {
                if let Some(day) = ordinal_value(word) {
                    (at + 1, day)
                } else if let Some(tens) = tens_value(word) {
                    let next = at + 1 + usize::from(self.is_sign(at + 1, &['-']));
                    match self
                        .word(next)
                        .and_then(|word| ordinal_value(word).or_else(|| number_below_twenty(word)))
                    {
                        Some(unit) if unit < 10 => (next + 1, tens + unit),
                        _ => (at + 1, tens),
                    }
                } else {
                    self.parse_number_words(at, 31)?
                }
            }
            _ => return None,
        };
        let day = i8::try_from(day).ok().filter(|day| (1..=31).contains(day))?;
        Some((end, day))
    }

    /// Parses a year: `2020`, `nineteen eighty six`, `two thousand and thirty two`.
    fn parse_year(&self, at: usize) -> Option<(usize, i16)> {
        if let Some(DateToken::Number(value, 4, false)) = self.tokens.get(at) {
            return Some((
                at + 1,
                i16::try_from(*value).ok().filter(|year| (1000..=2999).contains(year))?,
            ));
        }
        let (end, first) = self.parse_number_words(at, 99)?;
        let rest = |at: usize| self.parse_number_words(self.skip(at, &["and"]), 99).unwrap_or((at, 0));
        let (end, year) = match self.word(end) {
            Some("thousand") => {
                let (end, rest) = rest(end + 1);
                (end, first * 1000 + rest)
            }
            Some("hundred") => {
                let (end, rest) = rest(end + 1);
                (end, first * 100 + rest)
            }
            _ => {
                let (end, rest) = self.parse_number_words(end, 99)?;
                (end, first * 100 + rest)
            }
        };
        let year = i16::try_from(year).ok().filter(|year| (1000..=2999).contains(year))?;
        Some((end, year))
    }

    fn parse_weekday(&self, at: usize) -> Option<(usize, Weekday, bool)> {
        let word = self.word(at)?;
        let (weekday, is_full) = weekday_of_name(word.trim_end_matches("'s"))?;
        let end = at + 1 + usize::from(!is_full && self.is_sign(at + 1, &['.']));
        Some((end, weekday, is_full))
    }

    fn parse_qualifier(&self, at: usize) -> Option<(usize, DateQualifier)> {
        let which = match (self.word(at)?, self.word(at + 1)) {
            ("this" | "the", Some("past" | "last")) => return Some((at + 2, DateQualifier::Past)),
            ("this" | "the", Some("coming" | "upcoming")) => return Some((at + 2, DateQualifier::Coming)),
            ("this", _) => DateQualifier::This,
            ("next" | "following", _) => DateQualifier::Next,
            ("last" | "previous", _) => DateQualifier::Last,
            ("coming" | "upcoming", _) => DateQualifier::Coming,
            ("past", _) => DateQualifier::Past,
            _ => return None,
        };
        Some((at + 1, which))
    }

    /// Parses `next Tuesday`, `Tuesday of next week`, `Friday`.
    fn parse_day_of_week(&self, at: usize) -> Option<ParsedDate> {
        let start = self.skip(at, &["on"]);
        if let Some((end, which)) = self.parse_qualifier(start) {
            let is_week = self.is_word(end, &["week"]);
            let day = self.skip(end + usize::from(is_week), &["on"]);
            let day = day + usize::from(is_week && self.is_sign(day, &[',']));
            let (end, weekday, _) = self.parse_weekday(day)?;
            return self.resolve_weekday(end, weekday, which);
        }
        let (end, weekday, is_full) = self.parse_weekday(start)?;
        let of = self.skip(end, &["of", "in"]);
        if let Some((week, which)) = self.parse_qualifier(of)
            && self.is_word(week, &["week"])
        {
            return self.resolve_weekday(week + 1, weekday, which);
        }
        // With a day of the month, the date is the next one on which both agree.
        let day = self.skip(end, &["the"]);
        if let Some((end, day)) = self.parse_day(day)
            && !self.is_sign(end, &['/', '-', ':', '.'])
            && !self.is_word(end, &["am", "pm", "o'clock", "days", "weeks", "minutes", "hours"])
            && month_number(self.word(end).unwrap_or_default()).is_none()
        {
            let fits = |date: &Date| date.day() == day && date.weekday() == weekday;
            let date = self.reference.series(1.day()).take(3_000).find(fits)?;
            return Some(ParsedDate {
                end,
                date,
                is_relative: true,
            });
        }
        // Short names are too often something else ("sat", "sun", "mon").
        is_full.then(|| self.resolve_weekday(end, weekday, DateQualifier::Coming))?
    }

    /// Parses `the first Friday of July`, `last Monday of next month`.
    fn parse_nth_weekday(&self, at: usize) -> Option<ParsedDate> {
        let start = self.skip(at, &["the"]);
        let nth = match self.tokens.get(start)? {
            DateToken::Word(word) if word == "last" => -1,
            DateToken::Word(word) => i8::try_from(ordinal_value(word)?).ok()?,
            DateToken::Number(value, _, true) => i8::try_from(*value).ok()?,
            _ => return None,
        };
        let (end, weekday, _) = self.parse_weekday(start + 1)?;
        let of = self.skip(end, &["of", "in"]);
        let (end, first, is_relative) = if let Some((end, which)) = self.parse_qualifier(of)
            && self.is_word(end, &["month"])
        {
            (end + 1, self.first_of_month(which)?, true)
        } else {
            let (end, month) = self.parse_month(of)?;
            let (end, year) = self
                .parse_year(self.skip(end, &["of", "in"]))
                .map_or((end, None), |(end, year)| (end, Some(year)));
            let day = |year: i16| Date::new(year, month, 1).ok()?.nth_weekday_of_month(nth, weekday).ok();
            let this = self.reference.year();
            let is_past = day(this).is_none_or(|date| date < self.reference);
            let year_or_next = year.unwrap_or(if is_past { this + 1 } else { this });
            (end, Date::new(year_or_next, month, 1).ok()?, year.is_none())
        };
        Some(ParsedDate {
            end,
            date: first.nth_weekday_of_month(nth, weekday).ok()?,
            is_relative,
        })
    }

    /// Returns the first day of last month, of this one or of the next.
    fn first_of_month(&self, which: DateQualifier) -> Option<Date> {
        let months = match which {
            DateQualifier::Last | DateQualifier::Past => -1,
            DateQualifier::This => 0,
            DateQualifier::Coming | DateQualifier::Next => 1,
        };
        self.reference.first_of_month().checked_add(months.months()).ok()
    }

    fn resolve_weekday(&self, end: usize, weekday: Weekday, which: DateQualifier) -> Option<ParsedDate> {
        Some(ParsedDate {
            end,
            date: weekday_in_week(self.reference, weekday, which)?,
            is_relative: true,
        })
    }

    /// Parses `May 9`, `the 9th of May 2020`, `2020-Aug-1`, `Fri, Jun 15`.
    fn parse_named_month(&self, at: usize) -> Option<ParsedDate> {
        let mut start = at;
        let which = self.parse_qualifier(start).map(|(end, which)| {
            start = end;
            which
        });
        let this_year = (which == Some(DateQualifier::This)).then(|| self.reference.year());
        let weekday = self.parse_weekday(start).map(|(end, weekday, _)| {
            start = end + usize::from(self.is_sign(end, &[',', '-']));
            weekday
        });
        let between = |at: usize| at + usize::from(self.is_sign(at, &['-', '/', '.', ',']));
        // Year first.
        if let Some(DateToken::Number(year, 4, false)) = self.tokens.get(start) {
            let after = between(start + 1);
            let year = i16::try_from(*year).ok()?;
            if let Some((end, month)) = self.parse_month(after)
                && let Some((end, day)) = self.parse_day(between(end))
            {
                return self.resolve_date(end, Some(year), month, day, weekday);
            }
            let (end, day) = self.parse_day(after)?;
            let (end, month) = self.parse_month(between(end))?;
            return self.resolve_date(end, Some(year), month, day, weekday);
        }
        let (end, month, day) = if let Some((end, month)) = self.parse_month(start) {
            let (end, day) = self.parse_day(self.skip(between(end), &["the"]))?;
            (end, month, day)
        } else {
            let (end, day) = self.parse_day(self.skip(start, &["the"]))?;
            let end = self.skip(self.skip(end, &["day"]), &["of"]);
            let (end, month) = self.parse_month(between(end))?;
            (end, month, day)
        };
        let year = self.parse_year(self.skip(between(end), &["of", "in"]));
        let (end, year) = year.map_or((end, this_year), |(end, year)| (end, Some(year)));
        self.resolve_date(end, year, month, day, weekday)
    }

    fn parse_month(&self, at: usize) -> Option<(usize, i8)> {
        Some((at + 1, month_number(self.word(at)?)?))
    }

    /// Parses `2020-09-23`, `9/23/2020`, `23/08/39`, `11/22`, `2016 10 16`.
    fn parse_numeric(&self, at: usize) -> Option<ParsedDate> {
        let mut start = at;
        let which = self.parse_qualifier(start).map(|(end, which)| {
            start = end;
            which
        });
        let this_year = (which == Some(DateQualifier::This)).then(|| self.reference.year());
        let weekday = self.parse_weekday(start).map(|(end, weekday, _)| {
            start = end + usize::from(self.is_sign(end, &[',']));
            weekday
        });
        let number = |at: usize| match self.tokens.get(at)? {
            DateToken::Number(value, digits, false) => Some((*value, *digits)),
            _ => None,
        };
        let is_joined = |at: usize| {
            self.is_sign(at, &['/', '-', '.', ':', '_', '@', '#'])
                || matches!(self.tokens.get(at), Some(DateToken::Number(..)))
        };
        if start == at && at > 0 && is_joined(at - 1) {
            return None;
        }
        let (first, digits) = number(start)?;
        if digits == 4 && number(start + 1).is_some() {
            let ((month, 1..=2), (day, 1..=2)) = (number(start + 1)?, number(start + 2)?) else {
                return None;
            };
            return self.resolve_numeric(start + 3, Some(first), month, day, weekday);
        }
        let sign = match self.tokens.get(start + 1)? {
            DateToken::Sign(sign @ ('/' | '-' | '.')) => *sign,
            _ => return None,
        };
        let (second, second_digits) = number(start + 2)?;
        if self.is_sign(start + 3, &[sign])
            && let Some((third, third_digits)) = number(start + 4)
        {
            let end = start + 5;
            if matches!(self.tokens.get(end), Some(DateToken::Sign(next)) if *next == sign && number(end + 1).is_some())
            {
                return None;
            }
            return match (digits, second_digits, third_digits) {
                (4, 1..=2, 1..=2) => self.resolve_numeric(end, Some(first), second, third, weekday),
                (1..=2, 1..=2, 4 | 2) if sign != '.' || third_digits == 4 => {
                    let century = if third < 70 { 2000 } else { 1900 };
                    let year = if third_digits == 4 { third } else { century + third };
                    let (month, day) = if first > 12 { (second, first) } else { (first, second) };
                    self.resolve_numeric(end, Some(year), month, day, weekday)
                }
                _ => None,
            };
        }
        let is_whole = !matches!(
            self.tokens.get(start + 3),
            Some(DateToken::Word(_) | DateToken::Sign('/' | '%'))
        );
        let is_said = is_whole || start > at;
        // `5.12` is a version, `3-4` a range.
        (sign == '/' && is_said && digits <= 2 && second_digits <= 2)
            .then(|| self.resolve_numeric(start + 3, this_year.map(i64::from), first, second, weekday))?
    }

    fn resolve_numeric(
        &self,
        end: usize,
        year: Option<i64>,
        month: i64,
        day: i64,
        weekday: Option<Weekday>,
    ) -> Option<ParsedDate> {
        let year = match year {
            Some(year) => Some(i16::try_from(year).ok().filter(|year| (1000..=2999).contains(year))?),
            None => None,
        };
        self.resolve_date(end, year, i8::try_from(month).ok()?, i8::try_from(day).ok()?, weekday)
    }

    fn resolve_date(
        &self,
        end: usize,
        year: Option<i16>,
        month: i8,
        day: i8,
        weekday: Option<Weekday>,
    ) -> Option<ParsedDate> {
        let date = match year {
            Some(year) => Date::new(year, month, day).ok()?,
            None => next_month_day(self.reference, month, day, weekday)?,
        };
        Some(ParsedDate {
            end,
            date,
            is_relative: year.is_none(),
        })
    }

    /// Parses `the 18th`, `the 21st of this month`.
    fn parse_day_of_month(&self, at: usize) -> Option<ParsedDate> {
        let start = self.skip(at, &["the"]);
        let is_ordinal = matches!(self.tokens.get(start)?, DateToken::Number(_, _, true))
            || (start > at
                && self
                    .word(start)
                    .is_some_and(|word| tens_value(word).is_some() || ordinal_value(word).is_some()));
        if !is_ordinal {
            return None;
        }
        let (end, day) = self.parse_day(start)?;
        let of = self.skip(end, &["of", "in"]);
        if let Some((month, which)) = self
            .parse_qualifier(of)
            .or_else(|| Some((self.skip(of, &["the"]), DateQualifier::This)))
            && self.is_word(month, &["month"])
        {
            let first = self.first_of_month(which)?;
            let date = Date::new(first.year(), first.month(), day).ok()?;
            return Some(ParsedDate {
                end: month + 1,
                date,
                is_relative: true,
            });
        }
        // A bare `1st` counts things ("the 1st attempt"), so nothing may follow it.
        let is_alone =
            !matches!(self.tokens.get(end), Some(DateToken::Word(word)) if !WORDS_AFTER_DAY.contains(&word.as_str()));
        let is_said =
            day > 3 || (at > 0 && self.is_word(at - 1, &["on", "by", "until", "before", "after", "from", "since"]));
        (is_alone && is_said).then(|| {
            Some(ParsedDate {
                end,
                date: next_day_of_month(self.reference, day)?,
                is_relative: true,
            })
        })?
    }

    /// Parses `Christmas`, `last Easter`, `Earth Day 2010`.
    fn parse_holiday(&self, at: usize) -> Option<ParsedDate> {
        let (start, which) = self
            .parse_qualifier(at)
            .map_or((at, None), |(end, which)| (end, Some(which)));
        let (end, holiday) = holidays::match_holiday(|index| self.word(start + index))?;
        let end = start + end;
        let year = self.parse_year(self.skip(end, &["of", "in"]));
        if let Some((end, year)) = year {
            let date = holiday.in_year(year)?;
            return Some(ParsedDate {
                end,
                date,
                is_relative: false,
            });
        }
        let year = self.reference.year();
        let years = [year - 1, year, year + 1].map(|year| holiday.in_year(year));
        let mut dates = years.into_iter().flatten();
        let date = match which {
            Some(DateQualifier::Last | DateQualifier::Past) => dates.rfind(|date| *date < self.reference)?,
            _ => dates.find(|date| *date >= self.reference)?,
        };
        Some(ParsedDate {
            end,
            date,
            is_relative: true,
        })
    }
}

/// Words that may follow a bare day of the month.
const WORDS_AFTER_DAY: &[&str] = &[
    "and", "or", "at", "to", "until", "for", "we", "i", "is", "was", "because", "so", "but", "since", "if",
];
