//! The command line of `memory`, as typed.

use crate::cli::backend::{BackendArgs, BackendName};
use crate::cli::{InputArgs, parse_share};
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Arguments of `memory`.
#[derive(Debug, Args)]
pub struct MemoryArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: MemoryCommand,
}

impl MemoryArgs {
    /// Which directory.
    pub fn dir(&self) -> &DirArgs {
        match &self.command {
            MemoryCommand::Extract(args) => &args.dir,
            MemoryCommand::Recall(args) => &args.dir,
            MemoryCommand::Dream(args) => &args.dir,
            MemoryCommand::Undo(args) => &args.dir,
            MemoryCommand::Prompt(args) => &args.dir,
            MemoryCommand::Check(args) => &args.dir,
            MemoryCommand::List(args) => &args.dir,
        }
    }

    /// The text backend of what has one.
    pub fn backend(&self) -> Option<BackendName> {
        match &self.command {
            MemoryCommand::Extract(args) => Some(args.model.backend),
            MemoryCommand::Recall(args) => Some(args.model.backend),
            MemoryCommand::Dream(args) => Some(args.model.backend),
            _ => None,
        }
    }
}

/// What `memory` does.
#[derive(Debug, Subcommand)]
pub enum MemoryCommand {
    /// Finds what people said that will hold in later sessions, and keeps it.
    Extract(ExtractArgs),
    /// Finds the memories that help with a query; none is a good answer.
    Recall(RecallArgs),
    /// Consolidates: merges what says the same, settles contradictions, retires what is old. Nothing is lost.
    Dream(DreamArgs),
    /// Brings files back to how they were before a run.
    Undo(UndoArgs),
    /// Prints the memory section of a system prompt, with the index, and the instruction files.
    Prompt(PromptArgs),
    /// Says what is wrong with a memory directory; status 1 if anything is.
    Check(MemoryCheckArgs),
    /// Lists the memories.
    List(ListArgs),
}

/// Which directory.
#[derive(Debug, Args)]
pub struct DirArgs {
    /// Memory directory. Without it: CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, the user's settings (never those committed in a
    /// repository), then `projects/SLUG/memory` in the client's home, by the root of the repository.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The memory of an agent of this type instead; a `:` in it becomes `-`.
    #[arg(long, value_name = "TYPE", conflicts_with = "dir")]
    pub agent: Option<String>,
    /// Which memory of the agent.
    #[arg(long, value_enum, default_value_t, value_name = "SCOPE", requires = "agent")]
    pub scope: AgentScope,
    /// Sets a limit of the policy, e.g. `recall.most=3`; may be given several times.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

/// Whose memory an agent's is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum AgentScope {
    /// The user's, in every project
    #[default]
    User,
    /// The project's, committed
    Project,
    /// The project's, on this machine only
    Local,
}

/// How answers are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum DocumentFormat {
    /// For people and prompts
    #[default]
    Text,
    /// One JSON document
    Json,
}

/// How findings are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum MemoryCheckFormat {
    /// A line for each
    #[default]
    Text,
    /// One JSON document
    Json,
    /// Annotations for GitHub
    Github,
    /// JUnit XML, a test a file
    Junit,
}

/// Arguments of `memory recall`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Memories are ranked by the words of the query: in name, description and text, by how rare they are, how close together they
stand, and by stems and other words for the same. If the best memories hold hardly any of what the query asks for, and not
its sharpest word, the answer is empty (--fit). In a big directory it is empty, too, if much of the query is nowhere, or if
nobody said together what a question about oneself puts together. Queries of one word are not answered.

Examples:
  backcast memory recall \"how do we run the integration tests\"
  backcast memory recall --queries prompts.jsonl    an answer a line, {\"id\", \"query\", \"selected\"}
  backcast memory recall \"how to run the tests\" --backend anthropic --estimate    what a model would cost")]
pub struct RecallArgs {
    /// What it is about.
    #[arg(required_unless_present = "queries", value_name = "QUERY")]
    pub query: Option<String>,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Answers many: a JSON object a line, `{"id", "text"}`; `-` is standard input. Writes a JSON object a line.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub queries: Option<PathBuf>,
    /// Most memories in an answer, at least 1 [default: 5, `recall.most`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub most: Option<u32>,
    /// How many files are looked at, the newest first; 0 for all [default: 200, `recall.files`].
    #[arg(long, value_name = "N")]
    pub max_files: Option<usize>,
    /// Share of a query's weight, 0 to 1, that must be there when its sharpest word is not; with 0 whatever has a word of the
    /// query will do.
    #[arg(long, value_name = "SHARE", default_value_t = 0.15, value_parser = parse_share)]
    pub fit: f64,
    /// A file that this session was shown or has read; may be given several times.
    #[arg(long, value_name = "FILE")]
    pub surfaced: Vec<String>,
    /// A tool in use: its usage docs are left out, warnings about it are not. May be given several times.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Bytes that the session has left for memories [default: 60000, `recall.session_bytes`].
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<usize>,
    /// How the answer is written.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: DocumentFormat,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// Arguments of `memory dream`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Runs when a day has gone by since the last one and five sessions have newer transcripts; otherwise it says why not and ends
with status 0. What leaves the directory goes to `.archive` with the reason; `memory undo` brings it back.

With --backend anthropic a model names further pairs that say the same or contradict each other; what is done about them is
decided by the same rules.")]
pub struct DreamArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Show what would change as a diff, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Whether or not it is time.
    #[arg(long)]
    pub force: bool,
    /// Folder of the transcripts that count as sessions [default: the folder above the directory].
    #[arg(long, value_name = "DIR")]
    pub transcripts: Option<PathBuf>,
    /// Least hours since the last one [default: 24, `dream.hours`].
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(i64).range(0..=100_000))]
    pub hours: Option<i64>,
    /// Least number of sessions with newer transcripts [default: 5, `dream.sessions`].
    #[arg(long, value_name = "N")]
    pub sessions: Option<usize>,
    /// Days after which a project fact that was said once leaves.
    #[arg(long, value_name = "DAYS", default_value_t = 180, value_parser = clap::value_parser!(i64).range(1..=100_000))]
    pub prune_days: i64,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// Arguments of `memory undo`.
#[derive(Debug, Args)]
pub struct UndoArgs {
    /// Which run [default: the last one].
    pub run: Option<String>,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// List the runs instead.
    #[arg(long)]
    pub list: bool,
    /// Show what would change as a diff, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `memory prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// A file that is being worked on: instruction files in the folders above it are added. May be given several times.
    #[arg(long, value_name = "PATH")]
    pub touched: Vec<PathBuf>,
    /// Only the section about the memory.
    #[arg(long)]
    pub memory_only: bool,
}

/// Arguments of `memory check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --logs the directory is also held against what extraction makes of them: what they say that is not here, what was said
again, taken back or contradicted since is out of date.

Examples:
  backcast memory check --dir memory/ -f github            annotations for a pull request
  backcast memory check --dir memory/ --logs logs/         does it need `memory extract`?")]
pub struct MemoryCheckArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Logs, folders or patterns that the directory should be up to date with.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub logs: Vec<PathBuf>,
    /// The directory is kept with `extract --team`: project facts and pointers belong in the team's folder.
    #[arg(long, requires = "logs")]
    pub team: bool,
    /// How findings are written.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: MemoryCheckFormat,
    /// List every problem of the logs with file, line and byte offset, not only how many there were.
    #[arg(long, requires = "logs", help_heading = "Problems")]
    pub problems: bool,
    /// End with status 3 if any of the logs was lost or skipped.
    #[arg(long, requires = "logs", help_heading = "Problems")]
    pub strict: bool,
    /// No progress bar and no summary on standard error.
    #[arg(long, short, help_heading = "Problems")]
    pub quiet: bool,
}

/// Arguments of `memory list`.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// How the list is written.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: DocumentFormat,
    /// Write them as an HTML page, too.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, requires = "html")]
    pub force: bool,
}

/// Arguments of `memory extract`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Lasting instructions, preferences, corrections and confirmations, who somebody is, decisions with their reasons, where
things are: said by a person, in English or Chinese. Pasted text, questions, tasks and what programs write in the user's
name are no memories. Secrets are never kept or printed.

Without --dry-run they are put into the memory directory: new ones as files, known ones get the new sources, a person's
wording stays. A second run over the same logs changes nothing. `memory undo` takes a run back.

Examples:
  backcast memory extract logs/ --dir memory/                   into a directory
  backcast memory extract logs/ --dry-run                       what would be kept
  backcast memory extract logs/ --dry-run -f jsonl --rejected   everything, and why the rest was turned down
  backcast memory extract logs/ --dry-run --harvest             memory files that the agent itself wrote
  backcast memory extract logs/ --backend anthropic --estimate  what asking a model would cost")]
pub struct ExtractArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Only print what would be kept.
    #[arg(long)]
    pub dry_run: bool,
    /// Put project facts and pointers into the team's folder.
    #[arg(long)]
    pub team: bool,
    /// Only note it in the logs of the days it was said on (`logs/YYYY/MM/YYYY-MM-DD.md`), which `memory dream` distils. Taken back
    /// by `memory undo`, too.
    #[arg(long, conflicts_with_all = ["team", "dry_run"])]
    pub daily: bool,
    /// Print what was found, in this form [default: a table with --dry-run, --rejected or --harvest, else nothing].
    #[arg(long, short, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<MemoryFormat>,
    /// Print what was found and what was turned down, and why.
    #[arg(long, help_heading = "Output")]
    pub rejected: bool,
    /// Write what was found, and what was turned down, as an HTML page, too.
    #[arg(long, value_name = "FILE", conflicts_with = "harvest", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, requires = "html", help_heading = "Output")]
    pub force: bool,
    /// Print the memory files that the agent itself wrote, as they last were, instead; no directory is touched.
    #[arg(
        long,
        conflicts_with_all = ["rejected", "team", "daily", "dir", "agent", "rules", "min_confidence", "backend"],
        help_heading = "Output"
    )]
    pub harvest: bool,
    /// More rules (TOML, in the form of the built-in ones).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub rules: Option<PathBuf>,
    /// Confidence from which something counts, 0 to 1.
    #[arg(long, value_name = "X", default_value_t = 0.5, value_parser = parse_share, help_heading = "Selection")]
    pub min_confidence: f64,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// How memories are printed.
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
