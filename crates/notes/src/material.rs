//! What a text is written from: messages of one conversation, in its order.

use std::ops::Range;
use transcript::messages::{Message, MessagePart, MessageRole};

/// What stands first where a conversation lost its beginning, because it must not begin with an answer.
pub const CUT_MARKER: &str = "[Earlier parts of this conversation were left out because it was too long to summarise.]";

/// Messages of one part of one conversation: its main chain, without rewound branches, sub-agents and copies.
#[derive(Debug, Clone, Default)]
pub struct SourceMaterial<'m> {
    /// The working directory, which paths are shown against; empty if it is not known.
    pub root: &'m str,
    /// The messages, oldest first. A recorded summary (`is_summary`) stands for all that came before it.
    pub messages: Vec<&'m Message>,
    /// By message: the API call that it belongs to, by which messages are grouped when some must go.
    pub rounds: Vec<u32>,
    /// Groups that a retry dropped from the front.
    pub dropped: usize,
}

impl<'m> SourceMaterial<'m> {
    /// Of messages whose calls are not known: a call is taken to begin with the first answer after something else.
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
            dropped: 0,
        }
    }

    /// A part of it.
    pub fn slice(&self, range: Range<usize>) -> SourceMaterial<'m> {
        SourceMaterial {
            root: self.root,
            messages: self.messages[range.clone()].to_vec(),
            rounds: self.rounds[range].to_vec(),
            dropped: 0,
        }
    }

    /// What a backend that sends messages puts first: a marker in the user's name if the rest would begin with an answer.
    pub fn leading_marker(&self) -> Option<&'static str> {
        let is_answer = |message: &&Message| message.role == MessageRole::Assistant;
        (self.dropped > 0 && self.messages.first().is_some_and(is_answer)).then_some(CUT_MARKER)
    }

    /// First message of each group. A group is a response and what followed it, so that results stay with their calls.
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

    /// Everything that is said, called and answered, for sizes.
    pub fn text_units(message: &Message) -> u64 {
        let units = message.parts.iter().map(|part| match part {
            MessagePart::Text(text) | MessagePart::Result { text, .. } => text.len(),
            MessagePart::Call { name, input, .. } => name.len() + input.to_string().len(),
        });
        units.sum::<usize>() as u64
    }
}
