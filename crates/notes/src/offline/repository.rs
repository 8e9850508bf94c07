//! Lines about the repository and about what goes on elsewhere: branch, commits, what is not committed, what was thrown away,
//! and tasks in the background.

use crate::offline::compose::inline_quote;
use crate::offline::digest::Digest;
use crate::offline::lines::MOST_FACTS;
use crate::offline::names;
use crate::offline::prose::whole_sentences;
use crate::offline::state::background::{BackgroundState, BackgroundWork};
use crate::offline::state::commits::LedgerCommit;
use crate::offline::state::ledger::{GitDiscard, is_project_file};
use language::markdown::{escape_markdown, inline_code};

/// Files that a line about uncommitted changes names.
const MOST_FILES: usize = 12;

/// Most tasks in the background that are listed.
const MOST_TASKS: usize = 4;

/// Returns how the repository stands: branch, commits, pull request, what is not committed.
pub fn ledger_lines(digest: &Digest) -> Vec<String> {
    let ledger = &digest.ledger;
    let mut lines = Vec::new();
    let branch = match ledger.branch.as_str() {
        "" => digest.recorded_branch.as_str(),
        branch => branch,
    };
    if !branch.is_empty() {
        lines.push(format!("- Branch: {}", inline_code(branch)));
    }
    let shown = ledger.commits.len().saturating_sub(MOST_FACTS);
    match shown {
        0 => {}
        1 => lines.push("- 1 earlier commit".to_owned()),
        _ => lines.push(format!("- {shown} earlier commits")),
    }
    lines.extend(
        ledger.commits[shown..]
            .iter()
            .map(|commit| commit_line(commit, ledger.is_on_branch(commit))),
    );
    if !ledger.pull_request.is_empty() {
        lines.push(format!("- Pull request: {}", ledger.pull_request));
    }
    match ledger.stash_count() {
        0 => {}
        count => lines.push(format!("- Stashed changes: {count}")),
    }
    if !ledger.worktrees.is_empty() {
        let paths = ledger.worktrees.iter().map(|path| inline_code(path));
        lines.push(format!("- Worktrees added: {}", paths.collect::<Vec<_>>().join(", ")));
    }
    lines.extend(changed_line(digest));
    lines.extend(list_line(
        "Also changed and not committed, by git",
        &ledger.others,
        digest,
    ));
    lines.extend(list_line("Untracked", &ledger.untracked, digest));
    lines
}

/// Formats a commit, with its branch if that is not the one that is checked out.
fn commit_line(commit: &LedgerCommit, is_here: bool) -> String {
    let subject = escape_markdown(&whole_sentences(&commit.subject, 120));
    let hash = match commit.hash.is_empty() {
        true => String::new(),
        false => format!("{} ", inline_code(&commit.hash)),
    };
    let branch = match is_here {
        true => String::new(),
        false => format!(", on the branch {}", inline_code(&commit.branch)),
    };
    match (commit.is_proven, commit.is_pushed) {
        (false, _) => format!("- Commit tried, its result not shown: {subject}"),
        (true, true) => format!("- Commit {hash}(pushed{branch}): {subject}"),
        (true, false) => format!("- Commit {hash}(not pushed in this session{branch}): {subject}"),
    }
}

/// Returns the files changed since the last commit that covers them; `None` if there are none.
fn changed_line(digest: &Digest) -> Option<String> {
    let files = digest
        .ledger
        .uncommitted(&digest.root)
        .map(str::to_owned)
        .collect::<Vec<_>>();
    // Nothing was seen of git: the changes may be committed from another terminal.
    let label = match digest.ledger.has_seen_git {
        true => "Uncommitted",
        false => "Changed, no commit seen in this session",
    };
    list_line(label, &files, digest)
}

fn list_line(label: &str, files: &[String], digest: &Digest) -> Option<String> {
    let shown = files.iter().rev().take(MOST_FILES);
    let shown = shown.map(|path| inline_code(names::relative_path(path, &digest.root)));
    let shown = shown.collect::<Vec<_>>();
    let more = match files.len().saturating_sub(shown.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    (!shown.is_empty()).then(|| format!("- {label}: {}{more}", shown.join(", ")))
}

/// Returns what commands of git threw away, the last first.
pub fn discard_lines(digest: &Digest) -> Vec<String> {
    let discards = digest.ledger.discards.iter().rev();
    discards
        .filter_map(|discard| discard_line(digest, discard))
        .take(3)
        .collect()
}

fn discard_line(digest: &Digest, discard: &GitDiscard) -> Option<String> {
    let files = discard.files.iter();
    let files = files
        .filter(|(path, _)| is_project_file(path, &digest.root))
        .collect::<Vec<_>>();
    let name = |path: &str| inline_code(names::relative_path(path, &digest.root));
    let shown = |files: &[&(String, bool)]| {
        let names = files.iter().take(MOST_FILES / 2).map(|(path, _)| name(path));
        let more = match files.len().saturating_sub(MOST_FILES / 2) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}{more}", names.collect::<Vec<_>>().join(", "))
    };
    let lost = files
        .iter()
        .filter(|(_, is_back)| !is_back)
        .copied()
        .collect::<Vec<_>>();
    let end = match (lost.is_empty(), lost.len() == files.len()) {
        (true, _) => "They were changed again later".to_owned(),
        (false, true) => "Not changed again since".to_owned(),
        (false, false) => format!("Not changed again since: {}", shown(&lost)),
    };
    let command = inline_code(&discard.command);
    (!files.is_empty()).then(|| format!("- {command} threw away changes to {}. {end}", shown(&files)))
}

/// Returns the tasks in the background of which the log has no end, the last first.
pub fn background_lines(digest: &Digest) -> Vec<String> {
    let running = digest.background.iter().rev();
    let running = running
        .filter(|task| task.state == BackgroundState::Running)
        .take(MOST_TASKS);
    let lines = running.map(|task| match &task.work {
        BackgroundWork::Command { number, .. } => {
            let command = digest.commands.get(*number);
            let text = command.map_or("", |command| command.text.as_str());
            format!("- Started in the background, no end in the log: {}", inline_code(text))
        }
        BackgroundWork::Agent { about } => format!(
            "- A sub-agent was started in the background, no end in the log: {}",
            inline_quote(about, 160)
        ),
        BackgroundWork::Other { about } => {
            format!(
                "- Started in the background, no end in the log: {}",
                inline_quote(about, 160)
            )
        }
    });
    lines.collect()
}
