//! `backcast check`: sessions held against limits, for CI.

use crate::cli::check::{CheckArgs, CheckFormat, parse_limits};
use crate::commands::Ending;
use crate::commands::audit::{Chosen, part};
use crate::commands::policy::resolve;
use crate::commands::reading::{Reading, close, problem_counts, with_logs};
use crate::commands::times::Times;
use crate::commands::writing::{emit, load_prices};
use crate::run::{Corpus, summarise};
use crate::usage::budget;
use crate::usage::budget::{
    BoundaryFacts, COLUMNS, Facts, LIMITS, Needs, ON_SCREEN, Place, Row, SessionFacts, Verdict,
};
use crate::usage::session::{Filter, Wanted};
use crate::usage::summary::Summary;
use crate::usage::tally;
use crate::usage::tally::{By, tally};
use anyhow::{Context, Result, anyhow, bail};
use jiff::tz::TimeZone;
use replay::audit::boundaries::{InForce, Kind, Remark, boundaries};
use replay::audit::thresholds::{Effect, check as check_setting};
use replay::policy::presets::Policies;
use replay::prices::PriceTable;
use replay::sim::event::{CacheMiss, Event};
use replay::sim::inference::infer;
use replay::sim::trace::trace;
use replay::sim::{Mode, Setting, by_number, replay};
use replay::tokens::ratios::RatioTable;
use serde_json::json;
use std::io::{self, Write};
use table::findings::{Case, Finding, Level, Outcome, annotations, junit};
use table::{Column, Format, Look, Sheet, Tone};
use transcript::log::Time;
use transcript::problem::Problem;
use transcript::thread::{Part, Session, thread};

/// Version of every output of this command; see docs/outputs.md.
pub const SCHEMA_VERSION: u32 = 1;

/// Runs it.
pub fn run(args: &CheckArgs) -> Result<Ending> {
    let limits = limits(args)?;
    let times = Times::new(&args.times)?;
    let (usual, setting) = part(resolve(&args.policy)?)?;
    let wanted = wanted(args, &limits, setting.is_some())?;
    let prices = load_prices(args.policy.prices.as_deref())?;
    let look_for = LookFor {
        needs: wanted
            .iter()
            .map(|(limit, _)| limit.needs)
            .max()
            .unwrap_or(Needs::Usage),
        usual: &usual,
        setting: setting.as_ref(),
        prices: &prices,
        zone: &times.zone,
    };
    let (facts, problems) = with_logs(&args.input, false, |reading| {
        let filter = times.filter(&reading);
        look_for.facts(reading, filter)
    })?;
    let rows = wanted
        .into_iter()
        .map(|(limit, allowed)| Row::new(limit, allowed, &facts))
        .collect::<Vec<_>>();
    let view = View {
        args,
        rows: &rows,
        problems: &problems,
    };
    emit(&args.out.place(), |out, look| view.write(out, look))?;
    match close(&args.input, &problems) {
        Ending::Done if view.exceeded() > 0 => Ok(Ending::Found),
        ending => Ok(ending),
    }
}

/// The limits of the command line and of the file.
fn limits(args: &CheckArgs) -> Result<budget::Set> {
    let mut given = args.limits.0.clone();
    if let Some(path) = &args.file {
        let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
        let of_file = parse_limits(&text).map_err(|why| anyhow!("{}: {why}", path.display()))?;
        for (limit, value) in of_file {
            if given.iter().all(|(known, _)| known.name != limit.name) {
                given.push((limit, value));
            }
        }
    }
    if given.is_empty() && !args.all {
        bail!(
            "no limit is set, so there is nothing to check\n  hint: `backcast check --all` shows what can be limited and what your sessions come to; then for instance `backcast check --max-cost 50`"
        );
    }
    Ok(budget::complete(&given))
}

/// What is shown: the limits that are set, or all.
type Shown = Vec<(&'static budget::Limit, Option<f64>)>;

fn wanted(args: &CheckArgs, limits: &budget::Set, has_setting: bool) -> Result<Shown> {
    let needs_setting = limits.iter().any(|(limit, _)| limit.needs == Needs::Setting);
    if needs_setting && !has_setting {
        bail!(
            "--max-without-effect needs a setting to look for\n  hint: --client-env takes the one of this machine, --set window.percent=70 names one"
        );
    }
    if !args.all {
        return Ok(limits.iter().map(|&(limit, value)| (limit, Some(value))).collect());
    }
    let value = |name: &str| {
        limits
            .iter()
            .find(|(limit, _)| limit.name == name)
            .map(|(_, value)| *value)
    };
    let shown = LIMITS
        .iter()
        .filter(|limit| has_setting || limit.needs != Needs::Setting);
    Ok(shown.map(|limit| (limit, value(limit.name))).collect())
}

/// What is looked for in the logs.
struct LookFor<'a> {
    needs: Needs,
    usual: &'a Policies,
    setting: Option<&'a Chosen>,
    prices: &'a PriceTable,
    zone: &'a TimeZone,
}

impl LookFor<'_> {
    fn facts(&self, reading: Reading<'_>, filter: Filter) -> (Facts, Vec<Problem>) {
        let table = RatioTable::built_in();
        let wanted = Wanted {
            filter,
            predictions: false,
        };
        let mut deep = Vec::new();
        let mut summary = if self.needs == Needs::Usage {
            summarise(reading.logs, &reading.options, table, &wanted).0
        } else {
            let corpus = Corpus::read(reading.logs, &reading.options);
            // A session that cannot be worked on is named by the summary already.
            let bar = reading.work_bar(&corpus);
            (deep, _) = corpus.map_sessions(|id, parts| {
                bar.inc(1);
                self.session(id, parts, filter)
            });
            corpus.summary(table, &wanted, reading.options.cache)
        };
        let mut problems = std::mem::take(&mut summary.problems);
        problems.extend(reading.problems());
        problems.sort();
        let mut facts = self.usage(&summary);
        for found in deep {
            facts.boundaries.extend(found.boundaries);
            facts
                .without_effect
                .extend(found.is_without_effect.then(|| found.id.clone()));
            if found.cache_misses > 0 {
                facts.cache_misses.push((found.id, found.cache_misses));
            }
        }
        facts.problems = problems
            .iter()
            .map(|problem| (problem.kind.is_loss(), place(problem)))
            .collect();
        (facts, problems)
    }

    /// What all calls add up to.
    fn usage(&self, summary: &Summary) -> Facts {
        let rows = |by| tally(summary, by, false, self.zone, self.prices).rows;
        let sessions = rows(By::Session);
        let total = tally::Row::total(&sessions).sums;
        let days = rows(By::Day).into_iter().map(|row| (row.key, row.sums.cost));
        Facts {
            total,
            days: days.collect(),
            sessions: sessions
                .into_iter()
                .map(|row| SessionFacts {
                    id: row.key,
                    cost: row.sums.cost,
                    peak: row.window.map_or(0, |window| window.peak),
                })
                .collect(),
            reads: summary.reads,
            ..Facts::default()
        }
    }

    /// Boundaries, cache misses, and whether the setting shows.
    fn session(&self, id: &str, parts: &[Part], filter: Filter) -> Deep {
        let session = Session::new(id, parts);
        let mut deep = Deep {
            id: id.to_owned(),
            ..Deep::default()
        };
        for chain in &thread(&session).chains {
            let trace = trace(&session, chain, RatioTable::built_in());
            let (policies, prices) = by_number(self.usual, self.prices, &trace);
            let windows = infer(&trace, &policies, &prices);
            let in_force = InForce {
                trace: &trace,
                policies: &policies,
                prices: &prices,
                windows: &windows,
            };
            let found = boundaries(&in_force);
            let takes = |time: Time| filter.takes(time);
            for boundary in found.iter().filter(|boundary| takes(boundary.time)) {
                deep.boundaries.push(BoundaryFacts {
                    session: id.to_owned(),
                    line: (
                        session.part(boundary.node).path.clone(),
                        u64::from(session.record(boundary.node).line),
                    ),
                    is_compaction: boundary.kind != Kind::Micro,
                    is_again: boundary.is_again,
                    is_soon: boundary.remarks().contains(&Remark::Again),
                    has_grown: boundary.has_grown() == Some(true),
                });
            }
            let setting = Setting {
                policies: &policies,
                prices: &prices,
                windows: &windows,
                summary: None,
                mode: Mode::Follow,
                uses: None,
                texts: None,
                key: 0,
            };
            replay(&trace, &setting, &mut |call: u32, event: &Event<'_>| {
                if let Event::Called(called) = event {
                    let call = &trace.calls[call as usize];
                    let is_missed = called.miss == Some(CacheMiss::Unexplained) && !call.is_copied;
                    deep.cache_misses += u64::from(is_missed && takes(call.time));
                }
            });
            let has_calls = trace.calls.iter().any(|call| !call.is_copied && takes(call.time));
            if let Some(chosen) = self.setting.filter(|_| !trace.is_sidechain && has_calls) {
                let (with_setting, _) = by_number(&chosen.policies, self.prices, &trace);
                let checked = check_setting(&in_force, &with_setting, &found, &in_force.contexts());
                let shows_not = checked.is_some_and(|it| matches!(it.effect, Effect::DidNot | Effect::InPart));
                deep.is_without_effect |= shows_not;
            }
        }
        deep
    }
}

/// What only the trace of a session tells.
#[derive(Default)]
struct Deep {
    id: String,
    boundaries: Vec<BoundaryFacts>,
    cache_misses: u64,
    is_without_effect: bool,
}

fn place(problem: &Problem) -> Place {
    Place {
        name: problem.path.clone(),
        line: problem.line.map(|line| (problem.path.clone(), line)),
    }
}

/// What is shown.
struct View<'a> {
    args: &'a CheckArgs,
    rows: &'a [Row],
    problems: &'a [Problem],
}

impl View<'_> {
    fn write(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        match self.args.out.format {
            CheckFormat::Table => self.write_text(out, look),
            CheckFormat::Json => self.write_json(out),
            CheckFormat::Jsonl => self.sheet(COLUMNS).write(Format::Jsonl, look, out),
            CheckFormat::Csv => self.sheet(COLUMNS).write(Format::Csv, look, out),
            CheckFormat::Parquet => self.sheet(COLUMNS).write(Format::Parquet, look, out),
            CheckFormat::Github => out.write_all(self.annotations().as_bytes()),
            CheckFormat::Junit => out.write_all(self.junit().as_bytes()),
        }
    }

    fn sheet<'a>(&'a self, columns: &'a [Column<Row>]) -> Sheet<'a, Row> {
        Sheet {
            schema_version: SCHEMA_VERSION,
            columns,
            rows: self.rows,
            total: None,
        }
    }

    fn number(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == verdict).count()
    }

    fn exceeded(&self) -> usize {
        self.number(Verdict::Exceeded)
    }

    /// How many limits are set.
    fn set(&self) -> usize {
        self.rows.len() - self.number(Verdict::Open)
    }

    fn write_text(&self, out: &mut dyn Write, look: Look) -> io::Result<()> {
        self.sheet(ON_SCREEN).write(Format::Table, look, out)?;
        let verdict = match (self.exceeded(), self.set()) {
            (_, 0) => "No limit is set: nothing was judged.".to_owned(),
            (0, 1) => look.paint(Tone::Good, "The limit holds."),
            (0, set) => look.paint(Tone::Good, &format!("All {set} limits hold.")),
            (exceeded, set) => look.paint(Tone::Bad, &format!("Exceeded: {exceeded} of {set}.")),
        };
        writeln!(out, "{verdict}")
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let document = json!({
            "schema_version": SCHEMA_VERSION,
            "passed": self.exceeded() == 0,
            "exceeded": self.exceeded(),
            "limits_set": self.set(),
            "limits": self.sheet(COLUMNS).to_json(),
            "problems": {"total": self.problems.len(), "by_kind": problem_counts(self.problems)},
        });
        serde_json::to_writer_pretty(&mut *out, &document)?;
        writeln!(out)
    }

    fn annotations(&self) -> String {
        let told = |row: &Row| Finding {
            level: if row.verdict() == Verdict::Exceeded {
                Level::Error
            } else {
                Level::Notice
            },
            title: format!("{} {}", row.limit.name, row.verdict().name()),
            message: row.sentence(),
            place: row
                .place
                .as_ref()
                .and_then(|place| place.line.clone())
                .map(|(path, line)| (path, Some(line))),
        };
        // What is within its limit needs nobody's attention, unless somebody asked for everything.
        let rows = self
            .rows
            .iter()
            .filter(|row| self.args.all || row.verdict() == Verdict::Exceeded);
        annotations(&rows.map(told).collect::<Vec<_>>())
    }

    fn junit(&self) -> String {
        let case = |row: &Row| Case {
            name: row.limit.name.to_owned(),
            outcome: match row.verdict() {
                Verdict::Within => Outcome::Passed,
                Verdict::Exceeded => Outcome::Failed(row.sentence()),
                Verdict::NothingThere | Verdict::Open => {
                    Outcome::Skipped(format!("{}: {}", row.verdict().name(), row.sentence()))
                }
            },
        };
        junit("backcast check", &self.rows.iter().map(case).collect::<Vec<_>>())
    }
}
