//! How things ended: the final state of every command, edit, question, plan and commit of a session.
//!
//! [`parts`] takes commands apart, and [`intent`] says what each is for, so that a later success of the same intent closes a
//! failure. [`ledger`] keeps what git did. [`background`] closes what went on in the background. [`refusals`] keeps what the
//! user forbade. The digest feeds them; what is rendered is only how things stand at the end.

pub mod background;
pub mod branches;
pub mod commits;
pub mod intent;
pub mod ledger;
pub mod parts;
pub mod refusals;
pub mod working_tree;

/// How something stands at the end of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FinalState {
    /// It was done and nothing contradicts it.
    Done,
    /// It failed and nothing of the same intent succeeded later.
    Failed,
    /// The user refused it and never allowed it later.
    Refused,
    /// Something later took its place.
    Superseded,
    /// It was begun, and the log does not say how it ended.
    Unverified,
    /// It was changed after the last commit that covers it.
    Uncommitted,
}
