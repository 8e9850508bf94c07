//! Judges one window: the rows, the front and the ruling from the scores of all its policies.

use super::{AgentFacts, KnownScores, PLACED, THRESHOLD, Tuner, WindowMembers, threshold_point};
use crate::views::tune::{PointRow, ScoreBounds, WindowSweep, label};
use anyhow::Result;
use replay::policy::presets::PolicySet;
use replay::sim::oracle::oracle_bound;
use replay::tune::evidence::SweepScores;
use replay::tune::front::{FrontStep, find_flips, pareto, saved_per_miss};
use replay::tune::score::{PolicyScore, PreparedSession};
use replay::tune::settings::{SettingTarget, advice, is_settable};
use replay::tune::space::SweepPoint;
use replay::tune::thresholds::lower_thresholds;
use replay::tune::verdict::{PointFacts, Ruling, VerdictInput, is_at_edge, rule};
use std::collections::BTreeMap;
use transcript::parallel::parallel_map;

impl Tuner<'_> {
    /// Adds lower thresholds if the best one is the lowest. Returns whether it could.
    pub(super) fn widen(&self, group: &mut WindowMembers<'_>, sweep: &WindowSweep) -> bool {
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

    /// Builds the result of one window.
    pub(super) fn judge(&self, group: &WindowMembers<'_>, known: &KnownScores) -> Result<WindowSweep> {
        let (points, all) = group.finished(known);
        let facts = self.point_facts(group, &points, &all);
        let scope = ComparedSessions::new(group, &all);
        let bounds = self.bounds(&scope.sessions, group.facts().summary)?;
        let least_miss_cost = least_miss_cost(&scope.scores);
        let ruling = self.rule(group, &scope, &facts, &bounds, least_miss_cost);
        let totals = scope.scores.iter().map(PolicyScore::sum).collect::<Vec<_>>();
        let front = Front::new(&totals, &facts);
        let rows = points.iter().enumerate().map(|(at, point)| {
            let is_scored = facts[at].blocked_sessions == 0 && !scope.names.is_empty();
            let score = Some(totals[at]).filter(|_| is_scored);
            PointRow {
                coding_agent: group.agent,
                window: group.window,
                number: at,
                name: point.name(),
                label: label(&point.name(), group.usual_threshold),
                score,
                present: totals[0],
                all: PolicyScore::sum(&all[at]),
                sessions: scope.names.len(),
                facts: facts[at],
                objective: score.map(|score| score.objective(self.options.miss_cost)),
                on_front: front.rows.contains(&at),
                saved_per_miss: front.saved[at],
                waiting_ms: group.facts().waiting_ms,
            }
        });
        let rows = rows.collect::<Vec<_>>();
        let best = ruling.as_ref().map_or(0, |ruling| ruling.choice.best);
        let windows = || {
            group
                .members
                .iter()
                .map(|session| group.prepared.windows[*session].window)
        };
        Ok(WindowSweep {
            coding_agent: group.agent,
            window: group.window,
            grounds: count_names(windows().map(|window| window.grounds.name())),
            confidence: count_names(windows().map(|window| window.confidence.name())),
            usual_threshold: group.usual_threshold,
            sessions: group.members.len(),
            compared: scope.names.len(),
            left_out: scope.left_out,
            reached: (0..group.members.len())
                .filter(|at| all.iter().any(|scores| scores[*at].compactions > 0))
                .count(),
            advice: advice(&points[best], &group.setting_target()),
            newest: group.newest,
            rows,
            flips: front.flips,
            front: front.rows,
            points,
            ruling,
            model_error: group.facts().model_error,
            least_miss_cost,
            bounds,
        })
    }

    /// Returns for every policy its place on the range, whether the client can set it, and the sessions that it blocks.
    fn point_facts(
        &self,
        group: &WindowMembers<'_>,
        points: &[SweepPoint],
        all: &[Vec<PolicyScore>],
    ) -> Vec<PointFacts> {
        let facts = |(point, scores): (&SweepPoint, &Vec<PolicyScore>)| PointFacts {
            place: self.place(point),
            is_settable: point.settings.is_empty() || is_settable(point, &group.setting_target()),
            blocked_sessions: count_blocked(scores, &all[0]),
        };
        std::iter::zip(points, all).map(facts).collect()
    }

    /// Rules whether one policy can be recommended; `None` if no session can be compared.
    fn rule(
        &self,
        group: &WindowMembers<'_>,
        scope: &ComparedSessions<'_>,
        points: &[PointFacts],
        bounds: &ScoreBounds,
        least_miss_cost: Option<f64>,
    ) -> Option<Ruling> {
        let eligible = points.iter().map(PointFacts::is_eligible).collect::<Vec<_>>();
        let sweep = SweepScores {
            scores: &scope.scores,
            sessions: &scope.names,
            eligible: &eligible,
        };
        let input = VerdictInput {
            points,
            options: self.choice_options(),
            model_error: group.facts().model_error,
            least_miss_cost,
            unlimited_window: bounds.never.mean_window(),
        };
        rule(&sweep, &input)
    }

    /// Replays the two bounds that frame every policy.
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

impl WindowMembers<'_> {
    /// Returns the policies with scores of all sessions, and these scores. A halving search leaves others without.
    fn finished(&self, known: &KnownScores) -> (Vec<SweepPoint>, Vec<Vec<PolicyScore>>) {
        let scores = |point: &SweepPoint| {
            let scores = known.get(&point.name())?;
            self.members
                .iter()
                .map(|session| scores[*session])
                .collect::<Option<Vec<_>>>()
        };
        let finished = self
            .points
            .iter()
            .filter_map(|point| Some((point.clone(), scores(point)?)));
        finished.unzip()
    }

    /// Returns what the sessions of its agent show.
    pub(super) fn facts(&self) -> AgentFacts {
        self.prepared.agents.get(&self.agent).copied().unwrap_or_default()
    }

    /// Names the setting that the sessions would take.
    fn setting_target(&self) -> SettingTarget {
        SettingTarget {
            agent: self.agent,
            newest: self.newest,
            window: self.window,
            usual_threshold: self.usual_threshold,
        }
    }
}

/// The sessions that every policy finishes, with their scores by policy. All rows of a table are sums over them.
struct ComparedSessions<'p> {
    sessions: Vec<&'p PreparedSession<'p>>,
    /// Their ids.
    names: Vec<String>,
    /// Ids of the sessions that the present policy blocks.
    left_out: Vec<String>,
    scores: Vec<Vec<PolicyScore>>,
}

impl<'p> ComparedSessions<'p> {
    fn new(group: &WindowMembers<'p>, all: &[Vec<PolicyScore>]) -> ComparedSessions<'p> {
        let (kept, dropped) = (0..group.members.len()).partition::<Vec<_>, _>(|at| all[0][*at].blocked == 0);
        let session = |at: &usize| &group.prepared.sessions[group.members[*at]];
        let ids = |places: &[usize]| places.iter().map(|at| session(at).id.clone()).collect();
        ComparedSessions {
            sessions: kept.iter().map(session).collect(),
            names: ids(&kept),
            left_out: ids(&dropped),
            scores: all
                .iter()
                .map(|scores| kept.iter().map(|at| scores[*at]).collect())
                .collect(),
        }
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

/// Returns windows and calls of a session if only what is used again were kept.
fn oracle_occupancy(session: &PreparedSession<'_>) -> (u128, u64) {
    let main = session.chains.iter().filter(|chain| !chain.trace.is_sidechain);
    main.map(|chain| oracle_bound(&chain.trace, &chain.uses))
        .fold((0, 0), |sum, bound| (sum.0 + bound.occupancy_sum, sum.1 + bound.calls))
}
