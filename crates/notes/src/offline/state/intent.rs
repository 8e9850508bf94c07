//! What a shell command is for: its program, what it does, and on what.
//!
//! Two runs have the same intent if they run the same program on the same target in the same folder, whatever their
//! options and environment. A run on a wider target covers a narrower one, never the other way round.

use std::borrow::Cow;
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
        is_same_folder && self.program == failed.program && (is_wider || has_compiled)
    }

    /// Returns whether status 1 of the command is an answer and not a failure.
    pub fn answers_by_status(&self) -> bool {
        let program = self.program.first().map_or("", String::as_str);
        let verb = self.program.get(1).map_or("", String::as_str);
        ANSWERING_PROGRAMS.contains(&program)
            || program == "git" && matches!(verb, "grep" | "diff" | "check-ignore" | "rev-parse" | "show-ref")
    }

    /// Returns the program and its verb.
    pub fn program(&self) -> &[String] {
        &self.program
    }
}

/// Returns whether a target is another one, everything, or a folder that holds it.
fn holds_target(own: &str, target: &str) -> bool {
    let own = own.trim_end_matches("...").trim_end_matches('/');
    let bare = target.trim_end_matches("...").trim_end_matches('/');
    // The same file, once by its whole path.
    let is_end = |long: &str, short: &str| long.starts_with('/') && long.ends_with(&format!("/{short}"));
    own == bare
        || is_end(own, bare)
        || is_end(bare, own)
        || bare.strip_prefix(own).is_some_and(|rest| {
            // A folder holds its files; a test file holds its tests (`a.py::test_b`).
            rest.starts_with('/') || rest.starts_with("::")
        })
}

/// Returns whether two folders are the same as far as the commands say.
fn is_same_path(one: &str, other: &str) -> bool {
    let (one, other) = (one.trim_end_matches('/'), other.trim_end_matches('/'));
    one == other || one.is_empty() && other.starts_with('/') || other.is_empty() && one.starts_with('/')
}

/// Joins the lines of a command that a backslash continues.
pub fn join_lines(command: &str) -> Cow<'_, str> {
    match command.contains("\\\n") {
        true => Cow::Owned(command.replace("\\\n", " ")),
        false => Cow::Borrowed(command),
    }
}

fn join_folder(folder: &str, next: &str) -> String {
    match next.starts_with(['/', '~']) || folder.is_empty() {
        true => next.to_owned(),
        false => format!("{}/{next}", folder.trim_end_matches('/')),
    }
}

/// Splits a command at `&&`, `||`, `;` and line ends outside of quotes. Of a pipe, the first program counts: what follows
/// filters its output. Here-documents must be dropped before: see [`drop_here_documents`].
pub fn split_parts(command: &str) -> Vec<&str> {
    let (mut parts, mut start, mut quote, mut is_piped) = (Vec::new(), 0, None, false);
    let bytes = command.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        match (quote, byte) {
            (Some(open), _) if byte == open => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, b'\\') => at += 1,
            (None, b'&' | b'|' | b';' | b'\n') => {
                let is_double = bytes.get(at + 1) == Some(&byte) && matches!(byte, b'&' | b'|');
                let is_redirect =
                    byte == b'&' && !is_double && (at > 0 && bytes[at - 1] == b'>' || bytes.get(at + 1) == Some(&b'>'));
                if !is_redirect {
                    if !is_piped {
                        parts.push(command[start..at].trim());
                    }
                    is_piped = byte == b'|' && !is_double;
                    at += usize::from(is_double);
                    start = at + 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    if !is_piped && start <= command.len() {
        parts.push(command.get(start..).unwrap_or_default().trim());
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns whether the status of a command is that of a filter or a later part, so that a success says nothing.
pub fn hides_status(command: &str) -> bool {
    let command = drop_here_documents(command);
    [
        "| tail", "|tail", "| head", "|head", "| grep", "|grep", "| tee", "| cat", "| sed", "|| true", "|| echo",
        "; echo",
    ]
    .iter()
    .any(|filter| command.contains(filter))
}

/// Drops the bodies of here-documents.
pub fn drop_here_documents(command: &str) -> Cow<'_, str> {
    if !command.contains("<<") {
        return Cow::Borrowed(command);
    }
    let (mut kept, mut end) = (String::new(), None::<String>);
    for line in command.lines() {
        if let Some(mark) = &end {
            if line.trim() == mark {
                end = None;
            }
            continue;
        }
        let opened = line
            .split_once("<<")
            .map(|(before, after)| (before, after.trim_start_matches('-').trim_start()));
        let Some((before, after)) = opened.filter(|(_, after)| !after.starts_with('<')) else {
            kept.push_str(line);
            kept.push('\n');
            continue;
        };
        let bare = after.trim_start_matches(['\'', '"', '\\']);
        let mark = bare.split(|sign: char| !(sign.is_alphanumeric() || sign == '_')).next();
        end = mark.filter(|mark| !mark.is_empty()).map(str::to_owned);
        let rest = mark.map_or("", |mark| bare[mark.len()..].trim_start_matches(['\'', '"']));
        kept.push_str(before);
        kept.push_str(rest);
        kept.push('\n');
    }
    Cow::Owned(kept)
}

/// Splits a part of a command into words, without quotes, brackets of a subshell and redirections.
pub fn split_words(part: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut is_word) = (Vec::new(), String::new(), None, false);
    for sign in part.trim_start_matches(['(', '{', ' ', '!']).chars() {
        match (quote, sign) {
            (Some(open), _) if sign == open => quote = None,
            (Some(_), _) => word.push(sign),
            (None, '"' | '\'') => (quote, is_word) = (Some(sign), true),
            (None, _) if sign.is_whitespace() => {
                if is_word || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                is_word = false;
            }
            (None, _) => word.push(sign),
        }
    }
    if is_word || !word.is_empty() {
        words.push(word);
    }
    drop_redirections(words)
}

fn drop_redirections(words: Vec<String>) -> Vec<String> {
    let mut kept = Vec::new();
    let mut is_file = false;
    for word in words {
        let bare = word.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == '&');
        if std::mem::take(&mut is_file) {
            continue;
        }
        match bare.strip_prefix(['>', '<']) {
            Some(rest) => is_file = rest.trim_start_matches(['>', '&']).is_empty(),
            None => kept.push(word),
        }
    }
    kept
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
        ] {
            let intent = CommandIntent::parse(command).expect("a command");
            assert_eq!(intent.answers_by_status(), answers, "{command}");
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
        let commit = "git commit -m \"$(cat <<'EOF'\nAdd it; don't\nEOF\n)\" && git push";
        assert_eq!(split_parts(&drop_here_documents(commit)).len(), 2);
    }
}
