//! Which messages stay verbatim when the notes replace history, and which ones a prompt that is too long drops first.

use crate::policy::Policy;
use crate::sim::trace::{NONE, Trace, flag};
use crate::sim::window::{ItemState, Window};
use crate::tokens::ledger::Category;
use std::ops::Range;

/// Returns the first item to keep when the notes replace history. `covered` is the end of the items that they cover.
pub fn first_kept_item(policy: &Policy, trace: &Trace, window: &Window<'_>, covered: u32) -> u32 {
    let (floor, end) = (window.floor(), window.end());
    let mut start = record_start(trace, covered.clamp(floor, end), floor);
    let mut tokens = window.tokens_in(start..end);
    let mut texts = count_text_records(trace, window, start..end);
    let is_enough = |tokens: u64, texts: u64| {
        (tokens >= policy.notes_keep_tokens && texts >= policy.notes_keep_messages) || tokens >= policy.notes_keep_most
    };
    // What the notes do not cover always stays. Keep more records before it until the policy's minimum is reached.
    while start > floor && !is_enough(tokens, texts) {
        let before = record_start(trace, start - 1, floor);
        tokens += window.tokens_in(before..start);
        texts += count_text_records(trace, window, before..start);
        start = before;
    }
    extend_to_pairs(trace, window, start, floor)
}

/// Returns the first item of the newest messages that take at most `budget` tokens. No result is separated from its call, and
/// no line of a response from the others.
pub fn first_item_within(trace: &Trace, window: &Window<'_>, budget: u64) -> u32 {
    let (floor, end) = (window.floor(), window.end());
    let (mut start, mut at, mut tokens) = (end, end, 0);
    while at > floor {
        let before = record_start(trace, at - 1, floor);
        tokens += window.tokens_in(before..at);
        if tokens > budget {
            break;
        }
        at = before;
        if extend_to_pairs(trace, window, at, floor) == at {
            start = at;
        }
    }
    start
}

/// Returns the first of the newest prompts that take at most `budget` tokens together; the end of the items if there is none.
pub fn first_prompt_within(trace: &Trace, window: &Window<'_>, budget: u64) -> u32 {
    let (mut start, mut tokens) = (window.end(), 0);
    for at in (window.floor()..window.end()).rev() {
        if is_prompt(trace, window, at) {
            tokens += window.tokens_in(at..at + 1);
            if tokens > budget {
                break;
            }
            start = at;
        }
    }
    start
}

/// Returns the tokens of the prompts of a range.
pub fn prompt_tokens(trace: &Trace, window: &Window<'_>, items: &Range<u32>) -> u64 {
    let prompts = items.clone().filter(|at| is_prompt(trace, window, *at));
    prompts.map(|at| window.tokens_in(at..at + 1)).sum()
}

/// Removes everything from a range but the prompts of the user.
pub fn drop_all_but_prompts(trace: &Trace, window: &mut Window<'_>, items: &Range<u32>) {
    for at in items.clone() {
        if window.state(at) != ItemState::Out && !is_prompt(trace, window, at) {
            window.remove(at);
        }
    }
}

fn is_prompt(trace: &Trace, window: &Window<'_>, at: u32) -> bool {
    trace.items[at as usize].category == Category::Human && window.state(at) != ItemState::Out
}

/// Moves the start of a kept range back until no result is separated from its call, and no line of a response from the
/// other lines. Returns the new start, at least `floor`.
pub fn extend_to_pairs(trace: &Trace, window: &Window<'_>, start: u32, floor: u32) -> u32 {
    let mut start = response_start(trace, start).max(floor);
    let mut at = start;
    let end = window.end();
    while at < end {
        let item = &trace.items[at as usize];
        let is_result = item.category == Category::ToolResult && window.state(at) != ItemState::Out;
        if is_result && item.pair != NONE && item.pair < start && item.pair >= floor {
            start = response_start(trace, item.pair).max(floor);
            at = start;
        } else {
            at += 1;
        }
    }
    start
}

/// Returns the first item of the record that an item belongs to, at least `floor`.
fn record_start(trace: &Trace, item: u32, floor: u32) -> u32 {
    let mut start = item;
    while start > floor
        && !trace
            .items
            .get(start as usize)
            .is_some_and(|item| item.has_flag(flag::STARTS_RECORD))
    {
        start -= 1;
    }
    start
}

/// Returns the first item of the response that an item belongs to; the item itself if it belongs to none.
fn response_start(trace: &Trace, item: u32) -> u32 {
    let after = trace.calls.partition_point(|call| call.response.end <= item);
    match trace.calls.get(after) {
        Some(call) if call.response.contains(&item) => call.response.start,
        _ => item,
    }
}

/// Counts the records of a range that have text in the window.
fn count_text_records(trace: &Trace, window: &Window<'_>, range: Range<u32>) -> u64 {
    let mut count = 0;
    let mut has_text = false;
    for at in range {
        let item = &trace.items[at as usize];
        if item.has_flag(flag::STARTS_RECORD) {
            has_text = false;
        }
        if item.has_flag(flag::TEXT) && window.state(at) != ItemState::Out && !has_text {
            has_text = true;
            count += 1;
        }
    }
    count
}

/// What is left of a conversation that was too long to summarize.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TruncatedPrompt {
    /// The first group that is still sent.
    pub first_group: usize,
    /// Tokens of the groups that are still sent.
    pub tokens: u64,
}

/// Drops the oldest groups from `from` on: as many as cover `excess` tokens, or `percent` of them (at least one) if the
/// excess is not known. Returns `None` if nothing would be left.
pub fn drop_oldest(groups: &[u64], from: usize, excess: Option<u64>, percent: u64) -> Option<TruncatedPrompt> {
    let left = groups.len().checked_sub(from).filter(|left| *left > 0)?;
    let dropped = match excess {
        Some(excess) => {
            let mut covered = 0;
            let count = groups[from..].iter().take_while(|tokens| {
                let is_needed = covered < excess;
                covered += **tokens;
                is_needed
            });
            count.count().max(1)
        }
        None => (left * usize::try_from(percent).unwrap_or(100) / 100).max(1),
    };
    let first_group = from + dropped;
    (first_group < groups.len()).then(|| TruncatedPrompt {
        first_group,
        tokens: groups[first_group..].iter().sum(),
    })
}
