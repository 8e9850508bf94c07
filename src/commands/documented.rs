//! The tables of docs/outputs.md and docs/policy.md come from the code. `BACKCAST_UPDATE_DOCS=1 cargo test` writes them.

use crate::cli::Cli;
use crate::commands::reduce::{REDUCED_COMMANDS, TextNeed};
use crate::usage::budget;
use crate::usage::period::GroupBy;
use crate::views::stats::{breakdown_columns, usage_columns};
use crate::views::{audit, check, compare, notes, replay, stats, tune, validate};
use ::replay::policy::{KEYS, Policy, presets};
use clap::{Arg, Command, CommandFactory, ValueEnum};
use serde_json::{Value as Json, json};
use table::{columns_markdown, columns_schema};
use transcript::problem::ProblemKind;

#[test]
fn the_documented_columns_are_the_real_ones() {
    check_document(
        "docs/outputs.md",
        &[
            (
                "<!-- columns: session -->",
                columns_markdown(&usage_columns(GroupBy::Session, false)),
            ),
            (
                "<!-- columns: day -->",
                columns_markdown(&usage_columns(GroupBy::Day, false)),
            ),
            ("<!-- columns: tool -->", columns_markdown(stats::TOOL_COLUMNS)),
            ("<!-- columns: quality -->", columns_markdown(stats::QUALITY_COLUMNS)),
            (
                "<!-- columns: replay-session -->",
                columns_markdown(replay::SESSION_COLUMNS),
            ),
            (
                "<!-- columns: replay-round -->",
                columns_markdown(replay::ROUND_COLUMNS),
            ),
            ("<!-- columns: compare -->", columns_markdown(compare::COLUMNS)),
            (
                "<!-- columns: validate-case -->",
                columns_markdown(validate::CASE_COLUMNS),
            ),
            ("<!-- columns: audit -->", columns_markdown(audit::BOUNDARY_COLUMNS)),
            (
                "<!-- columns: audit-threshold -->",
                columns_markdown(audit::THRESHOLD_COLUMNS),
            ),
            (
                "<!-- columns: audit-setting -->",
                columns_markdown(audit::SETTING_COLUMNS),
            ),
            ("<!-- columns: tune-point -->", columns_markdown(tune::POINT_COLUMNS)),
            ("<!-- columns: check -->", columns_markdown(check::LIMIT_COLUMNS)),
            ("<!-- columns: notes -->", columns_markdown(notes::COLUMNS)),
            ("<!-- problems -->", problem_docs()),
        ],
    );
}

/// Figures of rows that other outputs have, too: schema, column, name of the figure. Rows count by their session.
const ROW_FIGURES: &[(&str, &str, &str)] = &[
    ("stats-by-session", "responses", "session_calls"),
    ("stats-by-session", "cost_micro_usd", "session_cost"),
    ("stats-by-session", "context_peak", "session_peak"),
    ("stats-by-session", "title", "session_title"),
    ("stats-by-session", "project", "session_project"),
    ("stats-by-session", "coding_agent", "session_agent"),
    ("replay-session", "coding_agent", "session_agent"),
    ("replay-session", "project", "session_project"),
    ("replay-session", "cost_micro_usd", "session_simulated_cost"),
    ("replay-session", "compactions", "session_simulated_compactions"),
    ("replay-session", "calls", "session_conversation_calls"),
    ("compare", "a_cost_micro_usd", "session_simulated_cost"),
    ("compare", "a_compactions", "session_simulated_compactions"),
    ("compare", "a_calls", "session_conversation_calls"),
    ("compare", "project", "session_project"),
];

#[test]
fn the_schemas_of_rows_are_the_columns() {
    let mut rows = vec![
        ("stats-by-tool".to_owned(), columns_schema(stats::TOOL_COLUMNS)),
        ("stats-quality".to_owned(), columns_schema(stats::QUALITY_COLUMNS)),
        ("replay-session".to_owned(), columns_schema(replay::SESSION_COLUMNS)),
        ("replay-round".to_owned(), columns_schema(replay::ROUND_COLUMNS)),
        ("compare".to_owned(), columns_schema(compare::COLUMNS)),
        ("validate-case".to_owned(), columns_schema(validate::CASE_COLUMNS)),
        ("audit".to_owned(), columns_schema(audit::BOUNDARY_COLUMNS)),
        ("audit-threshold".to_owned(), columns_schema(audit::THRESHOLD_COLUMNS)),
        ("audit-setting".to_owned(), columns_schema(audit::SETTING_COLUMNS)),
        ("tune-point".to_owned(), columns_schema(tune::POINT_COLUMNS)),
        ("check".to_owned(), columns_schema(check::LIMIT_COLUMNS)),
        ("notes".to_owned(), columns_schema(notes::COLUMNS)),
    ];
    for by in GroupBy::value_variants().iter().filter(|by| **by != GroupBy::Tool) {
        // With --subagents there is one column more.
        let with_agents = |whole: Json, alone: Json| {
            let mut schema = whole;
            schema["required"] = alone["required"].clone();
            schema
        };
        let grouped = with_agents(
            columns_schema(&usage_columns(*by, true)),
            columns_schema(&usage_columns(*by, false)),
        );
        let split = with_agents(
            columns_schema(&breakdown_columns(*by, true)),
            columns_schema(&breakdown_columns(*by, false)),
        );
        rows.push((format!("stats-by-{}", by.name()), grouped));
        rows.push((format!("stats-breakdown-by-{}", by.name()), split));
    }
    for (name, schema) in &mut rows {
        let figures = ROW_FIGURES.iter().filter(|(of, ..)| of == name).collect::<Vec<_>>();
        for (_, column, figure) in &figures {
            schema["properties"][*column]["x-figure"] = json!(figure);
        }
        if !figures.is_empty() {
            schema["x-key"] = json!("session");
        }
    }
    let document = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "rows.schema.json",
        "title": "Rows: the columns of every table",
        "$defs": rows.into_iter().collect::<serde_json::Map<_, _>>(),
    });
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/schema/rows.schema.json");
    let current = format!("{document:#}\n");
    if std::env::var_os("BACKCAST_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &current).unwrap();
    }
    let stored = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(stored == current, "run BACKCAST_UPDATE_DOCS=1 cargo test");
}

#[test]
fn the_documented_policy_is_the_real_one() {
    check_document(
        "docs/policy.md",
        &[("<!-- presets -->", preset_docs()), ("<!-- values -->", value_docs())],
    );
}

#[test]
fn the_documented_command_line_is_the_real_one() {
    let mut root = Cli::command();
    root.build();
    let mut all = Vec::new();
    collect_commands(&root, "", &mut all);
    check_document(
        "docs/cli.md",
        &[
            ("<!-- verbs -->", verb_docs(&all)),
            ("<!-- shared -->", shared_docs(&all)),
            (
                "<!-- commands -->",
                all.iter().map(|one| command_docs(one, &all)).collect(),
            ),
        ],
    );
    check_document("docs/ci.md", &[("<!-- limits -->", limit_docs())]);
    check_document("docs/scale.md", &[("<!-- reduced -->", reduced_docs())]);
}

fn reduced_docs() -> String {
    let mut table = String::from("| command | needs `map --texts` |\n| --- | --- |\n");
    for command in REDUCED_COMMANDS {
        let need = match command.texts {
            TextNeed::Never => "no".to_owned(),
            TextNeed::With(options) => format!("with `{}`", options.join("`, `")),
            TextNeed::Always => "yes".to_owned(),
        };
        table.push_str(&format!("| `{}` | {need} |\n", command.name));
    }
    table
}

fn limit_docs() -> String {
    let mut table = String::from("| limit | unit | meaning |\n| --- | --- | --- |\n");
    for limit in budget::LIMITS {
        table.push_str(&format!(
            "| `{}` | {} | {} |\n",
            limit.name,
            limit.measure.name(),
            limit.about
        ));
    }
    table
}

/// A command by its full name.
type NamedCommand<'a> = (String, &'a Command);

fn collect_commands<'a>(command: &'a Command, above: &str, all: &mut Vec<NamedCommand<'a>>) {
    let name = format!("{above}{}", command.get_name());
    let below = format!("{name} ");
    all.push((name, command));
    for part in command.get_subcommands().filter(|part| part.get_name() != "help") {
        collect_commands(part, &below, all);
    }
}

/// Options and arguments that the help shows, but for those of every command.
fn visible_options(command: &Command) -> impl Iterator<Item = &Arg> {
    let is_shown = |arg: &&Arg| !arg.is_hide_set() && !matches!(arg.get_id().as_str(), "help" | "version");
    command.get_arguments().filter(is_shown)
}

/// Whether an option is documented once for all commands that have it.
fn is_shared(arg: &Arg, all: &[NamedCommand<'_>]) -> bool {
    let same = |other: &Arg| other.get_id() == arg.get_id() && option_docs(other) == option_docs(arg);
    let owners = all.iter().filter(|(_, command)| visible_options(command).any(same));
    option_heading(arg).is_some() && owners.count() >= 4
}

/// The section of an option. Those of every command have one of their own.
fn option_heading(arg: &Arg) -> Option<&str> {
    if arg.is_global_set() {
        return Some("Everywhere");
    }
    arg.get_help_heading()
}

fn option_docs(arg: &Arg) -> String {
    let values = arg
        .get_value_names()
        .unwrap_or_default()
        .iter()
        .map(|name| name.as_str());
    let values = values.collect::<Vec<_>>().join(" ");
    let takes = arg.get_action().takes_values();
    let name = match (arg.get_long(), arg.get_short()) {
        (Some(long), Some(short)) if takes => format!("`-{short}`, `--{long} {values}`"),
        (Some(long), Some(short)) => format!("`-{short}`, `--{long}`"),
        (Some(long), None) if takes => format!("`--{long} {values}`"),
        (Some(long), None) => format!("`--{long}`"),
        _ => format!("`{values}`"),
    };
    let about = arg
        .get_long_help()
        .or(arg.get_help())
        .map(|text| text.to_string())
        .unwrap_or_default();
    let mut about = about.replace('\n', " ").replace('|', "\\|");
    if !about.ends_with('.') {
        about.push('.');
    }
    let possible = arg.get_possible_values();
    if takes && !possible.is_empty() && !about.contains(&format!("`{}`", possible[0].get_name())) {
        let names = possible.iter().map(|value| format!("`{}`", value.get_name()));
        about.push_str(&format!(" One of {}.", names.collect::<Vec<_>>().join(", ")));
    }
    let defaults = arg.get_default_values().iter().map(|value| value.to_string_lossy());
    let defaults = defaults.collect::<Vec<_>>().join(" ");
    if takes && !defaults.is_empty() {
        about.push_str(&format!(" Default: `{defaults}`."));
    }
    format!("| {name} | {about} |\n")
}

fn verb_docs(all: &[NamedCommand<'_>]) -> String {
    let mut table = String::from("| command | does |\n| --- | --- |\n");
    for (name, command) in all.iter().skip(1) {
        let about = command.get_about().map(|about| about.to_string()).unwrap_or_default();
        let anchor = name.replace(' ', "-");
        table.push_str(&format!("| [`{name}`](#{anchor}) | {about} |\n"));
    }
    table
}

fn shared_docs(all: &[NamedCommand<'_>]) -> String {
    let mut sections = Vec::<(String, Vec<String>)>::new();
    for arg in all
        .iter()
        .flat_map(|(_, command)| visible_options(command))
        .filter(|arg| is_shared(arg, all))
    {
        let heading = option_heading(arg).unwrap_or_default();
        let line = option_docs(arg);
        match sections.iter_mut().find(|(known, _)| known == heading) {
            Some((_, lines)) if lines.contains(&line) => {}
            Some((_, lines)) => lines.push(line),
            None => sections.push((heading.to_owned(), vec![line])),
        }
    }
    let section = |(heading, lines): &(String, Vec<String>)| {
        format!(
            "### {heading}\n\n| option | meaning |\n| --- | --- |\n{}\n",
            lines.concat()
        )
    };
    sections.iter().map(section).collect()
}

fn command_docs((name, command): &NamedCommand<'_>, all: &[NamedCommand<'_>]) -> String {
    let mut text = format!("## `{name}`\n\n");
    if let Some(about) = command.get_long_about().or(command.get_about()) {
        text.push_str(&format!("{about}\n\n"));
    }
    let (shared, own) = visible_options(command).partition::<Vec<_>, _>(|arg| is_shared(arg, all));
    if !own.is_empty() {
        text.push_str("| option | meaning |\n| --- | --- |\n");
        text.extend(own.into_iter().map(option_docs));
        text.push('\n');
    }
    let mut headings = Vec::new();
    for heading in shared.iter().filter_map(|arg| option_heading(arg)) {
        let link = format!("[{heading}](#{})", heading.to_lowercase());
        if !headings.contains(&link) {
            headings.push(link);
        }
    }
    if !headings.is_empty() {
        let names = shared
            .iter()
            .filter_map(|arg| arg.get_long())
            .map(|long| format!("`--{long}`"));
        let names = names.collect::<Vec<_>>().join(", ");
        text.push_str(&format!("Shared options ({}): {names}.\n\n", headings.join(", ")));
    }
    if let Some(after) = command.get_after_long_help() {
        text.push_str(&after_help_docs(&after.to_string()));
    }
    text
}

/// What stands below the help: examples are commands, lists are text.
fn after_help_docs(after: &str) -> String {
    let mut text = String::new();
    for part in after.split("\n\n") {
        match part.split_once(":\n") {
            Some(("Examples", lines)) => {
                let command = |line: &str| match line.trim().split_once("  ") {
                    Some((command, about)) => format!("{command}  # {}\n", about.trim()),
                    None => format!("{}\n", line.trim()),
                };
                text.push_str(&format!(
                    "```sh\n{}```\n\n",
                    lines.lines().map(command).collect::<String>()
                ));
            }
            Some((title, lines)) if lines.starts_with("  ") => {
                text.push_str(&format!("{title}:\n\n```text\n{lines}\n```\n\n"));
            }
            _ => text.push_str(&format!("{part}\n\n")),
        }
    }
    text
}

/// Holds a document against the tables that belong into it.
fn check_document(name: &str, tables: &[(&str, String)]) {
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
    for kind in ProblemKind::all() {
        let lost = if kind.is_loss() { "yes" } else { "" };
        table.push_str(&format!("| `{}` | {} | {lost} |\n", kind.name(), kind.about()));
    }
    table
}
