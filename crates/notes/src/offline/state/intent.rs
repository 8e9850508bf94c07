//! What a shell command is for: its program, what it does, and on what.
//!
//! Two runs have the same intent if they run the same program on the same target in the same folder, whatever their
//! options and environment. A run on a wider target covers a narrower one, never the other way round.

use super::parts::{drop_here_documents, join_lines, last_program, split_parts, split_words};
use std::collections::BTreeSet;

/// What a command is for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CommandIntent {
    /// Folder it runs in, relative to where the shell was; empty for the same.
    folder: String,
    /// The program and its verb (`cargo test`).
    program: Vec<String>,
    /// Files, packages and filters; empty for everything.
    targets: BTreeSet<String>,
    /// Whether it only compiles what it would run.
    only_compiles: bool,
}

/// Options of test programs that stop them after compiling.
const COMPILE_OPTIONS: [(&str, &str); 4] = [
    ("go", "-c"),
    ("cargo", "--no-run"),
    ("swift", "--build-tests"),
    ("bazel", "--build_tests_only"),
];

/// Programs whose first word after the name says what they do.
const PROGRAMS_WITH_VERBS: [&str; 37] = [
    "cargo",
    "go",
    "npm",
    "yarn",
    "pnpm",
    "bun",
    "deno",
    "git",
    "gh",
    "docker",
    "docker-compose",
    "podman",
    "kubectl",
    "helm",
    "terraform",
    "make",
    "just",
    "task",
    "mise",
    "gradle",
    "gradlew",
    "mvn",
    "mvnw",
    "dotnet",
    "swift",
    "flutter",
    "dart",
    "uv",
    "pip",
    "pip3",
    "poetry",
    "rails",
    "bundle",
    "rake",
    "mix",
    "brew",
    "turbo",
];

/// Programs that run another one, with the words that belong to them.
const WRAPPERS: [(&str, &[&str]); 20] = [
    ("sudo", &[]),
    ("env", &[]),
    ("time", &[]),
    ("nice", &[]),
    ("nohup", &[]),
    ("command", &[]),
    ("exec", &[]),
    ("timeout", &["*"]),
    ("npx", &[]),
    ("bunx", &[]),
    ("uvx", &[]),
    ("uv", &["run"]),
    ("poetry", &["run"]),
    ("pipenv", &["run"]),
    ("pnpm", &["exec"]),
    ("npm", &["exec"]),
    ("yarn", &["exec"]),
    ("bundle", &["exec"]),
    ("mise", &["exec"]),
    ("xvfb-run", &[]),
];

/// Options whose value says what is run.
const TARGET_OPTIONS: [&str; 21] = [
    "-p",
    "--package",
    "--filter",
    "-F",
    "--manifest-path",
    "-C",
    "-k",
    "--test",
    "-t",
    "-run",
    "--run",
    "--bin",
    "--example",
    "--bench",
    "--project",
    "--workspace-root",
    "--prefix",
    "--grep",
    "-g",
    "-f",
    "--file",
];

/// Options with a value that says only how it is run.
const VALUE_OPTIONS: [&str; 36] = [
    "-j",
    "--jobs",
    "--timeout",
    "--reporter",
    "--format",
    "--color",
    "--profile",
    "--features",
    "-o",
    "--output",
    "-n",
    "--maxfail",
    "--log-level",
    "-c",
    "--config",
    "--target-dir",
    "--message-format",
    "-e",
    "--env",
    "--tb",
    "--retries",
    "-m",
    "--message",
    "--cov",
    "--cov-report",
    "--target",
    "--toolchain",
    "-race",
    "--body",
    "--title",
    "--base",
    "--head",
    "-W",
    "--loglevel",
    "-tags",
    "-count",
];

/// Targets that mean everything.
const WHOLE_TARGETS: [&str; 6] = ["./...", ".", "./", "--workspace", "--all", "..."];

/// Verbs of git and gh that are about the repository, whatever else they name.
const REPOSITORY_VERBS: [&str; 9] = [
    "commit", "push", "pull", "fetch", "rebase", "merge", "status", "pr", "stash",
];

/// Programs that report with status 1 that they found nothing or a difference.
const ANSWERING_PROGRAMS: [&str; 13] = [
    "grep", "egrep", "fgrep", "rg", "ag", "diff", "cmp", "test", "[", "pgrep", "which", "command", "type",
];

/// Programs that prepare something or print it; a command is not run for their sake.
const SIDE_PROGRAMS: [&str; 24] = [
    "cd", "echo", "export", "source", ".", "set", "sleep", "mkdir", "cat", "head", "tail", "ls", "pwd", "true",
    "printf", "rm", "cp", "touch", "wc", "sort", "tee", "unset", "wait", "kill",
];

impl CommandIntent {
    /// Returns what a command is run for: the last of its parts that is more than preparation or printing; `None` if it has
    /// no such part.
    pub fn parse(command: &str) -> Option<CommandIntent> {
        CommandIntent::parse_all(command).pop()
    }

    /// Returns what the parts of a command are for, in order.
    pub fn parse_all(command: &str) -> Vec<CommandIntent> {
        let (mut folder, mut intents) = (String::new(), Vec::new());
        for part in split_parts(&drop_here_documents(&join_lines(command))) {
            let words = split_words(part);
            if words.first().is_some_and(|word| word == "cd") {
                folder = join_folder(&folder, words.get(1).map_or("", String::as_str));
                continue;
            }
            intents.extend(parse_part(&words, &folder));
        }
        intents
    }

    /// Returns whether a success of this intent shows that `failed` no longer fails.
    pub fn covers(&self, failed: &CommandIntent) -> bool {
        let is_same_folder = is_same_path(&self.folder, &failed.folder);
        let is_covered = |target: &String| self.targets.iter().any(|own| holds_target(own, target));
        let is_wider = self.targets.is_empty() || !failed.targets.is_empty() && failed.targets.iter().all(is_covered);
        // What ran only some of the tests was compiled as a whole.
        let has_compiled = failed.only_compiles && failed.targets.iter().all(is_covered);
        is_same_folder && self.is_check_of(failed) && (is_wider || has_compiled)
    }

    /// Returns whether this is the same program, or the check whose fixing form failed (`lint` for `lint:fix`).
    fn is_check_of(&self, failed: &CommandIntent) -> bool {
        let bare = |word: &str| word.trim_end_matches(":fix").trim_end_matches(":write").to_owned();
        self.program == failed.program
            || self.program.len() == failed.program.len()
                && std::iter::zip(&self.program, &failed.program).all(|(own, failed)| *own == bare(failed))
    }

    /// Returns the program and its verb.
    pub fn program(&self) -> &[String] {
        &self.program
    }
}

/// Returns whether status 1 of a command is an answer and not a failure: the last program says that it found nothing, or a
/// difference.
pub fn answers_by_status(command: &str) -> bool {
    let command = join_lines(command);
    let command = drop_here_documents(&command);
    let words = split_words(last_program(&command));
    let words = strip_wrappers(&words);
    let program = words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word));
    let verb = words.get(1).map_or("", String::as_str);
    ANSWERING_PROGRAMS.contains(&program)
        || program == "git" && matches!(verb, "grep" | "diff" | "check-ignore" | "rev-parse" | "show-ref")
}

/// Returns whether a tool runs commands of a shell, of whatever kind.
pub fn is_shell_tool(name: &str) -> bool {
    const NAMES: [&str; 8] = [
        "powershell",
        "pwsh",
        "cmd",
        "zsh",
        "sh",
        "run_shell_command",
        "run_terminal_cmd",
        "execute_command",
    ];
    NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// Returns whether a part of a command runs a program through one that is not known: its status may not be that of the program.
pub fn runs_in_wrapper(command: &str) -> bool {
    let joined = join_lines(command);
    let bare = drop_here_documents(&joined);
    split_parts(&bare).into_iter().any(|part| {
        let words = split_words(part);
        let second = words.get(1).map_or("", String::as_str);
        words.first().is_some_and(|first| is_unknown_wrapper(first, second))
    })
}

/// Returns whether a command runs the same program more than once: once to see it fail, and again after what it put right.
pub fn repeats_program(command: &str) -> bool {
    let intents = CommandIntent::parse_all(command);
    let is_specific = |intent: &CommandIntent| intent.program.len() > 1 || !intent.targets.is_empty();
    intents.iter().enumerate().any(|(at, intent)| {
        let mut later = intents[at + 1..].iter();
        is_specific(intent) && later.any(|later| later.program == intent.program)
    })
}

/// Returns whether a target is another one, everything, or a folder that holds it.
fn holds_target(own: &str, target: &str) -> bool {
    let own = own.trim_end_matches("...").trim_end_matches('/');
    let bare = target.trim_end_matches("...").trim_end_matches('/');
    // The same file, once by its whole path.
    let is_end = |long: &str, short: &str| long.starts_with('/') && long.ends_with(&format!("/{short}"));
    own == bare
        || holds_filter(own, bare)
        || is_end(own, bare)
        || is_end(bare, own)
        || bare.strip_prefix(own).is_some_and(|rest| {
            // A folder holds its files; a test file holds its tests (`a.py::test_b`).
            rest.starts_with('/') || rest.starts_with("::")
        })
}

/// Returns whether a filter of tests by name also selects those of another: it is a part of it.
fn holds_filter(own: &str, target: &str) -> bool {
    const OPTIONS: [&str; 6] = ["-run", "--run", "-k", "-t", "--grep", "-g"];
    let (Some((option, own)), Some((other, target))) = (own.split_once(' '), target.split_once(' ')) else {
        return false;
    };
    let is_plain = |text: &str| {
        text.len() > 3
            && text
                .chars()
                .all(|sign| sign.is_alphanumeric() || matches!(sign, '_' | '/' | '-' | ' '))
    };
    let own = own.trim_start_matches('^');
    OPTIONS.contains(&option) && option == other && is_plain(own) && target.contains(own)
}

/// Returns whether two folders are the same as far as the commands say.
fn is_same_path(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_end_matches('/'), other.trim_end_matches('/'));
    one == other || one.is_empty() && other.starts_with('/') || other.is_empty() && one.starts_with('/')
}

fn join_folder(folder: &str, next: &str) -> String {
    match next.starts_with(['/', '~']) || folder.is_empty() {
        true => next.to_owned(),
        false => format!("{}/{next}", folder.trim_end_matches('/')),
    }
}

fn is_setting(word: &str) -> bool {
    let name = word.split_once('=').map(|(name, _)| name);
    name.is_some_and(|name| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

/// Returns the words of the program itself, without settings of the environment and wrappers.
fn strip_wrappers(mut words: &[String]) -> &[String] {
    loop {
        let Some(first) = words.first() else { return words };
        if is_setting(first) {
            words = &words[1..];
            continue;
        }
        let second = words.get(1).map_or("", String::as_str);
        let wrapper = WRAPPERS
            .iter()
            .find(|(name, own)| name == first && (own.is_empty() || own.contains(&"*") || own.contains(&second)));
        let Some((_, own)) = wrapper else {
            return match is_unknown_wrapper(first, second) {
                true => &words[1..],
                false => words,
            };
        };
        words = &words[1 + usize::from(!own.is_empty())..];
        while words.first().is_some_and(|word| word.starts_with('-')) {
            words = &words[1..];
        }
    }
}

/// Returns whether a program that is not known runs another one, which is.
fn is_unknown_wrapper(first: &str, second: &str) -> bool {
    // Words of prose too: they may be arguments.
    const AMBIGUOUS: [&str; 6] = ["go", "make", "just", "task", "swift", "mix"];
    let is_known =
        PROGRAMS_WITH_VERBS.contains(&first) || ANSWERING_PROGRAMS.contains(&first) || SIDE_PROGRAMS.contains(&first);
    let is_bare = first.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    is_bare && !is_known && PROGRAMS_WITH_VERBS.contains(&second) && !AMBIGUOUS.contains(&second)
}

fn parse_part(words: &[String], folder: &str) -> Option<CommandIntent> {
    let words = strip_wrappers(words);
    let (first, mut rest) = words.split_first()?;
    let mut program = first.rsplit('/').next().unwrap_or(first).to_owned();
    if SIDE_PROGRAMS.contains(&program.as_str()) {
        return None;
    }
    // `python -m pytest` is pytest.
    if program.starts_with("python") && rest.first().is_some_and(|word| word == "-m") {
        program = rest.get(1)?.clone();
        rest = &rest[2..];
    }
    let has_verb = PROGRAMS_WITH_VERBS.contains(&program.as_str());
    let mut intent = CommandIntent {
        folder: folder.to_owned(),
        program: vec![program],
        targets: BTreeSet::new(),
        only_compiles: false,
    };
    read_arguments(rest, has_verb, &mut intent);
    intent.only_compiles = COMPILE_OPTIONS
        .iter()
        .any(|(program, option)| intent.program[0] == *program && rest.iter().any(|word| word == option));
    let verb = intent.program.get(1).map_or("", String::as_str);
    if matches!(intent.program[0].as_str(), "git" | "gh") && REPOSITORY_VERBS.contains(&verb) {
        intent.targets.clear();
    }
    intent
        .targets
        .retain(|target| !WHOLE_TARGETS.contains(&target.as_str()));
    Some(intent)
}

fn is_compile_option(intent: &CommandIntent, word: &str) -> bool {
    COMPILE_OPTIONS
        .iter()
        .any(|(program, option)| intent.program[0] == *program && word == *option)
}

/// Reads options, the verb and targets.
fn read_arguments(arguments: &[String], has_verb: bool, intent: &mut CommandIntent) {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if TARGET_OPTIONS.contains(&word.as_str()) {
            if let Some(value) = words.next() {
                intent.targets.insert(format!("{word} {value}"));
            }
        } else if let Some((option, value)) = word
            .split_once('=')
            .filter(|(option, _)| TARGET_OPTIONS.contains(option))
        {
            intent.targets.insert(format!("{option} {value}"));
        } else if VALUE_OPTIONS.contains(&word.as_str()) && !is_compile_option(intent, word) {
            words.next();
        } else if word.starts_with('-') || is_setting(word) {
            // How it is run, not what.
        } else if has_verb && intent.program.len() == 1 {
            intent.program.push(word.clone());
        } else if has_verb && intent.program.len() == 2 && intent.program[1] == "run" {
            // `npm run lint`: the script is what is done.
            intent.program[1].clone_from(word);
        } else if word.parse::<f64>().is_err() {
            intent.targets.insert(word.trim_start_matches("./").to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of commands: the first failed, the second succeeded later. `closes` or `not`, a tab, the two.
    const PAIRS: &str = include_str!("closure_pairs.txt");

    #[test]
    fn a_later_success_of_the_same_intent_closes_a_failure_and_no_other() {
        let mut counts = [0, 0];
        for line in PAIRS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let [label, failed, later] = line.split('\t').collect::<Vec<_>>()[..] else {
                panic!("three columns: {line}");
            };
            let failed = CommandIntent::parse(failed).expect("a command");
            let later = CommandIntent::parse(later).expect("a command");
            assert_eq!(later.covers(&failed), label == "closes", "{line}: {failed:?} {later:?}");
            counts[usize::from(label == "closes")] += 1;
        }
        assert_eq!(counts, [20, 20]);
    }

    #[test]
    fn some_programs_answer_by_their_status() {
        for (command, answers) in [
            ("grep -rn x src", true),
            ("cd /w && git check-ignore target", true),
            ("diff a b", true),
            ("git diff --exit-code", true),
            ("cargo test", false),
            ("git commit -m x", false),
            ("git show 1a2b:a.rs | grep -n 'a | b'", true),
            ("grep -c x a.rs && cargo test", false),
        ] {
            assert_eq!(answers_by_status(command), answers, "{command}");
        }
        assert_eq!(CommandIntent::parse("cd /w && ls"), None);
        assert_eq!(
            CommandIntent::parse("proxy bun run test"),
            CommandIntent::parse("bun run test")
        );
        assert_ne!(CommandIntent::parse("which bun"), CommandIntent::parse("bun"));
        let relative = CommandIntent::parse("ruff check src/a.py").expect("a command");
        let absolute = CommandIntent::parse("ruff check /w/src/a.py").expect("a command");
        assert!(absolute.covers(&relative) && relative.covers(&absolute));
        let lines = "make build && \\\n  make test";
        assert_eq!(CommandIntent::parse(lines), CommandIntent::parse("make test"));
        let compiles = CommandIntent::parse("go test -tags x -c ./a").expect("a command");
        let one_test = CommandIntent::parse("go test -tags x -run TestOne ./a").expect("a command");
        assert!(one_test.covers(&compiles) && !compiles.covers(&one_test));
        let all = CommandIntent::parse("go test -run TestCart ./a").expect("a command");
        let one = CommandIntent::parse("go test -run TestCart_Discount ./a").expect("a command");
        assert!(all.covers(&one) && !one.covers(&all));
        let fixes = CommandIntent::parse("bun run lint:fix").expect("a command");
        let checks = CommandIntent::parse("bun run lint").expect("a command");
        assert!(checks.covers(&fixes) && !fixes.covers(&checks));
        let commit = "git commit -m \"$(cat <<'EOF'\nAdd it; don't\nEOF\n)\" && git push";
        assert_eq!(split_parts(&drop_here_documents(commit)).len(), 2);
    }
}
