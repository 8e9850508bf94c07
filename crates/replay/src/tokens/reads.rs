//! Files read more than once: what a simple formula calls waste, and what was really redundant.
//!
//! The formula counts every read of a path after the first: `floor(total / count) x (count - 1)`. Most of those reads
//! fetched something new: another range, or the file after an edit. A read is *redundant* only if the window already held
//! the range in the same version of the file.

use crate::tokens::ledger::round_nonnegative;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, hash_api_id};
use transcript::tools::tool_role;

/// Reads of one or more sessions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReadTotals {
    /// Successful reads.
    pub count: u64,
    /// Tokens of their results.
    pub tokens: u64,
    /// Files read more than once.
    pub repeated_files: u64,
    /// Tokens that the formula counts as waste.
    pub duplicate_tokens: u64,
    /// Redundant reads.
    pub redundant: u64,
    /// Tokens of the redundant reads.
    pub redundant_tokens: u64,
}

impl ReadTotals {
    /// Adds the totals of another session.
    pub fn merge(&mut self, other: &ReadTotals) {
        self.count += other.count;
        self.tokens += other.tokens;
        self.repeated_files += other.repeated_files;
        self.duplicate_tokens += other.duplicate_tokens;
        self.redundant += other.redundant;
        self.redundant_tokens += other.redundant_tokens;
    }
}

/// Tracks the reads and edits of one chain.
#[derive(Default)]
pub struct ReadTracker {
    /// By hash of the path.
    files: IdMap<u64, TrackedFile>,
    /// Number of shell commands that may have changed any file.
    shell_changes: u64,
    /// Number of boundaries: reads from before the last one are no longer in the window.
    window: u64,
}

#[derive(Default)]
struct TrackedFile {
    count: u64,
    tokens: u64,
    edits: u64,
    /// Ranges in the window: version, first line, and end.
    live: Vec<(ReadVersion, u32, u32)>,
    redundant: u64,
    redundant_tokens: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct ReadVersion {
    edits: u64,
    shell_changes: u64,
    window: u64,
}

/// Most lines that a read without a limit returns.
const DEFAULT_READ_LINES: u32 = 2000;

/// An event that affects reads; paths are hashed. Pieces of a chain can collect theirs in parallel, but the tracker has to
/// apply all of them in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEvent {
    /// A boundary: the window starts over.
    Boundary,
    /// A shell command that may have changed any file.
    Shell,
    /// The agent changed a file.
    Edit(u64),
    /// A read: path, range (first line and number of lines, 0 where the call did not say), and tokens.
    Read(u64, (u32, u32), u64),
}

impl FileEvent {
    /// Returns the event of a call or a result, given its tool, path and size; `None` if it does not affect reads.
    pub fn of(block: &Block, tool: &str, path: &str, tokens: f64) -> Option<FileEvent> {
        match (block.kind, tool_role(tool, !path.is_empty())) {
            (BlockKind::ToolCall, _) if block.may_change_files => Some(FileEvent::Shell),
            (BlockKind::ToolResult, "Edit" | "Write" | "MultiEdit" | "NotebookEdit") if !block.is_error => {
                Some(FileEvent::Edit(hash_api_id(path.as_bytes())))
            }
            (BlockKind::ToolResult, "Read") if !block.is_error && !path.is_empty() => Some(FileEvent::Read(
                hash_api_id(path.as_bytes()),
                block.range,
                round_nonnegative(tokens.max(0.0)),
            )),
            _ => None,
        }
    }
}

impl ReadTracker {
    /// Applies the next event.
    pub fn apply(&mut self, step: FileEvent) {
        match step {
            FileEvent::Boundary => self.window += 1,
            FileEvent::Shell => self.shell_changes += 1,
            FileEvent::Edit(path) => self.files.entry(path).or_default().edits += 1,
            FileEvent::Read(path, range, tokens) => self.read(path, range, tokens),
        }
    }

    fn read(&mut self, path: u64, (offset, limit): (u32, u32), tokens: u64) {
        let file = self.files.entry(path).or_default();
        let version = ReadVersion {
            edits: file.edits,
            shell_changes: self.shell_changes,
            window: self.window,
        };
        let first = offset.max(1);
        let last = first.saturating_add(if limit == 0 { DEFAULT_READ_LINES } else { limit });
        file.live.retain(|(known, _, _)| *known == version);
        let is_covered = file.live.iter().any(|(_, from, to)| *from <= first && last <= *to);
        file.count += 1;
        file.tokens += tokens;
        if is_covered {
            file.redundant += 1;
            file.redundant_tokens += tokens;
        } else {
            file.live.push((version, first, last));
        }
    }

    /// Returns the totals. The order of the hash map cannot show, because integer sums do not depend on it.
    pub fn finish(&self) -> ReadTotals {
        let mut reads = ReadTotals::default();
        for file in self.files.values().filter(|file| file.count > 0) {
            reads.count += file.count;
            reads.tokens += file.tokens;
            reads.repeated_files += u64::from(file.count > 1);
            reads.duplicate_tokens += file.tokens / file.count * (file.count - 1);
            reads.redundant += file.redundant;
            reads.redundant_tokens += file.redundant_tokens;
        }
        reads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(range: (u32, u32)) -> Block {
        let mut block = Block::new(BlockKind::ToolResult);
        block.range = range;
        block
    }

    #[test]
    fn only_the_same_version_and_range_is_redundant() {
        let mut tracker = ReadTracker::default();
        let block = |tracker: &mut ReadTracker, block: &Block, tool: &str, path: &str, tokens: f64| {
            if let Some(step) = FileEvent::of(block, tool, path, tokens) {
                tracker.apply(step);
            }
        };
        let edit = Block::new(BlockKind::ToolResult);
        let mut shell = Block::new(BlockKind::ToolCall);
        shell.may_change_files = true;
        block(&mut tracker, &read((0, 0)), "Read", "/a", 100.0);
        block(&mut tracker, &read((10, 5)), "Read", "/a", 10.0);
        assert_eq!(tracker.finish().redundant, 1, "a part of what is there");
        block(&mut tracker, &edit, "Edit", "/a", 0.0);
        block(&mut tracker, &read((0, 0)), "Read", "/a", 100.0);
        assert_eq!(tracker.finish().redundant, 1, "edited since");
        block(&mut tracker, &shell, "Bash", "", 0.0);
        block(&mut tracker, &read((0, 0)), "Read", "/a", 100.0);
        assert_eq!(tracker.finish().redundant, 1, "may have changed since");
        tracker.apply(FileEvent::Boundary);
        block(&mut tracker, &read((0, 0)), "Read", "/a", 100.0);
        assert_eq!(tracker.finish().redundant, 1, "gone since");
        block(&mut tracker, &read((0, 0)), "Read", "/a", 100.0);
        block(&mut tracker, &read((3000, 10)), "Read", "/a", 10.0);
        let reads = tracker.finish();
        assert_eq!((reads.redundant, reads.redundant_tokens), (2, 110));
        assert_eq!((reads.count, reads.tokens, reads.repeated_files), (7, 520, 1));
        assert_eq!(reads.duplicate_tokens, 520 / 7 * 6);
    }
}
