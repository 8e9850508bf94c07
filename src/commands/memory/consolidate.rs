//! `backcast memory dream` and `backcast memory undo`.

use crate::cli::memory::{DirArgs, DreamArgs, UndoArgs};
use crate::commands::backend;
use crate::commands::backend::Model;
use crate::commands::memory::{folder, now};
use crate::commands::policy::{index_limits, of_memories};
use crate::commands::writing::for_people;
use crate::commands::{Ending, print};
use anyhow::{Context, Result, bail};
use language::{dates, secrets};
use memory::change::{Action, Change, diff};
use memory::dream;
use memory::dream::{Found, Rules};
use memory::kinds::Candidate;
use memory::memdir::Memdir;
use memory::names;
use memory::plan::{Options, Snapshot, applied, plan, refit_indexes};
use memory::{daily, lock};
use notes::model::dream as anthropic;
use std::path::Path;
use table::words::count;
use transcript::log::Time;

/// Runs `dream`.
pub fn dream(args: &DreamArgs) -> Result<Ending> {
    let memdir = folder::existing(&args.dir)?;
    let now = now();
    let policy = of_memories(&args.dir.set)?;
    let rules = Rules {
        hours: args.hours.unwrap_or(i64::try_from(policy.dream_hours)?),
        sessions: args.sessions.unwrap_or(usize::try_from(policy.dream_sessions)?),
        scan_minutes: i64::try_from(policy.dream_scan_minutes)?,
        prune_days: args.prune_days,
        index: index_limits(&policy),
    };
    let model = backend::open(&args.model, None, true, false)?;
    if args.dry_run || args.model.estimate.is_some() {
        let snapshot = read(&memdir)?;
        let mut changes = distil(&memdir, &snapshot, &rules);
        let Some(dreamt) = sleep(&applied(&snapshot, &changes), &rules, now, model.as_ref())? else {
            return Ok(Ending::Done);
        };
        tell_proposals(&dreamt.proposals);
        changes.extend(dreamt.changes);
        return print(diff(&changes).as_bytes());
    }
    if !args.force {
        let transcripts = args.transcripts.as_deref().or_else(|| memdir.root().parent());
        if let Some(gate) = gate(&memdir, &rules, transcripts, now)? {
            eprintln!("not yet: {gate}; --force runs anyway");
            return Ok(Ending::Done);
        }
    }
    if let Some(model) = &model {
        // A model takes its time: it is asked before the locks are taken, and its answers are there when they are.
        let (snapshot, _) = memdir.read()?;
        let distilled = distil(&memdir, &snapshot, &rules);
        ask(model, &applied(&snapshot, &distilled))?;
    }
    let Some(lock) = memdir.lock(now)? else {
        eprintln!("not now: another run is writing there");
        return Ok(Ending::Done);
    };
    let Some(consolidation) = lock::consolidate(memdir.root(), now).context("the consolidation lock")? else {
        eprintln!("not now: another consolidation is running");
        return Ok(Ending::Done);
    };
    let distilled = distil(&memdir, &read(&memdir)?, &rules);
    if let Some(run) = memdir.commit(&lock, "distil", now, &distilled)? {
        tell(&args.dir, &distilled, Some(&run));
    }
    let dreamt = sleep(&read(&memdir)?, &rules, now, model.as_ref())?.unwrap_or_default();
    let run = memdir.commit(&lock, "dream", now, &dreamt.changes)?;
    consolidation.done(now).context("the consolidation lock")?;
    tell_proposals(&dreamt.proposals);
    tell(&args.dir, &dreamt.changes, run.as_deref());
    Ok(Ending::Done)
}

/// The directory as it is.
fn read(memdir: &Memdir) -> Result<Snapshot> {
    let (snapshot, passed) = memdir.read()?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.why);
    }
    Ok(snapshot)
}

/// What would change; `None` if it was only to be estimated what asking a model costs.
fn sleep(snapshot: &Snapshot, rules: &Rules, now: Time, model: Option<&Model>) -> Result<Option<dream::Dream>> {
    let found = match model {
        Some(model) => {
            let found = ask(model, snapshot);
            model.close();
            let Some(found) = found? else { return Ok(None) };
            found
        }
        None => Found::default(),
    };
    Ok(Some(dream::dream_with(snapshot, rules, now, &absolute_dates, &found)))
}

/// What a model finds. All of its answers are wanted: half a consolidation would be another one.
fn ask(model: &Model, snapshot: &Snapshot) -> Result<Option<Found>> {
    let questions = anthropic::questions(&model.backend, snapshot);
    let asked = model.passes(|model, _| {
        model.ask(&questions, |backend, question| {
            backend.ask(&question.request, |text| question.read(text))
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    asked.complete()?;
    let mut all = Found::default();
    for found in asked.answers.into_iter().flatten() {
        all.same.extend(found.same);
        all.contradicting.extend(found.contradicting);
    }
    Ok(Some(all))
}

/// What the daily logs say that is no memory yet. A secret that somebody put there stays there.
fn distil(memdir: &Memdir, snapshot: &Snapshot, rules: &Rules) -> Vec<Change> {
    let noted = memdir.daily_logs().into_iter().flat_map(|text| daily::read(&text));
    let is_open = |candidate: &Candidate| {
        let texts = [&candidate.title, &candidate.hook, &candidate.body];
        texts.iter().all(|text| secrets::find(text).is_empty())
    };
    let noted = noted.filter(is_open).collect::<Vec<_>>();
    let options = Options {
        index: rules.index,
        ..Options::default()
    };
    plan(snapshot, &noted, &options).changes
}

/// Relative dates as seen from a time, in words that still hold later.
fn absolute_dates(text: &str, time: Time) -> String {
    match jiff::Timestamp::from_millisecond(time) {
        Ok(time) => dates::absolute(text, time.to_zoned(jiff::tz::TimeZone::UTC).date()),
        Err(_) => text.to_owned(),
    }
}

/// Whether it is time, cheapest question first.
fn gate(memdir: &Memdir, rules: &Rules, transcripts: Option<&Path>, now: Time) -> Result<Option<dream::Gate>> {
    let last = lock::last_consolidation(memdir.root());
    if let Some(gate) = rules.time_gate(last, memdir.last_scan(), now) {
        return Ok(Some(gate));
    }
    memdir.note_scan()?;
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
            .and_then(lock::millis);
        is_log && !name.starts_with("agent-") && modified > last
    };
    entries.filter(is_newer).count()
}

/// Runs `undo`.
pub fn undo(args: &UndoArgs) -> Result<Ending> {
    let memdir = folder::existing(&args.dir)?;
    if args.list {
        let mut out = String::new();
        for journal in memdir.journals() {
            out.push_str(&format!(
                "{} {} {}, {}\n",
                journal.run,
                journal.verb,
                count(journal.changes.len() as u64, "file"),
                journal.time
            ));
            for entry in &journal.changes {
                out.push_str(&format!("  {} {}: {}\n", entry.action, entry.file, entry.reason));
            }
        }
        return print(for_people(&out).as_bytes());
    }
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!("another run is writing there; try again")
    };
    let (run, mut changes, kept) = memdir.undo(args.run.as_deref())?;
    if kept.iter().any(|file| !file.starts_with(names::LOGS)) {
        let (snapshot, passed) = memdir.read()?;
        refit_indexes(&snapshot, &mut changes, &index_limits(&of_memories(&args.dir.set)?));
        // An index that cannot be read cannot be written either, and stays as it is.
        let is_unread = |file: &str| passed.iter().any(|passed| passed.file == file);
        changes.retain(|change| change.action != Action::Index || !is_unread(&change.file));
    }
    for file in &kept {
        let left = match changes.iter().any(|change| change.file == *file) {
            true => "only brought in line with what stays",
            false => "left as it is",
        };
        eprintln!("{file}: changed since run {run}; {left}");
    }
    if args.dry_run {
        return print(diff(&changes).as_bytes());
    }
    let undone = memdir.commit(&lock, "undo", now, &changes)?;
    tell(&args.dir, &changes, undone.as_deref());
    Ok(Ending::Done)
}

/// Says what a run did, and how to take it back.
pub(super) fn tell(dir: &DirArgs, changes: &[Change], run: Option<&str>) {
    for change in changes.iter().filter(|change| change.action != Action::Index) {
        eprintln!("{} {}: {}", change.action.name(), change.file, change.reason);
    }
    match run {
        Some(run) => tell_run(dir, run),
        None => eprintln!("nothing to do"),
    }
}

/// Says how to take a run back, as it can be pasted.
pub(super) fn tell_run(dir: &DirArgs, run: &str) {
    eprintln!(
        "run {run}; `backcast memory undo {run}{}` takes it back",
        folder::options(dir)
    );
}

fn tell_proposals(proposals: &[dream::Proposal]) {
    for proposal in proposals {
        eprintln!("look at {} and {}: {}", proposal.file, proposal.other, proposal.about);
    }
}
