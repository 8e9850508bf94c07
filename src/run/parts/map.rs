//! Makes parts: every log is read, parsed and packed, several at once, and written in the order of their paths.

use super::texts::{TextFailure, pack_texts};
use super::{PartEntry, PartIndex, Section, part_head, part_tail};
use crate::run::cache::{BUILD_ID, ContentHash};
use crate::run::fetching::{fetch_log, fetched_bytes, is_remote, map_fetched};
use crate::run::known_contents;
use crate::run::read::{LoadedLog, LogDelivery, ReadBudget, ReadOptions, StoredLog, read_log};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use std::io::{self, Write};
use std::ops::Range;
use std::path::PathBuf;
use transcript::bytes::{IoMode, ReadLimits};
use transcript::discover::DiscoveredLog;
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack;
use transcript::parallel::{parallel_map, thread_count};
use transcript::problem::{Problem, ProblemKind};
use xxhash_rust::xxh3::xxh3_64;

/// Logs per thread that are mapped before their sections are written.
const BATCH: usize = 32;

/// Bytes of logs that are mapped before their sections are written; one log may have more.
const BATCH_BYTES: u64 = 256 << 20;

/// Logs from this size on are compressed while they are written, so that they are never held whole.
const BIG_TEXT_BYTES: u64 = 16 << 20;

/// Bytes of sections after which a part that is a line of text ends.
const LINE_BYTES: u64 = 8 << 20;

/// A share of the logs: those whose path falls to `number`, counted from 1, of `count`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which share.
    pub number: u32,
    /// How many there are.
    pub count: u32,
}

impl Shard {
    /// Reads a share, such as `3/7`.
    pub fn parse(text: &str) -> Result<Shard, String> {
        let parsed = text
            .split_once('/')
            .and_then(|(number, count)| Some((number.parse().ok()?, count.parse().ok()?)));
        match parsed {
            Some((number, count)) if (1..=count).contains(&number) => Ok(Shard { number, count }),
            _ => Err("a shard is a number and how many there are: 1/7 to 7/7".to_owned()),
        }
    }

    /// Whether a log is in it. Only its path decides, so that the shards agree while logs grow.
    fn has(self, found: &DiscoveredLog) -> bool {
        let hash = xxh3_64(found.path.as_os_str().as_encoded_bytes());
        hash % u64::from(self.count) == u64::from(self.number - 1)
    }
}

/// What is to be mapped, and how.
pub struct MapTask<'a> {
    /// All logs that were found, in this share or another.
    pub logs: &'a [DiscoveredLog],
    /// The share that is mapped; `None` for all.
    pub shard: Option<Shard>,
    /// The paths that were named.
    pub roots: &'a [PathBuf],
    /// Problems with finding logs.
    pub problems: Vec<Problem>,
    /// Whether the bytes of the logs are packed, too.
    pub texts: bool,
    /// How logs are read.
    pub options: ReadOptions<'a>,
}

/// Why there is no part.
#[derive(Debug, thiserror::Error)]
pub enum MapFailure {
    /// A log is not what it was when it was parsed.
    #[error("{0} changed while it was being read\n  hint: map it again")]
    Changed(String),
    /// A log lies in a store that did not deliver it. Trying again may help.
    #[error("{path}: {reason}")]
    Storage {
        /// The log.
        path: String,
        /// What the store said.
        reason: String,
    },
    /// The part cannot be written.
    #[error("writing the part: {0}")]
    Output(#[from] io::Error),
}

/// A map that is ready to run.
pub struct MapJob<'a> {
    task: MapTask<'a>,
    /// The logs of its share.
    own: Vec<DiscoveredLog>,
    /// Hash of all logs and of what a part depends on beside them.
    set: [u8; 32],
}

/// A log that was mapped; its sections have no places yet.
struct MappedLog {
    entry: PartEntry,
    numbers: Vec<u8>,
    lines: Vec<u8>,
    texts: MappedTexts,
    /// Problems with its lines.
    line_problems: Vec<Problem>,
}

enum MappedTexts {
    /// Not wanted, or the log could not be read.
    None,
    /// Compressed blocks.
    Packed(Vec<Vec<u8>>),
    /// To be compressed when they are written.
    Later(ContentHash),
}

impl<'a> MapJob<'a> {
    /// Takes the logs of the share.
    pub fn new(task: MapTask<'a>) -> MapJob<'a> {
        let takes = |found: &&DiscoveredLog| task.shard.is_none_or(|shard| shard.has(found));
        let own = task.logs.iter().filter(takes).cloned().collect();
        let mut hasher = blake3::Hasher::new();
        hasher.update(BUILD_ID.as_bytes());
        hasher.update(&(task.options.limits.max_line as u64).to_le_bytes());
        hasher.update(&[u8::from(task.texts)]);
        for found in task.logs {
            let path = found.path.as_os_str().as_encoded_bytes();
            hasher.update(&(path.len() as u64).to_le_bytes()).update(path);
        }
        MapJob {
            set: *hasher.finalize().as_bytes(),
            own,
            task,
        }
    }

    /// Returns the name of its part: the same whenever the same logs are mapped in the same way, so that a second run
    /// replaces what a first one left.
    pub fn part_name(&self) -> String {
        let set = &blake3::Hash::from_bytes(self.set).to_hex()[..16];
        match self.task.shard {
            Some(Shard { number, count }) => format!("{set}-{number}-of-{count}.part"),
            None => format!("{set}.part"),
        }
    }

    /// Returns how many logs it has.
    pub fn log_count(&self) -> usize {
        self.own.len()
    }

    /// Writes one part. Returns what was wrong with the logs.
    pub fn write_part(&self, out: &mut dyn Write) -> Result<Vec<Problem>, MapFailure> {
        let mut writer = PartWriter::new(out, self.index())?;
        let problems = self.map_batches(&mut |mapped, found| writer.add(mapped, found))?;
        writer.finish()?;
        Ok(problems)
    }

    /// Writes parts as lines of text, for channels that carry nothing else. Returns what was wrong with the logs.
    pub fn write_lines(&self, out: &mut dyn Write) -> Result<Vec<Problem>, MapFailure> {
        let mut writer = PartWriter::new(Vec::new(), self.index())?;
        let mut write_line = |writer: PartWriter<Vec<u8>>| -> Result<(), MapFailure> {
            let mut line = STANDARD.encode(writer.finish()?);
            line.push('\n');
            Ok(out.write_all(line.as_bytes())?)
        };
        let problems = self.map_batches(&mut |mapped, found| {
            writer.add(mapped, found)?;
            if writer.at < LINE_BYTES {
                return Ok(());
            }
            let full = std::mem::replace(&mut writer, PartWriter::new(Vec::new(), self.index())?);
            write_line(full)
        })?;
        write_line(writer)?;
        Ok(problems)
    }

    /// Returns the logs of its share.
    pub fn logs(&self) -> &[DiscoveredLog] {
        &self.own
    }

    /// Returns the problems with finding logs.
    pub(super) fn found_problems(&self) -> &[Problem] {
        &self.task.problems
    }

    /// Returns the index of a part that holds no logs yet.
    pub(super) fn index(&self) -> PartIndex {
        let bytes = |path: &PathBuf| path.as_os_str().as_encoded_bytes().to_vec();
        PartIndex {
            max_line: self.task.options.limits.max_line as u64,
            shard: self.task.shard,
            set: self.set,
            set_logs: self.task.logs.len() as u64,
            roots: self.task.roots.iter().map(bytes).collect(),
            problems: self.task.problems.clone(),
            logs: Vec::new(),
        }
    }

    /// Maps all logs and hands them on in their order.
    fn map_batches(
        &self,
        take: &mut dyn FnMut(MappedLog, &DiscoveredLog) -> Result<(), MapFailure>,
    ) -> Result<Vec<Problem>, MapFailure> {
        let options = ReadOptions {
            with_line_hashes: true,
            with_content_hashes: true,
            selection: None,
            ..self.task.options
        };
        let mut problems = self.task.problems.clone();
        for range in batches(&self.own) {
            let logs = &self.own[range];
            let known = known_contents(logs, &options);
            let numbers = (0..logs.len()).collect::<Vec<_>>();
            let texts = self.task.texts;
            let budget = ReadBudget::packed();
            let mapped = match logs.iter().any(is_remote) {
                true if texts => map_fetched(
                    &numbers,
                    |at| fetched_bytes(&logs[at]),
                    |at| fetch_log(&logs[at]),
                    |at, found| map_found(&found, known[at], texts, &options),
                ),
                // What a cache knows need not be fetched.
                true => map_fetched(
                    &numbers,
                    |at| fetched_bytes(&logs[at]),
                    |at| LogDelivery::fetch(&logs[at], known[at], &budget, &options),
                    |at, delivery| {
                        let read = delivery.read(&budget, None, &options);
                        map_read(&logs[at], read, texts)
                    },
                ),
                false => parallel_map(&numbers, |&at| map_found(&logs[at], known[at], texts, &options)),
            };
            for (mapped, found) in std::iter::zip(mapped, logs) {
                let mut mapped = mapped?;
                problems.extend(mapped.entry.problems.iter().cloned());
                problems.append(&mut mapped.line_problems);
                take(mapped, found)?;
            }
        }
        Ok(problems)
    }
}

/// Splits logs into batches that are mapped together.
fn batches(logs: &[DiscoveredLog]) -> Vec<Range<usize>> {
    let most = BATCH * thread_count();
    let (mut batches, mut start, mut bytes) = (Vec::new(), 0, 0u64);
    for (at, found) in logs.iter().enumerate() {
        let is_full = at - start == most || bytes.saturating_add(found.stamp.size) > BATCH_BYTES;
        if is_full && at > start {
            batches.push(start..at);
            (start, bytes) = (at, 0);
        }
        bytes = bytes.saturating_add(found.stamp.size);
    }
    if start < logs.len() {
        batches.push(start..logs.len());
    }
    batches
}

/// Maps one log.
fn map_found(
    found: &DiscoveredLog,
    known: Option<ContentHash>,
    wants_texts: bool,
    options: &ReadOptions<'_>,
) -> Result<MappedLog, MapFailure> {
    let read = read_log(found, known, &ReadBudget::packed(), None, options);
    map_read(found, read, wants_texts)
}

/// Maps a log that was read.
fn map_read(found: &DiscoveredLog, read: LoadedLog, wants_texts: bool) -> Result<MappedLog, MapFailure> {
    let path = || found.path.display().to_string();
    let (line_problems, problems) = read
        .problems
        .into_iter()
        .partition::<Vec<_>, _>(|problem| matches!(problem.kind, ProblemKind::Line(_)));
    for problem in &problems {
        match problem.kind {
            ProblemKind::Changed => return Err(MapFailure::Changed(path())),
            ProblemKind::NotDelivered => {
                return Err(MapFailure::Storage {
                    path: path(),
                    reason: problem.detail.clone(),
                });
            }
            _ => {}
        }
    }
    if read.hash.is_none() && problems.is_empty() {
        return Err(MapFailure::Changed(path()));
    }
    let texts = match read.hash.filter(|_| wants_texts) {
        None => MappedTexts::None,
        Some(content) if found.stamp.size >= BIG_TEXT_BYTES => MappedTexts::Later(content),
        Some(content) => {
            let mut blocks = Vec::new();
            let packed = pack_texts(found, &content, |block| {
                blocks.push(block);
                Ok(())
            });
            packed.map_err(|failure| text_failure(found, failure))?;
            MappedTexts::Packed(blocks)
        }
    };
    let empty = Section {
        at: 0,
        length: 0,
        checksum: 0,
    };
    Ok(MappedLog {
        entry: PartEntry {
            path: found.path.as_os_str().as_encoded_bytes().to_vec(),
            packing: found.packing as u8,
            size: found.stamp.size,
            content: read.hash,
            problems,
            numbers: empty,
            lines: empty,
            texts: None,
        },
        numbers: match read.stored {
            StoredLog::Packed(packed) => packed.into_inner().unwrap_or_default(),
            // The budget and the missing early report leave no other form.
            _ => pack::pack(&Log::default()),
        },
        lines: read.line_hashes.unwrap_or_else(|| LineHashes::default().pack()),
        texts,
        line_problems,
    })
}

fn text_failure(found: &DiscoveredLog, failure: TextFailure) -> MapFailure {
    let path = found.path.display().to_string();
    match failure {
        TextFailure::Changed => MapFailure::Changed(path),
        TextFailure::Io(error) => MapFailure::Storage {
            path,
            reason: error.to_string(),
        },
    }
}

/// Writes a part.
pub(super) struct PartWriter<W> {
    out: W,
    /// Bytes that were written.
    at: u64,
    index: PartIndex,
}

impl<W: Write> PartWriter<W> {
    pub fn new(mut out: W, index: PartIndex) -> io::Result<PartWriter<W>> {
        let head = part_head();
        out.write_all(&head)?;
        Ok(PartWriter {
            out,
            at: head.len() as u64,
            index,
        })
    }

    /// Writes a section.
    pub fn write(&mut self, body: &[u8]) -> io::Result<Section> {
        let section = Section {
            at: self.at,
            length: body.len() as u64,
            checksum: xxh3_64(body),
        };
        self.out.write_all(body)?;
        self.at += section.length;
        Ok(section)
    }

    fn add(&mut self, mapped: MappedLog, found: &DiscoveredLog) -> Result<(), MapFailure> {
        let mut entry = mapped.entry;
        entry.numbers = self.write(&mapped.numbers)?;
        entry.lines = self.write(&mapped.lines)?;
        let mut blocks = Vec::new();
        match mapped.texts {
            MappedTexts::None => {}
            MappedTexts::Packed(packed) => {
                for block in packed {
                    blocks.push(self.write(&block)?);
                }
                entry.texts = Some(blocks);
            }
            MappedTexts::Later(content) => {
                let packed = pack_texts(found, &content, |block| {
                    blocks.push(self.write(&block)?);
                    Ok(())
                });
                packed.map_err(|failure| text_failure(found, failure))?;
                entry.texts = Some(blocks);
            }
        }
        self.push(entry);
        Ok(())
    }

    /// Adds a log whose sections are written.
    pub fn push(&mut self, entry: PartEntry) {
        self.index.logs.push(entry);
    }

    /// Writes the index and the footer.
    pub fn finish(mut self) -> io::Result<W> {
        let tail = part_tail(&self.index, self.at)?;
        self.out.write_all(&tail)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// Maps one log alone. A cluster engine needs no more than this: a log in, a part out, and a failure that says whether it may
/// try again.
pub fn map_log(found: &DiscoveredLog, max_line: usize, texts: bool) -> Result<Vec<u8>, MapFailure> {
    let job = MapJob::new(MapTask {
        logs: std::slice::from_ref(found),
        shard: None,
        roots: &[],
        problems: Vec::new(),
        texts,
        options: ReadOptions {
            io: IoMode::Read,
            limits: ReadLimits::new(max_line),
            ..ReadOptions::default()
        },
    });
    let mut part = Vec::new();
    job.write_part(&mut part)?;
    Ok(part)
}

impl MapFailure {
    /// Whether the same work may succeed if it is tried again.
    pub fn is_transient(&self) -> bool {
        match self {
            MapFailure::Changed(_) | MapFailure::Storage { .. } => true,
            MapFailure::Output(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use transcript::bytes::Compression;
    use transcript::discover::{FileStamp, LogOrigin};

    fn log(path: &str, size: u64) -> DiscoveredLog {
        DiscoveredLog {
            path: Path::new(path).to_owned(),
            packing: Compression::Plain,
            stamp: FileStamp {
                size,
                ..FileStamp::default()
            },
            origin: LogOrigin::File,
        }
    }

    #[test]
    fn shards_share_out_all_logs() {
        let logs = (0..1000).map(|number| log(&format!("logs/{number}.jsonl"), 1));
        let logs = logs.collect::<Vec<_>>();
        let shard = |number| Shard::parse(&format!("{number}/7")).unwrap();
        let owners = |found: &DiscoveredLog| (1..=7).filter(|number| shard(*number).has(found)).count();
        assert!(logs.iter().all(|found| owners(found) == 1));
        for number in 1..=7 {
            let own = logs.iter().filter(|found| shard(number).has(found)).count();
            assert!((90..200).contains(&own), "{own} logs in shard {number}");
        }
        for wrong in ["", "1", "0/7", "8/7", "1/0", "a/b", "1/7/2", "-1/7"] {
            assert!(Shard::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn batches_cover_all_logs_and_are_bounded() {
        let sizes = [1, 1, BATCH_BYTES, 1, 3 * BATCH_BYTES, 1, 1];
        let logs = sizes.map(|size| log("a", size));
        let batches = batches(&logs);
        assert_eq!(batches, [0..2, 2..3, 3..4, 4..5, 5..7]);
    }
}
