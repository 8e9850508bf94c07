//! The closed loop as an interval: sessions with a smaller window may need more calls.
//!
//! An open-loop replay keeps the recorded calls. In published runs (The Complexity Trap, arXiv 2508.21433, 10,137 runs of
//! SWE-bench Verified) agents with a smaller window made more turns, or as many. `cargo run --example stretch` fits
//! `STRETCH_RATE` to the paired settings of that study.

/// Growth of the number of calls with the share of the window that is taken away: calls grow by `exp(rate * share)`.
const STRETCH_RATE: f64 = 0.44;

/// Below this share of the present mean window no saving is claimed: solved tasks fell in several settings.
pub const LEAST_WINDOW: f64 = 0.5;

/// Returns how many times the calls of an unlimited window a session makes whose mean window is `window`, as in published
/// runs. `unlimited` is the mean window without any compaction.
pub fn stretch(window: f64, unlimited: f64) -> f64 {
    if unlimited <= 0.0 {
        return 1.0;
    }
    let taken = 1.0 - (window / unlimited).clamp(0.0, 1.0);
    (STRETCH_RATE * taken).exp()
}

/// Returns the share of cost saved if calls stretch, given the share saved with the same calls and both mean windows.
pub fn stretched_saving(saved: f64, window: f64, present: f64, unlimited: f64) -> f64 {
    1.0 - (1.0 - saved) * stretch(window, unlimited) / stretch(present, unlimited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_smaller_window_makes_more_calls() {
        assert!((stretch(100.0, 100.0) - 1.0).abs() < 1e-12);
        assert!((stretch(50.0, 100.0) - (STRETCH_RATE * 0.5).exp()).abs() < 1e-12);
        assert!((stretch(200.0, 100.0) - 1.0).abs() < 1e-12, "never below one");
        assert!((stretch(1.0, 0.0) - 1.0).abs() < 1e-12, "no calls");
    }

    #[test]
    fn the_same_window_saves_the_same() {
        assert!((stretched_saving(0.1, 80.0, 80.0, 100.0) - 0.1).abs() < 1e-12);
        let less = stretched_saving(0.1, 60.0, 80.0, 100.0);
        assert!((less - (1.0 - 0.9 * (STRETCH_RATE * 0.2).exp())).abs() < 1e-12);
    }
}
