//! What the engine says of itself, on standard error: warnings and errors, or with `--verbose` everything.

use backcast::commands::terminal::print_notice;
use log::{LevelFilter, Log, Metadata, Record};

/// Prints the messages of the engine as notices.
struct EngineNotices;

impl Log for EngineNotices {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if self.enabled(record.metadata()) {
            print_notice(format_args!(
                "{} {}: {}",
                record.level(),
                record.target(),
                record.args()
            ));
        }
    }

    fn flush(&self) {}
}

/// Prints what the engine says from now on, up to this level.
pub fn print_engine_notices(level: LevelFilter) {
    log::set_max_level(level);
    // A second call finds the first one's logger, which does the same.
    let _ = log::set_logger(&EngineNotices);
}
