//! Reads session logs of coding agents: from paths to conversations.
//!
//! The pipeline, in order:
//!
//! * [`discover`] finds logs and [`bytes`] reads them as whole lines;
//! * [`agents`] recognizes the agent and translates the lines of all agents but Claude Code;
//! * [`walk`] parses each line by the fast path ([`json`] on top of [`skim`]) or the slow one ([`repair`]);
//! * [`record`] defines what is read of a line;
//! * [`build`] turns records into a [`log::Log`] (ids, links, sizes and counts, no text), and [`pack`] is its compact
//!   form;
//! * [`corpus`] decides which logs make up which session, and [`thread`] rebuilds the conversation.
//!
//! [`messages`] reads text where text is needed. [`problem`] lists what was wrong with the input; [`parallel`] owns the
//! threads.

#![cfg_attr(
    not(test),
    warn(
        // No files, clock or environment except where allowed below; clippy.toml lists the functions, with reasons.
        clippy::disallowed_methods,
        // Bad input is data and must never cause a panic.
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::print_stdout,
        clippy::print_stderr,
    )
)]
// Only `bytes` (memory maps) and `skim` (SIMD) need it.
#![deny(unsafe_code)]

#[macro_use]
mod coded_enum;

pub mod agents;
pub mod build;
#[allow(unsafe_code, reason = "maps files; see the SAFETY comment at the block")]
#[allow(clippy::disallowed_methods, reason = "reads files and their age")]
pub mod bytes;
pub mod corpus;
#[allow(clippy::disallowed_methods, reason = "reads folders")]
pub mod discover;
pub mod ids;
pub mod json;
pub mod line_hashes;
mod linker;
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
pub mod split;
mod text_visitor;
pub mod thread;
mod timestamp;
pub mod tools;
pub mod walk;
