//! Tasks in the background of a digest: a command counts as run only when its end is known.

use super::Digest;
use super::calls::last_paragraph;
use crate::offline::shell::{key_output_line, tool_output};
use crate::offline::state::background::{
    BackgroundState, BackgroundTask, BackgroundWork, TaskReport, notices, output_file_report, task_answer,
};
use crate::offline::state::parts::hides_status;
use language::shorten::to_one_line;

impl Digest {
    /// Takes a text of the client, which may tell that tasks ended.
    pub(super) fn add_notices(&mut self, text: &str) {
        if !self.background.is_empty() {
            notices(text).iter().for_each(|report| self.add_report(report));
        }
    }

    /// Starts a task.
    pub(super) fn start_background(&mut self, id: &str, call: &str, work: BackgroundWork) {
        self.background.push(BackgroundTask {
            id: id.to_owned(),
            call: call.to_owned(),
            work,
            state: BackgroundState::Running,
            is_judged: false,
        });
    }

    /// Takes the result of a call that asked how a task stands.
    pub(super) fn add_task_answer(&mut self, id: &str, result: &str) {
        if let Some(report) = task_answer(id, result) {
            self.add_report(&report);
        }
    }

    /// Takes the result of a call that stopped a task.
    pub(super) fn add_task_stop(&mut self, id: &str) {
        let state = Some(BackgroundState::Killed);
        let id = id.to_owned();
        self.add_report(&TaskReport {
            id,
            state,
            ..TaskReport::default()
        });
    }

    /// Takes the output of a command that shows the output files of tasks.
    pub(super) fn read_task_files(&mut self, command: &str, output: &str) {
        let shown = self.background.iter().map(|task| task.id.clone());
        let shown = shown
            .filter(|id| command.contains(&format!("{id}.output")))
            .collect::<Vec<_>>();
        if let [id] = shown.as_slice() {
            self.add_report(&output_file_report(id, output));
        }
    }

    fn add_report(&mut self, report: &TaskReport) {
        let is_it =
            |task: &&mut BackgroundTask| task.id == report.id || !report.call.is_empty() && task.call == report.call;
        let Some(task) = self.background.iter_mut().rev().find(is_it) else {
            return;
        };
        let was_running = task.state == BackgroundState::Running;
        // What ended stays as it ended; a sub-agent may be sent on and end again.
        let is_agent = matches!(task.work, BackgroundWork::Agent { .. });
        if let Some(state) = report.state.filter(|_| was_running || is_agent) {
            task.state = state;
        }
        let task = task.clone();
        match &task.work {
            BackgroundWork::Command { number, raw } => self.judge_command(&task, *number, raw, was_running, report),
            BackgroundWork::Agent { about } => self.add_agent_answer(about, &task, report),
            BackgroundWork::Other { .. } => {}
        }
    }

    /// Counts the run of a command once it has ended. A pipe hides the status; then what it printed decides.
    fn judge_command(
        &mut self,
        task: &BackgroundTask,
        number: usize,
        raw: &str,
        was_running: bool,
        report: &TaskReport,
    ) {
        if task.state == BackgroundState::Running {
            return;
        }
        let known = &mut self.commands[number];
        known.unfinished -= usize::from(was_running && known.unfinished > 0);
        if task.state == BackgroundState::Killed {
            return;
        }
        known.runs += usize::from(was_running);
        let turn = self.current_turn();
        if was_running && !turn.commands.contains(&number) {
            turn.commands.push(number);
        }
        let is_error = task.state == BackgroundState::Failed;
        let output = tool_output(&report.output);
        let says_enough = is_error || !output.trim().is_empty() || !hides_status(raw);
        if task.is_judged || !says_enough {
            if task.is_judged && !output.trim().is_empty() {
                let failed = self.commands[number].is_failing;
                self.commands[number].outcome = key_output_line(&output, failed);
            }
            return;
        }
        let id = task.id.as_str();
        if let Some(task) = self.background.iter_mut().rev().find(|task| task.id == id) {
            task.is_judged = true;
        }
        let text = match report.exit_code.filter(|code| *code != 0) {
            Some(code) => format!("Exit code {code}\n{output}"),
            None => output.into_owned(),
        };
        self.judge_run(number, raw, &text, is_error, self.steps);
    }

    fn add_agent_answer(&mut self, about: &str, task: &BackgroundTask, report: &TaskReport) {
        let answer = match task.state {
            BackgroundState::Running => return,
            BackgroundState::Killed => "(stopped before it ended)".to_owned(),
            _ => last_paragraph(&tool_output(&report.output)),
        };
        let answer = match answer.is_empty() {
            true if task.state == BackgroundState::Failed => "(failed)".to_owned(),
            true => return,
            false => answer,
        };
        let about = to_one_line(about, 120);
        self.agents.retain(|(known, _)| *known != about);
        self.agents.push((about, answer));
    }
}
