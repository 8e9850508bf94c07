//! A memory directory on disk: the only place where its files are read and written.
//!
//! Nothing is ever read or written through a link, nor outside the directory. A run writes first what it will replace, with
//! a journal, into `.archive/RUN/`; then each file whole (temporary file, sync, rename, sync of the folder); then it
//! removes what leaves; the indexes come last. So a run that is killed leaves every file whole, and the next one finds its
//! way from what is there.

#![allow(clippy::disallowed_methods, reason = "this is where memories touch the disk")]

use crate::change::{ChangeAction, MemoryChange, Provenance};
use crate::frontmatter::{frontmatter_end, skim_frontmatter};
use crate::kinds::MemoryKind;
use crate::lock;
use crate::lock::{WriteLock, unix_millis};
use crate::names;
use crate::names::{INDEX_FILE, TEAM_FOLDER};
use crate::plan::Snapshot;
use crate::recall::StoredMemory;
use crate::topic::Topic;
use language::when;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use table::atomic;
use transcript::log::Time;

/// Folder of what left, and of the journals.
const ARCHIVE: &str = ".archive";

/// File in the folder of a run that came to its end.
const DONE_MARKER: &str = "done";

/// Bigger files are no memories.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// Folders deeper than this are not looked into.
const MAX_DEPTH: usize = 8;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum MemdirError {
    /// A place that may not hold memories.
    #[error("{0} {1}: not a place for memories")]
    Refused(String, &'static str),
    /// A path that leads outside, or through a link.
    #[error("{0} does not lie inside the memory directory")]
    Outside(String),
    /// The file is not what it was when the change was worked out.
    #[error("{0} was changed meanwhile; run again")]
    Changed(String),
    /// No such run.
    #[error("no run {0} in the archive; `memory undo --list` shows them")]
    NoRun(String),
    /// No run at all.
    #[error("no run has changed {0} yet: there is nothing to undo")]
    NoRuns(String),
    /// The journal of a run cannot be written.
    #[error("the journal of run {0}: {1}")]
    Journal(String, serde_json::Error),
    /// Writing failed.
    #[error(transparent)]
    Write(#[from] atomic::AtomicWriteError),
    /// Anything else with a file.
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// A directory that exists.
#[derive(Debug, Clone)]
pub struct Memdir {
    root: PathBuf,
}

/// A file that is not read, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path inside the directory.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// What a run did, as kept in the archive.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Journal {
    /// Version of this format.
    pub schema_version: u32,
    /// Its name.
    pub run: String,
    /// What ran.
    pub verb: String,
    /// When.
    pub time: String,
    /// What it did, in order.
    pub changes: Vec<JournalEntry>,
}

/// One file of a journal.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct JournalEntry {
    /// Path inside the directory.
    pub file: String,
    /// What happened.
    pub action: String,
    /// Why.
    pub reason: String,
    /// Whether there was a file before; it lies under `before/`.
    pub had_before: bool,
    /// Hash of the file after; none if it left.
    pub after: Option<String>,
    /// Marks of the candidates behind what left.
    #[serde(default)]
    pub marks: Vec<String>,
    /// What a memory was made of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub made: Option<Provenance>,
    /// Id of the record that took it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_back: Option<String>,
}

impl Memdir {
    /// Opens a directory; `None` if there is none. Refused places are an error.
    pub fn open(path: &Path) -> Result<Option<Memdir>, MemdirError> {
        let text = path.to_string_lossy();
        if let Some(why) = names::refusal_reason(&text) {
            return Err(MemdirError::Refused(text.into_owned(), why));
        }
        match path.canonicalize() {
            // A link may lead to a place that would have been refused.
            Ok(root) => match names::refusal_reason(&root.to_string_lossy()) {
                Some(why) => Err(MemdirError::Refused(root.to_string_lossy().into_owned(), why)),
                None if root.is_dir() => Ok(Some(Memdir { root })),
                None => Err(MemdirError::Refused(text.into_owned(), "is not a folder")),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(MemdirError::Io(text.into_owned(), error)),
        }
    }

    /// Opens a directory, and makes it first if there is none.
    pub fn create(path: &Path) -> Result<Memdir, MemdirError> {
        if let Some(found) = Memdir::open(path)? {
            return Ok(found);
        }
        let text = path.to_string_lossy().into_owned();
        fs::create_dir_all(path).map_err(|error| MemdirError::Io(text.clone(), error))?;
        Memdir::open(path)?.ok_or(MemdirError::Outside(text))
    }

    /// Where it lies.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the right to write; `None` if another run has it.
    pub fn lock(&self, now: Time) -> Result<Option<WriteLock>, MemdirError> {
        lock::acquire(&self.root, now).map_err(|error| MemdirError::Io(self.root.display().to_string(), error))
    }

    /// Everything, for planning and checking.
    pub fn read(&self) -> Result<(Snapshot, Vec<SkippedFile>), MemdirError> {
        let mut passed = Vec::new();
        let mut topics = Vec::new();
        for (file, modified) in self.topic_files(&mut passed)? {
            match self.read_text(&file) {
                Ok(text) => topics.push(Topic::from_text(&file, modified, &text)),
                Err(error) => passed.push(SkippedFile {
                    file,
                    reason: error.to_string(),
                }),
            }
        }
        let journals = self.journals();
        let entries = || journals.iter().flat_map(|journal| &journal.changes);
        let retired = entries().flat_map(|entry| entry.marks.iter().cloned());
        let taken_back = entries().filter_map(|entry| entry.taken_back.clone());
        let snapshot = Snapshot {
            deleted: self.deleted_by_user(&journals, &topics),
            followed_retractions: taken_back.collect::<BTreeSet<_>>(),
            topics,
            index: self.read_index(INDEX_FILE, &mut passed),
            team_index: self.read_index(&format!("{TEAM_FOLDER}{INDEX_FILE}"), &mut passed),
            retired: retired.collect::<BTreeSet<_>>(),
        };
        Ok((snapshot, passed))
    }

    /// What was made, was not taken away by a run, and is there no more: a person deleted it. A run that did not come to its end
    /// may have announced what it never wrote.
    fn deleted_by_user(&self, journals: &[Journal], topics: &[Topic]) -> Vec<Provenance> {
        let mut made = BTreeMap::<&str, &Provenance>::new();
        for journal in journals {
            let is_done = fs::symlink_metadata(self.root.join(ARCHIVE).join(&journal.run).join(DONE_MARKER)).is_ok();
            for entry in &journal.changes {
                match &entry.made {
                    Some(told) if is_done => made.insert(&entry.file, told),
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

    fn read_index(&self, file: &str, passed: &mut Vec<SkippedFile>) -> Option<String> {
        match self.read_text(file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                passed.push(SkippedFile {
                    file: file.to_owned(),
                    reason: error.to_string(),
                });
                None
            }
        }
    }

    /// What recall looks at: the newest files, name, description and type out of their first lines.
    pub fn read_memories(&self, most: usize) -> Result<(Vec<StoredMemory>, Vec<SkippedFile>), MemdirError> {
        let mut passed = Vec::new();
        let mut files = self.topic_files(&mut passed)?;
        files.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        files.truncate(most);
        let mut memories = Vec::with_capacity(files.len());
        for (file, modified) in files {
            match self.read_text(&file) {
                Ok(text) => memories.push(parse_memory(file, modified, &text)),
                Err(error) => passed.push(SkippedFile {
                    file,
                    reason: error.to_string(),
                }),
            }
        }
        Ok((memories, passed))
    }

    /// All topic files by path, with their times.
    fn topic_files(&self, passed: &mut Vec<SkippedFile>) -> Result<Vec<(String, Time)>, MemdirError> {
        let mut files = Vec::new();
        self.walk("", 0, &mut files, passed)?;
        files.sort();
        Ok(files)
    }

    fn walk(
        &self,
        folder: &str,
        depth: usize,
        files: &mut Vec<(String, Time)>,
        passed: &mut Vec<SkippedFile>,
    ) -> Result<(), MemdirError> {
        let path = self.root.join(folder);
        let failed = |error| MemdirError::Io(path.display().to_string(), error);
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let file = format!("{folder}{name}");
            if name.starts_with('.') {
                continue;
            }
            let mut pass = |why: &str| {
                passed.push(SkippedFile {
                    file: file.clone(),
                    reason: why.to_owned(),
                });
            };
            if !names::is_inside(&file) || entry.file_name().to_str().is_none() {
                pass("has a name that is not taken");
                continue;
            }
            // Of the entry itself: links are not followed.
            let Ok(found) = entry.metadata() else {
                pass("cannot be looked at");
                continue;
            };
            if found.is_dir() && depth < MAX_DEPTH && file != names::LOG_FOLDER.trim_end_matches('/') {
                self.walk(&format!("{file}/"), depth + 1, files, passed)?;
            } else if found.is_symlink() {
                pass("is a link, which is not followed");
            } else if found.is_file() && names::is_topic(&file) {
                if found.len() > MAX_FILE_BYTES {
                    pass("is too big for a memory");
                    continue;
                }
                files.push((file, found.modified().ok().and_then(unix_millis).unwrap_or(0)));
            }
        }
        Ok(())
    }

    /// The text of a file inside, never through a link.
    fn read_text(&self, file: &str) -> io::Result<String> {
        let path = self.resolve_inside(file, false).map_err(io::Error::other)?;
        let found = fs::symlink_metadata(&path)?;
        if !found.is_file() || found.len() > MAX_FILE_BYTES {
            return Err(io::Error::other("is not a plain file of a sensible size"));
        }
        fs::read_to_string(path)
    }

    /// The path of a file, checked part by part: every folder above it is a real folder inside. Missing ones are made if
    /// asked for.
    fn resolve_inside(&self, file: &str, make: bool) -> Result<PathBuf, MemdirError> {
        let in_archive = file.strip_prefix(ARCHIVE).and_then(|rest| rest.strip_prefix('/'));
        let checked = in_archive.unwrap_or(file);
        if !names::is_inside(checked) {
            return Err(MemdirError::Outside(file.to_owned()));
        }
        let mut path = self.root.clone();
        let mut parts = file.split('/').peekable();
        while let Some(part) = parts.next() {
            path.push(part);
            if parts.peek().is_none() {
                break;
            }
            match fs::symlink_metadata(&path) {
                Ok(found) if found.is_dir() => {}
                Ok(_) => return Err(MemdirError::Outside(file.to_owned())),
                Err(error) if error.kind() == io::ErrorKind::NotFound && make => {
                    fs::create_dir(&path).map_err(|error| MemdirError::Io(path.display().to_string(), error))?;
                }
                Err(_) if !make => {}
                Err(error) => return Err(MemdirError::Io(path.display().to_string(), error)),
            }
        }
        Ok(path)
    }

    /// Writes changes, with a journal. Gives the name of the run; `None` if there was nothing to do.
    pub fn commit(
        &self,
        _lock: &WriteLock,
        verb: &str,
        now: Time,
        changes: &[MemoryChange],
    ) -> Result<Option<String>, MemdirError> {
        if changes.is_empty() {
            return Ok(None);
        }
        self.clear_temporary(&self.root);
        for change in changes {
            let current = match self.read_text(&change.file) {
                Ok(text) => Some(text),
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                Err(error) => return Err(MemdirError::Io(change.file.clone(), error)),
            };
            if current != change.before {
                return Err(MemdirError::Changed(change.file.clone()));
            }
        }
        let run = self.write_journal(verb, now, changes)?;
        for change in changes {
            let path = self.resolve_inside(&change.file, true)?;
            match &change.after {
                Some(text) => atomic::write(&path, true, text.as_bytes())?,
                None => fs::remove_file(&path).map_err(|error| MemdirError::Io(change.file.clone(), error))?,
            }
        }
        atomic::write(
            &self.resolve_inside(&format!("{ARCHIVE}/{run}/{DONE_MARKER}"), true)?,
            true,
            b"",
        )?;
        Ok(Some(run))
    }

    fn write_journal(&self, verb: &str, now: Time, changes: &[MemoryChange]) -> Result<String, MemdirError> {
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

    /// A name that sorts by time and that no run has yet.
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

    /// What killed runs left behind. Only under the lock, when nobody else writes.
    fn clear_temporary(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') {
                self.clear_temporary(&entry.path());
            } else if name.starts_with(".backcast-") && name.ends_with(".tmp") {
                // What cannot be removed is in nobody's way.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// The journals of all runs, oldest first. One that cannot be read says nothing.
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

    /// What would bring a run back: the files as they were before it. A file that was changed since is named, not touched; but
    /// the log of a day, which only grows, loses what the run noted and keeps what was written behind it.
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

    /// What adds lines to the log of a day (`2026-11-16`), those that it has not, and how many those are; `None` if it has all.
    /// Logs only grow.
    pub fn plan_log_append(&self, date: &str, lines: &[String]) -> Result<Option<(MemoryChange, usize)>, MemdirError> {
        let file = names::daily_log_path(date).ok_or_else(|| MemdirError::Outside(date.to_owned()))?;
        let before = match self.read_text(&file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(MemdirError::Io(file, error)),
        };
        let mut text = before.clone().unwrap_or_default();
        let mut known = text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
        let mut added = 0;
        for line in lines {
            let line = format!("- {}", super::topic::to_one_line(line));
            if known.insert(line.clone()) {
                if !text.is_empty() && !text.ends_with('\n') {
                    text.push('\n');
                }
                text.push_str(&line);
                text.push('\n');
                added += 1;
            }
        }
        let change = MemoryChange {
            file,
            action: if before.is_some() {
                ChangeAction::Update
            } else {
                ChangeAction::New
            },
            before,
            after: Some(text),
            reason: "noted in the log of the day".to_owned(),
            marks: Vec::new(),
            provenance: None,
            retracted_by: None,
        };
        Ok((added > 0).then_some((change, added)))
    }

    /// The texts of all daily logs, oldest first.
    pub fn daily_logs(&self) -> Vec<String> {
        let names = |folder: &str| {
            let entries = fs::read_dir(self.root.join(folder)).into_iter().flatten().flatten();
            entries
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect::<BTreeSet<_>>()
        };
        let logs = names::LOG_FOLDER.trim_end_matches('/');
        let mut texts = Vec::new();
        for year in names(logs) {
            for month in names(&format!("{logs}/{year}")) {
                for day in names(&format!("{logs}/{year}/{month}")) {
                    let date = day.trim_end_matches(".md");
                    let file = format!("{logs}/{year}/{month}/{day}");
                    if names::daily_log_path(date).as_ref() == Some(&file) {
                        texts.extend(self.read_text(&file));
                    }
                }
            }
        }
        texts
    }

    /// When transcripts were last looked at for a consolidation.
    pub fn last_scan(&self) -> Option<Time> {
        let found = fs::symlink_metadata(self.root.join(".consolidate-scan")).ok()?;
        found.modified().ok().and_then(unix_millis)
    }

    /// Notes that transcripts were looked at.
    pub fn record_scan(&self) -> Result<(), MemdirError> {
        Ok(atomic::write(&self.root.join(".consolidate-scan"), true, b"")?)
    }
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// The log of a day without what a run noted there, if it did nothing but grow since: what the run left is known by its hash, and
/// what stands behind it came later.
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

/// When a memory was last said, as its sources tell. Most files that a person wrote have none, and are not parsed for it.
fn last_said_in(text: &str) -> Option<Time> {
    let front = &text[..frontmatter_end(text)?];
    front
        .contains("sources:")
        .then(|| Topic::from_text("", 0, front).last_said_in_sources())?
}

fn parse_memory(file: String, modified: Time, text: &str) -> StoredMemory {
    let mut front = skim_frontmatter(text);
    let body = &text[frontmatter_end(text).unwrap_or(0)..];
    let stem = || {
        file.rsplit('/')
            .next()
            .unwrap_or(&file)
            .trim_end_matches(".md")
            .replace(['_', '-'], " ")
    };
    StoredMemory {
        name: front.remove("name").unwrap_or_else(stem),
        description: front.remove("description").unwrap_or_default(),
        kind: front.remove("type").and_then(|kind| MemoryKind::parse(&kind)),
        body: body.to_owned(),
        last_said: last_said_in(text).unwrap_or(modified),
        file,
    }
}
