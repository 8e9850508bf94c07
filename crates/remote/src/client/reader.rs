//! An object that is read like a file: from start to end, in pieces of which some are always on their way.

use crate::ListedObject;
use crate::client::{Bucket, read_range};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::JoinHandle;
use transcript::bytes::{ByteSource, OpenBytes, SourceFault};

/// Bytes of a piece: a request costs a few milliseconds, and a piece is what has to come anew after a fault.
const PIECE_BYTES: u64 = 2 << 20;

/// Pieces that are on their way while one is read.
const PIECES_AHEAD: u64 = 3;

/// A piece on its way.
type FetchingPiece = JoinHandle<Result<Vec<u8>, SourceFault>>;

/// A log in a bucket.
#[derive(Debug)]
pub(super) struct ObjectLog {
    pub bucket: Arc<Bucket>,
    pub object: ListedObject,
}

impl ByteSource for ObjectLog {
    fn open(&self) -> io::Result<Box<dyn OpenBytes>> {
        Ok(Box::new(ObjectReader {
            bucket: Arc::clone(&self.bucket),
            object: Arc::new(self.object.clone()),
            state: Mutex::default(),
        }))
    }

    fn is_remote(&self) -> bool {
        true
    }
}

/// A log that is read.
struct ObjectReader {
    bucket: Arc<Bucket>,
    object: Arc<ListedObject>,
    state: Mutex<ReaderState>,
}

#[derive(Default)]
struct ReaderState {
    /// Number and content of the piece that is read.
    current: Option<(u64, Vec<u8>)>,
    /// Numbers of the pieces that follow, and who fetches them.
    ahead: VecDeque<(u64, FetchingPiece)>,
    /// Hash of all bytes up to a position, as long as they are read in order.
    hasher: blake3::Hasher,
}

impl ReaderState {
    /// Gives up what is on its way.
    fn stop(&mut self) {
        for (_, fetching) in self.ahead.drain(..) {
            fetching.abort();
        }
    }
}

impl Drop for ReaderState {
    fn drop(&mut self) {
        self.stop();
    }
}

impl ObjectReader {
    fn piece_count(&self) -> u64 {
        self.object.size.div_ceil(PIECE_BYTES)
    }

    /// Starts to fetch a piece.
    fn fetch(&self, number: u64) -> FetchingPiece {
        let (store, object) = (Arc::clone(&self.bucket.store), Arc::clone(&self.object));
        let start = number * PIECE_BYTES;
        let range = start..object.size.min(start + PIECE_BYTES);
        let fetching = async move { read_range(store.as_ref(), &object, range).await };
        self.bucket.runtime.spawn(fetching)
    }

    /// Waits for a piece, and sees to it that those after it are on their way.
    fn load(&self, state: &mut ReaderState, number: u64) -> io::Result<()> {
        if state.ahead.front().is_none_or(|(first, _)| *first != number) {
            state.stop();
            state.ahead.push_back((number, self.fetch(number)));
        }
        let Some((_, fetching)) = state.ahead.pop_front() else {
            return Err(io::Error::other("no piece is on its way"));
        };
        let last = self.piece_count().min(number + 1 + PIECES_AHEAD);
        let next = state.ahead.back().map_or(number + 1, |(last, _)| last + 1);
        for later in next..last {
            state.ahead.push_back((later, self.fetch(later)));
        }
        let fetched = self.bucket.runtime.block_on(fetching).map_err(io::Error::other)?;
        let piece = fetched.inspect_err(|_| state.stop())?;
        if state.hasher.count() == number * PIECE_BYTES {
            state.hasher.update(&piece);
        }
        state.current = Some((number, piece));
        Ok(())
    }
}

impl OpenBytes for ObjectReader {
    fn size(&self) -> u64 {
        self.object.size
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if at >= self.object.size || buffer.is_empty() {
            return Ok(0);
        }
        let number = at / PIECE_BYTES;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.current.as_ref().is_none_or(|(current, _)| *current != number) {
            self.load(&mut state, number)?;
        }
        let piece = state.current.as_ref().map_or(&[][..], |(_, piece)| piece);
        let rest = piece.get((at % PIECE_BYTES) as usize..).unwrap_or_default();
        let read = rest.len().min(buffer.len());
        buffer[..read].copy_from_slice(&rest[..read]);
        Ok(read)
    }

    fn is_sequential(&self) -> bool {
        true
    }

    fn content_hash(&self) -> Option<[u8; 32]> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_whole = state.hasher.count() == self.object.size;
        is_whole.then(|| *state.hasher.finalize().as_bytes())
    }
}
