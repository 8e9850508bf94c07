//! `backcast report`: one HTML page of logs, or of what other commands wrote.

mod found;
mod logs;
mod open;
mod read;
mod texts;

use crate::cli::{InputArgs, PolicyArgs};
use crate::commands::RunStatus;
use crate::commands::given::GivenOptions;
use crate::commands::memory::drawn;
use crate::commands::reading::report_problems;
use crate::commands::writing::{ensure_absent, write_page};
use crate::page::{AbsentView, PageContent, PageNotes, short_name};
use crate::run::{discover_all, read_path_lists};
use anyhow::{Context, Result, bail};
use clap::Args;
use found::{ReportInputs, find_inputs};
use memory::memdir::Memdir;
use notes::size;
use serde_json::json;
use std::path::{Path, PathBuf};
use transcript::problem::Problem;

/// Arguments of `report`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Of logs, the page has an overview, all sessions, the recorded compactions, a comparison with a second policy, and memory
directories that are there. --tune, --memories and --notes add the views that take longer; --all adds them all.

The page is one file that loads nothing: it can be mailed, archived and opened without a network. It holds figures, and names
of sessions, projects, tools, models and files, but no sentence of a log: of memories and notes it shows title, type, project,
age and counts. --with-text adds their texts.

A folder may also hold what `replay --out`, `tune --out`, `notes --out` and `memory` wrote, and JSON documents of `stats`,
`audit`, `replay --compare`, `tune` and `memory extract`, in any depth: the page shows whatever is there. Logs are replayed and
audited for it, by the policy; where there are only results, a policy is refused.

Examples:
  backcast report --open                 your own sessions, to report.html, shown in the browser
  backcast report --all -o everything.html    every view
  backcast report --notes --with-text -o notes.html    also the notes of every session, with their texts
  backcast report logs/ -o week.html     logs, to a file
  backcast report reports/run            what is in a folder, to reports/run/report.html")]
pub struct ReportArgs {
    /// Logs, or folders that other commands wrote to.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which policy logs are replayed with; results are shown as they are.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Add the sweep of thresholds: what to set, with evidence. As `tune` without options.
    #[arg(long, help_heading = "Views")]
    pub tune: bool,
    /// The second policy of the comparison: a preset or a file, as for --policy.
    #[arg(long, value_name = "NAME|FILE", default_value = "never", help_heading = "Views")]
    pub compare: String,
    /// Add the memories that `memory extract` finds in the logs. Nothing is written to a memory directory.
    #[arg(long, help_heading = "Views")]
    pub memories: bool,
    /// Add the notes of every session, as `notes` writes them.
    #[arg(long, help_heading = "Views")]
    pub notes: bool,
    /// Add all of these.
    #[arg(long, help_heading = "Views")]
    pub all: bool,
    /// Put the texts of memories and notes on the page, and whole titles. Without it, no sentence of a log is on the page.
    #[arg(long, help_heading = "Output")]
    pub with_text: bool,
    /// Where the page goes [default: report.html in the folder that other commands wrote to; for logs, in the current one].
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Open the page in the browser ($BROWSER, or the usual one).
    #[arg(long, help_heading = "Output")]
    pub open: bool,
    /// Replace files that exist.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
}

impl ReportArgs {
    fn wants_tune(&self) -> bool {
        self.tune || self.all
    }

    fn wants_memories(&self) -> bool {
        self.memories || self.all
    }

    fn wants_notes(&self) -> bool {
        self.notes || self.all
    }
}

/// The file of a page where none is named.
const PAGE_FILE: &str = "report.html";

/// Runs it.
pub fn run(args: &ReportArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    // A list on standard input can be read only once, and its paths are looked at before they are read.
    let paths = match args.input.paths.as_slice() {
        named if args.input.parts.is_some() => named.to_vec(),
        [] => Vec::new(),
        named => read_path_lists(named)?,
    };
    let found = match args.input.parts {
        // The paths are those of another machine, and what they name was mapped.
        Some(_) => ReportInputs::default(),
        None => find_inputs(&paths)?,
    };
    reject_ignored_input(args, given, &paths, &found)?;
    let target = page_path(args, &paths, &found);
    ensure_absent(Some(&target), args.force)?;
    let (mut content, problems) = read_content(args, &paths, &found)?;
    if content.is_empty() {
        bail!("{}", nothing_found_message(&paths));
    }
    content.name = match paths.as_slice() {
        [one] => short_name(&full_name(one)).into_owned(),
        [] => "all sessions".to_owned(),
        several => format!("{} and {} more", short_name(&full_name(&several[0])), several.len() - 1),
    };
    content.with_text = args.with_text;
    write_page(&target, args.force, args.input.quiet, content)?;
    if args.open {
        open::open_page(&target);
    }
    Ok(report_problems(&args.input, &problems))
}

/// What was looked for in vain.
fn nothing_found_message(paths: &[PathBuf]) -> String {
    format!(
        "nothing to show in {}\n  looked for: logs (.jsonl, .jsonl.gz, .jsonl.zst); what `replay --out`, `tune --out` and `notes --out` write; a memory directory (MEMORY.md); JSON documents of `stats`, `audit`, `tune`, `replay --compare` and `memory extract`\n  hint: name a folder that one of these commands wrote to, or logs",
        path_names(paths)
    )
}

/// Refuses what would be passed over without a word: folders with nothing in them, and a policy where nothing is replayed.
fn reject_ignored_input(
    args: &ReportArgs,
    given: GivenOptions<'_>,
    paths: &[PathBuf],
    found: &ReportInputs,
) -> Result<()> {
    if found.is_empty() && !paths.is_empty() && args.input.parts.is_none() {
        let logs = discover_all(paths, args.input.follow_links, args.input.quiet)?;
        if logs.logs.is_empty() && logs.problems.is_empty() {
            bail!("{}", nothing_found_message(paths));
        }
    }
    if has_logs_to_read(found) {
        return Ok(());
    }
    let policy = given.list(&["policy", "set", "window", "client-env", "prices"]);
    if let Some(given) = policy {
        bail!(
            "{given}: {} holds results, which are shown as they are, not logs\n  hint: omit it, or pass it to the command that produces the results",
            path_names(paths)
        );
    }
    if let Some(given) = given.list(&["tune", "compare", "memories", "notes", "all"]) {
        bail!(
            "{given}: views are made of logs, and {} holds results, which are shown as they are\n  hint: omit it, or name the logs",
            path_names(paths)
        );
    }
    Ok(())
}

/// Whether logs are read; without anything that was found, the reader of logs has the last word.
fn has_logs_to_read(found: &ReportInputs) -> bool {
    !found.logs.is_empty() || found.is_empty()
}

fn path_names(paths: &[PathBuf]) -> String {
    let names = paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    names.join(", ")
}

/// `.` and `..` have names, too.
fn full_name(path: &Path) -> String {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let full = if path.is_dir() {
        path.canonicalize().unwrap_or(absolute)
    } else {
        absolute
    };
    full.display().to_string()
}

/// Beside what it is about, where that is ours to write to; never among logs.
fn page_path(args: &ReportArgs, paths: &[PathBuf], found: &ReportInputs) -> PathBuf {
    match (&args.output, paths) {
        (Some(path), _) => path.clone(),
        (None, [folder]) if folder.is_dir() && !has_logs_to_read(found) => folder.join(PAGE_FILE),
        _ => PathBuf::from(PAGE_FILE),
    }
}

/// Everything that was found, read.
fn read_content(args: &ReportArgs, paths: &[PathBuf], found: &ReportInputs) -> Result<(PageContent, Vec<Problem>)> {
    let mut content = PageContent::default();
    let mut problems = Vec::new();
    if has_logs_to_read(found) {
        problems = logs::read_logs(args, paths, found, &mut content)?;
    }
    for folder in &found.runs {
        content.runs.push(read::read_replay(folder)?);
    }
    for folder in &found.tunes {
        content.tunes.push(read::read_tune(folder)?);
    }
    for folder in &found.memdirs {
        let absolute = std::path::absolute(folder).with_context(|| folder.display().to_string())?;
        let memdir = Memdir::open(&absolute)?.with_context(|| format!("{}: no memories there", folder.display()))?;
        let mut memories = drawn::directory_json(&memdir)?;
        memories["name"] = json!(short_name(&full_name(folder)));
        content.memories.push(memories);
    }
    for file in &found.documents {
        read::read_document(file, &mut content)?;
    }
    for file in &found.notes {
        content.notes.push(read_notes_file(file)?);
    }
    if has_logs_to_read(found) {
        content.absent = absent_views(&content);
    }
    Ok((content, problems))
}

/// Says of every view of logs that was not asked for how to get it.
fn absent_views(content: &PageContent) -> Vec<AbsentView> {
    let options = [
        (
            "tune",
            content.tunes.is_empty(),
            "--tune",
            "which threshold to set, with evidence",
        ),
        (
            "memories",
            content.memories.is_empty(),
            "--memories",
            "what people said that later sessions should know",
        ),
        (
            "notes",
            content.notes.is_empty(),
            "--notes",
            "what each session was asked, changed, and left open",
        ),
    ];
    let failed = |view: &str| content.absent.iter().any(|absent| absent.view == view);
    let missing = options
        .into_iter()
        .filter(|(view, is_missing, ..)| *is_missing && !failed(view));
    let mut absent = missing
        .map(|(view, _, option, about)| AbsentView {
            view,
            why: format!("Not on this page. `backcast report {option}` adds it: {about}. `backcast report --all` adds everything."),
        })
        .collect::<Vec<_>>();
    absent.extend(content.absent.iter().map(|failed| AbsentView {
        view: failed.view,
        why: failed.why.clone(),
    }));
    absent
}

/// The notes and summaries in a folder.
pub(super) fn read_notes_folder(folder: &Path) -> Result<Vec<PageNotes>> {
    find_inputs(&[folder.to_path_buf()])?
        .notes
        .iter()
        .map(|file| read_notes_file(file))
        .collect()
}

/// Notes lie in a folder that is named after the session, at some depth.
fn read_notes_file(file: &Path) -> Result<PageNotes> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let folders = file
        .ancestors()
        .skip(1)
        .filter_map(|folder| folder.file_name()?.to_str());
    let plain = ["session-memory", "notes", "history"];
    let session = folders.into_iter().find(|name| !plain.contains(name));
    Ok(PageNotes {
        session: session.unwrap_or_default().to_owned(),
        file: short_name(&file.display().to_string()).into_owned(),
        title: texts::notes_title(&text),
        tokens: size::tokens(&text),
        text,
        ..PageNotes::default()
    })
}
