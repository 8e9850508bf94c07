//! Fits the ratios of `src/tokens/ratios.json` to real logs and says how good they are.
//!
//! ```text
//! cargo run --release --example fit -- PATHS [--folds 2] [--seed 1] [--write FILE]
//! ```
//!
//! Logs are read, threaded and paired by the library itself, and every table is scored by running the library with it:
//! there is no second formula here. For each family of models the coefficients are chosen so that the sum of absolute
//! errors is smallest (least absolute deviations: a few rounds with thousands of tokens that no record shows must not
//! bend the rates), over two sorts of [`Equation`]: growth of the window from call to call, and final outputs. Held-out
//! errors come from folds by session: each session is scored by coefficients that never saw it.
//!
//! A coefficient that too few rounds speak of keeps the value it had, and so do those in [`ASSUMED`]. The sizes of
//! attachments are never touched. Same logs, same options: same bytes.
//!
//! # A new model family
//!
//! 1. Copy the entry of the nearest family in `ratios.json`, give it a `name`, and set `from` to the first version it
//!    covers (`[6, 0]`; entries stay in ascending order, and each reaches up to the next one). Empty its `note`.
//! 2. Run this on logs of that model. Families without logs in the run keep everything, note included, so the logs of
//!    one model are enough.
//! 3. Look at the held-out errors. If they are much worse than the fitted ones, there were too few sessions: gather more.
//! 4. Paste the new table over `ratios.json` (or let `--write` do it) and run `cargo test`.
//!
//! With a few dozen rounds nothing is fitted and the copied values stand, which is still the best guess: a tokenizer
//! lasts for several models.

use anyhow::{Result, bail};
use backcast::run::{ReadOptions, Run};
use clap::Parser;
use replay::quantile::quantile;
use replay::tokens::calibrate::size_chain;
use replay::tokens::equation::Equation;
use replay::tokens::ratios::{Coefficient, RatioTable, Ratios};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::PathBuf;
use table::atomic;
use transcript::bytes::ReadLimits;
use transcript::discover::discover;
use transcript::problem::Problem;

/// Fits the token ratios to logs.
#[derive(Parser)]
struct Args {
    /// Logs, folders or patterns.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Groups of sessions for the held-out errors.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(2..))]
    folds: u64,
    /// Another seed, other groups.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where the new table goes instead of standard output.
    #[arg(long)]
    write: Option<PathBuf>,
}

/// Coefficients that logs of mostly Latin text do not determine, or that only scale a table that is not fitted.
const ASSUMED: [Coefficient; 2] = [Coefficient::Script, Coefficient::Attachments];

/// Constants that stand for what a rate overstates, and so may be below zero.
const MAY_BE_NEGATIVE: [Coefficient; 2] = [Coefficient::PerResponse, Coefficient::PerSignature];

/// A family with fewer rounds than this keeps all its coefficients.
const MIN_ROUNDS: usize = 200;

/// A coefficient that fewer equations or sessions speak of keeps its value.
const MIN_EQUATIONS: usize = 40;
const MIN_SESSIONS: usize = 5;

/// Where the zero of growth errors lies among them. A window also grows by what no record shows, so errors have a long
/// tail to one side only; leaning a little towards it costs nothing in the median error and takes a quarter off the mean.
/// Outputs are recorded whole: theirs lies in the middle.
const LEAN: f64 = 0.55;

/// Errors grow about with the square root of what is estimated; equations smaller than this weigh alike.
const SMALL: f64 = 300.0;

/// Errors beyond this are not drift but something that happened.
const DRIFT_LIMIT: f64 = 1500.0;

const WIDTH: usize = Coefficient::ALL.len();

fn main() -> Result<()> {
    let args = Args::parse();
    let run = read(&args)?;
    let old = RatioTable::built_in();
    let sessions = survey(&run, old);
    let new = fit(old, &sessions, |_| true);
    let held_out = held_out(&run, old, &sessions, &args);
    print!(
        "{}",
        report(&args, old, &new, &sessions, &survey(&run, &new), &held_out)?
    );
    let json = write_table(&new)?;
    match &args.write {
        Some(path) => atomic::write(path, true, json.as_bytes())?,
        None => print!("\n{json}"),
    }
    Ok(())
}

fn read(args: &Args) -> Result<Run> {
    let found = discover(&args.paths, false)?;
    if found.logs.is_empty() {
        bail!("no logs there");
    }
    let options = ReadOptions {
        limits: ReadLimits { max_line: 64 << 20 },
        ..ReadOptions::default()
    };
    let run = Run::read(&found.logs, &options);
    let problems = found
        .problems
        .iter()
        .chain(&run.problems)
        .map(Problem::count)
        .sum::<u64>();
    if problems > 0 {
        eprintln!("{problems} problems with these logs; `backcast stats --problems` lists them");
    }
    Ok(run)
}

/// What one session says about the coefficients, and how well a table does on it.
struct Surveyed {
    id: String,
    rounds: Vec<Scored>,
    outputs: Vec<Scored>,
}

/// One equation and how far the table was off.
struct Scored {
    /// Number of the family in the table.
    family: usize,
    model: String,
    equation: Equation,
    /// Predicted minus recorded.
    error: f64,
    /// What the error is compared with: the window.
    window: f64,
}

/// Goes over all sessions with a table.
fn survey(run: &Run, table: &RatioTable) -> Vec<Surveyed> {
    let (surveyed, problems) = run.map_sessions(|view| {
        let session = view.session();
        let mut surveyed = Surveyed {
            id: view.id().to_owned(),
            rounds: Vec::new(),
            outputs: Vec::new(),
        };
        for chain in view.chains() {
            let sizes = size_chain(session, chain, table, &mut |_, _, _, _| {});
            let model_of = |round: usize| {
                let node = chain.rounds[round].lines[0];
                session
                    .response(node)
                    .map_or("", |line| session.log(node).string(line.model))
            };
            let scored = |round: usize, equation: Equation, error: f64, window: f64| Scored {
                family: number_of(table, table.for_model(model_of(round))),
                model: model_of(round).to_owned(),
                equation,
                error,
                window,
            };
            for pair in &sizes.pairs {
                let equation = Equation::growth(session, chain, &sizes, pair, table);
                surveyed
                    .rounds
                    .push(scored(pair.round, equation, pair.predicted - pair.actual, pair.actual));
            }
            for (at, round) in chain.rounds.iter().enumerate() {
                if session.is_copied(round.lines[0]) {
                    continue;
                }
                if let Some(equation) = Equation::output(session, chain, &sizes, at, table) {
                    let error = worth(&equation, table.for_model(model_of(at))) - equation.tokens;
                    surveyed
                        .outputs
                        .push(scored(at, equation, error, sizes.rounds[at].input.unwrap_or(0) as f64));
                }
            }
        }
        surveyed
    });
    for problem in problems {
        eprintln!("left out: {problem}");
    }
    surveyed
}

fn number_of(table: &RatioTable, ratios: &Ratios) -> usize {
    table
        .families
        .iter()
        .position(|family| family.from == ratios.from)
        .unwrap_or(0)
}

/// What an equation's amounts add up to.
fn worth(equation: &Equation, ratios: &Ratios) -> f64 {
    std::iter::zip(Coefficient::ALL, equation.amounts)
        .map(|(of, amount)| ratios[of] * amount)
        .sum()
}

/// Fold of a session: by its id, so that neither order nor number of the others matters.
fn fold(session: &str, args: &Args) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(session.as_bytes(), args.seed) % args.folds
}

/// Every session scored by a table that was fitted on the other folds.
fn held_out(run: &Run, old: &RatioTable, sessions: &[Surveyed], args: &Args) -> Vec<Surveyed> {
    let mut scored = Vec::new();
    for test in 0..args.folds {
        let table = fit(old, sessions, |session| fold(&session.id, args) != test);
        scored.extend(
            survey(run, &table)
                .into_iter()
                .filter(|session| fold(&session.id, args) == test),
        );
    }
    scored
}

/// Fits every family on the sessions that `takes` names.
fn fit(old: &RatioTable, sessions: &[Surveyed], takes: impl Fn(&Surveyed) -> bool) -> RatioTable {
    let taken = sessions.iter().filter(|session| takes(session)).collect::<Vec<_>>();
    let mut table = old.clone();
    for (number, ratios) in table.families.iter_mut().enumerate() {
        fit_family(ratios, number, &taken);
    }
    table
}

fn fit_family(ratios: &mut Ratios, number: usize, sessions: &[&Surveyed]) {
    let of_family = |scored: &&Scored| scored.family == number;
    let rounds = sessions
        .iter()
        .flat_map(|session| session.rounds.iter().filter(of_family))
        .collect::<Vec<_>>();
    if rounds.len() < MIN_ROUNDS {
        return;
    }
    let outputs = sessions
        .iter()
        .flat_map(|session| session.outputs.iter().filter(of_family));
    let equations = rounds
        .iter()
        .map(|scored| (&scored.equation, LEAN))
        .chain(outputs.map(|scored| (&scored.equation, 0.5)))
        .collect::<Vec<_>>();
    let fitted = Coefficient::ALL
        .into_iter()
        .filter(|of| !ASSUMED.contains(of) && is_determined(*of, number, sessions))
        .collect::<Vec<_>>();
    least_deviations(ratios, &fitted, &equations);
    for of in &fitted {
        // As many digits as mean something.
        let scale = if ratios[*of].abs() < 2.0 { 1e4 } else { 10.0 };
        ratios[*of] = (ratios[*of] * scale).round() / scale;
    }
    let drifts = rounds
        .iter()
        .map(|scored| scored.equation.tokens - worth(&scored.equation, ratios));
    let drift = drifts.map(|error| error.clamp(-DRIFT_LIMIT, DRIFT_LIMIT)).sum::<f64>() / rounds.len() as f64;
    ratios.drift = (drift * 10.0).round() / 10.0;
    ratios.note = note(number, &fitted, &rounds, sessions);
}

/// Whether enough equations of enough sessions speak of a coefficient.
fn is_determined(of: Coefficient, family: usize, sessions: &[&Surveyed]) -> bool {
    let speaks = |scored: &&Scored| scored.family == family && scored.equation.amounts[of as usize] != 0.0;
    let counts = sessions
        .iter()
        .map(|session| session.rounds.iter().chain(&session.outputs).filter(speaks).count())
        .filter(|count| *count > 0)
        .collect::<Vec<_>>();
    counts.len() >= MIN_SESSIONS && counts.iter().sum::<usize>() >= MIN_EQUATIONS
}

fn note(family: usize, fitted: &[Coefficient], rounds: &[&Scored], sessions: &[&Surveyed]) -> String {
    let mut models = BTreeMap::<&str, usize>::new();
    for scored in rounds {
        *models.entry(&scored.model).or_default() += 1;
    }
    let mut models = models.into_iter().collect::<Vec<_>>();
    models.sort_by_key(|(name, count)| (std::cmp::Reverse(*count), *name));
    let models = models
        .iter()
        .map(|(name, count)| format!("{name} {count}"))
        .collect::<Vec<_>>()
        .join(", ");
    let has_rounds = |session: &&&Surveyed| session.rounds.iter().any(|scored| scored.family == family);
    let of_family = |session: &&Surveyed| session.outputs.iter().filter(|scored| scored.family == family).count();
    let kept = Coefficient::ALL
        .into_iter()
        .filter(|of| !fitted.contains(of))
        .map(Coefficient::name)
        .collect::<Vec<_>>();
    format!(
        "Fitted on {} rounds ({models}) and {} final outputs of {} sessions. Not fitted: {}.",
        rounds.len(),
        sessions.iter().map(of_family).sum::<usize>(),
        sessions.iter().filter(has_rounds).count(),
        kept.join(", ")
    )
}

/// Sets the `fitted` coefficients so that the sum of absolute errors is smallest; the others stand.
///
/// An equation comes with the share of errors that should lie below zero. The method is iteratively reweighted least
/// squares: an equation weighs the less the further it is off. Errors below a token weigh alike, so that no weight is
/// infinite.
fn least_deviations(ratios: &mut Ratios, fitted: &[Coefficient], equations: &[(&Equation, f64)]) {
    let kept = Coefficient::ALL
        .into_iter()
        .filter(|of| !fitted.contains(of))
        .collect::<Vec<_>>();
    let kept_worth = |equation: &Equation| {
        kept.iter()
            .map(|of| ratios[*of] * equation.amounts[*of as usize])
            .sum::<f64>()
    };
    let targets = equations
        .iter()
        .map(|(equation, _)| equation.tokens - kept_worth(equation))
        .collect::<Vec<_>>();
    // From nothing, so that fitting again gives the same table again.
    for of in fitted {
        ratios[*of] = 0.0;
    }
    for _ in 0..500 {
        let mut system = System::default();
        for ((equation, lean), target) in std::iter::zip(equations, &targets) {
            let missing = equation.tokens - worth(equation, ratios);
            let side = if missing > 0.0 { *lean } else { 1.0 - lean };
            let weight = side / missing.abs().max(1.0) / equation.tokens.abs().max(SMALL).sqrt();
            system.add(fitted, equation, *target, weight);
        }
        let solution = system.solve_bounded(fitted);
        let moves = std::iter::zip(fitted, &solution).map(|(of, value)| (ratios[*of] - value).abs());
        let moved = moves.fold(0.0, f64::max);
        for (of, value) in std::iter::zip(fitted, solution) {
            ratios[*of] = value;
        }
        if moved < 1e-7 {
            break;
        }
    }
}

/// Normal equations of weighted least squares; only the places of fitted coefficients are filled.
struct System {
    matrix: [[f64; WIDTH]; WIDTH],
    right: [f64; WIDTH],
}

impl Default for System {
    fn default() -> System {
        System {
            matrix: [[0.0; WIDTH]; WIDTH],
            right: [0.0; WIDTH],
        }
    }
}

impl System {
    fn add(&mut self, fitted: &[Coefficient], equation: &Equation, target: f64, weight: f64) {
        for &row in fitted {
            let amount = weight * equation.amounts[row as usize];
            if amount == 0.0 {
                continue;
            }
            for &column in fitted {
                self.matrix[row as usize][column as usize] += amount * equation.amounts[column as usize];
            }
            self.right[row as usize] += amount * target;
        }
    }

    /// Solves for `fitted`. What comes out negative and must not be is set to zero, and the rest solved again.
    fn solve_bounded(&self, fitted: &[Coefficient]) -> Vec<f64> {
        let mut free = fitted.to_vec();
        loop {
            let solution = self.solve(&free);
            let is_allowed = |of: &Coefficient, value: f64| value >= 0.0 || MAY_BE_NEGATIVE.contains(of);
            if std::iter::zip(&free, &solution).all(|(of, value)| is_allowed(of, *value)) {
                let value = |of: &Coefficient| free.iter().position(|other| other == of).map_or(0.0, |at| solution[at]);
                return fitted.iter().map(value).collect();
            }
            let mut values = solution.iter();
            free.retain(|of| values.next().is_some_and(|value| is_allowed(of, *value)));
        }
    }

    /// Gaussian elimination. The matrix is positive definite but for coefficients that always go together; a trace of
    /// each diagonal element keeps those from dividing by zero.
    fn solve(&self, free: &[Coefficient]) -> Vec<f64> {
        let mut rows = free.iter().map(|row| self.row(*row, free)).collect::<Vec<_>>();
        for pivot in 0..free.len() {
            let (done, rest) = rows.split_at_mut(pivot + 1);
            let row = &done[pivot];
            for below in rest {
                let factor = below[pivot] / row[pivot];
                for (value, above) in std::iter::zip(&mut below[pivot..], &row[pivot..]) {
                    *value -= factor * above;
                }
            }
        }
        let mut solution = vec![0.0; free.len()];
        for at in (0..free.len()).rev() {
            let known = (at + 1..free.len())
                .map(|column| rows[at][column] * solution[column])
                .sum::<f64>();
            solution[at] = (rows[at][free.len()] - known) / rows[at][at];
        }
        solution
    }

    /// One row for elimination: matrix, then right side.
    fn row(&self, of: Coefficient, free: &[Coefficient]) -> Vec<f64> {
        let mut row = free
            .iter()
            .map(|column| self.matrix[of as usize][*column as usize])
            .collect::<Vec<_>>();
        if let Some(at) = free.iter().position(|other| *other == of) {
            row[at] = row[at] * (1.0 + 1e-9) + 1e-9;
        }
        row.push(self.right[of as usize]);
        row
    }
}

/// Errors of some equations in one line.
fn errors<'a>(scored: impl Iterator<Item = &'a Scored>) -> Option<String> {
    let scored = scored.collect::<Vec<_>>();
    let sorted = |value: fn(&Scored) -> f64| {
        let mut values = scored.iter().map(|scored| value(scored)).collect::<Vec<_>>();
        values.sort_by(f64::total_cmp);
        values
    };
    let median = quantile(&sorted(|scored| scored.error.abs()), 0.5)?;
    let p95 = quantile(&sorted(|scored| scored.error.abs() / scored.window.max(1.0)), 0.95)?;
    let middle = quantile(&sorted(|scored| scored.error), 0.5)?;
    let mean = sorted(|scored| scored.error).iter().sum::<f64>() / scored.len() as f64;
    Some(format!(
        "median {median:>7.1}   p95 {:>6.3} %   signed: median {middle:>+7.1}, mean {mean:>+7.1}",
        100.0 * p95
    ))
}

fn report(
    args: &Args,
    old: &RatioTable,
    new: &RatioTable,
    before: &[Surveyed],
    after: &[Surveyed],
    held_out: &[Surveyed],
) -> Result<String> {
    let mut text = String::new();
    let tables = [("old", before), ("new, fitted", after), ("new, held out", held_out)];
    let section = |text: &mut String, title: &str, family: Option<usize>| -> Result<()> {
        let of_family = |scored: &&Scored| family.is_none_or(|family| scored.family == family);
        let rounds = before
            .iter()
            .flat_map(|session| session.rounds.iter().filter(of_family))
            .count();
        let outputs = before
            .iter()
            .flat_map(|session| session.outputs.iter().filter(of_family))
            .count();
        let in_family = |session: &&Surveyed| session.rounds.iter().any(|scored| of_family(&scored));
        let sessions = before
            .iter()
            .filter(in_family)
            .map(|session| &session.id)
            .collect::<BTreeSet<_>>()
            .len();
        writeln!(
            text,
            "{title}: {rounds} rounds and {outputs} final outputs of {sessions} sessions"
        )?;
        for (name, scored) in tables {
            let line = errors(
                scored
                    .iter()
                    .flat_map(|session| session.rounds.iter().filter(of_family)),
            );
            writeln!(text, "  window  {name:<14} {}", line.as_deref().unwrap_or("-"))?;
        }
        for (name, scored) in tables {
            let line = errors(
                scored
                    .iter()
                    .flat_map(|session| session.outputs.iter().filter(of_family)),
            );
            writeln!(text, "  output  {name:<14} {}", line.as_deref().unwrap_or("-"))?;
        }
        Ok(())
    };
    section(
        &mut text,
        &format!("all ({} folds, seed {})", args.folds, args.seed),
        None,
    )?;
    for (number, (old, new)) in std::iter::zip(&old.families, &new.families).enumerate() {
        writeln!(text)?;
        section(&mut text, &new.name, Some(number))?;
        let taken = before.iter().collect::<Vec<_>>();
        let rounds = before
            .iter()
            .flat_map(|session| &session.rounds)
            .filter(|scored| scored.family == number)
            .count();
        for of in Coefficient::ALL {
            let state = if ASSUMED.contains(&of) {
                "kept: assumed"
            } else if rounds < MIN_ROUNDS || !is_determined(of, number, &taken) {
                "kept: too few rounds"
            } else {
                ""
            };
            writeln!(text, "  {:<14} {:>10} -> {:>10}  {state}", of.name(), old[of], new[of])?;
        }
        writeln!(text, "  {:<14} {:>10} -> {:>10}", "drift", old.drift, new.drift)?;
    }
    Ok(text)
}

/// The table as the data file has it: a coefficient to a line, so that changes can be read.
fn write_table(table: &RatioTable) -> Result<String> {
    let mut text = format!(
        "{{\n  \"note\": {},\n  \"families\": [\n",
        serde_json::to_string(&table.note)?
    );
    for (at, ratios) in table.families.iter().enumerate() {
        let (major, minor) = ratios.from;
        writeln!(
            text,
            "    {{\n      \"name\": {},",
            serde_json::to_string(&ratios.name)?
        )?;
        writeln!(text, "      \"from\": [{major}, {minor}],")?;
        writeln!(text, "      \"note\": {},", serde_json::to_string(&ratios.note)?)?;
        for of in Coefficient::ALL {
            writeln!(text, "      \"{}\": {},", of.name(), ratios[of])?;
        }
        let comma = if at + 1 < table.families.len() { "," } else { "" };
        writeln!(text, "      \"drift\": {}\n    }}{comma}", ratios.drift)?;
    }
    text.push_str("  ],\n  \"attachments\": [\n");
    for (at, size) in table.attachments.iter().enumerate() {
        let only = if size.only_with_text {
            ", \"only_with_text\": true"
        } else {
            ""
        };
        let comma = if at + 1 < table.attachments.len() { "," } else { "" };
        let kind = serde_json::to_string(&size.kind)?;
        writeln!(
            text,
            "    {{\"kind\": {kind}, \"each\": {}, \"per_unit\": {}{only}}}{comma}",
            size.each, size.per_unit
        )?;
    }
    text.push_str("  ]\n}\n");
    Ok(text)
}
