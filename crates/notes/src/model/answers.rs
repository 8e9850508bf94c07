//! Answers of earlier requests, by a hash of the request: a repeated run asks nothing again, and an interrupted one goes on
//! where it stopped.
//!
//! Answers are kept in memory for the run, and in a folder of the cache. Their keys depend on the request and not on the
//! build of backcast: a new version keeps answers that were paid for.

use crate::model::request::AnswerKey;
use crate::model::stream::ModelAnswer;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use table::store::{EntryKind, EntryStore};

/// Answers by key.
#[derive(Debug, Default)]
pub struct ModelAnswerStore {
    store: Option<EntryStore>,
    known: Mutex<HashMap<AnswerKey, ModelAnswer>>,
}

impl ModelAnswerStore {
    /// Returns the answers in a folder. Without one, answers are kept for the run only.
    pub fn new(folder: Option<PathBuf>) -> ModelAnswerStore {
        ModelAnswerStore {
            store: folder.map(EntryStore::new),
            known: Mutex::default(),
        }
    }

    fn lock_known(&self) -> MutexGuard<'_, HashMap<AnswerKey, ModelAnswer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the answer of a key; `None` if it is not known or damaged.
    pub fn get(&self, key: &AnswerKey) -> Option<ModelAnswer> {
        if let Some(answer) = self.lock_known().get(key) {
            return Some(answer.clone());
        }
        let store = self.store.as_ref()?;
        let body = store.read(EntryKind::Answer, &key.entry_name()?)?;
        let answer = serde_json::from_slice::<ModelAnswer>(&body).ok();
        let Some(answer) = answer else {
            store.note_damaged();
            return None;
        };
        self.lock_known().insert(key.clone(), answer.clone());
        Some(answer)
    }

    /// Stores an answer. A failure to write it costs a call in a later run and nothing else.
    pub fn store(&self, key: &AnswerKey, answer: &ModelAnswer) -> io::Result<()> {
        self.lock_known().insert(key.clone(), answer.clone());
        let (Some(store), Some(name)) = (&self.store, key.entry_name()) else {
            return Ok(());
        };
        store.write(EntryKind::Answer, &name, &serde_json::to_vec(answer)?)
    }

    /// Removes an answer that its reader did not accept.
    pub fn remove_answer(&self, key: &AnswerKey) {
        self.lock_known().remove(key);
        if let (Some(store), Some(name)) = (&self.store, key.entry_name()) {
            store.remove(&name);
        }
    }

    /// Returns how many stored answers were damaged, and so have to be paid for again.
    pub fn damaged_count(&self) -> u64 {
        self.store.as_ref().map_or(0, EntryStore::damaged_count)
    }
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
    fn a_damaged_answer_is_not_known_and_is_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let store = EntryStore::new(path.clone());
        let key = name('a').entry_name().unwrap();
        for body in [&b"no JSON"[..], b"{}"] {
            store.write(EntryKind::Answer, &key, body).unwrap();
            let answers = ModelAnswerStore::new(Some(path.clone()));
            assert_eq!((answers.get(&name('a')), answers.damaged_count()), (None, 1));
        }
        ModelAnswerStore::new(Some(path.clone()))
            .store(&name('a'), &answer("yes"))
            .unwrap();
        std::fs::write(store.path(&key), "cut").unwrap();
        let answers = ModelAnswerStore::new(Some(path));
        assert_eq!((answers.get(&name('a')), answers.damaged_count()), (None, 1));
    }
}
