//! The cache that machines share: what one of them has parsed no other parses, and nothing in it is believed.

use super::proxy::{Fault, Passing, Proxy};
use super::server::{BUCKET, Server};
use super::{BIG, local_without, localized, logs_of, run_on, with_few_logs};
use crate::fixture::{Fixture, Run, files_below};
use std::collections::BTreeSet;
use std::net::SocketAddr;

const SHARED: &str = "s3://team-logs/cache/nightly";

/// A bucket, and machines that know it.
struct Team {
    fixture: Fixture,
    server: Server,
    proxy: Proxy,
}

impl Team {
    fn new() -> Team {
        let fixture = with_few_logs();
        let server = Server::s3();
        server.put_files(&fixture, &logs_of(&fixture));
        let proxy = Proxy::new(server.address, |_, _| Fault::None);
        Team { fixture, server, proxy }
    }

    /// Runs `stats` on a machine, which is a cache of its own.
    fn stats_at(&self, address: SocketAddr, machine: &str) -> Run {
        let (url, cache) = (format!("s3://{BUCKET}/logs"), format!("--cache-dir={machine}"));
        let options = ["--problems", "--format=json", "--by=session", "--ledger", "--quiet"];
        let args = [&["stats", &url, &cache, "--shared-cache", SHARED], &options[..]].concat();
        run_on(&self.fixture, address, &args).success()
    }

    fn stats(&self, machine: &str) -> Vec<u8> {
        localized(&self.stats_at(self.proxy.address, machine).stdout, "s3")
    }

    /// Returns the names of the logs that were read since the last call.
    fn logs_read(&self) -> BTreeSet<String> {
        let requests = self.proxy.take_requests().into_iter();
        let reads = requests.filter(|one| one.method == "GET" && one.target.ends_with(".jsonl"));
        reads.map(|one| one.target).collect()
    }

    /// Returns the names of the entries that were written since the last call.
    fn entries_written(&self) -> Vec<String> {
        let requests = self.proxy.take_requests().into_iter();
        let writes = requests.filter(|one| one.method == "PUT");
        writes.map(|one| one.target[BUCKET.len() + 2..].to_owned()).collect()
    }
}

#[test]
#[ignore = "needs moto_server"]
fn what_one_machine_has_parsed_no_other_parses() {
    let team = Team::new();
    let local = local_without(&team.fixture, &[]);
    assert!(team.stats("one") == local);
    assert!(team.logs_read().len() >= 4, "nothing is shared yet");
    assert!(team.stats("two") == local);
    assert!(team.logs_read().is_empty(), "machine one has parsed them");
    assert!(team.stats("two") == local);
    assert!(team.logs_read().is_empty(), "its own cache has them now");
    // One log changes: one machine parses it.
    let bytes = std::fs::read(team.fixture.path(format!("logs/{BIG}"))).expect("a log");
    let half = bytes.len() / 2;
    team.fixture.write(&format!("logs/{BIG}"), &bytes[..half]);
    team.server.put_files(&team.fixture, &[format!("logs/{BIG}").into()]);
    let local = local_without(&team.fixture, &[]);
    let changed = BTreeSet::from([format!("/{BUCKET}/logs/{BIG}")]);
    assert!(team.stats("three") == local);
    assert_eq!(team.logs_read(), changed);
    for machine in ["one", "two", "four"] {
        assert!(team.stats(machine) == local, "{machine}");
        assert!(team.logs_read().is_empty(), "{machine}");
    }
}

#[test]
#[ignore = "needs moto_server"]
fn line_hashes_and_parts_are_shared_too() {
    let team = Team::new();
    let url = format!("s3://{BUCKET}/logs");
    let run = |machine: &str, args: &[&str]| {
        let cache = format!("--cache-dir={machine}");
        let args = [
            &args[..1],
            &[url.as_str(), &cache, "--shared-cache", SHARED, "-q"],
            &args[1..],
        ]
        .concat();
        run_on(&team.fixture, team.proxy.address, &args).success().stdout
    };
    let replay = ["replay", "--working-set", "--format=json"];
    let without = [&replay[..1], &[&url, "--no-cache", "-q"], &replay[1..]].concat();
    let expected = run_on(&team.fixture, team.proxy.address, &without).success().stdout;
    team.logs_read();
    team.stats("one");
    assert!(run("two", &replay) == expected);
    assert!(!team.logs_read().is_empty(), "`stats` makes no line hashes");
    assert!(run("three", &replay) == expected);
    assert!(team.logs_read().is_empty());
    run("four", &["map", "-o", "shared.part"]);
    assert!(team.logs_read().is_empty(), "a part without texts needs no log");
    let plain = ["map", &url, "--no-cache", "-q", "-o", "plain.part"];
    run_on(&team.fixture, team.proxy.address, &plain).success();
    let read = |name: &str| std::fs::read(team.fixture.path(name)).expect("a part");
    assert!(read("shared.part") == read("plain.part"));
}

#[test]
#[ignore = "needs moto_server"]
fn entries_that_are_not_what_was_written_are_made_again() {
    let team = Team::new();
    let local = local_without(&team.fixture, &[]);
    team.stats("one");
    let keys = team.entries_written();
    let folder = team.fixture.path("one");
    assert!(keys.len() >= 4, "{keys:?}");
    assert!(files_below(&folder).len() > keys.len(), "its own cache");
    let good = |key: &str| {
        let path = format!("/{BUCKET}/{key}");
        super::server::fetch(team.server.address, &path)
    };
    let entries = keys.iter().map(|key| good(key)).collect::<Vec<_>>();
    let mut flipped = entries[0].clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let cut = entries[1][..entries[1].len() - 3].to_vec();
    let other = entries[3].clone();
    for (key, body) in keys.iter().zip([flipped, cut, other, Vec::new()]) {
        team.server.put(key, &body);
    }
    let run = team.stats_at(team.proxy.address, "two");
    assert!(sums_of(&run.stdout) == sums_of(&local));
    assert_eq!(team.entries_written().len(), 4, "each is written again");
    assert!(run.stderr.contains("(cache): cache-rebuilt"), "{}", run.stderr);
    assert!(run.stderr.contains("4 entries"), "{}", run.stderr);
    assert!(team.stats("three") == local);
    assert!(team.logs_read().is_empty());
}

#[test]
#[ignore = "needs moto_server"]
fn machines_may_fill_it_at_the_same_time() {
    let team = Team::new();
    let local = local_without(&team.fixture, &[]);
    std::thread::scope(|scope| {
        let runs = ["one", "two", "three", "four"].map(|machine| {
            let team = &team;
            scope.spawn(move || team.stats(machine))
        });
        for run in runs {
            assert!(run.join().expect("a run") == local);
        }
    });
    team.logs_read();
    assert!(team.stats("five") == local);
    assert!(team.logs_read().is_empty());
}

#[test]
#[ignore = "needs moto_server"]
fn a_shared_cache_that_fails_changes_no_result() {
    let team = Team::new();
    let local = local_without(&team.fixture, &[]);
    let is_entry = |request: &Passing| request.target.starts_with(&format!("/{BUCKET}/cache/"));
    for (name, method, fault) in [
        (
            "reads denied",
            "GET",
            Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>"),
        ),
        ("reads busy", "GET", Fault::Status(503, "busy")),
        ("writes denied", "PUT", Fault::Status(403, super::SECRET)),
        ("reads cut", "GET", Fault::Cut(20)),
    ] {
        let proxy = Proxy::new(team.server.address, move |request, _| {
            match is_entry(request) && request.method == method {
                true => fault.clone(),
                false => Fault::None,
            }
        });
        let (url, cache) = (format!("s3://{BUCKET}/logs"), format!("--cache-dir={name}"));
        let options = ["--format=json", "--by=session", "--ledger"];
        let args = [&["stats", &url, &cache, "--shared-cache", SHARED], &options[..]].concat();
        let run = run_on(&team.fixture, proxy.address, &args).success();
        assert!(sums_of(&run.stdout) == sums_of(&local), "{name}");
        let said = run
            .stderr
            .matches("the shared cache s3://team-logs/cache/nightly: ")
            .count();
        // Half an entry that comes under its own length is a damaged one.
        assert!(said == 1 || name == "reads cut", "{name}: {}", run.stderr);
    }
}

/// Returns a document of `stats` without the list of problems.
fn sums_of(document: &[u8]) -> serde_json::Value {
    super::sums(&localized(document, "s3"))
}

#[test]
#[cfg(feature = "remote")]
fn a_shared_cache_is_the_prefix_of_a_bucket() {
    let fixture = Fixture::new();
    for wrong in [
        "cache",
        "https://host/cache",
        "s3://",
        "s3://user:hunter2@bucket/x",
        "s3://bucket/../x",
    ] {
        let run = fixture.run(["stats", "logs", "--shared-cache", wrong]).ended(2);
        assert!(run.stderr.contains("--shared-cache"), "{wrong}: {}", run.stderr);
        assert!(!run.stderr.contains("hunter2"));
    }
}
