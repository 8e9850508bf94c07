//! Sizes of rounds and blocks: recorded where the log says, calibrated where two records bracket them, estimated elsewhere.
//!
//! The context of a call is what its usage says was sent. What the next call was sent beyond that is the true size of
//! everything added in between: the response, as far as its output was recorded, and the new input. That difference is
//! shared out to the blocks in proportion to their estimates. The same pairs show how good the estimates are ([`Pair`]).

use crate::tokens::ratios::{RatioTable, Ratios, drops_thinking};
use smallvec::SmallVec;
use std::ops::Range;
use transcript::log::{Block, BlockKind, Log, RecordKind, StopReason};
use transcript::thread::{Chain, Node, Round, Session, starts_turn};

/// Where a count comes from. Counts of different origin are never added without saying so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenOrigin {
    /// The log states it.
    Recorded,
    /// A share of a difference between two stated counts.
    Calibrated,
    /// From the length of the text.
    Estimated,
}

/// Size of the window at one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundSize {
    /// What the model was sent, if the log says.
    pub input: Option<u64>,
    /// What it answered.
    pub output: f64,
    /// Whether the output was recorded or had to be estimated (a streaming partial).
    pub output_origin: TokenOrigin,
    /// System prompt and tools, where a window starts: the first call, and the call after a boundary.
    pub base: Option<f64>,
    /// What the window grew by since the call before, by estimates of its items and the drift of its model family.
    pub growth: f64,
    /// When the call was made.
    pub time: i64,
}

impl RoundSize {
    /// The window after the response.
    pub fn context(&self) -> Option<u64> {
        self.input.map(|input| input + self.output.round() as u64)
    }
}

/// Two neighbouring calls whose difference shows how good the estimates are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallPair {
    /// First line of the later call.
    pub node: Node,
    /// Its round in the chain; the earlier call is the round before.
    pub round: usize,
    /// Estimated input of the later call.
    pub predicted: f64,
    /// The same with characters / 4 for everything that was not recorded.
    pub naive: f64,
    /// What the log says.
    pub actual: f64,
}

/// Why two neighbouring calls say nothing about sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum UnfitReason {
    /// The first call of a window.
    First,
    /// A call without usage.
    NoUsage,
    /// A compaction lies between.
    Boundary,
    /// Tool results were cleared in between.
    Micro,
    /// The model changed.
    ModelSwitch,
    /// The client was restarted: the cache is cold and the window smaller than before.
    Resume,
    /// A copy of a pair that another session owns.
    Copy,
    /// The window was kept over a boundary, with zeroed usage.
    Kept,
}

/// What sizing a chain gives.
#[derive(Debug, Default, PartialEq)]
pub struct ChainSizes {
    /// One per round.
    pub rounds: Vec<RoundSize>,
    /// Pairs that can be scored.
    pub pairs: Vec<CallPair>,
    /// Pairs that cannot, by reason.
    pub unfit: Vec<UnfitReason>,
}

/// A difference this far from the estimate is explained by something else than the blocks.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.4..=2.5;

/// Sizes a chain. `block` is told the size of every block, in order.
pub fn size_chain<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) -> ChainSizes {
    size_rounds(session, chain, 0..chain.rounds.len(), table, block)
}

/// Sizes some rounds of a chain. Those of neighbouring ranges, one behind the other, are those of the whole.
pub fn size_rounds<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    rounds: Range<usize>,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) -> ChainSizes {
    let mut sizes = ChainSizes {
        rounds: Vec::with_capacity(rounds.len()),
        pairs: Vec::with_capacity(rounds.len()),
        ..ChainSizes::default()
    };
    // What a round inherits goes back to the start of the turn before it.
    let before = &chain.rounds[..rounds.start];
    let lead = before
        .iter()
        .rposition(|round| starts_turn(session, round))
        .unwrap_or(0);
    let mut previous: Option<SentCall<'_>> = None;
    // Estimated thinking of the running turn, for models that forget it at the next prompt.
    let mut turn_thinking = 0.0;
    for (at, round) in std::iter::zip(lead.., &chain.rounds[lead..rounds.end]) {
        let sent = SentCall::new(session, round, table, previous.as_ref());
        let starts_turn = starts_turn(session, round);
        let dropped = if starts_turn && drops_thinking(sent.model) {
            turn_thinking
        } else {
            0.0
        };
        if starts_turn {
            turn_thinking = 0.0;
        }
        turn_thinking += sent.output_estimates.thinking;
        if at < rounds.start {
            previous = Some(sent);
            continue;
        }
        let fit = check_fitness(session, round, previous.as_ref(), &sent);
        let base = base_size(fit, &sent);
        match (fit, &previous) {
            (Ok(()), Some(before)) => {
                sizes.pairs.push(CallPair {
                    node: round.lines[0],
                    round: at,
                    predicted: before.input as f64 + before.output + sent.input_estimates.sum - dropped,
                    naive: before.input as f64 + before.naive_output() + sent.input_estimates.naive,
                    actual: sent.input as f64,
                });
                distribute_growth(session, before, &sent, dropped, block);
            }
            (unfit, before) => {
                if let Some(before) = before {
                    before.assign_output(session, block);
                }
                assign_sizes(
                    session,
                    &sent.round.inputs,
                    &sent.input_estimates.sizes,
                    1.0,
                    TokenOrigin::Estimated,
                    block,
                );
                sizes.unfit.extend(unfit.err());
            }
        }
        sizes.rounds.push(RoundSize {
            input: sent.has_usage.then_some(sent.input),
            output: sent.output,
            output_origin: if sent.is_final {
                TokenOrigin::Recorded
            } else {
                TokenOrigin::Estimated
            },
            base,
            growth: previous.as_ref().map_or(0.0, |before| before.output) + sent.input_estimates.sum - dropped
                + sent.ratios.drift,
            time: session.record(round.lines[0]).time,
        });
        previous = Some(sent);
    }
    // What follows the last round belongs to it.
    let is_end = !rounds.is_empty() && rounds.end == chain.rounds.len();
    if let Some(last) = previous.filter(|_| is_end) {
        last.assign_output(session, block);
        let ratios = last.ratios;
        let mut rest = BlockEstimates::default();
        rest.add(session, &chain.tail, |block, log| table.input(ratios, block, log));
        assign_sizes(session, &chain.tail, &rest.sizes, 1.0, TokenOrigin::Estimated, block);
    }
    sizes
}

/// What a window starts with beyond its own messages.
fn base_size(fit: Result<(), UnfitReason>, sent: &SentCall<'_>) -> Option<f64> {
    let starts_window = matches!(fit, Err(UnfitReason::First | UnfitReason::Boundary));
    (starts_window && sent.has_usage).then(|| (sent.input as f64 - sent.input_estimates.sum).max(0.0))
}

/// One call as it was sent and answered.
struct SentCall<'r> {
    round: &'r Round,
    model: &'r str,
    ratios: &'r Ratios,
    has_usage: bool,
    /// Zeroed usage beside iterations: a copy kept over a boundary.
    is_kept: bool,
    input: u64,
    cache_read: u64,
    output: f64,
    is_final: bool,
    recorded_output: u64,
    /// Of the response.
    output_estimates: BlockEstimates,
    /// Of the new input.
    input_estimates: BlockEstimates,
}

/// Estimates of some blocks.
#[derive(Default)]
struct BlockEstimates {
    /// One by one.
    sizes: SmallVec<[f64; 8]>,
    /// Together.
    sum: f64,
    /// Those of thinking together.
    thinking: f64,
    /// Characters / 4 of all.
    naive: f64,
}

impl BlockEstimates {
    fn add(&mut self, session: &Session<'_>, nodes: &[Node], size: impl Fn(&Block, &Log) -> f64) {
        for &node in nodes {
            let log = session.log(node);
            for block in session.blocks(node) {
                let size = size(block, log);
                self.sizes.push(size);
                self.sum += size;
                if block.kind == BlockKind::Thinking {
                    self.thinking += size;
                }
                self.naive += naive(block);
            }
        }
    }
}

impl<'r> SentCall<'r> {
    fn new(
        session: &Session<'r>,
        round: &'r Round,
        table: &'r RatioTable,
        before: Option<&SentCall<'r>>,
    ) -> SentCall<'r> {
        let first = session.response(round.lines[0]);
        let model = first.map_or("", |response| session.log(round.lines[0]).string(response.model));
        // The model hardly ever changes, and finding its family means reading its name.
        let ratios = match before.filter(|before| before.model == model) {
            Some(before) => before.ratios,
            None => table.for_model(model),
        };
        let context = first.map(|response| response.context()).unwrap_or_default();
        let (mut recorded, mut is_stopped) = (0, false);
        for response in round.lines.iter().filter_map(|line| session.response(*line)) {
            recorded = recorded.max(response.context().output);
            is_stopped |= response.stop != StopReason::Unknown;
        }
        let grows = recorded > context.output;
        let mut new = BlockEstimates::default();
        new.add(session, &round.inputs, |block, log| table.input(ratios, block, log));
        let mut out = BlockEstimates::default();
        out.add(session, &round.lines, |block, log| table.output(ratios, block, log));
        let out_estimate = (out.sum + ratios.per_response).max(1.0);
        let is_final = (is_stopped || grows) && recorded > 0;
        SentCall {
            round,
            model,
            ratios,
            has_usage: context.input_side() > 0,
            is_kept: first.is_some_and(|response| response.is_zeroed),
            input: context.input_side(),
            cache_read: context.cache_read,
            output: if is_final {
                recorded as f64
            } else {
                out_estimate.max(recorded as f64)
            },
            is_final,
            recorded_output: recorded,
            output_estimates: out,
            input_estimates: new,
        }
    }

    fn naive_output(&self) -> f64 {
        if self.is_final {
            self.recorded_output as f64
        } else {
            self.output_estimates.naive.max(self.recorded_output as f64)
        }
    }

    /// Shares the recorded output out to the blocks of the response; without one their estimates stand.
    fn assign_output(&self, session: &Session<'_>, block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin)) {
        let lines = &self.round.lines;
        match (self.is_final, self.output_estimates.sizes.len()) {
            (true, 1) => assign_sizes(session, lines, &[self.output], 1.0, TokenOrigin::Recorded, block),
            (true, _) => {
                let factor = factor(self.output, self.output_estimates.sum);
                assign_sizes(
                    session,
                    lines,
                    &self.output_estimates.sizes,
                    factor,
                    TokenOrigin::Calibrated,
                    block,
                );
            }
            (false, _) => assign_sizes(
                session,
                lines,
                &self.output_estimates.sizes,
                1.0,
                TokenOrigin::Estimated,
                block,
            ),
        }
    }
}

/// What makes sizes that add up to `sum` add up to `target`; nothing does if they are all zero.
fn factor(target: f64, sum: f64) -> f64 {
    if sum > 0.0 { target / sum } else { 0.0 }
}

/// Characters / 4, the estimate of the recorded client.
fn naive(block: &Block) -> f64 {
    let images = match block.kind {
        BlockKind::Image | BlockKind::Document => 1,
        _ => block.images,
    };
    f64::from(block.quarters) + 2000.0 * f64::from(images)
}

/// Reports blocks with their sizes times a factor.
fn assign_sizes(
    session: &Session<'_>,
    nodes: &[Node],
    sizes: &[f64],
    factor: f64,
    origin: TokenOrigin,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) {
    let mut sizes = sizes.iter();
    for &node in nodes {
        for (found, size) in std::iter::zip(session.blocks(node), &mut sizes) {
            block(node, found, size * factor, origin);
        }
    }
}

/// Shares the difference between two calls out to the blocks between them.
fn distribute_growth(
    session: &Session<'_>,
    before: &SentCall<'_>,
    sent: &SentCall<'_>,
    dropped: f64,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) {
    let grown = sent.input as f64 - before.input as f64 + dropped;
    let factor = if before.is_final {
        before.assign_output(session, block);
        factor(grown - before.output, sent.input_estimates.sum)
    } else {
        // What is part of no block is shared out too: every recorded token belongs to some block.
        factor(grown, sent.input_estimates.sum + before.output_estimates.sum)
    };
    let (factor, origin) = if PLAUSIBLE.contains(&factor) {
        (factor, TokenOrigin::Calibrated)
    } else {
        (1.0, TokenOrigin::Estimated)
    };
    if !before.is_final {
        assign_sizes(
            session,
            &before.round.lines,
            &before.output_estimates.sizes,
            factor,
            origin,
            block,
        );
    }
    assign_sizes(
        session,
        &sent.round.inputs,
        &sent.input_estimates.sizes,
        factor,
        origin,
        block,
    );
}

/// Whether the difference between two calls is what was added between them.
fn check_fitness(
    session: &Session<'_>,
    round: &Round,
    before: Option<&SentCall<'_>>,
    sent: &SentCall<'_>,
) -> Result<(), UnfitReason> {
    let Some(before) = before else {
        return Err(UnfitReason::First);
    };
    let mut breaks = round
        .inputs
        .iter()
        .filter(|node| session.changes_window(**node))
        .peekable();
    if breaks.peek().is_some() {
        let is_micro =
            breaks.all(|node| session.kind(*node) == RecordKind::MicroBoundary && !session.is_summary(*node));
        return Err(if is_micro {
            UnfitReason::Micro
        } else {
            UnfitReason::Boundary
        });
    }
    if !sent.has_usage || !before.has_usage {
        return Err(UnfitReason::NoUsage);
    }
    if sent.is_kept || before.is_kept {
        return Err(UnfitReason::Kept);
    }
    if sent.model != before.model {
        return Err(UnfitReason::ModelSwitch);
    }
    if session.is_copied(round.lines[0]) {
        return Err(UnfitReason::Copy);
    }
    if sent.cache_read < 40_000 && before.input > sent.input + 400 {
        return Err(UnfitReason::Resume);
    }
    Ok(())
}
