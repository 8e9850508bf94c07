//! The tables of docs/outputs.md and docs/policy.md come from the code. `BACKCAST_UPDATE_DOCS=1 cargo test` writes them.

use super::{audit, notes, stats, tune, validate};
use crate::metrics::usage::{By, columns};
use crate::metrics::{compare, quality, replay};
use crate::output::docs;
use crate::policy::{KEYS, Policy, presets};
use crate::problem::Kind;

#[test]
fn the_documented_columns_are_the_real_ones() {
    check(
        "docs/outputs.md",
        &[
            ("<!-- columns: session -->", docs(&columns(By::Session, false))),
            ("<!-- columns: day -->", docs(&columns(By::Day, false))),
            ("<!-- columns: tool -->", docs(stats::TOOL_COLUMNS)),
            ("<!-- columns: quality -->", docs(quality::COLUMNS)),
            ("<!-- columns: replay-session -->", docs(replay::SESSION_COLUMNS)),
            ("<!-- columns: replay-round -->", docs(replay::ROUND_COLUMNS)),
            ("<!-- columns: compare -->", docs(compare::COLUMNS)),
            ("<!-- columns: validate-case -->", docs(validate::CASE_COLUMNS)),
            ("<!-- columns: audit -->", docs(audit::COLUMNS)),
            ("<!-- columns: audit-threshold -->", docs(audit::THRESHOLDS)),
            ("<!-- columns: audit-setting -->", docs(audit::CHECKED)),
            ("<!-- columns: tune-point -->", docs(tune::POINT_COLUMNS)),
            ("<!-- columns: notes -->", docs(notes::COLUMNS)),
            ("<!-- problems -->", problem_docs()),
        ],
    );
}

#[test]
fn the_documented_policy_is_the_real_one() {
    check(
        "docs/policy.md",
        &[("<!-- presets -->", preset_docs()), ("<!-- values -->", value_docs())],
    );
}

/// Holds a document against the tables that belong into it.
fn check(name: &str, tables: &[(&str, String)]) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut current = text.clone();
    for (marker, table) in tables {
        let start = current.find(marker).unwrap() + marker.len();
        let end = start + current[start..].find("<!-- end -->").unwrap();
        current.replace_range(start..end, &format!("\n{}\n", table.trim_end()));
    }
    if std::env::var_os("BACKCAST_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    } else {
        assert_eq!(text, current, "run BACKCAST_UPDATE_DOCS=1 cargo test");
    }
}

fn preset_docs() -> String {
    let mut table = String::from("| preset | models |\n| --- | --- |\n");
    table.push_str(
        "| `recorded` | For every call the policy of the client version that made it: the `client-` presets below. |\n",
    );
    for preset in presets::all() {
        table.push_str(&format!("| `{}` | {} |\n", preset.name, preset.about));
    }
    table
}

fn value_docs() -> String {
    let default = Policy::default();
    let mut table = String::from("| key | default | can be | meaning |\n| --- | --- | --- | --- |\n");
    for key in KEYS {
        let value = (key.get)(&default);
        table.push_str(&format!(
            "| `{}` | `{value}` | {} | {} |\n",
            key.name,
            (key.expects)(),
            key.about
        ));
    }
    table
}

fn problem_docs() -> String {
    let mut table = String::from("| kind | meaning | lost |\n| --- | --- | --- |\n");
    for kind in Kind::all() {
        let lost = if kind.is_loss() { "yes" } else { "" };
        table.push_str(&format!("| `{}` | {} | {lost} |\n", kind.name(), kind.about()));
    }
    table
}
