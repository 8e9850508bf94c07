//! Arguments of `notes`.

use crate::cli::backend::BackendArgs;
use crate::cli::{InputArgs, PolicyArgs};
use clap::Args;
use std::path::PathBuf;
use table::OutputFormat;

/// Arguments of `notes`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every session gets PROJECT/SESSION/session-memory/summary.md below the folder: ten sections, from the title to the worklog,
as they would stand when the session ended. Notes are brought up to date when the window has grown enough (policy values
notes.first, notes.growth and notes.calls); what came after the last update is in them only with --to-end. They are taken
from the session itself, without a model: what was asked, changed, run, failed, fixed, decided and answered, in the words of
the log, secrets masked. Sub-agents and rewound branches stay out.

A file that is there already is continued: what somebody wrote into it stays, what they deleted stays away. Summaries and
histories are written whole; one that somebody changed since is left to them, and named (--problems). --force writes all of
them anew.

With --backend anthropic a model writes them, update after update, from what the one before left; headings, limits and the
messages of the user are kept by the program all the same. Without --history one update stands for several where they fit.

With --summary there is compact.md beside it: the nine sections that would stand in for the history after a compaction, with
every message of the user in full.

Examples:
  backcast notes --out notes/                             your own sessions
  backcast notes logs/ --out notes/ --history             also how the notes stood after every update
  backcast notes log.jsonl --out notes/ --summary         also what a compaction now would leave
  backcast notes logs/ --out notes/ --summary --backend anthropic --estimate    what a model would cost
  backcast notes log.jsonl --out notes/ --up-to 0c97beba-bfcb-4f84-9950-e0354bfc808b")]
pub struct NotesArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Folder for the notes; made if it is missing.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: PathBuf,
    /// Write the notes after every update, too: session-memory/history/0001.md and so on; with --summary also a summary at
    /// every recorded compaction.
    #[arg(long, help_heading = "Output")]
    pub history: bool,
    /// Bring the notes up to the end of the session, not only to the last update.
    #[arg(long, help_heading = "Output")]
    pub to_end: bool,
    /// Write the summary of a compaction, too: of what came since the last recorded one.
    #[arg(long, help_heading = "Output")]
    pub summary: bool,
    /// Summarise from this message on; earlier ones would stay. Only sessions that have it are looked at. Any record of the
    /// main conversation will do: one without words of its own (thinking, say) stands for the message beside it.
    #[arg(long, value_name = "UUID", conflicts_with = "up_to", help_heading = "Output")]
    pub from: Option<String>,
    /// Summarise up to this message; later ones would stay. As --from.
    #[arg(long, value_name = "UUID", help_heading = "Output")]
    pub up_to: Option<String>,
    /// What the summary should mind, as it is given with a compaction. Needs --summary, --from or --up-to.
    #[arg(long, value_name = "TEXT", default_value = "", help_heading = "Output")]
    pub instructions: String,
    /// Sections to use instead of the ten: a Markdown file with headings and a description in italics below each.
    /// `{{session}}` and `{{project}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub template: Option<PathBuf>,
    /// Instructions for the update, for backends that ask a model. `{{session}}`, `{{project}}`, `{{notes_path}}` and
    /// `{{current_notes}}` are filled in.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub prompt: Option<PathBuf>,
    /// Write all notes and summaries of the folder as one HTML page, too. An earlier page of notes is replaced; any other
    /// file that is there is not, whatever the switches.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace notes that are there instead of continuing them, and summaries that somebody changed.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
    /// How the list of what was written is printed.
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

impl NotesArgs {
    /// Whether a summary is wanted.
    pub fn wants_summary(&self) -> bool {
        self.summary || self.from.is_some() || self.up_to.is_some()
    }
}
