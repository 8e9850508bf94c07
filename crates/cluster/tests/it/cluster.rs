//! A cluster for a test: a scheduler and executors, which end with the test.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The program.
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_backcast-cluster");

/// The bundled logs.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// `backcast` of the same build. It is another package, so Cargo does not build it for these tests.
pub fn local(folder: &Path, args: &[&str]) -> Output {
    let program = Path::new(PROGRAM).with_file_name("backcast");
    assert!(
        program.exists(),
        "build it first: cargo build -p backcast -p backcast-cluster"
    );
    let mut command = Command::new(program);
    command
        .current_dir(folder)
        .args(args)
        .env("BACKCAST_CACHE", folder.join("cache"));
    command.output().expect("backcast starts")
}

/// Takes several ports in a row that nobody listens on, others than every other test of this process, and none of those that the
/// system gives to connections.
pub fn free_ports(count: u16) -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 8_000 + (std::process::id() % 100) as u16 * 200;
    loop {
        let first = base + NEXT.fetch_add(count, Ordering::Relaxed) % 4000;
        if (first..first + count).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok()) {
            return first;
        }
    }
}

/// A process that is killed when it is dropped.
pub struct Process {
    child: Child,
    log: PathBuf,
}

impl Process {
    fn start(mut command: Command, log: PathBuf) -> Process {
        let file = File::create(&log).expect("a file");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        let child = command.spawn().expect("the program starts");
        Process { child, log }
    }

    /// Sends a signal.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args(["-s", name, &self.child.id().to_string()])
            .status();
        assert!(sent.expect("kill starts").success(), "{name}");
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What it said.
    pub fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Waits for its end. Returns its status.
    pub fn wait(&mut self, most: Duration) -> Option<i32> {
        let start = Instant::now();
        while start.elapsed() < most {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("still running after {most:?}: {}", self.said());
    }

    /// The most memory that it had, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) * 1024
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // A stopped process does not even die.
        let _ = Command::new("kill")
            .args(["-s", "CONT", &self.child.id().to_string()])
            .output();
        self.kill();
    }
}

/// A cluster, and a folder to work in.
pub struct Cluster {
    /// The folder.
    pub folder: TempDir,
    port: u16,
    started: u16,
    /// Its scheduler.
    pub scheduler: Process,
    /// Its executors, in the order in which they were started.
    pub executors: Vec<Process>,
}

impl Cluster {
    /// Starts a scheduler and executors with one core each.
    pub fn start(executors: usize) -> Cluster {
        Cluster::start_with(executors, &[])
    }

    /// The same with a fault in every executor.
    pub fn start_with(executors: usize, environment: &[(&str, &str)]) -> Cluster {
        let folder = TempDir::new().expect("a folder");
        let port = free_ports(30);
        let scheduler = start_scheduler(PROGRAM.as_ref(), folder.path(), port);
        let mut cluster = Cluster {
            folder,
            port,
            started: 0,
            scheduler,
            executors: Vec::new(),
        };
        for _ in 0..executors {
            cluster.add_executor(environment);
        }
        cluster.await_executors(executors);
        cluster
    }

    /// Starts another executor.
    pub fn add_executor(&mut self, environment: &[(&str, &str)]) {
        let executor = self.start_executor(PROGRAM.as_ref(), environment);
        self.executors.push(executor);
    }

    /// Starts an executor of some build.
    pub fn start_executor(&mut self, program: &Path, environment: &[(&str, &str)]) -> Process {
        self.started += 1;
        let mut command = Command::new(program);
        let port = (self.port + 2 + self.started).to_string();
        command.args([
            "executor",
            "--cores",
            "1",
            "--wait",
            "20",
            "--scheduler",
            &self.address(),
            "--port",
            &port,
        ]);
        command.envs(environment.iter().copied());
        let log = self.folder.path().join(format!("executor-{}.log", self.started));
        Process::start(command, log)
    }

    /// Starts the scheduler again, of some build.
    pub fn restart_scheduler(&mut self, program: &Path) {
        self.scheduler.kill();
        self.scheduler = start_scheduler(program, self.folder.path(), self.port);
    }

    /// The address of the scheduler.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Waits until the scheduler knows so many executors.
    pub fn await_executors(&self, wanted: usize) {
        let start = Instant::now();
        while self.alive_executors() != Some(wanted) {
            let said = self.scheduler.said();
            assert!(
                start.elapsed() < Duration::from_secs(30),
                "no {wanted} executors: {said}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn alive_executors(&self) -> Option<usize> {
        Some(self.status()?["executors"].as_array()?.len())
    }

    /// What the scheduler says of the cluster.
    pub fn status(&self) -> Option<serde_json::Value> {
        use std::io::Read;
        let mut stream = std::net::TcpStream::connect(("127.0.0.1", self.port + 1)).ok()?;
        let mut line = String::new();
        stream.read_to_string(&mut line).ok()?;
        serde_json::from_str(&line).ok()
    }

    fn submit_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.current_dir(self.folder.path());
        command.args(["submit", "--scheduler", &self.address()]);
        command.args(args);
        command
    }

    /// Submits and waits for the end.
    pub fn submit(&self, args: &[&str]) -> Output {
        self.submit_command(args).output().expect("the program starts")
    }

    /// Submits in the background.
    pub fn start_submit(&self, args: &[&str]) -> Process {
        let log = self.folder.path().join("submit.log");
        Process::start(self.submit_command(args), log)
    }

    /// The path of a name in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The one part in a folder.
    pub fn part(&self, folder: &str) -> Vec<u8> {
        let parts = fs::read_dir(self.path(folder)).expect("a folder");
        let parts = parts.map(|part| part.expect("an entry").path());
        let parts = parts.filter(|part| part.is_file()).collect::<Vec<_>>();
        assert_eq!(parts.len(), 1, "{parts:?}");
        fs::read(&parts[0]).expect("a part")
    }

    /// Maps logs on this machine into the folder `local`. Returns the part.
    pub fn map_local(&self, args: &[&str]) -> Vec<u8> {
        let args = [&["map", "--no-cache", "--quiet", "--out", "local"], args].concat();
        let mapped = local(self.folder.path(), &args);
        assert!(mapped.status.success(), "{}", text(&mapped.stderr));
        self.part("local")
    }
}

fn start_scheduler(program: &Path, folder: &Path, port: u16) -> Process {
    let mut command = Command::new(program);
    command.args(["scheduler", "--executor-timeout", "10", "--port", &port.to_string()]);
    Process::start(command, folder.join("scheduler.log"))
}

/// Copies a tree.
pub fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_tree(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
