//! The command line of `check`, as typed. Its limits are options that come from their declaration in [`budget`].

use crate::cli::{InputArgs, PolicyArgs, TimeArgs};
use crate::usage::budget;
use crate::usage::budget::{LIMITS, Limit};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use std::path::PathBuf;
use table::OutputFormat;

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Ends with status 1 if a limit is exceeded. Limits come from the command line or from a TOML file (--limits) with the same
names: `max-cost = 5.0`. Where a cost is limited, a call without a price exceeds `max-unpriced`: what is not known is not
within a limit.

Examples:
  backcast check --all                                    what there is to limit, measured on your sessions
  backcast check logs/ --max-cost 500 --max-recompactions 100
  backcast check logs/ --last 7 --max-day-cost 80 -f github
  backcast check logs/ --limits limits.toml -f junit -o check.xml
  backcast check logs/ --set window.percent=70 --max-without-effect 100")]
pub struct CheckArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Limits.
    #[command(flatten)]
    pub limits: LimitArgs,
    /// File of limits: TOML, a line each. Those of the command line come first.
    #[arg(long = "limits", value_name = "FILE", help_heading = "Limits")]
    pub file: Option<PathBuf>,
    /// Show every measure, also those without a limit. Without any limit nothing is judged.
    #[arg(long, help_heading = "Limits")]
    pub all: bool,
    /// Which times.
    #[command(flatten)]
    pub times: TimeArgs,
    /// Which policy, and the setting whose effect is looked for.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// How results are written.
    #[command(flatten)]
    pub out: CheckOutputArgs,
}

/// How checks are written.
#[derive(Debug, Args)]
pub struct CheckOutputArgs {
    /// How it is written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: CheckFormat,
    /// Write to a file instead of standard output.
    #[arg(long, short, value_name = "FILE", help_heading = "Output")]
    pub output: Option<PathBuf>,
    /// Replace that file if it exists.
    #[arg(long, requires = "output", help_heading = "Output")]
    pub force: bool,
}

/// How checks are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum CheckFormat {
    /// Aligned columns for people, fitted to the terminal
    #[default]
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values with a header
    Csv,
    /// Apache Parquet, for data frames and query engines
    Parquet,
    /// Annotations for GitHub
    Github,
    /// JUnit XML, which most CI systems show as tests
    Junit,
}

impl CheckFormat {
    /// The format of rows that it is; `None` for those that CI systems read.
    pub fn row_format(self) -> Option<OutputFormat> {
        match self {
            CheckFormat::Table => Some(OutputFormat::Table),
            CheckFormat::Json => Some(OutputFormat::Json),
            CheckFormat::Jsonl => Some(OutputFormat::Jsonl),
            CheckFormat::Csv => Some(OutputFormat::Csv),
            CheckFormat::Parquet => Some(OutputFormat::Parquet),
            CheckFormat::Github | CheckFormat::Junit => None,
        }
    }
}

/// Limits that were given, each of which is declared in [`budget::LIMITS`].
#[derive(Debug, Default)]
pub struct LimitArgs(pub Vec<(&'static Limit, f64)>);

impl Args for LimitArgs {
    fn augment_args(command: Command) -> Command {
        LIMITS.iter().fold(command, |command, limit| {
            let measure = limit.measure;
            let parse = move |text: &str| -> Result<f64, String> {
                let number = text.parse::<f64>().unwrap_or(f64::NAN);
                measure.validate_value(number)
            };
            command.arg(
                Arg::new(limit.name)
                    .long(limit.name)
                    .value_name(measure.placeholder())
                    .help(limit.about.trim_end_matches('.').to_owned())
                    .long_help(limit.about)
                    .value_parser(parse)
                    .action(ArgAction::Set)
                    .help_heading("Limits"),
            )
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for LimitArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = |limit: &'static Limit| Some((limit, *matches.get_one::<f64>(limit.name)?));
        Ok(LimitArgs(LIMITS.iter().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = LimitArgs::from_arg_matches(matches)?;
        Ok(())
    }
}

impl std::fmt::Debug for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// Limits of a TOML file: a table of names and numbers.
pub fn parse_limits(text: &str) -> Result<Vec<(&'static Limit, f64)>, String> {
    let table = text.parse::<toml::Table>().map_err(|error| error.to_string())?;
    let mut limits = Vec::new();
    for (name, value) in &table {
        let Some(limit) = budget::find_limit(name) else {
            let near = LIMITS
                .iter()
                .max_by(|a, b| strsim::jaro_winkler(name, a.name).total_cmp(&strsim::jaro_winkler(name, b.name)));
            let near = near.map_or("", |limit| limit.name);
            return Err(format!(
                "no limit is called `{name}`\n  hint: the nearest is `{near}`; `backcast check --all` shows all"
            ));
        };
        let number = match value {
            toml::Value::Integer(number) => *number as f64,
            toml::Value::Float(number) => *number,
            _ => return Err(format!("`{name}` wants a number")),
        };
        let number = limit
            .measure
            .validate_value(number)
            .map_err(|why| format!("`{name}`: {why}"))?;
        limits.push((limit, number));
    }
    Ok(limits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_file() {
        let found = parse_limits("max-cost = 5\nmin-cache-share = 0.8 # of all input\n").unwrap();
        let found = found
            .into_iter()
            .map(|(limit, value)| (limit.name, value))
            .collect::<Vec<_>>();
        assert_eq!(found, [("max-cost", 5.0), ("min-cache-share", 0.8)]);
        for (wrong, why) in [
            ("max-costs = 5", "the nearest is `max-cost`"),
            ("max-cost = \"5\"", "wants a number"),
            ("max-cost = -5", "dollars from 0"),
            ("max-problems = 1.5", "whole number"),
            ("max-cost", "TOML"),
        ] {
            let error = parse_limits(wrong).unwrap_err();
            assert!(error.contains(why), "{wrong}: {error}");
        }
    }
}
