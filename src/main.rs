//! The `backcast` binary: reads the command line, runs a command, turns its end into an exit status.

use backcast::cli::Cli;
use backcast::commands::{self, RunStatus};
use clap::{CommandFactory, FromArgMatches};
use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            let _ = error.print();
            if let Some(hint) = commands::usage_hint(&error) {
                eprintln!("\n{hint}");
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match commands::run(cli, &matches) {
        Ok(RunStatus::Done) => ExitCode::SUCCESS,
        Ok(RunStatus::Found) => ExitCode::from(1),
        Ok(RunStatus::InputLost) => ExitCode::from(3),
        Err(error) if commands::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("backcast: {error:#}");
            ExitCode::from(2)
        }
    }
}
