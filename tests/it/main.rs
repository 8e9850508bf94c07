//! Integration tests: the binary as users run it, and the library where thousands of runs are needed.
//!
//! One test binary. [`fixture`] makes every run hermetic: a home and a cache of its own, an empty environment. The sums that
//! the bundled logs must give are in `corpus/*/expected.json`. A test that needs something not every machine has (a browser,
//! Python, recorded logs, a user who is not root) is `#[ignore]`d with the reason; `.ci/run` runs it where it can.

mod action;
mod agents;
mod answers;
#[cfg(feature = "model")]
mod anthropic;
mod audit;
#[cfg(feature = "parquet")]
mod browser;
mod build_script;
mod cache;
mod check;
mod cli;
mod closed;
mod compare;
mod corpus;
mod counting;
mod determinism;
mod documented;
mod features;
mod files;
mod fixture;
mod garbage;
mod hostile;
mod independent_count;
mod installed;
mod live;
mod memdir;
mod memory;
mod memory_extract;
mod memory_upkeep;
#[cfg(feature = "model")]
mod mock;
mod notes;
mod notescheck;
mod odd_sessions;
#[cfg(target_os = "linux")]
mod opens;
mod overview;
mod parts;
mod policy;
mod recommend;
mod recorded;
mod replay;
mod report;
mod samples;
mod schemas;
mod search;
mod secrets;
mod selection;
#[cfg(feature = "remote")]
mod stores;
mod traced;
mod truncation;
mod tune;
mod validate;
mod verdicts;
