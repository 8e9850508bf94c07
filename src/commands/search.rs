//! `backcast search`: memories first, transcripts second.

use crate::cli::memory::MemoryFormat;
use crate::cli::search::{Place, SearchArgs};
use crate::commands::memory::folder;
use crate::commands::reading::{close, with_found};
use crate::commands::writing::for_people;
use crate::commands::{Ending, print};
use crate::run::{Looking, Options, look_through};
use anyhow::{Result, bail};
use language::{secrets, when};
use memory::memdir::Memdir;
use memory::recall::{Index, Memory, Weights};
use memory::search::{Ranked, Terms};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use transcript::discover::Found;
use transcript::messages::{Message, Part, Role, Wanted};
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
pub fn run(args: &SearchArgs) -> Result<Ending> {
    let terms = Terms::read(&args.query);
    if terms.is_empty() {
        bail!(
            "{:?} has no word to look for\n  hint: words such as \"the\" or \"what\" say nothing alone",
            args.query
        );
    }
    let memories = match args.only {
        Some(Place::Transcripts) => Vec::new(),
        _ => memories(args, &terms)?,
    };
    let (messages, problems) = match args.only {
        Some(Place::Memories) => Default::default(),
        _ => with_found(&args.input, |logs, options, finish| {
            let (messages, problems) = messages(args, &terms, logs, options);
            (messages, finish(problems))
        })?,
    };
    let text = match args.format {
        MemoryFormat::Table => for_people(&table(&memories, &messages)),
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
            let memories = memories.iter().map(line);
            memories
                .chain(messages.iter().map(line))
                .collect::<Result<String, _>>()?
        }
    };
    print(text.as_bytes())?;
    if memories.is_empty() && messages.is_empty() && !args.input.quiet {
        eprintln!("nothing found");
    }
    Ok(close(&args.input, &problems))
}

/// A row with the version of its fields.
fn line(row: &impl Serialize) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct Line<'a, R> {
        schema_version: u32,
        #[serde(flatten)]
        row: &'a R,
    }
    let line = Line {
        schema_version: SCHEMA_VERSION,
        row,
    };
    Ok(serde_json::to_string(&line)? + "\n")
}

/// Two digits: more would say more than is known.
fn rounded(score: f64) -> f64 {
    (score * 100.0).round() / 100.0
}

/// The memories that fit. A directory that is not there, or switched off, holds none.
fn memories(args: &SearchArgs, terms: &Terms) -> Result<Vec<MemoryHit>> {
    let path = match folder::path(&args.dir) {
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
    let (memories, passed) = memdir.memories(usize::MAX)?;
    for passed in &passed {
        eprintln!("{}: {}", passed.file, passed.why);
    }
    let mut index = Index::default();
    memories.iter().for_each(|memory| memory.index_into(&mut index));
    let hits = index.ask(&args.query, &Weights::default());
    let hit = |memory: &Memory, score: f64| {
        let (snippet, words) = terms.snippet(&secrets::mask(&memory.body));
        MemoryHit {
            found: "memory",
            file: memory.file.clone(),
            name: secrets::mask(&memory.name),
            description: secrets::mask(&memory.description),
            kind: memory.kind.map(|kind| kind.name()),
            score: rounded(score),
            snippet,
            words,
        }
    };
    let hits = hits.iter().take(args.memories);
    Ok(hits.map(|found| hit(&memories[found.document], found.score)).collect())
}

/// The texts of a message that are searched.
fn texts(message: &Message) -> impl Iterator<Item = &str> {
    message.parts.iter().filter_map(|part| match part {
        Part::Text(text) | Part::Result { text, .. } => Some(text.as_str()),
        Part::Call { .. } => None,
    })
}

/// The messages that fit: all logs are weighed, then the few that won are read again for their words.
fn messages(
    args: &SearchArgs,
    terms: &Terms,
    logs: &[Found],
    options: &Options<'_>,
) -> (Vec<MessageHit>, Vec<Problem>) {
    // Most lines are passed over unread, and with them what is wrong with them.
    let wanted = Wanted {
        results: args.results,
        every_line: args.input.asks_for_problems(),
        ..Wanted::default()
    };
    let weigh = |log: usize, message: Message| {
        // What the client put in is no conversation; a summary says again what was said.
        let is_command =
            texts(&message).any(|text| text.starts_with("<local-command-") || text.starts_with("<command-"));
        if message.is_meta || message.is_summary || is_command {
            return None;
        }
        let mut weighed = terms.weigh(texts(&message))?;
        weighed.log = u32::try_from(log).unwrap_or(u32::MAX);
        weighed.line = message.line;
        weighed.time = message.time;
        weighed.same = sameness(&message);
        Some(weighed)
    };
    let looking = Looking {
        wanted,
        filter: &|line| terms.may_be_in(line),
        take: &weigh,
    };
    let (weighed, read, problems) = look_through(logs, &looking, options);
    let mut ranked = terms.rank(weighed, usize::try_from(read).unwrap_or(usize::MAX));
    ranked.truncate(args.most);
    let hits = read_again(&ranked, terms, wanted, logs, options);
    (hits, problems)
}

/// The same message in the log of a resumed session has the same id, or the same words at the same time.
fn sameness(message: &Message) -> u64 {
    let mut named = Vec::new();
    if message.uuid.is_empty() {
        named.extend_from_slice(&message.time.unwrap_or_default().to_le_bytes());
        texts(message).for_each(|text| named.extend_from_slice(text.as_bytes()));
    } else {
        named.extend_from_slice(message.uuid.as_bytes());
    }
    xxhash_rust::xxh3::xxh3_64(&named)
}

/// Reads the messages that won once more, in the order they are ranked.
fn read_again(
    ranked: &[Ranked],
    terms: &Terms,
    wanted: Wanted,
    logs: &[Found],
    options: &Options<'_>,
) -> Vec<MessageHit> {
    let mut by_log = BTreeMap::<u32, BTreeMap<u64, usize>>::new();
    for (place, ranked) in ranked.iter().enumerate() {
        let lines = by_log.entry(ranked.weighed.log).or_default();
        lines.insert(ranked.weighed.line, place);
    }
    let (numbers, lines) = by_log.into_iter().unzip::<_, _, Vec<_>, Vec<_>>();
    let again = numbers
        .iter()
        .map(|number| logs[*number as usize].clone())
        .collect::<Vec<_>>();
    let take = |log: usize, message: Message| {
        let place = *lines[log].get(&message.line)?;
        let best =
            texts(&message).max_by_key(|text| terms.weigh(std::iter::once(*text)).map_or(0, |found| found.distinct()));
        let (snippet, words) = terms.snippet(&secrets::mask(best.unwrap_or_default()));
        let hit = MessageHit {
            found: "transcript",
            time: message.time.and_then(when::timestamp),
            role: match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
            },
            log: again[log].path.display().to_string(),
            line: message.line,
            score: rounded(ranked[place].score),
            session: message.session,
            uuid: message.uuid,
            snippet,
            words,
        };
        Some((place, hit))
    };
    let looking = Looking {
        wanted,
        filter: &|line| terms.may_be_in(line),
        take: &take,
    };
    let silent = Options {
        progress: &|_| (),
        ..*options
    };
    let (mut hits, _, _) = look_through(&again, &looking, &silent);
    hits.sort_by_key(|(place, _)| *place);
    hits.into_iter().map(|(_, hit)| hit).collect()
}

/// For people: where, then the words.
fn table(memories: &[MemoryHit], messages: &[MessageHit]) -> String {
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
