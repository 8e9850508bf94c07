//! Joining the builders of two consecutive parts of one log.

use super::{LogBuffers, LogBuilder};
use crate::log::{Block, CallFacts, Log, NameId, OtherCall, Record, RecordScope, ResponseLine};

impl LogBuilder {
    /// Appends the builder of the part of the file that follows this one. Returns the emptied buffers of `other`.
    pub fn append(&mut self, mut other: LogBuilder) -> LogBuffers {
        other.merge_kind_counts();
        let names = self.adopt_strings(&other.log);
        let scopes = self.adopt_scopes(&other.log, &names);
        let record_base = self.log.records.len() as u32;
        self.append_records(&mut other.log, &names, &scopes);
        self.append_titles(&mut other, &names);
        #[allow(
            clippy::iter_over_hash_type,
            reason = "sums of integers do not depend on their order"
        )]
        for (kind, count) in other.kinds {
            *self.kinds.entry(names[kind as usize]).or_insert(0) += count;
        }
        let parents = self.links.append(other.links, record_base);
        self.links.link_part(&mut self.log);
        // Run numbers start anew in every part, so the cached scope must not match by run number again.
        self.recent.scope = None;
        LogBuffers {
            records: other.log.records,
            responses: other.log.responses,
            blocks: other.log.blocks,
            parents,
        }
    }

    /// Interns the strings of another log. Returns their new ids, by old id.
    fn adopt_strings(&mut self, other: &Log) -> Vec<NameId> {
        other.strings.iter().map(|text| self.intern(text)).collect()
    }

    /// Adds the scopes of another log. Returns their new numbers, by old number.
    fn adopt_scopes(&mut self, other: &Log, names: &[NameId]) -> Vec<u32> {
        let adopt = |scope: &RecordScope| {
            self.scope_number(RecordScope {
                session: names[scope.session as usize],
                agent: names[scope.agent as usize],
                version: names[scope.version as usize],
                cwd: names[scope.cwd as usize],
                branch: names[scope.branch as usize],
                is_sidechain: scope.is_sidechain,
            })
        };
        other.scopes.iter().map(adopt).collect()
    }

    /// Moves the records of another log behind those of this one, with all indices shifted.
    fn append_records(&mut self, other: &mut Log, names: &[NameId], scopes: &[u32]) {
        let log = &mut self.log;
        let line_base = log.lines;
        let record_base = log.records.len() as u32;
        let block_base = log.blocks.len() as u32;
        let response_base = log.responses.len() as u32;
        let boundary_base = log.boundaries.len() as u32;
        log.records.extend(other.records.drain(..).map(|record| Record {
            line: record.line.saturating_add(u32::try_from(line_base).unwrap_or(u32::MAX)),
            scope: scopes[record.scope as usize],
            first_block: record.first_block + block_base,
            response: record.response.map(|response| response + response_base),
            boundary: record.boundary.map(|boundary| boundary + boundary_base),
            ..record
        }));
        log.responses
            .extend(other.responses.drain(..).map(|response| ResponseLine {
                record: response.record + record_base,
                model: names[response.model as usize],
                ..response
            }));
        log.blocks.extend(other.blocks.drain(..).map(|block| Block {
            name: names[block.name as usize],
            path: names[block.path as usize],
            ..block
        }));
        log.call_facts.extend(other.call_facts.drain(..).map(|facts| CallFacts {
            response: facts.response + response_base,
            ..facts
        }));
        log.other_calls
            .extend(other.other_calls.drain(..).map(|call| OtherCall {
                response: call.response + response_base,
                model: names[call.model as usize],
                ..call
            }));
        log.boundaries.append(&mut other.boundaries);
        let marks = other.window_marks.drain(..);
        log.window_marks
            .extend(marks.map(|(record, mark)| (record + record_base, mark)));
        let odd_ids = other.odd_ids.drain(..);
        log.odd_ids.extend(odd_ids.map(|(id, name)| (id, names[name as usize])));
        log.problems.append(std::mem::take(&mut other.problems), line_base);
        log.lines += other.lines;
        log.bytes += other.bytes;
    }
}
