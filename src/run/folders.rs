//! Folders of this machine: the client's, the cache's, and lists of paths on standard input.

#![allow(clippy::disallowed_methods, reason = "folders are named by the environment")]

use anyhow::{Context, Result, bail};
use std::io::{self, BufRead};
use std::path::{Path, PathBuf};
use transcript::agents::Agent;

/// Returns `$CLAUDE_CONFIG_DIR`, or `~/.claude`; `None` without a home folder.
pub fn client_home() -> Option<PathBuf> {
    path_variable("CLAUDE_CONFIG_DIR").or_else(|| std::env::home_dir().map(|home| home.join(".claude")))
}

/// Returns the folders where an agent keeps its session logs; none without a home folder. OpenCode keeps its sessions in a
/// database: only what it exported can be read, wherever that lies.
pub fn session_folders(agent: Agent) -> Vec<PathBuf> {
    let home = |folder: &str| std::env::home_dir().map(|home| home.join(folder));
    let (home, folders): (Option<PathBuf>, &[&str]) = match agent {
        Agent::Claude => (client_home(), &["projects"]),
        Agent::Codex => (
            path_variable("CODEX_HOME").or_else(|| home(".codex")),
            &["sessions", "archived_sessions"],
        ),
        Agent::OpenCode => (None, &[]),
        Agent::Pi => (home(".pi/agent"), &["sessions"]),
    };
    home.iter()
        .flat_map(|home| folders.iter().map(|folder| home.join(folder)))
        .collect()
}

/// Returns the folder of the cache: the one that was named, or the user's; `None` without a home folder.
pub fn resolve_cache_folder(named: Option<&Path>) -> Option<PathBuf> {
    let user = || {
        path_variable("XDG_CACHE_HOME")
            .filter(|folder| folder.is_absolute())
            .or_else(|| std::env::home_dir().map(|home| home.join(".cache")))
            .map(|folder| folder.join("backcast"))
    };
    let named = named.map(Path::to_path_buf);
    named.or_else(|| path_variable("BACKCAST_CACHE")).or_else(user)
}

fn path_variable(name: &str) -> Option<PathBuf> {
    let value = std::env::var_os(name).filter(|value| !value.is_empty());
    value.map(PathBuf::from)
}

/// Replaces `-` by the paths that standard input lists, one a line.
pub fn read_path_lists(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut roots = Vec::new();
    for path in paths {
        if path.as_os_str() != "-" {
            roots.push(path.clone());
            continue;
        }
        for line in io::stdin().lock().split(b'\n') {
            let line = line.context("reading the list of paths from standard input")?;
            let line = line.strip_suffix(b"\r").unwrap_or(&line);
            if !line.is_empty() {
                roots.push(parse_listed_path(line)?);
            }
        }
    }
    if roots.is_empty() {
        bail!("the list of paths on standard input is empty");
    }
    Ok(roots)
}

/// Reads a path of a list. Where the system allows paths that are not UTF-8, so does a list.
#[cfg(unix)]
pub(super) fn parse_listed_path(line: &[u8]) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    Ok(PathBuf::from(std::ffi::OsStr::from_bytes(line)))
}

/// Reads a path of a list.
#[cfg(not(unix))]
pub(super) fn parse_listed_path(line: &[u8]) -> Result<PathBuf> {
    let line = std::str::from_utf8(line).context("a path on standard input")?;
    Ok(PathBuf::from(line))
}
