//! `backcast memory prompt`.

use crate::commands::memory::{DirArgs, folder};
use crate::commands::policy::{index_limits, memory_policy};
use crate::commands::{RunStatus, print};
use crate::run::client_home;
use anyhow::{Context, Result};
use clap::Args;
use memory::memdir::Memdir;
use memory::prompt::{FileAccess, InstructionRoots, load_instructions, memory_section};
use std::path::{Path, PathBuf};

/// Bigger files are no instructions.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// Arguments of `memory prompt`.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Which directory.
    #[command(flatten)]
    pub dir: DirArgs,
    /// A file that is being worked on: adds the instruction files in the folders above it. Repeatable.
    #[arg(long, value_name = "PATH")]
    pub touched: Vec<PathBuf>,
    /// Print only the section about the memory.
    #[arg(long)]
    pub memory_only: bool,
}

/// Runs it.
pub fn run(args: &PromptArgs) -> Result<RunStatus> {
    let mut text = String::new();
    if !args.memory_only {
        let current = std::env::current_dir().context("the current folder")?;
        let current = current.canonicalize().unwrap_or(current);
        let (home, client) = (std::env::home_dir(), client_home());
        let absolute = |path: &PathBuf| std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let project = current
            .ancestors()
            .find(|folder| folder.join(".git").exists())
            .unwrap_or(&current);
        let roots = InstructionRoots {
            managed: managed_file(),
            client: client.as_deref(),
            home: home.as_deref(),
            project,
            current: &current,
            touched: &args.touched.iter().map(absolute).collect::<Vec<_>>(),
        };
        for found in load_instructions(
            &roots,
            &FileAccess {
                read: &read_text_file,
                list: &list_markdown_files,
            },
        ) {
            let by = found
                .included_by
                .map(|path| format!(", included by {}", path.display()))
                .unwrap_or_default();
            text.push_str(&format!(
                "# {} ({}{by})\n\n{}\n\n",
                found.path.display(),
                found.origin.name(),
                found.text
            ));
        }
    }
    let path = folder::resolve_dir(&args.dir)?;
    let snapshot = match Memdir::open(&path)? {
        Some(memdir) => memdir.read()?.0,
        None => Default::default(),
    };
    let extra = std::env::var("CLAUDE_COWORK_MEMORY_EXTRA_GUIDELINES").ok();
    let limits = index_limits(&memory_policy(&args.dir.set)?);
    text.push_str(&memory_section(
        &path.display().to_string(),
        snapshot.index.as_deref(),
        extra.as_deref(),
        &limits,
    ));
    if let Some(team) = &snapshot.team_index {
        text.push_str("\n## team/MEMORY.md\n\n");
        text.push_str(&memory::index::loaded_part(team, &limits));
    }
    print(text.as_bytes())
}

/// Where an organisation puts its file.
fn managed_file() -> &'static Path {
    Path::new(match std::env::consts::OS {
        "macos" => "/Library/Application Support/ClaudeCode/CLAUDE.md",
        "windows" => "C:\\ProgramData\\ClaudeCode\\CLAUDE.md",
        _ => "/etc/claude-code/CLAUDE.md",
    })
}

/// The text of a plain file; anything else says nothing.
fn read_text_file(path: &Path) -> Option<String> {
    let found = std::fs::metadata(path).ok()?;
    if !found.is_file() || found.len() > MAX_FILE_BYTES {
        return None;
    }
    std::fs::read_to_string(path).ok().filter(|text| !text.contains('\0'))
}

fn list_markdown_files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let mut paths = entries
        .filter(|path| path.extension().is_some_and(|ending| ending == "md"))
        .collect::<Vec<_>>();
    paths.sort();
    paths
}
