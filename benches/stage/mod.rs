//! The stages of a run as plain functions, shared by the benchmark that times them and the one that counts
//! instructions.

use crate::logs::{each_log, parse, parse_logs};
use backcast::run::{SessionView, report_session};
use backcast::usage::session::ReportOptions;
use replay::tokens::ratios::RatioTable;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use transcript::bytes::LineConsumer;
use transcript::corpus::{LogOutline, make_plan};
use transcript::json::{PullParser, RawParser, TapeParser};
use transcript::log::Log;
use transcript::pack::{PackedOutline, pack, unpack};
use transcript::record::{WireRecord, read};
use transcript::skim::PortableScanner;
use transcript::thread::SessionLog;

/// A stage of a run.
pub struct Stage {
    /// Name in tables.
    pub name: &'static str,
    /// Description in tables.
    pub about: &'static str,
    /// Runs the stage once over all logs.
    pub run: fn(&Prepared),
}

/// Logs, with the results that later stages need from earlier ones.
pub struct Prepared {
    /// Paths of the logs.
    pub paths: Vec<PathBuf>,
    /// Total size of the logs.
    pub bytes: u64,
    logs: Vec<Log>,
    packed: Vec<Vec<u8>>,
}

impl Prepared {
    /// Reads every log below `folder` once.
    pub fn new(folder: &Path) -> Prepared {
        let (paths, logs): (Vec<_>, Vec<_>) = parse_logs(folder).into_iter().unzip();
        Prepared {
            bytes: logs.iter().map(|log| log.bytes).sum(),
            packed: logs.iter().map(pack).collect(),
            logs,
            paths,
        }
    }
}

/// Calls a closure for every line.
struct EachLine<F>(F);

impl<F: FnMut(&[u8])> LineConsumer for EachLine<F> {
    fn take_lines(&mut self, bytes: &[u8], _offset: u64) {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            (self.0)(line);
        }
    }

    fn skip_long_line(&mut self, _offset: u64, _length: u64, _head: &[u8]) {}
}

/// Counts newlines.
struct Newlines(usize);

impl LineConsumer for Newlines {
    fn take_lines(&mut self, bytes: &[u8], _offset: u64) {
        self.0 += memchr::memchr_iter(b'\n', bytes).count();
    }

    fn skip_long_line(&mut self, _offset: u64, _length: u64, _head: &[u8]) {}
}

/// All stages, in the order of a run. Those in parentheses are for comparison.
pub const STAGES: &[Stage] = &[
    Stage {
        name: "newlines",
        about: "block reads and a newline count: the lower bound",
        run: |prepared| {
            for path in &prepared.paths {
                let mut newlines = Newlines(0);
                each_log(path, &mut newlines);
                black_box(newlines.0);
            }
        },
    },
    Stage {
        name: "walk",
        about: "block reads, fast-path parsing, the compact form",
        run: |prepared| {
            for path in &prepared.paths {
                black_box(parse(path));
            }
        },
    },
    Stage {
        name: "(walk, portable)",
        about: "records by the fast path without AVX2",
        run: |prepared| {
            for path in &prepared.paths {
                let mut walk = |line: &[u8]| {
                    let mut record = WireRecord::default();
                    black_box(read(&mut RawParser::<PortableScanner>::new(line, 0), &mut record).is_ok());
                };
                each_log(path, &mut EachLine(&mut walk));
            }
        },
    },
    Stage {
        name: "(skip, portable)",
        about: "every line validated, nothing read",
        run: |prepared| {
            for path in &prepared.paths {
                let mut skip = |line: &[u8]| {
                    black_box(RawParser::<PortableScanner>::new(line, 0).skip().is_ok());
                };
                each_log(path, &mut EachLine(&mut skip));
            }
        },
    },
    Stage {
        name: "(simd-json tape)",
        about: "records through simd-json, as in the slow path",
        run: |prepared| {
            let mut copy = Vec::new();
            let mut buffers = simd_json::Buffers::default();
            for path in &prepared.paths {
                let mut through_tape = |line: &[u8]| {
                    copy.clear();
                    copy.extend_from_slice(line);
                    let tape = simd_json::to_tape_with_buffers(&mut copy, &mut buffers).expect("JSON");
                    let mut record = WireRecord::default();
                    black_box(read(&mut TapeParser::new(&tape.0), &mut record).is_ok());
                };
                each_log(path, &mut EachLine(&mut through_tape));
            }
        },
    },
    Stage {
        name: "(serde_json value)",
        about: "every line as a serde_json::Value",
        run: |prepared| {
            for path in &prepared.paths {
                let mut value = |line: &[u8]| {
                    black_box(serde_json::from_slice::<serde_json::Value>(line).is_ok());
                };
                each_log(path, &mut EachLine(&mut value));
            }
        },
    },
    Stage {
        name: "pack",
        about: "the compact form packed",
        run: |prepared| {
            for log in &prepared.logs {
                black_box(pack(log));
            }
        },
    },
    Stage {
        name: "unpack",
        about: "packed logs unpacked",
        run: |prepared| {
            for packed in &prepared.packed {
                black_box(unpack(packed).is_ok());
            }
        },
    },
    Stage {
        name: "plan",
        about: "sessions planned, copies found",
        run: |prepared| {
            black_box(make_plan(&outlines(prepared)));
        },
    },
    Stage {
        name: "sessions",
        about: "unpacked, threaded, sized, summed",
        run: |prepared| {
            let outlines = outlines(prepared);
            let plan = make_plan(&outlines);
            for session in &plan.sessions {
                let parts = session.logs.iter().map(|&at| SessionLog {
                    path: outlines[at].path.clone(),
                    log: unpack(&prepared.packed[at]).expect("a packed log"),
                    copied: plan.copied[at].clone(),
                    lines: Default::default(),
                });
                let parts = parts.collect::<Vec<_>>();
                let view = SessionView::new(&session.id, &parts);
                black_box(report_session(&view, RatioTable::built_in(), &ReportOptions::default()));
            }
        },
    },
];

fn outlines(prepared: &Prepared) -> Vec<LogOutline> {
    std::iter::zip(&prepared.paths, &prepared.packed)
        .map(|(path, packed)| {
            let outline = PackedOutline::read(packed).expect("a packed log");
            LogOutline::new(path.display().to_string(), "", &outline)
        })
        .collect()
}
