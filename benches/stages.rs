//! `cargo bench --bench stages [-- --bytes 256MiB] [--files 500]`: throughput of every stage on one thread, compared with
//! a plain newline count, on a generated corpus. Times are the best of several rounds; compare the ratios.

mod logs;
mod stage;

use logs::generated;
use stage::{Prepared, STAGES};
use std::path::PathBuf;
use std::time::Instant;

const ROUNDS: usize = 5;

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let after = |name: &str| {
        arguments
            .iter()
            .position(|argument| argument == name)
            .and_then(|at| arguments.get(at + 1))
    };
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("stages: run with `cargo bench --bench stages`");
        return;
    }
    let size = after("--bytes").map_or("256MiB", |text| text);
    let bytes = backcast::cli::parse_size(size).expect("--bytes takes a size");
    let files = after("--files").map_or(500, |text| text.parse().expect("--files takes a number"));
    let folder = after("--corpus").map_or_else(|| generated(bytes, files), PathBuf::from);

    let prepared = Prepared::new(&folder);
    println!(
        "{} logs, {:.1} MB, one thread, best of {ROUNDS}\n",
        prepared.paths.len(),
        prepared.bytes as f64 / 1e6
    );
    println!("{:<20} {:>8} {:>8} {:>9}  what", "stage", "ms", "GB/s", "newlines");
    let mut floor = None;
    for stage in STAGES {
        let best = (0..ROUNDS)
            .map(|_| timed(|| (stage.run)(&prepared)))
            .fold(f64::INFINITY, f64::min);
        let floor = *floor.get_or_insert(best);
        let speed = prepared.bytes as f64 / best / 1e9;
        println!(
            "{:<20} {:>8.1} {speed:>8.2} {:>8.2}x  {}",
            stage.name,
            best * 1e3,
            best / floor,
            stage.about
        );
    }
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
