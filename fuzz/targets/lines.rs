//! A log that is read in blocks, mapped, decompressed, whole or in ranges yields the same lines: each once, whole, in
//! order.
//!
//! The fuzzer's bytes determine the lengths of lines, because bugs are at block boundaries.

#![no_main]

use backcast_fuzz::Unstructured;
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use transcript::bytes::{BLOCK, Compression, IoMode, LONG_LINE_HEAD, LineConsumer, LogFile, ReadLimits};

/// One folder for the whole run: creating one per input would dominate the run time.
static FOLDER: LazyLock<tempfile::TempDir> = LazyLock::new(|| {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.expect("a folder for logs")
});

const LONGEST: usize = 5 * BLOCK;

/// The lines that the reader handed on.
#[derive(Debug, Default, PartialEq, Eq)]
struct LineLog {
    /// Start and length of every line, and whether it was too long.
    lines: Vec<(u64, u64, bool)>,
}

struct Check<'c> {
    content: &'c [u8],
    seen: LineLog,
}

impl LineConsumer for Check<'_> {
    fn take_lines(&mut self, bytes: &[u8], mut offset: u64) {
        let end = offset as usize + bytes.len();
        assert_eq!(
            Some(bytes),
            self.content.get(offset as usize..end),
            "not the bytes at that offset"
        );
        assert!(bytes.last() == Some(&b'\n') || end == self.content.len(), "a torn line");
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.seen.lines.push((offset, line.len() as u64, false));
            offset += line.len() as u64;
        }
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        let line = &self.content[offset as usize..(offset + length) as usize];
        assert!(line.starts_with(head) && head.len() == LONG_LINE_HEAD.min(line.len()));
        self.seen.lines.push((offset, length, true));
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    let part = match input.int_in_range(0..=4).unwrap_or(0) {
        0 => u64::MAX,
        1 => input.int_in_range(1..=64).unwrap_or(1),
        2 => near(&mut input, BLOCK) as u64,
        3 => input.int_in_range(1..=BLOCK as u64).unwrap_or(1),
        _ => near(&mut input, 2 * BLOCK) as u64,
    };
    let max_line = match input.int_in_range(0..=3).unwrap_or(0) {
        0 => usize::MAX,
        1 => input.int_in_range(1..=300).unwrap_or(1),
        2 => near(&mut input, BLOCK),
        _ => near(&mut input, 2 * BLOCK),
    };
    let content = content(&mut input);
    // Bound the number of ranges, or opening the file would dominate the run time.
    let part = part.max(content.len() as u64 / 256);
    check(&content, part, ReadLimits { max_line });
});

fn near(input: &mut Unstructured<'_>, size: usize) -> usize {
    size - 3 + input.int_in_range(0..=6).unwrap_or(3)
}

fn content(input: &mut Unstructured<'_>) -> Vec<u8> {
    let mut content = Vec::new();
    while !input.is_empty() && content.len() < LONGEST {
        let length = match input.int_in_range(0..=9).unwrap_or(0) {
            0 => 0,
            1..=4 => input.int_in_range(0..=60).unwrap_or(0),
            5 => input.int_in_range(0..=40_000).unwrap_or(0),
            6 => near(input, BLOCK),
            7 => near(input, 2 * BLOCK),
            8 => input.int_in_range(0..=2 * BLOCK + 9).unwrap_or(0),
            // Up to the next block boundary.
            _ => (BLOCK + near(input, BLOCK) - content.len() % BLOCK) % BLOCK,
        };
        let filler = b'a' + (content.len() % 23) as u8;
        content.extend(std::iter::repeat_n(filler, length));
        content.push(b'\n');
    }
    if lacks_final_newline(&content) {
        content.pop();
    }
    content
}

fn lacks_final_newline(content: &[u8]) -> bool {
    content.len() % 3 == 1
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.path().join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the log can be written");
    path
}

fn read(content: &[u8], path: &Path, compression: Compression, io: IoMode, part: u64, limits: ReadLimits) -> LineLog {
    let log = LogFile::open(path, compression, io).expect("the log can be opened");
    let mut check = Check {
        content,
        seen: LineLog::default(),
    };
    for range in log.split_ranges(part) {
        log.read(range, limits, &mut check).expect("the log can be read");
    }
    check.seen
}

fn check(content: &[u8], part: u64, limits: ReadLimits) {
    let mut offset = 0;
    let whole = content.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let start = offset;
        offset += line.len() as u64;
        (start, line.len() as u64, false)
    });
    let whole = LineLog { lines: whole.collect() };
    let path = write("plain.jsonl", content);
    // A mapped line is not copied, so no limit applies.
    for part in [u64::MAX, part] {
        assert_eq!(
            read(content, &path, Compression::Plain, IoMode::Mmap, part, limits),
            whole,
            "mapped in parts of {part}"
        );
    }
    // A buffer is never smaller than a block. A last line without a newline that exactly fills it is too long too: the
    // reader cannot know that it ends there.
    let longest = limits.max_line.max(BLOCK) as u64;
    let is_held = |&(start, length, _): &(u64, u64, bool)| {
        let is_ended = content[(start + length) as usize - 1] == b'\n';
        length < longest || (length == longest && is_ended)
    };
    let expected = LineLog {
        lines: whole
            .lines
            .iter()
            .map(|line| (line.0, line.1, !is_held(line)))
            .collect(),
    };
    for part in [u64::MAX, part] {
        assert_eq!(
            read(content, &path, Compression::Plain, IoMode::Read, part, limits),
            expected,
            "read in parts of {part}, longest line {}",
            limits.max_line
        );
    }
    if content.len() % 8 == 0 {
        let path = write("compressed.jsonl.zst", &zstd::encode_all(content, 1).expect("zstd"));
        assert_eq!(
            read(content, &path, Compression::Zstd, IoMode::Auto, part, limits),
            expected,
            "zstd"
        );
    } else if content.len() % 8 == 1 {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(content).expect("gzip");
        let path = write("compressed.jsonl.gz", &gzip.finish().expect("gzip"));
        assert_eq!(
            read(content, &path, Compression::Gzip, IoMode::Auto, part, limits),
            expected,
            "gzip"
        );
    }
}
