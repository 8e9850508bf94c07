//! Outcomes of sessions: whether each solved its task, and under which arm it ran. From a CSV file, or from a folder of
//! trials as the Harbor harness writes them: `result.json` next to the logs of the agent.

use anyhow::{Context, Result, bail};
use replay::tune::evidence::{ChoiceOptions, bootstrap};
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Names of the column that says whether a session succeeded.
const SUCCESS_COLUMNS: [&str; 4] = ["solved", "reward", "merged", "outcome"];

/// The arm of sessions that name none.
const ONLY_ARM: &str = "all";

/// Folders deeper than this are no trials.
const MOST_LEVELS: usize = 6;

/// One session of an experiment.
#[derive(Debug, PartialEq)]
struct SessionOutcome {
    session: String,
    arm: String,
    /// From 0 to 1.
    success: f64,
}

/// The outcomes of an experiment.
#[derive(Debug, PartialEq)]
pub struct OutcomeTable {
    outcomes: Vec<SessionOutcome>,
}

/// Reads a CSV file or a folder of trials.
pub fn read_outcomes(path: &Path) -> Result<OutcomeTable> {
    let context = || format!("--outcomes {}", path.display());
    let outcomes = if path.is_dir() {
        let mut outcomes = Vec::new();
        read_trials(path, MOST_LEVELS, &mut outcomes).with_context(context)?;
        outcomes
    } else {
        let text = std::fs::read_to_string(path).with_context(context)?;
        parse_rows(&text).with_context(context)?
    };
    if outcomes.is_empty() {
        bail!("{}: contains no outcome", path.display());
    }
    Ok(OutcomeTable { outcomes })
}

fn parse_rows(text: &str) -> Result<Vec<SessionOutcome>> {
    let mut reader = csv::ReaderBuilder::new().flexible(true).from_reader(text.as_bytes());
    let header = reader.headers().context("the header")?.clone();
    let column = |names: &[&str]| {
        header
            .iter()
            .position(|name| names.contains(&name.trim().to_lowercase().as_str()))
    };
    let Some(session) = column(&["session", "session_id"]) else {
        bail!("no column `session`");
    };
    let Some(success) = column(&SUCCESS_COLUMNS) else {
        bail!("no column `solved`, `reward`, `merged` or `outcome`");
    };
    let arm = column(&["arm", "setting"]);
    let rows = reader.records().enumerate().map(|(number, row)| {
        let line = number + 2;
        let row = row.with_context(|| format!("line {line}"))?;
        let cell = |at: usize| row.get(at).unwrap_or_default().trim();
        let Some(value) = parse_success(cell(success)) else {
            bail!(
                "line {line}: `{}` is neither a number from 0 to 1 nor true or false",
                cell(success)
            );
        };
        Ok(SessionOutcome {
            session: cell(session).to_owned(),
            arm: arm.map_or(ONLY_ARM, cell).to_owned(),
            success: value,
        })
    });
    rows.collect()
}

fn parse_success(text: &str) -> Option<f64> {
    match text.to_lowercase().as_str() {
        "true" | "yes" => Some(1.0),
        "false" | "no" => Some(0.0),
        number => number.parse().ok().filter(|share| (0.0..=1.0).contains(share)),
    }
}

/// Collects the trials below a folder. The folder that holds a trial is its arm.
fn read_trials(folder: &Path, levels: usize, outcomes: &mut Vec<SessionOutcome>) -> Result<()> {
    let result = folder.join("result.json");
    if result.is_file() {
        let text = std::fs::read_to_string(&result).with_context(|| format!("reading {}", result.display()))?;
        let document: Json = serde_json::from_str(&text).with_context(|| result.display().to_string())?;
        if let Some(success) = find_reward(&document) {
            let arm = folder
                .parent()
                .and_then(Path::file_name)
                .map(|name| name.to_string_lossy().into_owned());
            let mut sessions = Vec::new();
            find_sessions(&folder.join("agent"), MOST_LEVELS, &mut sessions)?;
            outcomes.extend(sessions.into_iter().map(|session| SessionOutcome {
                session,
                arm: arm.clone().unwrap_or_else(|| ONLY_ARM.to_owned()),
                success,
            }));
            return Ok(());
        }
    }
    if levels > 0 {
        for inner in sorted_entries(folder)?.into_iter().filter(|path| path.is_dir()) {
            read_trials(&inner, levels - 1, outcomes)?;
        }
    }
    Ok(())
}

/// Returns the reward of a trial: the first number among the verifier's rewards. A trial that failed before it was
/// verified has none and counts as unsuccessful.
fn find_reward(document: &Json) -> Option<f64> {
    let verifier = document.get("verifier_result");
    let rewards = verifier.and_then(|result| result.get("rewards").or_else(|| result.get("reward")));
    let number = |value: &Json| value.as_f64().map(|reward| reward.clamp(0.0, 1.0));
    match rewards {
        Some(Json::Object(named)) => named.get("reward").or_else(|| named.values().next()).and_then(number),
        Some(value) => number(value),
        None if document.get("trial_name").is_some() => Some(0.0),
        None => None,
    }
}

/// Collects the names of the logs of a trial, which are the ids of its sessions.
fn find_sessions(folder: &Path, levels: usize, sessions: &mut Vec<String>) -> Result<()> {
    for path in sorted_entries(folder)? {
        if path.is_dir() {
            if levels > 0 && path.file_name().is_none_or(|name| name != "subagents") {
                find_sessions(&path, levels - 1, sessions)?;
            }
        } else if let Some((stem, _)) = path
            .file_name()
            .and_then(|name| name.to_str())
            .and_then(|name| name.split_once(".jsonl"))
            && !stem.starts_with("agent-")
        {
            sessions.push(stem.to_owned());
        }
    }
    Ok(())
}

fn sorted_entries(folder: &Path) -> Result<Vec<PathBuf>> {
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>, std::io::Error>>()
        .with_context(|| format!("reading {}", folder.display()))?;
    paths.sort();
    Ok(paths)
}

impl OutcomeTable {
    /// Returns cost and success per arm, with intervals. `costs` is in dollars by session.
    pub fn summarize(&self, costs: &BTreeMap<&str, f64>, options: &ChoiceOptions) -> Json {
        let mut arms = BTreeMap::<&str, Vec<(f64, f64)>>::new();
        let mut missing = 0;
        for outcome in &self.outcomes {
            match costs.get(outcome.session.as_str()) {
                Some(cost) => arms.entry(&outcome.arm).or_default().push((*cost, outcome.success)),
                None => missing += 1,
            }
        }
        let interval = |values: Vec<f64>| {
            let found = bootstrap(&values, &vec![1.0; values.len()], options);
            json!({"mean": found.middle, "low": found.low, "high": found.high})
        };
        let arms = arms.into_iter().map(|(arm, sessions)| {
            let (costs, success): (Vec<_>, Vec<_>) = sessions.into_iter().unzip();
            json!({"arm": arm, "sessions": costs.len(), "cost_usd": interval(costs), "success": interval(success)})
        });
        json!({"arms": arms.collect::<Vec<_>>(), "sessions_without_log": missing})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: ChoiceOptions = ChoiceOptions {
        miss_cost: 1.0,
        folds: 5,
        resamples: 200,
        seed: 1,
    };

    #[test]
    fn rows_are_read_and_bad_ones_named() {
        let rows = parse_rows("session,arm,solved\na,low,true\nb,low,0\nc,high,0.5\n").unwrap();
        assert_eq!(rows.len(), 3);
        assert_eq!((rows[2].arm.as_str(), rows[2].success), ("high", 0.5));
        let message = |text: &str| format!("{:#}", parse_rows(text).unwrap_err());
        assert!(message("id,solved\na,1\n").contains("no column `session`"));
        assert!(message("session,cost\na,1\n").contains("no column `solved`"));
        assert!(message("session,solved\na,1\nb,maybe\n").contains("line 3: `maybe`"));
    }

    #[test]
    fn arms_have_cost_and_success_with_intervals() {
        let rows = (0..40).map(|at| format!("s{at},{},{}\n", ["low", "high"][at % 2], at % 4 / 2));
        let table = OutcomeTable {
            outcomes: parse_rows(&format!("session,arm,solved\n{}x,low,1\n", rows.collect::<String>())).unwrap(),
        };
        let names = (0..40).map(|at| format!("s{at}")).collect::<Vec<_>>();
        let costs = names
            .iter()
            .enumerate()
            .map(|(at, name)| (name.as_str(), 1.0 + (at % 2) as f64))
            .collect();
        let summary = table.summarize(&costs, &OPTIONS);
        assert_eq!(summary["sessions_without_log"], 1);
        let arm = &summary["arms"][1];
        assert_eq!((arm["arm"].as_str(), arm["sessions"].as_u64()), (Some("low"), Some(20)));
        assert_eq!(
            (arm["cost_usd"]["mean"].as_f64(), arm["success"]["mean"].as_f64()),
            (Some(1.0), Some(0.5))
        );
        assert!(arm["success"]["low"].as_f64() < Some(0.5) && arm["success"]["high"].as_f64() > Some(0.5));
    }

    #[test]
    fn trials_are_found_below_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let trial = |job: &str, name: &str, result: &str| {
            let logs = folder.path().join(job).join(name).join("agent/sessions/projects/p");
            std::fs::create_dir_all(logs.join("subagents")).unwrap();
            std::fs::write(logs.join(format!("{name}-id.jsonl")), "").unwrap();
            std::fs::write(logs.join("subagents/agent-1.jsonl"), "").unwrap();
            std::fs::write(folder.path().join(job).join(name).join("result.json"), result).unwrap();
        };
        trial(
            "low",
            "a",
            r#"{"trial_name": "a", "verifier_result": {"rewards": {"reward": 1.0}}}"#,
        );
        trial(
            "low",
            "b",
            r#"{"trial_name": "b", "verifier_result": null, "exception_info": {}}"#,
        );
        trial(
            "high",
            "c",
            r#"{"trial_name": "c", "verifier_result": {"rewards": {"tests": 0.5}}}"#,
        );
        let found = read_outcomes(folder.path()).unwrap().outcomes;
        let rows = found
            .iter()
            .map(|one| (one.session.as_str(), one.arm.as_str(), one.success));
        assert_eq!(
            rows.collect::<Vec<_>>(),
            [("c-id", "high", 0.5), ("a-id", "low", 1.0), ("b-id", "low", 0.0)]
        );
        assert!(read_outcomes(&folder.path().join("low/a/agent")).is_err(), "no trial");
    }
}
