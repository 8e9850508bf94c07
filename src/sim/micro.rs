//! Micro-compaction: results that can be had again leave the window without a model call.

use super::event::MicroKind;
use super::steps::Stretch;
use super::trace::{Call, Item, NONE, Trace, flag};
use super::window::{State, Window};
use crate::policy::Policy;
use crate::policy::value::Trail;
use crate::session::log::NO_TIME;
use crate::tokens::ledger::Category;
use std::ops::Range;

/// Results of one chain that may be cleared, in the order of their calls.
#[derive(Debug, Default)]
pub struct Results {
    /// Results in the window, not cleared.
    active: Vec<u32>,
    /// Deleted on the server, which is told so again with every call while its cache lives. The messages are as they were.
    deleted: Vec<u32>,
    /// By item: whatever was deleted there once is not deleted again.
    spent: Vec<bool>,
    /// How many of the active ones never were.
    fresh: u64,
    /// The recorded client's estimate of the active ones, images apart.
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

/// Which tools of a trace may be cleared.
pub fn tool_mask(trace: &Trace, tools: &[String]) -> Vec<bool> {
    trace.tools.iter().map(|tool| tools.contains(tool)).collect()
}

/// Whether a policy has any micro-compaction.
pub fn may_clear(policy: &Policy) -> bool {
    let has_kind = policy.gap_on || policy.budget_on || policy.cached_on || policy.api_on;
    policy.micro && policy.compaction && has_kind
}

impl Results {
    /// Takes note of items that were added. Nothing is clearable under policies that never clear.
    pub fn add(&mut self, window: &Window<'_>, trace: &Trace, items: Range<u32>, clearable: &[bool]) {
        if clearable.is_empty() {
            return;
        }
        for at in items {
            let item = &trace.items[at as usize];
            let is_result = item.category == Category::ToolResult && clearable[usize::from(item.tool)];
            if is_result && window.state(at) == State::Live {
                let order = |at: u32| call_order(trace, at);
                let mut place = self.active.len();
                // Results of parallel calls come in any order; nearly all come in the order of their calls.
                while place > 0 && order(self.active[place - 1]) > order(at) {
                    place -= 1;
                }
                self.active.insert(place, at);
                self.take_in(trace, at);
            }
        }
    }

    /// Forgets what is no longer in the window.
    pub fn prune(&mut self, window: &Window<'_>, trace: &Trace) {
        self.active.retain(|item| window.state(*item) == State::Live);
        (self.fresh, self.quarters, self.images) = (0, 0, 0);
        for at in 0..self.active.len() {
            self.take_in(trace, self.active[at]);
        }
        self.deleted.retain(|item| window.state(*item) == State::Cleared);
    }

    /// Remembers what is deleted on the server.
    pub fn delete(&mut self, items: &[u32]) {
        self.deleted.extend_from_slice(items);
        for &item in items {
            let at = item as usize;
            if self.spent.len() <= at {
                self.spent.resize(at + 1, false);
            }
            self.spent[at] = true;
        }
    }

    /// Counts one of the active ones.
    fn take_in(&mut self, trace: &Trace, at: u32) {
        let item = &trace.items[at as usize];
        self.fresh += u64::from(!self.is_spent(at));
        self.quarters += u64::from(item.quarters);
        self.images += u64::from(item.images);
    }

    fn is_spent(&self, item: u32) -> bool {
        self.spent.get(item as usize).is_some_and(|spent| *spent)
    }

    /// Forgets what is deleted there, and returns it.
    pub fn take_deleted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.deleted)
    }

    /// What is deleted there of a range.
    pub fn deleted_in(&self, range: &Range<u32>) -> impl Iterator<Item = u32> {
        self.deleted.iter().copied().filter(|item| range.contains(item))
    }

    /// Whether any kind may have something to do before a call. Asked at every call, and mostly none has.
    pub fn may_act(&self, policy: &Policy, previous: &Call, call: &Call, is_over_warning: bool, input: u64) -> bool {
        let is_idle = |minutes: u64| is_idle(previous, call, minutes);
        (policy.budget_on && is_over_warning)
            || (policy.cached_on && self.fresh >= policy.cached_trigger)
            || (policy.api_on && input >= policy.api_trigger)
            || (policy.api_on && policy.api_thinking && is_idle(policy.api_thinking_minutes))
            || !self.deleted.is_empty()
            || (policy.gap_on && is_idle(policy.gap_minutes))
    }

    /// After a long pause: all but the newest.
    pub fn after_gap(&self, policy: &Policy, previous: &Call, call: &Call) -> Option<Clearing> {
        if !policy.gap_on {
            return None;
        }
        if !is_idle(previous, call, policy.gap_minutes) {
            return None;
        }
        oldest(&self.active, policy.gap_keep)
    }

    /// On the server while the cache is warm: down to the newest once there are enough of them.
    pub fn cached(&self, policy: &Policy) -> Option<Clearing> {
        if !policy.cached_on || self.fresh < policy.cached_trigger {
            return None;
        }
        let fresh = self.active.iter().copied().filter(|item| !self.is_spent(*item));
        oldest(&fresh.collect::<Vec<_>>(), policy.cached_keep)
    }

    /// Down to a budget, oldest first.
    pub fn over_budget(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        if !policy.budget_on {
            return None;
        }
        // What all of them come to, where that needs no rounding one by one: mostly less than there is to save.
        let most = self.quarters + policy.image * self.images;
        if policy.units_per_token == 4.0 && (most <= policy.budget_target || most < policy.budget_at_least) {
            return None;
        }
        let clearing = self.down_to(
            policy.budget_target,
            policy.budget_protect,
            |item| estimate(policy, item),
            trace,
        );
        (clearing.saved >= policy.budget_at_least && !clearing.items.is_empty()).then_some(clearing)
    }

    /// The API's own edits, at a number of input tokens.
    pub fn api_edits(&self, policy: &Policy, trace: &Trace, input: u64) -> Option<Clearing> {
        if !policy.api_on || input < policy.api_trigger {
            return None;
        }
        let clearing = self.down_to(policy.api_keep, 0, |item| u64::from(item.tokens), trace);
        (clearing.saved >= policy.api_at_least.max(1)).then_some(clearing)
    }

    fn down_to(&self, target: u64, protect: u64, size: impl Fn(&Item) -> u64, trace: &Trace) -> Clearing {
        let size_at = |at: u32| size(&trace.items[at as usize]);
        let mut left = self.active.iter().map(|at| size_at(*at)).sum::<u64>();
        let mut clearing = Clearing {
            eligible: left,
            ..Clearing::default()
        };
        let clearable = self
            .active
            .len()
            .saturating_sub(usize::try_from(protect).unwrap_or(usize::MAX));
        for &at in &self.active[..clearable] {
            if left <= target {
                break;
            }
            left -= size_at(at);
            clearing.saved += size_at(at);
            clearing.items.push(at);
        }
        clearing
    }
}

/// Whether the client estimates an item that came after the last response.
pub fn is_in_trail(policy: &Policy, item: &Item) -> bool {
    is_always_in_trail(item)
        || (policy.trail == Trail::All && item.category == Category::Attachment && item.is(flag::HOOK))
}

/// Whether it does under every policy that estimates at all.
pub fn is_always_in_trail(item: &Item) -> bool {
    !matches!(item.category, Category::Attachment | Category::Summary) && !item.is(flag::ARTEFACT)
}

/// The client's estimate of what came after the last response.
pub fn estimate_trail(policy: &Policy, items: &[Item]) -> u64 {
    let counted = items.iter().filter(|item| is_in_trail(policy, item));
    counted.map(|item| estimate(policy, item)).sum()
}

/// The same for a whole stretch of items.
pub fn estimate_stretch(policy: &Policy, stretch: &Stretch, items: &[Item]) -> u64 {
    match stretch.estimate(policy.trail == Trail::All) {
        // Any other ratio is rounded item by item.
        Some((quarters, images)) if policy.units_per_token == 4.0 => {
            u64::from(quarters) + policy.image * u64::from(images)
        }
        _ => estimate_trail(policy, items),
    }
}

/// The client's estimate of an item.
pub fn estimate(policy: &Policy, item: &Item) -> u64 {
    let text = if policy.units_per_token == 4.0 {
        u64::from(item.quarters)
    } else {
        (f64::from(item.quarters) * (4.0 / policy.units_per_token)).round() as u64
    };
    text + policy.image * u64::from(item.images)
}

/// All but the newest.
fn oldest(results: &[u32], keep: u64) -> Option<Clearing> {
    let count = results
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
    (count > 0).then(|| Clearing {
        items: results[..count].to_vec(),
        ..Clearing::default()
    })
}

fn call_order(trace: &Trace, result: u32) -> u32 {
    match trace.items[result as usize].pair {
        NONE => result,
        call => call,
    }
}

/// Whether more than so many minutes lie between the last response and the next call.
fn is_idle(previous: &Call, call: &Call, minutes: u64) -> bool {
    let now = call.sent();
    let limit = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000);
    previous.time != NO_TIME && now != NO_TIME && now.saturating_sub(previous.time) > limit
}

/// Thinking of earlier turns that the API drops after an idle hour: everything before the last turn.
pub fn old_thinking(policy: &Policy, trace: &Trace, window: &Window<'_>, previous: &Call, call: &Call) -> Vec<u32> {
    if !policy.api_on || !policy.api_thinking {
        return Vec::new();
    }
    if !is_idle(previous, call, policy.api_thinking_minutes) {
        return Vec::new();
    }
    let last_turn = trace.calls.iter().position(|other| other.turn == previous.turn);
    let start = last_turn.map_or(0, |at| trace.calls[at].inputs.start);
    let is_old = |at: &u32| *at < start && trace.items[*at as usize].category == Category::Thinking;
    window.live().filter(is_old).collect()
}

impl MicroKind {
    /// Whether what stays is still a prefix of what the prompt cache holds.
    pub fn keeps_prefix(self) -> bool {
        self == MicroKind::Cached
    }
}
