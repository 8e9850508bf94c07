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
    /// Number of folds that chose the same policy as all sessions together.
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

/// Chooses the best policy by `scores[policy][session]`; policy 0 is the current one. Returns `None` without sessions.
pub fn choose(scores: &[Vec<PolicyScore>], sessions: &[String], options: &ChoiceOptions) -> Option<PolicyChoice> {
    if sessions.is_empty() || scores.is_empty() {
        return None;
    }
    let objective = |policy: usize, session: usize| scores[policy][session].objective(options.miss_cost);
    let all = (0..sessions.len()).collect::<Vec<_>>();
    let best_on = |wanted: &[usize]| {
        let total = |policy: usize| wanted.iter().map(|session| objective(policy, *session)).sum::<f64>();
        let totals = (0..scores.len()).map(total).collect::<Vec<_>>();
        // Of equal policies the first wins, so the current one wins over all others.
        let policies = 0..scores.len();
        policies
            .min_by(|a, b| totals[*a].total_cmp(&totals[*b]).then(a.cmp(b)))
            .unwrap_or(0)
    };
    let best = best_on(&all);
    let present = all.iter().map(|session| objective(0, *session)).collect::<Vec<_>>();
    let gain_of = |policy: usize, session: usize| present[session] - objective(policy, session);
    let gains = all.iter().map(|session| gain_of(best, *session)).collect::<Vec<_>>();

    let folds = options.folds.clamp(2, sessions.len().max(2));
    // Choose on all other folds, then measure on the sessions of this one.
    let fold_of = fold_numbers(sessions, folds, options.seed);
    let mut held_out = vec![0.0; sessions.len()];
    let mut agreeing = 0;
    for fold in 0..folds {
        let (inside, outside): (Vec<usize>, Vec<usize>) = all.iter().partition(|session| fold_of[**session] == fold);
        let chosen = best_on(&outside);
        agreeing += usize::from(chosen == best);
        for session in inside {
            held_out[session] = gain_of(chosen, session);
        }
    }
    Some(PolicyChoice {
        best,
        in_sample: bootstrap(&gains, &present, options),
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
