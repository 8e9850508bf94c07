//! The records of one session, gathered from its logs.

use crate::agents::Agent;
use crate::build::IdMap;
use crate::line_hashes::LineHashes;
use crate::log::{
    Block, BlockKind, BoundaryRecord, KEPT_PER_KIND, Log, NameId, Record, RecordId, RecordKind, RecordLink,
    ResponseLine, WindowMark,
};
use crate::problem::{Problem, ProblemKind};
use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

/// A log of a session, with what is known about it from outside.
pub struct SessionLog {
    /// Path of the file.
    pub path: String,
    /// The log.
    pub log: Log,
    /// Whether another log owns a record, by index; empty if none is copied.
    pub copied: Vec<bool>,
    /// Hashes of its content lines, if requested.
    pub lines: LineHashes,
}

impl SessionLog {
    /// Returns whether another log owns the record.
    pub fn is_copied(&self, record: usize) -> bool {
        self.copied.get(record).copied().unwrap_or(false)
    }
}

/// A record, identified by its index over all logs of the session, in order.
pub type Node = u32;

/// Hot fields of a record, copied out so that threading stays in the cache: a full record is several times larger.
#[derive(Clone, Copy)]
pub(super) struct HotRecord {
    first_block: u32,
    blocks: u32,
    /// Number of its line in [`Log::responses`]; [`NO_RESPONSE`] if it has none.
    response: u32,
    kind: RecordKind,
    /// Flags of [`record_flag`].
    flags: u8,
}

const NO_RESPONSE: u32 = u32::MAX;

pub(super) mod record_flag {
    /// Belongs to this session and is the first record with its id.
    pub const OWN: u8 = 1;
    /// Owned by another session.
    pub const COPIED: u8 = 1 << 1;
    /// Belongs to a sub-agent's chain.
    pub const SIDECHAIN: u8 = 1 << 2;
    /// A user or assistant record.
    pub const MESSAGE: u8 = 1 << 3;
    /// A line of an API response, not a message that the client made up.
    pub const RESPONSE: u8 = 1 << 4;
    /// Typed or run by a person.
    pub const PROMPT: u8 = 1 << 5;
    /// Changes the window: a boundary of either kind, or a summary.
    pub const WINDOW_CHANGE: u8 = 1 << 6;
    /// The summary after a boundary.
    pub const SUMMARY: u8 = 1 << 7;
}

/// The records of one session.
pub struct Session<'a> {
    pub id: &'a str,
    parts: &'a [SessionLog],
    /// First node of each log.
    starts: Vec<u32>,
    /// Number of the log, by node. Empty if there is only one.
    part_of: Vec<u32>,
    /// Hot fields, by node.
    pub(super) hot_records: Vec<HotRecord>,
    /// See [`Session::repeats`].
    repeats: Vec<Node>,
    /// Nodes by id; filled only if the session has several logs.
    by_id: IdMap<u128, Node>,
    /// See [`Session::agent_marks`].
    agent_marks: OnceLock<[HashMap<String, AgentMarks>; 2]>,
}

/// The few records of one agent that every chain of it is compared with.
#[derive(Debug, Default)]
pub struct AgentMarks {
    /// Compaction boundaries, in order.
    pub boundaries: Vec<Node>,
    /// Texts that name the size of a window, other than copies, in order.
    pub window_marks: Vec<(Node, WindowMark)>,
}

impl<'a> Session<'a> {
    /// Returns the coding agent that wrote its logs.
    pub fn coding_agent(&self) -> Agent {
        self.parts.first().map_or(Agent::Claude, |part| part.log.agent)
    }

    /// Collects the records of session `id` from its logs.
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
            agent_marks: OnceLock::new(),
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

    /// Returns the number of the log and of the record in it.
    #[inline]
    fn locate(&self, node: Node) -> (usize, usize) {
        let part = self.part_of.get(node as usize).map_or(0, |part| *part as usize);
        (part, (node - self.starts[part]) as usize)
    }

    #[inline]
    pub(super) fn has_flag(&self, node: Node, wanted: u8) -> bool {
        self.hot_records[node as usize].flags & wanted != 0
    }

    /// Returns the log of a node.
    pub fn log(&self, node: Node) -> &'a Log {
        &self.part(node).log
    }

    /// Returns the number of the log that contains a node.
    pub fn part_number(&self, node: Node) -> u32 {
        self.locate(node).0 as u32
    }

    /// Returns the logs, in order.
    pub fn parts(&self) -> &'a [SessionLog] {
        self.parts
    }

    /// Returns an interned string of a log.
    pub fn string(&self, part: u32, name: NameId) -> &'a str {
        self.parts[part as usize].log.string(name)
    }

    /// Returns the path of a log.
    pub fn path(&self, part: u32) -> &'a str {
        &self.parts[part as usize].path
    }

    /// Returns the log of a node with its path.
    pub fn part(&self, node: Node) -> &'a SessionLog {
        &self.parts[self.locate(node).0]
    }

    /// Returns the record of a node.
    pub fn record(&self, node: Node) -> &'a Record {
        let (part, record) = self.locate(node);
        &self.parts[part].log.records[record]
    }

    /// Returns the kind of a record.
    #[inline]
    pub fn kind(&self, node: Node) -> RecordKind {
        self.hot_records[node as usize].kind
    }

    /// Returns the content blocks of a node.
    #[inline]
    pub fn blocks(&self, node: Node) -> &'a [Block] {
        let hot = &self.hot_records[node as usize];
        let first = hot.first_block as usize;
        &self.log(node).blocks[first..first + hot.blocks as usize]
    }

    /// Returns what a node says about an API call, or `None` if it says nothing.
    #[inline]
    pub fn response(&self, node: Node) -> Option<&'a ResponseLine> {
        let number = self.hot_records[node as usize].response;
        // [`NO_RESPONSE`] is out of bounds in every log.
        self.log(node).responses.get(number as usize)
    }

    /// Returns the number of response lines in all logs.
    pub fn response_lines(&self) -> usize {
        self.parts.iter().map(|part| part.log.responses.len()).sum()
    }

    /// Returns the metadata of a boundary, or `None` for other records.
    pub fn boundary(&self, node: Node) -> Option<&'a BoundaryRecord> {
        let number = self.record(node).boundary?;
        self.log(node).boundaries.get(number as usize)
    }

    /// Returns whether the session has the message that a boundary follows.
    pub fn has_leaf(&self, node: Node) -> bool {
        let record = self.record(node);
        let link = match record.logical_parent {
            RecordLink::None => record.parent,
            link => link,
        };
        matches!(self.target(node, link), LinkTarget::Node(_))
    }

    /// Returns whether another session owns the node.
    pub fn is_copied(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::COPIED)
    }

    /// Iterates over the nodes of this session; its logs may contain records of others.
    pub fn own_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        let own = |(_, hot): &(usize, &HotRecord)| hot.flags & record_flag::OWN != 0;
        self.hot_records
            .iter()
            .enumerate()
            .filter(own)
            .map(|(node, _)| node as Node)
    }

    /// Iterates over the nodes with a text that names the size of a window, other than copies.
    pub fn window_marks(&self) -> impl Iterator<Item = (Node, WindowMark)> + '_ {
        let parts = std::iter::zip(&self.starts, self.parts);
        let marks =
            parts.flat_map(|(start, part)| part.log.window_marks.iter().map(move |(at, mark)| (start + at, *mark)));
        marks.filter(|(node, _)| self.has_flag(*node, record_flag::OWN) && !self.is_copied(*node))
    }

    /// Returns the marks of the main agent or of a sub-agent. They are collected once for the whole session, because it may
    /// have hundreds of thousands of sub-agents.
    pub fn agent_marks(&self, is_sidechain: bool, agent: &str) -> Option<&AgentMarks> {
        let all = self.agent_marks.get_or_init(|| {
            let mut all = [HashMap::<String, AgentMarks>::new(), HashMap::new()];
            let agent = |node: Node| {
                let log = self.log(node);
                log.string(log.scope_of(self.record(node)).agent).to_owned()
            };
            let side = |node: Node| usize::from(self.is_sidechain(node));
            for node in self.own_nodes().filter(|node| self.kind(*node) == RecordKind::Boundary) {
                all[side(node)].entry(agent(node)).or_default().boundaries.push(node);
            }
            for (node, mark) in self.window_marks() {
                let marks = all[side(node)].entry(agent(node)).or_default();
                marks.window_marks.push((node, mark));
            }
            all
        });
        all[usize::from(is_sidechain)].get(agent)
    }

    /// Returns the nodes of this session whose id an earlier record of the same log has. They are not part of the
    /// conversation, but what they billed counts.
    pub fn repeats(&self) -> &[Node] {
        &self.repeats
    }

    /// Returns whether a node belongs to a sub-agent's chain.
    pub fn is_sidechain(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::SIDECHAIN)
    }

    /// Returns what a line of an API response says; `None` for other nodes and for messages that the client made up.
    pub fn api_response(&self, node: Node) -> Option<&'a ResponseLine> {
        self.response(node)
            .filter(|_| self.has_flag(node, record_flag::RESPONSE))
    }

    /// Returns whether a node changes the window: a boundary of either kind, or a summary.
    pub fn changes_window(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::WINDOW_CHANGE)
    }

    /// Returns whether a node is the summary after a boundary.
    pub fn is_summary(&self, node: Node) -> bool {
        self.has_flag(node, record_flag::SUMMARY)
    }

    /// Resolves a link of a node.
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

    /// Returns the record that a node follows, or `None` if the session does not have it.
    pub fn parent(&self, node: Node) -> Option<Node> {
        let record = self.record(node);
        match self.target(node, record.parent) {
            LinkTarget::Node(parent) => Some(parent),
            _ => None,
        }
    }

    /// Turns problems with nodes into problems with lines. Of each kind and log the first few are kept.
    pub(super) fn make_problems(&self, mut found: Vec<(Node, ProblemKind)>) -> Vec<Problem> {
        found.sort_unstable();
        let mut problems = Vec::new();
        // By log and kind, how many there were, and the place of the last one that was kept.
        let mut known = BTreeMap::<(u32, ProblemKind), (usize, usize)>::new();
        for (node, kind) in found {
            let (count, last) = known.entry((self.part_number(node), kind)).or_default();
            *count += 1;
            if *count > KEPT_PER_KIND {
                let last: &mut Problem = &mut problems[*last];
                last.more += 1;
                continue;
            }
            *last = problems.len();
            let record = self.record(node);
            problems.push(Problem {
                path: self.part(node).path.clone(),
                line: Some(u64::from(record.line)),
                offset: Some(record.offset),
                kind,
                detail: String::new(),
                more: 0,
            });
        }
        problems
    }
}

/// Copies the hot fields of the records of one log.
fn collect_hot_records(session: &str, part: &SessionLog, hot_records: &mut Vec<HotRecord>, repeats: &mut Vec<Node>) {
    let log = &part.log;
    // Flags that depend on the scope alone are computed once per scope.
    let scopes = log.scopes.iter().map(|scope| {
        let is_own = log.string(scope.session) == session;
        (u8::from(is_own) * record_flag::OWN) | (u8::from(scope.is_sidechain) * record_flag::SIDECHAIN)
    });
    let scopes = scopes.collect::<Vec<_>>();
    let synthetic = log.strings.iter().position(|text| &**text == "<synthetic>");
    for (at, record) in log.records.iter().enumerate() {
        let mut found = scopes[record.scope as usize];
        if record.is_repeat {
            if found & record_flag::OWN != 0 {
                repeats.push(hot_records.len() as Node);
            }
            found &= !record_flag::OWN;
        }
        let mut set = |condition: bool, flag: u8| found |= u8::from(condition) * flag;
        set(part.is_copied(at), record_flag::COPIED);
        set(record.is_summary, record_flag::WINDOW_CHANGE | record_flag::SUMMARY);
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
                let is_response = line.is_some_and(|line| synthetic != Some(line.model as usize));
                set(is_response && !record.is_api_error, record_flag::RESPONSE);
            }
            RecordKind::Boundary | RecordKind::MicroBoundary => set(true, record_flag::WINDOW_CHANGE),
            _ => {}
        }
        hot_records.push(HotRecord {
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
