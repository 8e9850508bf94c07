//! What `git status` printed: the branch, and the files that differ from the last commit.

/// The state that git reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkingTree {
    /// Empty if it was not printed.
    pub branch: String,
    /// Changed, staged and untracked files and folders, as printed.
    pub paths: Vec<String>,
}

/// Bytes from which on an output may not be all that was printed.
const MAX_OUTPUT: usize = 4_000;

impl WorkingTree {
    /// Parses an output; `None` if it is not whole, was filtered, or is not that of git.
    pub fn parse(options: &[&str], output: &str) -> Option<WorkingTree> {
        let is_short = |option: &&str| matches!(*option, "-s" | "--short" | "--porcelain" | "-sb");
        let is_plain = options.iter().all(|option| is_short(option) || *option == "-b");
        if !is_plain || output.len() > MAX_OUTPUT {
            return None;
        }
        match options.iter().any(is_short) {
            true => WorkingTree::parse_short(output),
            false => WorkingTree::parse_long(output),
        }
    }

    fn parse_short(output: &str) -> Option<WorkingTree> {
        let mut tree = WorkingTree::default();
        let lines = output.lines().filter(|line| !line.trim().is_empty());
        for line in lines.filter(|line| !line.starts_with("(Bash completed")) {
            if let Some(branch) = line.strip_prefix("## ") {
                let end = branch.find("...").unwrap_or(branch.len());
                branch[..end].trim().clone_into(&mut tree.branch);
                continue;
            }
            // The first line may have lost its leading blank.
            let (marks, path) = line.trim_start().split_once(' ')?;
            let is_mark = |sign: char| "MADRCTU?!".contains(sign);
            if marks.is_empty() || marks.len() > 2 || !marks.chars().all(is_mark) {
                return None;
            }
            tree.add(path);
        }
        Some(tree)
    }

    fn parse_long(output: &str) -> Option<WorkingTree> {
        const KINDS: [&str; 8] = [
            "modified:",
            "new file:",
            "deleted:",
            "renamed:",
            "copied:",
            "typechange:",
            "both modified:",
            "both added:",
        ];
        let first = output.lines().next()?;
        let mut tree = WorkingTree::default();
        if let Some(branch) = first.strip_prefix("On branch ") {
            branch.trim().clone_into(&mut tree.branch);
        } else if !first.starts_with("HEAD detached") {
            return None;
        }
        let mut is_untracked = false;
        for line in output.lines() {
            is_untracked = line.starts_with("Untracked files:") || is_untracked && !line.trim().is_empty();
            let path = line.trim();
            if let Some(path) = KINDS.iter().find_map(|kind| path.strip_prefix(kind)) {
                tree.add(path);
            } else if is_untracked && line.starts_with(['\t', ' ']) && !path.starts_with('(') {
                tree.add(path);
            }
        }
        let is_clean = output.contains("working tree clean");
        (is_clean || !tree.paths.is_empty()).then_some(tree)
    }

    fn add(&mut self, path: &str) {
        let path = path.rsplit(" -> ").next().unwrap_or(path);
        let path = path.trim().trim_matches('"').trim_start_matches("../");
        self.paths.push(path.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed_and_others_are_not() {
        let long = "On branch main\nChanges not staged for commit:\n  (use \"git add\")\n\tmodified:   src/a.rs\n\nUntracked files:\n  (use \"git add\")\n\tnew/\n\nno changes added to commit";
        let tree = WorkingTree::parse(&[], long).unwrap_or_default();
        assert_eq!(
            (tree.branch.as_str(), tree.paths),
            ("main", vec!["src/a.rs".into(), "new/".into()])
        );
        let tree = WorkingTree::parse(&["-sb"], "## main...origin/main\n M a.rs\nR  b.rs -> c.rs").unwrap_or_default();
        assert_eq!(
            (tree.branch.as_str(), tree.paths),
            ("main", vec!["a.rs".into(), "c.rs".into()])
        );
        for (options, output) in [
            (&["--ignored"][..], ""),
            (&["--short"][..], "Modified: 3 files"),
            (&[][..], "main, ahead by 3"),
            (&[][..], "On branch main\nChanges not staged for commit:"),
        ] {
            assert_eq!(WorkingTree::parse(options, output), None, "{options:?} {output}");
        }
    }
}
