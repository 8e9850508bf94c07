//! `cargo bench --bench recall`: the cost of one recall over 1,000 memories: the index built from texts in memory, then one
//! query; the best of several rounds. Reading the files is not included.

use memory::recall::{RecallIndex, RecallLimits, RecallWeights, StoredMemory, select_memories};
use std::hint::black_box;
use std::time::{Duration, Instant};

const MEMORIES: usize = 1_000;
const ROUNDS: usize = 20;

/// Words to make memories from: enough different ones that most are rare.
const PARTS: [&str; 40] = [
    "deploy",
    "staging",
    "review",
    "commit",
    "linter",
    "database",
    "migration",
    "ticket",
    "board",
    "release",
    "freeze",
    "mobile",
    "backend",
    "schema",
    "token",
    "session",
    "cache",
    "window",
    "prompt",
    "budget",
    "invoice",
    "customer",
    "payment",
    "search",
    "index",
    "ranking",
    "latency",
    "alert",
    "oncall",
    "incident",
    "runbook",
    "dashboard",
    "metric",
    "sampling",
    "trace",
    "replica",
    "shard",
    "queue",
    "worker",
    "retry",
];

fn main() {
    if !std::env::args().any(|argument| argument == "--bench") {
        println!("recall: run with `cargo bench --bench recall`");
        return;
    }
    let memories = (0..MEMORIES).map(memory).collect::<Vec<_>>();
    let bytes = memories.iter().map(|memory| memory.body.len()).sum::<usize>();
    println!(
        "{MEMORIES} memories, {} bytes each on average, best of {ROUNDS}",
        bytes / MEMORIES
    );
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        let started = Instant::now();
        let mut index = RecallIndex::default();
        memories.iter().for_each(|memory| memory.index_into(&mut index));
        best[0] = best[0].min(started.elapsed());
        let started = Instant::now();
        let query = "what did we agree about the retry budget of payment workers during a freeze";
        black_box(select_memories(
            &memories,
            &index,
            query,
            &RecallWeights::default(),
            &RecallLimits::default(),
            0,
        ));
        best[1] = best[1].min(started.elapsed());
    }
    for (what, took) in ["index", "query"].into_iter().zip(best) {
        println!("{what:<6} {:>8.3} ms", took.as_secs_f64() * 1e3);
    }
    println!("{:<6} {:>8.3} ms", "both", (best[0] + best[1]).as_secs_f64() * 1e3);
}

/// A memory of the usual length: a rule, its reason, how to apply it.
fn memory(number: usize) -> StoredMemory {
    let word = |at: usize| PARTS[(number * 7 + at * 13 + number / 40 * at) % PARTS.len()];
    let sentence = |at: usize| {
        format!(
            "The {} of the {}{} goes before every {} that touches {}.",
            word(at),
            word(at + 1),
            number % 97,
            word(at + 2),
            word(at + 3)
        )
    };
    StoredMemory {
        file: format!("{number}.md"),
        name: format!("{} and {}", word(0), word(1)),
        description: format!("When a {} meets a {} in the {}", word(2), word(3), word(4)),
        body: format!(
            "{}\n\n**Why:** {} {}\n\n**How to apply:** {}",
            sentence(0),
            sentence(4),
            sentence(8),
            sentence(12)
        ),
        ..StoredMemory::default()
    }
}
