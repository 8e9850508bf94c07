//! Finds logs: files, folders and globs.
//!
//! File types are checked before anything is opened, so a FIFO or a socket cannot hang the run. Symbolic links are
//! followed only on request. A file that is reached twice is read once, under the path that sorts first.

use crate::agents::{Agent, SNIFFED_BYTES};
use crate::bytes::{ByteSource, Compression, read_start};
use crate::parallel::parallel_map;
use crate::problem::{Problem, ProblemKind};
use globset::{GlobBuilder, GlobMatcher};
use std::collections::HashSet;
use std::fs::{DirEntry, Metadata};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Identifies one state of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct FileStamp {
    pub device: u64,
    pub inode: u64,
    pub size: u64,
    /// Modification time in nanoseconds.
    pub modified: i128,
    /// Change time in nanoseconds: it moves even if the modification time is set back.
    pub changed: i128,
}

impl FileStamp {
    /// Reads the state of a file.
    #[cfg(unix)]
    pub fn from_metadata(metadata: &Metadata) -> FileStamp {
        use std::os::unix::fs::MetadataExt;
        let nanos = |seconds: i64, nanos: i64| i128::from(seconds) * 1_000_000_000 + i128::from(nanos);
        FileStamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Reads the state of a file, as far as the platform provides it.
    #[cfg(not(unix))]
    pub fn from_metadata(metadata: &Metadata) -> FileStamp {
        let modified = metadata.modified().ok();
        let since = modified.and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
        FileStamp {
            size: metadata.len(),
            modified: since.map_or(0, |since| since.as_nanos() as i128),
            ..FileStamp::default()
        }
    }
}

impl FileStamp {
    /// Returns device and inode, or `None` if the platform has none.
    fn file_id(&self) -> Option<(u64, u64)> {
        let file = (self.device, self.inode);
        (file != (0, 0)).then_some(file)
    }
}

/// A log that was found.
#[derive(Debug, Clone)]
pub struct DiscoveredLog {
    /// Its name, in every output.
    pub path: PathBuf,
    pub packing: Compression,
    /// State when it was found.
    pub stamp: FileStamp,
    /// Where its bytes are.
    pub origin: LogOrigin,
}

/// Where the bytes of a log are.
#[derive(Debug, Clone, Default)]
pub enum LogOrigin {
    /// In the file of its path.
    #[default]
    File,
    /// Elsewhere.
    Source(Arc<dyn ByteSource>),
}

/// Result of a search.
#[derive(Debug, Default)]
pub struct Discovery {
    /// Logs, sorted by path.
    pub logs: Vec<DiscoveredLog>,
    /// What could not be read or was skipped.
    pub problems: Vec<Problem>,
}

/// The search cannot start.
#[derive(Debug, thiserror::Error)]
pub enum DiscoveryError {
    /// The path does not exist.
    #[error(
        "{0}: no such file or folder\n  hint: a pattern such as 'logs/**/*.jsonl' needs quotes, so that the shell does not expand it"
    )]
    Missing(String),
    /// The base folder of a pattern cannot be read.
    #[error("{pattern}: cannot read {folder}: {reason}")]
    Start {
        /// The pattern.
        pattern: String,
        /// Its part before the first wildcard.
        folder: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Invalid pattern.
    #[error("{pattern}: not a pattern: {reason}")]
    Pattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

/// Searches all `roots`.
pub fn discover(roots: &[PathBuf], follow_links: bool) -> Result<Discovery, DiscoveryError> {
    discover_among(roots, roots.len(), follow_links)
}

/// Searches all `roots`, which are some of `named` that the user named.
pub fn discover_among(roots: &[PathBuf], named: usize, follow_links: bool) -> Result<Discovery, DiscoveryError> {
    let mut found = Discovery::default();
    for root in roots {
        let mut search = RootSearch {
            follow_links,
            found: Discovery::default(),
        };
        if root.symlink_metadata().is_ok() {
            search.add_named_path(root);
        } else if is_pattern(root) {
            search.add_pattern(root)?;
        } else {
            return Err(DiscoveryError::Missing(root.display().to_string()));
        }
        // If a single root has no logs, the caller reports it.
        if named > 1 && search.found.logs.is_empty() && search.found.problems.is_empty() {
            search.found.add_problem(root, ProblemKind::NoLogs, "");
        }
        found.logs.extend(search.found.logs);
        found.problems.extend(search.found.problems);
    }
    found.sort();
    let mut seen = HashSet::with_capacity(found.logs.len());
    found
        .logs
        .retain(|log| log.stamp.file_id().is_none_or(|file| seen.insert(file)));
    Ok(found)
}

/// Whether a path is a pattern, unless something has that name.
pub fn is_pattern(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[', '{'])
}

/// A pattern of paths.
pub struct PathPattern {
    text: String,
    glob: GlobMatcher,
    /// The folders before the first wildcard.
    pub start: PathBuf,
}

impl PathPattern {
    /// Reads a pattern.
    pub fn parse(pattern: &Path) -> Result<PathPattern, DiscoveryError> {
        // Normalize like the paths it is matched against: no `.` and no doubled separators.
        let parts = pattern.components().filter(|part| *part != Component::CurDir);
        let pattern = parts.collect::<PathBuf>();
        let text = pattern.to_string_lossy().into_owned();
        let glob = GlobBuilder::new(&text).literal_separator(true).build();
        let glob = glob.map_err(|error| DiscoveryError::Pattern {
            pattern: text.clone(),
            reason: error.kind().to_string(),
        })?;
        let fixed = pattern.components();
        Ok(PathPattern {
            text,
            glob: glob.compile_matcher(),
            start: fixed.take_while(|part| !is_pattern(Path::new(part))).collect(),
        })
    }

    /// Whether it matches a path, or a folder above it: then it takes everything below.
    pub fn takes(&self, path: &Path) -> bool {
        path.ancestors().any(|ancestor| self.glob.is_match(ancestor))
    }
}

struct RootSearch {
    follow_links: bool,
    found: Discovery,
}

/// Contents of one folder.
#[derive(Default)]
struct FolderContents {
    found: Discovery,
    /// Folders to visit next.
    folders: Vec<StampedFolder>,
}

type StampedFolder = (PathBuf, FileStamp);

impl RootSearch {
    /// Adds a path that the user named: links are followed, and a file counts as a log whatever its name.
    fn add_named_path(&mut self, path: &Path) {
        match path.metadata() {
            Ok(metadata) if metadata.is_dir() => self.walk_folder(path, &metadata, &|_| true),
            Ok(metadata) => {
                let packing = Compression::from_path(path).unwrap_or(Compression::Plain);
                self.found.add_file(path.to_path_buf(), &metadata, packing);
            }
            Err(error) => self.found.add_problem(path, ProblemKind::Unreadable, error.to_string()),
        }
    }

    fn add_pattern(&mut self, pattern: &Path) -> Result<(), DiscoveryError> {
        let pattern = PathPattern::parse(pattern)?;
        let text = pattern.text.clone();
        let start = match pattern.start.as_os_str().is_empty() {
            true => PathBuf::from("."),
            false => pattern.start.clone(),
        };
        let metadata = start.metadata().map_err(|error| DiscoveryError::Start {
            pattern: text.clone(),
            folder: start.display().to_string(),
            reason: error.to_string(),
        })?;
        let is_here = start.as_os_str() == ".";
        self.walk_folder(&start, &metadata, &|path| {
            let path = if is_here {
                path.strip_prefix(".").unwrap_or(path)
            } else {
                path
            };
            pattern.takes(path)
        });
        Ok(())
    }

    /// Walks a folder level by level: the folders of one level are read in parallel, and depth costs no call stack.
    fn walk_folder(&mut self, folder: &Path, metadata: &Metadata, wanted: &(dyn Fn(&Path) -> bool + Sync)) {
        // Visited folders, by device and inode: links may form cycles.
        let mut visited = HashSet::new();
        let mut level = vec![(folder.to_path_buf(), FileStamp::from_metadata(metadata))];
        while !level.is_empty() {
            level.retain(|(_, stamp)| stamp.file_id().is_none_or(|folder| visited.insert(folder)));
            let follow_links = self.follow_links;
            let contents = parallel_map(&level, |(folder, _)| FolderContents::read(folder, follow_links, wanted));
            level = Vec::new();
            for contents in contents {
                self.found.logs.extend(contents.found.logs);
                self.found.problems.extend(contents.found.problems);
                level.extend(contents.folders);
            }
        }
    }
}

impl Discovery {
    /// Puts logs and problems into their order.
    pub fn sort(&mut self) {
        // Compare paths by bytes, not by components: the order is the same everywhere, and many times faster to compute.
        self.logs.sort_by(|a, b| a.path.as_os_str().cmp(b.path.as_os_str()));
        self.problems.sort();
        self.problems.dedup();
    }

    /// Adds a problem with a path.
    pub fn add_problem(&mut self, path: &Path, kind: ProblemKind, detail: impl Into<String>) {
        let path = path.display().to_string();
        self.problems.push(Problem::file(path, kind, detail));
    }

    fn add_file(&mut self, path: PathBuf, metadata: &Metadata, packing: Compression) {
        if metadata.is_file() {
            let stamp = FileStamp::from_metadata(metadata);
            self.logs.push(DiscoveredLog {
                path,
                packing,
                stamp,
                origin: LogOrigin::File,
            });
        } else {
            self.add_problem(&path, ProblemKind::SpecialFile, "");
        }
    }
}

impl FolderContents {
    /// Reads a folder.
    fn read(folder: &Path, follow_links: bool, wanted: &dyn Fn(&Path) -> bool) -> FolderContents {
        let mut contents = FolderContents::default();
        let entries = match std::fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                contents
                    .found
                    .add_problem(folder, ProblemKind::Unreadable, error.to_string());
                return contents;
            }
        };
        for entry in entries {
            match entry {
                Ok(entry) => contents.add_entry(&entry, follow_links, wanted),
                Err(error) => contents
                    .found
                    .add_problem(folder, ProblemKind::Unreadable, error.to_string()),
            }
        }
        contents
    }

    fn add_entry(&mut self, entry: &DirEntry, follow_links: bool, wanted: &dyn Fn(&Path) -> bool) {
        let path = entry.path();
        let packing = Compression::from_path(&path);
        let kind = match entry.file_type() {
            Ok(kind) => kind,
            Err(error) => {
                return self
                    .found
                    .add_problem(&path, ProblemKind::Unreadable, error.to_string());
            }
        };
        if kind.is_symlink() && !follow_links {
            // A folder may contain logs that match, whatever its own name.
            let is_folder = path.metadata().is_ok_and(|metadata| metadata.is_dir());
            if is_folder || packing.is_some() && wanted(&path) {
                self.found.add_problem(&path, ProblemKind::LinkSkipped, "");
            }
            return;
        }
        if !kind.is_dir() && !kind.is_symlink() && (packing.is_none() || !wanted(&path)) {
            return;
        }
        // `DirEntry::metadata` is relative to the open folder and so cheaper, but only a path follows links.
        let metadata = match kind.is_symlink() {
            false => entry.metadata(),
            true => path.metadata(),
        };
        match metadata {
            Ok(metadata) if metadata.is_dir() => self.folders.push((path, FileStamp::from_metadata(&metadata))),
            Ok(metadata) => {
                let is_log = |packing: &Compression| wanted(&path) && is_session(&path, *packing, &metadata);
                if let Some(packing) = packing.filter(is_log) {
                    self.found.add_file(path, &metadata, packing);
                }
            }
            Err(error) => self
                .found
                .add_problem(&path, ProblemKind::Unreadable, error.to_string()),
        }
    }
}

/// Returns whether a file with the name of a log is one. Folders hold many JSON documents; only exports of sessions are
/// logs.
fn is_session(path: &Path, packing: Compression, metadata: &Metadata) -> bool {
    if !Compression::is_document(path) {
        return true;
    }
    metadata.is_file() && read_start(path, packing, SNIFFED_BYTES).is_ok_and(|start| is_session_export(&start))
}

/// Whether a JSON document that starts so is a session that an agent exported.
pub fn is_session_export(start: &[u8]) -> bool {
    Agent::detect(start) == Agent::OpenCode
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(found: &Discovery) -> Vec<String> {
        let name = |log: &DiscoveredLog| log.path.file_name().unwrap().to_string_lossy().into_owned();
        found.logs.iter().map(name).collect()
    }

    #[test]
    fn finds_logs_by_folder_file_and_pattern() {
        let root = tempfile::tempdir().unwrap();
        let sub = root.path().join("projects/p1");
        std::fs::create_dir_all(&sub).unwrap();
        for name in ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst", "notes.md", "d.json"] {
            std::fs::write(sub.join(name), "").unwrap();
        }
        let find = |roots: &[PathBuf]| names(&discover(roots, false).unwrap());
        assert_eq!(find(&[root.path().into()]), ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"]);
        assert_eq!(find(&[sub.join("*.gz")]), ["b.jsonl.gz"]);
        assert_eq!(
            find(&[root.path().join("projects/p*")]),
            ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"]
        );
        assert_eq!(
            find(&[sub.join("d.json")]),
            ["d.json"],
            "a named file is a log whatever its name"
        );
        assert_eq!(
            find(&[sub.clone(), sub.join("a.jsonl")]),
            ["a.jsonl", "b.jsonl.gz", "c.jsonl.zst"],
            "once only"
        );
        assert!(discover(&[root.path().join("missing")], false).is_err());
        assert!(discover(&[root.path().join("[")], false).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn special_files_and_links_are_reported_and_skipped() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::write(path("good.jsonl"), "").unwrap();
        std::os::unix::fs::symlink(root.path(), path("loop")).unwrap();
        std::os::unix::fs::symlink(path("good.jsonl"), path("link.jsonl")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(path("socket.jsonl")).unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(path("fifo.jsonl"))
            .status()
            .unwrap();
        assert!(made.success());
        let found = discover(&[root.path().into()], false).unwrap();
        assert_eq!(names(&found), ["good.jsonl"]);
        let kinds = found.problems.iter().map(|problem| problem.kind).collect::<Vec<_>>();
        assert_eq!(
            kinds,
            [
                ProblemKind::SpecialFile,
                ProblemKind::LinkSkipped,
                ProblemKind::LinkSkipped,
                ProblemKind::SpecialFile
            ]
        );
        let followed = discover(&[root.path().into()], true).unwrap();
        assert_eq!(followed.logs.len(), 1, "the link and its target are one file");
    }

    #[cfg(unix)]
    #[test]
    fn hard_links_are_read_once_under_the_first_path() {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        std::fs::create_dir_all(path("b/c")).unwrap();
        std::fs::write(path("z.jsonl"), "").unwrap();
        for other in ["b/c/y.jsonl", "b/x.jsonl", "w.jsonl"] {
            std::fs::hard_link(path("z.jsonl"), path(other)).unwrap();
        }
        for roots in [vec![path("")], vec![path("z.jsonl"), path("w.jsonl"), path("b")]] {
            let found = discover(&roots, false).unwrap();
            assert_eq!(names(&found), ["y.jsonl"], "b/c/y.jsonl sorts first");
        }
    }
}
