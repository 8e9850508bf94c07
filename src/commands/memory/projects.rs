//! Sessions by project, and where the memories of each go.

use crate::commands::memory::{DirArgs, folder};
use crate::commands::policy::joined_projects;
use crate::commands::terminal::notice;
use crate::run::client_home;
use anyhow::{Context, Result, bail};
use clap::Args;
use memory::names::{project_slug, safe_part, shown_name};
use memory::projects::{ProjectRoots, short_names};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use transcript::messages::Message;

/// Which projects a command works on, and where their memories go.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// One directory for each project, below this folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dir", "agent_type"])]
    pub out: Option<PathBuf>,
    /// Write each project's memories into the directory that the client uses for it.
    #[arg(long, conflicts_with_all = ["dir", "agent_type", "out", "project"])]
    pub all_projects: bool,
}

/// The sessions of a project.
pub struct ProjectMessages {
    /// Root folder; empty if the logs do not tell.
    pub root: String,
    /// The last part of the root, or more where two are alike.
    pub name: String,
    pub messages: Vec<Message>,
}

/// Splits messages by project and keeps those that are asked for: all, those that are named, or, without paths, those of the
/// repository around the current folder.
pub fn split_by_project(
    messages: Vec<Message>,
    named: &[String],
    args: &ProjectArgs,
    has_paths: bool,
) -> Result<(Vec<ProjectMessages>, ProjectRoots)> {
    let root_here = |folder: &str| {
        let path = Path::new(folder);
        path.is_dir().then(|| folder::project_root(path).display().to_string())
    };
    let roots = ProjectRoots::find(&messages, &root_here, &joined_projects()?);
    let mut by_root = BTreeMap::<String, Vec<Message>>::new();
    for message in messages {
        by_root.entry(roots.root_of(&message)).or_default().push(message);
    }
    let names = short_names(by_root.keys().map(String::as_str))
        .into_iter()
        .map(|(root, name)| (root.to_owned(), name))
        .collect::<BTreeMap<String, String>>();
    let here = current_project()?;
    let is_wanted = |root: &str| {
        if !named.is_empty() {
            return named.iter().any(|part| root.contains(part.as_str()));
        }
        has_paths || args.all_projects || args.out.is_some() || root == here
    };
    let found = by_root
        .into_iter()
        .filter(|(root, _)| is_wanted(root))
        .map(|(root, messages)| ProjectMessages {
            name: shown_name(&names[&root]),
            root,
            messages,
        })
        .collect::<Vec<_>>();
    if found.is_empty() && !named.is_empty() {
        bail!(
            "no session of a project {} in these logs\n  hint: `backcast stats --by project` lists the projects",
            named.join(", ")
        );
    }
    if found.is_empty() && !names.is_empty() {
        notice!("no sessions of {here} in these logs; --project picks another project, --all-projects reads all");
    }
    Ok((found, roots))
}

fn list_projects(names: &BTreeMap<String, String>) -> String {
    names
        .iter()
        .map(|(root, name)| format!("  {name:<24} {}\n", or_unknown(root)))
        .collect()
}

fn or_unknown(root: &str) -> &str {
    if root.is_empty() {
        "(the logs name no folder)"
    } else {
        root
    }
}

/// Returns the root of the repository around the current folder.
fn current_project() -> Result<String> {
    Ok(folder::project_root(&std::env::current_dir()?).display().to_string())
}

/// Returns the directory of each project, in their order. Refuses to put two projects into one directory.
pub fn target_dirs(
    projects: &[ProjectMessages],
    named: &[String],
    args: &ProjectArgs,
    dir: &DirArgs,
) -> Result<Vec<PathBuf>> {
    if let Some(out) = &args.out {
        let out = std::path::absolute(out)?;
        return Ok(projects
            .iter()
            .map(|project| out.join(safe_part(&project.name)))
            .collect());
    }
    if args.all_projects {
        let dirs = usual_dirs(projects).into_iter().collect::<Option<Vec<_>>>();
        return dirs.context("there is no home folder to keep memories in\n  hint: pass a folder with --out");
    }
    // Sessions that name no folder belong to the one project there is.
    let roots = projects
        .iter()
        .map(|project| project.root.as_str())
        .filter(|root| !root.is_empty());
    let roots = roots.collect::<BTreeSet<_>>();
    // Checkouts of one name that were asked for by that name are one project.
    let last_parts = roots.iter().map(|root| root.rsplit(['/', '\\']).next());
    let is_one = !named.is_empty() && last_parts.collect::<BTreeSet<_>>().len() == 1;
    if roots.len() > 1 && !is_one {
        let names = projects
            .iter()
            .map(|project| (project.root.clone(), project.name.clone()))
            .collect();
        bail!(
            "these sessions belong to {} projects, and a memory directory belongs to one:\n{}  hint: --project picks one, --out DIR makes a directory for each",
            roots.len(),
            list_projects(&names)
        );
    }
    let target = folder::resolve_dir(dir)?;
    let is_default = dir.dir.is_none()
        && dir.agent_type.is_none()
        && std::env::var_os("CLAUDE_COWORK_MEMORY_PATH_OVERRIDE").is_none();
    if is_default
        && let Some(root) = roots.first()
        && *root != current_project()?
    {
        bail!(
            "these sessions belong to {root}, not to the project in this folder\n  hint: say where its memories go with --dir or --out"
        );
    }
    Ok(projects.iter().map(|_| target.clone()).collect())
}

/// Returns the directory that the client uses for each project; `None` without a home folder.
pub fn usual_dirs(projects: &[ProjectMessages]) -> Vec<Option<PathBuf>> {
    let home = client_home().map(|home| home.join("projects"));
    let place = |project: &ProjectMessages| Some(home.as_ref()?.join(project_slug(&project.root)).join("memory"));
    projects.iter().map(place).collect()
}

/// Returns what the instruction files in a checkout say; empty if it is not on this machine.
pub fn read_instructions(root: &str) -> String {
    const FILES: [&str; 6] = [
        "CLAUDE.md",
        ".claude/CLAUDE.md",
        "CLAUDE.local.md",
        "AGENTS.md",
        "GEMINI.md",
        ".github/copilot-instructions.md",
    ];
    if root.is_empty() {
        return String::new();
    }
    let read = |name: &&str| std::fs::read_to_string(Path::new(root).join(name)).ok();
    FILES.iter().filter_map(read).collect::<Vec<_>>().join("\n")
}
