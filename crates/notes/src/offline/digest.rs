//! What happened in a conversation, by its structure: what was asked, changed, run, failed, fixed, decided and answered.
//!
//! A digest takes messages one by one and can be written out at any point. The structure tells what matters: a prompt, an
//! edit, a failing command and the same command succeeding later, an item on a task list. [`facts`] are the results,
//! `calls` reads tool calls, `background` follows tasks in the background, `failures` pairs failures with what fixed them,
//! `sayings` takes what the model explains, grants and takes back, `carried` is what holds when a part begins.

mod background;
mod calls;
mod carried;
mod cues;
pub mod facts;
mod failures;
mod sayings;

pub use carried::{CarriedState, StateTracker};
pub use cues::is_open_question;
pub use facts::{
    DigestFailure, DigestTurn, ModelSentence, PromptChannel, SentenceKind, ShellCommand, TaskItem, TaskState,
    TouchedFile, UserChoice, UserPrompt,
};

use crate::conversation::Conversation;
use crate::offline::earlier_summary::EarlierSummary;
use crate::offline::gist::plan_heading;
use crate::offline::lines::is_still_failing;
use crate::offline::names;
use crate::offline::requests::referred_text;
use crate::offline::state::background::BackgroundTask;
use crate::offline::state::ledger::RepositoryLedger;
use crate::offline::state::refusals::RefusalList;
use crate::offline::user_text::{UserText, classify_user_text};
use calls::PendingCall;
use cues::{is_correction, is_general, objects, says_general};
use language::clean::strip_control_codes;
use language::markup;
use memory::extract::extract;
use memory::kinds::MemoryKind;
use memory::rules::ExtractionRules;
use std::collections::HashMap;
use transcript::build::IdMap;
use transcript::log::Time;
use transcript::messages::{Message, MessagePart, MessageRole, UserReply, WordsChannel};

/// How much a name is in use. Older uses count less.
#[derive(Debug, Clone, Copy, Default)]
struct NameUse {
    score: f64,
    step: usize,
}

/// Links of a text up to which each is a result; more are a list of what others did.
const MOST_LINKS: usize = 3;

/// Bytes of an answer that several texts may make up.
const LONGEST_ANSWER: usize = 6_000;

/// Messages after which a use of a name counts half.
const HALF_LIFE: f64 = 120.0;

/// What happened.
#[derive(Default)]
pub struct Digest {
    /// Working directory.
    pub root: String,
    pub prompts: Vec<UserPrompt>,
    pub turns: Vec<DigestTurn>,
    /// Files, in the order of their first read or change.
    pub files: Vec<TouchedFile>,
    /// Commands, in the order of their first run.
    pub commands: Vec<ShellCommand>,
    pub failures: Vec<DigestFailure>,
    /// The current task list.
    pub tasks: Vec<TaskItem>,
    /// Step of the last change of the task list.
    pub tasks_step: usize,
    pub sentences: Vec<ModelSentence>,
    pub choices: Vec<UserChoice>,
    /// Calls that the user refused.
    pub refusals: RefusalList,
    /// What git did.
    pub ledger: RepositoryLedger,
    /// The title that the log gives the session; empty without one.
    pub recorded_title: String,
    /// The branch that the log gives the session; empty without one.
    pub recorded_branch: String,
    /// The heading of the last plan that the user approved.
    pub plan_title: String,
    /// The heading of the last plan that the model proposed.
    pub proposed_title: String,
    /// A recorded summary of what came before the first message.
    pub earlier_summary: Option<EarlierSummary>,
    /// The last recorded summary after that. Its messages are known, but it may explain more than they do.
    pub latest_summary: Option<EarlierSummary>,
    /// Step of the last recorded summary, and the number of commits and prompts before it; 0 if the session has none.
    pub summary_step: usize,
    pub summary_commits: usize,
    pub summary_prompts: usize,
    /// Step at which the model last said that what it took for a cause was none.
    pub rediagnosed_step: usize,
    /// Tasks of sub-agents, and the start of their answers.
    pub agents: Vec<(String, String)>,
    /// Commands and sub-agents in the background, in the order of their start.
    pub background: Vec<BackgroundTask>,
    /// Links to pull requests, issues and commits.
    pub links: Vec<String>,
    /// What the user wants from now on, as hooks of memories.
    pub rules: Vec<String>,
    /// Messages so far.
    pub steps: usize,
    by_path: HashMap<String, usize>,
    by_command: HashMap<String, usize>,
    pending: HashMap<String, PendingCall>,
    uses: IdMap<String, NameUse>,
    /// Options of the questions that the user answered last.
    last_options: Vec<String>,
    last_answer: String,
    is_interrupted: bool,
    /// Whether only the state is followed, and words are not looked at.
    only_state: bool,
    /// Whether the user refused a call and has not said why.
    has_silent_refusal: bool,
}

impl Digest {
    pub fn new(root: &str) -> Digest {
        Digest {
            root: root.to_owned(),
            ..Digest::default()
        }
    }

    /// Starts the digest of a conversation, with its title.
    pub fn of_conversation(conversation: &Conversation) -> Digest {
        Digest {
            recorded_title: conversation.title.clone(),
            recorded_branch: conversation.branch.clone(),
            ..Digest::new(&conversation.root)
        }
    }

    /// Adds the next message.
    pub fn push(&mut self, message: &Message) {
        self.steps += 1;
        self.ledger.set_time(message.time);
        if message.is_sidechain {
            return;
        }
        if message.is_summary {
            let is_first = self.prompts.is_empty() && self.turns.is_empty();
            self.summary_step = self.steps;
            self.summary_commits = self.ledger.commits.len();
            self.summary_prompts = self.prompts.len();
            for text in message.texts() {
                let summary = EarlierSummary::parse(&strip_control_codes(text));
                // A later summary includes the earlier ones.
                match is_first {
                    true => self.earlier_summary = Some(summary),
                    false => self.latest_summary = Some(summary),
                }
            }
            return;
        }
        match message.role {
            MessageRole::User => self.add_user_message(message),
            MessageRole::Assistant => self.add_model_message(message),
        }
    }

    fn add_user_message(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                MessagePart::Text(text) if message.is_meta => self.add_notices(text),
                MessagePart::Text(text) => match classify_user_text(text) {
                    UserText::Words(words) if message.channel == WordsChannel::Queued => {
                        self.add_prompt(words, PromptChannel::Queued, message.time);
                    }
                    UserText::Words(words) => self.add_prompt(words, PromptChannel::Message, message.time),
                    UserText::Command(words) => self.add_prompt(words, PromptChannel::Command, message.time),
                    UserText::Shell(words) => self.add_prompt(words, PromptChannel::Shell, message.time),
                    UserText::Interrupted => self.is_interrupted = true,
                    UserText::Nothing => self.add_notices(text),
                },
                MessagePart::Result { call, text, is_error } => self.add_result(call, text, *is_error),
                MessagePart::Reply(reply) => self.add_reply(reply, message.time),
                MessagePart::Call { .. } => {}
            }
        }
    }

    fn add_prompt(&mut self, text: String, channel: PromptChannel, time: Option<Time>) {
        // What was typed while the model worked answers nothing that it said in between.
        let is_running = channel == PromptChannel::Queued && self.turns.last().is_some_and(|turn| !turn.is_answered);
        let question = match channel {
            PromptChannel::Message => referred_text(&self.last_answer, &text),
            _ => None,
        };
        let is_correction = match channel {
            PromptChannel::Refusal => true,
            _ if self.only_state => false,
            PromptChannel::Message | PromptChannel::Queued => {
                !self.last_answer.is_empty() && (is_correction(&text) || self.is_interrupted && objects(&text))
            }
            PromptChannel::Command | PromptChannel::Shell => false,
        };
        self.note_names(&text, 2.0);
        self.note_rules(&text);
        if is_correction && channel != PromptChannel::Refusal && !is_running {
            self.retract_last_answer();
        }
        if matches!(channel, PromptChannel::Message | PromptChannel::Queued) {
            // Older clients write what the user says to a refusal as the next message.
            if std::mem::take(&mut self.has_silent_refusal) {
                self.refusals.explain(&text);
            }
            // A plan that the user approved in another session.
            if ExtractionRules::built_in().is_plan(&text) {
                self.plan_title = plan_heading(&text).unwrap_or_default();
            }
        }
        self.prompts.push(UserPrompt {
            is_correction,
            answered_question: question,
            text,
            channel,
            step: self.steps,
            time,
            turn: self.turns.len() - usize::from(is_running),
            is_heard: false,
            is_admitted: false,
        });
        if std::mem::take(&mut self.is_interrupted)
            && let Some(turn) = self.turns.last_mut()
        {
            turn.is_stopped = true;
        }
        // A refusal and what was typed while the model worked belong to the work on the request before them; a shell command of
        // the user asks for nothing.
        if !is_running && !matches!(channel, PromptChannel::Refusal | PromptChannel::Shell) {
            self.turns.push(DigestTurn {
                prompt: Some(self.prompts.len() - 1),
                time,
                ..DigestTurn::default()
            });
        }
    }

    /// Takes words of the user that stood in the result of a call.
    fn add_reply(&mut self, reply: &UserReply, time: Option<Time>) {
        let words = strip_control_codes(&reply.text).trim().to_owned();
        match reply.channel {
            WordsChannel::Refusal if words.is_empty() => {
                self.is_interrupted = true;
                self.has_silent_refusal = true;
            }
            WordsChannel::Refusal => {
                self.refusals.explain(&words);
                self.add_prompt(words, PromptChannel::Refusal, time);
            }
            WordsChannel::Answer if !words.is_empty() => self.record_choice(&reply.question, &words),
            WordsChannel::Interruption => self.is_interrupted = true,
            WordsChannel::Answer | WordsChannel::Prompt | WordsChannel::Queued => {}
        }
    }

    /// Returns whether there is nothing to write about.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.turns.is_empty() && self.earlier_summary.is_none()
    }

    /// Returns whether the user stopped the work and has said nothing since.
    pub fn is_stopped(&self) -> bool {
        self.is_interrupted
    }

    /// Notes what a prompt says about how to work, by the rules of memories.
    fn note_rules(&mut self, text: &str) {
        if self.only_state || !says_general(text) {
            return;
        }
        let message = Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())]);
        let found = extract(std::slice::from_ref(&message), ExtractionRules::built_in());
        let feedback = found.candidates.into_iter();
        for candidate in feedback.filter(|candidate| candidate.kind == MemoryKind::Feedback) {
            if is_general(&candidate.hook) && !self.rules.contains(&candidate.hook) {
                self.rules.push(candidate.hook);
            }
        }
    }

    fn current_turn(&mut self) -> &mut DigestTurn {
        if self.turns.is_empty() {
            self.turns.push(DigestTurn::default());
        }
        let last = self.turns.len() - 1;
        &mut self.turns[last]
    }

    fn add_model_message(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                MessagePart::Text(text) => self.add_model_text(text),
                MessagePart::Call { id, name, input } => {
                    self.is_interrupted = false;
                    self.current_turn().is_answered = false;
                    self.add_call(id, name, input);
                }
                MessagePart::Result { .. } | MessagePart::Reply(_) => {}
            }
        }
    }

    fn add_model_text(&mut self, text: &str) {
        let text = markup::strip_elements(text, &["system-reminder"]);
        let text = strip_control_codes(&text).trim().to_owned();
        // Text of the client in the model's name.
        let is_client_text =
            text == "No response requested." || text.starts_with("API Error") || text.starts_with("(no content)");
        if text.is_empty() || is_client_text {
            return;
        }
        if self.only_state {
            self.is_interrupted = false;
            self.current_turn().is_answered = true;
            return;
        }
        self.note_sentences(&text);
        self.note_names(&text, 1.0);
        if (1..=MOST_LINKS).contains(&text.matches("https://").count()) {
            let is_edge = |sign: char| sign.is_whitespace() || matches!(sign, '(' | ')' | '<' | '>' | '"' | '`');
            text.split(is_edge).for_each(|word| self.add_link(word));
        }
        self.is_interrupted = false;
        self.last_answer.clone_from(&text);
        let turn = self.current_turn();
        // Without a call in between, such as after a notice of the client, the text goes on.
        turn.answer = match turn.is_answered && turn.answer.len() + text.len() < LONGEST_ANSWER {
            true => format!("{}\n\n{text}", turn.answer),
            false => text,
        };
        turn.is_answered = true;
    }

    fn add_link(&mut self, word: &str) {
        const PARTS: [&str; 4] = ["/pull/", "/issues/", "/commit/", "/merge_requests/"];
        let word = word.trim_end_matches(['.', ',', ')', '*', ':', ';']);
        let is_kept = word.starts_with("https://")
            && !word.contains("/pull/new/")
            && PARTS.iter().any(|part| word.contains(part));
        if is_kept && word.len() < 200 && !self.links.iter().any(|known| known == word) {
            self.links.push(word.to_owned());
        }
    }

    fn note_names(&mut self, text: &str, weight: f64) {
        if self.only_state {
            return;
        }
        let step = self.steps;
        let mut seen = Vec::new();
        names::for_each_identifier(text, |name| seen.push(name));
        seen.sort_unstable();
        seen.dedup();
        for name in seen {
            if name.starts_with("__") {
                continue;
            }
            if !self.uses.contains_key(name) {
                self.uses.insert(name.to_owned(), NameUse { score: 0.0, step });
            }
            if let Some(used) = self.uses.get_mut(name) {
                used.score = used.score * decay(step - used.step) + weight;
                used.step = step;
            }
        }
    }

    /// Returns the points of a section of the latest recorded summary.
    pub fn earlier_points(&self, section: usize) -> Vec<String> {
        let last = self.latest_summary.as_ref().or(self.earlier_summary.as_ref());
        last.map(|earlier| earlier.points(section)).unwrap_or_default()
    }

    /// Returns the identifiers that the next edit is about: of the uncommitted files, and in the last open failure; most used
    /// first, at most `most`.
    pub fn names_at_stake(&self, most: usize) -> Vec<&str> {
        let uncommitted = self.ledger.uncommitted(&self.root).collect::<Vec<_>>();
        let files = self
            .files
            .iter()
            .filter(|file| uncommitted.contains(&file.path.as_str()));
        let mut wanted = files
            .flat_map(|file| &file.symbols)
            .map(String::as_str)
            .collect::<Vec<_>>();
        let mut failures = self.failures.iter().rev();
        if let Some(failure) = failures.find(|failure| is_still_failing(self, failure)) {
            names::for_each_identifier(&failure.error, |name| wanted.push(name));
        }
        wanted.sort_unstable();
        wanted.dedup();
        let score = |name: &str| {
            let used = self.uses.get(name).copied().unwrap_or_default();
            used.score * decay(self.steps - used.step)
        };
        wanted.sort_by(|a, b| score(b).total_cmp(&score(a)).then(a.cmp(b)));
        wanted.truncate(most);
        wanted
    }
}

fn decay(steps: usize) -> f64 {
    f64::exp2(-(steps as f64) / HALF_LIFE)
}

#[cfg(test)]
mod tests;
