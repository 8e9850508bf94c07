//! The usage consumer: a report a session, and all of them summed up. The cache keeps the sum.

use crate::run::cache::{Cache, ContentHash};
use crate::run::early::ReportContext;
use crate::run::read::{ReadOptions, StoredLog};
use crate::run::session_view::SessionView;
use crate::run::{Run, known_contents};
use crate::usage::account::UsageAccount;
use crate::usage::session::{
    RecordTotals, ReportOptions, SessionReport, SizedStretch, ThreadTotals, split_into_stretches,
};
use crate::usage::summary::{LogFacts, ReportList, UsageSummary};
use replay::prices::PriceTable;
use replay::tokens::ratios::RatioTable;
use std::sync::Arc;
use transcript::corpus::SessionPlan;
use transcript::discover::DiscoveredLog;
use transcript::parallel::{self, join, parallel_map};
use transcript::problem::Problem;

/// Bytes of the packed logs, and of their line hashes if they were read.
pub type TraceBytes = (u64, Option<u64>);

/// Reports on the usage of one session after another.
pub struct UsageConsumer<'a> {
    run: &'a Run,
    table: &'a RatioTable,
    wanted: ReportOptions,
    /// The cache, if it may remember the sum.
    cache: Option<&'a Cache>,
}

impl<'a> UsageConsumer<'a> {
    /// For the sessions of a run. The cache holds only sums of the built-in table.
    pub fn new(run: &'a Run, table: &'a RatioTable, predictions: bool, cache: Option<&'a Cache>) -> UsageConsumer<'a> {
        let wanted = ReportOptions {
            filter: run.selection.range,
            predictions,
        };
        UsageConsumer {
            run,
            table,
            wanted,
            cache: cache.filter(|_| !predictions && run.selection.is_everything()),
        }
    }

    /// Reports on a session.
    pub fn report(&self, view: &SessionView<'_>) -> Box<SessionReport> {
        Box::new(report_session(view, self.table, &self.wanted))
    }

    /// Reports on all sessions in a pass of its own. Logs that were reported on when they were read are not loaded again. What
    /// the last pass is done with is let go: with many small sessions the reports need that room.
    fn report_all(&self, is_last_pass: bool) -> (ReportList, Vec<Problem>) {
        self.run.map_planned(0..self.run.session_count(), |planned| {
            let (plan, early) = (planned.plan, self.run.early_report(planned.plan));
            let report = early.unwrap_or_else(|| planned.open(|view| self.report(&view)));
            if is_last_pass {
                self.run.release_session(plan);
            }
            report
        })
    }

    /// Sums up all sessions. `defects` are the sessions on which this consumer panicked.
    pub fn finish(&self, sessions: ReportList, defects: Vec<Problem>) -> UsageSummary {
        let run = self.run;
        let name = self
            .cache
            .filter(|_| defects.is_empty())
            .and_then(|cache| Some((cache, cache.summary_name(&run.logs, &run.contents)?)));
        let facts = LogFacts {
            kinds: run.kinds.clone(),
            lines: run.lines,
            bytes: run.bytes,
            newest: run.newest(),
        };
        let problems = run.problems.iter().cloned().chain(defects).collect();
        let summary = UsageSummary::new(facts, sessions, problems, &run.selection);
        if let Some((cache, name)) = name
            && let Some(bytes) = summary.to_bytes()
        {
            cache.put_summary(&run.logs, &name, &bytes);
        }
        summary
    }
}

/// Sums up the usage of logs: from the cache if it knows the sum, else in one pass with usage as the only consumer. Also
/// returns the size of what the logs were reduced to, if line hashes were wanted.
pub fn summarize(
    logs: &Arc<[DiscoveredLog]>,
    options: &ReadOptions<'_>,
    table: &RatioTable,
    predictions: bool,
) -> (UsageSummary, TraceBytes) {
    let known = known_contents(logs, options);
    // A range that counts from the newest record is known once the logs are read.
    let is_known = options.selection.is_none_or(|query| !query.needs_newest());
    let selection = options.selection.filter(|_| is_known).map(|query| query.resolve(None));
    let wanted = ReportOptions {
        filter: selection.as_ref().map(|selection| selection.range).unwrap_or_default(),
        predictions,
    };
    let is_everything = is_known && selection.is_none_or(|selection| selection.is_everything());
    if is_everything
        && !predictions
        && !options.with_line_hashes
        && let Some(summary) = cached_summary(logs, &known, options)
    {
        (options.progress)(logs.iter().map(|log| log.stamp.size).sum());
        if let Some(trail) = options.trail {
            trail.record(summary.facts.newest, &summary.problems);
        }
        return (summary, (0, None));
    }
    // What the cache is to remember is packed anyway, and line hashes are asked for together with the size of what is packed.
    let is_early = options.cache.is_none() && !options.with_line_hashes && is_known;
    let reporting = is_early.then_some(ReportContext { table, wanted: &wanted });
    let mut run = Run::read_known(logs, &known, reporting, options);
    let trace_bytes = if options.with_line_hashes {
        run.trace_bytes()
    } else {
        (0, None)
    };
    let (sessions, defects) = UsageConsumer::new(&run, table, predictions, options.cache).report_all(true);
    // The packed logs have served their purpose; summing up many calls needs memory.
    run.stored = Vec::new();
    run.split = Vec::new();
    // The sum of a run with line hashes is the same, but such a run is asked for something else.
    let cache = options.cache.filter(|_| !options.with_line_hashes);
    let summary = UsageConsumer::new(&run, table, predictions, cache).finish(sessions, defects);
    (summary, trace_bytes)
}

/// Returns the sum that an earlier run left in the cache for logs with the same contents.
fn cached_summary(
    logs: &[DiscoveredLog],
    known: &[Option<ContentHash>],
    options: &ReadOptions<'_>,
) -> Option<UsageSummary> {
    let cache = options.cache?;
    let name = cache.summary_name(logs, known)?;
    cache.get_summary(logs, &name, UsageSummary::from_bytes)
}

impl Run {
    /// Counts the selected sessions as every command does: from the cache if it knows the sum, else in a pass of its own.
    pub fn count_usage(&self, cache: Option<&Cache>, prices: &PriceTable) -> UsageAccount {
        let cache = cache.filter(|_| self.selection.is_everything());
        let known = cache.and_then(|cache| {
            let name = cache.summary_name(&self.logs, &self.contents)?;
            cache.get_summary(&self.logs, &name, UsageSummary::from_bytes)
        });
        let summary = known.unwrap_or_else(|| {
            let usage = UsageConsumer::new(self, RatioTable::built_in(), false, cache);
            // The caller has a pass of its own over the sessions, which names those that fail.
            let (sessions, _) = usage.report_all(false);
            usage.finish(sessions, Vec::new())
        });
        UsageAccount::new(&summary, prices)
    }

    /// Takes the report that was made as soon as a log was read, if the plan says that the log is all there is to its session.
    fn early_report(&self, plan: &SessionPlan) -> Option<Box<SessionReport>> {
        let [log] = *plan.logs else { return None };
        let StoredLog::Reported(report) = &self.stored[log] else {
            return None;
        };
        let is_own = self.plan.copied[log].is_empty();
        let report = report.lock().ok()?.take();
        report.filter(|_| is_own)
    }
}

/// Stretches of a session that are sized before their sums are added up.
const STRETCH_BATCH: usize = 1024;

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
    // Most sessions are a single stretch; those do not involve the thread pool. Others have very many chains: only a few of
    // their stretches are held before they are added up.
    let is_long = stretches.len() > threaded.chains.len();
    let sized = stretches.chunks(STRETCH_BATCH).flat_map(|some| match is_long {
        true => parallel_map(some, size),
        false => some.iter().map(size).collect(),
    });
    ThreadTotals::from_stretches(session, threaded, sized, table, wanted)
}
