//! Locks of a memory directory.
//!
//! `.lock` is locked by the operating system, so the lock ends with its process; the process id and time inside are for
//! people. `.consolidate-lock` has the form of the client: it holds a process id, and its modification time is the last
//! consolidation. It may be taken from a dead process, or after an hour.

#![allow(clippy::disallowed_methods, reason = "locks are files")]

use language::when;
use language::when::HOUR;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use transcript::log::Time;

/// How long to wait for a lock. That covers a process that is about to end, or a child that has inherited the file for a
/// moment; a run that writes takes longer.
const LOCK_TIMEOUT: Duration = Duration::from_millis(200);

/// Time between two attempts.
const LOCK_POLL: Duration = Duration::from_millis(20);

/// The lock for writing, held until it is dropped.
#[derive(Debug)]
pub struct WriteLock {
    _file: File,
}

/// Takes the lock of a directory; `None` if another process has it.
pub fn acquire(folder: &Path, now: Time) -> io::Result<Option<WriteLock>> {
    let path = folder.join(".lock");
    refuse_link(&path)?;
    let mut file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(&path)?;
    let mut patience = LOCK_TIMEOUT;
    loop {
        match file.try_lock() {
            Ok(()) => break,
            Err(TryLockError::WouldBlock) if patience.is_zero() => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_POLL),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        patience = patience.saturating_sub(LOCK_POLL);
    }
    file.set_len(0)?;
    writeln!(
        file,
        "{} {}",
        std::process::id(),
        when::format_timestamp(now).unwrap_or_default()
    )?;
    Ok(Some(WriteLock { _file: file }))
}

/// Fails for a link in the place of a lock: the lock would overwrite a file elsewhere.
fn refuse_link(path: &Path) -> io::Result<()> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.is_file() => Err(io::Error::other(format!("{} is not a plain file", path.display()))),
        _ => Ok(()),
    }
}

/// The lock during a consolidation. If it is dropped without [`ConsolidationLock::finish`], the old time is restored.
#[derive(Debug)]
pub struct ConsolidationLock {
    path: PathBuf,
    previous_time: Option<SystemTime>,
    is_done: bool,
}

/// Returns the time of the last consolidation; `None` if there was none.
pub fn last_consolidation(folder: &Path) -> Option<Time> {
    unix_millis(modified_time(&consolidation_lock_path(folder))?)
}

fn consolidation_lock_path(folder: &Path) -> PathBuf {
    folder.join(".consolidate-lock")
}

fn modified_time(path: &Path) -> Option<SystemTime> {
    let found = fs::symlink_metadata(path).ok()?;
    found.is_file().then(|| found.modified().ok()).flatten()
}

/// Returns milliseconds since 1970; `None` for an earlier time.
pub fn unix_millis(time: SystemTime) -> Option<Time> {
    let since = time.duration_since(UNIX_EPOCH).ok()?;
    since.as_millis().try_into().ok()
}

/// Takes the consolidation lock; `None` if a running process has held it for less than an hour.
pub fn acquire_consolidation(folder: &Path, now: Time) -> io::Result<Option<ConsolidationLock>> {
    let path = consolidation_lock_path(folder);
    refuse_link(&path)?;
    let before = modified_time(&path);
    let own = std::process::id().to_string();
    let holder = fs::read_to_string(&path)
        .ok()
        .and_then(|text| text.trim().parse::<u32>().ok());
    let age = before
        .and_then(unix_millis)
        .map_or(Time::MAX, |then| now.saturating_sub(then));
    if holder.is_some_and(|holder| holder != std::process::id() && is_alive(holder)) && age < HOUR {
        return Ok(None);
    }
    table::atomic::write(&path, true, own.as_bytes()).map_err(io::Error::other)?;
    let lock = ConsolidationLock {
        path,
        previous_time: before,
        is_done: false,
    };
    // Two processes may have found it free: the one whose id is there has won.
    if fs::read_to_string(&lock.path)?.trim() != own {
        let mut lock = lock;
        lock.is_done = true;
        return Ok(None);
    }
    Ok(Some(lock))
}

impl ConsolidationLock {
    /// Releases the lock and sets its time to that of this consolidation.
    pub fn finish(mut self, now: Time) -> io::Result<()> {
        let file = OpenOptions::new().write(true).open(&self.path)?;
        file.set_len(0)?;
        file.set_modified(UNIX_EPOCH + Duration::from_millis(now.max(0).unsigned_abs()))?;
        self.is_done = true;
        Ok(())
    }
}

impl Drop for ConsolidationLock {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        // A failure here leaves the id of this process, which ends soon: the next run takes the lock over.
        match self.previous_time {
            Some(before) => {
                if let Ok(file) = OpenOptions::new().write(true).open(&self.path) {
                    let _ = file.set_len(0);
                    let _ = file.set_modified(before);
                }
            }
            None => drop(fs::remove_file(&self.path)),
        }
    }
}

/// Returns whether a process is running. True if that cannot be found out; its lock still expires after an hour.
fn is_alive(process: u32) -> bool {
    let processes = Path::new("/proc");
    !processes.join("self").exists() || processes.join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = 1_800_000_000_000;

    #[test]
    fn one_writer_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let first = acquire(folder.path(), NOW).unwrap();
        assert!(first.is_some());
        assert!(acquire(folder.path(), NOW).unwrap().is_none());
        drop(first);
        assert!(acquire(folder.path(), NOW).unwrap().is_some());
    }

    fn set_time(path: &Path, time: Time) {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(UNIX_EPOCH + Duration::from_millis(time.unsigned_abs()))
            .unwrap();
    }

    #[test]
    fn a_living_holder_keeps_it_for_an_hour() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".consolidate-lock");
        // Process 1 lives as long as the machine.
        fs::write(&path, "1").unwrap();
        set_time(&path, NOW - HOUR / 2);
        assert!(acquire_consolidation(folder.path(), NOW).unwrap().is_none());
        set_time(&path, NOW - 2 * HOUR);
        assert!(acquire_consolidation(folder.path(), NOW).unwrap().is_some());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_dead_holder_is_taken_over_and_a_failure_puts_the_time_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".consolidate-lock");
        fs::write(&path, "4194999").unwrap();
        set_time(&path, NOW - 1_000);
        drop(acquire_consolidation(folder.path(), NOW).unwrap().unwrap());
        assert_eq!(last_consolidation(folder.path()), Some(NOW - 1_000));
        acquire_consolidation(folder.path(), NOW)
            .unwrap()
            .unwrap()
            .finish(NOW)
            .unwrap();
        assert_eq!(last_consolidation(folder.path()), Some(NOW));
    }

    #[cfg(unix)]
    #[test]
    fn a_link_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("elsewhere", folder.path().join(".lock")).unwrap();
        assert!(acquire(folder.path(), NOW).is_err());
        assert!(!folder.path().join("elsewhere").exists());
    }
}
