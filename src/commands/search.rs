//! `backcast search`: memories first, transcripts second.

use crate::cli::{InputArgs, MemoryFormat};
use crate::commands::memory::{DirArgs, folder};
use crate::commands::reading::report_problems;
use crate::commands::terminal::notice;
use crate::commands::writing::fold_for_terminal;
use crate::commands::{RunStatus, print};
use crate::run::{MessageSearch, ReadOptions, search_messages, with_log_files};
use crate::views::search::{MemoryHit, MessageHit, document, to_json_lines, to_table};
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use language::{client_text, secrets, when};
use memory::memdir::Memdir;
use memory::recall::{RecallIndex, RecallWeights, StoredMemory};
use memory::search::{RankedMatch, SearchTerms};
use std::collections::BTreeMap;
use transcript::discover::DiscoveredLog;
use transcript::messages::{Message, MessagePart, MessageRole, PartSelection};
use transcript::problem::Problem;

/// Arguments of `search`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Matching memories come first, then messages of past sessions: what people wrote and what the model answered. Words are matched by
their stems; rare words and adjacent query words count more. Copies of a message in resumed sessions are shown once. Secrets are
masked.

Examples:
  backcast search \"connection pool size\"               in the memory of this project and all sessions
  backcast search \"flaky import\" logs/ --only transcripts
  backcast search \"staging password\" -f jsonl          an object a line")]
pub struct SearchArgs {
    /// What to look for.
    #[arg(value_name = "QUERY")]
    pub query: String,
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// Search only there.
    #[arg(long, value_enum, value_name = "WHERE", help_heading = "Selection")]
    pub only: Option<SearchTarget>,
    /// Maximum number of memories.
    #[arg(long, value_name = "N", default_value_t = 5, help_heading = "Selection")]
    pub memories: usize,
    /// Maximum number of messages.
    #[arg(
        long,
        short = 'n',
        value_name = "N",
        default_value_t = 10,
        help_heading = "Selection"
    )]
    pub most: usize,
    /// Also search tool results.
    #[arg(long, help_heading = "Selection")]
    pub results: bool,
    /// How it is printed.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: MemoryFormat,
}

/// Where `search` looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SearchTarget {
    /// The memory directory
    Memories,
    /// Past sessions
    Transcripts,
}

/// Runs it.
pub fn run(args: &SearchArgs) -> Result<RunStatus> {
    let terms = SearchTerms::parse(&args.query);
    if terms.is_empty() {
        bail!(
            "{:?} contains no word to search for\n  hint: words such as \"the\" or \"what\" alone are not enough",
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
        MemoryFormat::Json => format!("{:#}\n", document(&args.query, &memories, &messages)),
        MemoryFormat::Jsonl => to_json_lines(&memories, &messages)?,
    };
    print(text.as_bytes())?;
    if memories.is_empty() && messages.is_empty() && !args.input.quiet {
        notice!("nothing found");
    }
    Ok(report_problems(&args.input, &problems))
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
                notice!("no memories searched: {error}");
            }
            return Ok(Vec::new());
        }
    };
    let Some(memdir) = Memdir::open(&path)? else {
        return Ok(Vec::new());
    };
    let (memories, passed) = memdir.read_memories(usize::MAX)?;
    for passed in &passed {
        notice!("{}: {}", passed.file, passed.reason);
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
        // Text of the client is not part of the conversation.
        MessagePart::Text(text) if client_text::classify(text).is_some() => None,
        MessagePart::Text(text) | MessagePart::Result { text, .. } => Some(text.as_str()),
        // With results, the whole result is searched already.
        MessagePart::Reply(reply) => Some(reply.text.as_str()).filter(|text| !text.is_empty()),
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
        every_word: true,
        every_line: args.input.wants_problem_list(),
        ..PartSelection::default()
    };
    let weigh = |log: usize, message: Message| {
        // A summary repeats the conversation.
        if message.is_meta || message.is_summary {
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
