//! `cargo run --release --example recalleval -- FOLDER [FIT]`: how well recall finds what it should. The folder holds
//! `recall-dev.jsonl.zst`: a set a line, `{"set", "name", "docs": [{"id", "text", "date"}], "queries": [{"id", "text",
//! "gold", "category", "abstain"}]}`. Every set is asked with the one default setting; even and odd queries are shown apart
//! as well, so that a setting that fits one half only is seen. FIT is the threshold below which the answer is empty.

use memory::recall::{RecallIndex, RecallLimits, RecallWeights, StoredMemory, select_memories};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Default, Clone)]
struct Tally {
    asked: usize,
    first: usize,
    any: usize,
    reciprocal: f64,
    preferences: (usize, usize),
    abstained: (usize, usize),
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the evaluation sets");
    let packed = std::fs::read(Path::new(&folder).join("recall-dev.jsonl.zst")).expect("recall-dev.jsonl.zst");
    let bytes = zstd::decode_all(packed.as_slice()).expect("zstd");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let fit = std::env::args().nth(2).map(|fit| fit.parse().expect("a share"));
    let weights = RecallWeights {
        fit: fit.unwrap_or(RecallWeights::default().fit),
        ..RecallWeights::default()
    };
    let mut tallies = BTreeMap::<(String, &str), Tally>::new();
    for line in text.lines() {
        let set = serde_json::from_str::<Value>(line).expect("JSON");
        let name = set["set"].as_str().expect("a name").to_owned();
        let memories = set["docs"]
            .as_array()
            .expect("docs")
            .iter()
            .map(memory)
            .collect::<Vec<_>>();
        let mut index = RecallIndex::default();
        memories.iter().for_each(|memory| memory.index_into(&mut index));
        for (at, query) in set["queries"].as_array().expect("queries").iter().enumerate() {
            let text = query["text"].as_str().expect("a text");
            let taken = select_memories(&memories, &index, text, &weights, &RecallLimits::default(), 0);
            let files = taken
                .iter()
                .map(|taken| memories[taken.memory].file.as_str())
                .collect::<Vec<_>>();
            for part in ["all", if at % 2 == 0 { "even" } else { "odd" }] {
                tallies.entry((name.clone(), part)).or_default().count(query, &files);
            }
        }
    }
    println!(
        "{:<22} {:<5} {:>5} {:>7} {:>7} {:>7} {:>12} {:>10}",
        "set", "part", "n", "hit@1", "any@5", "MRR", "preferences", "abstained"
    );
    for ((name, part), tally) in tallies {
        let share = |count: usize| count as f64 / tally.asked.max(1) as f64;
        let of = |(count, all): (usize, usize)| {
            if all == 0 {
                String::new()
            } else {
                format!("{count}/{all}")
            }
        };
        println!(
            "{name:<22} {part:<5} {:>5} {:>7.3} {:>7.3} {:>7.3} {:>12} {:>10}",
            tally.asked,
            share(tally.first),
            share(tally.any),
            tally.reciprocal / tally.asked.max(1) as f64,
            of(tally.preferences),
            of(tally.abstained),
        );
    }
}

fn memory(document: &Value) -> StoredMemory {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    StoredMemory {
        file: text("id"),
        body: format!("{}\n{}", text("text"), text("date")),
        ..StoredMemory::default()
    }
}

impl Tally {
    fn count(&mut self, query: &Value, files: &[&str]) {
        if query["abstain"] == true {
            self.abstained.0 += usize::from(files.is_empty());
            self.abstained.1 += 1;
            return;
        }
        let gold = query["gold"]
            .as_array()
            .expect("gold")
            .iter()
            .filter_map(Value::as_str)
            .collect::<Vec<_>>();
        let rank = files.iter().position(|file| gold.contains(file));
        self.asked += 1;
        self.any += usize::from(rank.is_some());
        self.first += usize::from(rank == Some(0));
        self.reciprocal += rank.map_or(0.0, |rank| 1.0 / (rank + 1) as f64);
        if query["category"]
            .as_str()
            .is_some_and(|category| category.contains("preference"))
        {
            self.preferences.0 += usize::from(rank.is_some());
            self.preferences.1 += 1;
        }
    }
}
