//! What the engine makes of a failure: what passes is tried again, what does not is told, and nothing hangs.

use crate::cluster::{Cluster, PROGRAM, copy_tree, corpus, text};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_cluster_that_is_not_there_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let submit = |scheduler: &str| {
        let mut command = Command::new(PROGRAM);
        command.current_dir(folder.path()).arg("submit").arg(corpus());
        command.args(["--out", "parts", "--wait", "1", "--scheduler", scheduler]);
        command.output().expect("the program starts")
    };
    let start = Instant::now();
    let run = submit("127.0.0.1:9");
    assert_eq!(run.status.code(), Some(2));
    let said = text(&run.stderr);
    assert!(
        said.contains("the scheduler at 127.0.0.1:9 cannot be reached"),
        "{said}"
    );
    assert!(start.elapsed() < Duration::from_secs(10));
    let cluster = Cluster::start(0);
    let run = submit(&cluster.address());
    assert_eq!(run.status.code(), Some(2));
    let said = text(&run.stderr);
    assert!(
        said.contains("has no executor") && said.contains("hint: start one"),
        "{said}"
    );
}

#[test]
fn a_log_that_executors_do_not_see_is_named() {
    let cluster = Cluster::start(1);
    copy_tree(&corpus().join("plain"), &cluster.path("logs"));
    cluster.submit(&["logs", "--out", "parts"]);
    // The log is there when it is found, and gone for the executor: as on a machine without the mount.
    cluster.executors[0].signal("STOP");
    let mut submit = cluster.start_submit(&["logs", "--out", "other", "--wait", "30"]);
    let start = Instant::now();
    while cluster
        .status()
        .is_none_or(|status| status["jobs"].as_array().is_none_or(Vec::is_empty))
    {
        assert!(start.elapsed() < Duration::from_secs(20), "no job: {}", submit.said());
        std::thread::sleep(Duration::from_millis(20));
    }
    fs::remove_dir_all(cluster.path("logs")).expect("removed");
    cluster.executors[0].signal("CONT");
    assert_eq!(submit.wait(Duration::from_secs(60)), Some(2));
    let said = submit.said();
    assert!(said.contains("the cluster gave up: executor 127.0.0.1:"), "{said}");
    assert!(said.contains("No such file or directory"), "{said}");
    assert!(
        said.contains("hint: 0 of 1 log are mapped") || said.contains("are mapped; the same command"),
        "{said}"
    );
}

#[cfg(feature = "faults")]
mod on_request {
    use super::*;
    use crate::cluster::local;

    /// A cluster of two whose executors harm the logs of a case.
    fn harmed(kind: &str) -> Cluster {
        let cluster = Cluster::start_with(2, &[("BACKCAST_CLUSTER_FAULT", &format!("{kind}:boundary-"))]);
        copy_tree(&corpus(), &cluster.path("logs"));
        cluster
    }

    #[test]
    fn a_storage_fault_that_passes_is_tried_again() {
        let cluster = harmed("io");
        let run = cluster.submit(&["logs", "--out", "parts"]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(cluster.part("parts") == cluster.map_local(&["logs"]));
    }

    #[test]
    fn a_log_that_panics_is_a_problem_and_is_not_tried_again() {
        let cluster = harmed("panic");
        let run = cluster.submit(&["logs", "--out", "parts", "--strict", "--problems"]);
        assert_eq!(run.status.code(), Some(3), "{}", text(&run.stderr));
        let said = text(&run.stderr);
        let harmed = said
            .lines()
            .filter(|line| line.contains("the executor panicked: on request"));
        let harmed = harmed.collect::<Vec<_>>();
        assert!(harmed.iter().all(|line| line.contains("boundary-")), "{said}");
        let panics = cluster
            .executors
            .iter()
            .map(|executor| executor.said().matches("panicked at").count());
        assert_eq!(panics.sum::<usize>(), harmed.len(), "once per log");
        assert!(harmed.len() > 3);
        // The rest is there.
        let count = |args: &[&str]| {
            let run = local(cluster.folder.path(), args);
            let json = serde_json::from_slice::<serde_json::Value>(&run.stdout).expect("JSON");
            json["logs"].as_u64().or(json["total"]["logs"].as_u64())
        };
        assert_eq!(
            count(&["reduce", "parts", "--", "overview", "-f", "json"]),
            count(&["overview", "logs", "-f", "json"])
        );
    }
}
