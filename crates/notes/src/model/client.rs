//! The HTTP client of a model server: keys, timeouts and failures. Without the `model` feature, [`Client`] cannot be
//! constructed.

#[cfg_attr(not(feature = "model"), path = "client/absent.rs")]
mod http;

pub use http::{Client, parse_base_url};

use crate::model::stream::AnswerFault;
use std::fmt;
use std::time::Duration;

/// The error of a build without the `model` feature.
pub const NO_CLIENT: &str = "this build has no network client; build it with `cargo install --path . --features model`";

/// Whether this build has a network client.
pub const HAS_CLIENT: bool = cfg!(feature = "model");

/// The key of the API.
#[derive(Clone, PartialEq, Eq)]
pub enum ApiKey {
    /// Sent as `x-api-key`.
    Api(String),
    /// Sent as `authorization: Bearer`.
    Bearer(String),
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(hidden)")
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

/// Timeouts of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Until the connection is made.
    pub connect: Duration,
    /// Until the answer begins, and between two pieces of it.
    pub idle: Duration,
    /// Until the answer is complete.
    pub whole: Duration,
}

/// Why a client cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("{0} is not the URL of a server")]
    BadUrl(String),
    /// The key would be sent unencrypted.
    #[error("{0}: use https, or http on this machine, so that the key and the texts stay private")]
    NotSafe(String),
    #[error("the URL of the server must not have a user, password, query or fragment")]
    NotPlain,
    #[error("ANTHROPIC_API_KEY is not set\n  hint: the key is taken from the environment only; --estimate needs none")]
    NoKey,
    /// The key is not a valid header.
    #[error("the key in the environment contains invalid characters")]
    BadKey,
    #[error("{NO_CLIENT}")]
    NoClient,
    #[error("cannot create the HTTP client: {0}")]
    Http(String),
}

/// Why a request failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestFailure {
    /// No connection, so nothing was sent.
    #[error("no connection: {0}")]
    Connect(String),
    /// The server returned an error.
    #[error("the server answered {status}{}: {message}", if .kind.is_empty() { String::new() } else { format!(" ({kind})") })]
    Status {
        status: u16,
        /// Type of the error in the API.
        kind: String,
        message: String,
        /// Wait that the server asks for, if any.
        retry_after: Option<Duration>,
    },
    /// A timeout, in seconds.
    #[error("no answer within {0} seconds")]
    TimedOut(u64),
    /// The connection broke after the request was sent.
    #[error("the connection was lost: {0}")]
    Broken(String),
    /// The answer is invalid.
    #[error("{0}")]
    Answer(#[from] AnswerFault),
}

impl RequestFailure {
    /// Returns whether a retry may succeed: the server was busy or unreachable, or the answer was cut off.
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

    /// Returns whether the server cannot have billed anything.
    pub fn is_unbilled(&self) -> bool {
        matches!(self, RequestFailure::Connect(_) | RequestFailure::Status { .. })
    }

    /// Returns whether every other request would fail the same way.
    pub fn is_fatal(&self) -> bool {
        matches!(self, RequestFailure::Status { status, .. } if matches!(status, 300..=399 | 401 | 403 | 404))
            || matches!(self, RequestFailure::Connect(_))
    }

    /// Returns the wait that the server asks for, if any.
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
    fn transient_failures() {
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
