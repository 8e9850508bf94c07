//! The half of a session's report that needs its conversations: the window over the rounds, the ledger, file reads and
//! predictions. Long chains are sized in stretches, which `ThreadTotals` adds up; `super::RecordTotals` joins the halves.

use super::records::is_billed;
use super::{BoundaryCounts, Occupancy, Prediction, ReportOptions, TimeRange};
use replay::tokens::calibrate::{ChainSizes, TokenOrigin, UnfitReason, size_rounds};
use replay::tokens::ledger::{LedgerBuilder, TokenLedger};
use replay::tokens::ratios::RatioTable;
use replay::tokens::reads::{FileEvent, ReadTotals, ReadTracker};
use std::collections::BTreeMap;
use std::ops::Range;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, RecordKind};
use transcript::problem::Problem;
use transcript::thread::{Chain, Node, Session, ThreadedSession, is_client_chain};

/// The other half of a report: what comes of the conversations that the records make up. Fields are those of a
/// [`SessionReport`](super::SessionReport), but for a few.
#[derive(Default)]
pub struct ThreadTotals {
    pub(super) branches: u64,
    pub(super) subagents: u64,
    pub(super) ledger: TokenLedger,
    pub(super) rewound: TokenLedger,
    /// Records on rewound branches, sorted.
    pub(super) rewound_nodes: Vec<Node>,
    /// Lines of the responses that make up conversations, sorted, each with the estimated rest of its response's output.
    pub(super) threaded_lines: Vec<(Node, u64)>,
    pub(super) boundaries: BoundaryCounts,
    pub(super) unbilled: u64,
    /// Calls of the conversations so far.
    pub(super) known: IdMap<u64, ()>,
    /// A line of each further round that repeats one of them, with the estimated rest of its output.
    pub(super) retold: Vec<(Node, u64)>,
    pub(super) occupancy: Occupancy,
    pub(super) reads: ReadTotals,
    /// How well rounds are predicted, beside a line of each: it names the model, which is numbered when the halves are joined.
    pub(super) predictions: Vec<(Node, Prediction)>,
    pub(super) unfit: BTreeMap<UnfitReason, u64>,
    pub(super) problems: Vec<Problem>,
}

impl ThreadTotals {
    /// Adds up the stretches of a session, given in their order.
    pub fn from_stretches(
        session: &Session<'_>,
        threaded: &ThreadedSession,
        sized: impl Iterator<Item = SizedStretch>,
        table: &RatioTable,
        wanted: &ReportOptions,
    ) -> ThreadTotals {
        let mut followed = ThreadTotals::default();
        let mut sized = sized.peekable();
        for (at, chain) in threaded.chains.iter().enumerate() {
            followed.subagents += u64::from(chain.is_sidechain);
            if !chain.rounds.is_empty() && !is_client_chain(&chain.agent) {
                followed.boundaries.add_inputs(session, &chain.tail, wanted.filter);
            }
            let mut reads = ReadTracker::default();
            while let Some(next) = sized.next_if(|next| next.chain == at) {
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

    fn add_stretch(&mut self, session: &Session<'_>, chain: &Chain, sized: SizedStretch, wanted: &ReportOptions) {
        let filter = wanted.filter;
        let ChainSizes { rounds, pairs, unfit } = sized.sizes;
        // What the client does for itself is no conversation.
        let is_replayed = !is_client_chain(&chain.agent);
        for (round, size) in std::iter::zip(&chain.rounds[sized.rounds.clone()], &rounds).filter(|_| is_replayed) {
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
        if sized.chain == 0 {
            let counted = std::iter::zip(&chain.rounds[sized.rounds], &rounds)
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
        self.ledger.merge(sized.ledger);
    }
}

/// Rounds of a chain that are sized and added to a ledger at once.
pub struct ChainStretch<'t> {
    chain: &'t Chain,
    /// Number of the chain.
    number: usize,
    rounds: Range<usize>,
}

/// Fewer rounds than this are not worth a stretch of their own.
const MIN_STRETCH_ROUNDS: usize = 1024;

/// All chains of a session, each in stretches that can be sized side by side: about as many as `share` says, fewer if the chain
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

/// The sums of a stretch.
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
    /// Sizes the rounds of a stretch and adds up its ledger.
    pub fn new(
        session: &Session<'_>,
        stretch: &ChainStretch<'_>,
        table: &RatioTable,
        wanted: &ReportOptions,
    ) -> SizedStretch {
        let filter = wanted.filter;
        let mut steps = Vec::new();
        let mut ledger = LedgerBuilder::default();
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
                ledger.add(session.part_number(node), block, tokens, origin);
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
            ledger: ledger.finish(|part, name| session.string(part, name)),
            file_events: steps,
        }
    }
}

/// What rewound branches were spent on.
fn rewound_ledger(
    session: &Session<'_>,
    threaded: &ThreadedSession,
    table: &RatioTable,
    filter: TimeRange,
) -> TokenLedger {
    let mut ledger = LedgerBuilder::default();
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
            ledger.add(session.part_number(node), block, tokens, TokenOrigin::Estimated);
        }
    }
    ledger.finish(|part, name| session.string(part, name))
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
}
