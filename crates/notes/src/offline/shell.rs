//! Shell commands and what tools print: which command it is, whether it failed, and which lines say so.

use crate::offline::build_matcher;
use crate::offline::state::intent::CommandIntent;
use crate::offline::state::parts::join_lines;
use aho_corasick::AhoCorasick;
use language::clean::strip_control_codes;
use language::client_text;
use language::shorten::to_one_line;
use std::borrow::Cow;
use std::sync::LazyLock;

/// Returns the normal form of a command: without the folder it runs in and without the filters of its output, so that runs
/// of the same command are equal.
pub fn normalize_command(text: &str) -> String {
    let text = strip_control_codes(text);
    let text = join_lines(&text);
    let mut text = text.trim();
    while let Some(rest) = text.strip_prefix("cd ") {
        let Some(end) = rest.find(['&', ';', '\n']) else { break };
        let rest = rest[end..].trim_start_matches(['&', ';', '\n', ' ']);
        if rest.is_empty() {
            break;
        }
        text = rest;
    }
    // The content of a here-document is not part of the command.
    let here = text.find("<<").map_or(text, |at| text[..at].trim_end());
    let here = if here.len() < 4 { text } else { here };
    let is_cut = here.len() < text.len();
    let first = here.lines().take(3).collect::<Vec<_>>().join("; ");
    let mut command = first.trim().trim_end_matches(';').to_owned();
    for suffix in [
        " | tail",
        "|tail",
        " | head",
        "|head",
        " 2>&1",
        " 2>/dev/null",
        " || true",
        "; echo",
    ] {
        while let Some(at) = command.find(suffix).filter(|at| *at > 3) {
            let is_redirect = suffix.starts_with(" 2>");
            // What another command does after the filter stays.
            let next = ["; ", " && "]
                .iter()
                .filter_map(|sign| command[at + 1..].find(sign))
                .min();
            match (is_redirect && command.len() > at + suffix.len(), next) {
                (true, _) => command = command.replacen(suffix, "", 1),
                (false, Some(next)) => command.replace_range(at..at + 1 + next, ""),
                (false, None) => command.truncate(at),
            }
        }
    }
    let is_cut = is_cut || here.lines().count() > 3;
    let line = to_one_line(&command, 200);
    if is_cut && !line.ends_with('…') {
        format!("{line} …")
    } else {
        line
    }
}

/// Returns whether an output looks like a failure, for commands whose exit status a pipe hides.
pub fn has_failure_marks(text: &str) -> bool {
    const STARTS: [&str; 14] = [
        "FAIL",
        "--- FAIL",
        "error:",
        "error[",
        "Error:",
        "ERROR:",
        "fatal:",
        "panic:",
        "Traceback (most recent",
        "FAILED",
        "npm ERR!",
        "SyntaxError",
        "TypeError",
        "make: ***",
    ];
    text.lines().rev().take(60).any(|line| {
        let line = line.trim_start();
        let may_be = line.starts_with(['F', '-', 'e', 'E', 'f', 'p', 'T', 'n', 'S', 'm']);
        may_be && STARTS.iter().any(|start| line.starts_with(start)) || line.starts_with("test result: FAILED")
    })
}

/// Returns whether a command only prints what is written elsewhere: files, commits, pages. Errors in that are not its own.
pub fn prints_content(command: &str) -> bool {
    let is_reader = |intent: &CommandIntent| {
        let words = intent.program().iter().map(String::as_str).collect::<Vec<_>>();
        match words.as_slice() {
            ["git", verb] => matches!(*verb, "show" | "log" | "diff" | "blame" | "grep"),
            ["gh", verb] => matches!(*verb, "api" | "pr" | "issue" | "run" | "search"),
            [program, ..] => matches!(
                *program,
                "curl" | "wget" | "jq" | "grep" | "rg" | "find" | "sed" | "awk" | "zstdcat"
            ),
            [] => true,
        }
    };
    CommandIntent::parse_all(command).iter().all(is_reader)
}

/// Returns whether an error says that something is not where it was looked for.
pub fn says_not_found(error: &str) -> bool {
    const CUES: [&str; 6] = [
        "no such file or directory",
        "cannot find module",
        "cannot find the path",
        "could not be found",
        "not a git repository",
        "does not exist",
    ];
    let low = error.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Returns whether the last verdict in an output is that of tests that passed.
pub fn ends_with_pass(text: &str) -> bool {
    let is_fail = |line: &str| has_failure_marks(line) || line.starts_with("FAILED");
    let is_pass = |line: &str| {
        ["ok ", "ok\t", "PASS", "test result: ok"]
            .iter()
            .any(|start| line.starts_with(start))
            || line == "ok"
    };
    let mut lines = text.lines().rev().map(str::trim);
    lines.find(|line| is_fail(line) || is_pass(line)).is_some_and(is_pass)
}

/// Returns whether a command rewrites files to what a check wants: a formatter, or a linter that fixes.
pub fn is_fixer(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.any(|word| {
        let bare = word.trim_start_matches('-');
        matches!(
            bare,
            "fmt" | "format" | "fix" | "write" | "gofmt" | "prettier" | "black" | "rustfmt"
        ) || bare.ends_with(":fix")
            || bare.ends_with(":format")
    })
}

/// Returns whether a command runs code that is written into it and thrown away.
pub fn is_throwaway(command: &str) -> bool {
    let mut words = command.split_whitespace();
    let program = words.next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
    let next = words.next().unwrap_or_default();
    let interprets = [
        "python",
        "node",
        "ruby",
        "perl",
        "deno",
        "bun",
        "osascript",
        "bash",
        "sh",
    ];
    interprets.iter().any(|known| program.starts_with(known)) && matches!(next, "-" | "-c" | "-e" | "-…" | "<<")
        || matches!(program, "sed" | "awk")
}

/// Returns whether an output counts no failures: tests of errors print errors and pass.
pub fn counts_no_failure(text: &str) -> bool {
    let mut is_clean = false;
    for line in text.lines().rev().take(60) {
        let words = line
            .split(|sign: char| !sign.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let words = words.collect::<Vec<_>>();
        for pair in words.windows(2) {
            let Ok(count) = pair[0].parse::<u32>() else { continue };
            if pair[1].to_ascii_lowercase().starts_with("fail") {
                if count > 0 {
                    return false;
                }
                is_clean = true;
            }
        }
    }
    is_clean
}

/// Returns whether an output ends with the tally of tests of which some failed: `3 failed, 9 passed`.
pub fn counts_failed_tests(text: &str) -> bool {
    text.lines().rev().take(10).any(|line| {
        let words = line
            .split(|sign: char| !sign.is_ascii_alphanumeric())
            .filter(|word| !word.is_empty());
        let words = words.collect::<Vec<_>>();
        let counts = |starts: &[&str]| {
            words.windows(2).any(|pair| {
                let what = pair[1].to_ascii_lowercase();
                pair[0].parse::<u32>().is_ok_and(|count| count > 0)
                    && starts.iter().any(|start| what.starts_with(start))
            })
        };
        counts(&["pass"]) && counts(&["fail", "error"])
    })
}

/// Returns whether an error says that the command was wrong: nothing was tried, so nothing is broken.
pub fn is_usage_error(error: &str) -> bool {
    const CUES: [&str; 17] = [
        "unrecognized subcommand",
        "unknown command",
        "unknown option",
        "unknown flag",
        "unrecognized option",
        "unrecognized argument",
        "unexpected argument",
        "flag provided but not defined",
        "command not found",
        "is not recognized as",
        "file or directory not found",
        "can't open file",
        "no matches found",
        "usage: ",
        "no tests ran",
        "missing script",
        "while resolving a config",
    ];
    let low = error.to_lowercase();
    CUES.iter().any(|cue| low.contains(cue))
}

/// Words of errors, and words of results that count something.
const OUTPUT_CUES: [&[&str]; 2] = [
    &[
        "error",
        "panic",
        "fail",
        "exception",
        "fatal",
        "undefined",
        "not found",
        "cannot",
        "expected",
        "denied",
        "traceback",
        "assert",
    ],
    &["passed", " ok", "warning", "0 issues", "passing"],
];

static OUTPUT_CUE_FINDER: LazyLock<Option<AhoCorasick>> =
    LazyLock::new(|| build_matcher(OUTPUT_CUES.into_iter().flatten().copied()));

/// Returns how many error words a line has, and whether it counts results.
fn score_output_line(line: &str) -> (u32, bool) {
    let Some(finder) = OUTPUT_CUE_FINDER.as_ref() else {
        return (0, false);
    };
    let (mut seen, mut tally) = (0_u32, false);
    for found in finder.find_overlapping_iter(line) {
        match found.pattern().as_usize() {
            word if word < OUTPUT_CUES[0].len() => seen |= 1 << word,
            _ => tally = true,
        }
    }
    (
        seen.count_ones(),
        tally && line.bytes().any(|byte| byte.is_ascii_digit()),
    )
}

/// Returns the lines of an output that say what went wrong: at most three, in their order.
pub fn key_error_lines(text: &str) -> String {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.len() > 3 && !line.starts_with("Exit code"));
    let lines = lines.collect::<Vec<_>>();
    let scores = lines
        .iter()
        .map(|line| match score_output_line(line).0.min(3) {
            0 => 0,
            // A compiler or linter names the place: what else has error words may be what tests print.
            score => score + if names_place(line) { 2 } else { 0 },
        })
        .collect::<Vec<_>>();
    let mut best = (0..lines.len()).collect::<Vec<_>>();
    best.sort_by_key(|at| (std::cmp::Reverse(scores[*at]), *at));
    best.retain(|at| scores[*at] > 0 && !lines[..*at].contains(&lines[*at]));
    best.truncate(3);
    if best.is_empty() {
        // No line has an error word: the error is mostly at the end.
        best = (lines.len().saturating_sub(2)..lines.len()).collect();
    }
    best.sort_unstable();
    let chosen = best
        .into_iter()
        .map(|at| to_one_line(lines[at], 200))
        .collect::<Vec<_>>();
    chosen.join(" / ")
}

/// Returns whether a line is a warning, and not a count of them.
fn is_warning(line: &str) -> bool {
    line.to_lowercase().starts_with("warn") || line.contains("WARNING:")
}

/// Returns whether a line is the error of a compiler at a place in a file: `a.c:12: error`, `a.ts(12,3): error`.
fn names_place(line: &str) -> bool {
    let path = line.split([':', '(']).next().unwrap_or_default();
    let rest = line[path.len()..].strip_prefix([':', '(']).unwrap_or_default();
    let is_path = path.contains('.') && !path.contains(char::is_whitespace);
    // The line of a traceback names the exception, not an error of a compiler.
    let mut words = rest.split(|sign: char| !sign.is_alphanumeric());
    let is_error = words.any(|word| word.eq_ignore_ascii_case("error"));
    is_path && is_error && rest.starts_with(|sign: char| sign.is_ascii_digit())
}

/// Returns the line of an output that says how the command ended; empty if there is none.
pub fn key_output_line(text: &str, failed: bool) -> String {
    let lines = text
        .lines()
        .map(str::trim)
        .filter(|line| line.len() > 3 && !line.starts_with("Exit code"));
    let found = lines.rev().take(40).find(|line| match failed {
        true => score_output_line(line).0 > 0,
        // A warning with a number in it is no count of warnings.
        false => score_output_line(line).1 && !is_warning(line),
    });
    found.map(|line| to_one_line(line, 160)).unwrap_or_default()
}

/// Returns whether a command checks, builds or publishes something.
pub fn is_check_command(command: &str) -> bool {
    const WORDS: [&str; 36] = [
        "test", "build", "lint", "check", "clippy", "fmt", "format", "vet", "tsc", "eslint", "pytest", "jest",
        "vitest", "cargo", "make", "mise", "npm", "pnpm", "yarn", "bun", "gradle", "mvn", "docker", "deploy", "commit",
        "push", "pr", "migrate", "install", "run", "uv", "ruff", "mypy", "tox", "bench", "flutter",
    ];
    let words = command.split_whitespace().filter(|word| !word.contains('='));
    let words = words
        .take(3)
        .flat_map(|word| word.split(|sign: char| !sign.is_ascii_alphanumeric()));
    words.into_iter().any(|word| WORDS.contains(&word)) && !is_read_only_command(command)
}

/// Returns whether a command only reads.
pub fn is_read_only_command(command: &str) -> bool {
    const NAMES: [&str; 16] = [
        "ls", "cat", "head", "tail", "grep", "rg", "find", "sed", "echo", "wc", "pwd", "which", "cd", "for", "awk",
        "jq",
    ];
    NAMES.contains(&command.split_whitespace().next().unwrap_or_default())
}

/// Returns the output of a tool without elements of the client and terminal codes.
pub fn tool_output(text: &str) -> Cow<'_, str> {
    let without = client_text::strip_result_context(text);
    let unwrapped = match without.contains("tool_use_error>") {
        true => Cow::Owned(without.replace("<tool_use_error>", "").replace("</tool_use_error>", "")),
        false => without,
    };
    match strip_control_codes(&unwrapped) {
        Cow::Borrowed(same) if same.len() == unwrapped.len() => unwrapped,
        other => Cow::Owned(other.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_commands_have_one_normal_form() {
        assert_eq!(normalize_command("cd /w && cargo test 2>&1 | tail -20"), "cargo test");
        assert_eq!(normalize_command("cd /w\ncargo test|head -5"), "cargo test");
        assert_eq!(normalize_command("python3 - <<'E'\nprint(1)\nE"), "python3 - …");
        assert_eq!(normalize_command("cargo build"), "cargo build");
        assert_eq!(
            normalize_command("cargo fmt | tail -3\ncargo test 2>&1 | tail -5"),
            "cargo fmt; cargo test"
        );
    }

    #[test]
    fn the_last_verdict_counts_and_throwaway_code_is_recognized() {
        assert!(ends_with_pass(
            "--- FAIL: TestGuard (0.1s)\nFAIL\n=== restored ===\nok  \tshop/cart\t0.2s"
        ));
        assert!(!ends_with_pass("ok  \tshop/a\t0.2s\n--- FAIL: TestB (0.1s)\nFAIL") && !ends_with_pass("done"));
        assert!(is_throwaway("python3 -c 'print(1)'") && is_throwaway("node -e x") && !is_throwaway("python3 a.py"));
        assert!(is_fixer("bun run lint:fix") && is_fixer("ruff check --fix .") && !is_fixer("bun run lint"));
    }

    #[test]
    fn the_line_with_a_place_is_the_error_and_a_count_the_result() {
        let text = "Item 1 failed\nItem 2 failed\nItem 3 failed\n 12 pass\n 0 fail\nsrc/a.ts(5,3): error TS18046: 'x' is unknown.\n";
        assert!(key_error_lines(text).contains("TS18046"));
        let text = "src/a.py:4: CartError\nFAILED test_a.py::test_total - CartError: failed";
        assert!(
            key_error_lines(text).starts_with("src/a.py:4: CartError / FAILED")
                && !names_place("src/a.py:4: CartError")
        );
        let text = "0 errors, 0 warnings\nWARNING: there is a new version (v1.1.402)";
        assert_eq!(key_output_line(text, false), "0 errors, 0 warnings");
    }

    #[test]
    fn a_tally_tells_a_printed_error_from_a_failure() {
        assert!(counts_no_failure(
            "error: refused by the test server\n 12 pass\n 0 fail"
        ));
        assert!(!counts_no_failure("error: refused\n 11 passed; 1 failed"));
        assert!(!counts_no_failure("error: refused"));
        assert!(is_usage_error("error: unexpected argument '-x' found") && !is_usage_error("1 test failed"));
        assert!(is_usage_error(
            "Error: Can't find a root directory while resolving a config file path."
        ));
    }
}
