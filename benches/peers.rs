//! Times `backcast stats` beside its peers on the same generated logs, in one run.
//!
//! `cargo bench --bench peers -- [--bytes 1GiB] [--files 2000] [--huge 300MiB] [--repeat 5]
//! [--corpus DIR] [--fresh] [--save] [--date YYYY-MM-DD]`
//!
//! Every contender is a whole child process with its output thrown away, so that start-up, the walk
//! over the folder and printing count for all alike. Rounds are interleaved and each starts with
//! another contender: noise of the machine hits everybody. Every timed run directly follows one of
//! the same contender that is not timed, and is repeated if the disk had to be asked for logs
//! meanwhile. One extra round goes first; it is not timed either, its output is kept, and a contender
//! that found no tokens in it is reported as failed, because doing nothing is always fast. Peers that
//! are not installed are named and left out.
//!
//! Peak memory comes from polling `/proc/<pid>/status`: `anon` is the largest `RssAnon` seen
//! (memory outside mapped pages), `rss` is `VmHWM`, which the kernel tracks exactly but which
//! includes mapped files. Where there is no `/proc` both stay empty.

#![allow(
    clippy::disallowed_methods,
    reason = "a benchmark runner reads the clock, the environment and the disk"
)]
#![allow(clippy::cast_precision_loss, reason = "sizes and token counts stay far below 2^52")]

use std::collections::BTreeMap;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The command lines of the tool under test; words in braces are filled in.
const SYNTH: &[&str] = &[
    "synth", "bulk", "--out", "{out}", "--bytes", "{bytes}", "--files", "{files}", "--seed", "1",
];
const STATS: &[&str] = &["stats", "--no-cache", "{logs}"];
const STATS_ONE_THREAD: &[&str] = &["stats", "--no-cache", "--threads", "1", "{logs}"];
const STATS_CACHED: &[&str] = &["stats", "--cache-dir", "{cache}", "{logs}"];

/// The version of ccusage that the claims are stated against.
const CCUSAGE_VERSION: &str = "20.0.24";
/// First argument of the runner when it re-executes itself as the newline scan.
const SCAN: &str = "--scan-newlines";
/// Size of one read of the newline scan.
const SCAN_BLOCK: usize = 128 << 10;
/// The scan reads into page-aligned memory. A plain `Vec` of this size starts 16 bytes into a page,
/// and some processors copy from the page cache to there six times slower (1.6 against 9.6 GB/s on
/// a Zen 3): that would make the floor slow and everything above it look good.
const PAGE: usize = 4096;
/// Piece of a file that one thread of the newline scan takes at a time.
const SCAN_PIECE: u64 = 8 << 20;
/// jq is so slow that it gets one file in this many, once, and its time is scaled up; it stays out
/// where there are too few files to pick from.
const JQ_ONE_IN: usize = 20;
/// How often memory is looked at: closely in the round that is not timed, rarely in the others.
const POLL_UNTIMED: Duration = Duration::from_millis(1);
const POLL_TIMED: Duration = Duration::from_millis(20);
/// With more than one byte in so many read from a disk, the page cache was not warm.
const COLD: u64 = 100;
/// How often a run with a cold page cache is repeated.
const PATIENCE: usize = 5;

const JQ_PROGRAM: &str = r#"
reduce (inputs | fromjson? | select(.type? == "assistant" and .message.usage != null)) as $r
  ({}; .[input_filename][$r.message.id // "?"] = $r.message.usage)
| to_entries[] | .value |= [.[]]
| {file: .key, calls: (.value | length),
   input: (.value | map(.input_tokens // 0) | add),
   outputTokens: (.value | map(.output_tokens // 0) | add),
   write: (.value | map(.cache_creation_input_tokens // 0) | add),
   read: (.value | map(.cache_read_input_tokens // 0) | add)}
"#;

const DUCKDB_SCRIPT: &str = "import sys, duckdb
for row in duckdb.sql(sys.argv[1]).fetchall():
    print(*row, sep=',')
";

const USAGE: &str = "usage: cargo bench --bench peers -- [--bytes 1GiB] [--files 2000] \
[--huge 300MiB] [--repeat 5] [--corpus DIR] [--fresh] [--save] [--date YYYY-MM-DD]
  --bytes, --files  size of the corpus of many files
  --huge            size of the corpus of one file; 0 leaves it out
  --repeat          timed rounds
  --corpus          use this tree (DIR/projects/<slug>/<session>.jsonl) for many files
  --fresh           generate the corpora again
  --save            write benches/results/<date>-peers.md";

fn main() -> ExitCode {
    let args: Vec<OsString> = env::args_os().skip(1).collect();
    if args.first().is_some_and(|arg| arg == SCAN) {
        return scan_newlines(&args[1..]);
    }
    if !args.iter().any(|arg| arg == "--bench") {
        println!("peers: timings only make sense under `cargo bench --bench peers`");
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(&args) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("peers: {problem}\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("peers: {problem}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> io::Result<()> {
    let scratch = target_dir().join("bench-corpus");
    fs::create_dir_all(&scratch)?;
    let corpora = corpora(options, &scratch)?;
    let tools = Tools::find();
    let mut races = races(&tools, &corpora, &scratch)?;
    for round in 0..=options.repeat {
        eprintln!("round {round} of {}", options.repeat);
        run_round(&mut races, round, &scratch);
    }
    let report = report(options, &tools, &corpora, &races);
    print!("{report}");
    if options.save {
        println!("\nsaved {}", save(options, &tools, &report)?.display());
    }
    Ok(())
}

// ---------------------------------------------------------------------------------------------
// What was asked for

struct Options {
    bytes: u64,
    files: u64,
    huge: u64,
    repeat: usize,
    corpus: Option<PathBuf>,
    fresh: bool,
    save: bool,
    date: Option<String>,
    /// The arguments as typed, for the saved result.
    typed: String,
}

impl Options {
    fn parse(args: &[OsString]) -> Result<Self, String> {
        let mut options = Self {
            bytes: 1 << 30,
            files: 2000,
            huge: 300 << 20,
            repeat: 5,
            corpus: None,
            fresh: false,
            save: false,
            date: None,
            typed: String::new(),
        };
        let mut words = args.iter().filter(|arg| *arg != "--bench");
        while let Some(word) = words.next() {
            let name = word.to_string_lossy();
            let _ = write!(options.typed, " {name}");
            match name.as_ref() {
                "--fresh" => options.fresh = true,
                "--save" => options.save = true,
                "--bytes" | "--files" | "--huge" | "--repeat" | "--corpus" | "--date" => {
                    let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
                    let text = value.to_string_lossy();
                    let _ = write!(options.typed, " {text}");
                    let bad = || format!("{name} does not understand {text}");
                    match name.as_ref() {
                        "--bytes" => options.bytes = parse_size(&text).ok_or_else(bad)?,
                        "--huge" => options.huge = parse_size(&text).ok_or_else(bad)?,
                        "--files" => options.files = text.parse().map_err(|_| bad())?,
                        "--repeat" => options.repeat = text.parse().map_err(|_| bad())?,
                        "--corpus" => options.corpus = Some(PathBuf::from(value)),
                        _ => options.date = Some(parse_date(&text).ok_or_else(bad)?),
                    }
                }
                _ => return Err(format!("unknown argument {name}")),
            }
        }
        if options.repeat == 0 || options.files == 0 {
            return Err("--repeat and --files must be at least 1".into());
        }
        Ok(options)
    }
}

/// `300MiB`, `60MB`, `1GiB` or a plain number of bytes.
fn parse_size(text: &str) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let unit: u64 = match text[digits..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        _ => return None,
    };
    text[..digits].parse::<u64>().ok()?.checked_mul(unit)
}

/// Only a plain date may become part of a file name.
fn parse_date(text: &str) -> Option<String> {
    let shape = |(at, c): (usize, char)| {
        if matches!(at, 4 | 7) {
            c == '-'
        } else {
            c.is_ascii_digit()
        }
    };
    (text.len() == 10 && text.chars().enumerate().all(shape)).then(|| text.to_owned())
}

// ---------------------------------------------------------------------------------------------
// The corpora

struct BenchCorpus {
    name: &'static str,
    /// The folder that holds `projects/`, as the peers expect it.
    root: PathBuf,
    files: Vec<(PathBuf, u64)>,
    bytes: u64,
    lines: u64,
    longest_line: u64,
}

impl BenchCorpus {
    fn logs(&self) -> PathBuf {
        self.root.join("projects")
    }
}

/// Cargo keeps scratch files of benches in `<target>/tmp`; the corpora live beside it.
fn target_dir() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().unwrap_or(tmp).to_path_buf()
}

fn corpora(options: &Options, scratch: &Path) -> io::Result<Vec<BenchCorpus>> {
    let mut corpora = Vec::new();
    corpora.push(match &options.corpus {
        Some(root) => open_corpus("given", fs::canonicalize(root)?)?,
        None => generated(options, "many", options.bytes, options.files, scratch)?,
    });
    if options.huge > 0 {
        corpora.push(generated(options, "huge", options.huge, 1, scratch)?);
    }
    Ok(corpora)
}

fn generated(options: &Options, name: &'static str, bytes: u64, files: u64, scratch: &Path) -> io::Result<BenchCorpus> {
    let root = scratch.join(format!("{name}-{bytes}-{files}"));
    if options.fresh && root.exists() {
        fs::remove_dir_all(&root)?;
    }
    if !root.exists() {
        eprintln!("generating {name}: {bytes} bytes in {files} files");
        generate(&root, bytes, files)?;
    }
    open_corpus(name, root)
}

/// Generates beside the final place and renames, so that an interrupted run leaves no half corpus.
/// Whatever layout the generator chose, the result is `<root>/projects/<slug>/...`.
fn generate(root: &Path, bytes: u64, files: u64) -> io::Result<()> {
    let partial = root.with_extension("partial");
    if partial.exists() {
        fs::remove_dir_all(&partial)?;
    }
    fs::create_dir_all(&partial)?;
    let (bytes, files) = (bytes.to_string(), files.to_string());
    let words = [
        ("{out}", partial.as_os_str()),
        ("{bytes}", OsStr::new(&bytes)),
        ("{files}", OsStr::new(&files)),
    ];
    let status = Command::new(env!("CARGO_BIN_EXE_backcast"))
        .args(fill(SYNTH, &words))
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("the generator failed: {status}")));
    }
    if partial.join("projects").is_dir() {
        return fs::rename(&partial, root);
    }
    let mut loose = false;
    for entry in fs::read_dir(&partial)? {
        loose |= is_log(&entry?.path());
    }
    fs::create_dir_all(root.join("projects"))?;
    let place = if loose { "projects/-bench" } else { "projects" };
    fs::rename(&partial, root.join(place))
}

fn is_log(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "jsonl")
}

/// Reads every file once: that warms the page cache and finds the longest line, which `DuckDB`
/// has to be told about.
fn open_corpus(name: &'static str, root: PathBuf) -> io::Result<BenchCorpus> {
    let files = log_files(&root.join("projects"))?;
    if files.is_empty() {
        let problem = format!("no logs below {}", root.join("projects").display());
        return Err(io::Error::new(io::ErrorKind::NotFound, problem));
    }
    let (mut lines, mut longest_line) = (0, 0);
    let mut block = vec![0; SCAN_BLOCK];
    for (path, _) in &files {
        let mut file = File::open(path)?;
        let mut line = 0;
        loop {
            let read = file.read(&mut block)?;
            if read == 0 {
                break;
            }
            let mut start = 0;
            for end in memchr::memchr_iter(b'\n', &block[..read]) {
                lines += 1;
                longest_line = longest_line.max(line + (end - start) as u64);
                (line, start) = (0, end + 1);
            }
            line += (read - start) as u64;
        }
        longest_line = longest_line.max(line);
    }
    let bytes = files.iter().map(|(_, size)| size).sum();
    Ok(BenchCorpus {
        name,
        root,
        files,
        bytes,
        lines,
        longest_line,
    })
}

fn log_files(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
    let mut files = Vec::new();
    let mut dirs = vec![dir.to_path_buf()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir)? {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_dir() {
                dirs.push(path);
            } else if is_log(&path) {
                files.push((path, entry.metadata()?.len()));
            }
        }
    }
    files.sort();
    Ok(files)
}

// ---------------------------------------------------------------------------------------------
// The newline scan: the floor that any reader of these files stands on

fn scan_newlines(args: &[OsString]) -> ExitCode {
    let [threads, dir] = args else {
        return ExitCode::from(2);
    };
    let threads = threads.to_str().and_then(|text| text.parse().ok()).unwrap_or(1);
    match count_newlines(threads, Path::new(dir)) {
        Ok(lines) => {
            println!("{lines}");
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

fn count_newlines(threads: usize, dir: &Path) -> io::Result<u64> {
    let files = log_files(dir)?;
    let pieces: Vec<(&Path, u64)> = files
        .iter()
        .flat_map(|(path, size)| {
            let starts = (0..size.div_ceil(SCAN_PIECE)).map(|piece| piece * SCAN_PIECE);
            starts.map(|start| (path.as_path(), start))
        })
        .collect();
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<u64> {
        let mut lines = 0;
        let mut memory = vec![0; SCAN_BLOCK + PAGE];
        let start = memory.as_ptr().align_offset(PAGE).min(PAGE);
        let block = &mut memory[start..start + SCAN_BLOCK];
        while let Some((path, start)) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut file = File::open(path)?;
            if *start > 0 {
                file.seek(SeekFrom::Start(*start))?;
            }
            let mut piece = file.take(SCAN_PIECE);
            loop {
                let read = piece.read(block)?;
                if read == 0 {
                    break;
                }
                lines += memchr::memchr_iter(b'\n', &block[..read]).count() as u64;
            }
        }
        Ok(lines)
    };
    if threads <= 1 {
        return work();
    }
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let mut lines = 0;
        for worker in workers {
            lines += worker
                .join()
                .map_err(|_| io::Error::other("a scan thread panicked"))??;
        }
        Ok(lines)
    })
}

// ---------------------------------------------------------------------------------------------
// The peers, as far as they are installed

#[derive(Clone)]
struct Tool {
    program: PathBuf,
    version: String,
    /// A launcher whose own memory says nothing about the peer.
    launcher: bool,
}

struct Tools {
    backcast: Tool,
    wc: Option<Tool>,
    ccusage: Option<Tool>,
    ccost: Option<Tool>,
    duckdb: Option<Tool>,
    duckdb_python: Option<Tool>,
    jq: Option<Tool>,
}

impl Tools {
    /// Peers are looked for on `PATH`; `BACKCAST_BENCH_<PEER>` names a program elsewhere.
    fn find() -> Self {
        let backcast = PathBuf::from(env!("CARGO_BIN_EXE_backcast"));
        Self {
            backcast: Tool {
                version: answer(&backcast, &["--version"]).unwrap_or_else(|| "backcast".into()),
                program: backcast,
                launcher: false,
            },
            wc: find_tool("wc", "BACKCAST_BENCH_WC", ""),
            ccusage: find_ccusage(),
            ccost: find_tool("ccost", "BACKCAST_BENCH_CCOST", "ccost "),
            duckdb: find_tool("duckdb", "BACKCAST_BENCH_DUCKDB", "DuckDB CLI "),
            duckdb_python: find_duckdb_python(),
            jq: find_tool("jq", "BACKCAST_BENCH_JQ", ""),
        }
    }

    fn versions(&self) -> Vec<String> {
        let peers = [
            &self.wc,
            &self.ccusage,
            &self.ccost,
            &self.duckdb,
            &self.duckdb_python,
            &self.jq,
        ];
        let peers = peers.into_iter().flatten();
        std::iter::once(&self.backcast)
            .chain(peers)
            .map(|tool| tool.version.clone())
            .collect()
    }

    fn missing(&self) -> Vec<String> {
        let rows = [
            (&self.wc, "wc", "system package coreutils".to_owned()),
            (
                &self.ccusage,
                "ccusage",
                format!("npm package ccusage@{CCUSAGE_VERSION}"),
            ),
            (&self.ccost, "ccost", "cargo install ccost".to_owned()),
            (&self.duckdb, "DuckDB (CLI)", "Python package duckdb-cli".to_owned()),
            (
                &self.duckdb_python,
                "DuckDB (Python)",
                "Python package duckdb".to_owned(),
            ),
            (&self.jq, "jq", "system package jq".to_owned()),
        ];
        let missing = rows.into_iter().filter(|(tool, ..)| tool.is_none());
        missing
            .map(|(_, name, source)| format!("{name:<16} not installed ({source})"))
            .collect()
    }
}

/// The first line a program prints, if it runs and succeeds.
fn answer(program: &Path, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

fn locate(name: &str, variable: &str) -> Option<PathBuf> {
    if let Some(path) = env::var_os(variable) {
        return Some(PathBuf::from(path));
    }
    let file = format!("{name}{}", env::consts::EXE_SUFFIX);
    let path = env::var_os("PATH")?;
    env::split_paths(&path)
        .map(|dir| dir.join(&file))
        .find(|path| path.is_file())
}

fn find_tool(name: &str, variable: &str, prefix: &str) -> Option<Tool> {
    let program = locate(name, variable)?;
    let version = format!("{prefix}{}", answer(&program, &["--version"])?);
    Some(Tool {
        program,
        version,
        launcher: false,
    })
}

/// The npm package is a Node launcher with a native binary in a sibling package. Racing the
/// launcher would charge ccusage for starting Node, so the binary is taken where it is found.
fn find_ccusage() -> Option<Tool> {
    let found = locate("ccusage", "BACKCAST_BENCH_CCUSAGE")?;
    // Asking first matters: the binary is shipped without its executable bit, the launcher sets it.
    let version = answer(&found, &["--version"])?;
    let real = fs::canonicalize(&found).ok()?;
    if real.extension().is_none_or(|extension| extension != "js") {
        return Some(Tool {
            program: real,
            version,
            launcher: false,
        });
    }
    let system = match env::consts::OS {
        "macos" => "darwin",
        "windows" => "win32",
        other => other,
    };
    let machine = match env::consts::ARCH {
        "x86_64" => "x64",
        "aarch64" => "arm64",
        other => other,
    };
    let binary = format!(
        "node_modules/@ccusage/ccusage-{system}-{machine}/bin/ccusage{}",
        env::consts::EXE_SUFFIX
    );
    let native = real
        .ancestors()
        .map(|dir| dir.join(&binary))
        .find(|path| answer(path, &["--version"]).is_some());
    Some(match native {
        Some(program) => Tool {
            program,
            version,
            launcher: false,
        },
        None => Tool {
            program: found,
            version: format!("{version} (launcher)"),
            launcher: true,
        },
    })
}

/// `python3` on `PATH` may be a version manager's script; the interpreter itself is raced.
fn find_duckdb_python() -> Option<Tool> {
    let python = locate("python3", "BACKCAST_BENCH_PYTHON")?;
    let program = PathBuf::from(answer(&python, &["-c", "import sys; print(sys.executable)"])?);
    let version = answer(&program, &["-c", "import duckdb; print(duckdb.__version__)"])?;
    Some(Tool {
        program,
        version: format!("DuckDB Python {version}"),
        launcher: false,
    })
}

// ---------------------------------------------------------------------------------------------
// The races

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Contender {
    ScanOneThread,
    ScanAllCores,
    Wc,
    Backcast,
    BackcastOneThread,
    BackcastCached,
    Ccusage,
    Ccost,
    DuckdbCli,
    DuckdbPython,
    DuckdbSame,
    DuckdbOperators,
    Jq,
}

impl Contender {
    const ALL: [Self; 13] = [
        Self::ScanOneThread,
        Self::ScanAllCores,
        Self::Wc,
        Self::Backcast,
        Self::BackcastOneThread,
        Self::BackcastCached,
        Self::Ccusage,
        Self::Ccost,
        Self::DuckdbCli,
        Self::DuckdbPython,
        Self::DuckdbSame,
        Self::DuckdbOperators,
        Self::Jq,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::ScanOneThread => "newline scan, 1 thread",
            Self::ScanAllCores => "newline scan, all cores",
            Self::Wc => "wc -l",
            Self::Backcast => "backcast stats",
            Self::BackcastOneThread => "backcast stats, 1 thread",
            Self::BackcastCached => "backcast stats, cached",
            Self::Ccusage => "ccusage",
            Self::Ccost => "ccost",
            Self::DuckdbCli => "DuckDB CLI, usage",
            Self::DuckdbPython => "DuckDB Python, usage",
            Self::DuckdbSame => "DuckDB, same fields",
            Self::DuckdbOperators => "DuckDB, same, ->>",
            Self::Jq => "jq (5% once, scaled)",
        }
    }

    /// What this contender's output says it counted; `None` when there is no such number in it.
    fn counted(self, output: &str) -> Option<u64> {
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
        match self {
            Self::ScanOneThread | Self::ScanAllCores => output.trim().parse().ok(),
            // One file has a line of its own, several have a last line for all.
            Self::Wc => output.lines().last()?.split_whitespace().next()?.parse().ok(),
            Self::Backcast | Self::BackcastOneThread | Self::BackcastCached => None,
            Self::Ccusage | Self::Ccost => json(output)?["totals"]["outputTokens"].as_u64(),
            Self::DuckdbCli | Self::DuckdbPython | Self::DuckdbSame | Self::DuckdbOperators => Some(
                output
                    .lines()
                    .filter_map(|row| row.split(',').nth(2)?.parse::<u64>().ok())
                    .sum(),
            ),
            Self::Jq => Some(
                output
                    .lines()
                    .filter_map(|row| json(row)?["outputTokens"].as_u64())
                    .sum(),
            ),
        }
    }
}

/// One contender on one corpus, and what was measured of it so far.
struct Race {
    contender: Contender,
    corpus: &'static str,
    program: PathBuf,
    args: Vec<OsString>,
    environment: Vec<(&'static str, OsString)>,
    launcher: bool,
    /// Bytes that one run reads, and the factor from its time to the time for the whole corpus.
    bytes: u64,
    scale: f64,
    walls: Vec<f64>,
    /// Runs with a cold page cache, which were repeated.
    cold: usize,
    anon_kib: Option<u64>,
    rss_kib: Option<u64>,
    counted: Option<u64>,
    failure: Option<String>,
}

impl Race {
    fn min(&self) -> Option<f64> {
        self.timed().and_then(|walls| walls.first().copied())
    }

    fn median(&self) -> Option<f64> {
        let walls = self.timed()?;
        let middle = walls.len() / 2;
        Some(if walls.len() % 2 == 1 {
            walls[middle]
        } else {
            f64::midpoint(walls[middle - 1], walls[middle])
        })
    }

    fn timed(&self) -> Option<Vec<f64>> {
        if self.failure.is_some() || self.walls.is_empty() {
            return None;
        }
        let mut walls: Vec<f64> = self.walls.iter().map(|wall| wall * self.scale).collect();
        walls.sort_by(f64::total_cmp);
        Some(walls)
    }
}

fn races(tools: &Tools, corpora: &[BenchCorpus], scratch: &Path) -> io::Result<Vec<Race>> {
    let home = scratch.join("home");
    fs::create_dir_all(&home)?;
    let cache = scratch.join("cache");
    if cache.exists() {
        fs::remove_dir_all(&cache)?;
    }
    let mut races = Vec::new();
    for corpus in corpora {
        let cache = cache.join(corpus.name);
        for contender in Contender::ALL {
            if let Some(race) = race(contender, corpus, tools, &home, &cache)? {
                races.push(race);
            }
        }
    }
    Ok(races)
}

/// `None` when the peer is not installed or does not take part on this corpus.
fn race(
    contender: Contender,
    corpus: &BenchCorpus,
    tools: &Tools,
    home: &Path,
    cache: &Path,
) -> io::Result<Option<Race>> {
    let logs = corpus.logs();
    let words = [("{logs}", logs.as_os_str()), ("{cache}", cache.as_os_str())];
    let myself = || -> io::Result<Tool> {
        Ok(Tool {
            program: env::current_exe()?,
            version: String::new(),
            launcher: false,
        })
    };
    let cores = cores().to_string();
    let mut environment = vec![("NO_COLOR", "1".into()), ("TZ", "UTC".into())];
    let (mut bytes, mut scale) = (corpus.bytes, 1.0);
    let (tool, args) = match contender {
        Contender::ScanOneThread => (Some(myself()?), fill(&[SCAN, "1", "{logs}"], &words)),
        Contender::ScanAllCores => (Some(myself()?), fill(&[SCAN, &cores, "{logs}"], &words)),
        Contender::Wc => {
            let files = corpus.files.iter().map(|(path, _)| path.clone().into());
            (tools.wc.clone(), std::iter::once("-l".into()).chain(files).collect())
        }
        Contender::Backcast => (Some(tools.backcast.clone()), fill(STATS, &words)),
        Contender::BackcastOneThread => (Some(tools.backcast.clone()), fill(STATS_ONE_THREAD, &words)),
        Contender::BackcastCached => (Some(tools.backcast.clone()), fill(STATS_CACHED, &words)),
        Contender::Ccusage => {
            environment.push(("CLAUDE_CONFIG_DIR", corpus.root.clone().into()));
            environment.push(("HOME", home.into()));
            let args = ["claude", "session", "--offline", "--json"];
            (tools.ccusage.clone(), fill(&args, &words))
        }
        Contender::Ccost => {
            environment.push(("HOME", home.into()));
            let words = [("{root}", corpus.root.as_os_str())];
            let args = [
                "--per",
                "session",
                "--per",
                "model",
                "--tz",
                "UTC",
                "--claude-dir",
                "{root}",
                "--output",
                "json",
                "--filename",
                "/dev/stdout",
            ];
            (tools.ccost.clone(), fill(&args, &words))
        }
        Contender::DuckdbCli => duckdb_cli(tools, &duckdb_query(corpus)),
        Contender::DuckdbSame => duckdb_cli(tools, &same_fields_query(corpus, Blocks::Typed)),
        Contender::DuckdbOperators => duckdb_cli(tools, &same_fields_query(corpus, Blocks::Operators)),
        Contender::DuckdbPython => {
            let query = duckdb_query(corpus);
            (tools.duckdb_python.clone(), fill(&["-c", DUCKDB_SCRIPT, &query], &[]))
        }
        Contender::Jq => {
            let sample: Vec<_> = corpus.files.iter().skip(JQ_ONE_IN / 2).step_by(JQ_ONE_IN).collect();
            if sample.is_empty() {
                return Ok(None);
            }
            bytes = sample.iter().map(|(_, size)| size).sum();
            scale = corpus.bytes as f64 / bytes as f64;
            let mut args = fill(&["-nRc", JQ_PROGRAM], &[]);
            args.extend(sample.iter().map(|(path, _)| path.clone().into()));
            (tools.jq.clone(), args)
        }
    };
    Ok(tool.map(|tool| Race {
        contender,
        corpus: corpus.name,
        program: tool.program,
        args,
        environment,
        launcher: tool.launcher,
        bytes,
        scale,
        walls: Vec::new(),
        cold: 0,
        anon_kib: None,
        rss_kib: None,
        counted: None,
        failure: None,
    }))
}

fn fill(template: &[&str], words: &[(&str, &OsStr)]) -> Vec<OsString> {
    let value = |arg: &&str| words.iter().find(|(word, _)| word == arg).map(|(_, value)| value);
    template
        .iter()
        .map(|arg| value(arg).map_or_else(|| arg.into(), |value| (*value).into()))
        .collect()
}

fn duckdb_cli(tools: &Tools, query: &str) -> (Option<Tool>, Vec<OsString>) {
    (tools.duckdb.clone(), fill(&["-csv", "-noheader", "-c", query], &[]))
}

/// Where the logs are and how long their lines get, as `DuckDB` is told. The line limit is no larger than the corpus needs,
/// because its buffers grow with it.
fn duckdb_source(corpus: &BenchCorpus) -> String {
    let glob = corpus
        .logs()
        .join("**")
        .join("*.jsonl")
        .to_string_lossy()
        .replace('\'', "''");
    let limit = (corpus.longest_line + 1).next_power_of_two().max(16 << 20);
    format!("'{glob}', format = 'newline_delimited', ignore_errors = true, maximum_object_size = {limit}")
}

/// The usage alone, counted once by message and request, summed by session and model. `DuckDB` is told the columns, which
/// spares it the detection: the fastest form found. It reads less than `stats` does, see [`same_fields_query`].
fn duckdb_query(corpus: &BenchCorpus) -> String {
    let source = duckdb_source(corpus);
    format!(
        "SELECT count(*), sum(input), sum(output), sum(writes), sum(reads), min(first),
  session, model
FROM (
  SELECT sessionId AS session, message.model AS model, min(timestamp) AS first,
    max(message.usage.input_tokens) AS input,
    max(message.usage.output_tokens) AS output,
    max(message.usage.cache_creation_input_tokens) AS writes,
    max(message.usage.cache_read_input_tokens) AS reads
  FROM read_json({source},
    columns = {{'type': 'VARCHAR', 'sessionId': 'VARCHAR', 'requestId': 'VARCHAR',
      'timestamp': 'VARCHAR', 'message': 'STRUCT(id VARCHAR, model VARCHAR,
        usage STRUCT(input_tokens BIGINT, output_tokens BIGINT,
        cache_creation_input_tokens BIGINT, cache_read_input_tokens BIGINT))'}})
  WHERE type = 'assistant' AND message.usage IS NOT NULL
  GROUP BY sessionId, message.model, message.id, requestId)
GROUP BY session, model ORDER BY session, model"
    )
}

/// How `DuckDB` gets at the blocks of a message. Both give the same sums.
#[derive(Clone, Copy)]
enum Blocks {
    /// With the operators of its JSON type, each of which reads the block again: how such queries are mostly written.
    Operators,
    /// Parsed once into rows of a declared type: the fastest form found.
    Typed,
}

impl Blocks {
    /// The blocks of a message, a row each.
    fn rows(self) -> String {
        match self {
            Self::Operators => "unnest(CASE json_type(message.content) WHEN 'ARRAY' THEN message.content->'$[*]'
        ELSE [json_object('text', message.content)] END)"
                .to_owned(),
            Self::Typed => {
                let texts = [
                    "type",
                    "text",
                    "thinking",
                    "signature",
                    "id",
                    "tool_use_id",
                    "name",
                    "content",
                ];
                let texts = texts.map(|name| format!("\"{name}\":\"VARCHAR\"")).join(",");
                let shape = format!("'[{{{texts},\"is_error\":\"BOOLEAN\",\"input\":\"JSON\"}}]'");
                format!(
                    "unnest(CASE json_type(message.content) WHEN 'ARRAY' THEN from_json(message.content, {shape})
        ELSE from_json(json_array(json_object('text', message.content)), {shape}) END)"
                )
            }
        }
    }

    fn field(self, name: &str) -> String {
        match self {
            Self::Operators => format!("block->>'{name}'"),
            Self::Typed => format!("block.\"{name}\""),
        }
    }

    /// An argument of a tool call.
    fn argument(self, name: &str) -> String {
        match self {
            Self::Operators => format!("block->>'$.input.{name}'"),
            Self::Typed => format!("block.\"input\"->>'{name}'"),
        }
    }
}

/// The fields that `stats` reads, all of them: beside the usage the links between records, where they were made, what kinds they
/// are, boundaries and attachments, and of every block its kind, ids, tool, arguments and length. Nothing is done with them that
/// `stats` does: no chains, no sizes, no ledger.
fn same_fields_query(corpus: &BenchCorpus, blocks: Blocks) -> String {
    let source = duckdb_source(corpus);
    let rows = blocks.rows();
    let count = |names: &[&str]| {
        let counts = names.iter().map(|name| format!("count({})", blocks.field(name)));
        counts.collect::<Vec<_>>().join(" + ")
    };
    let length = |name: &str| format!("sum(length({}))", blocks.field(name));
    let [kinds, ids, names, errors] = [&["type"][..], &["id", "tool_use_id"], &["name"], &["is_error"]].map(count);
    let [text, thinking, signature, input, content] = ["text", "thinking", "signature", "input", "content"].map(length);
    let [file, path, notebook, command, offset, limit] =
        ["file_path", "path", "notebook_path", "command", "offset", "limit"].map(|name| blocks.argument(name));
    let counts = "input_tokens BIGINT, output_tokens BIGINT, cache_creation_input_tokens BIGINT,
          cache_read_input_tokens BIGINT, cache_creation STRUCT(ephemeral_1h_input_tokens BIGINT), iterations JSON";
    let answer = format!("id VARCHAR, model VARCHAR, stop_reason VARCHAR, usage STRUCT({counts})");
    format!(
        "SELECT count(*), sum(input), sum(output), sum(writes), sum(reads), sum(hour), min(first), max(last),
  sum(blocks), sum(text), sum(thinking), sum(signatures), sum(calls), sum(results), sum(errors), sum(links), sum(names),
  sum(files), sum(commands), sum(ranges), sum(marks), sum(attached), sum(boundaries), sum(relayed),
  session, model, cwd, branch, version
FROM (
  SELECT sessionId AS session, model, cwd, gitBranch AS branch, version,
    min(timestamp) AS first, max(timestamp) AS last,
    max(usage.input_tokens) AS input, max(usage.output_tokens) AS output,
    max(usage.cache_creation_input_tokens) AS writes, max(usage.cache_read_input_tokens) AS reads,
    max(usage.cache_creation.ephemeral_1h_input_tokens) AS hour,
    {kinds} AS blocks, {text} AS text, {thinking} AS thinking, {signature} AS signatures,
    {input} AS calls, {content} AS results, {errors} AS errors,
    count(uuid) + count(parentUuid) + count(logicalParentUuid) + {ids} AS links, {names} AS names,
    count(coalesce({file}, {path}, {notebook})) AS files, count({command}) AS commands,
    count({offset}) + count({limit}) AS ranges,
    count(type) + count(subtype) + count(agentId) + count(stop_reason) + count(usage.iterations)
      + count(isSidechain) + count(isMeta) + count(isCompactSummary) + count(isApiErrorMessage) AS marks,
    sum(length(attachment)) + sum(length(content)) AS attached,
    count(compactMetadata) + count(microcompactMetadata) AS boundaries, count(data) AS relayed
  FROM (
    SELECT * EXCLUDE (message), message.id AS id, message.model AS model, message.stop_reason AS stop_reason,
      message.usage AS usage, {rows} AS block
    FROM read_json({source},
      columns = {{'uuid': 'VARCHAR', 'parentUuid': 'VARCHAR', 'logicalParentUuid': 'VARCHAR', 'sessionId': 'VARCHAR',
        'agentId': 'VARCHAR', 'version': 'VARCHAR', 'cwd': 'VARCHAR', 'gitBranch': 'VARCHAR', 'timestamp': 'VARCHAR',
        'requestId': 'VARCHAR', 'type': 'VARCHAR', 'subtype': 'VARCHAR', 'isSidechain': 'BOOLEAN', 'isMeta': 'BOOLEAN',
        'isCompactSummary': 'BOOLEAN', 'isApiErrorMessage': 'BOOLEAN', 'content': 'VARCHAR', 'attachment': 'JSON',
        'compactMetadata': 'JSON', 'microcompactMetadata': 'JSON',
        'data': 'STRUCT(\"type\" VARCHAR, agentId VARCHAR, message STRUCT(requestId VARCHAR, message STRUCT({answer})))',
        'message': 'STRUCT({answer}, content JSON)'}}))
  GROUP BY sessionId, model, cwd, gitBranch, version, id, requestId)
GROUP BY session, model, cwd, branch, version ORDER BY session, model"
    )
}

fn run_round(races: &mut [Race], round: usize, scratch: &Path) {
    let count = races.len();
    for turn in 0..count {
        let race = &mut races[(turn + round) % count];
        let once = race.contender == Contender::Jq;
        if race.failure.is_some() || (once && round > 1) {
            continue;
        }
        let outcome = if round == 0 {
            rehearse(race, scratch)
        } else {
            time(race)
        };
        if let Err(problem) = outcome {
            race.failure = Some(problem.to_string());
        }
    }
}

/// Times one run, directly after one that is thrown away. On a virtual machine the first process to
/// use much memory after a pause pays for the host handing it back; without the first run, peers
/// that read whole files into memory look twice as slow as they are.
fn time(race: &mut Race) -> io::Result<()> {
    if race.contender != Contender::Jq {
        measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
    }
    let mut cold = 0;
    let (wall, status) = loop {
        let (wall, status, is_warm) = measure_warmth(race)?;
        if is_warm {
            break (wall, status);
        }
        cold += 1;
        if cold > PATIENCE {
            return Err(io::Error::other("its logs do not stay in the page cache"));
        }
    };
    race.cold += cold;
    race.walls.push(wall.as_secs_f64());
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(status.to_string()))
    }
}

/// Runs the contender once, and says whether its logs were in memory: some systems take pages back
/// from the cache while they are used, and a run that waits for a disk says nothing about the
/// contender.
fn measure_warmth(race: &mut Race) -> io::Result<(Duration, ExitStatus, bool)> {
    let before = read_from_disks();
    let (wall, status) = measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
    let read = read_from_disks().saturating_sub(before);
    Ok((wall, status, read <= race.bytes / COLD))
}

/// Bytes read from disks since the system was started, for whomever; 0 where it does not tell.
fn read_from_disks() -> u64 {
    let told = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let kibibytes = told
        .lines()
        .find_map(|line| line.strip_prefix("pgpgin ")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

/// The round that is not timed: output is kept and looked at, memory is watched closely.
fn rehearse(race: &mut Race, scratch: &Path) -> io::Result<()> {
    if race.contender == Contender::BackcastCached {
        // The run that fills the cache is not the one whose memory is reported here.
        measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
        (race.anon_kib, race.rss_kib) = (None, None);
    }
    let (out, err) = (scratch.join("stdout.txt"), scratch.join("stderr.txt"));
    let (_, status) = measure(
        race,
        File::create(&out)?.into(),
        File::create(&err)?.into(),
        POLL_UNTIMED,
    )?;
    let output = String::from_utf8_lossy(&fs::read(&out)?).into_owned();
    race.counted = race.contender.counted(&output);
    if !status.success() {
        let complaint = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
        let last = complaint.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("no message").trim();
        return Err(io::Error::other(format!("{status}: {last}")));
    }
    if output.trim().is_empty() || race.counted == Some(0) {
        return Err(io::Error::other("found nothing in the corpus"));
    }
    Ok(())
}

/// Runs the contender once. The wall clock stops at the blocking wait, never at a poll.
fn measure(race: &mut Race, stdout: Stdio, stderr: Stdio, poll: Duration) -> io::Result<(Duration, ExitStatus)> {
    let mut command = Command::new(&race.program);
    command
        .args(&race.args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    command.envs(race.environment.iter().map(|(name, value)| (name, value)));
    let (anon, rss) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let (wall, status) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let text = fs::read_to_string(&status_file).unwrap_or_default();
                anon.fetch_max(status_kib(&text, "RssAnon:"), Ordering::Relaxed);
                rss.fetch_max(status_kib(&text, "VmHWM:"), Ordering::Relaxed);
                thread::park_timeout(poll);
            }
        });
        let status = child.wait();
        let wall = start.elapsed();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        (wall, status)
    });
    if !race.launcher {
        let seen = |cell: AtomicU64| Some(cell.into_inner()).filter(|kib| *kib > 0);
        race.anon_kib = race.anon_kib.max(seen(anon));
        race.rss_kib = race.rss_kib.max(seen(rss));
    }
    Ok((wall, status?))
}

fn status_kib(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

// ---------------------------------------------------------------------------------------------
// The report

struct Claim {
    text: String,
    bound: Bound,
    required: f64,
    aim: Option<f64>,
    unit: &'static str,
    measured: Option<f64>,
    by_min: Option<f64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    AtLeast,
    AtMost,
    Below,
}

impl Bound {
    fn sign(self) -> &'static str {
        match self {
            Self::AtLeast => ">=",
            Self::AtMost => "<=",
            Self::Below => "<",
        }
    }
}

impl Claim {
    fn verdict(&self) -> &'static str {
        let meets = |value: f64, limit: f64| match self.bound {
            Bound::AtLeast => value >= limit,
            Bound::AtMost => value <= limit,
            Bound::Below => value < limit,
        };
        match self.measured {
            None => "not run",
            Some(value) if !meets(value, self.required) => "short",
            Some(value) if self.aim.is_some_and(|aim| meets(value, aim)) => "ok, aim met",
            Some(_) => "ok",
        }
    }
}

fn report(options: &Options, tools: &Tools, corpora: &[BenchCorpus], races: &[Race]) -> String {
    let mut text = String::new();
    for corpus in corpora {
        let _ = writeln!(
            text,
            "corpus {}: {} files, {:.1} MB, {} lines, longest {} bytes",
            corpus.name,
            corpus.files.len(),
            corpus.bytes as f64 / 1e6,
            corpus.lines,
            corpus.longest_line
        );
    }
    let cold = races.iter().map(|race| race.cold).sum::<usize>();
    let _ = writeln!(
        text,
        "{} timed rounds, interleaved, page cache warm ({cold} runs that were not were repeated)\n",
        options.repeat
    );
    text.push_str(&table(races));
    for line in tools.missing() {
        let _ = writeln!(text, "{line}");
    }
    for race in races {
        if let Some(failure) = &race.failure {
            let failure: String = failure.chars().take(60).collect();
            let _ = writeln!(text, "{} on {}: {failure}", race.contender.name(), race.corpus);
        }
    }
    if tools
        .ccusage
        .as_ref()
        .is_some_and(|tool| !tool.version.contains(CCUSAGE_VERSION))
    {
        let _ = writeln!(text, "the claims are stated against ccusage {CCUSAGE_VERSION}");
    }
    text.push('\n');
    text.push_str(&claim_table(&claims(corpora, races)));
    text.push_str(&counted_table(races));
    text
}

fn table(races: &[Race]) -> String {
    let mut text = format!(
        "{:<24} {:<6} {:>8} {:>8} {:>6} {:>7} {:>6} {:>6}\n",
        "contender", "corpus", "min s", "median", "GB/s", "ratio", "anon", "rss"
    );
    let mib = |kib: Option<u64>| kib.map_or("-".into(), |kib| format!("{:.1}", kib as f64 / 1024.0));
    for race in races {
        let (Some(min), Some(median)) = (race.min(), race.median()) else {
            let _ = writeln!(text, "{:<24} {:<6} {:>8}", race.contender.name(), race.corpus, "failed");
            continue;
        };
        let base = find(races, race.corpus, Contender::Backcast).and_then(Race::median);
        let ratio = base.map_or("-".into(), |base| times(median / base));
        let _ = writeln!(
            text,
            "{:<24} {:<6} {min:>8.4} {median:>8.4} {:>6.2} {ratio:>7} {:>6} {:>6}",
            race.contender.name(),
            race.corpus,
            race.bytes as f64 * race.scale / median / 1e9,
            mib(race.anon_kib),
            mib(race.rss_kib),
        );
    }
    text.push_str("ratio: median wall time over that of `backcast stats`; anon, rss: peak MiB\n");
    text
}

/// Two decimals where they mean something.
fn times(ratio: f64) -> String {
    if ratio < 100.0 {
        format!("{ratio:.2}x")
    } else {
        format!("{ratio:.0}x")
    }
}

fn find<'a>(races: &'a [Race], corpus: &str, contender: Contender) -> Option<&'a Race> {
    races
        .iter()
        .find(|race| race.corpus == corpus && race.contender == contender)
}

fn claims(corpora: &[BenchCorpus], races: &[Race]) -> Vec<Claim> {
    use Bound::{AtLeast, AtMost, Below};
    use Contender as C;

    let many = corpora.first().map_or("many", |corpus| corpus.name);
    let ratio = |corpus: &str, slow: Contender, fast: Contender, time: fn(&Race) -> Option<f64>| {
        Some(time(find(races, corpus, slow)?)? / time(find(races, corpus, fast)?)?)
    };
    let claim = |text: &str, corpus: &str, slow, fast, bound, required, aim| Claim {
        text: format!("{text}, {corpus}"),
        bound,
        required,
        aim,
        unit: "x",
        measured: ratio(corpus, slow, fast, Race::median),
        by_min: ratio(corpus, slow, fast, Race::min),
    };
    let mut claims = vec![
        claim(
            "ccusage / backcast",
            many,
            C::Ccusage,
            C::Backcast,
            AtLeast,
            4.0,
            Some(7.0),
        ),
        claim(
            "ccusage / backcast",
            "huge",
            C::Ccusage,
            C::Backcast,
            AtLeast,
            10.0,
            Some(18.0),
        ),
    ];
    // The fastest query that was found for it, and the one that people write.
    for (text, query) in [
        ("DuckDB, same fields / backcast", C::DuckdbSame),
        ("DuckDB, same, ->> / backcast", C::DuckdbOperators),
    ] {
        claims.push(claim(text, many, query, C::Backcast, AtLeast, 15.0, Some(20.0)));
    }
    // The scan of this runner is as fast as we can make one; the other is the one that people have.
    for (text, scan) in [
        ("1 thread / newline scan", C::ScanOneThread),
        ("1 thread / wc -l", C::Wc),
    ] {
        for corpus in [many, "huge"] {
            let one = C::BackcastOneThread;
            claims.push(claim(text, corpus, one, scan, AtMost, 2.5, Some(1.7)));
        }
    }
    claims.push(claim(
        "backcast / cached",
        many,
        C::Backcast,
        C::BackcastCached,
        AtLeast,
        10.0,
        None,
    ));
    for corpus in [many, "huge"] {
        let ours = [C::Backcast, C::BackcastOneThread, C::BackcastCached];
        let peak = ours
            .iter()
            .filter_map(|ours| find(races, corpus, *ours)?.anon_kib)
            .max();
        claims.push(Claim {
            text: format!("peak memory outside maps, {corpus}"),
            bound: Below,
            required: 64.0,
            aim: None,
            unit: " MiB",
            measured: peak.map(|kib| kib as f64 / 1024.0),
            by_min: None,
        });
    }
    claims
}

fn claim_table(claims: &[Claim]) -> String {
    let mut text = format!(
        "{:<36} {:>9} {:>6} {:>10} {:>7}  {}\n",
        "claim", "required", "aim", "measured", "by min", "verdict"
    );
    for claim in claims {
        let show = |value: Option<f64>, unit: &str| value.map_or("-".to_owned(), |value| format!("{value:.2}{unit}"));
        let aim = claim.aim.map_or("-".to_owned(), |aim| format!("{aim}{}", claim.unit));
        let _ = writeln!(
            text,
            "{:<36} {:>9} {aim:>6} {:>10} {:>7}  {}",
            claim.text,
            format!("{} {}{}", claim.bound.sign(), claim.required, claim.unit.trim()),
            show(claim.measured, claim.unit),
            show(claim.by_min, claim.unit),
            claim.verdict()
        );
    }
    text
}

/// The peers follow different rules on what counts once, so these need not agree; but a peer that
/// counted next to nothing was not racing.
fn counted_table(races: &[Race]) -> String {
    let mut by_corpus: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for race in races.iter().filter(|race| race.contender >= Contender::Ccusage) {
        if let Some(tokens) = race.counted {
            let sampled = race.contender == Contender::Jq;
            let part = if sampled { " in its sample" } else { "" };
            let line = format!("  {:<24} {tokens:>14}{part}", race.contender.name());
            by_corpus.entry(race.corpus).or_default().push(line);
        }
    }
    let mut text = String::new();
    for (corpus, lines) in by_corpus {
        let _ = writeln!(text, "\noutput tokens found in {corpus}, each by its own rules");
        text.push_str(&lines.join("\n"));
        text.push('\n');
    }
    text
}

// ---------------------------------------------------------------------------------------------
// The saved result

fn save(options: &Options, tools: &Tools, report: &str) -> io::Result<PathBuf> {
    let date = options.date.clone().unwrap_or_else(today);
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches").join("results");
    fs::create_dir_all(&results)?;
    let mut text = format!("# Peers, {date}\n\n");
    let _ = writeln!(text, "`cargo bench --bench peers --{}`\n", options.typed);
    for (name, value) in machine() {
        let _ = writeln!(text, "- {name}: {value}");
    }
    let _ = writeln!(text, "- versions: {}\n", tools.versions().join(", "));
    let _ = writeln!(text, "```text\n{}\n```", report.trim_end());
    // A second run on one day is a result of its own.
    for number in 1.. {
        let suffix = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let path = results.join(format!("{date}-peers{suffix}.md"));
        match File::create_new(&path) {
            Ok(mut file) => {
                io::Write::write_all(&mut file, text.as_bytes())?;
                return Ok(path);
            }
            Err(problem) if problem.kind() == io::ErrorKind::AlreadyExists => {}
            Err(problem) => return Err(problem),
        }
    }
    unreachable!("some number is free")
}

fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

fn machine() -> Vec<(&'static str, String)> {
    let field = |file: &str, name: &str| {
        let text = fs::read_to_string(file).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':'))
            .map(|(_, value)| value.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let memory =
        field("/proc/meminfo", "MemTotal").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    vec![
        ("cores", cores().to_string()),
        ("cpu", field("/proc/cpuinfo", "model name").unwrap_or_else(unknown)),
        (
            "memory",
            memory.map_or_else(unknown, |kib| format!("{:.1} GiB", kib / 1_048_576.0)),
        ),
        ("system", format!("{} {}", env::consts::OS, env::consts::ARCH)),
        ("compiler", answer(Path::new(&rustc), &["-V"]).unwrap_or_else(unknown)),
    ]
}

/// The date of today in UTC.
fn today() -> String {
    let seconds = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    // Days are counted in eras of 400 years that begin on the first of March.
    let days = seconds / 86_400 + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let date = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{date:02}")
}
