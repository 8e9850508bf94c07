//! Tools by role: what a tool does, whatever an agent calls it.
//!
//! The name that Claude Code has for a tool stands for its role. Code that depends on what a tool does asks for the role,
//! never for the name in a log.

/// Returns the role of a tool; for an unknown one its own name. A shell command that names a file only shows it, so it has
/// the role of a read.
pub fn tool_role(name: &str, names_file: bool) -> &str {
    match name {
        "read" | "read_file" | "view" => "Read",
        "edit" | "replace" => "Edit",
        "apply_patch" | "multiedit" | "patch" => "MultiEdit",
        "write" | "write_file" => "Write",
        "bash" | "shell" | "local_shell" | "container.exec" | "exec" | "exec_command" | "unified_exec"
            if names_file =>
        {
            "Read"
        }
        "bash" | "shell" | "local_shell" | "container.exec" | "exec" | "exec_command" | "unified_exec" => "Bash",
        "write_stdin" => "BashOutput",
        "grep" | "search" => "Grep",
        "glob" | "find" | "list" | "ls" => "Glob",
        "webfetch" | "web_fetch" => "WebFetch",
        "websearch" | "web_search" => "WebSearch",
        "task" | "spawn_agent" => "Task",
        "todowrite" => "TodoWrite",
        "question" => "AskUserQuestion",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_of_all_agents_have_roles() {
        for (name, role) in [
            ("exec_command", "Bash"),
            ("bash", "Bash"),
            ("Bash", "Bash"),
            ("apply_patch", "MultiEdit"),
            ("edit", "Edit"),
            ("mcp__x__y", "mcp__x__y"),
        ] {
            assert_eq!(tool_role(name, false), role);
        }
        assert_eq!(tool_role("exec_command", true), "Read");
        assert_eq!(
            tool_role("Bash", true),
            "Bash",
            "no command of Claude Code names a file"
        );
    }
}
