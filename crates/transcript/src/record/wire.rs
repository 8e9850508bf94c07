//! The wire types: one line of a log, borrowed from its bytes.

use super::usage::{Tokens, WireUsage};
use crate::json::JsonStr;
use crate::skim::TextShape;

/// Resets a value in place for the next line and keeps its allocations.
pub(super) trait Clear {
    fn clear(&mut self);
}

impl<T> Clear for Option<T> {
    #[inline]
    fn clear(&mut self) {
        *self = None;
    }
}

impl<T> Clear for Vec<T> {
    #[inline]
    fn clear(&mut self) {
        Vec::clear(self);
    }
}

macro_rules! clear_to_default {
    ($($type:ty)*) => {$(
        impl Clear for $type {
            #[inline]
            fn clear(&mut self) {
                *self = Self::default();
            }
        }
    )*};
}

clear_to_default!(bool u32 TextShape ScopeRun);

/// Declares a struct together with its [`Clear`], so that no field can be forgotten. Fields are cleared one by one:
/// assigning a default record would write and copy a kilobyte per line.
macro_rules! clearable {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident<$lifetime:lifetime> {
            $($(#[$field_attribute:meta])* pub $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$attribute])*
        pub struct $name<$lifetime> {
            $($(#[$field_attribute])* pub $field: $type,)*
        }

        impl Clear for $name<'_> {
            fn clear(&mut self) {
                $(self.$field.clear();)*
            }
        }
    };
}

clearable! {
    /// One line of a log, as far as it is read.
    #[derive(Debug, Clone, Default)]
    pub struct WireRecord<'a> {
        /// `type`.
        pub kind: Option<JsonStr<'a>>,
        /// `subtype` of system records, `data.type` of progress records.
        pub subtype: Option<JsonStr<'a>>,
        /// Id of the record.
        pub uuid: Option<JsonStr<'a>>,
        /// Id of the record it follows.
        pub parent: Option<JsonStr<'a>>,
        /// Id of the record that a boundary follows.
        pub logical_parent: Option<JsonStr<'a>>,
        /// Session id.
        pub session: Option<JsonStr<'a>>,
        /// Sub-agent id.
        pub agent: Option<JsonStr<'a>>,
        /// Version of the client.
        pub version: Option<JsonStr<'a>>,
        pub cwd: Option<JsonStr<'a>>,
        pub branch: Option<JsonStr<'a>>,
        /// The run that session, version, folder and branch were read from.
        pub scope_run: ScopeRun,
        pub timestamp: Option<JsonStr<'a>>,
        /// API request id of an assistant record.
        pub request: Option<JsonStr<'a>>,
        /// Belongs to a sub-agent's chain.
        pub is_sidechain: bool,
        /// Inserted by the client, not typed by a person.
        pub is_meta: bool,
        /// The summary after a boundary.
        pub is_compact_summary: bool,
        /// An API error, shown as a message.
        pub is_api_error: bool,
        /// The message of user, assistant and (nested) progress records.
        pub message: WireMessage<'a>,
        /// Content blocks of the message.
        pub blocks: Vec<WireBlock<'a>>,
        /// `attachment.type`.
        pub attachment: Option<JsonStr<'a>>,
        /// `attachment.commandMode`, and where a queued command comes from.
        pub attachment_mode: Option<JsonStr<'a>>,
        pub attachment_origin: Option<JsonStr<'a>>,
        /// Text of the attachment that the model sees.
        pub attachment_shape: TextShape,
        /// Length of the name of the hook that produced the attachment.
        pub hook_name_units: u32,
        /// File that an attachment shows.
        pub attachment_path: Option<JsonStr<'a>>,
        /// Text of a system record, where it is a plain string.
        pub system_text: Option<JsonStr<'a>>,
        /// Metadata of a compaction or micro-compaction boundary.
        pub compaction: Option<WireBoundary<'a>>,
        /// Title of the session, in a record that holds nothing else.
        pub title: Option<JsonStr<'a>>,
        /// Address of a pull request that the session is linked to, in a record that holds nothing else.
        pub pull_url: Option<JsonStr<'a>>,
        /// Last message of the conversation that a title is about.
        pub leaf: Option<JsonStr<'a>>,
        /// What only other agents say about a call.
        pub facts: Option<WireFacts>,
        /// Calls within the response that the counts at its top level leave out.
        pub other_calls: Vec<WireOtherCall<'a>>,
    }
}

clearable! {
    /// The `message` object of a record.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct WireMessage<'a> {
        /// API id of the response.
        pub id: Option<JsonStr<'a>>,
        pub model: Option<JsonStr<'a>>,
        /// Stop reason; set only once the response is complete.
        pub stop_reason: Option<JsonStr<'a>>,
        /// Token counts, if present.
        pub usage: Option<WireUsage>,
    }
}

/// A content block of a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireBlock<'a> {
    /// `type`; `None` for content that is a bare string.
    pub kind: Option<JsonStr<'a>>,
    /// Id of a tool call, or of the call that a result answers.
    pub id: Option<JsonStr<'a>>,
    /// Tool name.
    pub name: Option<JsonStr<'a>>,
    /// Shape of the text, thinking or result, summed over its parts; for a tool call, of its serialized input.
    pub shape: TextShape,
    /// Sum of [`client_estimate`] over the parts.
    pub quarters: u32,
    /// Number of images and documents inside.
    pub images: u32,
    /// The first text, which says what kind of message it is.
    pub head: Option<JsonStr<'a>>,
    /// Length of the signature of a thinking block.
    pub signature: u32,
    /// The tool reported an error.
    pub is_error: bool,
    /// File that a tool call names.
    pub path: Option<JsonStr<'a>>,
    /// First line that a read requests.
    pub offset: Option<u64>,
    /// Number of lines that a read requests.
    pub limit: Option<u64>,
    /// Command line of a shell call.
    pub command: Option<JsonStr<'a>>,
}

impl WireBlock<'_> {
    pub(super) fn add_part(&mut self, shape: TextShape) {
        self.shape.units = self.shape.units.saturating_add(shape.units);
        self.shape.escapes = self.shape.escapes.saturating_add(shape.escapes);
        self.shape.long_escapes = self.shape.long_escapes.saturating_add(shape.long_escapes);
        self.shape.wide = self.shape.wide.saturating_add(shape.wide);
        self.quarters = self.quarters.saturating_add(client_estimate(shape.units));
    }
}

/// Returns the token estimate of the recorded client: UTF-16 units / 4, rounded half up.
pub fn client_estimate(units: u32) -> u32 {
    units / 4 + u32::from(units % 4 >= 2)
}

/// What other agents than Claude Code say about a call; [`crate::agents`] writes it into the canonical line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WireFacts {
    /// The part of the output that is reasoning.
    pub reasoning: u32,
    /// The context window; 0 if the log does not state it.
    pub window: u32,
}

/// A call within a response that the counts at the top level of its usage leave out.
#[derive(Debug, Clone, Copy)]
pub struct WireOtherCall<'a> {
    /// The model that answered; `None` for that of the response.
    pub model: Option<JsonStr<'a>>,
    pub tokens: Tokens,
}

/// Metadata of a compaction boundary.
#[derive(Debug, Clone, Default)]
pub struct WireBoundary<'a> {
    /// `auto` or `manual`.
    pub trigger: Option<JsonStr<'a>>,
    /// Tokens before the compaction.
    pub pre_tokens: Option<u64>,
    /// Tokens after it, without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens that clearing tool results saved (micro-compaction).
    pub tokens_saved: Option<u64>,
    /// Duration of the compaction.
    pub duration_ms: Option<u64>,
    /// First record of the kept segment.
    pub kept_head: Option<JsonStr<'a>>,
    /// Last record of the kept segment.
    pub kept_tail: Option<JsonStr<'a>>,
    /// All kept records, if the boundary lists them.
    pub kept: Vec<JsonStr<'a>>,
    /// Tool calls whose results were cleared (micro-compaction), in order.
    pub cleared: Vec<JsonStr<'a>>,
}

/// Id of a byte-identical `cwd`..`gitBranch` run, so that the builder can reuse the previous scope. Records of a log
/// with equal ids have the same session, version, folder and branch; the default id equals no other.
#[derive(Clone, Copy, Default)]
pub struct ScopeRun(pub(super) u32);

impl ScopeRun {
    /// Returns whether both records are known to share one run.
    #[inline]
    pub fn is_same_run(self, other: ScopeRun) -> bool {
        self.0 != 0 && self.0 == other.0
    }
}

/// Prints a constant: the run says how a record was read, not what it contains.
impl std::fmt::Debug for ScopeRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("ScopeRun")
    }
}
