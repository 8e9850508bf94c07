//! The records of one session, gathered from its logs.

use crate::build::IdMap;
use crate::evidence::LineHashes;
use crate::log::{
    Block, BlockKind, BoundaryRecord, Log, NameId, Record, RecordId, RecordKind, RecordLink, ResponseLine,
};
use crate::problem::{Problem, ProblemKind};

/// A log with what is known about it from outside.
pub struct SessionLog {
    /// Where it lies.
    pub path: String,
    /// The log.
    pub log: Log,
    /// Records that another log owns, by index; empty if there are none.
    pub copied: Vec<bool>,
    /// Hashes of its lines, if they were wanted.
    pub lines: LineHashes,
}

impl SessionLog {
    /// Whether another log owns the record.
    pub fn is_copied(&self, record: usize) -> bool {
        self.copied.get(record).copied().unwrap_or(false)
    }
}

/// A record, named by its place among the session's records (all logs, in order).
pub type Node = u32;

/// What is asked of every record again and again, found out once. Records are large: looking at one costs more than
/// whatever is then done with it.
#[derive(Clone, Copy)]
pub(super) struct HotRecord {
    first_block: u32,
    blocks: u32,
    /// Number of its line in [`Log::responses`]; [`NO_RESPONSE`] if it has none.
    response: u32,
    kind: RecordKind,
    /// What holds of it, as flags of [`trait_of`].
    flags: u8,
}

const NO_RESPONSE: u32 = u32::MAX;

pub(super) mod record_flag {
    /// Of this session, and the first with its id.
    pub const OWN: u8 = 1;
    /// Another session owns it.
    pub const COPIED: u8 = 1 << 1;
    /// Part of a sub-agent's chain.
    pub const SIDECHAIN: u8 = 1 << 2;
    /// A user's or an assistant's.
    pub const MESSAGE: u8 = 1 << 3;
    /// A line of an API response, not something that the client made up.
    pub const RESPONSE: u8 = 1 << 4;
    /// Something that a person typed or ran.
    pub const PROMPT: u8 = 1 << 5;
    /// A boundary of either kind, or a summary: the window is not what it was.
    pub const BREAK: u8 = 1 << 6;
    /// The summary after a boundary.
    pub const SUMMARY: u8 = 1 << 7;
}

/// The records of one session.
pub struct Session<'a> {
    /// Its id.
    pub id: &'a str,
    parts: &'a [SessionLog],
    /// First node of each log.
    starts: Vec<u32>,
    /// By node: number of its log. Empty if there is only one.
    part_of: Vec<u32>,
    /// By node: what is asked of it again and again.
    pub(super) hot_records: Vec<HotRecord>,
    /// See [`Session::repeats`].
    repeats: Vec<Node>,
    /// Nodes by id, filled only if the session has several logs.
    by_id: IdMap<u128, Node>,
}

impl<'a> Session<'a> {
    /// Gathers the records of session `id` from its logs.
    pub fn new(id: &'a str, parts: &'a [SessionLog]) -> Session<'a> {
        let total = parts.iter().map(|part| part.log.records.len()).sum();
        let mut session = Session {
            id,
            parts,
            starts: Vec::with_capacity(parts.len()),
            part_of: Vec::new(),
            hot_records: Vec::with_capacity(total),
            repeats: Vec::new(),
            by_id: IdMap::default(),
        };
        for (number, part) in parts.iter().enumerate() {
            session.starts.push(session.hot_records.len() as u32);
            collect_hot_records(id, part, &mut session.hot_records, &mut session.repeats);
            if parts.len() > 1 {
                session.part_of.resize(session.hot_records.len(), number as u32);
            }
        }
        if parts.len() > 1 {
            session.by_id.reserve(total);
            for node in 0..total as Node {
                let record = session.record(node);
                if record.id != RecordId::default() && session.has_flag(node, record_flag::OWN) {
                    session.by_id.entry(record.id.number()).or_insert(node);
                }
            }
        }
        session
    }

    /// Number of the log and of the record in it.
    #[inline]
    fn locate(&self, node: Node) -> (usize, usize) {
        let part = self.part_of.get(node as usize).map_or(0, |part| *part as usize);
        (part, (node - self.starts[part]) as usize)
    }

    #[inline]
    pub(super) fn has_flag(&self, node: Node, wanted: u8) -> bool {
        self.hot_records[node as usize].flags & wanted != 0
    }

    /// The log of a node.
    pub fn log(&self, node: Node) -> &'a Log {
        &self.part(node).log
    }

    /// Which of the session's logs a node lies in.
    pub fn part_number(&self, node: Node) -> u32 {
        self.locate(node).0 as u32
    }

    /// A string of one of the session's logs.
    pub fn string(&self, part: u32, name: NameId) -> &'a str {
        self.parts[part as usize].log.string(name)
    }

    /// Where one of the session's logs lies.
    pub fn path(&self, part: u32) -> &'a str {
        &self.parts[part as usize].path
    }

    /// The log of a node with its path.
    pub fn part(&self, node: Node) -> &'a SessionLog {
        &self.parts[self.locate(node).0]
    }

    /// The record of a node.
    pub fn record(&self, node: Node) -> &'a Record {
        let (part, record) = self.locate(node);
        &self.parts[part].log.records[record]
    }

    /// What sort of record a node is.
    #[inline]
    pub fn kind(&self, node: Node) -> RecordKind {
        self.hot_records[node as usize].kind
    }

    /// The blocks of a node.
    #[inline]
    pub fn blocks(&self, node: Node) -> &'a [Block] {
        let brief = &self.hot_records[node as usize];
        let first = brief.first_block as usize;
        &self.log(node).blocks[first..first + brief.blocks as usize]
    }

    /// What a node says of an API call.
    #[inline]
    pub fn response(&self, node: Node) -> Option<&'a ResponseLine> {
        let number = self.hot_records[node as usize].response;
        // No log has so many responses that the number that stands for none would find one.
        self.log(node).responses.get(number as usize)
    }

    /// How many lines of API calls there are in its logs.
    pub fn response_lines(&self) -> usize {
        self.parts.iter().map(|part| part.log.responses.len()).sum()
    }

    /// What a boundary says of itself.
    pub fn boundary(&self, node: Node) -> Option<&'a BoundaryRecord> {
        let number = self.record(node).boundary?;
        self.log(node).boundaries.get(number as usize)
    }

    /// Whether the message that a boundary followed is in the log.
    pub fn has_leaf(&self, node: Node) -> bool {
        let record = self.record(node);
        let link = match record.logical_parent {
            RecordLink::None => record.parent,
            link => link,
        };
        matches!(self.target(node, link), LinkTarget::Node(_))
    }

    /// Whether another session owns the node.
    pub fn is_copied(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::COPIED)
    }

    /// Nodes of this session; the logs may hold records of others.
    pub fn own_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let own = |(_, brief): &(usize, &HotRecord)| brief.flags & record_flag::OWN != 0;
        self.hot_records
            .iter()
            .enumerate()
            .filter(own)
            .map(|(node, _)| node as Node)
    }

    /// Nodes of this session with an id that an earlier one of their log has: no part of the conversation, but what was billed
    /// was billed.
    pub fn repeats(&self) -> &[Node] {
        &self.repeats
    }

    /// Whether the window after a node is not what it was before: a boundary of either kind, or a summary.
    pub fn is_break(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::BREAK)
    }

    /// Whether a node is the summary after a boundary.
    pub fn is_summary(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::SUMMARY)
    }

    /// The node that a link leads to.
    pub(super) fn target(&self, node: Node, link: RecordLink) -> LinkTarget {
        match link {
            RecordLink::None => LinkTarget::None,
            RecordLink::Here(record) => {
                let target = self.starts[self.locate(node).0] + record;
                if self.has_flag(target, record_flag::OWN) {
                    LinkTarget::Node(target)
                } else {
                    LinkTarget::OtherSession
                }
            }
            RecordLink::Elsewhere(place) => {
                let id = self.log(node).elsewhere.get(place as usize);
                let target = id.and_then(|id| self.by_id.get(&id.number()));
                target.map_or(LinkTarget::Missing, |target| LinkTarget::Node(*target))
            }
        }
    }

    /// The record that a node follows, if the session has it.
    pub fn parent(&self, node: Node) -> Option<Node> {
        let record = self.record(node);
        match self.target(node, record.parent) {
            LinkTarget::Node(parent) => Some(parent),
            _ => None,
        }
    }

    pub(super) fn make_problem(&self, node: Node, kind: ProblemKind) -> Problem {
        let record = self.record(node);
        Problem {
            path: self.part(node).path.clone(),
            line: Some(u64::from(record.line)),
            offset: Some(record.offset),
            kind,
            detail: String::new(),
        }
    }
}

/// Finds out what is asked of every record of a log again and again.
fn collect_hot_records(session: &str, part: &SessionLog, briefs: &mut Vec<HotRecord>, repeats: &mut Vec<Node>) {
    let log = &part.log;
    let scopes = log.scopes.iter().map(|scope| {
        let is_own = log.string(scope.session) == session;
        (u8::from(is_own) * record_flag::OWN) | (u8::from(scope.is_sidechain) * record_flag::SIDECHAIN)
    });
    let scopes = scopes.collect::<Vec<_>>();
    let made_up = log.strings.iter().position(|text| &**text == "<synthetic>");
    for (at, record) in log.records.iter().enumerate() {
        let mut found = scopes[record.scope as usize];
        if record.is_repeat {
            if found & record_flag::OWN != 0 {
                repeats.push(briefs.len() as Node);
            }
            found &= !record_flag::OWN;
        }
        let mut set = |condition: bool, flag: u8| found |= u8::from(condition) * flag;
        set(part.is_copied(at), record_flag::COPIED);
        set(record.is_summary, record_flag::BREAK | record_flag::SUMMARY);
        match record.kind {
            RecordKind::User => {
                set(true, record_flag::MESSAGE);
                let is_typed = |block: &Block| matches!(block.kind, BlockKind::Human | BlockKind::Command);
                let is_prompt = !record.is_meta && !record.is_summary && log.blocks_of(record).iter().any(is_typed);
                set(is_prompt, record_flag::PROMPT);
            }
            RecordKind::Assistant => {
                set(true, record_flag::MESSAGE);
                let line = record.response.and_then(|line| log.responses.get(line as usize));
                let is_response = line.is_some_and(|line| made_up != Some(line.model as usize));
                set(is_response && !record.is_api_error, record_flag::RESPONSE);
            }
            RecordKind::Boundary | RecordKind::MicroBoundary => set(true, record_flag::BREAK),
            _ => {}
        }
        briefs.push(HotRecord {
            first_block: record.first_block,
            blocks: record.blocks,
            response: record.response.unwrap_or(NO_RESPONSE),
            kind: record.kind,
            flags: found,
        });
    }
}

pub(super) enum LinkTarget {
    None,
    Node(Node),
    OtherSession,
    Missing,
}
