//! Client settings: what a user can paste to get a policy, and which values no setting can reach.
//!
//! What a switch of Claude Code does is *reported* by users of the client, with versions; nothing here is proven.

use crate::policy::client_settings::AUTO_COMPACT_WINDOWS;
use crate::policy::presets::ClientVersion;
use crate::tune::agent_settings;
use crate::tune::space::SweepPoint;
use toml::Value;
use transcript::agents::Agent;

/// The client compacts this far below `autoCompactWindow`: the reserve and the buffer.
const WINDOW_ABOVE_THRESHOLD: u64 = 33_000;

/// The first version that knows `autoCompactWindow`.
const WINDOW_FROM: ClientVersion = ClientVersion([2, 1, 89]);

/// Versions that are reported to ignore the percentage: from the first, up to the last.
const PERCENT_IGNORED: (ClientVersion, ClientVersion) = (ClientVersion([2, 1, 79]), ClientVersion([2, 1, 302]));

/// A version in which a window below 200,000 is reported to switch automatic compaction off.
const WINDOW_SWITCHED_OFF: ClientVersion = ClientVersion([2, 1, 221]);

/// The sessions that a setting is meant for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SettingTarget {
    /// Their coding agent.
    pub agent: Agent,
    /// The newest version of it.
    pub newest: Option<ClientVersion>,
    /// Their window.
    pub window: u64,
    /// The largest threshold in force.
    pub usual_threshold: u64,
}

/// The client setting for one policy value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Key of the policy value.
    pub key: &'static str,
    /// Name and value of the setting; `None` if the client has none for this.
    pub setting: Option<(String, SettingValue)>,
    /// What the setting does.
    pub note: String,
    /// What is reported against it in the newest version; empty if nothing is.
    pub warning: String,
}

/// The value of a client setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SettingValue {
    Number(u64),
    Flag(bool),
    /// The value of an environment variable.
    Text(String),
}

impl std::fmt::Display for SettingValue {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SettingValue::Number(number) => number.fmt(formatter),
            SettingValue::Flag(flag) => flag.fmt(formatter),
            SettingValue::Text(text) => text.fmt(formatter),
        }
    }
}

/// Returns the advice for every value of a point.
pub fn advice(point: &SweepPoint, target: &SettingTarget) -> Vec<Advice> {
    let settings = point.settings.iter();
    let advise = |(key, value): &(&'static str, Value)| match target.agent {
        Agent::Claude => advise(key, value, target.newest),
        agent => agent_settings::advise(key, value, target)
            .unwrap_or_else(|| no_setting(key, &format!("no setting of {} does this", agent.title()))),
    };
    settings.map(advise).collect()
}

/// Returns whether the client can be set to every value of a point.
pub fn is_settable(point: &SweepPoint, target: &SettingTarget) -> bool {
    advice(point, target).iter().all(|advice| advice.setting.is_some())
}

/// Returns the value of `autoCompactWindow` that makes the client compact at a threshold; `None` if it takes no such value.
fn window_for_threshold(threshold: u64) -> Option<u64> {
    let window = threshold.checked_add(WINDOW_ABOVE_THRESHOLD)?;
    AUTO_COMPACT_WINDOWS.contains(&window).then_some(window)
}

fn advise(key: &'static str, value: &Value, newest: Option<ClientVersion>) -> Advice {
    let set = |name: &str, value: SettingValue, note: &str| Advice {
        key,
        setting: Some((name.to_owned(), value)),
        note: note.to_owned(),
        warning: String::new(),
    };
    let is_off = value.as_bool() == Some(false);
    let number = value.as_integer().and_then(|number| u64::try_from(number).ok());
    match (key, number) {
        ("window.threshold", Some(threshold)) => match window_for_threshold(threshold) {
            Some(window) => Advice {
                warning: window_warning(window, newest),
                ..set(
                    "autoCompactWindow",
                    SettingValue::Number(window),
                    "the threshold plus 33,000; also per model, under modelSettings",
                )
            },
            None => no_setting(
                key,
                "autoCompactWindow takes 100,000 to 1,000,000, so thresholds from 67,000",
            ),
        },
        ("window.override", Some(window)) if AUTO_COMPACT_WINDOWS.contains(&window) => Advice {
            warning: window_warning(window, newest),
            ..set(
                "autoCompactWindow",
                SettingValue::Number(window),
                "a smaller window than the model's; can only lower the threshold",
            )
        },
        ("window.percent", _) if is_percent_ignored(newest) => no_setting(
            key,
            "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE is reported to be ignored by clients 2.1.79 to 2.1.302",
        ),
        ("window.percent", _) => set(
            "env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
            SettingValue::Text(value.to_string()),
            "a percentage of the window less its reserve; can only lower the threshold",
        ),
        ("switch.auto", _) if is_off => set(
            "autoCompactEnabled",
            SettingValue::Flag(false),
            "no automatic compaction",
        ),
        ("switch.micro", _) if is_off => set(
            "env.DISABLE_MICROCOMPACT",
            SettingValue::Text("1".to_owned()),
            "no micro-compaction",
        ),
        ("switch.compaction", _) if is_off => set(
            "env.DISABLE_COMPACT",
            SettingValue::Text("1".to_owned()),
            "no compaction at all",
        ),
        ("window.buffer" | "window.reserve", _) => {
            no_setting(key, "vary window.threshold, which the client can be set to")
        }
        _ => no_setting(key, "no setting of the client does this"),
    }
}

fn is_percent_ignored(newest: Option<ClientVersion>) -> bool {
    newest.is_none_or(|version| (PERCENT_IGNORED.0..=PERCENT_IGNORED.1).contains(&version))
}

/// Returns what is reported against a window in a version.
fn window_warning(window: u64, newest: Option<ClientVersion>) -> String {
    match newest {
        Some(version) if version < WINDOW_FROM => {
            "this setting is known since 2.1.89, newer than the clients in these logs".to_owned()
        }
        Some(version) if version >= WINDOW_SWITCHED_OFF && window < 200_000 => {
            "one report says that a window below 200,000 switched automatic compaction off in 2.1.221".to_owned()
        }
        _ => String::new(),
    }
}

fn no_setting(key: &'static str, note: &str) -> Advice {
    Advice {
        key,
        setting: None,
        note: note.to_owned(),
        warning: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn advise_one(key: &'static str, value: impl Into<Value>, newest: [u32; 3]) -> Advice {
        let point = SweepPoint {
            settings: vec![(key, value.into())],
        };
        let target = SettingTarget {
            agent: Agent::Claude,
            newest: Some(ClientVersion(newest)),
            window: 1_000_000,
            usual_threshold: 967_000,
        };
        advice(&point, &target).remove(0)
    }

    #[test]
    fn a_threshold_is_a_window_less_33_000() {
        let setting = |threshold: i64| advise_one("window.threshold", threshold, [2, 1, 150]).setting;
        let window = |tokens| Some(("autoCompactWindow".to_owned(), SettingValue::Number(tokens)));
        assert_eq!(setting(120_000), window(153_000));
        assert_eq!(setting(67_000), window(100_000));
        assert_eq!(setting(66_999), None, "below the smallest window that can be set");
        assert_eq!(setting(967_000), window(1_000_000));
        assert_eq!(setting(967_001), None);
    }

    #[test]
    fn the_percentage_is_named_only_where_it_is_reported_to_work() {
        let setting = |version| advise_one("window.percent", 70, version).setting.is_some();
        assert!(setting([2, 1, 40]) && setting([2, 1, 303]));
        assert!(!setting([2, 1, 79]) && !setting([2, 1, 220]) && !setting([2, 1, 230]));
    }

    #[test]
    fn reports_against_a_setting_are_passed_on() {
        let warning = |threshold: i64, version| advise_one("window.threshold", threshold, version).warning;
        assert!(warning(120_000, [2, 1, 221]).contains("switched automatic compaction off"));
        assert_eq!(warning(400_000, [2, 1, 221]), "");
        assert!(warning(120_000, [2, 1, 40]).contains("since 2.1.89"));
        assert_eq!(warning(120_000, [2, 1, 150]), "");
    }

    #[test]
    fn values_without_a_setting_have_none() {
        for (key, value) in [("micro.gap.keep", 3), ("window.buffer", 54_000)] {
            assert_eq!(advise_one(key, value, [2, 1, 30]).setting, None, "{key}");
        }
        let off = advise_one("switch.auto", false, [2, 1, 150]).setting;
        assert_eq!(off, Some(("autoCompactEnabled".to_owned(), SettingValue::Flag(false))));
    }
}
