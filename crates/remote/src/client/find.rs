//! Finds logs in buckets, by the rules of files: a URL is a log, a prefix, which stands for everything below it, or a pattern.

use crate::client::reader::ObjectLog;
use crate::client::{Bucket, ObjectStores, read_range};
use crate::{ListedObject, ObjectUrl, RemoteError};
use futures_util::StreamExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use transcript::agents::SNIFFED_BYTES;
use transcript::bytes::{Compression, SourceFault, decode_start};
use transcript::discover::{
    DiscoveredLog, Discovery, FileStamp, LogOrigin, PathPattern, is_pattern, is_session_export,
};
use transcript::problem::ProblemKind;
use xxhash_rust::xxh3::xxh3_128;

/// Bytes that are fetched of a JSON document to see whether it is a session: enough for [`SNIFFED_BYTES`] if it is packed.
const HEAD_BYTES: u64 = 16 << 10;

/// Documents that are looked at at the same time.
const HEADS_AT_ONCE: usize = 32;

impl ObjectStores {
    /// Searches all `roots`, which are some of `named` that the user named. `progress` is called with how many more objects were
    /// listed.
    pub fn find(&self, roots: &[PathBuf], named: usize, progress: &dyn Fn(u64)) -> Result<Discovery, RemoteError> {
        let mut found = Discovery::default();
        for root in roots {
            let url = ObjectUrl::parse(root)?;
            let mut search = RootSearch {
                bucket: self.bucket(&url)?,
                url,
                progress,
                found: Discovery::default(),
                documents: Vec::new(),
            };
            search.run()?;
            if named > 1 && search.found.logs.is_empty() && search.found.problems.is_empty() {
                search.found.add_problem(root, ProblemKind::NoLogs, "");
            }
            found.logs.extend(search.found.logs);
            found.problems.extend(search.found.problems);
        }
        found.sort();
        found.logs.dedup_by(|one, other| one.path == other.path);
        Ok(found)
    }
}

struct RootSearch<'s> {
    url: ObjectUrl,
    bucket: Arc<Bucket>,
    progress: &'s dyn Fn(u64),
    found: Discovery,
    /// JSON documents, which may be sessions.
    documents: Vec<ListedObject>,
}

impl RootSearch<'_> {
    fn run(&mut self) -> Result<(), RemoteError> {
        let key = self.url.key.clone();
        // What is named is a log whatever its name, even if that looks like a pattern.
        if !key.is_empty()
            && let Some(object) = self.bucket.look_up(&key).map_err(|fault| self.failure(fault))?
        {
            let packing = Compression::from_path(Path::new(&key)).unwrap_or(Compression::Plain);
            self.add(object, packing);
            return Ok(());
        }
        let listed = if is_pattern(Path::new(&key)) {
            let pattern = PathPattern::parse(Path::new(&key))?;
            let start = pattern.start.to_string_lossy().into_owned();
            self.list(&start, &|key| pattern.takes(Path::new(key)))?
        } else {
            self.list(&key, &|_| true)?
        };
        if listed == 0 && !key.is_empty() && self.found.problems.is_empty() {
            return Err(RemoteError::Missing(self.url.to_string()));
        }
        self.look_into_documents();
        Ok(())
    }

    fn failure(&self, fault: SourceFault) -> RemoteError {
        RemoteError::Request {
            url: self.url.to_string(),
            fault,
            variables: self.url.scheme.variables(),
        }
    }

    /// Lists everything below a prefix. Returns how many objects there are.
    fn list(&mut self, prefix: &str, wanted: &dyn Fn(&str) -> bool) -> Result<u64, RemoteError> {
        let (bucket, mut count) = (Arc::clone(&self.bucket), 0);
        let left_out = bucket.list(prefix, &mut |object| {
            count += 1;
            (self.progress)(1);
            let path = Path::new(&object.key);
            match Compression::from_path(path).filter(|_| wanted(&object.key)) {
                Some(_) if Compression::is_document(path) => self.documents.push(object),
                Some(packing) => self.add(object, packing),
                None => {}
            }
        });
        for name in left_out.map_err(|fault| self.failure(fault))? {
            count += 1;
            // Markers of folders end with a slash.
            if Compression::from_path(Path::new(&name)).is_some() && !name.ends_with('/') {
                let why = "its name has a control character or an empty or relative segment";
                let path = self.url.path_of(&name);
                self.found.add_problem(&path, ProblemKind::Unreadable, why);
            }
        }
        Ok(count)
    }

    fn add(&mut self, object: ListedObject, packing: Compression) {
        let stamp = FileStamp {
            size: object.size,
            modified: object.modified,
            // The entity tag says when an object changed.
            changed: object.tag.as_deref().map_or(0, |tag| xxh3_128(tag.as_bytes()) as i128),
            ..FileStamp::default()
        };
        self.found.logs.push(DiscoveredLog {
            path: self.url.path_of(&object.key),
            packing,
            stamp,
            origin: LogOrigin::Source(Arc::new(ObjectLog {
                bucket: Arc::clone(&self.bucket),
                object,
            })),
        });
    }

    /// Adds the documents that are sessions. One that cannot be looked at is a problem: it may be one.
    fn look_into_documents(&mut self) {
        let documents = std::mem::take(&mut self.documents);
        let store = self.bucket.store.as_ref();
        let heads = documents
            .iter()
            .map(|object| read_range(store, object, 0..object.size.min(HEAD_BYTES)));
        let heads = futures_util::stream::iter(heads)
            .buffered(HEADS_AT_ONCE)
            .collect::<Vec<_>>();
        let heads = self.bucket.runtime.block_on(heads);
        for (object, head) in std::iter::zip(documents, heads) {
            let packing = Compression::from_path(Path::new(&object.key)).unwrap_or(Compression::Plain);
            match head {
                Ok(head) => {
                    let start = decode_start(head.as_slice(), packing, SNIFFED_BYTES);
                    if start.is_ok_and(|start| is_session_export(&start)) {
                        self.add(object, packing);
                    }
                }
                Err(fault) => {
                    let kind = match fault {
                        SourceFault::Changed => ProblemKind::Changed,
                        SourceFault::Refused(_) => ProblemKind::Unreadable,
                        SourceFault::Undelivered(_) => ProblemKind::NotDelivered,
                    };
                    let path = self.url.path_of(&object.key);
                    self.found.add_problem(&path, kind, fault.to_string());
                }
            }
        }
    }
}
