//! The parts that came back, one file per log, in a hidden folder beside the part that they become. A submit that was broken
//! off leaves them there, and the next one maps only what is missing.

use anyhow::{Context, Result};
use backcast::run::cache::BUILD_ID;
use backcast::run::parts::{CollectedLog, MapJob, check_log_part, map_log};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use table::atomic;
use transcript::discover::DiscoveredLog;
use transcript::parallel::parallel_map;

/// Name of the folder.
const FOLDER: &str = ".collected";

/// What was asked of every log.
#[derive(Debug, Clone, Copy)]
pub struct MapOptions {
    /// The longest line that is read.
    pub max_line: usize,
    /// Whether the logs themselves are in the parts.
    pub texts: bool,
}

/// Parts of the logs of a job.
pub struct CollectedParts<'a> {
    job: &'a MapJob<'a>,
    options: MapOptions,
    folder: PathBuf,
    state: Mutex<CollectedState>,
}

#[derive(Default)]
struct CollectedState {
    /// Logs that need no more work, by their numbers.
    done: BTreeSet<usize>,
    /// Those on which an executor panicked, with its message.
    panicked: BTreeMap<usize, String>,
    /// Sum of the sizes of the logs that are done.
    bytes: u64,
}

/// Where a part belongs, and whether it is there.
enum PartPlace {
    Whole,
    Missing,
    /// This machine cannot read the log: what there is to say of it is said here.
    Local,
}

impl<'a> CollectedParts<'a> {
    /// Looks for the parts that an earlier submit left below `out`. Logs that this machine cannot read need no executor.
    pub fn open(job: &'a MapJob<'a>, options: MapOptions, out: &Path) -> Result<CollectedParts<'a>> {
        let folder = out.join(FOLDER);
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let collected = CollectedParts {
            job,
            options,
            folder,
            state: Mutex::default(),
        };
        let numbers = (0..job.logs().len()).collect::<Vec<_>>();
        let places = parallel_map(&numbers, |&number| collected.look(&job.logs()[number]));
        for (number, place) in places.into_iter().enumerate() {
            match place {
                PartPlace::Whole => collected.note_done(number),
                PartPlace::Missing => {}
                PartPlace::Local => collected.map_here(number)?,
            }
        }
        Ok(collected)
    }

    fn look(&self, found: &DiscoveredLog) -> PartPlace {
        let path = self.path(found);
        let MapOptions { max_line, texts } = self.options;
        let is_whole = File::open(&path).is_ok_and(|file| check_log_part(&file, found, max_line, texts).is_ok());
        match is_whole {
            true => PartPlace::Whole,
            false if File::open(&found.path).is_err() => PartPlace::Local,
            false => PartPlace::Missing,
        }
    }

    fn state(&self) -> MutexGuard<'_, CollectedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns where the part of a log lies. The name says all that the part depends on.
    fn path(&self, found: &DiscoveredLog) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        let path = found.path.as_os_str().as_encoded_bytes();
        hasher.update(BUILD_ID.as_bytes());
        hasher.update(&(self.options.max_line as u64).to_le_bytes());
        hasher.update(&[u8::from(self.options.texts), found.packing as u8]);
        let stamp = &found.stamp;
        for number in [stamp.device, stamp.inode, stamp.size, path.len() as u64] {
            hasher.update(&number.to_le_bytes());
        }
        for time in [stamp.modified, stamp.changed] {
            hasher.update(&time.to_le_bytes());
        }
        hasher.update(path);
        self.folder.join(format!("{}.part", &hasher.finalize().to_hex()[..32]))
    }

    /// Returns the logs that still have to be mapped, by their numbers.
    pub fn missing(&self) -> Vec<usize> {
        let state = self.state();
        (0..self.job.logs().len())
            .filter(|number| !state.done.contains(number))
            .collect()
    }

    /// Returns how many logs are done, and their bytes.
    pub fn progress(&self) -> (usize, u64) {
        let state = self.state();
        (state.done.len(), state.bytes)
    }

    /// Keeps a part. Fails if it is not that of the log.
    pub fn put(&self, number: usize, part: &[u8]) -> Result<()> {
        let found = self.log(number)?;
        let path = self.path(found);
        let name = found.path.display();
        let bytes = part.to_vec();
        check_log_part(&bytes, found, self.options.max_line, self.options.texts)
            .with_context(|| format!("an executor sent a wrong part of {name}"))?;
        // Damaged, or of no use: it was looked at. What is written here is looked at before it is used, so the disk need not be
        // waited for.
        let _ = fs::remove_file(&path);
        atomic::write_fresh(&path, part)?;
        self.note_done(number);
        Ok(())
    }

    /// Notes that an executor panicked on a log.
    pub fn put_panic(&self, number: usize, message: &str) -> Result<()> {
        self.log(number)?;
        self.note_done(number);
        self.state().panicked.insert(number, message.to_owned());
        Ok(())
    }

    /// Maps a log on this machine.
    pub fn map_here(&self, number: usize) -> Result<()> {
        let part = map_log(self.log(number)?, self.options.max_line, self.options.texts)?;
        self.put(number, &part)
    }

    fn log(&self, number: usize) -> Result<&DiscoveredLog> {
        self.job.logs().get(number).context("an executor sent a part of no log")
    }

    fn note_done(&self, number: usize) {
        let size = self.job.logs()[number].stamp.size;
        let mut state = self.state();
        if state.done.insert(number) {
            state.bytes += size;
        }
    }

    /// Returns what became of a log.
    pub fn take(&self, number: usize) -> Result<CollectedLog> {
        if let Some(message) = self.state().panicked.get(&number) {
            return Ok(CollectedLog::Panicked(message.clone()));
        }
        let path = self.path(self.log(number)?);
        let file = File::open(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(CollectedLog::Part(Box::new(file)))
    }

    /// Removes the parts of the job, which are of no more use.
    pub fn remove(&self) {
        for found in self.job.logs() {
            let _ = fs::remove_file(self.path(found));
        }
        // Parts of other logs may be there, which another submit will want.
        let _ = fs::remove_dir(&self.folder);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backcast::run::ReadOptions;
    use backcast::run::parts::MapTask;
    use transcript::discover::discover;

    const OPTIONS: MapOptions = MapOptions {
        max_line: 32 << 20,
        texts: false,
    };

    fn logs(folder: &Path) -> Vec<DiscoveredLog> {
        for name in ["a", "b", "c"] {
            let line = format!("{{\"type\":\"user\",\"sessionId\":\"{name}\"}}\n");
            fs::write(folder.join(name).with_extension("jsonl"), line).expect("a log");
        }
        discover(&[folder.to_owned()], false).expect("logs").logs
    }

    fn job<'a>(logs: &'a [DiscoveredLog]) -> MapJob<'a> {
        MapJob::new(MapTask {
            logs,
            shard: None,
            roots: &[],
            problems: Vec::new(),
            texts: OPTIONS.texts,
            options: ReadOptions::default(),
        })
    }

    #[test]
    fn what_is_there_is_not_mapped_again() {
        let (folder, out) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let logs = logs(folder.path());
        let job = job(&logs);
        let first = CollectedParts::open(&job, OPTIONS, out.path()).expect("open");
        assert_eq!(first.missing(), [0, 1, 2]);
        first.map_here(1).expect("mapped");
        first.map_here(2).expect("mapped");
        // A part that was damaged since is missing.
        let path = first.path(&logs[2]);
        let mut part = fs::read(&path).expect("a part");
        let middle = part.len() / 2;
        part[middle] ^= 1;
        fs::write(&path, part).expect("damaged");
        let second = CollectedParts::open(&job, OPTIONS, out.path()).expect("open");
        assert_eq!(second.missing(), [0, 2]);
        assert_eq!(second.progress(), (1, logs[1].stamp.size));
        second.put_panic(0, "why").expect("noted");
        second.map_here(2).expect("mapped");
        assert!(second.missing().is_empty());
        let mut whole = Vec::new();
        let problems = job
            .write_collected(&mut whole, &mut |number| second.take(number))
            .expect("a part");
        assert_eq!(problems.len(), 1);
        second.remove();
        assert!(!out.path().join(FOLDER).exists());
    }

    #[test]
    fn a_part_of_another_log_is_refused() {
        let (folder, out) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let logs = logs(folder.path());
        let job = job(&logs);
        let collected = CollectedParts::open(&job, OPTIONS, out.path()).expect("open");
        let part = map_log(&logs[0], OPTIONS.max_line, false).expect("a part");
        assert!(collected.put(1, &part).is_err());
        assert!(collected.put(7, &part).is_err());
        assert_eq!(collected.missing(), [0, 1, 2]);
        collected.put(0, &part).expect("its own");
        assert_eq!(collected.missing(), [1, 2]);
    }

    #[test]
    fn a_log_that_cannot_be_read_here_needs_no_executor() {
        let (folder, out) = (
            tempfile::tempdir().expect("a folder"),
            tempfile::tempdir().expect("a folder"),
        );
        let logs = logs(folder.path());
        fs::remove_file(&logs[0].path).expect("removed");
        let job = job(&logs);
        let collected = CollectedParts::open(&job, OPTIONS, out.path()).expect("open");
        assert_eq!(collected.missing(), [1, 2]);
    }
}
