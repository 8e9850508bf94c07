//! From paths to sessions: finds logs, reads them line by line, and rebuilds conversations.
//!
//! The pipeline, in order: [`discover`] finds logs, [`bytes`] reads them as whole lines, [`walk`] takes each line through
//! the fast path ([`json`] over [`skim`]) or the slow one ([`repair`]), [`record`] says what is read of it, [`build`] turns
//! records into a [`log::Log`] (ids, links, sizes and counts, no text), [`pack`] is its compact form, [`corpus`] says which
//! logs make up which session, and [`thread`] rebuilds the conversation. [`messages`] reads text where text is needed.
//! [`problem`] holds what was wrong with the input; [`parallel`] owns the threads.

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
// Bytes are mapped in `bytes` and skimmed in `skim`; nothing else needs it.
#![deny(unsafe_code)]

#[macro_use]
mod coded_enum;

pub mod build;
#[allow(unsafe_code, reason = "maps files; see the SAFETY comment at the block")]
pub mod bytes;
pub mod corpus;
pub mod discover;
pub mod evidence;
pub mod ids;
pub mod json;
mod link;
pub mod log;
pub mod messages;
pub mod pack;
pub mod parallel;
pub mod paths;
pub mod problem;
pub mod record;
pub mod repair;
#[allow(unsafe_code, reason = "vector instructions; see the SAFETY comments at the blocks")]
pub mod skim;
pub mod texts;
pub mod thread;
mod timestamp;
pub mod walk;
