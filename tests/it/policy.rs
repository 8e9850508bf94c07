//! Policies as users name them: presets, files, single values, the client's own switches.

use crate::fixture::{Fixture, Run};

fn show(fixture: &Fixture, more: &[&str]) -> Run {
    fixture.run(["config", "show"].iter().chain(more))
}

#[test]
fn every_value_says_where_it_comes_from() {
    let fixture = Fixture::new();
    fixture.write("mine.toml", "base = \"client-2.1.30\"\n[window]\nbuffer = 9000\n");
    let file = fixture.path("mine.toml");
    let file = file.to_str().unwrap();
    let run = show(&fixture, &["--origin", "--policy", file, "--set", "window.percent=70"]).success();
    let text = run.text();
    for line in [
        "buffer = 9000  # ",
        "percent = 70.0  # --set",
        "reserve = 20000  # default",
        "padding = 1.0  # preset client-2.1.30",
    ] {
        assert!(text.contains(line), "{line}\n{text}");
    }
}

#[test]
fn a_printed_policy_can_be_read_back() {
    let fixture = Fixture::new();
    for preset in ["article", "client-2.1.45", "never"] {
        let shown = show(&fixture, &["--policy", preset]).success().text().to_owned();
        let again = fixture.write("again.toml", &shown);
        let again = show(&fixture, &["--policy", again.to_str().unwrap()]).success();
        let values = |text: &str| text.lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(values(&shown), values(again.text()), "{preset}");
    }
}

#[test]
fn wrong_names_and_values_are_errors_with_a_hint() {
    let fixture = Fixture::new();
    let message = |more: &[&str]| {
        let run = show(&fixture, more).ended(2);
        run.stderr
    };
    assert!(message(&["--policy", "artcle"]).contains("did you mean `article`?"));
    assert!(message(&["--policy", "missing.toml"]).contains("missing.toml"));
    assert!(message(&["--set", "window.bufer=1"]).contains("did you mean `window.buffer`?"));
    assert!(message(&["--set", "window.buffer=much"]).contains("whole number"));
    let broken = fixture.write("broken.toml", "[window");
    assert!(message(&["--policy", broken.to_str().unwrap()]).contains("not TOML"));
}

#[test]
fn the_clients_switches_are_taken_over_on_request() {
    let fixture = Fixture::new();
    fixture.write(
        "home/.claude/settings.json",
        r#"{"autoCompactEnabled": false, "env": {"DISABLE_MICROCOMPACT": "1"}}"#,
    );
    let run = |client_env: bool| {
        let mut command = fixture.command(["config", "show", "--origin"]);
        command.env("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "60");
        command.env("CLAUDE_CONFIG_DIR", fixture.path("home/.claude"));
        if client_env {
            command.arg("--client-env");
        }
        Run::of(command).success().text().to_owned()
    };
    let without = run(false);
    assert!(without.contains("percent = \"none\"  # default"), "{without}");
    let with = run(true);
    for line in [
        "percent = 60.0  # CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
        "micro = false  # settings: env.DISABLE_MICROCOMPACT",
        "auto = false  # settings: autoCompactEnabled",
    ] {
        assert!(with.contains(line), "{line}\n{with}");
    }
}

/// A window is taken from the environment, else for single models, else from the top level of the settings file.
#[test]
fn windows_of_the_clients_settings_are_taken_over_in_its_order() {
    let fixture = Fixture::new();
    let settings =
        r#"{"autoCompactWindow": 300000, "modelSettings": {"claude-opus-5": {"autoCompactWindow": 200000}}}"#;
    fixture.write("home/.claude/settings.json", settings);
    let run = |variable: Option<&str>| {
        let mut command = fixture.command(["config", "show", "--origin", "--client-env"]);
        command.env("CLAUDE_CONFIG_DIR", fixture.path("home/.claude"));
        command.envs(variable.map(|window| ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", window)));
        Run::of(command).success().text().to_owned()
    };
    let from_file = run(None);
    for line in [
        "override = 300000  # settings: autoCompactWindow",
        "override_models = [\"claude-opus-5=200000\"]  # settings: modelSettings",
    ] {
        assert!(from_file.contains(line), "{line}\n{from_file}");
    }
    let from_environment = run(Some("250000"));
    for line in [
        "override = 250000  # CLAUDE_CODE_AUTO_COMPACT_WINDOW",
        "override_models = []  # default",
    ] {
        assert!(from_environment.contains(line), "{line}\n{from_environment}");
    }
    fixture.write("home/.claude/settings.json", r#"{"autoCompactWindow": 50000}"#);
    let mut command = fixture.command(["config", "show", "--client-env"]);
    command.env("CLAUDE_CONFIG_DIR", fixture.path("home/.claude"));
    let refused = Run::of(command).ended(2);
    assert!(
        refused.stderr.contains("autoCompactWindow: 50000"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_projects_file_is_used_without_being_named() {
    let fixture = Fixture::new();
    fixture.write("project/backcast.toml", "base = \"never\"\n");
    let mut command = fixture.command(["config", "show", "--origin"]);
    command.current_dir(fixture.path("project"));
    let run = Run::of(command).success();
    assert!(run.text().starts_with("# policy backcast.toml\n"), "{}", run.text());
}

#[test]
fn presets_are_listed() {
    let fixture = Fixture::new();
    let run = show(&fixture, &["--presets"]).success();
    for name in ["recorded", "article", "api-edits", "never", "client-2.1.8"] {
        assert!(run.text().lines().any(|line| line == name), "{name}");
    }
}
