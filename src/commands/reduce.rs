//! `backcast reduce`: a command on the logs in parts, as if it were run on the logs.

use crate::cli::defaults::{ParseFailure, parse_command_line};
use crate::cli::{CliCommand, InputArgs};
use crate::commands::given::GivenOptions;
use crate::commands::memory::{MemoryArgs, MemoryCommand};
use crate::commands::{self, RunStatus, print};
use crate::run::parts::PartSet;
use crate::run::read_path_lists;
use anyhow::{Result, bail};
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;

/// Arguments of `reduce`.
#[derive(Debug, Args)]
#[command(after_long_help = long_help())]
pub struct ReduceArgs {
    /// Parts, and folders of parts, in any order; `-` reads a list of paths, one a line, from standard input.
    #[arg(value_name = "PART", required = true)]
    pub parts: Vec<PathBuf>,
    /// The command and its options, without paths.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

/// When a command reads the words of the logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextNeed {
    /// Never.
    Never,
    /// With any of these options.
    With(&'static [&'static str]),
    /// Always.
    Always,
}

/// A command that `reduce` runs.
pub struct ReducedCommand {
    /// Its words.
    pub name: &'static str,
    /// When its parts must hold texts.
    pub texts: TextNeed,
}

/// Declares the commands that `reduce` runs: name, need of texts, and where the command keeps its input.
macro_rules! reduced_commands {
    ($($name:literal, $texts:expr, $command:pat => $input:expr;)*) => {
        /// The commands that `reduce` runs.
        pub const REDUCED_COMMANDS: &[ReducedCommand] = &[
            $(ReducedCommand { name: $name, texts: $texts },)*
        ];

        /// Returns the input of a command that `reduce` runs.
        fn input_mut(command: &mut CliCommand) -> Option<&mut InputArgs> {
            match command {
                $($command => Some($input),)*
                _ => None,
            }
        }
    };
}

reduced_commands! {
    "overview", TextNeed::Never, CliCommand::Overview(args) => &mut args.input;
    "stats", TextNeed::Never, CliCommand::Stats(args) => &mut args.input;
    "audit", TextNeed::Never, CliCommand::Audit(args) => &mut args.input;
    "validate", TextNeed::Never, CliCommand::Validate(args) => &mut args.input;
    "replay", TextNeed::With(&["--with-text"]), CliCommand::Replay(args) => &mut args.input;
    "tune", TextNeed::Never, CliCommand::Tune(args) => &mut args.input;
    "check", TextNeed::Never, CliCommand::Check(args) => &mut args.input;
    "report", TextNeed::With(&["--memories", "--notes", "--all"]), CliCommand::Report(args) => &mut args.input;
    "notes", TextNeed::Always, CliCommand::Notes(args) => &mut args.input;
    "search", TextNeed::Always, CliCommand::Search(args) => &mut args.input;
    "memory extract", TextNeed::Always, CliCommand::Memory(MemoryArgs { command: MemoryCommand::Extract(args), .. }) => &mut args.input;
    "memory review", TextNeed::Always, CliCommand::Memory(MemoryArgs { command: MemoryCommand::Review(args), .. }) => &mut args.input;
}

/// Returns what stands below the help.
fn long_help() -> String {
    let all = REDUCED_COMMANDS.iter().map(|command| format!("`{}`", command.name));
    let with_texts = REDUCED_COMMANDS.iter().flat_map(|command| match command.texts {
        TextNeed::Never => Vec::new(),
        TextNeed::With(options) => options
            .iter()
            .map(|option| format!("`{} {option}`", command.name))
            .collect(),
        TextNeed::Always => vec![format!("`{}`", command.name)],
    });
    format!(
        "\
The output is byte for byte that of the command on the logs themselves. Options about reading (--io, --max-line, --follow-links,
--no-cache) belong to `map`. Parts of another build, damaged parts and incomplete sets are refused.

It runs {}. Parts with texts (`map --texts`) are needed for {}.

Examples:
  backcast map logs/ --out parts               parts, made on any machines
  backcast reduce parts -- stats --by day      a command on all of them
  backcast reduce parts -- report -o all.html  one page of everything",
        all.collect::<Vec<_>>().join(", "),
        with_texts.collect::<Vec<_>>().join(", ")
    )
}

/// Options of reading that are decided by `map`.
const MAP_OPTIONS: [&str; 5] = ["io", "max-line", "follow-links", "no-cache", "paths"];

/// Runs it.
pub fn run(args: &ReduceArgs, is_offline: bool) -> Result<RunStatus> {
    let typed = std::iter::once(OsString::from("backcast")).chain(args.command.iter().cloned());
    let (mut cli, matches) = match parse_command_line(&typed.collect::<Vec<_>>()) {
        Ok(parsed) => parsed,
        // A request for help is answered.
        Err(ParseFailure::Usage(error)) if error.exit_code() == 0 => return print(error.to_string().as_bytes()),
        Err(ParseFailure::Usage(error)) => {
            let text = error.to_string();
            bail!("after `--`: {}", text.trim_start_matches("error: ").trim_end());
        }
        Err(ParseFailure::Config(error)) => return Err(error),
    };
    let Some(input) = cli.command.as_mut().and_then(input_mut) else {
        let names = REDUCED_COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>();
        bail!(
            "`{}` does not read logs\n  hint: reduce runs {}",
            args.command[0].display(),
            names.join(", ")
        );
    };
    if let Some(given) = GivenOptions::new(&matches).list(&MAP_OPTIONS) {
        let given = given.replace("--paths", "paths of logs");
        bail!("{given}: this was decided when the parts were made\n  hint: pass it to `backcast map`");
    }
    let parts = PartSet::open(&read_path_lists(&args.parts)?)?;
    input.reading.paths = parts.roots().to_vec();
    input.parts = Some(parts);
    cli.offline |= is_offline;
    commands::run(cli, &matches)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::{Command, CommandFactory};

    /// Collects the commands that read logs.
    fn collect_readers(command: &Command, above: &str, found: &mut Vec<String>) {
        for sub in command.get_subcommands() {
            let name = format!("{above} {}", sub.get_name()).trim_start().to_owned();
            if sub.get_arguments().any(|arg| arg.get_long() == Some("follow-links")) {
                found.push(name.clone());
            }
            collect_readers(sub, &name, found);
        }
    }

    #[test]
    fn every_command_that_reads_logs_is_reduced() {
        let mut readers = Vec::new();
        collect_readers(&Cli::command(), "", &mut readers);
        readers.retain(|name| name != "map");
        readers.sort_unstable();
        let mut declared = REDUCED_COMMANDS.iter().map(|command| command.name).collect::<Vec<_>>();
        declared.sort_unstable();
        assert_eq!(readers, declared);
    }
}
