//! The `parquet` module of a build without that feature: the same functions, each an error.

use crate::Sheet;
use crate::columns::{CellValue, Column};
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::Path;

pub(super) const ROWS_PER_GROUP: usize = 64 * 1024;

fn missing() -> io::Error {
    io::Error::new(io::ErrorKind::Unsupported, crate::NO_PARQUET)
}

pub(super) fn write<R>(_sheet: &Sheet<R>, _out: &mut dyn Write) -> io::Result<()> {
    Err(missing())
}

/// Never constructed: `new` is always an error.
pub(super) struct ParquetWriter<'a, R> {
    columns: PhantomData<&'a R>,
}

impl<'a, R> ParquetWriter<'a, R> {
    pub(super) fn new(_schema_version: u32, _columns: &'a [Column<R>]) -> io::Result<ParquetWriter<'a, R>> {
        Err(missing())
    }

    pub(super) fn write(&mut self, _rows: &[R]) -> io::Result<()> {
        Err(missing())
    }

    pub(super) fn finish(self) -> io::Result<Vec<u8>> {
        let ParquetWriter { columns: PhantomData } = self;
        Err(missing())
    }
}

pub(super) fn read<R>(_path: &Path, _columns: &[Column<R>], _take: impl FnMut(Vec<CellValue>)) -> io::Result<()> {
    Err(missing())
}
