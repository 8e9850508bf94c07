//! Rows that are too many to be held at once: written as they come, encoded where they are made.

use crate::columns::Column;
use crate::parquet::{Groups, ROWS_PER_GROUP};
use crate::{Sheet, csv};
use std::io::{self, Write};

/// Format of a stream of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// Comma-separated values with a header
    #[default]
    Csv,
    /// Apache Parquet
    Parquet,
}

impl Format {
    /// Ending of a file.
    pub fn extension(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Parquet => "parquet",
        }
    }
}

/// Rows on their way: text already, or still rows.
pub enum Batch<R> {
    /// Lines of CSV.
    Csv(Vec<u8>),
    /// Rows of a Parquet file, which are encoded in big groups.
    Rows(Vec<R>),
}

impl<R> Batch<R> {
    /// Encodes rows as far as that can be done side by side.
    pub fn new(format: Format, schema_version: u32, columns: &[Column<R>], rows: Vec<R>) -> io::Result<Batch<R>> {
        match format {
            Format::Parquet => Ok(Batch::Rows(rows)),
            Format::Csv => {
                let mut bytes = Vec::new();
                let sheet = Sheet {
                    schema_version,
                    columns,
                    rows: &rows,
                    total: None,
                };
                csv::write_rows(&sheet, &mut bytes)?;
                Ok(Batch::Csv(bytes))
            }
        }
    }
}

/// A file of rows in the making.
pub struct Stream<'a, R> {
    groups: Option<Groups<'a, R>>,
    waiting: Vec<R>,
}

impl<'a, R> Stream<'a, R> {
    /// Begins a file.
    pub fn new(
        format: Format,
        schema_version: u32,
        columns: &'a [Column<R>],
        out: &mut dyn Write,
    ) -> io::Result<Stream<'a, R>> {
        let groups = match format {
            Format::Parquet => Some(Groups::new(schema_version, columns).map_err(io::Error::other)?),
            Format::Csv => {
                let sheet = Sheet {
                    schema_version,
                    columns,
                    rows: &[],
                    total: None,
                };
                csv::write_header(&sheet, out)?;
                None
            }
        };
        Ok(Stream {
            groups,
            waiting: Vec::new(),
        })
    }

    /// Adds rows.
    pub fn push(&mut self, batch: Batch<R>, out: &mut dyn Write) -> io::Result<()> {
        match batch {
            Batch::Csv(bytes) => out.write_all(&bytes),
            Batch::Rows(rows) => {
                self.waiting.extend(rows);
                while self.waiting.len() >= ROWS_PER_GROUP {
                    let rest = self.waiting.split_off(ROWS_PER_GROUP);
                    let full = std::mem::replace(&mut self.waiting, rest);
                    self.write_group(&full)?;
                }
                Ok(())
            }
        }
    }

    fn write_group(&mut self, rows: &[R]) -> io::Result<()> {
        match &mut self.groups {
            Some(groups) if !rows.is_empty() => groups.write(rows).map_err(io::Error::other),
            _ => Ok(()),
        }
    }

    /// Ends the file.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        let rest = std::mem::take(&mut self.waiting);
        self.write_group(&rest)?;
        match self.groups {
            Some(groups) => out.write_all(&groups.finish().map_err(io::Error::other)?),
            None => Ok(()),
        }
    }
}
