//! A sheet as CSV (RFC 4180 quoting, line feeds): one header, one line a row, `schema_version` as the first column.
//!
//! Spreadsheets run text that begins like a formula, and the text of a session log is not ours to trust. Such text
//! gets a leading single quote; numbers, which may well begin with a minus, are left alone.

use std::fmt;
use std::io::{self, Write};

use crate::columns::{CellValue, ColumnUnit};
use crate::{Sheet, json};

pub(super) fn write<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    write_header(sheet, out)?;
    write_rows(sheet, out)
}

/// The header alone.
pub(super) fn write_header<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let names = sheet.columns.iter().map(|column| column.name);
    writer
        .write_record(std::iter::once("schema_version").chain(names))
        .map_err(to_io_error)?;
    writer.flush()
}

/// The rows alone.
pub(super) fn write_rows<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(out);
    let version = sheet.schema_version.to_string();
    let mut digits = String::new();
    for row in sheet.rows {
        writer.write_field(&version).map_err(to_io_error)?;
        for column in sheet.columns {
            match column.cell(row) {
                // Most cells are numbers, and a number needs no text of its own.
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

/// The JSON form of a cell without its quotes, so that both formats write one and the same number.
fn cell_text(cell: serde_json::Value) -> String {
    match cell {
        serde_json::Value::Null => String::new(),
        serde_json::Value::String(text) => escape_formula(text),
        number_or_flag => number_or_flag.to_string(),
    }
}

/// Text with a quote before it if a spreadsheet would run it. Text that already is a quoted formula gets one more, so
/// that taking one quote off gives back exactly what was there.
fn escape_formula(text: String) -> String {
    if text
        .trim_start_matches('\'')
        .starts_with(['=', '+', '-', '@', '\t', '\r'])
    {
        format!("'{text}")
    } else {
        text
    }
}

/// The `csv` crate's own conversion forgets the kind of an I/O error, which a closed pipe is recognised by.
fn to_io_error(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

#[cfg(test)]
mod tests {
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

    /// What a reader of our files does to get the original text back.
    fn unescape_formula(text: &str) -> &str {
        if text.starts_with('\'')
            && text
                .trim_start_matches('\'')
                .starts_with(['=', '+', '-', '@', '\t', '\r'])
        {
            &text[1..]
        } else {
            text
        }
    }

    #[test]
    fn writes_header_rows_and_gaps() {
        let expected = "\
schema_version,project,session,rounds,tokens,cost_micro_usd,cached_share,took_ms,started,live
3,~/code/backcast,0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10,1284,48213377,31415926,0.9731,11524000,2026-01-02T03:04:05.678Z,false
3,\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\"),
\u{1b}[31mred\",会话记录与上下文窗口的回放分析,7,45649,12345,0.5,950,1970-01-01T00:00:00.000Z,true
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
        }
        for text in ["", "a=1", " =1", "'quoted'", "1-1"] {
            assert_eq!(escape_formula(text.to_owned()), text);
        }
    }

    proptest! {
        #[test]
        fn text_comes_back_and_never_runs(text in "['=+@\\t\\r\\n\",a-]{0,6}") {
            let back = read_back(&csv(&[SampleRow { project: Some(text.clone()), ..SampleRow::default() }])).remove(1).remove(1);
            prop_assert!(!back.starts_with(['=', '+', '-', '@', '\t', '\r']));
            prop_assert_eq!(unescape_formula(&back), text);
        }
    }
}
