//! Pairs tool calls with their results.

use super::Chain;
use super::session::{Node, Session};
use crate::build::IdMap;
use crate::log::BlockKind;
use crate::problem::ProblemKind;
use smallvec::SmallVec;

/// Reports results without calls and calls without results. Calls of the last round may still be running.
pub(super) fn check_call_pairs(session: &Session<'_>, chain: &Chain, problems: &mut Vec<(Node, ProblemKind)>) {
    let mut open = OpenCalls::default();
    for (at, round) in chain.rounds.iter().enumerate() {
        for &node in &round.inputs {
            for block in session.blocks(node) {
                if block.kind == BlockKind::ToolResult && !open.take_answer(block.call) && block.name == 0 {
                    problems.push((node, ProblemKind::ResultWithoutCall));
                }
            }
        }
        if at + 1 == chain.rounds.len() {
            break;
        }
        open.next_round();
        for &line in &round.lines {
            for block in session.blocks(line) {
                if block.kind == BlockKind::ToolCall && block.call != 0 {
                    open.add_call(block.call, line);
                }
            }
        }
    }
    let own = open
        .into_unanswered()
        .into_iter()
        .filter(|node| !session.is_copied(*node));
    problems.extend(own.map(|node| (node, ProblemKind::CallWithoutResult)));
}

/// Calls that wait for their result. Nearly all are answered in the next round, so only older ones need a map.
#[derive(Default)]
struct OpenCalls {
    recent: SmallVec<[(u64, Node); 8]>,
    older: IdMap<u64, Node>,
}

impl OpenCalls {
    fn add_call(&mut self, call: u64, node: Node) {
        // A call that is written twice counts once.
        self.take_answer(call);
        if self.recent.len() == self.recent.inline_size() {
            self.next_round();
        }
        self.recent.push((call, node));
    }

    /// Removes a call. Returns whether it was waiting for its result.
    fn take_answer(&mut self, call: u64) -> bool {
        if let Some(at) = self.recent.iter().position(|(open, _)| *open == call) {
            self.recent.swap_remove(at);
            return true;
        }
        !self.older.is_empty() && self.older.remove(&call).is_some()
    }

    fn next_round(&mut self) {
        self.older.extend(self.recent.drain(..));
    }

    /// Returns the records of the calls that were never answered, in order.
    fn into_unanswered(mut self) -> Vec<Node> {
        self.next_round();
        let mut left = self.older.into_values().collect::<Vec<_>>();
        left.sort_unstable();
        left
    }
}
