//! The scores of a sweep on disk, so that an interrupted sweep goes on where it stopped: one frame per batch of policies. A
//! later frame replaces the scores that an earlier one has of the same policy.

use crate::commands::writing::read_head;
use anyhow::{Context, Result};
use replay::tune::score::PolicyScore;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use table::atomic::{self, AtomicWriteError};
use table::store::frames::FrameFile;
use table::store::{EntryKind, EntryName};

/// The mark without its last byte, the version: files of any version may be replaced.
const MARK: &[u8] = EntryKind::Scores.mark().split_at(7).0;

/// Scores of one policy by session, as far as they are known.
pub type PolicyScores = Vec<Option<PolicyScore>>;

/// Scores by policy that were written together.
type ScoreBatch = Vec<(String, PolicyScores)>;

/// Fails if something other than the file of a sweep is at `path`. With `force` any regular file may be replaced.
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

/// The file of a sweep, open for appending.
pub struct SweepFile {
    file: FrameFile,
    path: PathBuf,
    name: EntryName,
}

/// What [`SweepFile::open`] found.
pub struct OpenedSweep {
    pub file: SweepFile,
    /// Known scores by policy.
    pub scores: BTreeMap<String, PolicyScores>,
    /// Whether scores of another sweep were discarded.
    pub is_restarted: bool,
}

impl SweepFile {
    /// Opens the file of a sweep, or starts it. Scores under another name are discarded.
    pub fn open(path: &Path, name: EntryName) -> Result<OpenedSweep> {
        let opened =
            FrameFile::open(path, EntryKind::Scores, &name).with_context(|| format!("opening {}", path.display()))?;
        let mut scores = BTreeMap::new();
        for frame in &opened.frames {
            // A frame that cannot be read only means that its policies are replayed again.
            scores.extend(postcard::from_bytes::<ScoreBatch>(frame).unwrap_or_default());
        }
        Ok(OpenedSweep {
            file: SweepFile {
                file: opened.file,
                path: path.to_owned(),
                name,
            },
            scores,
            is_restarted: opened.is_restarted,
        })
    }

    /// Appends the scores of a batch.
    pub fn append_batch(&mut self, batch: &[(String, &PolicyScores)]) -> Result<()> {
        let context = || format!("writing {}", self.path.display());
        let body = postcard::to_allocvec(batch).with_context(context)?;
        self.file.append(&body).with_context(context)
    }

    /// Replaces the file by one with all scores, a frame per policy: the same bytes whether the search was interrupted or not.
    pub fn finish<'k>(
        self,
        stored: BTreeMap<String, PolicyScores>,
        known: impl Iterator<Item = (String, &'k PolicyScores)>,
    ) -> Result<()> {
        let context = || format!("writing {}", self.path.display());
        let mut all = stored;
        for (policy, scores) in known.filter(|(_, scores)| scores.iter().any(Option::is_some)) {
            let merged = all.entry(policy).or_insert_with(|| vec![None; scores.len()]);
            for (merged, score) in std::iter::zip(merged, scores) {
                *merged = score.or(*merged);
            }
        }
        let frame = |one: (String, PolicyScores)| postcard::to_allocvec(&vec![one] as &ScoreBatch);
        let frames = all
            .into_iter()
            .map(frame)
            .collect::<Result<Vec<_>, _>>()
            .with_context(context)?;
        let bytes = FrameFile::encode(EntryKind::Scores, &self.name, &frames);
        atomic::write(&self.path, true, &bytes).with_context(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(path: &Path, name: u8) -> OpenedSweep {
        SweepFile::open(path, EntryName::new([name; 32])).unwrap()
    }

    #[test]
    fn only_the_file_of_a_sweep_is_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores");
        assert!(check_overwritable(&path, false).is_ok());
        drop(open(&path, 1));
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
    fn later_scores_replace_earlier_ones_and_another_sweep_starts_over() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("scores");
        let scores = |cost: u128| {
            let score = PolicyScore {
                cost,
                ..PolicyScore::default()
            };
            vec![Some(score), None]
        };
        let mut sweep = open(&path, 1);
        assert!(sweep.scores.is_empty());
        sweep
            .file
            .append_batch(&[("a".to_owned(), &scores(1)), ("b".to_owned(), &scores(2))])
            .unwrap();
        sweep.file.append_batch(&[("a".to_owned(), &scores(3))]).unwrap();
        let sweep = open(&path, 1);
        assert_eq!(sweep.scores["a"], scores(3));
        assert_eq!(sweep.scores["b"], scores(2));
        assert!(!sweep.is_restarted);
        let sweep = open(&path, 2);
        assert!(sweep.scores.is_empty() && sweep.is_restarted);
    }
}
