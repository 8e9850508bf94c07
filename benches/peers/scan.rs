//! The newline scan: the floor for any reader of these files. The runner re-executes itself for it.

use crate::corpora::log_files;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// First argument of the runner when it re-executes itself as the newline scan.
pub const SCAN: &str = "--scan-newlines";

/// Size of one read of the newline scan.
pub const SCAN_BLOCK: usize = 128 << 10;

/// The scan reads into page-aligned memory. A plain `Vec` of this size starts 16 bytes into a page,
/// and some processors copy from the page cache to there six times slower (1.6 against 9.6 GB/s on
/// a Zen 3): that would make the floor slow and everything above it look good.
const PAGE: usize = 4096;

/// Piece of a file that one thread of the newline scan takes at a time.
const SCAN_PIECE: u64 = 8 << 20;

/// Runs the scan as a command: `THREADS FOLDER`; prints the number of lines.
pub fn scan_newlines(args: &[OsString]) -> ExitCode {
    let [threads, dir] = args else {
        return ExitCode::from(2);
    };
    let threads = threads.to_str().and_then(|text| text.parse().ok()).unwrap_or(1);
    match count_newlines(threads, Path::new(dir)) {
        Ok(lines) => {
            println!("{lines}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Counts newlines of all logs below a folder; threads take pieces of files from a shared counter.
fn count_newlines(threads: usize, dir: &Path) -> io::Result<u64> {
    let files = log_files(dir)?;
    let pieces: Vec<(&Path, u64)> = files
        .iter()
        .flat_map(|(path, size)| {
            let starts = (0..size.div_ceil(SCAN_PIECE)).map(|piece| piece * SCAN_PIECE);
            starts.map(|start| (path.as_path(), start))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<u64> {
        let mut lines = 0;
        let mut memory = vec![0; SCAN_BLOCK + PAGE];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        let block = &mut memory[start..start + SCAN_BLOCK];
        while let Some((path, start)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut file = File::open(path)?;
            if *start > 0 {
                file.seek(SeekFrom::Start(*start))?;
            }
            let mut piece = file.take(SCAN_PIECE);
            loop {
                let read = piece.read(block)?;
                if read == 0 {
                    break;
                }
                lines += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
            }
        }
        Ok(lines)
    };
    if threads <= 1 {
        return work();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut lines = 0;
        for worker in workers {
            lines += worker
                .join()
                .map_err(|_| io::Error::other("a scan thread panicked"))??;
        }
        Ok(lines)
    })
}
