//! `cargo run --release --example recalleval -- FOLDER [LEAST]`: how well recall finds what it should. The folder holds
//! `recall-dev.jsonl.zst`: a set a line, `{"set", "name", "docs": [{"id", "text", "date"}], "queries": [{"id", "text",
//! "gold", "category", "abstain"}]}`. Every set is asked twice: documents as they are, and as a directory with names and
//! descriptions, which `extract` makes of the first sentence. Plain BM25 over stems is asked beside it. LEAST is the share of
//! the best score at which an answer ends.

use language::words::{is_stop_word, text_stems};
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
    refused: usize,
    preferences: (usize, usize),
    abstained: (usize, usize),
}

fn main() {
    let folder = std::env::args().nth(1).expect("the folder of the evaluation sets");
    let packed = std::fs::read(Path::new(&folder).join("recall-dev.jsonl.zst")).expect("recall-dev.jsonl.zst");
    let bytes = zstd::decode_all(packed.as_slice()).expect("zstd");
    let text = String::from_utf8(bytes).expect("UTF-8");
    let least = std::env::args().nth(2).map(|least| least.parse().expect("a share"));
    let weights = RecallWeights {
        least: least.unwrap_or(RecallWeights::default().least),
        ..RecallWeights::default()
    };
    let mut tallies = BTreeMap::<(String, &str), Tally>::new();
    for line in text.lines() {
        let set = serde_json::from_str::<Value>(line).expect("JSON");
        let name = set["set"].as_str().expect("a name").to_owned();
        let documents = set["docs"].as_array().expect("docs");
        let queries = set["queries"].as_array().expect("queries");
        // A list that does nothing for described directories has no place.
        let without_lists = RecallWeights {
            related: 0.0,
            members: 0.0,
            ..weights
        };
        for (part, is_described, weights) in [
            ("plain", false, &weights),
            ("described", true, &weights),
            ("no lists", true, &without_lists),
        ] {
            let memories = documents
                .iter()
                .map(|document| memory(document, is_described))
                .collect::<Vec<_>>();
            let mut index = RecallIndex::default();
            memories.iter().for_each(|memory| memory.index_into(&mut index));
            for query in queries {
                let text = query["text"].as_str().expect("a text");
                let taken = select_memories(&memories, &index, text, weights, &RecallLimits::default(), 0);
                let files = taken.iter().map(|taken| memories[taken.memory].file.as_str());
                let files = files.collect::<Vec<_>>();
                tallies.entry((name.clone(), part)).or_default().count(query, &files);
            }
        }
        let memories = documents
            .iter()
            .map(|document| memory(document, false))
            .collect::<Vec<_>>();
        let baseline = Bm25::new(&memories);
        for query in queries {
            let best = baseline.best(query["text"].as_str().expect("a text"));
            let files = best
                .into_iter()
                .map(|at| memories[at].file.as_str())
                .collect::<Vec<_>>();
            tallies.entry((name.clone(), "bm25")).or_default().count(query, &files);
        }
    }
    println!(
        "{:<22} {:<9} {:>5} {:>7} {:>7} {:>7} {:>8} {:>12} {:>10}",
        "set", "documents", "n", "hit@1", "any@5", "MRR", "refused", "preferences", "abstained"
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
            "{name:<22} {part:<9} {:>5} {:>7.3} {:>7.3} {:>7.3} {:>8} {:>12} {:>10}",
            tally.asked,
            share(tally.first),
            share(tally.any),
            tally.reciprocal / tally.asked.max(1) as f64,
            tally.refused,
            of(tally.preferences),
            of(tally.abstained),
        );
    }
}

fn memory(document: &Value, is_described: bool) -> StoredMemory {
    let text = |key: &str| document[key].as_str().unwrap_or_default().to_owned();
    let first = || {
        let text = text("text");
        let sentence = text.split(['.', '!', '?', '\n']).next().unwrap_or_default();
        sentence.chars().take(90).collect::<String>()
    };
    StoredMemory {
        file: text("id"),
        name: if is_described { first() } else { String::new() },
        description: if is_described {
            format!("About this: {}", first())
        } else {
            String::new()
        },
        body: format!("{}\n{}", text("text"), text("date")),
        ..StoredMemory::default()
    }
}

/// Plain BM25 over stems without stop words.
struct Bm25 {
    documents: Vec<BTreeMap<String, f64>>,
    lengths: Vec<f64>,
    counts: BTreeMap<String, f64>,
}

impl Bm25 {
    fn new(memories: &[StoredMemory]) -> Bm25 {
        let mut found = Bm25 {
            documents: Vec::new(),
            lengths: Vec::new(),
            counts: BTreeMap::new(),
        };
        for memory in memories {
            let mut words = BTreeMap::<String, f64>::new();
            for word in text_stems(&memory.body).into_iter().filter(|word| !is_stop_word(word)) {
                *words.entry(word).or_default() += 1.0;
            }
            found.lengths.push(words.values().sum());
            for word in words.keys() {
                *found.counts.entry(word.clone()).or_default() += 1.0;
            }
            found.documents.push(words);
        }
        found
    }

    /// Returns the five best documents with a word of the query.
    fn best(&self, query: &str) -> Vec<usize> {
        let (all, mean) = (
            self.documents.len() as f64,
            self.lengths.iter().sum::<f64>() / self.documents.len().max(1) as f64,
        );
        let words = text_stems(query)
            .into_iter()
            .filter(|word| !is_stop_word(word))
            .collect::<Vec<_>>();
        let score = |at: usize| {
            let weigh = |word: &String| {
                let count = self.documents[at].get(word).copied().unwrap_or(0.0);
                let found = self.counts.get(word).copied().unwrap_or(0.0);
                let rarity = (1.0 + (all - found + 0.5) / (found + 0.5)).ln();
                rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * self.lengths[at] / mean))
            };
            words.iter().map(weigh).sum::<f64>()
        };
        let mut scored = (0..self.documents.len()).map(|at| (score(at), at)).collect::<Vec<_>>();
        scored.retain(|(score, _)| *score > 0.0);
        scored.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
        scored.into_iter().take(5).map(|(_, at)| at).collect()
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
        self.refused += usize::from(files.is_empty());
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
