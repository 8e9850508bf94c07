//! `backcast config`: the policy in force and where each value comes from; the price table.

use crate::cli::PolicyArgs;
use crate::cli::defaults::{OPTIONS_TABLE, OptionDefault, OptionDefaults};
use crate::commands::policy::resolve_policy;
use crate::commands::writing::fold_for_terminal;
use crate::commands::{RunStatus, print};
use anyhow::Result;
use clap::{Args, Subcommand};
use replay::policy::presets;
use replay::policy::presets::{ClientVersion, PolicySet, RECORDED};
use replay::policy::{KEYS, PolicyKey};
use replay::prices::PriceTable;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Arguments of `config`.
#[derive(Debug, Args)]
pub struct ConfigArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: ConfigCommand,
}

/// What `config` does.
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Prints the built-in price table; complete it and pass it with --prices.
    Prices,
    /// Prints the resulting policy and the option defaults from configuration files, as TOML that --policy reads.
    Show {
        /// Which policy.
        #[command(flatten)]
        policy: PolicyArgs,
        /// Show where each value comes from.
        #[arg(long)]
        origin: bool,
        /// List the presets instead.
        #[arg(long)]
        presets: bool,
    },
}

/// Runs it.
pub fn run(args: &ConfigArgs) -> Result<RunStatus> {
    let text = match &args.command {
        ConfigCommand::Prices => PriceTable::built_in_text().to_owned(),
        ConfigCommand::Show { presets: true, .. } => fold_for_terminal(&list_presets()),
        ConfigCommand::Show { policy, origin, .. } => {
            let text = policy_toml(&resolve_policy(policy)?, *origin);
            text + &options_toml(&OptionDefaults::read()?, *origin)
        }
    };
    print(text.as_bytes())
}

fn list_presets() -> String {
    let mut text = format!("{RECORDED}\n  For every call the policy of the client version that made it.\n");
    for preset in presets::all() {
        let _ = writeln!(text, "{}\n  {}", preset.name, preset.about);
    }
    text
}

/// The policy as a file that comes to it, one value a line, with where each is from on request. What differs between versions of
/// the client is left to the preset, and told beside it.
fn policy_toml(policies: &PolicySet, with_origin: bool) -> String {
    let mut text = format!("# policy {}\nbase = {:?}\n", policies.name, policies.base);
    let mut section = "";
    for key in KEYS {
        let (head, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if head != section {
            let _ = write!(text, "\n[{head}]\n");
            section = head;
        }
        match &values_by_version(policies, key)[..] {
            [(_, value)] => {
                let _ = write!(text, "{name} = {value}");
                if with_origin {
                    let origin = policies.origins.get(key.name).map_or("default", String::as_str);
                    let _ = write!(text, "  # {origin}");
                }
                let _ = writeln!(text);
            }
            by_version => {
                let _ = writeln!(text, "# {name} is left to the base:");
                for (from, value) in by_version {
                    let _ = writeln!(text, "#   from {from}: {value}");
                }
            }
        }
    }
    text
}

/// The defaults of options as the table of a file, with where each is from on request; empty if there are none.
fn options_toml(defaults: &OptionDefaults, with_origin: bool) -> String {
    let mut by_table = BTreeMap::<Option<&str>, BTreeMap<&str, &OptionDefault>>::new();
    for default in &defaults.0 {
        let table = by_table.entry(default.command.as_deref()).or_default();
        table.insert(&default.name, default);
    }
    let mut text = String::new();
    for (command, options) in by_table {
        let name = command.map_or_else(
            || OPTIONS_TABLE.to_owned(),
            |command| format!("{OPTIONS_TABLE}.{command:?}"),
        );
        let _ = writeln!(text, "\n[{name}]");
        for (name, default) in options {
            let values = default
                .values
                .iter()
                .map(|value| format!("{value:?}"))
                .collect::<Vec<_>>();
            let value = match &values[..] {
                [value] => value.clone(),
                values => format!("[{}]", values.join(", ")),
            };
            let _ = write!(text, "{name} = {value}");
            if with_origin {
                let _ = write!(text, "  # {}", default.origin);
            }
            let _ = writeln!(text);
        }
    }
    text
}

/// The values of a key, each with the version that has it first.
fn values_by_version(policies: &PolicySet, key: &PolicyKey) -> Vec<(ClientVersion, String)> {
    let mut values: Vec<(ClientVersion, String)> = Vec::new();
    for (from, policy) in policies.ranges() {
        let value = (key.get)(policy).to_string();
        if values.last().is_none_or(|(_, last)| *last != value) {
            values.push((*from, value));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_comes_to_the_same_policy() {
        let by_hand = PolicySet::from_toml("mine", "recall.most = 1\n[window]\nreserve = 7").unwrap();
        let presets = presets::names()
            .into_iter()
            .map(|name| PolicySet::preset(name).unwrap());
        for policies in presets.chain([by_hand]) {
            for with_origin in [false, true] {
                let text = policy_toml(&policies, with_origin);
                let again = PolicySet::from_toml("again", &text).unwrap();
                assert_eq!(again.ranges(), policies.ranges(), "{}", policies.name);
            }
        }
    }
}
