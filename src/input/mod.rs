//! From paths to records: discovery, bytes, lines, JSON. The wire format of the logs ends in this folder.
//!
//! `discover` finds logs, `bytes` reads them as whole lines, `walk` takes each line through the fast path
//! (`json` over `skim`) or the slow one (`repair`), and `record` says what is read of it.

pub mod bytes;
pub mod discover;
pub mod json;
pub mod record;
pub mod repair;
pub mod skim;
pub mod texts;
pub mod walk;
