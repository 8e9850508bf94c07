//! Branches and copies: going back to an earlier prompt, and lines that other logs repeat.

use crate::client::ClientRelease;
use crate::json::Uuid;
use crate::session::SynthSession;
use memchr::memmem;
use std::io::{self, Write};

/// Maximum bytes of a prefix.
const PREFIX_BYTES: usize = 48 * 1024;

/// Longest assistant line that a sub-agent repeats.
const MAX_REPEATED_LINE: usize = 8192;

/// Lines of a session that other logs repeat.
#[derive(Default)]
pub struct CopySources {
    /// The leading lines, for a session that resumes or forks this one.
    pub prefix: Option<SessionPrefix>,
    /// The last readable assistant line, for a sub-agent that repeats it.
    pub last_assistant: Vec<u8>,
    /// Tool calls and results of a sub-agent, for the progress records of its parent.
    pub transcript: Option<AgentTranscript>,
}

impl CopySources {
    /// Keeps a line for the prefix and the transcript, where they are wanted.
    pub(super) fn keep_line(&mut self, kind: &str, line: &[u8], readable: bool) {
        if let Some(prefix) = &mut self.prefix {
            prefix.keep(kind, line, readable);
        }
        if let Some(transcript) = &mut self.transcript {
            transcript.keep(kind, line);
        }
    }

    /// Keeps a readable assistant line, unless it is too long to be repeated.
    pub(super) fn keep_assistant_line(&mut self, line: &[u8]) {
        if line.len() < MAX_REPEATED_LINE {
            self.last_assistant.clear();
            self.last_assistant.extend_from_slice(line);
        }
    }
}

/// The leading lines of a session, kept so that another session can repeat them.
pub struct SessionPrefix {
    pub session_id: String,
    pub client: ClientRelease,
    pub model: String,
    /// Record type and text of each line.
    pub lines: Vec<(String, Vec<u8>)>,
    pub leaf: Option<Uuid>,
    pub size: u64,
    pub now: u64,
    bytes: usize,
    /// Number of lines that are complete turns.
    whole: usize,
    /// Whether no further lines are kept.
    closed: bool,
}

/// The state to go back to when the user rewinds.
#[derive(Clone, Copy)]
pub struct Bookmark {
    leaf: Option<Uuid>,
    size: u64,
    clearable: usize,
    last: [u64; 4],
}

impl SessionPrefix {
    /// Keeps a line, unless an earlier line was lost or the prefix is long enough.
    pub(super) fn keep(&mut self, kind: &str, line: &[u8], readable: bool) {
        self.closed |= !readable || self.bytes + line.len() > PREFIX_BYTES;
        if !self.closed {
            self.bytes += line.len();
            self.lines.push((kind.to_owned(), line.to_vec()));
        }
    }

    /// Returns whether it has a complete turn.
    pub fn is_useful(&self) -> bool {
        self.whole > 0
    }
}

/// Tool calls and results of a sub-agent, as the progress records of its parent repeat them.
pub struct AgentTranscript {
    pub messages: Vec<Vec<u8>>,
    /// Bytes that may still be repeated.
    bytes_left: u64,
}

/// Number of messages after which a parent stops repeating its sub-agent.
const MAX_TRANSCRIPT_MESSAGES: usize = 80;

impl AgentTranscript {
    pub fn with_limit(bytes: u64) -> AgentTranscript {
        AgentTranscript {
            messages: Vec::new(),
            bytes_left: bytes,
        }
    }

    /// Keeps the message of a line if it is a call or a result, without `toolUseResult`.
    pub(super) fn keep(&mut self, kind: &str, line: &[u8]) {
        let after = |mark: &[u8]| memmem::find(line, mark).map(|at| at + mark.len());
        let Some(start) = after(b",\"message\":").map(|at| at - b"\"message\":".len()) else {
            return;
        };
        let message_end = match kind {
            "assistant" if after(b"\"content\":[{\"type\":\"tool_use\"").is_some() => {
                after(b",\"type\":\"assistant\"").map(|end| (end - b",\"type\":\"assistant\"".len(), end))
            }
            "user" if after(b"\"content\":[{\"tool_use_id\"").is_some() => after(b",\"uuid\":\"").map(|end| {
                let end = end - b",\"uuid\":\"".len();
                (end, end)
            }),
            _ => None,
        };
        // Id and timestamp follow the message.
        const STAMP: usize =
            r#","uuid":"00000000-0000-0000-0000-000000000000","timestamp":"2000-01-01T00:00:00.000Z""#.len();
        let Some((end, stamp)) = message_end.filter(|(_, stamp)| stamp + STAMP <= line.len()) else {
            return;
        };
        let message = [
            format!("{{\"type\":\"{kind}\",").as_bytes(),
            &line[start..end],
            &line[stamp..stamp + STAMP],
            b"}",
        ]
        .concat();
        if self.messages.len() < MAX_TRANSCRIPT_MESSAGES && message.len() as u64 <= self.bytes_left {
            self.bytes_left -= message.len() as u64;
            self.messages.push(message);
        }
    }
}

impl<W: Write> SynthSession<'_, W> {
    /// Returns the current state, to rewind to it later.
    pub fn bookmark(&self) -> Bookmark {
        let context = &self.context;
        Bookmark {
            leaf: self.leaf,
            size: context.size,
            clearable: context.clearable.len(),
            last: [
                context.last_input,
                context.last_output,
                context.last_recorded,
                context.trail,
            ],
        }
    }

    /// Goes back to an earlier state. Records since then stay in the file as an abandoned branch.
    pub fn rewind(&mut self, to: Bookmark) {
        self.leaf = to.leaf;
        self.context.size = to.size;
        self.context.clearable.truncate(to.clearable);
        self.context.cached = self.context.cached.min(to.size);
        [
            self.context.last_input,
            self.context.last_output,
            self.context.last_recorded,
            self.context.trail,
        ] = to.last;
        self.truth.rewound_branches += 1;
    }

    /// Starts keeping the leading lines for another session.
    pub fn keep_prefix(&mut self) {
        self.copies.prefix = Some(SessionPrefix {
            session_id: self.identity.session_id.clone(),
            client: self.client,
            model: self.model.clone(),
            lines: Vec::new(),
            leaf: None,
            size: 0,
            now: self.now,
            bytes: 0,
            whole: 0,
            closed: false,
        });
    }

    /// Stops keeping lines: a copy must not contain a boundary.
    pub(super) fn close_prefix(&mut self) {
        if let Some(prefix) = &mut self.copies.prefix {
            prefix.closed = true;
        }
    }

    /// Ends a turn: the lines kept so far may be repeated.
    pub fn finish_turn(&mut self) {
        if let Some(prefix) = self.copies.prefix.as_mut().filter(|prefix| !prefix.closed) {
            prefix.whole = prefix.lines.len();
            prefix.leaf = self.leaf;
            prefix.size = self.context.size;
            prefix.now = self.now;
        }
    }

    /// Repeats the complete turns of another session under this session's id, with the same record and message ids.
    pub fn resume(&mut self, prefix: &SessionPrefix) -> io::Result<()> {
        for (kind, line) in &prefix.lines[..prefix.whole] {
            let copy = replace_bytes(line, prefix.session_id.as_bytes(), self.identity.session_id.as_bytes());
            self.sink.write_intact(&copy, kind, &mut self.truth)?;
            self.truth.copied_records += 1;
        }
        if prefix.whole > 0 {
            self.leaf = prefix.leaf;
            self.context.size = prefix.size;
            self.now = prefix.now + 600_000;
        }
        Ok(())
    }

    /// Repeats one assistant line of the main session in this sub-agent's log.
    pub fn replay(&mut self, line: &[u8]) -> io::Result<()> {
        let Some(agent) = &self.identity.agent_id else {
            return Ok(());
        };
        let mark = format!("\"isSidechain\":true,\"agentId\":\"{agent}\"");
        let copy = replace_bytes(line, b"\"isSidechain\":false", mark.as_bytes());
        self.sink.write_intact(&copy, "assistant", &mut self.truth)?;
        self.truth.copied_records += 1;
        Ok(())
    }
}

/// Returns `line` with every `from` replaced by `to`.
pub fn replace_bytes(line: &[u8], from: &[u8], to: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(line.len() + 64);
    let mut at = 0;
    while at < line.len() {
        if line[at..].starts_with(from) {
            out.extend_from_slice(to);
            at += from.len();
        } else {
            out.push(line[at]);
            at += 1;
        }
    }
    out
}
