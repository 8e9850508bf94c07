//! `cargo bench --bench objects`: a bucket of 100,000 small logs on a server of this machine. Runs `stats` on the files, then on
//! the bucket: with an empty cache, with a full one, after one object changed, and as another machine that shares a cache. Prints
//! time, peak memory and requests of each run, and fails if an output differs from that of the files, or if a run reads more
//! objects than it should.
//!
//! `-- --objects N` makes another number of logs, `--bytes SIZE` other sizes, `--delay MS` lets the server wait before each
//! answer, and `--program PATH` measures another build, such as the one that is shipped.

mod objects {
    pub mod server;
}

use objects::server::{ObjectServer, Requests};
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const BUCKET: &str = "bench";

/// How often memory is polled. The system keeps the peak, so only what a run takes in its last moment is missed.
const POLL: Duration = Duration::from_millis(10);

/// What is measured.
struct BucketBench {
    program: PathBuf,
    objects: usize,
    bytes: String,
    delay: Duration,
}

/// What a run took.
struct Measured {
    stdout: Vec<u8>,
    wall: Duration,
    peak_kib: u64,
}

fn main() -> ExitCode {
    let arguments = std::env::args().skip(1).collect::<Vec<_>>();
    if !arguments.iter().any(|argument| argument == "--bench") {
        println!("objects: run with `cargo bench --bench objects`");
        return ExitCode::SUCCESS;
    }
    let value = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)
    };
    let number = |name: &str, usual: u64| value(name).and_then(|text| text.parse().ok()).unwrap_or(usual);
    let bench = BucketBench {
        program: value("--program").map_or_else(|| env!("CARGO_BIN_EXE_backcast").into(), PathBuf::from),
        objects: number("--objects", 100_000) as usize,
        bytes: value("--bytes").cloned().unwrap_or_else(|| "400MiB".to_owned()),
        delay: Duration::from_millis(number("--delay", 0)),
    };
    match bench.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("objects: {error}");
            ExitCode::FAILURE
        }
    }
}

impl BucketBench {
    fn run(&self) -> io::Result<()> {
        let folder = self.generate()?;
        let logs = folder.join("logs");
        let scratch = Path::new("target/objects");
        let _ = fs::remove_dir_all(scratch);
        let server = ObjectServer::start(BUCKET, &logs, self.delay)?;
        println!(
            "{} logs, {} ms before each answer",
            server.log_keys().len(),
            self.delay.as_millis()
        );
        println!(
            "{:<32} {:>8} {:>9} {:>8} {:>6} {:>8} {:>8} {:>8} {:>8}",
            "run", "wall s", "peak MiB", "list s", "pages", "logs", "entries", "missing", "writes"
        );
        let files = self.measure(&["logs", "--no-cache"], &folder, &server)?;
        show("files", &files, &server.take_requests());
        let url = format!("s3://{BUCKET}/logs");
        let run = |name: &str, cache: &str, expected: &[u8], most_logs: usize| -> io::Result<()> {
            let (cache, shared) = (scratch.join(cache), format!("s3://{BUCKET}/cache"));
            let cache = cache.display().to_string();
            let options = [url.as_str(), "--cache-dir", &cache, "--shared-cache", &shared];
            let measured = self.measure(&options, &folder, &server)?;
            let requests = server.take_requests();
            show(name, &measured, &requests);
            let stdout = String::from_utf8_lossy(&measured.stdout).replace(&format!("s3://{BUCKET}/"), "");
            if stdout.as_bytes() != expected {
                return Err(io::Error::other(format!(
                    "{name}: the output differs from that of the files"
                )));
            }
            if requests.logs > most_logs {
                return Err(io::Error::other(format!("{name}: {} logs were read", requests.logs)));
            }
            Ok(())
        };
        run("bucket, no cache yet", "one", &files.stdout, usize::MAX)?;
        run("bucket, nothing changed", "one", &files.stdout, 0)?;
        run("another machine, shared cache", "two", &files.stdout, 0)?;
        // The log grows by its own last line.
        let key = &server.log_keys()[self.objects / 2];
        let path = logs.join(key.trim_start_matches("logs/"));
        let before = fs::read(&path)?;
        let last = before
            .trim_ascii_end()
            .rsplit(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default();
        let after = [&before, last, b"\n"].concat();
        fs::write(&path, &after)?;
        server.put(key, after);
        let changed = self.measure(&["logs", "--no-cache"], &folder, &server);
        fs::write(&path, before)?;
        let changed = changed?;
        show("files, one changed", &changed, &server.take_requests());
        run("bucket, one changed", "one", &changed.stdout, 1)?;
        run("another machine, one changed", "two", &changed.stdout, 0)
    }

    /// Makes the logs, or finds those of an earlier run. Returns the folder that they are in.
    fn generate(&self) -> io::Result<PathBuf> {
        let folder = PathBuf::from(format!("target/objects-{}-{}", self.objects, self.bytes));
        if !folder.exists() {
            fs::create_dir_all(&folder)?;
            let mut command = Command::new(&self.program);
            command.args([
                "synth",
                "bulk",
                "--files",
                &self.objects.to_string(),
                "--bytes",
                &self.bytes,
            ]);
            let status = command
                .arg("--out")
                .arg(folder.join("logs"))
                .stdout(Stdio::null())
                .status()?;
            if !status.success() {
                return Err(io::Error::other("the logs could not be made"));
            }
        }
        Ok(folder)
    }

    /// Runs `stats` in a folder and watches its memory.
    fn measure(&self, options: &[&str], folder: &Path, server: &ObjectServer) -> io::Result<Measured> {
        let mut command = Command::new(fs::canonicalize(&self.program)?);
        command.args(["stats", "--problems", "--quiet"]);
        for option in options {
            // Caches lie next to the folder that the run is in.
            let path = Path::new(option);
            match path.starts_with("target/") {
                true => command.arg(std::path::absolute(path)?),
                false => command.arg(option),
            };
        }
        command
            .current_dir(folder)
            .env("AWS_ACCESS_KEY_ID", "bench")
            .env("AWS_SECRET_ACCESS_KEY", "bench-secret")
            .env("AWS_REGION", "us-east-1")
            .env("AWS_ENDPOINT", format!("http://{}", server.address))
            .env("AWS_ALLOW_HTTP", "true")
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let start = Instant::now();
        let mut child = command.spawn()?;
        let mut pipe = child.stdout.take().ok_or(io::ErrorKind::BrokenPipe)?;
        let reading = thread::spawn(move || {
            let mut bytes = Vec::new();
            pipe.read_to_end(&mut bytes).map(|_| bytes)
        });
        let mut peak_kib = 0;
        let status = loop {
            peak_kib = peak_memory(child.id()).unwrap_or(0).max(peak_kib);
            match child.try_wait()? {
                Some(status) => break status,
                None => thread::sleep(POLL),
            }
        };
        let wall = start.elapsed();
        let stdout = reading.join().map_err(|_| io::Error::other("reading its output"))??;
        match status.success() {
            true => Ok(Measured { stdout, wall, peak_kib }),
            false => Err(io::Error::other(format!("{options:?} ended with {status}"))),
        }
    }
}

/// Returns the most memory that a process had so far, in KiB.
fn peak_memory(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().split(' ').next()?.parse().ok()
}

fn show(name: &str, measured: &Measured, requests: &Requests) {
    println!(
        "{name:<32} {:>8.2} {:>9.1} {:>8.2} {:>6} {:>8} {:>8} {:>8} {:>8}",
        measured.wall.as_secs_f64(),
        measured.peak_kib as f64 / 1024.,
        requests.listing_time().as_secs_f64(),
        requests.pages,
        requests.logs,
        requests.others,
        requests.missing,
        requests.writes,
    );
}
