//! Levels of a window: where the client warns, where it compacts, where the API refuses a prompt.

use crate::policy::Policy;
use crate::policy::value::ReserveRule;

/// Output limit of a model that the price table does not list.
const USUAL_OUTPUT_LIMIT: u64 = 32_000;

/// The levels of one window under one policy, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowLimits {
    /// The window itself: the largest prompt that the API accepts.
    pub window: u64,
    /// The window minus the reserve.
    pub effective: u64,
    /// The context at which automatic compaction starts.
    pub threshold: u64,
    /// The context at which the client warns.
    pub warning: u64,
    /// The context at which the client shows an error.
    pub error: u64,
}

impl WindowLimits {
    /// Computes the levels of a window of `window` tokens. `output_limit` is the model's, if known.
    pub fn new(policy: &Policy, model: &str, window: u64, output_limit: Option<u64>) -> WindowLimits {
        let limit = policy.output_limit.or(output_limit).unwrap_or(USUAL_OUTPUT_LIMIT);
        let reserve = match policy.reserve_rule {
            ReserveRule::Fixed => policy.reserve,
            ReserveRule::Min => policy.reserve.min(limit),
            ReserveRule::Max => policy.reserve.max(limit),
            ReserveRule::Limit => limit,
        };
        let smaller = policy.override_models.find(model).or(policy.window_override);
        let used = smaller.map_or(window, |smaller| smaller.min(window));
        let effective = used.saturating_sub(reserve);
        let usual = match policy.share {
            Some(share) => (used as f64 * share / 100.0).floor() as u64,
            None => effective.saturating_sub(policy.buffer),
        };
        let by_percent = |percent: f64| (effective as f64 * percent / 100.0).floor() as u64;
        let wanted = [policy.percent.map(by_percent), policy.threshold];
        let threshold = wanted.into_iter().flatten().fold(usual, u64::min);
        WindowLimits {
            window,
            effective,
            threshold,
            warning: threshold.saturating_sub(policy.warning),
            error: threshold.saturating_sub(policy.error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::presets::{ClientVersion, PolicySet};

    fn threshold(settings: &[&str], window: u64) -> u64 {
        let mut policy = Policy::default();
        for setting in settings {
            policy.assign(setting).unwrap();
        }
        WindowLimits::new(&policy, "", window, Some(64_000)).threshold
    }

    #[test]
    fn thresholds_of_the_recorded_clients() {
        let recorded = PolicySet::preset("recorded").unwrap();
        let threshold = |version: &str| {
            WindowLimits::new(
                recorded.for_version(ClientVersion::parse(version)),
                "",
                200_000,
                Some(64_000),
            )
            .threshold
        };
        assert_eq!(threshold("2.0.65"), 155_000);
        assert_eq!(threshold("2.1.20"), 155_000);
        assert_eq!(threshold("2.1.22"), 167_000);
        assert_eq!(threshold("2.1.42"), 167_000);
    }

    #[test]
    fn the_reserve_follows_its_rule() {
        assert_eq!(threshold(&[], 200_000), 167_000);
        assert_eq!(threshold(&["window.reserve_rule=min"], 200_000), 167_000);
        assert_eq!(threshold(&["window.reserve_rule=max"], 200_000), 123_000);
        assert_eq!(threshold(&["window.reserve_rule=limit"], 200_000), 123_000);
        assert_eq!(
            threshold(&["window.reserve_rule=limit", "window.output_limit=32000"], 200_000),
            155_000
        );
    }

    #[test]
    fn overrides_can_only_lower() {
        assert_eq!(threshold(&["window.percent=50"], 200_000), 90_000);
        assert_eq!(threshold(&["window.percent=100"], 200_000), 167_000);
        assert_eq!(threshold(&["window.threshold=120000"], 200_000), 120_000);
        assert_eq!(threshold(&["window.threshold=120000"], 1_000_000), 120_000);
        assert_eq!(threshold(&["window.threshold=500000"], 200_000), 167_000);
        assert_eq!(threshold(&["window.override=400000"], 1_000_000), 367_000);
        assert_eq!(threshold(&["window.override=400000"], 200_000), 167_000);
        assert_eq!(threshold(&[], 20_000), 0);
    }
}
