//! The cache of packed logs: an unchanged log is not parsed twice.
//!
//! Entries are named by the hash of the log's content, so a log that was moved, copied or checked out again is known at
//! once. An index remembers which state of which file had which content, so that a file nobody touched need not even be
//! read. Nothing in the cache is trusted: an entry has to carry this version's mark and the right checksum, and is
//! checked again while it is unpacked; whatever fails is made anew.

use crate::input::discover::{Found, Stamp};
use crate::session::pack;
use std::collections::HashMap;
use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

const INDEX_MAGIC: &[u8; 8] = b"bcindex\x01";
/// A file changed this recently may change again without its stamp showing it.
const RACY_NANOS: i128 = 2_000_000_000;

/// Hash of a log's content.
pub type ContentHash = [u8; 32];

/// A cache in a folder.
pub struct Cache {
    folder: PathBuf,
    /// Parsing depends on it, so entries of different limits are different entries.
    max_line: u64,
    known: HashMap<u128, (Stamp, ContentHash)>,
    sizes: std::collections::HashSet<u64>,
    fresh: Mutex<Vec<(u128, Stamp, ContentHash)>>,
    rebuilt: AtomicU64,
}

impl Cache {
    /// Opens the cache in `folder`; a missing or damaged index is an empty one.
    pub fn open(folder: &Path, max_line: usize) -> Cache {
        let known = fs::read(folder.join("index")).ok().and_then(|bytes| read_index(&bytes)).unwrap_or_default();
        Cache {
            folder: folder.to_path_buf(),
            max_line: max_line as u64,
            sizes: known.values().map(|(stamp, _)| stamp.size).collect(),
            known,
            fresh: Mutex::default(),
            rebuilt: AtomicU64::new(0),
        }
    }

    /// Entries that were there but could not be used.
    pub fn rebuilt(&self) -> u64 {
        self.rebuilt.load(Ordering::Relaxed)
    }

    fn entry(&self, content: &ContentHash) -> PathBuf {
        let mut hasher = blake3::Hasher::new();
        hasher.update(content).update(pack::MAGIC).update(&self.max_line.to_le_bytes());
        let name = hasher.finalize().to_hex();
        self.folder.join(&name[..2]).join(&name[2..])
    }

    fn load(&self, content: &ContentHash) -> Option<Vec<u8>> {
        let bytes = fs::read(self.entry(content)).ok()?;
        let is_good = pack::is_intact(&bytes);
        if !is_good {
            self.rebuilt.fetch_add(1, Ordering::Relaxed);
        }
        is_good.then_some(bytes)
    }

    /// The packed log of a file, if it is known. A file whose stamp changed but whose size was seen before is hashed, in
    /// the hope that only its times changed.
    pub fn get(&self, found: &Found) -> Option<Vec<u8>> {
        let key = path_key(&found.path);
        let known = self.known.get(&key);
        if let Some((_, content)) = known.filter(|(stamp, _)| *stamp == found.stamp) {
            return self.load(content);
        }
        if !self.sizes.contains(&found.stamp.size) {
            return None;
        }
        let content = hash_file(&found.path, found.stamp.size).ok()?;
        let bytes = self.load(&content)?;
        self.remember(found, content);
        Some(bytes)
    }

    /// Keeps the packed log of a file. Failing to do so costs time later, nothing else.
    pub fn put(&self, found: &Found, content: ContentHash, packed: &[u8]) {
        let entry = self.entry(&content);
        if write_atomically(&entry, packed).is_ok() {
            self.remember(found, content);
        }
    }

    fn remember(&self, found: &Found, content: ContentHash) {
        let unchanged = fs::metadata(&found.path).is_ok_and(|metadata| Stamp::of(&metadata) == found.stamp);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_nanos() as i128);
        let is_racy = now - found.stamp.modified.max(found.stamp.changed) < RACY_NANOS;
        if unchanged
            && !is_racy
            && let Ok(mut fresh) = self.fresh.lock()
        {
            fresh.push((path_key(&found.path), found.stamp, content));
        }
    }

    /// Writes the index if anything was learnt. What another run learnt meanwhile is kept; entries that nothing refers to
    /// any more are removed.
    pub fn close(self) {
        let fresh = self.fresh.lock().map(|fresh| fresh.clone()).unwrap_or_default();
        if fresh.is_empty() {
            return;
        }
        let path = self.folder.join("index");
        let mut entries = fs::read(&path).ok().and_then(|bytes| read_index(&bytes)).unwrap_or_default();
        let mut outdated = Vec::new();
        for (key, stamp, content) in fresh {
            let before = entries.insert(key, (stamp, content));
            outdated.extend(before.map(|(_, content)| content).filter(|before| *before != content));
        }
        if write_atomically(&path, &write_index(&entries)).is_ok() {
            let used = entries.values().map(|(_, content)| *content).collect::<std::collections::HashSet<_>>();
            for content in outdated.iter().filter(|content| !used.contains(*content)) {
                // An entry that stays behind takes space, nothing else.
                let _ = fs::remove_file(self.entry(content));
            }
        }
    }
}

fn path_key(path: &Path) -> u128 {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    xxhash_rust::xxh3::xxh3_128(absolute.as_os_str().as_encoded_bytes())
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

fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// The index: mark, entries of fixed size, checksum.
fn write_index(entries: &HashMap<u128, (Stamp, ContentHash)>) -> Vec<u8> {
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
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes
}

const INDEX_ENTRY: usize = 16 + 3 * 8 + 2 * 16 + 32;

/// Reads an index; `None` if it is not one.
pub fn read_index(bytes: &[u8]) -> Option<HashMap<u128, (Stamp, ContentHash)>> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    if xxhash_rust::xxh3::xxh3_64(body).to_le_bytes() != *checksum {
        return None;
    }
    let entries = body.strip_prefix(INDEX_MAGIC)?;
    if entries.len() % INDEX_ENTRY != 0 {
        return None;
    }
    let mut index = HashMap::with_capacity(entries.len() / INDEX_ENTRY);
    for entry in entries.chunks_exact(INDEX_ENTRY) {
        let number = |at: usize| entry[at..at + 8].try_into().map(u64::from_le_bytes).ok();
        let wide = |at: usize| entry[at..at + 16].try_into().map(i128::from_le_bytes).ok();
        let stamp = Stamp {
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
