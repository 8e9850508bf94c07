//! The pure core: it sizes sessions in tokens, replays them under compaction policies, and scores and tunes those
//! policies. It reads no files, no clock and no environment, and starts no threads: every function maps values to values.
//!
//! [`tokens`] sizes blocks and keeps the token ledger, [`prices`] turns usage into dollars, [`policy`] declares every
//! policy value, [`windows`] infers context windows, [`sim`] replays a trace and emits events, [`audit`] reads recorded boundaries and scores predictions
//! against them, [`tune`] sweeps policies.

#![cfg_attr(
    not(test),
    warn(
        // Keeps the crate pure: clippy.toml lists the forbidden calls with reasons.
        clippy::disallowed_methods,
        // Bad input is data, so no code here may panic on it.
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
#![deny(unsafe_code)]

#[macro_use]
mod named;

pub mod audit;
pub mod policy;
pub mod prices;
pub mod quantile;
pub mod sim;
pub mod tokens;
pub mod tune;
pub mod windows;
