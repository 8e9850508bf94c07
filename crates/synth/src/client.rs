//! What each version of the client writes and when it compacts: the one table of differences between eras.
//! `session` asks these questions; nothing else looks at version numbers.

/// How `output_tokens` is recorded over the lines of one response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputStyle {
    /// A streaming partial, repeated on all lines; the last line sometimes has the final count.
    Partial,
    /// A partial on all lines but the last, which has the final count and the stop reason.
    FinalOnLast,
    /// The final count on each line.
    FinalOnAll,
}

/// One released client, reduced to what shows in its logs.
#[derive(Clone, Copy, Debug)]
pub struct ClientRelease {
    pub version: &'static str,
    /// First moment of its use, milliseconds since 1970.
    pub since: u64,
    /// Models its sessions use; sub-agents may use a smaller one.
    pub models: &'static [&'static str],
    number: (u32, u32, u32),
}

const fn client(
    version: &'static str,
    number: (u32, u32, u32),
    since: u64,
    models: &'static [&'static str],
) -> ClientRelease {
    ClientRelease {
        version,
        since: since * 1000,
        models,
        number,
    }
}

const SONNET_4: &[&str] = &["claude-sonnet-4-20250514", "claude-opus-4-20250514"];
const FOUR_FIVE: &[&str] = &["claude-opus-4-5-20251101", "claude-sonnet-4-5-20250929"];
const FOUR_SIX: &[&str] = &["claude-opus-4-6", "claude-sonnet-4-6", "claude-opus-4-5-20251101"];
const FIVE: &[&str] = &["claude-opus-5", "claude-sonnet-5", "claude-opus-4-8"];
pub const SMALL_MODEL: &str = "claude-haiku-4-5-20251001";

/// The versions a bulk corpus is drawn from, oldest first.
pub const CLIENTS: &[ClientRelease] = &[
    client("1.0.43", (1, 0, 43), 1_751_700_000, SONNET_4),
    client("1.0.98", (1, 0, 98), 1_756_400_000, SONNET_4),
    client("1.0.128", (1, 0, 128), 1_758_900_000, SONNET_4),
    client("2.0.44", (2, 0, 44), 1_763_300_000, FOUR_FIVE),
    client("2.0.65", (2, 0, 65), 1_765_400_000, FOUR_FIVE),
    client("2.0.76", (2, 0, 76), 1_767_300_000, FOUR_FIVE),
    client("2.1.2", (2, 1, 2), 1_768_000_000, FOUR_FIVE),
    client("2.1.7", (2, 1, 7), 1_768_400_000, FOUR_FIVE),
    client("2.1.12", (2, 1, 12), 1_768_800_000, FOUR_FIVE),
    client("2.1.17", (2, 1, 17), 1_769_300_000, FOUR_FIVE),
    client("2.1.20", (2, 1, 20), 1_769_600_000, FOUR_FIVE),
    client("2.1.22", (2, 1, 22), 1_769_700_000, FOUR_FIVE),
    client("2.1.29", (2, 1, 29), 1_770_000_000, FOUR_FIVE),
    client("2.1.38", (2, 1, 38), 1_770_700_000, FOUR_SIX),
    client("2.1.42", (2, 1, 42), 1_771_000_000, FOUR_SIX),
    client("2.1.59", (2, 1, 59), 1_772_200_000, FOUR_SIX),
    client("2.1.76", (2, 1, 76), 1_773_700_000, FOUR_SIX),
    client("2.1.92", (2, 1, 92), 1_775_300_000, FOUR_SIX),
    client(
        "2.1.114",
        (2, 1, 114),
        1_776_500_000,
        &["claude-opus-4-7", "claude-sonnet-4-6"],
    ),
    client(
        "2.1.150",
        (2, 1, 150),
        1_779_600_000,
        &["claude-opus-4-8", "claude-sonnet-5"],
    ),
    client("2.1.212", (2, 1, 212), 1_784_400_000, FIVE),
    client("2.1.220", (2, 1, 220), 1_785_300_000, FIVE),
    client("2.1.226", (2, 1, 226), 1_786_200_000, FIVE),
];

/// The client of that version; cases name their client.
pub fn by_version(version: &str) -> ClientRelease {
    *CLIENTS
        .iter()
        .find(|client| client.version == version)
        .expect("cases name versions of the table")
}

impl ClientRelease {
    fn is_at_least(&self, number: (u32, u32, u32)) -> bool {
        self.number >= number
    }

    fn is_between(&self, first: (u32, u32, u32), last: (u32, u32, u32)) -> bool {
        self.number >= first && self.number <= last
    }

    pub fn output_style(&self) -> OutputStyle {
        if self.is_at_least((2, 1, 100)) {
            OutputStyle::FinalOnAll
        } else if self.is_at_least((2, 1, 45)) {
            OutputStyle::FinalOnLast
        } else {
            OutputStyle::Partial
        }
    }

    /// The envelope follows the message instead of leading it.
    pub fn has_late_envelope(&self) -> bool {
        self.is_at_least((2, 1, 91))
    }

    pub fn has_attachments(&self) -> bool {
        self.is_at_least((2, 1, 91))
    }

    pub fn has_progress(&self) -> bool {
        self.is_between((2, 1, 12), (2, 1, 81))
    }

    pub fn has_micro_compaction(&self) -> bool {
        self.is_between((2, 1, 12), (2, 1, 22))
    }

    pub fn has_preserved_segments(&self) -> bool {
        self.is_at_least((2, 1, 150))
    }

    pub fn has_snapshots(&self) -> bool {
        self.is_at_least((2, 0, 19))
    }

    pub fn has_summaries(&self) -> bool {
        !self.is_at_least((2, 1, 23))
    }

    /// Says after every turn how it is used, not only at the start.
    pub fn repeats_modes(&self) -> bool {
        self.is_at_least((2, 1, 150))
    }

    /// System records carry a subtype; 1.x has none.
    pub fn has_subtypes(&self) -> bool {
        self.is_at_least((2, 0, 0))
    }

    pub fn has_slug(&self) -> bool {
        self.is_at_least((2, 0, 65))
    }

    pub fn has_branch(&self) -> bool {
        self.is_at_least((1, 0, 98))
    }

    /// `cache_creation` with its 5-minute and 1-hour parts.
    pub fn splits_cache_writes(&self) -> bool {
        self.is_at_least((1, 0, 98))
    }

    pub fn has_iterations(&self) -> bool {
        self.is_at_least((2, 1, 100))
    }

    /// Whether the second copy of an edit holds the whole file of so many characters as it was before.
    pub fn keeps_original(&self, units: u64) -> bool {
        units < 10_000 || !self.is_at_least((2, 1, 150))
    }

    /// Edits are tracked one by one beside the snapshots.
    pub fn has_file_deltas(&self) -> bool {
        self.is_at_least((2, 1, 209))
    }

    /// Cache writes may live for an hour.
    pub fn may_write_for_an_hour(&self) -> bool {
        self.is_at_least((2, 1, 25))
    }

    /// Sub-agent logs live in `<session>/subagents/` instead of beside the session.
    pub fn nests_subagents(&self) -> bool {
        self.is_at_least((2, 1, 2))
    }

    /// Results of parallel calls hang on their own call; before, they were chained after the last one.
    pub fn results_hang_on_calls(&self) -> bool {
        self.is_at_least((2, 1, 0))
    }

    pub fn names_source_of_results(&self) -> bool {
        self.is_at_least((2, 1, 2))
    }

    pub fn agent_tool(&self) -> &'static str {
        if self.is_at_least((2, 1, 63)) { "Agent" } else { "Task" }
    }

    /// The larger window exists as a choice.
    pub fn may_have_large_window(&self) -> bool {
        self.is_at_least((2, 1, 45))
    }

    /// Automatic compaction fires at or above this context in a window of 200,000.
    pub fn threshold(&self) -> u64 {
        if self.is_at_least((2, 1, 21)) { 167_000 } else { 155_000 }
    }

    /// The automatic check counts the output as recorded, partial or not.
    pub fn checks_recorded_output(&self) -> bool {
        self.is_between((2, 1, 12), (2, 1, 29))
    }

    /// The automatic check adds an estimate of the user blocks since the last response.
    pub fn checks_trailing_blocks(&self) -> bool {
        self.is_at_least((2, 1, 5))
    }

    /// System prompt and tools at the first call.
    pub fn base_tokens(&self) -> u64 {
        if self.is_at_least((2, 1, 150)) {
            35_000
        } else if self.is_at_least((2, 1, 45)) {
            26_000
        } else if self.is_at_least((2, 1, 0)) {
            40_000
        } else {
            22_500
        }
    }
}

/// Characters per ten tokens of tool results, by model family.
pub fn chars_per_ten_tokens(model: &str) -> u64 {
    if model.starts_with("claude-opus-4-7") || model.starts_with("claude-opus-4-8") {
        22
    } else if model.ends_with("-5") && !model.contains("-4-5") {
        25
    } else {
        29
    }
}

/// Thinking of earlier turns is not sent again.
pub fn drops_thinking(model: &str) -> bool {
    model.starts_with("claude-sonnet-4-5")
}
