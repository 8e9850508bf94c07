//! A log that many sessions share, split into packed parts of which each session loads its own.

use std::ops::Range;
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack;
use transcript::parallel::parallel_map;
use transcript::split::{SessionPart, split_sessions};
use transcript::thread::SessionLog;

/// The packed parts of a log, one behind the other: with a hundred thousand sessions, every allocation counts.
pub(super) struct SplitLog {
    bytes: Vec<u8>,
    /// Where the parts lie, in the order of their sessions.
    places: Vec<PartPlace>,
}

/// Where a part begins, and the lengths of what it holds: the session, the packed log, a byte for each record that says whether
/// another log owns it, the line hashes.
struct PartPlace {
    start: usize,
    lengths: [u32; 4],
}

impl PartPlace {
    /// Returns where one of the four lies.
    fn range(&self, at: usize) -> Range<usize> {
        let before = self.lengths[..at].iter().map(|length| *length as usize).sum::<usize>();
        let start = self.start + before;
        start..start + self.lengths[at] as usize
    }
}

impl SplitLog {
    /// Splits a log that was loaded.
    pub fn new(whole: SessionLog) -> SplitLog {
        let mut parts = split_sessions(&whole.log, whole.lines);
        parts.sort_by(|one, other| one.session.cmp(&other.session));
        let pack = |part: &SessionPart| {
            let is_copied = |record: &u32| whole.copied.get(*record as usize).copied().unwrap_or(false);
            let copied = match whole.copied.is_empty() {
                true => Vec::new(),
                false => part.records.iter().map(|record| u8::from(is_copied(record))).collect(),
            };
            (pack::pack(&part.log), copied, part.line_hashes.pack())
        };
        let packed = parallel_map(&parts, pack);
        let mut split = SplitLog {
            bytes: Vec::new(),
            places: Vec::with_capacity(parts.len()),
        };
        for (part, (log, copied, hashes)) in parts.iter().zip(&packed) {
            let pieces = [part.session.as_bytes(), log, copied, hashes];
            split.places.push(PartPlace {
                start: split.bytes.len(),
                lengths: pieces.map(|piece| piece.len() as u32),
            });
            pieces.iter().for_each(|piece| split.bytes.extend_from_slice(piece));
        }
        split.bytes.shrink_to_fit();
        split
    }

    /// Loads the part of a session.
    pub fn load(&self, session: &str, path: &str) -> SessionLog {
        let name = |place: &PartPlace| &self.bytes[place.range(0)];
        let found = self
            .places
            .binary_search_by(|place| name(place).cmp(session.as_bytes()));
        let part = found.ok().map(|at| &self.places[at]);
        let piece = |at: usize| part.map_or(&[][..], |place| &self.bytes[place.range(at)]);
        SessionLog {
            path: path.to_owned(),
            log: part.and_then(|_| pack::unpack(piece(1)).ok()).unwrap_or_else(empty_log),
            copied: piece(2).iter().map(|is_copied| *is_copied != 0).collect(),
            lines: part.and_then(|_| LineHashes::unpack(piece(3)).ok()).unwrap_or_default(),
        }
    }
}

/// Returns a log without records.
pub(super) fn empty_log() -> Log {
    Log {
        strings: vec!["".into()],
        ..Log::default()
    }
}
