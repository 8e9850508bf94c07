//! Tests of what a session says about its repository.

use super::*;

fn ledger() -> RepositoryLedger {
    let mut ledger = RepositoryLedger::default();
    for path in ["/w/src/a.rs", "/w/src/b.rs", "/w/README.md", "/tmp/x"] {
        ledger.record_edit(path, false);
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
    ledger.record_edit("/w/src/a.rs", false);
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
    ledger.record_edit("/w/src/b.rs", false);
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
    ledger.record_edit("/w/src/a.rs", false);
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

#[test]
fn a_status_that_a_filter_cut_says_nothing_of_other_files() {
    let mut ledger = ledger();
    ledger.record_run("git status --short | head -1", " M src/a.rs\n", false);
    ledger.record_run("git status --porcelain 2>&1 | grep src", " M src/a.rs\n", false);
    ledger.record_run("git diff --name-only | grep src", "src/a.rs\n", false);
    check(&ledger, &["/w/src/a.rs", "/w/src/b.rs", "/w/README.md"]);
    ledger.record_run("git status --short | head -20", " M src/a.rs\n", false);
    check(&ledger, &["/w/src/a.rs"]);
}

#[test]
fn a_stash_behind_a_pipe_counts_only_if_git_says_so() {
    let mut ledger = ledger();
    ledger.record_run("git stash -u 2>&1 | head -5", "error: could not write index", false);
    ledger.record_run("GIT_TRACE=1 git stash 2>&1 | tail -10", "ok", false);
    assert_eq!(ledger.stash_count(), 0);
    check(&ledger, &["/w/src/a.rs", "/w/src/b.rs", "/w/README.md"]);
    ledger.record_run(
        "git stash 2>&1 | tail -1",
        "Saved working directory and index state WIP on main",
        false,
    );
    assert_eq!(ledger.stash_count(), 1);
    check(&ledger, &[]);
}

#[test]
fn quiet_pushes_and_checkouts_count() {
    let mut ledger = ledger();
    ledger.record_run("git checkout -q -B fix/cart origin/main && git log -1", "", false);
    assert_eq!(ledger.branch, "fix/cart");
    ledger.record_run("git commit -am 'All'", "[fix/cart 1a2b3c4] All", false);
    let push = "git push -q -u origin fix/cart 2>&1|tail -2; git log --oneline -1";
    ledger.record_run(push, "fatal: no remote\n1a2b3c4 All", false);
    assert!(!ledger.commits[0].is_pushed);
    ledger.record_run(push, "remote: Storing objects: 9, done.\n1a2b3c4 All", false);
    assert!(ledger.commits[0].is_pushed);
}

#[test]
fn a_moved_file_is_uncommitted_under_its_new_path() {
    let mut ledger = ledger();
    ledger.record_edit("D:\\w\\src\\c.rs", true);
    ledger.record_run("git mv src/a.rs src/cart.rs && mv README.md docs/", "", false);
    ledger.record_run("mv src/c.rs src/d.rs", "", false);
    check(&ledger, &["/w/src/cart.rs", "/w/src/b.rs", "/w/docs/README.md"]);
    ledger.record_run("git status --short", "?? src/d.rs", false);
    assert_eq!(ledger.uncommitted("D:\\w").collect::<Vec<_>>(), ["D:\\w\\src\\d.rs"]);
}

#[test]
fn a_push_sends_the_commits_of_its_branch() {
    let mut ledger = ledger();
    ledger.record_run("git checkout -q -b fix/a", "", false);
    ledger.record_run("git commit -am 'One'", "[fix/a 1a2b3c4] One", false);
    ledger.record_run("git checkout -b fix/b main", "Switched to a new branch 'fix/b'", false);
    ledger.record_run("git commit -am 'Two'", "[fix/b 2b3c4d5] Two", false);
    ledger.record_run("git push -u origin fix/b", " * [new branch]  fix/b -> fix/b", false);
    let pushed = |ledger: &RepositoryLedger| {
        let states = ledger.commits.iter().map(|commit| commit.is_pushed);
        states.collect::<Vec<_>>()
    };
    assert_eq!(pushed(&ledger), [false, true]);
    assert!(!ledger.is_on_branch(&ledger.commits[0]) && ledger.is_on_branch(&ledger.commits[1]));
    ledger.record_run("git merge fix/a", "", false);
    ledger.record_run("git push -q 2>/dev/null | tail -3", "", false);
    assert_eq!(pushed(&ledger), [false, true]);
    let output = "remote: Create a pull request for 'fix/b' on GitHub by visiting:";
    ledger.record_run("git push -q 2>&1 | tail -3", output, false);
    assert_eq!(pushed(&ledger), [true, true]);
}

#[test]
fn commits_of_a_branch_that_was_thrown_away_are_gone() {
    let mut ledger = ledger();
    ledger.record_run("git switch -c try", "", false);
    ledger.record_run("git commit -am 'WIP'", "[try 1a2b3c4] WIP", false);
    ledger.record_run("git switch main", "Switched to branch 'main'", false);
    ledger.record_run("git branch -D try", "Deleted branch try (was 1a2b3c4).", false);
    assert!(ledger.commits.is_empty());
}

#[test]
fn a_subject_that_the_shell_makes_is_read_from_the_list() {
    let mut ledger = ledger();
    ledger.record_run("git commit -qam \"WIP $name\"", "", false);
    ledger.record_run("git commit -q -F /tmp/message", "", false);
    assert!(ledger.commits.is_empty());
    check(&ledger, &[]);
    let command = "for c in $(git rev-list main..try); do\n git cherry-pick -n $c\n git commit -q -F /tmp/$c\ndone\ngit log --format='%h %s' main..new | cat";
    ledger.record_run(command, "2b3c4d5 feat: two\n1a2b3c4 feat: one\n", false);
    let listed = ledger.commits.iter();
    let listed = listed.map(|commit| (commit.hash.as_str(), commit.subject.as_str()));
    assert_eq!(
        listed.collect::<Vec<_>>(),
        [("1a2b3c4", "feat: one"), ("2b3c4d5", "feat: two")]
    );
    ledger.record_run("git commit -q --amend --no-edit", "", false);
    ledger.record_run("git log --oneline -1", "3c4d5e6 feat: two", false);
    let last = ledger
        .commits
        .last()
        .map(|commit| (commit.hash.as_str(), commit.subject.as_str()));
    assert_eq!(last, Some(("3c4d5e6", "feat: two")));
    let command = "git rebase -i --autosquash main 2>&1 | tail -3; git log --format='%h %s' main..HEAD";
    let output = "Successfully rebased and updated refs/heads/new.\n5e6f7a8 feat: two\n4d5e6f7 feat: one";
    ledger.record_run(command, output, false);
    let hashes = ledger
        .commits
        .iter()
        .map(|commit| (commit.hash.as_str(), commit.branch.as_str()));
    assert_eq!(hashes.collect::<Vec<_>>(), [("4d5e6f7", "new"), ("5e6f7a8", "new")]);
}

#[test]
fn a_shown_commit_covers_what_was_changed_before_it() {
    let show = "commit 1a2b3c4d5e6f\nAuthor: A <a@b.c>\nDate:   Thu Feb 19 09:13:47 2026 +0100\n\n    Round totals\n\n src/a.rs | 21 +++--\n src/b.rs |  2 +-\n";
    let made = 1_771_488_827_000;
    let mut ledger = RepositoryLedger::default();
    ledger.set_time(Some(made - 60_000));
    ledger.record_edit("/w/src/a.rs", false);
    ledger.set_time(Some(made + 60_000));
    ledger.record_edit("/w/src/b.rs", false);
    ledger.record_run("git show --stat HEAD", show, false);
    check(&ledger, &["/w/src/b.rs"]);
    assert_eq!(
        (ledger.commits[0].hash.as_str(), ledger.commits[0].subject.as_str()),
        ("1a2b3c4d", "Round totals")
    );
}

#[test]
fn quiet_switches_and_rebases_name_the_branch() {
    let mut ledger = ledger();
    ledger.record_run("git status -sb", "## main", false);
    ledger.record_run("git checkout -q -B try HEAD~3", "", false);
    ledger.record_run("git checkout -q main", "", false);
    ledger.record_run("git checkout -q src", "", false);
    assert_eq!(ledger.branch, "main");
    let output = "Successfully rebased and updated refs/heads/fix/a.\n";
    ledger.record_run("GIT_EDITOR=true git rebase -i main | tail -3", output, false);
    assert_eq!(ledger.branch, "fix/a");
}
