//! Tuning: many policies over one corpus, and what can be concluded from it.
//!
//! [`space`] says which policies, [`score`] what one of them comes to in one session, [`search`] which are tried on how many
//! sessions, [`evidence`] whether a choice holds on sessions it was not made on, [`front`] which are worth choosing between.
//! Everything here takes values and gives values; the pipeline replays side by side.

pub mod evidence;
pub mod front;
pub mod score;
pub mod search;
pub mod settings;
pub mod space;
#[cfg(test)]
mod tests;
