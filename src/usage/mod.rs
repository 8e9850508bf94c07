//! What sessions add up to: calls and costs per session, project and day, budgets, the quality of estimates.

pub mod account;
pub mod budget;
pub mod cells;
pub mod compact;
pub mod models;
pub mod period;
pub mod quality;
pub mod selection;
pub mod session;
pub mod session_rows;
pub mod summary;
pub mod tally;
pub mod title;
