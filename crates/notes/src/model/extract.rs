//! Memories found by a model: the requests, and which answers are accepted.
//!
//! The groups that the rules found are handed over with all their messages, whatever the session, so that the model can word
//! the rule behind them. The model only proposes: every claim of a memory must use the words and the figures of the messages
//! that it cites. It is then treated like a finding of the rules: rejected if it has a secret or must never be kept, and its
//! file is named by code.

use crate::model::prompt::{closing_prompt, parse_object, task_instructions, truncate_chars};
use crate::model::request::{ModelRequest, ModelTask};
use crate::model::{AnthropicBackend, fence};
use crate::size;
use language::secrets::mask;
use language::sentences::split_prose;
use language::shorten::{cut_at_word, last_chars};
use language::words::text_stems;
use language::{dates, when};
use memory::extract::{Extraction, MAX_HOOK_CHARS, MAX_TITLE_CHARS, UserMessage, message_source, round_confidence};
use memory::kinds::{Candidate, CandidateOrigin, MemoryKind};
use memory::plan::Snapshot;
use memory::rules::ExtractionRules;
use memory::topic::to_one_line;
use serde::Deserialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const PROMPT: &str = include_str!("../prompts/extract.md");

const TASK: &str = "find what people said that will hold in other sessions, and answer with the JSON object";

/// Tokens of messages per request. Larger requests are cheaper, but the model misses more.
const CHUNK_TOKENS: u64 = 24_000;

/// Maximum characters of a message and of the text it replies to: longer ones are mostly pasted.
const MAX_MESSAGE: usize = 4_000;
const MAX_REPLIED_TO: usize = 300;

/// Maximum memories per answer.
const MAX_MEMORIES: usize = 50;

/// Maximum output tokens, including the scratch block.
const MAX_OUTPUT: u64 = 12_000;

/// Maximum known memories in a request.
const MAX_MANIFEST: usize = 200;

/// Maximum characters of a field in an answer.
const MAX_LINE: usize = 400;
const MAX_TEXT: usize = 2_000;

/// Share of the words of a memory, and of each claim in it, that must be in the messages it cites.
const MIN_GROUNDED_SHARE: f64 = 0.4;
const MIN_CLAIM_SHARE: f64 = 0.3;

/// Most messages of a group that are shown.
const MAX_EVIDENCE: usize = 12;

/// Confidence of a memory with one source.
const MODEL_CONFIDENCE: f64 = 0.8;

/// Factor of the doubt per further source.
const DOUBT_FACTOR: f64 = 0.75;

/// A request about messages, which are numbered from 1.
#[derive(Debug, Clone)]
pub struct ExtractQuestion<'m> {
    messages: Vec<UserMessage<'m>>,
    pub request: ModelRequest,
}

/// Messages that the rules found to say the same, over any number of sessions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvidenceGroup {
    /// What the rules take them to say.
    pub title: String,
    /// Names of the records, oldest first.
    pub records: Vec<String>,
}

/// Returns the groups behind what the rules found; files of the agent are no messages.
pub fn find_groups(extraction: &Extraction) -> Vec<EvidenceGroup> {
    let found = extraction.candidates.iter().chain(&extraction.review);
    let said = found.filter(|candidate| candidate.origin != CandidateOrigin::Agent);
    said.map(|candidate| EvidenceGroup {
        title: mask(&candidate.title),
        records: candidate.sources.iter().map(|source| source.uuid.clone()).collect(),
    })
    .collect()
}

/// A proposed memory that was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnusableMemory {
    /// Its text, shortened.
    pub text: String,
    pub reason: &'static str,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtractAnswer {
    memories: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExtractAnswerEntry {
    #[serde(rename = "type")]
    kind: String,
    title: String,
    hook: String,
    text: String,
    #[serde(default)]
    why: Option<String>,
    #[serde(default)]
    how: Option<String>,
    from: Vec<usize>,
}

/// Builds requests about messages, with a few sessions per request, in the order of the messages.
pub fn build_questions<'m>(
    backend: &AnthropicBackend,
    said: &[UserMessage<'m>],
    groups: &[EvidenceGroup],
    known: &Snapshot,
    rules: &ExtractionRules,
) -> Vec<ExtractQuestion<'m>> {
    let manifest = list_known_memories(known);
    // As many whole sessions as fit: a later session changes only the last request, so stored answers of the others stay
    // valid. A session that is too long for one request is split.
    let mut parts: Vec<Vec<(UserMessage<'m>, String)>> = Vec::new();
    let mut tokens = 0;
    let sorted = sort_by_session(said);
    for session in sorted.chunk_by(|one, other| one.message.session == other.message.session) {
        let shown = session.iter().map(|said| (*said, message_words(said, rules)));
        let shown = shown
            .map(|(said, text)| (size::tokens(&text), said, text))
            .collect::<Vec<_>>();
        let whole = shown.iter().map(|(size, ..)| size).sum::<u64>();
        let mut is_new = parts.is_empty() || tokens + whole > CHUNK_TOKENS;
        for (size, said, text) in shown {
            if is_new || tokens + size > CHUNK_TOKENS {
                parts.push(Vec::new());
                (tokens, is_new) = (0, false);
            }
            tokens += size;
            if let Some(part) = parts.last_mut() {
                part.push((said, text));
            }
        }
    }
    let listed = add_evidence(&mut parts, groups, said, rules);
    let question = |(part, groups): (Vec<(UserMessage<'m>, String)>, String)| {
        let request = backend.request(ModelTask::Extract, MAX_OUTPUT, &task_instructions(PROMPT));
        let request = if manifest.is_empty() {
            request
        } else {
            request.with_unkeyed(&manifest)
        };
        let request = request.with_text(&number_messages(&part));
        let request = if groups.is_empty() {
            request
        } else {
            let code = fence::fence_code(&[&groups]);
            request.with_text(&fence::fence_text("groups that a program found", &groups, &code))
        };
        let request = request.with_text(&closing_prompt(TASK));
        let said = part.into_iter().map(|(said, _)| said).collect();
        ExtractQuestion {
            messages: said,
            request,
        }
    };
    parts.into_iter().zip(listed).map(question).collect()
}

/// Shows each group in the request with its last message: appends the messages of other requests there, and returns for each
/// request the lines that name its groups.
fn add_evidence<'m>(
    parts: &mut [Vec<(UserMessage<'m>, String)>],
    groups: &[EvidenceGroup],
    said: &[UserMessage<'m>],
    rules: &ExtractionRules,
) -> Vec<String> {
    let by_record = said
        .iter()
        .map(|one| (one.message.record_name(), *one))
        .collect::<BTreeMap<_, _>>();
    let mut homes = BTreeMap::<String, usize>::new();
    for (at, part) in parts.iter().enumerate() {
        homes.extend(part.iter().map(|(said, _)| (said.message.record_name(), at)));
    }
    let mut listed = vec![String::new(); parts.len()];
    for group in groups {
        let from = group.records.len().saturating_sub(MAX_EVIDENCE);
        let records = group.records[from..]
            .iter()
            .filter(|record| homes.contains_key(*record));
        let records = records.collect::<Vec<_>>();
        let Some(home) = records.iter().filter_map(|record| homes.get(*record)).max().copied() else {
            continue;
        };
        let mut numbers = BTreeSet::new();
        for record in records {
            let part = &mut parts[home];
            let known = part.iter().position(|(said, _)| said.message.record_name() == *record);
            let at = known.unwrap_or_else(|| {
                part.push((by_record[record], message_words(&by_record[record], rules)));
                part.len() - 1
            });
            numbers.insert(at + 1);
        }
        let numbers = numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ");
        let _ = writeln!(listed[home], "- [{numbers}] {}", to_one_line(&group.title));
    }
    listed
}

/// Sorts messages by the first message of their session; within a session the order stays.
fn sort_by_session<'m>(said: &[UserMessage<'m>]) -> Vec<UserMessage<'m>> {
    let mut places = BTreeMap::<&str, usize>::new();
    for one in said {
        let next = places.len();
        places.entry(&one.message.session).or_insert(next);
    }
    let mut sorted = said.to_vec();
    sorted.sort_by_key(|one| places.get(one.message.session.as_str()).copied());
    sorted
}

/// Formats a message and the text it replies to.
fn message_words(said: &UserMessage<'_>, rules: &ExtractionRules) -> String {
    let own = said.message.texts().filter(|text| !rules.is_machine_written(text));
    let own = own.collect::<Vec<_>>().join("\n");
    let mut text = String::new();
    if let Some(answering) = said.in_reply_to {
        // The user replies to the end of it.
        let answering = mask(answering);
        let tail = last_chars(&answering, MAX_REPLIED_TO);
        let _ = writeln!(text, "answering: {}", to_one_line(tail));
    }
    let _ = writeln!(text, "{}", truncate_chars(mask(own.trim()).trim(), MAX_MESSAGE));
    text
}

/// Formats messages with their numbers as fenced material.
fn number_messages(part: &[(UserMessage<'_>, String)]) -> String {
    let texts = part.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>();
    let code = fence::fence_code(&texts);
    let mut text = String::new();
    for (at, (said, words)) in part.iter().enumerate() {
        let time = said.message.time.map(when::format_date).unwrap_or_default();
        let is_new = at == 0 || part[at - 1].0.message.session != said.message.session;
        let session = if is_new { " (another session)" } else { "" };
        let _ = writeln!(text, "{code} {} {time}{session}", at + 1);
        text.push_str(words);
    }
    fence::fence_text("what people said", &text, &code)
}

/// Lists known memories, so that the model does not propose them again; empty if there are none.
fn list_known_memories(known: &Snapshot) -> String {
    if known.topics.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for topic in known.topics.iter().take(MAX_MANIFEST) {
        let kind = topic.kind().map_or("untyped", MemoryKind::name);
        let _ = writeln!(
            text,
            "- [{kind}] {} ({}): {}",
            topic.file,
            when::format_date(topic.last_said()),
            truncate_chars(&mask(&to_one_line(&topic.description())), MAX_LINE)
        );
    }
    fence::fence_text("memories that are there already", &text, &fence::fence_code(&[&text]))
}

impl ExtractQuestion<'_> {
    /// Parses an answer. The answer as a whole must parse; each of its memories is accepted or rejected by itself.
    pub fn parse_answer(&self, text: &str) -> Result<Vec<Result<Candidate, UnusableMemory>>, String> {
        let form = parse_object::<ExtractAnswer>(text)?;
        if form.memories.len() > MAX_MEMORIES {
            return Err(format!("more than {MAX_MEMORIES} memories"));
        }
        let read = |value: Value| {
            let shown = || cut_at_word(&to_one_line(value["text"].as_str().unwrap_or_default()), 300);
            let unfit = |reason| UnusableMemory { text: shown(), reason };
            let entry = serde_json::from_value::<ExtractAnswerEntry>(value.clone());
            let entry = entry.map_err(|_| unfit("not in the form that was asked for"))?;
            self.to_candidate(entry).map_err(unfit)
        };
        Ok(form.memories.into_iter().map(read).collect())
    }

    fn to_candidate(&self, entry: ExtractAnswerEntry) -> Result<Candidate, &'static str> {
        let kind = MemoryKind::parse(&entry.kind).ok_or("not one of the four types")?;
        let optional = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
        let (why, how) = (optional(&entry.why), optional(&entry.how));
        let lines = [&entry.title, &entry.hook];
        let texts = [Some(&entry.text), why.as_ref(), how.as_ref()];
        let is_long = |text: &String, most: usize| text.chars().count() > most;
        let is_too_long = lines.iter().any(|text| is_long(text, MAX_LINE))
            || texts.into_iter().flatten().any(|text| is_long(text, MAX_TEXT));
        if is_too_long {
            return Err("too long");
        }
        if lines
            .into_iter()
            .chain([&entry.text])
            .any(|text| text.trim().is_empty())
        {
            return Err("says nothing");
        }
        // Both go into an index of links, so they must be plain words.
        let is_plain = |text: &String| !["](", "../", "<"].iter().any(|sign| text.contains(sign));
        if !lines.iter().all(|text| is_plain(text)) {
            return Err("not in plain words");
        }
        let numbers = entry.from.iter().copied().collect::<BTreeSet<_>>();
        let named = numbers
            .iter()
            .filter_map(|number| self.messages.get(number.checked_sub(1)?));
        let named = named.collect::<Vec<_>>();
        if named.is_empty() || named.len() < numbers.len() {
            return Err("names messages that are not there");
        }
        let body = [Some(entry.text.trim().to_owned()), why, how];
        if !is_grounded_in(
            &[body.clone().into_iter().flatten().collect(), vec![entry.title.clone()]].concat(),
            &named,
        ) {
            return Err("not said in the messages it names");
        }
        if !body.iter().flatten().all(|text| are_claims_grounded(text, &named)) {
            return Err("claims what the messages it names do not say");
        }
        let [text, why, how] = body;
        let day = named.iter().filter_map(|said| said.message.time).next();
        let day = day.and_then(|time| jiff::Timestamp::from_millisecond(time).ok());
        let day = day.map(|time| time.to_zoned(jiff::tz::TimeZone::UTC).date());
        let dated = |text: &str| day.map_or_else(|| text.to_owned(), |day| dates::annotate_relative_dates(text, day));
        let mut body = dated(&text.unwrap_or_default());
        for (head, text) in [("Why", why), ("How to apply", how)] {
            if let Some(text) = text {
                let _ = write!(body, "\n\n**{head}:** {}", dated(text.trim()));
            }
        }
        let mut sources = named
            .iter()
            .map(|said| message_source(said.message))
            .collect::<Vec<_>>();
        sources
            .sort_by(|one, other| (one.time, &one.session, &one.uuid).cmp(&(other.time, &other.session, &other.uuid)));
        sources.dedup();
        let again = i32::try_from(sources.len().saturating_sub(1)).unwrap_or(i32::MAX);
        Ok(Candidate {
            kind,
            title: cut_at_word(&to_one_line(&entry.title), MAX_TITLE_CHARS),
            hook: cut_at_word(&to_one_line(&dated(&entry.hook)), MAX_HOOK_CHARS),
            body,
            confidence: round_confidence((1.0 - (1.0 - MODEL_CONFIDENCE) * DOUBT_FACTOR.powi(again)).min(0.99)),
            sources,
            // The caller knows the project whose messages these are.
            project: String::new(),
            origin: CandidateOrigin::Person,
        })
    }
}

/// Returns whether every sentence of a text rests on the messages: enough of its words are in them, and every figure is.
fn are_claims_grounded(text: &str, named: &[&UserMessage<'_>]) -> bool {
    let mut words = BTreeSet::new();
    let mut figures = BTreeSet::new();
    for said in named {
        for text in said.message.texts().chain(said.in_reply_to) {
            words.extend(text_stems(text));
            figures.extend(find_figures(text));
        }
    }
    split_prose(text).into_iter().all(|claim| {
        let own = text_stems(claim);
        let found = own.iter().filter(|word| words.contains(*word)).count();
        let is_short = own.len() < 3;
        (is_short || found as f64 >= MIN_CLAIM_SHARE * own.len() as f64)
            && find_figures(claim).all(|figure| figures.contains(&figure))
    })
}

/// Returns the figures in a text. Dates may be worked out from the day of a message, and single digits counted.
fn find_figures(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|sign: char| sign.is_whitespace() || ",;()\"'`".contains(sign));
    let words = words.map(|word| word.trim_matches(['.', ':', '!', '?', '*']));
    words.filter(|word| {
        let digits = word.bytes().filter(u8::is_ascii_digit).count();
        let is_date = digits >= 4 && word.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        digits >= 2 && !is_date && !word.contains("://")
    })
}

/// Returns whether the messages have enough words of the texts, and every URL.
fn is_grounded_in(texts: &[String], named: &[&UserMessage<'_>]) -> bool {
    let mut known = BTreeSet::new();
    let mut all = String::new();
    for said in named {
        let answered = said.in_reply_to.into_iter();
        for text in said.message.texts().chain(answered) {
            known.extend(text_stems(text));
            all.push_str(text);
        }
    }
    let words = texts.iter().flat_map(|text| text_stems(text)).collect::<Vec<_>>();
    let found = words.iter().filter(|word| known.contains(*word)).count();
    let is_grounded = found as f64 >= MIN_GROUNDED_SHARE * words.len() as f64;
    let mut pieces = texts.iter().flat_map(|text| text.split_whitespace());
    is_grounded
        && pieces.all(|piece| {
            !piece.contains("://") || all.contains(piece.trim_matches(['.', ',', ')', '(', '<', '>', '"', '`']))
        })
}

#[cfg(test)]
mod tests;
