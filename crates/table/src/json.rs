//! A sheet as one JSON document, as JSON lines, or as rows inside a larger document.
//!
//! Keys follow the declared columns and a row is one line, so that `diff` compares two outputs.

use std::borrow::Borrow;
use std::io::{self, Write};

use language::visible::{shown, strip_controls};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Number, Value as Json};

use crate::Sheet;
use crate::columns::{CellValue, Column, ColumnUnit, format_time};

/// Returns one cell; a missing one is `null`.
pub(super) fn cell_to_json(unit: ColumnUnit, value: CellValue) -> Json {
    match value {
        CellValue::None => Json::Null,
        CellValue::Text(text) => Json::String(text),
        CellValue::Int(millis) if unit == ColumnUnit::Time => format_time(millis).map_or(Json::Null, Json::String),
        CellValue::Int(number) => Json::Number(number.into()),
        CellValue::Float(number) => Number::from_f64(number).map_or(Json::Null, Json::Number),
        CellValue::Flag(flag) => Json::Bool(flag),
    }
}

/// Returns the rows as objects.
pub(super) fn rows_to_json<R>(sheet: &Sheet<R>) -> Json {
    let cells = |row| sheet.columns.iter().map(|column| column.cell(row)).collect();
    let objects = sheet.rows.iter().map(|row| cells_to_json(sheet.columns, cells(row)));
    objects.collect()
}

/// Returns the cells of one row, in the order of `columns`, as an object.
pub fn cells_to_json<R>(columns: &[Column<R>], cells: Vec<CellValue>) -> Json {
    let pairs = std::iter::zip(columns, cells);
    let pairs = pairs.map(|(column, cell)| (column.name.to_owned(), cell_to_json(column.unit, cell)));
    Json::Object(pairs.collect::<Map<_, _>>())
}

/// Returns the cells of one column.
pub fn column_to_json<R>(column: &Column<R>, rows: &[R]) -> Vec<Json> {
    let cells = rows.iter().map(|row| cell_to_json(column.unit, column.cell(row)));
    cells.collect()
}

/// Writes a document like [`write_json`], with rows as its field `rows`. They are written one at a time, and may be made one at a
/// time: all of them at once take many times the memory of what they are made from.
pub fn write_json_with_rows<R, B: Borrow<R>>(
    document: &Json,
    columns: &[Column<R>],
    rows: impl Iterator<Item = B> + Clone,
    out: &mut dyn Write,
) -> io::Result<()> {
    let rows = JsonRows { columns, rows };
    serde_json::to_writer_pretty(&mut *out, &DocumentWithRows { document, rows })?;
    writeln!(out)
}

/// A document whose field `rows` is written from rows.
struct DocumentWithRows<'d, R, I> {
    document: &'d Json,
    rows: JsonRows<'d, R, I>,
}

impl<R, B: Borrow<R>, I: Iterator<Item = B> + Clone> Serialize for DocumentWithRows<'_, R, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let fields = self.document.as_object().into_iter().flatten();
        let mut map = serializer.serialize_map(None)?;
        for (key, value) in fields {
            match key.as_str() {
                "rows" => map.serialize_entry(key, &self.rows)?,
                _ => map.serialize_entry(key, &ShownJson(value))?,
            }
        }
        map.end()
    }
}

/// Rows as a list of objects.
struct JsonRows<'d, R, I> {
    columns: &'d [Column<R>],
    rows: I,
}

impl<R, B: Borrow<R>, I: Iterator<Item = B> + Clone> Serialize for JsonRows<'_, R, I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let columns = self.columns;
        let cells = |row: &R| columns.iter().map(|column| column.cell(row)).collect();
        let object = |row: B| cells_to_json(columns, cells(row.borrow()));
        serializer.collect_seq(self.rows.clone().map(object))
    }
}

/// Writes a document with indentation and a final line feed, without the secrets and control characters in its texts.
pub fn write_json(document: &Json, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, &ShownJson(document))?;
    writeln!(out)
}

/// Writes a document as one line, without the secrets and control characters in its texts.
pub fn write_json_line(document: &Json, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, &ShownJson(document))?;
    out.write_all(b"\n")
}

/// Texts under these keys are ids, hashes and packed numbers: they look random and are no secrets.
const ID_KEYS: [&str; 10] = [
    "packed",
    "session",
    "uuid",
    "agent",
    "run",
    "day",
    "version",
    "first_time",
    "hash",
    "request_id",
];

/// A document whose texts are made fit to be shown while it is written, so that no copy of it is needed.
struct ShownJson<'a>(&'a Json);

impl Serialize for ShownJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Json::String(text) => serializer.serialize_str(&shown(text)),
            Json::Array(items) => serializer.collect_seq(items.iter().map(ShownJson)),
            Json::Object(fields) => {
                let mut map = serializer.serialize_map(Some(fields.len()))?;
                for (key, value) in fields {
                    let name = shown(key);
                    match value {
                        Json::String(text) if ID_KEYS.contains(&key.as_str()) => {
                            map.serialize_entry(&name, &strip_controls(text))?;
                        }
                        value => map.serialize_entry(&name, &ShownJson(value))?,
                    }
                }
                map.end()
            }
            other => other.serialize(serializer),
        }
    }
}

/// Writes `{"schema_version": …, "kind": …, "rows": […], "total": …}`; without a total there is no such key.
pub(super) fn write_document<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    let schema = sheet.schema;
    write!(
        out,
        "{{\"schema_version\":{},\"kind\":\"{}\",\"rows\":[",
        schema.version, schema.kind
    )?;
    for (place, row) in sheet.rows.iter().enumerate() {
        out.write_all(if place == 0 { b"\n{" } else { b",\n{" })?;
        write_cells(sheet.columns, row, out)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"\n]")?;
    if let Some(total) = sheet.total {
        out.write_all(b",\"total\":{")?;
        write_cells(sheet.columns, total, out)?;
        out.write_all(b"}")?;
    }
    out.write_all(b"}\n")
}

/// Writes one object per row. Lines get split and concatenated, so each has the version.
pub(super) fn write_lines<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    for row in sheet.rows {
        write!(out, "{{\"schema_version\":{},", sheet.schema.version)?;
        write_cells(sheet.columns, row, out)?;
        out.write_all(b"}\n")?;
    }
    Ok(())
}

/// Writes key by key, because a `Map` sorts its keys and the declared order reads better.
fn write_cells<R>(columns: &[Column<R>], row: &R, out: &mut dyn Write) -> io::Result<()> {
    for (place, column) in columns.iter().enumerate() {
        if place > 0 {
            out.write_all(b",")?;
        }
        serde_json::to_writer(&mut *out, column.name)?;
        out.write_all(b":")?;
        serde_json::to_writer(&mut *out, &cell_to_json(column.unit, column.cell(row)))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::sample;
    use crate::sample::SampleRow;

    fn text(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
        let mut out = Vec::new();
        write(&mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_has_the_version_first_and_then_the_declared_order() {
        let rows = sample::rows();
        let lines = text(|out| write_lines(&sample::sheet(&rows), out));
        let lines: Vec<&str> = lines.lines().collect();
        assert_eq!(lines.len(), 3);
        assert_eq!(
            lines[0],
            r#"{"schema_version":3,"project":"~/code/backcast","session":"0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10","rounds":1284,"tokens":48213377,"cost_micro_usd":31415926,"cached_share":0.9731,"took_ms":11524000,"started":"2026-01-02T03:04:05.678Z","live":false}"#
        );
        assert_eq!(
            lines[2],
            r#"{"schema_version":3,"project":"","session":null,"rounds":null,"tokens":null,"cost_micro_usd":null,"cached_share":null,"took_ms":null,"started":null,"live":null}"#
        );
    }

    #[test]
    fn a_document_holds_the_rows_and_the_total() {
        let rows = sample::rows();
        let total = SampleRow {
            tokens: Some(12),
            ..SampleRow::default()
        };
        let sheet = Sheet {
            total: Some(&total),
            ..sample::sheet(&rows)
        };
        let document: Json = serde_json::from_str(&text(|out| write_document(&sheet, out))).unwrap();
        assert_eq!(document["schema_version"], json!(3));
        assert_eq!(document["rows"], rows_of(&rows));
        assert_eq!(
            document["rows"][1]["project"],
            json!("=HYPERLINK(\"http://x\",\"y\"),\nred")
        );
        assert_eq!(document["total"]["tokens"], json!(12));
    }

    fn rows_of(rows: &[SampleRow]) -> Json {
        super::rows_to_json(&sample::sheet(rows))
    }

    #[test]
    fn an_empty_document_is_valid() {
        let document: Json = serde_json::from_str(&text(|out| write_document(&sample::sheet(&[]), out))).unwrap();
        assert_eq!(document, json!({"schema_version": 3, "kind": "sample", "rows": []}));
    }

    #[test]
    fn floats_are_shortest() {
        for (number, expected) in [
            (0.1, "0.1"),
            (1.0, "1.0"),
            (1.0 / 3.0, "0.3333333333333333"),
            (1e-7, "1e-7"),
        ] {
            assert_eq!(
                cell_to_json(ColumnUnit::Share, CellValue::Float(number)).to_string(),
                expected
            );
        }
    }
}
