//! Files appear on disk whole or not at all: a temporary file beside the target, synced, renamed, and the directory
//! synced. A full disk or a failing writer leaves the old file as it was and nothing beside it; a killed process
//! leaves the old file or the new one, whole, and at worst a `.backcast-*.tmp` that is safe to delete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

#[derive(Debug, thiserror::Error)]
pub enum AtomicWriteError {
    #[error("{} exists; use --force to replace it", .path.display())]
    Exists { path: PathBuf },
    /// A rename over a device or a link would replace it instead of writing into it.
    #[error("{} is not a regular file and cannot be replaced by one", .path.display())]
    NotAFile { path: PathBuf },
    /// The reason is part of the sentence, not a second one.
    #[error("cannot write {}: {reason}", .path.display())]
    Failed { path: PathBuf, reason: io::Error },
}

/// Puts `bytes` at `path`. Without `force`, a file that is already there is an error.
pub fn write(path: &Path, force: bool, bytes: &[u8]) -> Result<(), AtomicWriteError> {
    write_with(path, force, |out| out.write_all(bytes))
}

/// Puts `bytes` at `path`, where nothing was before, without waiting for the disk: for many files that the next run makes
/// again if the machine goes down. A killed process still leaves no half of one.
pub fn write_fresh(path: &Path, bytes: &[u8]) -> Result<(), AtomicWriteError> {
    let failed = |reason| AtomicWriteError::Failed {
        path: path.to_owned(),
        reason,
    };
    let folder = path
        .parent()
        .filter(|folder| *folder != Path::new(""))
        .unwrap_or(Path::new("."));
    let mut temporary = temporary_in(folder, NEW_FILE_MODE).map_err(failed)?;
    temporary.write_all(bytes).map_err(failed)?;
    temporary
        .persist_noclobber(path)
        .map(|_| ())
        .map_err(|refused| match refused.error.kind() {
            io::ErrorKind::AlreadyExists => AtomicWriteError::Exists { path: path.to_owned() },
            _ => failed(refused.error),
        })
}

/// Puts what `fill` writes at `path`; an error of `fill` leaves no trace.
pub fn write_with(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), AtomicWriteError> {
    let old = match fs::symlink_metadata(path) {
        Ok(old) if !old.is_file() => return Err(AtomicWriteError::NotAFile { path: path.to_owned() }),
        // Asked before the work, so that a long run is not thrown away; the rename asks once more.
        Ok(_) if !force => return Err(AtomicWriteError::Exists { path: path.to_owned() }),
        Ok(old) => Some(old),
        Err(_) => None,
    };
    let failed = |reason| AtomicWriteError::Failed {
        path: path.to_owned(),
        reason,
    };

    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let temporary = temporary_in(folder, NEW_FILE_MODE).map_err(failed)?;
    if let Some(old) = old {
        temporary.as_file().set_permissions(old.permissions()).map_err(failed)?;
    }
    let temporary = fill_and_sync(temporary, fill).map_err(failed)?;
    // Dropping the error of a refused rename removes the temporary file that it carries.
    let renamed = if force {
        temporary.persist(path)
    } else {
        temporary.persist_noclobber(path)
    };
    renamed.map_err(|refused| match refused.error.kind() {
        io::ErrorKind::AlreadyExists => AtomicWriteError::Exists { path: path.to_owned() },
        _ => failed(refused.error),
    })?;
    sync_folder(folder).map_err(failed)
}

/// Permissions of a report before the user's mask: those of any new file.
const NEW_FILE_MODE: u32 = 0o666;

/// Creates a temporary file in the folder of its target. On systems other than Unix `mode` has no effect.
pub(crate) fn temporary_in(folder: &Path, mode: u32) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".backcast-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    // The name of the temporary file, which stands in the error, says nothing to anybody.
    builder.tempfile_in(folder).map_err(|error| {
        let cause = error
            .get_ref()
            .and_then(|named| named.source())
            .map(ToString::to_string);
        cause.map_or_else(|| error.kind().into(), |cause| io::Error::new(error.kind(), cause))
    })
}

/// Everything on disk before the rename: else a crash could leave the new name with missing content.
fn fill_and_sync(
    mut temporary: NamedTempFile,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<NamedTempFile> {
    let mut out = BufWriter::new(temporary.as_file_mut());
    fill(&mut out)?;
    out.flush()?;
    drop(out);
    temporary.as_file().sync_all()?;
    Ok(temporary)
}

/// A rename is durable once the directory is. Other systems than Unix cannot open a directory as a file.
fn sync_folder(folder: &Path) -> io::Result<()> {
    if cfg!(unix) {
        File::open(folder)?.sync_all()
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_new_file_appears_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        write(&path, false, b"a,b\n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"a,b\n");
        assert_eq!(names(folder.path()), ["report.csv"]);
    }

    #[test]
    fn an_old_file_needs_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        write(&path, false, b"old").unwrap();
        let refused = write(&path, false, b"new").unwrap_err();
        assert!(matches!(refused, AtomicWriteError::Exists { .. }));
        assert!(
            refused
                .to_string()
                .ends_with("report.csv exists; use --force to replace it")
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        write(&path, true, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["report.csv"]);
    }

    #[test]
    fn a_file_that_appears_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        let refused = write_with(&path, false, |out| {
            fs::write(&path, "theirs")?;
            out.write_all(b"ours")
        });
        assert!(matches!(refused, Err(AtomicWriteError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["report.csv"]);
    }

    #[test]
    fn a_failing_writer_leaves_no_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        write(&path, false, b"old").unwrap();
        let failure = write_with(&path, true, |out| {
            out.write_all(&[b'x'; 100_000])?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert!(
            matches!(failure, Err(AtomicWriteError::Failed { reason, .. }) if reason.kind() == io::ErrorKind::StorageFull)
        );
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["report.csv"]);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let failure = write(&folder.path().join("no/report.csv"), false, b"").unwrap_err();
        assert!(failure.to_string().contains("no/report.csv: "), "{failure}");
    }

    #[cfg(unix)]
    #[test]
    fn devices_folders_and_links_are_not_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("elsewhere", &link).unwrap();
        for path in [Path::new("/dev/null"), folder.path(), &link] {
            assert!(
                matches!(write(path, true, b"x"), Err(AtomicWriteError::NotAFile { .. })),
                "{}",
                path.display()
            );
        }
        assert_eq!(names(folder.path()), ["link"]);
    }

    #[cfg(unix)]
    #[test]
    fn permissions_outlive_a_replacement() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        write(&path, false, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        write(&path, true, b"new").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    /// The test below runs itself once more, in a process that may write no more than a few KiB to any file.
    #[cfg(unix)]
    #[test]
    fn a_full_disk_leaves_the_old_file() {
        const TARGET: &str = "BACKCAST_TEST_FULL_DISK_TARGET";
        if let Some(path) = std::env::var_os(TARGET) {
            let failure = write(Path::new(&path), true, &[b'x'; 1 << 20]).unwrap_err();
            assert!(matches!(failure, AtomicWriteError::Failed { .. }), "{failure}");
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report.csv");
        write(&path, false, b"old").unwrap();
        let this_module = module_path!().split_once("::").unwrap().1;
        let child = std::process::Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" --exact \"$1\""])
            .arg(std::env::current_exe().unwrap())
            .arg(format!("{this_module}::a_full_disk_leaves_the_old_file"))
            .env(TARGET, &path)
            .output()
            .unwrap();
        let report = String::from_utf8_lossy(&child.stdout);
        assert!(child.status.success() && report.contains("1 passed"), "{report}");
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["report.csv"]);
    }
}
