//! Stands in for the `parquet` module in a build without that feature: same functions, each an error.

use crate::Sheet;
use crate::columns::Column;
use std::io::{self, Write};
use std::marker::PhantomData;
use std::path::Path;

pub(super) const ROWS_PER_GROUP: usize = usize::MAX;

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

/// Reads a Parquet file back row by row; an error in this build.
pub fn read_rows(_path: &Path, _take: impl FnMut(&dyn Fn(&str) -> Option<String>)) -> io::Result<()> {
    Err(missing())
}
