//! `backcast doctor`: the JSON document, and the table for people.

use crate::usage::period::day_of;
use jiff::tz::TimeZone;
use replay::policy::presets::ClientVersion;
use replay::windows::WindowConfidence;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::path::PathBuf;
use table::human::{format_count, format_count_with_plural, format_percent, format_size, group_digits};
use table::words::shell_quote;
use table::{OutputSchema, TableStyle, Tone, format_time, write_json};
use transcript::agents::Agent;
use transcript::log::Time;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("doctor", 1);

/// A folder that was looked into.
pub struct RootReport {
    /// The agent that keeps its logs there; `None` for a path that was named.
    pub agent: Option<Agent>,
    pub folder: PathBuf,
    pub is_there: bool,
    pub logs: usize,
    pub bytes: u64,
}

/// The sessions of an agent.
pub struct AgentReport {
    pub agent: Agent,
    pub sessions: u64,
    /// First and last version of the client.
    pub versions: Option<(ClientVersion, ClientVersion)>,
    pub newest: Option<Time>,
}

/// How well the windows are known.
#[derive(Default)]
pub struct WindowReport {
    /// Calls by confidence, in the order of [`WindowConfidence::ALL`].
    calls: [u64; WindowConfidence::ALL.len()],
    /// Models of calls whose window is not known.
    unknown_models: BTreeSet<String>,
}

impl WindowReport {
    /// Adds a call of a model.
    pub fn add(&mut self, confidence: WindowConfidence, model: &str) {
        self.calls[confidence as usize] += 1;
        if confidence == WindowConfidence::None && !self.unknown_models.contains(model) {
            self.unknown_models.insert(model.to_owned());
        }
    }

    /// Adds other calls.
    pub fn merge(&mut self, other: &WindowReport) {
        for (sum, calls) in std::iter::zip(&mut self.calls, other.calls) {
            *sum += calls;
        }
        self.unknown_models.extend(other.unknown_models.iter().cloned());
    }

    fn of(&self, confidence: WindowConfidence) -> u64 {
        self.calls[confidence as usize]
    }
}

/// The cache.
pub struct CacheReport {
    pub folder: PathBuf,
    pub is_writable: bool,
    pub bytes: u64,
}

/// A setting of the client that bears on compaction.
pub struct SettingReport {
    pub key: &'static str,
    pub value: String,
    pub origin: String,
}

/// Directories of memories.
pub struct MemoryReport {
    /// The one of the project around the current folder.
    pub here: PathBuf,
    /// Memories in it; `None` if it is not there.
    pub here_count: Option<usize>,
    /// Those of other projects, with the number of their files.
    pub others: Vec<(PathBuf, usize)>,
}

/// Everything that was found.
pub struct DoctorView {
    /// The paths that were named.
    pub paths: Vec<PathBuf>,
    pub roots: Vec<RootReport>,
    pub agents: Vec<AgentReport>,
    pub windows: WindowReport,
    pub unpriced_models: Vec<String>,
    pub prices_as_of: Option<String>,
    /// `None` without a home folder.
    pub cache: Option<CacheReport>,
    /// Name of the policy in force.
    pub policy: String,
    pub config_files: Vec<PathBuf>,
    /// Number of options with a default of the user.
    pub option_defaults: usize,
    /// The client's settings file, if there is one.
    pub settings_file: Option<PathBuf>,
    /// What the client's settings and environment set, or why they cannot be read.
    pub settings: Result<Vec<SettingReport>, String>,
    /// Where memories are, or why that cannot be told.
    pub memories: Result<MemoryReport, String>,
}

/// One line of the table.
struct CheckRow {
    what: &'static str,
    state: &'static str,
    detail: String,
}

const FINE: &str = "ok";
const MISSING: &str = "missing";
const UNKNOWN: &str = "unknown";
const NOT_SET: &str = "none";

impl DoctorView {
    /// Returns the number of sessions with calls.
    pub fn session_count(&self) -> u64 {
        self.agents.iter().map(|agent| agent.sessions).sum()
    }

    pub fn write_text(&self, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        writeln!(out, "{}\n", self.answer())?;
        let rows = self.rows();
        for row in &rows {
            let tone = match row.state {
                FINE | NOT_SET => Tone::Good,
                _ => Tone::Doubtful,
            };
            let state = style.paint(tone, &format!("{:<8}", row.state));
            writeln!(out, "{:<12}{state}{}", row.what, row.detail)?;
        }
        writeln!(out, "\n{}", style.paint(Tone::Strong, "Next"))?;
        for (command, about) in self.next_steps() {
            writeln!(out, "  {command}\n      {}", style.paint(Tone::Faint, &about))?;
        }
        Ok(())
    }

    /// Returns the finding in one sentence.
    fn answer(&self) -> String {
        let logs = self.roots.iter().map(|root| root.logs as u64).sum::<u64>();
        match (self.session_count(), logs) {
            (0, 0) => "No session logs were found.".to_owned(),
            (0, logs) => format!("{} found, but no session with an API call.", count_logs(logs)),
            (sessions, logs) => {
                let problems = self
                    .rows()
                    .iter()
                    .filter(|row| !matches!(row.state, FINE | NOT_SET))
                    .count() as u64;
                let rest = match problems {
                    0 => "nothing needs your attention".to_owned(),
                    1 => "one thing below needs a look".to_owned(),
                    several => format!("{} things below need a look", group_digits(several)),
                };
                format!(
                    "{} found in {}; {rest}.",
                    format_count(sessions, "session"),
                    format_count(logs, "log")
                )
            }
        }
    }

    fn rows(&self) -> Vec<CheckRow> {
        let mut rows = Vec::new();
        let mut push = |what, state, detail: String| rows.push(CheckRow { what, state, detail });
        for root in &self.roots {
            // Agents that are not installed need no attention where others are.
            let is_needed = root.agent.is_none() || root.logs > 0 || self.session_count() == 0;
            let state = match (root.is_there, root.logs, is_needed) {
                (_, 1.., _) => FINE,
                (_, 0, false) => NOT_SET,
                (_, 0, true) => MISSING,
            };
            let agent = root
                .agent
                .map_or_else(String::new, |agent| format!("{}: ", agent.title()));
            let found = match (root.is_there, root.logs as u64) {
                (false, _) => "no such folder".to_owned(),
                (true, 0) => "no logs".to_owned(),
                (true, logs) => format!("{}, {} on disk", count_logs(logs), format_size(root.bytes)),
            };
            push("Logs", state, format!("{agent}{found} ({})", root.folder.display()));
        }
        for agent in &self.agents {
            let versions = agent
                .versions
                .map_or_else(String::new, |(first, last)| match first == last {
                    true => format!(", version {first}"),
                    false => format!(", versions {first} to {last}"),
                });
            let newest = agent
                .newest
                .map(|newest| format!(", the newest on {}", day_of(newest, &TimeZone::UTC)));
            push(
                "Agent",
                FINE,
                format!(
                    "{}: {}{versions}{}",
                    agent.agent.title(),
                    format_count(agent.sessions, "session"),
                    newest.unwrap_or_default()
                ),
            );
        }
        if self.session_count() > 0 {
            rows.push(self.window_row());
            rows.push(self.price_row());
        }
        rows.push(self.setting_row());
        rows.push(self.config_row());
        rows.push(self.cache_row());
        rows.push(self.memory_row());
        rows
    }

    fn window_row(&self) -> CheckRow {
        let all = self.windows.calls.iter().sum::<u64>();
        let unknown = self.windows.of(WindowConfidence::None);
        let known = [WindowConfidence::Certain, WindowConfidence::Likely].map(|one| self.windows.of(one));
        let models = self
            .windows
            .unknown_models
            .iter()
            .map(String::as_str)
            .collect::<Vec<_>>();
        let unknown_text = match unknown {
            0 => String::new(),
            unknown => format!(
                "; not known for {} ({})",
                format_count(unknown, "call"),
                models.join(", ")
            ),
        };
        CheckRow {
            what: "Windows",
            state: if unknown == 0 { FINE } else { UNKNOWN },
            detail: format!(
                "certain for {} of {}, likely for {}{unknown_text}",
                format_percent(known[0], all),
                format_count(all, "call"),
                format_percent(known[1], all)
            ),
        }
    }

    fn price_row(&self) -> CheckRow {
        let date = self
            .prices_as_of
            .as_deref()
            .map_or_else(String::new, |date| format!("table of {date}"));
        CheckRow {
            what: "Prices",
            state: if self.unpriced_models.is_empty() { FINE } else { UNKNOWN },
            detail: match self.unpriced_models.as_slice() {
                [] => format!("{date}; every model has a price"),
                models => format!("{date}; no price for {}", models.join(", ")),
            },
        }
    }

    fn setting_row(&self) -> CheckRow {
        let file = self
            .settings_file
            .as_ref()
            .map_or("no settings file".to_owned(), |file| file.display().to_string());
        let (state, detail) = match &self.settings {
            Err(reason) => (UNKNOWN, reason.clone()),
            Ok(settings) if settings.is_empty() => (
                NOT_SET,
                format!("nothing changes when Claude Code compacts ({file}, environment)"),
            ),
            Ok(settings) => {
                let settings = settings
                    .iter()
                    .map(|one| format!("{}={} ({})", one.key, one.value, one.origin));
                (FINE, settings.collect::<Vec<_>>().join(", "))
            }
        };
        CheckRow {
            what: "Settings",
            state,
            detail,
        }
    }

    fn config_row(&self) -> CheckRow {
        let files = self
            .config_files
            .iter()
            .map(|file| file.display().to_string())
            .collect::<Vec<_>>();
        let files = match files.as_slice() {
            [] => "no configuration file".to_owned(),
            files => files.join(", "),
        };
        CheckRow {
            what: "backcast",
            state: FINE,
            detail: format!(
                "policy {}; {files}; {} of options",
                self.policy,
                format_count(self.option_defaults as u64, "default")
            ),
        }
    }

    fn cache_row(&self) -> CheckRow {
        let (state, detail) = match &self.cache {
            None => (
                MISSING,
                "no home folder to keep it in; every run parses all logs".to_owned(),
            ),
            Some(cache) if !cache.is_writable => (
                MISSING,
                format!(
                    "{} cannot be written; every run parses all logs",
                    cache.folder.display()
                ),
            ),
            Some(cache) => (
                FINE,
                format!("{}, {}", cache.folder.display(), format_size(cache.bytes)),
            ),
        };
        CheckRow {
            what: "Cache",
            state,
            detail,
        }
    }

    fn memory_row(&self) -> CheckRow {
        let (state, detail) = match &self.memories {
            Err(reason) => (UNKNOWN, reason.clone()),
            Ok(found) => {
                let here = match found.here_count {
                    None => format!("none for this project yet (they would be in {})", found.here.display()),
                    Some(count) => format!(
                        "{} in {}",
                        format_count_with_plural(count as u64, "memory", "memories"),
                        found.here.display()
                    ),
                };
                let others = found.others.iter().map(|(_, count)| *count as u64).sum::<u64>();
                let others = match found.others.len() as u64 {
                    0 => String::new(),
                    projects => format!(
                        "; {} of {}",
                        format_count_with_plural(others, "memory", "memories"),
                        format_count(projects, "other project")
                    ),
                };
                let is_empty = found.here_count.is_none() && found.others.is_empty();
                (if is_empty { NOT_SET } else { FINE }, format!("{here}{others}"))
            }
        };
        CheckRow {
            what: "Memories",
            state,
            detail,
        }
    }

    /// Returns commands to run next, with what each is for.
    fn next_steps(&self) -> Vec<(String, String)> {
        let paths = self
            .paths
            .iter()
            .map(|path| format!(" {}", shell_quote(&path.to_string_lossy())));
        let paths = paths.collect::<String>();
        if self.session_count() == 0 {
            return vec![
                (
                    "backcast overview PATH".to_owned(),
                    "for logs that are elsewhere, or set CLAUDE_CONFIG_DIR or CODEX_HOME to the agent's home"
                        .to_owned(),
                ),
                (
                    "backcast overview --sample".to_owned(),
                    "to see what backcast shows, on made-up sessions".to_owned(),
                ),
            ];
        }
        let mut steps = vec![(
            format!("backcast overview{paths}"),
            "what you spent, and on what".to_owned(),
        )];
        let is_set = self.settings.as_ref().is_ok_and(|settings| !settings.is_empty());
        steps.push(match is_set {
            true => (
                format!(
                    "backcast audit{paths}{}",
                    if paths.is_empty() { "" } else { " --client-env" }
                ),
                "whether your setting is in effect".to_owned(),
            ),
            false => (
                format!("backcast tune{paths}"),
                "which threshold to set, and why".to_owned(),
            ),
        });
        if self.windows.of(WindowConfidence::None) > 0 {
            steps.push((
                format!("backcast tune{paths} --window 200000"),
                "if you know the window of your model; sessions of unknown windows are left out otherwise".to_owned(),
            ));
        }
        if !self.unpriced_models.is_empty() {
            steps.push((
                "backcast config prices > prices.json".to_owned(),
                "add the missing models there, then pass --prices prices.json".to_owned(),
            ));
        }
        let has_memories = self.memories.as_ref().is_ok_and(|found| found.here_count.is_some());
        if !has_memories {
            steps.push((
                format!("backcast memory extract{paths} --dry-run"),
                "what to remember for later sessions".to_owned(),
            ));
        }
        steps
    }

    pub fn write_document(&self, out: &mut dyn Write) -> io::Result<()> {
        let roots = self.roots.iter().map(|root| {
            json!({
                "coding_agent": root.agent.map(Agent::name),
                "folder": root.folder.display().to_string(),
                "exists": root.is_there,
                "logs": root.logs,
                "bytes": root.bytes,
            })
        });
        let agents = self.agents.iter().map(|agent| {
            json!({
                "coding_agent": agent.agent.name(),
                "sessions": agent.sessions,
                "version_first": agent.versions.map(|versions| versions.0.to_string()),
                "version_last": agent.versions.map(|versions| versions.1.to_string()),
                "newest_call": agent.newest.and_then(format_time),
            })
        });
        let settings = self.settings.as_ref().map(|settings| {
            let settings = settings
                .iter()
                .map(|one| json!({"key": one.key, "value": one.value, "origin": one.origin}));
            settings.collect::<Vec<_>>()
        });
        let path = |path: &PathBuf| path.display().to_string();
        let document = SCHEMA.document(json!({
            "sessions": self.session_count(),
            "roots": roots.collect::<Vec<_>>(),
            "agents": agents.collect::<Vec<_>>(),
            "windows": {
                "calls_by_confidence": WindowConfidence::ALL
                    .map(|one| (one.name().to_owned(), json!(self.windows.of(one))))
                    .into_iter()
                    .collect::<serde_json::Map<_, _>>(),
                "unknown_models": self.windows.unknown_models,
            },
            "prices": {"as_of": self.prices_as_of, "unpriced_models": self.unpriced_models},
            "cache": self.cache.as_ref().map(|cache| json!({
                "folder": path(&cache.folder), "is_writable": cache.is_writable, "bytes": cache.bytes,
            })),
            "policy": self.policy,
            "config_files": self.config_files.iter().map(path).collect::<Vec<_>>(),
            "option_defaults": self.option_defaults,
            "settings_file": self.settings_file.as_ref().map(path),
            "settings": settings.as_ref().ok(),
            "memories": self.memories.as_ref().ok().map(|found| json!({
                "directory": path(&found.here),
                "memories": found.here_count,
                "other_directories": found.others.iter().map(|(folder, count)| json!({
                    "directory": path(folder), "memories": count,
                })).collect::<Vec<Json>>(),
            })),
            "next": self.next_steps().into_iter().map(|(command, about)| json!({"command": command, "about": about})).collect::<Vec<_>>(),
        }));
        write_json(&document, out)
    }
}

fn count_logs(logs: u64) -> String {
    format_count(logs, "log")
}
