//! Parses lines into a log: the fast path first, the slow path for lines it declines.
//!
//! The fast path needs no separate newline search: the parser finds the end of the object, and the newline must follow.
//! Every byte is therefore visited once.

use crate::agents::{Agent, CanonicalConsumer, CanonicalLines, LinePlace};
use crate::build::{LogBuffers, LogBuilder};
use crate::bytes::LineConsumer;
use crate::json::{PullParser, RawParser};
use crate::line_hashes::LineHashes;
use crate::log::LineProblemKind;
use crate::record::{WireBlock, WireRecord, read};
use crate::repair::Repairer;
use crate::skim::{ScanLines, StringScanner, dispatch_scan, prefetch_ahead};
use crate::text_visitor::visit_texts;
use std::cell::Cell;

/// Records that are parsed before the builder takes them. The code of the parser and the code of the builder each fill
/// most of the L1 instruction cache; alternating per line would evict one for the other every time.
const BATCH_RECORDS: usize = 16;

/// Capacity for blocks that a spare record may keep; few lines have more.
const MAX_SPARE_BLOCKS: usize = 32;

thread_local! {
    /// A pool of cleared records, kept from block to block of a log: allocating them anew would cost more than parsing
    /// into them.
    static SPARE: Cell<Vec<WireRecord<'static>>> = const { Cell::new(Vec::new()) };
}

/// Parsed records that wait for the builder, in order.
struct WalkBatch<'a> {
    records: Vec<WireRecord<'a>>,
    /// Where each waiting record comes from and where it starts.
    places: Vec<LinePlace>,
}

impl<'a> WalkBatch<'a> {
    /// Creates an empty batch from pooled records.
    fn with_buffer(mut records: Vec<WireRecord<'a>>) -> Self {
        records.resize_with(BATCH_RECORDS, WireRecord::default);
        WalkBatch {
            records,
            places: Vec::with_capacity(BATCH_RECORDS),
        }
    }

    /// Returns the records to the pool, cleared.
    fn into_cleared_records(self) -> Vec<WireRecord<'static>> {
        let empty = |record: WireRecord<'_>| WireRecord {
            blocks: clear_blocks(record.blocks),
            ..WireRecord::default()
        };
        self.records.into_iter().map(empty).collect()
    }
}

/// Clears a list of blocks and changes its lifetime. Lists with a large capacity are dropped, because they would stay
/// allocated as long as the thread lives. Collecting a `Vec` from a `Vec` of the same layout reuses the allocation in
/// practice; std does not promise it, and only speed depends on it.
fn clear_blocks(mut blocks: Vec<WireBlock<'_>>) -> Vec<WireBlock<'static>> {
    if blocks.capacity() > MAX_SPARE_BLOCKS {
        return Vec::new();
    }
    blocks.clear();
    blocks.into_iter().map(|_| WireBlock::default()).collect()
}

/// Parses lines into a [`LogBuilder`].
pub struct Walker<'p> {
    builder: LogBuilder,
    repairer: Repairer,
    max_line: usize,
    /// Hashes of content lines, if requested.
    line_hashes: Option<LineHashes>,
    /// Number of memoized runs so far; see [`RawParser::with_run_offset`].
    runs: u32,
    progress: &'p (dyn Fn(u64) + Sync),
}

impl<'p> Walker<'p> {
    /// Starts a log or a part of one. `progress` is called with the number of bytes read, block by block.
    pub fn new(max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> Walker<'p> {
        Walker::with_buffers(LogBuffers::default(), max_line, progress)
    }

    /// Starts a log, reusing the buffers of another one.
    pub fn with_buffers(buffers: LogBuffers, max_line: usize, progress: &'p (dyn Fn(u64) + Sync)) -> Walker<'p> {
        Walker {
            builder: LogBuilder::new(buffers),
            repairer: Repairer::default(),
            max_line,
            line_hashes: None,
            runs: 0,
            progress,
        }
    }

    /// Enables hashes of content lines. Repaired lines contribute none: their content counts as never seen.
    pub fn with_line_hashes(self) -> Walker<'p> {
        Walker {
            line_hashes: Some(LineHashes::default()),
            ..self
        }
    }

    /// Reserves room for about `bytes` of log.
    pub fn reserve_for(&mut self, bytes: u64) {
        self.builder.reserve_for(bytes);
    }

    /// Returns the log so far.
    pub fn into_builder(self) -> LogBuilder {
        self.builder
    }

    /// Returns the log so far, and the line hashes if they were requested.
    pub fn into_parts(self) -> (LogBuilder, Option<LineHashes>) {
        (self.builder, self.line_hashes)
    }

    /// Passes the waiting records to the builder.
    fn flush_batch<S: StringScanner>(&mut self, batch: &mut WalkBatch<'_>, bytes: &[u8]) {
        for (record, LinePlace { line, offset, at }) in std::iter::zip(&batch.records, batch.places.drain(..)) {
            let first_block = self.builder.block_count();
            self.builder.push(record, line, offset);
            if let Some(hashes) = &mut self.line_hashes
                && self.builder.block_count() > first_block
            {
                hash_lines(RawParser::<S>::new(bytes, at), first_block, hashes);
            }
        }
    }

    /// Reads one line by the slow path.
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
        if let Some(problem) = outcome.line_problem(is_complete) {
            self.builder.add_problem(problem, number, offset);
        }
    }

    /// Skips a line that is too long. File-history snapshots grow without bound and are not used, so they are counted
    /// like short ones. Anything else is a problem.
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
fn hash_lines<S: StringScanner>(mut parser: RawParser<'_, S>, first_block: u32, hashes: &mut LineHashes) {
    let mut buffer = String::new();
    let done = visit_texts(&mut parser, &mut |block, role, text| {
        hashes.add(first_block + block, role, text.decode(&mut buffer));
    });
    debug_assert!(done.is_ok(), "the record was accepted");
}

impl ScanLines for Walker<'_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], offset: u64) {
        let mut batch = WalkBatch::with_buffer(SPARE.take());
        let mut lines = self.builder.lines();
        let (mut at, mut faulted) = (0, 0);
        let mut parser = RawParser::<S>::new(bytes, at).with_run_offset(self.runs);
        while at < bytes.len() {
            lines += 1;
            parser.restart(at);
            // Start loading the next lines while this one is parsed.
            prefetch_ahead(bytes, at, &mut faulted);
            // Parse into the next free record of the batch; it counts only once its place is pushed.
            let record = &mut batch.records[batch.places.len()];
            let end = match read(&mut parser, record).and_then(|()| parser.end_of_line()) {
                Ok(end) if end - at <= self.max_line => {
                    batch.places.push(LinePlace {
                        line: lines,
                        offset: offset + at as u64,
                        at,
                    });
                    if batch.places.len() == BATCH_RECORDS {
                        self.flush_batch::<S>(&mut batch, bytes);
                    }
                    end
                }
                // Only a mapped file can present a line above the limit; it is skipped like one that was read in
                // blocks.
                Ok(end) => {
                    self.flush_batch::<S>(&mut batch, bytes);
                    self.skip_long_record(lines, offset + at as u64, &bytes[at..]);
                    end
                }
                // Declined: keep the order of records, find the end of the line from where the parser stopped, and repair.
                Err(_) => {
                    self.flush_batch::<S>(&mut batch, bytes);
                    let reached = parser.position();
                    let newline = memchr::memchr(b'\n', &bytes[reached..]);
                    let end = newline.map_or(bytes.len(), |found| reached + found + 1);
                    self.repair_line(&bytes[at..end], lines, offset + at as u64, newline.is_some());
                    end
                }
            };
            at = end;
        }
        self.flush_batch::<S>(&mut batch, bytes);
        self.builder
            .count_lines(lines - self.builder.lines(), bytes.len() as u64);
        self.runs = parser.run_number();
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

/// Canonical lines on their way through a walker.
struct CanonicalWalk<'w, 'p> {
    walker: &'w mut Walker<'p>,
    lines: &'w CanonicalLines,
}

impl ScanLines for CanonicalWalk<'_, '_> {
    fn scan_lines<S: StringScanner>(&mut self, bytes: &[u8], _offset: u64) {
        let mut batch = WalkBatch::with_buffer(SPARE.take());
        let mut parser = RawParser::<S>::new(bytes, 0).with_run_offset(self.walker.runs);
        for (place, line) in self.lines.lines() {
            parser.restart(place.at);
            let record = &mut batch.records[batch.places.len()];
            match read(&mut parser, record).and_then(|()| parser.end_of_line()) {
                Ok(_) => batch.places.push(place),
                Err(_) => {
                    self.walker.flush_batch::<S>(&mut batch, bytes);
                    self.walker.repair_line(line, place.line, place.offset, true);
                }
            }
            if batch.places.len() == BATCH_RECORDS {
                self.walker.flush_batch::<S>(&mut batch, bytes);
            }
        }
        self.walker.flush_batch::<S>(&mut batch, bytes);
        self.walker.runs = parser.run_number();
        SPARE.set(batch.into_cleared_records());
    }
}

impl CanonicalConsumer for Walker<'_> {
    fn take_canonical(&mut self, lines: &CanonicalLines) {
        dispatch_scan(&mut CanonicalWalk { walker: self, lines }, &lines.bytes, 0);
    }

    fn count_kind(&mut self, kind: &str) {
        self.builder.count_kind(kind);
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.builder.add_problem(kind, line, offset);
    }

    fn count_source(&mut self, lines: u64, bytes: u64) {
        self.builder.count_lines(lines, bytes);
        (self.progress)(bytes);
    }

    fn set_agent(&mut self, agent: Agent) {
        self.builder.set_agent(agent);
    }

    fn add_lineage(&mut self, thread: &str) {
        self.builder.add_lineage(thread);
    }

    fn max_line(&self) -> usize {
        self.max_line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_reuses_pooled_records() {
        let pooled = WireRecord {
            blocks: Vec::with_capacity(7),
            ..WireRecord::default()
        };
        let batch = WalkBatch::with_buffer(vec![pooled]);
        assert_eq!(batch.records.len(), BATCH_RECORDS);
        assert!(batch.records[0].blocks.capacity() >= 7);
    }

    #[test]
    fn records_return_to_the_pool_cleared_and_small() {
        let line = |blocks: usize| {
            let texts = vec![r#"{"type":"text","text":"a"}"#; blocks].join(",");
            format!(r#"{{"type":"user","uuid":"u","isMeta":true,"message":{{"content":[{texts}]}}}}"#) + "\n"
        };
        let mut walker = Walker::new(1 << 20, &|_| ());
        walker.take_lines((line(1) + &line(4 * MAX_SPARE_BLOCKS)).as_bytes(), 0);
        assert_eq!(walker.builder.block_count() as usize, 1 + 4 * MAX_SPARE_BLOCKS);
        let pool = SPARE.take();
        assert_eq!(pool.len(), BATCH_RECORDS);
        for record in &pool {
            assert!(!record.is_meta && record.uuid.is_none() && record.blocks.is_empty());
            assert!(record.blocks.capacity() <= MAX_SPARE_BLOCKS);
        }
    }
}
