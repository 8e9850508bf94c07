//! Where the memories of a project lie, and whether there should be any. Pure: the environment, the settings and the root
//! of the repository come in as values.

use crate::names::{agent_part, project_slug, refusal_reason};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// What the place depends on.
pub struct MemdirLookup<'a> {
    /// Looks up an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Settings of the user or of a policy, the strongest first. Their directory counts.
    pub own_settings: &'a [Value],
    /// Settings committed in a repository. They may switch memory off, never move it.
    pub committed_settings: &'a [Value],
    /// The client's home.
    pub home: Option<&'a Path>,
    /// The canonical root of the repository (that of the main worktree), or the current folder.
    pub project: &'a Path,
}

/// Where memories lie, or why there are none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MemdirLocation {
    /// Here.
    At(PathBuf),
    /// Switched off, by what.
    Off(&'static str),
    /// A place was named that is refused.
    Refused(String, &'static str),
    /// There is no home folder to look in.
    NoHome,
}

/// Finds the place: override variable, own settings, the project's folder in the client's home.
pub fn locate_memdir(around: &MemdirLookup) -> MemdirLocation {
    let set = |name: &str| (around.variable)(name).filter(|value| !value.is_empty());
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
    if switched(around.own_settings) == Some(false) || switched(around.committed_settings) == Some(false) {
        return MemdirLocation::Off("autoMemoryEnabled");
    }
    let own = around
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
        around.home.map(Path::to_path_buf)
    };
    let Some(home) = home else {
        return MemdirLocation::NoHome;
    };
    let slug = project_slug(&around.project.to_string_lossy());
    MemdirLocation::At(home.join("projects").join(slug).join("memory"))
}

fn expand_variables(path: &str, set: &dyn Fn(&str) -> Option<String>) -> String {
    match (path.strip_prefix("~/"), set("HOME")) {
        (Some(rest), Some(home)) => format!("{}/{rest}", home.trim_end_matches('/')),
        _ => path.to_owned(),
    }
}

/// Whose memory an agent's is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AgentMemoryScope {
    /// The user's, in every project.
    User,
    /// The project's, committed.
    Project,
    /// The project's, on this machine only.
    Local,
}

/// Where an agent's own memory lies.
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
