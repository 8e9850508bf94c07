//! The packed form of a log: what lies in memory between the stages and on disk in the cache.
//!
//! Numbers as LEB128, differences where they are small, ids as they are. About one and a half percent of the log's
//! bytes. A packed log ends in a checksum of everything before it, so that a damaged one is never believed;
//! [`unpack`] additionally checks every number it uses as an index, because a checksum is no proof against
//! somebody who can compute one.

use crate::log::*;
use crate::record::Tokens;

/// First bytes of a packed log. Changes with the format *and* with what parsing puts into it.
pub const MAGIC: &[u8; 8] = b"bcast\x00\x04\n";

/// Why bytes are not a packed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a packed log of this version, or damaged")]
pub struct UnpackError;

/// Writes packed numbers.
pub struct PackWriter {
    pub bytes: Vec<u8>,
}

impl PackWriter {
    pub fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub fn signed(&mut self, value: i64) {
        self.number((value << 1 ^ value >> 63) as u64);
    }

    fn optional(&mut self, value: Option<u64>) {
        match value {
            None => self.number(0),
            Some(value) => {
                self.number(1);
                self.number(value);
            }
        }
    }

    fn id(&mut self, id: RecordId) {
        self.bytes.extend_from_slice(&id.0.to_le_bytes());
    }

    fn hash(&mut self, hash: u64) {
        self.bytes.extend_from_slice(&hash.to_le_bytes());
    }

    /// A link: 0 none, 1 elsewhere, else the distance back to the record.
    fn link(&mut self, link: RecordLink, at: u32, elsewhere: &[RecordId]) {
        match link {
            RecordLink::None => self.number(0),
            RecordLink::Elsewhere(place) => {
                self.number(1);
                self.id(elsewhere.get(place as usize).copied().unwrap_or_default());
            }
            RecordLink::Here(target) => {
                let distance = i64::from(at) - i64::from(target);
                self.number(2 + (distance << 1 ^ distance >> 63) as u64);
            }
        }
    }

    fn tokens(&mut self, tokens: &Tokens) {
        for count in [
            tokens.input,
            tokens.output,
            tokens.cache_write,
            tokens.cache_write_1h,
            tokens.cache_read,
        ] {
            self.number(count);
        }
    }
}

/// Reads packed numbers.
pub struct PackReader<'a> {
    pub bytes: &'a [u8],
}

impl<'a> PackReader<'a> {
    #[inline]
    fn byte(&mut self) -> Result<u8, UnpackError> {
        let (&byte, rest) = self.bytes.split_first().ok_or(UnpackError)?;
        self.bytes = rest;
        Ok(byte)
    }

    #[inline]
    pub fn number(&mut self) -> Result<u64, UnpackError> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(u64::from(first));
        }
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(UnpackError)
    }

    pub fn small(&mut self) -> Result<u32, UnpackError> {
        u32::try_from(self.number()?).map_err(|_| UnpackError)
    }

    pub fn signed(&mut self) -> Result<i64, UnpackError> {
        let value = self.number()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn optional(&mut self) -> Result<Option<u64>, UnpackError> {
        Ok(match self.number()? {
            0 => None,
            _ => Some(self.number()?),
        })
    }

    pub(super) fn slice(&mut self, length: usize) -> Result<&'a [u8], UnpackError> {
        let (slice, rest) = self.bytes.split_at_checked(length).ok_or(UnpackError)?;
        self.bytes = rest;
        Ok(slice)
    }

    fn id(&mut self) -> Result<RecordId, UnpackError> {
        let bytes = self.slice(16)?.try_into().map_err(|_| UnpackError)?;
        Ok(RecordId(u128::from_le_bytes(bytes)))
    }

    fn hash(&mut self) -> Result<u64, UnpackError> {
        let bytes = self.slice(8)?.try_into().map_err(|_| UnpackError)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn link(&mut self, at: u32, records: u32, elsewhere: &mut Vec<RecordId>) -> Result<RecordLink, UnpackError> {
        match self.number()? {
            0 => Ok(RecordLink::None),
            1 => {
                elsewhere.push(self.id()?);
                Ok(RecordLink::Elsewhere(elsewhere.len() as u32 - 1))
            }
            code => {
                let code = code - 2;
                let distance = (code >> 1) as i64 ^ -((code & 1) as i64);
                let target = i64::from(at).checked_sub(distance).ok_or(UnpackError)?;
                let target = u32::try_from(target).map_err(|_| UnpackError)?;
                if target >= records {
                    return Err(UnpackError);
                }
                Ok(RecordLink::Here(target))
            }
        }
    }

    fn tokens(&mut self) -> Result<Tokens, UnpackError> {
        Ok(Tokens {
            input: self.number()?,
            output: self.number()?,
            cache_write: self.number()?,
            cache_write_1h: self.number()?,
            cache_read: self.number()?,
        })
    }

    /// A count of things that take at least `size` bytes each: more than fit cannot be meant.
    pub fn count(&mut self, size: usize) -> Result<usize, UnpackError> {
        let count = usize::try_from(self.number()?).map_err(|_| UnpackError)?;
        if count.checked_mul(size).is_none_or(|bytes| bytes > self.bytes.len()) {
            return Err(UnpackError);
        }
        Ok(count)
    }

    pub fn below(&mut self, limit: usize) -> Result<u32, UnpackError> {
        let value = self.small()?;
        if value as usize >= limit {
            return Err(UnpackError);
        }
        Ok(value)
    }
}

/// Flags of a packed record.
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

/// Packs a log.
pub fn pack(log: &Log) -> Vec<u8> {
    let mut out = PackWriter {
        bytes: Vec::with_capacity(64 + log.records.len() * 40 + log.blocks.len() * 12),
    };
    out.bytes.extend_from_slice(MAGIC);
    out.number(log.lines);
    out.number(log.bytes);
    out.number(log.strings.len() as u64);
    for text in &log.strings {
        out.number(text.len() as u64);
        out.bytes.extend_from_slice(text.as_bytes());
    }
    out.number(log.scopes.len() as u64);
    for scope in &log.scopes {
        for name in [scope.session, scope.agent, scope.version, scope.cwd, scope.branch] {
            out.number(u64::from(name));
        }
        out.number(u64::from(scope.is_sidechain));
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
    seal(&mut out.bytes);
    // Packed logs are held until the end of the run.
    out.bytes.shrink_to_fit();
    out.bytes
}

/// What a run over all logs needs of each without unpacking it.
fn pack_counts(out: &mut PackWriter, log: &Log) {
    out.number(log.kinds.len() as u64);
    for (name, count) in &log.kinds {
        out.number(u64::from(*name));
        out.number(*count);
    }
    out.number(log.problems.len() as u64);
    for trouble in &log.problems {
        out.number(trouble.kind as u64);
        out.number(trouble.line);
        out.number(trouble.offset);
    }
}

fn unpack_counts(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    for _ in 0..input.count(2)? {
        let name = input.below(log.strings.len())?;
        log.kinds.push((name, input.number()?));
    }
    for _ in 0..input.count(3)? {
        let kind = usize::try_from(input.number()?).map_err(|_| UnpackError)?;
        log.problems.push(LineProblem {
            kind: *LINE_PROBLEM_KINDS.get(kind).ok_or(UnpackError)?,
            line: input.number()?,
            offset: input.number()?,
        });
    }
    Ok(())
}

fn pack_records(out: &mut PackWriter, log: &Log) {
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

fn unpack_records(input: &mut PackReader<'_>, mut ids: PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    let total = u32::try_from(ids.bytes.len() / 16).map_err(|_| UnpackError)?;
    // A record takes at least four bytes beside its id.
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
            kind: RecordKind::from_code((flags >> flag::KIND_SHIFT) as u8).ok_or(UnpackError)?,
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

/// What a response line shares with the one before it is not written again.
fn pack_responses(out: &mut PackWriter, log: &Log) {
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

fn unpack_responses(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    for at in 0..log.records.len() {
        if log.records[at].response.is_none() {
            continue;
        }
        let flags = input.number()?;
        let stop = StopReason::from_code((flags >> 5) as u8).ok_or(UnpackError)?;
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

/// Flags of a packed block: which of the rarer fields follow.
mod block_flag {
    pub const ERROR: u64 = 1 << 4;
    pub const CHANGES: u64 = 1 << 5;
    pub const QUARTERS: u64 = 1 << 6;
    pub const WIDE: u64 = 1 << 7;
    pub const NAME: u64 = 1 << 8;
    pub const PATH: u64 = 1 << 9;
    pub const RANGE: u64 = 1 << 10;
    pub const IMAGES: u64 = 1 << 11;
    pub const EXTRA: u64 = 1 << 12;
    /// The call id is that of a call some blocks back, whose tool, path and range the result shares.
    pub const ANSWERS: u64 = 1 << 13;
    pub const CALL: u64 = 1 << 14;
    pub const ESCAPES: u64 = 1 << 15;
}

/// What the estimate nearly always is, so that it need not be written.
fn default_quarters(units: u32) -> u32 {
    crate::record::client_estimate(units)
}

fn pack_blocks(out: &mut PackWriter, log: &Log) {
    // A result mostly follows its call closely; one that does not is written out.
    let mut recent = [(0, 0); 16];
    let mut next = 0;
    for (at, block) in log.blocks.iter().enumerate() {
        let is_answer = block.kind == BlockKind::ToolResult && block.call != 0;
        let mut newest_first = recent[..next].iter().rev().chain(recent[next..].iter().rev());
        let call = is_answer
            .then(|| newest_first.find(|(id, _)| *id == block.call))
            .flatten();
        let call = call.map(|(_, call)| *call).filter(|&call: &usize| {
            let call = &log.blocks[call];
            (call.name, call.path, call.range) == (block.name, block.path, block.range)
        });
        if block.kind == BlockKind::ToolCall && block.call != 0 {
            recent[next] = (block.call, at);
            next = (next + 1) % recent.len();
        }
        let mut flags = block.kind as u64;
        let mut set = |condition: bool, flag: u64| flags |= u64::from(condition) * flag;
        let is_linked = call.is_some();
        set(block.is_error, block_flag::ERROR);
        set(block.may_change_files, block_flag::CHANGES);
        set(block.quarters != default_quarters(block.units), block_flag::QUARTERS);
        set(block.wide > 0, block_flag::WIDE);
        set(block.escapes > 0, block_flag::ESCAPES);
        set(block.name > 0 && !is_linked, block_flag::NAME);
        set(block.path > 0 && !is_linked, block_flag::PATH);
        set(block.range != (0, 0) && !is_linked, block_flag::RANGE);
        set(block.images > 0, block_flag::IMAGES);
        set(block.extra > 0, block_flag::EXTRA);
        set(is_linked, block_flag::ANSWERS);
        set(block.call != 0 && !is_linked, block_flag::CALL);
        out.number(flags);
        out.number(u64::from(block.units));
        let mut put = |flag: u64, value: u32| {
            if flags & flag != 0 {
                out.number(u64::from(value));
            }
        };
        put(block_flag::QUARTERS, block.quarters);
        put(block_flag::WIDE, block.wide);
        put(block_flag::ESCAPES, block.escapes);
        put(block_flag::NAME, block.name);
        put(block_flag::PATH, block.path);
        put(block_flag::RANGE, block.range.0);
        put(block_flag::RANGE, block.range.1);
        put(block_flag::IMAGES, block.images);
        put(block_flag::EXTRA, block.extra);
        if let Some(call) = call {
            out.number((at - call) as u64);
        } else if block.call != 0 {
            out.hash(block.call);
        }
    }
}

fn unpack_blocks(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    let total = log
        .records
        .last()
        .map_or(0, |record| record.first_block as usize + record.blocks as usize);
    for at in 0..total {
        let flags = input.number()?;
        let kind = *BLOCK_KINDS.get((flags & 15) as usize).ok_or(UnpackError)?;
        let mut block = Block::new(kind);
        block.units = input.small()?;
        let mut take = |flag: u64, value: &mut u32| -> Result<(), UnpackError> {
            if flags & flag != 0 {
                *value = input.small()?;
            }
            Ok(())
        };
        block.quarters = default_quarters(block.units);
        take(block_flag::QUARTERS, &mut block.quarters)?;
        take(block_flag::WIDE, &mut block.wide)?;
        take(block_flag::ESCAPES, &mut block.escapes)?;
        take(block_flag::NAME, &mut block.name)?;
        take(block_flag::PATH, &mut block.path)?;
        take(block_flag::RANGE, &mut block.range.0)?;
        take(block_flag::RANGE, &mut block.range.1)?;
        take(block_flag::IMAGES, &mut block.images)?;
        take(block_flag::EXTRA, &mut block.extra)?;
        if block.name.max(block.path) as usize >= log.strings.len() {
            return Err(UnpackError);
        }
        block.is_error = flags & block_flag::ERROR != 0;
        block.may_change_files = flags & block_flag::CHANGES != 0;
        if flags & block_flag::ANSWERS != 0 {
            let back = usize::try_from(input.number()?).map_err(|_| UnpackError)?;
            let call = at
                .checked_sub(back)
                .and_then(|call| log.blocks.get(call))
                .ok_or(UnpackError)?;
            (block.call, block.name, block.path, block.range) = (call.call, call.name, call.path, call.range);
        } else if flags & block_flag::CALL != 0 {
            block.call = input.hash()?;
        }
        log.blocks.push(block);
    }
    Ok(())
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
    Ok(())
}

/// Ends bytes in a checksum of theirs.
pub fn seal(bytes: &mut Vec<u8>) {
    let checksum = xxhash_rust::xxh3::xxh3_64(bytes);
    bytes.extend_from_slice(&checksum.to_le_bytes());
}

/// Bytes without their checksum, if it is right.
pub fn unseal(bytes: &[u8]) -> Option<&[u8]> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    (xxhash_rust::xxh3::xxh3_64(body).to_le_bytes() == *checksum).then_some(body)
}

/// Whether the checksum of a packed log is right.
pub fn is_intact(bytes: &[u8]) -> bool {
    unseal(bytes).is_some_and(|body| body.starts_with(MAGIC))
}

/// The front of a packed log: what is needed to see which logs belong together, without unpacking the rest.
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
        let body = bytes
            .len()
            .checked_sub(8)
            .and_then(|length| bytes.get(..length))
            .ok_or(UnpackError)?;
        let mut input = PackReader {
            bytes: body.strip_prefix(MAGIC).ok_or(UnpackError)?,
        };
        let mut log = Log {
            lines: input.number()?,
            bytes: input.number()?,
            ..Log::default()
        };
        for _ in 0..input.count(1)? {
            let length = usize::try_from(input.number()?).map_err(|_| UnpackError)?;
            let text = std::str::from_utf8(input.slice(length)?).map_err(|_| UnpackError)?;
            log.strings.push(text.into());
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

    /// Ids of all records, in order; zero for those without.
    pub fn ids(&self) -> impl ExactSizeIterator<Item = RecordId> + '_ {
        self.ids
            .chunks_exact(16)
            .map(|bytes| RecordId(u128::from_le_bytes(bytes.try_into().unwrap_or_default())))
    }

    /// The whole log.
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

/// Unpacks a log. Wrong bytes give an error, never a panic and never more memory than a few times their size.
pub fn unpack(bytes: &[u8]) -> Result<Log, UnpackError> {
    PackedOutline::read(bytes)?.unpack()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytes::LineConsumer;
    use crate::walk::Walker;

    /// All bundled cases: every shape of record there is.
    fn logs() -> Vec<Log> {
        let corpus = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus");
        let found = crate::discover::discover(&[corpus], false).unwrap();
        assert!(found.logs.len() > 50);
        let parse = |path: &std::path::Path| {
            let mut walker = Walker::new(1 << 20, &|_| ());
            walker.take_lines(&std::fs::read(path).unwrap(), 0);
            walker.into_builder().finish()
        };
        found.logs.iter().map(|log| parse(&log.path)).collect()
    }

    #[test]
    fn packing_loses_nothing() {
        for log in logs() {
            let packed = pack(&log);
            assert!(is_intact(&packed));
            assert_eq!(unpack(&packed).unwrap(), log);
            let outline = PackedOutline::read(&packed).unwrap();
            assert!(outline.ids().eq(log.records.iter().map(|record| record.id)));
        }
    }

    #[test]
    fn damage_is_seen_and_never_panics() {
        let log = logs().into_iter().max_by_key(|log| log.boundaries.len()).unwrap();
        let packed = pack(&log);
        for at in 0..packed.len() {
            let mut damaged = packed.clone();
            damaged[at] ^= 0x55;
            assert!(!is_intact(&damaged), "byte {at}");
            let _ = unpack(&damaged);
            let _ = unpack(&packed[..at]);
            assert!(!is_intact(&packed[..at]), "cut at {at}");
        }
    }
}
