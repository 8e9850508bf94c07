//! From records to sessions: the small form of a log, how it is packed, and how logs become sessions.

pub mod build;
pub mod corpus;
pub mod evidence;
pub mod ids;
mod link;
pub mod log;
pub mod pack;
pub mod thread;
