//! Long-term memories: statements of users in past sessions that will still be true in later ones.
//!
//! [`memdir`] reads a directory of memories into a [`plan::Snapshot`]; it alone touches files. Changes are planned as values:
//! by [`plan`] from new candidates, by [`dream`] from the directory itself. Then [`memdir`] writes them, with a journal that
//! can undo them. [`recall`], [`prompt`] and [`check`] only read.

pub mod acts;
pub mod change;
pub mod check;
pub mod daily;
pub mod dream;
pub mod extract;
pub mod frontmatter;
pub mod harvest;
pub mod index;
pub mod kinds;
pub mod literals;
pub mod lock;
pub mod memdir;
pub mod names;
mod neighbors;
pub mod place;
pub mod plan;
pub mod projects;
pub mod prompt;
pub mod recall;
pub mod rules;
pub mod search;
pub mod similar;
pub mod topic;
