//! The cluster as it is used: processes on loopback.

mod cluster;
mod failures;
mod losses;
mod runs;
