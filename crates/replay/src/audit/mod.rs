//! What was recorded at compactions: looked at for itself (`audit`), and held against what a policy predicts (`validate`).

pub mod boundaries;
pub mod explain;
pub mod first_edits;
#[cfg(test)]
mod sample;
pub mod thresholds;
pub mod validate;
