//! Fits `crates/replay/src/sim/cache_reads.json` to logs: what share of the prompt cache calls lose, by situation, client
//! version and lifetime of the cache. Says how good the table is.
//!
//! ```text
//! cargo run --release --example cachefit -- PATHS [--write FILE]
//! ```
//!
//! Every call is billed by the rules, following the record, and what it really read is compared with what the cache held.
//! Shares of small cells are drawn towards those of the same situation and lifetime, and these towards those of the
//! situation: a cell with [`PRIOR_CALLS`] calls weighs as much as what it is drawn to. Inside turns calls weigh by what
//! they may lose, because early calls miss most and have least to lose; elsewhere all calls weigh alike, because one large
//! call must not decide.
//!
//! The splits go by repository, that is, by the folder of a log: half of the folders fit the table, the other half is billed
//! with it, and the other way round. Fits of the splits use the logs alone. The table that is written also counts
//! [`PUBLISHED`] observations. Same logs: same bytes.

use anyhow::Result;
use backcast::run::{LogInput, LogNeeds, with_logs};
use clap::Parser;
use replay::policy::presets::{ClientVersion, PolicySet, RECORDED};
use replay::prices::{PicoUsd, PriceTable, Tariff, tariffs};
use replay::quantile::quantile;
use replay::sim::cache_reads::{CacheReads, LostShareFile, LostShareRow, RANGES, ReadSituation, range_of};
use replay::sim::event::Event;
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use replay::tune::search::shuffled;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use table::atomic;
use transcript::record::Tokens;

/// Fits the shares of lost cache reads to logs.
#[derive(Parser)]
struct Args {
    /// Logs, folders or patterns.
    #[arg(required = true)]
    paths: Vec<PathBuf>,
    /// Where the new table goes.
    #[arg(long)]
    write: Option<PathBuf>,
    /// The date in the table.
    #[arg(long, default_value = "2026-11-19")]
    as_of: String,
}

/// Calls with which a cell outweighs what it is drawn to.
const PRIOR_CALLS: f64 = 5.0;

/// A situation seen less often than this has no row: the rules alone decide.
const MIN_CALLS: u64 = 3;

/// A cache that holds hardly more than system prompt and tools has nothing to lose.
const LEAST_CONVERSATION: u64 = 2_000;

const SPLITS: u64 = 20;

/// Calls counted in other public logs.
struct PublishedCount {
    situation: ReadSituation,
    is_hour: bool,
    /// First client version.
    from: [u32; 3],
    calls: u64,
    misses: u64,
    /// Misses that still read system prompt and tools.
    based: u64,
}

impl PublishedCount {
    const fn new(situation: ReadSituation, is_hour: bool, from: [u32; 3], [calls, misses, based]: [u64; 3]) -> Self {
        Self {
            situation,
            is_hour,
            from,
            calls,
            misses,
            based,
        }
    }
}

const PUBLISHED: [PublishedCount; 5] = [
    PublishedCount::new(ReadSituation::Tools, true, [2, 1, 91], [47, 23, 23]),
    PublishedCount::new(ReadSituation::Tools, true, [2, 1, 200], [52, 0, 0]),
    PublishedCount::new(ReadSituation::Skill, false, [0, 0, 0], [15, 9, 9]),
    PublishedCount::new(ReadSituation::Skill, true, [2, 1, 21], [15, 9, 9]),
    PublishedCount::new(ReadSituation::Expired, true, [2, 1, 21], [126, 126, 76]),
];

/// What one call read.
struct Observation {
    group: String,
    session: String,
    /// `None` for the first call of a chain.
    situation: Option<ReadSituation>,
    range: usize,
    is_hour: bool,
    held: u64,
    low: u64,
    by_rule: u64,
    /// The bill by the rules.
    billed: Tokens,
    usage: Tokens,
    tariff: Tariff,
    /// The miss, as `validate` names it.
    cause: &'static str,
}

impl Observation {
    /// Returns the lost share of the conversation, and the share of system prompt and tools that was read; `None` if there
    /// was nothing to lose.
    fn shares(&self) -> Option<(f64, f64)> {
        let (held, low, read) = (self.held as f64, self.low as f64, self.usage.cache_read as f64);
        (self.held > self.low + LEAST_CONVERSATION).then(|| {
            let kept = ((read - low) / (held - low)).clamp(0.0, 1.0);
            (1.0 - kept, (read / low.max(1.0)).min(1.0))
        })
    }

    fn recorded_cost(&self) -> PicoUsd {
        self.tariff.cost(&self.usage, self.usage.input_side())
    }

    /// Returns the cost with a table, or by the rules alone.
    fn cost(&self, table: Option<&CacheReads>) -> PicoUsd {
        let share = self
            .situation
            .and_then(|situation| table?.share(situation, self.range, self.is_hour));
        let cached = self.billed.cache_read + self.billed.cache_write;
        let read = share.map_or(self.billed.cache_read, |share| {
            share.expected_read(self.held, self.low).min(cached)
        });
        let write = cached - read;
        let tokens = Tokens {
            cache_read: read,
            cache_write: write,
            cache_write_1h: if self.billed.cache_write_1h > 0 { write } else { 0 },
            output: self.usage.output,
            ..self.billed
        };
        self.tariff.cost(&tokens, self.usage.input_side())
    }
}

/// A cell of the table: situation, lifetime and range of versions, as far as they are fixed.
type Cell = (ReadSituation, Option<bool>, Option<usize>);

/// Weighted sums of the calls of a cell.
#[derive(Default)]
struct CellSums {
    calls: u64,
    weight: f64,
    lost: f64,
    /// Sum of lost shares, and of what they left of system prompt and tools.
    misses: f64,
    base: f64,
}

impl CellSums {
    fn add(&mut self, calls: u64, weight: f64, lost: f64, base: f64) {
        self.calls += calls;
        self.weight += weight * calls as f64;
        self.lost += weight * lost * calls as f64;
        self.misses += lost * calls as f64;
        self.base += lost * base * calls as f64;
    }
}

fn main() -> Result<()> {
    let args = Args::parse();
    let observed = observe(&args.paths)?;
    let all = observed.iter().collect::<Vec<_>>();
    let fitted = fit(&all, true, &args.as_of);
    print_causes(&all, &CacheReads::new(&fitted));
    print_splits(&observed);
    let rows = fitted
        .rows
        .iter()
        .map(serde_json::to_string)
        .collect::<Result<Vec<_>, _>>()?;
    let json = format!(
        "{{\n  \"as_of\": {},\n  \"source\": {},\n  \"rows\": [\n    {}\n  ]\n}}\n",
        serde_json::to_string(&fitted.as_of)?,
        serde_json::to_string(&fitted.source)?,
        rows.join(",\n    ")
    );
    match &args.write {
        Some(path) => atomic::write(path, true, json.as_bytes())?,
        None => print!("\n{json}"),
    }
    Ok(())
}

/// Bills all calls of the logs by the rules.
fn observe(paths: &[PathBuf]) -> Result<Vec<Observation>> {
    let input = LogInput {
        paths: paths.to_vec(),
        ..LogInput::default()
    };
    let needs = LogNeeds {
        windows: true,
        ..LogNeeds::default()
    };
    let mut policies = PolicySet::preset(RECORDED)?;
    policies.assign("cache.expected_misses=false", "cachefit")?;
    let prices = PriceTable::built_in();
    let observed = with_logs(input, needs, |source| {
        let (observed, _) = source.read().map_sessions(|view| {
            let folder = Path::new(&view.logs()[0].path).parent().and_then(Path::file_name);
            let group = folder.map_or_else(String::new, |folder| folder.to_string_lossy().into_owned());
            let mut observed = Vec::new();
            for trace in view.traces().filter(|trace| !trace.calls.is_empty()) {
                let (by_version, by_model) = policies_and_prices(&policies, prices, trace);
                let windows = view.infer_windows(trace, &by_version, &by_model);
                let tariffs: Vec<Option<Tariff>> = tariffs(&by_model);
                let input = ReplayInput {
                    policies: &by_version,
                    prices: &by_model,
                    windows: &windows,
                    summary: None,
                    mode: ReplayMode::Follow,
                    uses: None,
                    texts: None,
                    key: 0,
                };
                replay(trace, &input, &mut |at: u32, event: &Event<'_>| {
                    let Event::Called(called) = event else { return };
                    let call = &trace.calls[at as usize];
                    let known = call.usage.zip(tariffs[usize::from(call.model)]);
                    let Some((usage, tariff)) = known.filter(|_| !call.is_copied) else {
                        return;
                    };
                    observed.push(Observation {
                        group: group.clone(),
                        session: view.id().to_owned(),
                        situation: called.cache.situation,
                        range: range_of(trace.versions[usize::from(call.version)]),
                        is_hour: called.cache.is_hour,
                        held: called.cache.held,
                        low: called.cache.low,
                        by_rule: called.cache.by_rule,
                        billed: called.tokens,
                        usage,
                        tariff,
                        cause: called.miss.map_or("none", |miss| miss.name()),
                    });
                });
            }
            observed
        });
        observed
    })?;
    Ok(observed.into_iter().flatten().collect())
}

/// Fits the table.
fn fit(observed: &[&Observation], with_published: bool, as_of: &str) -> LostShareFile {
    let mut cells = BTreeMap::<Cell, CellSums>::new();
    let mut add = |situation, is_hour, range, calls, weight, lost, base| {
        for cell in [
            (situation, None, None),
            (situation, Some(is_hour), None),
            (situation, Some(is_hour), Some(range)),
        ] {
            cells.entry(cell).or_default().add(calls, weight, lost, base);
        }
    };
    for one in observed {
        if let (Some(situation), Some((lost, base))) = (one.situation, one.shares()) {
            let weight = match situation {
                ReadSituation::Inside => (one.held - one.low) as f64,
                _ => 1.0,
            };
            add(situation, one.is_hour, one.range, 1, weight, lost, base);
        }
    }
    for count in PUBLISHED.iter().filter(|_| with_published) {
        let range = range_of(ClientVersion(count.from));
        let mut add_calls = |calls, lost, base| add(count.situation, count.is_hour, range, calls, 1.0, lost, base);
        add_calls(count.calls - count.misses, 0.0, 1.0);
        add_calls(count.based, 1.0, 1.0);
        add_calls(count.misses - count.based, 1.0, 0.0);
    }
    let rows = cells.iter().filter_map(|(cell, sums)| {
        let (lost, base) = shrunk(&cells, *cell)?;
        let (situation, is_hour, range) = *cell;
        Some(LostShareRow {
            situation: situation.name().to_owned(),
            life: is_hour.map(|is_hour| if is_hour { "1h" } else { "5m" }.to_owned()),
            from: range.map(|range| RANGES[range].to_string()),
            calls: sums.calls,
            lost: round(lost),
            base: round(base),
        })
    });
    let groups = observed.iter().map(|one| &one.group).collect::<BTreeSet<_>>();
    LostShareFile {
        as_of: as_of.to_owned(),
        source: format!(
            "examples/cachefit on {} calls of {} repositories of public logs, and published counts for tools, skills and expiry; cells are drawn to their situation with a weight of {PRIOR_CALLS} calls",
            observed.len(),
            groups.len()
        ),
        rows: rows.collect(),
    }
}

/// Returns the shares of a cell, drawn to those of the wider cells. `None` for a situation that was hardly ever seen.
fn shrunk(cells: &BTreeMap<Cell, CellSums>, cell: Cell) -> Option<(f64, f64)> {
    let (situation, is_hour, range) = cell;
    let sums = cells.get(&cell)?;
    let wider = match (is_hour, range) {
        (None, _) if sums.calls < MIN_CALLS => return None,
        (None, _) => None,
        (Some(_), None) => Some((situation, None, None)),
        (Some(_), Some(_)) => Some((situation, is_hour, None)),
    };
    let own = (sums.lost / sums.weight.max(1.0), sums.base / sums.misses.max(1e-9));
    let Some(wider) = wider else { return Some(own) };
    let wider = shrunk(cells, wider)?;
    let mix = |count: f64, own: f64, wider: f64| (count * own + PRIOR_CALLS * wider) / (count + PRIOR_CALLS);
    Some((mix(sums.calls as f64, own.0, wider.0), mix(sums.misses, own.1, wider.1)))
}

fn round(share: f64) -> f64 {
    (share.clamp(0.0, 1.0) * 1e4).round() / 1e4
}

/// Recorded and simulated cost.
#[derive(Default, Clone, Copy)]
struct CostPair {
    recorded: PicoUsd,
    simulated: PicoUsd,
}

impl CostPair {
    fn add(&mut self, one: &Observation, table: Option<&CacheReads>) {
        self.recorded += one.recorded_cost();
        self.simulated += one.cost(table);
    }

    /// Returns the simulated cost less the recorded one, as a share of `whole`.
    fn error(&self, whole: PicoUsd) -> f64 {
        (self.simulated as f64 - self.recorded as f64) / (whole as f64).max(1.0)
    }
}

/// Prints the cost by situation, by the rules alone and with the table.
fn print_causes(observed: &[&Observation], table: &CacheReads) {
    let whole = observed.iter().map(|one| one.recorded_cost()).sum();
    let mut causes = BTreeMap::<&str, (u64, u64, CostPair, CostPair)>::new();
    for one in observed {
        let name = one.situation.map_or("first", ReadSituation::name);
        for name in [name, "~ all"] {
            let cause = causes.entry(name).or_default();
            cause.0 += 1;
            cause.1 += u64::from(one.usage.cache_read + 2_000 < one.held && one.usage.cache_read * 100 < one.held * 95);
            cause.2.add(one, None);
            cause.3.add(one, Some(table));
        }
    }
    println!(
        "Error of the cost in percent of all cost, by the rules alone and with the table fitted to all of these logs"
    );
    println!(
        "{:<16} {:>7} {:>7} {:>9} {:>9}",
        "situation", "calls", "missed", "by rules", "by table"
    );
    for (name, (calls, missed, rules, with_table)) in causes {
        let percent = |costs: &CostPair| 100.0 * costs.error(whole);
        let (rules, with_table) = (percent(&rules), percent(&with_table));
        println!("{name:<16} {calls:>7} {missed:>7} {rules:>+9.3} {with_table:>+9.3}");
    }
    let unexplained = observed.iter().filter(|one| one.cause == "unexplained");
    let lost = unexplained
        .clone()
        .map(|one| one.by_rule.saturating_sub(one.usage.cache_read));
    println!(
        "unexplained misses: {}, {} tokens",
        unexplained.count(),
        lost.sum::<u64>()
    );
}

/// Prints the error of the total on repositories that the table was not fitted to.
fn print_splits(observed: &[Observation]) {
    let groups = observed.iter().map(|one| one.group.as_str()).collect::<BTreeSet<_>>();
    let groups = groups.into_iter().collect::<Vec<_>>();
    let mut totals = [Vec::new(), Vec::new()];
    let mut sessions = [Vec::new(), Vec::new()];
    for seed in 1..=SPLITS {
        let order = shuffled(groups.iter().copied(), seed);
        let (one, other) = order.split_at(groups.len() / 2);
        for (fitted, judged) in [(one, other), (other, one)] {
            let of = |side: &[usize]| {
                let side = side.iter().map(|at| groups[*at]).collect::<BTreeSet<_>>();
                let of_side = observed.iter().filter(|one| side.contains(one.group.as_str()));
                of_side.collect::<Vec<_>>()
            };
            let table = CacheReads::new(&fit(&of(fitted), false, ""));
            for (at, table) in [None, Some(&table)].into_iter().enumerate() {
                let mut total = CostPair::default();
                let mut by_session = BTreeMap::<&str, CostPair>::new();
                for one in of(judged) {
                    total.add(one, table);
                    by_session.entry(one.session.as_str()).or_default().add(one, table);
                }
                totals[at].push(100.0 * total.error(total.recorded));
                let errors = by_session.values().map(|costs| 100.0 * costs.error(costs.recorded));
                let mut errors = errors.collect::<Vec<_>>();
                errors.sort_by(f64::total_cmp);
                sessions[at].extend(quantile(&errors, 0.5));
            }
        }
    }
    println!(
        "\n{SPLITS} random halves of {} repositories, each side judged by the fit of the other, in percent",
        groups.len()
    );
    println!(
        "{:<16} {:>8} {:>8} {:>8} {:>16}",
        "total", "median", "least", "most", "median session"
    );
    for (name, (totals, sessions)) in ["by rules", "by table"]
        .iter()
        .zip(totals.iter_mut().zip(&mut sessions))
    {
        totals.sort_by(f64::total_cmp);
        sessions.sort_by(f64::total_cmp);
        let at = |values: &[f64], q: f64| quantile(values, q).unwrap_or_default();
        println!(
            "{name:<16} {:>+8.2} {:>+8.2} {:>+8.2} {:>+16.2}",
            at(totals, 0.5),
            at(totals, 0.0),
            at(totals, 1.0),
            at(sessions, 0.5)
        );
    }
}
