//! What was recorded at compactions: looked at for itself (`audit`), and held against what a policy predicts (`validate`).

pub mod audit;
pub mod explain;
#[cfg(test)]
mod sample;
pub mod thresholds;
pub mod validate;
