//! The replay consumer: a session under a policy, and under the policies that it is compared with. Every policy is replayed
//! once, by the same code.

use crate::commands::compare::Comparison;
use crate::commands::replay_texts::ChainTexts;
use crate::page::rounds::SessionRounds;
use crate::run::SessionView;
use crate::views::compare::{CompareCollector, CompareRow, CompareSide, DifferenceCounts};
use crate::views::replay::{
    ROUND_COLUMNS, ReplayCollector, ReplayDetail, ReplayResult, RoundRow, SCHEMA, SessionRow, TextLosses,
};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::{Event, EventSink};
use replay::sim::oracle::{OracleBound, oracle_bound, oracle_bound_under};
use replay::sim::{BoundaryTextWriter, ReplayInput, ReplayMode, policies_and_prices, replay};
use replay::tune::score::chain_key;
use std::io;
use std::sync::Arc;
use table::stream::{RowBatch, StreamFormat};
use transcript::problem::{Problem, ProblemKind};

/// What a replay gives beside sums.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReplayWants {
    /// Hits and misses; line hashes have to be read for it.
    pub working_set: bool,
    /// Texts in boundaries, and what they lack.
    pub text: bool,
    /// Every event.
    pub events: bool,
    /// Rows of calls, for a file of this format.
    pub round_rows: Option<StreamFormat>,
    /// Calls and boundaries for a page.
    pub page: bool,
}

/// Replays one session after another.
pub struct ReplayConsumer<'a> {
    /// The policy.
    pub policies: &'a PolicySet,
    /// Prices.
    pub prices: &'a PriceTable,
    /// What it is compared with.
    pub compare: Option<&'a Comparison>,
    /// Median size of the summaries of all sessions.
    pub summary: Option<u64>,
    /// What it has to give.
    pub wants: ReplayWants,
}

/// One session, its rounds encoded.
pub struct SessionReplayOutput {
    /// The session under the policy.
    pub row: Arc<SessionRow>,
    /// What else the policy gives; its row is taken.
    pub replayed: ReplayResult,
    /// The session under all policies that are compared.
    pub comparison: Option<CompareRow>,
    /// What the texts of its boundaries lack.
    pub losses: Option<TextLosses>,
    /// Rows of its calls.
    pub batch: io::Result<RowBatch<RoundRow>>,
    /// Its calls for a page.
    pub page_rounds: Option<SessionRounds>,
    /// What was wrong with it.
    pub problems: Vec<Problem>,
}

/// A session under one policy.
#[derive(Default)]
struct PolicyReplay {
    replayed: ReplayResult,
    counts: DifferenceCounts,
    oracle_misses: u64,
}

impl PolicyReplay {
    fn new(view: &SessionView<'_>, has_working_set: bool) -> PolicyReplay {
        let row = SessionRow {
            session: view.id().to_owned(),
            coding_agent: view.coding_agent(),
            project: view.project().to_owned(),
            has_working_set,
            ..SessionRow::default()
        };
        PolicyReplay {
            replayed: ReplayResult {
                row,
                ..ReplayResult::default()
            },
            ..PolicyReplay::default()
        }
    }

    /// Returns the session as one side of a comparison.
    fn to_side(&self, row: &Arc<SessionRow>) -> CompareSide {
        CompareSide {
            row: Arc::clone(row),
            counts: self.counts,
            oracle_misses: self.oracle_misses,
        }
    }
}

impl ReplayConsumer<'_> {
    /// Replays a session.
    pub fn replay(&self, view: &SessionView<'_>) -> SessionReplayOutput {
        let others = self.compare.map_or(&[][..], Comparison::other_policies);
        let mut first = PolicyReplay::new(view, self.wants.working_set);
        let mut other_replays = others
            .iter()
            .map(|_| PolicyReplay::new(view, self.wants.working_set))
            .collect::<Vec<_>>();
        let mut oracle = OracleBound::default();
        let mut losses = self.wants.text.then(TextLosses::default);
        let mut problems = view.threaded().problems.clone();
        let mut page_rounds = self.wants.page.then(|| SessionRounds::of_session(view.id()));
        for chain in 0..view.chains().len() {
            problems.extend(self.replay_first(view, chain, &mut first, losses.as_mut()));
            if let Some(page) = page_rounds.as_mut().filter(|_| self.wants.round_rows.is_none()) {
                page.take_complete(&mut first.replayed.rounds);
            }
            for (policies, replayed) in std::iter::zip(others, &mut other_replays) {
                self.replay_chain(view, chain, policies, ReplayDetail::default(), None, replayed);
            }
            if self.compare.is_some() && !view.trace(chain).is_sidechain {
                oracle.merge(&oracle_bound(view.trace(chain), view.uses(chain)));
            }
        }
        let (calls, cost) = view.progress_only_cost(self.prices);
        for replayed in std::iter::once(&mut first).chain(&mut other_replays) {
            let costs = &mut replayed.replayed.row.costs;
            (costs.progress_calls, costs.progress_cost) = (calls, cost);
        }
        if first.replayed.row.defects > 0 {
            let detail = format!("replay of session {}", view.id());
            problems.push(Problem::file(&view.logs()[0].path, ProblemKind::Internal, detail));
        }
        let row = Arc::new(std::mem::take(&mut first.replayed.row));
        let comparison = self.compare.map(|compare| {
            let other_rows = other_replays.iter_mut().map(|other| {
                let other = std::mem::take(&mut other.replayed.row);
                if other == *row {
                    Arc::clone(&row)
                } else {
                    Arc::new(other)
                }
            });
            let other_rows = other_rows.collect::<Vec<_>>();
            CompareRow {
                session: row.session.clone(),
                coding_agent: row.coding_agent,
                project: row.project.clone(),
                sides: compare.sides(|number| match number {
                    0 => first.to_side(&row),
                    other => other_replays[other - 1].to_side(&other_rows[other - 1]),
                }),
                oracle,
            }
        });
        SessionReplayOutput {
            row,
            comparison,
            losses,
            problems,
            ..self.finish(first.replayed, page_rounds)
        }
    }

    /// Replays a chain under the policy, with everything that is wanted. Returns the logs that could not be read again.
    fn replay_first(
        &self,
        view: &SessionView<'_>,
        chain: usize,
        first: &mut PolicyReplay,
        losses: Option<&mut TextLosses>,
    ) -> Vec<Problem> {
        let wants_rows = self.wants.round_rows.is_some() || self.wants.page;
        let detail = ReplayDetail {
            rounds: wants_rows,
            boundaries: wants_rows,
            events: self.wants.events,
        };
        let trace = view.trace(chain);
        let Some(losses) = losses.filter(|_| !trace.is_sidechain) else {
            self.replay_chain(view, chain, self.policies, detail, None, first);
            return Vec::new();
        };
        let (conversation, problems) = view.read_conversation(chain);
        let (by_version, _) = policies_and_prices(self.policies, self.prices, trace);
        let texts = by_version
            .last()
            .map(|policy| ChainTexts::new(&conversation, trace, policy));
        let first_boundary = first.replayed.boundaries.len();
        self.replay_chain(view, chain, self.policies, detail, texts.as_ref(), first);
        if let Some(texts) = &texts {
            losses.add(texts.collect_losses(&mut first.replayed.boundaries[first_boundary..]));
        }
        problems
    }

    /// Replays a chain under a policy.
    fn replay_chain(
        &self,
        view: &SessionView<'_>,
        chain: usize,
        policies: &PolicySet,
        detail: ReplayDetail,
        texts: Option<&ChainTexts<'_>>,
        out: &mut PolicyReplay,
    ) {
        let trace = view.trace(chain);
        let (by_version, by_model) = policies_and_prices(policies, self.prices, trace);
        let windows = view.infer_windows(trace, &by_version, &by_model);
        let uses = self.wants.working_set.then(|| view.uses(chain));
        let input = ReplayInput {
            policies: &by_version,
            prices: &by_model,
            windows: &windows,
            summary: self.summary,
            mode: ReplayMode::Free,
            uses,
            texts: texts.map(|texts| texts as &dyn BoundaryTextWriter),
            key: chain_key(view.id(), chain),
        };
        let session = Some(view.session());
        let collector = ReplayCollector::new(
            view.id(),
            session,
            trace,
            &windows,
            &by_model,
            &mut out.replayed,
            detail,
        );
        let mut collector = CompareCollector::new(collector, trace, &mut out.counts);
        replay(trace, &input, &mut |at: u32, event: &Event<'_>| {
            if let Some(texts) = texts {
                texts.record_event(at, event);
            }
            collector.on_event(at, event);
        });
        let peak = collector.finish();
        if let Some(uses) = uses.filter(|_| self.compare.is_some()) {
            out.oracle_misses += oracle_bound_under(trace, uses, peak).misses;
        }
    }

    /// Encodes the calls of a session.
    fn finish(&self, mut replayed: ReplayResult, page_rounds: Option<SessionRounds>) -> SessionReplayOutput {
        let mut rounds = std::mem::take(&mut replayed.rounds);
        let page_rounds = page_rounds.map(|page| page.finish(&rounds));
        if self.wants.round_rows.is_none() {
            rounds.clear();
        }
        let format = self.wants.round_rows.unwrap_or_default();
        SessionReplayOutput {
            row: Arc::default(),
            page_rounds,
            batch: RowBatch::new(format, SCHEMA, ROUND_COLUMNS, rounds),
            replayed,
            comparison: None,
            losses: None,
            problems: Vec::new(),
        }
    }
}
