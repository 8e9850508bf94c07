//! Two policies on the same sessions: what each comes to, the differences, and what in the events explains them.

use crate::views::replay_rows::{ReplayCollector, SessionRow};
use replay::prices::micro_usd;
use replay::sim::event::{CacheMiss, CompactionCause, Event, EventSink};
use replay::sim::oracle::OracleBound;
use replay::sim::trace::Trace;
use replay::sim::working_set::UseOutcome;
use table::{CellValue, Column, ColumnUnit, TableVisibility, column, for_people};

/// Version of the rows and of the document; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// What took something out of the window last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DropCause {
    Boundary,
    Clearing,
    /// Neither: the client was started again, say.
    Other,
}

/// What explains a difference and is in no row of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DifferenceCounts {
    /// Misses, files that came back not credited: after a boundary, after clearing, after neither.
    pub misses_after: [u64; 3],
    /// Calls that missed the prompt cache because results were cleared.
    pub cleared_cache: u64,
    /// Chains that reached the threshold of automatic compaction.
    pub reached: u64,
}

/// A session under one policy.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareSide {
    /// What it came to.
    pub row: SessionRow,
    /// What explains differences.
    pub counts: DifferenceCounts,
    /// What the oracle misses if no window is larger than the largest of the chain under this policy.
    pub oracle_misses: u64,
}

impl CompareSide {
    fn merge(&mut self, other: &CompareSide) {
        self.row.merge(&other.row);
        for (sum, part) in std::iter::zip(&mut self.counts.misses_after, other.counts.misses_after) {
            *sum += part;
        }
        self.counts.cleared_cache += other.counts.cleared_cache;
        self.counts.reached += other.counts.reached;
        self.oracle_misses += other.oracle_misses;
    }
}

/// The first policy.
pub const FIRST_SIDE: usize = 0;
/// The second.
pub const SECOND_SIDE: usize = 1;
/// The bound that never compacts.
pub const NEVER_SIDE: usize = 2;

/// A session under both policies, between the bounds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CompareRow {
    /// Session id.
    pub session: String,
    /// Working directory.
    pub project: String,
    /// The two policies, and `never`.
    pub sides: [CompareSide; 3],
    /// The oracle on the main chain.
    pub oracle: OracleBound,
}

/// A figure of one side; `None` if it is not known.
type SideMetric = fn(&CompareSide) -> Option<i64>;

fn to_i64(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// Cost in millionths of a dollar.
pub fn cost(side: &CompareSide) -> Option<i64> {
    side.row.total_cost().map(micro_usd)
}

/// Compactions.
pub fn compactions(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.compactions()))
}

/// Misses, files that came back not credited.
pub fn misses(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.working_set.misses()))
}

/// Misses, files that came back credited.
pub fn misses_credited(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.working_set.misses_credited()))
}

/// Mean window.
pub fn mean(side: &CompareSide) -> Option<i64> {
    side.row.mean().map(to_i64)
}

/// Largest window.
pub fn peak(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.peak))
}

/// Model calls beside the conversation.
pub fn side_calls(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.side_calls.iter().sum()))
}

impl CompareRow {
    /// Adds another session.
    pub fn merge(&mut self, other: &CompareRow) {
        for (sum, part) in std::iter::zip(&mut self.sides, &other.sides) {
            sum.merge(part);
        }
        self.oracle.merge(&other.oracle);
    }

    /// The second policy's figure less the first's.
    pub fn difference(&self, measure: SideMetric) -> Option<i64> {
        Some(measure(&self.sides[SECOND_SIDE])? - measure(&self.sides[FIRST_SIDE])?)
    }

    /// By how much a count of the second policy is higher, in words.
    fn describe_increase(&self, count: impl Fn(&CompareSide) -> u64, one: &str, many: &str) -> Option<String> {
        let (first, second) = (count(&self.sides[FIRST_SIDE]), count(&self.sides[SECOND_SIDE]));
        let by = first.abs_diff(second);
        let noun = if by == 1 { one } else { many };
        let way = if second > first { "more" } else { "fewer" };
        (by > 0).then(|| format!("{by} {way} {noun}"))
    }

    /// Why the second policy costs something else: the two things that weigh most, those first that make the rest of no
    /// account.
    pub fn explain_cost(&self) -> String {
        let window = self.difference(mean).filter(|by| *by != 0).map(|by| {
            let size = for_people(ColumnUnit::Tokens, &CellValue::Int(by.abs()));
            format!("window {}{size}", if by < 0 { "-" } else { "+" })
        });
        let facts = [
            self.describe_increase(|side| side.row.blocked_calls, "blocked call", "blocked calls"),
            self.describe_increase(|side| side.row.compactions(), "compaction", "compactions"),
            self.describe_increase(
                |side| side.counts.cleared_cache,
                "cache miss after clearing",
                "cache misses after clearing",
            ),
            self.describe_increase(|side| side.row.notes, "update of notes", "updates of notes"),
            self.describe_increase(|side| side.row.extractions, "extraction", "extractions"),
            self.describe_increase(|side| side.row.failures, "failed compaction", "failed compactions"),
            window,
        ];
        join_phrases(facts.into_iter().flatten().take(2)).unwrap_or_else(|| "other sizes or cache lifetimes".to_owned())
    }

    /// Why the second policy misses something else.
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

macro_rules! side {
    ($name:literal, $unit:expr, $at:expr, $measure:expr, $about:literal) => {
        column(
            $name,
            $name,
            $unit,
            TableVisibility::Never,
            $about,
            |row: &CompareRow| $measure(&row.sides[$at]).into(),
        )
    };
}

macro_rules! difference {
    ($name:literal, $unit:expr, $measure:expr, $about:literal) => {
        column(
            $name,
            $name,
            $unit,
            TableVisibility::Never,
            $about,
            |row: &CompareRow| row.difference($measure).into(),
        )
    };
}

/// Columns of `compare.csv`.
pub const COLUMNS: &[Column<CompareRow>] = &[
    column(
        "session",
        "Session",
        ColumnUnit::Text,
        TableVisibility::Always,
        "Session id.",
        |row| row.session.as_str().into(),
    ),
    column(
        "project",
        "Project",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Working directory.",
        |row| row.project.as_str().into(),
    ),
    side!(
        "a_calls",
        ColumnUnit::Count,
        FIRST_SIDE,
        calls,
        "Calls of the conversation, first policy."
    ),
    side!(
        "b_calls",
        ColumnUnit::Count,
        SECOND_SIDE,
        calls,
        "The same, second policy: fewer if a session is blocked."
    ),
    side!(
        "a_cost_micro_usd",
        ColumnUnit::MicroUsd,
        FIRST_SIDE,
        cost,
        "Cost, calls beside the conversation included, first policy."
    ),
    side!(
        "b_cost_micro_usd",
        ColumnUnit::MicroUsd,
        SECOND_SIDE,
        cost,
        "The same, second policy."
    ),
    difference!(
        "cost_difference_micro_usd",
        ColumnUnit::MicroUsd,
        cost,
        "Second less first, as all differences."
    ),
    side!(
        "a_compactions",
        ColumnUnit::Count,
        FIRST_SIDE,
        compactions,
        "Boundaries, first policy."
    ),
    side!(
        "b_compactions",
        ColumnUnit::Count,
        SECOND_SIDE,
        compactions,
        "The same, second policy."
    ),
    difference!(
        "compactions_difference",
        ColumnUnit::Count,
        compactions,
        "Their difference."
    ),
    side!(
        "a_misses",
        ColumnUnit::Count,
        FIRST_SIDE,
        misses,
        "Uses whose lines were no longer in the window, files that came back not credited, first policy."
    ),
    side!(
        "b_misses",
        ColumnUnit::Count,
        SECOND_SIDE,
        misses,
        "The same, second policy."
    ),
    difference!("misses_difference", ColumnUnit::Count, misses, "Their difference."),
    side!(
        "a_misses_credited",
        ColumnUnit::Count,
        FIRST_SIDE,
        misses_credited,
        "Misses, files that came back credited, first policy."
    ),
    side!(
        "b_misses_credited",
        ColumnUnit::Count,
        SECOND_SIDE,
        misses_credited,
        "The same, second policy."
    ),
    difference!(
        "misses_credited_difference",
        ColumnUnit::Count,
        misses_credited,
        "Their difference."
    ),
    side!(
        "a_mean",
        ColumnUnit::Tokens,
        FIRST_SIDE,
        mean,
        "Mean window of the main chain, first policy."
    ),
    side!(
        "b_mean",
        ColumnUnit::Tokens,
        SECOND_SIDE,
        mean,
        "The same, second policy."
    ),
    difference!("mean_difference", ColumnUnit::Tokens, mean, "Their difference."),
    side!(
        "a_side_calls",
        ColumnUnit::Count,
        FIRST_SIDE,
        side_calls,
        "Model calls beside the conversation (summaries, notes, extraction), first policy."
    ),
    side!(
        "b_side_calls",
        ColumnUnit::Count,
        SECOND_SIDE,
        side_calls,
        "The same, second policy."
    ),
    difference!(
        "side_calls_difference",
        ColumnUnit::Count,
        side_calls,
        "Their difference."
    ),
    side!(
        "a_reached",
        ColumnUnit::Count,
        FIRST_SIDE,
        reached,
        "Chains that reached the threshold of automatic compaction, first policy."
    ),
    side!(
        "b_reached",
        ColumnUnit::Count,
        SECOND_SIDE,
        reached,
        "The same, second policy."
    ),
    side!(
        "never_cost_micro_usd",
        ColumnUnit::MicroUsd,
        NEVER_SIDE,
        cost,
        "Cost if nothing is ever dropped."
    ),
    side!(
        "never_mean",
        ColumnUnit::Tokens,
        NEVER_SIDE,
        mean,
        "Mean window of the main chain then: the upper bound."
    ),
    column(
        "oracle_mean",
        "Oracle",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "Mean window of the main chain if everything is dropped that no later edit or write needs: the lower bound without a miss.",
        |row| row.oracle.mean().into(),
    ),
    column(
        "oracle_peak",
        "Oracle's peak",
        ColumnUnit::Tokens,
        TableVisibility::Never,
        "The largest of these windows.",
        |row| row.oracle.peak.into(),
    ),
    side!(
        "a_oracle_misses",
        ColumnUnit::Count,
        FIRST_SIDE,
        oracle_misses,
        "What the oracle misses if no window is larger than the largest of the chain under the first policy."
    ),
    side!(
        "b_oracle_misses",
        ColumnUnit::Count,
        SECOND_SIDE,
        oracle_misses,
        "The same, second policy."
    ),
    column(
        "why_cost",
        "Why",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Why the costs differ, from events; empty if they do not.",
        |row| {
            row.difference(cost)
                .filter(|by| *by != 0)
                .map(|_| row.explain_cost())
                .into()
        },
    ),
    column(
        "why_misses",
        "Why",
        ColumnUnit::Text,
        TableVisibility::Never,
        "Why the misses differ, from events; empty if they do not.",
        |row| {
            row.difference(misses)
                .filter(|by| *by != 0)
                .map(|_| row.explain_misses())
                .into()
        },
    ),
];

fn calls(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.row.calls))
}

fn reached(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.counts.reached))
}

fn oracle_misses(side: &CompareSide) -> Option<i64> {
    Some(to_i64(side.oracle_misses))
}

/// Takes the events of one chain under one policy: hands them on, and takes note of what explains differences.
pub struct CompareCollector<'a> {
    collector: ReplayCollector<'a>,
    trace: &'a Trace,
    counts: &'a mut DifferenceCounts,
    last_drop: DropCause,
    is_reached: bool,
    peak: u64,
}

impl<'a> CompareCollector<'a> {
    /// For a chain.
    pub fn new(
        collector: ReplayCollector<'a>,
        trace: &'a Trace,
        seen: &'a mut DifferenceCounts,
    ) -> CompareCollector<'a> {
        CompareCollector {
            collector,
            trace,
            counts: seen,
            last_drop: DropCause::Other,
            is_reached: false,
            peak: 0,
        }
    }

    /// The end of the chain: its largest window.
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
        // What another session owns counts there.
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
            side.row.calls = 10;
            side.row.window_calls = 10;
            side.row.window_sum = 1_000_000;
            side.row.boundaries[CompactionCause::Auto as usize] = 3;
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
            side.row.boundaries = [0; 3];
            side.row.window_sum = 2_230_000;
        });
        assert_eq!(fewer.explain_cost(), "3 fewer compactions, window +123k");
        let cleared = row(|side| {
            side.counts.cleared_cache = 12;
            side.row.boundaries[CompactionCause::Manual as usize] = 1;
            side.row.blocked_calls = 1;
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
        let mut total = row(|side| side.row.boundaries = [1, 0, 0]);
        total.merge(&total.clone());
        assert_eq!(total.difference(compactions), Some(-4));
        assert_eq!(total.sides[FIRST_SIDE].row.mean(), Some(100_000));
    }
}
