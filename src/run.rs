//! The parallel driver: what is done side by side, and in which order things come together.
//!
//! Three steps. Logs are read side by side (a big one in parts) into their packed form, from the cache where it knows
//! them. The plan says which logs make up which session and who owns what. Then sessions are worked on side by side.
//! Results come back in a fixed order, so output never depends on the number of threads.

pub mod cache;
mod parsing;

use self::parsing::{BufferPool, ParsedLog, parse_log};
use crate::run::cache::{Cache, CachePart, ContentHash};
use crate::usage::session::{
    RecordTotals, ReportOptions, SessionReport, SizedStretch, ThreadTotals, split_into_stretches,
};
use crate::usage::summary::{LogFacts, UsageSummary};
use replay::tokens::ratios::RatioTable;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};
use transcript::build::LogBuffers;
use transcript::bytes::{Compression, IoMode, LineConsumer, LogFile as OpenLog, ReadLimits};
use transcript::corpus::{CorpusPlan, LogOrder, LogOutline, SessionPlan};
use transcript::discover::DiscoveredLog;
use transcript::evidence::LineHashes;
use transcript::ids::SHARDS;
use transcript::log::{Log, RecordId};
use transcript::messages::{Message, MessageReader, PartSelection as WantedParts};
use transcript::pack;
use transcript::pack::PackedOutline;
use transcript::parallel;
use transcript::parallel::{join, parallel_map};
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::{Session, SessionLog, thread};

/// Logs from this size on are held as they are while there is room.
const BIG_LOG_BYTES: u64 = 16 << 20;

/// How boundaries are counted among the kinds of records.
const BOUNDARY_KIND: &str = "system/compact_boundary";

/// Sessions per thread that are worked on before their results are handed on.
const STREAM_BATCH: usize = 32;

/// Part of the name of everything that is kept of a report. Changes with what a report holds *and* with how it comes about.
const REPORT_MARK: &[u8] = b"report 5";

/// How logs are read.
pub struct ReadOptions<'a> {
    /// Mapping or reading.
    pub io: IoMode,
    /// Bounds.
    pub limits: ReadLimits,
    /// The cache, if one is used.
    pub cache: Option<&'a Cache>,
    /// Whether line hashes are wanted.
    pub with_line_hashes: bool,
    /// Told about bytes as they are taken.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// All logs of a run, packed, and how they fall into sessions.
pub struct Corpus {
    found: Vec<DiscoveredLog>,
    io: IoMode,
    limits: ReadLimits,
    stored: Vec<StoredLog>,
    outlines: Vec<LogOutline>,
    plan: CorpusPlan,
    /// Hashes of the logs' contents, of those that the cache may remember.
    contents: Vec<Option<ContentHash>>,
    /// Line hashes of each log, packed, if they were wanted.
    packed_line_hashes: Vec<Vec<u8>>,
    /// Which logs hold a compaction.
    compacted: Vec<bool>,
    /// Numbers of the logs by their paths, once they are asked for.
    by_path: OnceLock<HashMap<String, usize>>,
    /// Lines by record type, over all logs.
    pub kinds: BTreeMap<String, u64>,
    /// Lines of all logs.
    pub lines: u64,
    /// Bytes of all logs, unpacked.
    pub bytes: u64,
    /// Problems with files and lines.
    pub problems: Vec<Problem>,
}

/// A log between the steps of a run.
enum StoredLog {
    /// Packed.
    Packed(Vec<u8>),
    /// As it was parsed: a big one that belongs to one session alone, which takes it and puts it back.
    Whole(Mutex<Option<Box<Log>>>),
    /// Not at all: its session was reported on as soon as it was read. Should another log turn out to hold records of the
    /// session, or to own records of this log, it is parsed once more.
    Reported(Mutex<Option<Box<SessionReport>>>),
}

/// What reports on sessions need, for logs that are reported on as soon as they are read.
#[derive(Clone, Copy)]
struct ReportContext<'r> {
    table: &'r RatioTable,
    wanted: &'r ReportOptions,
}

/// How much of parsed logs is held as it is. Packing a big log and unpacking it again is work that nothing else runs beside.
const WHOLE_LOG_BUDGET: usize = 32 << 20;

impl Corpus {
    /// Reads all logs.
    pub fn read(logs: &[DiscoveredLog], options: &ReadOptions<'_>) -> Corpus {
        Corpus::read_with_hashes(logs, &known_contents(logs, options), None, options)
    }

    /// Reads all logs, of which some may have contents that the cache knows.
    fn read_with_hashes(
        logs: &[DiscoveredLog],
        known: &[Option<ContentHash>],
        reporting: Option<ReportContext<'_>>,
        options: &ReadOptions<'_>,
    ) -> Corpus {
        let read = read_logs(logs, known, reporting, options);
        let mut corpus = Corpus {
            found: logs.to_vec(),
            io: options.io,
            limits: options.limits,
            stored: Vec::with_capacity(read.len()),
            outlines: Vec::with_capacity(read.len()),
            contents: Vec::with_capacity(read.len()),
            packed_line_hashes: Vec::new(),
            compacted: Vec::with_capacity(read.len()),
            by_path: OnceLock::new(),
            plan: CorpusPlan::default(),
            kinds: BTreeMap::new(),
            lines: 0,
            bytes: 0,
            problems: Vec::new(),
        };
        // Each log has a dozen or two of the same few kinds: found by hash, sorted once.
        let mut kinds = HashMap::new();
        for one in read {
            corpus.problems.extend(one.problems);
            corpus.lines += one.lines;
            corpus.bytes += one.bytes;
            corpus
                .compacted
                .push(one.kinds.iter().any(|(kind, _)| kind == BOUNDARY_KIND));
            for (kind, count) in one.kinds {
                *kinds.entry(kind).or_insert(0) += count;
            }
            corpus.stored.push(one.stored);
            corpus.contents.push(one.content);
            corpus.packed_line_hashes.extend(one.evidence);
            corpus.outlines.push(one.outline);
        }
        corpus.kinds = kinds.into_iter().collect();
        let order = LogOrder::new(&corpus.outlines);
        let shards = (0..SHARDS).collect::<Vec<_>>();
        let copies = parallel_map(&shards, |&shard| order.find_copies(&corpus.outlines, shard));
        corpus.plan = order.make_plan(&corpus.outlines, copies.into_iter().flatten());
        // Only the plan needed the ids.
        for outline in &mut corpus.outlines {
            outline.ids = Vec::new();
        }
        corpus
    }

    /// Bytes of the trace: the packed logs, and their line hashes if they were wanted.
    pub fn trace_bytes(&self) -> (u64, Option<u64>) {
        let size = |stored: &StoredLog| match stored {
            StoredLog::Packed(packed) => packed.len() as u64,
            StoredLog::Whole(log) => match log.lock().as_deref() {
                Ok(Some(log)) => pack::pack(log).len() as u64,
                _ => 0,
            },
            StoredLog::Reported(_) => 0,
        };
        let lines = self.packed_line_hashes.iter().map(|lines| lines.len() as u64).sum();
        let has_lines = !self.packed_line_hashes.is_empty();
        (self.stored.iter().map(size).sum(), has_lines.then_some(lines))
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.plan.sessions.len()
    }

    /// All sessions together.
    pub fn summary(&self, table: &RatioTable, wanted: &ReportOptions, cache: Option<&Cache>) -> UsageSummary {
        let (sessions, defects) = self.reports(table, wanted, cache);
        let facts = LogFacts {
            kinds: self.kinds.clone(),
            lines: self.lines,
            bytes: self.bytes,
        };
        let problems = self.problems.iter().cloned().chain(defects).collect();
        UsageSummary::new(facts, sessions, problems, wanted.filter)
    }

    /// Reports on every session, from the cache where it knows them.
    pub fn reports(
        &self,
        table: &RatioTable,
        wanted: &ReportOptions,
        cache: Option<&Cache>,
    ) -> (Vec<SessionReport>, Vec<Problem>) {
        let cache = cache.filter(|_| wanted.is_cacheable());
        self.map_all_plans(|session, parts| {
            if let Some(early) = self.early_report(session) {
                return early;
            }
            let known = cache.and_then(|cache| Some((cache, self.report_key(session)?)));
            let Some((cache, key)) = known else {
                return report(&session.id, &parts(), table, wanted);
            };
            if let Some(bytes) = cache.get_report(&session.id, &key)
                && let Ok(mut report) = postcard::from_bytes::<SessionReport>(&bytes)
            {
                // Logs may have moved since, so the problems of a kept report name them by number.
                self.rename_logs(session, &mut report, |paths, number| {
                    Some((*paths.get(number.parse::<usize>().ok()?)?).to_owned())
                });
                return report;
            }
            let fresh = report(&session.id, &parts(), table, wanted);
            let mut kept = fresh.clone();
            self.rename_logs(session, &mut kept, |paths, path| {
                Some(paths.iter().position(|known| *known == path)?.to_string())
            });
            if let Ok(bytes) = postcard::to_allocvec(&kept) {
                cache.put_report(&session.id, &key, bytes);
            }
            fresh
        })
    }

    /// The report that was made as soon as a log was read, if the plan says that the log is all there is to its session.
    fn early_report(&self, session: &SessionPlan) -> Option<SessionReport> {
        let [log] = *session.logs else { return None };
        let StoredLog::Reported(report) = &self.stored[log] else {
            return None;
        };
        let is_own = self.plan.copied[log].is_empty();
        let report = report.lock().ok()?.take();
        report.filter(|_| is_own).map(|report| *report)
    }

    /// What a report depends on, if it depends on nothing but contents that the cache may remember.
    fn report_key(&self, session: &SessionPlan) -> Option<ContentHash> {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(REPORT_MARK)
            .update(RatioTable::built_in_text().as_bytes())
            .update(&(self.limits.max_line as u64).to_le_bytes())
            .update(session.id.as_bytes());
        for &log in &session.logs {
            let is_own = self.plan.copied[log].is_empty();
            hasher
                .update(&self.contents[log].filter(|_| is_own)?)
                .update(&[self.found[log].packing as u8]);
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Renames the logs in the problems of a report.
    fn rename_logs(
        &self,
        session: &SessionPlan,
        report: &mut SessionReport,
        name: impl Fn(&[&str], &str) -> Option<String>,
    ) {
        if report.problems.is_empty() {
            return;
        }
        let paths = session
            .logs
            .iter()
            .map(|&log| self.outlines[log].path.as_str())
            .collect::<Vec<_>>();
        for problem in &mut report.problems {
            problem.path = name(&paths, &problem.path).unwrap_or_default();
        }
    }

    /// Works on every session; results in the order of the plan. A session on which the work panics is a problem with
    /// its name, not the end of the run.
    pub fn map_sessions<R: Send>(&self, work: impl Fn(&str, &[SessionLog]) -> R + Sync) -> (Vec<R>, Vec<Problem>) {
        self.map_all_plans(|session, parts| work(&session.id, &parts()))
    }

    /// Works on every session that has a compaction.
    pub fn map_compacted<R: Send>(&self, work: impl Fn(&str, &[SessionLog]) -> R + Sync) -> Vec<R> {
        let is_compacted = |session: &SessionPlan| session.logs.iter().any(|log| self.compacted[*log]);
        let (found, _) = self.map_plans(&self.plan.sessions, |session, parts| {
            is_compacted(session).then(|| work(&session.id, &parts()))
        });
        found.into_iter().flatten().collect()
    }

    /// Works on every session and hands the results on in the order of the plan, a few sessions at a time, so that what the
    /// sessions give need not be held all at once.
    pub fn stream_sessions<R: Send>(
        &self,
        work: impl Fn(&str, &[SessionLog]) -> R + Sync,
        mut take: impl FnMut(R) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for sessions in self.plan.sessions.chunks(STREAM_BATCH * parallel::thread_count()) {
            let (results, defects) = self.map_plans(sessions, |session, parts| work(&session.id, &parts()));
            problems.extend(defects);
            for result in results {
                take(result)?;
            }
        }
        Ok(problems)
    }

    /// Messages of some lines of a log, by number and ascending: the words that the small form does not hold.
    pub fn messages(&self, path: &str, lines: Vec<u64>, wanted: WantedParts) -> (Vec<Message>, Option<Problem>) {
        let by_path = self.by_path.get_or_init(|| {
            let paths = self.outlines.iter().map(|outline| outline.path.clone());
            paths.zip(0..).collect()
        });
        let Some(found) = by_path.get(path).map(|at: &usize| &self.found[*at]) else {
            return (Vec::new(), None);
        };
        let mut reader = MessageReader::new(wanted, self.limits.max_line, &|_| ()).with_only_lines(lines);
        let done = OpenLog::open(&found.path, found.packing, self.io)
            .and_then(|open| open.read(&found.path, 0..u64::MAX, self.limits, &mut reader));
        // What is wrong with a line was reported when the log was read the first time.
        let problem = done
            .err()
            .map(|error| Problem::file(path, read_error_kind(found.packing), error.to_string()));
        (reader.messages, problem)
    }

    /// Hash of each log's content, in the order of the logs; `None` for one that could not be read.
    pub fn hash_logs(&self) -> Vec<(String, u64, Option<ContentHash>)> {
        let logs = std::iter::zip(&self.found, &self.contents).collect::<Vec<_>>();
        parallel_map(&logs, |(found, known)| {
            let hash = known.or_else(|| cache::hash_file(&found.path, found.stamp.size).ok());
            (found.path.display().to_string(), found.stamp.size, hash)
        })
    }

    fn map_all_plans<'c, R: Send>(
        &'c self,
        work: impl Fn(&SessionPlan, &dyn Fn() -> SessionLogsGuard<'c>) -> R + Sync,
    ) -> (Vec<R>, Vec<Problem>) {
        self.map_plans(&self.plan.sessions, work)
    }

    fn map_plans<'c, R: Send>(
        &'c self,
        sessions: &'c [SessionPlan],
        work: impl Fn(&SessionPlan, &dyn Fn() -> SessionLogsGuard<'c>) -> R + Sync,
    ) -> (Vec<R>, Vec<Problem>) {
        let done = parallel_map(sessions, |session| {
            let attempt = || work(session, &|| SessionLogsGuard::take(self, &session.logs));
            catch_unwind(AssertUnwindSafe(attempt)).map_err(|_| {
                let path = &self.outlines[session.logs[0]].path;
                Problem::file(path, ProblemKind::Internal, format!("session {}", session.id))
            })
        });
        let (mut results, mut problems) = (Vec::new(), Vec::new());
        for one in done {
            match one {
                Ok(result) => results.push(result),
                Err(problem) => problems.push(problem),
            }
        }
        (results, problems)
    }

    fn session_log(&self, at: usize) -> SessionLog {
        let outline = &self.outlines[at];
        // A cache entry may have the right checksum and still be wrong if somebody took the trouble. Then the log is
        // parsed after all.
        let known = match &self.stored[at] {
            StoredLog::Packed(packed) => pack::unpack(packed).ok(),
            StoredLog::Whole(log) => log.lock().ok().and_then(|mut log| log.take()).map(|log| *log),
            StoredLog::Reported(_) => None,
        };
        let mut log = known.unwrap_or_else(|| {
            let options = ReadOptions {
                io: self.io,
                limits: self.limits,
                cache: None,
                with_line_hashes: false,
                progress: &|_| (),
            };
            parse_log(&self.found[at], &outline.path, &BufferPool::default(), &options)
                .builder
                .finish()
        });
        set_default_session(&mut log, &outline.default_session);
        SessionLog {
            path: outline.path.clone(),
            log,
            copied: self.plan.copied[at].clone(),
            lines: self
                .packed_line_hashes
                .get(at)
                .and_then(|lines| LineHashes::unpack(lines).ok())
                .unwrap_or_default(),
        }
    }
}

/// The logs of a session while it is worked on.
struct SessionLogsGuard<'c> {
    corpus: &'c Corpus,
    logs: &'c [usize],
    parts: Vec<SessionLog>,
}

impl<'c> SessionLogsGuard<'c> {
    fn take(corpus: &'c Corpus, logs: &'c [usize]) -> SessionLogsGuard<'c> {
        let parts = logs.iter().map(|&log| corpus.session_log(log)).collect();
        SessionLogsGuard { corpus, logs, parts }
    }
}

impl std::ops::Deref for SessionLogsGuard<'_> {
    type Target = [SessionLog];

    fn deref(&self) -> &[SessionLog] {
        &self.parts
    }
}

impl Drop for SessionLogsGuard<'_> {
    /// Logs that are held whole go back to where they were, also after a panic.
    fn drop(&mut self) {
        for (&at, part) in std::iter::zip(self.logs, self.parts.drain(..)) {
            if let StoredLog::Whole(place) = &self.corpus.stored[at]
                && let Ok(mut place) = place.lock()
            {
                *place = Some(Box::new(part.log));
            }
        }
    }
}

/// Hashes of the logs' contents, of those that the cache may know.
fn known_contents(logs: &[DiscoveredLog], options: &ReadOptions<'_>) -> Vec<Option<ContentHash>> {
    let known = |found: &DiscoveredLog| options.cache.and_then(|cache| cache.content_hash(found));
    parallel_map(logs, known)
}

/// All sessions of the logs together, from the cache if it knows what these logs came to; and the bytes of the trace, if
/// line hashes were wanted.
pub fn summarise(
    logs: &[DiscoveredLog],
    options: &ReadOptions<'_>,
    table: &RatioTable,
    wanted: &ReportOptions,
) -> (UsageSummary, (u64, Option<u64>)) {
    let cache = options
        .cache
        .filter(|_| wanted.is_cacheable() && !options.with_line_hashes);
    let known = known_contents(logs, options);
    if let Some(cache) = cache
        && let Some(key) = summary_key(logs, &known, options)
        && let Some(summary) = cache.get_summary(logs, &key, UsageSummary::from_bytes)
    {
        (options.progress)(logs.iter().map(|log| log.stamp.size).sum());
        return (summary, (0, None));
    }
    // What the cache is to remember is packed anyway, and line hashes are asked for together with the size of what is packed.
    let is_early = options.cache.is_none() && !options.with_line_hashes;
    let reporting = is_early.then_some(ReportContext { table, wanted });
    let corpus = Corpus::read_with_hashes(logs, &known, reporting, options);
    let trace_bytes = if options.with_line_hashes {
        corpus.trace_bytes()
    } else {
        (0, None)
    };
    let (sessions, defects) = corpus.reports(table, wanted, options.cache);
    let key = cache
        .filter(|_| defects.is_empty())
        .and_then(|cache| Some((cache, summary_key(logs, &corpus.contents, options)?)));
    let facts = LogFacts {
        kinds: corpus.kinds,
        lines: corpus.lines,
        bytes: corpus.bytes,
    };
    let mut problems = corpus.problems;
    problems.extend(defects);
    // The logs are done with; there are many calls to come.
    drop(corpus.stored);
    let summary = UsageSummary::new(facts, sessions, problems, wanted.filter);
    if let Some((cache, key)) = key
        && let Some(bytes) = summary.to_bytes()
    {
        cache.put_summary(logs, &key, &bytes);
    }
    (summary, trace_bytes)
}

/// What a summary depends on, if it depends on nothing but contents that the cache may remember. Problems name paths.
fn summary_key(
    logs: &[DiscoveredLog],
    contents: &[Option<ContentHash>],
    options: &ReadOptions<'_>,
) -> Option<ContentHash> {
    let mut named = Vec::with_capacity(logs.len() * 128);
    named.extend_from_slice(REPORT_MARK);
    named.extend_from_slice(pack::MAGIC);
    named.extend_from_slice(&(options.limits.max_line as u64).to_le_bytes());
    named.extend_from_slice(blake3::hash(RatioTable::built_in_text().as_bytes()).as_bytes());
    for (log, content) in std::iter::zip(logs, contents) {
        let path = log.path.as_os_str().as_encoded_bytes();
        named.extend_from_slice(&(path.len() as u64).to_le_bytes());
        named.extend_from_slice(path);
        named.extend_from_slice(&(*content)?);
    }
    Some(*blake3::hash(&named).as_bytes())
}

/// Messages of all logs, log by log in the order given, and what was wrong with them.
pub fn read_messages(
    logs: &[DiscoveredLog],
    wanted: WantedParts,
    options: &ReadOptions<'_>,
) -> (Vec<Message>, Vec<Problem>) {
    let looking = MessageSearch {
        selection: wanted,
        filter: &|_| true,
        take: &|_, message| Some(message),
    };
    let (messages, _, problems) = search_messages(logs, &looking, options);
    (messages, problems)
}

/// What is looked for in the messages of logs.
pub struct MessageSearch<'l, T> {
    /// What is read beside the texts.
    pub selection: WantedParts,
    /// Whether a line may hold it.
    pub filter: &'l (dyn Fn(&[u8]) -> bool + Sync),
    /// Takes what it needs of a message; the number is that of the log.
    pub take: &'l (dyn Fn(usize, Message) -> Option<T> + Sync),
}

/// What was found in the messages of all logs, log by log in the order given; messages are let go as soon as they were looked
/// at, so that memory holds only what was taken. Also how many messages there were, and what was wrong with the logs.
pub fn search_messages<T: Send>(
    logs: &[DiscoveredLog],
    looking: &MessageSearch<'_, T>,
    options: &ReadOptions<'_>,
) -> (Vec<T>, u64, Vec<Problem>) {
    let numbered = logs.iter().enumerate().collect::<Vec<_>>();
    let read = parallel_map(&numbered, |&(number, found)| {
        let path = found.path.display().to_string();
        let session = default_session(found);
        let reader = MessageReader::new(looking.selection, options.limits.max_line, options.progress);
        let mut looker = MessageSearcher {
            reader: reader.with_filter(looking.filter),
            take: &|mut message: Message| {
                if message.session.is_empty() {
                    message.session.clone_from(&session);
                }
                (looking.take)(number, message)
            },
            taken: Vec::new(),
            read: 0,
        };
        let done = OpenLog::open(&found.path, found.packing, options.io)
            .and_then(|open| open.read(&found.path, 0..u64::MAX, options.limits, &mut looker));
        let troubles = looker.reader.problems.iter();
        let mut problems = troubles
            .map(|trouble| Problem::line(&path, trouble))
            .collect::<Vec<_>>();
        if let Err(error) = done {
            problems.push(Problem::file(&path, read_error_kind(found.packing), error.to_string()));
        }
        (looker.taken, looker.read + looker.reader.filtered_out, problems)
    });
    let (mut taken, mut count, mut problems) = (Vec::new(), 0, Vec::new());
    for (found, read, wrong) in read {
        taken.extend(found);
        count += read;
        problems.extend(wrong);
    }
    (taken, count, problems)
}

/// Hands on messages as they are read.
struct MessageSearcher<'l, T> {
    reader: MessageReader<'l>,
    take: &'l dyn Fn(Message) -> Option<T>,
    taken: Vec<T>,
    read: u64,
}

impl<T> LineConsumer for MessageSearcher<'_, T> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        self.reader.take_lines(bytes, offset);
        self.read += self.reader.messages.len() as u64;
        let messages = self.reader.messages.drain(..);
        self.taken.extend(messages.filter_map(|message| (self.take)(message)));
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        self.reader.skip_long_line(offset, length, head);
    }
}

/// What a log that cannot be read to its end is called.
fn read_error_kind(packing: Compression) -> ProblemKind {
    match packing {
        Compression::Plain => ProblemKind::Unreadable,
        Compression::Gzip | Compression::Zstd => ProblemKind::BrokenStream,
    }
}

/// Records that name no session belong to the one that the log is named after.
fn set_default_session(log: &mut Log, session: &str) {
    if log.scopes.iter().any(|scope| scope.session == 0) {
        log.strings.push(session.into());
        let name = log.strings.len() as u32 - 1;
        for scope in log.scopes.iter_mut().filter(|scope| scope.session == 0) {
            scope.session = name;
        }
    }
}

/// One log, read.
struct LoadedLog {
    stored: StoredLog,
    content: Option<ContentHash>,
    evidence: Option<Vec<u8>>,
    outline: LogOutline,
    kinds: Vec<(String, u64)>,
    lines: u64,
    bytes: u64,
    problems: Vec<Problem>,
}

/// Reports on one session, the two halves of it side by side.
fn report(id: &str, parts: &[SessionLog], table: &RatioTable, wanted: &ReportOptions) -> SessionReport {
    let session = Session::new(id, parts);
    let (followed, told) = join(
        || total_threads(&session, table, wanted),
        || RecordTotals::new(&session, wanted),
    );
    told.join(followed)
}

/// Threads a session, then sizes it, a long one in stretches side by side: several for each thread, because one of them may
/// still be at work on the other half of the report.
fn total_threads(session: &Session<'_>, table: &RatioTable, wanted: &ReportOptions) -> ThreadTotals {
    let threaded = thread(session);
    let stretches = match parallel::thread_count() {
        1 => split_into_stretches(&threaded, 1),
        threads => split_into_stretches(&threaded, 2 * threads),
    };
    let book = |stretch| SizedStretch::new(session, stretch, table, wanted);
    // Sessions are many and mostly short: for one of few stretches nobody is called.
    let booked = if stretches.len() > threaded.chains.len() {
        parallel_map(&stretches, book)
    } else {
        stretches.iter().map(book).collect()
    };
    ThreadTotals::from_stretches(session, threaded, booked, table, wanted)
}

/// Memory that logs share while they are read.
struct ReadBudget {
    /// How much is left of [`WHOLE`].
    whole_bytes_left: AtomicUsize,
    buffers: BufferPool,
}

/// Reads logs side by side; results in their order.
fn read_logs(
    logs: &[DiscoveredLog],
    known: &[Option<ContentHash>],
    reporting: Option<ReportContext<'_>>,
    options: &ReadOptions<'_>,
) -> Vec<LoadedLog> {
    let memory = ReadBudget {
        whole_bytes_left: AtomicUsize::new(WHOLE_LOG_BUDGET),
        buffers: BufferPool::default(),
    };
    let read = |numbers: Vec<usize>, early: Option<&EarlyReporter<'_>>| {
        parallel_map(&numbers, |&at| {
            (at, read_log(&logs[at], known[at], &memory, early, options))
        })
    };
    // For early reports logs of sub-agents come first: they tell which sessions have more than one log. The others in the
    // order in which they were last written, so that copies mostly come after what they are copied from.
    let comes_first = |at: &usize| reporting.is_some() && is_agent_log(&logs[*at]);
    let (agents, mut others) = (0..logs.len()).partition::<Vec<_>, _>(comes_first);
    let mut done = read(agents, None);
    let early = reporting.map(|reporting| {
        others.sort_by_key(|&at| logs[at].stamp.modified);
        let sessions = done.iter().flat_map(|(_, log)| log.outline.sessions.iter().cloned());
        EarlyReporter {
            reporting,
            shared: sessions.collect(),
            starts: Mutex::default(),
        }
    });
    done.extend(read(others, early.as_ref()));
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, log)| log).collect()
}

/// Whether a log is that of a sub-agent, by the name that the client gives these.
fn is_agent_log(found: &DiscoveredLog) -> bool {
    let name = found.path.file_name().unwrap_or_default();
    name.as_encoded_bytes().starts_with(b"agent-")
}

/// Reports on logs that are likely to be all there is to their session.
struct EarlyReporter<'r> {
    reporting: ReportContext<'r>,
    /// Sessions with logs of sub-agents.
    shared: HashSet<String>,
    /// Ids that logs start with. One that starts like another is a copy of it, or the other way round.
    starts: Mutex<HashSet<RecordId>>,
}

impl EarlyReporter<'_> {
    fn report(&self, part: &SessionLog, outline: &LogOutline) -> Option<SessionReport> {
        if !is_of_one_session(&part.log, outline) || self.shared.contains(&outline.sessions[0]) {
            return None;
        }
        let start = part
            .log
            .records
            .iter()
            .map(|record| record.id)
            .find(|id| *id != RecordId::default());
        let is_new = |start: RecordId| self.starts.lock().is_ok_and(|mut starts| starts.insert(start));
        if !start.is_none_or(is_new) {
            return None;
        }
        let parts = std::slice::from_ref(part);
        let ReportContext { table, wanted } = self.reporting;
        let attempt = || report(&outline.sessions[0], parts, table, wanted);
        // What panics is tried again with all other sessions, and named there.
        catch_unwind(AssertUnwindSafe(attempt)).ok()
    }
}

fn read_log(
    found: &DiscoveredLog,
    known: Option<ContentHash>,
    memory: &ReadBudget,
    early: Option<&EarlyReporter<'_>>,
    options: &ReadOptions<'_>,
) -> LoadedLog {
    let path = found.path.display().to_string();
    if let Some(read) = read_cached(found, &path, known, options) {
        (options.progress)(found.stamp.size);
        return read;
    }
    let hash = || cache::hash_file(&found.path, found.stamp.size).ok();
    let (parsed, content) = match options.cache {
        None => (parse_log(found, &path, &memory.buffers, options), None),
        Some(_) => join(|| parse_log(found, &path, &memory.buffers, options), hash),
    };
    let ParsedLog {
        builder: whole,
        line_hashes: evidence,
        mut problems,
    } = parsed;
    let log = whole.finish();
    let evidence = evidence.map(|evidence| evidence.pack());
    // A log that is being written would leave an entry behind at every run.
    let content = content.filter(|_| problems.is_empty() && cache::is_settled(found));
    let mut outline = LogOutline::of_log(path.clone(), default_session(found), &log);
    let facts = LogCounts::new(&path, &log, &mut problems);
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
    if let Some(report) = report {
        let stored = StoredLog::Reported(Mutex::new(Some(Box::new(report))));
        memory.buffers.put_back(LogBuffers::from_log(part.log));
        return facts.into_loaded_log(stored, None, None, outline, problems);
    }
    let log = part.log;
    let is_whole = log.bytes >= BIG_LOG_BYTES && reserve_whole_log(&log, &outline, &memory.whole_bytes_left);
    let packed = (content.is_some() || !is_whole).then(|| pack::pack(&log));
    if let (Some(cache), Some(content), Some(packed)) = (options.cache, content, &packed) {
        cache.put(found, content, CachePart::Log, packed);
        if let Some(lines) = &evidence {
            cache.put(found, content, CachePart::Lines, lines);
        }
    }
    let stored = match packed.filter(|_| !is_whole) {
        Some(packed) => {
            memory.buffers.put_back(LogBuffers::from_log(log));
            StoredLog::Packed(packed)
        }
        None => StoredLog::Whole(Mutex::new(Some(Box::new(log)))),
    };
    facts.into_loaded_log(stored, content, evidence, outline, problems)
}

/// A log from the cache, if it is there.
fn read_cached(
    found: &DiscoveredLog,
    path: &str,
    known: Option<ContentHash>,
    options: &ReadOptions<'_>,
) -> Option<LoadedLog> {
    let (cache, content) = options.cache.zip(known)?;
    let evidence = match options.with_line_hashes {
        true => Some(cache.get(&content, found.packing, CachePart::Lines)?),
        false => None,
    };
    let packed = cache.get(&content, found.packing, CachePart::Log)?;
    let front = PackedOutline::read(&packed).ok()?;
    let mut problems = Vec::new();
    let facts = LogCounts::new(path, &front.log, &mut problems);
    let outline = LogOutline::new(path.to_owned(), default_session(found), &front);
    drop(front);
    Some(facts.into_loaded_log(StoredLog::Packed(packed), Some(content), evidence, outline, problems))
}

/// Session of records that name none: a log's own name.
fn default_session(found: &DiscoveredLog) -> String {
    let name = found.path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".jsonl").next().unwrap_or(&name).to_owned()
}

/// Whether a log belongs to one session, which its records name.
fn is_of_one_session(log: &Log, outline: &LogOutline) -> bool {
    outline.sessions.len() == 1 && log.scopes.iter().all(|scope| scope.session != 0)
}

/// Whether a log may be held whole. It has to belong to one session and needs room.
fn reserve_whole_log(log: &Log, outline: &LogOutline, room: &AtomicUsize) -> bool {
    let size = size_of_val(&*log.records) + size_of_val(&*log.responses) + size_of_val(&*log.blocks);
    let take = |left: usize| left.checked_sub(size);
    is_of_one_session(log, outline) && room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
}

/// What is summed over all logs.
struct LogCounts {
    kinds: Vec<(String, u64)>,
    lines: u64,
    bytes: u64,
}

impl LogCounts {
    /// Of a log, or of the front of one; its problems go to the others.
    fn new(path: &str, log: &Log, problems: &mut Vec<Problem>) -> LogCounts {
        problems.extend(log.problems.iter().map(|trouble| Problem::line(path, trouble)));
        let name = |(kind, count): &(u32, u64)| (log.string(*kind).to_owned(), *count);
        LogCounts {
            kinds: log.kinds.iter().map(name).collect(),
            lines: log.lines,
            bytes: log.bytes,
        }
    }

    fn into_loaded_log(
        self,
        stored: StoredLog,
        content: Option<ContentHash>,
        evidence: Option<Vec<u8>>,
        outline: LogOutline,
        problems: Vec<Problem>,
    ) -> LoadedLog {
        LoadedLog {
            stored,
            content,
            evidence,
            outline,
            kinds: self.kinds,
            lines: self.lines,
            bytes: self.bytes,
            problems,
        }
    }
}
