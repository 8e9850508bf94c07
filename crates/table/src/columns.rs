//! The declaration of a column: name, unit, meaning and where its cells come from. Every format reads it from here.

use jiff::Timestamp;

/// What a column holds; decides alignment, wording and storage type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnUnit {
    Text,
    /// An id, of which people see the beginning.
    Id,
    /// Words that judge: coloured on a terminal that wants colours, see [`crate::Tone`].
    Verdict,
    /// A sparkline or a bar: text that cannot be shortened.
    Drawing,
    Count,
    Tokens,
    /// Millionths of a US dollar: money stays an integer until a person reads it.
    MicroUsd,
    /// A part of a whole, 0 to 1.
    Share,
    /// A number with a fraction.
    Ratio,
    Millis,
    /// Milliseconds since the Unix epoch, written as RFC 3339 in UTC.
    Time,
    Flag,
}

impl ColumnUnit {
    /// The unit in words, for the documentation.
    pub fn label(self) -> &'static str {
        match self {
            ColumnUnit::Text | ColumnUnit::Id | ColumnUnit::Verdict | ColumnUnit::Drawing => "text",
            ColumnUnit::Count => "count",
            ColumnUnit::Tokens => "tokens",
            ColumnUnit::MicroUsd => "millionths of a US dollar",
            ColumnUnit::Share => "share, 0 to 1",
            ColumnUnit::Ratio => "number",
            ColumnUnit::Millis => "milliseconds",
            ColumnUnit::Time => "time, RFC 3339 in UTC",
            ColumnUnit::Flag => "true or false",
        }
    }

    pub(super) fn storage_kind(self) -> StorageKind {
        match self {
            ColumnUnit::Text | ColumnUnit::Id | ColumnUnit::Verdict | ColumnUnit::Drawing => StorageKind::Text,
            ColumnUnit::Count | ColumnUnit::Tokens | ColumnUnit::MicroUsd | ColumnUnit::Millis | ColumnUnit::Time => {
                StorageKind::Int
            }
            ColumnUnit::Share | ColumnUnit::Ratio => StorageKind::Float,
            ColumnUnit::Flag => StorageKind::Flag,
        }
    }
}

/// How the cells of a unit are held in memory and in Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StorageKind {
    Text,
    Int,
    Float,
    Flag,
}

/// One cell. `None` is "not known" and stays distinct from zero and from empty text wherever the format can tell.
#[derive(Debug, Clone, PartialEq)]
pub enum CellValue {
    None,
    Text(String),
    Int(i64),
    Float(f64),
    Flag(bool),
}

impl From<String> for CellValue {
    fn from(text: String) -> Self {
        CellValue::Text(text)
    }
}

impl From<&str> for CellValue {
    fn from(text: &str) -> Self {
        CellValue::Text(text.to_owned())
    }
}

impl From<i64> for CellValue {
    fn from(number: i64) -> Self {
        CellValue::Int(number)
    }
}

impl From<u32> for CellValue {
    fn from(number: u32) -> Self {
        CellValue::Int(number.into())
    }
}

/// Counts above `i64::MAX` become that limit: no format here stores more, and no log can hold as many tokens.
impl From<u64> for CellValue {
    fn from(number: u64) -> Self {
        CellValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<usize> for CellValue {
    fn from(number: usize) -> Self {
        CellValue::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl From<f64> for CellValue {
    fn from(number: f64) -> Self {
        CellValue::Float(number)
    }
}

impl From<bool> for CellValue {
    fn from(flag: bool) -> Self {
        CellValue::Flag(flag)
    }
}

impl<T: Into<CellValue>> From<Option<T>> for CellValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(CellValue::None, Into::into)
    }
}

/// Whether the terminal table has a column. The other formats have them all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableVisibility {
    /// Given up last.
    Always,
    /// Given up as soon as the terminal is too narrow, the rightmost first.
    IfRoom,
    Never,
}

/// A column of rows of type `R`, declared once.
pub struct Column<R> {
    /// Name in CSV, JSON and Parquet, in snake case.
    pub name: &'static str,
    /// Short heading in the terminal table.
    pub title: &'static str,
    pub unit: ColumnUnit,
    /// One sentence for the documentation.
    pub about: &'static str,
    pub in_table: TableVisibility,
    pub get: fn(&R) -> CellValue,
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Column<R> {}

/// Declares a column on one line.
pub const fn column<R>(
    name: &'static str,
    title: &'static str,
    unit: ColumnUnit,
    in_table: TableVisibility,
    about: &'static str,
    get: fn(&R) -> CellValue,
) -> Column<R> {
    Column {
        name,
        title,
        unit,
        about,
        in_table,
        get,
    }
}

impl<R> Column<R> {
    /// The cell of a row, ready for any format: what cannot be written (not a number, infinite, a time outside the
    /// years 0 to 9999) is missing in all of them alike.
    ///
    /// # Panics
    /// When `get` returns another kind of value than `unit` declares. That is a defect of the declaration which the
    /// first row shows; input cannot cause it.
    pub fn cell(&self, row: &R) -> CellValue {
        let value = (self.get)(row);
        match (&value, self.unit.storage_kind()) {
            (CellValue::None, _)
            | (CellValue::Text(_), StorageKind::Text)
            | (CellValue::Flag(_), StorageKind::Flag) => value,
            (CellValue::Int(millis), StorageKind::Int)
                if self.unit == ColumnUnit::Time && timestamp(*millis).is_none() =>
            {
                CellValue::None
            }
            (CellValue::Int(_), StorageKind::Int) => value,
            (CellValue::Float(number), StorageKind::Float) if number.is_finite() => value,
            (CellValue::Float(_), StorageKind::Float) => CellValue::None,
            _ => panic!(
                "column {} is declared as {:?} but holds {value:?}",
                self.name, self.unit
            ),
        }
    }
}

/// The point in time of a `Unit::Time` cell, or `None` outside the years that RFC 3339 can write.
pub(super) fn timestamp(millis: i64) -> Option<Timestamp> {
    const YEAR_0: i64 = -62_167_219_200_000;
    Timestamp::from_millisecond(millis).ok().filter(|_| millis >= YEAR_0)
}

/// A time as every output writes it. It has milliseconds always, so that times sort as text.
pub fn format_time(millis: i64) -> Option<String> {
    timestamp(millis).map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// The columns as a Markdown table, for the generated part of the documentation.
pub fn columns_markdown<R>(columns: &[Column<R>]) -> String {
    let mut text = String::from("| column | unit | meaning |\n| --- | --- | --- |\n");
    for column in columns {
        let about = column.about.replace('|', "\\|");
        text.push_str(&format!("| `{}` | {} | {about} |\n", column.name, column.unit.label()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    fn test_column(unit: ColumnUnit, get: fn(&()) -> CellValue) -> Column<()> {
        Column {
            name: "x",
            title: "X",
            unit,
            about: "A test.",
            in_table: TableVisibility::Always,
            get,
        }
    }

    #[test]
    fn what_no_format_can_write_is_missing() {
        assert_eq!(
            test_column(ColumnUnit::Share, |()| f64::NAN.into()).cell(&()),
            CellValue::None
        );
        assert_eq!(
            test_column(ColumnUnit::Share, |()| f64::INFINITY.into()).cell(&()),
            CellValue::None
        );
        assert_eq!(
            test_column(ColumnUnit::Time, |()| i64::MAX.into()).cell(&()),
            CellValue::None
        );
        assert_eq!(
            test_column(ColumnUnit::Time, |()| i64::MIN.into()).cell(&()),
            CellValue::None
        );
        assert_eq!(
            test_column(ColumnUnit::Time, |()| (-62_167_219_200_000_i64 - 1).into()).cell(&()),
            CellValue::None
        );
        assert_eq!(
            test_column(ColumnUnit::Tokens, |()| i64::MAX.into()).cell(&()),
            CellValue::Int(i64::MAX)
        );
        assert_eq!(
            test_column(ColumnUnit::Tokens, |()| 0_u64.into()).cell(&()),
            CellValue::Int(0)
        );
    }

    #[test]
    #[should_panic(expected = "column x is declared as Tokens but holds Text")]
    fn a_declaration_that_lies_is_named() {
        test_column(ColumnUnit::Tokens, |()| "12".into()).cell(&());
    }

    #[test]
    fn values_come_from_plain_types() {
        assert_eq!(CellValue::from(None::<u32>), CellValue::None);
        assert_eq!(CellValue::from(Some(true)), CellValue::Flag(true));
        assert_eq!(CellValue::from(u64::MAX), CellValue::Int(i64::MAX));
        assert_eq!(CellValue::from(7_usize), CellValue::Int(7));
        assert_eq!(CellValue::from(7_u32), CellValue::Int(7));
    }

    #[test]
    fn docs_list_every_column_once() {
        let text = columns_markdown(sample::COLUMNS);
        assert_eq!(text.lines().count(), 2 + sample::COLUMNS.len());
        assert!(text.starts_with("| column | unit | meaning |\n| --- | --- | --- |\n| `project` | text | Folder"));
        assert!(text.contains("| `tokens` | tokens | Tokens of all rounds, input \\| output. |\n"));
    }
}
