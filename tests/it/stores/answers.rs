//! Answers that are wrong: pages of a listing that fail late, headers that lie, stretches that were not asked for, and objects that
//! are empty or damaged.

use super::proxy::{Fault, Passing, Proxy};
use super::server::{BUCKET, Server};
use super::{BIG, STATS, checked, local_without, localized, logs_of, s3_variables, stats_with, sums, with_few_logs};
use crate::fixture::Fixture;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// The page of a listing at which faults begin.
const LATE_PAGE: usize = 57;

/// Puts logs into a bucket of which a listing has more pages than [`LATE_PAGE`], a name on each.
fn put_many(fixture: &Fixture, server: &Server) {
    server.put_files(fixture, &logs_of(fixture));
    for number in 0..LATE_PAGE + 10 {
        server.put(&format!("logs/zz-other/{number:03}.txt"), b"no log");
    }
}

/// Returns a server's behavior: pages of one name, and a fault from the late page on for the first `times` requests of it.
fn late(fault: Fault, times: usize) -> impl Fn(&Passing, usize) -> Fault + Send + Sync + 'static {
    let pages = Mutex::new(BTreeSet::new());
    move |request, before| {
        if !request.lists() {
            return Fault::None;
        }
        let mut pages = pages.lock().expect("pages");
        let is_known = pages.contains(&request.target);
        let is_late = pages.len() >= LATE_PAGE - 1 && !is_known || pages.len() >= LATE_PAGE;
        pages.insert(request.target.clone());
        match is_late && before < times {
            true => fault.clone(),
            false => Fault::SmallPages(1),
        }
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_late_page_that_fails_is_an_error_and_not_a_short_list() {
    let fixture = with_few_logs();
    let server = Server::s3();
    put_many(&fixture, &server);
    let local = local_without(&fixture, &[]);
    let (run, _) = stats_with(&fixture, &server, late(Fault::None, 0));
    assert!(localized(&run.stdout, "s3") == local, "small pages");
    let (run, _) = stats_with(&fixture, &server, late(Fault::Status(503, "busy"), 2));
    assert!(
        localized(&run.stdout, "s3") == local,
        "a page that comes in the end: {}",
        run.stderr
    );
    for (name, fault) in [
        ("503", Fault::Status(503, "busy")),
        ("403", Fault::Status(403, "<Error><Code>AccessDenied</Code></Error>")),
        ("cut", Fault::Cut(100)),
        ("half a page", Fault::Shorten(150)),
        ("not a listing", Fault::Status(200, "<html>sorry</html>")),
    ] {
        let (run, problems) = stats_with(&fixture, &server, late(fault, usize::MAX));
        assert_eq!(run.status, Some(2), "{name}: {}", run.stderr);
        assert!(run.stdout.is_empty() && problems.is_empty(), "{name}");
        assert!(
            run.stderr.contains(&format!("s3://{BUCKET}/logs: ")),
            "{name}: {}",
            run.stderr
        );
    }
}

#[test]
#[ignore = "needs moto_server"]
fn a_server_that_says_when_to_ask_again_is_asked_again() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let local = local_without(&fixture, &[]);
    for status in [429, 503] {
        let (run, problems) = stats_with(&fixture, &server, move |_, before| match before {
            0 => Fault::Later(status, 1),
            _ => Fault::None,
        });
        assert_eq!(run.status, Some(0), "{status}: {}", run.stderr);
        assert!(
            problems.is_empty() && localized(&run.stdout, "s3") == local,
            "{status}: {problems:?}"
        );
    }
}

#[test]
#[ignore = "needs moto_server"]
fn an_answer_that_lies_is_a_problem_or_does_no_harm() {
    let fixture = with_few_logs();
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let (whole, without) = (local_without(&fixture, &[]), local_without(&fixture, &[BIG]));
    for (name, fault) in [
        ("tag", Fault::Header("etag", "\"0123456789abcdef0123456789abcdef\"")),
        ("length too large", Fault::Header("content-length", "99999999")),
        ("length too small", Fault::Header("content-length", "1000")),
        ("other stretch", Fault::Header("content-range", "bytes 5-10/20")),
        ("other size", Fault::Header("content-range", "bytes 0-2097151/99999999")),
        ("no stretch", Fault::Header("content-range", "nonsense")),
        ("range ignored", Fault::Unranged),
    ] {
        let decided = fault.clone();
        let (run, problems) = stats_with(&fixture, &server, move |request, _| match request.reads(BIG) {
            true => decided.clone(),
            false => Fault::None,
        });
        match run.status {
            // A server that sends what was asked for, however it says so.
            Some(0) => assert!(problems.is_empty() && localized(&run.stdout, "s3") == whole, "{name}"),
            Some(3) => {
                let start = format!("s3://{BUCKET}/logs/{BIG}: ");
                assert!(
                    problems.len() == 1 && problems[0].starts_with(&start),
                    "{name}: {problems:?}"
                );
                assert!(sums(&run.stdout) == sums(&without), "{name}");
            }
            status => panic!("{name}: {status:?}: {}", run.stderr),
        }
        assert!(
            run.status == Some(3) || name == "range ignored",
            "{name} went unnoticed"
        );
    }
}

#[test]
#[ignore = "needs moto_server"]
fn empty_and_damaged_objects_are_what_such_files_are() {
    let fixture = with_few_logs();
    let big = std::fs::read(fixture.path(format!("logs/{BIG}"))).expect("a log");
    let packed = zstd::encode_all(&big[..], 1).expect("compressed");
    let mut flipped = packed.clone();
    flipped[packed.len() / 2] ^= 0x10;
    let mut zipper = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut zipper, &big[..1 << 20]).expect("compressed");
    let mut zipped = zipper.finish().expect("compressed");
    fixture.write("logs/odd/empty.jsonl", b"");
    fixture.write("logs/odd/empty.jsonl.zst", b"");
    fixture.write("logs/odd/cut.jsonl.zst", &packed[..packed.len() / 2]);
    fixture.write("logs/odd/flipped.jsonl.zst", flipped);
    let length = zipped.len();
    fixture.write("logs/odd/cut.jsonl.gz", &zipped[..length / 2]);
    zipped[length - 6] ^= 1;
    fixture.write("logs/odd/checksum.jsonl.gz", &zipped);
    let server = Server::s3();
    server.put_files(&fixture, &logs_of(&fixture));
    let proxy = Proxy::new(server.address, |_, _| Fault::None);
    let run = |path: &str| {
        let mut command = fixture.command(STATS);
        command.args([path, "--strict"]).envs(s3_variables(proxy.address));
        checked(command)
    };
    let (local, remote) = (run("logs"), run(&format!("s3://{BUCKET}/logs")));
    assert_eq!(local.status, Some(3));
    assert_eq!(local.status, remote.status);
    assert!(local.stdout == localized(&remote.stdout, "s3"));
    let problems = String::from_utf8(localized(remote.stderr.as_bytes(), "s3")).expect("UTF-8");
    assert_eq!(local.stderr, problems);
    assert!(
        problems.lines().filter(|line| line.contains("broken-stream")).count() >= 4,
        "{problems}"
    );
}
