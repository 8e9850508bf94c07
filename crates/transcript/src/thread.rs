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
        let walk = ChainWalk::new(session, is_sidechain.then_some(agent.as_str()), &nodes, taken);
        let mut chain;
        (chain, taken) = walk.run(&mut threaded);
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

/// Whether a record is a prompt: something a person typed or ran, not a tool result and not put in by the client.
pub fn is_prompt(session: &Session<'_>, node: Node) -> bool {
    session.has_flag(node, record_flag::PROMPT)
}

/// Whether a round is the first of a turn: something was asked.
pub fn starts_turn(session: &Session<'_>, round: &Round) -> bool {
    round.inputs.iter().any(|node| is_prompt(session, *node))
}
