//! Which branch holds the commits of another, as far as the commands of a session say.

/// Branches with those that they began at or that were merged into them.
#[derive(Debug, Default, Clone)]
pub struct BranchTree {
    /// A branch and one whose commits it has.
    bases: Vec<(String, String)>,
    /// Branches that were checked out.
    seen: Vec<String>,
}

impl BranchTree {
    /// Notes that a branch has the commits of another.
    pub fn add_base(&mut self, branch: &str, base: &str) {
        let is_new = !branch.is_empty() && !base.is_empty() && !self.holds(branch, base);
        if is_new {
            self.bases.push((branch.to_owned(), base.to_owned()));
        }
    }

    /// Forgets what a branch that begins anew held.
    pub fn restart(&mut self, branch: &str) {
        self.bases.retain(|(known, _)| known != branch);
    }

    /// Returns whether a branch has the commits of another. What is not known of either does not contradict it.
    pub fn holds(&self, branch: &str, other: &str) -> bool {
        if branch.is_empty() || other.is_empty() || branch == other || other.starts_with("detached") {
            return true;
        }
        let (mut open, mut at) = (vec![branch], 0);
        while let Some(now) = open.get(at).copied() {
            let own = self.bases.iter().filter(|(known, _)| known == now);
            for (_, base) in own {
                if base == other {
                    return true;
                }
                if !open.contains(&base.as_str()) {
                    open.push(base);
                }
            }
            at += 1;
        }
        false
    }

    /// Notes that a branch was checked out.
    pub fn see(&mut self, name: &str) {
        if !self.knows(name) {
            self.seen.push(name.to_owned());
        }
    }

    /// Returns whether the session was on a branch.
    pub fn knows(&self, name: &str) -> bool {
        self.seen.iter().any(|seen| seen == name)
    }

    /// Returns whether some other branch has the commits of this one.
    pub fn is_held(&self, branch: &str) -> bool {
        self.bases.iter().any(|(_, base)| base == branch)
    }
}

/// Returns whether a command checked out a branch that was there before.
pub fn switches_branch(command: &str, output: &str) -> bool {
    let is_asked = ["git checkout ", "git switch ", "gh pr checkout "]
        .iter()
        .any(|start| command.contains(start));
    let is_new = output.contains("Switched to a new branch") && !command.contains("gh pr checkout ");
    is_asked && output.contains("Switched to") && !is_new
}

/// Returns the local branches that a push sent: from the lines `a -> b` of its output, else from its arguments; empty if
/// neither names one.
pub fn pushed_branches(options: &[&str], output: &str) -> Vec<String> {
    let shown = output.lines().filter_map(|line| {
        let (local, remote) = line.split_once(" -> ")?;
        let local = local.split_whitespace().last()?;
        let is_pair = !remote.trim().is_empty() && !local.contains(['[', ']']);
        is_pair.then(|| local.to_owned())
    });
    let shown = shown.collect::<Vec<_>>();
    if !shown.is_empty() {
        return shown;
    }
    let mut names = options.iter().filter(|option| !option.starts_with('-')).skip(1);
    let named = names.by_ref().map(|name| {
        let local = name.trim_start_matches('+').split(':').next().unwrap_or_default();
        local.trim_start_matches("refs/heads/").to_owned()
    });
    named.filter(|name| !name.contains('$')).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_holds_what_it_began_at() {
        let mut tree = BranchTree::default();
        tree.add_base("fix/b", "fix/a");
        tree.add_base("fix/c", "fix/b");
        assert!(tree.holds("fix/c", "fix/a") && tree.holds("fix/a", "fix/a") && tree.holds("fix/a", ""));
        assert!(!tree.holds("fix/a", "fix/c") && tree.is_held("fix/a") && !tree.is_held("fix/c"));
        tree.restart("fix/b");
        assert!(!tree.holds("fix/c", "fix/a") && tree.holds("fix/c", "fix/b"));
    }

    #[test]
    fn a_branch_that_was_there_is_switched_to() {
        assert!(switches_branch("gh pr checkout 8", "Switched to a new branch 'fix/a'"));
        assert!(switches_branch("git switch main", "Switched to branch 'main'"));
        assert!(!switches_branch(
            "git checkout -b fix/a",
            "Switched to a new branch 'fix/a'"
        ));
        assert!(!switches_branch("git checkout -- a.rs", ""));
    }

    #[test]
    fn a_push_names_its_branches() {
        let output = "To host:a/b\n * [new branch]      fix/a -> fix/a\n   1a2b3c4..5d6e7f8  main -> main";
        assert_eq!(pushed_branches(&[], output), ["fix/a", "main"]);
        assert_eq!(pushed_branches(&["-u", "origin", "fix/a:fix/b"], ""), ["fix/a"]);
        assert_eq!(pushed_branches(&["origin", "HEAD"], "Everything up-to-date"), ["HEAD"]);
        assert!(pushed_branches(&["-f"], "").is_empty());
    }
}
