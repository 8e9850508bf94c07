//! Files that backcast writes for itself and reads back: the cache, model answers, batch receipts, scores of a sweep.
//!
//! Every such file is an entry: a mark that says what it holds, its name, a body, and a checksum of all that. The name is
//! the hash of everything the body depends on, so an entry never has to be invalidated: a different input has a different
//! name. No entry is trusted. One that is damaged, too large, or lies in the place of another is counted and treated as
//! missing, and its owner computes the body again. Entries are written whole or not at all, and only the user can read
//! them, because they hold parts of the user's sessions.
//!
//! [`frames`] is the form of an entry that grows while a command runs.

pub mod frames;

use crate::atomic::write_private;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::Xxh3Default;

/// What an entry holds. A cache entry's name depends on the build, so its form may change without a new mark; the others
/// outlive builds, and a new form needs a new mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Which file had which content when it was last seen.
    Index,
    /// A packed log.
    Log,
    /// The line hashes of a log.
    LineHashes,
    /// The usage summary of a list of logs.
    Summary,
    /// The answer of a model.
    Answer,
    /// A batch of requests that was sent to a model.
    BatchReceipt,
    /// Scores of the policies of a sweep, in [`frames`].
    Scores,
}

/// Length of a mark.
const MARK_BYTES: usize = 8;

/// Length of a name in an entry, as hexadecimal digits.
const NAME_BYTES: usize = 64;

/// Length of what comes before the body.
const HEADER_BYTES: usize = MARK_BYTES + NAME_BYTES;

/// Length of what comes after the body.
const CHECKSUM_BYTES: usize = 8;

/// Bytes that mark and checksum add to a body.
pub const SEAL_BYTES: usize = MARK_BYTES + CHECKSUM_BYTES;

impl EntryKind {
    /// Returns the first bytes of an entry.
    pub const fn mark(self) -> &'static [u8; MARK_BYTES] {
        match self {
            EntryKind::Index => b"bcindex\x02",
            EntryKind::Log => b"bcastlog",
            EntryKind::LineHashes => b"bclines\x03",
            EntryKind::Summary => b"bcsummry",
            EntryKind::Answer => b"bcanswr\x01",
            EntryKind::BatchReceipt => b"bcbatch\x01",
            EntryKind::Scores => b"bcsweep\x04",
        }
    }

    /// Returns the size above which a file is not an entry.
    const fn max_bytes(self) -> u64 {
        match self {
            EntryKind::Answer | EntryKind::BatchReceipt => 16 << 20,
            EntryKind::Index | EntryKind::Log | EntryKind::LineHashes | EntryKind::Summary | EntryKind::Scores => {
                4 << 30
            }
        }
    }
}

/// The name of an entry: a hash of everything its body depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct EntryName([u8; 32]);

impl EntryName {
    pub const fn new(hash: [u8; 32]) -> EntryName {
        EntryName(hash)
    }

    /// Parses 64 lowercase hexadecimal digits; `None` for anything else.
    pub fn parse(text: &str) -> Option<EntryName> {
        let digit = |byte: u8| match byte {
            b'0'..=b'9' => Some(byte - b'0'),
            b'a'..=b'f' => Some(byte - b'a' + 10),
            _ => None,
        };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        let mut hash = [0; 32];
        if pairs.len() != hash.len() || !rest.is_empty() {
            return None;
        }
        for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
            *byte = digit(*high)? << 4 | digit(*low)?;
        }
        Some(EntryName(hash))
    }
}

impl fmt::Display for EntryName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

/// A folder of entries.
#[derive(Debug)]
pub struct EntryStore {
    folder: PathBuf,
    damaged: AtomicU64,
}

impl EntryStore {
    /// Returns the store in `folder`, which need not exist yet.
    pub fn new(folder: PathBuf) -> EntryStore {
        EntryStore {
            folder,
            damaged: AtomicU64::new(0),
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns how many entries were found damaged.
    pub fn damaged_count(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Counts an entry whose checksum is right and whose body its owner still cannot use.
    pub fn note_damaged(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns where the entry of a name lies.
    pub fn path(&self, name: &EntryName) -> PathBuf {
        let name = name.to_string();
        let (head, rest) = name.split_at(2);
        self.folder.join(head).join(rest)
    }

    /// Returns the body of the entry of a name; `None` if there is none or it is damaged.
    pub fn read(&self, kind: EntryKind, name: &EntryName) -> Option<Vec<u8>> {
        match read_entry(&self.path(name), kind, name) {
            EntryState::Found(body) => Some(body),
            EntryState::Missing => None,
            // The place follows from the name, so another entry was moved here.
            EntryState::OtherName | EntryState::Damaged => {
                self.note_damaged();
                None
            }
        }
    }

    /// Writes the entry of a name.
    pub fn write(&self, kind: EntryKind, name: &EntryName, body: &[u8]) -> io::Result<()> {
        write_entry(&self.path(name), kind, name, body)
    }

    /// Removes the entry of a name. One that cannot be removed takes space and does no other harm.
    pub fn remove(&self, name: &EntryName) {
        let _ = fs::remove_file(self.path(name));
    }

    /// Returns the body of the entry at `place` in the folder, where entries replace each other; `None` if there is none, it
    /// is damaged, or it has another name and so is out of date.
    pub fn read_at(&self, place: &Path, kind: EntryKind, name: &EntryName) -> Option<Vec<u8>> {
        match read_entry(&self.folder.join(place), kind, name) {
            EntryState::Found(body) => Some(body),
            EntryState::Missing | EntryState::OtherName => None,
            EntryState::Damaged => {
                self.note_damaged();
                None
            }
        }
    }

    /// Writes an entry to `place` in the folder and replaces the one that is there.
    pub fn write_at(&self, place: &Path, kind: EntryKind, name: &EntryName, body: &[u8]) -> io::Result<()> {
        write_entry(&self.folder.join(place), kind, name, body)
    }
}

/// What was found where an entry should be.
#[derive(Debug, PartialEq, Eq)]
enum EntryState {
    Found(Vec<u8>),
    /// An intact entry of another name.
    OtherName,
    Damaged,
    /// No file, or one that cannot be read.
    Missing,
}

fn read_entry(path: &Path, kind: EntryKind, name: &EntryName) -> EntryState {
    try_read_entry(path, kind, name).unwrap_or(EntryState::Missing)
}

fn try_read_entry(path: &Path, kind: EntryKind, name: &EntryName) -> io::Result<EntryState> {
    // Opening a pipe would wait for a writer, and a link may lead anywhere.
    if !fs::symlink_metadata(path)?.is_file() {
        return Ok(EntryState::Damaged);
    }
    let mut file = File::open(path)?;
    let size = file.metadata()?.len();
    if size < (HEADER_BYTES + CHECKSUM_BYTES) as u64 || size > kind.max_bytes() {
        return Ok(EntryState::Damaged);
    }
    // The header is read apart, so that the body need not be moved to the front.
    let mut header = [0; HEADER_BYTES];
    file.read_exact(&mut header)?;
    let mut body = Vec::with_capacity(size as usize - HEADER_BYTES);
    file.take(kind.max_bytes()).read_to_end(&mut body)?;
    Ok(check_entry(&header, body, kind, name))
}

/// Checks the bytes after the header of an entry.
fn check_entry(header: &[u8; HEADER_BYTES], mut body: Vec<u8>, kind: EntryKind, name: &EntryName) -> EntryState {
    let Some((content, checksum)) = body.split_last_chunk::<CHECKSUM_BYTES>() else {
        return EntryState::Damaged;
    };
    if !header.starts_with(kind.mark()) || checksum_of(&[header, content]) != *checksum {
        return EntryState::Damaged;
    }
    if *header != header_of(kind, name) {
        return EntryState::OtherName;
    }
    body.truncate(body.len() - CHECKSUM_BYTES);
    EntryState::Found(body)
}

/// Returns the bytes of an entry, for a place that is no folder.
pub fn seal_entry(kind: EntryKind, name: &EntryName, body: &[u8]) -> Vec<u8> {
    let header = header_of(kind, name);
    [&header, body, &checksum_of(&[&header, body])].concat()
}

/// Returns the body of the entry that [`seal_entry`] made; `None` if the bytes are not whole, or those of another entry.
pub fn open_entry(kind: EntryKind, name: &EntryName, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
    let header = *bytes.first_chunk::<HEADER_BYTES>()?;
    bytes.drain(..HEADER_BYTES);
    match check_entry(&header, bytes, kind, name) {
        EntryState::Found(body) => Some(body),
        EntryState::OtherName | EntryState::Damaged | EntryState::Missing => None,
    }
}

fn write_entry(path: &Path, kind: EntryKind, name: &EntryName, body: &[u8]) -> io::Result<()> {
    if (HEADER_BYTES + body.len() + CHECKSUM_BYTES) as u64 > kind.max_bytes() {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let header = header_of(kind, name);
    // Not synced: an entry that a crash tears has the wrong checksum and is computed again.
    write_private(path, &[&header, body, &checksum_of(&[&header, body])])
}

fn header_of(kind: EntryKind, name: &EntryName) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let (mark, digits) = header.split_at_mut(MARK_BYTES);
    mark.copy_from_slice(kind.mark());
    for (pair, byte) in digits.as_chunks_mut::<2>().0.iter_mut().zip(name.0) {
        *pair = [byte >> 4, byte & 15].map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    }
    header
}

fn checksum_of(parts: &[&[u8]]) -> [u8; CHECKSUM_BYTES] {
    let mut hasher = Xxh3Default::new();
    for part in parts {
        hasher.update(part);
    }
    hasher.digest().to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: EntryName = EntryName([7; 32]);
    const OTHER: EntryName = EntryName([8; 32]);
    const KIND: EntryKind = EntryKind::Answer;

    fn store() -> (tempfile::TempDir, EntryStore) {
        let folder = tempfile::tempdir().unwrap();
        let store = EntryStore::new(folder.path().join("deep/down"));
        (folder, store)
    }

    #[test]
    fn names_are_hexadecimal_digits() {
        let text = "0123456789abcdef".repeat(4);
        assert_eq!(EntryName::parse(&text).unwrap().to_string(), text);
        for wrong in [
            &text[1..],
            &text.to_uppercase(),
            &format!("{text}00"),
            "",
            &"é".repeat(32),
        ] {
            assert_eq!(EntryName::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_entry_is_read_back_under_its_own_name() {
        let (_folder, store) = store();
        assert_eq!(store.read(KIND, &NAME), None);
        for body in [&b"body"[..], b""] {
            store.write(KIND, &NAME, body).unwrap();
            assert_eq!(store.read(KIND, &NAME).unwrap(), body);
        }
        assert_eq!(store.read(KIND, &OTHER), None);
        store.remove(&NAME);
        assert_eq!(store.read(KIND, &NAME), None);
        assert_eq!(store.damaged_count(), 0, "a missing entry is not damaged");
    }

    #[test]
    fn entries_at_a_place_replace_each_other() {
        let (_folder, store) = store();
        let place = Path::new("place");
        store.write_at(place, KIND, &NAME, b"old").unwrap();
        store.write_at(place, KIND, &OTHER, b"new").unwrap();
        assert_eq!(store.read_at(place, KIND, &NAME), None);
        assert_eq!(store.read_at(place, KIND, &OTHER).unwrap(), b"new");
        assert_eq!(store.damaged_count(), 0, "an outdated entry is not damaged");
    }

    #[test]
    fn damage_is_counted_and_never_believed() {
        let (_folder, store) = store();
        store.write(KIND, &NAME, b"some body").unwrap();
        let path = store.path(&NAME);
        let good = fs::read(&path).unwrap();
        let mut damaged = 0;
        let mut check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            assert_eq!(store.read(KIND, &NAME), None, "{bytes:?}");
            damaged += 1;
            assert_eq!(store.damaged_count(), damaged);
        };
        for at in 0..good.len() {
            let mut flipped = good.clone();
            flipped[at] ^= 1;
            check(&flipped);
            check(&good[..at]);
        }
        fs::write(&path, &good).unwrap();
        assert_eq!(store.read(KIND, &NAME).unwrap(), b"some body");
        assert_eq!(store.read(EntryKind::Log, &NAME), None, "another kind");
    }

    #[test]
    fn a_sealed_entry_is_opened_whole_and_under_its_own_name() {
        let (_folder, store) = store();
        for body in [&b"some body"[..], b""] {
            let sealed = seal_entry(KIND, &NAME, body);
            store.write(KIND, &NAME, body).unwrap();
            assert_eq!(sealed, fs::read(store.path(&NAME)).unwrap(), "the form of a file");
            assert_eq!(open_entry(KIND, &NAME, sealed.clone()).unwrap(), body);
            assert_eq!(open_entry(KIND, &OTHER, sealed.clone()), None);
            assert_eq!(open_entry(EntryKind::Log, &NAME, sealed.clone()), None);
            for at in 0..sealed.len() {
                let mut flipped = sealed.clone();
                flipped[at] ^= 1;
                assert_eq!(open_entry(KIND, &NAME, flipped), None, "byte {at}");
                assert_eq!(open_entry(KIND, &NAME, sealed[..at].to_vec()), None, "cut at {at}");
            }
        }
    }

    #[test]
    fn an_entry_in_the_place_of_another_is_damaged() {
        let (_folder, store) = store();
        store.write(KIND, &NAME, b"body").unwrap();
        let other = store.path(&OTHER);
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::copy(store.path(&NAME), other).unwrap();
        assert_eq!(store.read(KIND, &OTHER), None);
        assert_eq!(store.damaged_count(), 1);
    }

    #[test]
    fn an_entry_that_could_not_be_read_back_is_not_written() {
        let (_folder, store) = store();
        let most = KIND.max_bytes() as usize - HEADER_BYTES - CHECKSUM_BYTES;
        store.write(KIND, &NAME, &vec![b'x'; most]).unwrap();
        assert_eq!(store.read(KIND, &NAME).unwrap().len(), most);
        assert!(store.write(KIND, &OTHER, &vec![b'x'; most + 1]).is_err());
    }

    /// Answers of a model cost money: those of earlier versions have to stay valid.
    #[test]
    fn the_form_of_an_answer_stays() {
        let (_folder, store) = store();
        let name = "07".repeat(32);
        let mut bytes = format!("bcanswr\x01{name}body").into_bytes();
        bytes.extend(xxhash_rust::xxh3::xxh3_64(&bytes).to_le_bytes());
        store.write(KIND, &NAME, b"").unwrap();
        fs::write(store.path(&NAME), bytes).unwrap();
        assert_eq!(store.read(KIND, &NAME).unwrap(), b"body");
    }

    #[test]
    #[cfg(unix)]
    fn only_the_user_can_read_them() {
        use std::os::unix::fs::PermissionsExt;
        let (_folder, store) = store();
        store.write(KIND, &NAME, b"private").unwrap();
        let path = store.path(&NAME);
        for path in [&*path, path.parent().unwrap(), store.folder()] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o077, 0);
        }
    }
}
