//! The samples that people see first: `reports/` holds what the README's commands print, and the README quotes it.
//! `BACKCAST_UPDATE_DOCS=1 cargo test` writes them anew.

use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// What a command prints, run from the root of the project as the README says.
fn printed(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_backcast"))
        .args(arguments)
        .arg("--no-cache")
        .current_dir(root())
        .output()
        .expect("the binary runs");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

fn check(path: &Path, current: &str) {
    if std::env::var_os("BACKCAST_UPDATE_DOCS").is_some() {
        std::fs::write(path, current).expect("a writable tree");
    }
    let stored = std::fs::read_to_string(path).expect("a sample");
    assert_eq!(
        stored,
        current,
        "{}: run BACKCAST_UPDATE_DOCS=1 cargo test",
        path.display()
    );
}

#[test]
fn the_reports_are_what_the_commands_print() {
    let samples: [(&str, &[&str]); 4] = [
        ("stats.txt", &["stats", "corpus"]),
        ("stats-by-tool.txt", &["stats", "corpus", "--by", "tool"]),
        ("stats-by-model.csv", &["stats", "corpus", "--by", "model", "-f", "csv"]),
        ("stats.json", &["stats", "corpus", "-f", "json"]),
    ];
    for (name, arguments) in samples {
        check(&root().join("reports").join(name), &printed(arguments));
    }
}

#[test]
fn the_readme_quotes_the_report() {
    let path = root().join("README.md");
    let readme = std::fs::read_to_string(&path).expect("a README");
    let report = printed(&["stats", "corpus"]);
    let ledger = report.find("What filled the window").expect("a ledger");
    let quote = format!("\n```text\n{}```\n", &report[ledger..]);
    let start = readme.find("<!-- sample -->").expect("a mark") + "<!-- sample -->".len();
    let end = start + readme[start..].find("<!-- end -->").expect("a mark");
    let current = format!("{}{quote}{}", &readme[..start], &readme[end..]);
    check(&path, &current);
}

#[test]
fn nothing_is_wider_than_eighty_columns() {
    for by in ["session", "project", "model", "day", "branch", "tool"] {
        for line in printed(&["stats", "corpus", "--by", by, "--quality"]).lines() {
            assert!(line.chars().count() <= 80, "{by}: {line}");
        }
    }
}
