//! The client's own switches, as policy values: environment variables, and the keys of `settings.json`.
//!
//! The order is the client's. A variable of the environment comes before the `env` table of the settings file. A window is
//! taken from the environment, else from `modelSettings.<model>`, else from the top level.

use crate::policy::value::PolicyValue;
use serde_json::Value as Json;
use toml::Value;

/// The sizes that `autoCompactWindow` takes.
pub const AUTO_COMPACT_WINDOWS: std::ops::RangeInclusive<u64> = 100_000..=1_000_000;

/// Environment variables that switch something off, with the policy value.
const SWITCHES: [(&str, &str); 3] = [
    ("DISABLE_COMPACT", "switch.compaction"),
    ("DISABLE_AUTO_COMPACT", "switch.auto"),
    ("DISABLE_MICROCOMPACT", "switch.micro"),
];

const PERCENT_VARIABLE: &str = "CLAUDE_AUTOCOMPACT_PCT_OVERRIDE";
const WINDOW_VARIABLE: &str = "CLAUDE_CODE_AUTO_COMPACT_WINDOW";
const WINDOW_KEY: &str = "autoCompactWindow";

/// What the origin of a switch in the settings file starts with; then comes its key.
pub const SETTINGS_ORIGIN: &str = "settings: ";

/// One switch of the client that is set.
#[derive(Debug, Clone, PartialEq)]
pub struct ClientSwitch {
    /// Policy value that it sets.
    pub key: &'static str,
    pub value: Value,
    /// The variable or the key of the settings file.
    pub origin: String,
}

/// Returns the switches that are set. `variable` returns a variable of the environment, `settings` is the client's settings
/// file. Fails on a value that the client would not take.
pub fn client_switches(
    variable: impl Fn(&str) -> Option<String>,
    settings: Option<&Json>,
) -> Result<Vec<ClientSwitch>, String> {
    let from_file = |name: &str| settings?.get("env")?.get(name)?.as_str().map(str::to_owned);
    // The value of a variable, and where it is set.
    let lookup = |name: &str| {
        let typed = variable(name).map(|text| (text, name.to_owned()));
        let found = typed.or_else(|| Some((from_file(name)?, format!("{SETTINGS_ORIGIN}env.{name}"))));
        found.filter(|(text, _)| !text.is_empty())
    };
    let mut set = Vec::new();
    for (name, key) in SWITCHES {
        if let Some((_, origin)) = lookup(name).filter(|(value, _)| is_on(value)) {
            set.push(switch(key, false.write(), &origin));
        }
    }
    if settings.and_then(|file| file.get("autoCompactEnabled")?.as_bool()) == Some(false) {
        set.push(switch("switch.auto", false.write(), "settings: autoCompactEnabled"));
    }
    if let Some((text, origin)) = lookup(PERCENT_VARIABLE) {
        let percent = parse_number(PERCENT_VARIABLE, &text)?;
        set.push(switch("window.percent", percent.write(), &origin));
    }
    match lookup(WINDOW_VARIABLE) {
        // The variable rules all models.
        Some((text, origin)) => {
            let window = parse_number(WINDOW_VARIABLE, &text)? as u64;
            set.push(switch("window.override", window.write(), &origin));
        }
        None => set.extend(settings.map_or(Ok(Vec::new()), windows_of_file)?),
    }
    Ok(set)
}

/// Returns the windows that a settings file sets, for all models and for single ones.
fn windows_of_file(file: &Json) -> Result<Vec<ClientSwitch>, String> {
    let mut set = Vec::new();
    if let Some(window) = file.get(WINDOW_KEY) {
        let window = parse_window(WINDOW_KEY, window)?;
        set.push(switch("window.override", window.write(), "settings: autoCompactWindow"));
    }
    let models = file
        .get("modelSettings")
        .and_then(Json::as_object)
        .into_iter()
        .flatten();
    let mut windows = Vec::new();
    for (model, settings) in models {
        if let Some(window) = settings.get(WINDOW_KEY) {
            let name = format!("modelSettings.{model}.{WINDOW_KEY}");
            windows.push(Value::String(format!("{model}={}", parse_window(&name, window)?)));
        }
    }
    if !windows.is_empty() {
        set.push(switch(
            "window.override_models",
            Value::Array(windows),
            "settings: modelSettings",
        ));
    }
    Ok(set)
}

fn switch(key: &'static str, value: Value, origin: &str) -> ClientSwitch {
    ClientSwitch {
        key,
        value,
        origin: origin.to_owned(),
    }
}

fn parse_number(name: &str, text: &str) -> Result<f64, String> {
    let number = text.trim().parse::<f64>().ok().filter(|number| *number > 0.0);
    number.ok_or_else(|| format!("{name}={text}: not a number above 0"))
}

/// Reads a window of the settings file, which the client takes only within its range.
fn parse_window(name: &str, value: &Json) -> Result<u64, String> {
    let window = value.as_u64().filter(|window| AUTO_COMPACT_WINDOWS.contains(window));
    window.ok_or_else(|| format!("{name}: {value} is not a whole number from 100,000 to 1,000,000"))
}

/// Returns whether a switch is on: anything but empty, `0`, `false`, `no` and `off`.
fn is_on(value: &str) -> bool {
    !matches!(
        value.trim().to_ascii_lowercase().as_str(),
        "" | "0" | "false" | "no" | "off"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns `key=value` of every switch.
    fn read(variables: &[(&str, &str)], settings: Option<Json>) -> Result<Vec<String>, String> {
        let variable = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let set = client_switches(variable, settings.as_ref())?;
        Ok(set
            .iter()
            .map(|set| format!("{}={} ({})", set.key, set.value, set.origin))
            .collect())
    }

    #[test]
    fn variables_are_understood() {
        let variables = [
            ("DISABLE_COMPACT", "0"),
            ("DISABLE_AUTO_COMPACT", "1"),
            ("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "70"),
            ("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "400000"),
        ];
        let expected = [
            "switch.auto=false (DISABLE_AUTO_COMPACT)",
            "window.percent=70.0 (CLAUDE_AUTOCOMPACT_PCT_OVERRIDE)",
            "window.override=400000 (CLAUDE_CODE_AUTO_COMPACT_WINDOW)",
        ];
        assert_eq!(read(&variables, None).unwrap(), expected);
        assert!(read(&[("CLAUDE_AUTOCOMPACT_PCT_OVERRIDE", "many")], None).is_err());
    }

    #[test]
    fn a_window_comes_from_the_environment_then_the_model_then_the_top_level() {
        let settings = json!({
            "autoCompactWindow": 300_000,
            "modelSettings": {"claude-opus-5": {"autoCompactWindow": 200_000}, "claude-sonnet-5": {"effort": "high"}},
        });
        let expected = [
            "window.override=300000 (settings: autoCompactWindow)",
            "window.override_models=[\"claude-opus-5=200000\"] (settings: modelSettings)",
        ];
        assert_eq!(read(&[], Some(settings.clone())).unwrap(), expected);
        let variable = [("CLAUDE_CODE_AUTO_COMPACT_WINDOW", "250000")];
        let expected = ["window.override=250000 (CLAUDE_CODE_AUTO_COMPACT_WINDOW)"];
        assert_eq!(read(&variable, Some(settings)).unwrap(), expected);
        let in_file = json!({"env": {"CLAUDE_CODE_AUTO_COMPACT_WINDOW": "180000"}, "autoCompactWindow": 300_000});
        let expected = ["window.override=180000 (settings: env.CLAUDE_CODE_AUTO_COMPACT_WINDOW)"];
        assert_eq!(read(&[], Some(in_file)).unwrap(), expected);
    }

    #[test]
    fn a_window_that_the_client_would_not_take_is_refused_by_name() {
        let error = read(&[], Some(json!({"autoCompactWindow": 90_000}))).unwrap_err();
        assert!(error.contains("autoCompactWindow: 90000"), "{error}");
        let settings = json!({"modelSettings": {"x": {"autoCompactWindow": "150k"}}});
        assert!(
            read(&[], Some(settings))
                .unwrap_err()
                .contains("modelSettings.x.autoCompactWindow")
        );
    }

    #[test]
    fn the_window_of_a_model_is_found_by_family() {
        let windows =
            crate::policy::value::ModelWindows::read(&Value::Array(vec!["claude-opus-5=200000".into()])).unwrap();
        assert_eq!(windows.find("claude-opus-5-20260401"), Some(200_000));
        assert_eq!(windows.find("claude-opus-4-8"), None);
    }
}
