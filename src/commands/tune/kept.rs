//! What a sweep that was broken off goes on from: a file that only grows, one frame a batch of policies.
//!
//! A frame is its length and, sealed by a checksum, the scores of some policies by name; a later frame replaces what an earlier one
//! said of a policy. A run that dies while it writes leaves a torn frame, which the next run drops.

use crate::commands::writing::read_head;
use anyhow::{Context, Result};
use replay::tune::score::PolicyScore;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use table::atomic::AtomicWriteError;
use transcript::pack::{seal, unseal};

/// Mark and version of the format.
const MAGIC: &[u8; 8] = b"bcsweep\x03";

/// The mark alone: any version is ours.
const MARK: &[u8] = MAGIC.split_at(7).0;

/// Scores of one policy by session, as far as they are known.
pub type PolicyScores = Vec<Option<PolicyScore>>;

/// Refuses a place where something else lies than the file of a sweep; with `force` only what is no file.
pub fn check_overwritable(path: &Path, force: bool) -> Result<(), AtomicWriteError> {
    let Ok(found) = path.symlink_metadata() else {
        return Ok(());
    };
    let path = path.to_owned();
    if !found.is_file() {
        return Err(AtomicWriteError::NotAFile { path });
    }
    let is_ours = |head: Vec<u8>| head.is_empty() || head == MARK;
    if force || read_head(&path, MARK.len() as u64).is_ok_and(is_ours) {
        Ok(())
    } else {
        Err(AtomicWriteError::Exists { path })
    }
}

/// The open file.
pub struct SweepFile {
    file: File,
    path: PathBuf,
}

impl SweepFile {
    /// Opens the file of a sweep, or starts it. What it holds of another sweep (another `key`) is dropped.
    pub fn open(path: &Path, key: &[u8; 32]) -> Result<(SweepFile, BTreeMap<String, PolicyScores>)> {
        let told = || format!("opening {}", path.display());
        let head = [MAGIC.as_slice(), key].concat();
        let old = match std::fs::read(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error).with_context(told),
            read => read.unwrap_or_default(),
        };
        let (known, good) = match old.strip_prefix(head.as_slice()) {
            Some(frames) => {
                let (known, good) = read_frames(frames);
                (known, head.len() + good)
            }
            None => (BTreeMap::new(), 0),
        };
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path)
            .with_context(told)?;
        file.set_len(good as u64).with_context(told)?;
        file.seek(SeekFrom::End(0)).with_context(told)?;
        if good == 0 {
            file.write_all(&head).with_context(told)?;
        }
        let path = path.to_owned();
        Ok((SweepFile { file, path }, known))
    }

    /// Adds the scores of a batch.
    pub fn append_batch(&mut self, batch: &[(String, &PolicyScores)]) -> Result<()> {
        let told = || format!("writing {}", self.path.display());
        let mut body = postcard::to_allocvec(batch).with_context(told)?;
        seal(&mut body);
        let mut frame = (body.len() as u64).to_le_bytes().to_vec();
        frame.append(&mut body);
        self.file.write_all(&frame).with_context(told)
    }
}

/// All whole frames, and how many bytes they take.
fn read_frames(bytes: &[u8]) -> (BTreeMap<String, PolicyScores>, usize) {
    let mut known = BTreeMap::new();
    let mut rest = bytes;
    while let Some((batch, after)) = read_frame(rest) {
        known.extend(batch);
        rest = after;
    }
    (known, bytes.len() - rest.len())
}

/// Scores by policy, as they were written together.
type ScoreBatch = Vec<(String, PolicyScores)>;

fn read_frame(bytes: &[u8]) -> Option<(ScoreBatch, &[u8])> {
    let (length, bytes) = bytes.split_first_chunk::<8>()?;
    let length = usize::try_from(u64::from_le_bytes(*length)).ok()?;
    let (body, after) = bytes.split_at_checked(length)?;
    Some((postcard::from_bytes(unseal(body)?).ok()?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_file_of_a_sweep_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores");
        assert!(check_overwritable(&path, false).is_ok());
        drop(SweepFile::open(&path, &[1; 32]).unwrap());
        assert!(check_overwritable(&path, false).is_ok());
        for ours in ["", "bcsweep\x01 of an older version"] {
            std::fs::write(&path, ours).unwrap();
            assert!(check_overwritable(&path, false).is_ok());
        }
        std::fs::write(&path, "7 : 3\n").unwrap();
        assert!(matches!(
            check_overwritable(&path, false),
            Err(AtomicWriteError::Exists { .. })
        ));
        assert!(check_overwritable(&path, true).is_ok());
        assert!(matches!(
            check_overwritable(folder.path(), true),
            Err(AtomicWriteError::NotAFile { .. })
        ));
    }

    #[test]
    fn whole_frames_survive_a_torn_one_and_another_sweep_starts_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores");
        let scores = |cost: u128| {
            vec![
                Some(PolicyScore {
                    cost,
                    ..PolicyScore::default()
                }),
                None,
            ]
        };
        let (mut kept, known) = SweepFile::open(&path, &[1; 32]).unwrap();
        assert!(known.is_empty());
        kept.append_batch(&[("a".to_owned(), &scores(1)), ("b".to_owned(), &scores(2))])
            .unwrap();
        kept.append_batch(&[("a".to_owned(), &scores(3))]).unwrap();
        drop(kept);
        let whole = std::fs::read(&path).unwrap();
        std::fs::write(&path, &whole[..whole.len() - 1]).unwrap();
        let (mut kept, known) = SweepFile::open(&path, &[1; 32]).unwrap();
        assert_eq!(known["a"], scores(1), "the torn frame is gone");
        kept.append_batch(&[("a".to_owned(), &scores(4))]).unwrap();
        drop(kept);
        let (_, known) = SweepFile::open(&path, &[1; 32]).unwrap();
        assert_eq!((known["a"].clone(), known["b"].clone()), (scores(4), scores(2)));
        let (_, known) = SweepFile::open(&path, &[2; 32]).unwrap();
        assert!(known.is_empty());
    }
}
