//! Taking lines into a log: the fast path first, the slow path for what it declines.
//!
//! The fast path needs no newline search of its own: the walker finds the end of the object, and the newline must
//! follow it. So every byte is looked at once.

use crate::build::{LogBuffers, LogBuilder};
use crate::bytes::LineConsumer;
use crate::evidence::LineHashes;
use crate::json::{PullParser, RawParser};
use crate::log::LineProblemKind;
use crate::record::{WireBlock, WireRecord, read};
use crate::repair::Repairer;
use crate::skim::{ScanLines, StringScanner, dispatch_scan, prefetch_ahead};
use crate::texts;
use std::cell::Cell;

/// How many records are read before they are handed on. The code that reads and the code that takes what was read each fill
/// most of a processor's first cache: taking turns line by line, each would push the other out.
const BATCH_RECORDS: usize = 16;

/// More blocks than a line usually has.
const MAX_SPARE_BLOCKS: usize = 32;

thread_local! {
    /// Records of a batch with nothing in them, as the last one of this thread left them: fresh memory for every block of a log
    /// would cost more than what is read into it.
    static SPARE: Cell<Vec<WireRecord<'static>>> = const { Cell::new(Vec::new()) };
}

/// Accepted records that the builder has yet to take, in their order.
struct WalkBatch<'a> {
    records: Vec<WireRecord<'a>>,
    /// Number of the line and where it starts, of each that waits.
    places: Vec<(u64, usize)>,
}

impl<'a> WalkBatch<'a> {
    /// An empty one, of records that another one had.
    fn with_buffer(mut records: Vec<WireRecord<'a>>) -> Self {
        records.resize_with(BATCH_RECORDS, WireRecord::default);
        WalkBatch {
            records,
            places: Vec::with_capacity(BATCH_RECORDS),
        }
    }

    /// Its records with nothing in them but room for blocks.
    fn into_cleared_records(self) -> Vec<WireRecord<'static>> {
        let empty = |record: WireRecord<'_>| WireRecord {
            blocks: clear_blocks(record.blocks),
            ..WireRecord::default()
        };
        self.records.into_iter().map(empty).collect()
    }
}

/// Room for blocks that borrow from somewhere else, but for that of very many: it would be held for as long as the thread lives.
/// A list that is collected from another of the same layout takes over its memory.
fn clear_blocks(mut blocks: Vec<WireBlock<'_>>) -> Vec<WireBlock<'static>> {
    if blocks.capacity() > MAX_SPARE_BLOCKS {
        return Vec::new();
    }
    blocks.clear();
    blocks.into_iter().map(|_| WireBlock::default()).collect()
}

/// Reads lines into a [`Builder`].
pub struct Walker<'p> {
    builder: LogBuilder,
    repairer: Repairer,
    max_line: usize,
    /// Hashes of content lines, if they are wanted.
    line_hashes: Option<LineHashes>,
    /// Runs of members remembered so far; see [`Raw::after_runs`].
    runs: u32,
    progress: &'p (dyn Fn(u64) + Sync),
}

impl<'p> Walker<'p> {
    /// Starts a log or a part of one. `progress` is told how many bytes were taken, block by block.
    pub fn new(max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> Walker<'p> {
        Walker::with_buffers(LogBuffers::default(), max_line, progress)
    }

    /// The same, in room that another one had.
    pub fn with_buffers(room: LogBuffers, max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> Walker<'p> {
        Walker {
            builder: LogBuilder::new(room),
            repairer: Repairer::default(),
            max_line,
            line_hashes: None,
            runs: 0,
            progress,
        }
    }

    /// Gathers hashes of content lines too. Lines that had to be repaired give none: what they held counts as never seen.
    pub fn with_line_hashes(self) -> Walker<'p> {
        Walker {
            line_hashes: Some(LineHashes::default()),
            ..self
        }
    }

    /// Makes room for about `bytes` of log.
    pub fn reserve_for(&mut self, bytes: u64) {
        self.builder.reserve_for(bytes);
    }

    /// The log so far.
    pub fn into_builder(self) -> LogBuilder {
        self.builder
    }

    /// The log so far, and its line hashes if they were wanted.
    pub fn into_parts(self) -> (LogBuilder, Option<LineHashes>) {
        (self.builder, self.line_hashes)
    }

    /// Hands the records of a batch on.
    fn flush_batch<S: StringScanner>(&mut self, batch: &mut WalkBatch<'_>, bytes: &[u8], offset: u64) {
        for (record, (line, at)) in std::iter::zip(&batch.records, batch.places.drain(..)) {
            let first_block = self.builder.block_count();
            self.builder.push(record, line, offset + at as u64);
            if let Some(evidence) = &mut self.line_hashes
                && self.builder.block_count() > first_block
            {
                gather_lines(RawParser::<S>::new(bytes, at), first_block, evidence);
            }
        }
    }

    /// The slow path for one line.
    #[cold]
    fn repair_line(&mut self, line: &[u8], number: u64, offset: u64, is_complete: bool) {
        if line.len() > self.max_line {
            self.skip_long_record(number, offset, line);
            return;
        }
        let builder = &mut self.builder;
        let outcome = self
            .repairer
            .read(line, &mut |record| builder.push(record, number, offset));
        if let Some(trouble) = outcome.line_problem(is_complete) {
            self.builder.add_problem(trouble, number, offset);
        }
    }

    /// A line too long to be held. Snapshots of files grow without bound and are of no use here: they are counted
    /// like short ones. Anything else is trouble.
    fn skip_long_record(&mut self, number: u64, offset: u64, head: &[u8]) {
        let snapshot = b"{\"type\":\"file-history-snapshot\"";
        if head.starts_with(snapshot) {
            self.builder.count_kind("file-history-snapshot");
        } else {
            self.builder.add_problem(LineProblemKind::TooLong, number, offset);
        }
    }
}

/// Hashes the content lines of an accepted record.
fn gather_lines<S: StringScanner>(mut raw: RawParser<'_, S>, first_block: u32, evidence: &mut LineHashes) {
    let mut buffer = String::new();
    let done = texts::read(&mut raw, &mut |block, role, text| {
        evidence.add(first_block + block, role, text.decode(&mut buffer));
    });
    debug_assert!(done.is_ok(), "the record was accepted");
}

impl ScanLines for Walker<'_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let mut batch = WalkBatch::with_buffer(SPARE.take());
        let mut lines = self.builder.lines();
        let (mut at, mut faulted) = (0, 0);
        let mut raw = RawParser::<S>::new(bytes, at).with_run_offset(self.runs);
        while at < bytes.len() {
            lines += 1;
            raw.restart(at);
            prefetch_ahead(bytes, at, &mut faulted);
            let record = &mut batch.records[batch.places.len()];
            let end = match read(&mut raw, record).and_then(|()| raw.end_of_line()) {
                Ok(end) if end - at <= self.max_line => {
                    batch.places.push((lines, at));
                    if batch.places.len() == BATCH_RECORDS {
                        self.flush_batch::<S>(&mut batch, bytes, offset);
                    }
                    end
                }
                // Only a mapped file shows a line that is too long to be held; it is treated as if it had been read.
                Ok(end) => {
                    self.flush_batch::<S>(&mut batch, bytes, offset);
                    self.skip_long_record(lines, offset + at as u64, &bytes[at..]);
                    end
                }
                Err(_) => {
                    self.flush_batch::<S>(&mut batch, bytes, offset);
                    let reached = raw.position();
                    let newline = memchr::memchr(b'\n', &bytes[reached..]);
                    let end = newline.map_or(bytes.len(), |found| reached + found + 1);
                    self.repair_line(&bytes[at..end], lines, offset + at as u64, newline.is_some());
                    end
                }
            };
            at = end;
        }
        self.flush_batch::<S>(&mut batch, bytes, offset);
        self.builder
            .count_lines(lines - self.builder.lines(), bytes.len() as u64);
        self.runs = raw.run_number();
        SPARE.set(batch.into_cleared_records());
    }
}

impl LineConsumer for Walker<'_> {
    fn take_lines(&mut self, bytes: &[u8], offset: u64) {
        dispatch_scan(self, bytes, offset);
        (self.progress)(bytes.len() as u64);
    }

    fn skip_long_line(&mut self, offset: u64, length: u64, head: &[u8]) {
        let number = self.builder.lines() + 1;
        self.skip_long_record(number, offset, head);
        self.builder.count_lines(1, length);
        (self.progress)(length);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_passed_on_empty_and_with_room_for_a_few_blocks() {
        let mut batch = WalkBatch::with_buffer(Vec::new());
        batch.records[0].is_meta = true;
        batch.records[0].blocks = vec![WireBlock::default(); MAX_SPARE_BLOCKS];
        batch.records[1].blocks = vec![WireBlock::default(); MAX_SPARE_BLOCKS + 1];
        let memory = batch.records.as_ptr().addr();
        let records = batch.into_cleared_records();
        assert_eq!((records.len(), records.as_ptr().addr()), (BATCH_RECORDS, memory));
        assert!(records.iter().all(|record| !record.is_meta && record.blocks.is_empty()));
        assert_eq!(
            [0, 1].map(|at: usize| records[at].blocks.capacity()),
            [MAX_SPARE_BLOCKS, 0]
        );
        assert_eq!(WalkBatch::with_buffer(records).records.as_ptr().addr(), memory);
    }
}
