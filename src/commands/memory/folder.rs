//! Which directory a command works on: what was named, or what the client would use here.

use crate::commands::memory::{AgentScope, DirArgs};
use crate::run::client_home;
use crate::views::doctor::MemoryReport;
use anyhow::{Context, Result, bail};
use memory::memdir::Memdir;
use memory::place::{AgentMemoryScope, MemdirLocation, MemdirLookup, agent_memdir, locate_memdir};
use serde_json::Value;
use std::path::{Path, PathBuf};
use table::words::shell_quote;

/// The path of the directory.
pub fn resolve_dir(args: &DirArgs) -> Result<PathBuf> {
    if let Some(path) = &args.dir {
        // A person may name a folder relative to where they are; settings may not.
        return std::path::absolute(path).with_context(|| path.display().to_string());
    }
    let current = std::env::current_dir().context("the current folder")?;
    let project = project_root(&current);
    let home = client_home();
    if let Some(agent) = &args.agent_type {
        let home = home.context("no home folder to look for memories in")?;
        let scope = match args.scope {
            AgentScope::User => AgentMemoryScope::User,
            AgentScope::Project => AgentMemoryScope::Project,
            AgentScope::Local => AgentMemoryScope::Local,
        };
        return Ok(agent_memdir(scope, agent, &home, &project));
    }
    let own = home
        .iter()
        .map(|home| home.join("settings.json"))
        .chain([project.join(".claude/settings.local.json")]);
    let around = MemdirLookup {
        variable: &|name| std::env::var(name).ok(),
        own_settings: &own.filter_map(|path| read_settings(&path)).collect::<Vec<_>>(),
        committed_settings: &read_settings(&project.join(".claude/settings.json"))
            .into_iter()
            .collect::<Vec<_>>(),
        home: home.as_deref(),
        project: &project,
    };
    match locate_memdir(&around) {
        MemdirLocation::At(path) => Ok(path),
        MemdirLocation::Off(switch) => bail!("memory is switched off ({switch})\n  hint: pass a directory with --dir"),
        MemdirLocation::Refused(path, why) => bail!("{path} {why}: not a place for memories"),
        MemdirLocation::NoHome => {
            bail!("there is no home folder to look for memories in\n  hint: pass a directory with --dir")
        }
    }
}

/// Looks for memories: those of the project around the current folder, and of all others.
pub fn find_memories() -> Result<MemoryReport> {
    let here = resolve_dir(&DirArgs::default())?;
    let here_count = Memdir::open(&here)?.map(|memdir| memdir.read()).transpose()?;
    let projects = client_home().map(|home| home.join("projects"));
    let folders = projects
        .and_then(|projects| std::fs::read_dir(projects).ok())
        .into_iter()
        .flatten()
        .flatten();
    let folders = folders
        .map(|folder| folder.path().join("memory"))
        .filter(|folder| folder.is_dir() && *folder != here);
    let mut others = Vec::new();
    for folder in folders {
        if let Ok(Some(memdir)) = Memdir::open(&folder)
            && let Ok((snapshot, _)) = memdir.read()
        {
            others.push((folder, snapshot.topics.len()));
        }
    }
    others.sort();
    Ok(MemoryReport {
        here,
        here_count: here_count.map(|(snapshot, _)| snapshot.topics.len()),
        others,
    })
}

/// The directory, which must be there.
pub fn open_existing(args: &DirArgs) -> Result<Memdir> {
    let path = resolve_dir(args)?;
    Memdir::open(&path)?.with_context(|| {
        format!(
            "no memories in {}\n  hint: `backcast memory extract` writes them from past sessions; `backcast doctor` says where others are; --dir picks another directory",
            path.display()
        )
    })
}

/// The options that name the directory again, each with a space before it, as a shell takes them.
pub fn dir_options(args: &DirArgs) -> String {
    if let Some(dir) = &args.dir {
        let dir = dir.display().to_string();
        // What opens with a hyphen would be an option.
        let sign = if dir.starts_with('-') { "./" } else { "" };
        return format!(" --dir {}", shell_quote(&format!("{sign}{dir}")));
    }
    let Some(agent) = &args.agent_type else {
        return String::new();
    };
    let scope = match args.scope {
        AgentScope::User => "user",
        AgentScope::Project => "project",
        AgentScope::Local => "local",
    };
    format!(" --agent-type {} --scope {scope}", shell_quote(agent))
}

fn read_settings(path: &Path) -> Option<Value> {
    std::fs::read(path)
        .ok()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

/// The root of the repository around a folder; of a worktree, that of the main one, so that all share one memory. Without a
/// repository the folder itself.
pub fn project_root(current: &Path) -> PathBuf {
    let current = current.canonicalize().unwrap_or_else(|_| current.to_path_buf());
    for folder in current.ancestors() {
        let git = folder.join(".git");
        if git.is_dir() {
            return folder.to_path_buf();
        }
        if git.is_file() {
            return main_worktree(folder, &git).unwrap_or_else(|| folder.to_path_buf());
        }
    }
    current
}

/// `.git` of a worktree is a file that names its folder inside the main one's `.git`; that names the common folder.
fn main_worktree(folder: &Path, git: &Path) -> Option<PathBuf> {
    let text = std::fs::read_to_string(git).ok()?;
    let own = folder.join(text.trim().strip_prefix("gitdir:")?.trim());
    let common = own.join(std::fs::read_to_string(own.join("commondir")).ok()?.trim());
    let common = common.canonicalize().ok()?;
    (common.file_name()? == ".git")
        .then(|| common.parent().map(Path::to_path_buf))
        .flatten()
}
