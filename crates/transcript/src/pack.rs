//! The packed form of a log: kept in memory between the stages, and on disk in the cache.
//!
//! Numbers are LEB128, delta-encoded where differences are small; ids are stored as they are. The result is about 1.5 %
//! of the size of the log. The cache guards a packed log by a checksum. [`unpack`] still checks every number it uses as
//! an index or a length, because an attacker can compute a checksum.

mod blocks;
mod fields;
mod records;
#[cfg(test)]
mod tests;
mod varint;

pub use varint::{PackReader, PackWriter};

use crate::agents::Agent;
use crate::log::*;
use crate::record::Tokens;
use blocks::{pack_blocks, unpack_blocks};
use records::{pack_records, pack_responses, unpack_records, unpack_responses};

/// The bytes are not a packed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a packed log")]
pub struct UnpackError;

/// Packs a log.
pub fn pack(log: &Log) -> Vec<u8> {
    let mut out = PackWriter {
        bytes: Vec::with_capacity(64 + log.records.len() * 40 + log.blocks.len() * 12),
    };
    out.number(log.lines);
    out.number(log.bytes);
    out.number(log.strings.len() as u64);
    for text in &log.strings {
        out.text(text);
    }
    out.number(log.scopes.len() as u64);
    for scope in &log.scopes {
        for name in [scope.session, scope.agent, scope.version, scope.cwd, scope.branch] {
            out.number(u64::from(name));
        }
        out.number(u64::from(scope.is_sidechain));
    }
    out.number(log.agent as u64);
    out.number(log.lineage.len() as u64);
    for thread in &log.lineage {
        out.number(u64::from(*thread));
    }
    pack_counts(&mut out, log);
    let (first, last) = log.times();
    out.signed(first);
    out.signed(last);
    out.number(log.records.len() as u64);
    for record in &log.records {
        out.id(record.id);
    }
    pack_records(&mut out, log);
    pack_responses(&mut out, log);
    pack_blocks(&mut out, log);
    pack_rest(&mut out, log);
    // Packed logs stay in memory until the end of the run.
    out.bytes.shrink_to_fit();
    out.bytes
}

/// Packs the counts that a run over all logs needs without unpacking each log.
fn pack_counts(out: &mut PackWriter, log: &Log) {
    out.number(log.kinds.len() as u64);
    for (name, count) in &log.kinds {
        out.number(u64::from(*name));
        out.number(*count);
    }
    out.number(log.problems.len() as u64);
    for problem in log.problems.iter() {
        out.number(problem.kind as u64);
        out.number(problem.line);
        out.number(problem.offset);
    }
    if !log.problems.is_empty() {
        for &kind in LineProblemKind::ALL {
            out.number(log.problems.left_out(kind));
        }
    }
    pack_titles(out, log);
}

/// Packs titles and pull requests, which name sessions before anything is unpacked.
fn pack_titles(out: &mut PackWriter, log: &Log) {
    out.number(log.titles.len() as u64);
    for title in &log.titles {
        out.number(u64::from(title.session));
        out.number(title.source as u64);
        out.text(&title.text);
        out.number(title.offset);
    }
    out.number(log.pulls.len() as u64);
    for link in &log.pulls {
        out.number(u64::from(link.session));
        out.text(&link.url);
        out.signed(link.time);
    }
}

fn unpack_titles(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    for _ in 0..input.count(4)? {
        log.titles.push(TitleText {
            session: input.below(log.strings.len())?,
            source: TitleSource::from_code(input.number()?).ok_or(UnpackError)?,
            text: input.text()?.into(),
            offset: input.number()?,
        });
    }
    for _ in 0..input.count(3)? {
        log.pulls.push(PullLink {
            session: input.below(log.strings.len())?,
            url: input.text()?.into(),
            time: input.signed()?,
        });
    }
    Ok(())
}

fn unpack_counts(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    for _ in 0..input.count(2)? {
        let name = input.below(log.strings.len())?;
        log.kinds.push((name, input.number()?));
    }
    for _ in 0..input.count(3)? {
        log.problems.push(LineProblem {
            kind: LineProblemKind::from_code(input.number()?).ok_or(UnpackError)?,
            line: input.number()?,
            offset: input.number()?,
        });
    }
    if !log.problems.is_empty() {
        for &kind in LineProblemKind::ALL {
            log.problems.count_more(kind, input.number()?);
        }
    }
    unpack_titles(input, log)
}

fn pack_rest(out: &mut PackWriter, log: &Log) {
    for boundary in &log.boundaries {
        out.number(u64::from(boundary.is_auto));
        for value in [
            boundary.pre_tokens,
            boundary.post_tokens,
            boundary.tokens_saved,
            boundary.duration_ms,
        ] {
            out.optional(value);
        }
        out.number(boundary.kept.len() as u64);
        for id in &boundary.kept {
            out.id(*id);
        }
        out.number(boundary.cleared.len() as u64);
        for call in &boundary.cleared {
            out.hash(*call);
        }
    }
    out.number(log.odd_ids.len() as u64);
    for (id, name) in &log.odd_ids {
        out.id(*id);
        out.number(u64::from(*name));
    }
    out.number(log.window_marks.len() as u64);
    for (record, mark) in &log.window_marks {
        out.number(u64::from(*record));
        out.number(*mark as u64);
    }
    out.number(log.call_facts.len() as u64);
    let mut response = 0;
    for facts in &log.call_facts {
        out.number(u64::from(facts.response - response));
        out.number(u64::from(facts.reasoning));
        out.number(u64::from(facts.window));
        response = facts.response;
    }
    out.number(log.other_calls.len() as u64);
    let mut response = 0;
    for call in &log.other_calls {
        out.number(u64::from(call.response - response));
        out.number(u64::from(call.model));
        let Tokens {
            input,
            output,
            cache_write,
            cache_write_1h,
            cache_read,
        } = call.tokens;
        for count in [input, output, cache_write, cache_write_1h, cache_read] {
            out.number(count);
        }
        response = call.response;
    }
}

fn unpack_rest(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    let boundaries = log.records.iter().filter(|record| record.boundary.is_some()).count();
    for _ in 0..boundaries {
        let mut boundary = BoundaryRecord {
            is_auto: input.number()? != 0,
            pre_tokens: input.optional()?,
            post_tokens: input.optional()?,
            tokens_saved: input.optional()?,
            duration_ms: input.optional()?,
            ..BoundaryRecord::default()
        };
        for _ in 0..input.count(16)? {
            boundary.kept.push(input.id()?);
        }
        for _ in 0..input.count(8)? {
            boundary.cleared.push(input.hash()?);
        }
        log.boundaries.push(boundary);
    }
    for _ in 0..input.count(17)? {
        let id = input.id()?;
        log.odd_ids.push((id, input.below(log.strings.len())?));
    }
    for _ in 0..input.count(2)? {
        let record = input.below(log.records.len())?;
        let mark = WindowMark::from_code(input.number()?).ok_or(UnpackError)?;
        log.window_marks.push((record, mark));
    }
    let mut response = 0u32;
    for _ in 0..input.count(3)? {
        response = response.checked_add(input.small()?).ok_or(UnpackError)?;
        log.call_facts.push(CallFacts {
            response,
            reasoning: input.small()?,
            window: input.small()?,
        });
    }
    let mut response = 0u32;
    for _ in 0..input.count(7)? {
        response = response.checked_add(input.small()?).ok_or(UnpackError)?;
        let model = input.below(log.strings.len())?;
        let tokens = Tokens {
            input: input.number()?,
            output: input.number()?,
            cache_write: input.number()?,
            cache_write_1h: input.number()?,
            cache_read: input.number()?,
        };
        if tokens.cache_write_1h > tokens.cache_write {
            return Err(UnpackError);
        }
        log.other_calls.push(OtherCall {
            response,
            model,
            tokens,
        });
    }
    Ok(())
}

/// The front of a packed log: enough to plan sessions without unpacking the rest.
pub struct PackedOutline<'a> {
    /// Everything but records, responses, blocks and boundaries.
    pub log: Log,
    /// Earliest and latest time; [`NO_TIME`] if it has none.
    pub times: (Time, Time),
    ids: &'a [u8],
    rest: &'a [u8],
}

impl<'a> PackedOutline<'a> {
    /// Reads the front of a packed log.
    pub fn read(bytes: &'a [u8]) -> Result<PackedOutline<'a>, UnpackError> {
        let mut input = PackReader { bytes };
        let mut log = Log {
            lines: input.number()?,
            bytes: input.number()?,
            ..Log::default()
        };
        for _ in 0..input.count(1)? {
            log.strings.push(input.text()?.into());
        }
        for _ in 0..input.count(6)? {
            let mut names = [0; 5];
            for name in &mut names {
                *name = input.below(log.strings.len())?;
            }
            let [session, agent, version, cwd, branch] = names;
            let is_sidechain = input.number()? != 0;
            log.scopes.push(RecordScope {
                session,
                agent,
                version,
                cwd,
                branch,
                is_sidechain,
            });
        }
        log.agent = Agent::from_code(input.number()?).ok_or(UnpackError)?;
        for _ in 0..input.count(1)? {
            let thread = input.below(log.strings.len())?;
            log.lineage.push(thread);
        }
        unpack_counts(&mut input, &mut log)?;
        let times = (input.signed()?, input.signed()?);
        let records = input.count(16)?;
        let ids = input.slice(records * 16)?;
        Ok(PackedOutline {
            log,
            times,
            ids,
            rest: input.bytes,
        })
    }

    /// Iterates over the ids of all records, in order; zero for those without.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RecordId> + '_ {
        self.ids
            .chunks_exact(16)
            .map(|bytes| RecordId(u128::from_le_bytes(bytes.try_into().unwrap_or_default())))
    }

    /// Unpacks the whole log.
    pub fn unpack(self) -> Result<Log, UnpackError> {
        let mut log = self.log;
        let mut input = PackReader { bytes: self.rest };
        unpack_records(&mut input, PackReader { bytes: self.ids }, &mut log)?;
        unpack_responses(&mut input, &mut log)?;
        unpack_blocks(&mut input, &mut log)?;
        unpack_rest(&mut input, &mut log)?;
        if input.bytes.is_empty() {
            Ok(log)
        } else {
            Err(UnpackError)
        }
    }
}

/// Unpacks a log. Invalid bytes give an error, never a panic, and never use more than a few times their size in memory.
pub fn unpack(bytes: &[u8]) -> Result<Log, UnpackError> {
    PackedOutline::read(bytes)?.unpack()
}
