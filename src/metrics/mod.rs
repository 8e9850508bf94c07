//! What sessions add up to: calls and costs, the window, the quality of estimates.

pub mod budget;
pub mod compare;
pub mod cost;
pub mod quality;
pub mod replay;
pub mod report;
pub mod summary;
pub mod usage;
pub mod working_set;
