//! Rows read back from the files that a sheet wrote.

use crate::columns::{CellValue, Column};
use crate::stream::StreamFormat;
use crate::{csv, parquet};
use std::io;
use std::path::Path;

/// Reads a CSV or Parquet file and calls `take` with the cells of each row, in the order of `columns`. A column that the
/// file lacks is missing in every row; a column of the file that is not in `columns` is skipped.
pub fn read_cells<R>(
    path: &Path,
    format: StreamFormat,
    columns: &[Column<R>],
    take: impl FnMut(Vec<CellValue>),
) -> io::Result<()> {
    match format {
        StreamFormat::Csv => csv::read(path, columns, take),
        StreamFormat::Parquet => parquet::read(path, columns, take),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OutputFormat, TableStyle, sample};

    #[test]
    fn cells_come_back_as_they_were_written() {
        let rows = sample::rows();
        let folder = tempfile::tempdir().unwrap();
        for (format, written) in [
            (StreamFormat::Csv, OutputFormat::Csv),
            (StreamFormat::Parquet, OutputFormat::Parquet),
        ] {
            if written.is_binary() && !crate::HAS_PARQUET {
                continue;
            }
            let path = folder.path().join(format.extension());
            let mut bytes = Vec::new();
            let sheet = sample::sheet(&rows);
            sheet.write(written, TableStyle::default(), &mut bytes).unwrap();
            std::fs::write(&path, bytes).unwrap();
            let mut back = Vec::new();
            read_cells(&path, format, sample::COLUMNS, |cells| back.push(cells)).unwrap();
            let expected = rows.iter().map(|row| {
                let cells = sample::COLUMNS.iter().map(|column| column.cell(row));
                // CSV does not distinguish empty text from a missing cell.
                let is_empty = |cell: &CellValue| format == StreamFormat::Csv && cell.as_text() == Some("");
                cells
                    .map(|cell| if is_empty(&cell) { CellValue::None } else { cell })
                    .collect::<Vec<_>>()
            });
            assert_eq!(back, expected.collect::<Vec<_>>(), "{format:?}");
        }
    }
}
