//! Names in listings. The client refuses a whole page of a listing if one name on it has an empty or relative segment or a
//! control character, and it shortens names that start or end with a slash to those of other objects. Anyone who may write to
//! a bucket could stop every run that way, so such entries are taken out of the page before the client reads it.

use crate::url::{is_plain_key, visible};
use async_trait::async_trait;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
    ReqwestConnector,
};
use std::borrow::Cow;
use std::sync::{Arc, Mutex, PoisonError};

/// Names that are remembered of those left out.
const MAX_LEFT_OUT: usize = 1000;

/// How entries of a listing start and end, and the name in them: S3 and Google, then Azure.
const ENTRIES: [[&str; 3]; 2] = [["<Contents>", "</Contents>", "Key"], ["<Blob>", "</Blob>", "Name"]];

/// The elements that listings are.
const ROOTS: [&str; 2] = ["<ListBucketResult", "<EnumerationResults"];

/// Makes clients that look at listings, and remembers what it left out.
#[derive(Debug, Clone, Default)]
pub(super) struct NameFilter {
    left_out: Arc<Mutex<Vec<String>>>,
}

impl NameFilter {
    /// Returns the names that were left out since the last call.
    pub fn take_left_out(&self) -> Vec<String> {
        std::mem::take(&mut *self.left_out.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpConnector for NameFilter {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(FilteredService {
            client: ReqwestConnector::default().connect(options)?,
            names: self.clone(),
        }))
    }
}

#[derive(Debug)]
struct FilteredService {
    client: HttpClient,
    names: NameFilter,
}

#[async_trait]
impl HttpService for FilteredService {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let query = request.uri().query().unwrap_or_default();
        let is_listing = query.split('&').any(|part| matches!(part, "list-type=2" | "comp=list"));
        let response = self.client.execute(request).await?;
        if !is_listing || !response.status().is_success() {
            return Ok(response);
        }
        let (parts, body) = response.into_parts();
        // Nothing was handed on yet: the client may ask again.
        let ended = |error| HttpError::new(HttpErrorKind::Interrupted, error);
        let page = body.bytes().await.map_err(ended)?;
        let body = match std::str::from_utf8(&page) {
            // The client takes whatever it can for an empty listing.
            Ok(text) if !ROOTS.iter().any(|root| text.contains(root)) => {
                let error = std::io::Error::other("the answer is no listing: is the endpoint that of an object store?");
                return Err(HttpError::new(HttpErrorKind::Decode, error));
            }
            Ok(text) => {
                let (kept, left_out) = keep_plain_names(text);
                let mut all = self.names.left_out.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_LEFT_OUT.saturating_sub(all.len());
                all.extend(left_out.into_iter().take(room));
                match kept {
                    Cow::Borrowed(_) => HttpResponseBody::from(page),
                    Cow::Owned(kept) => HttpResponseBody::from(kept),
                }
            }
            // The client says what is wrong with it.
            Err(_) => HttpResponseBody::from(page),
        };
        Ok(HttpResponse::from_parts(parts, body))
    }
}

/// Takes entries out of a page whose names cannot be asked for. Returns the page and these names, without control characters.
fn keep_plain_names(page: &str) -> (Cow<'_, str>, Vec<String>) {
    let Some([start, end, tag]) = ENTRIES.into_iter().find(|[start, _, _]| page.contains(start)) else {
        return (Cow::Borrowed(page), Vec::new());
    };
    let (mut kept, mut left_out, mut copied, mut at) = (String::new(), Vec::new(), 0, 0);
    while let Some(from) = page[at..].find(start).map(|found| at + found) {
        let Some(to) = page[from..].find(end).map(|found| from + found + end.len()) else {
            break;
        };
        if let Some(name) = name_in(&page[from..to], tag)
            && !is_plain_key(&name)
        {
            kept.push_str(&page[copied..from]);
            copied = to;
            left_out.push(visible(&name));
        }
        at = to;
    }
    if copied == 0 {
        return (Cow::Borrowed(page), left_out);
    }
    kept.push_str(&page[copied..]);
    (Cow::Owned(kept), left_out)
}

/// Returns the name in an entry.
fn name_in<'p>(entry: &'p str, tag: &str) -> Option<Cow<'p, str>> {
    let opened = entry.find(&format!("<{tag}"))?;
    let start = opened + entry[opened..].find('>')? + 1;
    let length = entry[start..].find(&format!("</{tag}>"))?;
    Some(unescape(&entry[start..start + length]))
}

/// Replaces the references of XML by what they stand for.
fn unescape(text: &str) -> Cow<'_, str> {
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(start) = rest.find('&') {
        out.push_str(&rest[..start]);
        rest = &rest[start..];
        let known = rest
            .find(';')
            .and_then(|end| Some((reference(&rest[1..end])?, end + 1)));
        let (character, length) = known.unwrap_or(('&', 1));
        out.push(character);
        rest = &rest[length..];
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn reference(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => number.parse(),
            };
            char::from_u32(code.ok()?)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(keys: &[&str]) -> String {
        let entry = |key: &&str| format!("<Contents><Key>{key}</Key><Size>1</Size></Contents>");
        let entries = keys.iter().map(entry).collect::<String>();
        format!("<ListBucketResult><Name>b//c</Name>{entries}<IsTruncated>false</IsTruncated></ListBucketResult>")
    }

    #[test]
    fn a_page_of_plain_names_stays_as_it_is() {
        let all = page(&["a.jsonl", "p/b &amp; c.jsonl", "p/..x/...jsonl"]);
        let (kept, left_out) = keep_plain_names(&all);
        assert!(matches!(kept, Cow::Borrowed(_)) && left_out.is_empty());
    }

    #[test]
    fn names_that_cannot_be_asked_for_are_left_out() {
        let bad = [
            "a//b.jsonl",
            "/a.jsonl",
            "../../etc/x.jsonl",
            "a/&#x1;.jsonl",
            "x.jsonl/",
            "a/&#46;./b",
            "a/\u{7}b",
        ];
        let mut keys = vec!["good.jsonl"];
        keys.extend(bad);
        keys.push("last.jsonl");
        let (kept, left_out) = {
            let all = page(&keys);
            let (kept, left_out) = keep_plain_names(&all);
            (kept.into_owned(), left_out)
        };
        assert_eq!(kept, page(&["good.jsonl", "last.jsonl"]));
        assert_eq!(left_out.len(), bad.len());
        assert!(
            left_out.iter().all(|name| !name.chars().any(char::is_control)),
            "{left_out:?}"
        );
    }

    #[test]
    fn listings_of_azure_name_blobs() {
        let all = "<Blobs><Blob><Name Encoded=\"true\">a//b</Name></Blob><Blob><Name>c.jsonl</Name></Blob></Blobs>";
        let (kept, left_out) = keep_plain_names(all);
        assert_eq!(kept, "<Blobs><Blob><Name>c.jsonl</Name></Blob></Blobs>");
        assert_eq!(left_out, ["a//b"]);
    }

    #[test]
    fn cut_pages_and_odd_references_do_no_harm() {
        for text in [
            "<Contents><Key>a",
            "<Contents></Contents>",
            "<Contents><Key</Contents>",
            "&;&#;&#x;&#99999999999;&x",
        ] {
            assert!(keep_plain_names(text).1.is_empty(), "{text}");
            unescape(text);
        }
        assert_eq!(unescape("a&amp;&lt;&#65;&#x42;&nbsp;&"), "a&<AB&nbsp;&");
    }
}
