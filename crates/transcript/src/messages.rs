//! Reads the text of a log: its messages with texts, tool calls and results, in line order.
//!
//! For what needs words: memories, notes and search. [`crate::walk`] is the numeric counterpart. Lines that cannot
//! contain a message are skipped without parsing. The others take the same path as there: the fast parser first, then
//! the repair ladder of [`crate::repair`]; a line is used whole or not at all.

mod files;
mod queue;
mod reader;
mod record;
mod replies;
#[cfg(test)]
mod tests;

pub use reader::{LineFilter, MessageReader};

use crate::log::Time;
use language::shorten;
use language::visible::shown;
use serde_json::Value;
use std::borrow::Cow;

/// Author of a message according to its record. The client also writes as the user: see the flags of [`Message`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageRole {
    /// The person, or the client on their behalf.
    User,
    /// The model.
    Assistant,
}

/// How the words of a person reached the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WordsChannel {
    /// A prompt, or text beside a tool result.
    Prompt,
    /// A prompt queued while the model was working.
    Queued,
    /// The refusal of a tool call or a plan.
    Refusal,
    /// The answer to a question of the model.
    Answer,
    /// The person stopped the model.
    Interruption,
}

/// Words of a person inside a tool result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserReply {
    pub channel: WordsChannel,
    /// Id of the call that was refused, interrupted or that asked.
    pub call: String,
    /// The question that was answered; else empty.
    pub question: String,
    /// The words; empty if the person refused without a word.
    pub text: String,
}

/// A title that the log gives a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionTitle {
    /// Id of the session; empty if the record has none.
    pub session: String,
    pub text: String,
    /// A person chose it; else the client had a model write it.
    pub is_custom: bool,
}

/// Returns the title of a session: the last that a person chose, else the last by a model; empty without one.
pub fn title_of<'t>(titles: &'t [SessionTitle], session: &str) -> &'t str {
    let own = titles
        .iter()
        .filter(|title| title.session.is_empty() || title.session == session);
    let own = own.filter(|title| !title.text.trim().is_empty());
    let last = own.max_by_key(|title| title.is_custom);
    last.map_or("", |title| title.text.trim())
}

/// Part of a message.
#[derive(Debug, Clone, PartialEq)]
pub enum MessagePart {
    /// Text.
    Text(String),
    /// A tool call.
    Call {
        /// Id that the result refers to.
        id: String,
        /// Tool name.
        name: String,
        /// Input. Numbers that are not counts (negative, fractional) read as null.
        input: Value,
    },
    /// A tool result.
    Result {
        /// Id of the call it answers.
        call: String,
        /// All texts of the result.
        text: String,
        /// The tool reported an error.
        is_error: bool,
    },
    /// What a person said in the result before it.
    Reply(UserReply),
}

/// The text of an instruction or memory file, as a message shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenFile {
    pub path: String,
    pub text: String,
    /// The text is the whole file, not some of its lines.
    pub is_whole: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq)]
pub struct Message {
    /// Session id; empty if the record has none.
    pub session: String,
    /// Id of the record.
    pub uuid: String,
    /// Id of the record it follows.
    pub parent: Option<String>,
    pub time: Option<Time>,
    /// Working folder of the session at that time; empty if the record has none.
    pub cwd: String,
    pub role: MessageRole,
    /// Inserted by the client, not typed by a person.
    pub is_meta: bool,
    /// The summary after a compaction.
    pub is_summary: bool,
    /// Belongs to a sub-agent's chain.
    pub is_sidechain: bool,
    /// How it reached the model: as a prompt or from the queue.
    pub channel: WordsChannel,
    /// The selected parts.
    pub parts: Vec<MessagePart>,
    /// Instruction and memory files that were read or written with this message.
    pub files: Vec<SeenFile>,
    /// Line of the log, from 1.
    pub line: u64,
}

impl Message {
    /// Creates a message of which nothing else is known.
    pub fn with_parts(role: MessageRole, parts: Vec<MessagePart>) -> Message {
        Message {
            session: String::new(),
            uuid: String::new(),
            parent: None,
            time: None,
            cwd: String::new(),
            role,
            is_meta: false,
            is_summary: false,
            is_sidechain: false,
            channel: WordsChannel::Prompt,
            parts,
            files: Vec::new(),
            line: 0,
        }
    }

    /// Iterates over the texts, and the words of a person inside tool results.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            MessagePart::Text(text) => Some(text.as_str()),
            MessagePart::Reply(reply) => Some(reply.text.as_str()).filter(|text| !text.is_empty()),
            _ => None,
        })
    }

    /// Returns whether the message was read from the queue of prompts and has no record of its own.
    pub fn is_from_queue(&self) -> bool {
        self.channel == WordsChannel::Queued && self.uuid.is_empty()
    }

    /// Returns a name that is unique over all logs: the id of the record or, if it has none, session and line.
    pub fn record_name(&self) -> String {
        match self.uuid.is_empty() && self.line > 0 {
            true => format!("{}:{}", self.session, self.line),
            false => self.uuid.clone(),
        }
    }
}

/// Selects what to read besides texts.
#[derive(Debug, Clone, Copy, Default)]
pub struct PartSelection {
    /// Calls of these tools.
    pub calls: &'static [&'static str],
    /// Calls of all tools.
    pub every_call: bool,
    /// Tool results.
    pub results: bool,
    /// What a person said outside of prompts: prompts queued while the model was working, refusals and answers.
    pub every_word: bool,
    /// Keep only the beginning of results: enough to see that a call failed.
    pub brief_results: bool,
    /// Longest text of a result or call input, in bytes; of longer ones the beginning and the end are kept.
    pub longest: Option<usize>,
    /// Instruction and memory files that were read or written.
    pub files: bool,
    /// Notices of the client that a background task ended, as messages that are `is_meta`.
    pub notices: bool,
    /// Tools (by role) whose results only matter if they are errors: other results of them are read as empty.
    pub quiet_tools: &'static [&'static str],
    /// Also parse lines that cannot contain a message, to report what is wrong with them.
    pub every_line: bool,
}

impl PartSelection {
    /// Texts, and what people said outside of prompts.
    pub const EVERY_WORD: PartSelection = PartSelection {
        calls: &[],
        every_call: false,
        results: false,
        every_word: true,
        brief_results: false,
        longest: None,
        files: false,
        notices: false,
        quiet_tools: &[],
        every_line: false,
    };

    fn has_call(&self, name: &str) -> bool {
        self.every_call || self.calls.contains(&name)
    }

    /// Masks a text and drops its middle if it is too long. Secrets are masked first: half of one is no longer recognized.
    fn shorten(&self, text: String) -> String {
        match self.longest {
            Some(longest) if text.len() > longest => {
                // What is far from the edges is dropped anyway.
                let near = shorten::cut_middle(&text, longest + 2 * MASK_REACH, OMISSION_MARK);
                let shown = to_shown(near);
                shorten::cut_middle(&shown, longest, OMISSION_MARK)
            }
            _ => to_shown(text),
        }
    }
}

/// Start of a notice that a background task ended.
const NOTICE_START: &str = "<task-notification>";

/// Characters of a result that only has to be recognized.
const BRIEF_CHARS: usize = 200;

/// How far a secret may reach over the place where a text is cut, in bytes.
const MASK_REACH: usize = 512;

/// Returns a text without secrets and control characters. All that is made of texts is made of these: memories, notes, search
/// and requests never see a secret.
fn to_shown(text: String) -> String {
    match shown(&text) {
        Cow::Owned(shown) => shown,
        Cow::Borrowed(_) => text,
    }
}

/// Replaces the dropped middle of a long text.
pub const OMISSION_MARK: &str = "\n[...]\n";
