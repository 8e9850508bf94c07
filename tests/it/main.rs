//! Integration tests: the binary as a person runs it, and the library where thousands of runs are needed.
//!
//! One test binary. [`fixture`] keeps every run away from the machine it runs on: a home of its own, a cache of its own,
//! an empty environment. What the bundled logs must add up to stands in `corpus/*/expected.json`.

mod action;
mod anthropic;
mod audit;
mod browser;
mod build_script;
mod cache;
mod check;
mod checker;
mod cli;
mod compare;
mod corpus;
mod counting;
mod determinism;
mod documented;
mod files;
mod fixture;
mod garbage;
mod hostile;
mod live;
mod memdir;
mod memory;
mod memory_extract;
mod memory_upkeep;
mod mock;
mod notes;
mod odd_sessions;
mod overview;
mod policy;
mod replay;
mod report;
mod samples;
mod search;
mod traced;
mod truncation;
mod tune;
mod validate;
