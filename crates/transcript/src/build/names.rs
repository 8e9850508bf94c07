//! Interning of strings, and record ids.

use super::LogBuilder;
use crate::json::JsonStr;
use crate::log::{NameId, RecordId};
use crate::paths::normalize;

/// Returns whether two ids have the same text. Nearly every record compares two, so the comparison is inlined as a few
/// word loads; comparing slices or arrays would call `memcmp`.
#[inline]
pub(super) fn is_same_id(one: &[u8; 36], other: &[u8; 36]) -> bool {
    let words = |id: &[u8; 36]| {
        [0, 8, 16, 24, 28].map(|at: usize| u64::from_ne_bytes(std::array::from_fn(|byte| id[at + byte])))
    };
    let pairs = std::iter::zip(words(one), words(other));
    pairs.fold(0, |differing, (word, other)| differing | (word ^ other)) == 0
}

impl LogBuilder {
    /// Returns the number of a string, which is added if it is new.
    pub(super) fn intern(&mut self, text: &str) -> NameId {
        let mut hash = xxhash_rust::xxh3::xxh3_64(text.as_bytes());
        while let Some(&name) = self.names.get(&hash) {
            if &*self.log.strings[name as usize] == text {
                return name;
            }
            hash = hash.wrapping_add(1);
        }
        self.intern_new(text, hash)
    }

    #[cold]
    fn intern_new(&mut self, text: &str, hash: u64) -> NameId {
        let name = self.log.strings.len() as NameId;
        self.log.strings.push(text.into());
        self.names.insert(hash, name);
        name
    }

    pub(super) fn intern_text(&mut self, text: Option<JsonStr<'_>>) -> NameId {
        let Some(text) = text else { return 0 };
        // Models, tools and versions repeat from record to record, so the last few names are compared before hashing.
        let recent = self
            .recent_names
            .iter()
            .find(|name| self.log.strings[**name as usize].as_bytes() == text.raw());
        match recent {
            Some(&name) => name,
            None => self.intern_uncached(text),
        }
    }

    /// Interns a text that is not among the recent names.
    #[inline(never)]
    fn intern_uncached(&mut self, text: JsonStr<'_>) -> NameId {
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = text.decode(&mut buffer);
        let is_plain = decoded.as_bytes() == text.raw();
        let name = self.intern(decoded);
        self.buffer = buffer;
        if is_plain {
            self.recent_names.rotate_right(1);
            self.recent_names[0] = name;
        }
        name
    }

    pub(super) fn parse_id(&mut self, text: Option<JsonStr<'_>>) -> Option<RecordId> {
        // An empty id means none.
        let text = text.filter(|text| !text.raw().is_empty())?;
        if let Some((known, id)) = &self.recent_id
            && text.raw().try_into().is_ok_and(|written| is_same_id(written, known))
        {
            return Some(*id);
        }
        Some(match RecordId::read(text.raw()) {
            (id, true) => id,
            (_, false) => self.parse_odd_id(text),
        })
    }

    /// Hashes an id that is not a UUID, and keeps its text in [`Log::odd_ids`](crate::log::Log::odd_ids).
    #[cold]
    fn parse_odd_id(&mut self, text: JsonStr<'_>) -> RecordId {
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = text.decode(&mut buffer);
        let id = RecordId::read(decoded.as_bytes()).0;
        if !self.log.odd_ids.iter().rev().take(64).any(|(known, _)| *known == id) {
            let name = self.intern(decoded);
            self.log.odd_ids.push((id, name));
        }
        self.buffer = buffer;
        id
    }

    /// Interns the absolute, normalized form of a path.
    pub(super) fn intern_path(&mut self, path: Option<JsonStr<'_>>, scope: u32) -> NameId {
        let Some(path) = path else { return 0 };
        let mut buffer = std::mem::take(&mut self.buffer);
        let decoded = path.decode(&mut buffer);
        let name = match normalize(decoded, self.log.string(self.log.scopes[scope as usize].cwd)) {
            None => self.intern(decoded),
            Some(normalized) => self.intern(&normalized),
        };
        self.buffer = buffer;
        name
    }
}
