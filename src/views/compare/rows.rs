//! Rows of `backcast replay --compare`: each session under two policies, the differences, and the events that explain them.

use crate::views::replay::{ReplayCollector, SessionRow};
use replay::prices::micro_usd;
use replay::sim::event::{CacheMiss, CompactionCause, Event, EventSink};
use replay::sim::oracle::OracleBound;
use replay::sim::trace::Trace;
use replay::sim::working_set::UseOutcome;
use std::sync::Arc;
use table::columns;
use table::human::format_tokens;
use transcript::agents::Agent;

/// What removed content from the window last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropCause {
    Boundary,
    Clearing,
    /// For example a restart of the client.
    Other,
}

/// Counts that explain differences and are in no row of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DifferenceCounts {
    /// Misses by `DropCause`, restored files not credited.
    pub misses_after: [u64; 3],
    /// Calls that missed the prompt cache because results were cleared.
    pub cleared_cache: u64,
    /// Chains that reached the threshold of automatic compaction.
    pub reached: u64,
}

/// A session under one policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareSide {
    /// The same for all sides that are alike: most sessions never come near a threshold.
    pub row: Arc<SessionRow>,
    pub counts: DifferenceCounts,
    /// Misses of the oracle with windows no larger than the largest of the chain under this policy.
    pub oracle_misses: u64,
}

impl CompareSide {
    fn merge(&mut self, other: &CompareSide) {
        Arc::make_mut(&mut self.row).merge(&other.row);
        for (sum, part) in std::iter::zip(&mut self.counts.misses_after, other.counts.misses_after) {
            *sum += part;
        }
        self.counts.cleared_cache += other.counts.cleared_cache;
        self.counts.reached += other.counts.reached;
        self.oracle_misses += other.oracle_misses;
    }
}

/// Index of the first policy in [`CompareRow::sides`].
pub const FIRST_SIDE: usize = 0;
/// Index of the second policy.
pub const SECOND_SIDE: usize = 1;
/// Index of the policy that never compacts.
pub const NEVER_SIDE: usize = 2;

/// A session under both policies and the bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareRow {
    pub session: String,
    pub coding_agent: Agent,
    /// Working directory.
    pub project: String,
    pub sides: [CompareSide; 3],
    /// Bounds of the oracle on the main chain.
    pub oracle: OracleBound,
}

/// Returns a number of one side; `None` if it is not known.
pub type SideMetric = fn(&CompareSide) -> Option<i64>;

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Returns the cost in millionths of a dollar; `None` without a price.
pub fn cost(side: &CompareSide) -> Option<i64> {
    side.row.total_cost().map(micro_usd)
}

pub fn compactions(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.compactions.count()))
}

/// Returns the misses, restored files not credited.
pub fn misses(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.working_set.misses()))
}

/// Returns the misses, restored files credited.
pub fn misses_credited(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.working_set.misses_credited()))
}

pub fn mean(side: &CompareSide) -> Option<i64> {
    side.row.window.mean().map(to_i64)
}

pub fn peak(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.window.peak))
}

/// Returns the model calls outside the conversation.
pub fn side_calls(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.costs.side_calls.iter().sum()))
}

impl CompareRow {
    /// Adds another session.
    pub fn merge(&mut self, other: &CompareRow) {
        for (sum, part) in std::iter::zip(&mut self.sides, &other.sides) {
            sum.merge(part);
        }
        self.oracle.merge(&other.oracle);
    }

    /// Returns a number of the second policy minus that of the first.
    pub fn difference(&self, measure: SideMetric) -> Option<i64> {
        Some(measure(&self.sides[SECOND_SIDE])? - measure(&self.sides[FIRST_SIDE])?)
    }

    /// Says by how much a count of the second policy is higher or lower; `None` if it is equal.
    fn describe_increase(&self, count: impl Fn(&CompareSide) -> u64, one: &str, many: &str) -> Option<String> {
        let (first, second) = (count(&self.sides[FIRST_SIDE]), count(&self.sides[SECOND_SIDE]));
        let by = first.abs_diff(second);
        let noun = if by == 1 { one } else { many };
        let way = if second > first { "more" } else { "fewer" };
        (by > 0).then(|| format!("{by} {way} {noun}"))
    }

    /// Explains why the costs differ by the two most important causes.
    pub fn explain_cost(&self) -> String {
        let window = self.difference(mean).filter(|by| *by != 0).map(|by| {
            let sign = if by < 0 { "-" } else { "+" };
            format!("window {sign}{}", format_tokens(by.unsigned_abs()))
        });
        let facts = [
            self.describe_increase(|side| side.row.calls.blocked, "blocked call", "blocked calls"),
            self.describe_increase(|side| side.row.compactions.count(), "compaction", "compactions"),
            self.describe_increase(
                |side| side.counts.cleared_cache,
                "cache miss after clearing",
                "cache misses after clearing",
            ),
            self.describe_increase(|side| side.row.notes, "update of notes", "updates of notes"),
            self.describe_increase(|side| side.row.extractions, "extraction", "extractions"),
            self.describe_increase(
                |side| side.row.compactions.failures,
                "failed compaction",
                "failed compactions",
            ),
            window,
        ];
        join_phrases(facts.into_iter().flatten().take(2)).unwrap_or_else(|| "other sizes or cache lifetimes".to_owned())
    }

    /// Explains why the misses differ; empty if they do not.
    pub fn explain_misses(&self) -> String {
        let after = |drop: DropCause| move |side: &CompareSide| side.counts.misses_after[drop as usize];
        let missed = |drop: DropCause, what: &str| {
            let (first, second) = (
                after(drop)(&self.sides[FIRST_SIDE]),
                after(drop)(&self.sides[SECOND_SIDE]),
            );
            let by = first.abs_diff(second);
            let files = if by == 1 { "file" } else { "files" };
            let way = if second > first { "missed" } else { "no longer missed" };
            (by > 0).then(|| format!("{by} {files} {way} after {what}"))
        };
        let facts = [
            missed(DropCause::Boundary, "a boundary"),
            missed(DropCause::Clearing, "clearing"),
            missed(DropCause::Other, "a restart"),
        ];
        join_phrases(facts.into_iter().flatten()).unwrap_or_default()
    }
}

fn join_phrases(facts: impl Iterator<Item = String>) -> Option<String> {
    let facts = facts.collect::<Vec<_>>();
    (!facts.is_empty()).then(|| facts.join(", "))
}

columns! {
    /// Columns of `compare.csv`.
    pub COLUMNS: CompareRow;
    "session" "Session" Text Always "Session id." |r| &r.session;
    "coding_agent" "Agent" Text Never "Coding agent: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "project" "Project" Text Never "Working directory." |r| &r.project;
    "a_calls" "a_calls" Count Never "Calls of the conversation, first policy." |r| calls(&r.sides[FIRST_SIDE]);
    "b_calls" "b_calls" Count Never "The same, second policy: fewer if a session is blocked." |r| calls(&r.sides[SECOND_SIDE]);
    "a_cost_micro_usd" "a_cost_micro_usd" MicroUsd Never
        "Cost with side calls (summaries, notes, extraction), first policy." |r| cost(&r.sides[FIRST_SIDE]);
    "b_cost_micro_usd" "b_cost_micro_usd" MicroUsd Never "The same, second policy." |r| cost(&r.sides[SECOND_SIDE]);
    "cost_difference_micro_usd" "cost_difference_micro_usd" MicroUsd Never "Second less first, as all differences." |r| r.difference(cost);
    "a_compactions" "a_compactions" Count Never "Boundaries, first policy." |r| compactions(&r.sides[FIRST_SIDE]);
    "b_compactions" "b_compactions" Count Never "The same, second policy." |r| compactions(&r.sides[SECOND_SIDE]);
    "compactions_difference" "compactions_difference" Count Never "Their difference." |r| r.difference(compactions);
    "a_misses" "a_misses" Count Never
        "Uses whose lines were no longer in the window, files that came back not credited, first policy." |r| misses(&r.sides[FIRST_SIDE]);
    "b_misses" "b_misses" Count Never "The same, second policy." |r| misses(&r.sides[SECOND_SIDE]);
    "misses_difference" "misses_difference" Count Never "Their difference." |r| r.difference(misses);
    "a_misses_credited" "a_misses_credited" Count Never
        "Misses, files that came back credited, first policy." |r| misses_credited(&r.sides[FIRST_SIDE]);
    "b_misses_credited" "b_misses_credited" Count Never "The same, second policy." |r| misses_credited(&r.sides[SECOND_SIDE]);
    "misses_credited_difference" "misses_credited_difference" Count Never "Their difference." |r| r.difference(misses_credited);
    "a_mean" "a_mean" Tokens Never "Mean window of the main chain, first policy." |r| mean(&r.sides[FIRST_SIDE]);
    "b_mean" "b_mean" Tokens Never "The same, second policy." |r| mean(&r.sides[SECOND_SIDE]);
    "mean_difference" "mean_difference" Tokens Never "Their difference." |r| r.difference(mean);
    "a_side_calls" "a_side_calls" Count Never
        "Side calls (summaries, notes, extraction), first policy." |r| side_calls(&r.sides[FIRST_SIDE]);
    "b_side_calls" "b_side_calls" Count Never "The same, second policy." |r| side_calls(&r.sides[SECOND_SIDE]);
    "side_calls_difference" "side_calls_difference" Count Never "Their difference." |r| r.difference(side_calls);
    "a_reached" "a_reached" Count Never
        "Chains that reached the threshold of automatic compaction, first policy." |r| reached(&r.sides[FIRST_SIDE]);
    "b_reached" "b_reached" Count Never "The same, second policy." |r| reached(&r.sides[SECOND_SIDE]);
    "never_cost_micro_usd" "never_cost_micro_usd" MicroUsd Never "Cost if nothing is ever dropped." |r| cost(&r.sides[NEVER_SIDE]);
    "never_mean" "never_mean" Tokens Never "Mean window of the main chain then: the upper bound." |r| mean(&r.sides[NEVER_SIDE]);
    "oracle_mean" "Oracle" Tokens Never
        "Mean window of the main chain if everything is dropped that no later edit or write needs: the lower bound without a miss." |r| r.oracle.mean();
    "oracle_peak" "Oracle's peak" Tokens Never "The largest of these windows." |r| r.oracle.peak;
    "a_oracle_misses" "a_oracle_misses" Count Never
        "What the oracle misses if no window is larger than the largest of the chain under the first policy." |r| oracle_misses(&r.sides[FIRST_SIDE]);
    "b_oracle_misses" "b_oracle_misses" Count Never "The same, second policy." |r| oracle_misses(&r.sides[SECOND_SIDE]);
    "why_cost" "Why" Text Never
        "Why the costs differ, from events; empty if they do not." |r| r.difference(cost).filter(|by| *by != 0).map(|_| r.explain_cost());
    "why_misses" "Why" Text Never
        "Why the misses differ, from events; empty if they do not." |r| r.difference(misses).filter(|by| *by != 0).map(|_| r.explain_misses());
}

fn calls(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.calls.made))
}

fn reached(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.counts.reached))
}

fn oracle_misses(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.oracle_misses))
}

/// Forwards the events of one chain to a [`ReplayCollector`] and counts what explains differences.
pub struct CompareCollector<'a> {
    collector: ReplayCollector<'a>,
    trace: &'a Trace,
    counts: &'a mut DifferenceCounts,
    last_drop: DropCause,
    is_reached: bool,
    peak: u64,
}

impl<'a> CompareCollector<'a> {
    pub fn new(
        collector: ReplayCollector<'a>,
        trace: &'a Trace,
        counts: &'a mut DifferenceCounts,
    ) -> CompareCollector<'a> {
        CompareCollector {
            collector,
            trace,
            counts,
            last_drop: DropCause::Other,
            is_reached: false,
            peak: 0,
        }
    }

    /// Ends the chain and returns its largest window.
    pub fn finish(self) -> u64 {
        self.collector.finish();
        self.counts.reached += u64::from(self.is_reached);
        self.peak
    }
}

impl EventSink for CompareCollector<'_> {
    fn on_event(&mut self, at: u32, event: &Event<'_>) {
        self.collector.on_event(at, event);
        match event {
            Event::Boundary(_) => self.last_drop = DropCause::Boundary,
            Event::Micro { .. } => self.last_drop = DropCause::Clearing,
            _ => {}
        }
        // A call that was copied from another session counts there.
        if self.trace.calls.get(at as usize).is_some_and(|call| call.is_copied) {
            return;
        }
        match event {
            Event::Due { .. } => self.is_reached = true,
            Event::Boundary(boundary) => self.is_reached |= boundary.cause == CompactionCause::Auto,
            Event::Called(called) => {
                self.counts.cleared_cache += u64::from(called.miss == Some(CacheMiss::Cleared));
                self.peak = self.peak.max(called.tokens.input_side());
            }
            Event::Used { outcome, .. } if !matches!(outcome, UseOutcome::Live | UseOutcome::Filled) => {
                self.counts.misses_after[self.last_drop as usize] += 1;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(change: impl Fn(&mut CompareSide)) -> CompareRow {
        let mut row = CompareRow::default();
        for side in &mut row.sides {
            let made = Arc::make_mut(&mut side.row);
            made.calls.made = 10;
            made.window.calls = 10;
            made.window.sum = 1_000_000;
            made.compactions.by_cause[CompactionCause::Auto as usize] = 3;
        }
        change(&mut row.sides[SECOND_SIDE]);
        row
    }

    #[test]
    fn costs_are_explained_by_what_happened() {
        let same = row(|_| ());
        assert_eq!(same.difference(mean), Some(0));
        assert_eq!(same.explain_misses(), "");
        let fewer = row(|side| {
            Arc::make_mut(&mut side.row).compactions.by_cause = [0; 3];
            Arc::make_mut(&mut side.row).window.sum = 2_230_000;
        });
        assert_eq!(fewer.explain_cost(), "3 fewer compactions, window +123k");
        let cleared = row(|side| {
            side.counts.cleared_cache = 12;
            Arc::make_mut(&mut side.row).compactions.by_cause[CompactionCause::Manual as usize] = 1;
            Arc::make_mut(&mut side.row).calls.blocked = 1;
        });
        assert_eq!(cleared.explain_cost(), "1 more blocked call, 1 more compaction");
    }

    #[test]
    fn misses_are_explained_by_what_dropped_the_lines() {
        let missed = row(|side| side.counts.misses_after = [2, 1, 0]);
        assert_eq!(
            missed.explain_misses(),
            "2 files missed after a boundary, 1 file missed after clearing"
        );
        let mut back = missed.clone();
        back.sides.swap(FIRST_SIDE, SECOND_SIDE);
        assert!(
            back.explain_misses()
                .starts_with("2 files no longer missed after a boundary"),
            "{}",
            back.explain_misses()
        );
    }

    #[test]
    fn totals_are_sums() {
        let mut total = row(|side| Arc::make_mut(&mut side.row).compactions.by_cause = [1, 0, 0]);
        total.merge(&total.clone());
        assert_eq!(total.difference(compactions), Some(-4));
        assert_eq!(total.sides[FIRST_SIDE].row.window.mean(), Some(100_000));
    }
}
