//! Servers of object stores: real ones from the package registries, started for a test and ended with it.

use crate::fixture::{Fixture, Run};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A secret that no output may hold.
pub const SECRET: &str = "wJalrXUtnFEMI-K7MDENG-bPxRfiCYEXAMPLE";

/// The account and the key that Azurite documents for everybody.
pub const AZURE_ACCOUNT: &str = "devstoreaccount1";
pub const AZURE_KEY: &str = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// The bucket of all tests.
pub const BUCKET: &str = "team-logs";

/// A server on this machine.
pub struct Server {
    process: Child,
    pub address: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns an address that nobody listens on.
fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address")
}

impl Server {
    /// Starts a program and waits until it listens.
    fn start(mut command: Command, address: SocketAddr) -> Server {
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let process = command.spawn().expect("the server starts");
        let server = Server { process, address };
        let start = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(start.elapsed() < Duration::from_secs(60), "the server does not listen");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }

    /// Starts moto's S3 with an empty bucket.
    pub fn s3() -> Server {
        let address = free_address();
        let mut command = Command::new("moto_server");
        command.args(["-H", "127.0.0.1", "-p", &address.port().to_string()]);
        let server = Server::start(command, address);
        assert_eq!(send(address, "PUT", &format!("/{BUCKET}"), b""), 200);
        server
    }

    /// Starts Azurite, which keeps its files in the fixture, with an empty container.
    pub fn azure(fixture: &Fixture) -> Server {
        let address = free_address();
        let mut command = Command::new("azurite-blob");
        command
            .args(["--blobHost", "127.0.0.1", "--blobPort", &address.port().to_string()])
            .args(["--silent", "--skipApiVersionCheck", "--location"])
            .arg(fixture.path("azurite"));
        let server = Server::start(command, address);
        server.put_azure(fixture, &[]);
        server
    }

    /// Writes an object.
    pub fn put(&self, key: &str, body: &[u8]) {
        assert_eq!(
            send(self.address, "PUT", &format!("/{BUCKET}/{}", encoded(key)), body),
            200,
            "{key}"
        );
    }

    /// Writes all files below a folder, under their paths.
    pub fn put_files(&self, fixture: &Fixture, files: &[std::path::PathBuf]) {
        for file in files {
            let body = std::fs::read(fixture.path(file)).expect("a file");
            self.put(file.to_str().expect("UTF-8"), &body);
        }
    }

    /// Makes the container and writes files of the fixture into it, under their paths. Requests to Azure are signed.
    pub fn put_azure(&self, fixture: &Fixture, files: &[std::path::PathBuf]) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/stores/put_azure.py");
        let mut command = fixture.hermetic("python3", [script]);
        command.arg(format!("http://{}", self.address));
        command.args([AZURE_ACCOUNT, AZURE_KEY, BUCKET]).args(files);
        Run::of(command).success();
    }
}

/// Returns a key as it stands in a URL.
fn encoded(key: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/".contains(&byte);
    let one = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    key.bytes().map(one).collect()
}

/// Sends a request to S3 and returns the status of the answer. The server wants a signature and does not look at it.
pub fn send(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> u16 {
    let answer = exchange(address, method, path, body);
    let answer = String::from_utf8_lossy(&answer);
    answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok())
        .expect("a status")
}

/// Sends a request to S3 and returns the answer.
fn exchange(address: SocketAddr, method: &str, path: &str, body: &[u8]) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).expect("the server listens");
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Type: application/octet-stream\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).expect("sent");
    stream.write_all(body).expect("sent");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("an answer");
    answer
}

/// Returns the body of an object of S3.
pub fn fetch(address: SocketAddr, path: &str) -> Vec<u8> {
    let answer = exchange(address, "GET", path, b"");
    let start = memchr::memmem::find(&answer, b"\r\n\r\n").expect("a body");
    answer[start + 4..].to_vec()
}
