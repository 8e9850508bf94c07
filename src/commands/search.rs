//! `backcast search`: memories first, transcripts second.

use crate::cli::memory::MemoryFormat;
use crate::cli::search::{SearchArgs, SearchTarget};
use crate::commands::memory::folder;
use crate::commands::reading::report_problems;
use crate::commands::writing::fold_for_terminal;
use crate::commands::{RunStatus, print};
use crate::run::{MessageSearch, ReadOptions, search_messages, with_log_files};
use anyhow::{Result, bail};
use language::{secrets, when};
use memory::memdir::Memdir;
use memory::recall::{RecallIndex, RecallWeights, StoredMemory};
use memory::search::{RankedMatch, SearchTerms};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use transcript::discover::DiscoveredLog;
use transcript::messages::{Message, MessagePart, MessageRole, PartSelection};
use transcript::problem::Problem;

/// Version of the fields below, named in JSON documents.
const SCHEMA_VERSION: u32 = 1;

/// A memory that fits.
#[derive(Debug, Serialize)]
struct MemoryHit {
    found: &'static str,
    file: String,
    name: String,
    description: String,
    #[serde(rename = "type")]
    kind: Option<&'static str>,
    score: f64,
    snippet: String,
    words: Vec<String>,
}

/// A message that fits.
#[derive(Debug, Serialize)]
struct MessageHit {
    found: &'static str,
    session: String,
    uuid: String,
    time: Option<String>,
    role: &'static str,
    log: String,
    line: u64,
    score: f64,
    snippet: String,
    words: Vec<String>,
}

/// Runs it.
pub fn run(args: &SearchArgs) -> Result<RunStatus> {
    let terms = SearchTerms::parse(&args.query);
    if terms.is_empty() {
        bail!(
            "{:?} has no word to look for\n  hint: words such as \"the\" or \"what\" say nothing alone",
            args.query
        );
    }
    let memories = match args.only {
        Some(SearchTarget::Transcripts) => Vec::new(),
        _ => find_memories(args, &terms)?,
    };
    let (messages, problems) = match args.only {
        Some(SearchTarget::Memories) => Default::default(),
        _ => with_log_files(&args.input, |logs, options, finish| {
            let (messages, problems) = find_messages(args, &terms, logs, options);
            (messages, finish(problems))
        })?,
    };
    let text = match args.format {
        MemoryFormat::Table => fold_for_terminal(&to_table(&memories, &messages)),
        MemoryFormat::Json => {
            let document = serde_json::json!({
                "schema_version": SCHEMA_VERSION,
                "query": args.query,
                "memories": memories,
                "transcripts": messages,
            });
            format!("{document:#}\n")
        }
        MemoryFormat::Jsonl => {
            let memories = memories.iter().map(json_line);
            memories
                .chain(messages.iter().map(json_line))
                .collect::<Result<String, _>>()?
        }
    };
    print(text.as_bytes())?;
    if memories.is_empty() && messages.is_empty() && !args.input.quiet {
        eprintln!("nothing found");
    }
    Ok(report_problems(&args.input, &problems))
}

/// A row with the version of its fields.
fn json_line(row: &impl Serialize) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct VersionedRow<'a, R> {
        schema_version: u32,
        #[serde(flatten)]
        row: &'a R,
    }
    let line = VersionedRow {
        schema_version: SCHEMA_VERSION,
        row,
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Two digits: more would say more than is known.
fn round_score(score: f64) -> f64 {
    (score * 100.0).round() / 100.0
}

/// The memories that fit. A directory that is not there, or switched off, holds none.
fn find_memories(args: &SearchArgs, terms: &SearchTerms) -> Result<Vec<MemoryHit>> {
    let path = match folder::resolve_dir(&args.dir) {
        Ok(path) => path,
        Err(error) if args.dir.dir.is_some() || args.only.is_some() => return Err(error),
        Err(error) => {
            if !args.input.quiet {
                eprintln!("no memories searched: {error}");
            }
            return Ok(Vec::new());
        }
    };
    let Some(memdir) = Memdir::open(&path)? else {
        return Ok(Vec::new());
    };
    let (memories, passed) = memdir.read_memories(usize::MAX)?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.reason);
    }
    let mut index = RecallIndex::default();
    memories.iter().for_each(|memory| memory.index_into(&mut index));
    let hits = index.find_matches(&args.query, &RecallWeights::default());
    let hit = |memory: &StoredMemory, score: f64| {
        let (snippet, words) = terms.snippet(&secrets::mask(&memory.body));
        MemoryHit {
            found: "memory",
            file: memory.file.clone(),
            name: secrets::mask(&memory.name),
            description: secrets::mask(&memory.description),
            kind: memory.kind.map(|kind| kind.name()),
            score: round_score(score),
            snippet,
            words,
        }
    };
    let hits = hits.iter().take(args.memories);
    Ok(hits.map(|found| hit(&memories[found.document], found.score)).collect())
}

/// The texts of a message that are searched.
fn searchable_texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        MessagePart::Text(text) | MessagePart::Result { text, .. } => Some(text.as_str()),
        MessagePart::Call { .. } => None,
    })
}

/// The messages that fit: all logs are weighed, then the few that won are read again for their words.
fn find_messages(
    args: &SearchArgs,
    terms: &SearchTerms,
    logs: &[DiscoveredLog],
    options: &ReadOptions<'_>,
) -> (Vec<MessageHit>, Vec<Problem>) {
    // Most lines are passed over unread, and with them what is wrong with them.
    let wanted = PartSelection {
        results: args.results,
        every_line: args.input.wants_problem_list(),
        ..PartSelection::default()
    };
    let weigh = |log: usize, message: Message| {
        // What the client put in is no conversation; a summary says again what was said.
        let is_command =
            searchable_texts(&message).any(|text| text.starts_with("<local-command-") || text.starts_with("<command-"));
        if message.is_meta || message.is_summary || is_command {
            return None;
        }
        let mut weighed = terms.match_texts(searchable_texts(&message))?;
        weighed.log = u32::try_from(log).unwrap_or(u32::MAX);
        weighed.line = message.line;
        weighed.time = message.time;
        weighed.identity = message_identity(&message);
        Some(weighed)
    };
    let looking = MessageSearch {
        selection: wanted,
        filter: &|line| terms.is_possible_match(line),
        take: &weigh,
    };
    let (weighed, read, problems) = search_messages(logs, &looking, options);
    let mut ranked = terms.rank(weighed, usize::try_from(read).unwrap_or(usize::MAX));
    ranked.truncate(args.most);
    let hits = reread_messages(&ranked, terms, wanted, logs, options);
    (hits, problems)
}

/// The same message in the log of a resumed session has the same id, or the same words at the same time.
fn message_identity(message: &Message) -> u64 {
    let mut named = Vec::new();
    if message.uuid.is_empty() {
        named.extend_from_slice(&message.time.unwrap_or_default().to_le_bytes());
        searchable_texts(message).for_each(|text| named.extend_from_slice(text.as_bytes()));
    } else {
        named.extend_from_slice(message.uuid.as_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&named)
}

/// Reads the messages that won once more, in the order they are ranked.
fn reread_messages(
    ranked: &[RankedMatch],
    terms: &SearchTerms,
    wanted: PartSelection,
    logs: &[DiscoveredLog],
    options: &ReadOptions<'_>,
) -> Vec<MessageHit> {
    let mut by_log = BTreeMap::<u32, BTreeMap<u64, usize>>::new();
    for (place, ranked) in ranked.iter().enumerate() {
        let lines = by_log.entry(ranked.matched.log).or_default();
        lines.insert(ranked.matched.line, place);
    }
    let (numbers, lines) = by_log.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let again = numbers
        .iter()
        .map(|number| logs[*number as usize].clone())
        .collect::<Vec<_>>();
    let take = |log: usize, message: Message| {
        let place = *lines[log].get(&message.line)?;
        let best = searchable_texts(&message).max_by_key(|text| {
            terms
                .match_texts(std::iter::once(*text))
                .map_or(0, |found| found.distinct_terms())
        });
        let (snippet, words) = terms.snippet(&secrets::mask(best.unwrap_or_default()));
        let hit = MessageHit {
            found: "transcript",
            time: message.time.and_then(when::format_timestamp),
            role: match message.role {
                MessageRole::User => "user",
                MessageRole::Assistant => "assistant",
            },
            log: again[log].path.display().to_string(),
            line: message.line,
            score: round_score(ranked[place].score),
            session: message.session,
            uuid: message.uuid,
            snippet,
            words,
        };
        Some((place, hit))
    };
    let looking = MessageSearch {
        selection: wanted,
        filter: &|line| terms.is_possible_match(line),
        take: &take,
    };
    let silent = ReadOptions {
        progress: &|_| (),
        ..*options
    };
    let (mut hits, _, _) = search_messages(&again, &looking, &silent);
    hits.sort_by_key(|(place, _)| *place);
    hits.into_iter().map(|(_, hit)| hit).collect()
}

/// For people: where, then the words.
fn to_table(memories: &[MemoryHit], messages: &[MessageHit]) -> String {
    let mut text = String::new();
    for hit in memories {
        let kind = hit.kind.unwrap_or("untyped");
        let _ = writeln!(text, "memory {} [{kind}] {}", hit.file, hit.name);
        let _ = writeln!(text, "    {}", hit.snippet);
    }
    for hit in messages {
        let time = hit.time.as_deref().unwrap_or("no time");
        let _ = writeln!(text, "{time} {} {} {}", hit.role, hit.session, hit.uuid);
        let _ = writeln!(text, "    {}", hit.snippet);
    }
    text
}
