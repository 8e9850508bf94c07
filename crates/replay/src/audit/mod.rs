//! Recorded compactions: listed and judged by themselves (`audit`), and compared with what a policy predicts (`validate`).

pub mod boundaries;
pub mod costs;
pub mod explain;
pub mod first_edits;
pub mod misses;
mod reasons;
#[cfg(test)]
pub(crate) mod sample;
pub mod thresholds;
pub mod totals;
pub mod validate;
