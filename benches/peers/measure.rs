//! Runs a contender as a child process and measures its time and memory.

use crate::races::{Contender, Race};
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How often memory is polled: often in the round that is not timed, rarely in the others.
const POLL_UNTIMED: Duration = Duration::from_millis(1);
const POLL_TIMED: Duration = Duration::from_millis(20);

/// With more than one byte in so many read from a disk, the page cache was not warm.
const COLD: u64 = 100;

/// How often a run with a cold page cache is repeated.
const PATIENCE: usize = 5;

/// Runs every race once, starting with another one each round. Round 0 is not timed.
pub fn run_round(races: &mut [Race], round: usize, scratch: &Path) {
    let count = races.len();
    for turn in 0..count {
        let race = &mut races[(turn + round) % count];
        let once = race.contender == Contender::Jq;
        if race.failure.is_some() || (once && round > 1) {
            continue;
        }
        let outcome = if round == 0 {
            rehearse(race, scratch)
        } else {
            time(race)
        };
        if let Err(problem) = outcome {
            race.failure = Some(problem.to_string());
        }
    }
}

/// Times one run, directly after one that is thrown away. On a virtual machine the first process to
/// use much memory after a pause pays for the host handing it back; without the first run, peers
/// that read whole files into memory look twice as slow as they are.
fn time(race: &mut Race) -> io::Result<()> {
    if race.contender != Contender::Jq {
        measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
    }
    let mut cold = 0;
    let (wall, status) = loop {
        let (wall, status, is_warm) = measure_warmth(race)?;
        if is_warm {
            break (wall, status);
        }
        cold += 1;
        if cold > PATIENCE {
            return Err(io::Error::other("its logs do not stay in the page cache"));
        }
    };
    race.cold += cold;
    race.walls.push(wall.as_secs_f64());
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(status.to_string()))
    }
}

/// Runs the contender once, and says whether its logs were in memory: some systems take pages back
/// from the cache while they are used, and a run that waits for a disk says nothing about the
/// contender.
fn measure_warmth(race: &mut Race) -> io::Result<(Duration, ExitStatus, bool)> {
    let before = read_from_disks();
    let (wall, status) = measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
    let read = read_from_disks().saturating_sub(before);
    Ok((wall, status, read <= race.bytes / COLD))
}

/// Returns the bytes that all processes read from disks since the system was started; 0 where that is not known.
fn read_from_disks() -> u64 {
    let counters = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let kibibytes = counters
        .lines()
        .find_map(|line| line.strip_prefix("pgpgin ")?.parse::<u64>().ok());
    kibibytes.unwrap_or(0) << 10
}

/// The round that is not timed: output is kept and looked at, memory is watched closely.
fn rehearse(race: &mut Race, scratch: &Path) -> io::Result<()> {
    if race.contender == Contender::BackcastCached {
        // The run that fills the cache is not the one whose memory is reported here.
        measure(race, Stdio::null(), Stdio::null(), POLL_TIMED)?;
        (race.anon_kib, race.rss_kib) = (None, None);
    }
    let (out, err) = (scratch.join("stdout.txt"), scratch.join("stderr.txt"));
    let (_, status) = measure(
        race,
        File::create(&out)?.into(),
        File::create(&err)?.into(),
        POLL_UNTIMED,
    )?;
    let output = String::from_utf8_lossy(&fs::read(&out)?).into_owned();
    race.counted = race.contender.counted(&output);
    if !status.success() {
        let complaint = String::from_utf8_lossy(&fs::read(&err)?).into_owned();
        let last = complaint.lines().rfind(|line| !line.trim().is_empty());
        let last = last.unwrap_or("no message").trim();
        return Err(io::Error::other(format!("{status}: {last}")));
    }
    if output.trim().is_empty() || race.counted == Some(0) {
        return Err(io::Error::other("found nothing in the corpus"));
    }
    Ok(())
}

/// Runs the contender once. The wall clock stops at the blocking wait, never at a poll.
fn measure(race: &mut Race, stdout: Stdio, stderr: Stdio, poll: Duration) -> io::Result<(Duration, ExitStatus)> {
    let mut command = Command::new(&race.program);
    command
        .args(&race.args)
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(stderr);
    command.envs(race.environment.iter().map(|(name, value)| (name, value)));
    let (anon, rss) = (AtomicU64::new(0), AtomicU64::new(0));
    let done = AtomicBool::new(false);
    let start = Instant::now();
    let mut child = command.spawn()?;
    let status_file = format!("/proc/{}/status", child.id());
    let (wall, status) = thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            while !done.load(Ordering::Acquire) {
                let text = fs::read_to_string(&status_file).unwrap_or_default();
                anon.fetch_max(status_kib(&text, "RssAnon:"), Ordering::Relaxed);
                rss.fetch_max(status_kib(&text, "VmHWM:"), Ordering::Relaxed);
                thread::park_timeout(poll);
            }
        });
        let status = child.wait();
        let wall = start.elapsed();
        done.store(true, Ordering::Release);
        watcher.thread().unpark();
        (wall, status)
    });
    if !race.launcher {
        let seen = |cell: AtomicU64| Some(cell.into_inner()).filter(|kib| *kib > 0);
        race.anon_kib = race.anon_kib.max(seen(anon));
        race.rss_kib = race.rss_kib.max(seen(rss));
    }
    Ok((wall, status?))
}

fn status_kib(status: &str, field: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
