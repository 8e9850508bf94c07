//! The dated table of windows by model and client version, for sessions that show nothing themselves.

use crate::policy::presets::ClientVersion;
use serde::Deserialize;
use std::sync::LazyLock;

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct TableWindow {
    /// Beginning of the model's name, without vendor.
    model: String,
    /// Last version of the client that the row is about.
    #[serde(default)]
    to: Option<String>,
    /// The window.
    pub tokens: u64,
    /// Whether the client had no other size.
    #[serde(default)]
    pub only: bool,
    /// Sessions with this window, of those that show theirs.
    #[serde(default)]
    right: u32,
    /// Sessions that show their window.
    #[serde(default)]
    seen: u32,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
struct WindowTable {
    as_of: String,
    models: Vec<TableWindow>,
}

static TABLE: LazyLock<WindowTable> = LazyLock::new(|| {
    // A unit test reads the same file, so this cannot fail in a released binary.
    serde_json::from_str(include_str!("windows.json")).unwrap_or_else(|error| unreachable!("windows.json: {error}"))
});

/// Returns the day of the table.
pub fn table_date() -> &'static str {
    &TABLE.as_of
}

/// Returns the row of a model under a client version: the longest name that the model's name starts with. `None` if the
/// table does not list the model.
pub fn find_window(model: &str, version: ClientVersion) -> Option<&'static TableWindow> {
    let name = model_name(model);
    let rows = TABLE.models.iter().filter(|row| row.covers(&name, version));
    // A row that ends with a version goes before the one that is open.
    rows.max_by_key(|row| (row.only, row.model.len(), row.to.is_some()))
}

impl TableWindow {
    fn covers(&self, name: &str, version: ClientVersion) -> bool {
        let is_old_enough = match self.to.as_deref().map(ClientVersion::parse) {
            None => true,
            Some(to) => to.is_some_and(|to| version <= to),
        };
        let is_named = match self.only {
            true => is_claude(name),
            false => name.strip_prefix(self.model.as_str()).is_some_and(is_variant),
        };
        is_old_enough && is_named
    }

    /// Returns whether at least nine in ten of the sessions that show their window have this one.
    pub fn is_well_supported(&self) -> bool {
        self.seen > 0 && self.right * 10 >= self.seen * 9
    }
}

/// Returns whether the rest of a name leaves the model the same: nothing, a date, a variant or a minor version of another
/// vendor. `claude-opus-5` is not `claude-opus-5-5`.
fn is_variant(rest: &str) -> bool {
    let minor = rest.strip_prefix('-').unwrap_or_default();
    let digits = minor.bytes().take_while(u8::is_ascii_digit).count();
    rest.is_empty() || (rest.starts_with(['-', '.']) && !(1..=2).contains(&digits))
}

/// Returns whether a model is Anthropic's, whoever serves it.
pub fn is_claude(model: &str) -> bool {
    model.to_ascii_lowercase().contains("claude")
}

/// Returns whether a model's name says that its window has a million tokens: `claude-sonnet-4-5[1m]`, or with `-1m` or `:1m` at
/// the end, as gateways write it.
pub fn names_million(model: &str) -> bool {
    let name = model.to_ascii_lowercase();
    name.contains("[1m]") || name.ends_with("-1m") || name.ends_with(":1m")
}

/// Returns a model's name in lower case without what providers add around it: `us.anthropic.claude-opus-4-6-v1:0`,
/// `anthropic/claude-opus-4.6` and `claude-opus-4-6@20260205` are one model.
pub fn model_name(model: &str) -> String {
    let name = model.rsplit('/').next().unwrap_or(model).to_ascii_lowercase();
    let name = name.split(['@', ':', '[']).next().unwrap_or(&name);
    let name = match name.rfind("anthropic.") {
        Some(at) => &name[at + "anthropic.".len()..],
        None => name,
    };
    let name = strip_provider_version(name);
    let name = match is_claude(name) {
        true => name.strip_suffix("-1m").unwrap_or(name).replace('.', "-"),
        false => name.to_owned(),
    };
    match name.rsplit_once('-') {
        Some((undated, date)) if date.len() == 8 && date.bytes().all(|byte| byte.is_ascii_digit()) => {
            undated.to_owned()
        }
        _ => name,
    }
}

/// Returns a name without the version that Bedrock adds: `-v1`, `-v2`.
pub(crate) fn strip_provider_version(name: &str) -> &str {
    match name.rsplit_once("-v") {
        Some((rest, version)) if is_claude(rest) && version.len() == 1 && version.as_bytes()[0].is_ascii_digit() => {
            rest
        }
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(model: &str, version: &str) -> Option<u64> {
        find_window(model, ClientVersion::parse(version).unwrap()).map(|row| row.tokens)
    }

    #[test]
    fn windows_depend_on_model_and_version() {
        for (model, version, expected) in [
            ("claude-opus-4-6", "2.1.72", Some(200_000)),
            ("claude-opus-4-6", "2.1.73", Some(1_000_000)),
            ("claude-haiku-4-5-20251001", "2.1.219", Some(200_000)),
            ("us.anthropic.claude-sonnet-4-6-v1:0", "2.1.100", Some(200_000)),
            ("anthropic/claude-opus-5", "2.1.200", Some(1_000_000)),
            ("anthropic/claude-opus-4.6", "2.1.72", Some(200_000)),
            (
                "arn:aws:bedrock:us-east-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0",
                "2.1.200",
                Some(200_000),
            ),
            ("vertex_ai/claude-haiku-4-5@20251001", "2.1.200", Some(200_000)),
            ("anthropic.claude-sonnet-4-6-v2:0", "2.1.200", Some(200_000)),
            // Nothing is known about a model that the table does not list.
            ("claude-opus-5-5", "2.1.300", None),
            ("claude-opus-4-9", "2.1.300", None),
            // Old clients had one size for every model of theirs, and for no other.
            ("claude-opus-5", "2.1.44", Some(200_000)),
            ("glm-4.5-air", "2.1.44", Some(131_072)),
            ("z-ai/GLM-5.1", "2.1.120", Some(200_000)),
            ("kimi-k2-0711-preview", "2.1.1", Some(131_072)),
            ("kimi-k2.5", "2.1.1", Some(262_144)),
            ("some-model", "2.1.44", None),
        ] {
            assert_eq!(tokens(model, version), expected, "{model} under {version}");
        }
        assert_eq!(table_date().len(), 10);
    }

    #[test]
    fn a_name_may_say_that_the_window_is_large() {
        for name in [
            "claude-sonnet-4-5[1m]",
            "anthropic/claude-sonnet-4.5-1m",
            "claude-sonnet-4-5:1M",
        ] {
            assert!(names_million(name), "{name}");
            assert_eq!(model_name(name), "claude-sonnet-4-5", "{name}");
        }
        for name in ["claude-sonnet-4-5", "qwen2.5-coder-11m", "kimi-k2"] {
            assert!(!names_million(name), "{name}");
        }
    }

    #[test]
    fn support_is_counted() {
        let row = |model: &str| find_window(model, ClientVersion([2, 1, 200])).unwrap();
        assert!(row("claude-opus-5").is_well_supported());
        assert!(!row("claude-opus-4-7").is_well_supported());
        assert!(!row("glm-5").is_well_supported());
    }
}
