//! What still holds when a part of a conversation begins: a compaction takes the words away, but not the open tasks, the
//! uncommitted files and the commands that still fail.

use super::Digest;
use super::facts::{DigestFailure, ShellCommand, TaskItem, TaskState, TouchedFile};
use crate::conversation::Conversation;
use crate::offline::lines::is_still_failing;
use crate::offline::state::background::{BackgroundState, BackgroundTask, BackgroundWork};
use crate::offline::state::ledger::RepositoryLedger;
use crate::offline::state::refusals::RefusalList;
use transcript::messages::Message;

/// The state before the first message of a part of a conversation.
#[derive(Debug, Clone, Default)]
pub struct CarriedState {
    tasks: Vec<TaskItem>,
    ledger: RepositoryLedger,
    refusals: RefusalList,
    /// Commands that fail or run, with their failure or task.
    failures: Vec<(ShellCommand, DigestFailure)>,
    /// Files that were changed after one of these failures.
    files: Vec<TouchedFile>,
    running: Vec<(Option<ShellCommand>, BackgroundTask)>,
    recorded_title: String,
    recorded_branch: String,
}

impl Digest {
    /// Starts the digest of a part of a conversation.
    pub fn after(root: &str, state: &CarriedState) -> Digest {
        let mut digest = Digest {
            tasks: state.tasks.clone(),
            ledger: state.ledger.clone(),
            refusals: state.refusals.clone(),
            recorded_title: state.recorded_title.clone(),
            recorded_branch: state.recorded_branch.clone(),
            ..Digest::new(root)
        };
        for file in &state.files {
            digest.by_path.insert(file.path.clone(), digest.files.len());
            digest.files.push(file.clone());
        }
        for (command, failure) in &state.failures {
            let at = digest.carry_command(command);
            digest.failures.push(DigestFailure {
                command: Some(at),
                ..failure.clone()
            });
        }
        for (command, task) in &state.running {
            let mut task = task.clone();
            if let (Some(command), BackgroundWork::Command { number, .. }) = (command, &mut task.work) {
                *number = digest.carry_command(command);
            }
            digest.background.push(task);
        }
        digest
    }

    fn carry_command(&mut self, command: &ShellCommand) -> usize {
        if let Some(&at) = self.by_command.get(&command.text) {
            return at;
        }
        self.commands.push(command.clone());
        let at = self.commands.len() - 1;
        self.by_command.insert(command.text.clone(), at);
        at
    }

    /// Returns what holds after the last message.
    fn carried_state(&self) -> CarriedState {
        let at_start = |command: usize| ShellCommand {
            step: 0,
            ..self.commands[command].clone()
        };
        let open = self.failures.iter().filter(|failure| is_still_failing(self, failure));
        let open = open.collect::<Vec<_>>();
        let first = open.iter().map(|failure| failure.step).min();
        // After the failures, and before everything that follows.
        let later = self
            .files
            .iter()
            .filter(|file| file.changes > 0 && first.is_some_and(|first| file.step > first));
        let files = later.map(|file| TouchedFile {
            step: 1,
            ..file.clone()
        });
        let files = files.collect();
        let failures = open.into_iter().filter_map(|failure| {
            let failure_at_start = DigestFailure {
                step: 0,
                ..failure.clone()
            };
            Some((at_start(failure.command?), failure_at_start))
        });
        let running = self
            .background
            .iter()
            .filter(|task| task.state == BackgroundState::Running);
        let running = running.map(|task| match task.work {
            BackgroundWork::Command { number, .. } => (Some(at_start(number)), task.clone()),
            _ => (None, task.clone()),
        });
        CarriedState {
            tasks: self
                .tasks
                .iter()
                .filter(|task| task.state != TaskState::Done || !task.id.is_empty())
                .cloned()
                .collect(),
            ledger: self.ledger.clone(),
            refusals: self.refusals.clone(),
            failures: failures.collect(),
            files,
            running: running.collect(),
            recorded_title: self.recorded_title.clone(),
            recorded_branch: self.recorded_branch.clone(),
        }
    }
}

/// Follows the state of a conversation, so that parts of it can be digested from any message on.
#[derive(Default)]
pub struct StateTracker {
    digest: Digest,
    /// Messages that were taken.
    taken: usize,
}

impl StateTracker {
    /// Returns the state before message `end`. Asking for earlier messages than before starts again.
    pub fn state_before(&mut self, conversation: &Conversation, end: usize) -> CarriedState {
        if self.taken == 0 || end < self.taken {
            self.digest = Digest {
                only_state: true,
                ..Digest::of_conversation(conversation)
            };
            self.taken = 0;
        }
        let messages: &[Message] = &conversation.messages[self.taken..end];
        messages.iter().for_each(|message| self.digest.push(message));
        self.taken = end;
        self.digest.carried_state()
    }
}
