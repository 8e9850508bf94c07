//! The text of a sweep: the verdict first, then a table per window.

use super::sentences::{basis_sentence, ground_sentences, setting_sentences, verdict_sentence};
use super::{TuneResult, WindowSweep, sheet};
use replay::prices::micro_usd;
use replay::tune::agent_settings::settings_file;
use replay::tune::verdict::Verdict;
use serde_json::Value as Json;
use std::io::{self, Write};
use table::human::{format_count, format_count_with_plural, format_dollars, group_digits};
use table::{Legend, TableStyle};
use transcript::agents::Agent;

/// Windows with fewer sessions get one line instead of a table.
const FEW_SESSIONS: usize = 5;

/// Words of the table that are not obvious.
const LEGEND: Legend<'_> = &[
    ("Policy", "the threshold at which it compacts, or its settings"),
    (
        "Saved",
        "of cost alone; the verdict also counts misses, on held-out sessions",
    ),
    ("Miss %", "edits of lines that were gone, per 100 calls"),
    ("$/miss", "saved for each additional miss"),
    ("Compact", "compactions"),
    ("Wait h", "hours spent on them"),
    ("Window", "mean size"),
    ("Blocks", "sessions that it would end"),
];

const OPEN_LOOP: &str = "Open loop: messages are as recorded. Wrong edits and lost reasoning after a compaction are not in \
    these dollars, which favors low thresholds.";

/// Writes everything.
pub fn write(result: &TuneResult, top: usize, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
    let is_large = |sweep: &&WindowSweep| sweep.compared >= FEW_SESSIONS;
    let is_alone = result.sweeps.len() == 1;
    let shown = result.sweeps.iter().filter(|sweep| is_alone || is_large(sweep));
    let shown = shown.collect::<Vec<_>>();
    for sweep in &shown {
        let verdict = verdict_sentence(sweep, result);
        match shown.len() {
            1 => paragraph(out, &verdict)?,
            _ => paragraph(
                out,
                &format!(
                    "{} of {}: {verdict}",
                    sweep.window_noun("Windows"),
                    group_digits(sweep.window)
                ),
            )?,
        }
    }
    if !result.selection.is_empty() {
        paragraph(out, &format!("Sessions: {}.", result.selection))?;
    }
    for sweep in &shown {
        if shown.len() > 1 {
            writeln!(out)?;
        }
        write_sweep(result, sweep, top, style, out)?;
    }
    for sweep in result.sweeps.iter().filter(|sweep| !is_alone && !is_large(sweep)) {
        paragraph(
            out,
            &format!(
                "{} of {} tokens: {}, too few to compare.",
                sweep.window_noun("Window"),
                group_digits(sweep.window),
                format_count(sweep.sessions as u64, "session")
            ),
        )?;
    }
    if result.unknown > 0 {
        paragraph(
            out,
            &format!(
                "{} left out: the window is not known. Pass --window.",
                format_count(result.unknown as u64, "session")
            ),
        )?;
    }
    let notes = [
        result.account.explain_conversations(),
        result.account.explain_output_rest(),
    ];
    for note in notes.into_iter().flatten() {
        paragraph(out, &note)?;
    }
    if result.progress_only.0 > 0 {
        paragraph(
            out,
            &format!(
                "Beside every cost here: {} of sub-agents that only progress records show, {}, the same under every policy.",
                format_count(result.progress_only.0, "call"),
                format_dollars(micro_usd(result.progress_only.1))
            ),
        )?;
    }
    if let Some(outcomes) = &result.outcomes {
        write_outcomes(outcomes, out)?;
    }
    paragraph(out, OPEN_LOOP)
}

/// Writes cost and success of every arm that outcomes were given for.
fn write_outcomes(outcomes: &Json, out: &mut dyn Write) -> io::Result<()> {
    let interval = |arm: &Json, key: &str, unit: f64| {
        let part = |name: &str| format!("{:.2}", unit * arm[key][name].as_f64().unwrap_or(0.0));
        format!("{} [{}, {}]", part("mean"), part("low"), part("high"))
    };
    writeln!(out, "\nOutcomes per arm, with intervals of 95 %:")?;
    for arm in outcomes["arms"].as_array().into_iter().flatten() {
        paragraph(
            out,
            &format!(
                "  {}: {}, ${} each, {} % successful",
                arm["arm"].as_str().unwrap_or_default(),
                format_count(arm["sessions"].as_u64().unwrap_or(0), "session"),
                interval(arm, "cost_usd", 1.0),
                interval(arm, "success", 100.0)
            ),
        )?;
    }
    match outcomes["sessions_without_log"].as_u64() {
        Some(missing) if missing > 0 => paragraph(
            out,
            &format!(
                "{} of the outcomes not in these logs.",
                format_count(missing, "session")
            ),
        ),
        _ => Ok(()),
    }
}

fn paragraph(out: &mut dyn Write, text: &str) -> io::Result<()> {
    writeln!(out, "{text}")
}

fn write_sweep(
    result: &TuneResult,
    sweep: &WindowSweep,
    top: usize,
    style: TableStyle,
    out: &mut dyn Write,
) -> io::Result<()> {
    paragraph(out, &basis_sentence(sweep))?;
    writeln!(out)?;
    let (shown, is_thinned) = table_rows(sweep, top);
    let rows = shown.iter().map(|at| sweep.rows[*at].clone()).collect::<Vec<_>>();
    sheet(&rows).write_with_legend(LEGEND, style, out)?;
    if shown.len() < sweep.rows.len() {
        paragraph(out, &cut_sentence(sweep, shown.len(), is_thinned))?;
    }
    if !sweep.left_out.is_empty() {
        let names = sweep.left_out.iter().take(3).cloned().collect::<Vec<_>>().join(", ");
        let more = if sweep.left_out.len() > 3 { " and others" } else { "" };
        paragraph(
            out,
            &format!(
                "{} left out, because the present setting blocks {}: {names}{more}.",
                format_count(sweep.left_out.len() as u64, "session"),
                if sweep.left_out.len() == 1 { "it" } else { "them" }
            ),
        )?;
    }
    paragraph(
        out,
        &format!(
            "Bounds: without any compaction {}, no miss, a mean window of {}; with only what is used again kept, no miss, {}.",
            format_dollars(micro_usd(sweep.bounds.never.cost)),
            group_digits(sweep.bounds.never.mean_window().round() as u64),
            sweep.oracle_window().map_or("none".to_owned(), group_digits)
        ),
    )?;
    writeln!(out)?;
    write_grounds(result, sweep, out)?;
    write_prices(result, sweep, out)?;
    if sweep.verdict() == Verdict::Set {
        write_settings(result, sweep, out)?;
    }
    Ok(())
}

/// Returns how many rows are shown, and which.
fn cut_sentence(sweep: &WindowSweep, shown: usize, is_thinned: bool) -> String {
    let front = sweep.front.len();
    let what = match (is_thinned, shown) {
        (false, _) => "the present one, and those that no other beats on every count".to_owned(),
        (true, ..=2) => format!("the present one and the best of the {front} that no other beats on every count"),
        (true, _) => {
            format!("the present one, the best, and some of the {front} that no other beats on every count")
        }
    };
    format!(
        "{shown} of {} shown: {what}; --top 0 shows all.",
        format_count_with_plural(sweep.rows.len() as u64, "policy", "policies")
    )
}

/// Returns the rows of the table, by threshold, and whether some of the front were left out. All policies if `top` is 0;
/// else the front and the present policy, evenly thinned out to `top`. The present policy and the best always stay.
fn table_rows(sweep: &WindowSweep, top: usize) -> (Vec<usize>, bool) {
    let rows = &sweep.rows;
    // By threshold where there is one; the present policy, which has none, comes last.
    let sort = |list: &mut Vec<usize>| {
        let place = |at: usize| rows[at].facts.place.unwrap_or(u64::MAX);
        let cost = |at: usize| rows[at].score.map_or(u128::MAX, |score| score.cost);
        list.sort_by_key(|at| (place(*at), cost(*at), *at));
    };
    if top == 0 {
        let mut all = (0..rows.len()).collect::<Vec<_>>();
        sort(&mut all);
        return (all, false);
    }
    let needed = [0, sweep.ruling.as_ref().map_or(0, |ruling| ruling.choice.best)];
    let mut shown = sweep.front.clone();
    shown.extend(needed);
    sort(&mut shown);
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

/// Writes what else speaks for and against the best point.
fn write_grounds(result: &TuneResult, sweep: &WindowSweep, out: &mut dyn Write) -> io::Result<()> {
    for sentence in ground_sentences(sweep, result) {
        paragraph(out, &sentence)?;
    }
    Ok(())
}

/// Writes the price of a miss: what is measured, what is assumed, and where the choice flips.
fn write_prices(result: &TuneResult, sweep: &WindowSweep, out: &mut dyn Write) -> io::Result<()> {
    let assumed = format_dollars((1e6 * result.miss_cost).round() as i64);
    let text = match sweep.least_miss_cost {
        Some(least) => format!(
            "A miss is assumed to cost {assumed} (--miss-cost). Reading a dropped file again cost {} on average in these \
             logs; wrong edits cost more, so that is a lower bound.",
            format_dollars((1e6 * least).round() as i64)
        ),
        None => {
            format!("A miss is assumed to cost {assumed} (--miss-cost). No file was read again after it was dropped.")
        }
    };
    paragraph(out, &text)?;
    if sweep.flips.is_empty() {
        return Ok(());
    }
    writeln!(out, "The cheapest choice, by the price of a miss:")?;
    let first = ("from $0".to_owned(), sweep.flips[0].from);
    let steps = sweep.flips.iter().map(|step| {
        let micro = (step.dollars_per_miss.max(0.0) * 1e6).round() as i64;
        (format!("above {}", format_dollars(micro)), step.to)
    });
    let lines = std::iter::once(first).chain(steps);
    let lines = lines.map(|(price, policy)| (price, sweep.rows[policy].label.as_str()));
    out.write_all(align_columns(&lines.collect::<Vec<_>>()).as_bytes())
}

/// Writes what to paste, what is reported against it, and how to prove the effect.
fn write_settings(result: &TuneResult, sweep: &WindowSweep, out: &mut dyn Write) -> io::Result<()> {
    let paste = sweep.paste();
    let text = match (sweep.coding_agent, &paste) {
        // Its settings are TOML.
        (Agent::Codex, Json::Object(settings)) => {
            let lines = settings.iter().map(|(name, value)| format!("{name} = {value}"));
            lines.collect::<Vec<_>>().join("\n")
        }
        _ => serde_json::to_string_pretty(&paste).unwrap_or_default(),
    };
    let file = match sweep.coding_agent {
        Agent::Claude => "the client's settings.json",
        other => settings_file(other),
    };
    writeln!(out, "\nTo paste into {file}:\n{text}")?;
    for sentence in setting_sentences(sweep, result) {
        paragraph(out, &sentence)?;
    }
    Ok(())
}

/// Returns prices and policies in two aligned columns.
fn align_columns(lines: &[(String, &str)]) -> String {
    let width = lines.iter().map(|(price, _)| price.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(price, policy)| format!("  {price:>width$}  {policy}\n"));
    lines.collect()
}

/// Returns what a table calls a policy: a threshold in tokens, or its settings.
pub fn label(row_name: &str, usual_threshold: u64) -> String {
    match row_name
        .strip_prefix("window.threshold=")
        .and_then(|tokens| tokens.parse().ok())
    {
        Some(threshold) => group_digits(threshold),
        None if row_name == "as it is" => format!("now {}", group_digits(usual_threshold)),
        None => row_name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flips_are_in_line() {
        let lines = [
            ("from $0".to_owned(), "80,000"),
            ("above $0.83".to_owned(), "120,000"),
            ("above $13.40".to_owned(), "now 167,000"),
        ];
        assert_eq!(
            align_columns(&lines),
            "       from $0  80,000\n   above $0.83  120,000\n  above $13.40  now 167,000\n"
        );
    }

    #[test]
    fn thresholds_are_shown_as_tokens() {
        assert_eq!(label("window.threshold=120000", 167_000), "120,000");
        assert_eq!(label("as it is", 167_000), "now 167,000");
        assert_eq!(label("micro.gap.on=true", 167_000), "micro.gap.on=true");
    }
}
