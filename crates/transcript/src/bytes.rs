//! Reads the bytes of a log: block reads, memory maps and decompression, always handed on as whole lines.
//!
//! One of the two modules with `unsafe` in the crate (the other is [`crate::skim`]): it maps files. If a mapped file is
//! truncated, the kernel kills the process with SIGBUS. [`IoMode::Auto`] therefore maps only files that have not been
//! written for a day, looks before each chunk whether the file is still the same, and maps only where mapping pays: big files, whose lines can be hundreds of megabytes long and are
//! then parsed without a copy, and smaller files on a single thread. With several threads every `munmap` is a TLB
//! shootdown that interrupts all of them, so everything else goes through blocks of [`BLOCK`] bytes, which is as fast
//! and safe.
//!
//! Memory is bounded by the longest line that is copied ([`ReadLimits::max_line`]), not by the file.

mod source;
#[cfg(test)]
mod tests;

pub use source::{ByteSource, OpenBytes, PositionedReader, SourceFault};

use crate::discover::{DiscoveredLog, FileStamp, LogOrigin};
use crate::parallel;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Size of a block read: large enough to amortize the system call, small enough for the L2 cache.
pub const BLOCK: usize = 256 << 10;
/// Largest buffer that a thread keeps from one log to the next.
const MAX_SPARE_BUFFER: usize = 8 * BLOCK;
/// Minimum size for mapping a settled file.
const MIN_MMAP_BYTES: u64 = 16 << 20;
/// Minimum size for mapping on a single thread, where `munmap` needs no TLB shootdown.
const MIN_MMAP_BYTES_SINGLE_THREAD: u64 = 128 << 10;
/// Bytes of a mapped file that are handed on at a time. Their pages are released afterwards, so that no more than this
/// stays resident.
const MMAP_CHUNK: usize = 4 << 20;
/// A file is settled if it was not modified for this long: the client truncates and rewrites logs of sessions that are resumed,
/// and tools that clean up do so within hours.
const SETTLED_AFTER: Duration = Duration::from_secs(24 * 60 * 60);
/// Bytes kept of a line that is too long, to identify it.
pub const LONG_LINE_HEAD: usize = 4 << 10;

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// Map big settled files, on a single thread smaller ones too; read everything else.
    #[default]
    Auto,
    /// Map every file. A file that shrinks during the run ends the process.
    Mmap,
    /// Read every file.
    Read,
}

/// Memory limits of reading.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// Longest line that is read; longer ones are skipped and reported, in every [`IoMode`].
    pub max_line: usize,
}

impl ReadLimits {
    /// Limits lines to `max_line` bytes, but never to less than a block.
    pub fn new(max_line: usize) -> ReadLimits {
        ReadLimits {
            max_line: max_line.max(BLOCK),
        }
    }
}

/// Receives the lines of a log.
pub trait LineConsumer {
    /// Takes whole lines, starting at byte `offset` of the log. Only the last call of a log may lack the final newline.
    fn take_lines(&mut self, bytes: &[u8], offset: u64);
    /// Takes note of a line that is too long: where it starts, its length, and its first bytes.
    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]);
}

/// Compression of a log file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Uncompressed.
    Plain,
    Gzip,
    Zstd,
}

impl Compression {
    /// All variants.
    pub const ALL: [Compression; 3] = [Compression::Plain, Compression::Gzip, Compression::Zstd];

    /// Derives the compression from the file name, which need not be UTF-8. Returns `None` if the name is not that of a
    /// log.
    pub fn from_path(path: &Path) -> Option<Compression> {
        let name = path.file_name()?.as_encoded_bytes();
        let endings: [(&[u8], Compression); 6] = [
            (b".jsonl", Compression::Plain),
            (b".jsonl.gz", Compression::Gzip),
            (b".jsonl.zst", Compression::Zstd),
            (b".json", Compression::Plain),
            (b".json.gz", Compression::Gzip),
            (b".json.zst", Compression::Zstd),
        ];
        let found = endings.into_iter().find(|(ending, _)| name.ends_with(ending));
        found.map(|(_, compression)| compression)
    }

    /// Returns whether the name is that of a single JSON document, which is a log only if an agent exported it.
    pub fn is_document(path: &Path) -> bool {
        let name = path.file_name().map_or(&[][..], |name| name.as_encoded_bytes());
        let endings: [&[u8]; 3] = [b".json", b".json.gz", b".json.zst"];
        endings.iter().any(|ending| name.ends_with(ending))
    }
}

/// Returns the first bytes of a file, decompressed, up to `length`.
pub fn read_start(path: &Path, compression: Compression, length: usize) -> io::Result<Vec<u8>> {
    decode_start(File::open(path)?, compression, length)
}

/// Returns the first bytes of what `packed` holds, decompressed, up to `length`.
pub fn decode_start<'r>(packed: impl Read + 'r, compression: Compression, length: usize) -> io::Result<Vec<u8>> {
    let mut start = Vec::with_capacity(length);
    let reader: Box<dyn Read + 'r> = match compression {
        Compression::Plain => Box::new(packed),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(io::BufReader::new(packed))),
        Compression::Zstd => Box::new(zstd::Decoder::new(packed)?),
    };
    reader.take(length as u64).read_to_end(&mut start)?;
    Ok(start)
}

/// An open log.
pub struct LogFile {
    /// The one handle that every part is read from, whatever becomes of the path.
    handle: LogHandle,
    compression: Compression,
    /// Size when it was found or opened. Bytes appended later are left to the next run.
    size: u64,
    map: Option<Mmap>,
}

/// Where the bytes of an open log come from.
enum LogHandle {
    File(File, PathBuf),
    Source(Box<dyn OpenBytes>),
}

impl LogHandle {
    fn as_bytes(&self) -> &dyn OpenBytes {
        match self {
            LogHandle::File(file, _) => file,
            LogHandle::Source(bytes) => bytes.as_ref(),
        }
    }
}

impl OpenBytes for LogHandle {
    fn size(&self) -> u64 {
        self.as_bytes().size()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            LogHandle::File(file, _) => file.read_at(buffer, at),
            LogHandle::Source(bytes) => bytes.read_at(buffer, at).map_err(SourceFault::wrap),
        }
    }
}

impl LogFile {
    /// Opens a log that was found: of a file that has grown since, what it held then.
    pub fn open_found(found: &DiscoveredLog, io: IoMode) -> io::Result<LogFile> {
        match &found.origin {
            LogOrigin::File => LogFile::open_up_to(&found.path, found.packing, io, found.stamp.size),
            LogOrigin::Source(source) => {
                let bytes = source.open().map_err(SourceFault::wrap)?;
                Ok(LogFile {
                    compression: found.packing,
                    size: bytes.size(),
                    handle: LogHandle::Source(bytes),
                    map: None,
                })
            }
        }
    }

    /// Opens the log in a file and decides whether to map it.
    pub fn open(path: &Path, compression: Compression, io: IoMode) -> io::Result<LogFile> {
        LogFile::open_up_to(path, compression, io, u64::MAX)
    }

    fn open_up_to(path: &Path, compression: Compression, io: IoMode, most: u64) -> io::Result<LogFile> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let size = metadata.len().min(most);
        let is_mapped = compression == Compression::Plain
            && size > 0
            && match io {
                IoMode::Auto => size >= min_mmap_bytes() && is_settled(metadata.modified()?),
                IoMode::Mmap => true,
                IoMode::Read => false,
            };
        let map = if is_mapped { map_file(&file, size)? } else { None };
        Ok(LogFile {
            handle: LogHandle::File(file, path.to_owned()),
            compression,
            size,
            map,
        })
    }

    /// Returns how many bytes of the log are read.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Returns the hash of the whole log if its source hashed it while it was read.
    pub fn content_hash(&self) -> Option<[u8; 32]> {
        let is_whole = self.size == self.handle.as_bytes().size();
        self.handle.as_bytes().content_hash().filter(|_| is_whole)
    }

    /// Splits the file into ranges of about `part` bytes that can be read independently. Compressed logs are one range, and so
    /// is what comes in order.
    pub fn split_ranges(&self, part: u64) -> Vec<Range<u64>> {
        if self.compression != Compression::Plain || self.handle.as_bytes().is_sequential() {
            return Vec::from([Range {
                start: 0,
                end: u64::MAX,
            }]);
        }
        let count = (self.size / part.max(1)).max(1);
        let edge = |index: u64| if index == count { self.size } else { index * part };
        (0..count).map(|index| edge(index)..edge(index + 1)).collect()
    }

    /// Reads the lines that start inside `part`.
    pub fn read(&self, part: Range<u64>, limits: ReadLimits, lines: &mut dyn LineConsumer) -> io::Result<()> {
        if let Some(map) = &self.map {
            if self.is_unchanged() {
                return self.read_mapped(map, part, lines);
            }
            // What was put in its place is not ours to read: the open file is, and it is read like a live one.
            self.check_size()?;
        }
        match self.compression {
            Compression::Gzip => {
                let file = io::BufReader::with_capacity(BLOCK, self.reader_at(0).take(self.size));
                read_blocks(flate2::bufread::MultiGzDecoder::new(file), 0, None, limits, lines)
            }
            Compression::Zstd => {
                let file = self.reader_at(0).take(self.size);
                read_blocks(zstd::Decoder::new(file)?, 0, None, limits, lines)
            }
            Compression::Plain if part.start == 0 && part.end >= self.size => {
                read_blocks(self.reader_at(0).take(self.size), 0, None, limits, lines)
            }
            Compression::Plain => {
                let start = self.first_line_start(&part)?;
                if start >= part.end {
                    return Ok(());
                }
                let tail = self.reader_at(start).take(self.size - start);
                read_blocks(tail, start, Some(part.end), limits, lines)
            }
        }
    }

    /// Hands on the first `size` bytes of the file as they are on disk, in order. Returns how many there were. Needs no
    /// second handle, and may run while other threads read the lines.
    pub fn read_raw(&self, size: u64, mut take: impl FnMut(&[u8])) -> io::Result<u64> {
        let mut reader = self.reader_at(0).take(size);
        let mut block = vec![0; BLOCK];
        let mut total = 0;
        loop {
            match reader.read(&mut block) {
                Ok(0) => return Ok(total),
                Ok(read) => {
                    take(&block[..read]);
                    total += read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Returns a reader of the file as it is on disk.
    pub fn reader(&self) -> impl Read + '_ {
        self.reader_at(0).take(self.size)
    }

    /// Whether the path still names the open file, and the file has still the size that it was mapped with.
    fn is_unchanged(&self) -> bool {
        let LogHandle::File(file, path) = &self.handle else {
            return true;
        };
        let (Ok(named), Ok(open)) = (std::fs::metadata(path), file.metadata()) else {
            return false;
        };
        let (named, open) = (FileStamp::from_metadata(&named), FileStamp::from_metadata(&open));
        (named.device, named.inode) == (open.device, open.inode) && open.size >= self.size
    }

    /// Fails if the open file is shorter than it was.
    fn check_size(&self) -> io::Result<()> {
        if let LogHandle::File(file, _) = &self.handle
            && file.metadata()?.len() < self.size
        {
            return Err(io::Error::other("the file became shorter while it was read"));
        }
        Ok(())
    }

    /// Hands on the lines of a mapped file that start inside `part`. Looks at the file's size before each chunk: a page beyond
    /// the end of a file that shrank ends the process.
    fn read_mapped(&self, map: &Mmap, part: Range<u64>, lines: &mut dyn LineConsumer) -> io::Result<()> {
        let after_newline = |from: usize| memchr::memchr(b'\n', &map[from..]).map_or(map.len(), |at| from + at + 1);
        let edge = |edge: u64| match edge as usize {
            0 => 0,
            edge if edge >= map.len() => map.len(),
            edge => after_newline(edge - 1),
        };
        let (mut at, end) = (edge(part.start), edge(part.end));
        while at < end {
            self.check_size()?;
            let next = match end - at {
                ..=MMAP_CHUNK => end,
                _ => after_newline(at + MMAP_CHUNK - 1),
            };
            lines.take_lines(&map[at..next], at as u64);
            // A file that fits one chunk is released with its mapping.
            if next - at < map.len() {
                release_pages(map, at..next);
            }
            at = next;
        }
        Ok(())
    }

    /// Returns the first bytes of an uncompressed log, up to `length`.
    pub fn read_head(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut head = Vec::with_capacity(length);
        self.reader_at(0).take(length as u64).read_to_end(&mut head)?;
        Ok(head)
    }

    fn reader_at(&self, at: u64) -> PositionedReader<'_, LogHandle> {
        PositionedReader::new(&self.handle, at)
    }

    /// Returns where the first line that starts inside `part` starts; the end of `part` if none does.
    fn first_line_start(&self, part: &Range<u64>) -> io::Result<u64> {
        if part.start == 0 {
            return Ok(0);
        }
        let mut at = part.start - 1;
        let mut reader = self.reader_at(at);
        let mut block = vec![0; 16 << 10];
        while at < part.end {
            let read = reader.read(&mut block)?;
            if read == 0 {
                break;
            }
            if let Some(newline) = memchr::memchr(b'\n', &block[..read]) {
                return Ok(at + newline as u64 + 1);
            }
            at += read as u64;
        }
        Ok(part.end)
    }
}

fn min_mmap_bytes() -> u64 {
    match parallel::thread_count() {
        1 => MIN_MMAP_BYTES_SINGLE_THREAD,
        _ => MIN_MMAP_BYTES,
    }
}

fn is_settled(modified: SystemTime) -> bool {
    SystemTime::now()
        .duration_since(modified)
        .is_ok_and(|age| age >= SETTLED_AFTER)
}

/// Maps a file. Returns `None` if its size has changed since it was opened.
fn map_file(file: &File, size: u64) -> io::Result<Option<Mmap>> {
    // SAFETY: the mapping is read-only and private to this run. Another process could still truncate the file while it
    // is mapped, which kills this process, or change bytes under a slice, which is undefined behavior in Rust's memory
    // model. `IoMode::Auto` therefore maps only files that were not written for a day; session logs are append-only, so
    // such a file does not change. The size is looked at again before each chunk, so a file that does shrink is noticed
    // unless it shrinks during the milliseconds that one chunk takes. With `IoMode::Mmap` the user vouches for it.
    let map = unsafe { Mmap::map(file)? };
    let is_same_size = file.metadata()?.len() == size && map.len() as u64 == size;
    if is_same_size {
        // Advice only: a kernel that ignores it returns the same bytes.
        let _ = map.advise(Advice::Sequential);
    }
    Ok(is_same_size.then_some(map))
}

/// Releases the pages of a range. Every reader releases its own part; otherwise one thread would unmap everything at
/// the end.
fn release_pages(map: &Mmap, range: Range<usize>) {
    // SAFETY: the mapping is read-only and file-backed, so a released page is read from the file again on the next
    // access. It is advice: nothing depends on it being taken.
    let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
}

/// A page-aligned buffer. Allocators place large blocks 16 bytes into a page, where some processors copy several times
/// slower.
struct PageAlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl PageAlignedBuffer {
    const PAGE: usize = 4096;

    fn new(length: usize) -> PageAlignedBuffer {
        let bytes = vec![0; length + Self::PAGE];
        let start = bytes.as_ptr().align_offset(Self::PAGE).min(Self::PAGE);
        PageAlignedBuffer { bytes, start, length }
    }

    fn grown(&self, length: usize) -> PageAlignedBuffer {
        let mut larger = PageAlignedBuffer::new(length);
        larger[..self.length].copy_from_slice(self);
        larger
    }
}

impl std::ops::Deref for PageAlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for PageAlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

thread_local! {
    /// The read buffer, kept from log to log: for most logs, allocating one costs more than reading them.
    static SPARE: Cell<Option<PageAlignedBuffer>> = const { Cell::new(None) };
}

/// Reads blocks and hands on whole lines. Lines that start at or after `stop` belong to the next range.
///
/// A line longer than a block makes the buffer grow by doubling, and only new bytes are searched for its end, so the
/// work stays linear in the length of the line.
fn read_blocks(
    reader: impl Read,
    offset: u64,
    stop: Option<u64>,
    limits: ReadLimits,
    lines: &mut dyn LineConsumer,
) -> io::Result<()> {
    let spare = SPARE.take().filter(|buffer| buffer.len() <= limits.max_line);
    let mut buffer = spare.unwrap_or_else(|| PageAlignedBuffer::new(BLOCK));
    let result = read_blocks_into(&mut buffer, reader, offset, stop, limits, lines);
    // A buffer that grew for a very long line is dropped; it would stay allocated as long as the thread lives.
    if buffer.len() <= MAX_SPARE_BUFFER {
        SPARE.set(Some(buffer));
    }
    result
}

/// Implements [`read_blocks`] with a given buffer.
fn read_blocks_into(
    buffer: &mut PageAlignedBuffer,
    mut reader: impl Read,
    offset: u64,
    stop: Option<u64>,
    limits: ReadLimits,
    lines: &mut dyn LineConsumer,
) -> io::Result<()> {
    let mut held = 0usize;
    // Length of the prefix of the held bytes that is known to have no newline.
    let mut searched = 0usize;
    let mut base = offset;
    loop {
        let end = match stop.map(|stop| (stop - base) as usize) {
            // The range ends inside this block: stop after the line that contains the byte before its end.
            Some(left) if left <= held => {
                let from = (left - 1).max(searched);
                if let Some(at) = memchr::memchr(b'\n', &buffer[from..held]) {
                    lines.take_lines(&buffer[..from + at + 1], base);
                    return Ok(());
                }
                memchr::memrchr(b'\n', &buffer[searched..from])
            }
            _ => memchr::memrchr(b'\n', &buffer[searched..held]),
        };
        if let Some(at) = end {
            let end = searched + at + 1;
            lines.take_lines(&buffer[..end], base);
            buffer.copy_within(end..held, 0);
            held -= end;
            base += end as u64;
        }
        searched = held;
        if held == buffer.len() {
            if buffer.len() < limits.max_line {
                *buffer = buffer.grown((buffer.len() * 2).min(limits.max_line));
            } else {
                base += discard_long_line(&mut reader, buffer, &mut held, base, lines)?;
                searched = 0;
                if stop.is_some_and(|stop| base >= stop) {
                    return Ok(());
                }
                continue;
            }
        }
        // Read one block at a time even if the buffer has grown.
        let room = buffer.len().min((held + 1).next_multiple_of(BLOCK));
        match reader.read(&mut buffer[held..room]) {
            Ok(0) => {
                if held > 0 {
                    lines.take_lines(&buffer[..held], base);
                }
                return Ok(());
            }
            Ok(read) => held += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                // Hand on what was read so far, whole lines and a torn one, then report the error.
                lines.take_lines(&buffer[..held], base);
                return Err(error);
            }
        }
    }
}

/// Discards a line that filled the buffer without ending. Returns its length; the buffer then holds what follows it.
fn discard_long_line(
    reader: &mut impl Read,
    buffer: &mut [u8],
    held: &mut usize,
    base: u64,
    lines: &mut dyn LineConsumer,
) -> io::Result<u64> {
    let head = buffer[..LONG_LINE_HEAD.min(*held)].to_vec();
    let mut length = *held as u64;
    *held = 0;
    loop {
        let read = match reader.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let newline = memchr::memchr(b'\n', &buffer[..read]);
        length += newline.map_or(read, |at| at + 1) as u64;
        if let Some(at) = newline {
            buffer.copy_within(at + 1..read, 0);
            *held = read - at - 1;
        }
        if newline.is_some() || read == 0 {
            lines.skip_long_line(base, length, &head);
            return Ok(length);
        }
    }
}
