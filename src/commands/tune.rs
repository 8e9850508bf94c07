//! `backcast tune`: many policies over one corpus, and what to set.

mod kept;
mod outcomes;
mod sweep;

use crate::cli::{InputArgs, PageArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{LogNeeds, LogSource, Run, with_logs};
use crate::views::tune::TuneResult;
use anyhow::{Result, bail};
use clap::{Args, ValueEnum};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::tune::search::SearchMethod;
use replay::tune::space;
use replay::tune::space::SweepPoint;
use std::path::{Path, PathBuf};
use sweep::Tuner;
use table::{atomic, write_json};

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Thresholds are in tokens. Sessions with different windows are compared separately.

The verdict comes first. It is `Set` only if all of this holds: the choice saves on held-out sessions in most folds, with an
interval above zero and by more than the cost model's error; the point is not the lowest that can be tried; its neighbors save,
too; it blocks no session; no single session decides; the same choice wins at every price from the measured cost of a miss to
--miss-cost; it still saves if sessions get longer, as they did in published runs; and the client has a setting for it. Otherwise
the reason is printed.

A miss is an edit of lines that are no longer in the window. Only you can say what a miss costs you: --miss-cost sets it, and the
output lists the prices at which the choice changes.

Examples:
  backcast tune                                  thresholds in tokens, on your own sessions
  backcast tune logs/ --step 5000                a finer sweep
  backcast tune logs/ --policy client-2.1.30 --vary window.threshold=80000..160000:20000 --vary micro.budget.on=true,false
  backcast tune logs/ --vary window.percent=30..100:1 --search halving --out reports/tune")]
#[command(mut_arg("top", |arg| arg.default_value("15")))]
pub struct TuneArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// The present policy: what others are compared with, and differ from.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Values of a key to try: `key=a,b,c` or `key=lo..hi:step`; several are combined [default: thresholds from 60,000 tokens
    /// to what each window allows, and lower if the lowest is the best].
    #[arg(long, value_name = "KEY=VALUES", help_heading = "Search")]
    pub vary: Vec<String>,
    /// Tokens between two thresholds of the default sweep; half of that where most sessions end, five times that above 200,000.
    #[arg(long, default_value_t = DEFAULT_STEP, value_name = "TOKENS", value_parser = clap::value_parser!(u64).range(1_000..=100_000), conflicts_with = "vary", help_heading = "Search")]
    pub step: u64,
    /// How the combinations are searched.
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Search")]
    pub search: SearchArg,
    /// Number of policies in a random search [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Search")]
    pub points: Option<u64>,
    /// Maximum number of policies in other searches.
    #[arg(long, default_value_t = 5000, value_name = "N", help_heading = "Search")]
    pub max_points: u64,
    /// Assumed cost of a miss in dollars.
    #[arg(long, default_value_t = DEFAULT_MISS_COST, value_name = "USD", value_parser = parse_miss_cost, help_heading = "Search")]
    pub miss_cost: f64,
    /// Same seed, same result.
    #[arg(long, default_value_t = DEFAULT_SEED, value_name = "N", help_heading = "Search")]
    pub seed: u64,
    /// Number of folds for cross-validation; at most the number of sessions [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..), help_heading = "Search")]
    pub folds: Option<usize>,
    /// Bootstrap resamples for the 95 % intervals, at least 100.
    #[arg(long, default_value_t = DEFAULT_RESAMPLES, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(100..), help_heading = "Search")]
    pub resamples: usize,
    /// Folder for points.csv, front.csv, recommendation.json and scores. An interrupted run resumes from it.
    #[arg(long, value_name = "DIR", group = "files", help_heading = "Output")]
    pub out: Option<PathBuf>,
    /// What happened under settings that were tried: a CSV file with the columns session, solved (or reward, or merged) and,
    /// if several settings were tried, arm; or a folder of trials, each with a result.json and its logs. Adds cost and
    /// success per arm.
    #[arg(long, value_name = "PATH", help_heading = "Search")]
    pub outcomes: Option<PathBuf>,
    /// The HTML page.
    #[command(flatten)]
    pub page: PageArgs,
    /// What is printed.
    #[command(flatten)]
    pub print: PrintArgs,
}

/// `--search`: how the space is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum SearchArg {
    /// Every combination on all sessions
    #[default]
    Grid,
    /// Combinations picked by the seed
    Random,
    /// Every combination on a few sessions, the better half on twice as many, and so on
    Halving,
}

impl From<SearchArg> for SearchMethod {
    fn from(mode: SearchArg) -> SearchMethod {
        match mode {
            SearchArg::Grid => SearchMethod::Grid,
            SearchArg::Random => SearchMethod::Random,
            SearchArg::Halving => SearchMethod::Halving,
        }
    }
}

/// What something is worth, in dollars.
fn parse_miss_cost(text: &str) -> Result<f64, String> {
    let dollars = text.parse::<f64>().ok();
    let worth = dollars.filter(|dollars| dollars.is_finite() && *dollars >= 0.0);
    worth.ok_or_else(|| "an amount is a number of dollars, 0 or more".to_owned())
}

/// Tokens between two thresholds of the default sweep, where nothing else is said.
const DEFAULT_STEP: u64 = 10_000;

/// What a miss is worth in dollars, where nothing else is said.
const DEFAULT_MISS_COST: f64 = 1.0;

/// Seed, where nothing else is said.
const DEFAULT_SEED: u64 = 1;

/// Resamples for intervals, where nothing else is said.
const DEFAULT_RESAMPLES: usize = 1000;

/// Policies of a random search, where nothing else is said.
const DEFAULT_POINTS: u64 = 100;

/// Parts that sessions are split into, where nothing else is said.
const DEFAULT_FOLDS: usize = 5;

/// What a run that was broken off goes on from.
const SCORES_FILE: &str = "scores";

/// Policies that are replayed before what is known is put on disk.
const POLICIES_PER_BATCH: usize = 16;

/// What steers a sweep, whichever command asks for it.
#[derive(Debug, Clone)]
pub(super) struct SweepOptions {
    /// Tokens between two thresholds.
    step: u64,
    search: SearchArg,
    /// Dollars.
    miss_cost: f64,
    seed: u64,
    folds: Option<usize>,
    resamples: usize,
    /// Whether there are no progress bars.
    quiet: bool,
}

impl From<&TuneArgs> for SweepOptions {
    fn from(args: &TuneArgs) -> SweepOptions {
        SweepOptions {
            step: args.step,
            search: args.search,
            miss_cost: args.miss_cost,
            seed: args.seed,
            folds: args.folds,
            resamples: args.resamples,
            quiet: args.input.quiet,
        }
    }
}

/// Sweeps thresholds over the sessions of a run as `tune` without options does.
pub(super) fn sweep_usual_thresholds(
    run: &Run,
    source: &LogSource<'_>,
    base: &PolicySet,
    prices: &PriceTable,
    quiet: bool,
) -> Result<TuneResult> {
    let tuner = Tuner {
        options: SweepOptions {
            step: DEFAULT_STEP,
            search: SearchArg::default(),
            miss_cost: DEFAULT_MISS_COST,
            seed: DEFAULT_SEED,
            folds: None,
            resamples: DEFAULT_RESAMPLES,
            quiet,
        },
        varied: None,
        base,
        prices,
        folder: None,
        outcomes: None,
    };
    tuner.sweep(run, source)
}

impl TuneArgs {
    /// Whether a table is printed, and no file is written.
    fn shows_table_only(&self) -> bool {
        self.print.shows_table() && self.out.is_none() && self.page.html.is_none()
    }
}

/// Sweeps, judges and writes the result.
pub fn run(args: &TuneArgs) -> Result<RunStatus> {
    let base = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let varied = varied_points(args)?;
    let folder = args
        .out
        .as_deref()
        .map(|folder| check_folder(folder, args))
        .transpose()?;
    let outcomes = args.outcomes.as_deref().map(outcomes::read_outcomes).transpose()?;
    let tuner = Tuner {
        options: args.into(),
        varied,
        base: &base,
        prices: &prices,
        folder: folder.as_deref(),
        outcomes,
    };
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    // A run that leaves files behind has to name what it depends on.
    let needs = LogNeeds {
        line_hashes: true,
        content_hashes: folder.is_some(),
        windows: true,
        ..LogNeeds::default()
    };
    let result = with_logs(args.input.shown_as_table(args.shows_table_only()), needs, |source| {
        tuner.tune(&source)
    })??;
    if let Some(folder) = &folder {
        result.write_files(folder, args)?;
    }
    if let Some(path) = &args.page.html {
        let content = PageContent {
            name: format!("tune {}", args.vary.join(", ")).trim_end().to_owned(),
            tunes: vec![result.document()],
            ..PageContent::default()
        };
        write_page(path, args.page.force, args.input.quiet, content)?;
    }
    write_output(&args.print, |out, style| {
        result.write(args.print.format, args.print.top, style, out)
    })?;
    Ok(report_problems(&args.input, &result.problems))
}

/// Returns the points that --vary asks for; `None` for the default sweep.
fn varied_points(args: &TuneArgs) -> Result<Option<Vec<SweepPoint>>> {
    if args.points.is_some() && args.search != SearchArg::Random {
        bail!("--points needs --search random\n  hint: add that, or omit --points");
    }
    if args.vary.is_empty() {
        if args.search == SearchArg::Random {
            bail!("a random search needs something to vary\n  hint: --vary key=lo..hi:step");
        }
        return Ok(None);
    }
    let axes = args
        .vary
        .iter()
        .map(|text| space::parse_axis(text, args.max_points))
        .collect::<Result<Vec<_>, _>>()?;
    let points = match args.search {
        SearchArg::Random => space::sample_points(&axes, args.points.unwrap_or(DEFAULT_POINTS), args.seed)?,
        SearchArg::Grid | SearchArg::Halving => space::grid(&axes, args.max_points)?,
    };
    Ok(Some(points))
}

fn check_folder(folder: &Path, args: &TuneArgs) -> Result<PathBuf> {
    kept::check_overwritable(&folder.join(SCORES_FILE), args.page.force)?;
    let taken = ["points.csv", "front.csv", "recommendation.json"]
        .iter()
        .map(|name| folder.join(name));
    if let Some(file) = taken.into_iter().find(|file| !args.page.force && file.exists()) {
        bail!("{} exists; use --force to replace it", file.display());
    }
    Ok(folder.to_path_buf())
}

impl TuneResult {
    fn write_files(&self, folder: &Path, args: &TuneArgs) -> Result<()> {
        atomic::write_with(&folder.join("points.csv"), args.page.force, |out| {
            self.write_points(out)
        })?;
        atomic::write_with(&folder.join("front.csv"), args.page.force, |out| self.write_front(out))?;
        atomic::write_with(&folder.join("recommendation.json"), args.page.force, |out| {
            write_json(&self.recommendation(), out)
        })?;
        Ok(())
    }
}
