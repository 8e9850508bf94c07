//! The wire: one HTTP client for the Messages API and for servers that speak it.
//!
//! The key is marked as sensitive, sent only to the server it is for (no redirects, https or this machine only), and
//! cut out of everything that is shown. Answers are read piece by piece, and never more of them than was asked for.

#![allow(clippy::disallowed_methods, reason = "time-outs are measured here")]

use super::{ApiKey, RequestFailure, SetupError, Timeouts};
use crate::model::stream::{AnswerAssembler, AnswerFault, ModelAnswer, parse_error};
use crate::model::{ModelEvent, ModelObserver};
use language::{secrets, visible};
use reqwest::Url;
use reqwest::blocking::{Client as Http, Response};
use reqwest::header::{HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use serde_json::Value;
use std::error::Error as _;
use std::fmt;
use std::io::Read;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Version of the API that requests are written for.
const VERSION: &str = "2023-06-01";

/// Largest answer that is no stream.
const MAX_JSON: usize = 4 << 20;

/// Longest line of the results of a batch, and all of them together.
const MAX_LINE: usize = 4 << 20;
const MAX_RESULTS: usize = 1 << 30;

/// Most that is shown of what a server says.
const MAX_MESSAGE: usize = 300;

/// The client.
pub struct Client {
    http: Http,
    base: Url,
    key: Option<ApiKey>,
    timeouts: Timeouts,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base.as_str())
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Returns the address of a server in its normal form if a key may be sent there.
pub fn parse_base_url(text: &str) -> Result<String, SetupError> {
    base_url(text).map(Url::into)
}

fn base_url(text: &str) -> Result<Url, SetupError> {
    let url = Url::parse(text).map_err(|_| SetupError::BadUrl(shown(text, None)))?;
    let is_plain =
        url.username().is_empty() && url.password().is_none() && url.query().is_none() && url.fragment().is_none();
    if !is_plain {
        return Err(SetupError::NotPlain);
    }
    if url.host_str().is_none_or(str::is_empty) {
        return Err(SetupError::BadUrl(shown(text, None)));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_this_machine(&url) => Ok(url),
        _ => Err(SetupError::NotSafe(shown(text, None))),
    }
}

/// Whether an address is of this machine, by its form: a name that only happens to resolve to it does not count.
fn is_this_machine(url: &Url) -> bool {
    let Some(host) = url.host_str() else { return false };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl Client {
    /// A client for a server. A server on this machine may do without a key.
    pub fn new(base: &str, key: Option<ApiKey>, timeouts: Timeouts) -> Result<Client, SetupError> {
        let base = base_url(base)?;
        let is_local = is_this_machine(&base);
        if key.is_none() && !is_local {
            return Err(SetupError::NoKey);
        }
        // A second provider in one process changes nothing.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert("anthropic-version", HeaderValue::from_static(VERSION));
        headers.insert("content-type", HeaderValue::from_static("application/json"));
        if let Some(key) = &key {
            let (name, value) = header(key)?;
            headers.insert(name, value);
        }
        let mut builder = Http::builder()
            .user_agent(concat!("backcast/", env!("CARGO_PKG_VERSION")))
            .default_headers(headers)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            // A connection that the server closed meanwhile would look like a request that failed on its way.
            .pool_max_idle_per_host(0)
            .connect_timeout(timeouts.connect)
            .timeout(timeouts.idle);
        if is_local {
            // A proxy is another machine.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| SetupError::Http(reason(&error)))?;
        Ok(Client {
            http,
            base,
            key,
            timeouts,
        })
    }

    /// The server's address.
    pub fn base(&self) -> &str {
        self.base.as_str()
    }

    /// Sends a request and hands back its answer if the server accepted it.
    fn send(&self, path: &str, body: Option<&Value>, watch: &ModelObserver) -> Result<Response, RequestFailure> {
        let url = format!("{}{path}", self.base.as_str().trim_end_matches('/'));
        let mut request = match body {
            Some(_) => self.http.post(&url),
            None => self.http.get(&url),
        };
        if let Some(body) = body {
            let bytes = body.to_string();
            watch.trace(2, || format!("> POST {path}, {} bytes", bytes.len()));
            watch.trace(3, || format!("> {}", self.scrubbed(&bytes, usize::MAX)));
            request = request.body(bytes);
        } else {
            watch.trace(2, || format!("> GET {path}"));
        }
        let started = Instant::now();
        let response = request.send().map_err(|error| self.failure(&error))?;
        let status = response.status();
        let took = started.elapsed().as_millis();
        watch.trace(2, || format!("< {} after {took} ms", status.as_u16()));
        for (name, value) in response.headers() {
            let text = String::from_utf8_lossy(value.as_bytes());
            watch.trace(3, || format!("< {name}: {}", self.scrubbed(&text, MAX_MESSAGE)));
        }
        if status.is_success() {
            return Ok(response);
        }
        Err(self.refused(response))
    }

    /// What a server that said no had to say.
    fn refused(&self, mut response: Response) -> RequestFailure {
        let status = response.status().as_u16();
        let retry_after = response.headers().get(RETRY_AFTER).and_then(seconds);
        if response.status().is_redirection() {
            return RequestFailure::Status {
                status,
                kind: String::new(),
                message: "it points to another place, and the key is not taken there".into(),
                retry_after: None,
            };
        }
        let mut text = Vec::new();
        // Half of an explanation is better than none.
        let _ = (&mut response).take(64 << 10).read_to_end(&mut text);
        let text = String::from_utf8_lossy(&text);
        let (kind, message) = match serde_json::from_str::<Value>(&text).map(|value| parse_error(&value)) {
            Ok(AnswerFault::Error { kind, message }) => (kind, message),
            _ => (String::new(), text.into_owned()),
        };
        RequestFailure::Status {
            status,
            kind: self.scrubbed(&kind, 60),
            message: self.scrubbed(&message, MAX_MESSAGE),
            retry_after,
        }
    }

    /// Asks for a message and follows it as it is written.
    pub fn message(&self, body: &Value, max_text: usize, watch: &ModelObserver) -> Result<ModelAnswer, RequestFailure> {
        let started = Instant::now();
        let mut response = self.send("/v1/messages", Some(body), watch)?;
        let mut assembler = AnswerAssembler::new(max_text);
        let mut buffer = vec![0; 16 << 10];
        // Events around the text take more room than the text; a stream of nothing but those ends too.
        let mut left = max_text.saturating_mul(64).saturating_add(8 << 20);
        while !assembler.is_done() {
            if started.elapsed() > self.timeouts.whole {
                return Err(RequestFailure::TimedOut(self.timeouts.whole.as_secs()));
            }
            let count = match response.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if is_timeout(&error) => return Err(RequestFailure::TimedOut(self.timeouts.idle.as_secs())),
                // Half an answer, then silence: the same as a stream that just ends.
                Err(_) => break,
            };
            left = left.checked_sub(count).ok_or(AnswerFault::TooLarge(max_text))?;
            assembler
                .push_bytes(&buffer[..count])
                .map_err(|fault| self.scrubbed_fault(fault))?;
            watch.notify(ModelEvent::Received(assembler.received_bytes()));
        }
        Ok(self.kept(assembler.finish()?))
    }

    /// Sends a request whose answer is one JSON value.
    pub fn json(&self, path: &str, body: Option<&Value>, watch: &ModelObserver) -> Result<Value, RequestFailure> {
        let mut response = self.send(path, body, watch)?;
        let mut bytes = Vec::new();
        (&mut response)
            .take(MAX_JSON as u64 + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| self.read_failure(&error))?;
        if bytes.len() > MAX_JSON {
            return Err(AnswerFault::TooLarge(MAX_JSON).into());
        }
        serde_json::from_slice(&bytes).map_err(|_| AnswerFault::Malformed("not JSON".into()).into())
    }

    /// Asks for lines and hands them on one by one.
    pub fn lines(&self, path: &str, watch: &ModelObserver, mut each: impl FnMut(&[u8])) -> Result<(), RequestFailure> {
        let mut response = self.send(path, None, watch)?;
        let (mut line, mut buffer, mut total) = (Vec::new(), vec![0; 64 << 10], 0);
        loop {
            let count = response.read(&mut buffer).map_err(|error| self.read_failure(&error))?;
            if count == 0 {
                break;
            }
            total += count;
            let mut rest = &buffer[..count];
            while let Some(at) = memchr::memchr(b'\n', rest) {
                line.extend_from_slice(&rest[..at]);
                rest = &rest[at + 1..];
                each(&line);
                line.clear();
            }
            line.extend_from_slice(rest);
            if line.len() > MAX_LINE || total > MAX_RESULTS {
                return Err(AnswerFault::TooLarge(MAX_LINE).into());
            }
        }
        if !line.is_empty() {
            each(&line);
        }
        Ok(())
    }

    fn failure(&self, error: &reqwest::Error) -> RequestFailure {
        if error.is_connect() {
            RequestFailure::Connect(self.scrubbed(&reason(error), MAX_MESSAGE))
        } else if error.is_timeout() {
            RequestFailure::TimedOut(self.timeouts.idle.as_secs())
        } else {
            RequestFailure::Broken(self.scrubbed(&reason(error), MAX_MESSAGE))
        }
    }

    fn read_failure(&self, error: &std::io::Error) -> RequestFailure {
        if is_timeout(error) {
            RequestFailure::TimedOut(self.timeouts.idle.as_secs())
        } else {
            RequestFailure::Broken(self.scrubbed(&error.to_string(), MAX_MESSAGE))
        }
    }

    fn scrubbed_fault(&self, fault: AnswerFault) -> AnswerFault {
        match fault {
            AnswerFault::Error { kind, message } => AnswerFault::Error {
                kind: self.scrubbed(&kind, 60),
                message: self.scrubbed(&message, MAX_MESSAGE),
            },
            fault => fault,
        }
    }

    /// An answer, fit to be kept: without the key, secrets and control characters.
    pub fn kept(&self, mut answer: ModelAnswer) -> ModelAnswer {
        let text = without_key(&answer.text, self.key.as_ref().map(ApiKey::text));
        answer.text = visible::shown(&text).into_owned();
        answer
    }

    /// What a server said, fit to be shown: without the key, without secrets, without control characters, not too long.
    pub fn scrubbed(&self, text: &str, most: usize) -> String {
        shown_within(text, self.key.as_ref().map(ApiKey::text), most)
    }
}

/// Text from outside, fit to be shown.
fn shown(text: &str, key: Option<&str>) -> String {
    shown_within(text, key, MAX_MESSAGE)
}

/// Shortest text that can be a key; what is shorter, such as a stand-in for a server that wants none, is part of many words.
const SHORTEST_KEY: usize = 8;

/// Text without the key.
fn without_key(text: &str, key: Option<&str>) -> String {
    match key.filter(|key| key.len() >= SHORTEST_KEY) {
        Some(key) => text.replace(key, "[key]"),
        None => text.to_owned(),
    }
}

fn shown_within(text: &str, key: Option<&str>, most: usize) -> String {
    let text = secrets::mask(&without_key(text, key));
    let plain = text.chars().map(|sign| if sign.is_control() { ' ' } else { sign });
    plain.take(most).collect()
}

/// Why a request failed, down to the last cause, without the address.
fn reason(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    if text.is_empty() { "unknown reason".into() } else { text }
}

fn is_timeout(error: &std::io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<reqwest::Error>());
    error.kind() == std::io::ErrorKind::TimedOut || inner.is_some_and(reqwest::Error::is_timeout)
}

/// Seconds to wait, as the header gives them.
fn seconds(value: &HeaderValue) -> Option<Duration> {
    let seconds = value.to_str().ok()?.trim().parse::<f64>().ok()?;
    (0.0..=86_400.0)
        .contains(&seconds)
        .then(|| Duration::from_secs_f64(seconds))
}

/// The header, marked so that no layer below prints it.
fn header(key: &ApiKey) -> Result<(HeaderName, HeaderValue), SetupError> {
    let (name, text) = match key {
        ApiKey::Api(text) => (HeaderName::from_static("x-api-key"), text.clone()),
        ApiKey::Bearer(text) => (reqwest::header::AUTHORIZATION, format!("Bearer {text}")),
    };
    let mut value = HeaderValue::from_str(&text).map_err(|_| SetupError::BadKey)?;
    value.set_sensitive(true);
    Ok((name, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUTS: Timeouts = Timeouts {
        connect: Duration::from_secs(1),
        idle: Duration::from_secs(1),
        whole: Duration::from_secs(1),
    };

    #[test]
    fn only_https_or_this_machine() {
        for good in [
            "https://api.anthropic.com",
            "http://127.0.0.1:8080",
            "http://[::1]:1/x",
            "http://localhost:11434",
            "http://127.9.9.9",
        ] {
            assert!(parse_base_url(good).is_ok(), "{good}");
        }
        for bad in [
            "http://api.anthropic.com",
            "http://localhost.example.com",
            "http://127.0.0.1.example.com",
            "http://0.0.0.0:80",
            "http://10.0.0.1",
            "ftp://127.0.0.1",
            "file:///etc/passwd",
            "https://user:pw@api.anthropic.com",
            "https://api.anthropic.com?x=1",
            "https://api.anthropic.com#x",
            "api.anthropic.com",
            "",
        ] {
            assert!(parse_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_key_is_in_nothing_that_is_printed() {
        let key = "opensesame-opensesame";
        for key in [ApiKey::Api(key.into()), ApiKey::Bearer(key.into())] {
            let client = Client::new("http://127.0.0.1:9", Some(key.clone()), TIMEOUTS).unwrap();
            let (_, header) = header(&key).unwrap();
            let text = format!("{key:?} {client:?} {:?} {header:?}", client.http);
            assert!(!text.contains("opensesame"), "{text}");
            assert_eq!(
                client.scrubbed("bad key opensesame-opensesame\u{1b}[2J", 100),
                "bad key [key] [2J"
            );
        }
        let bad = Client::new("http://127.0.0.1:9", Some(ApiKey::Api("open\nsesame".into())), TIMEOUTS).unwrap_err();
        assert!(!format!("{bad} {bad:?}").contains("sesame"));
    }

    #[test]
    fn no_key_only_on_this_machine() {
        assert!(Client::new("http://127.0.0.1:9", None, TIMEOUTS).is_ok());
        assert!(matches!(
            Client::new("https://api.anthropic.com", None, TIMEOUTS),
            Err(SetupError::NoKey)
        ));
    }

    #[test]
    fn seconds_of_the_header() {
        let read = |text: &str| seconds(&HeaderValue::from_str(text).unwrap());
        assert_eq!(read("2"), Some(Duration::from_secs(2)));
        assert_eq!(read("0.5"), Some(Duration::from_millis(500)));
        for bad in ["", "-1", "soon", "NaN", "1e9", "Wed, 21 Oct 2026 07:28:00 GMT"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
