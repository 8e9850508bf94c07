//! The wire types: one line of a log, borrowed from its bytes.

use super::usage::WireUsage;
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
        /// The record's id.
        pub uuid: Option<JsonStr<'a>>,
        /// The record it follows.
        pub parent: Option<JsonStr<'a>>,
        /// The record a boundary follows.
        pub logical_parent: Option<JsonStr<'a>>,
        /// The session it belongs to.
        pub session: Option<JsonStr<'a>>,
        /// The sub-agent it belongs to.
        pub agent: Option<JsonStr<'a>>,
        /// Version of the client.
        pub version: Option<JsonStr<'a>>,
        /// Working directory.
        pub cwd: Option<JsonStr<'a>>,
        /// Git branch.
        pub branch: Option<JsonStr<'a>>,
        /// Which run of members held session, version, folder and branch.
        pub scope_run: ScopeRun,
        /// When it was written.
        pub timestamp: Option<JsonStr<'a>>,
        /// API request of an assistant record.
        pub request: Option<JsonStr<'a>>,
        /// Part of a sub-agent's chain.
        pub is_sidechain: bool,
        /// Put in by the client, not by a person.
        pub is_meta: bool,
        /// The summary after a boundary.
        pub is_compact_summary: bool,
        /// An API error shown as a message.
        pub is_api_error: bool,
        /// The message of user, assistant and (nested) progress records.
        pub message: WireMessage<'a>,
        /// Its content blocks.
        pub blocks: Vec<WireBlock<'a>>,
        /// `attachment.type`.
        pub attachment: Option<JsonStr<'a>>,
        /// Text that the attachment shows to the model.
        pub attachment_shape: TextShape,
        /// Units of the name of the hook behind an attachment.
        pub hook_name_units: u32,
        /// File that an attachment shows.
        pub attachment_path: Option<JsonStr<'a>>,
        /// Text of a system record.
        pub system_shape: TextShape,
        /// Metadata of a compaction or micro-compaction boundary.
        pub compaction: Option<WireBoundary<'a>>,
    }
}

clearable! {
    /// The `message` of a record.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct WireMessage<'a> {
        /// API id of the response.
        pub id: Option<JsonStr<'a>>,
        /// Model that answered.
        pub model: Option<JsonStr<'a>>,
        /// Why the response ended; set only on complete lines.
        pub stop_reason: Option<JsonStr<'a>>,
        /// Token counts, if any were written.
        pub usage: Option<WireUsage>,
    }
}

/// A content block of a message.
#[derive(Debug, Clone, Copy, Default)]
pub struct WireBlock<'a> {
    /// `type`; `None` for content that is a bare string.
    pub kind: Option<JsonStr<'a>>,
    /// Id of a tool call, or the call that a result answers.
    pub id: Option<JsonStr<'a>>,
    /// Name of the tool.
    pub name: Option<JsonStr<'a>>,
    /// Text, thinking or result content, all parts added up; for a tool call its serialised input.
    pub shape: TextShape,
    /// Sum over the parts of units / 4, each rounded half up.
    pub quarters: u32,
    /// Images and documents inside.
    pub images: u32,
    /// The first text, to tell what kind of message it is.
    pub head: Option<JsonStr<'a>>,
    /// Units of the signature of a thinking block.
    pub signature: u32,
    /// Whether a tool reported an error.
    pub is_error: bool,
    /// The file that a tool call names.
    pub path: Option<JsonStr<'a>>,
    /// First line that a read asks for.
    pub offset: Option<u64>,
    /// Lines that a read asks for.
    pub limit: Option<u64>,
    /// The command line of a shell call.
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

/// Units / 4, rounded half up: the estimate of the recorded client.
pub fn client_estimate(units: u32) -> u32 {
    units / 4 + u32::from(units % 4 >= 2)
}

/// What a compaction boundary says about itself.
#[derive(Debug, Clone, Default)]
pub struct WireBoundary<'a> {
    /// `auto` or `manual`.
    pub trigger: Option<JsonStr<'a>>,
    /// Tokens before.
    pub pre_tokens: Option<u64>,
    /// Tokens after, without system prompt and tools.
    pub post_tokens: Option<u64>,
    /// Tokens that clearing tool results saved (micro-compaction).
    pub tokens_saved: Option<u64>,
    /// Time it took.
    pub duration_ms: Option<u64>,
    /// First record of the segment that was kept.
    pub kept_head: Option<JsonStr<'a>>,
    /// Last record of the segment that was kept.
    pub kept_tail: Option<JsonStr<'a>>,
    /// All records that were kept, where the boundary lists them.
    pub kept: Vec<JsonStr<'a>>,
    /// Tool calls whose results were cleared (micro-compaction), in order.
    pub cleared: Vec<JsonStr<'a>>,
}

/// Number of a run of members that say where a session runs. Records of a log with the same one have the same session,
/// version, folder and branch; two without one have nothing in common.
#[derive(Clone, Copy, Default)]
pub struct ScopeRun(pub(super) u32);

impl ScopeRun {
    /// Whether it is known to be the same.
    #[inline]
    pub fn is_same_run(self, other: ScopeRun) -> bool {
        self.0 != 0 && self.0 == other.0
    }
}

/// Shows nothing: it says how a record was read, not what it holds.
impl std::fmt::Debug for ScopeRun {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Setting")
    }
}
