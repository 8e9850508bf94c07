//! Problems of the input that are not errors.
//!
//! Bad input is data. Every stage adds to a list of [`Problem`]s and the run continues. The list is summarized at the
//! end, printed with `--problems`, and changes the exit status only with `--strict`.

use crate::log::{LineProblem, LineProblemKind};
use serde::{Deserialize, Serialize};

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
            },
            ProblemKind::Unreadable => "unreadable",
            ProblemKind::SpecialFile => "special-file",
            ProblemKind::LinkSkipped => "link-skipped",
            ProblemKind::NoLogs => "no-logs",
            ProblemKind::BrokenStream => "broken-stream",
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
            },
            ProblemKind::Unreadable => "could not be read; left out",
            ProblemKind::SpecialFile => "not a regular file; left out",
            ProblemKind::LinkSkipped => "a symbolic link; not followed (--follow-links does)",
            ProblemKind::NoLogs => "a folder or pattern that was named has no log",
            ProblemKind::BrokenStream => "the compressed stream ends early or is damaged; what came before was used",
            ProblemKind::MissingParent => "follows a record that is in no log; joined to the record before it",
            ProblemKind::ParentCycle => "records that follow each other in a circle; the circle was cut",
            ProblemKind::ResultWithoutCall => "a tool result whose call is not in the session",
            ProblemKind::CallWithoutResult => "a tool call whose result was never written",
            ProblemKind::BoundaryWithoutLeaf => {
                "a boundary whose last message is not in the log; joined to the record before it"
            }
            ProblemKind::CacheRebuilt => "a cache entry was damaged, foreign or outdated; it was made again",
            ProblemKind::NoText => "a summary or notes could not be written; the reason stands beside it",
            ProblemKind::TextKept => {
                "somebody changed the text since it was written, or wrote it; it stays (--force replaces it)"
            }
            ProblemKind::Internal => "a defect of backcast: the session was left out; please report it",
        }
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
            ),
            ProblemKind::Unreadable | ProblemKind::SpecialFile | ProblemKind::BrokenStream | ProblemKind::Internal => {
                true
            }
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
}

impl Problem {
    /// Creates a problem with a whole file.
    pub fn file(path: impl Into<String>, kind: ProblemKind, detail: impl Into<String>) -> Problem {
        Problem {
            path: path.into(),
            line: None,
            offset: None,
            kind,
            detail: detail.into(),
        }
    }

    /// Creates a problem with one line.
    pub fn line(path: &str, problem: &LineProblem) -> Problem {
        Problem {
            path: path.to_owned(),
            line: Some(problem.line),
            offset: Some(problem.offset),
            kind: ProblemKind::Line(problem.kind),
            detail: String::new(),
        }
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
        Ok(())
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
        }
    }
}
