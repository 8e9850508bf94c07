//! What lies between the calls of a trace: system prompt and tools before the first one, growth that no record explains,
//! restarts, and reasoning of earlier turns.

use super::{Call, EarlierReasoning, Trace, TraceItem, flag};
use crate::policy::presets::ClientVersion;
use crate::tokens::ledger::Category;
use crate::tokens::ratios::drops_thinking;
use transcript::log::BlockKind;
use transcript::thread::{Round, Session};

/// Returns the tokens of system prompt and tools at the first call, and whether the log shows them. `measured` is what the
/// first call sent beyond its own messages.
///
/// A log that starts in the middle of a session has unrecorded history before its first call. That history is not part of
/// the base, because a compaction would drop it. So where the first parent is missing, or the measured base is implausible,
/// the usual base of the version stands. And no base is larger than what any prompt leaves room for beyond its summary.
pub(super) fn find_base(trace: &Trace, measured: Option<u32>) -> (u32, bool) {
    let usual = default_base(trace.versions.first().copied().unwrap_or_default());
    let Some(first) = trace.calls.first() else {
        return (usual, false);
    };
    let known = measured.filter(|base| *base <= 3 * usual && !first.continuity.is_after_hole);
    let room = |(at, call): (usize, &Call)| {
        let before = &trace.recorded[..trace.recorded.partition_point(|boundary| boundary.call as usize <= at)];
        let last = before.iter().rev().find(|boundary| !boundary.is_micro);
        let summary = last.map_or(0, |boundary| boundary.summary);
        let sent = call.usage.filter(|_| call.model == first.model)?.input_side();
        Some(u32::try_from(sent).unwrap_or(u32::MAX).saturating_sub(summary))
    };
    let smallest = trace
        .calls
        .iter()
        .enumerate()
        .filter_map(room)
        .min()
        .unwrap_or(u32::MAX);
    (
        known.unwrap_or(usual).min(smallest),
        known.is_some_and(|base| base <= smallest),
    )
}

/// Returns the usual tokens of system prompt and tools for a client version: medians over many logs.
pub fn default_base(version: ClientVersion) -> u32 {
    match version {
        version if version < ClientVersion([2, 1, 0]) => 22_500,
        version if version < ClientVersion([2, 1, 45]) => 40_000,
        version if version < ClientVersion([2, 1, 150]) => 26_000,
        _ => 35_000,
    }
}

/// Sets for each call the input tokens beyond the items added since the previous call, and whether the client was
/// restarted before it. Calls without usage, and calls after a boundary, are skipped: their difference shows neither.
pub(super) fn find_gaps(trace: &mut Trace) {
    let sum = |items: &[TraceItem]| items.iter().map(|item| i64::from(item.tokens)).sum::<i64>();
    for at in 1..trace.calls.len() {
        let (before, call) = (&trace.calls[at - 1], &trace.calls[at]);
        let (Some(sent_before), Some(sent)) = (before.usage, call.usage) else {
            continue;
        };
        if !trace.recorded_at(at).is_empty() {
            continue;
        }
        let added = sum(trace.items(&before.response)) + sum(trace.items(&call.inputs));
        let gap = sent.input_side() as i64 - sent_before.input_side() as i64 - added;
        // Little was read from the cache and the prompt shrank. Models that drop thinking shrink their prompts too.
        let is_cold = sent.cache_read < 40_000 && sent.input_side() + 400 < sent_before.total();
        let is_resume =
            is_cold && before.model == call.model && !drops_thinking(&trace.models[usize::from(call.model)]);
        let continuity = &mut trace.calls[at].continuity;
        continuity.is_resume = is_resume;
        continuity.gap = i32::try_from(gap).unwrap_or(0);
    }
}

/// Sums up for each call the reasoning of the turns before its own, since the last compaction.
pub(super) fn sum_earlier_reasoning(session: &Session<'_>, trace: &mut Trace) {
    let mut earlier = EarlierReasoning::default();
    let mut turn = EarlierReasoning::default();
    for at in 0..trace.calls.len() {
        if trace.calls[at].starts_turn {
            earlier.sized += turn.sized;
            earlier.masked += turn.masked;
            turn = EarlierReasoning::default();
        }
        trace.calls[at].earlier_reasoning = earlier;
        if trace.recorded_at(at).iter().any(|boundary| !boundary.is_micro) {
            (earlier, turn) = Default::default();
        }
        let items = trace.calls[at].response.clone();
        let place = |item: u32| trace.nodes.partition_point(|(first, _)| *first < item);
        let nodes = &trace.nodes[place(items.start)..place(items.end).max(place(items.start))];
        let blocks = nodes.iter().flat_map(|(_, node)| session.blocks(*node));
        let sized = blocks
            .filter(|block| block.kind == BlockKind::Thinking && block.extra > 0)
            .map(|block| reasoning_estimate(block.extra))
            .sum::<u32>();
        match sized {
            0 => {
                let node = trace.calls[at].node;
                let facts = session.log(node).call_facts_of(session.record(node));
                turn.masked += facts.map_or(0, |facts| facts.reasoning);
            }
            sized => turn.sized += sized,
        }
    }
}

/// Returns the estimate of Codex for encrypted reasoning: the bytes behind the base64 text less a fixed part, / 4.
fn reasoning_estimate(signature: u32) -> u32 {
    (signature / 4 * 3).saturating_sub(650) / 4
}

/// Returns whether the user ran a command and the client inserted text for it.
pub(super) fn is_expanded(inputs: &[TraceItem]) -> bool {
    let command = inputs
        .iter()
        .position(|item| item.category == Category::LocalCommand && item.has_flag(flag::TEXT));
    command.is_some_and(|at| {
        inputs[at..]
            .iter()
            .any(|item| item.category == Category::Other && !item.has_flag(flag::ARTIFACT))
    })
}

/// Returns whether the user interrupted the response before a round: the client says so, or results come with the prompt.
pub(super) fn is_interrupted(session: &Session<'_>, round: &Round) -> bool {
    let mut blocks = round.inputs.iter().flat_map(|node| session.blocks(*node));
    blocks.any(|block| matches!(block.kind, BlockKind::Interruption | BlockKind::ToolResult))
}
