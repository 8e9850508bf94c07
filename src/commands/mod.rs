//! One file per verb, and what they share.

#![allow(clippy::disallowed_methods, reason = "commands join the pure middle to the world")]

pub(crate) mod audit;
mod backend;
pub(crate) mod check;
mod compare;
pub(crate) mod config;
pub(crate) mod doctor;
#[cfg(test)]
mod documented;
mod given;
pub mod map;
pub(crate) mod memory;
pub(crate) mod notes;
pub(crate) mod overview;
mod policy;
pub mod reading;
pub mod reduce;
pub(crate) mod replay;
mod replay_texts;
pub(crate) mod report;
pub(crate) mod search;
pub(crate) mod stats;
pub(crate) mod synth;
pub mod terminal;
pub(crate) mod tune;
pub(crate) mod validate;
mod writing;

use crate::cli::backend::BackendName;
use crate::cli::{Cli, CliCommand};
use crate::run::{NothingFound, forbid_network};
use ::notes::model::client::{HAS_CLIENT, NO_CLIENT};
use anyhow::{Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue};
use clap::{ArgMatches, CommandFactory};
use given::GivenOptions;
use language::visible::strip_controls;
use reading::report_problems;
use terminal::notice;

/// How a command ended, if nothing went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunStatus {
    /// All is well.
    Done,
    /// A check found something.
    Found,
    /// `--strict`, and some input was lost or skipped.
    InputLost,
}

/// Runs a command. One that finds nothing to show says so in place of its table.
pub fn run(cli: Cli, matches: &ArgMatches) -> Result<RunStatus> {
    let given = GivenOptions::new(matches);
    check_features(given)?;
    run_command(cli, given).or_else(|error| match error.downcast::<NothingFound>()? {
        NothingFound::Selected(nothing) => {
            if !given.has("quiet") {
                notice!("{nothing}");
            }
            Ok(RunStatus::Done)
        }
        NothingFound::NoSession { message, problems } => {
            report_problems(given, &problems);
            bail!("{message}")
        }
    })
}

fn run_command(cli: Cli, given: GivenOptions<'_>) -> Result<RunStatus> {
    let Some(command) = cli.command else {
        return overview::run_default();
    };
    // The one guard before everything else: what needs the network is not even opened.
    if cli.offline && command.backend() == Some(BackendName::Anthropic) {
        bail!("--offline forbids network access, and --backend anthropic needs it\n  hint: omit one of them");
    }
    if cli.offline {
        forbid_network();
    }
    match command {
        CliCommand::Overview(args) => overview::run(&args),
        CliCommand::Check(args) => check::run(&args),
        CliCommand::Stats(args) => stats::run(&args),
        CliCommand::Audit(args) => audit::run(&args),
        CliCommand::Replay(args) => replay::run(&args),
        CliCommand::Report(args) => report::run(&args, given),
        CliCommand::Validate(args) => validate::run(&args),
        CliCommand::Notes(args) => notes::run(&args, given),
        CliCommand::Memory(args) => memory::run(&args, given),
        CliCommand::Search(args) => search::run(&args),
        CliCommand::Tune(args) => tune::run(&args),
        CliCommand::Config(args) => config::run(&args),
        CliCommand::Doctor(args) => doctor::run(&args),
        CliCommand::Synth(args) => synth::run(&args),
        CliCommand::Map(args) => map::run(&args),
        CliCommand::Reduce(args) => reduce::run(&args, cli.offline),
        CliCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "backcast", &mut script);
            print(&script)
        }
        CliCommand::Man { command } => print(&manual_page(&command)?),
    }
}

/// Refuses options that need a feature this build lacks, before any work is done.
fn check_features(given: GivenOptions<'_>) -> Result<()> {
    if !table::HAS_PARQUET && (given.has_value("format", "parquet") || given.has_value("rounds", "parquet")) {
        bail!("{}", table::NO_PARQUET);
    }
    if !HAS_CLIENT && given.has_value("backend", "anthropic") {
        bail!("--backend anthropic: {NO_CLIENT}");
    }
    Ok(())
}

/// The manual page of a command; without one, of the program.
fn manual_page(path: &[String]) -> Result<Vec<u8>> {
    let mut command = Cli::command();
    command.build();
    for word in path {
        let found = command.find_subcommand(word).cloned();
        command = found.ok_or_else(|| anyhow!("there is no command `{}`", path.join(" ")))?;
    }
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page)?;
    Ok(page)
}

/// Writes to standard output.
fn print(bytes: &[u8]) -> Result<RunStatus> {
    let text = String::from_utf8_lossy(bytes);
    terminal::write_stdout(|out| out.write_all(strip_controls(&text).as_bytes()))?;
    Ok(RunStatus::Done)
}

/// The next step after a command line that makes no sense, where one is plain.
pub fn usage_hint(error: &clap::Error) -> Option<String> {
    let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidSubcommand) else {
        return None;
    };
    let is_path = std::path::Path::new(word).exists();
    is_path.then(|| {
        format!(
            "  hint: {word} is a path: backcast overview {}",
            table::words::shell_quote(word)
        )
    })
}
