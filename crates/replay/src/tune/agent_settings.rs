//! Settings of Codex, OpenCode and Pi: what a user can paste to get a policy. Those of Claude Code are in
//! [`super::settings`].
//!
//! Keys and rules are those of the agents' sources; no recorded session shows their effect.

use crate::tune::settings::{Advice, SettingTarget, SettingValue};
use toml::Value;
use transcript::agents::Agent;

/// Returns the file that the settings of an agent go into.
pub fn settings_file(agent: Agent) -> &'static str {
    match agent {
        Agent::Claude => "settings.json",
        Agent::Codex => "~/.codex/config.toml",
        Agent::OpenCode => "opencode.json",
        Agent::Pi => "~/.pi/agent/settings.json",
    }
}

/// Returns the setting of an agent for a value; `None` if it has none for this.
pub(super) fn advise(key: &'static str, value: &Value, target: &SettingTarget) -> Option<Advice> {
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    let is_off = value.as_bool() == Some(false);
    // What the agent keeps free above its usual threshold.
    let reserve = target.window.saturating_sub(target.usual_threshold);
    let lower = number.filter(|threshold| key == "window.threshold" && *threshold <= target.usual_threshold);
    let set = |name: &str, value: SettingValue, note: &str| {
        Some(Advice {
            key,
            setting: Some((name.to_owned(), value)),
            note: note.to_owned(),
            warning: String::new(),
        })
    };
    match (target.agent, key, lower) {
        (Agent::Codex, _, Some(threshold)) => set(
            "model_auto_compact_token_limit",
            SettingValue::Number(threshold),
            "the threshold itself, for all models; a value above nine tenths of the window changes nothing",
        ),
        (Agent::OpenCode, _, Some(threshold)) => set(
            "provider.PROVIDER.models.MODEL.limit.context",
            SettingValue::Number(threshold + reserve),
            "the threshold plus the output limit, at most 32,000; a limit also needs `output`, the model's own",
        ),
        (Agent::OpenCode, "switch.auto", _) if is_off => {
            set("compaction.auto", SettingValue::Flag(false), "no automatic compaction")
        }
        (Agent::Pi, _, Some(threshold)) => set(
            "compaction.reserveTokens",
            SettingValue::Number(target.window - threshold),
            "what stays free of the window, for models of every window",
        ),
        (Agent::Pi, "switch.auto", _) if is_off => set(
            "compaction.enabled",
            SettingValue::Flag(false),
            "no automatic compaction",
        ),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::settings::{advice, is_settable};
    use crate::tune::space::SweepPoint;

    fn advise_one(agent: Agent, window: u64, usual: u64, key: &'static str, value: impl Into<Value>) -> Advice {
        let point = SweepPoint {
            settings: vec![(key, value.into())],
        };
        let target = SettingTarget {
            agent,
            newest: None,
            window,
            usual_threshold: usual,
        };
        let found = advice(&point, &target).remove(0);
        assert_eq!(is_settable(&point, &target), found.setting.is_some());
        found
    }

    #[test]
    fn every_agent_has_its_own_setting_for_a_threshold() {
        let number = |name: &str, tokens| Some((name.to_owned(), SettingValue::Number(tokens)));
        let setting = |agent, window, usual| advise_one(agent, window, usual, "window.threshold", 120_000).setting;
        assert_eq!(
            setting(Agent::Codex, 272_000, 244_800),
            number("model_auto_compact_token_limit", 120_000)
        );
        assert_eq!(
            setting(Agent::OpenCode, 200_000, 168_000),
            number("provider.PROVIDER.models.MODEL.limit.context", 152_000)
        );
        assert_eq!(
            setting(Agent::Pi, 200_000, 183_616),
            number("compaction.reserveTokens", 80_000)
        );
        assert_eq!(setting(Agent::Codex, 128_000, 115_200), None, "it cannot be raised");
    }

    #[test]
    fn settings_of_claude_code_are_not_those_of_others() {
        for agent in [Agent::Codex, Agent::OpenCode, Agent::Pi] {
            for (key, value) in [
                ("window.percent", Value::Integer(50)),
                ("window.override", Value::Integer(150_000)),
                ("switch.micro", Value::Boolean(false)),
            ] {
                let found = advise_one(agent, 272_000, 244_800, key, value);
                assert_eq!(found.setting, None, "{} {key}", agent.name());
            }
        }
        let off = |agent| advise_one(agent, 272_000, 244_800, "switch.auto", false).setting;
        assert_eq!(
            off(Agent::Pi),
            Some(("compaction.enabled".to_owned(), SettingValue::Flag(false)))
        );
        assert_eq!(off(Agent::Codex), None);
    }
}
