//! Logs of other agents: whatever the bytes, every canonical line is a whole record, places ascend, and it does not matter where a
//! log is cut into blocks. A line of Codex that serde_json accepts is read, and means what serde_json says that it means.

#![no_main]

use backcast_fuzz::show;
use libfuzzer_sys::fuzz_target;
use transcript::agents::{AgentReader, CanonicalConsumer, CanonicalLines};
use transcript::bytes::LineConsumer;
use serde_json::Value;
use transcript::log::LineProblemKind;
use transcript::record::MAX_COUNT;
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
    if head == HEADS[0] {
        rest.split(|byte| *byte == b'\n').for_each(check_codex_line);
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
    kinds: Vec<String>,
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

    fn count_kind(&mut self, kind: &str) {
        self.kinds.push(kind.to_owned());
    }

    fn add_line_problem(&mut self, kind: LineProblemKind, line: u64, offset: u64) {
        self.problems.push((kind, line, offset));
    }

    fn count_source(&mut self, _lines: u64, _bytes: u64) {}

    fn max_line(&self) -> usize {
        1 << 20
    }
}

/// Compares one line of Codex with what serde_json makes of it.
fn check_codex_line(line: &[u8]) {
    let Ok(value) = serde_json::from_slice::<Value>(line) else { return };
    let (Some(kind), true) = (value["type"].as_str(), value.get("payload").is_some()) else {
        return;
    };
    let read = translate(&[&[HEADS[0], line, b"\n"].concat()]);
    // Kinds are words: what needs an escape is none.
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"\\".contains(&byte));
    let words = [Some(kind), value["payload"]["type"].as_str(), value["payload"]["role"].as_str()];
    if !words.into_iter().flatten().all(is_word) {
        return;
    }
    let payload = &value["payload"];
    let detail = payload["type"].as_str().filter(|_| matches!(kind, "response_item" | "event_msg"));
    let name = detail.map_or(kind.to_owned(), |detail| format!("{kind}/{detail}"));
    assert_eq!(read.kinds, ["session_meta".to_owned(), name.clone()], "{value}");
    if name == "event_msg/token_count" {
        let usage = read.lines.iter().filter_map(|(_, _, line)| {
            let record = serde_json::from_slice::<Value>(line).expect("canonical lines are JSON");
            let usage = record["message"].get("usage")?.clone();
            let count = |key: &str| usage[key].as_u64().expect("a count");
            Some([
                count("input_tokens"),
                count("output_tokens"),
                count("cache_creation_input_tokens"),
                count("cache_read_input_tokens"),
            ])
        });
        assert_eq!(usage.collect::<Vec<_>>(), expected_usage(&payload["info"]).into_iter().collect::<Vec<_>>());
    }
}

/// Returns input, output, cache writes and cache reads of the first row of a log; `None` if it is no call.
fn expected_usage(info: &Value) -> Option<[u64; 4]> {
    let object = |key: &str| info.get(key).filter(|counts| counts.is_object());
    let total = object("total_token_usage").or_else(|| object("last_token_usage"))?;
    let last = object("last_token_usage").unwrap_or(total);
    let count = |key: &str| last[key].as_u64().filter(|count| *count <= MAX_COUNT).unwrap_or(0);
    let (input, output) = (count("input_tokens"), count("output_tokens"));
    let (cached, write) = (count("cached_input_tokens"), count("cache_write_input_tokens"));
    let fresh = input.saturating_sub(cached + write);
    (input > 0 || output > 0).then_some([fresh, output, write.min(input), cached.min(input)])
}
