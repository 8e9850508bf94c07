//! The command line, as typed. What it means is worked out by the commands.

pub mod backend;
pub mod check;
pub mod memory;
pub mod notes;
pub mod search;

use crate::usage::tally::GroupBy;
use clap::{ArgGroup, Args, Parser, Subcommand, ValueEnum};
use replay::tune::search::SearchMethod;
use std::path::PathBuf;
use table::OutputFormat;
use transcript::bytes::{BLOCK, IoMode};

/// Sees what really happened in the session logs of coding agents: every token counted once, what it cost, what filled the
/// context window.
#[derive(Debug, Parser)]
#[command(
    name = "backcast",
    version,
    max_term_width = 100,
    after_long_help = "\
Exit status:
  0  done
  1  a check found something
  2  wrong usage, or the run could not be done
  3  done, but with --strict: some input was lost

Environment:
  CLAUDE_CONFIG_DIR  the client's home; its folder `projects` is read when no path is given
  BACKCAST_POLICY    policy to use when --policy is not given
  BACKCAST_CACHE     folder of the cache (default: backcast in the user's cache folder)
  BACKCAST_OFFLINE   as --offline
  ANTHROPIC_API_KEY  key for --backend anthropic (or ANTHROPIC_AUTH_TOKEN); ANTHROPIC_BASE_URL is its server
  NO_COLOR           no colours, ever
  CLICOLOR_FORCE     colours also where no terminal is (anything but 0)
  CI                 no progress bars

Data goes to standard output, everything else to standard error."
)]
pub struct Cli {
    /// Forbid all network: a command that would need it ends before it begins.
    #[arg(
        long,
        global = true,
        env = "BACKCAST_OFFLINE",
        value_parser = clap::builder::FalseyValueParser::new(),
        hide_env_values = true,
        help_heading = "Network"
    )]
    pub offline: bool,
    /// What to do; without anything, an overview of your sessions.
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
    /// Runs sessions through a policy: where the window would be compacted, what that costs, what fills it.
    Replay(ReplayArgs),
    /// What was recorded at compactions: when sessions really compact, what it frees, and whether a setting works.
    Audit(AuditArgs),
    /// Holds what a policy predicts against the compactions that were recorded.
    Validate(ValidateArgs),
    /// One HTML page of what other commands wrote to a folder, or of logs themselves.
    Report(ReportArgs),
    /// Writes notes of every session as they would stand at its end, and what a compaction would leave of it.
    Notes(notes::NotesArgs),
    /// Holds sessions against limits, for CI: cost, compactions, wasted reads; status 1 if one is exceeded.
    Check(check::CheckArgs),
    /// A directory of memories from past sessions: extracted, asked, consolidated, checked.
    Memory(memory::MemoryArgs),
    /// Looks for words in memories first, in past sessions second.
    Search(search::SearchArgs),
    /// Sweeps policies over your sessions: what each costs and loses, and which to set, with evidence.
    Tune(TuneArgs),
    /// Shows the policy in force, and the prices.
    Config(ConfigArgs),
    /// Writes made-up logs in the shapes of real ones: for benchmarks, tests and trying things out.
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

/// Which logs, and how they are read.
#[derive(Debug, Clone, Args)]
pub struct InputArgs {
    /// Logs, folders or glob patterns; `-` reads a list of paths, one a line, from standard input. Without any, the
    /// client's own projects folder. Logs may be packed (`.jsonl.gz`, `.jsonl.zst`).
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Threads to use [default: all cores]. The output does not depend on it.
    #[arg(long, short = 'j', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Reading")]
    pub threads: Option<u16>,
    /// How files are read: `auto` maps big files that nobody writes to and reads the rest, `mmap` maps all (a file that
    /// shrinks meanwhile ends the run), `read` maps none.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "HOW",
        hide_possible_values = true,
        help_heading = "Reading"
    )]
    pub io: IoArg,
    /// Longest line that is read (at least 256KiB); longer ones are passed over and reported.
    #[arg(long, default_value = "32MiB", value_parser = parse_line_size, value_name = "SIZE", help_heading = "Reading")]
    pub max_line: u64,
    /// Follow symbolic links inside folders.
    #[arg(long, help_heading = "Reading")]
    pub follow_links: bool,
    /// Parse everything anew and remember nothing.
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
    /// List every problem with file, line and byte offset, not only how many there were.
    #[arg(long, help_heading = "Problems")]
    pub problems: bool,
    /// List every problem as an annotation that GitHub shows beside a run.
    #[arg(long, conflicts_with = "quiet", help_heading = "Problems")]
    pub annotate: bool,
    /// End with status 3 if any input was lost: files or lines that could not be read. Links that are not followed are only
    /// named.
    #[arg(long, help_heading = "Problems")]
    pub strict: bool,
    /// No progress bar and no summary on standard error.
    #[arg(long, short, help_heading = "Problems")]
    pub quiet: bool,
}

/// Which times count.
#[derive(Debug, Clone, Args)]
pub struct TimeArgs {
    /// Only what was written from this time on: a date (`2026-11-01`) or a time (`2026-11-01T12:00:00Z`; without a zone it is
    /// one of --timezone). A call counts at the time of its first line.
    #[arg(long, value_name = "TIME", help_heading = "Selection")]
    pub since: Option<String>,
    /// Only what was written before the end of this date, or before this time.
    #[arg(long, value_name = "TIME", help_heading = "Selection")]
    pub until: Option<String>,
    /// Only the last days that the logs tell of: the day of the newest record, and those before it.
    #[arg(long, value_name = "DAYS", conflicts_with_all = ["since", "until"], value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Selection")]
    pub last: Option<u32>,
    /// Time zone of days and dates, e.g. `Europe/Zurich`.
    #[arg(long, default_value = "UTC", value_name = "ZONE", help_heading = "Selection")]
    pub timezone: String,
}

impl InputArgs {
    /// Whether problems of single lines matter.
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
    /// Replace that file if it exists; a session log never.
    #[arg(long, requires = "written", help_heading = "Output")]
    pub force: bool,
}

/// Arguments of `overview`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
`backcast` alone is the same, for your own sessions. Days count back from the newest record of the logs, not from today.

Examples:
  backcast                     your own sessions
  backcast overview corpus     those of a folder")]
pub struct OverviewArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Time zone of days.
    #[arg(long, default_value = "UTC", value_name = "ZONE", help_heading = "Selection")]
    pub timezone: String,
    /// Price table to use instead of the built-in one (JSON).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub prices: Option<PathBuf>,
    /// How it is written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: memory::DocumentFormat,
}

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every API call counts once: lines of one response, copies in resumed and forked sessions and sub-agents' replays are told
apart by message and request id, and the most complete telling counts. Sub-agents are included. Calls that only a progress
record shows (their own logs are gone) are reported beside the totals, not in them.

Token counts of calls are as recorded. Sizes in the ledger (what filled the window) are recorded, calibrated from the
difference between two recorded windows, or estimated; the shares are shown.

Examples:
  backcast stats                              your own sessions
  backcast stats --by day --since 2026-11-01  cost by day
  backcast stats --by project --last 30       the last 30 days by project
  backcast stats corpus --by tool             which tools fill the window
  backcast stats logs/ -f json -o usage.json  everything, for other programs")]
pub struct StatsArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// What rows are grouped by.
    #[arg(long, value_enum, default_value_t, value_name = "KEY", help_heading = "Selection")]
    pub by: GroupBy,
    /// Which times.
    #[command(flatten)]
    pub times: TimeArgs,
    /// Show sub-agents in rows of their own.
    #[arg(long, help_heading = "Selection")]
    pub subagents: bool,
    /// Most rows of the table, of which the costliest are kept (the largest by tool); 0 for all. Other formats have all rows.
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Output")]
    pub top: usize,
    /// Price table to use instead of the built-in one (JSON; `backcast stats -f json` names the one in use).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub prices: Option<PathBuf>,
    /// Show how well sizes are estimated: every round predicted from the one before. Formats of rows alone (jsonl, csv,
    /// parquet) have these rows instead.
    #[arg(long, help_heading = "Output")]
    pub quality: bool,
    /// How results are written.
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Which policy.
#[derive(Debug, Clone, Args)]
pub struct PolicyArgs {
    /// Policy: the name of a preset, or a TOML file of differences from one. Without it, `backcast.toml` in the current
    /// folder, then `backcast/policy.toml` in the user's configuration folder, then `recorded`, which takes for every call
    /// the policy of the client version that made it.
    #[arg(
        long,
        value_name = "NAME|FILE",
        env = "BACKCAST_POLICY",
        hide_env_values = true,
        help_heading = "Policy"
    )]
    pub policy: Option<String>,
    /// Sets one value of the policy, e.g. `window.percent=70`; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Policy")]
    pub set: Vec<String>,
    /// Context window of the model in tokens, where you know it; without it, it is inferred.
    #[arg(long, value_name = "TOKENS", help_heading = "Policy")]
    pub window: Option<u64>,
    /// Take over the client's own switches: its environment variables and its settings file.
    #[arg(long, help_heading = "Policy")]
    pub client_env: bool,
    /// Price table to use instead of the built-in one (JSON).
    #[arg(long, value_name = "FILE", help_heading = "Policy")]
    pub prices: Option<PathBuf>,
}

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every policy is replayed on every session; traces are made once. The one that is best on all sessions is recommended only if
choosing on some sessions pays on the others: sessions are split into folds, and the interval comes from resampling them.

A miss is an edit of lines that are no longer in the window. What one is worth only you can say: --miss-cost, and the list
of prices at which the choice flips.

Examples:
  backcast tune                                  thresholds from 40 to 100 % on your own sessions
  backcast tune logs/ --policy client-2.1.30 --vary window.percent=50..100:5 --vary micro.budget.on=true,false
  backcast tune logs/ --vary window.percent=30..100:1 --search halving --out reports/tune")]
#[command(group(ArgGroup::new("files").args(["out", "html"]).multiple(true)))]
pub struct TuneArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// The present policy: what others are compared with, and differ from.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Values of a key to try: `key=a,b,c` or `key=lo..hi:step`; several are combined.
    #[arg(
        long,
        default_value = "window.percent=40..100:10",
        value_name = "KEY=VALUES",
        help_heading = "Search"
    )]
    pub vary: Vec<String>,
    /// How the combinations are searched.
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Search")]
    pub search: SearchArg,
    /// Policies of a random search [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Search")]
    pub points: Option<u64>,
    /// Most policies of other searches.
    #[arg(long, default_value_t = 5000, value_name = "N", help_heading = "Search")]
    pub max_points: u64,
    /// What a miss is worth in dollars.
    #[arg(long, default_value_t = 1.0, value_name = "USD", value_parser = parse_miss_cost, help_heading = "Search")]
    pub miss_cost: f64,
    /// Same seed, same result.
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Search")]
    pub seed: u64,
    /// Parts that sessions are split into, to choose on some and test on others; at most one a session [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..), help_heading = "Search")]
    pub folds: Option<usize>,
    /// Resamples for intervals, at least 100: with fewer there is no telling where 95 % lie.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(100..), help_heading = "Search")]
    pub resamples: usize,
    /// Folder for points.csv, front.csv, recommendation.json and scores, from which a run that was broken off goes on.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write everything as one HTML page, too.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace files of an earlier run.
    #[arg(long, requires = "files", help_heading = "Output")]
    pub force: bool,
    /// What is printed: a table for people, one JSON document, or a row a policy.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: OutputFormat,
    /// Most rows of the table: the present policy, the best, and others that no policy beats in everything; 0 for all
    /// policies.
    #[arg(long, default_value_t = 15, value_name = "N", help_heading = "Output")]
    pub top: usize,
}

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What `config` does.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints the built-in price table, to be completed and given to --prices.
    Prices,
    /// Prints the policy that the options come to, as TOML that --policy reads.
    Show {
        /// Which policy.
        #[command(flatten)]
        policy: PolicyArgs,
        /// Say beside each value where it comes from.
        #[arg(long)]
        origin: bool,
        /// List the presets instead.
        #[arg(long)]
        presets: bool,
    },
}

/// Arguments of `replay`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
The policy acts: it clears, compacts and restores, and recorded messages are taken as they came. As long as it does what the
recorded client did, recorded sizes are used; after that, the window is made of the sizes of its blocks. The replay is
open-loop: what an agent would have done after losing something is not simulated.

With --out, the folder gets sessions.csv, rounds.csv (or .parquet), boundaries.jsonl, summary.json and manifest.json; with
--working-set, --compare or --html also misses.jsonl, with --events events.jsonl, and with --compare compare.csv and
compare.json, while the other files are about the first policy. --force takes the files of an earlier run away, as far as
its manifest lists them.

Examples:
  backcast replay corpus                                    what the recorded policy does
  backcast replay logs/ --policy article --out reports/run  all rows, for other programs
  backcast replay logs/ --set window.percent=60             a lower threshold
  backcast replay logs/ --compare never                     what compaction saves and loses
  backcast replay logs/ --html run.html                     every session drawn, on one page
  backcast replay logs/ --policy article --with-text        what real notes and summaries would carry over")]
#[command(group(ArgGroup::new("files").args(["out", "html"]).multiple(true)))]
pub struct ReplayArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Hold a second policy against the first, on the same sessions: a preset or a file, as for --policy. Implies
    /// --working-set.
    #[arg(long, value_name = "NAME|FILE", help_heading = "Policy")]
    pub compare: Option<String>,
    /// Sets one value of the second policy; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", requires = "compare", help_heading = "Policy")]
    pub compare_set: Vec<String>,
    /// Look whether what was used again was still in the window: hits, misses, reads of what had been dropped.
    #[arg(long, help_heading = "Output")]
    pub working_set: bool,
    /// Put real texts into the boundaries: the notes as they stand there, or an offline summary. Sizes are theirs, and what
    /// the rest of the session needed and they do not carry is counted. Sub-agents keep assumed sizes.
    #[arg(long, conflicts_with = "compare", help_heading = "Output")]
    pub with_text: bool,
    /// Write every event to events.jsonl, too.
    #[arg(long, requires = "out", help_heading = "Output")]
    pub events: bool,
    /// Folder for the files of the run; made if it is missing.
    #[arg(long, value_name = "DIR", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// Write everything as one HTML page, too. Implies --working-set.
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// Replace files of an earlier run.
    #[arg(long, requires = "files", help_heading = "Output")]
    pub force: bool,
    /// Format of the rounds.
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        requires = "out",
        help_heading = "Output"
    )]
    pub rounds: table::stream::StreamFormat,
    /// What is printed: a table for people, the summary as one JSON document, or a row a session.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: OutputFormat,
    /// Most rows of the table, with --compare of its lists together; 0 for all.
    #[arg(long, default_value_t = 10, value_name = "N", help_heading = "Output")]
    pub top: usize,
}

impl ReplayArgs {
    /// Whether hits and misses are wanted.
    pub fn wants_working_set(&self) -> bool {
        self.working_set || self.compare.is_some() || self.html.is_some()
    }
}

/// Arguments of `audit`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Sizes before and after are those on the wire, from recorded usage. The log does not record the threshold: it lies above the
highest context that was sent without a compaction, and is at most the lowest that was compacted. It is compared with the one
that the policy has for the version of the client, the model and the window.

With --client-env, or --set of window.percent, window.override, switch.auto or switch.compaction, every session is checked
for whether that setting took effect. An override can only lower the threshold.

Examples:
  backcast audit                          your own sessions
  backcast audit --client-env             does what is set now show in them?
  backcast audit --set window.percent=70  the same for a value
  backcast audit logs/ -f csv -o b.csv    one row a boundary, for other programs")]
pub struct AuditArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Most boundaries of the table, the most remarkable first; 0 for all. Other formats have all.
    #[arg(long, default_value_t = 6, value_name = "N", help_heading = "Output")]
    pub top: usize,
    /// Write everything as one HTML page, too.
    #[arg(long, value_name = "FILE", group = "written", help_heading = "Output")]
    pub html: Option<PathBuf>,
    /// How results are written.
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
A folder may hold what `replay --out`, `tune --out`, `notes --out` and `memory` wrote, and JSON documents of `stats`, `audit`,
`replay --compare`, `tune` and `memory extract`, in any depth: the page shows whatever is there. Logs are replayed and audited
for it, by the policy; where there are only results, a policy is refused. The page is one file that loads nothing: it can be
mailed, archived and opened without a network.

Examples:
  backcast report                        your own sessions, to report.html
  backcast report reports/run            what is in a folder, to reports/run/report.html
  backcast report logs/ -o week.html     logs, to a file")]
pub struct ReportArgs {
    /// Folders that other commands wrote to, or logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy logs are replayed with; results are shown as they are.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Where the page goes [default: report.html in the folder that other commands wrote to; for logs, in the current one].
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
}

/// Arguments of `validate`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every session is replayed with the policy of the client version that made it, following the record, and the policy says
before every call whether it is due. A recorded automatic compaction is exact if the policy is due there and was not
before. What the log does not hold (the last message was never written, the window is not known) is undecidable and counts
neither way.

Examples:
  backcast validate logs/                      how well the recorded client is modelled
  backcast validate logs/ --explain 7ff477a9   the boundaries of one session, step by step
  backcast validate logs/ -f json              everything, for other programs
  backcast validate logs/ -f junit -o v.xml    a test a boundary, for CI systems")]
pub struct ValidateArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Say, too, how well hits and misses predict what agents do: the first edit of a file after a boundary, and whether a
    /// read came first.
    #[arg(long, help_heading = "Output")]
    pub working_set: bool,
    /// A prediction this many calls off still counts as `within`.
    #[arg(long, value_name = "CALLS", default_value_t = 3, help_heading = "Output")]
    pub within: u64,
    /// Walk through the boundaries of one session step by step, so that they can be checked by hand. The beginning of its
    /// id is enough. A text for people, in no other format.
    #[arg(long, value_name = "SESSION", help_heading = "Output")]
    pub explain: Option<String>,
    /// How results are written.
    #[command(flatten)]
    pub out: check::CheckOutputArgs,
}

/// Arguments of `synth`.
#[derive(Debug, Args)]
pub struct SynthArgs {
    /// What to write.
    #[command(subcommand)]
    pub command: SynthCommand,
}

/// What `synth` writes.
#[derive(Debug, Subcommand)]
pub enum SynthCommand {
    /// A corpus of a given size, as the client would have left it, with the truth about it in `expected.json`.
    Bulk {
        /// Folder to write to; must be empty or missing.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
        /// Size of all logs together.
        #[arg(long, default_value = "64MiB", value_parser = parse_size, value_name = "SIZE")]
        bytes: u64,
        /// How many logs.
        #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        files: u32,
        /// Same seed, same bytes.
        #[arg(long, default_value_t = 1, value_name = "N")]
        seed: u64,
        /// Share of lines that are damaged, 0 to 1.
        #[arg(long, default_value_t = 0.0, value_parser = parse_share, value_name = "SHARE")]
        corruption: f64,
    },
    /// The bundled cases, one folder each, with the truth about each in its `expected.json`.
    Corpus {
        /// Folder to write to; must be empty or missing.
        #[arg(long, value_name = "DIR", required_unless_present = "list")]
        out: Option<PathBuf>,
        /// Only list the cases.
        #[arg(long)]
        list: bool,
    },
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

/// A line may always be as long as a block that is read.
fn parse_line_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        size if size < BLOCK as u64 => Err("must be at least 256KiB".to_owned()),
        size => Ok(size),
    }
}

/// What something is worth, in dollars.
fn parse_miss_cost(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok();
    let worth = dollars.filter(|dollars| dollars.is_finite() && *dollars >= 0.0);
    worth.ok_or_else(|| "an amount is a number of dollars, 0 or more".to_owned())
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

/// `--search`: how the space is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SearchArg {
    /// Every combination on all sessions
    #[default]
    Grid,
    /// Combinations picked by the seed
    Random,
    /// Every combination on a few sessions, the better half on twice as many, and so on
    Halving,
}

impl From<SearchArg> for SearchMethod {
    fn from(mode: SearchArg) -> SearchMethod {
        match mode {
            SearchArg::Grid => SearchMethod::Grid,
            SearchArg::Random => SearchMethod::Random,
            SearchArg::Halving => SearchMethod::Halving,
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
