//! Times `backcast stats` and its peers on the same generated logs, in one run.
//!
//! `cargo bench --bench peers -- [--bytes 1GiB] [--files 2000] [--huge 300MiB] [--codex 300MiB]
//! [--repeat 5] [--corpus DIR] [--fresh] [--save] [--date YYYY-MM-DD]`
//!
//! Every contender is a whole child process with its output thrown away, so that start-up, the walk
//! over the folder and printing count for all alike. Rounds are interleaved and each starts with
//! another contender: noise of the machine hits all of them. Every timed run directly follows one of
//! the same contender that is not timed, and is repeated if logs were read from disk
//! meanwhile. One extra round goes first; it is not timed either, its output is kept, and a contender
//! that found no tokens in it is reported as failed, because doing nothing is always fast. Peers that
//! are not installed are named and left out.
//!
//! Peak memory comes from polling `/proc/<pid>/status`: `anon` is the largest `RssAnon` seen
//! (memory outside mapped pages), `rss` is `VmHWM`, which the kernel tracks exactly but which
//! includes mapped files. Where there is no `/proc` both stay empty.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark runner reads the clock, the environment and the disk"
)]
#![allow(clippy::cast_precision_loss, reason = "sizes and token counts stay far below 2^52")]

mod corpora;
mod duckdb;
mod measure;
mod options;
mod races;
mod report;
mod saved;
mod scan;
mod tools;

use corpora::{corpora, target_dir};
use measure::run_round;
use options::{Options, USAGE};
use races::races;
use report::report;
use saved::save;
use scan::{SCAN, scan_newlines};
use std::env;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::process::ExitCode;
use tools::Tools;

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    if args.first().is_some_and(|arg| arg == SCAN) {
        return scan_newlines(&args[1..]);
    }
    if !args.iter().any(|arg| arg == "--bench") {
        println!("peers: timings only make sense under `cargo bench --bench peers`");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(&args) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("peers: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("peers: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let scratch = target_dir().join("bench-corpus");
    fs::create_dir_all(&scratch)?;
    let corpora = corpora(options, &scratch)?;
    let tools = Tools::find();
    let mut races = races(&tools, &corpora, &scratch)?;
    for round in 0..=options.repeat {
        eprintln!("round {round} of {}", options.repeat);
        run_round(&mut races, round, &scratch);
    }
    let report = report(options, &tools, &corpora, &races);
    print!("{report}");
    if options.save {
        println!("\nsaved {}", save(options, &tools, &report)?.display());
    }
    Ok(())
}
