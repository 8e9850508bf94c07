//! The verdict of a sweep in one plain sentence, and what speaks against a recommendation.

use super::{EffectElsewhere, PointRow, TuneResult, WindowSweep};
use replay::policy::presets::ClientVersion;
use replay::tune::evidence::Interval;
use replay::tune::settings::SettingValue;
use replay::tune::verdict::{Objection, Ruling, Verdict};
use table::human::{format_count, format_dollars, group_digits};
use transcript::agents::Agent;

/// Formats a share in percent: one decimal below ten.
fn percent(share: f64) -> String {
    let percent = 100.0 * share;
    match percent.abs() {
        small if small < 9.95 => format!("{percent:.1}"),
        _ => format!("{percent:.0}"),
    }
    .replace("-0.0", "0.0")
}

fn with_interval(interval: &Interval) -> String {
    format!(
        "{} % [{}, {}]",
        percent(interval.middle),
        percent(interval.low),
        percent(interval.high)
    )
}

/// Returns the verdict in one sentence.
pub fn verdict_sentence(sweep: &WindowSweep, result: &TuneResult) -> String {
    let Some(ruling) = &sweep.ruling else {
        return "No session can be compared: the present setting blocks all of them.".to_owned();
    };
    let best = &sweep.rows[ruling.choice.best];
    match ruling.verdict {
        Verdict::Set => set_sentence(sweep, ruling, best),
        Verdict::Keep => "Keep your setting: it is better than everything that was tried.".to_owned(),
        Verdict::NoDifference if ruling.choice.best == 0 => {
            format!(
                "No difference shown. Keep your setting: {}.",
                nothing_clause(sweep, ruling)
            )
        }
        Verdict::NoDifference => {
            let reason = ruling.objections.first();
            let reason = reason.map_or(String::new(), |one| objection_clause(*one, sweep, result, ruling));
            format!(
                "No difference shown. Keep your setting: the best point, {}, {reason}.",
                best.label
            )
        }
    }
}

/// Returns why no other point can be the best one.
fn nothing_clause(sweep: &WindowSweep, ruling: &Ruling) -> String {
    match (ruling.unclaimed, &ruling.unsettable) {
        (Some(at), _) if !ruling.is_unclaimed_small => format!(
            "what saves, such as {}, saves nothing if sessions get longer, as they did in published runs",
            sweep.rows[at].label
        ),
        (Some(at), _) => format!(
            "what saves, such as {}, keeps less than half of the present mean window, where agents solved fewer tasks in \
             published runs",
            sweep.rows[at].label
        ),
        (None, Some((at, _))) => format!("what saves, such as {}, cannot be set", sweep.rows[*at].label),
        (None, None) => "nothing that was tried saves anything on these sessions together".to_owned(),
    }
}

fn set_sentence(sweep: &WindowSweep, ruling: &Ruling, best: &PointRow) -> String {
    let what = match best.threshold().zip(sweep.threshold_setting()) {
        Some((threshold, (name, value))) => {
            let value = match value {
                SettingValue::Number(number) => group_digits(*number),
                other => other.to_string(),
            };
            format!("Set {name} to {value} (compacts at {})", group_digits(threshold))
        }
        None => format!("Set {}", best.label),
    };
    let mut parts = vec![format!(
        "saves {}, {} % if sessions get longer, as they did in published runs",
        with_interval(&ruling.choice.held_out),
        percent(ruling.stretched)
    )];
    if let Some(score) = best.score {
        let extra = score.misses_per_100() - best.present.misses_per_100();
        parts.push(match extra {
            same if same.abs() < 0.05 => "no more misses".to_owned(),
            fewer if fewer < 0.0 => format!("{:.1} fewer misses per 100 calls", -fewer),
            more => format!("{more:.1} more misses per 100 calls"),
        });
        if let (Some(hours), Some(now)) = (best.waiting_hours(), sweep.rows[0].waiting_hours()) {
            let word = if hours < now { "less" } else { "more" };
            parts.push(format!("{:.1} h {word} waiting", (hours - now).abs()));
        }
    }
    let choice = &ruling.choice;
    parts.push(format!("{} of {} folds agree", choice.agreeing_folds, choice.folds));
    format!("{what}: {}.", parts.join("; "))
}

/// Returns what is reported about a recommended setting, what it does in sessions with other windows, and how to prove its
/// effect.
pub fn setting_sentences(sweep: &WindowSweep, result: &TuneResult) -> Vec<String> {
    let version = sweep.newest.filter(|version| *version != ClientVersion::default());
    let version = version.map_or_else(String::new, |version| version.to_string());
    let newest = match sweep.coding_agent {
        Agent::Claude => format!("client {version}"),
        other => format!("{} {version}", other.title()).trim_end().to_owned(),
    };
    let advice = sweep.advice.iter().map(|advice| {
        let warning = match advice.warning.is_empty() {
            true => String::new(),
            false => format!(" Warning: {}.", advice.warning),
        };
        format!(
            "For {newest}, the newest in these logs: {} (reported, not proven).{warning}",
            advice.note
        )
    });
    let agent = match sweep.coding_agent {
        Agent::Claude => String::new(),
        other => format!(" --agent {}", other.name()),
    };
    let proof = format!("After a few days of work: backcast audit{agent} --since DATE-YOU-SET-IT");
    let elsewhere = sweep.effects_elsewhere(result);
    let elsewhere = elsewhere.iter().map(elsewhere_sentence);
    advice.chain(elsewhere).chain([proof]).collect()
}

/// Returns what a recommended setting does in sessions with another window.
fn elsewhere_sentence(other: &EffectElsewhere) -> String {
    let saved = other
        .saved
        .map_or("a cost that was not compared".to_owned(), |saved| match saved < 0.0 {
            true => format!("{} % more cost", percent(-saved)),
            false => format!("{} % less cost", percent(saved)),
        });
    format!(
        "The same setting lowers the threshold of windows of {} from {} to {}: {saved} there.",
        group_digits(other.window),
        group_digits(other.usual_threshold),
        group_digits(other.threshold)
    )
}

/// Returns what speaks against the best point, as the end of a sentence about it.
pub fn objection_clause(objection: Objection, sweep: &WindowSweep, result: &TuneResult, ruling: &Ruling) -> String {
    let choice = &ruling.choice;
    let saves = |interval: &Interval| format!("saves {}", with_interval(interval));
    match objection {
        Objection::NotSignificant if choice.held_out.low <= 0.0 => {
            format!("{} on held-out sessions", saves(&choice.held_out))
        }
        Objection::NotSignificant => format!("{} on all sessions together", saves(&choice.in_sample)),
        Objection::BelowModelError => format!(
            "{}, less than the cost model's own error of {} %",
            saves(&choice.held_out),
            percent(sweep.model_error)
        ),
        Objection::FewFolds => format!("saves on only {} of {} folds", choice.agreeing_folds, choice.folds),
        Objection::AtEdge => "is the lowest that can be tried, so the best may be lower still".to_owned(),
        Objection::Cliff => "has a neighbor that saves less than half as much or blocks a session".to_owned(),
        Objection::OneSession => ruling.without.as_ref().map_or(String::new(), |without| {
            format!(
                "rests on session {}: without it, it {}",
                without.session,
                saves(&without.saved)
            )
        }),
        Objection::PriceFlips => {
            let other = ruling
                .best_at_least_price
                .map_or("", |at| sweep.rows[at].label.as_str());
            format!(
                "wins at {} a miss, but at the measured {} another point, {other}, does",
                format_dollars((1e6 * result.miss_cost).round() as i64),
                format_dollars((1e6 * sweep.least_miss_cost.unwrap_or(0.0)).round() as i64),
            )
        }
        Objection::LongerSessions => {
            format!(
                "{}, but nothing if sessions get longer, as they did in published runs",
                saves(&choice.held_out)
            )
        }
    }
}

/// Returns what else speaks for and against the best point, in sentences.
pub fn ground_sentences(sweep: &WindowSweep, result: &TuneResult) -> Vec<String> {
    let Some(ruling) = &sweep.ruling else {
        return Vec::new();
    };
    // Both speak of the savings on held-out sessions.
    let is_said = |objection: &&Objection| {
        **objection == Objection::NotSignificant && ruling.objections[0] == Objection::BelowModelError
    };
    let others = ruling.objections.iter().skip(1).filter(|one| !is_said(one));
    let mut sentences = others
        .map(|objection| format!("Also: it {}.", objection_clause(*objection, sweep, result, ruling)))
        .collect::<Vec<_>>();
    let is_decided_by_one = ruling.objections.contains(&Objection::OneSession);
    if let (Some(without), true) = (&ruling.without, ruling.choice.best != 0 && !is_decided_by_one) {
        sentences.push(format!(
            "The session that weighs most is {}; without it, {} saves {}.",
            without.session,
            sweep.rows[ruling.choice.best].label,
            with_interval(&without.saved)
        ));
    }
    if let Some((at, saved)) = &ruling.unsettable {
        sentences.push(format!(
            "The client has no setting for {}, which saves {}.",
            sweep.rows[*at].label,
            with_interval(saved)
        ));
    }
    if let Some(at) = ruling.unclaimed {
        let label = &sweep.rows[at].label;
        sentences.push(match ruling.is_unclaimed_small {
            true => format!(
                "No saving is claimed for {label} and other points that keep less than half of the present mean window: in \
                 published runs agents solved fewer tasks there."
            ),
            false => format!(
                "No saving is claimed for {label} and other points whose saving is gone if sessions get longer, as they did in \
                 published runs."
            ),
        });
    }
    sentences.push(format!(
        "The cost model errs by {} % in the median over the projects of these logs.",
        percent(sweep.model_error)
    ));
    sentences
}

/// Returns how many sessions are compared, and on what grounds their window is assumed.
pub fn basis_sentence(sweep: &WindowSweep) -> String {
    let grounds = sweep
        .grounds
        .iter()
        .map(|(name, count)| format!("{} by {}", group_digits(*count), ground_phrase(name)))
        .collect::<Vec<_>>();
    let trust = ["certain", "likely", "weak"].into_iter();
    let trust = trust.filter_map(|name| Some(format!("{name} for {}", group_digits(*sweep.confidence.get(name)?))));
    format!(
        "{} of {} tokens: {}, {} compared, {} compact under any policy. Window known for {}: {}.",
        sweep.window_noun("Window"),
        group_digits(sweep.window),
        format_count(sweep.sessions as u64, "session"),
        group_digits(sweep.compared as u64),
        group_digits(sweep.reached as u64),
        grounds.join(", "),
        trust.collect::<Vec<_>>().join(", ")
    )
}

/// Returns the words for the grounds of a window.
fn ground_phrase(name: &str) -> &str {
    match name {
        "given" => "--window or the policy",
        "logged" => "the log itself",
        "boundary" => "a recorded compaction",
        "usage" => "a large prompt",
        "text" => "a text in the log",
        "sessions" => "other sessions",
        "table" => "the table of models",
        other => other,
    }
}
