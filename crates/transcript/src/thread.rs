//! Threading: finds the records of a session's conversation and their order.
//!
//! File order is not conversation order. A chain runs from the newest message back over `parentUuid`; it crosses a
//! boundary by the boundary's logical parent; a record whose parent was never written is joined to the record before
//! it. Two kinds of records are off the chain but belong to it: other lines of its responses, and results of parallel
//! calls. What is left are branches that the user rewound. Sub-agents have chains of their own.
//!
//! The result is a list of [`Round`]s: what was added since the last API call, then one response.

mod calls;
mod chain;
mod session;
#[cfg(test)]
mod tests;

pub use session::{Node, Session, SessionLog};

use crate::build::IdMap;
use crate::problem::Problem;
use calls::check_call_pairs;
use chain::ChainWalk;
use session::{LinkTarget, record_flag};
use smallvec::SmallVec;

/// A short list of nodes, stored inline: most rounds have no more than four.
pub type Nodes = SmallVec<[Node; 4]>;

/// One API call: what was added since the previous one, and the response.
#[derive(Debug, Clone, Default)]
pub struct Round {
    /// Records added since the previous response.
    pub inputs: Nodes,
    /// Lines of the response.
    pub lines: Nodes,
    /// Number of its turn, from 0.
    pub turn: u32,
    /// Records between the previous round and this one were never written.
    pub is_after_hole: bool,
    /// The client wrote a response itself in between, as it does when a session is resumed.
    pub is_after_restart: bool,
    /// The client marked the end of the turn before it.
    pub is_after_turn_end: bool,
}

/// The conversation of a main agent or of one sub-agent.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    /// Id of the sub-agent; empty for the main agent (and for old sub-agents, which had none).
    pub agent: String,
    /// The chain of a sub-agent.
    pub is_sidechain: bool,
    /// The API calls, in order.
    pub rounds: Vec<Round>,
    /// Records added after the last response.
    pub tail: Nodes,
    /// Inputs that are off the parent chain, in order: results of parallel calls. A restarted client follows the parent
    /// chain only, and so loses them.
    pub off_chain_inputs: Vec<Node>,
}

/// The result of threading a session.
#[derive(Debug, Default)]
pub struct ThreadedSession {
    /// The main chain first, then those of sub-agents.
    pub chains: Vec<Chain>,
    /// Records on rewound branches.
    pub rewound: Vec<Node>,
    /// Number of rewound branches.
    pub branches: u32,
    /// Problems found on the way.
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
    let main = ChainGroup {
        agent: String::new(),
        is_sidechain: false,
        nodes: main,
    };
    let mut is_taken = vec![false; session.hot_records.len()];
    let mut problems = Vec::new();
    for group in std::iter::once(main).chain(group_sidechains(session, side)) {
        let agent = group.is_sidechain.then_some(group.agent.as_str());
        let walk = ChainWalk::new(session, agent, &group.nodes, is_taken, &mut problems);
        let mut chain;
        (chain, is_taken) = walk.run(&mut threaded);
        chain.agent = group.agent;
        chain.is_sidechain = group.is_sidechain;
        check_call_pairs(session, &chain, &mut problems);
        if chain.is_sidechain {
            // A session may have very many sub-agents, most of them with a call or two.
            chain.rounds.shrink_to_fit();
        }
        threaded.chains.push(chain);
    }
    threaded.problems = session.make_problems(problems);
    threaded
}

/// The candidate records of one chain, in file order.
struct ChainGroup {
    agent: String,
    is_sidechain: bool,
    nodes: Vec<Node>,
}

/// Groups sidechain records by sub-agent id or, without an id, by the first record of their chain.
fn group_sidechains(session: &Session<'_>, nodes: Vec<Node>) -> Vec<ChainGroup> {
    let mut groups = Vec::<ChainGroup>::new();
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
            groups.push(ChainGroup {
                agent: agent.to_owned(),
                is_sidechain: true,
                nodes: Vec::new(),
            });
            groups.len() - 1
        });
        if !agent.is_empty() {
            group_of_agent.insert(agent.to_owned(), group);
        }
        group_of_node.insert(u64::from(node), group);
        groups[group].nodes.push(node);
    }
    groups.sort_by(|a, b| a.agent.cmp(&b.agent).then(a.nodes.first().cmp(&b.nodes.first())));
    groups
}

/// Returns whether the chain of a sub-agent belongs to the client itself: its summarizer, or a question it asked aside. Such
/// a chain starts with a copy of the conversation.
pub fn is_client_chain(agent: &str) -> bool {
    ["acompact", "aside_question"]
        .iter()
        .any(|kind| agent.starts_with(kind))
}

/// Returns whether a record is a prompt: typed or run by a person, not a tool result and not inserted by the client.
pub fn is_prompt(session: &Session<'_>, node: Node) -> bool {
    session.has_flag(node, record_flag::PROMPT)
}

/// Returns the line of a response that says what was sent: the first one with the usage that the last line has. Some gateways
/// write usage on the last line only, or a guess on the lines before it. It is the first line if none has usage.
pub fn usage_line(session: &Session<'_>, round: &Round) -> Node {
    let sent = |line: &Node| session.response(*line).map_or(0, |line| line.context().input_side());
    let complete = round.lines.iter().rev().map(sent).find(|sent| *sent > 0);
    let first = complete.and_then(|complete| round.lines.iter().find(|line| sent(line) == complete));
    *first.unwrap_or(&round.lines[0])
}

/// Returns whether a round starts a turn, that is, has a prompt among its inputs.
pub fn starts_turn(session: &Session<'_>, round: &Round) -> bool {
    round.inputs.iter().any(|node| is_prompt(session, *node))
}
