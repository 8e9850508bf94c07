//! The arguments of `memory extract`, which `super::run` follows.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, MemoryFormat, PageArgs, parse_share};
use crate::commands::memory::DirArgs;
use crate::commands::memory::projects::ProjectArgs;
use clap::Args;
use std::path::PathBuf;

/// Confidence from which a memory is written, where nothing else is said.
pub(super) const DEFAULT_CONFIDENCE: f64 = 0.5;

/// Arguments of `memory extract`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Finds standing instructions, preferences, corrections, decisions with their reasons, and where things are: what people said in
prompts, in prompts queued while the agent worked, when they refused a call, and in answers to its questions; in English or
Chinese. Memory files that the agent wrote in the sessions are included and marked as the agent's. Pasted text, tasks, questions
and text that programs wrote do not become memories. Secrets are never kept or printed.

A memory belongs to the project whose sessions said it. Without PATH, sessions of the repository in this folder are read.
With PATH, all sessions are read; --out makes a directory for each project. A directory never holds memories of two projects.

Only what is likely to hold is written. The rest waits in `memory review`. A second run over the same logs changes nothing,
and `memory undo` reverts a run.

Examples:
  backcast memory extract                                       this repository's sessions, into its directory
  backcast memory extract logs/ --out memories/                 a directory for each project
  backcast memory extract logs/ --dir memory/                   one project, into a directory
  backcast memory extract logs/ --dry-run                       what would be kept
  backcast memory extract logs/ --dry-run -f jsonl --rejected   everything, and why the rest was rejected
  backcast memory extract logs/ --dir memory/ --backend anthropic --estimate  what asking a model would cost")]
pub struct ExtractArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Which projects.
    #[command(flatten)]
    pub projects: ProjectArgs,
    /// Only print what would be written.
    #[arg(long)]
    pub dry_run: bool,
    /// Put project facts and pointers into the team's folder.
    #[arg(long)]
    pub team: bool,
    /// Only write daily logs (`logs/YYYY/MM/YYYY-MM-DD.md`), which `memory dream` turns into memories. `memory undo` reverts
    /// this, too.
    #[arg(long, conflicts_with_all = ["team", "dry_run"])]
    pub daily: bool,
    /// Print what was found in this format [default: a table with --dry-run, --rejected or --harvest, else nothing].
    #[arg(long, short, value_enum, value_name = "FORMAT", help_heading = "Output")]
    pub format: Option<MemoryFormat>,
    /// Print what was found and what was rejected, and why.
    #[arg(long, help_heading = "Output")]
    pub rejected: bool,
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
    /// Instead print the memory files that the agent itself wrote, in their last version. Writes nothing.
    #[arg(
        long,
        conflicts_with_all = ["html", "rejected", "team", "daily", "dir", "agent_type", "rules", "min_confidence", "backend", "out", "project", "all_projects"],
        help_heading = "Output"
    )]
    pub harvest: bool,
    /// Your own rules (TOML): patterns whose matches are memories.
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub rules: Option<PathBuf>,
    /// Least confidence for a memory to be written, 0 to 1.
    #[arg(long, value_name = "X", default_value_t = DEFAULT_CONFIDENCE, value_parser = parse_share, help_heading = "Selection")]
    pub min_confidence: f64,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}
