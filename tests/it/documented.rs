//! The documents are run: every command in them, in a folder made of the bundled logs; and every command and option of the
//! program is documented.
//!
//! Blocks marked `sh` are run line by line, those of one document in one folder, so that a later line finds the files of an
//! earlier one. Lines of other blocks that start `backcast` (pipelines of CI systems) are run too, and a block that begins with
//! the name of a file is written there. A line may say `status 1` in its comment. `cargo run -- ...` is the program
//! itself; other uses of cargo are checked against the targets of the package.

use crate::fixture::{Fixture, Run, corpus, files_below, only_log};
use backcast::cli::Cli;
use clap::{Command, CommandFactory};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// README, and everything in docs.
fn documents() -> Vec<(String, String)> {
    let docs = files_below(&root().join("docs"))
        .into_iter()
        .map(|file| Path::new("docs").join(file));
    let pages = docs.filter(|file| file.extension().is_some_and(|end| end == "md"));
    std::iter::once(PathBuf::from("README.md"))
        .chain(pages)
        .map(|file| {
            let text = std::fs::read_to_string(root().join(&file)).expect("a document");
            (file.display().to_string(), text)
        })
        .collect()
}

/// The fenced blocks of a document: language and text.
fn blocks(text: &str) -> Vec<(String, String)> {
    let mut blocks = Vec::new();
    let mut open: Option<(String, String)> = None;
    for line in text.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some((language.trim().to_owned(), String::new())),
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, block)), None) => {
                block.push_str(line);
                block.push('\n');
            }
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block that is not closed");
    blocks
}

/// The commands of a document.
fn commands(text: &str) -> Vec<String> {
    let blocks = blocks(text);
    blocks
        .iter()
        .flat_map(|(language, block)| commands_in(language, block))
        .collect()
}

/// The commands of a block. Lines that end in a backslash go on.
fn commands_in(language: &str, block: &str) -> Vec<String> {
    let joined = block.replace("\\\n", " ");
    let lines = joined.lines().map(str::trim).filter(|line| !line.is_empty());
    let command = |line: &str| match language {
        "sh" => (!line.starts_with('#')).then(|| line.to_owned()),
        // The output of a command.
        "text" => None,
        _ => embedded(line),
    };
    lines.filter_map(command).collect()
}

/// The name of the file that a block shows: its first line is a comment that is nothing but a name.
fn shown_file(block: &str) -> Option<&str> {
    let name = block.lines().next()?.strip_prefix("# ")?;
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (name.contains('.') && name.chars().all(is_name)).then_some(name)
}

/// A command inside a line of some pipeline: a list item, a quoted step.
fn embedded(line: &str) -> Option<String> {
    let line = line.trim_start_matches("- ").trim_start_matches("run: ");
    let line = line.strip_prefix("sh ").unwrap_or(line).trim_matches('\'');
    line.starts_with("backcast ").then(|| line.to_owned())
}

/// The status that a line announces.
fn announced(line: &str) -> i32 {
    let comment = line.split_once(" # ").map_or("", |(_, comment)| comment);
    let status = comment.split_once("status ").map(|(_, status)| &status[..1]);
    status.and_then(|status| status.parse().ok()).unwrap_or(0)
}

/// A folder to run documents in: logs, the program and a stand-in for cargo.
fn place() -> Fixture {
    let fixture = Fixture::new();
    let cases = [
        "boundary-auto",
        "boundary-manual",
        "boundary-micro",
        "boundary-lost-parent",
        "lasting-words",
        "long-session",
        "plain",
        "subagents-nested",
    ];
    for folder in ["logs", "home/.claude/projects", ".claude-logs"] {
        for case in cases {
            let from = corpus().join(case);
            for file in files_below(&from) {
                let bytes = std::fs::read(from.join(&file)).expect("a log");
                fixture.write(&format!("{folder}/{case}/{}", file.display()), bytes);
            }
        }
    }
    // The message that examples name is the second prompt of that log.
    let log = String::from_utf8(only_log("plain")).expect("text");
    let log = log.replace(
        "d312c197-93ae-4484-8201-bc55808819e7",
        "0c97beba-bfcb-4f84-9950-e0354bfc808b",
    );
    assert!(log.contains("0c97beba"), "the bundled log has other messages now");
    fixture.write("log.jsonl", log);
    fixture.write("limits.toml", "max-cost = 500\n");
    fixture.write("prompts.jsonl", "{\"id\": 1, \"text\": \"how do we run the tests\"}\n");
    std::os::unix::fs::symlink(corpus(), fixture.path("corpus")).expect("a link");
    let program = fixture.path("bin/backcast");
    std::fs::create_dir_all(fixture.path("bin")).expect("a folder");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_backcast"), &program).expect("a link");
    executable(&fixture, "bin/cargo", &cargo());
    fixture
}

/// Writes a stand-in for cargo: it runs the program, and fails for targets the package does not have.
fn cargo() -> String {
    let root = root();
    format!(
        r#"#!/bin/sh
set -eu
verb=$1; shift
target() {{ [ -e "{root}/$1/$2.rs" ] || [ -e "{root}/$1/$2/main.rs" ] || {{ echo "no $1/$2.rs" >&2; exit 9; }}; }}
case "$verb" in
run)
    while [ $# -gt 0 ]; do
        case "$1" in
        --release) shift ;;
        --example) target examples "$2"; exit 0 ;;
        --) shift; exec backcast "$@" ;;
        *) echo "cargo run: $1" >&2; exit 9 ;;
        esac
    done ;;
bench) [ "$1" = --bench ] && target benches "$2" ;;
test) : ;;
install) [ "$1" = --path ] && [ "$2" = . ] ;;
*) echo "cargo: $verb" >&2; exit 9 ;;
esac
"#,
        root = root.display()
    )
}

fn executable(fixture: &Fixture, name: &str, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    let path = fixture.write(name, text);
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
}

fn shell(fixture: &Fixture, line: &str) -> Run {
    let mut command = fixture.hermetic("sh", ["-c", line]);
    let path = std::env::var("PATH").expect("a path");
    command.env("PATH", format!("{}:{path}", fixture.path("bin").display()));
    Run::of(command)
}

#[test]
fn every_documented_command_runs() {
    for (name, text) in documents() {
        let fixture = place();
        for (language, block) in blocks(&text) {
            if let Some(file) = shown_file(&block) {
                fixture.write(file, &block);
            }
            for line in commands_in(&language, &block) {
                let run = shell(&fixture, &line);
                assert_eq!(
                    run.status,
                    Some(announced(&line)),
                    "{name}: {line}\n{}{}",
                    run.text(),
                    run.stderr
                );
            }
        }
    }
}

/// All commands by their words, without those that only hold others.
fn leaves(command: &Command, above: &[String], all: &mut Vec<(Vec<String>, BTreeSet<String>)>) {
    let parts = command
        .get_subcommands()
        .filter(|part| part.get_name() != "help")
        .collect::<Vec<_>>();
    let options = command
        .get_arguments()
        .filter(|arg| !arg.is_hide_set())
        .filter_map(|arg| arg.get_long())
        .map(str::to_owned);
    if parts.is_empty() {
        all.push((above.to_vec(), options.collect()));
    }
    for part in parts {
        let mut words = above.to_vec();
        words.push(part.get_name().to_owned());
        leaves(part, &words, all);
    }
}

fn all_leaves() -> Vec<(Vec<String>, BTreeSet<String>)> {
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    leaves(&root, &[], &mut all);
    all
}

/// The command that a line names: its place among the leaves.
fn leaf_of(line: &str, leaves: &[(Vec<String>, BTreeSet<String>)]) -> Option<usize> {
    let words = line
        .split_whitespace()
        .skip(1)
        .map(|word| word.trim_matches('`'))
        .collect::<Vec<_>>();
    leaves
        .iter()
        .position(|(names, _)| words.len() >= names.len() && names.iter().zip(&words).all(|(name, word)| name == word))
}

#[test]
fn every_command_has_an_example_that_runs() {
    let leaves = all_leaves();
    let mut shown = BTreeSet::new();
    for (_, text) in documents() {
        for line in commands(&text) {
            let line = line.replace("cargo run --release -- ", "backcast ");
            let parts = line.split("&&").flat_map(|part| part.split('|')).map(str::trim);
            let ours = parts.filter(|part| part.starts_with("backcast "));
            shown.extend(ours.filter_map(|part| leaf_of(part, &leaves)));
        }
    }
    for (number, (words, _)) in leaves.iter().enumerate() {
        assert!(
            shown.contains(&number),
            "no document has an example of `backcast {}`",
            words.join(" ")
        );
    }
}

#[test]
fn every_option_is_documented() {
    let page = std::fs::read_to_string(root().join("docs/cli.md")).expect("the reference");
    for (words, options) in all_leaves() {
        let heading = format!("## `backcast {}`\n", words.join(" "));
        let section = page.split_once(&heading).expect(&heading).1;
        let section = section.split("\n## ").next().expect("a section");
        for option in options.iter().filter(|option| *option != "help") {
            let is_there = section.contains(&format!("`--{option}`")) || section.contains(&format!("`--{option} "));
            assert!(is_there, "--{option} is not in {heading}");
        }
    }
}

/// Commands inside sentences name what there is.
#[test]
fn commands_in_sentences_exist() {
    let leaves = all_leaves();
    let mut documents = documents();
    for more in ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "corpus/README.md"] {
        documents.push((
            more.to_owned(),
            std::fs::read_to_string(root().join(more)).expect("a document"),
        ));
    }
    for (name, text) in documents {
        for line in text.lines() {
            for span in line
                .split('`')
                .skip(1)
                .step_by(2)
                .filter(|span| span.starts_with("backcast "))
            {
                check_span(&name, span, &leaves);
            }
        }
    }
}

fn check_span(name: &str, span: &str, leaves: &[(Vec<String>, BTreeSet<String>)]) {
    let words = span.split_whitespace().skip(1).collect::<Vec<_>>();
    let Some(first) = words.first() else { return };
    if first.starts_with('-') {
        return;
    }
    // `memory recall|dream` names several.
    let is_known = |(names, _): &&(Vec<String>, BTreeSet<String>)| {
        names
            .iter()
            .zip(&words)
            .all(|(name, word)| word.split('|').any(|one| one == name))
    };
    let known = leaves.iter().filter(is_known).collect::<Vec<_>>();
    assert!(!known.is_empty(), "{name}: `{span}` is no command");
    let options = words.iter().filter_map(|word| word.strip_prefix("--"));
    for option in options.map(|option| option.split(['=', '|', ',']).next().expect("a name")) {
        assert!(
            known.iter().any(|(_, options)| options.contains(option)),
            "{name}: `{span}` has an option that is not there"
        );
    }
}

#[test]
fn links_in_documents_lead_to_files() {
    for (name, text) in documents() {
        let folder = root().join(&name).parent().expect("a folder").to_path_buf();
        let text = prose(&text);
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().expect("a path");
            if target.is_empty() || target.contains("://") {
                continue;
            }
            assert!(folder.join(target).exists(), "{name} links to {link}");
        }
    }
}

/// The folders whose files CONTRIBUTING.md names.
const FOLDERS: [&str; 7] = ["benches/", "corpus/", "crates/", "docs/", "examples/", "src/", "tests/"];

#[test]
fn paths_in_contributing_exist() {
    let text = std::fs::read_to_string(root().join("CONTRIBUTING.md")).expect("a document");
    let outside = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    let spans = outside.split('`').skip(1).step_by(2);
    let paths = spans.filter(|span| FOLDERS.iter().any(|folder| span.starts_with(folder)));
    let paths = paths.collect::<BTreeSet<_>>();
    assert!(paths.len() > 10, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "CONTRIBUTING.md names {path}");
    }
}

/// A document without its blocks and code.
fn prose(text: &str) -> String {
    let outside = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    outside.split('`').step_by(2).collect()
}
