//! The wire to a model server: keys, timeouts and failures. [`Client`] sends; in a build without the `model` feature it
//! cannot be made.

#[cfg_attr(not(feature = "model"), path = "client/absent.rs")]
mod http;

pub use http::{Client, parse_base_url};

use crate::model::stream::AnswerFault;
use std::fmt;
use std::time::Duration;

/// What a build without the `model` feature says when a model is asked for.
pub const NO_CLIENT: &str = "this build has no network client; build it with `cargo install --path . --features model`";

/// Whether this build has a network client.
pub const HAS_CLIENT: bool = cfg!(feature = "model");

/// What opens the API.
#[derive(Clone, PartialEq, Eq)]
pub enum ApiKey {
    /// Sent as `x-api-key`.
    Api(String),
    /// Sent as `authorization: Bearer`.
    Bearer(String),
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(hidden)")
    }
}

impl ApiKey {
    #[cfg_attr(not(feature = "model"), allow(dead_code, reason = "only the HTTP client calls it"))]
    pub(super) fn text(&self) -> &str {
        match self {
            ApiKey::Api(text) | ApiKey::Bearer(text) => text,
        }
    }
}

/// How long to wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// For a connection.
    pub connect: Duration,
    /// For an answer to begin, and between two pieces of it.
    pub idle: Duration,
    /// For all of an answer.
    pub whole: Duration,
}

/// Why no client could be made.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// Not an address.
    #[error("{0} is not an address of a server")]
    BadUrl(String),
    /// The key would go over the wire for all to read.
    #[error("{0}: only https, or http on this machine, so that nobody else reads the key and the texts")]
    NotSafe(String),
    /// An address with a name and a password, or with a query.
    #[error("the address of the server must have no user, password, query or fragment")]
    NotPlain,
    /// There is no key.
    #[error("ANTHROPIC_API_KEY is not set\n  hint: the key is taken from the environment only; --estimate needs none")]
    NoKey,
    /// The key cannot be sent.
    #[error("the key in the environment holds characters that no key has")]
    BadKey,
    /// The build has no HTTP client.
    #[error("{NO_CLIENT}")]
    NoClient,
    /// The HTTP client could not be made.
    #[error("no HTTP client: {0}")]
    Http(String),
}

/// How a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// No connection: nothing was sent.
    #[error("no connection: {0}")]
    Connect(String),
    /// The server said no.
    #[error("the server answered {status}{}: {message}", if .kind.is_empty() { String::new() } else { format!(" ({kind})") })]
    Status {
        /// HTTP status.
        status: u16,
        /// Kind of error, as the API names it.
        kind: String,
        /// In words.
        message: String,
        /// When to try again, if the server says so.
        retry_after: Option<Duration>,
    },
    /// Nothing came for too long.
    #[error("no answer within {0} seconds")]
    TimedOut(u64),
    /// The connection broke after the request was sent.
    #[error("the connection broke: {0}")]
    Broken(String),
    /// What came is no answer.
    #[error("{0}")]
    Answer(#[from] AnswerFault),
}

impl RequestFailure {
    /// Whether it is worth another try: the server was busy or out of reach, or an answer was lost on its way.
    pub fn is_transient(&self) -> bool {
        match self {
            RequestFailure::Connect(_)
            | RequestFailure::TimedOut(_)
            | RequestFailure::Broken(_)
            | RequestFailure::Answer(AnswerFault::CutOff) => true,
            RequestFailure::Status { status, .. } => matches!(status, 408 | 429 | 500..=599),
            RequestFailure::Answer(AnswerFault::Error { kind, .. }) => {
                matches!(
                    kind.as_str(),
                    "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error"
                )
            }
            RequestFailure::Answer(_) => false,
        }
    }

    /// Whether the server cannot have written anything that is paid for.
    pub fn is_unbilled(&self) -> bool {
        matches!(self, RequestFailure::Connect(_) | RequestFailure::Status { .. })
    }

    /// Whether every other request would fail the same way.
    pub fn is_fatal(&self) -> bool {
        matches!(self, RequestFailure::Status { status, .. } if matches!(status, 300..=399 | 401 | 403 | 404))
            || matches!(self, RequestFailure::Connect(_))
    }

    /// When to try again, if the server says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            RequestFailure::Status { retry_after, .. } => *retry_after,
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_failures_pass() {
        let status = |status| RequestFailure::Status {
            status,
            kind: String::new(),
            message: String::new(),
            retry_after: None,
        };
        for passing in [429, 500, 502, 503, 529] {
            assert!(status(passing).is_transient(), "{passing}");
        }
        for lasting in [301, 400, 401, 403, 404, 413, 422] {
            assert!(!status(lasting).is_transient(), "{lasting}");
        }
        assert!(
            RequestFailure::Connect(String::new()).is_transient()
                && RequestFailure::Answer(AnswerFault::CutOff).is_transient()
        );
        assert!(!RequestFailure::Answer(AnswerFault::TooLarge(1)).is_transient());
        assert!(!RequestFailure::TimedOut(1).is_unbilled() && status(529).is_unbilled());
    }
}
