//! What git printed about commits, and what their messages were.

use super::parts::{drop_here_documents, join_lines, split_parts, split_words};
use transcript::log::Time;

/// A commit of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Abbreviated; empty if git printed none.
    pub hash: String,
    pub subject: String,
    /// The branch that it was made on; empty if the session never says.
    pub branch: String,
    pub is_pushed: bool,
    /// Whether the log shows that it was made.
    pub is_proven: bool,
}

/// What a command with git in it printed.
#[derive(Debug, Default)]
pub struct GitReport {
    /// Commits that git reported as `[branch 1a2b3c4] subject`.
    pub commits: Vec<LedgerCommit>,
    /// Commits that `git log` listed: hash and subject.
    logged: Vec<(String, String)>,
    /// Whether there was nothing to commit, or a hook or git refused it.
    pub is_refused: bool,
    /// Whether git counted the files of a commit.
    pub counts_files: bool,
    /// Whether the last line says that all went well, as wrappers of git print it.
    pub ends_well: bool,
}

/// What git or a hook prints if there is no commit.
const REFUSALS: [&str; 7] = [
    "nothing to commit",
    "no changes added",
    "nothing added to commit",
    "FAILED: git commit",
    "hook failed",
    "script failed (code",
    "hook exited with code",
];

impl GitReport {
    /// Reads the output of a command.
    pub fn read(command: &str, output: &str) -> GitReport {
        let lists_commits = command.contains("git log") || command.contains("git reflog");
        let is_count = |line: &str| line.contains(" file changed,") || line.contains(" files changed,");
        GitReport {
            commits: output.lines().filter_map(reported_commit).collect(),
            logged: match lists_commits {
                true => output.lines().filter_map(listed_commit).collect(),
                false => Vec::new(),
            },
            is_refused: REFUSALS.iter().any(|notice| output.contains(notice)),
            counts_files: output.lines().any(is_count),
            ends_well: output
                .trim_end()
                .lines()
                .next_back()
                .is_some_and(|line| line.starts_with("ok")),
        }
    }

    /// Returns what was reported for the `at`-th of `count` commits; all of it for the first if the numbers differ.
    pub fn take(&self, at: usize, count: usize) -> Vec<LedgerCommit> {
        match self.commits.len() == count {
            true => self.commits.get(at).cloned().into_iter().collect(),
            false if at == 0 => self.commits.clone(),
            false => Vec::new(),
        }
    }

    /// Returns the commits that `git log` listed, newest first, as commits on a branch.
    pub fn listed_commits(&self, branch: &str) -> Vec<LedgerCommit> {
        let commit = |(hash, subject): &(String, String)| LedgerCommit {
            hash: hash.clone(),
            subject: subject.clone(),
            branch: branch.to_owned(),
            is_pushed: false,
            is_proven: true,
        };
        self.logged.iter().map(commit).collect()
    }

    /// Returns the hash of the listed commit with a subject.
    pub fn find_logged(&self, subject: &str) -> Option<String> {
        let mut logged = self.logged.iter();
        let found = logged.find(|(_, listed)| !subject.is_empty() && listed.ends_with(subject));
        found.map(|(hash, _)| hash.clone())
    }
}

/// A commit with its files, as `git show` prints it.
#[derive(Debug, PartialEq, Eq)]
pub struct ShownCommit {
    pub hash: String,
    pub subject: String,
    /// The end of the second in which it was made.
    pub time: Time,
    pub paths: Vec<String>,
}

impl ShownCommit {
    /// Parses an output; `None` if it is not that of one commit with its date.
    pub fn parse(output: &str) -> Option<ShownCommit> {
        let mut lines = output.trim_start().lines();
        let hash = lines.next()?.strip_prefix("commit ")?.split_whitespace().next()?;
        let date = lines.by_ref().find_map(|line| line.strip_prefix("Date:"))?;
        let time = jiff::fmt::strtime::parse("%a %b %d %H:%M:%S %Y %z", date.trim()).ok()?;
        let time = time.to_timestamp().ok()?.as_millisecond() + 999;
        let subject = lines.by_ref().map(str::trim).find(|line| !line.is_empty())?;
        let stat = |line: &str| {
            let (path, count) = line.split_once(" | ")?;
            let is_count = count
                .trim_start()
                .starts_with(|sign: char| sign.is_ascii_digit() || sign == 'B');
            is_count.then(|| path.trim().trim_start_matches(".../").to_owned())
        };
        let changed = |line: &str| Some(line.strip_prefix("+++ b/")?.to_owned());
        Some(ShownCommit {
            hash: hash.to_owned(),
            subject: subject.to_owned(),
            time,
            paths: lines.filter_map(|line| stat(line).or_else(|| changed(line))).collect(),
        })
    }
}

fn is_hash(word: &str) -> bool {
    (7..=40).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn reported_commit(line: &str) -> Option<LedgerCommit> {
    let (head, subject) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
    let (branch, hash) = head.rsplit_once(' ')?;
    let commit = LedgerCommit {
        hash: hash.to_owned(),
        subject: subject.trim().to_owned(),
        branch: branch.trim_end_matches(" (root-commit)").to_owned(),
        is_pushed: false,
        is_proven: true,
    };
    is_hash(hash).then_some(commit)
}

fn listed_commit(line: &str) -> Option<(String, String)> {
    let (hash, subject) = line.trim().split_once(' ')?;
    is_hash(hash).then(|| (hash.to_owned(), subject.trim().to_owned()))
}

/// Returns whether a subject is the text of a message, and not empty or put together by the shell.
pub fn is_literal(subject: &str) -> bool {
    !subject.is_empty() && !subject.contains('$')
}

/// Returns whether a command, without here-documents, commits in a loop over a range of commits that it lists at the end.
pub fn runs_in_loop(command: &str) -> bool {
    let is_loop = |part: &&str| part.starts_with("for ") || part.starts_with("while ");
    split_parts(command).iter().any(is_loop) && command.contains("..")
}

/// Returns the subjects of the commits that a command makes, in their order: from `-m`, or from the here-document or
/// here-string that the message comes from.
pub fn commit_subjects(command: &str) -> Vec<String> {
    let mut bodies = message_bodies(command).into_iter();
    let joined = join_lines(command);
    let bare = drop_here_documents(&joined);
    let mut subjects = Vec::new();
    for part in split_parts(&bare) {
        let words = split_words(part);
        let is_commit = words
            .windows(2)
            .take(4)
            .any(|pair| pair[0] == "git" && pair[1] == "commit")
            || words.first().is_some_and(|first| first == "git") && words.get(3).is_some_and(|word| word == "commit");
        if !is_commit {
            continue;
        }
        let at = words
            .iter()
            .position(|word| matches!(word.as_str(), "-m" | "-am" | "-qm" | "-qam" | "--message"));
        let given = at.and_then(|at| words.get(at + 1)).map_or("", String::as_str);
        let is_here = given.is_empty() || given.starts_with("$(") || given.starts_with('@') || !part.contains(" -m");
        let first = given
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty())
            .unwrap_or_default();
        subjects.push(match is_here {
            true => bodies.next().unwrap_or_else(|| first.to_owned()),
            false => first.to_owned(),
        });
    }
    subjects
}

/// Returns the first lines of the here-documents and here-strings that `git commit` reads.
fn message_bodies(command: &str) -> Vec<String> {
    let mut bodies = Vec::new();
    let mut lines = command.lines();
    while let Some(line) = lines.next() {
        let opens = line.contains("<<") || line.ends_with("@'") || line.ends_with("@\"");
        if opens && line.contains("git") && line.contains("commit") {
            let first = lines.by_ref().map(str::trim).find(|line| !line.is_empty());
            bodies.push(first.unwrap_or_default().to_owned());
        }
    }
    bodies
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_commit_of_a_command_has_its_own_subject() {
        let command = "git add a && git commit -q -F - <<'EOF'\nfix: one\n\nIt's why.\nEOF\ngit add b && git commit -m \"$(cat <<'EOF'\nfix: two\nEOF\n)\" && git commit -am 'three'";
        assert_eq!(commit_subjects(command), ["fix: one", "fix: two", "three"]);
        let strings =
            "git add x; git commit -m @'\ndocs: one\n\nwhy\n'@; git add y; git commit -m @'\nci: two\n'@; git status";
        assert_eq!(commit_subjects(strings), ["docs: one", "ci: two"]);
    }

    #[test]
    fn what_git_printed_is_read() {
        let report = GitReport::read("git log --oneline -2", "9f482abc feat: two\n6a0f1380 docs: one\n");
        assert_eq!(report.find_logged("docs: one").as_deref(), Some("6a0f1380"));
        assert_eq!(report.find_logged("docs: three"), None);
        let report = GitReport::read("git commit", "ok\nhusky - pre-commit script failed (code 2)");
        assert!(report.is_refused && report.commits.is_empty());
        let report = GitReport::read(
            "git commit",
            "[main (root-commit) 1a2b3c4] All\n 2 files changed, 3 insertions(+)",
        );
        assert!(report.counts_files && report.commits[0].branch == "main");
        assert_eq!((report.take(0, 1).len(), report.take(1, 2).len()), (1, 0));
    }
}
