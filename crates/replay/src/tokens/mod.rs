//! Sizes in tokens: recorded counts, shares of the difference between two recorded counts, and estimates.

pub mod calibrate;
pub mod equation;
pub mod ledger;
pub mod ratios;
pub mod reads;

#[cfg(test)]
mod tests;
