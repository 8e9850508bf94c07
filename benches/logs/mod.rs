//! Logs for the benchmarks: generated once, read as a run reads them.

use backcast::input::bytes::{Io, Limits, Lines, Log as OpenLog, Packing};
use backcast::input::walk::Walker;
use backcast::session::log::Log;
use std::path::{Path, PathBuf};

const LIMITS: Limits = Limits { max_line: 32 << 20 };

/// Every log below `folder` in its small form.
pub fn parse_logs(folder: &Path) -> Vec<(PathBuf, Log)> {
    let found = backcast::input::discover::discover(&[folder.to_path_buf()], false).expect("a folder of logs");
    let parsed = found.logs.into_iter().map(|log| {
        let small = parse(&log.path);
        (log.path, small)
    });
    parsed.collect()
}

/// A log in its small form.
pub fn parse(path: &Path) -> Log {
    let mut walker = Walker::new(LIMITS.max_line, &|_| ());
    walker.expect(std::fs::metadata(path).expect("a log").len());
    each_log(path, &mut walker);
    walker.into_builder().finish()
}

/// Hands on the lines of a log.
pub fn each_log(path: &Path, lines: &mut dyn Lines) {
    let log = OpenLog::open(path, Packing::Plain, Io::Read).expect("a log");
    for part in log.parts(u64::MAX) {
        log.read(path, part, LIMITS, lines).expect("a readable log");
    }
}

/// A generated corpus below `target`, made if it is not there yet.
pub fn generated(bytes: u64, files: u32) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{bytes}-{files}"));
    if !folder.join("expected.json").exists() {
        let options = backcast::synth::BulkOptions {
            seed: 1,
            bytes,
            files,
            corruption: 0.0,
        };
        std::fs::create_dir_all(&folder).expect("a folder below target");
        let truth = backcast::synth::write_bulk(&folder, &options).expect("a corpus");
        std::fs::write(folder.join("expected.json"), truth.to_json()).expect("its truth");
    }
    folder
}
