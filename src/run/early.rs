//! Early reports: `stats` without a cache sums a log up as soon as it is parsed, if the log is likely to be all there is to its
//! session. Then the log is never packed, unpacked or held.

use crate::run::read::is_of_one_session;
use crate::run::session_view::SessionView;
use crate::run::usage::report_session;
use crate::usage::compact::TextPool;
use crate::usage::session::{ReportOptions, SessionReport};
use replay::tokens::ratios::RatioTable;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use transcript::agents::Agent;
use transcript::corpus::LogOutline;
use transcript::log::RecordId;
use transcript::thread::SessionLog;

/// Inputs of a report, beside the session.
#[derive(Clone, Copy)]
pub(super) struct ReportContext<'r> {
    pub table: &'r RatioTable,
    pub wanted: &'r ReportOptions,
}

/// Reports on logs that are likely to be all there is to their session.
pub(super) struct EarlyReporter<'r> {
    reporting: ReportContext<'r>,
    /// Sessions with logs of sub-agents.
    shared: HashSet<String>,
    /// Ids that logs start with. One that starts like another is a copy of it, or the other way round.
    starts: Mutex<HashSet<RecordId>>,
    texts: TextPool,
}

impl<'r> EarlyReporter<'r> {
    /// `shared` are the sessions that are known to have more than one log.
    pub fn new(reporting: ReportContext<'r>, shared: impl Iterator<Item = String>) -> EarlyReporter<'r> {
        EarlyReporter {
            reporting,
            shared: shared.collect(),
            starts: Mutex::default(),
            texts: TextPool::default(),
        }
    }

    /// Reports on a log. Returns `None` if other logs may belong to its session, or if the report panics.
    pub fn report(&self, part: &SessionLog, outline: &LogOutline) -> Option<SessionReport> {
        // A forked thread repeats the calls of its parent under ids that only the plan can tell apart.
        if part.log.agent != Agent::Claude {
            return None;
        }
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
        let ReportContext { table, wanted } = self.reporting;
        let attempt = || {
            let view = SessionView::new(&outline.sessions[0], std::slice::from_ref(part));
            report_session(&view, table, wanted)
        };
        // What panics is tried again with all other sessions, and named there.
        let mut report = catch_unwind(AssertUnwindSafe(attempt)).ok()?;
        report.share_texts(&self.texts);
        Some(report)
    }
}
