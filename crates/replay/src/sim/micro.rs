//! Micro-compaction: results that can be had again leave the window without a model call.

use crate::policy::Policy;
use crate::policy::value::TrailEstimate;
use crate::sim::event::MicroKind;
use crate::sim::steps::StretchTotals;
use crate::sim::trace::{Call, NONE, Trace, TraceItem, flag};
use crate::sim::window::{ItemState, Window};
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::log::NO_TIME;

/// Results of one chain that may be cleared, in the order of their calls.
#[derive(Debug, Default)]
pub struct ClearableResults {
    /// Results in the window, not cleared.
    active: Vec<u32>,
    /// Deleted on the server, which is told so again with every call while its cache lives. The messages are as they were.
    deleted: Vec<u32>,
    /// By item: whatever was deleted there once is not deleted again.
    was_deleted: Vec<bool>,
    /// How many of the active ones never were.
    never_deleted: u64,
    /// What the active ones come to.
    tokens: u64,
    /// The recorded client's estimate of them, images apart.
    quarters: u64,
    images: u64,
}

/// What a micro-compaction does.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clearing {
    /// Items that go, in order.
    pub items: Vec<u32>,
    /// Tokens that come free, as the mechanism counts them.
    pub saved: u64,
    /// Tokens of all that could have gone, counted the same way.
    pub eligible: u64,
}

/// Which kinds have their turn.
#[derive(Debug, Clone, Copy)]
pub struct DueMicroKinds {
    /// A long pause lies behind.
    pub gap: bool,
    /// The context is large enough for a look at the budget.
    pub budget: bool,
    /// There are enough results to delete some on the server.
    pub cached: bool,
    /// The prompt is large enough for the API's own edits.
    pub api: bool,
    /// The API drops old thinking.
    pub thinking: bool,
}

impl DueMicroKinds {
    /// Whether any has.
    #[inline]
    pub fn has_any(self) -> bool {
        self.gap | self.budget | self.cached | self.api | self.thinking
    }
}

/// Which tools of a trace may be cleared.
pub fn tool_mask(trace: &Trace, tools: &[String]) -> Vec<bool> {
    trace.tools.iter().map(|tool| tools.contains(tool)).collect()
}

/// Whether a policy has any micro-compaction.
pub fn may_clear(policy: &Policy) -> bool {
    let has_kind = policy.gap_on || policy.budget_on || policy.cached_on || policy.api_on;
    policy.micro && policy.compaction && has_kind
}

impl ClearableResults {
    /// None yet; `may_clear` if there will be.
    pub fn new(may_clear: bool) -> ClearableResults {
        ClearableResults {
            active: Vec::with_capacity(if may_clear { 64 } else { 0 }),
            ..ClearableResults::default()
        }
    }

    /// Takes note of items that were added. Nothing is clearable under policies that never clear.
    pub fn add(&mut self, window: &Window<'_>, trace: &Trace, items: Range<u32>, clearable: &[bool]) {
        if clearable.is_empty() {
            return;
        }
        for (at, item) in std::iter::zip(items.clone(), trace.items(&items)) {
            let is_result = item.category == Category::ToolResult && clearable[usize::from(item.tool)];
            if is_result && window.state(at) == ItemState::Live {
                let order = call_order(item, at);
                let is_before = |other: &u32| call_order(&trace.items[*other as usize], *other) <= order;
                // Results of parallel calls come in any order; nearly all come in the order of their calls.
                match self.active.iter().rposition(is_before) {
                    Some(last) if last + 1 < self.active.len() => self.active.insert(last + 1, at),
                    None if !self.active.is_empty() => self.active.insert(0, at),
                    _ => self.active.push(at),
                }
                self.count_active(item, at);
            }
        }
    }

    /// Forgets what is no longer in the window.
    pub fn prune(&mut self, window: &Window<'_>, trace: &Trace) {
        self.active.retain(|item| window.state(*item) == ItemState::Live);
        (self.never_deleted, self.tokens, self.quarters, self.images) = (0, 0, 0, 0);
        for at in 0..self.active.len() {
            let item = self.active[at];
            self.count_active(&trace.items[item as usize], item);
        }
        self.deleted.retain(|item| window.state(*item) == ItemState::Cleared);
    }

    /// Remembers what is deleted on the server.
    pub fn delete(&mut self, items: &[u32]) {
        self.deleted.extend_from_slice(items);
        for &item in items {
            let at = item as usize;
            if self.was_deleted.len() <= at {
                self.was_deleted.resize(at + 1, false);
            }
            self.was_deleted[at] = true;
        }
    }

    /// Counts one of the active ones.
    fn count_active(&mut self, item: &TraceItem, at: u32) {
        self.never_deleted += u64::from(!self.was_deleted(at));
        self.tokens += u64::from(item.tokens);
        self.quarters += u64::from(item.quarters);
        self.images += u64::from(item.images);
    }

    fn was_deleted(&self, item: u32) -> bool {
        self.was_deleted.get(item as usize).is_some_and(|spent| *spent)
    }

    /// Whether anything is deleted there.
    pub fn has_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Forgets what is deleted there, and returns it.
    pub fn take_deleted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.deleted)
    }

    /// What is deleted there of a range.
    pub fn deleted_in(&self, range: &Range<u32>) -> impl Iterator<Item = u32> {
        self.deleted.iter().copied().filter(|item| range.contains(item))
    }

    /// Which kinds have their turn before a call. Asked at every call, and mostly none has.
    #[inline]
    pub fn due_kinds(
        &self,
        policy: &Policy,
        previous: &Call,
        call: &Call,
        is_over_warning: bool,
        is_warm: bool,
        input: u64,
    ) -> DueMicroKinds {
        let is_idle = |minutes: u64| is_idle(previous, call, minutes);
        DueMicroKinds {
            gap: policy.gap_on && is_idle(policy.gap_minutes),
            budget: policy.budget_on && is_over_warning,
            cached: policy.cached_on && is_warm && self.never_deleted >= policy.cached_trigger,
            api: policy.api_on && input >= policy.api_trigger,
            thinking: policy.api_on && policy.api_thinking && is_idle(policy.api_thinking_minutes),
        }
    }

    /// After a long pause: all but the newest.
    pub fn clear_after_gap(&self, policy: &Policy) -> Option<Clearing> {
        clear_all_but_newest(&self.active, policy.gap_keep)
    }

    /// On the server while the cache is warm: down to the newest once there are enough of them.
    pub fn clear_cached(&self, policy: &Policy) -> Option<Clearing> {
        let fresh = self.active.iter().copied().filter(|item| !self.was_deleted(*item));
        clear_all_but_newest(&fresh.collect::<Vec<_>>(), policy.cached_keep)
    }

    /// Down to a budget, oldest first.
    pub fn clear_over_budget(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        let size = |item: &TraceItem| estimate(policy, item);
        let all = match policy.units_per_token == 4.0 {
            true => self.quarters + policy.image * self.images,
            // Any other ratio is rounded item by item.
            false => self.active.iter().map(|at| size(&trace.items[*at as usize])).sum(),
        };
        let (target, at_least) = (policy.budget_target, policy.budget_at_least);
        self.clear_down_to(target, policy.budget_protect, at_least, all, size, trace)
    }

    /// The API's own edits, at a number of input tokens.
    pub fn clear_by_api(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        let size = |item: &TraceItem| u64::from(item.tokens);
        self.clear_down_to(policy.api_keep, 0, policy.api_at_least, self.tokens, size, trace)
    }

    /// The oldest of the active ones, which come to `all`, until no more than `target` are left. The newest few are
    /// protected, and it must be worth it.
    fn clear_down_to(
        &self,
        target: u64,
        protect: u64,
        at_least: u64,
        all: u64,
        size: impl Fn(&TraceItem) -> u64,
        trace: &Trace,
    ) -> Option<Clearing> {
        if all <= target || all < at_least {
            return None;
        }
        let protect = usize::try_from(protect).unwrap_or(usize::MAX);
        let clearable = &self.active[..self.active.len().saturating_sub(protect)];
        let (mut count, mut saved) = (0, 0);
        for &at in clearable {
            if all - saved <= target {
                break;
            }
            saved += size(&trace.items[at as usize]);
            count += 1;
        }
        (count > 0 && saved >= at_least).then(|| Clearing {
            items: clearable[..count].to_vec(),
            saved,
            eligible: all,
        })
    }
}

/// Whether the client estimates an item that came after the last response.
pub fn is_in_trail(policy: &Policy, item: &TraceItem) -> bool {
    is_always_in_trail(item)
        || (policy.trail == TrailEstimate::All && item.category == Category::Attachment && item.has_flag(flag::HOOK))
}

/// Whether it does under every policy that estimates at all.
pub fn is_always_in_trail(item: &TraceItem) -> bool {
    !matches!(item.category, Category::Attachment | Category::Summary) && !item.has_flag(flag::ARTEFACT)
}

/// The client's estimate of what came after the last response.
pub fn estimate_trail(policy: &Policy, items: &[TraceItem]) -> u64 {
    let counted = items.iter().filter(|item| is_in_trail(policy, item));
    counted.map(|item| estimate(policy, item)).sum()
}

/// The same for a whole stretch of items.
pub fn estimate_stretch(policy: &Policy, stretch: &StretchTotals, items: &[TraceItem]) -> u64 {
    match stretch.estimate(policy.trail == TrailEstimate::All) {
        // Any other ratio is rounded item by item.
        Some((quarters, images)) if policy.units_per_token == 4.0 => {
            u64::from(quarters) + policy.image * u64::from(images)
        }
        _ => estimate_trail(policy, items),
    }
}

/// The client's estimate of an item.
pub fn estimate(policy: &Policy, item: &TraceItem) -> u64 {
    let text = if policy.units_per_token == 4.0 {
        u64::from(item.quarters)
    } else {
        (f64::from(item.quarters) * (4.0 / policy.units_per_token)).round() as u64
    };
    text + policy.image * u64::from(item.images)
}

/// All but the newest.
fn clear_all_but_newest(results: &[u32], keep: u64) -> Option<Clearing> {
    let count = results
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
    (count > 0).then(|| Clearing {
        items: results[..count].to_vec(),
        ..Clearing::default()
    })
}

/// Where a result stands in the order of calls.
fn call_order(result: &TraceItem, at: u32) -> u32 {
    match result.pair {
        NONE => at,
        call => call,
    }
}

/// Whether more than so many minutes lie between the last response and the next call.
fn is_idle(previous: &Call, call: &Call, minutes: u64) -> bool {
    let now = call.sent_time();
    let limit = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000);
    previous.time != NO_TIME && now != NO_TIME && now.saturating_sub(previous.time) > limit
}

/// Thinking of earlier turns, which the API drops after an idle hour: everything before the last turn.
pub fn old_thinking(trace: &Trace, window: &Window<'_>, previous: &Call) -> Vec<u32> {
    let last_turn = trace.calls.iter().position(|other| other.turn == previous.turn);
    let start = last_turn.map_or(0, |at| trace.calls[at].inputs.start);
    let is_old = |at: &u32| *at < start && trace.items[*at as usize].category == Category::Thinking;
    window.live_items().filter(is_old).collect()
}

impl MicroKind {
    /// Whether what stays is still a prefix of what the prompt cache holds.
    pub fn keeps_prefix(self) -> bool {
        self == MicroKind::Cached
    }
}
