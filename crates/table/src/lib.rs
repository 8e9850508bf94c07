//! The last stage of every command: rows become a terminal table, JSON, JSON lines, CSV or Parquet.
//!
//! A command declares its columns once ([`columns`]) and hands over a [`Sheet`]; every format derives from that
//! declaration, so a header and its cells cannot drift apart. [`atomic`] puts finished bytes on disk; [`store`] is
//! for files that only backcast itself reads back.

#![allow(clippy::disallowed_methods, reason = "results are written here")]
#![allow(
    missing_docs,
    reason = "fields and variants here are named like what they become in the output"
)]

pub mod atomic;
pub mod columns;
mod csv;
pub mod findings;
mod human;
mod json;
#[cfg_attr(not(feature = "parquet"), path = "parquet_absent.rs")]
mod parquet;
mod spark;
pub mod store;
pub mod stream;
mod table;
mod tone;
pub mod words;

use std::io::{self, BufWriter, Write};

pub use columns::{CellValue, Column, ColumnUnit, TableVisibility, column, columns_markdown, format_time};
pub use human::{format_cell as for_people, sanitize};
pub use parquet::read_rows as read_parquet;
pub use spark::{bar, sparkline};
pub use table::{TableStyle, fold_lines};
pub use tone::Tone;

/// How rows are written.
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

/// What a build without the `parquet` feature says when Parquet is asked for.
pub const NO_PARQUET: &str =
    "this build cannot read or write Parquet; build it with `cargo install --path . --features parquet`";

/// Whether this build can read and write Parquet.
pub const HAS_PARQUET: bool = cfg!(feature = "parquet");

impl OutputFormat {
    /// Whether the bytes are no text, so that a command can refuse to print them to a terminal.
    pub fn is_binary(self) -> bool {
        self == OutputFormat::Parquet
    }
}

/// Rows with their columns: all that a format needs.
pub struct Sheet<'a, R> {
    /// Version of the set of columns, named in every machine-readable output.
    pub schema_version: u32,
    pub columns: &'a [Column<R>],
    pub rows: &'a [R],
    /// The rows merged into one. Shown below the table and beside the rows of a JSON document; the formats that are
    /// nothing but rows leave it out, since whoever sums them would count everything twice.
    pub total: Option<&'a R>,
}

impl<R> Sheet<'_, R> {
    /// Writes the sheet and flushes, so that a full disk or a closed pipe is an error here and not a silent loss.
    pub fn write(&self, format: OutputFormat, look: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        let mut out = BufWriter::new(out);
        match format {
            OutputFormat::Table => table::write(self, look, &mut out)?,
            OutputFormat::Json => json::write_document(self, &mut out)?,
            OutputFormat::Jsonl => json::write_lines(self, &mut out)?,
            OutputFormat::Csv => csv::write(self, &mut out)?,
            OutputFormat::Parquet => parquet::write(self, &mut out)?,
        }
        out.flush()
    }

    /// The rows as an array of objects, to embed in a larger JSON document.
    pub fn to_json(&self) -> serde_json::Value {
        json::rows_to_json(self)
    }
}

/// Rows that use every unit, have gaps, and carry hostile text: shared by the tests of all formats.
#[cfg(test)]
pub(crate) mod sample {
    use super::{CellValue, Column, ColumnUnit, Sheet, TableVisibility};

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

    pub const COLUMNS: &[Column<SampleRow>] = &[
        Column {
            name: "project",
            title: "Project",
            unit: ColumnUnit::Text,
            about: "Folder the session worked in.",
            in_table: TableVisibility::Always,
            get: |row| row.project.clone().into(),
        },
        Column {
            name: "session",
            title: "Session",
            unit: ColumnUnit::Text,
            about: "Identifier of the session.",
            in_table: TableVisibility::IfRoom,
            get: |row| row.session.clone().into(),
        },
        Column {
            name: "rounds",
            title: "Rounds",
            unit: ColumnUnit::Count,
            about: "Requests sent to the model.",
            in_table: TableVisibility::Always,
            get: |row| row.rounds.into(),
        },
        Column {
            name: "tokens",
            title: "Tokens",
            unit: ColumnUnit::Tokens,
            about: "Tokens of all rounds, input | output.",
            in_table: TableVisibility::Always,
            get: |row| row.tokens.into(),
        },
        Column {
            name: "cost_micro_usd",
            title: "Cost",
            unit: ColumnUnit::MicroUsd,
            about: "Price of all rounds.",
            in_table: TableVisibility::Always,
            get: |row| row.cost.into(),
        },
        Column {
            name: "cached_share",
            title: "Cached",
            unit: ColumnUnit::Share,
            about: "Share of the input read from the prompt cache.",
            in_table: TableVisibility::Always,
            get: |row| row.cached.into(),
        },
        Column {
            name: "took_ms",
            title: "Took",
            unit: ColumnUnit::Millis,
            about: "From the first record to the last.",
            in_table: TableVisibility::IfRoom,
            get: |row| row.took.into(),
        },
        Column {
            name: "started",
            title: "Started",
            unit: ColumnUnit::Time,
            about: "Time of the first record.",
            in_table: TableVisibility::IfRoom,
            get: |row| row.started.into(),
        },
        Column {
            name: "live",
            title: "Live",
            unit: ColumnUnit::Flag,
            about: "Whether the session was still being written.",
            in_table: TableVisibility::Never,
            get: |row| row.live.map_or(CellValue::None, CellValue::Flag),
        },
    ];

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
        Sheet {
            schema_version: 3,
            columns: COLUMNS,
            rows,
            total: None,
        }
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
