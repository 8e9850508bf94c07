//! False statements planted on purpose, to see how many of them the checker finds.
//!
//! Each is read off the records of a session without the facts that the checker uses: a refused call as one that ran, a failure
//! that went through later, a finished task, an answer of another session, a notice of the client, a committed file, a commit
//! that was refused, a task in the background that ended.

use super::claims::{CLAIM_KINDS, ClaimKind};
use serde_json::Value;
use std::collections::BTreeMap;

/// A false statement about a session.
#[derive(Debug, Clone)]
pub struct Plant {
    pub session: String,
    pub kind: ClaimKind,
    /// The line as notes would write it.
    pub line: String,
}

/// A call with its result, as the log has them.
struct RawCall<'r> {
    tool: &'r str,
    input: &'r Value,
    result: String,
    is_error: bool,
}

/// What plants are made from.
struct RawSession<'r> {
    id: &'r str,
    calls: Vec<RawCall<'r>>,
    prompts: Vec<&'r str>,
    notices: Vec<&'r str>,
    ends_with_answer: bool,
}

/// Returns `count` plants, as many of each kind as there are, chosen by a fixed seed.
pub fn make_plants<'r>(sessions: impl Iterator<Item = (&'r String, &'r Vec<Value>)>, count: usize) -> Vec<Plant> {
    let sessions = sessions
        .map(|(id, records)| read_session(id, records))
        .collect::<Vec<_>>();
    let mut found = BTreeMap::<ClaimKind, Vec<Plant>>::new();
    for (at, session) in sessions.iter().enumerate() {
        // A session of another time: what was said there was not said here.
        let other = &sessions[(at + sessions.len() / 2) % sessions.len()];
        for plant in plants_of(session, other) {
            found.entry(plant.kind).or_default().push(plant);
        }
    }
    let mut state = 28_u64;
    let mut chosen = Vec::new();
    while chosen.len() < count && found.values().any(|plants| !plants.is_empty()) {
        for kind in CLAIM_KINDS {
            let plants = found.entry(kind).or_default();
            if chosen.len() < count && !plants.is_empty() {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % plants.len();
                chosen.push(plants.swap_remove(at));
            }
        }
    }
    chosen
}

fn read_session<'r>(id: &'r str, records: &'r [Value]) -> RawSession<'r> {
    let mut session = RawSession {
        id,
        calls: Vec::new(),
        prompts: Vec::new(),
        notices: Vec::new(),
        ends_with_answer: false,
    };
    let mut open = BTreeMap::new();
    for record in records.iter().filter(|record| record["isSidechain"] != true) {
        let content = &record["message"]["content"];
        let is_prompt = record["type"] == "user" && record["isMeta"] != true && record["isCompactSummary"] != true;
        if let Some(text) = content.as_str().filter(|_| is_prompt) {
            match text.starts_with('<') || text.starts_with("[Request") {
                true => session.notices.push(text),
                false => session.prompts.push(text),
            }
        }
        for block in content.as_array().into_iter().flatten() {
            match block["type"].as_str() {
                Some("tool_use") => {
                    open.insert(block["id"].as_str().unwrap_or_default(), block);
                    session.ends_with_answer = false;
                }
                Some("tool_result") => {
                    let id = block["tool_use_id"].as_str().unwrap_or_default();
                    if let Some(call) = open.remove(id) {
                        session.calls.push(RawCall {
                            tool: call["name"].as_str().unwrap_or_default(),
                            input: &call["input"],
                            result: block["content"]
                                .as_str()
                                .map_or_else(|| block["content"].to_string(), str::to_owned),
                            is_error: block["is_error"] == true,
                        });
                    }
                }
                Some("text") if record["type"] == "assistant" => session.ends_with_answer = true,
                Some("text") if is_prompt => session.prompts.extend(block["text"].as_str()),
                _ => {}
            }
        }
    }
    session
}

impl<'r> RawSession<'r> {
    /// Iterates over the shell calls with one short line, and what they returned.
    fn shell_calls(&self) -> impl Iterator<Item = (&'r str, &RawCall<'r>)> {
        let shell = self.calls.iter().filter(|call| call.tool == "Bash");
        let lines = shell.filter_map(|call| Some((call.input["command"].as_str()?, call)));
        lines.filter(|(command, _)| {
            let is_plain = !command.contains(['\n', '`', '|', ';', '&', '>']);
            is_plain && (12..120).contains(&command.len()) && command.contains(' ')
        })
    }

    fn was_refused(call: &RawCall<'_>) -> bool {
        call.result.contains("user doesn't want to proceed")
    }

    fn has_command(&self, command: &str) -> bool {
        let commands = self.calls.iter().filter_map(|call| call.input["command"].as_str());
        commands.into_iter().any(|known| known.contains(command))
    }
}

fn plants_of(session: &RawSession<'_>, other: &RawSession<'_>) -> Vec<Plant> {
    let mut lines = Vec::new();
    plant_runs(session, other, &mut lines);
    plant_failures(session, &mut lines);
    plant_tasks(session, other, &mut lines);
    plant_decisions(session, other, &mut lines);
    plant_corrections(session, other, &mut lines);
    plant_uncommitted(session, &mut lines);
    plant_commits(session, other, &mut lines);
    plant_background(session, &mut lines);
    let plant = |(kind, line)| Plant {
        session: session.id.to_owned(),
        kind,
        line,
    };
    lines.into_iter().map(plant).collect()
}

fn plant_runs(session: &RawSession<'_>, other: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    for (command, call) in session.shell_calls() {
        let ran = session.shell_calls().filter(|(other, _)| *other == command);
        if ran.into_iter().all(|(_, call)| RawSession::was_refused(call)) {
            lines.push((ClaimKind::Ran, format!("- Ran `{command}`")));
        }
        let last = session.shell_calls().filter(|(other, _)| *other == command).last();
        if last.is_some_and(|(_, last)| last.is_error && !RawSession::was_refused(last)) && call.is_error {
            lines.push((ClaimKind::Ran, format!("- Last command: `{command}` went through")));
        }
    }
    let foreign = other.shell_calls().find(|(command, _)| !session.has_command(command));
    if let Some((command, _)) = foreign {
        lines.push((ClaimKind::Ran, format!("- Ran `{command}`")));
    }
}

fn plant_failures(session: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let calls = session.shell_calls().collect::<Vec<_>>();
    for (at, (command, call)) in calls.iter().enumerate() {
        let mut later = calls[at + 1..].iter().filter(|(other, _)| other == command);
        let is_fixed = later.any(|(_, call)| !call.is_error);
        let is_failure = call.is_error && !RawSession::was_refused(call);
        let never_failed = calls.iter().all(|(other, call)| other != command || !call.is_error);
        if is_failure && is_fixed || never_failed && at % 8 == 0 {
            lines.push((ClaimKind::Failing, format!("- Still failing: `{command}` (it stopped)")));
        }
    }
}

fn plant_tasks(session: &RawSession<'_>, other: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let last_list = |session: &RawSession<'_>| {
        let mut lists = session.calls.iter().filter(|call| call.tool == "TodoWrite");
        let items = lists
            .next_back()
            .and_then(|call| call.input["todos"].as_array().cloned());
        items.unwrap_or_default()
    };
    for item in last_list(session).iter().filter(|item| item["status"] == "completed") {
        let text = item["content"].as_str().unwrap_or_default();
        lines.push((ClaimKind::Pending, format!("- Not begun: {text}")));
    }
    if let Some(text) = last_list(other).first().and_then(|item| item["content"].as_str()) {
        lines.push((ClaimKind::Pending, format!("- In progress: {text}")));
    }
    if let [first, _, _, ..] = session.prompts[..]
        && session.ends_with_answer
        && (20..200).contains(&first.len())
        && !first.contains(['\n', '"', '<', '['])
    {
        lines.push((ClaimKind::Pending, format!("- Asked and not answered yet: \"{first}\"")));
    }
}

fn plant_decisions(session: &RawSession<'_>, other: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let label = |session: &RawSession<'_>| {
        let mut asked = session.calls.iter().filter(|call| call.tool == "AskUserQuestion");
        let question = asked.find_map(|call| call.input["questions"].as_array()?.first().cloned());
        question.and_then(|question| question["options"][0]["label"].as_str().map(str::to_owned))
    };
    for call in session.calls.iter().filter(|call| call.tool == "AskUserQuestion") {
        let question = &call.input["questions"][0];
        let asked = question["question"].as_str().unwrap_or_default();
        let foreign = label(other).filter(|label| !call.result.contains(label.as_str()));
        let options = question["options"].as_array();
        let mut labels = options
            .into_iter()
            .flatten()
            .filter_map(|option| option["label"].as_str());
        let unchosen = labels.find(|label| !call.result.contains(label)).map(str::to_owned);
        for answer in [foreign, unchosen].into_iter().flatten() {
            lines.push((ClaimKind::Decided, format!("- Decided: {asked}: \"{answer}\"")));
        }
    }
    for call in session.calls.iter().filter(|call| call.tool == "ExitPlanMode") {
        let plan = call.input["plan"].as_str().unwrap_or_default();
        let title = plan.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let is_last = session.calls.iter().filter(|call| call.tool == "ExitPlanMode").count() == 1;
        if RawSession::was_refused(call) && is_last && !title.is_empty() {
            let title = title.trim_start_matches(['#', ' ']);
            lines.push((ClaimKind::Decided, format!("- Decided: Plan: {title}: \"approved\"")));
        }
    }
}

fn plant_corrections(session: &RawSession<'_>, other: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let is_short = |text: &&&str| (20..160).contains(&text.len()) && !text.contains(['\n', '"', '<']);
    let said = |words: &str| (ClaimKind::Corrected, format!("- The user corrected: \"{words}\""));
    let own = session.prompts.iter().filter(is_short);
    let agrees = own
        .into_iter()
        .find(|text| text.starts_with("yes ") || text.starts_with("ok ") || text.starts_with("Implement"));
    lines.extend(agrees.map(|words| said(words)));
    let foreign = other.prompts.iter().filter(is_short);
    let foreign = foreign.into_iter().find(|text| !session.prompts.contains(text));
    lines.extend(foreign.map(|words| said(words)));
    let summary = session.notices.iter().find_map(|notice| {
        let (_, rest) = notice.split_once("<summary>")?;
        rest.split_once("</summary>").map(|(summary, _)| summary)
    });
    lines.extend(summary.map(said));
}

/// Returns the subject of the commit that a command makes, if it is given in one line.
fn commit_subject<'r>(call: &RawCall<'r>) -> Option<&'r str> {
    let command = call.input["command"].as_str()?;
    let (_, after) = command.split_once("git commit -m ")?;
    let subject = match after.split_once("<<'EOF'\n") {
        Some((_, body)) => body.lines().next()?,
        None => after.strip_prefix(['"', '\''])?.split(['"', '\'', '\n']).next()?,
    };
    (12..100).contains(&subject.len()).then_some(subject)
}

fn plant_commits(session: &RawSession<'_>, other: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let planted = |subject: &str| {
        (
            ClaimKind::Committed,
            format!("- Commit (not pushed in this session): {subject}"),
        )
    };
    let foreign = other.calls.iter().filter_map(commit_subject);
    let foreign = foreign.into_iter().find(|subject| !session.has_command(subject));
    lines.extend(foreign.map(planted));
    let commits = session
        .calls
        .iter()
        .filter_map(|call| Some((commit_subject(call)?, call)));
    let commits = commits.collect::<Vec<_>>();
    let has_failed = |call: &RawCall<'_>| call.is_error || call.result.contains("FAILED: git commit");
    for (subject, _) in commits.iter().filter(|(_, call)| has_failed(call)) {
        let tries = commits.iter().filter(|(other, _)| other == subject);
        let is_said = session
            .calls
            .iter()
            .any(|call| call.result.contains(&format!("] {subject}")));
        if tries.into_iter().all(|(_, call)| has_failed(call)) && !is_said {
            lines.push(planted(subject));
        }
    }
}

fn plant_background(session: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    for call in &session.calls {
        let about = call.input["description"].as_str().unwrap_or_default();
        if call.result.contains("Async agent launched") {
            let line = format!("- A sub-agent was asked to \"{about}\": \"Async agent launched successfully.\"");
            lines.push((ClaimKind::Background, line));
        }
        let is_ended = session.notices.iter().any(|notice| {
            let is_end = notice.contains("<status>completed") || notice.contains("<status>failed");
            is_end && notice.contains(&format!("\"{about}\""))
        });
        let command = call.input["command"].as_str().unwrap_or_default();
        if call.result.contains("running in background with ID") && is_ended && !command.contains(['\n', '`']) {
            let line = format!("- Started in the background, no end in the log: `{command}`");
            lines.push((ClaimKind::Background, line));
        }
    }
}

fn plant_uncommitted(session: &RawSession<'_>, lines: &mut Vec<(ClaimKind, String)>) {
    let path = |call: &RawCall<'_>| call.input["file_path"].as_str().unwrap_or_default().to_owned();
    let edits = |call: &RawCall<'_>| matches!(call.tool, "Edit" | "Write" | "MultiEdit") && !call.is_error;
    let commits = session.calls.iter().enumerate().rev().find(|(_, call)| {
        let command = call.input["command"].as_str().unwrap_or_default();
        let adds_all = command.contains("git add -A && git commit") || command.contains("git commit -am");
        adds_all && !call.is_error && call.result.starts_with('[')
    });
    let edited = session.calls.iter().filter(|call| edits(call)).map(path);
    let edited = edited.collect::<Vec<_>>();
    if let Some((at, _)) = commits {
        let before = session.calls[..at].iter().filter(|call| edits(call)).map(path);
        let is_later = |path: &String| {
            session.calls[at..]
                .iter()
                .any(|call| path.as_str() == call.input["file_path"])
        };
        for path in before.filter(|path| !is_later(path)).take(2) {
            lines.push((ClaimKind::Uncommitted, format!("- Uncommitted: `{path}`")));
        }
    }
    let read = session.calls.iter().filter(|call| call.tool == "Read").map(path);
    let only_read = read.into_iter().find(|path| !edited.contains(path));
    lines.extend(only_read.map(|path| (ClaimKind::Uncommitted, format!("- Uncommitted: `{path}`"))));
}
