//! A sheet as Parquet: the schema follows the declared columns, every column is optional, and the same rows give the same
//! bytes. Uses the low-level column writers, which do not need Arrow.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;

use ::parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use ::parquet::errors::Result;
use ::parquet::file::metadata::KeyValue;
use ::parquet::file::properties::WriterProperties;
use ::parquet::file::reader::{FileReader, SerializedFileReader};
use ::parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use ::parquet::record::Field;
use ::parquet::schema::types::{Type, TypePtr};

use crate::Sheet;
use crate::columns::{CellValue, Column, ColumnUnit, StorageKind};

/// Fixed, so that a new build of the program or of its libraries gives the same bytes.
const CREATED_BY: &str = "backcast";

/// Small enough to bound the memory of a reader, large enough to compress well.
pub(super) const ROWS_PER_GROUP: usize = 64 * 1024;

/// Encodes in memory first: the encoder needs a `Send` sink, and standard output behind `dyn Write` is not `Send`.
pub(super) fn write<R>(sheet: &Sheet<R>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(&encode(sheet).map_err(io::Error::other)?)
}

fn encode<R>(sheet: &Sheet<R>) -> Result<Vec<u8>> {
    let mut groups = ParquetWriter::new(sheet.schema.version, sheet.columns)?;
    for rows in sheet.rows.chunks(ROWS_PER_GROUP) {
        groups.write(rows)?;
    }
    groups.finish()
}

/// A file that is written group by group.
pub(super) struct ParquetWriter<'a, R> {
    columns: &'a [Column<R>],
    writer: SerializedFileWriter<Vec<u8>>,
}

impl<'a, R> ParquetWriter<'a, R> {
    pub(super) fn new(schema_version: u32, columns: &'a [Column<R>]) -> Result<ParquetWriter<'a, R>> {
        let version = KeyValue::new("schema_version".to_owned(), schema_version.to_string());
        let properties = WriterProperties::builder()
            .set_created_by(CREATED_BY.to_owned())
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(vec![version]))
            .build();
        let writer = SerializedFileWriter::new(Vec::new(), schema(columns)?, Arc::new(properties))?;
        Ok(ParquetWriter { columns, writer })
    }

    /// Writes rows as one row group.
    pub(super) fn write(&mut self, rows: &[R]) -> Result<()> {
        let mut group = self.writer.next_row_group()?;
        let mut columns = self.columns.iter();
        while let Some(mut cells) = group.next_column()? {
            if let Some(column) = columns.next() {
                write_column(column, rows, &mut cells)?;
            }
            cells.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Returns the bytes of the file.
    pub(super) fn finish(self) -> Result<Vec<u8>> {
        self.writer.into_inner()
    }
}

fn schema<R>(columns: &[Column<R>]) -> Result<TypePtr> {
    let field = |column: &Column<R>| {
        let physical = match column.unit.storage_kind() {
            StorageKind::Text => Physical::BYTE_ARRAY,
            StorageKind::Int => Physical::INT64,
            StorageKind::Float => Physical::DOUBLE,
            StorageKind::Flag => Physical::BOOLEAN,
        };
        let logical = match column.unit {
            ColumnUnit::Text | ColumnUnit::Id => Some(LogicalType::String),
            ColumnUnit::Time => Some(LogicalType::timestamp(true, TimeUnit::MILLIS)),
            _ => None,
        };
        Type::primitive_type_builder(column.name, physical)
            .with_repetition(Repetition::OPTIONAL)
            .with_logical_type(logical)
            .build()
            .map(Arc::new)
    };
    let fields = columns.iter().map(field).collect::<Result<_>>()?;
    Ok(Arc::new(Type::group_type_builder("rows").with_fields(fields).build()?))
}

fn write_column<R>(column: &Column<R>, rows: &[R], out: &mut SerializedColumnWriter) -> Result<()> {
    let cells = rows.iter().map(|row| column.cell(row));
    match column.unit.storage_kind() {
        StorageKind::Text => write_values::<ByteArrayType>(
            out,
            cells.map(|cell| match cell {
                CellValue::Text(text) => Some(ByteArray::from(text.into_bytes())),
                _ => None,
            }),
        ),
        StorageKind::Int => write_values::<Int64Type>(
            out,
            cells.map(|cell| match cell {
                CellValue::Int(number) => Some(number),
                _ => None,
            }),
        ),
        StorageKind::Float => write_values::<DoubleType>(
            out,
            cells.map(|cell| match cell {
                CellValue::Float(number) => Some(number),
                _ => None,
            }),
        ),
        StorageKind::Flag => write_values::<BoolType>(
            out,
            cells.map(|cell| match cell {
                CellValue::Flag(flag) => Some(flag),
                _ => None,
            }),
        ),
    }
}

/// Writes the values without the gaps; the definition level of each row says whether it has a value.
fn write_values<T: DataType>(
    out: &mut SerializedColumnWriter,
    cells: impl Iterator<Item = Option<T::T>>,
) -> Result<()> {
    let mut values = Vec::new();
    let mut levels = Vec::new();
    for cell in cells {
        levels.push(i16::from(cell.is_some()));
        values.extend(cell);
    }
    out.typed::<T>().write_batch(&values, Some(&levels), None)?;
    Ok(())
}

/// Reads a file back; see [`crate::read_cells`].
pub(super) fn read<R>(path: &Path, columns: &[Column<R>], mut take: impl FnMut(Vec<CellValue>)) -> io::Result<()> {
    let reader = SerializedFileReader::new(File::open(path)?).map_err(io::Error::other)?;
    for row in reader.get_row_iter(None).map_err(io::Error::other)? {
        let row = row.map_err(io::Error::other)?;
        let fields = row.get_column_iter().map(|(name, field)| (name.as_str(), field));
        let fields = fields.collect::<BTreeMap<_, _>>();
        let cell = |column: &Column<R>| {
            fields
                .get(column.name)
                .map_or(CellValue::None, |field| field_cell(field))
        };
        take(columns.iter().map(cell).collect());
    }
    Ok(())
}

/// Returns the cell of a field; `CellValue::None` for types that no sheet writes.
fn field_cell(field: &Field) -> CellValue {
    match field {
        Field::Str(text) => CellValue::Text(text.clone()),
        Field::Bytes(bytes) => bytes
            .as_utf8()
            .map_or(CellValue::None, |text| CellValue::Text(text.to_owned())),
        Field::TimestampMillis(number) | Field::Long(number) => CellValue::Int(*number),
        Field::Bool(flag) => CellValue::Flag(*flag),
        Field::Double(number) => CellValue::Float(*number),
        _ => CellValue::None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;

    use super::*;
    use crate::sample;
    use crate::sample::SampleRow;

    fn reader(rows: &[SampleRow]) -> SerializedFileReader<File> {
        let mut file = tempfile::tempfile().unwrap();
        write(&sample::sheet(rows), &mut file).unwrap();
        SerializedFileReader::new(file).unwrap()
    }

    fn read_back(rows: &[SampleRow]) -> Vec<Vec<Field>> {
        let reader = reader(rows);
        let rows = reader.get_row_iter(None).unwrap();
        rows.map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect()
    }

    #[test]
    fn values_and_gaps_come_back() {
        let back = read_back(&sample::rows());
        assert_eq!(
            back[0],
            [
                Field::Str("~/code/backcast".into()),
                Field::Str("0d9f6c1e-52aa-4c7e-9b1d-7f0a2f6f3b10".into()),
                Field::Long(1_284),
                Field::Long(48_213_377),
                Field::Long(31_415_926),
                Field::Double(0.9731),
                Field::Long(11_524_000),
                Field::TimestampMillis(1_767_323_045_678),
                Field::Bool(false),
            ]
        );
        assert_eq!(back[1][0], Field::Str("=HYPERLINK(\"http://x\",\"y\"),\nred".into()));
        assert_eq!(back[2][0], Field::Str(String::new()));
        assert!(back[2][1..].iter().all(|field| *field == Field::Null));
    }

    #[test]
    fn the_file_says_what_it_is() {
        let reader = reader(&sample::rows());
        let file = reader.metadata().file_metadata();
        assert_eq!(file.created_by(), Some("backcast"));
        let version = KeyValue::new("schema_version".to_owned(), "3".to_owned());
        assert!(file.key_value_metadata().unwrap().contains(&version));
        let names: Vec<&str> = file.schema().get_fields().iter().map(|field| field.name()).collect();
        assert_eq!(
            names,
            sample::COLUMNS.iter().map(|column| column.name).collect::<Vec<_>>()
        );
        assert!(file.schema().get_fields().iter().all(|field| field.is_optional()));
    }

    #[test]
    fn no_rows_leave_the_schema() {
        assert!(read_back(&[]).is_empty());
    }

    #[test]
    fn many_rows_make_several_groups() {
        let rows = vec![
            SampleRow {
                tokens: Some(1),
                ..SampleRow::default()
            };
            ROWS_PER_GROUP + 1
        ];
        assert_eq!(reader(&rows).num_row_groups(), 2);
        assert_eq!(read_back(&rows).len(), rows.len());
    }
}
