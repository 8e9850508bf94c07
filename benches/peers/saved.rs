//! The saved result: the report with the date, the machine and the versions.

use crate::options::Options;
use crate::tools::{Tools, answer};
use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

pub fn save(options: &Options, tools: &Tools, report: &str) -> io::Result<PathBuf> {
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

pub fn cores() -> usize {
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
