//! One file per verb, and what they share.

#![allow(clippy::disallowed_methods, reason = "commands join the pure middle to the world")]
#![allow(clippy::print_stderr, reason = "problems are shown to the user here")]

mod audit;
mod compare;
mod config;
#[cfg(test)]
mod documented;
mod memory;
mod policy;
mod reading;
mod replay;
mod search;
mod stats;
mod synth;
mod tune;
mod validate;
mod words;
mod writing;

use crate::cli::{Cli, Command};
use anyhow::Result;
use clap::CommandFactory;
use std::io::{self, Write};

/// How a command ended, if nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All is well.
    Done,
    /// A check found something.
    Found,
    /// `--strict`, and some input was lost or skipped.
    InputLost,
}

/// Runs a command.
pub fn run(cli: Cli) -> Result<Ending> {
    match cli.command {
        Command::Stats(args) => stats::run(&args),
        Command::Audit(args) => audit::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Validate(args) => validate::run(&args),
        Command::Memory(args) => memory::run(&args),
        Command::Search(args) => search::run(&args),
        Command::Tune(args) => tune::run(&args),
        Command::Config(args) => config::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "backcast", &mut script);
            print(&script)
        }
        Command::Man => {
            let mut page = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut page)?;
            print(&page)
        }
    }
}

/// Writes to standard output; a reader that went away is noticed here.
fn print(bytes: &[u8]) -> Result<Ending> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()?;
    Ok(Ending::Done)
}

/// Whether an error only means that nobody reads the output any more.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_error = error.chain().find_map(|cause| cause.downcast_ref::<io::Error>());
    io_error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
