//! The command line of the benchmark.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

pub const USAGE: &str = "usage: cargo bench --bench peers -- [--bytes 1GiB] [--files 2000] \
[--huge 300MiB] [--codex 300MiB] [--repeat 5] [--corpus DIR] [--fresh] [--save] [--date YYYY-MM-DD]
  --bytes, --files  size of the corpus of many files
  --huge            size of the corpus of one file; 0 leaves it out
  --codex           size of the corpus of Codex logs; 0 leaves it out
  --repeat          timed rounds
  --corpus          use this tree (DIR/projects/<slug>/<session>.jsonl) for many files
  --fresh           generate the corpora again
  --save            write benches/results/<date>-peers.md";

pub struct Options {
    pub bytes: u64,
    pub files: u64,
    pub huge: u64,
    pub codex: u64,
    pub repeat: usize,
    pub corpus: Option<PathBuf>,
    pub fresh: bool,
    pub save: bool,
    pub date: Option<String>,
    /// The arguments as typed, for the saved result.
    pub typed: String,
}

impl Options {
    pub fn parse(args: &[OsString]) -> Result<Self, String> {
        let mut options = Self {
            bytes: 1 << 30,
            files: 2000,
            huge: 300 << 20,
            codex: 300 << 20,
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
                "--bytes" | "--files" | "--huge" | "--codex" | "--repeat" | "--corpus" | "--date" => {
                    let value = words.next().ok_or_else(|| format!("{name} needs a value"))?;
                    let text = value.to_string_lossy();
                    let _ = write!(options.typed, " {text}");
                    let bad = || format!("{name} does not understand {text}");
                    match name.as_ref() {
                        "--bytes" => options.bytes = parse_size(&text).ok_or_else(bad)?,
                        "--huge" => options.huge = parse_size(&text).ok_or_else(bad)?,
                        "--codex" => options.codex = parse_size(&text).ok_or_else(bad)?,
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
