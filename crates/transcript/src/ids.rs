//! Who came first with an id: a table of record numbers for lists of ids that lie elsewhere.

use crate::log::RecordId;

/// Record numbers by id. Each stands beside half of the id's hash, so that the ids themselves, which the caller keeps, are
/// looked at only where they are the same.
#[derive(Default)]
pub struct IdIndex {
    /// Half of a hash, then a record number. A power of two long, at most two thirds full.
    slots: Vec<u64>,
}

/// A slot that nothing is in: no record has the last number. Anything but zero, because the compiler asks for zeroes instead of
/// writing them. A slot is looked at before it is taken, so the system would lend every page of such memory first and exchange
/// it afterwards, for which it stops all other threads.
const FREE: u64 = u32::MAX as u64;

impl IdIndex {
    /// With room for as many records.
    pub fn with_capacity(records: usize) -> IdIndex {
        let length = (records * 3 / 2 + 1).next_power_of_two();
        IdIndex {
            slots: vec![FREE; length],
        }
    }

    /// Makes room for as many records in all. `id_of` gives the id of a number.
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

    /// The number that was given first with an id, this one if there was none before. `id_of` gives the id of a number.
    /// No more may be given than there is room for.
    pub fn get_or_insert(&mut self, id: RecordId, number: u32, id_of: impl Fn(u32) -> RecordId) -> u32 {
        match self.find_slot(id, id_of) {
            Ok(known) => known,
            Err(free) => {
                self.slots[free] = upper_half(hash(id)) | u64::from(number);
                number
            }
        }
    }

    /// The number that was given first with an id.
    pub fn find(&self, id: RecordId, id_of: impl Fn(u32) -> RecordId) -> Option<u32> {
        self.find_slot(id, id_of).ok()
    }

    /// The number of an id, or the slot where it would go.
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

/// Into how many parts ids can be split that have nothing to do with one another.
pub const SHARDS: usize = 4;

/// The part that an id belongs to.
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
        // Half of the ids come twice, and many share their lower half.
        let ids = (0..2000u128)
            .map(|at| RecordId(((at % 1000) << 64) | (at % 10)))
            .collect::<Vec<_>>();
        let mut first = IdIndex::default();
        let id_of = |number: u32| ids[number as usize];
        for (at, id) in ids.iter().enumerate() {
            // Room is made in steps, so that what is there has to move.
            first.reserve((at + 1).next_multiple_of(100), id_of);
            assert_eq!(first.get_or_insert(*id, at as u32, id_of), at as u32 % 1000);
        }
        // A hash of zeroes is no free slot.
        assert_eq!(first.find(RecordId(0), id_of), Some(0));
        assert_eq!(first.find(ids[1234], id_of), Some(234));
        assert_eq!(first.find(RecordId(77 << 64), id_of), None);
    }
}
