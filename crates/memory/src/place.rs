//! The location of a project's memory directory, by the rules of the client. Pure: environment, settings and repository are
//! parameters.

use crate::names::{agent_part, project_slug, refusal_reason};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the location depends on.
pub struct MemdirLookup<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Settings of the user or of an organization, in order of precedence. They may name a directory.
    pub own_settings: &'a [Value],
    /// Settings committed in a repository. They may switch memory off but not name a directory.
    pub committed_settings: &'a [Value],
    /// The client's home folder.
    pub home: Option<&'a Path>,
    /// The canonical root of the repository (of its main worktree), or the current folder.
    pub project: &'a Path,
}

/// The location of the memory directory, or why there is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemdirLocation {
    At(PathBuf),
    /// Switched off by this variable or setting.
    Off(&'static str),
    /// The configured path is not allowed, and why.
    Refused(String, &'static str),
    /// The client's home folder is not known.
    NoHome,
}

/// Locates the memory directory: by environment variable, by settings, or in the client's home folder.
pub fn locate_memdir(lookup: &MemdirLookup) -> MemdirLocation {
    let set = |name: &str| (lookup.variable)(name).filter(|value| !value.is_empty());
    let is_on = |name: &str| {
        set(name).is_some_and(|value| !matches!(value.to_lowercase().as_str(), "0" | "false" | "no" | "off"))
    };
    if is_on("CLAUDE_CODE_DISABLE_AUTO_MEMORY") {
        return MemdirLocation::Off("CLAUDE_CODE_DISABLE_AUTO_MEMORY");
    }
    if is_on("CLAUDE_CODE_SIMPLE") {
        return MemdirLocation::Off("CLAUDE_CODE_SIMPLE");
    }
    let remote = set("CLAUDE_CODE_REMOTE_MEMORY_DIR");
    if is_on("CLAUDE_CODE_REMOTE") && remote.is_none() {
        return MemdirLocation::Off("CLAUDE_CODE_REMOTE without CLAUDE_CODE_REMOTE_MEMORY_DIR");
    }
    let switched = |settings: &[Value]| {
        settings
            .iter()
            .find_map(|value| value.get("autoMemoryEnabled")?.as_bool())
    };
    if switched(lookup.own_settings) == Some(false) || switched(lookup.committed_settings) == Some(false) {
        return MemdirLocation::Off("autoMemoryEnabled");
    }
    let own = lookup
        .own_settings
        .iter()
        .find_map(|value| value.get("autoMemoryDirectory")?.as_str());
    let named = set("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE").or_else(|| own.map(|path| expand_variables(path, &set)));
    if let Some(path) = named {
        return match refusal_reason(&path) {
            Some(why) => MemdirLocation::Refused(path, why),
            None => MemdirLocation::At(path.into()),
        };
    }
    let home = if is_on("CLAUDE_CODE_REMOTE") {
        remote.map(PathBuf::from)
    } else {
        lookup.home.map(Path::to_path_buf)
    };
    let Some(home) = home else {
        return MemdirLocation::NoHome;
    };
    let slug = project_slug(&lookup.project.to_string_lossy());
    MemdirLocation::At(home.join("projects").join(slug).join("memory"))
}

fn expand_variables(path: &str, set: &dyn Fn(&str) -> Option<String>) -> String {
    match (path.strip_prefix("~/"), set("HOME")) {
        (Some(rest), Some(home)) => format!("{}/{rest}", home.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

/// The scope of an agent's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentMemoryScope {
    /// All projects of the user.
    User,
    /// One project, committed.
    Project,
    /// One project, on this machine only.
    Local,
}

/// Returns the memory directory of an agent.
pub fn agent_memdir(scope: AgentMemoryScope, agent: &str, home: &Path, project: &Path) -> PathBuf {
    let part = agent_part(agent);
    match scope {
        AgentMemoryScope::User => home.join("agent-memory").join(part),
        AgentMemoryScope::Project => project.join(".claude").join("agent-memory").join(part),
        AgentMemoryScope::Local => project.join(".claude").join("agent-memory-local").join(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(variables: &[(&str, &str)], own: &[Value], committed: &[Value]) -> MemdirLocation {
        let variable = |name: &str| {
            variables
                .iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        };
        locate_memdir(&MemdirLookup {
            variable: &variable,
            own_settings: own,
            committed_settings: committed,
            home: Some(Path::new("/home/me/.claude")),
            project: Path::new("/home/me/app"),
        })
    }

    #[test]
    fn the_first_that_applies() {
        let usual = MemdirLocation::At("/home/me/.claude/projects/-home-me-app/memory".into());
        assert_eq!(at(&[], &[], &[]), usual);
        assert_eq!(
            at(&[], &[json!({"autoMemoryDirectory": "/data/mem"})], &[]),
            MemdirLocation::At("/data/mem".into())
        );
        assert_eq!(
            at(&[("HOME", "/home/me")], &[json!({"autoMemoryDirectory": "~/mem"})], &[]),
            MemdirLocation::At("/home/me/mem".into())
        );
        let variables = [("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "/over/ride")];
        assert_eq!(
            at(&variables, &[json!({"autoMemoryDirectory": "/data/mem"})], &[]),
            MemdirLocation::At("/over/ride".into())
        );
        assert_eq!(at(&[], &[], &[json!({"autoMemoryDirectory": "/evil/mem"})]), usual);
    }

    #[test]
    fn switches_and_refusals() {
        assert_eq!(
            at(&[("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "1")], &[], &[]),
            MemdirLocation::Off("CLAUDE_CODE_DISABLE_AUTO_MEMORY")
        );
        assert!(matches!(
            at(&[("CLAUDE_CODE_DISABLE_AUTO_MEMORY", "0")], &[], &[]),
            MemdirLocation::At(_)
        ));
        assert!(matches!(
            at(&[("CLAUDE_CODE_REMOTE", "1")], &[], &[]),
            MemdirLocation::Off(_)
        ));
        let remote = [
            ("CLAUDE_CODE_REMOTE", "1"),
            ("CLAUDE_CODE_REMOTE_MEMORY_DIR", "/mnt/mem"),
        ];
        assert_eq!(
            at(&remote, &[], &[]),
            MemdirLocation::At("/mnt/mem/projects/-home-me-app/memory".into())
        );
        assert_eq!(
            at(&[], &[], &[json!({"autoMemoryEnabled": false})]),
            MemdirLocation::Off("autoMemoryEnabled")
        );
        let refused = at(&[("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE", "memory")], &[], &[]);
        assert_eq!(refused, MemdirLocation::Refused("memory".into(), "is relative"));
    }

    #[test]
    fn agents_have_their_own() {
        let (home, project) = (Path::new("/home/me/.claude"), Path::new("/home/me/app"));
        assert_eq!(
            agent_memdir(AgentMemoryScope::User, "a:b", home, project),
            Path::new("/home/me/.claude/agent-memory/a-b")
        );
        assert!(
            agent_memdir(AgentMemoryScope::Project, "../../x", home, project)
                .starts_with("/home/me/app/.claude/agent-memory")
        );
        assert!(
            !agent_memdir(AgentMemoryScope::Local, "../../x", home, project)
                .to_string_lossy()
                .contains("..")
        );
    }
}
