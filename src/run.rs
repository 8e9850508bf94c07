//! One read of a set of logs, and one pass over their sessions for any number of consumers.
//!
//! [`Run::read`] reads the logs on all threads (a big one in parts) into their packed form, from the cache where it knows them,
//! and plans which logs make up which session and which log owns which records. [`Run::map_sessions`] and
//! [`Run::stream_sessions`] then load each session once and hand it to the caller as a [`SessionView`]; the caller hands the
//! view to its consumers (usage, replays of several policies, audit, notes), which share the threaded conversations and
//! the traces. Results come back in the order of the plan, so output never depends on the number of threads.
//!
//! A run over gigabytes of logs holds megabytes: packed logs, and the sessions that are being worked on.

pub mod cache;
mod early;
mod fetching;
mod folders;
mod messages;
mod parsing;
pub mod parts;
mod progress;
mod read;
mod remote;
mod selection;
mod session_view;
mod shared;
mod source;
mod split;
mod trail;
mod usage;

pub use folders::{client_home, read_path_lists, resolve_cache_folder, session_folders};
pub use messages::{MessageSearch, read_messages, search_messages};
pub use progress::{progress_bar, progress_with_template};
pub use read::ReadOptions;
pub use remote::{discover_all, forbid_network};
pub use selection::{SelectionQuery, TimeBound, TimeSpan, parse_zone};
pub use session_view::{SessionView, attempt};
pub use source::{LogInput, LogNeeds, LogSource, with_log_files, with_logs, with_messages};
pub use trail::{NothingFound, ReadTrail};
pub use usage::{TraceBytes, UsageConsumer, report_session, summarize};

use crate::usage::selection::Selection;
use crate::usage::session::TimeRange;
use cache::ContentHash;
use early::ReportContext;
use parsing::{BufferPool, parse_log};
use read::{StoredLog, default_session, read_logs, sealed_length, set_default_session};
use replay::prices::PriceTable;
use replay::sim::trace::Trace;
use replay::windows::WindowSurvey;
use replay::windows::evidence::shown_windows;
use session_view::{PlannedSession, SharedChains};
use split::{SplitLog, empty_log};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use transcript::bytes::{IoMode, ReadLimits};
use transcript::corpus::{CorpusPlan, LogOrder, LogOutline, SessionPlan, separate_families};
use transcript::discover::DiscoveredLog;
use transcript::ids::SHARDS;
use transcript::line_hashes::LineHashes;
use transcript::log::{NO_TIME, Time};
use transcript::pack;
use transcript::parallel;
use transcript::parallel::parallel_map;
use transcript::problem::Problem;
use transcript::thread::SessionLog;

/// How many sessions share a log that is split. Unpacking a log a few times costs less than splitting it.
const MIN_SPLIT_SESSIONS: usize = 4;

/// Sessions per thread that are worked on before their results are handed on.
const STREAM_BATCH: usize = 32;

/// All logs of a run, packed, and how they fall into sessions.
pub struct Run {
    logs: Arc<[DiscoveredLog]>,
    io: IoMode,
    limits: ReadLimits,
    stored: Vec<StoredLog>,
    outlines: Vec<LogOutline>,
    /// Family of threads of each log; see [`separate_families`].
    families: Vec<u64>,
    plan: CorpusPlan,
    /// Hashes of the logs' contents, as far as they are known.
    hashes: Vec<Option<ContentHash>>,
    /// The same, but only of logs that the cache may remember.
    contents: Vec<Option<ContentHash>>,
    /// Line hashes of each log, packed, if they were wanted and the logs are in files.
    packed_line_hashes: Vec<Vec<u8>>,
    /// Whether line hashes were wanted.
    with_line_hashes: bool,
    /// Logs that many sessions share, once one of these was loaded, split into a part for each.
    split: Vec<OnceLock<Box<SplitLog>>>,
    /// Which logs hold a compaction.
    compacted: Vec<bool>,
    /// By session: chains and traces that were built before the pass that needs them.
    shared: Vec<Mutex<Option<SharedChains>>>,
    /// What sessions show about their windows; empty until it is asked for.
    survey: Arc<WindowSurvey>,
    /// Numbers of the logs by their paths, built on first use.
    by_path: OnceLock<HashMap<String, usize>>,
    /// Which sessions and calls count.
    pub selection: Selection,
    /// Lines by record type, over all logs.
    pub kinds: BTreeMap<String, u64>,
    /// Lines of all logs.
    pub lines: u64,
    /// Bytes of all logs, unpacked.
    pub bytes: u64,
    /// Problems with files and lines.
    pub problems: Vec<Problem>,
}

/// A log as the manifest of a run names it: path, size, and hash if the log could be read.
pub type LogHash = (String, u64, Option<ContentHash>);

impl Run {
    /// Reads all logs.
    pub fn read(logs: &[DiscoveredLog], options: &ReadOptions<'_>) -> Run {
        Run::read_shared(&logs.into(), options)
    }

    /// Reads all logs and shares their list, which is long if there are many.
    pub fn read_shared(logs: &Arc<[DiscoveredLog]>, options: &ReadOptions<'_>) -> Run {
        Run::read_known(logs, &known_contents(logs, options), None, options)
    }

    /// Reads all logs, of which some may have contents that the cache knows.
    fn read_known(
        logs: &Arc<[DiscoveredLog]>,
        known: &[Option<ContentHash>],
        reporting: Option<ReportContext<'_>>,
        options: &ReadOptions<'_>,
    ) -> Run {
        let (read, kinds) = read_logs(logs, known, reporting, options);
        let mut run = Run {
            logs: Arc::clone(logs),
            io: options.io,
            limits: options.limits,
            stored: Vec::with_capacity(read.len()),
            outlines: Vec::with_capacity(read.len()),
            families: Vec::new(),
            hashes: Vec::with_capacity(read.len()),
            contents: Vec::with_capacity(read.len()),
            packed_line_hashes: Vec::new(),
            with_line_hashes: options.with_line_hashes,
            split: Vec::new(),
            compacted: Vec::with_capacity(read.len()),
            shared: Vec::new(),
            survey: Arc::default(),
            by_path: OnceLock::new(),
            plan: CorpusPlan::default(),
            selection: Selection::default(),
            kinds,
            lines: 0,
            bytes: 0,
            problems: Vec::new(),
        };
        for one in read {
            run.problems.extend(one.problems);
            run.lines += one.counts.lines;
            run.bytes += one.counts.bytes;
            run.compacted.push(one.counts.is_compacted);
            run.stored.push(one.stored);
            run.hashes.push(one.hash);
            run.contents.push(one.hash.filter(|_| one.is_cacheable));
            run.packed_line_hashes.extend(one.line_hashes);
            run.outlines.push(one.outline);
        }
        if let Some(query) = options.selection {
            run.selection = query.resolve(run.newest());
        }
        if let Some(trail) = options.trail {
            trail.record(run.newest(), &run.problems);
        }
        run.make_plan();
        run
    }

    /// Finds out which logs make up which session, and which records are copies.
    fn make_plan(&mut self) {
        self.families = separate_families(&mut self.outlines);
        let order = LogOrder::new(&self.outlines);
        let shards = (0..SHARDS).collect::<Vec<_>>();
        let copies = parallel_map(&shards, |&shard| order.find_copies(&self.outlines, shard));
        self.plan = order.make_plan(&self.outlines, copies.into_iter().flatten());
        self.split = self.outlines.iter().map(|_| OnceLock::new()).collect();
        self.shared = self.plan.sessions.iter().map(|_| Mutex::default()).collect();
        // Only the plan needed the ids.
        for outline in &mut self.outlines {
            outline.ids = Vec::new();
        }
    }

    /// Returns the time of the newest record; `None` if no record has a time.
    pub fn newest(&self) -> Option<Time> {
        let ends = self.outlines.iter().map(|outline| outline.times.1);
        ends.filter(|time| *time != NO_TIME).max()
    }

    /// Returns how many logs were read.
    pub fn log_count(&self) -> usize {
        self.logs.len()
    }

    /// Returns how many sessions the logs make up.
    pub fn session_count(&self) -> usize {
        self.plan.sessions.len()
    }

    /// Returns the sizes of all packed logs, and of their line hashes if they were wanted, as they are in the cache.
    pub fn trace_bytes(&self) -> TraceBytes {
        let lines = self
            .packed_line_hashes
            .iter()
            .map(|lines| sealed_length(lines.len() as u64));
        let in_parts = self.stored.iter().map(StoredLog::line_bytes);
        let has_lines = self.with_line_hashes && !self.logs.is_empty();
        let logs = self.stored.iter().map(StoredLog::packed_bytes).sum();
        (logs, has_lines.then(|| lines.chain(in_parts).sum()))
    }

    /// Returns the hash of each log, in the order of the logs. Asked for by [`ReadOptions::with_content_hashes`].
    pub fn log_hashes(&self) -> Vec<LogHash> {
        let logs = std::iter::zip(self.logs.iter(), &self.hashes);
        logs.map(|(found, hash)| (found.path.display().to_string(), found.stamp.size, *hash))
            .collect()
    }

    /// Works on every selected session on all threads; results in the order of the plan. A session on which the work panics is
    /// a problem with its name, not the end of the run.
    pub fn map_sessions<R: Send>(&self, work: impl Fn(&SessionView<'_>) -> R + Sync) -> (Vec<R>, Vec<Problem>) {
        let (done, problems) = self.map_planned(0..self.session_count(), |planned| planned.open_selected(&work));
        (done.into_iter().flatten().collect(), problems)
    }

    /// Works on every session, selected or not. What several sessions tell of one call is only known from all of them.
    pub fn map_every_session<R: Send>(&self, work: impl Fn(&SessionView<'_>) -> R + Sync) -> (Vec<R>, Vec<Problem>) {
        self.map_planned(0..self.session_count(), |planned| planned.open(|view| work(&view)))
    }

    /// Works on every selected session and hands the results on in the order of the plan, a few sessions at a time, so that
    /// the results need not be held all at once.
    pub fn stream_sessions<R: Send>(
        &self,
        work: impl Fn(&SessionView<'_>) -> R + Sync,
        mut take: impl FnMut(R) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<Problem>> {
        self.stream_planned(
            |planned| planned.open_selected(&work),
            |done| done.map_or(Ok(()), &mut take),
        )
    }

    /// As [`Run::stream_sessions`], with the sessions that are not selected.
    pub fn stream_every_session<R: Send>(
        &self,
        work: impl Fn(&SessionView<'_>) -> R + Sync,
        take: impl FnMut(R) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<Problem>> {
        self.stream_planned(|planned| planned.open(|view| work(&view)), take)
    }

    fn stream_planned<'r, R: Send>(
        &'r self,
        work: impl Fn(PlannedSession<'r>) -> R + Sync,
        mut take: impl FnMut(R) -> std::io::Result<()>,
    ) -> std::io::Result<Vec<Problem>> {
        let mut problems = Vec::new();
        let batch = STREAM_BATCH * parallel::thread_count();
        for first in (0..self.session_count()).step_by(batch) {
            let sessions = first..self.session_count().min(first + batch);
            let (results, defects) = self.map_planned(sessions, &work);
            problems.extend(defects);
            for result in results {
                take(result)?;
            }
        }
        Ok(problems)
    }

    /// Returns the median size of the summaries that were recorded at compactions; `None` if there are none. The sessions that
    /// have to be traced for it keep their traces until the pass that works on them.
    pub fn learn_summary(&self) -> Option<u64> {
        // A session on which this panics is named by that pass.
        let (sizes, _) = self.map_planned(0..self.session_count(), |planned| {
            if !self.is_compacted(planned.plan) {
                return Vec::new();
            }
            planned.open(|view| {
                let sizes = view.traces().flat_map(summary_sizes).collect();
                self.share(planned.number, view.into_shared());
                sizes
            })
        });
        median_size(sizes.into_iter().flatten().collect())
    }

    /// Whether a session may be selected, as far as the times of its logs tell.
    fn may_select(&self, plan: &SessionPlan) -> bool {
        let TimeRange { since, until } = self.selection.range;
        let times = || plan.logs.iter().map(|log| self.outlines[*log].times);
        since.is_none_or(|since| times().any(|(_, last)| last >= since))
            && until.is_none_or(|until| times().any(|(first, _)| first < until))
    }

    /// Collects what sessions show about their windows. [`SessionView::infer_windows`] uses it for other sessions of the same
    /// project.
    pub fn survey_windows(&mut self) {
        let largest = |model: &str| PriceTable::built_in().find(model)?.max_input;
        // A session on which this panics is named by the pass that works on it.
        let (shown, _) = self.map_planned(0..self.session_count(), |planned| {
            planned.open(|view| {
                let shown = shown_windows(view.session(), &largest);
                (view.project().to_owned(), view.id().to_owned(), shown)
            })
        });
        let mut survey = WindowSurvey::default();
        for (project, session, windows) in &shown {
            survey.add(project, session, windows);
        }
        self.survey = Arc::new(survey);
    }

    /// Whether a session has a log with a recorded compaction.
    fn is_compacted(&self, plan: &SessionPlan) -> bool {
        plan.logs.iter().any(|log| self.compacted[*log])
    }

    fn share(&self, session: usize, chains: Option<SharedChains>) {
        if let Ok(mut place) = self.shared[session].lock() {
            *place = chains;
        }
    }

    fn take_shared(&self, session: usize) -> Option<SharedChains> {
        self.shared[session].lock().ok()?.take()
    }

    /// Works on sessions whose logs are loaded only if the work asks for them.
    fn map_planned<'r, R: Send>(
        &'r self,
        sessions: Range<usize>,
        work: impl Fn(PlannedSession<'r>) -> R + Sync,
    ) -> (Vec<R>, Vec<Problem>) {
        let numbers = sessions.collect::<Vec<_>>();
        let done = parallel_map(&numbers, |&number| {
            let plan = &self.plan.sessions[number];
            let planned = PlannedSession {
                run: self,
                plan,
                number,
            };
            attempt(&self.outlines[plan.logs[0]].path, &plan.id, || work(planned))
        });
        let mut problems = Vec::new();
        // In place: with many sessions a second list of them would be as large as all else.
        let results = done
            .into_iter()
            .filter_map(|one| one.map_err(|problem| problems.push(problem)).ok());
        (results.collect(), problems)
    }

    /// Lets go of the logs that belong to one session alone and are not loaded again.
    fn release_session(&self, plan: &SessionPlan) {
        let own = plan.logs.iter().filter(|log| self.outlines[**log].sessions.len() == 1);
        own.for_each(|log| self.stored[*log].release());
    }

    /// Loads what a log has of a session: all of the log if few sessions share it.
    fn load_log(&self, at: usize, session: &str) -> SessionLog {
        if self.outlines[at].sessions.len() < MIN_SPLIT_SESSIONS {
            return self.load_whole_log(at);
        }
        let split = self.split[at].get_or_init(|| {
            let split = Box::new(SplitLog::new(self.load_whole_log(at)));
            self.stored[at].release();
            split
        });
        split.load(session, &self.outlines[at].path)
    }

    /// Loads a log: from its packed form, or by parsing it once more.
    fn load_whole_log(&self, at: usize) -> SessionLog {
        let outline = &self.outlines[at];
        // A cache entry may have the right checksum and still be wrong if it was forged. Then the log is parsed after all.
        let known = match &self.stored[at] {
            StoredLog::Packed(packed) => packed.read().ok().and_then(|packed| pack::unpack(&packed).ok()),
            StoredLog::Whole(log) => log.lock().ok().and_then(|mut log| log.take()).map(|log| *log),
            StoredLog::Part(part) => Some(part.read_log().unwrap_or_else(empty_log)),
            StoredLog::Reported(_) => None,
        };
        let mut log = known.unwrap_or_else(|| {
            let options = ReadOptions {
                io: self.io,
                limits: self.limits,
                ..ReadOptions::default()
            };
            parse_log(&self.logs[at], &outline.path, &BufferPool::default(), &options)
                .builder
                .finish()
        });
        set_default_session(&mut log, &default_session(&self.logs[at]));
        log.separate_calls(self.families[at]);
        SessionLog {
            path: outline.path.clone(),
            log,
            copied: self.plan.copied[at].clone(),
            lines: self.load_line_hashes(at).unwrap_or_default(),
        }
    }
}

impl Run {
    /// Loads the line hashes of a log, if they were wanted.
    fn load_line_hashes(&self, at: usize) -> Option<LineHashes> {
        match &self.stored[at] {
            StoredLog::Part(part) if self.with_line_hashes => part.read_lines(),
            _ => LineHashes::unpack(self.packed_line_hashes.get(at)?).ok(),
        }
    }
}

/// Returns the sizes of the summaries that a chain recorded.
pub fn summary_sizes(trace: &Trace) -> impl Iterator<Item = u64> {
    let sizes = trace.recorded.iter().map(|boundary| u64::from(boundary.summary));
    sizes.filter(|tokens| *tokens > 0)
}

/// Returns the upper median; `None` of none.
pub fn median_size(mut sizes: Vec<u64>) -> Option<u64> {
    sizes.sort_unstable();
    sizes.get(sizes.len() / 2).copied()
}

/// Returns the hashes of the logs' contents, of those that the cache may know.
fn known_contents(logs: &[DiscoveredLog], options: &ReadOptions<'_>) -> Vec<Option<ContentHash>> {
    let known = |found: &DiscoveredLog| options.cache.and_then(|cache| cache.content_hash(found));
    parallel_map(logs, known)
}
