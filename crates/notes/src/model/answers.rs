//! Answers that are known already, by the name of their request: a run that is repeated asks nothing again, and one that
//! was broken off goes on where it was.
//!
//! In memory for the run, and in a folder of the cache. Nothing there is trusted: an entry must carry its own name and the
//! right checksum, or it is as if it were not there.

#![allow(clippy::disallowed_methods, reason = "answers are kept in files")]

use crate::model::request::AnswerKey;
use crate::model::stream::ModelAnswer;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use transcript::pack::{seal, unseal};

/// What an entry starts with; changes with its form.
const MAGIC: &[u8; 8] = b"bcanswr\x01";

/// Largest entry.
const MAX_ENTRY: u64 = 16 << 20;

/// Answers by name.
#[derive(Debug, Default)]
pub struct ModelAnswerStore {
    folder: Option<PathBuf>,
    known: Mutex<HashMap<AnswerKey, ModelAnswer>>,
}

impl ModelAnswerStore {
    /// Answers in a folder; without one, they are kept for the run only.
    pub fn new(folder: Option<PathBuf>) -> ModelAnswerStore {
        ModelAnswerStore {
            folder,
            known: Mutex::default(),
        }
    }

    fn lock_known(&self) -> MutexGuard<'_, HashMap<AnswerKey, ModelAnswer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer_path(&self, name: &AnswerKey) -> Option<PathBuf> {
        let (head, rest) = name.as_str().split_at(2);
        Some(self.folder.as_ref()?.join(head).join(rest))
    }

    /// The answer of a name.
    pub fn get(&self, name: &AnswerKey) -> Option<ModelAnswer> {
        if let Some(answer) = self.lock_known().get(name) {
            return Some(answer.clone());
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(self.answer_path(name)?).ok()?;
        file.take(MAX_ENTRY).read_to_end(&mut bytes).ok()?;
        let answer = unpack(&bytes, name)?;
        self.lock_known().insert(name.clone(), answer.clone());
        Some(answer)
    }

    /// Keeps an answer. That it cannot be written costs a call in a later run, nothing else.
    pub fn store(&self, name: &AnswerKey, answer: &ModelAnswer) -> io::Result<()> {
        self.lock_known().insert(name.clone(), answer.clone());
        match self.answer_path(name) {
            Some(place) => write_private(&place, &pack(name, answer)),
            None => Ok(()),
        }
    }

    /// Forgets an answer that turned out to be none.
    pub fn remove_answer(&self, name: &AnswerKey) {
        self.lock_known().remove(name);
        if let Some(place) = self.answer_path(name) {
            // One that stays is found wrong again, no more.
            let _ = fs::remove_file(place);
        }
    }
}

fn pack(name: &AnswerKey, answer: &ModelAnswer) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(name.as_str().as_bytes());
    // Strings and numbers always are JSON.
    bytes.extend_from_slice(&serde_json::to_vec(answer).unwrap_or_default());
    seal(&mut bytes);
    bytes
}

fn unpack(bytes: &[u8], name: &AnswerKey) -> Option<ModelAnswer> {
    let body = unseal(bytes)?.strip_prefix(MAGIC)?;
    serde_json::from_slice(body.strip_prefix(name.as_str().as_bytes())?).ok()
}

/// Writes a file whole or not at all, for nobody's eyes but the user's: it tells of their sessions.
pub(super) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(letter: char) -> AnswerKey {
        AnswerKey::parse(&letter.to_string().repeat(64)).unwrap()
    }

    fn answer(text: &str) -> ModelAnswer {
        ModelAnswer {
            text: text.into(),
            stop: "end_turn".into(),
            ..ModelAnswer::default()
        }
    }

    #[test]
    fn what_was_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/answers");
        ModelAnswerStore::new(Some(path.clone()))
            .store(&name('a'), &answer("yes"))
            .unwrap();
        let again = ModelAnswerStore::new(Some(path));
        assert_eq!(again.get(&name('a')), Some(answer("yes")));
        assert_eq!(again.get(&name('b')), None);
        again.remove_answer(&name('a'));
        assert_eq!(again.get(&name('a')), None);
        let nowhere = ModelAnswerStore::new(None);
        nowhere.store(&name('a'), &answer("no")).unwrap();
        assert_eq!(nowhere.get(&name('a')), Some(answer("no")));
    }

    #[test]
    fn a_damaged_or_misplaced_entry_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let answers = ModelAnswerStore::new(Some(path.clone()));
        answers.store(&name('a'), &answer("a longer text")).unwrap();
        let place = answers.answer_path(&name('a')).unwrap();
        let good = fs::read(&place).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&place, &bad).unwrap();
            assert_eq!(ModelAnswerStore::new(Some(path.clone())).get(&name('a')), None, "{at}");
        }
        fs::write(&place, &good[..good.len() - 3]).unwrap();
        assert_eq!(ModelAnswerStore::new(Some(path.clone())).get(&name('a')), None);
        let other = answers.answer_path(&name('b')).unwrap();
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, &good).unwrap();
        assert_eq!(ModelAnswerStore::new(Some(path)).get(&name('b')), None);
    }

    #[test]
    #[cfg(unix)]
    fn only_the_user_can_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let answers = ModelAnswerStore::new(Some(folder.path().join("answers")));
        answers.store(&name('a'), &answer("private")).unwrap();
        let place = answers.answer_path(&name('a')).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(
            fs::metadata(place.parent().unwrap()).unwrap().permissions().mode() & 0o077,
            0
        );
    }
}
