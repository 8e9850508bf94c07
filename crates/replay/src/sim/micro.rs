//! Micro-compaction: old tool results leave the window without a model call, because the agent can fetch them again.

use crate::policy::Policy;
use crate::policy::value::TrailEstimate;
use crate::sim::steps::StretchTotals;
use crate::sim::trace::{Call, NONE, Trace, TraceItem, flag};
use crate::sim::window::{ItemState, Window};
use crate::tokens::ledger::Category;
use std::ops::Range;
use transcript::log::NO_TIME;
use transcript::tools::tool_role;

/// The results of one chain that may be cleared.
#[derive(Debug, Default)]
pub struct ClearableResults {
    /// By tool: whether its results may be cleared. Empty if no policy of the replay ever clears.
    tools: Vec<bool>,
    /// Clearable results in the window, in the order of their calls.
    active: Vec<u32>,
    /// Results deleted on the server only. The client's messages still contain them; it repeats the deletion with every call
    /// while the cache lives.
    deleted: Vec<u32>,
    /// By item: whether it was ever deleted on the server. Such a result is not deleted there again.
    was_deleted: Vec<bool>,
    /// Number of active results that were never deleted on the server.
    never_deleted: u64,
    /// Tokens of the active results.
    tokens: u64,
    /// The recorded client's estimate of the active results, images apart.
    quarters: u64,
    /// Images in the active results.
    images: u64,
}

/// What one kind of micro-compaction clears.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Clearing {
    /// Items to clear, in order.
    pub items: Vec<u32>,
    /// Tokens freed, as the mechanism counts them; 0 if it does not count.
    pub saved: u64,
    /// Tokens of everything that could have been cleared, counted the same way.
    pub eligible: u64,
}

/// Which kinds of micro-compaction act before a call.
#[derive(Debug, Clone, Copy)]
pub struct DueMicroKinds {
    /// The pause since the last response was long enough.
    pub gap: bool,
    /// The context is at the warning level.
    pub budget: bool,
    /// A caller clears down to a target of its own.
    pub target: bool,
    /// The cache is warm and there are enough results to delete some on the server.
    pub cached: bool,
    /// The prompt is large enough for the API's own edits.
    pub api: bool,
    /// The pause is long enough for the API to drop old thinking.
    pub thinking: bool,
}

impl DueMicroKinds {
    /// Returns whether any kind acts.
    #[inline]
    pub fn has_any(self) -> bool {
        // `|` instead of `||`: this runs at every call, and five branches would cost more than five loads.
        self.gap | self.budget | self.target | self.cached | self.api | self.thinking
    }
}

/// The situation before a call, by which [`ClearableResults::due_kinds`] decides.
#[derive(Debug, Clone, Copy)]
pub struct MicroCheck<'t> {
    /// The call whose response came last.
    pub previous: &'t Call,
    /// The call about to be made.
    pub call: &'t Call,
    pub is_over_warning: bool,
    /// Whether the prompt cache is warm.
    pub is_warm: bool,
    /// Tokens of the prompt.
    pub input: u64,
}

/// A token budget for tool results.
struct ClearBudget {
    /// Tokens that may stay.
    target: u64,
    /// Number of newest results that always stay.
    protect: u64,
    /// Tokens that clearing has to free at least.
    at_least: u64,
}

/// Returns by tool of the trace whether it is in the list.
pub fn tool_mask(trace: &Trace, tools: &[String]) -> Vec<bool> {
    let is_wanted = |tool: &String| tools.contains(tool) || tools.iter().any(|wanted| wanted == tool_role(tool, false));
    trace.tools.iter().map(is_wanted).collect()
}

/// Returns whether a policy has any kind of micro-compaction.
pub fn may_clear(policy: &Policy) -> bool {
    let has_kind = policy.gap_on || policy.budget_on || policy.target_on || policy.cached_on || policy.api_on;
    policy.micro && policy.compaction && has_kind
}

impl ClearableResults {
    /// Creates an empty list. `tools` is the [`tool_mask`] of clearable tools, empty if nothing will ever be cleared.
    pub fn new(tools: Vec<bool>) -> ClearableResults {
        ClearableResults {
            active: Vec::with_capacity(if tools.is_empty() { 0 } else { 64 }),
            tools,
            ..ClearableResults::default()
        }
    }

    /// Adds the clearable results among new items.
    pub fn add(&mut self, window: &Window<'_>, trace: &Trace, items: Range<u32>) {
        if self.tools.is_empty() {
            return;
        }
        for (at, item) in std::iter::zip(items.clone(), trace.items(&items)) {
            let is_clearable = item.category == Category::ToolResult && self.tools[usize::from(item.tool)];
            if is_clearable && window.state(at) == ItemState::Live {
                let order = call_order(item, at);
                let is_before = |other: &u32| call_order(&trace.items[*other as usize], *other) <= order;
                // Keep the order of calls. Results of parallel calls arrive in any order, but nearly always the new one
                // belongs at the end, so the search starts there.
                match self.active.iter().rposition(is_before) {
                    Some(last) if last + 1 < self.active.len() => self.active.insert(last + 1, at),
                    None if !self.active.is_empty() => self.active.insert(0, at),
                    _ => self.active.push(at),
                }
                self.count_active(item, at);
            }
        }
    }

    /// Forgets results that are no longer in the window.
    pub fn prune(&mut self, window: &Window<'_>, trace: &Trace) {
        self.active.retain(|item| window.state(*item) == ItemState::Live);
        (self.never_deleted, self.tokens, self.quarters, self.images) = (0, 0, 0, 0);
        for at in 0..self.active.len() {
            let item = self.active[at];
            self.count_active(&trace.items[item as usize], item);
        }
        self.deleted.retain(|item| window.state(*item) == ItemState::Cleared);
    }

    /// Records that results were deleted on the server.
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

    /// Adds an active result to the totals.
    fn count_active(&mut self, item: &TraceItem, at: u32) {
        self.never_deleted += u64::from(!self.was_deleted(at));
        self.tokens += u64::from(item.tokens);
        self.quarters += u64::from(item.quarters);
        self.images += u64::from(item.images);
    }

    fn was_deleted(&self, item: u32) -> bool {
        self.was_deleted
            .get(item as usize)
            .is_some_and(|was_deleted| *was_deleted)
    }

    /// Returns whether any result is deleted on the server now.
    pub fn has_deleted(&self) -> bool {
        !self.deleted.is_empty()
    }

    /// Returns the results that are deleted on the server, and forgets them.
    pub fn take_deleted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.deleted)
    }

    /// Iterates over the results of a range that are deleted on the server.
    pub fn deleted_in(&self, range: &Range<u32>) -> impl Iterator<Item = u32> {
        self.deleted.iter().copied().filter(|item| range.contains(item))
    }

    /// Returns which kinds act before a call. Runs at every call and mostly finds none, so it only compares numbers.
    #[inline]
    pub fn due_kinds(&self, policy: &Policy, check: &MicroCheck<'_>) -> DueMicroKinds {
        let is_idle = |minutes: u64| is_idle(check.previous, check.call, minutes);
        DueMicroKinds {
            gap: policy.gap_on && is_idle(policy.gap_minutes),
            budget: policy.budget_on && check.is_over_warning,
            target: policy.target_on && self.tokens > 0,
            cached: policy.cached_on && check.is_warm && self.never_deleted >= policy.cached_trigger,
            api: policy.api_on && check.input >= policy.api_trigger,
            thinking: policy.api_on && policy.api_thinking && is_idle(policy.api_thinking_minutes),
        }
    }

    /// Chooses what to clear after a long pause: all but the newest results. `None` if nothing is left to clear.
    pub fn clear_after_gap(&self, policy: &Policy) -> Option<Clearing> {
        clear_all_but_newest(&self.active, policy.gap_keep)
    }

    /// Chooses what to delete on the server: all but the newest results that were never deleted. `None` if there is none.
    pub fn clear_cached(&self, policy: &Policy) -> Option<Clearing> {
        let fresh = self.active.iter().copied().filter(|item| !self.was_deleted(*item));
        clear_all_but_newest(&fresh.collect::<Vec<_>>(), policy.cached_keep)
    }

    /// Chooses the oldest results above the budget, by the client's estimates. `None` if they free too little.
    pub fn clear_over_budget(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        self.clear_by_estimate(policy, trace, policy.budget_target, policy.budget_at_least)
    }

    /// Chooses the oldest results above the target of a caller, by the client's estimates. `None` if there are none.
    pub fn clear_to_target(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        self.clear_by_estimate(policy, trace, policy.target_tokens, 0)
    }

    fn clear_by_estimate(&self, policy: &Policy, trace: &Trace, target: u64, at_least: u64) -> Option<Clearing> {
        let size = |item: &TraceItem| estimate(policy, item);
        let all = match policy.units_per_token == 4.0 {
            true => self.quarters + policy.image * self.images,
            // Any other ratio is rounded item by item.
            false => self.active.iter().map(|at| size(&trace.items[*at as usize])).sum(),
        };
        let budget = ClearBudget {
            target,
            protect: policy.budget_protect,
            at_least,
        };
        clear_down_to(&self.active, &budget, all, |at| size(&trace.items[at as usize]))
    }

    /// Chooses the oldest results above what the API keeps, and of the tools whose calls it removes the oldest calls above
    /// the same amount. `None` if both free too little.
    pub fn clear_by_api(&self, policy: &Policy, trace: &Trace) -> Option<Clearing> {
        let is_of = |tools: &[String], at: &u32| {
            let tool = &trace.tools[usize::from(trace.items[*at as usize].tool)];
            tools.contains(tool)
        };
        let result = |at: u32| u64::from(trace.items[at as usize].tokens);
        let whole = |at: u32| match trace.items[at as usize].pair {
            NONE => result(at),
            call => result(at) + result(call),
        };
        let calls = self
            .active
            .iter()
            .copied()
            .filter(|at| is_of(&policy.api_drop_calls, at));
        let calls = calls.collect::<Vec<_>>();
        let results = self
            .active
            .iter()
            .copied()
            .filter(|at| is_of(&policy.api_tools, at) && !is_of(&policy.api_drop_calls, at));
        let results = results.collect::<Vec<_>>();
        let budget = ClearBudget {
            target: policy.api_keep,
            protect: 0,
            at_least: 0,
        };
        let cleared = [
            clear_down_to(&results, &budget, results.iter().copied().map(result).sum(), result),
            clear_down_to(&calls, &budget, calls.iter().copied().map(whole).sum(), whole),
        ];
        let mut both = Clearing::default();
        for one in cleared.into_iter().flatten() {
            both.items.extend(one.items);
            both.saved += one.saved;
            both.eligible += one.eligible;
        }
        both.items.sort_unstable();
        (!both.items.is_empty() && both.saved >= policy.api_at_least).then_some(both)
    }
}

/// Chooses the oldest of some results until the rest fits the budget. `all` is the sum of the sizes of all of them.
fn clear_down_to(active: &[u32], budget: &ClearBudget, all: u64, size: impl Fn(u32) -> u64) -> Option<Clearing> {
    if all <= budget.target || all < budget.at_least {
        return None;
    }
    let protect = usize::try_from(budget.protect).unwrap_or(usize::MAX);
    let clearable = &active[..active.len().saturating_sub(protect)];
    let (mut count, mut saved) = (0, 0);
    for &at in clearable {
        if all - saved <= budget.target {
            break;
        }
        saved += size(at);
        count += 1;
    }
    (count > 0 && saved >= budget.at_least).then(|| Clearing {
        items: clearable[..count].to_vec(),
        saved,
        eligible: all,
    })
}

/// Returns whether the client estimates an item that came after the last response.
pub fn is_in_trail(policy: &Policy, item: &TraceItem) -> bool {
    is_always_in_trail(item)
        || (policy.trail == TrailEstimate::All
            && item.category == Category::Attachment
            && item.has_flag(flag::HOOK | flag::RENDERED))
}

/// Returns whether the client estimates an item under every policy that estimates at all.
pub fn is_always_in_trail(item: &TraceItem) -> bool {
    !matches!(item.category, Category::Attachment | Category::Summary) && !item.has_flag(flag::ARTIFACT)
}

/// Returns the client's estimate of items that came after the last response.
pub fn estimate_trail(policy: &Policy, items: &[TraceItem]) -> u64 {
    let counted = items.iter().filter(|item| is_in_trail(policy, item));
    counted.map(|item| estimate(policy, item)).sum()
}

/// Does the same as [`estimate_trail`] for a stretch. Runs at every call, so it takes the precomputed sums if they apply.
pub fn estimate_stretch(policy: &Policy, stretch: &StretchTotals, items: &[TraceItem]) -> u64 {
    match stretch.estimate(policy.trail == TrailEstimate::All) {
        // Any other ratio is rounded item by item.
        Some((quarters, images)) if policy.units_per_token == 4.0 => {
            u64::from(quarters) + policy.image * u64::from(images)
        }
        _ => estimate_trail(policy, items),
    }
}

/// Returns the client's estimate of an item.
pub fn estimate(policy: &Policy, item: &TraceItem) -> u64 {
    estimate_quarters(policy, item.quarters) + policy.image * u64::from(item.images)
}

/// Returns the client's estimate of a text of this many quarters of its length.
pub fn estimate_quarters(policy: &Policy, quarters: u32) -> u64 {
    match policy.units_per_token == 4.0 {
        true => u64::from(quarters),
        false => (f64::from(quarters) * (4.0 / policy.units_per_token)).round() as u64,
    }
}

fn clear_all_but_newest(results: &[u32], keep: u64) -> Option<Clearing> {
    let count = results
        .len()
        .saturating_sub(usize::try_from(keep).unwrap_or(usize::MAX));
    (count > 0).then(|| Clearing {
        items: results[..count].to_vec(),
        ..Clearing::default()
    })
}

/// Returns the sort key of a result: its call, or the result itself if the log lacks the call.
fn call_order(result: &TraceItem, at: u32) -> u32 {
    match result.pair {
        NONE => at,
        call => call,
    }
}

/// Returns whether more than `minutes` passed between the last response and the next call.
fn is_idle(previous: &Call, call: &Call, minutes: u64) -> bool {
    let now = call.sent_time();
    let limit = i64::try_from(minutes).unwrap_or(i64::MAX).saturating_mul(60_000);
    previous.time != NO_TIME && now != NO_TIME && now.saturating_sub(previous.time) > limit
}

/// Returns the thinking in the window from before the last turn, which the API drops after a long pause.
pub fn old_thinking(trace: &Trace, window: &Window<'_>, previous: &Call) -> Vec<u32> {
    let last_turn = trace.calls.iter().position(|other| other.turn == previous.turn);
    let start = last_turn.map_or(0, |at| trace.calls[at].inputs.start);
    let is_old = |at: &u32| *at < start && trace.items[*at as usize].category == Category::Thinking;
    window.live_items().filter(is_old).collect()
}
