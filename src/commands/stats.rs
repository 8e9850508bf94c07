//! `backcast stats`: what the logs add up to.

use crate::cli::{InputArgs, OutputArgs, TimeArgs};
use crate::commands::RunStatus;
use crate::commands::reading::report_problems;
use crate::commands::times::TimeSelection;
use crate::commands::writing::{load_prices, write_output};
use crate::run::{LogNeeds, LogSource, summarize, with_logs};
use crate::usage::session::ReportOptions;
use crate::usage::summary::UsageSummary;
use crate::usage::tally::GroupBy;
use crate::views::stats::{StatsOptions, StatsResult, StatsView};
use anyhow::{Result, bail};
use clap::Args;
use jiff::tz::TimeZone;
use replay::prices::PriceTable;
use replay::tokens::ratios::RatioTable;
use serde_json::Value as Json;
use std::path::PathBuf;

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every API call counts once: lines of one response, copies in resumed and forked sessions and sub-agents' replays are told
apart by message and request id, and the most complete telling counts. Sub-agents are included. Calls that only a progress
record shows (their own logs are gone) are reported beside the totals, not in them.

Token counts of calls are as recorded. Sizes in the ledger (what filled the window) are recorded, calibrated from the
difference between two recorded windows, or estimated; the shares are shown.

Examples:
  backcast stats                              your own sessions
  backcast stats --by day --since 2026-11-01  cost by day
  backcast stats --by project --last 30       the last 30 days by project
  backcast stats corpus --by tool             which tools fill the window
  backcast stats logs/ -f json -o usage.json  everything, for other programs")]
pub struct StatsArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// What rows are grouped by.
    #[arg(long, value_enum, default_value_t, value_name = "KEY", help_heading = "Selection")]
    pub by: GroupBy,
    /// Which times.
    #[command(flatten)]
    pub times: TimeArgs,
    /// Show sub-agents in rows of their own.
    #[arg(long, help_heading = "Selection")]
    pub subagents: bool,
    /// Most rows of the table, of which the costliest are kept (the largest by tool); 0 for all. Other formats have all rows.
    #[arg(long, default_value_t = 20, value_name = "N", help_heading = "Output")]
    pub top: usize,
    /// Price table to use instead of the built-in one (JSON; `backcast stats -f json` names the one in use).
    #[arg(long, value_name = "FILE", help_heading = "Selection")]
    pub prices: Option<PathBuf>,
    /// Show how well sizes are estimated: every round predicted from the one before. Formats of rows alone (jsonl, csv,
    /// parquet) have these rows instead.
    #[arg(long, help_heading = "Output")]
    pub quality: bool,
    /// How results are written.
    #[command(flatten)]
    pub out: OutputArgs,
}

/// Runs it.
pub fn run(args: &StatsArgs) -> Result<RunStatus> {
    if args.subagents && args.by == GroupBy::Tool {
        bail!("--subagents does not go with --by tool: tools are counted over all agents together");
    }
    let times = TimeSelection::new(&args.times)?;
    let prices = load_prices(args.prices.as_deref())?;
    let needs = LogNeeds {
        line_hashes: args.quality,
        ..LogNeeds::default()
    };
    let stats = with_logs(&args.input, needs, |source| {
        StatsResult::read(&source, &times, args.quality)
    })?;
    let options = StatsOptions {
        by: args.by,
        subagents: args.subagents,
        top: args.top,
        quality: args.quality,
        list_problems: args.input.problems,
    };
    let view = StatsView::new(&stats, options, &times.zone, &prices);
    write_output(&args.out, |out, style| view.write(args.out.format, style, out))?;
    Ok(report_problems(&args.input, &stats.problems))
}

/// Returns what a page shows of recorded usage.
pub(super) fn usage_overview(stats: &StatsResult, prices: &PriceTable) -> Json {
    let options = StatsOptions {
        by: GroupBy::Model,
        subagents: false,
        top: 0,
        quality: false,
        list_problems: true,
    };
    StatsView::new(stats, options, &TimeZone::UTC, prices).page_overview()
}

impl StatsResult {
    /// Reads logs and sums them up.
    fn read(source: &LogSource<'_>, times: &TimeSelection, predictions: bool) -> StatsResult {
        let table = RatioTable::built_in();
        let report_on = |filter| ReportOptions { filter, predictions };
        let (summary, trace_bytes) = if times.needs_newest() {
            // The range is known once the logs are read: there is no early report.
            let run = source.read();
            let wanted = report_on(times.range(|| run.newest_time(&source.options)));
            let trace_bytes = match source.options.with_line_hashes {
                true => run.trace_bytes(),
                false => (0, None),
            };
            (run.summarize(table, &wanted, source.options.cache), trace_bytes)
        } else {
            let wanted = report_on(times.range(|| None));
            summarize(source.logs, &source.options, table, &wanted)
        };
        StatsResult {
            trace_bytes,
            ..StatsResult::new(summary, source)
        }
    }

    /// Takes a summary of the logs of a source.
    pub(super) fn new(mut summary: UsageSummary, source: &LogSource<'_>) -> StatsResult {
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(source.problems());
        problems.sort();
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
