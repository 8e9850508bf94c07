//! A log that is being written: cut at any byte, its complete lines count and nothing else.

use crate::fixture::{Fixture, LibraryStats, library_stats, only_log, plain_count};
use serde_json::Value;
use std::fs::OpenOptions;
use transcript::log::LineProblemKind;
use transcript::problem::ProblemKind;

/// Cuts a log at every byte, from the end.
fn cut_everywhere(content: &[u8]) {
    let fixture = Fixture::new();
    let path = fixture.write("live.jsonl", content);
    let file = OpenOptions::new().write(true).open(&path).expect("opened");
    let mut torn_tails = 0;
    for cut in (0..=content.len()).rev() {
        file.set_len(cut as u64).expect("cut");
        torn_tails += check_cut(&content[..cut], &library_stats(&path));
    }
    let lines = content
        .split(|&byte| byte == b'\n')
        .filter(|line| !line.is_empty())
        .count();
    assert!(torn_tails > content.len() - 4 * lines, "nearly every cut tears a line");
}

/// Checks one cut. Returns how many torn tails were reported.
fn check_cut(rest: &[u8], stats: &LibraryStats) -> usize {
    let (complete, tail) = rest.split_at(
        rest.iter()
            .rposition(|&byte| byte == b'\n')
            .map_or(0, |newline| newline + 1),
    );
    // A tail that is a whole object lacks only its newline: it counts.
    let is_whole = serde_json::from_slice::<Value>(tail).is_ok_and(|value| value.is_object());
    let counted = if is_whole { rest } else { complete };
    let cut = rest.len();
    assert_eq!(
        stats.figures,
        plain_count(counted.split(|&byte| byte == b'\n')),
        "cut at {cut}"
    );
    let (torn, others): (Vec<_>, Vec<_>) = stats
        .problems
        .iter()
        .partition(|problem| problem.kind == ProblemKind::Line(LineProblemKind::TornTail));
    assert_eq!(
        torn.len(),
        usize::from(!tail.is_empty() && !is_whole),
        "cut at {cut}: {torn:?}"
    );
    assert!(
        torn.iter().all(|problem| problem.offset == Some(complete.len() as u64)),
        "cut at {cut}: {torn:?}"
    );
    assert!(others.is_empty(), "cut at {cut}: {others:?}");
    torn.len()
}

#[test]
fn a_log_cut_at_any_byte_counts_its_complete_lines() {
    cut_everywhere(&only_log("missing-request-id"));
}

#[test]
fn a_log_with_one_hour_writes_cut_at_any_byte_counts_its_complete_lines() {
    cut_everywhere(&only_log("one-hour-writes"));
}

#[test]
fn an_unfinished_last_line_is_not_lost_input() {
    let fixture = Fixture::new();
    let content = only_log("plain");
    let path = fixture.write("live.jsonl", &content[..content.len() - 100]);
    let args = ["stats", "--strict", "--problems", "--format=csv"].map(Into::into);
    let run = fixture.run(args.into_iter().chain([path.into_os_string()])).success();
    assert!(run.stderr.contains("torn-tail"), "{}", run.stderr);
}
