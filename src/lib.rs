//! backcast reads the session logs of coding agents and says what really happened in them.
//!
//! The folders are the pipeline: [`input`] finds and parses logs, [`session`] turns records into conversations, [`tokens`]
//! sizes them, [`metrics`] adds them up, [`output`] writes the result. [`pipeline`] runs it side by side on all cores, with
//! the [`cache`]; [`commands`] has one file per verb. `input`, `cache`, `output`, `synth` and `commands` touch the world;
//! what lies between them takes values and gives values.

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
