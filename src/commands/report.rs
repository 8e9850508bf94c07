//! `backcast report`: one HTML page of what other commands wrote, or of logs.

mod found;
mod read;

use crate::cli::{InputArgs, PolicyArgs};
use crate::commands::audit::{Auditor, audit_document};
use crate::commands::given::GivenOptions;
use crate::commands::memory::drawn;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::replay::{ReplayConsumer, ReplayWants, policy_name};
use crate::commands::writing::{ensure_absent, load_prices, write_page};
use crate::commands::{RunStatus, stats};
use crate::page::{PageContent, PageNotes, short_name};
use crate::run::{LogInput, LogNeeds, LogSource, UsageConsumer, client_home, read_path_lists, with_logs};
use crate::views::audit::SessionAudit;
use crate::views::replay::ReplayOutcome;
use crate::views::stats::StatsResult;
use anyhow::{Context, Result, bail};
use clap::Args;
use found::{ReportInputs, find_inputs};
use memory::memdir::Memdir;
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::tokens::ratios::RatioTable;
use serde_json::json;
use std::path::{Path, PathBuf};
use transcript::discover::discover;
use transcript::problem::{Problem, sort_problems};

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
    /// Replace files that exist.
    #[arg(long, help_heading = "Output")]
    pub force: bool,
}

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
    write_page(&target, args.force, args.input.quiet, content)?;
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
        let logs = discover(paths, args.input.follow_links)?;
        if logs.logs.is_empty() && logs.problems.is_empty() {
            bail!("{}", nothing_found_message(paths));
        }
    }
    let given = given.list(&["policy", "set", "window", "client-env", "prices"]);
    if let Some(given) = given.filter(|_| !has_logs_to_read(found)) {
        bail!(
            "{given}: only logs are replayed, and {} holds results that are shown as they are\n  hint: leave it out, or give it to the command that makes the results",
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
    let name = "report.html";
    match (&args.output, paths) {
        (Some(path), _) => path.clone(),
        (None, [folder]) if folder.is_dir() && !has_logs_to_read(found) => folder.join(name),
        _ => PathBuf::from(name),
    }
}

/// Everything that was found, read.
fn read_content(args: &ReportArgs, paths: &[PathBuf], found: &ReportInputs) -> Result<(PageContent, Vec<Problem>)> {
    let mut content = PageContent::default();
    let mut problems = Vec::new();
    if has_logs_to_read(found) {
        problems = read_logs(args, paths, found, &mut content)?;
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
    Ok((content, problems))
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
        text,
    })
}

/// Reads logs for a page: usage as recorded, a replay and an audit.
fn read_logs(
    args: &ReportArgs,
    paths: &[PathBuf],
    found: &ReportInputs,
    content: &mut PageContent,
) -> Result<Vec<Problem>> {
    let input = LogInput {
        paths: if found.is_mixed() {
            found.logs.clone()
        } else {
            paths.to_vec()
        },
        ..LogInput::from(&args.input)
    };
    let policies = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let reader = PageReader {
        auditor: Auditor::new(policies.clone())?,
        policies,
        prices,
    };
    let needs = LogNeeds {
        line_hashes: true,
        windows: true,
        ..LogNeeds::default()
    };
    let mut read = with_logs(input, needs, |source| reader.read(&source))??;
    content.overview = Some(stats::usage_overview(&read.stats, &reader.prices));
    let name = policy_name(&reader.policies, &args.policy.set);
    content
        .runs
        .push(read.replay.to_page_replay(name, &reader.policies, None));
    content
        .audits
        .push(audit_document(&reader.auditor, read.audits, &read.audit_problems));
    if paths.is_empty()
        && let Some(home) = client_home()
    {
        for memdir in find_inputs(&[home.join("projects")])?.memdirs {
            if let Some(memdir) = Memdir::open(&memdir)? {
                content.memories.push(drawn::directory_json(&memdir)?);
            }
        }
    }
    Ok(read.stats.problems)
}

/// Reads logs once and hands every session to three consumers: usage, a replay, an audit.
struct PageReader {
    policies: PolicySet,
    prices: PriceTable,
    auditor: Auditor,
}

/// What the three consumers found out.
struct PageData {
    stats: StatsResult,
    replay: ReplayOutcome,
    audits: Vec<SessionAudit>,
    audit_problems: Vec<Problem>,
}

impl PageReader {
    fn read(&self, source: &LogSource<'_>) -> Result<PageData> {
        let run = source.read();
        let table = RatioTable::built_in();
        let usage = UsageConsumer::new(&run, table, false, source.options.cache);
        let replayer = ReplayConsumer {
            policies: &self.policies,
            prices: &self.prices,
            compare: None,
            summary: run.learn_summary(),
            wants: ReplayWants {
                working_set: true,
                page: true,
                ..ReplayWants::default()
            },
        };
        let mut replay = ReplayOutcome::new(run.log_count(), replayer.summary);
        let (mut reports, mut audits) = (Vec::new(), Vec::new());
        // Each consumer fails on its own, and so has a list of its own.
        let [mut usage_defects, mut replay_defects, mut audit_defects] = [const { Vec::new() }; 3];
        let bar = source.session_bar(&run);
        let defects = run.stream_every_session(
            |view| {
                let report = view.attempt(|view| usage.report(view));
                let others = view.is_selected().then(|| {
                    (
                        view.attempt(|view| replayer.replay(view)),
                        view.attempt(|view| self.auditor.audit(view, &self.prices)),
                    )
                });
                (report, others)
            },
            |(report, others)| {
                bar.inc(1);
                keep(report, &mut reports, &mut usage_defects);
                let Some((replayed, audited)) = others else {
                    return Ok(());
                };
                keep(audited, &mut audits, &mut audit_defects);
                match replayed {
                    Ok(replayed) => replay.add_session(replayed).map(|_| ())?,
                    Err(problem) => replay_defects.push(problem),
                }
                Ok(())
            },
        )?;
        for list in [&mut usage_defects, &mut replay_defects, &mut audit_defects] {
            list.extend(defects.iter().cloned());
        }
        let summary = usage.finish(reports, usage_defects);
        let common = run.problems.iter().cloned().chain(source.problems());
        let mut audit_problems = common.clone().chain(audit_defects).collect::<Vec<_>>();
        sort_problems(&mut audit_problems);
        replay.add_problems(common.chain(replay_defects));
        replay.bill_consolidations(&self.policies);
        Ok(PageData {
            stats: StatsResult::new(summary, source),
            replay,
            audits,
            audit_problems,
        })
    }
}

fn keep<T>(result: Result<T, Problem>, results: &mut Vec<T>, defects: &mut Vec<Problem>) {
    match result {
        Ok(result) => results.push(result),
        Err(problem) => defects.push(problem),
    }
}
