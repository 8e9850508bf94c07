//! Logs of other agents: Codex, OpenCode and Pi.
//!
//! Like `session`, the writers here count the truth while they write, so what a reader finds can be compared with it.
//! `codex`, `opencode` and `pi` know the formats; `cases` writes the bundled ones, `bulk` any amount.

mod bulk;
mod cases;
mod codex;
mod opencode;
mod pi;

pub use bulk::{SynthAgent, write_agent_bulk};
pub(super) use cases::CASES;

use crate::truth::TruthTally;

/// Folder that the imaginary sessions ran in.
const CWD: &str = "/home/dev/projects/orchard";

/// First second of the imaginary sessions: 2026-05-05 16:00 UTC.
const START: u64 = 1_778_000_400_000;

/// Token counts of a call, each token in one of them. Output includes reasoning.
#[derive(Debug, Clone, Copy, Default)]
struct AgentUsage {
    /// Input that was not read from a cache.
    fresh: u64,
    cached: u64,
    output: u64,
    /// The part of the output that is reasoning.
    reasoning: u64,
}

impl AgentUsage {
    /// Returns what the call was sent and what came back.
    fn total(self) -> u64 {
        self.fresh + self.cached + self.output
    }

    fn plus(self, other: AgentUsage) -> AgentUsage {
        AgentUsage {
            fresh: self.fresh + other.fresh,
            cached: self.cached + other.cached,
            output: self.output + other.output,
            reasoning: self.reasoning + other.reasoning,
        }
    }

    fn tally(self) -> TruthTally {
        TruthTally {
            responses: 1,
            input_tokens: self.fresh,
            output_tokens: self.output,
            cache_read_tokens: self.cached,
            ..TruthTally::default()
        }
    }
}

/// Returns a usage.
const fn usage(fresh: u64, cached: u64, output: u64, reasoning: u64) -> AgentUsage {
    AgentUsage {
        fresh,
        cached,
        output,
        reasoning,
    }
}
