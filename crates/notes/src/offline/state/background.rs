//! Commands and sub-agents that go on in the background: how they are started, and what says how each of them ended.
//!
//! The client tells the end in a notice. The model may also ask for the output, read the file that holds it, or stop the task.

use language::markup::find_element;

/// How a task in the background stands at the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BackgroundState {
    /// The log has no end of it.
    Running,
    Finished,
    Failed,
    /// The model or the user stopped it.
    Killed,
}

/// What goes on in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackgroundWork {
    /// A command: its number in the digest, and its text as the model wrote it.
    Command { number: usize, raw: String },
    /// A sub-agent: what it was asked to do.
    Agent { about: String },
    /// Anything else, by its description.
    Other { about: String },
}

/// A task in the background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackgroundTask {
    /// The id that the client gave it.
    pub id: String,
    /// Id of the call that started it.
    pub call: String,
    pub work: BackgroundWork,
    pub state: BackgroundState,
    /// Whether its output was seen, or its status says all.
    pub is_judged: bool,
}

/// The end of a task, or what is known of it so far.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskReport {
    pub id: String,
    pub call: String,
    /// `None` while it runs.
    pub state: Option<BackgroundState>,
    pub exit_code: Option<i32>,
    /// What it printed, or the answer of a sub-agent; empty if it is not known.
    pub output: String,
}

/// Starts of results that say that a command goes on in the background; the id follows.
const COMMAND_STARTS: [&str; 3] = [
    "Command running in background with ID: ",
    "Command was manually backgrounded by user with ID: ",
    "Process running with session ID ",
];

/// Returns the id of the task that a call started, by its result; `None` if the call ended with its result.
pub fn started_task(result: &str) -> Option<&str> {
    let result = result.trim_start();
    let after = COMMAND_STARTS.iter().find_map(|start| {
        let at = result.find(start).filter(|at| *at < 400)?;
        Some(&result[at + start.len()..])
    });
    let after = after.or_else(|| {
        let rest = result.strip_prefix("Async agent launched successfully")?;
        rest.split_once("agentId: ").map(|(_, after)| after)
    });
    let after = after.or_else(|| result.strip_prefix("Monitor started (task "))?;
    let end = after.find(|sign: char| !(sign.is_ascii_alphanumeric() || matches!(sign, '-' | '_')));
    let id = &after[..end.unwrap_or(after.len())];
    (!id.is_empty()).then_some(id)
}

/// Returns what the notices in a text of the client tell.
pub fn notices(text: &str) -> Vec<TaskReport> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("<task-notification>") {
        let after = &rest[at..];
        let end = after.find("</task-notification>").unwrap_or(after.len());
        found.extend(parse_notice(&after[..end]));
        rest = &after[end..];
        rest = rest.strip_prefix("</task-notification>").unwrap_or("");
    }
    found
}

fn parse_notice(text: &str) -> Option<TaskReport> {
    let element = |name: &str| find_element(text, name).unwrap_or_default().trim();
    let summary = element("summary");
    let exit_code = number_after(summary, "exit code ");
    let state = match element("status") {
        "completed" if exit_code.is_none_or(|code| code == 0) => BackgroundState::Finished,
        "completed" | "failed" | "error" => BackgroundState::Failed,
        "killed" | "stopped" | "cancelled" => BackgroundState::Killed,
        // An event of a task that goes on.
        _ => return None,
    };
    Some(TaskReport {
        id: element("task-id").to_owned(),
        call: element("tool-use-id").to_owned(),
        state: Some(state),
        exit_code,
        output: element("result").to_owned(),
    })
}

/// Returns what the answer to a question about a task tells; `None` if it is no such answer.
pub fn task_answer(id: &str, result: &str) -> Option<TaskReport> {
    let element = |name: &str| find_element(result, name).map(str::trim);
    let exited = number_after(result, "Process exited with code ");
    let exit_code = element("exit_code")
        .and_then(|code| code.parse::<i32>().ok())
        .or(exited);
    let status = element("status").or(exited.map(|_| "completed"))?;
    let state = match status {
        "completed" if exit_code.is_none_or(|code| code == 0) => Some(BackgroundState::Finished),
        "completed" | "failed" | "error" => Some(BackgroundState::Failed),
        "killed" | "stopped" | "cancelled" => Some(BackgroundState::Killed),
        _ => None,
    };
    let printed = ["output", "stdout", "stderr"].into_iter().filter_map(element);
    Some(TaskReport {
        id: id.to_owned(),
        state,
        exit_code,
        output: printed.collect::<Vec<_>>().join("\n"),
        ..TaskReport::default()
    })
}

/// Returns what the file with the output of a task tells.
pub fn output_file_report(id: &str, text: &str) -> TaskReport {
    let exit_code = number_after(text, "[exited with code ");
    TaskReport {
        id: id.to_owned(),
        state: exit_code.map(|code| match code {
            0 => BackgroundState::Finished,
            _ => BackgroundState::Failed,
        }),
        exit_code,
        output: text.to_owned(),
        ..TaskReport::default()
    }
}

fn number_after(text: &str, lead: &str) -> Option<i32> {
    let (_, after) = text.rsplit_once(lead)?;
    let end = after.find(|sign: char| !sign.is_ascii_digit() && sign != '-');
    after[..end.unwrap_or(after.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_gives_the_id_of_the_task() {
        for (result, id) in [
            (
                "Command running in background with ID: b1c2d3. Output is being written to: /tmp/x",
                Some("b1c2d3"),
            ),
            (
                "Async agent launched successfully.\nagentId: a1 (internal ID)",
                Some("a1"),
            ),
            ("Monitor started (task b13uq, timeout 300000ms).", Some("b13uq")),
            ("12 passed", None),
        ] {
            assert_eq!(started_task(result), id, "{result}");
        }
    }

    #[test]
    fn notices_and_answers_tell_how_a_task_ended() {
        let notice = |status: &str, summary: &str| {
            let text = format!(
                "<task-notification>\n<task-id>b1</task-id>\n<status>{status}</status>\n<summary>{summary}</summary>\n</task-notification>\nRead the output file"
            );
            notices(&text).first().map(|report| (report.state, report.exit_code))
        };
        use BackgroundState::{Failed, Finished, Killed};
        assert_eq!(
            notice("completed", "\"Test\" completed (exit code 0)"),
            Some((Some(Finished), Some(0)))
        );
        assert_eq!(
            notice("failed", "\"Test\" failed with exit code 2"),
            Some((Some(Failed), Some(2)))
        );
        assert_eq!(notice("killed", "\"Test\" was stopped"), Some((Some(Killed), None)));
        assert_eq!(notice("running", "an event"), None);
        let answer = "<status>completed</status>\n<exit_code>1</exit_code>\n<output>\n2 failed\n</output>";
        let report = task_answer("b1", answer).unwrap_or_default();
        assert_eq!((report.state, report.output.as_str()), (Some(Failed), "2 failed"));
        assert_eq!(
            task_answer("b1", "<status>running</status>").unwrap_or_default().state,
            None
        );
        assert_eq!(
            output_file_report("b1", "ok\n[exited with code 0]\n").state,
            Some(Finished)
        );
        assert_eq!(output_file_report("b1", "still at it").state, None);
    }
}
