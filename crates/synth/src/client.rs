//! What each client version writes and when it compacts. All differences between versions are in this file; the rest of
//! the generator never compares version numbers.

/// How the lines of one response record `output_tokens`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OutputStyle {
    /// A count from the middle of the stream on all lines; the last line sometimes has the final count.
    Partial,
    /// A count from the middle of the stream on all lines but the last, which has the final count and the stop reason.
    FinalOnLast,
    /// The final count on every line.
    FinalOnAll,
}

/// A client release, reduced to what shows in its logs.
#[derive(Clone, Copy, Debug)]
pub struct ClientRelease {
    pub version: &'static str,
    /// Start of its use, in milliseconds since 1970.
    pub since: u64,
    /// Models that its sessions use; sub-agents may use a smaller one.
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
/// The model of small sub-agents.
pub const SMALL_MODEL: &str = "claude-haiku-4-5-20251001";

/// The releases that a bulk corpus is drawn from, oldest first.
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

/// Returns the release of a version. Panics on a version that is not in [`CLIENTS`].
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

    /// Whether most envelope fields follow the message instead of preceding it.
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

    /// Whether mode records are written after every turn, not only at the start.
    pub fn repeats_modes(&self) -> bool {
        self.is_at_least((2, 1, 150))
    }

    /// Whether system records have a subtype.
    pub fn has_subtypes(&self) -> bool {
        self.is_at_least((2, 0, 0))
    }

    pub fn has_slug(&self) -> bool {
        self.is_at_least((2, 0, 65))
    }

    pub fn has_branch(&self) -> bool {
        self.is_at_least((1, 0, 98))
    }

    /// Whether usage has `cache_creation` with five-minute and one-hour writes.
    pub fn splits_cache_writes(&self) -> bool {
        self.is_at_least((1, 0, 98))
    }

    pub fn has_iterations(&self) -> bool {
        self.is_at_least((2, 1, 100))
    }

    /// Whether `toolUseResult` of an edit contains the whole original file of `units` characters.
    pub fn keeps_original(&self, units: u64) -> bool {
        units < 10_000 || !self.is_at_least((2, 1, 150))
    }

    /// Whether edits are tracked one by one in addition to snapshots.
    pub fn has_file_deltas(&self) -> bool {
        self.is_at_least((2, 1, 209))
    }

    /// Whether cache writes may live for an hour.
    pub fn may_write_for_an_hour(&self) -> bool {
        self.is_at_least((2, 1, 25))
    }

    /// Whether sub-agent logs are in `<session>/subagents/` instead of in the session's folder.
    pub fn nests_subagents(&self) -> bool {
        self.is_at_least((2, 1, 2))
    }

    /// Whether results of parallel calls hang on their own call; before, they were chained after the last one.
    pub fn results_hang_on_calls(&self) -> bool {
        self.is_at_least((2, 1, 0))
    }

    pub fn names_source_of_results(&self) -> bool {
        self.is_at_least((2, 1, 2))
    }

    pub fn agent_tool(&self) -> &'static str {
        if self.is_at_least((2, 1, 63)) { "Agent" } else { "Task" }
    }

    /// Whether the user can choose a larger window.
    pub fn may_have_large_window(&self) -> bool {
        self.is_at_least((2, 1, 45))
    }

    /// Returns the context at which automatic compaction starts in a window of 200,000 tokens.
    pub fn threshold(&self) -> u64 {
        if self.is_at_least((2, 1, 21)) { 167_000 } else { 155_000 }
    }

    /// Whether the automatic check counts the output as recorded, final or not.
    pub fn checks_recorded_output(&self) -> bool {
        self.is_between((2, 1, 12), (2, 1, 29))
    }

    /// Whether the automatic check adds an estimate of the user blocks since the last response.
    pub fn checks_trailing_blocks(&self) -> bool {
        self.is_at_least((2, 1, 5))
    }

    /// Returns the tokens of system prompt and tools at the first call.
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

/// Returns the characters per ten tokens of tool results of a model.
pub fn chars_per_ten_tokens(model: &str) -> u64 {
    if model.starts_with("claude-opus-4-7") || model.starts_with("claude-opus-4-8") {
        22
    } else if model.ends_with("-5") && !model.contains("-4-5") {
        25
    } else {
        29
    }
}

/// Returns whether the thinking of earlier turns is not sent again.
pub fn drops_thinking(model: &str) -> bool {
    model.starts_with("claude-sonnet-4-5")
}
