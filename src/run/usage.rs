//! The usage consumer: a report a session, from the cache where it knows it, and all of them summed up.

use crate::run::cache::{Cache, ContentHash};
use crate::run::early::ReportContext;
use crate::run::read::{ReadOptions, StoredLog};
use crate::run::session_view::SessionView;
use crate::run::{Run, known_contents};
use crate::usage::session::{
    RecordTotals, ReportOptions, SessionReport, SizedStretch, ThreadTotals, split_into_stretches,
};
use crate::usage::summary::{LogFacts, UsageSummary};
use replay::tokens::ratios::RatioTable;
use transcript::corpus::SessionPlan;
use transcript::discover::DiscoveredLog;
use transcript::log::{NO_TIME, Time};
use transcript::pack;
use transcript::parallel::{self, join, parallel_map};
use transcript::problem::Problem;

/// Part of the name of everything that the cache keeps of a report. Changes with what a report holds *and* with how it is
/// computed.
const REPORT_MARK: &[u8] = b"report 4";

/// Bytes of the packed logs, and of their line hashes if they were read.
pub type TraceBytes = (u64, Option<u64>);

/// Reports on the usage of one session after another.
pub struct UsageConsumer<'a> {
    run: &'a Run,
    table: &'a RatioTable,
    wanted: ReportOptions,
    /// The cache, if it may answer and remember.
    cache: Option<&'a Cache>,
}

impl<'a> UsageConsumer<'a> {
    /// For the sessions of a run. The cache holds only reports of the built-in table.
    pub fn new(
        run: &'a Run,
        table: &'a RatioTable,
        wanted: ReportOptions,
        cache: Option<&'a Cache>,
    ) -> UsageConsumer<'a> {
        UsageConsumer {
            run,
            table,
            wanted,
            cache: cache.filter(|_| wanted.is_cacheable()),
        }
    }

    /// Reports on a session.
    pub fn report(&self, view: &SessionView<'_>) -> SessionReport {
        let compute = || report_session(view, self.table, &self.wanted);
        match &view.planned {
            Some(planned) => self.cached_or(planned.plan, compute),
            None => compute(),
        }
    }

    /// Reports on all sessions in a pass of its own: logs of a session that is known are not even unpacked.
    fn report_all(&self) -> (Vec<SessionReport>, Vec<Problem>) {
        self.run.map_planned(0..self.run.session_count(), |planned| {
            if let Some(early) = self.run.early_report(planned.plan) {
                return early;
            }
            self.cached_or(planned.plan, || {
                planned.open(|view| report_session(&view, self.table, &self.wanted))
            })
        })
    }

    fn cached_or(&self, plan: &SessionPlan, compute: impl FnOnce() -> SessionReport) -> SessionReport {
        let known = self.cache.and_then(|cache| Some((cache, self.run.report_key(plan)?)));
        let Some((cache, key)) = known else { return compute() };
        if let Some(bytes) = cache.get_report(&plan.id, &key)
            && let Ok(mut report) = postcard::from_bytes::<SessionReport>(&bytes)
        {
            // Logs may have moved since, so the problems of a cached report name them by number.
            self.run.rename_logs(plan, &mut report, |paths, number| {
                Some((*paths.get(number.parse::<usize>().ok()?)?).to_owned())
            });
            return report;
        }
        let fresh = compute();
        let mut kept = fresh.clone();
        self.run.rename_logs(plan, &mut kept, |paths, path| {
            Some(paths.iter().position(|known| *known == path)?.to_string())
        });
        if let Ok(bytes) = postcard::to_allocvec(&kept) {
            cache.put_report(&plan.id, &key, bytes);
        }
        fresh
    }

    /// Sums up all sessions. `defects` are the sessions on which this consumer panicked.
    pub fn finish(&self, sessions: Vec<SessionReport>, defects: Vec<Problem>) -> UsageSummary {
        let run = self.run;
        let key = self
            .cache
            .filter(|_| defects.is_empty())
            .and_then(|cache| Some((cache, summary_key(&run.logs, &run.contents, run.limits.max_line)?)));
        let facts = LogFacts {
            kinds: run.kinds.clone(),
            lines: run.lines,
            bytes: run.bytes,
        };
        let problems = run.problems.iter().cloned().chain(defects).collect();
        let summary = UsageSummary::new(facts, sessions, problems, self.wanted.filter);
        if let Some((cache, key)) = key
            && let Some(bytes) = summary.to_bytes()
        {
            cache.put_summary(&run.logs, &key, &bytes);
        }
        summary
    }
}

/// Sums up the usage of logs: from the cache if it knows the sum, else in one pass with usage as the only consumer. Also
/// returns the size of what the logs were reduced to, if line hashes were wanted.
pub fn summarize(
    logs: &[DiscoveredLog],
    options: &ReadOptions<'_>,
    table: &RatioTable,
    wanted: &ReportOptions,
) -> (UsageSummary, TraceBytes) {
    let known = known_contents(logs, options);
    if wanted.is_cacheable()
        && !options.with_line_hashes
        && let Some(summary) = cached_summary(logs, &known, options)
    {
        (options.progress)(logs.iter().map(|log| log.stamp.size).sum());
        return (summary, (0, None));
    }
    // What the cache is to remember is packed anyway, and line hashes are asked for together with the size of what is packed.
    let is_early = options.cache.is_none() && !options.with_line_hashes;
    let reporting = is_early.then_some(ReportContext { table, wanted });
    let mut run = Run::read_known(logs, &known, reporting, options);
    let trace_bytes = if options.with_line_hashes {
        run.trace_bytes()
    } else {
        (0, None)
    };
    let (sessions, defects) = UsageConsumer::new(&run, table, *wanted, options.cache).report_all();
    // The packed logs have served their purpose; summing up many calls needs memory.
    run.stored = Vec::new();
    // The sum of a run with line hashes is the same, but such a run is asked for something else.
    let cache = options.cache.filter(|_| !options.with_line_hashes);
    let summary = UsageConsumer::new(&run, table, *wanted, cache).finish(sessions, defects);
    (summary, trace_bytes)
}

/// Returns the sum that an earlier run left in the cache for logs with the same contents.
fn cached_summary(
    logs: &[DiscoveredLog],
    known: &[Option<ContentHash>],
    options: &ReadOptions<'_>,
) -> Option<UsageSummary> {
    let key = summary_key(logs, known, options.limits.max_line)?;
    options.cache?.get_summary(logs, &key, UsageSummary::from_bytes)
}

/// Returns the hash of everything that a summary depends on; `None` if it depends on contents that the cache may not remember.
/// Paths are part of it because problems name them.
fn summary_key(logs: &[DiscoveredLog], contents: &[Option<ContentHash>], max_line: usize) -> Option<ContentHash> {
    let mut named = Vec::with_capacity(logs.len() * 128);
    named.extend_from_slice(REPORT_MARK);
    named.extend_from_slice(pack::MAGIC);
    named.extend_from_slice(&(max_line as u64).to_le_bytes());
    named.extend_from_slice(blake3::hash(RatioTable::built_in_text().as_bytes()).as_bytes());
    for (log, content) in std::iter::zip(logs, contents) {
        let path = log.path.as_os_str().as_encoded_bytes();
        named.extend_from_slice(&(path.len() as u64).to_le_bytes());
        named.extend_from_slice(path);
        named.extend_from_slice(&(*content)?);
    }
    Some(*blake3::hash(&named).as_bytes())
}

impl Run {
    /// Sums up the usage of all sessions in a pass of its own.
    pub fn summarize(&self, table: &RatioTable, wanted: &ReportOptions, cache: Option<&Cache>) -> UsageSummary {
        let consumer = UsageConsumer::new(self, table, *wanted, cache);
        let (sessions, defects) = consumer.report_all();
        consumer.finish(sessions, defects)
    }

    /// Returns the time of the newest record that no other log owns; `None` if no record has a time.
    pub fn newest_time(&self, options: &ReadOptions<'_>) -> Option<Time> {
        if let Some(summary) = cached_summary(&self.logs, &self.contents, options) {
            let times = summary.sessions.iter().filter_map(|session| session.times);
            return times.map(|(_, last)| last).max();
        }
        // A session that panics has no time to offer, and is named when it is summed up.
        let (newest, _) = self.map_sessions(|view| {
            let session = view.session();
            let own = session.own_nodes().filter(|node| !session.is_copied(*node));
            own.map(|node| session.record(node).time)
                .filter(|time| *time != NO_TIME)
                .max()
        });
        newest.into_iter().flatten().max()
    }

    /// Takes the report that was made as soon as a log was read, if the plan says that the log is all there is to its session.
    fn early_report(&self, plan: &SessionPlan) -> Option<SessionReport> {
        let [log] = *plan.logs else { return None };
        let StoredLog::Reported(report) = &self.stored[log] else {
            return None;
        };
        let is_own = self.plan.copied[log].is_empty();
        let report = report.lock().ok()?.take();
        report.filter(|_| is_own).map(|report| *report)
    }

    /// Returns the hash of everything that the report of a session depends on; `None` if it depends on contents that the cache
    /// may not remember.
    fn report_key(&self, plan: &SessionPlan) -> Option<ContentHash> {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(REPORT_MARK)
            .update(RatioTable::built_in_text().as_bytes())
            .update(&(self.limits.max_line as u64).to_le_bytes())
            .update(plan.id.as_bytes());
        for &log in &plan.logs {
            let is_own = self.plan.copied[log].is_empty();
            hasher
                .update(&self.contents[log].filter(|_| is_own)?)
                .update(&[self.logs[log].packing as u8]);
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// Renames the logs in the problems of a report.
    fn rename_logs(
        &self,
        plan: &SessionPlan,
        report: &mut SessionReport,
        name: impl Fn(&[&str], &str) -> Option<String>,
    ) {
        if report.problems.is_empty() {
            return;
        }
        let paths = plan.logs.iter().map(|&log| self.outlines[log].path.as_str());
        let paths = paths.collect::<Vec<_>>();
        for problem in &mut report.problems {
            problem.path = name(&paths, &problem.path).unwrap_or_default();
        }
    }
}

/// Reports on one session. The records and the conversation that they make up are counted at the same time.
pub fn report_session(view: &SessionView<'_>, table: &RatioTable, wanted: &ReportOptions) -> SessionReport {
    let (threads, records) = join(
        || total_threads(view, table, wanted),
        || RecordTotals::new(view.session(), wanted),
    );
    records.join(threads)
}

/// Threads a session and sizes it, a long one in stretches on all threads: several for each thread, because one of them may
/// still be at work on the other half of the report.
fn total_threads(view: &SessionView<'_>, table: &RatioTable, wanted: &ReportOptions) -> ThreadTotals {
    let (session, threaded) = (view.session(), view.threaded());
    let stretches = match parallel::thread_count() {
        1 => split_into_stretches(threaded, 1),
        threads => split_into_stretches(threaded, 2 * threads),
    };
    let size = |stretch| SizedStretch::new(session, stretch, table, wanted);
    // Most sessions are a single stretch; those do not involve the thread pool.
    let sized = if stretches.len() > threaded.chains.len() {
        parallel_map(&stretches, size)
    } else {
        stretches.iter().map(size).collect()
    };
    ThreadTotals::from_stretches(session, threaded, sized, table, wanted)
}
