//! URLs of objects. They are typed by the user or come in a list, so they are checked, and never hold credentials.

use std::fmt;
use std::path::{Path, PathBuf};

/// The kinds of stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// S3, and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Gcs,
    /// Azure Blob Storage.
    Azure,
}

impl Scheme {
    const ALL: [Scheme; 3] = [Scheme::S3, Scheme::Gcs, Scheme::Azure];

    /// Returns what URLs start with.
    pub fn prefix(self) -> &'static str {
        match self {
            Scheme::S3 => "s3://",
            Scheme::Gcs => "gs://",
            Scheme::Azure => "az://",
        }
    }

    /// Returns the most usual variables that credentials come from.
    pub fn variables(self) -> &'static str {
        match self {
            Scheme::S3 => {
                "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN, AWS_REGION, AWS_ENDPOINT, or AWS_SKIP_SIGNATURE=true for a public bucket"
            }
            Scheme::Gcs => "GOOGLE_SERVICE_ACCOUNT or GOOGLE_APPLICATION_CREDENTIALS",
            Scheme::Azure => {
                "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_KEY, AZURE_STORAGE_ENDPOINT"
            }
        }
    }
}

/// A bucket and what is meant in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectUrl {
    /// The kind of store.
    pub scheme: Scheme,
    /// The bucket, or the container.
    pub bucket: String,
    /// Name or beginning of names, without slashes at its ends; empty for the whole bucket. May be a pattern.
    pub key: String,
}

/// A URL that cannot be used. What is behind the scheme is not repeated where it may hold a secret.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UrlError {
    /// No bucket.
    #[error("{0}BUCKET/NAME: no bucket is named")]
    NoBucket(&'static str),
    /// A user name, a password or a query.
    #[error(
        "{0}...: a URL of a bucket holds no credentials and no query\n  hint: credentials come from the environment"
    )]
    Credentials(&'static str),
    /// The name of the bucket.
    #[error("{0}{1}: not the name of a bucket")]
    Bucket(&'static str, String),
    /// The name of the object.
    #[error("{0}{1}: names of objects are UTF-8, without control characters and without empty, `.` or `..` segments")]
    Key(&'static str, String),
}

/// Whether a path is the URL of an object or of a bucket.
pub fn is_object_url(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    Scheme::ALL
        .iter()
        .any(|scheme| bytes.starts_with(scheme.prefix().as_bytes()))
}

impl ObjectUrl {
    /// Reads a URL that [`is_object_url`] recognizes.
    pub fn parse(path: &Path) -> Result<ObjectUrl, UrlError> {
        let text = path.to_string_lossy();
        let scheme = Scheme::ALL.into_iter().find(|scheme| text.starts_with(scheme.prefix()));
        let scheme = scheme.unwrap_or(Scheme::S3);
        let prefix = scheme.prefix();
        let rest = text.strip_prefix(prefix).unwrap_or_default();
        let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(UrlError::NoBucket(prefix));
        }
        if bucket.contains(['@', ':', '?']) {
            return Err(UrlError::Credentials(prefix));
        }
        if !bucket.chars().all(|c| c.is_ascii_alphanumeric() || "-._$".contains(c)) {
            return Err(UrlError::Bucket(prefix, visible(bucket)));
        }
        let key = key.strip_suffix('/').unwrap_or(key);
        if path.to_str().is_none() || !(key.is_empty() || is_plain_key(key)) {
            return Err(UrlError::Key(prefix, visible(rest)));
        }
        Ok(ObjectUrl {
            scheme,
            bucket: bucket.to_owned(),
            key: key.to_owned(),
        })
    }

    /// Returns the URL of another name in the bucket.
    pub fn path_of(&self, key: &str) -> PathBuf {
        PathBuf::from(format!("{}{}/{key}", self.scheme.prefix(), self.bucket))
    }
}

impl fmt::Display for ObjectUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}{}", self.scheme.prefix(), self.bucket)?;
        match self.key.as_str() {
            "" => Ok(()),
            key => write!(out, "/{key}"),
        }
    }
}

/// Whether a name can be asked for and shown as it is. Another one could name a second object once it is shortened, or leave
/// the folder that something is written to.
pub(crate) fn is_plain_key(key: &str) -> bool {
    let is_plain = |segment: &str| !matches!(segment, "" | "." | "..");
    key.split('/').all(is_plain) && !key.chars().any(char::is_control)
}

/// Returns a text without its control characters.
pub(crate) fn visible(text: &str) -> String {
    let shown = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(shown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<ObjectUrl, UrlError> {
        assert!(is_object_url(Path::new(text)), "{text}");
        ObjectUrl::parse(Path::new(text))
    }

    #[test]
    fn a_url_has_a_bucket_and_a_name() {
        let url = parse("s3://team-logs/2026/a b.jsonl").unwrap();
        assert_eq!((url.bucket.as_str(), url.key.as_str()), ("team-logs", "2026/a b.jsonl"));
        assert_eq!(url.to_string(), "s3://team-logs/2026/a b.jsonl");
        assert_eq!(url.path_of("x.jsonl"), Path::new("s3://team-logs/x.jsonl"));
        for whole in ["gs://b", "gs://b/"] {
            assert_eq!(parse(whole).unwrap().key, "");
        }
        assert_eq!(parse("az://$web/logs/").unwrap().key, "logs");
        assert_eq!(parse("s3://b/**/*.jsonl").unwrap().key, "**/*.jsonl");
        for path in ["s3:/b", "logs/s3://b", "https://b/x", "S3://b", ""] {
            assert!(!is_object_url(Path::new(path)), "{path}");
        }
    }

    #[test]
    fn a_url_that_cannot_be_meant_is_refused() {
        for text in ["s3://", "s3:///x"] {
            assert!(matches!(parse(text), Err(UrlError::NoBucket(_))), "{text}");
        }
        for text in ["s3://b ucket/x", "s3://b\u{1b}[2J/x", "az://ü/x"] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, UrlError::Bucket(..)), "{text}");
            assert!(!error.to_string().contains('\u{1b}'));
        }
        for text in [
            "s3://b/a//b",
            "s3://b/../b",
            "s3://b/a/./b",
            "s3://b//a",
            "s3://b/a\n.jsonl",
            "s3://b/a//",
        ] {
            assert!(matches!(parse(text), Err(UrlError::Key(..))), "{text}");
        }
    }

    #[test]
    fn a_secret_in_a_url_is_not_repeated() {
        for text in [
            "s3://AKIAEXAMPLE:hunter2@b/x",
            "s3://b?token=hunter2",
            "az://hunter2@account/x",
        ] {
            let error = parse(text).unwrap_err();
            assert!(matches!(error, UrlError::Credentials(_)), "{text}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }
}
