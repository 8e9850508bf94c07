//! Levels of a window: where the client warns, where it compacts, where the API refuses a prompt.

use crate::policy::Policy;
use crate::policy::value::ReserveRule;
use crate::prices::Price;

/// Output limit of a model that the price table does not list.
const USUAL_OUTPUT_LIMIT: u64 = 32_000;

/// Limits of a model, as far as the price table knows them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelLimits {
    /// Largest output.
    pub output: Option<u64>,
    /// Whether the input has a limit of its own, smaller than the context: the output takes nothing of it.
    pub has_input_limit: bool,
}

impl ModelLimits {
    /// Returns the limits of a model that may be listed.
    pub fn of(price: Option<&Price>) -> ModelLimits {
        ModelLimits {
            output: price.and_then(|price| price.max_output),
            has_input_limit: price.is_some_and(|price| price.context > price.max_input),
        }
    }

    /// Returns the limits of a model of which only the output is limited.
    pub fn of_output(tokens: u64) -> ModelLimits {
        ModelLimits {
            output: Some(tokens),
            has_input_limit: false,
        }
    }
}

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
    /// Computes the levels of a window of `window` tokens.
    pub fn new(policy: &Policy, model: &str, window: u64, limits: ModelLimits) -> WindowLimits {
        let limit = policy.output_limit.or(limits.output).unwrap_or(USUAL_OUTPUT_LIMIT);
        let reserve = match policy.reserve_rule {
            ReserveRule::Fixed => policy.reserve,
            ReserveRule::Min => policy.reserve.min(limit),
            ReserveRule::Max => policy.reserve.max(limit),
            ReserveRule::Limit => limit,
        };
        let reserve = match policy.input_reserve.filter(|_| limits.has_input_limit) {
            Some(tokens) => tokens.min(reserve),
            None => reserve,
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
        WindowLimits::new(&policy, "", window, ModelLimits::of_output(64_000)).threshold
    }

    #[test]
    fn thresholds_of_the_recorded_clients() {
        let recorded = PolicySet::preset("recorded").unwrap();
        let threshold = |version: &str| {
            WindowLimits::new(
                recorded.for_version(ClientVersion::parse(version)),
                "",
                200_000,
                ModelLimits::of_output(64_000),
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
    fn an_input_limit_has_a_reserve_of_its_own() {
        let mut policy = Policy::default();
        for setting in [
            "window.reserve=32000",
            "window.reserve_rule=min",
            "window.buffer=0",
            "window.input_reserve=20000",
        ] {
            policy.assign(setting).unwrap();
        }
        let threshold = |output: u64, has_input_limit: bool| {
            let limits = ModelLimits {
                output: Some(output),
                has_input_limit,
            };
            WindowLimits::new(&policy, "", 272_000, limits).threshold
        };
        assert_eq!(threshold(128_000, false), 240_000);
        assert_eq!(threshold(128_000, true), 252_000);
        assert_eq!(threshold(8_000, true), 264_000, "never more than the output limit");
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
