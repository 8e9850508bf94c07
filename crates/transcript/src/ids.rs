//! Finds the first record with an id: a hash table of record numbers whose keys live outside the table.

use crate::log::RecordId;

/// Maps ids to record numbers by open addressing with linear probing. A slot holds half of the id's hash and the record
/// number. The ids stay where the caller has them and are compared only if the hash halves are equal.
///
/// Written by hand rather than with `hashbrown::HashTable` because a slot is one 8-byte word, so a lookup touches one
/// cache line where hashbrown touches two (control bytes and buckets), and because the initialization can be chosen
/// (see `FREE`).
#[derive(Default)]
pub struct IdIndex {
    /// Upper 32 bits: half of the hash; lower 32 bits: the record number. The length is a power of two, at most two
    /// thirds are taken.
    slots: Vec<u64>,
}

/// An empty slot: no record has the last number. Non-zero so that `vec!` does not become `calloc`: lazily zeroed pages
/// would fault twice (a lookup reads a slot before it is written), and the second fault, which replaces the shared zero
/// page, needs a TLB shootdown.
const FREE: u64 = u32::MAX as u64;

impl IdIndex {
    /// Creates a table with room for `records` ids.
    pub fn with_capacity(records: usize) -> IdIndex {
        let length = (records * 3 / 2 + 1).next_power_of_two();
        IdIndex {
            slots: vec![FREE; length],
        }
    }

    /// Grows the table to room for `records` ids in total. `id_of` returns the id of a record number.
    pub fn reserve(&mut self, records: usize, id_of: impl Fn(u32) -> RecordId) {
        if self.slots.len() > records * 3 / 2 {
            return;
        }
        let larger = IdIndex::with_capacity(records);
        for taken in std::mem::replace(self, larger).slots {
            if taken != FREE {
                let number = taken as u32;
                self.get_or_insert(id_of(number), number, &id_of);
            }
        }
    }

    /// Returns the record number inserted first with `id`, which is `number` if there was none. `id_of` returns the id
    /// of a record number. The table must have room; see [`IdIndex::reserve`].
    pub fn get_or_insert(&mut self, id: RecordId, number: u32, id_of: impl Fn(u32) -> RecordId) -> u32 {
        match self.find_slot(id, id_of) {
            Ok(known) => known,
            Err(free) => {
                self.slots[free] = upper_half(hash(id)) | u64::from(number);
                number
            }
        }
    }

    /// Returns the record number inserted first with `id`, or `None` if there is none.
    pub fn find(&self, id: RecordId, id_of: impl Fn(u32) -> RecordId) -> Option<u32> {
        self.find_slot(id, id_of).ok()
    }

    /// Returns the record number of `id`, or as `Err` the empty slot where it would go.
    #[inline]
    fn find_slot(&self, id: RecordId, id_of: impl Fn(u32) -> RecordId) -> Result<u32, usize> {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize >> 12 & mask;
        loop {
            let taken = self.slots[slot];
            if taken == FREE {
                return Err(slot);
            }
            let number = taken as u32;
            if upper_half(taken) == upper_half(hash) && id_of(number) == id {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Number of disjoint shards that ids are split into by hash.
pub const SHARDS: usize = 4;

/// Returns the shard of an id.
pub fn shard(id: RecordId) -> usize {
    (hash(id) >> 62) as usize
}

#[inline]
fn hash(id: RecordId) -> u64 {
    (id.0 as u64 ^ (id.0 >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn upper_half(hash: u64) -> u64 {
    hash >> 32 << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_each_id_is_found() {
        // Half of the ids occur twice, and many share their lower half.
        let ids = (0..2000u128)
            .map(|at| RecordId(((at % 1000) << 64) | (at % 10)))
            .collect::<Vec<_>>();
        let mut first = IdIndex::default();
        let id_of = |number: u32| ids[number as usize];
        for (at, id) in ids.iter().enumerate() {
            // The table grows in steps, so that entries are rehashed.
            first.reserve((at + 1).next_multiple_of(100), id_of);
            assert_eq!(first.get_or_insert(*id, at as u32, id_of), at as u32 % 1000);
        }
        // A hash of zero is not an empty slot.
        assert_eq!(first.find(RecordId(0), id_of), Some(0));
        assert_eq!(first.find(ids[1234], id_of), Some(234));
        assert_eq!(first.find(RecordId(77 << 64), id_of), None);
    }
}
