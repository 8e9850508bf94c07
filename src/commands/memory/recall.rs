//! `backcast memory recall`.

use crate::cli::backend::BackendArgs;
use crate::cli::{DocumentFormat, parse_share};
use crate::commands::backend;
use crate::commands::backend::ModelRunner;
use crate::commands::given::GivenOptions;
use crate::commands::memory::{DirArgs, folder, now};
use crate::commands::policy::{memory_policy, recall_limits};
use crate::commands::terminal::notice;
use crate::commands::{RunStatus, print};
use anyhow::{Context, Result};
use clap::Args;
use memory::memdir::Memdir;
use memory::recall::{
    NoRecallReason, RecallHit, RecallIndex, RecallLimits, RecallWeights, RecalledMemory, StoredMemory, explain_nothing,
    is_showable, is_worth_asking, select_hits, select_memories,
};
use notes::model::recall::RecallChoices;
use serde::Deserialize;
use serde_json::{Value, json};
use std::io::Read;
use std::path::PathBuf;

/// Version of the fields of an answer.
const SCHEMA_VERSION: u32 = 1;

/// A line of `--queries`.
#[derive(Deserialize)]
struct RecallQuery {
    #[serde(default)]
    id: Value,
    text: String,
}

/// Arguments of `memory recall`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Memories are ranked by the words of the query in name, description and text: how rare the words are and how close together they
stand, with stems and synonyms. The answer ends at the first memory that scores less than 0.4 of the best one (--fit). It is
empty only if no memory contains a word that the query is about.

Examples:
  backcast memory recall \"how do we run the integration tests\"
  backcast memory recall --queries prompts.jsonl    an answer a line, {\"id\", \"query\", \"selected\"}
  backcast memory recall \"how to run the tests\" --backend anthropic --estimate    what a model would cost")]
pub struct RecallArgs {
    /// What to look for.
    #[arg(required_unless_present = "queries", value_name = "QUERY")]
    pub query: Option<String>,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Answer many queries: one JSON object per line, `{"id", "text"}`; `-` is standard input. Prints one JSON object per line.
    #[arg(long, value_name = "FILE", conflicts_with = "query")]
    pub queries: Option<PathBuf>,
    /// Maximum number of memories, at least 1 [default: 5, `recall.most`].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub most: Option<u32>,
    /// How many files are searched, newest first; 0 for all [default: 200, `recall.files`].
    #[arg(long, value_name = "N")]
    pub max_files: Option<usize>,
    /// Leave out memories that score less than this share of the best one, 0 to 1.
    #[arg(long, value_name = "SHARE", default_value_t = 0.4, value_parser = parse_share)]
    pub fit: f64,
    /// A file that this session has seen already; repeatable.
    #[arg(long, value_name = "FILE")]
    pub surfaced: Vec<String>,
    /// A tool in use: its usage docs are left out, warnings about it are not. Repeatable.
    #[arg(long, value_name = "NAME")]
    pub tool: Vec<String>,
    /// Bytes that the session may still spend on memories [default: 60000, `recall.session_bytes`].
    #[arg(long, value_name = "BYTES")]
    pub budget: Option<usize>,
    /// How the answer is written.
    #[arg(long, short, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: DocumentFormat,
    /// Which backend.
    #[command(flatten)]
    pub model: BackendArgs,
}

/// Runs it.
pub fn run(args: &RecallArgs, given: GivenOptions<'_>) -> Result<RunStatus> {
    let path = folder::resolve_dir(&args.dir)?;
    let policy = memory_policy(&args.dir.set)?;
    let files = args.max_files.unwrap_or(usize::try_from(policy.recall_files)?);
    let most = if files == 0 { usize::MAX } else { files };
    // No directory is one without memories: the answer is empty, and that is no error.
    let memdir = Memdir::open(&path)?;
    let is_there = memdir.is_some();
    let (memories, passed) = match memdir {
        Some(memdir) => memdir.read_memories(most)?,
        None => {
            notice!(
                "no memories in {}; `backcast memory extract` writes them from past sessions",
                path.display()
            );
            Default::default()
        }
    };
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
    }
    let mut index = RecallIndex::default();
    memories.iter().for_each(|memory| memory.index_into(&mut index));
    let weights = RecallWeights {
        least: args.fit,
        ..RecallWeights::default()
    };
    let usual = recall_limits(&policy);
    let limits = RecallLimits {
        most: args.most.map_or(Ok(usual.most), usize::try_from)?,
        budget: args.budget.unwrap_or(usual.budget),
        surfaced: args.surfaced.iter().cloned().collect(),
        tools: args.tool.iter().map(|tool| tool.to_lowercase()).collect(),
        ..usual
    };
    let now = now();
    let asked = match &args.queries {
        Some(path) => read_queries(path)?,
        None => vec![RecallQuery {
            id: Value::Null,
            text: args.query.clone().unwrap_or_default(),
        }],
    };
    let mut chosen = None;
    let taken = match backend::open_model(&args.model, given, None, true, false)? {
        None => {
            let pick = |query: &RecallQuery| select_memories(&memories, &index, &query.text, &weights, &limits, now);
            asked.iter().map(pick).collect()
        }
        Some(model) => {
            let found = choose_with_model(&model, &asked, &memories, &limits);
            model.print_spending();
            let Some(found) = found? else {
                return Ok(RunStatus::Done);
            };
            chosen = found.first().cloned();
            let shown = found.into_iter().map(|hits| select_hits(&memories, hits, &limits, now));
            shown.collect::<Vec<_>>()
        }
    };
    if args.queries.is_some() {
        let mut out = String::new();
        for (query, taken) in std::iter::zip(asked, &taken) {
            let mut answer = answer_json(&query.text, taken, &memories);
            answer["id"] = query.id;
            out.push_str(&format!("{answer}\n"));
        }
        return print(out.as_bytes());
    }
    let query = args.query.as_deref().unwrap_or_default();
    let taken = taken.into_iter().next().unwrap_or_default();
    match args.format {
        DocumentFormat::Json => {
            let mut answer = answer_json(query, &taken, &memories);
            answer["kind"] = "recall".into();
            print(format!("{answer}\n").as_bytes())
        }
        DocumentFormat::Text => {
            if taken.is_empty() && is_there {
                let why = explain_no_answer(&memories, &index, query, &weights, &limits, chosen.as_deref());
                notice!("{why}");
            }
            let texts = taken.iter().map(|taken| taken.text.as_str()).collect::<Vec<_>>();
            print(texts.join("\n").as_bytes())
        }
    }
}

/// Why there is no answer, in words. `chosen` is what a model chose, if one was asked.
fn explain_no_answer(
    memories: &[StoredMemory],
    index: &RecallIndex,
    query: &str,
    weights: &RecallWeights,
    limits: &RecallLimits,
    chosen: Option<&[RecallHit]>,
) -> &'static str {
    let found = |weights: &RecallWeights| index.find_matches(query, weights);
    let hits = chosen.map_or_else(|| found(weights), <[RecallHit]>::to_vec);
    match explain_nothing(memories, &hits, query, limits) {
        NoRecallReason::NoWord => "nothing fits: the query has no word",
        NoRecallReason::NoMemories => "nothing fits: the directory has no memories",
        NoRecallReason::NoFit if chosen.is_some() => "nothing fits: the model chose none",
        NoRecallReason::NoFit => "nothing fits: no memory has a word of the query",
        NoRecallReason::NoNews => "nothing new: what fits was left out by --surfaced or --tool",
        NoRecallReason::NoRoom => "no room: what fits is longer than the bytes that are left (--budget)",
    }
}

/// What a model chooses for each query; `None` if it was only to be estimated.
fn choose_with_model(
    model: &ModelRunner,
    queries: &[RecallQuery],
    memories: &[StoredMemory],
    limits: &RecallLimits,
) -> Result<Option<Vec<Vec<RecallHit>>>> {
    let list = RecallChoices::new(memories, limits.most, |memory| is_showable(memory, limits));
    let asked = model.run_passes(|model, _| {
        model.ask_all(queries, |backend, query| {
            if list.is_empty() || !is_worth_asking(&query.text) {
                return Ok(Vec::new());
            }
            backend.ask(&list.build_request(backend, &query.text), |text| {
                list.parse_answer(text)
            })
        })
    })?;
    let Some(asked) = asked else { return Ok(None) };
    asked.ensure_complete()?;
    Ok(Some(asked.answers.into_iter().flatten().collect()))
}

fn answer_json(query: &str, taken: &[RecalledMemory], memories: &[StoredMemory]) -> Value {
    let one = |taken: &RecalledMemory| {
        let score = (taken.score * 1e4).round() / 1e4;
        json!({"file": memories[taken.memory].file, "score": score})
    };
    json!({
        "schema_version": SCHEMA_VERSION,
        "query": query,
        "selected": taken.iter().map(one).collect::<Vec<_>>(),
    })
}

fn read_queries(path: &std::path::Path) -> Result<Vec<RecallQuery>> {
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
