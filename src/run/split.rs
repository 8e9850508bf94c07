//! A log that many sessions share, split into packed parts of which each session loads its own.

use std::collections::HashMap;
use transcript::line_hashes::LineHashes;
use transcript::log::Log;
use transcript::pack;
use transcript::parallel::parallel_map;
use transcript::split::{SessionPart, split_sessions};
use transcript::thread::SessionLog;

/// The packed parts of a log, by session.
pub(super) struct SplitLog(HashMap<String, PackedPart>);

struct PackedPart {
    log: Vec<u8>,
    /// Whether another log owns a record; empty if none is copied.
    copied: Vec<bool>,
    line_hashes: Vec<u8>,
}

impl SplitLog {
    /// Splits a log that was loaded.
    pub fn new(whole: SessionLog) -> SplitLog {
        let parts = split_sessions(&whole.log, whole.lines);
        let pack = |part: &SessionPart| {
            let is_copied = |record: &u32| whole.copied.get(*record as usize).copied().unwrap_or(false);
            let copied = part.records.iter().map(is_copied);
            PackedPart {
                log: pack::pack(&part.log),
                copied: if whole.copied.is_empty() {
                    Vec::new()
                } else {
                    copied.collect()
                },
                line_hashes: part.line_hashes.pack(),
            }
        };
        let packed = parallel_map(&parts, pack);
        SplitLog(parts.into_iter().map(|part| part.session).zip(packed).collect())
    }

    /// Loads the part of a session.
    pub fn load(&self, session: &str, path: &str) -> SessionLog {
        let part = self.0.get(session);
        SessionLog {
            path: path.to_owned(),
            log: part
                .and_then(|part| pack::unpack(&part.log).ok())
                .unwrap_or_else(empty_log),
            copied: part.map(|part| part.copied.clone()).unwrap_or_default(),
            lines: part
                .and_then(|part| LineHashes::unpack(&part.line_hashes).ok())
                .unwrap_or_default(),
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
