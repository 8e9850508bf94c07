//! What a reader of Codex holds until it knows more: records without usage, boundaries without their turn.

use crate::agents::canonical::{BoundaryFacts, SourcePlace};

/// A record that waits for the usage of its response.
#[derive(Default)]
pub(super) struct HeldRecord {
    pub place: SourcePlace,
    pub time: Vec<u8>,
    pub uuid: u128,
    pub content: Vec<u8>,
    pub kind: HeldKind,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HeldKind {
    Response { has_calls: bool },
    User { is_meta: bool },
}

impl Default for HeldKind {
    fn default() -> Self {
        HeldKind::User { is_meta: false }
    }
}

/// Capacity that the buffer of a written record may keep.
const MAX_SPARE_BYTES: usize = 64 << 10;

/// Written records that are kept: few responses have more.
const MAX_SPARE_RECORDS: usize = 32;

/// A boundary that waits for what follows it, which shows who asked for it.
pub(super) struct HeldBoundary {
    pub place: SourcePlace,
    pub time: Vec<u8>,
    pub uuid: u128,
    pub facts: BoundaryFacts,
    pub summary: Vec<u8>,
    /// Whether its turn had anything else.
    pub is_in_turn: bool,
}

/// Written records whose buffers are used again: most of the time would else go into allocating them.
#[derive(Default)]
pub(super) struct RecordPool(Vec<HeldRecord>);

impl RecordPool {
    /// Returns a record to fill, without content.
    pub fn take(&mut self, time: &[u8], place: SourcePlace) -> HeldRecord {
        let mut record = self.0.pop().unwrap_or_default();
        record.content.clear();
        record.time.clear();
        record.time.extend_from_slice(time);
        record.place = place;
        record
    }

    /// Takes a record back.
    pub fn put(&mut self, record: HeldRecord) {
        if self.0.len() < MAX_SPARE_RECORDS && record.content.capacity() <= MAX_SPARE_BYTES {
            self.0.push(record);
        }
    }
}
