//! Compaction in the replay: first by the session notes, then by a model call.

use super::Replay;
use super::boundaries::Replacement;
use crate::policy::value::{KeptMessages, SummaryRange, SummarySize};
use crate::sim::event::{CompactionCause, CompactionFailure, CompactionKind, Event, EventSink, SideCallPurpose};
use crate::sim::keep;
use crate::sim::restore::RestoredContext;
use crate::tokens::ledger::Category;
use std::ops::Range;

/// A compaction prompt after the oldest groups were dropped until it fits.
struct FittedPrompt {
    retries: u32,
    /// Tokens dropped.
    dropped: u64,
}

impl<S: EventSink> Replay<'_, S> {
    /// Returns whether the circuit breaker is open: so many compactions failed in a row that none is tried any more.
    pub(super) fn is_breaker_open(&self) -> bool {
        self.failures >= self.rules.policy.breaker
    }

    /// Compacts by the notes, else by a model call. Returns whether history was replaced.
    pub(super) fn compact(&mut self, at: usize, cause: CompactionCause) -> bool {
        let policy = self.rules.policy;
        if policy.hook_veto && cause != CompactionCause::Manual {
            let event = Event::Failed {
                cause,
                failure: CompactionFailure::Vetoed,
                in_a_row: self.failures,
            };
            self.emit(at, &event);
            return false;
        }
        if policy.notes_compact && self.compact_by_notes(at, cause) {
            return true;
        }
        let outcome = if policy.compact_on {
            self.compact_by_model(at, cause)
        } else {
            Err(CompactionFailure::Nothing)
        };
        let Err(failure) = outcome else { return true };
        self.failures += 1;
        let event = Event::Failed {
            cause,
            failure,
            in_a_row: self.failures,
        };
        self.emit(at, &event);
        if self.failures == policy.breaker {
            self.emit(at, &Event::BreakerOpen);
        }
        false
    }

    /// Replaces history by the notes. Returns false if they are empty, outdated, or would free too little.
    fn compact_by_notes(&mut self, at: usize, cause: CompactionCause) -> bool {
        let policy = self.rules.policy;
        let now = self.now(at);
        let Some((tokens, covered)) = self.notes.at_compaction(policy, now) else {
            return false;
        };
        // Notes from before the last boundary do not cover what came after it.
        if covered < self.window.floor() {
            return false;
        }
        let start = keep::first_kept_item(policy, self.trace, &self.window, covered);
        let kept = start..self.window.end();
        let restored = self.restored_context(&kept, CompactionKind::SessionMemory);
        let after = self.size_after(cause, tokens, &restored, &kept);
        if after >= self.rules.limits.threshold || after >= self.window.total() {
            return false;
        }
        if let Some(texts) = self.input.texts {
            texts.use_notes(covered);
        }
        let replacement = Replacement {
            cause,
            kind: CompactionKind::SessionMemory,
            kept,
            summary: tokens,
            restored,
            retries: 0,
        };
        self.replace_history(at, replacement);
        true
    }

    /// Replaces history by a summary that a model call writes.
    fn compact_by_model(&mut self, at: usize, cause: CompactionCause) -> Result<(), CompactionFailure> {
        let policy = self.rules.policy;
        let (summarized, kept) = self.split_at_pivot(at, cause);
        if summarized.is_empty() {
            return Err(CompactionFailure::Nothing);
        }
        // Items kept after the summarized ones are not sent; items kept before them are.
        let is_tail = kept.start >= summarized.end && policy.compact_keep != KeptMessages::Prompts;
        let unsent = match is_tail {
            true => self.window.tokens_in(kept.clone()),
            false => 0,
        };
        let sent = self.window.total().saturating_sub(unsent);
        let shares_cache =
            policy.shares_cache && self.is_warm(at) && !self.is_drawn(at, FALLBACK, policy.fallback_rate);
        // A call that shares the cache has to send the conversation as it is; any other leaves out what needs no summary.
        let stripped = match policy.strip && !shares_cache {
            true => self.strippable_tokens(&summarized),
            false => 0,
        };
        let FittedPrompt { retries, dropped } = self.fit_prompt(at, &summarized, sent, stripped)?;
        if self.is_drawn(at, FAILURE, policy.failure_rate) {
            return Err(CompactionFailure::Injected);
        }
        let summary = match self.input.texts {
            Some(texts) => texts
                .summarize(summarized, cause)
                .ok_or(CompactionFailure::Nothing)?
                .min(policy.max_output),
            None => self.summary_size(),
        };
        let sent = sent.saturating_sub(dropped + stripped);
        self.bill_compaction(at, summary, sent, shares_cache && dropped == 0);
        let kind = if kept.is_empty() {
            CompactionKind::Full
        } else {
            CompactionKind::Partial
        };
        let restored = self.restored_context(&kept, kind);
        // A summary that frees nothing would leave the next check due again. A manual compaction happens all the same.
        if cause != CompactionCause::Manual && self.size_after(cause, summary, &restored, &kept) >= self.window.total()
        {
            return Err(CompactionFailure::NoGain);
        }
        let replacement = Replacement {
            cause,
            kind,
            kept,
            summary,
            restored,
            retries,
        };
        self.replace_history(at, replacement);
        Ok(())
    }

    /// Returns the size of the window after a compaction with this summary.
    fn size_after(&self, cause: CompactionCause, summary: u64, restored: &RestoredContext, kept: &Range<u32>) -> u64 {
        let base = u64::try_from(self.window.base).unwrap_or(0);
        // A compaction ends deletions on the server, so kept results come back at full size.
        let undeleted = self
            .results
            .deleted_in(kept)
            .map(|item| self.window.placeholder_savings(item));
        let kept_tokens = match self.rules.policy.compact_keep {
            KeptMessages::Prompts => keep::prompt_tokens(self.trace, &self.window, kept),
            _ => self.window.tokens_in(kept.clone()) + undeleted.sum::<u64>(),
        };
        base + summary + self.wrap_tokens(cause) + restored.tokens() + kept_tokens
    }

    /// Returns the tokens of the text around a summary. One that nobody asked for tells an agent without a user more.
    pub(super) fn wrap_tokens(&self, cause: CompactionCause) -> u64 {
        let policy = self.rules.policy;
        let is_autonomous = policy.autonomous && cause != CompactionCause::Manual;
        policy.wrap + if is_autonomous { policy.autonomous_wrap } else { 0 }
    }

    /// Returns the tokens of images, documents and skill listings in a range, less the markers that take their places.
    fn strippable_tokens(&self, range: &Range<u32>) -> u64 {
        let listings = ["skill_listing", "skill_discovery"].map(|name| self.trace.tool(name));
        let marker = self.rules.policy.marker;
        let tokens = self.window.items_in(range).map(|item| {
            let tokens = u64::from(item.tokens);
            match item.category {
                Category::Image => tokens.saturating_sub(marker),
                Category::Attachment if item.tool != 0 && listings.contains(&Some(item.tool)) => tokens,
                // The text of the result stays.
                Category::ToolResult if item.images > 0 => {
                    tokens.saturating_sub(u64::from(item.quarters) + marker * u64::from(item.images))
                }
                _ => 0,
            }
        });
        tokens.sum()
    }

    /// Returns the items that a compaction summarizes, and those that it keeps. Only a manual one can keep a part.
    fn split_at_pivot(&self, at: usize, cause: CompactionCause) -> (Range<u32>, Range<u32>) {
        let policy = self.rules.policy;
        let (floor, end) = (self.window.floor(), self.window.end());
        let pivot_call = at.saturating_sub(usize::try_from(policy.pivot).unwrap_or(usize::MAX));
        let pivot = self.trace.calls[pivot_call].inputs.start.clamp(floor, end);
        let pivot = keep::extend_to_pairs(self.trace, &self.window, pivot, floor);
        match policy.variant {
            SummaryRange::UpTo if cause == CompactionCause::Manual => (floor..pivot, pivot..end),
            SummaryRange::From if cause == CompactionCause::Manual => (pivot..end, floor..pivot),
            _ => self.split_by_budget(floor..end),
        }
    }

    /// Returns what a compaction that keeps the newest messages summarizes and keeps.
    fn split_by_budget(&self, items: Range<u32>) -> (Range<u32>, Range<u32>) {
        let policy = self.rules.policy;
        let share = |percent: f64| (self.rules.limits.effective as f64 * percent / 100.0).floor() as u64;
        let wanted = policy.keep_percent.map_or(policy.keep_most, share);
        let budget = wanted.max(policy.keep_least).min(policy.keep_most);
        let end = items.end;
        match policy.compact_keep {
            KeptMessages::None => (items, end..end),
            KeptMessages::Tail => {
                let start = keep::first_item_within(self.trace, &self.window, budget);
                (items.start..start, start..end)
            }
            // Prompts are summarized, too.
            KeptMessages::Prompts => {
                let start = keep::first_prompt_within(self.trace, &self.window, budget);
                (items, start..end)
            }
        }
    }

    /// Drops the oldest groups of a prompt of `sent` tokens until it fits into the window. A group is a response and the
    /// input that follows it, so results stay with their calls. `stripped` tokens of it are not sent.
    fn fit_prompt(
        &self,
        at: usize,
        summarized: &Range<u32>,
        sent: u64,
        stripped: u64,
    ) -> Result<FittedPrompt, CompactionFailure> {
        let policy = self.rules.policy;
        let limit = self.input.windows[at.min(self.input.windows.len() - 1)]
            .limit()
            .saturating_add(stripped);
        let whole = self.window.tokens_in(summarized.clone());
        let around = sent.saturating_sub(whole) + policy.compact_prompt + policy.compact_hook_tokens;
        if !policy.hard_limit || around + whole <= limit {
            return Ok(FittedPrompt { retries: 0, dropped: 0 });
        }
        let starts = self.trace.calls.iter().map(|call| call.response.start);
        let inside = starts.filter(|start| *start > summarized.start && *start < summarized.end);
        let mut groups = Vec::new();
        let mut from = summarized.start;
        for start in inside.chain([summarized.end]) {
            groups.push(self.window.tokens_in(from..start));
            from = start;
        }
        let (mut first, mut tokens) = (0, whole);
        let mut retries = 0;
        while around + tokens > limit {
            if u64::from(retries) == policy.retries {
                return Err(CompactionFailure::TooLong);
            }
            let excess = policy.excess_known.then(|| around + tokens - limit);
            let left =
                keep::drop_oldest(&groups, first, excess, policy.retry_percent).ok_or(CompactionFailure::TooLong)?;
            (first, tokens) = (left.first_group, left.tokens);
            retries += 1;
        }
        let dropped = whole - tokens;
        Ok(FittedPrompt { retries, dropped })
    }

    /// Returns the size of a simulated summary, by the source that the policy names.
    fn summary_size(&self) -> u64 {
        let policy = self.rules.policy;
        let recorded = || {
            let here = self.record.here.iter().find(|boundary| !boundary.is_micro);
            here.map(|boundary| u64::from(boundary.summary))
                .filter(|tokens| *tokens > 0)
        };
        let known = match policy.summary {
            SummarySize::Recorded => recorded().or(self.input.summary),
            SummarySize::Learned => self.input.summary,
            SummarySize::Fixed => None,
        };
        known.unwrap_or(policy.summary_tokens).min(policy.max_output)
    }

    /// Bills the model call of a compaction, which sends `sent` tokens of the window. A call that shares the prompt cache sets
    /// no limit to its output: a limit would change what the cache is keyed by.
    pub(super) fn bill_compaction(&mut self, at: usize, summary: u64, sent: u64, shares_cache: bool) {
        let policy = self.rules.policy;
        let output = (summary as f64 * (1.0 + policy.scratch)).round() as u64;
        let output = match shares_cache {
            true => output,
            false => output.min(policy.max_output.max(summary)),
        };
        let instructions = policy.compact_prompt + policy.compact_hook_tokens;
        let tokens = self.cache.bill_side(shares_cache, sent, instructions, output);
        self.emit_side_call(at, SideCallPurpose::Compact, tokens, self.rules.tariff);
    }

    /// Returns whether something that happens to a share of compactions happens to this one. The draw depends on the seed,
    /// the chain, the call and what is drawn only.
    fn is_drawn(&self, at: usize, what: u64, rate: f64) -> bool {
        if rate <= 0.0 {
            return false;
        }
        let mut text = [0; 24];
        text[..8].copy_from_slice(&self.rules.policy.failure_seed.wrapping_add(what).to_le_bytes());
        text[8..16].copy_from_slice(&self.input.key.to_le_bytes());
        text[16..].copy_from_slice(&(at as u64).to_le_bytes());
        let share = xxhash_rust::xxh3::xxh3_64(&text) as f64 / u64::MAX as f64;
        share < rate
    }
}

/// What [`Replay::is_drawn`] draws: that a compaction fails.
const FAILURE: u64 = 0;
/// That it cannot share the prompt cache.
const FALLBACK: u64 = 1 << 32;
