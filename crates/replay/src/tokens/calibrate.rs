//! Sizes of rounds and blocks: recorded where the log says, calibrated where two records bracket them, estimated elsewhere.
//!
//! The context of a call is what its usage says was sent. What the next call was sent beyond that is the true size of
//! everything added in between: the response, as far as its output was recorded, and the new input. That difference is
//! shared out to the blocks in proportion to their estimates. The same pairs show how good the estimates are ([`Pair`]).

use crate::tokens::ratios::{RatioTable, Ratios, drops_thinking};
use smallvec::SmallVec;
use std::ops::Range;
use transcript::log::{Block, BlockKind, Log, RecordKind, Stop};
use transcript::thread::{Chain, Node, Round, Session, starts_turn};

/// Where a count comes from. Counts of different origin are never added without saying so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Origin {
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
    pub output_origin: Origin,
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
pub struct Pair {
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
pub enum Unfit {
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
pub struct Sizes {
    /// One per round.
    pub rounds: Vec<RoundSize>,
    /// Pairs that can be scored.
    pub pairs: Vec<Pair>,
    /// Pairs that cannot, by reason.
    pub unfit: Vec<Unfit>,
}

/// A difference this far from the estimate is explained by something else than the blocks.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.4..=2.5;

/// Sizes a chain. `block` is told the size of every block, in order.
pub fn size<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, Origin),
) -> Sizes {
    size_rounds(session, chain, 0..chain.rounds.len(), table, block)
}

/// Sizes some rounds of a chain. Those of neighbouring ranges, one behind the other, are those of the whole.
pub fn size_rounds<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    rounds: Range<usize>,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, Origin),
) -> Sizes {
    let mut sizes = Sizes {
        rounds: Vec::with_capacity(rounds.len()),
        pairs: Vec::with_capacity(rounds.len()),
        ..Sizes::default()
    };
    // What a round inherits goes back to the start of the turn before it.
    let before = &chain.rounds[..rounds.start];
    let lead = before
        .iter()
        .rposition(|round| starts_turn(session, round))
        .unwrap_or(0);
    let mut previous: Option<Sent<'_>> = None;
    // Estimated thinking of the running turn, for models that forget it at the next prompt.
    let mut turn_thinking = 0.0;
    for (at, round) in std::iter::zip(lead.., &chain.rounds[lead..rounds.end]) {
        let sent = Sent::new(session, round, table, previous.as_ref());
        let starts_turn = starts_turn(session, round);
        let dropped = if starts_turn && drops_thinking(sent.model) {
            turn_thinking
        } else {
            0.0
        };
        if starts_turn {
            turn_thinking = 0.0;
        }
        turn_thinking += sent.out.thinking;
        if at < rounds.start {
            previous = Some(sent);
            continue;
        }
        let fit = fitness(session, round, previous.as_ref(), &sent);
        let base = base_size(fit, &sent);
        match (fit, &previous) {
            (Ok(()), Some(before)) => {
                sizes.pairs.push(Pair {
                    node: round.lines[0],
                    round: at,
                    predicted: before.input as f64 + before.output + sent.new.sum - dropped,
                    naive: before.input as f64 + before.naive_output() + sent.new.naive,
                    actual: sent.input as f64,
                });
                share(session, before, &sent, dropped, block);
            }
            (unfit, before) => {
                if let Some(before) = before {
                    before.give_output(session, block);
                }
                give(
                    session,
                    &sent.round.inputs,
                    &sent.new.sizes,
                    1.0,
                    Origin::Estimated,
                    block,
                );
                sizes.unfit.extend(unfit.err());
            }
        }
        sizes.rounds.push(RoundSize {
            input: sent.has_usage.then_some(sent.input),
            output: sent.output,
            output_origin: if sent.is_final {
                Origin::Recorded
            } else {
                Origin::Estimated
            },
            base,
            growth: previous.as_ref().map_or(0.0, |before| before.output) + sent.new.sum - dropped + sent.ratios.drift,
            time: session.record(round.lines[0]).time,
        });
        previous = Some(sent);
    }
    // What follows the last round belongs to it.
    let is_end = !rounds.is_empty() && rounds.end == chain.rounds.len();
    if let Some(last) = previous.filter(|_| is_end) {
        last.give_output(session, block);
        let ratios = last.ratios;
        let mut rest = Estimates::default();
        rest.add(session, &chain.tail, |block, log| table.input(ratios, block, log));
        give(session, &chain.tail, &rest.sizes, 1.0, Origin::Estimated, block);
    }
    sizes
}

/// What a window starts with beyond its own messages.
fn base_size(fit: Result<(), Unfit>, sent: &Sent<'_>) -> Option<f64> {
    let starts_window = matches!(fit, Err(Unfit::First | Unfit::Boundary));
    (starts_window && sent.has_usage).then(|| (sent.input as f64 - sent.new.sum).max(0.0))
}

/// One call as it was sent and answered.
struct Sent<'r> {
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
    out: Estimates,
    /// Of the new input.
    new: Estimates,
}

/// Estimates of some blocks.
#[derive(Default)]
struct Estimates {
    /// One by one.
    sizes: SmallVec<[f64; 8]>,
    /// Together.
    sum: f64,
    /// Those of thinking together.
    thinking: f64,
    /// Characters / 4 of all.
    naive: f64,
}

impl Estimates {
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

impl<'r> Sent<'r> {
    fn new(session: &Session<'r>, round: &'r Round, table: &'r RatioTable, before: Option<&Sent<'r>>) -> Sent<'r> {
        let first = session.response(round.lines[0]);
        let model = first.map_or("", |response| session.log(round.lines[0]).string(response.model));
        // The model hardly ever changes, and finding its family means reading its name.
        let ratios = match before.filter(|before| before.model == model) {
            Some(before) => before.ratios,
            None => table.of(model),
        };
        let context = first.map(|response| response.context()).unwrap_or_default();
        let (mut recorded, mut is_stopped) = (0, false);
        for response in round.lines.iter().filter_map(|line| session.response(*line)) {
            recorded = recorded.max(response.context().output);
            is_stopped |= response.stop != Stop::Unknown;
        }
        let grows = recorded > context.output;
        let mut new = Estimates::default();
        new.add(session, &round.inputs, |block, log| table.input(ratios, block, log));
        let mut out = Estimates::default();
        out.add(session, &round.lines, |block, log| table.output(ratios, block, log));
        let out_estimate = (out.sum + ratios.per_response).max(1.0);
        let is_final = (is_stopped || grows) && recorded > 0;
        Sent {
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
            out,
            new,
        }
    }

    fn naive_output(&self) -> f64 {
        if self.is_final {
            self.recorded_output as f64
        } else {
            self.out.naive.max(self.recorded_output as f64)
        }
    }

    /// Shares the recorded output out to the blocks of the response; without one their estimates stand.
    fn give_output(&self, session: &Session<'_>, block: &mut dyn FnMut(Node, &Block, f64, Origin)) {
        let lines = &self.round.lines;
        match (self.is_final, self.out.sizes.len()) {
            (true, 1) => give(session, lines, &[self.output], 1.0, Origin::Recorded, block),
            (true, _) => {
                let factor = factor(self.output, self.out.sum);
                give(session, lines, &self.out.sizes, factor, Origin::Calibrated, block);
            }
            (false, _) => give(session, lines, &self.out.sizes, 1.0, Origin::Estimated, block),
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
fn give(
    session: &Session<'_>,
    nodes: &[Node],
    sizes: &[f64],
    factor: f64,
    origin: Origin,
    block: &mut dyn FnMut(Node, &Block, f64, Origin),
) {
    let mut sizes = sizes.iter();
    for &node in nodes {
        for (found, size) in std::iter::zip(session.blocks(node), &mut sizes) {
            block(node, found, size * factor, origin);
        }
    }
}

/// Shares the difference between two calls out to the blocks between them.
fn share(
    session: &Session<'_>,
    before: &Sent<'_>,
    sent: &Sent<'_>,
    dropped: f64,
    block: &mut dyn FnMut(Node, &Block, f64, Origin),
) {
    let grown = sent.input as f64 - before.input as f64 + dropped;
    let factor = if before.is_final {
        before.give_output(session, block);
        factor(grown - before.output, sent.new.sum)
    } else {
        // What is part of no block is shared out too: every recorded token belongs to some block.
        factor(grown, sent.new.sum + before.out.sum)
    };
    let (factor, origin) = if PLAUSIBLE.contains(&factor) {
        (factor, Origin::Calibrated)
    } else {
        (1.0, Origin::Estimated)
    };
    if !before.is_final {
        give(session, &before.round.lines, &before.out.sizes, factor, origin, block);
    }
    give(session, &sent.round.inputs, &sent.new.sizes, factor, origin, block);
}

/// Whether the difference between two calls is what was added between them.
fn fitness(session: &Session<'_>, round: &Round, before: Option<&Sent<'_>>, sent: &Sent<'_>) -> Result<(), Unfit> {
    let Some(before) = before else { return Err(Unfit::First) };
    let mut breaks = round.inputs.iter().filter(|node| session.is_break(**node)).peekable();
    if breaks.peek().is_some() {
        let is_micro =
            breaks.all(|node| session.kind(*node) == RecordKind::MicroBoundary && !session.is_summary(*node));
        return Err(if is_micro { Unfit::Micro } else { Unfit::Boundary });
    }
    if !sent.has_usage || !before.has_usage {
        return Err(Unfit::NoUsage);
    }
    if sent.is_kept || before.is_kept {
        return Err(Unfit::Kept);
    }
    if sent.model != before.model {
        return Err(Unfit::ModelSwitch);
    }
    if session.is_copied(round.lines[0]) {
        return Err(Unfit::Copy);
    }
    if sent.cache_read < 40_000 && before.input > sent.input + 400 {
        return Err(Unfit::Resume);
    }
    Ok(())
}
