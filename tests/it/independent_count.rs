//! The same sums from an independent program: `tests/check_usage.py`, a short Python script that shares no code with backcast.

use crate::fixture::{FIGURES, Fixture, corpus, figures};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs the script on a folder and returns its sums; panics if Python, or zstd for packed logs, is not installed.
pub fn count_independently(folder: &Path) -> Value {
    run_script("check_usage.py", folder)
}

/// Does the same for logs of other agents: one folder and one object of sums per agent.
pub fn count_agents_independently(folder: &Path) -> Value {
    run_script("check_agents.py", folder)
}

fn run_script(name: &str, folder: &Path) -> Value {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    // Not hermetic: a version manager may need its own environment to find Python.
    let output = Command::new("python3").arg(script).arg(folder).output();
    let output = output.expect("python3 starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
#[ignore = "needs python3"]
fn bundled_logs_add_up_to_an_independent_count() {
    let stats = Fixture::new().stats(corpus(), &["--no-cache", "--agent=claude"]);
    let counted = count_independently(&corpus());
    assert_eq!(figures(&stats["totals"]), figures(&counted), "{FIGURES:?}");
}

#[test]
#[ignore = "needs python3"]
fn generated_logs_add_up_to_an_independent_count() {
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = ["synth", "bulk", "--bytes=3MiB", "--files=12", "--seed=11", "--out"];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let stats = fixture.stats(&out, &["--no-cache"]);
    let counted = count_independently(&out);
    assert_eq!(figures(&stats["totals"]), figures(&counted), "{FIGURES:?}");
}

#[test]
#[ignore = "needs python3"]
fn generated_logs_of_other_agents_add_up_to_an_independent_count() {
    let fixture = Fixture::new();
    let agents = ["codex", "opencode", "pi"];
    for agent in agents {
        let out = fixture.path(format!("bulk/{agent}"));
        let args = ["synth", "bulk", "--bytes=2MiB", "--files=12", "--agent", agent, "--out"];
        fixture
            .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
            .success();
    }
    let counted = count_agents_independently(&fixture.path("bulk"));
    for agent in agents {
        let stats = fixture.stats(fixture.path(format!("bulk/{agent}")), &["--no-cache"]);
        assert_eq!(
            figures(&stats["totals"]),
            figures(&counted[agent]),
            "{agent}: {FIGURES:?}"
        );
    }
}
