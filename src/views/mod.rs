//! What people and programs see of each verb: rows, columns and JSON.

pub mod audit_rows;
pub mod compare_rows;
pub mod events;
pub mod replay_rows;
