//! Links within one log: the parent of every record, and the call that every tool result answers.
//!
//! Links are resolved while records arrive. The parts of a big log are read in parallel and linked as they are
//! appended, so that only the last part is left at the end.

use crate::build::{IdMap, reserve_fresh};
use crate::ids::IdIndex;
use crate::log::{BlockKind, Log, Record, RecordId, RecordLink};

/// Links the records and blocks of one log.
#[derive(Default)]
pub struct Linker {
    /// The first record with each id.
    index: IdIndex,
    /// Parent ids of the records that are not linked yet; zero means none, which is common.
    parents: Vec<RecordId>,
    /// Logical parents of these records, which only boundaries have.
    logical_parents: Vec<(u32, RecordId)>,
    /// Number of records that are linked.
    linked: usize,
    /// Expected number of records.
    expected: usize,
    /// Links to ids not seen yet, in the order of their records.
    unresolved: Vec<(u32, LinkField, RecordId)>,
    results: ResultLinker,
}

/// One of the two links of a record.
#[derive(Clone, Copy)]
enum LinkField {
    Parent,
    LogicalParent,
}

impl LinkField {
    fn link_mut(self, record: &mut Record) -> &mut RecordLink {
        match self {
            LinkField::Parent => &mut record.parent,
            LinkField::LogicalParent => &mut record.logical_parent,
        }
    }
}

impl Linker {
    /// Creates a linker that reuses the allocation of `parents`.
    pub fn new(parents: Vec<RecordId>) -> Linker {
        Linker {
            parents,
            ..Linker::default()
        }
    }

    /// Reserves room for `records` more records.
    pub fn reserve(&mut self, records: usize) {
        reserve_fresh(&mut self.parents, records);
        self.expected = self.linked + records;
    }

    /// Adds the links of the next record.
    pub fn push(&mut self, record: u32, parent: RecordId, logical_parent: Option<RecordId>) {
        self.parents.push(parent);
        self.logical_parents.extend(logical_parent.map(|id| (record, id)));
    }

    /// Appends the links of another linker that has linked nothing yet; its records are numbered from `base`. Returns
    /// its emptied list of parents, for reuse.
    pub fn append(&mut self, mut other: Linker, base: u32) -> Vec<RecordId> {
        debug_assert_eq!(other.linked, 0, "links of a part do not hold for the whole");
        self.parents.append(&mut other.parents);
        let logical = other.logical_parents.into_iter();
        self.logical_parents
            .extend(logical.map(|(record, id)| (record + base, id)));
        other.parents
    }

    /// Links the records that arrived since the last call, as far as their targets are known.
    pub fn link_part(&mut self, log: &mut Log) {
        // Reserve for all parts at once: every growth rehashes all entries.
        self.link(log, log.records.len().max(self.expected));
    }

    /// Links the records that arrived since the last call. The table is sized for `room` records in total.
    fn link(&mut self, log: &mut Log, room: usize) {
        let records = &mut log.records;
        self.index.reserve(room, |number| records[number as usize].id);
        // First enter all ids, because a record may link to a later one.
        for at in self.linked..records.len() {
            let id = records[at].id;
            if id != RecordId::default() {
                let first = self
                    .index
                    .get_or_insert(id, at as u32, |number| records[number as usize].id);
                records[at].is_repeat = first != at as u32;
            }
        }
        // Then resolve the links; the two lists are in record order.
        let mut logical_parents = self.logical_parents.drain(..).peekable();
        for (at, parent) in (self.linked..).zip(self.parents.drain(..)) {
            let logical = logical_parents.next_if(|(record, _)| *record == at as u32);
            let links = [
                (LinkField::Parent, Some(parent)),
                (LinkField::LogicalParent, logical.map(|(_, id)| id)),
            ];
            for (place, id) in links {
                let Some(id) = id.filter(|id| *id != RecordId::default()) else {
                    continue;
                };
                // Most records follow the one before them: check that without a hash lookup.
                let before = at.checked_sub(1).map(|before| &records[before]);
                let target = match before.filter(|before| before.id == id && !before.is_repeat) {
                    Some(_) => Some(at as u32 - 1),
                    None => self.index.find(id, |number| records[number as usize].id),
                };
                match target {
                    Some(target) => *place.link_mut(&mut records[at]) = RecordLink::Here(target),
                    None => self.unresolved.push((at as u32, place, id)),
                }
            }
        }
        self.linked = records.len();
        self.results.name_results(log);
    }

    /// Links the rest once all records are known. Targets that do not exist become [`RecordLink::Elsewhere`].
    pub fn finish(mut self, log: &mut Log) {
        self.link(log, log.records.len());
        for (at, place, id) in self.unresolved {
            let found = self.index.find(id, |number| log.records[number as usize].id);
            *place.link_mut(&mut log.records[at as usize]) = match found {
                Some(target) => RecordLink::Here(target),
                None => {
                    log.elsewhere.push(id);
                    RecordLink::Elsewhere(log.elsewhere.len() as u32 - 1)
                }
            };
        }
    }
}

/// Copies tool, file and range of each call to its result.
#[derive(Default)]
struct ResultLinker {
    /// A ring buffer of the latest calls: nearly every result follows its call closely.
    recent: [(u64, usize); 8],
    /// Index of the next entry of `recent`.
    next: usize,
    /// All calls by id, filled only when a result is not near its call.
    calls: IdMap<u64, usize>,
    /// Blocks before this index are in `calls`.
    indexed: usize,
    /// Blocks before this index are done.
    named_until: usize,
}

impl ResultLinker {
    fn name_results(&mut self, log: &mut Log) {
        for at in self.named_until..log.blocks.len() {
            let block = log.blocks[at];
            match block.kind {
                BlockKind::ToolCall if block.call != 0 => {
                    self.recent[self.next] = (block.call, at);
                    self.next = (self.next + 1) % self.recent.len();
                }
                BlockKind::ToolResult if block.call != 0 => {
                    if let Some(call) = self.call_of(block.call, at, log) {
                        let call = log.blocks[call];
                        let result = &mut log.blocks[at];
                        (result.name, result.path, result.range) = (call.name, call.path, call.range);
                    }
                }
                _ => {}
            }
        }
        self.named_until = log.blocks.len();
    }

    /// Returns the last call with this id before a block, or `None` if there is none.
    fn call_of(&mut self, id: u64, before: usize, log: &Log) -> Option<usize> {
        let (newer, older) = self.recent.split_at(self.next);
        let mut newest_first = newer.iter().rev().chain(older.iter().rev());
        if let Some((_, call)) = newest_first.find(|(known, _)| *known == id) {
            return Some(*call);
        }
        for (place, block) in log.blocks[..before].iter().enumerate().skip(self.indexed) {
            if block.kind == BlockKind::ToolCall {
                self.calls.insert(block.call, place);
            }
        }
        self.indexed = before;
        self.calls.get(&id).copied()
    }
}
