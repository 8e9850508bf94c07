//! The composite action: inputs and outputs are documented, inputs never become part of a script, and the steps work.

use crate::fixture::{Fixture, Run, corpus, files_below};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn action() -> Value {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("action.yml");
    let text = std::fs::read_to_string(path).expect("action.yml");
    serde_saphyr::from_str(&text).expect("YAML")
}

fn steps(action: &Value) -> &Vec<Value> {
    action["runs"]["steps"].as_array().expect("steps")
}

/// Returns the names of the inputs that a text refers to.
fn inputs_in(text: &str) -> BTreeSet<String> {
    let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    text.split("inputs.")
        .skip(1)
        .map(|rest| rest.split(ends).next().expect("a name").to_owned())
        .collect()
}

#[test]
fn inputs_and_outputs_are_documented_and_used() {
    let action = action();
    let page = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/ci.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let mut declared = BTreeSet::new();
    for part in ["inputs", "outputs"] {
        for name in action[part].as_object().expect("names").keys() {
            assert!(page.contains(&format!("| `{name}` |")), "{name} is not in docs/ci.md");
            declared.extend((part == "inputs").then(|| name.clone()));
        }
    }
    let used = steps(&action)
        .iter()
        .flat_map(|step| inputs_in(&step.to_string()))
        .collect::<BTreeSet<_>>();
    assert_eq!(declared, used);
    for step in steps(&action) {
        let script = step["run"].as_str().unwrap_or_default();
        assert!(
            !script.contains("${{"),
            "a script that is put together from texts:\n{script}"
        );
    }
}

/// Runs a step as a runner would; returns the run, and its outputs with the summary.
fn step(fixture: &Fixture, id: &str, inputs: &[(&str, &str)]) -> (Run, BTreeMap<String, String>) {
    let action = action();
    let step = steps(&action).iter().find(|step| step["id"] == id).expect(id).clone();
    let value = |text: &str| match text {
        "${{ steps.install.outputs.program }}" => env!("CARGO_BIN_EXE_backcast").to_owned(),
        "${{ github.action_path }}" => {
            let given = inputs.iter().find(|(known, _)| *known == "github.action_path");
            given.map_or(env!("CARGO_MANIFEST_DIR"), |(_, path)| path).to_owned()
        }
        "${{ github.action_repository }}" | "${{ github.server_url }}" | "${{ github.token }}" => String::new(),
        text => {
            let names = inputs_in(text);
            let name = names.first().expect("an input");
            let given = inputs
                .iter()
                .find(|(known, _)| known == name)
                .map(|(_, value)| (*value).to_owned());
            given.unwrap_or_else(|| {
                action["inputs"][name]["default"]
                    .as_str()
                    .expect("a default")
                    .to_owned()
            })
        }
    };
    let mut command = fixture.hermetic("bash", ["-c", step["run"].as_str().expect("a script")]);
    for (name, text) in step["env"].as_object().expect("an environment") {
        command.env(name, value(text.as_str().expect("text")));
    }
    let output = fixture.write("output", "");
    command
        .env("GITHUB_OUTPUT", &output)
        .env("GITHUB_STEP_SUMMARY", fixture.write("summary", ""))
        .env("RUNNER_TEMP", fixture.path(""));
    let run = Run::of(command);
    let output = std::fs::read_to_string(output).expect("outputs");
    let pairs = output.lines().filter_map(|line| line.split_once('='));
    (
        run,
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    )
}

#[test]
fn the_check_step_reports_limits_and_fails_when_one_is_exceeded() {
    let fixture = Fixture::new();
    let corpus = corpus().display().to_string();
    let paths = ("paths", corpus.as_str());
    let (good, outputs) = step(
        &fixture,
        "check",
        &[
            paths,
            ("limits", "max-net-negative = 3\nmax-lost = 99"),
            ("junit", "check.xml"),
        ],
    );
    assert!(good.success().text().contains("All 2 limits hold."));
    assert_eq!(outputs["passed"], "true");
    let report = std::fs::read_to_string(&outputs["report"]).expect("a report");
    assert_eq!(serde_json::from_str::<Value>(&report).expect("JSON")["passed"], true);
    assert!(
        std::fs::read_to_string(fixture.path("check.xml"))
            .expect("a file")
            .contains("tests=\"2\"")
    );
    assert!(
        std::fs::read_to_string(fixture.path("summary"))
            .expect("a summary")
            .contains("max-lost")
    );

    let (bad, outputs) = step(
        &fixture,
        "check",
        &[paths, ("limits", "max-net-negative = 2"), ("last", "9000")],
    );
    let bad = bad.ended(1);
    assert!(bad.text().contains("::error file="), "{}", bad.text());
    assert_eq!(outputs["passed"], "false");
    let (reported, outputs) = step(
        &fixture,
        "check",
        &[paths, ("limits", "max-lost = 0"), ("fail", "false")],
    );
    reported.success();
    assert_eq!(outputs["passed"], "false");

    let file = fixture.write("limits.toml", "max-lost = 99");
    let file = file.display().to_string();
    let (both, _) = step(
        &fixture,
        "check",
        &[paths, ("limits-file", &file), ("limits", "max-problems = 99")],
    );
    assert!(both.success().text().contains("All 2 limits hold."));
    let (wrong, _) = step(&fixture, "check", &[paths, ("limits", "max-nonsense = 1")]);
    assert!(wrong.ended(2).stderr.contains("no limit is called"));
}

#[test]
fn inputs_are_never_run_as_shell_code() {
    let fixture = Fixture::new();
    let hostile = "$(touch pwned)\n`touch pwned`\n\"; touch pwned; \"\n--output=pwned";
    for input in ["paths", "limits", "limits-file", "last", "prices", "junit"] {
        let limits = ("limits", "max-lost = 1");
        step(&fixture, "check", &[(input, hostile), limits]);
    }
    step(
        &fixture,
        "memory",
        &[("paths", hostile), ("memory-dir", "$(touch pwned)")],
    );
    let files = files_below(&fixture.path(""));
    assert!(!files.iter().any(|file| file.ends_with("pwned")), "{files:?}");
}

#[test]
fn the_memory_step_updates_the_directory_and_reports_a_change() {
    let fixture = Fixture::new();
    let words = crate::fixture::case("lasting-words").display().to_string();
    let inputs = [("paths", words.as_str()), ("memory-dir", "memory")];
    let (first, outputs) = step(&fixture, "memory", &inputs);
    first.success();
    assert_eq!(outputs["changed"], "true");
    let before = files_below(&fixture.path("memory"));
    let (second, outputs) = step(&fixture, "memory", &inputs);
    second.success();
    assert_eq!(outputs["changed"], "false");
    assert_eq!(files_below(&fixture.path("memory")), before);
}

#[test]
fn the_install_step_takes_the_given_program() {
    let fixture = Fixture::new();
    let program = env!("CARGO_BIN_EXE_backcast");
    let (run, outputs) = step(&fixture, "install", &[("backcast", program)]);
    run.success();
    assert_eq!(outputs["program"], program);
}

#[test]
fn a_kept_program_is_that_of_the_sources() {
    let fixture = Fixture::new();
    for file in [
        "Cargo.toml",
        "Cargo.lock",
        "build.rs",
        "src/main.rs",
        "crates/one/src/lib.rs",
    ] {
        fixture.write(&format!("action/{file}"), file);
    }
    let folder = fixture.path("action");
    let hash = || {
        let inputs = [("github.action_path", folder.to_str().expect("UTF-8"))];
        let (run, outputs) = step(&fixture, "source", &inputs);
        run.success();
        outputs["hash"].clone()
    };
    let first = hash();
    assert_eq!(first.len(), 64, "{first}");
    assert_eq!(first, hash());
    fixture.write("action/crates/one/src/lib.rs", "changed");
    assert_ne!(first, hash(), "the same version with other sources is another program");
    // What the runner says of the action is that of the action whose step it is.
    for step in steps(&action()).iter().filter(|step| step["uses"].is_string()) {
        let with = step["with"].to_string();
        assert!(!with.contains("github.action_"), "{with}");
        assert!(with.contains("steps.source.outputs.hash"), "{with}");
    }
}
