//! The Pareto front: the policies worth choosing between, and the price of a miss at which the choice flips.

use crate::tune::score::PolicyScore;

/// Returns the objectives of a policy, smaller is better: cost, misses, missed uses at risk, model calls, mean window.
fn weights(score: &PolicyScore) -> [f64; 5] {
    [
        score.dollars(),
        score.midpoint_misses() + score.blocked as f64,
        score.at_risk_misses as f64,
        score.model_calls as f64,
        score.mean_window(),
    ]
}

/// Returns the policies that no other policy beats in every objective, by cost. Of equal policies the first is returned.
pub fn pareto(scores: &[PolicyScore]) -> Vec<usize> {
    let all = scores.iter().map(weights).collect::<Vec<_>>();
    let beats = |a: &[f64; 5], b: &[f64; 5]| std::iter::zip(a, b).all(|(a, b)| a <= b);
    let mut front = (0..scores.len())
        .filter(|&one| {
            !(0..scores.len())
                .any(|other| other != one && beats(&all[other], &all[one]) && (all[other] != all[one] || other < one))
        })
        .collect::<Vec<_>>();
    front.sort_by(|a, b| all[*a][0].total_cmp(&all[*b][0]).then(a.cmp(b)));
    front
}

/// Returns how many micro-dollars a policy on the front saves per additional miss, compared with the next more expensive
/// one that misses less. `None` if it is not on the front or no such policy follows.
pub fn saved_per_miss(scores: &[PolicyScore], front: &[usize], one: usize) -> Option<u64> {
    let place = front.iter().position(|at| *at == one)?;
    let misses = |at: usize| scores[at].midpoint_misses() + scores[at].blocked as f64;
    let next = front[place + 1..].iter().find(|next| misses(**next) < misses(one))?;
    let saved = scores[*next].dollars() - scores[one].dollars();
    Some((1e6 * saved / (misses(one) - misses(*next))).round() as u64)
}

/// A step along the front to a policy that costs more and misses less.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrontStep {
    /// The cheaper policy.
    pub from: usize,
    /// The policy with fewer misses.
    pub to: usize,
    /// Dollars per miss at which both are equally good. Below that price the cheaper one is better.
    pub dollars_per_miss: f64,
}

/// Returns where the choice flips as the price of a miss rises: the lower convex hull of misses and cost, starting at the
/// cheapest policy.
pub fn find_flips(scores: &[PolicyScore]) -> Vec<FrontStep> {
    let place = |at: usize| {
        (
            scores[at].midpoint_misses() + scores[at].blocked as f64,
            scores[at].dollars(),
        )
    };
    let cheapest = |a: &usize, b: &usize| {
        let ((misses_a, cost_a), (misses_b, cost_b)) = (place(*a), place(*b));
        cost_a
            .total_cmp(&cost_b)
            .then(misses_a.total_cmp(&misses_b))
            .then(a.cmp(b))
    };
    let Some(mut at) = (0..scores.len()).min_by(cheapest) else {
        return Vec::new();
    };
    let mut steps = Vec::new();
    loop {
        let (misses, cost) = place(at);
        let better = (0..scores.len()).filter(|other| place(*other).0 < misses);
        let price = |other: usize| (place(other).1 - cost) / (misses - place(other).0);
        let next = better.min_by(|a, b| {
            price(*a)
                .total_cmp(&price(*b))
                .then(place(*a).0.total_cmp(&place(*b).0))
                .then(a.cmp(b))
        });
        let Some(next) = next else { return steps };
        steps.push(FrontStep {
            from: at,
            to: next,
            dollars_per_miss: price(next),
        });
        at = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn score(dollars: u64, misses: u64) -> PolicyScore {
        PolicyScore {
            cost: u128::from(dollars) * 1_000_000_000_000,
            misses,
            misses_credited: misses,
            ..PolicyScore::default()
        }
    }

    #[test]
    fn what_is_beaten_in_everything_is_not_on_the_front() {
        let scores = [score(10, 0), score(8, 2), score(9, 3), score(5, 9), score(8, 2)];
        assert_eq!(pareto(&scores), [3, 1, 0]);
    }

    #[test]
    fn savings_per_miss_follow_the_front() {
        let scores = [score(10, 0), score(8, 2), score(9, 3), score(5, 9), score(8, 2)];
        let front = pareto(&scores);
        let saved = (0..scores.len()).map(|at| saved_per_miss(&scores, &front, at));
        let (steep, flat) = (Some(1_000_000), Some(3_000_000 / 7));
        assert_eq!(saved.collect::<Vec<_>>(), [None, steep, None, flat, None]);
    }

    #[test]
    fn the_choice_flips_where_a_miss_is_worth_the_difference() {
        let scores = [score(10, 0), score(8, 2), score(9, 1), score(5, 9)];
        let steps = find_flips(&scores);
        let flips = steps
            .iter()
            .map(|step| (step.from, step.to, step.dollars_per_miss))
            .collect::<Vec<_>>();
        assert_eq!(flips, [(3, 1, 3.0 / 7.0), (1, 0, 1.0)]);
        assert!(find_flips(&[]).is_empty());
    }
}
