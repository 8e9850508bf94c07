//! Dates in Chinese text.

use crate::dates::{DateMatch, DateQualifier, next_day_of_month, next_month_day, weekday_in_week};
use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

/// Words for a day, and its distance in days. Longer words come first: they contain the shorter ones.
const DAYS: &[(&str, i64)] = &[
    ("大后天", 3),
    ("大後天", 3),
    ("大前天", -3),
    ("后天", 2),
    ("後天", 2),
    ("前天", -2),
    ("今天", 0),
    ("今日", 0),
    ("今晚", 0),
    ("明天", 1),
    ("明日", 1),
    ("昨天", -1),
    ("昨日", -1),
    ("次日", 1),
    ("最近", 0),
];

/// Holidays on a fixed day.
const HOLIDAYS: &[(&str, i8, i8)] = &[
    ("元旦", 1, 1),
    ("情人节", 2, 14),
    ("妇女节", 3, 8),
    ("植树节", 3, 12),
    ("愚人节", 4, 1),
    ("劳动节", 5, 1),
    ("五一", 5, 1),
    ("儿童节", 6, 1),
    ("建党节", 7, 1),
    ("建军节", 8, 1),
    ("教师节", 9, 10),
    ("国庆节", 10, 1),
    ("国庆", 10, 1),
    ("万圣节", 10, 31),
    ("双十一", 11, 11),
    ("平安夜", 12, 24),
    ("圣诞节", 12, 25),
];

/// All dates.
pub fn find_dates(text: &str, reference: Date) -> Vec<DateMatch> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let starts_inside_number = text[..at].ends_with(|sign: char| digit_value(sign).is_some());
        match parse_date(rest, reference).filter(|_| !starts_inside_number) {
            Some((length, date, is_relative)) if length > 0 => {
                found.push(DateMatch {
                    range: at..at + length,
                    date,
                    is_relative,
                });
                at += length;
            }
            _ => at += rest.chars().next().map_or(1, char::len_utf8),
        }
    }
    found
}

/// Parses a date at the start of the text: its length in bytes, the date, and whether it is relative.
fn parse_date(text: &str, reference: Date) -> Option<(usize, Date, bool)> {
    let relative = |(length, date): (usize, Date)| (length, date, true);
    parse_named_day(text, reference)
        .map(relative)
        .or_else(|| parse_full_date(text))
        .or_else(|| parse_weekday(text, reference).map(relative))
        .or_else(|| parse_day_of_month(text, reference).map(relative))
        .or_else(|| parse_offset(text, reference).map(relative))
        .or_else(|| parse_holiday(text, reference).map(relative))
}

fn parse_named_day(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (word, days) = DAYS.iter().find(|(word, _)| text.starts_with(word))?;
    Some((word.len(), reference.checked_add(days.days()).ok()?))
}

/// Parses `2026年5月1日`, `二〇二六年五月一号`, `12-11-10`.
fn parse_full_date(text: &str) -> Option<(usize, Date, bool)> {
    if let Some((at, year)) = parse_year(text) {
        let (end, month, day) = parse_month_day(&text[at..])?;
        return Some((at + end, Date::new(year, month, day).ok()?, false));
    }
    // A year of two digits comes first in Chinese.
    let mut parts = text.splitn(3, '-');
    let two = |part: Option<&str>| part.filter(|part| part.len() == 2)?.parse::<i8>().ok();
    let (year, month) = (two(parts.next())?, two(parts.next())?);
    let last = parts.next()?;
    let day = two(last.get(..2))?;
    let is_whole = !last[2..].starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '-');
    let date = Date::new(2000 + i16::from(year), month, day).ok()?;
    is_whole.then_some((8, date, false))
}

/// Parses a year with its sign, digit by digit.
fn parse_year(text: &str) -> Option<(usize, i16)> {
    let (mut year, mut count) = (0i16, 0);
    for (at, sign) in text.char_indices() {
        match digit_value(sign).filter(|digit| *digit < 10) {
            Some(digit) if count < 4 => {
                year = year * 10 + digit as i16;
                count += 1;
            }
            _ => return (sign == '年' && count == 4).then_some((at + sign.len_utf8(), year)),
        }
    }
    None
}

/// Parses `5月1日`, `十二月二十四号`, `正月三十`: length, month, day.
fn parse_month_day(text: &str) -> Option<(usize, i8, i8)> {
    let (at, month) = match text.strip_prefix("正月") {
        Some(_) => ("正月".len(), 1),
        None => {
            let (at, month) = parse_number(text)?;
            (at + text[at..].strip_prefix('月').map(|_| '月'.len_utf8())?, month)
        }
    };
    let rest = text[at..].strip_prefix('初').unwrap_or(&text[at..]);
    let at = text.len() - rest.len();
    let (length, day) = parse_number(rest)?;
    let end = at + length;
    let sign = text[end..]
        .chars()
        .next()
        .filter(|sign| matches!(sign, '日' | '号' | '號'));
    Some((
        end + sign.map_or(0, char::len_utf8),
        i8::try_from(month).ok()?,
        i8::try_from(day).ok()?,
    ))
}

/// Parses `下周五`, `上上个星期一`, `周三`.
fn parse_weekday(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (mut rest, weeks) = parse_relative_count(text);
    rest = rest
        .strip_prefix('个')
        .or_else(|| rest.strip_prefix('個'))
        .unwrap_or(rest);
    let rest = ["周", "週", "星期", "礼拜"]
        .iter()
        .find_map(|week| rest.strip_prefix(week))?;
    let day = rest.chars().next()?;
    let weekday = match day {
        '一' | '1' => Weekday::Monday,
        '二' | '2' => Weekday::Tuesday,
        '三' | '3' => Weekday::Wednesday,
        '四' | '4' => Weekday::Thursday,
        '五' | '5' => Weekday::Friday,
        '六' | '6' => Weekday::Saturday,
        '日' | '天' | '末' | '7' => Weekday::Sunday,
        _ => return None,
    };
    let length = text.len() - rest.len() + day.len_utf8();
    let date = match weeks {
        Some(weeks) => weekday_in_week(reference, weekday, DateQualifier::This)?
            .checked_add(weeks.weeks())
            .ok()?,
        None => weekday_in_week(reference, weekday, DateQualifier::Coming)?,
    };
    Some((length, date))
}

/// Parses `上`, `下下`, `本`, `这`: the distance in weeks or months, if there is one, and the rest of the text.
fn parse_relative_count(text: &str) -> (&str, Option<i64>) {
    let (mut rest, mut weeks) = (text, None);
    loop {
        let step = match rest.chars().next() {
            Some('下') => 1,
            Some('上') => -1,
            Some('本' | '这' | '這') if weeks.is_none() => 0,
            _ => return (rest, weeks),
        };
        weeks = Some(weeks.unwrap_or(0) + step);
        rest = &rest[rest.chars().next().map_or(0, char::len_utf8)..];
    }
}

/// Parses `5月1日`, `本月十日`, `29日`, `明年3月1日`.
fn parse_day_of_month(text: &str, reference: Date) -> Option<(usize, Date)> {
    const YEARS: &[(&str, i16)] = &[("今年", 0), ("明年", 1), ("后年", 2), ("去年", -1), ("前年", -2)];
    if let Some((word, years)) = YEARS.iter().find(|(word, _)| text.starts_with(word)) {
        let (end, month, day) = parse_month_day(&text[word.len()..])?;
        return Some((word.len() + end, Date::new(reference.year() + years, month, day).ok()?));
    }
    if let Some((end, month, day)) = parse_month_day(text) {
        return Some((end, next_month_day(reference, month, day, None)?));
    }
    let (rest, months) = parse_relative_count(text);
    if let Some(months) = months {
        let rest = rest
            .strip_prefix('个')
            .or_else(|| rest.strip_prefix('個'))
            .unwrap_or(rest);
        let rest = rest.strip_prefix('月')?;
        let first = reference.first_of_month().checked_add(months.months()).ok()?;
        if let Some(rest) = rest.strip_prefix('底') {
            return Some((text.len() - rest.len(), first.last_of_month()));
        }
        let (length, day) = parse_day_with_sign(rest)?;
        let date = Date::new(first.year(), first.month(), day).ok()?;
        return Some((text.len() - rest.len() + length, date));
    }
    let (length, day) = parse_day_with_sign(text)?;
    Some((length, next_day_of_month(reference, day)?))
}

fn parse_day_with_sign(text: &str) -> Option<(usize, i8)> {
    let (length, day) = parse_number(text)?;
    let sign = text[length..]
        .chars()
        .next()
        .filter(|sign| matches!(sign, '日' | '号' | '號'))?;
    let day = i8::try_from(day).ok().filter(|day| (1..=31).contains(day))?;
    Some((length + sign.len_utf8(), day))
}

/// A unit of time.
#[derive(Clone, Copy)]
enum ChineseTimeUnit {
    Day,
    Week,
    Month,
    Year,
}

impl ChineseTimeUnit {
    fn span(self, count: i64) -> Option<Span> {
        let span = Span::new();
        match self {
            ChineseTimeUnit::Day => span.try_days(count),
            ChineseTimeUnit::Week => span.try_weeks(count),
            ChineseTimeUnit::Month => span.try_months(count),
            ChineseTimeUnit::Year => span.try_years(count),
        }
        .ok()
    }
}

/// Parses `5年前`, `三天后`, `两个月以后`.
fn parse_offset(text: &str, reference: Date) -> Option<(usize, Date)> {
    const UNITS: &[(&str, ChineseTimeUnit)] = &[
        ("天", ChineseTimeUnit::Day),
        ("日", ChineseTimeUnit::Day),
        ("个星期", ChineseTimeUnit::Week),
        ("星期", ChineseTimeUnit::Week),
        ("个礼拜", ChineseTimeUnit::Week),
        ("周", ChineseTimeUnit::Week),
        ("个月", ChineseTimeUnit::Month),
        ("年", ChineseTimeUnit::Year),
    ];
    let (digits, count) = match text.strip_prefix('两') {
        Some(_) => ('两'.len_utf8(), 2),
        None => parse_number(text)?,
    };
    let rest = &text[digits..];
    let (unit, length) = UNITS.iter().find(|(unit, _)| rest.starts_with(unit))?;
    let rest = &rest[unit.len()..];
    let rest = rest
        .strip_prefix('之')
        .or_else(|| rest.strip_prefix('以'))
        .unwrap_or(rest);
    let (word, sign) = [("前", -1), ("后", 1), ("後", 1), ("内", 1)]
        .into_iter()
        .find(|(word, _)| rest.starts_with(word))?;
    let date = reference.checked_add(length.span(count * sign)?).ok()?;
    Some((text.len() - rest.len() + word.len(), date))
}

fn parse_holiday(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (word, month, day) = HOLIDAYS.iter().find(|(word, ..)| text.starts_with(word))?;
    Some((word.len(), next_month_day(reference, *month, *day, None)?))
}

/// Parses a number below 100 in either script: its length in bytes, and its value.
fn parse_number(text: &str) -> Option<(usize, i64)> {
    let digits = text.len() - text.trim_start_matches(|sign: char| sign.is_ascii_digit()).len();
    if digits > 0 {
        return Some((digits, text[..digits].parse().ok().filter(|_| digits <= 3)?));
    }
    let (mut length, mut value, mut is_after_ten) = (0, 0, false);
    for sign in text.chars() {
        match digit_value(sign) {
            Some(10) if !is_after_ten => {
                value = value.max(1) * 10;
                is_after_ten = true;
            }
            Some(20 | 30) if length == 0 => {
                value = digit_value(sign)?;
                is_after_ten = true;
            }
            Some(digit @ 1..=9) if length == 0 || is_after_ten && value % 10 == 0 => value += digit,
            _ => break,
        }
        length += sign.len_utf8();
    }
    (length > 0).then_some((length, value))
}

fn digit_value(sign: char) -> Option<i64> {
    Some(match sign {
        '0'..='9' => i64::from(sign as u32 - '0' as u32),
        '〇' | '零' => 0,
        '一' => 1,
        '二' => 2,
        '三' => 3,
        '四' => 4,
        '五' => 5,
        '六' => 6,
        '七' => 7,
        '八' => 8,
        '九' => 9,
        '十' => 10,
        '廿' => 20,
        '卅' => 30,
        _ => return None,
    })
}
