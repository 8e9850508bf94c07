//! Measures the inference of context windows: on sessions that show theirs (by a compaction or by a large prompt), how
//! often would the other evidence have given the right size?
//!
//! ```text
//! cargo run --release --example windows -- PATHS
//! ```
//!
//! Every session is left out of the evidence for itself. Prints the share right by model and by grounds, for all versions
//! and for those from 2.1.45 on, where clients have several sizes.

use backcast::run::{LogInput, LogNeeds, with_logs};
use replay::policy::presets::ClientVersion;
use replay::prices::PriceTable;
use replay::windows::evidence::shown_windows;
use replay::windows::table::model_name;
use std::collections::BTreeMap;

/// The first version with several sizes.
const SEVERAL_SIZES_FROM: ClientVersion = ClientVersion([2, 1, 45]);

/// Right, and all.
type Score = (u64, u64);

fn main() -> anyhow::Result<()> {
    let input = LogInput {
        paths: std::env::args_os().skip(1).map(Into::into).collect(),
        ..LogInput::default()
    };
    let needs = LogNeeds {
        windows: true,
        ..LogNeeds::default()
    };
    let scored = with_logs(input, needs, |source| {
        let run = source.read();
        let largest = |model: &str| PriceTable::built_in().find(model)?.max_input;
        let (scored, _) = run.map_sessions(|view| {
            let siblings = view.sibling_windows();
            let shown = shown_windows(view.session(), &largest);
            let scored = shown.iter().filter_map(|one| {
                let predicted = one.predict_hidden(&siblings, largest(&one.model))?;
                let is_right = predicted.tokens == one.window.tokens;
                if !is_right {
                    eprintln!(
                        "{} {} {}: {:?} by {}, shown {:?} by {}",
                        view.id(),
                        one.model,
                        one.version,
                        predicted.tokens,
                        predicted.grounds.name(),
                        one.window.tokens,
                        one.window.grounds.name()
                    );
                }
                let is_new = one.version >= SEVERAL_SIZES_FROM;
                Some((model_name(&one.model), predicted.grounds.name(), is_new, is_right))
            });
            scored.collect::<Vec<_>>()
        });
        scored
    })?;
    let mut by_model = BTreeMap::<(bool, String), Score>::new();
    let mut by_grounds = BTreeMap::<(bool, String), Score>::new();
    for (model, grounds, is_new, is_right) in scored.into_iter().flatten() {
        for is_new in [false, true].into_iter().filter(|only_new| is_new || !only_new) {
            for name in ["all", model.as_str()] {
                let score = by_model.entry((is_new, name.to_owned())).or_default();
                *score = (score.0 + u64::from(is_right), score.1 + 1);
            }
            let score = by_grounds.entry((is_new, grounds.to_owned())).or_default();
            *score = (score.0 + u64::from(is_right), score.1 + 1);
        }
    }
    for (title, is_new) in [("All versions", false), ("From 2.1.45 on", true)] {
        println!("{title}");
        for (table, what) in [(&by_model, "model"), (&by_grounds, "grounds")] {
            println!("  {what:<28}  right  shown");
            for ((_, name), (right, shown)) in table.iter().filter(|((new, _), _)| *new == is_new) {
                println!(
                    "  {name:<28} {right:>6} {shown:>6}  {:.2}",
                    *right as f64 / *shown as f64
                );
            }
        }
    }
    Ok(())
}
