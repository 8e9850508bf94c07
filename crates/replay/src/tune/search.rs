//! Search methods: which policies are replayed on how many sessions.

use crate::tune::score::PolicyScore;

/// How the space of policies is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SearchMethod {
    /// Every combination on all sessions.
    #[default]
    Grid,
    /// Combinations picked by the seed, on all sessions.
    Random,
    /// Every combination on a few sessions, the better half on twice as many, and so on.
    Halving,
}

/// Sessions of the first round of a halving search: enough to separate the worst policies from the rest.
const FIRST_ROUND_SESSIONS: usize = 16;

/// Returns the number of sessions of each round of a search over `points` policies and `sessions` sessions.
pub fn round_sizes(search: SearchMethod, points: usize, sessions: usize) -> Vec<usize> {
    if search != SearchMethod::Halving {
        return vec![sessions];
    }
    let mut sizes = Vec::new();
    let (mut size, mut left) = (FIRST_ROUND_SESSIONS.min(sessions), points);
    while size < sessions && left > 4 {
        sizes.push(size);
        size = (size * 2).min(sessions);
        left = left.div_ceil(2);
    }
    sizes.push(sessions);
    sizes
}

/// Returns the policies that go on to the next round: the better half, everything on the front, and the current policy
/// (number 0).
pub fn survivors(policies: &[usize], scores: &[PolicyScore], miss_cost: f64) -> Vec<usize> {
    let mut order = (0..policies.len()).collect::<Vec<_>>();
    let objective = |at: usize| scores[at].objective(miss_cost);
    order.sort_by(|a, b| objective(*a).total_cmp(&objective(*b)).then(a.cmp(b)));
    order.truncate(policies.len().div_ceil(2));
    let mut kept = order.into_iter().map(|at| policies[at]).collect::<Vec<_>>();
    kept.extend(
        super::front::find_flips(scores)
            .iter()
            .flat_map(|step| [policies[step.from], policies[step.to]]),
    );
    kept.extend(policies.iter().copied().filter(|policy| *policy == 0));
    kept.sort_unstable();
    kept.dedup();
    kept
}

/// Returns the numbers of the sessions in an order that depends on their names and the seed alone.
pub fn shuffled<'a>(names: impl Iterator<Item = &'a str>, seed: u64) -> Vec<usize> {
    let hashes = names.map(|name| xxhash_rust::xxh3::xxh3_64_with_seed(name.as_bytes(), seed));
    let mut order = hashes.zip(0..).collect::<Vec<(u64, usize)>>();
    order.sort_unstable();
    order.into_iter().map(|(_, at)| at).collect()
}
