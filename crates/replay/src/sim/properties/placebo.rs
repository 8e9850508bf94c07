//! Values that cannot matter under a policy change nothing: not one event of any replay.

use super::generate::{policy_strategy, trace_strategy};
use super::run;
use crate::policy::{KEYS, Policy, PolicyKey};
use crate::sim::ReplayMode;
use proptest::prelude::*;
use toml::Value;

/// Settings that switch a mechanism off, the beginning of the names of values that cannot matter then, and exceptions.
type Placebo = (&'static [&'static str], &'static str, &'static [&'static str]);

const PLACEBOS: &[Placebo] = &[
    (&["notes.on=false"], "notes.", &["notes.on"]),
    (&["switch.auto=false"], "notes.", &[]),
    (&["extract.on=false"], "extract.", &["extract.on"]),
    (&["recall.on=false"], "recall.", &["recall.on"]),
    (&["switch.micro=false"], "micro.", &["micro.placeholder"]),
    (&["micro.gap.on=false"], "micro.gap.", &["micro.gap.on"]),
    (&["micro.cached.on=false"], "micro.cached.", &["micro.cached.on"]),
    (
        &["micro.budget.on=false", "micro.target.on=false"],
        "micro.budget.",
        &["micro.budget.on"],
    ),
    (&["micro.target.on=false"], "micro.target.", &["micro.target.on"]),
    (&["micro.api.on=false"], "micro.api.", &["micro.api.on"]),
    (&["notes.compact=false"], "notes.keep", &[]),
    (&["notes.compact=false"], "notes.restore", &[]),
    (&["compact.autonomous=false"], "compact.autonomous_", &[]),
    (&["failure.rate=0.0", "compact.fallback_rate=0.0"], "failure.seed", &[]),
    (&["restore.files=0"], "restore.file", &["restore.files"]),
    (&["restore.large=\"cut\""], "restore.reference", &[]),
    (&["switch.compaction=false"], "restore.", &[]),
    (&["switch.compaction=false"], "failure.", &[]),
    (&[], "dream.", &[]),
    (&[], "memory.", &[]),
];

/// Returns the value of a key as something else that the key accepts; `None` if there is nothing else.
fn changed(policy: &Policy, key: &PolicyKey) -> Option<Policy> {
    let words = [
        "fixed",
        "learned",
        "all",
        "plan",
        "cut",
        "skip",
        "from",
        "1h",
        "min",
        "other-model",
    ];
    let candidates = match (key.get)(policy) {
        Value::Boolean(is_on) => vec![Value::Boolean(!is_on)],
        Value::Integer(number) => vec![
            Value::Integer(number + 777),
            Value::Integer(number + 1),
            Value::Integer(1),
        ],
        Value::Float(_) => vec![Value::Float(0.37)],
        Value::Array(_) => vec![Value::Array(Vec::new())],
        _ => words.map(|word| Value::String(word.to_owned())).to_vec(),
    };
    let mut others = candidates.into_iter().filter_map(|value| {
        let mut other = policy.clone();
        other.set(key.name, &value).ok()?;
        (other != *policy).then_some(other)
    });
    others.next()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn values_that_cannot_matter_change_nothing(
        mut trace in trace_strategy(),
        mut policy in policy_strategy(),
        placebo in proptest::sample::select(PLACEBOS),
        which in any::<proptest::sample::Index>(),
    ) {
        // A boundary that was copied from another session happens whatever the policy says.
        trace.recorded.iter_mut().for_each(|boundary| boundary.is_copied = false);
        let (settings, prefix, exceptions) = placebo;
        for setting in settings {
            policy.assign(setting).unwrap();
        }
        let keys = KEYS.iter().filter(|key| key.name.starts_with(prefix) && !exceptions.contains(&key.name));
        let keys = keys.collect::<Vec<_>>();
        let key = keys[which.index(keys.len())];
        let Some(other) = changed(&policy, key) else { return Ok(()) };
        let one = run(&trace, &policy, ReplayMode::Free, |_| Ok(()))?;
        let two = run(&trace, &other, ReplayMode::Free, |_| Ok(()))?;
        prop_assert_eq!(one, two, "{} matters although {:?}", key.name, settings);
    }
}

#[test]
fn every_placebo_has_values() {
    for (_, prefix, exceptions) in PLACEBOS {
        let keys = KEYS
            .iter()
            .filter(|key| key.name.starts_with(prefix) && !exceptions.contains(&key.name));
        assert!(keys.count() > 0, "{prefix}");
    }
}
