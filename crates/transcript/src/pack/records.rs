//! Records and API responses in packed form.

use super::UnpackError;
use super::varint::{PackReader, PackWriter};
use crate::log::{Log, NO_TIME, Record, RecordKind, RecordLink, ResponseLine, StopReason};
use crate::record::Tokens;

/// Flags of a packed record: its own flags, and which optional fields follow.
mod flag {
    pub const META: u64 = 1;
    pub const SUMMARY: u64 = 1 << 1;
    pub const API_ERROR: u64 = 1 << 2;
    pub const REPEAT: u64 = 1 << 3;
    pub const TIME: u64 = 1 << 4;
    pub const RESPONSE: u64 = 1 << 5;
    pub const BOUNDARY: u64 = 1 << 6;
    pub const LOGICAL: u64 = 1 << 7;
    pub const BLOCKS: u64 = 1 << 8;
    pub const SCOPE: u64 = 1 << 9;
    pub const KIND_SHIFT: u32 = 10;
}

pub(super) fn pack_records(out: &mut PackWriter, log: &Log) {
    let (mut line, mut offset, mut time, mut scope) = (0u32, 0u64, 0i64, 0u32);
    for (at, record) in log.records.iter().enumerate() {
        let mut flags = (record.kind as u64) << flag::KIND_SHIFT;
        let mut set = |condition: bool, flag: u64| flags |= u64::from(condition) * flag;
        set(record.is_meta, flag::META);
        set(record.is_summary, flag::SUMMARY);
        set(record.is_api_error, flag::API_ERROR);
        set(record.is_repeat, flag::REPEAT);
        set(record.time != NO_TIME, flag::TIME);
        set(record.response.is_some(), flag::RESPONSE);
        set(record.boundary.is_some(), flag::BOUNDARY);
        set(record.logical_parent != RecordLink::None, flag::LOGICAL);
        set(record.blocks > 0, flag::BLOCKS);
        set(record.scope != scope, flag::SCOPE);
        out.number(flags);
        out.number(u64::from(record.line - line));
        out.number(record.offset - offset);
        (line, offset) = (record.line, record.offset);
        if flags & flag::TIME != 0 {
            out.signed(record.time.wrapping_sub(time));
            time = record.time;
        }
        if flags & flag::SCOPE != 0 {
            out.number(u64::from(record.scope));
            scope = record.scope;
        }
        out.link(record.parent, at as u32, &log.elsewhere);
        if flags & flag::LOGICAL != 0 {
            out.link(record.logical_parent, at as u32, &log.elsewhere);
        }
        if flags & flag::BLOCKS != 0 {
            out.number(u64::from(record.blocks));
        }
    }
}

pub(super) fn unpack_records(
    input: &mut PackReader<'_>,
    mut ids: PackReader<'_>,
    log: &mut Log,
) -> Result<(), UnpackError> {
    let total = u32::try_from(ids.bytes.len() / 16).map_err(|_| UnpackError)?;
    // A record takes at least four bytes besides its id.
    if (total as usize).saturating_mul(4) > input.bytes.len() {
        return Err(UnpackError);
    }
    log.records.reserve_exact(total as usize);
    let (mut line, mut offset, mut time, mut scope) = (0u32, 0u64, 0i64, 0u32);
    let (mut responses, mut boundaries, mut blocks) = (0u32, 0u32, 0u32);
    for at in 0..total {
        let flags = input.number()?;
        line = line.checked_add(input.small()?).ok_or(UnpackError)?;
        offset = offset.checked_add(input.number()?).ok_or(UnpackError)?;
        let id = ids.id()?;
        if flags & flag::TIME != 0 {
            time = time.wrapping_add(input.signed()?);
        }
        if flags & flag::SCOPE != 0 {
            scope = input.small()?;
        }
        if scope as usize >= log.scopes.len() {
            return Err(UnpackError);
        }
        let parent = input.link(at, total, &mut log.elsewhere)?;
        let logical_parent = if flags & flag::LOGICAL != 0 {
            input.link(at, total, &mut log.elsewhere)?
        } else {
            RecordLink::None
        };
        let own_blocks = if flags & flag::BLOCKS != 0 { input.small()? } else { 0 };
        let take = |wanted: u64, next: &mut u32| {
            (flags & wanted != 0).then(|| {
                *next += 1;
                *next - 1
            })
        };
        log.records.push(Record {
            line,
            offset,
            kind: RecordKind::from_code(flags >> flag::KIND_SHIFT).ok_or(UnpackError)?,
            id,
            parent,
            logical_parent,
            time: if flags & flag::TIME != 0 { time } else { NO_TIME },
            scope,
            response: take(flag::RESPONSE, &mut responses),
            boundary: take(flag::BOUNDARY, &mut boundaries),
            first_block: blocks,
            blocks: own_blocks,
            is_meta: flags & flag::META != 0,
            is_summary: flags & flag::SUMMARY != 0,
            is_api_error: flags & flag::API_ERROR != 0,
            is_repeat: flags & flag::REPEAT != 0,
        });
        blocks = blocks.checked_add(own_blocks).ok_or(UnpackError)?;
    }
    log.responses.reserve_exact(responses as usize);
    log.boundaries.reserve_exact(boundaries as usize);
    log.blocks.reserve_exact((blocks as usize).min(input.bytes.len()));
    Ok(())
}

/// Packs the response lines. A line that repeats the call of the previous line stores only what differs.
pub(super) fn pack_responses(out: &mut PackWriter, log: &Log) {
    let mut previous: Option<&ResponseLine> = None;
    for response in &log.responses {
        let same = previous.is_some_and(|previous| {
            previous.message == response.message
                && previous.request == response.request
                && previous.model == response.model
                && previous.is_progress == response.is_progress
                && !response.is_zeroed
                && Tokens {
                    output: 0,
                    ..previous.billed
                } == Tokens {
                    output: 0,
                    ..response.billed
                }
                && response.last_call.is_none()
        });
        out.number(
            u64::from(same)
                | u64::from(response.is_progress) << 1
                | u64::from(response.last_call.is_some()) << 2
                | u64::from(response.request != 0) << 3
                | u64::from(response.is_zeroed) << 4
                | (response.stop as u64) << 5,
        );
        if same {
            out.number(response.billed.output);
        } else {
            out.hash(response.message);
            if response.request != 0 {
                out.hash(response.request);
            }
            out.number(u64::from(response.model));
            out.tokens(&response.billed);
            if let Some(last_call) = &response.last_call {
                out.tokens(last_call);
            }
        }
        previous = Some(response);
    }
}

pub(super) fn unpack_responses(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    for at in 0..log.records.len() {
        if log.records[at].response.is_none() {
            continue;
        }
        let flags = input.number()?;
        let stop = StopReason::from_code(flags >> 5).ok_or(UnpackError)?;
        let mut response = ResponseLine {
            record: at as u32,
            message: 0,
            request: 0,
            model: 0,
            stop,
            billed: Tokens::default(),
            last_call: None,
            is_zeroed: flags & 16 != 0,
            is_progress: flags & 2 != 0,
        };
        if flags & 1 != 0 {
            let previous = log.responses.last().ok_or(UnpackError)?;
            (response.message, response.request, response.model) = (previous.message, previous.request, previous.model);
            response.billed = previous.billed;
            response.billed.output = input.number()?;
        } else {
            response.message = input.hash()?;
            if flags & 8 != 0 {
                response.request = input.hash()?;
            }
            response.model = input.below(log.strings.len())?;
            response.billed = input.tokens()?;
            if flags & 4 != 0 {
                response.last_call = Some(Box::new(input.tokens()?));
            }
        }
        log.responses.push(response);
    }
    Ok(())
}
