//! Journals in `.archive/RUN/`: what each run changed. They make undo possible, and show which memories the user deleted.

use super::{Memdir, MemdirError};
use crate::change::{ChangeAction, MemoryChange, Provenance};
use crate::index::parse_entries;
use crate::names;
use crate::topic::Topic;
use language::when;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use table::atomic;
use transcript::log::Time;

/// Folder of the journals and of the old versions of files.
pub(super) const ARCHIVE: &str = ".archive";

/// Marks the folder of a run that was completed.
pub(super) const DONE_MARKER: &str = "done";

/// The changes of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Journal {
    pub schema_version: u32,
    /// Name of the run.
    pub run: String,
    /// Name of the command.
    pub verb: String,
    pub time: String,
    /// In the order in which they were written.
    pub changes: Vec<JournalEntry>,
}

/// The change of one file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Path inside the directory.
    pub file: String,
    /// Name of the [`ChangeAction`].
    pub action: String,
    pub reason: String,
    /// Whether the file existed before; its old version is below `before/`.
    pub had_before: bool,
    /// Hash of the new text; `None` if the file was removed.
    pub after: Option<String>,
    /// Marks of the candidates of a retired memory.
    #[serde(default)]
    pub marks: Vec<String>,
    /// What the memory was created from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Provenance>,
    /// Id of the record that retracted the memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<String>,
    /// The entries that the run added to an index.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub index_lines: Vec<String>,
}

/// Returns the entries that a change adds to an index. All of them are generated: a run adds nothing else.
fn new_index_lines(change: &MemoryChange) -> Vec<String> {
    if change.action != ChangeAction::Index {
        return Vec::new();
    }
    let before = change
        .before
        .as_deref()
        .unwrap_or_default()
        .lines()
        .collect::<HashSet<_>>();
    let after = change.after.as_deref().unwrap_or_default().lines();
    let new = after.filter(|line| !before.contains(line) && !parse_entries(line).is_empty());
    new.map(str::to_owned).collect()
}

impl Memdir {
    /// Returns memories that a run created, that no run removed, and that are gone: the user deleted them. The journal of a run
    /// that was not completed may list files that were never written.
    pub(super) fn deleted_by_user(&self, journals: &[Journal], topics: &[Topic]) -> Vec<Provenance> {
        let mut made = BTreeMap::<&str, &Provenance>::new();
        for journal in journals {
            let is_done = fs::symlink_metadata(self.root.join(ARCHIVE).join(&journal.run).join(DONE_MARKER)).is_ok();
            for entry in &journal.changes {
                match &entry.made {
                    Some(provenance) if is_done => made.insert(&entry.file, provenance),
                    Some(_) => None,
                    None => made.remove(entry.file.as_str()),
                };
            }
        }
        let there = topics.iter().flat_map(Topic::marks).collect::<BTreeSet<_>>();
        let files = topics.iter().map(|topic| topic.file.as_str()).collect::<BTreeSet<_>>();
        let gone = made
            .into_iter()
            .filter(|(file, made)| !files.contains(file) && !made.marks.iter().any(|mark| there.contains(mark)));
        gone.map(|(_, made)| made.clone()).collect()
    }

    /// Writes the journal of a run and the old versions of its files. Returns the name of the run.
    pub(super) fn write_journal(&self, verb: &str, now: Time, changes: &[MemoryChange]) -> Result<String, MemdirError> {
        let run = self.new_run_name(now);
        for change in changes {
            if let Some(text) = &change.before {
                let path = self.resolve_inside(&format!("{ARCHIVE}/{run}/before/{}", change.file), true)?;
                atomic::write(&path, true, text.as_bytes())?;
            }
        }
        let entry = |change: &MemoryChange| JournalEntry {
            file: change.file.clone(),
            action: change.action.name().to_owned(),
            reason: change.reason.clone(),
            had_before: change.before.is_some(),
            after: change.after.as_deref().map(hash),
            marks: change.marks.clone(),
            made: change.provenance.clone(),
            taken_back: change.retracted_by.clone(),
            index_lines: new_index_lines(change),
        };
        let journal = Journal {
            schema_version: 1,
            run: run.clone(),
            verb: verb.to_owned(),
            time: when::format_timestamp(now).unwrap_or_default(),
            changes: changes.iter().map(entry).collect(),
        };
        let text = serde_json::to_string_pretty(&journal).map_err(|error| MemdirError::Journal(run.clone(), error))?;
        let path = self.resolve_inside(&format!("{ARCHIVE}/{run}/run.json"), true)?;
        atomic::write(&path, true, format!("{text}\n").as_bytes())?;
        Ok(run)
    }

    /// Returns a new name that sorts by time.
    fn new_run_name(&self, now: Time) -> String {
        let stamp = when::format_timestamp(now).unwrap_or_default();
        let digits = stamp.chars().filter(char::is_ascii_digit).take(14).collect::<String>();
        let mut number = 1;
        loop {
            let run = format!("{digits}-{number:03}");
            if fs::symlink_metadata(self.root.join(ARCHIVE).join(&run)).is_err() {
                return run;
            }
            number += 1;
        }
    }

    /// Returns the journals of all runs, oldest first. Unreadable ones are left out.
    pub fn journals(&self) -> Vec<Journal> {
        let folder = self.root.join(ARCHIVE);
        let is_folder = fs::symlink_metadata(&folder).is_ok_and(|found| found.is_dir());
        let entries = if is_folder { fs::read_dir(&folder).ok() } else { None };
        let names = entries
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut journals = Vec::new();
        for run in names.collect::<BTreeSet<_>>() {
            let text = self.read_text(&format!("{ARCHIVE}/{run}/run.json"));
            journals.extend(text.ok().and_then(|text| serde_json::from_str::<Journal>(&text).ok()));
        }
        journals
    }

    /// Plans to undo a run, by default the last. Returns its name, the changes that restore the old files, and the files that
    /// were changed since and stay as they are. A daily log only grows, so it loses the lines of the run and keeps later ones.
    pub fn plan_undo(&self, run: Option<&str>) -> Result<(String, Vec<MemoryChange>, Vec<String>), MemdirError> {
        let journals = self.journals();
        let journal = match run {
            Some(run) => journals.iter().find(|journal| journal.run == run),
            None => journals.last(),
        };
        let journal = journal.ok_or_else(|| match run {
            Some(run) => MemdirError::NoRun(run.to_owned()),
            None => MemdirError::NoRuns(self.root.display().to_string()),
        })?;
        let mut changes = Vec::new();
        let mut kept = Vec::new();
        for entry in journal.changes.iter().rev() {
            let before = match entry.had_before {
                true => {
                    let name = format!("{ARCHIVE}/{}/before/{}", journal.run, entry.file);
                    Some(
                        self.read_text(&name)
                            .map_err(|error| MemdirError::Io(name.clone(), error))?,
                    )
                }
                false => None,
            };
            let current = self.read_text(&entry.file).ok();
            if current == before {
                continue;
            }
            let (after, reason) = if current.as_deref().map(hash) == entry.after {
                (before, format!("as it was before run {}", journal.run))
            } else if let Some(text) = log_without_run(entry, before.as_deref(), current.as_deref()) {
                (Some(text), format!("without what run {} noted", journal.run))
            } else {
                kept.push(entry.file.clone());
                continue;
            };
            changes.push(MemoryChange {
                file: entry.file.clone(),
                action: ChangeAction::Restore,
                before: current,
                after,
                reason,
                marks: Vec::new(),
                provenance: None,
                retracted_by: None,
            });
        }
        Ok((journal.run.clone(), changes, kept))
    }
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Returns a daily log without the lines of a run; `None` if the log did more than grow since. The hash finds the end of what
/// the run left; later lines follow.
fn log_without_run(entry: &JournalEntry, before: Option<&str>, current: Option<&str>) -> Option<String> {
    let (left, current) = (entry.after.as_deref()?, current?);
    if !entry.file.starts_with(names::LOG_FOLDER) {
        return None;
    }
    let mut hasher = blake3::Hasher::new();
    let mut end = 0;
    for line in current.split_inclusive('\n') {
        hasher.update(line.as_bytes());
        end += line.len();
        if hasher.finalize().to_hex().as_str() == left {
            let mut text = before.unwrap_or_default().to_owned();
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            return Some(text + &current[end..]);
        }
    }
    None
}
