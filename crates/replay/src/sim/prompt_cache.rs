//! The prompt cache: how much of a prompt the API reads from its cache, and how the rest is billed.
//!
//! The cache holds prefixes. A call reads what the previous call left there, unless the cache has expired, the model
//! changed, or something early in the prompt changed. In those cases it reads at most the system prompt and the tools.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::policy::value::CacheLife;
use crate::sim::cache_reads::{CacheReads, ReadSituation};
use crate::sim::event::{CacheExpectation, CacheMiss};
use crate::sim::trace::{Call, Trace};
use transcript::agents::Agent;
use transcript::log::{NO_TIME, Time};
use transcript::record::Tokens;

/// One hour in milliseconds.
const HOUR: i64 = 3_600_000;

/// Plausible sizes of a cache read that covers none of the conversation: system prompt and tools, which sessions share. A
/// read outside of this range is something else.
const SHARED_RANGE: std::ops::RangeInclusive<u64> = 5_000..=45_000;

/// Size of such a read where the session shows none.
const DEFAULT_SHARED: u64 = 19_000;

/// Usual input tokens at the end of a prompt that are neither read from nor written to the cache.
const DEFAULT_REMAINDER: u64 = 8;
/// Largest plausible number of such tokens.
const MAX_REMAINDER: u64 = 16;

/// The API's cache for one chain.
#[derive(Debug, Clone, Default)]
pub struct PromptCache {
    /// What the last call left; `None` before the first call.
    entry: Option<CachedPrompt>,
    /// Why the next call cannot read the whole entry.
    break_reason: Option<CacheMiss>,
    /// Tokens read at the last miss that covered none of the conversation: system prompt and tools.
    shared_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct CachedPrompt {
    tokens: u64,
    time: Time,
    /// Whether it lives for an hour instead of five minutes.
    is_hour: bool,
    model: u16,
}

/// How a provider bills cached prompts, as far as a chain shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheStyle {
    /// Writing to the cache has a price of its own.
    Explicit,
    /// Prompts are cached without being asked for: calls read, but none is billed for writing.
    Implicit,
    /// Nothing is cached.
    None,
}

/// Calls without any sign of a cache that show that there is none.
const UNCACHED_CALLS: usize = 3;

impl CacheStyle {
    /// Returns how the provider of a model bills cached prompts: other vendors' models behind the client, and some gateways,
    /// have no cache, or one of another kind.
    pub fn of(trace: &Trace, model: usize) -> CacheStyle {
        let calls = trace.calls.iter().filter(|call| usize::from(call.model) == model);
        let usages = calls.filter_map(|call| call.usage).collect::<Vec<_>>();
        let writes = usages.iter().any(|usage| usage.cache_write > 0);
        let reads = usages.iter().any(|usage| usage.cache_read > 0);
        match (writes, reads) {
            _ if trace.client != Agent::Claude => CacheStyle::Explicit,
            (true, _) => CacheStyle::Explicit,
            (false, true) => CacheStyle::Implicit,
            (false, false) if usages.len() < UNCACHED_CALLS => CacheStyle::Explicit,
            (false, false) => CacheStyle::None,
        }
    }
}

/// What a bill follows from besides the policy and the call.
#[derive(Debug, Clone, Copy)]
pub struct BillQuery<'a> {
    /// Tokens of the prompt.
    pub input: u64,
    /// Of these, system prompt and tools.
    pub base: u64,
    /// The recorded usage if the same prompt was recorded.
    pub recorded: Option<&'a Tokens>,
    /// The situation of the call if its cache is warm.
    pub situation: ReadSituation,
    /// The number of the client's range of [`RANGES`](crate::sim::cache_reads::RANGES).
    pub range: usize,
    pub style: CacheStyle,
}

/// The bill of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Billing {
    /// Tokens by price class.
    pub tokens: Tokens,
    /// Why the call missed the cache by the rules; `None` if it did not.
    pub miss: Option<CacheMiss>,
    pub cache: CacheExpectation,
}

impl Billing {
    /// Returns the bill of a call to a provider that caches nothing.
    fn uncached(input: u64, output: u64) -> Billing {
        Billing {
            tokens: Tokens {
                input,
                output,
                ..Tokens::default()
            },
            miss: None,
            cache: CacheExpectation {
                situation: None,
                is_hour: false,
                held: 0,
                low: 0,
                by_rule: 0,
            },
        }
    }
}

impl PromptCache {
    /// Records that something early in the prompt changed.
    pub fn break_prefix(&mut self, why: CacheMiss) {
        self.break_reason = Some(why);
    }

    /// Shortens the entry to the first `tokens` of the prompt, which did not change.
    pub fn keep_prefix(&mut self, tokens: u64) {
        if let Some(held) = &mut self.entry {
            held.tokens = held.tokens.min(tokens);
        }
    }

    /// Records what broke the prefix between two calls without being part of a policy: a restart, a client command, or
    /// thinking switched on or off. The latter shows in the recorded remainder, so it only counts if `may_switch`.
    pub fn detect_break(&mut self, before: &Call, call: &Call, version: ClientVersion, may_switch: bool) {
        let remainder = |call: &Call| {
            call.usage
                .map(|usage| usage.input)
                .filter(|input| *input <= MAX_REMAINDER)
        };
        // A switch costs nothing if the call still read what the one before it had left.
        let has_fallen = match (before.usage, call.usage) {
            (Some(before), Some(now)) => now.cache_read < before.cache_read + before.cache_write,
            _ => false,
        };
        let is_switched = match (remainder(before), remainder(call)) {
            (Some(before), Some(now)) => {
                has_fallen && (before > 4) != (now > 4) && (call.starts_turn || call.continuity.is_expanded)
            }
            _ => false,
        };
        if call.continuity.is_after_restart {
            self.break_prefix(CacheMiss::Resume);
        } else if (may_switch && is_switched) || (call.continuity.is_expanded && version < ClientVersion([2, 1, 45])) {
            self.break_prefix(CacheMiss::Switched);
        }
    }

    /// Bills a call.
    #[inline]
    pub fn bill(&mut self, policy: &Policy, call: &Call, query: &BillQuery<'_>) -> Billing {
        let BillQuery {
            input, base, recorded, ..
        } = *query;
        if query.style == CacheStyle::None {
            return Billing::uncached(input, u64::from(call.output.tokens));
        }
        let is_hour = self.writes_for_an_hour(policy, call);
        let miss = self.miss(policy, call);
        let plain = match call.usage.map_or(0, |usage| usage.input) {
            remainder @ 0..=MAX_REMAINDER => remainder,
            remainder if miss == Some(CacheMiss::First) => remainder,
            _ => DEFAULT_REMAINDER,
        };
        let plain = plain.min(input);
        // A prompt that shrank cannot read more than it sends.
        let held = self.entry.map_or(0, |held| held.tokens).min(input - plain);
        let low = self.shared_tokens.unwrap_or(DEFAULT_SHARED).min(base).min(held);
        let by_rule = match miss {
            None => held,
            // What other sessions left in the cache only shows in the recorded usage.
            Some(CacheMiss::First) => recorded.or(call.usage.as_ref()).map_or(0, |usage| usage.cache_read),
            Some(miss) if self.loses_all(call, miss) => 0,
            Some(_) => low,
        };
        // Losses were measured where writing is billed.
        let situation = match miss {
            _ if query.style == CacheStyle::Implicit => None,
            None => Some(query.situation),
            Some(miss) => ReadSituation::of_miss(miss, self.late_ms(policy, call)),
        };
        let share = situation
            .filter(|_| policy.expected_misses)
            .and_then(|situation| CacheReads::built_in().share(situation, query.range, self.lives_an_hour()));
        let expected = share.map_or(by_rule, |share| share.expected_read(held, low));
        let read = expected.min(input - plain);
        let write = input - plain - read;
        let cache = CacheExpectation {
            situation,
            is_hour: self.lives_an_hour(),
            held,
            low,
            by_rule: by_rule.min(input - plain),
        };
        let seen = recorded.filter(|_| miss.is_some()).map(|usage| usage.cache_read);
        self.shared_tokens = seen.filter(|read| SHARED_RANGE.contains(read)).or(self.shared_tokens);
        self.entry = Some(CachedPrompt {
            tokens: read + write,
            time: call.time,
            is_hour,
            model: call.model,
        });
        self.break_reason = None;
        let (plain, write) = match query.style {
            CacheStyle::Implicit => (plain + write, 0),
            CacheStyle::Explicit | CacheStyle::None => (plain, write),
        };
        Billing {
            tokens: Tokens {
                input: plain,
                output: u64::from(call.output.tokens),
                cache_write: write,
                cache_write_1h: if is_hour { write } else { 0 },
                cache_read: read,
            },
            miss,
            cache,
        }
    }

    /// Returns whether what a call writes lives for an hour.
    #[inline]
    fn writes_for_an_hour(&self, policy: &Policy, call: &Call) -> bool {
        match policy.cache_life {
            CacheLife::FiveMinutes => false,
            CacheLife::OneHour => true,
            CacheLife::Recorded => match call.usage.filter(|usage| usage.cache_write > 0) {
                Some(usage) => usage.cache_write_1h * 2 > usage.cache_write,
                None => self.lives_an_hour(),
            },
        }
    }

    /// Returns whether a miss leaves nothing by the rules, not even system prompt and tools.
    fn loses_all(&self, call: &Call, miss: CacheMiss) -> bool {
        match miss {
            CacheMiss::Model => true,
            CacheMiss::Expired if !self.lives_an_hour() => true,
            // System prompt and tools do not outlive their own hour by much either.
            CacheMiss::Expired | CacheMiss::Compaction => self.is_older_than(call, 2 * HOUR),
            _ => false,
        }
    }

    /// Returns the milliseconds since the entry expired; negative if it has not.
    fn late_ms(&self, policy: &Policy, call: &Call) -> i64 {
        let age = self.entry.map_or(0, |held| call.sent_time().saturating_sub(held.time));
        age.saturating_sub(lifetime_ms(policy, self.lives_an_hour()))
    }

    /// Returns whether what the cache holds was written to live for an hour. What the current call writes does not matter.
    fn lives_an_hour(&self) -> bool {
        self.entry.is_some_and(|held| held.is_hour)
    }

    fn miss(&self, policy: &Policy, call: &Call) -> Option<CacheMiss> {
        let Some(held) = self.entry else {
            return Some(CacheMiss::First);
        };
        if held.model != call.model {
            return Some(CacheMiss::Model);
        }
        if matches!(self.break_reason, Some(CacheMiss::Compaction | CacheMiss::Cleared)) {
            return self.break_reason;
        }
        if self.is_older_than(call, lifetime_ms(policy, held.is_hour)) {
            return Some(CacheMiss::Expired);
        }
        self.break_reason
    }

    /// Returns whether at least `millis` passed between the first line of the last response and the last input of `call`.
    fn is_older_than(&self, call: &Call, millis: i64) -> bool {
        let now = call.sent_time();
        self.entry
            .is_some_and(|held| held.time != NO_TIME && now != NO_TIME && now.saturating_sub(held.time) >= millis)
    }

    /// Returns whether a call of that model could read everything that the last call left in the cache.
    pub fn is_warm(&self, policy: &Policy, model: u16, now: Time) -> bool {
        self.break_reason.is_none()
            && self.entry.is_some_and(|held| {
                let age = match (held.time, now) {
                    (NO_TIME, _) | (_, NO_TIME) => 0,
                    (time, now) => now.saturating_sub(time),
                };
                held.model == model && age < lifetime_ms(policy, held.is_hour)
            })
    }

    /// Bills a call outside the conversation that sends `window` tokens of it and `more` of its own. It reads from the cache
    /// if it `shares_prefix` with the conversation. It leaves nothing there that the conversation could read.
    pub fn bill_side(&self, shares_prefix: bool, window: u64, more: u64, output: u64) -> Tokens {
        let held = self.entry.map_or(0, |held| held.tokens).min(window);
        let read = if shares_prefix { held } else { 0 };
        Tokens {
            input: window + more - read,
            output,
            cache_write: 0,
            cache_write_1h: 0,
            cache_read: read,
        }
    }

    /// Bills the later call of a side task: it reads the prompt of the call before, `sent` tokens, and sends `more`.
    pub fn bill_side_again(&self, sent: u64, more: u64, output: u64) -> Tokens {
        Tokens {
            input: more,
            output,
            cache_write: 0,
            cache_write_1h: 0,
            cache_read: sent,
        }
    }

    /// Makes the next call of a side task able to read this one: what it did not read is written to the cache.
    pub fn write_side(&self, tokens: Tokens) -> Tokens {
        let is_hour = self.entry.is_some_and(|held| held.is_hour);
        Tokens {
            input: 0,
            cache_write: tokens.input,
            cache_write_1h: if is_hour { tokens.input } else { 0 },
            ..tokens
        }
    }
}

/// Returns the lifetime of a cache entry in milliseconds.
fn lifetime_ms(policy: &Policy, is_hour: bool) -> i64 {
    match is_hour {
        true => HOUR,
        false => policy.cache_edge_seconds as i64 * 1000,
    }
}
