//! Tool calls and their results: files, commands, tasks, choices and sub-agents of a digest.

use super::Digest;
use super::facts::{ShellCommand, TaskItem, TaskState, TouchedFile, UserChoice};
use crate::offline::compose::inline_quote;
use crate::offline::gist::plan_heading;
use crate::offline::names;
use crate::offline::prose::whole_sentences;
use crate::offline::shell::{has_failure_marks, is_read_only_command, normalize_command, tool_output};
use crate::offline::state::background::{BackgroundWork, started_task};
use crate::offline::state::branches::switches_branch;
use crate::offline::state::intent::{CommandIntent, answers_by_status, is_shell_tool};
use crate::offline::state::refusals::RefusedCall;
use language::markdown::inline_code;
use language::sentences::split_prose;
use language::shorten::to_one_line;
use language::words::content_words;
use serde_json::Value;
use std::collections::HashSet;
use transcript::tools::tool_role;

/// Characters of a question in a decision.
const LONGEST_QUESTION: usize = 200;

/// A call whose result is not known yet.
pub(super) struct PendingCall {
    step: usize,
    kind: PendingKind,
}

enum PendingKind {
    Change(PendingChange),
    Read {
        path: String,
    },
    Run {
        command: usize,
        raw: String,
    },
    NewTask {
        text: String,
    },
    Ask {
        questions: Vec<AskedQuestion>,
    },
    Plan {
        plan: String,
    },
    Agent {
        about: String,
    },
    /// A question how a task in the background stands, or an order to stop it.
    AskTask {
        id: String,
    },
    StopTask {
        id: String,
    },
    Other {
        what: String,
    },
}

/// A question of the model with the answers that it offers.
struct AskedQuestion {
    text: String,
    options: Vec<String>,
}

/// An edit or a write.
struct PendingChange {
    path: String,
    symbols: Vec<String>,
    /// Symbols that it removes.
    removed: Vec<String>,
    /// The lines that it adds.
    text: String,
    is_write: bool,
}

/// Returns a string of the input of a call; empty if there is none.
fn input_text<'v>(input: &'v Value, key: &str) -> &'v str {
    input.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the id of the task that a call is about.
fn task_id(input: &Value) -> String {
    let mut ids = ["task_id", "bash_id", "shell_id", "agentId", "session_id"].into_iter();
    let id = ids.find_map(|key| input.get(key));
    match id {
        Some(Value::String(id)) => id.clone(),
        Some(Value::Number(id)) => id.to_string(),
        _ => String::new(),
    }
}

impl Digest {
    pub(super) fn add_call(&mut self, id: &str, name: &str, input: &Value) {
        let text = |key: &str| input_text(input, key);
        let role = match tool_role(name, !text("file_path").is_empty()) {
            other if is_shell_tool(other) && !text("command").is_empty() => "Bash",
            role => role,
        };
        let kind = match role {
            "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => self.change_call(role, input),
            "Read" | "NotebookRead" => PendingKind::Read {
                path: text("file_path").to_owned(),
            },
            "Bash" => {
                self.note_names(text("command"), 1.0);
                PendingKind::Run {
                    command: self.command_number(text("command"), text("description")),
                    raw: text("command").to_owned(),
                }
            }
            "TodoWrite" => {
                self.replace_tasks(input);
                PendingKind::Other { what: String::new() }
            }
            "TaskCreate" => {
                let subject = Some(text("subject")).filter(|subject| !subject.is_empty());
                PendingKind::NewTask {
                    text: subject.unwrap_or(text("description")).to_owned(),
                }
            }
            "TaskUpdate" => {
                self.update_task(text("taskId"), text("status"), text("subject"));
                PendingKind::Other { what: String::new() }
            }
            "AskUserQuestion" => PendingKind::Ask {
                questions: asked_questions(input),
            },
            "ExitPlanMode" => {
                self.proposed_title = plan_title(text("plan"));
                PendingKind::Plan {
                    plan: text("plan").to_owned(),
                }
            }
            "Task" | "Agent" => PendingKind::Agent {
                about: to_one_line(text("description"), 120),
            },
            "TaskOutput" | "BashOutput" | "AgentOutputTool" => PendingKind::AskTask { id: task_id(input) },
            "KillShell" | "KillBash" | "TaskStop" => PendingKind::StopTask { id: task_id(input) },
            "Grep" | "Glob" => {
                self.note_names(text("pattern"), 2.0);
                PendingKind::Other { what: String::new() }
            }
            _ => {
                let keys = ["file_path", "path", "url", "query", "skill", "command", "title", "id"];
                let mut targets = keys.into_iter().map(text);
                let target = targets.find(|target| !target.is_empty()).unwrap_or_default();
                PendingKind::Other {
                    what: to_one_line(&format!("{name} {target}"), 160),
                }
            }
        };
        let step = self.steps;
        self.pending.insert(id.to_owned(), PendingCall { step, kind });
    }

    fn change_call(&mut self, tool: &str, input: &Value) -> PendingKind {
        let key = if tool == "NotebookEdit" {
            "notebook_path"
        } else {
            "file_path"
        };
        let changes = edit_texts(tool, input);
        let mut symbols = Vec::<String>::new();
        let mut removed = Vec::<String>::new();
        for (old, new) in &changes {
            removed.extend(names::removed_definitions(old, new).into_iter().map(str::to_owned));
            self.note_names(new, 3.0);
            self.note_names(old, 1.0);
            if names::is_text_file(input_text(input, key)) {
                continue;
            }
            for symbol in names::touched_symbols(old, new, 6) {
                if !symbols.iter().any(|known| known == symbol) {
                    symbols.push(symbol.to_owned());
                }
            }
        }
        symbols.retain(|symbol| symbol.len() > 3);
        symbols.truncate(8);
        PendingKind::Change(PendingChange {
            path: input_text(input, key).to_owned(),
            symbols,
            text: changes
                .last()
                .map(|(old, new)| added_lines(old, new))
                .unwrap_or_default(),
            removed,
            is_write: tool == "Write",
        })
    }

    fn command_number(&mut self, raw: &str, about: &str) -> usize {
        let text = normalize_command(raw);
        // A program that reads its script from a here-document is a different command every time.
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
                    intent: CommandIntent::parse(raw),
                    text,
                    ..ShellCommand::default()
                });
                self.by_command.insert(key, self.commands.len() - 1);
                self.commands.len() - 1
            }
        };
        let step = self.steps;
        let command = &mut self.commands[at];
        command.unfinished += 1;
        command.step = step;
        if !about.is_empty() {
            command.about = to_one_line(about, 120);
        }
        at
    }

    /// Takes the result of a command that ran.
    fn finish_run(&mut self, command: usize, raw: &str, text: &str, is_error: bool, step: usize) {
        self.read_task_files(raw, text);
        let known = &mut self.commands[command];
        known.unfinished = known.unfinished.saturating_sub(1);
        known.runs += 1;
        let turn = self.current_turn();
        if !turn.commands.contains(&command) {
            turn.commands.push(command);
        }
        self.judge_run(command, raw, text, is_error, step);
    }

    /// Decides from its output how a run ended.
    pub(super) fn judge_run(&mut self, command: usize, raw: &str, text: &str, is_error: bool, step: usize) {
        let is_answer = is_error && is_answer_by_status(raw, text);
        self.ledger.record_run(raw, text, is_error);
        if !is_error && switches_branch(raw, text) {
            self.refusals.lift_edits();
        }
        if !is_error {
            let ran = self.commands[command].text.clone();
            self.refusals.lift_command(&ran);
        }
        self.record_run(command, raw, text, is_error && !is_answer, step);
    }

    /// Forgets that a call was made: it never ran.
    fn withdraw(&mut self, kind: &PendingKind) {
        if let PendingKind::Run { command, .. } = kind {
            let known = &mut self.commands[*command];
            known.unfinished = known.unfinished.saturating_sub(1);
        }
    }

    /// Takes a call that the user refused.
    fn refuse(&mut self, kind: PendingKind) {
        self.withdraw(&kind);
        let call = match kind {
            // Who stops a look at something forbids nothing.
            PendingKind::Run { command, .. } if is_read_only_command(&self.commands[command].text) => return,
            PendingKind::Run { command, .. } => RefusedCall::Command {
                text: self.commands[command].text.clone(),
            },
            PendingKind::Change(change) => RefusedCall::Edit { path: change.path },
            PendingKind::Plan { plan } => RefusedCall::Plan {
                title: plan_title(&plan),
            },
            PendingKind::Other { what } if !what.is_empty() => RefusedCall::Other { what },
            // A refused question or read forbids nothing.
            _ => return,
        };
        self.refusals.add(call);
    }

    fn replace_tasks(&mut self, input: &Value) {
        let Some(items) = input.get("todos").and_then(Value::as_array) else {
            return;
        };
        let task = |item: &Value| TaskItem {
            id: String::new(),
            text: input_text(item, "content").to_owned(),
            state: TaskState::parse(input_text(item, "status")),
        };
        self.tasks = items.iter().map(task).collect();
        self.tasks_step = self.steps;
    }

    fn update_task(&mut self, id: &str, status: &str, subject: &str) {
        let Some(at) = self.tasks.iter().position(|task| task.id == id) else {
            return;
        };
        self.tasks_step = self.steps;
        if status == "deleted" {
            self.tasks.remove(at);
            return;
        }
        if !status.is_empty() {
            self.tasks[at].state = TaskState::parse(status);
        }
        if !subject.is_empty() {
            self.tasks[at].text = subject.to_owned();
        }
    }

    pub(super) fn add_result(&mut self, call: &str, text: &str, is_error: bool) {
        let Some(PendingCall { step, kind }) = self.pending.remove(call) else {
            return;
        };
        let text = tool_output(text);
        if is_error && text.starts_with("Permission for this action was denied") {
            // The client denied it by its rules: it never ran, and the user forbade nothing.
            self.withdraw(&kind);
            return;
        }
        if is_error && is_refusal(&text) {
            self.refuse(kind);
            return;
        }
        match kind {
            PendingKind::Change(change) if is_error => self.record_edit_failure(&change.path, &text, step),
            PendingKind::Change(change) => self.record_change(change, step),
            PendingKind::Read { path } if is_error => {
                let what = format!("Read {}", names::relative_path(&path, &self.root));
                self.record_failure(&what, None, &text, step);
            }
            PendingKind::Read { path } => self.record_read(&path, step),
            // It goes on in the background: how it ends is not in this result.
            PendingKind::Run { command, raw } => match started_task(&text) {
                Some(id) => self.start_background(id, call, BackgroundWork::Command { number: command, raw }),
                None => self.finish_run(command, &raw, &text, is_error, step),
            },
            PendingKind::AskTask { id } => {
                if !is_error {
                    self.add_task_answer(&id, &text);
                }
            }
            PendingKind::StopTask { id } => {
                if !is_error {
                    self.add_task_stop(&id);
                }
            }
            PendingKind::NewTask { .. } if is_error => {}
            PendingKind::NewTask { text: subject } => {
                // `Task #3 created successfully: ...`
                let id = text.split_once('#').map(|(_, rest)| rest).unwrap_or_default();
                let digits = id.split(|sign: char| !sign.is_ascii_digit()).next();
                self.tasks_step = self.steps;
                self.tasks.push(TaskItem {
                    id: digits.unwrap_or_default().to_owned(),
                    text: subject,
                    state: TaskState::Open,
                });
            }
            // The answers follow as replies; a question without one decided nothing.
            PendingKind::Ask { questions } => {
                self.last_options = questions.into_iter().flat_map(|question| question.options).collect();
            }
            PendingKind::Plan { plan } => {
                if !is_error {
                    self.approve_plan(&plan);
                }
            }
            PendingKind::Agent { about } => match started_task(&text).filter(|_| !is_error) {
                Some(id) => self.start_background(id, call, BackgroundWork::Agent { about }),
                None if !is_error => self.agents.push((about, last_paragraph(&text))),
                None => {}
            },
            PendingKind::Other { what } => {
                if let Some(id) = started_task(&text).filter(|_| !is_error) {
                    self.start_background(id, call, BackgroundWork::Other { about: what });
                } else if is_error && !what.is_empty() {
                    self.record_failure(&what, None, &text, step);
                }
            }
        }
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

    fn record_change(&mut self, change: PendingChange, step: usize) {
        let at = self.file_number(&change.path);
        let file = &mut self.files[at];
        file.is_new |= change.is_write && file.reads == 0 && file.changes == 0;
        let is_new = file.is_new;
        file.changes += 1;
        file.step = step;
        file.last_text = change.text;
        file.symbols.retain(|known| !change.removed.contains(known));
        for symbol in change.symbols {
            file.symbols.retain(|known| *known != symbol);
            file.symbols.push(symbol);
        }
        self.ledger.record_edit(&change.path, is_new);
        self.refusals
            .lift(|call| matches!(call, RefusedCall::Edit { path } if *path == change.path));
        let turn = self.current_turn();
        if !turn.files.contains(&at) {
            turn.files.push(at);
        }
    }

    fn record_read(&mut self, path: &str, step: usize) {
        let at = self.file_number(path);
        let file = &mut self.files[at];
        file.reads += 1;
        if file.changes == 0 {
            file.step = step;
        }
    }

    /// Records the answer to a question; the last answer to the same question counts.
    pub(super) fn record_choice(&mut self, question: &str, answer: &str) {
        let question = asked_part(question);
        let is_offered = |option: &String| answer.contains(option.as_str());
        let is_free = !self.last_options.is_empty() && !self.last_options.iter().any(is_offered);
        self.choices
            .retain(|choice| !is_same_question(&choice.question, &question));
        self.choices.push(UserChoice {
            question,
            answer: whole_sentences(answer, if is_free { 900 } else { 300 }),
            is_free,
            step: self.steps,
        });
    }

    /// Returns the command, the change or the task of a sub-agent that was called last and has no result; `None` if there is
    /// none.
    pub fn unfinished_call(&self) -> Option<String> {
        let is_last = |call: &&PendingCall| {
            let is_said_after = self.prompts.last().is_some_and(|prompt| prompt.step > call.step);
            let is_answered = self.turns.last().is_some_and(|turn| turn.is_answered);
            call.step + 2 > self.steps && !is_said_after && !is_answered && !self.is_interrupted
        };
        let calls = self.pending.values().filter(is_last);
        let described = calls.filter_map(|call| match &call.kind {
            PendingKind::Run { command, .. } => Some(inline_code(&self.commands[*command].text)),
            PendingKind::Change(change) => Some(format!(
                "the change to {}",
                inline_code(names::relative_path(&change.path, &self.root))
            )),
            PendingKind::Agent { about } => Some(format!("a sub-agent for {}", inline_quote(about, 160))),
            _ => None,
        });
        // Of several calls at once, always the same one.
        described.min()
    }

    /// Returns the question with its options, or the plan, that waits for the user; `None` if nothing does.
    pub fn waiting_call(&self) -> Option<String> {
        let last = self.pending.values().max_by_key(|call| call.step)?;
        let is_last = self.prompts.last().is_none_or(|prompt| prompt.step < last.step);
        match &last.kind {
            PendingKind::Ask { questions } if is_last && !questions.is_empty() => {
                let lines = questions.iter().map(AskedQuestion::describe);
                Some(lines.collect::<Vec<_>>().join("; "))
            }
            PendingKind::Plan { plan } if is_last => {
                let title = inline_quote(&plan_title(plan), 160);
                Some(format!("the plan {title}, which is not approved yet"))
            }
            _ => None,
        }
    }

    /// Records an approved plan. Plans before it, approved or refused, no longer count.
    fn approve_plan(&mut self, plan: &str) {
        let title = plan_title(plan);
        self.refusals.lift(|call| matches!(call, RefusedCall::Plan { .. }));
        self.choices.retain(|choice| !choice.question.starts_with("Plan: "));
        self.choices.push(UserChoice {
            question: format!("Plan: {title}"),
            answer: "approved".to_owned(),
            is_free: false,
            step: self.steps,
        });
        self.plan_title = title;
    }
}

impl AskedQuestion {
    fn describe(&self) -> String {
        let question = inline_quote(&self.text, 300);
        let options = self.options.iter().map(|option| inline_quote(option, 80));
        let options = options.collect::<Vec<_>>();
        match options.is_empty() {
            true => question,
            false => format!("{question} (options: {})", options.join(", ")),
        }
    }
}

/// Returns the questions of a call of the question tool.
fn asked_questions(input: &Value) -> Vec<AskedQuestion> {
    let questions = input.get("questions").and_then(Value::as_array);
    let options = |question: &Value| {
        let options = question.get("options").and_then(Value::as_array);
        let labels = options
            .into_iter()
            .flatten()
            .map(|option| input_text(option, "label").to_owned());
        labels.filter(|label| !label.is_empty()).collect()
    };
    let question = |question: &Value| AskedQuestion {
        text: input_text(question, "question").to_owned(),
        options: options(question),
    };
    let questions = questions.into_iter().flatten().map(question);
    questions.filter(|question| !question.text.is_empty()).collect()
}

/// Returns whether two questions ask for the same thing, so that the later answer counts.
fn is_same_question(known: &str, new: &str) -> bool {
    if known == new {
        return true;
    }
    let words = |text: &str| content_words(text).into_iter().collect::<HashSet<_>>();
    let (known, new) = (words(known), words(new));
    let shared = known.intersection(&new).count();
    shared > 3 && shared * 2 > known.len().min(new.len())
}

/// Returns the lines of the new text that the old one does not have.
fn added_lines(old: &str, new: &str) -> String {
    if old.is_empty() {
        return new.to_owned();
    }
    let known = old.lines().collect::<HashSet<_>>();
    let added = new.lines().filter(|line| !known.contains(line));
    added.collect::<Vec<_>>().join("\n")
}

/// Returns whether the result of a call says that the user refused or stopped it.
fn is_refusal(text: &str) -> bool {
    text.contains("doesn't want to proceed with this tool use")
        || text.contains("doesn't want to take this action")
        || text.starts_with("[Request interrupted by user")
}

/// Returns a question; of a long one, the start of its introduction and the sentence that asks.
fn asked_part(question: &str) -> String {
    let sentences = split_prose(question);
    let asks = |sentence: &&&str| sentence.ends_with(['?', '？']);
    match sentences.iter().rev().find(asks) {
        Some(last) if question.chars().count() > LONGEST_QUESTION => {
            let before = question.split(*last).next().unwrap_or_default().trim();
            let start = whole_sentences(before, LONGEST_QUESTION / 2);
            format!("{start} {}", whole_sentences(last, LONGEST_QUESTION))
                .trim()
                .to_owned()
        }
        _ => whole_sentences(question, LONGEST_QUESTION),
    }
}

/// Returns whether a status other than 0 is an answer: nothing found, or a difference.
fn is_answer_by_status(command: &str, text: &str) -> bool {
    let is_one = text.trim_start().starts_with("Exit code 1\n") || text.trim() == "Exit code 1";
    is_one && answers_by_status(command) && !has_failure_marks(text)
}

/// Returns the heading of a plan, or its first line.
fn plan_title(plan: &str) -> String {
    let first = || plan.lines().map(str::trim).find(|line| !line.is_empty());
    plan_heading(plan).unwrap_or_else(|| to_one_line(first().unwrap_or_default(), 160))
}

/// Returns the last paragraph of prose in the answer of a sub-agent: its result.
pub(super) fn last_paragraph(text: &str) -> String {
    let text = text.split("\nagentId:").next().unwrap_or(text);
    let mut paragraphs = text.rsplit("\n\n").map(str::trim);
    let is_prose = |paragraph: &&str| {
        paragraph.len() > 30 && !paragraph.starts_with(['#', '|', '`', '<']) && paragraph.contains(' ')
    };
    let last = paragraphs.find(is_prose).unwrap_or_default();
    whole_sentences(last, 300)
}

/// Returns the old and the new text of every change of an edit.
fn edit_texts<'v>(tool: &str, input: &'v Value) -> Vec<(&'v str, &'v str)> {
    match tool {
        "Write" => vec![("", input_text(input, "content"))],
        "NotebookEdit" => vec![("", input_text(input, "new_source"))],
        "MultiEdit" => {
            let edits = input.get("edits").and_then(Value::as_array);
            let texts = |edit: &'v Value| (input_text(edit, "old_string"), input_text(edit, "new_string"));
            match edits {
                Some(edits) => edits.iter().map(texts).collect(),
                // A file that a patch adds.
                None => vec![("", input_text(input, "content"))],
            }
        }
        _ => vec![(input_text(input, "old_string"), input_text(input, "new_string"))],
    }
}
