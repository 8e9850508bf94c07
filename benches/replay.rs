//! `cargo bench --bench replay [-- --bytes 1GiB] [--files 2000] [--policy NAME]`: the cost of a replay. First the loop
//! alone, on traces in memory and one thread: blocks per second under each preset, on traces that are still in the CPU cache
//! (as in a run, which replays a trace right after building it) and on all of them in turn. Then whole runs as processes,
//! `replay` and `stats` on the same logs, without a cache and with a warm one, and a sweep of a thousand policies. Look at
//! the ratios. With a policy named, only the loop under that one.

mod logs;

use logs::{generated, parse_logs};
use replay::policy::presets::PolicySet;
use replay::prices::PriceTable;
use replay::sim::event::Event;
use replay::sim::trace::{Trace, build_trace};
use replay::sim::{ReplayInput, ReplayMode, policies_and_prices, replay};
use replay::tokens::ratios::RatioTable;
use replay::windows::{ProjectWindows, WindowQuery, infer_windows};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;
use transcript::thread::{Session, SessionLog, thread};

const ROUNDS: usize = 5;
/// The loop takes milliseconds, so single rounds are noisy.
const LOOP_ROUNDS: usize = 25;

fn main() {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name);
        at.and_then(|at| arguments.get(at + 1))
    };
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("replay: run with `cargo bench --bench replay`");
        return;
    }
    let size = after("--bytes").map_or("1GiB", |text| text);
    let bytes = backcast::cli::parse_size(size).expect("--bytes takes a size");
    let files = after("--files").map_or(2000, |text| text.parse().expect("--files takes a number"));
    let folder = after("--corpus").map_or_else(|| generated(bytes, files), PathBuf::from);
    loop_alone(&folder, after("--policy").map(String::as_str));
    if after("--policy").is_none() {
        whole_runs(&folder);
        sweep(&folder);
    }
}

/// The loop on traces in memory.
fn loop_alone(folder: &Path, only: Option<&str>) {
    let traces = traces(folder);
    let blocks = traces.iter().map(|trace| trace.items.len()).sum::<usize>();
    let calls = traces.iter().map(|trace| trace.calls.len()).sum::<usize>();
    println!(
        "{} chains, {calls} calls, {blocks} blocks, one thread, best of {LOOP_ROUNDS}\n",
        traces.len()
    );
    println!(
        "{:<16} {:>9} {:>16} {:>10} {:>12}",
        "policy", "ms", "million blocks/s", "in turn", "compactions"
    );
    let presets = ["recorded", "article", "api-edits", "never"];
    for name in presets.into_iter().filter(|name| only.is_none_or(|only| only == *name)) {
        let policies = PolicySet::preset(name).expect("a preset");
        let prepared = traces
            .iter()
            .map(|trace| {
                let (by_version, by_model) = policies_and_prices(&policies, PriceTable::built_in(), trace);
                let query = WindowQuery {
                    policies: &by_version,
                    prices: &by_model,
                    siblings: &ProjectWindows::default(),
                };
                let windows = infer_windows(trace, &query);
                (trace, by_version, by_model, windows)
            })
            .collect::<Vec<_>>();
        let compactions = Cell::new(0_u64);
        let replay_one = |(trace, by_version, by_model, windows): &(&Trace, Vec<_>, Vec<_>, Vec<_>)| {
            let setting = ReplayInput {
                policies: by_version,
                prices: by_model,
                windows,
                summary: None,
                mode: ReplayMode::Free,
                uses: None,
                texts: None,
                key: 0,
            };
            replay(trace, &setting, &mut |_: u32, event: &Event<'_>| {
                let is_boundary = matches!(event, Event::Boundary(_));
                compactions.set(compactions.get() + u64::from(is_boundary));
            });
        };
        // As a run does it: a trace is replayed right after it was made, or under one policy after the other.
        let once_more = |trace| {
            replay_one(trace);
            timed(|| replay_one(trace))
        };
        let warm = best(|| prepared.iter().map(once_more).sum());
        // All traces in turn: little of one is left in the processor's caches when its turn comes again.
        let in_turn = best(|| timed(|| prepared.iter().for_each(replay_one)));
        compactions.set(0);
        prepared.iter().for_each(replay_one);
        let compactions = compactions.get();
        let speed = |seconds: f64| blocks as f64 / seconds / 1e6;
        println!(
            "{name:<16} {:>9.2} {:>16.1} {:>10.1} {compactions:>12}",
            warm * 1e3,
            speed(warm),
            speed(in_turn)
        );
    }
}

/// The shortest of some rounds.
fn best(mut round: impl FnMut() -> f64) -> f64 {
    (0..LOOP_ROUNDS).map(|_| round()).fold(f64::INFINITY, f64::min)
}

fn traces(folder: &Path) -> Vec<Trace> {
    let mut traces = Vec::new();
    for (path, log) in parse_logs(folder) {
        let id = log
            .scopes
            .first()
            .map_or("", |scope| log.string(scope.session))
            .to_owned();
        let parts = [SessionLog {
            path: path.display().to_string(),
            log,
            copied: Vec::new(),
            lines: Default::default(),
        }];
        let session = Session::new(&id, &parts);
        let chains = thread(&session).chains;
        traces.extend(
            chains
                .iter()
                .map(|chain| build_trace(&session, chain, RatioTable::built_in())),
        );
    }
    traces
}

/// Times `replay` and `stats` as processes.
fn whole_runs(folder: &Path) {
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay-out");
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay-cache");
    let out = out.display().to_string();
    let cache = cache.display().to_string();
    let ways: [(&str, &[&str]); 2] = [("no cache", &["--no-cache"]), ("warm cache", &["--cache-dir", &cache])];
    println!("\n{:<12} {:<24} {:>9} {:>9}", "", "run", "best s", "of stats");
    for (way, more) in ways {
        let runs: [(&str, &[&str]); 3] = [
            ("stats", &["stats"]),
            ("replay", &["replay"]),
            ("replay --out", &["replay", "--out", &out, "--force"]),
        ];
        let mut best = [f64::INFINITY; 3];
        // One round more than is counted, to warm the cache and create the files; interleaved, so that a busy moment does
        // not hit one command alone.
        for round in 0..=ROUNDS {
            for (at, (_, arguments)) in runs.iter().enumerate() {
                let seconds = timed(|| run(folder, arguments, more));
                if round > 0 {
                    best[at] = best[at].min(seconds);
                }
            }
        }
        for ((name, _), seconds) in std::iter::zip(runs, best) {
            println!("{way:<12} {name:<24} {seconds:>9.3} {:>8.2}x", seconds / best[0]);
        }
    }
}

/// Times a sweep of a thousand policies over cached traces, and one `stats` without a cache.
fn sweep(folder: &Path) {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("replay-cache");
    let cache = cache.display().to_string();
    let stats = timed(|| run(folder, &["stats"], &["--no-cache"]));
    let tune = [
        "tune",
        "--vary=window.percent=50..99:1",
        "--vary=compact.summary_tokens=1000..20000:1000",
    ];
    let seconds = timed(|| run(folder, &tune, &["--cache-dir", &cache]));
    println!(
        "\ntune, 1,000 policies, warm cache: {seconds:.1} s, {:.0}x one stats without a cache",
        seconds / stats
    );
}

fn run(folder: &Path, arguments: &[&str], more: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_backcast"))
        .args(arguments)
        .arg(folder)
        .args(more)
        .arg("--quiet")
        .stdout(Stdio::null())
        .status()
        .expect("the binary runs");
    assert!(status.success());
}

fn timed(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64()
}
