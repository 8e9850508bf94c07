//! How much of what the prompt cache holds a call can be expected to read.
//!
//! Rules say what a call reads when nothing goes wrong, and after events that break the cache ([`CacheMiss`]). Real calls
//! deviate in both directions: some read nothing although the log shows no reason, and some still read what should have
//! expired. Such calls are rare, but each costs as much as dozens of others, so bills without them are too low. What share
//! of the cache was lost in which situation was measured on logs (`cache_reads.json`, written by `examples/cachefit.rs`),
//! and bills are reduced by that share: no single bill is right, but their sum is.

use crate::policy::presets::ClientVersion;
use crate::sim::event::CacheMiss;
use crate::sim::trace::{Call, Trace};
use crate::tokens::ledger::Category;
use serde::{Deserialize, Serialize};
use std::sync::LazyLock;
use transcript::tools::tool_role;

named_enum! {
    /// What the share of the cache that a call reads depends on.
    pub enum ReadSituation {
        /// Inside a turn.
        Inside = "inside",
        /// A prompt starts a turn.
        Prompt = "prompt",
        /// A prompt after the user had interrupted the response.
        Interrupted = "interrupted",
        /// A client command inserted text.
        Command = "command",
        /// The log marks the ends of turns, but not that of the turn before this prompt: the client was probably restarted.
        Restart = "restart",
        /// The call before loaded tools.
        Tools = "tools",
        /// The call before invoked a skill.
        Skill = "skill",
        /// An explained miss: a switch of thinking, or text that a command of an old client inserted.
        Switched = "switched",
        /// An explained miss: the client was restarted.
        Resumed = "resumed",
        /// An explained miss: another model.
        Model = "model",
        /// An explained miss: a compaction.
        Compaction = "compaction",
        /// An explained miss: results were cleared.
        Cleared = "cleared",
        /// The entry expired less than ten seconds ago.
        JustExpired = "just-expired",
        /// The entry expired less than thirty seconds ago.
        LatelyExpired = "lately-expired",
        /// The entry expired before that.
        Expired = "expired",
    }
}

impl ReadSituation {
    /// Returns the situation of a call that misses the cache for a known reason; `None` for its first call. `late_ms` is the
    /// time since the entry expired.
    pub fn of_miss(miss: CacheMiss, late_ms: i64) -> Option<ReadSituation> {
        Some(match miss {
            CacheMiss::First | CacheMiss::Unexplained | CacheMiss::Tools | CacheMiss::Skill => return None,
            CacheMiss::Expired if late_ms < 10_000 => ReadSituation::JustExpired,
            CacheMiss::Expired if late_ms < 30_000 => ReadSituation::LatelyExpired,
            CacheMiss::Expired => ReadSituation::Expired,
            CacheMiss::Model => ReadSituation::Model,
            CacheMiss::Compaction => ReadSituation::Compaction,
            CacheMiss::Cleared => ReadSituation::Cleared,
            CacheMiss::Resume => ReadSituation::Resumed,
            CacheMiss::Switched => ReadSituation::Switched,
        })
    }

    /// Returns the reason for a miss that was not predicted.
    pub fn cause(self) -> CacheMiss {
        match self {
            ReadSituation::Restart => CacheMiss::Resume,
            ReadSituation::Command => CacheMiss::Switched,
            ReadSituation::Tools => CacheMiss::Tools,
            ReadSituation::Skill => CacheMiss::Skill,
            _ => CacheMiss::Unexplained,
        }
    }
}

/// Returns the situation of a call whose cache is warm.
pub fn situation_of(trace: &Trace, at: usize) -> ReadSituation {
    let call = &trace.calls[at];
    if call.continuity.is_expanded {
        return ReadSituation::Command;
    }
    if call.starts_turn {
        return match (call.continuity.is_interrupted, call.continuity.lacks_turn_end) {
            (true, _) => ReadSituation::Interrupted,
            (false, true) => ReadSituation::Restart,
            (false, false) => ReadSituation::Prompt,
        };
    }
    let before = at.checked_sub(1).map(|before| &trace.calls[before]);
    let called = |call: &Call, name: &str| {
        let calls = trace.items(&call.response).iter();
        let mut calls = calls.filter(|item| item.category == Category::ToolCall);
        calls.any(|item| tool_role(&trace.tools[usize::from(item.tool)], true) == name)
    };
    match before {
        Some(before) if called(before, "ToolSearch") => ReadSituation::Tools,
        Some(before) if called(before, "Skill") => ReadSituation::Skill,
        _ => ReadSituation::Inside,
    }
}

/// Shares are counted in millionths, because bills are integers.
pub const WHOLE: u64 = 1_000_000;

/// What is lost of the cache in one situation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LostShare {
    /// Expected share of the conversation that is not read, in millionths.
    pub lost: u64,
    /// Where the conversation is lost: expected share of system prompt and tools that is read, in millionths.
    pub base: u64,
}

impl LostShare {
    /// Returns the tokens that a call can be expected to read if the cache holds `held` tokens, of which a miss leaves `low`.
    pub fn expected_read(self, held: u64, low: u64) -> u64 {
        let low = low.min(held);
        let missed = held * self.lost / WHOLE;
        let left = low * self.lost / WHOLE * self.base / WHOLE;
        (held - missed + left).min(held)
    }
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostShareRow {
    pub situation: String,
    /// Lifetime of what the cache holds, `5m` or `1h`; none for both.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub life: Option<String>,
    /// First client version; none for all versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Calls that the shares rest on.
    pub calls: u64,
    pub lost: f64,
    pub base: f64,
}

/// The file of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LostShareFile {
    pub as_of: String,
    pub source: String,
    pub rows: Vec<LostShareRow>,
}

/// First versions of the ranges for which shares are measured apart.
pub const RANGES: [ClientVersion; 5] = [
    ClientVersion([0, 0, 0]),
    ClientVersion([2, 1, 21]),
    ClientVersion([2, 1, 45]),
    ClientVersion([2, 1, 91]),
    ClientVersion([2, 1, 200]),
];

/// Returns the number of the range of a version.
pub fn range_of(version: ClientVersion) -> usize {
    RANGES.partition_point(|from| *from <= version).saturating_sub(1)
}

/// The table, by situation, range of versions, and lifetime.
#[derive(Debug, Clone, PartialEq)]
pub struct CacheReads {
    shares: [[[Option<LostShare>; 2]; RANGES.len()]; ReadSituation::ALL.len()],
}

static BUILT_IN: LazyLock<CacheReads> = LazyLock::new(|| {
    // A unit test reads the same file, so this cannot fail in a released binary.
    let file = serde_json::from_str::<LostShareFile>(include_str!("cache_reads.json"));
    CacheReads::new(&file.unwrap_or_else(|error| unreachable!("cache_reads.json: {error}")))
});

impl CacheReads {
    /// Returns the built-in table.
    pub fn built_in() -> &'static CacheReads {
        &BUILT_IN
    }

    /// Builds the table. Of several rows that cover a case the most specific one counts.
    pub fn new(file: &LostShareFile) -> CacheReads {
        let mut shares = [[[None; 2]; RANGES.len()]; ReadSituation::ALL.len()];
        for (at, situation) in ReadSituation::ALL.iter().enumerate() {
            for (range, from) in RANGES.iter().enumerate() {
                for (is_hour, life) in ["5m", "1h"].iter().enumerate() {
                    let covers = |row: &&LostShareRow| {
                        row.situation == situation.name()
                            && row.life.as_deref().is_none_or(|own| own == *life)
                            && row.from.as_deref().is_none_or(|own| own == from.to_string())
                    };
                    let rows = file.rows.iter().filter(covers);
                    let row = rows.max_by_key(|row| (row.from.is_some(), row.life.is_some()));
                    shares[at][range][is_hour] = row.map(|row| LostShare {
                        lost: to_millionths(row.lost),
                        base: to_millionths(row.base),
                    });
                }
            }
        }
        CacheReads { shares }
    }

    /// Returns what is lost in a situation; `None` where nothing was measured, so that the rules alone say it.
    #[inline]
    pub fn share(&self, situation: ReadSituation, range: usize, is_hour: bool) -> Option<LostShare> {
        self.shares[situation as usize][range][usize::from(is_hour)]
    }
}

fn to_millionths(share: f64) -> u64 {
    (share.clamp(0.0, 1.0) * WHOLE as f64).round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(situation: &str, life: Option<&str>, from: Option<&str>, lost: f64) -> LostShareRow {
        LostShareRow {
            situation: situation.to_owned(),
            life: life.map(str::to_owned),
            from: from.map(str::to_owned),
            calls: 1,
            lost,
            base: 0.5,
        }
    }

    #[test]
    fn the_most_specific_row_counts() {
        let table = CacheReads::new(&LostShareFile {
            as_of: String::new(),
            source: String::new(),
            rows: vec![
                row("prompt", None, None, 0.1),
                row("prompt", Some("1h"), None, 0.2),
                row("prompt", Some("1h"), Some("2.1.200"), 0.3),
            ],
        });
        let lost = |situation, version: &str, is_hour| {
            let range = range_of(ClientVersion::parse(version).unwrap());
            table.share(situation, range, is_hour).map(|share| share.lost)
        };
        assert_eq!(lost(ReadSituation::Prompt, "2.1.199", false), Some(100_000));
        assert_eq!(lost(ReadSituation::Prompt, "2.1.199", true), Some(200_000));
        assert_eq!(lost(ReadSituation::Prompt, "2.1.201", true), Some(300_000));
        assert_eq!(lost(ReadSituation::Inside, "2.1.201", true), None);
    }

    #[test]
    fn an_expected_read_lies_between_all_and_what_a_miss_leaves() {
        let share = LostShare {
            lost: 250_000,
            base: 500_000,
        };
        // 100,000 - 25,000, and a quarter of half of 20,000.
        assert_eq!(share.expected_read(100_000, 20_000), 77_500);
        assert_eq!(LostShare::default().expected_read(100_000, 20_000), 100_000);
        let all = LostShare {
            lost: WHOLE,
            base: WHOLE,
        };
        assert_eq!(all.expected_read(100_000, 20_000), 20_000);
        assert_eq!(all.expected_read(10_000, 20_000), 10_000);
    }

    #[test]
    fn the_built_in_table_names_known_situations_and_ranges() {
        let file = serde_json::from_str::<LostShareFile>(include_str!("cache_reads.json")).unwrap();
        for row in &file.rows {
            assert!(
                ReadSituation::ALL.iter().any(|one| one.name() == row.situation),
                "{row:?}"
            );
            let range = row.from.as_deref().map(ClientVersion::parse);
            assert!(
                range.is_none_or(|from| from.is_some_and(|from| RANGES.contains(&from))),
                "{row:?}"
            );
            assert!(
                row.life.as_deref().is_none_or(|life| ["5m", "1h"].contains(&life)),
                "{row:?}"
            );
            assert!(
                (0.0..=1.0).contains(&row.lost) && (0.0..=1.0).contains(&row.base),
                "{row:?}"
            );
        }
        let table = CacheReads::built_in();
        let share = |situation| table.share(situation, RANGES.len() - 1, true).map(|share| share.lost);
        assert!(share(ReadSituation::Restart) > share(ReadSituation::Prompt));
        assert!(share(ReadSituation::Prompt) > share(ReadSituation::Inside));
    }
}
