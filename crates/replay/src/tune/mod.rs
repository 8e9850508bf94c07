//! Tuning: replays many policies over one corpus and judges which of them is better.
//!
//! [`space`] enumerates the policies, [`score`] replays one session under one policy, [`search`] decides how many sessions
//! each policy is tried on, [`evidence`] checks whether a choice holds on sessions that it was not made on, [`front`] finds
//! the policies worth choosing between, [`thresholds`] lists what a sweep tries by default, [`stretch`] estimates the closed
//! loop, [`verdict`] decides what to recommend, [`settings`] translates a policy into client settings. The caller replays
//! in parallel.

pub mod agent_settings;
pub mod evidence;
pub mod front;
mod rng;
pub mod score;
pub mod search;
pub mod settings;
pub mod space;
pub mod stretch;
#[cfg(test)]
mod tests;
pub mod thresholds;
pub mod verdict;
