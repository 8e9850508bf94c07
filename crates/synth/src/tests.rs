//! Tests of the generator itself: same bytes for the same options, sizes as asked, lines that parse, and a truth that
//! a recount of the written files agrees with.

use crate::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A folder of the test's own, removed at the end.
struct ScratchFolder(PathBuf);

impl ScratchFolder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("synth-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn files_below(dir: &Path, found: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files_below(&path, found);
        } else {
            found.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
}

/// Every file below `dir` by its path relative to it.
fn tree(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    files_below(dir, &mut found);
    found
        .into_iter()
        .map(|(path, bytes)| (path.strip_prefix(dir).unwrap().to_owned(), bytes))
        .collect()
}

fn logs(dir: &Path) -> Vec<Vec<u8>> {
    let is_log = |path: &Path| path.extension().is_some_and(|ending| ending == "jsonl");
    tree(dir)
        .into_iter()
        .filter(|(path, _)| is_log(path))
        .map(|(_, bytes)| bytes)
        .collect()
}

/// The largest output of a response, and the rest of its usage.
type BilledCounts = (u64, [u64; 4]);

/// The plain recount: one response per message id, the line with the largest output wins.
fn recount(dir: &Path) -> TruthTally {
    let mut best: BTreeMap<String, BilledCounts> = BTreeMap::new();
    for log in logs(dir) {
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record: Value = serde_json::from_slice(line).unwrap();
            let message = &record["message"];
            if record["type"] != "assistant" || message["model"] == "<synthetic>" || !message["usage"].is_object() {
                continue;
            }
            let one = |usage: &Value| {
                let field = |key: &str| usage[key].as_u64().unwrap_or(0);
                let hour = usage["cache_creation"]["ephemeral_1h_input_tokens"]
                    .as_u64()
                    .unwrap_or(0);
                let made = field("cache_creation_input_tokens");
                let read = field("cache_read_input_tokens");
                (
                    field("output_tokens"),
                    [field("input_tokens"), read, made.saturating_sub(hour), hour.min(made)],
                )
            };
            let mut billed = one(&message["usage"]);
            if billed == (0, [0; 4]) {
                billed = one(&message["usage"]["iterations"][0]);
            }
            let entry = best.entry(message["id"].as_str().unwrap().to_owned()).or_insert(billed);
            if billed.0 > entry.0 {
                *entry = billed;
            }
        }
    }
    let mut total = TruthTally::default();
    for (
        output_tokens,
        [
            input_tokens,
            cache_read_tokens,
            cache_write_5m_tokens,
            cache_write_1h_tokens,
        ],
    ) in best.into_values()
    {
        total.add(&TruthTally {
            responses: 1,
            input_tokens,
            output_tokens,
            cache_read_tokens,
            cache_write_5m_tokens,
            cache_write_1h_tokens,
        });
    }
    total
}

fn options(bytes: u64, files: u32, corruption: f64) -> BulkOptions {
    BulkOptions {
        seed: 42,
        bytes,
        files,
        corruption,
    }
}

#[test]
fn same_options_give_the_same_bytes() {
    let (one, two) = (ScratchFolder::new("same-1"), ScratchFolder::new("same-2"));
    let options = options(3_000_000, 25, 0.01);
    let first = write_bulk(&one.0, &options, &|_| ()).unwrap();
    let second = write_bulk(&two.0, &options, &|_| ()).unwrap();
    assert_eq!(first, second);
    assert!(tree(&one.0) == tree(&two.0), "two runs of one seed differ");
    let other = ScratchFolder::new("same-3");
    write_bulk(&other.0, &BulkOptions { seed: 43, ..options }, &|_| ()).unwrap();
    assert!(tree(&one.0) != tree(&other.0), "the seed changes nothing");
}

#[test]
fn files_were_written_when_their_last_record_was() {
    let place = ScratchFolder::new("times");
    write_bulk(&place.0, &options(300_000, 6, 0.0), &|_| ()).unwrap();
    let mut logs = tree(&place.0);
    logs.retain(|path, _| path.extension().is_some_and(|end| end == "jsonl"));
    assert_eq!(logs.len(), 6);
    for (path, bytes) in logs {
        let text = String::from_utf8_lossy(&bytes);
        let stamps = text.match_indices("\"timestamp\":\"").map(|(at, key)| {
            let stamp = &text[at + key.len()..];
            stamp[..stamp.find('"').unwrap()].parse::<jiff::Timestamp>().unwrap()
        });
        let last = stamps.max().unwrap();
        let modified = fs::metadata(place.0.join(&path)).unwrap().modified().unwrap();
        let after = jiff::Timestamp::try_from(modified).unwrap().duration_since(last);
        // The last record may be followed by a pause.
        assert!((0..24 * 3600).contains(&after.as_secs()), "{path:?}: {after}");
    }
}

#[test]
fn sizes_and_counts_are_as_asked() {
    for (bytes, files) in [(1_000_000, 1), (4_000_000, 40), (12_000_000, 7)] {
        let scratch = ScratchFolder::new(&format!("size-{files}"));
        let truth = write_bulk(&scratch.0, &options(bytes, files, 0.0), &|_| ()).unwrap();
        let logs = logs(&scratch.0);
        let written: u64 = logs.iter().map(|log| log.len() as u64).sum();
        assert_eq!(written, truth.bytes);
        assert!(
            written.abs_diff(bytes) * 50 <= bytes,
            "{written} bytes instead of {bytes}"
        );
        assert_eq!(logs.len() as u64, u64::from(files));
        assert_eq!(truth.files, u64::from(files));
        assert_eq!(truth.sessions + truth.subagents, truth.files);
    }
}

#[test]
fn undamaged_lines_parse_and_the_recount_agrees() {
    let scratch = ScratchFolder::new("recount");
    let truth = write_bulk(&scratch.0, &options(16_000_000, 60, 0.0), &|_| ()).unwrap();
    assert_eq!(recount(&scratch.0), truth.totals);
    let mut lines = 0;
    let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
    for log in logs(&scratch.0) {
        assert_eq!(log.last(), Some(&b'\n'));
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record: Value = serde_json::from_slice(line).unwrap();
            *kinds.entry(record["type"].as_str().unwrap().to_owned()).or_default() += 1;
            lines += 1;
        }
    }
    assert_eq!(lines, truth.lines);
    assert_eq!(kinds, truth.records);
    let by_model = truth.models.values().fold(TruthTally::default(), |mut sum, tally| {
        sum.add(tally);
        sum
    });
    assert_eq!(by_model, truth.totals);
}

#[test]
fn damage_is_counted_and_only_hits_its_line() {
    let scratch = ScratchFolder::new("damage");
    let truth = write_bulk(&scratch.0, &options(6_000_000, 20, 0.03), &|_| ()).unwrap();
    let listed: u64 = truth.damaged_lines.values().sum();
    assert!(listed > 20 && truth.lost_records > 0, "{:?}", truth.damaged_lines);
    let unparsed = logs(&scratch.0)
        .iter()
        .flat_map(|log| log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()))
        .filter(|line| serde_json::from_slice::<Value>(line).is_err())
        .count() as u64;
    // CR LF and numeric keys are the two kinds that strict JSON accepts.
    let accepted: u64 = ["crlf", "numeric_keys"]
        .iter()
        .filter_map(|kind| truth.damaged_lines.get(kind))
        .sum();
    assert_eq!(unparsed, listed - accepted);
}

#[test]
fn parents_come_before_their_children() {
    let scratch = ScratchFolder::new("parents");
    write_bulk(&scratch.0, &options(8_000_000, 12, 0.0), &|_| ()).unwrap();
    for log in logs(&scratch.0) {
        let mut seen = std::collections::BTreeSet::new();
        for line in log.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let record: Value = serde_json::from_slice(line).unwrap();
            // A sub-agent's replay of a main record is the one that has its parent elsewhere.
            let copied = record["isSidechain"] == true && seen.is_empty();
            if let Some(parent) = record["parentUuid"].as_str().filter(|_| !copied) {
                assert!(seen.contains(parent), "{parent} is not above {}", record["uuid"]);
            }
            if let Some(uuid) = record["uuid"].as_str() {
                seen.insert(uuid.to_owned());
            }
        }
    }
}

#[test]
fn the_corpus_is_small_whole_and_repeatable() {
    let (one, two) = (ScratchFolder::new("corpus-1"), ScratchFolder::new("corpus-2"));
    write_corpus(&one.0).unwrap();
    write_corpus(&two.0).unwrap();
    let files = tree(&one.0);
    assert!(files == tree(&two.0), "two corpora differ");
    let size: usize = files.values().map(Vec::len).sum();
    assert!(size < 3_500_000, "the corpus has grown to {size} bytes");
    for (name, proves) in cases() {
        assert!(!proves.is_empty());
        let expected: Value = serde_json::from_slice(&files[&Path::new(name).join("expected.json")]).unwrap();
        assert_eq!(expected["schema_version"], 1);
        assert_eq!(expected["case"], *name);
    }
}

#[test]
fn cases_show_what_they_promise() {
    let scratch = ScratchFolder::new("cases");
    write_corpus(&scratch.0).unwrap();
    let expected = |name: &str| -> Value {
        serde_json::from_slice(&fs::read(scratch.0.join(name).join("expected.json")).unwrap()).unwrap()
    };
    for (name, key, value) in [
        ("boundary-auto", "boundaries_auto", 2),
        ("boundary-manual", "boundaries_manual", 1),
        ("boundary-micro", "boundaries_micro", 1),
        ("boundary-micro", "boundaries_auto", 0),
        ("preserved-segment", "boundaries_auto", 1),
        ("rewind", "rewound_branches", 1),
        ("subagents-nested", "subagents", 2),
        ("live-tail", "pending_tails", 1),
        ("spliced-records", "lost_records", 1),
        ("glued-records", "lost_records", 0),
        ("sidechain-replay", "copied_records", 1),
    ] {
        assert_eq!(expected(name)[key], value, "{name}: {key}");
    }
    for name in [
        "plain",
        "streaming-partials",
        "missing-request-id",
        "forked-copies",
        "sidechain-replay",
        "several-iterations",
        "zeroed-usage",
        "preserved-segment",
        "synthetic-model",
        "crlf",
        "no-final-newline",
    ] {
        let totals = &expected(name)["totals"];
        let found = recount(&scratch.0.join(name));
        assert_eq!(totals["responses"], found.responses, "{name}");
        assert_eq!(totals["input_tokens"], found.input_tokens, "{name}");
        assert_eq!(totals["output_tokens"], found.output_tokens, "{name}");
        assert_eq!(totals["cache_read_tokens"], found.cache_read_tokens, "{name}");
        assert_eq!(totals["cache_write_5m_tokens"], found.cache_write_5m_tokens, "{name}");
        assert_eq!(totals["cache_write_1h_tokens"], found.cache_write_1h_tokens, "{name}");
    }
}
