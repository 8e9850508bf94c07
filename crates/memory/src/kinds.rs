//! What a memory is: its type, its words, and where it comes from.

use transcript::log::Time;

/// The four types, and nothing else. An unknown type in a file is read as untyped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryKind {
    /// Role, goals, skills and preferences of a person; always private.
    User,
    /// How to work: corrections and confirmations.
    Feedback,
    /// Ongoing work, decisions, deadlines, incidents, and their reasons.
    Project,
    /// Where things are in outside systems.
    Reference,
}

/// All types.
pub const MEMORY_KINDS: [MemoryKind; 4] = [
    MemoryKind::User,
    MemoryKind::Feedback,
    MemoryKind::Project,
    MemoryKind::Reference,
];

impl MemoryKind {
    /// Name in files and outputs.
    pub fn name(self) -> &'static str {
        match self {
            MemoryKind::User => "user",
            MemoryKind::Feedback => "feedback",
            MemoryKind::Project => "project",
            MemoryKind::Reference => "reference",
        }
    }

    /// The type of a name, if it is one.
    pub fn parse(name: &str) -> Option<MemoryKind> {
        MEMORY_KINDS.into_iter().find(|kind| kind.name() == name)
    }
}

/// Where somebody said it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemorySource {
    /// Session id.
    pub session: String,
    /// Id of the record.
    pub uuid: String,
    /// When it was written.
    pub time: Option<Time>,
}

/// Something worth remembering, before it is in a directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// Its type.
    pub kind: MemoryKind,
    /// A few words.
    pub title: String,
    /// One line, written for the situation in which it applies: recall judges by it.
    pub hook: String,
    /// The memory itself, Markdown, with **Why:** and **How to apply:** where the words are there.
    pub body: String,
    /// 0 to 1.
    pub confidence: f64,
    /// Where it was said, oldest first.
    pub sources: Vec<MemorySource>,
}
