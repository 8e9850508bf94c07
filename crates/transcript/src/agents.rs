//! Logs of other agents, read into the same records.
//!
//! Every agent has one reader here. A reader translates the lines of its log into the canonical line: a record as
//! Claude Code writes it, with a few members of our own (`callFacts`). [`crate::walk`] and [`crate::messages`] read the
//! canonical lines like any others, so nothing after this module knows which agent wrote a log, except by
//! [`crate::log::Log::agent`].
//!
//! [`AgentReader`] stands between the bytes of a log and a consumer. It recognizes the agent by the first lines, hands
//! the lines of Claude Code on untouched, and everything else through its reader. A canonical line carries the line
//! number and the byte offset of the line that it comes from.

mod canonical;
mod codex;
mod opencode;
mod patch;
mod pi;
mod shell_read;
#[cfg(test)]
mod tests;
mod tool_input;

pub use canonical::{CanonicalLines, LinePlace};

use crate::bytes::LineConsumer;
use crate::log::LineProblemKind;
use codex::CodexReader;
use opencode::OpenCodeReader;
use pi::PiReader;

coded_enum! {
    /// The agent that wrote a log.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, serde::Serialize, serde::Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Agent {
        /// Claude Code.
        #[default]
        Claude = 0,
        /// Codex CLI.
        Codex = 1,
        /// OpenCode.
        OpenCode = 2,
        /// Pi.
        Pi = 3,
    }
}

impl Agent {
    /// Returns the name in outputs and options.
    pub fn name(self) -> &'static str {
        match self {
            Agent::Claude => "claude",
            Agent::Codex => "codex",
            Agent::OpenCode => "opencode",
            Agent::Pi => "pi",
        }
    }

    /// Returns the name in sentences.
    pub fn title(self) -> &'static str {
        match self {
            Agent::Claude => "Claude Code",
            Agent::Codex => "Codex",
            Agent::OpenCode => "OpenCode",
            Agent::Pi => "Pi",
        }
    }

    /// Returns the agent with this name.
    pub fn from_name(name: &str) -> Option<Agent> {
        Agent::ALL.iter().copied().find(|agent| agent.name() == name)
    }

    /// Recognizes the agent by the start of a log. What looks like none of the others is Claude Code's.
    pub fn detect(start: &[u8]) -> Agent {
        if opencode::is_export(start) {
            return Agent::OpenCode;
        }
        let lines = start.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        for line in lines.filter(|line| !line.is_empty()).take(SNIFFED_LINES) {
            if codex::is_codex_line(line) {
                return Agent::Codex;
            }
            if pi::is_header(line) {
                return Agent::Pi;
            }
        }
        Agent::Claude
    }
}

/// Lines at the start of a log that are looked at to recognize its agent: the first ones may be damaged.
const SNIFFED_LINES: usize = 8;

/// Bytes at the start of a log that suffice to recognize its agent.
pub const SNIFFED_BYTES: usize = 4 << 10;

/// A consumer that also takes canonical lines.
pub trait CanonicalConsumer: LineConsumer {
    /// Takes canonical lines with their places. Line numbers ascend.
    fn take_canonical(&mut self, lines: &CanonicalLines);
    /// Counts a line of the log by its type.
    fn count_kind(&mut self, _kind: &str) {}
    /// Takes note of a problem with a line.
    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64);
    /// Counts lines and bytes of the log.
    fn count_source(&mut self, lines: u64, bytes: u64);
    /// Takes note of the agent.
    fn set_agent(&mut self, _agent: Agent) {}
    /// Takes note of a thread that the log belongs to or descends from.
    fn add_lineage(&mut self, _thread: &str) {}
    /// Returns the longest line that is read.
    fn max_line(&self) -> usize;
}

/// Recognizes the agent of a log and translates its lines for a consumer.
pub struct AgentReader<'c, C> {
    consumer: &'c mut C,
    reader: Option<Reader>,
}

enum Reader {
    Claude,
    Codex(Box<CodexReader>),
    OpenCode(Box<OpenCodeReader>),
    Pi(Box<PiReader>),
    /// A log that is not read: its lines are counted only.
    Unread(SourcePosition),
}

/// Returns whether a log is one of Qwen Code: its records look like those of Claude Code, but a message has parts, and its usage
/// another name. Read as one of Claude Code, it would have no calls.
fn is_qwen_log(start: &[u8]) -> bool {
    let mut lines = start.split(|byte| *byte == b'\n').take(SNIFFED_LINES);
    lines.any(|line| {
        let has = |text: &[u8]| memchr::memmem::find(line, text).is_some();
        has(b"\"sessionId\":")
            && has(b"\"parentUuid\":")
            && (has(b"\"message\":{\"role\":") && has(b"\"parts\":[") || has(b"\"usageMetadata\":{"))
            && !has(b"\"content\":")
    })
}

impl<'c, C: CanonicalConsumer> AgentReader<'c, C> {
    /// Starts a log at its first line.
    pub fn new(consumer: &'c mut C) -> AgentReader<'c, C> {
        AgentReader { consumer, reader: None }
    }

    /// Starts a part of a log of Claude Code that is not its first one.
    pub fn of_claude(consumer: &'c mut C) -> AgentReader<'c, C> {
        AgentReader {
            consumer,
            reader: Some(Reader::Claude),
        }
    }

    /// Hands on what is left once the log is read.
    pub fn finish(self) {
        match self.reader {
            None | Some(Reader::Claude | Reader::Unread(_)) => {}
            Some(Reader::Codex(reader)) => reader.finish(self.consumer),
            Some(Reader::OpenCode(reader)) => reader.finish(self.consumer),
            Some(Reader::Pi(reader)) => reader.finish(self.consumer),
        }
    }

    fn start(&mut self, bytes: &[u8]) -> Reader {
        let agent = Agent::detect(&bytes[..bytes.len().min(SNIFFED_BYTES)]);
        if agent != Agent::Claude {
            self.consumer.set_agent(agent);
        }
        match agent {
            Agent::Claude if is_qwen_log(&bytes[..bytes.len().min(SNIFFED_BYTES)]) => {
                self.consumer.add_line_problem(LineProblemKind::OtherAgent, 1, 0);
                Reader::Unread(SourcePosition::default())
            }
            Agent::Claude => Reader::Claude,
            Agent::Codex => Reader::Codex(Box::default()),
            Agent::OpenCode => Reader::OpenCode(Box::default()),
            Agent::Pi => Reader::Pi(Box::default()),
        }
    }
}

impl<C: CanonicalConsumer> LineConsumer for AgentReader<'_, C> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        if self.reader.is_none() {
            self.reader = Some(self.start(bytes));
        }
        match &mut self.reader {
            None | Some(Reader::Claude) => self.consumer.take_lines(bytes, offset),
            Some(Reader::Codex(reader)) => reader.take_lines(bytes, offset, self.consumer),
            Some(Reader::OpenCode(reader)) => reader.take_bytes(bytes, offset, self.consumer),
            Some(Reader::Pi(reader)) => reader.take_lines(bytes, offset, self.consumer),
            Some(Reader::Unread(source)) => source.count_lines(bytes, self.consumer),
        }
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        if self.reader.is_none() {
            self.reader = Some(self.start(head));
        }
        match &mut self.reader {
            None | Some(Reader::Claude) => self.consumer.skip_long_line(offset, length, head),
            Some(Reader::Codex(reader)) => reader.source.skip_long_line(offset, length, self.consumer),
            Some(Reader::OpenCode(reader)) => reader.source.skip_long_line(offset, length, self.consumer),
            Some(Reader::Pi(reader)) => reader.source.skip_long_line(offset, length, self.consumer),
            Some(Reader::Unread(source)) => source.skip_long_line(offset, length, self.consumer),
        }
    }
}

/// Where a reader is in its log.
#[derive(Debug, Default)]
struct SourcePosition {
    lines: u64,
}

impl SourcePosition {
    fn count_lines<C: CanonicalConsumer>(&mut self, bytes: &[u8], consumer: &mut C) {
        let lines = memchr::memchr_iter(b'\n', bytes).count() as u64 + u64::from(!bytes.ends_with(b"\n"));
        self.lines += lines;
        consumer.count_source(lines, bytes.len() as u64);
    }

    fn skip_long_line<C: CanonicalConsumer>(&mut self, offset: u64, length: u64, consumer: &mut C) {
        self.lines += 1;
        consumer.add_line_problem(LineProblemKind::TooLong, self.lines, offset);
        consumer.count_source(1, length);
    }
}
