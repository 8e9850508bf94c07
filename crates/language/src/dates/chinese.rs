//! Dates in Chinese text.

use crate::dates::{Found, Which, coming, coming_day, in_week};
use jiff::civil::{Date, Weekday};
use jiff::{Span, ToSpan};

/// Words for a day, and how far it is away. Longer ones first: they contain the shorter.
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
pub fn find(text: &str, reference: Date) -> Vec<Found> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let starts_inside_number = text[..at].ends_with(|sign: char| digit(sign).is_some());
        match read(rest, reference).filter(|_| !starts_inside_number) {
            Some((length, date, is_relative)) if length > 0 => {
                found.push(Found {
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

/// A date at the start of the text: how long it is, what it means, whether it is relative.
fn read(text: &str, reference: Date) -> Option<(usize, Date, bool)> {
    let relative = |(length, date): (usize, Date)| (length, date, true);
    named_day(text, reference)
        .map(relative)
        .or_else(|| full(text))
        .or_else(|| of_week(text, reference).map(relative))
        .or_else(|| of_month(text, reference).map(relative))
        .or_else(|| offset(text, reference).map(relative))
        .or_else(|| holiday(text, reference).map(relative))
}

fn named_day(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (word, days) = DAYS.iter().find(|(word, _)| text.starts_with(word))?;
    Some((word.len(), reference.checked_add(days.days()).ok()?))
}

/// `2026年5月1日`, `二〇二六年五月一号`, `12-11-10`.
fn full(text: &str) -> Option<(usize, Date, bool)> {
    if let Some((at, year)) = year(text) {
        let (end, month, day) = month_day(&text[at..])?;
        return Some((at + end, Date::new(year, month, day).ok()?, false));
    }
    // Short years stand first in Chinese.
    let mut parts = text.splitn(3, '-');
    let two = |part: Option<&str>| part.filter(|part| part.len() == 2)?.parse::<i8>().ok();
    let (year, month) = (two(parts.next())?, two(parts.next())?);
    let last = parts.next()?;
    let day = two(last.get(..2))?;
    let is_whole = !last[2..].starts_with(|sign: char| sign.is_ascii_alphanumeric() || sign == '-');
    let date = Date::new(2000 + i16::from(year), month, day).ok()?;
    is_whole.then_some((8, date, false))
}

/// A year with its sign: digits are read one by one.
fn year(text: &str) -> Option<(usize, i16)> {
    let (mut year, mut count) = (0i16, 0);
    for (at, sign) in text.char_indices() {
        match digit(sign).filter(|digit| *digit < 10) {
            Some(digit) if count < 4 => {
                year = year * 10 + digit as i16;
                count += 1;
            }
            _ => return (sign == '年' && count == 4).then_some((at + sign.len_utf8(), year)),
        }
    }
    None
}

/// `5月1日`, `十二月二十四号`, `正月三十`: how long, month, day.
fn month_day(text: &str) -> Option<(usize, i8, i8)> {
    let (at, month) = match text.strip_prefix("正月") {
        Some(_) => ("正月".len(), 1),
        None => {
            let (at, month) = number(text)?;
            (at + text[at..].strip_prefix('月').map(|_| '月'.len_utf8())?, month)
        }
    };
    let rest = text[at..].strip_prefix('初').unwrap_or(&text[at..]);
    let at = text.len() - rest.len();
    let (length, day) = number(rest)?;
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

/// `下周五`, `上上个星期一`, `周三`.
fn of_week(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (mut rest, weeks) = weeks(text);
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
        Some(weeks) => in_week(reference, weekday, Which::This)?
            .checked_add(weeks.weeks())
            .ok()?,
        None => in_week(reference, weekday, Which::Coming)?,
    };
    Some((length, date))
}

/// `上`, `下下`, `本`, `这`: how many weeks or months away, if it is said.
fn weeks(text: &str) -> (&str, Option<i64>) {
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

/// `5月1日`, `本月十日`, `29日`, `明年3月1日`.
fn of_month(text: &str, reference: Date) -> Option<(usize, Date)> {
    const YEARS: &[(&str, i16)] = &[("今年", 0), ("明年", 1), ("后年", 2), ("去年", -1), ("前年", -2)];
    if let Some((word, years)) = YEARS.iter().find(|(word, _)| text.starts_with(word)) {
        let (end, month, day) = month_day(&text[word.len()..])?;
        return Some((word.len() + end, Date::new(reference.year() + years, month, day).ok()?));
    }
    if let Some((end, month, day)) = month_day(text) {
        return Some((end, coming(reference, month, day, None)?));
    }
    let (rest, months) = weeks(text);
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
        let (length, day) = day_with_sign(rest)?;
        let date = Date::new(first.year(), first.month(), day).ok()?;
        return Some((text.len() - rest.len() + length, date));
    }
    let (length, day) = day_with_sign(text)?;
    Some((length, coming_day(reference, day)?))
}

fn day_with_sign(text: &str) -> Option<(usize, i8)> {
    let (length, day) = number(text)?;
    let sign = text[length..]
        .chars()
        .next()
        .filter(|sign| matches!(sign, '日' | '号' | '號'))?;
    let day = i8::try_from(day).ok().filter(|day| (1..=31).contains(day))?;
    Some((length + sign.len_utf8(), day))
}

/// A length of time.
#[derive(Clone, Copy)]
enum Unit {
    Day,
    Week,
    Month,
    Year,
}

impl Unit {
    fn span(self, count: i64) -> Option<Span> {
        let span = Span::new();
        match self {
            Unit::Day => span.try_days(count),
            Unit::Week => span.try_weeks(count),
            Unit::Month => span.try_months(count),
            Unit::Year => span.try_years(count),
        }
        .ok()
    }
}

/// `5年前`, `三天后`, `两个月以后`.
fn offset(text: &str, reference: Date) -> Option<(usize, Date)> {
    const UNITS: &[(&str, Unit)] = &[
        ("天", Unit::Day),
        ("日", Unit::Day),
        ("个星期", Unit::Week),
        ("星期", Unit::Week),
        ("个礼拜", Unit::Week),
        ("周", Unit::Week),
        ("个月", Unit::Month),
        ("年", Unit::Year),
    ];
    let (digits, count) = match text.strip_prefix('两') {
        Some(_) => ('两'.len_utf8(), 2),
        None => number(text)?,
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

fn holiday(text: &str, reference: Date) -> Option<(usize, Date)> {
    let (word, month, day) = HOLIDAYS.iter().find(|(word, ..)| text.starts_with(word))?;
    Some((word.len(), coming(reference, *month, *day, None)?))
}

/// A number below 100 in either script, and its length in bytes.
fn number(text: &str) -> Option<(usize, i64)> {
    let digits = text.len() - text.trim_start_matches(|sign: char| sign.is_ascii_digit()).len();
    if digits > 0 {
        return Some((digits, text[..digits].parse().ok().filter(|_| digits <= 3)?));
    }
    let (mut length, mut value, mut is_after_ten) = (0, 0, false);
    for sign in text.chars() {
        match digit(sign) {
            Some(10) if !is_after_ten => {
                value = value.max(1) * 10;
                is_after_ten = true;
            }
            Some(20 | 30) if length == 0 => {
                value = digit(sign)?;
                is_after_ten = true;
            }
            Some(digit @ 1..=9) if length == 0 || is_after_ten && value % 10 == 0 => value += digit,
            _ => break,
        }
        length += sign.len_utf8();
    }
    (length > 0).then_some((length, value))
}

fn digit(sign: char) -> Option<i64> {
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
