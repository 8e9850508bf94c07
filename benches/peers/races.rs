//! Contenders, and one race per contender and corpus.

use crate::corpora::{BenchCorpus, CorpusAgent};
use crate::duckdb::{Blocks, duckdb_query, same_fields_query};
use crate::saved::cores;
use crate::scan::SCAN;
use crate::tools::{Tool, Tools};
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The command lines of backcast; words in braces are filled in.
const STATS: &[&str] = &["stats", "--no-cache", "{logs}"];
const STATS_ONE_THREAD: &[&str] = &["stats", "--no-cache", "--threads", "1", "{logs}"];
const STATS_CACHED: &[&str] = &["stats", "--cache-dir", "{cache}", "{logs}"];

/// The command line of ccost.
const CCOST: &str = "--per session --per model --tz UTC --claude-dir {root} --output json --filename /dev/stdout";

/// jq is so slow that it gets one file in this many, once, and its time is scaled up; it stays out
/// where there are too few files to pick from.
const JQ_ONE_IN: usize = 20;

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

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
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
    pub const ALL: [Self; 13] = [
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

    pub fn name(self) -> &'static str {
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

    /// Returns whether the contender can count logs of Codex.
    pub fn reads_codex(self) -> bool {
        match self {
            Self::ScanOneThread | Self::ScanAllCores | Self::Wc => true,
            Self::Backcast | Self::BackcastOneThread | Self::BackcastCached | Self::Ccusage => true,
            Self::Ccost
            | Self::DuckdbCli
            | Self::DuckdbPython
            | Self::DuckdbSame
            | Self::DuckdbOperators
            | Self::Jq => false,
        }
    }

    /// Returns the number that the contender counted, from its output; `None` if the output has no such number.
    pub fn counted(self, output: &str) -> Option<u64> {
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

/// One contender on one corpus, and its measurements so far.
pub struct Race {
    pub contender: Contender,
    pub corpus: &'static str,
    pub program: PathBuf,
    pub args: Vec<OsString>,
    pub environment: Vec<(&'static str, OsString)>,
    pub launcher: bool,
    /// Bytes that one run reads, and the factor from its time to the time for the whole corpus.
    pub bytes: u64,
    pub scale: f64,
    pub walls: Vec<f64>,
    /// Runs with a cold page cache, which were repeated.
    pub cold: usize,
    pub anon_kib: Option<u64>,
    pub rss_kib: Option<u64>,
    pub counted: Option<u64>,
    pub failure: Option<String>,
}

impl Race {
    pub fn min(&self) -> Option<f64> {
        self.timed().and_then(|walls| walls.first().copied())
    }

    pub fn median(&self) -> Option<f64> {
        let walls = self.timed()?;
        let middle = walls.len() / 2;
        Some(if walls.len() % 2 == 1 {
            walls[middle]
        } else {
            f64::midpoint(walls[middle - 1], walls[middle])
        })
    }

    pub fn timed(&self) -> Option<Vec<f64>> {
        if self.failure.is_some() || self.walls.is_empty() {
            return None;
        }
        let mut walls: Vec<f64> = self.walls.iter().map(|wall| wall * self.scale).collect();
        walls.sort_by(f64::total_cmp);
        Some(walls)
    }
}

/// Returns the races of all contenders that are installed, on every corpus.
pub fn races(tools: &Tools, corpora: &[BenchCorpus], scratch: &Path) -> io::Result<Vec<Race>> {
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
    if corpus.agent == CorpusAgent::Codex && !contender.reads_codex() {
        return Ok(None);
    }
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
            let (variable, agent) = match corpus.agent {
                CorpusAgent::Claude => ("CLAUDE_CONFIG_DIR", "claude"),
                CorpusAgent::Codex => ("CODEX_HOME", "codex"),
            };
            environment.push((variable, corpus.root.clone().into()));
            environment.push(("HOME", home.into()));
            let args = [agent, "session", "--offline", "--json"];
            (tools.ccusage.clone(), fill(&args, &words))
        }
        Contender::Ccost => {
            environment.push(("HOME", home.into()));
            let words = [("{root}", corpus.root.as_os_str())];
            let args = CCOST.split_whitespace().collect::<Vec<_>>();
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

/// Fills in the words of a command line.
pub fn fill(template: &[&str], words: &[(&str, &OsStr)]) -> Vec<OsString> {
    let value = |arg: &&str| words.iter().find(|(word, _)| word == arg).map(|(_, value)| value);
    template
        .iter()
        .map(|arg| value(arg).map_or_else(|| arg.into(), |value| (*value).into()))
        .collect()
}

fn duckdb_cli(tools: &Tools, query: &str) -> (Option<Tool>, Vec<OsString>) {
    (tools.duckdb.clone(), fill(&["-csv", "-noheader", "-c", query], &[]))
}
