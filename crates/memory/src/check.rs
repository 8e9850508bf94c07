//! What is wrong with a memory directory: for CI, and for people. Pure.

use crate::change::{Action, Change};
use crate::index;
use crate::index::{Limits, entries, is_elsewhere};
use crate::memdir::Passed;
use crate::names::{INDEX, TEAM};
use crate::plan::{Snapshot, applied};
use crate::similar::{Gist, Relation, comparable};
use crate::topic::{FRONT_LINES, Topic};
use std::collections::BTreeSet;
use table::findings as output;

/// The kind of secret in a text, if there is any.
pub type FindSecret<'a> = &'a dyn Fn(&str) -> Option<String>;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// An index is over what is loaded.
    OverLimit,
    /// An entry points to a file that is not there.
    BrokenLink,
    /// A memory that no index lists.
    NotListed,
    /// Frontmatter that cannot be read, or lacks a field.
    Frontmatter,
    /// A type that is none of the four.
    ForeignType,
    /// Two memories say the same.
    Duplicate,
    /// Two memories contradict each other.
    Contradiction,
    /// A secret.
    Secret,
    /// A file that is not read.
    PassedOver,
    /// The logs say more, or otherwise.
    OutOfDate,
}

impl Fault {
    /// Name in outputs.
    pub fn name(self) -> &'static str {
        match self {
            Fault::OverLimit => "over-limit",
            Fault::BrokenLink => "broken-link",
            Fault::NotListed => "not-listed",
            Fault::Frontmatter => "frontmatter",
            Fault::ForeignType => "foreign-type",
            Fault::Duplicate => "duplicate",
            Fault::Contradiction => "contradiction",
            Fault::Secret => "secret",
            Fault::PassedOver => "passed-over",
            Fault::OutOfDate => "out-of-date",
        }
    }
}

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// In which file.
    pub file: String,
    /// In which line.
    pub line: usize,
    /// What.
    pub fault: Fault,
    /// In words.
    pub message: String,
}

/// Looks at everything. Findings come by file and line.
pub fn check(snapshot: &Snapshot, passed: &[Passed], limits: &Limits, secrets: FindSecret) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut found = |file: &str, line: usize, fault: Fault, message: String| {
        findings.push(Finding {
            file: file.to_owned(),
            line,
            fault,
            message,
        });
    };
    for passed in passed {
        found(&passed.file, 1, Fault::PassedOver, format!("not read: {}", passed.why));
    }
    let team_index = format!("{TEAM}{INDEX}");
    for (file, text, folder) in [
        (INDEX, &snapshot.index, ""),
        (team_index.as_str(), &snapshot.team_index, TEAM),
    ] {
        check_index(snapshot, file, text.as_deref(), folder, limits, &mut found);
        if let Some(kind) = text.as_deref().and_then(secrets) {
            found(file, 1, Fault::Secret, format!("holds a secret ({kind})"));
        }
    }
    for topic in &snapshot.topics {
        check_topic(topic, secrets, &mut found);
    }
    check_pairs(&snapshot.topics, &mut found);
    findings.sort();
    findings
}

/// What the directory lacks of what logs say: `planned` is what taking them in would change.
pub fn against_logs(snapshot: &Snapshot, planned: &[Change]) -> Vec<Finding> {
    let finding = |file: &str, message: String| Finding {
        file: file.to_owned(),
        line: 1,
        fault: Fault::OutOfDate,
        message,
    };
    let mut findings = Vec::new();
    for change in planned {
        let topic = change.after.as_ref().map(|text| Topic::read(&change.file, 0, text));
        match (change.action, topic) {
            (Action::New, Some(topic)) => {
                findings.push(finding(
                    INDEX,
                    format!("said in a session and not here: {}", topic.name()),
                ));
            }
            (Action::Update, _) => findings.push(finding(&change.file, "said again since".to_owned())),
            (Action::Retire, _) => findings.push(finding(&change.file, change.reason.clone())),
            _ => {}
        }
    }
    let after = applied(snapshot, planned);
    let mut known = BTreeSet::new();
    check_pairs(&snapshot.topics, &mut |file, _, _, message| {
        known.insert((file.to_owned(), message));
    });
    check_pairs(&after.topics, &mut |file, _, fault, message| {
        if fault == Fault::Contradiction && !known.contains(&(file.to_owned(), message.clone())) {
            findings.push(finding(file, format!("with what was said since: {message}")));
        }
    });
    // What is not there yet has no line to point to.
    let is_new = |file: &str| {
        planned
            .iter()
            .any(|change| change.action == Action::New && change.file == file)
    };
    for finding in findings.iter_mut().filter(|finding| is_new(&finding.file)) {
        finding.file = INDEX.to_owned();
    }
    findings.sort();
    findings.dedup();
    findings
}

type Report<'a> = &'a mut dyn FnMut(&str, usize, Fault, String);

fn check_index(snapshot: &Snapshot, file: &str, text: Option<&str>, folder: &str, limits: &Limits, found: Report) {
    let in_folder = |topic: &&Topic| topic.file.starts_with(TEAM) != folder.is_empty();
    let paths = snapshot
        .topics
        .iter()
        .filter(in_folder)
        .map(|topic| &topic.file[folder.len()..])
        .collect::<BTreeSet<_>>();
    let text = text.unwrap_or_default();
    let (lines, bytes) = (text.lines().count(), text.len());
    if lines > limits.lines || bytes > limits.bytes {
        let message = format!(
            "{lines} lines and {bytes} bytes; {} and {} are loaded",
            limits.lines, limits.bytes
        );
        found(file, limits.lines.min(lines), Fault::OverLimit, message);
    }
    let mut listed = BTreeSet::new();
    for entry in entries(text) {
        if is_elsewhere(&entry.file) {
            continue;
        }
        // A private index may point into the team's folder.
        let is_there =
            paths.contains(entry.file.as_str()) || snapshot.topics.iter().any(|topic| topic.file == entry.file);
        if !is_there {
            found(
                file,
                entry.line,
                Fault::BrokenLink,
                format!("{} is not there", entry.file),
            );
        } else if !listed.insert(entry.file.clone()) {
            found(
                file,
                entry.line,
                Fault::Duplicate,
                format!("{} is listed twice", entry.file),
            );
        }
    }
    let is_cut = index::is_cut(text);
    for path in paths.into_iter().filter(|path| !listed.contains(*path) && !is_cut) {
        found(
            &format!("{folder}{path}"),
            1,
            Fault::NotListed,
            format!("{file} does not list it"),
        );
    }
}

fn check_topic(topic: &Topic, secrets: FindSecret, found: Report) {
    let file = &topic.file;
    if topic.is_broken() {
        found(file, 1, Fault::Frontmatter, "the frontmatter is not YAML".to_owned());
    } else {
        for key in ["name", "description", "type"] {
            if topic.field(key).is_none_or(|value| value.trim().is_empty()) {
                found(file, 1, Fault::Frontmatter, format!("the frontmatter has no `{key}`"));
            }
        }
        let text = topic.text();
        let late = text
            .lines()
            .skip(FRONT_LINES)
            .take_while(|line| line.trim_end() != "---");
        let is_late = topic.has_front() && late.into_iter().any(|line| line.starts_with("description:"));
        if is_late && !super::topic::skim_front(&text).contains_key("description") {
            found(
                file,
                FRONT_LINES,
                Fault::Frontmatter,
                format!("the description comes after line {FRONT_LINES}: recall does not see it"),
            );
        }
    }
    if let Some(kind) = topic.field("type").filter(|_| topic.kind().is_none()) {
        found(
            file,
            1,
            Fault::ForeignType,
            format!("`{kind}` is none of user, feedback, project, reference"),
        );
    }
    if let Some(kind) = secrets(&topic.text()) {
        found(file, 1, Fault::Secret, format!("holds a secret ({kind})"));
    }
}

fn check_pairs(topics: &[Topic], found: Report) {
    let gists = topics.iter().map(Gist::of).collect::<Vec<_>>();
    for (at, one) in topics.iter().enumerate() {
        for (offset, other) in topics[at + 1..].iter().enumerate() {
            if !comparable(one.kind(), other.kind()) {
                continue;
            }
            match gists[at].relation(&gists[at + 1 + offset]) {
                Relation::Same => found(
                    &other.file,
                    1,
                    Fault::Duplicate,
                    format!("says the same as {}", one.file),
                ),
                Relation::Opposite | Relation::OtherValue => {
                    found(
                        &other.file,
                        1,
                        Fault::Contradiction,
                        format!("contradicts {}", one.file),
                    );
                }
                Relation::Alike(_) | Relation::Apart => {}
            }
        }
    }
}

/// A test a file: every memory, and whatever else has a finding.
pub fn cases(snapshot: &Snapshot, findings: &[Finding]) -> Vec<output::Case> {
    let memories = snapshot.topics.iter().map(|topic| topic.file.as_str());
    let files = memories
        .chain(findings.iter().map(|finding| finding.file.as_str()))
        .collect::<BTreeSet<_>>();
    let case = |file: &str| {
        let faults = findings.iter().filter(|finding| finding.file == file);
        let lines =
            faults.map(|finding| format!("line {}: {}: {}", finding.line, finding.fault.name(), finding.message));
        let lines = lines.collect::<Vec<_>>();
        output::Case {
            name: file.to_owned(),
            outcome: if lines.is_empty() {
                output::Outcome::Passed
            } else {
                output::Outcome::Failed(lines.join("\n"))
            },
        }
    };
    files.into_iter().map(case).collect()
}

impl Finding {
    /// In the form of all checks; `folder` stands before the file.
    pub fn told(&self, folder: &str) -> output::Finding {
        output::Finding {
            level: output::Level::Error,
            title: self.fault.name().to_owned(),
            message: self.message.clone(),
            place: Some((format!("{folder}{}", self.file), Some(self.line as u64))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;

    fn faults(topics: Vec<Topic>, index: &str) -> Vec<(String, Fault)> {
        let snapshot = Snapshot {
            topics,
            index: Some(index.to_owned()),
            ..Snapshot::default()
        };
        let secrets = |text: &str| text.contains("hunter2").then(|| "password".to_owned());
        let findings = check(&snapshot, &[], &Limits::default(), &secrets);
        findings
            .into_iter()
            .map(|finding| (finding.file, finding.fault))
            .collect()
    }

    fn topic(file: &str, name: &str) -> Topic {
        Topic::new(file, name, name, Kind::Feedback, name)
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
            Topic::read("e.md", 0, "---\nname: x\ndescription: y\ntype: recipe\n---\n"),
            Topic::read("f.md", 0, "---\nname: [\n---\n"),
        ];
        let index = "- [a](a.md) — x\n- [b](b.md) — x\n- [c](c.md) — x\n- [d](d.md) — x\n- [e](e.md) — x\n- [g](g.md) — x\n- [a](a.md) — x\n";
        let found = faults(topics, index);
        let expected = [
            ("MEMORY.md", Fault::BrokenLink),
            ("MEMORY.md", Fault::Duplicate),
            ("b.md", Fault::Contradiction),
            ("c.md", Fault::Contradiction),
            ("c.md", Fault::Duplicate),
            ("d.md", Fault::Secret),
            ("e.md", Fault::ForeignType),
            ("f.md", Fault::NotListed),
            ("f.md", Fault::Frontmatter),
        ];
        for (file, fault) in expected {
            assert!(
                found.contains(&(file.to_owned(), fault)),
                "{file} {fault:?} in {found:?}"
            );
        }
        assert_eq!(found.len(), expected.len(), "{found:?}");
        let long = faults(Vec::new(), &"text\n".repeat(300));
        assert_eq!(long, [("MEMORY.md".to_owned(), Fault::OverLimit)]);
    }

    #[test]
    fn annotations_are_escaped() {
        let finding = Finding {
            file: "a,b.md".into(),
            line: 3,
            fault: Fault::Secret,
            message: "x\n::error::y".into(),
        };
        assert_eq!(
            output::annotation(&finding.told("mem/")),
            "::error file=mem/a%2Cb.md,line=3,title=secret::x%0A::error::y\n"
        );
    }
}
