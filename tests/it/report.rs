//! `backcast report` and `--html`: inputs, where the page is written, and that it is always the same.

use crate::fixture::{Fixture, ROUNDS, case, corpus};
use serde_json::Value;
use std::path::Path;

fn data_of(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).expect("a page");
    let start = text.find("id=\"data\">").expect("data") + "id=\"data\">".len();
    let end = start + text[start..].find("</script>").expect("an end");
    serde_json::from_str(&text[start..end]).expect("JSON")
}

fn text(path: impl AsRef<Path>) -> String {
    path.as_ref().display().to_string()
}

#[test]
fn a_page_of_logs_goes_to_the_current_folder_and_is_not_overwritten() {
    let fixture = Fixture::new();
    let logs = text(case("boundary-auto"));
    let run = fixture.run(["report", &logs]).success();
    assert!(run.stdout.is_empty(), "nothing but the page");
    assert!(run.stderr.contains("report.html: a page of"), "{}", run.stderr);
    let data = data_of(&fixture.path("report.html"));
    assert_eq!(data["overview"]["basis"], "recorded");
    assert_eq!(data["runs"].as_array().map(Vec::len), Some(1));
    assert_eq!(data["audits"].as_array().map(Vec::len), Some(1));
    let again = fixture.run(["report", &logs]).ended(2);
    assert!(again.stderr.contains("use --force"), "{}", again.stderr);
    fixture.run(["report", &logs, "--force", "-q"]).success();
}

#[test]
fn the_page_does_not_depend_on_threads_or_the_cache() {
    let fixture = Fixture::new();
    let logs = text(corpus());
    let page = |name: &str, more: &[&str]| {
        let mut args = vec!["report", &logs, "-q", "-o", name];
        args.extend(more);
        fixture.run(args).success();
        std::fs::read(fixture.path(name)).expect("a page")
    };
    let one = page("one.html", &["-j1", "--no-cache"]);
    assert_eq!(one, page("two.html", &["-j2"]));
    assert_eq!(one, page("three.html", &["-j2"]), "with a warm cache");
}

#[test]
fn a_folder_of_results_is_shown_as_the_run_itself_would_be() {
    let fixture = Fixture::new();
    let logs = text(corpus());
    fixture
        .run([
            "replay",
            &logs,
            "-q",
            "--working-set",
            "--out",
            "run",
            "--html",
            "run.html",
        ])
        .success();
    fixture.run(["report", "run", "-q"]).success();
    let (direct, read) = (
        data_of(&fixture.path("run.html")),
        data_of(&fixture.path("run/report.html")),
    );
    let (direct, read) = (&direct["runs"][0], &read["runs"][0]);
    for part in ["sessions", "boundaries", "misses", "drawn"] {
        assert_eq!(direct[part], read[part], "{part}");
    }
    for part in ["days", "models", "projects", "fullness", "ledger"] {
        assert_eq!(direct["overview"][part], read["overview"][part], "{part}");
    }
    let blocks = |page: &str| {
        let text = std::fs::read_to_string(fixture.path(page)).expect("a page");
        let lines = text.lines().filter(|line| line.contains("id=\"run0-"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(blocks("run.html"), blocks("run/report.html"));
    assert!(!blocks("run.html").is_empty());
    // Every format of the rounds gives the same page.
    for rounds in ROUNDS {
        let out = format!("run-{rounds}");
        let args = [
            "replay",
            &logs,
            "-q",
            "--working-set",
            "--rounds",
            rounds,
            "--out",
            &out,
        ];
        fixture.run(args).success();
        fixture.run(["report", &out, "-q"]).success();
        assert_eq!(blocks("run.html"), blocks(&format!("{out}/report.html")), "{rounds}");
    }
}

#[test]
fn every_command_with_a_page_writes_one() {
    let fixture = Fixture::new();
    let logs = text(case("boundary-auto"));
    fixture.write(
        "talk.jsonl",
        "{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"From now on, always run the linter before you commit.\"}}\n",
    );
    let page = |name: &str, args: &[&str], part: &str| {
        let mut all = args.to_vec();
        all.extend(["--html", name]);
        fixture.run(&all).success();
        let data = data_of(&fixture.path(name));
        assert!(data[part].as_array().is_some_and(|parts| !parts.is_empty()), "{args:?}");
        // With notes, --force is about what people wrote, and a page does not need it.
        if args[0] == "notes" {
            fixture.run(&all).success();
            return data;
        }
        let again = fixture.run(&all).ended(2);
        assert!(again.stderr.contains("use --force"), "{}", again.stderr);
        all.push("--force");
        fixture.run(&all).success();
        data
    };
    page("replay.html", &["replay", &logs, "-q"], "runs");
    let compared = page("compare.html", &["replay", &logs, "-q", "--compare=never"], "runs");
    assert_eq!(compared["runs"][0]["compare"]["policies"][1], "never");
    page("audit.html", &["audit", &logs, "-q"], "audits");
    let tuned = page(
        "tune.html",
        &["tune", &logs, "-q", "--vary=window.percent=60,80", "--resamples=100"],
        "tunes",
    );
    assert_eq!(tuned["tunes"][0]["points"]["rows"], 3);
    let found = page(
        "found.html",
        &["memory", "extract", "talk.jsonl", "-q", "--dry-run"],
        "memories",
    );
    assert_eq!(found["memories"][0]["memories"].as_array().map(Vec::len), Some(1));
    let memories = text(fixture.path("memories"));
    fixture
        .run(["memory", "extract", "talk.jsonl", "-q", "--dir", &memories])
        .success();
    let noted = page(
        "notes.html",
        &["notes", &logs, "-q", "--to-end", "--summary", "--out", "notes"],
        "notes",
    );
    assert!(noted["notes"].as_array().is_some_and(|notes| notes.len() > 1));
    page("list.html", &["memory", "list", "--dir", &memories], "memories");
}

#[test]
fn a_list_on_standard_input_is_read_once() {
    let fixture = Fixture::new();
    let list = fixture.write("list", text(case("boundary-auto")));
    let mut command = fixture.command(["report", "-", "-q"]);
    command.stdin(std::fs::File::open(list).expect("a list"));
    crate::fixture::Run::of(command).success();
    let data = data_of(&fixture.path("report.html"));
    assert!(data["runs"][0]["sessions"]["rows"].as_u64() > Some(0));
    assert_eq!(data["audits"].as_array().map(Vec::len), Some(1));
}

#[test]
fn inputs_that_cannot_be_shown_are_errors() {
    let fixture = Fixture::new();
    std::fs::create_dir(fixture.path("empty")).expect("a folder");
    let run = fixture.run(["report", "empty"]).ended(2);
    assert!(run.stderr.contains("nothing to show in empty"), "{}", run.stderr);
    fixture.write("json/package.json", "{\"name\": \"x\"}");
    let run = fixture.run(["report", "json"]).ended(2);
    assert!(
        run.stderr.contains("nothing to show in json") && run.stderr.contains("looked for: logs"),
        "{}",
        run.stderr
    );
    let run = fixture.run(["report", "missing"]).ended(2);
    assert!(run.stderr.contains("missing"), "{}", run.stderr);
    fixture.write("other/package.json", "{\"name\": \"x\"}");
    fixture.write("other/result.json", "{\"schema_version\": 1, \"other\": true}");
    // A document is recognized by its kind, not by its keys.
    fixture.write("other/memories.json", "{\"schema_version\": 1, \"memories\": []}");
    let run = fixture.run(["report", "other"]).ended(2);
    assert!(run.stderr.contains("nothing to show in other"), "{}", run.stderr);
    let logs = text(case("boundary-auto"));
    fixture.run(["replay", &logs, "-q", "--out", "run"]).success();
    // Results are shown as they are: a policy would change nothing.
    let run = fixture.run(["report", "run", "--set=window.percent=50"]).ended(2);
    assert!(run.stderr.contains("--set: only logs are replayed"), "{}", run.stderr);
    assert!(!fixture.path("run/report.html").exists());
    let mut of_environment = fixture.command(["report", "run", "-q"]);
    of_environment.env("BACKCAST_POLICY", "never");
    crate::fixture::Run::of(of_environment).success();
    std::fs::remove_file(fixture.path("run/report.html")).expect("there");
    // A policy that was typed is one, also where the environment says the same.
    let mut typed = fixture.command(["report", "run", "-q", "--policy=never"]);
    typed.env("BACKCAST_POLICY", "never");
    let run = crate::fixture::Run::of(typed).ended(2);
    assert!(
        run.stderr.contains("--policy: only logs are replayed"),
        "{}",
        run.stderr
    );
    std::fs::remove_file(fixture.path("run/manifest.json")).expect("there");
    let run = fixture.run(["report", "run"]).ended(2);
    assert!(run.stderr.contains("broken off"), "{}", run.stderr);
    fixture.write("run/manifest.json", "{}");
    fixture.write("run/boundaries.jsonl", "{}\n{torn");
    let run = fixture.run(["report", "run"]).ended(2);
    assert!(run.stderr.contains("boundaries.jsonl:2"), "{}", run.stderr);
}

#[test]
fn secrets_do_not_reach_the_page() {
    let fixture = Fixture::new();
    let secret = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let line = |role: &str, uuid: &str, parent: &str, content: &str, usage: &str| {
        format!(
            "{{\"type\":\"{role}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w/{secret}\",\"requestId\":\"r\",\"message\":{{\"id\":\"m\",\"role\":\"{role}\",\"model\":\"claude-opus-4-5\",\"content\":{content}{usage}}}}}\n"
        )
    };
    let call = format!(
        "[{{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"Read\",\"input\":{{\"file_path\":\"/x/{secret}\"}}}}]"
    );
    let mut log = line("user", "u1", "null", &format!("\"use {secret}\""), "");
    log += &line(
        "assistant",
        "a1",
        "\"u1\"",
        &call,
        ",\"usage\":{\"input_tokens\":5000,\"output_tokens\":5}",
    );
    fixture.write("logs/s1.jsonl", log);
    fixture.write("logs/notes/s1/summary.md", format!("# Title\ntoken {secret}\n"));
    fixture.run(["report", "logs", "-q"]).success();
    let page = std::fs::read_to_string(fixture.path("report.html")).expect("a page");
    assert!(!page.contains(&secret[..20]));
    assert!(page.contains("[secret]"));
}
