//! What `git status` printed: the branch, and the files that differ from the last commit.

/// The state that git reported.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct WorkingTree {
    /// Empty if it was not printed.
    pub branch: String,
    /// Changed, staged and untracked files and folders, as printed.
    pub paths: Vec<String>,
    /// Those of them that git does not know.
    pub untracked: Vec<String>,
    /// Commits that the remote branch does not have; `None` if that was not printed.
    pub ahead: Option<usize>,
}

/// Bytes from which on an output may not be all that was printed.
const MAX_OUTPUT: usize = 4_000;

impl WorkingTree {
    /// Finds the state in an output; `None` if it is not whole, was filtered, or is not that of git. `is_alone`: nothing else
    /// was run. `is_last`: nothing was run after it.
    pub fn find(options: &[&str], output: &str, is_alone: bool, is_last: bool) -> Option<WorkingTree> {
        let is_short = |option: &&str| matches!(*option, "-s" | "--short" | "--porcelain" | "-sb");
        let is_plain = options.iter().all(|option| is_short(option) || *option == "-b");
        if !is_plain || output.len() > MAX_OUTPUT {
            return None;
        }
        match (options.iter().any(is_short), is_alone) {
            (true, true) => WorkingTree::parse_short(output),
            // What other commands printed stands before it.
            (true, false) if is_last => {
                let lines = output
                    .lines()
                    .rev()
                    .take_while(|line| is_short_line(line) || line.starts_with("## "));
                let lines = lines.collect::<Vec<_>>().into_iter().rev();
                WorkingTree::parse_short(&lines.collect::<Vec<_>>().join("\n"))
            }
            (true, false) => None,
            (false, _) => {
                let at = ["On branch ", "HEAD detached"].iter().filter_map(|start| {
                    let is_start = |at: &usize| *at == 0 || output.as_bytes()[at - 1] == b'\n';
                    output.rfind(start).filter(is_start)
                });
                WorkingTree::parse_long(&output[at.max()?..])
            }
        }
    }

    fn parse_short(output: &str) -> Option<WorkingTree> {
        let mut tree = WorkingTree::default();
        let lines = output.lines().filter(|line| !line.trim().is_empty());
        for line in lines.filter(|line| !line.starts_with("(Bash completed")) {
            if let Some(branch) = line.strip_prefix("## ") {
                let (name, remote) = branch.split_once("...").unwrap_or((branch, ""));
                name.trim().clone_into(&mut tree.branch);
                let ahead = remote.split_once("ahead ").map_or("", |(_, ahead)| ahead);
                tree.ahead = (!remote.is_empty() && !remote.contains("[gone]")).then(|| leading_number(ahead));
                continue;
            }
            if !is_short_line(line) {
                return None;
            }
            // The first line may have lost its leading blank.
            let (marks, path) = line.trim_start().split_once(' ')?;
            tree.add(path, marks == "??");
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
                tree.add(path, false);
            } else if is_untracked && line.starts_with(['\t', ' ']) && !path.starts_with('(') {
                tree.add(path, true);
            } else if let Some((_, after)) = path.split_once("Your branch is ahead of ") {
                tree.ahead = after.split_once(" by ").map(|(_, count)| leading_number(count));
            } else if path.starts_with("Your branch is up to date with") {
                tree.ahead = Some(0);
            }
        }
        let is_clean = output.contains("working tree clean");
        (is_clean || !tree.paths.is_empty()).then_some(tree)
    }

    fn add(&mut self, path: &str, is_untracked: bool) {
        let path = path.rsplit(" -> ").next().unwrap_or(path);
        let path = path.trim().trim_matches('"').trim_start_matches("../");
        self.paths.push(path.to_owned());
        if is_untracked {
            self.untracked.push(path.to_owned());
        }
    }
}

fn leading_number(text: &str) -> usize {
    let digits = text.split(|sign: char| !sign.is_ascii_digit()).next();
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

/// Returns whether a line has the short form of a file: up to two marks and a path.
fn is_short_line(line: &str) -> bool {
    let Some((marks, path)) = line.trim_start().split_once(' ') else {
        return false;
    };
    let is_mark = |sign: char| "MADRCTU?!".contains(sign);
    (1..=2).contains(&marks.len()) && marks.chars().all(is_mark) && !path.trim().is_empty()
}

/// Returns whether a command prints all that `program` does: nothing filters it, or only a `head` or `tail` with room for more
/// lines.
pub fn shows_all(command: &str, program: &str, output: &str) -> bool {
    let printed = output.lines().count();
    let passes_all = |filter: &str| {
        let mut words = filter.split_whitespace();
        match words.next() {
            Some("cat") | None => true,
            Some("head" | "tail") => {
                let mut numbers = words.filter_map(|word| word.trim_start_matches(['-', 'n']).parse::<usize>().ok());
                printed < numbers.next_back().unwrap_or(10)
            }
            _ => false,
        }
    };
    command.match_indices(program).all(|(at, _)| {
        let part = command[at..].split([';', '\n']).next().unwrap_or_default();
        let part = part.split("&&").next().unwrap_or_default();
        let part = part.split("||").next().unwrap_or_default();
        part.split('|').skip(1).all(passes_all)
    })
}

/// Returns the files that a diff of the whole tree shows; `None` if it is not of the whole tree, or not whole.
pub fn diff_paths(options: &[&str], output: &str) -> Option<Vec<String>> {
    let is_plain = |option: &&str| matches!(*option, "--stat" | "--name-only" | "--no-color" | "HEAD");
    if !options.iter().all(is_plain) || output.len() > MAX_OUTPUT {
        return None;
    }
    let lines = output.lines().filter(|line| !line.trim().is_empty());
    if options.contains(&"--name-only") {
        return Some(lines.map(|line| line.trim().to_owned()).collect());
    }
    let starts = output
        .lines()
        .filter_map(|line| line.strip_prefix("diff --git a/")?.split_once(" b/"));
    let starts = starts.map(|(_, path)| path.to_owned()).collect::<Vec<_>>();
    if !options.contains(&"--stat") {
        return (!starts.is_empty() || output.trim().is_empty()).then_some(starts);
    }
    let (mut paths, mut count) = (Vec::new(), None);
    for line in lines {
        match line.split_once(" | ") {
            // A long path loses its beginning.
            Some((path, _)) => paths.push(path.trim().trim_start_matches("...").trim_start_matches('/').to_owned()),
            None if line.contains(" changed") => count = Some(leading_number(line.trim())),
            None => return None,
        }
    }
    (count.unwrap_or(0) == paths.len()).then_some(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_are_parsed_and_others_are_not() {
        let long = "On branch main\nChanges not staged for commit:\n  (use \"git add\")\n\tmodified:   src/a.rs\n\nUntracked files:\n  (use \"git add\")\n\tnew/\n\nno changes added to commit";
        let tree = WorkingTree::find(&[], long, true, true).unwrap_or_default();
        assert_eq!(
            (tree.branch.as_str(), tree.paths),
            ("main", vec!["src/a.rs".into(), "new/".into()])
        );
        let tree = WorkingTree::find(
            &["-sb"],
            "## main...origin/main [ahead 2]\n M a.rs\nR  b.rs -> c.rs",
            true,
            true,
        )
        .unwrap_or_default();
        assert_eq!(
            (tree.branch.as_str(), tree.paths),
            ("main", vec!["a.rs".into(), "c.rs".into()])
        );
        assert_eq!(tree.ahead, Some(2));
        let after = "[main 1a2b3c4] All\n 2 files changed, 3 insertions(+)\n M a.rs\n?? b/";
        let tree = WorkingTree::find(&["--short"], after, false, true).unwrap_or_default();
        assert_eq!((tree.paths.len(), tree.untracked), (2, vec!["b/".into()]));
        assert_eq!(WorkingTree::find(&["--short"], after, false, false), None);
        for (options, output) in [
            (&["--ignored"][..], ""),
            (&["--short"][..], "Modified: 3 files"),
            (&[][..], "main, ahead by 3"),
            (&[][..], "On branch main\nChanges not staged for commit:"),
        ] {
            assert_eq!(
                WorkingTree::find(options, output, true, true),
                None,
                "{options:?} {output}"
            );
        }
    }

    #[test]
    fn a_diff_of_the_whole_tree_lists_what_differs() {
        let stat = " src/a.rs | 2 +-\n src/b.rs | 1 +\n 2 files changed, 2 insertions(+), 1 deletion(-)";
        assert_eq!(
            diff_paths(&["--stat"], stat),
            Some(vec!["src/a.rs".into(), "src/b.rs".into()])
        );
        assert_eq!(
            diff_paths(&["--stat"], " src/b.rs | 1 +\n 2 files changed, 2 insertions(+)"),
            None
        );
        assert_eq!(diff_paths(&["--name-only"], "a.rs\n"), Some(vec!["a.rs".into()]));
        assert_eq!(diff_paths(&["main", "--stat"], stat), None);
        assert_eq!(
            diff_paths(&[], "diff --git a/x.rs b/x.rs\n-a\n+b"),
            Some(vec!["x.rs".into()])
        );
    }
}
