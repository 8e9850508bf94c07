//! Fits how many more turns agents make with a smaller window, from published runs with outcomes.
//!
//!     zstd -dc complexity-trap.csv.zst | cargo run --release --example stretch
//!
//! Reads the per-run table of "The Complexity Trap" (arXiv 2508.21433) from standard input: experiment, instance, turns,
//! mean prompt, strategy. Every setting is paired with the raw agent of the same model and scaffold on the same tasks. Prints
//! window and turns relative to raw per setting, and the rate of `turns = exp(rate * (1 - window))` by least squares. The
//! rate is a constant in `crates/replay/src/tune/stretch.rs`.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// Settings with fewer paired tasks are left out.
const FEWEST_TASKS: usize = 40;

/// Turns and mean prompt of a run.
#[derive(Clone, Copy)]
struct AgentRun {
    turns: f64,
    prompt: f64,
}

fn main() -> Result<()> {
    let mut reader = csv::Reader::from_reader(std::io::stdin().lock());
    let header = reader.headers()?.clone();
    let column = |name: &str| {
        header
            .iter()
            .position(|known| known == name)
            .with_context(|| format!("no column {name}"))
    };
    let experiment = column("experiment")?;
    let (instance, turns, prompt) = (
        column("instance_id")?,
        column("turn_count")?,
        column("mean_prompt_tokens")?,
    );
    let (strategy, scaffold) = (column("strategy")?, column("scaffold")?);
    // By scaffold and model, then by experiment, then by task.
    let mut families = BTreeMap::<String, BTreeMap<(bool, String), BTreeMap<String, AgentRun>>>::new();
    for row in reader.records() {
        let row = row?;
        let (Ok(turns), Ok(prompt)) = (row[turns].parse(), row[prompt].parse()) else {
            continue;
        };
        let is_raw = row[strategy].to_lowercase().contains("raw");
        let name = &row[experiment];
        // The model is the head of the experiment's name.
        let ends = ["-baseline", "-agent", "-t_0", "_maxiter"]
            .iter()
            .filter_map(|end| name.find(end));
        let model = &name[..ends.min().unwrap_or(name.len())];
        families
            .entry(format!("{} {model}", &row[scaffold]))
            .or_default()
            .entry((is_raw, name.to_owned()))
            .or_default()
            .insert(row[instance].to_owned(), AgentRun { turns, prompt });
    }
    let mut points = Vec::new();
    for (family, settings) in &families {
        let raw = settings.iter().filter(|((is_raw, _), _)| *is_raw).map(|(_, runs)| runs);
        let Some(raw) = raw.max_by_key(|runs| runs.len()) else {
            println!("{family}: no raw runs");
            continue;
        };
        for ((_, name), runs) in settings.iter().filter(|((is_raw, _), _)| !is_raw) {
            let pairs = runs.iter().filter_map(|(task, run)| Some((raw.get(task)?, run)));
            let pairs = pairs.collect::<Vec<_>>();
            if pairs.len() < FEWEST_TASKS {
                continue;
            }
            let ratio = |value: fn(&AgentRun) -> f64| {
                let sums = pairs
                    .iter()
                    .fold((0.0, 0.0), |sum, (raw, run)| (sum.0 + value(run), sum.1 + value(raw)));
                sums.0 / sums.1
            };
            let (window, turns) = (ratio(|run| run.prompt), ratio(|run| run.turns));
            println!(
                "{family}: {name}: {} tasks, window {window:.2}, turns {turns:.2}",
                pairs.len()
            );
            points.push((1.0 - window, turns.ln()));
        }
    }
    let products = points.iter().map(|(taken, growth)| taken * growth).sum::<f64>();
    let squares = points.iter().map(|(taken, _)| taken * taken).sum::<f64>();
    println!("rate {:.2} over {} settings", products / squares, points.len());
    Ok(())
}
