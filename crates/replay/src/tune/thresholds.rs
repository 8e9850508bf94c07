//! The default sweep: thresholds in tokens, from low to what the window allows, denser where sessions live.

use crate::quantile::quantile;

/// The sweep starts here, and is widened downwards if the best threshold is the lowest one.
const LOWEST: u64 = 60_000;

/// Below this the system prompt and tools alone fill the window.
const FLOOR: u64 = 30_000;

/// Windows above this are swept with wider steps.
const FINE_UP_TO: u64 = 200_000;

/// How much wider those steps are.
const WIDE: u64 = 5;

/// Returns the thresholds to try, in order: multiples of `step` below `usual`, the largest threshold in force. Between
/// the lower quarter and the upper tenth of the sessions' largest contexts, `peaks`, steps are half as wide.
pub fn default_thresholds(usual: u64, peaks: &[u64], step: u64) -> Vec<u64> {
    let mut sorted = peaks.iter().copied().filter(|peak| *peak > LOWEST).collect::<Vec<_>>();
    sorted.sort_unstable();
    let dense = quantile(&sorted, 0.25).zip(quantile(&sorted, 0.9));
    let mut thresholds = Vec::new();
    let mut at = LOWEST.next_multiple_of(step);
    while at < usual {
        thresholds.push(at);
        let width = if at < FINE_UP_TO { step } else { step * WIDE };
        let half = at + width / 2;
        if width >= 2 && half < usual && dense.is_some_and(|(low, high)| (low..=high).contains(&half)) {
            thresholds.push(half);
        }
        at += width;
    }
    thresholds
}

/// Returns the thresholds that widen a sweep downwards, at most three; empty if it cannot be widened.
pub fn lower_thresholds(lowest: u64, step: u64) -> Vec<u64> {
    let below = (1..=3).filter_map(|number| lowest.checked_sub(number * step));
    let mut thresholds = below.filter(|threshold| *threshold >= FLOOR).collect::<Vec<_>>();
    thresholds.reverse();
    thresholds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_half_as_wide_where_sessions_live() {
        assert_eq!(
            default_thresholds(100_000, &[], 10_000),
            [60_000, 70_000, 80_000, 90_000]
        );
        let peaks = [20_000, 72_000, 80_000, 88_000];
        let dense = [60_000, 70_000, 75_000, 80_000, 85_000, 90_000];
        assert_eq!(default_thresholds(100_000, &peaks, 10_000), dense);
        assert!(default_thresholds(50_000, &peaks, 10_000).is_empty());
    }

    #[test]
    fn large_windows_have_wide_steps_above_200k() {
        let thresholds = default_thresholds(967_000, &[], 10_000);
        assert_eq!(thresholds.len(), 30);
        assert!(thresholds.ends_with(&[850_000, 900_000, 950_000]));
    }

    #[test]
    fn a_sweep_is_widened_down_to_the_floor() {
        assert_eq!(lower_thresholds(60_000, 10_000), [30_000, 40_000, 50_000]);
        assert_eq!(lower_thresholds(40_000, 10_000), [30_000]);
        assert!(lower_thresholds(30_000, 10_000).is_empty());
    }
}
