//! A sheet as CSV (RFC 4180 quoting, line feeds): one header, one line per row, `schema_version` as the first column.
//!
//! Spreadsheets run text that begins like a formula, and the text of a session log is untrusted. Such text gets a leading
//! single quote; numbers, which may begin with a minus, do not.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::columns::{CellValue, Column, ColumnUnit};
use crate::{Sheet, json};

/// What makes a spreadsheet treat text as a formula.
const FORMULA_STARTS: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

pub(super) fn write<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    write_header(sheet, out)?;
    write_rows(sheet, out)
}

/// Writes the header alone.
pub(super) fn write_header<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let names = sheet.columns.iter().map(|column| column.name);
    writer
        .write_record(std::iter::once("schema_version").chain(names))
        .map_err(to_io_error)?;
    writer.flush()
}

/// Writes the rows alone.
pub(super) fn write_rows<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let version = sheet.schema.version.to_string();
    let mut digits = String::new();
    for row in sheet.rows {
        writer.write_field(&version).map_err(to_io_error)?;
        for column in sheet.columns {
            match column.cell(row) {
                // Most cells are numbers: format them into one reused buffer instead of a `String` each.
                CellValue::Int(number) if column.unit != ColumnUnit::Time => {
                    digits.clear();
                    let _ = fmt::Write::write_fmt(&mut digits, format_args!("{number}"));
                    writer.write_field(&digits).map_err(to_io_error)?;
                }
                cell => writer
                    .write_field(cell_text(json::cell_to_json(column.unit, cell)))
                    .map_err(to_io_error)?,
            }
        }
        writer.write_record(None::<&[u8]>).map_err(to_io_error)?;
    }
    writer.flush()
}

/// Returns the JSON form of a cell without quotes, so that both formats write the same digits.
fn cell_text(cell: serde_json::Value) -> String {
    match cell {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => escape_formula(text),
        number_or_flag => number_or_flag.to_string(),
    }
}

/// Returns text with a quote before it if a spreadsheet would run it. A quoted formula gets one more quote, so that removing
/// one always gives back the original.
fn escape_formula(text: String) -> String {
    if text.trim_start_matches('\'').starts_with(FORMULA_STARTS) {
        format!("'{text}")
    } else {
        text
    }
}

/// Returns text without the quote that [`escape_formula`] added.
fn unescape_formula(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(rest) if rest.trim_start_matches('\'').starts_with(FORMULA_STARTS) => rest,
        _ => cell,
    }
}

/// Reads a file back; see [`crate::read_cells`].
pub(super) fn read<R>(path: &Path, columns: &[Column<R>], mut take: impl FnMut(Vec<CellValue>)) -> io::Result<()> {
    let mut reader = ::csv::Reader::from_path(path).map_err(to_io_error)?;
    let header = reader.headers().map_err(to_io_error)?;
    let places = columns
        .iter()
        .map(|column| header.iter().position(|name| name == column.name));
    let places = places.collect::<Vec<_>>();
    let mut record = ::csv::StringRecord::new();
    while reader.read_record(&mut record).map_err(to_io_error)? {
        let cells = std::iter::zip(columns, &places).map(|(column, place)| {
            let text = place.and_then(|place| record.get(place)).unwrap_or_default();
            column.unit.parse(unescape_formula(text))
        });
        take(cells.collect());
    }
    Ok(())
}

/// Converts without losing the kind of an I/O error, as the `csv` crate's own conversion does: callers recognize a closed
/// pipe by it.
fn to_io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
    use language::visible::strip_controls;
    use proptest::prelude::*;

    use super::*;
    use crate::sample;
    use crate::sample::SampleRow;

    fn csv(rows: &[SampleRow]) -> String {
        let mut out = Vec::new();
        write(&sample::sheet(rows), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    fn read_back(text: &str) -> Vec<Vec<String>> {
        let mut reader = ::csv::ReaderBuilder::new()
            .has_headers(false)
            .from_reader(text.as_bytes());
        reader
            .records()
            .map(|record| record.unwrap().iter().map(str::to_owned).collect())
            .collect()
    }

    #[test]
    fn writes_header_rows_and_gaps() {
        let expected = "\
schema_version,project,session,rounds,tokens,cost_micro_usd,cached_share,took_ms,started,live
3,~/code/backcast,0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10,1284,48213377,31415926,0.9731,11524000,2026-01-02T03:04:05.678Z,false
3,\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\"),
red\",会话记录与上下文窗口的回放分析,7,45649,12345,0.5,950,1970-01-01T00:00:00.000Z,true
3,,,,,,,,,
";
        assert_eq!(csv(&sample::rows()), expected);
    }

    #[test]
    fn no_rows_leave_the_header() {
        assert_eq!(read_back(&csv(&[])).len(), 1);
    }

    #[test]
    fn negative_numbers_are_untouched() {
        let rows = [SampleRow {
            tokens: Some(-5),
            cached: Some(-0.25),
            ..SampleRow::default()
        }];
        assert_eq!(csv(&rows).lines().nth(1), Some("3,,,,-5,,-0.25,,,"));
    }

    #[test]
    fn formulas_are_guarded() {
        for text in ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "'=1", "''=1"] {
            assert_eq!(escape_formula(text.to_owned()), format!("'{text}"));
            assert_eq!(unescape_formula(&format!("'{text}")), text);
        }
        for text in ["", "a=1", " =1", "'quoted'", "1-1"] {
            assert_eq!(escape_formula(text.to_owned()), text);
            assert_eq!(unescape_formula(text), text);
        }
    }

    proptest! {
        #[test]
        fn text_comes_back_and_never_runs(text in "['=+@\\t\\r\\n\",a-]{0,6}") {
            let back = read_back(&csv(&[SampleRow { project: Some(text.clone()), ..SampleRow::default() }])).remove(1).remove(1);
            prop_assert!(!back.starts_with(['=', '+', '-', '@', '\t', '\r']));
            prop_assert_eq!(unescape_formula(&back), strip_controls(&text));
        }
    }
}
