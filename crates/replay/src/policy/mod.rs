//! The policy: every value that a replay depends on.
//!
//! Each value is declared once, with its key, its default and its meaning. Parsing TOML, `--set`, `config show`, sweeps and
//! the documentation all use that declaration. The defaults are those of the articles that describe the system;
//! [`presets`] are differences from them.

pub mod client_settings;
pub mod presets;
pub mod value;

use std::collections::BTreeMap;
use toml::{Table, Value};
use value::{
    CacheLife, KeptMessages, LargeFile, ModelWindows, NotesRestore, OutputCount, PolicyValue, ReserveRule,
    SummaryRange, SummarySize, TrailEstimate, WindowSize,
};

/// A declared policy value.
pub struct PolicyKey {
    /// Dotted name in TOML.
    pub name: &'static str,
    /// The meaning, for the documentation.
    pub about: &'static str,
    /// Describes the allowed values.
    pub expects: fn() -> String,
    pub get: fn(&Policy) -> Value,
    pub set: fn(&mut Policy, &Value) -> Result<(), String>,
}

/// Declares [`Policy`], its defaults and [`KEYS`] from lines of the form `"key" field: Type = default, "Meaning.";`.
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

        /// All declared values, in the order of the documentation.
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
    "window.tokens" window_tokens: WindowSize = WindowSize::Auto, "Context window of the model in tokens; `auto` infers it for each segment of a session.";
    "window.override" window_override: Option<u64> = None, "Context window to use instead of the model's, if it is smaller.";
    "window.override_models" override_models: ModelWindows = ModelWindows::default(), "The same for single models, each as `model=tokens`; they come before `window.override`.";
    "window.reserve" reserve: u64 = 20_000, "Tokens of the window reserved for writing the summary.";
    "window.reserve_rule" reserve_rule: ReserveRule = ReserveRule::Fixed, "How the reserve depends on the model's output limit: not at all, the smaller or the larger of both, or the limit itself.";
    "window.input_reserve" input_reserve: Option<u64> = None, "Tokens reserved instead, if fewer, where the model limits its input apart from its output.";
    "window.output_limit" output_limit: Option<u64> = None, "Output limit to use instead of the model's.";
    "window.buffer" buffer: u64 = 13_000, "Tokens below the effective window (the window minus the reserve) at which automatic compaction starts.";
    "window.threshold" threshold: Option<u64> = None, "Context in tokens at which automatic compaction starts; it can only lower the threshold.";
    "window.percent" percent: Option<f64> = None, "Percentage of the effective window at which automatic compaction starts; it can only lower the threshold.";
    "window.share" share: Option<f64> = None, "Percentage of the whole window at which automatic compaction starts, instead of reserve, buffer and percentage.";
    "window.warning" warning: u64 = 20_000, "Tokens below the threshold at which the client shows a warning.";
    "window.error" error: u64 = 20_000, "Tokens below the threshold at which the client shows an error.";

    "switch.compaction" compaction: bool = true, "Whether any compaction happens at all.";
    "switch.auto" auto: bool = true, "Whether automatic compaction happens.";
    "switch.micro" micro: bool = true, "Whether micro-compaction of any kind happens.";
    "switch.hard_limit" hard_limit: bool = true, "Whether the API refuses prompts that are larger than the window.";
    "switch.manual" manual: bool = true, "Whether compactions that the user asked for happen.";

    "estimate.units_per_token" units_per_token: f64 = 4.0, "UTF-16 units per token in the client's estimates.";
    "estimate.image" image: u64 = 2_000, "Tokens per image or document in the client's estimates.";
    "estimate.padding" padding: f64 = 4.0 / 3.0, "Factor by which the client multiplies its estimates before it compares the context with the threshold.";
    "estimate.output" output: OutputCount = OutputCount::Final, "Which output count of the last response the client uses: the final one, or the one on the first recorded line.";
    "estimate.trail" trail: TrailEstimate = TrailEstimate::User, "What the client estimates on top of the last usage: nothing; the user blocks since; also the text of later lines of the response; or all later lines, and attachments.";

    "estimate.reasoning" reasoning: bool = false, "Whether the client counts the reasoning of earlier turns on top of the last usage.";
    "estimate.reasoning_factor" reasoning_factor: f64 = 1.25, "Where a log masks reasoning: tokens that the client counts, at most, for one token that the model took for it.";

    "micro.tools" micro_tools: Vec<String> = string_list(&["Read", "Bash", "Grep", "Glob", "WebFetch", "WebSearch", "Edit", "Write"]), "Tools whose results may be cleared, because the agent can fetch them again.";
    "micro.placeholder" placeholder: u64 = 10, "Tokens of the placeholder that replaces a cleared result (assumed).";
    "micro.gap.on" gap_on: bool = true, "Whether old results are cleared after a long pause.";
    "micro.gap.minutes" gap_minutes: u64 = 60, "Minutes of pause after which old results are cleared.";
    "micro.gap.keep" gap_keep: u64 = 5, "Number of newest results that stay after a long pause.";
    "micro.cached.on" cached_on: bool = true, "Whether old results are deleted on the server while the prompt cache is warm.";
    "micro.cached.trigger" cached_trigger: u64 = 12, "Number of results at which deletion on the server starts (assumed).";
    "micro.cached.keep" cached_keep: u64 = 5, "Number of newest results that deletion on the server keeps (assumed).";
    "micro.budget.on" budget_on: bool = false, "Whether old results are cleared down to a budget once the warning level is reached.";
    "micro.budget.target" budget_target: u64 = 40_000, "Tokens of results that the budget lets stay.";
    "micro.budget.protect" budget_protect: u64 = 3, "Number of newest results that the budget never clears (assumed).";
    "micro.budget.at_least" budget_at_least: u64 = 20_000, "Tokens that clearing down to the budget must free; otherwise nothing is cleared.";
    "micro.target.on" target_on: bool = false, "Whether a caller clears old results down to a target of its own before every call, without a warning level.";
    "micro.target.tokens" target_tokens: u64 = 40_000, "Tokens of results that such a caller lets stay.";
    "micro.api.on" api_on: bool = false, "Whether the API edits the context itself.";
    "micro.api.trigger" api_trigger: u64 = 180_000, "Input tokens at which the API starts to clear results.";
    "micro.api.tools" api_tools: Vec<String> = string_list(&["Read", "Bash", "Grep", "Glob", "WebFetch", "WebSearch"]), "Tools whose results the API clears.";
    "micro.api.keep" api_keep: u64 = 40_000, "Tokens of results that the API keeps, and of calls that it removes as a whole.";
    "micro.api.at_least" api_at_least: u64 = 20_000, "Tokens that clearing by the API must free; otherwise nothing is cleared (assumed).";
    "micro.api.drop_calls" api_drop_calls: Vec<String> = string_list(&["Edit", "Write"]), "Tools for which the API removes the whole call, input included. They have a budget of their own.";
    "micro.api.thinking" api_thinking: bool = true, "Whether the API drops the thinking of earlier turns after a long pause.";
    "micro.api.thinking_minutes" api_thinking_minutes: u64 = 60, "Minutes of pause after which the API drops old thinking.";

    "notes.on" notes_on: bool = true, "Whether the client keeps notes during the session.";
    "notes.first" notes_first: u64 = 10_000, "Tokens of the window at which the first notes are written.";
    "notes.growth" notes_growth: u64 = 5_000, "Tokens by which the window must have grown since the last update of the notes.";
    "notes.calls" notes_calls: u64 = 3, "Tool calls required since the last update of the notes; a response without tool calls needs none.";
    "notes.section" notes_section: u64 = 2_000, "Maximum tokens of one section of the notes when a compaction uses them.";
    "notes.total" notes_total: u64 = 12_000, "Maximum tokens of all sections of the notes.";
    "notes.share" notes_share: f64 = 0.05, "Tokens of notes per token of conversation, up to the maximum (assumed).";
    "notes.seconds" notes_seconds: u64 = 10, "Seconds that an update of the notes takes (assumed).";
    "notes.wait_seconds" notes_wait_seconds: u64 = 15, "Seconds that a compaction waits for an update in progress.";
    "notes.stale_seconds" notes_stale_seconds: u64 = 60, "Seconds after which a running update is given up.";
    "notes.prompt" notes_prompt: u64 = 1_500, "Tokens of the instructions for an update of the notes, which also contains the present notes (assumed).";
    "notes.edit_output" notes_edit_output: u64 = 300, "Output tokens of the edits of an update, beyond the text that the notes gain (assumed).";
    "notes.resume" notes_resume: bool = true, "Whether a restarted session reads its notes.";
    "notes.compact" notes_compact: bool = true, "Whether compaction first tries to replace history by the notes, without a model call.";
    "notes.keep_tokens" notes_keep_tokens: u64 = 10_000, "Minimum tokens of recent messages that a compaction by notes keeps verbatim.";
    "notes.keep_messages" notes_keep_messages: u64 = 5, "Minimum messages with text that a compaction by notes keeps verbatim.";
    "notes.keep_most" notes_keep_most: u64 = 40_000, "Tokens at which a compaction by notes keeps no further messages.";
    "notes.restore" notes_restore: NotesRestore = NotesRestore::Plan, "What a compaction by notes restores: the plan only, or all that a full compaction restores.";

    "compact.on" compact_on: bool = true, "Whether compaction by a model call happens.";
    "compact.variant" variant: SummaryRange = SummaryRange::Whole, "What a compaction that the user asked for summarizes: everything, messages from the pivot on, or messages up to it.";
    "compact.pivot" pivot: u64 = 10, "Rounds between the pivot and the end of the conversation.";
    "compact.summary" summary: SummarySize = SummarySize::Recorded, "Where the size of a summary comes from: the recorded one, the median of all recorded ones, or a fixed size.";
    "compact.summary_tokens" summary_tokens: u64 = 3_000, "Tokens of a summary if its size is fixed or nothing was recorded.";
    "compact.keep" compact_keep: KeptMessages = KeptMessages::None, "What a compaction by a model call keeps verbatim: nothing, the newest messages, or the newest prompts of the user.";
    "compact.keep_percent" keep_percent: Option<f64> = None, "Percentage of the effective window that it keeps, between the least and the most.";
    "compact.keep_least" keep_least: u64 = 0, "Tokens that such a percentage is raised to.";
    "compact.keep_most" keep_most: u64 = 20_000, "Maximum tokens that it keeps.";
    "compact.max_output" max_output: u64 = 20_000, "Maximum tokens of a summary; with its scratch block where the call does not share the prompt cache.";
    "compact.scratch" scratch: f64 = 1.0, "Tokens of the scratch block per token of summary (assumed).";
    "compact.prompt" compact_prompt: u64 = 1_500, "Tokens of the instructions for a compaction (assumed).";
    "compact.shares_cache" shares_cache: bool = true, "Whether a compaction call reads the conversation from the prompt cache.";
    "compact.fallback_rate" fallback_rate: f64 = 0.0, "Share of compaction calls that fail to share the prompt cache, from 0 to 1; each is repeated without the cache, with the maximum output.";
    "compact.strip" strip: bool = true, "Whether images, documents and skill listings leave the conversation before it is summarized.";
    "compact.marker" marker: u64 = 5, "Tokens of the text that takes the place of such an image or document (assumed).";
    "compact.hook_tokens" compact_hook_tokens: u64 = 0, "Tokens of instructions that a hook adds to those of a compaction.";
    "compact.hook_veto" hook_veto: bool = false, "Whether a hook forbids automatic compactions.";
    "compact.retries" retries: u64 = 3, "Maximum retries with a shorter prompt after a compaction prompt was too long.";
    "compact.retry_percent" retry_percent: u64 = 20, "Percentage of the oldest rounds that a retry drops if the excess is not known.";
    "compact.excess_known" excess_known: bool = true, "Whether the API's refusal states by how many tokens the prompt was too long.";
    "compact.breaker" breaker: u64 = 3, "Consecutive failures after which no further compaction is tried.";
    "compact.reactive" reactive: bool = true, "Whether a prompt that the API refuses as too long is compacted and sent again.";
    "compact.wrap" wrap: u64 = 60, "Tokens of the text around a summary that asks the model to continue (assumed).";
    "compact.autonomous" autonomous: bool = false, "Whether the agent works without a user, so that automatic compactions add a longer text.";
    "compact.autonomous_wrap" autonomous_wrap: u64 = 40, "Tokens of that longer text beyond the usual one (assumed).";

    "restore.files" restore_files: u64 = 5, "Maximum number of files that a compaction restores, those read, edited or written last.";
    "restore.file_tokens" restore_file_tokens: u64 = 5_000, "Maximum tokens of one restored file.";
    "restore.large" restore_large: LargeFile = LargeFile::Reference, "What happens to a file above that maximum: only a reference comes back, it is cut, or it is not restored.";
    "restore.reference_tokens" reference_tokens: u64 = 45, "Tokens of a reference to a file.";
    "restore.files_tokens" restore_files_tokens: u64 = 50_000, "Maximum tokens of all restored files.";
    "restore.not" restore_not: Vec<String> = string_list(&["CLAUDE.md", "MEMORY.md", "/.claude/"]), "Path fragments of files that are not restored this way: plans and memories.";
    "restore.skill_tokens" restore_skill_tokens: u64 = 5_000, "Maximum tokens of one restored skill.";
    "restore.skills_tokens" restore_skills_tokens: u64 = 25_000, "Maximum tokens of all restored skills.";
    "restore.state_tokens" restore_state_tokens: u64 = 1_000, "Tokens of announcements of tools, agents and servers where the log shows none (assumed).";
    "restore.plan_mode_tokens" plan_mode_tokens: u64 = 400, "Tokens of the reminder of plan mode where the log does not show it (assumed).";
    "restore.agent_tokens" agent_tokens: u64 = 100, "Tokens of the state of each agent at work in the background (assumed).";
    "restore.skill_listing" skill_listing: bool = false, "Whether the listing of skills is sent again.";
    "restore.nested" restore_nested: bool = true, "Whether instructions of a folder come back when a file below it is touched after a compaction.";
    "restore.hook_tokens" restore_hook_tokens: u64 = 0, "Tokens of session-start hook output after a compaction where the log shows none.";
    "restore.after_hook_tokens" after_hook_tokens: u64 = 0, "Tokens of output of hooks that run after a compaction.";

    "cache.life" cache_life: CacheLife = CacheLife::Recorded, "Lifetime of the prompt cache: as recorded for each call, five minutes, or one hour.";
    "cache.edge_seconds" cache_edge_seconds: u64 = 300, "Seconds after which a five-minute cache entry has expired.";
    "cache.expected_misses" expected_misses: bool = true, "Whether bills contain the misses of the prompt cache that no rule predicts, at the rate at which logs show them.";
    "cache.break_percent" break_percent: u64 = 5, "Minimum relative drop in cache reads, in percent, that counts as a cache break.";
    "cache.break_tokens" break_tokens: u64 = 2_000, "Minimum drop in cache reads, in tokens, that counts as a cache break; both minimums must be exceeded.";

    "failure.rate" failure_rate: f64 = 0.0, "Share of compaction calls that fail, from 0 to 1.";
    "failure.seed" failure_seed: u64 = 1, "Seed for the injected failures; the same seed gives the same failures.";

    "extract.on" extract_on: bool = true, "Whether memories are extracted at the end of turns.";
    "extract.turns" extract_turns: u64 = 1, "Number of turns between two extractions.";
    "extract.calls" extract_calls: u64 = 2, "Model calls of an extraction: one reads memories, the next one writes (assumed, 1 to 5).";
    "extract.reads" extract_reads: u64 = 1_000, "Tokens of memories that an extraction reads between two of its calls (assumed).";
    "extract.seconds" extract_seconds: u64 = 20, "Seconds that an extraction takes; a turn that ends meanwhile waits for it (assumed).";
    "extract.drain_seconds" extract_drain_seconds: u64 = 60, "Seconds for which the end of a session waits for an extraction.";
    "extract.prompt" extract_prompt: u64 = 2_000, "Tokens of the instructions for an extraction (assumed).";
    "extract.output" extract_output: u64 = 500, "Output tokens of all calls of an extraction (assumed).";
    "dream.hours" dream_hours: u64 = 24, "Minimum hours between two consolidations of a project's memories.";
    "dream.sessions" dream_sessions: u64 = 5, "Minimum sessions since the last consolidation.";
    "dream.scan_minutes" dream_scan_minutes: u64 = 10, "Minutes between two scans of the transcripts.";
    "dream.calls" dream_calls: u64 = 6, "Model calls of a consolidation (assumed).";
    "dream.input" dream_input: u64 = 20_000, "Input tokens of the last of these calls: instructions, memories and what was searched in transcripts (assumed).";
    "dream.output" dream_output: u64 = 3_000, "Output tokens of all these calls (assumed).";
    "memory.index_lines" index_lines: u64 = 200, "Maximum lines that are loaded of an index of memories.";
    "memory.index_bytes" index_bytes: u64 = 25_000, "Maximum bytes that are loaded of an index of memories.";
    "recall.files" recall_files: u64 = 200, "Number of newest memory files that recall considers; 0 for all.";
    "recall.most" recall_most: u64 = 5, "Maximum memories in an answer, at least 1.";
    "recall.lines" recall_lines: u64 = 200, "Maximum lines that are shown of a memory.";
    "recall.bytes" recall_bytes: u64 = 4_096, "Maximum bytes that are shown of a memory.";
    "recall.session_bytes" recall_session_bytes: u64 = 60_000, "Maximum bytes of memories shown in one session.";
    "recall.on" recall_on: bool = true, "Whether memories are recalled at every prompt of more than a word.";
    "recall.query_tokens" recall_query: u64 = 1_500, "Input tokens of the side query that chooses memories: instructions and the list of them (assumed).";
    "recall.query_output" recall_output: u64 = 60, "Output tokens of the side query, at most 256 (assumed).";
    "recall.found" recall_found: u64 = 1, "Memories that a side query finds (assumed).";
    "recall.found_bytes" recall_found_bytes: u64 = 1_600, "Bytes of a memory that was found (assumed).";
    "recall.model" recall_model: String = "claude-sonnet-4-5".to_owned(), "Model that answers the side query.";
}

/// Why a policy is invalid.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// Not TOML.
    #[error("not TOML: {0}")]
    Syntax(#[from] toml::de::Error),
    /// An undeclared key.
    #[error("unknown policy value `{key}`{}", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_else(|| "\n  hint: `backcast config show` lists them all".to_owned()))]
    UnknownKey {
        key: String,
        /// The declared key that is most similar to it, if any is.
        nearest: Option<&'static str>,
    },
    /// A value of the wrong type, or out of range.
    #[error("{key}: {reason}")]
    Value { key: String, reason: String },
    /// An unknown preset.
    #[error("there is no policy `{name}`{}\n  hint: the presets are {}; a path to a TOML file works too", .nearest.as_ref().map(|nearest| format!("; did you mean `{nearest}`?")).unwrap_or_default(), presets::names().join(", "))]
    UnknownPreset {
        name: String,
        /// The preset that is most similar to it, if any is.
        nearest: Option<&'static str>,
    },
    /// `--set` without a value.
    #[error("`{0}` is not of the form key=value, such as window.percent=70")]
    NotAnAssignment(String),
}

impl Policy {
    /// Sets the values of a TOML table; `on_set` receives the key of each.
    pub fn apply(&mut self, table: &Table, on_set: &mut dyn FnMut(&'static str)) -> Result<(), PolicyError> {
        for (key, value) in flatten(table) {
            on_set(self.set(&key, &value)?);
        }
        self.check()
    }

    /// Sets one value and returns its key.
    pub fn set(&mut self, name: &str, value: &Value) -> Result<&'static str, PolicyError> {
        let key = find_key(name)?;
        (key.set)(self, value).map_err(|reason| PolicyError::Value {
            key: name.to_owned(),
            reason,
        })?;
        Ok(key.name)
    }

    /// Sets a value typed as `key=value`, where a word needs no quotes. Returns its key.
    pub fn assign(&mut self, text: &str) -> Result<&'static str, PolicyError> {
        let (name, value) = split_assignment(text)?;
        let set = self.set(name, &parse_value(value))?;
        self.check()?;
        Ok(set)
    }

    /// Checks the ranges that the types of the values do not enforce.
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
        if self.share.is_some_and(|share| share <= 0.0 || share > 100.0) {
            return wrong("window.share", "a percentage lies above 0 and is at most 100");
        }
        if self.failure_rate > 1.0 {
            return wrong("failure.rate", "a share is at most 1");
        }
        if self.fallback_rate > 1.0 {
            return wrong("compact.fallback_rate", "a share is at most 1");
        }
        if !(1..=5).contains(&self.extract_calls) {
            return wrong("extract.calls", "must be from 1 to 5");
        }
        if self.recall_output > 256 {
            return wrong("recall.query_output", "must be at most 256");
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

    /// Converts all values to TOML.
    pub fn to_toml(&self) -> Table {
        let mut table = Table::new();
        for key in KEYS {
            insert(&mut table, key.name, (key.get)(self));
        }
        table
    }
}

/// Returns the declaration of a key; an unknown key is an error that names the most similar one.
pub fn find_key(name: &str) -> Result<&'static PolicyKey, PolicyError> {
    let found = KEYS.iter().find(|key| key.name == name);
    found.ok_or_else(|| PolicyError::UnknownKey {
        key: name.to_owned(),
        nearest: nearest(name, KEYS.iter().map(|key| key.name)),
    })
}

/// Returns the name that is most similar to a mistyped one; `None` if no name is similar enough.
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

/// Splits `key=value`.
pub fn split_assignment(text: &str) -> Result<(&str, &str), PolicyError> {
    text.split_once('=')
        .map(|(key, value)| (key.trim(), value.trim()))
        .ok_or_else(|| PolicyError::NotAnAssignment(text.to_owned()))
}

/// Parses a typed value: TOML, or else a word.
pub fn parse_value(text: &str) -> Value {
    let document = format!("value = {text}").parse::<Table>();
    let parsed = document.ok().and_then(|mut table| table.remove("value"));
    parsed.unwrap_or_else(|| Value::String(text.to_owned()))
}

/// Returns the values of nested tables by dotted key.
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

/// Inserts a value at a dotted key, creating the tables on the way.
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
