//! What git did in a session: branch, commits, what was pushed, pull request, and files changed since the last commit.
//!
//! All of it from shell calls and what they printed. What a person does in another terminal is not seen.

use super::intent::{drop_here_documents, join_lines, split_parts, split_words};
use super::working_tree::WorkingTree;

/// A commit that git reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LedgerCommit {
    /// Abbreviated; empty if git printed none.
    pub hash: String,
    pub subject: String,
    pub is_pushed: bool,
}

/// The state of the repository as far as a session shows it.
#[derive(Debug, Default)]
pub struct RepositoryLedger {
    /// Empty if the session never says.
    pub branch: String,
    pub commits: Vec<LedgerCommit>,
    /// Address of the pull request that was opened last; empty without one.
    pub pull_request: String,
    pub stashes: usize,
    pub worktrees: Vec<String>,
    /// Files changed since the last commit that covers them, oldest first.
    changed: Vec<String>,
    /// Pathspecs added since the last commit; empty text for all.
    staged: Vec<String>,
}

impl RepositoryLedger {
    /// Notes that a file was changed.
    pub fn record_edit(&mut self, path: &str) {
        self.changed.retain(|known| known != path);
        self.changed.push(path.to_owned());
    }

    /// Returns the files below `root` that were changed since the last commit that covers them.
    pub fn uncommitted<'l>(&'l self, root: &'l str) -> impl Iterator<Item = &'l str> {
        let is_here = move |path: &&String| {
            let is_below = path
                .strip_prefix(root)
                .is_some_and(|rest| root.is_empty() || rest.starts_with(['/', '\\']));
            (is_below || !path.starts_with('/') && !path.contains(":\\")) && !path.contains("/.claude/plans/")
        };
        self.changed.iter().filter(is_here).map(String::as_str)
    }

    /// Returns whether git was used to commit or push.
    pub fn has_commits(&self) -> bool {
        !self.commits.is_empty()
    }

    /// Takes a command that ran, and what it printed. Of a failed command only what git reports as done counts.
    pub fn record_run(&mut self, command: &str, output: &str, has_failed: bool) {
        if !has_failed && command.contains("rm ") {
            self.record_removals(command);
        }
        if !command.contains("git ") && !command.contains("gh ") {
            return;
        }
        let reported = reported_commits(output);
        let mut is_reported = !reported.is_empty();
        let subject = here_subject(command);
        let mut folder = String::new();
        for part in split_parts(&drop_here_documents(&join_lines(command))) {
            let words = split_words(part);
            let words = words.iter().map(String::as_str).collect::<Vec<_>>();
            match without_wrapper(&words) {
                ["cd", path] => (*path).clone_into(&mut folder),
                ["git", "status", options @ ..] if !has_failed => self.read_status(options, output, &folder),
                ["git", "add" | "stage", paths @ ..] if !has_failed || !reported.is_empty() => self.stage(paths),
                ["git", arguments @ ..] if !has_failed || !reported.is_empty() => {
                    self.record_git(arguments, &reported, &mut is_reported, output, has_failed);
                    self.name_last_commit(&subject);
                }
                ["gh", "pr", "create", ..] if !has_failed => self.record_pull_request(output),
                _ => {}
            }
        }
    }

    /// Forgets the files that a command removed.
    fn record_removals(&mut self, command: &str) {
        for part in split_parts(&drop_here_documents(&join_lines(command))) {
            let words = split_words(part);
            let words = words.iter().map(String::as_str).collect::<Vec<_>>();
            if let ["rm", paths @ ..] = words.as_slice() {
                let is_removed = |path: &String| {
                    let mut specs = paths.iter().filter(|spec| !spec.starts_with('-') && spec.len() > 1);
                    specs.any(|spec| covers_path(spec, path))
                };
                self.changed.retain(|path| !is_removed(path));
            }
        }
    }

    /// Takes what `git status` printed: files that it does not list are as they were committed.
    fn read_status(&mut self, options: &[&str], output: &str, folder: &str) {
        let specs = options
            .iter()
            .filter(|option| !option.starts_with('-'))
            .collect::<Vec<_>>();
        let options = options.iter().filter(|option| option.starts_with('-')).copied();
        let Some(tree) = WorkingTree::parse(&options.collect::<Vec<_>>(), output) else {
            return;
        };
        if !tree.branch.is_empty() {
            self.branch.clone_from(&tree.branch);
        }
        // The status of another folder says nothing about files elsewhere.
        let folder = folder.replace('\\', "/").to_lowercase();
        let is_here = |path: &str| {
            !folder.starts_with('/') && !folder.contains(':')
                || path.replace('\\', "/").to_lowercase().starts_with(folder.as_str())
        };
        let is_listed = |path: &String| tree.paths.iter().any(|listed| covers_path(listed, path));
        let is_asked = |path: &String| specs.is_empty() || specs.iter().any(|spec| covers_path(spec, path));
        self.changed
            .retain(|path| !is_here(path) || !is_asked(path) || is_listed(path));
    }

    fn stage(&mut self, paths: &[&str]) {
        for path in paths {
            match *path {
                "-A" | "--all" | "." | "-u" | "--update" | "*" | ":/" => self.staged.push(String::new()),
                option if option.starts_with('-') => {}
                path => self.staged.push(path.to_owned()),
            }
        }
    }

    fn record_git(
        &mut self,
        arguments: &[&str],
        reported: &[(String, LedgerCommit)],
        is_reported: &mut bool,
        output: &str,
        has_failed: bool,
    ) {
        let arguments = match arguments {
            ["-C" | "-c", _, rest @ ..] => rest,
            all => all,
        };
        match arguments {
            ["commit", options @ ..] => {
                let is_empty = ["nothing to commit", "no changes added", "nothing added to commit"]
                    .iter()
                    .any(|notice| output.contains(notice));
                self.record_commit(options, reported, is_reported, has_failed || is_empty);
            }
            // What was staged to resolve a conflict is committed.
            ["rebase" | "cherry-pick" | "merge" | "revert" | "am", "--continue", ..] if *is_reported => {
                let staged = std::mem::take(&mut self.staged);
                self.changed
                    .retain(|path| !staged.iter().any(|spec| covers_path(spec, path)));
                if output.contains("Successfully rebased") {
                    self.forget_hashes();
                }
            }
            _ if has_failed => {}
            ["push", options @ ..] if !options.contains(&"--dry-run") => {
                let is_rejected = output.contains("[rejected]") || output.contains("error: failed to push");
                if !is_rejected {
                    self.commits.iter_mut().for_each(|commit| commit.is_pushed = true);
                }
            }
            ["checkout", "-b" | "-B", name, ..] | ["switch", "-c" | "-C", name, ..] => {
                (*name).clone_into(&mut self.branch)
            }
            ["checkout" | "restore", "--", paths @ ..] | ["restore", paths @ ..] => self.drop_changes(paths),
            ["checkout" | "switch", name] if output.contains("Switched to") => (*name).clone_into(&mut self.branch),
            // A rebase writes commits anew: their hashes are no longer known, and fixups are gone into others.
            ["rebase", ..] if output.contains("Successfully rebased") => self.forget_hashes(),
            ["reset", "--hard", ..] => {
                self.changed.clear();
                self.staged.clear();
            }
            ["stash", "pop" | "apply" | "drop", ..] => self.stashes = self.stashes.saturating_sub(1),
            ["stash"] | ["stash", "push" | "save" | "-u", ..] if !output.contains("No local changes") => {
                self.stashes += 1;
            }
            ["worktree", "add", paths @ ..] => {
                let mut options = paths.iter();
                while let Some(word) = options.next() {
                    match *word {
                        "-b" | "-B" => drop(options.next()),
                        option if option.starts_with('-') => {}
                        path => {
                            self.worktrees.push(path.to_owned());
                            break;
                        }
                    }
                }
            }
            ["worktree", "remove", paths @ ..] => self.worktrees.retain(|known| !paths.contains(&known.as_str())),
            _ => {}
        }
    }

    fn forget_hashes(&mut self) {
        self.commits.retain(|commit| !commit.subject.starts_with("fixup! "));
        self.commits.iter_mut().for_each(|commit| commit.hash.clear());
    }

    fn record_commit(
        &mut self,
        options: &[&str],
        reported: &[(String, LedgerCommit)],
        is_reported: &mut bool,
        has_failed: bool,
    ) {
        if std::mem::take(is_reported) {
            for (branch, commit) in reported {
                // Committed without a branch: a detached head.
                if !branch.starts_with("detached") {
                    self.branch.clone_from(branch);
                }
                if options.contains(&"--amend") {
                    self.commits.pop();
                }
                self.commits.push(commit.clone());
            }
        } else if has_failed || !reported.is_empty() || options.contains(&"--dry-run") {
            return;
        } else {
            // Quiet, or the report is in the part of a long output that was not read.
            if options.contains(&"--amend") {
                self.commits.pop();
            }
            let at = options.iter().position(|option| matches!(*option, "-m" | "--message"));
            let subject = at.and_then(|at| options.get(at + 1)).copied().unwrap_or_default();
            self.commits.push(LedgerCommit {
                hash: String::new(),
                subject: subject.lines().next().unwrap_or_default().to_owned(),
                is_pushed: false,
            });
        }
        let is_all = options
            .iter()
            .any(|option| matches!(*option, "-a" | "-am" | "--all" | "-qam"));
        let staged = std::mem::take(&mut self.staged);
        // Nothing was seen to be added: it was staged before, or by a script.
        let is_unknown = staged.is_empty() && !is_all;
        let is_covered = |path: &String| is_all || is_unknown || staged.iter().any(|spec| covers_path(spec, path));
        self.changed.retain(|path| !is_covered(path));
    }

    /// Gives a commit without a reported subject the first line of the here-document that its message came from.
    fn name_last_commit(&mut self, subject: &str) {
        if let Some(last) = self.commits.last_mut()
            && (last.subject.is_empty() || last.subject.starts_with("$("))
        {
            subject.clone_into(&mut last.subject);
        }
    }

    fn drop_changes(&mut self, paths: &[&str]) {
        let is_staged_only = paths.contains(&"--staged");
        let covers = |path: &String| {
            paths
                .iter()
                .any(|spec| !spec.starts_with('-') && covers_path(spec, path))
        };
        if !is_staged_only {
            self.changed.retain(|path| !covers(path));
        }
    }

    fn record_pull_request(&mut self, output: &str) {
        let is_address =
            |word: &&str| word.starts_with("https://") && word.contains("/pull/") && !word.contains("/pull/new");
        if let Some(address) = output.split_whitespace().find(is_address) {
            address.clone_into(&mut self.pull_request);
        }
    }
}

/// Returns the words from `git` or `gh` on, if one other program runs it (`sudo git`, `rtk git`).
fn without_wrapper<'w>(words: &'w [&'w str]) -> &'w [&'w str] {
    match words {
        ["echo" | "printf" | "grep" | "rg" | "which" | "man", ..] => words,
        [_, "git" | "gh", ..] => &words[1..],
        _ => words,
    }
}

/// Returns the first line of the here-document in a command; empty without one.
fn here_subject(command: &str) -> String {
    let after = command.split_once("<<").and_then(|(_, after)| after.split_once('\n'));
    let line = after.and_then(|(_, body)| body.lines().find(|line| !line.trim().is_empty()));
    line.unwrap_or_default().trim().to_owned()
}

/// Returns whether a pathspec covers a file. Both may be relative to other folders, so they are compared from the end.
fn covers_path(spec: &str, path: &str) -> bool {
    let (spec, path) = (&spec.replace('\\', "/"), &path.replace('\\', "/"));
    let spec = spec.trim_start_matches("./").trim_end_matches('/');
    if spec.is_empty() || spec == "." {
        return true;
    }
    if let Some((start, _)) = spec.split_once('*') {
        let start = start.trim_end_matches('/');
        return start.is_empty() || path.contains(start);
    }
    path == spec
        || path.ends_with(&format!("/{spec}"))
        || path.contains(&format!("/{spec}/"))
        || path.starts_with(&format!("{spec}/"))
}

/// Returns the commits that git reports as `[branch 1a2b3c4] subject`, with the branch.
fn reported_commits(output: &str) -> Vec<(String, LedgerCommit)> {
    let report = |line: &str| {
        let (head, subject) = line.trim_start().strip_prefix('[')?.split_once("] ")?;
        let (branch, hash) = head.rsplit_once(' ')?;
        let is_hash = hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        let commit = LedgerCommit {
            hash: hash.to_owned(),
            subject: subject.trim().to_owned(),
            is_pushed: false,
        };
        let branch = branch.trim_end_matches(" (root-commit)");
        is_hash.then(|| (branch.to_owned(), commit))
    };
    output.lines().filter_map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> RepositoryLedger {
        let mut ledger = RepositoryLedger::default();
        for path in ["/w/src/a.rs", "/w/src/b.rs", "/w/README.md", "/tmp/x"] {
            ledger.record_edit(path);
        }
        ledger
    }

    #[track_caller]
    fn check(ledger: &RepositoryLedger, uncommitted: &[&str]) {
        assert_eq!(ledger.uncommitted("/w").collect::<Vec<_>>(), uncommitted);
    }

    #[test]
    fn a_commit_covers_what_was_added_before_it() {
        let mut ledger = ledger();
        check(&ledger, &["/w/src/a.rs", "/w/src/b.rs", "/w/README.md"]);
        let output = "[fix/cart 1a2b3c4] Add a discount\n 1 file changed";
        ledger.record_run(
            "cd /w && git add src/a.rs && git commit -m \"Add a discount\"",
            output,
            false,
        );
        check(&ledger, &["/w/src/b.rs", "/w/README.md"]);
        assert_eq!(
            (ledger.branch.as_str(), ledger.commits[0].hash.as_str()),
            ("fix/cart", "1a2b3c4")
        );
        ledger.record_run("git add src/ README.md", "", false);
        ledger.record_run("git commit -qm 'x' 2>&1", "error: a hook failed", true);
        check(&ledger, &["/w/src/b.rs", "/w/README.md"]);
        ledger.record_run("git commit -q -m 'Describe it'", "", false);
        check(&ledger, &[]);
        ledger.record_edit("/w/src/a.rs");
        check(&ledger, &["/w/src/a.rs"]);
        ledger.record_run("git checkout -- src/a.rs", "", false);
        check(&ledger, &[]);
        ledger.record_run(
            "git commit --fixup=1a2b3c4",
            "[main 6e7f8a9] fixup! Add a discount",
            false,
        );
        ledger.record_run(
            "git rebase -i --autosquash main",
            "Successfully rebased and updated refs/heads/main.",
            false,
        );
        assert!(ledger.commits.len() == 2 && ledger.commits.iter().all(|commit| commit.hash.is_empty()));
        ledger.record_edit("/w/src/b.rs");
        ledger.record_run("echo git commit -am x", "git commit -am x", false);
        check(&ledger, &["/w/src/b.rs"]);
        ledger.record_run("rtk git commit -am x", "[main 5d6e7f8] x", false);
        check(&ledger, &[]);
        assert_eq!(ledger.commits.len(), 3);
    }

    #[test]
    fn a_status_says_what_is_clean_and_a_removed_file_is_gone() {
        let mut ledger = ledger();
        ledger.record_run("cd /other && git status --short", "", false);
        check(&ledger, &["/w/src/a.rs", "/w/src/b.rs", "/w/README.md"]);
        ledger.record_run("git status --short", " M src/a.rs\n?? src/b.rs\n", false);
        check(&ledger, &["/w/src/a.rs", "/w/src/b.rs"]);
        ledger.record_run("rm -f src/b.rs && ls", "", false);
        check(&ledger, &["/w/src/a.rs"]);
        let clean = "On branch fix/x\nnothing to commit, working tree clean";
        ledger.record_run("cd /w && git status", clean, false);
        check(&ledger, &[]);
        assert_eq!(ledger.branch, "fix/x");
        ledger.record_edit("/w/src/a.rs");
        let output = "[detached HEAD 834629664] Add it\nSuccessfully rebased and updated refs/heads/x.";
        ledger.record_run("git add src/a.rs && git rebase --continue", output, false);
        check(&ledger, &[]);
    }

    #[test]
    fn a_push_counts_only_if_it_went_through() {
        let mut ledger = ledger();
        ledger.record_run("git commit -am 'All'", "[main 1a2b3c4] All", false);
        check(&ledger, &[]);
        ledger.record_run(
            "git push 2>&1 | tail -3",
            " ! [rejected] main -> main (fetch first)",
            false,
        );
        assert!(!ledger.commits[0].is_pushed);
        ledger.record_run(
            "git commit --amend --no-edit && git push -f",
            "[main 5d6e7f8] All\nfatal: no remote",
            true,
        );
        assert_eq!(ledger.commits.len(), 1);
        assert!(!ledger.commits[0].is_pushed && ledger.commits[0].hash == "5d6e7f8");
        ledger.record_run(
            "git push -u origin main && gh pr create --fill",
            "https://github.com/a/b/pull/12",
            false,
        );
        assert!(ledger.commits[0].is_pushed);
        assert_eq!(ledger.pull_request, "https://github.com/a/b/pull/12");
    }
}
