//! How large things are: estimates, recorded counts, and what follows from the difference of two of them.

pub mod calibrate;
pub mod equation;
pub mod ledger;
pub mod ratios;
pub mod reads;

#[cfg(test)]
mod tests;
