//! The command line of `search`, as typed.

use crate::cli::InputArgs;
use crate::cli::memory::{DirArgs, MemoryFormat};
use clap::{Args, ValueEnum};

/// Arguments of `search`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Memories that fit come first, then messages of past sessions: what people wrote and what the model answered. Words are found
by their stems, rarer ones count more, and so do words of the query that stand next to each other. Copies of a message in
resumed sessions are shown once. Secrets are masked.

Examples:
  backcast search \"connection pool size\"               in the memory of this project and all sessions
  backcast search \"flaky import\" logs/ --only transcripts
  backcast search \"staging password\" -f jsonl          an object a line")]
pub struct SearchArgs {
    /// What to look for.
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Look only there.
    #[arg(long, value_enum, value_name = "WHERE", help_heading = "Selection")]
    pub only: Option<SearchTarget>,
    /// Most memories in the answer.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Selection")]
    pub memories: usize,
    /// Most messages in the answer.
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 10,
        help_heading = "Selection"
    )]
    pub most: usize,
    /// Look in what tools answered, too.
    #[arg(long, help_heading = "Selection")]
    pub results: bool,
    /// How it is printed.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: MemoryFormat,
}

/// Where `search` looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchTarget {
    /// The memory directory
    Memories,
    /// Past sessions
    Transcripts,
}
