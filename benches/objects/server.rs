//! A small server that speaks as much of S3 as the program asks for: listings of at most 1,000 keys a page, heads, ranged reads
//! with a condition, and writes. It counts what it is asked for. Other servers of the registries take minutes for a bucket of
//! 100,000 objects.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Keys on a page of a listing, as S3 has it.
const PAGE_KEYS: usize = 1000;

/// The time that all objects say they were written.
const WRITTEN: &str = "2026-01-01T00:00:00.000Z";
const WRITTEN_HEADER: &str = "Thu, 01 Jan 2026 00:00:00 GMT";

/// What was asked for.
#[derive(Debug, Clone, Default)]
pub struct Requests {
    /// Pages of listings.
    pub pages: usize,
    /// Reads of logs.
    pub logs: usize,
    /// Bytes of logs that were sent.
    pub log_bytes: usize,
    /// Reads of other objects that were there.
    pub others: usize,
    /// Reads of objects that were not there.
    pub missing: usize,
    /// Writes.
    pub writes: usize,
    /// When the first page was asked for, and when the last one was sent.
    listing: Option<(Instant, Instant)>,
}

impl Requests {
    /// Returns how long listing took.
    pub fn listing_time(&self) -> Duration {
        self.listing.map_or(Duration::ZERO, |(start, end)| end - start)
    }
}

/// An object: in a file, or as it was written.
#[derive(Clone)]
enum Content {
    File(PathBuf),
    Bytes(Arc<Vec<u8>>),
}

#[derive(Clone)]
struct StoredObject {
    size: usize,
    tag: String,
    content: Content,
}

/// The server. It runs until the process ends.
pub struct ObjectServer {
    pub address: SocketAddr,
    state: Arc<ServerState>,
}

struct ServerState {
    bucket: String,
    objects: Mutex<BTreeMap<String, StoredObject>>,
    requests: Mutex<Requests>,
    /// How long the server waits before each answer, as a network would.
    delay: Duration,
}

impl ObjectServer {
    /// Serves the files of a folder, below `logs/`.
    pub fn start(bucket: &str, folder: &Path, delay: Duration) -> io::Result<ObjectServer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut objects = BTreeMap::new();
        collect(folder, "logs", &mut objects)?;
        let state = Arc::new(ServerState {
            bucket: bucket.to_owned(),
            objects: Mutex::new(objects),
            requests: Mutex::default(),
            delay,
        });
        let server = ObjectServer {
            address: listener.local_addr()?,
            state: Arc::clone(&state),
        };
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                // A client that hangs up is done.
                thread::spawn(move || state.serve(&client));
            }
        });
        Ok(server)
    }

    /// Returns what was asked for since the last call.
    pub fn take_requests(&self) -> Requests {
        std::mem::take(&mut *lock(&self.state.requests))
    }

    /// Returns the keys of all logs.
    pub fn log_keys(&self) -> Vec<String> {
        let objects = lock(&self.state.objects);
        objects.keys().filter(|key| is_log(key)).cloned().collect()
    }

    /// Replaces an object.
    pub fn put(&self, key: &str, body: Vec<u8>) {
        self.state.put(key.to_owned(), body);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_log(key: &str) -> bool {
    key.starts_with("logs/") && key.ends_with(".jsonl")
}

fn tag_of(bytes: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// Adds all files below a folder.
fn collect(folder: &Path, prefix: &str, objects: &mut BTreeMap<String, StoredObject>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let key = format!("{prefix}/{}", entry.file_name().to_string_lossy());
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), &key, objects)?;
            continue;
        }
        let bytes = fs::read(entry.path())?;
        let object = StoredObject {
            size: bytes.len(),
            tag: tag_of(&bytes),
            content: Content::File(entry.path()),
        };
        objects.insert(key, object);
    }
    Ok(())
}

/// A request as it came.
struct Request {
    method: String,
    /// Path without the bucket, decoded.
    key: String,
    query: HashMap<String, String>,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

impl ServerState {
    /// Answers one request after the other.
    fn serve(&self, client: &TcpStream) -> io::Result<()> {
        client.set_nodelay(true)?;
        let mut reader = BufReader::new(client);
        while let Some(request) = self.read_request(&mut reader)? {
            thread::sleep(self.delay);
            let answer = self.answer(request)?;
            { client }.write_all(&answer)?;
        }
        Ok(())
    }

    /// Reads a request; `None` at the end of the connection.
    fn read_request(&self, reader: &mut impl BufRead) -> io::Result<Option<Request>> {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let mut words = line.split_whitespace();
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let path = decode(path);
        let start = format!("/{}", self.bucket);
        let key = path.strip_prefix(&start).unwrap_or_default().trim_start_matches('/');
        let query = query.split('&').filter_map(|pair| pair.split_once('='));
        let mut request = Request {
            method: method.to_owned(),
            key: key.to_owned(),
            query: query.map(|(name, value)| (decode(name), decode(value))).collect(),
            headers: HashMap::new(),
            body: Vec::new(),
        };
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else {
                break;
            };
            let (name, value) = (name.to_ascii_lowercase(), value.trim().to_owned());
            request.headers.insert(name, value);
        }
        let length = request.headers.get("content-length");
        let length = length.and_then(|length| length.parse().ok()).unwrap_or(0);
        reader.take(length).read_to_end(&mut request.body)?;
        Ok(Some(request))
    }

    fn answer(&self, request: Request) -> io::Result<Vec<u8>> {
        if request.query.contains_key("list-type") {
            return Ok(self.list(&request));
        }
        if request.method == "PUT" {
            lock(&self.requests).writes += 1;
            let tag = self.put(request.key, request.body);
            return Ok(respond("200 OK", &format!("ETag: {tag}\r\n"), b""));
        }
        self.read(&request)
    }

    fn put(&self, key: String, body: Vec<u8>) -> String {
        let tag = tag_of(&body);
        let object = StoredObject {
            size: body.len(),
            tag: tag.clone(),
            content: Content::Bytes(Arc::new(body)),
        };
        lock(&self.objects).insert(key, object);
        tag
    }

    /// Answers with a page of a listing. The token is the last key of the page before.
    fn list(&self, request: &Request) -> Vec<u8> {
        let start = Instant::now();
        let prefix = request.query.get("prefix").cloned().unwrap_or_default();
        let from = match request.query.get("continuation-token") {
            Some(last) => Bound::Excluded(last.clone()),
            None => Bound::Included(prefix.clone()),
        };
        let objects = lock(&self.objects);
        let mut left = objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.starts_with(&prefix));
        let (mut entries, mut last) = (String::new(), String::new());
        for (key, object) in left.by_ref().take(PAGE_KEYS) {
            let (tag, size) = (&object.tag, object.size);
            entries += &format!(
                "<Contents><Key>{key}</Key><LastModified>{WRITTEN}</LastModified><ETag>{tag}</ETag><Size>{size}</Size></Contents>"
            );
            last.clone_from(key);
        }
        let more = match left.next() {
            Some(_) => {
                format!("<IsTruncated>true</IsTruncated><NextContinuationToken>{last}</NextContinuationToken>")
            }
            None => "<IsTruncated>false</IsTruncated>".to_owned(),
        };
        drop(objects);
        let page = format!(
            "<ListBucketResult><Name>{}</Name>{more}{entries}</ListBucketResult>",
            self.bucket
        );
        let mut requests = lock(&self.requests);
        requests.pages += 1;
        let first = requests.listing.map_or(start - self.delay, |(first, _)| first);
        requests.listing = Some((first, Instant::now()));
        respond("200 OK", "Content-Type: application/xml\r\n", page.as_bytes())
    }

    /// Answers with an object, a stretch of it, or its head.
    fn read(&self, request: &Request) -> io::Result<Vec<u8>> {
        let found = lock(&self.objects).get(&request.key).cloned();
        let is_head = request.method == "HEAD";
        let Some(object) = found else {
            if !is_head {
                lock(&self.requests).missing += 1;
            }
            return Ok(respond("404 Not Found", "", b""));
        };
        let wanted = request.headers.get("if-match");
        if wanted.is_some_and(|wanted| *wanted != object.tag) {
            return Ok(respond("412 Precondition Failed", "", b""));
        }
        let tag = format!("ETag: {}\r\nLast-Modified: {WRITTEN_HEADER}\r\n", object.tag);
        if is_head {
            let length = object.size;
            return Ok(format!("HTTP/1.1 200 OK\r\n{tag}Content-Length: {length}\r\n\r\n").into_bytes());
        }
        let bytes = match &object.content {
            Content::File(path) => Arc::new(fs::read(path)?),
            Content::Bytes(bytes) => Arc::clone(bytes),
        };
        let range = request.headers.get("range").and_then(|range| {
            let (from, to) = range.strip_prefix("bytes=")?.split_once('-')?;
            Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()?))
        });
        let mut requests = lock(&self.requests);
        let (status, headers, body) = match range {
            Some((from, to)) => {
                let to = to.min(bytes.len().saturating_sub(1));
                let span = format!("{tag}Content-Range: bytes {from}-{to}/{}\r\n", bytes.len());
                ("206 Partial Content", span, bytes.get(from..=to).unwrap_or_default())
            }
            None => ("200 OK", tag, &bytes[..]),
        };
        if is_log(&request.key) {
            requests.logs += 1;
            requests.log_bytes += body.len();
        } else {
            requests.others += 1;
        }
        drop(requests);
        Ok(respond(status, &headers, body))
    }
}

fn respond(status: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let length = body.len();
    let mut answer = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\r\n").into_bytes();
    answer.extend_from_slice(body);
    answer
}

/// Replaces `%XX` by what it stands for.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        match (first, code) {
            (b'%', Some(byte)) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            _ => {
                bytes.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
