//! The sweep itself: sessions by coding agent and window, policies replayed on them, and the result.

use super::kept::{PolicyScores, SweepFile};
use super::outcomes::OutcomeTable;
use super::{DEFAULT_FOLDS, POLICIES_PER_BATCH, SCORES_FILE, SweepOptions};
use crate::commands::terminal::notice;
use crate::run::cache::BUILD_ID;
use crate::run::{LogHash, LogSource, Run, SessionView, median_size, progress_with_template, summary_sizes};
use crate::views::tune::{PointRow, ScoreBounds, TuneResult, WindowSweep, label};
use anyhow::{Context, Result, bail};
use replay::policy::presets::{ClientVersion, PolicySet};
use replay::prices::PriceTable;
use replay::quantile::median;
use replay::sim::oracle::oracle_bound;
use replay::sim::trace::build_trace;
use replay::sim::uses::find_file_uses;
use replay::tokens::ratios::RatioTable;
use replay::tune::evidence::{ChoiceOptions, SweepScores};
use replay::tune::front::{FrontStep, find_flips, pareto, saved_per_miss};
use replay::tune::score::{PolicyScore, PreparedChain, PreparedSession, WindowFacts};
use replay::tune::search::{round_sizes, shuffled, survivors};
use replay::tune::settings::{SettingTarget, advice, is_settable};
use replay::tune::space::SweepPoint;
use replay::tune::thresholds::{default_thresholds, lower_thresholds};
use replay::tune::verdict::{PointFacts, Ruling, VerdictInput, is_at_edge, rule};
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
        for (session, sizes) in parts {
            summaries.entry(session.coding_agent()).or_default().extend(sizes);
            sessions.extend(Some(session).filter(|session| !session.chains.is_empty()));
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
            bail!("the window of no session is known, so nothing can be compared\n  hint: say it with --window 200000");
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
            outcomes: self
                .outcomes
                .as_ref()
                .map(|outcomes| outcomes.summarize(&prepared.costs(), &self.choice_options())),
            sweeps,
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
                "--folds {folds} is more than there are sessions with a call: {}\n  hint: a fold needs a session at least",
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

    /// Traces every session. Also returns the sizes of its recorded summaries.
    fn prepare_sessions(
        &self,
        run: &Run,
        source: &LogSource<'_>,
    ) -> (Vec<(PreparedSession<'_>, Vec<u64>)>, Vec<Problem>) {
        let bar = source.session_bar(run);
        run.map_sessions(|view| {
            bar.inc(1);
            self.prepare_session(view)
        })
    }

    fn prepare_session(&self, view: &SessionView<'_>) -> (PreparedSession<'_>, Vec<u64>) {
        let mut sizes = Vec::new();
        let mut ready = Vec::new();
        for chain in view.chains() {
            // The trace outlives the view, which therefore does not build it.
            let trace = build_trace(view.session(), chain, RatioTable::built_in());
            if view.is_compacted() {
                sizes.extend(summary_sizes(&trace));
            }
            if trace.calls.iter().any(|call| !call.is_copied) {
                let uses = find_file_uses(view.session(), &trace);
                ready.push(PreparedChain::new(trace, uses, self.prices, view.sibling_windows()));
            }
        }
        let session = PreparedSession {
            id: view.id().to_owned(),
            project: view.project().to_owned(),
            chains: ready,
        };
        (session, sizes)
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

    /// Adds lower thresholds if the best one is the lowest. Returns whether it could.
    fn widen(&self, group: &mut WindowMembers<'_>, sweep: &WindowSweep) -> bool {
        let facts = sweep.rows.iter().map(|row| row.facts).collect::<Vec<_>>();
        let best = sweep.ruling.as_ref().map_or(0, |ruling| ruling.choice.best);
        let is_lowest_tried = facts.iter().filter_map(|point| point.place).min() == facts[best].place;
        if self.varied.is_some() || best == 0 || !is_lowest_tried || !is_at_edge(&facts, best) {
            return false;
        }
        let lower = facts[best]
            .place
            .map_or(Vec::new(), |place| lower_thresholds(place, self.options.step));
        group.points.splice(1..1, lower.iter().copied().map(threshold_point));
        !lower.is_empty()
    }

    /// Replays the policies of a window as far as their scores are not known.
    fn search(
        &self,
        group: &mut WindowMembers<'_>,
        stored: &KnownScores,
        known: &mut KnownScores,
        mut kept: Option<&mut SweepFile>,
    ) -> Result<()> {
        let prepared = group.prepared;
        let summary = group.facts().summary;
        let policies = group
            .points
            .iter()
            .map(|point| point.policies(self.base))
            .collect::<Result<Vec<_>, _>>()?;
        let names = group.points.iter().map(SweepPoint::name).collect::<Vec<_>>();
        let mut scores = names
            .iter()
            .map(|name| {
                known
                    .remove(name)
                    .unwrap_or_else(|| vec![None; prepared.sessions.len()])
            })
            .collect::<Vec<_>>();
        let ids = group
            .members
            .iter()
            .map(|session| prepared.sessions[*session].id.as_str());
        let order = shuffled(ids, !self.options.seed)
            .into_iter()
            .map(|at| group.members[at])
            .collect::<Vec<_>>();
        let mut alive = (0..group.points.len()).collect::<Vec<_>>();
        let sizes = round_sizes(self.options.search.into(), alive.len(), order.len());
        let bar = progress_with_template(
            sizes.len() as u64 * alive.len() as u64,
            self.options.quiet,
            "{pos} of {len} replays, {eta} left, {msg}",
        );
        for (round, &size) in sizes.iter().enumerate() {
            let chosen = &order[..size];
            let mut totals = Vec::with_capacity(alive.len());
            for batch in alive.chunks(POLICIES_PER_BATCH) {
                let points = &group.points;
                let alike = batch.chunk_by(|a, b| points[*a].is_equivalent_without_compaction(&points[*b]));
                let jobs = alike.flat_map(|policies| chosen.iter().map(move |session| (policies, *session)));
                let jobs = jobs.collect::<Vec<_>>();
                // Only scores that this search asks for count, whatever an earlier one left.
                for (policies, session) in &jobs {
                    for policy in policies.iter() {
                        let stored = stored.get(&names[*policy]).and_then(|list| list[*session]);
                        let score = &mut scores[*policy][*session];
                        *score = score.or(stored);
                    }
                }
                let open = jobs
                    .into_iter()
                    .map(|(policies, session)| {
                        let open = policies.iter().filter(|policy| scores[**policy][session].is_none());
                        (open.copied().collect::<Vec<_>>(), session)
                    })
                    .filter(|(policies, _)| !policies.is_empty())
                    .collect::<Vec<_>>();
                let has_new = !open.is_empty();
                let found = parallel_map(&open, |(open, session)| {
                    let open = open.iter().map(|policy| &policies[*policy]);
                    prepared.sessions[*session].replay_equivalent(open, summary)
                });
                for ((open, session), found) in std::iter::zip(open, found) {
                    for (policy, score) in std::iter::zip(open, found) {
                        scores[policy][session] = Some(score);
                    }
                }
                bar.inc(batch.len() as u64);
                totals.extend(batch.iter().map(|policy| sum_scores(&scores[*policy], chosen)));
                bar.set_message(best_so_far(&names, &alive, &totals, self.options.miss_cost));
                if let Some(kept) = kept.as_deref_mut().filter(|_| has_new) {
                    let batch = batch.iter().map(|policy| (names[*policy].clone(), &scores[*policy]));
                    kept.append_batch(&batch.collect::<Vec<_>>())?;
                }
            }
            if round + 1 < sizes.len() {
                alive = survivors(&alive, &totals, self.options.miss_cost);
            }
        }
        bar.finish_and_clear();
        known.extend(std::iter::zip(names, scores));
        Ok(())
    }

    /// Returns the scores of an earlier run over the same logs, and the file that holds them.
    fn resume(&self, sessions: usize, name: Option<EntryName>) -> Result<(KnownScores, Option<SweepFile>)> {
        let open = |(folder, name): (&Path, EntryName)| {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            let path = folder.join(SCORES_FILE);
            let sweep = SweepFile::open(&path, name)?;
            if sweep.is_restarted && !self.options.quiet {
                notice!(
                    "{}: scores of other logs, options or another version of backcast; starting over",
                    path.display()
                );
            }
            Ok::<_, anyhow::Error>((Some(sweep.file), sweep.scores))
        };
        let (kept, mut scores) = self.folder.zip(name).map(open).transpose()?.unwrap_or_default();
        scores.retain(|_, list| list.len() == sessions);
        Ok((scores, kept))
    }

    /// Builds the result of one window.
    fn judge(&self, group: &WindowMembers<'_>, known: &KnownScores) -> Result<WindowSweep> {
        let prepared = group.prepared;
        let all = group.points.iter().map(|point| {
            let scores = known.get(&point.name())?;
            group
                .members
                .iter()
                .map(|session| scores[*session])
                .collect::<Option<Vec<_>>>()
        });
        // A halving search leaves policies without all scores.
        let (points, all): (Vec<_>, Vec<_>) = std::iter::zip(&group.points, all)
            .filter_map(|(point, scores)| Some((point.clone(), scores?)))
            .unzip();
        let facts = points
            .iter()
            .zip(&all)
            .map(|(point, scores)| PointFacts {
                place: self.place(point),
                is_settable: point.settings.is_empty() || is_settable(point, &group.setting_target()),
                blocked_sessions: count_blocked(scores, &all[0]),
            })
            .collect::<Vec<_>>();
        let is_compared = all[0].iter().map(|score| score.blocked == 0).collect::<Vec<_>>();
        let compared = all
            .iter()
            .map(|scores| {
                let pairs = std::iter::zip(scores, &is_compared).filter(|(_, is_compared)| **is_compared);
                pairs.map(|(score, _)| *score).collect::<Vec<_>>()
            })
            .collect::<Vec<_>>();
        let members = || group.members.iter().map(|session| &prepared.sessions[*session]);
        let id = |is_wanted: bool| {
            let pairs = std::iter::zip(members(), &is_compared).filter(move |(_, compared)| **compared == is_wanted);
            pairs.map(|(session, _)| session.id.clone()).collect::<Vec<_>>()
        };
        let compared_members = std::iter::zip(members(), &is_compared)
            .filter(|(_, compared)| **compared)
            .map(|(session, _)| session)
            .collect::<Vec<_>>();
        let bounds = self.bounds(&compared_members, group.facts().summary)?;
        let least_miss_cost = least_miss_cost(&compared);
        let names = id(true);
        let ruling = self.rule(
            &compared,
            &names,
            &facts,
            &bounds,
            least_miss_cost,
            group.facts().model_error,
        );
        let totals = compared.iter().map(PolicyScore::sum).collect::<Vec<_>>();
        let front = Front::new(&totals, &facts);
        let rows = points.iter().enumerate().map(|(at, point)| {
            let score = Some(totals[at]).filter(|_| facts[at].blocked_sessions == 0 && !names.is_empty());
            PointRow {
                coding_agent: group.agent,
                window: group.window,
                number: at,
                name: point.name(),
                label: label(&point.name(), group.usual_threshold),
                score,
                present: totals[0],
                all: PolicyScore::sum(&all[at]),
                sessions: names.len(),
                facts: facts[at],
                objective: score.map(|score| score.objective(self.options.miss_cost)),
                on_front: front.rows.contains(&at),
                saved_per_miss: front.saved_per_miss(at),
                waiting_ms: group.facts().waiting_ms,
            }
        });
        let rows = rows.collect::<Vec<_>>();
        let best = ruling.as_ref().map_or(0, |ruling| ruling.choice.best);
        let windows = || group.members.iter().map(|session| prepared.windows[*session].window);
        Ok(WindowSweep {
            coding_agent: group.agent,
            window: group.window,
            grounds: count_names(windows().map(|window| window.grounds.name())),
            confidence: count_names(windows().map(|window| window.confidence.name())),
            usual_threshold: group.usual_threshold,
            sessions: group.members.len(),
            compared: names.len(),
            left_out: id(false),
            reached: (0..group.members.len())
                .filter(|at| all.iter().any(|scores| scores[*at].compactions > 0))
                .count(),
            advice: advice(&points[best], &group.setting_target()),
            newest: group.newest,
            rows,
            flips: front.flips.clone(),
            front: front.rows,
            points,
            ruling,
            model_error: group.facts().model_error,
            least_miss_cost,
            bounds,
        })
    }

    fn rule(
        &self,
        scores: &[Vec<PolicyScore>],
        sessions: &[String],
        points: &[PointFacts],
        bounds: &ScoreBounds,
        least_miss_cost: Option<f64>,
        model_error: f64,
    ) -> Option<Ruling> {
        let eligible = points.iter().map(PointFacts::is_eligible).collect::<Vec<_>>();
        let sweep = SweepScores {
            scores,
            sessions,
            eligible: &eligible,
        };
        let input = VerdictInput {
            points,
            options: self.choice_options(),
            model_error,
            least_miss_cost,
            unlimited_window: bounds.never.mean_window(),
        };
        rule(&sweep, &input)
    }

    fn bounds(&self, sessions: &[&PreparedSession<'_>], summary: Option<u64>) -> Result<ScoreBounds> {
        let never = PolicySet::preset("never")?;
        let bound = parallel_map(sessions, |session| session.replay(&never, summary));
        Ok(ScoreBounds {
            never: PolicyScore::sum(&bound),
            oracle: parallel_map(sessions, |session| oracle_occupancy(session))
                .iter()
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        })
    }

    /// Returns the place of a point on the swept range; `None` if several keys are varied or the key has no order.
    fn place(&self, point: &SweepPoint) -> Option<u64> {
        let [(key, value)] = point.settings.as_slice() else {
            return None;
        };
        let value = value.as_float().or(value.as_integer().map(|value| value as f64))?;
        // Percentages may have decimals.
        let scale = if *key == THRESHOLD || *key == "window.override" {
            1.0
        } else {
            1_000.0
        };
        PLACED.contains(key).then_some((value * scale) as u64)
    }
}

/// The Pareto front over the policies that block no session.
struct Front {
    /// Numbers of the policies on it, cheapest first.
    rows: Vec<usize>,
    flips: Vec<FrontStep>,
    saved: Vec<Option<u64>>,
}

impl Front {
    fn new(totals: &[PolicyScore], facts: &[PointFacts]) -> Front {
        let open = (0..totals.len())
            .filter(|at| facts[*at].blocked_sessions == 0)
            .collect::<Vec<_>>();
        let scores = open.iter().map(|at| totals[*at]).collect::<Vec<_>>();
        let front = pareto(&scores);
        let mut saved = vec![None; totals.len()];
        for (at, number) in open.iter().enumerate() {
            saved[*number] = saved_per_miss(&scores, &front, at);
        }
        let step = |step: &FrontStep| FrontStep {
            from: open[step.from],
            to: open[step.to],
            ..*step
        };
        Front {
            rows: front.iter().map(|at| open[*at]).collect(),
            flips: find_flips(&scores).iter().map(step).collect(),
            saved,
        }
    }

    fn saved_per_miss(&self, at: usize) -> Option<u64> {
        self.saved[at]
    }
}

impl WindowMembers<'_> {
    /// Returns what the sessions of its agent show.
    fn facts(&self) -> AgentFacts {
        self.prepared.agents.get(&self.agent).copied().unwrap_or_default()
    }

    fn setting_target(&self) -> SettingTarget {
        SettingTarget {
            agent: self.agent,
            newest: self.newest,
            window: self.window,
            usual_threshold: self.usual_threshold,
        }
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

/// Returns the number of sessions that a policy blocks, or whose compactions fail more often, than under the present one.
fn count_blocked(scores: &[PolicyScore], present: &[PolicyScore]) -> u64 {
    let is_worse = |(score, present): &(&PolicyScore, &PolicyScore)| {
        score.blocked > present.blocked || score.failures > present.failures
    };
    std::iter::zip(scores, present).filter(is_worse).count() as u64
}

/// Returns the mean cost of reading a dropped file again, in dollars, over all policies; `None` if that never happened.
fn least_miss_cost(scores: &[Vec<PolicyScore>]) -> Option<f64> {
    let sum = PolicyScore::sum(scores.iter().flatten());
    (sum.refetches > 0).then(|| sum.refetch_cost as f64 / 1e12 / sum.refetches as f64)
}

fn count_names(names: impl Iterator<Item = &'static str>) -> BTreeMap<&'static str, u64> {
    let mut counts = BTreeMap::new();
    for name in names {
        *counts.entry(name).or_default() += 1;
    }
    counts
}

/// Returns the best of the policies whose totals are known: the first of those that are alive.
fn best_so_far(names: &[String], alive: &[usize], totals: &[PolicyScore], miss_cost: f64) -> String {
    let objectives = totals.iter().map(|total| total.objective(miss_cost));
    let best = std::iter::zip(alive, objectives).min_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(String::new, |(policy, _)| format!("best: {}", names[*policy]))
}

/// Returns windows and calls of a session if only what is used again were kept.
fn oracle_occupancy(session: &PreparedSession<'_>) -> (u128, u64) {
    let main = session.chains.iter().filter(|chain| !chain.trace.is_sidechain);
    main.map(|chain| oracle_bound(&chain.trace, &chain.uses))
        .fold((0, 0), |sum, bound| (sum.0 + bound.occupancy_sum, sum.1 + bound.calls))
}

fn sum_scores(scores: &[Option<PolicyScore>], sessions: &[usize]) -> PolicyScore {
    PolicyScore::sum(sessions.iter().filter_map(|session| scores[*session].as_ref()))
}
