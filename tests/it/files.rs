//! Paths that are not logs: pipes, sockets, loops, nothing at all. None of them hangs a run, or ends one that has logs to read.

use crate::fixture::{Fixture, Run, case, figures, only_log};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::io::Write;
use std::process::Stdio;

fn kinds(stats: &Value) -> &Value {
    &stats["problems"]["by_kind"]
}

#[cfg(unix)]
#[test]
fn pipes_sockets_and_links_are_reported_and_skipped() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    let log = fixture.write("logs/good.jsonl", only_log("one-hour-writes"));
    let logs = fixture.path("logs");
    let made = fixture
        .hermetic("mkfifo", [logs.join("pipe.jsonl")])
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(logs.join("socket.jsonl")).expect("a socket");
    symlink(&logs, logs.join("loop")).expect("a link");
    symlink(&log, logs.join("link.jsonl")).expect("a link");
    symlink("nowhere", logs.join("broken.jsonl")).expect("a link");

    let stats = fixture.stats(&logs, &["--no-cache"]);
    assert_eq!(figures(&stats["totals"])[0], 3);
    assert_eq!(*kinds(&stats), json!({"special-file": 2, "link-skipped": 3}));

    let followed = fixture.stats(&logs, &["--no-cache", "--follow-links"]);
    assert_eq!(figures(&followed["totals"])[0], 3, "a log and a link to it are one log");
    assert_eq!(followed["input"]["logs"], 1);
    assert_eq!(*kinds(&followed), json!({"special-file": 2, "unreadable": 1}));
}

#[cfg(unix)]
#[test]
fn loops_of_folders_end() {
    use std::os::unix::fs::symlink;
    let fixture = Fixture::new();
    fixture.write("a/b/good.jsonl", only_log("one-hour-writes"));
    symlink(fixture.path("a"), fixture.path("a/b/up")).expect("a link");
    symlink("self", fixture.path("a/self")).expect("a link to itself");
    for follow in [&["--no-cache"][..], &["--no-cache", "--follow-links"]] {
        let stats = fixture.stats(fixture.path("a"), follow);
        assert_eq!(stats["input"]["logs"], 1, "{follow:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_named_pipe_does_not_hang() {
    let fixture = Fixture::new();
    let pipe = fixture.path("pipe.jsonl");
    assert!(fixture.hermetic("mkfifo", [&pipe]).status().expect("mkfifo").success());
    let stats = fixture.stats(&pipe, &["--no-cache"]);
    assert_eq!(*kinds(&stats), json!({"special-file": 1}));
}

#[cfg(unix)]
#[test]
#[ignore = "needs a user who is not root: root can read every file"]
fn an_unreadable_log_is_reported_and_the_others_count() {
    use std::os::unix::fs::PermissionsExt;
    let fixture = Fixture::new();
    fixture.write("logs/good.jsonl", only_log("one-hour-writes"));
    let bad = fixture.write("logs/secret.jsonl", only_log("plain"));
    std::fs::set_permissions(&bad, std::fs::Permissions::from_mode(0o000)).expect("closed");
    assert!(std::fs::File::open(&bad).is_err(), "this user can read every file");
    let stats = fixture.stats(fixture.path("logs"), &["--no-cache"]);
    assert_eq!(figures(&stats["totals"])[0], 3);
    assert_eq!(*kinds(&stats), json!({"unreadable": 1}));
}

#[test]
fn a_damaged_archive_gives_what_comes_before_the_damage() {
    let fixture = Fixture::new();
    let content = only_log("long-session");
    let packed = zstd::encode_all(&content[..], 1).expect("packed");
    fixture.write("logs/cut.jsonl.zst", &packed[..packed.len() / 2]);
    fixture.write("logs/none.jsonl.gz", b"this is no archive");
    fixture.write("logs/good.jsonl", only_log("one-hour-writes"));
    let stats = fixture.stats(fixture.path("logs"), &["--no-cache"]);
    assert_eq!(kinds(&stats)["broken-stream"], 2);
    assert!(figures(&stats["totals"])[0] >= 3);
}

#[test]
fn a_path_that_is_not_there_is_wrong_usage() {
    let fixture = Fixture::new();
    let run = fixture.run(["stats", "nowhere/at-all"]).ended(2);
    assert!(run.stdout.is_empty());
    assert!(
        run.stderr.contains("nowhere/at-all") && run.stderr.contains("no such file"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_folder_without_logs_is_wrong_usage_with_a_hint() {
    let fixture = Fixture::new();
    fixture.write("empty/notes.md", "no log");
    for path in ["empty", "empty/*.jsonl"] {
        let run = fixture.run(["stats", path]).ended(2);
        assert!(
            run.stderr.contains("no logs in empty") && run.stderr.contains("hint:"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn patterns_name_logs_and_folders() {
    let fixture = Fixture::new();
    for project in ["p1", "p2", "q"] {
        fixture.write(
            &format!("projects/{project}/log-{project}.jsonl"),
            only_log("one-hour-writes"),
        );
    }
    let logs = |pattern: &str| fixture.stats(pattern, &["--no-cache"])["input"]["logs"].clone();
    assert_eq!(logs("projects/*/*.jsonl"), 3);
    assert_eq!(logs("projects/p?"), 2);
    assert_eq!(logs("projects/{p1,q}/*"), 2);
    assert_eq!(logs("**/log-q.jsonl"), 1);
    let absolute = fixture.path("projects/p[12]/*.jsonl");
    assert_eq!(logs(absolute.to_str().expect("UTF-8")), 2);
}

#[test]
fn paths_are_read_from_standard_input() {
    let fixture = Fixture::new();
    fixture.write("one.jsonl", only_log("one-hour-writes"));
    fixture.write("two.jsonl", only_log("missing-request-id"));
    let run = |list: &str| {
        let mut command = fixture.command(["stats", "-", "--no-cache", "--format=json"]);
        let pipes = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = pipes.spawn().expect("started");
        child
            .stdin
            .take()
            .expect("a pipe")
            .write_all(list.as_bytes())
            .expect("written");
        Run::from(child.wait_with_output().expect("ended"))
    };
    assert_eq!(figures(&run("one.jsonl\n\ntwo.jsonl").success().json()["totals"])[0], 5);
    assert_eq!(
        figures(&run("one.jsonl\r\ntwo.jsonl\r\n").success().json()["totals"])[0],
        5
    );
    assert!(run("").ended(2).stderr.contains("empty"));
    assert!(run("missing.jsonl\n").ended(2).stderr.contains("missing.jsonl"));
}

#[test]
fn a_log_named_twice_is_read_once() {
    let fixture = Fixture::new();
    let log = fixture.write("logs/one.jsonl", only_log("one-hour-writes"));
    let twice = [
        OsStr::new("stats"),
        log.as_os_str(),
        log.as_os_str(),
        OsStr::new("logs"),
        OsStr::new("logs/../logs"),
    ];
    let stats = fixture
        .run(twice.into_iter().chain(["--format=json".as_ref()]))
        .success()
        .json();
    assert_eq!(stats["input"]["logs"], 1);
    assert_eq!(figures(&stats["totals"])[0], 3);
}

#[test]
fn any_name_is_a_log_when_it_is_named() {
    let fixture = Fixture::new();
    let log = fixture.write("session.txt", only_log("one-hour-writes"));
    assert_eq!(figures(&fixture.stats(log, &["--no-cache"])["totals"])[0], 3);
}

#[test]
fn without_a_path_the_clients_own_folder_is_read() {
    let fixture = Fixture::new();
    let run = fixture.run(["stats"]).ended(2);
    assert!(
        run.stderr.contains(".claude") && run.stderr.contains("CLAUDE_CONFIG_DIR"),
        "{}",
        run.stderr
    );

    fixture.write("home/.claude/projects/p/one.jsonl", only_log("one-hour-writes"));
    let stats = fixture.run(["stats", "--format=json"]).success().json();
    assert_eq!(figures(&stats["totals"])[0], 3);

    let mut command = fixture.command(["stats", "--format=json"]);
    command.env("CLAUDE_CONFIG_DIR", case("missing-request-id"));
    assert_eq!(figures(&Run::of(command).success().json()["totals"])[0], 2);
}

#[test]
fn every_root_is_searched_whatever_another_one_found() {
    let fixture = Fixture::new();
    for (name, case) in [("a1", "one-hour-writes"), ("b1", "missing-request-id")] {
        fixture.write(&format!("l/{name}.jsonl"), only_log(case));
    }
    let logs = |roots: &[&str]| {
        let args = ["stats", "--no-cache", "-f=json"]
            .into_iter()
            .chain(roots.iter().copied());
        let mut command = fixture.command(args);
        command.current_dir(fixture.path(""));
        let stats: Value = serde_json::from_slice(&Run::of(command).success().stdout).expect("JSON");
        (stats["input"]["logs"].clone(), kinds(&stats).clone())
    };
    let both = (json!(2), json!({}));
    assert_eq!(logs(&["l/a*.jsonl", "l/b*.jsonl"]), both);
    assert_eq!(logs(&["l/a*.jsonl", "l"]), both);
    assert_eq!(logs(&["l", "l/a*.jsonl"]), both);
    for spelling in ["l//*.jsonl", "./l/./*.jsonl", "./*/*.jsonl", "*/*.jsonl"] {
        assert_eq!(logs(&[spelling]), both, "{spelling}");
    }
    assert_eq!(logs(&["l", "l/c*.jsonl"]), (json!(2), json!({"no-logs": 1})));
}

#[cfg(unix)]
#[test]
fn names_need_not_be_utf_8() {
    use std::os::unix::ffi::OsStrExt;
    let fixture = Fixture::new();
    let log = fixture.write("l/good.jsonl", only_log("one-hour-writes"));
    let odd = fixture.path("l").join(OsStr::from_bytes(b"b\xff.jsonl"));
    std::fs::write(&odd, only_log("missing-request-id")).expect("a log");
    assert_eq!(fixture.stats(fixture.path("l"), &["--no-cache"])["input"]["logs"], 2);
    let list = [odd.as_os_str().as_bytes(), b"\n", log.as_os_str().as_bytes(), b"\n"].concat();
    let mut command = fixture.command(["stats", "--no-cache", "-f=json", "-"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a run");
    child.stdin.take().expect("a pipe").write_all(&list).expect("a list");
    let output = child.wait_with_output().expect("an end");
    let stats: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(stats["input"]["logs"], 2);
}

#[cfg(unix)]
#[test]
fn a_link_to_a_folder_is_reported() {
    let fixture = Fixture::new();
    fixture.write("l/good.jsonl", only_log("one-hour-writes"));
    fixture.write("elsewhere/more.jsonl", only_log("missing-request-id"));
    std::os::unix::fs::symlink(fixture.path("elsewhere"), fixture.path("l/more")).expect("a link");
    std::os::unix::fs::symlink(fixture.path("elsewhere/more.jsonl"), fixture.path("l/x.jsonl")).expect("a link");
    let stats = fixture.stats(fixture.path("l"), &["--no-cache"]);
    assert_eq!(*kinds(&stats), json!({"link-skipped": 2}));
    let stats = fixture.stats(fixture.path("l/g*.jsonl"), &["--no-cache"]);
    assert_eq!(
        *kinds(&stats),
        json!({"link-skipped": 1}),
        "a pattern does not mean the other link"
    );
}
