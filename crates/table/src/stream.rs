//! Rows that are too many to be held at once: written as they come, encoded where they are made.

use crate::columns::Column;
use crate::parquet::{ParquetWriter, ROWS_PER_GROUP};
use crate::{Sheet, csv};
use std::io::{self, Write};

/// Format of a stream of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum StreamFormat {
    /// Comma-separated values with a header
    #[default]
    Csv,
    /// Apache Parquet
    Parquet,
}

impl StreamFormat {
    /// Ending of a file.
    pub fn extension(self) -> &'static str {
        match self {
            StreamFormat::Csv => "csv",
            StreamFormat::Parquet => "parquet",
        }
    }
}

/// Rows on their way: text already, or still rows.
pub enum RowBatch<R> {
    /// Lines of CSV.
    Csv(Vec<u8>),
    /// Rows of a Parquet file, which are encoded in big groups.
    Rows(Vec<R>),
}

impl<R> RowBatch<R> {
    /// Encodes rows as far as that can be done side by side.
    pub fn new(
        format: StreamFormat,
        schema_version: u32,
        columns: &[Column<R>],
        rows: Vec<R>,
    ) -> io::Result<RowBatch<R>> {
        match format {
            StreamFormat::Parquet => Ok(RowBatch::Rows(rows)),
            StreamFormat::Csv => {
                let mut bytes = Vec::new();
                let sheet = Sheet {
                    schema_version,
                    columns,
                    rows: &rows,
                    total: None,
                };
                csv::write_rows(&sheet, &mut bytes)?;
                Ok(RowBatch::Csv(bytes))
            }
        }
    }
}

/// A file of rows in the making.
pub struct RowStream<'a, R> {
    groups: Option<ParquetWriter<'a, R>>,
    buffered: Vec<R>,
}

impl<'a, R> RowStream<'a, R> {
    /// Begins a file.
    pub fn new(
        format: StreamFormat,
        schema_version: u32,
        columns: &'a [Column<R>],
        out: &mut dyn Write,
    ) -> io::Result<RowStream<'a, R>> {
        let groups = match format {
            StreamFormat::Parquet => Some(ParquetWriter::new(schema_version, columns).map_err(io::Error::other)?),
            StreamFormat::Csv => {
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
        Ok(RowStream {
            groups,
            buffered: Vec::new(),
        })
    }

    /// Adds rows.
    pub fn push(&mut self, batch: RowBatch<R>, out: &mut dyn Write) -> io::Result<()> {
        match batch {
            RowBatch::Csv(bytes) => out.write_all(&bytes),
            RowBatch::Rows(rows) => {
                self.buffered.extend(rows);
                while self.buffered.len() >= ROWS_PER_GROUP {
                    let rest = self.buffered.split_off(ROWS_PER_GROUP);
                    let full = std::mem::replace(&mut self.buffered, rest);
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
        let rest = std::mem::take(&mut self.buffered);
        self.write_group(&rest)?;
        match self.groups {
            Some(groups) => out.write_all(&groups.finish().map_err(io::Error::other)?),
            None => Ok(()),
        }
    }
}
