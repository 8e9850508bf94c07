//! Texts about sessions: notes that are kept while a session runs, and the summary that stands in for its history after a
//! compaction.
//!
//! What writes them is a `Backend`: [`offline`] takes from the session what its structure shows to matter, a model over
//! HTTP is asked for it. What is the same for both lives here: what a text is written from (`Material`), what is asked for
//! (`SummaryAsk`, `NotesAsk`), how a prompt that was too long is tried again ([`retry`]), and how large a text is
//! ([`size`]). Pure: no files, no clock, no threads. `commands/notes.rs` joins it to the world.

pub mod carried;
pub mod continued;
pub mod conversation;
pub mod material;
pub mod model;
pub mod offline;
pub mod retry;
pub mod size;
pub mod template;

pub use material::SourceMaterial;
pub use retry::{CircuitBreaker, PromptRetries, SummaryResult, summarize_with_retries};

use template::NotesTemplate;

/// Which part of a conversation a summary is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SummaryVariant {
    /// All of it.
    #[default]
    Whole,
    /// From a message on: earlier ones stay as they are and are not summarised again.
    From,
    /// Up to a message: later ones stay as they are, so the text says what was completed and what is needed to go on.
    UpTo,
}

/// A summary that is wanted.
#[derive(Debug, Clone)]
pub struct SummaryRequest<'m> {
    /// What it is written from.
    pub material: SourceMaterial<'m>,
    /// Which part of the conversation that is.
    pub variant: SummaryVariant,
    /// What the user and their hooks want of it, the user's first; empty for nothing.
    pub instructions: &'m str,
    /// Most tokens, by [`size::tokens`].
    pub budget: u64,
    /// Started by the client: the reader is to go on without asking.
    pub is_automatic: bool,
}

/// Limits of the notes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotesLimits {
    /// Most tokens of a section, by [`size::tokens`].
    pub section: u64,
    /// Most tokens of all sections.
    pub total: u64,
}

/// An update of the notes that is wanted.
#[derive(Debug, Clone)]
pub struct NotesRequest<'m> {
    /// The file as it stands; the empty template, filled in, if there is none.
    pub current: &'m str,
    /// Its headings and descriptions, which stay as they are.
    pub template: &'m NotesTemplate,
    /// Instructions that a person gives in place of the usual ones (`prompt.md`), variables filled in.
    pub instructions: Option<&'m str>,
    /// What happened since the last update.
    pub material: SourceMaterial<'m>,
    /// Limits.
    pub limits: NotesLimits,
}

/// Why a text was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// The prompt does not fit into the window of the model.
    #[error("the prompt is too long{}", .excess.map(|excess| format!(" by {excess} tokens")).unwrap_or_default())]
    PromptTooLong {
        /// By how many tokens, if the answer says so.
        excess: Option<u64>,
    },
    /// A budget of money, calls or tokens is used up.
    #[error("{0}")]
    Budget(String),
    /// It was put down for a batch, or only counted: there is no text in this pass.
    #[error("not there yet")]
    Pending,
    /// The conversation says nothing.
    #[error("there is nothing to summarise")]
    Nothing,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
}

/// What writes texts.
pub trait TextBackend: Sync {
    /// Its name, as `--backend` takes it.
    fn name(&self) -> &'static str;

    /// Writes a summary with the nine sections of [`template::SUMMARY_SECTIONS`]; at most the budget.
    fn summary(&self, ask: &SummaryRequest<'_>) -> Result<String, TextError>;

    /// Writes the whole notes file anew: headings and descriptions of the template, contents brought up to date.
    fn notes(&self, ask: &NotesRequest<'_>) -> Result<String, TextError>;
}
