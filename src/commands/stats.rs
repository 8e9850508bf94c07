//! `backcast stats`: what the logs add up to.

use crate::cli::{InputArgs, OutputArgs};
use crate::commands::RunStatus;
use crate::commands::reading::report_problems;
use crate::commands::writing::{load_prices, write_output};
use crate::run::{LogNeeds, LogSource, summarize, with_logs};
use crate::usage::period::GroupBy;
use crate::usage::summary::UsageSummary;
use crate::views::stats::{StatsOptions, StatsResult, StatsView};
use anyhow::{Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use replay::prices::PriceTable;
use replay::tokens::ratios::RatioTable;
use serde_json::Value as Json;
use std::path::PathBuf;
use table::OutputFormat;
use transcript::problem::sort_problems;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every API call counts once: backcast recognizes the lines of one response, copies in resumed and forked sessions, and replays by
sub-agents by their message and request ids, and counts the most complete record. Sub-agents are included. Calls that only
progress records show (their own logs are gone) are reported separately, not in the totals.

Token counts of calls are as recorded. Sizes in the ledger (what filled the window) are recorded, calibrated from the
difference between two recorded windows, or estimated; the shares are shown.

Examples:
  backcast stats                              your own sessions
  backcast stats --by day --since 2026-11-01  cost by day
  backcast stats --by project --last 30       the last 30 days by project
  backcast stats --by week --breakdown        every week, and its models
  backcast stats --by pr --project shop       what pull requests cost
  backcast stats --ledger                     what filled the window
  backcast stats corpus --by tool             which tools fill the window
  backcast stats logs/ -f json -o usage.json  everything, for other programs")]
pub struct StatsArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// Group rows by this.
    #[arg(long, value_enum, default_value_t, value_name = "KEY", help_heading = "Selection")]
    pub by: GroupBy,
    /// Show sub-agents in rows of their own.
    #[arg(long, help_heading = "Selection")]
    pub subagents: bool,
    /// Rows in the table: the costliest, or the largest by tool; 0 for all. Other formats have all rows [default: 20; all days,
    /// weeks and months].
    #[arg(long, value_name = "N", help_heading = "Output")]
    pub top: Option<usize>,
    /// Split every row by model.
    #[arg(long, help_heading = "Output")]
    pub breakdown: bool,
    /// Also show what filled the window: tokens by category, tool and kind of attachment.
    #[arg(long, help_heading = "Output")]
    pub ledger: bool,
    /// Price table to use instead of the built-in one (JSON; `backcast config prices` prints that).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub prices: Option<PathBuf>,
    /// Show how accurate the size estimates are: every round predicted from the one before. jsonl, csv and parquet print these
    /// rows instead.
    #[arg(long, help_heading = "Output")]
    pub quality: bool,
    /// How results are written.
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Runs it.
pub fn run(args: &StatsArgs) -> Result<RunStatus> {
    if args.by == GroupBy::Tool && (args.subagents || args.breakdown) {
        let option = if args.subagents { "--subagents" } else { "--breakdown" };
        bail!("{option} cannot be used with --by tool: tools are counted over all agents and models");
    }
    let prices = load_prices(args.prices.as_deref())?;
    let needs = LogNeeds {
        line_hashes: args.quality,
        ..LogNeeds::default()
    };
    let stats = with_logs(args.input.shown_as_table(args.out.shows_table()), needs, |source| {
        StatsResult::read(&source, args.quality)
    })?;
    let options = StatsOptions {
        by: args.by,
        subagents: args.subagents,
        top: args.top,
        breakdown: args.breakdown,
        ledger: args.ledger,
        quality: args.quality,
        list_problems: args.input.problems,
        format: args.out.format,
    };
    let view = StatsView::new(&stats, options, &args.input.selection.timezone, &prices);
    write_output(&args.out, |out, style| view.write(style, out))?;
    Ok(report_problems(&args.input, &stats.problems))
}

/// Returns what a page shows of recorded usage.
pub(super) fn usage_overview(stats: &StatsResult, prices: &PriceTable) -> Json {
    let options = StatsOptions {
        by: GroupBy::Model,
        subagents: false,
        top: Some(0),
        breakdown: false,
        ledger: false,
        quality: false,
        list_problems: true,
        format: OutputFormat::Json,
    };
    StatsView::new(stats, options, &TimeZone::UTC, prices).page_overview()
}

impl StatsResult {
    /// Reads logs and sums them up.
    fn read(source: &LogSource<'_>, predictions: bool) -> StatsResult {
        let (summary, trace_bytes) = summarize(source.logs, &source.options, RatioTable::built_in(), predictions);
        StatsResult {
            trace_bytes,
            ..StatsResult::new(summary, source)
        }
    }

    /// Takes a summary of the logs of a source.
    pub(super) fn new(mut summary: UsageSummary, source: &LogSource<'_>) -> StatsResult {
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        sort_problems(&mut problems);
        let mut base = summary
            .sessions
            .iter()
            .filter_map(|session| session.occupancy.base)
            .collect::<Vec<_>>();
        base.sort_unstable();
        StatsResult {
            summary,
            problems,
            logs: source.logs.len(),
            base,
            trace_bytes: (0, None),
        }
    }
}
