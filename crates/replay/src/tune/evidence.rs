//! Evidence for a choice of policy: cross-validation on held-out sessions, and bootstrap intervals.

use crate::tune::rng::SplitMix64;
use crate::tune::score::PolicyScore;
use crate::tune::search::shuffled;

/// A share of cost saved, with its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub middle: f64,
    pub low: f64,
    pub high: f64,
}

/// The chosen policy and what it saves.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChoice {
    /// The policy that is best on all sessions.
    pub best: usize,
    /// Savings compared with the current policy on all sessions: optimistic, because it was chosen on them.
    pub in_sample: Interval,
    /// Savings on sessions that had no part in the choice.
    pub held_out: Interval,
    /// Number of folds on which the policy chosen on the others saves; if the current one is best, of folds that chose it.
    pub agreeing_folds: usize,
    pub folds: usize,
}

impl PolicyChoice {
    /// Returns whether the best policy is not the current one and its held-out savings are above 0.
    pub fn is_significant(&self) -> bool {
        self.best != 0 && self.held_out.low > 0.0
    }
}

/// Parameters of a choice.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChoiceOptions {
    /// Cost of a miss in dollars.
    pub miss_cost: f64,
    /// Number of parts for cross-validation.
    pub folds: usize,
    /// Number of bootstrap resamples.
    pub resamples: usize,
    pub seed: u64,
}

/// The policies of a sweep on the sessions that all of them finish. Policy 0 is the current one.
#[derive(Clone, Copy)]
pub struct SweepScores<'a> {
    /// By policy and session.
    pub scores: &'a [Vec<PolicyScore>],
    /// Names of the sessions.
    pub sessions: &'a [String],
    /// Policies that may be chosen. The current one always may.
    pub eligible: &'a [bool],
}

impl SweepScores<'_> {
    /// Returns the weighed cost of a policy in a session.
    fn objective(&self, policy: usize, session: usize, miss_cost: f64) -> f64 {
        self.scores[policy][session].objective(miss_cost)
    }

    /// Returns the best eligible policy on some sessions. Of equal policies the first wins, so the current one wins over all.
    pub fn best_on(&self, sessions: &[usize], miss_cost: f64) -> usize {
        let total = |policy: usize| {
            sessions
                .iter()
                .map(|session| self.objective(policy, *session, miss_cost))
                .sum::<f64>()
        };
        let policies = (0..self.scores.len()).filter(|policy| *policy == 0 || self.eligible[*policy]);
        policies
            .map(|policy| (total(policy), policy))
            .min_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)))
            .map_or(0, |(_, policy)| policy)
    }

    /// Returns what a policy saves in every session, and what the current one costs there.
    pub(super) fn gains(&self, policy: usize, sessions: &[usize], miss_cost: f64) -> (Vec<f64>, Vec<f64>) {
        let pairs = sessions.iter().map(|session| {
            let present = self.objective(0, *session, miss_cost);
            (present - self.objective(policy, *session, miss_cost), present)
        });
        pairs.unzip()
    }

    /// Returns what a policy saves on some sessions, with its interval.
    pub fn saving(&self, policy: usize, sessions: &[usize], options: &ChoiceOptions) -> Interval {
        let (gains, present) = self.gains(policy, sessions, options.miss_cost);
        bootstrap(&gains, &present, options)
    }

    /// Returns the session in which a policy gains or loses most, weighed against the current one; `None` without sessions.
    pub fn heaviest_session(&self, policy: usize, miss_cost: f64) -> Option<usize> {
        let all = (0..self.sessions.len()).collect::<Vec<_>>();
        let (gains, _) = self.gains(policy, &all, miss_cost);
        all.into_iter()
            .max_by(|a, b| gains[*a].abs().total_cmp(&gains[*b].abs()).then(b.cmp(a)))
    }
}

/// Chooses the best policy. Returns `None` without sessions.
pub fn choose(sweep: &SweepScores<'_>, options: &ChoiceOptions) -> Option<PolicyChoice> {
    let sessions = sweep.sessions;
    if sessions.is_empty() || sweep.scores.is_empty() {
        return None;
    }
    let all = (0..sessions.len()).collect::<Vec<_>>();
    let best = sweep.best_on(&all, options.miss_cost);
    let (_, present) = sweep.gains(best, &all, options.miss_cost);

    let folds = options.folds.clamp(2, sessions.len().max(2));
    // Choose on all other folds, then measure on the sessions of this one.
    let fold_of = fold_numbers(sessions, folds, options.seed);
    let mut held_out = vec![0.0; sessions.len()];
    let mut agreeing = 0;
    for fold in 0..folds {
        let (inside, outside): (Vec<usize>, Vec<usize>) = all.iter().partition(|session| fold_of[**session] == fold);
        let chosen = sweep.best_on(&outside, options.miss_cost);
        let (gains, _) = sweep.gains(chosen, &inside, options.miss_cost);
        let agrees = match best {
            0 => chosen == 0,
            _ => gains.iter().sum::<f64>() > 0.0,
        };
        agreeing += usize::from(agrees);
        for (session, gain) in std::iter::zip(inside, gains) {
            held_out[session] = gain;
        }
    }
    Some(PolicyChoice {
        best,
        in_sample: sweep.saving(best, &all, options),
        held_out: bootstrap(&held_out, &present, options),
        agreeing_folds: agreeing,
        folds,
    })
}

/// Returns the fold of each session, by a shuffle that depends on the names and the seed alone.
fn fold_numbers(sessions: &[String], folds: usize, seed: u64) -> Vec<usize> {
    let order = shuffled(sessions.iter().map(String::as_str), seed);
    let mut fold_of = vec![0; sessions.len()];
    for (place, session) in order.into_iter().enumerate() {
        fold_of[session] = place % folds;
    }
    fold_of
}

/// Returns the sum of `parts` as a share of the sum of `whole`, with a bootstrap interval over sessions.
pub fn bootstrap(parts: &[f64], whole: &[f64], options: &ChoiceOptions) -> Interval {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let middle = share(parts.iter().sum(), whole.iter().sum());
    let count = parts.len() as u64;
    let mut random = SplitMix64::new(options.seed ^ 0x5eed);
    let mut shares = (0..options.resamples.max(1))
        .map(|_| {
            let (mut part, mut all) = (0.0, 0.0);
            for _ in 0..count {
                let session = random.below(count) as usize;
                part += parts[session];
                all += whole[session];
            }
            share(part, all)
        })
        .collect::<Vec<_>>();
    shares.sort_by(f64::total_cmp);
    let at = |quantile: f64| shares[((shares.len() - 1) as f64 * quantile).round() as usize];
    Interval {
        middle,
        low: at(0.025),
        high: at(0.975),
    }
}
