//! Reads the logs of a run: from the cache where it knows them, else by parsing, several at once. What is kept of a log until
//! its session is worked on is its packed form.

use crate::run::cache::{self, Cache, CachePart, ContentHash};
use crate::run::early::{EarlyReporter, ReportContext};
use crate::run::fetching::{fetch_log, fetched_bytes, is_remote, map_fetched};
use crate::run::parsing::{BufferPool, ParsedLog, parse_log};
use crate::run::parts::{PartLog, PartSet};
use crate::run::selection::SelectionQuery;
use crate::run::source::MessageFilter;
use crate::run::split::empty_log;
use crate::run::trail::ReadTrail;
use crate::usage::session::SessionReport;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use table::store::SEAL_BYTES;
use transcript::build::LogBuffers;
use transcript::bytes::{Compression, IoMode, ReadLimits, SourceFault};
use transcript::corpus::LogOutline;
use transcript::discover::DiscoveredLog;
use transcript::log::Log;
use transcript::pack::{self, PackedOutline};
use transcript::parallel::{join, parallel_map};
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::SessionLog;

/// Logs from this size on are held as they are while there is room.
const BIG_LOG_BYTES: u64 = 16 << 20;

/// How much of parsed logs is held as it is. Packing a big log and unpacking it again is work that no other thread can share.
const WHOLE_LOG_BUDGET: usize = 32 << 20;

/// How logs are read.
#[derive(Clone, Copy)]
pub struct ReadOptions<'a> {
    /// Mapping or reading.
    pub io: IoMode,
    /// Bounds of what is held in memory.
    pub limits: ReadLimits,
    /// The parts that the logs are in, in place of files.
    pub parts: Option<&'a PartSet>,
    /// The cache, if one is used.
    pub cache: Option<&'a Cache>,
    /// Whether line hashes are wanted: replays that look for hits and misses need them.
    pub with_line_hashes: bool,
    /// Whether [`super::Run::log_hashes`] will be asked for.
    pub with_content_hashes: bool,
    /// Which sessions and calls count; all of them if `None`.
    pub selection: Option<&'a SelectionQuery>,
    /// Which messages count, where messages are read; all of them if `None`.
    pub messages: Option<&'a MessageFilter>,
    /// Takes note of what was read.
    pub trail: Option<&'a ReadTrail>,
    /// Called with the number of bytes that were read since the last call.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

impl Default for ReadOptions<'_> {
    fn default() -> Self {
        ReadOptions {
            io: IoMode::Auto,
            limits: ReadLimits::new(32 << 20),
            parts: None,
            cache: None,
            with_line_hashes: false,
            with_content_hashes: false,
            selection: None,
            messages: None,
            trail: None,
            progress: &|_| (),
        }
    }
}

impl ReadOptions<'_> {
    /// Whether logs are hashed while they are parsed. The cache names its entries by content.
    pub(super) fn wants_content_hashes(&self) -> bool {
        self.cache.is_some() || self.with_content_hashes
    }
}

/// A log between reading it and working on its session.
pub(super) enum StoredLog {
    /// Packed; empty once it was split into the parts of its sessions.
    Packed(RwLock<Vec<u8>>),
    /// As it was parsed: a big one that belongs to one session alone, which takes it and puts it back.
    Whole(Mutex<Option<Box<Log>>>),
    /// In the log's part.
    Part(Arc<PartLog>),
    /// Not at all: its session was reported on as soon as it was read. Should another log turn out to hold records of the
    /// session, or to own records of this log, it is parsed once more.
    Reported(Mutex<Option<Box<SessionReport>>>),
}

impl StoredLog {
    /// Lets go of the packed log, of which every session has its part by now.
    pub(super) fn release(&self) {
        if let StoredLog::Packed(packed) = self
            && let Ok(mut packed) = packed.write()
        {
            *packed = Vec::new();
        }
    }

    /// Returns the bytes of the packed log in the cache; 0 for one that is not kept.
    pub(super) fn packed_bytes(&self) -> u64 {
        match self {
            StoredLog::Packed(packed) => sealed_length(packed.read().map_or(0, |packed| packed.len()) as u64),
            StoredLog::Whole(log) => match log.lock().as_deref() {
                Ok(Some(log)) => sealed_length(pack::pack(log).len() as u64),
                _ => 0,
            },
            StoredLog::Part(part) => sealed_length(part.packed_lengths().0),
            StoredLog::Reported(_) => 0,
        }
    }

    /// Returns the bytes that line hashes of a log in a part have in the cache; 0 for a log in a file.
    pub(super) fn line_bytes(&self) -> u64 {
        match self {
            StoredLog::Part(part) => sealed_length(part.packed_lengths().1),
            _ => 0,
        }
    }
}

/// Returns the bytes of an entry of the cache whose content has this length.
pub(super) fn sealed_length(content: u64) -> u64 {
    content + SEAL_BYTES as u64
}

/// One log, read.
pub(super) struct LoadedLog {
    pub stored: StoredLog,
    /// Hash of the file, if it is known.
    pub hash: Option<ContentHash>,
    /// Whether the cache may remember what follows from the log.
    pub is_cacheable: bool,
    /// Line hashes, packed, if they were wanted.
    pub line_hashes: Option<Vec<u8>>,
    pub outline: LogOutline,
    pub counts: LogCounts,
    pub problems: Vec<Problem>,
}

/// Counts that are summed over all logs.
pub(super) struct LogCounts {
    /// Whether a compaction is recorded.
    pub is_compacted: bool,
    pub lines: u64,
    pub bytes: u64,
}

impl LogCounts {
    /// Counts of a log, or of the outline of one; its problems are added to `problems`.
    fn new(path: &str, log: &Log, problems: &mut Vec<Problem>, budget: &ReadBudget) -> LogCounts {
        problems.extend(Problem::lines(path, &log.problems));
        budget.add_kinds(log);
        let is_boundary = |(kind, _): &(u32, u64)| BOUNDARY_KINDS.contains(&log.string(*kind));
        LogCounts {
            is_compacted: log.kinds.iter().any(is_boundary),
            lines: log.lines,
            bytes: log.bytes,
        }
    }
}

/// What logs share while they are read.
pub(super) struct ReadBudget {
    /// How much is left of [`WHOLE_LOG_BUDGET`].
    whole_bytes_left: AtomicUsize,
    buffers: BufferPool,
    /// Lines by record type, over all logs: there may be very many logs, with the same few types.
    kinds: Mutex<HashMap<String, u64>>,
}

impl ReadBudget {
    /// For logs that are all packed.
    pub fn packed() -> ReadBudget {
        ReadBudget::new(0)
    }

    fn new(whole_bytes: usize) -> ReadBudget {
        ReadBudget {
            whole_bytes_left: AtomicUsize::new(whole_bytes),
            buffers: BufferPool::default(),
            kinds: Mutex::default(),
        }
    }

    /// Adds the lines of a log, by record type.
    fn add_kinds(&self, log: &Log) {
        let mut kinds = self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        for (kind, count) in &log.kinds {
            let name = log.string(*kind);
            match kinds.get_mut(name) {
                Some(sum) => *sum += count,
                None => {
                    kinds.insert(name.to_owned(), *count);
                }
            }
        }
    }
}

/// How boundaries are counted among the kinds of records, by agent.
const BOUNDARY_KINDS: [&str; 5] = [
    "system/compact_boundary",
    "compacted",
    "event_msg/context_compacted",
    "part/compaction",
    "compaction",
];

/// Reads logs on all threads; results in their order. Also returns the lines by record type.
pub(super) fn read_logs(
    logs: &[DiscoveredLog],
    known: &[Option<ContentHash>],
    reporting: Option<ReportContext<'_>>,
    options: &ReadOptions<'_>,
) -> (Vec<LoadedLog>, BTreeMap<String, u64>) {
    let budget = ReadBudget::new(WHOLE_LOG_BUDGET);
    let waits = logs.iter().any(is_remote);
    let read = |numbers: Vec<usize>, early: Option<&EarlyReporter<'_>>| match options.parts {
        Some(parts) => parallel_map(&numbers, |&at| (at, read_part(parts, at, &budget, options))),
        None if waits => map_fetched(
            &numbers,
            |at| fetched_bytes(&logs[at]),
            |at| LogDelivery::fetch(&logs[at], known[at], &budget, options),
            |at, delivery| (at, delivery.read(&budget, early, options)),
        ),
        None => parallel_map(&numbers, |&at| {
            (at, read_log(&logs[at], known[at], &budget, early, options))
        }),
    };
    // For early reports logs of sub-agents come first: they show which sessions have more than one log. The others in the
    // order in which they were last written, so that copies mostly come after what they are copied from.
    let comes_first = |at: &usize| reporting.is_some() && is_agent_log(&logs[*at]);
    let (agents, mut others) = (0..logs.len()).partition::<Vec<_>, _>(comes_first);
    let mut done = read(agents, None);
    let early = reporting.map(|reporting| {
        others.sort_by_key(|&at| logs[at].stamp.modified);
        let sessions = done.iter().flat_map(|(_, log)| log.outline.sessions.iter().cloned());
        EarlyReporter::new(reporting, sessions)
    });
    let others = read(others, early.as_ref());
    match done.is_empty() {
        // Not a second list: there may be very many logs.
        true => done = others,
        false => done.extend(others),
    }
    done.sort_unstable_by_key(|(at, _)| *at);
    let kinds = budget.kinds.into_inner().unwrap_or_else(PoisonError::into_inner);
    (
        done.into_iter().map(|(_, log)| log).collect(),
        kinds.into_iter().collect(),
    )
}

/// Whether a log is that of a sub-agent, by the name that the client gives these.
fn is_agent_log(found: &DiscoveredLog) -> bool {
    let name = found.path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b"agent-")
}

/// Reads the front of a log in a part. What is wrong with the part ends the run.
fn read_part(parts: &PartSet, at: usize, budget: &ReadBudget, options: &ReadOptions<'_>) -> LoadedLog {
    let (found, part) = (&parts.logs()[at], parts.log(at));
    (options.progress)(found.stamp.size);
    let path = found.path.display().to_string();
    let packed = part.read_packed().unwrap_or_default();
    let front = PackedOutline::read(&packed).inspect_err(|error| part.fail(error));
    let mut problems = part.problems().to_vec();
    let (counts, outline) = match &front {
        Ok(front) => (
            LogCounts::new(&path, &front.log, &mut problems, budget),
            LogOutline::new(path, &default_session(found), front),
        ),
        Err(_) => {
            let log = empty_log();
            let counts = LogCounts::new(&path, &log, &mut problems, budget);
            (counts, LogOutline::of_log(path, &default_session(found), &log))
        }
    };
    LoadedLog {
        stored: StoredLog::Part(Arc::clone(part)),
        hash: part.content(),
        is_cacheable: false,
        line_hashes: None,
        outline,
        counts,
        problems,
    }
}

/// A log on its way from another machine.
pub(super) enum LogDelivery {
    /// The cache has it.
    Cached(Box<LoadedLog>),
    /// It is to be parsed.
    Fetched(DiscoveredLog),
}

impl LogDelivery {
    /// Takes a log from the cache, or from that which machines share, or fetches it.
    pub fn fetch(
        found: &DiscoveredLog,
        known: Option<ContentHash>,
        budget: &ReadBudget,
        options: &ReadOptions<'_>,
    ) -> LogDelivery {
        let path = found.path.display().to_string();
        let cached = read_cached(found, &path, known, budget, options);
        match cached.or_else(|| read_shared(found, &path, budget, options)) {
            Some(cached) => LogDelivery::Cached(Box::new(cached)),
            None => LogDelivery::Fetched(fetch_log(found)),
        }
    }

    /// Reads it.
    pub fn read(self, budget: &ReadBudget, early: Option<&EarlyReporter<'_>>, options: &ReadOptions<'_>) -> LoadedLog {
        match self {
            LogDelivery::Cached(cached) => *cached,
            LogDelivery::Fetched(found) => read_uncached(&found, budget, early, options),
        }
    }
}

/// Reads one log: from the cache, or by parsing it.
pub(super) fn read_log(
    found: &DiscoveredLog,
    known: Option<ContentHash>,
    budget: &ReadBudget,
    early: Option<&EarlyReporter<'_>>,
    options: &ReadOptions<'_>,
) -> LoadedLog {
    let path = found.path.display().to_string();
    match read_cached(found, &path, known, budget, options) {
        Some(cached) => cached,
        None => read_uncached(found, budget, early, options),
    }
}

/// Parses one log.
fn read_uncached(
    found: &DiscoveredLog,
    budget: &ReadBudget,
    early: Option<&EarlyReporter<'_>>,
    options: &ReadOptions<'_>,
) -> LoadedLog {
    let path = found.path.display().to_string();
    let ParsedLog {
        builder,
        line_hashes,
        content: hash,
        mut problems,
        ..
    } = parse_log(found, &path, &budget.buffers, options);
    let log = builder.finish();
    let line_hashes = line_hashes.map(|hashes| hashes.pack());
    // A log that is being written would leave an entry behind at every run.
    let is_cacheable = options.cache.is_some() && hash.is_some() && problems.is_empty() && cache::is_settled(found);
    let mut outline = LogOutline::of_log(path.clone(), &default_session(found), &log);
    let counts = LogCounts::new(&path, &log, &mut problems, budget);
    let part = SessionLog {
        path,
        log,
        copied: Vec::new(),
        lines: Default::default(),
    };
    let ids = || part.log.records.iter().map(|record| record.id).collect();
    let (report, (times, ids)) = join(
        || early.and_then(|early| early.report(&part, &outline)),
        || (part.log.times(), ids()),
    );
    (outline.times, outline.ids) = (times, ids);
    let stored = match report {
        Some(report) => {
            budget.buffers.put_back(LogBuffers::from_log(part.log));
            StoredLog::Reported(Mutex::new(Some(Box::new(report))))
        }
        None => {
            let lines = line_hashes.as_deref();
            store_log(
                found,
                part.log,
                &outline,
                hash.filter(|_| is_cacheable),
                lines,
                budget,
                options,
            )
        }
    };
    LoadedLog {
        stored,
        hash,
        is_cacheable,
        line_hashes,
        outline,
        counts,
        problems,
    }
}

/// Packs a log unless it is held whole, and hands it to the cache if `content` is given.
fn store_log(
    found: &DiscoveredLog,
    log: Log,
    outline: &LogOutline,
    content: Option<ContentHash>,
    line_hashes: Option<&[u8]>,
    budget: &ReadBudget,
    options: &ReadOptions<'_>,
) -> StoredLog {
    let is_whole = log.bytes >= BIG_LOG_BYTES && reserve_whole_log(&log, outline, &budget.whole_bytes_left);
    let packed = (content.is_some() || !is_whole).then(|| pack::pack(&log));
    if let (Some(cache), Some(content), Some(packed)) = (options.cache, content, &packed) {
        let lines = line_hashes.map(|lines| (CachePart::Lines, lines));
        for (part, packed) in [(CachePart::Log, &packed[..])].into_iter().chain(lines) {
            cache.put(found, content, part, packed);
            cache.put_shared(found, content, part, packed);
        }
    }
    match packed.filter(|_| !is_whole) {
        Some(packed) => {
            budget.buffers.put_back(LogBuffers::from_log(log));
            StoredLog::Packed(RwLock::new(packed))
        }
        None => StoredLog::Whole(Mutex::new(Some(Box::new(log)))),
    }
}

/// Returns a log from the cache; `None` if any part that is wanted is missing there.
fn read_cached(
    found: &DiscoveredLog,
    path: &str,
    known: Option<ContentHash>,
    budget: &ReadBudget,
    options: &ReadOptions<'_>,
) -> Option<LoadedLog> {
    let (cache, content) = options.cache.zip(known)?;
    let line_hashes = match options.with_line_hashes {
        true => Some(cache.get(&content, found.packing, CachePart::Lines)?),
        false => None,
    };
    let packed = cache.get(&content, found.packing, CachePart::Log)?;
    load_packed(found, path, content, packed, line_hashes, budget, options)
}

/// Returns a log that another machine made an entry of, and keeps it in the cache of this one; `None` if any part that is wanted
/// is missing.
fn read_shared(found: &DiscoveredLog, path: &str, budget: &ReadBudget, options: &ReadOptions<'_>) -> Option<LoadedLog> {
    let cache = options.cache?;
    let (content, packed) = cache.get_shared(found, CachePart::Log)?;
    let line_hashes = match options.with_line_hashes {
        true => Some(
            cache
                .get_shared(found, CachePart::Lines)
                .filter(|(of, _)| *of == content)?
                .1,
        ),
        false => None,
    };
    cache.put(found, content, CachePart::Log, &packed);
    if let Some(lines) = &line_hashes {
        cache.put(found, content, CachePart::Lines, lines);
    }
    load_packed(found, path, content, packed, line_hashes, budget, options)
}

/// Returns a log from its packed form; `None` if it is none.
fn load_packed(
    found: &DiscoveredLog,
    path: &str,
    content: ContentHash,
    packed: Vec<u8>,
    line_hashes: Option<Vec<u8>>,
    budget: &ReadBudget,
    options: &ReadOptions<'_>,
) -> Option<LoadedLog> {
    let front = PackedOutline::read(&packed).ok()?;
    let mut problems = Vec::new();
    let counts = LogCounts::new(path, &front.log, &mut problems, budget);
    let outline = LogOutline::new(path.to_owned(), &default_session(found), &front);
    drop(front);
    (options.progress)(found.stamp.size);
    Some(LoadedLog {
        stored: StoredLog::Packed(RwLock::new(packed)),
        hash: Some(content),
        is_cacheable: true,
        line_hashes,
        outline,
        counts,
        problems,
    })
}

/// Returns the name of a log, the session of records that name none.
pub(super) fn default_session(found: &DiscoveredLog) -> String {
    let name = found.path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".json").next().unwrap_or(&name).to_owned()
}

/// Assigns records that name no session to the one that the log is named after.
pub(super) fn set_default_session(log: &mut Log, session: &str) {
    if log.scopes.iter().any(|scope| scope.session == 0) {
        log.strings.push(session.into());
        let name = log.strings.len() as u32 - 1;
        for scope in log.scopes.iter_mut().filter(|scope| scope.session == 0) {
            scope.session = name;
        }
        let titles = log.titles.iter_mut().map(|title| &mut title.session);
        let pulls = log.pulls.iter_mut().map(|link| &mut link.session);
        for session in titles.chain(pulls).filter(|session| **session == 0) {
            *session = name;
        }
    }
}

/// Whether a log belongs to one session, which its records name.
pub(super) fn is_of_one_session(log: &Log, outline: &LogOutline) -> bool {
    outline.sessions.len() == 1 && log.scopes.iter().all(|scope| scope.session != 0)
}

/// Reserves room for a log that belongs to one session. Returns whether there was any.
fn reserve_whole_log(log: &Log, outline: &LogOutline, room: &AtomicUsize) -> bool {
    let size = size_of_val(&*log.records) + size_of_val(&*log.responses) + size_of_val(&*log.blocks);
    let take = |left: usize| left.checked_sub(size);
    is_of_one_session(log, outline) && room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
}

/// Returns the kind of problem of a log that cannot be read to its end.
fn read_error_kind(packing: Compression, error: &io::Error) -> ProblemKind {
    match (SourceFault::of(error), packing) {
        (Some(SourceFault::Changed), _) => ProblemKind::Changed,
        (Some(SourceFault::Undelivered(_)), _) => ProblemKind::NotDelivered,
        (Some(SourceFault::Refused(_)), _) | (None, Compression::Plain) => ProblemKind::Unreadable,
        (None, Compression::Gzip | Compression::Zstd) => ProblemKind::BrokenStream,
    }
}

/// Returns the problem of a log that cannot be read to its end.
pub(super) fn read_problem(path: &str, packing: Compression, error: &io::Error) -> Problem {
    Problem::file(path, read_error_kind(packing, error), error.to_string())
}
