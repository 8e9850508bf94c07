//! Replays the policies of one window, on few sessions or on all, and keeps their scores on disk.

use super::{KnownScores, Tuner, WindowMembers};
use crate::commands::terminal::notice;
use crate::commands::tune::kept::{PolicyScores, SweepFile};
use crate::commands::tune::{POLICIES_PER_BATCH, SCORES_FILE};
use crate::run::progress_with_template;
use anyhow::{Context, Result};
use replay::tune::score::PolicyScore;
use replay::tune::search::{round_sizes, shuffled, survivors};
use replay::tune::space::SweepPoint;
use std::path::Path;
use table::store::EntryName;
use transcript::parallel::parallel_map;

/// Sessions whose scores are found before they are put into the lists: scores of all sessions twice would be the largest thing
/// in memory.
const MOST_JOBS: usize = 8192;

impl Tuner<'_> {
    /// Replays the policies of a window as far as their scores are not known.
    pub(super) fn search(
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
        let empty = || vec![None; prepared.sessions.len()];
        let scores = names.iter().map(|name| known.remove(name).unwrap_or_else(empty));
        let mut scores = scores.collect::<Vec<_>>();
        let order = self.session_order(group);
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
                let open = open_jobs(jobs, &names, stored, &mut scores);
                let has_new = !open.is_empty();
                for some in open.chunks(MOST_JOBS) {
                    let found = parallel_map(some, |(open, session)| {
                        let open = open.iter().map(|policy| &policies[*policy]);
                        prepared.sessions[*session].replay_equivalent(open, summary)
                    });
                    for ((open, session), found) in std::iter::zip(some, found) {
                        for (policy, score) in std::iter::zip(open, found) {
                            scores[*policy][*session] = Some(score);
                        }
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

    /// Returns the sessions of a window in the seeded order in which a search takes them.
    fn session_order(&self, group: &WindowMembers<'_>) -> Vec<usize> {
        let sessions = &group.prepared.sessions;
        let ids = group.members.iter().map(|session| sessions[*session].id.as_str());
        let order = shuffled(ids, !self.options.seed);
        order.into_iter().map(|at| group.members[at]).collect()
    }

    /// Returns the scores of an earlier run over the same logs, and the file that holds them.
    pub(super) fn resume(&self, sessions: usize, name: Option<EntryName>) -> Result<(KnownScores, Option<SweepFile>)> {
        let open = |(folder, name): (&Path, EntryName)| {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            let path = folder.join(SCORES_FILE);
            let sweep = SweepFile::open(&path, name)?;
            if sweep.is_restarted && !self.options.quiet {
                notice!(
                    "{}: has scores of other logs, other options or another version of backcast; starting over",
                    path.display()
                );
            }
            Ok::<_, anyhow::Error>((Some(sweep.file), sweep.scores))
        };
        let (kept, mut scores) = self.folder.zip(name).map(open).transpose()?.unwrap_or_default();
        scores.retain(|_, list| list.len() == sessions);
        Ok((scores, kept))
    }
}

/// Policies, by number, and the session on which they are to be replayed together.
type OpenJob = (Vec<usize>, usize);

/// Takes over stored scores, and returns the jobs whose scores are still missing. Only scores that this search asks for
/// count, whatever an earlier one left.
fn open_jobs<'a>(
    jobs: impl Iterator<Item = (&'a [usize], usize)>,
    names: &[String],
    stored: &KnownScores,
    scores: &mut [PolicyScores],
) -> Vec<OpenJob> {
    let mut open = Vec::new();
    for (policies, session) in jobs {
        let mut missing = Vec::new();
        for &policy in policies {
            let score = &mut scores[policy][session];
            *score = score.or(stored.get(&names[policy]).and_then(|list| list[session]));
            if score.is_none() {
                missing.push(policy);
            }
        }
        if !missing.is_empty() {
            open.push((missing, session));
        }
    }
    open
}

/// Returns the best of the policies whose totals are known: the first of those that are alive.
fn best_so_far(names: &[String], alive: &[usize], totals: &[PolicyScore], miss_cost: f64) -> String {
    let objectives = totals.iter().map(|total| total.objective(miss_cost));
    let best = std::iter::zip(alive, objectives).min_by(|(_, a), (_, b)| a.total_cmp(b));
    best.map_or_else(String::new, |(policy, _)| format!("best: {}", names[*policy]))
}

fn sum_scores(scores: &[Option<PolicyScore>], sessions: &[usize]) -> PolicyScore {
    PolicyScore::sum(sessions.iter().filter_map(|session| scores[*session].as_ref()))
}
