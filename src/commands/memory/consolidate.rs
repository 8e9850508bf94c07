//! `backcast memory dream` and `backcast memory undo`.

use crate::cli::backend::BackendArgs;
use crate::commands::backend;
use crate::commands::backend::ModelRunner;
use crate::commands::given::GivenOptions;
use crate::commands::memory::{DirArgs, folder, now};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::terminal::notice;
use crate::commands::writing::fold_for_terminal;
use crate::commands::{RunStatus, print};
use anyhow::{Context, Result, bail};
use clap::Args;
use language::{dates, secrets};
use memory::change::{ChangeAction, MemoryChange, diff};
use memory::dream;
use memory::dream::{DreamRules, MemoryConflicts};
use memory::index::IndexLimits;
use memory::kinds::Candidate;
use memory::memdir::Memdir;
use memory::names;
use memory::plan::{MemoryPlanOptions, Snapshot, apply_changes, plan_memories, refresh_index_changes};
use memory::topic::Topic;
use memory::{daily, lock};
use notes::model::dream as anthropic;
use std::path::{Path, PathBuf};
use table::human::format_count;
use transcript::log::Time;

/// Arguments of `memory dream`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Runs if the last consolidation was at least a day ago and five sessions have newer transcripts; otherwise it says why not and
exits with status 0. Retired memories go to `.archive` with the reason; `memory undo` restores them.

With --backend anthropic a model finds more duplicates and contradictions; the same rules decide what to do about them.")]
pub struct DreamArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Show what would change as a diff, and change nothing.
    #[arg(long)]
    pub dry_run: bool,
    /// Run even if it is not time yet.
    #[arg(long)]
    pub force: bool,
    /// Folder with the transcripts that count as sessions [default: the folder above the directory].
    #[arg(long, value_name = "DIR")]
    pub transcripts: Option<PathBuf>,
    /// Minimum hours since the last consolidation [default: 24, `dream.hours`].
    #[arg(long, value_name = "HOURS", value_parser = clap::value_parser!(i64).range(0..=100_000))]
    pub hours: Option<i64>,
    /// Minimum number of sessions with newer transcripts [default: 5, `dream.sessions`].
    #[arg(long, value_name = "N")]
    pub sessions: Option<usize>,
    /// Retire project facts that were said only once, after this many days.
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

/// Runs `dream`.
pub fn dream(args: &DreamArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    let memdir = folder::open_existing(&args.dir)?;
    let now = now();
    let policy = memory_policy(&args.dir.set)?;
    let rules = DreamRules {
        hours: args.hours.unwrap_or(i64::try_from(policy.dream_hours)?),
        sessions: args.sessions.unwrap_or(usize::try_from(policy.dream_sessions)?),
        scan_minutes: i64::try_from(policy.dream_scan_minutes)?,
        prune_days: args.prune_days,
        index: index_limits(&policy),
    };
    let model = backend::open_model(&args.model, given, None, true, false)?;
    if args.dry_run || args.model.estimate.is_some() {
        let snapshot = read_snapshot(&memdir)?;
        let mut changes = distill_daily_logs(&memdir, &snapshot, &rules);
        let Some(dreamt) = plan_consolidation(&apply_changes(&snapshot, &changes), &rules, now, model.as_ref())? else {
            return Ok(RunStatus::Done);
        };
        print_proposals(&dreamt.proposals);
        changes.extend(dreamt.changes);
        return print(diff(&changes).as_bytes());
    }
    if !args.force {
        let transcripts = args.transcripts.as_deref().or_else(|| memdir.root().parent());
        if let Some(gate) = check_gate(&memdir, &rules, transcripts, now)? {
            notice!("not yet: {gate}; --force runs anyway");
            return Ok(RunStatus::Done);
        }
    }
    if let Some(model) = &model {
        // A model takes its time: it is asked before the locks are taken, and its answers are there when they are.
        let (snapshot, _) = memdir.read()?;
        let distilled = distill_daily_logs(&memdir, &snapshot, &rules);
        ask_model(model, &apply_changes(&snapshot, &distilled))?;
    }
    let Some(lock) = memdir.lock(now)? else {
        notice!("another run is writing there; try again later");
        return Ok(RunStatus::Done);
    };
    let Some(consolidation) = lock::acquire_consolidation(memdir.root(), now).context("the consolidation lock")? else {
        notice!("another consolidation is running; try again later");
        return Ok(RunStatus::Done);
    };
    let distilled = distill_daily_logs(&memdir, &read_snapshot(&memdir)?, &rules);
    if let Some(run) = memdir.commit(&lock, "distil", now, &distilled)? {
        print_changes(&args.dir, &distilled, Some(&run));
    }
    let dreamt = plan_consolidation(&read_snapshot(&memdir)?, &rules, now, model.as_ref())?.unwrap_or_default();
    let run = memdir.commit(&lock, "dream", now, &dreamt.changes)?;
    consolidation.finish(now).context("the consolidation lock")?;
    print_proposals(&dreamt.proposals);
    print_changes(&args.dir, &dreamt.changes, run.as_deref());
    print_overlong_indexes(&memdir, &rules.index);
    Ok(RunStatus::Done)
}

/// The directory as it is.
fn read_snapshot(memdir: &Memdir) -> Result<Snapshot> {
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
    }
    Ok(snapshot)
}

/// What would change; `None` if it was only to be estimated what asking a model costs.
fn plan_consolidation(
    snapshot: &Snapshot,
    rules: &DreamRules,
    now: Time,
    model: Option<&ModelRunner>,
) -> Result<Option<dream::DreamPlan>> {
    let found = match model {
        Some(model) => {
            let found = ask_model(model, snapshot);
            model.print_spending();
            let Some(found) = found? else { return Ok(None) };
            found
        }
        None => MemoryConflicts::default(),
    };
    Ok(Some(dream::plan_dream_with(
        snapshot,
        rules,
        now,
        &resolve_dates,
        &found,
    )))
}

/// What a model finds. All of its answers are wanted: half a consolidation would be another one.
fn ask_model(model: &ModelRunner, snapshot: &Snapshot) -> Result<Option<MemoryConflicts>> {
    let questions = anthropic::build_questions(&model.backend, snapshot);
    let asked = model.run_passes(|model, _| {
        model.ask_all(&questions, |backend, question| {
            backend.ask(&question.request, |text| question.parse_answer(text))
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    asked.ensure_complete()?;
    let mut all = MemoryConflicts::default();
    for found in asked.answers.into_iter().flatten() {
        all.duplicates.extend(found.duplicates);
        all.contradictions.extend(found.contradictions);
    }
    Ok(Some(all))
}

/// What the daily logs say that is no memory yet. A secret that somebody put there stays there.
fn distill_daily_logs(memdir: &Memdir, snapshot: &Snapshot, rules: &DreamRules) -> Vec<MemoryChange> {
    let noted = memdir.daily_logs().into_iter().flat_map(|text| daily::parse_log(&text));
    let is_open = |candidate: &Candidate| {
        let texts = [&candidate.title, &candidate.hook, &candidate.body];
        texts.iter().all(|text| secrets::find(text).is_empty())
    };
    let noted = noted.filter(is_open).collect::<Vec<_>>();
    let options = MemoryPlanOptions {
        index: rules.index,
        ..MemoryPlanOptions::default()
    };
    plan_memories(snapshot, &noted, &options).changes
}

/// Relative dates as seen from a time, in words that still hold later.
fn resolve_dates(text: &str, time: Time) -> String {
    match jiff::Timestamp::from_millisecond(time) {
        Ok(time) => dates::annotate_relative_dates(text, time.to_zoned(jiff::tz::TimeZone::UTC).date()),
        Err(_) => text.to_owned(),
    }
}

/// Whether it is time, cheapest question first.
fn check_gate(
    memdir: &Memdir,
    rules: &DreamRules,
    transcripts: Option<&Path>,
    now: Time,
) -> Result<Option<dream::DreamGate>> {
    let last = lock::last_consolidation(memdir.root());
    if let Some(gate) = rules.time_gate(last, memdir.last_scan(), now) {
        return Ok(Some(gate));
    }
    memdir.record_scan()?;
    let newer = transcripts.map_or(0, |folder| newer_sessions(folder, last));
    Ok(rules.session_gate(newer))
}

/// Sessions are the logs directly in the folder; those of sub-agents lie deeper.
fn newer_sessions(folder: &Path, last: Option<Time>) -> usize {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_newer = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_log = [".jsonl", ".jsonl.gz", ".jsonl.zst"]
            .iter()
            .any(|ending| name.ends_with(ending));
        let modified = entry
            .metadata()
            .ok()
            .and_then(|found| found.modified().ok())
            .and_then(lock::unix_millis);
        is_log && !name.starts_with("agent-") && modified > last
    };
    entries.filter(is_newer).count()
}

/// Runs `undo`.
pub fn undo(args: &UndoArgs) -> Result<RunStatus> {
    let memdir = folder::open_existing(&args.dir)?;
    if args.list {
        let mut out = String::new();
        for journal in memdir.journals() {
            out.push_str(&format!(
                "{} {} {}, {}\n",
                journal.run,
                journal.verb,
                format_count(journal.changes.len() as u64, "file"),
                journal.time
            ));
            for entry in &journal.changes {
                out.push_str(&format!("  {} {}: {}\n", entry.action, entry.file, entry.reason));
            }
        }
        return print(fold_for_terminal(&out).as_bytes());
    }
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!("another run is writing there; try again")
    };
    let limits = index_limits(&memory_policy(&args.dir.set)?);
    let (run, mut changes, kept) = memdir.plan_undo(args.run.as_deref())?;
    if kept.iter().any(|file| !file.starts_with(names::LOG_FOLDER)) {
        let (snapshot, passed) = memdir.read()?;
        refresh_index_changes(&snapshot, &mut changes, &limits);
        // An index that cannot be read cannot be written either, and stays as it is.
        let is_unread = |file: &str| passed.iter().any(|passed| passed.file == file);
        changes.retain(|change| change.action != ChangeAction::Index || !is_unread(&change.file));
    }
    for file in &kept {
        let left = match changes.iter().any(|change| change.file == *file) {
            true => "only brought in line with what stays",
            false => "left as it is",
        };
        notice!("{file}: changed since run {run}; {left}");
    }
    if args.dry_run {
        return print(diff(&changes).as_bytes());
    }
    let undone = memdir.commit(&lock, "undo", now, &changes)?;
    print_changes(&args.dir, &changes, undone.as_deref());
    print_overlong_indexes(&memdir, &limits);
    Ok(RunStatus::Done)
}

/// Says what a run did, and how to take it back.
pub(super) fn print_changes(dir: &DirArgs, changes: &[MemoryChange], run: Option<&str>) {
    for change in changes.iter().filter(|change| change.action != ChangeAction::Index) {
        // Why a memory is new says less than what it is.
        let text = change.after.as_ref().filter(|_| change.action == ChangeAction::New);
        let title = text.map(|text| Topic::from_text(&change.file, 0, text).name());
        let about = title.as_ref().unwrap_or(&change.reason);
        notice!(
            "{}",
            fold_for_terminal(&format!("{} {}: {about}", change.action.name(), change.file))
        );
    }
    match run {
        Some(run) => print_undo_hint(dir, run),
        None => notice!("nothing to do"),
    }
}

/// Says which indexes the client loads only in part. Lines that a person wrote are never cut.
pub(super) fn print_overlong_indexes(memdir: &Memdir, limits: &IndexLimits) {
    for (file, lines) in memdir.overlong_indexes(limits) {
        notice!(
            "{file}: the client does not load its last {}",
            format_count(lines as u64, "line")
        );
    }
}

/// Says how to take a run back, as it can be pasted.
pub(super) fn print_undo_hint(dir: &DirArgs, run: &str) {
    notice!(
        "run {run}; `backcast memory undo {run}{}` reverts it",
        folder::dir_options(dir)
    );
}

fn print_proposals(proposals: &[dream::DreamProposal]) {
    for proposal in proposals {
        notice!("check {} and {}: {}", proposal.file, proposal.other, proposal.about);
    }
}
