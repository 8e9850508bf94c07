//! Logs in object stores: S3, Google Cloud Storage and Azure Blob Storage.
//!
//! An object becomes a [`transcript::discover::DiscoveredLog`] whose bytes come from a [`transcript::bytes::ByteSource`], so
//! everything after the search reads it like a file. Its stamp holds its entity tag, and every request asks for that tag: what
//! is read is what was listed, or there is a fault. A fault is never half a log.
//!
//! Without the feature `client`, URLs are recognized, and [`ObjectStores`] cannot be made.

#![allow(clippy::disallowed_methods, reason = "this crate waits for other machines")]

#[cfg_attr(not(feature = "client"), path = "absent.rs")]
mod client;
mod url;

pub use client::{Bucket, ObjectStores};
pub use url::{ObjectUrl, Scheme, UrlError, is_object_url};

use transcript::bytes::SourceFault;

/// The error of a build without the client.
pub const NO_CLIENT: &str =
    "this build cannot read object stores; build it with `cargo install --path . --features remote`";

/// Whether this build has the client.
pub const HAS_CLIENT: bool = cfg!(feature = "client");

/// Why a search or a request failed.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The feature is missing.
    #[error("{NO_CLIENT}")]
    NoClient,
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] UrlError),
    /// Nothing has that name or lies below it.
    #[error("{0}: no such object, and none below it")]
    Missing(String),
    /// The pattern cannot be used.
    #[error(transparent)]
    Pattern(#[from] transcript::discover::DiscoveryError),
    /// The store is set up in a way that does not work.
    #[error("{url}: {reason}\n  hint: credentials and endpoints come from the environment: {variables}")]
    Setup {
        /// What was asked for.
        url: String,
        /// What is wrong.
        reason: String,
        /// The variables that the store looks for.
        variables: &'static str,
    },
    /// The store did not answer, or refused.
    #[error("{url}: {fault}{}", hint_of(fault, variables))]
    Request {
        /// What was asked for.
        url: String,
        /// What the store said.
        fault: SourceFault,
        /// The variables that the store looks for.
        variables: &'static str,
    },
}

fn hint_of(fault: &SourceFault, variables: &str) -> String {
    match fault {
        SourceFault::Refused(_) => format!("\n  hint: credentials come from the environment: {variables}"),
        SourceFault::Undelivered(_) => {
            format!("\n  hint: try again; region, endpoint and credentials come from the environment: {variables}")
        }
        SourceFault::Changed => String::new(),
    }
}

/// An object as it was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedObject {
    /// Its name in the bucket.
    pub key: String,
    /// Its size.
    pub size: u64,
    /// Its entity tag, without quotes; `None` if the store gives none.
    pub tag: Option<String>,
    /// When it was written, in nanoseconds.
    pub modified: i128,
}
