//! What one session adds up to: its API calls, its ledger, its window over time.
//!
//! Pure: takes threaded records, gives numbers. Calls are merged inside the session here; merging across sessions is the
//! work of `super::summary`.

mod calls;
mod records;
mod threads;

pub use calls::{BilledCall, CallIndex, CallPlace};
pub use records::session_project;
pub use threads::{SizedStretch, ThreadTotals, split_into_stretches};

use crate::usage::compact::{SharedText, Sparse, TextPool};
use crate::usage::title::SessionTitle;
use calls::inner_call_key;
use records::{NameInterner, RecordedBoundaries, count_records, is_billed, pull_links};
use replay::sim::trace::{BoundaryTrigger, find_boundaries};
use replay::tokens::calibrate::{RoundSize, UnfitReason};
use replay::tokens::ledger::LedgerEntries;
use replay::tokens::reads::ReadTotals;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use transcript::agents::Agent;
use transcript::log::{NO_TIME, RecordKind, Time};
use transcript::problem::Problem;
use transcript::thread::{Node, Session, is_client_chain};

/// Times that count; both ends included and excluded as ranges go.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimeRange {
    /// From here on.
    pub since: Option<Time>,
    /// Up to, but not including.
    pub until: Option<Time>,
}

impl TimeRange {
    /// Whether every time counts.
    pub fn is_unbounded(&self) -> bool {
        self.since.is_none() && self.until.is_none()
    }

    /// Whether a time counts. Without limits everything does, also what has no time.
    pub fn contains(&self, time: Time) -> bool {
        match (self.since, self.until) {
            (None, None) => true,
            _ if time == NO_TIME => false,
            (since, until) => since.is_none_or(|since| time >= since) && until.is_none_or(|until| time < until),
        }
    }
}

/// What a report is to hold.
#[derive(Debug, Clone, Copy, Default)]
pub struct ReportOptions {
    /// Times that count.
    pub filter: TimeRange,
    /// Whether to say how well each round was predicted.
    pub predictions: bool,
}

/// The window of the main chain over its rounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Rounds with a known window.
    pub rounds: u64,
    /// Largest.
    pub peak: u64,
    /// Sum, for the mean.
    pub sum: u128,
    /// At the last round.
    pub last: u64,
    /// System prompt and tools at the first call.
    pub base: Option<u64>,
}

impl Occupancy {
    fn add(&mut self, round: &RoundSize) {
        if let Some(context) = round.context() {
            self.rounds += 1;
            self.peak = self.peak.max(context);
            self.sum += u128::from(context);
            self.last = context;
        }
        if self.base.is_none() {
            self.base = round.base.map(|base| base.round() as u64);
        }
    }

    /// Mean over the rounds.
    pub fn mean(&self) -> Option<u64> {
        (self.rounds > 0).then(|| (self.sum / u128::from(self.rounds)) as u64)
    }
}

/// Boundaries by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundaryCounts {
    /// Automatic compactions.
    pub auto: u64,
    /// Compactions that a person asked for.
    pub manual: u64,
    /// Summaries by old clients that wrote no boundary.
    pub unknown: u64,
    /// Recorded micro-compactions.
    pub micro: u64,
    /// Those that the filters leave out, of any kind; in no other count.
    pub unselected: u64,
}

impl BoundaryCounts {
    /// Returns the number of boundaries of all kinds.
    pub fn total(&self) -> u64 {
        self.compactions() + self.micro
    }

    /// Returns the number of compactions, micro-compactions left out.
    pub fn compactions(&self) -> u64 {
        self.auto + self.manual + self.unknown
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &BoundaryCounts) {
        self.auto += other.auto;
        self.manual += other.manual;
        self.unknown += other.unknown;
        self.micro += other.micro;
        self.unselected += other.unselected;
    }

    /// Adds the boundaries among the input records of a call.
    fn add_inputs(&mut self, session: &Session<'_>, inputs: &[Node], filter: TimeRange) {
        find_boundaries(session, inputs, |node, trigger| {
            let record = session.record(node);
            if session.is_copied(node) {
                return;
            }
            if !filter.contains(record.time) {
                self.unselected += 1;
                return;
            }
            *match (record.kind, trigger) {
                (RecordKind::MicroBoundary, _) => &mut self.micro,
                (_, BoundaryTrigger::Auto) => &mut self.auto,
                (_, BoundaryTrigger::Manual) => &mut self.manual,
                (_, BoundaryTrigger::Unknown) => &mut self.unknown,
            } += 1;
        });
    }
}

/// How well a round was predicted from the one before.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Number of the model.
    pub model: u32,
    /// Predicted minus actual.
    pub error: f64,
    /// The same with characters / 4.
    pub naive_error: f64,
    /// What the model was really sent.
    pub actual: f64,
}

/// A session in numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SessionReport {
    /// Its id.
    pub id: String,
    /// The coding agent that wrote its logs.
    pub coding_agent: Agent,
    /// Strings that calls refer to; number 0 is empty.
    pub names: Vec<SharedText>,
    /// Its title.
    pub title: SessionTitle,
    /// Its pull requests, each with the time of the link, in the order of time.
    pub pulls: Sparse<Vec<(Time, String)>>,
    /// Working directory of its first record.
    pub project: SharedText,
    /// First and last time of its own records.
    pub times: Option<(Time, Time)>,
    /// Client version of its last record.
    pub version: SharedText,
    /// Its calls, copies included.
    pub calls: Vec<BilledCall>,
    /// Calls that are repeated in its conversations under other ids: a replay makes them again.
    pub retold: Sparse<Vec<BilledCall>>,
    /// What its tokens were spent on, copies left out.
    pub ledger: LedgerEntries,
    /// Tokens on rewound branches (estimated), not in the ledger.
    pub rewound: Sparse<LedgerEntries>,
    /// Rewound branches.
    pub branches: u64,
    /// Sub-agents.
    pub subagents: u64,
    /// Prompts that people typed.
    pub prompts: u64,
    /// Records that another session owns.
    pub copied_records: u64,
    /// The window of the main chain.
    pub occupancy: Occupancy,
    /// Its boundaries, wherever they are.
    pub boundaries: Sparse<BoundaryCounts>,
    /// Those that its conversations go through: what an audit lists and a replay meets.
    pub chain_boundaries: Sparse<BoundaryCounts>,
    /// Automatic compactions that none goes through, and that a replay is compared with nevertheless.
    pub off_chain_auto: u64,
    /// Calls of its conversations whose usage the log does not have. They are replayed, and no other figure has them.
    pub unbilled: u64,
    /// Files read more than once.
    pub reads: Sparse<ReadTotals>,
    /// How well rounds are predicted.
    pub predictions: Sparse<Vec<Prediction>>,
    /// Rounds that cannot be predicted, by reason; empty like the list of predictions if that was not asked for.
    pub unfit: Sparse<BTreeMap<UnfitReason, u64>>,
    /// What was not as it should be.
    pub problems: Sparse<Vec<Problem>>,
}

impl SessionReport {
    /// Returns a name by its number; empty for a number that the report does not have.
    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", |name| name)
    }

    /// Shares its texts with other reports.
    pub fn share_texts(&mut self, pool: &TextPool) {
        let places = [&mut self.project, &mut self.version];
        pool.share(self.names.iter_mut().chain(places));
    }
}

/// One half of a report: what can be read off the records without threading them. The halves know nothing of each other.
pub struct RecordTotals<'s, 'a> {
    session: &'s Session<'a>,
    report: SessionReport,
    names: NameInterner,
    /// By call: the record that says where it belongs.
    owning_records: Vec<Node>,
    /// Boundaries, wherever they are.
    recorded: RecordedBoundaries,
}

impl<'s, 'a> RecordTotals<'s, 'a> {
    /// Of a session.
    pub fn new(session: &'s Session<'a>, wanted: &ReportOptions) -> RecordTotals<'s, 'a> {
        let mut totals = RecordTotals {
            session,
            report: SessionReport {
                id: session.id.to_owned(),
                coding_agent: session.coding_agent(),
                names: vec![SharedText::default()],
                ..SessionReport::default()
            },
            names: NameInterner::default(),
            owning_records: Vec::new(),
            recorded: RecordedBoundaries::default(),
        };
        totals.report.title = SessionTitle::find(session);
        totals.report.project = session_project(session).into();
        totals.report.pulls = pull_links(session).into();
        totals.recorded = count_records(session, wanted.filter, &mut totals.report);
        totals.merge_calls();
        totals
    }

    /// The report, with its other half.
    pub fn join(mut self, followed: ThreadTotals) -> SessionReport {
        // Every field is named so that the compiler notices one that is left out.
        let ThreadTotals {
            branches,
            subagents,
            ledger,
            rewound,
            rewound_nodes,
            threaded_lines,
            unbilled,
            known: _,
            retold,
            boundaries,
            occupancy,
            reads,
            predictions,
            unfit,
            problems,
        } = followed;
        let recorded = BoundaryCounts {
            unknown: boundaries.unknown,
            ..self.recorded.counts
        };
        for (call, owner) in std::iter::zip(&mut self.report.calls, self.owning_records) {
            call.is_rewound = rewound_nodes.binary_search(&owner).is_ok();
            if let Ok(at) = threaded_lines.binary_search_by_key(&owner, |(line, _)| *line) {
                call.is_threaded = true;
                call.output_rest = if call.is_inner { 0 } else { threaded_lines[at].1 };
            }
        }
        let mut repeated = Vec::new();
        for (node, rest) in retold {
            let Some(line) = self.session.response(node) else {
                continue;
            };
            let model = self
                .names
                .intern(&mut self.report.names, self.session, node, line.model);
            repeated.push(BilledCall {
                tokens: line.billed,
                window: line.context().input_side(),
                time: self.session.record(node).time,
                model,
                is_threaded: true,
                output_rest: rest,
                ..BilledCall::default()
            });
        }
        let predictions = predictions.into_iter().map(|(node, prediction)| {
            let model = self.session.response(node).map_or(0, |line| line.model);
            Prediction {
                model: self.names.intern(&mut self.report.names, self.session, node, model),
                ..prediction
            }
        });
        let predictions = predictions.collect::<Vec<_>>();
        self.report.names.shrink_to_fit();
        SessionReport {
            predictions: predictions.into(),
            retold: repeated.into(),
            boundaries: recorded.into(),
            branches,
            subagents,
            ledger: ledger.into(),
            rewound: LedgerEntries::from(rewound).into(),
            occupancy,
            chain_boundaries: boundaries.into(),
            off_chain_auto: self.recorded.sized_auto.saturating_sub(boundaries.auto),
            unbilled,
            reads: reads.into(),
            unfit: unfit.into(),
            problems: problems.into(),
            ..self.report
        }
    }

    /// Merges the lines of each call, whenever they were written.
    fn merge_calls(&mut self) {
        let RecordTotals {
            session,
            report,
            names,
            owning_records,
            ..
        } = self;
        // A call mostly has two lines.
        let expected = session.response_lines() / 2;
        let mut index = CallIndex::with_capacity(expected);
        report.calls.reserve(expected);
        owning_records.reserve(expected);
        // Model, branch, folder and agent of the last call, and the numbers they have: most calls repeat them.
        let mut recent = None;
        for node in session.own_nodes().chain(session.repeats().iter().copied()) {
            let Some(line) = session.response(node) else { continue };
            let log = session.log(node);
            let record = session.record(node);
            let tokens = line.billed;
            if !is_billed(session, node) {
                continue;
            }
            let scope = log.scope_of(record);
            let is_copied = session.is_copied(node);
            // Without an id it cannot be told apart from what it repeats.
            if line.message == 0 && (is_copied || record.is_repeat) {
                continue;
            }
            let place = (session.part_number(node), record.scope, line.model);
            let numbers = match recent {
                Some((known, numbers)) if known == place => numbers,
                _ => [line.model, scope.branch, scope.cwd, scope.agent]
                    .map(|name| names.intern(&mut report.names, session, node, name)),
            };
            recent = Some((place, numbers));
            let [model, branch, cwd, agent] = numbers;
            let call = BilledCall {
                message: line.message,
                request: line.request,
                tokens,
                window: line.context().input_side(),
                time: record.time,
                model,
                branch,
                cwd,
                agent,
                is_sidechain: scope.is_sidechain,
                is_client: scope.is_sidechain && is_client_chain(log.string(scope.agent)),
                is_progress: line.is_progress,
                is_copied,
                ..BilledCall::default()
            };
            let mut add = |call: BilledCall| match index.find(&call, |at| &report.calls[at as usize]) {
                Some(at) => {
                    let known = &mut report.calls[at as usize];
                    if call.ownership_rank() < known.ownership_rank() {
                        owning_records[at as usize] = node;
                    }
                    known.merge(&call);
                }
                None => {
                    index.insert(&call, report.calls.len() as u32);
                    report.calls.push(call);
                    owning_records.push(node);
                }
            };
            add(call);
            for (number, other) in (1..).zip(log.other_calls_of(record)) {
                add(BilledCall {
                    message: inner_call_key(line.call_key(), number),
                    request: 0,
                    tokens: other.tokens,
                    window: other.tokens.input_side(),
                    is_inner: true,
                    model: names.intern(&mut report.names, session, node, other.model),
                    ..call
                });
            }
        }
        report.calls.shrink_to_fit();
    }
}
