use super::*;
use proptest::prelude::*;
use std::io::Write;

#[derive(Default)]
struct CollectedLines {
    lines: Vec<(u64, Vec<u8>)>,
    long: Vec<(u64, u64)>,
    /// The most bytes received at once.
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

fn read_in_ranges(content: &[u8], part: u64, io: IoMode, max_line: usize) -> CollectedLines {
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
    fn ranges_cover_every_line_once(
        lengths in prop::collection::vec(prop_oneof![8 => 0usize..40, 1 => 100usize..400], 0..40),
        part in 1u64..600,
        ends in any::<bool>(),
    ) {
        let mut content = lengths.iter().flat_map(|&length| [vec![b'x'; length], b"\n".to_vec()].concat()).collect::<Vec<_>>();
        if !ends {
            content.pop();
        }
        let expected = split_lines(&content);
        prop_assert_eq!(&read_in_ranges(&content, part, IoMode::Read, 1 << 20).lines, &expected);
        prop_assert_eq!(&read_in_ranges(&content, part, IoMode::Mmap, 1 << 20).lines, &expected);
    }
}

#[test]
fn raw_bytes_are_the_start_of_the_file() {
    let content = b"line\n".repeat(BLOCK / 2);
    for (compression, io) in [
        (Compression::Plain, IoMode::Mmap),
        (Compression::Plain, IoMode::Read),
        (Compression::Gzip, IoMode::Read),
    ] {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&content).unwrap();
        let log = LogFile::open(file.path(), compression, io).unwrap();
        for size in [0, 7, content.len(), 2 * content.len()] {
            let mut raw = Vec::new();
            let read = log.read_raw(size as u64, |bytes| raw.extend_from_slice(bytes)).unwrap();
            assert_eq!(read, raw.len() as u64);
            assert!(
                raw == content[..size.min(content.len())],
                "{compression:?} {io:?} {size}"
            );
        }
    }
}

#[test]
fn auto_mode_maps_only_big_settled_files() {
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
fn a_grown_buffer_is_still_read_in_blocks() {
    let short = |lines: usize| b"line\n".repeat(lines);
    let long = [vec![b'y'; 5 * BLOCK], b"\n".to_vec()].concat();
    let largest = |content: &[u8]| {
        let collect = read_in_ranges(content, 1 << 30, IoMode::Read, 1 << 30);
        assert_eq!(collect.lines, split_lines(content));
        collect.largest
    };
    assert!(largest(&long) > 5 * BLOCK);
    let kept = SPARE.take();
    assert!(kept.as_ref().is_some_and(|buffer| buffer.len() > 5 * BLOCK));
    SPARE.set(kept);
    assert!(largest(&short(BLOCK)) <= BLOCK);
    // The grown buffer is not reused if the limit is lower.
    let collect = read_in_ranges(&long, 1 << 30, IoMode::Read, BLOCK);
    assert_eq!(collect.long, [(0, long.len() as u64)]);
}

#[test]
fn a_line_over_the_limit_is_skipped_and_reported() {
    let long = 3 * BLOCK;
    let content = [b"first\n".to_vec(), vec![b'y'; long], b"\nlast\n".to_vec()].concat();
    for part in [1 << 30, BLOCK as u64] {
        let collect = read_in_ranges(&content, part, IoMode::Read, BLOCK);
        assert_eq!(
            collect.lines,
            [(0, b"first\n".to_vec()), (long as u64 + 7, b"last\n".to_vec())]
        );
        assert_eq!(collect.long, [(6, long as u64 + 1)]);
    }
}

/// Collects what is read.
#[derive(Default)]
struct Collected(Vec<u8>);

impl LineConsumer for Collected {
    fn take_lines(&mut self, bytes: &[u8], _offset: u64) {
        self.0.extend_from_slice(bytes);
    }

    fn skip_long_line(&mut self, _offset: u64, _length: u64, _head: &[u8]) {}
}

#[test]
fn a_mapped_file_that_shrinks_is_an_error_and_no_crash() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let text = b"{\"type\":\"user\"}\n".repeat(1 << 19);
    std::fs::write(&path, &text).unwrap();
    let log = LogFile::open(&path, Compression::Plain, IoMode::Mmap).unwrap();
    assert!(log.map.is_some());
    let halves = [0..log.size / 2, log.size / 2..log.size];
    let mut read = Collected::default();
    log.read(halves[0].clone(), ReadLimits::new(BLOCK), &mut read).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(100).unwrap();
    let error = log
        .read(halves[1].clone(), ReadLimits::new(BLOCK), &mut read)
        .unwrap_err();
    assert!(error.to_string().contains("became shorter"), "{error}");
    let raw = log.read_raw(log.size, |_| ()).unwrap();
    assert_eq!(raw, 100);
}

#[test]
fn all_parts_come_from_the_file_that_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.jsonl");
    let text = b"{\"type\":\"user\"}\n".repeat(1 << 17);
    for io in [IoMode::Mmap, IoMode::Read] {
        std::fs::write(&path, &text).unwrap();
        let log = LogFile::open(&path, Compression::Plain, io).unwrap();
        let mut read = Collected::default();
        for (number, part) in log.split_ranges(log.size / 4).into_iter().enumerate() {
            log.read(part, ReadLimits::new(BLOCK), &mut read).unwrap();
            // Another file takes its place, and then none.
            if number == 0 {
                let other = folder.path().join("other");
                std::fs::write(&other, b"not this\n").unwrap();
                std::fs::rename(other, &path).unwrap();
            } else if number == 2 {
                std::fs::remove_file(&path).unwrap();
            }
        }
        assert!(read.0 == text, "{io:?}");
    }
}
