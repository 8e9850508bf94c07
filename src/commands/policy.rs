//! The policy that the arguments of a command come to, and where each value comes from.

use crate::cli::PolicyArgs;
use crate::cli::defaults::{OPTIONS_TABLE, config_files};
use crate::run::client_home;
use anyhow::{Context, Result, anyhow};
use memory::{index, recall};
use replay::policy::Policy;
use replay::policy::client_settings::{ClientSwitch, client_switches};
use replay::policy::presets::{PolicySet, RECORDED};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use toml::Table;
use transcript::log::Time;

/// The client's settings file in its home.
const SETTINGS_FILE: &str = "settings.json";

/// Reads the policy: preset or file, then the client's own switches, then what was set by hand.
pub fn resolve_policy(args: &PolicyArgs) -> Result<PolicySet> {
    let mut policies = match &args.policy {
        Some(name) => load_policy(name)?,
        None => load_policy(&default_policy_name())?,
    };
    if args.client_env {
        apply_client_settings(&mut policies)?;
    }
    if let Some(window) = args.window {
        policies.assign(&format!("window.tokens={window}"), "--window")?;
    }
    for assignment in &args.set {
        policies.assign(assignment, "--set")?;
    }
    Ok(policies)
}

/// The policy that memories are kept by: the usual one of the newest client, and what was set by hand.
pub fn memory_policy(set: &[String]) -> Result<Policy> {
    let mut policies = load_policy(&default_policy_name())?;
    for assignment in set {
        policies.assign(assignment, "--set")?;
    }
    Ok(policies.for_version(None).clone())
}

/// The policy of the project, else of the user, else the recorded client's. A file that only sets options is none.
pub fn default_policy_name() -> String {
    let sets_policy = |path: &&PathBuf| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let table = text.parse::<Table>();
        // A file that cannot be read is refused where it is read.
        table.map_or(true, |table| {
            table.is_empty() || table.keys().any(|key| key != OPTIONS_TABLE)
        })
    };
    let files = config_files();
    let file = files.iter().rev().find(sets_policy);
    file.map_or_else(|| RECORDED.to_owned(), |path| path.display().to_string())
}

/// Returns a configuration file without the defaults of options, which are no part of a policy.
fn without_options(text: String) -> String {
    let Ok(mut table) = text.parse::<Table>() else {
        return text;
    };
    match table.remove(OPTIONS_TABLE) {
        Some(_) => toml::to_string(&table).unwrap_or(text),
        None => text,
    }
}

/// A preset by its name, or a file.
pub fn load_policy(name: &str) -> Result<PolicySet> {
    let path = Path::new(name);
    let is_path = name.ends_with(".toml") || name.contains(std::path::MAIN_SEPARATOR);
    if !is_path {
        return Ok(PolicySet::preset(name)?);
    }
    let text = std::fs::read_to_string(path).map_err(|cause| {
        anyhow!("reading the policy {name}: {cause}\n  hint: `backcast config show > {name}` writes one to start from")
    })?;
    PolicySet::from_toml(name, &without_projects(&without_options(text))).with_context(|| name.to_owned())
}

/// Returns a config file with the lines of its `[projects]` table emptied, so that line numbers in errors stay true.
fn without_projects(text: &str) -> String {
    let mut is_projects = false;
    let lines = text.lines().map(|line| {
        if line.trim_start().starts_with('[') {
            is_projects = line.trim() == "[projects]";
        }
        if is_projects { "" } else { line }
    });
    lines.flat_map(|line| [line, "\n"]).collect()
}

/// Returns the `[projects]` table of the config file: the root of a checkout, and the root that it belongs to.
pub fn joined_projects() -> Result<BTreeMap<String, String>> {
    let name = default_policy_name();
    let Ok(text) = std::fs::read_to_string(&name) else {
        return Ok(BTreeMap::new());
    };
    let table = text.parse::<toml::Table>().with_context(|| name.clone())?;
    let Some(projects) = table.get("projects") else {
        return Ok(BTreeMap::new());
    };
    let joined = projects.as_table().into_iter().flatten();
    let joined = joined.map(|(from, to)| {
        let to = to
            .as_str()
            .with_context(|| format!("{name}: projects.\"{from}\" is not a folder"))?;
        Ok((from.clone(), to.to_owned()))
    });
    joined.collect()
}

/// Returns what the client's environment variables and its settings file set.
pub fn read_client_switches() -> Result<Vec<ClientSwitch>> {
    let settings = read_client_settings()?;
    client_switches(|name| std::env::var(name).ok(), settings.as_ref()).map_err(|reason| anyhow!(reason))
}

/// The client's environment variables and its settings file.
fn apply_client_settings(policies: &mut PolicySet) -> Result<()> {
    for switch in read_client_switches()? {
        policies.assign(&format!("{}={}", switch.key, switch.value), &switch.origin)?;
    }
    Ok(())
}

/// Returns where the client keeps its settings; `None` without a home folder.
pub fn client_settings_path() -> Option<PathBuf> {
    client_home().map(|home| home.join(SETTINGS_FILE))
}

/// Returns when the client's settings file was last changed; `None` if there is none.
pub fn settings_file_time() -> Option<Time> {
    let modified = std::fs::metadata(client_settings_path()?).ok()?.modified().ok()?;
    let since_epoch = modified.duration_since(std::time::UNIX_EPOCH).ok()?;
    Time::try_from(since_epoch.as_millis()).ok()
}

fn read_client_settings() -> Result<Option<serde_json::Value>> {
    let Some(path) = client_settings_path() else {
        return Ok(None);
    };
    match std::fs::read(&path) {
        Ok(bytes) => {
            let settings = serde_json::from_slice(&bytes).with_context(|| format!("reading {}", path.display()))?;
            Ok(Some(settings))
        }
        Err(_) => Ok(None),
    }
}

/// Returns the limits of an index that a policy sets.
pub fn index_limits(policy: &Policy) -> index::IndexLimits {
    index::IndexLimits {
        lines: to_size(policy.index_lines),
        bytes: to_size(policy.index_bytes),
        ..index::IndexLimits::default()
    }
}

/// Returns the limits of an answer that a policy sets.
pub fn recall_limits(policy: &Policy) -> recall::RecallLimits {
    recall::RecallLimits {
        most: to_size(policy.recall_most),
        lines: to_size(policy.recall_lines),
        bytes: to_size(policy.recall_bytes),
        budget: to_size(policy.recall_session_bytes),
        ..recall::RecallLimits::default()
    }
}

fn to_size(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory crate knows no policy, so its defaults are written down twice.
    #[test]
    fn default_limits_are_those_of_the_default_policy() {
        let policy = Policy::default();
        let (index, usual) = (index_limits(&policy), index::IndexLimits::default());
        assert_eq!((index.lines, index.bytes), (usual.lines, usual.bytes));
        let (recall, usual) = (recall_limits(&policy), recall::RecallLimits::default());
        assert_eq!(
            (recall.most, recall.lines, recall.bytes, recall.budget),
            (usual.most, usual.lines, usual.bytes, usual.budget)
        );
    }
}
