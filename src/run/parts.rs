//! Parts: packed logs on their way from `map`, on any machine, to `reduce`, on one.
//!
//! A part is a file of sections, an index and a footer. Per log it holds what a run keeps of it: the packed log, its line
//! hashes, the hash of its content, problems with the file, and if they were asked for its bytes in compressed blocks, for
//! commands that read texts. It follows from the bytes of the logs, their names, the options and the build alone: no times, no
//! numbers of inodes. Parts may be joined end to end, because they are read from their footers backwards.
//!
//! Every section has a checksum. The build is named at the start and stands before everything else that is read, so that a
//! part of another build is refused before its index is looked at.

mod collect;
mod map;
mod open;
mod texts;

pub use collect::{CollectedLog, check_log_part};
pub use map::{MapFailure, MapJob, MapTask, Shard, map_log};
pub(in crate::run) use open::PartLog;
pub use open::PartSet;

use crate::run::cache::{BUILD_ID, ContentHash};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::io;
use transcript::bytes::{Compression, OpenBytes};
use transcript::problem::Problem;
use xxhash_rust::xxh3::xxh3_64;

/// What a part starts with.
const PART_MARK: &[u8; 8] = b"bcpart\x01\n";

/// What a part ends with.
const END_MARK: &[u8; 8] = b"\nbcend\x01\n";

/// How a part starts that is written as text.
const TEXT_MARK: &[u8] = b"YmNwYXJ0";

/// Whether a file that starts so is a part.
pub fn is_part(head: &[u8]) -> bool {
    head.starts_with(PART_MARK) || head.starts_with(TEXT_MARK)
}

/// Lengths of index and part, checksum of the index, end mark.
const FOOTER_BYTES: u64 = 32;

/// Everything about a part but the sections.
#[derive(Debug, Default, Serialize, Deserialize)]
struct PartIndex {
    /// The longest line that was read.
    max_line: u64,
    /// The share of the logs that this part has; `None` for all of them.
    shard: Option<Shard>,
    /// Hash of all logs that `map` found, and how many there were, in this share or another.
    set: [u8; 32],
    set_logs: u64,
    /// The paths that were named.
    roots: Vec<Vec<u8>>,
    /// Problems with finding logs.
    problems: Vec<Problem>,
    logs: Vec<PartEntry>,
}

/// A log in the index.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PartEntry {
    path: Vec<u8>,
    packing: u8,
    /// Size of the log.
    size: u64,
    content: Option<ContentHash>,
    /// Problems with the log as a whole.
    problems: Vec<Problem>,
    /// The packed log.
    numbers: Section,
    /// The packed line hashes.
    lines: Section,
    /// The bytes of the log in compressed blocks, if they were wanted.
    texts: Option<Vec<Section>>,
}

impl PartEntry {
    fn compression(&self) -> Option<Compression> {
        let mut all = Compression::ALL.into_iter();
        all.find(|compression| *compression as u8 == self.packing)
    }
}

/// A stretch of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Section {
    /// Counted from the start of the part.
    at: u64,
    length: u64,
    checksum: u64,
}

impl Section {
    /// Reads the stretch of a part that starts at `start`. Fails if it is not what was written.
    fn read(&self, bytes: &dyn OpenBytes, start: u64) -> io::Result<Vec<u8>> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "a section has the wrong checksum");
        let length = usize::try_from(self.length).map_err(io::Error::other)?;
        let at = start.checked_add(self.at).ok_or_else(damaged)?;
        if at.checked_add(self.length).is_none_or(|end| end > bytes.size()) {
            return Err(damaged());
        }
        let mut body = vec![0; length];
        bytes.read_exact_at(&mut body, at)?;
        if xxh3_64(&body) != self.checksum {
            return Err(damaged());
        }
        Ok(body)
    }
}

/// Returns what stands before the sections: mark and build.
fn part_head() -> Vec<u8> {
    let mut head = PART_MARK.to_vec();
    head.push(BUILD_ID.len() as u8);
    head.extend_from_slice(BUILD_ID.as_bytes());
    head
}

/// Returns index and footer of a part whose sections end at `end`.
fn part_tail(index: &PartIndex, end: u64) -> io::Result<Vec<u8>> {
    let mut tail = postcard::to_allocvec(index).map_err(io::Error::other)?;
    let length = tail.len() as u64;
    tail.extend_from_slice(&length.to_le_bytes());
    tail.extend_from_slice(&(end + length + FOOTER_BYTES).to_le_bytes());
    tail.extend_from_slice(&xxh3_64(&tail).to_le_bytes());
    tail.extend_from_slice(END_MARK);
    Ok(tail)
}

/// Reads the index of the part that ends at `end`. Returns where the part starts, too.
fn read_index(bytes: &dyn OpenBytes, end: u64) -> Result<(PartIndex, u64)> {
    let Some(footer_at) = end.checked_sub(FOOTER_BYTES) else {
        bail!("it is too short");
    };
    let mut footer = [0; FOOTER_BYTES as usize];
    bytes.read_exact_at(&mut footer, footer_at)?;
    let ([index_bytes, part_bytes, checksum, mark], _) = footer.as_chunks::<8>() else {
        bail!("it is too short");
    };
    if mark != END_MARK {
        bail!("its end is missing");
    }
    let number = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
    let head = part_head();
    let start = end.checked_sub(number(part_bytes));
    let index_at = footer_at.checked_sub(number(index_bytes));
    let (Some(start), Some(index_at)) = (start, index_at) else {
        bail!("its lengths are wrong");
    };
    if index_at < start + PART_MARK.len() as u64 + 1 {
        bail!("its lengths are wrong");
    }
    check_head(bytes, start, &head)?;
    let mut tail = vec![0; usize::try_from(end - index_at)?];
    bytes.read_exact_at(&mut tail, index_at)?;
    let summed = tail.len() - checksum.len() - mark.len();
    if xxh3_64(&tail[..summed]) != number(checksum) {
        bail!("its index has the wrong checksum");
    }
    let index = &tail[..tail.len() - FOOTER_BYTES as usize];
    match postcard::from_bytes(index) {
        Ok(index) => Ok((index, start)),
        Err(_) => bail!("its index cannot be read"),
    }
}

/// A part that another build wrote.
#[derive(Debug, thiserror::Error)]
#[error("written by backcast {0}, and this is {BUILD_ID}")]
struct OtherBuild(String);

/// Checks mark and build at the start of a part.
fn check_head(bytes: &dyn OpenBytes, start: u64, wanted: &[u8]) -> Result<()> {
    let mut head = vec![0; PART_MARK.len() + 1];
    bytes.read_exact_at(&mut head, start)?;
    if !head.starts_with(PART_MARK) {
        bail!("its start is missing");
    }
    let mut build = vec![0; usize::from(head[PART_MARK.len()])];
    bytes.read_exact_at(&mut build, start + head.len() as u64)?;
    head.extend_from_slice(&build);
    if head != wanted {
        bail!(OtherBuild(String::from_utf8_lossy(&build).into_owned()));
    }
    Ok(())
}
