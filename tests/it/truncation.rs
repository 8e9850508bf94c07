//! A log that changes while it is read: cut, grown, renamed away and put back. The run ends well every time; it is
//! never killed by a signal, because a log that another process writes to is read, not mapped.

use crate::fixture::Fixture;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

/// Changes a log in every way until `stop` is set, then restores it.
fn torment(log: &Path, content: &[u8], stop: &AtomicBool) {
    let aside = log.with_extension("aside");
    let mut step = 1;
    while !stop.load(Ordering::Relaxed) {
        let file = OpenOptions::new().write(true).open(log).expect("the log");
        // Cuts at places that walk through the file: 7 is prime to the number of places.
        step = (step * 7) % 101;
        file.set_len(content.len() as u64 * step / 101).expect("cut");
        drop(file);
        let mut file = OpenOptions::new().append(true).open(log).expect("the log");
        file.write_all(&content[..content.len() / 16]).expect("grown");
        file.write_all(b"{\"type\":\"user\",\"uuid\":\"unfinish")
            .expect("grown");
        drop(file);
        std::fs::rename(log, &aside).expect("renamed");
        std::fs::write(log, &content[..content.len() / 2]).expect("another in its place");
        std::fs::rename(&aside, log).expect("put back");
        std::fs::write(log, content).expect("restored");
    }
}

#[test]
fn a_log_that_changes_while_it_is_read_never_kills_the_run() {
    let fixture = Fixture::new();
    let out = fixture.path("bulk");
    let args = ["synth", "bulk", "--bytes=20MiB", "--files=1", "--seed=5", "--out"];
    fixture
        .run(args.iter().map(|arg| arg.as_ref()).chain([out.as_os_str()]))
        .success();
    let log = crate::fixture::logs_below(&out).remove(0);
    let content = std::fs::read(&log).expect("the log");
    // A second log, so that there is something to read at any moment.
    fixture.write("bulk/projects/second/quiet.jsonl", crate::fixture::only_log("plain"));
    let stats = |more: &[&str]| {
        let args = ["stats", "--quiet", "--format=json"]
            .iter()
            .chain(more)
            .map(|arg| arg.as_ref());
        fixture.run(args.chain([out.as_os_str()]))
    };
    let before = stats(&["--no-cache"]).success().stdout;

    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| torment(&log, &content, &stop));
        let runs = (0..8).map(|run| {
            stats(if run % 2 == 0 {
                &["--no-cache"]
            } else {
                &["--threads=4"]
            })
        });
        let runs = runs.collect::<Vec<_>>();
        // Before any assertion: a panic would leave the other thread running.
        stop.store(true, Ordering::Relaxed);
        for run in runs {
            let stats = run.success().json();
            assert!(
                stats["totals"]["responses"].as_u64() >= Some(4),
                "the second log counts"
            );
        }
    });
    assert!(
        stats(&[]).success().stdout == before,
        "what was cached meanwhile is not taken for the restored log"
    );
}
