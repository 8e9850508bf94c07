//! backcast reads the session logs of coding agents and says what really happened in them.
//!
//! The folders are the pipeline: [`input`] finds and parses logs, [`session`] turns records into conversations, [`tokens`]
//! sizes them, [`metrics`] adds them up, [`output`] writes the result. [`pipeline`] runs it side by side on all cores, with
//! the [`cache`]; [`commands`] has one file per verb. `input`, `cache`, `output`, `synth` and `commands` touch the world;
//! what lies between them takes values and gives values.

pub mod cache;
pub mod cli;
pub mod commands;
pub mod input;
pub mod metrics;
pub mod output;
pub mod pipeline;
pub mod problem;
pub mod session;
pub mod synth;
pub mod tokens;
