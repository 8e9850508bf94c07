//! Problems of the input that are not errors.
//!
//! Bad input is data. Every stage adds to a list of [`Problem`]s and the run continues. The list is summarized at the
//! end, printed with `--problems`, and changes the exit status only with `--strict`.

use crate::log::{KEPT_PER_KIND, LineProblemKind, LineProblems};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Kinds of problems.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ProblemKind {
    /// A problem with a line.
    Line(LineProblemKind),
    /// A file or folder could not be read.
    Unreadable,
    /// Not a regular file.
    SpecialFile,
    /// A symbolic link that was not followed.
    LinkSkipped,
    /// One of several folders or patterns has no log.
    NoLogs,
    /// A compressed log is truncated or damaged.
    BrokenStream,
    /// The parent of a record is in no log.
    MissingParent,
    /// Records form a parent cycle.
    ParentCycle,
    /// A tool result without its call.
    ResultWithoutCall,
    /// A tool call without its result, and not at the end of the session.
    CallWithoutResult,
    /// The last message before a boundary is not in the log.
    BoundaryWithoutLeaf,
    /// A damaged, foreign or outdated cache entry was rebuilt.
    CacheRebuilt,
    /// A session failed because of a bug in this program.
    Internal,
    /// Notes or a summary could not be written.
    NoText,
    /// Notes or a summary were edited by hand and are kept.
    TextKept,
    /// An object store did not deliver a log.
    NotDelivered,
    /// A log in an object store is not the one that was listed.
    Changed,
}

impl ProblemKind {
    /// Iterates over every kind, for the documentation.
    pub fn all() -> impl Iterator<Item = ProblemKind> {
        let others = [
            ProblemKind::Unreadable,
            ProblemKind::SpecialFile,
            ProblemKind::LinkSkipped,
            ProblemKind::NoLogs,
            ProblemKind::BrokenStream,
            ProblemKind::NotDelivered,
            ProblemKind::Changed,
            ProblemKind::MissingParent,
            ProblemKind::ParentCycle,
            ProblemKind::ResultWithoutCall,
            ProblemKind::CallWithoutResult,
            ProblemKind::BoundaryWithoutLeaf,
            ProblemKind::CacheRebuilt,
            ProblemKind::NoText,
            ProblemKind::TextKept,
            ProblemKind::Internal,
        ];
        let lines = LineProblemKind::ALL.iter().copied().map(ProblemKind::Line);
        lines.chain(others)
    }

    /// Returns the short name used in every output.
    pub fn name(self) -> &'static str {
        match self {
            ProblemKind::Line(problem) => match problem {
                LineProblemKind::Stripped => "noise-stripped",
                LineProblemKind::Mended => "text-mended",
                LineProblemKind::Split => "records-split",
                LineProblemKind::Resynced => "record-torn",
                LineProblemKind::Malformed => "malformed",
                LineProblemKind::NotAnObject => "not-an-object",
                LineProblemKind::TooDeep => "too-deep",
                LineProblemKind::OnlyNul => "only-nul",
                LineProblemKind::TooLong => "too-long",
                LineProblemKind::TornTail => "torn-tail",
                LineProblemKind::BadTime => "bad-timestamp",
                LineProblemKind::BadCount => "bad-count",
                LineProblemKind::OtherAgent => "other-agent",
            },
            ProblemKind::Unreadable => "unreadable",
            ProblemKind::SpecialFile => "special-file",
            ProblemKind::LinkSkipped => "link-skipped",
            ProblemKind::NoLogs => "no-logs",
            ProblemKind::BrokenStream => "broken-stream",
            ProblemKind::NotDelivered => "not-delivered",
            ProblemKind::Changed => "changed",
            ProblemKind::MissingParent => "missing-parent",
            ProblemKind::ParentCycle => "parent-cycle",
            ProblemKind::ResultWithoutCall => "result-without-call",
            ProblemKind::CallWithoutResult => "call-without-result",
            ProblemKind::BoundaryWithoutLeaf => "boundary-without-leaf",
            ProblemKind::CacheRebuilt => "cache-rebuilt",
            ProblemKind::NoText => "no-text",
            ProblemKind::TextKept => "text-kept",
            ProblemKind::Internal => "internal-error",
        }
    }

    /// Returns what it means and how it was handled.
    pub fn about(self) -> &'static str {
        match self {
            ProblemKind::Line(problem) => match problem {
                LineProblemKind::Stripped => {
                    "bytes that are no JSON (byte-order mark, NULs) around a record were dropped"
                }
                LineProblemKind::Mended => {
                    "text that is not UTF-8, a lone surrogate or a raw control character was replaced"
                }
                LineProblemKind::Split => "several records on one line; all were read",
                LineProblemKind::Resynced => "a torn record was lost; what follows or precedes it on the line was read",
                LineProblemKind::Malformed => "not JSON; the line was left out",
                LineProblemKind::NotAnObject => "JSON, but not an object; the line was left out",
                LineProblemKind::TooDeep => "nested too deep; the line was left out",
                LineProblemKind::OnlyNul => "nothing but NUL bytes; the line was left out",
                LineProblemKind::TooLong => "longer than --max-line; the line was left out",
                LineProblemKind::TornTail => "the last line is unfinished: the log is being written, or was cut",
                LineProblemKind::BadTime => "a timestamp that cannot be read; the record counts as undated",
                LineProblemKind::BadCount => {
                    "a token count that is none (negative, a fraction, text, more than a trillion); it counts as 0"
                }
                LineProblemKind::OtherAgent => "a log of Qwen Code, which is not read; nothing of it counts",
            },
            ProblemKind::Unreadable => "could not be read; left out",
            ProblemKind::SpecialFile => "not a regular file; left out",
            ProblemKind::LinkSkipped => "a symbolic link; not followed (--follow-links does)",
            ProblemKind::NoLogs => "a folder or pattern that was named has no log",
            ProblemKind::BrokenStream => "the compressed stream ends early or is damaged; what came before was used",
            ProblemKind::NotDelivered => {
                "an object store did not deliver the log, or not whole; nothing of it was used"
            }
            ProblemKind::Changed => "changed after it was found; nothing of it was used",
            ProblemKind::MissingParent => "follows a record that is in no log; joined to the record before it",
            ProblemKind::ParentCycle => "records that follow each other in a circle; the circle was cut",
            ProblemKind::ResultWithoutCall => "a tool result whose call is not in the session",
            ProblemKind::CallWithoutResult => "a tool call whose result was never written",
            ProblemKind::BoundaryWithoutLeaf => {
                "a boundary whose last message is not in the log; joined to the record before it"
            }
            ProblemKind::CacheRebuilt => "a cache entry was damaged, foreign or outdated; it was made again",
            ProblemKind::NoText => "a summary or notes could not be written, for the reason given",
            ProblemKind::TextKept => {
                "the text was edited since it was written, or a person wrote it; it stays (--force replaces it)"
            }
            ProblemKind::Internal => "a defect of backcast: the session was left out; please report it",
        }
    }

    /// Returns whether it is about the logs, not about the cache. Documents and limits have only those: they must not depend on
    /// the state of a cache.
    pub fn is_of_input(self) -> bool {
        self != ProblemKind::CacheRebuilt
    }

    /// Returns whether data was lost, so that `--strict` fails.
    pub fn is_loss(self) -> bool {
        match self {
            ProblemKind::Line(problem) => matches!(
                problem,
                LineProblemKind::Resynced
                    | LineProblemKind::Malformed
                    | LineProblemKind::NotAnObject
                    | LineProblemKind::TooDeep
                    | LineProblemKind::OnlyNul
                    | LineProblemKind::TooLong
                    | LineProblemKind::BadCount
                    | LineProblemKind::OtherAgent
            ),
            ProblemKind::Unreadable
            | ProblemKind::SpecialFile
            | ProblemKind::BrokenStream
            | ProblemKind::NotDelivered
            | ProblemKind::Changed
            | ProblemKind::Internal => true,
            _ => false,
        }
    }
}

/// A problem and its location.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Problem {
    pub path: String,
    /// Line number, from 1, if it concerns one line.
    pub line: Option<u64>,
    /// Byte offset of the line.
    pub offset: Option<u64>,
    pub kind: ProblemKind,
    /// Details; may be empty.
    pub detail: String,
    /// Further problems of this kind in the same file that were counted, but not kept with their places.
    pub more: u64,
}

/// Sorts problems and keeps the first few of each kind and file; the last of them counts the others. A list stays short
/// however many lines of a log are damaged.
pub fn sort_problems(problems: &mut Vec<Problem>) {
    problems.sort();
    let mut kept = Vec::<Problem>::with_capacity(problems.len());
    // By kind, the place of the last problem of the current file, and how many of them were kept.
    let mut latest = BTreeMap::<ProblemKind, (usize, usize)>::new();
    for mut problem in problems.drain(..) {
        if kept.last().is_some_and(|last| last.path != problem.path) {
            latest.clear();
        }
        match latest.get_mut(&problem.kind) {
            Some((last, count)) if *count >= KEPT_PER_KIND => {
                kept[*last].more = kept[*last].more.saturating_add(problem.count());
            }
            Some((last, count)) => {
                // What an earlier one counts is counted by the last.
                problem.more = problem.more.saturating_add(std::mem::take(&mut kept[*last].more));
                (*last, *count) = (kept.len(), *count + 1);
                kept.push(problem);
            }
            None => {
                latest.insert(problem.kind, (kept.len(), 1));
                kept.push(problem);
            }
        }
    }
    *problems = kept;
}

impl Problem {
    /// Returns how many problems it stands for: itself, and those that were not kept.
    pub fn count(&self) -> u64 {
        self.more.saturating_add(1)
    }

    /// Creates a problem with a whole file.
    pub fn file(path: impl Into<String>, kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            path: path.into(),
            line: None,
            offset: None,
            kind,
            detail: detail.into(),
            more: 0,
        }
    }

    /// Returns the end of a sentence that says how many more there are; empty if there are none.
    pub fn format_more(&self) -> String {
        match self.more {
            0 => String::new(),
            more => format!("; {more} more of this kind in this file"),
        }
    }

    /// Iterates over the problems with the lines of a log that were kept.
    pub fn lines(path: &str, problems: &LineProblems) -> impl Iterator<Item = Problem> {
        problems.with_left_out().map(move |(problem, more)| Problem {
            path: path.to_owned(),
            line: Some(problem.line),
            offset: Some(problem.offset),
            kind: ProblemKind::Line(problem.kind),
            detail: String::new(),
            more,
        })
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, " (byte {offset})")?;
        }
        write!(f, ": {}: {}", self.kind.name(), self.kind.about())?;
        if !self.detail.is_empty() {
            write!(f, " ({})", self.detail)?;
        }
        f.write_str(&self.format_more())
    }
}

/// A problem as the JSON output has it.
#[derive(Debug, Serialize)]
pub struct ProblemRow<'a> {
    pub path: &'a str,
    pub line: Option<u64>,
    /// Byte offset of the line.
    pub offset: Option<u64>,
    /// Short name of the kind.
    pub kind: &'static str,
    /// What it means.
    pub about: &'static str,
    pub detail: &'a str,
    /// Further problems of this kind in the same file that are not listed.
    pub more: u64,
}

impl<'a> From<&'a Problem> for ProblemRow<'a> {
    fn from(problem: &'a Problem) -> Self {
        ProblemRow {
            path: &problem.path,
            line: problem.line,
            offset: problem.offset,
            kind: problem.kind.name(),
            about: problem.kind.about(),
            detail: &problem.detail,
            more: problem.more,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::LineProblem;

    fn malformed(lines: std::ops::Range<u64>) -> LineProblems {
        let mut problems = LineProblems::default();
        for line in lines {
            problems.push(LineProblem {
                kind: LineProblemKind::Malformed,
                line,
                offset: 2 * line,
            });
        }
        problems
    }

    fn lines_and_more(problems: &[Problem]) -> Vec<(Option<u64>, u64)> {
        problems.iter().map(|problem| (problem.line, problem.more)).collect()
    }

    #[test]
    fn the_first_few_of_a_kind_are_kept_and_the_others_counted() {
        let mut problems = malformed(1..8);
        problems.push(LineProblem {
            kind: LineProblemKind::TooDeep,
            line: 8,
            offset: 0,
        });
        problems.append(malformed(1..31), 8);
        let told = Problem::lines("log", &problems).collect::<Vec<_>>();
        let expected = (1..11).map(|line| (Some(line), 0)).collect::<Vec<_>>();
        let mut expected = [&expected[..], &[(Some(11), 27)]].concat();
        expected.remove(7);
        expected.insert(7, (Some(8), 0));
        assert_eq!(lines_and_more(&told), expected);
        assert_eq!(told.iter().map(Problem::count).sum::<u64>(), 38);
        assert!(told[10].to_string().ends_with("; 27 more of this kind in this file"));
    }

    #[test]
    fn sorting_twice_or_in_parts_counts_alike() {
        let told = |path: &str, lines| Problem::lines(path, &malformed(lines)).collect::<Vec<_>>();
        let both = || [told("a", 1..50), told("b", 1..4)].concat();
        let more = || told("a", 60..75);
        let mut whole = [both(), more()].concat();
        sort_problems(&mut whole);
        let mut parts = both();
        sort_problems(&mut parts);
        sort_problems(&mut parts);
        parts.extend(more());
        parts.reverse();
        sort_problems(&mut parts);
        assert_eq!(whole, parts);
        assert_eq!(whole.len(), 13);
        assert_eq!(whole[9].more, 39 + 15);
    }
}
