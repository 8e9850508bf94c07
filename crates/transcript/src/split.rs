//! Splits a log that many sessions share into one log per session, so that each session is unpacked and threaded alone: the
//! work is linear in the log, not in the log times its sessions.

use crate::build::IdMap;
use crate::line_hashes::{LineHashes, LineSet};
use crate::log::{CallFacts, Log, NO_TIME, NameId, OtherCall, Record, RecordId, RecordKind, RecordLink, RecordScope};
use std::collections::HashMap;

/// The records of one session of a log, as a log of their own.
pub struct SessionPart {
    /// The session.
    pub session: String,
    /// Its records in their order. A last record that belongs to no session stands for records of other sessions that are
    /// linked to.
    pub log: Log,
    /// Number of each record in the whole log; the last record has none.
    pub records: Vec<u32>,
    /// Line hashes of its blocks.
    pub line_hashes: LineHashes,
}

/// Splits a log. Every record must name its session. Counts and problems of the log are not split.
pub fn split_sessions(log: &Log, line_hashes: LineHashes) -> Vec<SessionPart> {
    let mut splitter = LogSplitter::new(log);
    for number in 0..log.records.len() {
        splitter.push(number);
    }
    splitter.add_window_marks();
    splitter.add_line_hashes(line_hashes);
    splitter.parts.into_iter().map(PartBuilder::finish).collect()
}

struct LogSplitter<'l> {
    log: &'l Log,
    /// By record, its part and its place there.
    places: Vec<(u32, u32)>,
    /// By block, its part and its place there.
    block_places: Vec<(u32, u32)>,
    odd_ids: IdMap<u128, NameId>,
    parts: Vec<PartBuilder<'l>>,
}

// A field of [`Log`] that refers to records, responses or blocks is split here, too.
impl<'l> LogSplitter<'l> {
    fn new(log: &'l Log) -> LogSplitter<'l> {
        let mut part_of_session = HashMap::<&str, u32>::new();
        let mut sizes = Vec::<u32>::new();
        let mut parts = Vec::new();
        let place = |record: &Record| {
            let session = log.string(log.scope_of(record).session);
            let part = *part_of_session.entry(session).or_insert_with(|| {
                parts.push(PartBuilder::new(log, session));
                sizes.push(0);
                parts.len() as u32 - 1
            });
            sizes[part as usize] += 1;
            (part, sizes[part as usize] - 1)
        };
        let places = log.records.iter().map(place).collect();
        LogSplitter {
            log,
            places,
            block_places: vec![(u32::MAX, 0); log.blocks.len()],
            odd_ids: log.odd_ids.iter().map(|(id, name)| (id.number(), *name)).collect(),
            parts,
        }
    }

    fn push(&mut self, number: usize) {
        let record = &self.log.records[number];
        let (part_number, _) = self.places[number];
        let stub = RecordLink::Here(u32::MAX);
        let link = |link: RecordLink| match link {
            RecordLink::Here(target) => match self.places[target as usize] {
                (part, place) if part == part_number => RecordLink::Here(place),
                _ => stub,
            },
            link => link,
        };
        let (parent, logical_parent) = (link(record.parent), link(record.logical_parent));
        let part = &mut self.parts[part_number as usize];
        let first = part.part.blocks.len() as u32;
        let blocks = record.first_block as usize..(record.first_block + record.blocks) as usize;
        for (place, at) in blocks.enumerate() {
            self.block_places[at] = (part_number, first + place as u32);
        }
        part.push(number, parent, logical_parent);
        if let Some(name) = self.odd_ids.get(&record.id.number()) {
            let name = part.name(*name);
            part.part.odd_ids.push((record.id, name));
        }
    }

    fn add_window_marks(&mut self) {
        for &(record, mark) in &self.log.window_marks {
            if let Some(&(part, place)) = self.places.get(record as usize) {
                self.parts[part as usize].part.window_marks.push((place, mark));
            }
        }
    }

    fn add_line_hashes(&mut self, hashes: LineHashes) {
        for set in hashes.sets {
            let Some(&(part, block)) = self.block_places.get(set.block as usize) else {
                continue;
            };
            if let Some(part) = self.parts.get_mut(part as usize) {
                part.line_hashes.sets.push(LineSet { block, ..set });
            }
        }
    }
}

/// Builds the log of one session.
struct PartBuilder<'l> {
    whole: &'l Log,
    session: &'l str,
    part: Log,
    records: Vec<u32>,
    line_hashes: LineHashes,
    names: IdMap<u64, NameId>,
    scopes: IdMap<u64, u32>,
    elsewhere: IdMap<u64, u32>,
    has_stub: bool,
}

impl<'l> PartBuilder<'l> {
    fn new(whole: &'l Log, session: &'l str) -> PartBuilder<'l> {
        PartBuilder {
            whole,
            session,
            part: Log {
                agent: whole.agent,
                strings: vec!["".into()],
                ..Log::default()
            },
            records: Vec::new(),
            line_hashes: LineHashes::default(),
            names: IdMap::default(),
            scopes: IdMap::default(),
            elsewhere: IdMap::default(),
            has_stub: false,
        }
    }

    /// Returns the name of a string of the whole log in this part.
    fn name(&mut self, name: NameId) -> NameId {
        if name == 0 {
            return 0;
        }
        let strings = &mut self.part.strings;
        let whole = self.whole;
        *self.names.entry(u64::from(name)).or_insert_with(|| {
            strings.push(whole.string(name).into());
            strings.len() as NameId - 1
        })
    }

    fn scope(&mut self, number: u32) -> u32 {
        if let Some(known) = self.scopes.get(&u64::from(number)) {
            return *known;
        }
        let scope = self.whole.scopes[number as usize];
        let scope = RecordScope {
            session: self.name(scope.session),
            agent: self.name(scope.agent),
            version: self.name(scope.version),
            cwd: self.name(scope.cwd),
            branch: self.name(scope.branch),
            is_sidechain: scope.is_sidechain,
        };
        self.part.scopes.push(scope);
        let new = self.part.scopes.len() as u32 - 1;
        self.scopes.insert(u64::from(number), new);
        new
    }

    fn link(&mut self, link: RecordLink) -> RecordLink {
        match link {
            RecordLink::Here(u32::MAX) => {
                self.has_stub = true;
                link
            }
            RecordLink::Elsewhere(place) => {
                let elsewhere = &mut self.part.elsewhere;
                let id = self.whole.elsewhere.get(place as usize).copied().unwrap_or_default();
                RecordLink::Elsewhere(*self.elsewhere.entry(u64::from(place)).or_insert_with(|| {
                    elsewhere.push(id);
                    elsewhere.len() as u32 - 1
                }))
            }
            link => link,
        }
    }

    fn push(&mut self, number: usize, parent: RecordLink, logical_parent: RecordLink) {
        let record = self.whole.records[number];
        let own = self.part.records.len() as u32;
        let response = record
            .response
            .and_then(|at| self.whole.responses.get(at as usize))
            .cloned();
        let facts = self.whole.call_facts_of(&record).copied();
        let response = response.map(|mut line| {
            line.record = own;
            line.model = self.name(line.model);
            self.part.responses.push(line);
            self.part.responses.len() as u32 - 1
        });
        let boundary = record
            .boundary
            .and_then(|at| self.whole.boundaries.get(at as usize))
            .cloned();
        let boundary = boundary.map(|boundary| {
            self.part.boundaries.push(boundary);
            self.part.boundaries.len() as u32 - 1
        });
        if let (Some(response), Some(facts)) = (response, facts) {
            self.part.call_facts.push(CallFacts { response, ..facts });
        }
        for call in self.whole.other_calls_of(&record) {
            let model = self.name(call.model);
            self.part.other_calls.extend(response.map(|response| OtherCall {
                response,
                model,
                ..*call
            }));
        }
        let first_block = self.part.blocks.len() as u32;
        for block in self.whole.blocks_of(&record) {
            let mut block = *block;
            block.name = self.name(block.name);
            block.path = self.name(block.path);
            self.part.blocks.push(block);
        }
        let scope = self.scope(record.scope);
        let (parent, logical_parent) = (self.link(parent), self.link(logical_parent));
        self.records.push(number as u32);
        self.part.records.push(Record {
            parent,
            logical_parent,
            scope,
            response,
            first_block,
            boundary,
            ..record
        });
    }

    fn finish(mut self) -> SessionPart {
        if self.has_stub {
            self.add_stub();
        }
        self.part.lineage = self.whole.lineage.iter().map(|name| self.name(*name)).collect();
        self.part.odd_ids.sort_unstable_by_key(|(id, _)| *id);
        self.part.odd_ids.dedup();
        SessionPart {
            session: self.session.to_owned(),
            log: self.part,
            records: self.records,
            line_hashes: self.line_hashes,
        }
    }

    /// Adds the record that stands for those of other sessions, and links to it.
    fn add_stub(&mut self) {
        let stub = self.part.records.len() as u32;
        for record in &mut self.part.records {
            for link in [&mut record.parent, &mut record.logical_parent] {
                if *link == RecordLink::Here(u32::MAX) {
                    *link = RecordLink::Here(stub);
                }
            }
        }
        // Not the id of any session of the part.
        self.part.strings.push(format!("{}\0", self.session).into());
        self.part.scopes.push(RecordScope {
            session: self.part.strings.len() as NameId - 1,
            ..RecordScope::default()
        });
        let last = self.part.records.last();
        self.part.records.push(Record {
            line: last.map_or(0, |last| last.line),
            offset: last.map_or(0, |last| last.offset),
            kind: RecordKind::Other,
            id: RecordId::default(),
            parent: RecordLink::None,
            logical_parent: RecordLink::None,
            time: NO_TIME,
            scope: self.part.scopes.len() as u32 - 1,
            response: None,
            first_block: self.part.blocks.len() as u32,
            blocks: 0,
            boundary: None,
            is_meta: false,
            is_summary: false,
            is_api_error: false,
            is_repeat: false,
        });
    }
}
