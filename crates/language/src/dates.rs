//! Dates that people write, made absolute: "next Friday" means nothing in a month.
//!
//! `find` reads dates in English and Chinese text and resolves them against the time it was written. A date without a
//! year is the next one, a weekday the coming one: what is worth remembering mostly lies ahead. Everything is read from
//! tokens (words, numbers, signs) by small functions that each know one way to write a date; of those that match at a
//! place, the longest counts. Times of day are not read.

mod chinese;
mod holidays;

use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};
use std::ops::Range;

/// A date in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DateMatch {
    /// The words that say it.
    pub range: Range<usize>,
    /// What they mean.
    pub date: Date,
    /// Whether the words alone do not say it: no year, or relative to the day it was written.
    pub is_relative: bool,
}

/// All dates of a text that was written on the day `reference`.
pub fn find_dates(text: &str, reference: Date) -> Vec<DateMatch> {
    let mut found = find_english(text, reference);
    if !text.is_ascii() {
        // The sort keeps the order of equals: `12-11-10` among Chinese words starts with the year.
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

/// The text with what relative dates mean put behind them.
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

/// A piece of text.
#[derive(Debug, Clone, PartialEq)]
enum DateToken {
    /// Letters, small.
    Word(String),
    /// Digits: value, how many, and whether `st`, `nd`, `rd` or `th` follows.
    Number(i64, usize, bool),
    /// Anything else that is not blank.
    Sign(char),
}

fn find_english(text: &str, reference: Date) -> Vec<DateMatch> {
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

/// Longest text that is looked at: beyond, it is no sentence.
const MAX_TOKENS: usize = 4_000;

fn tokenize(text: &str) -> (Vec<DateToken>, Vec<Range<usize>>) {
    let (mut tokens, mut ranges) = (Vec::new(), Vec::new());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() && tokens.len() < MAX_TOKENS {
        let start = at;
        let run = |at: usize, is: fn(&u8) -> bool| at + bytes[at..].iter().take_while(|byte| is(byte)).count();
        match bytes[at] {
            byte if byte.is_ascii_whitespace() => {
                at += 1;
                continue;
            }
            b'0'..=b'9' => {
                at = run(at, u8::is_ascii_digit);
                let digits = at - start;
                let suffix = run(at, u8::is_ascii_alphabetic);
                let ordinal = matches!(
                    text[at..suffix].to_ascii_lowercase().as_str(),
                    "st" | "nd" | "rd" | "th"
                );
                // Longer runs are no date; the value does not matter then.
                tokens.push(DateToken::Number(
                    text[start..at].parse().unwrap_or(-1),
                    digits,
                    ordinal,
                ));
                if ordinal {
                    at = suffix;
                }
            }
            byte if byte.is_ascii_alphabetic() => {
                at = run(at, |byte| byte.is_ascii_alphabetic() || *byte == b'\'');
                tokens.push(DateToken::Word(text[start..at].to_ascii_lowercase()));
            }
            _ => {
                let sign = text[at..].chars().next().unwrap_or(' ');
                at += sign.len_utf8();
                tokens.push(DateToken::Sign(sign));
            }
        }
        ranges.push(start..at);
    }
    (tokens, ranges)
}

/// A date that was read.
#[derive(Debug, Clone, Copy)]
struct ParsedDate {
    end: usize,
    date: Date,
    is_relative: bool,
}

/// Which one of several: `next`, `last`, `this`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DateQualifier {
    Last,
    Past,
    This,
    Coming,
    Next,
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

    /// Passes over any of the words.
    fn skip(&self, at: usize, words: &[&str]) -> usize {
        if self.is_word(at, words) { at + 1 } else { at }
    }

    /// A date that starts here. `is_free` allows offsets from another date, which must not nest.
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

    /// `today`, `the day after tomorrow`, `the next day`.
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

    /// `in two weeks`, `3 days ago`, `2 weeks before Christmas`.
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
            // Without the word that was looked for, a joining `and` belongs to what follows.
            let end = if self.is_word(next.wrapping_sub(1), &["and"]) {
                next - 1
            } else {
                next
            };
            return done(end, from(self.reference, 1)?);
        }
        None
    }

    /// `a`, `two`, `15`, `a couple of`.
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

    /// A number in words, up to a bound.
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

    /// A day of a month: `9`, `9th`, `ninth`, `twenty third`.
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

    /// A year: `2020`, `nineteen eighty six`, `two thousand and thirty two`.
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

    /// `next Tuesday`, `Tuesday of next week`, `Friday`.
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
        // A day of the month beside it narrows it down: the coming month in which the two fall together.
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

    /// `the first Friday of July`, `last Monday of next month`.
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

    /// The first day of the month before, of this one or of the next.
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

    /// `May 9`, `the 9th of May 2020`, `2020-Aug-1`, `Fri, Jun 15`.
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

    /// `2020-09-23`, `9/23/2020`, `23/08/39`, `11/22`, `2016 10 16`.
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

    /// `the 18th`, `the 21st of this month`.
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

    /// `Christmas`, `last Easter`, `Earth Day 2010`.
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

/// The date of a weekday in a week around the reference; weeks start on Monday.
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

/// The next day of the year that has this month and day, on the weekday if one is named and a near year has it.
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

/// The next day with this number in its month.
fn next_day_of_month(reference: Date, day: i8) -> Option<Date> {
    let first = reference.first_of_month();
    (0..4).find_map(|ahead| {
        let month = first.checked_add(ahead.months()).ok()?;
        Date::new(month.year(), month.month(), day)
            .ok()
            .filter(|date| *date >= reference)
    })
}

fn add_unit(span: Span, count: i64, unit: &str) -> Option<Span> {
    let name = unit.trim_end_matches('s');
    match name {
        "day" => span.try_days(i64::from(span.get_days()) + count),
        "week" => span.try_weeks(i64::from(span.get_weeks()) + count),
        "fortnight" => span.try_weeks(i64::from(span.get_weeks()) + 2 * count),
        "month" => span.try_months(i64::from(span.get_months()) + count),
        "year" => span.try_years(i64::from(span.get_years()) + count),
        _ => return None,
    }
    .ok()
}

/// Months by name.
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

fn month_number(word: &str) -> Option<i8> {
    let at = MONTHS.iter().position(|name| {
        *name == word || word.len() == 3 && name.starts_with(word) || word == "sept" && *name == "september"
    })?;
    Some(at as i8 + 1)
}

/// A weekday, and whether its name is written out.
fn weekday_of_name(word: &str) -> Option<(Weekday, bool)> {
    const NAMES: [(&str, &[&str], Weekday); 7] = [
        ("monday", &["mon"], Weekday::Monday),
        ("tuesday", &["tue", "tues"], Weekday::Tuesday),
        ("wednesday", &["wed", "weds"], Weekday::Wednesday),
        ("thursday", &["thu", "thur", "thurs"], Weekday::Thursday),
        ("friday", &["fri"], Weekday::Friday),
        ("saturday", &["sat"], Weekday::Saturday),
        ("sunday", &["sun"], Weekday::Sunday),
    ];
    NAMES
        .iter()
        .find(|(name, short, _)| *name == word || short.contains(&word))
        .map(|(name, _, weekday)| (*weekday, *name == word))
}

fn number_below_twenty(word: &str) -> Option<i64> {
    const NAMES: [&str; 19] = [
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
    ];
    NAMES.iter().position(|name| *name == word).map(|at| at as i64 + 1)
}

fn tens_value(word: &str) -> Option<i64> {
    const NAMES: [&str; 8] = [
        "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety",
    ];
    NAMES
        .iter()
        .position(|name| *name == word)
        .map(|at| 10 * (at as i64 + 2))
}

fn ordinal_value(word: &str) -> Option<i64> {
    const NAMES: [&str; 20] = [
        "first",
        "second",
        "third",
        "fourth",
        "fifth",
        "sixth",
        "seventh",
        "eighth",
        "ninth",
        "tenth",
        "eleventh",
        "twelfth",
        "thirteenth",
        "fourteenth",
        "fifteenth",
        "sixteenth",
        "seventeenth",
        "eighteenth",
        "nineteenth",
        "twentieth",
    ];
    if word == "thirtieth" {
        return Some(30);
    }
    NAMES.iter().position(|name| *name == word).map(|at| at as i64 + 1)
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
