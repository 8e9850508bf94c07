//! Texts about sessions: notes that are updated while a session runs, and the summary that replaces its history after a
//! compaction.
//!
//! A [`TextBackend`] writes them: [`offline`] from the structure of the session, [`model`] by asking a model over HTTP. Both
//! share the source ([`SourceMaterial`]), the requests ([`SummaryRequest`], [`NotesRequest`]), the retries of a prompt that
//! is too long ([`retry`]) and the measure of a text ([`size`]). No files, clock or threads outside of [`model`]; the
//! command `notes` connects it to files.

pub mod conversation;
pub mod coverage;
pub mod material;
pub mod model;
pub mod offline;
pub mod retry;
pub mod session;
pub mod size;
pub mod template;
pub mod user_edits;

pub use material::SourceMaterial;
pub use retry::{CircuitBreaker, PromptRetries, SummaryResult, summarize_with_retries};

use template::NotesTemplate;

/// Which part of a conversation a summary is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SummaryVariant {
    /// All of it.
    #[default]
    Whole,
    /// From a message on. Earlier messages stay as they are and are not summarized.
    From,
    /// Up to a message. Later messages stay as they are, so the summary covers completed work and context for them.
    UpTo,
}

/// A request for a summary.
#[derive(Debug, Clone)]
pub struct SummaryRequest<'m> {
    pub material: SourceMaterial<'m>,
    pub variant: SummaryVariant,
    /// Instructions of the user and of hooks, the user's first; may be empty.
    pub instructions: &'m str,
    /// Maximum tokens, by [`size::tokens`].
    pub budget: u64,
    /// Whether the client started the compaction. Then the reader continues without asking.
    pub is_automatic: bool,
}

/// Limits of the notes, in tokens by [`size::tokens`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesLimits {
    /// Maximum of a section.
    pub section: u64,
    /// Maximum of the whole file.
    pub total: u64,
}

/// A request for an update of the notes.
#[derive(Debug, Clone)]
pub struct NotesRequest<'m> {
    /// The current file, or the empty template if there is none.
    pub current: &'m str,
    /// Headings and descriptions, which do not change.
    pub template: &'m NotesTemplate,
    /// Instructions of the user (`prompt.md`, with variables substituted) that replace the built-in ones.
    pub instructions: Option<&'m str>,
    /// The messages since the last update.
    pub material: SourceMaterial<'m>,
    pub limits: NotesLimits,
}

/// Why a text was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The prompt does not fit into the context window of the model.
    #[error("the prompt is too long{}", .excess.map(|excess| format!(" by {excess} tokens")).unwrap_or_default())]
    PromptTooLong {
        /// Tokens above the limit, if the API reports them.
        excess: Option<u64>,
    },
    /// A budget of money, calls or tokens is used up.
    #[error("{0}")]
    Budget(String),
    /// The request was queued for a batch or only estimated, so there is no text yet.
    #[error("not there yet")]
    Pending,
    /// The conversation is empty.
    #[error("there is nothing to summarize")]
    Nothing,
    #[error("{0}")]
    Failed(String),
}

/// Writes summaries and notes.
pub trait TextBackend: Sync {
    /// Returns its name as a value of `--backend`.
    fn name(&self) -> &'static str;

    /// Writes a summary with the nine sections of [`template::SUMMARY_SECTIONS`] within the budget.
    fn summary(&self, request: &SummaryRequest<'_>) -> Result<String, TextError>;

    /// Writes the whole notes file: headings and descriptions of the template with updated contents.
    fn notes(&self, request: &NotesRequest<'_>) -> Result<String, TextError>;
}
