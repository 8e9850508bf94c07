//! The facts of a [`Digest`](super::Digest): prompts, turns, files, commands, failures, tasks, sentences, choices.
//!
//! A `step` is the number of the message, counted from 1. Facts refer to one another by their index in the digest.

use crate::offline::state::FinalState;
use crate::offline::state::intent::CommandIntent;
use transcript::log::Time;

/// How the user gave a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromptChannel {
    Message,
    /// Typed while the model was working.
    Queued,
    /// A command of the client.
    Command,
    /// A shell command that the user ran.
    Shell,
    /// The reason for refusing a tool call.
    Refusal,
}

/// A prompt of the user.
#[derive(Debug, Clone)]
pub struct UserPrompt {
    pub text: String,
    pub channel: PromptChannel,
    pub step: usize,
    pub time: Option<Time>,
    /// Whether it corrects the model.
    pub is_correction: bool,
    /// Whether the model said right after it that the user is right.
    pub is_admitted: bool,
    /// The question that it answers: the last sentence of the model before it, if that is a question.
    pub answered_question: Option<String>,
    /// Index of the turn that it started, or that it was given in.
    pub turn: usize,
    /// Whether the model has said something since.
    pub is_heard: bool,
}

/// The work on one prompt.
#[derive(Debug, Clone, Default)]
pub struct DigestTurn {
    pub prompt: Option<usize>,
    /// Changed files, each once.
    pub files: Vec<usize>,
    /// Commands in the order of their first run, each once.
    pub commands: Vec<usize>,
    pub failures: Vec<usize>,
    /// The last text of the model.
    pub answer: String,
    /// Whether that text ended the turn: no tool call came after it.
    pub is_answered: bool,
    /// Whether the user or the model took the answer back later.
    pub is_retracted: bool,
    /// Whether the user stopped it.
    pub is_stopped: bool,
    pub time: Option<Time>,
}

/// A file that was read or changed.
#[derive(Debug, Clone, Default)]
pub struct TouchedFile {
    /// Its path as in the tool calls.
    pub path: String,
    /// Successful edits and writes.
    pub changes: usize,
    pub reads: usize,
    /// Whether it was written before it was ever read.
    pub is_new: bool,
    /// Symbols that the changes touched, newest last, each once.
    pub symbols: Vec<String>,
    /// The text of the last change.
    pub last_text: String,
    /// Step of the last change, or of the last read if it was never changed.
    pub step: usize,
}

/// A shell command of the model.
#[derive(Debug, Clone, Default)]
pub struct ShellCommand {
    /// The command in its normal form.
    pub text: String,
    /// What it is for; `None` if it only prepares or prints something.
    pub intent: Option<CommandIntent>,
    /// Its description by the model.
    pub about: String,
    /// Runs that ended: refused calls are none.
    pub runs: usize,
    pub failed: usize,
    /// Calls that the log has no result of.
    pub unfinished: usize,
    /// Whether the last run failed.
    pub is_failing: bool,
    /// Whether another command of the same intent went through after that.
    pub is_closed: bool,
    /// Step of the last run.
    pub step: usize,
    /// The key line of its last output, if there is one.
    pub outcome: String,
}

impl ShellCommand {
    /// Returns how the command stands at the end; `None` if it never ran.
    pub fn state(&self) -> Option<FinalState> {
        match (self.runs, self.is_failing) {
            (0, _) if self.unfinished == 0 => None,
            (0, _) => Some(FinalState::Unverified),
            (_, true) if self.is_closed => Some(FinalState::Superseded),
            (_, true) => Some(FinalState::Failed),
            (_, false) => Some(FinalState::Done),
        }
    }
}

/// A failed command or tool call.
#[derive(Debug, Clone)]
pub struct DigestFailure {
    /// The command, or the tool and its target.
    pub what: String,
    pub command: Option<usize>,
    /// The key lines of the error.
    pub error: String,
    pub step: usize,
    /// How often the same failure came back.
    pub occurrences: usize,
    /// Step at which the same command succeeded.
    pub fixed_at: Option<usize>,
    /// Whether what it was about is gone: its file was removed, or there is nothing left to commit.
    pub is_moot: bool,
    /// Files that were changed in between.
    pub changed: Vec<usize>,
    /// A command that rewrites files and went through in between.
    pub fixer: Option<usize>,
    /// What the model said about the cause in between.
    pub cause: String,
}

/// State of an item on the task list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TaskState {
    InProgress,
    Open,
    Done,
}

impl TaskState {
    /// Parses the status of a task as tools write it.
    pub fn parse(status: &str) -> TaskState {
        match status {
            "completed" => TaskState::Done,
            "in_progress" => TaskState::InProgress,
            _ => TaskState::Open,
        }
    }
}

/// An item on the task list.
#[derive(Debug, Clone)]
pub struct TaskItem {
    /// Its number, if the list has numbers.
    pub id: String,
    pub text: String,
    pub state: TaskState,
}

/// What a sentence of the model explains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SentenceKind {
    /// The cause of a failure or of a behavior.
    Cause,
    Decision,
    /// How the system is built.
    System,
}

/// A sentence of the model that explains something.
#[derive(Debug, Clone)]
pub struct ModelSentence {
    pub text: String,
    pub kind: SentenceKind,
    pub step: usize,
    /// It points to something that was said elsewhere, so that it is not understood alone.
    pub needs_context: bool,
}

/// A question to the user and the answer, or a plan and whether the user approved it.
#[derive(Debug, Clone)]
pub struct UserChoice {
    pub question: String,
    pub answer: String,
    /// The user wrote it instead of taking one of the options.
    pub is_free: bool,
    pub step: usize,
}
