//! `cargo bench --bench growth`: how the work grows with the input, structure by structure. Each structure is doubled four
//! times, the program runs on it under callgrind, and the exponent of the growth is printed: 1 is linear, 2 quadratic. Counts
//! of instructions do not depend on the load of the machine.
//!
//! `-- --short` doubles smaller structures twice, which takes about a minute; `.ci/run` does that. The exit status is 1 if an
//! exponent is above the limit. `-- NAME` measures the structures whose names contain NAME, `-- --program=PATH` another build
//! of the program. `-- --memory` prints the largest resident memory for each size in place of instructions, with the same
//! limit (needs GNU time).

mod growth {
    pub mod structures;
}

use growth::structures::{STRUCTURES, Structure};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};

/// The largest exponent that counts as nearly linear.
const LIMIT: f64 = 1.15;

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("growth: run with `cargo bench --bench growth`");
        return ExitCode::SUCCESS;
    }
    let program = arguments
        .iter()
        .find_map(|argument| argument.strip_prefix("--program="));
    let program = std::path::absolute(program.unwrap_or(env!("CARGO_BIN_EXE_backcast")));
    let Ok(program) = program else {
        return ExitCode::from(2);
    };
    let is_short = arguments.iter().any(|argument| argument == "--short");
    let wanted = arguments.iter().filter(|argument| !argument.starts_with("--"));
    let wanted = wanted.collect::<Vec<_>>();
    let is_wanted =
        |structure: &&Structure| wanted.is_empty() || wanted.iter().any(|name| structure.name.contains(*name));
    let cost = match arguments.iter().any(|argument| argument == "--memory") {
        true => MEMORY,
        false => INSTRUCTIONS,
    };
    println!("{:<34} {:>8} {:>9}  {}", "structure", "size", "exponent", cost.unit);
    let mut status = ExitCode::SUCCESS;
    for structure in STRUCTURES.iter().filter(is_wanted) {
        let (size, doublings) = if is_short {
            (structure.size / 8, 2)
        } else {
            (structure.size, 4)
        };
        match measure(&cost, &program, structure, size, doublings) {
            Ok(counts) => {
                let exponent = exponent(&counts, cost.least);
                let millions = counts
                    .iter()
                    .map(|count| format!("{:.0}", *count as f64 / cost.divisor));
                let millions = millions.collect::<Vec<_>>().join(" ");
                println!(
                    "{:<34} {:>8} {exponent:>9.2}  {millions}",
                    structure.name,
                    size << doublings
                );
                if exponent > LIMIT {
                    println!("  above {LIMIT}");
                    status = ExitCode::from(1);
                }
            }
            Err(reason) => {
                println!("{:<34} not counted: {reason}", structure.name);
                return ExitCode::from(2);
            }
        }
    }
    status
}

/// What is counted of a run.
struct Cost {
    unit: &'static str,
    /// How much is one unit.
    divisor: f64,
    /// The least that tells one run from another.
    least: u64,
    /// What the program runs under.
    tool: &'static [&'static str],
    /// What stands before the count in the tool's report.
    label: &'static str,
}

const INSTRUCTIONS: Cost = Cost {
    unit: "instructions, in millions",
    divisor: 1e6,
    least: 1,
    tool: &["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"],
    label: "Collected :",
};

const MEMORY: Cost = Cost {
    unit: "resident memory, in MB",
    divisor: 1e3,
    least: 8_000,
    tool: &["/usr/bin/time", "-f", "Peak in KB: %M"],
    label: "Peak in KB:",
};

/// Counts the cost of one element, then of `size` and its doublings.
fn measure(
    cost: &Cost,
    program: &Path,
    structure: &Structure,
    size: usize,
    doublings: u32,
) -> Result<Vec<u64>, String> {
    let sizes = (0..=doublings).map(|doubling| size << doubling);
    std::iter::once(1)
        .chain(sizes)
        .map(|size| count(cost, program, structure, size))
        .collect()
}

/// Returns the exponent of the last doubling, without what the program costs for one element. Costs below `least` are noise.
fn exponent(counts: &[u64], least: u64) -> f64 {
    let [base, .., before, last] = *counts else {
        return f64::NAN;
    };
    let work = |count: u64| count.saturating_sub(base).max(least) as f64;
    (work(last) / work(before)).log2()
}

fn count(cost: &Cost, program: &Path, structure: &Structure, size: usize) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    (structure.write)(folder.path(), size).map_err(|error| error.to_string())?;
    let [tool, options @ ..] = cost.tool else {
        return Err("no tool".to_owned());
    };
    let mut command = Command::new(tool);
    command.args(options).arg(program).args(structure.args);
    let report = run(&mut command, folder.path())?;
    let collected = report.lines().find_map(|line| line.split(cost.label).nth(1));
    collected
        .and_then(|count| count.trim().parse().ok())
        .ok_or_else(|| format!("{tool} gave no count: {}", report.lines().last().unwrap_or_default()))
}

/// Runs a command in a folder. Returns its standard error.
fn run(command: &mut Command, folder: &Path) -> Result<String, String> {
    let output = command
        .current_dir(folder)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", folder)
        .env("BACKCAST_CACHE", folder.join("cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .output()
        .map_err(|error| format!("{}: {error}", command.get_program().display()))?;
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.code() {
        // A check that found something did its work.
        Some(0 | 1) => Ok(report),
        _ => Err(format!("{}: {report}", output.status)),
    }
}
