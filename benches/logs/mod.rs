//! Logs for the benchmarks: generated once, read as a run reads them.

mod generated;

pub use generated::generated;
use std::path::{Path, PathBuf};
use transcript::bytes::{Compression, IoMode, LineConsumer, LogFile as OpenLog, ReadLimits};
use transcript::log::Log;
use transcript::walk::Walker;

const LIMITS: ReadLimits = ReadLimits { max_line: 32 << 20 };

/// Every log below `folder` in its small form.
pub fn parse_logs(folder: &Path) -> Vec<(PathBuf, Log)> {
    let found = transcript::discover::discover(&[folder.to_path_buf()], false).expect("a folder of logs");
    let parsed = found.logs.into_iter().map(|log| {
        let small = parse(&log.path);
        (log.path, small)
    });
    parsed.collect()
}

/// A log in its small form.
pub fn parse(path: &Path) -> Log {
    let mut walker = Walker::new(LIMITS.max_line, &|_| ());
    walker.reserve_for(std::fs::metadata(path).expect("a log").len());
    each_log(path, &mut walker);
    walker.into_builder().finish()
}

/// Hands on the lines of a log.
pub fn each_log(path: &Path, lines: &mut dyn LineConsumer) {
    let log = OpenLog::open(path, Compression::Plain, IoMode::Read).expect("a log");
    for part in log.split_ranges(u64::MAX) {
        log.read(part, LIMITS, lines).expect("a readable log");
    }
}
