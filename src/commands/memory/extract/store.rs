//! Writes what `memory extract` found into memory directories, or into their daily logs.

use super::{ExtractArgs, ProjectExtraction};
use crate::commands::memory::consolidate::print_undo_hint;
use crate::commands::memory::stored::{StoredRun, print_stored};
use crate::commands::memory::{folder, now};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::terminal::notice;
use anyhow::{Result, bail};
use memory::daily;
use memory::extract::Extraction;
use memory::kinds::Candidate;
use memory::lock::WriteLock;
use memory::memdir::Memdir;
use memory::plan::{MemoryPlan, MemoryPlanOptions, plan_with_retractions};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use table::human::format_count;
use transcript::log::Time;

/// Puts what was found into the directories and says what that did. Projects with nothing get no directory.
pub(super) fn store_all(args: &ExtractArgs, dirs: &[Option<PathBuf>], found: &[ProjectExtraction]) -> Result<()> {
    let merged = merge_by_dir(dirs, found);
    let (is_one, mut runs) = (merged.len() == 1, Vec::new());
    for (path, extraction) in merged {
        let has_something = !extraction.candidates.is_empty() || !extraction.retractions.is_empty();
        if is_one || has_something || path.exists() {
            runs.extend(store_candidates(args, &path, &extraction)?);
        } else if !args.daily {
            runs.push(StoredRun {
                path,
                memdir: None,
                limits: index_limits(&memory_policy(&args.dir.set)?),
                run: None,
                plan: MemoryPlan::default(),
            });
        }
    }
    if !args.input.quiet && !runs.is_empty() {
        print_stored(&args.dir, &runs);
    }
    Ok(())
}

/// Joins what goes into one directory: sessions that name no folder go with the one project there is.
fn merge_by_dir(dirs: &[Option<PathBuf>], found: &[ProjectExtraction]) -> BTreeMap<PathBuf, Extraction> {
    let mut merged = BTreeMap::<PathBuf, Extraction>::new();
    for (dir, project) in dirs.iter().zip(found) {
        let Some(dir) = dir else { continue };
        let all = merged.entry(dir.clone()).or_default();
        all.candidates.extend(project.extraction.candidates.iter().cloned());
        all.retractions.extend(project.extraction.retractions.iter().cloned());
    }
    merged
}

/// Puts candidates into a directory; the time of the run is only in its journal, so that the same logs leave the same files.
/// Returns what was done; `None` for daily logs.
fn store_candidates(args: &ExtractArgs, path: &Path, extraction: &Extraction) -> Result<Option<StoredRun>> {
    let memdir = Memdir::create(path)?;
    let now = now();
    let Some(lock) = memdir.lock(now)? else {
        bail!(
            "another run is writing to {}\n  hint: try again when it is done",
            memdir.root().display()
        );
    };
    if args.daily {
        append_daily_logs(args, &memdir, &lock, now, &extraction.candidates)?;
        return Ok(None);
    }
    let (mut snapshot, passed) = memdir.read()?;
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
    }
    snapshot.retired.extend(memdir.dropped_marks()?);
    let options = MemoryPlanOptions {
        team: args.team,
        index: index_limits(&memory_policy(&args.dir.set)?),
    };
    let plan = plan_with_retractions(&snapshot, &extraction.candidates, &extraction.retractions, &options);
    for file in &plan.unwritable {
        notice!("{file}: left alone, its frontmatter is not YAML");
    }
    Ok(Some(StoredRun {
        run: memdir.commit(&lock, "extract", now, &plan.changes)?,
        path: path.to_owned(),
        memdir: Some(memdir),
        limits: options.index,
        plan,
    }))
}

/// Notes candidates in the logs of the days they were said on.
fn append_daily_logs(
    args: &ExtractArgs,
    memdir: &Memdir,
    lock: &WriteLock,
    now: Time,
    candidates: &[Candidate],
) -> Result<()> {
    let mut days = BTreeMap::<String, Vec<String>>::new();
    for (date, line) in candidates.iter().flat_map(daily::candidate_lines) {
        days.entry(date).or_default().push(line);
    }
    let (mut changes, mut added) = (Vec::new(), 0_u64);
    for (date, lines) in &mut days {
        lines.sort();
        if let Some((change, lines)) = memdir.plan_log_append(date, lines)? {
            changes.push(change);
            added += lines as u64;
        }
    }
    let run = memdir.commit(lock, "extract", now, &changes)?;
    if !args.input.quiet {
        notice!(
            "{} written; `backcast memory dream{}` turns them into memories",
            format_count(added, "line"),
            folder::dir_options(&args.dir)
        );
        if let Some(run) = run {
            print_undo_hint(&args.dir, &run);
        }
    }
    Ok(())
}
