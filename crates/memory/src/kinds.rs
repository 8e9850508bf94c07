//! The type of a memory, its source, and a candidate for one.

use transcript::log::Time;

/// The type of a memory. A file with any other type is read as untyped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Role, goals, skills and preferences of the user; always private.
    User,
    /// How to work: corrections and confirmations.
    Feedback,
    /// Ongoing work, decisions, deadlines, incidents, and their reasons.
    Project,
    /// Where things are in outside systems.
    Reference,
}

pub const MEMORY_KINDS: [MemoryKind; 4] = [
    MemoryKind::User,
    MemoryKind::Feedback,
    MemoryKind::Project,
    MemoryKind::Reference,
];

impl MemoryKind {
    /// Returns the name in files and outputs.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::User => "user",
            MemoryKind::Feedback => "feedback",
            MemoryKind::Project => "project",
            MemoryKind::Reference => "reference",
        }
    }

    /// Parses a type; `None` if the name is unknown.
    pub fn parse(name: &str) -> Option<MemoryKind> {
        MEMORY_KINDS.into_iter().find(|kind| kind.name() == name)
    }
}

/// The record of a session that states a memory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySource {
    pub session: String,
    /// Id of the record.
    pub uuid: String,
    pub time: Option<Time>,
}

/// A memory that was extracted from sessions and is not in a directory yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    pub kind: MemoryKind,
    /// A few words.
    pub title: String,
    /// One line about the situation in which the memory applies. Recall ranks by it; it becomes the description.
    pub hook: String,
    /// The memory in Markdown, with **Why:** and **How to apply:** if the session gives them.
    pub body: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Oldest first.
    pub sources: Vec<MemorySource>,
    /// Root of the project whose sessions said it; empty if nothing tells.
    pub project: String,
    pub origin: CandidateOrigin,
}

/// Who a candidate comes from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum CandidateOrigin {
    /// A person said it.
    #[default]
    Person,
    /// A person asked for it again and again.
    Habit,
    /// The agent wrote it, or reports that a person wants it.
    Agent,
}

impl CandidateOrigin {
    /// Returns the name in files and outputs.
    pub fn name(self) -> &'static str {
        match self {
            CandidateOrigin::Person => "person",
            CandidateOrigin::Habit => "habit",
            CandidateOrigin::Agent => "agent",
        }
    }
}
