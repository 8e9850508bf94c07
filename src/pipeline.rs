//! The parallel driver: the only place that knows about threads.
//!
//! Three steps. Logs are read side by side (a big one in parts) into their packed form, from the cache where it knows
//! them. The plan says which logs make up which session and who owns what. Then sessions are worked on side by side.
//! Results come back in a fixed order, so output never depends on the number of threads.

use crate::cache::{self, Cache, ContentHash, PartKind};
use crate::input::bytes::{Io, Limits, Log as OpenLog, Packing};
use crate::input::discover::Found;
use crate::input::messages::{Message, Reader, Wanted as WantedParts};
use crate::input::walk::Walker;
use crate::metrics::report::{SessionReport, Wanted, report};
use crate::problem::{Kind, Problem};
use crate::session::build::Builder;
use crate::session::corpus::{LogOutline, Plan, SessionPlan, plan};
use crate::session::evidence::Evidence;
use crate::session::log::Log;
use crate::session::pack::{self, Outline};
use crate::session::thread::Part;
use crate::tokens::ratios::RatioTable;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A part of a big file that one thread reads at a time.
const PART: u64 = 8 << 20;

/// How boundaries are counted among the kinds of records.
const BOUNDARY_KIND: &str = "system/compact_boundary";

/// Sessions per thread that are worked on before their results are handed on.
const STREAMED: usize = 32;

/// How logs are read.
pub struct Options<'a> {
    /// Mapping or reading.
    pub io: Io,
    /// Bounds.
    pub limits: Limits,
    /// The cache, if one is used.
    pub cache: Option<&'a Cache>,
    /// Whether line hashes are wanted.
    pub with_lines: bool,
    /// Told about bytes as they are taken.
    pub progress: &'a (dyn Fn(u64) + Sync),
}

/// All logs of a run, packed, and how they fall into sessions.
pub struct Corpus {
    found: Vec<Found>,
    io: Io,
    limits: Limits,
    packed: Vec<Vec<u8>>,
    outlines: Vec<LogOutline>,
    plan: Plan,
    /// Hashes of the logs' contents, of those that the cache may remember.
    contents: Vec<Option<ContentHash>>,
    /// Line hashes of each log, packed, if they were wanted.
    lines_of: Vec<Vec<u8>>,
    /// Which logs hold a compaction.
    compacted: Vec<bool>,
    /// Lines by record type, over all logs.
    pub kinds: BTreeMap<String, u64>,
    /// Lines of all logs.
    pub lines: u64,
    /// Bytes of all logs, unpacked.
    pub bytes: u64,
    /// Problems with files and lines.
    pub problems: Vec<Problem>,
}

/// Runs `work` on a pool of `threads` (all cores if `None`).
pub fn with_threads<R: Send>(threads: Option<usize>, work: impl FnOnce() -> R + Send) -> anyhow::Result<R> {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads.unwrap_or(0))
        .build()?;
    Ok(pool.install(work))
}

impl Corpus {
    /// Reads all logs.
    pub fn read(logs: &[Found], options: &Options<'_>) -> Corpus {
        let read = logs
            .par_iter()
            .map(|found| read_log(found, options))
            .collect::<Vec<_>>();
        let mut corpus = Corpus {
            found: logs.to_vec(),
            io: options.io,
            limits: options.limits,
            packed: Vec::with_capacity(read.len()),
            outlines: Vec::with_capacity(read.len()),
            contents: Vec::with_capacity(read.len()),
            lines_of: Vec::new(),
            compacted: Vec::with_capacity(read.len()),
            plan: Plan::default(),
            kinds: BTreeMap::new(),
            lines: 0,
            bytes: 0,
            problems: Vec::new(),
        };
        for one in read {
            corpus.problems.extend(one.problems);
            corpus.lines += one.lines;
            corpus.bytes += one.bytes;
            corpus
                .compacted
                .push(one.kinds.iter().any(|(kind, _)| kind == BOUNDARY_KIND));
            for (kind, count) in one.kinds {
                *corpus.kinds.entry(kind).or_insert(0) += count;
            }
            corpus.packed.push(one.packed);
            corpus.contents.push(one.content);
            corpus.lines_of.extend(one.evidence);
            corpus.outlines.push(one.outline);
        }
        corpus.plan = plan(&corpus.outlines);
        // Only the plan needed the ids.
        for outline in &mut corpus.outlines {
            outline.ids = Vec::new();
        }
        corpus
    }

    /// Bytes of the trace: the packed logs, and their line hashes if they were wanted.
    pub fn trace_bytes(&self) -> (u64, Option<u64>) {
        let sum = |parts: &[Vec<u8>]| parts.iter().map(|part| part.len() as u64).sum();
        let lines = (!self.lines_of.is_empty()).then(|| sum(&self.lines_of));
        (sum(&self.packed), lines)
    }

    /// Reports on every session, from the cache where it knows them.
    pub fn reports(
        &self,
        table: &RatioTable,
        wanted: &Wanted,
        cache: Option<&Cache>,
    ) -> (Vec<SessionReport>, Vec<Problem>) {
        let cache = cache.filter(|_| wanted.is_plain());
        self.each_session(|session, parts| {
            let known = cache.and_then(|cache| Some((cache, self.report_key(session)?)));
            let Some((cache, key)) = known else {
                return report(&session.id, &parts(), table, wanted);
            };
            if let Some(bytes) = cache.report(&session.id, &key)
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
                cache.keep_report(&session.id, &key, bytes);
            }
            fresh
        })
    }

    /// What a report depends on, if it depends on nothing but contents that the cache may remember.
    fn report_key(&self, session: &SessionPlan) -> Option<ContentHash> {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(RatioTable::built_in_text().as_bytes())
            .update(session.id.as_bytes());
        for &log in &session.logs {
            let is_own = self.plan.copied[log].is_empty();
            hasher.update(&self.contents[log].filter(|_| is_own)?);
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
    pub fn map_sessions<R: Send>(&self, work: impl Fn(&str, &[Part]) -> R + Sync) -> (Vec<R>, Vec<Problem>) {
        self.each_session(|session, parts| work(&session.id, &parts()))
    }

    /// Works on every session that has a compaction.
    pub fn map_compacted<R: Send>(&self, work: impl Fn(&str, &[Part]) -> R + Sync) -> Vec<R> {
        let is_compacted = |session: &&SessionPlan| session.logs.iter().any(|log| self.compacted[*log]);
        let sessions = self
            .plan
            .sessions
            .iter()
            .filter(is_compacted)
            .cloned()
            .collect::<Vec<_>>();
        self.each_of(&sessions, |session, parts| work(&session.id, &parts())).0
    }

    /// Works on every session and hands the results on in the order of the plan, a few sessions at a time, so that what the
    /// sessions give need not be held all at once.
    pub fn stream_sessions<R: Send>(
        &self,
        work: impl Fn(&str, &[Part]) -> R + Sync,
        mut take: impl FnMut(R) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        for sessions in self.plan.sessions.chunks(STREAMED * rayon::current_num_threads()) {
            let (results, defects) = self.each_of(sessions, |session, parts| work(&session.id, &parts()));
            problems.extend(defects);
            for result in results {
                take(result)?;
            }
        }
        Ok(problems)
    }

    /// Hash of each log's content, in the order of the logs; `None` for one that could not be read.
    pub fn hash_logs(&self) -> Vec<(String, u64, Option<ContentHash>)> {
        let hashed = self.found.par_iter().zip(&self.contents).map(|(found, known)| {
            let hash = known.or_else(|| cache::hash_file(&found.path, found.stamp.size).ok());
            (found.path.display().to_string(), found.stamp.size, hash)
        });
        hashed.collect()
    }

    fn each_session<R: Send>(
        &self,
        work: impl Fn(&SessionPlan, &dyn Fn() -> Vec<Part>) -> R + Sync,
    ) -> (Vec<R>, Vec<Problem>) {
        self.each_of(&self.plan.sessions, work)
    }

    fn each_of<R: Send>(
        &self,
        sessions: &[SessionPlan],
        work: impl Fn(&SessionPlan, &dyn Fn() -> Vec<Part>) -> R + Sync,
    ) -> (Vec<R>, Vec<Problem>) {
        let done = sessions.par_iter().map(|session| {
            let attempt = || work(session, &|| session.logs.iter().map(|&log| self.part(log)).collect());
            catch_unwind(AssertUnwindSafe(attempt)).map_err(|_| {
                let path = &self.outlines[session.logs[0]].path;
                Problem::file(path, Kind::Internal, format!("session {}", session.id))
            })
        });
        let (mut results, mut problems) = (Vec::new(), Vec::new());
        for one in done.collect::<Vec<_>>() {
            match one {
                Ok(result) => results.push(result),
                Err(problem) => problems.push(problem),
            }
        }
        (results, problems)
    }

    fn part(&self, at: usize) -> Part {
        let outline = &self.outlines[at];
        // A cache entry may have the right checksum and still be wrong if somebody took the trouble. Then the log is
        // parsed after all.
        let mut log = pack::unpack(&self.packed[at]).unwrap_or_else(|pack::Damaged| {
            let options = Options {
                io: self.io,
                limits: self.limits,
                cache: None,
                with_lines: false,
                progress: &|_| (),
            };
            parse_log(&self.found[at], &outline.path, &options).log
        });
        name_default_session(&mut log, &outline.default_session);
        Part {
            path: outline.path.clone(),
            log,
            copied: self.plan.copied[at].clone(),
        }
    }
}

/// Messages of all logs, log by log in the order given, and what was wrong with them.
pub fn read_messages(logs: &[Found], wanted: WantedParts, options: &Options<'_>) -> (Vec<Message>, Vec<Problem>) {
    let read = logs.par_iter().map(|found| {
        let path = found.path.display().to_string();
        let mut reader = Reader::new(wanted, options.limits.max_line, options.progress);
        let done = OpenLog::open(&found.path, found.packing, options.io)
            .and_then(|open| open.read(&found.path, 0..u64::MAX, options.limits, &mut reader));
        let mut problems = reader
            .troubles
            .iter()
            .map(|trouble| Problem::line(&path, trouble))
            .collect::<Vec<_>>();
        if let Err(error) = done {
            problems.push(Problem::file(&path, broken_kind(found.packing), error.to_string()));
        }
        let session = default_session(found);
        for message in reader.messages.iter_mut().filter(|message| message.session.is_empty()) {
            message.session.clone_from(&session);
        }
        (reader.messages, problems)
    });
    let (mut messages, mut problems) = (Vec::new(), Vec::new());
    for (found, wrong) in read.collect::<Vec<_>>() {
        messages.extend(found);
        problems.extend(wrong);
    }
    (messages, problems)
}

/// The session that a log is named after.
fn default_session(found: &Found) -> String {
    let name = found.path.file_name().unwrap_or_default().to_string_lossy();
    name.split(".jsonl").next().unwrap_or(&name).to_owned()
}

/// What a log that cannot be read to its end is called.
fn broken_kind(packing: Packing) -> Kind {
    match packing {
        Packing::Plain => Kind::Unreadable,
        Packing::Gzip | Packing::Zstd => Kind::BrokenStream,
    }
}

/// Records that name no session belong to the one that the log is named after.
fn name_default_session(log: &mut Log, session: &str) {
    if log.scopes.iter().any(|scope| scope.session == 0) {
        log.strings.push(session.into());
        let name = log.strings.len() as u32 - 1;
        for scope in log.scopes.iter_mut().filter(|scope| scope.session == 0) {
            scope.session = name;
        }
    }
}

/// One log, read.
struct ReadLog {
    packed: Vec<u8>,
    content: Option<ContentHash>,
    evidence: Option<Vec<u8>>,
    outline: LogOutline,
    kinds: Vec<(String, u64)>,
    lines: u64,
    bytes: u64,
    problems: Vec<Problem>,
}

fn read_log(found: &Found, options: &Options<'_>) -> ReadLog {
    let path = found.path.display().to_string();
    let known = |part: PartKind| options.cache.and_then(|cache| cache.get(found, part));
    let lines = if options.with_lines {
        known(PartKind::Lines)
    } else {
        None
    };
    if options.with_lines == lines.is_some()
        && let Some((content, packed)) = known(PartKind::Log)
        && let Some(read) = finish(
            found,
            &path,
            packed,
            Some(content),
            lines.map(|(_, lines)| lines),
            Vec::new(),
        )
    {
        (options.progress)(found.stamp.size);
        return read;
    }
    let hash = || {
        options
            .cache
            .and_then(|_| cache::hash_file(&found.path, found.stamp.size).ok())
    };
    let (parsed, content) = match options.cache {
        None => (parse_log(found, &path, options), None),
        Some(_) => rayon::join(|| parse_log(found, &path, options), hash),
    };
    let packed = pack::pack(&parsed.log);
    let lines = parsed.evidence.map(|evidence| evidence.pack());
    // A log that is being written would leave an entry behind at every run.
    let content = content.filter(|_| parsed.problems.is_empty() && cache::is_settled(found));
    if let (Some(cache), Some(content)) = (options.cache, content) {
        cache.put(found, content, PartKind::Log, &packed);
        if let Some(lines) = &lines {
            cache.put(found, content, PartKind::Lines, lines);
        }
    }
    finish(found, &path, packed, content, lines, parsed.problems)
        .unwrap_or_else(|| unreachable!("a log that was just packed has an outline"))
}

/// What the run needs of a packed log; `None` if it is not one.
fn finish(
    found: &Found,
    path: &str,
    packed: Vec<u8>,
    content: Option<ContentHash>,
    evidence: Option<Vec<u8>>,
    mut problems: Vec<Problem>,
) -> Option<ReadLog> {
    let outline = Outline::read(&packed).ok()?;
    let log = &outline.log;
    problems.extend(log.problems.iter().map(|trouble| Problem::line(path, trouble)));
    let default_session = default_session(found);
    let (lines, bytes) = (log.lines, log.bytes);
    let kinds = log
        .kinds
        .iter()
        .map(|(kind, count)| (log.string(*kind).to_owned(), *count))
        .collect();
    let outline = LogOutline::new(path.to_owned(), default_session, &outline);
    Some(ReadLog {
        packed,
        content,
        evidence,
        outline,
        kinds,
        lines,
        bytes,
        problems,
    })
}

/// What parsing a log gives.
#[derive(Default)]
struct Parsed {
    log: Log,
    evidence: Option<Evidence>,
    /// Problems with the file as a whole.
    problems: Vec<Problem>,
}

/// Parses a log, a big one in parts side by side.
fn parse_log(found: &Found, path: &str, options: &Options<'_>) -> Parsed {
    let open = match OpenLog::open(&found.path, found.packing, options.io) {
        Ok(open) => open,
        Err(error) => {
            return Parsed {
                problems: vec![Problem::file(path, Kind::Unreadable, error.to_string())],
                ..Parsed::default()
            };
        }
    };
    let read_part = |part: &Range<u64>| {
        let walker = Walker::new(options.limits.max_line, options.progress);
        let mut walker = if options.with_lines {
            walker.with_evidence()
        } else {
            walker
        };
        walker.expect(part.end.min(found.stamp.size).saturating_sub(part.start));
        let done = open.read(&found.path, part.clone(), options.limits, &mut walker);
        let kind = broken_kind(found.packing);
        let problem = done.err().map(|error| Problem::file(path, kind, error.to_string()));
        (walker.into_parts(), problem)
    };
    let parts = open.parts(PART);
    let mut problems = Vec::new();
    let mut joined: Option<(Builder, Option<Evidence>)> = None;
    // A few parts at a time, so that a big log is not held twice over: in parts, and joined.
    for wave in parts.chunks(2 * rayon::current_num_threads()) {
        for ((builder, lines), problem) in wave.par_iter().map(read_part).collect::<Vec<_>>() {
            problems.extend(problem);
            let Some((whole, evidence)) = &mut joined else {
                let (whole, _) = joined.insert((builder, lines));
                if parts.len() > 1 {
                    whole.expect(found.stamp.size);
                }
                continue;
            };
            if let (Some(evidence), Some(lines)) = (evidence, lines) {
                evidence.append(lines, whole.block_count());
            }
            whole.append(builder);
        }
    }
    let (whole, evidence) = joined.unwrap_or_default();
    Parsed {
        log: whole.finish(),
        evidence,
        problems,
    }
}
