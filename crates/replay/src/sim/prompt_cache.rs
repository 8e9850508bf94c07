//! The prompt cache: how much of a prompt the API has seen before, and what that costs.
//!
//! The cache holds prefixes. A call reads what the call before left there, unless the cache has expired, the model changed,
//! or something early in the prompt did. What it reads then is at most the system prompt and the tools.

use crate::policy::Policy;
use crate::policy::presets::ClientVersion;
use crate::policy::value::CacheLife;
use crate::sim::event::CacheMiss;
use crate::sim::trace::Call;
use transcript::log::{NO_TIME, Time};
use transcript::record::Tokens;

/// An hour, in milliseconds.
const HOUR: i64 = 3_600_000;

/// What is left of a prompt when nothing of the conversation can be read: system prompt and tools that others share. A read
/// outside of this is of something else.
const SHARED_RANGE: std::ops::RangeInclusive<u64> = 5_000..=45_000;

/// What is usually left, where nothing was seen of it.
const DEFAULT_SHARED: u64 = 19_000;

/// Input that is neither read nor written: the end of the prompt, a few tokens.
const DEFAULT_REMAINDER: u64 = 8;
const MAX_REMAINDER: u64 = 16;

/// What the API has in its cache for one chain.
#[derive(Debug, Clone, Default)]
pub struct PromptCache {
    entry: Option<CachedPrompt>,
    /// Why the next call cannot read everything.
    break_reason: Option<CacheMiss>,
    /// What was read when nothing of the conversation could be: system prompt and tools.
    shared_tokens: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct CachedPrompt {
    tokens: u64,
    time: Time,
    is_hour: bool,
    model: u16,
}

/// How a prompt is billed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Billing {
    /// Counts by price.
    pub tokens: Tokens,
    /// Why the cache was missed, if it was.
    pub miss: Option<CacheMiss>,
}

impl PromptCache {
    /// Something early in the prompt changed.
    pub fn break_prefix(&mut self, why: CacheMiss) {
        self.break_reason = Some(why);
    }

    /// The prompt stays the same up to so many tokens.
    pub fn keep_prefix(&mut self, tokens: u64) {
        if let Some(held) = &mut self.entry {
            held.tokens = held.tokens.min(tokens);
        }
    }

    /// Takes note of what broke the prefix between two calls without being part of a policy. Thinking that was switched on
    /// or off shows in the recorded remainder, so only where the record is followed.
    pub fn detect_break(&mut self, before: &Call, call: &Call, version: ClientVersion, may_switch: bool) {
        let remainder = |call: &Call| {
            call.usage
                .map(|usage| usage.input)
                .filter(|input| *input <= MAX_REMAINDER)
        };
        let is_switched = match (remainder(before), remainder(call)) {
            (Some(before), Some(now)) => (before > 4) != (now > 4) && (call.starts_turn || call.is_expanded),
            _ => false,
        };
        if call.is_after_restart {
            self.break_prefix(CacheMiss::Resume);
        } else if (may_switch && is_switched) || (call.is_expanded && version < ClientVersion([2, 1, 45])) {
            self.break_prefix(CacheMiss::Switched);
        }
    }

    /// Bills a call that sends `input` tokens, of which `base` are system prompt and tools. `recorded` is what the log says
    /// of a call that sends the same.
    #[inline]
    pub fn bill(&mut self, policy: &Policy, call: &Call, input: u64, base: u64, recorded: Option<&Tokens>) -> Billing {
        let is_hour = match policy.cache_life {
            CacheLife::FiveMinutes => false,
            CacheLife::OneHour => true,
            CacheLife::Recorded => match call.usage.filter(|usage| usage.cache_write > 0) {
                Some(usage) => usage.cache_write_1h * 2 > usage.cache_write,
                None => self.entry.is_some_and(|held| held.is_hour),
            },
        };
        let miss = self.miss(policy, call, is_hour);
        let whole = self.entry.map_or(0, |held| held.tokens);
        let read = match miss {
            None => whole,
            // What other sessions left in the cache is not known to a replay of this one.
            Some(CacheMiss::First) => recorded.or(call.usage.as_ref()).map_or(0, |usage| usage.cache_read),
            Some(CacheMiss::Model) => 0,
            Some(CacheMiss::Expired) if !is_hour => 0,
            Some(CacheMiss::Compaction) if self.is_older_than(call, 2 * HOUR) => 0,
            Some(_) => self.shared_tokens.unwrap_or(DEFAULT_SHARED).min(base).min(whole),
        };
        let remainder = call.usage.map_or(0, |usage| usage.input);
        let is_split_known = miss == Some(CacheMiss::First);
        let remainder = match remainder {
            0..=MAX_REMAINDER => remainder,
            _ if is_split_known => remainder,
            _ => DEFAULT_REMAINDER,
        };
        let plain = remainder.min(input);
        let read = read.min(input - plain);
        let write = input - plain - read;
        let seen = recorded.filter(|_| miss.is_some()).map(|usage| usage.cache_read);
        self.shared_tokens = seen.filter(|read| SHARED_RANGE.contains(read)).or(self.shared_tokens);
        self.entry = Some(CachedPrompt {
            tokens: read + write,
            time: call.time,
            is_hour,
            model: call.model,
        });
        self.break_reason = None;
        let output = u64::from(call.output);
        Billing {
            tokens: Tokens {
                input: plain,
                output,
                cache_write: write,
                cache_write_1h: if is_hour { write } else { 0 },
                cache_read: read,
            },
            miss,
        }
    }

    fn miss(&self, policy: &Policy, call: &Call, is_hour: bool) -> Option<CacheMiss> {
        let Some(held) = self.entry else {
            return Some(CacheMiss::First);
        };
        if held.model != call.model {
            return Some(CacheMiss::Model);
        }
        if matches!(self.break_reason, Some(CacheMiss::Compaction | CacheMiss::Cleared)) {
            return self.break_reason;
        }
        if self.is_older_than(call, lifetime_ms(policy, is_hour)) {
            return Some(CacheMiss::Expired);
        }
        self.break_reason
    }

    /// Whether the last call lies longer ago than this, from its first line to the last input of the next.
    fn is_older_than(&self, call: &Call, millis: i64) -> bool {
        let now = call.sent_time();
        self.entry
            .is_some_and(|held| held.time != NO_TIME && now != NO_TIME && now.saturating_sub(held.time) >= millis)
    }

    /// Whether everything that the last call left there can be read by another one of that model, now.
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

    /// Bills a call beside the conversation that adds `more` to its window, and reads of it what the cache holds if it
    /// `shares` the prefix. Nothing of it stays in the cache that the conversation could read.
    pub fn bill_side(&self, shares: bool, window: u64, more: u64, output: u64) -> Tokens {
        let held = self.entry.map_or(0, |held| held.tokens).min(window);
        let read = if shares { held } else { 0 };
        Tokens {
            input: window + more - read,
            output,
            cache_write: 0,
            cache_write_1h: 0,
            cache_read: read,
        }
    }
}

/// How long what is written lives, in milliseconds.
fn lifetime_ms(policy: &Policy, is_hour: bool) -> i64 {
    match is_hour {
        true => HOUR,
        false => policy.cache_edge_seconds as i64 * 1000,
    }
}
