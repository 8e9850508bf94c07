//! The source of a text: messages of one conversation, in order.

use crate::offline::digest::CarriedState;
use std::ops::Range;
use transcript::messages::{Message, MessagePart, MessageRole};

/// First message of a conversation that lost its beginning: it must not begin with an answer.
pub const CUT_MARKER: &str = "[Earlier parts of this conversation were left out because it was too long to summarise.]";

/// Messages of a part of a conversation: its main chain, without rewound branches, sub-agents and copies.
#[derive(Debug, Clone, Default)]
pub struct SourceMaterial<'m> {
    /// The working directory; empty if unknown. Paths are shown relative to it.
    pub root: &'m str,
    /// The messages, oldest first. A recorded summary (`is_summary`) replaces all messages before it.
    pub messages: Vec<&'m Message>,
    /// By message: the API call that it belongs to. Retries drop whole calls.
    pub rounds: Vec<u32>,
    /// What holds before the first message; the state of a new session without it.
    pub state: Option<&'m CarriedState>,
    /// Number of groups that a retry dropped from the front.
    pub dropped: usize,
}

impl<'m> SourceMaterial<'m> {
    /// From messages without known API calls: a call begins with the first assistant message after another one.
    pub fn from_messages(messages: impl IntoIterator<Item = &'m Message>) -> SourceMaterial<'m> {
        let messages = messages.into_iter().collect::<Vec<_>>();
        let mut rounds = Vec::with_capacity(messages.len());
        let (mut round, mut was_answer) = (0, false);
        for message in &messages {
            let is_answer = message.role == MessageRole::Assistant;
            round += u32::from(is_answer && !was_answer);
            was_answer = is_answer;
            rounds.push(round);
        }
        SourceMaterial {
            root: "",
            messages,
            rounds,
            state: None,
            dropped: 0,
        }
    }

    /// Returns a part of the messages.
    pub fn slice(&self, range: Range<usize>) -> SourceMaterial<'m> {
        SourceMaterial {
            root: self.root,
            messages: self.messages[range.clone()].to_vec(),
            rounds: self.rounds[range].to_vec(),
            state: self.state,
            dropped: 0,
        }
    }

    /// Returns the marker to send first; `None` if the messages do not begin with an answer that lost its prompt.
    pub fn leading_marker(&self) -> Option<&'static str> {
        let is_answer = |message: &&Message| message.role == MessageRole::Assistant;
        (self.dropped > 0 && self.messages.first().is_some_and(is_answer)).then_some(CUT_MARKER)
    }

    /// Returns the first message of each group. A group is a response and the messages after it, so that results stay with
    /// their calls.
    pub fn group_starts(&self) -> Vec<usize> {
        let mut starts = Vec::new();
        for at in 0..self.messages.len() {
            let is_new = at == 0 || self.rounds[at] != self.rounds[at - 1];
            if is_new {
                starts.push(at);
            }
        }
        starts
    }

    /// Returns the size of a message in bytes: texts, calls and results.
    pub fn text_units(message: &Message) -> u64 {
        let units = message.parts.iter().map(|part| match part {
            MessagePart::Text(text) | MessagePart::Result { text, .. } => text.len(),
            MessagePart::Call { name, input, .. } => name.len() + input.to_string().len(),
            MessagePart::Reply(_) => 0,
        });
        units.sum::<usize>() as u64
    }
}
