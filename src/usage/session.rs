//! What one session adds up to: its API calls, its ledger, its window over time.
//!
//! Pure: takes threaded records, gives numbers. Calls are merged inside the session here; merging across sessions is the
//! work of `super::usage`.

use crate::usage::title::SessionTitle;
use replay::sim::trace::{BoundaryTrigger, find_boundaries};
use replay::tokens::calibrate::{ChainSizes, RoundSize, TokenOrigin, UnfitReason, size_rounds};
use replay::tokens::ledger::{LedgerBuilder, LedgerEntries, TokenLedger};
use replay::tokens::ratios::RatioTable;
use replay::tokens::reads::{FileEvent, ReadTotals, ReadTracker};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::Range;
use transcript::agents::Agent;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, NO_TIME, NameId, RecordKind, Time, hash_api_id};
use transcript::problem::Problem;
use transcript::record::Tokens;
use transcript::thread::{Chain, Node, Session, ThreadedSession, is_client_chain, is_prompt};

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

/// One API call, as far as one session tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BilledCall {
    /// Hash of the message id; 0 if it has none.
    pub message: u64,
    /// Hash of the request id; 0 if it has none.
    pub request: u64,
    /// What was billed: the most complete line.
    pub tokens: Tokens,
    /// What the model was sent at the (last) iteration.
    pub window: u64,
    /// When the first line was written.
    pub time: Time,
    /// Number of the model in [`SessionReport::names`].
    pub model: u32,
    /// Number of the git branch.
    pub branch: u32,
    /// Number of the working directory.
    pub cwd: u32,
    /// Number of the sub-agent; 0 for the main agent.
    pub agent: u32,
    /// Made by a sub-agent.
    pub is_sidechain: bool,
    /// Made by the client for itself, to write a summary or ask a question aside.
    pub is_client: bool,
    /// Seen only in a progress record.
    pub is_progress: bool,
    /// All its lines are copies that another session owns.
    pub is_copied: bool,
    /// On a rewound branch.
    pub is_rewound: bool,
    /// Made within the response of another call: advice of another model, a model that declined.
    pub is_inner: bool,
    /// In a conversation that can be replayed: of the main agent or of a sub-agent.
    pub is_threaded: bool,
    /// Several sessions tell of it.
    pub is_retold: bool,
    /// Estimated output beyond what the log has, if that is a count from the middle of the stream.
    pub output_rest: u64,
}

/// Where a call belongs in its session. Every call has one place, so that parts add up to all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPlace {
    /// In a conversation: what can be replayed.
    Conversation,
    /// Within the response of another call.
    WithinResponse,
    /// On a branch that the user rewound.
    RewoundBranch,
    /// Made by the client for itself: summaries at compactions, questions aside.
    ClientItself,
    /// Beside the conversations.
    Elsewhere,
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
    pub names: Vec<String>,
    /// Its title.
    pub title: SessionTitle,
    /// Its pull requests, each with the time of the link, in the order of time.
    pub pulls: Vec<(Time, String)>,
    /// Working directory of its first record.
    pub project: String,
    /// First and last time of its own records.
    pub times: Option<(Time, Time)>,
    /// Client version of its last record.
    pub version: String,
    /// Its calls, copies included.
    pub calls: Vec<BilledCall>,
    /// Calls that stand in its conversations again, under other ids: a replay makes them again.
    pub retold: Vec<BilledCall>,
    /// What its tokens were spent on, copies left out.
    pub ledger: LedgerEntries,
    /// Tokens on rewound branches (estimated), not in the ledger.
    pub rewound: LedgerEntries,
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
    pub boundaries: BoundaryCounts,
    /// Those that its conversations go through: what an audit lists and a replay meets.
    pub chain_boundaries: BoundaryCounts,
    /// Automatic compactions that none goes through, and that a replay is compared with nevertheless.
    pub off_chain_auto: u64,
    /// Calls of its conversations whose usage the log does not have. They are replayed, and no other figure has them.
    pub unbilled: u64,
    /// Files read more than once.
    pub reads: ReadTotals,
    /// How well rounds are predicted.
    pub predictions: Vec<Prediction>,
    /// Rounds that cannot be predicted, by reason.
    pub unfit: BTreeMap<UnfitReason, u64>,
    /// What was not as it should be.
    pub problems: Vec<Problem>,
}

/// One half of a report: what can be read off the records without threading them. The halves know nothing of each other.
pub struct RecordTotals<'s, 'a> {
    session: &'s Session<'a>,
    report: SessionReport,
    names: NameInterner,
    /// By call: the record that tells where it belongs.
    owning_records: Vec<Node>,
    /// Automatic compactions, wherever they are, whose size the log has.
    sized_auto: u64,
}

impl<'s, 'a> RecordTotals<'s, 'a> {
    /// Of a session.
    pub fn new(session: &'s Session<'a>, wanted: &ReportOptions) -> RecordTotals<'s, 'a> {
        let mut told = RecordTotals {
            session,
            report: SessionReport {
                id: session.id.to_owned(),
                coding_agent: session.coding_agent(),
                names: vec![String::new()],
                ..SessionReport::default()
            },
            names: NameInterner::default(),
            owning_records: Vec::new(),
            sized_auto: 0,
        };
        told.report.title = SessionTitle::find(session);
        told.report.project = session_project(session).to_owned();
        told.report.pulls = pull_links(session);
        told.sized_auto = count_records(session, wanted.filter, &mut told.report);
        told.merge_calls();
        told
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
        self.report.boundaries.unknown = boundaries.unknown;
        for (call, teller) in std::iter::zip(&mut self.report.calls, self.owning_records) {
            call.is_rewound = rewound_nodes.binary_search(&teller).is_ok();
            if let Ok(at) = threaded_lines.binary_search_by_key(&teller, |(line, _)| *line) {
                call.is_threaded = true;
                call.output_rest = if call.is_inner { 0 } else { threaded_lines[at].1 };
            }
        }
        for (node, rest) in retold {
            let Some(line) = self.session.response(node) else {
                continue;
            };
            let model = self
                .names
                .intern(&mut self.report.names, self.session, node, line.model);
            self.report.retold.push(BilledCall {
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
        SessionReport {
            predictions: predictions.collect(),
            branches,
            subagents,
            ledger: ledger.into(),
            rewound: rewound.into(),
            occupancy,
            chain_boundaries: boundaries,
            off_chain_auto: self.sized_auto.saturating_sub(boundaries.auto),
            unbilled,
            reads,
            unfit,
            problems,
            ..self.report
        }
    }

    /// Merges the lines of each call, whenever they were written.
    fn merge_calls(&mut self) {
        let RecordTotals {
            session,
            report,
            names,
            owning_records: tellers,
            ..
        } = self;
        // A call mostly has two lines.
        let expected = session.response_lines() / 2;
        let mut index = CallIndex::with_capacity(expected);
        report.calls.reserve(expected);
        tellers.reserve(expected);
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
            // Without an id it cannot be told from what it repeats.
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
                        tellers[at as usize] = node;
                    }
                    known.merge(&call);
                }
                None => {
                    index.insert(&call, report.calls.len() as u32);
                    report.calls.push(call);
                    tellers.push(node);
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

/// The other half: what comes of the conversation that the records make up. Fields are those of a [`SessionReport`], but for
/// a few.
#[derive(Default)]
pub struct ThreadTotals {
    branches: u64,
    subagents: u64,
    ledger: TokenLedger,
    rewound: TokenLedger,
    /// Records on rewound branches, sorted.
    rewound_nodes: Vec<Node>,
    /// Lines of the responses that make up conversations, sorted, each with the estimated rest of its response's output.
    threaded_lines: Vec<(Node, u64)>,
    boundaries: BoundaryCounts,
    unbilled: u64,
    /// Calls of the conversations so far.
    known: IdMap<u64, ()>,
    /// A line of each further round that tells of one of them, with the estimated rest of its output.
    retold: Vec<(Node, u64)>,
    occupancy: Occupancy,
    reads: ReadTotals,
    /// How well rounds are predicted, beside a line of each: it names the model, which is numbered when the halves are joined.
    predictions: Vec<(Node, Prediction)>,
    unfit: BTreeMap<UnfitReason, u64>,
    problems: Vec<Problem>,
}

impl ThreadTotals {
    /// Adds up the stretches of a session, given in their order.
    pub fn from_stretches(
        session: &Session<'_>,
        threaded: &ThreadedSession,
        booked: Vec<SizedStretch>,
        table: &RatioTable,
        wanted: &ReportOptions,
    ) -> ThreadTotals {
        let mut followed = ThreadTotals::default();
        let mut booked = booked.into_iter().peekable();
        for (at, chain) in threaded.chains.iter().enumerate() {
            followed.subagents += u64::from(chain.is_sidechain);
            if !chain.rounds.is_empty() && !is_client_chain(&chain.agent) {
                followed.boundaries.add_inputs(session, &chain.tail, wanted.filter);
            }
            let mut reads = ReadTracker::default();
            while let Some(next) = booked.next_if(|next| next.chain == at) {
                next.file_events.iter().for_each(|step| reads.apply(*step));
                followed.add_stretch(session, chain, next, wanted);
            }
            followed.reads.merge(&reads.finish());
        }
        followed.rewound = rewound_ledger(session, threaded, table, wanted.filter);
        followed.branches = u64::from(threaded.branches);
        followed.problems = threaded.problems.clone();
        followed.rewound_nodes = threaded.rewound.clone();
        followed.rewound_nodes.sort_unstable();
        followed.threaded_lines.sort_unstable();
        followed
    }

    /// Whether a line is the first one of its call.
    fn is_new(&mut self, session: &Session<'_>, line: Node) -> bool {
        let key = session.response(line).map_or(0, |response| response.call_key());
        key == 0 || self.known.insert(key, ()).is_none()
    }

    fn add_stretch(&mut self, session: &Session<'_>, chain: &Chain, booked: SizedStretch, wanted: &ReportOptions) {
        let filter = wanted.filter;
        let ChainSizes { rounds, pairs, unfit } = booked.sizes;
        // What the client does for itself is no conversation.
        let is_replayed = !is_client_chain(&chain.agent);
        for (round, size) in std::iter::zip(&chain.rounds[booked.rounds.clone()], &rounds).filter(|_| is_replayed) {
            self.boundaries.add_inputs(session, &round.inputs, filter);
            if !session.is_copied(round.lines[0]) {
                let rest = size.output_rest();
                self.threaded_lines.extend(round.lines.iter().map(|line| (*line, rest)));
                let billed = round.lines.iter().filter(|line| is_billed(session, **line));
                let output = |line: &&Node| session.response(**line).map_or(0, |response| response.billed.output);
                match billed.max_by_key(output) {
                    None => self.unbilled += 1,
                    // Copies with ids of their own stand in the conversation like calls.
                    Some(line) if !self.is_new(session, *line) => self.retold.push((*line, rest)),
                    Some(_) => {}
                }
            }
        }
        if booked.chain == 0 {
            let counted = std::iter::zip(&chain.rounds[booked.rounds], &rounds)
                .filter(|(round, size)| filter.contains(size.time) && !session.is_copied(round.lines[0]));
            for (_, size) in counted {
                self.occupancy.add(size);
            }
        }
        for pair in pairs.iter().filter(|_| wanted.predictions) {
            if filter.contains(session.record(pair.node).time) {
                let prediction = Prediction {
                    model: 0,
                    error: pair.predicted - pair.actual,
                    naive_error: pair.naive - pair.actual,
                    actual: pair.actual,
                };
                self.predictions.push((pair.node, prediction));
            }
        }
        for unfit in unfit {
            *self.unfit.entry(unfit).or_insert(0) += 1;
        }
        self.ledger.merge(booked.ledger);
    }
}

/// Rounds of a chain that are sized and booked at once.
pub struct ChainStretch<'t> {
    chain: &'t Chain,
    /// Number of the chain.
    number: usize,
    rounds: Range<usize>,
}

/// Fewer rounds than this are not worth a stretch of their own.
const MIN_STRETCH_ROUNDS: usize = 1024;

/// All chains of a session, each in stretches that can be booked side by side: about as many as `share` says, fewer if the chain
/// is short, and none starts inside a turn, because a round inherits from its turn.
pub fn split_into_stretches(threaded: &ThreadedSession, share: usize) -> Vec<ChainStretch<'_>> {
    let mut stretches = Vec::with_capacity(threaded.chains.len());
    for (number, chain) in threaded.chains.iter().enumerate() {
        let rounds = &chain.rounds;
        let length = rounds.len().div_ceil(share.max(1)).max(MIN_STRETCH_ROUNDS);
        let mut from = 0;
        loop {
            let starts_turn = |at: &usize| rounds[*at].turn != rounds[at - 1].turn;
            let to = (from + length..rounds.len()).find(starts_turn).unwrap_or(rounds.len());
            stretches.push(ChainStretch {
                chain,
                number,
                rounds: from..to,
            });
            from = to;
            if from == rounds.len() {
                break;
            }
        }
    }
    stretches
}

/// What a stretch comes to.
pub struct SizedStretch {
    /// Number of its chain.
    chain: usize,
    rounds: Range<usize>,
    sizes: ChainSizes,
    ledger: TokenLedger,
    /// What matters to reads, in order.
    file_events: Vec<FileEvent>,
}

impl SizedStretch {
    /// Sizes and books a stretch.
    pub fn new(
        session: &Session<'_>,
        stretch: &ChainStretch<'_>,
        table: &RatioTable,
        wanted: &ReportOptions,
    ) -> SizedStretch {
        let filter = wanted.filter;
        let mut steps = Vec::new();
        let mut booking = LedgerBuilder::default();
        let mut last_summary = None;
        let sizes = size_rounds(
            session,
            stretch.chain,
            stretch.rounds.clone(),
            table,
            &mut |node: Node, block: &Block, tokens: f64, origin: TokenOrigin| {
                if session.is_copied(node) || !filter.is_unbounded() && !filter.contains(session.record(node).time) {
                    return;
                }
                let log = session.log(node);
                // What was read before a compaction is gone. The summary is the first thing in the new window.
                if session.is_summary(node) && last_summary != Some(node) {
                    steps.push(FileEvent::Boundary);
                    last_summary = Some(node);
                }
                booking.add(session.part_number(node), block, tokens, origin);
                if matches!(block.kind, BlockKind::ToolCall | BlockKind::ToolResult) {
                    steps.extend(FileEvent::of(
                        block,
                        log.string(block.name),
                        log.string(block.path),
                        tokens,
                    ));
                }
            },
        );
        SizedStretch {
            chain: stretch.number,
            rounds: stretch.rounds.clone(),
            sizes,
            ledger: booking.finish(|part, name| session.string(part, name)),
            file_events: steps,
        }
    }
}

/// Numbers strings of a report: texts once, and by the number they have in each log.
#[derive(Default)]
struct NameInterner {
    numbers: IdMap<String, u32>,
    by_part: IdMap<u64, u32>,
}

impl NameInterner {
    fn intern(&mut self, names: &mut Vec<String>, session: &Session<'_>, node: Node, name: NameId) -> u32 {
        if name == 0 {
            return 0;
        }
        let part = session.part_number(node);
        let key = u64::from(part) << 32 | u64::from(name);
        if let Some(&number) = self.by_part.get(&key) {
            return number;
        }
        let text = session.string(part, name);
        let next = names.len() as u32;
        let number = *self.numbers.entry(text.to_owned()).or_insert(next);
        if number == next {
            names.push(text.to_owned());
        }
        self.by_part.insert(key, number);
        number
    }
}

/// Returns the working directory of a session: that of the first record which is no copy, else of the first one.
pub fn session_project<'a>(session: &Session<'a>) -> &'a str {
    let folder = |node: Node| {
        let log = session.log(node);
        log.string(log.scope_of(session.record(node)).cwd)
    };
    let mut fresh = session.own_nodes().filter(|node| !session.is_copied(*node));
    let found = fresh.find(|node| !folder(*node).is_empty());
    found.or_else(|| session.own_nodes().next()).map_or("", folder)
}

/// Returns the pull requests that a session was linked to; a link that repeats the one before is left out.
fn pull_links(session: &Session<'_>) -> Vec<(Time, String)> {
    let logs = session.parts().iter().map(|part| &part.log);
    let links = logs.flat_map(|log| log.pulls.iter().filter(|link| log.string(link.session) == session.id));
    let mut links = links.map(|link| (link.time, pull_name(&link.url))).collect::<Vec<_>>();
    links.sort();
    links.dedup_by(|next, known| next.1 == known.1);
    links
}

/// Returns the short name of a pull request, `owner/repository#7`, or its address if that has another form.
fn pull_name(url: &str) -> String {
    let path = url
        .split_once("://")
        .and_then(|(_, rest)| rest.split_once('/'))
        .map_or("", |(_, path)| path);
    let parts = path
        .trim_end_matches('/')
        .split('/')
        .filter(|part| *part != "-")
        .collect::<Vec<_>>();
    match parts[..] {
        [
            ..,
            owner,
            repository,
            "pull" | "pulls" | "pull-requests" | "merge_requests",
            number,
        ] => {
            format!("{owner}/{repository}#{number}")
        }
        _ => url.to_owned(),
    }
}

/// Whether a record tells of a call that was billed.
fn is_billed(session: &Session<'_>, node: Node) -> bool {
    let line = session.response(node).filter(|line| !line.billed.is_zero());
    line.is_some_and(|line| session.log(node).string(line.model) != CLIENT_MODEL)
}

/// The model of responses that the client wrote.
const CLIENT_MODEL: &str = "<synthetic>";

/// Counts what can be read off the records without threading them. Returns the number of automatic
/// compactions whose size the log has, the client's own logs left out.
fn count_records(session: &Session<'_>, filter: TimeRange, report: &mut SessionReport) -> u64 {
    let mut sized_auto = 0;
    let mut version = "";
    for node in session.own_nodes() {
        let record = session.record(node);
        if session.is_copied(node) {
            report.copied_records += 1;
            continue;
        }
        if !filter.contains(record.time) {
            continue;
        }
        let log = session.log(node);
        let scope = log.scope_of(record);
        if record.time != NO_TIME {
            let (first, last) = report.times.unwrap_or((record.time, record.time));
            report.times = Some((first.min(record.time), last.max(record.time)));
        }
        if scope.version != 0 && !scope.is_sidechain {
            version = log.string(scope.version);
        }
        match record.kind {
            RecordKind::Boundary => {
                let boundary = session.boundary(node);
                let is_of_client = scope.is_sidechain && is_client_chain(log.string(scope.agent));
                let is_sized_auto = boundary.is_some_and(|found| found.is_auto && found.pre_tokens.is_some());
                sized_auto += u64::from(is_sized_auto && !is_of_client);
                match boundary {
                    Some(boundary) if !boundary.is_auto => report.boundaries.manual += 1,
                    _ => report.boundaries.auto += 1,
                }
            }
            RecordKind::MicroBoundary => report.boundaries.micro += 1,
            RecordKind::User if !scope.is_sidechain && is_prompt(session, node) => report.prompts += 1,
            _ => {}
        }
    }
    report.version = version.to_owned();
    sized_auto
}

/// What rewound branches were spent on.
fn rewound_ledger(
    session: &Session<'_>,
    threaded: &ThreadedSession,
    table: &RatioTable,
    filter: TimeRange,
) -> TokenLedger {
    let mut booking = LedgerBuilder::default();
    for &node in &threaded.rewound {
        let record = session.record(node);
        if session.is_copied(node) || !filter.contains(record.time) {
            continue;
        }
        let log = session.log(node);
        let model = session.response(node).map_or("", |line| log.string(line.model));
        let ratios = table.for_model(model);
        for block in session.blocks(node) {
            let tokens = match record.kind {
                RecordKind::Assistant => table.output(ratios, block, log),
                _ => table.input(ratios, block, log),
            };
            booking.add(session.part_number(node), block, tokens, TokenOrigin::Estimated);
        }
    }
    booking.finish(|part, name| session.string(part, name))
}

/// Returns the id of a call within a response, by its number there, from 1.
fn inner_call_key(response: u64, number: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&response.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    hash_api_id(&bytes)
}

/// Finds the telling of a call that is known already, in a list that the caller keeps.
#[derive(Default)]
pub struct CallIndex {
    first: IdMap<u64, u32>,
    /// Message id asked for last, and where its first call is: lines of a call mostly follow one another.
    latest: Option<(u64, u32)>,
    /// Further calls with a message id that is known but another request, by both. They all have a request: one without is the
    /// same as any other with its message.
    others: IdMap<u128, u32>,
    /// Calls whose message id is not the API's, by request: forks write a fresh id on every line.
    requests: IdMap<u64, u32>,
}

impl CallIndex {
    /// An index with room for as many calls.
    pub fn with_capacity(calls: usize) -> CallIndex {
        let mut index = CallIndex::default();
        index.first.reserve(calls);
        index
    }

    /// Place of the same call; `call_at` gives the calls of the list.
    pub fn find<'a>(&mut self, call: &BilledCall, call_at: impl Fn(u32) -> &'a BilledCall) -> Option<u32> {
        if call.message == 0 {
            return None;
        }
        let first = match self.latest {
            Some((message, first)) if message == call.message => Some(first),
            _ => self.first.get(&call.message).copied(),
        };
        let by_message = first.and_then(|first| {
            self.latest = Some((call.message, first));
            match call.is_same(call_at(first)) {
                true => Some(first),
                false => self.others.get(&call.key()).copied(),
            }
        });
        by_message.or_else(|| self.requests.get(&call.request).copied())
    }

    /// Remembers where a call that was not found is put.
    pub fn insert(&mut self, call: &BilledCall, at: u32) {
        if call.message == 0 {
            return;
        }
        if call.request != 0 {
            self.requests.entry(call.request).or_insert(at);
        }
        let first = *self.first.entry(call.message).or_insert(at);
        self.latest = Some((call.message, first));
        if first != at {
            self.others.entry(call.key()).or_insert(at);
        }
    }
}

impl BilledCall {
    /// Returns where it belongs in its session.
    pub fn place(&self) -> CallPlace {
        match () {
            () if self.is_client => CallPlace::ClientItself,
            () if self.is_threaded && self.is_inner => CallPlace::WithinResponse,
            () if self.is_threaded => CallPlace::Conversation,
            () if self.is_rewound => CallPlace::RewoundBranch,
            () => CallPlace::Elsewhere,
        }
    }

    /// Returns whether two tellings with one message id are of one call: their requests do not contradict each other.
    pub fn is_same(&self, other: &BilledCall) -> bool {
        self.message == other.message && (self.request == other.request || self.request == 0 || other.request == 0)
    }

    /// Message and request in one.
    fn key(&self) -> u128 {
        u128::from(self.message) << 64 | u128::from(self.request)
    }

    /// How good a teller is; the smallest one says where a call belongs.
    pub fn ownership_rank(&self) -> (bool, bool, bool) {
        (self.is_progress, self.is_copied, self.is_sidechain)
    }

    /// Takes in another telling of the same call: the most complete counts, the place of the better teller.
    pub fn merge(&mut self, other: &BilledCall) {
        let fullness = |call: &BilledCall| (call.tokens.output, call.tokens.total());
        let (fuller, less) = match fullness(other) > fullness(self) {
            true => (*other, *self),
            false => (*self, *other),
        };
        // What is estimated of the fuller telling counts; else the estimate of the other one, less what the fuller one adds.
        let added = fuller.tokens.output.saturating_sub(less.tokens.output);
        self.output_rest = match fuller.is_threaded {
            true => fuller.output_rest,
            false => less.output_rest.saturating_sub(added),
        };
        self.tokens = fuller.tokens;
        self.window = fuller.window;
        self.request = self.request.max(other.request);
        self.time = match (self.time, other.time) {
            (NO_TIME, time) | (time, NO_TIME) => time,
            (a, b) => a.min(b),
        };
        if other.ownership_rank() < self.ownership_rank() {
            let BilledCall {
                tokens,
                window,
                request,
                time,
                output_rest,
                ..
            } = *self;
            *self = BilledCall {
                tokens,
                window,
                request,
                time,
                output_rest,
                ..*other
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::thread::Round;

    #[test]
    fn stretches_hold_every_round_once_and_start_with_a_turn() {
        // Lengths of the turns of each chain.
        let chain = |turns: &[usize]| Chain {
            rounds: std::iter::zip(0.., turns)
                .flat_map(|(turn, length)| {
                    let round = Round {
                        turn,
                        ..Round::default()
                    };
                    std::iter::repeat_n(round, *length)
                })
                .collect(),
            ..Chain::default()
        };
        let threaded = ThreadedSession {
            chains: vec![
                chain(&[7; 900]),
                chain(&[]),
                chain(&[5000]),
                chain(&[5; 100]),
                chain(&[3000, 1, 3000]),
            ],
            ..ThreadedSession::default()
        };
        let lengths = |share: usize| {
            let mut lengths = vec![Vec::new(); threaded.chains.len()];
            for stretch in split_into_stretches(&threaded, share) {
                let before = lengths[stretch.number].iter().sum::<usize>();
                assert_eq!(stretch.rounds.start, before);
                let rounds = &threaded.chains[stretch.number].rounds;
                assert!(before == 0 || rounds[before].turn != rounds[before - 1].turn);
                lengths[stretch.number].push(stretch.rounds.len());
            }
            lengths
        };
        let whole = threaded.chains.iter().map(|chain| vec![chain.rounds.len()]);
        assert!(lengths(1).into_iter().eq(whole.clone()));
        assert!(lengths(0).into_iter().eq(whole));
        let four = [vec![1575; 4], vec![0], vec![5000], vec![500], vec![3000, 3001]];
        assert_eq!(lengths(4), four);
        // However many there might be, none is short but the last.
        assert_eq!(lengths(100)[0], [1029, 1029, 1029, 1029, 1029, 1029, 126]);
    }

    #[test]
    fn calls_of_one_message_are_told_apart_by_their_request() {
        let call = |message: u64, request: u64| BilledCall {
            message,
            request,
            ..BilledCall::default()
        };
        let calls = [call(7, 1), call(7, 2), call(8, 0), call(7, 3), call(0, 1), call(0, 1)];
        let mut index = CallIndex::default();
        let at = |number: u32| &calls[number as usize];
        for (number, call) in std::iter::zip(0.., &calls) {
            assert_eq!(index.find(call, at), None, "{number}");
            index.insert(call, number);
        }
        let mut found = |message: u64, request: u64| index.find(&call(message, request), at);
        assert_eq!(
            [found(7, 1), found(7, 2), found(7, 3), found(7, 4)],
            [Some(0), Some(1), Some(3), None]
        );
        // Without a request it is the first one's, and one without a request takes any.
        assert_eq!([found(7, 0), found(8, 5), found(0, 1)], [Some(0), Some(2), None]);
    }
}
