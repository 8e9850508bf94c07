//! Token counts: the `usage` object of a response.

use super::wire::{WireOtherCall, WireRecord};
use crate::json::{JsonKind, MemoizedNumbers, PullParser};
use crate::skim::SlowPath;

/// Token counts of one API call, or the sum of several.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Tokens {
    /// Input tokens that were neither read from nor written to the prompt cache.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Input tokens written to the prompt cache, with either lifetime.
    pub cache_write: u64,
    /// The part of `cache_write` with a lifetime of one hour.
    pub cache_write_1h: u64,
    /// Input tokens read from the prompt cache.
    pub cache_read: u64,
}

impl Tokens {
    /// Returns whether all counts are zero.
    pub fn is_zero(&self) -> bool {
        self.input | self.output | self.cache_write | self.cache_read == 0
    }

    /// Returns the total input: uncached, written to the cache and read from it.
    pub fn input_side(&self) -> u64 {
        self.input
            .saturating_add(self.cache_write)
            .saturating_add(self.cache_read)
    }

    /// Returns input plus output.
    pub fn total(&self) -> u64 {
        self.input_side().saturating_add(self.output)
    }

    /// Returns what is left without the counts of a part.
    pub fn minus(&self, part: &Tokens) -> Tokens {
        let cache_write = self.cache_write.saturating_sub(part.cache_write);
        Tokens {
            input: self.input.saturating_sub(part.input),
            output: self.output.saturating_sub(part.output),
            cache_write,
            cache_write_1h: self.cache_write_1h.saturating_sub(part.cache_write_1h).min(cache_write),
            cache_read: self.cache_read.saturating_sub(part.cache_read),
        }
    }

    fn add(&mut self, other: &Tokens) {
        self.input = self.input.saturating_add(other.input);
        self.output = self.output.saturating_add(other.output);
        self.cache_write = self.cache_write.saturating_add(other.cache_write);
        self.cache_write_1h = self.cache_write_1h.saturating_add(other.cache_write_1h);
        self.cache_read = self.cache_read.saturating_add(other.cache_read);
    }
}

/// The `usage` object of one line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireUsage {
    /// Counts at the top level.
    pub top: Tokens,
    /// Number of listed iterations (API calls within one response).
    pub iterations: u32,
    /// Sum of the iterations that the top level counts.
    pub iterations_sum: Tokens,
    /// The last of them.
    pub last_iteration: Tokens,
    /// An invalid count was read as 0: negative, fractional, not a number, or above [`MAX_COUNT`].
    pub has_invalid_count: bool,
}

/// Counts above this are invalid: no call has that many tokens, and one bogus line must not swamp the sums.
pub const MAX_COUNT: u64 = 1_000_000_000_000;

impl WireUsage {
    /// Returns the counts for [`PullParser::memoize_numbers`]. `has_invalid_count` is not included and must be unset.
    fn numbers(&self) -> MemoizedNumbers {
        let mut numbers = [0; 16];
        numbers[0] = u64::from(self.iterations);
        let all = [&self.top, &self.iterations_sum, &self.last_iteration];
        for (place, tokens) in std::iter::zip(numbers[1..].chunks_exact_mut(5), all) {
            let Tokens {
                input,
                output,
                cache_write,
                cache_write_1h,
                cache_read,
            } = *tokens;
            place.copy_from_slice(&[input, output, cache_write, cache_write_1h, cache_read]);
        }
        numbers
    }

    /// Restores a usage from its [`WireUsage::numbers`].
    fn from_numbers(numbers: MemoizedNumbers) -> WireUsage {
        let tokens = |at: usize| Tokens {
            input: numbers[at],
            output: numbers[at + 1],
            cache_write: numbers[at + 2],
            cache_write_1h: numbers[at + 3],
            cache_read: numbers[at + 4],
        };
        WireUsage {
            top: tokens(1),
            iterations: numbers[0] as u32,
            iterations_sum: tokens(6),
            last_iteration: tokens(11),
            has_invalid_count: false,
        }
    }
}

/// Reads a usage: its own counts and those of its iterations. Most lines of a response repeat the usage byte for byte,
/// so the memoized one is tried first.
pub(super) fn read_usage<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    record.other_calls.clear();
    if let Some(numbers) = parser.take_memoized_numbers() {
        record.message.usage = Some(WireUsage::from_numbers(numbers));
        return Ok(());
    }
    read_new_usage(parser, record)
}

#[inline(never)]
fn read_new_usage<'a, P: PullParser<'a>>(parser: &mut P, record: &mut WireRecord<'a>) -> Result<(), SlowPath> {
    let mark = parser.position_mark();
    record.message.usage = None;
    let mut counts = UsageFields::default();
    let mut frame = if let Some(frame) = parser.try_open_object(b"{\"input_tokens\":") {
        counts.read(parser, b"input_tokens")?;
        frame
    } else if parser.peek()? == JsonKind::Object {
        parser.open_object()?
    } else {
        return parser.skip();
    };
    let mut iterations = Vec::new();
    let usage = record.message.usage.insert(WireUsage::default());
    each_member!(parser, frame, [
        "cache_creation_input_tokens" "cache_read_input_tokens" "cache_creation" "output_tokens" "server_tool_use"
        "service_tier" "cache_creation" "inference_geo" "iterations" "speed"
    ], key => match key {
        b"iterations" => iterations = read_iterations(parser, usage)?,
        _ => counts.read(parser, key)?,
    });
    usage.top = counts.tokens();
    usage.has_invalid_count |= counts.has_invalid_count;
    usage.count_iterations(&iterations, &mut record.other_calls);
    if !usage.has_invalid_count && record.other_calls.is_empty() {
        parser.memoize_numbers(mark, usage.numbers());
    }
    Ok(())
}

/// One API call within a response.
struct Iteration<'a> {
    kind: IterationKind,
    call: WireOtherCall<'a>,
}

#[derive(PartialEq)]
enum IterationKind {
    /// A part of the response.
    Message,
    /// The whole response, by another model than the one that was asked first.
    Fallback,
    /// A call for something else, such as the advice of another model.
    Other,
}

#[inline(never)]
fn read_iterations<'a, P: PullParser<'a>>(
    parser: &mut P,
    usage: &mut WireUsage,
) -> Result<Vec<Iteration<'a>>, SlowPath> {
    *usage = WireUsage::default();
    let mut iterations = Vec::new();
    if parser.peek()? != JsonKind::Array {
        return parser.skip().map(|()| iterations);
    }
    let mut frame = parser.open_array()?;
    while parser.next_item(&mut frame)? {
        if parser.peek()? != JsonKind::Object {
            parser.skip()?;
            continue;
        }
        let mut kind = IterationKind::Message;
        let mut model = None;
        let mut counts = UsageFields::default();
        let mut inner = parser.open_object()?;
        each_member!(parser, inner, [
            "output_tokens" "cache_read_input_tokens" "cache_creation_input_tokens" "cache_creation" "type"
        ], key => match key {
            b"type" => kind = match parser.text()?.map(|kind| kind.raw()) {
                Some(b"message") => IterationKind::Message,
                Some(b"fallback_message") => IterationKind::Fallback,
                _ => IterationKind::Other,
            },
            b"model" => model = parser.text()?,
            _ => counts.read(parser, key)?,
        });
        usage.iterations = usage.iterations.saturating_add(1);
        usage.has_invalid_count |= counts.has_invalid_count;
        let tokens = counts.tokens();
        iterations.push(Iteration {
            kind,
            call: WireOtherCall { model, tokens },
        });
    }
    Ok(iterations)
}

impl WireUsage {
    /// Splits the iterations into those that the counts at the top level contain and other calls, which are billed on top.
    ///
    /// The top level is the sum of the messages; after a fallback it is the fallback alone, and the messages before it were
    /// calls of another model. An iteration of a kind that is not known is a call of its own, unless the sum contains it.
    fn count_iterations<'a>(&mut self, iterations: &[Iteration<'a>], others: &mut Vec<WireOtherCall<'a>>) {
        let sum = |counts: &dyn Fn(&Iteration<'_>) -> bool| {
            let mut sum = Tokens::default();
            let counted = iterations.iter().filter(|iteration| counts(iteration));
            counted.for_each(|iteration| sum.add(&iteration.call.tokens));
            sum
        };
        let fallback = iterations.iter().rposition(|one| one.kind == IterationKind::Fallback);
        let is_whole = fallback.is_none() && sum(&|_| true).total() == self.top.total();
        for (at, iteration) in iterations.iter().enumerate() {
            let is_counted = match fallback {
                Some(fallback) => at == fallback,
                None => is_whole || iteration.kind == IterationKind::Message,
            };
            if is_counted {
                self.iterations_sum.add(&iteration.call.tokens);
            } else if !iteration.call.tokens.is_zero() {
                others.push(iteration.call);
            }
            if is_counted && iteration.kind != IterationKind::Other {
                self.last_iteration = iteration.call.tokens;
            }
        }
    }
}

/// The counts that `usage` and its iterations have in common, while they are being read.
#[derive(Default)]
struct UsageFields {
    tokens: Tokens,
    /// Cache writes split by lifetime: five minutes, one hour.
    split: [u64; 2],
    /// Whether the total of the split was given as well.
    has_write: bool,
    has_invalid_count: bool,
}

impl UsageFields {
    #[inline(always)]
    fn read<'a, P: PullParser<'a>>(&mut self, parser: &mut P, key: &[u8]) -> Result<(), SlowPath> {
        match key {
            b"input_tokens" => self.tokens.input = self.read_count(parser)?,
            b"output_tokens" => self.tokens.output = self.read_count(parser)?,
            b"cache_creation_input_tokens" => {
                self.tokens.cache_write = self.read_count(parser)?;
                self.has_write = true;
            }
            b"cache_read_input_tokens" => self.tokens.cache_read = self.read_count(parser)?,
            b"cache_creation" => {
                self.split = [0; 2];
                members!(parser, ["ephemeral_1h_input_tokens"], key => match key {
                    b"ephemeral_5m_input_tokens" => self.split[0] = self.read_count(parser)?,
                    b"ephemeral_1h_input_tokens" => self.split[1] = self.read_count(parser)?,
                    _ => parser.skip()?,
                });
            }
            _ => parser.skip()?,
        }
        Ok(())
    }

    /// Reads a token count. Invalid values become 0 and set `has_invalid_count`; a literal, usually `null`, becomes 0
    /// silently.
    #[inline(always)]
    fn read_count<'a, P: PullParser<'a>>(&mut self, parser: &mut P) -> Result<u64, SlowPath> {
        let kind = parser.peek()?;
        let count = match kind {
            JsonKind::Number => parser.count()?.filter(|count| *count <= MAX_COUNT),
            _ => parser.skip().map(|()| None)?,
        };
        self.has_invalid_count |= count.is_none() && kind != JsonKind::Literal;
        Ok(count.unwrap_or(0))
    }

    /// Returns the counts. The given total of cache writes wins: a larger one-hour share is a leftover of another line.
    /// Without a total, the split is summed.
    fn tokens(&self) -> Tokens {
        let [five_minutes, one_hour] = self.split;
        let cache_write = match self.has_write {
            true => self.tokens.cache_write,
            false => five_minutes + one_hour,
        };
        Tokens {
            cache_write,
            cache_write_1h: one_hour.min(cache_write),
            ..self.tokens
        }
    }
}
