//! Progress bars on standard error. They are silent where no person is watching.

#![allow(clippy::disallowed_methods, reason = "asks whether standard error is a terminal")]

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressFinish, ProgressStyle};
use std::io::{self, IsTerminal};

/// Returns a bar with bytes, rate and time left.
pub fn progress_bar(total: u64, quiet: bool) -> ProgressBar {
    progress_with_template(total, quiet, "{bytes} of {total_bytes}, {bytes_per_sec}, {eta} left")
}

/// Returns a bar with a text in the template language of `indicatif`.
pub fn progress_with_template(total: u64, quiet: bool, text: &str) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() || std::env::var_os("CI").is_some() {
        return ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::hidden());
    }
    let style =
        ProgressStyle::with_template(&format!("{{bar:30}} {text}")).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(total)
        .with_style(style)
        .with_finish(ProgressFinish::AndClear)
}
