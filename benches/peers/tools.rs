//! The peers that are installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The version of ccusage that the claims are stated against.
pub const CCUSAGE_VERSION: &str = "20.0.24";

#[derive(Clone)]
pub struct Tool {
    pub program: PathBuf,
    pub version: String,
    /// A launcher whose own memory says nothing about the peer.
    pub launcher: bool,
}

pub struct Tools {
    pub backcast: Tool,
    pub wc: Option<Tool>,
    pub ccusage: Option<Tool>,
    pub ccost: Option<Tool>,
    pub duckdb: Option<Tool>,
    pub duckdb_python: Option<Tool>,
    pub jq: Option<Tool>,
}

impl Tools {
    /// Finds peers on `PATH`; `BACKCAST_BENCH_<PEER>` names a program elsewhere.
    pub fn find() -> Self {
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

    pub fn versions(&self) -> Vec<String> {
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

    pub fn missing(&self) -> Vec<String> {
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

/// Returns the first line a program prints; `None` if it does not start, fails or prints nothing.
pub fn answer(program: &Path, args: &[&str]) -> Option<String> {
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
    // Run the launcher first: the binary is shipped without its executable bit, and the launcher sets it.
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
