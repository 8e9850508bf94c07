//! Processes that die, stop and come back, and measurements: minutes of work on generated logs. 256 MiB, or `MIB`.
//!
//! ```text
//! cargo test -p backcast-cluster --features faults -- --ignored --nocapture --test-threads 1
//! ```

use crate::cluster::{Cluster, PROGRAM, Process, copy_tree, local, text};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// Long enough for everything that ends by itself.
const PATIENCE: Duration = Duration::from_secs(1800);

/// Writes logs into the folder `logs`, as long as two executors are busy with them for seconds.
fn generate_logs(cluster: &Cluster) -> u64 {
    let mebibytes = std::env::var("MIB")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(256u64);
    let bytes = format!("{mebibytes}MiB");
    let made = local(
        cluster.folder.path(),
        &[
            "synth",
            "bulk",
            "--out",
            "logs",
            "--bytes",
            &bytes,
            "--files",
            "200",
            "--corruption",
            "0.001",
        ],
    );
    assert!(made.status.success(), "{}", text(&made.stderr));
    mebibytes << 20
}

/// Submits, checks that the part is the wanted one, and returns how long that took.
fn submit_checked(cluster: &Cluster, wanted: &[u8], disturb: impl FnOnce(&Process)) -> Duration {
    let _ = fs::remove_dir_all(cluster.path("parts"));
    let start = Instant::now();
    let mut submit = cluster.start_submit(&["logs", "--out", "parts"]);
    disturb(&submit);
    assert_eq!(submit.wait(PATIENCE), Some(0), "{}", submit.said());
    let time = start.elapsed();
    assert!(cluster.part("parts") == wanted, "the same bytes");
    time
}

/// Numbers from a seed (SplitMix64).
struct Moments(u64);

impl Moments {
    /// Returns a share of a run between a twentieth and nineteen of them.
    fn next_share(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        0.05 + 0.9 * ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[test]
#[ignore = "takes minutes"]
fn an_executor_that_is_killed_costs_time_alone() {
    let mut cluster = Cluster::start(2);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let whole = submit_checked(&cluster, &wanted, |_| ());
    println!("undisturbed: {whole:.1?}");
    let mut moments = Moments(31);
    for round in 1..=10 {
        let share = moments.next_share();
        let mut victim = cluster.executors.remove(0);
        let time = submit_checked(&cluster, &wanted, |_| {
            std::thread::sleep(whole.mul_f64(share));
            victim.kill();
        });
        println!("SIGKILL {round} at {:.0} %: {time:.1?}, the same part", share * 100.0);
        drop(victim);
        cluster.add_executor(&[]);
        cluster.await_executors(2);
    }
}

#[test]
#[ignore = "takes minutes"]
fn an_executor_that_stops_is_not_waited_for() {
    let mut cluster = Cluster::start(2);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let whole = submit_checked(&cluster, &wanted, |_| ());
    for share in [0.2, 0.5, 0.9] {
        let stopped = cluster.executors.remove(0);
        let time = submit_checked(&cluster, &wanted, |_| {
            std::thread::sleep(whole.mul_f64(share));
            stopped.signal("STOP");
        });
        println!("SIGSTOP at {:.0} %: {time:.1?}, the same part", share * 100.0);
        // It goes on as if nothing had happened, and is of use again.
        stopped.signal("CONT");
        cluster.executors.push(stopped);
        cluster.await_executors(2);
    }
    let time = submit_checked(&cluster, &wanted, |_| ());
    println!("with all that were stopped: {time:.1?}, the same part");
}

#[test]
#[ignore = "takes minutes"]
fn a_cluster_without_executors_is_a_clear_error_and_the_rest_is_done_later() {
    let mut cluster = Cluster::start(2);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let whole = submit_checked(&cluster, &wanted, |_| ());
    fs::remove_dir_all(cluster.path("parts")).expect("removed");
    let mut submit = cluster.start_submit(&["logs", "--out", "parts", "--wait", "20"]);
    std::thread::sleep(whole.mul_f64(0.7));
    cluster.executors.clear();
    let killed = Instant::now();
    assert_eq!(submit.wait(Duration::from_secs(120)), Some(2));
    let said = submit.said();
    println!("all killed: the end after {:.1?}: {}", killed.elapsed(), said.trim());
    assert!(
        said.contains("lost") || said.contains("No executors") || said.contains("gave up"),
        "{said}"
    );
    assert!(said.contains("the same command finishes the rest"), "{said}");
    cluster.add_executor(&[]);
    cluster.add_executor(&[]);
    cluster.await_executors(2);
    submit_checked_again(&cluster, &wanted);
}

/// Submits into a folder where an earlier submit left something.
fn submit_checked_again(cluster: &Cluster, wanted: &[u8]) {
    let kept = fs::read_dir(cluster.path("parts/.collected")).map_or(0, Iterator::count);
    let start = Instant::now();
    let run = cluster.submit(&["logs", "--out", "parts"]);
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert!(cluster.part("parts") == wanted, "the same bytes");
    println!(
        "submitted again with {kept} parts there: {:.1?}, the same part",
        start.elapsed()
    );
}

#[test]
#[ignore = "takes minutes"]
fn a_scheduler_that_is_killed_is_a_clear_error_and_the_rest_is_done_later() {
    let mut cluster = Cluster::start(2);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let whole = submit_checked(&cluster, &wanted, |_| ());
    fs::remove_dir_all(cluster.path("parts")).expect("removed");
    let mut submit = cluster.start_submit(&["logs", "--out", "parts"]);
    std::thread::sleep(whole.mul_f64(0.8));
    cluster.scheduler.kill();
    let killed = Instant::now();
    assert_eq!(submit.wait(Duration::from_secs(60)), Some(2));
    let said = submit.said();
    println!(
        "scheduler killed: the end after {:.1?}: {}",
        killed.elapsed(),
        said.trim()
    );
    assert!(said.contains("cannot be reached"), "{said}");
    assert!(said.contains("the same command finishes the rest"), "{said}");
    // The executors find the new one by themselves.
    cluster.restart_scheduler(PROGRAM.as_ref());
    cluster.await_executors(2);
    submit_checked_again(&cluster, &wanted);
}

#[test]
#[ignore = "takes minutes"]
fn a_scheduler_that_comes_back_at_once_is_only_a_delay() {
    let mut cluster = Cluster::start(2);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let whole = submit_checked(&cluster, &wanted, |_| ());
    fs::remove_dir_all(cluster.path("parts")).expect("removed");
    let start = Instant::now();
    let mut submit = cluster.start_submit(&["logs", "--out", "parts"]);
    std::thread::sleep(whole.mul_f64(0.5));
    cluster.restart_scheduler(PROGRAM.as_ref());
    assert_eq!(submit.wait(PATIENCE), Some(0), "{}", submit.said());
    assert!(cluster.part("parts") == wanted, "the same bytes");
    println!(
        "scheduler restarted: the same part after {:.1?}, undisturbed {whole:.1?}",
        start.elapsed()
    );
}

/// Builds the program from other sources: one file has one more line, and the version is another, so that Cargo keeps the results
/// of the two builds apart.
fn build_other(folder: &Path) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = folder.join("other-sources");
    fs::create_dir(&sources).expect("a folder");
    for name in ["Cargo.toml", "Cargo.lock", "build.rs", "README.md"] {
        fs::copy(root.join(name), sources.join(name)).expect("copied");
    }
    for name in ["src", "crates", "benches", "examples", "tests"] {
        copy_tree(&root.join(name), &sources.join(name));
    }
    let changed = sources.join("src/run/parts.rs");
    let mut source = fs::read_to_string(&changed).expect("a source");
    source.push_str("\n// Another build.\n");
    fs::write(&changed, source).expect("written");
    let manifest = fs::read_to_string(sources.join("Cargo.toml")).expect("a manifest");
    let version = env!("CARGO_PKG_VERSION");
    let (minor, _) = version.rsplit_once('.').expect("three numbers");
    let manifest = manifest.replacen(
        &format!("\nversion = \"{version}\""),
        &format!("\nversion = \"{minor}.999\""),
        1,
    );
    fs::write(sources.join("Cargo.toml"), manifest).expect("written");
    // What does not depend on the sources is taken from the build of this test. Cargo puts the other program in place of the
    // tested one, which is put back.
    let tested = folder.join("backcast-cluster-tested");
    fs::copy(PROGRAM, &tested).expect("copied");
    let target = Path::new(PROGRAM).ancestors().nth(2).expect("a target folder");
    let built = Command::new(env!("CARGO"))
        .current_dir(&sources)
        .args([
            "build",
            "--quiet",
            "--offline",
            "-p",
            "backcast-cluster",
            "--target-dir",
        ])
        .arg(target)
        .output()
        .expect("cargo starts");
    assert!(built.status.success(), "{}", text(&built.stderr));
    let other = folder.join("backcast-cluster-other");
    fs::copy(PROGRAM, &other).expect("copied");
    fs::remove_file(PROGRAM).expect("removed");
    fs::copy(&tested, PROGRAM).expect("put back");
    other
}

#[test]
#[ignore = "builds the program once more"]
fn an_executor_of_another_build_refuses_work() {
    let keep = tempfile::tempdir().expect("a folder");
    // The build below replaces the program.
    let program = keep.path().join("backcast-cluster");
    fs::copy(PROGRAM, &program).expect("copied");
    let other = build_other(keep.path());
    fs::copy(&program, PROGRAM).expect("put back");

    // It does not join.
    let mut cluster = Cluster::start(1);
    generate_logs(&cluster);
    let wanted = cluster.map_local(&["logs"]);
    let mut stranger = cluster.start_executor(&other, &[]);
    assert_eq!(stranger.wait(Duration::from_secs(30)), Some(2));
    println!("at the start: {}", stranger.said().trim());
    assert!(
        stranger.said().contains("hint: start the same build everywhere"),
        "{}",
        stranger.said()
    );

    // A client of another build is refused, too.
    let mut command = Command::new(&other);
    command.current_dir(cluster.folder.path());
    command.args(["submit", "logs", "--out", "refused", "--scheduler", &cluster.address()]);
    let refused = command.output().expect("starts");
    assert_eq!(refused.status.code(), Some(2));
    assert!(
        text(&refused.stderr).contains("start the same build everywhere"),
        "{}",
        text(&refused.stderr)
    );

    // It is there from before an update: its work is done elsewhere, and it leaves.
    cluster.executors.clear();
    cluster.restart_scheduler(&other);
    let mut old = cluster.start_executor(&other, &[]);
    cluster.await_executors(1);
    cluster.restart_scheduler(PROGRAM.as_ref());
    cluster.add_executor(&[]);
    cluster.await_executors(2);
    let time = submit_checked(&cluster, &wanted, |_| ());
    assert_eq!(old.wait(Duration::from_secs(30)), Some(2));
    println!("after an update ({time:.1?}, the same part): {}", old.said().trim());
    assert!(old.said().contains("refused work of another build"), "{}", old.said());
}

#[cfg(feature = "faults")]
#[test]
#[ignore = "takes minutes"]
fn a_log_that_kills_executors_ends_in_a_clear_error() {
    let mut cluster = Cluster::start_with(2, &[("BACKCAST_CLUSTER_FAULT", "abort:poison")]);
    generate_logs(&cluster);
    let log = fs::read_dir(cluster.path("logs")).expect("logs").find_map(|entry| {
        let path = entry.expect("an entry").path();
        path.extension().is_some_and(|end| end == "jsonl").then_some(path)
    });
    let poison = cluster.path("logs/poison.jsonl");
    match log {
        Some(log) => fs::copy(log, &poison).map(|_| ()).expect("copied"),
        None => fs::write(&poison, b"{}\n").expect("written"),
    }
    let wanted = cluster.map_local(&["logs"]);
    let start = Instant::now();
    let mut submit = cluster.start_submit(&["logs", "--out", "parts", "--wait", "20"]);
    assert_eq!(submit.wait(Duration::from_secs(240)), Some(2));
    println!(
        "a log that kills: the end after {:.1?}: {}",
        start.elapsed(),
        submit.said().trim()
    );
    assert!(submit.said().contains("the same command finishes the rest"));
    // Once the defect is mended, the rest is done.
    cluster.executors.clear();
    cluster.add_executor(&[]);
    cluster.await_executors(1);
    submit_checked_again(&cluster, &wanted);
}

#[test]
#[ignore = "needs recorded logs in ../shared/transcripts"]
fn recorded_logs_give_the_part_of_one_machine() {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/transcripts");
    assert!(recorded.is_dir(), "{}", recorded.display());
    let recorded = recorded.to_str().expect("UTF-8");
    let cluster = Cluster::start(2);
    for options in [&[recorded][..], &[recorded, "--texts"]] {
        let _ = fs::remove_dir_all(cluster.path("local"));
        let _ = fs::remove_dir_all(cluster.path("parts"));
        let wanted = cluster.map_local(options);
        let run = cluster.submit(&[&["--out", "parts"], options].concat());
        assert!(run.status.success(), "{}", text(&run.stderr));
        assert!(cluster.part("parts") == wanted, "{options:?}");
        println!("{} bytes, the same part, {} options", wanted.len(), options.len() - 1);
    }
}

#[test]
#[ignore = "measures"]
fn times_and_memory() {
    let mut cluster = Cluster::start(1);
    let bytes = generate_logs(&cluster);
    let start = Instant::now();
    let wanted = cluster.map_local(&["logs"]);
    println!("{} MiB; locally on all cores: {:.1?}", bytes >> 20, start.elapsed());
    let _ = fs::remove_dir_all(cluster.path("local"));
    let start = Instant::now();
    cluster.map_local(&["logs", "--threads", "1"]);
    println!("locally on one core: {:.1?}", start.elapsed());
    for executors in 1..=2 {
        if executors == 2 {
            cluster.add_executor(&[]);
            cluster.await_executors(2);
        }
        let time = submit_checked(&cluster, &wanted, |_| ());
        println!("{executors} executors of one core: {time:.1?}");
    }
    // Many logs of a few bytes: what is left is the engine.
    for (folder, count) in [("few", 64), ("many", 64 * 64)] {
        fs::create_dir(cluster.path(folder)).expect("a folder");
        for number in 0..count {
            fs::write(cluster.path(folder).join(format!("{number}.jsonl")), b"{}\n").expect("a log");
        }
        let start = Instant::now();
        let run = cluster.submit(&[folder, "--out", &format!("parts-{folder}")]);
        assert!(run.status.success(), "{}", text(&run.stderr));
        println!("{count} logs of 3 bytes: {:.2?}", start.elapsed());
    }
    let memory = |process: &Process| process.peak_memory() >> 20;
    println!("peak memory: scheduler {} MiB", memory(&cluster.scheduler));
    for executor in &cluster.executors {
        println!("peak memory: executor {} MiB", memory(executor));
    }
}
