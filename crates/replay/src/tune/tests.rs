//! Tests that the search finds a planted optimum, and reports no difference where there is none.
//!
//! Sessions are generated traces: every call reads a file, and some calls edit a file that was read a while ago. A low
//! threshold makes prompts cheaper but loses files before they are edited. With a price for a miss there is a best
//! threshold, which a large pool of sessions shows. Searches then run on small samples of the pool.

use crate::policy::presets::{ClientVersion, PolicySet};
use crate::prices::PriceTable;
use crate::sim::trace::{Call, CallOutput, NONE, Trace, TraceItem, flag};
use crate::sim::uses::{FileUse, FileUses, ItemLists};
use crate::tokens::ledger::Category;
use crate::tune::evidence::{ChoiceOptions, PolicyChoice, SweepScores, choose};
use crate::tune::rng::SplitMix64;
use crate::tune::score::{PolicyScore, PreparedChain, PreparedSession};
use crate::tune::space::{SweepPoint, grid, parse_axis};
use crate::windows::ProjectWindows;
use transcript::record::Tokens;

const MISS_COST: f64 = 0.2;
const POOL: usize = 600;
const SAMPLE: usize = 60;

fn item(category: Category, tokens: u32) -> TraceItem {
    TraceItem {
        tokens,
        quarters: tokens,
        category,
        flags: flag::STARTS_RECORD,
        images: 0,
        tool: 0,
        pair: NONE,
        path: 0,
    }
}

/// Returns a call that sends `sent` tokens, `read` of them new, and answers with 300.
fn call(at: u32, first: u32, read: u32, sent: u64) -> Call {
    let usage = Tokens {
        input: 2,
        output: 300,
        cache_write: u64::from(read),
        cache_write_1h: 0,
        cache_read: sent - u64::from(read) - 2,
    };
    Call {
        inputs: first..first + 1,
        response: first + 1..first + 2,
        time: i64::from(at) * 30_000,
        input_time: i64::from(at) * 30_000,
        starts_turn: at == 0,
        tool_calls: 1,
        usage: Some(usage),
        output: CallOutput {
            tokens: 300,
            recorded: 300,
            first_line: 300,
            later_lines: 0,
            later_text: 0,
        },
        ..Call::default()
    }
}

/// Generates a session.
fn session(seed: u64) -> PreparedSession<'static> {
    let mut random = SplitMix64::new(seed);
    let mut trace = Trace {
        tools: vec![String::new()],
        paths: vec![String::new(), "file".to_owned()],
        models: vec!["claude-opus-4-5".to_owned()],
        versions: vec![ClientVersion([2, 1, 31])],
        base: 20_000,
        base_is_known: true,
        ..Trace::default()
    };
    let mut uses = FileUses {
        lists: ItemLists::default(),
        ..FileUses::default()
    };
    let calls = 100 + random.below(60) as u32;
    let mut sent = 20_000;
    for at in 0..calls {
        let first = trace.items.len() as u32;
        let read = 2_000 + random.below(2_000) as u32;
        trace.items.push(item(Category::ToolResult, read));
        trace.items.push(item(Category::Text, 300));
        sent += u64::from(read);
        let back = 1 + random.below(12) as u32;
        if at > back && random.below(3) == 0 {
            let list = uses.lists.add([first - 2 * back]);
            uses.uses.push(FileUse {
                call: at,
                item: first + 1,
                path: 1,
                lines: list..list + 1,
                distance: back * 3_000,
                tool: 0,
            });
        }
        trace.calls.push(call(at, first, read, sent));
        sent += 300;
    }
    let end = trace.items.len() as u32;
    trace.tail = end..end;
    PreparedSession {
        id: format!("session {seed}"),
        project: String::new(),
        chains: vec![PreparedChain::new(
            trace,
            uses,
            PriceTable::built_in(),
            ProjectWindows::default(),
        )],
    }
}

/// Returns the scores of every policy in every session of the pool.
fn pool(points: &[SweepPoint]) -> Vec<Vec<PolicyScore>> {
    let mut base = PolicySet::preset("client-2.1.30").unwrap();
    base.assign("window.tokens=200000", "test").unwrap();
    let sessions = (0..POOL as u64).map(session).collect::<Vec<_>>();
    let score = |point: &SweepPoint| {
        let policies = point.policies(&base).unwrap();
        let replay = |session: &PreparedSession<'_>| session.replay(&policies, Some(3_000));
        sessions.iter().map(replay).collect()
    };
    points.iter().map(score).collect()
}

fn points(vary: &str) -> Vec<SweepPoint> {
    let tried = grid(&[parse_axis(vary, 100).unwrap()], 100).unwrap();
    std::iter::once(SweepPoint { settings: Vec::new() })
        .chain(tried)
        .collect()
}

/// Runs a search on a sample of the pool.
fn search(pool: &[Vec<PolicyScore>], seed: u64) -> PolicyChoice {
    let mut random = SplitMix64::new(seed);
    let sample = (0..SAMPLE)
        .map(|_| random.below(POOL as u64) as usize)
        .collect::<Vec<_>>();
    let scores = pool
        .iter()
        .map(|scores| sample.iter().map(|at| scores[*at]).collect())
        .collect::<Vec<_>>();
    let names = sample
        .iter()
        .enumerate()
        .map(|(at, session)| format!("{at} {session}"))
        .collect::<Vec<_>>();
    let options = ChoiceOptions {
        miss_cost: MISS_COST,
        folds: 5,
        resamples: 400,
        seed,
    };
    let sweep = SweepScores {
        scores: &scores,
        sessions: &names,
        eligible: &vec![true; scores.len()],
    };
    choose(&sweep, &options).unwrap()
}

fn objective(scores: &[PolicyScore]) -> f64 {
    PolicyScore::sum(scores).objective(MISS_COST)
}

#[test]
fn a_planted_threshold_is_found_and_its_interval_is_honest() {
    let points = points("window.percent=30..90:30");
    let pool = pool(&points);
    let truth = pool.iter().map(|scores| objective(scores)).collect::<Vec<_>>();
    let best = (0..points.len())
        .min_by(|a, b| truth[*a].total_cmp(&truth[*b]))
        .unwrap();
    assert!(
        best != 0 && best != 1 && best + 1 != points.len(),
        "the best lies inside the range: {truth:?}"
    );
    let gain = 1.0 - truth[best] / truth[0];
    let (mut found, mut covered, mut held) = (0, 0, 0);
    for seed in 0..100 {
        let choice = search(&pool, seed);
        found += u32::from(choice.best == best);
        held += u32::from(choice.is_significant());
        covered += u32::from(choice.in_sample.low <= gain && gain <= choice.in_sample.high);
    }
    assert!(found >= 90, "found in {found} of 100: {truth:?}");
    assert!(covered >= 90, "covered in {covered} of 100");
    assert!(held >= 90, "shown in {held} of 100");
}

#[test]
fn where_there_is_no_difference_none_is_shown() {
    let points = points("micro.placeholder=1..9:2");
    let pool = pool(&points);
    for seed in 0..100 {
        let choice = search(&pool, seed);
        assert!(!choice.is_significant(), "{choice:?}");
    }
}

#[test]
fn noise_is_not_taken_for_a_difference() {
    // Eight policies with the same scores, each with random noise of its own. The noise is drawn anew for every search:
    // over one fixed draw, a policy that happens to be cheaper on the whole pool would be a real difference.
    let one = &pool(&points("micro.placeholder=1"))[0];
    let mut random = SplitMix64::new(1);
    let mut add_noise = |score: &PolicyScore| {
        let factor = 900 + u128::from(random.below(201));
        PolicyScore {
            cost: score.cost * factor / 1_000,
            ..*score
        }
    };
    let mut shown = 0;
    for seed in 0..100 {
        let noisy = (0..8).map(|_| one.iter().map(&mut add_noise).collect());
        let choice = search(&noisy.collect::<Vec<_>>(), seed);
        shown += u32::from(choice.is_significant());
    }
    assert!(shown <= 10, "a difference shown in {shown} of 100");
}

#[test]
fn points_that_are_alike_come_to_what_each_comes_to_alone() {
    let base = PolicySet::preset("client-2.1.30").unwrap();
    let sessions = (0..20).map(session).collect::<Vec<_>>();
    let mut quiet = 0;
    for percent in ["30", "90"] {
        let vary = ["compact.summary_tokens=1000,4000", "restore.files=0,5"].map(|text| parse_axis(text, 100).unwrap());
        let mut points = grid(&vary, 100).unwrap();
        for point in &mut points {
            let threshold = grid(&[parse_axis(&format!("window.percent={percent}"), 1).unwrap()], 1).unwrap();
            point.settings.extend(threshold[0].settings.clone());
        }
        assert!(
            points
                .iter()
                .all(|point| point.is_equivalent_without_compaction(&points[0]))
        );
        let policies = points
            .iter()
            .map(|point| point.policies(&base).unwrap())
            .collect::<Vec<_>>();
        for session in &sessions {
            let alone = policies
                .iter()
                .map(|policies| session.replay(policies, None))
                .collect::<Vec<_>>();
            assert_eq!(session.replay_equivalent(&policies, None), alone);
            quiet += usize::from(alone.iter().all(|score| score.compactions == 0));
        }
    }
    assert!(
        0 < quiet && quiet < 40,
        "some sessions compact and some do not: {quiet}"
    );
    let apart = points("window.percent=40,60");
    assert!(!apart[1].is_equivalent_without_compaction(&apart[2]));
}

#[test]
fn the_same_seed_gives_the_same_choice() {
    let pool = pool(&points("window.percent=40,60"));
    assert_eq!(search(&pool, 3), search(&pool, 3));
}
