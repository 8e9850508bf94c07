//! Bytes that can be read at any place, wherever they lie: in a file, in a part of a file, in memory, in a store.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

/// A log that is not a file of its own.
pub trait ByteSource: std::fmt::Debug + Send + Sync {
    /// Opens it.
    fn open(&self) -> io::Result<Box<dyn OpenBytes>>;

    /// Whether reading waits for another machine, so that it pays to fetch many of them at once.
    fn is_remote(&self) -> bool {
        false
    }
}

/// Why a source does not deliver a log. Travels inside an [`io::Error`], through decoders and buffers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SourceFault {
    /// It is not what was found.
    #[error("it changed after it was found")]
    Changed,
    /// It may not be read, or is gone. Trying again does not help.
    #[error("{0}")]
    Refused(String),
    /// It did not come, or not whole. Trying again may help.
    #[error("{0}")]
    Undelivered(String),
}

impl SourceFault {
    /// Returns the fault that is behind an error; `None` if the bytes came and are wrong in themselves.
    pub fn of(error: &io::Error) -> Option<&SourceFault> {
        error.get_ref()?.downcast_ref()
    }

    /// Turns any failure of a source into a fault, so that it is told from wrong bytes in what decodes them.
    pub(super) fn wrap(error: io::Error) -> io::Error {
        match error.kind() {
            io::ErrorKind::Interrupted => error,
            _ if SourceFault::of(&error).is_some() => error,
            _ => SourceFault::Undelivered(error.to_string()).into(),
        }
    }
}

impl From<SourceFault> for io::Error {
    fn from(fault: SourceFault) -> io::Error {
        let kind = match fault {
            SourceFault::Changed => io::ErrorKind::StaleNetworkFileHandle,
            SourceFault::Refused(_) => io::ErrorKind::PermissionDenied,
            SourceFault::Undelivered(_) => io::ErrorKind::ConnectionAborted,
        };
        io::Error::new(kind, fault)
    }
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

    /// Whether they are to be read once, from start to end, because going back means waiting again.
    fn is_sequential(&self) -> bool {
        false
    }

    /// Returns the hash of all bytes if they were hashed while they were read.
    fn content_hash(&self) -> Option<[u8; 32]> {
        None
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

/// Bytes that are shared between readers.
impl OpenBytes for Arc<Vec<u8>> {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        self.as_ref().read_at(buffer, at)
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
    fn a_fault_is_found_behind_what_passed_it_on() {
        let fault = SourceFault::Undelivered("the server hung up".to_owned());
        let error = io::Error::from(fault.clone());
        assert_eq!(SourceFault::of(&error), Some(&fault));
        assert_eq!(error.to_string(), "the server hung up");
        assert_eq!(SourceFault::of(&io::Error::other("damaged")), None);
        assert_eq!(SourceFault::of(&io::ErrorKind::NotFound.into()), None);
    }

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
