//! Files of more rows than fit in memory: worker threads encode batches, one writer appends them.

use crate::columns::Column;
use crate::parquet::{ParquetWriter, ROWS_PER_GROUP};
use crate::{OutputSchema, csv};
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
    pub fn extension(self) -> &'static str {
        match self {
            StreamFormat::Csv => "csv",
            StreamFormat::Parquet => "parquet",
        }
    }
}

/// Rows on their way to a file.
pub enum RowBatch<R> {
    /// Encoded lines.
    Csv(Vec<u8>),
    /// Rows of a Parquet file, which is encoded in large groups.
    Rows(Vec<R>),
}

impl<R> RowBatch<R> {
    /// Encodes rows as far as worker threads can do that in parallel.
    pub fn new(
        format: StreamFormat,
        schema: OutputSchema,
        columns: &[Column<R>],
        rows: Vec<R>,
    ) -> io::Result<RowBatch<R>> {
        match format {
            StreamFormat::Parquet => Ok(RowBatch::Rows(rows)),
            StreamFormat::Csv => {
                let mut bytes = Vec::new();
                csv::write_rows(&schema.sheet(columns, &rows), &mut bytes)?;
                Ok(RowBatch::Csv(bytes))
            }
        }
    }
}

/// A file of rows that is being written.
pub struct RowStream<'a, R> {
    groups: Option<ParquetWriter<'a, R>>,
    buffered: Vec<R>,
}

impl<'a, R> RowStream<'a, R> {
    /// Starts a file: writes the header of a CSV file.
    pub fn new(
        format: StreamFormat,
        schema: OutputSchema,
        columns: &'a [Column<R>],
        out: &mut dyn Write,
    ) -> io::Result<RowStream<'a, R>> {
        let groups = match format {
            StreamFormat::Parquet => Some(ParquetWriter::new(schema.version, columns).map_err(io::Error::other)?),
            StreamFormat::Csv => {
                csv::write_header(&schema.sheet(columns, &[]), out)?;
                None
            }
        };
        Ok(RowStream {
            groups,
            buffered: Vec::new(),
        })
    }

    /// Appends a batch.
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

    /// Writes what is left, and the footer of a Parquet file.
    pub fn finish(mut self, out: &mut dyn Write) -> io::Result<()> {
        let rest = std::mem::take(&mut self.buffered);
        self.write_group(&rest)?;
        match self.groups {
            Some(groups) => out.write_all(&groups.finish().map_err(io::Error::other)?),
            None => Ok(()),
        }
    }
}
