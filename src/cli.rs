//! The top-level parser, and the arguments that several commands share. The arguments of each command are in its file.

pub mod backend;
pub mod defaults;

use crate::commands::audit::AuditArgs;
use crate::commands::check::CheckArgs;
use crate::commands::config::ConfigArgs;
use crate::commands::doctor::DoctorArgs;
use crate::commands::map::MapArgs;
use crate::commands::memory::MemoryArgs;
use crate::commands::notes::NotesArgs;
use crate::commands::overview::OverviewArgs;
use crate::commands::reduce::ReduceArgs;
use crate::commands::replay::ReplayArgs;
use crate::commands::report::ReportArgs;
use crate::commands::search::SearchArgs;
use crate::commands::stats::StatsArgs;
use crate::commands::synth::SynthArgs;
use crate::commands::tune::TuneArgs;
use crate::commands::validate::ValidateArgs;
use crate::run::parts::PartSet;
use crate::run::{TimeBound, TimeSpan, parse_zone};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use jiff::tz::TimeZone;
use std::ops::Deref;
use std::path::PathBuf;
use table::OutputFormat;
use transcript::agents::Agent;
use transcript::bytes::{BLOCK, IoMode};

/// Shows what happened in the session logs of coding agents: every token counted once, what it cost, what filled the context
/// window.
#[derive(Debug, Parser)]
#[command(
    name = "backcast",
    version,
    max_term_width = 100,
    after_long_help = "\
Exit status:
  0  done
  1  a check found something
  2  wrong usage, or the run failed
  3  done, but with --strict: some input was lost

Environment:
  CLAUDE_CONFIG_DIR  the client's home; its folder `projects` is read when no path is given
  BACKCAST_POLICY    policy to use when --policy is not given
  BACKCAST_CACHE     folder of the cache (default: backcast in the user's cache folder)
  BACKCAST_SHARED_CACHE  prefix of a bucket where machines share a cache
  BACKCAST_OFFLINE   like --offline
  ANTHROPIC_API_KEY  key for --backend anthropic (or ANTHROPIC_AUTH_TOKEN); ANTHROPIC_BASE_URL is its server
  BROWSER            browser that `report --open` starts
  NO_COLOR           never use colors
  CLICOLOR_FORCE     use colors without a terminal, too (anything but 0)
  CI                 no progress bars

Data goes to standard output, everything else to standard error."
)]
pub struct Cli {
    /// Forbid all network access: a command that needs it fails at once.
    #[arg(
        long,
        global = true,
        env = "BACKCAST_OFFLINE",
        value_parser = clap::builder::FalseyValueParser::new(),
        hide_env_values = true,
        help_heading = "Network"
    )]
    pub offline: bool,
    /// What to do [default: an overview of your sessions].
    #[command(subcommand)]
    pub command: Option<CliCommand>,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum CliCommand {
    /// A first look: what was spent, what fills the window, when sessions compact, what to try next.
    Overview(OverviewArgs),
    /// Tokens and cost by session, project, model, day, branch or tool, and what filled the window.
    Stats(StatsArgs),
    /// Replays sessions under a policy: where the window would be compacted, what that costs, what fills it.
    Replay(ReplayArgs),
    /// Recorded compactions: when and why sessions compact, what that frees, and whether your setting is in effect.
    Audit(AuditArgs),
    /// Compares what a policy predicts with the recorded compactions.
    Validate(ValidateArgs),
    /// One HTML page of what other commands wrote to a folder, or of logs themselves.
    Report(ReportArgs),
    /// Writes notes for every session as they would stand at its end, and the summary that a compaction would leave.
    Notes(NotesArgs),
    /// Checks sessions against limits, for CI: cost, compactions, wasted reads; status 1 if one is exceeded.
    Check(CheckArgs),
    /// Manages a directory of memories from past sessions: extract, review, recall, consolidate, check.
    Memory(MemoryArgs),
    /// Searches memories first, past sessions second.
    Search(SearchArgs),
    /// Replays your sessions under many policies: what each costs and loses, and which to set, with evidence.
    Tune(TuneArgs),
    /// Shows the policy in force, and the prices.
    Config(ConfigArgs),
    /// Checks what backcast finds: logs, agents, windows, settings, cache, memories; and says what to do next.
    Doctor(DoctorArgs),
    /// Packs logs into parts, on any number of machines.
    Map(MapArgs),
    /// Runs a command on parts, with the same result as on the logs.
    Reduce(ReduceArgs),
    /// Writes made-up logs that look like real ones, for benchmarks, tests and first tries.
    Synth(SynthArgs),
    /// Prints a completion script for a shell.
    Completions {
        /// Shell to write it for.
        shell: clap_complete::Shell,
    },
    /// Prints the manual page of the program, or of a command (roff).
    Man {
        /// Command, such as `stats` or `memory recall`.
        command: Vec<String>,
    },
}

impl CliCommand {
    /// The text backend of a command that has one.
    pub fn backend(&self) -> Option<backend::BackendName> {
        match self {
            CliCommand::Memory(args) => args.backend(),
            CliCommand::Notes(args) => Some(args.model.backend),
            _ => None,
        }
    }
}

/// Where logs are, and how they are read.
#[derive(Debug, Clone, Args)]
pub struct ReadingArgs {
    /// Logs, folders or glob patterns; `-` reads a list of paths from standard input, one per line. Default: the folders where
    /// the agents keep their logs. Logs may be compressed (`.jsonl.gz`, `.jsonl.zst`). With the feature `remote`, also URLs of
    /// object stores (`s3://`, `gs://`, `az://`): objects, prefixes and patterns.
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Number of threads [default: all cores]. The output does not depend on it.
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Reading")]
    pub threads: Option<u16>,
    /// How files are read: `auto` maps big files that are not being written and reads the rest, `mmap` maps all (a file that
    /// shrinks during the run ends it), `read` maps none.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        hide_possible_values = true,
        help_heading = "Reading"
    )]
    pub io: IoArg,
    /// Longest line that is read (at least 256KiB); longer ones are skipped and reported.
    #[arg(long, default_value = "32MiB", value_parser = parse_line_size, value_name = "SIZE", help_heading = "Reading")]
    pub max_line: u64,
    /// Follow symbolic links inside folders.
    #[arg(long, help_heading = "Reading")]
    pub follow_links: bool,
    /// Parse everything again, and do not use the cache.
    #[arg(long, help_heading = "Reading")]
    pub no_cache: bool,
    /// Folder of the cache.
    #[arg(
        long,
        env = "BACKCAST_CACHE",
        value_name = "DIR",
        hide_env_values = true,
        help_heading = "Reading"
    )]
    pub cache_dir: Option<PathBuf>,
    /// Prefix of a bucket, such as `s3://team-cache/backcast`, where machines share what they made of logs in object stores: a log
    /// that one of them has parsed is parsed by no other. Used together with the cache of this machine.
    #[arg(
        long,
        env = "BACKCAST_SHARED_CACHE",
        value_name = "URL",
        hide_env_values = true,
        help_heading = "Reading"
    )]
    pub shared_cache: Option<PathBuf>,
    /// List problems with file, line and byte offset: the first ten of each kind per file, at most a thousand. Without it, only
    /// their number is shown.
    #[arg(long, help_heading = "Problems")]
    pub problems: bool,
    /// List problems as GitHub annotations: as many as --problems does.
    #[arg(long, conflicts_with = "quiet", help_heading = "Problems")]
    pub annotate: bool,
    /// Exit with status 3 if any input was lost: files or lines that could not be read. Links that are not followed do not
    /// count.
    #[arg(long, help_heading = "Problems")]
    pub strict: bool,
    /// No progress bar and no summary on standard error.
    #[arg(long, short, help_heading = "Problems")]
    pub quiet: bool,
}

/// Which logs, how they are read, and what of them counts.
#[derive(Debug, Clone, Args)]
pub struct InputArgs {
    /// Where they are, and how they are read.
    #[command(flatten)]
    pub reading: ReadingArgs,
    /// Which sessions and calls count.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// Parts that hold the logs in place of files: `reduce` sets them.
    #[arg(skip)]
    pub parts: Option<PartSet>,
}

/// Commands name an option without the group that it is in.
impl Deref for InputArgs {
    type Target = ReadingArgs;

    fn deref(&self) -> &ReadingArgs {
        &self.reading
    }
}

/// Which sessions and calls count. Every command that reads logs has these filters, with the same meaning.
#[derive(Debug, Clone, Args)]
pub struct SelectionArgs {
    /// Only what was written since then: a date (`2026-11-01`), a time (`2026-11-01T12:00:00Z`; without a zone, in that of
    /// --timezone), `today`, `yesterday`, or a span before now (`7d`, `36h`, `2w`, `3mo`). A call counts at the time of its
    /// first line.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse, help_heading = "Selection")]
    pub since: Option<TimeBound>,
    /// Only what was written up to this date (included) or time.
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse, help_heading = "Selection")]
    pub until: Option<TimeBound>,
    /// Only the last days, counted back from the newest record of the logs: `7`, `7d`, `36h`, `2w`, `3mo`.
    #[arg(long, value_name = "SPAN", conflicts_with_all = ["since", "until"], value_parser = TimeSpan::parse, help_heading = "Selection")]
    pub last: Option<TimeSpan>,
    /// Time that spans count back from [default: the time of the newest record].
    #[arg(long, value_name = "TIME", value_parser = TimeBound::parse, help_heading = "Selection")]
    pub now: Option<TimeBound>,
    /// Time zone of days and dates, e.g. `Europe/Zurich`; `local` is that of this machine [default: local for tables on a
    /// terminal, UTC for files and pipes].
    #[arg(
        long,
        default_value = "UTC",
        hide_default_value = true,
        value_name = "ZONE",
        value_parser = parse_zone,
        help_heading = "Selection"
    )]
    pub timezone: TimeZone,
    /// Only sessions of this coding agent: `claude`, `codex`, `opencode` or `pi`; repeatable. Without a path, only its folder
    /// is read.
    #[arg(
        long,
        value_name = "AGENT",
        value_parser = PossibleValuesParser::new(Agent::ALL.iter().map(|agent| agent.name())).map(parse_agent),
        hide_possible_values = true,
        help_heading = "Selection"
    )]
    pub agent: Vec<Agent>,
    /// Only sessions of projects whose path contains this text; repeatable.
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    pub project: Vec<String>,
    /// Only calls to models whose name contains this text, and sessions with such calls; repeatable.
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    pub model: Vec<String>,
    /// Only sessions whose id starts with this text or whose title contains it; repeatable.
    #[arg(long, value_name = "TEXT", help_heading = "Selection")]
    pub session: Vec<String>,
}

impl ReadingArgs {
    /// Whether the user wants every line checked for problems.
    pub fn wants_problem_list(&self) -> bool {
        self.strict || self.problems || self.annotate
    }
}

/// How results are written.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("written").args(["output"]).multiple(true)))]
pub struct OutputArgs {
    /// How rows are written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: OutputFormat,
    /// Write to a file instead of standard output (`-`).
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists. A session log is never replaced.
    #[arg(long, requires = "written", help_heading = "Output")]
    pub force: bool,
}

impl OutputArgs {
    /// Whether a table is printed, and nothing else is written.
    pub fn shows_table(&self) -> bool {
        self.format == OutputFormat::Table && self.output.is_none()
    }
}

/// What is printed, where files and pages are written elsewhere.
#[derive(Debug, Clone, Args)]
pub struct PrintArgs {
    /// What is printed: a table for people, one JSON document, or rows.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: OutputFormat,
    /// Most rows of the table; 0 for all.
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Output")]
    pub top: usize,
}

impl PrintArgs {
    /// Whether a table is printed.
    pub fn shows_table(&self) -> bool {
        self.format == OutputFormat::Table
    }
}

/// The HTML page. A command that writes other files, too, puts their options into the group `files`.
#[derive(Debug, Clone, Default, Args)]
#[command(group(ArgGroup::new("files").args(["html"]).multiple(true)))]
pub struct PageArgs {
    /// Also write everything as one HTML page.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long, requires = "files", help_heading = "Output")]
    pub force: bool,
}

/// How `check` and `validate` write results.
#[derive(Debug, Args)]
pub struct CheckOutputArgs {
    /// How it is written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: CheckFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace files that exist.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
}

impl CheckOutputArgs {
    /// Whether a table is printed, and nothing else is written.
    pub fn shows_table(&self) -> bool {
        self.format == CheckFormat::Table && self.output.is_none()
    }
}

/// Formats of `check` and `validate`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// Aligned columns for people, fitted to the terminal
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet, for data frames and query engines
    Parquet,
    /// Annotations for GitHub
    Github,
    /// JUnit XML, which most CI systems show as tests
    Junit,
}

impl CheckFormat {
    /// Returns the format of rows; `None` for the formats of CI systems.
    pub fn row_format(self) -> Option<OutputFormat> {
        match self {
            CheckFormat::Table => Some(OutputFormat::Table),
            CheckFormat::Json => Some(OutputFormat::Json),
            CheckFormat::Jsonl => Some(OutputFormat::Jsonl),
            CheckFormat::Csv => Some(OutputFormat::Csv),
            CheckFormat::Parquet => Some(OutputFormat::Parquet),
            CheckFormat::Github | CheckFormat::Junit => None,
        }
    }
}

/// Formats of documents.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// For people and prompts
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// Formats of memories and search hits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum MemoryFormat {
    /// For people
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
}

/// Which policy.
#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    /// Policy: the name of a preset, or a TOML file that changes one. Default: `backcast.toml` in the current folder, else
    /// `backcast/policy.toml` in your configuration folder, else `recorded`, which uses for each call the policy of the client
    /// version that made it.
    #[arg(
        long,
        value_name = "NAME|FILE",
        env = "BACKCAST_POLICY",
        hide_env_values = true,
        help_heading = "Policy"
    )]
    pub policy: Option<String>,
    /// Set one value of the policy, e.g. `window.percent=70`; repeatable.
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Policy")]
    pub set: Vec<String>,
    /// Context window of the model in tokens, if you know it [default: inferred from the logs].
    #[arg(long, value_name = "TOKENS", help_heading = "Policy")]
    pub window: Option<u64>,
    /// Use the client's own settings: its environment variables and its settings file.
    #[arg(long, help_heading = "Policy")]
    pub client_env: bool,
    /// Price table to use instead of the built-in one (JSON).
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    pub prices: Option<PathBuf>,
}

/// A size: a number of bytes, or one with a unit (`64MiB`, `1GB`).
pub fn parse_size(text: &str) -> Result<u64, String> {
    let digits = text
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number = number
        .parse::<u64>()
        .map_err(|_| "a size is a number with an optional unit, like 64MiB".to_owned())?;
    let factor: u64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        _ => return Err(format!("unknown unit `{unit}`: use KiB, MiB, GiB, kB, MB or GB")),
    };
    number.checked_mul(factor).ok_or_else(|| "too large".to_owned())
}

/// The parser of possible values has refused any other name.
#[allow(clippy::needless_pass_by_value, reason = "the signature that the parser asks for")]
fn parse_agent(name: String) -> Agent {
    Agent::from_name(&name).unwrap_or_default()
}

/// A line may always be as long as a block that is read.
fn parse_line_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size < BLOCK as u64 => Err("must be at least 256KiB".to_owned()),
        size => Ok(size),
    }
}

pub(crate) fn parse_share(text: &str) -> Result<f64, String> {
    let share = text
        .parse::<f64>()
        .map_err(|_| "a share is a number from 0 to 1".to_owned())?;
    if (0.0..=1.0).contains(&share) {
        Ok(share)
    } else {
        Err("a share lies between 0 and 1".to_owned())
    }
}

/// `--io`: how files are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum IoArg {
    /// Map big files that have not been written for a while, on one thread smaller ones too; read everything else
    #[default]
    Auto,
    /// Map every file. A file that shrinks meanwhile ends the run
    Mmap,
    /// Read every file
    Read,
}

impl From<IoArg> for IoMode {
    fn from(mode: IoArg) -> IoMode {
        match mode {
            IoArg::Auto => IoMode::Auto,
            IoArg::Mmap => IoMode::Mmap,
            IoArg::Read => IoMode::Read,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512"), Ok(512));
        assert_eq!(parse_size("64MiB"), Ok(64 << 20));
        assert_eq!(parse_size("1GB"), Ok(1_000_000_000));
        for wrong in ["", "MiB", "12 apples", "-1", "99999999999GiB"] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }
}
