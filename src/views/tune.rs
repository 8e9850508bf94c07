//! `backcast tune`: rows, the recommendation as JSON, and text for people.

use replay::prices::micro_usd;
use replay::tune::evidence::{Interval, PolicyChoice};
use replay::tune::front::FrontStep;
use replay::tune::score::PolicyScore;
use replay::tune::space::SweepPoint;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use table::human::{format_count, format_count_with_plural, format_dollars, group_digits};
use table::{OutputFormat, OutputSchema, Sheet, TableStyle, columns, write_json};
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema {
    kind: "tune",
    version: 1,
};

/// The recommendation without the policies that it was chosen from.
const RECOMMENDATION: OutputSchema = OutputSchema {
    kind: "recommendation",
    ..SCHEMA
};

/// The bounds of every policy.
pub struct ScoreBounds {
    /// The score of a policy that never compacts.
    pub never: PolicyScore,
    /// Sum of windows and number of calls if only content that is used again stays.
    pub oracle: (u128, u64),
}

/// One policy of the sweep and its score.
#[derive(Clone)]
pub struct PointRow {
    pub number: usize,
    pub name: String,
    pub score: PolicyScore,
    /// The score of the present policy.
    pub present: PolicyScore,
    pub sessions: usize,
    pub objective: f64,
    pub on_front: bool,
    /// In millionths of a dollar.
    pub saved_per_miss: Option<u64>,
}

columns! {
    pub POINT_COLUMNS: PointRow;
    "point" "No." Count Never "Number of the policy; 0 is the present one." |r| r.number;
    "policy" "Policy" Text Always "What is set; `as it is` for the present policy." |r| &r.name;
    "sessions" "Sessions" Count Never "Sessions that it was replayed on." |r| r.sessions;
    "cost_micro_usd" "Cost" MicroUsd Always "Simulated cost, calls beside the conversation included." |r| micro_usd(r.score.cost);
    "saved_share" "Saved" Share Always
        "Share of the present policy's cost that it saves; negative if it costs more." |r| (r.present.cost > 0).then(|| 1.0 - r.score.dollars() / r.present.dollars());
    "misses" "Misses" Count Always "Uses of what was no longer in the window, files that came back not credited." |r| r.score.misses;
    "misses_credited" "credited" Count Always "The same, files that came back credited." |r| r.score.misses_credited;
    "misses_per_100_calls" "per 100" Ratio Never "Misses in 100 calls, not credited." |r| r.score.misses_per_100();
    "at_risk_hit_share" "At-risk hits" Share IfRoom
        "Share of uses 20,000 tokens or more away that hit, not credited." |r| r.score.at_risk_hits();
    "compactions" "Compact" Count Always "Compactions." |r| r.score.compactions;
    "model_calls" "Calls" Count Never "Model calls beside the conversation." |r| r.score.model_calls;
    "mean_window" "Window" Tokens Always "Mean window." |r| r.score.whole_mean_window();
    "blocked_calls" "Blocked" Count Never "Calls that could not have been made." |r| r.score.blocked;
    "objective_usd" "Weighed" Ratio Never
        "Cost in dollars plus misses (in the middle of their interval) and blocked calls at --miss-cost." |r| r.objective;
    "on_front" "Front" Flag Never "Whether no other policy beats it in everything." |r| r.on_front;
    "saved_per_extra_miss_micro_usd" "Per extra miss" MicroUsd Never
        "On the front: what it saves, for each miss more, against the next dearer policy there that misses less." |r| r.saved_per_miss;
}

/// The result of a sweep.
pub struct TuneResult {
    /// Dollars that a miss costs.
    pub miss_cost: f64,
    pub seed: u64,
    pub points: Vec<SweepPoint>,
    pub rows: Vec<PointRow>,
    /// Rows of the Pareto front, cheapest first.
    pub front: Vec<usize>,
    pub flips: Vec<FrontStep>,
    pub choice: Option<PolicyChoice>,
    /// Client settings that put the choice into effect.
    pub advice: Json,
    pub bounds: ScoreBounds,
    pub sessions: usize,
    /// Sessions that compact under any policy.
    pub reached: usize,
    pub problems: Vec<Problem>,
}

impl TuneResult {
    /// Returns the mean window if only content that is used again stays; `None` without a call.
    fn oracle_window(&self) -> Option<u64> {
        let (sum, calls) = self.bounds.oracle;
        sum.checked_div(u128::from(calls)).map(|mean| mean as u64)
    }

    /// Returns `recommendation.json`.
    pub fn recommendation(&self) -> Json {
        RECOMMENDATION.document(self.recommendation_fields())
    }

    /// Returns the recommendation and every policy that it was chosen from.
    pub fn document(&self) -> Json {
        let mut fields = self.recommendation_fields();
        fields["points"] = sheet(&self.rows).to_json();
        SCHEMA.document(fields)
    }

    fn recommendation_fields(&self) -> Json {
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
            "miss_cost_usd": self.miss_cost,
            "seed": self.seed,
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

    /// Writes rows, the document, or text with a table of `top` rows.
    pub fn write(&self, format: OutputFormat, top: usize, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => self.write_text(top, out, style),
            OutputFormat::Json => write_json(&self.document(), out),
            format => sheet(&self.rows).write(format, style, out),
        }
    }

    /// Writes `points.csv`.
    pub fn write_points(&self, out: &mut dyn Write) -> io::Result<()> {
        sheet(&self.rows).write(OutputFormat::Csv, TableStyle::default(), out)
    }

    /// Writes `front.csv`.
    pub fn write_front(&self, out: &mut dyn Write) -> io::Result<()> {
        let front = self.front.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        sheet(&front).write(OutputFormat::Csv, TableStyle::default(), out)
    }

    fn write_text(&self, top: usize, out: &mut dyn Write, style: TableStyle) -> io::Result<()> {
        writeln!(
            out,
            "{} on {}, of which {} compact under any of them.\n",
            format_count_with_plural(self.rows.len() as u64, "policy", "policies"),
            format_count(self.sessions as u64, "session"),
            group_digits(self.reached as u64)
        )?;
        let (shown, is_thinned) = self.table_rows(top);
        let rows = shown.iter().map(|at| self.rows[*at].clone()).collect::<Vec<_>>();
        sheet(&rows).write(OutputFormat::Table, style, out)?;
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
            format_dollars(micro_usd(self.bounds.never.cost)),
            group_digits(self.bounds.never.mean_window().round() as u64),
            self.oracle_window().map_or("none".to_owned(), group_digits)
        )?;
        self.write_choice(out)?;
        self.write_flips(out)?;
        writeln!(
            out,
            "Open loop: recorded messages are taken as they came. Wrong edits and lost\n  reasoning after a compaction are not in these dollars, which favours low\n  thresholds."
        )
    }

    /// Returns the rows of the table, cheapest first, and whether some of the front were left out. All policies if `top` is 0;
    /// else the front and the present policy, evenly thinned out to `top`. The present policy and the best always stay.
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

    fn write_choice(&self, out: &mut dyn Write) -> io::Result<()> {
        let Some(choice) = &self.choice else { return Ok(()) };
        let percents = |interval: &Interval| {
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
                self.miss_cost
            );
        }
        if !choice.is_significant() {
            return writeln!(
                out,
                "No difference shown at ${} a miss. The best on all sessions, {},\n  saves {} of cost and misses there, but choosing on some sessions\n  saves {} on the others.\n{SAVED_COLUMN_NOTE}\n",
                self.miss_cost,
                best.name,
                percents(&choice.in_sample),
                percents(&choice.held_out)
            );
        }
        writeln!(
            out,
            "Recommended at ${} a miss: {}\n  saves {} of cost and misses on these sessions,\n  {} on sessions that had no say ({} of {} folds agree).",
            self.miss_cost,
            best.name,
            percents(&choice.in_sample),
            percents(&choice.held_out),
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
            let micro = (step.dollars_per_miss.max(0.0) * 1e6).round() as i64;
            let price = format!("above {}", format_dollars(micro));
            (price, step.to)
        });
        let lines = std::iter::once(first).chain(steps);
        let lines = lines.map(|(price, policy)| (price, self.rows[policy].name.as_str()));
        out.write_all(align_columns(&lines.collect::<Vec<_>>()).as_bytes())?;
        writeln!(out)
    }
}

/// Returns prices and policies in two aligned columns.
fn align_columns(lines: &[(String, &str)]) -> String {
    let width = lines.iter().map(|(price, _)| price.len()).max().unwrap_or(0);
    let lines = lines
        .iter()
        .map(|(price, policy)| format!("  {price:>width$}  {policy}\n"));
    lines.collect()
}

/// Explains why the text has other shares than the table.
const SAVED_COLUMN_NOTE: &str = "  (Saved in the table is of cost alone; here misses and blocked calls count.)";

fn sheet(rows: &[PointRow]) -> Sheet<'_, PointRow> {
    SCHEMA.sheet(POINT_COLUMNS, rows)
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
