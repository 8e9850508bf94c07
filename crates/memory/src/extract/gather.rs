//! Gathers what people said: every channel, without what programs wrote and what was pasted, as statements with what they
//! refer to.

use crate::extract::score::{Placement, score_sentence};
use crate::extract::wording::without_reason;
use crate::extract::{ExtractOptions, Extraction, Rejection, Retraction, message_source};
use crate::kinds::{MemoryKind, MemorySource};
use crate::rules::ExtractionRules;
use crate::similar::is_negative;
use language::sentences::Sentence;
use language::shorten::{cut_at_word, to_one_line};
use language::words::content_words;
use language::{client_text, secrets};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use transcript::log::Time;
use transcript::messages::{Message, MessagePart, MessageRole, WordsChannel};
use transcript::paths::is_instruction;

/// Milliseconds of a day.
const DAY: Time = 86_400_000;
/// Longest description of a call.
const MAX_CALL_CHARS: usize = 120;
/// Longest sentence of the assistant that explains what a statement refers to.
const MAX_REPLY_CHARS: usize = 200;

/// A sentence of a person, with what is needed to understand it alone.
#[derive(Debug, Clone)]
pub struct Statement {
    /// Root of the project.
    pub project: String,
    pub source: MemorySource,
    pub channel: WordsChannel,
    /// Whether the agent reports it, in a plan or a memory file.
    pub is_reported: bool,
    pub text: String,
    /// The sentences around it.
    pub before: Option<String>,
    pub after: Option<String>,
    /// Whether it asks, and whether the question is a polite request.
    pub is_question: bool,
    pub is_request: bool,
    /// Whether it opens its session.
    pub is_opening: bool,
    pub is_negative: bool,
    /// The call that was refused.
    pub call: Option<String>,
    /// The last thing the assistant said before it.
    pub reply_to: Option<String>,
    /// The question that it answers.
    pub asked: Option<String>,
    /// Content words, sorted.
    pub words: Vec<String>,
    /// Points of the cues.
    pub score: f64,
    /// Confidence that a rule of the user gives.
    pub floor: f64,
    pub kind: Option<MemoryKind>,
    /// The strongest cue for it, and the one against it.
    pub strongest: Option<String>,
    pub lowered: Option<&'static str>,
}

impl Statement {
    /// Returns the confidence of the statement alone.
    pub fn confidence(&self) -> f64 {
        crate::extract::score::confidence(self.score).max(self.floor)
    }

    /// Returns whether it is a question that nobody can read as an order.
    pub fn is_open_question(&self) -> bool {
        self.is_question && !self.is_request
    }

    /// Returns the day on which it was said; `None` without a time.
    pub fn day(&self) -> Option<i64> {
        self.source.time.map(|time| time.div_euclid(DAY))
    }
}

/// Messages by time, and what the assistant said before each.
pub struct MessageTimeline<'m> {
    user: Vec<&'m Message>,
    replies: BTreeMap<&'m str, Vec<(Time, &'m str)>>,
}

impl<'m> MessageTimeline<'m> {
    /// Sorts messages by time, each once: resumed sessions hold copies. Without a time they stand as in their log.
    pub fn new(messages: &'m [Message]) -> MessageTimeline<'m> {
        let is_user = |message: &&&Message| message.role == MessageRole::User;
        let mut user = messages.iter().collect::<Vec<_>>();
        user = user.iter().filter(is_user).copied().collect();
        user.sort_by_key(|message| {
            let time = message.time.unwrap_or(i64::MAX);
            (
                time,
                &message.session,
                message.line,
                message.time.map(|_| &message.uuid),
            )
        });
        let mut seen = HashSet::new();
        user.retain(|message| message.uuid.is_empty() || seen.insert(message.uuid.as_str()));
        let mut replies = BTreeMap::<&str, Vec<(Time, &str)>>::new();
        for message in messages.iter().filter(|message| message.role == MessageRole::Assistant) {
            let (Some(time), Some(text)) = (message.time, message.texts().last()) else {
                continue;
            };
            replies.entry(&message.session).or_default().push((time, text));
        }
        for texts in replies.values_mut() {
            texts.sort_unstable();
        }
        MessageTimeline { user, replies }
    }

    pub fn user_messages(&self) -> &[&'m Message] {
        &self.user
    }

    /// Returns the last thing the assistant said in the session before a message.
    pub fn reply_before(&self, message: &Message) -> Option<&'m str> {
        let (time, texts) = (message.time?, self.replies.get(message.session.as_str())?);
        let at = texts.partition_point(|(said, _)| *said < time);
        at.checked_sub(1).map(|at| texts[at].1)
    }
}

/// Returns whether a person wrote something in a message.
pub fn is_user_written(message: &Message, rules: &ExtractionRules) -> bool {
    let is_put_in = message.is_meta || message.is_summary || message.is_sidechain;
    !is_put_in && message.texts().any(|text| !rules.is_machine_written(text))
}

/// The words of a message, with where they stand.
struct UserText<'m> {
    text: &'m str,
    channel: WordsChannel,
    call: Option<String>,
    asked: Option<String>,
}

/// Gathers the statements of all messages, oldest first.
pub fn gather_statements(
    messages: &[Message],
    options: &ExtractOptions<'_>,
    extraction: &mut Extraction,
) -> Vec<Statement> {
    let timeline = MessageTimeline::new(messages);
    let calls = describe_refused_calls(messages);
    let edits = find_instruction_edits(messages);
    let mut statements = Vec::new();
    let mut said = HashSet::<(&str, &str)>::new();
    let mut opened = HashSet::<&str>::new();
    let mut stopped = HashMap::<&str, bool>::new();
    for message in timeline.user_messages() {
        let follows_stop = stopped.remove(message.session.as_str()).unwrap_or(false);
        if is_stop(message) {
            stopped.insert(&message.session, true);
        }
        for own in user_texts(message, &calls) {
            // A prompt that is sent again is no second statement.
            if !said.insert((&message.session, own.text.trim())) {
                continue;
            }
            let context = TextContext {
                message,
                reply_to: timeline.reply_before(message),
                is_opening: opened.insert(&message.session),
                follows_stop,
                edited: edits.get(message.session.as_str()).map_or(&[], Vec::as_slice),
                own,
            };
            context.add_statements(options, &mut statements, extraction);
        }
    }
    statements
}

/// Returns whether a message stops the model or refuses a call.
fn is_stop(message: &Message) -> bool {
    let refuses = |part: &MessagePart| {
        matches!(part, MessagePart::Reply(reply)
            if matches!(reply.channel, WordsChannel::Refusal | WordsChannel::Interruption))
    };
    message.parts.iter().any(refuses)
        || message
            .texts()
            .any(|text| client_text::classify(text) == Some(client_text::ClientTextKind::Interruption))
}

fn user_texts<'m>(message: &'m Message, calls: &HashMap<&str, String>) -> Vec<UserText<'m>> {
    let read = |part: &'m MessagePart| match part {
        MessagePart::Text(text) => Some(UserText {
            text,
            channel: message.channel,
            call: None,
            asked: None,
        }),
        MessagePart::Reply(reply) if !reply.text.trim().is_empty() => Some(UserText {
            text: &reply.text,
            channel: reply.channel,
            call: calls.get(reply.call.as_str()).cloned(),
            asked: Some(reply.question.clone()).filter(|question| !question.is_empty()),
        }),
        _ => None,
    };
    message.parts.iter().filter_map(read).collect()
}

/// Finds the instruction files that each session wrote or edited.
fn find_instruction_edits(messages: &[Message]) -> HashMap<&str, Vec<(u64, String)>> {
    let mut edits = HashMap::<&str, Vec<(u64, String)>>::new();
    for message in messages {
        for part in &message.parts {
            if let MessagePart::Call { name, input, .. } = part
                && matches!(name.as_str(), "Write" | "Edit" | "MultiEdit")
                && let Some(path) = input.get("file_path").and_then(Value::as_str)
                && is_instruction(path)
            {
                let file = path.rsplit(['/', '\\']).next().unwrap_or(path).to_lowercase();
                edits.entry(&message.session).or_default().push((message.line, file));
            }
        }
    }
    edits
}

/// Describes the calls that people refused, by id.
fn describe_refused_calls(messages: &[Message]) -> HashMap<&str, String> {
    let parts = || messages.iter().flat_map(|message| &message.parts);
    let refused = parts().filter_map(|part| match part {
        MessagePart::Reply(reply) => Some(reply.call.as_str()),
        _ => None,
    });
    let refused = refused.collect::<HashSet<_>>();
    let mut calls = HashMap::new();
    for part in parts() {
        if let MessagePart::Call { id, name, input } = part
            && refused.contains(id.as_str())
        {
            calls.insert(id.as_str(), describe_call(name, input));
        }
    }
    calls
}

fn describe_call(name: &str, input: &Value) -> String {
    const KEYS: [&str; 5] = ["command", "file_path", "path", "pattern", "description"];
    let detail = KEYS.iter().find_map(|key| input.get(key)?.as_str());
    let detail = detail
        .map(|detail| to_one_line(detail, MAX_CALL_CHARS))
        .unwrap_or_default();
    match detail.is_empty() {
        true => name.to_owned(),
        false => format!("{name} `{}`", secrets::mask(&detail).replace('`', "'")),
    }
}

/// A text of a person in its session.
struct TextContext<'m> {
    message: &'m Message,
    own: UserText<'m>,
    reply_to: Option<&'m str>,
    is_opening: bool,
    follows_stop: bool,
    /// Instruction files that the session changed: the line of the record, and the name of the file.
    edited: &'m [(u64, String)],
}

impl TextContext<'_> {
    fn add_statements(
        self,
        options: &ExtractOptions<'_>,
        statements: &mut Vec<Statement>,
        extraction: &mut Extraction,
    ) {
        let (message, rules) = (self.message, options.rules);
        let is_plan = rules.is_plan(self.own.text);
        let whole = [
            (message.is_meta, "put in by the client"),
            (message.is_summary, "summary of a compaction"),
            (message.is_sidechain, "prompt of a sub-agent"),
            (
                !is_plan && rules.is_machine_written(self.own.text),
                "written by a program",
            ),
        ];
        if let Some((_, reason)) = whole.into_iter().find(|(is_so, _)| *is_so) {
            extraction.rejections.push(Rejection {
                text: cut_at_word(&secrets::mask_head(self.own.text.trim(), 320), 80),
                reason: reason.to_owned(),
                rule: None,
                confidence: None,
                source: message_source(message),
            });
            return;
        }
        let text = secrets::mask(self.own.text);
        let sentences = match is_plan {
            true => language::sentences::split_prose(&text)
                .into_iter()
                .filter(|sentence| reports_person(sentence))
                .map(|sentence| Sentence {
                    text: sentence.to_owned(),
                    is_question: false,
                    is_point: false,
                })
                .collect(),
            false => rules.split_sentences(&text),
        };
        for at in 0..sentences.len() {
            if let Some(statement) = self.to_statement(&sentences, at, is_plan, options, extraction) {
                statements.push(statement);
            }
        }
    }

    fn to_statement(
        &self,
        sentences: &[Sentence],
        at: usize,
        is_plan: bool,
        options: &ExtractOptions<'_>,
        extraction: &mut Extraction,
    ) -> Option<Statement> {
        let (message, rules, sentence) = (self.message, options.rules, &sentences[at]);
        let project = options
            .projects
            .map(|projects| projects.root_of(message))
            .unwrap_or_default();
        let due = rules.candidate_patterns(&sentence.text);
        let is_any = |list: &[usize], patterns: &[crate::rules::NamedPattern]| {
            list.iter().any(|at| patterns[*at].pattern.is_match(&sentence.text))
        };
        if is_any(&due.forget, &rules.forget) && !is_plan {
            extraction.retractions.push(Retraction {
                text: sentence.text.clone(),
                source: message_source(message),
                project,
            });
            return None;
        }
        let is_request = rules.phrases.iter().any(|phrases| {
            phrases
                .request
                .is_match(&crate::extract::title::strip_filler(&sentence.text, rules))
        });
        let placement = Placement {
            sentences: sentences.len(),
            channel: self.own.channel,
            follows_stop: self.follows_stop,
            is_question: sentence.is_question,
            is_request,
            is_reported: is_plan,
        };
        let scored = score_sentence(&sentence.text, &due, &placement, options);
        let text_of = |at: Option<usize>| at.and_then(|at| sentences.get(at)).map(|near| near.text.clone());
        let statement = Statement {
            project,
            source: message_source(message),
            channel: self.own.channel,
            is_reported: is_plan,
            before: text_of(at.checked_sub(1)),
            after: text_of(Some(at + 1)),
            is_question: sentence.is_question,
            is_request,
            is_opening: self.is_opening && at == 0,
            is_negative: is_negative(&sentence.text),
            call: self.own.call.clone(),
            reply_to: self.reply_to.and_then(|reply| last_sentence(reply, rules)),
            asked: self.own.asked.clone(),
            words: content_words(&without_reason(&sentence.text, rules)),
            score: scored.score,
            floor: scored.floor,
            kind: scored.kind,
            strongest: scored.strongest,
            lowered: scored.lowered,
            text: sentence.text.clone(),
        };
        let low = sentence.text.to_lowercase();
        let is_named = |file: &str| low.contains(file) || low.contains(&file.replace("agents.", "agent."));
        let is_carried_out = |(line, file): &(u64, String)| *line > message.line && is_named(file);
        let carried_out = self.edited.iter().any(is_carried_out);
        let refused = scored
            .refused
            .or_else(|| carried_out.then(|| "it went into the instruction file".to_owned()));
        if let Some(reason) = refused {
            // What is too weak anyway is not worth a line.
            if statement.confidence() >= crate::extract::REVIEW_CONFIDENCE {
                extraction
                    .rejections
                    .push(crate::extract::reject_statement(&statement, &reason));
            }
            return None;
        }
        Some(statement)
    }
}

/// Returns the points of a line in a memory file of the agent; none for what must never be kept.
pub fn message_line_score(line: &str, options: &ExtractOptions<'_>) -> f64 {
    const PRIVATE: [&str; 9] = [
        "password",
        "passphrase",
        "credential",
        "otp",
        "login",
        "api key",
        "private key",
        "token",
        "ssh ",
    ];
    let text = line.replace("**", "").replace('`', "'");
    let low = text.to_lowercase();
    let is_private = low.contains(secrets::MASK) || secrets::mask(&text) != text;
    if text.trim().is_empty() || is_private || PRIVATE.iter().any(|word| low.contains(word)) {
        return f64::NEG_INFINITY;
    }
    let placement = Placement {
        sentences: 1,
        channel: WordsChannel::Prompt,
        follows_stop: false,
        is_question: text.trim_end().ends_with(['?', '？']),
        is_request: false,
        is_reported: true,
    };
    let scored = score_sentence(&text, &options.rules.candidate_patterns(&text), &placement, options);
    match scored.refused {
        Some(_) => f64::NEG_INFINITY,
        None => scored.score,
    }
}

/// Returns whether a sentence of the agent reports what a person wants.
fn reports_person(sentence: &str) -> bool {
    const PHRASES: [&str; 9] = [
        "user wants",
        "user prefers",
        "user asked",
        "user requested",
        "user confirmed",
        "user decided",
        "per user",
        "the user said",
        "用户要求",
    ];
    let sentence = sentence.to_lowercase();
    PHRASES.iter().any(|phrase| sentence.contains(phrase))
}

/// Returns the last sentence of a text; `None` if it has no end, as the rest of a table or of code.
fn last_sentence(text: &str, rules: &ExtractionRules) -> Option<String> {
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(2_000))..];
    let sentence = rules.split_sentences(tail).into_iter().next_back()?;
    let is_whole = sentence.text.ends_with(['.', '!', '?', '。', '！', '？']);
    (is_whole && sentence.text.chars().count() <= MAX_REPLY_CHARS).then(|| secrets::mask(&sentence.text))
}
