//! A conversation in words: the messages of a chain, in its order, each with the call that it belongs to.
//!
//! Threading works on numbers ([`transcript::thread`]). It says which lines of which logs are wanted; once they are
//! read, they are put into the order of the chain here. Rewound branches, sub-agents and second copies stay out.

use crate::SourceMaterial;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use transcript::log::{RecordId, RecordKind};
use transcript::messages::{Message, MessageRole, PartSelection};
use transcript::thread::{Chain, Node, Session, ThreadedSession};

/// What is read of the logs for texts. Of long results and files the edges tell what is needed.
pub const CONVERSATION_FILTER: PartSelection = PartSelection {
    calls: &[],
    every_call: true,
    results: true,
    queued: true,
    longest: Some(6_000),
    every_line: false,
};

/// A chain in words.
#[derive(Debug, Default)]
pub struct Conversation {
    /// Working directory of the first record; empty if none names one.
    pub root: String,
    /// Its messages.
    pub messages: Vec<Message>,
    /// By message: its record.
    pub nodes: Vec<Node>,
    /// By message: the API call that it was sent with or that it answers; the number of calls for what came last.
    pub calls: Vec<u32>,
    /// Compactions among the messages.
    pub boundaries: Vec<MessageBoundary>,
}

/// A recorded compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBoundary {
    /// The message that it stands before.
    pub before: usize,
    /// The record.
    pub node: Node,
}

/// The records of a chain in order, each with its call.
fn chain_records<'c>(chain: &'c Chain) -> impl Iterator<Item = (Node, u32)> + 'c {
    let rounds = chain.rounds.iter().enumerate().flat_map(|(call, round)| {
        let nodes = round.inputs.iter().chain(&round.lines);
        nodes.map(move |node| (*node, call as u32))
    });
    let tail = chain.tail.iter().map(|node| (*node, chain.rounds.len() as u32));
    rounds.chain(tail)
}

/// Lines of one log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLines {
    /// Number of the log in the session.
    pub part: u32,
    /// Where it lies.
    pub path: String,
    /// The lines, ascending.
    pub lines: Vec<u64>,
}

/// Which lines of which logs of the session a chain is made of.
pub fn chain_lines(session: &Session<'_>, chain: &Chain) -> Vec<LogLines> {
    let mut wanted = Vec::<(u32, u64)>::new();
    for (node, _) in chain_records(chain) {
        let kinds = [RecordKind::User, RecordKind::Assistant, RecordKind::Attachment];
        if kinds.contains(&session.kind(node)) {
            wanted.push((session.part_number(node), u64::from(session.record(node).line)));
        }
    }
    wanted.sort_unstable();
    wanted.dedup();
    let parts = wanted.chunk_by(|a, b| a.0 == b.0);
    let of_part = |part: &[(u32, u64)]| LogLines {
        part: part[0].0,
        path: session.path(part[0].0).to_owned(),
        lines: part.iter().map(|(_, line)| *line).collect(),
    };
    parts.map(of_part).collect()
}

impl Conversation {
    /// Puts messages, by number of their log as `lines` asked for them, into the order of a chain.
    pub fn new(session: &Session<'_>, chain: &Chain, read: Vec<(u32, Vec<Message>)>) -> Conversation {
        let mut found = HashMap::<(u32, u64), SmallVec<[Message; 1]>>::new();
        for (part, messages) in read {
            for message in messages {
                found.entry((part, message.line)).or_default().push(message);
            }
        }
        let mut conversation = Conversation::default();
        let mut seen = HashSet::new();
        for (node, call) in chain_records(chain) {
            let record = session.record(node);
            if conversation.root.is_empty() {
                let log = session.log(node);
                log.string(log.scope_of(record).cwd).clone_into(&mut conversation.root);
            }
            if session.kind(node) == RecordKind::Boundary {
                conversation.boundaries.push(MessageBoundary {
                    before: conversation.messages.len(),
                    node,
                });
            }
            let place = (session.part_number(node), u64::from(record.line));
            let Some(candidates) = found.get_mut(&place) else {
                continue;
            };
            let is_it = |message: &Message| RecordId::read(message.uuid.as_bytes()).0 == record.id;
            let Some(at) = candidates
                .iter()
                .position(is_it)
                .or((candidates.len() == 1).then_some(0))
            else {
                continue;
            };
            let message = candidates.swap_remove(at);
            if !message.uuid.is_empty() && !seen.insert(record.id) {
                continue;
            }
            conversation.messages.push(message);
            conversation.nodes.push(node);
            conversation.calls.push(call);
        }
        conversation
    }

    /// A part of it as material.
    pub fn to_material(&self, range: Range<usize>) -> SourceMaterial<'_> {
        let messages = self.messages[range.clone()].iter().collect::<Vec<_>>();
        let rounds = std::iter::zip(&messages, &self.calls[range])
            .map(|(message, call)| call + u32::from(message.role == MessageRole::Assistant))
            .collect();
        SourceMaterial {
            root: &self.root,
            messages,
            rounds,
            dropped: 0,
        }
    }

    /// How many messages had been said once a call was answered.
    pub fn message_count_after(&self, call: u32) -> usize {
        self.calls.partition_point(|other| *other <= call)
    }

    /// Where the record of that id stands. One without words stands for a message: a line of a response for the next line
    /// of it that has some, or the last; anything else for the message `after` it, or the one before.
    pub fn locate_record(
        &self,
        session: &Session<'_>,
        threaded: &ThreadedSession,
        uuid: &str,
        after: bool,
    ) -> RecordLocation {
        let is_it = |message: &Message| message.uuid == uuid;
        if let Some(found) = self.messages.iter().position(is_it) {
            return RecordLocation::Message(found);
        }
        let (id, _) = RecordId::read(uuid.as_bytes());
        let own = session.own_nodes().collect::<Vec<_>>();
        let Some(&node) = own.iter().find(|node| session.record(**node).id == id) else {
            return RecordLocation::NotInSession;
        };
        let log = session.log(node);
        if log.scope_of(session.record(node)).is_sidechain {
            return RecordLocation::SubAgent;
        }
        // By record of the chain: how many messages stand before it, how many up to it, and its call.
        let (mut known, mut passed) = (HashMap::new(), 0);
        for (node, call) in threaded.chains.first().into_iter().flat_map(chain_records) {
            let before = passed;
            passed += usize::from(self.nodes.get(passed) == Some(&node));
            known.insert(node, (before, passed, call));
        }
        let (mut at, mut up_to) = (node, None);
        // Records may follow each other in a circle.
        for _ in &own {
            if threaded.rewound.contains(&at) {
                return RecordLocation::Rewound;
            }
            up_to = known.get(&at);
            match (up_to, session.parent(at)) {
                (None, Some(parent)) => at = parent,
                _ => break,
            }
        }
        let (Some(&(before, up_to, call)), Some(last)) = (up_to, self.messages.len().checked_sub(1)) else {
            return RecordLocation::OffChain;
        };
        let next = if at == node { before } else { up_to };
        let is_line = |at: &usize| self.calls[*at] == call && self.messages[*at].role == MessageRole::Assistant;
        let line = (session.kind(node) == RecordKind::Assistant)
            .then(|| (next..=last).find(is_line).or_else(|| (0..next).rfind(is_line)));
        let beside = if after { next.min(last) } else { next.saturating_sub(1) };
        RecordLocation::Message(line.flatten().unwrap_or(beside))
    }
}

/// Where a record stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordLocation {
    /// In the conversation: the message that it is or stands for.
    Message(usize),
    /// On a branch that was rewound.
    Rewound,
    /// In the conversation of a sub-agent.
    SubAgent,
    /// In the session, and in none of these.
    OffChain,
    /// In another session, or in none.
    NotInSession,
}
