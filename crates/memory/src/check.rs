//! Checks a memory directory, for CI and for people. Pure.

use crate::change::{ChangeAction, MemoryChange};
use crate::frontmatter::{FRONTMATTER_LINES, skim_frontmatter};
use crate::index::{IndexLimits, count_unloaded_lines, is_foreign_link, parse_entries};
use crate::memdir::SkippedFile;
use crate::names::{INDEX_FILE, MORE_INDEX_FILE, TEAM_FOLDER};
use crate::neighbors::related_pairs;
use crate::plan::{Snapshot, apply_changes};
use crate::similar::{Gist, MemoryRelation, is_comparable};
use crate::topic::Topic;
use std::collections::{BTreeMap, BTreeSet};
use table::findings as output;

/// Returns the kind of the first secret in a text.
pub type SecretFinder<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The kind of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MemoryFault {
    /// An index is longer than what the client loads.
    OverLimit,
    /// An entry links to a missing file.
    BrokenLink,
    /// No index lists the memory.
    NotListed,
    /// The frontmatter is not YAML or lacks a field.
    Frontmatter,
    /// The type is unknown.
    ForeignType,
    /// Two memories say the same.
    Duplicate,
    /// Two memories contradict each other.
    Contradiction,
    Secret,
    /// A file was skipped.
    PassedOver,
    /// The logs state more, or something else.
    OutOfDate,
}

impl MemoryFault {
    pub fn name(self) -> &'static str {
        match self {
            MemoryFault::OverLimit => "over-limit",
            MemoryFault::BrokenLink => "broken-link",
            MemoryFault::NotListed => "not-listed",
            MemoryFault::Frontmatter => "frontmatter",
            MemoryFault::ForeignType => "foreign-type",
            MemoryFault::Duplicate => "duplicate",
            MemoryFault::Contradiction => "contradiction",
            MemoryFault::Secret => "secret",
            MemoryFault::PassedOver => "passed-over",
            MemoryFault::OutOfDate => "out-of-date",
        }
    }
}

/// A fault in a file of the directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MemoryFinding {
    pub file: String,
    pub line: usize,
    pub fault: MemoryFault,
    pub message: String,
}

/// Checks the whole directory. Returns findings sorted by file and line.
pub fn check_snapshot(
    snapshot: &Snapshot,
    passed: &[SkippedFile],
    limits: &IndexLimits,
    secrets: SecretFinder,
) -> Vec<MemoryFinding> {
    let mut findings = Vec::new();
    let mut found = |file: &str, line: usize, fault: MemoryFault, message: String| {
        findings.push(MemoryFinding {
            file: file.to_owned(),
            line,
            fault,
            message,
        });
    };
    for passed in passed {
        found(
            &passed.file,
            1,
            MemoryFault::PassedOver,
            format!("not read: {}", passed.reason),
        );
    }
    for (folder, main, more) in [
        ("", &snapshot.index, &snapshot.more_index),
        (TEAM_FOLDER, &snapshot.team_index, &snapshot.more_team_index),
    ] {
        let texts = [(INDEX_FILE, main), (MORE_INDEX_FILE, more)];
        let texts = texts.map(|(name, text)| (format!("{folder}{name}"), text.as_deref().unwrap_or_default()));
        check_index(snapshot, &texts, folder, limits, &mut found);
        for (file, text) in &texts {
            if let Some(kind) = secrets(text) {
                found(file, 1, MemoryFault::Secret, format!("holds a secret ({kind})"));
            }
        }
    }
    for topic in &snapshot.topics {
        check_topic(topic, secrets, &mut found);
    }
    check_pairs(&snapshot.topics, &mut found);
    findings.sort();
    findings
}

/// Returns what the logs state and the directory lacks. `planned` are the changes that extraction from the logs would make.
pub fn check_against_logs(snapshot: &Snapshot, planned: &[MemoryChange]) -> Vec<MemoryFinding> {
    let finding = |file: &str, message: String| MemoryFinding {
        file: file.to_owned(),
        line: 1,
        fault: MemoryFault::OutOfDate,
        message,
    };
    let mut findings = Vec::new();
    for change in planned {
        let topic = change
            .after
            .as_ref()
            .map(|text| Topic::from_text(&change.file, 0, text));
        match (change.action, topic) {
            (ChangeAction::New, Some(topic)) => {
                findings.push(finding(
                    INDEX_FILE,
                    format!("said in a session and not here: {}", topic.name()),
                ));
            }
            (ChangeAction::Update, _) => findings.push(finding(&change.file, "said again since".to_owned())),
            (ChangeAction::Retire, _) => findings.push(finding(&change.file, change.reason.clone())),
            _ => {}
        }
    }
    let after = apply_changes(snapshot, planned);
    let mut known = BTreeSet::new();
    check_pairs(&snapshot.topics, &mut |file, _, _, message| {
        known.insert((file.to_owned(), message));
    });
    check_pairs(&after.topics, &mut |file, _, fault, message| {
        if fault == MemoryFault::Contradiction && !known.contains(&(file.to_owned(), message.clone())) {
            findings.push(finding(file, format!("with what was said since: {message}")));
        }
    });
    // A memory that does not exist yet has no line to point to.
    let new = planned.iter().filter(|change| change.action == ChangeAction::New);
    let new = new.map(|change| change.file.as_str()).collect::<BTreeSet<_>>();
    for finding in findings
        .iter_mut()
        .filter(|finding| new.contains(finding.file.as_str()))
    {
        finding.file = INDEX_FILE.to_owned();
    }
    findings.sort();
    findings.dedup();
    findings
}

type FindingSink<'a> = &'a mut dyn FnMut(&str, usize, MemoryFault, String);

/// Checks an index, and the entries that do not fit there.
fn check_index(
    snapshot: &Snapshot,
    texts: &[(String, &str); 2],
    folder: &str,
    limits: &IndexLimits,
    found: FindingSink,
) {
    let files = snapshot.topics.iter().map(|topic| topic.file.as_str());
    let files = files.collect::<BTreeSet<_>>();
    let in_folder = |file: &&&str| file.starts_with(TEAM_FOLDER) != folder.is_empty();
    let paths = files.iter().filter(in_folder).map(|file| &file[folder.len()..]);
    let paths = paths.collect::<BTreeSet<_>>();
    let (main, text) = &texts[0];
    let unloaded = count_unloaded_lines(text, limits);
    if unloaded > 0 {
        let (lines, bytes) = (text.lines().count(), text.len());
        let message = format!(
            "{lines} lines and {bytes} bytes; the client loads {} lines and {} bytes: {unloaded} lines are not loaded",
            limits.lines, limits.bytes
        );
        found(main, (lines - unloaded).max(1), MemoryFault::OverLimit, message);
    }
    let mut listed = BTreeSet::new();
    for (file, text) in texts {
        for entry in parse_entries(text)
            .into_iter()
            .filter(|entry| !is_foreign_link(&entry.file))
        {
            // A private index may link into the team's folder.
            let is_there = paths.contains(entry.file.as_str()) || files.contains(entry.file.as_str());
            if !is_there {
                let message = format!("{} is not there", entry.file);
                found(file, entry.line, MemoryFault::BrokenLink, message);
            } else if !listed.insert(entry.file.clone()) {
                let message = format!("{} is listed twice", entry.file);
                found(file, entry.line, MemoryFault::Duplicate, message);
            }
        }
    }
    for path in paths.into_iter().filter(|path| !listed.contains(*path)) {
        let message = format!("{main} does not list it");
        found(&format!("{folder}{path}"), 1, MemoryFault::NotListed, message);
    }
}

fn check_topic(topic: &Topic, secrets: SecretFinder, found: FindingSink) {
    let file = &topic.file;
    if topic.has_broken_frontmatter() {
        found(
            file,
            1,
            MemoryFault::Frontmatter,
            "the frontmatter is not YAML".to_owned(),
        );
    } else {
        for key in ["name", "description", "type"] {
            if topic.field(key).is_none_or(|value| value.trim().is_empty()) {
                found(
                    file,
                    1,
                    MemoryFault::Frontmatter,
                    format!("the frontmatter has no `{key}`"),
                );
            }
        }
        let text = topic.text();
        let late = text
            .lines()
            .skip(FRONTMATTER_LINES)
            .take_while(|line| line.trim_end() != "---");
        let is_late = topic.has_frontmatter() && late.into_iter().any(|line| line.starts_with("description:"));
        if is_late && !skim_frontmatter(&text).contains_key("description") {
            found(
                file,
                FRONTMATTER_LINES,
                MemoryFault::Frontmatter,
                format!("the description comes after line {FRONTMATTER_LINES}: recall does not see it"),
            );
        }
    }
    if let Some(kind) = topic.field("type").filter(|_| topic.kind().is_none()) {
        found(
            file,
            1,
            MemoryFault::ForeignType,
            format!("`{kind}` is not one of user, feedback, project, reference"),
        );
    }
    if let Some(kind) = secrets(&topic.text()) {
        found(file, 1, MemoryFault::Secret, format!("holds a secret ({kind})"));
    }
}

fn check_pairs(topics: &[Topic], found: FindingSink) {
    let gists = topics.iter().map(Gist::from_topic).collect::<Vec<_>>();
    let kinds = topics.iter().map(Topic::kind).collect::<Vec<_>>();
    for (at, other_at) in related_pairs(&gists) {
        let (one, other) = (&topics[at], &topics[other_at]);
        if !is_comparable(kinds[at], kinds[other_at]) {
            continue;
        }
        match gists[at].relation(&gists[other_at]) {
            MemoryRelation::Same => found(
                &other.file,
                1,
                MemoryFault::Duplicate,
                format!("says the same as {}", one.file),
            ),
            MemoryRelation::Opposite | MemoryRelation::ValueConflict => {
                found(
                    &other.file,
                    1,
                    MemoryFault::Contradiction,
                    format!("contradicts {}", one.file),
                );
            }
            MemoryRelation::Similar(_) | MemoryRelation::Unrelated => {}
        }
    }
}

/// Returns a test case per memory, and per other file that has findings.
pub fn test_cases(snapshot: &Snapshot, findings: &[MemoryFinding]) -> Vec<output::TestCase> {
    let memories = snapshot.topics.iter().map(|topic| topic.file.as_str());
    let files = memories
        .chain(findings.iter().map(|finding| finding.file.as_str()))
        .collect::<BTreeSet<_>>();
    let mut by_file = BTreeMap::<&str, Vec<&MemoryFinding>>::new();
    for finding in findings {
        by_file.entry(&finding.file).or_default().push(finding);
    }
    let case = |file: &str| {
        let faults = by_file.get(file).into_iter().flatten();
        let lines =
            faults.map(|finding| format!("line {}: {}: {}", finding.line, finding.fault.name(), finding.message));
        let lines = lines.collect::<Vec<_>>();
        output::TestCase {
            name: file.to_owned(),
            outcome: if lines.is_empty() {
                output::TestOutcome::Passed
            } else {
                output::TestOutcome::Failed(lines.join("\n"))
            },
        }
    };
    files.into_iter().map(case).collect()
}

impl MemoryFinding {
    /// Converts the finding to the common form of all checks. `folder` is prepended to the file.
    pub fn to_check_finding(&self, folder: &str) -> output::CheckFinding {
        output::CheckFinding {
            level: output::Severity::Error,
            title: self.fault.name().to_owned(),
            message: self.message.clone(),
            location: Some((format!("{folder}{}", self.file), Some(self.line as u64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::MemoryKind;

    fn faults(topics: Vec<Topic>, index: &str) -> Vec<(String, MemoryFault)> {
        let snapshot = Snapshot {
            topics,
            index: Some(index.to_owned()),
            ..Snapshot::default()
        };
        let secrets = |text: &str| text.contains("hunter2").then(|| "password".to_owned());
        let findings = check_snapshot(&snapshot, &[], &IndexLimits::default(), &secrets);
        findings
            .into_iter()
            .map(|finding| (finding.file, finding.fault))
            .collect()
    }

    fn topic(file: &str, name: &str) -> Topic {
        Topic::new(file, name, name, MemoryKind::Feedback, name)
    }

    #[test]
    fn a_good_directory_has_no_findings() {
        assert_eq!(faults(vec![topic("a.md", "Short answers")], "- [A](a.md) — b\n"), []);
    }

    #[test]
    fn every_fault_is_found() {
        let topics = vec![
            topic("a.md", "Mock the database in tests"),
            topic("b.md", "Never mock the database in tests"),
            topic("c.md", "Mock the database in the tests"),
            topic("d.md", "The password is hunter2"),
            Topic::from_text("e.md", 0, "---\nname: x\ndescription: y\ntype: recipe\n---\n"),
            Topic::from_text("f.md", 0, "---\nname: [\n---\n"),
        ];
        let index = "- [a](a.md) — x\n- [b](b.md) — x\n- [c](c.md) — x\n- [d](d.md) — x\n- [e](e.md) — x\n- [g](g.md) — x\n- [a](a.md) — x\n";
        let found = faults(topics, index);
        let expected = [
            ("MEMORY.md", MemoryFault::BrokenLink),
            ("MEMORY.md", MemoryFault::Duplicate),
            ("b.md", MemoryFault::Contradiction),
            ("c.md", MemoryFault::Contradiction),
            ("c.md", MemoryFault::Duplicate),
            ("d.md", MemoryFault::Secret),
            ("e.md", MemoryFault::ForeignType),
            ("f.md", MemoryFault::NotListed),
            ("f.md", MemoryFault::Frontmatter),
        ];
        for (file, fault) in expected {
            assert!(
                found.contains(&(file.to_owned(), fault)),
                "{file} {fault:?} in {found:?}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
        let long = faults(Vec::new(), &"text\n".repeat(300));
        assert_eq!(long, [("MEMORY.md".to_owned(), MemoryFault::OverLimit)]);
    }

    #[test]
    fn annotations_are_escaped() {
        let finding = MemoryFinding {
            file: "a,b.md".into(),
            line: 3,
            fault: MemoryFault::Secret,
            message: "x\n::error::y".into(),
        };
        assert_eq!(
            output::format_annotation(&finding.to_check_finding("mem/")),
            "::error file=mem/a%2Cb.md,line=3,title=secret::x%0A::error::y\n"
        );
    }
}
