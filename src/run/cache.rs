//! The cache of packed logs: an unchanged log is not parsed twice.
//!
//! Entries are named by the hash of the log's content, so a log that was moved, copied or checked out again is known at
//! once. An index remembers which state of which file had which content, so that a file nobody touched need not even be
//! read. Nothing in the cache is trusted: an entry has to carry this version's mark and the right checksum, and is
//! checked again while it is unpacked; whatever fails is made anew.

#![allow(clippy::disallowed_methods, reason = "the cache is files, and looks at their times")]

use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use transcript::bytes::Compression;
use transcript::discover::{DiscoveredLog, FileStamp};
use transcript::line_hashes::LineHashes;
use transcript::pack;
use transcript::pack::{seal, unseal};

const INDEX_MAGIC: &[u8; 8] = b"bcindex\x01";
/// A file changed this recently may change again without its stamp showing it.
const RACY_NANOS: i128 = 2_000_000_000;

/// Folder of summaries, and how many lists of logs are remembered by one: those that somebody looks at in turns.
const SUMMARIES: &str = "summaries";
const MOST_SUMMARIES: usize = 8;

/// Hash of a log's content.
pub type ContentHash = [u8; 32];

/// The two parts of a log's trace: the small form, and the line hashes that only some questions need.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePart {
    /// The packed log.
    Log,
    /// Its line hashes.
    Lines,
}

impl CachePart {
    fn is_intact(self, bytes: &[u8]) -> bool {
        match self {
            CachePart::Log => pack::is_intact(bytes),
            CachePart::Lines => LineHashes::unpack(bytes).is_ok(),
        }
    }
}

/// A cache in a folder.
pub struct Cache {
    folder: PathBuf,
    /// What relative paths are relative to.
    base_folder: PathBuf,
    /// Parsing depends on it, so entries of different limits are different entries.
    max_line: u64,
    index: HashMap<u128, (FileStamp, ContentHash)>,
    sizes: std::collections::HashSet<u64>,
    new_entries: Mutex<Vec<(u128, FileStamp, ContentHash)>>,
    rebuilt_entries: AtomicU64,
}

impl Cache {
    /// Opens the cache in `folder`; a missing or damaged index is an empty one.
    pub fn open(folder: &Path, max_line: usize) -> Cache {
        let known = fs::read(folder.join("index"))
            .ok()
            .and_then(|bytes| read_index(&bytes))
            .unwrap_or_default();
        Cache {
            folder: folder.to_path_buf(),
            base_folder: std::env::current_dir().unwrap_or_default(),
            max_line: max_line as u64,
            sizes: known.values().map(|(stamp, _)| stamp.size).collect(),
            index: known,
            new_entries: Mutex::default(),
            rebuilt_entries: AtomicU64::new(0),
        }
    }

    /// Notes an entry that could not be used.
    fn note_rebuilt(&self) {
        self.rebuilt_entries.fetch_add(1, Ordering::Relaxed);
    }

    /// Entries that were there but could not be used.
    pub fn rebuilt_count(&self) -> u64 {
        self.rebuilt_entries.load(Ordering::Relaxed)
    }

    /// Name of an entry: what the content hash, the format, the line limit, the packing and the part come to. Packing: the same
    /// bytes are another log where a name says that they are packed.
    fn entry_name(&self, content: &ContentHash, packing: Compression, part: CachePart) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(content)
            .update(pack::MAGIC)
            .update(&self.max_line.to_le_bytes())
            .update(&[packing as u8, part as u8]);
        hasher.finalize()
    }

    fn entry_path(&self, name: &blake3::Hash) -> PathBuf {
        let name = name.to_hex();
        self.folder.join(&name[..2]).join(&name[2..])
    }

    /// A part of the trace of a log with this content. An entry ends in its own name, so that one in the place of another
    /// is told from it.
    pub fn get(&self, content: &ContentHash, packing: Compression, part: CachePart) -> Option<Vec<u8>> {
        let name = self.entry_name(content, packing, part);
        let mut bytes = fs::read(self.entry_path(&name)).ok()?;
        let is_named = bytes.ends_with(name.as_bytes());
        bytes.truncate(bytes.len().saturating_sub(name.as_bytes().len()));
        let is_good = is_named && part.is_intact(&bytes);
        if !is_good {
            self.note_rebuilt();
        }
        is_good.then_some(bytes)
    }

    /// Hash of a file's content, if it may be one that is known. A file whose stamp changed but whose size was seen before
    /// is hashed, in the hope that only its times changed.
    pub fn content_hash(&self, found: &DiscoveredLog) -> Option<ContentHash> {
        let known = self.index.get(&self.path_key(&found.path));
        if let Some((_, content)) = known.filter(|(stamp, _)| *stamp == found.stamp) {
            return Some(*content);
        }
        if !self.sizes.contains(&found.stamp.size) {
            return None;
        }
        let content = hash_file(&found.path, found.stamp.size).ok()?;
        if is_settled(found) {
            self.remember_hash(found, content);
        }
        Some(content)
    }

    /// Keeps a part of the trace of a file that [`is_settled`]. Failing to do so costs time later, nothing else.
    pub fn put(&self, found: &DiscoveredLog, content: ContentHash, part: CachePart, packed: &[u8]) {
        let name = self.entry_name(&content, found.packing, part);
        if write_atomically(&self.entry_path(&name), &[packed, name.as_bytes()]).is_ok() {
            self.remember_hash(found, content);
        }
    }

    /// One place per session, so that what a session came to replaces what it came to before it grew.
    fn report_path(&self, session: &str) -> PathBuf {
        let name = blake3::hash(session.as_bytes()).to_hex();
        self.folder.join("sessions").join(&name[..2]).join(&name[2..])
    }

    /// What a session came to, if it came to it from the same contents: `key` names them.
    pub fn get_report(&self, session: &str, key: &ContentHash) -> Option<Vec<u8>> {
        let mut bytes = fs::read(self.report_path(session)).ok()?;
        if !bytes.ends_with(key) {
            return None;
        }
        bytes.truncate(bytes.len() - key.len());
        let body = unseal(&bytes).map(<[u8]>::len);
        if body.is_none() {
            self.note_rebuilt();
        }
        bytes.truncate(body?);
        Some(bytes)
    }

    /// Keeps what a session came to.
    pub fn put_report(&self, session: &str, key: &ContentHash, mut bytes: Vec<u8>) {
        seal(&mut bytes);
        // Failing to do so costs time later, nothing else.
        let _ = write_atomically(&self.report_path(session), &[&bytes, key]);
    }

    /// One place per list of logs, so that what they came to replaces what they came to before one of them grew.
    fn summary_path(&self, logs: &[DiscoveredLog]) -> PathBuf {
        let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
        for log in logs {
            hasher.update(log.path.as_os_str().as_encoded_bytes());
            hasher.update(&[0]);
        }
        self.folder.join(SUMMARIES).join(format!("{:032x}", hasher.digest128()))
    }

    /// What a list of logs came to together, if it came to it from the same contents: `key` names them.
    pub fn get_summary<T>(
        &self,
        logs: &[DiscoveredLog],
        key: &ContentHash,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let bytes = fs::read(self.summary_path(logs)).ok()?;
        let Some(body) = unseal(&bytes) else {
            self.note_rebuilt();
            return None;
        };
        let summary = read(body.strip_prefix(key)?);
        if summary.is_none() {
            self.note_rebuilt();
        }
        summary
    }

    /// Keeps what a list of logs came to. There is one place for each list, and few of them: the oldest make room.
    pub fn put_summary(&self, logs: &[DiscoveredLog], key: &ContentHash, summary: &[u8]) {
        let mut bytes = [key, summary].concat();
        seal(&mut bytes);
        // Failing to do so costs time later, nothing else. The same goes for what stays behind.
        let _ = write_atomically(&self.summary_path(logs), &[&bytes]);
        let Ok(entries) = fs::read_dir(self.folder.join(SUMMARIES)) else {
            return;
        };
        let age = |entry: &fs::DirEntry| entry.metadata().and_then(|metadata| metadata.modified()).ok();
        let mut entries = entries.flatten().collect::<Vec<_>>();
        entries.sort_by_cached_key(|entry| std::cmp::Reverse(age(entry)));
        for entry in entries.iter().skip(MOST_SUMMARIES) {
            let _ = fs::remove_file(entry.path());
        }
    }

    fn path_key(&self, path: &Path) -> u128 {
        // A path that is absolute stands for itself.
        xxhash_rust::xxh3::xxh3_128(self.base_folder.join(path).as_os_str().as_encoded_bytes())
    }

    fn remember_hash(&self, found: &DiscoveredLog, content: ContentHash) {
        if let Ok(mut fresh) = self.new_entries.lock() {
            fresh.push((self.path_key(&found.path), found.stamp, content));
        }
    }

    /// Writes the index if anything was learnt. What another run learnt meanwhile is kept; entries that nothing refers to
    /// any more are removed.
    pub fn close(self) {
        let fresh = self.new_entries.lock().map(|fresh| fresh.clone()).unwrap_or_default();
        if fresh.is_empty() {
            return;
        }
        let path = self.folder.join("index");
        let mut entries = fs::read(&path)
            .ok()
            .and_then(|bytes| read_index(&bytes))
            .unwrap_or_default();
        let mut outdated = Vec::new();
        for (key, stamp, content) in fresh {
            let before = entries.insert(key, (stamp, content));
            outdated.extend(before.map(|(_, content)| content).filter(|before| *before != content));
        }
        if write_atomically(&path, &[&write_index(&entries)]).is_ok() {
            let used = entries
                .values()
                .map(|(_, content)| *content)
                .collect::<std::collections::HashSet<_>>();
            for content in outdated.iter().filter(|content| !used.contains(*content)) {
                for packing in Compression::ALL {
                    for part in [CachePart::Log, CachePart::Lines] {
                        // An entry that stays behind takes space, nothing else.
                        let _ = fs::remove_file(self.entry_path(&self.entry_name(content, packing, part)));
                    }
                }
            }
        }
    }
}

/// Whether a file is still what it was when it was found, and will show it if it changes. Logs that are being written would
/// leave an entry behind at every run.
pub fn is_settled(found: &DiscoveredLog) -> bool {
    let is_unchanged =
        fs::metadata(&found.path).is_ok_and(|metadata| FileStamp::from_metadata(&metadata) == found.stamp);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_nanos() as i128);
    is_unchanged && now - found.stamp.modified.max(found.stamp.changed) >= RACY_NANOS
}

/// Hash of the first `size` bytes of a file.
pub fn hash_file(path: &Path, size: u64) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?.take(size))?;
    if hasher.count() != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(*hasher.finalize().as_bytes())
}

fn write_atomically(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    for part in parts {
        file.write_all(part)?;
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The index: mark, entries of fixed size, checksum.
pub fn write_index(entries: &HashMap<u128, (FileStamp, ContentHash)>) -> Vec<u8> {
    let mut sorted = entries.iter().collect::<Vec<_>>();
    sorted.sort_unstable_by_key(|(key, _)| **key);
    let mut bytes = INDEX_MAGIC.to_vec();
    for (key, (stamp, content)) in sorted {
        bytes.extend_from_slice(&key.to_le_bytes());
        for number in [stamp.device, stamp.inode, stamp.size] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for time in [stamp.modified, stamp.changed] {
            bytes.extend_from_slice(&time.to_le_bytes());
        }
        bytes.extend_from_slice(content);
    }
    seal(&mut bytes);
    bytes
}

const INDEX_ENTRY: usize = 16 + 3 * 8 + 2 * 16 + 32;

/// Reads an index; `None` if it is not one.
pub fn read_index(bytes: &[u8]) -> Option<HashMap<u128, (FileStamp, ContentHash)>> {
    let entries = unseal(bytes)?.strip_prefix(INDEX_MAGIC)?;
    if entries.len() % INDEX_ENTRY != 0 {
        return None;
    }
    let mut index = HashMap::with_capacity(entries.len() / INDEX_ENTRY);
    for entry in entries.chunks_exact(INDEX_ENTRY) {
        let number = |at: usize| entry[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let wide = |at: usize| entry[at..at + 16].try_into().map(i128::from_le_bytes).ok();
        let stamp = FileStamp {
            device: number(16)?,
            inode: number(24)?,
            size: number(32)?,
            modified: wide(40)?,
            changed: wide(56)?,
        };
        let key = entry[..16].try_into().map(u128::from_le_bytes).ok()?;
        index.insert(key, (stamp, entry[72..].try_into().ok()?));
    }
    Some(index)
}
