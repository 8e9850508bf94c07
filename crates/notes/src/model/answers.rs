//! Answers that are known already, by the name of their request: a run that is repeated asks nothing again, and one that
//! was broken off goes on where it was.
//!
//! In memory for the run, and in a folder of the cache. Nothing there is trusted: an entry must carry its own name and the
//! right checksum, or it is as if it were not there.

#![allow(clippy::disallowed_methods, reason = "answers are kept in files")]

use crate::model::request::Name;
use crate::model::stream::Answer;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use transcript::pack::{seal, unsealed};

/// What an entry starts with; changes with its form.
const MAGIC: &[u8; 8] = b"bcanswr\x01";

/// Largest entry.
const MAX_ENTRY: u64 = 16 << 20;

/// Answers by name.
#[derive(Debug, Default)]
pub struct Answers {
    folder: Option<PathBuf>,
    known: Mutex<HashMap<Name, Answer>>,
}

impl Answers {
    /// Answers in a folder; without one, they are kept for the run only.
    pub fn new(folder: Option<PathBuf>) -> Answers {
        Answers {
            folder,
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Name, Answer>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn place(&self, name: &Name) -> Option<PathBuf> {
        let (head, rest) = name.as_str().split_at(2);
        Some(self.folder.as_ref()?.join(head).join(rest))
    }

    /// The answer of a name.
    pub fn get(&self, name: &Name) -> Option<Answer> {
        if let Some(answer) = self.known().get(name) {
            return Some(answer.clone());
        }
        let mut bytes = Vec::new();
        let file = fs::File::open(self.place(name)?).ok()?;
        file.take(MAX_ENTRY).read_to_end(&mut bytes).ok()?;
        let answer = unpack(&bytes, name)?;
        self.known().insert(name.clone(), answer.clone());
        Some(answer)
    }

    /// Keeps an answer. That it cannot be written costs a call in a later run, nothing else.
    pub fn put(&self, name: &Name, answer: &Answer) -> io::Result<()> {
        self.known().insert(name.clone(), answer.clone());
        match self.place(name) {
            Some(place) => write_private(&place, &pack(name, answer)),
            None => Ok(()),
        }
    }

    /// Forgets an answer that turned out to be none.
    pub fn forget(&self, name: &Name) {
        self.known().remove(name);
        if let Some(place) = self.place(name) {
            // One that stays is found wrong again, no more.
            let _ = fs::remove_file(place);
        }
    }
}

fn pack(name: &Name, answer: &Answer) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(name.as_str().as_bytes());
    // Strings and numbers always are JSON.
    bytes.extend_from_slice(&serde_json::to_vec(answer).unwrap_or_default());
    seal(&mut bytes);
    bytes
}

fn unpack(bytes: &[u8], name: &Name) -> Option<Answer> {
    let body = unsealed(bytes)?.strip_prefix(MAGIC)?;
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

    fn name(letter: char) -> Name {
        Name::read(&letter.to_string().repeat(64)).unwrap()
    }

    fn answer(text: &str) -> Answer {
        Answer {
            text: text.into(),
            stop: "end_turn".into(),
            ..Answer::default()
        }
    }

    #[test]
    fn what_was_kept_is_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/answers");
        Answers::new(Some(path.clone()))
            .put(&name('a'), &answer("yes"))
            .unwrap();
        let again = Answers::new(Some(path));
        assert_eq!(again.get(&name('a')), Some(answer("yes")));
        assert_eq!(again.get(&name('b')), None);
        again.forget(&name('a'));
        assert_eq!(again.get(&name('a')), None);
        let nowhere = Answers::new(None);
        nowhere.put(&name('a'), &answer("no")).unwrap();
        assert_eq!(nowhere.get(&name('a')), Some(answer("no")));
    }

    #[test]
    fn a_damaged_or_misplaced_entry_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_path_buf();
        let answers = Answers::new(Some(path.clone()));
        answers.put(&name('a'), &answer("a longer text")).unwrap();
        let place = answers.place(&name('a')).unwrap();
        let good = fs::read(&place).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1;
            fs::write(&place, &bad).unwrap();
            assert_eq!(Answers::new(Some(path.clone())).get(&name('a')), None, "{at}");
        }
        fs::write(&place, &good[..good.len() - 3]).unwrap();
        assert_eq!(Answers::new(Some(path.clone())).get(&name('a')), None);
        let other = answers.place(&name('b')).unwrap();
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, &good).unwrap();
        assert_eq!(Answers::new(Some(path)).get(&name('b')), None);
    }

    #[test]
    #[cfg(unix)]
    fn only_the_user_can_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let answers = Answers::new(Some(folder.path().join("answers")));
        answers.put(&name('a'), &answer("private")).unwrap();
        let place = answers.place(&name('a')).unwrap();
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o077, 0);
        assert_eq!(
            fs::metadata(place.parent().unwrap()).unwrap().permissions().mode() & 0o077,
            0
        );
    }
}
