//! Hashes the sources that cached values depend on, so that a build never uses what another one computed and no version has
//! to be bumped by hand. The hash is the same on every machine: it depends on relative paths and contents only, and line
//! endings do not count.

use std::env;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Reading, threading and sizing of logs, and the sums of `stats`. A change anywhere else keeps the cache valid.
pub const SOURCES: [&str; 6] = [
    "crates/language/src",
    "crates/replay/src",
    "crates/transcript/src",
    "src/run",
    "src/run.rs",
    "src/usage",
];

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    println!("cargo::rerun-if-changed=build.rs");
    for source in SOURCES {
        println!("cargo::rerun-if-changed={source}");
    }
    println!(
        "cargo::rustc-env=BACKCAST_SOURCE_HASH={:016x}",
        hash_sources(&root, &SOURCES)?
    );
    Ok(())
}

/// Returns the hash of all files at and below some paths of `root`.
pub fn hash_sources(root: &Path, sources: &[&str]) -> io::Result<u64> {
    let mut files = Vec::new();
    for source in sources {
        list_files(root, source.to_string(), &mut files)?;
    }
    files.sort();
    let mut hash = Fnv1a::default();
    for file in files {
        let content = fs::read(root.join(&file)).map_err(|error| io::Error::other(format!("{file}: {error}")))?;
        let content = content.split(|&byte| byte == b'\n').collect::<Vec<_>>();
        hash.add(file.as_bytes());
        for line in &content {
            hash.add(line.strip_suffix(b"\r").unwrap_or(line));
        }
        hash.add(&(content.len() as u64).to_le_bytes());
    }
    Ok(hash.0)
}

/// Adds the files at and below `path`, relative to `root` and with `/` between their parts. Hidden files and backups of
/// editors are not sources.
fn list_files(root: &Path, path: String, files: &mut Vec<String>) -> io::Result<()> {
    if !root.join(&path).is_dir() {
        files.push(path);
        return Ok(());
    }
    for entry in fs::read_dir(root.join(&path))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with(['.', '#']) && !name.ends_with('~') {
            list_files(root, format!("{path}/{name}"), files)?;
        }
    }
    Ok(())
}

/// FNV-1a with 64 bits: good enough to tell builds apart, and no dependency of the build script.
struct Fnv1a(u64);

impl Default for Fnv1a {
    fn default() -> Fnv1a {
        Fnv1a(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv1a {
    /// Adds a piece and its length, so that pieces cannot run into each other.
    fn add(&mut self, piece: &[u8]) {
        let length = (piece.len() as u64).to_le_bytes();
        for byte in piece.iter().chain(&length) {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
