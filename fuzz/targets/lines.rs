//! A log read in blocks, mapped, packed, whole and in parts gives the same lines: each once, each whole, in order.
//!
//! The bytes of the fuzzer say how long the lines are, because what matters lies at the edges of blocks.

#![no_main]

use transcript::bytes::{BLOCK, HEAD, Io, Limits, Lines, Log, Packing};
use backcast_fuzz::Unstructured;
use libfuzzer_sys::fuzz_target;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

/// One folder for the whole run: a fresh file per input would be most of the time.
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

/// What reading handed on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Start and length of every line, and whether it was too long to hold.
    lines: Vec<(u64, u64, bool)>,
}

struct Check<'c> {
    content: &'c [u8],
    seen: Seen,
}

impl Lines for Check<'_> {
    fn lines(&mut self, bytes: &[u8], mut offset: u64) {
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

    fn too_long(&mut self, offset: u64, length: u64, head: &[u8]) {
        let line = &self.content[offset as usize..(offset + length) as usize];
        assert!(line.starts_with(head) && head.len() == HEAD.min(line.len()));
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
    // So many parts that opening the file would be all that is done.
    let part = part.max(content.len() as u64 / 256);
    check(&content, part, Limits { max_line });
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
            // Up to the next edge of a block.
            _ => (BLOCK + near(input, BLOCK) - content.len() % BLOCK) % BLOCK,
        };
        let filler = b'a' + (content.len() % 23) as u8;
        content.extend(std::iter::repeat_n(filler, length));
        content.push(b'\n');
    }
    if data_is_odd(&content) {
        content.pop();
    }
    content
}

fn data_is_odd(content: &[u8]) -> bool {
    content.len() % 3 == 1
}

fn write(name: &str, bytes: &[u8]) -> PathBuf {
    let path = FOLDER.path().join(format!("{}-{name}", std::process::id()));
    std::fs::write(&path, bytes).expect("the log can be written");
    path
}

fn read(content: &[u8], path: &Path, packing: Packing, io: Io, part: u64, limits: Limits) -> Seen {
    let log = Log::open(path, packing, io).expect("the log can be opened");
    let mut check = Check {
        content,
        seen: Seen::default(),
    };
    for range in log.parts(part) {
        log.read(path, range, limits, &mut check).expect("the log can be read");
    }
    check.seen
}

fn check(content: &[u8], part: u64, limits: Limits) {
    let mut offset = 0;
    let whole = content.split_inclusive(|byte| *byte == b'\n').map(|line| {
        let start = offset;
        offset += line.len() as u64;
        (start, line.len() as u64, false)
    });
    let whole = Seen { lines: whole.collect() };
    let path = write("plain.jsonl", content);
    // A mapping needs no copy and so knows no longest line.
    for part in [u64::MAX, part] {
        assert_eq!(
            read(content, &path, Packing::Plain, Io::Mmap, part, limits),
            whole,
            "mapped in parts of {part}"
        );
    }
    // A buffer is never smaller than a block. A last line without newline that just fills it is too long as well:
    // nothing tells that it ends there.
    let longest = limits.max_line.max(BLOCK) as u64;
    let is_held = |&(start, length, _): &(u64, u64, bool)| {
        let is_ended = content[(start + length) as usize - 1] == b'\n';
        length < longest || (length == longest && is_ended)
    };
    let expected = Seen {
        lines: whole
            .lines
            .iter()
            .map(|line| (line.0, line.1, !is_held(line)))
            .collect(),
    };
    for part in [u64::MAX, part] {
        assert_eq!(
            read(content, &path, Packing::Plain, Io::Read, part, limits),
            expected,
            "read in parts of {part}, longest line {}",
            limits.max_line
        );
    }
    if content.len() % 8 == 0 {
        let path = write("packed.jsonl.zst", &zstd::encode_all(content, 1).expect("zstd"));
        assert_eq!(
            read(content, &path, Packing::Zstd, Io::Auto, part, limits),
            expected,
            "zstd"
        );
    } else if content.len() % 8 == 1 {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(content).expect("gzip");
        let path = write("packed.jsonl.gz", &gzip.finish().expect("gzip"));
        assert_eq!(
            read(content, &path, Packing::Gzip, Io::Auto, part, limits),
            expected,
            "gzip"
        );
    }
}
