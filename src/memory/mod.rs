//! Long-term memories: what people said in past sessions that will hold in later ones.

pub mod dates;
pub mod kinds;
pub mod secrets;
