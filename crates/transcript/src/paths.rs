//! File paths: memory files of the client, and normalization.

/// Returns whether a path is a memory: a Markdown file in a folder `memory` (or below an `agent-memory`), or an index.
pub fn is_memory(path: &str) -> bool {
    let parts = path.split(['/', '\\']).collect::<Vec<_>>();
    let Some((name, folders)) = parts.split_last() else {
        return false;
    };
    if folders.contains(&"..") || !name.ends_with(".md") {
        return false;
    }
    let is_agent = folders
        .iter()
        .any(|folder| matches!(*folder, "agent-memory" | "agent-memory-local"));
    // A project may have a folder `memory` of its own; the client's is below `.claude`.
    let client = folders.iter().position(|folder| *folder == ".claude");
    let memory = folders.iter().rposition(|folder| *folder == "memory");
    let is_in_memory = matches!((client, memory), (Some(client), Some(memory)) if client < memory);
    is_agent || is_in_memory || *name == "MEMORY.md"
}

/// Names of files that tell an agent how to work.
const INSTRUCTION_NAMES: [&str; 5] = [
    "CLAUDE.md",
    "CLAUDE.local.md",
    "AGENTS.md",
    "GEMINI.md",
    "copilot-instructions.md",
];

/// Returns whether a path is an instruction file: one of the known names, or a rule in `.claude/rules`.
pub fn is_instruction(path: &str) -> bool {
    let mut parts = path.rsplit(['/', '\\']);
    let name = parts.next().unwrap_or_default();
    let folders = parts.collect::<Vec<_>>();
    let is_rule = name.ends_with(".md") && folders.windows(2).any(|pair| pair == ["rules", ".claude"]);
    is_rule || INSTRUCTION_NAMES.iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// Resolves a path against a directory and removes `.` and `..`. Returns `None` if the path is normalized already.
pub(crate) fn normalize(path: &str, cwd: &str) -> Option<String> {
    let is_absolute = path.starts_with('/') || path.get(1..3).is_some_and(|drive| drive == ":\\" || drive == ":/");
    let is_plain = !std::iter::zip(path.bytes(), path.bytes().skip(1)).any(|pair| matches!(pair, (b'/', b'.' | b'/')));
    if is_absolute && is_plain {
        return None;
    }
    let joined = if is_absolute || cwd.is_empty() {
        path.to_owned()
    } else {
        format!("{cwd}/{path}")
    };
    let mut parts = Vec::new();
    for part in joined.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let root = if joined.starts_with('/') { "/" } else { "" };
    Some(format!("{root}{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_memory_paths() {
        for path in [
            "/home/me/.claude/projects/-home-me-work/memory/style.md",
            "MEMORY.md",
            "/w/.claude/agent-memory/reviewer/x.md",
            "C:\\Users\\me\\.claude\\projects\\p\\memory\\a.md",
        ] {
            assert!(is_memory(path), "{path}");
        }
        for path in [
            "src/memory/mod.rs",
            "docs/memory/notes.md",
            "/h/.claude/memory/../../etc/x.md",
            "/h/.claude/memory/a.txt",
            "",
        ] {
            assert!(!is_memory(path), "{path}");
        }
    }

    #[test]
    fn recognizes_instruction_files() {
        for path in [
            "CLAUDE.md",
            "/w/app/claude.md",
            "D:\\w\\AGENTS.md",
            "/w/.claude/rules/go/style.md",
        ] {
            assert!(is_instruction(path), "{path}");
        }
        for path in ["/w/README.md", "/w/rules/style.md", "/w/.claude/rules/x.txt", ""] {
            assert!(!is_instruction(path), "{path}");
        }
    }

    #[test]
    fn paths_become_absolute() {
        assert_eq!(normalize("/a/b.rs", "/w"), None);
        assert_eq!(normalize("b.rs", "/w/x"), Some("/w/x/b.rs".into()));
        assert_eq!(normalize("../b.rs", "/w/x"), Some("/w/b.rs".into()));
        assert_eq!(normalize("/a/./c/../b.rs", ""), Some("/a/b.rs".into()));
        assert_eq!(normalize("C:\\a.rs", "/w"), None);
    }
}
