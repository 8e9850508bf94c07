//! What git did in a session: branch, commits, what was pushed, pull request, and files changed since the last commit.
//!
//! All of it from shell calls and what they printed. What a person does in another terminal is not seen.

use super::branches::{BranchTree, pushed_branches};
use super::commits::{GitReport, LedgerCommit, ShownCommit, commit_subjects, is_literal, runs_in_loop};
use super::parts::{drop_here_documents, hides_status, join_lines, split_parts, split_words};
use super::working_tree::{WorkingTree, diff_paths, shows_all};
use crate::offline::shell::has_failure_marks;
use std::collections::{HashMap, HashSet};
use transcript::log::Time;

/// Changes that a command of git threw away.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitDiscard {
    /// The command, without its paths.
    pub command: String,
    /// Files that the session had changed, and whether it changed them again afterwards.
    pub files: Vec<(String, bool)>,
}

/// The state of the repository as far as a session shows it.
#[derive(Debug, Default, Clone)]
pub struct RepositoryLedger {
    /// Empty if the session never says.
    pub branch: String,
    pub commits: Vec<LedgerCommit>,
    /// Address of the pull request that was opened last; empty without one.
    pub pull_request: String,
    pub worktrees: Vec<String>,
    /// What was thrown away, oldest first.
    pub discards: Vec<GitDiscard>,
    /// Files that git called changed or untracked and that no edit of the session changed.
    pub others: Vec<String>,
    pub untracked: Vec<String>,
    /// Whether git showed any state of the files in this session.
    pub has_seen_git: bool,
    /// The files in every stash.
    stashes: Vec<Vec<String>>,
    /// Files changed since the last commit that covers them, oldest first.
    changed: Vec<String>,
    /// Those of them that the session made.
    new_files: HashSet<String>,
    /// Pathspecs added since the last commit; empty text for all.
    staged: Vec<String>,
    branches: BranchTree,
    /// The time of the message that is read, and of the last change of every file.
    time: Option<Time>,
    change_times: HashMap<String, Time>,
}

/// What is known of one run of a command with git in it.
struct GitRun<'r> {
    output: &'r str,
    has_failed: bool,
    /// Whether the status of the command says nothing about git.
    hides_status: bool,
    /// Whether the output has what git calls errors.
    shows_errors: bool,
    report: GitReport,
    /// Subjects of the commits, in their order.
    subjects: std::vec::IntoIter<String>,
    /// Number of `git commit` parts, and of those taken.
    commits: usize,
    taken: usize,
    /// Whether the commits are made in a loop, so that their number is not known.
    is_loop: bool,
}

impl RepositoryLedger {
    /// Takes the time of the message that is read next.
    pub fn set_time(&mut self, time: Option<Time>) {
        self.time = time.or(self.time);
    }

    /// Notes that a file was changed.
    pub fn record_edit(&mut self, path: &str, is_new: bool) {
        self.changed.retain(|known| known != path);
        self.changed.push(path.to_owned());
        if let Some(time) = self.time {
            self.change_times.insert(path.to_owned(), time);
        }
        if is_new {
            self.new_files.insert(path.to_owned());
        }
        let discarded = self.discards.iter_mut().flat_map(|discard| &mut discard.files);
        for (_, is_back) in discarded.filter(|(known, _)| known == path) {
            *is_back = true;
        }
    }

    /// Returns the number of stashes.
    pub fn stash_count(&self) -> usize {
        self.stashes.len()
    }

    /// Returns the files below `root` that were changed since the last commit that covers them.
    pub fn uncommitted<'l>(&'l self, root: &'l str) -> impl Iterator<Item = &'l str> {
        self.changed
            .iter()
            .filter(|path| is_project_file(path, root))
            .map(String::as_str)
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
        if !has_failed && command.contains("mv ") {
            self.record_moves(command);
        }
        if !command.contains("git ") && !command.contains("gh ") {
            return;
        }
        let joined = join_lines(command);
        let bare = drop_here_documents(&joined);
        let parts = split_parts(&bare);
        let words = parts.iter().map(|part| split_words(part)).collect::<Vec<_>>();
        let words = words
            .iter()
            .map(|words| words.iter().map(String::as_str).collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let parts = words.iter().map(|words| without_wrapper(words)).collect::<Vec<_>>();
        let mut run = GitRun {
            output,
            has_failed,
            hides_status: hides_status(command) || words.iter().any(|words| without_wrapper(words).len() < words.len()),
            shows_errors: !command.contains("/dev/null"),
            report: GitReport::read(command, output),
            subjects: commit_subjects(command).into_iter(),
            commits: parts.iter().filter(|part| is_commit(part)).count(),
            taken: 0,
            is_loop: runs_in_loop(&bare),
        };
        let mut folder = String::new();
        for (at, part) in parts.iter().enumerate() {
            let is_last = at + 1 == parts.len();
            match *part {
                ["cd", path] => (*path).clone_into(&mut folder),
                ["git", "status", options @ ..] if !has_failed && shows_all(&bare, "git status", output) => {
                    self.read_status(options, output, &folder, parts.len() == 1, is_last);
                }
                ["git", "diff", options @ ..]
                    if !has_failed && parts.len() == 1 && shows_all(&bare, "git diff", output) =>
                {
                    self.read_diff(options, output);
                }
                ["git", "branch", "--show-current"] | ["git", "rev-parse", "--abbrev-ref", "HEAD"]
                    if !has_failed && parts.len() == 1 =>
                {
                    self.name_branch(output.trim());
                }
                ["git", "show", ..] if !has_failed && parts.len() == 1 => self.read_shown_commit(output),
                ["git", "add" | "stage", paths @ ..] if !has_failed || !run.report.commits.is_empty() => {
                    self.stage(paths);
                }
                ["git", arguments @ ..] => self.record_git(arguments, &mut run),
                ["gh", "pr", "create", ..] if !has_failed => self.record_pull_request(output),
                _ => {}
            }
        }
        let unknown = self.commits.iter_mut().filter(|commit| commit.hash.is_empty());
        for commit in unknown {
            commit.hash = run.report.find_logged(&commit.subject).unwrap_or_default();
            // A rebase wrote it to the branch that is checked out.
            if !commit.hash.is_empty() && output.contains("Successfully rebased") {
                commit.branch.clone_from(&self.branch);
            }
        }
    }

    /// Returns whether the branch that is checked out has a commit, as far as the session says.
    pub fn is_on_branch(&self, commit: &LedgerCommit) -> bool {
        self.branches.holds(&self.branch, &commit.branch)
    }

    fn name_branch(&mut self, name: &str) {
        let is_name = !name.is_empty() && name != "HEAD" && !name.contains(char::is_whitespace);
        if is_name && name.len() < 200 {
            name.clone_into(&mut self.branch);
            self.branches.see(name);
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

    /// Gives changed files that a command moved their new path.
    fn record_moves(&mut self, command: &str) {
        for part in split_parts(&drop_here_documents(&join_lines(command))) {
            let words = split_words(part);
            let words = words.iter().map(String::as_str).filter(|word| !word.starts_with('-'));
            let words = words.collect::<Vec<_>>();
            let (["mv", old, new] | ["git", "mv", old, new]) = words[..] else {
                continue;
            };
            for path in &mut self.changed {
                if let Some(moved) = moved_path(path, old, new) {
                    if self.new_files.remove(path) {
                        self.new_files.insert(moved.clone());
                    }
                    *path = moved;
                }
            }
        }
    }

    /// Takes what `git status` printed: files that it does not list are as they were committed.
    fn read_status(&mut self, options: &[&str], output: &str, folder: &str, is_alone: bool, is_last: bool) {
        let specs = options
            .iter()
            .filter(|option| !option.starts_with('-'))
            .collect::<Vec<_>>();
        let options = options.iter().filter(|option| option.starts_with('-')).copied();
        let options = options.collect::<Vec<_>>();
        let Some(tree) = WorkingTree::find(&options, output, is_alone, is_last) else {
            return;
        };
        self.has_seen_git = true;
        self.name_branch(&tree.branch);
        if let Some(ahead) = tree.ahead {
            let own = self.commits.iter_mut().rev();
            let own = own.filter(|commit| commit.branch == tree.branch);
            own.enumerate().for_each(|(at, commit)| commit.is_pushed = at >= ahead);
        }
        // The status of another folder says nothing about files elsewhere.
        let is_elsewhere = folder.starts_with('/') || folder.contains(':');
        let folder = folder.replace('\\', "/").to_lowercase();
        let is_here = |path: &str| !is_elsewhere || path.replace('\\', "/").to_lowercase().starts_with(folder.as_str());
        let is_listed = |path: &String| tree.paths.iter().any(|listed| covers_path(listed, path));
        let is_asked = |path: &String| specs.is_empty() || specs.iter().any(|spec| covers_path(spec, path));
        self.changed
            .retain(|path| !is_here(path) || !is_asked(path) || is_listed(path));
        if specs.is_empty() && !is_elsewhere {
            let is_known = |listed: &String| self.changed.iter().any(|path| covers_path(listed, path));
            let unknown = tree.paths.iter().filter(|listed| !is_known(listed)).cloned();
            let (untracked, others) = unknown.partition(|listed| tree.untracked.contains(listed));
            (self.untracked, self.others) = (untracked, others);
        }
    }

    /// Takes what `git diff` printed of the whole tree: other files that git knows are as they were committed or staged.
    fn read_diff(&mut self, options: &[&str], output: &str) {
        let Some(paths) = diff_paths(options, output) else {
            return;
        };
        self.has_seen_git = true;
        let is_staged = |path: &String| self.staged.iter().any(|spec| covers_path(spec, path));
        let is_listed = |path: &String| paths.iter().any(|listed| covers_path(listed, path));
        let new_files = &self.new_files;
        self.changed
            .retain(|path| new_files.contains(path) || is_listed(path) || is_staged(path));
    }

    /// Takes a commit that git showed. What it lists was committed, if it is from after the last change: who made it is not known.
    fn read_shown_commit(&mut self, output: &str) {
        let Some(shown) = ShownCommit::parse(output) else {
            return;
        };
        let times = &self.change_times;
        let is_in = |path: &String| {
            let is_later = times.get(path).is_some_and(|time| shown.time >= *time);
            is_later && shown.paths.iter().any(|listed| covers_path(listed, path))
        };
        if !self.changed.iter().any(is_in) {
            return;
        }
        self.changed.retain(|path| !is_in(path));
        self.has_seen_git = true;
        let is_known = |commit: &LedgerCommit| !commit.hash.is_empty() && shown.hash.starts_with(&commit.hash);
        if !self.commits.iter().any(is_known) {
            self.commits.push(LedgerCommit {
                hash: shown.hash.chars().take(8).collect(),
                subject: shown.subject,
                branch: self.branch.clone(),
                is_pushed: false,
                is_proven: true,
            });
        }
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

    fn record_git(&mut self, arguments: &[&str], run: &mut GitRun<'_>) {
        let (output, has_failed) = (run.output, run.has_failed);
        match skip_git_options(arguments) {
            ["commit", options @ ..] => self.record_commit(options, run),
            // What was staged to resolve a conflict is committed.
            ["rebase" | "cherry-pick" | "merge" | "revert" | "am", "--continue", ..]
                if !run.report.commits.is_empty() =>
            {
                let staged = std::mem::take(&mut self.staged);
                self.forget_changes(|path| staged.iter().any(|spec| covers_path(spec, path)));
                if output.contains("Successfully rebased") {
                    self.forget_hashes();
                }
            }
            ["stash", arguments @ ..] => self.record_stash(arguments, run),
            _ if has_failed => {}
            ["push", options @ ..] if !options.contains(&"--dry-run") => {
                let is_rejected = output.contains("[rejected]") || output.contains("error: failed to push");
                // A quiet push prints nothing but errors.
                let is_quiet = options.iter().any(|option| matches!(*option, "-q" | "--quiet"));
                let is_silent = is_quiet && run.shows_errors && !has_failure_marks(output);
                // What the server prints after it took a new branch.
                let is_offered = output.contains("remote: Create a pull request for");
                let is_shown = is_offered
                    || output.contains("->")
                    || output.contains("up-to-date")
                    || !run.hides_status
                    || is_silent;
                if is_shown && !is_rejected {
                    self.record_push(options, output);
                }
            }
            ["checkout" | "switch", "-q" | "--quiet", name] if self.branches.knows(name) => self.name_branch(name),
            ["checkout" | "switch", "-q" | "--quiet", rest @ ..] if rest.len() > 1 => {
                let words = [&["checkout"], rest].concat();
                self.record_git(&words, run);
            }
            [
                "checkout" | "switch",
                option @ ("-b" | "-B" | "-c" | "-C"),
                name,
                start @ ..,
            ] => {
                self.start_branch(name, start, matches!(*option, "-B" | "-C"));
            }
            ["branch", "-D", names @ ..] => names.iter().for_each(|name| self.drop_branch(name)),
            ["branch", "-m" | "-M", name] => self.rename_branch(name),
            ["merge", name] if !output.contains("CONFLICT") => {
                let branch = self.branch.clone();
                self.branches.add_base(&branch, name);
            }
            ["checkout", "--", paths @ ..] => self.drop_changes("git checkout --", paths),
            ["restore", paths @ ..] => self.drop_changes("git restore", paths),
            ["checkout" | "switch", name] if output.contains("Switched to") => self.name_branch(name),
            // A rebase writes commits anew: their hashes are no longer known, and fixups are gone into others.
            ["rebase", ..] if output.contains("Successfully rebased") => {
                self.forget_hashes();
                let updated = output.split_once("updated refs/heads/").map_or("", |(_, name)| name);
                let name = updated.split_whitespace().next().unwrap_or_default();
                self.name_branch(name.trim_end_matches('.'));
            }
            ["reset", "--hard", ..] => {
                let lost = std::mem::take(&mut self.changed);
                self.record_discard("git reset --hard", lost);
                if let ["reset", "--hard", name] = skip_git_options(arguments) {
                    let branch = self.branch.clone();
                    self.branches.add_base(&branch, name);
                }
                self.staged.clear();
                self.others.clear();
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

    /// Takes a push that went through: it sends the commits of its branches.
    fn record_push(&mut self, options: &[&str], output: &str) {
        let is_all = options.iter().any(|option| matches!(*option, "--all" | "--mirror"));
        let mut names = pushed_branches(options, output);
        if names.is_empty() {
            names.push("HEAD".to_owned());
        }
        for name in &mut names {
            if name == "HEAD" {
                name.clone_from(&self.branch);
            }
        }
        for commit in &mut self.commits {
            commit.is_pushed |= is_all || names.iter().any(|name| self.branches.holds(name, &commit.branch));
        }
    }

    /// Takes a new branch. Without a start it begins at the one that is checked out.
    fn start_branch(&mut self, name: &str, start: &[&str], is_reset: bool) {
        if is_reset {
            self.drop_branch(name);
            self.branches.restart(name);
        }
        let base = start.iter().find(|word| !word.starts_with('-'));
        let base = base.map_or(self.branch.clone(), |base| (*base).to_owned());
        self.branches.add_base(name, &base);
        self.name_branch(name);
    }

    /// Forgets the commits of a branch that was thrown away, unless they were pushed or another branch has them.
    fn drop_branch(&mut self, name: &str) {
        if !self.branches.is_held(name) {
            self.commits.retain(|commit| commit.branch != name || commit.is_pushed);
        }
    }

    fn rename_branch(&mut self, name: &str) {
        let old = std::mem::take(&mut self.branch);
        self.branches.add_base(name, &old);
        self.name_branch(name);
        let own = self
            .commits
            .iter_mut()
            .filter(|commit| commit.branch == old && !old.is_empty());
        own.for_each(|commit| name.clone_into(&mut commit.branch));
    }

    /// Takes a command about stashes. What git reports counts, also if another part of the command failed.
    fn record_stash(&mut self, arguments: &[&str], run: &GitRun<'_>) {
        let (output, has_failed) = (run.output, run.has_failed);
        match arguments {
            [] | ["push" | "save" | "-u", ..] => {
                let is_saved = output.contains("Saved working directory");
                // Where the status is hidden, only a quiet stash says nothing.
                let is_quiet = arguments.iter().any(|option| matches!(*option, "-q" | "--quiet"));
                let may_be = !run.hides_status || is_quiet && run.shows_errors && !has_failure_marks(output);
                if is_saved || !has_failed && may_be && !output.contains("No local changes") {
                    let files = std::mem::take(&mut self.changed);
                    self.stashes.push(files);
                }
            }
            ["pop" | "apply", ..] => {
                let is_refused = ["would be overwritten", "CONFLICT", "could not restore", "error:"]
                    .iter()
                    .any(|notice| output.contains(notice));
                if is_refused || has_failed && !output.contains("Dropped refs/stash") {
                    return;
                }
                let files = match arguments[0] {
                    "pop" => self.stashes.pop(),
                    _ => self.stashes.last().cloned(),
                };
                for file in files.unwrap_or_default() {
                    if !self.changed.contains(&file) {
                        self.changed.push(file);
                    }
                }
            }
            ["drop" | "clear", ..] if !has_failed => {
                let files = self.stashes.pop().unwrap_or_default();
                let is_back = |file: &String| self.changed.contains(file);
                let lost = files.into_iter().filter(|file| !is_back(file)).collect();
                self.record_discard("git stash drop", lost);
            }
            _ => {}
        }
    }

    fn record_discard(&mut self, command: &str, files: Vec<String>) {
        if !files.is_empty() {
            self.discards.push(GitDiscard {
                command: command.to_owned(),
                files: files.into_iter().map(|file| (file, false)).collect(),
            });
        }
    }

    fn forget_hashes(&mut self) {
        self.commits.retain(|commit| !commit.subject.starts_with("fixup! "));
        self.commits.iter_mut().for_each(|commit| commit.hash.clear());
    }

    /// Forgets changes that a commit covers.
    fn forget_changes(&mut self, is_covered: impl Fn(&String) -> bool) {
        for paths in [&mut self.changed, &mut self.others, &mut self.untracked] {
            paths.retain(|path| !is_covered(path));
        }
    }

    fn record_commit(&mut self, options: &[&str], run: &mut GitRun<'_>) {
        if options.contains(&"--dry-run") {
            return;
        }
        let is_amend = options.contains(&"--amend");
        let mut subject = run.subjects.next().unwrap_or_default();
        if is_amend && !is_literal(&subject) {
            // It keeps its message.
            subject = self
                .commits
                .last()
                .map(|commit| commit.subject.clone())
                .unwrap_or_default();
        }
        let reported = run.report.take(run.taken, run.commits);
        run.taken += 1;
        let mut commits = reported;
        let mut is_unnamed = false;
        if commits.is_empty() {
            if run.has_failed || run.report.is_refused || !run.report.commits.is_empty() {
                return;
            }
            let is_quiet = options
                .iter()
                .any(|option| matches!(*option, "-q" | "--quiet" | "-qm" | "-qam"));
            let is_proven = !run.hides_status || is_quiet || run.report.counts_files || run.report.ends_well;
            let logged = run.report.find_logged(&subject);
            if logged.is_some() || is_literal(&subject) {
                commits.push(LedgerCommit {
                    is_proven: is_proven || logged.is_some(),
                    hash: logged.unwrap_or_default(),
                    subject,
                    branch: self.branch.clone(),
                    is_pushed: false,
                });
            } else {
                commits = self.unnamed_commits(run);
                is_unnamed = !is_proven;
            }
        }
        self.has_seen_git = true;
        let is_proven = !is_unnamed && commits.iter().all(|commit| commit.is_proven);
        for commit in commits {
            // Committed without a branch: a detached head.
            if !commit.branch.starts_with("detached") {
                self.name_branch(&commit.branch);
            }
            if is_amend && is_proven {
                self.commits.pop();
            }
            self.commits.push(commit);
        }
        if !is_proven {
            return;
        }
        let is_all = options
            .iter()
            .any(|option| matches!(*option, "-a" | "-am" | "--all" | "-qam"));
        let staged = std::mem::take(&mut self.staged);
        // Nothing was seen to be added: it was staged before, or by a script.
        let is_unknown = staged.is_empty() && !is_all;
        self.forget_changes(|path| is_all || is_unknown || staged.iter().any(|spec| covers_path(spec, path)));
    }

    /// Returns the commits whose command does not say their subject, from the list that the same command printed last; none if it
    /// did not.
    fn unnamed_commits(&self, run: &GitRun<'_>) -> Vec<LedgerCommit> {
        let is_known = |hash: &str| self.commits.iter().any(|commit| commit.hash == hash);
        let listed = run.report.listed_commits(&self.branch);
        let listed = listed.into_iter().filter(|commit| !is_known(&commit.hash));
        match run.is_loop {
            true => listed.collect::<Vec<_>>().into_iter().rev().collect(),
            false => listed.skip(run.commits - run.taken).take(1).collect(),
        }
    }

    fn drop_changes(&mut self, command: &str, paths: &[&str]) {
        if paths.contains(&"--staged") {
            return;
        }
        let mut specs = paths.iter().filter(|spec| !spec.starts_with('-'));
        let covers = |path: &String| specs.clone().any(|spec| covers_path(spec, path));
        let (lost, kept) = std::mem::take(&mut self.changed).into_iter().partition(covers);
        self.changed = kept;
        if specs.next().is_some() {
            self.record_discard(command, lost);
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

/// Returns whether a file lies below the working directory and is not a plan of the client.
pub fn is_project_file(path: &str, root: &str) -> bool {
    let is_below = path
        .strip_prefix(root)
        .is_some_and(|rest| root.is_empty() || rest.starts_with(['/', '\\']));
    (is_below || !path.starts_with('/') && !path.contains(":\\")) && !path.contains("/.claude/plans/")
}

/// Returns the new path of a file that was moved from `old` to `new`; `None` if it is another file.
fn moved_path(path: &str, old: &str, new: &str) -> Option<String> {
    let plain = path.replace('\\', "/");
    let folder = plain.strip_suffix(old)?;
    let is_whole = folder.is_empty() || folder.ends_with('/');
    let name = match new.ends_with('/') {
        true => old.rsplit('/').next().unwrap_or_default(),
        false => "",
    };
    let moved = match new.starts_with('/') {
        true => format!("{new}{name}"),
        false => format!("{folder}{new}{name}"),
    };
    let is_windows = path.contains('\\');
    is_whole.then(|| if is_windows { moved.replace('/', "\\") } else { moved })
}

/// Returns the words from `git` or `gh` on, if one other program runs it (`sudo git`, `rtk git`).
fn without_wrapper<'w>(words: &'w [&'w str]) -> &'w [&'w str] {
    let is_setting = |word: &str| {
        let name = word.split_once('=').map_or("", |(name, _)| name);
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
    };
    let settings = words.iter().take_while(|word| is_setting(word)).count();
    let words = &words[settings..];
    match words {
        ["echo" | "printf" | "grep" | "rg" | "which" | "man", ..] => words,
        [_, "git" | "gh", ..] => &words[1..],
        _ => words,
    }
}

fn is_commit(part: &[&str]) -> bool {
    matches!(part, ["git", arguments @ ..] if skip_git_options(arguments).first() == Some(&"commit"))
}

/// Returns the words from the verb of git on.
fn skip_git_options<'w>(arguments: &'w [&'w str]) -> &'w [&'w str] {
    match arguments {
        ["-C" | "-c", _, rest @ ..] => rest,
        all => all,
    }
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

#[cfg(test)]
mod tests;
