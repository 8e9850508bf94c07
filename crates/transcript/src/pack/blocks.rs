//! Content blocks in packed form.

use super::UnpackError;
use super::varint::{PackReader, PackWriter};
use crate::log::{Block, BlockKind, Log};
use crate::record::client_estimate;

/// Flags of a packed block: which optional fields follow. The low four bits are the kind.
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
    /// The result refers to a call some blocks back and shares its id, tool, path and range.
    pub const ANSWERS: u64 = 1 << 13;
    pub const CALL: u64 = 1 << 14;
    pub const ESCAPES: u64 = 1 << 15;
}

pub(super) fn pack_blocks(out: &mut PackWriter, log: &Log) {
    // A ring buffer of the latest calls: most results follow their call closely and are stored as a distance.
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
        set(block.quarters != client_estimate(block.units), block_flag::QUARTERS);
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

pub(super) fn unpack_blocks(input: &mut PackReader<'_>, log: &mut Log) -> Result<(), UnpackError> {
    let total = log
        .records
        .last()
        .map_or(0, |record| record.first_block as usize + record.blocks as usize);
    for at in 0..total {
        let flags = input.number()?;
        let kind = BlockKind::from_code(flags & 15).ok_or(UnpackError)?;
        let mut block = Block::new(kind);
        block.units = input.small()?;
        let mut take = |flag: u64, value: &mut u32| -> Result<(), UnpackError> {
            if flags & flag != 0 {
                *value = input.small()?;
            }
            Ok(())
        };
        block.quarters = client_estimate(block.units);
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
