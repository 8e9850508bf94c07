//! Which project a session belongs to.
//!
//! The caller says what the root of a folder that exists here is. Of one that does not, the sessions themselves tell: the
//! shortest folder in which a session worked and that holds its other folders. Worktrees belong to the repository that
//! they lie in. A table of the user joins checkouts that moved.

use crate::names::project_slug;
use std::collections::{BTreeMap, BTreeSet};
use transcript::messages::{Message, MessagePart};

/// Folders inside a repository that hold its worktrees.
const WORKTREE_FOLDERS: [&str; 3] = ["/.claude/worktrees/", "/.worktrees/", "/.git/worktrees/"];

/// Roots of the projects of a run.
#[derive(Debug, Clone, Default)]
pub struct ProjectRoots {
    by_folder: BTreeMap<String, String>,
    by_session: BTreeMap<String, String>,
}

impl ProjectRoots {
    /// Finds the root of every session. `root_here` returns the root of a folder that exists on this machine; `joined` maps
    /// a root to the one it belongs to.
    pub fn find(
        messages: &[Message],
        root_here: &dyn Fn(&str) -> Option<String>,
        joined: &BTreeMap<String, String>,
    ) -> ProjectRoots {
        let mut folders = BTreeMap::<&str, BTreeSet<&str>>::new();
        for message in messages.iter().filter(|message| !message.cwd.is_empty()) {
            folders.entry(&message.session).or_default().insert(&message.cwd);
        }
        let all = folders.values().flatten().copied().collect::<BTreeSet<_>>();
        let named = roots_named_by_memories(messages, &all);
        // Only a folder in which a session started or that two folders of one session share is a root.
        let shared = folders
            .values()
            .filter_map(|folders| common_folder(folders))
            .collect::<BTreeSet<_>>();
        let mut roots = ProjectRoots::default();
        for folder in all {
            let plain = without_worktree(folder);
            let root = root_here(folder).unwrap_or_else(|| {
                let holder = named.iter().chain(&shared).find(|root| is_below(plain, root));
                holder.map_or(plain, |root| without_worktree(root)).to_owned()
            });
            let root = joined.get(&root).cloned().unwrap_or(root);
            roots.by_folder.insert(folder.to_owned(), root);
        }
        // A session belongs to the project in which it started to work.
        for message in messages.iter().filter(|message| !message.cwd.is_empty()) {
            if let Some(root) = roots.by_folder.get(&message.cwd) {
                roots
                    .by_session
                    .entry(message.session.clone())
                    .or_insert_with(|| root.clone());
            }
        }
        roots
    }

    /// Returns the root of the project of a message; empty if nothing tells.
    pub fn root_of(&self, message: &Message) -> String {
        let by_folder = self.by_folder.get(&message.cwd);
        by_folder
            .or_else(|| self.by_session.get(&message.session))
            .cloned()
            .unwrap_or_default()
    }

    /// Returns the root of a folder in which a session worked.
    pub fn root_of_folder(&self, folder: &str) -> String {
        self.by_folder.get(folder).cloned().unwrap_or_default()
    }

    /// Returns all roots.
    pub fn all(&self) -> BTreeSet<&str> {
        self.by_folder.values().map(String::as_str).collect()
    }
}

/// Returns the folders for which the client keeps memories: it names their directory after the root of the repository.
fn roots_named_by_memories<'f>(messages: &'f [Message], folders: &BTreeSet<&'f str>) -> BTreeSet<&'f str> {
    let paths = messages.iter().flat_map(|message| {
        let calls = message.parts.iter().filter_map(|part| match part {
            MessagePart::Call { input, .. } => input.get("file_path")?.as_str(),
            _ => None,
        });
        calls.chain(message.files.iter().map(|file| file.path.as_str()))
    });
    let slugs = paths.filter_map(memory_slug).collect::<BTreeSet<_>>();
    if slugs.is_empty() {
        return BTreeSet::new();
    }
    let above = folders.iter().flat_map(|folder| {
        let ends = folder
            .match_indices(['/', '\\'])
            .map(|(at, _)| at)
            .chain([folder.len()]);
        ends.map(|end| &folder[..end])
    });
    above
        .filter(|root| depth(root) >= 2 && slugs.contains(project_slug(root).as_str()))
        .collect()
}

/// Returns the name of the project's folder in the path of a memory file of the client.
fn memory_slug(path: &str) -> Option<&str> {
    let (_, rest) = path.split_once(".claude")?;
    let mut parts = rest.split(['/', '\\']).filter(|part| !part.is_empty());
    (parts.next() == Some("projects")).then(|| parts.next())?
}

/// Returns the folder of a session that holds all its other folders; `None` if it worked in one, or in folders apart.
fn common_folder<'f>(folders: &BTreeSet<&'f str>) -> Option<&'f str> {
    let shortest = folders.iter().min_by_key(|folder| folder.len())?;
    let holds_all = folders
        .iter()
        .all(|folder| is_below(without_worktree(folder), without_worktree(shortest)));
    (folders.len() > 1 && holds_all && depth(shortest) >= 3).then_some(*shortest)
}

/// Returns the number of parts of a path: a home folder and above are no project.
fn depth(path: &str) -> usize {
    path.split(['/', '\\']).filter(|part| !part.is_empty()).count()
}

/// Returns whether a path is a folder or lies in it.
fn is_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '\\']))
}

/// Returns the repository of a worktree inside it; other paths as they are.
fn without_worktree(path: &str) -> &str {
    let at = WORKTREE_FOLDERS.iter().filter_map(|folder| path.find(folder)).min();
    at.map_or(path, |at| &path[..at])
}

/// Returns short names for roots: the last part of the path, with more parts where two would be alike.
pub fn short_names<'r>(roots: impl IntoIterator<Item = &'r str>) -> BTreeMap<&'r str, String> {
    let roots = roots.into_iter().collect::<BTreeSet<_>>();
    let tail = |root: &str, parts: usize| {
        let all = root
            .split(['/', '\\'])
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>();
        let name = all[all.len().saturating_sub(parts)..].join("-");
        if name.is_empty() { "unknown".to_owned() } else { name }
    };
    let named = roots.iter().map(|root| {
        let alike = |parts: usize| {
            let own = tail(root, parts).to_lowercase();
            roots
                .iter()
                .filter(|other| tail(other, parts).to_lowercase() == own)
                .count()
                > 1
        };
        let parts = (1..12).find(|parts| !alike(*parts)).unwrap_or(12);
        (*root, tail(root, parts))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use transcript::messages::MessageRole;

    fn at(session: &str, cwd: &str) -> Message {
        Message {
            session: session.to_owned(),
            cwd: cwd.to_owned(),
            ..Message::with_parts(MessageRole::User, Vec::new())
        }
    }

    fn roots(messages: &[Message]) -> Vec<String> {
        let found = ProjectRoots::find(messages, &|_| None, &BTreeMap::new());
        messages.iter().map(|message| found.root_of(message)).collect()
    }

    #[test]
    fn folders_of_one_session_are_one_project_and_others_are_not() {
        let messages = [
            at("a", "/home/me/work/tool"),
            at("a", "/home/me/work/tool/crates/x"),
            at("b", "/home/me/work/tool/crates/y"),
            at("c", "/home/me/work/toolbox"),
            at("d", "/home/me/work/tool/.claude/worktrees/fix"),
            at("d", ""),
        ];
        let tool = "/home/me/work/tool";
        assert_eq!(
            roots(&messages),
            [tool, tool, tool, "/home/me/work/toolbox", tool, tool]
        );
    }

    #[test]
    fn a_home_folder_joins_nothing() {
        let messages = [at("a", "/home/me"), at("a", "/home/me/one"), at("b", "/home/me/two")];
        assert_eq!(roots(&messages), ["/home/me", "/home/me/one", "/home/me/two"]);
    }

    #[test]
    fn what_exists_here_and_the_users_table_decide() {
        let joined = BTreeMap::from([("/old/tool".to_owned(), "/new/tool".to_owned())]);
        let messages = [at("a", "/old/tool/src"), at("b", "/old/other")];
        let here = |folder: &str| folder.strip_suffix("/src").map(str::to_owned);
        let found = ProjectRoots::find(&messages, &here, &joined);
        assert_eq!(found.root_of(&messages[0]), "/new/tool");
        assert_eq!(found.root_of(&messages[1]), "/old/other");
    }

    #[test]
    fn short_names_differ() {
        let names = short_names(["/a/x/tool", "/b/x/tool", "/b/other"]);
        assert_eq!(names["/b/other"], "other");
        assert_eq!(
            (names["/a/x/tool"].as_str(), names["/b/x/tool"].as_str()),
            ("a-x-tool", "b-x-tool")
        );
    }
}
