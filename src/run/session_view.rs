//! A session as consumers see it. Whatever is expensive (threading, tracing, looking for file uses) is built when the first
//! consumer asks for it, and shared with the others.

use crate::run::Run;
use crate::run::read::StoredLog;
use crate::usage::selection::{Selection, SessionNames};
use crate::usage::session::session_project;
use crate::usage::title::SessionTitle;
use replay::policy::Policy;
use replay::prices::{PicoUsd, Price, PriceTable};
use replay::sim::trace::{Trace, build_trace};
use replay::sim::uses::{FileUses, find_file_uses};
use replay::tokens::ratios::RatioTable;
use replay::windows::{InferredWindow, ProjectWindows, WindowQuery, infer_windows};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, OnceLock};
use transcript::agents::Agent;
use transcript::build::IdMap;
use transcript::corpus::SessionPlan;
use transcript::log::ResponseLine;
use transcript::problem::{Problem, ProblemKind};
use transcript::thread::{Chain, Node, Session, SessionLog, ThreadedSession, thread};

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
    // In boxes: a session may have very many chains, and not every consumer asks for their traces.
    trace: OnceLock<Box<Trace>>,
    uses: OnceLock<Box<FileUses>>,
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

    /// Returns the coding agent that wrote its logs.
    pub fn coding_agent(&self) -> Agent {
        self.session.coding_agent()
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
            Box::new(build_trace(
                &self.session,
                &conversation.threaded.chains[chain],
                RatioTable::built_in(),
            ))
        };
        conversation.parts[chain].trace.get_or_init(build)
    }

    /// Returns the traces of all chains.
    pub fn traces(&self) -> impl Iterator<Item = &Trace> {
        (0..self.chains().len()).map(|chain| self.trace(chain))
    }

    /// Returns the file uses of a chain, by number. Without line hashes there are none.
    pub fn uses(&self, chain: usize) -> &FileUses {
        let find = || Box::new(find_file_uses(&self.session, self.trace(chain)));
        self.conversation().parts[chain].uses.get_or_init(find)
    }

    /// Returns the working directory of the session.
    pub fn project(&self) -> &'v str {
        session_project(&self.session)
    }

    /// Returns the title of the session to show, secrets masked; empty if it has none.
    pub fn title(&self) -> String {
        SessionTitle::find(&self.session).masked()
    }

    /// Whether the session is selected: by its names, and by having a record or call that is.
    pub fn is_selected(&self) -> bool {
        let Some(selection) = self.planned.map(|planned| &planned.run.selection) else {
            return true;
        };
        if selection.is_everything() {
            return true;
        }
        let title = match selection.sessions.is_empty() {
            true => SessionTitle::default(),
            false => SessionTitle::find(&self.session),
        };
        let names = SessionNames {
            agent: self.coding_agent(),
            id: self.id(),
            project: self.project(),
            title: title.unmasked(),
        };
        selection.takes_session(names) && self.has_selected_record(selection)
    }

    fn has_selected_record(&self, selection: &Selection) -> bool {
        let session = &self.session;
        if selection.range.is_unbounded() && selection.models.is_empty() {
            return true;
        }
        let mut own = session.own_nodes().filter(|node| !session.is_copied(*node));
        own.any(|node| {
            let is_in_range = selection.range.contains(session.record(node).time);
            is_in_range && (selection.models.is_empty() || self.is_call_of_selected_model(node, selection))
        })
    }

    fn is_call_of_selected_model(&self, node: Node, selection: &Selection) -> bool {
        let line = self.session.response(node).filter(|line| !line.billed.is_zero());
        line.is_some_and(|line| selection.takes_model(self.session.log(node).string(line.model)))
    }

    /// Returns what other sessions of its project show about their windows: nothing if the run has not been surveyed.
    pub fn sibling_windows(&self) -> ProjectWindows {
        let survey = self.planned.as_ref().map(|planned| Arc::clone(&planned.run.survey));
        ProjectWindows::new(survey.unwrap_or_default(), self.project(), self.id())
    }

    /// Infers the window of every call of one of its traces. `policies` are those that the trace is replayed under, by
    /// version, and `prices` go by model.
    pub fn infer_windows(&self, trace: &Trace, policies: &[&Policy], prices: &[Option<&Price>]) -> Vec<InferredWindow> {
        let siblings = &self.sibling_windows();
        let query = WindowQuery {
            policies,
            prices,
            siblings,
        };
        infer_windows(trace, &query)
    }

    /// Returns number and cost of the calls of sub-agents that only progress records show: there is nothing of them to replay.
    pub fn progress_only_cost(&self, prices: &PriceTable) -> (u64, PicoUsd) {
        let session = &self.session;
        let lines = || {
            session
                .own_nodes()
                .filter_map(|node| Some((node, session.response(node)?)))
        };
        let is_own = |(node, _): &(Node, _)| !session.is_copied(*node);
        let mut calls = IdMap::<u64, (Node, &ResponseLine)>::default();
        for (node, line) in lines().filter(|(_, line)| line.is_progress).filter(is_own) {
            let known = calls.entry(line.call_key()).or_insert((node, line));
            if line.billed.output > known.1.billed.output {
                *known = (node, line);
            }
        }
        for (_, line) in lines().filter(|(_, line)| !line.is_progress) {
            if calls.is_empty() {
                break;
            }
            calls.remove(&line.call_key());
        }
        let cost = |(node, line): &(Node, &ResponseLine)| {
            let tariff = prices.find(session.log(*node).string(line.model)).map(Price::tariff);
            tariff.map_or(0, |tariff| tariff.cost(&line.billed, line.context().input_side()))
        };
        #[allow(
            clippy::iter_over_hash_type,
            reason = "sums of integers do not depend on their order"
        )]
        (calls.len() as u64, calls.values().map(cost).sum())
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
    /// Works on the session if it is selected.
    pub fn open_selected<R>(&self, work: impl FnOnce(&SessionView<'_>) -> R) -> Option<R> {
        if !self.run.may_select(self.plan) {
            return None;
        }
        self.open(|view| {
            view.is_selected().then(|| {
                self.run.selection.mark_found();
                work(&view)
            })
        })
    }

    /// Loads the logs, works on them, and lets go of them.
    pub fn open<R>(&self, work: impl FnOnce(SessionView<'_>) -> R) -> R {
        let logs = LoadedLogs::take(self.run, self.plan);
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
    fn take(run: &'r Run, plan: &'r SessionPlan) -> LoadedLogs<'r> {
        let numbers = &plan.logs;
        let parts = numbers.iter().map(|&log| run.load_log(log, &plan.id)).collect();
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
                let mut log = part.log;
                log.separate_calls(self.run.families[at]);
                *place = Some(Box::new(log));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::ReadOptions;
    use std::path::Path;
    use transcript::discover::discover;

    fn read_case(name: &str) -> Run {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
        Run::read(&discover(&[folder], false).unwrap().logs, &ReadOptions::default())
    }

    #[test]
    fn consumers_share_what_one_of_them_has_built() {
        let (shared, problems) = read_case("boundary-auto").map_sessions(|view| {
            let traced = view.attempt(|view| std::ptr::from_ref(view.trace(0)) as usize);
            let failed = view.attempt(|_| panic!("on purpose"));
            let found = view.attempt(|view| std::ptr::from_ref(view.trace(0)) as usize);
            let problem = failed.unwrap_err();
            assert_eq!(problem.detail, format!("session {}", view.id()));
            traced.unwrap() == found.unwrap()
        });
        assert!(!shared.is_empty() && shared.iter().all(|same| *same), "{shared:?}");
        assert!(problems.is_empty(), "{problems:?}");
    }

    #[test]
    fn a_session_that_was_learned_from_is_not_traced_again() {
        let traces = |run: &Run| {
            let (traces, _) = run.map_sessions(|view| view.traces().cloned().collect::<Vec<_>>());
            traces
        };
        let run = read_case("boundary-auto");
        let is_kept = |run: &Run| run.shared.iter().any(|place| place.lock().unwrap().is_some());
        assert!(!is_kept(&run));
        let learned = run.learn_summary();
        assert!(learned.is_some());
        assert!(is_kept(&run));
        let found = traces(&run);
        assert!(!is_kept(&run), "each trace is held until it was used");
        assert_eq!(found, traces(&run));
        assert_eq!(run.learn_summary(), learned);
        assert_eq!(read_case("plain").learn_summary(), None);
    }
}
