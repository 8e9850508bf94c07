//! The bytes of logs in a part: blocks of a fixed size, each compressed alone, so that a reader can start anywhere.

use super::Section;
use super::open::OpenPart;
use crate::run::cache::ContentHash;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, PoisonError};
use transcript::bytes::{ByteSource, IoMode, LogFile, OpenBytes};
use transcript::discover::DiscoveredLog;
use transcript::parallel::{parallel_map, thread_count};

/// Bytes of a log in one block.
const BLOCK_BYTES: u64 = 1 << 20;

/// How hard blocks are compressed: logs are read far more often than they are mapped, and 3 is the level that costs less than
/// parsing.
const LEVEL: i32 = 3;

/// Blocks that each thread compresses before they are handed on.
const BLOCKS_PER_THREAD: usize = 4;

/// Why the bytes of a log cannot be packed.
#[derive(Debug)]
pub(super) enum TextFailure {
    /// They are not those that were parsed.
    Changed,
    /// They cannot be read, or handed on.
    Io(io::Error),
}

/// Reads a log again, compresses it and hands on its blocks in order.
pub(super) fn pack_texts(
    found: &DiscoveredLog,
    content: &ContentHash,
    mut take: impl FnMut(Vec<u8>) -> io::Result<()>,
) -> Result<(), TextFailure> {
    let open = LogFile::open_found(found, IoMode::Read).map_err(TextFailure::Io)?;
    let mut hasher = blake3::Hasher::new();
    let mut reader = open.reader();
    loop {
        let mut blocks = Vec::new();
        while blocks.len() < BLOCKS_PER_THREAD * thread_count() {
            let mut block = Vec::new();
            reader
                .by_ref()
                .take(BLOCK_BYTES)
                .read_to_end(&mut block)
                .map_err(TextFailure::Io)?;
            if block.is_empty() {
                break;
            }
            hasher.update(&block);
            blocks.push(block);
        }
        if blocks.is_empty() {
            break;
        }
        for packed in parallel_map(&blocks, |block| zstd::bulk::compress(block, LEVEL)) {
            packed.and_then(&mut take).map_err(TextFailure::Io)?;
        }
    }
    if hasher.finalize().as_bytes() != content {
        return Err(TextFailure::Changed);
    }
    Ok(())
}

/// The bytes of one log in a part.
#[derive(Debug, Clone)]
pub(super) struct PartTexts {
    pub part: Arc<OpenPart>,
    /// Size of the log.
    pub size: u64,
    /// Its blocks; `None` if the part holds no texts.
    pub blocks: Option<Arc<[Section]>>,
}

impl ByteSource for PartTexts {
    fn open(&self) -> io::Result<Box<dyn OpenBytes>> {
        let Some(blocks) = self.blocks.clone() else {
            return Err(io::Error::other("the part holds no texts"));
        };
        Ok(Box::new(OpenTexts {
            part: Arc::clone(&self.part),
            size: self.size,
            blocks,
            last: Mutex::default(),
        }))
    }
}

/// The bytes of a log that is read.
struct OpenTexts {
    part: Arc<OpenPart>,
    size: u64,
    blocks: Arc<[Section]>,
    /// Number and content of the block that was read last.
    last: Mutex<Option<(usize, Vec<u8>)>>,
}

impl OpenTexts {
    fn read_block(&self, number: usize) -> io::Result<Vec<u8>> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a block is missing");
        let section = self.blocks.get(number).ok_or_else(damaged)?;
        let block = self
            .part
            .read(section)
            .and_then(|packed| zstd::bulk::decompress(&packed, BLOCK_BYTES as usize));
        // What is wrong here ends the run: a log of which a piece is missing must not count.
        block.inspect_err(|error| self.part.fail(error))
    }
}

impl OpenBytes for OpenTexts {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.size {
            return Ok(0);
        }
        let number = usize::try_from(at / BLOCK_BYTES).map_err(io::Error::other)?;
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.as_ref().is_none_or(|(known, _)| *known != number) {
            *last = Some((number, self.read_block(number)?));
        }
        let block = last.as_ref().map_or(&[][..], |(_, block)| block);
        let rest = block.get((at % BLOCK_BYTES) as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        if read == 0 && !buffer.is_empty() {
            let error = io::Error::new(io::ErrorKind::InvalidData, "a block is too short");
            self.part.fail(&error);
            return Err(error);
        }
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }
}
