//! `reports/` holds the output of commands on the bundled corpus, and the documents quote it.
//! `BACKCAST_UPDATE_DOCS=1 cargo test --all-features --test it samples` updates both.

use crate::fixture::{Fixture, Run, files_below};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// A sample: its file, and the command, run from the root of the project, that prints it.
const SAMPLES: &[(&str, &str, i32)] = &[
    ("sample.txt", "overview --sample", 0),
    ("overview.txt", "overview corpus", 0),
    ("stats.txt", "stats corpus", 0),
    ("stats-ledger.txt", "stats corpus --ledger", 0),
    ("stats-by-tool.txt", "stats corpus --by tool", 0),
    ("stats-by-model.csv", "stats corpus --by model -f csv", 0),
    ("stats.json", "stats corpus -f json", 0),
    ("audit.txt", "audit corpus", 0),
    ("replay.txt", "replay corpus", 0),
    ("compare.txt", "replay corpus --compare never", 0),
    ("tune.txt", "tune corpus", 0),
    ("validate.txt", "validate corpus", 0),
    (
        "check.txt",
        "check corpus --max-cost 30 --max-unpriced 1 --max-net-negative 2",
        1,
    ),
    (
        "check.xml",
        "check corpus --max-cost 30 --max-unpriced 1 --max-net-negative 2 -f junit",
        1,
    ),
    ("memory.txt", "memory extract corpus --dry-run", 0),
];

/// Runs a command from the root of the project, as the documents do, and returns its output.
fn printed(arguments: &str, status: i32) -> String {
    let fixture = Fixture::new();
    let mut command = fixture.command(arguments.split(' ').chain(["--no-cache", "--quiet"]));
    command.current_dir(root());
    Run::of(command).ended(status).text().to_owned()
}

fn check(path: &Path, current: &str) {
    if std::env::var_os("BACKCAST_UPDATE_DOCS").is_some() {
        std::fs::write(path, current).expect("a writable tree");
    }
    let stored = std::fs::read_to_string(path).unwrap_or_default();
    assert_eq!(
        stored,
        current,
        "{}: run BACKCAST_UPDATE_DOCS=1 cargo test --test it samples",
        path.display()
    );
}

/// What commands print, what the folder says of it, and what documents quote of it: one after the other, since each is
/// written by the one before.
#[test]
fn the_samples_are_what_the_commands_print() {
    let mut index = String::from(
        "# Samples\n\nWhat commands print on the bundled corpus. `BACKCAST_UPDATE_DOCS=1 cargo test --test it samples` \
         makes them anew;\nwithout the variable it says which have drifted.\n\n| file | command |\n| --- | --- |\n",
    );
    for (name, arguments, status) in SAMPLES {
        check(&root().join("reports").join(name), &printed(arguments, *status));
        let ends = if *status == 0 {
            String::new()
        } else {
            format!(" (status {status})")
        };
        index.push_str(&format!("| [{name}]({name}) | `backcast {arguments}`{ends} |\n"));
    }
    check(&root().join("reports/README.md"), &index);
    let pages = files_below(&root().join("docs"))
        .into_iter()
        .map(|file| root().join("docs").join(file));
    let pages = pages.filter(|file| file.extension().is_some_and(|end| end == "md"));
    let mut quotes = 0;
    for page in std::iter::once(root().join("README.md")).chain(pages) {
        let text = std::fs::read_to_string(&page).expect("a document");
        quotes += text.matches("<!-- sample: ").count();
        check(&page, &quoted(&text));
    }
    assert!(quotes >= 6, "documents quote samples");
}

/// A document with its quotes made anew: between `<!-- sample: FILE -->`, or `<!-- sample: FILE from: WORDS -->`, and
/// `<!-- end -->`.
fn quoted(text: &str) -> String {
    let mut parts = text.split("<!-- sample: ");
    let mut current = parts.next().expect("a first part").to_owned();
    for part in parts {
        let (mark, rest) = part.split_once(" -->\n").expect("the end of a mark");
        let (_, after) = rest.split_once("<!-- end -->").expect("the end of a sample");
        let (name, from) = mark.split_once(" from: ").unwrap_or((mark, ""));
        let sample = std::fs::read_to_string(root().join("reports").join(name)).expect(name);
        let start = sample.find(from).expect(from);
        let quote = format!("```text\n{}```\n", &sample[start..]);
        current.push_str(&format!("<!-- sample: {mark} -->\n{quote}<!-- end -->{after}"));
    }
    current
}

#[test]
fn samples_fit_eighty_columns() {
    let more = [
        "stats corpus --by project --quality",
        "stats corpus --by model --quality",
        "stats corpus --by day",
        "stats corpus --by branch",
        "stats corpus --subagents",
        "audit corpus --set window.percent=70 --top 0",
        "replay corpus --policy article --working-set",
        "validate corpus --working-set",
        "check corpus --all",
    ];
    let samples = SAMPLES.iter().filter(|(name, ..)| name.ends_with(".txt"));
    let commands = samples.map(|(_, command, status)| (*command, *status));
    for (command, status) in commands.chain(more.map(|command| (command, 0))) {
        for line in printed(command, status).lines() {
            assert!(line.chars().count() <= 80, "{command}: {line}");
        }
    }
}
