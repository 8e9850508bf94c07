//! A server that speaks the Messages API, on this machine: real sockets, scripted answers, every request recorded.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Recorded {
    pub method: String,
    pub path: String,
    pub headers: Vec<(String, String)>,
    pub body: String,
}

impl Recorded {
    pub fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).expect("a body of JSON")
    }

    /// All texts of a request to the model.
    pub fn text(&self) -> String {
        let body = self.json();
        let blocks = [&body["system"], &body["messages"][0]["content"]];
        let texts = blocks.iter().flat_map(|blocks| blocks.as_array().expect("blocks"));
        texts
            .map(|block| block["text"].as_str().expect("text"))
            .collect::<Vec<_>>()
            .join("\n")
    }
}

/// The server's reaction to a request.
#[derive(Debug, Clone)]
pub enum Reply {
    /// Sends bytes, with pauses between them, and closes.
    Bytes(Vec<(Duration, Vec<u8>)>),
    /// Sends a head, then pieces without end.
    Endless(Vec<u8>, Vec<u8>),
    /// Closes at once.
    Nothing,
}

impl Reply {
    pub fn raw(status: u16, headers: &[(&str, &str)], body: &str) -> Reply {
        let mut head = format!("HTTP/1.1 {status} X\r\nconnection: close\r\n");
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Reply::Bytes(vec![(Duration::ZERO, format!("{head}\r\n{body}").into_bytes())])
    }

    pub fn json(value: &Value) -> Reply {
        Reply::raw(200, &[("content-type", "application/json")], &value.to_string())
    }

    /// An error as the API gives it.
    pub fn error(status: u16, kind: &str, message: &str, headers: &[(&str, &str)]) -> Reply {
        let body = json!({"type": "error", "error": {"type": kind, "message": message}});
        Reply::raw(status, headers, &body.to_string())
    }

    /// A stream with a text, and usage of [`INPUT`] and [`OUTPUT`] tokens.
    pub fn says(text: &str) -> Reply {
        Reply::streams(&events(text, "end_turn"))
    }

    pub fn streams(events: &str) -> Reply {
        Reply::raw(200, &[("content-type", "text/event-stream")], events)
    }

    /// Delays a reply.
    pub fn after(wait: Duration, reply: Reply) -> Reply {
        match reply {
            Reply::Bytes(mut parts) => {
                parts[0].0 = wait;
                Reply::Bytes(parts)
            }
            other => other,
        }
    }
}

/// Usage of a call in [`events`].
pub const INPUT: u64 = 1_000;
pub const OUTPUT: u64 = 100;

/// Events of an answer, in pieces of a few characters.
pub fn events(text: &str, stop: &str) -> String {
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "role": "assistant", "content": [],
        "usage": {"input_tokens": INPUT, "output_tokens": 1}}});
    let mut values = vec![
        start,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "ping"}),
    ];
    let signs = text.chars().collect::<Vec<_>>();
    for piece in signs.chunks(7) {
        let piece = piece.iter().collect::<String>();
        values.push(json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}}));
    }
    values.push(json!({"type": "content_block_stop", "index": 0}));
    values.push(json!({"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": OUTPUT}}));
    values.push(json!({"type": "message_stop"}));
    let event = |value: &Value| format!("event: {}\ndata: {value}\n\n", value["type"].as_str().expect("a type"));
    values.iter().map(event).collect()
}

type Handler = dyn Fn(usize, &Recorded) -> Reply + Send + Sync;

/// The server. It ends with the test.
pub struct Mock {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Recorded>>>,
    most_at_once: Arc<AtomicUsize>,
    is_over: Arc<AtomicBool>,
}

impl Mock {
    /// Answers the requests one by one from a list; a request after its end gets an error that fails the test.
    pub fn script(replies: Vec<Reply>) -> Mock {
        Mock::new(move |at, _| {
            let off = Reply::error(400, "off_script", "one request too many", &[]);
            replies.get(at).cloned().unwrap_or(off)
        })
    }

    /// Answers every request by `handler`, which gets its number from 0.
    pub fn new(handler: impl Fn(usize, &Recorded) -> Reply + Send + Sync + 'static) -> Mock {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mock = Mock {
            address: listener.local_addr().expect("an address"),
            requests: Arc::default(),
            most_at_once: Arc::default(),
            is_over: Arc::default(),
        };
        let handler: Arc<Handler> = Arc::new(handler);
        let (requests, is_over) = (Arc::clone(&mock.requests), Arc::clone(&mock.is_over));
        let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&mock.most_at_once));
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(connection) = connection else { continue };
                let (handler, requests) = (Arc::clone(&handler), Arc::clone(&requests));
                let (open, most) = (Arc::clone(&open), Arc::clone(&most));
                std::thread::spawn(move || {
                    most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    // A client that closes the connection is part of the tests.
                    let _ = serve(connection, &handler, &requests, Open(open));
                });
            }
        });
        mock
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn requests(&self) -> Vec<Recorded> {
        self.requests.lock().expect("requests").clone()
    }

    /// Requests to the model itself.
    pub fn calls(&self) -> usize {
        let is_call = |request: &&Recorded| request.path == "/v1/messages";
        self.requests().iter().filter(is_call).count()
    }

    pub fn most_at_once(&self) -> usize {
        self.most_at_once.load(Ordering::SeqCst)
    }
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(self.address);
    }
}

/// A call that is not answered yet.
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn serve(
    connection: TcpStream,
    handler: &Arc<Handler>,
    requests: &Mutex<Vec<Recorded>>,
    open: Open,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(connection.try_clone()?);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let (Some(method), Some(path)) = (words.next(), words.next()) else {
        return Ok(());
    };
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.push((name.to_owned(), value.to_owned()));
    }
    let mut request = Recorded {
        method,
        path,
        headers,
        body: String::new(),
    };
    let length = request
        .header("content-length")
        .and_then(|length| length.parse::<u64>().ok());
    reader.take(length.unwrap_or(0)).read_to_string(&mut request.body)?;
    let at = {
        let mut requests = requests.lock().expect("requests");
        requests.push(request.clone());
        requests.len() - 1
    };
    let mut out = connection;
    match handler(at, &request) {
        Reply::Bytes(parts) => {
            let last = parts.len().saturating_sub(1);
            let mut open = Some(open);
            for (number, (wait, bytes)) in parts.into_iter().enumerate() {
                std::thread::sleep(wait);
                // A client that has the end of an answer may call again before this thread marks it as done.
                if number == last {
                    open = None;
                }
                out.write_all(&bytes)?;
                out.flush()?;
            }
            drop(open);
        }
        Reply::Endless(head, piece) => {
            out.write_all(&head)?;
            loop {
                out.write_all(&piece)?;
            }
        }
        Reply::Nothing => {}
    }
    Ok(())
}
