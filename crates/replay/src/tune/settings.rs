//! Client settings: what a user can paste into `settings.json` to get a policy, and which values no setting can reach.

use crate::policy::Policy;
use crate::sim::limits::WindowLimits;
use crate::tune::space::SweepPoint;
use toml::Value;

/// The client setting for one policy value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// Key of the policy value.
    pub key: &'static str,
    /// Name and value of the setting; `None` if the client has none for this.
    pub setting: Option<(String, String)>,
    /// What the setting can and cannot do.
    pub note: String,
}

/// Returns the advice for every value of a point.
pub fn advice(point: &SweepPoint, policy: &Policy, window: u64) -> Vec<Advice> {
    point
        .settings
        .iter()
        .map(|(key, value)| advise(key, value, policy, window))
        .collect()
}

fn advise(key: &'static str, value: &Value, policy: &Policy, window: u64) -> Advice {
    let environment = |name: &str, value: String, note: &str| Advice {
        key,
        setting: Some((name.to_owned(), value)),
        note: note.to_owned(),
    };
    let is_off = value.as_bool() == Some(false);
    match key {
        "window.percent" => environment(
            "env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE",
            value.to_string(),
            "a percentage of the effective window; can only lower the threshold",
        ),
        "window.override" => environment(
            "env.CLAUDE_CODE_AUTO_COMPACT_WINDOW",
            value.to_string(),
            "a smaller window than the model's; can only lower the threshold",
        ),
        "switch.auto" if is_off => environment("autoCompactEnabled", "false".into(), "no automatic compaction"),
        "switch.micro" if is_off => environment("env.DISABLE_MICROCOMPACT", "1".into(), "no micro-compaction"),
        "switch.compaction" if is_off => environment("env.DISABLE_COMPACT", "1".into(), "no compaction at all"),
        "window.buffer" | "window.reserve" => {
            let usual = WindowLimits::new(&Policy::default(), window, None);
            let wanted = WindowLimits::new(policy, window, None).threshold;
            if wanted < usual.threshold && usual.effective > 0 {
                let percent = 100 * wanted / usual.effective;
                let note = "the nearest that the client can do: the same threshold as a percentage";
                return environment("env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", percent.to_string(), note);
            }
            no_setting(key, "no setting of the client raises the threshold")
        }
        _ => no_setting(key, "no setting of the client does this"),
    }
}

fn no_setting(key: &'static str, note: &str) -> Advice {
    Advice {
        key,
        setting: None,
        note: note.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_say_what_they_can_do() {
        let point = |key: &'static str, value: Value| SweepPoint {
            settings: vec![(key, value)],
        };
        let mut policy = Policy::default();
        let found = advice(&point("window.percent", Value::Integer(70)), &policy, 200_000);
        assert_eq!(
            found[0].setting,
            Some(("env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE".into(), "70".into()))
        );
        policy.buffer = 54_000;
        let found = advice(&point("window.buffer", Value::Integer(54_000)), &policy, 200_000);
        assert_eq!(
            found[0].setting,
            Some(("env.CLAUDE_AUTOCOMPACT_PCT_OVERRIDE".into(), "70".into()))
        );
        policy.buffer = 5_000;
        let found = advice(&point("window.buffer", Value::Integer(5_000)), &policy, 200_000);
        assert_eq!(found[0].setting, None);
        let found = advice(&point("micro.gap.keep", Value::Integer(3)), &policy, 200_000);
        assert_eq!(found[0].setting, None);
    }
}
