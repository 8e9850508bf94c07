//! A hermetic place to run in: temporary home, temporary cache, empty environment.

use backcast::run::{self, ReadOptions, summarize};
use replay::sim::trace::Trace;
use replay::tokens::ratios::RatioTable;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use transcript::bytes::IoMode;
use transcript::discover::discover;
use transcript::problem::Problem;

/// The six figures that have the same name in every output.
pub const FIGURES: [&str; 6] = [
    "responses",
    "input_tokens",
    "output_tokens",
    "cache_read_tokens",
    "cache_write_5m_tokens",
    "cache_write_1h_tokens",
];

/// The values of [`FIGURES`].
pub type Figures = [u64; 6];

/// The formats of tables in this build.
pub const FORMATS: &[&str] = if table::HAS_PARQUET {
    &["table", "json", "jsonl", "csv", "parquet"]
} else {
    &["table", "json", "jsonl", "csv"]
};

/// The formats of `replay --rounds` in this build.
pub const ROUNDS: &[&str] = if table::HAS_PARQUET {
    &["csv", "parquet"]
} else {
    &["csv"]
};

/// A temporary folder, and the binary run inside it.
pub struct Fixture {
    root: tempfile::TempDir,
}

/// How a run ended.
pub struct Run {
    /// Exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Fixture {
    pub fn new() -> Fixture {
        let root = tempfile::tempdir().expect("a temporary folder");
        std::fs::create_dir(root.path().join("home")).expect("a home");
        Fixture { root }
    }

    /// A path inside the folder.
    pub fn path(&self, name: impl AsRef<Path>) -> PathBuf {
        self.root.path().join(name)
    }

    /// The folder of the cache.
    pub fn cache(&self) -> PathBuf {
        self.path("cache")
    }

    /// Writes a file, with the folders above it.
    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().expect("inside the folder")).expect("folders");
        std::fs::write(&path, content).expect("written");
        path
    }

    /// Returns a command for the binary, in the folder and with an empty environment.
    pub fn command<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Command {
        self.hermetic(env!("CARGO_BIN_EXE_backcast"), args)
    }

    /// Returns a command for any program, equally hermetic.
    pub fn hermetic<A: AsRef<OsStr>>(&self, program: impl AsRef<OsStr>, args: impl IntoIterator<Item = A>) -> Command {
        let mut command = Command::new(program);
        command
            .args(args)
            .current_dir(self.root.path())
            .env_clear()
            .env("HOME", self.path("home"))
            .env("BACKCAST_CACHE", self.cache())
            .env("CI", "1")
            .env("COLUMNS", "80")
            // Starts, shows nothing and ends.
            .env("BROWSER", "true")
            .stdin(Stdio::null());
        // Shells and tools must be found.
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }

    pub fn run<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Run {
        Run::of(self.command(args))
    }

    /// Runs `stats -f json` on a path, with more arguments; it must succeed.
    pub fn stats(&self, path: impl AsRef<OsStr>, more: &[&str]) -> Value {
        let mut args = vec![
            OsStr::new("stats"),
            path.as_ref(),
            OsStr::new("--format=json"),
            OsStr::new("--quiet"),
        ];
        args.extend(more.iter().map(OsStr::new));
        self.run(args).success().json()
    }
}

impl Run {
    pub fn of(mut command: Command) -> Run {
        command.output().expect("the program starts").into()
    }

    /// Asserts status 0.
    #[track_caller]
    pub fn success(self) -> Run {
        self.ended(0)
    }

    /// Asserts the exit status.
    #[track_caller]
    pub fn ended(self, status: i32) -> Run {
        assert_eq!(self.status, Some(status), "standard error:\n{}", self.stderr);
        self
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.stdout).expect("UTF-8")
    }

    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).expect("JSON")
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Run {
        Run {
            status: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// The bundled logs.
pub fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

/// Folder of one bundled case.
pub fn case(name: &str) -> PathBuf {
    let folder = corpus().join(name);
    assert!(folder.is_dir(), "no bundled case {name}");
    folder
}

/// Names of all cases, sorted.
pub fn case_names() -> Vec<String> {
    let entries = std::fs::read_dir(corpus())
        .expect("the corpus")
        .map(|entry| entry.expect("an entry"));
    let folders = entries.filter(|entry| entry.path().is_dir());
    let mut names = folders
        .map(|entry| entry.file_name().into_string().expect("UTF-8"))
        .collect::<Vec<_>>();
    names.sort();
    names
}

/// All files below a folder, sorted, relative to it.
pub fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path.strip_prefix(folder).expect("below").to_path_buf());
            }
        }
    }
    files.sort();
    files
}

/// All logs below a folder.
pub fn logs_below(folder: &Path) -> Vec<PathBuf> {
    let logs = files_below(folder)
        .into_iter()
        .filter(|path| path.extension().is_some_and(|end| end == "jsonl"));
    logs.map(|path| folder.join(path)).collect()
}

/// All logs below a folder, exports included.
pub fn inputs_below(folder: &Path) -> Vec<PathBuf> {
    let is_export = |path: &Path| {
        path.extension().is_some_and(|end| end == "json") && path.components().any(|part| part.as_os_str() == "exports")
    };
    let files = files_below(folder).into_iter();
    let inputs = files.filter(|path| is_export(path) || path.extension().is_some_and(|end| end == "jsonl"));
    inputs.map(|path| folder.join(path)).collect()
}

/// The only log of a case.
pub fn only_log(name: &str) -> Vec<u8> {
    let logs = logs_below(&case(name));
    assert_eq!(logs.len(), 1, "{name} has several logs");
    std::fs::read(&logs[0]).expect("a log")
}

/// The six figures of an object that has them.
#[track_caller]
pub fn figures(object: &Value) -> Figures {
    FIGURES.map(|name| object[name].as_u64().unwrap_or_else(|| panic!("no {name} in {object}")))
}

/// The result of reading logs through the library, in this process.
pub struct LibraryStats {
    pub figures: Figures,
    /// Tokens in the ledger.
    pub ledger: u64,
    pub lines: u64,
    pub kinds: BTreeMap<String, u64>,
    /// Of files, lines and threads.
    pub problems: Vec<Problem>,
}

/// Reads logs through the library, as `stats` does, without a process for each run.
pub fn library_stats(path: &Path) -> LibraryStats {
    let found = discover(&[path.to_path_buf()], false).expect("the path exists");
    let options = ReadOptions {
        io: IoMode::Read,
        ..ReadOptions::default()
    };
    let table = RatioTable::built_in();
    let (summary, _) = summarize(&found.logs.into(), &options, table, false);
    let mut figures = Figures::default();
    for call in summary.calls.iter().flatten().filter(|call| !call.is_progress) {
        let tokens = &call.tokens;
        let write_5m = tokens.cache_write - tokens.cache_write_1h;
        let one = [
            1,
            tokens.input,
            tokens.output,
            tokens.cache_read,
            write_5m,
            tokens.cache_write_1h,
        ];
        add(&mut figures, &one);
    }
    LibraryStats {
        figures,
        ledger: summary.ledger.total().tokens(),
        lines: summary.facts.lines,
        kinds: summary.facts.kinds,
        problems: found.problems.into_iter().chain(summary.problems).collect(),
    }
}

/// The traces of all chains below a folder, main agents before their sub-agents.
pub fn chains(folder: &Path) -> Vec<Trace> {
    let found = discover(&[folder.to_path_buf()], false).expect("the path exists");
    let options = ReadOptions {
        io: IoMode::Read,
        ..ReadOptions::default()
    };
    let (traces, _) =
        run::Run::read(&found.logs, &options).map_sessions(|view| view.traces().cloned().collect::<Vec<_>>());
    traces.into_iter().flatten().collect()
}

fn add(sum: &mut Figures, part: &Figures) {
    for (sum, part) in std::iter::zip(sum, part) {
        *sum += part;
    }
}

/// Counts lines in a second, plain way: every line through serde_json, responses by message id. Lines that are not JSON are
/// skipped. Good for logs whose responses all have usage and no second request.
pub fn plain_count<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Figures {
    let mut responses = BTreeMap::<String, Figures>::new();
    for line in lines {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let (message, usage) = (&record["message"], &record["message"]["usage"]);
        let (Some(id), true) = (message["id"].as_str(), usage.is_object()) else {
            continue;
        };
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let hour = number(&usage["cache_creation"]["ephemeral_1h_input_tokens"]);
        let one = [
            1,
            number(&usage["input_tokens"]),
            number(&usage["output_tokens"]),
            number(&usage["cache_read_input_tokens"]),
            number(&usage["cache_creation_input_tokens"]) - hour,
            hour,
        ];
        let known = responses.entry(id.to_owned()).or_insert(one);
        if one[2] > known[2] {
            *known = one;
        }
    }
    let mut sum = Figures::default();
    for one in responses.values() {
        add(&mut sum, one);
    }
    sum
}

/// Returns planted secrets of every kind, and the part of each that must be in no output.
pub fn canaries() -> ([String; 6], [&'static str; 6]) {
    // In halves, so that no secret scanner reports this file.
    let canaries = [
        format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"),
        format!("AKIA{}", "QZ3NPT5VWX2YLMKD"),
        format!("sk-ant-{}", "api03-Zx9Qw3Er7Ty1Ui5Op2As8Df4"),
        format!("postgres://app:{}@db.internal/main", "s3cr3tpw99"),
        format!(
            "-----BEGIN {} KEY-----\nMIIEowIBAAKCAQEA7\n-----END {} KEY-----",
            "RSA PRIVATE", "RSA PRIVATE"
        ),
        format!("password = {}", "hunter2hunter2"),
    ];
    let secrets = [
        "a1B2c3D4e5",
        "QZ3NPT5VWX",
        "Zx9Qw3Er7T",
        "s3cr3tpw99",
        "MIIEowIBAAKCAQEA7",
        "hunter2hunter2",
    ];
    (canaries, secrets)
}
