//! `backcast memory recall`.

use super::{folder, now};
use crate::cli::memory::{RecallArgs, Shape};
use crate::commands::policy::of_memories;
use crate::commands::{Ending, print};
use crate::memory::memdir::Memdir;
use crate::memory::recall::{Index, Limits, Memory, Taken, Weights, pick};
use anyhow::{Context, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;

/// A line of `--queries`.
#[derive(Deserialize)]
struct Query {
    #[serde(default)]
    id: Value,
    text: String,
}

/// Runs it.
pub fn run(args: &RecallArgs) -> Result<Ending> {
    let path = folder::path(&args.dir)?;
    let policy = of_memories(&args.dir.set)?;
    let files = args.max_files.unwrap_or(usize::try_from(policy.recall_files)?);
    let most = if files == 0 { usize::MAX } else { files };
    // No directory is one without memories: nothing fits.
    let (memories, passed) = match Memdir::open(&path)? {
        Some(memdir) => memdir.memories(most)?,
        None => Default::default(),
    };
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.why);
    }
    let mut index = Index::default();
    memories.iter().for_each(|memory| memory.index_into(&mut index));
    let weights = Weights {
        fit: args.fit,
        ..Weights::default()
    };
    let usual = Limits::of(&policy);
    let limits = Limits {
        most: args.most.unwrap_or(usual.most),
        budget: args.budget.unwrap_or(usual.budget),
        surfaced: args.surfaced.iter().cloned().collect(),
        tools: args.tool.iter().map(|tool| tool.to_lowercase()).collect(),
        ..usual
    };
    let now = now();
    let ask = |query: &str| pick(&memories, &index, query, &weights, &limits, now);
    if let Some(path) = &args.queries {
        let mut out = String::new();
        for query in queries(path)? {
            let mut answer = answer(&query.text, &ask(&query.text), &memories);
            answer["id"] = query.id;
            out.push_str(&format!("{answer}\n"));
        }
        return print(out.as_bytes());
    }
    let query = args.query.as_deref().unwrap_or_default();
    let taken = ask(query);
    match args.format {
        Shape::Json => print(format!("{}\n", answer(query, &taken, &memories)).as_bytes()),
        Shape::Text => {
            if taken.is_empty() {
                eprintln!("nothing fits");
            }
            let texts = taken.iter().map(|taken| taken.text.as_str()).collect::<Vec<_>>();
            print(texts.join("\n").as_bytes())
        }
    }
}

fn answer(query: &str, taken: &[Taken], memories: &[Memory]) -> Value {
    let one = |taken: &Taken| {
        let score = (taken.score * 1e4).round() / 1e4;
        json!({"file": memories[taken.memory].file, "score": score})
    };
    json!({"query": query, "selected": taken.iter().map(one).collect::<Vec<_>>()})
}

fn queries(path: &std::path::Path) -> Result<Vec<Query>> {
    let mut text = String::new();
    if path == std::path::Path::new("-") {
        std::io::stdin().read_to_string(&mut text).context("standard input")?;
    } else {
        text = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
    }
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| serde_json::from_str(line).with_context(|| format!("{}:{}", path.display(), at + 1)))
        .collect()
}
