//! The text of a conversation: the messages of a chain in order, each with the API call that it belongs to.
//!
//! Threading works without text ([`transcript::thread`]). [`chain_lines`] says which lines of which logs to read;
//! [`Conversation::new`] puts the messages into the order of the chain. Rewound branches, sub-agents and copies are left out.

use crate::SourceMaterial;
use language::visible;
use smallvec::SmallVec;
use std::collections::{HashMap, HashSet};
use std::ops::Range;
use transcript::log::{RecordId, RecordKind};
use transcript::messages::{Message, MessageRole, PartSelection};
use transcript::thread::{Chain, Node, Session, ThreadedSession};

/// The parts of messages that texts are written from. Of long results and files, the start and the end are enough.
pub const CONVERSATION_FILTER: PartSelection = PartSelection {
    calls: &[],
    every_call: true,
    results: true,
    every_word: true,
    brief_results: false,
    longest: Some(6_000),
    files: false,
    notices: true,
    quiet_tools: &[],
    every_line: false,
};

/// The parts that the offline backend looks at: what a file or a search shows only counts if it could not be shown.
pub const OFFLINE_FILTER: PartSelection = PartSelection {
    quiet_tools: &[
        "Read",
        "NotebookRead",
        "Grep",
        "Glob",
        "LS",
        "Edit",
        "MultiEdit",
        "Write",
        "NotebookEdit",
        "WebFetch",
        "WebSearch",
        "ToolSearch",
        "Skill",
    ],
    ..CONVERSATION_FILTER
};

/// The messages of a chain.
#[derive(Debug, Default)]
pub struct Conversation {
    /// The title that the log gives the session; empty without one.
    pub title: String,
    /// Working directory of the first record that has one; may be empty.
    pub root: String,
    /// Branch that the client wrote into the last record that has one; may be empty.
    pub branch: String,
    pub messages: Vec<Message>,
    /// By message: its record; `None` for a queued prompt, which has no record in the chain.
    pub nodes: Vec<Option<Node>>,
    /// By message: index of the API call that sent it or that it answers; the number of calls for messages after the last
    /// call.
    pub calls: Vec<u32>,
    pub boundaries: Vec<MessageBoundary>,
}

/// A recorded compaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageBoundary {
    /// Index of the message after it.
    pub before: usize,
    pub node: Node,
}

/// Returns the records of a chain in order, each with its call.
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
    /// Index of the log in the session.
    pub part: u32,
    pub path: String,
    /// Line numbers, ascending.
    pub lines: Vec<u64>,
}

/// Returns the lines of the logs that a chain consists of.
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
    /// Puts messages, by index of their log as in [`chain_lines`], into the order of a chain.
    pub fn new(session: &Session<'_>, chain: &Chain, read: Vec<(u32, Vec<Message>)>) -> Conversation {
        let mut found = HashMap::<(u32, u64), SmallVec<[Message; 1]>>::new();
        let mut queued = Vec::new();
        for (part, messages) in read {
            for message in messages {
                match message.is_from_queue() {
                    true => queued.push((part, message)),
                    false => found.entry((part, message.line)).or_default().push(message),
                }
            }
        }
        let mut conversation = Conversation::default();
        let mut seen = HashSet::new();
        for (node, call) in chain_records(chain) {
            let record = session.record(node);
            if conversation.root.is_empty() {
                let log = session.log(node);
                // As in the paths of the messages, which are masked.
                conversation.root = visible::shown(log.string(log.scope_of(record).cwd)).into_owned();
            }
            let log = session.log(node);
            match log.string(log.scope_of(record).branch) {
                "" | "HEAD" => {}
                branch if branch != conversation.branch => conversation.branch = visible::shown(branch).into_owned(),
                _ => {}
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
            conversation.nodes.push(Some(node));
            conversation.calls.push(call);
        }
        conversation.insert_queued(session, chain, queued);
        conversation
    }

    /// Inserts what was queued while the model was working: before the response that came next in its log.
    fn insert_queued(&mut self, session: &Session<'_>, chain: &Chain, queued: Vec<(u32, Message)>) {
        if queued.is_empty() || chain.is_sidechain {
            return;
        }
        let branches = BranchLines::new(session, chain);
        let responses = ResponseLines::new(session, self);
        let mut seen = HashSet::new();
        let mut inserted = Vec::new();
        for (part, message) in queued {
            let is_of_session = message.session.is_empty() || message.session == session.id;
            if !is_of_session
                || branches.is_rewound_at(part, message.line)
                || !seen.insert((message.time, message.texts().collect::<String>()))
            {
                continue;
            }
            let at = responses.next_after(part, message.line).unwrap_or(self.messages.len());
            inserted.push((at, message));
        }
        inserted.sort_by_key(|(at, _)| *at);
        for boundary in &mut self.boundaries {
            boundary.before += inserted.partition_point(|(at, _)| *at < boundary.before);
        }
        let messages = std::mem::take(&mut self.messages);
        let nodes = std::mem::take(&mut self.nodes);
        let calls = std::mem::take(&mut self.calls);
        let mut inserted = inserted.into_iter().peekable();
        let mut push = |message: Message, node: Option<Node>, call: u32| {
            self.messages.push(message);
            self.nodes.push(node);
            self.calls.push(call);
        };
        for (at, ((message, node), call)) in messages.into_iter().zip(nodes).zip(calls).enumerate() {
            while let Some((_, queued)) = inserted.next_if(|(place, _)| *place <= at) {
                push(queued, None, call);
            }
            push(message, node, call);
        }
        for (_, queued) in inserted {
            push(queued, None, chain.rounds.len() as u32);
        }
    }

    /// Returns the number of messages without the notices that stand only in the queue.
    pub fn message_count(&self) -> usize {
        let is_notice = |message: &&Message| message.is_meta && message.is_from_queue();
        self.messages.len() - self.messages.iter().filter(is_notice).count()
    }

    /// Returns a part of the messages as source material.
    pub fn to_material(&self, range: Range<usize>) -> SourceMaterial<'_> {
        let messages = self.messages[range.clone()].iter().collect::<Vec<_>>();
        let rounds = std::iter::zip(&messages, &self.calls[range])
            .map(|(message, call)| call + u32::from(message.role == MessageRole::Assistant))
            .collect();
        SourceMaterial {
            root: &self.root,
            messages,
            rounds,
            state: None,
            dropped: 0,
        }
    }

    /// Returns the first message of the window that ends before message `end`: since the last compaction.
    pub fn window_start(&self, end: usize) -> usize {
        let boundaries = self.boundaries.iter().map(|boundary| boundary.before);
        let boundary = boundaries.filter(|before| *before < end).max();
        let summary = self.messages[..end].iter().rposition(|message| message.is_summary);
        boundary.max(summary).unwrap_or(0)
    }

    /// Returns the number of messages up to the answer of a call.
    pub fn message_count_after(&self, call: u32) -> usize {
        self.calls.partition_point(|other| *other <= call)
    }

    /// Finds the message of a record. A record without text maps to another message: a line of a response to the next line of
    /// it with text, or the last; any other record to the message `after` it, or the one before.
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
        // By record of the chain: the number of messages before it, the number up to it, and its call.
        let (mut known, mut passed) = (HashMap::new(), 0);
        for (node, call) in threaded.chains.first().into_iter().flat_map(chain_records) {
            let before = passed;
            while self.nodes.get(passed) == Some(&None) {
                passed += 1;
            }
            passed += usize::from(self.nodes.get(passed) == Some(&Some(node)));
            known.insert(node, (before, passed, call));
        }
        let (mut at, mut up_to) = (node, None);
        // Parents of records may form a cycle, so the number of steps is bounded.
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

/// The messages of the logs of a session by line, and whether each is on the chain.
struct BranchLines {
    /// Number of the log, line, whether the message is on the chain; ascending.
    lines: Vec<(u32, u64, bool)>,
}

impl BranchLines {
    fn new(session: &Session<'_>, chain: &Chain) -> BranchLines {
        let on_chain = chain_records(chain).map(|(node, _)| node).collect::<HashSet<_>>();
        let is_message = |node: &Node| {
            let is_message = matches!(session.kind(*node), RecordKind::User | RecordKind::Assistant);
            is_message && !session.log(*node).scope_of(session.record(*node)).is_sidechain
        };
        let line = |node: Node| {
            let line = u64::from(session.record(node).line);
            (session.part_number(node), line, on_chain.contains(&node))
        };
        let mut lines = session.own_nodes().filter(is_message).map(line).collect::<Vec<_>>();
        lines.sort_unstable();
        BranchLines { lines }
    }

    /// Returns whether a line of a log was written while the model worked on a branch that the user rewound.
    fn is_rewound_at(&self, part: u32, line: u64) -> bool {
        let end = self
            .lines
            .partition_point(|(other, at, _)| (*other, *at) < (part, line));
        let last = self.lines[..end].last().filter(|(other, _, _)| *other == part);
        last.is_some_and(|(_, _, is_on_chain)| !is_on_chain)
    }
}

/// By log: the lines of the responses of a conversation, to find the first after a line.
struct ResponseLines {
    /// The highest line up to a response, and the index of that response among the messages; in the order of the chain.
    by_part: HashMap<u32, Vec<(u64, usize)>>,
}

impl ResponseLines {
    fn new(session: &Session<'_>, conversation: &Conversation) -> ResponseLines {
        let mut by_part = HashMap::<u32, Vec<(u64, usize)>>::new();
        for (at, message) in conversation.messages.iter().enumerate() {
            let Some(node) = conversation.nodes[at].filter(|_| message.role == MessageRole::Assistant) else {
                continue;
            };
            let line = u64::from(session.record(node).line);
            let lines = by_part.entry(session.part_number(node)).or_default();
            let highest = lines.last().map_or(line, |(highest, _)| line.max(*highest));
            lines.push((highest, at));
        }
        ResponseLines { by_part }
    }

    /// Returns the index of the first response that stands after a line of a log.
    fn next_after(&self, part: u32, line: u64) -> Option<usize> {
        let lines = self.by_part.get(&part)?;
        let at = lines.partition_point(|(highest, _)| *highest <= line);
        lines.get(at).map(|(_, at)| *at)
    }
}

/// The place of a record in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordLocation {
    /// In the conversation: the message that it is or maps to.
    Message(usize),
    /// On a branch that was rewound.
    Rewound,
    /// In the conversation of a sub-agent.
    SubAgent,
    /// In the session, but in none of these.
    OffChain,
    /// In another session, or in none.
    NotInSession,
}
