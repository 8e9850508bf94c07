//! Threading: which records make up a session's conversation, and in what order.
//!
//! File order is not conversation order. The chain runs from the newest record back over `parentUuid`; a boundary is
//! crossed by its logical parent; a record whose parent was never written is joined to the one before it. Beside the
//! chain stand the other lines of its responses and the results of parallel calls, which belong to it, and rewound
//! branches, which do not. Sub-agents have chains of their own.
//!
//! The result is a list of [`Round`]s: what was added since the last call, then one response.

use super::build::IdMap;
use super::log::{Block, BlockKind, Boundary, Id, Link, Log, Name, Record, RecordKind, ResponseLine};
use crate::problem::{Kind, Problem};
use smallvec::SmallVec;

/// A log with what is known about it from outside.
pub struct Part {
    /// Where it lies.
    pub path: String,
    /// The log.
    pub log: Log,
    /// Records that another log owns, by index; empty if there are none.
    pub copied: Vec<bool>,
}

impl Part {
    /// Whether another log owns the record.
    pub fn is_copied(&self, record: usize) -> bool {
        self.copied.get(record).copied().unwrap_or(false)
    }
}

/// A record, named by its place among the session's records (all logs, in order).
pub type Node = u32;

/// The records of one session.
pub struct Session<'a> {
    /// Its id.
    pub id: &'a str,
    parts: &'a [Part],
    /// Log and record of every node.
    nodes: Vec<(u32, u32)>,
    /// First node of each log.
    starts: Vec<u32>,
    /// By log: which of its scopes are this session's.
    own_scopes: Vec<Vec<bool>>,
    /// Nodes by id, filled only if the session has several logs.
    by_id: IdMap<u128, Node>,
}

impl<'a> Session<'a> {
    /// Gathers the records of session `id` from its logs.
    pub fn new(id: &'a str, parts: &'a [Part]) -> Session<'a> {
        let mut session = Session {
            id,
            parts,
            nodes: Vec::new(),
            starts: Vec::new(),
            own_scopes: Vec::new(),
            by_id: IdMap::default(),
        };
        for (part_at, part) in parts.iter().enumerate() {
            session.starts.push(session.nodes.len() as u32);
            let is_own = part.log.scopes.iter().map(|scope| part.log.string(scope.session) == id);
            session.own_scopes.push(is_own.collect());
            session
                .nodes
                .extend((0..part.log.records.len()).map(|at| (part_at as u32, at as u32)));
        }
        if parts.len() > 1 {
            for node in 0..session.nodes.len() as Node {
                let record = session.record(node);
                if record.id != Id::default() && session.is_own(node) {
                    session.by_id.entry(record.id.0).or_insert(node);
                }
            }
        }
        session
    }

    /// The log of a node.
    pub fn log(&self, node: Node) -> &'a Log {
        &self.part(node).log
    }

    /// Which of the session's logs a node lies in.
    pub fn part_number(&self, node: Node) -> u32 {
        self.nodes[node as usize].0
    }

    /// A string of one of the session's logs.
    pub fn string(&self, part: u32, name: Name) -> &'a str {
        self.parts[part as usize].log.string(name)
    }

    /// The log of a node with its path.
    pub fn part(&self, node: Node) -> &'a Part {
        &self.parts[self.nodes[node as usize].0 as usize]
    }

    /// The record of a node.
    pub fn record(&self, node: Node) -> &'a Record {
        let (part, record) = self.nodes[node as usize];
        &self.parts[part as usize].log.records[record as usize]
    }

    /// The blocks of a node.
    pub fn blocks(&self, node: Node) -> &'a [Block] {
        self.log(node).blocks_of(self.record(node))
    }

    /// What a node says of an API call.
    pub fn response(&self, node: Node) -> Option<&'a ResponseLine> {
        let number = self.record(node).response?;
        self.log(node).responses.get(number as usize)
    }

    /// What a boundary says of itself.
    pub fn boundary(&self, node: Node) -> Option<&'a Boundary> {
        let number = self.record(node).boundary?;
        self.log(node).boundaries.get(number as usize)
    }

    /// Whether the message that a boundary followed is in the log.
    pub fn has_leaf(&self, node: Node) -> bool {
        let record = self.record(node);
        let link = match record.logical_parent {
            Link::None => record.parent,
            link => link,
        };
        matches!(self.target(node, link), Target::Node(_))
    }

    /// Whether another session owns the node.
    pub fn is_copied(&self, node: Node) -> bool {
        self.part(node).is_copied(self.nodes[node as usize].1 as usize)
    }

    /// Nodes of this session; the logs may hold records of others.
    pub fn own_nodes(&self) -> impl Iterator<Item = Node> + '_ {
        (0..self.nodes.len() as Node).filter(|node| self.is_own(*node))
    }

    fn is_own(&self, node: Node) -> bool {
        let record = self.record(node);
        !record.is_repeat && self.own_scopes[self.part_number(node) as usize][record.scope as usize]
    }

    fn is_sidechain(&self, node: Node) -> bool {
        self.log(node).scope_of(self.record(node)).is_sidechain
    }

    /// The node that a link leads to.
    fn target(&self, node: Node, link: Link) -> Target {
        match link {
            Link::None => Target::None,
            Link::Here(record) => {
                let part = self.nodes[node as usize].0 as usize;
                let target = self.starts[part] + record;
                if self.is_own(target) {
                    Target::Node(target)
                } else {
                    Target::OtherSession
                }
            }
            Link::Elsewhere(id) => self
                .by_id
                .get(&id.0)
                .map_or(Target::Missing, |target| Target::Node(*target)),
        }
    }

    fn problem(&self, node: Node, kind: Kind) -> Problem {
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

enum Target {
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
    pub beside: Vec<Node>,
}

/// A session, threaded.
#[derive(Debug, Default)]
pub struct Threaded {
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
pub fn thread(session: &Session<'_>) -> Threaded {
    let mut threaded = Threaded::default();
    let (side, main): (Vec<Node>, Vec<Node>) = session.own_nodes().partition(|node| session.is_sidechain(*node));
    let mut groups = vec![(String::new(), false, main)];
    groups.extend(sidechains(session, side));
    for (agent, is_sidechain, nodes) in groups {
        if nodes.is_empty() && is_sidechain {
            continue;
        }
        let mut walk = Walk::new(session, &nodes);
        walk.climb();
        walk.put_kept_segments_back();
        let mut chain = walk.rounds();
        walk.count_rewound(&mut threaded);
        chain.agent = agent;
        chain.is_sidechain = is_sidechain;
        threaded.problems.append(&mut walk.problems);
        pair_calls(session, &chain, &mut threaded.problems);
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
                Target::Node(parent) => group_of_node.get(&u64::from(parent)).copied(),
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
struct Walk<'s, 'a> {
    session: &'s Session<'a>,
    /// Records that may be on the chain, in order.
    nodes: &'s [Node],
    /// By node: on the chain, or taken into it from beside.
    taken: Vec<bool>,
    /// The chain, oldest first once `climb` is done.
    chain: Vec<Node>,
    /// Records that follow one that was never written.
    after_holes: Vec<Node>,
    problems: Vec<Problem>,
}

impl<'s, 'a> Walk<'s, 'a> {
    fn new(session: &'s Session<'a>, nodes: &'s [Node]) -> Walk<'s, 'a> {
        Walk {
            session,
            nodes,
            taken: vec![false; session.nodes.len()],
            chain: Vec::new(),
            after_holes: Vec::new(),
            problems: Vec::new(),
        }
    }

    fn is_message(&self, node: Node) -> bool {
        matches!(self.session.record(node).kind, RecordKind::User | RecordKind::Assistant)
    }

    /// From the newest message to the root.
    fn climb(&mut self) {
        let mut next = self.nodes.iter().rev().copied().find(|node| self.is_message(*node));
        while let Some(node) = next {
            self.taken[node as usize] = true;
            self.chain.push(node);
            next = self.step(node);
        }
        self.chain.reverse();
    }

    /// What comes before `node`.
    fn step(&mut self, node: Node) -> Option<Node> {
        let record = self.session.record(node);
        let link = if record.kind == RecordKind::Boundary && record.parent == Link::None {
            record.logical_parent
        } else {
            record.parent
        };
        let breaks = record.kind == RecordKind::Boundary;
        match self.session.target(node, link) {
            Target::Node(parent) if !self.taken[parent as usize] => return Some(parent),
            // The kept segment was written again after the boundary, and the boundary points into it.
            Target::Node(_) if breaks => {}
            Target::Node(_) => self.problems.push(self.session.problem(node, Kind::ParentCycle)),
            Target::Missing if breaks => self
                .problems
                .push(self.session.problem(node, Kind::BoundaryWithoutLeaf)),
            Target::Missing => {
                self.after_holes.push(node);
                self.problems.push(self.session.problem(node, Kind::MissingParent));
            }
            Target::OtherSession => return None,
            // Old clients wrote no boundary, only a summary that starts a new chain.
            Target::None if breaks || record.is_summary => {}
            Target::None => return None,
        }
        self.before(node)
    }

    /// The newest message before `node` in file order that is not on the chain yet.
    fn before(&self, node: Node) -> Option<Node> {
        let end = self.nodes.partition_point(|other| *other < node);
        let candidates = self.nodes[..end].iter().rev().copied();
        candidates
            .into_iter()
            .find(|other| self.is_message(*other) && !self.taken[*other as usize])
    }

    /// Records that a boundary kept and that were written again after it stand before it in the conversation.
    fn put_kept_segments_back(&mut self) {
        let boundaries = (0..self.chain.len())
            .filter(|at| self.session.record(self.chain[*at]).kind == RecordKind::Boundary)
            .collect::<Vec<_>>();
        for at in boundaries {
            let Some(boundary) = self.session.boundary(self.chain[at]) else {
                continue;
            };
            if boundary.kept.is_empty() {
                continue;
            }
            let is_kept = |node: &Node| boundary.kept.contains(&self.session.record(*node).id);
            let after = self.chain.split_off(at);
            let (kept, rest): (Vec<Node>, Vec<Node>) = after.into_iter().partition(is_kept);
            self.chain.extend(kept);
            self.chain.extend(rest);
        }
    }

    /// Cuts the chain into rounds and takes in what stands beside it.
    fn rounds(&mut self) -> Chain {
        let mut chain = Chain::default();
        let mut round_of_message =
            IdMap::<u64, usize>::with_capacity_and_hasher(self.chain.len() / 2, Default::default());
        let mut round_of_call = IdMap::<u64, usize>::with_capacity_and_hasher(self.chain.len() / 2, Default::default());
        let mut pending = Nodes::new();
        let (mut is_after_hole, mut is_after_restart) = (false, false);
        for &node in &self.chain {
            is_after_hole |= self.after_holes.contains(&node);
            match self.session.record(node).kind {
                RecordKind::Assistant => {
                    let Some(message) = api_message(self.session, node) else {
                        is_after_restart |= !self.session.record(node).is_api_error;
                        continue;
                    };
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
                    chain.rounds[round].lines.push(node);
                }
                RecordKind::Progress | RecordKind::System | RecordKind::Other => {}
                _ => pending.push(node),
            }
        }
        chain.tail = pending;

        let beside = self
            .nodes
            .iter()
            .copied()
            .filter(|node| !self.taken[*node as usize])
            .collect::<Vec<_>>();
        for &node in &beside {
            if let Some(message) = api_message(self.session, node)
                && message != 0
                && let Some(&round) = round_of_message.get(&message)
            {
                self.taken[node as usize] = true;
                chain.rounds[round].lines.push(node);
            }
        }
        for (at, round) in chain.rounds.iter_mut().enumerate() {
            round.lines.sort_unstable();
            for block in round.lines.iter().flat_map(|line| self.session.blocks(*line)) {
                if block.kind == BlockKind::ToolCall && block.call != 0 {
                    round_of_call.insert(block.call, at);
                }
            }
        }
        self.take_results(&mut chain, &beside, &mut round_of_call);
        number_turns(self.session, &mut chain);
        chain
    }

    /// Results of parallel calls hang beside the chain, and so does what hooks added to them.
    fn take_results(&mut self, chain: &mut Chain, beside: &[Node], round_of_call: &mut IdMap<u64, usize>) {
        let inputs = chain.rounds.iter().flat_map(|round| &round.inputs).chain(&chain.tail);
        for block in inputs.flat_map(|node| self.session.blocks(*node)) {
            if block.kind == BlockKind::ToolResult {
                round_of_call.remove(&block.call);
            }
        }
        let mut taken_to = IdMap::<u64, usize>::default();
        let mut touched = Vec::new();
        for &node in beside
            .iter()
            .filter(|node| !self.taken[**node as usize])
            .collect::<Vec<_>>()
        {
            let record = self.session.record(node);
            let answered = self.session.blocks(node).iter().find_map(|block| {
                (block.kind == BlockKind::ToolResult)
                    .then(|| round_of_call.remove(&block.call))
                    .flatten()
            });
            let parent = match self.session.target(node, record.parent) {
                Target::Node(parent) => taken_to.get(&u64::from(parent)).copied(),
                _ => None,
            };
            let is_addition = record.kind == RecordKind::Attachment;
            if let Some(round) = answered.or(parent.filter(|_| is_addition)) {
                self.taken[node as usize] = true;
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
                chain.beside.push(node);
                touched.push(round + 1);
            }
        }
        for round in touched {
            let inputs = chain
                .rounds
                .get_mut(round)
                .map_or(&mut chain.tail, |next| &mut next.inputs);
            let has_boundary = inputs
                .iter()
                .any(|node| self.session.record(*node).kind == RecordKind::Boundary);
            if !has_boundary {
                inputs.sort_unstable();
            }
        }
    }

    /// What is left are branches that the user rewound from.
    fn count_rewound(&self, threaded: &mut Threaded) {
        for &node in self.nodes {
            let record = self.session.record(node);
            let counts = matches!(
                record.kind,
                RecordKind::User | RecordKind::Assistant | RecordKind::Attachment
            );
            if !counts || self.taken[node as usize] {
                continue;
            }
            threaded.rewound.push(node);
            let starts_branch = match self.session.target(node, record.parent) {
                Target::Node(parent) => self.taken[parent as usize],
                _ => true,
            };
            threaded.branches += u32::from(starts_branch && self.is_message(node));
        }
    }
}

/// Message id of an assistant record that is an API response (0 if it has none); `None` for what the client made up.
fn api_message(session: &Session<'_>, node: Node) -> Option<u64> {
    let record = session.record(node);
    let response = session.response(node)?;
    let is_made_up = record.is_api_error || session.log(node).string(response.model) == "<synthetic>";
    (record.kind == RecordKind::Assistant && !is_made_up).then_some(response.message)
}

/// Whether a record is a prompt: something a person typed or ran, not a tool result and not put in by the client.
pub fn is_prompt(session: &Session<'_>, node: Node) -> bool {
    let record = session.record(node);
    record.kind == RecordKind::User
        && !record.is_meta
        && !record.is_summary
        && session
            .blocks(node)
            .iter()
            .any(|block| matches!(block.kind, BlockKind::Human | BlockKind::Command))
}

fn number_turns(session: &Session<'_>, chain: &mut Chain) {
    let mut turn = 0;
    for (at, round) in chain.rounds.iter_mut().enumerate() {
        if at > 0 && round.inputs.iter().any(|node| is_prompt(session, *node)) {
            turn += 1;
        }
        round.turn = turn;
    }
}

/// Notes results without calls and calls without results. A call in the last round may still be running.
fn pair_calls(session: &Session<'_>, chain: &Chain, problems: &mut Vec<Problem>) {
    let mut open = IdMap::<u64, Node>::default();
    for (at, round) in chain.rounds.iter().enumerate() {
        let inputs = round.inputs.iter().copied();
        pair_results(session, inputs, &mut open, problems);
        for &line in &round.lines {
            for block in session.blocks(line) {
                let is_last = at + 1 == chain.rounds.len();
                if block.kind == BlockKind::ToolCall && block.call != 0 && !is_last {
                    open.insert(block.call, line);
                }
            }
        }
    }
    let mut left = open.into_values().collect::<Vec<_>>();
    left.sort_unstable();
    let own = left.into_iter().filter(|node| !session.is_copied(*node));
    problems.extend(own.map(|node| session.problem(node, Kind::CallWithoutResult)));
}

fn pair_results(
    session: &Session<'_>,
    inputs: impl Iterator<Item = Node>,
    open: &mut IdMap<u64, Node>,
    problems: &mut Vec<Problem>,
) {
    for node in inputs {
        for block in session.blocks(node) {
            if block.kind == BlockKind::ToolResult && open.remove(&block.call).is_none() && block.name == 0 {
                problems.push(session.problem(node, Kind::ResultWithoutCall));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::bytes::Lines;
    use crate::input::walk::Walker;

    /// A log of short lines `id parent what [extra]`: `u` prompt, `a:MSG` response text, `c:MSG:CALL` call, `r:CALL` result,
    /// `b` boundary with logical parent `extra`, `s` summary, `k` attachment, `x:AGENT` sidechain prompt.
    fn part(script: &str) -> Part {
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
        walker.lines(text.as_bytes(), 0);
        Part {
            path: "log".into(),
            log: walker.into_builder().finish(),
            copied: Vec::new(),
        }
    }

    /// Threads a script; the result as `inputs>lines` a round, `|` between rounds, then `~` and the tail.
    fn check(script: &str, main: &str, rewound: &str, problems: &[Kind]) {
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
            &[Kind::BoundaryWithoutLeaf],
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
            &[Kind::MissingParent],
        );
        check("u1 a1 u\na1 u1 a:m1", "u1>a1 ~", "", &[Kind::ParentCycle]);
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
            &[Kind::CallWithoutResult],
        );
        check(
            "u1 - u\nr1 u1 r:t9\na1 r1 a:m1",
            "u1,r1>a1 ~",
            "",
            &[Kind::ResultWithoutCall],
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
}
