//! The last stage of every command: rows become a terminal table, JSON, JSON lines, CSV or Parquet.
//!
//! A command declares its columns once ([`columns!`]) and builds a [`Sheet`]; every format derives from that declaration, so
//! a header and its cells cannot drift apart. [`human`] formats numbers for people, [`atomic`] writes files,
//! [`store`] those that only backcast reads back.

#![allow(clippy::disallowed_methods, reason = "this crate reads and writes result files")]

pub mod atomic;
pub mod columns;
mod csv;
pub mod findings;
pub mod human;
mod json;
#[cfg_attr(not(feature = "parquet"), path = "parquet_absent.rs")]
mod parquet;
mod read;
mod spark;
pub mod store;
pub mod stream;
mod table;
mod tone;
pub mod words;

use std::io::{self, BufWriter, Write};

pub use columns::{CellValue, Column, ColumnUnit, TableVisibility, columns_markdown, columns_schema, format_time};
pub use json::{cells_to_json, column_to_json, write_json, write_json_line, write_json_with_rows};
pub use read::read_cells;
pub use spark::{bar, sparkline};
pub use table::{TableStyle, fold_lines};
pub use tone::Tone;
pub use words::sanitize;

/// Format of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns for people, fitted to the terminal
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet, for data frames and query engines
    Parquet,
}

/// The error of a build without the `parquet` feature.
pub const NO_PARQUET: &str =
    "this build cannot read or write Parquet; build it with `cargo install --path . --features parquet`";

/// Whether this build can read and write Parquet.
pub const HAS_PARQUET: bool = cfg!(feature = "parquet");

impl OutputFormat {
    /// Whether the format is binary, so that a command can refuse to print it to a terminal.
    pub fn is_binary(self) -> bool {
        self == OutputFormat::Parquet
    }
}

/// Kind and version of an output. Every machine-readable output has the version, every JSON document also the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputSchema {
    pub kind: &'static str,
    /// Increases when names or meanings of fields change, not when fields are added.
    pub version: u32,
}

impl OutputSchema {
    pub const fn new(kind: &'static str, version: u32) -> OutputSchema {
        OutputSchema { kind, version }
    }

    /// Returns a sheet without a total.
    pub fn sheet<'a, R>(self, columns: &'a [Column<R>], rows: &'a [R]) -> Sheet<'a, R> {
        Sheet {
            schema: self,
            columns,
            rows,
            total: None,
        }
    }

    /// Adds `kind` and `schema_version` to the fields of a JSON document.
    pub fn document(self, mut fields: serde_json::Value) -> serde_json::Value {
        fields["kind"] = self.kind.into();
        fields["schema_version"] = self.version.into();
        fields
    }
}

/// Titles of columns that are not obvious, with what they mean.
pub type Legend<'a> = &'a [(&'a str, &'a str)];

/// Rows with their columns: the input of every format.
pub struct Sheet<'a, R> {
    pub schema: OutputSchema,
    pub columns: &'a [Column<R>],
    pub rows: &'a [R],
    /// The sum of the rows. Tables show it below a rule and JSON documents next to the rows; CSV, JSON lines and Parquet
    /// omit it, because a reader that sums the rows would count everything twice.
    pub total: Option<&'a R>,
}

impl<R> Sheet<'_, R> {
    /// Writes the sheet and flushes, so that a full disk or a closed pipe is an error here and not a silent loss.
    pub fn write(&self, format: OutputFormat, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        match format {
            OutputFormat::Table => table::write(self, style, &mut out).map(|_| ())?,
            OutputFormat::Json => json::write_document(self, &mut out)?,
            OutputFormat::Jsonl => json::write_lines(self, &mut out)?,
            OutputFormat::Csv => csv::write(self, &mut out)?,
            OutputFormat::Parquet => parquet::write(self, &mut out)?,
        }
        out.flush()
    }

    /// Writes the table for people, and below it what the words of `legend` mean whose columns are shown.
    pub fn write_with_legend(&self, legend: Legend<'_>, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        let shown = table::write(self, style, &mut out)?;
        let words = legend.iter().filter(|(title, _)| shown.contains(title));
        let words = words
            .map(|(title, meaning)| format!("{title}: {meaning}."))
            .collect::<Vec<_>>();
        if !words.is_empty() {
            writeln!(out, "{}", words.join(" "))?;
        }
        out.flush()
    }

    /// Returns the rows as an array of objects, to embed in a larger JSON document.
    pub fn to_json(&self) -> serde_json::Value {
        json::rows_to_json(self)
    }
}

/// Rows with every unit, with gaps and with hostile text, shared by the tests of all formats.
#[cfg(test)]
pub(crate) mod sample {
    use super::{OutputSchema, Sheet};

    #[derive(Debug, Clone, Default)]
    pub struct SampleRow {
        pub project: Option<String>,
        pub session: Option<String>,
        pub rounds: Option<u64>,
        pub tokens: Option<i64>,
        pub cost: Option<i64>,
        pub cached: Option<f64>,
        pub took: Option<i64>,
        pub started: Option<i64>,
        pub live: Option<bool>,
    }

    crate::columns! {
        pub COLUMNS: SampleRow;
        "project" "Project" Text Always "Folder the session worked in." |row| &row.project;
        "session" "Session" Text IfRoom "Identifier of the session." |row| &row.session;
        "rounds" "Rounds" Count Always "Requests sent to the model." |row| row.rounds;
        "tokens" "Tokens" Tokens Always "Tokens of all rounds, input | output." |row| row.tokens;
        "cost_micro_usd" "Cost" MicroUsd Always "Price of all rounds." |row| row.cost;
        "cached_share" "Cached" Share Always "Share of the input read from the prompt cache." |row| row.cached;
        "took_ms" "Took" Millis IfRoom "From the first record to the last." |row| row.took;
        "started" "Started" Time IfRoom "Time of the first record." |row| row.started;
        "live" "Live" Flag Never "Whether the session was still being written." |row| row.live;
    }

    pub fn rows() -> Vec<SampleRow> {
        vec![
            SampleRow {
                project: Some("~/code/backcast".into()),
                session: Some("0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10".into()),
                rounds: Some(1_284),
                tokens: Some(48_213_377),
                cost: Some(31_415_926),
                cached: Some(0.9731),
                took: Some(11_524_000),
                started: Some(1_767_323_045_678),
                live: Some(false),
            },
            SampleRow {
                project: Some("=HYPERLINK(\"http://x\",\"y\"),\n\u{1b}[31mred".into()),
                session: Some("会话记录与上下文窗口的回放分析".into()),
                rounds: Some(7),
                tokens: Some(45_649),
                cost: Some(12_345),
                cached: Some(0.5),
                took: Some(950),
                started: Some(0),
                live: Some(true),
            },
            SampleRow {
                project: Some(String::new()),
                cached: Some(f64::NAN),
                started: Some(i64::MAX),
                ..SampleRow::default()
            },
        ]
    }

    pub fn sheet(rows: &[SampleRow]) -> Sheet<'_, SampleRow> {
        OutputSchema::new("sample", 3).sheet(COLUMNS, rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A pipe whose reader has gone.
    struct ClosedPipe;

    impl Write for ClosedPipe {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const ALL: [OutputFormat; 5] = [
        OutputFormat::Table,
        OutputFormat::Json,
        OutputFormat::Jsonl,
        OutputFormat::Csv,
        OutputFormat::Parquet,
    ];

    #[test]
    fn a_closed_pipe_keeps_its_kind_in_every_format() {
        for count in [1, 5_000] {
            let rows = vec![sample::rows().remove(0); count];
            for format in ALL {
                let failure = sample::sheet(&rows)
                    .write(format, TableStyle::default(), &mut ClosedPipe)
                    .unwrap_err();
                assert_eq!(
                    failure.kind(),
                    io::ErrorKind::BrokenPipe,
                    "{format:?} with {count} rows"
                );
            }
        }
    }

    #[test]
    fn the_same_rows_give_the_same_bytes() {
        let rows = sample::rows();
        for format in ALL {
            let bytes = || {
                let mut out = Vec::new();
                sample::sheet(&rows)
                    .write(format, TableStyle::default(), &mut out)
                    .unwrap();
                out
            };
            assert_eq!(bytes(), bytes(), "{format:?}");
        }
    }
}
