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
    assert!(run.stderr.contains("report.html: wrote a page of"), "{}", run.stderr);
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
    assert!(run.stderr.contains("--set: run holds results"), "{}", run.stderr);
    assert!(!fixture.path("run/report.html").exists());
    let mut of_environment = fixture.command(["report", "run", "-q"]);
    of_environment.env("BACKCAST_POLICY", "never");
    crate::fixture::Run::of(of_environment).success();
    std::fs::remove_file(fixture.path("run/report.html")).expect("there");
    // A policy that was typed is one, also where the environment says the same.
    let mut typed = fixture.command(["report", "run", "-q", "--policy=never"]);
    typed.env("BACKCAST_POLICY", "never");
    let run = crate::fixture::Run::of(typed).ended(2);
    assert!(run.stderr.contains("--policy: run holds results"), "{}", run.stderr);
    std::fs::remove_file(fixture.path("run/manifest.json")).expect("there");
    let run = fixture.run(["report", "run"]).ended(2);
    assert!(run.stderr.contains("an interrupted replay"), "{}", run.stderr);
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

/// A session in which every kind of text has words of its own.
fn telling_log() -> String {
    let line = |role: &str, uuid: &str, parent: &str, content: serde_json::Value, usage: bool| {
        let mut record = serde_json::json!({"type": role, "uuid": uuid, "parentUuid": (!parent.is_empty()).then_some(parent),
            "sessionId": "s1", "timestamp": "2026-01-02T03:04:05.000Z", "cwd": "/w", "version": "2.1.30",
            "message": {"role": role, "content": content}});
        if usage {
            record["requestId"] = format!("r-{uuid}").into();
            record["message"]["id"] = format!("m-{uuid}").into();
            record["message"]["model"] = "claude-opus-4-5".into();
            record["message"]["usage"] = serde_json::json!({"input_tokens": 5000, "output_tokens": 5});
        }
        format!("{record}\n")
    };
    let said = |words: &str| serde_json::json!(words);
    let mut log = line("user", "u1", "", said(SENTENCES[0]), false);
    log += &line(
        "assistant",
        "a1",
        "u1",
        serde_json::json!([
        {"type": "thinking", "thinking": SENTENCES[1], "signature": "x"},
        {"type": "text", "text": SENTENCES[2]},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "make", "description": SENTENCES[3]}}]),
        true,
    );
    log += &line(
        "user",
        "u2",
        "a1",
        serde_json::json!([{"type": "tool_result", "tool_use_id": "t1", "is_error": true, "content": SENTENCES[4]}]),
        false,
    );
    log += &line(
        "assistant",
        "a2",
        "u2",
        serde_json::json!([{"type": "text", "text": SENTENCES[5]}]),
        true,
    );
    log += &line("user", "u3", "a2", said(SENTENCES[6]), false);
    log += &line(
        "assistant",
        "a3",
        "u3",
        serde_json::json!([{"type": "text", "text": SENTENCES[7]}]),
        true,
    );
    log
}

const SENTENCES: [&str; 8] = [
    "Please sort the walnut crates before the harvest van arrives.",
    "The quiet miller probably keeps his ledger under the stairs.",
    "I sorted the walnut crates and swept the northern barn.",
    "Counts the crates behind the copper still",
    "error: the copper still refuses to open before noon",
    "The still was locked, so the crates remain uncounted today.",
    "From now on, always weigh the walnuts twice before you seal a crate.",
    "I will weigh the walnuts twice from now on.",
];

#[test]
fn no_sentence_of_a_log_is_on_the_page_unless_texts_are_asked_for() {
    let fixture = Fixture::new();
    fixture.write("logs/s1.jsonl", telling_log());
    fixture.run(["report", "logs", "-q", "--all"]).success();
    let page = std::fs::read_to_string(fixture.path("report.html")).expect("a page");
    let folded = |text: &str| {
        let words = text
            .split(|sign: char| !sign.is_alphanumeric())
            .filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
    };
    let shown = folded(&page);
    for sentence in SENTENCES {
        assert!(!shown.contains(&folded(sentence)), "{sentence}");
    }
    let data = data_of(&fixture.path("report.html"));
    assert_eq!(data["with_text"], false);
    let memory = &data["memories"][0]["memories"][0];
    assert_eq!(memory["type"], "feedback");
    assert!(memory["sources"].as_array().is_some_and(|sources| sources.len() == 1));
    assert_eq!(memory.get("body"), None);
    assert_eq!(data["notes"][0]["prompts"], 2);
    assert_eq!(data["notes"][0]["text"], "");
    assert!(data["notes"][0]["tokens"].as_u64() > Some(0));
    fixture
        .run(["report", "logs", "-q", "--all", "--with-text", "--force"])
        .success();
    let data = data_of(&fixture.path("report.html"));
    let body = data["memories"][0]["memories"][0]["body"].as_str().expect("a body");
    assert!(folded(body).contains("weigh the walnuts twice"), "{body}");
    assert!(folded(data["notes"][0]["text"].as_str().expect("notes")).contains("walnut crates"));
}

#[test]
fn the_page_shows_what_the_commands_show() {
    let fixture = Fixture::new();
    let logs = text(corpus());
    fixture.run(["report", &logs, "-q", "--all", "--with-text"]).success();
    let data = data_of(&fixture.path("report.html"));
    let json = |args: &[&str]| {
        fixture
            .run(args.iter().copied().chain([logs.as_str(), "-q"]))
            .success()
            .json()
    };
    let tune = json(&["tune", "-f", "json"]);
    assert_eq!(data["tunes"][0]["sentence"], tune["sentence"]);
    let compare = json(&["replay", "--compare", "never", "-f", "json"]);
    assert_eq!(data["runs"][0]["compare"]["totals"], compare["totals"]);
    let found = json(&["memory", "extract", "--dry-run", "-f", "json"]);
    let titles = |lists: &[Value]| {
        let titles = lists
            .iter()
            .flat_map(|list| list["memories"].as_array().expect("a list"));
        let mut titles = titles
            .map(|memory| memory["title"].clone().to_string())
            .collect::<Vec<_>>();
        titles.sort();
        titles
    };
    assert_eq!(titles(data["memories"].as_array().expect("parts")), titles(&[found]));
    fixture.run(["notes", &logs, "-q", "--out", "notes"]).success();
    let mut compared = 0;
    for notes in data["notes"].as_array().expect("notes") {
        let session = notes["session"].as_str().expect("an id");
        let files = glob_notes(&fixture.path("notes"), session);
        for file in files {
            assert_eq!(
                std::fs::read_to_string(file).expect("notes"),
                notes["text"],
                "{session}"
            );
            compared += 1;
        }
    }
    assert!(compared > 100, "{compared}");
    let stats = fixture.stats(&logs, &["--by", "session"]);
    let sessions = &data["overview"]["usage"]["sessions"];
    assert_eq!(sessions["rows"], stats["rows"].as_array().map_or(0, Vec::len));
    let cells = &data["overview"]["usage"]["cells"]["columns"]["calls"];
    let calls = cells
        .as_array()
        .expect("calls")
        .iter()
        .map(|calls| calls.as_u64().unwrap_or(0))
        .sum::<u64>();
    assert_eq!(stats["totals"]["responses"], calls);
}

/// Returns the notes of a session below a folder.
fn glob_notes(folder: &Path, session: &str) -> Vec<std::path::PathBuf> {
    let projects = std::fs::read_dir(folder).expect("a folder");
    let projects = projects.map(|project| project.expect("an entry").path().join(session));
    let files = projects.map(|folder| folder.join("session-memory/summary.md"));
    files.filter(|file| file.is_file()).collect()
}

#[cfg(unix)]
#[test]
fn the_page_opens_in_the_browser_that_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    let logs = text(case("boundary-auto"));
    let script = fixture.write(
        "browser",
        "#!/bin/sh\nprintf '%s' \"$1\" > opened.part && mv opened.part opened\n",
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut command = fixture.command(["report", &logs, "-q", "--open"]);
    command.env("BROWSER", &script);
    crate::fixture::Run::of(command).success();
    let opened = fixture.path("opened");
    // The browser is left to itself, and takes its time.
    for _ in 0..500 {
        if opened.exists() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    let named = std::fs::read_to_string(opened).expect("a path");
    assert!(named.ends_with("report.html") && named.starts_with('/'), "{named}");
    // Without a browser the page is written all the same.
    let mut command = fixture.command(["report", &logs, "--force", "--open"]);
    command.env("BROWSER", fixture.path("missing"));
    let run = crate::fixture::Run::of(command).success();
    assert!(run.stderr.contains("no browser could be started"), "{}", run.stderr);
}

#[test]
fn views_are_added_on_request() {
    let fixture = Fixture::new();
    let logs = text(case("boundary-auto"));
    fixture.run(["report", &logs, "-q"]).success();
    let data = data_of(&fixture.path("report.html"));
    assert_eq!(data["runs"][0]["compare"]["policies"][1], "never");
    for view in ["tune", "memories", "notes"] {
        let why = data["absent"][view].as_str().expect("a reason");
        assert!(why.contains(&format!("backcast report --{view}")), "{why}");
    }
    fixture
        .run(["report", &logs, "-q", "--compare=article", "--notes", "--force"])
        .success();
    let data = data_of(&fixture.path("report.html"));
    assert_eq!(data["runs"][0]["compare"]["policies"][1], "article");
    assert_eq!(data["absent"].get("notes"), None);
    assert!(data["absent"].get("memories").is_some());
    // Without a call there is nothing to sweep; the page says so and is written.
    fixture.write("empty/s.jsonl", "{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"hi\"}}\n");
    fixture.run(["report", "empty", "-q", "--tune", "--force"]).success();
    let data = data_of(&fixture.path("report.html"));
    assert!(
        data["absent"]["tune"]
            .as_str()
            .is_some_and(|why| why.starts_with("No thresholds were compared"))
    );
    // Results are shown as they are.
    fixture.run(["replay", &logs, "-q", "--out", "run"]).success();
    let run = fixture.run(["report", "run", "--all"]).ended(2);
    assert!(run.stderr.contains("--all: views are made of logs"), "{}", run.stderr);
    fixture.run(["report", "run", "-q"]).success();
    let data = data_of(&fixture.path("run/report.html"));
    assert_eq!(data["absent"], serde_json::json!({}), "nothing that could be asked for");
}
