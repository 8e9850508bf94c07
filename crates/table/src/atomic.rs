//! Atomic file writes: a temporary file next to the target, renamed when it is complete. A reader never sees half a file.
//!
//! | function | replaces | permissions | synced | for |
//! | --- | --- | --- | --- | --- |
//! | `write`, [`write_with`] | with `force` | those of the old file, else the user's default | yes | results |
//! | [`write_fresh`] | never | the user's default | no | many result files that the next run can make again |
//! | [`write_private`] | always | the user's alone | no | caches |
//!
//! A full disk or a failing writer leaves the old file unchanged. A killed process leaves the old file or the new one, and at
//! worst a `.backcast-*.tmp` that is safe to delete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

#[derive(Debug, thiserror::Error)]
pub enum AtomicWriteError {
    #[error("{} exists; use --force to replace it", .path.display())]
    Exists { path: PathBuf },
    /// A rename over a device or a link would replace it instead of writing to it.
    #[error("{} is not a regular file and cannot be replaced by one", .path.display())]
    NotAFile { path: PathBuf },
    // `reason` is part of the message, so it must not be a `source` that is printed again.
    #[error("cannot write {}: {reason}", .path.display())]
    Failed { path: PathBuf, reason: io::Error },
}

/// Writes `bytes` to `path`. Fails if the file exists, unless `force` is set.
pub fn write(path: &Path, force: bool, bytes: &[u8]) -> Result<(), AtomicWriteError> {
    write_with(path, force, |out| out.write_all(bytes))
}

/// Writes `bytes` to a new file without waiting for the disk. Fails if the file exists.
pub fn write_fresh(path: &Path, bytes: &[u8]) -> Result<(), AtomicWriteError> {
    let failed = failure(path);
    let mut temporary = temporary_in(folder_of(path)).map_err(failed)?;
    temporary.write_all(bytes).map_err(failed)?;
    rename(temporary, path, false)
}

/// Writes `parts`, one after the other, to a file that only the user can read, and replaces an old one. Creates missing
/// folders, for the user alone. Does not wait for the disk: a reader has to detect a file that a power failure truncated.
pub fn write_private(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = folder_of(path);
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut temporary = tempfile_builder(0o600).tempfile_in(folder)?;
    for part in parts {
        temporary.write_all(part)?;
    }
    temporary.persist(path).map_err(|refused| refused.error)?;
    Ok(())
}

/// Writes to `path` what `fill` writes. Fails if the file exists, unless `force` is set; an error of `fill` leaves no trace.
pub fn write_with(
    path: &Path,
    force: bool,
    fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), AtomicWriteError> {
    let old = match fs::symlink_metadata(path) {
        Ok(old) if !old.is_file() => return Err(AtomicWriteError::NotAFile { path: path.to_owned() }),
        // Checked before `fill` runs, so that long work is not wasted; the rename checks once more.
        Ok(_) if !force => return Err(AtomicWriteError::Exists { path: path.to_owned() }),
        Ok(old) => Some(old),
        Err(_) => None,
    };
    let failed = failure(path);
    let temporary = temporary_in(folder_of(path)).map_err(failed)?;
    if let Some(old) = old {
        temporary.as_file().set_permissions(old.permissions()).map_err(failed)?;
    }
    let temporary = fill_and_sync(temporary, fill).map_err(failed)?;
    rename(temporary, path, force)?;
    sync_folder(folder_of(path)).map_err(failed)
}

fn failure(path: &Path) -> impl Fn(io::Error) -> AtomicWriteError + Copy {
    move |reason| AtomicWriteError::Failed {
        path: path.to_owned(),
        reason,
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn rename(temporary: NamedTempFile, path: &Path, force: bool) -> Result<(), AtomicWriteError> {
    let renamed = if force {
        temporary.persist(path)
    } else {
        temporary.persist_noclobber(path)
    };
    // Dropping the error of a refused rename removes the temporary file that it carries.
    renamed.map(|_| ()).map_err(|refused| match refused.error.kind() {
        io::ErrorKind::AlreadyExists => AtomicWriteError::Exists { path: path.to_owned() },
        _ => failure(path)(refused.error),
    })
}

fn tempfile_builder(mode: u32) -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".backcast-").suffix(".tmp");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(mode));
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

/// Creates a temporary file with the permissions of any new file of this user (`tempfile` would make it private).
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    // Keep only the cause: the message of `tempfile` has the name of the temporary file.
    tempfile_builder(0o666).tempfile_in(folder).map_err(|error| {
        let cause = error
            .get_ref()
            .and_then(|named| named.source())
            .map(ToString::to_string);
        cause.map_or_else(|| error.kind().into(), |cause| io::Error::new(error.kind(), cause))
    })
}

/// Fills and syncs the file before the rename: else a crash could leave the new name with missing content.
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

/// Syncs the folder, which makes a rename durable. Systems other than Unix cannot open a folder as a file.
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

    #[test]
    fn a_private_file_replaces_and_makes_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/er/entry");
        write_private(&path, &[b"a", b"b"]).unwrap();
        write_private(&path, &[b"c"]).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"c");
        assert_eq!(names(path.parent().unwrap()), ["entry"]);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
            assert_eq!((mode(&path), mode(&folder.path().join("deep"))), (0o600, 0o700));
        }
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

    /// Runs itself once more in a process that may write at most a few KiB to any file.
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
