//! `backcast tune`: many policies over one corpus, and what to set.

mod kept;

use crate::cli::{SearchMode, TuneArgs};
use crate::commands::Ending;
use crate::commands::policy::resolve;
use crate::commands::reading::{Reading, close, progress, with_logs};
use crate::commands::replay::learned_summary;
use crate::commands::writing::{check_free, emit, load_prices, write_page};
use crate::page::Content;
use crate::run::Corpus;
use anyhow::{Context, Result, bail};
use kept::{Kept, Scores};
use replay::policy::presets::Policies;
use replay::prices::{PriceTable, micro_usd};
use replay::sim::oracle::bound;
use replay::sim::trace::trace;
use replay::sim::uses::uses;
use replay::tokens::ratios::RatioTable;
use replay::tune::evidence::{Choice, Interval, Rigour, choose};
use replay::tune::front::{Step, flips, pareto, saved_per_miss};
use replay::tune::score::{Prepared, Ready, Score};
use replay::tune::search::{rounds, shuffled, survivors};
use replay::tune::settings::advice;
use replay::tune::space;
use replay::tune::space::Point;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use table::words::{count, count_of, dollars, grouped};
use table::{Column, Format, InTable, Look, Sheet, Unit, atomic, column};
use transcript::parallel::side_by_side;
use transcript::problem::Problem;
use transcript::thread::{Session, thread};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Policies of a random search, where nothing else is said.
const POINTS: u64 = 100;

/// Parts that sessions are split into, where nothing else is said.
const FOLDS: usize = 5;

/// What a run that was broken off goes on from.
const SCORES: &str = "scores";

/// Policies that are replayed before what is known is put on disk.
const BATCH: usize = 16;

/// Runs it.
pub fn run(args: &TuneArgs) -> Result<Ending> {
    let base = resolve(&args.policy)?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let points = points(args)?;
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
    check_free(args.html.as_deref(), args.force)?;
    let result = with_logs(&args.input, true, |reading| tuner.tune(reading))??;
    if let Some(folder) = &folder {
        result.save(folder, args)?;
    }
    if let Some(path) = &args.html {
        let content = Content {
            name: format!("tune {}", args.vary.join(", ")),
            tunes: vec![result.document(args)],
            ..Content::default()
        };
        write_page(path, args.force, args.input.quiet, content)?;
    }
    emit(&args.output(), |out, look| result.write(args, out, look))?;
    Ok(close(&args.input, &result.problems))
}

/// The present policy first, then everything that is tried.
fn points(args: &TuneArgs) -> Result<Vec<Point>> {
    let axes = args
        .vary
        .iter()
        .map(|text| space::axis(text, args.max_points))
        .collect::<Result<Vec<_>, _>>()?;
    if args.points.is_some() && args.search != SearchMode::Random {
        bail!("--points is about a random search\n  hint: add --search random, or leave --points out");
    }
    let tried = match args.search {
        SearchMode::Random => space::random(&axes, args.points.unwrap_or(POINTS), args.seed)?,
        SearchMode::Grid | SearchMode::Halving => space::grid(&axes, args.max_points)?,
    };
    let present = Point { settings: Vec::new() };
    Ok(std::iter::once(present).chain(tried).collect())
}

fn check_folder(folder: &Path, args: &TuneArgs) -> Result<PathBuf> {
    kept::check(&folder.join(SCORES), args.force)?;
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
    points: &'a [Point],
    policies: &'a [Policies],
    base: &'a Policies,
    prices: &'a PriceTable,
    folder: Option<&'a Path>,
}

/// Scores by policy and session, as far as they are known.
type Known = Vec<Scores>;

impl Tuner<'_> {
    fn tune(&self, reading: Reading<'_>) -> Result<Tuned> {
        let corpus = Corpus::read(reading.logs, &reading.options);
        let summary = learned_summary(&corpus);
        let bar = reading.work_bar(&corpus);
        let (prepared, defects) = corpus.map_sessions(|id, parts| {
            bar.inc(1);
            let session = Session::new(id, parts);
            let chains = thread(&session).chains;
            let traces = chains
                .iter()
                .map(|chain| trace(&session, chain, RatioTable::built_in()));
            let ready = traces
                .filter(|trace| trace.calls.iter().any(|call| !call.is_copied))
                .map(|trace| {
                    let uses = uses(&session, &trace);
                    Ready::new(trace, uses, self.prices)
                });
            Prepared {
                id: id.to_owned(),
                chains: ready.collect(),
            }
        });
        let sessions = prepared
            .into_iter()
            .filter(|session| !session.chains.is_empty())
            .collect::<Vec<_>>();
        // Only a run that leaves something behind has to name what it depends on, which means reading all logs.
        let key = self.folder.map(|_| self.key(&corpus, &sessions));
        let mut problems = corpus.problems;
        problems.extend(defects);
        problems.extend(reading.problems());
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
        let never = Policies::preset("never")?;
        let bound = side_by_side(&sessions, |session| session.replay(&never, summary));
        let bounds = Bounds {
            never: Score::sum(&bound),
            oracle: side_by_side(&sessions, oracle)
                .iter()
                .fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1)),
        };
        Ok(Tuned::new(self, &sessions, known, bounds, problems))
    }

    /// What results depend on, beside the points themselves.
    fn key(&self, corpus: &Corpus, sessions: &[Prepared<'_>]) -> [u8; 32] {
        let mut hasher = blake3::Hasher::new();
        hasher.update(format!("{:?}", self.base.ranges()).as_bytes());
        hasher.update(format!("{:?}", self.prices).as_bytes());
        hasher.update(RatioTable::built_in_text().as_bytes());
        for (path, size, hash) in corpus.hash_logs() {
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

    fn search(&self, sessions: &[Prepared<'_>], summary: Option<u64>, key: Option<[u8; 32]>) -> Result<Known> {
        let (mut known, mut kept) = self.resume(sessions.len(), key)?;
        let order = shuffled(sessions.iter().map(|session| session.id.as_str()), !self.args.seed);
        let mut alive = (0..self.points.len()).collect::<Vec<_>>();
        let sizes = rounds(self.args.search.into(), alive.len(), sessions.len());
        let bar = progress(
            sizes.len() as u64 * alive.len() as u64,
            self.args.input.quiet,
            "{pos} of {len} replays, {eta} left, {msg}",
        );
        for (round, &size) in sizes.iter().enumerate() {
            let chosen = &order[..size];
            let mut totals = Vec::with_capacity(alive.len());
            for batch in alive.chunks(BATCH) {
                let alike = batch.chunk_by(|a, b| self.points[*a].is_like(&self.points[*b]));
                let jobs = alike.flat_map(|policies| chosen.iter().map(move |session| (policies, *session)));
                let open = jobs
                    .map(|(policies, session)| {
                        let policies = policies.iter().filter(|policy| known[**policy][session].is_none());
                        (policies.copied().collect::<Vec<_>>(), session)
                    })
                    .filter(|(policies, _)| !policies.is_empty())
                    .collect::<Vec<_>>();
                let scores = side_by_side(&open, |(policies, session)| {
                    let policies = policies.iter().map(|policy| &self.policies[*policy]);
                    sessions[*session].replay_alike(policies, summary)
                });
                for ((policies, session), scores) in std::iter::zip(open, scores) {
                    for (policy, score) in std::iter::zip(policies, scores) {
                        known[policy][session] = Some(score);
                    }
                }
                bar.inc(batch.len() as u64);
                totals.extend(batch.iter().map(|policy| total(&known[*policy], chosen)));
                bar.set_message(self.best_so_far(&alive, &totals));
                if let Some(kept) = &mut kept {
                    let batch = batch
                        .iter()
                        .map(|policy| (self.points[*policy].name(), &known[*policy]));
                    kept.add(&batch.collect::<Vec<_>>())?;
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
    fn best_so_far(&self, alive: &[usize], totals: &[Score]) -> String {
        let objectives = totals.iter().map(|total| total.objective(self.args.miss_cost));
        let best = std::iter::zip(alive, objectives).min_by(|(_, a), (_, b)| a.total_cmp(b));
        best.map_or_else(String::new, |(policy, _)| {
            format!("best: {}", self.points[*policy].name())
        })
    }

    /// What an earlier run over the same logs found out, and the file that holds it.
    fn resume(&self, sessions: usize, key: Option<[u8; 32]>) -> Result<(Known, Option<Kept>)> {
        let place = self.folder.zip(key);
        let open = |(folder, key): (&Path, [u8; 32])| {
            std::fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
            Kept::open(&folder.join(SCORES), &key)
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
struct Bounds {
    /// Nothing is ever dropped.
    never: Score,
    /// Only what a later use needs is kept: sum of windows, and calls.
    oracle: (u128, u64),
}

/// Windows and calls of a session if only what is used again were kept.
fn oracle(session: &Prepared<'_>) -> (u128, u64) {
    let main = session.chains.iter().filter(|chain| !chain.trace.is_sidechain);
    main.map(|chain| bound(&chain.trace, &chain.uses))
        .fold((0, 0), |sum, bound| (sum.0 + bound.occupancy_sum, sum.1 + bound.calls))
}

fn total(scores: &[Option<Score>], sessions: &[usize]) -> Score {
    Score::sum(sessions.iter().filter_map(|session| scores[*session].as_ref()))
}

/// One policy of the sweep, as it came out.
#[derive(Clone)]
pub(super) struct PointRow {
    number: usize,
    name: String,
    score: Score,
    present: Score,
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
        Unit::Count,
        InTable::Never,
        "Number of the policy; 0 is the present one.",
        |row| row.number.into(),
    ),
    column(
        "policy",
        "Policy",
        Unit::Text,
        InTable::Always,
        "What is set; `as it is` for the present policy.",
        |row| row.name.as_str().into(),
    ),
    column(
        "sessions",
        "Sessions",
        Unit::Count,
        InTable::Never,
        "Sessions that it was replayed on.",
        |row| row.sessions.into(),
    ),
    column(
        "cost_micro_usd",
        "Cost",
        Unit::MicroUsd,
        InTable::Always,
        "Simulated cost, calls beside the conversation included.",
        |row| micro_usd(row.score.cost).into(),
    ),
    column(
        "saved_share",
        "Saved",
        Unit::Share,
        InTable::Always,
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
        Unit::Count,
        InTable::Always,
        "Uses of what was no longer in the window, files that came back not credited.",
        |row| row.score.misses.into(),
    ),
    column(
        "misses_credited",
        "credited",
        Unit::Count,
        InTable::Always,
        "The same, files that came back credited.",
        |row| row.score.misses_credited.into(),
    ),
    column(
        "misses_per_100_calls",
        "per 100",
        Unit::Ratio,
        InTable::Never,
        "Misses in 100 calls, not credited.",
        |row| row.score.misses_per_100().into(),
    ),
    column(
        "at_risk_hit_share",
        "At-risk hits",
        Unit::Share,
        InTable::IfRoom,
        "Share of uses 20,000 tokens or more away that hit, not credited.",
        |row| row.score.at_risk_hits().into(),
    ),
    column(
        "compactions",
        "Compact",
        Unit::Count,
        InTable::Always,
        "Compactions.",
        |row| row.score.compactions.into(),
    ),
    column(
        "model_calls",
        "Calls",
        Unit::Count,
        InTable::Never,
        "Model calls beside the conversation.",
        |row| row.score.model_calls.into(),
    ),
    column(
        "mean_window",
        "Window",
        Unit::Tokens,
        InTable::Always,
        "Mean window.",
        |row| row.score.whole_mean_window().into(),
    ),
    column(
        "blocked_calls",
        "Blocked",
        Unit::Count,
        InTable::Never,
        "Calls that could not have been made.",
        |row| row.score.blocked.into(),
    ),
    column(
        "objective_usd",
        "Weighed",
        Unit::Ratio,
        InTable::Never,
        "Cost in dollars plus misses (in the middle of their interval) and blocked calls at --miss-cost.",
        |row| row.objective.into(),
    ),
    column(
        "on_front",
        "Front",
        Unit::Flag,
        InTable::Never,
        "Whether no other policy beats it in everything.",
        |row| row.on_front.into(),
    ),
    column(
        "saved_per_extra_miss_micro_usd",
        "Per extra miss",
        Unit::MicroUsd,
        InTable::Never,
        "On the front: what it saves, for each miss more, against the next dearer policy there that misses less.",
        |row| row.saved_per_miss.into(),
    ),
];

/// Everything that was found out.
struct Tuned {
    points: Vec<Point>,
    rows: Vec<PointRow>,
    /// Rows of the front, cheapest first.
    front: Vec<usize>,
    flips: Vec<Step>,
    choice: Option<Choice>,
    advice: Json,
    bounds: Bounds,
    sessions: usize,
    reached: usize,
    problems: Vec<Problem>,
}

impl Tuned {
    fn new(
        tuner: &Tuner<'_>,
        sessions: &[Prepared<'_>],
        known: Known,
        bounds: Bounds,
        problems: Vec<Problem>,
    ) -> Tuned {
        let whole = (0..known.len())
            .filter(|policy| known[*policy].iter().all(Option::is_some))
            .collect::<Vec<_>>();
        let scores = whole
            .iter()
            .map(|policy| known[*policy].iter().flatten().copied().collect::<Vec<_>>())
            .collect::<Vec<_>>();
        let totals = scores.iter().map(Score::sum).collect::<Vec<_>>();
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
        let rigour = Rigour {
            miss_cost,
            folds: tuner.args.folds.unwrap_or(FOLDS),
            resamples: tuner.args.resamples,
            seed: tuner.args.seed,
        };
        let choice = choose(&scores, &names, &rigour);
        let best = choice.as_ref().map_or(0, |choice| whole[choice.best]);
        let policy = tuner.policies[best].of(None);
        let told = advice(&tuner.points[best], policy, 200_000);
        let advice = told.iter().map(|advice| {
            let setting = advice
                .setting
                .as_ref()
                .map(|(name, value)| json!({"name": name, "value": value}));
            json!({"key": advice.key, "setting": setting, "note": advice.note})
        });
        Tuned {
            reached: (0..sessions.len())
                .filter(|at| scores.iter().any(|scores| scores[*at].compactions > 0))
                .count(),
            advice: advice.collect(),
            flips: flips(&totals),
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

    fn save(&self, folder: &Path, args: &TuneArgs) -> Result<()> {
        let front = self.front.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        for (name, rows) in [("points.csv", &self.rows), ("front.csv", &front)] {
            atomic::write_with(&folder.join(name), args.force, |out| {
                sheet(rows).write(Format::Csv, Look::default(), out)
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
                "holds": choice.holds(),
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
            "client_settings": if self.choice.as_ref().is_some_and(Choice::holds) { self.advice.clone() } else { Json::Null },
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

    fn write(&self, args: &TuneArgs, out: &mut dyn Write, look: Look) -> io::Result<()> {
        match args.format {
            Format::Table => self.write_text(args, out, look),
            Format::Json => {
                serde_json::to_writer_pretty(&mut *out, &self.document(args))?;
                writeln!(out)
            }
            format => sheet(&self.rows).write(format, look, out),
        }
    }

    fn write_text(&self, args: &TuneArgs, out: &mut dyn Write, look: Look) -> io::Result<()> {
        writeln!(
            out,
            "{} on {}, of which {} compact under any of them.\n",
            count_of(self.rows.len() as u64, "policy", "policies"),
            count(self.sessions as u64, "session"),
            grouped(self.reached as u64)
        )?;
        let (shown, is_thinned) = self.shown(args.top);
        let rows = shown.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        sheet(&rows).write(Format::Table, look, out)?;
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
                count_of(self.rows.len() as u64, "policy", "policies")
            )?;
        }
        writeln!(
            out,
            "Bounds: without any compaction {}, no miss, a mean window of {};\n  with only what is used again kept, no miss, {}.\n",
            dollars(Some(micro_usd(self.bounds.never.cost))),
            grouped(self.bounds.never.mean_window().round() as u64),
            self.oracle_window().map_or("none".to_owned(), grouped)
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
    fn shown(&self, top: usize) -> (Vec<usize>, bool) {
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
        if !choice.holds() {
            return writeln!(
                out,
                "No difference shown at ${} a miss. The best on all sessions, {},\n  saves {} of cost and misses there, but choosing on some sessions\n  saves {} on the others.\n{OF_COST}\n",
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
        writeln!(out, "{OF_COST}")?;
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
        out.write_all(in_line(&lines.collect::<Vec<_>>()).as_bytes())?;
        writeln!(out)
    }
}

/// Prices and policies in two columns.
fn in_line(lines: &[(String, &str)]) -> String {
    let width = lines.iter().map(|(price, _)| price.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(price, policy)| format!("  {price:>width$}  {policy}\n"));
    lines.collect()
}

/// Why the text has other shares than the table.
const OF_COST: &str = "  (Saved in the table is of cost alone; here misses and blocked calls count.)";

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
            in_line(&lines),
            "      cheapest  window.percent=50\n   above $0.83  window.percent=80\n  above $13.40  as it is\n"
        );
    }
}
