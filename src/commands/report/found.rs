//! What lies in the folders that a page is to be made of.

use crate::commands::terminal::notice;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// Folders deeper than this are not looked into.
const MAX_DEPTH: usize = 8;

/// Files that runs write, and that are no logs.
const REPLAY_OUTPUTS: [&str; 3] = ["boundaries.jsonl", "misses.jsonl", "events.jsonl"];

/// What was found, in the order of paths.
#[derive(Debug, Default)]
pub struct ReportInputs {
    /// Folders of replays.
    pub runs: Vec<PathBuf>,
    /// Folders of sweeps.
    pub tunes: Vec<PathBuf>,
    /// Memory directories.
    pub memdirs: Vec<PathBuf>,
    /// Notes and summaries of sessions.
    pub notes: Vec<PathBuf>,
    /// JSON documents that may be results.
    pub documents: Vec<PathBuf>,
    /// Logs.
    pub logs: Vec<PathBuf>,
}

impl ReportInputs {
    /// Whether there is nothing but perhaps logs.
    fn has_no_results(&self) -> bool {
        self.runs.is_empty()
            && self.tunes.is_empty()
            && self.memdirs.is_empty()
            && self.notes.is_empty()
            && self.documents.is_empty()
    }

    /// Whether there is nothing.
    pub fn is_empty(&self) -> bool {
        self.has_no_results() && self.logs.is_empty()
    }

    /// Whether logs lie beside results, and must be named one by one.
    pub fn is_mixed(&self) -> bool {
        !self.logs.is_empty() && !self.runs.is_empty()
    }
}

/// Looks at paths. Patterns, lists and what is packed are logs; that is for the reader of logs to find out.
pub fn find_inputs(paths: &[PathBuf]) -> Result<ReportInputs> {
    let mut found = ReportInputs::default();
    for path in paths {
        if path.is_dir() {
            found.scan_folder(path, 0)?;
        } else if has_extension(path, &[".json"]) {
            found.documents.push(path.clone());
        } else {
            found.logs.push(path.clone());
        }
    }
    Ok(found)
}

impl ReportInputs {
    fn scan_folder(&mut self, folder: &Path, depth: usize) -> Result<()> {
        let listed = std::fs::read_dir(folder).and_then(|list| list.collect::<Result<Vec<_>, _>>());
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) if depth == 0 => bail!("{}: {error}", folder.display()),
            Err(error) => {
                notice!("{}: {error}; skipped", folder.display());
                return Ok(());
            }
        };
        let entry = |entry: std::fs::DirEntry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name, entry.file_type().ok()?, entry.path()))
        };
        let mut entries = listed.into_iter().filter_map(entry).collect::<Vec<_>>();
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        let has = |name: &str| entries.iter().any(|(known, kind, _)| known == name && kind.is_file());
        if has("MEMORY.md") {
            self.memdirs.push(folder.to_path_buf());
            return Ok(());
        }
        let is_run = has("sessions.csv") && has("boundaries.jsonl");
        let is_tune = has("recommendation.json") && has("points.csv");
        if is_run && !has("manifest.json") {
            bail!(
                "{}: an interrupted replay (no manifest.json); run it again",
                folder.display()
            );
        }
        self.runs.extend(is_run.then(|| folder.to_path_buf()));
        self.tunes.extend(is_tune.then(|| folder.to_path_buf()));
        for (name, kind, path) in &entries {
            if kind.is_dir() {
                if depth < MAX_DEPTH && !name.starts_with('.') {
                    self.scan_folder(path, depth + 1)?;
                }
            } else if !kind.is_file() {
                continue;
            } else if ["summary.md", "compact.md"].contains(&name.as_str()) {
                self.notes.push(path.clone());
            } else if has_extension(path, &[".jsonl", ".jsonl.gz", ".jsonl.zst"]) {
                if !(REPLAY_OUTPUTS.contains(&name.as_str()) && is_run) {
                    self.logs.push(path.clone());
                }
            } else if has_extension(path, &[".json"]) && !is_run && !is_tune && is_result(path) {
                self.documents.push(path.clone());
            }
        }
        Ok(())
    }
}

fn has_extension(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    endings.iter().any(|ending| name.ends_with(ending))
}

/// Whether a document says near its start or end that it is one of ours; whole folders of other JSON are not read for it.
fn is_result(path: &Path) -> bool {
    const ENOUGH: u64 = 256 << 20;
    let is_small = path.metadata().is_ok_and(|metadata| metadata.len() <= ENOUGH);
    is_small && std::fs::read(path).is_ok_and(|bytes| memchr::memmem::find(&bytes, b"\"schema_version\"").is_some())
}
