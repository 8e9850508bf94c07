//! `backcast tune`: many policies over one corpus, and what to set.

mod kept;

use crate::cli::{InputArgs, PageArgs, PolicyArgs, PrintArgs};
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::cache::BUILD_ID;
use crate::run::{
    LogHash, LogNeeds, LogSource, Run, SessionView, median_size, progress_with_template, summary_sizes, with_logs,
};
use crate::views::tune::{PointRow, ScoreBounds, TuneResult};
use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use kept::{PolicyScores, SweepFile};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::oracle::oracle_bound;
use replay::sim::trace::build_trace;
use replay::sim::uses::find_file_uses;
use replay::tokens::ratios::RatioTable;
use replay::tune::evidence::{ChoiceOptions, choose};
use replay::tune::front::{find_flips, pareto, saved_per_miss};
use replay::tune::score::{PolicyScore, PreparedChain, PreparedSession};
use replay::tune::search::{SearchMethod, round_sizes, shuffled, survivors};
use replay::tune::settings::advice;
use replay::tune::space;
use replay::tune::space::SweepPoint;
use serde_json::json;
use std::path::{Path, PathBuf};
use table::store::EntryName;
use table::{atomic, write_json};
use transcript::parallel::parallel_map;
use transcript::problem::Problem;

/// Arguments of `tune`.
#[derive(Debug, Args)]
#[command(after_long_help = "\
Every policy is replayed on every session; traces are made once. The one that is best on all sessions is recommended only if
choosing on some sessions pays on the others: sessions are split into folds, and the interval comes from resampling them.

The table has the present policy, the best, and others that no policy beats in everything; --top 0 shows all policies.

A miss is an edit of lines that are no longer in the window. What one is worth only you can say: --miss-cost, and the list
of prices at which the choice flips.

Examples:
  backcast tune                                  thresholds from 40 to 100 % on your own sessions
  backcast tune logs/ --policy client-2.1.30 --vary window.percent=50..100:5 --vary micro.budget.on=true,false
  backcast tune logs/ --vary window.percent=30..100:1 --search halving --out reports/tune")]
#[command(mut_arg("top", |arg| arg.default_value("15")))]
pub struct TuneArgs {
    /// Which logs.
    #[command(flatten)]
    pub input: InputArgs,
    /// The present policy: what others are compared with, and differ from.
    #[command(flatten)]
    pub policy: PolicyArgs,
    /// Values of a key to try: `key=a,b,c` or `key=lo..hi:step`; several are combined.
    #[arg(
        long,
        default_value = "window.percent=40..100:10",
        value_name = "KEY=VALUES",
        help_heading = "Search"
    )]
    pub vary: Vec<String>,
    /// How the combinations are searched.
    #[arg(long, value_enum, default_value_t, value_name = "HOW", help_heading = "Search")]
    pub search: SearchArg,
    /// Policies of a random search [default: 100].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), help_heading = "Search")]
    pub points: Option<u64>,
    /// Most policies of other searches.
    #[arg(long, default_value_t = 5000, value_name = "N", help_heading = "Search")]
    pub max_points: u64,
    /// What a miss is worth in dollars.
    #[arg(long, default_value_t = 1.0, value_name = "USD", value_parser = parse_miss_cost, help_heading = "Search")]
    pub miss_cost: f64,
    /// Same seed, same result.
    #[arg(long, default_value_t = 1, value_name = "N", help_heading = "Search")]
    pub seed: u64,
    /// Parts that sessions are split into, to choose on some and test on others; at most one a session [default: 5].
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(2..), help_heading = "Search")]
    pub folds: Option<usize>,
    /// Resamples for intervals, at least 100: with fewer there is no telling where 95 % lie.
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(100..), help_heading = "Search")]
    pub resamples: usize,
    /// Folder for points.csv, front.csv, recommendation.json and scores, from which a run that was broken off goes on.
    #[arg(long, value_name = "DIR", group = "files", help_heading = "Output")]
    pub out: Option<PathBuf>,
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

/// Policies of a random search, where nothing else is said.
const DEFAULT_POINTS: u64 = 100;

/// Parts that sessions are split into, where nothing else is said.
const DEFAULT_FOLDS: usize = 5;

/// What a run that was broken off goes on from.
const SCORES_FILE: &str = "scores";

/// Policies that are replayed before what is known is put on disk.
const POLICIES_PER_BATCH: usize = 16;

/// Runs it.
pub fn run(args: &TuneArgs) -> Result<RunStatus> {
    let base = resolve_policy(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let points = policy_points(args)?;
    let policies = points
        .iter()
        .map(|point| point.policies(&base))
        .collect::<Result<Vec<_>, _>>()?;
    let folder = args
        .out
        .as_deref()
        .map(|folder| check_folder(folder, args))
        .transpose()?;
    let tuner = Tuner {
        args,
        points: &points,
        policies: &policies,
        base: &base,
        prices: &prices,
        folder: folder.as_deref(),
    };
    ensure_absent(args.page.html.as_deref(), args.page.force)?;
    // A run that leaves files behind has to name what it depends on.
    let needs = LogNeeds {
        line_hashes: true,
        content_hashes: folder.is_some(),
    };
    let result = with_logs(&args.input, needs, |source| tuner.tune(&source))??;
    if let Some(folder) = &folder {
        result.write_files(folder, args)?;
    }
    if let Some(path) = &args.page.html {
        let content = PageContent {
            name: format!("tune {}", args.vary.join(", ")),
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

/// The present policy first, then everything that is tried.
fn policy_points(args: &TuneArgs) -> Result<Vec<SweepPoint>> {
    let axes = args
        .vary
        .iter()
        .map(|text| space::parse_axis(text, args.max_points))
        .collect::<Result<Vec<_>, _>>()?;
    if args.points.is_some() && args.search != SearchArg::Random {
        bail!("--points is about a random search\n  hint: add --search random, or leave --points out");
    }
    let tried = match args.search {
        SearchArg::Random => space::sample_points(&axes, args.points.unwrap_or(DEFAULT_POINTS), args.seed)?,
        SearchArg::Grid | SearchArg::Halving => space::grid(&axes, args.max_points)?,
    };
    let present = SweepPoint { settings: Vec::new() };
    Ok(std::iter::once(present).chain(tried).collect())
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

struct Tuner<'a> {
    args: &'a TuneArgs,
    points: &'a [SweepPoint],
    policies: &'a [PolicySet],
    base: &'a PolicySet,
    prices: &'a PriceTable,
    folder: Option<&'a Path>,
}

/// Scores by policy and session, as far as they are known.
type KnownScores = Vec<PolicyScores>;

impl Tuner<'_> {
    fn tune(&self, source: &LogSource<'_>) -> Result<TuneResult> {
        let run = source.read();
        let (prepared, defects) = self.prepare_sessions(&run, source);
        let (mut sessions, mut summaries) = (Vec::new(), Vec::new());
        for (session, sizes) in prepared {
            summaries.extend(sizes);
            sessions.extend(Some(session).filter(|session| !session.chains.is_empty()));
        }
        let summary = median_size(summaries);
        let name = self.folder.map(|_| self.scores_name(&run.log_hashes(), &sessions));
        let mut problems = run.problems;
        problems.extend(defects);
        problems.extend(source.problems());
        problems.sort();
        if sessions.is_empty() {
            bail!(
                "no session with a call in these logs\n  hint: `backcast stats` with the same paths shows what is in them"
            );
        }
        if let Some(folds) = self.args.folds.filter(|folds| *folds > sessions.len()) {
            bail!(
                "--folds {folds} is more than there are sessions with a call: {}\n  hint: a fold needs a session at least",
                sessions.len()
            );
        }
        let known = self.search(&sessions, summary, name)?;
        let never = PolicySet::preset("never")?;
        let bound = parallel_map(&sessions, |session| session.replay(&never, summary));
        let bounds = ScoreBounds {
            never: PolicyScore::sum(&bound),
            oracle: parallel_map(&sessions, oracle_occupancy)
                .iter()
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        };
        Ok(TuneResult::new(self, &sessions, known, bounds, problems))
    }

    /// Traces every session. Also returns the sizes of its recorded summaries.
    fn prepare_sessions(
        &self,
        run: &Run,
        source: &LogSource<'_>,
    ) -> (Vec<(PreparedSession<'_>, Vec<u64>)>, Vec<Problem>) {
        let bar = source.session_bar(run);
        run.map_sessions(|view| {
            bar.inc(1);
            self.prepare_session(view)
        })
    }

    fn prepare_session(&self, view: &SessionView<'_>) -> (PreparedSession<'_>, Vec<u64>) {
        let mut sizes = Vec::new();
        let mut ready = Vec::new();
        for chain in view.chains() {
            // The trace outlives the view, which therefore does not build it.
            let trace = build_trace(view.session(), chain, RatioTable::built_in());
            if view.is_compacted() {
                sizes.extend(summary_sizes(&trace));
            }
            if trace.calls.iter().any(|call| !call.is_copied) {
                let uses = find_file_uses(view.session(), &trace);
                ready.push(PreparedChain::new(trace, uses, self.prices));
            }
        }
        let session = PreparedSession {
            id: view.id().to_owned(),
            chains: ready,
        };
        (session, sizes)
    }

    /// Returns the hash of everything that scores depend on, except the points themselves.
    fn scores_name(&self, logs: &[LogHash], sessions: &[PreparedSession<'_>]) -> EntryName {
        let mut hasher = blake3::Hasher::new();
        hasher.update(BUILD_ID.as_bytes());
        hasher.update(format!("{:?}", self.base.ranges()).as_bytes());
        hasher.update(format!("{:?}", self.prices).as_bytes());
        for (path, size, hash) in logs {
            hasher
                .update(path.as_bytes())
                .update(&size.to_le_bytes())
                .update(&hash.unwrap_or_default());
        }
        for session in sessions {
            hasher.update(session.id.as_bytes());
        }
        EntryName::new(*hasher.finalize().as_bytes())
    }

    fn search(
        &self,
        sessions: &[PreparedSession<'_>],
        summary: Option<u64>,
        name: Option<EntryName>,
    ) -> Result<KnownScores> {
        let (mut known, mut kept) = self.resume(sessions.len(), name)?;
        let order = shuffled(sessions.iter().map(|session| session.id.as_str()), !self.args.seed);
        let mut alive = (0..self.points.len()).collect::<Vec<_>>();
        let sizes = round_sizes(self.args.search.into(), alive.len(), sessions.len());
        let bar = progress_with_template(
            sizes.len() as u64 * alive.len() as u64,
            self.args.input.quiet,
            "{pos} of {len} replays, {eta} left, {msg}",
        );
        for (round, &size) in sizes.iter().enumerate() {
            let chosen = &order[..size];
            let mut totals = Vec::with_capacity(alive.len());
            for batch in alive.chunks(POLICIES_PER_BATCH) {
                let alike = batch.chunk_by(|a, b| self.points[*a].is_equivalent_without_compaction(&self.points[*b]));
                let jobs = alike.flat_map(|policies| chosen.iter().map(move |session| (policies, *session)));
                let open = jobs
                    .map(|(policies, session)| {
                        let policies = policies.iter().filter(|policy| known[**policy][session].is_none());
                        (policies.copied().collect::<Vec<_>>(), session)
                    })
                    .filter(|(policies, _)| !policies.is_empty())
                    .collect::<Vec<_>>();
                let scores = parallel_map(&open, |(policies, session)| {
                    let policies = policies.iter().map(|policy| &self.policies[*policy]);
                    sessions[*session].replay_equivalent(policies, summary)
                });
                for ((policies, session), scores) in std::iter::zip(open, scores) {
                    for (policy, score) in std::iter::zip(policies, scores) {
                        known[policy][session] = Some(score);
                    }
                }
                bar.inc(batch.len() as u64);
                totals.extend(batch.iter().map(|policy| sum_scores(&known[*policy], chosen)));
                bar.set_message(self.best_so_far(&alive, &totals));
                if let Some(kept) = &mut kept {
                    let batch = batch
                        .iter()
                        .map(|policy| (self.points[*policy].name(), &known[*policy]));
                    kept.append_batch(&batch.collect::<Vec<_>>())?;
                }
            }
            if round + 1 < sizes.len() {
                alive = survivors(&alive, &totals, self.args.miss_cost);
            }
        }
        bar.finish_and_clear();
        Ok(known)
    }

    /// The best of the policies whose totals are known: the first of those that are alive.
    fn best_so_far(&self, alive: &[usize], totals: &[PolicyScore]) -> String {
        let objectives = totals.iter().map(|total| total.objective(self.args.miss_cost));
        let best = std::iter::zip(alive, objectives).min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or_else(String::new, |(policy, _)| {
            format!("best: {}", self.points[*policy].name())
        })
    }

    /// Returns the scores of an earlier run over the same logs, and the file that holds them.
    fn resume(&self, sessions: usize, name: Option<EntryName>) -> Result<(KnownScores, Option<SweepFile>)> {
        let open = |(folder, name): (&Path, EntryName)| {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            let path = folder.join(SCORES_FILE);
            let sweep = SweepFile::open(&path, &name)?;
            if sweep.is_restarted && !self.args.input.quiet {
                eprintln!(
                    "{}: scores of other logs, options or another version of backcast; starting over",
                    path.display()
                );
            }
            Ok::<_, anyhow::Error>((Some(sweep.file), sweep.scores))
        };
        let (kept, mut scores) = self.folder.zip(name).map(open).transpose()?.unwrap_or_default();
        let known = self
            .points
            .iter()
            .map(|point| scores.remove(&point.name()).filter(|list| list.len() == sessions));
        let known = known.map(|known| known.unwrap_or_else(|| vec![None; sessions]));
        Ok((known.collect(), kept))
    }
}

/// Windows and calls of a session if only what is used again were kept.
fn oracle_occupancy(session: &PreparedSession<'_>) -> (u128, u64) {
    let main = session.chains.iter().filter(|chain| !chain.trace.is_sidechain);
    main.map(|chain| oracle_bound(&chain.trace, &chain.uses))
        .fold((0, 0), |sum, bound| (sum.0 + bound.occupancy_sum, sum.1 + bound.calls))
}

fn sum_scores(scores: &[Option<PolicyScore>], sessions: &[usize]) -> PolicyScore {
    PolicyScore::sum(sessions.iter().filter_map(|session| scores[*session].as_ref()))
}

impl TuneResult {
    fn new(
        tuner: &Tuner<'_>,
        sessions: &[PreparedSession<'_>],
        known: KnownScores,
        bounds: ScoreBounds,
        problems: Vec<Problem>,
    ) -> TuneResult {
        let whole = (0..known.len())
            .filter(|policy| known[*policy].iter().all(Option::is_some))
            .collect::<Vec<_>>();
        let scores = whole
            .iter()
            .map(|policy| known[*policy].iter().flatten().copied().collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let totals = scores.iter().map(PolicyScore::sum).collect::<Vec<_>>();
        let front = pareto(&totals);
        let miss_cost = tuner.args.miss_cost;
        let rows = whole.iter().enumerate().map(|(at, policy)| PointRow {
            number: *policy,
            name: tuner.points[*policy].name(),
            score: totals[at],
            present: totals[0],
            sessions: sessions.len(),
            objective: totals[at].objective(miss_cost),
            on_front: front.contains(&at),
            saved_per_miss: saved_per_miss(&totals, &front, at),
        });
        let rows = rows.collect::<Vec<_>>();
        let names = sessions.iter().map(|session| session.id.clone()).collect::<Vec<_>>();
        let rigour = ChoiceOptions {
            miss_cost,
            folds: tuner.args.folds.unwrap_or(DEFAULT_FOLDS),
            resamples: tuner.args.resamples,
            seed: tuner.args.seed,
        };
        let choice = choose(&scores, &names, &rigour);
        let best = choice.as_ref().map_or(0, |choice| whole[choice.best]);
        let policy = tuner.policies[best].for_version(None);
        let advice = advice(&tuner.points[best], policy, 200_000);
        let advice = advice.iter().map(|advice| {
            let setting = advice
                .setting
                .as_ref()
                .map(|(name, value)| json!({"name": name, "value": value}));
            json!({"key": advice.key, "setting": setting, "note": advice.note})
        });
        TuneResult {
            miss_cost,
            seed: tuner.args.seed,
            reached: (0..sessions.len())
                .filter(|at| scores.iter().any(|scores| scores[*at].compactions > 0))
                .count(),
            advice: advice.collect(),
            flips: find_flips(&totals),
            points: whole.iter().map(|policy| tuner.points[*policy].clone()).collect(),
            rows,
            front,
            choice,
            bounds,
            sessions: sessions.len(),
            problems,
        }
    }

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
