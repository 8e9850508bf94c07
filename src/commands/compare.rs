//! `backcast replay --compare`: two policies side by side on the same sessions.

use crate::commands::policy::load_policy;
use crate::commands::replay::ReplayArgs;
use crate::views::compare::{CompareCollector, CompareRow};
use crate::views::replay::{ReplayCollector, ReplayDetail, ReplayResult};
use anyhow::Result;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::oracle::{oracle_bound, oracle_bound_under};
use replay::sim::trace::Trace;
use replay::sim::uses::FileUses;
use replay::sim::{ReplayInput, ReplayMode, infer_replay_windows, policies_and_prices, replay};
use transcript::thread::Session;

/// What the policy is held against.
pub struct Comparison {
    /// Both policies, as the command line has them.
    pub names: [String; 2],
    /// The other policy.
    pub second: PolicySet,
    /// The bound that drops nothing.
    no_compaction: PolicySet,
}

/// A chain to replay.
pub struct ComparedChain<'a> {
    /// Its session.
    pub session: &'a Session<'a>,
    /// The chain itself.
    pub trace: &'a Trace,
    /// What it used.
    pub uses: &'a FileUses,
    /// Median size of the summaries of the corpus.
    pub summary: Option<u64>,
    /// Names the chain.
    pub key: u64,
}

impl Comparison {
    /// The policy that `--compare` names, if it is given. The window of the model is a fact about the sessions, so it is
    /// the same for both; everything else that was set belongs to the first.
    pub fn new(args: &ReplayArgs, first: &PolicySet) -> Result<Option<Comparison>> {
        let Some(name) = &args.compare else { return Ok(None) };
        let mut second = load_policy(name)?;
        if let Some(window) = args.policy.window {
            second.assign(&format!("window.tokens={window}"), "--window")?;
        }
        for assignment in &args.compare_set {
            second.assign(assignment, "--compare-set")?;
        }
        let names = [(first, &args.policy.set), (&second, &args.compare_set)]
            .map(|(policies, set)| [std::slice::from_ref(&policies.name), set].concat().join(" "));
        Ok(Some(Comparison {
            names,
            second,
            no_compaction: load_policy("never")?,
        }))
    }

    /// Replays a chain under both policies and the bounds.
    pub fn replay_chain(
        &self,
        first: &PolicySet,
        prices: &PriceTable,
        chain: &ComparedChain<'_>,
        row: &mut CompareRow,
    ) {
        let trace = chain.trace;
        for (policies, side) in std::iter::zip([first, &self.second, &self.no_compaction], &mut row.sides) {
            let (by_version, by_model) = policies_and_prices(policies, prices, trace);
            let windows = infer_replay_windows(trace, &by_version, &by_model);
            let mut replayed = ReplayResult {
                row: std::mem::take(&mut side.row),
                ..ReplayResult::default()
            };
            replayed.row.has_working_set = true;
            let detail = ReplayDetail::default();
            let collector = ReplayCollector::new(
                chain.session.id,
                Some(chain.session),
                trace,
                &windows,
                &by_model,
                &mut replayed,
                detail,
            );
            let mut watch = CompareCollector::new(collector, trace, &mut side.counts);
            let setting = ReplayInput {
                policies: &by_version,
                prices: &by_model,
                windows: &windows,
                summary: chain.summary,
                mode: ReplayMode::Free,
                uses: Some(chain.uses),
                texts: None,
                key: chain.key,
            };
            replay(trace, &setting, &mut watch);
            let peak = watch.finish();
            side.row = replayed.row;
            side.oracle_misses += oracle_bound_under(trace, chain.uses, peak).misses;
        }
        if !trace.is_sidechain {
            row.oracle.merge(&oracle_bound(trace, chain.uses));
        }
    }
}
