//! The parts of a run, opened: the logs in them, as if they had been found in files.

#![allow(clippy::disallowed_methods, reason = "parts are files, in folders")]

use super::texts::PartTexts;
use super::{OtherBuild, PART_MARK, PartEntry, PartIndex, Section, Shard, TEXT_MARK, read_index};
use crate::run::cache::ContentHash;
use crate::run::folders::parse_listed_path;
use anyhow::{Context, Result, anyhow, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use transcript::bytes::OpenBytes;
use transcript::discover::{DiscoveredLog, FileStamp, LogOrigin};
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack;
use transcript::parallel::parallel_map;
use transcript::problem::Problem;

/// What to do about a damaged part.
const MAP_AGAIN: &str = "hint: map its logs again";

/// Logs in parts, in place of logs in files.
#[derive(Clone)]
pub struct PartSet(Arc<PartContents>);

impl std::fmt::Debug for PartSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PartSet({} logs)", self.0.logs.len())
    }
}

struct PartContents {
    /// The logs, sorted by path.
    logs: Vec<Arc<PartLog>>,
    found: Vec<DiscoveredLog>,
    problems: Vec<Problem>,
    roots: Vec<PathBuf>,
    max_line: u64,
    failure: Arc<OnceLock<String>>,
}

/// A part that is open.
pub(super) struct OpenPart {
    name: String,
    bytes: Arc<dyn OpenBytes>,
    start: u64,
    failure: Arc<OnceLock<String>>,
}

impl std::fmt::Debug for OpenPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OpenPart({})", self.name)
    }
}

impl OpenPart {
    /// Reads a section.
    pub fn read(&self, section: &Section) -> io::Result<Vec<u8>> {
        section.read(self.bytes.as_ref(), self.start)
    }

    /// Notes that the part is damaged. The first failure of a run is the one that is reported.
    pub fn fail(&self, error: &dyn std::fmt::Display) {
        self.failure.get_or_init(|| damaged(&self.name, error));
    }
}

fn damaged(name: &str, error: &dyn std::fmt::Display) -> String {
    format!("{name}: the part is damaged: {error}\n  {MAP_AGAIN}")
}

/// A log in a part.
pub(in crate::run) struct PartLog {
    part: Arc<OpenPart>,
    entry: PartEntry,
}

impl PartLog {
    /// Returns the hash of the log's content.
    pub fn content(&self) -> Option<ContentHash> {
        self.entry.content
    }

    /// Returns the problems with the log as a whole.
    pub fn problems(&self) -> &[Problem] {
        &self.entry.problems
    }

    /// Returns the bytes of the packed log and of its line hashes.
    pub fn packed_lengths(&self) -> (u64, u64) {
        (self.entry.numbers.length, self.entry.lines.length)
    }

    /// Reads the packed log; `None` if the part is damaged, which ends the run.
    pub fn read_packed(&self) -> Option<Vec<u8>> {
        self.read(&self.entry.numbers)
    }

    /// Reads the log.
    pub fn read_log(&self) -> Option<Log> {
        let log = pack::unpack(&self.read_packed()?);
        log.inspect_err(|error| self.part.fail(error)).ok()
    }

    /// Reads the line hashes.
    pub fn read_lines(&self) -> Option<LineHashes> {
        let lines = LineHashes::unpack(&self.read(&self.entry.lines)?);
        lines.inspect_err(|error| self.part.fail(error)).ok()
    }

    /// Notes that the packed log cannot be used.
    pub fn fail(&self, error: &dyn std::fmt::Display) {
        self.part.fail(error);
    }

    fn read(&self, section: &Section) -> Option<Vec<u8>> {
        let body = self.part.read(section);
        body.inspect_err(|error| self.part.fail(error)).ok()
    }

    fn found(&self) -> Result<DiscoveredLog> {
        let texts = PartTexts {
            part: Arc::clone(&self.part),
            size: self.entry.size,
            blocks: self.entry.texts.as_deref().map(Arc::from),
        };
        let packing = self.entry.compression();
        Ok(DiscoveredLog {
            path: parse_listed_path(&self.entry.path)?,
            packing: packing.ok_or_else(|| anyhow!("the compression of a log is not known"))?,
            stamp: FileStamp {
                size: self.entry.size,
                ..FileStamp::default()
            },
            origin: LogOrigin::Source(Arc::new(texts)),
        })
    }

    /// Whether another part has the same log with the same content.
    fn is_same(&self, other: &PartLog) -> bool {
        let of = |log: &PartLog| {
            let entry = &log.entry;
            (
                entry.size,
                entry.packing,
                entry.content,
                entry.numbers.checksum,
                entry.lines.checksum,
            )
        };
        of(self) == of(other)
    }
}

impl PartSet {
    /// Opens the parts in files and folders, in any order.
    pub fn open(paths: &[PathBuf]) -> Result<PartSet> {
        let mut parts = PartCollector::default();
        for path in paths {
            for file in part_files(path)? {
                parts.add_file(&file)?;
            }
        }
        parts.finish()
    }

    /// Opens parts in memory; names are for messages.
    pub fn from_bytes(parts: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<PartSet> {
        let mut collector = PartCollector::default();
        for (name, bytes) in parts {
            collector.add(&name, Arc::new(bytes))?;
        }
        collector.finish()
    }

    /// Returns the logs, sorted by path, as if they had been found.
    pub fn logs(&self) -> &[DiscoveredLog] {
        &self.0.found
    }

    /// Returns what was wrong with finding the logs.
    pub fn problems(&self) -> &[Problem] {
        &self.0.problems
    }

    /// Returns the paths that were named where the logs were mapped.
    pub fn roots(&self) -> &[PathBuf] {
        &self.0.roots
    }

    /// Returns the longest line that was read.
    pub fn max_line(&self) -> u64 {
        self.0.max_line
    }

    /// Fails if commands that read texts cannot read those of every log.
    pub fn ensure_texts(&self) -> Result<()> {
        let missing = self.0.logs.iter().find(|log| {
            // A log that could not be read has no texts anywhere.
            log.entry.texts.is_none() && log.entry.content.is_some()
        });
        match missing {
            Some(log) => bail!(
                "{}: the part holds no texts, which this command needs\n  hint: map the logs again with --texts",
                log.part.name
            ),
            None => Ok(()),
        }
    }

    /// Checks the checksums of everything but the texts.
    pub fn check_sections(&self) -> Result<()> {
        let is_intact =
            |log: &Arc<PartLog>| log.read(&log.entry.numbers).is_some() && log.read(&log.entry.lines).is_some();
        parallel_map(&self.0.logs, is_intact);
        self.check()
    }

    /// Fails if a part turned out to be damaged.
    pub fn check(&self) -> Result<()> {
        match self.0.failure.get() {
            Some(failure) => Err(anyhow!(failure.clone())),
            None => Ok(()),
        }
    }

    /// Returns a log by its number.
    pub(in crate::run) fn log(&self, at: usize) -> &Arc<PartLog> {
        &self.0.logs[at]
    }
}

/// Returns the files of parts at a path: the file, or all files of the folder. Hidden files, and those that start with an
/// underscore, are marks of job systems.
fn part_files(path: &Path) -> Result<Vec<PathBuf>> {
    let context = || format!("reading {}", path.display());
    if !fs::metadata(path).with_context(context)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(context)? {
        let entry = entry.with_context(context)?;
        let name = entry.file_name();
        let is_mark = name.as_encoded_bytes().starts_with(b".") || name.as_encoded_bytes().starts_with(b"_");
        if !is_mark && entry.path().is_file() {
            files.push(entry.path());
        }
    }
    if files.is_empty() {
        bail!("{}: no parts there", path.display());
    }
    Ok(files)
}

/// Logs that `map` found in one run or several that share them.
#[derive(Default)]
struct MappedSet {
    total: u64,
    seen: HashSet<Vec<u8>>,
    shards: BTreeSet<u32>,
    shard_count: u32,
}

/// Collects parts.
#[derive(Default)]
struct PartCollector {
    logs: Vec<PartLog>,
    problems: Vec<Problem>,
    /// Lists of paths that were named.
    roots: BTreeSet<Vec<Vec<u8>>>,
    /// Line limits, and a part that has each.
    limits: BTreeMap<u64, String>,
    sets: BTreeMap<[u8; 32], MappedSet>,
    failure: Arc<OnceLock<String>>,
}

impl PartCollector {
    fn add_file(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let context = || format!("reading {name}");
        let mut file = File::open(path).with_context(context)?;
        let mut head = Vec::new();
        let longest = PART_MARK.len().max(TEXT_MARK.len()) as u64;
        Read::by_ref(&mut file)
            .take(longest)
            .read_to_end(&mut head)
            .with_context(context)?;
        if head.starts_with(TEXT_MARK) {
            let text = fs::read(path).with_context(context)?;
            let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
            for (number, line) in lines.filter(|line| !line.is_empty()).enumerate() {
                let name = format!("{name}:{}", number + 1);
                let bytes = STANDARD.decode(line);
                self.add(&name, Arc::new(bytes.map_err(|error| anyhow!(damaged(&name, &error)))?))?;
            }
            return Ok(());
        }
        // An empty file is what a job without logs leaves that writes parts as text.
        if head.is_empty() {
            return Ok(());
        }
        if !head.starts_with(PART_MARK) {
            bail!("{name}: not a part that `backcast map` wrote");
        }
        self.add(&name, Arc::new(file))
    }

    /// Adds the parts that stand end to end.
    fn add(&mut self, name: &str, bytes: Arc<dyn OpenBytes>) -> Result<()> {
        let mut end = bytes.size();
        while end > 0 {
            let (index, start) =
                read_index(bytes.as_ref(), end).map_err(|error| match error.downcast::<OtherBuild>() {
                    Ok(other) => anyhow!("{name}: {other}\n  hint: map and reduce with the same build"),
                    Err(error) => anyhow!(damaged(name, &error)),
                })?;
            end = start;
            let part = Arc::new(OpenPart {
                name: name.to_owned(),
                bytes: Arc::clone(&bytes),
                start,
                failure: Arc::clone(&self.failure),
            });
            self.add_part(&part, index);
        }
        Ok(())
    }

    fn add_part(&mut self, part: &Arc<OpenPart>, index: PartIndex) {
        self.problems.extend(index.problems);
        self.roots.insert(index.roots);
        self.limits.entry(index.max_line).or_insert_with(|| part.name.clone());
        let set = self.sets.entry(index.set).or_default();
        set.total = index.set_logs;
        if let Some(Shard { number, count }) = index.shard {
            set.shards.insert(number);
            set.shard_count = count;
        }
        for entry in index.logs {
            set.seen.insert(entry.path.clone());
            self.logs.push(PartLog {
                part: Arc::clone(part),
                entry,
            });
        }
    }

    fn finish(mut self) -> Result<PartSet> {
        self.check_limits()?;
        self.sets.values().try_for_each(MappedSet::check)?;
        if self.sets.is_empty() {
            bail!("no part was given");
        }
        // Of a log that several parts have, the one with texts stays.
        self.logs.sort_by(|one, other| {
            let key = |log: &PartLog| log.entry.texts.is_none();
            (&one.entry.path, key(one)).cmp(&(&other.entry.path, key(other)))
        });
        let mut logs = Vec::<PartLog>::with_capacity(self.logs.len());
        for log in self.logs {
            match logs.last().filter(|last| last.entry.path == log.entry.path) {
                None => logs.push(log),
                Some(last) if last.is_same(&log) => {}
                Some(last) => bail!(
                    "{} is in {} and in {} with different contents\n  hint: map its logs again, and leave out the older part",
                    String::from_utf8_lossy(&log.entry.path),
                    last.part.name,
                    log.part.name
                ),
            }
        }
        self.problems.sort();
        self.problems.dedup();
        let found = logs
            .iter()
            .map(|log| log.found().map_err(|error| anyhow!(damaged(&log.part.name, &error))))
            .collect::<Result<Vec<_>>>()?;
        Ok(PartSet(Arc::new(PartContents {
            found,
            logs: logs.into_iter().map(Arc::new).collect(),
            problems: self.problems,
            roots: merge_roots(self.roots)?,
            max_line: self.limits.into_keys().next().unwrap_or_default(),
            failure: self.failure,
        })))
    }

    fn check_limits(&self) -> Result<()> {
        let mut limits = self.limits.iter();
        if let (Some((one, part)), Some((other, another))) = (limits.next(), limits.next()) {
            bail!(
                "{part} was mapped with --max-line {one} and {another} with {other}\n  hint: map all logs with the same options"
            );
        }
        Ok(())
    }
}

impl MappedSet {
    /// Fails if logs that `map` found are in no part.
    fn check(&self) -> Result<()> {
        if self.seen.len() as u64 >= self.total {
            return Ok(());
        }
        let mut message = format!(
            "parts are missing: they hold {} of the {} logs that `map` found",
            self.seen.len(),
            self.total
        );
        let missing = (1..=self.shard_count).filter(|number| !self.shards.contains(number));
        let missing = missing.map(|number| format!("{number}/{}", self.shard_count));
        let missing = missing.collect::<Vec<_>>();
        if !missing.is_empty() {
            let _ = write!(message, "\n  hint: there is no part of shard {}", missing.join(", "));
        }
        bail!(message)
    }
}

/// Returns the paths that were named: as they were typed if every run of `map` named the same, else all of them, sorted.
fn merge_roots(lists: BTreeSet<Vec<Vec<u8>>>) -> Result<Vec<PathBuf>> {
    let is_one = lists.len() == 1;
    let all = lists.into_iter().flatten();
    let all = match is_one {
        true => all.collect::<Vec<_>>(),
        false => all.collect::<BTreeSet<_>>().into_iter().collect(),
    };
    all.iter().map(|path| parse_listed_path(path)).collect()
}
