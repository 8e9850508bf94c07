//! `cargo bench --bench instructions`: instructions per byte of every stage, counted by valgrind's callgrind on a small
//! generated corpus. The count does not depend on the load of the machine, so a difference of one percent is real.
//!
//! The bench runs itself under callgrind once per stage and counts only what happens inside [`measured`].

mod logs;
mod stage;

use logs::generated;
use stage::{Prepared, STAGES, Stage};
use std::path::Path;
use std::process::Command;

/// Small, because callgrind slows execution down about fifty times.
const BYTES: u64 = 4 << 20;
const FILES: u32 = 8;

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    if let [flag, stage, folder] = arguments.as_slice()
        && flag == "--stage"
    {
        let stage = STAGES.iter().find(|known| known.name == stage).expect("a stage");
        measured(stage, &Prepared::new(Path::new(folder)));
        return;
    }
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("instructions: run with `cargo bench --bench instructions`");
        return;
    }
    let folder = generated(BYTES, FILES);
    let bytes = Prepared::new(&folder).bytes;
    println!("{bytes} bytes in {FILES} logs\n");
    println!("{:<20} {:>14} {:>10}  what", "stage", "instructions", "a byte");
    for stage in STAGES {
        match count(stage, &folder) {
            Ok(count) => {
                let each = count as f64 / bytes as f64;
                println!("{:<20} {count:>14} {each:>10.4}  {}", stage.name, stage.about);
            }
            Err(reason) => {
                println!("{:<20} not counted: {reason}", stage.name);
                return;
            }
        }
    }
}

/// Callgrind counts only inside this function.
#[inline(never)]
fn measured(stage: &Stage, prepared: &Prepared) {
    (stage.run)(prepared);
}

fn count(stage: &Stage, folder: &Path) -> Result<u64, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args([
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            "--toggle-collect=*measured*",
        ])
        .arg(this)
        .args(["--stage", stage.name])
        .arg(folder)
        .output()
        .map_err(|error| format!("valgrind: {error} (Debian package valgrind)"))?;
    let report = String::from_utf8_lossy(&output.stderr);
    let collected = report.lines().find_map(|line| line.split("Collected :").nth(1));
    collected
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| format!("callgrind gave no count: {}", report.lines().last().unwrap_or_default()))
}
