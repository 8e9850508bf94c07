//! Whether a choice holds: on sessions it was not made on, and with an interval.

use crate::tune::score::PolicyScore;
use crate::tune::search::shuffled;

/// A share of cost saved, with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// The estimate.
    pub middle: f64,
    /// Lower end of 95 %.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// What a choice is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyChoice {
    /// The policy that is best on all sessions.
    pub best: usize,
    /// What it saves against the present policy, on all sessions: optimistic, because it was chosen on them.
    pub in_sample: Interval,
    /// What choosing saves on sessions that had no say in the choice.
    pub held_out: Interval,
    /// How often each fold chose the same as all sessions together.
    pub agreeing_folds: usize,
    /// Folds.
    pub folds: usize,
}

impl PolicyChoice {
    /// Whether a difference is shown.
    pub fn is_significant(&self) -> bool {
        self.best != 0 && self.held_out.low > 0.0
    }
}

/// How sure one wants to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChoiceOptions {
    /// What a miss is worth in dollars.
    pub miss_cost: f64,
    /// Parts that sessions are split into.
    pub folds: usize,
    /// Resamples.
    pub resamples: usize,
    /// Same seed, same result.
    pub seed: u64,
}

/// Chooses among policies. `scores[policy][session]`; policy 0 is the present one. `None` without sessions.
pub fn choose(scores: &[Vec<PolicyScore>], sessions: &[String], rigour: &ChoiceOptions) -> Option<PolicyChoice> {
    if sessions.is_empty() || scores.is_empty() {
        return None;
    }
    let objective = |policy: usize, session: usize| scores[policy][session].objective(rigour.miss_cost);
    let all = (0..sessions.len()).collect::<Vec<_>>();
    let best_on = |wanted: &[usize]| {
        let total = |policy: usize| wanted.iter().map(|session| objective(policy, *session)).sum::<f64>();
        let totals = (0..scores.len()).map(total).collect::<Vec<_>>();
        // Of equals the first, and the present policy before all others.
        let policies = 0..scores.len();
        policies
            .min_by(|a, b| totals[*a].total_cmp(&totals[*b]).then(a.cmp(b)))
            .unwrap_or(0)
    };
    let best = best_on(&all);
    let present = all.iter().map(|session| objective(0, *session)).collect::<Vec<_>>();
    let gain_of = |policy: usize, session: usize| present[session] - objective(policy, session);
    let gains = all.iter().map(|session| gain_of(best, *session)).collect::<Vec<_>>();

    let folds = rigour.folds.clamp(2, sessions.len().max(2));
    let fold_of = fold_numbers(sessions, folds, rigour.seed);
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
        in_sample: bootstrap(&gains, &present, rigour),
        held_out: bootstrap(&held_out, &present, rigour),
        agreeing_folds: agreeing,
        folds,
    })
}

/// Numbers of folds, by a shuffle of the sessions that depends on their names and the seed alone.
fn fold_numbers(sessions: &[String], folds: usize, seed: u64) -> Vec<usize> {
    let order = shuffled(sessions.iter().map(String::as_str), seed);
    let mut fold_of = vec![0; sessions.len()];
    for (place, session) in order.into_iter().enumerate() {
        fold_of[session] = place % folds;
    }
    fold_of
}

/// Share of `whole` that `parts` are, with the interval that resampling sessions gives.
pub fn bootstrap(parts: &[f64], whole: &[f64], rigour: &ChoiceOptions) -> Interval {
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
    let middle = share(parts.iter().sum(), whole.iter().sum());
    let count = parts.len() as u64;
    let mut random = SplitMix64(rigour.seed ^ 0x5eed);
    let mut shares = (0..rigour.resamples.max(1))
        .map(|_| {
            let (mut part, mut all) = (0.0, 0.0);
            for _ in 0..count {
                let session = (random.next() % count) as usize;
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

/// A small generator whose numbers depend on its seed alone.
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        value ^ (value >> 31)
    }
}
