//! The pure middle: sizes sessions, replays them under policies, scores and tunes. No files, no clock, no threads, no
//! environment; values in, values out.
//!
//! [`tokens`] sizes blocks and keeps the ledger, [`prices`] turns usage into dollars, [`policy`] declares every value,
//! [`sim`] replays a trace and emits events, [`audit`] reads recorded boundaries and scores predictions against them,
//! [`tune`] sweeps policies.

#![cfg_attr(
    not(test),
    warn(
        // Pure: clippy.toml lists what may not be called here, and why.
        clippy::disallowed_methods,
        // Bad input is data, so nothing may panic over it.
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
#![deny(unsafe_code)]

pub mod audit;
pub mod policy;
pub mod prices;
pub mod quantile;
pub mod sim;
pub mod tokens;
pub mod tune;
