//! The `backcast` program: reads the session logs of coding agents and reports what happened in them.
//!
//! [`run`] finds, reads and caches logs and rebuilds sessions; [`usage`] adds them up; [`views`] holds the rows, columns and
//! documents of each verb; [`commands`] has one file per verb; [`page`] is the HTML page. The crates under `crates/` do the
//! rest: `transcript` reads, `replay` simulates, `memory` and `notes` write, `table` prints, `language` knows text.

// What holds for the library and not for tests, benchmarks, examples and the binary; the rest is in Cargo.toml.
#![cfg_attr(
    not(test),
    warn(
        // The middle is pure: clippy.toml says what it may not call, and why.
        clippy::disallowed_methods,
        // Bad input is data, so nothing may end the run over it.
        clippy::unwrap_used,
        clippy::expect_used,
        // Results leave through `output`, everything else is a problem that the commands print.
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
// Bytes are mapped in `input::bytes` and skimmed in `input::skim`; nothing else needs it.
#![deny(unsafe_code)]

pub mod cli;
pub mod commands;
pub mod page;
pub mod run;
pub mod usage;
pub mod views;
