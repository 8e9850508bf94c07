//! The part of a system prompt that explains the memory and shows the index, and the instruction files in their order. Pure:
//! files are read through a function.

use crate::frontmatter::frontmatter_end;
use crate::index;
use crate::index::IndexLimits;
use language::shorten;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// Most characters of one instruction file.
pub const MAX_INSTRUCTION_CHARS: usize = 40_000;

/// Deepest nesting of includes.
const MAX_INCLUDE_DEPTH: usize = 5;

/// Extensions of text files. A file without an extension counts as text.
const TEXT_EXTENSIONS: [&str; 24] = [
    "md", "markdown", "txt", "text", "rst", "adoc", "json", "yaml", "yml", "toml", "ini", "cfg", "conf", "xml", "csv",
    "rs", "py", "js", "ts", "go", "java", "sh", "sql", "mdc",
];

/// Returns the section of the prompt about the memory.
pub fn memory_section(folder: &str, index: Option<&str>, extra: Option<&str>, limits: &IndexLimits) -> String {
    let mut text = format!(
        "# Memory\n\n\
         You have a memory that outlives this conversation: the folder `{folder}`. It holds one file for each memory, and \
         `MEMORY.md`, the list of them, which is shown below.\n\n\
         Four types are kept, and nothing else:\n\
         - `user`: who the user is, what they know, what they want to achieve.\n\
         - `feedback`: how they want the work done, whether they corrected you or agreed with you. The rule first, then a line \
         **Why:** and a line **How to apply:**.\n\
         - `project`: what is going on and why, where the code cannot tell. Dates in full, never \"next week\".\n\
         - `reference`: where to look in systems outside the repository.\n\n\
         Leave out what the code, its history or the instruction files say already, recipes for fixes, the state of the task at \
         hand, and every kind of secret, also when asked to keep it.\n\n\
         To keep something: write a file with the fields `name`, `description` and `type` between two lines `---`, then the \
         memory. The description decides whether it is found again: make it about the situation in which it matters. Add a line \
         `- [Name](file.md) — description` to `MEMORY.md`. First look whether a memory of it exists, and change that one. If \
         the user asks you to remember or to forget something, do it at once.\n\n\
         A memory was true when it was written. Before you act on one that names a file, a flag or a date, look whether it \
         still holds; if it does not, trust what you see and correct the memory. If the user asks you to leave the memory out, \
         do as if it were empty.\n"
    );
    if let Some(extra) = extra.map(str::trim).filter(|extra| !extra.is_empty()) {
        text.push_str(&format!("\n{extra}\n"));
    }
    text.push_str("\n## MEMORY.md\n\n");
    match index.map(str::trim).filter(|index| !index.is_empty()) {
        Some(index) => text.push_str(&index::loaded_part(&format!("{index}\n"), limits)),
        None => text.push_str("(empty: nothing was kept yet)\n"),
    }
    text
}

/// The origin of an instruction file. Later ones take precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum InstructionOrigin {
    /// The organization.
    Managed,
    /// The user, in all projects.
    User,
    /// The project, committed.
    Project,
    /// The user, in this project.
    Local,
    /// A folder below the project that has a touched file.
    Nested,
}

impl InstructionOrigin {
    pub fn name(self) -> &'static str {
        match self {
            InstructionOrigin::Managed => "managed",
            InstructionOrigin::User => "user",
            InstructionOrigin::Project => "project",
            InstructionOrigin::Local => "local",
            InstructionOrigin::Nested => "nested",
        }
    }
}

/// An instruction file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstructionFile {
    pub path: PathBuf,
    pub origin: InstructionOrigin,
    /// The file that includes it.
    pub included_by: Option<PathBuf>,
    /// Its text, up to [`MAX_INSTRUCTION_CHARS`].
    pub text: String,
}

/// Access to files.
pub struct FileAccess<'a> {
    /// Returns the text of a file; `None` if it does not exist or is not text.
    pub read: &'a dyn Fn(&Path) -> Option<String>,
    /// Returns the Markdown files of a folder, sorted.
    pub list: &'a dyn Fn(&Path) -> Vec<PathBuf>,
}

/// Where to look for instruction files.
pub struct InstructionRoots<'a> {
    /// The file of the organization.
    pub managed: &'a Path,
    /// The client's home folder.
    pub client: Option<&'a Path>,
    /// The user's home folder, for `~`.
    pub home: Option<&'a Path>,
    /// The root of the repository.
    pub project: &'a Path,
    /// The current folder.
    pub current: &'a Path,
    /// Files that the session works on.
    pub touched: &'a [PathBuf],
}

/// Returns all instruction files, each once, in ascending precedence. Includes come before the file that includes them.
pub fn load_instructions(roots: &InstructionRoots, files: &FileAccess) -> Vec<InstructionFile> {
    let mut collector = InstructionCollector {
        files,
        home: roots.home,
        seen: BTreeSet::new(),
        found: Vec::new(),
    };
    collector.add(InstructionOrigin::Managed, roots.managed, None, 0);
    if let Some(client) = roots.client {
        collector.add(InstructionOrigin::User, &client.join("CLAUDE.md"), None, 0);
        collector.add_all(InstructionOrigin::User, &client.join("rules"));
    }
    let folders = folders_between(roots.project, roots.current);
    for folder in &folders {
        collector.add_folder(InstructionOrigin::Project, folder);
    }
    for folder in &folders {
        collector.add(InstructionOrigin::Local, &folder.join("CLAUDE.local.md"), None, 0);
    }
    for touched in roots.touched {
        let folder = touched.parent().unwrap_or(touched);
        for folder in folders_between(roots.current, folder).into_iter().skip(1) {
            collector.add_folder(InstructionOrigin::Nested, &folder);
        }
    }
    collector.found
}

/// Returns the folders from `top` down to `bottom`, both included; only `bottom` if it is not below `top`.
fn folders_between(top: &Path, bottom: &Path) -> Vec<PathBuf> {
    let Ok(rest) = bottom.strip_prefix(top) else {
        return vec![bottom.to_path_buf()];
    };
    let mut folders = vec![top.to_path_buf()];
    for part in rest.components() {
        let next = folders.last().map_or_else(|| top.join(part), |last| last.join(part));
        folders.push(next);
    }
    folders
}

struct InstructionCollector<'a> {
    files: &'a FileAccess<'a>,
    home: Option<&'a Path>,
    seen: BTreeSet<PathBuf>,
    found: Vec<InstructionFile>,
}

impl InstructionCollector<'_> {
    fn add_folder(&mut self, origin: InstructionOrigin, folder: &Path) {
        self.add(origin, &folder.join("CLAUDE.md"), None, 0);
        self.add(origin, &folder.join(".claude/CLAUDE.md"), None, 0);
        self.add_all(origin, &folder.join(".claude/rules"));
    }

    fn add_all(&mut self, origin: InstructionOrigin, folder: &Path) {
        for path in (self.files.list)(folder) {
            self.add(origin, &path, None, 0);
        }
    }

    fn add(&mut self, origin: InstructionOrigin, path: &Path, included_by: Option<&Path>, depth: usize) {
        let path = normalize_path(path);
        // A file is read once, which also ends cycles.
        if depth > MAX_INCLUDE_DEPTH || !is_text(&path) || !self.seen.insert(path.clone()) {
            return;
        }
        let Some(text) = (self.files.read)(&path) else { return };
        let text = &text[frontmatter_end(&text).unwrap_or(0)..];
        for named in parse_includes(text) {
            if let Some(include) = self.resolve(&named, &path) {
                self.add(origin, &include, Some(&path), depth + 1);
            }
        }
        let text = truncate_text(text.trim(), &path);
        self.found.push(InstructionFile {
            path,
            origin,
            included_by: included_by.map(Path::to_path_buf),
            text,
        });
    }

    fn resolve(&self, named: &str, from: &Path) -> Option<PathBuf> {
        match named.strip_prefix("~/") {
            Some(rest) => self.home.map(|home| home.join(rest)),
            None => from.parent().map(|folder| folder.join(named)),
        }
    }
}

/// Removes `.` and `..` from a path.
fn normalize_path(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(out.pop()),
            other => out.push(other),
        }
    }
    out
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_none_or(|extension| TEXT_EXTENSIONS.contains(&extension.to_ascii_lowercase().as_str()))
}

/// Returns the paths after `@` at the start of a word, outside of code.
fn parse_includes(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut is_fenced = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") || line.trim_start().starts_with("~~~") {
            is_fenced = !is_fenced;
            continue;
        }
        if is_fenced {
            continue;
        }
        // Every second piece is between backticks: code.
        for piece in line.split('`').step_by(2) {
            for word in piece.split_whitespace() {
                let Some(path) = word.strip_prefix('@') else { continue };
                let path = path.trim_end_matches(['.', ',', ';', ':', ')', '!', '?']);
                let is_path = path.contains(['/', '.']) && !path.contains(['@', '\0']);
                if is_path {
                    found.push(path.to_owned());
                }
            }
        }
    }
    found
}

fn truncate_text(text: &str, path: &Path) -> String {
    let note = |_| format!("\n[cut after {MAX_INSTRUCTION_CHARS} characters: {}]", path.display());
    shorten::cut_with_note(text, MAX_INSTRUCTION_CHARS, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn found(files: &[(&str, &str)], touched: &[&str]) -> Vec<(String, InstructionOrigin)> {
        let files = files
            .iter()
            .map(|(path, text)| (PathBuf::from(path), (*text).to_owned()))
            .collect::<BTreeMap<_, _>>();
        let read = |path: &Path| files.get(path).cloned();
        let list = |folder: &Path| {
            files
                .keys()
                .filter(|path| path.parent() == Some(folder))
                .cloned()
                .collect()
        };
        let touched = touched.iter().map(PathBuf::from).collect::<Vec<_>>();
        let roots = InstructionRoots {
            managed: Path::new("/etc/claude-code/CLAUDE.md"),
            client: Some(Path::new("/home/me/.claude")),
            home: Some(Path::new("/home/me")),
            project: Path::new("/home/me/app"),
            current: Path::new("/home/me/app"),
            touched: &touched,
        };
        let instructions = load_instructions(
            &roots,
            &FileAccess {
                read: &read,
                list: &list,
            },
        );
        instructions
            .into_iter()
            .map(|found| (found.path.display().to_string(), found.origin))
            .collect()
    }

    #[test]
    fn files_come_in_their_order_and_includes_before_them() {
        let files = [
            ("/home/me/app/CLAUDE.local.md", "mine"),
            ("/home/me/app/CLAUDE.md", "see @docs/style.md and `@not/this.md`"),
            (
                "/home/me/app/docs/style.md",
                "back to @../CLAUDE.md, @~/own.md @/abs/x.txt @image.png",
            ),
            ("/home/me/app/docs/image.png", "no"),
            ("/home/me/own.md", "o"),
            ("/abs/x.txt", "x"),
            ("/home/me/app/.claude/rules/a.md", "rule"),
            ("/home/me/.claude/CLAUDE.md", "user"),
            ("/etc/claude-code/CLAUDE.md", "managed"),
        ];
        let names = found(&files, &[]).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
        assert_eq!(
            names,
            [
                "/etc/claude-code/CLAUDE.md",
                "/home/me/.claude/CLAUDE.md",
                "/home/me/own.md",
                "/abs/x.txt",
                "/home/me/app/docs/style.md",
                "/home/me/app/CLAUDE.md",
                "/home/me/app/.claude/rules/a.md",
                "/home/me/app/CLAUDE.local.md",
            ]
        );
    }

    #[test]
    fn a_touched_path_brings_what_lies_above_it_once() {
        let files = [
            ("/home/me/app/a/CLAUDE.md", "a"),
            ("/home/me/app/a/b/CLAUDE.md", "b"),
            ("/home/me/app/c/CLAUDE.md", "c"),
        ];
        let names = found(&files, &["/home/me/app/a/b/x.rs", "/home/me/app/a/y.rs"]);
        assert_eq!(
            names,
            [
                ("/home/me/app/a/CLAUDE.md".to_owned(), InstructionOrigin::Nested),
                ("/home/me/app/a/b/CLAUDE.md".to_owned(), InstructionOrigin::Nested)
            ]
        );
    }

    #[test]
    fn the_section_has_the_index_within_its_limits() {
        let text = memory_section(
            "/m",
            Some(&"- [a](a.md) — b\n".repeat(300)),
            Some("Be kind."),
            &IndexLimits::default(),
        );
        assert!(text.contains("Be kind.") && text.contains("> **Cut:**"));
        assert!(memory_section("/m", None, None, &IndexLimits::default()).contains("(empty"));
        assert!(truncate_text(&"é".repeat(MAX_INSTRUCTION_CHARS + 1), Path::new("x")).contains("[cut after"));
    }
}
