//! `backcast memory`: a directory of memories, read, consolidated, asked and checked.

mod consolidate;
pub(super) mod drawn;
pub(super) mod extract;
pub(super) mod folder;
mod projects;
mod prompt;
mod recall;
mod review;
mod stored;

use crate::cli::backend::BackendName;
use crate::cli::{DocumentFormat, PageArgs};
use crate::commands::given::GivenOptions;
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::terminal::notice;
use crate::commands::writing::{ensure_absent, fold_for_terminal, write_page};
use crate::commands::{RunStatus, print};
use crate::page::PageContent;
use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use consolidate::{DreamArgs, UndoArgs};
use extract::ExtractArgs;
use language::{secrets, when};
use memory::check;
use memory::check::MemoryFinding;
use prompt::PromptArgs;
use recall::RecallArgs;
use review::ReviewArgs;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use table::findings::{format_annotations, format_junit};
use table::human::{format_count, format_count_with_plural};
use transcript::log::Time;

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
            MemoryCommand::Review(args) => &args.dir,
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
    /// Finds what people said that later sessions should know, and keeps it.
    Extract(ExtractArgs),
    /// Shows candidates that are too uncertain to be written, and records your decisions.
    Review(ReviewArgs),
    /// Finds the memories that help with a query.
    Recall(RecallArgs),
    /// Consolidates: merges duplicates, resolves contradictions, retires what is outdated. Nothing is lost.
    Dream(DreamArgs),
    /// Restores the files as they were before a run.
    Undo(UndoArgs),
    /// Prints the memory section of a system prompt, with the index, and the instruction files.
    Prompt(PromptArgs),
    /// Checks a memory directory; status 1 if anything is wrong.
    Check(MemoryCheckArgs),
    /// Lists the memories and where they are.
    List(ListArgs),
}

/// Which directory.
#[derive(Debug, Default, Args)]
pub struct DirArgs {
    /// Memory directory. Without it: CLAUDE_COWORK_MEMORY_PATH_OVERRIDE, the user's settings (never those committed in a
    /// repository), then `projects/SLUG/memory` in the client's home, by the root of the repository.
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Use the memory of this agent type instead; a `:` in it becomes `-`.
    #[arg(long, value_name = "TYPE", conflicts_with = "dir")]
    pub agent_type: Option<String>,
    /// Which memory of the agent.
    #[arg(long, value_enum, default_value_t, value_name = "SCOPE", requires = "agent_type")]
    pub scope: AgentScope,
    /// Set a limit of the policy, e.g. `recall.most=3`; repeatable.
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

/// Arguments of `memory check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
With --logs the directory is also compared with what extraction would write now: the finding `out-of-date` lists what is new, and
what was repeated, retracted or contradicted since.

Examples:
  backcast memory check --dir memory/ -f github            annotations for a pull request
  backcast memory check --dir memory/ --logs logs/         does it need `memory extract`?")]
pub struct MemoryCheckArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Logs, folders or patterns that the directory is compared with.
    #[arg(long, value_name = "PATH", num_args = 1..)]
    pub logs: Vec<PathBuf>,
    /// The directory is written with `extract --team`: project facts and pointers belong in the team's folder.
    #[arg(long, requires = "logs")]
    pub team: bool,
    /// How findings are written.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: MemoryCheckFormat,
    /// List problems with the logs by file, line and byte offset: the first ten of each kind per file, at most a thousand.
    #[arg(long, requires = "logs", help_heading = "Problems")]
    pub problems: bool,
    /// Exit with status 3 if any of the logs could not be read.
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
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
}

/// Runs it.
pub fn run(args: &MemoryArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    // A value that cannot be set is an error whether or not this run comes to use it.
    memory_policy(&args.dir().set)?;
    match &args.command {
        MemoryCommand::Extract(args) => extract::run(args, given),
        MemoryCommand::Review(args) => review::run(args),
        MemoryCommand::Recall(args) => recall::run(args, given),
        MemoryCommand::Dream(args) => consolidate::dream(args, given),
        MemoryCommand::Undo(args) => consolidate::undo(args),
        MemoryCommand::Prompt(args) => prompt::run(args),
        MemoryCommand::Check(args) => run_check(args),
        MemoryCommand::List(args) => run_list(args),
    }
}

/// The time, read once for each command.
fn now() -> Time {
    jiff::Timestamp::now().as_millisecond()
}

fn run_check(args: &MemoryCheckArgs) -> Result<RunStatus> {
    let memdir = folder::open_existing(&args.dir)?;
    let (snapshot, passed) = memdir.read()?;
    let mut findings = check::check_snapshot(
        &snapshot,
        &passed,
        &index_limits(&memory_policy(&args.dir.set)?),
        &find_secret_rule,
    );
    let mut ending = RunStatus::Done;
    if !args.logs.is_empty() {
        let (more, read) = extract::find_out_of_date(args, &snapshot)?;
        ending = read;
        findings.extend(more);
        findings.sort();
    }
    let folder = args.dir.dir.as_deref().unwrap_or(memdir.root());
    let prefix = format!("{}/", folder.display());
    let text = match args.format {
        MemoryCheckFormat::Github => format_annotations(
            &findings
                .iter()
                .map(|finding| finding.to_check_finding(&prefix))
                .collect::<Vec<_>>(),
        ),
        MemoryCheckFormat::Junit => format_junit("backcast memory check", &check::test_cases(&snapshot, &findings)),
        MemoryCheckFormat::Text => findings.iter().map(|finding| finding_line(finding, &prefix)).collect(),
        MemoryCheckFormat::Json => {
            let object = |finding: &MemoryFinding| {
                json!({
                    "file": finding.file,
                    "line": finding.line,
                    "fault": finding.fault.name(),
                    "message": finding.message,
                })
            };
            let findings = findings.iter().map(object).collect::<Vec<_>>();
            format!(
                "{}\n",
                json!({"schema_version": 1, "kind": "memory-check", "findings": findings})
            )
        }
    };
    print(text.as_bytes())?;
    if !args.quiet {
        notice!(
            "{}, {}",
            format_count_with_plural(snapshot.topics.len() as u64, "memory", "memories"),
            format_count(findings.len() as u64, "finding")
        );
    }
    // Lost input says more than a finding: without it there might be others.
    Ok(match ending {
        RunStatus::Done if !findings.is_empty() => RunStatus::Found,
        _ => ending,
    })
}

/// The rule that finds a secret in a text.
fn find_secret_rule(text: &str) -> Option<String> {
    secrets::find(text).first().map(|secret| secret.rule.to_owned())
}

fn finding_line(finding: &MemoryFinding, prefix: &str) -> String {
    format!(
        "{prefix}{}:{}: {}: {}\n",
        finding.file,
        finding.line,
        finding.fault.name(),
        finding.message
    )
}

/// Returns the memories as a table: by type, with age, project and how often each was said.
fn list_table(topics: &[memory::topic::Topic], now: Time) -> String {
    let mut text = String::new();
    let kinds = memory::kinds::MEMORY_KINDS.map(Some).into_iter().chain([None]);
    for kind in kinds {
        let of_kind = topics.iter().filter(|topic| topic.kind() == kind).collect::<Vec<_>>();
        if of_kind.is_empty() {
            continue;
        }
        if !text.is_empty() {
            text.push('\n');
        }
        let name = kind.map_or("untyped", |kind| kind.name());
        let _ = writeln!(text, "{name} ({})", of_kind.len());
        let ages = of_kind.iter().map(|topic| when::format_age(topic.last_said(), now));
        let ages = ages.collect::<Vec<_>>();
        let width = ages.iter().map(|age| age.chars().count()).max().unwrap_or(0);
        for (topic, age) in of_kind.into_iter().zip(ages) {
            let times = format!("{}x", topic.confirmation_count());
            let _ = writeln!(text, "  {age:<width$}  {times:>3}  {}", topic.name());
            let project = topic
                .field("project")
                .map(|project| format!(" in {project}"))
                .unwrap_or_default();
            let _ = writeln!(text, "  {:<width$}       {}{project}", "", topic.file);
        }
    }
    text
}

fn run_list(args: &ListArgs) -> Result<RunStatus> {
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    let memdir = folder::open_existing(&args.dir)?;
    if let Some(path) = &args.page.html {
        let content = PageContent {
            name: "memories".to_owned(),
            memories: vec![drawn::directory_json(&memdir)?],
            with_text: true,
            ..PageContent::default()
        };
        write_page(path, args.page.force, false, content)?;
    }
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
    }
    let now = now();
    let text = match args.format {
        DocumentFormat::Text => fold_for_terminal(&format!(
            "{} in {}.\n\n{}",
            format_count_with_plural(snapshot.topics.len() as u64, "memory", "memories"),
            memdir.root().display(),
            list_table(&snapshot.topics, now)
        )),
        DocumentFormat::Json => {
            let object = |topic: &memory::topic::Topic| {
                let source = |source: &memory::kinds::MemorySource| {
                    json!({
                        "session": source.session,
                        "uuid": source.uuid,
                        "time": source.time.and_then(when::format_timestamp),
                    })
                };
                json!({
                    "file": topic.file,
                    "name": topic.name(),
                    "description": topic.description(),
                    "type": topic.kind().map(|kind| kind.name()),
                    "confirmed": topic.confirmation_count(),
                    "last_said": when::format_timestamp(topic.last_said()),
                    "sources": topic.sources().iter().map(source).collect::<Vec<_>>(),
                })
            };
            let memories = snapshot.topics.iter().map(object).collect::<Vec<_>>();
            format!(
                "{}\n",
                json!({"schema_version": 1, "kind": "memories", "memories": memories})
            )
        }
    };
    print(text.as_bytes())
}
