//! A session as consumers see it. Whatever is expensive (threading, tracing, looking for file uses) is built when the first
//! consumer asks for it, and shared with the others.

use crate::run::Run;
use crate::run::read::StoredLog;
use replay::sim::trace::{Trace, build_trace};
use replay::sim::uses::{FileUses, find_file_uses};
use replay::tokens::ratios::RatioTable;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use transcript::corpus::SessionPlan;
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::{Chain, Session, SessionLog, ThreadedSession, thread};

/// A session whose logs are loaded.
pub struct SessionView<'v> {
    session: Session<'v>,
    logs: &'v [SessionLog],
    conversation: OnceLock<SharedChains>,
    /// Its place in a run, if it belongs to one.
    pub(super) planned: Option<PlannedSession<'v>>,
}

/// The chains of a session, and for each of them what consumers have asked for so far.
pub(super) struct SharedChains {
    threaded: ThreadedSession,
    parts: Vec<SharedChain>,
}

#[derive(Default)]
struct SharedChain {
    trace: OnceLock<Trace>,
    uses: OnceLock<FileUses>,
}

impl<'v> SessionView<'v> {
    /// A view of logs that belong to no run.
    pub fn new(id: &'v str, logs: &'v [SessionLog]) -> SessionView<'v> {
        SessionView {
            session: Session::new(id, logs),
            logs,
            conversation: OnceLock::new(),
            planned: None,
        }
    }

    /// Returns its id.
    pub fn id(&self) -> &'v str {
        self.session.id
    }

    /// Returns its logs, the earliest first.
    pub fn logs(&self) -> &'v [SessionLog] {
        self.logs
    }

    /// Returns its records.
    pub fn session(&self) -> &Session<'v> {
        &self.session
    }

    /// Returns its records as threaded conversations.
    pub fn threaded(&self) -> &ThreadedSession {
        &self.conversation().threaded
    }

    /// Returns its chains: that of the main agent, then those of sub-agents.
    pub fn chains(&self) -> &[Chain] {
        &self.threaded().chains
    }

    /// Returns the trace of a chain, by number. Sizes come from the built-in table.
    pub fn trace(&self, chain: usize) -> &Trace {
        let conversation = self.conversation();
        let build = || {
            build_trace(
                &self.session,
                &conversation.threaded.chains[chain],
                RatioTable::built_in(),
            )
        };
        conversation.parts[chain].trace.get_or_init(build)
    }

    /// Returns the traces of all chains.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        (0..self.chains().len()).map(|chain| self.trace(chain))
    }

    /// Returns the file uses of a chain, by number. Without line hashes there are none.
    pub fn uses(&self, chain: usize) -> &FileUses {
        let find = || find_file_uses(&self.session, self.trace(chain));
        self.conversation().parts[chain].uses.get_or_init(find)
    }

    /// Returns the working directory of the first record that the session owns.
    pub fn project(&self) -> &'v str {
        let first = self.session.own_nodes().next();
        first.map_or("", |node| {
            let log = self.session.log(node);
            log.string(log.scope_of(self.session.record(node)).cwd)
        })
    }

    /// Whether one of its logs records a compaction.
    pub fn is_compacted(&self) -> bool {
        let planned = self.planned.as_ref();
        planned.is_some_and(|planned| planned.run.is_compacted(planned.plan))
    }

    /// Runs one of several consumers. Returns a problem that names the session if the consumer panics, so that the others
    /// still get their results.
    pub fn attempt<R>(&self, consume: impl FnOnce(&SessionView<'v>) -> R) -> Result<R, Problem> {
        attempt(&self.logs[0].path, self.id(), || consume(self))
    }

    fn conversation(&self) -> &SharedChains {
        self.conversation.get_or_init(|| {
            let threaded = thread(&self.session);
            SharedChains {
                parts: threaded.chains.iter().map(|_| SharedChain::default()).collect(),
                threaded,
            }
        })
    }

    /// Keeps what was built so far for another view of the same session.
    pub(super) fn into_shared(self) -> Option<SharedChains> {
        self.conversation.into_inner()
    }
}

/// Works on a session. Returns a problem that names it, and its first log, if the work panics.
pub fn attempt<R>(log: &str, session: &str, work: impl FnOnce() -> R) -> Result<R, Problem> {
    catch_unwind(AssertUnwindSafe(work))
        .map_err(|_| Problem::file(log, ProblemKind::Internal, format!("session {session}")))
}

/// A session of a run whose logs are not loaded yet.
#[derive(Clone, Copy)]
pub(super) struct PlannedSession<'r> {
    pub run: &'r Run,
    pub plan: &'r SessionPlan,
    /// Its number in the plan.
    pub number: usize,
}

impl PlannedSession<'_> {
    /// Loads the logs, works on them, and lets go of them.
    pub fn open<R>(&self, work: impl FnOnce(SessionView<'_>) -> R) -> R {
        let logs = LoadedLogs::take(self.run, &self.plan.logs);
        let mut view = SessionView::new(&self.plan.id, &logs.parts);
        view.planned = Some(*self);
        if let Some(known) = self.run.take_shared(self.number) {
            view.conversation = OnceLock::from(known);
        }
        work(view)
    }
}

/// The logs of a session while it is worked on.
struct LoadedLogs<'r> {
    run: &'r Run,
    numbers: &'r [usize],
    parts: Vec<SessionLog>,
}

impl<'r> LoadedLogs<'r> {
    fn take(run: &'r Run, numbers: &'r [usize]) -> LoadedLogs<'r> {
        let parts = numbers.iter().map(|&log| run.load_log(log)).collect();
        LoadedLogs { run, numbers, parts }
    }
}

impl Drop for LoadedLogs<'_> {
    /// Puts logs that are held whole back to where they were, also after a panic.
    fn drop(&mut self) {
        for (&at, part) in std::iter::zip(self.numbers, self.parts.drain(..)) {
            if let StoredLog::Whole(place) = &self.run.stored[at]
                && let Ok(mut place) = place.lock()
            {
                *place = Some(Box::new(part.log));
            }
        }
    }
}
