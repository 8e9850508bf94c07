//! What a session log says, read from its records alone. Shares no code with the programs that write notes.

use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How a shell command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Success,
    Failure,
    /// A person refused it, or it was stopped before it ran.
    Refused,
    /// It goes on in the background, or its result was never written.
    Unknown,
}

/// A shell command that the model asked for.
#[derive(Debug, Clone)]
pub struct Execution {
    pub command: String,
    pub ending: Ending,
    pub order: usize,
}

/// What a model says to grant that a person is right.
const GRANTS: [&str; 15] = [
    "right",
    "correct",
    "catch",
    "point",
    "apolog",
    "mistake",
    "wrong",
    "sorry",
    "conflat",
    "misread",
    "misunderst",
    "说得对",
    "说的对",
    "抱歉",
    "shouldn't have",
];

/// A call that went on in the background.
#[derive(Debug, Clone)]
pub struct BackgroundStart {
    /// Id of the task, and of the call.
    pub ids: [String; 2],
    /// The command, or the description of a sub-agent.
    pub about: String,
    pub has_ended: bool,
    /// The execution of a command.
    execution: Option<usize>,
}

/// What a log says about one session.
#[derive(Debug, Default)]
pub struct SessionFacts {
    pub executions: Vec<Execution>,
    /// Other calls: tool, what they were about, ending.
    pub calls: Vec<(String, String, Ending)>,
    /// The last state of every task by its text: finished or removed.
    pub tasks: BTreeMap<String, bool>,
    /// Words of a person, in order.
    pub words: Vec<(usize, String)>,
    /// Words of a person that the model granted right after them.
    pub granted: Vec<String>,
    /// Text that the client wrote in a person's name.
    pub client_words: Vec<String>,
    /// Results of questions that were answered.
    pub answers: Vec<String>,
    /// Questions that nobody answered, and plans that were not approved.
    pub unanswered: Vec<String>,
    /// Titles of plans, and whether they were approved.
    pub plans: Vec<(String, bool)>,
    /// Commits: hash and subject.
    pub commits: Vec<(String, String)>,
    /// All that shell commands printed: a hash of a commit stands there.
    pub printed: String,
    /// Commands that commit, and whether a commit came of each as far as its output says.
    pub commit_tries: Vec<(String, bool)>,
    /// What `git status` and `git diff` printed.
    pub git_listings: String,
    /// Calls that went on in the background: what was started, and whether the log has their end.
    pub background: Vec<BackgroundStart>,
    /// Files by the order of their last edit.
    pub edited: BTreeMap<String, usize>,
    /// Order of the last commit that covers a file; every file if the path is empty.
    pub committed: Vec<(String, usize)>,
    /// Orders of the texts of the model after which no call follows.
    pub last_answer: Option<usize>,
    pub last_call: Option<usize>,
    /// Order of the last refusal or interruption.
    pub last_stop: Option<usize>,
    pub pushes: usize,
    order: usize,
    asked: HashMap<String, (String, Value)>,
    task_ids: HashMap<String, String>,
    queued: Vec<String>,
    staged: Vec<String>,
    seen: HashSet<String>,
}

const REFUSED: [&str; 3] = [
    "The user doesn't want to",
    "[Request interrupted by user",
    "Permission for this action was denied",
];

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let texts = items.iter().filter_map(|item| item["text"].as_str());
            texts.collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// Returns the content of the first element of a name.
fn element<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
        .map(|(content, _)| content.trim())
}

/// Reads a line in which git reports a commit, `[branch 1a2b3c4] subject`: its hash and subject.
fn reported_commit(line: &str) -> Option<(String, String)> {
    let (head, subject) = line.strip_prefix('[')?.split_once("] ")?;
    let hash = head.split_whitespace().last().unwrap_or_default();
    let is_hash = hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_hash && head.contains(' ')).then(|| (hash.to_owned(), subject.to_owned()))
}

/// Returns the commits that `git log` listed on one line each, or `git show` in its long form.
fn listed_commits(text: &str) -> Vec<(String, String)> {
    let is_hash = |word: &str| word.len() >= 7 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let (mut commits, mut shown) = (Vec::new(), None);
    for line in text.lines() {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        if first == "commit" && rest.split_whitespace().next().is_some_and(is_hash) {
            shown = rest.split_whitespace().next();
        } else if is_hash(first) && !rest.trim().is_empty() {
            commits.push((first.to_owned(), rest.to_owned()));
        } else if let Some(hash) = shown.filter(|_| line.starts_with("    ") && !rest.trim().is_empty()) {
            commits.push((hash.to_owned(), line.trim().to_owned()));
            shown = None;
        }
    }
    commits
}

/// Returns the word that follows a lead; empty without it.
fn word_after<'t>(text: &'t str, lead: &str) -> &'t str {
    let after = text.split_once(lead).map_or("", |(_, after)| after);
    after
        .split(|sign: char| !sign.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default()
}

/// Returns whether a text in a person's name comes from the client.
fn is_client_text(text: &str) -> bool {
    let text = text.trim_start();
    let tags = [
        "<command-",
        "<local-command",
        "<task-notification",
        "<bash-",
        "<agent-",
        "<teammate-",
        "<system-",
        "<cross-session",
        "<monitor-",
        "<ci-monitor",
        "<mcp-",
        "<user-memory",
    ];
    let starts = [
        "Caveat: The messages below",
        "This session is being continued",
        "Stop hook feedback",
        "{\"task_id\"",
        "Base directory for this skill",
        "Unknown slash command",
        "[SYSTEM NOTIFICATION",
        "[Request interrupted",
        "Another Claude session sent",
        "Operation stopped by hook",
    ];
    tags.iter().chain(&starts).any(|start| text.starts_with(start))
}

impl SessionFacts {
    /// Reads the records of a session, in the order of the log.
    pub fn read<'r>(records: impl Iterator<Item = &'r Value>) -> SessionFacts {
        let mut facts = SessionFacts::default();
        for record in records {
            facts.order += 1;
            // Resumed logs repeat records.
            let is_copy = record["uuid"]
                .as_str()
                .is_some_and(|uuid| !facts.seen.insert(uuid.to_owned()));
            if record["isSidechain"] == true || is_copy {
                continue;
            }
            match record["type"].as_str().unwrap_or_default() {
                "user" if record["isCompactSummary"] != true => facts.read_user(record),
                "assistant" if record["message"]["model"] == "<synthetic>" => {}
                "assistant" => facts.read_assistant(record),
                "attachment" if record["attachment"]["type"] == "queued_command" => {
                    facts.read_notices(&text_of(&record["attachment"]["prompt"]));
                    facts.add_words(&text_of(&record["attachment"]["prompt"]));
                }
                "queue-operation" => facts.read_queue(record),
                _ => {}
            }
        }
        facts
    }

    fn add_words(&mut self, text: &str) {
        if text.starts_with("[Request interrupted") {
            self.last_stop = Some(self.order);
        }
        match is_client_text(text) {
            true => self.client_words.push(text.to_owned()),
            false => self.words.push((self.order, text.to_owned())),
        }
        // A command that a person typed is wrapped by the client.
        if let Some(name) = element(text, "command-name") {
            let arguments = element(text, "command-args").unwrap_or_default();
            self.words.push((self.order, format!("{name} {arguments}")));
        }
    }

    fn read_queue(&mut self, record: &Value) {
        let content = text_of(&record["content"]);
        self.read_notices(&content);
        match record["operation"].as_str() {
            Some("enqueue") if !content.is_empty() => {
                self.queued.push(content.clone());
                self.add_words(&content);
            }
            Some("popAll") => {
                let order = self.order;
                self.words
                    .retain(|(at, word)| *at == order || !self.queued.contains(word));
            }
            _ => {}
        }
    }

    fn read_user(&mut self, record: &Value) {
        let content = &record["message"]["content"];
        let blocks = match content {
            Value::Array(blocks) => blocks.clone(),
            Value::String(text) => vec![serde_json::json!({"type": "text", "text": text})],
            _ => Vec::new(),
        };
        for block in &blocks {
            match block["type"].as_str() {
                Some("text") => {
                    let text = block["text"].as_str().unwrap_or_default();
                    self.read_notices(text);
                    match record["isMeta"] == true {
                        true => self.client_words.push(text.to_owned()),
                        false => self.add_words(text),
                    }
                }
                Some("tool_result") => self.read_result(block),
                _ => {}
            }
        }
    }

    fn read_assistant(&mut self, record: &Value) {
        let empty = Vec::new();
        for block in record["message"]["content"].as_array().unwrap_or(&empty) {
            match block["type"].as_str() {
                Some("text") if !block["text"].as_str().unwrap_or_default().trim().is_empty() => {
                    self.note_grant(block["text"].as_str().unwrap_or_default());
                    self.last_answer = Some(self.order);
                }
                Some("tool_use") => {
                    self.last_call = Some(self.order);
                    let id = block["id"].as_str().unwrap_or_default().to_owned();
                    let name = block["name"].as_str().unwrap_or_default().to_owned();
                    self.read_tasks(&name, &block["input"]);
                    self.asked.insert(id, (name, block["input"].clone()));
                }
                _ => {}
            }
        }
    }

    /// Notes whether the first text of the model after words of a person says that they are right.
    fn note_grant(&mut self, text: &str) {
        let Some((said, words)) = self.words.last() else { return };
        let is_first = self.last_answer.is_none_or(|answer| answer < *said);
        let start = text
            .chars()
            .take(300)
            .collect::<String>()
            .to_lowercase()
            .replace('\u{2019}', "'");
        if is_first && GRANTS.iter().any(|grant| start.contains(grant)) {
            self.granted.push(words.clone());
        }
    }

    fn read_tasks(&mut self, tool: &str, input: &Value) {
        if tool == "TodoWrite" {
            for finished in self.tasks.values_mut() {
                *finished = true;
            }
            for item in input["todos"].as_array().into_iter().flatten() {
                let text = item["content"].as_str().unwrap_or_default().to_owned();
                self.tasks.insert(text, item["status"] == "completed");
            }
        }
        if tool == "TaskUpdate" {
            let id = input["taskId"].as_str().unwrap_or_default();
            let Some(text) = self.task_ids.get(id).cloned() else {
                return;
            };
            match input["status"].as_str() {
                Some("completed" | "deleted") => self.tasks.insert(text, true),
                Some("pending" | "in_progress") => self.tasks.insert(text, false),
                _ => None,
            };
        }
    }

    fn read_result(&mut self, block: &Value) {
        let id = block["tool_use_id"].as_str().unwrap_or_default();
        let Some((tool, input)) = self.asked.remove(id) else {
            return;
        };
        let text = text_of(&block["content"]);
        self.commits.extend(text.lines().filter_map(reported_commit));
        let is_refused = REFUSED.iter().any(|start| text.starts_with(start));
        let ending = match (is_refused, block["is_error"] == true) {
            (true, _) => Ending::Refused,
            (false, true) => Ending::Failure,
            (false, false) => Ending::Success,
        };
        if is_refused {
            self.last_stop = Some(self.order);
        }
        if is_refused && let Some((_, said)) = text.split_once("the user said:") {
            self.words.push((self.order, said.trim().to_owned()));
        }
        if is_refused && let Some((_, said)) = text.split_once("reason for the rejection:") {
            self.words.push((self.order, said.trim().to_owned()));
        }
        match tool.as_str() {
            "Bash" | "PowerShell" => self.add_execution(id, &input, &text, ending),
            "Task" | "Agent" if text.starts_with("Async agent launched") => {
                let about = input["description"].as_str().unwrap_or_default();
                self.add_start(word_after(&text, "agentId: "), id, about, None);
            }
            "TaskOutput" | "BashOutput" | "KillShell" | "TaskStop" => self.read_task(&input, &text),
            "Edit" | "Write" | "MultiEdit" | "NotebookEdit" if ending == Ending::Success => {
                let path = input["file_path"].as_str().or(input["notebook_path"].as_str());
                self.edited.insert(path.unwrap_or_default().to_owned(), self.order);
            }
            "AskUserQuestion" if ending == Ending::Success => self.answers.push(text.clone()),
            "AskUserQuestion" => {
                for question in input["questions"].as_array().into_iter().flatten() {
                    let question = question["question"].as_str().unwrap_or_default();
                    self.unanswered.push(question.to_owned());
                }
            }
            "ExitPlanMode" => {
                let plan = input["plan"].as_str().unwrap_or_default();
                let title = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
                self.plans.push((title.to_owned(), ending == Ending::Success));
            }
            "TaskCreate" if ending == Ending::Success => {
                let digits = text.split('#').nth(1).unwrap_or_default();
                let digits = digits
                    .split(|sign: char| !sign.is_ascii_digit())
                    .next()
                    .unwrap_or_default();
                let subject = input["subject"].as_str().unwrap_or_default().to_owned();
                self.task_ids.insert(digits.to_owned(), subject.clone());
                self.tasks.insert(subject, false);
            }
            _ => {}
        }
        let about = input.to_string();
        self.calls.push((tool, about, ending));
    }

    fn add_start(&mut self, task: &str, call: &str, about: &str, execution: Option<usize>) {
        self.background.push(BackgroundStart {
            ids: [task.to_owned(), call.to_owned()],
            about: about.to_owned(),
            has_ended: false,
            execution,
        });
    }

    /// Ends what a notice or an answer names; its exit status is that of the command.
    fn end_task(&mut self, id: &str, ending: Ending) {
        let order = self.order;
        for start in &mut self.background {
            if start.ids.iter().all(|known| known != id) {
                continue;
            }
            start.has_ended = true;
            let execution = start.execution.and_then(|at| self.executions.get_mut(at));
            // Behind a pipe, status 0 says nothing.
            if let Some(run) = execution.filter(|run| ending == Ending::Failure || !run.command.contains('|')) {
                (run.ending, run.order) = (ending, order);
            }
        }
    }

    fn read_notices(&mut self, text: &str) {
        for notice in text.split("<task-notification>").skip(1) {
            let status = element(notice, "status").unwrap_or_default();
            let summary = element(notice, "summary").unwrap_or_default();
            let is_failure = status == "failed" || summary.contains("exit code") && !summary.contains("exit code 0");
            let ending = match (status, is_failure) {
                ("running" | "", _) => continue,
                ("killed" | "stopped", _) => Ending::Unknown,
                (_, true) => Ending::Failure,
                (_, false) => Ending::Success,
            };
            for name in ["task-id", "tool-use-id"] {
                let id = element(notice, name).filter(|id| *id != "REDACTED").unwrap_or("-");
                self.end_task(id, ending);
            }
        }
    }

    /// Reads the answer of a tool that asks about a task or stops it.
    fn read_task(&mut self, input: &Value, text: &str) {
        let ids = ["task_id", "bash_id", "shell_id"]
            .iter()
            .filter_map(|key| input[*key].as_str());
        let Some(id) = ids.map(str::to_owned).next() else {
            return;
        };
        let is_ended = ["<status>completed", "<status>failed", "<status>killed", "Successfully"];
        if is_ended.iter().any(|mark| text.contains(mark)) {
            let ending = match element(text, "exit_code") {
                Some("0") => Ending::Success,
                Some(_) => Ending::Failure,
                None => Ending::Unknown,
            };
            self.end_task(&id, ending);
        }
    }

    /// Gives edited files that a command moved their new path.
    fn follow_moves(&mut self, command: &str) {
        for part in command.split(['&', ';', '\n']).map(str::trim) {
            let part = part.strip_prefix("git ").unwrap_or(part);
            let words = part.split_whitespace().collect::<Vec<_>>();
            let ["mv", old, new] = words[..] else { continue };
            let edited = std::mem::take(&mut self.edited);
            let moved = edited.into_iter().map(|(path, order)| {
                let plain = path.replace('\\', "/");
                match plain.strip_suffix(old).filter(|folder| folder.ends_with('/')) {
                    Some(folder) => (format!("{folder}{new}"), order),
                    None => (path, order),
                }
            });
            self.edited = moved.collect();
        }
    }

    fn add_execution(&mut self, id: &str, input: &Value, text: &str, ending: Ending) {
        let command = input["command"].as_str().unwrap_or_default().to_owned();
        if ending == Ending::Success && command.contains("mv ") {
            self.follow_moves(&command);
        }
        let is_background = text.contains("running in background with ID: ") || text.contains("by user with ID: ");
        if is_background {
            let task = word_after(text, "with ID: ").to_owned();
            self.add_start(&task, id, &command, Some(self.executions.len()));
        }
        if command.contains("git") && command.contains("commit") && !is_background && ending != Ending::Refused {
            let marks = [
                "FAILED",
                "nothing to commit",
                "no changes added",
                "husky - ",
                "error:",
                "fatal:",
            ];
            let is_refused = |line: &str| marks.iter().any(|mark| line.trim_start().starts_with(mark));
            let is_made = ending == Ending::Success && !text.lines().any(is_refused);
            self.commit_tries.push((command.clone(), is_made));
        }
        if command.contains("git") {
            self.printed.push_str(text);
            self.commits.extend(listed_commits(text));
        }
        if command.contains("git status") || command.contains("git diff") {
            self.git_listings.push_str(text);
        }
        // The status of a filter says nothing about the program before it.
        let is_filtered = ["| tail", "|tail", "| head", "| grep", "| sed", "| tee"]
            .iter()
            .any(|filter| command.contains(filter));
        let says_failure = ["FAIL", "ERROR", "error:", "error[", "panic:", "Traceback"]
            .iter()
            .any(|word| text.contains(word));
        let ending = if ending == Ending::Success && (is_background || is_filtered && says_failure) {
            Ending::Unknown
        } else {
            ending
        };
        if ending == Ending::Success {
            self.read_git(&command, text);
        }
        self.executions.push(Execution {
            command,
            ending,
            order: self.order,
        });
    }

    fn add_staged(&mut self, command: &str) {
        let adds = command.split("git add").skip(1).flat_map(|add| {
            let words = add
                .split_whitespace()
                .take_while(|word| !matches!(*word, "&&" | "||" | "|" | ";"));
            words.map(|word| word.trim_matches(['"', '\'', ';']).to_owned())
        });
        self.staged.extend(adds);
    }

    /// Notes commits by what git printed: `[branch 1a2b3c4] subject`.
    fn read_git(&mut self, command: &str, output: &str) {
        if command.contains("git push") {
            self.pushes += 1;
        }
        if command.contains("git status") && output.contains("working tree clean") && !command.contains("cd ") {
            self.committed.push((String::new(), self.order));
        }
        // Commits of scripts and of other branches do not cover what was edited here.
        if !command.contains("git commit") && !command.contains("--continue") {
            self.add_staged(command);
            return;
        }
        self.add_staged(command);
        if !output.lines().any(|line| reported_commit(line).is_some()) {
            return;
        }
        let staged = std::mem::take(&mut self.staged);
        let is_all = command.contains("commit -a") || staged.is_empty();
        for word in staged {
            match word.as_str() {
                "-A" | "." | "--all" | "-u" => self.committed.push((String::new(), self.order)),
                option if option.starts_with('-') => {}
                path => self.committed.push((path.to_owned(), self.order)),
            }
        }
        if is_all {
            self.committed.push((String::new(), self.order));
        }
    }
}
