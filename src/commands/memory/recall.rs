//! `backcast memory recall`.

use crate::cli::memory::{RecallArgs, Shape};
use crate::commands::backend;
use crate::commands::backend::Model;
use crate::commands::memory::{folder, now};
use crate::commands::policy::{of_memories, recall_limits};
use crate::commands::{Ending, print};
use anyhow::{Context, Result};
use memory::memdir::Memdir;
use memory::recall::{
    Hit, Index, Limits, Memory, Nothing, Taken, Weights, is_news, is_worth_asking, pick, take, why_nothing,
};
use notes::model::recall::List;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;

/// Version of the fields of an answer.
const SCHEMA_VERSION: u32 = 1;

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
    // No directory is one without memories: the answer is empty, and that is no error.
    let memdir = Memdir::open(&path)?;
    let is_there = memdir.is_some();
    let (memories, passed) = match memdir {
        Some(memdir) => memdir.memories(most)?,
        None => {
            eprintln!(
                "{}: no memories there; `backcast memory extract` makes them from past sessions",
                path.display()
            );
            Default::default()
        }
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
    let usual = recall_limits(&policy);
    let limits = Limits {
        most: args.most.map_or(Ok(usual.most), usize::try_from)?,
        budget: args.budget.unwrap_or(usual.budget),
        surfaced: args.surfaced.iter().cloned().collect(),
        tools: args.tool.iter().map(|tool| tool.to_lowercase()).collect(),
        ..usual
    };
    let now = now();
    let asked = match &args.queries {
        Some(path) => queries(path)?,
        None => vec![Query {
            id: Value::Null,
            text: args.query.clone().unwrap_or_default(),
        }],
    };
    let mut chosen = None;
    let taken = match backend::open(&args.model, None, true, false)? {
        None => {
            let pick = |query: &Query| pick(&memories, &index, &query.text, &weights, &limits, now);
            asked.iter().map(pick).collect()
        }
        Some(model) => {
            let found = choose(&model, &asked, &memories, &limits);
            model.close();
            let Some(found) = found? else { return Ok(Ending::Done) };
            chosen = found.first().cloned();
            let shown = found.into_iter().map(|hits| take(&memories, hits, &limits, now));
            shown.collect::<Vec<_>>()
        }
    };
    if args.queries.is_some() {
        let mut out = String::new();
        for (query, taken) in std::iter::zip(asked, &taken) {
            let mut answer = answer(&query.text, taken, &memories);
            answer["id"] = query.id;
            out.push_str(&format!("{answer}\n"));
        }
        return print(out.as_bytes());
    }
    let query = args.query.as_deref().unwrap_or_default();
    let taken = taken.into_iter().next().unwrap_or_default();
    match args.format {
        Shape::Json => print(format!("{}\n", answer(query, &taken, &memories)).as_bytes()),
        Shape::Text => {
            if taken.is_empty() && is_there {
                let why = why(&memories, &index, query, &weights, &limits, chosen.as_deref());
                eprintln!("{why}");
            }
            let texts = taken.iter().map(|taken| taken.text.as_str()).collect::<Vec<_>>();
            print(texts.join("\n").as_bytes())
        }
    }
}

/// Why there is no answer, in words. `chosen` is what a model chose, if one was asked.
fn why(
    memories: &[Memory],
    index: &Index,
    query: &str,
    weights: &Weights,
    limits: &Limits,
    chosen: Option<&[Hit]>,
) -> &'static str {
    let found = |weights: &Weights| index.ask(query, weights);
    let hits = chosen.map_or_else(|| found(weights), <[Hit]>::to_vec);
    let shares_word = || {
        let loose = Weights { fit: 0.0, ..*weights };
        !found(&loose).is_empty()
    };
    match why_nothing(memories, &hits, query, limits) {
        Nothing::OneWord => "queries of one word are not answered",
        Nothing::NoMemories => "nothing fits: the directory has no memories",
        Nothing::NoFit if chosen.is_some() => "nothing fits: the model chose none",
        Nothing::NoFit if shares_word() => "nothing fits well enough; --fit 0 shows the best there is",
        Nothing::NoFit => "nothing fits: no memory has a word of the query",
        Nothing::NoNews => "nothing new: what fits was left out by --surfaced or --tool",
        Nothing::NoRoom => "no room: what fits is longer than the bytes that are left (--budget)",
    }
}

/// What a model chooses for each query; `None` if it was only to be estimated.
fn choose(model: &Model, queries: &[Query], memories: &[Memory], limits: &Limits) -> Result<Option<Vec<Vec<Hit>>>> {
    let list = List::new(memories, limits.most, |memory| is_news(memory, limits));
    let asked = model.passes(|model, _| {
        model.ask(queries, |backend, query| {
            if list.is_empty() || !is_worth_asking(&query.text) {
                return Ok(Vec::new());
            }
            backend.ask(&list.question(backend, &query.text), |text| list.read(text))
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    asked.complete()?;
    Ok(Some(asked.answers.into_iter().flatten().collect()))
}

fn answer(query: &str, taken: &[Taken], memories: &[Memory]) -> Value {
    let one = |taken: &Taken| {
        let score = (taken.score * 1e4).round() / 1e4;
        json!({"file": memories[taken.memory].file, "score": score})
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "query": query,
        "selected": taken.iter().map(one).collect::<Vec<_>>(),
    })
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
