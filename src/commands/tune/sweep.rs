//! The sweep itself: sessions by coding agent and window, policies replayed on them, and the result.

mod judge;
mod search;

use super::kept::PolicyScores;
use super::outcomes::OutcomeTable;
use super::{DEFAULT_FOLDS, SweepOptions};
use crate::run::cache::BUILD_ID;
use crate::run::{LogHash, LogSource, Run, SessionView, median_size, summary_sizes};
use crate::views::tune::TuneResult;
use anyhow::{Result, bail};
use replay::policy::presets::{ClientVersion, PolicySet};
use replay::prices::{PicoUsd, PriceTable};
use replay::quantile::median;
use replay::sim::trace::build_trace;
use replay::sim::uses::find_file_uses;
use replay::tokens::ratios::RatioTable;
use replay::tune::evidence::ChoiceOptions;
use replay::tune::score::{PreparedChain, PreparedSession, WindowFacts};
use replay::tune::space::SweepPoint;
use replay::tune::thresholds::default_thresholds;
use std::collections::BTreeMap;
use std::path::Path;
use table::store::EntryName;
use transcript::agents::Agent;
use transcript::parallel::parallel_map;
use transcript::problem::{Problem, sort_problems};

/// The key of the default sweep.
const THRESHOLD: &str = "window.threshold";

/// Keys whose values are places on one range: low values compact early.
const PLACED: [&str; 3] = [THRESHOLD, "window.percent", "window.override"];

/// A sweep over the sessions of a run.
pub struct Tuner<'a> {
    pub options: SweepOptions,
    /// What --vary asks for; `None` for thresholds in tokens.
    pub varied: Option<Vec<SweepPoint>>,
    pub base: &'a PolicySet,
    pub prices: &'a PriceTable,
    pub folder: Option<&'a Path>,
    pub outcomes: Option<OutcomeTable>,
}

/// Scores by policy and session, as far as they are known.
type KnownScores = BTreeMap<String, PolicyScores>;

/// Everything that is the same for all windows.
struct Prepared<'s> {
    sessions: Vec<PreparedSession<'s>>,
    windows: Vec<WindowFacts>,
    agents: BTreeMap<Agent, AgentFacts>,
}

/// What the sessions of one coding agent show.
#[derive(Debug, Clone, Copy, Default)]
struct AgentFacts {
    /// Median size of the recorded summaries.
    summary: Option<u64>,
    /// Median recorded duration of a compaction, in milliseconds.
    waiting_ms: Option<u64>,
    /// Median absolute error of the cost model, as a share.
    model_error: f64,
}

/// A session as it was read, ready for the sweep.
struct TracedSession<'p> {
    session: PreparedSession<'p>,
    /// Sizes of its recorded summaries.
    summary_sizes: Vec<u64>,
    /// Number and cost of the calls that only progress records show.
    progress_only: (u64, PicoUsd),
}

/// The sessions of one agent and window, and the policies tried on them.
struct WindowMembers<'p> {
    prepared: &'p Prepared<'p>,
    agent: Agent,
    window: u64,
    /// Numbers of the sessions.
    members: Vec<usize>,
    /// The largest threshold in force.
    usual_threshold: u64,
    newest: Option<ClientVersion>,
    /// The present policy first.
    points: Vec<SweepPoint>,
}

impl Tuner<'_> {
    /// Reads the logs, sweeps every window, and judges.
    pub fn tune(&self, source: &LogSource<'_>) -> Result<TuneResult> {
        self.sweep(&source.read(), source)
    }

    /// Sweeps every window over the sessions of a run, and judges.
    pub fn sweep(&self, run: &Run, source: &LogSource<'_>) -> Result<TuneResult> {
        let (parts, defects) = self.prepare_sessions(run, source);
        let (mut sessions, mut summaries) = (Vec::new(), BTreeMap::<Agent, Vec<u64>>::new());
        let mut progress_only = (0, 0);
        for traced in parts {
            let (calls, cost) = traced.progress_only;
            progress_only = (progress_only.0 + calls, progress_only.1 + cost);
            summaries
                .entry(traced.session.coding_agent())
                .or_default()
                .extend(traced.summary_sizes);
            sessions.extend(Some(traced.session).filter(|session| !session.chains.is_empty()));
        }
        let name = self.folder.map(|_| self.scores_name(&run.log_hashes(), &sessions));
        let mut problems = run.problems.clone();
        problems.extend(defects);
        problems.extend(source.problems());
        sort_problems(&mut problems);
        self.check_sessions(&sessions)?;
        let windows = parallel_map(&sessions, |session| session.window_facts(self.base));
        let facts = |(agent, sizes): (Agent, Vec<u64>)| {
            let own = sessions.iter().filter(|session| session.coding_agent() == agent);
            let own = own.collect::<Vec<_>>();
            let durations = own.iter().flat_map(|session| session.compaction_durations());
            let facts = AgentFacts {
                summary: median_size(sizes),
                waiting_ms: median(durations.collect()),
                model_error: self.model_error(&own),
            };
            (agent, facts)
        };
        let prepared = Prepared {
            windows,
            agents: summaries.into_iter().map(facts).collect(),
            sessions,
        };
        let (stored, mut kept) = self.resume(prepared.sessions.len(), name)?;
        let mut known = KnownScores::new();
        let groups = self.group_sessions(&prepared);
        if groups.is_empty() {
            bail!("your window is not known, so nothing can be compared\n  hint: pass it, for example --window 200000");
        }
        let mut sweeps = Vec::new();
        for mut group in groups {
            self.search(&mut group, &stored, &mut known, kept.as_mut())?;
            let mut sweep = self.judge(&group, &known)?;
            while self.widen(&mut group, &sweep) {
                self.search(&mut group, &stored, &mut known, kept.as_mut())?;
                sweep = self.judge(&group, &known)?;
            }
            sweeps.push(sweep);
        }
        if let Some(kept) = kept {
            kept.finish(stored, known.iter().map(|(name, scores)| (name.clone(), scores)))?;
        }
        sweeps.sort_by_key(|sweep| std::cmp::Reverse((sweep.rows[0].all.cost, sweep.window)));
        let unknown = prepared.windows.iter().filter(|facts| facts.window.tokens.is_none());
        Ok(TuneResult {
            miss_cost: self.options.miss_cost,
            seed: self.options.seed,
            unknown: unknown.count(),
            progress_only,
            account: run.count_usage(source.options.cache, self.prices),
            outcomes: self
                .outcomes
                .as_ref()
                .map(|outcomes| outcomes.summarize(&prepared.costs(), &self.choice_options())),
            sweeps,
            selection: run.selection.label.clone(),
            problems,
        })
    }

    fn check_sessions(&self, sessions: &[PreparedSession<'_>]) -> Result<()> {
        if sessions.is_empty() {
            bail!(
                "no session with a call in these logs\n  hint: `backcast stats` with the same paths shows what is in them"
            );
        }
        if let Some(folds) = self.options.folds.filter(|folds| *folds > sessions.len()) {
            bail!(
                "--folds {folds} is more than the number of sessions with a call, {}\n  hint: every fold needs at least one session",
                sessions.len()
            );
        }
        Ok(())
    }

    fn choice_options(&self) -> ChoiceOptions {
        ChoiceOptions {
            miss_cost: self.options.miss_cost,
            folds: self.options.folds.unwrap_or(DEFAULT_FOLDS),
            resamples: self.options.resamples,
            seed: self.options.seed,
        }
    }

    /// Traces every session.
    fn prepare_sessions(&self, run: &Run, source: &LogSource<'_>) -> (Vec<TracedSession<'_>>, Vec<Problem>) {
        let bar = source.session_bar(run);
        run.map_sessions(|view| {
            bar.inc(1);
            self.prepare_session(view)
        })
    }

    fn prepare_session(&self, view: &SessionView<'_>) -> TracedSession<'_> {
        let mut recorded_sizes = Vec::new();
        let mut ready = Vec::new();
        for chain in view.chains() {
            // The trace outlives the view, which therefore does not build it.
            let trace = build_trace(view.session(), chain, RatioTable::built_in());
            if view.is_compacted() {
                recorded_sizes.extend(summary_sizes(&trace));
            }
            if trace.calls.iter().any(|call| !call.is_copied) {
                let uses = find_file_uses(view.session(), &trace);
                ready.push(PreparedChain::new(trace, uses, self.prices, view.sibling_windows()));
            }
        }
        // A list of one would keep room for four, and all sessions are held at once.
        ready.shrink_to_fit();
        let session = PreparedSession {
            id: view.id().to_owned(),
            project: view.project().to_owned(),
            chains: ready,
        };
        TracedSession {
            session,
            summary_sizes: recorded_sizes,
            progress_only: view.progress_only_cost(self.prices),
        }
    }

    /// Returns the median absolute error of the simulated cost over projects, each with the calls of its sessions together.
    fn model_error(&self, sessions: &[&PreparedSession<'_>]) -> f64 {
        let costs = parallel_map(sessions, |session| session.compare_costs(self.base));
        let mut projects = BTreeMap::<&str, (u128, u128)>::new();
        for (session, costs) in std::iter::zip(sessions, costs) {
            let sums = projects.entry(&session.project).or_default();
            sums.0 += costs.recorded;
            sums.1 += costs.simulated;
        }
        let errors = projects
            .values()
            .filter(|(recorded, _)| *recorded > 0)
            .map(|(recorded, simulated)| recorded.abs_diff(*simulated) * 1_000_000 / recorded);
        median(errors.collect()).map_or(0.0, |error| error as f64 / 1e6)
    }

    /// Returns the hash of everything that scores depend on, except the points themselves.
    fn scores_name(&self, logs: &[LogHash], sessions: &[PreparedSession<'_>]) -> EntryName {
        let mut hasher = blake3::Hasher::new();
        hasher.update(BUILD_ID.as_bytes());
        hasher.update(format!("{:?}", self.base.ranges()).as_bytes());
        hasher.update(format!("{:?}", self.prices).as_bytes());
        for (path, size, hash) in logs {
            hasher
                .update(path.as_bytes())
                .update(&size.to_le_bytes())
                .update(&hash.unwrap_or_default());
        }
        for session in sessions {
            hasher.update(session.id.as_bytes());
        }
        EntryName::new(*hasher.finalize().as_bytes())
    }

    /// Groups sessions by coding agent and window: a setting is that of one agent, and thresholds depend on the window.
    fn group_sessions<'p>(&self, prepared: &'p Prepared<'p>) -> Vec<WindowMembers<'p>> {
        let mut groups = BTreeMap::<(Agent, u64), Vec<usize>>::new();
        for (session, facts) in prepared.windows.iter().enumerate() {
            if let Some(tokens) = facts.window.tokens {
                let agent = prepared.sessions[session].coding_agent();
                groups.entry((agent, tokens)).or_default().push(session);
            }
        }
        let groups = groups.into_iter().map(|((agent, window), members)| {
            let facts = || members.iter().map(|session| &prepared.windows[*session]);
            let usual_threshold = facts().map(|facts| facts.threshold).max().unwrap_or(0);
            let tried = self.varied.clone().unwrap_or_else(|| {
                let peaks = facts().map(|facts| facts.peak).collect::<Vec<_>>();
                let thresholds = default_thresholds(usual_threshold, &peaks, self.options.step);
                thresholds.into_iter().map(threshold_point).collect()
            });
            let present = SweepPoint { settings: Vec::new() };
            WindowMembers {
                agent,
                window,
                usual_threshold,
                newest: members
                    .iter()
                    .filter_map(|session| prepared.sessions[*session].newest_version())
                    .max(),
                points: std::iter::once(present).chain(tried).collect(),
                members,
                prepared,
            }
        });
        groups.collect()
    }
}

impl Prepared<'_> {
    /// Returns the recorded cost of every session in dollars, by id.
    fn costs(&self) -> BTreeMap<&str, f64> {
        let cost = |session: &PreparedSession<'_>| session.recorded_cost() as f64 / 1e12;
        self.sessions
            .iter()
            .map(|session| (session.id.as_str(), cost(session)))
            .collect()
    }
}

fn threshold_point(threshold: u64) -> SweepPoint {
    SweepPoint {
        settings: vec![(THRESHOLD, toml::Value::Integer(threshold as i64))],
    }
}
