//! Bytes that can be read at any place, wherever they lie: in a file, in a part of a file, in memory, in a store.

use std::fs::File;
use std::io::{self, Read};

/// A log that is not a file of its own.
pub trait ByteSource: std::fmt::Debug + Send + Sync {
    /// Opens it.
    fn open(&self) -> io::Result<Box<dyn OpenBytes>>;
}

/// Bytes that several threads may read at the same time, each at a place of its own.
pub trait OpenBytes: Send + Sync {
    /// Returns how many bytes there are.
    fn size(&self) -> u64;

    /// Reads from a position into a buffer. Returns how many bytes were read; 0 only at the end.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize>;

    /// Fills a buffer from a position.
    fn read_exact_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        PositionedReader { bytes: self, at }.read_exact(buffer)
    }
}

impl OpenBytes for File {
    fn size(&self) -> u64 {
        self.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        #[cfg(unix)]
        return std::os::unix::fs::FileExt::read_at(self, buffer, at);
        #[cfg(windows)]
        return std::os::windows::fs::FileExt::seek_read(self, buffer, at);
    }
}

impl OpenBytes for Vec<u8> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        let rest = usize::try_from(at)
            .ok()
            .and_then(|at| self.get(at..))
            .unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}

/// Reads bytes in order from a position of its own: several threads share what is open.
pub struct PositionedReader<'f, B: OpenBytes + ?Sized> {
    bytes: &'f B,
    at: u64,
}

impl<'f, B: OpenBytes + ?Sized> PositionedReader<'f, B> {
    /// Starts at a position.
    pub fn new(bytes: &'f B, at: u64) -> PositionedReader<'f, B> {
        PositionedReader { bytes, at }
    }
}

impl<B: OpenBytes + ?Sized> Read for PositionedReader<'_, B> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.bytes.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_memory_are_read_like_a_file() {
        let bytes = b"0123456789".to_vec();
        let mut buffer = [0; 4];
        assert_eq!(bytes.read_at(&mut buffer, 8).unwrap(), 2);
        assert_eq!(&buffer[..2], b"89");
        assert_eq!(bytes.read_at(&mut buffer, 10).unwrap(), 0);
        assert_eq!(bytes.read_at(&mut buffer, u64::MAX).unwrap(), 0);
        bytes.read_exact_at(&mut buffer, 3).unwrap();
        assert_eq!(&buffer, b"3456");
        assert!(bytes.read_exact_at(&mut buffer, 7).is_err());
    }
}
