//! What `memory extract` prints of what it found: text for people, JSON, and counts. `super` finds it.

use super::{ExtractArgs, ProjectExtraction};
use crate::cli::MemoryFormat;
use crate::commands::memory::drawn::{candidate_json, rejection_json};
use crate::commands::terminal::notice;
use crate::commands::writing::fold_for_terminal;
use memory::extract::Extraction;
use memory::harvest::Harvest;
use memory::kinds::{Candidate, CandidateOrigin};
use serde_json::{Value, json};
use std::fmt::Write;
use table::human::{format_count, format_count_with_plural, group_digits};

/// Version of the fields below, named in JSON documents.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// Returns what was found, in one or two sentences.
pub(super) fn found_sentence(found: &[ProjectExtraction]) -> String {
    let count = |of: fn(&Extraction) -> usize| found.iter().map(|project| of(&project.extraction) as u64).sum::<u64>();
    let memories = count(|found| found.candidates.len());
    let waiting = count(|found| found.review.len());
    let projects = found.iter().filter(|project| !project.extraction.candidates.is_empty());
    let place = match (projects.count() as u64, found.len() as u64) {
        (0, 0) => String::new(),
        (0, all) => format!(" in {}", format_count(all, "project")),
        (some, _) => format!(" in {}", format_count(some, "project")),
    };
    let mut text = match memories {
        0 => format!("Nothing found that later sessions should know{place}.\n"),
        memories => format!(
            "{} found that later sessions should know{place}.\n",
            format_count(memories, "thing")
        ),
    };
    if waiting > 0 {
        let _ = writeln!(
            text,
            "{} less certain: `backcast memory review` with the same arguments shows them.",
            format_count_with_plural(waiting, "more is", "more are")
        );
    }
    if memories > 0 {
        text.push_str("In parentheses: type, and confidence from 0 to 1.\n");
    }
    text
}

/// Says what was not kept.
pub(super) fn print_counts(args: &ExtractArgs, found: &[ProjectExtraction]) {
    let count = |of: fn(&Extraction) -> usize| found.iter().map(|project| of(&project.extraction) as u64).sum::<u64>();
    let waiting = count(|found| found.review.len());
    let is_table = args.format.unwrap_or_default() == MemoryFormat::Table;
    if args.dry_run && !is_table {
        notice!(
            "{}, {} less certain",
            format_count_with_plural(count(|found| found.candidates.len()), "memory", "memories"),
            group_digits(waiting)
        );
    }
    if args.dry_run {
        let secrets = found
            .iter()
            .map(|project| project.extraction.secrets_dropped)
            .sum::<u64>();
        if secrets > 0 {
            notice!("{} dropped because of a secret", format_count(secrets, "statement"));
        }
    } else if waiting > 0 {
        let waiting = format_count_with_plural(waiting, "candidate is", "candidates are");
        let text = format!("{waiting} less certain: `backcast memory review` with the same arguments shows them");
        notice!("{}", fold_for_terminal(&text));
    }
}

pub(super) fn to_json_lines(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let mut lines = String::new();
    for project in found {
        let extraction = &project.extraction;
        let turned = extraction.rejections.iter().filter(|_| with_rejected);
        let kept = extraction.candidates.iter().map(candidate_json);
        for mut object in kept.chain(turned.map(rejection_json)) {
            object["project"] = project.root.as_str().into();
            lines.push_str(&to_json_line(object));
        }
    }
    lines
}

pub(super) fn to_json_document(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let all = |list: &dyn Fn(&Extraction) -> Vec<Value>| {
        let of = |project: &ProjectExtraction| {
            let mut objects = list(&project.extraction);
            for object in &mut objects {
                object["project"] = project.root.as_str().into();
            }
            objects
        };
        Value::from(found.iter().flat_map(of).collect::<Vec<_>>())
    };
    let mut document = json!({
        "schema_version": SCHEMA_VERSION,
        "kind": "memories",
        "memories": all(&|found| found.candidates.iter().map(candidate_json).collect()),
        "review": all(&|found| found.review.iter().map(candidate_json).collect()),
        "secrets_dropped": found.iter().map(|project| project.extraction.secrets_dropped).sum::<u64>(),
    });
    if with_rejected {
        document["rejected"] = all(&|found| found.rejections.iter().map(rejection_json).collect());
    }
    to_shown(|out| table::write_json(&document, out))
}

/// An object on a line of its own, with the version of its fields.
pub(super) fn to_json_line(mut object: Value) -> String {
    object["schema_version"] = SCHEMA_VERSION.into();
    to_shown(|out| table::write_json_line(&object, out))
}

/// Returns what is written, without secrets and control characters. Writing to memory never fails.
fn to_shown(write: impl Fn(&mut Vec<u8>) -> std::io::Result<()>) -> String {
    let mut out = Vec::new();
    let _ = write(&mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// For people: by project, a paragraph a memory.
pub(super) fn to_table(found: &[ProjectExtraction], with_rejected: bool) -> String {
    let mut text = String::new();
    for project in found {
        let extraction = &project.extraction;
        let has_rejected = with_rejected && !extraction.rejections.is_empty();
        if extraction.candidates.is_empty() && !has_rejected {
            continue;
        }
        let root = if project.root.is_empty() {
            "no folder in the logs"
        } else {
            &project.root
        };
        let _ = writeln!(text, "{} ({root})\n", project.name);
        for candidate in &extraction.candidates {
            let _ = writeln!(text, "{}", candidate_paragraph(candidate));
        }
        if has_rejected {
            let _ = writeln!(text, "Turned down:");
            for rejected in &extraction.rejections {
                let one_line = rejected.text.split_whitespace().collect::<Vec<_>>().join(" ");
                let _ = writeln!(text, "  {}: {one_line}", rejected.reason);
            }
            text.push('\n');
        }
    }
    text
}

/// Returns a candidate as a person reads it.
pub(in crate::commands::memory) fn candidate_paragraph(candidate: &Candidate) -> String {
    let times = candidate.sources.len();
    let said = if times > 1 {
        format!(", said {times} times")
    } else {
        String::new()
    };
    let origin = match candidate.origin {
        CandidateOrigin::Person => "",
        CandidateOrigin::Habit => ", a habit",
        CandidateOrigin::Agent => ", written by the agent",
    };
    let mut text = format!(
        "  {} ({}, {:.2}{said}{origin})\n",
        candidate.title,
        candidate.kind.name(),
        candidate.confidence
    );
    // A hook that only says the title again is one line too many; so is a body.
    let when = candidate.hook.strip_suffix(&candidate.title).unwrap_or(&candidate.hook);
    let when = when.trim_end_matches([':', ' ']);
    if !when.is_empty() {
        let _ = writeln!(text, "    {when}");
    }
    let lines = candidate.body.lines().filter(|line| !line.is_empty());
    for line in lines.filter(|line| !says_title(line, candidate)) {
        let _ = writeln!(text, "      {line}");
    }
    text
}

/// Returns whether a line of a memory is its title once more.
pub(in crate::commands::memory) fn says_title(line: &str, candidate: &Candidate) -> bool {
    line.trim_end_matches(['.', '!', '。', '！']) == candidate.title
}

pub(super) fn harvest_table(found: &Harvest) -> String {
    let mut text = String::new();
    for file in &found.files {
        let _ = writeln!(
            text,
            "{} ({}, {})",
            file.path,
            format_count(file.text.len() as u64, "byte"),
            format_count(file.sources.len() as u64, "call")
        );
    }
    for path in &found.unknown {
        let _ = writeln!(text, "{path} (edited, but never written in these logs)");
    }
    text
}
