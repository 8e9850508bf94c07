//! The corpora: generated once and kept below the target folder.

use crate::options::Options;
use crate::races::fill;
use crate::scan::SCAN_BLOCK;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The command line of the generator; words in braces are filled in.
const SYNTH: &[&str] = &[
    "synth", "bulk", "--out", "{out}", "--bytes", "{bytes}", "--files", "{files}", "--seed", "1", "--agent", "{agent}",
];

/// The agent whose logs a corpus has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CorpusAgent {
    Claude,
    Codex,
}

impl CorpusAgent {
    /// Returns the folder of its logs below the root, as the peers expect it.
    fn folder(self) -> &'static str {
        match self {
            Self::Claude => "projects",
            Self::Codex => "sessions",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
        }
    }
}

/// A folder of logs to race on.
pub struct BenchCorpus {
    pub name: &'static str,
    pub agent: CorpusAgent,
    /// The folder that holds the folder of the logs.
    pub root: PathBuf,
    pub files: Vec<(PathBuf, u64)>,
    pub bytes: u64,
    pub lines: u64,
    pub longest_line: u64,
}

impl BenchCorpus {
    pub fn logs(&self) -> PathBuf {
        self.root.join(self.agent.folder())
    }
}

/// Returns the target folder: Cargo keeps scratch files of benches in `<target>/tmp`, the corpora are next to that.
pub fn target_dir() -> PathBuf {
    let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
    tmp.parent().unwrap_or(tmp).to_path_buf()
}

pub fn corpora(options: &Options, scratch: &Path) -> io::Result<Vec<BenchCorpus>> {
    let mut corpora = Vec::new();
    corpora.push(match &options.corpus {
        Some(root) => open_corpus("given", CorpusAgent::Claude, fs::canonicalize(root)?)?,
        None => generated(
            options,
            "many",
            CorpusAgent::Claude,
            (options.bytes, options.files),
            scratch,
        )?,
    });
    if options.huge > 0 {
        corpora.push(generated(
            options,
            "huge",
            CorpusAgent::Claude,
            (options.huge, 1),
            scratch,
        )?);
    }
    if options.codex > 0 {
        let files = (options.files / 4).max(1);
        corpora.push(generated(
            options,
            "codex",
            CorpusAgent::Codex,
            (options.codex, files),
            scratch,
        )?);
    }
    Ok(corpora)
}

fn generated(
    options: &Options,
    name: &'static str,
    agent: CorpusAgent,
    (bytes, files): (u64, u64),
    scratch: &Path,
) -> io::Result<BenchCorpus> {
    let root = scratch.join(format!("{name}-{bytes}-{files}"));
    if options.fresh && root.exists() {
        fs::remove_dir_all(&root)?;
    }
    if !root.exists() {
        eprintln!("generating {name}: {bytes} bytes in {files} files");
        generate(&root, agent, bytes, files)?;
    }
    open_corpus(name, agent, root)
}

/// Generates into a temporary folder and renames it, so that an interrupted run leaves no half corpus.
/// The result is `<root>/projects/<slug>/...` for any layout of the generator.
fn generate(root: &Path, agent: CorpusAgent, bytes: u64, files: u64) -> io::Result<()> {
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
        ("{agent}", OsStr::new(agent.name())),
    ];
    let status = Command::new(env!("CARGO_BIN_EXE_backcast"))
        .args(fill(SYNTH, &words))
        .stdout(Stdio::null())
        .status()?;
    if !status.success() {
        return Err(io::Error::other(format!("the generator failed: {status}")));
    }
    if partial.join(agent.folder()).is_dir() {
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

/// Reads every file once: that warms the page cache and finds the longest line, a parameter of
/// the `DuckDB` queries.
fn open_corpus(name: &'static str, agent: CorpusAgent, root: PathBuf) -> io::Result<BenchCorpus> {
    let folder = root.join(agent.folder());
    let files = log_files(&folder)?;
    if files.is_empty() {
        let problem = format!("no logs below {}", folder.display());
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
        agent,
        root,
        files,
        bytes,
        lines,
        longest_line,
    })
}

pub fn log_files(dir: &Path) -> io::Result<Vec<(PathBuf, u64)>> {
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
