//! From paths to records: discovery, bytes, lines, JSON. The wire format of the logs ends in this folder.
//!
//! `discover` finds logs, `bytes` reads them as whole lines, `walk` takes each line through the fast path
//! (`json` over `skim`) or the slow one (`repair`), and `record` says what is read of it.

#![allow(clippy::disallowed_methods, reason = "logs are found and read here")]

#[allow(unsafe_code, reason = "maps files; see the note at the block")]
pub mod bytes;
pub mod discover;
pub mod json;
pub mod messages;
pub mod record;
pub mod repair;
#[allow(unsafe_code, reason = "vector instructions; see the notes at the blocks")]
pub mod skim;
pub mod texts;
pub mod walk;
