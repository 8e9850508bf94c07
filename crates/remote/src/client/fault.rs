//! What a store says when something fails, as one line without secrets. Its words are untrusted: a server may answer anything.

use crate::url::visible;
use language::secrets;
use object_store::Error;
use std::sync::OnceLock;
use transcript::bytes::SourceFault;

/// Characters that are kept of what a store says.
const MAX_TEXT: usize = 400;

/// Shorter values of variables are switches, not secrets.
const MIN_SECRET: usize = 8;

/// Returns what a failed request means for a log.
pub(super) fn fault_of(error: &Error) -> SourceFault {
    match error {
        Error::Precondition { .. } | Error::NotModified { .. } => SourceFault::Changed,
        Error::NotFound { .. } => SourceFault::Refused("the object is gone".to_owned()),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            SourceFault::Refused(format!("access was denied: {}", text_of(error)))
        }
        Error::InvalidPath { .. } => SourceFault::Refused(text_of(error)),
        _ => SourceFault::Undelivered(text_of(error)),
    }
}

/// Returns an error and what caused it in one line.
pub(super) fn text_of(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    plain_line(&text)
}

/// Masks what looks like a secret, drops queries of URLs, which may hold signatures, and control characters.
fn plain_line(text: &str) -> String {
    let words = text.split_whitespace().map(|word| match word.split_once('?') {
        Some((address, _)) if address.contains("://") => format!("{address}?..."),
        _ => word.to_owned(),
    });
    let line = words.collect::<Vec<_>>().join(" ");
    let masked = visible(&secrets::mask_text(&mask_known(line, known_secrets())));
    match masked.char_indices().nth(MAX_TEXT) {
        Some((end, _)) => format!("{}...", &masked[..end]),
        None => masked,
    }
}

/// Returns the secrets that stores are opened with. A server may echo what it was sent.
fn known_secrets() -> &'static [String] {
    static SECRETS: OnceLock<Vec<String>> = OnceLock::new();
    SECRETS.get_or_init(|| {
        let is_secret = |name: &str| {
            ["AWS_", "AZURE_", "GOOGLE_"]
                .iter()
                .any(|start| name.starts_with(start))
                && ["SECRET", "KEY", "TOKEN", "SAS", "PASSWORD"]
                    .iter()
                    .any(|part| name.contains(part))
        };
        let found = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            (is_secret(&name) && value.len() >= MIN_SECRET).then_some(value)
        });
        found.collect()
    })
}

fn mask_known(text: String, known: &[String]) -> String {
    known.iter().fold(text, |text, secret| text.replace(secret, "***"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_says_is_one_line_without_secrets() {
        let said = "403 Forbidden: <Error>\n <Key>AKIAIOSFODNN7EXAMPLQ</Key>\u{1b}[2J GET https://host/b/k?sig=c2VjcmV0&se=1 x";
        let line = plain_line(said);
        assert!(!line.contains('\n') && !line.contains('\u{1b}'), "{line}");
        assert!(
            !line.contains("sig=") && line.contains("https://host/b/k?..."),
            "{line}"
        );
        assert!(!line.contains("AKIAIOSFODNN7EXAMPLQ"), "{line}");
        assert!(plain_line(&"long ".repeat(1000)).chars().count() <= MAX_TEXT + 3);
    }

    #[test]
    fn what_a_store_was_opened_with_is_masked() {
        let known = ["not-a-pattern-at-all".to_owned()];
        let masked = mask_known("you sent not-a-pattern-at-all!".to_owned(), &known);
        assert_eq!(masked, "you sent ***!");
    }

    #[test]
    fn failures_that_pass_are_told_from_those_that_stay() {
        let source = || Box::<dyn std::error::Error + Send + Sync>::from("said");
        let path = String::new;
        let denied = Error::PermissionDenied {
            path: path(),
            source: source(),
        };
        let changed = Error::Precondition {
            path: path(),
            source: source(),
        };
        let other = Error::Generic {
            store: "S3",
            source: source(),
        };
        assert!(matches!(fault_of(&denied), SourceFault::Refused(_)));
        assert_eq!(fault_of(&changed), SourceFault::Changed);
        assert!(matches!(fault_of(&other), SourceFault::Undelivered(text) if text.contains("said")));
    }
}
