//! `backcast tune`: rows, the recommendation as JSON, and text for people. Sessions of different agents, and with
//! different windows, are swept and shown apart.

pub mod sentences;
mod text;

pub use text::label;

use crate::usage::account::UsageAccount;
use replay::policy::presets::ClientVersion;
use replay::prices::{PicoUsd, micro_usd};
use replay::tune::agent_settings::settings_file;
use replay::tune::evidence::Interval;
use replay::tune::front::FrontStep;
use replay::tune::score::PolicyScore;
use replay::tune::settings::{Advice, SettingValue};
use replay::tune::space::SweepPoint;
use replay::tune::verdict::{PointFacts, Ruling, Verdict};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::io::{self, Write};
use table::{OutputFormat, OutputSchema, Sheet, TableStyle, columns, write_json};
use transcript::agents::Agent;
use transcript::problem::Problem;

/// See docs/outputs.md.
const SCHEMA: OutputSchema = OutputSchema::new("tune", 1);

/// The recommendation without the policies that it was chosen from.
const RECOMMENDATION: OutputSchema = OutputSchema::new("recommendation", SCHEMA.version);

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
    pub coding_agent: Agent,
    pub window: u64,
    pub number: usize,
    pub name: String,
    /// What a table shows: a threshold in tokens, or the name.
    pub label: String,
    /// On the sessions that finish under every row; `None` if the policy blocks sessions that finish under the present one.
    pub score: Option<PolicyScore>,
    /// The score of the present policy on the same sessions.
    pub present: PolicyScore,
    /// On all sessions with this window.
    pub all: PolicyScore,
    pub sessions: usize,
    pub facts: PointFacts,
    pub objective: Option<f64>,
    pub on_front: bool,
    /// In millionths of a dollar.
    pub saved_per_miss: Option<u64>,
    /// Median recorded duration of a compaction, in milliseconds.
    pub waiting_ms: Option<u64>,
}

impl PointRow {
    /// Returns the threshold in tokens if that is what the policy sets.
    pub fn threshold(&self) -> Option<u64> {
        self.facts.place.filter(|_| self.name.starts_with("window.threshold="))
    }

    /// Returns the share of the present policy's cost that it saves.
    pub fn saved(&self) -> Option<f64> {
        let score = self.score.filter(|_| self.present.cost > 0)?;
        Some(1.0 - score.dollars() / self.present.dollars())
    }

    /// Returns the dollars saved for each miss more than under the present policy; `None` if it does not lose more, or
    /// saves nothing.
    fn saved_per_extra_miss(&self) -> Option<i64> {
        let score = self.score?;
        let extra = score.midpoint_misses() - self.present.midpoint_misses();
        let saved = self.present.dollars() - score.dollars();
        (extra > 0.0 && saved > 0.0).then(|| (1e6 * saved / extra).round() as i64)
    }

    /// Returns the hours spent waiting for compactions, at the median recorded duration.
    pub fn waiting_hours(&self) -> Option<f64> {
        let compactions = self.score?.compactions;
        self.waiting_ms.map(|ms| compactions as f64 * ms as f64 / 3_600_000.0)
    }
}

columns! {
    pub POINT_COLUMNS: PointRow;
    "coding_agent" "Agent" Text Never "Coding agent of the sessions: `claude`, `codex`, `opencode` or `pi`." |r| r.coding_agent.name();
    "window_tokens" "Window size" Count Never "Window of the sessions." |r| r.window;
    "point" "No." Count Never "Number of the policy; 0 is the present one." |r| r.number;
    "label" "Policy" Text Always "The threshold in tokens, or what else is set; `now` is the present policy." |r| &r.label;
    "policy" "Setting" Text Never "What is set, in the form that --set takes; `as it is` for the present policy." |r| &r.name;
    "sessions" "Sessions" Count Never "Sessions that it is compared on: those that finish under every policy with figures." |r| r.sessions;
    "cost_micro_usd" "Cost" MicroUsd Always "Simulated cost, calls outside the conversation included." |r| r.score.map(|s| micro_usd(s.cost));
    "saved_share" "Saved" Share Always
        "Share of the present policy's cost that it saves; negative if it costs more." |r| r.saved();
    "misses" "Misses" Count Never "Uses of what was no longer in the window, files that came back not credited." |r| r.score.map(|s| s.misses);
    "misses_credited" "credited" Count Never "The same, files that came back credited." |r| r.score.map(|s| s.misses_credited);
    "misses_per_100_calls" "Miss %" Ratio Always "Misses in 100 calls, not credited." |r| r.score.map(|s| s.misses_per_100());
    "usd_per_extra_miss_micro" "$/miss" MicroUsd IfRoom
        "What it saves for each miss more than under the present policy." |r| r.saved_per_extra_miss();
    "at_risk_hit_share" "At-risk hits" Share Never
        "Share of uses 20,000 tokens or more away that hit, not credited." |r| r.score.and_then(|s| s.at_risk_hits());
    "compactions" "Compact" Count Always "Compactions." |r| r.score.map(|s| s.compactions);
    "waiting_hours" "Wait h" Ratio IfRoom "Hours spent waiting for compactions, at the median recorded duration." |r| r.waiting_hours();
    "model_calls" "Calls" Count Never "Model calls outside the conversation." |r| r.score.map(|s| s.model_calls);
    "mean_window" "Window" Tokens Always "Mean window." |r| r.score.and_then(|s| s.whole_mean_window());
    "blocked_sessions" "Blocks" Count Always
        "Sessions that it blocks, or in which a compaction fails, though neither happens under the present policy." |r| r.facts.blocked_sessions;
    "blocked_calls" "Blocked calls" Count Never "Calls that could not have been made, over all sessions with this window." |r| r.all.blocked;
    "settable" "Settable" Flag Never "Whether the client can be set to it." |r| r.facts.is_settable;
    "objective_usd" "Weighed" Ratio Never
        "Cost in dollars plus misses (in the middle of their interval) at --miss-cost." |r| r.objective;
    "on_front" "Front" Flag Never "Whether no other policy beats it in everything." |r| r.on_front;
    "saved_per_extra_miss_micro_usd" "Per extra miss" MicroUsd Never
        "On the front: what it saves, for each miss more, against the next dearer policy there that misses less." |r| r.saved_per_miss;
    "all_cost_micro_usd" "All cost" MicroUsd Never "Simulated cost over all sessions with this window, blocked ones included." |r| micro_usd(r.all.cost);
    "all_compactions" "All compact" Count Never "Compactions over all sessions with this window." |r| r.all.compactions;
    "all_misses" "All misses" Count Never "Misses over all sessions with this window, not credited." |r| r.all.misses;
    "all_misses_credited" "All credited" Count Never "The same, files that came back credited." |r| r.all.misses_credited;
    "all_mean_window" "All window" Tokens Never "Mean window over all sessions with this window." |r| r.all.whole_mean_window();
}

/// The sweep over the sessions of one coding agent with one window.
pub struct WindowSweep {
    pub coding_agent: Agent,
    pub window: u64,
    /// Sessions by what the window was inferred from.
    pub grounds: BTreeMap<&'static str, u64>,
    /// Sessions by how far the window can be trusted.
    pub confidence: BTreeMap<&'static str, u64>,
    /// The largest threshold in force.
    pub usual_threshold: u64,
    pub sessions: usize,
    /// Sessions that every policy is compared on.
    pub compared: usize,
    /// Sessions that are left out, because the present policy blocks them.
    pub left_out: Vec<String>,
    /// Sessions that compact under any policy.
    pub reached: usize,
    pub points: Vec<SweepPoint>,
    pub rows: Vec<PointRow>,
    /// Rows of the Pareto front, cheapest first.
    pub front: Vec<usize>,
    pub flips: Vec<FrontStep>,
    pub ruling: Option<Ruling>,
    /// Median absolute error of the cost model on the logs of this agent, as a share.
    pub model_error: f64,
    /// Client settings for the best policy.
    pub advice: Vec<Advice>,
    /// Newest client version.
    pub newest: Option<ClientVersion>,
    /// The measured cost of reading a dropped file again, in dollars.
    pub least_miss_cost: Option<f64>,
    pub bounds: ScoreBounds,
}

/// The result of a sweep.
pub struct TuneResult {
    /// Dollars that a miss costs.
    pub miss_cost: f64,
    pub seed: u64,
    /// By window; the one that costs most first.
    pub sweeps: Vec<WindowSweep>,
    /// Sessions whose window is not known: nothing is predicted for them.
    pub unknown: usize,
    /// Number and cost of sub-agents' calls that only progress records show: there is nothing of them to replay.
    pub progress_only: (u64, PicoUsd),
    /// What the logs hold, whatever is swept.
    pub account: UsageAccount,
    /// What happened under settings that were tried, if outcomes were given.
    pub outcomes: Option<Json>,
    /// The filters in words; empty if everything counts.
    pub selection: String,
    pub problems: Vec<Problem>,
}

/// What a setting that is recommended for one window does in sessions with another one.
pub struct EffectElsewhere {
    pub window: u64,
    pub usual_threshold: u64,
    /// The threshold in force with the setting.
    pub threshold: u64,
    /// Share of cost saved there, by the point of the sweep next to that threshold; `None` if none lies near.
    pub saved: Option<f64>,
}

impl WindowSweep {
    /// Returns what the recommended threshold does in sessions with other windows; empty if it stays above theirs.
    pub fn effects_elsewhere(&self, result: &TuneResult) -> Vec<EffectElsewhere> {
        let ruling = self.ruling.as_ref().filter(|_| self.verdict() == Verdict::Set);
        let Some(threshold) = ruling.and_then(|ruling| self.rows[ruling.choice.best].threshold()) else {
            return Vec::new();
        };
        // OpenCode is set by model, and what Pi keeps free is no threshold.
        if matches!(self.coding_agent, Agent::OpenCode | Agent::Pi) {
            return Vec::new();
        }
        let alike = result
            .sweeps
            .iter()
            .filter(|other| other.coding_agent == self.coding_agent);
        let others = alike.filter(|other| other.window != self.window);
        let lowered = others.filter(|other| threshold < other.usual_threshold && other.compared > 0);
        let effects = lowered.map(|other| {
            let points = other.rows.iter().filter_map(|row| Some((row, row.threshold()?)));
            let nearest = points.min_by_key(|(_, place)| place.abs_diff(threshold));
            EffectElsewhere {
                window: other.window,
                usual_threshold: other.usual_threshold,
                threshold,
                saved: nearest
                    .filter(|(_, place)| place.abs_diff(threshold) <= threshold / 10)
                    .and_then(|(row, _)| row.saved()),
            }
        });
        effects.collect()
    }

    /// Returns the verdict; that no difference is shown where no session can be compared.
    pub fn verdict(&self) -> Verdict {
        self.ruling
            .as_ref()
            .map_or(Verdict::NoDifference, |ruling| ruling.verdict)
    }

    /// Returns the mean window if only content that is used again stays; `None` without a call.
    fn oracle_window(&self) -> Option<u64> {
        let (sum, calls) = self.bounds.oracle;
        sum.checked_div(u128::from(calls)).map(|mean| mean as u64)
    }

    fn fields(&self, result: &TuneResult) -> Json {
        let interval =
            |interval: &Interval| json!({"share": interval.middle, "low": interval.low, "high": interval.high});
        let name = |at: usize| self.rows[at].name.clone();
        let flips = self
            .flips
            .iter()
            .map(|step| json!({"from": name(step.from), "to": name(step.to), "usd_per_miss": step.dollars_per_miss}));
        let choice = self.ruling.as_ref().map(|ruling| {
            let choice = &ruling.choice;
            json!({
                "best": name(choice.best),
                "settings": self.points[choice.best].settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect::<Map<_, _>>(),
                "holds": choice.is_significant(),
                "saved_on_all_sessions": interval(&choice.in_sample),
                "saved_on_held_out_sessions": interval(&choice.held_out),
                "saved_if_sessions_get_longer": ruling.stretched,
                "folds": choice.folds,
                "folds_that_agree": choice.agreeing_folds,
                "objections": ruling.objections.iter().map(|one| one.name()).collect::<Vec<_>>(),
                "without_heaviest_session": ruling.without.as_ref().map(|without| json!({
                    "session": without.session, "saved": interval(&without.saved),
                })),
                "best_that_cannot_be_set": ruling.unsettable.as_ref().map(|(at, saved)| json!({
                    "policy": name(*at), "saved": interval(saved),
                })),
                "best_below_half_window": ruling.unclaimed.filter(|_| ruling.is_unclaimed_small).map(name),
                "best_lost_to_longer_sessions": ruling.unclaimed.filter(|_| !ruling.is_unclaimed_small).map(name),
                "best_at_least_miss_cost": ruling.best_at_least_price.map(name),
            })
        });
        let is_set = self.verdict() == Verdict::Set;
        json!({
            "verdict": self.verdict().name(),
            "sentence": sentences::verdict_sentence(self, result),
            "basis": sentences::basis_sentence(self),
            "grounds": sentences::ground_sentences(self, result),
            "coding_agent": self.coding_agent,
            "window_tokens": self.window,
            "window_grounds": self.grounds,
            "window_confidence": self.confidence,
            "usual_threshold": self.usual_threshold,
            "miss_cost_usd": result.miss_cost,
            "least_miss_cost_usd": self.least_miss_cost,
            "model_error": self.model_error,
            "seed": result.seed,
            "sessions": self.sessions,
            "sessions_compared": self.compared,
            "sessions_left_out": self.left_out,
            "sessions_that_compact": self.reached,
            "policies": self.rows.len(),
            "choice": choice,
            "client_settings": if is_set { self.advice_json() } else { Json::Null },
            "paste": if is_set { self.paste() } else { Json::Null },
            "paste_into": settings_file(self.coding_agent),
            "advice": if is_set { json!(sentences::setting_sentences(self, result)) } else { Json::Null },
            "in_other_windows": self.effects_elsewhere(result).iter().map(|other| json!({
                "window_tokens": other.window,
                "usual_threshold": other.usual_threshold,
                "threshold": other.threshold,
                "saved_share": other.saved,
            })).collect::<Vec<_>>(),
            "newest_version": self.newest.map(|version| version.to_string()),
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

    fn advice_json(&self) -> Json {
        let advice = self.advice.iter().map(|advice| {
            let setting = advice
                .setting
                .as_ref()
                .map(|(name, value)| json!({"name": name, "value": value.to_string()}));
            json!({"key": advice.key, "setting": setting, "note": advice.note, "warning": advice.warning})
        });
        advice.collect()
    }

    /// Returns a noun for the sessions' window. Agents other than Claude Code are named.
    fn window_noun(&self, noun: &str) -> String {
        match self.coding_agent {
            Agent::Claude => noun.to_owned(),
            other => format!("{}, {}", other.title(), noun.to_lowercase()),
        }
    }

    /// Returns the value of the setting for the threshold that is recommended; `None` if it is no threshold.
    fn threshold_setting(&self) -> Option<(&str, &SettingValue)> {
        let advice = self.advice.iter().find(|advice| advice.key == "window.threshold")?;
        let (name, value) = advice.setting.as_ref()?;
        Some((name.rsplit_once("MODEL.").map_or(name, |(_, name)| name), value))
    }

    /// Returns what to paste into the settings of the client.
    pub fn paste(&self) -> Json {
        let mut settings = json!({});
        for (name, value) in self.advice.iter().filter_map(|advice| advice.setting.as_ref()) {
            let value = match value {
                SettingValue::Number(number) => json!(number),
                SettingValue::Flag(flag) => json!(flag),
                SettingValue::Text(text) => json!(text),
            };
            // Each part of a name is an object, the last one the value.
            let place = name.split('.').fold(&mut settings, |object, part| &mut object[part]);
            *place = value;
        }
        settings
    }
}

impl TuneResult {
    /// Returns `recommendation.json`.
    pub fn recommendation(&self) -> Json {
        RECOMMENDATION.document(self.fields(false))
    }

    /// Returns the recommendation and every policy that it was chosen from.
    pub fn document(&self) -> Json {
        SCHEMA.document(self.fields(true))
    }

    /// Returns the fields of the first window, and those of all windows in a list.
    fn fields(&self, with_points: bool) -> Json {
        let windows = self.sweeps.iter().map(|sweep| {
            let mut fields = sweep.fields(self);
            if with_points {
                fields["points"] = sheet(&sweep.rows).to_json();
            }
            fields
        });
        let windows = windows.collect::<Vec<_>>();
        let mut fields = windows.first().cloned().unwrap_or_else(|| json!({}));
        fields["sessions_of_unknown_window"] = json!(self.unknown);
        let (calls, cost) = self.progress_only;
        fields["progress_only"] = json!({"responses": calls, "cost_micro_usd": micro_usd(cost)});
        fields["recorded"] = self.account.to_json();
        fields["outcomes"] = self.outcomes.clone().unwrap_or_default();
        fields["windows"] = Json::Array(windows);
        fields
    }

    fn all_rows(&self) -> Vec<PointRow> {
        self.sweeps
            .iter()
            .flat_map(|sweep| sweep.rows.iter().cloned())
            .collect()
    }

    /// Writes rows, the document, or text with tables of `top` rows.
    pub fn write(&self, format: OutputFormat, top: usize, style: TableStyle, out: &mut dyn Write) -> io::Result<()> {
        match format {
            OutputFormat::Table => text::write(self, top, style, out),
            OutputFormat::Json => write_json(&self.document(), out),
            format => sheet(&self.all_rows()).write(format, style, out),
        }
    }

    /// Writes `points.csv`.
    pub fn write_points(&self, out: &mut dyn Write) -> io::Result<()> {
        sheet(&self.all_rows()).write(OutputFormat::Csv, TableStyle::default(), out)
    }

    /// Writes `front.csv`.
    pub fn write_front(&self, out: &mut dyn Write) -> io::Result<()> {
        let fronts = self
            .sweeps
            .iter()
            .flat_map(|sweep| sweep.front.iter().map(|at| sweep.rows[*at].clone()));
        sheet(&fronts.collect::<Vec<_>>()).write(OutputFormat::Csv, TableStyle::default(), out)
    }
}

fn sheet(rows: &[PointRow]) -> Sheet<'_, PointRow> {
    SCHEMA.sheet(POINT_COLUMNS, rows)
}
