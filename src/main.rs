//! The `backcast` binary: reads the command line, runs a command, turns its end into an exit status.

use backcast::cli::defaults::{ParseFailure, parse_command_line};
use backcast::commands::terminal::print_notice;
use backcast::commands::{self, RunStatus};
use std::borrow::Cow;
use std::process::ExitCode;

fn main() -> ExitCode {
    let typed = std::env::args_os().collect::<Vec<_>>();
    let (cli, matches) = match parse_command_line(&typed) {
        Ok(parsed) => parsed,
        Err(ParseFailure::Usage(error)) => {
            print_usage_error(&error);
            if let Some(hint) = commands::usage_hint(&error) {
                print_notice(format_args!("\n{hint}"));
            }
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
        Err(ParseFailure::Config(error)) => {
            print_notice(format_args!("backcast: {error:#}"));
            return ExitCode::from(2);
        }
    };
    match commands::run(cli, &matches) {
        Ok(RunStatus::Done) => ExitCode::SUCCESS,
        Ok(RunStatus::Found) => ExitCode::from(1),
        Ok(RunStatus::InputLost) => ExitCode::from(3),
        Err(error) => {
            print_notice(format_args!("backcast: {error:#}"));
            ExitCode::from(2)
        }
    }
}

/// Prints what clap says. An argument that would act on the terminal is shown without its power, and then nothing is colored.
fn print_usage_error(error: &clap::Error) {
    let plain = error.render().to_string();
    match language::visible::strip_controls(&plain) {
        Cow::Borrowed(_) => {
            let _ = error.print();
        }
        Cow::Owned(plain) => print_notice(format_args!("{}", plain.trim_end())),
    }
}
