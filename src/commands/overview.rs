//! `backcast overview`, and `backcast` alone: the first look. Everything on it comes from the summary of a run, so that it is
//! there at once when the logs are as they were.

use crate::cli::defaults::{ParseFailure, parse_command_line};
use crate::cli::{CliCommand, DocumentFormat, InputArgs};
use crate::commands::RunStatus;
use crate::commands::reading::report_problems_if_asked;
use crate::commands::writing::{OutputTarget, load_prices, write_output};
use crate::run::{LogInput, LogNeeds, summarize, with_logs};
use crate::views::overview::OverviewView;
use anyhow::Result;
use clap::Args;
use replay::tokens::ratios::RatioTable;
use std::ffi::OsString;
use std::path::PathBuf;
use table::OutputFormat;
use transcript::problem::sort_problems;

/// Arguments of `overview`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
`backcast` alone is the same, for your own sessions. Days count back from the newest record of the logs, not from today.

Examples:
  backcast                     your own sessions
  backcast overview corpus     those of a folder
  backcast overview --sample   made-up ones")]
pub struct OverviewArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Show a small made-up sample instead of your sessions. Without a path it is also shown where no logs are found.
    #[arg(long, conflicts_with = "paths", help_heading = "Reading")]
    pub sample: bool,
    /// Price table to use instead of the built-in one (JSON).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub prices: Option<PathBuf>,
    /// How it is written.
    #[arg(
        long,
        short,
        value_enum,
        default_value_t,
        value_name = "FORMAT",
        help_heading = "Output"
    )]
    pub format: DocumentFormat,
}

/// Without any arguments: an overview of the user's own sessions.
pub fn run_default() -> Result<RunStatus> {
    let typed = ["backcast", "overview"].map(OsString::from);
    let (cli, _) = parse_command_line(&typed).map_err(|failure| match failure {
        ParseFailure::Usage(error) => error.into(),
        ParseFailure::Config(error) => error,
    })?;
    match cli.command {
        Some(CliCommand::Overview(args)) => run(&args),
        _ => Ok(RunStatus::Done),
    }
}

/// Runs it.
pub fn run(args: &OverviewArgs) -> Result<RunStatus> {
    let zone = &args.input.selection.timezone;
    let prices = load_prices(args.prices.as_deref())?;
    let input = LogInput {
        falls_back_to_sample: args.format == DocumentFormat::Text
            && args.input.paths.is_empty()
            && args.input.selection.agent.is_empty(),
        is_sample: args.sample,
        ..args.input.shown_as_table(args.format == DocumentFormat::Text)
    };
    let (summary, logs, problems, is_sample) = with_logs(input, LogNeeds::default(), |source| {
        let logs = source.logs.len();
        let table = RatioTable::built_in();
        let (mut summary, _) = summarize(source.logs, &source.options, table, false);
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        sort_problems(&mut problems);
        (summary, logs, problems, source.is_sample)
    })?;
    let mut overview = OverviewView::new(&args.input.paths, &summary, logs, &problems, zone, &prices);
    if is_sample {
        overview.mark_as_sample(args.sample);
    }
    let format = match args.format {
        DocumentFormat::Text => OutputFormat::Table,
        DocumentFormat::Json => OutputFormat::Json,
    };
    write_output(OutputTarget::stdout(format), |out, style| match args.format {
        DocumentFormat::Text => overview.write_text(out, style),
        DocumentFormat::Json => overview.write_document(out),
    })?;
    // What matters of the problems is on the screen already.
    Ok(report_problems_if_asked(&args.input, &problems))
}
