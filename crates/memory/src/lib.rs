//! Long-term memories: what people said in past sessions that will hold in later ones.
//!
//! A directory of memories is read into a [`plan::Snapshot`] by [`memdir`], which alone touches files. What should change
//! is worked out as values: by [`plan`] from new candidates, by [`dream`] from the directory itself; then [`memdir`]
//! writes it, with a journal that can undo it. [`recall`], [`prompt`] and [`check`] only read.

pub mod change;
pub mod check;
pub mod daily;
pub mod dream;
pub mod echo;
pub mod extract;
pub mod harvest;
pub mod index;
pub mod kinds;
pub mod literals;
pub mod lock;
pub mod memdir;
pub mod names;
pub mod place;
pub mod plan;
pub mod prompt;
pub mod recall;
pub mod rules;
pub mod search;
pub mod similar;
pub mod topic;
