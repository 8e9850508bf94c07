//! A conversation in words: the messages of a chain, in its order, each with the call that it belongs to.
//!
//! Threading works on numbers ([`crate::session::thread`]). It says which lines of which logs are wanted; once they are
//! read, they are put into the order of the chain here. Rewound branches, sub-agents and second copies stay out.

use super::Material;
use crate::input::messages::{Message, Role, Wanted};
use crate::session::log::{Id, RecordKind};
use crate::session::thread::{Chain, Node, Session};
use std::collections::{HashMap, HashSet};
use std::ops::Range;

/// What is read of the logs for texts. Of long results and files the edges tell what is needed.
pub const WANTED: Wanted = Wanted {
    calls: &[],
    every_call: true,
    results: true,
    queued: true,
    longest: Some(6_000),
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
    pub boundaries: Vec<Boundary>,
}

/// A recorded compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Boundary {
    /// The message that it stands before.
    pub before: usize,
    /// The record.
    pub node: Node,
}

/// The records of a chain in order, each with its call.
fn records<'c>(chain: &'c Chain) -> impl Iterator<Item = (Node, u32)> + 'c {
    let rounds = chain.rounds.iter().enumerate().flat_map(|(call, round)| {
        let nodes = round.inputs.iter().chain(&round.lines);
        nodes.map(move |node| (*node, call as u32))
    });
    let tail = chain.tail.iter().map(|node| (*node, chain.rounds.len() as u32));
    rounds.chain(tail)
}

/// Which lines of which logs of the session a chain is made of, ascending.
pub fn lines(session: &Session<'_>, chain: &Chain) -> Vec<(String, Vec<u64>)> {
    let mut lines = HashMap::<u32, Vec<u64>>::new();
    for (node, _) in records(chain) {
        let kinds = [RecordKind::User, RecordKind::Assistant, RecordKind::Attachment];
        if kinds.contains(&session.kind(node)) {
            let line = u64::from(session.record(node).line);
            lines.entry(session.part_number(node)).or_default().push(line);
        }
    }
    let mut lines = lines.into_iter().collect::<Vec<_>>();
    lines.sort_unstable_by_key(|(part, _)| *part);
    let mut named = Vec::new();
    for (part, mut lines) in lines {
        lines.sort_unstable();
        lines.dedup();
        named.push((session.path(part).to_owned(), lines));
    }
    named
}

impl Conversation {
    /// Puts messages, log by log as [`lines`] asked for them, into the order of a chain.
    pub fn new(session: &Session<'_>, chain: &Chain, read: Vec<(String, Vec<Message>)>) -> Conversation {
        let mut found = HashMap::<(String, u64), Vec<Message>>::new();
        for (path, messages) in read {
            for message in messages {
                found.entry((path.clone(), message.line)).or_default().push(message);
            }
        }
        let mut conversation = Conversation::default();
        let mut seen = HashSet::new();
        for (node, call) in records(chain) {
            let record = session.record(node);
            if conversation.root.is_empty() {
                let log = session.log(node);
                log.string(log.scope_of(record).cwd).clone_into(&mut conversation.root);
            }
            if session.kind(node) == RecordKind::Boundary {
                conversation.boundaries.push(Boundary {
                    before: conversation.messages.len(),
                    node,
                });
            }
            let place = (
                session.path(session.part_number(node)).to_owned(),
                u64::from(record.line),
            );
            let Some(candidates) = found.get_mut(&place) else {
                continue;
            };
            let is_it = |message: &Message| Id::read(message.uuid.as_bytes()).0 == record.id;
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
    pub fn material(&self, range: Range<usize>) -> Material<'_> {
        let messages = self.messages[range.clone()].iter().collect::<Vec<_>>();
        let rounds = std::iter::zip(&messages, &self.calls[range])
            .map(|(message, call)| call + u32::from(message.role == Role::Assistant))
            .collect();
        Material {
            root: &self.root,
            messages,
            rounds,
            dropped: 0,
        }
    }

    /// How many messages had been said once a call was answered.
    pub fn after_call(&self, call: u32) -> usize {
        self.calls.partition_point(|other| *other <= call)
    }

    /// The message of a record.
    pub fn find(&self, uuid: &str) -> Option<usize> {
        self.messages.iter().position(|message| message.uuid == uuid)
    }
}
