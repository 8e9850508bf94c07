//! Selects the memories to show: at most five, none twice in a session, no usage docs of tools in use, within a budget of
//! bytes, each cut to its limits and with its age. Pure.

use crate::kinds::MemoryKind;
use crate::recall::{RecallHit, RecallIndex, RecallWeights};
use language::when;
use std::collections::BTreeSet;
use transcript::log::Time;

/// A memory as recall reads it.
#[derive(Debug, Clone, Default)]
pub struct StoredMemory {
    /// Path inside the directory.
    pub file: String,
    pub name: String,
    pub description: String,
    pub kind: Option<MemoryKind>,
    /// The Markdown.
    pub body: String,
    /// When it was last stated; without sources, when the file was written.
    pub last_said: Time,
}

impl StoredMemory {
    pub fn index_into(&self, index: &mut RecallIndex) {
        index.add(&format!("{}\n{}", self.name, self.description), &self.body);
    }
}

/// Limits of a result.
#[derive(Debug, Clone)]
pub struct RecallLimits {
    /// Most memories.
    pub most: usize,
    /// Most lines of a memory.
    pub lines: usize,
    /// Most bytes of a memory.
    pub bytes: usize,
    /// Bytes left in the session.
    pub budget: usize,
    /// Files that were shown or read in this session.
    pub surfaced: BTreeSet<String>,
    /// Tools in use, in lowercase.
    pub tools: Vec<String>,
}

impl Default for RecallLimits {
    /// Returns the limits of the client.
    fn default() -> RecallLimits {
        RecallLimits {
            most: 5,
            lines: 200,
            bytes: 4_096,
            budget: 60_000,
            surfaced: BTreeSet::new(),
            tools: Vec::new(),
        }
    }
}

/// A memory to show.
#[derive(Debug, Clone, PartialEq)]
pub struct RecalledMemory {
    /// Its number.
    pub memory: usize,
    pub score: f64,
    /// The excerpt to show.
    pub text: String,
}

/// Returns whether a query has a word or a number that can be looked for.
pub fn is_worth_asking(query: &str) -> bool {
    query.chars().any(char::is_alphanumeric)
}

/// Finds the memories to show for a query.
pub fn select_memories(
    memories: &[StoredMemory],
    index: &RecallIndex,
    query: &str,
    weights: &RecallWeights,
    limits: &RecallLimits,
    now: Time,
) -> Vec<RecalledMemory> {
    if !is_worth_asking(query) {
        return Vec::new();
    }
    select_hits(memories, index.find_matches(query, weights), limits, now)
}

/// Selects the memories to show from hits, best first.
pub fn select_hits(
    memories: &[StoredMemory],
    hits: impl IntoIterator<Item = RecallHit>,
    limits: &RecallLimits,
    now: Time,
) -> Vec<RecalledMemory> {
    let mut left = limits.budget;
    let mut taken = Vec::new();
    for RecallHit { document, score } in hits {
        let memory = &memories[document];
        if !is_showable(memory, limits) {
            continue;
        }
        let text = excerpt(memory, limits, now);
        if text.len() > left {
            continue;
        }
        left -= text.len();
        taken.push(RecalledMemory {
            memory: document,
            score,
            text,
        });
        if taken.len() == limits.most {
            break;
        }
    }
    taken
}

/// Why no memory is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRecallReason {
    /// The query has no word.
    NoWord,
    /// The directory is empty.
    NoMemories,
    /// No memory fits.
    NoFit,
    /// All that fit were shown before, or are about a tool in use.
    NoNews,
    /// All that fit are longer than the rest of the budget.
    NoRoom,
}

/// Returns why [`select_hits`] shows none of the memories that were found for a query.
pub fn explain_nothing(
    memories: &[StoredMemory],
    hits: &[RecallHit],
    query: &str,
    limits: &RecallLimits,
) -> NoRecallReason {
    let is_new = |memory: &StoredMemory| is_showable(memory, limits);
    if !is_worth_asking(query) {
        NoRecallReason::NoWord
    } else if memories.is_empty() {
        NoRecallReason::NoMemories
    } else if !memories.iter().any(is_new) {
        NoRecallReason::NoNews
    } else if hits.is_empty() {
        NoRecallReason::NoFit
    } else if !hits.iter().any(|hit| is_new(&memories[hit.document])) {
        NoRecallReason::NoNews
    } else {
        NoRecallReason::NoRoom
    }
}

/// Returns whether a memory may be shown in this session: it was not shown yet, and is not about the usage of a tool in use.
pub fn is_showable(memory: &StoredMemory, limits: &RecallLimits) -> bool {
    !limits.surfaced.contains(&memory.file) && !limits.tools.iter().any(|tool| is_usage_of(memory, tool))
}

/// Returns whether a memory only describes the usage of a tool, which is no news while the tool is in use. Warnings are.
pub fn is_usage_of(memory: &StoredMemory, tool: &str) -> bool {
    const USAGE: [&str; 10] = [
        "usage",
        "how to use",
        "syntax",
        "options",
        "flags",
        "api",
        "cheat sheet",
        "command line",
        "parameters",
        "用法",
    ];
    const WARNING: [&str; 13] = [
        "warn",
        "caution",
        "careful",
        "gotcha",
        "pitfall",
        "beware",
        "never",
        "don't",
        "do not",
        "avoid",
        "known issue",
        "bug",
        "注意",
    ];
    if !matches!(memory.kind, Some(MemoryKind::Reference) | None) {
        return false;
    }
    let head = format!("{} {}", memory.name, memory.description).to_lowercase();
    let all = format!("{head} {}", memory.body.to_lowercase());
    let names_tool = head
        .split(|character: char| !character.is_alphanumeric() && character != '_')
        .any(|word| word == tool);
    names_tool && USAGE.iter().any(|word| head.contains(word)) && !WARNING.iter().any(|word| all.contains(word))
}

/// Returns the excerpt of a memory: its age, a caution if it is older than a day, and its text up to the limits.
pub fn excerpt(memory: &StoredMemory, limits: &RecallLimits, now: Time) -> String {
    let mut text = format!(
        "## {} ({}, {})\n",
        memory.name,
        memory.file,
        when::format_age(memory.last_said, now)
    );
    if now.saturating_sub(memory.last_said) > when::DAY {
        text.push_str("Written in the past: check it against what is there now before relying on it.\n");
    }
    text.push('\n');
    let body = memory.body.trim();
    let mut end = 0;
    for line in body.split_inclusive('\n').take(limits.lines) {
        if end + line.len() > limits.bytes {
            break;
        }
        end += line.len();
    }
    // A first line that is too long is cut inside.
    if end == 0 {
        end = body.floor_char_boundary(limits.bytes);
    }
    text.push_str(body[..end].trim_end());
    text.push('\n');
    if end < body.len() {
        text.push_str(&format!(
            "[cut: {} of {} bytes shown; the rest is in {}]\n",
            end,
            body.len(),
            memory.file
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(file: &str, name: &str, body: &str) -> StoredMemory {
        StoredMemory {
            file: file.into(),
            name: name.into(),
            body: body.into(),
            kind: Some(MemoryKind::Reference),
            ..StoredMemory::default()
        }
    }

    fn shown(memories: &[StoredMemory], query: &str, limits: &RecallLimits) -> Vec<String> {
        let mut index = RecallIndex::default();
        memories.iter().for_each(|memory| memory.index_into(&mut index));
        let taken = select_memories(memories, &index, query, &RecallWeights::default(), limits, 0);
        taken.iter().map(|taken| memories[taken.memory].file.clone()).collect()
    }

    #[test]
    fn what_was_surfaced_does_not_come_again() {
        let memories = [
            memory("a.md", "release calendar", "x"),
            memory("b.md", "release notes", "y"),
        ];
        assert_eq!(
            shown(&memories, "the release", &RecallLimits::default()),
            ["a.md", "b.md"]
        );
        let limits = RecallLimits {
            surfaced: ["b.md".to_owned()].into(),
            ..RecallLimits::default()
        };
        assert_eq!(shown(&memories, "the release", &limits), ["a.md"]);
        assert_eq!(shown(&memories, "notes", &RecallLimits::default()), ["b.md"]);
    }

    #[test]
    fn usage_docs_of_tools_in_use_are_left_out_but_not_warnings() {
        let limits = RecallLimits {
            tools: vec!["terraform".into()],
            ..RecallLimits::default()
        };
        let memories = [
            memory("usage.md", "terraform usage and flags", "plan, then apply"),
            memory(
                "care.md",
                "terraform usage with the shared state",
                "never apply from a branch",
            ),
        ];
        assert_eq!(shown(&memories, "run terraform usage", &limits), ["care.md"]);
    }

    #[test]
    fn long_memories_are_cut_with_a_note_and_the_budget_holds() {
        let long = memory("long.md", "release log", &"a line of text\n".repeat(900));
        let text = excerpt(&long, &RecallLimits::default(), 10 * when::DAY);
        assert!(text.len() < 4_096 + 300 && text.contains("[cut: "), "{}", text.len());
        assert!(text.contains("10 days ago") && text.contains("check it"));
        let limits = RecallLimits {
            budget: 1_000,
            ..RecallLimits::default()
        };
        assert!(shown(&[long], "the release log", &limits).is_empty());
    }
}
