//! `backcast stats`: what the logs add up to.

use crate::cli::{InputArgs, OutputArgs, TimeArgs};
use crate::commands::RunStatus;
use crate::commands::reading::{LogSource, report_problems, with_logs};
use crate::commands::times::TimeSelection;
use crate::commands::writing::{load_prices, write_output};
use crate::run::summarise;
use crate::usage::quality::quality;
use crate::usage::session::ReportOptions;
use crate::usage::tally::{GroupBy, UsageRow, group_calls};
use crate::views::stats::{StatsOptions, StatsResult, StatsView};
use anyhow::{Result, bail};
use clap::Args;
use replay::tokens::ratios::RatioTable;
use serde_json::Value as Json;
use std::path::PathBuf;
use transcript::problem::Problem;

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
    with_view(args, |view, problems| {
        write_output(&args.out, |out, style| view.write(args.out.format, style, out))?;
        Ok(report_problems(&args.input, problems))
    })
}

/// What a page shows of recorded usage, and what was wrong with the logs.
pub(super) fn usage_overview(args: &StatsArgs) -> Result<(Json, Vec<Problem>)> {
    with_view(args, |view, problems| Ok((view.page_overview(), problems.to_vec())))
}

/// Reads the logs, and hands on what is shown of them.
fn with_view<R>(args: &StatsArgs, work: impl FnOnce(&StatsView<'_>, &[Problem]) -> Result<R>) -> Result<R> {
    let times = TimeSelection::new(&args.times)?;
    let prices = load_prices(args.prices.as_deref())?;
    let table = RatioTable::built_in();
    let stats = with_logs(&args.input, args.quality, |reading| {
        let wanted = ReportOptions {
            filter: times.filter(&reading),
            predictions: args.quality,
        };
        StatsResult::new(reading, &wanted, table)
    })?;
    let summary = &stats.summary;
    let tally = group_calls(summary, args.by, args.subagents, &times.zone, &prices);
    let view = StatsView {
        stats: &stats,
        total: UsageRow::total(&tally.rows),
        tally,
        prices: &prices,
        quality: args.quality.then(|| quality(&summary.sessions, table)),
        options: StatsOptions {
            by: args.by,
            subagents: args.subagents,
            top: args.top,
            list_problems: args.input.problems,
        },
    };
    work(&view, &stats.problems)
}

impl StatsResult {
    fn new(reading: LogSource<'_>, wanted: &ReportOptions, table: &RatioTable) -> StatsResult {
        let logs = reading.logs.len();
        let (mut summary, trace_bytes) = summarise(reading.logs, &reading.options, table, wanted);
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(reading.into_problems());
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
            logs,
            base,
            trace_bytes,
        }
    }
}
