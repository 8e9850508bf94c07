//! How often a command opens a log, as the kernel counts it: once, whatever the command does with it.

use crate::fixture::{Fixture, case, logs_below};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::mem::MaybeUninit;

/// Copies logs to a fixture: compactions, sub-agents in logs of their own, and copies of records.
fn with_some_logs(fixture: &Fixture) -> usize {
    let mut count = 0;
    for name in [
        "boundary-auto",
        "boundary-micro",
        "plain",
        "resumed-copy",
        "subagents-beside",
    ] {
        for log in logs_below(&case(name)) {
            let file = log.file_name().and_then(|file| file.to_str()).expect("UTF-8");
            fixture.write(&format!("logs/{name}-{file}"), std::fs::read(&log).expect("a log"));
            count += 1;
        }
    }
    count
}

/// Runs a command. Returns how often it opened each log.
fn count_opens(fixture: &Fixture, args: &[&str]) -> BTreeMap<String, usize> {
    let watcher = inotify::init(CreateFlags::NONBLOCK).expect("inotify");
    // Equal events in a row are reported as one. One thread reads a log before it opens it again, so reads and closes keep
    // opens apart.
    let events = WatchFlags::OPEN | WatchFlags::ACCESS | WatchFlags::CLOSE;
    inotify::add_watch(&watcher, fixture.path("logs"), events).expect("a watch");
    fixture.run([args, &["--threads=1", "--quiet"]].concat()).success();
    let mut opens = BTreeMap::new();
    let mut buffer = [MaybeUninit::uninit(); 1 << 12];
    let mut reader = inotify::Reader::new(watcher, &mut buffer);
    loop {
        match reader.next() {
            Ok(event) => {
                let name = event.file_name().and_then(|name| name.to_str().ok());
                if let Some(name) = name.filter(|name| name.ends_with(".jsonl"))
                    && event.events().contains(ReadFlags::OPEN)
                {
                    *opens.entry(name.to_owned()).or_insert(0) += 1;
                }
            }
            Err(Errno::WOULDBLOCK) => return opens,
            Err(error) => panic!("inotify: {error}"),
        }
    }
}

#[track_caller]
fn assert_opens(fixture: &Fixture, args: &[&str], logs: usize, expected: usize) {
    let opens = count_opens(fixture, args);
    assert_eq!(opens.len(), if expected == 0 { 0 } else { logs }, "{args:?}: {opens:?}");
    assert!(opens.values().all(|count| *count == expected), "{args:?}: {opens:?}");
}

#[test]
fn every_command_opens_a_log_once() {
    let fixture = Fixture::new();
    let logs = with_some_logs(&fixture);
    for args in [
        &["report", "logs", "--no-cache"][..],
        &["replay", "logs", "--no-cache"],
        &["replay", "logs", "--no-cache", "--compare=never"],
        &["replay", "logs", "--no-cache", "--out=run"],
        &["tune", "logs", "--no-cache", "--out=tune", "--vary=window.percent=80"],
        &["stats", "logs", "--no-cache", "--last=2"],
        &["stats", "logs", "--no-cache", "--quality"],
        &["audit", "logs", "--no-cache"],
        &["validate", "logs", "--no-cache", "--working-set"],
        &["check", "logs", "--no-cache", "--max-net-negative=1000", "--last=2"],
    ] {
        assert_opens(&fixture, args, logs, 1);
    }
}

#[test]
fn a_cold_cache_costs_no_second_read_and_a_warm_one_none() {
    let logs_of = |fixture: &Fixture| {
        let logs = with_some_logs(fixture);
        // The cache does not remember a log that was modified just now.
        let old = std::time::SystemTime::now() - std::time::Duration::from_secs(3_600);
        for log in logs_below(&fixture.path("logs")) {
            let file = std::fs::File::options().append(true).open(log).expect("a log");
            file.set_modified(old).expect("touched");
        }
        logs
    };
    let fixture = Fixture::new();
    let logs = logs_of(&fixture);
    for (args, expected) in [
        (&["report", "logs"][..], 1),
        (&["report", "logs", "--force"], 0),
        (&["replay", "logs", "--out=run"], 0),
        (&["stats", "logs"], 0),
    ] {
        assert_opens(&fixture, args, logs, expected);
    }
    let fixture = Fixture::new();
    let logs = logs_of(&fixture);
    assert_opens(&fixture, &["replay", "logs", "--out=run"], logs, 1);
}

/// The packed form of a log has no words: those that are wanted are read when their session is worked on.
#[test]
fn words_cost_a_second_read() {
    let fixture = Fixture::new();
    for log in logs_below(&case("boundary-auto")) {
        let file = log.file_name().and_then(|file| file.to_str()).expect("UTF-8");
        fixture.write(&format!("logs/{file}"), std::fs::read(&log).expect("a log"));
    }
    let logs = logs_below(&fixture.path("logs")).len();
    assert_opens(&fixture, &["notes", "logs", "--no-cache", "--out=notes"], logs, 2);
    assert_opens(&fixture, &["replay", "logs", "--no-cache", "--with-text"], logs, 2);
}
