//! `backcast tune`: many policies over one corpus, and what to set.

mod kept;

use crate::cli::{SearchArg, TuneArgs};
use crate::commands::RunStatus;
use crate::commands::policy::resolve_policy;
use crate::commands::reading::report_problems;
use crate::commands::writing::{OutputTarget, ensure_absent, load_prices, write_output, write_page};
use crate::page::PageContent;
use crate::run::{
    LogHash, LogNeeds, LogSource, Run, SessionView, median_size, progress_with_template, summary_sizes, with_logs,
};
use anyhow::{Context, Result, bail};
use kept::{PolicyScores, SweepFile};
use replay::policy::presets::PolicySet;
use replay::prices::{PriceTable, micro_usd};
use replay::sim::oracle::oracle_bound;
use replay::sim::trace::build_trace;
use replay::sim::uses::find_file_uses;
use replay::tokens::ratios::RatioTable;
use replay::tune::evidence::{ChoiceOptions, Interval, PolicyChoice, choose};
use replay::tune::front::{FrontStep, find_flips, pareto, saved_per_miss};
use replay::tune::score::{PolicyScore, PreparedChain, PreparedSession};
use replay::tune::search::{round_sizes, shuffled, survivors};
use replay::tune::settings::advice;
use replay::tune::space;
use replay::tune::space::SweepPoint;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use table::words::{format_count, format_count_with_plural, format_dollars, group_digits};
use table::{Column, ColumnUnit, OutputFormat, Sheet, TableStyle, TableVisibility, atomic, column};
use transcript::parallel::parallel_map;
use transcript::problem::Problem;

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

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
    ensure_absent(args.html.as_deref(), args.force)?;
    // A run that leaves files behind has to name what it depends on.
    let needs = LogNeeds {
        line_hashes: true,
        content_hashes: folder.is_some(),
    };
    let result = with_logs(&args.input, needs, |source| tuner.tune(&source))??;
    if let Some(folder) = &folder {
        result.write_files(folder, args)?;
    }
    if let Some(path) = &args.html {
        let content = PageContent {
            name: format!("tune {}", args.vary.join(", ")),
            tunes: vec![result.document(args)],
            ..PageContent::default()
        };
        write_page(path, args.force, args.input.quiet, content)?;
    }
    write_output(OutputTarget::stdout(args.format), |out, look| {
        result.write(args, out, look)
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
    kept::check_overwritable(&folder.join(SCORES_FILE), args.force)?;
    let taken = ["points.csv", "front.csv", "recommendation.json"]
        .iter()
        .map(|name| folder.join(name));
    if let Some(file) = taken.into_iter().find(|file| !args.force && file.exists()) {
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
        let key = self.folder.map(|_| self.results_key(&run.log_hashes(), &sessions));
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
        let known = self.search(&sessions, summary, key)?;
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

    /// Returns the hash of everything that results depend on, beside the points themselves.
    fn results_key(&self, logs: &[LogHash], sessions: &[PreparedSession<'_>]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{:?}", self.base.ranges()).as_bytes());
        hasher.update(format!("{:?}", self.prices).as_bytes());
        hasher.update(RatioTable::built_in_text().as_bytes());
        for (path, size, hash) in logs {
            hasher
                .update(path.as_bytes())
                .update(&size.to_le_bytes())
                .update(&hash.unwrap_or_default());
        }
        for session in sessions {
            hasher.update(session.id.as_bytes());
        }
        *hasher.finalize().as_bytes()
    }

    fn search(
        &self,
        sessions: &[PreparedSession<'_>],
        summary: Option<u64>,
        key: Option<[u8; 32]>,
    ) -> Result<KnownScores> {
        let (mut known, mut kept) = self.resume(sessions.len(), key)?;
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

    /// What an earlier run over the same logs found out, and the file that holds it.
    fn resume(&self, sessions: usize, key: Option<[u8; 32]>) -> Result<(KnownScores, Option<SweepFile>)> {
        let place = self.folder.zip(key);
        let open = |(folder, key): (&Path, [u8; 32])| {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            SweepFile::open(&folder.join(SCORES_FILE), &key)
        };
        let opened = place.map(open).transpose()?;
        let (kept, mut scores) = opened.map_or_else(Default::default, |(kept, scores)| (Some(kept), scores));
        let known = self
            .points
            .iter()
            .map(|point| scores.remove(&point.name()).filter(|list| list.len() == sessions));
        let known = known.map(|known| known.unwrap_or_else(|| vec![None; sessions]));
        Ok((known.collect(), kept))
    }
}

/// What frames every policy.
struct ScoreBounds {
    /// Nothing is ever dropped.
    never: PolicyScore,
    /// Only what a later use needs is kept: sum of windows, and calls.
    oracle: (u128, u64),
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

/// One policy of the sweep, as it came out.
#[derive(Clone)]
pub(super) struct PointRow {
    number: usize,
    name: String,
    score: PolicyScore,
    present: PolicyScore,
    sessions: usize,
    objective: f64,
    on_front: bool,
    /// In micro-dollars.
    saved_per_miss: Option<u64>,
}

pub(super) const POINT_COLUMNS: &[Column<PointRow>] = &[
    column(
        "point",
        "No.",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Number of the policy; 0 is the present one.",
        |row| row.number.into(),
    ),
    column(
        "policy",
        "Policy",
        ColumnUnit::Text,
        TableVisibility::Always,
        "What is set; `as it is` for the present policy.",
        |row| row.name.as_str().into(),
    ),
    column(
        "sessions",
        "Sessions",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Sessions that it was replayed on.",
        |row| row.sessions.into(),
    ),
    column(
        "cost_micro_usd",
        "Cost",
        ColumnUnit::MicroUsd,
        TableVisibility::Always,
        "Simulated cost, calls beside the conversation included.",
        |row| micro_usd(row.score.cost).into(),
    ),
    column(
        "saved_share",
        "Saved",
        ColumnUnit::Share,
        TableVisibility::Always,
        "Share of the present policy's cost that it saves; negative if it costs more.",
        |row| {
            (row.present.cost > 0)
                .then(|| 1.0 - row.score.dollars() / row.present.dollars())
                .into()
        },
    ),
    column(
        "misses",
        "Misses",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Uses of what was no longer in the window, files that came back not credited.",
        |row| row.score.misses.into(),
    ),
    column(
        "misses_credited",
        "credited",
        ColumnUnit::Count,
        TableVisibility::Always,
        "The same, files that came back credited.",
        |row| row.score.misses_credited.into(),
    ),
    column(
        "misses_per_100_calls",
        "per 100",
        ColumnUnit::Ratio,
        TableVisibility::Never,
        "Misses in 100 calls, not credited.",
        |row| row.score.misses_per_100().into(),
    ),
    column(
        "at_risk_hit_share",
        "At-risk hits",
        ColumnUnit::Share,
        TableVisibility::IfRoom,
        "Share of uses 20,000 tokens or more away that hit, not credited.",
        |row| row.score.at_risk_hits().into(),
    ),
    column(
        "compactions",
        "Compact",
        ColumnUnit::Count,
        TableVisibility::Always,
        "Compactions.",
        |row| row.score.compactions.into(),
    ),
    column(
        "model_calls",
        "Calls",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Model calls beside the conversation.",
        |row| row.score.model_calls.into(),
    ),
    column(
        "mean_window",
        "Window",
        ColumnUnit::Tokens,
        TableVisibility::Always,
        "Mean window.",
        |row| row.score.whole_mean_window().into(),
    ),
    column(
        "blocked_calls",
        "Blocked",
        ColumnUnit::Count,
        TableVisibility::Never,
        "Calls that could not have been made.",
        |row| row.score.blocked.into(),
    ),
    column(
        "objective_usd",
        "Weighed",
        ColumnUnit::Ratio,
        TableVisibility::Never,
        "Cost in dollars plus misses (in the middle of their interval) and blocked calls at --miss-cost.",
        |row| row.objective.into(),
    ),
    column(
        "on_front",
        "Front",
        ColumnUnit::Flag,
        TableVisibility::Never,
        "Whether no other policy beats it in everything.",
        |row| row.on_front.into(),
    ),
    column(
        "saved_per_extra_miss_micro_usd",
        "Per extra miss",
        ColumnUnit::MicroUsd,
        TableVisibility::Never,
        "On the front: what it saves, for each miss more, against the next dearer policy there that misses less.",
        |row| row.saved_per_miss.into(),
    ),
];

/// Everything that was found out.
struct TuneResult {
    points: Vec<SweepPoint>,
    rows: Vec<PointRow>,
    /// Rows of the front, cheapest first.
    front: Vec<usize>,
    flips: Vec<FrontStep>,
    choice: Option<PolicyChoice>,
    advice: Json,
    bounds: ScoreBounds,
    sessions: usize,
    reached: usize,
    problems: Vec<Problem>,
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
        let told = advice(&tuner.points[best], policy, 200_000);
        let advice = told.iter().map(|advice| {
            let setting = advice
                .setting
                .as_ref()
                .map(|(name, value)| json!({"name": name, "value": value}));
            json!({"key": advice.key, "setting": setting, "note": advice.note})
        });
        TuneResult {
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

    /// Mean window if only what is used again were kept.
    fn oracle_window(&self) -> Option<u64> {
        let (sum, calls) = self.bounds.oracle;
        sum.checked_div(u128::from(calls)).map(|mean| mean as u64)
    }

    fn write_files(&self, folder: &Path, args: &TuneArgs) -> Result<()> {
        let front = self.front.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        for (name, rows) in [("points.csv", &self.rows), ("front.csv", &front)] {
            atomic::write_with(&folder.join(name), args.force, |out| {
                sheet(rows).write(OutputFormat::Csv, TableStyle::default(), out)
            })?;
        }
        let text = serde_json::to_string_pretty(&self.recommendation(args))? + "\n";
        atomic::write(&folder.join("recommendation.json"), args.force, text.as_bytes())?;
        Ok(())
    }

    fn recommendation(&self, args: &TuneArgs) -> Json {
        let interval =
            |interval: &Interval| json!({"share": interval.middle, "low": interval.low, "high": interval.high});
        let name = |at: usize| self.rows[at].name.clone();
        let flips = self
            .flips
            .iter()
            .map(|step| json!({"from": name(step.from), "to": name(step.to), "usd_per_miss": step.dollars_per_miss}));
        let choice = self.choice.as_ref().map(|choice| {
            json!({
                "best": name(choice.best),
                "settings": self.points[choice.best].settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
                "holds": choice.is_significant(),
                "saved_on_all_sessions": interval(&choice.in_sample),
                "saved_on_held_out_sessions": interval(&choice.held_out),
                "folds": choice.folds,
                "folds_that_agree": choice.agreeing_folds,
            })
        });
        json!({
            "schema_version": SCHEMA_VERSION,
            "miss_cost_usd": args.miss_cost,
            "seed": args.seed,
            "sessions": self.sessions,
            "sessions_that_compact": self.reached,
            "policies": self.rows.len(),
            "choice": choice,
            "client_settings": if self.choice.as_ref().is_some_and(PolicyChoice::is_significant) { self.advice.clone() } else { Json::Null },
            "flips": flips.collect::<Vec<_>>(),
            "front": self.front.iter().map(|at| name(*at)).collect::<Vec<_>>(),
            "bounds": {
                "never": {
                    "cost_micro_usd": micro_usd(self.bounds.never.cost),
                    "misses": self.bounds.never.misses,
                    "mean_window": self.bounds.never.mean_window().round(),
                },
                "oracle": {"misses": 0, "mean_window": self.oracle_window()},
            },
            "limits": {"open_loop": true},
        })
    }

    /// The recommendation and every policy it was chosen from.
    fn document(&self, args: &TuneArgs) -> Json {
        let mut document = self.recommendation(args);
        document["points"] = sheet(&self.rows).to_json();
        document
    }

    fn write(&self, args: &TuneArgs, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        match args.format {
            OutputFormat::Table => self.write_text(args, out, look),
            OutputFormat::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document(args))?;
                writeln!(out)
            }
            format => sheet(&self.rows).write(format, look, out),
        }
    }

    fn write_text(&self, args: &TuneArgs, out: &mut dyn Write, look: TableStyle) -> io::Result<()> {
        writeln!(
            out,
            "{} on {}, of which {} compact under any of them.\n",
            format_count_with_plural(self.rows.len() as u64, "policy", "policies"),
            format_count(self.sessions as u64, "session"),
            group_digits(self.reached as u64)
        )?;
        let (shown, is_thinned) = self.table_rows(args.top);
        let rows = shown.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        sheet(&rows).write(OutputFormat::Table, look, out)?;
        if shown.len() < self.rows.len() {
            let front = self.front.len();
            let what = match (is_thinned, shown.len()) {
                (false, _) => "the present one, and those that no other beats in\n  everything".to_owned(),
                (true, ..=2) => {
                    format!("the present one and the best of the {front} that no\n  other beats in everything")
                }
                (true, _) => {
                    format!("the present one, the best, and some of the {front} that no\n  other beats in everything")
                }
            };
            writeln!(
                out,
                "{} of {} shown: {what}; --top 0 shows all.",
                shown.len(),
                format_count_with_plural(self.rows.len() as u64, "policy", "policies")
            )?;
        }
        writeln!(
            out,
            "Bounds: without any compaction {}, no miss, a mean window of {};\n  with only what is used again kept, no miss, {}.\n",
            format_dollars(Some(micro_usd(self.bounds.never.cost))),
            group_digits(self.bounds.never.mean_window().round() as u64),
            self.oracle_window().map_or("none".to_owned(), group_digits)
        )?;
        self.write_choice(args, out)?;
        self.write_flips(out)?;
        writeln!(
            out,
            "Open loop: recorded messages are taken as they came. Wrong edits and lost\n  reasoning after a compaction are not in these dollars, which favours low\n  thresholds."
        )
    }

    /// The rows of the table, cheapest first: all policies if `top` is 0, else those of the front and the present one, evenly
    /// thinned out to as many; and whether they were. The present policy and the best are always among them.
    fn table_rows(&self, top: usize) -> (Vec<usize>, bool) {
        let by_cost = |rows: &mut Vec<usize>| rows.sort_by_key(|at| (self.rows[*at].score.cost, *at));
        if top == 0 {
            let mut all = (0..self.rows.len()).collect::<Vec<_>>();
            by_cost(&mut all);
            return (all, false);
        }
        let needed = [0, self.choice.as_ref().map_or(0, |choice| choice.best)];
        let mut shown = self.front.clone();
        shown.extend(needed);
        by_cost(&mut shown);
        shown.dedup();
        let is_needed = |at: &usize| needed.contains(at);
        let others = shown.iter().filter(|at| !is_needed(at)).count();
        let room = top.saturating_sub(shown.len() - others).min(others);
        let mut passed = 0;
        shown.retain(|at| {
            if is_needed(at) {
                return true;
            }
            passed += 1;
            passed * room / others > (passed - 1) * room / others
        });
        (shown, room < others)
    }

    fn write_choice(&self, args: &TuneArgs, out: &mut dyn Write) -> io::Result<()> {
        let Some(choice) = &self.choice else { return Ok(()) };
        let told = |interval: &Interval| {
            format!(
                "{:.1} % [{:.1}, {:.1}]",
                100.0 * interval.middle,
                100.0 * interval.low,
                100.0 * interval.high
            )
        };
        let best = &self.rows[choice.best];
        if choice.best == 0 {
            return writeln!(
                out,
                "Keep what you have: at ${} a miss nothing that was tried is better on these\n  sessions together.\n",
                args.miss_cost
            );
        }
        if !choice.is_significant() {
            return writeln!(
                out,
                "No difference shown at ${} a miss. The best on all sessions, {},\n  saves {} of cost and misses there, but choosing on some sessions\n  saves {} on the others.\n{SAVED_COLUMN_NOTE}\n",
                args.miss_cost,
                best.name,
                told(&choice.in_sample),
                told(&choice.held_out)
            );
        }
        writeln!(
            out,
            "Recommended at ${} a miss: {}\n  saves {} of cost and misses on these sessions,\n  {} on sessions that had no say ({} of {} folds agree).",
            args.miss_cost,
            best.name,
            told(&choice.in_sample),
            told(&choice.held_out),
            choice.agreeing_folds,
            choice.folds
        )?;
        writeln!(out, "{SAVED_COLUMN_NOTE}")?;
        for advice in self.advice.as_array().into_iter().flatten() {
            let note = advice["note"].as_str().unwrap_or_default();
            match (advice["setting"]["name"].as_str(), advice["setting"]["value"].as_str()) {
                (Some(name), Some(value)) => writeln!(out, "  settings.json: {name} = {value}\n    ({note})")?,
                _ => writeln!(out, "  {}: {note}", advice["key"].as_str().unwrap_or_default())?,
            }
        }
        writeln!(out)
    }

    fn write_flips(&self, out: &mut dyn Write) -> io::Result<()> {
        if self.flips.is_empty() {
            return Ok(());
        }
        writeln!(out, "Where the choice flips, as a miss gets dearer:")?;
        let first = ("cheapest".to_owned(), self.flips[0].from);
        let steps = self.flips.iter().map(|step| {
            let price = format!("above ${:.2}", step.dollars_per_miss.max(0.0));
            (price, step.to)
        });
        let lines = std::iter::once(first).chain(steps);
        let lines = lines.map(|(price, policy)| (price, self.rows[policy].name.as_str()));
        out.write_all(align_columns(&lines.collect::<Vec<_>>()).as_bytes())?;
        writeln!(out)
    }
}

/// Prices and policies in two columns.
fn align_columns(lines: &[(String, &str)]) -> String {
    let width = lines.iter().map(|(price, _)| price.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(price, policy)| format!("  {price:>width$}  {policy}\n"));
    lines.collect()
}

/// Why the text has other shares than the table.
const SAVED_COLUMN_NOTE: &str = "  (Saved in the table is of cost alone; here misses and blocked calls count.)";

fn sheet(rows: &[PointRow]) -> Sheet<'_, PointRow> {
    Sheet {
        schema_version: SCHEMA_VERSION,
        columns: POINT_COLUMNS,
        rows,
        total: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_are_in_line() {
        let lines = [
            ("cheapest".to_owned(), "window.percent=50"),
            ("above $0.83".to_owned(), "window.percent=80"),
            ("above $13.40".to_owned(), "as it is"),
        ];
        assert_eq!(
            align_columns(&lines),
            "      cheapest  window.percent=50\n   above $0.83  window.percent=80\n  above $13.40  as it is\n"
        );
    }
}
