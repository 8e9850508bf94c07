//! The space of a sweep: values of some policy keys, in every combination.

use crate::policy;
use crate::policy::presets::PolicySet;
use crate::policy::{PolicyError, PolicyKey};
use toml::Value;

/// A key and the values to try.
pub struct SweepAxis {
    pub key: &'static PolicyKey,
    pub values: Vec<Value>,
}

/// One policy of a sweep: a value for every axis.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPoint {
    /// Keys and values; empty for the policy that the sweep starts from.
    pub settings: Vec<(&'static str, Value)>,
}

/// Returns whether the replay reads this value only when it tries a compaction.
fn is_compaction_only_key(key: &str) -> bool {
    let others = [
        "compact.summary_tokens",
        "compact.scratch",
        "compact.prompt",
        "compact.wrap",
        "notes.keep_tokens",
        "notes.keep_messages",
        "notes.keep_most",
    ];
    key.starts_with("restore.") || others.contains(&key)
}

impl SweepPoint {
    /// Returns whether both points give the same score in a session where no compaction is tried.
    pub fn is_equivalent_without_compaction(&self, other: &SweepPoint) -> bool {
        let early = |point: &SweepPoint| {
            let settings = point.settings.iter().filter(|(key, _)| !is_compaction_only_key(key));
            settings.cloned().collect::<Vec<_>>()
        };
        early(self) == early(other)
    }

    /// Returns the name: its settings in the form that `--set` takes.
    pub fn name(&self) -> String {
        let settings = self.settings.iter().map(|(key, value)| format!("{key}={value}"));
        match self.settings.is_empty() {
            true => "as it is".to_owned(),
            false => settings.collect::<Vec<_>>().join(" "),
        }
    }

    /// Returns the base policies with the settings of this point.
    pub fn policies(&self, base: &PolicySet) -> Result<PolicySet, PolicyError> {
        let mut policies = base.clone();
        for (key, value) in &self.settings {
            policies.assign(&format!("{key}={value}"), "--vary")?;
        }
        Ok(policies)
    }
}

/// Why a space cannot be searched.
#[derive(Debug, thiserror::Error)]
pub enum SpaceError {
    /// A key or value that the policy does not have.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// No values to try.
    #[error("{0}: no values\n  hint: `key=a,b,c` or `key=lo..hi:step`")]
    Empty(String),
    /// A step of 0 or less.
    #[error("{0}: the step must be greater than 0")]
    ZeroStep(String),
    #[error("{0}: the range ends before it begins")]
    Backwards(String),
    /// Not a range.
    #[error("{0}: `{1}` is not a number")]
    NotANumber(String, String),
    /// The same key twice.
    #[error("{0} is varied twice")]
    Twice(&'static str),
    /// More points than allowed.
    #[error(
        "{points} policies are more than {most}\n  hint: fewer values, --search random --points N, or --max-points"
    )]
    TooMany { points: u128, most: u64 },
}

/// Parses `key=a,b,c` or `key=lo..hi:step`, with at most `most` values.
pub fn parse_axis(text: &str, most: u64) -> Result<SweepAxis, SpaceError> {
    let (name, values) = policy::split_assignment(text)?;
    let key = policy::find_key(name)?;
    let values = match values.split_once("..") {
        Some((low, rest)) => parse_range(name, low, rest, most)?,
        None => split_list(values)
            .into_iter()
            .map(|value| policy::parse_value(&value))
            .collect(),
    };
    if values.is_empty() {
        return Err(SpaceError::Empty(name.to_owned()));
    }
    for value in &values {
        let mut policy = policy::Policy::default();
        policy.assign(&format!("{name}={value}"))?;
    }
    Ok(SweepAxis { key, values })
}

/// Splits at commas outside of brackets.
fn split_list(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut values = vec![String::new()];
    for character in text.chars() {
        match character {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        match (character, values.last_mut()) {
            (',', _) if depth == 0 => values.push(String::new()),
            (character, Some(last)) => last.push(character),
            _ => {}
        }
    }
    values
        .into_iter()
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
        .collect()
}

fn parse_range(name: &str, low: &str, rest: &str, most: u64) -> Result<Vec<Value>, SpaceError> {
    let number = |text: &str| {
        let plain = text.trim().replace('_', "");
        plain
            .parse::<f64>()
            .ok()
            .filter(|number| number.is_finite())
            .ok_or_else(|| SpaceError::NotANumber(name.to_owned(), text.to_owned()))
    };
    let (high, step) = rest.split_once(':').unwrap_or((rest, "1"));
    let (first, last, by) = (number(low)?, number(high)?, number(step)?);
    if by <= 0.0 {
        return Err(SpaceError::ZeroStep(name.to_owned()));
    }
    if last < first {
        return Err(SpaceError::Backwards(name.to_owned()));
    }
    let count = ((last - first) / by + 1e-9).floor() + 1.0;
    if count > most as f64 {
        let points = count as u128;
        return Err(SpaceError::TooMany { points, most });
    }
    let is_whole = [first, last, by].iter().all(|number| number.fract() == 0.0);
    let value = |at: u64| {
        let number = first + by * at as f64;
        if is_whole {
            Value::Integer(number as i64)
        } else {
            Value::Float(number)
        }
    };
    Ok((0..count as u64).map(value).collect())
}

/// Returns every combination; the last axis varies fastest.
pub fn grid(axes: &[SweepAxis], most: u64) -> Result<Vec<SweepPoint>, SpaceError> {
    check(axes)?;
    let points = grid_size(axes);
    if points > u128::from(most) {
        return Err(SpaceError::TooMany { points, most });
    }
    Ok((0..points).map(|number| point_at(axes, number)).collect())
}

/// Returns the number of combinations.
pub fn grid_size(axes: &[SweepAxis]) -> u128 {
    axes.iter().map(|axis| axis.values.len() as u128).product()
}

/// Returns up to `wanted` different combinations, picked by the seed, in grid order.
pub fn sample_points(axes: &[SweepAxis], wanted: u64, seed: u64) -> Result<Vec<SweepPoint>, SpaceError> {
    check(axes)?;
    let all = grid_size(axes);
    let wanted = u128::from(wanted).min(all);
    let mut picked = std::collections::BTreeSet::new();
    let mut at = 0_u64;
    while (picked.len() as u128) < wanted {
        let mut text = [0; 16];
        text[..8].copy_from_slice(&seed.to_le_bytes());
        text[8..].copy_from_slice(&at.to_le_bytes());
        picked.insert(xxhash_rust::xxh3::xxh3_128(&text) % all);
        at += 1;
    }
    Ok(picked.into_iter().map(|number| point_at(axes, number)).collect())
}

fn check(axes: &[SweepAxis]) -> Result<(), SpaceError> {
    if axes.is_empty() {
        return Err(SpaceError::Empty("--vary".to_owned()));
    }
    for (at, axis) in axes.iter().enumerate() {
        if axes[..at].iter().any(|other| other.key.name == axis.key.name) {
            return Err(SpaceError::Twice(axis.key.name));
        }
    }
    Ok(())
}

fn point_at(axes: &[SweepAxis], number: u128) -> SweepPoint {
    let mut rest = number;
    let mut settings = Vec::with_capacity(axes.len());
    for axis in axes.iter().rev() {
        let count = axis.values.len() as u128;
        let value = axis.values[(rest % count) as usize].clone();
        settings.push((axis.key.name, value));
        rest /= count;
    }
    settings.reverse();
    SweepPoint { settings }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(text: &str) -> Vec<String> {
        parse_axis(text, 1000)
            .unwrap()
            .values
            .iter()
            .map(Value::to_string)
            .collect()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(values("window.percent=50,60, 70"), ["50", "60", "70"]);
        assert_eq!(
            values("window.buffer=10_000..13_000:1_000"),
            ["10000", "11000", "12000", "13000"]
        );
        assert_eq!(values("estimate.padding=1..1.5:0.25"), ["1.0", "1.25", "1.5"]);
        assert_eq!(values("switch.micro=true,false"), ["true", "false"]);
        assert_eq!(values("compact.variant=whole,from"), ["\"whole\"", "\"from\""]);
        assert_eq!(values("micro.tools=[\"Read\", \"Bash\"],[\"Read\"]").len(), 2);
    }

    #[test]
    fn bad_ranges_are_refused_with_the_reason() {
        let message = |text: &str| {
            parse_axis(text, 1000)
                .err()
                .map(|error| error.to_string())
                .unwrap_or_default()
        };
        assert!(message("window.percent=").contains("no values"));
        assert!(message("window.percent").contains("key=value"));
        assert!(message("window.buffer=1..9:0").contains("greater than 0"));
        assert!(message("window.buffer=9..1").contains("before it begins"));
        assert!(message("window.buffer=1..x").contains("not a number"));
        assert!(message("window.bufer=1..9").contains("did you mean `window.buffer`?"));
        assert!(message("window.percent=50..150:50").contains("at most 100"));
        assert!(message("window.buffer=1..1000000").contains("more than 1000"));
        let twice = [
            parse_axis("window.buffer=1,2", 9).unwrap(),
            parse_axis("window.buffer=3", 9).unwrap(),
        ];
        assert!(grid(&twice, 99).unwrap_err().to_string().contains("varied twice"));
        let many = [
            parse_axis("window.buffer=1..9", 9).unwrap(),
            parse_axis("window.reserve=1..9", 9).unwrap(),
        ];
        assert!(
            grid(&many, 80)
                .unwrap_err()
                .to_string()
                .contains("81 policies are more than 80")
        );
        assert!(grid(&[], 80).is_err());
    }

    #[test]
    fn every_combination_once() {
        let axes = [
            parse_axis("window.buffer=1,2", 9).unwrap(),
            parse_axis("switch.micro=true,false", 9).unwrap(),
        ];
        let names = grid(&axes, 99)
            .unwrap()
            .iter()
            .map(SweepPoint::name)
            .collect::<Vec<_>>();
        assert_eq!(
            names,
            [
                "window.buffer=1 switch.micro=true",
                "window.buffer=1 switch.micro=false",
                "window.buffer=2 switch.micro=true",
                "window.buffer=2 switch.micro=false",
            ]
        );
        let picked = sample_points(&axes, 3, 7).unwrap();
        assert_eq!(picked.len(), 3);
        assert_eq!(picked, sample_points(&axes, 3, 7).unwrap());
        assert_eq!(sample_points(&axes, 9, 7).unwrap().len(), 4);
    }
}
