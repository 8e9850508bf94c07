//! Counts of lines by record type.

use super::{LogBuilder, raw_bytes};
use crate::log::RecordKind;
use crate::record::WireRecord;

/// Number of record types that are counted without formatting their name.
pub(super) const MAX_INDEXED_KINDS: usize = 64;

impl LogBuilder {
    /// Counts a record of a type that is not used otherwise.
    pub fn count_kind(&mut self, kind: &str) {
        let name = self.intern(kind);
        *self.kinds.entry(name).or_insert(0) += 1;
    }

    #[inline(never)]
    pub(super) fn count_other_kind(&mut self, record: &WireRecord<'_>) {
        let mut buffer = std::mem::take(&mut self.buffer);
        self.count_kind(record.kind.map_or("(none)", |kind| kind.decode(&mut buffer)));
        self.buffer = buffer;
    }

    pub(super) fn count_known_kind(&mut self, kind: RecordKind, record: &WireRecord<'_>) {
        let detail = raw_bytes(record.subtype.or(record.attachment));
        // Most records have no subtype; comparing empty slices would still call `memcmp`.
        let is_it = |text: &[u8]| text.len() == detail.len() && (detail.is_empty() || text == detail);
        let known = self
            .kind_names
            .iter_mut()
            .find(|(known, text, ..)| *known == kind && is_it(text));
        match known {
            Some((.., count)) => *count += 1,
            None => self.add_kind(kind, record),
        }
    }

    #[cold]
    fn add_kind(&mut self, kind: RecordKind, record: &WireRecord<'_>) {
        let family = match kind {
            RecordKind::User => "user",
            RecordKind::Assistant => "assistant",
            RecordKind::System | RecordKind::TurnEnd | RecordKind::Boundary | RecordKind::MicroBoundary => "system",
            RecordKind::Progress => "progress",
            RecordKind::Attachment => "attachment",
            RecordKind::Other => "(none)",
        };
        let detail = record.subtype.or(record.attachment);
        let mut buffer = String::new();
        let name = match detail {
            None => self.intern(family),
            Some(detail) => self.intern(&format!("{family}/{}", detail.decode(&mut buffer))),
        };
        if self.kind_names.len() < MAX_INDEXED_KINDS {
            self.kind_names.push((kind, raw_bytes(detail).to_vec(), name, 1));
        } else {
            *self.kinds.entry(name).or_insert(0) += 1;
        }
    }

    /// Moves the counts of record types into the map of all kinds.
    pub(super) fn merge_kind_counts(&mut self) {
        for (_, _, name, count) in self.kind_names.drain(..) {
            *self.kinds.entry(name).or_insert(0) += count;
        }
    }
}
