//! Parses one log: a big one in parts on several threads, joined in their order as they come in. The log is opened once; its
//! content hash, if it is wanted, comes from the bytes that are parsed.

use crate::run::cache::ContentHash;
use crate::run::read::{ReadOptions, read_problem};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};
use transcript::agents::{Agent, AgentReader, SNIFFED_BYTES};
use transcript::build::{LogBuffers, LogBuilder};
use transcript::bytes::{Compression, LineConsumer, LogFile, SourceFault};
use transcript::discover::DiscoveredLog;
use transcript::line_hashes::LineHashes;
use transcript::parallel::{self, join, parallel_map};
use transcript::problem::Problem;
use transcript::walk::Walker;

/// The smallest part of a file that is worth a thread of its own.
const MIN_PART_BYTES: u64 = 4 << 20;

/// A log that was parsed, or a part of one.
#[derive(Default)]
pub struct ParsedLog {
    /// The log, whose links are still to be resolved.
    pub builder: LogBuilder,
    /// Hashes of content lines, if they were wanted.
    pub line_hashes: Option<LineHashes>,
    /// Hash of the file, if it was wanted and the file could be read.
    pub content: Option<ContentHash>,
    /// Problems with the file as a whole.
    pub problems: Vec<Problem>,
    /// Whether its source owes a piece of it.
    has_fault: bool,
}

/// Parses a log, a big one in parts on several threads.
pub fn parse_log(found: &DiscoveredLog, path: &str, pool: &BufferPool, options: &ReadOptions<'_>) -> ParsedLog {
    let open = match LogFile::open_found(found, options.io) {
        Ok(open) => open,
        Err(error) => {
            let problem = read_problem(path, Compression::Plain, &error);
            return ParsedLog::without_content(vec![problem], options);
        }
    };
    let threads = parallel::thread_count();
    let mut parts = open.split_ranges(if threads > 1 { MIN_PART_BYTES } else { u64::MAX });
    // A reader of another agent keeps what a line means for the next one.
    if parts.len() > 1
        && open
            .read_head(SNIFFED_BYTES)
            .is_ok_and(|head| Agent::detect(&head) != Agent::Claude)
    {
        parts = open.split_ranges(u64::MAX);
    }
    let parser = PartParser {
        open: &open,
        found,
        path,
        pool,
        options,
    };
    let wants_hash = options.wants_content_hashes();
    let mut parsed = if let [part] = parts.as_slice() {
        parser.parse(part, wants_hash && found.packing == Compression::Plain)
    } else {
        let parts = parts.into_iter().enumerate().collect::<Vec<_>>();
        let joiner = PartJoiner::new(pool);
        let parse_parts = || {
            parallel_map(&parts, |(number, part)| joiner.put(*number, parser.parse(part, false)));
        };
        let hash = || {
            wants_hash
                .then(|| hash_open_log(&open, found.stamp.size).ok())
                .flatten()
        };
        let ((), content) = join(parse_parts, hash);
        ParsedLog {
            content,
            ..joiner.finish()
        }
    };
    // A log that did not come whole does not count: a sum of half of it would look like a sum of all of it.
    if parsed.has_fault {
        return ParsedLog::without_content(parsed.problems, options);
    }
    // A packed log, one that grew, or one with a line too long to hold: its lines are not the bytes that are hashed.
    if wants_hash && parsed.content.is_none() {
        let hash = || hash_open_log(&open, found.stamp.size).ok();
        parsed.content = open.content_hash().or_else(hash);
    }
    parsed
}

/// Hashes the first `size` bytes of an open log.
fn hash_open_log(open: &LogFile, size: u64) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    let read = open.read_raw(size, |bytes| {
        hasher.update(bytes);
    })?;
    if read != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(*hasher.finalize().as_bytes())
}

/// Parses parts of one log.
struct PartParser<'p> {
    open: &'p LogFile,
    found: &'p DiscoveredLog,
    path: &'p str,
    pool: &'p BufferPool,
    options: &'p ReadOptions<'p>,
}

impl PartParser<'_> {
    /// Parses the lines that start inside `part`; also hashes them if they are all lines of the file.
    fn parse(&self, part: &Range<u64>, is_hashed: bool) -> ParsedLog {
        let options = self.options;
        let walker = Walker::with_buffers(self.pool.take(), options.limits.max_line, options.progress);
        let mut walker = if options.with_line_hashes {
            walker.with_line_hashes()
        } else {
            walker
        };
        // The first part is the one that the others are joined to.
        let end = if part.start == 0 { u64::MAX } else { part.end };
        walker.reserve_for(end.min(self.found.stamp.size).saturating_sub(part.start));
        let mut reader = match part.start {
            0 => AgentReader::new(&mut walker),
            _ => AgentReader::of_claude(&mut walker),
        };
        let (done, content) = if is_hashed {
            let mut hashing = HashingConsumer::new(&mut reader);
            let done = self.open.read(part.clone(), options.limits, &mut hashing);
            (done, hashing.finish(self.found.stamp.size))
        } else {
            (self.open.read(part.clone(), options.limits, &mut reader), None)
        };
        reader.finish();
        let error = done.err();
        let problem = error
            .as_ref()
            .map(|error| read_problem(self.path, self.found.packing, error));
        let (builder, line_hashes) = walker.into_parts();
        ParsedLog {
            builder,
            line_hashes,
            content,
            problems: problem.into_iter().collect(),
            has_fault: error.is_some_and(|error| SourceFault::of(&error).is_some()),
        }
    }
}

/// Hashes lines on their way to the parser.
struct HashingConsumer<'w, L> {
    reader: &'w mut L,
    hasher: blake3::Hasher,
    /// Whether a line was passed over, so that the hash is not that of the file.
    has_gap: bool,
}

impl<'w, L: LineConsumer> HashingConsumer<'w, L> {
    fn new(reader: &'w mut L) -> HashingConsumer<'w, L> {
        HashingConsumer {
            reader,
            hasher: blake3::Hasher::new(),
            has_gap: false,
        }
    }

    /// Returns the hash if every one of `size` bytes was seen.
    fn finish(self, size: u64) -> Option<ContentHash> {
        let is_whole = !self.has_gap && self.hasher.count() == size;
        is_whole.then(|| *self.hasher.finalize().as_bytes())
    }
}

impl<L: LineConsumer> LineConsumer for HashingConsumer<'_, L> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        self.hasher.update(bytes);
        self.reader.take_lines(bytes, offset);
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        self.has_gap = true;
        self.reader.skip_long_line(offset, length, head);
    }
}

/// A log whose parts are joined in their order, as they come in.
struct PartJoiner<'r> {
    state: Mutex<JoinState>,
    /// Where room of parts goes.
    buffers: &'r BufferPool,
}

struct JoinState {
    /// What is joined so far. Whoever joins has it meanwhile; others leave their part and go on reading.
    parsed: Option<ParsedLog>,
    /// Number of the part that comes next.
    next: usize,
    /// Parts that others have to come before.
    waiting: BTreeMap<usize, ParsedLog>,
}

impl<'r> PartJoiner<'r> {
    fn new(rooms: &'r BufferPool) -> PartJoiner<'r> {
        PartJoiner {
            state: Mutex::new(JoinState {
                parsed: Some(ParsedLog::default()),
                next: 0,
                waiting: BTreeMap::new(),
            }),
            buffers: rooms,
        }
    }

    fn lock(&self) -> MutexGuard<'_, JoinState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put(&self, number: usize, part: ParsedLog) {
        let mut joined = self.lock();
        joined.waiting.insert(number, part);
        let Some(mut parsed) = joined.parsed.take() else { return };
        loop {
            let next = joined.next;
            let Some(part) = joined.waiting.remove(&next) else {
                break;
            };
            joined.next += 1;
            drop(joined);
            match next {
                0 => parsed = part,
                _ => self.buffers.put_back(parsed.append(part)),
            }
            joined = self.lock();
        }
        joined.parsed = Some(parsed);
    }

    /// The whole log, once every part was put.
    fn finish(self) -> ParsedLog {
        let joined = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        joined.parsed.unwrap_or_default()
    }
}

impl ParsedLog {
    /// A log of which nothing was read.
    fn without_content(problems: Vec<Problem>, options: &ReadOptions<'_>) -> ParsedLog {
        ParsedLog {
            // Line hashes are kept by the number of the log: one that has none leaves no gap.
            line_hashes: options.with_line_hashes.then(LineHashes::default),
            problems,
            ..ParsedLog::default()
        }
    }

    /// Joins the part that follows, of which room is left.
    fn append(&mut self, part: ParsedLog) -> LogBuffers {
        if let (Some(evidence), Some(lines)) = (&mut self.line_hashes, part.line_hashes) {
            evidence.append(lines, self.builder.block_count());
        }
        self.problems.extend(part.problems);
        self.has_fault |= part.has_fault;
        self.builder.append(part.builder)
    }
}

/// Room of logs, and parts of logs, that are done with, for those that are read next. The system gives fresh memory page by
/// page, and takes some of it back whenever much is free: both cost more than what is written into it.
#[derive(Default)]
pub struct BufferPool(Mutex<Vec<LogBuffers>>);

impl BufferPool {
    /// How many records a room is kept for.
    const MAX_KEPT_RECORDS: usize = 1 << 13;
    /// How many rooms are kept.
    const MAX_KEPT_BUFFERS: usize = 8;

    /// Some room, if there is any.
    pub fn take(&self) -> LogBuffers {
        self.lock().pop().unwrap_or_default()
    }

    /// Leaves room for others, but for that of a big log: it would be held for as long as anything is read.
    pub fn put_back(&self, room: LogBuffers) {
        let mut rooms = self.lock();
        if rooms.len() < Self::MAX_KEPT_BUFFERS && room.capacity() <= Self::MAX_KEPT_RECORDS {
            rooms.push(room);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<LogBuffers>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::log::Log;
    use transcript::problem::ProblemKind;

    #[test]
    fn parts_are_joined_in_their_order_whichever_comes_first() {
        let part = |number: usize| ParsedLog {
            problems: vec![Problem::file(number.to_string(), ProblemKind::Unreadable, "")],
            ..ParsedLog::default()
        };
        for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]] {
            let rooms = BufferPool::default();
            let joining = PartJoiner::new(&rooms);
            for number in order {
                joining.put(number, part(number));
            }
            let problems = joining.finish().problems;
            let joined = problems.iter().map(|problem| problem.path.as_str());
            assert_eq!(joined.collect::<Vec<_>>(), ["0", "1", "2", "3"], "{order:?}");
        }
    }

    #[test]
    fn room_is_not_hoarded() {
        let rooms = BufferPool::default();
        let of = |records: usize| {
            let mut log = Log::default();
            log.records.reserve_exact(records);
            LogBuffers::from_log(log)
        };
        rooms.put_back(of(BufferPool::MAX_KEPT_RECORDS + 1));
        assert_eq!(rooms.take().capacity(), 0);
        rooms.put_back(of(BufferPool::MAX_KEPT_RECORDS));
        assert_eq!(rooms.take().capacity(), BufferPool::MAX_KEPT_RECORDS);
        (0..100).for_each(|_| rooms.put_back(of(1)));
        assert_eq!(rooms.lock().len(), BufferPool::MAX_KEPT_BUFFERS);
    }

    #[test]
    fn who_brings_a_part_while_another_joins_does_not_wait() {
        let rooms = BufferPool::default();
        let joining = PartJoiner::new(&rooms);
        let whole = joining.lock().parsed.take();
        // Somebody joins: the part stays where it is.
        joining.put(0, ParsedLog::default());
        assert_eq!(joining.lock().waiting.len(), 1);
        joining.lock().parsed = whole;
        joining.put(1, ParsedLog::default());
        let joined = joining.lock();
        assert_eq!((joined.waiting.len(), joined.next), (0, 2));
    }
}
