//! Runs in which nothing breaks: what comes out is what one machine makes.

use crate::cluster::{Cluster, PROGRAM, copy_tree, corpus, free_ports, local, text};
use std::fs;
use std::process::Command;

/// Puts the bundled logs into the folder `logs`, some of them compressed, and adds logs that cannot be read to their end.
fn write_logs(cluster: &Cluster) {
    copy_tree(&corpus(), &cluster.path("logs"));
    let plain = fs::read(cluster.path("logs/plain").join("session.jsonl")).unwrap_or_else(|_| b"{}\n".to_vec());
    fs::write(
        cluster.path("logs/packed.jsonl.zst"),
        zstd::encode_all(&*plain, 1).expect("packed"),
    )
    .expect("a log");
    fs::write(cluster.path("logs/broken.jsonl.gz"), b"\x1f\x8b\x08\x00 not a stream").expect("a log");
    fs::write(cluster.path("logs/empty.jsonl"), b"").expect("a log");
}

#[test]
fn the_part_is_that_of_one_machine() {
    let cluster = Cluster::start(2);
    write_logs(&cluster);
    for options in [&["logs"][..], &["logs", "--texts"], &["logs", "--max-line", "256KiB"]] {
        let _ = fs::remove_dir_all(cluster.path("local"));
        let wanted = cluster.map_local(options);
        let _ = fs::remove_dir_all(cluster.path("parts"));
        let run = cluster.submit(&[&["--out", "parts"], options].concat());
        assert!(run.status.success(), "{options:?}: {}", text(&run.stderr));
        assert!(cluster.part("parts") == wanted, "{options:?}");
        let path = text(&run.stdout);
        assert!(cluster.path(path.trim_end()).is_file(), "its path is printed: {path}");
        assert!(!cluster.path("parts/.collected").exists(), "nothing is left");
    }
}

#[test]
fn a_command_says_what_it_says_of_the_logs() {
    let cluster = Cluster::start(2);
    write_logs(&cluster);
    for command in [
        &["stats", "-f", "json", "--by", "day"][..],
        &["stats", "--problems", "--strict"],
        &["check", "--max-cost", "0.01"],
        &["audit"],
    ] {
        let mut args = command.to_vec();
        args.insert(1, "logs");
        let wanted = local(cluster.folder.path(), &args);
        let run = cluster.submit(&[&["logs", "--out", "parts", "--quiet", "--"], command].concat());
        assert_eq!(
            run.status.code(),
            wanted.status.code(),
            "{command:?}: {}",
            text(&run.stderr)
        );
        assert!(run.stdout == wanted.stdout, "{command:?}");
        assert_eq!(text(&run.stderr), text(&wanted.stderr), "{command:?}");
        assert!(!run.stdout.is_empty());
    }
}

#[test]
fn problems_and_statuses_are_those_of_map() {
    let cluster = Cluster::start(1);
    write_logs(&cluster);
    for (options, status) in [(&["--problems"][..], 0), (&["--strict"], 3)] {
        let wanted = local(
            cluster.folder.path(),
            &[&["map", "logs", "--no-cache", "--out", "local"], options].concat(),
        );
        let run = cluster.submit(&[&["logs", "--out", "parts"], options].concat());
        assert_eq!(run.status.code(), Some(status));
        assert_eq!(wanted.status.code(), Some(status));
        // Paths of the part and the time that the cluster took differ.
        let problems = |text: String| {
            let lines = text
                .lines()
                .filter(|line| !line.contains("part: ") && !line.contains("on the cluster"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        let (problems, wanted) = (problems(text(&run.stderr)), problems(text(&wanted.stderr)));
        assert_eq!(problems, wanted);
        assert!(problems.len() > 1, "there are problems");
    }
}

#[test]
fn a_plan_is_explained_without_a_cluster() {
    let explained = || {
        let mut command = Command::new(PROGRAM);
        let args = ["submit", "--explain", "--out", "nowhere", "--scheduler", "127.0.0.1:9"];
        command.args(args).arg(corpus());
        command.output().expect("the program starts")
    };
    let run = explained();
    assert!(run.status.success(), "{}", text(&run.stderr));
    let plan = text(&run.stdout);
    assert!(
        plan.contains("ProjectionExec: expr=[number@0 as number, backcast_map_1(path@1"),
        "{plan}"
    );
    assert!(plan.contains("DataSourceExec: partitions=3"), "{plan}");
    assert!(
        plan.contains("logs (") && plan.contains("in 3 tasks, at most 16 to a job"),
        "{plan}"
    );
    assert_eq!(plan, text(&explained().stdout));
}

#[test]
fn the_script_starts_a_cluster_and_stops_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let script = corpus().join("../crates/cluster/local");
    let port = free_ports(30);
    let bin = std::path::Path::new(PROGRAM).parent().expect("a folder");
    let run = Command::new(script)
        .env("PORT", port.to_string())
        .env("BIN", bin)
        .arg(corpus())
        .arg("--out")
        .arg(folder.path())
        .args(["--", "overview"])
        .output()
        .expect("the script starts");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(text(&run.stdout).contains("Next"), "{}", text(&run.stdout));
    assert!(
        std::net::TcpStream::connect(("127.0.0.1", port)).is_err(),
        "the scheduler is gone"
    );
}
