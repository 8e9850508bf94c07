//! Sizes of rounds and blocks: recorded where the log states them, calibrated where two recorded counts bracket them,
//! estimated elsewhere.
//!
//! The usage of a call states how many tokens were sent. What the next call sent beyond that is the true size of
//! everything added in between: the response and the new input. That difference is distributed over the blocks in
//! proportion to their estimates. The same pairs of calls show how good the estimates are ([`CallPair`]).

use crate::tokens::ratios::{RatioTable, Ratios, drops_thinking};
use smallvec::SmallVec;
use std::ops::Range;
use transcript::log::{Block, BlockKind, Log, RecordKind, StopReason};
use transcript::thread::{Chain, Node, Round, Session, starts_turn, usage_line};

/// Where a token count comes from. Counts of different origin are never added up without saying so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenOrigin {
    /// The log states it.
    Recorded,
    /// A share of the difference between two recorded counts.
    Calibrated,
    /// Computed from the length of the text.
    Estimated,
}

/// Sizes of one round.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RoundSize {
    /// Input tokens; `None` if the log has no usage.
    pub input: Option<u64>,
    /// Output tokens.
    pub output: f64,
    /// Whether the output was recorded, or estimated because the log only has a count from the middle of the stream.
    pub output_origin: TokenOrigin,
    /// The largest count of output that a line of the response has.
    pub recorded_output: u64,
    /// Tokens of system prompt and tools, at the first call of a window: the first of the chain, or after a boundary.
    pub base: Option<f64>,
    /// Growth of the window since the previous call, by estimates and the drift of the model family.
    pub growth: f64,
    /// Time of the response.
    pub time: i64,
}

impl RoundSize {
    /// Returns the estimated output beyond what the log has of it: 0 if the recorded count is the final one.
    pub fn output_rest(&self) -> u64 {
        (self.output.round() as u64).saturating_sub(self.recorded_output)
    }

    /// Returns the window after the response; `None` if the log has no usage.
    pub fn context(&self) -> Option<u64> {
        self.input.map(|input| input + self.output.round() as u64)
    }
}

/// Two neighboring calls whose difference shows how good the estimates are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallPair {
    /// First line of the later call.
    pub node: Node,
    /// Round of the later call in the chain; the earlier call is the round before.
    pub round: usize,
    /// Estimated input of the later call.
    pub predicted: f64,
    /// The same, with characters / 4 for everything that was not recorded.
    pub naive: f64,
    /// Recorded input of the later call.
    pub actual: f64,
}

/// Why the difference between two neighboring calls says nothing about sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub enum UnfitReason {
    /// It is the first call.
    First,
    /// One of the calls has no usage.
    NoUsage,
    /// A compaction lies in between.
    Boundary,
    /// Tool results were cleared in between.
    Micro,
    /// The model changed.
    ModelSwitch,
    /// The client was restarted: the cache is cold and the window smaller than before.
    Resume,
    /// The pair was copied from another session.
    Copy,
    /// The call was kept verbatim over a boundary, with zeroed usage.
    Kept,
}

/// The sizes of a chain.
#[derive(Debug, Default, PartialEq)]
pub struct ChainSizes {
    /// One per round.
    pub rounds: Vec<RoundSize>,
    /// Pairs of calls that can be scored.
    pub pairs: Vec<CallPair>,
    /// Reasons why other pairs cannot.
    pub unfit: Vec<UnfitReason>,
}

/// Plausible ratios of a recorded difference to its estimate. Outside of this range, something other than the blocks
/// explains the difference, and the estimates are kept.
const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.4..=2.5;

/// Sizes a chain. `block` receives the size of every block, in order.
pub fn size_chain<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) -> ChainSizes {
    size_rounds(session, chain, 0..chain.rounds.len(), table, block)
}

/// Sizes some rounds of a chain. Neighboring ranges can be sized independently; concatenated, they give the sizes of the
/// whole.
pub fn size_rounds<'r>(
    session: &Session<'r>,
    chain: &'r Chain,
    rounds: Range<usize>,
    table: &'r RatioTable,
    block: &mut dyn FnMut(Node, &Block, f64, TokenOrigin),
) -> ChainSizes {
    let mut sizer = ChainSizer {
        session,
        block,
        sizes: ChainSizes {
            rounds: Vec::with_capacity(rounds.len()),
            pairs: Vec::with_capacity(rounds.len()),
            ..ChainSizes::default()
        },
    };
    // A round depends on the call before it and on the thinking of its turn so far, so start at the beginning of that turn.
    let before = &chain.rounds[..rounds.start];
    let lead = before
        .iter()
        .rposition(|round| starts_turn(session, round))
        .unwrap_or(0);
    let mut previous: Option<SentCall<'_>> = None;
    // Estimated thinking of the current turn, which some models drop at the next prompt.
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
        if at >= rounds.start {
            sizer.size_round(at, previous.as_ref(), &sent, dropped);
        }
        previous = Some(sent);
    }
    // Blocks are sized one call late, once the next call shows their true sum. After the last call only estimates are left.
    let is_end = !rounds.is_empty() && rounds.end == chain.rounds.len();
    if let Some(last) = previous.filter(|_| is_end) {
        sizer.assign_output(&last);
        let mut tail = BlockEstimates::default();
        tail.add(session, &chain.tail, |block, log| table.input(last.ratios, block, log));
        sizer.assign(&chain.tail, &tail.sizes, 1.0, TokenOrigin::Estimated);
    }
    sizer.sizes
}

/// Sizes rounds and passes the sizes of their blocks on.
struct ChainSizer<'s, 'r> {
    session: &'s Session<'r>,
    block: &'s mut dyn FnMut(Node, &Block, f64, TokenOrigin),
    sizes: ChainSizes,
}

impl ChainSizer<'_, '_> {
    /// Sizes a round and the response before it. `dropped` is the thinking that the API dropped in between.
    fn size_round(&mut self, at: usize, previous: Option<&SentCall<'_>>, sent: &SentCall<'_>, dropped: f64) {
        let fit = check_fitness(self.session, previous, sent);
        match (fit, previous) {
            (Ok(()), Some(before)) => {
                self.sizes.pairs.push(CallPair {
                    node: sent.round.lines[0],
                    round: at,
                    predicted: before.input as f64 + before.output + sent.input_estimates.sum - dropped,
                    naive: before.input as f64 + before.naive_output() + sent.input_estimates.naive,
                    actual: sent.input as f64,
                });
                self.distribute_growth(before, sent, dropped);
            }
            (unfit, before) => {
                if let Some(before) = before {
                    self.assign_output(before);
                }
                let (inputs, sizes) = (&sent.round.inputs, &sent.input_estimates.sizes);
                self.assign(inputs, sizes, 1.0, TokenOrigin::Estimated);
                self.sizes.unfit.extend(unfit.err());
            }
        }
        self.sizes.rounds.push(RoundSize {
            input: sent.has_usage.then_some(sent.input),
            output: sent.output,
            recorded_output: sent.recorded_output,
            output_origin: if sent.is_final {
                TokenOrigin::Recorded
            } else {
                TokenOrigin::Estimated
            },
            base: base_size(fit, sent),
            growth: previous.map_or(0.0, |before| before.output) + sent.input_estimates.sum - dropped
                + sent.ratios.drift,
            time: self.session.record(sent.round.lines[0]).time,
        });
    }

    /// Passes on the blocks of some records, with their sizes times a factor.
    fn assign(&mut self, nodes: &[Node], sizes: &[f64], factor: f64, origin: TokenOrigin) {
        let mut sizes = sizes.iter();
        for &node in nodes {
            for (found, size) in std::iter::zip(self.session.blocks(node), &mut sizes) {
                (self.block)(node, found, size * factor, origin);
            }
        }
    }

    /// Distributes a recorded output over the blocks of the response. Without one, their estimates stand.
    fn assign_output(&mut self, sent: &SentCall<'_>) {
        let (lines, estimates) = (&sent.round.lines, &sent.output_estimates);
        match (sent.is_final, estimates.sizes.len()) {
            (true, 1) => self.assign(lines, &[sent.output], 1.0, TokenOrigin::Recorded),
            (true, _) => {
                let factor = scale(sent.output, estimates.sum);
                self.assign(lines, &estimates.sizes, factor, TokenOrigin::Calibrated);
            }
            (false, _) => self.assign(lines, &estimates.sizes, 1.0, TokenOrigin::Estimated),
        }
    }

    /// Distributes the difference between two calls over the blocks between them.
    fn distribute_growth(&mut self, before: &SentCall<'_>, sent: &SentCall<'_>, dropped: f64) {
        let (inputs, output) = (&sent.input_estimates, &before.output_estimates);
        let grown = sent.input as f64 - before.input as f64 + dropped;
        let factor = if before.is_final {
            // The recorded output covers the response; the rest of the growth is the new input.
            self.assign_output(before);
            scale(grown - before.output, inputs.sum)
        } else {
            // Tokens outside of all blocks are distributed too, so every recorded token belongs to some block.
            scale(grown, inputs.sum + output.sum)
        };
        let (factor, origin) = if PLAUSIBLE.contains(&factor) {
            (factor, TokenOrigin::Calibrated)
        } else {
            (1.0, TokenOrigin::Estimated)
        };
        if !before.is_final {
            self.assign(&before.round.lines, &output.sizes, factor, origin);
        }
        self.assign(&sent.round.inputs, &inputs.sizes, factor, origin);
    }
}

/// Returns the tokens that a window starts with beyond its own messages; `None` if the call does not start a window.
fn base_size(fit: Result<(), UnfitReason>, sent: &SentCall<'_>) -> Option<f64> {
    let starts_window = matches!(fit, Err(UnfitReason::First | UnfitReason::Boundary));
    (starts_window && sent.has_usage).then(|| (sent.input as f64 - sent.input_estimates.sum).max(0.0))
}

/// One call as it was sent and answered, with the estimates of its blocks.
struct SentCall<'r> {
    round: &'r Round,
    model: &'r str,
    ratios: &'r Ratios,
    has_usage: bool,
    /// Whether the top-level usage is zero and only the iterations count: a copy kept over a boundary.
    is_kept: bool,
    input: u64,
    cache_read: u64,
    /// Final output tokens, recorded or estimated.
    output: f64,
    /// Whether the recorded output is the final one.
    is_final: bool,
    recorded_output: u64,
    /// Estimates of the response.
    output_estimates: BlockEstimates,
    /// Estimates of the new input.
    input_estimates: BlockEstimates,
}

/// Estimates of some blocks.
#[derive(Default)]
struct BlockEstimates {
    /// One per block.
    sizes: SmallVec<[f64; 8]>,
    /// The sum of all.
    sum: f64,
    /// The sum of thinking blocks.
    thinking: f64,
    /// The sum by characters / 4.
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

impl BlockEstimates {
    /// Gives the thinking of a response its recorded size, in equal parts, and the other blocks the rest of the output. Logs
    /// often have the size of reasoning without its text.
    fn set_thinking(&mut self, session: &Session<'_>, lines: &[Node], thinking: f64, output: f64) {
        let is_thinking = |block: &Block| block.kind == BlockKind::Thinking;
        let kinds = lines.iter().flat_map(|line| session.blocks(*line)).map(is_thinking);
        let kinds = kinds.collect::<SmallVec<[bool; 8]>>();
        let count = kinds.iter().filter(|kind| **kind).count();
        let others = self.sum - self.thinking;
        let is_plausible =
            count > 0 && thinking <= output && (others > 0.0 || count < kinds.len() || thinking == output);
        if !is_plausible {
            return;
        }
        let rest = scale(output - thinking, others);
        for (size, is_thinking) in std::iter::zip(&mut self.sizes, kinds) {
            *size = if is_thinking {
                thinking / count as f64
            } else {
                *size * rest
            };
        }
        self.sum = self.sizes.iter().sum();
        self.thinking = thinking;
    }
}

impl<'r> SentCall<'r> {
    fn new(
        session: &Session<'r>,
        round: &'r Round,
        table: &'r RatioTable,
        before: Option<&SentCall<'r>>,
    ) -> SentCall<'r> {
        let anchor = usage_line(session, round);
        let first = session.response(anchor);
        let model = first.map_or("", |response| session.log(anchor).string(response.model));
        // Looking up a family parses the model's name; the model hardly ever changes, so reuse the last answer.
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
        // Counts from the middle of the stream repeat on every line; a stop reason or a growing count shows a final one.
        let grows = recorded > context.output;
        let is_final = (is_stopped || grows) && recorded > 0;
        let mut input_estimates = BlockEstimates::default();
        input_estimates.add(session, &round.inputs, |block, log| table.input(ratios, block, log));
        let mut output_estimates = BlockEstimates::default();
        output_estimates.add(session, &round.lines, |block, log| table.output(ratios, block, log));
        let log = session.log(round.lines[0]);
        if let Some(facts) = log.call_facts_of(session.record(round.lines[0])) {
            output_estimates.set_thinking(session, &round.lines, f64::from(facts.reasoning), recorded as f64);
        }
        let estimate = (output_estimates.sum + ratios.per_response).max(1.0);
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
                estimate.max(recorded as f64)
            },
            is_final,
            recorded_output: recorded,
            output_estimates,
            input_estimates,
        }
    }

    /// Returns the output with characters / 4 where it was not recorded.
    fn naive_output(&self) -> f64 {
        if self.is_final {
            self.recorded_output as f64
        } else {
            self.output_estimates.naive.max(self.recorded_output as f64)
        }
    }
}

/// Returns the factor that scales sizes with this sum to `target`; 0 if they are all zero.
fn scale(target: f64, sum: f64) -> f64 {
    if sum > 0.0 { target / sum } else { 0.0 }
}

/// Estimates a block like the recorded client: characters / 4.
fn naive(block: &Block) -> f64 {
    let images = match block.kind {
        BlockKind::Image | BlockKind::Document => 1,
        _ => block.images,
    };
    f64::from(block.quarters) + 2000.0 * f64::from(images)
}

/// Checks that the difference between two calls is exactly what was added between them.
fn check_fitness(session: &Session<'_>, before: Option<&SentCall<'_>>, sent: &SentCall<'_>) -> Result<(), UnfitReason> {
    let Some(before) = before else {
        return Err(UnfitReason::First);
    };
    let round = sent.round;
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
