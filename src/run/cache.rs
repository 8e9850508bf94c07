//! The cache: unchanged logs are not parsed twice, and an unchanged list of logs is not summed up twice.
//!
//! - A packed log and its line hashes are named by the hash of the log's content, so a log that was moved, copied or checked
//!   out again is found.
//! - The index maps the state of a file to the hash of its content, so an untouched file need not be read.
//! - The summary of a list of logs lies in a place of its own; its name is the hash of everything it depends on.
//!
//! Each build of backcast has a folder of its own, and its id is part of every name: nothing that another version computed
//! is ever used. See [`table::store`] for the form of an entry and what happens to a damaged one.

#![allow(clippy::disallowed_methods, reason = "the cache is files, and looks at their times")]

use crate::run::shared::SharedCache;
use remote::is_object_url;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};
use table::store::{EntryKind, EntryName, EntryStore};
use transcript::bytes::Compression;
use transcript::discover::{DiscoveredLog, FileStamp, LogOrigin};
use transcript::line_hashes::LineHashes;
use transcript::pack::PackedOutline;

/// Version of this build, and a hash of the sources that cached values depend on (see build.rs).
pub const BUILD_ID: &str = concat!(env!("CARGO_PKG_VERSION"), "-", env!("BACKCAST_SOURCE_HASH"));

/// Prefix of the folders of builds.
const BUILD_PREFIX: &str = "build-";

/// Builds whose folders are kept: this one and the one used before it.
const MAX_BUILDS: usize = 2;

/// A file modified this recently may be modified again within the same tick of the file system's clock, without its stamp
/// showing it. A file whose modification time was set back need not wait: a further change moves the time.
const RACY_NANOS: i128 = 2_000_000_000;

/// Place of the index.
const INDEX_FILE: &str = "index";

/// Folder of summaries, and how many are kept: enough for a user who switches between a few lists of logs.
const SUMMARIES: &str = "summaries";
const MAX_SUMMARIES: usize = 8;

/// Hash of a log's content.
pub type ContentHash = [u8; CONTENT_BYTES];

/// Length of a [`ContentHash`].
const CONTENT_BYTES: usize = 32;

/// State of each known file, and its content, by the hash of its path.
pub type FileIndex = HashMap<u128, (FileStamp, ContentHash)>;

/// What is cached of a log. Line hashes are an entry of their own, because only some commands need them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CachePart {
    /// The packed log.
    Log,
    /// Its line hashes.
    Lines,
}

impl CachePart {
    fn kind(self) -> EntryKind {
        match self {
            CachePart::Log => EntryKind::Log,
            CachePart::Lines => EntryKind::LineHashes,
        }
    }
}

/// A cache in a folder.
pub struct Cache {
    /// The folder of all builds.
    folder: PathBuf,
    /// Entries of this build.
    store: EntryStore,
    /// Folder that relative paths of logs are relative to.
    base_folder: PathBuf,
    /// The line limit is part of every name, because what the parser returns depends on it.
    max_line: u64,
    index: FileIndex,
    /// Sizes of the files in the index.
    sizes: HashSet<u64>,
    /// What machines share, if the user named it.
    shared: Option<SharedCache>,
    /// Files to add to the index.
    new_files: Mutex<Vec<(u128, FileStamp, ContentHash)>>,
}

impl Cache {
    /// Opens the cache in `folder`. A missing index is an empty one.
    pub fn open(folder: &Path, max_line: usize) -> Cache {
        let store = EntryStore::new(folder.join(format!("{BUILD_PREFIX}{BUILD_ID}")));
        let index = load_index(&store);
        Cache {
            folder: folder.to_path_buf(),
            store,
            base_folder: std::env::current_dir().unwrap_or_default(),
            max_line: max_line as u64,
            sizes: index.values().map(|(stamp, _)| stamp.size).collect(),
            index,
            shared: None,
            new_files: Mutex::default(),
        }
    }

    /// Adds a cache that machines share.
    pub fn with_shared(self, shared: Option<SharedCache>) -> Cache {
        Cache { shared, ..self }
    }

    /// Returns how many entries were damaged and had to be computed again.
    pub fn rebuilt_count(&self) -> u64 {
        self.store.damaged_count() + self.shared.as_ref().map_or(0, SharedCache::damaged_count)
    }

    /// Returns the name of an entry. The compression is part of it: the same bytes are another log if the file name says that
    /// they are compressed.
    fn entry_name(&self, content: &ContentHash, compression: Compression, part: CachePart) -> EntryName {
        let mut hasher = self.name_hasher(part.kind());
        hasher.update(content).update(&[compression as u8]);
        EntryName::new(*hasher.finalize().as_bytes())
    }

    /// Returns a hasher of what every name depends on.
    fn name_hasher(&self, kind: EntryKind) -> blake3::Hasher {
        let mut hasher = blake3::Hasher::new();
        hasher
            .update(BUILD_ID.as_bytes())
            .update(kind.mark())
            .update(&self.max_line.to_le_bytes());
        hasher
    }

    /// Returns a part of the log with this content, packed; `None` if it is not cached.
    pub fn get(&self, content: &ContentHash, compression: Compression, part: CachePart) -> Option<Vec<u8>> {
        let name = self.entry_name(content, compression, part);
        let packed = self.store.read(part.kind(), &name)?;
        // A log that cannot be unpacked is parsed again when that turns out; line hashes would silently be missing.
        if part == CachePart::Lines && LineHashes::unpack(&packed).is_err() {
            self.store.note_damaged();
            return None;
        }
        Some(packed)
    }

    /// Returns a part of a log in an object store, and the hash of the log's content, from the cache that machines share.
    pub fn get_shared(&self, found: &DiscoveredLog, part: CachePart) -> Option<(ContentHash, Vec<u8>)> {
        let shared = self.shared.as_ref().filter(|_| has_object_name(found))?;
        let mut body = shared.read(part.kind(), &self.object_name(found, part))?;
        let content = body.first_chunk::<CONTENT_BYTES>().copied();
        let packed = body.split_off(body.len().min(CONTENT_BYTES));
        // A checksum is no proof: entries come from other machines.
        let is_usable = match part {
            CachePart::Log => PackedOutline::read(&packed).is_ok(),
            CachePart::Lines => LineHashes::unpack(&packed).is_ok(),
        };
        match content.filter(|_| is_usable) {
            Some(content) => Some((content, packed)),
            None => {
                shared.note_damaged();
                None
            }
        }
    }

    /// Shares a part of a log in an object store with other machines.
    pub fn put_shared(&self, found: &DiscoveredLog, content: ContentHash, part: CachePart, packed: &[u8]) {
        if let Some(shared) = self.shared.as_ref().filter(|_| has_object_name(found)) {
            let body = [&content[..], packed].concat();
            shared.write(part.kind(), &self.object_name(found, part), &body);
        }
    }

    /// Returns the name of an entry that is shared. A machine knows it as soon as the object is listed.
    fn object_name(&self, found: &DiscoveredLog, part: CachePart) -> EntryName {
        let path = found.path.as_os_str().as_encoded_bytes();
        let mut hasher = self.name_hasher(part.kind());
        hasher
            .update(&(path.len() as u64).to_le_bytes())
            .update(path)
            .update(&found.stamp.size.to_le_bytes())
            .update(&found.stamp.changed.to_le_bytes())
            .update(&[found.packing as u8]);
        EntryName::new(*hasher.finalize().as_bytes())
    }

    /// Waits until all that is shared is written. Returns why the shared cache could not be used; `None` if it could.
    pub fn finish_sharing(&self) -> Option<String> {
        self.shared.as_ref()?.finish()
    }

    /// Stores a part of a log whose file [`is_settled`]. A failure to write costs time later and nothing else.
    pub fn put(&self, found: &DiscoveredLog, content: ContentHash, part: CachePart, packed: &[u8]) {
        let name = self.entry_name(&content, found.packing, part);
        if self.store.write(part.kind(), &name, packed).is_ok() {
            self.remember_hash(found, content);
        }
    }

    /// Returns the hash of a file's content; `None` if the content cannot be known to the cache. A file with another stamp and
    /// a known size is read and hashed, because often only its times have changed.
    pub fn content_hash(&self, found: &DiscoveredLog) -> Option<ContentHash> {
        let (known, is_file) = (self.index.get(&self.path_key(found)), is_file(found));
        if let Some((_, content)) = known.filter(|(stamp, _)| *stamp == index_stamp(found)) {
            return Some(*content);
        }
        // Hashing what lies elsewhere means fetching it, and then it may as well be parsed.
        if !is_file || !self.sizes.contains(&found.stamp.size) {
            return None;
        }
        let content = hash_file(&found.path, found.stamp.size).ok()?;
        if is_settled(found) {
            self.remember_hash(found, content);
        }
        Some(content)
    }

    /// Returns the name of the summary of logs with these contents; `None` if one of them is not known. Paths are part of it,
    /// because problems name them.
    pub fn summary_name(&self, logs: &[DiscoveredLog], contents: &[Option<ContentHash>]) -> Option<EntryName> {
        let mut hasher = self.name_hasher(EntryKind::Summary);
        // Hashed in one piece: many small updates are slow.
        let mut named = Vec::with_capacity(logs.len() * 128);
        for (log, content) in std::iter::zip(logs, contents) {
            let path = log.path.as_os_str().as_encoded_bytes();
            named.extend_from_slice(&(path.len() as u64).to_le_bytes());
            named.extend_from_slice(path);
            named.extend_from_slice(&(*content)?);
        }
        Some(EntryName::new(*hasher.update(&named).finalize().as_bytes()))
    }

    /// Returns the place of the summary of a list of logs. A new summary replaces the one from before a log changed.
    fn summary_place(logs: &[DiscoveredLog]) -> PathBuf {
        let mut hasher = xxhash_rust::xxh3::Xxh3Default::new();
        for log in logs {
            hasher.update(log.path.as_os_str().as_encoded_bytes());
            hasher.update(&[0]);
        }
        Path::new(SUMMARIES).join(format!("{:032x}", hasher.digest128()))
    }

    /// Returns the summary of a list of logs if it has this name and `read` accepts it.
    pub fn get_summary<T>(
        &self,
        logs: &[DiscoveredLog],
        name: &EntryName,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Option<T> {
        let body = self
            .store
            .read_at(&Cache::summary_place(logs), EntryKind::Summary, name)?;
        let summary = read(&body);
        if summary.is_none() {
            self.store.note_damaged();
        }
        summary
    }

    /// Stores the summary of a list of logs and removes the oldest if there are too many. A failure costs time or space and
    /// nothing else.
    pub fn put_summary(&self, logs: &[DiscoveredLog], name: &EntryName, summary: &[u8]) {
        let place = Cache::summary_place(logs);
        let _ = self.store.write_at(&place, EntryKind::Summary, name, summary);
        for path in newest_first(&self.store.folder().join(SUMMARIES), "", |path| path.to_owned())
            .iter()
            .skip(MAX_SUMMARIES)
        {
            let _ = fs::remove_file(path);
        }
    }

    fn path_key(&self, found: &DiscoveredLog) -> u128 {
        // An absolute path replaces the base folder, and a URL is the same from every folder.
        let path = match is_file(found) {
            true => Cow::Owned(self.base_folder.join(&found.path)),
            false => Cow::Borrowed(&found.path),
        };
        xxhash_rust::xxh3::xxh3_128(path.as_os_str().as_encoded_bytes())
    }

    fn remember_hash(&self, found: &DiscoveredLog, content: ContentHash) {
        if let Ok(mut files) = self.new_files.lock() {
            files.push((self.path_key(found), index_stamp(found), content));
        }
    }

    /// Writes the index if there are new files, merged with what other processes wrote meanwhile. Removes entries of contents
    /// that no file has any more, and folders of old builds.
    pub fn close(self) {
        let new_files = self.new_files.lock().map(|files| files.clone()).unwrap_or_default();
        if new_files.is_empty() {
            return;
        }
        let mut index = load_index(&self.store);
        let mut replaced = Vec::new();
        for (key, stamp, content) in new_files {
            let before = index.insert(key, (stamp, content));
            replaced.extend(before.map(|(_, content)| content).filter(|before| *before != content));
        }
        let body = write_index(&index);
        if self
            .store
            .write_at(Path::new(INDEX_FILE), EntryKind::Index, &index_name(), &body)
            .is_err()
        {
            return;
        }
        let used = index.values().map(|(_, content)| *content).collect::<HashSet<_>>();
        for content in replaced.iter().filter(|content| !used.contains(*content)) {
            for compression in Compression::ALL {
                for part in [CachePart::Log, CachePart::Lines] {
                    self.store.remove(&self.entry_name(content, compression, part));
                }
            }
        }
        self.remove_old_builds();
    }

    /// Removes the folders of all builds but the last few. Only folders with the name and the index of a build are touched.
    fn remove_old_builds(&self) {
        let builds = newest_first(&self.folder, BUILD_PREFIX, |build| build.join(INDEX_FILE));
        let others = builds.iter().filter(|build| *build != self.store.folder());
        for build in others.skip(MAX_BUILDS - 1) {
            let _ = fs::remove_dir_all(build);
        }
    }
}

/// Returns what lies in a folder under names with a prefix, newest first by the modification time of the file that `dated`
/// names. Entries without such a file are left out.
fn newest_first(folder: &Path, prefix: &str, dated: impl Fn(&Path) -> PathBuf) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found = entries
        .filter(|entry| entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()))
        .filter_map(|entry| {
            let path = entry.path();
            let time = fs::metadata(dated(&path)).and_then(|found| found.modified()).ok()?;
            Some((time, path))
        })
        .collect::<Vec<_>>();
    found.sort_unstable_by(|one, other| other.cmp(one));
    found.into_iter().map(|(_, path)| path).collect()
}

/// Returns whether a file is still as it was found and would show any further change in its stamp. The index must not hold
/// other files; and logs that are still being written would leave an entry behind at every run.
pub fn is_settled(found: &DiscoveredLog) -> bool {
    if !is_file(found) {
        // What is read of an object is what its entity tag says, and a change gives it another one.
        return found.stamp.changed != 0;
    }
    let is_unchanged =
        fs::metadata(&found.path).is_ok_and(|metadata| FileStamp::from_metadata(&metadata) == found.stamp);
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |now| now.as_nanos() as i128);
    is_unchanged && now - found.stamp.modified >= RACY_NANOS
}

/// Whether a log is an object whose entity tag is known. An empty one is not worth a request.
fn has_object_name(found: &DiscoveredLog) -> bool {
    !is_file(found) && is_object_url(&found.path) && found.stamp.changed != 0 && found.stamp.size > 0
}

fn is_file(found: &DiscoveredLog) -> bool {
    matches!(found.origin, LogOrigin::File)
}

/// Returns the state of a log as the index knows it. An object that was written again with the same entity tag is the same.
fn index_stamp(found: &DiscoveredLog) -> FileStamp {
    match is_file(found) {
        true => found.stamp,
        false => FileStamp {
            modified: 0,
            ..found.stamp
        },
    }
}

/// Returns the hash of the first `size` bytes of a file.
pub fn hash_file(path: &Path, size: u64) -> io::Result<ContentHash> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(fs::File::open(path)?.take(size))?;
    if hasher.count() != size {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(*hasher.finalize().as_bytes())
}

fn index_name() -> EntryName {
    EntryName::new(*blake3::hash(BUILD_ID.as_bytes()).as_bytes())
}

fn load_index(store: &EntryStore) -> FileIndex {
    let body = store.read_at(Path::new(INDEX_FILE), EntryKind::Index, &index_name());
    body.and_then(|body| read_index(&body)).unwrap_or_default()
}

/// Returns the body of the index: entries of fixed size, sorted.
pub fn write_index(index: &FileIndex) -> Vec<u8> {
    let mut sorted = index.iter().collect::<Vec<_>>();
    sorted.sort_unstable_by_key(|(key, _)| **key);
    let mut bytes = Vec::with_capacity(sorted.len() * INDEX_ENTRY);
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
    bytes
}

const INDEX_ENTRY: usize = 16 + 3 * 8 + 2 * 16 + 32;

/// Reads the body of an index; `None` if it is not one.
pub fn read_index(bytes: &[u8]) -> Option<FileIndex> {
    let (entries, rest) = bytes.as_chunks::<INDEX_ENTRY>();
    if !rest.is_empty() {
        return None;
    }
    let mut index = HashMap::with_capacity(entries.len());
    for entry in entries {
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
