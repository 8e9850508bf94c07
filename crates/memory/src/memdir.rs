//! A memory directory on disk. Only this module reads and writes its files.
//!
//! Files are never read or written through a link or outside the directory. A run first writes a journal and the files that
//! it will replace to `.archive/RUN/`. Then it writes or removes each file atomically, in the order of the changes, in which
//! the indexes are last. So a run that is killed leaves no torn file, and the next run continues from what is there.

#![allow(clippy::disallowed_methods, reason = "this is where memories touch the disk")]

mod acts;
mod journal;

use crate::change::{ChangeAction, MemoryChange};
use crate::frontmatter::{frontmatter_end, skim_frontmatter};
use crate::index::{IndexLimits, count_unloaded_lines};
use crate::kinds::MemoryKind;
use crate::lock;
use crate::lock::{WriteLock, unix_millis};
use crate::names;
use crate::names::{INDEX_FILE, MORE_INDEX_FILE, TEAM_FOLDER};
use crate::plan::Snapshot;
use crate::recall::StoredMemory;
use crate::topic::Topic;
use journal::{ARCHIVE, DONE_MARKER};
pub use journal::{Journal, JournalEntry};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use table::atomic;
use transcript::log::Time;

/// Larger files are skipped.
const MAX_FILE_BYTES: u64 = 1 << 20;

/// The same for the entries that do not fit into an index.
const MAX_MORE_INDEX_BYTES: u64 = 64 << 20;

/// Deeper folders are skipped.
const MAX_DEPTH: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum MemdirError {
    /// A path that may not be a memory directory, and why.
    #[error("{0} {1}: not a place for memories")]
    Refused(String, &'static str),
    /// A path that leads outside, or through a link.
    #[error("{0} does not lie inside the memory directory")]
    Outside(String),
    /// The file changed after the change was planned.
    #[error("{0} changed in the meantime; run the command again")]
    Changed(String),
    #[error("no run {0} in the archive; `memory undo --list` shows them")]
    NoRun(String),
    #[error("nothing to undo: no run has changed {0} yet")]
    NoRuns(String),
    #[error("the journal of run {0}: {1}")]
    Journal(String, serde_json::Error),
    #[error(transparent)]
    Write(#[from] atomic::AtomicWriteError),
    #[error("{0}: {1}")]
    Io(String, io::Error),
}

/// An existing memory directory.
#[derive(Debug, Clone)]
pub struct Memdir {
    root: PathBuf,
}

/// A file that was skipped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path inside the directory.
    pub file: String,
    pub reason: String,
}

impl Memdir {
    /// Opens a directory; `None` if it does not exist. Fails for a path that is not allowed.
    pub fn open(path: &Path) -> Result<Option<Memdir>, MemdirError> {
        let text = path.to_string_lossy();
        if let Some(why) = names::refusal_reason(&text) {
            return Err(MemdirError::Refused(text.into_owned(), why));
        }
        match path.canonicalize() {
            // A link may lead to a path that is not allowed.
            Ok(root) => match names::refusal_reason(&root.to_string_lossy()) {
                Some(why) => Err(MemdirError::Refused(root.to_string_lossy().into_owned(), why)),
                None if root.is_dir() => Ok(Some(Memdir { root })),
                None => Err(MemdirError::Refused(text.into_owned(), "is not a folder")),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(MemdirError::Io(text.into_owned(), error)),
        }
    }

    /// Opens a directory and creates it if it does not exist.
    pub fn create(path: &Path) -> Result<Memdir, MemdirError> {
        if let Some(found) = Memdir::open(path)? {
            return Ok(found);
        }
        let text = path.to_string_lossy().into_owned();
        fs::create_dir_all(path).map_err(|error| MemdirError::Io(text.clone(), error))?;
        Memdir::open(path)?.ok_or(MemdirError::Outside(text))
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Takes the lock for writing; `None` if another run has it.
    pub fn lock(&self, now: Time) -> Result<Option<WriteLock>, MemdirError> {
        lock::acquire(&self.root, now).map_err(|error| MemdirError::Io(self.root.display().to_string(), error))
    }

    /// Reads the whole directory, for planning and checking. Also returns the files that were skipped.
    pub fn read(&self) -> Result<(Snapshot, Vec<SkippedFile>), MemdirError> {
        let mut skipped = Vec::new();
        let mut topics = Vec::new();
        for (file, modified) in self.topic_files(&mut skipped)? {
            match self.read_text(&file) {
                Ok(text) => topics.push(Topic::from_text(&file, modified, &text)),
                Err(error) => skipped.push(SkippedFile {
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
            index: self.read_index(INDEX_FILE, &mut skipped),
            more_index: self.read_index(MORE_INDEX_FILE, &mut skipped),
            team_index: self.read_index(&format!("{TEAM_FOLDER}{INDEX_FILE}"), &mut skipped),
            more_team_index: self.read_index(&format!("{TEAM_FOLDER}{MORE_INDEX_FILE}"), &mut skipped),
            retired: retired.collect::<BTreeSet<_>>(),
            generated_lines: entries().flat_map(|entry| entry.index_lines.iter().cloned()).collect(),
        };
        Ok((snapshot, skipped))
    }

    /// Returns the indexes that the client loads only in part, and how many of their lines it does not load.
    pub fn overlong_indexes(&self, limits: &IndexLimits) -> Vec<(String, usize)> {
        let files = [INDEX_FILE.to_owned(), format!("{TEAM_FOLDER}{INDEX_FILE}")];
        let unloaded = |file: String| {
            let text = self.read_text(&file).ok()?;
            Some((file, count_unloaded_lines(&text, limits))).filter(|(_, count)| *count > 0)
        };
        files.into_iter().filter_map(unloaded).collect()
    }

    fn read_index(&self, file: &str, skipped: &mut Vec<SkippedFile>) -> Option<String> {
        match self.read_text(file) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                skipped.push(SkippedFile {
                    file: file.to_owned(),
                    reason: error.to_string(),
                });
                None
            }
        }
    }

    /// Reads the `most` newest memories for recall. Also returns the files that were skipped.
    pub fn read_memories(&self, most: usize) -> Result<(Vec<StoredMemory>, Vec<SkippedFile>), MemdirError> {
        let mut skipped = Vec::new();
        let mut files = self.topic_files(&mut skipped)?;
        files.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        files.truncate(most);
        let mut memories = Vec::with_capacity(files.len());
        for (file, modified) in files {
            match self.read_text(&file) {
                Ok(text) => memories.push(parse_memory(file, modified, &text)),
                Err(error) => skipped.push(SkippedFile {
                    file,
                    reason: error.to_string(),
                }),
            }
        }
        Ok((memories, skipped))
    }

    /// Lists all topic files with their modification times, sorted by path.
    fn topic_files(&self, skipped: &mut Vec<SkippedFile>) -> Result<Vec<(String, Time)>, MemdirError> {
        let mut files = Vec::new();
        self.walk("", 0, &mut files, skipped)?;
        files.sort();
        Ok(files)
    }

    fn walk(
        &self,
        folder: &str,
        depth: usize,
        files: &mut Vec<(String, Time)>,
        skipped: &mut Vec<SkippedFile>,
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
            let mut skip = |why: &str| {
                skipped.push(SkippedFile {
                    file: file.clone(),
                    reason: why.to_owned(),
                });
            };
            if !names::is_inside(&file) || entry.file_name().to_str().is_none() {
                skip("has a name that is not allowed");
                continue;
            }
            // Metadata of the entry itself: links are not followed.
            let Ok(found) = entry.metadata() else {
                skip("cannot be read");
                continue;
            };
            if found.is_dir() && depth < MAX_DEPTH && file != names::LOG_FOLDER.trim_end_matches('/') {
                self.walk(&format!("{file}/"), depth + 1, files, skipped)?;
            } else if found.is_symlink() {
                skip("is a link, which is not followed");
            } else if found.is_file() && names::is_topic(&file) {
                if found.len() > MAX_FILE_BYTES {
                    skip("is too big for a memory");
                    continue;
                }
                files.push((file, found.modified().ok().and_then(unix_millis).unwrap_or(0)));
            }
        }
        Ok(())
    }

    /// Reads a file inside the directory, never through a link.
    fn read_text(&self, file: &str) -> io::Result<String> {
        let path = self.resolve_inside(file, false).map_err(io::Error::other)?;
        let found = fs::symlink_metadata(&path)?;
        let max_bytes = match file.ends_with(MORE_INDEX_FILE) {
            true => MAX_MORE_INDEX_BYTES,
            false => MAX_FILE_BYTES,
        };
        if !found.is_file() || found.len() > max_bytes {
            return Err(io::Error::other("is not a plain file of a sensible size"));
        }
        fs::read_to_string(path)
    }

    /// Returns the path of a file after checking that every folder above it is a real folder inside the directory. Creates missing
    /// folders if `create` is set.
    fn resolve_inside(&self, file: &str, create: bool) -> Result<PathBuf, MemdirError> {
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
                Err(error) if error.kind() == io::ErrorKind::NotFound && create => {
                    fs::create_dir(&path).map_err(|error| MemdirError::Io(path.display().to_string(), error))?;
                }
                Err(_) if !create => {}
                Err(error) => return Err(MemdirError::Io(path.display().to_string(), error)),
            }
        }
        Ok(path)
    }

    /// Writes changes, with a journal. Returns the name of the run; `None` if there are no changes. Fails before it writes anything
    /// if a file is not what its change expects.
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

    /// Removes temporary files of killed runs. The caller holds the lock, so no other process is writing.
    fn clear_temporary(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_folder && !name.starts_with('.') {
                self.clear_temporary(&entry.path());
            } else if name.starts_with(".backcast-") && name.ends_with(".tmp") {
                // A file that cannot be removed does no harm.
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Plans to append lines to the daily log of a date (`2026-11-16`). Returns the change and the number of new lines; `None` if
    /// the log has all of them.
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

    /// Reads all daily logs, oldest first.
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

    /// Returns when transcripts were last scanned for a consolidation.
    pub fn last_scan(&self) -> Option<Time> {
        let found = fs::symlink_metadata(self.root.join(".consolidate-scan")).ok()?;
        found.modified().ok().and_then(unix_millis)
    }

    /// Stores that transcripts were scanned now.
    pub fn record_scan(&self) -> Result<(), MemdirError> {
        Ok(atomic::write(&self.root.join(".consolidate-scan"), true, b"")?)
    }
}

/// Returns the time of the latest source of a memory; `None` without sources. Most files that a person wrote have none, so
/// their frontmatter is not parsed.
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
