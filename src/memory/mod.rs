//! Long-term memories: what people said in past sessions that will hold in later ones.

pub mod dates;
pub mod extract;
pub mod harvest;
pub mod kinds;
pub mod rules;
pub mod secrets;
pub mod sentences;
