//! The policy: every figure that the replay depends on, as one value.
//!
//! Each value is declared once, with its key, its default and its meaning. Reading TOML, `--set`, `config show`, sweeps and
//! the documentation all go through that declaration. The defaults are those of the articles that describe the system;
//! [`presets`] are differences from them.

pub mod presets;
pub mod value;

use std::collections::BTreeMap;
use toml::{Table, Value};
use value::{
    CacheLife, LargeFile, OutputCount, PolicyValue, ReserveRule, SummaryRange, SummarySize, TrailEstimate, WindowSize,
};

/// A declared value.
pub struct PolicyKey {
    /// Its name in TOML, dotted.
    pub name: &'static str,
    /// What it means.
    pub about: &'static str,
    /// What it can be, in words.
    pub expects: fn() -> String,
    /// Reads it off a policy.
    pub get: fn(&Policy) -> Value,
    /// Puts it into a policy.
    pub set: fn(&mut Policy, &Value) -> Result<(), String>,
}

macro_rules! policy {
    ($($key:literal $field:ident: $type:ty = $default:expr, $about:literal;)+) => {
        /// All values of a policy.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Policy {
            $(#[doc = $about] pub $field: $type,)+
        }

        impl Default for Policy {
            fn default() -> Policy {
                Policy { $($field: $default,)+ }
            }
        }

        /// Every declared value, in the order of the documentation.
        pub const KEYS: &[PolicyKey] = &[
            $(PolicyKey {
                name: $key,
                about: $about,
                expects: <$type as PolicyValue>::expects,
                get: |policy| policy.$field.write(),
                set: |policy, value| {
                    policy.$field = <$type as PolicyValue>::read(value)?;
                    Ok(())
                },
            },)+
        ];
    };
}

fn string_list(list: &[&str]) -> Vec<String> {
    list.iter().map(|name| (*name).to_owned()).collect()
}

policy! {
    "window.tokens" window_tokens: WindowSize = WindowSize::Auto, "Context window of the model; `auto` infers it per segment.";
    "window.override" window_override: Option<u64> = None, "Window to use instead, if it is smaller than the model's.";
    "window.reserve" reserve: u64 = 20_000, "Tokens kept free for the summary.";
    "window.reserve_rule" reserve_rule: ReserveRule = ReserveRule::Fixed, "How the model's output limit bears on the reserve.";
    "window.output_limit" output_limit: Option<u64> = None, "Output limit to use instead of the model's.";
    "window.buffer" buffer: u64 = 13_000, "Automatic compaction this far below the effective window.";
    "window.percent" percent: Option<f64> = None, "Percentage of the effective window to compact at; can only lower the threshold.";
    "window.warning" warning: u64 = 20_000, "Warning level, below the threshold.";
    "window.error" error: u64 = 20_000, "Error level, below the threshold.";

    "switch.compaction" compaction: bool = true, "Any compaction at all.";
    "switch.auto" auto: bool = true, "Automatic compaction.";
    "switch.micro" micro: bool = true, "Micro-compaction of every kind.";
    "switch.hard_limit" hard_limit: bool = true, "The API refuses what is larger than the window.";
    "switch.manual" manual: bool = true, "Compactions that the user asked for are followed.";

    "estimate.units_per_token" units_per_token: f64 = 4.0, "UTF-16 units that the client takes for a token.";
    "estimate.image" image: u64 = 2_000, "Tokens that it takes for an image or a document.";
    "estimate.padding" padding: f64 = 4.0 / 3.0, "Factor on what it estimates.";
    "estimate.output" output: OutputCount = OutputCount::Final, "Which output of the last response counts.";
    "estimate.trail" trail: TrailEstimate = TrailEstimate::User, "What is estimated beyond the last usage.";

    "micro.tools" micro_tools: Vec<String> = string_list(&["Read", "Bash", "Grep", "Glob", "WebFetch", "WebSearch", "Edit", "Write"]), "Tools whose results can be had again, so may be cleared.";
    "micro.placeholder" placeholder: u64 = 10, "Tokens of what stands in for a cleared result (assumed).";
    "micro.gap.on" gap_on: bool = true, "Clear old results after a long pause.";
    "micro.gap.minutes" gap_minutes: u64 = 60, "How long the pause has to be.";
    "micro.gap.keep" gap_keep: u64 = 5, "Newest results that stay.";
    "micro.cached.on" cached_on: bool = true, "Delete old results on the server while the prompt cache is warm.";
    "micro.cached.trigger" cached_trigger: u64 = 12, "Results at which it begins (assumed).";
    "micro.cached.keep" cached_keep: u64 = 5, "Newest results that stay (assumed).";
    "micro.budget.on" budget_on: bool = false, "Clear old results down to a budget once the warning level is reached.";
    "micro.budget.target" budget_target: u64 = 40_000, "Tokens of results that may stay.";
    "micro.budget.protect" budget_protect: u64 = 3, "Newest results that always stay (assumed).";
    "micro.budget.at_least" budget_at_least: u64 = 20_000, "Not unless this much comes free.";
    "micro.api.on" api_on: bool = false, "Context edits on the API's side.";
    "micro.api.trigger" api_trigger: u64 = 180_000, "Input tokens at which they begin.";
    "micro.api.keep" api_keep: u64 = 40_000, "Tokens of results that stay.";
    "micro.api.at_least" api_at_least: u64 = 0, "Not unless this much comes free.";
    "micro.api.drop_calls" api_drop_calls: Vec<String> = string_list(&["Edit", "Write"]), "Tools whose whole call goes, not only its result.";
    "micro.api.thinking" api_thinking: bool = true, "Drop thinking of earlier turns after an idle hour.";
    "micro.api.thinking_minutes" api_thinking_minutes: u64 = 60, "How long is idle.";

    "notes.on" notes_on: bool = true, "Notes kept during the session.";
    "notes.first" notes_first: u64 = 10_000, "Not before the window has this many tokens.";
    "notes.growth" notes_growth: u64 = 5_000, "Growth of the window since the last update.";
    "notes.calls" notes_calls: u64 = 3, "Tool calls since the last update, unless a response had none.";
    "notes.section" notes_section: u64 = 2_000, "Most tokens of a section.";
    "notes.total" notes_total: u64 = 12_000, "Most tokens of all sections.";
    "notes.share" notes_share: f64 = 0.05, "Tokens of notes per token of conversation, until the limit (assumed).";
    "notes.seconds" notes_seconds: u64 = 0, "How long an update takes.";
    "notes.wait_seconds" notes_wait_seconds: u64 = 15, "How long a compaction waits for one in progress.";
    "notes.stale_seconds" notes_stale_seconds: u64 = 60, "One that runs longer is given up.";
    "notes.prompt" notes_prompt: u64 = 1_500, "Tokens of the instructions of an update (assumed).";
    "notes.compact" notes_compact: bool = true, "Compaction by the notes, without a model call, is tried first.";
    "notes.keep_tokens" notes_keep_tokens: u64 = 10_000, "Tokens that stay verbatim at least.";
    "notes.keep_messages" notes_keep_messages: u64 = 5, "Messages with text that stay verbatim at least.";
    "notes.keep_most" notes_keep_most: u64 = 40_000, "Tokens at which no more is kept.";

    "compact.on" compact_on: bool = true, "Full compaction by a model call.";
    "compact.variant" variant: SummaryRange = SummaryRange::Whole, "What a compaction that the user asked for summarises.";
    "compact.pivot" pivot: u64 = 10, "Rounds from the end at which its pivot lies.";
    "compact.summary" summary: SummarySize = SummarySize::Recorded, "Where the size of a summary comes from.";
    "compact.summary_tokens" summary_tokens: u64 = 3_000, "Size of a summary that nothing else tells.";
    "compact.max_output" max_output: u64 = 20_000, "Most tokens of a summary with its scratch block.";
    "compact.scratch" scratch: f64 = 1.0, "Tokens of the scratch block per token of summary (assumed).";
    "compact.prompt" compact_prompt: u64 = 1_500, "Tokens of the instructions (assumed).";
    "compact.shares_cache" shares_cache: bool = true, "The call reads the conversation from the prompt cache.";
    "compact.retries" retries: u64 = 3, "Tries after a prompt that was too long.";
    "compact.retry_percent" retry_percent: u64 = 20, "Share of the groups that a try drops when the excess is not known.";
    "compact.excess_known" excess_known: bool = true, "Whether the refusal says by how much it was too long.";
    "compact.breaker" breaker: u64 = 3, "Failures in a row after which nothing is tried any more.";
    "compact.reactive" reactive: bool = true, "Compact when the API refuses a prompt as too long.";
    "compact.wrap" wrap: u64 = 60, "Tokens around a summary that tell the model to go on (assumed).";

    "restore.files" restore_files: u64 = 5, "Files read last that come back.";
    "restore.file_tokens" restore_file_tokens: u64 = 5_000, "Most tokens of one.";
    "restore.large" restore_large: LargeFile = LargeFile::Cut, "What becomes of a larger one.";
    "restore.files_tokens" restore_files_tokens: u64 = 50_000, "Most tokens of all of them.";
    "restore.not" restore_not: Vec<String> = string_list(&["CLAUDE.md", "MEMORY.md", "/.claude/"]), "Parts of paths of plans and memories, which come back by other ways.";
    "restore.skill_tokens" restore_skill_tokens: u64 = 5_000, "Most tokens of an invoked skill.";
    "restore.skills_tokens" restore_skills_tokens: u64 = 25_000, "Most tokens of all of them.";
    "restore.state_tokens" restore_state_tokens: u64 = 1_000, "Plan, to-do list, announcements of tools and servers, states of agents (assumed).";
    "restore.hook_tokens" restore_hook_tokens: u64 = 0, "Output of session-start hooks after a compaction, where the log does not tell.";

    "cache.life" cache_life: CacheLife = CacheLife::Recorded, "How long the prompt cache lives.";
    "cache.edge_seconds" cache_edge_seconds: u64 = 300, "Where five minutes end.";
    "cache.break_percent" break_percent: u64 = 5, "A fall of cache reads by more than this share,";
    "cache.break_tokens" break_tokens: u64 = 2_000, "and by more than this many tokens, is a break.";

    "failure.rate" failure_rate: f64 = 0.0, "Share of compaction calls that fail.";
    "failure.seed" failure_seed: u64 = 1, "Same seed, same failures.";

    "extract.on" extract_on: bool = true, "Memory extraction at the end of turns.";
    "extract.turns" extract_turns: u64 = 1, "Every so many turns.";
    "extract.prompt" extract_prompt: u64 = 2_000, "Tokens of its instructions (assumed).";
    "extract.output" extract_output: u64 = 500, "Tokens that it answers (assumed).";
    "dream.hours" dream_hours: u64 = 24, "Hours between two consolidations of a project's memories.";
    "dream.sessions" dream_sessions: u64 = 5, "Sessions since the last one.";
    "dream.scan_minutes" dream_scan_minutes: u64 = 10, "Minutes between two looks at the transcripts.";
    "memory.index_lines" index_lines: u64 = 200, "Lines of an index of memories that are loaded.";
    "memory.index_bytes" index_bytes: u64 = 25_000, "Bytes of it.";
    "recall.files" recall_files: u64 = 200, "Memory files that recall looks at, the newest first; 0 for all.";
    "recall.most" recall_most: u64 = 5, "Memories in an answer, at least 1.";
    "recall.lines" recall_lines: u64 = 200, "Lines of a memory that are shown.";
    "recall.bytes" recall_bytes: u64 = 4_096, "Bytes of it.";
    "recall.session_bytes" recall_session_bytes: u64 = 60_000, "Bytes of memories in a session.";
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Not TOML.
    #[error("not TOML: {0}")]
    Syntax(#[from] toml::de::Error),
    /// A key that is not declared.
    #[error("unknown policy value `{key}`{}", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_else(|| "\n  hint: `backcast config show` lists them all".to_owned()))]
    UnknownKey {
        /// The key.
        key: String,
        /// A declared one that looks like it.
        nearest: Option<&'static str>,
    },
    /// A value of the wrong kind.
    #[error("{key}: {reason}")]
    Value {
        /// The key.
        key: String,
        /// What is wrong.
        reason: String,
    },
    /// A name that no preset has.
    #[error("no policy is called `{name}`{}\n  hint: the presets are {}; a path to a TOML file works too", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default(), presets::names().join(", "))]
    UnknownPreset {
        /// The name.
        name: String,
        /// A preset that looks like it.
        nearest: Option<&'static str>,
    },
    /// `--set` without a value.
    #[error("`{0}` is not of the form key=value, such as window.percent=70")]
    NotAnAssignment(String),
}

impl Policy {
    /// Puts in the values of a TOML table; `set` is told the key of each.
    pub fn apply(&mut self, table: &Table, told: &mut dyn FnMut(&'static str)) -> Result<(), PolicyError> {
        for (key, value) in flatten(table) {
            told(self.set(&key, &value)?);
        }
        self.check()
    }

    /// Puts in one value.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<&'static str, PolicyError> {
        let key = find_key(name)?;
        (key.set)(self, value).map_err(|reason| PolicyError::Value {
            key: name.to_owned(),
            reason,
        })?;
        Ok(key.name)
    }

    /// Puts in a value as typed: `key=value`, where a word needs no quotes.
    pub fn assign(&mut self, text: &str) -> Result<&'static str, PolicyError> {
        let (name, value) = split_assignment(text)?;
        let set = self.set(name, &parse_value(value))?;
        self.check()?;
        Ok(set)
    }

    /// What no single value can be blamed for.
    fn check(&self) -> Result<(), PolicyError> {
        let wrong = |key: &str, reason: &str| {
            Err(PolicyError::Value {
                key: key.to_owned(),
                reason: reason.to_owned(),
            })
        };
        if self.percent.is_some_and(|percent| percent <= 0.0 || percent > 100.0) {
            return wrong("window.percent", "a percentage lies above 0 and is at most 100");
        }
        if self.failure_rate > 1.0 {
            return wrong("failure.rate", "a share is at most 1");
        }
        if self.units_per_token <= 0.0 {
            return wrong("estimate.units_per_token", "must be above 0");
        }
        if self.extract_turns == 0 {
            return wrong("extract.turns", "must be at least 1");
        }
        if self.recall_most == 0 {
            return wrong("recall.most", "must be at least 1");
        }
        Ok(())
    }

    /// All values as TOML, in the order of the documentation.
    pub fn to_toml(&self) -> Table {
        let mut table = Table::new();
        for key in KEYS {
            insert(&mut table, key.name, (key.get)(self));
        }
        table
    }
}

/// The declaration of a key.
pub fn find_key(name: &str) -> Result<&'static PolicyKey, PolicyError> {
    let found = KEYS.iter().find(|key| key.name == name);
    found.ok_or_else(|| PolicyError::UnknownKey {
        key: name.to_owned(),
        nearest: nearest(name, KEYS.iter().map(|key| key.name)),
    })
}

/// The name that looks most like a mistyped one, if any does.
pub fn nearest(name: &str, names: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |known: &str| {
        let whole = strsim::jaro_winkler(name, known);
        // `thershold` alone should find `window.threshold`.
        whole.max(0.95 * strsim::jaro_winkler(&last(name), &last(known)))
    };
    let best = names.map(|known| (likeness(known), known));
    best.filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(a.1)))
        .map(|(_, known)| known)
}

/// Key and value of `key=value`.
pub fn split_assignment(text: &str) -> Result<(&str, &str), PolicyError> {
    text.split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .ok_or_else(|| PolicyError::NotAnAssignment(text.to_owned()))
}

/// A value as typed: TOML, or a word.
pub fn parse_value(text: &str) -> Value {
    let document = format!("value = {text}").parse::<Table>();
    let parsed = document.ok().and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The values of nested tables by dotted key.
fn flatten(table: &Table) -> BTreeMap<String, Value> {
    let mut flat = BTreeMap::new();
    for (key, value) in table {
        match value {
            Value::Table(inner) => {
                let inner = flatten(inner).into_iter();
                flat.extend(inner.map(|(rest, value)| (format!("{key}.{rest}"), value)));
            }
            _ => {
                flat.insert(key.clone(), value.clone());
            }
        }
    }
    flat
}

fn insert(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((head, rest)) => {
            let inner = table.entry(head).or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_being_written_and_read() {
        let mut policy = Policy::default();
        let text = toml::to_string(&policy.to_toml()).unwrap();
        policy.reserve = 1;
        policy.apply(&text.parse().unwrap(), &mut |_| ()).unwrap();
        assert_eq!(policy, Policy::default());
        assert_eq!(flatten(&policy.to_toml()).len(), KEYS.len());
    }

    #[test]
    fn unknown_keys_are_errors_with_the_nearest_name() {
        let message = |text: &str| Policy::default().assign(text).unwrap_err().to_string();
        assert_eq!(
            message("window.reserv=1"),
            "unknown policy value `window.reserv`; did you mean `window.reserve`?"
        );
        assert_eq!(
            message("summary_token=1"),
            "unknown policy value `summary_token`; did you mean `compact.summary_tokens`?"
        );
        assert!(message("zzz=1").starts_with("unknown policy value `zzz`\n  hint:"));
        assert_eq!(
            message("zzz"),
            "`zzz` is not of the form key=value, such as window.percent=70"
        );
    }

    #[test]
    fn wrong_values_say_what_is_allowed() {
        let message = |text: &str| Policy::default().assign(text).unwrap_err().to_string();
        assert_eq!(
            message("window.reserve=-1"),
            "window.reserve: `-1` is not a whole number from 0"
        );
        assert_eq!(
            message("window.reserve_rule=both"),
            "window.reserve_rule: `\"both\"` is not one of \"fixed\", \"min\", \"max\", \"limit\""
        );
        assert_eq!(
            message("window.percent=101"),
            "window.percent: a percentage lies above 0 and is at most 100"
        );
        assert_eq!(message("switch.auto=1"), "switch.auto: `1` is not true or false");
    }

    #[test]
    fn words_need_no_quotes() {
        let mut policy = Policy::default();
        policy.assign("window.tokens=auto").unwrap();
        policy.assign("window.tokens = 500_000").unwrap();
        policy.assign("micro.tools=[\"Read\"]").unwrap();
        policy.assign("window.percent=none").unwrap();
        policy.assign("window.percent=70").unwrap();
        assert_eq!(policy.window_tokens, WindowSize::Tokens(500_000));
        assert_eq!(policy.micro_tools, ["Read"]);
        assert_eq!(policy.percent, Some(70.0));
    }
}
