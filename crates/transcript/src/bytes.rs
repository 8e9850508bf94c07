//! The bytes of a log: block reads, mappings and decompression, always handed on as whole lines.
//!
//! The one other place with `unsafe` (the first is [`super::skim`]): mapping a file. A mapped file that shrinks kills
//! the process with SIGBUS, so [`Io::Auto`] maps only what has been left alone for a while, and only where mapping
//! earns something: in big files, whose lines may be hundreds of megabytes long and are then walked without a
//! copy, and in smaller ones where one thread works alone. With several, each mapping that goes stops all of them for a moment:
//! then everything else goes through blocks of [`BLOCK`] bytes, which is as fast and cannot be killed.
//!
//! Memory is bounded by the longest line that is copied ([`Limits::max_line`]), not by the file.

use crate::parallel;
use memmap2::{Advice, Mmap, UncheckedAdvice};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, Read};
use std::ops::Range;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// Size of a block read: large enough to amortise the call, small enough to stay in the second-level cache.
pub const BLOCK: usize = 256 << 10;
/// The largest buffer that is kept from one log to the next.
const MAX_SPARE_BUFFER: usize = 8 * BLOCK;
/// Files from this size on are mapped when they are settled.
const MIN_MMAP_BYTES: u64 = 16 << 20;
/// The same where one thread works alone: nobody else has to be stopped each time a mapping goes.
const MIN_MMAP_BYTES_SINGLE_THREAD: u64 = 128 << 10;
/// How much of a mapped file is handed on at a time. What was read is let go again, so that no more than this stays mapped.
const MMAP_CHUNK: usize = 4 << 20;
/// A file that nobody touched for this long is settled.
const SETTLED_AFTER: Duration = Duration::from_secs(15 * 60);
/// How much of a line that is too long is kept to tell what it was.
pub const LONG_LINE_HEAD: usize = 4 << 10;

/// How files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// Map big files that nobody has written for a while, on one thread smaller ones too; read everything else.
    #[default]
    Auto,
    /// Map every file. A file that shrinks meanwhile ends the run.
    Mmap,
    /// Read every file.
    Read,
}

/// Bounds of what is held in memory.
#[derive(Debug, Clone, Copy)]
pub struct ReadLimits {
    /// The longest line that is read; a longer one is passed over and reported, however the file is read.
    pub max_line: usize,
}

impl ReadLimits {
    /// A line always may be as long as a block.
    pub fn new(max_line: usize) -> ReadLimits {
        ReadLimits {
            max_line: max_line.max(BLOCK),
        }
    }
}

/// Takes the lines of a log.
pub trait LineConsumer {
    /// Whole lines, starting at byte `offset` of the log. Only the last call of a log may lack the final newline.
    fn take_lines(&mut self, bytes: &[u8], offset: u64);
    /// A line that was too long to hold: where it starts, how long it is, and how it begins.
    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]);
}

/// How a log is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Plain,
    /// gzip.
    Gzip,
    /// Zstandard.
    Zstd,
}

impl Compression {
    /// All of them.
    pub const ALL: [Compression; 3] = [Compression::Plain, Compression::Gzip, Compression::Zstd];

    /// By the name of the file, which need not be UTF-8.
    pub fn from_path(path: &Path) -> Option<Compression> {
        let name = path.file_name()?.as_encoded_bytes();
        if name.ends_with(b".jsonl") {
            Some(Compression::Plain)
        } else if name.ends_with(b".jsonl.gz") {
            Some(Compression::Gzip)
        } else if name.ends_with(b".jsonl.zst") {
            Some(Compression::Zstd)
        } else {
            None
        }
    }
}

/// An open log.
pub struct LogFile {
    file: File,
    packing: Compression,
    /// Size when it was opened. What is appended later is not read: it belongs to the next run.
    size: u64,
    map: Option<Mmap>,
}

impl LogFile {
    /// Opens a log and decides how it will be read.
    pub fn open(path: &Path, packing: Compression, io: IoMode) -> io::Result<LogFile> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        let size = metadata.len();
        let is_mapped = packing == Compression::Plain
            && size > 0
            && match io {
                IoMode::Auto => size >= min_mmap_bytes() && is_settled(metadata.modified()?),
                IoMode::Mmap => true,
                IoMode::Read => false,
            };
        let map = if is_mapped { map_file(&file, size)? } else { None };
        Ok(LogFile {
            file,
            packing,
            size,
            map,
        })
    }

    /// Parts of about `part` bytes that can be read on their own. Packed logs have one.
    pub fn split_ranges(&self, part: u64) -> Vec<Range<u64>> {
        if self.packing != Compression::Plain {
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
            read_mapped(map, part, lines);
            return Ok(());
        }
        match self.packing {
            Compression::Gzip => {
                let file = io::BufReader::with_capacity(BLOCK, self.reader_at(0));
                read_blocks(flate2::bufread::MultiGzDecoder::new(file), 0, None, limits, lines)
            }
            Compression::Zstd => read_blocks(zstd::Decoder::new(self.reader_at(0))?, 0, None, limits, lines),
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
        if let Some(map) = &self.map {
            let whole = map.len().min(usize::try_from(size).unwrap_or(usize::MAX));
            for start in (0..whole).step_by(MMAP_CHUNK) {
                take(&map[start..whole.min(start + MMAP_CHUNK)]);
            }
            return Ok(whole as u64);
        }
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

    fn reader_at(&self, at: u64) -> PositionedReader<'_> {
        PositionedReader { file: &self.file, at }
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

/// Reads a file from a position of its own: several threads share one handle.
struct PositionedReader<'f> {
    file: &'f File,
    at: u64,
}

impl Read for PositionedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(self.file, buffer, self.at)?;
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(self.file, buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
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

/// Maps a file if it still has the size it had.
fn map_file(file: &File, size: u64) -> io::Result<Option<Mmap>> {
    // SAFETY: the mapping is read-only and private to this run. What cannot be ruled out is that somebody
    // truncates the file while it is mapped, which would end the process (and is undefined in Rust's model
    // if bytes change under a slice). `Io::Auto` therefore maps only files that nobody has written for a
    // quarter of an hour; session logs are append-only, so a settled one does not change. With `Io::Mmap` the
    // user vouches for it.
    let map = unsafe { Mmap::map(file)? };
    let is_same_size = file.metadata()?.len() == size && map.len() as u64 == size;
    if is_same_size {
        // Advice only: a system that does not know it reads the same bytes.
        let _ = map.advise(Advice::Sequential);
    }
    Ok(is_same_size.then_some(map))
}

/// The lines of a mapped file that start inside `part`.
fn read_mapped(map: &Mmap, part: Range<u64>, lines: &mut dyn LineConsumer) {
    let after_newline = |from: usize| memchr::memchr(b'\n', &map[from..]).map_or(map.len(), |at| from + at + 1);
    let edge = |edge: u64| match edge as usize {
        0 => 0,
        edge if edge >= map.len() => map.len(),
        edge => after_newline(edge - 1),
    };
    let (mut at, end) = (edge(part.start), edge(part.end));
    while at < end {
        let next = match end - at {
            ..=MMAP_CHUNK => end,
            _ => after_newline(at + MMAP_CHUNK - 1),
        };
        lines.take_lines(&map[at..next], at as u64);
        // What is read at once goes with its mapping.
        if next - at < map.len() {
            release_pages(map, at..next);
        }
        at = next;
    }
}

/// Lets go of the pages of a range. Each reader does that for what it read: at the end one thread would have to do it for all.
fn release_pages(map: &Mmap, range: Range<usize>) {
    // SAFETY: the mapping is read-only and has a file behind it, so the bytes of a page that is let go are those of the file
    // again as soon as somebody looks at them. It is advice: nothing is lost if it is not taken.
    let _ = unsafe { map.unchecked_advise_range(UncheckedAdvice::DontNeed, range.start, range.len()) };
}

/// A buffer that starts on a page: some processors copy several times slower to a place 16 bytes into one, which is
/// where an allocator puts a large block.
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
    /// The buffer of the log that this thread read last: most logs are smaller than what setting one up costs.
    static SPARE: Cell<Option<PageAlignedBuffer>> = const { Cell::new(None) };
}

/// Reads blocks and hands on whole lines. Lines that start at or after `stop` are left to the next part.
///
/// A line longer than a block makes the buffer grow by doubling, and only new bytes are searched for its end, so
/// the work stays linear in the length of the line.
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
    // One that grew for a very long line is not kept: it would be held for as long as the thread lives.
    if buffer.len() <= MAX_SPARE_BUFFER {
        SPARE.set(Some(buffer));
    }
    result
}

/// [`read_blocks`] with a buffer.
fn read_blocks_into(
    buffer: &mut PageAlignedBuffer,
    mut reader: impl Read,
    offset: u64,
    stop: Option<u64>,
    limits: ReadLimits,
    lines: &mut dyn LineConsumer,
) -> io::Result<()> {
    let mut held = 0usize;
    // How much of what is held is known to have no newline.
    let mut searched = 0usize;
    let mut base = offset;
    loop {
        let end = match stop.map(|stop| (stop - base) as usize) {
            // The part ends inside this block: stop after the line that holds the byte before its end.
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
        // A block at a time, also in a buffer that once grew.
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
                // What was read so far is whole lines and one torn one: used, then the error is reported.
                lines.take_lines(&buffer[..held], base);
                return Err(error);
            }
        }
    }
}

/// Drops a line that filled the buffer without ending. Returns its length; the buffer then holds what follows it.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::io::Write;

    #[derive(Default)]
    struct CollectedLines {
        lines: Vec<(u64, Vec<u8>)>,
        long: Vec<(u64, u64)>,
        /// The most bytes that came at once.
        largest: usize,
    }

    impl LineConsumer for CollectedLines {
        fn take_lines(&mut self, bytes: &[u8], mut offset: u64) {
            self.largest = self.largest.max(bytes.len());
            for line in bytes.split_inclusive(|&byte| byte == b'\n') {
                self.lines.push((offset, line.to_vec()));
                offset += line.len() as u64;
            }
        }

        fn skip_long_line(&mut self, offset: u64, length: u64, _head: &[u8]) {
            self.long.push((offset, length));
        }
    }

    fn split_lines(content: &[u8]) -> Vec<(u64, Vec<u8>)> {
        let mut collect = CollectedLines::default();
        collect.take_lines(content, 0);
        collect.lines
    }

    fn read_in_parts(content: &[u8], part: u64, io: IoMode, max_line: usize) -> CollectedLines {
        let mut file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
        file.write_all(content).unwrap();
        let log = LogFile::open(file.path(), Compression::Plain, io).unwrap();
        let mut collect = CollectedLines::default();
        for range in log.split_ranges(part) {
            log.read(range, ReadLimits { max_line }, &mut collect).unwrap();
        }
        collect
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn parts_give_every_line_once(
            lengths in prop::collection::vec(prop_oneof![8 => 0usize..40, 1 => 100usize..400], 0..40),
            part in 1u64..600,
            ends in any::<bool>(),
        ) {
            let mut content = lengths.iter().flat_map(|&length| [vec![b'x'; length], b"\n".to_vec()].concat()).collect::<Vec<_>>();
            if !ends {
                content.pop();
            }
            let expected = split_lines(&content);
            prop_assert_eq!(&read_in_parts(&content, part, IoMode::Read, 1 << 20).lines, &expected);
            prop_assert_eq!(&read_in_parts(&content, part, IoMode::Mmap, 1 << 20).lines, &expected);
        }
    }

    #[test]
    fn raw_bytes_are_those_of_the_file_up_to_a_size() {
        let content = b"line\n".repeat(BLOCK / 2);
        for (packing, io) in [
            (Compression::Plain, IoMode::Mmap),
            (Compression::Plain, IoMode::Read),
            (Compression::Gzip, IoMode::Read),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(&content).unwrap();
            let log = LogFile::open(file.path(), packing, io).unwrap();
            for size in [0, 7, content.len(), 2 * content.len()] {
                let mut raw = Vec::new();
                let read = log.read_raw(size as u64, |bytes| raw.extend_from_slice(bytes)).unwrap();
                assert_eq!(read, raw.len() as u64);
                assert!(raw == content[..size.min(content.len())], "{packing:?} {io:?} {size}");
            }
        }
    }

    #[test]
    fn what_is_mapped_is_settled_and_big_enough_for_so_many_threads() {
        let is_mapped = |size: u64, age: Duration, threads: usize| {
            let file = tempfile::Builder::new().suffix(".jsonl").tempfile().unwrap();
            file.as_file().set_len(size).unwrap();
            file.as_file().set_modified(SystemTime::now() - age).unwrap();
            let open = || {
                LogFile::open(file.path(), Compression::Plain, IoMode::Auto)
                    .unwrap()
                    .map
                    .is_some()
            };
            parallel::with_threads(Some(threads), open).unwrap()
        };
        let old = 2 * SETTLED_AFTER;
        for (threads, from) in [(1, MIN_MMAP_BYTES_SINGLE_THREAD), (2, MIN_MMAP_BYTES)] {
            assert!(is_mapped(from, old, threads));
            assert!(!is_mapped(from - 1, old, threads));
            assert!(!is_mapped(from, Duration::ZERO, threads));
        }
    }

    #[test]
    fn a_buffer_that_grew_is_read_a_block_at_a_time() {
        let short = |lines: usize| b"line\n".repeat(lines);
        let long = [vec![b'y'; 5 * BLOCK], b"\n".to_vec()].concat();
        let largest = |content: &[u8]| {
            let collect = read_in_parts(content, 1 << 30, IoMode::Read, 1 << 30);
            assert_eq!(collect.lines, split_lines(content));
            collect.largest
        };
        assert!(largest(&long) > 5 * BLOCK);
        let kept = SPARE.take();
        assert!(kept.as_ref().is_some_and(|buffer| buffer.len() > 5 * BLOCK));
        SPARE.set(kept);
        assert!(largest(&short(BLOCK)) <= BLOCK);
        // It is too large for who takes only shorter lines.
        let collect = read_in_parts(&long, 1 << 30, IoMode::Read, BLOCK);
        assert_eq!(collect.long, [(0, long.len() as u64)]);
    }

    #[test]
    fn a_line_over_the_limit_is_passed_over_and_named() {
        let long = 3 * BLOCK;
        let content = [b"first\n".to_vec(), vec![b'y'; long], b"\nlast\n".to_vec()].concat();
        for part in [1 << 30, BLOCK as u64] {
            let collect = read_in_parts(&content, part, IoMode::Read, BLOCK);
            assert_eq!(
                collect.lines,
                [(0, b"first\n".to_vec()), (long as u64 + 7, b"last\n".to_vec())]
            );
            assert_eq!(collect.long, [(6, long as u64 + 1)]);
        }
    }
}
