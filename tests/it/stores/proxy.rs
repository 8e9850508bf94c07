//! A proxy in front of a server that does to requests what networks and servers do.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request on its way.
#[derive(Debug, Clone)]
pub struct Passing {
    pub method: String,
    /// Path and query.
    pub target: String,
    /// First byte that is asked for.
    pub from: Option<u64>,
}

impl Passing {
    /// Whether an object is read.
    pub fn reads(&self, key: &str) -> bool {
        self.method == "GET" && !self.target.contains('?') && self.target.ends_with(key)
    }

    /// Whether a bucket is listed.
    pub fn lists(&self) -> bool {
        self.target.contains("list-type=2")
    }
}

/// What happens to a request.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing.
    None,
    /// The proxy answers with a status and a text.
    Status(u16, &'static str),
    /// The connection ends after this much of the body.
    Cut(usize),
    /// The body ends after this much, and its length says so.
    Shorten(usize),
    /// Every 16 KiB of the body come after a pause.
    Slow(Duration),
    /// No answer.
    Hang(Duration),
    /// The server does not see the condition of the request.
    Unconditional,
    /// The proxy answers with a status, and says after how many seconds to ask again.
    Later(u16, u32),
    /// A header of the answer has another value.
    Header(&'static str, &'static str),
    /// The server does not see which stretch is asked for, and sends everything.
    Unranged,
    /// The server puts so many names on a page of a listing.
    SmallPages(usize),
}

type Decide = dyn Fn(&Passing, usize) -> Fault + Send + Sync;

/// The proxy. It ends with the test.
pub struct Proxy {
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Passing>>>,
    is_over: Arc<AtomicBool>,
}

impl Proxy {
    /// Starts it. `decide` is told how many requests for the same target came before.
    pub fn new(server: SocketAddr, decide: impl Fn(&Passing, usize) -> Fault + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let proxy = Proxy {
            address: listener.local_addr().expect("an address"),
            requests: Arc::default(),
            is_over: Arc::default(),
        };
        let (requests, is_over) = (Arc::clone(&proxy.requests), Arc::clone(&proxy.is_over));
        let decide: Arc<Decide> = Arc::new(decide);
        let counts: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (Ok(client), requests, decide) = (client, Arc::clone(&requests), Arc::clone(&decide)) else {
                    continue;
                };
                let counts = Arc::clone(&counts);
                std::thread::spawn(move || {
                    // A client that hangs up is no failure of the test.
                    let _ = pass(client, server, &requests, &counts, decide.as_ref());
                });
            }
        });
        proxy
    }

    /// Returns the requests that came, and forgets them.
    pub fn take_requests(&self) -> Vec<Passing> {
        std::mem::take(&mut *self.requests.lock().expect("requests"))
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Passes one request on.
fn pass(
    mut client: TcpStream,
    server: SocketAddr,
    requests: &Mutex<Vec<Passing>>,
    counts: &Mutex<HashMap<String, usize>>,
    decide: &Decide,
) -> std::io::Result<()> {
    let (head, body) = read_request(&mut client)?;
    let mut words = head.split(' ');
    let passing = Passing {
        method: words.next().unwrap_or_default().to_owned(),
        target: words.next().unwrap_or_default().to_owned(),
        from: header(&head, "range").and_then(|range| {
            let range = range.strip_prefix("bytes=")?;
            range.split_once('-')?.0.parse().ok()
        }),
    };
    requests.lock().expect("requests").push(passing.clone());
    let before = {
        let mut counts = counts.lock().expect("counts");
        let count = counts
            .entry(format!("{} {:?}", passing.target, passing.from))
            .or_insert(0);
        *count += 1;
        *count - 1
    };
    let fault = decide(&passing, before);
    match fault {
        Fault::Status(status, text) => {
            let length = text.len();
            let answer = format!("HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{text}");
            return client.write_all(answer.as_bytes());
        }
        Fault::Later(status, seconds) => {
            let answer = format!(
                "HTTP/1.1 {status} X\r\nConnection: close\r\nRetry-After: {seconds}\r\nContent-Length: 0\r\n\r\n"
            );
            return client.write_all(answer.as_bytes());
        }
        Fault::Hang(time) => {
            std::thread::sleep(time);
            return client.shutdown(Shutdown::Both);
        }
        _ => {}
    }
    let drops = |line: &&str| {
        let line = line.to_ascii_lowercase();
        let is_condition = matches!(fault, Fault::Unconditional) && line.starts_with("if-match:");
        let is_range = matches!(fault, Fault::Unranged) && line.starts_with("range:");
        !is_condition && !is_range && !line.starts_with("connection:")
    };
    let mut kept = head.split("\r\n").filter(drops).collect::<Vec<_>>().join("\r\n");
    if let Fault::SmallPages(names) = fault {
        kept = kept.replacen("list-type=2", &format!("list-type=2&max-keys={names}"), 1);
    }
    let mut upstream = TcpStream::connect(server)?;
    upstream.write_all(format!("{kept}\r\nConnection: close\r\n\r\n").as_bytes())?;
    upstream.write_all(&body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    let start = memchr::memmem::find(&answer, b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    let (head, body) = answer.split_at(start);
    match fault {
        Fault::Cut(most) => {
            client.write_all(head)?;
            client.write_all(&body[..body.len().min(most)])?;
        }
        Fault::Shorten(most) => {
            let body = &body[..body.len().min(most)];
            let head = String::from_utf8_lossy(head);
            let lines = head
                .split("\r\n")
                .map(|line| match line.to_ascii_lowercase().starts_with("content-length") {
                    true => format!("Content-Length: {}", body.len()),
                    false => line.to_owned(),
                });
            client.write_all(lines.collect::<Vec<_>>().join("\r\n").as_bytes())?;
            client.write_all(body)?;
        }
        Fault::Header(name, value) => {
            let head = String::from_utf8_lossy(head);
            let start = format!("{name}:");
            let lines = head
                .split("\r\n")
                .map(|line| match line.to_ascii_lowercase().starts_with(&start) {
                    true => format!("{name}: {value}"),
                    false => line.to_owned(),
                });
            client.write_all(lines.collect::<Vec<_>>().join("\r\n").as_bytes())?;
            client.write_all(body)?;
        }
        Fault::Slow(pause) => {
            client.write_all(head)?;
            for piece in body.chunks(16 << 10) {
                std::thread::sleep(pause);
                client.write_all(piece)?;
            }
        }
        _ => client.write_all(&answer)?,
    }
    client.shutdown(Shutdown::Both)
}

/// Returns the head of a request without its last line break, and its body.
fn read_request(client: &mut TcpStream) -> std::io::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut block = [0; 16 << 10];
    let end = loop {
        if let Some(at) = memchr::memmem::find(&bytes, b"\r\n\r\n") {
            break at;
        }
        let read = client.read(&mut block)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        bytes.extend_from_slice(&block[..read]);
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let length = header(&head, "content-length")
        .and_then(|length| length.parse().ok())
        .unwrap_or(0);
    let mut body = bytes[end + 4..].to_vec();
    while body.len() < length {
        let read = client.read(&mut block)?;
        if read == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        body.extend_from_slice(&block[..read]);
    }
    Ok((head, body))
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut lines = head.split("\r\n").filter_map(|line| line.split_once(':'));
    let found = lines.find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map(|(_, value)| value.trim())
}
