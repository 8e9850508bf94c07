//! Who came first with an id: a table of record numbers for lists of ids that lie elsewhere.

use crate::log::Id;

/// Record numbers by id. Each stands beside half of the id's hash, so that the ids themselves, which the caller keeps, are
/// looked at only where they are the same.
#[derive(Default)]
pub struct FirstWith {
    /// Half of a hash, then a record number. A power of two long, at most two thirds full.
    slots: Vec<u64>,
}

/// A slot that nothing is in: no record has the last number. Anything but zero, because the compiler asks for zeroes instead of
/// writing them. A slot is looked at before it is taken, so the system would lend every page of such memory first and exchange
/// it afterwards, for which it stops all other threads.
const FREE: u64 = u32::MAX as u64;

impl FirstWith {
    /// With room for as many records.
    pub fn with_room(records: usize) -> FirstWith {
        let length = (records * 3 / 2 + 1).next_power_of_two();
        FirstWith {
            slots: vec![FREE; length],
        }
    }

    /// Makes room for as many records in all. `id_of` gives the id of a number.
    pub fn make_room(&mut self, records: usize, id_of: impl Fn(u32) -> Id) {
        if self.slots.len() > records * 3 / 2 {
            return;
        }
        let larger = FirstWith::with_room(records);
        for taken in std::mem::replace(self, larger).slots {
            if taken != FREE {
                let number = taken as u32;
                self.first(id_of(number), number, &id_of);
            }
        }
    }

    /// The number that was given first with an id, this one if there was none before. `id_of` gives the id of a number.
    /// No more may be given than there is room for.
    pub fn first(&mut self, id: Id, number: u32, id_of: impl Fn(u32) -> Id) -> u32 {
        match self.look(id, id_of) {
            Ok(known) => known,
            Err(free) => {
                self.slots[free] = half(hash(id)) | u64::from(number);
                number
            }
        }
    }

    /// The number that was given first with an id.
    pub fn find(&self, id: Id, id_of: impl Fn(u32) -> Id) -> Option<u32> {
        self.look(id, id_of).ok()
    }

    /// The number of an id, or the slot where it would go.
    #[inline]
    fn look(&self, id: Id, id_of: impl Fn(u32) -> Id) -> Result<u32, usize> {
        let hash = hash(id);
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize >> 12 & mask;
        loop {
            let taken = self.slots[slot];
            if taken == FREE {
                return Err(slot);
            }
            let number = taken as u32;
            if half(taken) == half(hash) && id_of(number) == id {
                return Ok(number);
            }
            slot = (slot + 1) & mask;
        }
    }
}

/// Into how many parts ids can be split that have nothing to do with one another.
pub const SHARDS: usize = 4;

/// The part that an id belongs to.
pub fn shard(id: Id) -> usize {
    (hash(id) >> 62) as usize
}

#[inline]
fn hash(id: Id) -> u64 {
    (id.0 as u64 ^ (id.0 >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

fn half(hash: u64) -> u64 {
    hash >> 32 << 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_of_each_id_is_found() {
        // Half of the ids come twice, and many share their lower half.
        let ids = (0..2000u128)
            .map(|at| Id(((at % 1000) << 64) | (at % 10)))
            .collect::<Vec<_>>();
        let mut first = FirstWith::default();
        let id_of = |number: u32| ids[number as usize];
        for (at, id) in ids.iter().enumerate() {
            // Room is made in steps, so that what is there has to move.
            first.make_room((at + 1).next_multiple_of(100), id_of);
            assert_eq!(first.first(*id, at as u32, id_of), at as u32 % 1000);
        }
        // A hash of zeroes is no free slot.
        assert_eq!(first.find(Id(0), id_of), Some(0));
        assert_eq!(first.find(ids[1234], id_of), Some(234));
        assert_eq!(first.find(Id(77 << 64), id_of), None);
    }
}
