//! The `backcast` binary: reads the command line, runs a command, turns its end into an exit status.

use backcast::cli::Cli;
use backcast::commands::{self, Ending};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match commands::run(cli) {
        Ok(Ending::Done) => ExitCode::SUCCESS,
        Ok(Ending::Found) => ExitCode::from(1),
        Ok(Ending::InputLost) => ExitCode::from(3),
        Err(error) if commands::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("backcast: {error:#}");
            ExitCode::from(2)
        }
    }
}
