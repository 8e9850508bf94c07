//! Logs of other agents: whatever the bytes, every canonical line is a whole record, places ascend, and it does not matter where a
//! log is cut into blocks.

#![no_main]

use backcast_fuzz::show;
use libfuzzer_sys::fuzz_target;
use transcript::agents::{AgentReader, CanonicalConsumer, CanonicalLines};
use transcript::bytes::LineConsumer;
use transcript::log::LineProblemKind;
use transcript::repair::{RepairOutcome, Repairer};

/// First lines that decide which reader is used.
const HEADS: [&[u8]; 4] = [
    b"{\"timestamp\":\"2026-05-05T16:20:24.754Z\",\"type\":\"session_meta\",\"payload\":{\"id\":\"t\",\"cwd\":\"/w\"}}\n",
    b"{\"type\":\"session\",\"version\":3,\"id\":\"t\",\"cwd\":\"/w\"}\n",
    b"{\"info\":{\"id\":\"ses_1\",\"directory\":\"/w\"},\n\"messages\":[",
    b"",
];

fuzz_target!(|data: &[u8]| {
    let Some((&how, rest)) = data.split_first() else { return };
    let head = HEADS[usize::from(how) % HEADS.len()];
    let log = [head, rest].concat();
    show(&log);
    let whole = translate(&[&log]);
    let mut last = (0, 0);
    for (line, offset, canonical) in &whole.lines {
        assert!((*line, *offset) >= last, "places ascend");
        last = (*line, *offset);
        let outcome = Repairer::default().read(canonical, &mut |_| ());
        assert!(
            matches!(outcome, RepairOutcome::Read { lost: false, .. }),
            "{}",
            String::from_utf8_lossy(canonical)
        );
    }
    if head.is_empty() {
        return;
    }
    // Blocks end with a line.
    for (at, _) in log.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
        let (first, second) = log.split_at(at + 1);
        if second.is_empty() {
            continue;
        }
        let parts = translate(&[first, second]);
        assert_eq!(parts.lines, whole.lines, "cut at {at}");
        assert_eq!(parts.problems, whole.problems, "cut at {at}");
    }
});

/// Everything that a reader hands on.
#[derive(Default)]
struct Collected {
    lines: Vec<(u64, u64, Vec<u8>)>,
    problems: Vec<(LineProblemKind, u64, u64)>,
}

fn translate(blocks: &[&[u8]]) -> Collected {
    let mut collected = Collected::default();
    let mut reader = AgentReader::new(&mut collected);
    let mut offset = 0;
    for block in blocks {
        reader.take_lines(block, offset);
        offset += block.len() as u64;
    }
    reader.finish();
    collected
}

impl LineConsumer for Collected {
    fn take_lines(&mut self, _bytes: &[u8], _offset: u64) {}

    fn skip_long_line(&mut self, _offset: u64, _length: u64, _head: &[u8]) {}
}

impl CanonicalConsumer for Collected {
    fn take_canonical(&mut self, lines: &CanonicalLines) {
        let found = lines.lines();
        self.lines
            .extend(found.map(|(place, line)| (place.line, place.offset, line.to_vec())));
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.problems.push((kind, line, offset));
    }

    fn count_source(&mut self, _lines: u64, _bytes: u64) {}

    fn max_line(&self) -> usize {
        1 << 20
    }
}
