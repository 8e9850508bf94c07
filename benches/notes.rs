//! `cargo bench --bench notes [-- --bytes 1GiB] [--files 2000] [--corpus FOLDER]`: the cost of
//! notes. Whole runs as processes, `notes` and `stats` on the same logs, without a cache. Look at the ratio (bound: ten) and
//! at the peak of memory.

#[path = "logs/generated.rs"]
mod corpus;

use corpus::generated;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

const ROUNDS: usize = 3;

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1))
    };
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("notes: run with `cargo bench --bench notes`");
        return;
    }
    let size = after("--bytes").map_or("1GiB", |text| text);
    let bytes = backcast::cli::parse_size(size).expect("--bytes takes a size");
    let files = after("--files").map_or(2000, |text| text.parse().expect("--files takes a number"));
    let folder = after("--corpus").map_or_else(|| generated(bytes, files), PathBuf::from);
    println!("{:<24} {:>9} {:>8} {:>10}", "run", "s", "stats", "peak");
    let mut floor = None;
    let runs: [(&str, &[&str]); 4] = [
        ("stats", &["stats"]),
        ("notes", &["notes"]),
        ("notes --summary", &["notes", "--summary"]),
        ("notes --history", &["notes", "--history"]),
    ];
    for (name, arguments) in runs {
        let best = (0..ROUNDS).map(|_| run(arguments, &folder));
        let (seconds, peak) = best.fold((f64::INFINITY, 0), |best, now| (best.0.min(now.0), best.1.max(now.1)));
        let floor = *floor.get_or_insert(seconds);
        println!(
            "{name:<24} {seconds:>9.2} {:>7.1}x {:>6} MiB",
            seconds / floor,
            peak >> 10
        );
    }
}

/// Seconds and peak memory in KiB of one run.
fn run(arguments: &[&str], folder: &Path) -> (f64, u64) {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("bench-notes");
    // Notes that are there would be continued.
    let _ = std::fs::remove_dir_all(&out);
    let mut command = Command::new(env!("CARGO_BIN_EXE_backcast"));
    command
        .args(arguments)
        .arg(folder)
        .args(["--no-cache", "--quiet"])
        .stdout(Stdio::null());
    if arguments[0] == "notes" {
        command.arg("--out").arg(&out);
    }
    let start = Instant::now();
    let mut child = command.spawn().expect("the program starts");
    let mut peak = 0;
    // The kernel forgets the peak when the process is gone.
    while child.try_wait().expect("a child").is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let now = line.and_then(|line| line.trim().split(' ').next()?.parse::<u64>().ok());
        peak = peak.max(now.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    (start.elapsed().as_secs_f64(), peak)
}
