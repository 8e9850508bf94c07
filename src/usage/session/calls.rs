//! The API calls of one session: what was billed, and which records are of the same call. `super::RecordTotals` merges calls
//! inside a session with this, `crate::usage::summary` merges them across sessions.

use serde::{Deserialize, Serialize};
use transcript::build::IdMap;
use transcript::log::{NO_TIME, Time, hash_api_id};
use transcript::record::Tokens;

/// One API call, as far as the records of one session show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct BilledCall {
    /// Hash of the message id; 0 if it has none.
    pub message: u64,
    /// Hash of the request id; 0 if it has none.
    pub request: u64,
    /// What was billed: the most complete line.
    pub tokens: Tokens,
    /// What the model was sent at the (last) iteration.
    pub window: u64,
    /// When the first line was written.
    pub time: Time,
    /// Number of the model in [`SessionReport::names`](super::SessionReport::names).
    pub model: u32,
    /// Number of the git branch.
    pub branch: u32,
    /// Number of the working directory.
    pub cwd: u32,
    /// Number of the sub-agent; 0 for the main agent.
    pub agent: u32,
    /// Made by a sub-agent.
    pub is_sidechain: bool,
    /// Made by the client for itself, to write a summary or ask a question aside.
    pub is_client: bool,
    /// Seen only in a progress record.
    pub is_progress: bool,
    /// All its lines are copies that another session owns.
    pub is_copied: bool,
    /// On a rewound branch.
    pub is_rewound: bool,
    /// Made within the response of another call: advice of another model, a model that declined.
    pub is_inner: bool,
    /// In a conversation that can be replayed: of the main agent or of a sub-agent.
    pub is_threaded: bool,
    /// Several sessions have records of it.
    pub is_retold: bool,
    /// Estimated output beyond what the log has, if that is a count from the middle of the stream.
    pub output_rest: u64,
}

/// Where a call belongs in its session. Every call has one place, so that parts add up to all calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallPlace {
    /// In a conversation: what can be replayed.
    Conversation,
    /// Within the response of another call.
    WithinResponse,
    /// On a branch that the user rewound.
    RewoundBranch,
    /// Made by the client for itself: summaries at compactions, questions aside.
    ClientItself,
    /// Beside the conversations.
    Elsewhere,
}

impl BilledCall {
    /// Returns where it belongs in its session.
    pub fn place(&self) -> CallPlace {
        match () {
            () if self.is_client => CallPlace::ClientItself,
            () if self.is_threaded && self.is_inner => CallPlace::WithinResponse,
            () if self.is_threaded => CallPlace::Conversation,
            () if self.is_rewound => CallPlace::RewoundBranch,
            () => CallPlace::Elsewhere,
        }
    }

    /// Returns whether two records with one message id are of one call: their requests do not contradict each other.
    pub fn is_same(&self, other: &BilledCall) -> bool {
        self.message == other.message && (self.request == other.request || self.request == 0 || other.request == 0)
    }

    /// Message and request in one.
    fn key(&self) -> u128 {
        u128::from(self.message) << 64 | u128::from(self.request)
    }

    /// How good a record is as a source; the one with the smallest rank says where a call belongs.
    pub fn ownership_rank(&self) -> (bool, bool, bool) {
        (self.is_progress, self.is_copied, self.is_sidechain)
    }

    /// Takes in another record of the same call: the most complete counts, the place from the record with the smaller rank.
    pub fn merge(&mut self, other: &BilledCall) {
        let fullness = |call: &BilledCall| (call.tokens.output, call.tokens.total());
        let (fuller, less) = match fullness(other) > fullness(self) {
            true => (*other, *self),
            false => (*self, *other),
        };
        // The estimate of the fuller record counts; else that of the other one, less what the fuller one adds.
        let added = fuller.tokens.output.saturating_sub(less.tokens.output);
        self.output_rest = match fuller.is_threaded {
            true => fuller.output_rest,
            false => less.output_rest.saturating_sub(added),
        };
        self.tokens = fuller.tokens;
        self.window = fuller.window;
        self.request = self.request.max(other.request);
        self.time = match (self.time, other.time) {
            (NO_TIME, time) | (time, NO_TIME) => time,
            (a, b) => a.min(b),
        };
        if other.ownership_rank() < self.ownership_rank() {
            let BilledCall {
                tokens,
                window,
                request,
                time,
                output_rest,
                ..
            } = *self;
            *self = BilledCall {
                tokens,
                window,
                request,
                time,
                output_rest,
                ..*other
            };
        }
    }
}

/// Finds an earlier record of the same call, in a list that the caller keeps.
#[derive(Default)]
pub struct CallIndex {
    first: IdMap<u64, u32>,
    /// Message id asked for last, and where its first call is: lines of a call mostly follow one another.
    latest: Option<(u64, u32)>,
    /// Further calls with a message id that is known but another request, by both. They all have a request: one without is the
    /// same as any other with its message.
    others: IdMap<u128, u32>,
    /// Calls whose message id is not the API's, by request: forks write a fresh id on every line.
    requests: IdMap<u64, u32>,
}

impl CallIndex {
    /// An index with room for as many calls.
    pub fn with_capacity(calls: usize) -> CallIndex {
        let mut index = CallIndex::default();
        index.first.reserve(calls);
        index
    }

    /// Place of the same call; `call_at` gives the calls of the list.
    pub fn find<'a>(&mut self, call: &BilledCall, call_at: impl Fn(u32) -> &'a BilledCall) -> Option<u32> {
        if call.message == 0 {
            return None;
        }
        let first = match self.latest {
            Some((message, first)) if message == call.message => Some(first),
            _ => self.first.get(&call.message).copied(),
        };
        let by_message = first.and_then(|first| {
            self.latest = Some((call.message, first));
            match call.is_same(call_at(first)) {
                true => Some(first),
                false => self.others.get(&call.key()).copied(),
            }
        });
        by_message.or_else(|| self.requests.get(&call.request).copied())
    }

    /// Remembers where a call that was not found is put.
    pub fn insert(&mut self, call: &BilledCall, at: u32) {
        if call.message == 0 {
            return;
        }
        if call.request != 0 {
            self.requests.entry(call.request).or_insert(at);
        }
        let first = *self.first.entry(call.message).or_insert(at);
        self.latest = Some((call.message, first));
        if first != at {
            self.others.entry(call.key()).or_insert(at);
        }
    }
}

/// Returns the id of a call within a response, by its number there, from 1.
pub(super) fn inner_call_key(response: u64, number: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&response.to_le_bytes());
    bytes[8..].copy_from_slice(&number.to_le_bytes());
    hash_api_id(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_one_message_are_told_apart_by_their_request() {
        let call = |message: u64, request: u64| BilledCall {
            message,
            request,
            ..BilledCall::default()
        };
        let calls = [call(7, 1), call(7, 2), call(8, 0), call(7, 3), call(0, 1), call(0, 1)];
        let mut index = CallIndex::default();
        let at = |number: u32| &calls[number as usize];
        for (number, call) in std::iter::zip(0.., &calls) {
            assert_eq!(index.find(call, at), None, "{number}");
            index.insert(call, number);
        }
        let mut found = |message: u64, request: u64| index.find(&call(message, request), at);
        assert_eq!(
            [found(7, 1), found(7, 2), found(7, 3), found(7, 4)],
            [Some(0), Some(1), Some(3), None]
        );
        // Without a request it is the first one's, and one without a request takes any.
        assert_eq!([found(7, 0), found(8, 5), found(0, 1)], [Some(0), Some(2), None]);
    }
}
