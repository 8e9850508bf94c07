//! A change of one file in a memory directory, and its diff. Pure.

use crate::kinds::Candidate;
use crate::topic::Topic;
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use transcript::log::Time;

/// The kind of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeAction {
    /// A memory is created.
    New,
    /// A memory is edited.
    Update,
    /// A memory is moved to the archive.
    Retire,
    /// The index is rewritten.
    Index,
    /// Undo restores a file.
    Restore,
}

impl ChangeAction {
    /// Returns the name in journals and outputs.
    pub fn name(self) -> &'static str {
        match self {
            ChangeAction::New => "new",
            ChangeAction::Update => "update",
            ChangeAction::Retire => "retire",
            ChangeAction::Index => "index",
            ChangeAction::Restore => "restore",
        }
    }
}

/// A planned change of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryChange {
    /// Path inside the directory.
    pub file: String,
    pub action: ChangeAction,
    /// The old text; `None` if the file is created.
    pub before: Option<String>,
    /// The new text; `None` if the file is removed.
    pub after: Option<String>,
    pub reason: String,
    /// Marks of the candidates of a retired memory, so that it is not created again.
    pub marks: Vec<String>,
    /// What the memory was created from, so that it is not created again after the user deletes it.
    pub provenance: Option<Provenance>,
    /// Id of the record that retracted the memory.
    pub retracted_by: Option<String>,
}

/// What a memory was created from.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Provenance {
    /// Marks of the candidates.
    pub marks: Vec<String>,
    /// Ids of the records that state it.
    pub sources: Vec<String>,
    /// Time of the latest record, in milliseconds since 1970.
    pub said: Option<Time>,
    /// Title of the memory: what a deletion speaks against.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
}

impl Provenance {
    /// Returns what a topic file was created from; `None` if a person wrote it.
    pub fn from_topic(topic: &Topic) -> Option<Provenance> {
        let (marks, sources) = (topic.marks(), topic.sources());
        (!marks.is_empty()).then(|| Provenance {
            marks,
            title: topic.name(),
            said: sources.iter().filter_map(|source| source.time).max(),
            sources: sources.into_iter().map(|source| source.uuid).collect(),
        })
    }

    /// Returns whether a candidate is the same memory and no later record states it again.
    pub fn is_repeated_by(&self, candidate: &Candidate, mark: &str) -> bool {
        let is_same = self.marks.iter().any(|known| known == mark)
            || candidate
                .sources
                .iter()
                .any(|source| self.sources.contains(&source.uuid));
        let last = candidate.sources.iter().filter_map(|source| source.time).max();
        is_same && last <= self.said
    }
}

/// Returns changes as a unified diff, with the reason above each.
pub fn diff(changes: &[MemoryChange]) -> String {
    let mut out = String::new();
    for change in changes {
        let side = |text: &Option<String>, letter| match text {
            Some(_) => format!("{letter}/{}", change.file),
            None => "/dev/null".to_owned(),
        };
        let _ = writeln!(out, "# {}: {}", change.action.name(), change.reason);
        let _ = writeln!(
            out,
            "--- {}\n+++ {}",
            side(&change.before, 'a'),
            side(&change.after, 'b')
        );
        let old = change.before.as_deref().unwrap_or_default().lines().collect::<Vec<_>>();
        let new = change.after.as_deref().unwrap_or_default().lines().collect::<Vec<_>>();
        write_hunk(&mut out, &old, &new);
    }
    out
}

/// Writes the lines that differ as one hunk with three lines of context. Files are short, so one hunk is easy to read.
fn write_hunk(out: &mut String, old: &[&str], new: &[&str]) {
    let head = old.iter().zip(new).take_while(|(one, other)| one == other).count();
    let rest = old.len().min(new.len()) - head;
    let pairs = old.iter().rev().zip(new.iter().rev());
    let tail = pairs.take_while(|(one, other)| one == other).count().min(rest);
    let start = head.saturating_sub(3);
    let after = tail.min(3);
    let lengths = (old.len() - tail + after - start, new.len() - tail + after - start);
    let from = |length: usize| if length == 0 { start } else { start + 1 };
    let _ = writeln!(
        out,
        "@@ -{},{} +{},{} @@",
        from(lengths.0),
        lengths.0,
        from(lengths.1),
        lengths.1
    );
    for line in &old[start..head] {
        let _ = writeln!(out, " {line}");
    }
    for line in &old[head..old.len() - tail] {
        let _ = writeln!(out, "-{line}");
    }
    for line in &new[head..new.len() - tail] {
        let _ = writeln!(out, "+{line}");
    }
    for line in &old[old.len() - tail..old.len() - tail + after] {
        let _ = writeln!(out, " {line}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changes_and_why() {
        let change = MemoryChange {
            file: "a.md".into(),
            action: ChangeAction::Update,
            before: Some("1\n2\n3\n4\n5\n6\n".into()),
            after: Some("1\n2\n3\n4\nfive\n6\n".into()),
            reason: "because".into(),
            marks: Vec::new(),
            provenance: None,
            retracted_by: None,
        };
        assert_eq!(
            diff(&[change]),
            "# update: because\n--- a/a.md\n+++ b/a.md\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n"
        );
    }
}
