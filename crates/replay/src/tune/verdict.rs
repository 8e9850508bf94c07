//! The verdict of a sweep: what a person should set, and everything that speaks against it.
//!
//! A recommendation has to pass every rule below. One that fails is no recommendation with a footnote: the verdict is then
//! that no difference is shown, with the reasons.

use crate::tune::evidence::{ChoiceOptions, Interval, PolicyChoice, SweepScores, bootstrap, choose};
use crate::tune::score::PolicyScore;
use crate::tune::stretch::{LEAST_WINDOW, stretched_saving};

named_enum! {
    /// What a sweep says.
    pub enum Verdict {
        /// Another policy is shown to be better, and the client can set it.
        Set = "set",
        /// The current policy is shown to be better than every other.
        Keep = "keep",
        /// Neither is shown.
        NoDifference = "no_difference",
    }
}

named_enum! {
    /// Why the best policy is not recommended.
    pub enum Objection {
        /// Its savings on held-out sessions may be zero.
        NotSignificant = "not_significant",
        /// It saves less than the cost model errs.
        BelowModelError = "below_model_error",
        /// It saves on half of the folds or fewer.
        FewFolds = "few_folds",
        /// It lies at the end of the range, which cannot be widened.
        AtEdge = "at_edge",
        /// A neighbor is shown to save less than half of it, or blocks a session.
        Cliff = "cliff",
        /// Without one session nothing is shown.
        OneSession = "one_session",
        /// Another policy wins at the measured price of a miss.
        PriceFlips = "price_flips",
        /// The saving is gone if sessions get longer as in published runs.
        LongerSessions = "longer_sessions",
    }
}

/// What is known about a policy of a sweep apart from its scores.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PointFacts {
    /// Its place on the swept range, such as a threshold in tokens; `None` if it has none.
    pub place: Option<u64>,
    /// Whether the client can be set to it.
    pub is_settable: bool,
    /// Sessions that it blocks, or whose compaction fails, though neither happens under the current policy.
    pub blocked_sessions: u64,
}

impl PointFacts {
    /// Returns whether the policy may be recommended.
    pub fn is_eligible(&self) -> bool {
        self.is_settable && self.blocked_sessions == 0
    }
}

/// Everything that a verdict follows from, apart from the scores.
pub struct VerdictInput<'a> {
    pub points: &'a [PointFacts],
    pub options: ChoiceOptions,
    /// Median absolute error of the cost model, as a share.
    pub model_error: f64,
    /// The measured cost of reading a dropped file again: the least that a miss can cost.
    pub least_miss_cost: Option<f64>,
    /// Mean window without any compaction.
    pub unlimited_window: f64,
}

/// The result without the session that weighs most.
#[derive(Debug, Clone, PartialEq)]
pub struct WithoutSession {
    pub session: String,
    /// What the best policy saves on the others.
    pub saved: Interval,
}

/// A verdict and its grounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    pub verdict: Verdict,
    pub choice: PolicyChoice,
    pub objections: Vec<Objection>,
    /// The share of cost that the best policy saves if sessions get longer as in published runs.
    pub stretched: f64,
    /// The best policy without the session that weighs most.
    pub without: Option<WithoutSession>,
    /// The best policy that the client cannot be set to, if it is better than the best one that it can.
    pub unsettable: Option<(usize, Interval)>,
    /// The best policy of all, if no saving is claimed there: it keeps less than half of the current mean window, or its saving is
    /// gone if sessions get longer as in published runs.
    pub unclaimed: Option<usize>,
    /// Whether that policy keeps less than half of the current mean window.
    pub is_unclaimed_small: bool,
    /// The best policy at the measured price of a miss.
    pub best_at_least_price: Option<usize>,
}

/// Rules on a sweep. Returns `None` without sessions.
pub fn rule(sweep: &SweepScores<'_>, input: &VerdictInput<'_>) -> Option<Ruling> {
    let options = &input.options;
    let totals = sweep.scores.iter().map(PolicyScore::sum).collect::<Vec<_>>();
    let windows = |policy: usize| totals[policy].mean_window();
    let is_small = |policy: usize| windows(policy) < LEAST_WINDOW * windows(0);
    let stretched = |policy: usize| {
        let saved = share_saved(&totals, policy);
        stretched_saving(saved, windows(policy), windows(0), input.unlimited_window)
    };
    let is_thin = |policy: usize| share_saved(&totals, policy) > 0.0 && stretched(policy) <= 0.0;
    let is_claimed = |policy: usize| !is_small(policy) && !is_thin(policy);
    let claimed = (0..totals.len())
        .map(|policy| sweep.eligible[policy] && is_claimed(policy))
        .collect::<Vec<_>>();
    let narrowed = SweepScores {
        eligible: &claimed,
        ..*sweep
    };
    let (unnarrowed, sweep) = (sweep, &narrowed);
    let choice = choose(sweep, options)?;
    let all = (0..sweep.sessions.len()).collect::<Vec<_>>();
    let best = choice.best;
    let best_at_least_price = input
        .least_miss_cost
        .filter(|least| *least < options.miss_cost)
        .map(|least| winner_at(sweep, input, best, least));
    let without = sweep
        .heaviest_session(
            if best == 0 { runner_up(sweep, options) } else { best },
            options.miss_cost,
        )
        .map(|session| {
            let others = all
                .iter()
                .copied()
                .filter(|other| *other != session)
                .collect::<Vec<_>>();
            WithoutSession {
                session: sweep.sessions[session].clone(),
                saved: sweep.saving(best, &others, options),
            }
        })
        .filter(|_| all.len() > 1);
    let mut ruling = Ruling {
        verdict: Verdict::NoDifference,
        objections: Vec::new(),
        stretched: stretched(best),
        without,
        unsettable: best_unsettable(sweep, input, best),
        unclaimed: Some(unnarrowed.best_on(&all, options.miss_cost)).filter(|other| !is_claimed(*other)),
        best_at_least_price,
        is_unclaimed_small: false,
        choice,
    };
    ruling.is_unclaimed_small = ruling.unclaimed.is_some_and(is_small);
    if best == 0 {
        if ruling.unclaimed.is_none() && is_kept(sweep, input, &ruling.choice) {
            ruling.verdict = Verdict::Keep;
        }
        return Some(ruling);
    }
    ruling.objections = find_objections(sweep, input, &ruling);
    if ruling.objections.is_empty() {
        ruling.verdict = Verdict::Set;
    }
    Some(ruling)
}

/// Returns the policy that wins at another price of a miss: `best` if no other is better by more than the cost model errs.
fn winner_at(sweep: &SweepScores<'_>, input: &VerdictInput<'_>, best: usize, price: f64) -> usize {
    let all = (0..sweep.sessions.len()).collect::<Vec<_>>();
    let total = |policy: usize| PolicyScore::sum(&sweep.scores[policy]).objective(price);
    let other = sweep.best_on(&all, price);
    if total(best) - total(other) > input.model_error * total(0) {
        other
    } else {
        best
    }
}

/// Returns the share of the current policy's cost that a policy saves, misses apart.
fn share_saved(totals: &[PolicyScore], policy: usize) -> f64 {
    match totals[0].dollars() {
        present if present > 0.0 => 1.0 - totals[policy].dollars() / present,
        _ => 0.0,
    }
}

/// Returns the best policy apart from the current one; 0 if there is no other.
fn runner_up(sweep: &SweepScores<'_>, options: &ChoiceOptions) -> usize {
    let total = |policy: usize| PolicyScore::sum(&sweep.scores[policy]).objective(options.miss_cost);
    (1..sweep.scores.len())
        .filter(|policy| sweep.eligible[*policy])
        .min_by(|a, b| total(*a).total_cmp(&total(*b)).then(a.cmp(b)))
        .unwrap_or(0)
}

/// Returns whether the current policy is shown to be better: most folds choose it, and even the runner-up is worse by more
/// than the cost model errs.
fn is_kept(sweep: &SweepScores<'_>, input: &VerdictInput<'_>, choice: &PolicyChoice) -> bool {
    let second = runner_up(sweep, &input.options);
    let all = (0..sweep.sessions.len()).collect::<Vec<_>>();
    let saved = sweep.saving(second, &all, &input.options);
    second != 0 && 2 * choice.agreeing_folds > choice.folds && saved.high < 0.0 && -saved.middle > input.model_error
}

/// Returns the best of the policies that only the client's settings rule out, if it beats the best of the others.
fn best_unsettable(sweep: &SweepScores<'_>, input: &VerdictInput<'_>, best: usize) -> Option<(usize, Interval)> {
    let total = |policy: usize| PolicyScore::sum(&sweep.scores[policy]).objective(input.options.miss_cost);
    let found = (1..sweep.scores.len())
        .filter(|policy| !input.points[*policy].is_settable && input.points[*policy].blocked_sessions == 0)
        .min_by(|a, b| total(*a).total_cmp(&total(*b)).then(a.cmp(b)))
        .filter(|policy| total(*policy) < total(best))?;
    let all = (0..sweep.sessions.len()).collect::<Vec<_>>();
    Some((found, sweep.saving(found, &all, &input.options)))
}

fn find_objections(sweep: &SweepScores<'_>, input: &VerdictInput<'_>, ruling: &Ruling) -> Vec<Objection> {
    let choice = &ruling.choice;
    let best = choice.best;
    let rules = [
        (
            Objection::BelowModelError,
            (0.0..=input.model_error).contains(&choice.held_out.middle),
        ),
        (
            Objection::NotSignificant,
            choice.held_out.low <= 0.0 || choice.in_sample.low <= 0.0,
        ),
        (Objection::FewFolds, 2 * choice.agreeing_folds <= choice.folds),
        (Objection::AtEdge, is_at_edge(input.points, best)),
        (Objection::Cliff, has_cliff(sweep, input, best)),
        (
            Objection::OneSession,
            ruling
                .without
                .as_ref()
                .is_some_and(|without| is_decisive(without, choice)),
        ),
        (
            Objection::PriceFlips,
            ruling.best_at_least_price.is_some_and(|other| other != best),
        ),
        (Objection::LongerSessions, ruling.stretched <= 0.0),
    ];
    rules
        .into_iter()
        .filter(|(_, applies)| *applies)
        .map(|(objection, _)| objection)
        .collect()
}

/// Returns whether one session makes the result: without it nothing is shown, although it was with it, or half of the saving is
/// gone.
fn is_decisive(without: &WithoutSession, choice: &PolicyChoice) -> bool {
    let (left, whole) = (&without.saved, &choice.in_sample);
    left.low <= 0.0 && (whole.low > 0.0 || left.middle < whole.middle / 2.0)
}

/// Returns whether no lower point was tried that blocks no session.
pub fn is_at_edge(points: &[PointFacts], policy: usize) -> bool {
    let Some(place) = points[policy].place else {
        return false;
    };
    let mut open = points.iter().filter(|point| point.blocked_sessions == 0);
    !open.any(|point| point.place.is_some_and(|other| other < place))
}

/// Returns whether a neighbor on the swept range blocks a session, or is shown to save less than half as much.
fn has_cliff(sweep: &SweepScores<'_>, input: &VerdictInput<'_>, best: usize) -> bool {
    let Some(place) = input.points[best].place else {
        return false;
    };
    let all = (0..sweep.sessions.len()).collect::<Vec<_>>();
    let gains = |policy: usize| sweep.gains(policy, &all, input.options.miss_cost);
    let (best_gains, present) = gains(best);
    let is_lower = |policy: usize| {
        let short = std::iter::zip(&best_gains, gains(policy).0).map(|(best, other)| best / 2.0 - other);
        bootstrap(&short.collect::<Vec<_>>(), &present, &input.options).low > 0.0
    };
    let placed = || (1..input.points.len()).filter_map(|policy| Some((input.points[policy].place?, policy)));
    let below = placed().filter(|(other, _)| *other < place).max();
    let above = placed().filter(|(other, _)| *other > place).min();
    [below, above]
        .into_iter()
        .flatten()
        .any(|(_, policy)| input.points[policy].blocked_sessions > 0 || is_lower(policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::rng::SplitMix64;

    const DOLLAR: u128 = 1_000_000_000_000;
    const MODEL_ERROR: f64 = 0.018;

    /// Sessions by policy: the cost of each is drawn around a mean that falls by `savings`, with noise of its own.
    fn plant(savings: &[f64], sessions: usize, seed: u64) -> Vec<Vec<PolicyScore>> {
        let mut random = SplitMix64::new(seed);
        let mut scores = vec![Vec::with_capacity(sessions); savings.len()];
        for _ in 0..sessions {
            // A few sessions cost a hundred times as much as most, as in real logs.
            let dollars = 0.2 * 1.25_f64.powi(random.below(24) as i32);
            for (policy, saving) in savings.iter().enumerate() {
                let noise = match policy {
                    0 => 0.0,
                    _ => (random.below(601) as f64 - 300.0) / 1_000.0,
                };
                let cost = dollars * (1.0 - saving + noise);
                scores[policy].push(PolicyScore {
                    cost: (cost * DOLLAR as f64) as u128,
                    calls: 100,
                    window_sum: (100_000 - 5_000 * policy as u128) * 100,
                    window_calls: 100,
                    ..PolicyScore::default()
                });
            }
        }
        scores
    }

    fn facts(count: usize) -> Vec<PointFacts> {
        let point = |policy: usize| PointFacts {
            place: (policy > 0).then(|| 150_000 - 10_000 * policy as u64),
            is_settable: true,
            blocked_sessions: 0,
        };
        (0..count).map(point).collect()
    }

    fn ruling_on(scores: &[Vec<PolicyScore>], points: &[PointFacts], least: Option<f64>, seed: u64) -> Ruling {
        let sessions = (0..scores[0].len())
            .map(|at| format!("session {at}"))
            .collect::<Vec<_>>();
        let eligible = points.iter().map(PointFacts::is_eligible).collect::<Vec<_>>();
        let sweep = SweepScores {
            scores,
            sessions: &sessions,
            eligible: &eligible,
        };
        let input = VerdictInput {
            points,
            options: ChoiceOptions {
                miss_cost: 1.0,
                folds: 5,
                resamples: 200,
                seed,
            },
            model_error: MODEL_ERROR,
            least_miss_cost: least,
            unlimited_window: 120_000.0,
        };
        rule(&sweep, &input).unwrap()
    }

    /// Six policies; the fourth saves `saving`, its neighbors nearly as much, the lowest less.
    fn curve(saving: f64) -> [f64; 6] {
        [0.0, 0.5, 0.8, 1.0, 0.8, 0.5].map(|share| share * saving)
    }

    /// Returns the share of 40 generated corpora with a verdict.
    fn rate(verdict: Verdict, saving: f64, sessions: usize) -> f64 {
        let rulings = (0..40).map(|seed| {
            let scores = plant(&curve(saving), sessions, 1_000 * sessions as u64 + seed);
            ruling_on(&scores, &facts(6), None, seed)
        });
        rulings.filter(|ruling| ruling.verdict == verdict).count() as f64 / 40.0
    }

    #[test]
    fn a_planted_saving_is_recommended_and_nothing_else_is() {
        let rates =
            [0.05, 0.10, 0.20].map(|saving| [30, 100, 300].map(|sessions| rate(Verdict::Set, saving, sessions)));
        assert!(rates[1][2] >= 0.8 && rates[2][2] >= 0.8, "{rates:?}");
        assert!(rates[2][1] >= rates[0][0], "{rates:?}");
        println!("rate of `set` by saving (5, 10, 20 %) and sessions (30, 100, 300): {rates:?}");
        for sessions in [30, 100, 300] {
            assert!(rate(Verdict::Set, 0.0, sessions) <= 0.05, "{sessions}");
        }
    }

    #[test]
    fn relabeled_policies_are_not_recommended() {
        let mut set = 0;
        for seed in 0..40 {
            let mut random = SplitMix64::new(seed);
            let mut scores = plant(&curve(0.10), 100, seed);
            // In every session, deal the scores out to the policies anew.
            for session in 0..100 {
                for policy in (1..scores.len()).rev() {
                    let other = random.below(policy as u64 + 1) as usize;
                    let dealt = scores[other][session];
                    scores[other][session] = scores[policy][session];
                    scores[policy][session] = dealt;
                }
            }
            set += u32::from(ruling_on(&scores, &facts(6), None, seed).verdict == Verdict::Set);
        }
        assert!(set <= 2, "{set} of 40");
    }

    #[test]
    fn a_setting_that_is_better_than_all_others_is_kept() {
        let scores = plant(&[0.0, -0.2, -0.3, -0.4, -0.5, -0.6], 200, 5);
        assert_eq!(ruling_on(&scores, &facts(6), None, 5).verdict, Verdict::Keep);
        let same = plant(&[0.0, 0.0, 0.0, 0.0, 0.0, 0.0], 200, 5);
        assert_eq!(ruling_on(&same, &facts(6), None, 5).verdict, Verdict::NoDifference);
    }

    fn objections(scores: &[Vec<PolicyScore>], points: &[PointFacts], least: Option<f64>) -> Vec<Objection> {
        ruling_on(scores, points, least, 3).objections
    }

    /// Gives policies a mean window.
    fn set_window(scores: &mut [Vec<PolicyScore>], policies: &[usize], tokens: u128) {
        for policy in policies {
            for score in &mut scores[*policy] {
                score.window_sum = tokens * 100;
            }
        }
    }

    #[test]
    fn every_rule_can_object() {
        let scores = plant(&curve(0.20), 300, 7);
        assert_eq!(objections(&scores, &facts(6), None), []);

        let edge = plant(&[0.0, 0.05, 0.1, 0.15, 0.2, 0.25], 300, 7);
        assert_eq!(objections(&edge, &facts(6), None), [Objection::AtEdge]);

        let cliff = plant(&[0.0, 0.1, 0.15, 0.2, -0.3, -0.5], 300, 7);
        assert_eq!(objections(&cliff, &facts(6), None), [Objection::Cliff]);

        let mut blocking = facts(6);
        blocking[4].blocked_sessions = 1;
        assert_eq!(objections(&scores, &blocking, None), [Objection::Cliff]);

        let mut one = plant(&curve(0.0), 300, 7);
        one[0][9].cost = 2_000 * DOLLAR;
        one[3][9].cost = 200 * DOLLAR;
        let ruling = ruling_on(&one, &facts(6), None, 3);
        assert!(ruling.objections.contains(&Objection::OneSession), "{ruling:?}");
        assert_eq!(ruling.without.unwrap().session, "session 9");

        let mut flips = plant(&[0.0, 0.1, 0.18, 0.2, 0.9, 0.91], 300, 7);
        for policy in [4, 5] {
            for score in &mut flips[policy] {
                (score.misses, score.misses_credited) = (30, 30);
            }
        }
        assert!(objections(&flips, &facts(6), Some(0.01)).contains(&Objection::PriceFlips));

        let mut faint = plant(&curve(0.012), 300, 7);
        set_window(&mut faint, &[1, 2, 3, 4, 5], 100_000);
        let faint = objections(&faint, &facts(6), None);
        assert!(faint.contains(&Objection::BelowModelError), "{faint:?}");
    }

    #[test]
    fn what_cannot_be_set_is_shown_apart() {
        let scores = plant(&[0.0, 0.1, 0.15, 0.2, 0.15, 0.4], 300, 7);
        let mut points = facts(6);
        points[5].is_settable = false;
        let ruling = ruling_on(&scores, &points, None, 3);
        assert_eq!((ruling.verdict, ruling.choice.best), (Verdict::Set, 3));
        let (apart, saved) = ruling.unsettable.unwrap();
        assert_eq!(apart, 5);
        assert!(saved.low > 0.3 && saved.high < 0.5, "{saved:?}");
    }

    #[test]
    fn nothing_is_claimed_below_half_of_the_window() {
        let mut scores = plant(&[0.0, 0.1, 0.15, 0.2, 0.4, 0.1], 300, 7);
        set_window(&mut scores, &[4], 30_000);
        let ruling = ruling_on(&scores, &facts(6), None, 3);
        assert_eq!((ruling.verdict, ruling.choice.best), (Verdict::Set, 3));
        assert_eq!((ruling.unclaimed, ruling.is_unclaimed_small), (Some(4), true));
    }

    /// Windows of half the size make sessions longer by exp(0.44 x 49 / 120) = 1.2, so 12 % are gone; those of 95,000 by 1.02.
    #[test]
    fn nothing_is_claimed_that_longer_sessions_would_cost() {
        let mut scores = plant(&[0.0, 0.05, 0.07, 0.06, 0.12, 0.12], 600, 7);
        set_window(&mut scores, &[1, 2, 3], 95_000);
        set_window(&mut scores, &[4, 5], 51_000);
        let ruling = ruling_on(&scores, &facts(6), None, 3);
        assert!((1..=3).contains(&ruling.choice.best), "{ruling:?}");
        assert!(ruling.stretched > 0.0, "{ruling:?}");
        assert!(
            ruling.unclaimed.is_some_and(|other| other >= 4) && !ruling.is_unclaimed_small,
            "{ruling:?}"
        );
    }

    #[test]
    fn a_policy_that_blocks_a_session_is_never_chosen() {
        let scores = plant(&[0.0, 0.1, 0.15, 0.2, 0.15, 0.4], 300, 7);
        let mut points = facts(6);
        points[5].blocked_sessions = 2;
        assert_eq!(ruling_on(&scores, &points, None, 3).choice.best, 3);
    }
}
