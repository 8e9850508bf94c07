//! Links within one log: which record follows which, which call a result answers.
//!
//! Worked out as records come in. Of a big log, whose parts are read side by side, all but the last part is linked by the
//! time it was read.

use crate::build::{IdMap, reserve_fresh};
use crate::ids::IdIndex;
use crate::log::{BlockKind, Log, Record, RecordId, RecordLink};

/// Links the records and blocks of one log.
#[derive(Default)]
pub struct Linker {
    /// Records by id, the first of each.
    index: IdIndex,
    /// Parents of the records that are not linked yet, as they were written. Zero stands for none: there are many of these.
    parents: Vec<RecordId>,
    /// Their logical parents with the records that have them: only boundaries do.
    logical_parents: Vec<(u32, RecordId)>,
    /// How many records are linked.
    linked: usize,
    /// How many there will be, about.
    expected: usize,
    /// Links to ids that no record had yet, in the order of the records that have them.
    unresolved: Vec<(u32, LinkField, RecordId)>,
    results: ResultLinker,
}

/// Which of a record's links.
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
    /// An empty one; `parents` is room for what records follow.
    pub fn new(parents: Vec<RecordId>) -> Linker {
        Linker {
            parents,
            ..Linker::default()
        }
    }

    /// Makes room for as many more records.
    pub fn reserve(&mut self, records: usize) {
        reserve_fresh(&mut self.parents, records);
        self.expected = self.linked + records;
    }

    /// Notes what the record with the next number follows.
    pub fn push(&mut self, record: u32, parent: RecordId, logical_parent: Option<RecordId>) {
        self.parents.push(parent);
        self.logical_parents.extend(logical_parent.map(|id| (record, id)));
    }

    /// Takes what another one noted, which has linked nothing yet; its records are now `base` and those that follow. What is
    /// left of it is room for as many parents.
    pub fn append(&mut self, mut other: Linker, base: u32) -> Vec<RecordId> {
        debug_assert_eq!(other.linked, 0, "links of a part do not hold for the whole");
        self.parents.append(&mut other.parents);
        let logical = other.logical_parents.into_iter();
        self.logical_parents
            .extend(logical.map(|(record, id)| (record + base, id)));
        other.parents
    }

    /// Links the part of a log that came since the last time, as far as it follows what is there.
    pub fn link_part(&mut self, log: &mut Log) {
        // Room for all parts at once: what is there would have to move each time.
        self.link(log, log.records.len().max(self.expected));
    }

    /// Links what came since the last time, with room for as many records in all.
    fn link(&mut self, log: &mut Log, room: usize) {
        let records = &mut log.records;
        self.index.reserve(room, |number| records[number as usize].id);
        for at in self.linked..records.len() {
            let id = records[at].id;
            if id != RecordId::default() {
                let first = self
                    .index
                    .get_or_insert(id, at as u32, |number| records[number as usize].id);
                records[at].is_repeat = first != at as u32;
            }
        }
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
                // Most records follow the one before them.
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

    /// Links what is left, now that all records are there.
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

/// Gives every result the tool, file and range of its call.
#[derive(Default)]
struct ResultLinker {
    /// The last calls, by id: nearly every result follows its call closely.
    recent: [(u64, usize); 8],
    /// Where the next of them goes.
    next: usize,
    /// All calls by id, made only as far as a result is not near its call.
    calls: IdMap<u64, usize>,
    /// Blocks before this one are among them.
    indexed: usize,
    /// Blocks before this one are done.
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

    /// The last call with an id before a block.
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
