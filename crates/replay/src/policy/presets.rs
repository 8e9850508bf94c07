//! Policies by name: the system of the articles, the recorded client by version, API-side edits, and no compaction at all.
//!
//! A preset is a TOML file of differences from the defaults. Presets that model the recorded client state their first
//! version; `recorded` stands for all of them and uses for every call the one of its version.

use crate::policy::{Policy, PolicyError, nearest};
use std::collections::BTreeMap;
use std::sync::LazyLock;
use toml::{Table, Value};
use transcript::agents::Agent;

/// Name of the policy that depends on the client's version.
pub const RECORDED: &str = "recorded";

const FILES: &[(&str, &str)] = &[
    ("article", include_str!("presets/article.toml")),
    ("client-2.0.65", include_str!("presets/client-2.0.65.toml")),
    ("client-2.0.76", include_str!("presets/client-2.0.76.toml")),
    ("client-2.1.3", include_str!("presets/client-2.1.3.toml")),
    ("client-2.1.8", include_str!("presets/client-2.1.8.toml")),
    ("client-2.1.21", include_str!("presets/client-2.1.21.toml")),
    ("client-2.1.25", include_str!("presets/client-2.1.25.toml")),
    ("client-2.1.30", include_str!("presets/client-2.1.30.toml")),
    ("client-2.1.45", include_str!("presets/client-2.1.45.toml")),
    ("client-2.1.57", include_str!("presets/client-2.1.57.toml")),
    ("client-2.1.73", include_str!("presets/client-2.1.73.toml")),
    ("client-2.1.220", include_str!("presets/client-2.1.220.toml")),
    ("codex-remote", include_str!("presets/codex-remote.toml")),
    ("codex-local", include_str!("presets/codex-local.toml")),
    ("opencode", include_str!("presets/opencode.toml")),
    ("pi", include_str!("presets/pi.toml")),
    ("api-edits", include_str!("presets/api-edits.toml")),
    ("never", include_str!("presets/never.toml")),
];

/// A version of the recorded client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct ClientVersion(pub [u32; 3]);

impl ClientVersion {
    /// Parses `2.1.12` and ignores everything after a hyphen. Returns `None` for anything but three numbers.
    pub fn parse(text: &str) -> Option<ClientVersion> {
        let mut numbers = text.split('-').next()?.split('.').map(|part| part.parse::<u32>().ok());
        let mut next = || numbers.next().flatten();
        Some(ClientVersion([next()?, next()?, next()?]))
    }
}

impl std::fmt::Display for ClientVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [major, minor, patch] = self.0;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// A named policy.
#[derive(Debug, Clone)]
pub struct Preset {
    pub name: &'static str,
    /// One sentence about what it models.
    pub about: String,
    /// The coding agent that it models.
    pub client: Agent,
    /// First client version that it models; `None` if it models no client.
    pub from: Option<ClientVersion>,
    /// Whether too few recorded boundaries support it.
    pub is_unsettled: bool,
    /// Its differences from the defaults.
    pub table: Table,
    pub policy: Policy,
}

static PRESETS: LazyLock<Vec<Preset>> = LazyLock::new(|| {
    let read = |&(name, text)| read_preset(name, text).unwrap_or_else(|error| unreachable!("{name}.toml: {error}"));
    FILES.iter().map(read).collect()
});

static CLIENTS: LazyLock<PolicySet> =
    LazyLock::new(|| PolicySet::preset(RECORDED).unwrap_or_else(|error| unreachable!("{error}")));

/// Returns all presets. A unit test parses the same files, so this cannot fail in a released binary.
pub fn all() -> &'static [Preset] {
    &PRESETS
}

/// Returns the policy of the recorded client of a version of Claude Code.
pub fn client_policy(version: ClientVersion) -> &'static Policy {
    CLIENTS.for_version(Some(version))
}

/// Returns the preset of the recorded client of a version: the oldest one for a version before it.
pub fn client_preset(version: ClientVersion) -> Option<&'static Preset> {
    let mut clients = all().iter().filter(|preset| preset.from.is_some()).collect::<Vec<_>>();
    clients.sort_by_key(|preset| preset.from);
    let covering = clients.iter().rev().find(|preset| preset.from <= Some(version));
    covering.or(clients.first()).copied()
}

/// Returns the names of all presets, `recorded` first.
pub fn names() -> Vec<&'static str> {
    std::iter::once(RECORDED)
        .chain(FILES.iter().map(|(name, _)| *name))
        .collect()
}

fn read_preset(name: &'static str, text: &str) -> Result<Preset, PolicyError> {
    let mut table = text.parse::<Table>()?;
    let is_unsettled = table.remove("unsettled") == Some(Value::Boolean(true));
    let mut word = |key: &str| match table.remove(key) {
        Some(Value::String(text)) => text,
        _ => String::new(),
    };
    let (about, from, client) = (word("about"), word("from"), word("client"));
    let mut policy = Policy::default();
    policy.apply(&table, &mut |_| ())?;
    Ok(Preset {
        name,
        about,
        client: Agent::from_name(&client).unwrap_or_default(),
        from: ClientVersion::parse(&from),
        is_unsettled,
        table,
        policy,
    })
}

/// The policies of a run: one for all calls, or one per range of client versions.
#[derive(Debug, Clone)]
pub struct PolicySet {
    /// Name in outputs and manifests.
    pub name: String,
    /// The preset that it is based on.
    pub base: String,
    /// Policies by first version, ascending. The first one also applies to older versions.
    ranges: Vec<(ClientVersion, Policy)>,
    /// Policies of the other coding agents, if calls are replayed under the policies of their clients.
    clients: Vec<(Agent, Policy)>,
    /// By key: where values that are not defaults were set. The same for all ranges, except for values of a preset.
    pub origins: BTreeMap<&'static str, String>,
}

impl PolicySet {
    /// Returns a preset by name.
    pub fn preset(name: &str) -> Result<PolicySet, PolicyError> {
        let mut policies = PolicySet {
            name: name.to_owned(),
            base: name.to_owned(),
            ranges: Vec::new(),
            clients: Vec::new(),
            origins: BTreeMap::new(),
        };
        let chosen = all().iter().filter(|preset| match name {
            RECORDED => preset.from.is_some(),
            _ => preset.name == name,
        });
        for preset in chosen {
            if name == RECORDED && preset.client != Agent::Claude {
                policies.clients.push((preset.client, preset.policy.clone()));
                continue;
            }
            let from = preset.from.filter(|_| name == RECORDED).unwrap_or_default();
            policies.ranges.push((from, preset.policy.clone()));
            let origin = match name {
                RECORDED => format!("preset {RECORDED} (by version)"),
                _ => format!("preset {}", preset.name),
            };
            for key in super::KEYS {
                if (key.get)(&preset.policy) != (key.get)(&Policy::default()) {
                    policies.origins.insert(key.name, origin.clone());
                }
            }
        }
        if policies.ranges.is_empty() {
            let nearest = nearest(name, names().into_iter());
            let name = name.to_owned();
            return Err(PolicyError::UnknownPreset { name, nearest });
        }
        policies.ranges.sort_by_key(|(from, _)| *from);
        Ok(policies)
    }

    /// Parses a policy file. `base` in it names the preset that the file overrides (default `recorded`).
    pub fn from_toml(name: &str, text: &str) -> Result<PolicySet, PolicyError> {
        let mut table = text.parse::<Table>()?;
        let base = match table.remove("base") {
            None => RECORDED.to_owned(),
            Some(Value::String(base)) => base,
            Some(other) => {
                let reason = format!("`{other}` is not the name of a preset");
                let key = "base".to_owned();
                return Err(PolicyError::Value { key, reason });
            }
        };
        table.remove("about");
        let mut policies = PolicySet::preset(&base)?;
        policies.name = name.to_owned();
        policies.apply(&table, name)?;
        Ok(policies)
    }

    /// Returns a set with one policy for all versions.
    pub fn single(name: &str, policy: Policy) -> PolicySet {
        PolicySet {
            name: name.to_owned(),
            base: "article".to_owned(),
            ranges: vec![(ClientVersion::default(), policy)],
            clients: Vec::new(),
            origins: BTreeMap::new(),
        }
    }

    /// Sets the values of a table in all ranges.
    pub fn apply(&mut self, table: &Table, origin: &str) -> Result<(), PolicyError> {
        for policy in policies_mut(&mut self.ranges, &mut self.clients) {
            policy.apply(table, &mut |key| {
                self.origins.insert(key, origin.to_owned());
            })?;
        }
        Ok(())
    }

    /// Sets one value, typed as `key=value`, in all ranges.
    pub fn assign(&mut self, assignment: &str, origin: &str) -> Result<(), PolicyError> {
        for policy in policies_mut(&mut self.ranges, &mut self.clients) {
            let key = policy.assign(assignment)?;
            self.origins.insert(key, origin.to_owned());
        }
        Ok(())
    }

    /// Returns the policy for a call of a coding agent: that of its own client if the set follows the recorded clients, else
    /// the same as for Claude Code.
    pub fn for_client(&self, client: Agent, version: Option<ClientVersion>) -> &Policy {
        let own = self.clients.iter().find(|(known, _)| *known == client);
        own.map_or_else(|| self.for_version(version), |(_, policy)| policy)
    }

    /// Returns the policy for a version of Claude Code; the newest for a version that could not be parsed.
    pub fn for_version(&self, version: Option<ClientVersion>) -> &Policy {
        let covering = self
            .ranges
            .iter()
            .rev()
            .find(|(from, _)| version.is_none_or(|version| *from <= version));
        &covering.unwrap_or(&self.ranges[0]).1
    }

    /// Returns the policies by first version, ascending.
    pub fn ranges(&self) -> &[(ClientVersion, Policy)] {
        &self.ranges
    }
}

/// Iterates over all policies of a set.
fn policies_mut<'p>(
    ranges: &'p mut [(ClientVersion, Policy)],
    clients: &'p mut [(Agent, Policy)],
) -> impl Iterator<Item = &'p mut Policy> {
    let ranges = ranges.iter_mut().map(|(_, policy)| policy);
    ranges.chain(clients.iter_mut().map(|(_, policy)| policy))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::value::ReserveRule;
    use crate::sim::limits::{ModelLimits, WindowLimits};

    #[test]
    fn presets_can_be_read_and_say_what_they_are() {
        for preset in all() {
            assert!(!preset.about.is_empty(), "{}", preset.name);
            if preset.client == Agent::Claude {
                let version = preset.name.strip_prefix("client-");
                assert_eq!(version.and_then(ClientVersion::parse), preset.from, "{}", preset.name);
            }
        }
    }

    #[test]
    fn the_recorded_policy_follows_the_version() {
        let recorded = PolicySet::preset(RECORDED).unwrap();
        let rule = |version: &str| recorded.for_version(ClientVersion::parse(version)).reserve_rule;
        assert_eq!(rule("1.0.30"), ReserveRule::Limit);
        assert_eq!(rule("2.1.20"), ReserveRule::Limit);
        assert_eq!(rule("2.1.22"), ReserveRule::Fixed);
        assert_eq!(rule("9.0.0"), ReserveRule::Fixed);
        assert_eq!(rule("unreadable"), ReserveRule::Fixed);
    }

    #[test]
    fn every_agent_is_replayed_under_its_own_rule() {
        let recorded = PolicySet::preset(RECORDED).unwrap();
        let codex = recorded.for_client(Agent::Codex, None);
        assert_eq!((codex.share, codex.reasoning), (Some(90.0), true));
        let limits = WindowLimits::new(codex, "", 272_000, ModelLimits::default());
        assert_eq!(limits.threshold, 244_800);
        let pi = WindowLimits::new(
            recorded.for_client(Agent::Pi, None),
            "",
            200_000,
            ModelLimits::default(),
        );
        assert_eq!(pi.threshold, 200_000 - 16_384);
        let opencode = recorded.for_client(Agent::OpenCode, None);
        assert_eq!(
            WindowLimits::new(opencode, "", 200_000, ModelLimits::of_output(64_000)).threshold,
            168_000
        );
        assert_eq!(
            WindowLimits::new(opencode, "", 200_000, ModelLimits::of_output(8_000)).threshold,
            192_000
        );
        let never = PolicySet::preset("never").unwrap();
        assert!(
            !never.for_client(Agent::Codex, None).auto,
            "a named policy holds for all agents"
        );
    }

    #[test]
    fn files_differ_from_the_preset_that_they_name() {
        let policies = PolicySet::from_toml("mine.toml", "base = \"never\"\n[window]\nbuffer = 1").unwrap();
        let policy = policies.for_version(None);
        assert!(!policy.auto);
        assert_eq!(policy.buffer, 1);
        assert_eq!(policies.origins["window.buffer"], "mine.toml");
        assert_eq!(policies.origins["switch.auto"], "preset never");
        let error = PolicySet::from_toml("x", "base = \"nevr\"").unwrap_err().to_string();
        assert!(error.contains("did you mean `never`?"), "{error}");
        let error = PolicySet::from_toml("x", "[window]\nbufer = 1")
            .unwrap_err()
            .to_string();
        assert!(error.contains("did you mean `window.buffer`?"), "{error}");
    }
}
