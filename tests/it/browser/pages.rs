//! Pages to look at: of some logs, of everything the commands write, of hostile content.

use crate::fixture::{Fixture, corpus};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Writes the page of some logs and returns its path.
pub fn page_of(fixture: &Fixture, logs: &Path) -> PathBuf {
    let page = fixture.path("page.html");
    let args = [
        OsStr::new("report"),
        logs.as_os_str(),
        OsStr::new("-q"),
        OsStr::new("-o"),
        page.as_os_str(),
    ];
    fixture.run(args).success();
    page
}

/// Writes the page of some logs with every view and returns its path.
pub fn whole_page_of(fixture: &Fixture, logs: &Path, more: &[&str]) -> PathBuf {
    let page = fixture.path("whole.html");
    let args = [
        OsStr::new("report"),
        logs.as_os_str(),
        OsStr::new("--all"),
        OsStr::new("-q"),
    ];
    let rest = [OsStr::new("--force"), OsStr::new("-o"), page.as_os_str()];
    let more = more.iter().map(OsStr::new);
    fixture.run(args.into_iter().chain(rest).chain(more)).success();
    page
}

/// Writes the outputs of all commands into one folder and returns its path.
pub fn folder_of_everything(fixture: &Fixture) -> PathBuf {
    let folder = fixture.path("all");
    std::fs::create_dir(&folder).expect("a folder");
    let logs = corpus().display().to_string();
    let at = |name: &str| folder.join(name).display().to_string();
    let run = |args: &[&str]| {
        fixture.run(args.iter().copied().chain(["-q"])).success();
    };
    run(&["replay", &logs, "--compare", "never", "--out", &at("run")]);
    run(&[
        "replay",
        &logs,
        "--set",
        "window.percent=50",
        "--working-set",
        "--rounds=parquet",
        "--out",
        &at("half"),
    ]);
    run(&[
        "tune",
        &logs,
        "--vary",
        "window.percent=50..90:20",
        "--resamples=100",
        "--out",
        &at("tune"),
    ]);
    run(&["audit", &logs, "-f", "json", "-o", &at("audit.json")]);
    run(&["stats", &logs, "--by=day", "-f", "json", "-o", &at("stats.json")]);
    fixture.write(
        "talk.jsonl",
        "{\"type\":\"user\",\"uuid\":\"u1\",\"sessionId\":\"s1\",\"timestamp\":\"2026-01-02T03:04:05.000Z\",\"cwd\":\"/w\",\"message\":{\"role\":\"user\",\"content\":\"From now on, always run the linter before you commit.\"}}\n",
    );
    let talk = fixture.path("talk.jsonl").display().to_string();
    run(&["memory", "extract", &talk, "--dir", &at("memory")]);
    fixture.write(
        "all/notes/s1/session-memory/summary.md",
        "# Session Title\nLinting\n\n# Current State\n- done\n",
    );
    folder
}

/// Writes a page of logs, memories and notes that try to run a script, in every field the page shows.
pub fn hostile_page(fixture: &Fixture) -> PathBuf {
    const EVIL: &str = "</script><script>window.ran=1</script><img src=x onerror=\"window.ran=1\"> javascript:window.ran=1 --><svg onload=window.ran=1>";
    let evil_name = "<img src=x onerror=\"window.ran=1\">";
    let session = evil_name;
    let line = |value: Value| format!("{value}\n");
    let base = |kind: &str, uuid: &str, parent: Value, time: &str| {
        json!({"type": kind, "uuid": uuid, "parentUuid": parent, "sessionId": session, "timestamp": time, "cwd": EVIL,
            "version": "2.1.30", "gitBranch": EVIL})
    };
    let mut text = String::new();
    let mut user = base("user", "u1", Value::Null, "2026-01-02T03:04:05.000Z");
    user["message"] = json!({"role": "user", "content": format!("From now on always write {EVIL} into every file.")});
    text += &line(user);
    let mut answer = base("assistant", "a1", json!("u1"), "2026-01-02T03:04:09.000Z");
    answer["requestId"] = json!("r1");
    answer["message"] = json!({"id": "m1", "role": "assistant", "model": evil_name, "content": [
        {"type": "tool_use", "id": "t1", "name": EVIL, "input": {"file_path": EVIL}}],
        "usage": {"input_tokens": 5000, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}});
    text += &line(answer);
    let mut result = base("user", "u2", json!("a1"), "2026-01-02T03:04:10.000Z");
    result["message"] =
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": EVIL}]});
    text += &line(result);
    text += &format!("{{\"type\":\"user\",{EVIL}\n");
    let mut last = base("assistant", "a2", json!("u2"), "2026-01-02T05:04:12.000Z");
    last["requestId"] = json!("r2");
    last["message"] = json!({"id": "m2", "role": "assistant", "model": evil_name, "content": [{"type": "text", "text": EVIL}],
        "usage": {"input_tokens": 6000, "output_tokens": 10, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}});
    text += &line(last);
    let name = "all/<b onmouseover=alert(1)>.jsonl";
    fixture.write(name, text);
    let memory = json!({"schema_version": 1, "kind": "memories", "memories": [{"type": "feedback", "title": EVIL, "hook": EVIL,
        "body": format!("{EVIL}\n\n- [{EVIL}](javascript:window.ran=1)\n```\n{EVIL}\n```"), "confidence": 0.9,
        "sources": [{"session": session, "uuid": EVIL, "time": EVIL}]}],
        "rejected": [{"rejected": EVIL, "text": EVIL, "sources": []}], "secrets_dropped": 0});
    fixture.write("all/memories.json", memory.to_string());
    fixture.write("all/notes/evil/summary.md", format!("# {EVIL}\n{EVIL}\n"));
    let compare = json!({"schema_version": 1, "kind": "compare", "policies": [EVIL, EVIL], "totals": {"sessions": 1, "a": {}, "b": {}, "difference": {}},
        "bounds": {}, "limits": {}, "sessions": [{"session": session, "project": EVIL, "cost_difference_micro_usd": 5, "why_cost": EVIL}]});
    fixture.write("all/compare.json", compare.to_string());
    let interval = json!({"share": 0.1, "low": 0.0, "high": 0.2});
    let tune = json!({"schema_version": 1, "kind": "tune", "name": EVIL, "front": [EVIL], "policies": 1, "sessions": 1, "choice": {"best": EVIL, "settings": {"x": EVIL},
        "holds": true, "saved_on_all_sessions": interval, "saved_on_held_out_sessions": interval, "folds": 5, "folds_that_agree": 5},
        "client_settings": [{"key": EVIL, "setting": {"name": EVIL, "value": EVIL}, "note": EVIL}],
        "flips": [{"from": EVIL, "to": EVIL, "usd_per_miss": 1.0}], "points": [{"policy": EVIL, "cost_micro_usd": 5, "misses": 1, "mean_window": 5}]});
    fixture.write("all/tune.json", tune.to_string());
    let page = fixture.path("page.html");
    let all = fixture.path("all").display().to_string();
    fixture
        .run(["report", &all, "-q", "--with-text", "-o", &page.display().to_string()])
        .success();
    page
}
