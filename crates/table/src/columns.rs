//! Column declarations: `columns!` states name, title, unit, visibility, meaning and getter of each column in one line, and
//! every output format derives from that line.

use crate::human;
use jiff::Timestamp;
use language::visible::{shown, strip_controls};
use std::borrow::Cow;
use std::sync::Arc;

/// What the cells of a column measure. Decides alignment, wording and storage type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnUnit {
    Text,
    /// An id; tables show its first eight characters.
    Id,
    /// A judgment, colored where the terminal has colors; see [`crate::Tone`].
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
    /// Returns the unit in words, for the documentation.
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

    /// Reads a cell back from the text that CSV has for it. Empty text and text of another type give `CellValue::None`.
    pub(crate) fn parse(self, text: &str) -> CellValue {
        if text.is_empty() {
            return CellValue::None;
        }
        match self.storage_kind() {
            StorageKind::Text => text_cell(text),
            StorageKind::Int if self == ColumnUnit::Time => {
                time_cell(text.parse::<Timestamp>().ok().map(Timestamp::as_millisecond))
            }
            StorageKind::Int => int_cell(text.parse::<i64>().ok()),
            StorageKind::Float => float_cell(text.parse::<f64>().ok()),
            StorageKind::Flag => flag_cell(text.parse::<bool>().ok()),
        }
    }

    pub(crate) fn storage_kind(self) -> StorageKind {
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

/// How the cells of a unit are stored in memory and in Parquet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StorageKind {
    Text,
    Int,
    Float,
    Flag,
}

/// One cell. `None` is "not known" and stays distinct from zero and from empty text wherever the format can express it.
#[derive(Debug, Clone, PartialEq)]
pub enum CellValue {
    None,
    Text(String),
    Int(i64),
    Float(f64),
    Flag(bool),
}

impl CellValue {
    /// Returns the number of an integer cell; `None` for every other cell.
    pub fn as_int(&self) -> Option<i64> {
        match self {
            CellValue::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// Returns the text of a text cell; `None` for every other cell.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            CellValue::Text(text) => Some(text),
            _ => None,
        }
    }
}

/// A value that a getter may return for cells of type `T`. `None` is a missing cell.
pub trait IntoCell<T> {
    fn into_cell(self) -> Option<T>;
}

macro_rules! into_cell {
    ($($cell:ty: $($from:ty => $convert:expr),+;)+) => {$($(
        impl IntoCell<$cell> for $from {
            fn into_cell(self) -> Option<$cell> {
                let convert: fn($from) -> $cell = $convert;
                Some(convert(self))
            }
        }
    )+)+};
}

into_cell! {
    String: String => |text| text, &str => str::to_owned, &String => String::clone, &Arc<str> => |text| text.as_ref().to_owned();
    // Counts above `i64::MAX` become that limit: no format stores more, and no log can hold as many tokens.
    i64: i64 => |number| number, u32 => i64::from, u64 => saturate, usize => |number| saturate(number as u64);
    f64: f64 => |number| number;
    bool: bool => |flag| flag;
}

fn saturate(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

impl<T, V: IntoCell<T>> IntoCell<T> for Option<V> {
    fn into_cell(self) -> Option<T> {
        self.and_then(IntoCell::into_cell)
    }
}

impl<'a, T, V> IntoCell<T> for &'a Option<V>
where
    &'a V: IntoCell<T>,
{
    fn into_cell(self) -> Option<T> {
        self.as_ref().and_then(IntoCell::into_cell)
    }
}

/// Returns a cell of text.
pub fn text_cell(value: impl IntoCell<String>) -> CellValue {
    value.into_cell().map_or(CellValue::None, CellValue::Text)
}

/// Returns a cell of a whole number.
pub fn int_cell(value: impl IntoCell<i64>) -> CellValue {
    value.into_cell().map_or(CellValue::None, CellValue::Int)
}

/// Returns a cell of a time; missing outside the years 0 to 9999, which no format can write.
pub fn time_cell(value: impl IntoCell<i64>) -> CellValue {
    int_cell(value.into_cell().filter(|millis| timestamp(*millis).is_some()))
}

/// Returns a cell of a number with a fraction; missing if it is infinite or not a number, which no format can write.
pub fn float_cell(value: impl IntoCell<f64>) -> CellValue {
    let number = value.into_cell().filter(|number| number.is_finite());
    number.map_or(CellValue::None, CellValue::Float)
}

/// Returns a cell of true or false.
pub fn flag_cell(value: impl IntoCell<bool>) -> CellValue {
    value.into_cell().map_or(CellValue::None, CellValue::Flag)
}

/// Whether the terminal table shows a column. The other formats have all columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableVisibility {
    /// Dropped last.
    Always,
    /// Dropped as soon as the terminal is too narrow, the rightmost first.
    IfRoom,
    Never,
}

/// A column of rows of type `R`. Only `columns!` makes one, so that the getter returns what the unit stores.
pub struct Column<R> {
    /// Name in CSV, JSON and Parquet, in snake case.
    pub name: &'static str,
    /// Short heading in the terminal table.
    pub title: &'static str,
    pub unit: ColumnUnit,
    /// One sentence for the documentation.
    pub about: &'static str,
    pub in_table: TableVisibility,
    get: fn(&R) -> CellValue,
}

impl<R> Clone for Column<R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Column<R> {}

impl<R> Column<R> {
    /// Called by `columns!`, which picks the cell function of the unit for `get`.
    #[doc(hidden)]
    pub const fn declare(
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

    /// Returns the cell of a row.
    ///
    /// Text is free of secrets and of control characters here, before any format sees it and before it is cut to a width.
    pub fn cell(&self, row: &R) -> CellValue {
        match (self.get)(row) {
            CellValue::Text(text) if self.unit == ColumnUnit::Text => CellValue::Text(to_shown(text)),
            CellValue::Text(text) if self.unit == ColumnUnit::Id => match strip_controls(&text) {
                Cow::Owned(plain) => CellValue::Text(plain),
                Cow::Borrowed(_) => CellValue::Text(text),
            },
            cell => cell,
        }
    }

    /// Returns the cell of a row as tables show it.
    pub(crate) fn display(&self, row: &R) -> String {
        human::format_cell(self.unit, &self.cell(row))
    }
}

/// Returns a text without secrets and control characters; most texts come back as they are.
pub(crate) fn to_shown(text: String) -> String {
    match shown(&text) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

/// Declares constant lists of columns, one line per column: name, title, unit, visibility in tables, meaning, getter.
///
/// ```
/// struct Call { turn: u32, model: Option<String> }
///
/// table::columns! {
///     pub COLUMNS: Call;
///     "turn" "Turn" Count Always "Turn, from 0." |row| row.turn;
///     "model" "Model" Text IfRoom "Model; empty if it is not known." |row| &row.model;
/// }
///
/// assert_eq!(COLUMNS[0].cell(&Call { turn: 3, model: None }).as_int(), Some(3));
/// ```
///
/// A getter that returns another type than the unit stores does not compile:
///
/// ```compile_fail
/// struct Call { turn: u32 }
///
/// table::columns! {
///     pub COLUMNS: Call;
///     "turn" "Turn" Text Always "Turn, from 0." |row| row.turn;
/// }
/// ```
#[macro_export]
macro_rules! columns {
    ($(
        $(#[$meta:meta])*
        $vis:vis $list:ident: $row_type:ty;
        $($name:literal $title:literal $unit:ident $visibility:ident $about:literal |$row:ident| $get:expr;)*
    )+) => {$(
        $(#[$meta])*
        $vis const $list: &[$crate::Column<$row_type>] = &[$(
            $crate::Column::declare(
                $name,
                $title,
                $crate::ColumnUnit::$unit,
                $crate::TableVisibility::$visibility,
                $about,
                |$row: &$row_type| $crate::columns::cells_by_unit::$unit($get),
            ),
        )*];
    )+};
}

/// The cell function of each unit, under the name of the unit.
#[doc(hidden)]
pub mod cells_by_unit {
    pub use super::{flag_cell as Flag, float_cell as Ratio, float_cell as Share, time_cell as Time};
    pub use super::{int_cell as Count, int_cell as MicroUsd, int_cell as Millis, int_cell as Tokens};
    pub use super::{text_cell as Drawing, text_cell as Id, text_cell as Text, text_cell as Verdict};
}

/// Returns the point in time of a `ColumnUnit::Time` cell, or `None` outside the years that RFC 3339 can write.
pub(crate) fn timestamp(millis: i64) -> Option<Timestamp> {
    const YEAR_0: i64 = -62_167_219_200_000;
    Timestamp::from_millisecond(millis).ok().filter(|_| millis >= YEAR_0)
}

/// Returns a time as every output writes it, always with milliseconds so that times sort as text. `None` outside the years
/// 0 to 9999.
pub fn format_time(millis: i64) -> Option<String> {
    timestamp(millis).map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// Returns the columns as a Markdown table, for the generated part of the documentation.
pub fn columns_markdown<R>(columns: &[Column<R>]) -> String {
    let mut text = String::from("| column | unit | meaning |\n| --- | --- | --- |\n");
    for column in columns {
        let about = column.about.replace('|', "\\|");
        text.push_str(&format!("| `{}` | {} | {about} |\n", column.name, column.unit.label()));
    }
    text
}

/// Returns the JSON Schema of a row with these columns. Any cell may be empty.
pub fn columns_schema<R>(columns: &[Column<R>]) -> serde_json::Value {
    let property = |column: &Column<R>| {
        let kind = match column.unit {
            ColumnUnit::Count | ColumnUnit::Tokens | ColumnUnit::MicroUsd | ColumnUnit::Millis => "integer",
            ColumnUnit::Share | ColumnUnit::Ratio => "number",
            ColumnUnit::Flag => "boolean",
            ColumnUnit::Text | ColumnUnit::Id | ColumnUnit::Verdict | ColumnUnit::Drawing | ColumnUnit::Time => {
                "string"
            }
        };
        let mut schema = serde_json::json!({"type": [kind, "null"], "description": column.about});
        if column.unit == ColumnUnit::Time {
            schema["format"] = "date-time".into();
        }
        (column.name.to_owned(), schema)
    };
    serde_json::json!({
        "type": "object",
        "properties": columns.iter().map(property).collect::<serde_json::Map<_, _>>(),
        "required": columns.iter().map(|column| column.name).collect::<Vec<_>>(),
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn what_no_format_can_write_is_missing() {
        assert_eq!(float_cell(f64::NAN), CellValue::None);
        assert_eq!(float_cell(f64::INFINITY), CellValue::None);
        assert_eq!(time_cell(i64::MAX), CellValue::None);
        assert_eq!(time_cell(i64::MIN), CellValue::None);
        assert_eq!(time_cell(-62_167_219_200_000_i64 - 1), CellValue::None);
        assert_eq!(int_cell(i64::MAX), CellValue::Int(i64::MAX));
        assert_eq!(int_cell(0_u64), CellValue::Int(0));
    }

    #[test]
    fn cells_come_from_plain_types() {
        assert_eq!(int_cell(None::<u32>), CellValue::None);
        assert_eq!(flag_cell(Some(true)), CellValue::Flag(true));
        assert_eq!(int_cell(u64::MAX), CellValue::Int(i64::MAX));
        assert_eq!(int_cell(7_usize), CellValue::Int(7));
        assert_eq!(int_cell(7_u32), CellValue::Int(7));
        assert_eq!(text_cell(Some("a".to_owned())), CellValue::Text("a".to_owned()));
    }

    #[test]
    fn cells_are_read_back_by_their_unit() {
        assert_eq!(ColumnUnit::Count.parse("12"), CellValue::Int(12));
        assert_eq!(ColumnUnit::Flag.parse("true"), CellValue::Flag(true));
        assert_eq!(ColumnUnit::Text.parse("12"), text_cell("12"));
        assert_eq!(ColumnUnit::Share.parse(""), CellValue::None);
        assert_eq!(ColumnUnit::Count.parse("twelve"), CellValue::None);
        let time = ColumnUnit::Time.parse("2026-01-02T03:04:05.678Z");
        assert_eq!(time, CellValue::Int(1_767_323_045_678));
    }

    #[test]
    fn docs_list_every_column_once() {
        let text = columns_markdown(sample::COLUMNS);
        assert_eq!(text.lines().count(), 2 + sample::COLUMNS.len());
        assert!(text.starts_with("| column | unit | meaning |\n| --- | --- | --- |\n| `project` | text | Folder"));
        assert!(text.contains("| `tokens` | tokens | Tokens of all rounds, input \\| output. |\n"));
    }
}
