//! Logs in object stores: the same bytes as from files, and every fault ends in a problem or an error, never in a wrong sum.
//!
//! The servers are real ones; a proxy in front of them makes the faults. Tests with a server are `#[ignore]`d with its name.

mod answers;
mod proxy;
mod server;
mod shared;

use crate::fixture::{Fixture, Run, case, files_below};
use crate::parts::{lines_of, outcome, with_logs};
use backcast::commands::reduce::REDUCED_COMMANDS;
use proxy::{Fault, Passing, Proxy};
use server::{AZURE_ACCOUNT, AZURE_KEY, BUCKET, SECRET, Server};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Returns the variables that lead to an S3 server.
fn s3_variables(address: SocketAddr) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", SECRET.to_owned()),
        ("AWS_REGION", "us-east-1".to_owned()),
        ("AWS_ENDPOINT", format!("http://{address}")),
        ("AWS_ALLOW_HTTP", "true".to_owned()),
    ]
}

/// Runs the program with the S3 server at an address. The secret must not show.
fn run_on(fixture: &Fixture, address: SocketAddr, args: &[&str]) -> Run {
    let mut command = fixture.command(args);
    command.envs(s3_variables(address));
    checked(command)
}

fn checked(command: Command) -> Run {
    let run = Run::of(command);
    assert!(!run.stderr.contains(SECRET), "{}", run.stderr);
    assert!(!String::from_utf8_lossy(&run.stdout).contains(SECRET));
    run
}

/// Returns the logs of a fixture, relative to it.
fn logs_of(fixture: &Fixture) -> Vec<PathBuf> {
    let files = files_below(&fixture.path("logs"));
    files.into_iter().map(|file| PathBuf::from("logs").join(file)).collect()
}

/// A folder whose name is as long as the URL of the bucket and ends like it, so that nothing in a table moves.
const TWIN: &str = "twin/team-logs/";

/// Moves the logs of a fixture below [`TWIN`]. Returns their path there.
fn move_to_twin(fixture: &Fixture) -> String {
    std::fs::create_dir_all(fixture.path(TWIN)).expect("a folder");
    let moved = format!("{TWIN}logs");
    std::fs::rename(fixture.path("logs"), fixture.path(&moved)).expect("moved");
    moved
}

/// Returns bytes with paths of [`TWIN`] in place of URLs.
fn twin(bytes: &[u8], scheme: &str) -> Vec<u8> {
    replaced(bytes, scheme, TWIN)
}

/// Returns bytes with the URL of the bucket taken out, so that paths are those of the local run.
fn localized(bytes: &[u8], scheme: &str) -> Vec<u8> {
    replaced(bytes, scheme, "")
}

fn replaced(bytes: &[u8], scheme: &str, by: &str) -> Vec<u8> {
    let url = format!("{scheme}://{BUCKET}/");
    assert!(by.is_empty() || by.len() == url.len());
    let (mut out, mut rest) = (Vec::new(), bytes);
    while let Some(at) = memchr::memmem::find(rest, url.as_bytes()) {
        out.extend_from_slice(&rest[..at]);
        out.extend_from_slice(by.as_bytes());
        rest = &rest[at + url.len()..];
    }
    out.extend_from_slice(rest);
    out
}

/// A fixture with a few small sessions, and one log of some megabytes.
fn with_few_logs() -> Fixture {
    let fixture = Fixture::new();
    for name in ["plain", "boundary-auto", "above-200k", "forked-copies"] {
        let folder = case(name);
        for file in files_below(&folder) {
            let bytes = std::fs::read(folder.join(&file)).expect("a file");
            fixture.write(&format!("logs/{name}/{}", file.display()), bytes);
        }
    }
    let run = fixture.run(["synth", "bulk", "--out", "bulk", "--bytes", "6MiB", "--files", "1"]);
    run.success();
    let big = files_below(&fixture.path("bulk"));
    let big = big
        .iter()
        .find(|file| file.extension().is_some_and(|end| end == "jsonl"));
    let bytes = std::fs::read(fixture.path("bulk").join(big.expect("a log"))).expect("a log");
    fixture.write(&format!("logs/{BIG}"), bytes);
    fixture
}

/// The log of several pieces in [`with_few_logs`].
const BIG: &str = "big.jsonl";

/// Returns the sums of a local run over the logs without some of them.
fn local_without(fixture: &Fixture, left_out: &[&str]) -> Vec<u8> {
    let copy = fixture.path("kept");
    let _ = std::fs::remove_dir_all(&copy);
    for file in logs_of(fixture) {
        if !left_out.iter().any(|name| file.ends_with(name)) {
            let bytes = std::fs::read(fixture.path(&file)).expect("a file");
            fixture.write(&format!("kept/{}", file.display()), bytes);
        }
    }
    let mut command = fixture.command(STATS);
    command.current_dir(&copy).arg("logs");
    Run::of(command).success().stdout
}

const STATS: [&str; 7] = [
    "stats",
    "--problems",
    "--format=json",
    "--by=session",
    "--ledger",
    "--quiet",
    "--no-cache",
];

#[test]
#[ignore = "needs moto_server"]
fn every_command_gives_the_same_bytes_from_s3() {
    let fixture = with_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let files = move_to_twin(&fixture);
    for command in REDUCED_COMMANDS {
        for line in lines_of(command.name) {
            let words = command.name.split(' ').count();
            let (verb, options) = line.split_at(words);
            let query = usize::from(command.name == "search");
            // A table cuts a path in its middle.
            let options = if *line == ["check", "--all"] {
                &["--all", "-f", "json"]
            } else {
                options
            };
            let with_path = |path| [verb, &options[..query], &[path, "--no-cache"], &options[query..]].concat();
            let local = outcome(&fixture, &with_path(&files));
            let url = format!("s3://{BUCKET}/logs");
            let out = fixture.path("out");
            std::fs::remove_dir_all(&out).expect("a folder");
            std::fs::create_dir(&out).expect("a folder");
            let remote = run_on(&fixture, server.address, &with_path(&url));
            assert_eq!(local.0, remote.status, "status of {line:?}: {}", remote.stderr);
            let stdout = twin(&remote.stdout, "s3");
            assert!(local.1 == stdout, "standard output of {line:?}");
            assert_eq!(
                local.2,
                String::from_utf8_lossy(&twin(remote.stderr.as_bytes(), "s3")),
                "standard error of {line:?}"
            );
            assert_eq!(
                local.3.keys().cloned().collect::<Vec<_>>(),
                files_below(&out),
                "files of {line:?}"
            );
            for (file, bytes) in &local.3 {
                let remote = std::fs::read(out.join(file)).expect("a file");
                // Scores are named by a hash of all that they depend on, paths among it.
                if file.ends_with("tune/scores") {
                    assert_eq!(bytes.len(), remote.len());
                    continue;
                }
                let same = without_nonce(bytes) == without_nonce(&twin(&remote, "s3"));
                assert!(same, "{} of {line:?}", file.display());
            }
        }
    }
}

/// Returns a page without its nonce, which is a hash of all that is on it, paths among it; any other file as it is.
fn without_nonce(file: &[u8]) -> String {
    let text = String::from_utf8_lossy(file).into_owned();
    match text.split("'nonce-").nth(1).and_then(|rest| rest.get(..32)) {
        Some(nonce) => text.replace(nonce, ""),
        None => text,
    }
}

#[test]
#[ignore = "needs moto_server"]
fn roots_are_prefixes_objects_and_patterns() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    server.put(
        "odd [name]*.txt",
        &std::fs::read(fixture.path(format!("logs/{BIG}"))).expect("a log"),
    );
    let count = |roots: &[&str]| {
        let args = [&["stats", "-f", "json", "-q", "--no-cache"], roots].concat();
        let run = run_on(&fixture, server.address, &args).success();
        run.json()["totals"]["responses"].as_u64().expect("a count")
    };
    let url = |rest: &str| format!("s3://{BUCKET}/{rest}");
    let local = |path: &str| {
        fixture.stats(path, &["--no-cache"])["totals"]["responses"]
            .as_u64()
            .expect("a count")
    };
    assert_eq!(count(&[&url("logs")]), local("logs"));
    assert_eq!(count(&[&url("logs/")]), local("logs"), "a slash at the end");
    assert_eq!(
        count(&[&format!("s3://{BUCKET}")]),
        local("logs"),
        "the whole bucket: the text is no log"
    );
    assert_eq!(count(&[&url("logs/plain")]), local("logs/plain"));
    assert_eq!(count(&[&url("logs/big.jsonl")]), local("logs/big.jsonl"));
    assert_eq!(
        count(&[&url("logs/*.jsonl")]),
        local("logs/big.jsonl"),
        "a star stays in its folder"
    );
    assert_eq!(count(&[&url("logs/p*/**")]), local("logs/plain"));
    assert_eq!(
        count(&[&url("odd [name]*.txt")]),
        local("logs/big.jsonl"),
        "what is named is a log"
    );
    assert_eq!(
        count(&[&url("logs"), &url("logs/plain"), "logs/plain"]),
        local("logs"),
        "copies count once"
    );
    let missing = run_on(&fixture, server.address, &["stats", &url("log")]).ended(2);
    assert!(missing.stderr.contains("no such object"), "{}", missing.stderr);
    let none = run_on(&fixture, server.address, &["stats", "s3://no-such-bucket/x"]).ended(2);
    assert!(
        none.stdout.is_empty() && none.stderr.contains("s3://no-such-bucket/x"),
        "{}",
        none.stderr
    );
}

#[test]
#[ignore = "needs moto_server"]
fn after_one_change_one_object_is_parsed() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let proxy = Proxy::new(server.address, |_, _| Fault::None);
    let url = format!("s3://{BUCKET}/logs");
    let reads = || {
        let requests = proxy.take_requests();
        let logs = requests
            .into_iter()
            .filter(|one| one.method == "GET" && one.target.ends_with(".jsonl"));
        let mut names = logs.map(|one| one.target).collect::<Vec<_>>();
        names.dedup();
        names.sort();
        names.dedup();
        names
    };
    let stats = || {
        let run = run_on(
            &fixture,
            proxy.address,
            &[
                "stats",
                &url,
                "-f",
                "json",
                "--by=session",
                "--ledger",
                "--problems",
                "-q",
            ],
        );
        localized(&run.success().stdout, "s3")
    };
    let logs = logs_of(&fixture)
        .into_iter()
        .filter(|file| file.extension().is_some_and(|end| end == "jsonl"))
        .count();
    let local = local_without(&fixture, &[]);
    assert!(stats() == local);
    assert_eq!(reads().len(), logs);
    assert!(stats() == local);
    assert!(reads().is_empty(), "nothing changed");
    // Written again as it was, and one with other content.
    let same = logs_of(&fixture)
        .into_iter()
        .find(|file| file.ends_with(BIG))
        .expect("the big log");
    server.put_files(&fixture, &[same]);
    let changed = files_below(&fixture.path("logs/plain"));
    let changed = changed
        .iter()
        .find(|file| file.extension().is_some_and(|end| end == "jsonl"));
    let changed = format!("logs/plain/{}", changed.expect("a log").display());
    let other = std::fs::read(
        fixture
            .path("logs/above-200k")
            .join(&files_below(&fixture.path("logs/above-200k"))[1]),
    );
    fixture.write(&changed, other.expect("a log"));
    server.put_files(&fixture, &[PathBuf::from(&changed)]);
    assert!(stats() == local_without(&fixture, &[]));
    assert_eq!(reads(), [format!("/{BUCKET}/{changed}")]);
}

/// Runs `stats` over a bucket with a fault. Returns the run, and the problems of logs.
fn stats_with(
    fixture: &Fixture,
    server: &Server,
    decide: impl Fn(&Passing, usize) -> Fault + Send + Sync + 'static,
) -> (Run, Vec<String>) {
    let proxy = Proxy::new(server.address, decide);
    let url = format!("s3://{BUCKET}/logs");
    let mut command = fixture.command(STATS);
    command.args([&url, "--strict"]).envs(s3_variables(proxy.address));
    command.env("AWS_TIMEOUT", "2 seconds");
    let run = checked(command);
    let problems = run
        .stderr
        .lines()
        .filter(|line| line.starts_with("s3://"))
        .map(str::to_owned)
        .collect();
    (run, problems)
}

#[test]
#[ignore = "needs moto_server"]
fn a_fault_that_passes_changes_nothing() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let local = local_without(&fixture, &[]);
    type Decide = fn(&Passing, usize) -> Fault;
    let faults: [(&str, Decide); 6] = [
        ("503 twice", |_, before| match before {
            0 | 1 => Fault::Status(503, "<Error><Code>SlowDown</Code></Error>"),
            _ => Fault::None,
        }),
        ("429 once", |_, before| match before {
            0 => Fault::Status(429, ""),
            _ => Fault::None,
        }),
        ("cut once", |request, before| match before {
            // What is asked for again starts elsewhere.
            0 if request.from.unwrap_or(0) % (2 << 20) == 0 && request.method == "GET" => Fault::Cut(1000),
            _ => Fault::None,
        }),
        ("short once", |request, before| match before {
            0 if request.reads(".jsonl") => Fault::Shorten(1000),
            _ => Fault::None,
        }),
        ("hangs once", |request, before| match before {
            0 if request.reads(BIG) => Fault::Hang(Duration::from_secs(4)),
            _ => Fault::None,
        }),
        ("slow", |_, _| Fault::Slow(Duration::from_millis(10))),
    ];
    for (name, fault) in faults {
        let (run, problems) = stats_with(&fixture, &server, fault);
        assert_eq!(run.status, Some(0), "{name}: {}", run.stderr);
        assert!(problems.is_empty(), "{name}: {problems:?}");
        assert!(localized(&run.stdout, "s3") == local, "{name}");
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_fault_that_stays_is_a_problem_and_nothing_of_the_log_counts() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let without = local_without(&fixture, &[BIG]);
    let is_late = |request: &Passing| request.reads(BIG) && request.from.is_some_and(|from| from > 0);
    type Decide = Box<dyn Fn(&Passing, usize) -> Fault + Send + Sync>;
    let on = |applies: fn(&Passing) -> bool, fault: Fault| -> Decide {
        Box::new(move |request, _| if applies(request) { fault.clone() } else { Fault::None })
    };
    let faults: [(&str, &str, Decide); 7] = [
        (
            "503",
            "not-delivered",
            on(|request| request.reads(BIG), Fault::Status(503, "busy")),
        ),
        ("503 later", "not-delivered", on(is_late, Fault::Status(503, "busy"))),
        ("cut", "not-delivered", on(|request| request.reads(BIG), Fault::Cut(0))),
        ("short", "not-delivered", on(is_late, Fault::Shorten(70_000))),
        (
            "hangs",
            "not-delivered",
            on(|request| request.reads(BIG), Fault::Hang(Duration::from_secs(3))),
        ),
        (
            "403",
            "unreadable",
            on(|request| request.reads(BIG), Fault::Status(403, SECRET)),
        ),
        ("404", "unreadable", on(is_late, Fault::Status(404, ""))),
    ];
    for (name, kind, decide) in faults {
        let (run, problems) = stats_with(&fixture, &server, decide);
        assert_eq!(run.status, Some(3), "{name}: {}", run.stderr);
        assert_eq!(problems.len(), 1, "{name}: {problems:?}");
        let start = format!("s3://{BUCKET}/logs/{BIG}: {kind}: ");
        assert!(problems[0].starts_with(&start), "{name}: {problems:?}");
        assert!(sums(&run.stdout) == sums(&without), "{name}");
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_missing_log_does_not_move_the_line_hashes_of_others() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let first = logs_of(&fixture)
        .into_iter()
        .find(|file| file.extension().is_some_and(|end| end == "jsonl"));
    let first = first
        .and_then(|file| Some(file.file_name()?.to_str()?.to_owned()))
        .expect("a log");
    let _ = local_without(&fixture, &[&first]);
    let replay = ["replay", "--working-set", "--format=json", "--no-cache"];
    let mut command = fixture.command(replay);
    command.current_dir(fixture.path("kept")).arg("logs");
    let local = Run::of(command).success().json();
    let proxy = Proxy::new(server.address, move |request, _| {
        if request.reads(&first) {
            Fault::Status(404, "")
        } else {
            Fault::None
        }
    });
    let url = format!("s3://{BUCKET}/logs");
    let remote = run_on(&fixture, proxy.address, &[&replay[..], &[&url]].concat())
        .success()
        .json();
    assert!(local["working_set"].is_object());
    assert_eq!(local["working_set"], remote["working_set"]);
}

/// Returns a document of `stats` without the list of problems.
fn sums(document: &[u8]) -> serde_json::Value {
    let mut document = serde_json::from_slice::<serde_json::Value>(document).expect("JSON");
    let fields = document.as_object_mut().expect("an object");
    fields.remove("problems");
    // How many logs there were, with the one of which nothing counts.
    let input = fields["input"].as_object_mut().expect("an object");
    input.remove("logs");
    serde_json::Value::Object(fields.clone())
}

#[test]
#[ignore = "needs moto_server"]
fn an_object_that_changes_meanwhile_is_a_problem() {
    let fixture = with_few_logs();
    let server = Arc::new(Server::s3());
    let without = local_without(&fixture, &[BIG]);
    let old = std::fs::read(fixture.path(format!("logs/{BIG}"))).expect("a log");
    let new = old.iter().rev().copied().collect::<Vec<_>>();
    // Before the first piece is read, before the second, and where the server does not look at the condition.
    for (name, from, fault) in [
        ("before", 0, Fault::None),
        ("between", 2 << 20, Fault::None),
        ("unconditional", 0, Fault::Unconditional),
        ("unconditional between", 2 << 20, Fault::Unconditional),
    ] {
        server.put_files(&fixture, &logs_of(&fixture));
        let (upstream, new) = (Arc::clone(&server), new.clone());
        let (run, problems) = stats_with(&fixture, &server, move |request, before| {
            if !request.reads(BIG) {
                return Fault::None;
            }
            if request.from == Some(from) && before == 0 {
                upstream.put(&format!("logs/{BIG}"), &new);
            } else if request.from > Some(from) {
                // Pieces are asked for at the same time: this one comes second.
                std::thread::sleep(Duration::from_millis(500));
            }
            fault.clone()
        });
        assert_eq!(run.status, Some(3), "{name}: {}", run.stderr);
        let wanted = format!("s3://{BUCKET}/logs/{BIG}: changed: ");
        assert!(
            problems.len() == 1 && problems[0].starts_with(&wanted),
            "{name}: {problems:?}"
        );
        assert!(sums(&run.stdout) == sums(&without), "{name}");
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_listing_that_fails_is_an_error() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let faults: [(&str, Fault); 4] = [
        ("503", Fault::Status(503, "busy")),
        ("403", Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>")),
        ("cut", Fault::Cut(200)),
        (
            "not a listing",
            Fault::Status(200, "<html>\u{1b}[31mlog in first</html>"),
        ),
    ];
    for (name, fault) in faults {
        let (run, problems) = stats_with(&fixture, &server, move |request, _| {
            if request.lists() { fault.clone() } else { Fault::None }
        });
        assert_eq!(run.status, Some(2), "{name}: {}", run.stderr);
        assert!(run.stdout.is_empty() && problems.is_empty(), "{name}");
        assert!(
            run.stderr.contains(&format!("s3://{BUCKET}/logs: ")),
            "{name}: {}",
            run.stderr
        );
        assert!(
            run.stderr.contains("AWS_ACCESS_KEY_ID") && !run.stderr.contains('\u{1b}'),
            "{name}: {}",
            run.stderr
        );
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_map_of_a_store_is_that_of_its_files() {
    let fixture = with_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let files = move_to_twin(&fixture);
    let url = format!("s3://{BUCKET}/logs");
    for number in ["1/3", "2/3", "3/3"] {
        let shard = format!("--shard={number}");
        run_on(
            &fixture,
            server.address,
            &["map", &url, "--texts", "-q", "--out=parts", &shard],
        )
        .success();
    }
    for line in [
        &["stats", "-f", "json", "--ledger"][..],
        &["notes", "--out", "out/notes", "-f", "json"],
    ] {
        let local = outcome(
            &fixture,
            &[&line[..1], &[files.as_str(), "--no-cache"], &line[1..]].concat(),
        );
        let reduced = outcome(&fixture, &[&["reduce", "parts", "--"], line].concat());
        assert!(local.1 == twin(&reduced.1, "s3"), "{line:?}");
    }
    // A map that does not get a log leaves no part: it is to be run again.
    let proxy = Proxy::new(server.address, |request, _| {
        let fails = request.method == "GET" && request.target.contains("/logs/plain/projects/");
        if fails { Fault::Status(503, "busy") } else { Fault::None }
    });
    let run = run_on(
        &fixture,
        proxy.address,
        &["map", &url, "--no-cache", "-q", "-o", "failed.part"],
    )
    .ended(2);
    assert!(run.stderr.contains("503"), "{}", run.stderr);
    assert!(!fixture.path("failed.part").exists());
}

#[test]
#[ignore = "needs moto_server"]
fn names_of_objects_are_not_trusted() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let local = local_without(&fixture, &[]);
    let log = std::fs::read(fixture.path(format!("logs/{BIG}"))).expect("a log");
    for key in [
        "logs/a//b.jsonl",
        "logs/../../../evil.jsonl",
        "logs/./c.jsonl",
        "logs/\u{1b}[2Jd.jsonl",
        "logs/f.jsonl/",
    ] {
        server.put(key, &log);
    }
    let (run, problems) = stats_with(&fixture, &server, |_, _| Fault::None);
    assert_eq!(run.status, Some(3), "{}", run.stderr);
    assert!(sums(&run.stdout) == sums(&local), "none of them counts");
    assert_eq!(problems.len(), 4, "a marker of a folder is no log: {problems:?}");
    assert!(
        problems
            .iter()
            .all(|problem| problem.contains("unreadable") && !problem.contains('\u{1b}'))
    );
}

#[test]
#[ignore = "needs azurite"]
fn azure_gives_the_same_bytes() {
    let fixture = with_logs();
    let server = Server::azure(&fixture);
    server.put_azure(&fixture, &logs_of(&fixture));
    let files = move_to_twin(&fixture);
    let url = format!("az://{BUCKET}/logs");
    for (line, is_cached) in [
        (&["stats", "-f", "json", "--ledger", "--problems"][..], false),
        (&["stats", "-f", "json", "--ledger", "--problems"], true),
        (&["stats", "-f", "json", "--ledger", "--problems"], true),
        (&["audit", "-f", "json"], true),
        (&["notes", "--out", "out/notes", "-f", "json"], false),
    ] {
        let local = outcome(
            &fixture,
            &[&line[..1], &[files.as_str(), "--no-cache"], &line[1..]].concat(),
        );
        let mut command = fixture.command([&line[..1], &[url.as_str()], &line[1..]].concat());
        command.envs([
            ("AZURE_STORAGE_ACCOUNT_NAME", AZURE_ACCOUNT),
            ("AZURE_STORAGE_ACCOUNT_KEY", AZURE_KEY),
            (
                "AZURE_STORAGE_ENDPOINT",
                &format!("http://{}/{AZURE_ACCOUNT}", server.address),
            ),
            ("AZURE_ALLOW_HTTP", "true"),
        ]);
        if !is_cached {
            command.arg("--no-cache");
        }
        let _ = std::fs::remove_dir_all(fixture.path("out"));
        let remote = Run::of(command);
        assert_eq!(local.0, remote.status, "{line:?}: {}", remote.stderr);
        assert!(local.1 == twin(&remote.stdout, "az"), "{line:?}");
        assert_eq!(local.2.as_bytes(), twin(remote.stderr.as_bytes(), "az"), "{line:?}");
    }
}

#[test]
fn the_network_can_be_forbidden() {
    let fixture = Fixture::new();
    let closed = "127.0.0.1:9".parse().expect("an address");
    let url = format!("s3://{BUCKET}/logs");
    for args in [
        &["stats", &url][..],
        &["--offline", "map", &url, "-o", "x.part"],
        &["report", &url],
        &["stats", "-"],
    ] {
        let mut command = fixture.command(args);
        command.envs(s3_variables(closed)).env("BACKCAST_OFFLINE", "1");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut input = child.stdin.take().expect("standard input");
        // A command that does not read the list may have ended.
        let _ = writeln!(input, "{url}");
        drop(input);
        let run = Run::from(child.wait_with_output().expect("ended")).ended(2);
        assert!(
            run.stderr.contains("--offline forbids all network"),
            "{args:?}: {}",
            run.stderr
        );
        assert!(run.stdout.is_empty());
    }
    let run = fixture.run(["stats", "s3://user:hunter2@bucket/x"]).ended(2);
    assert!(
        !run.stderr.contains("hunter2") && run.stderr.contains("credentials"),
        "{}",
        run.stderr
    );
}
