//! Threading: which records make up a session's conversation, and in what order.
//!
//! File order is not conversation order. The chain runs from the newest record back over `parentUuid`; a boundary is
//! crossed by its logical parent; a record whose parent was never written is joined to the one before it. Beside the
//! chain stand the other lines of its responses and the results of parallel calls, which belong to it, and rewound
//! branches, which do not. Sub-agents have chains of their own.
//!
//! The result is a list of [`Round`]s: what was added since the last call, then one response.

use crate::build::IdMap;
use crate::evidence::LineHashes;
use crate::log::{
    Block, BlockKind, BoundaryRecord, Log, NameId, Record, RecordId, RecordKind, RecordLink, ResponseLine,
};
use crate::problem::{Problem, ProblemKind};
use smallvec::SmallVec;

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
struct HotRecord {
    first_block: u32,
    blocks: u32,
    /// Number of its line in [`Log::responses`]; [`NO_RESPONSE`] if it has none.
    response: u32,
    kind: RecordKind,
    /// What holds of it, as flags of [`trait_of`].
    flags: u8,
}

const NO_RESPONSE: u32 = u32::MAX;

mod record_flag {
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
    hot_records: Vec<HotRecord>,
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
    fn has_flag(&self, node: Node, wanted: u8) -> bool {
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
    fn target(&self, node: Node, link: RecordLink) -> LinkTarget {
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

    fn make_problem(&self, node: Node, kind: ProblemKind) -> Problem {
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

enum LinkTarget {
    None,
    Node(Node),
    OtherSession,
    Missing,
}

/// A few nodes: a round mostly has no more than fit without a block of memory of their own.
pub type Nodes = SmallVec<[Node; 4]>;

/// One API call: what was added since the last one, and the response.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// Records added since the response before.
    pub inputs: Nodes,
    /// Lines of the response.
    pub lines: Nodes,
    /// Turn it belongs to, from 0.
    pub turn: u32,
    /// Records between the round before and this one were never written.
    pub is_after_hole: bool,
    /// The client answered something by itself in between, as it does when a session is taken up again.
    pub is_after_restart: bool,
}

/// The conversation of a main agent or of one sub-agent.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// Id of the sub-agent; empty for the main agent (and for old sub-agents, which had none).
    pub agent: String,
    /// Part of a sub-agent.
    pub is_sidechain: bool,
    /// Its calls, in order.
    pub rounds: Vec<Round>,
    /// What was added after the last response.
    pub tail: Nodes,
    /// Inputs that were taken in from beside the chain, in order: results of parallel calls. A client that is started
    /// again reads the chain alone, and so forgets them.
    pub off_chain_inputs: Vec<Node>,
}

/// A session, threaded.
#[derive(Debug, Default)]
pub struct ThreadedSession {
    /// The main chain first, then those of sub-agents.
    pub chains: Vec<Chain>,
    /// Records on rewound branches.
    pub rewound: Vec<Node>,
    /// How many branches they form.
    pub branches: u32,
    /// What was not as it should be.
    pub problems: Vec<Problem>,
}

/// Threads a session.
pub fn thread(session: &Session<'_>) -> ThreadedSession {
    let mut threaded = ThreadedSession::default();
    let mut main = Vec::with_capacity(session.hot_records.len());
    let mut side = Vec::new();
    for node in session.own_nodes() {
        if session.has_flag(node, record_flag::SIDECHAIN) {
            side.push(node);
        } else {
            main.push(node);
        }
    }
    let mut groups = vec![(String::new(), false, main)];
    groups.extend(sidechains(session, side));
    let mut taken = vec![false; session.hot_records.len()];
    for (agent, is_sidechain, nodes) in groups {
        if nodes.is_empty() && is_sidechain {
            continue;
        }
        let mut walk = ChainWalk {
            session,
            agent: is_sidechain.then_some(agent.as_str()),
            nodes: &nodes,
            is_taken: taken,
            chain: Vec::with_capacity(nodes.len()),
            after_holes: Vec::new(),
            problems: Vec::new(),
        };
        walk.walk_to_root();
        walk.restore_kept_segments();
        let mut chain = walk.split_rounds();
        walk.count_rewound(&mut threaded);
        threaded.problems.append(&mut walk.problems);
        taken = walk.into_cleared_flags();
        chain.agent = agent;
        chain.is_sidechain = is_sidechain;
        check_call_pairs(session, &chain, &mut threaded.problems);
        threaded.chains.push(chain);
    }
    threaded
}

/// Groups sidechain records by sub-agent: by id, or by the record their chain starts with.
fn sidechains(session: &Session<'_>, nodes: Vec<Node>) -> Vec<(String, bool, Vec<Node>)> {
    let mut groups: Vec<(String, bool, Vec<Node>)> = Vec::new();
    let mut group_of_agent = IdMap::<String, usize>::default();
    let mut group_of_node = IdMap::<u64, usize>::default();
    for node in nodes {
        let log = session.log(node);
        let record = session.record(node);
        let agent = log.string(log.scope_of(record).agent);
        let known = if agent.is_empty() {
            match session.target(node, record.parent) {
                LinkTarget::Node(parent) => group_of_node.get(&u64::from(parent)).copied(),
                _ => None,
            }
        } else {
            group_of_agent.get(agent).copied()
        };
        let group = known.unwrap_or_else(|| {
            groups.push((agent.to_owned(), true, Vec::new()));
            groups.len() - 1
        });
        if !agent.is_empty() {
            group_of_agent.insert(agent.to_owned(), group);
        }
        group_of_node.insert(u64::from(node), group);
        groups[group].2.push(node);
    }
    groups.sort_by(|a, b| a.0.cmp(&b.0).then(a.2.first().cmp(&b.2.first())));
    groups
}

/// Finding one chain among its candidates.
struct ChainWalk<'s, 'a> {
    session: &'s Session<'a>,
    /// The sub-agent whose chain it is.
    agent: Option<&'s str>,
    /// Records that may be on the chain, in order.
    nodes: &'s [Node],
    /// By node: on the chain, or taken into it from beside.
    is_taken: Vec<bool>,
    /// The chain, oldest first once `climb` is done.
    chain: Vec<Node>,
    /// Records that follow one that was never written, sorted once `climb` is done.
    after_holes: Vec<Node>,
    problems: Vec<Problem>,
}

impl<'s, 'a> ChainWalk<'s, 'a> {
    /// The list of what is taken, with nothing taken: most sessions have many chains, and few records are on each.
    fn into_cleared_flags(mut self) -> Vec<bool> {
        for &node in self.chain.iter().chain(self.nodes) {
            self.is_taken[node as usize] = false;
        }
        self.is_taken
    }

    fn is_message(&self, node: Node) -> bool {
        self.session.has_flag(node, record_flag::MESSAGE)
    }

    /// From the newest message to the root.
    fn walk_to_root(&mut self) {
        let mut next = self.nodes.iter().rev().copied().find(|node| self.is_message(*node));
        while let Some(node) = next {
            self.is_taken[node as usize] = true;
            self.chain.push(node);
            next = self.previous_node(node);
        }
        self.chain.reverse();
        self.after_holes.sort_unstable();
    }

    /// What comes before `node`.
    fn previous_node(&mut self, node: Node) -> Option<Node> {
        let record = self.session.record(node);
        let link = if record.kind == RecordKind::Boundary && record.parent == RecordLink::None {
            record.logical_parent
        } else {
            record.parent
        };
        let breaks = record.kind == RecordKind::Boundary;
        match self.session.target(node, link) {
            LinkTarget::Node(parent) if self.is_other_agents(parent) => return None,
            LinkTarget::Node(parent) if !self.is_taken[parent as usize] => return Some(parent),
            // The kept segment was written again after the boundary, and the boundary points into it.
            LinkTarget::Node(_) if breaks => {}
            LinkTarget::Node(_) => self
                .problems
                .push(self.session.make_problem(node, ProblemKind::ParentCycle)),
            LinkTarget::Missing if breaks => self
                .problems
                .push(self.session.make_problem(node, ProblemKind::BoundaryWithoutLeaf)),
            LinkTarget::Missing => {
                self.after_holes.push(node);
                self.problems
                    .push(self.session.make_problem(node, ProblemKind::MissingParent));
            }
            LinkTarget::OtherSession => return None,
            // Old clients wrote no boundary, only a summary that starts a new chain.
            LinkTarget::None if breaks || record.is_summary => {}
            LinkTarget::None => return None,
        }
        self.newest_before(node)
    }

    /// Whether a record is on no chain of this sub-agent: it is the main agent's, or another one's. A window of a sub-agent
    /// starts with it, and if every one took in what others said, all together would be as long as their square.
    fn is_other_agents(&self, node: Node) -> bool {
        self.agent.is_some_and(|agent| {
            let log = self.session.log(node);
            let other = log.string(log.scope_of(self.session.record(node)).agent);
            !self.session.has_flag(node, record_flag::SIDECHAIN) || !other.is_empty() && other != agent
        })
    }

    /// The newest message before `node` in file order that is not on the chain yet.
    fn newest_before(&self, node: Node) -> Option<Node> {
        let end = self.nodes.partition_point(|other| *other < node);
        let candidates = self.nodes[..end].iter().rev().copied();
        candidates
            .into_iter()
            .find(|other| self.is_message(*other) && !self.is_taken[*other as usize])
    }

    /// Records that a boundary kept and that were written again after it stand before it in the conversation.
    fn restore_kept_segments(&mut self) {
        let session = self.session;
        let kept_by = |node: Node| session.boundary(node).map_or(&[][..], |boundary| &boundary.kept);
        let breaks = self.chain.iter().copied().filter(|node| session.is_break(*node));
        let mut places = IdMap::<u128, Option<usize>>::default();
        places.extend(breaks.flat_map(kept_by).map(|id| (id.number(), None)));
        if places.is_empty() {
            return;
        }
        let is_boundary = |at: &usize| session.kind(self.chain[*at]) == RecordKind::Boundary;
        let boundaries = (0..self.chain.len()).filter(is_boundary).collect::<Vec<_>>();
        // Nearly always the kept records stand before the boundary already. So where they stand is found out once, and
        // only what a move changes is found out again.
        index_places(session, &self.chain, 0, &mut places);
        for at in boundaries {
            let kept = kept_by(self.chain[at]);
            let last = kept
                .iter()
                .filter_map(|id| places.get(&id.number()).copied().flatten())
                .max();
            let Some(last) = last.filter(|last| *last >= at) else {
                continue;
            };
            let is_kept = |node: &Node| kept.contains(&session.record(*node).id);
            let segment = &mut self.chain[at..=last];
            let (kept, rest): (Vec<Node>, Vec<Node>) = segment.iter().partition(|node| is_kept(node));
            segment[..kept.len()].copy_from_slice(&kept);
            segment[kept.len()..].copy_from_slice(&rest);
            index_places(session, segment, at, &mut places);
        }
    }

    /// Cuts the chain into rounds and takes in what stands beside it.
    fn split_rounds(&mut self) -> Chain {
        let session = self.session;
        let mut chain = Chain::default();
        // Every third or fourth record starts a round.
        chain.rounds.reserve(self.chain.len() / 3);
        let room = self.chain.len() / 4;
        let mut round_of_message = IdMap::<u64, usize>::with_capacity_and_hasher(room, Default::default());
        // Lines of a response mostly follow one another.
        let mut latest = (0, 0);
        let mut pending = Nodes::new();
        let (mut is_after_hole, mut is_after_restart) = (false, false);
        for &node in &self.chain {
            is_after_hole |= self.after_holes.binary_search(&node).is_ok();
            match session.kind(node) {
                RecordKind::Assistant => {
                    let Some(message) = api_message(session, node) else {
                        is_after_restart |= !session.record(node).is_api_error;
                        continue;
                    };
                    if message == 0 || message != latest.0 {
                        let known = round_of_message.get(&message).copied().filter(|_| message != 0);
                        let round = known.unwrap_or_else(|| {
                            chain.rounds.push(Round {
                                inputs: std::mem::take(&mut pending),
                                is_after_hole: std::mem::take(&mut is_after_hole),
                                is_after_restart: std::mem::take(&mut is_after_restart),
                                ..Round::default()
                            });
                            round_of_message.insert(message, chain.rounds.len() - 1);
                            chain.rounds.len() - 1
                        });
                        latest = (message, round);
                    }
                    chain.rounds[latest.1].lines.push(node);
                }
                RecordKind::Progress | RecordKind::System | RecordKind::Other => {}
                _ => pending.push(node),
            }
        }
        chain.tail = pending;

        let is_beside = |node: &Node| !self.is_taken[*node as usize];
        let mut beside = self.nodes.iter().copied().filter(is_beside).collect::<Vec<_>>();
        beside.retain(|&node| {
            let message = api_message(session, node).filter(|message| *message != 0);
            let round = message.and_then(|message| round_of_message.get(&message));
            if let Some(&round) = round {
                self.is_taken[node as usize] = true;
                chain.rounds[round].lines.push(node);
            }
            round.is_none()
        });
        for round in &mut chain.rounds {
            round.lines.sort_unstable();
        }
        self.take_off_chain_results(&mut chain, &beside);
        number_turns(session, &mut chain);
        chain
    }

    /// Results of parallel calls hang beside the chain, and so does what hooks added to them.
    fn take_off_chain_results(&mut self, chain: &mut Chain, beside: &[Node]) {
        let session = self.session;
        let of_kind = |nodes: &[Node], kind: BlockKind, each: &mut dyn FnMut(u64)| {
            for block in nodes.iter().flat_map(|node| session.blocks(*node)) {
                if block.kind == kind && block.call != 0 {
                    each(block.call);
                }
            }
        };
        // Rounds of the calls that a result beside the chain answers and none on it.
        let mut rounds = IdMap::<u64, Option<usize>>::default();
        of_kind(beside, BlockKind::ToolResult, &mut |call| {
            rounds.insert(call, None);
        });
        if rounds.is_empty() {
            return;
        }
        let mut note = |nodes: &[Node], kind: BlockKind, round: Option<usize>| {
            of_kind(nodes, kind, &mut |call| {
                if let Some(known) = rounds.get_mut(&call) {
                    *known = round;
                }
            });
        };
        for (at, round) in chain.rounds.iter().enumerate() {
            note(&round.lines, BlockKind::ToolCall, Some(at));
        }
        for nodes in chain.rounds.iter().map(|round| &round.inputs).chain([&chain.tail]) {
            note(nodes, BlockKind::ToolResult, None);
        }
        let mut taken_to = IdMap::<u64, usize>::default();
        let mut touched = Vec::new();
        for &node in beside {
            let record = session.record(node);
            let answered = session.blocks(node).iter().find_map(|block| {
                let round = rounds
                    .get_mut(&block.call)
                    .filter(|_| block.kind == BlockKind::ToolResult)?;
                round.take()
            });
            let parent = match session.target(node, record.parent) {
                LinkTarget::Node(parent) => taken_to.get(&u64::from(parent)).copied(),
                _ => None,
            };
            let is_addition = record.kind == RecordKind::Attachment;
            if let Some(round) = answered.or(parent.filter(|_| is_addition)) {
                self.is_taken[node as usize] = true;
                taken_to.insert(u64::from(node), round);
                let inputs = chain
                    .rounds
                    .get_mut(round + 1)
                    .map_or(&mut chain.tail, |next| &mut next.inputs);
                // Before a boundary that was written later: it was there when the compaction began.
                let boundary = inputs
                    .iter()
                    .position(|input| self.session.record(*input).kind == RecordKind::Boundary);
                match boundary {
                    Some(at) if node < inputs[at] => inputs.insert(at, node),
                    _ => inputs.push(node),
                }
                chain.off_chain_inputs.push(node);
                touched.push(round + 1);
            }
        }
        for round in touched {
            let inputs = chain
                .rounds
                .get_mut(round)
                .map_or(&mut chain.tail, |next| &mut next.inputs);
            let has_boundary = inputs.iter().any(|node| session.kind(*node) == RecordKind::Boundary);
            if !has_boundary {
                inputs.sort_unstable();
            }
        }
    }

    /// What is left are branches that the user rewound from.
    fn count_rewound(&self, threaded: &mut ThreadedSession) {
        for &node in self.nodes.iter().filter(|node| !self.is_taken[**node as usize]) {
            let counts = self.is_message(node) || self.session.kind(node) == RecordKind::Attachment;
            if !counts {
                continue;
            }
            let record = self.session.record(node);
            threaded.rewound.push(node);
            let starts_branch = match self.session.target(node, record.parent) {
                LinkTarget::Node(parent) => self.is_taken[parent as usize],
                _ => true,
            };
            threaded.branches += u32::from(starts_branch && self.is_message(node));
        }
    }
}

/// Notes where in a piece of a chain, which starts at `start`, the records stand whose ids are asked for.
fn index_places(session: &Session<'_>, piece: &[Node], start: usize, places: &mut IdMap<u128, Option<usize>>) {
    for (at, node) in piece.iter().enumerate() {
        if let Some(place) = places.get_mut(&session.record(*node).id.number()) {
            *place = Some(start + at);
        }
    }
}

/// Message id of an assistant record that is an API response (0 if it has none); `None` for what the client made up.
fn api_message(session: &Session<'_>, node: Node) -> Option<u64> {
    let is_response = session.has_flag(node, record_flag::RESPONSE);
    session.response(node).filter(|_| is_response).map(|line| line.message)
}

/// Whether a record is a prompt: something a person typed or ran, not a tool result and not put in by the client.
pub fn is_prompt(session: &Session<'_>, node: Node) -> bool {
    session.has_flag(node, record_flag::PROMPT)
}

/// Whether a round is the first of a turn: something was asked.
pub fn starts_turn(session: &Session<'_>, round: &Round) -> bool {
    round.inputs.iter().any(|node| is_prompt(session, *node))
}

fn number_turns(session: &Session<'_>, chain: &mut Chain) {
    let mut turn = 0;
    for (at, round) in chain.rounds.iter_mut().enumerate() {
        if at > 0 && starts_turn(session, round) {
            turn += 1;
        }
        round.turn = turn;
    }
}

/// Notes results without calls and calls without results. A call in the last round may still be running.
fn check_call_pairs(session: &Session<'_>, chain: &Chain, problems: &mut Vec<Problem>) {
    let mut open = OpenCalls::default();
    for (at, round) in chain.rounds.iter().enumerate() {
        for &node in &round.inputs {
            for block in session.blocks(node) {
                if block.kind == BlockKind::ToolResult && !open.take_answer(block.call) && block.name == 0 {
                    problems.push(session.make_problem(node, ProblemKind::ResultWithoutCall));
                }
            }
        }
        if at + 1 == chain.rounds.len() {
            break;
        }
        open.next_round();
        for &line in &round.lines {
            for block in session.blocks(line) {
                if block.kind == BlockKind::ToolCall && block.call != 0 {
                    open.add_call(block.call, line);
                }
            }
        }
    }
    let own = open
        .into_unanswered()
        .into_iter()
        .filter(|node| !session.is_copied(*node));
    problems.extend(own.map(|node| session.make_problem(node, ProblemKind::CallWithoutResult)));
}

/// Calls whose result has not come yet. Nearly all are answered in the round after, so only older ones need a map.
#[derive(Default)]
struct OpenCalls {
    recent: SmallVec<[(u64, Node); 8]>,
    older: IdMap<u64, Node>,
}

impl OpenCalls {
    fn add_call(&mut self, call: u64, node: Node) {
        // The same call written again is one call.
        self.take_answer(call);
        if self.recent.len() == self.recent.inline_size() {
            self.next_round();
        }
        self.recent.push((call, node));
    }

    /// Whether the result of a call was waited for.
    fn take_answer(&mut self, call: u64) -> bool {
        if let Some(at) = self.recent.iter().position(|(open, _)| *open == call) {
            self.recent.swap_remove(at);
            return true;
        }
        !self.older.is_empty() && self.older.remove(&call).is_some()
    }

    fn next_round(&mut self) {
        self.older.extend(self.recent.drain(..));
    }

    /// Where the calls were made that were never answered, in order.
    fn into_unanswered(mut self) -> Vec<Node> {
        self.next_round();
        let mut left = self.older.into_values().collect::<Vec<_>>();
        left.sort_unstable();
        left
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::LineConsumer;
    use crate::walk::Walker;

    /// A log of short lines `id parent what [extra]`: `u` prompt, `a:MSG` response text, `c:MSG:CALL` call, `r:CALL` result,
    /// `b` boundary with logical parent `extra`, `s` summary, `k` attachment, `x:AGENT` sidechain prompt.
    fn part(script: &str) -> SessionLog {
        let mut text = String::new();
        for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let words = line.split(' ').collect::<Vec<_>>();
            let (id, parent, what) = (words[0], words[1], words[2]);
            let parent = if parent == "-" {
                "null".into()
            } else {
                format!("\"{parent}\"")
            };
            let fields = what.split(':').collect::<Vec<_>>();
            let usage = r#""usage":{"input_tokens":10,"output_tokens":5},"model":"claude-opus-4-5""#;
            let (kind, more) = match fields[0] {
                "u" => ("user", r#""message":{"content":"please"}"#.to_owned()),
                "x" => (
                    "user",
                    format!(
                        r#""isSidechain":true,"agentId":"{}","message":{{"content":"go"}}"#,
                        fields[1]
                    ),
                ),
                "a" => (
                    "assistant",
                    format!(
                        r#""message":{{"id":"{}",{usage},"content":[{{"type":"text","text":"ok"}}]}}"#,
                        fields[1]
                    ),
                ),
                "c" => (
                    "assistant",
                    format!(
                        r#""message":{{"id":"{}",{usage},"content":[{{"type":"tool_use","id":"{}","name":"Bash","input":{{}}}}]}}"#,
                        fields[1], fields[2]
                    ),
                ),
                "r" => (
                    "user",
                    format!(
                        r#""message":{{"content":[{{"type":"tool_result","tool_use_id":"{}","content":"done"}}]}}"#,
                        fields[1]
                    ),
                ),
                "b" => (
                    "system",
                    format!(
                        r#""subtype":"compact_boundary","logicalParentUuid":"{}","compactMetadata":{{"trigger":"auto","preservedMessages":{{"uuids":[{}]}}}}"#,
                        fields[1],
                        fields[2..]
                            .iter()
                            .map(|kept| format!("\"{kept}\""))
                            .collect::<Vec<_>>()
                            .join(",")
                    ),
                ),
                "s" => (
                    "user",
                    r#""isCompactSummary":true,"message":{"content":"summary"}"#.to_owned(),
                ),
                "k" => (
                    "attachment",
                    r#""attachment":{"type":"hook_success","content":"x"}"#.to_owned(),
                ),
                other => panic!("{other}"),
            };
            text.push_str(&format!(
                "{{\"type\":\"{kind}\",\"uuid\":\"{id}\",\"parentUuid\":{parent},\"sessionId\":\"S\",{more}}}\n"
            ));
        }
        let mut walker = Walker::new(1 << 20, &|_| ());
        walker.take_lines(text.as_bytes(), 0);
        SessionLog {
            path: "log".into(),
            log: walker.into_builder().finish(),
            copied: Vec::new(),
            lines: Default::default(),
        }
    }

    /// Threads a script; the result as `inputs>lines` a round, `|` between rounds, then `~` and the tail.
    fn check(script: &str, main: &str, rewound: &str, problems: &[ProblemKind]) {
        let parts = [part(script)];
        let session = Session::new("S", &parts);
        let threaded = thread(&session);
        let names = |nodes: &[Node]| {
            let name = |node: &Node| {
                let log = session.log(*node);
                let odd = log.odd_ids.iter().find(|(id, _)| *id == session.record(*node).id);
                odd.map_or("?", |(_, name)| log.string(*name)).to_owned()
            };
            nodes.iter().map(name).collect::<Vec<_>>().join(",")
        };
        let chain = &threaded.chains[0];
        let rounds = chain
            .rounds
            .iter()
            .map(|round| format!("{}>{}", names(&round.inputs), names(&round.lines)));
        let got = format!("{} ~{}", rounds.collect::<Vec<_>>().join(" | "), names(&chain.tail));
        assert_eq!(got, main, "{script}");
        assert_eq!(names(&threaded.rewound), rewound, "{script}");
        assert_eq!(
            threaded.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>(),
            problems,
            "{script}"
        );
    }

    #[test]
    fn lines_of_a_response_are_one_round() {
        check(
            "u1 - u\na1 u1 a:m1\na2 a1 c:m1:t1\nr1 a2 r:t1\na3 r1 a:m2",
            "u1>a1,a2 | r1>a3 ~",
            "",
            &[],
        );
    }

    #[test]
    fn results_of_parallel_calls_beside_the_chain_belong_to_it() {
        check(
            "u1 - u\na1 u1 c:m1:t1\na2 a1 c:m1:t2\nr1 a1 r:t1\nk1 r1 k\nr2 a2 r:t2\na3 r2 a:m2",
            "u1>a1,a2 | r1,k1,r2>a3 ~",
            "",
            &[],
        );
    }

    #[test]
    fn rewound_branches_are_left_out() {
        check(
            "u1 - u\na1 u1 a:m1\nu2 a1 u\na2 u2 a:m2\nu3 a1 u\na3 u3 a:m3",
            "u1>a1 | u3>a3 ~",
            "u2,a2",
            &[],
        );
    }

    #[test]
    fn boundaries_are_crossed_by_their_logical_parent() {
        check(
            "u1 - u\na1 u1 a:m1\nb1 - b:a1\ns1 b1 s\nu2 s1 u\na2 u2 a:m2",
            "u1>a1 | b1,s1,u2>a2 ~",
            "",
            &[],
        );
        check(
            "u1 - u\na1 u1 a:m1\nb1 - b:gone\ns1 b1 s\nu2 s1 u",
            "u1>a1 ~b1,s1,u2",
            "",
            &[ProblemKind::BoundaryWithoutLeaf],
        );
    }

    #[test]
    fn kept_segments_that_were_written_again_stand_before_their_boundary() {
        check(
            "u1 - u\nb1 - b:a1:a1\ns1 b1 s\na1 s1 a:m1\nu2 a1 u\na2 u2 a:m2",
            "u1>a1 | b1,s1,u2>a2 ~",
            "",
            &[],
        );
    }

    #[test]
    fn broken_chains_are_joined() {
        check(
            "u1 - u\na1 u1 a:m1\nu2 gone u\na2 u2 a:m2",
            "u1>a1 | u2>a2 ~",
            "",
            &[ProblemKind::MissingParent],
        );
        check("u1 a1 u\na1 u1 a:m1", "u1>a1 ~", "", &[ProblemKind::ParentCycle]);
        check(
            "u1 - u\na1 u1 a:m1\ns1 - s\nu2 s1 u\na2 u2 a:m2",
            "u1>a1 | s1,u2>a2 ~",
            "",
            &[],
        );
    }

    #[test]
    fn calls_and_results_are_paired() {
        check(
            "u1 - u\na1 u1 c:m1:t1\nu2 a1 u\na2 u2 a:m2",
            "u1>a1 | u2>a2 ~",
            "",
            &[ProblemKind::CallWithoutResult],
        );
        check(
            "u1 - u\nr1 u1 r:t9\na1 r1 a:m1",
            "u1,r1>a1 ~",
            "",
            &[ProblemKind::ResultWithoutCall],
        );
        check("u1 - u\na1 u1 c:m1:t1", "u1>a1 ~", "", &[]);
    }

    #[test]
    fn sub_agents_have_chains_of_their_own() {
        let parts = [part("u1 - u\na1 u1 a:m1\nx1 - x:agent1\nx2 - x:agent2\nx3 x1 x:agent1")];
        let session = Session::new("S", &parts);
        let threaded = thread(&session);
        let agents = threaded
            .chains
            .iter()
            .map(|chain| (chain.agent.as_str(), chain.tail.len()))
            .collect::<Vec<_>>();
        assert_eq!(agents, [("", 0), ("agent1", 2), ("agent2", 1)]);
    }

    #[test]
    fn a_sub_agent_takes_in_nothing_of_others() {
        // One starts behind the main agent's answer, one behind the other's prompt.
        let parts = [part(
            "u1 - u\na1 u1 a:m1\nx1 a1 x:agent1\nx2 x1 x:agent2\nx3 x2 x:agent2",
        )];
        let session = Session::new("S", &parts);
        let threaded = thread(&session);
        let lengths = threaded
            .chains
            .iter()
            .map(|chain| (chain.rounds.len(), chain.tail.len()));
        assert_eq!(lengths.collect::<Vec<_>>(), [(1, 0), (0, 1), (0, 2)]);
        assert_eq!((threaded.branches, threaded.problems.len()), (0, 0));
    }
}
