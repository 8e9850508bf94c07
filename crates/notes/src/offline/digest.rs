//! What happened in a conversation, by its structure: what was asked, changed, run, failed, fixed, decided and answered.
//!
//! A digest takes messages one by one and can be written out at any point. What matters is told by what a thing is, not by
//! where it stands: a prompt, an edit, a failing command and the same command succeeding later, an item on a task list.

use crate::offline::clean;
use crate::offline::clean::UserText;
use crate::offline::earlier::EarlierSummary;
use crate::offline::names;
use crate::offline::telling::{
    classify_sentence, has_failure_marks, is_correction, key_error_lines, key_output_line, normalize_command,
};
use language::markup;
use language::sentences::split_prose;
use memory::extract::extract;
use memory::kinds::MemoryKind;
use memory::rules::ExtractionRules;
use serde_json::Value;
use std::collections::HashMap;
use transcript::build::IdMap;
use transcript::log::Time;
use transcript::messages::{Message, MessagePart, MessageRole};

/// How a person spoke.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptChannel {
    /// In a message.
    Message,
    /// With a command of the client.
    Command,
    /// By running something in the shell.
    Shell,
    /// By refusing a tool call and saying why.
    Refusal,
}

/// Something that a person said.
#[derive(Debug, Clone)]
pub struct UserPrompt {
    /// Their words.
    pub text: String,
    /// How.
    pub channel: PromptChannel,
    /// The message, counted from the start.
    pub step: usize,
    /// When.
    pub time: Option<Time>,
    /// Whether it corrects what the model did.
    pub is_correction: bool,
    /// The question that it answers: the last sentence before it, if that asks.
    pub answered_question: Option<String>,
    /// What it is the turn of, if it began one.
    pub turn: usize,
}

/// What was done about one prompt.
#[derive(Debug, Clone, Default)]
pub struct DigestTurn {
    /// Number of the prompt in [`Digest::prompts`].
    pub prompt: Option<usize>,
    /// Files that were changed, by number, each once.
    pub files: Vec<usize>,
    /// Commands that were run, by number, in order, each once.
    pub commands: Vec<usize>,
    /// Failures, by number.
    pub failures: Vec<usize>,
    /// What the model said last.
    pub answer: String,
    /// Whether that ended the turn: no tool call came after it.
    pub is_answered: bool,
    /// When it began.
    pub time: Option<Time>,
}

/// A file that was touched.
#[derive(Debug, Clone, Default)]
pub struct TouchedFile {
    /// Its path as the calls name it.
    pub path: String,
    /// Successful edits and writes.
    pub changes: usize,
    /// Reads.
    pub reads: usize,
    /// Whether it was written before it was ever read.
    pub is_new: bool,
    /// What the changes touched, newest last, each once.
    pub symbols: Vec<String>,
    /// Why it was changed, newest last: what was said just before.
    pub change_reasons: Vec<String>,
    /// Why it was read.
    pub read_reason: String,
    /// The last change: what was written.
    pub last_text: String,
    /// When it was last changed, or read if it never was.
    pub step: usize,
}

/// A command.
#[derive(Debug, Clone, Default)]
pub struct ShellCommand {
    /// What was run, without its frills.
    pub text: String,
    /// What the model said it is for.
    pub about: String,
    /// How often.
    pub runs: usize,
    /// How often it failed.
    pub failed: usize,
    /// Whether the last run failed.
    pub is_failing: bool,
    /// When it was last run.
    pub step: usize,
    /// The telling line of what it printed last, if there is one.
    pub outcome: String,
}

/// Something that went wrong.
#[derive(Debug, Clone)]
pub struct DigestFailure {
    /// What was tried: a command, or a tool and its target.
    pub what: String,
    /// The command, by number.
    pub command: Option<usize>,
    /// The telling lines of the error.
    pub error: String,
    /// When.
    pub step: usize,
    /// How often the same came back.
    pub occurrences: usize,
    /// When the same succeeded.
    pub fixed_at: Option<usize>,
    /// Files that were changed in between, by number.
    pub changed: Vec<usize>,
    /// What was said of the cause in between.
    pub cause: String,
}

/// State of an item on the task list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    /// Being worked on.
    InProgress,
    /// Not begun.
    Open,
    /// Done.
    Done,
}

/// An item on the task list.
#[derive(Debug, Clone)]
pub struct TaskItem {
    /// Its number, where the list has some.
    pub id: String,
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: TaskState,
}

/// What a sentence of the model is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentenceKind {
    /// Why something is as it is, or went wrong.
    Cause,
    /// What was decided.
    Decision,
    /// How the system is made.
    System,
}

/// A sentence of the model that says more than what it does next.
#[derive(Debug, Clone)]
pub struct ModelSentence {
    /// Its words.
    pub text: String,
    /// What it is good for.
    pub kind: SentenceKind,
    /// When.
    pub step: usize,
}

/// A question to the user and their choice, or a plan that they agreed to.
#[derive(Debug, Clone)]
pub struct UserChoice {
    /// The question, or what the plan is about.
    pub question: String,
    /// The answer.
    pub answer: String,
    /// When.
    pub step: usize,
}

/// A call whose result is still to come.
struct PendingCall {
    step: usize,
    kind: PendingKind,
}

enum PendingKind {
    Change {
        path: String,
        symbols: Vec<String>,
        text: String,
        why: String,
        is_write: bool,
    },
    Read {
        path: String,
    },
    Run {
        command: usize,
    },
    NewTask {
        text: String,
    },
    Ask,
    Plan {
        plan: String,
    },
    Agent {
        about: String,
    },
    Other {
        what: String,
    },
}

/// How much a name is in use: older uses count less.
#[derive(Debug, Clone, Copy, Default)]
struct NameUse {
    score: f64,
    step: usize,
}

/// Messages after which a use of a name counts half.
const HALF_LIFE: f64 = 120.0;

/// What happened.
#[derive(Default)]
pub struct Digest {
    /// Working directory.
    pub root: String,
    /// What people said, in order.
    pub prompts: Vec<UserPrompt>,
    /// What was done about it.
    pub turns: Vec<DigestTurn>,
    /// Files, in the order they were first touched.
    pub files: Vec<TouchedFile>,
    /// Commands, in the order they were first run.
    pub commands: Vec<ShellCommand>,
    /// What went wrong, in order.
    pub failures: Vec<DigestFailure>,
    /// The task list as it stands.
    pub tasks: Vec<TaskItem>,
    /// Sentences that explain.
    pub sentences: Vec<ModelSentence>,
    /// Questions and choices.
    pub choices: Vec<UserChoice>,
    /// A recorded summary of what came before the first message.
    pub earlier_summary: Option<EarlierSummary>,
    /// The last recorded summary of what is known from its messages, too: what it explains.
    pub latest_summary: Option<EarlierSummary>,
    /// Work that was given to sub-agents, and the start of what they answered.
    pub agents: Vec<(String, String)>,
    /// Addresses of what was made: pull requests, commits.
    pub links: Vec<String>,
    /// What people want from now on, in their words.
    pub rules: Vec<String>,
    /// Edits that failed for a formal reason.
    pub edit_slips: usize,
    /// Messages so far.
    pub steps: usize,
    by_path: HashMap<String, usize>,
    by_command: HashMap<String, usize>,
    pending: HashMap<String, PendingCall>,
    uses: IdMap<String, NameUse>,
    /// What the model said last, for the reasons of what it does next.
    why: String,
    last_answer: String,
    is_interrupted: bool,
}

impl Digest {
    /// An empty one.
    pub fn new(root: &str) -> Digest {
        Digest {
            root: root.to_owned(),
            ..Digest::default()
        }
    }

    /// Takes the next message.
    pub fn push(&mut self, message: &Message) {
        self.steps += 1;
        if message.is_sidechain {
            return;
        }
        if message.is_summary {
            let is_first = self.prompts.is_empty() && self.turns.is_empty();
            for text in message.texts() {
                let text = EarlierSummary::parse(&clean::strip_control_codes(text));
                // A later one tells again what the earlier one told.
                match is_first {
                    true => self.earlier_summary = Some(text),
                    false => self.latest_summary = Some(text),
                }
            }
            return;
        }
        match message.role {
            MessageRole::User => self.take_user(message),
            MessageRole::Assistant => self.take_assistant(message),
        }
    }

    fn take_user(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                MessagePart::Text(_) if message.is_meta => {}
                MessagePart::Text(text) => match clean::classify_user_text(text) {
                    UserText::Words(words) => self.add_prompt(words, PromptChannel::Message, message.time),
                    UserText::Command(words) => self.add_prompt(words, PromptChannel::Command, message.time),
                    UserText::Shell(words) => self.add_prompt(words, PromptChannel::Shell, message.time),
                    UserText::Interrupted => self.is_interrupted = true,
                    UserText::Nothing => {}
                },
                MessagePart::Result { call, text, is_error } => self.add_result(call, text, *is_error, message.time),
                MessagePart::Call { .. } => {}
            }
        }
    }

    fn add_prompt(&mut self, text: String, way: PromptChannel, time: Option<Time>) {
        let has_answer = !self.last_answer.is_empty();
        let question = split_prose(&self.last_answer).last().copied().unwrap_or_default();
        let answers = question
            .ends_with(['?', '？'])
            .then(|| clean::to_one_line(question, 240));
        let is_correction = way == PromptChannel::Refusal
            || way == PromptChannel::Message
                && has_answer
                && (is_correction(&text) || self.is_interrupted && text.len() < 600);
        self.note_names(&text, 2.0);
        self.note_rules(&text);
        self.prompts.push(UserPrompt {
            is_correction,
            answered_question: answers,
            text,
            channel: way,
            step: self.steps,
            time,
            turn: self.turns.len(),
        });
        self.is_interrupted = false;
        if way != PromptChannel::Refusal {
            self.turns.push(DigestTurn {
                prompt: Some(self.prompts.len() - 1),
                time,
                ..DigestTurn::default()
            });
            self.why.clear();
        }
    }

    /// Whether there is nothing to write about.
    pub fn is_empty(&self) -> bool {
        self.prompts.is_empty() && self.turns.is_empty() && self.earlier_summary.is_none()
    }

    /// What a message says about how to work, by the rules of memories.
    fn note_rules(&mut self, text: &str) {
        let message = Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.to_owned())]);
        let found = extract(std::slice::from_ref(&message), ExtractionRules::built_in());
        for candidate in found
            .candidates
            .into_iter()
            .filter(|candidate| candidate.kind == MemoryKind::Feedback)
        {
            if !self.rules.contains(&candidate.hook) {
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

    fn take_assistant(&mut self, message: &Message) {
        for part in &message.parts {
            match part {
                MessagePart::Text(text) => self.add_model_text(text),
                MessagePart::Call { id, name, input } => {
                    self.current_turn().is_answered = false;
                    self.add_call(id, name, input);
                }
                MessagePart::Result { .. } => {}
            }
        }
    }

    fn add_model_text(&mut self, text: &str) {
        let text = clean::strip_control_codes(&markup::strip_elements(text, &["system-reminder"]))
            .trim()
            .to_owned();
        // What the client says in the model's name.
        if text.is_empty()
            || text == "No response requested."
            || text.starts_with("API Error")
            || text.starts_with("(no content)")
        {
            return;
        }
        let sentences = split_prose(&text);
        for sentence in &sentences {
            if let Some(sense) = classify_sentence(sentence) {
                self.sentences.push(ModelSentence {
                    text: (*sentence).to_owned(),
                    kind: sense,
                    step: self.steps,
                });
            }
        }
        let is_telling = |sentence: &&&str| sentence.len() > 15;
        if let Some(why) = sentences.iter().rev().find(is_telling).or(sentences.last()) {
            self.why = clean::to_one_line(&clean::strip_intent(why), 220);
        }
        self.note_names(&text, 1.0);
        if text.contains("https://") {
            let is_edge = |sign: char| sign.is_whitespace() || matches!(sign, '(' | ')' | '<' | '>' | '"' | '`');
            text.split(is_edge).for_each(|word| self.add_link(word));
        }
        self.last_answer.clone_from(&text);
        let turn = self.current_turn();
        turn.answer = text;
        turn.is_answered = true;
    }

    fn add_link(&mut self, word: &str) {
        let word = word.trim_end_matches(['.', ',', ')', '*', ':', ';']);
        let is_kept = word.starts_with("https://")
            && !word.contains("/pull/new/")
            && ["/pull/", "/issues/", "/commit/", "/merge_requests/"]
                .iter()
                .any(|part| word.contains(part));
        if is_kept && word.len() < 200 && !self.links.iter().any(|known| known == word) {
            self.links.push(word.to_owned());
        }
    }

    fn note_names(&mut self, text: &str, weight: f64) {
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

    /// What recorded summaries explain, whatever else is known of that time: points of one of their sections.
    pub fn earlier_points(&self, section: usize) -> Vec<String> {
        let last = self.latest_summary.as_ref().or(self.earlier_summary.as_ref());
        last.map(|earlier| earlier.points(section)).unwrap_or_default()
    }

    /// Names in use, most in use first.
    pub fn names_in_use(&self) -> Vec<&str> {
        let score = |used: &NameUse| used.score * decay(self.steps - used.step);
        let mut names = self
            .uses
            .iter()
            .map(|(name, used)| (score(used), name.as_str()))
            .collect::<Vec<_>>();
        names.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
        names.into_iter().map(|(_, name)| name).collect()
    }

    fn file_number(&mut self, path: &str) -> usize {
        if let Some(&at) = self.by_path.get(path) {
            return at;
        }
        self.files.push(TouchedFile {
            path: path.to_owned(),
            ..TouchedFile::default()
        });
        self.by_path.insert(path.to_owned(), self.files.len() - 1);
        self.files.len() - 1
    }

    fn add_call(&mut self, id: &str, name: &str, input: &Value) {
        let text = |key: &str| input.get(key).and_then(Value::as_str).unwrap_or_default();
        let kind = match name {
            "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => {
                let path = if name == "NotebookEdit" {
                    text("notebook_path")
                } else {
                    text("file_path")
                };
                let changes = edit_texts(name, input);
                let mut symbols = Vec::new();
                for (old, new) in &changes {
                    self.note_names(new, 3.0);
                    self.note_names(old, 1.0);
                    for symbol in names::touched_symbols(old, new, 6) {
                        if !symbols.iter().any(|known| known == symbol) {
                            symbols.push(symbol.to_owned());
                        }
                    }
                }
                symbols.retain(|symbol: &String| symbol.len() > 3);
                symbols.truncate(8);
                PendingKind::Change {
                    path: path.to_owned(),
                    symbols,
                    text: changes.last().map(|(_, new)| (*new).to_owned()).unwrap_or_default(),
                    why: self.current_reason(),
                    is_write: name == "Write",
                }
            }
            "Read" | "NotebookRead" => PendingKind::Read {
                path: text("file_path").to_owned(),
            },
            "Bash" => {
                self.note_names(text("command"), 1.0);
                PendingKind::Run {
                    command: self.command_number(text("command"), text("description")),
                }
            }
            "TodoWrite" => {
                self.replace_tasks(input);
                PendingKind::Other { what: String::new() }
            }
            "TaskCreate" => {
                let subject = text("subject");
                PendingKind::NewTask {
                    text: if subject.is_empty() {
                        text("description")
                    } else {
                        subject
                    }
                    .to_owned(),
                }
            }
            "TaskUpdate" => {
                self.update_task(text("taskId"), text("status"), text("subject"));
                PendingKind::Other { what: String::new() }
            }
            "AskUserQuestion" => PendingKind::Ask,
            "ExitPlanMode" => PendingKind::Plan {
                plan: text("plan").to_owned(),
            },
            "Task" | "Agent" => PendingKind::Agent {
                about: clean::to_one_line(text("description"), 120),
            },
            "Grep" | "Glob" => {
                self.note_names(text("pattern"), 2.0);
                PendingKind::Other { what: String::new() }
            }
            _ => {
                let target = ["file_path", "path", "url", "query", "skill", "command", "title", "id"]
                    .into_iter()
                    .map(text);
                let target = target.into_iter().find(|target| !target.is_empty()).unwrap_or_default();
                PendingKind::Other {
                    what: clean::to_one_line(&format!("{name} {target}"), 160),
                }
            }
        };
        let step = self.steps;
        self.pending.insert(id.to_owned(), PendingCall { step, kind });
    }

    /// Why something is done: what was said just before, else the task that is being worked on.
    fn current_reason(&self) -> String {
        if !self.why.is_empty() {
            return self.why.clone();
        }
        let going = self.tasks.iter().find(|task| task.state == TaskState::InProgress);
        going
            .map(|task| clean::to_one_line(&task.text, 160))
            .unwrap_or_default()
    }

    fn command_number(&mut self, text: &str, about: &str) -> usize {
        let text = normalize_command(text);
        // A program that is given its script from here is a different one every time.
        let is_bare = text.ends_with('…') && text.chars().count() < 24;
        let key = if is_bare {
            format!("{text} {about}")
        } else {
            text.clone()
        };
        let at = match self.by_command.get(&key) {
            Some(&at) => at,
            None => {
                self.commands.push(ShellCommand {
                    text,
                    ..ShellCommand::default()
                });
                self.by_command.insert(key, self.commands.len() - 1);
                self.commands.len() - 1
            }
        };
        let step = self.steps;
        let command = &mut self.commands[at];
        command.runs += 1;
        command.step = step;
        if !about.is_empty() {
            command.about = clean::to_one_line(about, 120);
        }
        let turn = self.current_turn();
        if !turn.commands.contains(&at) {
            turn.commands.push(at);
        }
        at
    }

    fn replace_tasks(&mut self, input: &Value) {
        let Some(items) = input.get("todos").and_then(Value::as_array) else {
            return;
        };
        let text = |item: &Value, key: &str| item.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        self.tasks = items
            .iter()
            .map(|item| TaskItem {
                id: String::new(),
                text: text(item, "content"),
                state: parse_task_state(&text(item, "status")),
            })
            .collect();
    }

    fn update_task(&mut self, id: &str, status: &str, subject: &str) {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else {
            return;
        };
        if status == "deleted" {
            self.tasks.remove(at);
            return;
        }
        if !status.is_empty() {
            self.tasks[at].state = parse_task_state(status);
        }
        if !subject.is_empty() {
            self.tasks[at].text = subject.to_owned();
        }
    }

    fn add_result(&mut self, call: &str, text: &str, is_error: bool, time: Option<Time>) {
        let Some(pending) = self.pending.remove(call) else {
            return;
        };
        let text = clean::tool_output(text);
        if is_error && self.record_refusal(&text, time) {
            return;
        }
        let step = pending.step;
        match pending.kind {
            PendingKind::Change {
                path,
                symbols,
                text: written,
                why,
                is_write,
            } => {
                if is_error {
                    self.record_edit_failure(&path, &text, step);
                    return;
                }
                let at = self.file_number(&path);
                let file = &mut self.files[at];
                file.is_new |= is_write && file.reads == 0 && file.changes == 0;
                file.changes += 1;
                file.step = step;
                file.last_text = written;
                for symbol in symbols {
                    file.symbols.retain(|known| *known != symbol);
                    file.symbols.push(symbol);
                }
                if !why.is_empty() && file.change_reasons.last() != Some(&why) {
                    file.change_reasons.retain(|known| *known != why);
                    file.change_reasons.push(why);
                }
                let turn = self.current_turn();
                if !turn.files.contains(&at) {
                    turn.files.push(at);
                }
            }
            PendingKind::Read { path } => {
                if is_error {
                    self.record_failure(
                        &format!("Read {}", names::relative_path(&path, &self.root)),
                        None,
                        &text,
                        step,
                    );
                    return;
                }
                let why = self.why.clone();
                let at = self.file_number(&path);
                let file = &mut self.files[at];
                file.reads += 1;
                if file.changes == 0 {
                    file.step = step;
                    file.read_reason = why;
                }
            }
            PendingKind::Run { command } => self.record_run(command, &text, is_error, step),
            PendingKind::NewTask { text: subject } => {
                if !is_error {
                    let id = text.split_once('#').map(|(_, rest)| rest).unwrap_or_default();
                    let id = id
                        .split(|sign: char| !sign.is_ascii_digit())
                        .next()
                        .unwrap_or_default()
                        .to_owned();
                    self.tasks.push(TaskItem {
                        id,
                        text: subject,
                        state: TaskState::Open,
                    });
                }
            }
            PendingKind::Ask => self.record_choices(&text, step),
            PendingKind::Plan { plan } => {
                let title = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                self.choices.push(UserChoice {
                    question: format!(
                        "Plan: {}",
                        clean::to_one_line(title.trim_start_matches(['#', ' ']), 160)
                    ),
                    answer: if is_error { "not approved" } else { "approved" }.to_owned(),
                    step,
                });
            }
            PendingKind::Agent { about } => {
                let answer = split_prose(&text)
                    .into_iter()
                    .find(|sentence| sentence.len() > 30)
                    .unwrap_or_default();
                self.agents.push((about, clean::to_one_line(answer, 240)));
            }
            PendingKind::Other { what } => {
                if is_error && !what.is_empty() {
                    self.record_failure(&what, None, &text, step);
                }
            }
        }
    }

    /// A call that the person turned down; what they said with it is a message of theirs.
    fn record_refusal(&mut self, text: &str, time: Option<Time>) -> bool {
        if !text.contains("doesn't want to proceed with this tool use")
            && !text.contains("doesn't want to take this action")
        {
            return false;
        }
        let said = text
            .split_once("the user said:")
            .map(|(_, said)| said.trim())
            .unwrap_or_default();
        match said.is_empty() {
            true => self.is_interrupted = true,
            false => self.add_prompt(said.to_owned(), PromptChannel::Refusal, time),
        }
        true
    }

    fn record_choices(&mut self, text: &str, step: usize) {
        let mut quoted = text.split('"').skip(1).step_by(2);
        let mut any = false;
        while let (Some(question), Some(answer)) = (quoted.next(), quoted.next()) {
            any = true;
            self.choices.push(UserChoice {
                question: clean::to_one_line(question, 200),
                answer: clean::to_one_line(answer, 300),
                step,
            });
        }
        if !any && !text.trim().is_empty() {
            self.choices.push(UserChoice {
                question: "A question to the user".into(),
                answer: clean::to_one_line(text, 300),
                step,
            });
        }
    }

    fn record_edit_failure(&mut self, path: &str, text: &str, step: usize) {
        let is_formal = [
            "has not been read yet",
            "has been modified since",
            "String to replace not found",
            "Found ",
            "No changes to make",
        ];
        if is_formal
            .iter()
            .any(|start| text.trim_start().starts_with(start) || text.contains("has not been read yet"))
        {
            self.edit_slips += 1;
            return;
        }
        let what = format!("Editing {}", names::relative_path(path, &self.root));
        self.record_failure(&what, None, text, step);
    }

    fn record_run(&mut self, command: usize, text: &str, is_error: bool, step: usize) {
        let failed = is_error || has_failure_marks(text);
        let known = &mut self.commands[command];
        known.is_failing = failed;
        known.failed += usize::from(failed);
        known.outcome = key_output_line(text, failed);
        let made = text.split_whitespace().filter(|word| word.starts_with("https://"));
        for word in made.map(str::to_owned).collect::<Vec<_>>() {
            self.add_link(&word);
        }
        if failed {
            let what = self.commands[command].text.clone();
            self.record_failure(&what, Some(command), text, step);
            return;
        }
        self.follow_moves(command);
        for at in 0..self.failures.len() {
            if self.failures[at].command == Some(command) && self.failures[at].fixed_at.is_none() {
                self.mark_fixed(at, step);
            }
        }
    }

    /// Files that were given another name keep their history.
    fn follow_moves(&mut self, command: usize) {
        let text = self.commands[command].text.clone();
        for one in text.split("&&").map(str::trim) {
            let Some(given) = one.strip_prefix("git mv ").or_else(|| one.strip_prefix("mv ")) else {
                continue;
            };
            let given = given.split_whitespace().collect::<Vec<_>>();
            let [old, new] = given[..] else { continue };
            let is_it = |file: &TouchedFile| names::relative_path(&file.path, &self.root) == old || file.path == old;
            let Some(at) = self.files.iter().position(is_it) else {
                continue;
            };
            let path = match self.files[at].path.strip_suffix(old) {
                Some(folder) if !new.starts_with('/') => format!("{folder}{new}"),
                _ => new.to_owned(),
            };
            let known = self.by_path.remove(&self.files[at].path);
            self.files[at].path.clone_from(&path);
            self.by_path.insert(path, known.unwrap_or(at));
        }
    }

    fn mark_fixed(&mut self, at: usize, step: usize) {
        let from = self.failures[at].step;
        let changed = self
            .files
            .iter()
            .enumerate()
            .filter(|(_, file)| file.changes > 0 && file.step > from && file.step <= step);
        let mut changed = changed.map(|(number, file)| (file.step, number)).collect::<Vec<_>>();
        changed.sort_unstable();
        let cause = self
            .sentences
            .iter()
            .rev()
            .find(|said| said.step > from && said.kind == SentenceKind::Cause);
        let failure = &mut self.failures[at];
        failure.cause = cause
            .map(|said| clean::to_one_line(&said.text, 240))
            .unwrap_or_default();
        failure.changed = changed.into_iter().map(|(_, number)| number).collect();
        failure.fixed_at = Some(step);
    }

    fn record_failure(&mut self, what: &str, command: Option<usize>, text: &str, step: usize) {
        // Not a failure of its own: another call of the same response failed first.
        if text.contains("Sibling tool call errored") || text.starts_with("Cancelled: parallel tool call") {
            return;
        }
        let error = key_error_lines(text);
        let same = |failure: &&mut DigestFailure| failure.fixed_at.is_none() && failure.what == what;
        if let Some(failure) = self.failures.iter_mut().rev().find(same) {
            failure.occurrences += 1;
            failure.step = step;
            failure.error = error;
            return;
        }
        self.failures.push(DigestFailure {
            what: what.to_owned(),
            command,
            error,
            step,
            occurrences: 1,
            fixed_at: None,
            changed: Vec::new(),
            cause: String::new(),
        });
        let at = self.failures.len() - 1;
        self.current_turn().failures.push(at);
    }
}

fn decay(steps: usize) -> f64 {
    f64::exp2(-(steps as f64) / HALF_LIFE)
}

fn parse_task_state(status: &str) -> TaskState {
    match status {
        "completed" => TaskState::Done,
        "in_progress" => TaskState::InProgress,
        _ => TaskState::Open,
    }
}

/// What a change replaces and what it writes.
fn edit_texts<'v>(tool: &str, input: &'v Value) -> Vec<(&'v str, &'v str)> {
    fn text<'v>(value: &'v Value, key: &str) -> &'v str {
        value.get(key).and_then(Value::as_str).unwrap_or_default()
    }
    match tool {
        "Write" => vec![("", text(input, "content"))],
        "NotebookEdit" => vec![("", text(input, "new_source"))],
        "MultiEdit" => {
            let edits = input.get("edits").and_then(Value::as_array);
            edits
                .into_iter()
                .flatten()
                .map(|edit| (text(edit, "old_string"), text(edit, "new_string")))
                .collect()
        }
        _ => vec![(text(input, "old_string"), text(input, "new_string"))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn user(text: &str) -> Message {
        Message::with_parts(MessageRole::User, vec![MessagePart::Text(text.into())])
    }

    fn says(text: &str) -> Message {
        Message::with_parts(MessageRole::Assistant, vec![MessagePart::Text(text.into())])
    }

    fn calls(digest: &mut Digest, tool: &str, input: Value, result: &str, is_error: bool) {
        let id = digest.steps.to_string();
        let call = MessagePart::Call {
            id: id.clone(),
            name: tool.into(),
            input,
        };
        digest.push(&Message::with_parts(MessageRole::Assistant, vec![call]));
        let result = MessagePart::Result {
            call: id,
            text: result.into(),
            is_error,
        };
        digest.push(&Message::with_parts(MessageRole::User, vec![result]));
    }

    #[test]
    fn a_failure_is_fixed_when_the_same_goes_through() {
        let mut digest = Digest::new("/w");
        digest.push(&user("make the tests pass"));
        let test = || json!({"command": "cargo test | tail -3"});
        calls(&mut digest, "Bash", test(), "running\nerror[E0061]: wrong\nmore", false);
        digest.push(&says("This fails because `parse_all` takes two arguments now."));
        let edit = json!({"file_path": "/w/a.rs", "old_string": "parse_all(x)", "new_string": "parse_all(x, y)"});
        calls(&mut digest, "Edit", edit, "ok", false);
        calls(
            &mut digest,
            "Bash",
            test(),
            "test result: ok. 3 passed; 0 failed",
            false,
        );
        assert_eq!((digest.commands.len(), digest.failures.len()), (1, 1));
        let failure = &digest.failures[0];
        assert!(failure.fixed_at.is_some() && failure.error.contains("E0061"));
        assert_eq!(failure.changed, [0]);
        assert!(failure.cause.contains("parse_all"));
        assert!(digest.commands[0].outcome.contains("3 passed"));
    }

    #[test]
    fn refusals_answers_and_tasks_are_taken_in() {
        let mut digest = Digest::new("");
        digest.push(&user("do it"));
        digest.push(&says("Should I use two columns?"));
        digest.push(&user("yes"));
        let refused = "The user doesn't want to proceed with this tool use. To tell you how to proceed, the user said:\nleave main.rs alone";
        calls(&mut digest, "Edit", json!({"file_path": "main.rs"}), refused, true);
        calls(
            &mut digest,
            "TaskCreate",
            json!({"subject": "Write it"}),
            "Task #1 created successfully: Write it",
            false,
        );
        calls(
            &mut digest,
            "TaskCreate",
            json!({"subject": "Check it"}),
            "Task #2 created successfully: Check it",
            false,
        );
        calls(
            &mut digest,
            "TaskUpdate",
            json!({"taskId": "1", "status": "completed"}),
            "Updated task #1 status",
            false,
        );
        let answer = r#"User has answered your questions: "Which one?"="The second". You can now continue."#;
        calls(&mut digest, "AskUserQuestion", json!({"questions": []}), answer, false);
        assert_eq!(
            digest.prompts[1].answered_question.as_deref(),
            Some("Should I use two columns?")
        );
        assert_eq!(
            (digest.prompts[2].text.as_str(), digest.prompts[2].channel),
            ("leave main.rs alone", PromptChannel::Refusal)
        );
        let open = digest.tasks.iter().filter(|task| task.state == TaskState::Open);
        assert_eq!(open.map(|task| task.text.as_str()).collect::<Vec<_>>(), ["Check it"]);
        assert_eq!(digest.choices[0].answer, "The second");
    }

    #[test]
    fn a_moved_file_keeps_its_history() {
        let mut digest = Digest::new("/w");
        calls(
            &mut digest,
            "Write",
            json!({"file_path": "/w/old.rs", "content": "fn thing() {}"}),
            "ok",
            false,
        );
        calls(
            &mut digest,
            "Bash",
            json!({"command": "git mv old.rs new.rs"}),
            "",
            false,
        );
        assert_eq!(digest.files[0].path, "/w/new.rs");
        assert!(digest.files[0].is_new);
    }
}
