//! The shared cache: what machines made of logs in object stores, under a prefix of a bucket that all of them read and fill.
//!
//! An entry is named by the build, the URL of the log and its entity tag, so a machine that never saw the log finds it after
//! listing. It is sealed like an entry of the cache on disk and believed as little: one that is damaged, cut off or in the place
//! of another counts as missing and is written again. Machines that write the same entry write the same bytes, and a store
//! replaces an object whole, so they need no lock.
//!
//! A request that fails ends the use of the shared cache for the rest of the run, which then reads the logs themselves. It never
//! changes a result.

#![allow(
    clippy::disallowed_methods,
    reason = "threads that wait for other machines are none of the pool's"
)]

use crate::run::cache::BUILD_ID;
use crate::run::remote::check_roots;
use anyhow::{Context, Result, bail};
use remote::{Bucket, ObjectStores, ObjectUrl, is_object_url};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use table::store::{EntryKind, EntryName, open_entry, seal_entry};

/// Threads that write, and entries that wait for one of them.
const WRITERS: usize = 16;
const MAX_WAITING: usize = 64;

/// A bigger entry is not shared: a machine would hold several of them at once. That of a log of a gigabyte has a fourth of it.
const MAX_ENTRY_BYTES: usize = 64 << 20;

/// Entries under a prefix.
pub struct SharedCache {
    place: Arc<SharedPlace>,
    damaged: AtomicU64,
    /// Started with the first entry that is written.
    writers: Mutex<Option<EntryWriters>>,
}

/// Where entries are, and whether they can be had.
struct SharedPlace {
    url: ObjectUrl,
    bucket: Arc<Bucket>,
    /// What went wrong first.
    failure: OnceLock<String>,
}

/// An entry that is to be written: the name of its object, and its bytes.
type WaitingEntry = (String, Vec<u8>);

/// Threads that write entries while logs are parsed.
struct EntryWriters {
    sender: SyncSender<WaitingEntry>,
    threads: Vec<JoinHandle<()>>,
}

impl SharedCache {
    /// Checks what was named as the place of a shared cache. What may hold a secret is not repeated.
    pub fn check(url: &Path) -> Result<()> {
        if !is_object_url(url) {
            bail!(
                "--shared-cache: not the prefix of a bucket\n  hint: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            );
        }
        let url = ObjectUrl::parse(url).context("--shared-cache")?;
        if !remote::HAS_CLIENT {
            bail!("--shared-cache {url}: {}", remote::NO_CLIENT);
        }
        Ok(())
    }

    /// Opens the cache under a prefix. Nothing is sent yet.
    pub fn open(url: &Path) -> Result<SharedCache> {
        check_roots(&[url.to_path_buf()])?;
        let url = ObjectUrl::parse(url)?;
        let bucket = ObjectStores::start()?.bucket(&url)?;
        Ok(SharedCache {
            place: Arc::new(SharedPlace {
                url,
                bucket,
                failure: OnceLock::new(),
            }),
            damaged: AtomicU64::new(0),
            writers: Mutex::default(),
        })
    }

    /// Returns the body of an entry; `None` if there is none that can be used.
    pub fn read(&self, kind: EntryKind, name: &EntryName) -> Option<Vec<u8>> {
        if self.place.failure.get().is_some() {
            return None;
        }
        match self
            .place
            .bucket
            .read_small(&self.place.key(name), MAX_ENTRY_BYTES as u64)
        {
            Ok(found) => {
                let body = open_entry(kind, name, found?);
                if body.is_none() {
                    self.note_damaged();
                }
                body
            }
            Err(fault) => {
                self.place.failure.get_or_init(|| fault.to_string());
                None
            }
        }
    }

    /// Writes an entry, later: who calls this waits only if too many entries wait already.
    pub fn write(&self, kind: EntryKind, name: &EntryName, body: &[u8]) {
        if self.place.failure.get().is_some() {
            return;
        }
        let entry = seal_entry(kind, name, body);
        if entry.len() > MAX_ENTRY_BYTES {
            return;
        }
        let sender = self
            .lock_writers()
            .get_or_insert_with(|| EntryWriters::start(&self.place))
            .sender
            .clone();
        // The channel is closed once all writers have panicked. An entry that is not written costs time and nothing else.
        let _ = sender.send((self.place.key(name), entry));
    }

    /// Counts an entry that is sealed rightly and still of no use.
    pub fn note_damaged(&self) {
        self.damaged.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how many entries were found damaged.
    pub fn damaged_count(&self) -> u64 {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Waits until all entries are written. Returns in one line why the cache could not be used to the end; `None` if it could.
    pub fn finish(&self) -> Option<String> {
        let writers = self.lock_writers().take();
        if let Some(EntryWriters { sender, threads }) = writers {
            drop(sender);
            for thread in threads {
                let _ = thread.join();
            }
        }
        let failure = self.place.failure.get()?;
        Some(format!("the shared cache {}: {failure}", self.place.url))
    }

    fn lock_writers(&self) -> MutexGuard<'_, Option<EntryWriters>> {
        self.writers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SharedPlace {
    /// Returns the name of the object that holds an entry.
    fn key(&self, name: &EntryName) -> String {
        let start = match self.url.key.as_str() {
            "" => String::new(),
            prefix => format!("{prefix}/"),
        };
        let name = name.to_string();
        let (head, rest) = name.split_at(2);
        format!("{start}build-{BUILD_ID}/{head}/{rest}")
    }

    /// Writes entries until there are no more. After a failure they are dropped, so that who hands them on does not wait.
    fn write_all(&self, receiver: &Mutex<Receiver<WaitingEntry>>) {
        while let Some((key, entry)) = receive(receiver) {
            if self.failure.get().is_some() {
                continue;
            }
            if let Err(fault) = self.bucket.write(&key, entry) {
                self.failure.get_or_init(|| fault.to_string());
            }
        }
    }
}

impl EntryWriters {
    fn start(place: &Arc<SharedPlace>) -> EntryWriters {
        let (sender, receiver) = sync_channel(MAX_WAITING);
        let receiver = Arc::new(Mutex::new(receiver));
        let start = |_| {
            let (place, receiver) = (Arc::clone(place), Arc::clone(&receiver));
            std::thread::spawn(move || place.write_all(&receiver))
        };
        EntryWriters {
            sender,
            threads: (0..WRITERS).map(start).collect(),
        }
    }
}

/// Waits for the next entry; `None` once there are no more.
fn receive<T>(receiver: &Mutex<Receiver<T>>) -> Option<T> {
    receiver.lock().unwrap_or_else(PoisonError::into_inner).recv().ok()
}
