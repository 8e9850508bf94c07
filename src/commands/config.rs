//! `backcast config`: the policy in force and where each value comes from; the price table.

use super::policy::resolve;
use super::writing::for_people;
use super::{Ending, print};
use crate::cli::{ConfigArgs, ConfigWhat};
use crate::metrics::cost::PriceTable;
use crate::policy::presets::{self, Policies, RECORDED};
use crate::policy::{KEYS, Key, Policy};
use anyhow::Result;
use std::fmt::Write;

/// Runs it.
pub fn run(args: &ConfigArgs) -> Result<Ending> {
    let text = match &args.what {
        ConfigWhat::Prices => PriceTable::built_in_text().to_owned(),
        ConfigWhat::Show { presets: true, .. } => for_people(&list_presets()),
        ConfigWhat::Show { policy, origin, .. } => show(&resolve(policy)?, *origin),
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

/// Values as TOML, one a line, with what they mean on request. A policy by version shows its newest range, and beside
/// each value that differs between ranges what it was before.
fn show(policies: &Policies, with_origin: bool) -> String {
    let newest = policies.of(None);
    let mut text = format!("# policy {}\n", policies.name);
    let mut section = "";
    for key in KEYS {
        let (head, name) = key.name.split_once('.').unwrap_or(("", key.name));
        if head != section {
            let _ = write!(text, "\n[{head}]\n");
            section = head;
        }
        let _ = write!(text, "{name} = {}", (key.get)(newest));
        if with_origin {
            let origin = policies.origins.get(key.name).map_or("default", String::as_str);
            let _ = write!(text, "  # {origin}");
        }
        let _ = writeln!(text);
        for earlier in earlier_values(policies, key, newest) {
            let _ = writeln!(text, "#   {earlier}");
        }
    }
    text
}

/// What the value was in earlier ranges of versions, where it differs.
fn earlier_values(policies: &Policies, key: &Key, newest: &Policy) -> Vec<String> {
    let mut told = Vec::new();
    let mut last = None;
    for (from, policy) in policies.ranges() {
        let value = (key.get)(policy).to_string();
        if last.as_ref() != Some(&value) {
            told.push(format!("from {from}: {value}"));
        }
        last = Some(value);
    }
    let is_constant = told.len() == 1 && last == Some((key.get)(newest).to_string());
    if is_constant { Vec::new() } else { told }
}
