//! Finds one chain among its candidate records and splits it into rounds.

use super::session::{LinkTarget, Node, Session, record_flag};
use super::{Chain, Nodes, Round, ThreadedSession, starts_turn};
use crate::build::IdMap;
use crate::log::{BlockKind, RecordKind, RecordLink};
use crate::problem::ProblemKind;

/// The search for one chain among its candidate records.
pub(super) struct ChainWalk<'s, 'a> {
    session: &'s Session<'a>,
    /// Id of the sub-agent whose chain it is; `None` for the main agent.
    agent: Option<&'s str>,
    /// Candidates, in file order.
    nodes: &'s [Node],
    /// Whether a node is part of the chain, by node of the session.
    is_taken: Vec<bool>,
    /// The chain; oldest first after `walk_to_root`.
    chain: Vec<Node>,
    /// Records whose parent was never written; sorted after `walk_to_root`.
    after_holes: Vec<Node>,
    /// Problems on the way, with their nodes.
    problems: &'s mut Vec<(Node, ProblemKind)>,
}

impl<'s, 'a> ChainWalk<'s, 'a> {
    /// Prepares the search among `nodes`. All flags of `is_taken`, one per node of the session, must be unset.
    pub(super) fn new(
        session: &'s Session<'a>,
        agent: Option<&'s str>,
        nodes: &'s [Node],
        is_taken: Vec<bool>,
        problems: &'s mut Vec<(Node, ProblemKind)>,
    ) -> ChainWalk<'s, 'a> {
        ChainWalk {
            session,
            agent,
            nodes,
            is_taken,
            chain: Vec::with_capacity(nodes.len()),
            after_holes: Vec::new(),
            problems,
        }
    }

    /// Finds the chain and adds problems and rewound records to `threaded`. Returns the chain, and the unset flags for
    /// the next search.
    pub(super) fn run(mut self, threaded: &mut ThreadedSession) -> (Chain, Vec<bool>) {
        self.walk_to_root();
        self.restore_kept_segments();
        let chain = self.split_rounds();
        self.count_rewound(threaded);
        (chain, self.into_cleared_flags())
    }

    /// Unsets the flags that this search may have set, and returns them. Sessions can have many short chains, so
    /// clearing the whole list each time would be quadratic.
    fn into_cleared_flags(mut self) -> Vec<bool> {
        for &node in self.chain.iter().chain(self.nodes) {
            self.is_taken[node as usize] = false;
        }
        self.is_taken
    }

    fn is_message(&self, node: Node) -> bool {
        self.session.has_flag(node, record_flag::MESSAGE)
    }

    /// Walks from the newest message to the root.
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

    /// Returns the record before `node` in the conversation, or `None` at its root.
    fn previous_node(&mut self, node: Node) -> Option<Node> {
        let record = self.session.record(node);
        let link = if record.kind == RecordKind::Boundary && record.parent == RecordLink::None {
            record.logical_parent
        } else {
            record.parent
        };
        let is_boundary = record.kind == RecordKind::Boundary;
        match self.session.target(node, link) {
            LinkTarget::Node(parent) if self.belongs_to_other_agent(parent) => return None,
            LinkTarget::Node(parent) if !self.is_taken[parent as usize] => return Some(parent),
            // The kept segment was written again after the boundary, and the boundary points into it.
            LinkTarget::Node(_) if is_boundary => {}
            LinkTarget::Node(_) => self.problems.push((node, ProblemKind::ParentCycle)),
            LinkTarget::Missing if is_boundary => self.problems.push((node, ProblemKind::BoundaryWithoutLeaf)),
            LinkTarget::Missing => {
                self.after_holes.push(node);
                self.problems.push((node, ProblemKind::MissingParent));
            }
            LinkTarget::OtherSession => return None,
            // Old clients wrote no boundary, only a summary that starts a new chain.
            LinkTarget::None if is_boundary || record.is_summary => {}
            LinkTarget::None => return None,
        }
        self.newest_before(node)
    }

    /// Returns whether a record belongs to the main agent or to another sub-agent. The window of a sub-agent starts
    /// after such a record. If every sub-agent included the messages of the others, the total length would be
    /// quadratic.
    fn belongs_to_other_agent(&self, node: Node) -> bool {
        self.agent.is_some_and(|agent| {
            let log = self.session.log(node);
            let other = log.string(log.scope_of(self.session.record(node)).agent);
            !self.session.has_flag(node, record_flag::SIDECHAIN) || !other.is_empty() && other != agent
        })
    }

    /// Returns the newest message before `node` in file order that is not on the chain yet.
    fn newest_before(&self, node: Node) -> Option<Node> {
        let end = self.nodes.partition_point(|other| *other < node);
        let candidates = self.nodes[..end].iter().rev().copied();
        candidates
            .into_iter()
            .find(|other| self.is_message(*other) && !self.is_taken[*other as usize])
    }

    /// Moves kept records that were written again after their boundary to before it.
    fn restore_kept_segments(&mut self) {
        let session = self.session;
        let kept_by = |node: Node| session.boundary(node).map_or(&[][..], |boundary| &boundary.kept);
        let breaks = self.chain.iter().copied().filter(|node| session.changes_window(*node));
        let mut places = IdMap::<u128, Option<usize>>::default();
        places.extend(breaks.flat_map(kept_by).map(|id| (id.number(), None)));
        if places.is_empty() {
            return;
        }
        let is_boundary = |at: &usize| session.kind(self.chain[*at]) == RecordKind::Boundary;
        let boundaries = (0..self.chain.len()).filter(is_boundary).collect::<Vec<_>>();
        // Kept records are nearly always before the boundary already. So their positions are looked up once, and again
        // only where a move changes them.
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

    /// Splits the chain into rounds and adds what belongs to it off the chain.
    fn split_rounds(&mut self) -> Chain {
        let session = self.session;
        let mut chain = Chain::default();
        // Every third or fourth record starts a round.
        chain.rounds.reserve(self.chain.len() / 3);
        let room = self.chain.len() / 4;
        let mut round_of_message = IdMap::<u64, usize>::with_capacity_and_hasher(room, Default::default());
        // Id and round of the previous response line: the lines of a response are usually consecutive.
        let mut latest = (0, 0);
        let mut pending = Nodes::new();
        let (mut is_after_hole, mut is_after_restart, mut is_after_turn_end) = (false, false, false);
        for &node in &self.chain {
            is_after_hole |= self.after_holes.binary_search(&node).is_ok();
            match session.kind(node) {
                RecordKind::Assistant => {
                    let Some(line) = session.api_response(node) else {
                        is_after_restart |= !session.record(node).is_api_error;
                        continue;
                    };
                    let message = line.call_key();
                    if message == 0 || message != latest.0 {
                        let known = round_of_message.get(&message).copied().filter(|_| message != 0);
                        let round = known.unwrap_or_else(|| {
                            chain.rounds.push(Round {
                                inputs: std::mem::take(&mut pending),
                                is_after_hole: std::mem::take(&mut is_after_hole),
                                is_after_restart: std::mem::take(&mut is_after_restart),
                                is_after_turn_end: std::mem::take(&mut is_after_turn_end),
                                ..Round::default()
                            });
                            let round = chain.rounds.len() - 1;
                            round_of_message.insert(message, round);
                            if message != line.message {
                                // Another line of it may lack the request.
                                round_of_message.entry(line.message).or_insert(round);
                            }
                            round
                        });
                        latest = (message, round);
                    }
                    chain.rounds[latest.1].lines.push(node);
                }
                RecordKind::TurnEnd => is_after_turn_end = true,
                RecordKind::Progress | RecordKind::System | RecordKind::Other => {}
                _ => pending.push(node),
            }
        }
        chain.tail = pending;

        let is_off_chain = |node: &Node| !self.is_taken[*node as usize];
        let mut off_chain = self.nodes.iter().copied().filter(is_off_chain).collect::<Vec<_>>();
        off_chain.retain(|&node| {
            let line = session.api_response(node);
            let message = line.map(|line| line.call_key()).filter(|message| *message != 0);
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
        self.take_off_chain_results(&mut chain, &off_chain);
        number_turns(session, &mut chain);
        chain
    }

    /// Adds the results of parallel calls that are off the chain, and what hooks attached to them, to the inputs of
    /// the round after their call.
    fn take_off_chain_results(&mut self, chain: &mut Chain, off_chain: &[Node]) {
        let session = self.session;
        let mut rounds = unanswered_calls(session, chain, off_chain);
        if rounds.is_empty() {
            return;
        }
        let mut round_of_node = IdMap::<u64, usize>::default();
        let mut touched = Vec::new();
        for &node in off_chain {
            let record = session.record(node);
            let answered = session.blocks(node).iter().find_map(|block| {
                let round = rounds
                    .get_mut(&block.call)
                    .filter(|_| block.kind == BlockKind::ToolResult)?;
                round.take()
            });
            let parent = match session.target(node, record.parent) {
                LinkTarget::Node(parent) => round_of_node.get(&u64::from(parent)).copied(),
                _ => None,
            };
            let is_addition = record.kind == RecordKind::Attachment;
            if let Some(round) = answered.or(parent.filter(|_| is_addition)) {
                self.is_taken[node as usize] = true;
                round_of_node.insert(u64::from(node), round);
                let inputs = inputs_after(chain, round);
                // A boundary that was written later stays behind the result: the compaction already saw it.
                let boundary = inputs
                    .iter()
                    .position(|input| session.kind(*input) == RecordKind::Boundary);
                match boundary {
                    Some(at) if node < inputs[at] => inputs.insert(at, node),
                    _ => inputs.push(node),
                }
                chain.off_chain_inputs.push(node);
                touched.push(round);
            }
        }
        for round in touched {
            let inputs = inputs_after(chain, round);
            let has_boundary = inputs.iter().any(|node| session.kind(*node) == RecordKind::Boundary);
            if !has_boundary {
                inputs.sort_unstable();
            }
        }
    }

    /// Counts what is left: branches that the user rewound.
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

/// Returns the inputs of the round after `round`, or the tail of the chain after its last round.
fn inputs_after(chain: &mut Chain, round: usize) -> &mut Nodes {
    match chain.rounds.get_mut(round + 1) {
        Some(next) => &mut next.inputs,
        None => &mut chain.tail,
    }
}

/// Maps the ids of calls that have a result off the chain to the round that made the call. The value is `None` if the
/// chain has a result already, or has no such call.
fn unanswered_calls(session: &Session<'_>, chain: &Chain, off_chain: &[Node]) -> IdMap<u64, Option<usize>> {
    let each_call = |nodes: &[Node], kind: BlockKind, visit: &mut dyn FnMut(u64)| {
        for block in nodes.iter().flat_map(|node| session.blocks(*node)) {
            if block.kind == kind && block.call != 0 {
                visit(block.call);
            }
        }
    };
    let mut rounds = IdMap::<u64, Option<usize>>::default();
    each_call(off_chain, BlockKind::ToolResult, &mut |call| {
        rounds.insert(call, None);
    });
    if rounds.is_empty() {
        return rounds;
    }
    let mut set_round = |nodes: &[Node], kind: BlockKind, round: Option<usize>| {
        each_call(nodes, kind, &mut |call| {
            if let Some(known) = rounds.get_mut(&call) {
                *known = round;
            }
        });
    };
    for (at, round) in chain.rounds.iter().enumerate() {
        set_round(&round.lines, BlockKind::ToolCall, Some(at));
    }
    for nodes in chain.rounds.iter().map(|round| &round.inputs).chain([&chain.tail]) {
        set_round(nodes, BlockKind::ToolResult, None);
    }
    rounds
}

/// Records the positions of the wanted ids within a piece of a chain that starts at `start`.
fn index_places(session: &Session<'_>, piece: &[Node], start: usize, places: &mut IdMap<u128, Option<usize>>) {
    for (at, node) in piece.iter().enumerate() {
        if let Some(place) = places.get_mut(&session.record(*node).id.number()) {
            *place = Some(start + at);
        }
    }
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
