//! Files read more than once: what the simple formula calls waste, and what was really redundant.
//!
//! The formula counts every read of a path after the first: `floor(total / count) x (count - 1)`. Most of those reads
//! fetched something new: another range, or the file after an edit. A read is *redundant* only if the same version of the
//! file was already in the window and covered the range.

use crate::tokens::ledger::round_nonnegative;
use transcript::build::IdMap;
use transcript::log::{Block, BlockKind, hash_api_id};

/// Reads of one session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ReadTotals {
    /// Reads with a result.
    pub count: u64,
    /// Tokens of their results.
    pub tokens: u64,
    /// Files read more than once.
    pub repeated_files: u64,
    /// Tokens that the formula calls wasted.
    pub duplicate_tokens: u64,
    /// Reads of what was in the window already.
    pub redundant: u64,
    /// Tokens of those.
    pub redundant_tokens: u64,
}

impl ReadTotals {
    /// Adds those of another session.
    pub fn merge(&mut self, other: &ReadTotals) {
        self.count += other.count;
        self.tokens += other.tokens;
        self.repeated_files += other.repeated_files;
        self.duplicate_tokens += other.duplicate_tokens;
        self.redundant += other.redundant;
        self.redundant_tokens += other.redundant_tokens;
    }
}

/// Follows the reads and edits of one chain.
#[derive(Default)]
pub struct ReadTracker {
    /// By hash of the path.
    files: IdMap<u64, TrackedFile>,
    /// Goes up whenever a shell command may have changed any file.
    shell_changes: u64,
    /// Goes up at every boundary: what was read before is gone.
    window: u64,
}

#[derive(Default)]
struct TrackedFile {
    count: u64,
    tokens: u64,
    edits: u64,
    /// Ranges in the window, with the version they were read at.
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

/// Lines that a read without a limit returns at most.
const DEFAULT_READ_LINES: u32 = 2000;

/// Something that matters to reads, with the hash of its path. What a chain has of them can be gathered in pieces side by side,
/// but has to be followed in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileEvent {
    /// A boundary: the window starts anew.
    Boundary,
    /// A shell command that may have changed any file.
    Shell,
    /// A file was changed.
    Edit(u64),
    /// Lines of a file were read (the first one and how many, 0 where the call did not say), and their tokens.
    Read(u64, (u32, u32), u64),
}

impl FileEvent {
    /// What a call or a result is, given its tool, path and size.
    pub fn of(block: &Block, tool: &str, path: &str, tokens: f64) -> Option<FileEvent> {
        match (block.kind, tool) {
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
    /// What happened next.
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

    /// The sums. Order does not matter: they are integers.
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
