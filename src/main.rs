//! The `backcast` binary: reads the command line, runs a command, turns its end into an exit status.

use backcast::cli::Cli;
use backcast::commands::{self, Ending};
use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            let _ = error.print();
            if let Some(hint) = commands::hint(&error) {
                eprintln!("\n{hint}");
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
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
