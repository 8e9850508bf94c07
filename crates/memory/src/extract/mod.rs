//! From messages to candidates: what people said that will hold in later sessions of the same project.
//!
//! 1. [`gather`]: every channel in which a person speaks, without what they pasted, as statements with their neighbors.
//! 2. [`score`]: each statement by general cues and by where it stands.
//! 3. `group`: statements of one project that say the same, over sessions; a later one that contradicts wins.
//! 4. [`title`] and `wording`: a title, a hook, a body. Nothing is cut, no question becomes an order. What has no title waits
//!    for a person.
//!
//! The order of the messages does not matter: they are sorted by time first.

pub mod agent;
pub mod gather;
mod group;
mod habits;
pub mod score;
pub mod title;
mod wording;

use crate::acts::LearnedWeights;
use crate::harvest::find_instructions;
use crate::kinds::{Candidate, MemorySource};
use crate::projects::ProjectRoots;
use crate::rules::ExtractionRules;
use gather::{MessageTimeline, Statement, gather_statements};
use group::{StatementGroup, group_statements};
use habits::{Habit, find_habits};
use language::secrets;
use language::shorten::cut_at_word;
use std::collections::{BTreeMap, BTreeSet};
pub use title::MAX_TITLE_CHARS;
use transcript::messages::Message;

/// Confidence from which a candidate is written without being asked for.
pub const MIN_CONFIDENCE: f64 = 0.5;
/// Confidence from which a candidate waits in the review.
pub const REVIEW_CONFIDENCE: f64 = 0.2;
/// Longest hook, in characters.
pub const MAX_HOOK_CHARS: usize = 150;

/// Options of [`extract_with`].
#[derive(Clone, Copy)]
pub struct ExtractOptions<'a> {
    pub rules: &'a ExtractionRules,
    /// Confidence from which a candidate is written.
    pub min_confidence: f64,
    /// Roots of the projects.
    pub projects: Option<&'a ProjectRoots>,
    /// What the person's acts taught.
    pub learned: Option<&'a LearnedWeights>,
    /// Returns the text of the instruction files of a project: what they say is not kept again.
    pub instructions: &'a dyn Fn(&str) -> String,
}

impl Default for ExtractOptions<'_> {
    fn default() -> Self {
        ExtractOptions {
            rules: ExtractionRules::built_in(),
            min_confidence: MIN_CONFIDENCE,
            projects: None,
            learned: None,
            instructions: &|_| String::new(),
        }
    }
}

/// What extraction finds.
#[derive(Debug, Default, PartialEq)]
pub struct Extraction {
    /// What is worth keeping, by project, oldest first.
    pub candidates: Vec<Candidate>,
    /// What a person should decide on, best first within a project.
    pub review: Vec<Candidate>,
    /// What was rejected, and why.
    pub rejections: Vec<Rejection>,
    /// What was taken back: earlier memories like these should go.
    pub retractions: Vec<Retraction>,
    /// Memories that held a secret.
    pub secrets_dropped: u64,
}

/// Something that was rejected.
#[derive(Debug, Clone, PartialEq)]
pub struct Rejection {
    /// What it said, secrets masked.
    pub text: String,
    /// Why it is no memory.
    pub reason: String,
    /// The strongest cue in it, if there is one.
    pub rule: Option<String>,
    /// Its confidence.
    pub confidence: Option<f64>,
    pub source: MemorySource,
}

/// Something that was taken back.
#[derive(Debug, Clone, PartialEq)]
pub struct Retraction {
    /// The words, secrets masked.
    pub text: String,
    pub source: MemorySource,
    /// Project of the session.
    pub project: String,
}

/// Extracts memories with the defaults.
pub fn extract(messages: &[Message], rules: &ExtractionRules) -> Extraction {
    extract_with(
        messages,
        &ExtractOptions {
            rules,
            ..ExtractOptions::default()
        },
    )
}

/// Extracts memories from messages of any number of sessions and projects.
pub fn extract_with(messages: &[Message], options: &ExtractOptions<'_>) -> Extraction {
    let mut extraction = Extraction::default();
    let statements = gather_statements(messages, options, &mut extraction);
    let mut by_project = BTreeMap::<String, Vec<Statement>>::new();
    for statement in statements {
        by_project.entry(statement.project.clone()).or_default().push(statement);
    }
    let root_of = |folder: &str| {
        options
            .projects
            .map(|roots| roots.root_of_folder(folder))
            .unwrap_or_default()
    };
    let read_in_logs = find_instructions(messages, &root_of);
    for (project, statements) in by_project {
        let in_logs = read_in_logs.get(&project).map(String::as_str).unwrap_or_default();
        let text = format!("{}\n{in_logs}", (options.instructions)(&project));
        let instructions = InstructionText::new(&text, options.rules);
        let habits = find_habits(&statements, options.rules);
        let mut groups = group_statements(statements);
        group::retract(&mut groups, &mut extraction, &project);
        group::supersede(&mut groups, options.min_confidence, &mut extraction);
        let in_habits = habits.iter().flat_map(|habit| &habit.statements).map(statement_key);
        let in_habits = in_habits.collect::<BTreeSet<_>>();
        let is_in_habit = |group: &StatementGroup| {
            let weak = group.best().confidence() < options.min_confidence;
            weak && group
                .statements
                .iter()
                .all(|said| in_habits.contains(&statement_key(said)))
        };
        groups.retain(|group| !is_in_habit(group));
        for found in groups {
            finish_group(found, &instructions, options, &mut extraction);
        }
        // Where people state the rule itself, the requests that follow from it are no memory of their own.
        let is_stated = |habit: &&Habit| {
            let strong = habit
                .statements
                .iter()
                .filter(|said| said.confidence() >= options.min_confidence);
            strong.count() * 3 >= habit.statements.len()
        };
        for habit in habits.iter().filter(|habit| !is_stated(habit)) {
            finish_habit(habit, &instructions, options, &mut extraction);
        }
    }
    agent::add_agent_files(messages, options, &mut extraction);
    let order = |one: &Candidate, other: &Candidate| {
        (&one.project, first_time(one), &one.title, &one.body).cmp(&(
            &other.project,
            first_time(other),
            &other.title,
            &other.body,
        ))
    };
    extraction.candidates.sort_by(order);
    extraction.review.sort_by(|one, other| {
        one.project
            .cmp(&other.project)
            .then(other.confidence.total_cmp(&one.confidence))
            .then_with(|| order(one, other))
    });
    extraction
}

fn first_time(candidate: &Candidate) -> Option<i64> {
    candidate.sources.iter().filter_map(|source| source.time).min()
}

/// What instruction files say, sentence by sentence.
struct InstructionText {
    sentences: Vec<Vec<String>>,
}

/// Share of the words of a memory that a sentence of the instruction files must have to say the same.
const INSTRUCTED_SHARE: f64 = 0.75;
/// The same for a statement that asks for a change of such a file.
const REQUESTED_SHARE: f64 = 0.5;

impl InstructionText {
    fn new(text: &str, rules: &ExtractionRules) -> InstructionText {
        let lines = text.lines().flat_map(|line| rules.split_sentences(line));
        InstructionText {
            sentences: lines
                .map(|sentence| language::words::content_words(&sentence.text))
                .collect(),
        }
    }

    fn says(&self, statement: &Statement) -> bool {
        let words = &statement.words;
        let low = statement.text.to_lowercase();
        let names_file = ["claude.md", "agents.md", "gemini.md", "agent.md"]
            .iter()
            .any(|name| low.contains(name));
        let share = if names_file { REQUESTED_SHARE } else { INSTRUCTED_SHARE };
        words.len() >= 2
            && self.sentences.iter().any(|sentence| {
                let shared = words.iter().filter(|word| sentence.binary_search(word).is_ok()).count();
                shared >= 2 && shared as f64 >= share * words.len() as f64
            })
    }
}

/// Returns what tells a statement from all others.
fn statement_key(said: &Statement) -> (String, String) {
    (said.source.uuid.clone(), said.text.clone())
}

/// Turns a habit into a candidate, unless the instruction files have it.
fn finish_habit(
    habit: &Habit,
    instructions: &InstructionText,
    options: &ExtractOptions<'_>,
    extraction: &mut Extraction,
) {
    let Some((best, candidate)) = wording::compose_habit(habit, options.rules) else {
        return;
    };
    let is_known = instructions.says(best);
    let mut confidence = candidate.confidence;
    if let Some(learned) = options.learned {
        confidence = score::shift_confidence(confidence, learned.shift(&best.words));
    }
    let turned = |reason: &str| reject_statement(best, reason);
    if is_known {
        extraction
            .rejections
            .push(turned("the instruction files say it themselves"));
        return;
    }
    let is_written = confidence >= options.min_confidence;
    let candidate = Candidate {
        confidence: round_confidence(confidence),
        ..candidate
    };
    accept_unless_secret(candidate, is_written, || turned("holds a secret"), extraction);
}

/// Turns a group into a candidate, or says why it is none.
fn finish_group(
    group: StatementGroup,
    instructions: &InstructionText,
    options: &ExtractOptions<'_>,
    extraction: &mut Extraction,
) {
    let confidence = group.confidence();
    let mut reject = |reason: &str| {
        let turned = group
            .statements
            .iter()
            .map(|statement| reject_statement(statement, reason));
        extraction.rejections.extend(turned);
    };
    let best = group.best();
    if confidence < REVIEW_CONFIDENCE.min(options.min_confidence) {
        return reject(best.lowered.unwrap_or("too weak, and not said again"));
    }
    if instructions.says(best) {
        return reject("the instruction files say it themselves");
    }
    let Some((candidate, has_title)) = wording::compose(&group, confidence, options.rules) else {
        return reject("points at something that was not said");
    };
    // A question is never written by itself: a person decides what it asks for, and how it is worded what has no title.
    let is_worded = has_title || best.floor >= options.min_confidence;
    let is_written = confidence >= options.min_confidence && !best.is_open_question() && is_worded;
    let turned = reject_statement(best, "holds a secret");
    accept_unless_secret(candidate, is_written, || turned, extraction);
}

pub(crate) fn reject_statement(statement: &Statement, reason: &str) -> Rejection {
    Rejection {
        text: cut_at_word(&secrets::mask_head(&statement.text, 1_200), 300),
        reason: reason.to_owned(),
        rule: statement.strongest.clone(),
        confidence: Some(round_confidence(statement.confidence())),
        source: statement.source.clone(),
    }
}

/// Accepts a candidate, unless it holds a secret.
fn accept_unless_secret(
    candidate: Candidate,
    is_written: bool,
    rejection: impl FnOnce() -> Rejection,
    extraction: &mut Extraction,
) {
    let found = [&candidate.title, &candidate.hook, &candidate.body];
    // A secret that was masked on the way is one too: what is left of the memory says nothing.
    let has_secret = |text: &&String| text.contains(secrets::MASK) || !secrets::find(text).is_empty();
    if found.iter().any(has_secret) {
        extraction.secrets_dropped += 1;
        extraction.rejections.push(rejection());
    } else if is_written {
        extraction.candidates.push(candidate);
    } else {
        extraction.review.push(candidate);
    }
}

/// Accepts a candidate that a model or the agent worded: what must never be kept is rejected all the same.
pub fn accept_candidate(
    candidate: Candidate,
    min_confidence: f64,
    rules: &ExtractionRules,
    extraction: &mut Extraction,
) {
    let sentences = rules.split_sentences(&format!("{}.\n{}", candidate.title, candidate.body));
    let excluded = sentences
        .iter()
        .find_map(|sentence| score::refusal(&sentence.text, rules));
    let rejection = |reason: &str| Rejection {
        text: cut_at_word(&secrets::mask_head(&candidate.body, 1_200), 300),
        reason: reason.to_owned(),
        rule: None,
        confidence: Some(candidate.confidence),
        source: candidate.sources.first().cloned().unwrap_or_else(unknown_source),
    };
    if let Some(reason) = excluded {
        extraction.rejections.push(rejection(reason));
    } else if candidate.confidence < min_confidence {
        extraction.rejections.push(rejection("too weak, and not said again"));
    } else {
        let secret = rejection("holds a secret");
        accept_unless_secret(candidate, true, || secret, extraction);
    }
}

/// Accepts a memory that the agent wrote, unless what it is about must never be kept. Its text may name files and commits.
pub(crate) fn accept_agent_candidate(candidate: Candidate, options: &ExtractOptions<'_>, extraction: &mut Extraction) {
    let rejection = |reason: &str| Rejection {
        text: secrets::mask(&cut_at_word(&candidate.title, 300)),
        reason: reason.to_owned(),
        rule: None,
        confidence: Some(candidate.confidence),
        source: candidate.sources.first().cloned().unwrap_or_else(unknown_source),
    };
    let refused = [&candidate.title, &candidate.hook]
        .into_iter()
        .find_map(|text| score::refusal(text, options.rules));
    if let Some(reason) = refused {
        extraction.rejections.push(rejection(reason));
    } else if candidate.confidence >= options.min_confidence {
        let secret = rejection("holds a secret");
        accept_unless_secret(candidate, true, || secret, extraction);
    } else {
        extraction.review.push(candidate);
    }
}

/// Returns the source of what has none.
pub fn unknown_source() -> MemorySource {
    MemorySource {
        session: String::new(),
        uuid: String::new(),
        time: None,
    }
}

/// Returns where a message is.
pub fn message_source(message: &Message) -> MemorySource {
    MemorySource {
        session: message.session.clone(),
        uuid: message.record_name(),
        time: message.time,
    }
}

/// A message that a person wrote.
#[derive(Debug, Clone, Copy)]
pub struct UserMessage<'m> {
    pub message: &'m Message,
    /// The text it replies to.
    pub in_reply_to: Option<&'m str>,
}

/// Returns the messages that people wrote, by time, each once.
pub fn find_user_messages<'m>(messages: &'m [Message], rules: &ExtractionRules) -> Vec<UserMessage<'m>> {
    let timeline = MessageTimeline::new(messages);
    let own = timeline.user_messages().iter().copied();
    own.filter(|message| gather::is_user_written(message, rules))
        .map(|message| UserMessage {
            message,
            in_reply_to: timeline.reply_before(message),
        })
        .collect()
}

/// Returns whether words that take something back mean a statement: they hold at least half of it, and two words.
pub fn is_retracted(statement: &[String], words: &[String]) -> bool {
    let shared = statement.iter().filter(|word| words.contains(word)).count();
    shared >= 2 && shared * 2 >= statement.len()
}

/// Rounds to two digits: more would claim more than is known.
pub fn round_confidence(confidence: f64) -> f64 {
    (confidence * 100.0).round() / 100.0
}

#[cfg(test)]
mod polarity_tests;
#[cfg(test)]
mod tests;
